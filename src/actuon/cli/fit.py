# SPDX-License-Identifier: Apache-2.0
"""``actuon fit`` and its sub-commands: from logs to motors, and motors on logs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Group, Parameter
from cyclopts.validators import Number

import actuon
from actuon.errors import ParameterError, RobotFileError
from actuon.files import check_folder
from actuon.logs.formats import endings_in_words

from .options import AllowTorch, Count, File, Folder, Force, Json, OutputFile, Seconds
from .outputs import YAML, check_new
from .show import (
    SearchBar,
    log_rate,
    make_console,
    print_applied,
    print_excitation,
    print_fit,
    print_fleet,
    print_logs,
    print_network,
    unit_of,
)

if TYPE_CHECKING:
    from actuon.fit import Plant
    from actuon.fit.excitation import Limits

WHAT = Group.create_ordered("What moves")
MODEL = Group.create_ordered("Model")
MOTION = Group.create_ordered("Motion")
SEARCH = Group.create_ordered("Search")
OUTPUT = Group.create_ordered("Output")

Logs = Annotated[Path, Parameter(name="LOG...", help=f"Files ({endings_in_words()}), folders or patterns.")]
Pairs = tuple[str, ...]
ReportFolder = Annotated[Path | None, Parameter(metavar="DIR", help="Write a report with plots.")]
ModelName = Annotated[str | None, Parameter(metavar="NAME", group=MODEL)]
Models = Annotated[
    str | None, Parameter(metavar="NAMES", group=MODEL, help="Comma-separated list of models. Default: the usual ones.")
]
Resume = Annotated[
    Path | None,
    Parameter(metavar="FILE", group=SEARCH, help="Checkpoint: resume from it and save progress to it."),
]
_DEFAULT_MODEL = "m4"


@Parameter(name="*", group=WHAT)
@dataclass(frozen=True, kw_only=True)
class PlantOptions:
    """Test setup: the joint or robot that the motors move."""

    load: Annotated[Pairs, Parameter(metavar="NAME=VALUE", show_default=False)] = ()
    """Known load of a single joint: mass (kg) and length (m) of a pendulum, or inertia (kg·m²). Repeatable."""
    robot: File | None = None
    """Robot that the joints belong to (MJCF, URDF, USD)."""
    plant: File | None = None
    """YAML with robot, columns, and free or fixed parameters."""
    columns: File | None = None
    """YAML that maps columns to quantities and units."""
    window: Seconds | None = None
    """Split logs into windows, each started from its measured state."""
    dt: Annotated[Seconds | None, Parameter(group=SEARCH)] = None
    """Simulation time step. Default: close to that of the logs."""

    def read(self, logs: Sequence[Path], dt: float | None = None) -> Plant:
        """Read logs; returns the test setup with its runs.

        Args:
            logs: Files, folders or patterns.
            dt: Time step if there is no ``--dt`` [s].
        """
        from actuon.fit import KnownLoadPlant, RobotPlant, load_plant, read_logs

        if not logs:
            raise ParameterError(
                "no logs. Pass files, folders or glob patterns, or plan a first recording with `actuon fit excite`"
            )
        if self.dt is not None and not 0.0 < self.dt <= 0.1:
            raise ParameterError(f"--dt: got {self.dt}; must be > 0 and at most 0.1 [s]")
        dt = dt if self.dt is None else self.dt
        load = _numbers("--load", self.load) or None
        if self.plant is not None:
            where = f"--plant: state it in '{self.plant}'"
            _refuse(where, ("--robot", self.robot), ("--columns", self.columns), ("--load", load))
            return load_plant(self.plant, logs, dt=dt, window=self.window)
        runs = read_logs(logs, self.columns)
        if self.robot is not None:
            _refuse("--robot: the load of a joint is what it carries", ("--load", load))
            return RobotPlant(self.robot, runs, dt, self.window)
        if self.window is not None:
            runs = [part for run in runs for part in run.split_windows(self.window)]
        return KnownLoadPlant(runs, load, dt)


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class FreeOptions:
    """Parameters of models that are fixed or free."""

    fix: Annotated[Pairs, Parameter(metavar="PATH=VALUE", show_default=False)] = ()
    """Known parameter, e.g. controller.resistance=3.1. Repeatable."""
    free: Annotated[Pairs, Parameter(metavar="PATH[=LO:HI]", show_default=False)] = ()
    """Parameter to estimate, with its range. Repeatable."""

    def known(self, search: SearchOptions) -> dict[str, Any]:
        """Return the arguments of a fit that these options and those of the search make."""
        return {"fix": _numbers("--fix", self.fix), "free": _ranges(self.free), "options": search.options()}


@Parameter(name="*", group=SEARCH)
@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Effort of a search, and where it runs."""

    starts: Count = 2
    """Independent searches; the best is kept."""
    generations: Count = 250
    """Maximum generations per search."""
    seed: Annotated[int, Parameter(metavar="N", validator=Number(gte=0))] = 0
    """Random seed."""
    on: Annotated[str | None, Parameter(metavar="ADDRESS")] = None
    """Run on Ray: "ray" for this machine, or ray://HOST:PORT."""

    def options(self) -> Any:
        """Return the options of the library."""
        from actuon.fit import SearchOptions as Options

        return Options(seed=self.seed, starts=self.starts, generations=self.generations)

    def workers(self) -> AbstractContextManager[Any]:
        """Return the workers that run searches; None for this process."""
        if self.on is None:
            return nullcontext()
        from actuon.fit.ray_jobs import RayWorkers

        return RayWorkers(self.on)


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Results of a fit."""

    output: OutputFile | None = None
    """Motor file to write (actuon.yaml)."""
    report: ReportFolder = None
    author: File | None = None
    """Also write the motors into this USD robot."""
    as_json: Json = False
    force: Annotated[Force, Parameter(help="Overwrite existing files and actuators.")] = False

    def check(self) -> None:
        """Check the files before the fit."""
        _check_results(self.output, self.report, self.force)

    def write(self, result: Any, plant: Plant) -> int:
        """Write and print a result; returns the exit code."""
        from .fit_author import write_robot
        from .fit_report import write_report

        written = []
        if self.output is not None:
            result.save(self.output)
            written.append(self.output)
        if self.author is not None:
            write_robot(self.author, result.entries())
            written.append(self.author)
        if self.report is not None:
            written.append(write_report(result, plant, self.report))
        _present(self.as_json, result.as_dict, lambda: print_fit(result), written)
        return 1 if result.is_useless else 0


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class FleetOutput:
    """Results of a fit of several robots."""

    output: OutputFile | None = None
    """File to write (fleet.yaml), with a motor file for each robot in a folder next to it."""
    report: ReportFolder = None
    as_json: Json = False
    force: Annotated[Force, Parameter(help="Overwrite existing files.")] = False


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class NetworkOutput:
    """Results of a training."""

    output: OutputFile | None = None
    """Network to write (.safetensors), with a motor file next to it."""
    as_json: Json = False
    force: Annotated[Force, Parameter(help="Overwrite existing files.")] = False


@Parameter(name="*", group=MOTION)
@dataclass(frozen=True, kw_only=True)
class MotionOptions:
    """A motion to design."""

    limit: Annotated[Pairs, Parameter(metavar="NAME=VALUE", show_default=False)] = ()
    """position=LOW:HIGH (rad), speed=MOST (rad/s) or effort=MOST (N·m). Repeatable."""
    seconds: Seconds = 15
    """Length of the motion."""
    actuators: File | None = None
    """Motor file to begin with, instead of a fit to the logs."""


@Parameter(name="*", show=False)
@dataclass(frozen=True, kw_only=True)
class FormerOptions:
    """Options of ``actuon fit`` that are sub-commands now; read for one version."""

    select: bool = False
    models: str | None = None
    excite: Path | None = None
    network: str | None = None
    limit: Pairs = ()
    seconds: float = MotionOptions.seconds
    actuators: Path | None = None


def fit(
    *logs: Logs,
    plant: PlantOptions = PlantOptions(),
    model: ModelName = None,
    free: FreeOptions = FreeOptions(),
    search: SearchOptions = SearchOptions(),
    resume: Resume = None,
    output: OutputOptions = OutputOptions(),
    former: FormerOptions = FormerOptions(),
) -> int:
    """Estimate motor parameters from logs of a real joint or robot.

    Replays the logged commands in simulation and minimises the difference between simulated and measured positions.
    Prints each parameter with a 95 % confidence interval, the error per run, and a verdict. Ctrl+C stops and returns
    the best result so far.

    Args:
        model: Model to fit, e.g. pd_coulomb, m4, servo_m6. Default: one that suits the logs.
    """
    from actuon.fit.fleet_fitting import robot_folders

    common: dict[str, Any] = {"plant": plant, "free": free, "search": search}
    compared: dict[str, Any] = {**common, "model": model, "models": former.models, "select": former.select}
    if former.excite is not None:
        motion = MotionOptions(limit=former.limit, seconds=former.seconds, actuators=former.actuators)
        common |= {"model": model, "motion": motion, "as_json": output.as_json, "force": output.force}
        return excite(former.excite, *logs, **common)
    if former.network is not None:
        _refuse("--network", ("--resume", resume), ("--author", output.author), ("--report", output.report))
        files = NetworkOutput(output=output.output, as_json=output.as_json, force=output.force)
        return network(former.network, *logs, **compared, output=files)
    if len(logs) == 1 and robot_folders(logs[0]):
        _refuse("a folder of robots", ("--resume", resume), ("--author", output.author))
        own = {field.name: getattr(output, field.name) for field in dataclasses.fields(FleetOutput)}
        return fleet(logs[0], **compared, output=FleetOutput(**own))
    if former.select or former.models:
        return select(*logs, **common, models=former.models, resume=resume, output=output)
    return _fit(logs, plant, False, model, free, search, resume, output)


def select(
    *logs: Logs,
    plant: PlantOptions = PlantOptions(),
    models: Models = None,
    free: FreeOptions = FreeOptions(),
    search: SearchOptions = SearchOptions(),
    resume: Resume = None,
    output: OutputOptions = OutputOptions(),
) -> int:
    """Compare models by cross-validation and fit the best one.

    Each model is fitted without some of the runs and judged by its error on them; the simplest within the noise of the
    best is chosen and fitted to all runs.
    """
    return _fit(logs, plant, _listed(models) or True, None, free, search, resume, output)


def _fit(
    logs: Sequence[Path],
    plant: PlantOptions,
    chosen: bool | Sequence[str],
    model: str | None,
    free: FreeOptions,
    search: SearchOptions,
    resume: Path | None,
    output: OutputOptions,
) -> int:
    """Fit a model, or the best of several, and write the result."""
    from actuon.fit import fit_logs

    from .fit_author import check_robot

    output.check()
    actuon.quiet()
    if search.on is not None:
        _refuse("--on: a checkpoint is kept on the machine that searches", ("--resume", resume))
    known = free.known(search)
    moved = plant.read(logs)
    if output.author is not None:
        check_robot(output.author, moved.joints, output.force)
    with search.workers() as workers, SearchBar() as bar:
        result = fit_logs(
            model=model, select=chosen, plant=moved, progress=bar.search, resume=resume, workers=workers, **known
        )
    return output.write(result, moved)


def inspect(
    *logs: Logs,
    columns: File | None = None,
    as_json: Json = False,
) -> None:
    """Show how logs were understood: columns, units, rates, gaps.

    Reads the logs as a fit would, and simulates nothing.

    Args:
        columns: YAML that maps columns to quantities and units.
    """
    from actuon.fit import read_logs

    if not logs:
        raise ParameterError("no logs. Pass files, folders or glob patterns")
    read = read_logs(logs, columns)
    if as_json:
        print(json.dumps({"logs": [_described(log) for log in read]}, indent=2))
    else:
        print_logs(make_console(), read)


def _described(log: Any) -> dict[str, Any]:
    """Return what a log holds, for JSON."""
    joints: dict[str, Any] = {}
    for joint in log.joints:
        joints[joint.name] = {
            name: {
                "low": float(values.min()),
                "high": float(values.max()),
                "unit": unit_of(joint, name),
                "unit_in_file": joint.units.get(name),
            }
            for name, values in joint.quantities().items()
        }
    findings = [
        {"text": str(one), "kind": one.kind, "where": one.where, "severity": one.severity} for one in log.findings
    ]
    return {
        "path": log.path,
        "samples": len(log),
        "seconds": log.duration,
        "rate": log_rate(log),
        "settings": dict(log.settings),
        "joints": joints,
        "findings": findings,
    }


def apply(
    file: File,
    /,
    *logs: Logs,
    plant: PlantOptions = PlantOptions(),
    as_json: Json = False,
    allow_torch: AllowTorch = False,
) -> None:
    """Replay a motor file on logs and print the error.

    The simulation is that of a fit, with nothing left to estimate.

    Args:
        file: Motor file (actuon.yaml).
    """
    from actuon.fit import apply as applied
    from actuon.fit.fitting import findings_of
    from actuon.fit.network_replay import network_step

    actuon.quiet()
    moved = plant.read(logs, None if plant.dt is not None else network_step(file, allow_torch))
    found, findings = applied(file, moved, allow_torch), list(findings_of(moved))
    if as_json:
        print(json.dumps({**found.as_dict(), "findings": findings}, indent=2))
    else:
        print_applied(file, found, findings)


def excite(
    file: File,
    /,
    *logs: Logs,
    plant: PlantOptions = PlantOptions(),
    model: ModelName = None,
    free: FreeOptions = FreeOptions(),
    motion: MotionOptions = MotionOptions(),
    search: SearchOptions = SearchOptions(),
    as_json: Json = False,
    force: Force = False,
) -> int:
    """Design the motion to record next.

    Finds the motion within the joint's limits that narrows the confidence intervals of the parameters most. Begins with
    the logs recorded so far, with a motor file, or with the load and the limits alone. For a single joint.

    Args:
        file: CSV file to write, with the commands of the motion.
        model: Model to identify, e.g. pd_coulomb, m4, servo_m6.
    """
    from actuon.charts import pyplot
    from actuon.fit import fit_logs
    from actuon.fit.excitation import ExcitationOptions, excite as design
    from actuon.fit.excitation_words import motions_of
    from actuon.fit.model import changed
    from actuon.fit.next_motion import bench_of, from_file, limits_of
    from actuon.fit.presets import Bench, preset
    from actuon.fit.refine import refine

    from .fit_excite import draw

    check_new(file, (".csv",), force)
    pyplot()
    actuon.quiet()
    single = "`actuon fit excite`, which is for a single joint"
    _refuse(single, ("--robot", plant.robot), ("--plant", plant.plant))
    known, settings = free.known(search), _numbers("--load", plant.load)
    generations = min(search.generations, ExcitationOptions.generations)
    options = ExcitationOptions(seconds=motion.seconds, generations=generations, seed=search.seed)
    moved = plant.read(logs) if logs else None
    if moved is None:
        limits = _limits(motion.limit, None)
        bench = bench_of(settings, limits)
    else:
        (joint,) = moved.joints
        limits = _limits(motion.limit, limits_of(moved.runs, joint))
        bench = Bench(moved.scales()[0], moved.runs, joint)
    if motion.actuators is not None:
        chosen, values = from_file(motion.actuators, bench, model)
    elif moved is None:
        chosen = changed(preset(model or _DEFAULT_MODEL, bench), known["fix"], known["free"])
        values = chosen.start
    else:
        with search.workers() as workers, SearchBar() as bar:
            result = fit_logs(model=model, plant=moved, progress=bar.search, workers=workers, **known)
        chosen, values = result.joints[0].model, result.joints[0].values
    local, recorded = None, None
    stated: Mapping[str, Any] = {}
    if moved is not None:
        local = refine(moved, [chosen], [values], 0, steps=0)
        rates = [len(run) / run.duration for run in moved.runs]
        options = dataclasses.replace(options, rate=float(np.clip(np.median(rates), 10.0, 2000.0)))
        recorded, stated = motions_of(moved.runs, joint), moved.runs[0].settings
    with SearchBar(options.generations) as bar:
        found = design(
            bench.joint, chosen, values, limits, {**stated, **settings}, options, local=local, progress=bar.motion
        )
    found.save(file)
    picture = file.with_suffix(".png")
    draw(found, limits, picture)
    _present(as_json, found.as_dict, lambda: print_excitation(found, chosen.name, recorded), (file, picture))
    return 0


def network(
    kind: Annotated[str, Parameter(metavar="KIND")],
    /,
    *logs: Logs,
    plant: PlantOptions = PlantOptions(),
    model: ModelName = None,
    models: Models = None,
    select: Annotated[bool, Parameter(group=MODEL)] = False,
    free: FreeOptions = FreeOptions(),
    search: SearchOptions = SearchOptions(),
    output: NetworkOutput = NetworkOutput(),
) -> int:
    """Train a network controller and compare it with physical models.

    Args:
        kind: mlp, lstm or gru.
        model: Physical model to compare with.
        models: Comma-separated list of physical models to compare with.
        select: Compare with the usual physical models.
    """
    from actuon.errors import require
    from actuon.fit.fitting import candidates_of, findings_of
    from actuon.fit.network_fitting import fit_network
    from actuon.fit.network_training import check_kind

    check_kind(kind)
    require("torch", "torch", "training networks")
    if output.output is not None:
        check_new(output.output, (".safetensors",), output.force)
        check_new(output.output.with_suffix(".yaml"), force=output.force)
    actuon.quiet()
    known = free.known(search)
    moved = plant.read(logs)
    chosen = _listed(models) or select
    candidates = candidates_of(moved, model, select=chosen, fix=known["fix"], free=known["free"])
    options = known["options"]
    share = min(1.0, options.generations / SearchOptions.generations)
    with search.workers() as workers, SearchBar() as bar:
        result = fit_network(
            moved, kind, candidates, options=options, share=share, progress=bar.search, workers=workers
        )
    written = [] if output.output is None else [output.output, result.save(output.output)]
    findings = list(findings_of(moved))
    _present(
        output.as_json,
        lambda: {**result.as_dict(), "findings": findings},
        lambda: print_network(result, findings),
        written,
    )
    return 0


def fleet(
    folder: Folder,
    /,
    *,
    plant: PlantOptions = PlantOptions(),
    model: ModelName = None,
    models: Models = None,
    select: Annotated[bool, Parameter(group=MODEL)] = False,
    free: FreeOptions = FreeOptions(),
    search: SearchOptions = SearchOptions(),
    output: FleetOutput = FleetOutput(),
) -> int:
    """Fit one motor per robot and report how they differ.

    Args:
        folder: Folder with a folder of logs for each robot.
        model: Model to fit to every robot. Default: one that suits the logs.
        models: Comma-separated list of models; the best on all robots is fitted.
        select: Compare the usual models; the best on all robots is fitted.
    """
    from actuon.fit import fit_fleet
    from actuon.fit.fleet_fitting import robot_folders, robots_folder
    from actuon.robot_files.fleet import FEWEST

    from .fit_report import write_report

    _check_results(output.output, output.report, output.force)
    actuon.quiet()
    known = free.known(search)
    robots = robot_folders(folder)
    if not robots:
        raise RobotFileError(f"'{folder}' has no folders with logs; must have one for each robot")
    plants = {name: plant.read([own]) for name, own in robots.items()}
    if output.output is not None:
        check_folder(robots_folder(output.output))
        for name in plants:
            check_new(robots_folder(output.output) / f"{name}.yaml", force=output.force)
    with search.workers() as workers, SearchBar() as bar:
        result = fit_fleet(
            plants, model=model, select=_listed(models) or select, progress=bar.search, workers=workers, **known
        )
    written = []
    if output.output is not None and len(result.robots) >= FEWEST:
        result.save(output.output)
        written = [output.output, *(robots_folder(output.output) / f"{name}.yaml" for name in result.robots)]
    if output.report is not None:
        written += [write_report(own, plants[name], output.report / name) for name, own in result.robots.items()]
    _present(output.as_json, lambda: _fleet_as_dict(result), lambda: print_fleet(result), written)
    return 1 if any(own.is_useless for own in result.robots.values()) else 0


def _fleet_as_dict(result: Any) -> dict[str, Any]:
    return {
        "warnings": list(result.warnings),
        "models": [one.as_dict() for one in result.compared],
        "robots": {name: own.as_dict() for name, own in result.robots.items()},
    }


def _present(
    as_json: bool, as_dict: Callable[[], Mapping[str, Any]], show: Callable[[], None], written: Iterable[Path]
) -> None:
    """Print a result as JSON, or as tables and the files that were written."""
    if as_json:
        print(json.dumps(as_dict(), indent=2))
        return
    show()
    for path in written:
        print(f"wrote {path}")


def _check_results(output: Path | None, report: Path | None, force: bool) -> None:
    """Check a YAML and the folder of a report before anything is fitted."""
    if output is not None:
        check_new(output, YAML, force)
    if report is not None:
        from actuon.charts import pyplot

        check_folder(report)
        pyplot()


def _refuse(where: str, *options: tuple[str, Any]) -> None:
    """Raise an error for the first option that is set and does not go with another one."""
    for option, value in options:
        if value is not None:
            raise ParameterError(f"{option}: does not go with {where}")


def _listed(names: str | None) -> list[str]:
    return [name.strip() for name in names.split(",")] if names else []


def _numbers(option: str, texts: Iterable[str]) -> dict[str, float]:
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            name = ""
        if not name.strip():
            raise ParameterError(f"{option}: got '{text}'; must be NAME=NUMBER")
    return found


def _ranges(texts: Iterable[str]) -> dict[str, tuple[float, float] | None]:
    found: dict[str, tuple[float, float] | None] = {}
    for text in texts:
        path, equals, ends = text.partition("=")
        try:
            found[path.strip()] = _range(ends) if equals else None
        except ValueError:
            raise ParameterError(f"--free: got '{text}'; must be PATH, or PATH=LOW:HIGH") from None
    return found


def _range(text: str) -> tuple[float, float]:
    low, high = (float(end) for end in text.split(":"))
    return low, high


def _limits(texts: Iterable[str], usual: Limits | None) -> Limits:
    """Return the limits of options ``--limit``, over those that logs show."""
    from actuon.fit.excitation import Limits

    found: dict[str, float] = {} if usual is None else dataclasses.asdict(usual)
    for text in texts:
        name, _, value = text.partition("=")
        try:
            if name == "position":
                found["low"], found["high"] = _range(value)
            elif name in ("speed", "effort"):
                found[name] = float(value)
            else:
                raise ValueError(name)
        except ValueError:
            allowed = "position=LOW:HIGH, speed=MOST or effort=MOST"
            raise ParameterError(f"--limit: got '{text}'; must be {allowed}") from None
    if "low" not in found:
        raise ParameterError("--limit: a motion needs the range of the joint: --limit position=LOW:HIGH [rad]")
    return Limits(**found)
