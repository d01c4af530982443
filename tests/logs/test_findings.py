# SPDX-License-Identifier: Apache-2.0
"""`Finding`: a sentence that also says what it is about, where, and how bad it is."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

from actuon.logs import Finding, JointLog, Log, read_log

TIME = 0.01 * np.arange(400)
SMOOTH = 0.4 * np.sin(2.0 * np.pi * TIME) + 0.2 * np.sin(5.0 * TIME)


def log_of(tmp_path, columns):
    path = tmp_path / "run.csv"
    rows = [",".join(columns)]
    rows += [",".join(f"{value:.9g}" for value in row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(rows) + "\n")
    return read_log(path)


def test_a_finding_is_a_string_with_fields():
    finding = Finding("knee: 2 gaps", "gap", "knee", "warning")
    assert finding == "knee: 2 gaps"
    assert (finding.kind, finding.where, finding.severity, finding.log) == ("gap", "knee", "warning", "")
    own = finding.of_log("a.csv")
    assert own == "a.csv: knee: 2 gaps"
    assert (own.kind, own.where, own.severity, own.log) == ("gap", "knee", "warning", "a.csv")
    assert json.loads(json.dumps([own])) == ["a.csv: knee: 2 gaps"]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_keep_their_fields(again):
    finding = again(Finding("knee: 2 gaps", "gap", "knee", "warning", "a.csv"))
    assert type(finding) is Finding
    assert (finding, vars(finding)) == (
        "knee: 2 gaps",
        {"kind": "gap", "where": "knee", "severity": "warning", "log": "a.csv"},
    )


@pytest.mark.parametrize(
    ("changes", "kind", "where", "severity"),
    [
        ({"note": TIME}, "unused", "note", "info"),
        ({"time": np.delete(0.01 * np.arange(450), slice(100, 150))}, "gap", "time", "warning"),
        ({"time": 0.05 * np.arange(400)}, "rate", "time", "warning"),
        ({"time": 1000.0 * TIME}, "unit", "time", "info"),
        ({"pos_knee": np.degrees(SMOOTH) * 3.0, "cmd_knee": np.degrees(SMOOTH) * 3.0}, "unit", "position", "info"),
        ({"cmd_knee": -SMOOTH}, "sign", "knee", "warning"),
        ({"cmd_knee": 0.3 + 0.0 * TIME}, "constant command", "knee", "warning"),
        ({"pos_knee": np.where(np.arange(400) == 200, 5.0, 0.1 * SMOOTH)}, "spike", "knee", "warning"),
        ({"enabled": 0.0 * TIME}, "off", "knee", "warning"),
        ({"current": np.where(np.arange(400) == 7, np.nan, 1.0)}, "left out", "current", "warning"),
        ({"cmd_knee": np.roll(SMOOTH, 10)}, "clock", "", "warning"),
        ({"t_cmd": TIME - 0.002}, "clock", "t_cmd", "info"),
        ({"pos_knee": np.angle(np.exp(6j * TIME)), "cmd_knee": np.angle(np.exp(6j * TIME))}, "turns", "knee", "info"),
    ],
)
def test_kind_place_and_severity(tmp_path, changes, kind, where, severity):
    log = log_of(tmp_path, {"time": TIME, "cmd_knee": SMOOTH, "pos_knee": SMOOTH} | changes)
    fields = [(finding.kind, finding.where, finding.severity) for finding in log.findings]
    assert (kind, where, severity) in fields, log.findings


@pytest.mark.parametrize(
    ("stated", "is_found"), [(15.0, True), (9.0, True), (12.0, False), (12.6, False), (11.4, False)]
)
def test_a_stated_supply_that_the_log_contradicts_is_a_finding(tmp_path, stated, is_found):
    measured = 11.9 + 0.2 * SMOOTH
    path = tmp_path / "run.csv"
    table = np.column_stack([TIME, SMOOTH, SMOOTH, measured])
    np.savetxt(path, table, delimiter=",", header=f"# vin: {stated}\ntime,cmd_knee,pos_knee,volts", comments="")
    findings = [finding for finding in read_log(path).findings if finding.kind == "supply"]
    assert len(findings) == is_found
    if is_found:
        assert (findings[0].where, findings[0].severity) == ("vin", "warning")
        assert f"the settings state vin {stated:.4g} V, but the log has 11.9" in findings[0]
    assert not [finding for finding in read_log(path, {"settings": {"vin": 12.0}}).findings if finding.kind == "supply"]


def test_a_good_log_has_none(tmp_path):
    assert log_of(tmp_path, {"time": TIME, "cmd_knee": SMOOTH, "pos_knee": SMOOTH}).findings == ()
    assert Log("", TIME, (JointLog("knee", SMOOTH),)).findings == ()
