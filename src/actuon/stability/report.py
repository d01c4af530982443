# SPDX-License-Identifier: Apache-2.0
"""`check`: stability of a robot's actuators at a time step, with fixes if they are unstable."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..actuator.actuator import Actuator
from ..actuator.config import ActuatorConfig
from ..attach.articulation_actuators import ArticulationActuators, read_actuators, without_actuators
from ..attach.attachment import Attachment
from ..errors import ParameterError, RobotFileError, listed, shown
from ..files import check_readable
from ..kernel.chain import DERIVATIVES
from ..robot_files.formats import MUJOCO_FORMATS, USD_FORMATS, YAML_FORMATS
from ..robot_files.yaml import yaml_beside
from ..sim import Articulation, MujocoSimulation, NewtonSimulation, Simulation
from ..sim.mujoco.implicit_efforts import INTEGRATOR_CHANGED
from ..typing import PathLike
from .advice import ABSENT, advice, low_gains, milliseconds, number, percent, some, summary_line, without_warnings
from .limits import LONGEST_MARGIN, POSES, JointStability, RobotStability, stability_of

_ROBOT_FORMATS = (*MUJOCO_FORMATS, *USD_FORMATS)
SHORTEST_DT, LONGEST_DT = 1e-7, 1.0
"""Range of time steps that are accepted [s]."""
_SAG = 0.35
"""Static error under gravity that is reported [rad]: 20°."""
_WEAK = 0.1
"""Part of the motor's effort per radian of error below which gains of a robot with a free base are reported [1/rad]."""
_SLOWEST = 20.0
"""Acceleration of the armature alone by the motor below which it is reported [rad/s²]."""

COLUMNS = (
    "",
    "joint",
    "inertia",
    "kp",
    "kd",
    "kp·dt²/I",
    "kd·dt/I",
    "usage",
    "largest kp",
    "largest kd",
    "delay margin",
    "armature",
)
"""Column titles of `CheckResult.cells`."""
_LEGEND = (
    "units: kg·m², N·m/rad, N·m·s/rad; sliding joints: kg, N/m, N·s/m. usage: % of the stability limit in the worst "
    "pose; unstable from 100 %"
)
_ARROWS = {"kp": "kp, kd → suggested", "armature": "armature → minimum for stability"}


@dataclass(frozen=True)
class CheckResult:
    """Stability of the actuators of robots, with warnings.

    Examples:
        >>> result = actuon.check(actuon.assets.arm_mjcf, dt=0.01, poses=4)
        >>> result.stable, len(result.rows)
        (False, 7)
        >>> max(result.rows, key=lambda row: row.usage).name  # the first joint to become unstable
        'joint7'
    """

    robots: list[RobotStability]
    """One entry for each kind of robot."""
    warnings: list[str]
    """Findings other than instability: targets out of range, joints that sag."""
    suggested: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Gains to start from, ``kp`` and ``kd``, by joint; shown for joints without gains."""

    @property
    def rows(self) -> list[JointStability]:
        """Joints of all robots whose actuators apply efforts."""
        return [joint for robot in self.robots for joint in robot.joints]

    @property
    def stable(self) -> bool:
        """Whether all robots are stable in all poses that were examined."""
        return all(robot.is_stable for robot in self.robots)

    @property
    def problems(self) -> list[str]:
        """Advice for each unstable robot."""
        return [advice(robot) for robot in self.robots if not robot.is_stable]

    def cells(self) -> list[tuple[str, ...]]:
        """Return a row of text for each joint, with the columns `COLUMNS`.

        Examples:
            >>> result = actuon.check(actuon.assets.arm_mjcf, poses=4)
            >>> result.cells()[6][:5]
            ('✓', 'joint7', '0.0747', '150', '25')
        """
        return [
            _cells(joint, robot.dt) if joint.has_gains else _cells_without_gains(joint, self.suggested.get(joint.name))
            for robot in self.robots
            for joint in robot.joints
        ]

    def legend(self) -> str:
        """Return the units of the columns, and the meaning of arrows in `cells`.

        Examples:
            >>> actuon.check(actuon.assets.arm_mjcf, dt=0.01, poses=4).legend().split("; ")[-1]
            'armature → minimum for stability'
        """
        cells = self.cells()
        arrows = [text for name, text in _ARROWS.items() if any("→" in row[COLUMNS.index(name)] for row in cells)]
        return "; ".join((_LEGEND, *arrows))

    def table(self) -> str:
        """Return the result as text.

        Examples:
            >>> table = actuon.check(actuon.assets.arm_mjcf, poses=4).table()
            >>> table.splitlines()[0].split()[:4]
            ['joint', 'inertia', 'kp', 'kd']
        """
        rows = [COLUMNS, *self.cells()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
        lines = []
        for row in rows:
            sized = enumerate(zip(row, widths, strict=True))
            cells = [cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in sized]
            lines.append("  ".join(cells).rstrip())
        lines.append(self.legend())
        lines += [summary_line(robot) for robot in self.robots if robot.joints and robot.is_stable]
        lines += [f"! {warning}" for warning in self.warnings]
        lines += [f"✗ {problem}" for problem in self.problems]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return the result as JSON. Infinity is the text "inf"; values that do not apply are null.

        Examples:
            >>> import json
            >>> result = json.loads(actuon.check(actuon.assets.arm_mjcf, poses=4).to_json())
            >>> result["stable"], [joint["name"] for joint in result["robots"][0]["joints"]][:2]
            (True, ['joint1', 'joint2'])
        """
        robots = [dataclasses.asdict(robot) for robot in self.robots]
        found = {"stable": self.stable, "problems": self.problems, "warnings": self.warnings, "robots": robots}
        return json.dumps(_plain(found | {"suggested": self.suggested}), indent=2)


