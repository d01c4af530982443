# SPDX-License-Identifier: Apache-2.0
"""What pushes on joints from outside, as Newton's MuJoCo solver tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from ..mujoco.friction import external_loads
from ..mujoco.warp_loads import warp_load_reader


def load_reader(solver: Any, loads: wp.array) -> Callable[[], None]:
    """Return what writes the external load of each DOF in the last step [N·m or N] to ``loads``, at each call.

    Args:
        solver: A ``SolverMuJoCo``.
        loads: Flat, one for each DOF of Newton's model.
    """
    mujoco, _ = solver.import_mujoco()
    of_newton = solver.mjc_dof_to_newton_dof
    if solver.use_mujoco_cpu:
        return _native_reader(mujoco, solver.mj_data, of_newton.numpy()[0], loads.numpy())
    return warp_load_reader(solver.mjw_data, of_newton, loads)


def _native_reader(mujoco: Any, data: Any, dofs: np.ndarray, loads: np.ndarray) -> Callable[[], None]:
    has = dofs >= 0

    def read() -> None:
        loads[dofs[has]] = external_loads(mujoco, data)[has]

    return read
