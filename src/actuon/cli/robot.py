# SPDX-License-Identifier: Apache-2.0
"""The commands of ``actuon``."""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

import actuon
from actuon.errors import RobotFileError
from actuon.files import check_folder

from .fit import fit_app
from .messages import in_commands
from .options import AllowTorch
from .run import run
from .studio import bench
from .tables import (
    counted,
    make_console,
    print_entries,
    print_motor,
    print_motors,
    print_problems,
    print_report,
    print_stability,
)

app = typer.Typer(
    help="Actuators of robots: look at them, write them into a robot's file, take them out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(fit_app, name="fit")
app.command()(run)
app.command("studio")(bench)
app.command("bench", hidden=True)(bench)  # the former name, for one version

Described = Annotated[
    Path,
    typer.Argument(
        help="A robot, .usda, .usd, .usdc, .usdz, .xml, .urdf or .mjb, or an actuon.yaml.",
        show_default=False,
        readable=False,
    ),
]
Root = Annotated[
    str | None, typer.Option(help="Path of the robot's root prim, in USD. Default: the file's default prim.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(actuon.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print Actuon's version, and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def init(
    robot: Annotated[
        Path,
        typer.Argument(
            help="A robot: .usda, .usd, .usdc, .usdz, .xml, .urdf or .mjb.", show_default=False, readable=False
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where to write. Default: robot.actuon.yaml beside robot.xml.", readable=False
        ),
    ] = None,
    root: Root = None,
    force: Force = False,
) -> None:
    """Write a first actuon.yaml for a robot, from the drives, gains and limits of its own file.

    Each value has its source as a comment. What the file does not give is 0, and marked "to be set".
    """
    from actuon.inspect.own_drives import read_own_drives
    from actuon.inspect.starting_yaml import save_starting_yaml
    from actuon.robot_source import find_source

    output = output or robot.parent / f"{robot.stem}.actuon.yaml"
    _check_yaml(output)
    _check_new(output, force)
    found = read_own_drives(find_source(robot, root=root).file, root)
    groups = save_starting_yaml(robot, found, output)
    count = sum(len(group.joints) for group in groups)
    print(f"wrote {counted(len(groups))} for {count} of {len(found.joints)} joints to {output}")
    to_set = [group.entry.name for group in groups if not group.drives[0].is_complete]
    if to_set:
        print(f"to be set: kp and kd of {', '.join(to_set)}")
    for note in found.all_notes():
        print(f"note: {note}")


@app.command()
def inspect(
    robot: Described,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Print every joint with its actuator, each value with unit and source, and what is wrong.

    Of an actuon.yaml, every entry. Of a robot without actuators in or beside its file, the engine's own drives. The
    exit code is 1 where something is wrong, and 2 where the file cannot be read.
    """
    from actuon.inspect.report import YamlReport, inspect_file, without_gains
    from actuon.robot_source import find_source

    report = inspect_file(find_source(robot, allow_torch, root=root))
    problems = [in_commands(problem) for problem in report.problems]
    if as_json:
        print(json.dumps({"file": str(robot), **_plain(dataclasses.asdict(report)), "problems": problems}, indent=2))
    else:
        console = make_console()
        show = print_entries if isinstance(report, YamlReport) else print_report
        show(console, robot, report)
        print_problems(console, problems, [*getattr(report, "notes", ()), *without_gains(report)])
    if problems:
        raise typer.Exit(1)


@app.command()
def check(
    robot: Described,
    dt: Annotated[float | None, typer.Option(help="Time step, in seconds. Default: that of the file.")] = None,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Print what is wrong with a robot's actuators, what is left to be set, and how near they are to diverging.

    For each joint the inertia that it feels, the gains of its whole chain, the share of the stability limit that they
    use at the time step, and the largest gains. The exit code is 1 where something is wrong or unstable, and 2 where
    the file cannot be read.
    """
    from actuon.inspect.check import check_stability
    from actuon.inspect.report import inspect_file, problems_of
    from actuon.robot_source import find_source
    from actuon.stability.report import check_dt

    check_dt("--dt", dt)
    actuon.quiet()
    source = find_source(robot, allow_torch, root=root)
    report = inspect_file(source)
    problems, notes, result = problems_of(report), list(getattr(report, "notes", ())), None
    if not report.problems:
        found = check_stability(source, dt, report)
        result, notes = found.result, found.notes
        problems += found.problems
    problems, notes = ([in_commands(text) for text in texts] for texts in (problems, notes))
    if as_json:
        stability = {"stable": None, "robots": []} if result is None else json.loads(result.to_json())
        print(json.dumps({"file": str(robot), **stability, "problems": problems, "warnings": notes}, indent=2))
    else:
        console = make_console()
        if result is not None and result.rows:
            print_stability(console, robot, result)
        print_problems(console, problems, notes)
    if problems:
        raise typer.Exit(1)


motors = typer.Typer(
    help="Motors by name: what their vendors print, and what that becomes.", invoke_without_command=True
)
app.add_typer(motors, name="motors")


@motors.callback()
def _motors(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print_motors(make_console(), [actuon.find_motor(name) for name in actuon.motor_names()])


@motors.command("show")
def show_motor(
    name: Annotated[str, typer.Argument(help="Name of a motor, as  actuon motors  lists it.", show_default=False)],
) -> None:
    """Print the figures of a motor with their sources, and what each of them becomes."""
    print_motor(make_console(), actuon.find_motor(name))


@app.command()
def plot(
    what: Annotated[
        list[Path],
        typer.Argument(
            help="Robots, actuon.yaml files, names of motors, or records of runs (.npz, .csv). Several are compared.",
            show_default=False,
            readable=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The picture: .png, .svg or .pdf.", readable=False)
    ] = Path("actuators.png"),
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="envelope, step, frequency, friction, heat or record; may be repeated. Default: all that apply."
        ),
    ] = None,
    record: Annotated[
        list[Path] | None, typer.Option(help="A record of a run, drawn onto the envelope.", readable=False)
    ] = None,
    inertia: Annotated[float | None, typer.Option(help="Inertia of the load, in kg·m² or kg.")] = None,
    dt: Annotated[float, typer.Option(help="Time step of the controller, in seconds.")] = 0.002,
    position: Annotated[float, typer.Option(help="Position of the joint, in rad or m.")] = 0.0,
    step: Annotated[float, typer.Option(help="Height of the step, amplitude of the sine, in rad or m.")] = 0.1,
    effort: Annotated[
        float | None, typer.Option(help="Effort wanted in the duty cycle, in N·m or N. Default: the largest at rest.")
    ] = None,
    duty: Annotated[float, typer.Option(help="Share of the period for which it is wanted.")] = 0.5,
    period: Annotated[float | None, typer.Option(help="Period of the duty cycle, in seconds.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Length of step response and duty cycle.")] = None,
    root: Root = None,
    force: Force = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Draw what actuators can give at which speed, how they answer, rub and warm; or what they did in a record.

    Everything is measured on the chain of each actuator, at a joint with a load of its own.
    """
    from actuon.actuator.trials import Conditions
    from actuon.charts import FORMATS
    from actuon.plot.kinds import PlotConditions
    from actuon.plot.pictures import save_pictures

    if output.suffix.lower() not in FORMATS:
        raise RobotFileError(f"'{output}' has the format '{output.suffix}'; must be one of {', '.join(FORMATS)}")
    _check_new(output, force)
    check_folder(output.parent)
    actuon.quiet()
    conditions = PlotConditions(Conditions(0.1, dt, position, step, effort, duty, period, seconds), inertia)
    print(f"saved {output}: {save_pictures(what, output, kind or [], record or [], conditions, root, allow_torch)}")


def _check_new(output: Path, force: bool) -> None:
    if output.is_file() and not force:
        raise RobotFileError(f"'{output}' already exists; --force replaces it")


def _check_yaml(output: Path) -> None:
    if output.suffix.lower() not in (".yaml", ".yml"):
        raise RobotFileError(f"'{output}' has the format '{output.suffix}'; must be .yaml or .yml")


def _plain(value: Any) -> Any:
    """JSON has no infinity: it is written as text."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@app.command()
def author(
    robot: Annotated[
        Path, typer.Argument(help="A USD file: .usda, .usd, .usdc or .usdz.", show_default=False, readable=False)
    ],
    actuators: Annotated[
        Path,
        typer.Argument(
            help="An actuon.yaml, or another robot whose actuators to take.", show_default=False, readable=False
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the robot with its actuators.", readable=False)
    ],
    root: Root = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace actuators that the robot has already.")
    ] = False,
    force: Force = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Write the actuators of an actuon.yaml onto a robot.

    In the robot's own folder the output is a copy of its file, in another one a layer over it.
    """
    from actuon.inspect.report import actuators_of, open_usd
    from actuon.robot_files.usd.author import author_file
    from actuon.robot_files.usd.stage import default_root
    from actuon.robot_source import find_source

    stage, _ = open_usd(robot, root)
    _check_new(output, force)
    found = actuators_of(find_source(actuators, allow_torch))
    root = root or str(default_root(stage).GetPath())
    prims = author_file(robot, found.entries, output, root, overwrite, allow_torch)
    print(f"wrote {len(prims)} actuators to {output}{found.origin and f', {found.origin}'}: {', '.join(prims)}")


@app.command()
def export(
    robot: Described,
    output: Annotated[Path, typer.Option("--output", "-o", help="The actuon.yaml to write.", readable=False)],
    root: Root = None,
    force: Annotated[bool, typer.Option("--force", "--overwrite", help="Replace the file if it exists.")] = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Write the actuators of a robot into an actuon.yaml."""
    from actuon.inspect.report import actuators_of
    from actuon.robot_source import find_source

    _check_yaml(output)
    _check_new(output, force)
    found = actuators_of(find_source(robot, allow_torch, root=root))
    actuon.save_actuators(output, found.entries)
    print(f"wrote {counted(len(found.entries))} to {output}{found.origin and ', '}{found.origin}")


def _unwrapped(text: str) -> str:
    """Join the lines of each paragraph: Typer would break them again where the source does."""
    return "\n\n".join(" ".join(part.split()) for part in textwrap.dedent(text).split("\n\n")).strip()


for _command in (*app.registered_commands, *motors.registered_commands, *fit_app.registered_commands):
    assert _command.callback is not None
    _command.help = _unwrapped(_command.callback.__doc__ or "")
