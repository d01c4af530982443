# SPDX-License-Identifier: Apache-2.0
"""`actuon.Motors`: from files, names and configs to efforts on plain arrays of any framework."""

from __future__ import annotations

import copy
import logging
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
import warp as wp

import actuon
from tests.support.oracle import friction, pd

JOINTS = ["hip", "knee"]
DT = 0.005
PD = actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0), [actuon.MaxEffortClampingConfig(30.0)])
LATE = actuon.ActuatorConfig(
    actuon.PDControlConfig(40.0, 1.0), [actuon.MaxEffortClampingConfig(30.0)], actuon.DelayConfig(2)
)
YAML = """
actuators:
  hips:
    joints: [hip]
    controller: {type: pd, kp: 40.0, kd: 1.0}
    clamping: [{type: max_effort, max_effort: 30.0}]
  knees:
    joints: ["kn.*"]
    controller: {type: pd, kp: 10.0, kd: 1.0}
    motor: ak80-9
  arms:
    joints: ["arm_.*"]
    controller: {type: pd, kp: 1.0, kd: 0.0}
"""


@pytest.fixture
def yaml(tmp_path):
    path = tmp_path / "robot.yaml"
    path.write_text(YAML)
    return path


def drawn(shape, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for _ in range(3)]


@pytest.mark.parametrize(("num_envs", "shape"), [(1, (2,)), (1, (1, 2)), (64, (64, 2))])
def test_efforts_are_those_of_the_equation(num_envs, shape):
    q, qd, target = drawn(shape)
    effort = actuon.Motors(PD, JOINTS, num_envs).step(q, qd, target, dt=DT)
    expected = np.clip(pd(q, qd, target, 0.0, 0.0, 40.0, 1.0), -30.0, 30.0)
    np.testing.assert_allclose(effort, expected, rtol=1e-5, atol=1e-5)
    assert effort.shape == shape
    assert effort.dtype == np.float64


def test_a_file_gives_each_joint_the_whole_of_its_entry(yaml):
    motors = actuon.Motors(yaml, joints=["knee", "hip"])
    assert motors.joint_names == ("knee", "hip")
    effort = motors.step(np.zeros(2), np.zeros(2), np.array([3.0, 3.0]), dt=DT)
    sheet = actuon.find_motor("ak80-9").datasheet
    alone = actuon.Motors(sheet, joints=["knee"], controller=actuon.PDControlConfig(10.0, 1.0))
    assert effort[1] == 30.0
    assert effort[0] == alone.step(np.zeros(1), np.zeros(1), 3.0, dt=DT)[0]
    assert 10.0 < effort[0] < 30.0
    assert motors.armature[0] > 0.0
    assert motors.armature[1] == 0.0


def test_a_robot_file_brings_the_yaml_beside_it_and_usd_its_prims():
    names = actuon.MujocoSimulation(actuon.assets.quadruped_mjcf)
    with names as simulation:
        joints = list(simulation.robots[0].dof_names)
    q = np.zeros(12)
    efforts = [
        actuon.Motors(path, joints).step(q, q, 0.1, dt=0.002, target_qd=q)
        for path in (actuon.assets.quadruped_mjcf, actuon.assets.quadruped_usd)
    ]
    np.testing.assert_array_equal(*efforts)
    assert np.abs(efforts[0]).min() > 0.0


