# SPDX-License-Identifier: Apache-2.0
"""Networks that travel beside a robot's USD file."""

from __future__ import annotations

import shutil

import pytest
from pxr import Usd

import actuon
from tests.support.paths import DATA
from tests.support.robot_files import robot

torch = pytest.importorskip("torch")
CHECKPOINTS = DATA / "networks"
real = pytest.mark.skipif(not CHECKPOINTS.exists(), reason="the published networks are not here")


def network(path, **metadata):
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    actuon.save_network(module, path, **metadata)
    return path


def with_network(folder, model_path, name="robot.usda"):
    stage = robot(Usd.Stage.CreateNew(str(folder / name)))
    prim = actuon.add_actuator("/Robot", "knee", "knee", actuon.NeuralControlConfig(model_path), stage=stage)
    stage.GetRootLayer().Save()
    return stage, prim


@pytest.mark.parametrize("where", [".", "networks"])
def test_a_network_beside_the_asset_is_stored_relative_and_travels(where, tmp_path):
    folder = tmp_path / "here"
    (folder / where).mkdir(parents=True)
    path = network(folder / where / "knee.onnx")
    _, prim = with_network(folder, path)
    stored = prim.GetAttribute("newton:modelPath").Get().path
    assert stored == ("./knee.onnx" if where == "." else "./networks/knee.onnx")
    (parsed,) = actuon.parse_actuators(folder / "robot.usda")
    assert parsed.controller_class is actuon.ControllerNeuralMLP
    assert parsed.config == actuon.ActuatorConfig(actuon.NeuralControlConfig(path))
    shutil.move(folder, tmp_path / "there")
    (parsed,) = actuon.parse_actuators(tmp_path / "there" / "robot.usda")
    assert parsed.controller_kwargs["model_path"] == str(tmp_path / "there" / where / "knee.onnx")
    assert isinstance(parsed.config.controller.build(), actuon.ControllerNeuralMLP)


def test_a_network_elsewhere_is_stored_absolute(tmp_path):
    (tmp_path / "robot").mkdir()
    path = network(tmp_path / "knee.onnx")
    _, prim = with_network(tmp_path / "robot", path)
    assert prim.GetAttribute("newton:modelPath").Get().path == str(path)


def test_relative_paths_are_looked_for_beside_the_asset_then_here(tmp_path, monkeypatch):
    network(tmp_path / "knee.onnx")
    (tmp_path / "robot").mkdir()
    monkeypatch.chdir(tmp_path)
    _, prim = with_network(tmp_path / "robot", "knee.onnx")
    assert prim.GetAttribute("newton:modelPath").Get().path == str(tmp_path / "knee.onnx")
    network(tmp_path / "robot" / "knee.onnx")
    _, prim = with_network(tmp_path / "robot", "knee.onnx", "other.usda")
    assert prim.GetAttribute("newton:modelPath").Get().path == "./knee.onnx"


def test_a_stage_in_memory_stores_an_absolute_path(tmp_path, monkeypatch):
    path = network(tmp_path / "knee.safetensors")
    monkeypatch.chdir(tmp_path)
    stage = robot()
    prim = actuon.add_actuator("/Robot", "knee", "knee", actuon.NeuralControlConfig("knee.safetensors"), stage=stage)
    assert actuon.parse_actuator_prim(prim).controller_kwargs == {"model_path": str(path)}


