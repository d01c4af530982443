# SPDX-License-Identifier: Apache-2.0
"""A short, seeded slice of what ``make fuzz`` runs for as long as it is let."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from hypothesis import strategies as st

from fuzz.__main__ import run
from fuzz.mjcf_flags import unknown
from fuzz.rig import Rig
from fuzz.rigs import RIGS
from fuzz.soak import ChainSoak

SLICES = {
    "chains": (6, 8),
    "motors": (1, 4),
    "delays": (2, 20),
    "gradients": (1, 4),
    "networks": (3, 3),
    "network_files": (6, 12),
    "yaml": (0, 15),
    "usd": (0, 5),
    "damaged_files": (0, 25),
    "reworded_files": (0, 25),
    "retyped_yaml": (0, 25),
    "state_files": (1, 40),
    "sequences": (1, 30),
    "mjcf_flags": (0, 1),
    "stepping": (24, 2),
    "step_counts": (0, 2),
    "loaded": (3, 4),
    "command_line": (24, 12),
}
"""Seed and number of examples of each rig: seeds that compile little and start no simulation."""


OPTIMISED = ("fits", "fits_without_information")
"""Rigs that simulate more than they compile, in `test_fuzz_fits`."""


def test_every_rig_has_a_slice():
    assert [*SLICES, *OPTIMISED] == list(RIGS)


@pytest.mark.parametrize("name", SLICES)
def test_a_slice(name):
    seed, examples = SLICES[name]
    assert RIGS[name].run(seed, examples) >= examples


def test_attributes_of_this_mujoco_are_in_the_tables():
    assert not unknown()


def test_a_line_says_what_a_rig_did(capsys):
    assert run([RIGS["yaml"]], first=3, minutes=None, cases=5) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"yaml: \d+ cases, \d+ s, 0 failures, seeds 3 to 3, commit \S+", line)


def test_a_failure_is_counted_and_says_how_to_see_it_again(capsys):
    def fails(number):
        raise ValueError(f"it was {number}")

    broken = Rig("broken", fails, lambda seed: {"number": st.integers()}, 4)
    assert run([broken], first=2, minutes=None, cases=2) == 1
    out = capsys.readouterr().out
    assert "broken: 2 cases, 0 s, 2 failures, seeds 2 to 3" in out
    assert "failed: python -m fuzz broken --seed 3" in out


def test_a_short_soak():
    report = ChainSoak(seed=0).run(3000, intervals=10)
    assert report.compared > 500