def check(
    robot: PathLike | Attachment,
    dt: float | None = None,
    *,
    actuators: Iterable[tuple[ActuatorConfig, str]] | None = None,
    poses: int = POSES,
    allow_unsafe_torch_checkpoints: bool = False,
) -> CheckResult:
    """Compute the stability usage of actuators from the engine's step and the response of the motor models.

    Args:
        robot: A robot's file with actuators in it or next to it: ``.xml``, ``.urdf`` and ``.mjb`` are read by MuJoCo,
            USD by Newton. Or the ``actuon.yaml`` next to a robot, or `ArticulationActuators` or `ActuatorGroups`.
        dt: Time step [s]. Default: that of the file, or of the simulation.
        actuators: Pairs of an actuator and the name of the DOF that it drives, instead of those of the file.
        poses: Number of poses to examine within the range of the joints, in addition to the present one.
        allow_unsafe_torch_checkpoints: As for `ArticulationActuators`.

    Raises:
        RobotFileError: The file cannot be read, or has no actuators.
        ParameterError: ``dt`` or ``poses`` is out of range.
        SimulationError: An effort is not finite, for example because a gain is NaN.

    Examples:
        >>> result = actuon.check(actuon.assets.arm_mjcf, poses=4)
        >>> result.stable
        True
        >>> actuon.check(actuon.assets.arm_mjcf, dt=0.01, poses=4).stable
        False
    """
    check_dt("dt", dt)
    if isinstance(poses, bool) or not isinstance(poses, (int, np.integer)) or poses < 0:
        raise ParameterError(f"poses: got {poses!r}; must be a whole number ≥ 0")
    if isinstance(robot, Attachment):
        if actuators is not None:
            raise ParameterError("actuators: only for a robot's file; these robots have theirs already")
        return _result([robot], dt, poses)
    if not isinstance(robot, (str, os.PathLike)):
        raise ParameterError(
            f"robot: got {type(robot).__name__}; must be the path of a robot's file, or actuators on robots"
        )
    with _opened(robot_file(Path(robot)), dt) as simulation, contextlib.ExitStack() as attached:
        found = []
        pairs = None if actuators is None else list(actuators)
        for articulation in _kinds_of(simulation):
            made = _attached(articulation, pairs, allow_unsafe_torch_checkpoints)
            if made is not None:
                attached.callback(made.close)
                found.append(made)
        if not found:
            raise without_actuators(_kinds_of(simulation)[0])
        return _result(found, dt, poses)


