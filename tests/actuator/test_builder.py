# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon
from actuon import (
    ActuatorBuilder,
    ClampingDCMotor,
    ClampingMaxEffort,
    ClampingPositionBased,
    ControllerPD,
    ControllerPID,
)
from tests.support.chains import random_signals, simulation


def test_values_do_not_split_groups():
    builder = ActuatorBuilder()
    for i in range(6):
        limits = [(ClampingMaxEffort, {"max_effort": 10.0 + i})]
        builder.add_actuator(ControllerPD, i, kp=float(i), kd=0.1 * i, clamping=limits, delay_steps=i)
    (actuator,) = builder.finalize()
    np.testing.assert_array_equal(actuator.controller.kp.numpy(), range(6))
    np.testing.assert_array_equal(actuator.delay.delay_steps.numpy(), range(6))
    assert actuator.delay.buf_depth == 5
    np.testing.assert_array_equal(actuator.clamping[0].max_effort.numpy(), np.arange(10.0, 16.0))


def test_structure_splits_groups():
    table = {"lookup_positions": [0.0, 1.0], "lookup_efforts": [1.0, 2.0]}
    other = {"lookup_positions": (0.0, 1.0), "lookup_efforts": (1.0, 3.0)}
    dc = {"saturation_effort": 9.0, "velocity_limit": 5.0, "max_motor_effort": 7.0}
    builder = ActuatorBuilder()
    described = [
        dict(controller_class=ControllerPD),
        dict(controller_class=ControllerPID, integral_max=1.0),
        dict(controller_class=ControllerPD, delay_steps=0),
        dict(controller_class=ControllerPD, clamping=[(ClampingPositionBased, table)]),
        dict(controller_class=ControllerPD, clamping=[(ClampingPositionBased, other)]),
        dict(controller_class=ControllerPD, clamping=[(ClampingDCMotor, dc), (ClampingMaxEffort, {})]),
        dict(controller_class=ControllerPD, clamping=[(ClampingMaxEffort, {}), (ClampingDCMotor, dc)]),
    ]
    for i in range(14):
        builder.add_actuator(index=i, kp=1.0, **described[i % 7])
    actuators = builder.finalize()
    assert len(actuators) == 7
    assert [actuator.indices.numpy().tolist() for actuator in actuators] == [[i, i + 7] for i in range(7)]
    assert actuators[2].delay.buf_depth == 1


def test_robots_whose_joints_differ_in_structure_are_stepped_apart(rng):
    """Told apart as robots, those with the same joints share actuators; efforts are those without."""
    width, robots = 3, 4
    tables = [
        actuon.ActuatorConfig(
            actuon.PDControlConfig(30.0, 1.0),
            [actuon.PositionBasedClampingConfig((-1.0, 1.0), (most, 2.0 * most))],
            actuon.DelayConfig(1),
        )
        for most in (3.0, 5.0)
    ]
    plain = actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 0.5), delay=actuon.DelayConfig(2))
    chosen = [(plain, tables[0], plain), (plain, tables[1], tables[1]), (plain, tables[0], plain)]
    chosen += [(tables[0], plain, plain)]
    builder = ActuatorBuilder()
    for joint in range(width):
        for robot in range(robots):
            builder.add(chosen[robot][joint], robot * width + joint)
    together = builder.finalize(accumulate=False)
    apart = builder.finalize(robot_width=width, accumulate=False)
    assert [actuator.indices.numpy().tolist() for actuator in together] == [
        [0, 2, 3, 6, 8, 10, 11], [1, 7, 9], [4, 5]
    ]  # fmt: skip
    places = [actuator.indices.numpy().reshape(-1, actuator.robot_dofs).tolist() for actuator in apart]
    assert places == [[[0, 2], [6, 8]], [[3]], [[10, 11]], [[1], [7]], [[9]], [[4, 5]]]
    sims = [simulation(random_signals(width * robots, rng)) for _ in range(2)]
    states = [[actuator.state() for actuator in actuators] for actuators in (together, apart)]
    for _ in range(4):
        signals = random_signals(width * robots, rng)
        for actuators, own, sim in zip((together, apart), states, sims, strict=True):
            for name, values in signals.items():
                getattr(sim, name).assign(values)
            sim.joint_f.fill_(np.nan)
            for actuator, state in zip(actuators, own, strict=True):
                actuator.step(sim, sim, state, state, 0.01)
        assert np.isfinite(sims[0].joint_f.numpy()).all()
        np.testing.assert_array_equal(*(sim.joint_f.numpy() for sim in sims))


def test_table_from_a_file_and_by_value_share_a_group(tmp_path):
    path = tmp_path / "table.txt"
    path.write_text("0 1\n1 2\n")
    builder = ActuatorBuilder()
    builder.add_actuator(ControllerPD, 0, kp=1.0, clamping=[(ClampingPositionBased, {"lookup_table_path": path})])
    table = {"lookup_positions": [0, 1], "lookup_efforts": [1, 2]}
    builder.add_actuator(ControllerPD, 1, kp=1.0, clamping=[(ClampingPositionBased, table)])
    assert len(builder.finalize()) == 1


