# SPDX-License-Identifier: Apache-2.0
"""Kernels give the same bits with and without optimisation, and with and without 512-bit vectors.

Tests compile most kernels without optimisation. Networks over many DOFs use 512-bit vectors where the CPU has them.
Compared are efforts, states, derivatives, bounds and gradients of every chain and network of the golden files, and
implicit steps. ``make test-levels`` runs this.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from scripts.golden import file
from tests.support.paths import ROOT

PARTS = ("chains", "networks", "implicit")
DOFS = "66"
"""A block of 64, and a tail."""


RUNS = {
    "users": (PARTS, ("--level", "2")),
    "not optimised": (PARTS, ("--level", "0")),
    "narrow": (("networks",), ("--level", "2", "--narrow")),
}
"""Golden files by name: their parts, and options of the script that writes them."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Golden files by name of the run, each written by a process of its own."""
    made = {name: tmp_path_factory.mktemp("golden") for name in RUNS}
    command = [sys.executable, "-m", "scripts.golden", "write", "--dofs", DOFS]
    running = [
        subprocess.Popen(
            [*command, "--folder", made[name], "--only", *parts, *options], cwd=ROOT, stderr=subprocess.DEVNULL
        )
        for name, (parts, options) in RUNS.items()
    ]
    assert [process.wait() for process in running] == [0] * len(running)
    return made


@pytest.mark.parametrize(
    ("name", "part"), [(name, part) for name, (parts, _) in RUNS.items() for part in parts if name != "users"]
)
def test_bits_are_the_same(name, part, folders):
    other, users = (file.read(folders[run] / f"{part}.npz")[0] for run in (name, "users"))
    assert other.keys() == users.keys()
    assert len(other) > 100
    differ = {entry: said for entry, array in other.items() if (said := file.difference(array, users[entry]))}
    assert differ == {}
