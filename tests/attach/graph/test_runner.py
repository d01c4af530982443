# SPDX-License-Identifier: Apache-2.0
"""Action graphs in a USD stage, run here."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from pxr import Sdf, Usd, UsdGeom

import actuon
from actuon import ArticulationActuators, MujocoSimulation, NewtonSimulation
from actuon.errors import RobotFileError, SimulationError, StructureError
from actuon.graph import NODE_TYPES, GraphRunner
from tests.support.action_graphs import NODE, PHYSICS, TICK, actuators_of, driven, graph, servo_gain, set_input

ASSETS = actuon.assets.FOLDER


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
    """The file asks for 2 N·m on the four hips, stepped before each physics step."""
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


def test_a_runner_may_be_closed_after_its_simulation(arms):
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
    """Return the records of a `Note` in a number of ticks and steps, and the runner's errors."""
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
def test_a_constant_gives_its_value(arms, kind, value):
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


def test_constants_are_put_together_as_an_array(arms):
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


def test_triggers_give_frames_and_times(arms):
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


def test_a_value_of_a_node_that_has_not_run_is_an_error(arms):
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


START = {"start": (TICK, {})}
WIRE = ("start.outputs:tick", "actuators.inputs:execIn")
ONE = START | {"actuators": (NODE, {"robotPath": "/left"})}
UNREADABLE = {
    "unknown type": ({"start": ("omni.graph.action.OnTik", {})}, [], "OnTik' is not known here.*Did you mean 'omni"),
    "no type": ({"start": ("", {})}, [], "/ActionGraph/start: it has no node:type; node types: actuon.graph"),
    "unknown input": (START | {"actuators": (NODE, {"robotPth": "/left"})}, [WIRE], "Did you mean 'robotPath'"),
    "no pulse": (ONE, [], "/ActionGraph/actuators: inputs:execIn is not connected, so the node never runs"),
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
def test_graphs_that_cannot_be_run_are_refused(arms, case):
    nodes, connections, message = UNREADABLE[case]
    with pytest.raises(RobotFileError, match=message):
        GraphRunner(graph(nodes, connections))


def test_the_graph_to_run_must_be_one_that_the_stage_has(arms, tmp_path):
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


ISAAC_NODE = "isaacsim.core.experimental.actuators.ArticulationActuators"
CONTROLLER = "isaacsim.core.nodes.IsaacArticulationController"


def commanded(**inputs):
    """A graph in which a tick commands joints."""
    nodes = {"start": (TICK, {}), "controller": (CONTROLLER, inputs)}
    return graph(nodes, [("start.outputs:tick", "controller.inputs:execIn")])


def test_a_graph_made_for_isaac_sim_runs(arms):
    """Constants into an array of targets, a node that sets them, and the actuators that follow them."""
    nodes = {
        "tick": ("omni.graph.action.OnPlaybackTick", {}),
        "path": ("omni.graph.nodes.ConstantString", {"value": "/left"}),
        "pose0": ("omni.graph.nodes.ConstantDouble", {"value": 0.4}),
        "pose1": ("omni.graph.nodes.ConstantDouble", {"value": -0.05}),
        "targets": (
            "omni.graph.nodes.ConstructArray",
            {"arraySize": 2, "arrayType": "double[]", "input0": 0.0, "input1": 0.0},
        ),
        "actuators": (ISAAC_NODE, {"robotPath": ""}),
        "controller": (CONTROLLER, {"robotPath": "", "positionCommand": [0.0]}),
    }
    connections = [
        ("tick.outputs:tick", "actuators.inputs:execIn"),
        ("tick.outputs:tick", "controller.inputs:execIn"),
        ("path.inputs:value", "actuators.inputs:robotPath"),
        ("path.inputs:value", "controller.inputs:robotPath"),
        ("pose0.inputs:value", "targets.inputs:input0"),
        ("pose1.inputs:value", "targets.inputs:input1"),
        ("targets.outputs:array", "controller.inputs:positionCommand"),
    ]
    with GraphRunner(graph(nodes, connections)) as runner:
        assert runner.tick()
        left = actuon.Articulation("/left")
        np.testing.assert_allclose(left.get_dof_position_targets().numpy(), [[0.4, -0.05]], rtol=1e-6)
        arms.step()
        expected = 30.0 * (np.array([[0.4, -0.05]]) - 0.0)
        np.testing.assert_allclose(actuators_of(runner).telemetry().computed_effort, expected, rtol=1e-5)
        set_input(runner.stage, "value", -0.2, node="pose0")
        assert runner.tick()
        assert left.get_dof_position_targets().numpy()[0, 0] == pytest.approx(-0.2)


def test_the_node_of_isaac_sim_has_its_step_and_category(arms, tmp_path):
    theirs, ours = NODE_TYPES[ISAAC_NODE].OGN, NODE_TYPES[NODE].OGN
    assert theirs["inputs"]["stepDt"]["default"] == 0.016667
    assert ours["inputs"]["stepDt"]["default"] == 0.0
    assert theirs["categories"] == ours["categories"] == {"newtonActuators": "Newton Actuators"}
    assert {name: port["type"] for name, port in theirs["inputs"].items()} == {
        name: port["type"] for name, port in ours["inputs"].items()
    }
    integral = "{type: pid, kp: 0.0, ki: 100.0, kd: 0.0}"
    (tmp_path / "arms.actuon.yaml").write_text(f"actuators: {{all: {{joints: '.*', controller: {integral}}}}}")
    actuon.Articulation("/left").set_dof_position_targets(1.0)
    stage = driven(TICK, "tick", robotPath="/left", autoStepPrePhysics=False)
    stage.GetPrimAtPath("/ActionGraph/actuators").GetAttribute("node:type").Set(ISAAC_NODE)
    with GraphRunner(stage) as runner:
        assert runner.tick()
        np.testing.assert_allclose(actuators_of(runner).telemetry().computed_effort, 1.6667, rtol=1e-5)


def test_joints_are_commanded_by_name_by_index_or_all(arms):
    left, right = actuon.Articulation("/left"), actuon.Articulation("/right")
    with GraphRunner(
        commanded(robotPath="/right", jointNames=["right_slide"], velocityCommand=[0.3], effortCommand=[2.0])
    ) as runner:
        assert runner.tick()
        np.testing.assert_allclose(right.get_dof_velocity_targets().numpy(), [[0.0, 0.3]])
        np.testing.assert_allclose(right.get_dof_efforts().numpy(), [[0.0, 2.0]])
    with GraphRunner(commanded(robotPath="/right", jointIndices=[0], positionCommand=[0.5])) as runner:
        assert runner.tick()
        np.testing.assert_allclose(right.get_dof_position_targets().numpy(), [[0.5, 0.0]])
    stage = commanded(positionCommand=[float("nan"), 0.1])
    stage.GetPrimAtPath("/ActionGraph/controller").CreateRelationship("inputs:targetPrim").SetTargets(["/right"])
    with GraphRunner(stage) as runner:
        assert runner.tick()
        np.testing.assert_allclose(right.get_dof_position_targets().numpy(), [[0.5, 0.1]])
    assert not left.get_dof_position_targets().numpy().any()
    assert not left.get_dof_efforts().numpy().any()


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        ({"positionCommand": [1.0]}, "neither robotPath nor targetPrim"),
        ({"robotPath": "/nobody", "positionCommand": [1.0]}, "there is no robot at '/nobody'"),
        ({"robotPath": "/left", "positionCommand": [1.0, 2.0], "effortCommand": [1.0]}, "effortCommand: got 1 values"),
        ({"robotPath": "/left", "jointNames": ["elbow"], "positionCommand": [1.0]}, "has no DOF 'elbow'"),
        ({"robotPath": "/left", "jointIndices": [0, 0], "positionCommand": [1.0, 2.0]}, "0 more than once"),
        (
            {"robotPath": "/left", "positionCommand": [1.0, 1.0], "effortCommand": [1.0, float("inf")]},
            "effortCommand: got NaN or infinity; must be finite",
        ),
    ],
)
def test_bad_commands_are_refused_whole(arms, inputs, match):
    left = actuon.Articulation("/left")
    with GraphRunner(commanded(**inputs)) as runner:
        assert not runner.tick()
        assert match in runner.errors["/ActionGraph/controller"]
        assert not left.get_dof_position_targets().numpy().any()
        assert not left.get_dof_efforts().numpy().any()


@pytest.mark.parametrize(("trigger", "output", "steps"), [(TICK, "tick", [20]), (PHYSICS, "step", [1] * 20)])
def test_a_graph_without_a_physics_step_node_leaves_steps_together(arms, monkeypatch, trigger, output, steps):
    taken, step = [], arms.engine.step
    monkeypatch.setattr(arms.engine, "step", lambda n, motors: taken.append(n) or step(n, motors))
    stage = driven(trigger, output, robotPath="/left", autoStepPrePhysics=True)
    with GraphRunner(stage) as runner:
        runner.tick()
        arms.step(20)
        assert taken == steps
        stage.RemovePrim(next(path for path in runner.nodes if path != "/ActionGraph/actuators"))
        runner.tick()
        arms.step(20)
        assert taken == [*steps, 20]
