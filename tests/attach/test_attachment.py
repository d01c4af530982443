# SPDX-License-Identifier: Apache-2.0
"""Features of both owners of joints: equal efforts to the last bit, signals of stages, saved states."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import pytest
import warp as wp

import actuon
from actuon import ArticulationActuators, MujocoSimulation, Recorder
from actuon.attach.groups.tensors import to_numpy
from actuon.lab import (
    ActuatorGroups,
    ArticulationActions,
    DelayedPDActuator,
    DelayedPDActuatorCfg,
    IdealPDActuator,
    IdealPDActuatorCfg,
    ImplicitActuatorCfg,
    Uniform,
)
from actuon.sim import Articulation
from tests.support.remembered import remembered

torch = pytest.importorskip("torch")
QUADRUPED, ARM = actuon.assets.quadruped_mjcf, actuon.assets.arm_mjcf
PARAMETERS = ("stiffness", "damping", "saturation_effort", "velocity_limit", "effort_limit")
LAG = 2
MOTOR = DelayedPDActuatorCfg(
    [".*_(hip|calf)_joint"],
    stiffness=40.0,
    damping=1.5,
    saturation_effort=30.0,
    velocity_limit=20.0,
    effort_limit=9.0,
    min_delay=LAG,
    max_delay=LAG,
)


@dataclass(frozen=True)
class WarmingConfig(actuon.Config):
    heating: float = actuon.param("°C/(N²·m²·s)", "Rise by the square of the effort.", minimum=0.0)
    loss: float = actuon.param("1/°C", "Share of the effort that a degree costs.", minimum=0.0)


@wp.func
def warming(effort: float, qd: float, dt: float, heat: float, heating: float, loss: float):
    warmer = heat + heating * effort * effort * dt
    return effort * (1.0 - loss * heat), warmer, effort * qd, warmer


class EffectWarming(actuon.Effect):
    """Loses effort as it warms up, and says how warm it is and what it gives."""

    config = WarmingConfig
    law = warming
    STATES = ("heat",)
    OUTPUTS = ("temperature_rise", "power")


class WarmPD(DelayedPDActuator):
    def make_stages(self):
        return [*super().make_stages(), EffectWarming(20.0, 0.01)]


def drive(owner, steps, seed=0):
    """Random targets and feedforward; what was recorded."""
    robots, rng = owner.articulation, np.random.default_rng(seed)
    home = robots.get_dof_position_targets().numpy()
    with Recorder(owner) as recorder:
        for _ in range(steps):
            robots.set_dof_position_targets(home + rng.normal(0.0, 0.3, home.shape))
            owner.set_dof_feedforward_effort_targets(rng.normal(0.0, 1.0, home.shape))
            robots.simulation.step()
    return recorder.data


def test_groups_their_models_and_articulation_actuators_give_the_same_bits(rng):
    """On joints apart from each other, of robots with a floating base, and with a value for each robot and joint."""
    with MujocoSimulation(QUADRUPED, 3) as simulation:
        robots = Articulation("base")
        groups = ActuatorGroups(robots, {"legs": MOTOR})
        legs = groups["legs"]
        values = {name: legs.numbers(name) * rng.uniform(0.7, 1.3, legs.shape) for name in PARAMETERS}
        for name, numbers in values.items():
            getattr(legs, name)[:] = torch.as_tensor(numbers, dtype=torch.float32)
        columns = robots.get_dof_indices(legs.joint_names).numpy()
        of_groups = drive(groups, 25)
        np.testing.assert_array_equal(of_groups["applied_effort"][-1][:, columns], to_numpy(legs.applied_effort))
        np.testing.assert_array_equal(of_groups["computed_effort"][-1][:, columns], to_numpy(legs.computed_effort))
        shown = legs.applied_effort.clone()
        groups.close()
        assert torch.equal(legs.applied_effort, shown)

    model = MOTOR.class_type(MOTOR, legs.joint_names, columns, 3, "cpu")
    for name in PARAMETERS:
        getattr(model, name)[:] = getattr(legs, name)
    commands = np.random.default_rng(0)
    for t in range(25):
        commands.normal(0.0, 0.3, (3, 12))
        given = [of_groups[name][t][:, columns] for name in ("position_target", "velocity_target")]
        feedforward = commands.normal(0.0, 1.0, (3, 12)).astype(np.float32)[:, columns]
        state = [of_groups[name][t][:, columns] for name in ("position", "velocity")]
        model.compute(ArticulationActions(*given, feedforward), *state)
        for name in ("computed_effort", "applied_effort"):
            np.testing.assert_array_equal(to_numpy(getattr(model, name)), of_groups[name][t][:, columns], err_msg=name)

    with MujocoSimulation(QUADRUPED, 3) as simulation:
        pairs = []
        for joint, name in enumerate(legs.joint_names):
            kp, kd, stall, speed, most = (wp.array(to_numpy(getattr(legs, p))[:, joint].copy()) for p in PARAMETERS)
            clamp = actuon.ClampingDCMotor(stall, speed, most)
            pairs.append((actuon.ActuatorConfig(actuon.ControllerPD(kp, kd), [clamp], actuon.DelayConfig(LAG)), name))
        actuators = ArticulationActuators.from_actuators("base", pairs)
        of_actuators = drive(actuators, 25)
        assert simulation.time > 0.0
    assert of_groups.keys() == of_actuators.keys()
    for name, series in of_groups.items():
        np.testing.assert_array_equal(series, of_actuators[name], err_msg=name)
    assert of_groups["clipped"].any()
    assert not of_groups["clipped"][..., columns].all()


def owner_of(kind, joints=("joint2", "joint6"), lag=LAG):
    """A late PD that warms up, on two joints of the arm, as either owner."""
    if kind == "actuators":
        motor = actuon.ActuatorConfig(
            actuon.PDControlConfig(200.0, 20.0),
            actuon.MaxEffortClampingConfig(40.0),
            actuon.DelayConfig(lag),
            effects=WarmingConfig(20.0, 0.01),
        )
        return ArticulationActuators.from_actuators("link0", [(motor, name) for name in joints])
    return ActuatorGroups(Articulation("link0"), {"two": warm(joints, lag, lag)})


def warm(joints, min_delay, max_delay):
    limits = {"stiffness": 200.0, "damping": 20.0, "effort_limit": 40.0}
    return DelayedPDActuatorCfg(list(joints), WarmPD, **limits, min_delay=min_delay, max_delay=max_delay)


def test_signals_of_stages_are_telemetry_and_recorded(tmp_path):
    told = {}
    for kind in ("actuators", "groups"):
        with MujocoSimulation(ARM, 2):
            owner = owner_of(kind)
            assert all(np.isnan(values).all() for values in owner.telemetry().signals.values())
            told[kind] = data = drive(owner, 20)
            power = data["power"]
            assert power.shape == (20, 2, 7)
            assert np.isnan(np.delete(power, [1, 5], axis=2)).all()
            last = owner.telemetry().signals
            assert list(last) == ["temperature_rise", "power"]
            np.testing.assert_array_equal(last["power"], power[-1])
            rise = data["temperature_rise"][..., [1, 5]]
            assert (np.diff(rise, axis=0) >= 0.0).all()
            assert rise[-1].min() > 0.1
            left = data["applied_effort"][..., [1, 5]] / (
                1.0 - 0.01 * np.concatenate([np.zeros_like(rise[:1]), rise[:-1]])
            )
            np.testing.assert_allclose(power[..., [1, 5]], left * data["velocity"][..., [1, 5]], rtol=1e-4, atol=1e-5)
            owner.reset([1])
            after = owner.telemetry().signals["power"]
            assert np.isnan(after[1]).all()
            np.testing.assert_array_equal(after[0], last["power"][0])
            owner.close()
    for name, series in told["actuators"].items():
        np.testing.assert_array_equal(series, told["groups"][name], err_msg=name)
    with MujocoSimulation(ARM) as simulation:
        owner = owner_of("actuators", ["joint1"])
        with Recorder(owner) as recorder:
            simulation.step(2)
        recorder.save(tmp_path / "run.csv")
        assert "power/joint1" in (tmp_path / "run.csv").read_text().splitlines()[0]


def test_powers_are_told_and_recorded(tmp_path, capsys):
    """Electrical power is mechanical power and copper loss, at the velocity that the actuators saw."""
    voltage = actuon.VoltageClampingConfig(torque_constant=0.5, resistance=0.8, bus_voltage=24.0, max_current=30.0)
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(200.0, 20.0), voltage)
    with MujocoSimulation(ARM, 2) as simulation:
        actuators = ArticulationActuators.from_actuators("link0", [(motor, "joint2")])
        assert not actuators.telemetry().mechanical_power.any()
        data = drive(actuators, 20)
        np.testing.assert_array_equal(data["mechanical_power"], data["applied_effort"] * data["velocity"])
        np.testing.assert_array_equal(data["electrical_power"], data["voltage"] * data["current"])
        mechanical, drawn = data["mechanical_power"][..., 1], data["electrical_power"][..., 1]
        assert np.abs(mechanical).max() > 1.0
        np.testing.assert_allclose(drawn, mechanical + 0.8 * data["current"][..., 1] ** 2, rtol=1e-4, atol=1e-3)
        assert np.isnan(np.delete(data["electrical_power"], 1, axis=2)).all()
        last = actuators.telemetry()
        np.testing.assert_array_equal(last.mechanical_power, data["mechanical_power"][-1])
        np.testing.assert_array_equal(last.electrical_power, data["electrical_power"][-1])
        simulation.step()
        np.testing.assert_array_equal(last.mechanical_power, data["mechanical_power"][-1])
        text = last.table(1)
        assert not capsys.readouterr().out
        header, *rows = text.splitlines()
        assert "mechanical power [W]" in header
        assert "current [A]" in header
        assert len(rows) == 7
        assert f"{drawn[-1, 1]:.4g}" in rows[1].split()
        actuators.close()
    with MujocoSimulation(ARM) as simulation:
        with Recorder(owner_of("groups", ["joint1"])) as recorder:
            simulation.step(2)
        recorder.save(tmp_path / "run.csv")
        header = (tmp_path / "run.csv").read_text().splitlines()[0]
        assert "mechanical_power/joint1" in header
        assert "electrical_power" not in header


@wp.func
def speaking(effort: float):
    return effort, effort


class ClampingClash(actuon.Clamping):
    law = speaking
    OUTPUTS = ("velocity",)


def test_a_signal_with_the_name_of_another_series_is_not_recorded():
    class Clashing(IdealPDActuator):
        def make_stages(self):
            return [*super().make_stages(), ClampingClash()]

    with MujocoSimulation(ARM) as simulation:
        cfg = IdealPDActuatorCfg(["joint1"], Clashing, stiffness=1.0, damping=1.0)
        groups = ActuatorGroups(Articulation("/link0"), {"a": cfg})
        simulation.step()
        assert "velocity" in groups.telemetry().signals
        with pytest.raises(actuon.StructureError, match="the signal 'velocity' has the name of another series"):
            Recorder(groups)


def engine_state(simulation, states=None):
    """The state of the engine; or set it."""
    kind = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    size = mujoco.mj_stateSize(simulation.models[0], kind)
    if states is None:
        states = np.empty((simulation.num_envs, size))
        for i, data in enumerate(simulation.data):
            mujoco.mj_getState(simulation.models[i], data, states[i], kind)
    else:
        for i, data in enumerate(simulation.data):
            mujoco.mj_setState(simulation.models[i], data, states[i], kind)
    return states


@pytest.mark.parametrize("kind", ["actuators", "groups", "random lags"])
def test_a_saved_run_goes_on_bit_for_bit(kind, tmp_path):
    def owner():
        if kind == "actuators":
            return owner_of(kind)
        cfg = warm(["joint2", "joint6"], *((LAG, LAG) if kind == "groups" else (0, 4)))
        wrist = ImplicitActuatorCfg(["joint7"], stiffness=100.0, damping=5.0)
        return ActuatorGroups(Articulation("link0"), {"two": cfg, "wrist": wrist})

    path = tmp_path / "actuators.npz"
    with MujocoSimulation(ARM, 2) as simulation:
        first = owner()
        drive(first, 12)
        first.save_state(path)
        engine = engine_state(simulation)
        expected = drive(first, 10, seed=1)
        first.reset([1])
        afterwards = drive(first, 5, seed=2)
    with MujocoSimulation(ARM, 2) as simulation:
        other = owner()
        engine_state(simulation, engine)
        other.load_state(path)
        assert simulation.is_running
        going = drive(other, 10, seed=1)
        other.reset([1])
        again = drive(other, 5, seed=2)
    for series, wanted in ((going, expected), (again, afterwards)):
        for name in wanted.keys() - {"time"}:
            np.testing.assert_array_equal(series[name], wanted[name], err_msg=name)


def randomised_groups():
    cfg = warm(["joint2", "joint6"], LAG, LAG)
    wrist = ImplicitActuatorCfg(["joint7"], stiffness=100.0, damping=5.0)
    return ActuatorGroups(Articulation("link0"), {"two": cfg, "wrist": wrist})


def randomise_groups(groups, seed=3):
    for name, group in (("stiffness", "two"), ("armature", "two"), ("friction", "wrist"), ("stiffness", "wrist")):
        draw = Uniform(0.05, 0.2, "set") if name in ("armature", "friction") else Uniform(0.5, 1.5)
        groups[group].randomize(name, draw, seed=seed)
    groups["two"].damping[:] = 0.2 * seed
    groups["two"].stages[-1].loss = [0.0, 0.02, 0.01, 0.03]


def randomised_actuators():
    gear = actuon.GearTransmissionConfig(ratio=3.0, rotor_inertia=0.01)
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.5), transmission=gear)
    return ArticulationActuators.from_actuators("link0", [(motor, "joint2"), (motor, "joint6")])


def randomise_actuators(actuators, seed=3):
    (actuator,) = actuators.actuators
    actuator.controller.kp = [20.0, 30.0, 50.0, 20.0 * seed]
    actuator.transmission.efficiency = [0.9, 0.8, 0.7, 0.6]


@pytest.mark.parametrize(
    ("make", "randomise"),
    [(randomised_groups, randomise_groups), (randomised_actuators, randomise_actuators)],
    ids=["groups", "actuators"],
)
def test_a_saved_run_goes_on_with_the_parameters_it_had(make, randomise, tmp_path):
    """In a simulation whose actuators are as they were built, engine's own parameters included."""
    path = tmp_path / "state.npz"
    with MujocoSimulation(ARM, 2) as simulation:
        first = make()
        randomise(first)
        drive(first, 5)
        first.save_state(path)
        engine, expected = engine_state(simulation), drive(first, 10, seed=1)
        properties = [model.dof_armature.tolist() + model.dof_frictionloss.tolist() for model in simulation.models]
        saved = remembered(first)
    for change in (lambda owner: None, lambda owner: randomise(owner, 4)):
        with MujocoSimulation(ARM, 2) as simulation:
            other = make()
            change(other)
            engine_state(simulation, engine)
            other.load_state(path)
            going = drive(other, 10, seed=1)
            now = [model.dof_armature.tolist() + model.dof_frictionloss.tolist() for model in simulation.models]
            assert now == properties
            for name in expected.keys() - {"time"}:
                np.testing.assert_array_equal(going[name], expected[name], err_msg=name)
            if make is randomised_groups:
                assert "saved state" in other["two"].resolution_table()
            other.close()

    without = {key: values for key, values in saved.items() if not key.startswith("parameters/")}
    np.savez(tmp_path / "less.npz", **without)
    key = next(key for key in saved if key.endswith(("/stiffness", ".kp")))
    np.savez(tmp_path / "damaged.npz", **saved | {key: np.full_like(saved[key], -1.0)})
    with MujocoSimulation(ARM, 2) as simulation:
        other = make()
        before = remembered(other)[key]
        for name, said in (("damaged.npz", "-1"), ("less.npz", "'parameters/.*' is missing")):
            with pytest.raises(actuon.StateError, match=f"{name}.*{said}"):
                other.load_state(tmp_path / name)
            np.testing.assert_array_equal(remembered(other)[key], before)


