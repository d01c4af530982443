# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the effort, compared with a tape and with differences, and bounds of the limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import warp as wp

import actuon
from actuon.components.component import Component
from tests.support import motor_oracle
from tests.support.paths import DATA

N = 70
DT = 0.005
NETWORKS = DATA / "networks"
DERIVATIVES = {"effort_derivative_q": "by_q", "effort_derivative_qd": "by_qd"}
BOUNDS = {"effort_min": "lowest", "effort_max": "highest"}
PD = actuon.ControllerPD, (30.0, 0.8)
DC = actuon.ClampingDCMotor, (30.0, 12.0, 15.0)
GEAR = actuon.TransmissionGear, (6.0, 0.9, 0.8)
MAX = actuon.ClampingMaxEffort, (12.0,)
POLYGON = [(-9, 14), (4, 14), (9, 3), (9, -14), (-4, -14), (-9, -3)]
TABLE = ((-2.0, 0.0, 2.0), (8.0, 20.0, 12.0))

CHAINS = {
    "pid with limit": [(actuon.Delay, (2, 3)), (actuon.ControllerPID, (30.0, 5.0, 0.8)), MAX],
    "sensors": [
        (actuon.SensorEncoder, (0.01, 0.02)),
        (actuon.SensorLowPass, (0.01,)),
        (actuon.DelayTime, (0.012,)),
        PD,
        DC,
    ],
    "late feedback": [(actuon.SensorDelay, (0.012,)), PD, (actuon.ClampingPositionBased, TABLE)],
    "feedback that is not late": [(actuon.SensorDelay, (0.0,)), (actuon.SensorDifferentiated, (0.02,)), PD, MAX],
    "servo": [(actuon.DelayInterpolated, (0.012,)), (actuon.ControllerServoPWM, (3.0, 0.4, 1.2, 12.0)), MAX],
    "remotised": [PD, (actuon.ClampingRemotized, (TABLE[0], (1.0, 1.5, 1.2), TABLE[1], 11.0))],
    "torque and speed": [PD, (actuon.ClampingTorqueSpeed, (POLYGON,))],
    "gear": [PD, GEAR, (actuon.ClampingDCMotor, (6.0, 60.0, 3.0))],
    "gear with friction": [
        PD,
        (actuon.TransmissionGear, {"ratio": 6.0, "efficiency": 0.6, "backdrive_efficiency": 0.4, "inertia": 0.05}),
        DC,
    ],
    "voltage and battery": [
        PD,
        GEAR,
        (actuon.ClampingBattery, (24.0, 0.2)),
        (actuon.ClampingVoltage, (0.1, 0.8)),
        (actuon.EffectCurrentLoop, (0.01,)),
    ],
    "heat and friction": [
        PD,
        (actuon.ClampingHeat, (3.0, 2.0, 10.0, 60.0, 1.0, 14.0)),
        (actuon.EffectFriction, (0.5, 0.1, 0.7, 0.2, 1.5, 0.1, 0.05, None, None, None, None, 0.01)),
    ],
    "spring": [PD, (actuon.TransmissionSeriesElastic, (300.0, 0.02, 1.0)), DC],
    "filtered commands": [(actuon.DelayLowPass, (0.02,)), PD, MAX],
    "backlash": [PD, (actuon.TransmissionBacklash, (0.01, 300.0, 0.02, 1.0)), DC],
    "linkage, ripple and noise": [
        PD,
        (actuon.TransmissionLinkage, ((-3.0, 0.0, 3.0), (-4.0, 0.0, 3.5))),
        (actuon.EffectRipple, (0.3, 12.0, 0.05)),
        (actuon.EffectNoise, (0.1, 0.2)),
    ],
}
OTHERS = motor_oracle.chains_of_others([[kind.__name__ for kind, _ in chain] for chain in CHAINS.values()])
CHAINS |= {
    name: [PD if part == "ControllerPD" else (getattr(actuon, part), motor_oracle.middle(part)) for part in parts]
    for name, parts in OTHERS.items()
}


