# SPDX-License-Identifier: Apache-2.0
r"""Noise of the effort, and a bias that each DOF keeps.

.. math::
    \tau \leftarrow \tau + \sigma_b\,z_i(0) + \sigma\,z_i(k),\qquad k = 1, 2, …

with standard normal numbers :math:`z` that are functions of seed, DOF :math:`i` and step :math:`k` alone: the same run
gives the same noise, on any device, after a saved state is loaded, and after a reset.
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
"""The last whole number that a state counts to before it starts again."""


class Noise(Parameters):
    noise: Number = param("N·m", "Standard deviation of the noise of each step.", default=0.0, minimum=0.0)
    bias: Number = param("N·m", "Standard deviation of the constant offset of each DOF.", default=0.0, minimum=0.0)
    seed: Whole = param("1", "Picks the random numbers. Each DOF has its own.", default=0, minimum=0, integer=True)


@wp.func
def noise_law(effort: float, dof: float, steps: float, noise: float, bias: float, seed: int):
    stream = wp.randi(wp.rand_init(seed, int(dof)))
    count = wp.where(steps >= LAST_COUNT, 1.0, steps + 1.0)
    drawn = wp.randn(wp.rand_init(stream, int(count)))
    kept = wp.randn(wp.rand_init(stream, 0))
    return effort + bias * kept + noise * drawn, dof, count


class NoiseEffectConfig(Noise, Config):
    """Noise and bias of the effort."""

    schema = "ActuonNoiseEffectAPI"


class EffectNoise(Noise, Effect):
    """Normal noise of the effort in each step, and a bias of each DOF, so of each environment, drawn once.

    DOFs with the same seed get noise of their own nevertheless; beside robots, another actuator with the same seed gets
    the same.

    Examples:
        >>> effect = actuon.EffectNoise(noise=0.02, bias=0.1, seed=3)
    """

    config = NoiseEffectConfig
    law = noise_law
    STATES = ("dof", "steps")

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        """Bring the parameters onto ``device``, and number the DOFs."""
        super().finalize(device, num_actuators)
        self.number_dofs(np.arange(num_actuators))

    def number_dofs(self, numbers: np.ndarray) -> None:
        """Number the DOFs: those with the same number and seed have the same noise, from the next reset on.

        Args:
            numbers: Whole numbers below 2²⁴, shape (N,). By default DOFs are counted within the actuator; on robots,
                over all DOFs of all robots.
        """
        self._numbers = wp.array(numbers.astype(np.float32), device=self._device)

    def _first_value(self, name: str, value: float | str) -> Any:
        return (lambda: self._numbers) if name == "dof" else super()._first_value(name, value)
