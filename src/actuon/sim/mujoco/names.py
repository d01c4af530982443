# SPDX-License-Identifier: Apache-2.0
"""What things of a MuJoCo model are called: also those without a name."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import SimulationError, listed


def body_name(model: Any, body: int) -> str:
    """The name of a body; for one without, a name that no other has."""
    return model.body(body).name or _new_name(f"body{body}", {model.body(i).name for i in range(model.nbody)})


def joint_name(model: Any, joint: int) -> str:
    """The name of a joint; for one without, a name that no other has."""
    return model.joint(joint).name or _new_name(f"joint{joint}", {model.joint(i).name for i in range(model.njnt)})


def _new_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def find_keyframe(model: Any, keyframe: str | int | None, where: str) -> int:
    """The number of a keyframe; -1 for none.

    Args:
        model: The model.
        keyframe: Its name or number. None: ``"home"``, where the model has it.
        where: What to call the model in an error.

    Raises:
        SimulationError: There is no such keyframe.
    """
    names = [model.key(i).name for i in range(model.nkey)]
    if keyframe is None:
        return names.index("home") if "home" in names else -1
    if isinstance(keyframe, str) and keyframe and keyframe in names:
        return names.index(keyframe)
    is_number = isinstance(keyframe, (int, np.integer)) and not isinstance(keyframe, bool)
    if is_number and 0 <= int(keyframe) < len(names):
        return int(keyframe)
    if not names:
        raise SimulationError(f"keyframe: got {keyframe!r}, but {where} has no keyframes")
    known = listed(str(keyframe), [name for name in names if name], "keyframes") if any(names) else "none has a name"
    raise SimulationError(
        f"keyframe: got {keyframe!r}; must be the name of a keyframe of {where}, or its number from 0 to "
        f"{len(names) - 1}; {known}"
    )


def why_no_robot(mujoco: Any, model: Any) -> str:
    """Why a model has no robot whose joints could be driven."""
    if not model.njnt:
        return "it has no joints, so that nothing in it moves"
    kinds = {int(mujoco.mjtJoint.mjJNT_FREE): "free", int(mujoco.mjtJoint.mjJNT_BALL): "ball"}
    found = " and ".join(dict.fromkeys(kinds[int(kind)] for kind in model.jnt_type))
    reason = f"its joints are {found}, and none is a hinge or slide"
    if (model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_SITE)).any():
        reason += "; its actuators push at sites, as rotors do"
    return f"{reason}. Actuators here drive hinges and slides; step such a model with MuJoCo itself"