@dataclass(frozen=True)
class SoftConfig(actuon.Config):
    most: float = actuon.param("N·m", "Effort approached, never passed.", above=0.0)


@wp.func
def soft_law(effort: float, qd: float, most: float):
    return most * wp.tanh(effort / most) - 0.01 * qd * qd * qd


class ClampingSoft(actuon.Clamping):
    config = SoftConfig
    law = soft_law


def stages_of(name):
    return [kind(**given) if isinstance(given, dict) else kind(*given) for kind, given in CHAINS[name]]


def random_arrays(rng, n=N):
    signals = {
        "joint_q": rng.normal(0.0, 0.3, n),
        "joint_qd": rng.normal(0.0, 3.0, n),
        "joint_target_q": rng.normal(0.0, 0.3, n),
        "joint_target_qd": rng.normal(0.0, 1.0, n),
        "joint_act": rng.normal(0.0, 1.0, n),
    }
    return {key: wp.array(value.astype(np.float32)) for key, value in signals.items()}


def with_results(arrays, n=N):
    names = ("joint_f", *DERIVATIVES.values(), *BOUNDS.values())
    return arrays | {key: wp.array(np.full(n, np.nan, np.float32)) for key in names}


def warmed_up(actuator, rng, steps=4, n=N):
    """A state with a past, and arrays of the next step."""
    states = actuator.state(), actuator.state()
    for _ in range(steps):
        actuator.step(*[with_results(random_arrays(rng, n), n)] * 2, *states, DT)
        states = states[::-1]
    return states, random_arrays(rng, n)


def tape_derivatives(stages, state, arrays, tmp_path):
    """Derivatives of the effort by position and velocity, by a tape over the same step from the same state."""
    actuator = actuon.Actuator(range(N), stages=stages, requires_grad=True, accumulate=False)
    before = None
    if state is not None:
        state.save(tmp_path / "state.npz")
        before = actuator.load_state(tmp_path / "state.npz")
    sim = {key: wp.clone(value, requires_grad=True) for key, value in arrays.items()}
    sim["joint_f"] = wp.zeros(N, requires_grad=True)
    after = actuator.state()
    tape = wp.Tape()
    with tape:
        actuator.step(sim, sim, before, after, DT)
    tape.backward(grads={sim["joint_f"]: wp.ones(N)})
    return sim["joint_f"].numpy(), sim["joint_q"].grad.numpy(), sim["joint_qd"].grad.numpy()


