# SPDX-License-Identifier: Apache-2.0
"""Chains of joints in many environments over PyTorch tensors, as mjlab steps them; without mjlab."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch
import warp as wp

import actuon
from actuon.attach.mjlab.chains import INPUTS, EnvironmentMotors
from actuon.attach.solved_by_engine import solved_by_engine
from tests.support.torch_networks import LSTM

ENVS, DT = 4, 0.005
PD = actuon.PDControlConfig(40.0, 1.0)
HOT = actuon.HeatClampingConfig(
    winding_thermal_resistance=0.5,
    housing_thermal_resistance=2.0,
    winding_time_constant=1.0,
    housing_time_constant=100.0,
    motor_constant=0.2,
    max_effort=30.0,
    derated_effort=5.0,
    derating_start=60.0,
    derating_end=90.0,
)
LATE = actuon.ActuatorConfig(PD, [actuon.MaxEffortClampingConfig(12.0)], actuon.DelayConfig(3))
WARM = actuon.ActuatorConfig(PD, [HOT], actuon.DelayConfig(2), effects=[actuon.CurrentLoopEffectConfig(0.01)])
JOINTS = {"hip": LATE, "thigh": WARM, "calf": LATE}


def chains(configs=JOINTS, **options):
    in_engine = options.pop("in_engine", [True] * len(configs))
    return EnvironmentMotors(configs, in_engine, ENVS, wp.get_device("cpu"), DT)


def command(step, joints=3):
    rng = np.random.default_rng(step)
    return {name: torch.as_tensor(rng.normal(size=(ENVS, joints)).astype(np.float32)) for name in INPUTS}


def efforts(made, steps, before=lambda made, step: None):
    found = []
    for step in range(steps):
        before(made, step)
        found.append(made.run(command(step)))
        made.advance()
    return torch.stack(found)


def test_efforts_are_those_of_each_joints_own_actuator():
    """Joints of one kind are one actuator, and joints of both kinds write to their own columns."""
    found = efforts(chains(), 12).numpy()
    for column, config in enumerate(JOINTS.values()):
        actuator = actuon.Actuator(range(ENVS), stages=config.stages)
        state = actuator.state()
        for step in range(12):
            given = command(step)
            sim = {array: given[name][:, column].contiguous().numpy() for name, array in INPUTS.items()}
            sim["joint_f"] = np.zeros(ENVS, np.float32)
            actuator.step(sim, sim, state, state, DT)
            np.testing.assert_array_equal(found[step, :, column], sim["joint_f"])
    assert len(chains().actuators) == 2


def test_efforts_that_are_asked_for_again_change_nothing():
    """mjlab asks for efforts of all environments after a reset of some, and physics does not move on."""
    plain = efforts(chains(), 12)
    again = efforts(chains(), 12, before=lambda made, step: made.run(command(100 + step)))
    assert torch.equal(plain, again)


def test_a_reset_in_the_middle_is_of_its_environments_alone():
    def reset_some(made, step):
        if step == 6:
            made.reset(torch.tensor([1, 3]))
            made.run(command(77))

    plain, reset = efforts(chains(), 12), efforts(chains(), 12, reset_some)
    others = [0, 2]
    assert torch.equal(plain[:, others], reset[:, others])
    assert not torch.equal(plain[6, [1, 3]], reset[6, [1, 3]])
    fresh = chains()
    for step in range(6, 12):
        assert torch.equal(reset[step, [1, 3]], fresh.run(command(step))[[1, 3]])
        fresh.advance()


def test_a_network_with_a_memory_forgets_with_its_environment(tmp_path):
    actuon.save_network(LSTM(), tmp_path / "lstm.safetensors")
    config = actuon.ActuatorConfig(actuon.NeuralControlConfig(str(tmp_path / "lstm.safetensors")))
    joints = dict.fromkeys(("hip", "thigh", "calf"), config)

    def reset_one(made, step):
        if step == 4:
            made.reset([2])

    plain, reset = efforts(chains(joints), 8), efforts(chains(joints), 8, reset_one)
    assert torch.equal(plain[:, [0, 1, 3]], reset[:, [0, 1, 3]])
    assert torch.equal(reset[4, 2], chains(joints).run(command(4))[2])
    assert not torch.equal(reset[4, 2], plain[4, 2])


def test_a_reset_between_efforts_and_physics():
    """And physics that is said to have moved twice."""
    made = chains()
    efforts(made, 5)
    made.run(command(5))
    made.reset([0, 3])
    made.advance()
    made.advance()
    plain, fresh = efforts(chains(), 12), chains()
    for step in range(6, 12):
        found = made.run(command(step))
        assert torch.equal(found[[1, 2]], plain[step, [1, 2]])
        assert torch.equal(found[[0, 3]], fresh.run(command(step))[[0, 3]])
        made.advance()
        fresh.advance()


def test_motors_of_an_environment_share_its_battery():
    clamps = [
        actuon.BatteryClampingConfig(full_voltage=24.0, inner_resistance=0.1),
        actuon.VoltageClampingConfig(torque_constant=0.1, resistance=1.2),
    ]
    strong = actuon.ActuatorConfig(actuon.PDControlConfig(1e4, 0.0), clamps)
    made = chains(dict.fromkeys(("hip", "thigh", "calf"), strong))
    given = {name: torch.zeros(ENVS, 3) for name in INPUTS}
    given["position_target"][0] = 1.0
    given["position_target"][1:, 0] = 1.0
    for _ in range(20):
        made.run(given)
        made.run(given)
        made.advance()
    supply = made.signals["supply_voltage"]
    torch.testing.assert_close(supply[0], torch.full((3,), 24.0 / (1 + 0.1 * 3 / 1.2)))
    torch.testing.assert_close(supply[1:], torch.full((ENVS - 1, 3), 24.0 / (1 + 0.1 / 1.2)))


@pytest.mark.parametrize("ids", [None, slice(None), torch.arange(ENVS), [True] * ENVS])
def test_a_reset_of_all(ids):
    made = chains()
    efforts(made, 5)
    made.reset(ids)
    assert torch.equal(efforts(made, 5), efforts(chains(), 5))


@pytest.mark.parametrize("ids", [[ENVS], [-1], torch.tensor([0.5]), [[0]]])
def test_environments_that_are_not_there(ids):
    made = chains()
    with pytest.raises(actuon.SimulationError, match="env_ids: got .*; must be whole numbers from 0 to 3"):
        made.reset(ids)
    with pytest.raises(actuon.SimulationError, match="env_ids: got .*; must be whole numbers from 0 to 3"):
        made.set_parameter("controller.kp", torch.tensor(1.0), ids)
    assert torch.equal(efforts(made, 5), efforts(chains(), 5))


@pytest.mark.parametrize(
    ("tensor", "error", "match"),
    [
        (torch.zeros(ENVS, 3, device="meta"), actuon.ArrayError, "vel: got a tensor on 'meta'; .* runs on 'cpu'"),
        (torch.zeros(ENVS, 3, dtype=torch.float64), actuon.ArrayTypeError, "vel: got dtype torch.float64; must be"),
        (torch.zeros(3, ENVS), actuon.ArrayError, r"vel: got shape \(3, 4\); must be \(4, 3\)"),
        (np.zeros((ENVS, 3), np.float32), actuon.ArrayTypeError, "vel: got ndarray; must be a PyTorch tensor"),
        (torch.zeros(ENVS, 3, requires_grad=True), actuon.ArrayError, "vel: got a PyTorch tensor that requires grad"),
    ],
)
def test_tensors_that_cannot_be(tensor, error, match):
    made = chains()
    plain = efforts(chains(), 3)
    with pytest.raises(error, match=match):
        made.run(command(0) | {"vel": tensor})
    assert torch.equal(efforts(made, 3), plain)


def test_tensors_that_are_not_contiguous():
    spread = {name: tensor.T.contiguous().T for name, tensor in command(0).items()}
    assert not spread["pos"].is_contiguous()
    assert torch.equal(chains().run(spread), chains().run(command(0)))


def test_parameters_of_environments():
    made = chains()
    assert torch.equal(made.parameter("controller.kp"), torch.full((ENVS, 3), 40.0))
    made.set_parameter("controller.kp", torch.tensor([[50.0], [60.0]]), torch.tensor([1, 2]))
    expected = torch.tensor([40.0, 50.0, 60.0, 40.0])[:, None].expand(ENVS, 3)
    assert torch.equal(made.parameter("controller.kp"), expected)
    assert torch.equal(made.parameter("controller.kp", default=True), torch.full((ENVS, 3), 40.0))
    still = {name: torch.zeros(ENVS, 3) for name in INPUTS} | {"position_target": torch.full((ENVS, 3), 0.1)}
    assert torch.equal(made.run(still)[:, 0], torch.tensor([4.0, 5.0, 6.0, 4.0]))
    lags = made.parameter("delay.delay_steps")
    assert lags[0].tolist() == [3.0, 2.0, 3.0]
    made.set_parameter("delay.delay_steps", torch.zeros(3), [3])
    assert made.parameter("delay.delay_steps")[:, 0].tolist() == [3.0, 3.0, 3.0, 0.0]
    assert made.parameter("effect.time_constant").isnan().tolist() == [[True, False, True]] * ENVS


def test_parameters_are_called_by_kind_type_and_position_of_their_stage():
    made = chains()
    for path, joints in (("1.kp", 3), ("pd.kp", 3), ("clamping.max_effort", 3), ("max_effort.max_effort", 2)):
        assert path in made.parameter_names
        assert made.parameter(path).isfinite().sum() == joints * ENVS
    made.set_parameter("1.kp", torch.tensor(7.0))
    assert torch.equal(made.parameter("controller.kp"), made.parameter("pd.kp"))
    assert torch.equal(made.parameter("pd.kp"), torch.full((ENVS, 3), 7.0))


def test_implicit_efforts_come_with_their_derivatives():
    """The efforts are the same to the last bit."""
    modes = {name: config.copy() for name, config in JOINTS.items()}
    modes["hip"].effort_mode = modes["thigh"].effort_mode = "implicit"
    made = chains(modes)
    assert torch.equal(efforts(made, 12), efforts(chains(), 12))
    still = {name: torch.zeros(ENVS, 3) for name in INPUTS}
    made.set_parameter("controller.kd", torch.tensor([[2.0], [3.0]]), [1, 2])
    made.signals["effort_derivative_qd"][:, :2] = torch.nan
    made.reset()
    made.run(still)
    derivatives = made.signals["effort_derivative_qd"]
    assert derivatives[:, 0].tolist() == [-1.0, -2.0, -3.0, -1.0]
    assert (derivatives[:, 1] < 0.0).all()
    assert derivatives[:, 2].isnan().all()
    assert "effort_derivative_qd" not in chains().signals


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("controller.kpp", 1.0, "no parameter 'controller.kpp'; .*Did you mean 'controller.kp'"),
        ("controller.kp", -1.0, "ControllerPD.kp: got -1.0 at index 0; must be finite and ≥ 0"),
        ("controller.kp", float("nan"), "ControllerPD.kp: got nan"),
        ("delay.delay_steps", 4.0, "Delay.delay_steps: got 4.*; must be at most max_delay, "),
        ("delay.delay_steps", 0.5, "(?s)Delay.delay_steps: got .*; must be a whole number"),
        ("controller.kp", [1.0, 2.0], r"controller.kp: got values of shape \(2,\); must fit \(4, 3\)"),
    ],
)
def test_parameters_that_cannot_be(name, value, match):
    made = chains()
    with pytest.raises(actuon.ParameterError, match=match):
        made.set_parameter(name, torch.tensor(value))
    assert torch.equal(efforts(made, 3), efforts(chains(), 3))


def test_signals_are_shown_for_the_joints_that_have_them():
    made = chains()
    efforts(made, 3)
    temperature = made.signals["temperature"]
    assert temperature.isnan().tolist() == [[True, False, True]] * ENVS
    assert (temperature[:, 1] > 25.0).all()


def test_what_an_engine_holds_of_a_chain():
    friction, gear = actuon.FrictionEffectConfig, actuon.GearTransmissionConfig
    side = solved_by_engine(actuon.ActuatorConfig(PD), takes_varying=True)
    assert (side.armature, side.frictionloss, side.damping, side.solves_friction) == (None, None, None, True)
    geared = actuon.ActuatorConfig(
        PD, transmission=gear(6.0, rotor_inertia=1e-4), effects=[friction(0.02, 0.001), friction(0.01)]
    )
    side = solved_by_engine(geared, takes_varying=True)
    assert (side.armature, side.solves_friction) == (pytest.approx(3.6e-3), True)
    assert (side.frictionloss, side.damping) == (pytest.approx(6 * 0.03), pytest.approx(36 * 0.001))
    for name in ("static", "load_motor"):
        values = {"dynamic": 0.1, "viscous": 0.01, "stribeck_velocity": 0.1, name: 0.2}
        config = actuon.ActuatorConfig(PD, effects=[friction(**values)])
        side = solved_by_engine(config, takes_varying=True)
        assert (side.damping, side.solves_friction, side.varies) == (pytest.approx(0.01), True, True)
        assert side.frictionloss == pytest.approx(0.2 if name == "static" else 0.1)
        with pytest.raises(actuon.StructureError, match="EffectFriction: needs inertia"):
            solved_by_engine(config, takes_varying=False)
        config.effects = [friction(**values, inertia=0.1)]
        side = solved_by_engine(config, takes_varying=True)
        assert (side.frictionloss, side.damping, side.solves_friction, side.varies) == (None, None, False, False)


def test_parameters_that_the_model_holds_stay():
    """Unless friction is handed over at each step."""
    gear = actuon.GearTransmissionConfig(6.0, rotor_inertia=1e-4)
    config = actuon.ActuatorConfig(PD, transmission=gear, effects=[actuon.FrictionEffectConfig(0.1)])
    made = chains({"hip": LATE, "knee": config}, in_engine=[True, True])
    for name in ("transmission.rotor_inertia", "transmission.ratio"):
        with pytest.raises(actuon.ParameterError, match=f"{name}: would change the inertia of .*dr.dof_armature"):
            made.set_parameter(name, torch.tensor(2.0), [1])
    with pytest.raises(actuon.ParameterError, match="effect.dynamic: would change the friction .*solve_friction"):
        made.set_parameter("effect.dynamic", torch.tensor(2.0), [1])
    assert made.parameter("effect.dynamic")[:, 1].tolist() == [pytest.approx(0.1)] * ENVS
    assert made.parameter("transmission.ratio")[:, 1].tolist() == [6.0] * ENVS
    made.friction_is_handed_over = True
    made.set_parameter("effect.dynamic", torch.tensor(2.0), [1])
    made.run({name: torch.zeros(ENVS, 2) for name in INPUTS})
    assert made.signals["dry_friction"][:, 1].tolist() == pytest.approx([0.6, 12.0, 0.6, 0.6])


def test_friction_stays_in_the_chain_where_it_changes_with_speed():
    friction = dict(dynamic=1.0, static=2.0, stribeck_velocity=0.1)
    config = actuon.ActuatorConfig(
        actuon.PDControlConfig(0.0, 0.0), effects=[actuon.FrictionEffectConfig(**friction, inertia=0.01)]
    )
    made = chains({"knee": config}, in_engine=[False])
    still = {name: torch.zeros(ENVS, 1) for name in INPUTS} | {"effort_target": torch.full((ENVS, 1), 1.9)}
    assert torch.equal(made.run(still), torch.zeros(ENVS, 1))
    config.effects = [actuon.FrictionEffectConfig(**friction)]
    with pytest.raises(actuon.StructureError, match="EffectFriction: needs inertia"):
        chains({"knee": config}, in_engine=[False])


def test_a_chain_that_cannot_be_built_names_its_joint():
    broken = actuon.ActuatorConfig(actuon.ControllerPD(1.0, 0.0))
    with pytest.raises(actuon.StructureError, match="joint 'knee': .*a builder accepts configs of numbers"):
        chains({"hip": LATE, "knee": broken}, in_engine=[True, True])


@pytest.mark.skipif(importlib.util.find_spec("mjlab") is not None, reason="mjlab is installed")
def test_without_mjlab_the_error_says_what_to_install():
    with pytest.raises(actuon.MissingExtraError, match=r"actuon.mjlab needs .*pip install 'mjlab~=1.6.0'"):
        importlib.import_module("actuon.mjlab")


def test_parameters_are_drawn_for_some_joints_of_some_environments():
    made = chains()
    made.randomize("controller.kp", actuon.lab.Uniform(0.5, 1.5), [1, 2], ["hip", "calf"])
    gains = made.parameter("controller.kp")
    assert (gains[[0, 3]] == 40.0).all()
    assert (gains[:, 1] == 40.0).all()
    assert gains[1:3, [0, 2]].unique().numel() == 4
    made.randomize("controller.kp", actuon.lab.Uniform(2.0, 2.0))  # of the values at first
    assert (made.parameter("controller.kp") == 80.0).all()
    made.randomize("controller.kp", actuon.lab.Uniform(2.0, 2.0), default=False)
    assert (made.parameter("controller.kp") == 160.0).all()
    assert (made.parameter("controller.kp", default=True) == 40.0).all()
    made.randomize("max_effort.max_effort", actuon.lab.Uniform(0.5, 0.5), joints=["hip", "thigh"])
    assert made.parameter("max_effort.max_effort")[0, [0, 2]].tolist() == [6.0, 12.0]
    with pytest.raises(actuon.ParameterError, match="joint .hip. of robot 0: controller.kp: got -"):
        made.randomize("controller.kp", actuon.lab.Uniform(-2.0, -1.0))
    assert (made.parameter("controller.kp") == 160.0).all()


def test_built_values_stay_after_an_assignment():
    made = chains()
    for actuator in made.actuators:
        actuator.controller.kp = 99.0
    assert (made.parameter("controller.kp", default=True) == 40.0).all()
    made.randomize("controller.kp", actuon.lab.Uniform(2.0, 2.0))
    assert (made.parameter("controller.kp") == 80.0).all()
