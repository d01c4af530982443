# SPDX-License-Identifier: Apache-2.0
"""Friction of chains that changes with speed or load, handed to MuJoCo Warp at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import warp as wp

from ...components.effects.friction import JOINT_LOAD
from ...sim.mujoco.friction import SOFTNESS, warp_load_reader
from ...sim.mujoco.rows import PROPERTIES
from ..engine_side import FRICTION
from .chains import EnvironmentChains

if TYPE_CHECKING:
    from mjlab.sim import Simulation

FIELDS = {signal: PROPERTIES[name].of_dof for signal, name in FRICTION.items()}
"""By the signal of stages, the field of the model, which must be expanded: one value for each environment."""


class FrictionHandOver:
    """Hands the friction that chains offer to the engine, and the loads that the engine tells to chains.

    Args:
        simulation: Whose fields are expanded.
        chains: The chains.
        columns: The joints whose friction is handed over.
        dofs: Their DOFs in the model.
        fields: Those of `FIELDS` that are handed over.
    """

    def __init__(
        self,
        simulation: Simulation,
        chains: EnvironmentChains,
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
        """Let chains see what pushed on joints in the last step."""
        if self._read is not None:
            self._read()

    def hand_over(self) -> None:
        """Give the engine the friction of this step."""
        for field, signal in self._signals.items():
            getattr(self._simulation.model, field)[:, self._dofs] = signal[:, self._columns]


def sharpen(simulation: Simulation, dofs: torch.Tensor) -> None:
    """Let dry friction of these DOFs hold as firmly as MuJoCo can."""
    for field, firm in SOFTNESS.items():
        values = torch.tensor(firm(simulation.mj_model.opt.timestep), device=dofs.device)
        getattr(simulation.model, field)[:, dofs] = values
