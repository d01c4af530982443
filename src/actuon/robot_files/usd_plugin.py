# SPDX-License-Identifier: Apache-2.0
"""Makes the Newton schema known to USD, without loading USD.

USD looks for schemas once, when it is first used. So the folder of ``newton-usd-schemas`` is added to the path on which
USD looks for plugins when Actuon is imported. If USD is already loaded, the plugin is registered at once.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

_PACKAGE = "newton_usd_schemas"
_VARIABLE = "PXR_PLUGINPATH_NAME"


def announce_schemas() -> None:
    """Let USD find the Newton schema, if it is installed."""
    try:
        found = importlib.util.find_spec(_PACKAGE)
    except ValueError:  # it is being loaded, or replaced
        return
    if found is None or not found.submodule_search_locations:
        return
    folder = found.submodule_search_locations[0]
    paths = [path for path in os.environ.get(_VARIABLE, "").split(os.pathsep) if path]
    if folder not in paths:
        os.environ[_VARIABLE] = os.pathsep.join([*paths, folder])
    if sys.modules.get("pxr") is not None:
        importlib.import_module(_PACKAGE)
