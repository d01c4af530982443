# SPDX-License-Identifier: Apache-2.0
"""Every built-in chain against the oracle, and every path through the library against every other, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon
from actuon.kernel import launch
from actuon.kernel.build import kernel_for
from actuon.kernel.types import LANES
from tests.support.chains import NAMED, NAMES, Values, named, oracle_rollout, random_signals, rollout, simulation
from tests.support.launches import record_launches

STEPS = 12


@wp.func
def other_pd_law(q: float, qd: float, target_q: float, target_qd: float, feedforward: float, kp: float, kd: float):
    return kd * (target_qd - qd) + kp * (target_q - q) + feedforward


def make(name, n, rng):
    values = Values.random(name, n, rng)
    steps = [random_signals(n, rng) for _ in range(STEPS)]
    masks = {5: rng.random(n) < 0.4, 9: np.ones(n, bool)}
    return values, steps, masks


@pytest.mark.parametrize("name", NAMES)
def test_fused_equals_oracle_and_staged(name, rng):
    n = LANES + 7
    values, steps, masks = make(name, n, rng)
    fused = rollout(values.actuator(), steps, masks=masks)
    expected = oracle_rollout(values.oracle(), steps, masks=masks)
    np.testing.assert_allclose(fused, expected, rtol=2e-4, atol=2e-4)
    staged = rollout(values.actuator(staged=True), steps, masks=masks)
    np.testing.assert_array_equal(fused, staged)


@pytest.mark.parametrize("name", NAMED)
def test_a_named_chain_is_the_same_fused_and_staged_and_in_place(name, rng):
    n = LANES + 7
    steps = [random_signals(n, rng) for _ in range(STEPS)]
    fused, staged = (actuon.Actuator(range(n), stages=named(name), fused=fused) for fused in (True, False))
    expected = rollout(fused, steps)
    assert np.isfinite(expected).all()
    assert expected.any()
    np.testing.assert_array_equal(rollout(fused, steps, stepping="one" if fused.state() else "two"), expected)
    np.testing.assert_array_equal(rollout(staged, steps), expected)


CHAIN = "pid-table_dc_max-late"


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 128, 255, 256, 257, 700])
def test_block_and_tail_give_the_same(n, rng):
    values, steps, masks = make(CHAIN, n, rng)
    efforts = rollout(values.actuator(), steps, masks=masks)
    np.testing.assert_array_equal(efforts, rollout(values.actuator(staged=True), steps, masks=masks))
    np.testing.assert_allclose(efforts, oracle_rollout(values.oracle(), steps, masks=masks), rtol=2e-4, atol=2e-4)


def test_many_at_once_equal_one_at_a_time(rng):
    n = 70
    values, steps, masks = make("pid-dc_max-late", n, rng)
    together = rollout(values.actuator(), steps, masks=masks)
    for i in (0, 1, 63, 64, 69):
        one = Values(
            values.name,
            1,
            values.controller,
            {name: array[i : i + 1] for name, array in values.gains.items()},
            [(clamp, {name: array[i : i + 1] for name, array in v.items()}) for clamp, v in values.clamps],
            values.lags[i : i + 1],
            values.depth,
        )
        own_steps = [{name: array[i : i + 1] for name, array in signals.items()} for signals in steps]
        own_masks = {t: mask[i : i + 1] for t, mask in masks.items()}
        np.testing.assert_array_equal(together[:, i], rollout(one.actuator(), own_steps, masks=own_masks)[:, 0])


@pytest.mark.parametrize("stepping", ["one", "fresh"])
@pytest.mark.parametrize("staged", [False, True])
def test_state_in_place_swapped_or_fresh(stepping, staged, rng):
    values, steps, masks = make("pid-dc_max-late", 300, rng)
    swapped = rollout(values.actuator(), steps, masks=masks)
    np.testing.assert_array_equal(
        swapped, rollout(values.actuator(staged=staged), steps, masks=masks, stepping=stepping)
    )


def test_any_order_of_states_is_right(rng):
    """Forks, returns and resets of either state: the next state always holds the whole past of the current one."""
    n, depth = 40, 5
    values = Values.random("pd-free-late", n, rng, depth=depth)
    actuator = values.actuator()
    states = [actuator.state() for _ in range(4)]
    oracles = [values.oracle() for _ in states]
    for _ in range(200):
        source, target = rng.integers(0, len(states), 2)
        action = rng.random()
        if action < 0.15:
            mask = rng.random(n) < 0.5
            states[source].reset(mask)
            oracles[source].reset(mask)
        elif action < 0.3:
            states[target].assign(states[source])
            oracles[target].past = [list(past) for past in oracles[source].past]
        else:
            signals = random_signals(n, rng)
            sim = simulation(signals)
            actuator.step(sim, sim, states[source], states[target])
            before = [list(past) for past in oracles[source].past]
            _, expected = oracles[source].step(*signals.values(), 0.01)
            oracles[source].past, after = before, oracles[source].past
            oracles[target].past = [list(past) for past in after]
            np.testing.assert_allclose(sim.joint_f.numpy(), expected, rtol=2e-4, atol=2e-4)


def floating_base_indices(envs, joints=12):
    env, joint = np.divmod(np.arange(envs * joints), joints)
    return env * (joints + 6) + 6 + joint, env * (joints + 7) + 7 + joint


def scatter(values, indices, size, rng):
    spread = rng.standard_normal(size).astype(np.float32)
    spread[indices] = values
    return spread


@pytest.mark.parametrize("staged", [False, True])
def test_scattered_equals_contiguous(staged, rng):
    envs = 20
    n = envs * 12
    values, steps, masks = make(CHAIN, n, rng)
    dofs, coords = floating_base_indices(envs)
    scattered_steps = []
    for signals in steps:
        spread = {}
        for name, array in signals.items():
            on_coords = name in ("joint_q", "joint_target_q")
            spread[name] = scatter(array, coords if on_coords else dofs, envs * (19 if on_coords else 18), rng)
        scattered_steps.append(spread)
    contiguous = rollout(values.actuator(), steps, masks=masks)
    scattered = rollout(values.actuator(dofs, staged=staged, pos_indices=coords), scattered_steps, masks=masks)
    np.testing.assert_array_equal(contiguous, scattered)


def test_offset_and_permuted_indices(rng):
    n = 130
    values, steps, _ = make("pd-dc_max-late", n, rng)
    expected = rollout(values.actuator(), steps)
    shifted = [{k: np.concatenate([np.full(9, np.nan, np.float32), v]) for k, v in s.items()} for s in steps]
    np.testing.assert_array_equal(rollout(values.actuator(np.arange(n) + 9), shifted), expected)
    order = rng.permutation(n)
    permuted = [{k: v[np.argsort(order)] for k, v in s.items()} for s in steps]
    np.testing.assert_array_equal(rollout(values.actuator(order), permuted), expected)


def test_every_index_array_is_used_for_its_own_array(rng):
    n = 3
    actuator_indices = {"indices": [4, 2, 0], "pos_indices": [1, 3, 5], "target_pos_indices": [6, 0, 2]}
    values = Values.random("pd-free-now", n, rng)
    actuator = values.actuator(**actuator_indices, effort_indices=[7, 5, 1])
    signals = random_signals(8, rng)
    sim = simulation(signals)
    actuator.step(sim, sim)
    g = values.gains
    q, qd, target_q, target_qd, act = signals.values()
    v = [4, 2, 0]
    expected = np.zeros(8)
    expected[[7, 5, 1]] = act[v] + g["kp"] * (target_q[[6, 0, 2]] - q[[1, 3, 5]]) + g["kd"] * (target_qd[v] - qd[v])
    np.testing.assert_allclose(sim.joint_f.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("staged", [False, True])
def test_repeated_effort_indices_add_up(staged, rng):
    n = 100
    values, steps, _ = make("pd-max-now", n, rng)
    targets = rng.integers(0, 5, n)
    actuator = values.actuator(effort_indices=targets, staged=staged)
    sim = simulation(steps[0], outputs=n)
    sim.joint_f.fill_(1.0)
    actuator.step(sim, sim)
    single = rollout(values.actuator(), steps[:1])[0]
    expected = np.full(n, 1.0)
    np.add.at(expected, targets, single)
    np.testing.assert_allclose(sim.joint_f.numpy(), expected, rtol=1e-5)


def test_strided_arrays_are_used_without_a_copy(rng):
    n = 90
    values, steps, _ = make("pid-dc_max-late", n, rng)
    expected = rollout(values.actuator(), steps)
    actuator = values.actuator()
    state = actuator.state()
    table = {name: np.zeros((n, 3), np.float32) for name in steps[0]}
    output = np.zeros((n, 2), np.float32)
    sim = {name: array[:, 1] for name, array in table.items()} | {"joint_f": output[:, 0]}
    for t, signals in enumerate(steps):
        for name, array in signals.items():
            table[name][:, 1] = array
        output[:] = 0.0
        actuator.step(sim, sim, state, state, dt=0.01)
        np.testing.assert_array_equal(output[:, 0], expected[t])
        assert not output[:, 1].any()


def test_strided_array_in_the_middle_of_a_run(rng):
    """The kernel changes with the layout of an array, between two steps of one state."""
    n = 70
    values, steps, _ = make("pd-max-late", n, rng)
    expected = rollout(values.actuator(), steps)
    actuator = values.actuator()
    state = actuator.state()
    for t, signals in enumerate(steps):
        arrays = {name: np.repeat(array, 2)[::2] if t % 3 == 1 else array for name, array in signals.items()}
        arrays["joint_f"] = np.zeros(n, np.float32)
        actuator.step(arrays, arrays, state, state)
        np.testing.assert_array_equal(arrays["joint_f"], expected[t])


def test_several_threads_equal_one(rng, monkeypatch):
    n = 10_000
    values, steps, masks = make("pid-dc_max-late", n, rng)
    monkeypatch.setenv("ACTUON_NUM_THREADS", "1")
    expected = rollout(values.actuator(), steps, masks=masks)
    monkeypatch.setenv("ACTUON_NUM_THREADS", "3")
    monkeypatch.setattr(launch, "DOFS_PER_THREAD", 1000)
    np.testing.assert_array_equal(rollout(values.actuator(), steps, masks=masks), expected)


def test_repeated_efforts_stay_on_one_thread(rng, monkeypatch):
    monkeypatch.setenv("ACTUON_NUM_THREADS", "2")
    monkeypatch.setattr(launch, "DOFS_PER_THREAD", 256)
    monkeypatch.setattr(launch, "WORTH_WAKING", 0.0)
    shared, run_together = [], launch.run_together
    monkeypatch.setattr(launch, "run_together", lambda tasks: shared.append(len(tasks)) or run_together(tasks))
    n = 2000
    values, steps, _ = make("pd-free-now", n, rng)
    for indices, threads in ((np.arange(n), {2}), (np.zeros(n, int), set())):
        actuator = values.actuator(effort_indices=indices)
        sim = simulation(steps[0])
        shared.clear()
        launches = record_launches(monkeypatch)
        for _ in range(5):  # the first ones show whether sharing is worth it
            sim.joint_f.zero_()
            actuator.step(sim, sim)
        assert set(shared) == threads
        assert len(launches) == len(threads) + 1
    single = rollout(values.actuator(), steps[:1])[0]
    np.testing.assert_allclose(sim.joint_f.numpy()[0], single.astype(np.float64).sum(), rtol=1e-3)


def test_scalar_flavour_equals_blocks(rng, monkeypatch):
    """The kernel that a GPU runs, here on the CPU."""
    values, steps, masks = make(CHAIN, 200, rng)
    expected = rollout(values.actuator(), steps, masks=masks)
    actuator = values.actuator()
    actuator.controller.kp = wp.array(np.repeat(values.gains["kp"], 2))[::2]
    np.testing.assert_array_equal(rollout(actuator, steps, masks=masks), expected)
    state, sim = actuator.state(), simulation(steps[0])
    launches = record_launches(monkeypatch)
    actuator.step(sim, sim, state, state, dt=0.01)
    assert [dim for _, dim in launches] == [200]
    launches.clear()
    in_blocks = values.actuator()
    state = in_blocks.state()
    in_blocks.step(sim, sim, state, state, dt=0.01)
    assert len(launches) == 1
    assert np.prod(launches[0][1]) < 200


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_step_that_is_not_fused_launches_each_stage(requires_grad, rng, monkeypatch):
    values, (signals, *_), _ = make("pd-dc_max-late", 8, rng)
    launches, counts = record_launches(monkeypatch), {}
    for staged in (False, True):
        actuator = values.actuator(staged=staged, requires_grad=requires_grad)
        assert actuator.is_fused() is not staged
        assert ("staged" if staged else "fused") in repr(actuator)
        launches.clear()
        state, sim = actuator.state(), simulation(signals, requires_grad=requires_grad)
        actuator.step(sim, sim, state, actuator.state(), dt=0.01)
        counts[staged] = len(launches)
    assert counts[False] == 1
    assert counts[True] >= len(actuator.stages)


@pytest.mark.parametrize("staged", [False, True])
def test_computed_output_is_the_effort_before_clamping(staged, rng):
    n = 80
    values, steps, _ = make("pid-dc_max-late", n, rng)
    actuator = values.actuator(control_computed_output_attr="raw", staged=staged)
    oracle = values.oracle()
    state = actuator.state()
    for signals in steps:
        sim = simulation(signals)
        sim.raw = wp.zeros(n, dtype=wp.float32)
        actuator.step(sim, sim, state, state, dt=0.01)
        computed, applied = oracle.step(*signals.values(), 0.01)
        np.testing.assert_allclose(sim.raw.numpy(), computed, rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(sim.joint_f.numpy(), applied, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("attribute", ["joint_act", None])
def test_feedforward_may_be_absent(staged, attribute, rng):
    n = 66
    values, steps, _ = make("pd-free-late", n, rng)
    actuator = values.actuator(control_feedforward_attr=attribute, staged=staged)
    zeroed = [{**signals, "joint_act": np.zeros(n, np.float32)} for signals in steps]
    for signals in steps:
        if attribute is not None:
            del signals["joint_act"]
    np.testing.assert_array_equal(rollout(actuator, steps), rollout(values.actuator(), zeroed))


def test_feedforward_that_comes_and_goes(rng):
    values, steps, _ = make("pd-free-late", 66, rng)
    actuator, oracle = values.actuator(), values.oracle()
    state = actuator.state()
    for t, signals in enumerate(steps):
        sim = simulation(signals)
        if t % 2:
            sim.joint_act = None
            signals = {**signals, "joint_act": np.zeros(66)}
        actuator.step(sim, sim, state, state)
        expected = oracle.step(*signals.values(), 0.01)[1]
        np.testing.assert_allclose(sim.joint_f.numpy(), expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("layout", ["contiguous", "scattered"])
def test_writing_over_the_output_instead_of_adding(staged, layout, rng):
    n = 200
    values = Values.random("pid-table_dc_max-late", n, rng)
    indices = np.arange(n) if layout == "contiguous" else rng.permutation(2 * n)[:n]
    steps = [random_signals(2 * n, rng) for _ in range(3)]
    efforts = []
    for accumulate in (True, False):
        actuator = values.actuator(indices, staged, accumulate=accumulate, control_computed_output_attr="wanted")
        state = actuator.state()
        log = []
        for signals in steps:
            sim = simulation(signals, outputs=2 * n)
            sim.wanted = wp.zeros_like(sim.joint_f)
            if not accumulate:
                for array in (sim.joint_f, sim.wanted):
                    array.numpy()[indices] = np.nan
            actuator.step(sim, sim, state, state, dt=0.01)
            log += [sim.joint_f.numpy().copy(), sim.wanted.numpy().copy()]
        efforts.append(log)
    np.testing.assert_array_equal(*efforts)


def test_an_output_that_is_written_over_has_one_writer():
    with pytest.raises(ValueError, match="some repeat"):
        actuon.Actuator([0, 1], actuon.ControllerPD(1.0, 0.0), effort_indices=[3, 3], accumulate=False)


@pytest.mark.parametrize("options", [{}, {"requires_grad": True}])
def test_one_kernel_adds_efforts_or_writes_them(options, rng):
    values = Values.random("pd-max-now", 5, rng)
    signals = random_signals(5, rng)
    adding, writing = (values.actuator(accumulate=adds, **options) for adds in (True, False))
    assert adding.kernel_source() == writing.kernel_source()
    efforts = []
    for actuator, before in ((adding, 0.0), (adding, 1000.0), (writing, np.nan)):
        sim = simulation(signals, **options)
        sim.joint_f.fill_(before)
        actuator.step(sim, sim)
        efforts.append(sim.joint_f.numpy())
    np.testing.assert_array_equal(efforts[2], efforts[0])
    np.testing.assert_array_equal(efforts[1], np.float32(1000.0) + efforts[0])


class OtherPD(actuon.ControllerPD):
    """With a kernel that no other test makes."""

    law = other_pd_law


def test_a_stage_alone_has_one_kernel_whatever_stands_before_it(rng):
    signals = random_signals(3, rng)

    def effort(controller, **others):
        actuator = actuon.Actuator(range(3), controller(2.0, 1.0), fused=False, **others)
        sim, state = simulation(signals), actuator.state()
        actuator.step(sim, sim, state, state, dt=0.01)
        return sim.joint_f.numpy()

    before = ({}, {"delay": actuon.Delay(0, 1)}, {"sensors": [actuon.SensorLowPass(0.0)]})
    expected = [effort(actuon.ControllerPD, **others) for others in before]
    kernels = kernel_for.cache_info().currsize
    for others, values in zip(before, expected, strict=True):
        np.testing.assert_allclose(effort(OtherPD, **others), values, rtol=1e-5)
    assert kernel_for.cache_info().currsize == kernels + 1
