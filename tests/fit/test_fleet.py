# SPDX-License-Identifier: Apache-2.0
"""Fleets: the same model on several robots, how they differ, and the file that says so."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import actuon
from actuon.fit import (
    Fleet,
    FleetJoint,
    FleetParameter,
    KnownLoadPlant,
    SearchOptions,
    fit_fleet,
    load_fleet,
    save_fleet,
)
from actuon.fit.fleet import fleet_of
from actuon.logs import save_log
from actuon.logs.files import robot_folders
from actuon.robot_files.provenance import load_motors
from tests.fit.test_search import DT, MODEL, made_log, truth
from tests.support.command_line import command

SHORT = SearchOptions(seed=1, starts=1, population=24, generations=12)
PARAMETERS = (
    FleetParameter("controller.kp", "N·m/rad", "log"),
    FleetParameter("friction.static", "N·m", "log", ("friction.other",), "friction.dynamic"),
    FleetParameter("encoder.bias", "rad", "linear"),
)


def drawn_fleet(robots=400, seed=0):
    """Values of a known spread, each with an uncertainty of its own."""
    rng = np.random.default_rng(seed)
    spread = np.array([[0.04, 0.03, 0.0], [0.03, 0.09, 0.0], [0.0, 0.0, 1e-4]])
    noise = np.diag([0.01, 0.02, 1e-4])
    scaled = rng.multivariate_normal([np.log(3.0), np.log(0.1), 0.02], spread + noise, robots)
    values = np.column_stack([np.exp(scaled[:, :2]), scaled[:, 2]])
    joint = FleetJoint(
        "knee", "m2", PARAMETERS, values, np.repeat(noise[None], robots, axis=0), rng.uniform(0.001, 0.002, robots),
        {"controller.kp": "kp"}, {"kp": 200.0},
    )  # fmt: skip
    names = tuple(f"robot_{i}" for i in range(robots))
    return Fleet(names, tuple(f"fleet_robots/{name}.yaml" for name in names), (joint,)), spread, noise


def test_the_spread_of_a_fleet_is_found_without_what_single_fits_are_unsure_of():
    fleet, spread, noise = drawn_fleet()
    joint = fleet.joint("knee")
    np.testing.assert_allclose(joint.mean, [3.0, 0.1, 0.02], rtol=0.1)
    np.testing.assert_allclose(joint.noise, noise)
    np.testing.assert_allclose(joint.covariance, np.cov(joint.on_scales.T), rtol=1e-9)
    np.testing.assert_allclose(joint.correlation, np.corrcoef(joint.on_scales.T), rtol=1e-9)
    scale = np.sqrt(np.outer(np.diag(spread), np.diag(spread)))
    np.testing.assert_allclose(joint.spread / scale, spread / scale, atol=0.2)
    with pytest.raises(actuon.ParameterError, match="Did you mean 'knee'"):
        fleet.joint("kne")


def test_robots_that_differ_less_than_fits_are_unsure_of_have_no_spread():
    fleet, _, noise = drawn_fleet(20)
    joint = dataclasses.replace(fleet.joints[0], covariances=np.repeat(100.0 * noise[None], 20, axis=0))
    assert np.abs(joint.spread).max() == 0.0
    still = dataclasses.replace(joint, values=np.ones((20, 3)))
    np.testing.assert_array_equal(still.correlation, np.eye(3))


def test_a_fleet_file_is_read_as_it_was_written(tmp_path):
    fleet, *_ = drawn_fleet(5)
    save_fleet(tmp_path / "fleet.yaml", fleet)
    again = load_fleet(tmp_path / "fleet.yaml")
    assert (again.robots, again.files) == (fleet.robots, fleet.files)
    (own,), (joint,) = again.joints, fleet.joints
    assert (own.name, own.model, own.parameters) == (joint.name, joint.model, joint.parameters)
    assert (own.times, own.settings) == (joint.times, joint.settings)
    for name in ("values", "covariances", "errors", "spread"):
        np.testing.assert_allclose(getattr(own, name), getattr(joint, name), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version: 1", "version: 7", "version: got 7; this Actuon reads version 1"),
        ("model: m2", "modell: m2", "fleet.joints.knee: has no 'model'; must have model, parameters, robots"),
        ("scale: linear", "scale: square", "encoder.bias.scale: got 'square'; must be linear or log"),
        ("values: [", "values: [-1.0, ", "robots.robot_0.values: got .*; must be 3 finite numbers"),
        ("values: [", "values: 3 # [", "robots.robot_0.values: got 3; must be a list"),
        ("- [0.01]", "- [-0.01]", "robot_0.covariance: is not a covariance"),
        ("- [0.01]", "- [.nan]", r"robot_0.covariance\[0\]: got .*; must be 1 finite number"),
        ("error_mrad: ", "error_mrad: bad # ", "robot_0.error_mrad: got 'bad'; must be a number"),
        ("scale: linear", "scale: 3", "encoder.bias.scale: got 3; must be text"),
        ("robot_1: fleet", "robot_7: fleet", "fleet.joints.knee.robots: has no 'robot_7'"),
        ("robot_1: fleet_robots/robot_1.yaml", "", "fleet.robots: got 1; must be at least 2"),
    ],
)
def test_a_damaged_fleet_file_is_refused_with_its_place(tmp_path, old, new, said):
    path = tmp_path / "fleet.yaml"
    save_fleet(path, drawn_fleet(2)[0])
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(", robot_1:", ",\n   robot_1:").replace(old, new, 1))
    with pytest.raises(actuon.RobotFileError, match=f"'{path}': .*{said}"):
        load_fleet(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two robots, of which the second has twice the friction."""
    folder = tmp_path_factory.mktemp("fleet")
    for robot, friction in (("alpha", 0.03), ("beta", 0.06)):
        (folder / robot).mkdir()
        for seed in range(2):
            log = made_log(truth(0) | {"friction.dynamic": friction}, seed)
            save_log(folder / robot / f"run_{seed}.csv", log)
    return folder


