# SPDX-License-Identifier: Apache-2.0
"""Kernels give the same bits with and without optimisation: tests compile most of them without.

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


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Golden files without optimisation and as users compile, each written by a process of its own."""
    made = [tmp_path_factory.mktemp("level") for _ in range(2)]
    command = [sys.executable, "-m", "scripts.golden", "write", "--dofs", DOFS, "--only", *PARTS, "--folder"]
    running = [
        subprocess.Popen([*command, folder, "--level", level], cwd=ROOT, stderr=subprocess.DEVNULL)
        for folder, level in zip(made, ("0", "2"), strict=True)
    ]
    assert [process.wait() for process in running] == [0, 0]
    return made


@pytest.mark.parametrize("part", PARTS)
def test_bits_are_the_same(part, folders):
    without, optimised = (file.read(folder / f"{part}.npz")[0] for folder in folders)
    assert without.keys() == optimised.keys()
    assert len(without) > 100
    differ = {name: said for name, array in without.items() if (said := file.difference(array, optimised[name]))}
    assert differ == {}
