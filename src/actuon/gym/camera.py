# SPDX-License-Identifier: Apache-2.0
"""Images of a robot by MuJoCo, without a screen."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import mujoco
import numpy as np

from ..errors import ParameterError, SimulationError, shown
from ..sim.mujoco.model import shown_groups

_HELP = "Install EGL, part of GPU drivers, or OSMesa, Debian's libosmesa6; MUJOCO_GL chooses between them"


class Camera:
    """Camera that follows a body.

    Args:
        model: The model.
        body: Index of the body.
        width: Width of images [px].
        height: Height of images [px].

    Raises:
        ParameterError: Images are larger than the model's ``offwidth`` and ``offheight``.
        SimulationError: MuJoCo finds no OpenGL library.
    """

    def __init__(self, model: mujoco.MjModel, body: int, width: int, height: int):
        most = model.vis.global_.offwidth, model.vis.global_.offheight
        if not (0 < width <= most[0] and 0 < height <= most[1]):
            raise ParameterError(
                f"width, height: got {shown((width, height))}; must be from 1 to {most}, as the model's "
                '<visual><global offwidth="…" offheight="…"/></visual> says'
            )
        self._model, self._body = model, body
        self._context = _open_gl(width, height)
        self._context.make_current()
        self._scene = mujoco.MjvScene(model, maxgeom=10_000)
        self._drawing = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._drawing)
        self._view = mujoco.MjrRect(0, 0, width, height)
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = shown_groups(model)
        self._camera = mujoco.MjvCamera()
        mujoco.mjv_defaultFreeCamera(model, self._camera)
        start = mujoco.MjData(model)
        mujoco.mj_kinematics(model, start)
        self._beside = self._camera.lookat[:2] - start.xpos[body, :2]

    def draw(self, data: mujoco.MjData) -> np.ndarray:
        """Return an image, shape (height, width, 3), 8 bits."""
        self._context.make_current()
        shown_data = mujoco.MjData(self._model)  # so that drawing changes nothing in the simulation
        shown_data.qpos[:] = data.qpos
        mujoco.mj_fwdPosition(self._model, shown_data)
        self._camera.lookat[:2] = shown_data.xpos[self._body, :2] + self._beside
        mujoco.mjv_updateScene(
            self._model,
            shown_data,
            self._option,
            None,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
        )
        picture = np.empty((self._view.height, self._view.width, 3), np.uint8)
        mujoco.mjr_render(self._view, self._scene, self._drawing)
        mujoco.mjr_readPixels(picture, None, self._view, self._drawing)
        return np.ascontiguousarray(picture[::-1])

    def close(self) -> None:
        """Free the OpenGL context."""
        self._context.make_current()
        self._drawing.free()
        self._context.free()


def _open_gl(width: int, height: int) -> Any:
    """Return a context of the first library that works, or of the one that MUJOCO_GL names."""
    chosen = os.environ.get("MUJOCO_GL", "").lower()
    linux = [*(["glfw"] if os.environ.get("DISPLAY") else []), "egl", "osmesa"]
    libraries = [chosen] if chosen else linux if sys.platform.startswith("linux") else ["cgl", "glfw"]
    problems = []
    for library in libraries:
        try:
            return importlib.import_module(f"mujoco.{library}").GLContext(width, height)
        except Exception as error:  # whatever PyOpenGL and drivers raise
            problems.append(f"{library}: {error}")
    raise SimulationError(f"MuJoCo cannot draw here ({'; '.join(problems)}). {_HELP}")