def check_dt(where: str, dt: Any) -> None:
    """Check a time step.

    Raises:
        ParameterError: It is not a number from `SHORTEST_DT` to `LONGEST_DT`. The message begins with ``where``.
    """
    is_number = isinstance(dt, (int, float, np.number)) and not isinstance(dt, bool)
    if dt is not None and not (is_number and SHORTEST_DT <= dt <= LONGEST_DT):
        raise ParameterError(f"{where}: got {shown(dt)}; must be a number from {SHORTEST_DT:g} to {LONGEST_DT:g} [s]")


def _attached(
    robot: Articulation, pairs: list[tuple[ActuatorConfig, str]] | None, allow_torch: bool
) -> ArticulationActuators | None:
    """Attach the actuators of a robot; return None if it has none."""
    if pairs is None:
        pairs = [(config, robot.dof_names[column]) for column, config in read_actuators(robot, allow_torch).items()]
    own = [(config, name) for config, name in pairs if name in robot.dof_names]
    return ArticulationActuators.from_actuators(robot.paths, own, simulation=robot.simulation) if own else None


def given_actuators(attachment: Attachment) -> list[Actuator]:
    """Return the actuators that apply efforts, without groups that are the engine's own drives."""
    models = getattr(attachment, "groups", None)
    if models is None:
        return attachment.actuators
    pairs = zip(attachment.actuators, models.values(), strict=True)
    return [actuator for actuator, model in pairs if not model.is_implicit_model]


def robot_file(path: Path) -> Path:
    """Return the robot file: ``path``, or the robot next to it if it is a YAML.

    Raises:
        RobotFileError: There is no such file.
    """
    check_readable(path, (*_ROBOT_FORMATS, *YAML_FORMATS))
    if path.suffix.lower() not in YAML_FORMATS:
        return path
    beside = [other for other in sorted(path.parent.iterdir()) if other.suffix.lower() in _ROBOT_FORMATS]
    own = [other for other in beside if (used := yaml_beside(other)) is not None and used.samefile(path)]
    by_format = sorted(own, key=lambda other: _ROBOT_FORMATS.index(other.suffix.lower()))
    if not by_format or len({other.stem for other in by_format}) > 1:
        what = f"several robot files next to {path.name}" if by_format else f"no robot file next to {path.name}"
        names = [other.name for other in beside]
        files = f". {listed(path.name, names, 'Files')}" if names else ""
        raise RobotFileError(f"{what}; name the robot's file{files}")
    return by_format[0]


@contextlib.contextmanager
def _opened(path: Path, dt: float | None) -> Iterator[Simulation]:
    simulation: Simulation
    if path.suffix.lower() in MUJOCO_FORMATS:
        simulation = MujocoSimulation(path, dt=dt)
    else:
        simulation = NewtonSimulation(path, dt=dt, device="cpu")
    engine = logging.getLogger("actuon.sim")
    engine.addFilter(_matters_here)
    try:
        with simulation, without_warnings():
            yield simulation
    finally:
        engine.removeFilter(_matters_here)


def _matters_here(record: logging.LogRecord) -> bool:
    """Filter out messages that do not matter if nothing is stepped."""
    return record.msg != INTEGRATOR_CHANGED


def _kinds_of(simulation: Simulation) -> list[Articulation]:
    """Return one articulation for each robot of the first environment."""
    return [Articulation(robot.path, simulation) for robot in simulation.robots if robot.env == 0]


def stability_on(attachment: Attachment, dt: float | None = None, poses: int = POSES) -> RobotStability:
    """Compute the stability usage of actuators on robots."""
    robots, actuators = attachment.articulation, given_actuators(attachment)
    implicit = {
        int(index) % robots.num_dofs
        for actuator in actuators
        if DERIVATIVES[1] in actuator.control_signal_attrs
        for index in actuator.effort_indices.numpy()
    }
    return stability_of(robots, actuators, dt, poses, implicit)


def _result(attached: Sequence[Attachment], dt: float | None, poses: int) -> CheckResult:
    robots, warnings = [], []
    for each in attached:
        found = stability_on(each, dt, poses)
        robots.append(found)
        warnings += [*_targets_out_of_range(each.articulation), *_sagging(found)]
    return CheckResult(robots, warnings)