def test_a_mapping_has_its_own_joints():
    motors = actuon.Motors({"hip": PD, "knee": LATE})
    assert motors.joint_names == ("hip", "knee")
    first = motors.step([0.0, 0.0], [0.0, 0.0], [0.1, 0.1])
    second = motors.step([0.0, 0.0], [0.0, 0.0], [0.2, 0.2])
    np.testing.assert_allclose(first, [4.0, 4.0], rtol=1e-6)  # the first command after a reset is not delayed
    np.testing.assert_allclose(second, [8.0, 4.0], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numpy_arrays_of_any_type_and_strides(dtype):
    motors = actuon.Motors(PD, JOINTS, 3)
    q, qd, target = (values.astype(dtype) for values in drawn((3, 2)))
    expected = motors.step(q.astype(np.float32), qd.astype(np.float32), target.astype(np.float32))
    wide = np.zeros((6, 4), dtype)
    wide[::2, ::2] = q
    frozen = target.copy(order="F")
    frozen.setflags(write=False)
    effort = motors.step(wide[::2, ::2], qd[::-1][::-1], frozen)
    assert effort.dtype == dtype
    np.testing.assert_array_equal(effort, expected.astype(dtype))
    np.testing.assert_array_equal(frozen, target)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_give_tensors(dtype):
    motors = actuon.Motors(PD, JOINTS, 3)
    q, qd, target = (torch.tensor(values, dtype=dtype) for values in drawn((3, 2)))
    expected = motors.step(*(values.float().numpy() for values in (q, qd, target)))
    effort = motors.step(q.t().contiguous().t(), qd, target)
    assert effort.dtype is dtype
    torch.testing.assert_close(effort, torch.tensor(expected).to(dtype), rtol=0, atol=0)


def test_warp_arrays_and_lists():
    motors = actuon.Motors(PD, JOINTS)
    q, qd, target = (values.astype(np.float32) for values in drawn((2,)))
    expected = motors.step(q, qd, target)
    of_warp = motors.step(*(wp.array(values, device="cpu") for values in (q, qd, target)))
    assert isinstance(of_warp, wp.array)
    np.testing.assert_array_equal(of_warp.numpy(), expected)
    np.testing.assert_array_equal(motors.step(q.tolist(), qd.tolist(), target.tolist()), expected)
    doubled = motors.step(wp.array(q.astype(np.float64), device="cpu"), qd, torch.tensor(target))
    assert doubled.dtype is wp.float64
    np.testing.assert_array_equal(doubled.numpy(), expected)


def test_jax_arrays_give_jax_arrays_and_are_never_written():
    jax = pytest.importorskip("jax", reason="JAX is not one of the packages that tests install")
    motors = actuon.Motors(PD, JOINTS)
    np.testing.assert_allclose(motors.step(jax.numpy.zeros(2, int), np.zeros(2), 0.11), 4.4, rtol=1e-6)
    for dtype in (jax.numpy.float32, jax.numpy.bfloat16):
        q, target = jax.numpy.zeros(2, dtype), jax.numpy.full(2, 0.1)
        effort = motors.step(q, q, target)
        assert isinstance(effort, jax.Array)
        assert effort.dtype == dtype
        np.testing.assert_allclose(effort, 4.0, rtol=1e-2)
        np.testing.assert_array_equal(q, 0.0)
        with pytest.raises(actuon.ArrayTypeError, match="out: got ArrayImpl"):
            motors.step(q, q, target, out=q)
    with pytest.raises(actuon.ArrayTypeError, match="q: got a JAX tracer"):
        jax.jit(lambda q: motors.step(q, q, target))(q)


@pytest.mark.parametrize(
    "q", [np.zeros(2, int), torch.zeros(2, dtype=torch.int32), wp.zeros(2, dtype=wp.int32, device="cpu"), [0, 0]]
)
def test_positions_of_whole_numbers_give_efforts_of_floats(q):
    effort = actuon.Motors(PD, JOINTS).step(q, np.zeros(2), 0.11)
    np.testing.assert_allclose(np.asarray(effort), 4.4, rtol=1e-6)


def test_short_floats_of_warp():
    motors = actuon.Motors(PD, JOINTS)
    for dtype in (wp.float16, wp.bfloat16):
        q = wp.array(np.array([0.5, -0.25], np.float32), dtype=dtype, device="cpu")
        effort = motors.step(q, q, 0.0)
        assert effort.dtype is dtype
        np.testing.assert_array_equal(wp.to_torch(effort).float(), [-20.5, 10.25])


def test_tensors_in_and_outside_of_inference_mode():
    motors = actuon.Motors(PD, JOINTS)
    q = torch.zeros(2)
    with torch.inference_mode():
        torch.testing.assert_close(motors.step(q, q, 0.1), torch.full((2,), 4.0))
    torch.testing.assert_close(motors.step(q, q, 0.2), torch.full((2,), 8.0))
    with torch.no_grad():
        torch.testing.assert_close(motors.step(q.clone().requires_grad_(), q, 0.3), torch.full((2,), 12.0))


def test_a_graph_would_not_see_new_arrays():
    motors = actuon.Motors(PD, JOINTS, device="cpu")
    motors.compile()
    with (
        wp.ScopedCapture(device="cpu"),
        pytest.raises(actuon.StructureError, match=r"capture steps of motors\.actuators"),
    ):
        motors.step(np.zeros(2), np.zeros(2), 0.1)


def test_efforts_are_new_arrays_and_never_add_up():
    motors = actuon.Motors(PD, JOINTS)
    q = np.zeros(2)
    first = motors.step(q, q, 0.1)
    kept = first.copy()
    second = motors.step(q, q, 0.2)
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_allclose(second, 8.0, rtol=1e-6)
    np.testing.assert_array_equal(q, 0.0)


@pytest.mark.parametrize("make", [np.zeros, torch.zeros, lambda n: wp.zeros(n, dtype=wp.float64, device="cpu")])
def test_out_is_reused(make):
    motors = actuon.Motors(PD, JOINTS)
    out = make(2)
    assert motors.step(np.zeros(2), np.zeros(2), 0.1, out=out) is out
    np.testing.assert_allclose(np.asarray(out), 4.0, rtol=1e-6)


def test_optional_inputs_do_not_linger():
    motors = actuon.Motors(PD, JOINTS)
    q = np.zeros(2)
    with_all = motors.step(q, q, 0.1, target_qd=np.full(2, 2.0), feedforward=torch.full((2,), 3.0))
    np.testing.assert_allclose(with_all, 9.0, rtol=1e-6)
    np.testing.assert_allclose(motors.step(q, q, 0.1), 4.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (
            (np.zeros(3), np.zeros(2), np.zeros(2)),
            actuon.ArrayError,
            r"q: got shape \(3,\); must be \(2,\) or \(1, 2\)",
        ),
        ((np.zeros(2), np.zeros(2), np.zeros((2, 2))), actuon.ArrayError, r"target: got shape \(2, 2\)"),
        ((0.0, np.zeros(2), 0.0), actuon.ArrayError, r"q: got shape \(\)"),
        ((np.zeros(2, complex), np.zeros(2), 0.0), actuon.ArrayTypeError, "q: got dtype complex128"),
        ((np.array(["a", "b"]), np.zeros(2), 0.0), actuon.ArrayTypeError, "q: got dtype"),
        ((object(), np.zeros(2), 0.0), actuon.ArrayTypeError, "q: got object"),
        ((torch.zeros(2, requires_grad=True), np.zeros(2), 0.0), actuon.ArrayError, "actuon.torch"),
        ((np.zeros(2), torch.zeros(1, 3), 0.0), actuon.ArrayError, r"qd: got shape \(1, 3\)"),
        ((torch.zeros(2, dtype=torch.complex64), np.zeros(2), 0.0), actuon.ArrayTypeError, "q: got dtype complex64"),
        ((torch.zeros(2).to_sparse(), np.zeros(2), 0.0), actuon.ArrayTypeError, "q: got a tensor that NumPy cannot"),
        (([1j, 2.0], np.zeros(2), 0.0), actuon.ArrayTypeError, "q: got dtype complex128"),
        ((["1", "2"], np.zeros(2), 0.0), actuon.ArrayTypeError, "q: got dtype <U1"),
        ((wp.zeros(1, dtype=wp.vec2f, device="cpu"), np.zeros(2), 0.0), actuon.ArrayTypeError, "entries are vec2f"),
        ((None, np.zeros(2), 0.0), actuon.MissingArrayError, "^q: got None"),
        ((np.zeros(2), None, 0.0), actuon.MissingArrayError, "^qd: got None"),
        ((np.zeros(2), np.zeros(2), None), actuon.MissingArrayError, "^target: got None"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, error, said):
    motors = actuon.Motors(PD, JOINTS)
    with pytest.raises(error, match=said):
        motors.step(*arguments)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (np.zeros(3), "out: got shape"),
        (np.zeros(2, int), "out: got dtype int64; must be floats"),
        (torch.zeros(2, dtype=torch.int32), r"out: got dtype torch\.int32"),
        (wp.zeros(2, dtype=wp.int32, device="cpu"), "out: got dtype int32"),
        (np.broadcast_to(0.0, 2), "out: got an array that is read-only"),
        (torch.zeros(1).expand(2), "whose entries share memory"),
        ([0.0, 0.0], "out: got list"),
    ],
)
def test_refused_outputs_leave_the_memory_as_it_was(out, said):
    motors, other = (actuon.Motors(LATE, JOINTS) for _ in range(2))
    q = np.zeros(2)
    with pytest.raises(actuon.ArrayError, match=said):
        motors.step(q, q, 0.3, out=out)
    for target in (0.1, 0.2, 0.3):
        np.testing.assert_array_equal(motors.step(q, q, target), other.step(q, q, target))


