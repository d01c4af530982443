# SPDX-License-Identifier: Apache-2.0
"""Images and videos of runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from actuon.charts import pyplot, save_figure
from actuon.errors import Fix, MissingExtraError, Option, RobotFileError
from actuon.files import check_folder, replacing

from .film import FRAMES_PER_SECOND, Film
from .run import Run

VIDEO_FORMATS = (".mp4", ".gif")
_VIDEO = Option("video", "--video")
_SIZE = (448, 336)
"""Width and height of an image of a robot [px], multiples of 16 for video encoders."""
_MOMENTS = 4


def moments(run: Run) -> list[tuple[str, float]]:
    """Return names and times [s] of the moments to show: the end of each kind of phase, the top of a hop."""
    shown: dict[str, float] = {}
    for phase in run.phases:
        during = (run.data["time"] >= phase.start) & (run.data["time"] < phase.end)
        heights = np.where(during[: len(run.heights)], run.heights[:, 0], -np.inf)
        time = float(run.data["time"][np.argmax(heights)]) if phase.name == "hop" else phase.end
        shown.setdefault(phase.name, time)
    if shown:
        return list(shown.items())
    return [("", run.end * (i + 1) / _MOMENTS) for i in range(_MOMENTS)]


def save_picture(runs: list[Run], path: Path) -> None:
    """Draw moments of each run that has a film, a row for each.

    Raises:
        CannotDrawError: MuJoCo finds no OpenGL library.
    """
    filmed = [(run, run.film) for run in runs if run.film is not None]
    columns = max(len(moments(run)) for run, _ in filmed)
    plt = pyplot()
    size = (3.2 * columns, 2.65 * len(filmed))
    figure, axes = plt.subplots(len(filmed), columns, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat:
        axis.set_axis_off()
    for row, (run, film) in zip(axes, filmed, strict=True):
        frames = [film.at(time) for _, time in moments(run)]
        for axis, frame, (name, _), picture in zip(row, frames, moments(run), film.draw(frames, *_SIZE), strict=False):
            axis.imshow(picture)
            axis.set_title(f"{run.title}: {name + ', ' if name else ''}{film.times[frame]:.2f} s", fontsize=9)
    save_figure(figure, path)


def save_video(runs: list[Run], path: Path, tick: Callable[[float], None] | None = None) -> None:
    """Write a video of the runs side by side, as ``.mp4`` or ``.gif``.

    Raises:
        CannotDrawError: MuJoCo finds no OpenGL library.
        MissingExtraError: The extra that writes videos is not installed.
    """
    filmed = [(run, run.film) for run in runs if run.film is not None]
    every, write = (2, _write_gif) if path.suffix == ".gif" else (1, _write_mp4)
    frames = range(0, max(len(film.times) for _, film in filmed), every)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        write(partial, _side_by_side(filmed, frames, tick), FRAMES_PER_SECOND / every)


def check_video(path: Path, engine: str) -> None:
    """Raise an error if a video could not be written. Call before the simulation."""
    if path.suffix not in VIDEO_FORMATS:
        formats = " or ".join(VIDEO_FORMATS)
        raise RobotFileError(f"'{path}' has the format '{path.suffix}'; must be {formats}", option=_VIDEO)
    if path.is_dir():
        raise RobotFileError(f"'{path}' is a directory; must be a file", option=_VIDEO)
    if engine != "mujoco":
        fix = Fix("engine='mujoco'", "--engine mujoco")
        raise RobotFileError(f"needs the engine mujoco; the engine is {engine}. Use ", fix=fix, option=_VIDEO)
    check_folder(path.parent)
    _pillow()
    if path.suffix == ".mp4":
        _ffmpeg()


def _pillow() -> Any:
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError as error:
        raise MissingExtraError("pillow", "video", "a video") from error
    return PIL


def _ffmpeg() -> Any:
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise MissingExtraError("imageio-ffmpeg", "video", "an .mp4") from error
    return imageio_ffmpeg


def _side_by_side(
    filmed: list[tuple[Run, Film]], frames: range, tick: Callable[[float], None] | None
) -> Iterator[np.ndarray]:
    """Yield images of all runs, each of shape (height, total width, 3). A run that ended early stands still."""
    shown = [[min(frame, len(film.times) - 1) for frame in frames] for _, film in filmed]
    streams = [film.draw(own, *_SIZE) for (_, film), own in zip(filmed, shown, strict=True)]
    for i, pictures in enumerate(zip(*streams, strict=True)):
        titled = [
            _titled(run, film, own[i], picture)
            for (run, film), own, picture in zip(filmed, shown, pictures, strict=True)
        ]
        yield np.concatenate(titled, axis=1)
        if tick is not None:
            tick((i + 1) / len(frames))


def _titled(run: Run, film: Film, frame: int, picture: np.ndarray) -> np.ndarray:
    """Return an image with its title written into it."""
    pillow = _pillow()
    time = film.times[frame]
    now = [phase.name for phase in run.phases if phase.start <= time < phase.end]
    height = "" if run.is_fixed_base else f"   {run.heights[np.argmin(np.abs(run.data['time'] - time)), 0]:.2f} m"
    image = pillow.Image.fromarray(picture)
    font = pillow.ImageFont.load_default(18)
    text = f"{run.title}   {time:.2f} s{height}   {' '.join(now)}"
    pillow.ImageDraw.Draw(image).text((12, 8), text, fill=(20, 24, 30), font=font)
    return np.asarray(image)


def _write_mp4(path: Path, pictures: Iterator[np.ndarray], rate: float) -> None:
    first = next(pictures)
    writer = _ffmpeg().write_frames(str(path), first.shape[1::-1], fps=rate, quality=7)
    writer.send(None)
    try:
        for picture in itertools.chain([first], pictures):
            writer.send(np.ascontiguousarray(picture))
    finally:
        writer.close()


def _write_gif(path: Path, pictures: Iterator[np.ndarray], rate: float) -> None:
    images = [_pillow().Image.fromarray(picture).quantize(96) for picture in pictures]
    images[0].save(path, save_all=True, append_images=images[1:], duration=1000 / rate, loop=0)
