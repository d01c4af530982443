# SPDX-License-Identifier: Apache-2.0
"""Tensors and arrays that models of actuator groups take and refuse."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import actuon
from actuon.lab import (
    ArticulationActions,
    DelayedPDActuatorCfg,
    IdealPDActuatorCfg,
    ImplicitActuatorCfg,
    RemotizedPDActuatorCfg,
    Uniform,
)
from tests.support.group_models import COMMON, JOINTS, LOOKUP, E, J, act, build, signals

torch = pytest.importorskip("torch")


def test_numpy_and_strided_tensors_are_taken():
    model = build(IdealPDActuatorCfg(**COMMON))
    q, qd, target, target_vel, feedforward = signals()
    expected = act(model, q, qd, target, target_vel, feedforward).joint_efforts
    arrays = [tensor.numpy() for tensor in (q, qd, target, target_vel, feedforward)]
    efforts = model.compute(ArticulationActions(*arrays[2:]), *arrays[:2]).joint_efforts
    assert isinstance(efforts, np.ndarray)
    np.testing.assert_array_equal(efforts, expected.numpy())
    wide = torch.randn(E, 2 * J)
    wide[:, ::2] = q
    strided = act(model, wide[:, ::2], qd, target.double(), target_vel, feedforward).joint_efforts
    torch.testing.assert_close(strided, expected)
    assert expected.data_ptr() != strided.data_ptr()  # an old result is not overwritten


def test_without_pytorch_it_is_numpy():
    code = """
import sys, numpy as np
from actuon.lab import ArticulationActions, DCMotorCfg, Uniform
motor = dict(effort_limit=5.0, saturation_effort=9.0, velocity_limit=8.0)
cfg = DCMotorCfg(joint_names_expr=[".*"], stiffness=10.0, damping=1.0, **motor)
model = cfg.class_type(cfg, ["a", "b"], [0, 1], 3, "cpu")
assert isinstance(model.stiffness, np.ndarray) and model.stiffness.shape == (3, 2)
model.stiffness[1] = 0.0
zeros = np.zeros((3, 2), np.float32)
action = model.compute(ArticulationActions(zeros + 0.3), zeros, zeros)
print(action.joint_efforts.tolist())
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[[3.0, 3.0], [0.0, 0.0], [3.0, 3.0]]"


def test_tensors_that_change_under_ones_hands():
    cfg = IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=1.0, damping=0.0)
    model = cfg.class_type(cfg, JOINTS, slice(None), J, "cpu")
    model.applied_effort.fill_(5.0)
    model.computed_effort.fill_(7.0)
    zeros, square = torch.zeros(J, J), torch.arange(float(J * J)).view(J, J)
    for _ in range(2):
        assert not model.compute(ArticulationActions(None), zeros, zeros).joint_efforts.any()
        torch.testing.assert_close(model.compute(ArticulationActions(square), zeros, zeros).joint_efforts, square)
        square.t_()
    square.resize_(2, J)
    with pytest.raises(ValueError, match="joint_positions"):
        model.compute(ArticulationActions(square), zeros, zeros)
    delayed = build(DelayedPDActuatorCfg(**COMMON, min_delay=1, max_delay=3))
    delayed.time_lags[:] = 9
    assert delayed.time_lags.max() <= 3
    torch.set_default_dtype(torch.float64)
    try:
        assert model.compute(ArticulationActions(None), zeros, zeros).joint_efforts.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


SIGNALS = ("joint_pos", "joint_vel", "joint_positions", "joint_velocities", "joint_efforts")


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("cfg", [IdealPDActuatorCfg(**COMMON), ImplicitActuatorCfg(**COMMON)])
def test_a_tensor_that_requires_grad_is_refused(cfg, name):
    model = build(cfg)
    tensors = {key: torch.zeros(E, J) for key in SIGNALS}

    def compute():
        action = ArticulationActions(tensors["joint_positions"], tensors["joint_velocities"], tensors["joint_efforts"])
        model.compute(action, tensors["joint_pos"], tensors["joint_vel"])

    compute()
    tensors[name].requires_grad_(True)  # the same tensor as before, which is remembered
    refused = f"{name}: got a PyTorch tensor that requires grad.*pass tensor.detach\\(\\)"
    with pytest.raises(actuon.ArrayError, match=refused):
        compute()
    tensors[name] = tensors[name] * 2.0  # what a policy gives
    with pytest.raises(actuon.ArrayError, match=refused):
        compute()
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            compute()
            assert not model.applied_effort.requires_grad
    tensors[name] = tensors[name].detach()
    compute()


def test_a_parameter_that_requires_grad_is_refused():
    gain = torch.ones(E, J, requires_grad=True)
    cfg = IdealPDActuatorCfg(joint_names_expr=[".*"], damping=1.0)
    with pytest.raises(actuon.ArrayError, match="stiffness: got a PyTorch tensor that requires grad"):
        build(cfg, stiffness=gain)
    with torch.no_grad():
        torch.testing.assert_close(build(cfg, stiffness=gain).stiffness, gain)
    for given in (gain[0, 0], {".*": gain[0, 0]}):
        with pytest.raises(actuon.ArrayError, match="stiffness.*: got a PyTorch tensor that requires grad"):
            build(IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=given))
    remotized = build(RemotizedPDActuatorCfg(**COMMON, joint_parameter_lookup=LOOKUP))
    with pytest.raises(actuon.ArrayError, match="joint_pos: got a PyTorch tensor that requires grad"):
        remotized.transmission_ratio(gain)


def test_bad_inputs_are_refused():
    model = build(IdealPDActuatorCfg(**COMMON))
    q = torch.zeros(E, J)
    with pytest.raises(ValueError, match=r"joint_pos: got \(5, 3\); must have the shape \(5, 4\)"):
        model.compute(ArticulationActions(q), q[:, :3], q)
    with pytest.raises(ValueError, match="joint_positions"):
        model.compute(ArticulationActions(q[0]), q, q)
    for ids in ([5], [-1], [0.5]):
        with pytest.raises(ValueError, match="env_ids"):
            model.reset(ids)
    with pytest.raises(ValueError, match="no parameter 'stifness'.*Did you mean 'stiffness'"):
        model.randomize("stifness", Uniform(0.5, 1.5))
    with pytest.raises(ValueError, match="must be a distribution, such as Uniform"):
        model.randomize("stiffness", (0.5, 1.5))
    with pytest.raises(ValueError, match="relative_to"):
        model.randomize("stiffness", Uniform(0.5, 1.5), relative_to="last")