@pytest.mark.parametrize(
    ("source", "joints", "error", "said"),
    [
        ("ak80-8", JOINTS, actuon.RobotFileError, "'ak80-8' is neither a file .* nor a motor; .*Did you mean 'ak80-9'"),
        (PD, None, actuon.StructureError, "joints: got None"),
        (PD, "hip", actuon.StructureError, "joints: got 'hip'; must be a list"),
        (PD, [], actuon.StructureError, "joints: got no names"),
        (PD, ["hip", "hip"], actuon.StructureError, "'hip' twice"),
        ({"hip": PD}, ["hop"], actuon.RobotFileError, "no actuator for joint 'hop'; .*'hip'"),
        ({"hip": 3}, None, actuon.StructureError, r"source\['hip'\]: got int"),
        (3, JOINTS, actuon.StructureError, "source: got int"),
        ("missing.yaml", JOINTS, actuon.RobotFileError, "missing.yaml"),
        ("robot.xml", JOINTS, actuon.RobotFileError, "'robot.xml' does not exist"),
        (
            actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0), effort_mode="implicit"),
            JOINTS,
            actuon.StructureError,
            "joint 'hip': got effort_mode 'implicit'.*must be 'explicit'",
        ),
    ],
)
def test_sources_that_are_none_are_refused(source, joints, error, said):
    with pytest.raises(error, match=said):
        actuon.Motors(source, joints)


