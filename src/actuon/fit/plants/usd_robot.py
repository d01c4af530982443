# SPDX-License-Identifier: Apache-2.0
"""A robot in USD as MuJoCo's specification: Newton reads the file, and writes what its MuJoCo solver makes of it."""

from __future__ import annotations

import collections
import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

from ...errors import MissingExtraError


def spec_of_usd(mujoco: Any, path: Path) -> Any:
    """The `MjSpec` of a robot in USD. Joints are called by the last part of their path, where no two share it."""
    try:
        import newton
    except ImportError as error:
        raise MissingExtraError("newton", "newton", "fitting a robot in USD") from error
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
