# SPDX-License-Identifier: Apache-2.0
"""Actuators that are added to a model: drives for joints that have a motor alone, or nothing, and holders of slopes.

A compiled model cannot grow. It is compiled anew from its `MjSpec`, with the new actuators last, and gets every value
of the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import SimulationError
from .drives import Drives, Slope
from .names import joint_name

_STRUCTURE = ("id", "adr", "num")
"""How fields end that say where things are, which a compiled model knows best."""

_CHOSEN_SLEEP = 3
"""The lowest ``tree_sleep_policy`` that a person chooses; those below follow from a tree's actuators."""

_PLAIN = {
    "gear": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    "ctrllimited": False,
    "forcelimited": False,
    "actlimited": False,
    "armature": 0.0,
    "damping": (0.0, 0.0, 0.0),
    "delay": 0.0,
    "nsample": 0,
}
"""What an added actuator is without more, whatever the model's default class says."""


@dataclass(frozen=True)
class NewActuator:
    """An actuator to add on the joint of a DOF."""

    dof: int
    suffix: str
    """What its name has after that of the joint."""
    fields: Mapping[str, Any]
    """Attributes of an ``MjsActuator``, such as ``gaintype`` and ``gainprm``."""
    holds: Slope | None = None
    """Which slope of an effort it holds. None: it is a drive."""
    inputs: Sequence[tuple[float, float]] = ()
    """Lowest and highest value of each of its inputs, infinite where any counts. Default: any."""


def new_drive(
    mujoco: Any,
    dof: int,
    lower: float = -np.inf,
    upper: float = np.inf,
    group: int = 0,
    targets: Sequence[tuple[float, float]] = (),
) -> NewActuator:
    """A drive that follows target position and velocity, with ``kp·(q* − q) + kd·(q̇* − q̇)``, and both gains zero.

    Args:
        mujoco: The module.
        dof: The DOF.
        lower: Lowest effort [N·m or N].
        upper: Highest effort [N·m or N]. An infinite bound means no limit; MuJoCo takes both or none.
        group: A group of actuators that is not switched off.
        targets: Lowest and highest target position [rad or m] and target velocity [rad/s or m/s]. Default: any.
    """
    inputs = int(mujoco.mjtCtrlInput.mjINPUT_POS) | int(mujoco.mjtCtrlInput.mjINPUT_VEL)
    fields: dict[str, Any] = {
        "gaintype": mujoco.mjtGain.mjGAIN_PID,
        "biastype": mujoco.mjtBias.mjBIAS_AFFINE,
        "dyntype": mujoco.mjtDyn.mjDYN_NONE,
        "ctrlspec": inputs,
        "gainprm": np.zeros(mujoco.mjNGAIN),
        "biasprm": np.zeros(mujoco.mjNBIAS),
        "group": group,
    }
    limited, bounds = limited_range(lower, upper)
    if limited:
        fields |= {"forcelimited": True, "forcerange": bounds}
    return NewActuator(dof, "_drive", fields, inputs=targets)


def new_slope(mujoco: Any, dof: int, slope: Slope, group: int) -> NewActuator:
    """An actuator whose ``ctrl`` is the slope of an effort by position or velocity: it pushes with ctrl·q, or ctrl·q̇.

    Args:
        mujoco: The module.
        dof: The DOF.
        slope: Which of both.
        group: A group of actuators that is not switched off.
    """
    gains = np.zeros(mujoco.mjNGAIN)
    gains[1 if slope is Slope.BY_POSITION else 2] = 1.0
    fields = {
        "gaintype": mujoco.mjtGain.mjGAIN_AFFINE,
        "biastype": mujoco.mjtBias.mjBIAS_NONE,
        "dyntype": mujoco.mjtDyn.mjDYN_NONE,
        "gainprm": gains,
        "biasprm": np.zeros(mujoco.mjNBIAS),
        "group": group,
    }
    return NewActuator(dof, f"_slope_{slope.value}", fields, slope)


def limited_range(lower: float, upper: float) -> tuple[bool, np.ndarray]:
    """Whether a model limits something to what is from ``lower`` to ``upper``, and the range that it then has."""
    most = float(np.finfo(np.float32).max)
    limited = bool(np.isfinite([lower, upper]).any())
    return limited, np.clip([lower, upper], -most, most) if limited else np.zeros(2)


