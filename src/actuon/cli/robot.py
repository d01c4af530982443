# SPDX-License-Identifier: Apache-2.0
"""``actuon init``, ``inspect``, ``check``, ``plot``, ``author`` and ``export``: commands on a robot's file."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

import actuon
from actuon.robot_files.formats import MUJOCO_FORMATS, YAML_FORMATS

from .messages import in_commands
from .options import Actuators, AllowTorch, File, Force, Json, OutputFile, Root, Seconds, Value
from .outputs import check_new
from .show import counted, make_console, print_inspected, print_problems, print_stability, say

CONDITIONS = Group.create_ordered("Conditions")
Kind = Literal["envelope", "step", "frequency", "friction", "heat", "recording"]


def init(robot: File, /, *, output: OutputFile | None = None, root: Root = None, force: Force = False) -> None:
    """Create an actuon.yaml from the gains and limits in a robot file.

    Each value carries its source as a comment. Gains that the file does not define are set to 0 and marked "to be set";
    `actuon check` fails until you fill them in. Joints of an MJCF or URDF file whose gains are unstable as explicit
    efforts at its time step get `effort_mode: auto`, by which the engine integrates them implicitly.

    Args:
        robot: MJCF, URDF or USD file.
        output: Output file. Default: ROBOT.actuon.yaml next to the robot, where Actuon finds it automatically.
    """
    from actuon.inspect.own_drives import read_own_drives
    from actuon.inspect.starting_yaml import save_starting_yaml
    from actuon.robot_source import find_source

    output = output or robot.parent / f"{robot.stem}.actuon.yaml"
    check_new(output, YAML_FORMATS, force)
    found = read_own_drives(find_source(robot, root=root).file, root)
    groups = save_starting_yaml(robot, found, output)
    notes = found.all_notes()
    if robot.suffix.lower() in MUJOCO_FORMATS and any(group.drives[0].is_complete for group in groups):
        actuon.quiet()
        notes += _made_stable(robot, root, found, output)
    count = sum(len(group.joints) for group in groups)
    console = make_console()
    print(f"wrote {counted(len(groups))} for {count} of {len(found.joints)} joints to {output}")
    to_set = [group.entry.name for group in groups if not group.drives[0].is_complete]
    if to_set:
        say(console, f"to be set: kp and kd of {', '.join(to_set)}; `actuon check {robot}` suggests gains")
    for note in notes:
        say(console, f"note: {note}")


def _made_stable(robot: Path, root: str | None, found: Any, output: Path) -> list[str]:
    """Write ``effort_mode: auto`` for unstable joints of a new file. Returns notes on them."""
    from actuon.inspect.starting_yaml import save_starting_yaml
    from actuon.robot_source import find_source
    from actuon.stability.advice import percent

    unstable: dict[str, str] = {}
    while True:
        result = _check(find_source(robot, root=root, actuators=output), None).result
        if result is None or result.stable:
            break
        further = {
            joint.name: f"At dt = {1e3 * checked.dt:g} ms, {joint.name} uses {percent(joint.usage)} of the stability "
            "limit of explicit efforts; auto makes it implicit."
            for checked in result.robots
            for joint in checked.joints
            if joint.usage >= 1.0 and joint.name not in unstable
        }
        if not further:
            return _lines(result.problems)
        unstable |= further
        save_starting_yaml(robot, found, output, unstable)
    if not unstable:
        return []
    return [f"effort_mode: auto written for {', '.join(unstable)}, whose gains are unstable as explicit efforts"]


def inspect(robot: File, /, *, root: Root = None, as_json: Json = False, allow_torch: AllowTorch = False) -> int:
    """Show every joint with its motor: value, unit and source.

    For an actuon.yaml, prints every entry. For a robot without actuators, prints the engine's own drives.

    Args:
        robot: Robot file (MJCF, URDF or USD) or actuon.yaml.
    """
    from actuon.inspect.report import inspect_file, without_gains
    from actuon.robot_source import find_source

    report = inspect_file(find_source(robot, allow_torch, root=root))
    problems = [in_commands(problem) for problem in report.problems]
    if as_json:
        print(json.dumps({"file": str(robot), **_plain(dataclasses.asdict(report)), "problems": problems}, indent=2))
    else:
        console = make_console()
        print_inspected(console, robot, report)
        print_problems(console, problems, [*getattr(report, "notes", ()), *without_gains(report)])
    return 1 if problems else 0


def check(
    robot: File,
    /,
    *,
    dt: Seconds | None = None,
    actuators: Actuators = (),
    root: Root = None,
    as_json: Json = False,
    allow_torch: AllowTorch = False,
) -> int:
    """Find errors and predict whether the robot is stable at its time step.

    Checks a robot's motors: configuration errors, missing gains, and numerical stability. For each joint, prints its
    effective inertia, the gains of the whole motor model, the used part of the stability limit (100 % = unstable) in
    the worst sampled pose, the largest stable gains, the delay margin, and the armature required. Nothing is simulated.

    Args:
        robot: MJCF, URDF or USD file, or an actuon.yaml next to one.
        dt: Time step. Default: that of the file.
        actuators: Check these motors instead; repeat to compare.
    """
    from actuon.robot_source import find_source
    from actuon.stability.report import check_dt

    check_dt("--dt", dt)
    actuon.quiet()
    checked = [_check(find_source(robot, allow_torch, file, root), dt) for file in actuators or (None,)]
    if as_json:
        reports = [own.as_dict(robot) for own in checked]
        print(json.dumps(reports[0] if len(reports) == 1 else {"compared": reports}, indent=2))
    else:
        console = make_console()
        for own in checked:
            say(console, own.motors_from)
            if own.result is not None and own.result.rows:
                print_stability(console, robot, own.result)
            print_problems(console, own.problems, own.notes)
    return 1 if any(own.problems for own in checked) else 0


@dataclass(frozen=True)
class _Checked:
    """Findings of `check` on one file with motors."""

    motors_from: str
    problems: list[str]
    notes: list[str]
    result: Any

    def as_dict(self, robot: Path) -> dict[str, Any]:
        """Return the findings for JSON."""
        stability = {"stable": None, "robots": []} if self.result is None else json.loads(self.result.to_json())
        texts = {"problems": self.problems, "warnings": self.notes}
        return {"file": str(robot), "motors_from": self.motors_from, **stability, **texts}


def _check(source: Any, dt: float | None) -> _Checked:
    """Check a robot with the motors of one file."""
    from actuon.inspect.check import check_stability
    from actuon.inspect.report import inspect_file, problems_of

    report = inspect_file(source)
    problems, notes, result = problems_of(report), list(getattr(report, "notes", ())), None
    if not report.problems:
        found = check_stability(source, dt, report)
        result, notes = found.result, found.notes
        problems += found.problems
    return _Checked(source.motors_from(), _lines(problems), _lines(notes), result)


def _lines(texts: Sequence[Any]) -> list[str]:
    return [in_commands(text) for text in texts]


@Parameter(name="*", group=CONDITIONS)
@dataclass(frozen=True, kw_only=True)
class PlotOptions:
    """Conditions under which motors are measured."""

    inertia: Value | None = None
    """Inertia of the load, in kg·m² or kg. Default: that of the robot."""
    dt: Seconds = 0.002
    """Time step of the controller."""
    position: Value = 0
    """Position of the joint, in rad or m."""
    step: Value = 0.1
    """Height of the step and amplitude of the sine, in rad or m."""
    effort: Value | None = None
    """Effort of the duty cycle, in N·m or N. Default: the largest at rest."""
    duty: Value = 0.5
    """Fraction of the period with that effort."""
    period: Seconds | None = None
    """Period of the duty cycle."""
    seconds: Seconds | None = None
    """Length of step response and duty cycle."""


def plot(
    *what: Annotated[Path, Parameter(name="WHAT...")],
    output: OutputFile = Path("actuators.png"),
    kind: Annotated[tuple[Kind, ...], Parameter(metavar="KIND", show_default=False)] = (),
    record: Annotated[tuple[Path, ...], Parameter(metavar="FILE", show_default=False)] = (),
    conditions: PlotOptions = PlotOptions(),
    actuators: Actuators = (),
    root: Root = None,
    force: Force = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Plot torque-speed envelope, response, friction, heating or a recording.

    Each motor model is measured on a joint with its load; nothing else moves.

    Args:
        what: Robot files, actuon.yaml files, names of motors, or recordings of runs (.npz, .csv). Several are compared.
        output: Image to write: .png, .svg or .pdf.
        kind: envelope, step, frequency, friction, heat or recording. Repeatable. Default: all that apply.
        record: Recording to draw into the envelope. Repeatable.
        actuators: Motors to plot instead of those of the robot; repeat to compare.
    """
    from actuon.actuator.trials import Conditions
    from actuon.charts import FORMATS, pyplot
    from actuon.errors import ParameterError
    from actuon.plot.kinds import PlotConditions
    from actuon.plot.pictures import save_pictures

    if not what:
        raise ParameterError("nothing to plot. Name robots, actuon.yaml files, motors or recordings")
    check_new(output, FORMATS, force)
    pyplot()
    actuon.quiet()
    c = conditions
    measured = Conditions(0.1, c.dt, c.position, c.step, c.effort, c.duty, c.period, c.seconds)
    console = make_console()
    for line in _motors_of(what, actuators, root, allow_torch):
        say(console, line)
    shown = save_pictures(what, output, kind, record, PlotConditions(measured, c.inertia), root, allow_torch, actuators)
    say(console, f"saved {output}: {shown}")


