# SPDX-License-Identifier: Apache-2.0
"""Things that people did to it, each of which once went wrong."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
import warp as wp

import actuon
from actuon import StateError, StructureError
from actuon.kernel.state import Cells
from tests.support.chains import SIGNALS, Values, random_signals, rollout, simulation


def unit_step(actuator, target=1.0, dt=None):
    """Effort of one step towards ``target`` from rest."""
    n = actuator.num_actuators
    sim = {name: np.zeros(n, np.float32) for name in (*SIGNALS, "joint_f")}
    sim["joint_target_q"][:] = target
    actuator.step(sim, sim, dt=dt)
    return sim["joint_f"]


def test_a_component_may_be_given_to_several_actuators():
    """Each has a copy with arrays of its own; what was given stays as it is, and cannot change."""
    controller = actuon.ControllerPD(1.0, 0.0)
    many, few = actuon.Actuator(range(700), controller), actuon.Actuator(range(3), controller, requires_grad=True)
    again = actuon.Actuator(range(3), few.controller)
    few.controller.kp = 2.0
    again.controller.kp = 3.0
    assert repr(controller) == "ControllerPD(kp=1.0, kd=0.0, const_effort=None)"
    np.testing.assert_array_equal(unit_step(many), np.ones(700))
    np.testing.assert_array_equal(few.controller.kp.numpy(), [2, 2, 2])
    np.testing.assert_array_equal(unit_step(again), [3, 3, 3])
    with pytest.raises(actuon.StructureError, match="kp: cannot be changed here"):
        controller.kp = 9.0
    np.testing.assert_array_equal(unit_step(many), np.ones(700))
    with pytest.raises(actuon.ArrayError, match="kp: got 700 values; must have 3, one per DOF"):
        actuon.Actuator(range(3), many.controller)


def test_a_component_may_be_in_a_chain_twice():
    """Before and behind a spring, friction works differently."""
    friction = actuon.EffectFriction(0.2, inertia=0.1)
    spring = actuon.TransmissionSeriesElastic(100.0, 0.01)
    stages = [actuon.ControllerPD(1.0, 0.0), friction, spring, friction]
    actuator = actuon.Actuator([0], stages=stages)
    assert [stage.behind_spring for stage in actuator.stages] == [False, False, False, True]
    assert not friction.behind_spring
    assert actuator.stages[1] is not actuator.stages[3]


class ClampingWithBuffer(actuon.ClampingMaxEffort):
    """Makes a buffer when it is bound, and what it is given when it is made."""

    def __init__(self, max_effort):
        super().__init__(max_effort)
        self.notes = []

    def finalize(self, device, num_actuators):
        super().finalize(device, num_actuators)
        self.buffer = wp.zeros(num_actuators, device=device)


def test_finalize_is_called_on_the_copy():
    clamp, written = ClampingWithBuffer(1.0), []
    clamp.on_write(lambda: written.append(1))
    first, second = (actuon.Actuator(range(n), actuon.ControllerPD(1.0, 0.0), clamping=[clamp]) for n in (3, 4))
    assert not hasattr(clamp, "buffer")
    assert [len(actuator.clamping[0].buffer) for actuator in (first, second)] == [3, 4]
    assert first.clamping[0].notes is clamp.notes
    first.clamping[0].max_effort = 2.0
    assert written == [1]


def test_a_construction_that_fails_late_changes_no_component():
    controller = actuon.ControllerPD(1.0, 0.0)
    with pytest.raises(actuon.ArrayError, match="max_effort: got 3 values; must have 4"):
        actuon.Actuator(range(4), controller, clamping=[actuon.ClampingMaxEffort([1.0] * 3)])
    actuator = actuon.Actuator(range(3), controller, clamping=[actuon.ClampingMaxEffort([1.0] * 3)])
    np.testing.assert_array_equal(unit_step(actuator), [1, 1, 1])
    actuator = actuon.Actuator(range(5), controller)
    np.testing.assert_array_equal(unit_step(actuator), np.ones(5))


def test_a_number_from_any_framework():
    torch = pytest.importorskip("torch")
    for value in (np.float64(2.0), np.array(2.0), torch.tensor(2.0), 2):
        actuator = actuon.Actuator(range(3), actuon.ControllerPD(value, 0.0))
        np.testing.assert_array_equal(unit_step(actuator), [2, 2, 2])


def test_numbers_are_never_written_into_the_users_array():
    shared = wp.array([1.0, 2.0, 3.0], dtype=wp.float32)
    controller = actuon.ControllerPD(shared, shared)
    actuator = actuon.Actuator(range(3), controller)
    assert actuator.controller.kd is shared
    actuator.controller.kp = 9.0
    np.testing.assert_array_equal(shared.numpy(), [1, 2, 3])
    np.testing.assert_array_equal(actuator.controller.kd.numpy(), [1, 2, 3])
    np.testing.assert_array_equal(unit_step(actuator), [9, 9, 9])
    actuator.controller.kp = shared
    shared.assign(np.float32([4, 5, 6]))
    np.testing.assert_array_equal(unit_step(actuator), [4, 5, 6])


def test_indices_are_copied():
    indices = wp.array([0, 2, 4], dtype=wp.uint32)
    actuator = actuon.Actuator(indices, actuon.ControllerPD(1.0, 0.0))
    memory = np.zeros(2000, np.float32)
    sim = {name: np.ones(5, np.float32) for name in SIGNALS} | {"joint_f": memory[:5]}
    indices.assign(np.array([0, 2, 1000], np.uint32))
    actuator.step(sim, sim)
    np.testing.assert_array_equal(np.flatnonzero(memory), [0, 2, 4])


def test_states_of_another_shape_are_refused_by_the_delay():
    three = wp.array([0, 1, 2], dtype=wp.uint32)
    zeros = wp.zeros(3, dtype=wp.float32)
    deep, shallow = actuon.Delay([5, 5, 5], 5), actuon.Delay([0, 1, 2], 2)
    for _ in range(3):
        with pytest.raises(StateError, match=r"got a delay buffer of \(2, 3\)"):
            deep.update_state(zeros, zeros, None, three, three, shallow.state(3, "cpu"), shallow.state(3, "cpu"))
        with pytest.raises(StateError):
            deep.update_state(zeros, zeros, None, three, three, deep.state(300, "cpu"), deep.state(2, "cpu"))
        with pytest.raises(actuon.ArrayError):
            deep.get_delayed_targets(zeros, zeros, None, three, three, deep.state(300, "cpu"))


class Interface:
    """An array behind NumPy's array interface, whose memory may be another one tomorrow."""

    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


