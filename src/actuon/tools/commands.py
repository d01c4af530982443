# SPDX-License-Identifier: Apache-2.0
"""The commands of ``actuon``."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

import actuon
from actuon.attach.recorder import FORMATS as RECORDS
from actuon.errors import RobotFileError
from actuon.files import check_folder, check_readable

from .messages import complain, in_commands
from .tables import make_console, print_entries, print_problems, print_report, print_runs

app = typer.Typer(
    help="Actuators of robots: look at them, write them into a robot's file, take them out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

YAML = (".yaml", ".yml")
Robot = Annotated[
    Path, typer.Argument(help="A USD file: .usda, .usd, .usdc or .usdz.", show_default=False, readable=False)
]
Root = Annotated[str | None, typer.Option(help="Path of the robot's root prim. Default: the file's default prim.")]
AllowTorch = Annotated[
    bool, typer.Option("--allow-torch", help="Trust .pt and .pt2 networks that the file names: loading can run code.")
]


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
def inspect(
    robot: Annotated[
        Path,
        typer.Argument(
            help="A USD file, .usda, .usd, .usdc or .usdz, or an actuon.yaml.", show_default=False, readable=False
        ),
    ],
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Print every joint with its actuator, each value with unit and source, and what is wrong.

    Of an actuon.yaml, every entry. The exit code is 1 where something is wrong, and 2 where the file cannot be read.
    """
    report, show = _look(robot, root, allow_torch)
    problems = [in_commands(problem) for problem in report.problems]
    if as_json:
        print(json.dumps({"file": str(robot), **_plain(dataclasses.asdict(report)), "problems": problems}, indent=2))
    else:
        console = make_console()
        show(console, robot, report)
        print_problems(console, problems)
    if problems:
        raise typer.Exit(1)


def _look(robot: Path, root: str | None, allow_torch: bool) -> tuple[Any, Any]:
    """What a file says, and what prints it."""
    from actuon.robot_files.usd.stage import FORMATS

    check_readable(robot, (*FORMATS, *YAML))
    if robot.suffix.lower() not in YAML:
        _stage, place = _open(robot, root)
        return actuon.inspect_actuators(place, allow_torch), print_report
    if root is not None:
        raise RobotFileError(f"--root: names a prim in a USD file; '{robot}' has none")
    from .yaml_report import inspect_yaml

    return inspect_yaml(robot, allow_torch), print_entries


def _open(robot: Path, root: str | None) -> tuple[Any, Any]:
    """The stage of a USD file, which must be kept, and what to look at: the prim that --root names, or all of it."""
    from actuon.robot_files.usd.stage import find_prim, open_stage

    stage = open_stage(robot)
    if root is None:
        return stage, stage
    try:
        return stage, find_prim(stage, root)
    except RobotFileError as error:
        raise RobotFileError(f"--root: {error}") from error


def _plain(value: Any) -> Any:
    """JSON has no infinity: it is written as text."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@app.command()
def author(
    robot: Robot,
    actuators: Annotated[Path, typer.Argument(help="An actuon.yaml.", show_default=False, readable=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the robot with its actuators.", readable=False)
    ],
    root: Root = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace actuators that the robot has already.")
    ] = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Write the actuators of an actuon.yaml onto a robot.

    In the robot's own folder the output is a copy of its file, in another one a layer over it.
    """
    from actuon.robot_files.usd.stage import default_root
    from actuon.robot_files.usd.transfer import author_file

    stage, _ = _open(robot, root)
    root = root or str(default_root(stage).GetPath())
    prims = author_file(robot, actuators, output, root, overwrite, allow_torch)
    print(f"wrote {len(prims)} actuators to {output}: {', '.join(prims)}")


@app.command()
def export(
    robot: Robot,
    output: Annotated[Path, typer.Option("--output", "-o", help="The actuon.yaml to write.", readable=False)],
    root: Root = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there already.")] = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Write the actuators of a robot into an actuon.yaml."""
    if output.suffix not in YAML:
        raise RobotFileError(f"'{output}' has the format '{output.suffix}'; must be .yaml or .yml")
    if output.is_file() and not overwrite:
        raise RobotFileError(f"'{output}' is there already; --overwrite replaces it")
    _stage, place = _open(robot, root)
    entries = actuon.export_actuators(place, allow_torch)
    if not entries:
        raise RobotFileError(f"'{robot}' has no actuators")
    actuon.save_actuators(output, entries)
    print(f"wrote {len(entries)} entries to {output}")


@app.command()
def run(
    robot: Annotated[
        Path,
        typer.Argument(help="A USD or MJCF file with actuators in or beside it.", show_default=False, readable=False),
    ],
    engine: Annotated[str | None, typer.Option(help="mujoco or newton. Default: the one that reads the file.")] = None,
    envs: Annotated[int, typer.Option(min=1, help="How many copies of the robot.")] = 1,
    seconds: Annotated[float, typer.Option(min=0.01, help="How long to move it, in seconds.")] = 6.0,
    record: Annotated[
        Path | None, typer.Option(help="Save the run with real motors as .npz or .csv.", readable=False)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the plots.", readable=False)] = Path("out"),
    allow_torch: AllowTorch = False,
) -> None:
    """Move a robot with its real motors and with ideal ones: a table per joint, and plots.

    A quadruped lies down, stands up, squats and is pushed. Any other robot swings its joints, within their range. The
    exit code is 1 where a run diverges; what there is until then is shown and saved.
    """
    from rich.progress import Progress

    from .plots import pyplot, save_all
    from .run import engine_for, simulate

    engine, path = engine_for(robot, engine)
    _check_outputs(output, record)
    pyplot()
    actuon.quiet()
    console = make_console()
    print(f"{path.name} in {engine}, {envs} × {seconds:g} s; kernels are compiled on first use", end="", flush=True)
    print(", for about a minute" if engine == "newton" and envs > 1 else "", flush=True)
    runs = []
    with Progress(console=console, transient=not console.is_terminal) as progress:
        for ideal in (False, True):
            task = progress.add_task(f"{'ideal PD' if ideal else 'real motor'} in {engine}, {seconds:g} s", total=1.0)
            tick = functools.partial(_update, progress, task)
            done, recorder = simulate(engine, path, seconds, envs, ideal, tick, allow_torch)
            if done.problem is None:
                progress.update(task, completed=1.0)
            runs.append(done)
            if record is not None and not ideal and len(recorder):
                recorder.save(record)
    shown = [done for done in runs if done.data]
    if shown:
        print_runs(console, f"{path.name}: {envs} × {len(runs[0].joints)} joints", shown)
        for saved in [*save_all(shown, output), *([record] if record is not None and runs[0].data else [])]:
            print(f"saved {saved}")
    problems = [f"{done.title}: {done.problem}" for done in runs if done.problem is not None]
    for problem in problems:
        complain(problem)
    if problems:
        raise typer.Exit(1)


def _check_outputs(folder: Path, record: Path | None) -> None:
    """Refuse, before anything is simulated, what could not be written at the end."""
    check_folder(folder)
    if record is None:
        return
    if record.suffix not in RECORDS:
        raise RobotFileError(f"--record: '{record}' has the format '{record.suffix}'; must be {' or '.join(RECORDS)}")
    if record.is_dir():
        raise RobotFileError(f"--record: '{record}' is a directory; must be a file")
    check_folder(record.parent)


def _update(progress: Any, task: Any, share: float) -> None:
    progress.update(task, completed=share)
