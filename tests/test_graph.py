# SPDX-License-Identifier: Apache-2.0
"""The `ArticulationActuators` node, called as OmniGraph calls it, and graphs in a USD stage run here."""

from __future__ import annotations

import gc
import importlib.resources
import inspect
import json
import logging
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pxr import Sdf, Usd, UsdGeom

import actuon
from actuon import ArticulationActuators, MujocoSimulation, NewtonSimulation
from actuon.errors import RobotFileError, SimulationError, StructureError
from actuon.graph import NODE_TYPES, GraphRunner, OgnArticulationActuators

ASSETS = actuon.assets.FOLDER
NODE = "actuon.graph.ArticulationActuators"
PHYSICS, TICK = "isaacsim.core.nodes.OnPhysicsStep", "omni.graph.action.OnTick"
ARM = """<body name="{name}" pos="{x} 0 1"><joint name="{name}_hinge" type="hinge" axis="0 1 0"/>
<geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" mass="1"/>
<body pos="0.3 0 0"><joint name="{name}_slide" type="slide" axis="1 0 0"/>
<geom type="sphere" size="0.05" mass="0.5"/></body></body>"""
MODEL = f"""<mujoco><option timestep="0.002"/><worldbody>{ARM.format(name="left", x=0)}{ARM.format(name="right", x=2)}
</worldbody><actuator><position joint="left_hinge" kp="7"/><position joint="right_hinge" kp="7"/></actuator></mujoco>"""
ACTUATORS = """version: 1
actuators:
  all:
    joints: [".*"]
    controller: {type: pd, kp: 30.0, kd: 0.5}
"""


@pytest.fixture
def arms(tmp_path):
    """Two arms of two DOFs, driven by PD controllers, and by servos of the engine until then."""
    (tmp_path / "arms.xml").write_text(MODEL)
    (tmp_path / "arms.actuon.yaml").write_text(ACTUATORS)
    with MujocoSimulation(tmp_path / "arms.xml") as simulation:
        yield simulation


class OmniGraphNode:
    """What OmniGraph gives of a node."""

    def __init__(self, number=1, instance=7):
        self.number, self.instance = number, instance

    def node_id(self):
        return self.number

    def get_graph_instance_id(self):
        return self.instance


def database(**inputs):
    """A node's database, as OmniGraph hands it to ``compute``."""
    defaults = {name: port.get("default", 1) for name, port in OgnArticulationActuators.OGN["inputs"].items()}
    values = {k: np.array(v, np.float32 if k == "feedforwardCommand" else np.int32) if isinstance(v, list) else v
              for k, v in (defaults | inputs).items()}  # fmt: skip
    logged = []
    node = OmniGraphNode()
    return SimpleNamespace(
        inputs=SimpleNamespace(**values),
        outputs=SimpleNamespace(execOut=None),
        per_instance_state=OgnArticulationActuators.internal_state(),
        abi_node=node,
        node=node,
        logged=logged,
        log_error=logged.append,
    )


def compute(db):
    db.outputs.execOut = None
    return OgnArticulationActuators.compute(db)


def servo_gain(simulation, name):
    return simulation.models[0].actuator_gainprm[["left", "right"].index(name), 0]


def attribute_type(value):
    first = value[0] if isinstance(value, list) and value else value
    kinds = {bool: "bool", int: "int", float: "float", str: "string", list: "float"}
    return Sdf.ValueTypeNames.Find(kinds[type(first)] + "[]" * isinstance(value, list))


def graph(nodes, connections=(), path="/ActionGraph", stage=None):
    """A stage with an action graph: nodes as name → (type, inputs), connections as ("a.outputs:x", "b.inputs:y")."""
    stage = stage or Usd.Stage.CreateInMemory()
    stage.DefinePrim(path, "OmniGraph").CreateAttribute("evaluator:type", Sdf.ValueTypeNames.Token).Set("execution")
    for name, (kind, values) in nodes.items():
        prim = stage.DefinePrim(f"{path}/{name}", "OmniGraphNode")
        prim.CreateAttribute("node:type", Sdf.ValueTypeNames.Token).Set(kind)
        for key, value in values.items():
            prim.CreateAttribute(f"inputs:{key}", attribute_type(value)).Set(value)
    for source, target in connections:
        prim, name = target.split(".")
        attribute = stage.GetPrimAtPath(f"{path}/{prim}").GetAttribute(name)
        if not attribute:
            attribute = stage.GetPrimAtPath(f"{path}/{prim}").CreateAttribute(name, Sdf.ValueTypeNames.UInt)
        attribute.AddConnection(
            source if source.startswith("/") else f"{path}/{source}", Usd.ListPositionBackOfPrependList
        )
    return stage


