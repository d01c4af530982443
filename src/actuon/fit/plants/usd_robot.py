# SPDX-License-Identifier: Apache-2.0
"""Conversion of a robot in USD to a MuJoCo specification, by Newton and its MuJoCo solver."""

from __future__ import annotations

import collections
import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

from ...errors import require


def spec_of_usd(mujoco: Any, path: Path) -> Any:
    """Return the `MjSpec` of a robot in USD. A joint is named by the last part of its path, if that is unique."""
    newton = require("newton", "newton", "fitting a robot in USD")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        builder = newton.ModelBuilder()
        builder.add_usd(str(path), load_visual_shapes=False)
        model = builder.finalize(device="cpu")
        written = Path(folder) / "robot.xml"
        newton.solvers.SolverMuJoCo(model, use_mujoco_cpu=True, disable_contacts=True, save_to_mjcf=str(written))
        spec = mujoco.MjSpec.from_file(str(written))
    last = {label.replace("/", "_"): label.rpartition("/")[2] for label in model.joint_label}
    often = collections.Counter(last.values())
    for joint in spec.joints:
        short = last.get(joint.name, joint.name)
        if often[short] == 1:
            joint.name = short
    return spec
