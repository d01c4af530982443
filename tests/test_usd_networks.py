# SPDX-License-Identifier: Apache-2.0
"""Networks that travel beside a robot's USD file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pxr import Usd
from robot_files import robot

import actuon

torch = pytest.importorskip("torch")
DATA = Path(__file__).parents[2] / "shared" / "data" / "networks"
real = pytest.mark.skipif(not DATA.exists(), reason="the published networks are not here")


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
    """They carry no metadata: what they hold says what they are."""
    _, prim = with_network(tmp_path, DATA / f"{name}.pt")
    parsed = actuon.parse_actuator_prim(prim, allow_unsafe_torch_checkpoints=True)
    assert parsed.controller_class is cls
    assert isinstance(parsed.config.controller.build(), cls)


def test_a_network_in_yaml_is_relative_to_the_file(tmp_path):
    path = network(tmp_path / "knee.onnx")
    entry = actuon.ActuatorEntry("knee", "knee", actuon.ActuatorConfig(actuon.NeuralControlConfig(path)))
    actuon.save_actuators(tmp_path / "actuon.yaml", [entry])
    assert "model_path: knee.onnx" in (tmp_path / "actuon.yaml").read_text()
    assert actuon.load_actuators(tmp_path / "actuon.yaml") == [entry]
