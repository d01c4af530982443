# SPDX-License-Identifier: Apache-2.0
"""Script of `film` that renders frames of a MuJoCo model and writes their bytes to the standard output.

Arguments: model.mjb, positions.npy of shape (frames, nq), index of the body to follow, width, height.
"""

from __future__ import annotations

import sys

import mujoco
import numpy as np


def main() -> None:
    scene, positions, root, width, height = sys.argv[1:]
    model = mujoco.MjModel.from_binary_path(scene)
    data = mujoco.MjData(model)
    camera = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, camera)
    mujoco.mj_fwdPosition(model, data)
    beside = camera.lookat[:2] - data.xpos[int(root), :2]
    with mujoco.Renderer(model, int(height), int(width)) as renderer:
        for qpos in np.load(positions):
            data.qpos[:] = qpos
            mujoco.mj_fwdPosition(model, data)
            camera.lookat[:2] = data.xpos[int(root), :2] + beside
            renderer.update_scene(data, camera)
            sys.stdout.buffer.write(renderer.render().tobytes())
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
