# SPDX-License-Identifier: Apache-2.0
"""Golden files: a run equals itself, and whatever differs is named."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.golden import __main__ as golden, chains, file, robots
from scripts.golden.case import Case, Scope
from tests.support.chains import NAMED, NAMES
from tests.support.paths import ROBOTS

SMALL = Scope(dofs=(2,), prefix="chains/pd-max-late/")
EFFORT = "chains/pd-max-late/2/fused/in place/joint_f"


@pytest.fixture
def check(tmp_path, capsys):
    """Check a part against the file in a folder; returns the exit code and the lines that are printed."""

    def run(part="chains", scope=SMALL):
        capsys.readouterr()
        code = golden.check(tmp_path, [part], scope)
        return code, capsys.readouterr().out.splitlines()

    return run


def test_a_run_equals_itself_and_changes_are_named(tmp_path, check):
    assert golden.write(tmp_path, ["chains"], SMALL) == 0
    path = tmp_path / "chains.npz"
    arrays, about = file.read(path)
    code, lines = check()
    assert code == 0
    assert lines == [f"compared with commit {about['commit']}", f"{len(arrays)} entries equal, 0 differ"]

    changed = arrays[EFFORT].copy()
    changed[5, 1] = np.nextafter(changed[5, 1], np.float32(np.inf))
    file.write(path, arrays | {EFFORT: changed}, about | {"numpy": "1.0"})
    code, lines = check()
    assert code == 1
    assert any(line.startswith("numpy: is ") and "; was 1.0" in line for line in lines)
    (line,) = [line for line in lines if line.startswith(EFFORT)]
    assert line.startswith(f"{EFFORT}: 1 of {changed.size} values differ, by at most ")
    assert "first at (5, 1): " in line
    assert lines[-1] == f"{len(arrays) - 1} entries equal, 1 differ"

    file.write(path, {name: array for name, array in arrays.items() if name != EFFORT} | {EFFORT + "s": changed}, about)
    code, lines = check()
    assert code == 1
    assert {f"{EFFORT}: is new", f"{EFFORT}s: is missing"} <= set(lines)


def test_a_case_that_raises_leaves_the_others_compared(tmp_path, check, monkeypatch):
    def broken():
        raise ValueError("no law")

    def cases(last):
        return lambda scope: iter([Case("a", lambda: [("x", np.ones(3))]), Case("b", last)])

    monkeypatch.setitem(golden.PARTS, "few", cases(lambda: [("x", np.zeros(3))]))
    assert golden.write(tmp_path, ["few"], Scope()) == 0
    monkeypatch.setitem(golden.PARTS, "few", cases(broken))
    code, lines = check("few", Scope())
    assert code == 1
    assert lines[1:] == ["b: failed with ValueError: no law", "1 entries equal, 1 differ"]
    assert golden.write(tmp_path, ["few"], Scope()) == 1


def test_a_check_that_compares_nothing_fails(tmp_path, check, capsys):
    assert golden.write(tmp_path, ["chains"], SMALL) == 0
    code, lines = check(scope=Scope(dofs=(2,), prefix="chains/pd-may-late/"))
    assert code == 1
    assert lines[-1] == "nothing was compared: no case begins with 'chains/pd-may-late/'"
    with pytest.raises(SystemExit):
        golden.main(["write", "--folder", str(tmp_path), "--prefix", "chains/pd"])
    assert "--prefix goes with check" in capsys.readouterr().err


def test_bits_count():
    one = np.array([0.0, np.nan, 1.0], np.float32)
    assert file.difference(one, one.copy()) == ""
    assert file.difference(one, np.array([-0.0, np.nan, 1.0], np.float32)).startswith(
        "1 of 3 values differ, by at most 0"
    )
    assert "nan or inf" in file.difference(one, np.array([0.0, 2.0, 1.0], np.float32))
    assert file.difference(one, one.astype(np.float64)) == "is float64 of shape (3,); was float32 of shape (3,)"
    assert file.difference(np.array(3), np.array(4)).startswith("1 of 1 values differ, by at most 1, first at ()")
    assert file.difference(np.zeros((0, 2)), np.zeros((0, 2))) == ""


def test_chains_and_robots_are_those_of_the_tests():
    assert {*NAMES, *(f"named {name}" for name in NAMED)} <= set(chains.CHAINS)
    assert robots.PUBLIC == ROBOTS
