# SPDX-License-Identifier: Apache-2.0
"""Random chains, networks, robot files and command lines against independent references. See docs/testing.md."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = str(Path(__file__).parents[1] / "tests")
if _TESTS not in sys.path:
    sys.path.append(_TESTS)
