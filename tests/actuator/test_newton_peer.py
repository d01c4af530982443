# SPDX-License-Identifier: Apache-2.0
"""Newton's own actuators with equal stages give equal efforts."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon
import actuon.newton
from tests.support.chains import NAMES, Values, random_signals, rollout, simulation

newton_actuators = pytest.importorskip("newton.actuators")

CLASSES = {"ControllerPD": "DrivePD", "ControllerPID": "DrivePID"}


def newton_parts(values):
    """Controller, delay and clamps of Newton's own."""

    def build(name, parameters):
        cls = getattr(newton_actuators, CLASSES.get(name, name))
        if name == "ClampingPositionBased":
            return cls(**{key: tuple(value.tolist()) for key, value in parameters.items()})
        return cls(**{key: wp.array(value) for key, value in parameters.items()})

    gains = values.gains | {"const_effort": values.gains.get("const_effort", np.zeros(values.n, np.float32))}
    delay = None if values.lags is None else newton_actuators.Delay(wp.array(values.lags), values.depth)
    return {
        "drive": build(values.controller, gains),
        "delay": delay,
        "clamping": [build(*clamp) for clamp in values.clamps],
    }


def newton_actuator(values):
    indices = wp.array(np.arange(values.n), dtype=wp.uint32)
    return newton_actuators.Actuator(indices, **newton_parts(values), target_pos_indices=indices)


def efforts_of_newton(values, steps, masks):
    """Return the efforts of Newton's own actuator, whose two states are swapped."""
    actuator = newton_actuator(values)
    first, second = actuator.state(), actuator.state()
    efforts = []
    for t, signals in enumerate(steps):
        if t in masks and first is not None:
            first.reset(wp.array(masks[t]))
        sim = simulation(signals)
        actuator.step(sim, sim, first, second, dt=0.01)
        efforts.append(sim.joint_f.numpy())
        first, second = second, first
    return efforts