def _targets_out_of_range(robots: Articulation) -> list[str]:
    targets = robots.get_dof_position_targets().numpy()[0]
    lower, upper = (side.numpy()[0] for side in robots.get_dof_limits())
    out = np.flatnonzero((targets < lower - 1e-4) | (targets > upper + 1e-4))
    if not out.size:
        return []
    named = [f"{robots.dof_names[i]} {number(targets[i])}, range {number(lower[i])} to {number(upper[i])}" for i in out]
    return [f"'{robots.paths[0]}': targets outside the range of their joints: {some(named)}"]


def _sagging(robot: RobotStability) -> list[str]:
    found = []
    for joint in robot.joints:
        unit = "N" if joint.slides else "N·m"
        most = max(-joint.lowest_effort, joint.highest_effort)
        if most <= 0.0:
            found.append(f"{joint.name}: the motor delivers no effort at rest; check its limits")
        elif joint.hold_effort is not None and not joint.lowest_effort <= joint.hold_effort <= joint.highest_effort:
            need = f"{number(abs(joint.hold_effort))} {unit}"
            found.append(
                f"{joint.name}: holding the start pose needs {need}, but the motor delivers at most {number(most)} "
                f"{unit} at rest: the joint will sag and stay saturated"
            )
        elif joint.largest_hold_effort is not None and joint.largest_hold_effort > most:
            need = f"{number(joint.largest_hold_effort)} {unit}"
            found.append(
                f"{joint.name}: holding some poses needs up to {need}, but the motor delivers at most "
                f"{number(most)} {unit} at rest: the joint will sag there"
            )
        elif not joint.slides and joint.kp > 0.0 and abs(joint.hold_effort or 0.0) > _SAG * joint.kp:
            found.append(
                f"{joint.name}: holding the start pose needs {number(abs(joint.hold_effort or 0.0))} {unit}, which kp "
                f"{number(joint.kp)} N·m/rad gives at an error of {number(abs(joint.hold_effort or 0.0) / joint.kp)} "
                f"rad; {low_gains(joint)}"
            )
        elif not joint.slides and joint.hold_effort is None and 0.0 < joint.kp < _WEAK * most < math.inf:
            found.append(
                f"{joint.name}: an error of 1 rad requests {percent(joint.kp / most)} of the motor's {number(most)} "
                f"{unit}; {low_gains(joint)}"
            )
        if not joint.slides and 0.0 < most < _SLOWEST * joint.armature:
            found.append(
                f"{joint.name}: an armature of {number(joint.armature)} kg·m² is large for a motor of {number(most)} "
                f"{unit}, which accelerates it alone by {number(most / joint.armature)} rad/s²; is it another motor's?"
            )
    return found


def _cells(joint: JointStability, dt: float) -> tuple[str, ...]:
    margin = "none" if joint.delay_margin is None else milliseconds(joint.delay_margin)
    if joint.delay_margin is not None and joint.delay_margin >= (LONGEST_MARGIN - 0.5) * dt:
        margin = f"> {margin}"
    needed = joint.armature_needed > joint.armature
    armature = number(joint.armature) + (f" → {number(joint.armature_needed)}" if needed else "")
    numbers = (joint.inertia, joint.kp, joint.kd, joint.stiffness_number, joint.damping_number)
    largest = (joint.largest_kp, joint.largest_kd)
    sign = "✓" if joint.usage < 1.0 else "✗"
    return (sign, joint.name, *map(number, numbers), percent(joint.usage), *map(number, largest), margin, armature)


def _cells_without_gains(joint: JointStability, suggested: Mapping[str, float] | None) -> tuple[str, ...]:
    """Return a row with the suggested gains."""
    gains = ["0" if suggested is None else f"0 → {number(suggested[name])}" for name in ("kp", "kd")]
    absent = [ABSENT] * (len(COLUMNS) - 6)
    return (ABSENT, joint.name, number(joint.inertia), *gains, *absent, number(joint.armature))


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