def driven(trigger=PHYSICS, output="step", **inputs):
    """A graph with a trigger and our node."""
    return graph(
        {"start": (trigger, {}), "actuators": (NODE, inputs)}, [(f"start.outputs:{output}", "actuators.inputs:execIn")]
    )


def actuators_of(runner):
    return runner.nodes["/ActionGraph/actuators"].state.actuators


def set_input(stage, name, value, node="actuators"):
    stage.GetPrimAtPath(f"/ActionGraph/{node}").GetAttribute(f"inputs:{name}").Set(value)


# The description


def test_description_is_that_of_the_node():
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
    assert ogn["categories"]
    assert "state" in ogn
    assert all(port["description"] for port in (ogn, *ogn["inputs"].values(), *ogn["outputs"].values()))


def test_omnigraph_finds_its_entries():
    """It imports the file beside the description, and calls these of the class of the same name without an instance."""
    source = Path(inspect.getfile(OgnArticulationActuators))
    assert source.stem == OgnArticulationActuators.__name__
    assert source.with_suffix(".ogn").is_file()
    for name in ("compute", "internal_state", "release", "release_instance"):
        assert isinstance(inspect.getattr_static(OgnArticulationActuators, name), staticmethod)
    assert list(inspect.signature(OgnArticulationActuators.compute).parameters) == ["db"]
    assert "omni" not in sys.modules


# compute(db)


def test_is_built_on_the_first_pulse_and_kept(arms):
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


def test_is_rebuilt_when_the_path_changes(arms):
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
    "no regex": ({"robotPath": "(("}, "no regex"),
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


def test_without_a_simulation_it_says_so():
    db = database(robotPath="/left")
    assert compute(db) is False
    assert "there is no simulation" in db.logged[0]


def test_is_rebuilt_on_another_simulation(arms):
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


def test_is_released_with_its_graph(arms):
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


def test_is_released_when_nobody_holds_it(arms):
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


# Graphs in a stage


def trajectory(make, steps=60):
    """Positions of a quadruped after each step, that starts with its legs pulled in."""
    with MujocoSimulation(ASSETS / "quadruped.xml") as simulation:
        robot = actuon.Articulation("/base")
        robot.set_dof_position_targets(robot.get_dof_positions().numpy() + 0.2)
        kept = make(simulation)
        rows = []
        for _ in range(steps):
            simulation.step()
            rows.append(simulation.data[0].qpos.copy())
        assert not getattr(kept, "errors", None)
        return np.array(rows)


def test_steps_of_a_graph_equal_auto_stepping_bit_for_bit():
    """The pulse comes before the engine advances, also the first, which builds the actuators."""

    def by_hand(simulation):
        actuators = ArticulationActuators("/base")
        actuators.set_dof_feedforward_effort_targets([1.0, -2.0], dof_indices=[1, 5])
        return actuators

    inputs = {"robotPath": "/base", "feedforwardCommand": [1.0, -2.0], "dofIndices": [1, 5]}
    expected = trajectory(by_hand)
    for auto in (True, False):
        stage = driven(autoStepPrePhysics=auto, **inputs)
        np.testing.assert_array_equal(trajectory(lambda _, stage=stage: GraphRunner(stage)), expected)
    assert (trajectory(lambda _: ArticulationActuators("/base")) != expected).any()


