# SPDX-License-Identifier: Apache-2.0
"""Searches, least squares and selections: parameters that were drawn at random are found again."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

import actuon
from actuon.fit import KnownLoadPlant, Model, Parameter, Plant, SearchOptions, fit_logs, read_logs
from actuon.fit.fitting import candidates_of, fit_models
from actuon.fit.refine import correlation_time, refine, undetermined
from actuon.fit.select import folds_of
from actuon.fit.terms import JointFacts, add_term, build_model
from actuon.logs import save_log
from tests.support.pendulums import pendulum_log, simulate, swinging_command, uneven_time
from tests.support.trials import residuals_of, search

DT = 0.004
QUICK = SearchOptions(starts=1, population=40, generations=80, patience=25)


def truth(seed):
    rng = np.random.default_rng(seed)
    return {
        "controller.kp": rng.uniform(1.5, 4.0),
        "controller.kd": rng.uniform(0.03, 0.08),
        "transmission.reflected_inertia": rng.uniform(0.001, 0.004),
        "delay.delay": rng.uniform(0.0, 0.02),
        "encoder.bias": rng.uniform(-0.04, 0.04),
        "friction.dynamic": rng.uniform(0.02, 0.1),
        "friction.viscous": rng.uniform(0.002, 0.02),
    }


MODEL = Model(
    "pd_coulomb",
    actuon.ActuatorConfig(
        actuon.PDControlConfig(2.0, 0.05),
        delay=actuon.InterpolatedDelayConfig(0.0),
        transmission=actuon.GearTransmissionConfig(1.0, reflected_inertia=0.002),
        effects=[actuon.FrictionEffectConfig(0.05, 0.005)],
        sensors=[actuon.EncoderSensorConfig()],
    ),
    (
        Parameter("controller.kp", 0.3, 10.0, scale="log"),
        Parameter("controller.kd", 0.005, 0.5, scale="log"),
        Parameter("transmission.reflected_inertia", 1e-4, 0.02, scale="log"),
        Parameter("delay.delay", 0.0, 0.03),
        Parameter("encoder.bias", -0.1, 0.1),
        Parameter("friction.dynamic", 1e-3, 0.5, scale="log"),
        Parameter("friction.viscous", 1e-4, 0.1, scale="log"),
    ),
)


def made_log(values, seed, noise=2e-3, dt=DT, **settings):
    """A log of a joint with these values, switched off at the end if the seed is odd, made in NumPy."""
    time = uneven_time(2.5, seed)
    command = swinging_command(time, seed=seed)
    enabled = (time < time[0] + 1.7) | (seed % 2 == 0)
    factor = settings.get("kp", 1.0)
    position = simulate(
        time, command, enabled, (0.2, 0.0), dt=dt, mass=0.5, length=0.1,
        law=lambda target, q, v: factor * values["controller.kp"] * (target - q) - values["controller.kd"] * v,
        friction={"dynamic": values["friction.dynamic"]}, viscous=values["friction.viscous"],
        armature=values["transmission.reflected_inertia"], bias=values["encoder.bias"], delay=values["delay.delay"],
    )  # fmt: skip
    shown = position + noise * np.random.default_rng(seed + 100).standard_normal(len(time))
    shown[0] = position[0]
    log = pendulum_log(f"run_{seed}", time, shown, command, enabled, **settings)
    (joint,) = log.joints
    return dataclasses.replace(log, joints=(dataclasses.replace(joint, velocity=np.zeros(len(time))),))


def test_parameters_drawn_at_random_are_found_again_within_their_intervals():
    inside = []
    for seed in range(3):
        values = truth(seed)
        plant = KnownLoadPlant([made_log(values, 10 * seed + i) for i in range(3)], dt=DT)
        result = fit_models(plant, [MODEL], dataclasses.replace(QUICK, seed=seed))
        assert result.error < 2.2e-3  # 1.6 mrad of it is the noise
        for found in result.joints[0].parameters:
            assert not found.at_bound
            margin = 2.0 * (found.high - found.low) + 1e-9
            assert found.low - margin < values[found.path] < found.high + margin, found
            inside.append(found.low <= values[found.path] <= found.high)
    assert np.mean(inside) > 0.85


def test_intervals_hold_if_logs_do_not_separate_two_parameters():
    """Damping of controller and joint, in logs of a motor that is never switched off."""
    values = truth(1)
    plant = KnownLoadPlant([made_log(values, seed) for seed in (0, 2, 4)], dt=DT)
    (joint,) = fit_models(plant, [MODEL], QUICK).joints
    found = {parameter.path: parameter for parameter in joint.parameters}
    for path in ("controller.kd", "friction.viscous"):
        assert found[path].low < values[path] < found[path].high
    assert any("friction.viscous" in sentence for sentence in joint.undetermined)


def test_intervals_include_the_bias_by_the_time_step():
    inside = []
    for seed in range(3):
        values = truth(seed)
        plant = KnownLoadPlant([made_log(values, 10 * seed + i, 2e-4, DT / 8) for i in range(3)], dt=DT)
        result = fit_models(plant, [MODEL], dataclasses.replace(QUICK, seed=seed))
        inside += [found.low <= values[found.path] <= found.high for found in result.joints[0].parameters]
        assert any("half the time step" in caution and " is about " in caution for caution in result.cautions)
    assert all(inside)


def test_intervals_include_a_bias_that_the_residuals_do_not_show():
    """In a smooth motion, half a time step more delay fits as well as a shorter step."""
    time = np.arange(0.0, 4.0, DT)
    command, enabled = np.sin(2.0 * time) + 0.5 * np.sin(7.0 * time), time < 3.2
    position = simulate(
        time, command, enabled, (0.0, 0.0), dt=DT / 8, mass=0.5, length=0.1,
        law=lambda target, q, v: 2.0 * (target - q) - 0.05 * v,
        friction={"dynamic": 0.04}, viscous=0.005, armature=0.002, delay=0.008,
    )  # fmt: skip
    for seed in range(3):
        shown = position + 1e-3 * np.random.default_rng(seed).standard_normal(len(time))
        log = pendulum_log("smooth", time, shown, command, enabled)
        result = fit_models(KnownLoadPlant([log], dt=DT), [MODEL], QUICK)
        assert result.error < 0.9e-3  # 0.8 mrad of it is the noise
        (delay,) = (found for found in result.joints[0].parameters if found.path == "delay.delay")
        assert delay.value > 0.0095
        assert delay.low < 0.008 < delay.high


def test_a_search_can_be_repeated_and_gone_on_with(tmp_path):
    plant = KnownLoadPlant([made_log(truth(0), 0)], dt=DT)
    whole = search(plant, [MODEL], SearchOptions(seed=3, population=16, generations=8))
    again = search(plant, [MODEL], SearchOptions(seed=3, population=16, generations=8))
    np.testing.assert_array_equal(whole.values[0], again.values[0])
    kept = tmp_path / "search.npz"
    search(plant, [MODEL], SearchOptions(seed=3, population=16, generations=5), resume=kept)
    calls = []
    counting = type("Counting", (KnownLoadPlant,), {"errors": lambda self, *a: (calls.append(1), plant.errors(*a))[1]})
    gone_on = search(
        counting(plant.runs, dt=DT), [MODEL], SearchOptions(seed=3, population=16, generations=8), resume=kept
    )
    assert len(calls) == 2 * 3  # of two starts
    np.testing.assert_array_equal(gone_on.values[0], whole.values[0])
    with pytest.raises(actuon.LogError, match=r"another search: seed: 3 in the file, 4 now\. Remove it, or pass"):
        search(plant, [MODEL], SearchOptions(seed=4, population=16), resume=kept)
    kept.write_bytes(b"nonsense")
    with pytest.raises(actuon.ActuonError, match="is not a checkpoint of a search"):
        search(plant, [MODEL], SearchOptions(seed=3, population=16), resume=kept)


FEW = SearchOptions(seed=3, starts=1, population=16, generations=2)


def test_a_file_of_a_search_is_taken_for_no_other(tmp_path):
    kept = tmp_path / "search.npz"
    log = made_log(truth(0), 0, kp=1.0)
    growing = dataclasses.replace(MODEL, scaled_by={"controller.kp": "kp"}, settings={"kp": 1.0})
    model = growing.fixed("encoder.bias", 0.01)
    search(KnownLoadPlant([log], dt=DT), [model], FEW, resume=kept)
    written = kept.read_bytes()
    (joint,) = log.joints
    moved = dataclasses.replace(joint, position=joint.position + 1e-6)
    wider = dataclasses.replace(model.parameters[1], high=0.6)
    stiff = model.actuator.copy()
    stiff.effort_mode = "implicit"
    others = {
        "logs: differ": ([dataclasses.replace(log, joints=(moved,))], None, DT, model),
        "logs: differ.": ([dataclasses.replace(log, settings=log.settings | {"kp": 2.0})], None, DT, model),
        "runs: 1 of .* s in the file, 2 of .* s now": ([log, log], None, DT, model),
        r"time step \[s\]: 0.004 in the file, 0.002 now": ([log], None, 0.002, model),
        "load: differ": ([log], {"mass": 0.6}, DT, model),
        "joint: encoder.bias: 0.01 in the file, 0.02 now": ([log], None, DT, model.fixed("encoder.bias", 0.02)),
        "joint: range of controller.kd: 0.005 to 0.5, log in the file": ([log], None, DT, model.freed(wider)),
        "joint: kp of the model: 1.0 in the file, 2.0 now": (
            [log], None, DT, dataclasses.replace(model, settings={"kp": 2.0})
        ),
        "joint: effort_mode: explicit in the file, implicit now": (
            [log], None, DT, dataclasses.replace(model, actuator=stiff)
        ),
    }  # fmt: skip
    for said, (logs, load, dt, changed) in others.items():
        with pytest.raises(actuon.LogError, match=f"search.npz': is a checkpoint of another search: {said}"):
            search(KnownLoadPlant(logs, load, dt=dt), [changed], FEW, resume=kept)
    assert kept.read_bytes() == written
    longer = dataclasses.replace(FEW, generations=3, patience=9)
    renamed = dataclasses.replace(log, path="elsewhere/run.csv")
    whole = search(KnownLoadPlant([log], dt=DT), [model], longer)
    gone_on = search(KnownLoadPlant([renamed], dt=DT), [dataclasses.replace(model)], longer, resume=kept)
    np.testing.assert_array_equal(gone_on.values[0], whole.values[0])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 2}, "got version 2; this Actuon reads version 1"),
        ({"version": None}, "is not a checkpoint of a search: .*version"),
        ({"of": "[('pd', ())]"}, "is not a checkpoint of a search: Expecting value"),
    ],
)
def test_a_file_of_another_version_or_none_is_refused(tmp_path, changes, said):
    kept = tmp_path / "search.npz"
    search(KnownLoadPlant([made_log(truth(0), 0)], dt=DT), [MODEL], FEW, resume=kept)
    with np.load(kept) as file:
        contents = dict(file) | changes
    np.savez(kept, **{name: value for name, value in contents.items() if value is not None})
    with pytest.raises(actuon.LogError, match=f"search.npz': {said}"):
        search(KnownLoadPlant([made_log(truth(0), 0)], dt=DT), [MODEL], FEW, resume=kept)


def test_an_interrupt_gives_the_best_so_far():
    plant = KnownLoadPlant([made_log(truth(0), 0)], dt=DT)
    seen = []

    def interrupt(generation, errors):
        seen.append(float(errors[0]))
        if generation == 4:
            raise KeyboardInterrupt

    result = fit_models(plant, [MODEL], SearchOptions(population=16, generations=50), progress=interrupt)
    assert result.interrupted
    assert len(seen) == 4
    assert result.error == pytest.approx(min(seen), rel=1e-4)
    assert "interrupted after 4 generations" in result.warnings[0]


def test_joints_are_searched_side_by_side_or_together():
    """Two joints of which the plant is a formula, each with its own optimum."""

    log = pendulum_log("bowl", np.arange(2.0), np.zeros(2), np.zeros(2))
    log = dataclasses.replace(log, joints=tuple(dataclasses.replace(log.joints[0], name=name) for name in "ab"))

    class Bowl(Plant):
        dt = 1.0

        def __init__(self, goal, is_coupled):
            self.goal, self.is_coupled = goal, is_coupled
            self.joints = tuple("ab"[: len(goal)])
            self.runs = (dataclasses.replace(log, joints=log.joints[: len(goal)]),)

        couples_joints = property(lambda self: self.is_coupled)

        def only(self, joint):
            return Bowl(self.goal[joint : joint + 1], False)

        def simulate(self, trials, signal="position"):
            distances = []
            for own, (kp, kd) in zip(trials.values, self.goal, strict=True):
                distances.append(np.abs(own["controller.kp"] - kp) + np.abs(own["controller.kd"] - kd))
            return [np.repeat(np.stack(distances, axis=-1), 2, axis=1)]

        def scales(self):
            raise AssertionError

        def replace(self, *, runs=None, dt=None):
            return self

    goal = [[0.3, 2.0], [0.7, 3.0]]
    chain = actuon.ActuatorConfig(actuon.PDControlConfig(0.5, 0.5))
    free = (Parameter("controller.kp", 0.0, 1.0), Parameter("controller.kd", 1.0, 5.0))
    models = [Model("m", chain, free), Model("m", chain, free)]
    for is_coupled in (False, True):
        options = SearchOptions(population=24, generations=60, tolerance=0.0, patience=60)
        found = search(Bowl(goal, is_coupled), models, options)
        np.testing.assert_allclose(found.values, goal, atol=0.02)
    fixed = [models[0].fixed("controller.kp", 0.3).fixed("controller.kd", 2.0), models[1].fixed("controller.kd", 3.0)]
    assert [len(model.parameters) for model in fixed] == [0, 1]


@pytest.mark.parametrize("addition", ["", "limit", "supply", "dead_band", "backlash", "spring"])
def test_a_model_keeps_the_rate_of_its_controller_and_its_effort_mode(addition, tmp_path):
    log = made_log(truth(0), 0, vin=12.0)
    plant = KnownLoadPlant([log], dt=DT)
    facts = JointFacts(plant.scales()[0], plant.runs, "joint")
    model = build_model("servo_m1", facts)
    chain = model.actuator.copy()
    chain.control_every, chain.effort_mode = 2, "implicit"
    model = dataclasses.replace(model, actuator=chain)
    if addition:
        model = add_term(addition, model, facts)
    for changed in (model, model.fixed("controller.kp", 2.0), model.freed(Parameter("controller.kp", 1.0, 3.0))):
        config = changed.config(changed.start)
        assert (config.control_every, config.effort_mode) == (2, "implicit")
    result = fit_logs([log], model, plant=plant, options=SearchOptions(starts=1, population=4, generations=1))
    result.save(tmp_path / "motor.yaml")
    (entry,) = actuon.load_actuators(tmp_path / "motor.yaml")
    assert (entry.actuator.control_every, entry.actuator.effort_mode) == (2, "implicit")


def test_what_the_logs_do_not_tell_is_said():
    """A servo whose duty never saturates and that hardly moves: kt and R show only as their ratio."""
    time = uneven_time(2.0)
    command = 0.02 * np.sin(3.0 * (time - time[0]))
    actuator = actuon.ActuatorConfig(actuon.ServoPWMControlConfig(1.0, 0.05, 2.0, 10.0))
    model = Model(
        "servo",
        actuator,
        (
            Parameter("controller.torque_constant", 0.01, 1.0, 0.05, "log"),
            Parameter("controller.resistance", 0.2, 20.0, 2.0, "log"),
        ),
    )
    still = KnownLoadPlant([pendulum_log("a", time, np.zeros(len(time)), command)], {"inertia": 0.5}, dt=DT)
    path = residuals_of(still, [model], [model.start[None]])[0][0, :, 0]
    noisy = path + 1e-4 * np.random.default_rng(0).standard_normal(len(path))
    plant = KnownLoadPlant([pendulum_log("a", time, noisy, command)], {"inertia": 0.5}, dt=DT)
    (sentence,) = said_of(plant, model)
    ratio = r"controller\.(torque_constant/controller\.resistance|resistance/controller\.torque_constant)"
    assert re.fullmatch(rf"only {ratio}(\^[0-9.]+)? is identifiable; record the current, or fix one", sentence)
    assert said_of(plant, model.fixed("controller.resistance", 2.0)) == []


def said_of(plant, model):
    estimate = refine(plant, [model], [model.start])
    return undetermined(model.parameters, estimate.jacobian, estimate.noise)


def test_residuals_that_hang_together_count_for_less():
    rng = np.random.default_rng(0)
    white = rng.standard_normal(8000)
    assert correlation_time(white, [4000, 4000]) == pytest.approx(1.0, abs=0.2)
    slow = np.zeros(8000)
    for i in range(1, len(slow)):
        slow[i] = 0.9 * slow[i - 1] + white[i]
    assert correlation_time(slow, [4000, 4000]) == pytest.approx(19.0, rel=0.3)
    assert correlation_time(np.zeros(10), [10]) == 1.0


def test_a_selection_takes_the_simplest_model_that_does_well_where_it_was_not_fitted():
    values = truth(1) | {"friction.viscous": 1e-6, "delay.delay": 0.004, "friction.dynamic": 0.08}
    logs = [made_log(values, i, kp=kp) for i, kp in enumerate((0.5, 0.5, 1.0, 1.0))]
    assert [fold.name for fold in folds_of(logs)] == ["kp 0.5", "kp 1"]
    options = SearchOptions(starts=1, population=32, generations=60, patience=20)
    models = [dataclasses.replace(MODEL, scaled_by={"controller.kp": "kp"}, settings={"kp": 1.0})]
    without = [p for p in models[0].parameters if not p.path.startswith("friction")]
    chain = actuon.ActuatorConfig(
        stages=[s for s in MODEL.actuator.stages if type(s).__name__ != "FrictionEffectConfig"]
    )
    simple = dataclasses.replace(models[0], name="pd", actuator=chain, parameters=tuple(without))
    fixed = dataclasses.replace(models[0].fixed("friction.viscous", 0.0), name="coulomb")
    result = fit_logs(select=[models[0], simple, fixed], plant=KnownLoadPlant(logs, dt=DT), options=options)
    assert [one.name for one in result.compared] == ["pd", "coulomb", "pd_coulomb"]
    assert [one.name for one in result.compared if one.chosen] == ["coulomb"]
    assert result.joints[0].model.name == "coulomb"
    assert result.compared[0].held_out > 3.0 * result.compared[1].held_out
    assert result.held_out == pytest.approx(result.compared[1].held_out)
    written = result.compared[1].as_dict()
    assert list(written["held_out_folds_mrad"]) == ["kp 0.5", "kp 1"]
    assert all(run.held_out is not None for run in result.runs)


def test_each_window_of_a_log_has_its_own_error_where_it_was_held_out():
    windows = made_log(truth(1), 0).split_windows(0.6)
    options = SearchOptions(starts=1, population=8, generations=3)
    simple = dataclasses.replace(MODEL.fixed("friction.viscous", 0.01), name="coulomb")
    result = fit_logs(select=[MODEL, simple], plant=KnownLoadPlant(windows, dt=DT), options=options)
    (chosen,) = (one for one in result.compared if one.chosen)
    assert len(result.runs) == len(windows) > 2
    np.testing.assert_array_equal([run.held_out for run in result.runs], chosen.by_run[:, 0])
    assert result.held_out == pytest.approx(chosen.held_out)
    shown = [run["held_out_mrad"] for run in result.as_dict()["runs"]]
    np.testing.assert_allclose(shown, 1e3 * chosen.by_run[:, 0])


def test_runs_are_held_out_by_a_setting_that_varies_or_by_file():
    logs = [made_log(truth(0), i) for i in range(3)]
    assert [fold.runs for fold in folds_of(logs)] == [(0,), (1,), (2,)]
    folders = ("a", "b", "b/c")
    same = [dataclasses.replace(log, path=f"{at}/run.csv") for at, log in zip(folders, logs, strict=True)]
    assert [fold.name for fold in folds_of(same)] == ["a/run.csv", "b/run.csv", "c/run.csv"]
    windows = logs[0].split_windows(0.5)
    assert [len(fold.runs) for fold in folds_of(windows)] == [2, 2, 1]
    with pytest.raises(actuon.ActuonError, match="needs runs to hold out; got 1"):
        folds_of(logs[:1])


def test_a_step_that_is_too_long_for_the_joint_is_said():
    """At 4 ms, a drive that is this stiff does not hold still."""
    time = uneven_time(1.0)
    command = 0.8 * np.sin(20.0 * (time - time[0]))
    log = pendulum_log("stiff", time, command, command)
    chain = actuon.ActuatorConfig(actuon.PDControlConfig(50.0, 2.0))
    model = Model("stiff", chain, (Parameter("controller.kd", 1.9, 2.1),))
    options = SearchOptions(starts=1, population=4, generations=2)
    result = fit_logs([log], model, plant=KnownLoadPlant([log], dt=0.002), options=options)
    assert not any("half the time step" in warning for warning in result.warnings)
    assert any("controller.kd is at the low end of its range" in warning for warning in result.warnings)
    result = fit_logs([log], model, plant=KnownLoadPlant([log], dt=0.005), options=options)
    assert any("half the time step" in warning for warning in result.warnings), result.warnings


def test_two_robots_share_one_parameter_and_have_one_each(tmp_path):
    """Two robots with the same gain, and with dry friction of their own, read from a folder for each."""
    dry = {"alpha": 0.03, "beta": 0.08}
    for number, (robot, value) in enumerate(dry.items()):
        for run in range(2):
            log = made_log({**truth(0), "friction.dynamic": value}, 2 * number + run, noise=5e-4)
            (tmp_path / robot).mkdir(exist_ok=True)
            save_log(tmp_path / robot / f"run_{run}.csv", log)
    logs = read_logs(tmp_path)
    assert [log.robot for log in logs] == ["alpha", "alpha", "beta", "beta"]
    shared = Parameter("controller.kp", 0.3, 10.0, scale="log")
    own = Parameter("friction.dynamic", 1e-3, 0.5, scale="log", per="robot")
    values = truth(0)
    model = MODEL
    for path in model.paths:
        model = model.fixed(path, values[path])
    model = model.freed(shared).freed(own)
    plant = KnownLoadPlant(logs, {"mass": 0.5, "length": 0.1}, dt=DT)
    result = fit_models(plant, [model], dataclasses.replace(QUICK, generations=20, population=16))
    for robot, value in dry.items():
        assert result.per_robot[robot]["joint"] == {"friction.dynamic": pytest.approx(value, rel=0.1)}
    assert result.joints[0].parameters[0].value == pytest.approx(values["controller.kp"], rel=0.05)
    assert result.per_log == {}
    assert result.as_dict()["robots"] == result.per_robot


def test_a_range_of_a_free_parameter_keeps_what_it_has_one_value_for():
    each = dataclasses.replace(MODEL.parameters[0], per="robot")
    model = dataclasses.replace(MODEL, parameters=(each, *MODEL.parameters[1:]))
    plant = KnownLoadPlant([made_log(truth(0), 0)], dt=DT)
    ((wider,),) = candidates_of(plant, model, free={"controller.kp": (0.1, 50.0)})
    (kp,) = (p for p in wider.parameters if p.path == "controller.kp")
    assert (kp.low, kp.high, kp.per) == (0.1, 50.0, "robot")


def test_a_model_beside_a_selection_is_refused():
    plant = KnownLoadPlant([made_log(truth(0), 0)], dt=DT)
    for select in (True, ["pd"], []):
        with pytest.raises(actuon.ParameterError, match="model: got 'm4', with 'select', which chooses a model"):
            fit_logs(plant=plant, model="m4", select=select)


def test_json_has_no_infinity(tmp_path):
    plant = KnownLoadPlant([made_log(truth(0), 0)], dt=DT)
    chain = actuon.ActuatorConfig(actuon.PDControlConfig(1e7, 1e5))
    model = Model("mad", chain, (Parameter("controller.kp", 1e6, 1e8),))
    result = fit_logs(plant=plant, model=model, options=SearchOptions(starts=1, population=4, generations=1))
    assert not np.isfinite(result.error)
    result.save_json(tmp_path / "joint.json")

    def refuse(constant):
        raise AssertionError(constant)

    found = json.loads((tmp_path / "joint.json").read_text(), parse_constant=refuse)
    assert found["mae_mrad"]["train"] is None
    assert found["runs"][0]["train_mrad"] is None
    assert found["verdict"]["joint"]["level"] == "bad"


def test_logs_that_share_a_path_are_told_apart_and_windows_are_not():
    log, other = made_log(truth(0), 0), dataclasses.replace(made_log(truth(0), 1), path="run_0")
    plant = KnownLoadPlant([*log.split_windows(1.0), other], dt=DT)
    parts = plant.parts("log")
    assert parts.names == ("run_0", "run_0 (2)")
    assert parts.of_run.tolist() == [0, 0, 1]
    assert plant.subset([2]).parts("log").names == ("run_0",)
