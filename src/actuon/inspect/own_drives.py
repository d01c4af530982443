# SPDX-License-Identifier: Apache-2.0
"""Engine drives of the joints in a robot's file: gains and limits, each with its source."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Container, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from actuon.actuator.config import ActuatorConfig, Part
from actuon.components.controllers.pd import PDControlConfig
from actuon.components.delay_low_pass import LowPassDelayConfig
from actuon.components.delay_time import InterpolatedDelayConfig, TimeDelayConfig
from actuon.components.effects.current_loop import CurrentLoopEffectConfig
from actuon.components.limits.max_effort import MaxEffortClampingConfig
from actuon.declare.parameters import rounded
from actuon.errors import Fix, RobotFileError, located
from actuon.files import check_readable
from actuon.robot_files.formats import USD_FORMATS
from actuon.robot_source import ROBOT_FORMATS, ROOT

if TYPE_CHECKING:
    from pxr import Usd

    from actuon.robot_files.usd.report import JointReport

_SHOWN_NAMES = 3
_BANDWIDTH = 2.0 * math.pi * 6.0
"""Natural frequency of suggested gains [rad/s]: enough for most motions of arms and legs, within reach of gears."""
_DAMPING_RATIO = 0.7
_FULL_EFFORT = 0.5
"""Position error [rad or m] at which suggested gains request the largest effort."""
_USAGE = 0.5
"""Largest stability usage of suggested gains."""


@dataclass(frozen=True)
class SourcedValue:
    """A value and its source: the text ``what``, with ``{}`` for the name ``whose``."""

    value: float
    what: str
    whose: str = ""


def source_of(alike: list[SourcedValue]) -> str:
    """Return the common source of equal values, in words."""
    names = list(dict.fromkeys(given.whose for given in alike))
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return alike[0].what.replace("{}", ", ".join(f"'{name}'" for name in names[:_SHOWN_NAMES]) + more)


@dataclass(frozen=True)
class OwnDrive:
    """Engine drive of a joint in its file."""

    kp: SourcedValue
    """[N·m/rad or N/m]. Zero if the file has none."""
    kd: SourcedValue
    """[N·m·s/rad or N·s/m]. Zero if the file has none."""
    effort: SourcedValue | None = None
    """Largest effort [N·m or N]."""
    speed: SourcedValue | None = None
    """Largest speed [rad/s or m/s]."""
    reduction: SourcedValue | None = None
    """Turns of the motor per turn of the joint [1]. All values here are on the joint side."""
    delay: SourcedValue | None = None
    """Delay of targets [s]."""
    interpolates: bool = False
    """Whether delayed targets are interpolated."""
    shortest_dt: SourcedValue | None = None
    """Shortest time step of the delay, if its buffer must be longer than by default [s]."""
    low_pass: SourcedValue | None = None
    """Time constant of a low-pass filter of the targets [s]."""
    lag: SourcedValue | None = None
    """Time constant of the effort [s]. A drive has one of the two at most."""

    @property
    def config(self) -> ActuatorConfig:
        """The drive as an actuator."""
        stages: list[Part] = []
        if self.delay is not None:
            late = InterpolatedDelayConfig if self.interpolates else TimeDelayConfig
            delay = late(self.delay.value)
            if self.shortest_dt is not None:
                delay = dataclasses.replace(delay, shortest_dt=self.shortest_dt.value)
            stages.append(delay)
        if self.low_pass is not None:
            stages.append(LowPassDelayConfig(self.low_pass.value))
        stages.append(PDControlConfig(self.kp.value, self.kd.value))
        if self.effort is not None:
            stages.append(MaxEffortClampingConfig(self.effort.value))
        if self.lag is not None:
            stages.append(CurrentLoopEffectConfig(self.lag.value))
        return ActuatorConfig(stages=stages)

    @property
    def alike(self) -> Hashable:
        """Key that is equal for drives with equal values from sources of one kind."""
        limits = (self.effort, self.speed, self.reduction)
        parts = (self.kp, self.kd, *limits, self.delay, self.shortest_dt, self.low_pass, self.lag)
        return self.interpolates, *(part and (part.value, part.what) for part in parts)

    @property
    def is_complete(self) -> bool:
        """Whether the file has gains for the drive."""
        return bool(self.kp.value or self.kd.value)


@dataclass(frozen=True)
class OwnJoint:
    """A joint with one DOF, and its drive."""

    name: str
    path: str
    slides: bool
    drive: OwnDrive | None
    why_not: str = ""
    """Why the joint has no drive."""
    load: float | None = None
    """Effective inertia without its own armature, the smallest of the poses of `check` [kg·m² or kg]; None if
    unknown."""
    armature: float = 0.0
    """Armature in the file [kg·m² or kg]."""
    damping: float = 0.0
    """Viscous damping in the file [N·m·s/rad or N·s/m]."""
    through_tendon: bool = False
    """Whether a tendon moves the joint."""

    def suggested_gains(self, dt: float | None, effort: float | None = None) -> dict[str, float] | None:
        """Return a ``kp`` and ``kd`` to start from; None if there is neither an inertia nor an effort limit.

        A bandwidth of 6 Hz, or less if the effort limit is reached within 0.5 rad, or if the gains would use more than
        half of the stability limit at the time step.

        Args:
            dt: Time step [s].
            effort: Largest effort of the motor [N·m or N]. Default: that of the robot's file.
        """
        if effort is None and self.drive is not None and self.drive.effort is not None:
            effort = self.drive.effort.value
        if self.load is None and not effort:
            return None
        kp = math.inf if not effort else effort / _FULL_EFFORT
        inertia = kp / _BANDWIDTH**2 if self.load is None else self.load + self.armature
        frequency = min(_BANDWIDTH, math.sqrt(kp / inertia))
        if dt is not None:  # 2ζωh + (ωh)²/2 = 2·usage, solved for ωh
            most = 2.0 * _USAGE
            frequency = min(frequency, (math.sqrt(4.0 * _DAMPING_RATIO**2 + 2.0 * most) - 2.0 * _DAMPING_RATIO) / dt)
        gains = {"kp": inertia * frequency**2, "kd": 2.0 * _DAMPING_RATIO * inertia * frequency}
        return {name: float(f"{value:.2g}") for name, value in gains.items()}

    @property
    def alike(self) -> Hashable:
        """Key that is equal for joints which one entry of an ``actuon.yaml`` can describe; None without a drive."""
        return None if self.drive is None else (self.slides, self.drive.alike)


@dataclass(frozen=True)
class OwnDrives:
    """Engine drives of the joints in a robot's file."""

    joints: list[OwnJoint]
    has_drives: bool
    """Whether the file drives any joint. Otherwise every joint has a drive without gains."""
    notes: list[str] = field(default_factory=list)
    """Notes on the drives."""
    dt: float | None = None
    """Time step of the model [s]."""

    def check_names(self, path: Path) -> None:
        """Raise an error if an ``actuon.yaml`` cannot distinguish the robots of one file.

        Raises:
            RobotFileError: Joints of the same name have different drives.
        """
        first: dict[str, OwnJoint] = {}
        for joint in self.joints:
            other = first.setdefault(joint.name, joint)
            if joint.alike != other.alike:
                raise RobotFileError(
                    f"'{path}' holds several robots: {other.path} and {joint.path} have the same name, "
                    f"'{joint.name}', and different drives, which an actuon.yaml cannot tell apart. Name one robot ",
                    fix=Fix("by its root prim", "with --root"),
                )

    def all_notes(self) -> list[str]:
        """Return the notes, with that on reductions."""
        geared = self.geared([joint.name for joint in self.joints if joint.drive is not None])
        return [*self.notes, *([geared] if geared else [])]

    def geared(self, names: Container[str]) -> str | None:
        """Return a note on reductions of these joints that no stage has; None if there are none."""
        found = [
            f"{joint.name} {joint.drive.reduction.value:g} ({source_of([joint.drive.reduction])})"
            for joint in self.joints
            if joint.name in names and joint.drive is not None and joint.drive.reduction is not None
        ]
        if not found:
            return None
        return (
            f"the file has reductions between motor and joint, but no values of the motors: {', '.join(found)}. Gains "
            "and limits are on the joint side; with values of the motor, add a gear of this ratio, and limits after it "
            "are on the motor side"
        )