def _motors_of(what: Sequence[Path], actuators: Sequence[Path], root: str | None, allow_torch: bool) -> list[str]:
    """Say for each robot which file its motors are from."""
    from actuon.logs.records import FORMATS
    from actuon.robot_source import find_source

    named = [path for path in what if path.suffix.lower() not in FORMATS]
    sources = [find_source(path, allow_torch, file, root) for path in named for file in actuators or (None,)]
    return list(dict.fromkeys(source.motors_from() for source in sources))


def author(
    robot: File,
    actuators: File,
    /,
    *,
    output: OutputFile,
    root: Root = None,
    overwrite: bool = False,
    force: Force = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Write the motors of an actuon.yaml into a USD robot.

    Writes a copy of the robot file; in another folder, a USD layer that references it.

    Args:
        robot: USD file.
        actuators: actuon.yaml, or another robot whose motors to take.
        output: Robot file to write, with its motors.
        overwrite: Replace motors that the robot has already.
    """
    from actuon.inspect.report import actuators_of, open_usd
    from actuon.robot_files.usd.author import author_file
    from actuon.robot_files.usd.stage import default_root
    from actuon.robot_source import find_source

    stage, _ = open_usd(robot, root)
    check_new(output, force=force)
    found = actuators_of(find_source(actuators, allow_torch))
    root = root or str(default_root(stage).GetPath())
    prims = author_file(robot, found.entries, output, root, overwrite, allow_torch)
    print(f"wrote {len(prims)} actuators to {output}{found.origin and f', {found.origin}'}: {', '.join(prims)}")


def export(
    robot: File,
    /,
    *,
    output: OutputFile,
    root: Root = None,
    force: Annotated[bool, Parameter(name=("--force", "--overwrite"))] = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Export a robot's motors to an actuon.yaml.

    Reads the motors in the robot's file, or in the actuon.yaml next to it.

    Args:
        robot: Robot file (MJCF, URDF or USD) or actuon.yaml.
        output: actuon.yaml to write.
        force: Overwrite an existing file.
    """
    from actuon.inspect.report import actuators_of
    from actuon.robot_source import find_source

    check_new(output, YAML_FORMATS, force)
    found = actuators_of(find_source(robot, allow_torch, root=root))
    actuon.save_actuators(output, found.entries)
    print(f"wrote {counted(len(found.entries))} to {output}{found.origin and ', '}{found.origin}")


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: infinity is written as text."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
