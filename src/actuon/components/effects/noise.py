# SPDX-License-Identifier: Apache-2.0
r"""Noise of the effort, and a constant bias per DOF.

.. math::
    \tau \leftarrow \tau + \sigma_b\,z_i(0) + \sigma\,z_i(k),\qquad k = 1, 2, …

with standard normal numbers :math:`z` that depend only on seed, DOF :math:`i` and step :math:`k`: the noise is
reproducible on any device, after a saved state is loaded, and after a reset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import Number, Parameters, Whole, param
from ...typing import DeviceLike
from ..kinds import Effect

LAST_COUNT = wp.constant(16777215.0)
"""Last count of a state before it starts again."""


class Noise(Parameters):
    noise: Number = param("N·m", "Standard deviation of the noise of each step.", default=0.0, minimum=0.0)
    bias: Number = param("N·m", "Standard deviation of the constant offset of each DOF.", default=0.0, minimum=0.0)
    seed: Whole = param(
        "1", "Seed of the random numbers, which also differ by DOF.", default=0, minimum=0, integer=True
    )


@wp.func
def noise_law(effort: float, dof: float, steps: float, noise: float, bias: float, seed: int):
    stream = wp.randi(wp.rand_init(seed, int(dof)))
    count = wp.where(steps >= LAST_COUNT, 1.0, steps + 1.0)
    drawn = wp.randn(wp.rand_init(stream, int(count)))
    kept = wp.randn(wp.rand_init(stream, 0))
    return effort + bias * kept + noise * drawn, dof, count


class NoiseEffectConfig(Noise, Config):
    """Noise and bias of the effort.

    Examples:
        >>> effect = actuon.NoiseEffectConfig(noise=0.02, bias=0.1, seed=3)
    """

    schema = "ActuonNoiseEffectAPI"


class EffectNoise(Noise, Effect):
    """Normal noise of the effort in each step, and a bias of each DOF, drawn once.

    DOFs with the same seed have different noise. Without robots, another actuator with the same seed has the same
    noise.

    Examples:
        >>> effect = actuon.EffectNoise(noise=0.02, bias=0.1, seed=3)
    """

    config = NoiseEffectConfig
    law = noise_law
    STATES = ("dof", "steps")

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        """Copy the parameters to ``device``, and number the DOFs."""
        super().finalize(device, num_actuators)
        self.number_dofs(np.arange(num_actuators))

    def number_dofs(self, numbers: np.ndarray) -> None:
        """Number the DOFs, from the next reset on. DOFs with the same number and seed have the same noise.

        Args:
            numbers: Whole numbers below 2²⁴, shape (N,). Default: position in the actuator; on robots, position among
                all DOFs of all robots.
        """
        self._numbers = wp.array(numbers.astype(np.float32), device=self._device)

    def _first_value(self, name: str, value: float | str) -> Any:
        return (lambda: self._numbers) if name == "dof" else super()._first_value(name, value)