def test_a_joint_that_the_file_leaves_out_is_named(yaml):
    with pytest.raises(actuon.RobotFileError, match="no actuator for joint 'hop'; .*hip"):
        actuon.Motors(yaml, joints=["knee", "hop"])


def test_a_robot_without_a_yaml_beside_it_is_refused(tmp_path):
    (tmp_path / "robot.xml").write_text("<mujoco/>")
    with pytest.raises(actuon.RobotFileError, match="has no actuon.yaml next to it; write one with 'actuon init'"):
        actuon.Motors(tmp_path / "robot.xml", JOINTS)


@pytest.mark.parametrize("joints", [tuple(JOINTS), np.array(JOINTS), dict.fromkeys(JOINTS), iter(JOINTS)])
def test_joints_may_be_any_collection_of_names(joints):
    assert actuon.Motors(PD, joints).joint_names == ("hip", "knee")


def test_inputs_that_no_stage_takes_are_refused():
    with pytest.raises(actuon.ParameterError, match="no stage takes an input 'target_vel'; .*Did you mean 'target_qd'"):
        actuon.Motors(PD, JOINTS).step(np.zeros(2), np.zeros(2), 0.0, target_vel=np.zeros(2))


def test_a_motor_by_name_says_the_gains_that_it_gets(caplog):
    with caplog.at_level(logging.WARNING, "actuon.actuators"):
        motors = actuon.Motors("ak80-9", joints=JOINTS)
    said = " ".join(record.message for record in caplog.records)
    assert "PDControlConfig(kp=" in said
    assert "rotor inertia of hip, knee (motors.armature)" in said
    config = motors.configs["hip"].controller
    effort = motors.step(np.zeros(2), np.zeros(2), 0.1, dt=DT)
    np.testing.assert_allclose(effort, 0.1 * config.kp, rtol=1e-5)


def test_friction_is_left_to_the_simulator_and_named(caplog):
    rubbing = actuon.ActuatorConfig(
        actuon.PDControlConfig(40.0, 1.0),
        transmission=actuon.GearTransmissionConfig(ratio=2.0, rotor_inertia=0.01),
        effects=[actuon.FrictionEffectConfig(dynamic=0.5, viscous=0.1)],
    )
    with caplog.at_level(logging.WARNING, "actuon.actuators"):
        motors = actuon.Motors({"hip": rubbing, "knee": PD}, num_envs=2)
    assert "friction of hip (motors.friction" in caplog.text
    np.testing.assert_allclose(motors.armature, [[0.04, 0.0]] * 2, rtol=1e-6)
    for _ in range(2):  # before a step, and after one
        np.testing.assert_allclose(motors.friction.dry, [[1.0, 0.0]] * 2, rtol=1e-6)
        np.testing.assert_allclose(motors.friction.viscous, [[0.4, 0.0]] * 2, rtol=1e-6)
        assert np.isnan(motors.telemetry().signals["motor_velocity"][:, 1]).all()
        effort = motors.step(np.zeros((2, 2)), np.zeros((2, 2)), 0.1, dt=DT)
    np.testing.assert_allclose(effort, 4.0, rtol=1e-5)