def test_example_graph_runs_in_newton():
    """As the file says: 2 N·m on the four hips, stepped before each step of physics."""
    with NewtonSimulation(ASSETS / "quadruped.usda") as simulation:
        actuators = ArticulationActuators("/Quadruped")
        actuators.set_dof_feedforward_effort_targets(2.0, dof_indices=[0, 3, 6, 9])
        simulation.step(50)
        expected = simulation.state.joint_q.numpy()
        wanted = actuators.telemetry().computed_effort
    with NewtonSimulation(ASSETS / "quadruped_graph.usda") as simulation, GraphRunner(simulation.stage) as runner:
        simulation.step(50)
        assert runner.errors == {}
        np.testing.assert_array_equal(simulation.state.joint_q.numpy(), expected)
        np.testing.assert_array_equal(actuators_of(runner).telemetry().computed_effort, wanted)


@pytest.mark.parametrize("trigger", [TICK, "omni.graph.action.OnPlaybackTick"])
def test_ticks_start_a_graph(arms, trigger):
    with GraphRunner(driven(trigger, "tick", robotPath="/left", autoStepPrePhysics=True)) as runner:
        arms.step(2)
        assert actuators_of(runner) is None
        assert runner.tick() is True
        assert actuators_of(runner) is not None
        assert not actuators_of(runner).telemetry().computed_effort.any()
        arms.step()
        arms.step()
        assert actuators_of(runner).telemetry().computed_effort.any()


def test_a_stop_keeps_node_and_setting(arms):
    with GraphRunner(driven(TICK, "tick", robotPath="/left")) as runner:
        runner.tick()
        kept = actuators_of(runner)
        arms.step(3)
        arms.stop()
        arms.step(3)
        assert actuators_of(runner) is kept
        before = kept.telemetry().computed_effort
        arms.step()
        assert (kept.telemetry().computed_effort != before).all()


def test_edits_of_the_stage_take_effect_at_the_next_pulse(arms):
    stage = driven(robotPath="/left", autoStepPrePhysics=True, feedforwardCommand=[1.0])
    with GraphRunner(stage) as runner:
        arms.step()
        first = actuators_of(runner)
        np.testing.assert_allclose(first.telemetry().computed_effort, [[1, 1]], atol=1e-5)
        set_input(stage, "feedforwardCommand", [4.0])
        set_input(stage, "robotPath", "/right")
        arms.step()
        assert actuators_of(runner) is not first
        np.testing.assert_allclose(actuators_of(runner).telemetry().computed_effort, [[4, 4]], atol=0.1)
        assert servo_gain(arms, "left") == 7


def test_a_runner_keeps_to_its_simulation(arms):
    stage = driven(robotPath="/left")
    with MujocoSimulation(arms.source) as newer, GraphRunner(stage, simulation=arms) as runner:
        newer.step()
        assert actuators_of(runner) is None
        arms.step()
        assert actuators_of(runner).articulation.simulation is arms


def test_close_releases_the_nodes(arms):
    runner = GraphRunner(driven(robotPath="/left"))
    arms.step()
    assert servo_gain(arms, "left") == 0
    runner.close()
    assert servo_gain(arms, "left") == 7
    arms.step()
    assert actuators_of(runner) is None
    runner.close()
    with pytest.raises(SimulationError, match="runner of /ActionGraph is closed"):
        runner.tick()


@pytest.mark.parametrize("removed", ["/ActionGraph", "/ActionGraph/actuators"])
def test_what_is_taken_off_the_stage_is_released(arms, removed):
    stage = driven(robotPath="/left")
    with GraphRunner(stage) as runner:
        arms.step()
        assert servo_gain(arms, "left") == 0
        stage.RemovePrim(removed)
        arms.step()
        assert servo_gain(arms, "left") == 7
        assert runner.errors == {}
        assert "/ActionGraph/actuators" not in runner.nodes


def test_close_after_the_simulation(arms):
    runner = GraphRunner(driven(TICK, "tick", robotPath="/left"))
    runner.tick()
    arms.close()
    with pytest.raises(SimulationError, match="make another GraphRunner"):
        runner.tick()
    runner.close()
    with pytest.raises(SimulationError, match="the simulation is closed"):
        GraphRunner(runner.stage, simulation=arms)
    with pytest.raises(SimulationError, match="there is no simulation"):
        GraphRunner(runner.stage)


