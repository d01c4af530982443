# SPDX-License-Identifier: Apache-2.0
"""A robot's file and an ``actuon.yaml`` in, a robot's file with actuators out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pxr import Sdf, Tf, Usd, UsdUtils

from ..errors import RobotFileError
from ..spec.yaml_files import load_actuators
from .author import author_actuators
from .parse import parse_actuators
from .stage import default_root, find_prim, open_stage

_WRITABLE = (".usda", ".usd", ".usdc")


def author_file(
    robot: str | Path,
    actuators: str | Path,
    output: str | Path,
    root: str | None = None,
    overwrite_existing: bool = False,
) -> list[str]:
    """Write a copy of a robot's file with the actuators of an ``actuon.yaml``. References in it stay references.

    Args:
        robot: A USD file. It is not changed, unless it is ``output`` too.
        actuators: An ``actuon.yaml``.
        output: The file to write. It is written whole, or not at all.
        root: Path of the robot's root prim. Default: the file's default prim.
        overwrite_existing: Replace actuators that the robot has already.

    Returns:
        Paths of the actuators.
    """
    robot, output = Path(robot), Path(output)
    if output.suffix not in _WRITABLE:
        raise RobotFileError(f"'{output}' has the format '{output.suffix}'; must be one of {', '.join(_WRITABLE)}")
    if not output.parent.is_dir():
        raise RobotFileError(f"'{output}': its folder does not exist")
    entries = load_actuators(actuators)
    source = open_stage(robot)
    # Beside the target, so that relative paths mean the same in it, and renaming cannot fail half-way.
    partial = output.with_name(f".{output.stem}.partial{output.suffix}")
    try:
        layer = _copy(source.GetRootLayer(), partial)
        stage = Usd.Stage.Open(layer)
        prim = find_prim(stage, root) if root else default_root(stage)
        prims = author_actuators(prim, entries, overwrite_existing=overwrite_existing, stage=stage)
        parse_actuators(prim, allow_unsafe_torch_checkpoints=True)
        paths = [str(prim.GetPath()) for prim in prims]
        layer.Save()
        os.replace(partial, output)
    except (Tf.ErrorException, OSError) as error:
        raise RobotFileError(f"'{output}' cannot be written: {' '.join(str(error).split())}") from error
    finally:
        partial.unlink(missing_ok=True)
    return paths


def _copy(source: Any, path: Path) -> Any:
    """A copy of a layer in another place, which refers to the same files."""
    path.unlink(missing_ok=True)
    layer = Sdf.Layer.CreateNew(str(path))
    if layer is None:
        raise RobotFileError(f"'{path.parent}' cannot be written to")
    layer.TransferContent(source)
    from_folder, to_folder = Path(source.realPath).parent.absolute(), path.parent.absolute()
    if from_folder != to_folder:

        def moved(asset: str) -> str:
            is_relative = asset and not os.path.isabs(asset) and "://" not in asset
            found = is_relative and (from_folder / asset.split("[")[0].split(":SDF_FORMAT_ARGS")[0]).exists()
            return os.path.relpath(from_folder / asset, to_folder) if found else asset

        UsdUtils.ModifyAssetPaths(layer, moved)
    return layer