def test_torch_files_need_approval(tmp_path):
    for ending in ("pt", "pt2"):
        path = network(tmp_path / f"knee.{ending}")
        stage, prim = with_network(tmp_path, path, f"{ending}.usda")
        with pytest.raises(ValueError, match=r"^/Robot/Actuators/knee: .*allow_unsafe_torch_checkpoints=True"):
            actuon.parse_actuator_prim(prim)
        parsed = actuon.parse_actuator_prim(prim, allow_unsafe_torch_checkpoints=True)
        assert parsed.controller_class is actuon.ControllerNeuralMLP
        assert len(actuon.parse_actuators(stage, allow_unsafe_torch_checkpoints=True)) == 1


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("none.onnx", None, "does not exist"),
        ("a" * 300 + ".onnx", None, "does not exist"),
        ("notes.txt", b"text", "format"),
        ("junk.onnx", b"junk", "junk.onnx"),
        ("junk.safetensors", b"junk", "junk.safetensors"),
        ("empty.onnx", b"", "empty.onnx"),
    ],
)
def test_networks_that_cannot_be(name, content, match, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    _, prim = with_network(tmp_path, str(tmp_path / name))
    with pytest.raises(ValueError, match=f"^/Robot/Actuators/knee: .*{match}"):
        actuon.parse_actuator_prim(prim)


@real
@pytest.mark.parametrize(
    ("name", "cls"),
    [("unitree_go1", actuon.ControllerNeuralMLP), ("anydrive_v3_lstm", actuon.ControllerNeuralLSTM)],
)
def test_published_networks(name, cls, tmp_path):
    """Files carry no metadata; their content determines the architecture."""
    _, prim = with_network(tmp_path, CHECKPOINTS / f"{name}.pt")
    parsed = actuon.parse_actuator_prim(prim, allow_unsafe_torch_checkpoints=True)
    assert parsed.controller_class is cls
    assert isinstance(parsed.config.controller.build(), cls)


def test_a_network_in_yaml_is_relative_to_the_file(tmp_path):
    path = network(tmp_path / "knee.onnx")
    entry = actuon.ActuatorEntry("knee", "knee", actuon.ActuatorConfig(actuon.NeuralControlConfig(path)))
    actuon.save_actuators(tmp_path / "actuon.yaml", [entry])
    assert "model_path: knee.onnx" in (tmp_path / "actuon.yaml").read_text()
    assert actuon.load_actuators(tmp_path / "actuon.yaml") == [entry]


OPTIONS = {
    "input_order": "vel_pos",
    "input_idx": (0, 2, 5),
    "pos_scale": -1.0,
    "vel_scale": 0.1,
    "effort_scale": 3.0,
    "sample_dt": 0.005,
    "check_sample_dt": False,
}


@pytest.mark.parametrize("given", [OPTIONS, {"pos_scale": -1.0}], ids=["all", "one"])
def test_how_a_network_is_fed_is_in_the_robots_file(given, tmp_path):
    config = actuon.NeuralControlConfig(network(tmp_path / "knee.onnx", vel_scale=0.5), **given)
    actuator = actuon.ActuatorConfig(config)
    stage = robot()
    prim = actuon.add_actuator("/Robot", "knee", "knee", config, stage=stage)
    assert actuon.parse_actuator_prim(prim).config == actuator
    entry = actuon.ActuatorEntry("knee", "knee", actuator)
    actuon.save_actuators(tmp_path / "actuon.yaml", [entry])
    assert actuon.load_actuators(tmp_path / "actuon.yaml") == [entry]
    controller = config.build()
    for name, value in ({"vel_scale": 0.5, "input_order": "pos_vel", "check_sample_dt": True} | given).items():
        assert getattr(controller, name) == value
    (joint,) = (joint for joint in actuon.inspect_actuators(stage).joints if joint.actuators)
    shown = {"model_path": config.model_path, "vel_scale": 0.5} | given
    assert {value.name: value.value for value in joint.chain[0].values} == shown


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"input_order": "pos"}, "input_order: got 'pos'; must be one of pos_vel, vel_pos"),
        ({"input_idx": (0, -1)}, "input_idx: got -1"),
        ({"input_idx": ()}, "must be a list of history steps"),
        ({"input_idx": 3}, "must be a list of history steps"),
        ({"input_idx": (0.5,)}, "whole number"),
        ({"pos_scale": float("nan")}, "pos_scale: got nan"),
        ({"sample_dt": 0.0}, "sample_dt: got 0.0"),
        ({"check_sample_dt": 1}, "check_sample_dt: got 1; must be true or false"),
    ],
)
def test_options_that_cannot_be(given, match):
    with pytest.raises(actuon.ParameterError, match=match):
        actuon.NeuralControlConfig("knee.onnx", **given)


