# SPDX-License-Identifier: Apache-2.0
"""The commands of ``actuon``."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import actuon
from actuon.errors import RobotFileError

app = typer.Typer(
    help="Actuators of robots: look at them, write them into a robot's file, take them out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Robot = Annotated[Path, typer.Argument(help="A USD file: .usda, .usd, .usdc or .usdz.", show_default=False)]
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
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass


@app.command()
def inspect(
    robot: Robot,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Print every joint with its actuator, each value with unit and source, and what is wrong.

    The exit code is 1 where something is wrong, and 2 where the file cannot be read.
    """
    from actuon.usd.stage import find_prim, open_stage

    stage = open_stage(robot)
    report = actuon.inspect_actuators(find_prim(stage, root) if root else stage, allow_torch)
    if as_json:
        print(json.dumps({"file": str(robot), **_plain(dataclasses.asdict(report))}, indent=2))
    else:
        _print_report(_console(), robot, report)
    if report.problems:
        raise typer.Exit(1)


def _console() -> Console:
    """A console that cuts nothing off where its output goes to a file."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=200 if piped else None)


def _plain(value: Any) -> Any:
    """JSON has no infinity: it is written as text."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _print_report(console: Console, robot: Path, report: Any) -> None:
    driven = sum(bool(joint.actuators) for joint in report.joints)
    console.print(f"{escape(str(robot))}: {len(report.joints)} joints, {driven} with an actuator", highlight=False)
    alike: dict[Any, list[str]] = {}
    for joint in report.joints:
        shown = joint.chain or ((joint.drive,) if joint.drive is not None else ())
        alike.setdefault((bool(joint.actuators), joint.type, shown), []).append(joint.name)
    if alike:
        table = Table("joints", "driven by", "parameter", "value", "unit", "source", show_lines=False)
        table.columns[3].justify = "right"
        for column in table.columns:
            column.overflow = "fold"
        for (has_actuator, _, parts), names in alike.items():
            _add_rows(table, names, parts, has_actuator)
            table.add_section()
        console.print(table)
    for problem in report.problems:
        console.print(Text(f"✗ {problem}", style="red"))
    if not report.problems:
        console.print(Text("✓ nothing is wrong", style="green"))


def _add_rows(table: Table, names: list[str], parts: Any, has_actuator: bool) -> None:
    left = "\n".join(names)
    if not parts:
        table.add_row(left, "nothing", "", "", "", "")
        return
    columns: list[list[str]] = [[], [], [], [], []]
    for part in parts:
        title = part.name if has_actuator else f"{part.name} (no actuator)"
        for i, value in enumerate(part.values):
            cells = (title if i == 0 else "", value.name, _shown(value.value), value.unit, value.source)
            for column, cell in zip(columns, cells, strict=True):
                column.append(cell)
    table.add_row(escape(left), *(escape("\n".join(column)) for column in columns))


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        text = ", ".join(f"{number:g}" for number in value[:4])
        return text + (f", … ({len(value)})" if len(value) > 4 else "")
    if isinstance(value, str):
        return Path(value).name
    return f"{value:g}"


