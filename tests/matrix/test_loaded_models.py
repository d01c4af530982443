# SPDX-License-Identifier: Apache-2.0
"""Random models in a plain loop and in a simulation: see `tests.support.loaded`."""

from __future__ import annotations

import pytest

from tests.support import loaded


@pytest.mark.parametrize("seed", range(300))
def test_random_models(seed):
    loaded.check(loaded.draw(seed))
