# SPDX-License-Identifier: Apache-2.0
"""Every engine, way of stepping, way of attaching, kind of stage and effort mode: see `tests.support.stepping`."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from tests.support import stepping


@pytest.mark.parametrize("mode", stepping.MODES)
@pytest.mark.parametrize("kind", stepping.KINDS)
@pytest.mark.parametrize("engine", stepping.ENGINES)
def test_all_ways(engine, kind, mode):
    for cell in stepping.cells([kind], [engine], [mode]):
        stepping.check(cell)
