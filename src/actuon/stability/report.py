# SPDX-License-Identifier: Apache-2.0
"""`check`: whether a robot's actuators are stable at a time step, and what makes them stable."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..actuator.actuator import Actuator
from ..actuator.config import ActuatorConfig
from ..attach.articulation_actuators import ArticulationActuators, read_actuators, without_actuators
from ..attach.attachment import Attachment
from ..errors import ParameterError, RobotFileError, listed, shown
from ..files import check_readable
from ..kernel.chain import SLOPES
from ..robot_files.formats import MUJOCO_FORMATS, USD_FORMATS, YAML_FORMATS
from ..robot_files.yaml import yaml_beside
from ..sim import Articulation, MujocoSimulation, NewtonSimulation, Simulation
from ..sim.mujoco.tangents import INTEGRATOR_CHANGED
from ..typing import PathLike
from .limits import LONGEST_MARGIN, POSES, JointStability, RobotStability, stability_of

_ROBOT_FORMATS = (*MUJOCO_FORMATS, *USD_FORMATS)
SHORTEST_DT, LONGEST_DT = 1e-7, 1.0
"""Range of time steps that are accepted [s]."""
_SHOWN = 4
"""Most joints that a sentence names."""

COLUMNS = (
    "",
    "joint",
    "inertia",
    "kp",
    "kd",
    "kp·dt²/I",
    "kd·dt/I",
    "share",
    "largest kp",
    "largest kd",
    "delay margin",
    "armature",
)
"""Column titles of `CheckResult.cells`."""
UNITS = (
    "inertia and armature in kg·m², kp in N·m/rad, kd in N·m·s/rad; of joints that slide kg, N/m and N·s/m; share: of "
    "the stability limit, in the worst pose; armature → what would do"
)
"""Units of the columns."""


@dataclass(frozen=True)
class CheckResult:
    """Stability of the actuators of robots, with warnings."""

    robots: list[RobotStability]
    """One entry for each kind of robot."""
    warnings: list[str]
    """Findings other than instability: targets out of range, limits that always clip."""

    @property
    def rows(self) -> list[JointStability]:
        """Joints of all robots whose actuator gives the engine efforts."""
        return [joint for robot in self.robots for joint in robot.joints]

    @property
    def stable(self) -> bool:
        """Whether no robot diverges, in any of the poses examined."""
        return all(robot.is_stable for robot in self.robots)

    @property
    def problems(self) -> list[str]:
        """Advice for each unstable robot."""
        return [advice(robot) for robot in self.robots if not robot.is_stable]

    def cells(self) -> list[tuple[str, ...]]:
        """Return a row of text for each joint, as `COLUMNS`."""
        return [_cells(joint, robot.dt) for robot in self.robots for joint in robot.joints]

    def table(self) -> str:
        """Return the result as text."""
        rows = [COLUMNS, *self.cells()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
        lines = []
        for row in rows:
            sized = enumerate(zip(row, widths, strict=True))
            cells = [cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in sized]
            lines.append("  ".join(cells).rstrip())
        lines.append(UNITS)
        lines += [summary_line(robot) for robot in self.robots if robot.joints]
        lines += [f"! {warning}" for warning in self.warnings]
        lines += [f"✗ {problem}" for problem in self.problems]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return the result as JSON. Infinity is the text "inf"; what does not apply is null."""
        robots = [dataclasses.asdict(robot) for robot in self.robots]
        found = {"stable": self.stable, "problems": self.problems, "warnings": self.warnings, "robots": robots}
        return json.dumps(_plain(found), indent=2)