def with_actuators(mujoco: Any, spec: Any, model: Any, actuators: Sequence[NewActuator]) -> tuple[Any, Drives]:
    """A model with further actuators, and its drives.

    Actuators of before keep their numbers and places in ``ctrl``; keyframes hold zero for the new ones. All values,
    as gains, limits, options, are those that ``model`` has now.

    Args:
        mujoco: The module.
        spec: What the model was compiled from. It is copied.
        model: The model.
        actuators: What to add, each on a joint of one DOF.

    Raises:
        SimulationError: The spec is not that of the model.
    """
    spec = spec.copy()
    try:
        _add(mujoco, spec, model, actuators)
        grown = spec.compile()
    except SimulationError:
        raise
    except (ValueError, RuntimeError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        raise SimulationError(f"no drive can be added to the model: {' '.join(str(error).split())}") from error
    sizes = ("nq", "nv", "na", "nbody", "njnt", "ngeom", "nsite", "ntendon", "neq", "nsensor", "nkey")
    changed = [name for name in sizes if getattr(grown, name) != getattr(model, name)]
    if grown.nactuator != model.nactuator + len(actuators):
        changed.append("nactuator")
    if changed:
        raise _has_changed(", ".join(changed))
    added = list(enumerate(actuators, start=model.nactuator))
    slopes = {i: new.holds for i, new in added if new.holds is not None}
    drives = Drives(mujoco, grown, [i for i, new in added if new.holds is None], slopes)
    copy_values(model, grown)
    for i, new in added:
        for place, bounds in enumerate(new.inputs, start=int(grown.actuator_ctrladr[i])):
            grown.actuator_ctrllimited[place], grown.actuator_ctrlrange[place] = limited_range(*bounds)
    return grown, drives


def _has_changed(what: str) -> SimulationError:
    return SimulationError(
        f"no drive can be added to the model: what it was made from has changed since ({what}); make a new simulation"
    )


def _add(mujoco: Any, spec: Any, model: Any, actuators: Sequence[NewActuator]) -> None:
    taken = {model.actuator(i).name for i in range(model.nactuator)}
    joints = {joint.id: joint for joint in spec.joints}
    if not actuators:
        return
    if -1 in joints:  # a spec that was never compiled has not numbered them
        spec.compile()
        joints = {joint.id: joint for joint in spec.joints}
    inputs = 0
    for new in actuators:
        joint = int(model.dof_jntid[new.dof])
        if joint not in joints:
            raise _has_changed("njnt")
        target, now = joint_name(model, joint), joints[joint].name
        if now != model.joint(joint).name:
            raise _has_changed(f"joint '{target}' is '{now}'")
        joints[joint].name = target  # one without a name has that by which it is called here
        name = f"{target}{new.suffix}"
        while name in taken:
            name += "_"
        taken.add(name)
        made = spec.add_actuator(name=name, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=target)
        for field, value in (_PLAIN | dict(new.fields)).items():
            setattr(made, field, value)
        inputs += max(1, int(new.fields.get("ctrlspec", 1)).bit_count())
    for key in spec.keys:
        if len(key.ctrl):
            key.ctrl = [*key.ctrl, *[0.0] * inputs]


def copy_values(source: Any, target: Any) -> None:
    """Give a model the values of another that has the same parts, but may have more or fewer actuators at the end."""
    for field in dir(source):
        is_structure = field.startswith(("name", "path", "_")) or field.endswith(_STRUCTURE)
        values: Any = None if is_structure else getattr(source, field)
        if field == "tree_sleep_policy":
            chosen = values >= _CHOSEN_SLEEP
            getattr(target, field)[chosen] = values[chosen]
        elif isinstance(values, np.ndarray):
            _copy_common(values, getattr(target, field))
    for part in ("opt", "stat"):
        _copy_attributes(getattr(source, part), getattr(target, part))
    for part in (name for name in dir(source.vis) if not name.startswith("_")):
        _copy_attributes(getattr(source.vis, part), getattr(target.vis, part))


def _copy_common(source: np.ndarray, target: np.ndarray) -> None:
    if source.ndim == target.ndim and source.size and target.size:
        common = tuple(slice(min(sizes)) for sizes in zip(source.shape, target.shape, strict=True))
        target[common] = source[common]


def _copy_attributes(source: Any, target: Any) -> None:
    for name in dir(source):
        value = getattr(source, name)
        if name.startswith("_") or callable(value):
            continue
        if isinstance(value, np.ndarray):
            getattr(target, name)[...] = value
        else:
            setattr(target, name, value)
