# SPDX-License-Identifier: Apache-2.0
"""The gates of ``make bench``, at small sizes: contenders agree, and one that is off is caught. No times."""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("torch")
pytest.importorskip("newton.actuators")
pytest.importorskip("gymnasium")

from benchmarks import arrays, contenders, environments, groups, motors, networks, robots, tangents
from benchmarks.__main__ import GATES, PARTS, main
from benchmarks.gate import Disagreement

OFF = 1e-2


def off(method):
    """Shift what a method returns, or the effort that it leaves, by `OFF`."""

    @functools.wraps(method)
    def shifted(self, *arguments):
        numbers = method(self, *arguments)
        if numbers is None:
            self.effort = self.effort + OFF
            return None
        return numbers + OFF

    return shifted


def test_every_part_but_imports_has_a_gate():
    assert PARTS.keys() - GATES.keys() == {"first_use"}


@pytest.mark.parametrize("part", GATES)
def test_contenders_agree(part):
    assert GATES[part].check() > 0


@pytest.mark.parametrize(
    ("part", "contender", "method"),
    [
        ("groups", groups.TorchLean, "step"),
        ("chains", contenders.ActuonInPlace, "efforts"),
        ("sizes", contenders.ActuonCaptured, "efforts"),
        ("arrays", arrays.ActuonMotors, "efforts"),
        ("motors", motors.StagedMotor, "efforts"),
        ("networks", networks.TorchNetwork, "step"),
        ("robots", robots.BareLoop, "positions"),
        ("robots", robots.Rollout, "positions"),
    ],
)
def test_a_contender_that_is_off_is_caught(part, contender, method, monkeypatch):
    monkeypatch.setattr(contender, method, off(getattr(contender, method)))
    with pytest.raises(Disagreement, match=f"^{part}, ") as caught:
        GATES[part].check()
    assert contender.label in (caught.value.who, caught.value.peer)
    assert caught.value.difference == pytest.approx(OFF, rel=0.01)


@pytest.mark.parametrize(("number", "where"), [("joint_f", "effort"), ("by_q", "slope by joint_q")])
def test_a_tangent_that_is_off_is_caught(number, where, monkeypatch):
    first = tangents.Tangent.first

    def shifted(self, *arguments):
        numbers = first(self, *arguments)
        return numbers | {number: numbers[number] + 10.0} if self.label == "with slopes" else numbers

    monkeypatch.setattr(tangents.Tangent, "first", shifted)
    with pytest.raises(Disagreement, match=f"^tangents, .*, 12 DOFs, {where}: with slopes differs from"):
        GATES["tangents"].check()


def test_gains_that_are_off_are_caught(monkeypatch):
    monkeypatch.setitem(environments.GAINS, "quadruped", (61.0, 1.5))
    with pytest.raises(Disagreement, match="PD written in NumPy differs from MuJoCo's own servos"):
        GATES["environments"].check()


def test_the_command_checks(capsys):
    main(["--check", "--only", "motors", "networks", "first_use"])
    assert capsys.readouterr().out == "motors: 1 row agrees\nnetworks: 2 rows agree\n"


def test_the_command_refuses_to_measure_who_disagrees(monkeypatch, capsys):
    monkeypatch.setattr(contenders.NewtonActuators, "efforts", off(contenders.NewtonActuators.efforts))
    for arguments in (["--check"], ["--seconds", "0.01"]):
        with pytest.raises(SystemExit) as caught:
            main(["--only", "sizes", *arguments])
        assert caught.value.code == (
            "python -m benchmarks: sizes, contiguous, 12 DOFs, step 0: PyTorch differs from Newton by up to 0.01; "
            "no times are measured"
        )
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize("style", [[], ["--markdown"]])
def test_the_command_prints_a_table(style, monkeypatch, capsys):
    monkeypatch.setattr(motors, "DOFS", 12)
    main(["--only", "motors", "--seconds", "0.01", *style])
    machine, title, header, _rule, *rows = filter(None, capsys.readouterr().out.splitlines())
    assert "no GPU used" in machine
    assert title == "12 DOFs, one thread, one launch each, in place."
    assert "in a loop, median µs" in header
    assert len(rows) == 3
    assert all((row[0] == "|") == bool(style) for row in (header, *rows))
    assert "delay + PD + gear + DC motor + friction" in rows[-1]
    assert rows[1].rstrip(" |").endswith("1.00")  # it is compared with itself