def assert_derivatives(actuator, stages, rng, tmp_path):
    states, arrays = warmed_up(actuator, rng)
    sim = with_results(arrays)
    effort, by_q, by_qd = tape_derivatives(stages, states[0], arrays, tmp_path)
    actuator.step(sim, sim, *states, DT)
    np.testing.assert_allclose(sim["joint_f"].numpy(), effort, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(sim["by_q"].numpy(), by_q, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(sim["by_qd"].numpy(), by_qd, rtol=1e-3, atol=1e-3)
    return sim


@pytest.mark.parametrize("name", CHAINS)
def test_derivatives_are_those_of_a_tape(name, rng, tmp_path):
    attrs = DERIVATIVES | BOUNDS
    actuator = actuon.Actuator(range(N), stages=stages_of(name), accumulate=False, control_derivative_attrs=attrs)
    sim = assert_derivatives(actuator, stages_of(name), rng, tmp_path)
    lowest, highest, effort = (sim[key].numpy() for key in ("lowest", "highest", "joint_f"))
    assert (lowest <= highest).all()
    slack = 1e-4 * np.abs(effort) + 1e-5
    assert (effort >= lowest - slack).all()
    assert (effort <= highest + slack).all()
    has_limits = any(issubclass(kind, actuon.Clamping) for kind, _ in CHAINS[name])
    assert np.isfinite(lowest).any() == has_limits


def test_every_built_in_stage_is_among_them():
    def below(cls):
        return {cls, *(found for sub in cls.__subclasses__() for found in below(sub))}

    tested = {kind for chain in CHAINS.values() for kind, _ in chain}
    networks = {actuon.ControllerNeuralMLP, actuon.ControllerNeuralLSTM, actuon.ControllerNeuralGRU}
    public = {cls for cls in below(Component) if getattr(actuon, cls.__name__, None) is cls and "law" in dir(cls)}
    concrete = {cls for cls in public if cls.config is not None and not cls.__subclasses__()}
    own_kernels = {actuon.TransmissionCoupled}
    missing = {cls.__name__ for cls in concrete - tested - networks - own_kernels}
    assert not missing, f"{missing}: add an oracle class to tests/support/motor_oracle.py, or a chain to CHAINS"


def test_derivatives_are_differences(rng):
    """Of a chain that tapes and derivatives could get wrong in the same way."""
    chain = "gear"
    attrs = DERIVATIVES | BOUNDS
    actuator = actuon.Actuator(range(N), stages=stages_of(chain), accumulate=False, control_derivative_attrs=attrs)
    arrays = random_arrays(rng)

    def effort(**moved):
        sim = with_results(arrays | {key: wp.array(arrays[key].numpy() + by) for key, by in moved.items()})
        actuator.step(sim, sim, None, None, DT)
        return {key: value.numpy().astype(np.float64) for key, value in sim.items()}

    now, step = effort(), np.float32(2e-3)
    for key, attr in (("joint_q", "by_q"), ("joint_qd", "by_qd")):
        up, down = (effort(**{key: sign * step})["joint_f"] for sign in (1, -1))
        smooth = np.abs(up + down - 2 * now["joint_f"]) < 1e-4
        assert smooth.mean() > 0.8
        np.testing.assert_allclose(((up - down) / (2 * step))[smooth], now[attr][smooth], rtol=5e-3, atol=2e-2)


def test_one_dof_per_thread_gives_the_same(rng):
    """Strided arrays take the path of a GPU."""
    attrs = DERIVATIVES | BOUNDS
    arrays = random_arrays(rng)
    found = []
    for strided in (False, True):
        actuator = actuon.Actuator(range(N), stages=stages_of("gear"), accumulate=False, control_derivative_attrs=attrs)
        sim = with_results(arrays)
        if strided:
            wide = {key: np.repeat(value.numpy()[:, None], 2, axis=1) for key, value in sim.items()}
            sim = {key: wp.array(value)[:, 0] for key, value in wide.items()}
        actuator.step(sim, sim, None, None, DT)
        found.append({key: np.array(sim[key].numpy()) for key in (*DERIVATIVES.values(), *BOUNDS.values(), "joint_f")})
    for key, values in found[0].items():
        np.testing.assert_array_equal(found[1][key], values, err_msg=key)


def test_a_law_of_ones_own_has_derivatives(rng, tmp_path):
    def stages():
        return [actuon.ControllerPD(30.0, 0.8), ClampingSoft(10.0)]

    actuator = actuon.Actuator(range(N), stages=stages(), accumulate=False, control_derivative_attrs=DERIVATIVES)
    assert_derivatives(actuator, stages(), rng, tmp_path)


def test_a_controller_that_is_held_is_a_constant(rng):
    motor = actuon.ClampingVoltage(0.4, 1.2, 12.0)
    actuator = actuon.Actuator(
        range(N),
        actuon.ControllerPD(300.0, 0.8),
        clamping=[motor],
        accumulate=False,
        control_every=2,
        control_derivative_attrs=DERIVATIVES,
    )
    states, _ = warmed_up(actuator, rng)
    derivatives = []
    for _ in range(2):
        sim = with_results(random_arrays(rng))
        actuator.step(sim, sim, *states, DT)
        states = states[::-1]
        derivatives.append({key: sim[key].numpy() for key in ("by_q", "by_qd")})
    for found in derivatives:
        np.testing.assert_array_equal(found["by_q"], 0.0)
        assert (found["by_qd"] < 0.0).any()  # the motor brakes by itself where the voltage is at its limit


def test_chains_without_derivatives_say_why():
    coupled = actuon.TransmissionCoupled([[1.0, 1.0], [1.0, -1.0]], [0, 1])
    actuator = actuon.Actuator([0, 1], actuon.ControllerPD(1.0, 1.0), transmission=coupled)
    assert "TransmissionCoupled brings its own kernels" in actuator.derivative_obstacle()
    with pytest.raises(actuon.StructureError, match="has no derivatives: TransmissionCoupled brings"):
        actuon.Actuator(
            [0, 1],
            actuon.ControllerPD(1.0, 1.0),
            transmission=coupled,
            control_derivative_attrs={"effort_derivative_q": "a"},
        )
    taped = actuon.Actuator([0], actuon.ControllerPD(1.0, 1.0), requires_grad=True)
    assert "requires_grad=True" in taped.derivative_obstacle()
    assert "fused=False" in actuon.Actuator([0], actuon.ControllerPD(1.0, 1.0), fused=False).derivative_obstacle()
    with pytest.raises(actuon.StructureError, match="has no derivatives: its stages are launched one by one"):
        actuon.Actuator(
            [0], actuon.ControllerPD(1.0, 1.0), fused=False, control_derivative_attrs={"effort_derivative_q": "a"}
        )
    assert actuon.Actuator([0], actuon.ControllerPD(1.0, 1.0)).derivative_obstacle() == ""


def strided(array):
    """Copy of an array with gaps between its values."""
    gaps = wp.array(np.full(2 * len(array), np.nan, np.float32))[::2]
    wp.copy(gaps, array)
    return gaps


def assert_strides_do_not_matter(stages, rng, rtol=0.0):
    """Strided arrays take the kernel for single DOFs, which is also the one for CUDA."""
    results = []
    signals = [random_arrays(rng) for _ in range(3)]
    for change in (wp.clone, strided):
        attrs = DERIVATIVES | BOUNDS
        actuator = actuon.Actuator(range(N), stages=stages(), accumulate=False, control_derivative_attrs=attrs)
        before, after = actuator.state(), actuator.state()
        for arrays in signals:
            sim = {key: change(array) for key, array in with_results(arrays).items()}
            actuator.step(sim, sim, before, after, DT)
            before, after = after, before
            results.append({key: sim[key].numpy() for key in ("joint_f", *DERIVATIVES.values(), *BOUNDS.values())})
    for block, single in zip(results[:3], results[3:], strict=True):
        for key, values in block.items():
            assert not np.isnan(values).any()
            np.testing.assert_allclose(single[key], values, rtol=rtol, atol=rtol, err_msg=key)


@pytest.mark.parametrize("name", CHAINS)
def test_derivatives_on_strided_arrays(name, rng):
    assert_strides_do_not_matter(lambda: stages_of(name), rng)


@pytest.mark.parametrize("kind", ["MLP", "LSTM", "GRU"])
def test_derivatives_of_networks_on_strided_arrays(kind, rng, tmp_path):
    networks = pytest.importorskip("tests.support.torch_networks")
    module = networks.mlp() if kind == "MLP" else getattr(networks, kind)()
    actuon.save_network(module, tmp_path / "network.safetensors", **({"input_idx": [0, 1, 2]} if kind == "MLP" else {}))
    controller = getattr(actuon, f"ControllerNeural{kind}")
    assert_strides_do_not_matter(lambda: [controller(tmp_path / "network.safetensors")], rng, rtol=1e-5)


@pytest.mark.parametrize("file", ["unitree_go1.pt", "anydrive_v3_lstm.pt"])
def test_published_networks(file, rng, tmp_path):
    if not (NETWORKS / file).is_file():
        pytest.skip("the published networks are not here")
    kind = actuon.ControllerNeuralMLP if "go1" in file else actuon.ControllerNeuralLSTM

    def stages():
        return [kind(NETWORKS / file), actuon.ClampingDCMotor(60.0, 30.0, 30.0)]

    actuator = actuon.Actuator(range(N), stages=stages(), accumulate=False, control_derivative_attrs=DERIVATIVES)
    assert_derivatives(actuator, stages(), rng, tmp_path)
