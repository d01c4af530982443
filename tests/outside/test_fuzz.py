# SPDX-License-Identifier: Apache-2.0
"""A short, seeded slice of what ``make fuzz`` runs for as long as it is let."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from fuzz.rigs import RIGS
from fuzz.soak import ChainSoak

SLICES = {
    "chains": (6, 20),
    "gradients": (1, 4),
    "networks": (3, 3),
    "network_files": (6, 12),
    "yaml": (0, 15),
    "usd": (0, 5),
    "damaged_files": (0, 25),
    "reworded_files": (0, 25),
    "retyped_yaml": (0, 25),
    "command_line": (24, 12),
}
"""Seed and number of examples of each rig: seeds that compile little and start no simulation."""


OPTIMISED = ("fits",)
"""Rigs that simulate more than they compile, in `test_fuzz_fits`."""


def test_every_rig_has_a_slice():
    assert [*SLICES, *OPTIMISED] == list(RIGS)


@pytest.mark.parametrize("name", SLICES)
def test_a_slice(name):
    seed, examples = SLICES[name]
    assert RIGS[name].run(seed, examples) >= examples


def test_a_short_soak():
    report = ChainSoak(seed=0).run(3000, intervals=10)
    assert report.compared > 500
