# SPDX-License-Identifier: Apache-2.0
"""``actuon run``: a robot that moves, with its real motors and with ideal ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter
from cyclopts.validators import Number

import actuon
from actuon.files import check_folder

from .messages import complain
from .options import Actuators, AllowTorch, Count, File, OutputFolder
from .outputs import check_record
from .show import Bar, make_console, print_runs, say

if TYPE_CHECKING:
    from actuon.demo.run import Run
    from actuon.robot_source import RobotSource

SIMULATION = Group.create_ordered("Simulation")
OUTPUT = Group.create_ordered("Output")


@Parameter(name="*", group=SIMULATION)
@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """Simulation of a robot."""

    engine: Annotated[Literal["mujoco", "newton"] | None, Parameter(metavar="NAME")] = None
    """mujoco or newton. Default: the engine that reads the file."""
    envs: Count = 1
    """Number of copies."""
    seconds: Annotated[float, Parameter(metavar="SECONDS", validator=Number(gte=0.01))] = 6
    """Duration. The push comes at 4.5 s."""
    actuators: Actuators = ()
    """Motors to use instead of those of the robot; repeat to compare."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class RunOutput:
    """Files that a run writes."""

    output: OutputFolder = Path("out")
    """Directory for plots and images."""
    record: File | None = None
    """Save the run with real motors (.npz, .csv)."""
    video: File | None = None
    """Save both runs side by side (.mp4, .gif). MuJoCo only."""


def run(
    robot: File,
    /,
    *,
    simulation: SimulationOptions = SimulationOptions(),
    files: RunOutput = RunOutput(),
    allow_torch: Annotated[AllowTorch, Parameter(group=OUTPUT)] = False,
) -> int:
    """Compare real with ideal motors in simulation: table, plots, video.

    Simulates a robot twice, with its real motors and with ideal ones. Ideal motors use the same controllers without
    delay and limits. A quadruped crouches, hops twice and is pushed; any other robot swings its joints within their
    range. Prints tracking error, peak effort and time at a limit per joint; writes plots and images. Fails if the
    robot diverges, falls, does not track its targets, or is at its limits for much of the time.

    Args:
        robot: MJCF, URDF or USD file with motors in it or next to it.
    """
    from actuon.attach.articulation_actuators import idle_joints
    from actuon.charts import pyplot
    from actuon.demo.film import CannotDrawError
    from actuon.demo.motion import QUADRUPED
    from actuon.demo.plots import save_all
    from actuon.demo.run import fallen, lost_targets, saturation
    from actuon.demo.scenes import check_video
    from actuon.robot_source import find_source

    o = simulation
    named = [find_source(robot, allow_torch, file).in_engine(o.engine) for file in o.actuators or (None,)]
    (engine, source), sources = named[0], [own for _, own in named]
    name = source.file.name
    check_folder(files.output)
    if files.record is not None:
        check_record(files.record)
    if files.video is not None:
        check_video(files.video, engine)
    pyplot()
    actuon.quiet()
    console = make_console()
    for own in sources:
        say(console, own.motors_from())
    minute = ", for about a minute" if engine == "newton" and o.envs > 1 else ""
    say(
        console,
        f"{name} in {engine}, {o.envs} × {o.seconds:g} s; kernels are compiled on first use{minute}",
    )
    runs = _simulate(sources, engine, o, files.record)
    push = next(phase for phase in QUADRUPED if phase.force)
    if runs[0].phases and o.seconds <= push.start:
        say(console, f"! no push: it comes at {push.start:g} s, and the run ends at {o.seconds:g} s", "yellow")
    shown = [done for done in runs if done.data]
    found = [(done, done.problem or saturation(done) or fallen(done) or lost_targets(done)) for done in runs]
    problems = [f"{done.title}: {problem}" for done, problem in found if problem is not None]
    if runs[0].actuators and len(idle_joints(runs[0].actuators)) == len(runs[0].actuators):
        problems.append("no joint has gains, so none tracks its targets; `actuon check` suggests gains")
    if shown:
        print_runs(console, f"{name}: {o.envs} × {len(runs[0].joints)} joints", shown)
        has_record = files.record is not None and runs[0].data
        saved = [*save_all(shown, files.output), *([files.record] if has_record else [])]
        try:
            saved += _draw(shown, files.output, files.video)
        except CannotDrawError as error:
            say(console, f"no image: {error}")
            problems += [f"--video: '{files.video}' was not written"] if files.video is not None else []
        if engine != "mujoco":
            say(console, "no image: Newton runs are not drawn; --engine mujoco uses the MJCF file of the same name")
        for file in saved:
            print(f"saved {file}")
    for problem in problems:
        complain(problem, "\n")
    return 1 if problems else 0


def _simulate(
    sources: Sequence[RobotSource], engine: str, options: SimulationOptions, record: Path | None
) -> list[Run]:
    """Run the motors of each source, and the controllers of the first with ideal motors."""
    from actuon.demo.run import simulate

    runs: list[Run] = []
    with Bar() as bar:
        for source, ideal in [*((own, False) for own in sources), (sources[0], True)]:
            file = source.yaml if len(sources) > 1 else None
            name = "ideal motors" if ideal else "real motors" if file is None else file.name
            tick = bar.task(f"{name} in {engine}, {options.seconds:g} s")
            done, recorder = simulate(
                source, options.seconds, options.envs, ideal, engine=engine, tick=tick, tell=bar.say
            )
            done.title = name
            if done.problem is None:
                tick(1.0)
            if record is not None and not runs and len(recorder):
                recorder.save(record)
            runs.append(done)
    return runs


def _draw(runs: Sequence[Run], folder: Path, video: Path | None) -> list[Path]:
    """Draw the robots that MuJoCo moved; returns the files."""
    from actuon.demo.scenes import save_picture, save_video

    filmed = [run for run in runs if run.film is not None]
    if not filmed:
        return []
    files = [folder / "robot.png"]
    save_picture(filmed, files[0])
    if video is not None:
        files.append(video)
        with Bar() as bar:
            save_video(filmed, video, bar.task("video"))
    return files
