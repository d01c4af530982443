# SPDX-License-Identifier: Apache-2.0
"""Motors of both effort modes beside others move the same in every way of stepping; `tests/matrix` has all kinds."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from tests.support import stepping

COVERING = (stepping.OWN_KERNEL, stepping.COUPLED, "ClampingBattery")
"""Kinds that are stepped in different ways: by Python, joints together, and with loads that motors share."""


@pytest.mark.parametrize("kind", COVERING)
def test_ways_in_mujoco(kind):
    ways = {cell.way for cell in stepping.cells([kind], ["mujoco"])}
    assert ways == stepping.WAYS.keys() | stepping.IN_MUJOCO.keys()
    for cell in stepping.cells([kind], ["mujoco"], ["explicit", "implicit"]):
        if cell.way in ("singly", "by_hand", "heard at pre-step", "with_python_callback"):
            stepping.check(cell)


@pytest.mark.parametrize("way", list(stepping.WAYS))
def test_ways_in_newton(way):
    for cell in stepping.cells([stepping.OWN_KERNEL], ["newton"], ["explicit"]):
        if cell.way == way and cell.place == "one_attachment":
            stepping.check(cell)


@pytest.mark.parametrize("engine", stepping.ENGINES)
def test_a_first_step_by_hand_is_remembered(engine):
    """Before the simulation was started, which clears what motors remember."""
    stepping.check(stepping.Cell(engine, "one_attachment", "by_hand", "Delay", "explicit"))
