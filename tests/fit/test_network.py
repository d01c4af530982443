# SPDX-License-Identifier: Apache-2.0
"""Networks from logs: trained through the motion, written with their convention, compared, and watched in a replay."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import actuon
from actuon.fit import KnownLoadPlant, SearchOptions, apply
from actuon.fit.fitting import candidates_of
from actuon.fit.network_fitting import TrainingJob, fit_network, network_model, save_trained, training_run
from actuon.fit.network_replay import network_step
from actuon.fit.replay import models_of
from actuon.logs import save_log
from tests.fit.test_search import DT, made_log, truth
from tests.support.command_line import command
from tests.support.trials import errors_of, residuals_of

torch = pytest.importorskip("torch")
from actuon.fit.network_training import Rolled, module_of, run_training  # noqa: E402, imports PyTorch

VALUES = truth(1)
QUICK = SearchOptions(starts=1, population=16, generations=6)
GAINS = (0.5, 1.0)


@pytest.fixture(scope="module")
def plant():
    """Two gains, of which the stronger one is twice the other."""
    logs = [made_log(VALUES, seed, kp=kp) for kp in GAINS for seed in (0, 2)]
    return KnownLoadPlant(logs, dt=DT)


def training_runs(plant, gain=1.0):
    (scales,) = plant.scales()
    runs = zip(plant.runs, plant.loads, strict=True)
    return tuple(training_run(log, load, plant.dt, scales, "kp", gain) for log, load in runs), scales


@pytest.fixture(scope="module")
def job(plant):
    runs, scales = training_runs(plant)
    return TrainingJob("mlp", runs, plant.dt, seed=3, effort=scales.effort, share=0.03)


@pytest.mark.parametrize("kind", ["mlp", "lstm", "gru"])
def test_a_network_moves_a_joint_in_training_as_its_file_does_in_a_replay(plant, job, kind, tmp_path):
    """From the first sample on, with a history of nothing: PyTorch against our kernels."""
    trained = run_training(dataclasses.replace(job, kind=kind, share=0.01))
    path = tmp_path / "network.safetensors"
    save_trained(trained, path)
    model = network_model(trained, path, "kp", 1.0)
    residuals = [run[0] for run in residuals_of(plant, [model], [np.zeros((1, 0))])]
    rolled = Rolled(
        kind=kind, steps=trained.steps, history=max(1, *trained.steps), dt=plant.dt,
        scales=(trained.pos_scale, trained.vel_scale, trained.effort_scale), inertia=1.0, damping=1.0,
    )  # fmt: skip
    rolled.network.load_state_dict(module_of(trained).state_dict())
    for name, tensor in zip(rolled.found(), rolled.physical, strict=True):
        value = getattr(trained, name)
        tensor.data = torch.tensor(value / 0.02 if name == "bias" else np.log(value), dtype=torch.float32)
        assert rolled.found()[name] == pytest.approx(value, rel=1e-5, abs=1e-9)
    steps = 150
    for run, log, residual in zip(job.runs, plant.runs, residuals, strict=True):
        run = dataclasses.replace(run, velocity=np.zeros(len(run.velocity)))  # the logs say that they begin at rest
        with torch.no_grad():
            path_in_torch = rolled.roll(rolled.gather([(run, 0)], steps))[0].numpy()
        simulated = np.interp(
            plant.dt * np.arange(1, steps + 1), log.time - log.time[0], (log.joints[0].position + residual[:, 0])
        )
        np.testing.assert_allclose(path_in_torch, simulated, atol=3e-3)


def test_training_makes_errors_less_and_can_be_repeated(job):
    told, job = [], dataclasses.replace(job, share=0.06)
    trained = run_training(job, lambda step, errors: told.append(float(errors[0])))
    again = run_training(job)
    for name, weights in trained.weights.items():
        np.testing.assert_array_equal(again.weights[name], weights)
    assert trained.error < 0.03
    assert len(told) == sum(round(0.06 * count) for count in (200, 130, 95))
    low, high = trained.ranges["position_error"]
    errors = np.concatenate([run.factor * (run.command - run.position)[run.enabled > 0.0] for run in job.runs])
    assert (low, high) == (errors.min(), errors.max())


def test_an_interrupt_gives_the_network_as_it_is(job):
    def interrupt(step, errors):
        if step == 3:
            raise KeyboardInterrupt

    trained = run_training(job, interrupt)
    assert trained.interrupted
    assert all(np.isfinite(weights).all() for weights in trained.weights.values())


def test_the_effort_that_is_logged_is_learned(plant):
    logs = []
    for log in plant.runs[:2]:
        (joint,) = log.joints
        joint = dataclasses.replace(joint, extra={"effort": 0.4 * (joint.command - joint.position)})
        logs.append(dataclasses.replace(log, joints=(joint,)))
    known = KnownLoadPlant(logs, dt=DT)
    (scales,) = known.scales()
    run = training_run(known.runs[0], known.loads[0], DT, scales, "", 1.0)
    inside = run.enabled > 0.0
    np.testing.assert_allclose(run.effort[inside], 0.4 * (run.command - run.position)[inside], atol=0.02)
    np.testing.assert_array_equal(run.is_known, run.enabled)


@pytest.fixture(scope="module")
def written(plant, tmp_path_factory):
    """Return the files and the output of the command after a short training."""
    folder = tmp_path_factory.mktemp("network")
    for i, log in enumerate(plant.runs):
        save_log(folder / f"run_{i}.csv", log)
    output = folder / "net.safetensors"
    options = ["--dt", DT, "--model", "pd", "--generations", "4", "--starts", "1"]
    printed = command("fit", "network", "mlp", folder / "run_*.csv", "-o", output, *options)
    return folder, output, printed


def test_a_network_file_says_how_it_is_fed_and_what_it_was_trained_on(written):
    _, output, _ = written
    metadata = actuon.load_metadata(output)
    assert metadata["model_type"] == "mlp"
    assert metadata["sample_dt"] == DT
    assert metadata["input_idx"] == (0, 1, 2, 4, 8)
    assert metadata["input_order"] == "pos_vel"
    assert min(metadata[key] for key in ("pos_scale", "vel_scale", "effort_scale")) > 0.0
    assert set(metadata["input_range"]) == {"position_error", "velocity"}
    assert network_step(output.with_suffix(".yaml")) == DT


def test_a_network_is_compared_with_a_physical_model_on_held_out_runs(written):
    _, output, printed = written
    assert "kp 0.5" in printed
    rows = [line for line in printed.splitlines() if line.startswith(("│ pd ", "│ mlp "))]
    assert len(rows) == 2
    assert f"wrote {output}" in printed
    assert f"wrote {output.with_suffix('.yaml')}" in printed


def test_a_network_is_replayed_at_its_own_step_and_gain_and_warns_outside_its_range(written, plant):
    folder, output, _ = written
    found = json.loads(command("fit", "apply", output.with_suffix(".yaml"), folder / "run_*.csv", "--json"))
    assert found["mae_mrad"]["mean"] < 200.0
    assert found["outside_training_range"]["joint"] < 0.2
    strong = KnownLoadPlant([made_log(VALUES, 0, kp=8.0)], dt=DT)
    far = apply(output.with_suffix(".yaml"), strong)
    assert far.outside["joint"] > 0.2
    assert "% of the samples are outside the training range of its network" in far.warnings[0]
    both = KnownLoadPlant([*plant.runs, *strong.runs], dt=DT)
    together = apply(output.with_suffix(".yaml"), both).errors
    np.testing.assert_allclose(together[:4], apply(output.with_suffix(".yaml"), plant).errors, rtol=1e-6)
    np.testing.assert_allclose(together[4:], far.errors, rtol=1e-6)


def test_errors_of_a_network_follow_the_gain_of_each_log_as_residuals_do(written, plant):
    """The scale of its input is one number for all DOFs of a simulation, and grows with the gain of the log."""
    _, output, _ = written
    models = models_of(output.with_suffix(".yaml"), plant.joints)
    candidates = [np.zeros((1, 0))]
    exact = [np.abs(run).mean(axis=1) for run in residuals_of(plant, models, candidates)]
    np.testing.assert_allclose(errors_of(plant, models, candidates), np.stack(exact, axis=1), rtol=2e-2)


def test_a_network_without_runs_to_hold_out_says_so(plant):
    result = fit_network(plant.subset([0]), "gru", options=QUICK, share=0.01)
    assert result.compared == ()
    assert "no runs could be held out" in result.warnings[0]
    assert np.isfinite(result.applied.mean)
    assert json.loads(json.dumps(result.as_dict()))["network"] == "gru"


def test_trainings_run_on_ray_as_they_do_here(plant):
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    from actuon.fit.workers import RayWorkers

    candidates = candidates_of(plant, "pd")
    with RayWorkers() as workers:
        there = fit_network(plant, "mlp", candidates, options=QUICK, share=0.01, workers=workers)
    here = fit_network(plant, "mlp", candidates, options=QUICK, share=0.01)
    for one, other in zip(here.compared, there.compared, strict=True):
        np.testing.assert_array_equal(one.by_run, other.by_run)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["transformer"], 'Invalid value "transformer" for KIND'),
        (["mlp", "-o", "net.yaml"], "must be .safetensors"),
    ],
)
def test_what_cannot_be_trained_is_refused(written, complaint, arguments, said):
    folder, output, _ = written
    assert said in complaint("fit", "network", *arguments, folder / "run_0.csv")
    assert "already exists" in complaint("fit", "network", "mlp", folder / "run_0.csv", "-o", output)


def test_logs_of_commanded_efforts_are_refused(plant):
    (log, *_) = plant.runs
    (joint,) = log.joints
    pushed = dataclasses.replace(joint, command=None, effort_command=np.zeros(len(log)))
    with pytest.raises(actuon.ParameterError, match="needs logs with commanded positions"):
        fit_network(KnownLoadPlant([dataclasses.replace(log, joints=(pushed,))], dt=DT), "mlp")