def test_friction_with_an_inertia_is_applied():
    rubbing = actuon.ActuatorConfig(
        actuon.PDControlConfig(40.0, 1.0),
        transmission=actuon.GearTransmissionConfig(ratio=2.0, rotor_inertia=0.01),
        effects=[actuon.FrictionEffectConfig(dynamic=0.5, viscous=0.1)],
    )
    motors = actuon.Motors(rubbing, JOINTS, inertia=[0.2, 0.4])
    q, qd = np.array([0.1, -0.1]), np.array([1.0, -0.2])
    effort = motors.step(q, qd, 0.3, dt=DT)
    wanted = pd(q, qd, 0.3, 0.0, 0.0, 40.0, 1.0)
    inertia = (np.array([0.2, 0.4]) + 0.04) / 4.0
    left = friction(wanted / 2.0, 0.0, 2.0 * qd, DT, inertia=inertia, viscous=0.1, dynamic=0.5)
    np.testing.assert_allclose(effort, 2.0 * left, rtol=1e-4)
    assert not motors.friction.dry.any()


def test_friction_follows_new_parameters_at_once(tmp_path):
    rubbing = actuon.ActuatorConfig(
        actuon.PDControlConfig(40.0, 1.0),
        effects=[actuon.FrictionEffectConfig(dynamic=0.5)],
        sensors=[actuon.DelaySensorConfig(0.02, shortest_dt=0.02)],
    )
    motors = actuon.Motors(rubbing, JOINTS)
    np.testing.assert_allclose(motors.friction.dry, 0.5, rtol=1e-6)
    motors.save(tmp_path / "motors.npz")
    motors.step(np.zeros(2), np.zeros(2), 0.1, dt=0.02)
    motors.randomize({"friction.dynamic": actuon.lab.Uniform(3.0, 3.0)})
    np.testing.assert_allclose(motors.friction.dry, 1.5, rtol=1e-6)
    motors.load(tmp_path / "motors.npz")
    np.testing.assert_allclose(motors.friction.dry, 0.5, rtol=1e-6)


def test_networks_compile_and_step_at_the_rate_that_they_were_trained_at(tmp_path):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    path = tmp_path / "net.safetensors"
    actuon.save_network(module, path, input_order="pos_vel", input_idx=[0], sample_dt=0.04)
    learned = actuon.ActuatorConfig(
        actuon.NeuralControlConfig(str(path)),
        effects=[actuon.FrictionEffectConfig(dynamic=0.5)],
        control_every=2,
    )
    motors = actuon.Motors({"hip": learned, "knee": PD})
    np.testing.assert_allclose(motors.friction.dry, [0.5, 0.0], rtol=1e-6)
    motors.compile()
    effort = motors.step(np.zeros(2), np.array([0.3, 0.3]), 0.1, dt=0.02)
    with torch.no_grad():
        expected = module(torch.tensor([0.1, 0.3])).item()
    np.testing.assert_allclose(effort, [expected, 3.7], rtol=1e-5)


def test_friction_stages_keep_an_inertia_of_their_own():
    given, lacking = (actuon.FrictionEffectConfig(dynamic=0.5, inertia=value) for value in (0.7, None))
    config = actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0), effects=[given, lacking])
    motors = actuon.Motors(config, JOINTS, inertia=0.2)
    held = [stage.inertia.numpy() for stage in motors.actuators[0].effects]
    np.testing.assert_allclose(held, [[0.7, 0.7], [0.2, 0.2]], rtol=1e-6)


@pytest.mark.parametrize("inertia", [0.0, -1.0, np.nan, [1.0, 2.0, 3.0], "heavy"])
def test_wrong_inertias_are_refused(inertia):
    with pytest.raises(actuon.ParameterError, match="inertia: got"):
        actuon.Motors(PD, JOINTS, inertia=inertia)


