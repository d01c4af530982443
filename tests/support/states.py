# SPDX-License-Identifier: Apache-2.0
"""Everything that a simulation in MuJoCo goes on from, as arrays to compare."""

from __future__ import annotations

import mujoco
import numpy as np

WHOLE = int(mujoco.mjtState.mjSTATE_INTEGRATION)


def state_of(model, data):
    """The integration state of an ``MjData``, shape (W,)."""
    state = np.zeros(mujoco.mj_stateSize(model, WHOLE))
    mujoco.mj_getState(model, data, state, WHOLE)
    return state


def states_of(simulation):
    """The integration state of each environment, shape (N, W)."""
    return simulation.save_state().engine[:, : mujoco.mj_stateSize(simulation.models[0], WHOLE)]


def plain_data(simulation):
    """An ``MjData`` of one's own in the state of each environment."""
    made = []
    for model, state in zip(simulation.models, states_of(simulation), strict=True):
        made.append(mujoco.MjData(model))
        mujoco.mj_setState(model, made[-1], state, WHOLE)
    return made


def model_bytes(simulation):
    """The model of each environment, with all its fields."""
    written = {}
    for model in (models := list(simulation.models)):
        if id(model) not in written:
            buffer = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
            mujoco.mj_saveModel(model, None, buffer)
            written[id(model)] = buffer.tobytes()
    return [written[id(model)] for model in models]
