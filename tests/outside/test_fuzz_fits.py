# SPDX-License-Identifier: Apache-2.0
"""A short, seeded slice of the rig that fits logs of known motors."""

from __future__ import annotations

import pytest

pytest.importorskip("mujoco")
pytest.importorskip("cmaes")

from fuzz.fits import fits, fits_without_information


def test_a_slice_of_fits():
    assert fits.run(4, 2) >= 2


def test_a_slice_of_fits_on_logs_without_information():
    assert fits_without_information.run(1, 6) >= 6