def set_damping_of_groups(owner, value):
    for model in owner.groups.values():
        model.damping[:] = value


def set_damping_of_actuators(owner, value):
    for actuator in owner.actuators:
        actuator.controller.kd = [value] * actuator.num_actuators


@pytest.mark.parametrize(
    ("make", "set_damping"),
    [(randomised_groups, set_damping_of_groups), (randomised_actuators, set_damping_of_actuators)],
    ids=["groups", "actuators"],
)
def test_the_sign_of_a_zero_is_saved_too(make, set_damping, tmp_path):
    with MujocoSimulation(ARM, 2):
        owner = make()
        set_damping(owner, -0.0)
        owner.save_state(tmp_path / "state.npz")
        set_damping(owner, 0.0)
        owner.load_state(tmp_path / "state.npz")
        found = [values for key, values in remembered(owner).items() if key.endswith(("/damping", ".kd"))]
        assert found
        assert all(np.signbit(values).all() for values in found)


@pytest.mark.parametrize(
    ("delay", "name", "value", "message"),
    [
        (actuon.DelayConfig(3), "delay_steps", 4, r"delay_steps: got 4 .*max_delay, 3"),
        (actuon.TimeDelayConfig(delay=0.006), "delay", 0.05, r"got 0.05 s of delay.*its buffer holds 0.012 s"),
    ],
    ids=["steps", "seconds"],
)
def test_a_saved_delay_that_there_is_no_memory_for_is_refused(delay, name, value, message, tmp_path):
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.5), delay=delay)
    with MujocoSimulation(ARM) as simulation:
        actuators = ArticulationActuators.from_actuators("link0", [(motor, "joint2")])
        simulation.step(3)
        saved, before = remembered(actuators), simulation.time
        (key,) = (key for key in saved if key.endswith(f".{name}"))
        np.savez(tmp_path / "damaged.npz", **saved | {key: np.full_like(saved[key], value)})
        with pytest.raises(actuon.StateError, match=rf"damaged.npz.*{message}"):
            actuators.load_state(tmp_path / "damaged.npz")
        np.testing.assert_array_equal(remembered(actuators)[key], saved[key])
        assert simulation.time == before