@pytest.mark.parametrize("name", [name for name in NAMES if "table_dc_max" in name])
def test_same_efforts(name, rng):
    n = 70
    values = Values.random(name, n, rng)
    steps = [random_signals(n, rng) for _ in range(12)]
    masks = {6: rng.random(n) < 0.4}
    expected = efforts_of_newton(values, steps, masks)
    np.testing.assert_allclose(rollout(values.actuator(), steps, masks=masks), expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", [name for name in NAMES if "table_dc_max" in name])
def test_newtons_own_components_are_stages(name, rng):
    """Kernels of Newton run on equal numbers, whichever way states are passed."""
    values = Values.random(name, 20, rng)
    steps = [random_signals(20, rng) for _ in range(12)]
    masks = {6: rng.random(20) < 0.4}
    expected = efforts_of_newton(values, steps, masks)
    for stepping in ("two", "one", "fresh"):
        actuator = actuon.Actuator(range(20), **newton_parts(values))
        assert not actuator.is_fused()
        np.testing.assert_array_equal(rollout(actuator, steps, masks=masks, stepping=stepping), expected, stepping)


def test_newtons_own_components_beside_ours(rng, tmp_path):
    """In one chain; their parameters are live, and their state is saved."""
    steps = [random_signals(3, rng) for _ in range(8)]
    gains = {"kp": 40.0, "ki": 30.0, "kd": 1.0, "integral_max": 0.5}
    drive = newton_actuators.DrivePID(**{name: wp.full(3, value) for name, value in gains.items()})
    ours = actuon.Actuator(
        range(3), actuon.ControllerPID(**gains), delay=actuon.Delay(2, 2), clamping=[actuon.ClampingMaxEffort(9.0)]
    )
    limit = newton_actuators.ClampingMaxEffort(wp.full(3, 9.0))
    mixed = actuon.Actuator(range(3), drive, delay=actuon.DelayConfig(2), clamping=[limit])
    np.testing.assert_allclose(rollout(mixed, steps), rollout(ours, steps), rtol=1e-5, atol=1e-5)
    assert mixed.controller.kp is drive.kp
    mixed.controller.kp = wp.full(3, 7.0)
    assert mixed.controller.part.kp.numpy().tolist() == [7.0] * 3
    assert drive.kp.numpy().tolist() == [40.0] * 3
    larger = newton_actuators.DrivePID(**{name: wp.full(4, value) for name, value in gains.items()})
    assert actuon.Actuator(range(4), larger).num_actuators == 4

    state, sim = mixed.state(), simulation(steps[0])
    mixed.step(sim, sim, state, state, dt=0.01)
    state.save(tmp_path / "state.npz")
    loaded = mixed.load_state(tmp_path / "state.npz")
    integral = loaded.controller_state.now.integral.numpy()
    assert integral.any()
    np.testing.assert_array_equal(integral, state.controller_state.now.integral.numpy())


class Unhurried(newton_actuators.DrivePD):
    """A drive of a user, derived from one of Newton's."""

    def compute(self, *args, **kwargs):
        super().compute(*args, **kwargs)
        args[9].assign(0.5 * args[9].numpy())


def test_newtons_own_components_that_do_not_fit():
    gains = [wp.full(2, 1.0)] * 2
    with pytest.raises(ValueError, match=r"DrivePD\.kp: got 2 values; must have 3, one per DOF"):
        actuon.Actuator(range(3), newton_actuators.DrivePD(*gains))
    with pytest.raises(TypeError, match="cannot be differentiated"):
        actuon.Actuator(range(2), newton_actuators.DrivePD(*gains), requires_grad=True)
    with pytest.raises(TypeError, match=r"clamping\[0\]: got DrivePD; must be a Clamping"):
        actuon.Actuator(range(2), Unhurried(*gains), clamping=[newton_actuators.DrivePD(*gains)])
    pid = actuon.Actuator(range(2), newton_actuators.DrivePID(*gains, *gains))
    sim = simulation(random_signals(2, np.random.default_rng(0)))
    with pytest.raises(ValueError, match="needs dt"):
        pid.step(sim, sim, pid.state(), pid.state())


class Loaded(newton_actuators.DrivePD):
    """A drive that reads an array of the control beside those of every drive."""

    custom_inputs = ("load",)

    def compute(self, *args, custom_inputs=None, **kwargs):
        super().compute(*args, **kwargs)
        args[9].assign(args[9].numpy() + custom_inputs["load"].numpy()[args[6].numpy()])


def test_a_drive_of_newton_gets_its_custom_inputs():
    config = actuon.ActuatorConfig(Loaded(wp.zeros(2), wp.zeros(2)))
    with actuon.MujocoSimulation(actuon.assets.arm_mjcf, 2) as sim:
        actuators = actuon.ArticulationActuators.from_actuators("link0", [(config, "joint4")])
        actuators.set_dof_custom_inputs("load", [[1.0], [2.0]], dof_indices=[3])
        sim.step()
        assert actuators.telemetry().applied_effort[:, 3].tolist() == [1.0, 2.0]


def test_newtons_own_components_go_back_with_some_environments():
    """Their integrals and delayed commands too, whose rows lie elsewhere in the ring by then."""

    def efforts(controller, delay):
        with actuon.MujocoSimulation(actuon.assets.arm_mjcf, 3) as sim:
            config = actuon.ActuatorConfig(controller, delay=delay)
            actuators = actuon.ArticulationActuators.from_actuators("link0", [(config, "joint4")])
            robots, rows = actuators.articulation, []
            home = robots.get_dof_positions().numpy()

            def step(count):
                for _ in range(count):
                    robots.set_dof_position_targets(home + 0.01 * len(rows))
                    sim.step()
                    rows.append(actuators.telemetry().applied_effort[:, 3])

            step(4)
            saved = sim.save_state()
            step(5)
            sim.load_state(saved, [1])
            step(5)
            return np.array(rows)

    gains = {"kp": 300.0, "ki": 40.0, "kd": 20.0, "integral_max": 1.0}
    lags = wp.array([3, 3, 2], dtype=wp.int32)
    theirs = newton_actuators.DrivePID(**{name: wp.full(3, value) for name, value in gains.items()})
    expected = efforts(actuon.ControllerPID(**gains), actuon.Delay([3, 3, 2], 3))
    np.testing.assert_allclose(efforts(theirs, newton_actuators.Delay(lags, 3)), expected, rtol=1e-4, atol=1e-3)


def test_newtons_own_components_on_robots():
    """Isaac Sim passes one value per robot, and drives that users wrote."""
    model = actuon.assets.arm_mjcf

    def efforts(config):
        with actuon.MujocoSimulation(model, 3) as sim:
            names = ["joint4", "joint2"]
            actuators = actuon.ArticulationActuators.from_actuators("link0", [(config, name) for name in names])
            assert actuators.actuated_dof_indices == [1, 3]
            robots = actuators.articulation
            robots.set_dof_position_targets(robots.get_dof_positions().numpy() + 0.1)
            sim.step(5)
            actuators.reset([1])
            sim.step(5)
            return actuators.telemetry().applied_effort

    kp, kd, most = (np.array(x, np.float32) for x in ([600.0, 500.0, 400.0], [50.0, 40.0, 30.0], [60.0, 30.0, 87.0]))
    theirs = actuon.ActuatorConfig(
        newton_actuators.DrivePD(wp.array(kp), wp.array(kd)),
        clamping=[newton_actuators.ClampingMaxEffort(wp.array(most))],
        delay=newton_actuators.Delay(wp.array([2, 1, 0], dtype=wp.int32), 2),
    )
    ours = actuon.ActuatorConfig(
        actuon.ControllerPD(kp, kd), clamping=[actuon.ClampingMaxEffort(most)], delay=actuon.Delay([2, 1, 0], 2)
    )
    np.testing.assert_allclose(efforts(theirs), efforts(ours), rtol=1e-4, atol=1e-3)
    half = actuon.ActuatorConfig(Unhurried(wp.array(2.0 * kp), wp.array(2.0 * kd)))
    whole = actuon.ActuatorConfig(actuon.ControllerPD(kp, kd))
    np.testing.assert_allclose(efforts(half), efforts(whole), rtol=1e-4, atol=1e-3)
    short = actuon.ActuatorConfig(newton_actuators.DrivePD(wp.full(1, 1.0), wp.full(1, 1.0)))
    with pytest.raises(ValueError, match=r"DOF 'joint2': DrivePD\.kp: got 1 values; must have 3"):
        efforts(short)


def test_newtons_names_are_ours_by_another_name():
    not_ours = {"JointSpaceResponse", "SchemaNames"}
    for name in set(newton_actuators.__all__) - not_ours:
        assert hasattr(actuon, name), name
    for name in set(dir(newton_actuators)) & (set(newton_actuators.__all__) | {"Controller", "Clamping"}):
        if name not in not_ours | {"parse_actuator_prim", "Actuator"}:
            assert getattr(actuon.newton, name) is getattr(actuon, name), name
    assert issubclass(actuon.newton.Actuator, actuon.Actuator)
    assert actuon.DriveBase is actuon.Controller
    assert actuon.ClampingBase is actuon.Clamping
    for kind in ("PD", "PID", "NeuralMLP", "NeuralLSTM", "NeuralGRU"):
        assert getattr(actuon, f"Drive{kind}") is getattr(actuon, f"Controller{kind}")


def test_a_drive_is_a_controller(rng):
    steps = [random_signals(4, rng) for _ in range(3)]
    gains = {"kp": 40.0, "ki": 3.0, "kd": 1.0, "integral_max": 0.5}
    actuator = actuon.Actuator(range(4), drive=actuon.DrivePID(**gains))
    assert actuator.drive is actuator.controller
    state = actuator.state()
    assert state.drive_state is state.controller_state is not None
    expected = rollout(actuon.Actuator(range(4), actuon.ControllerPID(**gains)), steps)
    np.testing.assert_array_equal(rollout(actuator, steps), expected)
    with pytest.raises(TypeError, match="drive is an alias of controller; pass only one"):
        actuon.Actuator(range(4), actuon.PDControlConfig(1.0, 0.0), drive=actuon.DrivePD(1.0, 0.0))


def test_stepping_to_fresh_states_differs_on_purpose(rng):
    """Newton carries one row of the past to the next state; Actuon all that is needed."""
    values = Values.random("pd-free-late", 8, rng, depth=4)
    values.lags[:] = 3
    steps = [random_signals(8, rng) for _ in range(6)]
    expected = rollout(values.actuator(), steps)
    np.testing.assert_array_equal(rollout(values.actuator(), steps, stepping="fresh"), expected)
    actuator = newton_actuator(values)
    state = actuator.state()
    efforts = []
    for signals in steps:
        sim, following = simulation(signals), actuator.state()
        actuator.step(sim, sim, state, following, dt=0.01)
        efforts.append(sim.joint_f.numpy())
        state = following
    assert not np.allclose(efforts, expected, atol=1e-3)
