# SPDX-License-Identifier: Apache-2.0
"""``actuon fit``: from logs to actuators, and actuators on logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

import actuon
from actuon.errors import ParameterError, RobotFileError
from actuon.files import check_folder
from actuon.logs.formats import endings_in_words

from .options import AllowTorch

_DEFAULT = "logs"


class _Group(TyperGroup):
    """What is not the name of another command is for the fit itself: ``fit a.csv`` is ``fit logs a.csv``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


fit_app = typer.Typer(cls=_Group, help="Fit actuators to logs of real joints and robots, or replay them.")

Logs = Annotated[
    list[Path],
    typer.Argument(help=f"Logs: {endings_in_words()}.", show_default=False, readable=False),
]
Columns = Annotated[
    Path | None, typer.Option(help="YAML that says which column is what, in which unit.", readable=False)
]
Load = Annotated[
    list[str] | None,
    typer.Option(help=escape("Of the joint, NAME=NUMBER: mass [kg] and length [m] of a pendulum, or inertia [kg·m²].")),
]
Robot = Annotated[
    Path | None, typer.Option(help="Robot whose joints the logs name: an MJCF, URDF or USD file.", readable=False)
]
PlantFile = Annotated[
    Path | None, typer.Option(help="YAML that says what moves: a robot, columns, free parameters.", readable=False)
]
Window = Annotated[
    float | None, typer.Option(help="Cut logs into windows of so many seconds, each from its measured state.")
]
On = Annotated[
    str | None,
    typer.Option(help="Where to search: 'ray' for a cluster on this machine, or ray://HOST:PORT. Default: right here."),
]
Step = Annotated[
    float | None, typer.Option(help="Time step of the simulation, in seconds. Default: about that of the logs.")
]


