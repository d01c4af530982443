# SPDX-License-Identifier: Apache-2.0
"""The same chains in Newton's own actuators give the same efforts."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp
from chains import NAMES, Values, random_signals, rollout, simulation

import actuon
import actuon.newton

newton_actuators = pytest.importorskip("newton.actuators")

CLASSES = {"ControllerPD": "DrivePD", "ControllerPID": "DrivePID"}


def newton_actuator(values):
    def build(name, parameters):
        cls = getattr(newton_actuators, CLASSES.get(name, name))
        if name == "ClampingPositionBased":
            return cls(**{key: tuple(value.tolist()) for key, value in parameters.items()})
        return cls(**{key: wp.array(value) for key, value in parameters.items()})

    gains = values.gains | {"const_effort": values.gains.get("const_effort", np.zeros(values.n, np.float32))}
    return newton_actuators.Actuator(
        wp.array(np.arange(values.n), dtype=wp.uint32),
        drive=build(values.controller, gains),
        delay=None if values.lags is None else newton_actuators.Delay(wp.array(values.lags), values.depth),
        clamping=[build(*clamp) for clamp in values.clamps],
        target_pos_indices=wp.array(np.arange(values.n), dtype=wp.uint32),
    )


@pytest.mark.parametrize("name", [name for name in NAMES if "table_dc_max" in name])
def test_same_efforts(name, rng):
    n = 70
    values = Values.random(name, n, rng)
    steps = [random_signals(n, rng) for _ in range(12)]
    masks = {6: rng.random(n) < 0.4}
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
    np.testing.assert_allclose(rollout(values.actuator(), steps, masks=masks), efforts, rtol=2e-4, atol=2e-4)


def test_newtons_names_are_ours_by_another_name():
    not_ours = {"JointSpaceResponse", "SchemaNames"}
    for name in set(newton_actuators.__all__) - not_ours:
        assert hasattr(actuon, name), name
    for name in set(dir(newton_actuators)) & (set(newton_actuators.__all__) | {"Controller", "Clamping"}):
        if name not in not_ours | {"parse_actuator_prim"}:
            assert getattr(actuon.newton, name) is getattr(actuon, name), name
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
    with pytest.raises(TypeError, match="drive: got controller too"):
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