def test_read_only_output_behind_an_interface():
    output = np.zeros(3, np.float32)
    output.flags.writeable = False
    actuator = actuon.Actuator(range(3), actuon.ControllerPD(1.0, 0.0))
    sim = {name: np.ones(3, np.float32) for name in SIGNALS} | {"joint_f": Interface(output)}
    with pytest.raises(actuon.ArrayError, match="read-only"):
        actuator.step(sim, sim)


class Exported:
    """An array behind DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_output_behind_dlpack_is_written_unless_it_is_read_only():
    output = np.zeros(3, np.float32)
    actuator = actuon.Actuator(range(3), actuon.ControllerPD(2.0, 0.0))
    sim = {name: np.zeros(3, np.float32) for name in SIGNALS} | {"joint_f": Exported(output)}
    sim["joint_target_q"][:] = 1.0
    actuator.step(sim, sim)
    np.testing.assert_array_equal(output, [2, 2, 2])
    output.flags.writeable = False
    with pytest.raises(actuon.ArrayError, match="joint_f: got Exported, which is read-only"):
        actuator.step(sim, sim)
    np.testing.assert_array_equal(output, [2, 2, 2])


def test_jax_arrays_are_read_and_never_written():
    jax = pytest.importorskip("jax")
    actuator = actuon.Actuator(range(3), actuon.ControllerPD(2.0, 0.0))
    sim = {name: jax.numpy.zeros(3) for name in SIGNALS} | {"joint_target_q": jax.numpy.ones(3)}
    output = jax.numpy.zeros(3)
    with pytest.raises(actuon.ArrayError, match="joint_f: got ArrayImpl, which is read-only"):
        actuator.step(sim, sim | {"joint_f": output})
    np.testing.assert_array_equal(output, [0, 0, 0])
    efforts = np.zeros(3, np.float32)
    actuator.step(sim, sim | {"joint_f": efforts})
    np.testing.assert_array_equal(efforts, [2, 2, 2])


def test_memory_that_moves_behind_an_interface():
    actuator = actuon.Actuator(range(3), actuon.ControllerPD(10.0, 0.0))
    position = Interface(np.zeros(3, np.float32))
    sim = {name: np.zeros(3, np.float32) for name in (*SIGNALS, "joint_f")} | {"joint_q": position}
    actuator.step(sim, sim)
    position.array = np.ones(3, np.float32)
    actuator.step(sim, sim)
    np.testing.assert_array_equal(sim["joint_f"], [-10, -10, -10])


def test_states_go_when_they_are_let_go(rng):
    actuator = Values.random("pid-free-late", 4, rng).actuator()
    sim = simulation(random_signals(4, rng))
    state = actuator.state()
    gone = weakref.ref(state)
    for _ in range(200):
        following = actuator.state()
        actuator.step(sim, sim, state, following, dt=0.01)
        state = following
    assert gone() is None


def test_what_is_bound_goes_with_either_state(rng):
    actuator = Values.random("pid-free-late", 4, rng).actuator()
    sim = simulation(random_signals(4, rng))
    kept = actuator.state()
    for _ in range(200):
        actuator.step(sim, sim, kept, actuator.state(), dt=0.01)
    assert len(kept.plans) <= 1


def test_hundreds_of_pairs_of_states_stay_bound(rng):
    actuator = Values.random("pid-free-late", 4, rng).actuator()
    sim = simulation(random_signals(4, rng))
    states = [actuator.state() for _ in range(100)]
    bound = []
    for _ in range(2):
        for t, state in enumerate(states):
            actuator.step(sim, sim, state, states[(t + 1) % 100], dt=0.01)
        bound.append([plan for state in states for _, plan in state.plans.values()])
    assert len(bound[0]) == 100
    assert all(first is second for first, second in zip(*bound, strict=True))


def test_what_cannot_be_replaced_says_so(rng):
    actuator = Values.random("pid-max-late", 4, rng).actuator()
    state = actuator.state()
    with pytest.raises(StateError, match="integral: cannot be replaced"):
        state.controller_state.integral = wp.zeros(4, dtype=wp.float32)
    with pytest.raises(StateError, match="num_pushes: cannot be replaced"):
        state.delay_state.num_pushes = wp.zeros(4, dtype=wp.int32)
    with pytest.raises(AttributeError):
        actuator.controller = actuon.ControllerPD(1.0, 0.0)
    assert isinstance(actuator.clamping, tuple)


def test_the_cells_of_a_gpu(rng, monkeypatch):
    """One cell per DOF and one DOF per thread, in place: what a GPU does, here on the CPU."""
    values = Values.random("pid-dc_max-late", 300, rng)
    steps = [random_signals(300, rng) for _ in range(12)]
    masks = {5: rng.random(300) < 0.4}
    expected = rollout(values.actuator(), steps, masks=masks)
    cells = Cells.of
    monkeypatch.setattr(Cells, "of", lambda *given: dataclasses.replace(cells(*given), tile_size=1))
    for stepping in ("one", "two", "fresh"):
        actuator = values.actuator()
        actuator.controller.kp = wp.array(np.repeat(values.gains["kp"], 2))[::2]  # strided: the scalar kernel
        np.testing.assert_array_equal(rollout(actuator, steps, masks=masks, stepping=stepping), expected)
        assert actuator.state().delay_state.write_idx.shape == (300,)


def test_one_actuator_in_several_threads(rng):
    actuator = actuon.Actuator(range(64), actuon.ControllerPD(1.0, 0.0))
    wrong = []

    def work(target):
        sim = {name: np.zeros(64, np.float32) for name in (*SIGNALS, "joint_f")}
        sim["joint_target_q"][:] = target
        for _ in range(2000):
            sim["joint_f"][:] = 0.0
            actuator.step(sim, sim)
            if (sim["joint_f"] != target).any():
                wrong.append(target)

    threads = [threading.Thread(target=work, args=(float(i + 1),)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("staged", [False, True])
def test_swapped_states_on_a_tape_are_refused(staged, rng):
    actuator = Values.random("pid-free-late", 4, rng).actuator(requires_grad=True, staged=staged)
    sim = {name: wp.array(array, requires_grad=True) for name, array in random_signals(4, rng).items()}
    sim["joint_f"] = wp.zeros(4, dtype=wp.float32, requires_grad=True)
    first, second = actuator.state(), actuator.state()
    with wp.Tape():
        actuator.step(sim, sim, first, second, dt=0.01)
        with pytest.raises(StateError, match="was already used on this"):
            actuator.step(sim, sim, second, first, dt=0.01)
        with pytest.raises(StateError, match="reset"):
            second.reset()
    actuator.step(sim, sim, second, first, dt=0.01)
    with wp.Tape():
        actuator.step(sim, sim, second, first, dt=0.01)


def test_a_parameter_replaced_later_has_a_gradient():
    actuator = actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), requires_grad=True)
    actuator.controller.kp = wp.array([20.0], dtype=wp.float32)
    sim = {name: wp.zeros(1, dtype=wp.float32, requires_grad=True) for name in (*SIGNALS, "joint_f")}
    sim["joint_target_q"].fill_(0.8)
    with wp.Tape() as tape:
        actuator.step(sim, sim)
    tape.backward(grads={sim["joint_f"]: wp.ones(1, dtype=wp.float32)})
    np.testing.assert_allclose(actuator.controller.kp.grad.numpy(), [0.8])


def test_arrays_that_would_get_no_gradient_are_refused(rng):
    torch = pytest.importorskip("torch")
    actuator = actuon.Actuator(range(4), actuon.ControllerPD(1.0, 0.0), requires_grad=True)
    sim = {name: wp.array(array, requires_grad=True) for name, array in random_signals(4, rng).items()}
    for name, array in (("joint_f", wp.zeros(4)), ("joint_q", torch.zeros(4, requires_grad=True))):
        good = wp.zeros(4, dtype=wp.float32, requires_grad=True)
        with wp.Tape(), pytest.raises(actuon.ArrayError, match=name):
            actuator.step(sim | {"joint_f": good, name: array}, sim | {"joint_f": good, name: array})


def test_a_staged_actuator_without_gradients_refuses_a_tape(rng):
    values = Values.random("pd-max-now", 4, rng)
    sim = simulation(random_signals(4, rng))
    with wp.Tape(), pytest.raises(StructureError, match="requires_grad=True"):
        values.actuator(staged=True).step(sim, sim)


class PIDWithOwnMethod(actuon.ControllerPID):
    def compute(self, *arguments, **keywords):
        super().compute(*arguments, **keywords)


def test_a_staged_integral_keeps_its_gradient():
    actuator = actuon.Actuator([0], PIDWithOwnMethod(10.0, 2.0, 0.0, 50.0), requires_grad=True)
    assert not actuator.is_fused()
    states = [actuator.state() for _ in range(4)]
    sims = [
        {name: wp.zeros(1, dtype=wp.float32, requires_grad=True) for name in (*SIGNALS, "joint_f")} for _ in range(3)
    ]
    with wp.Tape() as tape:
        for t, sim in enumerate(sims):
            actuator.step(sim, sim, states[t], states[t + 1], dt=0.1)
    tape.backward(grads={sims[2]["joint_f"]: wp.ones(1, dtype=wp.float32)})
    np.testing.assert_allclose([s["joint_q"].grad.numpy()[0] for s in sims], [-0.2, -0.2, -10.2], rtol=1e-5)


@wp.func
def asks_heat(effort: float, heat: float):
    return effort, heat


@wp.func
def asks_whole_signal(effort: int):
    return float(effort)


@dataclass(frozen=True)
class ShadowConfig(actuon.Config):
    effort: float = actuon.param("N·m", "Named like a signal.")


@dataclass(frozen=True)
class MethodConfig(actuon.Config):
    finalize: float = actuon.param("1", "Named like a method.")


@dataclass(frozen=True)
class UndeclaredConfig(actuon.Config):
    gain: float = 1.0


@pytest.mark.parametrize(
    ("base", "attributes", "match"),
    [
        (actuon.Clamping, {"law": asks_whole_signal}, "must be float"),
        (actuon.Clamping, {"law": lambda effort: effort}, "decorated with @wp.func"),
        (actuon.Clamping, {"law": actuon.ClampingMaxEffort.law, "config": ShadowConfig}, "name of a built-in signal"),
        (actuon.Clamping, {"config": MethodConfig}, "MethodConfig.finalize: components have an attribute of this name"),
        (actuon.Clamping, {"config": UndeclaredConfig}, "declare it with actuon.param"),
        (
            actuon.Clamping,
            {"law": asks_heat, "STATES": {"heat": "ambient"}},
            "heat starts at 'ambient'; must be a number, or a parameter",
        ),
    ],
)
def test_components_that_cannot_work_are_refused_when_defined(base, attributes, match):
    with pytest.raises(StructureError, match=match):
        type("Broken", (base,), attributes)


@dataclass(frozen=True)
class CountConfig(actuon.Config):
    count: int = actuon.param("1", "How often.", minimum=0, integer=True, fallback=1)
    gain: float = actuon.param("1", "A factor.", default=1.0)


@wp.func
def repeated(effort: float, count: int, gain: float):
    return effort * float(count) * gain


class ClampingRepeated(actuon.Clamping):
    config = CountConfig
    law = repeated
    SHARED_PARAMS = frozenset({"gain"})


def test_whole_number_parameters_and_extra_shared_ones():
    actuator = actuon.Actuator(range(3), actuon.ControllerPD(1.0, 0.0), clamping=[ClampingRepeated([1, 2, 3])])
    np.testing.assert_array_equal(unit_step(actuator), [1, 2, 3])
    assert {"gain"} == ClampingRepeated.SHARED_PARAMS


class MyPD(actuon.ControllerPD):
    config = actuon.PDControlConfig


def test_a_second_class_does_not_take_over_a_config():
    assert type(actuon.PDControlConfig(1.0, 1.0).build()) is actuon.ControllerPD


class Forgetful(actuon.Clamping):
    config = actuon.MaxEffortClampingConfig
    law = actuon.ClampingMaxEffort.law

    def __init__(self):
        pass


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: actuon.ClampingDCMotor([1.0] * 3, [2.0] * 4, 1.0), "must have the same length"),
        (lambda: actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), clamping=7), "must be a list"),
        (lambda: actuon.Actuator([[1], [2, 3]], actuon.ControllerPD(1.0, 0.0)), "indices: got list"),
        (lambda: actuon.Actuator(4, actuon.ControllerPD(1.0, 0.0)), r"indices: got shape \(\)"),
        (lambda: actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), state_pos_attr=None), "name of an array"),
        (lambda: actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), clamping=[Forgetful()]), "call super"),
        (lambda: actuon.Delay(2**40, 5), "delay_steps"),
        (lambda: actuon.Delay(np.array([2**32 + 1]), 5), "delay_steps"),
        (lambda: actuon.ClampingPositionBased([-3e38, 3e38], [1.0, 9.0]), "their difference must be finite"),
        (lambda: actuon.read_lookup_table(123), "cannot be read"),
        (lambda: actuon.read_lookup_table("a\0b"), "cannot be read"),
        (lambda: actuon.PositionBasedClampingConfig([[0], [1, 2]], [1, 2]), "flat list"),
        (lambda: actuon.ActuatorBuilder().add_actuator(actuon.ControllerPD, 2**32 + 7), "index"),
        (lambda: actuon.ClampingPositionBased.resolve_arguments({}), "needs"),
    ],
)
def test_errors_that_once_were_not_ours(call, match):
    with pytest.raises(actuon.ActuonError, match=match) as caught:
        call()
    assert isinstance(caught.value, (ValueError, TypeError))


@pytest.mark.parametrize("dt", ["0.1", 1j, np.array([0.1, 0.2]), 10**400, 1e39])
def test_odd_time_steps(dt, rng):
    actuator = Values.random("pid-free-now", 3, rng).actuator()
    sim, state = simulation(random_signals(3, rng)), actuator.state()
    for _ in range(2):
        with pytest.raises(StateError, match="dt: got"):
            actuator.step(sim, sim, state, state, dt=dt)
        actuator.step(sim, sim, state, state, dt=0.01)


def test_replication_beyond_the_index_range():
    builder = actuon.ActuatorBuilder()
    builder.add_actuator(actuon.ControllerPD, 3, kp=1.0, clamping=None)
    with pytest.raises(actuon.ParameterError, match="would reach"):
        builder.replicate(3, 2**31 - 1)
    assert len(builder) == 1


def test_a_misspelt_feedforward_is_an_error(rng):
    values = Values.random("pd-free-now", 3, rng)
    actuator = values.actuator(control_feedforward_attr="joint_actt")
    sim = simulation(random_signals(3, rng))
    with pytest.raises(actuon.MissingArrayError, match="joint_actt"):
        actuator.step(sim, sim)
    sim.joint_actt = None
    actuator.step(sim, sim)


def test_an_error_inside_a_property_is_shown(rng):
    class Broken:
        @property
        def joint_q(self):
            return self.no_such_thing

    actuator = Values.random("pd-free-now", 3, rng).actuator()
    with pytest.raises(actuon.MissingArrayError, match="no_such_thing"):
        actuator.step(Broken(), simulation(random_signals(3, rng)))


def test_table_text_stays_in_its_comment(tmp_path):
    path = tmp_path / "table.txt"
    path.write_text("# page\x0cbreak   7 8\n9 1\n", encoding="utf-8")
    assert actuon.read_lookup_table(path) == ((9.0,), (1.0,))
    path.write_text("# comment\n\n1 2\n# more\n0 3\n")
    with pytest.raises(actuon.ParameterError, match=r"table.txt:5: .*must not decrease"):
        actuon.read_lookup_table(path)


def test_bad_thread_counts_are_named(rng, monkeypatch):
    monkeypatch.setenv("ACTUON_NUM_THREADS", "all")
    with pytest.raises(actuon.ParameterError, match="ACTUON_NUM_THREADS: got 'all'"):
        rollout(Values.random("pd-free-now", 3, rng).actuator(), [random_signals(3, rng)])


def test_the_kernel_can_be_read(rng):
    source = Values.random("pid-max-late", 3, rng).actuator().kernel_source()
    assert "pid_law(" in source
    assert "max_effort_law(" in source
    with pytest.raises(StructureError, match="not fused: PIDWithOwnMethod brings its own kernels"):
        actuon.Actuator([0], PIDWithOwnMethod(1.0, 1.0, 1.0, 1.0)).kernel_source()
    with pytest.raises(StructureError, match="not fused: it was built with fused=False"):
        Values.random("pid-max-late", 3, rng).actuator(staged=True).kernel_source()


def friction_stages():
    return [actuon.ControllerPD(20.0, 0.5), actuon.EffectFriction(3.0, inertia=0.01)]


def test_a_component_does_not_change_the_actuator_that_has_it():
    stages = friction_stages()
    first = actuon.Actuator(range(3), stages=stages)
    before = unit_step(first, dt=0.002)
    assert (before != unit_step(actuon.Actuator(range(3), stages=stages[:1]))).all()  # so friction counts
    in_engine = actuon.Actuator(range(3), stages=stages, in_engine=True)
    assert (unit_step(in_engine, dt=0.002) != before).all()
    spring = actuon.TransmissionSeriesElastic(300.0, 0.05, 5.0)
    assert actuon.Actuator(range(3), stages=[stages[0], spring, stages[1]]).stages[-1].behind_spring
    np.testing.assert_array_equal(unit_step(first, dt=0.002), before)
    again = actuon.Actuator(range(3), stages=stages, fused=False)
    np.testing.assert_array_equal(unit_step(again, dt=0.002), before)
    np.testing.assert_array_equal(unit_step(first, dt=0.002), before)


@pytest.mark.parametrize(
    "options",
    [
        {"accumulate": False, "effort_indices": [0, 0, 1]},
        {"control_every": 0},
        {"control_computed_output_attr": "joint_f"},
        {"delay": actuon.DelayTime(100.0)},
        {"clamping": [actuon.ClampingMaxEffort([1.0, 2.0])]},
    ],
)
def test_an_actuator_that_cannot_be_built_leaves_its_components_as_they_were(options):
    pd, friction = friction_stages()
    friction.in_engine = False
    with pytest.raises(actuon.ActuonError):
        actuon.Actuator(range(3), pd, effects=[friction], in_engine=True, requires_grad=True, **options)
    pd.kp = [1.0, 2.0]  # it belongs to no actuator of three DOFs
    pd.kd = [0.0, 0.0]
    actuon.Actuator(range(2), pd)
    assert not friction.in_engine
    assert not friction.requires_grad