def test_reset_lets_some_robots_forget():
    motors = actuon.Motors(LATE, JOINTS, 3)
    zeros = np.zeros((3, 2))
    for target in (0.1, 0.2):
        motors.step(zeros, zeros, target)
    motors.reset([1])
    effort = motors.step(zeros, zeros, 0.3)
    np.testing.assert_allclose(effort, np.array([[4.0], [12.0], [4.0]]) * np.ones(2), rtol=1e-6)
    motors.reset()
    np.testing.assert_allclose(motors.step(zeros, zeros, 0.5), 20.0, rtol=1e-6)


def test_a_motor_that_trips_is_named(caplog):
    hot = actuon.ActuatorConfig(
        actuon.PDControlConfig(100.0, 0.0),
        [
            actuon.HeatClampingConfig(
                winding_thermal_resistance=1.0,
                housing_thermal_resistance=3.0,
                winding_time_constant=1.0,
                housing_time_constant=30.0,
                motor_constant=0.2,
                max_effort=2.0,
                derated_effort=2.0,
                derating_start=50.0,
                derating_end=60.0,
                trip_temperature=60.0,
            )
        ],
    )
    motors = actuon.Motors({"hip": hot, "knee": PD}, num_envs=2)
    zeros = np.zeros((2, 2))
    target = np.array([[0.0, 0.0], [1.0, 0.0]])
    with caplog.at_level(logging.WARNING, "actuon.actuators"):
        for _ in range(5):
            effort = motors.step(zeros, zeros, target, dt=1.0)
    (said,) = [record.message for record in caplog.records]
    assert "the motor of joint 'hip' of robot 1 has tripped at " in said
    assert effort[1, 0] == 0.0
    motors.reset()
    assert motors.step(zeros, zeros, target, dt=1.0)[1, 0] == 2.0


def test_robots_of_one_battery_share_it_and_others_do_not():
    powered = actuon.ActuatorConfig(
        actuon.PDControlConfig(40.0, 1.0),
        [
            actuon.BatteryClampingConfig(full_voltage=24.0, inner_resistance=0.5),
            actuon.VoltageClampingConfig(torque_constant=0.1, resistance=0.2),
        ],
    )
    pair, alone = actuon.Motors(powered, JOINTS, 2), actuon.Motors(powered, ["hip"])
    target = np.array([[0.1, 0.1], [0.1, 0.0]])
    for _ in range(3):
        pair.step(np.zeros((2, 2)), np.zeros((2, 2)), target, dt=DT)
        alone.step(np.zeros(1), np.zeros(1), 0.1, dt=DT)
    volts = pair.telemetry().signals["supply_voltage"]
    assert volts[0, 0] < volts[1, 0]
    assert volts[1, 0] == alone.telemetry().signals["supply_voltage"][0, 0]


def test_noise_differs_between_joints_and_robots_and_repeats():
    noisy = actuon.ActuatorConfig(
        actuon.PDControlConfig(0.0, 0.0), effects=[actuon.NoiseEffectConfig(noise=1.0, seed=3)]
    )
    zeros = np.zeros((4, 2))
    efforts = [actuon.Motors(noisy, JOINTS, 4).step(zeros, zeros, 0.0, dt=DT) for _ in range(2)]
    np.testing.assert_array_equal(*efforts)
    assert len(np.unique(efforts[0])) == 8


@pytest.mark.parametrize("dt", [None, 0.01])
def test_compiling_ahead_changes_nothing(dt):
    motors, other = (actuon.Motors(LATE, JOINTS) for _ in range(2))
    motors.compile(dt)
    for target in (0.1, 0.2, 0.3):
        efforts = [m.step(np.zeros(2), np.zeros(2), target) for m in (motors, other)]
        np.testing.assert_array_equal(*efforts)