@fit_app.command(_DEFAULT, epilog="actuon fit apply --help: how far an actuator file is off on logs.")
def fit(
    logs: Annotated[
        list[Path] | None,
        typer.Argument(help=f"Logs: {endings_in_words()}.", show_default=False, readable=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The actuon.yaml to write.", readable=False)
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model to fit, such as pd_coulomb, m4 or servo_m6.")] = None,
    select: Annotated[
        bool, typer.Option("--select", help="Compare models on held-out runs, and take the best.")
    ] = False,
    models: Annotated[str | None, typer.Option(help="Those to compare, with commas between. Implies --select.")] = None,
    fix: Annotated[list[str] | None, typer.Option(help="A parameter that is known: PATH=NUMBER.")] = None,
    free: Annotated[list[str] | None, typer.Option(help="One to look for: PATH, or PATH=LOW:HIGH.")] = None,
    robot: Robot = None,
    plant: PlantFile = None,
    load: Load = None,
    columns: Columns = None,
    window: Window = None,
    dt: Step = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    generations: Annotated[int, typer.Option(min=1, help="Most generations of a search.")] = 250,
    starts: Annotated[int, typer.Option(min=1, help="Searches from different starts, of which the best counts.")] = 2,
    on: On = None,
    network: Annotated[
        str | None,
        typer.Option(help="Train a network controller, mlp, lstm or gru, and write it to a .safetensors file."),
    ] = None,
    excite: Annotated[
        Path | None,
        typer.Option(help="CSV to write: the motion to record next, within the joint's limits.", readable=False),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help=escape("For --excite: position=LOW:HIGH [rad], speed=MOST [rad/s], effort=MOST [N·m].")),
    ] = None,
    seconds: Annotated[float, typer.Option(help="For --excite: length of the motion.")] = 15.0,
    actuators: Annotated[
        Path | None,
        typer.Option(help="For --excite: an actuon.yaml to begin from, in place of a fit.", readable=False),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="File to go on from, and to keep what is found in.", readable=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Folder for a report: Markdown and pictures.", readable=False)
    ] = None,
    author: Annotated[
        Path | None,
        typer.Option(help="A robot's USD to write the actuators into, at the joints of that name.", readable=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file, and actuators of the robot, if they exist.")
    ] = False,
) -> None:
    """Fit an actuator to logs: what a motor is, from what it did.

    Replays the commands of the logs and compares positions. Ctrl-C ends the search with the best result so far. A
    folder with a folder of logs for each robot gives an actuator for each, and how they differ.

    The exit code is 1 if a fit is of no use: its error is far above the noise of the logs, and above that of 'position
    = command'.
    """
    from actuon.fit import SearchOptions, fit_logs
    from actuon.fit.fitting import check_extras
    from actuon.logs.files import robot_folders

    from .fit_author import check_robot, write_robot
    from .fit_tables import FitProgress, print_fit

    _check_outputs(None if network is not None else output, report, force)
    check_extras()
    actuon.quiet()
    chosen: bool | list[str] = [name.strip() for name in models.split(",")] if models else select
    if on is not None and resume is not None:
        raise ParameterError("--resume: does not go with --on: what is found is kept on the machine that finds it")
    search = SearchOptions(seed=seed, starts=starts, generations=generations)
    known: dict[str, Any] = {"fix": _numbers("--fix", fix), "free": _ranges(free), "options": search}
    robots = robot_folders(logs[0]) if logs and len(logs) == 1 else {}
    if excite is not None:
        from .fit_excite import check_path, propose

        check_path(excite, force)
        if robot is not None or plant is not None:
            raise ParameterError("--excite: does not go with --robot and --plant yet; it is for one joint")
        moved = _plant(logs, columns, load, window, dt, None, None) if logs else None
        with workers_on(on) as workers:
            propose(
                excite, moved, model=model, actuators=actuators, limit=limit, settings=_numbers("--load", load),
                seconds=seconds, as_json=as_json, known=known, workers=workers,
            )  # fmt: skip
        return
    if not logs:
        raise ParameterError("got no logs; give files, folders or patterns, or --excite for what to record first")
    if network is not None:
        from .fit_network import train

        for option, given in (("--resume", resume), ("--author", author), ("--report", report)):
            if given is not None:
                raise ParameterError(f"{option}: does not go with --network")
        with workers_on(on) as workers:
            train(
                network, output, lambda: _plant(logs, columns, load, window, dt, robot, plant),
                model=model, select=chosen, known=known, workers=workers, as_json=as_json, force=force,
            )  # fmt: skip
        return
    if robots:
        from .fit_fleet import fit_folders

        for option, given in (("--resume", resume), ("--author", author)):
            if given is not None:
                raise ParameterError(f"{option}: does not go with a folder of robots")
        plants = {name: _plant([folder], columns, load, window, dt, robot, plant) for name, folder in robots.items()}
        with workers_on(on) as workers:
            fit_folders(plants, output, report, as_json, force, model=model, select=chosen, workers=workers, **known)
        return
    moved = _plant(logs, columns, load, window, dt, robot, plant)
    if author is not None:
        check_robot(author, moved.joints, force)
    with workers_on(on) as workers, FitProgress() as progress:
        result = fit_logs(
            model=model,
            select=chosen,
            plant=moved,
            progress=progress.search,
            resume=resume,
            workers=workers,
            **known,
        )
    written = []
    if output is not None:
        result.save(output)
        written.append(output)
    if author is not None:
        write_robot(author, result.entries())
        written.append(author)
    if report is not None:
        from actuon.fit.report import write_report

        written.append(write_report(result, moved, report))
    if as_json:
        print(json.dumps(result.as_dict(), indent=2))
    else:
        print_fit(result)
        for path in written:
            print(f"wrote {path}")
    if result.is_useless:
        raise typer.Exit(1)


@fit_app.command()
def apply(
    actuators: Annotated[Path, typer.Argument(help="An actuon.yaml.", show_default=False, readable=False)],
    logs: Logs,
    robot: Robot = None,
    plant: PlantFile = None,
    load: Load = None,
    columns: Columns = None,
    window: Window = None,
    dt: Step = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the errors as JSON.")] = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Replay actuators on logs, and print how far their positions are off: the same simulation as in a fit."""
    from actuon.fit import apply as applied
    from actuon.fit.fitting import findings_of
    from actuon.fit.network_replay import network_step

    from .fit_tables import print_applied

    actuon.quiet()
    step = dt if dt is not None else network_step(actuators, allow_torch)
    moved = _plant(logs, columns, load, window, step, robot, plant)
    found, findings = applied(actuators, moved, allow_torch), list(findings_of(moved))
    if as_json:
        print(json.dumps({**found.as_dict(), "findings": findings}, indent=2))
    else:
        print_applied(actuators, found, findings)


def workers_on(on: str | None) -> AbstractContextManager[Any]:
    """What runs searches, by the option ``--on``; None for this process."""
    if on is None:
        return nullcontext()
    from actuon.fit.ray_jobs import RayWorkers

    return RayWorkers(on)


def _plant(
    logs: Sequence[Path],
    columns: Path | None,
    load: Iterable[str] | None,
    window: float | None,
    dt: float | None,
    robot: Path | None,
    file: Path | None,
) -> Any:
    """What the actuators move, with the runs."""
    from actuon.fit import KnownLoadPlant, RobotPlant, load_plant, read_logs

    if dt is not None and not 0.0 < dt <= 0.1:
        raise ParameterError(f"--dt: got {dt}; must be > 0 and at most 0.1 [s]")
    given = _numbers("--load", load) or None
    if file is not None:
        for option, value in (("--robot", robot), ("--columns", columns), ("--load", given)):
            if value is not None:
                raise ParameterError(f"{option}: does not go with --plant: state it in '{file}'")
        return load_plant(file, logs, dt=dt, window=window)
    runs = read_logs(logs, columns)
    if robot is not None:
        if given is not None:
            raise ParameterError("--load: does not go with --robot: the load of a joint is what it carries")
        return RobotPlant(robot, runs, dt, window)
    if window is not None:
        runs = [part for run in runs for part in run.split_windows(window)]
    return KnownLoadPlant(runs, given, dt)


def _numbers(option: str, given: Iterable[str] | None) -> dict[str, float]:
    found = {}
    for text in given or ():
        name, equals, number = text.partition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise ParameterError(f"{option}: got '{text}'; must be NAME=NUMBER")
    return found


def _ranges(given: Iterable[str] | None) -> Mapping[str, tuple[float, float] | None]:
    found: dict[str, tuple[float, float] | None] = {}
    for text in given or ():
        path, equals, ends = text.partition("=")
        if not equals:
            found[path.strip()] = None
            continue
        try:
            low, high = (float(end) for end in ends.split(":"))
        except ValueError:
            raise ParameterError(f"--free: got '{text}'; must be PATH, or PATH=LOW:HIGH") from None
        found[path.strip()] = low, high
    return found


def _check_outputs(output: Path | None, report: Path | None, force: bool) -> None:
    """Refuse, before anything is fitted, what could not be written at the end."""
    if output is not None:
        if output.suffix.lower() not in (".yaml", ".yml"):
            raise RobotFileError(f"'{output}' has the format '{output.suffix}'; must be .yaml or .yml")
        if output.is_file() and not force:
            raise RobotFileError(f"'{output}' already exists; --force replaces it")
        check_folder(output.parent)
    if report is not None:
        from actuon.charts import pyplot

        check_folder(report)
        pyplot()