def test_a_node_that_fails_is_logged_once_and_the_rest_goes_on(arms, caplog):
    stage = graph(
        {"start": (PHYSICS, {}), "bad": (NODE, {"robotPath": "/lefft"}), "after": (NODE, {"robotPath": "/left"}),
         "other": (NODE, {"robotPath": "/right"})},
        [("start.outputs:step", "bad.inputs:execIn"), ("bad.outputs:execOut", "after.inputs:execIn"),
         ("start.outputs:step", "other.inputs:execIn")],
    )  # fmt: skip
    with caplog.at_level(logging.ERROR, "actuon.graph"), GraphRunner(stage) as runner:
        arms.step(5)
        assert list(runner.errors) == ["/ActionGraph/bad"]
        (record,) = caplog.records
        assert record.getMessage().startswith("/ActionGraph/bad: there is no robot at '/lefft'")
        assert runner.nodes["/ActionGraph/after"].state.actuators is None
        assert runner.nodes["/ActionGraph/other"].state.actuators is not None
        set_input(stage, "robotPath", "/right", "other")
        stage.GetPrimAtPath("/ActionGraph/bad").GetAttribute("inputs:robotPath").Set("/left")
        arms.step()
        assert list(runner.errors) == ["/ActionGraph/after"]  # it runs now, and finds that a joint has one owner


def test_tick_returns_whether_all_went_well(arms):
    stage = driven(TICK, "tick", robotPath="/lefft")
    with GraphRunner(stage) as runner:
        assert runner.tick() is False
        set_input(stage, "robotPath", "/left")
        assert runner.tick() is True


class Note:
    """A node type of our own: writes down what it gets."""

    OGN = {  # noqa: RUF012
        "inputs": {"execIn": {"type": "execution"}, "value": {"type": "any"}, "more": {"type": "int", "default": 5}},
        "outputs": {"execOut": {"type": "execution"}, "last": {"type": "any"}},
    }
    seen = []  # noqa: RUF012

    @staticmethod
    def compute(db):
        if str(db.inputs.value) == "raise":
            raise KeyError("gone")
        if str(db.inputs.value) == "fail":
            return False
        db.log_info("noted")
        db.log_warning("noted")
        Note.seen.append((db.inputs.value, db.inputs.more))
        db.outputs.last = db.inputs.value
        db.outputs.execOut = 1
        return True


def noted(nodes, connections, runs=1):
    """What a `Note` saw in a number of ticks and steps, and the runner's errors."""
    Note.seen.clear()
    stage = graph(nodes | {"note": ("test.Note", nodes.get("note", {}))}, connections)
    runner = GraphRunner(stage, node_types=NODE_TYPES | {"test.Note": Note})
    for _ in range(runs):
        runner.tick()
        runner.simulation.step()
    runner.close()
    return list(Note.seen), dict(runner.errors)


def test_node_types_of_ones_own(arms):
    start = ("start.outputs:tick", "note.inputs:execIn")
    assert noted({"start": (TICK, {}), "note": {"value": 3}}, [start], runs=2)[0] == [(3, 5)] * 2
    seen, errors = noted({"start": (TICK, {}), "note": {"value": "raise"}}, [start])
    assert seen == []
    assert errors == {"/ActionGraph/note": "KeyError: 'gone'"}
    _, errors = noted({"start": (TICK, {}), "note": {"value": "fail"}}, [start])
    assert errors == {"/ActionGraph/note": "it failed without saying why"}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("Bool", True), ("Int", 3), ("Float", 0.5), ("Double", 0.25), ("String", "/left"), ("Token", "left")],
)
def test_constants(arms, kind, value):
    nodes = {"start": (TICK, {}), "constant": (f"omni.graph.nodes.Constant{kind}", {"value": value})}
    connections = [("start.outputs:tick", "note.inputs:execIn"), ("constant.inputs:value", "note.inputs:value")]
    ((seen, _),), errors = noted(nodes, connections)
    assert seen == value
    assert type(seen) is type(value)
    assert errors == {}


