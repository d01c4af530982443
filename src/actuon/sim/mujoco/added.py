# SPDX-License-Identifier: Apache-2.0
"""The model of a simulation, and actuators that are added to it while they are in use.

They are drives of joints that have a motor or nothing, and holders of derivatives of efforts. A compiled model cannot
grow, so it is compiled again from its `MjSpec`, with the new actuators last, and receives all values of the previous
one.
"""

from __future__ import annotations

import logging
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mujoco
import numpy as np

from ...errors import SimulationError
from .actuators import Actuators, Derivative
from .limits import Limits
from .model import ModelFields, joint_name

_GROUPS = 31
"""Groups of actuators that can be switched off."""

_STRUCTURE = ("id", "adr", "num")
"""Endings of fields with addresses, which keep the values of the compiled model."""

_CHOSEN_SLEEP = 3
"""Lowest ``tree_sleep_policy`` that users choose; lower ones follow from a tree's actuators."""

NO_COMPENSATION = (
    "%s has actuatorgravcomp and no actuators, without which MuJoCo leaves that out, and a compiled model gets none: "
    "pass its file or its MjSpec"
)
"""Warning for motors on a compiled model without actuators."""

_log = logging.getLogger("actuon.sim")

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
"""Attributes of an added actuator, independent of the model's default class."""


@dataclass(frozen=True)
class NewActuator:
    """An actuator to add to the joint of a DOF."""

    dof: int
    suffix: str
    """Suffix of its name, after that of the joint."""
    fields: Mapping[str, Any]
    """Attributes of an ``MjsActuator``, such as ``gaintype`` and ``gainprm``."""
    holds: Derivative | None = None
    """Derivative of an effort that it holds. None: it is a drive."""
    inputs: Sequence[tuple[float, float]] = ()
    """Lowest and highest value of each of its inputs. Default: infinite."""