def check(
    robot: PathLike | Attachment,
    dt: float | None = None,
    *,
    actuators: Iterable[tuple[ActuatorConfig, str]] | None = None,
    poses: int = POSES,
    allow_unsafe_torch_checkpoints: bool = False,
) -> CheckResult:
    """Compute how near actuators are to diverging, from the engine's own step and the chains themselves.

    Args:
        robot: A robot's file with actuators in or beside it: ``.xml``, ``.urdf`` and ``.mjb`` are read by MuJoCo, USD
            by Newton; or its ``actuon.yaml``, beside it. Or `ArticulationActuators` or `ActuatorGroups` on robots.
        dt: Time step [s]. Default: that of the file, or of the simulation.
        actuators: Pairs of an actuator and the name of the DOF that it drives, in place of those of the file.
        poses: Number of poses to examine within the range of the joints, besides the present one.
        allow_unsafe_torch_checkpoints: As for `ArticulationActuators`.

    Raises:
        RobotFileError: The file cannot be read, or has no actuators.
        ParameterError: ``dt`` or ``poses`` is out of range.
        SimulationError: A chain gives an effort that is not finite, as with a gain of NaN.
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
    if pairs is not None:
        own = [(config, name) for config, name in pairs if name in robot.dof_names]
        return ArticulationActuators.from_actuators(robot.paths, own, simulation=robot.simulation) if own else None
    if not read_actuators(robot, allow_torch):
        return None
    return ArticulationActuators(robot.paths, simulation=robot.simulation, allow_unsafe_torch_checkpoints=allow_torch)


def given_actuators(attachment: Attachment) -> list[Actuator]:
    """Return the actuators whose efforts the engine gets, without groups that are the engine's own drives."""
    models = getattr(attachment, "groups", None)
    if models is None:
        return attachment.actuators
    pairs = zip(attachment.actuators, models.values(), strict=True)
    return [actuator for actuator, model in pairs if not model.is_implicit_model]


