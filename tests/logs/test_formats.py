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


def test_errors_of_a_writer_name_the_file(tmp_path, monkeypatch):
    def write_rows(columns, settings):
        raise actuon.LogError(f"got {len(columns)} columns; rows hold 3")

    monkeypatch.setattr(formats, "FORMATS", (*FORMATS, Format((".rows",), "numbers in rows", read_log, write_rows)))
    time = 0.01 * np.arange(100)
    (tmp_path / "run.rows").write_text("kept")
    with pytest.raises(actuon.LogError, match=r"run\.rows': got 2 columns; rows hold 3") as refused:
        save_log(tmp_path / "run.rows", Log("", time, (JointLog("knee", time),)))
    assert str(refused.value).startswith(f"'{tmp_path / 'run.rows'}'")
    assert [path.name for path in tmp_path.iterdir()] == ["run.rows"]
    assert (tmp_path / "run.rows").read_text() == "kept"


HUGE = "9" * 5000
ROWS = "".join(f"{0.01 * t},{0.1 * t},{0.1 * t}\n" for t in range(50))
LONG = {
    "number.json": f'{{"entries": [{{"time": {HUGE}, "pos": 1, "cmd": 2}}]}}',
    "setting.json": f'{{"kp": {HUGE}, "entries": []}}',
    "cell.csv": f"time,pos,cmd\n0,0,0\n{HUGE},1,1\n0.02,2,2\n",
    "text.csv": f"time,pos,cmd\n0,0,0\nx{HUGE},1,1\n0.02,2,2\n",
}


@pytest.mark.parametrize("name", LONG)
def test_a_number_of_thousands_of_digits_is_refused_with_the_file(tmp_path, name):
    (tmp_path / name).write_text(LONG[name])
    with pytest.raises(actuon.LogError, match=name.replace(".", r"\.")):
        read_log(tmp_path / name)


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_setting_of_many_digits_is_not_a_number(tmp_path, digits):
    (tmp_path / "run.csv").write_text(f"# kp: {'9' * digits}\n# mass: 2\ntime,pos,cmd\n{ROWS}")
    log = read_log(tmp_path / "run.csv")
    assert log.settings == {"kp": "9" * digits, "mass": 2}
    rows = [{"time": 0.01 * t, "pos": 0.1 * t, "cmd": 0.1 * t} for t in range(50)]
    settings = np.array(f'{{"kp": {"9" * digits}, "mass": 2}}')
    np.savez(tmp_path / "run.npz", settings=settings, **{name: [row[name] for row in rows] for name in rows[0]})
    assert "kp" not in read_log(tmp_path / "run.npz").settings
    bits = f"0x1{'0' * 4000}" if digits > 4000 else hex(10**digits)  # files have at most 4096 characters in a value
    for key, value in (("rate", bits), ("settings", f"{{kp: {bits}}}"), ("joints", f"{{a: {bits}}}")):
        (tmp_path / "columns.yaml").write_text(f"{key}: {value}\n")
        with pytest.raises(actuon.LogError, match=rf"columns\.yaml: {key}"):
            read_log(tmp_path / "run.csv", tmp_path / "columns.yaml")
