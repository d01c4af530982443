# SPDX-License-Identifier: Apache-2.0
"""Sentences of pages that state a figure or a method agree with the tables and the classes that they are about."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import actuon
from actuon.lab import ActuatorGroups

DOCS = Path(__file__).parents[2] / "docs"


def text_of(name):
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


def rows_of(name, first_cell):
    """Cells of the rows of a table whose first cell begins with a text."""
    lines = (DOCS / name).read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in rows if row[0].startswith(first_cell)]


def test_the_interfaces_have_the_methods_that_the_page_on_choosing_names():
    classes = actuon.Motors, actuon.Actuator, actuon.ArticulationActuators, ActuatorGroups
    (row,) = rows_of("start/choose.md", "parameters")
    for cls, cell in zip(classes, row[1:], strict=True):
        promised = "`randomize()`" in f"`{cell}`" and "each group" not in cell
        assert hasattr(cls, "randomize") == promised, cls
    assert hasattr(actuon.lab.DCMotor, "randomize")
    assert "each group has `randomize()" in row[-1]


def test_the_excess_of_implicit_motors_is_that_of_the_table():
    excess = {}
    for _, step, beyond, *_ in rows_of("measured/implicit_motors.md", "jumps of up to"):
        excess[step] = max(excess.get(step, 0.0), float(beyond))
    said = re.search(r"up to (\d+) N·m at 5 ms, and (\d+) N·m at 10 ms", text_of("guides/mujoco_loop.md"))
    assert [int(number) for number in said.groups()] == [round(excess["5"]), round(excess["10"])]


def test_what_training_on_real_motors_does_at_20_ms_is_that_of_the_table():
    rows = {(row[0], row[1]): row for row in rows_of("measured/walking.md", "")}
    errors, falls = (
        [statistics.median(map(float, rows[who, "real, 20 ms late"][column].split(", "))) for who in ("real", "ideal")]
        for column in (3, 2)
    )
    said = re.search(
        r"velocity error is ([\d.]+) instead of ([\d.]+) m/s, that of the falls (\d+) instead of (\d+) %",
        text_of("measured/walking.md"),
    )
    assert [float(number) for number in said.groups()] == [*errors, *falls]


def test_networks_and_the_model_are_ranked_as_in_the_table():
    lines = (DOCS / "fit/networks.md").read_text(encoding="utf-8").splitlines()
    model, *networks = (
        [float(re.sub(r"<!--.*?-->", "", cell)) for cell in line.strip("|").split("|")[2:4]]
        for line in lines
        if re.match(r"\| `(servo_m2q|mlp|gru|lstm)`", line)
    )
    assert all(network[0] < model[0] for network in networks)
    assert all(network[1] > model[1] for network in networks)
    assert "Without kp 100, the networks are better than `servo_m2q`" in text_of("fit/networks.md")
    assert "all three are slightly worse" in text_of("fit/networks.md")


def test_the_page_on_accuracy_is_the_one_that_its_numbers_give():
    from studies.accuracy.page import page

    found = json.loads((DOCS / "measured/accuracy.json").read_text(encoding="utf-8"))
    assert (DOCS / "measured/accuracy.md").read_text(encoding="utf-8") == page(found)
