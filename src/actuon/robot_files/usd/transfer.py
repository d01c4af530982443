# SPDX-License-Identifier: Apache-2.0
"""A robot's file and an ``actuon.yaml`` in, a robot's file with actuators out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pxr import Sdf, Tf, Usd

from ...errors import RobotFileError
from ...files import check_name, replacing
from ..yaml_files import ActuatorEntry, load_actuators
from .author import author_actuators
from .parse import parse_actuator_prim
from .stage import default_root, find_prim, open_stage, what_usd_says

_WRITABLE = (".usda", ".usd", ".usdc")
_STAGE_KEYS = (
    "defaultPrim", "upAxis", "metersPerUnit", "kilogramsPerUnit", "timeCodesPerSecond", "framesPerSecond",
    "startTimeCode", "endTimeCode",
)  # fmt: skip
"""What a stage takes from its root layer only."""


def author_file(
    robot: str | Path,
    actuators: str | Path | Sequence[ActuatorEntry],
    output: str | Path,
    root: str | None = None,
    overwrite_existing: bool = False,
    allow_unsafe_torch_checkpoints: bool = False,
) -> list[str]:
    """Write a robot's file with the actuators of an ``actuon.yaml``.

    In the robot's own folder the output is a copy of its file. In another one it is a layer over it, so that nothing of
    the robot has to be rewritten: the robot's file must stay where it is.

    Args:
        robot: A USD file. It is not changed, unless it is ``output`` too.
        actuators: An ``actuon.yaml``, or what `load_actuators` reads from one.
        output: The file to write. It is written whole, or not at all.
        root: Path of the robot's root prim. Default: the file's default prim.
        overwrite_existing: Replace actuators that the robot has already.
        allow_unsafe_torch_checkpoints: As for `parse_actuator_prim`.

    Returns:
        Paths of the actuators.
    """
    robot, output = Path(robot), Path(output)
    check_name(output)
    if output.suffix.lower() not in _WRITABLE:
        raise RobotFileError(f"'{output}' has the format '{output.suffix}'; must be one of {', '.join(_WRITABLE)}")
    if isinstance(actuators, (str, Path)):
        actuators = load_actuators(actuators, allow_unsafe_torch_checkpoints)
    source = open_stage(robot)
    with replacing(output) as partial:
        try:
            layer = Sdf.Layer.CreateAnonymous(output.suffix)
            _take_over(source.GetRootLayer(), partial, layer)
            # Saved first, so that the layer has a folder, relative to which networks are stored.
            layer.Export(str(partial))
            layer = Sdf.Layer.FindOrOpen(str(partial))
            stage = Usd.Stage.Open(layer)
            prim = find_prim(stage, root) if root else default_root(stage)
            prims = author_actuators(prim, actuators, overwrite_existing=overwrite_existing, stage=stage)
            for written in prims:
                parse_actuator_prim(written, allow_unsafe_torch_checkpoints)
            paths = [str(prim.GetPath()) for prim in prims]
            layer.Save()
        except Tf.ErrorException as error:
            raise RobotFileError(f"'{output}' cannot be written: {what_usd_says(error)}") from error
    open_already = Sdf.Layer.Find(os.path.realpath(output))
    if open_already:
        open_already.Reload(True)
    return paths


def _take_over(source: Any, path: Path, layer: Any) -> None:
    """Fill ``layer``, to be stored at ``path``, with the robot: a copy of ``source``, or a layer over it."""
    original = Path(os.path.realpath(source.realPath))
    if original.parent == path.parent and original.suffix.lower() in _WRITABLE:
        layer.TransferContent(source)
        return
    layer.subLayerPaths.append(Path(os.path.relpath(original, path.parent)).as_posix())
    for key in _STAGE_KEYS:
        if source.pseudoRoot.HasInfo(key):
            layer.pseudoRoot.SetInfo(key, source.pseudoRoot.GetInfo(key))
