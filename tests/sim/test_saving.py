# SPDX-License-Identifier: Apache-2.0
"""Simulations saved to a file go on bit for bit in another process; files that do not fit change nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import saved_runs

ROOT = Path(__file__).parents[2]


def resumed(folder, cases):
    """What each case found in the process that saved it, and in another one, which takes them all."""
    here = {case: saved_runs.save(folder, case) for case in cases}
    command = [sys.executable, "-m", "tests.support.saved_runs", folder, *here]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return {case: (found, folder / f"{case}.found.npz") for case, found in here.items()}


@pytest.fixture(scope="module")
def in_mujoco(tmp_path_factory):
    return resumed(tmp_path_factory.mktemp("mujoco"), saved_runs.MUJOCO)


@pytest.fixture(scope="module")
def in_newton(tmp_path_factory):
    return resumed(tmp_path_factory.mktemp("newton"), saved_runs.NEWTON)


def assert_alike(here, path):
    """All that was found in both processes is the same, and the robots moved."""
    with np.load(path) as there:
        assert set(there.files) == here.keys()
        for name, values in here.items():
            np.testing.assert_array_equal(there[name], values, err_msg=name)
    for before, after in (("saved", "later"), ("later", "last")):
        assert np.abs(here[f"{after}/engine"] - here[f"{before}/engine"]).max() > 1e-3


@pytest.mark.parametrize("case", saved_runs.MUJOCO)
def test_a_saved_simulation_goes_on_bit_for_bit_in_another_process(case, in_mujoco):
    assert_alike(*in_mujoco[case])


@pytest.mark.parametrize("case", saved_runs.NEWTON)
def test_so_does_one_in_newton(case, in_newton):
    assert_alike(*in_newton[case])