def test_randomized_parameters_are_per_joint_and_robot_and_start_from_the_config():
    motors = actuon.Motors(PD, JOINTS, 4)
    zeros = np.zeros((4, 2))
    nominal = motors.step(zeros, zeros, 0.1)
    for _ in range(3):
        motors.randomize({"controller.kp": actuon.lab.Uniform(0.5, 1.5)}, env_ids=[1, 3], seed=7)
    drawn = motors.step(zeros, zeros, 0.1)
    np.testing.assert_array_equal(drawn[[0, 2]], nominal[[0, 2]])
    assert len(np.unique(drawn[[1, 3]])) == 4
    assert ((drawn / nominal >= 0.5) & (drawn / nominal <= 1.5)).all()
    motors.randomize({"controller.kp": actuon.lab.Uniform(1.0, 1.0)})
    np.testing.assert_array_equal(motors.step(zeros, zeros, 0.1), nominal)
    motors.randomize({"controller.kp": actuon.lab.Uniform(2.0, 2.0)}, joints=["kn.*"])
    np.testing.assert_allclose(motors.step(zeros, zeros, 0.1), nominal * [1.0, 2.0])


SECONDS = actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0), delay=actuon.TimeDelayConfig(0.01))


def arrival(motors, dt):
    """Time [s] after which a command arrives."""
    motors.reset()
    steps = (motors.step([0.0], [0.0], float(k > 0), dt=dt)[0] for k in range(100))
    return (next(k for k, effort in enumerate(steps) if effort) - 1) * dt


@pytest.mark.parametrize("has_stepped", [False, True])
def test_drawn_delays_have_their_length_at_every_time_step_that_is_taken(has_stepped):
    motors = actuon.Motors(SECONDS, ["hip"])
    if has_stepped:
        motors.step([0.0], [0.0], 0.0, dt=0.005)
    motors.randomize({"delay.delay": actuon.lab.Uniform(4.0, 4.0)})
    assert arrival(motors, 0.005) == pytest.approx(0.04)
    with pytest.raises(actuon.StateError, match=r"dt: got 0\.001; must be a finite number ≥ 0\.004 \[s\] for"):
        motors.step([0.0], [0.0], 1.0, dt=0.001)
    assert arrival(motors, 0.005) == pytest.approx(0.04)
    motors.randomize({"delay.delay": actuon.lab.Uniform(1.0, 1.0)})
    assert arrival(motors, 0.001) == pytest.approx(0.01)


def test_drawing_for_no_robot_changes_nothing():
    motors = actuon.Motors(PD, JOINTS, 2)
    motors.randomize({"controller.kp": actuon.lab.Uniform(2.0, 2.0)}, env_ids=[False, False])
    np.testing.assert_allclose(motors.step(np.zeros((2, 2)), np.zeros((2, 2)), 0.1), 4.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "needs either"),
        ({"parameters": {"controller.kq": actuon.lab.Uniform(0.5, 1.5)}}, "controller.kq"),
        ({"parameters": {"controller.kp": actuon.lab.Uniform(-2.0, -1.0)}}, "controller.kp: got"),
        ({"parameters": {"controller.kp": 3.0}}, "must be a distribution"),
        ({"parameters": {"controller.kp": actuon.lab.Uniform(0.5, 1.5)}, "joints": ["arm"]}, "arm"),
    ],
)
def test_draws_that_are_not_allowed_change_nothing(arguments, said):
    motors = actuon.Motors(PD, JOINTS, 2)
    with pytest.raises(actuon.ActuonError, match=said):
        motors.randomize(**arguments)
    np.testing.assert_allclose(motors.step(np.zeros((2, 2)), np.zeros((2, 2)), 0.1), 4.0, rtol=1e-6)


def test_saved_motors_go_on_bit_for_bit(tmp_path):
    motors, other = (actuon.Motors({"hip": PD, "knee": LATE}, num_envs=3) for _ in range(2))
    motors.randomize({"controller.kp": actuon.lab.Uniform(0.5, 1.5)}, seed=1)
    for target in (0.1, 0.2):
        motors.step(np.zeros((3, 2)), np.zeros((3, 2)), target)
    motors.save(tmp_path / "motors.npz")
    other.load(tmp_path / "motors.npz")
    for target in (0.3, 0.4, 0.5):
        efforts = [m.step(np.full((3, 2), 0.1), np.ones((3, 2)), target) for m in (motors, other)]
        np.testing.assert_array_equal(*efforts)