def test_replicate_lays_copies():
    builder = ActuatorBuilder()
    builder.add_actuator(ControllerPD, 6, pos_index=7, kp=1.0)
    builder.add_actuator(ControllerPD, 7, pos_index=8, kp=2.0)
    builder.replicate(3, dof_stride=8, coord_stride=9)
    assert len(builder) == 6
    (actuator,) = builder.finalize()
    np.testing.assert_array_equal(actuator.indices.numpy(), [6, 7, 14, 15, 22, 23])
    np.testing.assert_array_equal(actuator.pos_indices.numpy(), [7, 8, 16, 17, 25, 26])
    np.testing.assert_array_equal(actuator.controller.kp.numpy(), [1, 2, 1, 2, 1, 2])


def test_built_actuators_equal_one_written_by_hand(rng):
    envs, joints = 5, 3
    builder = ActuatorBuilder()
    gains = rng.uniform(1, 50, joints)
    for joint in range(joints):
        builder.add_actuator(
            ControllerPD, joint, kp=gains[joint], kd=0.5, clamping=[(ClampingMaxEffort, {"max_effort": 20.0})]
        )
    builder.replicate(envs, joints)
    (built,) = builder.finalize()
    n = envs * joints
    clamp = ClampingMaxEffort(20.0)
    written = actuon.Actuator(range(n), ControllerPD(np.tile(gains, envs), 0.5, 0.0), clamping=[clamp])
    efforts = []
    signals = random_signals(n, rng)
    for actuator in (built, written):
        sim = simulation(signals)
        actuator.step(sim, sim)
        efforts.append(sim.joint_f.numpy())
    np.testing.assert_array_equal(*efforts)


def test_a_user_class_with_its_own_kernels_can_be_built():
    class Scaled(actuon.Clamping):
        SHARED_PARAMS = frozenset({"factor"})

        def __init__(self, factor, bias):
            self.factor, self.bias = factor, bias

        @classmethod
        def resolve_arguments(cls, args):
            return {"factor": args["factor"], "bias": args.get("bias", 0.0)}

    builder = ActuatorBuilder()
    for i, factor in enumerate([2.0, 2.0, 3.0]):
        builder.add_actuator(ControllerPD, i, kp=1.0, clamping=[(Scaled, {"factor": factor, "bias": float(i)})])
    first, second = builder.finalize()
    assert first.clamping[0].factor == 2.0
    np.testing.assert_array_equal(first.clamping[0].bias.numpy(), [0, 1])
    assert not second.is_fused()


def test_requires_grad_reaches_the_actuators():
    builder = ActuatorBuilder()
    builder.add_actuator(ControllerPD, 0, kp=1.0)
    (actuator,) = builder.finalize("cpu", requires_grad=True)
    assert actuator.requires_grad
    assert actuator.controller.kp.requires_grad


def test_an_empty_builder_builds_nothing():
    assert ActuatorBuilder().finalize() == []


def test_large_replication_is_vectorised():
    builder = ActuatorBuilder()
    for joint in range(12):
        builder.add_actuator(ControllerPD, 6 + joint, pos_index=7 + joint, kp=30.0, kd=1.0, delay_steps=joint % 3)
    builder.replicate(20_000, 18, 19)
    (actuator,) = builder.finalize()
    assert actuator.num_actuators == 240_000
    assert isinstance(actuator.controller.kp, wp.array)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (dict(controller_class=ControllerPD, index=4, kp=-1.0), "DOF 4: .*kp: got -1.0"),
        (
            dict(controller_class=ControllerPD, index=4, stiffness=1.0),
            "DOF 4: ControllerPD: unknown parameter 'stiffness'",
        ),
        (dict(controller_class=ControllerPD, index=-1), "index: got -1"),
        (dict(controller_class=ControllerPD, index=1.5), "index: got 1.5"),
        (dict(controller_class=ControllerPD, index=0, pos_index=-2), "pos_index: got -2"),
        (dict(controller_class=ControllerPD, index=0, delay_steps=-2), "DOF 0: .*delay_steps: got -2"),
        (dict(controller_class=ControllerPD, index=0, delay_steps=1.5), "whole number"),
        (dict(controller_class=ClampingMaxEffort, index=0), "must be a subclass of Controller"),
        (dict(controller_class=ControllerPD, index=0, clamping=[ClampingMaxEffort]), "pairs of a class and a dict"),
        (dict(controller_class=ControllerPD, index=0, clamping=[(ControllerPD, {})]), "subclass of Clamping"),
    ],
)
def test_bad_descriptions_are_refused_and_leave_nothing(arguments, match):
    builder = ActuatorBuilder()
    with pytest.raises(actuon.ActuonError, match=match) as caught:
        builder.add_actuator(**arguments)
    assert isinstance(caught.value, (ValueError, TypeError))
    assert len(builder) == 0


def test_bad_replication_is_refused():
    builder = ActuatorBuilder()
    with pytest.raises(actuon.ParameterError, match="count: got 0"):
        builder.replicate(0, 3)
    with pytest.raises(actuon.ParameterError, match="dof_stride"):
        builder.replicate(2, -3)
