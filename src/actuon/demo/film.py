# SPDX-License-Identifier: Apache-2.0
"""Frames of a run, rendered by MuJoCo without a screen."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from actuon.errors import ActuonError
from actuon.sim import MujocoSimulation

FRAMES_PER_SECOND = 30
_RENDERER = Path(__file__).with_name("render_frames.py")
_HELP = "Install EGL, part of GPU drivers, or OSMesa, Debian's libosmesa6; MUJOCO_GL chooses between them"


class CannotDrawError(ActuonError, RuntimeError):
    """MuJoCo finds no OpenGL library."""


@dataclass
class Film:
    """Positions of the first environment, `FRAMES_PER_SECOND`."""

    model: Any
    """The model of MuJoCo."""
    root: int
    """Number of the body that the camera follows."""
    times: list[float] = field(default_factory=list)
    """Time of each frame [s]."""
    positions: list[np.ndarray] = field(default_factory=list)
    """Positions in each frame, shape (nq,)."""

    @staticmethod
    def of(simulation: MujocoSimulation) -> Film:
        """Return an empty film of a simulation."""
        return Film(simulation.models[0], simulation.robots[0].root_body)

    def shoot(self, simulation: MujocoSimulation) -> None:
        """Add a frame if one is due."""
        if simulation.time >= len(self.times) / FRAMES_PER_SECOND:
            self.times.append(simulation.time)
            self.positions.append(simulation.data[0].qpos.copy())

    def at(self, time: float) -> int:
        """Return the frame that is nearest to a time [s]."""
        return int(np.argmin(np.abs(np.array(self.times) - time)))

    def draw(self, frames: list[int], width: int, height: int) -> Iterator[np.ndarray]:
        """Yield images of these frames, each of shape (height, width, 3), 8 bits.

        Raises:
            CannotDrawError: MuJoCo finds no OpenGL library.
        """
        import mujoco

        from actuon.sim.mujoco.model import shown_groups

        size = 3 * width * height
        with tempfile.TemporaryDirectory() as folder:
            scene = Path(folder, "model.mjb")
            model = copy.copy(self.model)
            model.geom_group[shown_groups(model)[model.geom_group]] = 0
            mujoco.mj_saveModel(model, str(scene), None)
            positions = Path(folder, "positions.npy")
            np.save(positions, np.array([self.positions[frame] for frame in frames]))
            arguments = [str(scene), str(positions), str(self.root), str(width), str(height)]
            problems = []
            for library in _libraries():
                with _started(arguments, library, Path(folder, "errors")) as process:
                    drawn = 0
                    while len(picture := process.stdout.read(size)) == size:  # type: ignore[union-attr]
                        yield np.frombuffer(picture, np.uint8).reshape(height, width, 3)
                        drawn += 1
                if drawn == len(frames):
                    return
                said = Path(folder, "errors").read_text(errors="replace").strip().splitlines() or ["it crashed"]
                problems.append(f"{library or 'default'}: {said[-1]}")
                if drawn:
                    break
        raise CannotDrawError(f"MuJoCo cannot draw here ({'; '.join(problems)}). {_HELP}")


def _libraries() -> list[str]:
    """Return the values of MUJOCO_GL to try, in turn; an empty one is MuJoCo's own choice."""
    chosen = os.environ.get("MUJOCO_GL", "")
    if chosen or not sys.platform.startswith("linux"):
        return [chosen]
    return [*(["glfw"] if os.environ.get("DISPLAY") else []), "egl", "osmesa"]


def _started(arguments: list[str], library: str, errors: Path) -> subprocess.Popen[bytes]:
    """Start the renderer in a separate process, which has one OpenGL library and may crash with a bad driver."""
    environment = {name: value for name, value in os.environ.items() if name != "PYOPENGL_PLATFORM"}
    if library:
        environment["MUJOCO_GL"] = library
    command = [sys.executable, "-P", str(_RENDERER), *arguments]
    with errors.open("wb") as stream:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stream, env=environment)
