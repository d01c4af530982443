# SPDX-License-Identifier: Apache-2.0
"""A PyTorch network that a file names is not loaded unless the caller says so, whatever way it comes in."""

from __future__ import annotations

import numpy as np
import pytest
from pxr import Usd

import actuon
from actuon.declare.registry import temporary_registrations
from actuon.graph import GraphRunner
from actuon.robot_files.usd.author import author_file
from tests.support.command_line import outcome
from tests.support.robot_files import robot, save_robot

torch = pytest.importorskip("torch")
REFUSED = r"'.*net\.pt' is a PyTorch file.*allow_unsafe_torch_checkpoints=True.*--allow-torch"
MJCF = """<mujoco><worldbody><body name="robot">
  <joint name="knee" type="hinge"/><geom size="0.1"/>
</body></worldbody></mujoco>"""
YAML = "actuators: {knee: {joints: knee, controller: {type: neural, model_path: net.pt}}}"
GRAPH = """#usda 1.0
def OmniGraph "Graph"
{
    def OmniGraphNode "tick"
    {
        token node:type = "omni.graph.action.OnTick"
    }
    def OmniGraphNode "actuators"
    {
        token node:type = "actuon.graph.ArticulationActuators"
        string inputs:robotPath = "/robot"
        uint inputs:execIn.connect = </Graph/tick.outputs:tick>
    }
}
"""


@pytest.fixture
def folder(tmp_path):
    """A robot in USD with a network, the same in MJCF with a YAML beside it, and one in USD with a YAML beside it."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 1))
    actuon.save_network(module, tmp_path / "net.pt", model_type="mlp")
    stage = robot(Usd.Stage.CreateNew(str(tmp_path / "robot.usda")))
    actuon.add_actuator("/Robot", "knee", "knee", actuon.NeuralControlConfig(tmp_path / "net.pt"), stage=stage)
    stage.GetRootLayer().Save()
    save_robot(tmp_path / "plain.usda")
    for name, text in (("m.xml", MJCF), ("m.actuon.yaml", YAML), ("plain.actuon.yaml", YAML)):
        (tmp_path / name).write_text(text)
    return tmp_path


def refused():
    return pytest.raises(actuon.RobotFileError, match=REFUSED)


@pytest.mark.parametrize("read", [actuon.parse_actuators, actuon.export_actuators])
def test_usd(read, folder):
    with refused():
        read(folder / "robot.usda")
    (found,) = read(folder / "robot.usda", allow_unsafe_torch_checkpoints=True)
    config = found.config if read is actuon.parse_actuators else found.actuator
    assert config.controller == actuon.NeuralControlConfig(folder / "net.pt")


def test_inspecting_usd(folder):
    (problem,) = actuon.inspect_actuators(folder / "robot.usda").problems
    assert "is a PyTorch file" in problem
    assert actuon.inspect_actuators(folder / "robot.usda", allow_unsafe_torch_checkpoints=True).problems == []


def test_yaml(folder):
    with refused() as caught:
        actuon.load_actuators(folder / "m.actuon.yaml")
    assert "m.actuon.yaml: actuators.knee.controller: " in str(caught.value)
    (entry,) = actuon.load_actuators(folder / "m.actuon.yaml", allow_unsafe_torch_checkpoints=True)
    assert entry.actuator.controller == actuon.NeuralControlConfig(folder / "net.pt")


@pytest.mark.parametrize("path", ["net.PT", "net.pt/", "./net.pt/.", "sub/../net.pt2", "net.pth", "'net.pt '"])
def test_spellings(path, folder):
    """PyTorch files are detected as the loader detects them; the format refuses all others."""
    (folder / "a.yaml").write_text(YAML.replace("net.pt", path))
    if path == "'net.pt '":
        (entry,) = actuon.load_actuators(folder / "a.yaml")
        with pytest.raises(ValueError, match=r"has the format '\.pt '"):
            entry.actuator.controller.build()
    else:
        with pytest.raises(actuon.RobotFileError, match="is a PyTorch file"):
            actuon.load_actuators(folder / "a.yaml")


def test_yaml_beside_mjcf(folder):
    with actuon.MujocoSimulation(folder / "m.xml"):
        with refused():
            actuon.ArticulationActuators("/robot")
        with actuon.ArticulationActuators("/robot", allow_unsafe_torch_checkpoints=True) as actuators:
            assert list(actuators.configs) == ["knee"]


@pytest.mark.parametrize("name", ["robot.usda", "plain.usda"])
def test_usd_and_yaml_beside_usd_in_newton(name, folder):
    pytest.importorskip("newton")
    with actuon.NewtonSimulation(folder / name):
        with refused():
            actuon.ArticulationActuators("/Robot")
        with actuon.ArticulationActuators("/Robot", allow_unsafe_torch_checkpoints=True) as actuators:
            assert list(actuators.configs) == ["knee"]


def test_authoring_a_file(folder):
    arguments = (folder / "plain.usda", folder / "m.actuon.yaml", folder / "out.usda")
    with refused():
        author_file(*arguments)
    assert not (folder / "out.usda").exists()
    assert author_file(*arguments, allow_unsafe_torch_checkpoints=True) == ["/Robot/Actuators/knee"]


def test_building_newton_models(folder):
    pytest.importorskip("newton")
    from actuon.newton import ModelBuilder

    with refused():
        ModelBuilder().add_usd(str(folder / "robot.usda"))
    found = ModelBuilder().add_usd(str(folder / "robot.usda"), allow_unsafe_torch_checkpoints=True)
    assert found["actuator_count"] == 1


def test_graph_node(folder):
    """The runner's caller decides, not the stage: whoever made the stage chose the robot and its network."""
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(GRAPH)
    with actuon.MujocoSimulation(folder / "m.xml"):
        with GraphRunner(stage) as runner:
            assert not runner.tick()
            assert "is a PyTorch file" in runner.errors["/Graph/actuators"]
        with GraphRunner(stage, allow_unsafe_torch_checkpoints=True) as runner:
            assert runner.tick(), runner.errors


