# SPDX-License-Identifier: Apache-2.0
"""``actuon run``: a robot that moves, with its real motors and with ideal ones."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

import actuon
from actuon.files import check_folder

from .messages import complain
from .options import AllowTorch
from .outputs import check_record
from .tables import make_console, print_runs

if TYPE_CHECKING:
    from actuon.demo.run import Run


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
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the plots and of the picture.", readable=False)
    ] = Path("out"),
    video: Annotated[
        Path | None, typer.Option(help="Save both runs side by side as .mp4 or .gif, in MuJoCo.", readable=False)
    ] = None,
    allow_torch: AllowTorch = False,
) -> None:
    """Move a robot with its real motors and with ideal ones: a table per joint, plots, and a picture.

    A quadruped crouches, hops twice and is pushed. Any other robot swings its joints, within their range.

    The exit code is 1 if a run diverges; what there is until then is shown and saved. It is also 1 if a joint is at a
    limit for more than half of the time; or if its gains are unstable, and it is at a limit for more than a tenth of
    the time or does not follow its target.
    """
    from actuon.charts import pyplot
    from actuon.demo.film import CannotDrawError
    from actuon.demo.plots import save_all
    from actuon.demo.run import lost_targets, saturation, simulate
    from actuon.demo.scenes import check_video
    from actuon.robot_source import find_source

    engine, source = find_source(robot, allow_torch).in_engine(engine)
    path = source.file
    check_folder(output)
    if record is not None:
        check_record(record)
    if video is not None:
        check_video(video, engine)
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
            tell = functools.partial(progress.console.print, highlight=False, markup=False)
            done, recorder = simulate(source, seconds, envs, ideal, engine=engine, tick=tick, tell=tell)
            if done.problem is None:
                progress.update(task, completed=1.0)
            runs.append(done)
            if record is not None and not ideal and len(recorder):
                recorder.save(record)
    shown = [done for done in runs if done.data]
    found = [(done, done.problem or saturation(done) or lost_targets(done)) for done in runs]
    problems = [f"{done.title}: {problem}" for done, problem in found if problem is not None]
    if shown:
        print_runs(console, f"{path.name}: {envs} × {len(runs[0].joints)} joints", shown)
        saved = [*save_all(shown, output), *([record] if record is not None and runs[0].data else [])]
        try:
            saved += _draw(console, shown, output, video)
        except CannotDrawError as error:
            print(f"no picture: {error}")
            problems += [f"--video: '{video}' was not written"] if video is not None else []
        if engine != "mujoco":
            print("no picture: only MuJoCo draws; --engine mujoco takes the MJCF file of the same name")
        for file in saved:
            print(f"saved {file}")
    for problem in problems:
        complain(problem)
    if problems:
        raise typer.Exit(1)


def _draw(console: Any, runs: list[Run], folder: Path, video: Path | None) -> list[Path]:
    """Draw the robot, where MuJoCo moved it; returns the files."""
    from actuon.demo.scenes import save_picture, save_video

    filmed = [run for run in runs if run.film is not None]
    if not filmed:
        return []
    files = [folder / "robot.png"]
    save_picture(filmed, files[0])
    if video is not None:
        files.append(video)
        with Progress(console=console, transient=not console.is_terminal) as progress:
            task = progress.add_task("video", total=1.0)
            save_video(filmed, video, functools.partial(_update, progress, task))
    return files


def _update(progress: Any, task: Any, share: float) -> None:
    progress.update(task, completed=share)
