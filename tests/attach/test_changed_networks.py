# SPDX-License-Identifier: Apache-2.0
"""A file of a network that is overwritten by another one of the same sizes is not taken for the first."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import actuon

torch = pytest.importorskip("torch")
pytest.importorskip("mujoco")
from tests.support import torch_networks as networks  # noqa: E402

ROBOT = """<mujoco><option timestep="0.01"/><worldbody><body name="base"><body name="arm">
<joint name="hip" axis="0 1 0" armature="0.1"/><geom size="0.05" mass="0.5"/></body></body></worldbody></mujoco>"""


def memoryless(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).eval()


KINDS = {
    "no memory": (memoryless, {"input_idx": [0]}),
    "MLP": (lambda seed: networks.mlp(seed=seed), {"input_idx": [0, 1, 2]}),
    "LSTM": (lambda seed: networks.LSTM(seed=seed), {}),
}


def save(kind, path, seed):
    make, options = KINDS[kind]
    torch.manual_seed(seed)
    actuon.save_network(make(seed), path, **options)


def config(path):
    return actuon.ActuatorConfig(actuon.NeuralControlConfig(path), [actuon.MaxEffortClampingConfig(50.0)])


def built(path):
    return actuon.Actuator([0], actuon.NeuralControlConfig(path).build())


@pytest.mark.parametrize("kind", KINDS)
def test_motors(kind, tmp_path):
    path = tmp_path / "net.safetensors"
    save(kind, path, 0)
    motors = actuon.Motors({"hip": config(path)})
    motors.step(np.zeros(1), np.ones(1), 0.3, dt=0.01)
    motors.save(tmp_path / "motors.npz")
    pickled = pickle.dumps(motors)
    save(kind, path, 1)
    for take in (
        lambda: copy.deepcopy(motors),
        lambda: pickle.loads(pickled),
        lambda: actuon.Motors({"hip": config(path)}).load(tmp_path / "motors.npz"),
    ):
        with pytest.raises(actuon.StateError, match="network [0-9a-f]{8}.*here are .*network [0-9a-f]{8}"):
            take()
    motors.load(tmp_path / "motors.npz")
    save(kind, path, 0)
    efforts = [each.step(np.zeros(1), np.ones(1), 0.1, dt=0.01) for each in (copy.deepcopy(motors), motors)]
    np.testing.assert_array_equal(*efforts)


@pytest.mark.parametrize("kind", ["MLP", "LSTM"])
def test_state_of_an_actuator(kind, tmp_path):
    path = tmp_path / "net.safetensors"
    save(kind, path, 0)
    built(path).state().save(tmp_path / "state.npz")
    built(path).load_state(tmp_path / "state.npz")
    save(kind, path, 1)
    with pytest.raises(actuon.StateError, match="Controller.* [0-9a-f]{8}; this one has .* [0-9a-f]{8}"):
        built(path).load_state(tmp_path / "state.npz")


@pytest.mark.parametrize("kind", KINDS)
def test_actuators_on_a_robot(kind, tmp_path):
    path, robot = tmp_path / "net.safetensors", tmp_path / "robot.xml"
    robot.write_text(ROBOT)
    save(kind, path, 0)
    with actuon.MujocoSimulation(robot):
        actuators = actuon.ArticulationActuators.from_actuators("base", [(config(path), "hip")])
        actuators.save_state(tmp_path / "state.npz")
        actuators.load_state(tmp_path / "state.npz")
    save(kind, path, 1)
    with actuon.MujocoSimulation(robot):
        actuators = actuon.ArticulationActuators.from_actuators("base", [(config(path), "hip")])
        with pytest.raises(actuon.StateError, match="network [0-9a-f]{8}"):
            actuators.load_state(tmp_path / "state.npz")
