# SPDX-License-Identifier: Apache-2.0
"""Options of ``actuon fit`` and its sub-commands, in the groups of the help."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from actuon.errors import ParameterError
from actuon.files import check_folder
from actuon.logs.formats import endings_in_words
from actuon.robot_files.formats import YAML_FORMATS

from .options import Count, File, Force, Json, OutputFile, Seconds
from .outputs import check_new

if TYPE_CHECKING:
    from actuon.fit import Plant
    from actuon.fit.excite import Limits

WHAT = Group.create_ordered("What moves")
MODEL = Group.create_ordered("Model")
MOTION = Group.create_ordered("Motion")
SEARCH = Group.create_ordered("Search")
OUTPUT = Group.create_ordered("Output")

Logs = Annotated[Path, Parameter(name="LOG...", help=f"Files ({endings_in_words()}), folders or patterns.")]
Pairs = tuple[str, ...]
Network = Literal["mlp", "lstm", "gru"]
ReportFolder = Annotated[Path | None, Parameter(metavar="DIR", help="Write a report with plots.")]
Models = Annotated[str | None, Parameter(metavar="NAMES", group=MODEL)]
Resume = Annotated[
    Path | None,
    Parameter(metavar="FILE", group=SEARCH, help="Checkpoint: resume from it and save progress to it."),
]


def _presets(context: object) -> Sequence[str]:
    from actuon.fit.terms import PRESETS

    return list(PRESETS)


ModelName = Annotated[str | None, Parameter(metavar="NAME", group=MODEL, completer=_presets)]


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
        if self.window is not None and not self.window > 0.0:
            raise ParameterError(f"--window: got {self.window}; must be > 0 [s]")
        dt = dt if self.dt is None else self.dt
        load = numbers("--load", self.load) or None
        if self.plant is not None:
            where = f"--plant: state it in '{self.plant}'"
            refuse(where, ("--robot", self.robot), ("--columns", self.columns), ("--load", load))
            return load_plant(self.plant, logs, dt=dt, window=self.window)
        runs = read_logs(logs, self.columns)
        if self.robot is not None:
            refuse("--robot: the load of a joint is what it carries", ("--load", load))
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
        return {"fix": numbers("--fix", self.fix), "free": ranges(self.free), "options": search.options()}


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
        """Return the workers that run searches; those of this process are None.

        Raises:
            MissingExtraError: Ray is not installed.
        """
        if self.on is None:
            return nullcontext()
        from actuon.fit.workers import RayWorkers

        return RayWorkers(self.on)


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Results of a fit."""

    output: OutputFile | None = None
    """Motor file to write (actuon.yaml)."""
    report: ReportFolder = None
    author: File | None = None
    """Write the motors into this USD robot as well."""
    as_json: Json = False
    force: Annotated[Force, Parameter(help="Overwrite existing files and actuators.")] = False

    def check(self) -> None:
        """Check the files before the fit."""
        check_results(self.output, self.report, self.force)
        if self.author is not None:
            from .fit_author import check_file

            check_file(self.author)


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
    """Limit of the motion: position=LOW:HIGH (rad), speed=MOST (rad/s) or effort=MOST (N·m). Repeatable."""
    seconds: Seconds = 15
    """Length of the motion."""
    actuators: File | None = None
    """Motor file to begin with, instead of a fit to the logs."""

    def limits(self, usual: Limits | None) -> Limits:
        """Return the limits of the motion.

        Args:
            usual: Limits that logs show.
        """
        from actuon.fit.excite import Limits

        found: dict[str, float] = {} if usual is None else dataclasses.asdict(usual)
        for text in self.limit:
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


def check_results(output: Path | None, report: Path | None, force: bool) -> None:
    """Check a YAML and the folder of a report before anything is fitted."""
    if output is not None:
        check_new(output, YAML_FORMATS, force)
    if report is not None:
        from actuon.charts import pyplot

        check_folder(report)
        pyplot()


def refuse(where: str, *options: tuple[str, Any]) -> None:
    """Raise an error for the first option that is set and does not go with another one."""
    for option, value in options:
        if value is not None:
            raise ParameterError(f"{option}: does not go with {where}")


def numbers(option: str, texts: Iterable[str]) -> dict[str, float]:
    """Return the values of an option with ``NAME=NUMBER``, by name."""
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


def ranges(texts: Iterable[str]) -> dict[str, tuple[float, float] | None]:
    """Return the ranges of ``--free``, by path; None if there is none."""
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