def read_own_drives(path: Path, root: str | None = None) -> OwnDrives:
    """Return the engine drives of a robot's file. Actuators in it or next to it are ignored.

    Args:
        path: USD, MJCF or URDF.
        root: Path of the robot's root prim, in USD. Default: the file's default prim.

    Raises:
        RobotFileError: The file cannot be read, or has no robot with joints.
    """
    check_readable(path, ROBOT_FORMATS)
    if path.suffix.lower() in USD_FORMATS:
        return _read_usd(path, root)
    if root is not None:
        raise RobotFileError(f"names a prim in a USD file; '{path}' has none", option=ROOT)
    from .mujoco_drives import read_mujoco

    return read_mujoco(path)


def gain(value: float, what: str, whose: str) -> SourcedValue:
    """Return a gain of a file; zero if no PD controller can have it."""
    if 0.0 <= value < math.inf:
        return SourcedValue(rounded(value), what, whose)
    return SourcedValue(0.0, f"to be set: {what} has {value:g}, must be finite and ≥ 0", whose)


def limit(value: float, what: str, whose: str) -> SourcedValue | None:
    """Return a limit of a file; None if it does not limit."""
    return SourcedValue(rounded(value), what, whose) if 0.0 <= value < math.inf else None


def no_gain(reason: str, whose: str = "") -> SourcedValue:
    """Return a gain of zero, to be set by the user."""
    return SourcedValue(0.0, f"to be set: {reason}", whose)


