# SPDX-License-Identifier: Apache-2.0
"""Chains of any stages: states, outputs, sensors, transmissions, orders; the same on every path."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.chains import SIGNALS, random_signals

N = 70
DT = 0.01


@dataclass(frozen=True)
class WarmingConfig(actuon.Config):
    ambient: float = actuon.param("°C", "Temperature after a reset.")
    heating: float = actuon.param("°C/(N²·m²·s)", "Rise by the square of the effort.", minimum=0.0)
    loss: float = actuon.param("1/°C", "Share of the effort that a degree costs.", minimum=0.0)


@wp.func
def warming(effort: float, dt: float, temperature: float, ambient: float, heating: float, loss: float):
    warmer = temperature + heating * effort * effort * dt
    return effort * (1.0 - loss * (temperature - ambient)), warmer - ambient, warmer


class EffectWarming(actuon.Effect):
    """Loses effort as it warms up, and says by how much it has."""

    config = WarmingConfig
    law = warming
    STATES = {"temperature": "ambient"}  # noqa: RUF012
    OUTPUTS = ("rise",)


@dataclass(frozen=True)
class CoolFactorConfig(actuon.Config):
    per_degree: float = actuon.param("N·m/°C", "Taken off for each degree.", minimum=0.0)


@wp.func
def minus_rise(effort: float, rise: float, per_degree: float):
    return effort - per_degree * rise


class ClampingByRise(actuon.Clamping):
    config = CoolFactorConfig
    law = minus_rise


@dataclass(frozen=True)
class BiasConfig(actuon.Config):
    bias: float = actuon.param("rad", "Added to the position.")


@wp.func
def biased(q: float, qd: float, bias: float, seen: float):
    return q + bias, 0.5 * (qd + seen), qd


class SensorBiased(actuon.Sensor):
    """A bias on the position, and the mean of the last two velocities."""

    config = BiasConfig
    law = biased
    STATES = ("seen",)


@dataclass(frozen=True)
class RatioConfig(actuon.Config):
    ratio: float = actuon.param("1", "Turns of the motor per turn of the joint.", above=0.0)


@wp.func
def to_motor(q: float, qd: float, effort: float, ratio: float):
    return q * ratio, qd * ratio, effort / ratio, qd * ratio


@wp.func
def to_joint(effort: float, ratio: float):
    return effort * ratio


class TransmissionRatio(actuon.Transmission):
    config = RatioConfig
    law = to_motor
    closing_law = to_joint
    OUTPUTS = ("motor_speed",)


@wp.func
def braking(effort: float, qd: float, motor_speed: float):
    return effort - 0.01 * qd - 0.02 * motor_speed


class EffectBraking(actuon.Effect):
    law = braking


@wp.func
def tiring(effort: float, tired: float, chill: float):
    return effort * (1.0 - 0.1 * chill * tired)


@wp.func
def tiring_closing(effort: float, qd: float, dt: float, tired: float):
    power = wp.abs(effort * qd)
    return effort, power, tired + 0.01 * power * dt


class EffectTiring(actuon.Effect):
    """Gives less the more it has done, which only the end of a step tells. Nothing chills it, unless somebody does."""

    law = tiring
    closing_law = tiring_closing
    STATES = ("tired",)
    CLOSING_STATES = ("tired",)
    CLOSING_OUTPUTS = ("power",)
    OPTIONAL_SIGNALS = {"chill": 1.0}  # noqa: RUF012


class Chain:
    """Every kind of stage, with random values; and the same in NumPy."""

    def __init__(self, rng, n=N):
        self.n = n
        self.values = {
            "bias": rng.uniform(-0.2, 0.2, n),
            "kp": rng.uniform(1, 50, n),
            "kd": rng.uniform(0, 2, n),
            "ratio": rng.uniform(2, 9, n),
            "saturation_effort": rng.uniform(1, 8, n),
            "velocity_limit": rng.uniform(20, 60, n),
            "max_motor_effort": rng.uniform(1, 8, n),
            "ambient": rng.uniform(10, 30, n),
            "heating": rng.uniform(0, 2, n),
            "loss": rng.uniform(0, 0.02, n),
        }
        self.values = {name: array.astype(np.float32) for name, array in self.values.items()}
        self.lags = rng.integers(0, 4, n).astype(np.int32)

    def components(self):
        v = {name: wp.array(array) for name, array in self.values.items()}
        return {
            "sensors": [SensorBiased(v["bias"])],
            "delay": actuon.Delay(wp.array(self.lags), 3),
            "controller": actuon.ControllerPD(v["kp"], v["kd"]),
            "transmission": TransmissionRatio(v["ratio"]),
            "clamping": [
                actuon.ClampingDCMotor(v["saturation_effort"], v["velocity_limit"], v["max_motor_effort"]),
            ],
            "effects": [EffectTiring(), EffectWarming(v["ambient"], v["heating"], v["loss"]), EffectBraking()],
        }  # fmt: skip

    def actuator(self, staged=False, **options):
        return actuon.Actuator(range(self.n), **self.components(), fused=not staged, **options)

    def oracle(self, steps, masks=None, start=None):
        """Efforts and rises of each step, in float64."""
        v = {name: array.astype(np.float64) for name, array in self.values.items()}
        temperature, seen, tired = self.values["ambient"].astype(np.float64), np.zeros(self.n), np.zeros(self.n)
        if start is not None:
            temperature = start
        past = [[] for _ in range(self.n)]
        for t, signals in enumerate(steps):
            if masks and t in masks:
                temperature = np.where(masks[t], v["ambient"], temperature)
                seen, tired = (np.where(masks[t], 0.0, values) for values in (seen, tired))
                for i in np.flatnonzero(masks[t]):
                    past[i].clear()
            q, qd, *command = (signals[name].astype(np.float64) for name in SIGNALS)
            late = np.array(command)
            for i in range(self.n):
                lag = min(int(self.lags[i]), len(past[i]), 3)
                if lag:
                    late[:, i] = past[i][-lag]
                past[i].append([c[i] for c in command])
            effort = late[2] + v["kp"] * (late[0] - q - v["bias"]) + v["kd"] * (late[1] - 0.5 * (qd + seen))
            seen = qd
            effort, speed = effort / v["ratio"], qd * v["ratio"]
            most, stall = v["max_motor_effort"], v["saturation_effort"]
            share = speed / v["velocity_limit"]
            effort = np.clip(
                effort, np.clip(stall * (-1 - share), -most, most), np.clip(stall * (1 - share), -most, most)
            )
            effort = effort * (1 - 0.1 * tired)
            warmer = temperature + v["heating"] * effort**2 * DT
            effort = effort * (1 - v["loss"] * (temperature - v["ambient"]))
            temperature = warmer
            effort = effort - 0.01 * speed - 0.02 * speed
            tired = tired + 0.01 * np.abs(effort * speed) * DT
            yield effort * v["ratio"], warmer - v["ambient"]


def simulation(signals, requires_grad=False):
    n = len(signals["joint_q"])
    sim = {name: wp.array(array, requires_grad=requires_grad) for name, array in signals.items()}
    outputs = ("joint_f", "rise", "speed")
    return sim | {name: wp.zeros(n, dtype=wp.float32, requires_grad=requires_grad) for name in outputs}


def run(actuator, steps, masks=None, stepping="two", state=None):
    current = actuator.state() if state is None else state
    other = actuator.state()
    efforts = []
    for t, signals in enumerate(steps):
        if masks and t in masks:
            current.reset(wp.array(masks[t]))
        following = {"one": current, "two": other, "fresh": actuator.state()}[stepping]
        sim = simulation(signals)
        actuator.step(sim, sim, current, following, dt=DT)
        efforts.append(sim["joint_f"].numpy())
        current, other = following, current
    return np.array(efforts), current


@pytest.fixture
def steps(rng):
    return [random_signals(N, rng) for _ in range(12)]


@pytest.fixture
def masks(rng):
    return {t: rng.random(N) < 0.4 for t in (5, 9)}


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("stepping", ["one", "two", "fresh"])
def test_every_kind_of_stage_equals_the_oracle(staged, stepping, rng, steps, masks):
    chain = Chain(rng)
    expected = [effort for effort, _ in chain.oracle(steps, masks)]
    actuator = chain.actuator(staged)
    assert actuator.is_fused() is not staged
    efforts, _ = run(actuator, steps, masks, stepping)
    np.testing.assert_allclose(efforts, expected, rtol=2e-5, atol=2e-4)


def test_all_paths_give_the_same_bits(rng, steps, masks):
    chain = Chain(rng)
    expected, _ = run(chain.actuator(), steps, masks)
    for actuator in (chain.actuator(staged=True), chain.actuator(requires_grad=True)):
        np.testing.assert_array_equal(run(actuator, steps, masks)[0], expected)
    alone = np.array([run(one_dof(chain, i), [pick(s, i) for s in steps], pick(masks, i))[0][:, 0] for i in (0, 7, 69)])
    np.testing.assert_array_equal(alone.T, expected[:, [0, 7, 69]])


def one_dof(chain, i):
    single = copy.copy(chain)
    single.n, single.lags = 1, chain.lags[i : i + 1]
    single.values = {name: array[i : i + 1] for name, array in chain.values.items()}
    return single.actuator()


def pick(arrays, i):
    return {name: array[i : i + 1] for name, array in arrays.items()}


def test_signals_of_stages_are_telemetry(rng, steps):
    chain = Chain(rng)
    for staged in (False, True):
        actuator = chain.actuator(staged, control_signal_attrs={"rise": "rise", "motor_speed": "speed"})
        assert actuator.signals == ("motor_speed", "power", "rise")
        state = actuator.state()
        for signals, (_, rise) in zip(steps, chain.oracle(steps), strict=True):
            sim = simulation(signals)
            actuator.step(sim, sim, state, state, dt=DT)
            np.testing.assert_allclose(sim["rise"].numpy(), rise, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(sim["speed"].numpy(), signals["joint_qd"] * chain.values["ratio"], rtol=1e-6)
    with pytest.raises(actuon.ParameterError, match="no stage offers a signal 'rize'; .* Did you mean 'rise'"):
        chain.actuator(control_signal_attrs={"rize": "rise"})


def test_the_stage_that_limited_the_effort_is_told(rng, steps):
    """By its position, on both paths; also where the clamps are those of a chain without a transmission."""
    told = []
    for staged in (False, True):
        actuator = Chain(rng=np.random.default_rng(3)).actuator(staged, control_signal_attrs={"limited_by": "rise"})
        position = [type(stage) for stage in actuator.stages].index(actuon.ClampingDCMotor)
        current = actuator.state()
        for signals in steps:
            sim = simulation(signals)
            actuator.step(sim, sim, current, current, dt=DT)
            told.append(sim["rise"].numpy().copy())
    half = len(told) // 2
    np.testing.assert_array_equal(told[:half], told[half:])
    assert set(np.unique(told).tolist()) == {-1.0, float(position)}


def test_a_later_stage_reads_what_an_earlier_one_offers(rng, steps):
    parts = [actuon.ControllerPD(10.0, 0.1), EffectWarming(20.0, 0.5, 0.0), ClampingByRise(0.25)]
    actuator = actuon.Actuator(range(N), stages=parts, control_signal_attrs={"rise": "rise"})
    plain = actuon.Actuator(range(N), actuon.ControllerPD(10.0, 0.1))
    state = actuator.state()
    for signals in steps:
        sim, other = simulation(signals), simulation(signals)
        actuator.step(sim, sim, state, state, dt=DT)
        plain.step(other, other)
        expected = other["joint_f"].numpy() - np.float32(0.25) * sim["rise"].numpy()
        np.testing.assert_array_equal(sim["joint_f"].numpy(), expected)
    with pytest.raises(actuon.StructureError, match="ClampingByRise needs 'rise', .*nor a signal of an earlier"):
        actuon.Actuator(range(N), stages=[parts[0], ClampingByRise(0.25), parts[1]])


def test_states_start_and_restart_at_their_parameter(rng):
    chain = Chain(rng)
    actuator = chain.actuator()
    state = actuator.state()
    temperature = state.stages[6].temperature
    np.testing.assert_array_equal(temperature.numpy(), chain.values["ambient"])
    temperature.fill_(99.0)
    mask = rng.random(N) < 0.5
    state.reset(mask)
    np.testing.assert_array_equal(temperature.numpy(), np.where(mask, chain.values["ambient"], np.float32(99.0)))
    actuator.effects[1].ambient = 5.0
    state.reset()
    assert (temperature.numpy() == 5.0).all()


def test_a_captured_step_equals_an_eager_one(rng, steps):
    chain = Chain(rng)
    expected, _ = run(chain.actuator(), steps)
    actuator = chain.actuator()
    sim = simulation(steps[0])
    state = actuator.state()
    with wp.ScopedCapture(device="cpu") as captured:
        sim["joint_f"].zero_()
        actuator.step(sim, sim, state, state, dt=DT)
    state.reset()
    for signals, effort in zip(steps, expected, strict=True):
        for name, array in signals.items():
            sim[name].assign(array)
        wp.capture_launch(captured.graph)
        np.testing.assert_array_equal(sim["joint_f"].numpy(), effort)


@pytest.mark.parametrize("staged", [False, True])
def test_gradients_go_through_every_stage_and_state(staged, rng):
    """Against central differences of the oracle, through three steps; parameters and signals."""
    chain = Chain(rng, n=3)
    steps = [random_signals(3, rng) for _ in range(3)]
    weights = [rng.standard_normal(3).astype(np.float32) for _ in steps]
    actuator = chain.actuator(staged, requires_grad=True)
    states = [actuator.state() for _ in range(4)]
    sims = [simulation(signals, requires_grad=True) for signals in steps]
    tape = wp.Tape()
    with tape:
        for t, sim in enumerate(sims):
            actuator.step(sim, sim, states[t], states[t + 1], dt=DT)
    tape.backward(grads={sim["joint_f"]: wp.array(w) for sim, w in zip(sims, weights, strict=True)})

    exact = copy.deepcopy(chain)
    exact.values = {name: array.astype(np.float64) for name, array in chain.values.items()}
    signals = [{name: array.astype(np.float64) for name, array in s.items()} for s in steps]

    def objective():
        efforts = exact.oracle(signals, start=chain.values["ambient"].astype(np.float64))  # a state starts off the tape
        return sum(float(w @ effort) for w, (effort, _) in zip(weights, efforts, strict=True))

    def difference(array, i, h=1e-6):
        kept = array[i]
        array[i] = kept + h
        up = objective()
        array[i] = kept - h
        down = objective()
        array[i] = kept
        return (up - down) / (2 * h)

    found = {n: a.grad.numpy() for part in actuator.stages for n, a in part.parameters().items() if n != "delay_steps"}
    assert found.keys() == chain.values.keys()
    for name, gradient in found.items():
        expected = [difference(exact.values[name], i) for i in range(3)]
        np.testing.assert_allclose(gradient, expected, rtol=5e-3, atol=5e-3, err_msg=name)
    for t, sim in enumerate(sims):
        for name in SIGNALS:
            expected = [difference(signals[t][name], i) for i in range(3)]
            np.testing.assert_allclose(sim[name].grad.numpy(), expected, rtol=5e-3, atol=5e-3, err_msg=f"{t} {name}")


def test_a_saved_state_goes_on_bit_for_bit(rng, steps, tmp_path):
    chain = Chain(rng)
    expected, _ = run(chain.actuator(), steps)
    actuator = chain.actuator()
    _, state = run(actuator, steps[:6], stepping="one")
    state.save(tmp_path / "state.npz")
    copied = copy.deepcopy(state)
    loaded = chain.actuator()
    for going, start in ((actuator, copied), (loaded, loaded.load_state(tmp_path / "state.npz"))):
        for stepping in ("two",):
            np.testing.assert_array_equal(run(going, steps[6:], stepping=stepping, state=start)[0], expected[6:])


def test_a_state_of_another_chain_is_refused_by_name(rng, tmp_path):
    chain = Chain(rng)
    path = tmp_path / "state.npz"
    chain.actuator().state().save(path)
    other = Chain(rng, n=3).actuator()
    with pytest.raises(actuon.StateError, match=f"motors with {N} DOFs; this one has 3 DOFs"):
        other.load_state(path)
    short = chain.components() | {"delay": actuon.Delay(1, 1)}
    with pytest.raises(actuon.StateError, match="motors with Delay of 3 steps; this one has Delay of 1 steps"):
        actuon.Actuator(range(N), **short).load_state(path)
    with pytest.raises(actuon.StateError, match="SensorBiased → Delay.*this one has Delay of 3 steps → ControllerPD"):
        actuon.Actuator(range(N), **chain.components() | {"sensors": None}).load_state(path)
    for damage in (b"", path.read_bytes()[:200], b"not a state"):
        path.write_bytes(damage)
        with pytest.raises(actuon.StateError, match="cannot be read as the state of an actuator"):
            chain.actuator().load_state(path)
    with pytest.raises(actuon.StateError, match="cannot be read"):
        chain.actuator().load_state(tmp_path / "none.npz")
    with pytest.raises(actuon.StateError, match="deepcopy"):
        copy.copy(chain.actuator().state())


def test_the_kernel_reads_like_the_chain(rng):
    source = Chain(rng).actuator().kernel_source()
    laws = [line.split(" = ")[1].split("(")[0] for line in source.splitlines() if "_law(" in line]
    assert laws == [
        "biased_law", "pd_law", "ratio_law", "dc_motor_law", "tiring_law", "warming_law", "braking_law",
        "tiring_closing_law", "ratio_closing_law",
    ]  # fmt: skip


class EffectOwnKernel(actuon.Effect):
    """Halves the effort with a kernel of its own, and counts its steps."""

    class State(actuon.State):
        pass

    def is_stateful(self):
        return True

    def state(self, num_actuators, device):
        return self.State(wp.get_device(device), num_actuators, ("calls",))

    def run(self, given, results, current_state, next_state, dt):
        wp.copy(results["effort"], wp.array(0.5 * given["effort"].array.numpy()))
        wp.copy(next_state.calls, wp.array(current_state.calls.numpy() + 1.0, dtype=wp.float32))


def test_an_effect_with_a_kernel_of_its_own(rng, steps):
    actuator = actuon.Actuator(range(N), actuon.ControllerPD(10.0, 0.1), effects=[EffectOwnKernel()])
    plain = actuon.Actuator(range(N), actuon.ControllerPD(10.0, 0.1))
    assert not actuator.is_fused()
    state = actuator.state()
    for t, signals in enumerate(steps):
        sim, other = simulation(signals), simulation(signals)
        actuator.step(sim, sim, state, state, dt=DT)
        plain.step(other, other)
        np.testing.assert_array_equal(sim["joint_f"].numpy(), 0.5 * other["joint_f"].numpy())
        assert (state.stages[1].calls.numpy() == t + 1).all()


class EffectPlainState(EffectOwnKernel):
    """Like it, with a state of a class of its own."""

    class State:
        def __init__(self, num_actuators):
            self.calls = wp.zeros(num_actuators)

    def state(self, num_actuators, device):
        return self.State(num_actuators)


@pytest.mark.parametrize("effect", [EffectOwnKernel, EffectPlainState])
def test_arrays_of_a_state_are_copies(effect, steps):
    actuator = actuon.Actuator(range(N), actuon.ControllerPD(10.0, 0.1), effects=[effect()])
    state, sim = actuator.state(), simulation(steps[0])
    actuator.step(sim, sim, state, state, dt=DT)
    arrays = state.to_arrays()
    actuator.step(sim, sim, state, state, dt=DT)
    assert (arrays["1.calls"] == 1.0).all()
    state.from_arrays(arrays)
    assert (state.stages[1].calls.numpy() == 1.0).all()


@dataclass(frozen=True)
class OffsetConfig(actuon.Config):
    offset: float = actuon.param("N·m", "Added to the effort.")


@dataclass(frozen=True)
class EffortOffsetConfig(actuon.Config):
    effort_offset: float = actuon.param("N·m", "Added to the effort.")


@wp.func
def add_offset(effort: float, offset: float):
    return effort + offset


@wp.func
def add_effort_offset(effort: float, effort_offset: float):
    return effort + effort_offset


def test_stages_whose_names_would_meet_in_the_kernel():
    """``max`` with ``effort_offset``, ``max_effort`` with ``offset``, and ``effort_offset``, which every kernel has."""
    named = [
        ("EffectMax", EffortOffsetConfig, add_effort_offset),
        ("EffectMaxEffort", OffsetConfig, add_offset),
        ("EffectEffort", OffsetConfig, add_offset),
        ("Effect2", OffsetConfig, add_offset),
        ("EffectIf", OffsetConfig, add_offset),
    ]
    kinds = [type(name, (actuon.Effect,), {"config": config, "law": law}) for name, config, law in named]
    effects = [kind(float(2**i)) for i, kind in enumerate([*kinds, kinds[0], kinds[3]])]
    actuator = actuon.Actuator(range(3), actuon.ControllerPD(1.0, 0.0), effects=effects)
    sim = simulation({name: np.zeros(3, np.float32) for name in SIGNALS})
    actuator.step(sim, sim)
    assert sim["joint_f"].numpy().tolist() == [127.0] * 3


@wp.func
def add_all(effort: float, size: float, positions: float, every: float, place: float, width: float, clock: float):
    return effort + size + positions + every + place + width, clock


class WordsOfKernels(actuon.Parameters):
    size: actuon.Number = actuon.param("N·m", "Added to the effort.")
    positions: actuon.Number = actuon.param("N·m", "Added to the effort.")
    every: actuon.Number = actuon.param("N·m", "Added to the effort.")
    place: actuon.Number = actuon.param("N·m", "Added to the effort.")
    width: actuon.Number = actuon.param("N·m", "Added to the effort.")


@pytest.mark.parametrize("label", ["Tile", "Target", "Control", "In", "Row", "Floats", "Ints", "Longs", "Given"])
@pytest.mark.parametrize("options", [{}, {"fused": False}, {"robot_dofs": 3}])
def test_stages_whose_parameters_are_called_as_arguments_of_the_kernel(label, options):
    """``tile_size``, ``target_positions``, ``control_every``, ``control_clock_at``, ``in_place``, ``row_width``."""
    members = {"law": add_all, "STATES": ("clock",)}
    effect = type(f"Effect{label}", (WordsOfKernels, actuon.Effect), members)(1.0, 2.0, 4.0, 8.0, 16.0)
    controller = actuon.ControllerPD(1.0, 0.0)
    actuator = actuon.Actuator(range(3), controller, effects=[effect], control_every=2, **options)
    state, sim = actuator.state(), simulation({name: np.zeros(3, np.float32) for name in SIGNALS})
    actuator.step(sim, sim, state, state, dt=DT)
    assert sim["joint_f"].numpy().tolist() == [31.0] * 3


def test_a_constant_effort_of_zero_costs_no_kernel_of_its_own():
    """From Python it is left out, from a config or file it is zero: all run one kernel until somebody looks at it."""
    config, builder = actuon.PDControlConfig(1.0, 0.0), actuon.ActuatorBuilder()
    builder.add(actuon.ActuatorConfig(config), 0)
    made = [*(actuon.Actuator([0], part) for part in (actuon.ControllerPD(1.0, 0.0), config)), *builder.finalize("cpu")]
    assert made[0].kernel_source() == made[1].kernel_source() == made[2].kernel_source()
    sim = {name: np.zeros(1, np.float32) for name in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")}

    def effort(actuator):
        output = np.zeros(1, np.float32)
        actuator.step(sim, sim | {"joint_f": output})
        return output[0]

    assert [effort(actuator) for actuator in made] == [0.0, 0.0, 0.0]
    made[0].controller.const_effort = 2.0
    made[1].controller.const_effort.fill_(3.0)  # in place
    made[2].controller.const_effort = 4.0
    assert [effort(actuator) for actuator in made] == [2.0, 3.0, 4.0]
    other = actuon.Actuator([0], actuon.PDControlConfig(1.0, 0.0))
    assert other.controller.numbers()["const_effort"].tolist() == [0.0]
    assert other.kernel_source() != made[1].kernel_source()
    captured_output = wp.zeros(1)
    arrays = {name: wp.array(values) for name, values in sim.items()} | {"joint_f": captured_output}
    with wp.ScopedCapture(device="cpu") as captured:
        other.step(arrays, arrays)
    other.controller.const_effort = 4.0
    wp.capture_launch(captured.graph)
    assert captured_output.numpy()[0] == 4.0


@wp.func
def keep_first(effort: float, below: float, above: float):
    return effort, below, above


class EffectKeepFirst(actuon.Effect):
    law = keep_first
    STATES: ClassVar = {"below": -1.0, "above": float("inf")}


def test_states_begin_at_any_number_and_go_back_to_it():
    actuator = actuon.Actuator([0, 1], actuon.ControllerPD(1.0, 0.0), effects=[EffectKeepFirst()])
    state = actuator.state()
    for mask in (None, np.array([True, True])):
        assert state.stages[1].below.numpy().tolist() == [-1.0, -1.0]
        assert np.isinf(state.stages[1].above.numpy()).all()
        state.stages[1].below.fill_(3.0)
        state.stages[1].above.fill_(3.0)
        state.reset(mask)
    assert state.stages[1].below.numpy().tolist() == [-1.0, -1.0]
