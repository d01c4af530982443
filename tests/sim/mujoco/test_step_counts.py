# SPDX-License-Identifier: Apache-2.0
"""`step(n)` is n single steps, to the last bit, whoever listens: see `tests.support.step_counts`."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mujoco")
from tests.support import step_counts


@pytest.mark.parametrize("attach", step_counts.ATTACHED)
def test_without_a_flag(attach):
    """Limits follow the pose, as they include gravity compensation."""
    assert np.isfinite(step_counts.check(attach, None)).all()


def test_flags_are_all_there():
    assert len(step_counts.FLAGS) > 20


@pytest.mark.parametrize("flag", ["mjDSBL_GRAVITY", "mjDSBL_ACTUATION", "mjDSBL_WARMSTART", "mjENBL_SLEEP"])
def test_flags(flag):
    step_counts.check("explicit", flag)