def test_a_constant_without_a_value_has_that_of_its_type(arms):
    stage = driven(TICK, "tick", robotPath="/left", autoStepPrePhysics=True)
    prim = stage.DefinePrim("/ActionGraph/no", "OmniGraphNode")
    prim.CreateAttribute("node:type", Sdf.ValueTypeNames.Token).Set("omni.graph.nodes.ConstantBool")
    prim.CreateAttribute("inputs:value", Sdf.ValueTypeNames.Bool)
    auto = stage.GetPrimAtPath("/ActionGraph/actuators").GetAttribute("inputs:autoStepPrePhysics")
    auto.AddConnection("/ActionGraph/no.inputs:value")
    with GraphRunner(stage) as runner:
        runner.tick()
        arms.step(2)
        assert not actuators_of(runner).telemetry().computed_effort.any()


def test_arrays_of_constants(arms):
    def array(size, **inputs):
        nodes = {"start": (TICK, {}), "two": ("omni.graph.nodes.ConstantInt", {"value": 2}),
                 "array": ("omni.graph.nodes.ConstructArray", {"arraySize": size, **inputs})}  # fmt: skip
        connections = [("start.outputs:tick", "note.inputs:execIn"), ("array.outputs:array", "note.inputs:value")]
        if "input0" in inputs:
            connections.append(("two.inputs:value", "array.inputs:input0"))
        seen, errors = noted(nodes, connections)
        return seen[0][0].tolist() if seen else errors

    assert array(2, input0=0, input1=7) == [2, 7]
    assert array(4, input1=7, input0=0) == [2, 7, 7, 7]
    assert array(1, input0=0, input1=7) == [2]
    assert array(0) == []
    errors = array(1)
    assert errors["/ActionGraph/array"] == "inputs:arraySize: got 1, but there is no inputs:input0"
    assert "needs outputs:array of /ActionGraph/array, which failed" in errors["/ActionGraph/note"]


def test_triggers_say_when(arms):
    def seen(trigger, pulse, output, runs=3, **inputs):
        nodes = {"start": (trigger, inputs)}
        connections = [
            (f"start.outputs:{pulse}", "note.inputs:execIn"),
            (f"start.outputs:{output}", "note.inputs:value"),
        ]
        values, errors = noted(nodes, connections, runs)
        assert errors == {}
        return [value for value, _ in values]

    playback = "omni.graph.action.OnPlaybackTick"
    assert seen(playback, "tick", "frame") == [0.0, 1.0, 2.0]
    assert seen(TICK, "tick", "frame", runs=5, framePeriod=1) == [0.0, 2.0, 4.0]
    assert seen(PHYSICS, "step", "deltaSimulationTime") == [0.002] * 3
    assert all(value > 0 for value in seen(PHYSICS, "step", "deltaSystemTime"))
    assert seen(TICK, "tick", "isPlaying", runs=1) == [True]
    arms.reset()
    np.testing.assert_allclose(seen(playback, "tick", "time"), [0.0, 0.002, 0.004])
    np.testing.assert_allclose(seen(TICK, "tick", "deltaSeconds"), [0.0, 0.002, 0.002])


def test_a_value_of_a_node_that_has_not_run(arms):
    nodes = {"start": (TICK, {}), "physics": (PHYSICS, {})}
    connections = [
        ("start.outputs:tick", "note.inputs:execIn"),
        ("physics.outputs:deltaSimulationTime", "note.inputs:value"),
    ]
    seen, errors = noted(nodes, connections, runs=2)
    assert seen == [(0.002, 5)]
    assert errors == {}
    seen, errors = noted(nodes, connections)
    assert seen == []
    assert "needs outputs:deltaSimulationTime of /ActionGraph/physics, which has not run yet" in str(errors)


# Graphs that cannot be run