def test_a_folder_of_robots_gives_a_file_for_each_and_one_of_how_they_differ(folder, tmp_path):
    assert list(robot_folders(folder)) == ["alpha", "beta"]
    assert robot_folders(folder / "alpha") == {}
    output = tmp_path / "fleet.yaml"
    options = ["--model", "pd_coulomb", "--dt", DT, "--generations", "90", "--report", tmp_path / "report"]
    printed = command("fit", "fleet", folder, "-o", output, *options)
    assert "pd_coulomb on 2 robots" in printed
    assert "fitted [mrad]" in printed
    assert f"wrote {output}" in printed
    fleet = load_fleet(output)
    (joint,) = fleet.joints
    friction = [p.path for p in joint.parameters].index("friction.dynamic")
    assert joint.values[1, friction] / joint.values[0, friction] == pytest.approx(2.0, rel=0.25)
    for i, (robot, file) in enumerate(zip(fleet.robots, fleet.files, strict=True)):
        alone = load_motors(tmp_path / file).joint(joint.name)
        assert (alone.model, [p.path for p in alone.parameters]) == (joint.model, [p.path for p in joint.parameters])
        np.testing.assert_array_equal(alone.values[0], joint.values[i])
        np.testing.assert_array_equal(alone.covariances[0], joint.covariances[i])
        assert all(p.low <= value <= p.high for p, value in zip(alone.parameters, alone.values[0], strict=True))
        found = command("fit", "apply", tmp_path / file, folder / robot, "--dt", DT, "--json")
        assert json.loads(found)["mae_mrad"]["mean"] < 4.0
        assert (tmp_path / "report" / robot / "report.md").exists()


def test_robots_of_a_fleet_get_the_same_model(folder):
    plants = {
        name: KnownLoadPlant([made_log(truth(0), i + 10 * k) for i in range(2)], dt=DT) for k, name in enumerate("ab")
    }
    result = fit_fleet(plants, select=["pd", "pd_coulomb"], options=SHORT)
    assert {own.joints[0].model.name for own in result.robots.values()} == {"pd_coulomb"}
    assert [one.chosen for one in result.compared] == [False, True]
    assert all(own.held_out is not None for own in result.robots.values())
    assert len(result.compared[0].by_run) == 4


def test_each_window_of_a_robot_has_its_own_error_where_it_was_held_out():
    """A robot without friction would take another model than the fleet does."""
    plants = {}
    for name, friction in {"a": 1e-6, "b": 0.3}.items():
        values = truth(0) | {"friction.dynamic": friction, "friction.viscous": 1e-6}
        windows = [part for seed in (0, 2) for part in made_log(values, seed).split_windows(0.8)]
        plants[name] = KnownLoadPlant(windows, dt=DT)
    options = dataclasses.replace(SHORT, generations=40)
    result = fit_fleet(plants, select=["pd", "pd_coulomb"], options=options)
    (chosen,) = (one.name for one in result.compared if one.chosen)
    alone = {name: next(one.name for one in own.compared if one.chosen) for name, own in result.robots.items()}
    assert len(set(alone.values())) == 2
    for own in result.robots.values():
        (by_run,) = (one.by_run for one in own.compared if one.name == chosen)
        assert len({run.path for run in own.runs}) < len(own.runs)
        np.testing.assert_array_equal([run.held_out for run in own.runs], by_run[:, 0])


def test_what_was_known_of_a_robot_is_part_of_the_fleet():
    plant = KnownLoadPlant([made_log(truth(0), 0)], dt=DT)
    from actuon.fit.fitting import fit_models

    free = fit_models(plant, [MODEL], SHORT, refine_steps=0)
    known = fit_models(plant, [MODEL.fixed("controller.kp", 2.5)], SHORT, refine_steps=0)
    (joint,) = fleet_of({"a": free, "b": known}, ["a.yaml", "b.yaml"]).joints
    at = [p.path for p in joint.parameters].index("controller.kp")
    assert joint.values[1, at] == 2.5
    assert (joint.covariances[1, at] == 0.0).all()
    assert joint.covariances[0, at, at] > 0.0


def test_a_fleet_on_ray_finds_the_same_as_here(folder, tmp_path):
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    options = ["--model", "pd_coulomb", "--dt", DT, "--generations", "6"]
    for name, more in (("here", []), ("there", ["--on", "ray"])):
        command("fit", "fleet", folder, "-o", tmp_path / f"{name}.yaml", *options, *more)
    here, there = (load_fleet(tmp_path / f"{name}.yaml") for name in ("here", "there"))
    np.testing.assert_array_equal(there.joints[0].values, here.joints[0].values)


def test_a_fleet_of_one_or_of_different_robots_is_refused(complaint, folder, tmp_path):
    with pytest.raises(actuon.ParameterError, match="a fleet: got 1 robots; must be at least 2"):
        fit_fleet({"a": KnownLoadPlant([made_log(truth(0), 0)])})
    (tmp_path / "out_robots").mkdir()
    (tmp_path / "out_robots" / "beta.yaml").write_text("mine")
    assert "beta.yaml' already exists; --force replaces it" in complaint(
        "fit", "fleet", folder, "-o", tmp_path / "out.yaml"
    )