def robot_file(path: Path) -> Path:
    """Return the file of the robot itself: the one given, or the one next to its YAML.

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
        with simulation:
            yield simulation
    finally:
        engine.removeFilter(_matters_here)


def _matters_here(record: logging.LogRecord) -> bool:
    """Filter out messages that do not matter where nothing is stepped."""
    return record.msg != INTEGRATOR_CHANGED


def _kinds_of(simulation: Simulation) -> list[Articulation]:
    """Return one articulation for each robot of the first environment."""
    return [Articulation(robot.path, simulation) for robot in simulation.robots if robot.env == 0]


def stability_on(attachment: Attachment, dt: float | None = None, poses: int = POSES) -> RobotStability:
    """Compute how near actuators on robots are to diverging."""
    robots, actuators = attachment.articulation, given_actuators(attachment)
    implicit = {
        int(index) % robots.num_dofs
        for actuator in actuators
        if SLOPES[1] in actuator.control_signal_attrs
        for index in actuator.effort_indices.numpy()
    }
    return stability_of(robots, actuators, dt, poses, implicit)


def _result(attached: Sequence[Attachment], dt: float | None, poses: int) -> CheckResult:
    robots, warnings = [], []
    for each in attached:
        found = stability_on(each, dt, poses)
        robots.append(found)
        warnings += [*_targets_out_of_range(each.articulation), *_always_clipped(found)]
    return CheckResult(robots, warnings)


def summary_line(robot: RobotStability) -> str:
    """Return the stability of a robot in one line."""
    worst = max(robot.joints, key=lambda joint: joint.share)
    sign = "✓" if robot.is_stable else "✗"
    largest = "any dt" if math.isinf(robot.largest_dt) else f"dt up to {_milliseconds(robot.largest_dt)}"
    return (
        f"{sign} {robot.path}: {worst.name} uses {_number(robot.share)} of the stability limit at dt = "
        f"{_milliseconds(robot.dt)}; stable with {largest}"
    )


def advice(robot: RobotStability) -> str:
    """Return what makes an unstable robot stable, as a sentence."""
    unstable = sorted((joint for joint in robot.joints if joint.share >= 1.0), key=lambda joint: -joint.share)
    where = ""
    if robot.share_at_start < 1.0:
        where = f" in some poses, and {_number(robot.share_at_start)} where it stands now"
    names = _some([f"{joint.name} {_number(joint.share)}" for joint in unstable])
    return (
        f"'{robot.path}' is unstable at dt = {_milliseconds(robot.dt)}, so that it diverges, or chatters within its "
        f"limits: its gains use {_number(robot.share)} of the stability limit{where} ({names}). "
        + _remedies(robot, unstable)
    )


def why_diverged(robot: RobotStability, joint: str | None) -> str:
    """Return whether the gains explain that a joint diverged, and what to do, as a sentence."""
    found = next((each for each in robot.joints if each.name == joint), None)
    own = robot.share if found is None else found.share
    whose = "its gains use" if found is None else f"the gains of {joint} use"
    share = f"{whose} {_number(own)} of the stability limit at dt = {_milliseconds(robot.dt)}"
    if robot.is_stable:
        return (
            f"{share}, so the time step is not why: look for targets and efforts that jump, and for contacts that push"
        )
    unstable = [each for each in robot.joints if each.share >= 1.0]
    return f"{share}. {_remedies(robot, [found] if found in unstable else unstable)}"


def _remedies(robot: RobotStability, unstable: list[JointStability]) -> str:
    lowered = _some([f"{joint.name} {_gains(joint)}" for joint in unstable])
    unit = "kg" if unstable and all(joint.slides for joint in unstable) else "kg·m²"
    inertias = _some([f"{joint.name} {_number(joint.armature_needed)}" for joint in unstable])
    taken_in = "effort_mode: implicit, in which the engine takes the slopes of the actuators into its step"
    if unstable and all(joint.is_implicit for joint in unstable):
        taken_in = "an integrator that takes in slopes by position too, as MuJoCo's discrete does"
    return (
        f"One of these makes it stable: dt below {_milliseconds(robot.largest_dt)}; lower gains, up to {lowered}; an "
        f"armature [{unit}] of at least {inertias}; or {taken_in}"
    )


def _gains(joint: JointStability) -> str:
    return f"kp {_number(joint.largest_kp)} kd {_number(joint.largest_kd)}"


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def _targets_out_of_range(robots: Articulation) -> list[str]:
    targets = robots.get_dof_position_targets().numpy()[0]
    lower, upper = (side.numpy()[0] for side in robots.get_dof_limits())
    out = np.flatnonzero((targets < lower - 1e-4) | (targets > upper + 1e-4))
    if not out.size:
        return []
    named = [
        f"{robots.dof_names[i]} {_number(targets[i])}, range {_number(lower[i])} to {_number(upper[i])}" for i in out
    ]
    return [f"'{robots.paths[0]}': targets outside the range of their joints: {_some(named)}"]


def _always_clipped(robot: RobotStability) -> list[str]:
    found = []
    for joint in robot.joints:
        unit = "N" if joint.slides else "N·m"
        most = max(-joint.lowest_effort, joint.highest_effort)
        if most <= 0.0:
            found.append(f"{joint.name}: its limits let no effort through at rest")
        elif joint.hold_effort is not None and not joint.lowest_effort <= joint.hold_effort <= joint.highest_effort:
            need = f"{_number(abs(joint.hold_effort))} {unit}"
            found.append(
                f"{joint.name}: holding the start pose takes {need}, and its limits let {_number(most)} {unit} through "
                "at rest: it sinks, and is always clipped"
            )
        elif joint.largest_hold_effort is not None and joint.largest_hold_effort > most:
            need = f"{_number(joint.largest_hold_effort)} {unit}"
            found.append(
                f"{joint.name}: gravity takes up to {need} in some poses, and its limits let {_number(most)} {unit} "
                "through at rest: it sinks there"
            )
    return found


def _cells(joint: JointStability, dt: float) -> tuple[str, ...]:
    margin = "none" if joint.delay_margin is None else _milliseconds(joint.delay_margin)
    if joint.delay_margin is not None and joint.delay_margin >= (LONGEST_MARGIN - 0.5) * dt:
        margin = f"> {margin}"
    needed = joint.armature_needed > joint.armature
    armature = _number(joint.armature) + (f" → {_number(joint.armature_needed)}" if needed else "")
    numbers = (joint.inertia, joint.kp, joint.kd, joint.stiffness_number, joint.damping_number, joint.share)
    largest = (joint.largest_kp, joint.largest_kd)
    sign = "✓" if joint.share < 1.0 else "✗"
    return (sign, joint.name, *map(_number, numbers), *map(_number, largest), margin, armature)


def _number(value: float) -> str:
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
