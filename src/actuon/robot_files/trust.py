# SPDX-License-Identifier: Apache-2.0
"""Who may name a PyTorch network: code may, and a file only where its reader was told to trust it.

Loading a ``.pt`` or ``.pt2`` file can run code that is in it. A path in Python code is the caller's own act. A path in
a robot's file is not: whoever made the file chose it. So everything that reads files, USD or YAML, hands what it read
to `check_trusted` before it makes a config of it, and takes ``allow_unsafe_torch_checkpoints`` from its caller, never
from the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from ..errors import RobotFileError

TORCH_FORMATS = (".pt", ".pth", ".pt2")


def check_trusted(values: Mapping[str, Any], allow_unsafe_torch_checkpoints: bool) -> None:
    """Refuse parameters that name a PyTorch file, whatever they are called, unless that is allowed.

    Args:
        values: What a file says, by parameter: text, tuples of text, or anything else.
        allow_unsafe_torch_checkpoints: The caller trusts the file, and the networks that it names.
    """
    if allow_unsafe_torch_checkpoints:
        return
    for value in values.values():
        for entry in value if isinstance(value, tuple) else (value,):
            if isinstance(entry, str) and PurePath(entry).suffix.lower() in TORCH_FORMATS:
                raise RobotFileError(
                    f"the network '{entry}' is a PyTorch file, and loading one can run code in it; if you trust it, "
                    "pass allow_unsafe_torch_checkpoints=True, or --allow-torch on the command line; otherwise store "
                    "it as .onnx or .safetensors"
                )