@pytest.fixture
def reads(monkeypatch):
    """Counts how often weights are read, by file."""
    from actuon.networks import files

    found = []
    for module, name in (
        (files.safetensors_files, "read_tensors"),
        (files.onnx_files, "load"),
        (files.torch_files, "load_module"),
    ):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda path, read=original: found.append(path) or read(path))
    return found


MJCF = """<mujoco><worldbody><body name="robot">
  <joint name="a" type="hinge"/><joint name="b" type="hinge" axis="0 1 0"/><joint name="c" type="hinge" axis="1 0 0"/>
  <geom size="0.1"/>
</body></worldbody></mujoco>"""


def test_a_network_is_read_once_for_all_joints_and_robots(tmp_path, reads):
    path = network(tmp_path / "net.safetensors")
    (tmp_path / "m.xml").write_text(MJCF)
    neural = actuon.ActuatorConfig(actuon.NeuralControlConfig(path))
    limited = actuon.ActuatorConfig(actuon.NeuralControlConfig(path), [actuon.MaxEffortClampingConfig(5.0)])
    alike = [actuon.ActuatorEntry("all", ".*", neural)]
    differing = [actuon.ActuatorEntry("one", "a", limited), actuon.ActuatorEntry("others", "b|c", neural)]
    for count, entries in ((1, alike), (2, differing)):
        actuon.save_actuators(tmp_path / "m.actuon.yaml", entries)
        with actuon.MujocoSimulation(tmp_path / "m.xml", num_envs=4):
            actuators = actuon.ArticulationActuators("robot")
            assert len(actuators.actuators) == count
    builder = actuon.ActuatorBuilder()
    for i in range(6):
        builder.add(neural, i)
    (actuator,) = builder.finalize()
    assert actuator.num_actuators == 6
    assert reads == [path]


def test_a_network_that_is_written_anew_is_read_anew(tmp_path, reads):
    efforts = []
    for scale in (1.0, 2.0):
        path = network(tmp_path / "net.safetensors", effort_scale=scale)
        builder = actuon.ActuatorBuilder()
        builder.add(actuon.ActuatorConfig(actuon.NeuralControlConfig(path)), 0)
        efforts.append(builder.finalize()[0].controller.effort_scale)
    assert efforts == [1.0, 2.0]
    assert reads == [path, path]


def test_what_a_network_says_of_itself_is_reported_and_travels(tmp_path):
    """It stays in the network's file: USD and YAML name the file, and show what it says."""
    from actuon.inspect.report import inspect_yaml

    numbers = {"position": 0.5, "velocity_error": 2.0, "load": 3.0}
    said = {
        "input_columns": list(numbers),
        "custom_inputs": ["load"],
        "sample_dt": 0.005,
        "normalization": {
            "inputs": {"mean": numbers, "std": numbers},
            "targets": {"mean": {"torque": 1.0}, "std": {"torque": 2.0}},
        },
    }
    path = network(tmp_path / "knee.onnx", input_idx=[0, 1], **said)
    stage, prim = with_network(tmp_path, path)
    entry = actuon.ActuatorEntry("knee", "knee", actuon.ActuatorConfig(actuon.NeuralControlConfig(path)))
    actuon.save_actuators(tmp_path / "actuon.yaml", [entry])
    configs = [actuon.parse_actuator_prim(prim).config, actuon.load_actuators(tmp_path / "actuon.yaml")[0].actuator]
    for config in configs:
        controller = config.controller.build()
        assert controller.input_columns == tuple(numbers)
        assert controller.custom_inputs == ("load",)
        assert controller.sample_dt == 0.005
    knee = next(joint for joint in actuon.inspect_actuators(stage).joints if joint.name == "knee")
    for chain in (knee.chain, inspect_yaml(tmp_path / "actuon.yaml").entries[0].chain):
        shown = {value.name: value for value in chain[0].values}
        assert (shown["sample_dt"].value, shown["sample_dt"].unit, shown["sample_dt"].source) == (
            0.005,
            "s",
            "network file",
        )
        assert shown["input_columns"].value == "position, velocity_error, load"
        assert shown["custom_inputs"].value == "load"
