# SPDX-License-Identifier: Apache-2.0
"""Friction that changes with speed or load, written to MuJoCo Warp at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import warp as wp

from ...components.math import JOINT_LOAD
from ...sim.mujoco.friction import SOFTNESS, warp_load_reader
from ...sim.mujoco.rows import PROPERTIES
from ..solved_by_engine import FRICTION
from .chains import EnvironmentMotors

if TYPE_CHECKING:
    from mjlab.sim import Simulation

FIELDS = {signal: PROPERTIES[name].of_dof for signal, name in FRICTION.items()}
"""Fields of the model by signal of stages. They must be expanded, with a value for each environment."""


class FrictionHandOver:
    """Friction of chains for the engine, and external loads of the engine for chains.

    Args:
        simulation: Simulation with expanded fields.
        chains: The chains.
        columns: Joints whose friction is written.
        dofs: Their DOFs in the model.
        fields: Fields of `FIELDS` that are written.
    """

    def __init__(
        self,
        simulation: Simulation,
        chains: EnvironmentMotors,
        columns: list[int],
        dofs: torch.Tensor,
        fields: Sequence[str],
    ):
        self._simulation, self._columns, self._dofs = simulation, columns, dofs
        self._signals = {field: chains.signals[signal] for signal, field in FIELDS.items() if field in fields}
        chains.friction_is_handed_over = True
        self._read: Callable[[], None] | None = None
        if JOINT_LOAD in chains.inputs:
            num_envs, width = chains.shape
            places = np.full((num_envs, simulation.mj_model.nv), -1, dtype=np.int32)
            places[:, dofs.cpu().numpy()] = np.arange(num_envs)[:, None] * width + np.array(columns)
            table = wp.array(places, device=chains.device)
            loads = wp.from_torch(chains.inputs[JOINT_LOAD]).flatten()
            self._read = warp_load_reader(simulation.wp_data, table, loads)

    def read_loads(self) -> None:
        """Read the external loads of the last step."""
        if self._read is not None:
            self._read()

    def hand_over(self) -> None:
        """Write the friction of this step to the engine."""
        for field, signal in self._signals.items():
            getattr(self._simulation.model, field)[:, self._dofs] = signal[:, self._columns]


def sharpen(simulation: Simulation, dofs: torch.Tensor) -> None:
    """Make dry friction of these DOFs as stiff as MuJoCo can."""
    for field, firm in SOFTNESS.items():
        values = torch.tensor(firm(simulation.mj_model.opt.timestep), device=dofs.device)
        getattr(simulation.model, field)[:, dofs] = values
