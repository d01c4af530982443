# SPDX-License-Identifier: Apache-2.0
"""Random models in a plain loop and in a simulation; `tests/matrix` has more. See `tests.support.loaded`."""

from __future__ import annotations

import pytest

from tests.support import loaded


@pytest.mark.parametrize("seed", range(16))
def test_random_models(seed):
    loaded.check(loaded.draw(seed, chains=("limited", "jitter", "implicit")))