@app.command()
def author(
    robot: Robot,
    actuators: Annotated[Path, typer.Argument(help="An actuon.yaml.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the robot with its actuators.")],
    root: Root = None,
    overwrite: Annotated[bool, typer.Option(help="Replace actuators that the robot has already.")] = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Write the actuators of an actuon.yaml onto a robot.

    In the robot's own folder the output is a copy of its file, in another one a layer over it.
    """
    from actuon.usd.transfer import author_file

    prims = author_file(robot, actuators, output, root, overwrite, allow_torch)
    print(f"wrote {len(prims)} actuators to {output}: {', '.join(prims)}")


@app.command()
def export(
    robot: Robot,
    output: Annotated[Path, typer.Option("--output", "-o", help="The actuon.yaml to write.")],
    root: Root = None,
    allow_torch: AllowTorch = False,
) -> None:
    """Write the actuators of a robot into an actuon.yaml."""
    from actuon.usd.stage import find_prim, open_stage

    if output.suffix not in (".yaml", ".yml"):
        raise RobotFileError(f"'{output}' has the format '{output.suffix}'; must be .yaml or .yml")
    stage = open_stage(robot)
    entries = actuon.export_actuators(find_prim(stage, root) if root else stage, allow_torch)
    if not entries:
        raise RobotFileError(f"'{robot}' has no actuators")
    actuon.save_actuators(output, entries)
    print(f"wrote {len(entries)} entries to {output}")


def _update(progress: Any, task: Any, share: float) -> None:
    progress.update(task, completed=share)


@app.command()
def run(
    robot: Annotated[
        Path, typer.Argument(help="A USD or MJCF file with actuators in or beside it.", show_default=False)
    ],
    engine: Annotated[str | None, typer.Option(help="mujoco or newton. Default: the one that reads the file.")] = None,
    envs: Annotated[int, typer.Option(min=1, help="How many copies of the robot.")] = 1,
    seconds: Annotated[float, typer.Option(min=0.01, help="How long to move it, in seconds.")] = 6.0,
    record: Annotated[Path | None, typer.Option(help="Save the run with real motors as .npz or .csv.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the plots.")] = Path("out"),
    allow_torch: AllowTorch = False,
) -> None:
    """Move a robot with its real motors and with ideal ones: a table per joint, and plots.

    A quadruped lies down, stands up, squats and is pushed. Any other robot swings its joints.
    """
    import warp as wp
    from rich.progress import Progress

    from actuon.recorder import FORMATS as RECORDS

    from .plots import save_all
    from .run import engine_for, simulate, summary

    wp.config.log_level = wp.LOG_ERROR  # a machine without a GPU is nothing to warn of
    engine, path = engine_for(robot, engine)
    if not math.isfinite(seconds):
        raise RobotFileError(f"--seconds: got {seconds}; must be finite")
    if output.exists() and not output.is_dir():
        raise RobotFileError(f"'{output}' is no folder")
    if record is not None and record.suffix not in RECORDS:
        raise RobotFileError(f"'{record}' has the format '{record.suffix}'; must be one of {', '.join(RECORDS)}")
    console = _console()
    print(f"{path.name} in {engine}, {envs} × {seconds:g} s; kernels are compiled on first use", end="", flush=True)
    print(", for about a minute" if engine == "newton" and envs > 1 else "", flush=True)
    runs = []
    with Progress(console=console, transient=not console.is_terminal) as progress:
        for ideal in (False, True):
            task = progress.add_task(f"{'ideal PD' if ideal else 'real motor'} in {engine}, {seconds:g} s", total=1.0)
            tick = functools.partial(_update, progress, task)
            done, recorder = simulate(engine, path, seconds, envs, ideal, tick, allow_torch)
            progress.update(task, completed=1.0)
            runs.append(done)
            if record is not None and not ideal:
                recorder.save(record)
    table = Table("joint", title=f"{path.name}: {envs} × {len(runs[0].dof_names)} joints")
    for done in runs:
        for column in ("error [rad, m]", "peak [N·m, N]", "at a limit"):
            table.add_column(escape(f"{done.title}\n{column}"), justify="right")
    for real, ideal_row in zip(*map(summary, runs), strict=True):
        cells = [(f"{e:.4f}", f"{p:.1f}", f"{100 * c:.1f} %") for _, e, p, c in (real, ideal_row)]
        table.add_row(escape(real[0]), *cells[0], *cells[1])
    console.print(table)
    for done in runs:
        if not done.heights.std():
            continue  # bolted down
        highest, end, tilt = (
            done.heights.max(),
            done.heights[-1].mean(),
            math.degrees(math.acos(min(1.0, done.upright[-1].min()))),
        )
        print(f"{done.title}: root body at {end:.3f} m at the end, {highest:.3f} m at most, tilted by {tilt:.0f}°")
    for saved in [*save_all(runs, output), *([record] if record is not None else [])]:
        print(f"saved {saved}")
