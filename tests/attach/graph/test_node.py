# SPDX-License-Identifier: Apache-2.0
"""The `ArticulationActuators` node, called as OmniGraph calls it."""

from __future__ import annotations

import gc
import importlib.resources
import inspect
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from actuon import ArticulationActuators, MujocoSimulation
from actuon.errors import SimulationError
from actuon.graph import NODE_TYPES, OgnArticulationActuators
from tests.support.action_graphs import ACTUATORS, MODEL, NODE, OmniGraphNode, compute, database, servo_gain


def test_the_ogn_file_describes_the_node():
    text = (
        importlib.resources.files("actuon.attach.graph_node")
        .joinpath("OgnArticulationActuators.ogn")
        .read_text("utf-8")
    )
    ((name, ogn),) = json.loads(text).items()
    assert f"actuon.graph.{name}" == NODE
    assert NODE_TYPES[NODE] is OgnArticulationActuators
    assert {key: (port["type"], port.get("default")) for key, port in ogn["inputs"].items()} == {
        "execIn": ("execution", None),
        "robotPath": ("string", ""),
        "autoStepPrePhysics": ("bool", True),
        "stepDt": ("double", 0.0),
        "feedforwardCommand": ("float[]", []),
        "indices": ("int[]", []),
        "dofIndices": ("int[]", []),
    }
    assert {key: port["type"] for key, port in ogn["outputs"].items()} == {"execOut": "execution"}
    assert ogn["language"] == "python"
    assert ogn["version"] == 1
    assert ogn["categories"] == {"newtonActuators": "Newton Actuators"}  # where Isaac Sim's graph editor lists it
    assert "state" in ogn
    assert all(port["description"] for port in (ogn, *ogn["inputs"].values(), *ogn["outputs"].values()))


def test_omnigraph_finds_the_class_and_its_entries():
    """It imports the file beside the description, and calls these of the class of the same name without an instance."""
    source = Path(inspect.getfile(OgnArticulationActuators))
    assert source.stem == OgnArticulationActuators.__name__
    assert source.with_suffix(".ogn").is_file()
    for name in ("compute", "internal_state", "release", "release_instance"):
        assert isinstance(inspect.getattr_static(OgnArticulationActuators, name), staticmethod)
    assert list(inspect.signature(OgnArticulationActuators.compute).parameters) == ["db"]
    assert "omni" not in sys.modules


def test_actuators_are_built_on_the_first_pulse_and_kept(arms):
    db = database(robotPath="/left")
    assert db.per_instance_state.actuators is None
    assert servo_gain(arms, "left") == 7
    assert compute(db) is True
    assert db.outputs.execOut == 1
    first = db.per_instance_state.actuators
    assert first.articulation.paths == ["/left"]
    assert servo_gain(arms, "left") == 0
    assert compute(db) is True
    assert db.per_instance_state.actuators is first
    assert db.logged == []


def test_actuators_are_rebuilt_when_the_path_changes(arms):
    db = database(robotPath="/left")
    compute(db)
    first = db.per_instance_state.actuators
    db.inputs.robotPath = "/right"
    assert compute(db)
    assert db.per_instance_state.actuators is not first
    assert db.per_instance_state.actuators.articulation.paths == ["/right"]
    assert (servo_gain(arms, "left"), servo_gain(arms, "right")) == (7, 0)
    with pytest.raises(SimulationError, match="closed"):
        first.step_actuators(0.002)


def test_feedforward_is_applied_again_on_each_pulse(arms):
    db = database(robotPath="/left", feedforwardCommand=[3.0, -2.0])
    plain = compute(db) and db.per_instance_state.actuators
    arms.step()
    with_feedforward = plain.telemetry().computed_effort
    plain.set_dof_feedforward_effort_targets(0.0)
    plain.step_actuators(arms.dt)
    without = plain.telemetry().computed_effort
    compute(db)
    plain.step_actuators(arms.dt)
    again = plain.telemetry().computed_effort
    np.testing.assert_allclose(again - without, [[3.0, -2.0]], rtol=1e-5)
    np.testing.assert_allclose(with_feedforward, [[3.0, -2.0]], atol=1e-5)


