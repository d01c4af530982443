# SPDX-License-Identifier: Apache-2.0
"""Gradients through several steps, against central differences of the float64 oracle."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support import built_in, motor_oracle
from tests.support.chains import CLAMPINGS, CONTROLLERS, NAMES, SIGNALS, Values, random_signals, simulation

STEPS = 3
DT = 0.01


def weights(n, rng):
    return [rng.standard_normal(n).astype(np.float32) for _ in range(STEPS)]


def tape_gradients(values, steps, weighting, staged=False):
    """Gradients of Σ_t w_t·effort_t with respect to every signal of every step and every float parameter."""
    actuator = values.actuator(requires_grad=True, staged=staged)
    states = [actuator.state() for _ in range(STEPS + 1)]
    sims = []
    tape = wp.Tape()
    with tape:
        for t, signals in enumerate(steps):
            sim = {name: wp.array(array, requires_grad=True) for name, array in signals.items()}
            sim["joint_f"] = wp.zeros(values.n, dtype=wp.float32, requires_grad=True)
            actuator.step(sim, sim, states[t], states[t + 1], dt=DT)
            sims.append(sim)
    tape.backward(grads={sim["joint_f"]: wp.array(w) for sim, w in zip(sims, weighting, strict=True)})
    parameters = {("controller", k): v.grad.numpy() for k, v in actuator.controller.parameters().items()}
    for i, clamp in enumerate(actuator.clamping):
        parameters |= {(i, k): v.grad.numpy() for k, v in clamp.parameters().items()}
    signals = {(t, name): sim[name].grad.numpy() for t, sim in enumerate(sims) for name in SIGNALS}
    return signals, parameters


def oracle_objective(values, steps, weighting):
    oracle = values.oracle()
    return sum(
        float(w.astype(np.float64) @ oracle.step(*(s[name] for name in SIGNALS), DT)[1])
        for s, w in zip(steps, weighting, strict=True)
    )


def in_double(values, steps):
    values = copy.deepcopy(values)
    values.gains = {k: v.astype(np.float64) for k, v in values.gains.items()}
    values.clamps = [(name, {k: v.astype(np.float64) for k, v in p.items()}) for name, p in values.clamps]
    return values, [{k: v.astype(np.float64) for k, v in s.items()} for s in steps]


def difference(values, steps, weighting, array, i, h=1e-6):
    kept = array[i]
    array[i] = kept + h
    up = oracle_objective(values, steps, weighting)
    array[i] = kept - h
    down = oracle_objective(values, steps, weighting)
    array[i] = kept
    return (up - down) / (2 * h)


def check(values, steps, weighting, staged=False):
    signals, parameters = tape_gradients(values, steps, weighting, staged)
    exact, exact_steps = in_double(values, steps)

    def compare(label, gradient, array):
        expected = [difference(exact, exact_steps, weighting, array, i) for i in range(len(array))]
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=2e-3, err_msg=str(label))

    for (t, name), gradient in signals.items():
        compare((t, name), gradient, exact_steps[t][name])
    for (where, name), gradient in parameters.items():
        source = exact.gains if where == "controller" else exact.clamps[where][1]
        compare((where, name), gradient, source[name])


@pytest.mark.parametrize("name", NAMES)
def test_gradient_of_chains(name, rng):
    values = Values.random(name, 4, rng, depth=2)
    check(values, [random_signals(4, rng) for _ in range(STEPS)], weights(4, rng))


IN_CHAINS = {"Delay", *(kind for kind, _ in CONTROLLERS.values()), *itertools.chain(*CLAMPINGS.values())}
OWN_KERNELS = {"TransmissionCoupled"}
"""Tested in `tests/components/test_coupled.py`."""
OTHERS = sorted(built_in.components().keys() - IN_CHAINS - OWN_KERNELS - motor_oracle.oracles().keys())
"""Components in no chain of `chains.py` and without an oracle class, whose chains `test_motor_stages` runs."""


@pytest.mark.parametrize("name", OTHERS)
def test_gradient_through_two_steps(name, rng):
    """Of the signals of both steps, against differences of the efforts themselves."""
    made = {"ControllerPD": {"kp": 20.0, "kd": 0.5}, name: built_in.values(name)}
    stages = [getattr(actuon, part)(**made[part]) for part in motor_oracle.shortest_chain(name)]
    n, h = 8, np.float32(2e-3)
    actuator = actuon.Actuator(range(n), stages=stages, requires_grad=True)
    steps, weighting = [random_signals(n, rng) for _ in range(2)], rng.uniform(0.5, 1.5, (2, n)).astype(np.float32)

    def run(steps, states):
        sims = [simulation(signals, requires_grad=True) for signals in steps]
        for t, sim in enumerate(sims):
            actuator.step(sim, sim, states[t], states[t + 1], dt=DT)
        return sims

    def fresh():
        return [actuator.state() for _ in range(3)]

    def objective(steps):
        return sum(
            w * sim.joint_f.numpy().astype(np.float64) for w, sim in zip(weighting, run(steps, fresh()), strict=True)
        )

    states = fresh()
    with wp.Tape() as tape:
        sims = run(steps, states)
    tape.backward(grads={sim.joint_f: wp.array(w) for sim, w in zip(sims, weighting, strict=True)})
    now = objective(steps)
    for t, signal in itertools.product(range(2), SIGNALS):
        up, down = (
            objective([s | {signal: s[signal] + sign * h} if k == t else s for k, s in enumerate(steps)])
            for sign in (1, -1)
        )
        smooth = np.abs(up + down - 2 * now) < 1e-3
        assert smooth.sum() >= n // 2, f"{t} {signal}"
        found, expected = getattr(sims[t], signal).grad.numpy(), (up - down) / (2 * h)
        np.testing.assert_allclose(found[smooth], expected[smooth], rtol=2e-2, atol=4e-2, err_msg=f"{t} {signal}")


@pytest.mark.parametrize("name", ["pd-dc_max-now", "pid-table_dc_max-late"])
def test_gradient_stage_by_stage(name, rng):
    values = Values.random(name, 4, rng, depth=2)
    check(values, [random_signals(4, rng) for _ in range(STEPS)], weights(4, rng), staged=True)


def test_integral_carries_its_gradient_to_the_next_step():
    """∂effort₂/∂q₁ = −ki·dt."""
    ki = 7.0
    actuator = actuon.Actuator([0], actuon.ControllerPID(3.0, ki, 0.5, 100.0), requires_grad=True)
    states = [actuator.state() for _ in range(3)]
    sims = []
    tape = wp.Tape()
    with tape:
        for t in range(2):
            sim = {name: wp.array([0.1], dtype=wp.float32, requires_grad=True) for name in SIGNALS}
            sim["joint_f"] = wp.zeros(1, dtype=wp.float32, requires_grad=True)
            actuator.step(sim, sim, states[t], states[t + 1], dt=DT)
            sims.append(sim)
    tape.backward(grads={sims[1]["joint_f"]: wp.array([1.0], dtype=wp.float32)})
    np.testing.assert_allclose(sims[0]["joint_q"].grad.numpy(), [-ki * DT], rtol=1e-5)
    np.testing.assert_allclose(sims[0]["joint_target_q"].grad.numpy(), [ki * DT], rtol=1e-5)


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_delay_carries_its_gradient_to_the_step_it_came_from(lag):
    actuator = actuon.Actuator([0], actuon.ControllerPD(3.0, 0.0), delay=actuon.Delay([lag], 3), requires_grad=True)
    states = [actuator.state() for _ in range(5)]
    sims = []
    tape = wp.Tape()
    with tape:
        for t in range(4):
            sim = {name: wp.array([0.1 * t], dtype=wp.float32, requires_grad=True) for name in SIGNALS}
            sim["joint_f"] = wp.zeros(1, dtype=wp.float32, requires_grad=True)
            actuator.step(sim, sim, states[t], states[t + 1])
            sims.append(sim)
    tape.backward(grads={sims[3]["joint_f"]: wp.array([1.0], dtype=wp.float32)})
    expected = np.zeros(4)
    expected[3 - lag] = 3.0
    np.testing.assert_allclose([sim["joint_target_q"].grad.numpy()[0] for sim in sims], expected)


@pytest.mark.parametrize(
    "limits",
    [
        (np.inf, np.inf, np.inf),
        (0.0, 5.0, 0.0),
        (0.0, np.inf, np.inf),
        (20.0, np.inf, 5.0),
        (20.0, 3.0, np.inf),
        (20.0, 1e-40, 5.0),
        (20.0, 1e-20, np.inf),
        (1e-40, 1e-40, 1e-40),
        (3e38, 1e-30, 3e38),
    ],
)
def test_limits_at_their_ends_leave_the_gradient_finite(limits):
    clamp = actuon.ClampingDCMotor(*(np.full(3, value) for value in limits))
    actuator = actuon.Actuator(range(3), actuon.ControllerPD(3.0, 1.0), clamping=[clamp], requires_grad=True)
    sim = {name: wp.array([-2.0, 0.0, 2.0], dtype=wp.float32, requires_grad=True) for name in SIGNALS}
    sim["joint_f"] = wp.zeros(3, dtype=wp.float32, requires_grad=True)
    tape = wp.Tape()
    with tape:
        actuator.step(sim, sim)
    tape.backward(grads={sim["joint_f"]: wp.array(np.ones(3, np.float32))})
    arrays = [sim[name] for name in SIGNALS] + list(clamp.parameters().values())
    assert all(np.isfinite(array.grad.numpy()).all() for array in arrays)


@pytest.mark.parametrize("positions", [(0.0, 0.0), (0.0, 1e-40), (-1e-30, 0.0, 1e-20), (-1.0, -0.999)])
def test_a_table_with_jumps_leaves_the_gradient_finite(positions):
    clamp = actuon.ClampingPositionBased(positions, [5.0, 1.0, 3.0][: len(positions)])
    actuator = actuon.Actuator(range(4), actuon.ControllerPD(3.0, 1.0), clamping=[clamp], requires_grad=True)
    sim = {name: wp.array([-3e38, 0.0, 1e-25, 3e38], dtype=wp.float32, requires_grad=True) for name in SIGNALS}
    sim["joint_f"] = wp.zeros(4, dtype=wp.float32, requires_grad=True)
    tape = wp.Tape()
    with tape:
        actuator.step(sim, sim)
    tape.backward(grads={sim["joint_f"]: wp.array(np.ones(4, np.float32))})
    assert np.isfinite(sim["joint_q"].grad.numpy()).all()
    assert all(np.isfinite(array.grad.numpy()).all() for array in clamp.parameters().values())


def test_forward_values_are_those_of_the_fast_path(rng):
    from tests.support.chains import rollout

    values = Values.random("pid-table_dc_max-late", 70, rng)
    steps = [random_signals(70, rng) for _ in range(6)]
    np.testing.assert_array_equal(
        rollout(values.actuator(requires_grad=True), steps), rollout(values.actuator(), steps)
    )


def test_tape_on_an_actuator_without_gradients_is_refused(rng):
    values = Values.random("pd-free-now", 4, rng)
    actuator = values.actuator()
    sim = {name: wp.array(array) for name, array in random_signals(4, rng).items()}
    sim["joint_f"] = wp.zeros(4, dtype=wp.float32)
    actuator.step(sim, sim)
    with wp.Tape(), pytest.raises(actuon.StructureError, match="requires_grad=True"):
        actuator.step(sim, sim)


def test_one_state_on_a_tape_is_refused(rng):
    actuator = Values.random("pd-free-late", 4, rng).actuator(requires_grad=True)
    sim = {name: wp.array(array) for name, array in random_signals(4, rng).items()}
    sim["joint_f"] = wp.zeros(4, dtype=wp.float32)
    state = actuator.state()
    actuator.step(sim, sim, state, state)
    with wp.Tape(), pytest.raises(actuon.StateError, match="new next state"):
        actuator.step(sim, sim, state, state)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("name", ["pd-free-now", "pid-table_dc_max-late"])
def test_backward_writes_nothing_but_gradients(name, staged, rng):
    values = Values.random(name, 4, rng, depth=2)
    actuator = values.actuator(requires_grad=True, staged=staged, control_computed_output_attr="computed")
    states = [actuator.state() for _ in range(3)]
    sim = {name: wp.array(array, requires_grad=True) for name, array in random_signals(4, rng).items()}
    sim |= {name: wp.zeros(4, dtype=wp.float32, requires_grad=True) for name in ("joint_f", "computed")}
    tape = wp.Tape()
    with tape:
        for current, following in itertools.pairwise(states):
            actuator.step(sim, sim, current, following, dt=DT)
    for state in states:
        if state is not None:
            state.reset()  # what was there before is not written again either
    held = [*sim.values(), *(array for state in states if state is not None for array in state_arrays(state))]
    before = [array.numpy().copy() for array in held]
    gradients = []
    for _ in range(2):
        tape.backward(grads={sim["joint_f"]: wp.array(np.ones(4, np.float32))})
        gradients.append(sim["joint_target_q"].grad.numpy().copy())
        tape.zero()
        for array, numbers in zip(held, before, strict=True):
            np.testing.assert_array_equal(array.numpy(), numbers)
    np.testing.assert_array_equal(gradients[0], gradients[1])


def state_arrays(state):
    for part in (state.delay_state, state.controller_state):
        yield from (array for array in vars(part).values() if isinstance(array, wp.array))


def test_a_captured_forward_and_backward_pass_may_be_replayed():
    actuator = actuon.Actuator([0], actuon.ControllerPD(3.0, 0.0), requires_grad=True)
    sim = {name: wp.array([1.0], dtype=wp.float32, requires_grad=True) for name in SIGNALS}
    sim["joint_q"].zero_()
    sim["joint_act"].zero_()
    sim["joint_f"] = wp.zeros(1, dtype=wp.float32, requires_grad=True)
    seed = wp.array([1.0], dtype=wp.float32)
    with wp.ScopedCapture(device="cpu") as captured:
        sim["joint_f"].zero_()
        tape = wp.Tape()
        with tape:
            actuator.step(sim, sim)
        tape.backward(grads={sim["joint_f"]: seed})
    for replay in range(1, 4):
        wp.capture_launch(captured.graph)
        assert sim["joint_f"].numpy() == [3.0]
        assert sim["joint_target_q"].grad.numpy() == [3.0 * replay]


@pytest.mark.parametrize("source", ["left out", "zero in another actuator"])
def test_an_optional_parameter_may_be_given_later(source):
    controller = actuon.ControllerPD(1.0, 0.0)
    if source != "left out":
        controller = actuon.Actuator([0], actuon.PDControlConfig(1.0, 0.0)).controller
    actuator = actuon.Actuator([0], controller, requires_grad=True)
    sim = simulation({name: np.zeros(1, np.float32) for name in SIGNALS}, requires_grad=True)
    actuator.step(sim, sim)
    actuator.controller.const_effort = 3.0
    with wp.Tape() as tape:
        actuator.step(sim, sim)
    assert sim.joint_f.numpy().tolist() == [3.0]
    sim.joint_f.grad.fill_(1.0)
    tape.backward()
    assert actuator.controller.const_effort.grad.numpy().tolist() == [1.0]