START = {"start": (TICK, {})}
WIRE = ("start.outputs:tick", "actuators.inputs:execIn")
ONE = START | {"actuators": (NODE, {"robotPath": "/left"})}
UNREADABLE = {
    "unknown type": ({"start": ("omni.graph.action.OnTik", {})}, [], "OnTik' is not known here.*Did you mean 'omni"),
    "no type": ({"start": ("", {})}, [], "/ActionGraph/start: it has no node:type; node types: actuon.graph"),
    "unknown input": (START | {"actuators": (NODE, {"robotPth": "/left"})}, [WIRE], "Did you mean 'robotPath'"),
    "no pulse": (ONE, [], "/ActionGraph/actuators: nothing is connected to inputs:execIn"),
    "no such node": (
        ONE,
        [("strt.outputs:tick", "actuators.inputs:execIn")],
        "inputs:execIn: it is connected to </ActionGraph/strt.outputs:tick>.*Did you mean '/ActionGraph/start'",
    ),
    "outside": (ONE, [("/World.outputs:tick", "actuators.inputs:execIn")], "</World.outputs:tick>, but there is no"),
    "no such output": (
        ONE,
        [("start.outputs:tock", "actuators.inputs:execIn")],
        "no such attribute; attributes: outputs:tick.*Did you mean 'outputs:tick'",
    ),
    "value as pulse": (ONE, [("start.outputs:time", "actuators.inputs:execIn")], "a value; must be an execution"),
    "pulse as value": (
        ONE,
        [WIRE, ("start.outputs:tick", "actuators.inputs:robotPath")],
        "an execution output; must be a value",
    ),
    "two values": (
        ONE | {"a": ("omni.graph.nodes.ConstantString", {}), "b": ("omni.graph.nodes.ConstantString", {})},
        [WIRE, ("a.inputs:value", "actuators.inputs:robotPath"), ("b.inputs:value", "actuators.inputs:robotPath")],
        "inputs:robotPath: it has 2 connections; must have one",
    ),
    "circle of pulses": (
        ONE | {"b": (NODE, {})},
        [WIRE, ("b.outputs:execOut", "actuators.inputs:execIn"), ("actuators.outputs:execOut", "b.inputs:execIn")],
        "a circle: /ActionGraph/actuators ← /ActionGraph/b ← /ActionGraph/actuators",
    ),
    "circle of values": (
        {"a": ("omni.graph.nodes.ConstantInt", {"value": 1}), "b": ("omni.graph.nodes.ConstantInt", {"value": 1})},
        [("a.inputs:value", "b.inputs:value"), ("b.inputs:value", "a.inputs:value")],
        "lead in a circle",
    ),
    "empty": ({}, [], "/ActionGraph: it has no nodes"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_graphs_that_cannot_be_run(arms, case):
    nodes, connections, message = UNREADABLE[case]
    with pytest.raises(RobotFileError, match=message):
        GraphRunner(graph(nodes, connections))


def test_which_graph(arms, tmp_path):
    with pytest.raises(RobotFileError, match="has no graph; must have a prim of type OmniGraph"):
        GraphRunner(Usd.Stage.CreateInMemory())
    stage = graph(START, path="/One")
    graph(START, path="/World/Two", stage=stage)
    with pytest.raises(RobotFileError, match="has 2 graphs; name one with graph_path: /One, /World/Two"):
        GraphRunner(stage)
    assert repr(GraphRunner(stage, "/World/Two")) == "<GraphRunner of /World/Two: 1 nodes>"
    UsdGeom.Xform.Define(stage, "/Thing")
    with pytest.raises(RobotFileError, match="'/Thing' is a Xform; must be an OmniGraph; graphs: /One, /World/Two"):
        GraphRunner(stage, "/Thing")
    with pytest.raises(RobotFileError, match="no prim '/Three'"):
        GraphRunner(stage, "/Three")
    stage.GetPrimAtPath("/One").GetAttribute("evaluator:type").Set("push")
    with pytest.raises(RobotFileError, match="evaluator:type: got 'push'; must be 'execution'"):
        GraphRunner(stage, "/One")
    with pytest.raises(RobotFileError, match="stage: got 3"):
        GraphRunner(3)
    with pytest.raises(RobotFileError, match="does not exist"):
        GraphRunner(tmp_path / "none.usda")
    stage.GetRootLayer().Export(str(tmp_path / "graphs.usda"))
    assert GraphRunner(tmp_path / "graphs.usda", "/World/Two").graph_path == "/World/Two"


def test_a_node_type_must_be_a_class_that_computes(arms):
    with pytest.raises(StructureError, match="node type 'test.Note': got .*; must be a class with OGN and compute"):
        GraphRunner(graph({"note": ("test.Note", {})}), node_types={"test.Note": object})