def _read_usd(path: Path, root: str | None) -> OwnDrives:
    from actuon.robot_files.usd.report import inspect_actuators, is_linear
    from actuon.robot_files.usd.stage import default_root, find_prim, names_in_robots, open_stage

    stage = open_stage(path)
    if root is None:
        prim = default_root(stage)
    else:
        with located(ROOT):
            prim = find_prim(stage, root)
    report = inspect_actuators(prim)
    names = names_in_robots(prim)
    if not names:
        raise RobotFileError(f"'{path}' holds no robot: '{prim.GetPath()}' has no joint that can be driven")
    has_drives = any(joint.drive is not None for joint in report.joints)
    joints = []
    for joint in report.joints:
        driven = joint.drive is not None or not has_drives
        drive = _usd_drive(joint, stage) if driven else None
        why_not = "" if drive is not None else "no PhysicsDriveAPI, which others have"
        joints.append(OwnJoint(names[joint.path], joint.path, is_linear(joint), drive, why_not))
    notes = list(report.notes)
    if any(joint.actuators for joint in report.joints):
        notes.append(
            "the file contains actuators, which take precedence over a YAML next to it; `actuon export` writes them to "
            "a YAML"
        )
    chosen = {joint.path for joint in joints}
    driven_names = {joint.name for joint in joints if joint.drive is not None}
    everyone = names_in_robots(stage.GetPseudoRoot())
    others = [other for other, name in everyone.items() if name in driven_names and other not in chosen]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        notes.append(f"a YAML next to the file also drives joints of the same names in other robots: {others[0]}{more}")
    return OwnDrives(joints, has_drives, notes)


def _usd_drive(joint: JointReport, stage: Usd.Stage) -> OwnDrive:
    """The drive of a joint, in SI units, and the speed limit that Newton or PhysX schemas give it."""
    from actuon.robot_files.usd.report import ACCELERATION_DRIVE, is_linear
    from actuon.robot_files.usd.stage import dofs_of, joint_of, units_of

    prim = stage.GetPrimAtPath(joint_of(joint.path))
    axis = next(dof.drive for dof in dofs_of(prim) if dof.path == joint.path)
    slides, units = is_linear(joint), units_of(stage)
    converted = "" if units.are_si else ", in the file's units,"
    unit = converted if slides else ", per degree in the file," if units.are_si else ", per degree in the file's units,"
    speed = None
    for name in ("newton:velocityLimit", "physxJoint:maxJointVelocity"):
        number = _number(prim, name)
        if number is not None and speed is None:
            moved = f"{name}{converted if slides else ''} of {{}}"
            speed = limit(number * units.length if slides else math.radians(number), moved, joint.name)
    if joint.drive is None:
        none = no_gain("no drive in the file")
        return OwnDrive(none, none, None, speed)
    values = {value.name: (value.value, value.source) for value in joint.drive.values}
    place = f"drive:{axis}:physics"
    largest = float(values["maxForce"][0])  # type: ignore[arg-type]
    effort = limit(largest, f"{place}:maxForce{converted} of {{}}", joint.name)
    if joint.drive.name == ACCELERATION_DRIVE:
        numbers = f"stiffness {values['stiffness'][0]:g} 1/s² and damping {values['damping'][0]:g} 1/s"
        none = no_gain(f"an acceleration drive at {{}}, {numbers}, each times the inertia that it moves", joint.name)
        return OwnDrive(none, none, effort, speed)
    given = []
    for name in ("stiffness", "damping"):
        value, source = values[name]
        what = f"{place}:{name}{unit} of {{}}" if source == "authored" else f"{source} of {place}:{name} of {{}}"
        given.append(gain(float(value), what, joint.name))  # type: ignore[arg-type]
    if not any(each.value for each in given):
        given = [no_gain("no stiffness and no damping in the drive of {}", joint.name)] * 2
    return OwnDrive(given[0], given[1], effort, speed)


def _number(prim: object, name: str) -> float | None:
    attribute = prim.GetAttribute(name)  # type: ignore[attr-defined]
    value = attribute.Get() if attribute else None
    return float(value) if isinstance(value, (int, float)) else None
