# SPDX-License-Identifier: Apache-2.0
"""Verdicts: fits on logs without information, far above the noise, at a bound, and on held-out runs."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from actuon.fit import KnownLoadPlant, Verdict, apply, fit_logs, read_logs
from actuon.fit.verdict import judge
from actuon.logs import JointLog, Log, save_log
from tests.fit.test_search import DT, QUICK, made_log, truth
from tests.support.command_line import command
from tests.support.pendulums import pendulum_log, simulate, swinging_command

COUNT = 2 * np.pi / 4096
SHORT = dataclasses.replace(QUICK, generations=15)


def log_of(position_of, rate=250.0, seconds=4.0, seed=0):
    """A log of a pendulum, with positions from time, command and a generator."""
    time = np.arange(0.0, seconds, 1.0 / rate)
    wanted = swinging_command(time, seed=seed)
    return pendulum_log("run.csv", time, position_of(time, wanted, np.random.default_rng(seed)), wanted)


WITHOUT_INFORMATION = {
    "still": lambda time, wanted, rng: 0.3 + np.round(rng.normal(0.0, 1e-3, len(time)) / COUNT) * COUNT,
    "noise": lambda time, wanted, rng: rng.normal(0.0, 0.05, len(time)),
    "slow noise": lambda time, wanted, rng: np.interp(time, time[::25], rng.normal(0.0, 0.05, len(time[::25]))),
    "drift": lambda time, wanted, rng: 1e-3 * time + rng.normal(0.0, 1e-3, len(time)),
}


@pytest.mark.parametrize("name", WITHOUT_INFORMATION)
def test_a_log_without_information_is_not_a_good_fit(name, tmp_path):
    log = log_of(WITHOUT_INFORMATION[name])
    plant = KnownLoadPlant([log], dt=DT)
    result = fit_logs(plant=plant, model="pd_coulomb", options=SHORT)
    (verdict,) = result.verdicts
    assert verdict.level == "bad"
    assert result.is_useless
    result.save(tmp_path / "joint.yaml")
    applied = apply(tmp_path / "joint.yaml", plant)
    assert applied.is_useless
    assert applied.verdicts[0].level == "bad"
    if name in ("still", "noise"):
        assert not verdict.moves
        assert "does not move further than its noise; record motion" in verdict.sentence()


def test_inspect_reports_joints_that_do_not_move(tmp_path):
    log = log_of(WITHOUT_INFORMATION["still"])
    save_log(tmp_path / "run.csv", log)
    printed = " ".join(command("fit", "inspect", tmp_path / "run.csv").split())
    assert "warning: joint: does not move: the position stays within" in printed
    (described,) = json.loads(command("fit", "inspect", tmp_path / "run.csv", "--json"))["logs"]
    assert [one["kind"] for one in described["findings"]] == ["still"]
    moving = log_of(lambda time, wanted, rng: 0.01 * wanted + rng.normal(0.0, 1e-3, len(time)))
    save_log(tmp_path / "moving.csv", moving)
    fast = log_of(lambda time, wanted, rng: wanted, rate=12.0)  # where motion looks like noise
    save_log(tmp_path / "fast.csv", fast)
    for name in ("moving.csv", "fast.csv"):
        (read,) = read_logs(tmp_path / name)
        assert "still" not in {finding.kind for finding in read.findings}


def verdict_of(error, still=0.5, as_command=0.1, noise=1e-3, **others):
    name, simplest = ("no motion", still) if 0.5 * still < as_command else ("position = command", as_command)
    return Verdict("joint", error, noise, as_command, simplest, name, **others)


@pytest.mark.parametrize(
    ("error", "others", "level"),
    [
        (0.009, {}, "good"),
        (0.011, {}, "limited"),  # 11 times the noise
        (0.017, {"noise": 1e-3}, "limited"),
        (0.026, {"noise": 0.1}, "limited"),  # 'position = command' is nearly as good
        (0.024, {"noise": 0.1}, "good"),
        (0.11, {"noise": 0.1}, "bad"),  # within the noise, and worse than 'position = command'
        (0.009, {"doubt": "the parameter controller.kp is at the high end of its range"}, "limited"),
        (0.009, {"held_out": 0.05}, "limited"),
        (0.009, {"held_out": 0.2}, "bad"),
        (0.009, {"moves": False}, "bad"),
        (np.inf, {}, "bad"),
        (np.nan, {}, "bad"),
        (0.0009, {"still": 0.002, "noise": 0.01}, "limited"),
        (0.0011, {"still": 0.002, "noise": 0.01}, "bad"),
    ],
)
def test_levels(error, others, level):
    verdict = verdict_of(error, **others)
    assert verdict.level == level
    assert verdict.sentence().startswith(f"joint: {level} fit: error ")
    assert bool(verdict.as_dict()["cause"]) is (level != "good")
    json.dumps(verdict.as_dict(), allow_nan=False)


def test_a_log_without_noise_allows_an_error_of_a_thousandth_of_the_motion():
    time = np.arange(0.0, 4.0, 0.01)
    log = Log("run", time, (JointLog("joint", np.sin(2.0 * time), np.sin(2.0 * time + 0.3)),))
    levels = [judge([log], ["joint"], np.array([[error]]))[0].level for error in (5e-4, 5e-3)]
    assert levels == ["good", "limited"]


def test_a_verdict_says_what_the_parameters_rest_on(tmp_path):
    log = made_log(truth(0), 0)
    result = fit_logs([log], "pd", plant=KnownLoadPlant([log], dt=DT), options=SHORT)
    assert result.verdicts[0].sentence().endswith(". All torques scale with the stated mass")
    result.save(tmp_path / "joint.yaml")
    assert "scale with the stated mass" in " ".join((tmp_path / "joint.yaml").read_text().split())
    disc = KnownLoadPlant([log], {"inertia": 0.005}, dt=DT)
    assert apply(tmp_path / "joint.yaml", disc).verdicts[0].rests_on == "all torques scale with the stated inertia"


def test_a_parameter_at_a_bound_is_the_cause_of_a_limited_fit():
    log = made_log(truth(0), 0)
    plant = KnownLoadPlant([log], dt=DT)
    result = fit_logs(plant=plant, model="pd_coulomb", free={"controller.kp": (0.3, 0.9)}, options=SHORT)
    (verdict,) = result.verdicts
    assert verdict.level != "good"
    assert "The parameter controller.kp is at the high end of its range; free it in a wider range" in verdict.sentence()


def test_a_selection_is_judged_on_held_out_runs():
    logs = [made_log(truth(2), seed) for seed in (0, 2)]
    plant = KnownLoadPlant(logs, dt=DT)
    result = fit_logs(plant=plant, select=["pd"], options=SHORT)
    (verdict,) = result.verdicts
    assert verdict.held_out == verdict.judged == pytest.approx(result.held_out)
    assert "in held-out runs" in verdict.sentence()


def test_a_fit_far_above_the_noise_is_limited_where_a_limit_binds():
    """A limit of 0.3 N·m, which the model does not have; the load needs 0.49."""
    time = np.arange(0.0, 5.0, 0.004)
    wanted = swinging_command(time, seed=1)
    position = simulate(
        time, wanted, np.ones(len(time), bool), (0.0, 0.0), dt=0.004, mass=0.5, length=0.1, armature=0.002,
        law=lambda target, q, v: np.clip(6.0 * (target - q) - 0.1 * v, -0.3, 0.3), friction={"dynamic": 0.02},
    )  # fmt: skip
    noisy = position + np.random.default_rng(0).normal(0.0, 5e-4, len(time))
    plant = KnownLoadPlant([pendulum_log("run", time, noisy, wanted)], dt=DT)
    levels = {}
    for model in ("pd_coulomb", "pd_coulomb+limit"):
        (verdict,) = fit_logs(plant=plant, model=model, options=QUICK).verdicts
        levels[model] = verdict.level
        if model == "pd_coulomb":
            assert verdict.error > 10.0 * verdict.noise
            assert "ther effects, such as a limit" in verdict.sentence()
    assert levels == {"pd_coulomb": "limited", "pd_coulomb+limit": "good"}
