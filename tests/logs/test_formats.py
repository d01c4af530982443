# SPDX-License-Identifier: Apache-2.0
"""The list of formats: help texts, the page and the documentation take it from one place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import actuon
from actuon.logs import FORMATS, Format, JointLog, Log, Table, formats, read_log, save_log
from scripts.reference import log_formats_table
from tests.support.command_line import command
from tests.support.paths import ROOT

PAGE = ROOT / "docs/fit/logs.md"


def test_endings_are_of_one_format_each():
    endings = [ending for each in FORMATS for ending in each.endings]
    assert len(set(endings)) == len(endings)
    assert all(ending == ending.lower() and ending.startswith(".") for ending in endings)
    for each in FORMATS:
        for ending in each.endings:
            assert formats.format_of(Path(f"Run{ending.upper()}")) is each
    assert formats.format_of(Path("run.mcap")) is None


def test_the_page_of_the_documentation_lists_them():
    table = f"<!-- log formats -->\n{log_formats_table()}"
    assert all(each.doc in table for each in FORMATS)
    assert table in PAGE.read_text("utf-8"), "run: python -m scripts.reference docs"


def test_the_help_of_the_command_lists_them():
    printed = " ".join(command("fit", "--help").replace("│", " ").split())
    assert formats.endings_in_words() == ".csv, .json, .npz or .parquet, also .csv.gz and .json.gz"
    assert formats.endings_in_words() in printed


def test_a_format_is_a_reader_and_its_endings(tmp_path, monkeypatch):
    """A new format takes one function that returns a table, in the list."""

    def read_rows(path):
        numbers = np.array([[float(cell) for cell in line.split()] for line in path.read_text().splitlines()])
        columns = dict(zip(("time", "cmd_knee", "pos_knee"), numbers.T, strict=True))
        return Table(str(path), columns, "line", range(1, len(numbers) + 1))

    monkeypatch.setattr(formats, "FORMATS", (*FORMATS, Format((".rows",), "numbers in rows", read_rows)))
    time = 0.01 * np.arange(100)
    (tmp_path / "run.rows").write_text("\n".join(f"{t} {np.sin(9 * t)} {np.sin(9 * t - 0.1)}" for t in time))
    log = read_log(tmp_path / "run.rows")
    np.testing.assert_allclose(log.joint("knee").command, np.sin(9 * time))
    with pytest.raises(actuon.LogError, match=r"files of the format '\.rows' are only read; write another"):
        save_log(tmp_path / "again.rows", Log("", time, (JointLog("knee", time),)))