def test_feedforward_reaches_the_dofs_and_robots_that_are_named(tmp_path):
    (tmp_path / "arms.xml").write_text(MODEL)
    (tmp_path / "arms.actuon.yaml").write_text(ACTUATORS)

    def efforts(**inputs):
        with MujocoSimulation(tmp_path / "arms.xml", num_envs=3):
            db = database(robotPath="left", autoStepPrePhysics=False, **inputs)
            assert compute(db), db.logged
            return db.per_instance_state.actuators.telemetry().computed_effort

    np.testing.assert_allclose(efforts(feedforwardCommand=[2.0]), np.full((3, 2), 2.0), atol=1e-6)
    np.testing.assert_allclose(efforts(feedforwardCommand=[1.0, 2.0]), [[1, 2]] * 3, atol=1e-6)
    np.testing.assert_allclose(efforts(feedforwardCommand=[1.0, 2, 3, 4, 5, 6]), [[1, 2], [3, 4], [5, 6]], atol=1e-6)
    np.testing.assert_allclose(
        efforts(feedforwardCommand=[1.0, 2.0], indices=[2, 0], dofIndices=[1]), [[0, 2], [0, 0], [0, 1]], atol=1e-6
    )
    np.testing.assert_allclose(efforts(feedforwardCommand=[4.0], indices=[1]), [[0, 0], [4, 4], [0, 0]], atol=1e-6)


def test_empty_feedforward_leaves_what_is_there(arms):
    db = database(robotPath="/left", autoStepPrePhysics=False, feedforwardCommand=[3.0])
    compute(db)
    db.inputs.feedforwardCommand = np.zeros(0, np.float32)
    assert compute(db)
    np.testing.assert_allclose(db.per_instance_state.actuators.telemetry().computed_effort, [[3, 3]], atol=1e-6)


def test_steps_by_hand_only_when_auto_is_off(arms):
    db = database(robotPath="/left", feedforwardCommand=[1.0])
    compute(db)
    actuators = db.per_instance_state.actuators
    assert not actuators.telemetry().computed_effort.any()
    arms.step()
    assert actuators.telemetry().computed_effort.all()

    db.inputs.autoStepPrePhysics = False
    compute(db)
    before = actuators.telemetry().computed_effort
    arms.step(5)
    np.testing.assert_array_equal(actuators.telemetry().computed_effort, before)
    compute(db)
    assert (actuators.telemetry().computed_effort != before).all()

    db.inputs.autoStepPrePhysics = True
    compute(db)
    before = actuators.telemetry().computed_effort
    arms.step(2)
    assert (actuators.telemetry().computed_effort != before).all()
    assert db.per_instance_state.actuators is actuators


@pytest.mark.parametrize(("step_dt", "expected"), [(0.0, 0.002), (0.0125, 0.0125)])
def test_manual_step_takes_its_time_step(arms, monkeypatch, step_dt, expected):
    steps = []
    monkeypatch.setattr(ArticulationActuators, "step_actuators", lambda self, dt: steps.append(dt))
    compute(database(robotPath="/left", autoStepPrePhysics=False, stepDt=step_dt))
    assert steps == [expected]


