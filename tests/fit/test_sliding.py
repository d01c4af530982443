# SPDX-License-Identifier: Apache-2.0
"""Joints that slide: their units from the log to the report, and errors of different units, which have no mean."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import actuon
from actuon.fit import KnownLoadPlant, RobotPlant, SearchOptions, apply, fit_logs, read_logs
from actuon.fit.fitting import candidates_of
from actuon.fit.plants.known_load import Load
from actuon.fit.report import write_report
from actuon.logs import JointLog, Log, save_log
from tests.fit.test_search import DT
from tests.fit.test_verdicts import SHORT
from tests.support.command_line import command
from tests.support.trials import search

pytest.importorskip("mujoco")
MASS, UNITS = 3.0, {"position": "mm", "command": "mm"}
ROBOT = """
<mujoco>
  <worldbody>
    <body name="base">
      <geom size="0.1" contype="0" conaffinity="0"/>
      <body name="cart"><joint name="cart" type="slide" axis="1 0 0"/>
        <inertial pos="0 0 0" mass="3" diaginertia="1 1 1"/></body>
      <body name="arm" pos="0 1 0"><joint name="arm" axis="0 1 0"/>
        <inertial pos="0 0 -0.1" mass="0.5" diaginertia="1e-4 1e-4 1e-4"/></body>
    </body>
  </worldbody>