def test_draws_after_loading_start_from_what_the_motors_were_built_with(tmp_path):
    motors, other = (actuon.Motors(PD, JOINTS) for _ in range(2))
    motors.randomize({"controller.kp": actuon.lab.Uniform(2.0, 2.0)})
    motors.save(tmp_path / "motors.npz")
    other.load(tmp_path / "motors.npz")
    np.testing.assert_allclose(other.step(np.zeros(2), np.zeros(2), 0.1), 8.0, rtol=1e-6)
    other.randomize({"controller.kp": actuon.lab.Uniform(1.0, 1.0)})
    np.testing.assert_allclose(other.step(np.zeros(2), np.zeros(2), 0.1), 4.0, rtol=1e-6)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda motors: pickle.loads(pickle.dumps(motors))])
def test_copies_go_on_bit_for_bit_and_apart(copied):
    motors = actuon.Motors({"hip": PD, "knee": LATE}, num_envs=3, device="cpu")
    motors.randomize({"controller.kp": actuon.lab.Uniform(0.5, 1.5)}, seed=1)
    zeros = np.zeros((3, 2))
    for target in (0.1, 0.2):
        motors.step(zeros, zeros, target, feedforward=np.ones((3, 2)))
    other = copied(motors)
    np.testing.assert_array_equal(other.telemetry().applied_effort, motors.telemetry().applied_effort)
    expected = [motors.step(zeros, zeros, target) for target in (0.3, 0.4, 0.5)]
    np.testing.assert_array_equal([other.step(zeros, zeros, target) for target in (0.3, 0.4, 0.5)], expected)
    other.randomize({"controller.kp": actuon.lab.Uniform(1.0, 1.0)})
    np.testing.assert_allclose(other.step(zeros, zeros, 0.5), [[20.0, 16.0]] * 3, rtol=1e-6)  # the knee is late
    np.testing.assert_array_equal(motors.step(zeros, zeros, 0.5)[:, 0], expected[-1][:, 0])


@pytest.mark.parametrize("damage", ["gains", "ring", "joints", "missing", "more"])
def test_files_that_do_not_fit_change_nothing(tmp_path, damage):
    path = tmp_path / "motors.npz"
    motors = actuon.Motors(LATE, JOINTS, 3)
    motors.step(np.zeros((3, 2)), np.zeros((3, 2)), 0.1)
    motors.save(path)
    with np.load(path) as file:
        contents = dict(file)
    gains, ring = (next(key for key in contents if key.endswith(end)) for end in (".kp", ".pushes"))
    if damage == "gains":
        contents[gains] = np.full_like(contents[gains], -1.0)
    elif damage == "ring":
        contents[ring] = np.full_like(contents[ring], 100_000)
    elif damage == "missing":
        del contents[gains]
    elif damage == "more":
        contents[gains.replace(".kp", ".ki")] = contents[gains]
    np.savez(path, **contents)
    other = actuon.Motors(LATE, ["hip", "ankle"] if damage == "joints" else JOINTS, 3)
    other.step(np.zeros((3, 2)), np.zeros((3, 2)), 0.2)
    with pytest.raises(actuon.StateError, match=r"motors\.npz"):
        other.load(path)
    np.testing.assert_allclose(other.step(np.zeros((3, 2)), np.zeros((3, 2)), 0.3), 8.0, rtol=1e-6)


def test_motors_of_the_catalogue_need_warp_and_numpy_alone():
    code = (
        "import sys\n"
        "for name in ('ruamel', 'pxr', 'mujoco', 'torch', 'newton', 'cyclopts'): sys.modules[name] = None\n"
        "import numpy as np, actuon\n"
        "motors = actuon.Motors('ak80-9', joints=['hip'])\n"
        "assert np.isfinite(motors.step(np.zeros(1), np.zeros(1), 0.1, dt=0.005)).all()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dt", [-1.0, float("nan"), float("inf"), "0.002"])
def test_a_time_step_that_no_stage_uses_is_checked(dt):
    motors = actuon.Motors(PD, JOINTS)
    with pytest.raises(actuon.StateError, match="dt: got .*; must be a finite number ≥ 0"):
        motors.step(np.zeros(len(JOINTS)), np.zeros(len(JOINTS)), 0.1, dt=dt)
    assert np.isfinite(motors.step(np.zeros(len(JOINTS)), np.zeros(len(JOINTS)), 0.1)).all()
    actuator = actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0))
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
    sim = {key: np.zeros(1, np.float32) for key in names}
    with pytest.raises(actuon.StateError, match="dt: got"):
        actuator.step(sim, sim, dt=dt)
