# SPDX-License-Identifier: Apache-2.0
"""Libraries that a fit needs and that come with an extra, loaded when first used."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import MissingExtraError


def need(module: str, extra: str = "fit", purpose: str = "fitting") -> Any:
    """Import a module of an extra.

    Raises:
        MissingExtraError: It is not installed; says what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(module.partition(".")[0], extra, purpose) from error