</mujoco>
"""


def follower(time, command, inertia, kp, kd):
    """Positions of a joint with a PD drive and no friction."""
    q, v, path = 0.0, 0.0, []
    for target in command:
        path.append(q)
        v += (kp * (target - q) - kd * v) / inertia * (time[1] - time[0])
        q += v * (time[1] - time[0])
    return np.array(path)


def moved(name, **settings):
    """A cart that slides by centimetres, and an arm that turns."""
    time = np.arange(0.0, 2.0, 0.004)
    command = np.sin(4.0 * time) + 0.4 * np.sin(11.0 * time)
    rng = np.random.default_rng(len(name))
    cart = follower(time, 0.02 * command, MASS, 900.0, 40.0) + rng.normal(0.0, 1e-5, len(time))
    arm = follower(time, 0.5 * command, 0.005, 2.0, 0.1) + rng.normal(0.0, 1e-3, len(time))
    joints = JointLog("cart", cart, 0.02 * command, units=UNITS), JointLog("arm", arm, 0.5 * command)
    return Log(name, time, joints, settings)


def only(log, name):
    return Log(log.path, log.time, (log.joint(name),), log.settings)


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    path = tmp_path_factory.mktemp("robot") / "robot.xml"
    path.write_text(ROBOT)
    return path


def test_the_load_of_a_joint_that_slides_is_its_mass():
    log = only(moved("run", mass=MASS), "cart")
    assert KnownLoadPlant([log]).loads == (Load(MASS),)
    assert KnownLoadPlant([log], {"inertia": 2.0}).loads == (Load(2.0),)
    with pytest.raises(actuon.ParameterError, match=r"run: the load of a joint that slides is its mass \[kg\]"):
        KnownLoadPlant([log], {"mass": 1.0, "length": 0.1})


def test_a_fit_of_a_joint_that_slides_is_in_its_units(tmp_path):
    log = only(moved("run.csv", mass=MASS), "cart")
    plant = KnownLoadPlant([log], dt=DT)
    result = fit_logs(plant=plant, model="pd_coulomb", options=SHORT)
    found = result.as_dict()
    assert found["mae_mm"]["train"] == pytest.approx(1e3 * result.error)
    assert found["runs"][0]["train_mm"] == pytest.approx(1e3 * result.error)
    assert found["verdict"]["cart"]["error_mm"] == pytest.approx(1e3 * result.error)
    units = {path: own["unit"] for path, own in found["joints"]["cart"]["parameters"].items()}
    expected = {
        "controller.kp": "N/m", "controller.kd": "N·s/m", "transmission.reflected_inertia": "kg",
        "encoder.bias": "m", "friction.dynamic": "N", "friction.viscous": "N·s/m",
    }  # fmt: skip
    assert units.items() >= expected.items()
    assert "All forces scale with the stated mass" in result.verdicts[0].sentence()
    result.save(tmp_path / "cart.yaml")
    report = write_report(result, plant, tmp_path).read_text()
    applied = apply(tmp_path / "cart.yaml", plant)
    assert applied.as_dict()["mae_mm"]["mean"] == pytest.approx(1e3 * applied.mean)
    save_log(tmp_path / "run.csv", log)
    printed = command("fit", "apply", tmp_path / "cart.yaml", tmp_path / "run.csv", "--dt", DT, code=None)
    for text in (json.dumps(found), (tmp_path / "cart.yaml").read_text(), report, printed):
        assert re.search("mm|error_mm", text)
        assert not re.search(r"rad\b|N·m|kg·m²", text), re.findall(r".*(?:rad\b|N·m|kg·m²).*", text)
    from actuon.robot_files.provenance import Provenance, load_motors

    assert Provenance.from_yaml(tmp_path / "cart.yaml").error == {"m": pytest.approx(result.error, abs=1e-6)}
    (joint,) = load_motors(tmp_path / "cart.yaml").joints
    assert (joint.unit, joint.errors[0]) == ("m", pytest.approx(result.error, rel=1e-4))


def test_a_motion_to_record_is_in_the_units_of_the_joint(tmp_path):
    save_log(tmp_path / "run.csv", only(moved("run.csv", mass=MASS), "cart"))
    search = ("--model", "pd", "--starts", 1, "--generations", 8, "--seconds", 2)
    printed = command("fit", "excite", tmp_path / "next.csv", tmp_path / "run.csv", *search)
    assert (tmp_path / "next.csv").read_text().startswith("t,cmd_cart [m]\n")
    assert "m/s" in printed
    assert not re.search(r"rad\b|N·m|kg·m²", printed), printed


def test_errors_of_joints_that_turn_and_slide_are_not_averaged(robot, tmp_path):
    logs = [moved("first.csv"), moved("second.csv ")]
    plant = RobotPlant(robot, logs, dt=DT)
    assert plant.units == ("m", "rad")
    options = SearchOptions(starts=1, population=16, generations=8)
    result = fit_logs(plant=plant, select=["pd"], options=options)
    assert list(result.errors) == list(result.held_out_errors) == ["m", "rad"]
    cart = [run.error for run in result.runs if run.joint == "cart"]
    assert result.errors["m"] == pytest.approx(np.mean(cart))
    for name in ("error", "held_out"):
        with pytest.raises(actuon.StateError, match="errors in m and rad have no mean; read"):
            getattr(result, name)
    found = result.as_dict()
    assert found["mae_mm"]["train"] == pytest.approx(1e3 * result.errors["m"])
    assert found["mae_mrad"]["held_out"] == pytest.approx(1e3 * result.held_out_errors["rad"])
    assert {name for run in found["runs"] for name in run} >= {"train_mm", "train_mrad"}
    (compared,) = result.compared
    motions = [np.mean([np.abs(log.joint(j).position - np.median(log.joint(j).position)).mean() for log in logs])
               for j in plant.joints]  # fmt: skip
    assert compared.held_out == pytest.approx(np.mean(compared.by_run / motions))
    assert found["models"][0]["held_out_percent"] == pytest.approx(100.0 * compared.held_out)
    result.save(tmp_path / "robot.yaml")
    text = (tmp_path / "robot.yaml").read_text()
    assert "error_mm:" in text
    assert "error_mrad:" in text
    applied = apply(tmp_path / "robot.yaml", plant).as_dict()
    assert set(applied["mae_mm"]["joints"]) == {"cart"}
    assert set(applied["mae_mrad"]["joints"]) == {"arm"}
    report = write_report(result, plant, tmp_path).read_text()
    assert re.search(r"\| cart \| [\d.]+ mm \|", report)
    assert re.search(r"\| arm \| [\d.]+ mrad \|", report)
    for log in logs:
        save_log(tmp_path / log.path.strip(), log)
    arguments = (tmp_path / "first.csv", tmp_path / "second.csv", "--robot", robot, "--dt", DT)
    few = ("--models", "pd", "--starts", 1, "--generations", 2)
    printed = command("fit", "select", *arguments, *few, code=None)
    assert "% of the motion" in printed
    assert re.search(r"mean absolute error [\d.]+ mm, [\d.]+ mrad in all runs", " ".join(printed.split()))
    printed = command("fit", "apply", tmp_path / "robot.yaml", *arguments, code=None)
    assert re.search(r"cart: [\d.]+ mm", printed)
    assert re.search(r"arm: [\d.]+ mrad", printed)


def test_joints_that_turn_and_slide_count_alike_in_a_search_together(robot):
    """The error of a search is of shares of the motion, so that metres do not vanish beside radians."""
    plant = RobotPlant(robot, [moved("run.csv")], dt=DT, together=True)
    (models,) = candidates_of(plant, "pd")
    found = search(plant, models, SearchOptions(starts=1, population=8, generations=2))
    errors = plant.errors(plant.trials(models, [own[None] for own in found.values]))[0].mean(axis=0)
    motions = [np.abs(joint.position - np.median(joint.position)).mean() for joint in plant.runs[0].joints]
    assert found.errors[0] == pytest.approx(np.mean(errors / motions))


def test_findings_are_in_the_unit_of_the_joint(tmp_path):
    log = only(moved("run.csv", mass=MASS), "cart")
    position = log.joints[0].position.copy()
    position[100] += 2.0
    save_log(
        tmp_path / "run.csv", Log(log.path, log.time, (log.joints[0].replaced({"position": position}),), log.settings)
    )
    (spike,) = [finding for finding in read_logs(tmp_path / "run.csv")[0].findings if finding.kind == "spike"]
    assert re.fullmatch(r"cart: 1 position spike of up to 2 m \(line 103\)", spike)
    table = np.column_stack([log.time, log.joints[0].position, log.joints[0].command])
    np.savetxt(tmp_path / "named.csv", table, delimiter=",", header="time,pos_rail,cmd_rail", comments="")
    assert read_logs(tmp_path / "named.csv")[0].joints[0].unit == "m"