def test_the_shortest_time_step_of_a_delay_is_saved_too(tmp_path):
    """The file's decides which time steps there is memory for, not that of the actuators that read it."""
    motor = actuon.ActuatorConfig(
        actuon.PDControlConfig(40.0, 1.5), delay=actuon.TimeDelayConfig(delay=0.006, shortest_dt=0.001)
    )
    with MujocoSimulation(ARM) as simulation:
        actuators = ArticulationActuators.from_actuators("link0", [(motor, "joint2")])
        (stage,) = (stage for stage in actuators.actuators[0].stages if hasattr(stage, "shortest_dt"))
        stage.shortest_dt = 0.0015
        actuators.save_state(tmp_path / "state.npz")
        stage.shortest_dt = 0.001
        simulation.models[0].opt.timestep = 0.001
        simulation.step()
        actuators.load_state(tmp_path / "state.npz")
        with pytest.raises(actuon.StateError, match=r"dt: got 0.001; must be a finite number ≥ 0.0015"):
            simulation.step()


def test_the_feedforward_is_saved_too(tmp_path):
    with MujocoSimulation(ARM, 2) as simulation:
        actuators = ArticulationActuators.from_actuators(
            "link0", [(actuon.ActuatorConfig(actuon.PDControlConfig(0.0, 0.0)), "joint1")]
        )
        actuators.set_dof_feedforward_effort_targets([[1.0], [2.0]], dof_indices=[0])
        actuators.save_state(tmp_path / "state.npz")
        actuators.set_dof_feedforward_effort_targets(0.0)
        actuators.load_state(tmp_path / "state.npz")
        simulation.step()
        assert actuators.telemetry().applied_effort[:, 0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", ["actuators", "groups"])
def test_a_state_of_other_actuators_is_refused_by_name(kind, tmp_path):
    path = tmp_path / "state.npz"
    name = {"actuators": r"actuators\[0\]", "groups": "group 'two'"}[kind]
    with MujocoSimulation(ARM, 2) as simulation:
        owner = owner_of(kind)
        simulation.step(3)
        owner.save_state(path)
        owner.close()
        for wrong, match in (
            (
                {"joints": ("joint2", "joint5")},
                f"the state of {name} on joint2, joint6; here are {name} on joint2, joint5",
            ),
            ({"lag": 3}, f"{name}: is the state of motors with Delay of 2 steps; this one has Delay of 3 steps"),
        ):
            with owner_of(kind, **wrong) as other, pytest.raises(actuon.StateError, match=match):
                other.load_state(path)
        with owner_of(kind) as other:
            simulation.step(3)
            before = remembered(other)
            with np.load(path) as saved:
                contents = dict(saved)
            for key in contents:
                np.savez(tmp_path / "less.npz", **{k: v for k, v in contents.items() if k != key})
                with pytest.raises(actuon.StateError, match="is missing|is not the state|got no version"):
                    other.load_state(tmp_path / "less.npz")
            for damage in (b"", path.read_bytes()[:200]):
                (tmp_path / "less.npz").write_bytes(damage)
                with pytest.raises(actuon.StateError, match="cannot be read as the state of actuators on robots"):
                    other.load_state(tmp_path / "less.npz")
            for key, values in remembered(other).items():
                np.testing.assert_array_equal(values, before[key])
        with pytest.raises(actuon.SimulationError, match="closed"):
            owner.save_state(path)
    with MujocoSimulation(ARM, 3):
        other = owner_of(kind)
        with pytest.raises(actuon.StateError, match="the state of 2 robots; here are 3 robots"):
            other.load_state(path)
