# SPDX-License-Identifier: Apache-2.0
"""actuon.newton.ModelBuilder beside Newton's own."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.robot_files import EXAMPLES, add, robot

newton = pytest.importorskip("newton")

ASSETS = actuon.assets.FOLDER


def chain(builder_class, count=2):
    """A small arm, its joints placed after a free body, so that coordinates and DOFs differ."""
    builder = builder_class()
    free = builder.add_body(mass=1.0, inertia=wp.mat33(np.eye(3)))
    assert free == 0
    links = [builder.add_link(mass=1.0, inertia=wp.mat33(np.eye(3))) for _ in range(count)]
    joints = [
        builder.add_joint_revolute(parent=-1 if i == 0 else links[i - 1], child=link, axis=newton.Axis.Y)
        for i, link in enumerate(links)
    ]
    builder.add_articulation(joints)
    return builder, [builder.joint_qd_start[j] for j in joints], [builder.joint_q_start[j] for j in joints]


def with_actuators(builder_class, controller):
    builder, dofs, coordinates = chain(builder_class)
    module = actuon if controller is actuon.ControllerPD else newton.actuators
    for i, (dof, coordinate) in enumerate(zip(dofs, coordinates, strict=True)):
        builder.add_actuator(
            controller,
            index=dof,
            pos_index=coordinate,
            kp=10.0 + i,
            kd=1.0,
            delay_steps=2,
            clamping=[(module.ClampingMaxEffort, {"max_effort": 5.0 + i})],
        )
    return builder


def test_actuators_survive_every_way_of_copying():
    template = with_actuators(actuon.newton.ModelBuilder, actuon.ControllerPD)
    for copy in ("add_builder", "add_world", "replicate"):
        builder = actuon.newton.ModelBuilder()
        if copy == "replicate":
            builder.replicate(template, 3)
        else:
            for _ in range(3):
                getattr(builder, copy)(template)
        model = builder.finalize(device="cpu")
        (actuator,) = model.actuators
        assert isinstance(actuator, actuon.Actuator)
        assert actuator.is_fused()
        assert actuator.indices.numpy().tolist() == [6, 7, 14, 15, 22, 23]
        assert actuator.pos_indices.numpy().tolist() == [7, 8, 16, 17, 25, 26]
        assert actuator.controller.kp.numpy().tolist() == [10, 11] * 3
        assert actuator.clamping[0].max_effort.numpy().tolist() == [5, 6] * 3
        assert actuator.delay.delay_steps.numpy().tolist() == [2] * 6


def test_same_efforts_as_newtons_own():
    """Equal calls with another import give equal numbers from `actuator.step(state, control)`."""
    efforts = []
    for builder_class, controller in (
        (actuon.newton.ModelBuilder, actuon.ControllerPD),
        (newton.ModelBuilder, newton.actuators.DrivePD),
    ):
        builder = newton_copy = builder_class()
        newton_copy.replicate(with_actuators(builder_class, controller), 4)
        model = builder.finalize(device="cpu")
        (actuator,) = model.actuators
        first, second = actuator.state(), actuator.state()
        rng = np.random.default_rng(3)
        log = []
        for _ in range(6):
            state, control = model.state(), model.control()
            for array in (state.joint_q, state.joint_qd, control.joint_target_q, control.joint_target_qd):
                array.assign(rng.standard_normal(len(array)).astype(np.float32))
            control.joint_f.zero_()
            actuator.step(state, control, first, second, dt=0.01)
            first, second = second, first
            log.append(control.joint_f.numpy())
        efforts.append(log)
    np.testing.assert_allclose(*efforts, rtol=1e-5, atol=1e-6)


def test_a_network_finds_its_custom_input_in_the_models_control(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 1)
    path = tmp_path / "net.safetensors"
    actuon.save_network(module, path, input_columns=["load", "velocity"], custom_inputs=["load"])
    builder, dofs, coordinates = chain(actuon.newton.ModelBuilder)
    for dof, coordinate in zip(dofs, coordinates, strict=True):
        builder.add(actuon.ActuatorConfig(actuon.NeuralControlConfig(path)), dof, coordinate)
    model = builder.finalize(device="cpu")
    state, control = model.state(), model.control()
    assert control.load.shape == (model.joint_dof_count,)
    control.load.fill_(2.0)
    control.joint_f.zero_()
    model.actuators[0].step(state, control)
    with torch.no_grad():
        expected = module(torch.tensor([2.0, 0.0])).item()
    np.testing.assert_allclose(control.joint_f.numpy()[dofs], expected, rtol=1e-6)


def test_newtons_drives_stay_newtons():
    builder, dofs, coordinates = chain(actuon.newton.ModelBuilder)
    builder.add_actuator(actuon.ControllerPD, index=dofs[0], pos_index=coordinates[0], kp=1.0)
    builder.add_actuator(newton.actuators.DrivePD, index=dofs[1], pos_index=coordinates[1], kp=2.0)
    theirs, ours = builder.finalize(device="cpu").actuators
    assert isinstance(ours, actuon.Actuator)
    assert isinstance(theirs, newton.actuators.Actuator)
    assert len(builder.finalize(device="cpu").actuators) == 2  # finalizing does not use it up


def test_usd_is_read_our_way():
    """All targets, and the delay default of the schema."""
    stage = robot()
    prim = add(stage, EXAMPLES["pd"], joints=["hip", "knee"])
    prim.AddAppliedSchema("NewtonActuatorDelayAPI")
    builder = actuon.newton.ModelBuilder()
    result = builder.add_usd(stage)
    assert result["actuator_count"] == 2
    (actuator,) = builder.finalize(device="cpu").actuators
    assert actuator.indices.numpy().tolist() == [0, 1]
    assert actuator.delay.delay_steps.numpy().tolist() == [1, 1]
    builder = actuon.newton.ModelBuilder()
    builder.add_usd(str(ASSETS / "quadruped.usda"))
    (actuator,) = builder.finalize(device="cpu").actuators
    assert actuator.num_actuators == 12
    with pytest.raises(ValueError, match="no prim '/Nothing'"):
        actuon.newton.ModelBuilder().add_usd(stage, root_path="/Nothing")


def test_bad_arguments_are_refused_when_they_are_given():
    builder, dofs, _ = chain(actuon.newton.ModelBuilder)
    for arguments in ({"kp": -1.0}, {"kq": 1.0}, {"delay_steps": -1}, {"clamping": [(actuon.ControllerPD, {})]}):
        with pytest.raises(ValueError, match=f"DOF {dofs[0]}"):
            builder.add_actuator(actuon.ControllerPD, index=dofs[0], **arguments)
    assert builder.finalize(device="cpu").actuators == []