@pytest.fixture
def clean_registry():
    with temporary_registrations():
        yield


@pytest.mark.usefixtures("clean_registry")
def test_classes_registered_without_a_config(folder):
    """No declaration says which of their parameters is a file, so that any text may be."""
    actuon.register_actuator_component("MyAPI", actuon.ControllerNeuralMLP, actuon.ComponentKind.CONTROLLER)
    for kind, value in (("asset", "@./net.pt@"), ("string", f'"{folder}/net.pt"'), ("asset[]", "[@./net.pt@]")):
        (folder / "own.usda").write_text(f"""#usda 1.0
        def "Robot" {{
            def PhysicsRevoluteJoint "knee" {{}}
            def NewtonActuator "a" (prepend apiSchemas = ["MyAPI"]) {{
                rel newton:targets = </Robot/knee>
                {kind} newton:modelPath = {value}
            }}
        }}""")
        stage = Usd.Stage.Open(str(folder / "own.usda"))
        stage.Reload()
        with refused():
            actuon.parse_actuators(stage)
        if kind == "asset":
            (parsed,) = actuon.parse_actuators(stage, allow_unsafe_torch_checkpoints=True)
            assert parsed.controller_kwargs == {"model_path": str(folder / "net.pt")}


def test_code_needs_no_permission(folder):
    config = actuon.NeuralControlConfig(folder / "net.pt")
    assert isinstance(config.build(), actuon.ControllerNeuralMLP)
    with actuon.MujocoSimulation(folder / "m.xml"):
        pairs = [(actuon.ActuatorConfig(config), "knee")]
        with actuon.ArticulationActuators.from_actuators("/robot", pairs) as actuators:
            actuators.step_actuators(0.01)
            assert np.isfinite(actuators.telemetry().applied_effort).all()


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "robot.usda"),
        ("inspect", "m.actuon.yaml"),
        ("export", "robot.usda", "-o", "out.yaml"),
        ("author", "plain.usda", "m.actuon.yaml", "-o", "out.usda"),
        ("run", "m.xml", "--seconds", "0.01"),
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[1]}",
)
def test_commands(arguments, folder, monkeypatch):
    pytest.importorskip("cyclopts")
    monkeypatch.chdir(folder)
    for allow, code in ((), 1 if "robot.usda" in arguments and "inspect" in arguments else 2), (("--allow-torch",), 0):
        ended, *printed = outcome(*arguments, *allow)
        assert ended == code, printed
        assert ("is a PyTorch file" in " ".join("".join(printed).split())) == (not allow)
