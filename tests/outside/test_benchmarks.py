# SPDX-License-Identifier: Apache-2.0
"""The gates of ``make bench``, at small sizes: contenders agree, and one that is off is caught. No times."""

from __future__ import annotations

import functools
import itertools

import pytest

pytest.importorskip("torch")
pytest.importorskip("newton.actuators")
pytest.importorskip("gymnasium")

import mujoco

from benchmarks import (
    arrays,
    attaching,
    contenders,
    derivatives,
    environments,
    given,
    groups,
    motors,
    networks,
    one_robot,
    own_loop,
    robots,
)
from benchmarks.__main__ import GATES, PARTS, main
from benchmarks.contenders import COMPILED, EAGER
from benchmarks.gate import Disagreement
from benchmarks.runner import TIMES_HEADER, best_steps
from scripts.measured import number, tables

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


@pytest.mark.parametrize(("number", "where"), [("joint_f", "effort"), ("by_q", "derivative by joint_q")])
def test_an_implicit_effort_that_is_off_is_caught(number, where, monkeypatch):
    first = derivatives.Contender.first

    def shifted(self, *arguments):
        numbers = first(self, *arguments)
        return numbers | {number: numbers[number] + 10.0} if self.label == "with derivatives" else numbers

    monkeypatch.setattr(derivatives.Contender, "first", shifted)
    with pytest.raises(Disagreement, match=f"^derivatives, .*, 12 DOFs, {where}: with derivatives differs from"):
        GATES["derivatives"].check()


def test_gains_that_are_off_are_caught(monkeypatch):
    monkeypatch.setitem(environments.GAINS, "quadruped", (61.0, 1.5))
    with pytest.raises(Disagreement, match="PD written in NumPy differs from MuJoCo's own servos"):
        GATES["environments"].check()


@pytest.mark.parametrize(("what", "who"), [("inputs", "MuJoCo's own servos"), ("friction", "load-dependent friction")])
def test_motion_with_other_efforts_is_caught(what, who, monkeypatch):
    def wrong(*arguments):
        recording = given.record(*arguments)
        for numbers in getattr(recording, what):
            numbers += OFF
        return recording

    monkeypatch.setattr(environments, "record", wrong)
    with pytest.raises(Disagreement, match=f"^environments, .*: {who} differs from {who}, given by"):
        GATES["environments"].check()


@pytest.mark.parametrize("engine", one_robot.ENGINES)
def test_a_step_with_other_efforts_is_caught(engine, monkeypatch):
    efforts_of = one_robot.StepAlone.record
    monkeypatch.setattr(
        one_robot.StepAlone, "record", lambda self, steps: [effort + OFF for effort in efforts_of(self, steps)]
    )
    with pytest.raises(
        Disagreement, match=f"^one_robot, {engine}, actuators, .* differs from {engine}, actuators, given"
    ):
        one_robot.contenders((engine, "actuators"), 10)


def test_a_plain_loop_with_other_efforts_is_caught(monkeypatch):
    efforts_of = own_loop.Loop.run
    monkeypatch.setattr(own_loop.Loop, "run", lambda self, steps: efforts_of(self, steps) + OFF)
    with pytest.raises(Disagreement, match="^own_loop, positions after 10 steps: loaded differs from given"):
        GATES["own_loop"].check()


def test_the_first_of_many_that_moves_otherwise_is_caught(monkeypatch):
    motion = attaching.Attaching.motion
    monkeypatch.setattr(attaching.Attaching, "motion", lambda self: motion(self) + OFF * (self.num_envs > 1))
    with pytest.raises(Disagreement, match="actuators of 12 robots differs from actuators of 1 robots"):
        GATES["attaching"].check()


def test_steps_of_mujoco_are_counted():
    model = mujoco.MjModel.from_xml_path(str(one_robot.assets.quadruped_mjcf))
    data = mujoco.MjData(model)
    with given.counted_steps() as count:
        for _ in range(5):
            mujoco.mj_step(model, data)
        assert count() == 5
    mujoco.mj_step(model, data)
    assert count() == 5


def test_implicit_motors_at_limits_take_steps_again():
    walkers = environments.contenders("quadruped", 12)
    retaken = {walker.label: walker.retaken for walker in walkers if isinstance(walker, environments.Given)}
    assert retaken.pop("implicit motors, at limits, given") > 0.01
    assert not any(retaken.values())


def test_steps_are_compared_with_themselves():
    """The best of each step over many rounds, by a clock that contenders advance; getting ready is not timed."""
    now = 0.0

    class Contender:
        label = ""

        def __init__(self, *durations):
            self.durations = itertools.cycle(durations)

        def prepare(self, at):
            nonlocal now
            now += 100.0

        def step(self):
            nonlocal now
            now += next(self.durations)

    made = [Contender(3.0, 1.0, 2.0, 5.0), Contender(5.0, 4.0)]
    assert best_steps(made, 2, 0.2, [lambda: now]).tolist() == [[[2.0], [1.0]], [[5.0], [4.0]]]


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


@pytest.mark.parametrize("name", ["sizes", "networks"])
@pytest.mark.parametrize("peer", ["Newton", "PyTorch"])
def test_speeds_are_compared_within_a_mode(name, peer):
    """Eager with eager, captured graphs with captured graphs and compiled code, in the tables that pages show."""
    table = tables()[name]
    if f"faster than {peer}" not in table["header"]:
        return
    rows = [dict(zip(table["header"], row, strict=True)) for row in table["rows"]]
    places = [key for key in ("DOFs", "layout", "network", "mode") if key in table["header"]]
    peers = {tuple(row[key] for key in places): row for row in rows if row["who"].startswith(peer)}
    assert {row["mode"] for row in peers.values()} == {EAGER, COMPILED}
    for row in (row for row in rows if row["mode"]):
        own, other = (number(each[TIMES_HEADER[0]]) for each in (row, peers[tuple(row[key] for key in places)]))
        assert number(row[f"faster than {peer}"]) == pytest.approx(other / own, rel=0.1, abs=0.06)
