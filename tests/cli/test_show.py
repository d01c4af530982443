# SPDX-License-Identifier: Apache-2.0
"""Tables and sentences at the widths of terminals."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import actuon
from actuon.cli.show import Column, Role, say, show_table
from tests.support.command_line import assert_gives_way, command
from tests.support.robot_files import save_everything

ASSETS = actuon.assets.FOLDER
COLUMNS = (
    Column("joint", Role.HEADING),
    Column("gain", unit="N·m/rad"),
    Column("delay", unit="ms", drop=2),
    Column("remark", Role.TEXT, drop=1),
)
ROWS = (("left_knee_joint", "60", "12.5", "the stiffest of all"), ("hip", "7.25", "", ""))


def printed(columns, rows, width, **options):
    console = Console(file=io.StringIO(), width=width)
    show_table(console, columns, rows, **options)
    return console.file.getvalue()


def cells(text):
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]


def test_a_table_has_all_columns_if_they_fit():
    text = printed(COLUMNS, ROWS, 80, title="Gains")
    assert text.startswith("Gains\n")
    assert "┃ joint           ┃ gain [N·m/rad] ┃ delay [ms] ┃ remark              ┃" in text
    assert cells(text) == [list(row) for row in ROWS]


def test_texts_are_wrapped_before_columns_are_left_out():
    text = printed(COLUMNS, ROWS, 61)
    assert len(cells(text)) > 2
    assert "remark" in text
    assert "not shown" not in text


def test_columns_are_left_out_in_their_order():
    text = printed(COLUMNS, ROWS, 44)
    assert text.endswith("not shown, for lack of width: remark\n")
    assert cells(text)[0] == ["left_knee_joint", "60", "12.5"]
    text = printed(COLUMNS, ROWS, 32)
    assert cells(text)[0] == ["left_knee_joint", "60"]
    assert "not shown, for lack of width:\ndelay, remark\n" in text


def test_at_last_each_row_is_a_block():
    assert printed(COLUMNS, ROWS, 26) == (
        "left_knee_joint\n  gain    60 N·m/rad\n  delay   12.5 ms\n  remark  the stiffest of\n      all\n"
        "hip\n  gain    7.25 N·m/rad\n"
    )


def test_a_named_value_is_one_line_of_a_block():
    columns = (
        Column("", Role.MARK),
        Column("joints", Role.HEADING),
        Column("stage", Role.HEADING),
        Column("parameter", Role.NAME),
        Column("value"),
        Column("unit", Role.UNIT),
    )
    rows = (("✓", "hip\nknee", "PD", "kp", "60", "N·m/rad"), ("", "", "", "kd", "2", "N·m·s/rad"))
    assert printed(columns, rows, 30) == "✓ hip, knee\n  PD\n    kp  60 N·m/rad\n    kd  2 N·m·s/rad\n"


def test_a_heading_of_several_lines_runs_down_the_rows():
    columns = (Column("joints", Role.HEADING), Column("parameter", Role.NAME), Column("value"))
    rows = (("a\nb\nc", "kp", "1"), ("", "kd", "2"), ("d", "kp", "3"))
    text = printed(columns, rows, 60)
    assert cells(text) == [["a", "kp", "1"], ["b", "kd", "2"], ["c", "", ""], ["d", "kp", "3"]]
    assert text.count("├") == 1


def test_brackets_are_no_markup():
    text = printed((Column("name", Role.HEADING), Column("value", unit="red")), (("[bold]", "[1]"),), 60)
    assert "value [red]" in text
    assert cells(text) == [["[bold]", "[1]"]]


def test_an_empty_table_prints_nothing():
    assert printed(COLUMNS, (), 80, title="none") == ""


def test_words_longer_than_the_terminal_stay_whole():
    console = Console(file=io.StringIO(), width=20)
    say(console, f"saved {'x' * 50}/y.png in time")
    assert console.file.getvalue() == f"saved\n{'x' * 50}/y.png\nin time\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", ASSETS / "quadruped.xml"),
        ("inspect", ASSETS / "arm.actuon.yaml"),
        ("check", ASSETS / "arm.xml"),
        ("check", ASSETS / "quadruped.xml", "--actuators", ASSETS / "quadruped.actuon.yaml"),
        ("motors",),
        ("motors", "show", "ak80-9"),
        ("motors", "show", "unitree-go2"),
        ("run", ASSETS / "arm.xml", "--seconds", 0.02, "-o", "out"),
        ("plot", "ak80-9", "--kind", "envelope", "--force"),
    ],
    ids=lambda arguments: " ".join(getattr(part, "name", str(part)) for part in arguments[:2]),
)
def test_commands_give_way(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_gives_way(lambda columns: command(*arguments, columns=columns))


def test_joints_without_actuators_give_way(tmp_path):
    path = save_everything(tmp_path / "robot.usda")
    assert_gives_way(lambda columns: command("inspect", path, columns=columns))
