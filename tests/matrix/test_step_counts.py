# SPDX-License-Identifier: Apache-2.0
"""`step(n)` against n single steps under every flag of MuJoCo: see `tests.support.step_counts`."""

from __future__ import annotations

import pytest

pytest.importorskip("mujoco")
from tests.support import step_counts


@pytest.mark.parametrize("flag", step_counts.FLAGS)
@pytest.mark.parametrize("attach", step_counts.ATTACHED)
def test_every_flag(attach, flag):
    step_counts.check(attach, flag)
