# SPDX-License-Identifier: Apache-2.0
"""A short, seeded slice of the rig that fits logs of known motors."""

from __future__ import annotations

import pytest

pytest.importorskip("mujoco")
pytest.importorskip("cmaes")

from fuzz.fits import fits


def test_a_slice_of_fits():
    assert fits.run(4, 2) >= 2