def new_drive(
    dof: int,
    lower: float = -np.inf,
    upper: float = np.inf,
    group: int = 0,
    targets: Sequence[tuple[float, float]] = (),
) -> NewActuator:
    """Return a drive that follows both targets with ``kp·(q* − q) + kd·(q̇* − q̇)``, and both gains zero.

    Args:
        dof: The DOF.
        lower: Lowest effort [N·m or N].
        upper: Highest effort [N·m or N]. An infinite bound means no limit; MuJoCo takes both or none.
        group: A group of actuators that is enabled.
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


def new_derivative(dof: int, derivative: Derivative, group: int) -> NewActuator:
    """Return an actuator whose ``ctrl`` is a derivative of an effort. Its effort is ctrl·q or ctrl·q̇.

    Args:
        dof: The DOF.
        derivative: The variable of the derivative.
        group: A group of actuators that is enabled.
    """
    gains = np.zeros(mujoco.mjNGAIN)
    gains[1 if derivative is Derivative.BY_POSITION else 2] = 1.0
    fields = {
        "gaintype": mujoco.mjtGain.mjGAIN_AFFINE,
        "biastype": mujoco.mjtBias.mjBIAS_NONE,
        "dyntype": mujoco.mjtDyn.mjDYN_NONE,
        "gainprm": gains,
        "biasprm": np.zeros(mujoco.mjNBIAS),
        "group": group,
    }
    return NewActuator(dof, f"_derivative_{derivative.value}", fields, derivative)


def limited_range(lower: float, upper: float) -> tuple[bool, np.ndarray]:
    """Return whether ``lower`` to ``upper`` is a limit in a model, and its range there."""
    most = float(np.finfo(np.float32).max)
    limited = bool(np.isfinite([lower, upper]).any())
    return limited, np.clip([lower, upper], -most, most) if limited else np.zeros(2)


def with_actuators(spec: Any, model: Any, actuators: Sequence[NewActuator]) -> tuple[Any, Actuators]:
    """Return a model with further actuators, and its `Actuators`.

    Previous actuators keep their numbers and places in ``ctrl``; keyframes hold zero for the new ones. All values, such
    as gains, limits and options, are the present ones of ``model``.

    Args:
        spec: Spec of the model. It is copied.
        model: The model.
        actuators: Actuators to add, each on a joint of one DOF.

    Raises:
        SimulationError: The spec is not that of the model.
    """
    spec = spec.copy()
    try:
        _add(spec, model, actuators)
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
    derivatives = {i: new.holds for i, new in added if new.holds is not None}
    structure = Actuators(grown, [i for i, new in added if new.holds is None], derivatives)
    copy_values(model, grown)
    for i, new in added:
        for place, bounds in enumerate(new.inputs, start=int(grown.actuator_ctrladr[i])):
            grown.actuator_ctrllimited[place], grown.actuator_ctrlrange[place] = limited_range(*bounds)
    return grown, structure


def _has_changed(what: str) -> SimulationError:
    return SimulationError(
        f"no drive can be added to the model: its source has changed ({what}); make a new simulation"
    )


def _add(spec: Any, model: Any, actuators: Sequence[NewActuator]) -> None:
    taken = {model.actuator(i).name for i in range(model.nactuator)}
    joints = {joint.id: joint for joint in spec.joints}
    if not actuators:
        return
    if -1 in joints:  # only a compiled spec numbers its joints
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
        joints[joint].name = target  # a joint without a name gets its name in messages
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
    """Copy the values of a model with the same parts, which may have more or fewer actuators at the end."""
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


class ModelFollower(Protocol):
    """An object that adapts to new actuators at the end of a model."""

    def refresh(self) -> None:
        """Read values that users wrote, before the model changes."""

    def take_model(self) -> None:
        """Use the new model."""


class MujocoModel:
    """The model that all environments share, its actuators and their limits. Actuators may be added.

    Args:
        fields: The fields of the models of all environments.
        spec: Function that returns the `MjSpec` of the model; None if unknown.
    """

    def __init__(self, fields: ModelFields, spec: Callable[[], mujoco.MjSpec] | None):
        self.fields = fields
        self._spec = spec
        self.lifted: Counter[int] = Counter()
        """DOFs at whose joints MuJoCo clips nothing, with the number of users."""
        self.actuators = Actuators(fields.model)
        """Servos, motors and tendon drives of the model."""
        self.limits = Limits(self.actuators, self.lifted)
        self.compensates = bool(fields.model.jnt_actgravcomp.any())
        """Whether MuJoCo includes gravity compensation in the actuator efforts of each joint."""
        self.version = 0
        """Counts changes of the actuators."""
        self.limits_version = 0
        """Counts changes of limits of efforts."""
        self._follower: weakref.ref[ModelFollower] | None = None
        self._bare: tuple[mujoco.MjModel, Actuators] | None = None
        """The model without added actuators, and its `Actuators`, while some are added."""
        self._added: Sequence[NewActuator] = ()
        self._users = 0

    def tell(self, follower: ModelFollower) -> None:
        """Notify an object, held by a weak reference, before and after the actuators change."""
        self._follower = weakref.ref(follower)

    @property
    def can_grow(self) -> bool:
        """Whether actuators can be added."""
        return self._spec is not None

    def add(self, new: Sequence[NewActuator]) -> None:
        """Add actuators at the end. Previous ones keep their places and values."""
        assert self._spec is not None
        self.fields.gather_options()
        model, actuators = self.fields.model, self.actuators
        bare, _ = self._bare or (model, actuators)
        try:
            spec = self._spec()
        except ValueError as error:
            raise SimulationError(
                f"no drive can be added: {self.fields.where} cannot be read again: {' '.join(str(error).split())}"
            ) from error
        grown, structure = with_actuators(spec, bare, [*self._added, *new])
        copy_values(model, grown)
        self._bare, self._added = self._bare or (model, actuators), [*self._added, *new]
        self._take(grown, structure)

    def use(self) -> None:
        """Keep added actuators until `let_go` was called the same number of times."""
        self._users += 1

    def let_go(self) -> None:
        """Remove added actuators when no user is left."""
        self._users -= 1
        if self._users or self._bare is None:
            return
        self.fields.gather_options()
        model, actuators = self._bare
        self._bare, self._added = None, ()
        copy_values(self.fields.model, model)
        self._take(model, actuators)

    def keep_compensation(self, dof: int) -> Callable[[], None]:
        """Make MuJoCo add the gravity compensation of ``actuatorgravcomp``, which it leaves out without actuators.

        A model without actuators of its own gets one without effect, on the joint of a DOF.

        Returns:
            Function that ends this.
        """
        bare = self.fields.model if self._bare is None else self._bare[0]
        if not self.compensates or bare.nactuator:
            return lambda: None
        if not self.can_grow:
            _log.warning(NO_COMPENSATION, self.fields.where)
            return lambda: None
        if not self.fields.model.nactuator:
            self.add([new_derivative(dof, Derivative.BY_VELOCITY, self.free_group())])
        self.use()
        return self.let_go

    def _take(self, model: mujoco.MjModel, actuators: Actuators) -> None:
        follower = self._follower and self._follower()
        if follower:
            follower.refresh()
        self.fields.share(model)
        self.actuators, self.limits = actuators, Limits(actuators, self.lifted)
        self.version += 1
        self.limits_version += 1
        if follower:
            follower.take_model()

    def why_ignored(self, actuators: Iterable[int] = ()) -> str:
        """Return why MuJoCo ignores one of these actuators, or any; empty if it does not."""
        model, option = self.fields.model, self.fields.model.opt
        if option.disableflags & int(mujoco.mjtDisableBit.mjDSBL_ACTUATION):
            return "has actuation switched off in its <option>"
        off = int(option.disableactuator)
        if off == 2**_GROUPS - 1:
            return "has all groups of actuators switched off"
        for i in actuators if off else ():
            group = int(model.actuator_group[i])
            if 0 <= group < _GROUPS and off >> group & 1:
                name = model.actuator(i).name or i
                return f"has group {group} of actuators switched off in its <option>, that of '{name}'"
        return ""

    def free_group(self) -> int:
        """Return a group of actuators that is enabled. At least one is."""
        off = int(self.fields.model.opt.disableactuator)
        return next(group for group in range(_GROUPS) if not off >> group & 1)