BAD = {
    "no path": ({"robotPath": ""}, r"robotPath: got ''; must be the path or name"),
    "no text": ({"robotPath": 3}, r"robotPath: got 3; must be"),
    "no robot": ({"robotPath": "/lefft"}, r"no robot at '/lefft'.*Did you mean '/left'"),
    "no regex": ({"robotPath": "(("}, "nor a valid regex"),
    "negative step": ({"autoStepPrePhysics": False, "stepDt": -0.1}, r"stepDt: got -0.1; must be finite and ≥ 0"),
    "endless step": ({"autoStepPrePhysics": False, "stepDt": float("nan")}, "stepDt: got nan"),
    "too few": (
        {"feedforwardCommand": [1.0, 2.0, 3.0]},
        r"feedforwardCommand: got 3 values; must be none, 1, 2 \(one for each DOF\), or 1 × 2",
    ),
    "not finite": ({"feedforwardCommand": [float("inf")]}, "NaN or infinity"),
    "no such DOF": ({"feedforwardCommand": [1.0], "dofIndices": [2]}, "dof_indices: .*from 0 to 1"),
    "a DOF twice": ({"feedforwardCommand": [1.0, 2.0], "dofIndices": [1, 1]}, "dof_indices: got 1 more than once"),
    "no such robot": ({"feedforwardCommand": [1.0], "indices": [-1]}, "indices: .*from 0 to 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_are_logged_and_returned(arms, case):
    inputs, message = BAD[case]
    db = database(**{"robotPath": "/left"} | inputs)
    assert compute(db) is False
    assert db.outputs.execOut is None
    (logged,) = db.logged
    assert re.search(message, logged), logged


def test_after_a_bad_path_nothing_is_left_and_a_good_one_works(arms):
    db = database(robotPath="/left")
    compute(db)
    db.inputs.robotPath = "/nobody"
    assert not compute(db)
    assert db.per_instance_state.actuators is None
    assert servo_gain(arms, "left") == 7
    db.inputs.robotPath = "/left"
    assert compute(db)
    assert servo_gain(arms, "left") == 0


def test_a_bad_feedforward_changes_nothing(arms):
    db = database(robotPath="/left", autoStepPrePhysics=False, feedforwardCommand=[1.0])
    compute(db)
    actuators = db.per_instance_state.actuators
    db.inputs.feedforwardCommand = np.array([5.0, float("nan")], np.float32)
    assert not compute(db)
    assert db.per_instance_state.actuators is actuators
    actuators.step_actuators(arms.dt)
    np.testing.assert_allclose(actuators.telemetry().computed_effort, [[1, 1]], atol=1e-6)


def test_errors_that_are_not_ours_are_logged_too(arms, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("no more")

    monkeypatch.setattr(ArticulationActuators, "step_actuators", fail)
    db = database(robotPath="/left", autoStepPrePhysics=False)
    assert compute(db) is False
    assert db.logged == ["MemoryError: no more"]


def test_the_node_logs_that_there_is_no_simulation():
    db = database(robotPath="/left")
    assert compute(db) is False
    assert "there is no simulation" in db.logged[0]


def test_actuators_are_rebuilt_on_another_simulation(arms):
    db = database(robotPath="/left")
    compute(db)
    first = db.per_instance_state.actuators
    with MujocoSimulation(arms.source) as newer:
        assert compute(db)
        assert db.per_instance_state.actuators.articulation.simulation is newer
        with pytest.raises(SimulationError, match="closed"):
            first.step_actuators(0.002)
        assert servo_gain(arms, "left") == 7
    assert compute(db)
    assert db.per_instance_state.actuators.articulation.simulation is arms
    arms.close()
    assert compute(db) is False
    assert "there is no simulation" in db.logged[-1]


def test_actuators_are_released_with_their_graph(arms):
    for release in (
        lambda db: OgnArticulationActuators.release_instance(db.node, 7),
        lambda db: OgnArticulationActuators.release(db.node),
    ):
        db = database(robotPath="/left")
        compute(db)
        OgnArticulationActuators.release_instance(db.node, "another instance")
        OgnArticulationActuators.release(OmniGraphNode(number=2))
        assert servo_gain(arms, "left") == 0
        release(db)
        assert db.per_instance_state.actuators is None
        assert servo_gain(arms, "left") == 7
        release(db)
    OgnArticulationActuators.release(OmniGraphNode(number=3))


def test_actuators_are_released_when_nobody_holds_the_node(arms):
    db = database(robotPath="/left")
    compute(db)
    del db
    gc.collect()
    assert servo_gain(arms, "left") == 7


def test_in_omnigraph_it_uses_omnigraphs_own_value(arms, monkeypatch):
    enabled = object()
    og = SimpleNamespace(ExecutionAttributeState=SimpleNamespace(ENABLED=enabled))
    monkeypatch.setitem(sys.modules, "omni.graph.core", og)
    db = database(robotPath="/left")
    compute(db)
    assert db.outputs.execOut is enabled


def test_older_omnigraph_calls_the_state_by_another_name(arms):
    db = database(robotPath="/left")
    db.internal_state = db.per_instance_state
    del db.per_instance_state
    assert compute(db)
    assert db.internal_state.actuators is not None
