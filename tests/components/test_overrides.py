# SPDX-License-Identifier: Apache-2.0
"""A method that a user overrides acts, or raises when the actuator is built: every class, every method.

Classes come from the registry, methods from the classes, so that a new one is tested or fails here.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import tempfile
from pathlib import Path

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.built_in import components, values

N = 3
NAMES = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act", "joint_f")

NOT_BY_A_STEP = {
    "numbers": "for users",
    "parameters": "for users",
    "declared": "for users",
    "complete": "for users",
    "expose": "for users",
    "on_write": "for users",
    "write_together": "when values are drawn or loaded",
    "shares_arrays": "when a builder makes the component",
    "check_memory": "when values are written",
    "with_values": "when a builder makes the component",
    "resolve_arguments": "when a builder makes the component",
    "fingerprint": "when a state is saved",
    "engine_armature": "on robots",
    "constant_ratio": "on robots",
    "number_dofs": "on robots",
    "longest": "on robots",
    "is_graphable": "before a capture",
    "state": "replaces the memory: test_a_state_of_a_class_replaces_that_of_its_base",
}
"""Methods that neither construction nor a step calls, and when they are called."""
REPLACING = ("run", "run_closing", "compute", "update_state", "modify_forces", "get_delayed_targets")
"""Methods that run a stage instead of its stage function."""


@functools.cache
def networks():
    """Return a network file by the name of its class."""
    torch_networks = pytest.importorskip("tests.support.torch_networks")
    folder = Path(tempfile.mkdtemp())
    made = {
        "ControllerNeuralMLP": (torch_networks.mlp(inputs=4, layers=1), [0, 1]),
        "ControllerNeuralLSTM": (torch_networks.LSTM(), None),
        "ControllerNeuralGRU": (torch_networks.GRU(), None),
    }
    for name, (module, steps) in made.items():
        metadata = {} if steps is None else {"input_idx": steps}
        actuon.save_network(module, folder / f"{name}.pt", **metadata)
    return {name: str(folder / f"{name}.pt") for name in made}


NEURAL = ("ControllerNeuralMLP", "ControllerNeuralLSTM", "ControllerNeuralGRU")
CLASSES = sorted({*components(), *NEURAL})


def class_of(name):
    return getattr(actuon, name, None) or components()[name]


def methods_of(cls):
    """Return the public methods of a component that a subclass may override."""
    found = {}
    for name, _ in inspect.getmembers(cls, callable):
        owner = next(owner for owner in cls.__mro__ if name in vars(owner))
        is_method = inspect.isfunction(inspect.unwrap(getattr(cls, name))) or inspect.ismethod(getattr(cls, name))
        if owner is not object and not name.startswith("_") and is_method and name not in ("law", "closing_law"):
            found[name] = vars(owner)[name]
    return found


def part_of(cls):
    """Return a component of a class, or of one derived from a built-in."""
    name = next(base.__name__ for base in cls.__mro__ if base.__name__ in CLASSES)
    if name in NEURAL:
        return cls(networks()[name])
    given = cls.resolve_arguments(values(name) or {})
    return cls.with_values(given | {"row": [0, 1]} if "matrix" in given else given)


def stages_with(part):
    """Return a chain in which a part can run."""
    kind = part.kind
    pd = [] if kind is actuon.ComponentKind.CONTROLLER else [actuon.ControllerPD(kp=40.0, kd=1.0)]
    before = kind in (actuon.ComponentKind.SENSOR, actuon.ComponentKind.DELAY)
    drawing = [actuon.ClampingVoltage(0.2, 0.5, 24.0)] if isinstance(part, actuon.ClampingBattery) else []
    return [part, *pd] if before else [*pd, part, *drawing]


class Robot:
    """A chain with its arrays."""

    def __init__(self, part, **options):
        n = 2 if isinstance(part, actuon.TransmissionCoupled) else N
        self.actuator = actuon.Actuator(range(n), stages=stages_with(part), **options)
        rng = np.random.default_rng(4)
        self.sim = {name: rng.uniform(-0.4, 0.4, n).astype(np.float32) for name in NAMES}
        self.state = self.actuator.state()

    def step(self, count=3):
        efforts = []
        for _ in range(count):
            self.sim["joint_f"][:] = 0.0
            self.actuator.step(self.sim, self.sim, self.state, self.state, dt=0.01)
            efforts.append(self.sim["joint_f"].copy())
            self.sim["joint_target_q"] += np.float32(0.05)
        return np.array(efforts)


def derived(cls, overrides):
    """Return a class of the same name, so that its kernels are those of the base."""
    return type(cls.__name__, (cls,), overrides)


def recorded(name, raw, calls):
    """Return an override that notes the call, and calls the method it overrides."""
    plain = raw.__func__ if isinstance(raw, (classmethod, staticmethod)) else raw

    def override(*args, **kwargs):
        calls.append(name)
        return plain(*args, **kwargs)

    return type(raw)(override) if isinstance(raw, (classmethod, staticmethod)) else override


@pytest.mark.parametrize("name", CLASSES)
def test_overridden_methods_are_called(name):
    """Those that describe a stage or prepare it, on one path or the other."""
    cls = class_of(name)
    found = {key: raw for key, raw in methods_of(cls).items() if key not in REPLACING}
    calls = []
    overrides = {key: recorded(key, raw, calls) for key, raw in found.items() if key not in NOT_BY_A_STEP}
    try:
        derived(cls, {"laws": overrides["laws"]})
    except actuon.StructureError as error:
        assert f"{name}.laws(): is not used" in str(error)  # noqa: PT017 - only delays
        del overrides["laws"], found["laws"]
    own = derived(cls, overrides)
    expected = Robot(part_of(cls)).step()
    for options in ({}, {"fused": False}):
        robot = Robot(part_of(own), **options)
        assert robot.actuator.is_fused() is (not options and name != "TransmissionCoupled")
        np.testing.assert_allclose(robot.step(), expected, rtol=2e-5, atol=1e-5)
        with contextlib.suppress(actuon.StateError):
            robot.actuator.check_dt(None)
    own_kernels = set() if robot.actuator.is_fused() or name != "TransmissionCoupled" else {"arguments"}
    missing = found.keys() - set(calls) - NOT_BY_A_STEP.keys() - own_kernels
    assert not missing, f"{name}: overrides of {sorted(missing)} are not called; fix that, or say who calls them"


def doubling(name, raw):
    """Return an override that doubles what the method gives."""

    def double(array):
        array.assign(2.0 * array.numpy())

    def run(self, given, results, *rest):
        raw(self, given, results, *rest)
        for array in results.values():
            double(array)

    def compute(self, *args, **kwargs):
        raw(self, *args, **kwargs)
        double(args[9])

    def modify_forces(self, source, target, *rest):
        raw(self, source, target, *rest)
        double(target)

    def get_delayed_targets(self, *args):
        late = raw(self, *args)
        for array in late:
            double(array)
        return late

    def update_state(self, *args):
        raw(self, *args)
        state = args[-1]
        saved = state.to_arrays()
        state.from_arrays({key: 2 * array if array.dtype == np.float32 else array for key, array in saved.items()})

    made = {"run": run, "run_closing": run, "compute": compute, "modify_forces": modify_forces}
    return (made | {"get_delayed_targets": get_delayed_targets, "update_state": update_state})[name]


ROWS = [(name, method) for name in CLASSES for method in REPLACING if method in methods_of(class_of(name))]


@pytest.mark.parametrize(("name", "method"), ROWS)
def test_an_overridden_run_acts_or_raises(name, method):
    cls = class_of(name)
    own = derived(cls, {method: doubling(method, methods_of(cls)[method])})
    try:
        robot = Robot(part_of(own))
    except actuon.StructureError as error:
        assert f"{name}.{method}: " in str(error)  # noqa: PT017 - either is right, and which depends on the class
        return
    assert not robot.actuator.is_fused()
    plain = Robot(part_of(cls)).step()
    changed = robot.step()
    assert not np.allclose(changed, plain, rtol=1e-3), f"{name}.{method}() has no effect"


@pytest.mark.parametrize("name", CLASSES)
def test_overrides_act_on_copies_that_builders_make(name):
    """`from_actuators` and `ActuatorBuilder` build components again."""
    cls = class_of(name)
    if "matrix" in (values(name) or {}):
        pytest.skip("a coupling is built for all its joints at once")
    calls = []
    own = derived(cls, {"run": recorded("run", cls.run, calls)})
    arguments = {"model_path": networks()[name]} if name in NEURAL else values(name) or {}
    config = actuon.ActuatorConfig(stages=stages_with(part_of(own)))
    before = len(calls)
    with (
        actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation,
        actuon.ArticulationActuators.from_actuators("link0", [(config, "joint1")]),
    ):
        simulation.step()
    assert len(calls) > before
    assert own.resolve_arguments(arguments)


def test_the_table_names_existing_methods():
    known = {method for name in CLASSES for method in methods_of(class_of(name))}
    assert known >= NOT_BY_A_STEP.keys() | {*REPLACING}


def test_a_state_of_a_class_replaces_that_of_its_base():
    class Preset(actuon.ControllerPID):
        def state(self, num_actuators, device):
            state = super().state(num_actuators, device)
            state.integral.fill_(0.5)
            return state

    class Kept(actuon.ControllerPID):
        class State(actuon.State):
            def assign(self, other, mask=None):
                super().assign(other, mask)
                self.integral.fill_(0.25)

    gains = {"kp": 0.0, "ki": 10.0, "kd": 0.0}
    robot = Robot(Preset(**gains))
    robot.sim |= {name: np.zeros(N, np.float32) for name in NAMES}
    np.testing.assert_allclose(robot.step(1)[0], 5.0)
    robot = Robot(Kept(**gains))
    robot.state.assign(robot.actuator.state())
    np.testing.assert_allclose(robot.state.controller_state.integral.numpy(), 0.25)


def test_a_rule_of_a_class_is_checked_besides_that_of_its_config():
    class Damped(actuon.ControllerPD):
        @classmethod
        def check_together(cls, where, values):
            super().check_together(where, values)
            if np.any(values["kd"] > values["kp"]):
                raise actuon.ParameterError(f"{where}: kd is above kp")

    with pytest.raises(actuon.ParameterError, match="Damped: kd is above kp"):
        Damped(kp=1.0, kd=2.0)


@wp.func
def supplied(effort: float, feedforward: float, max_effort: float):
    return wp.min(effort, max_effort + feedforward)


def test_methods_that_cannot_act_are_refused_when_the_actuator_is_built():
    class NoMemory(actuon.ControllerPD):
        def update_state(self, current_state, next_state):
            pass

    class NoHeat(actuon.ClampingVoltage):
        def modify_forces(self, *arguments):
            pass

    class NoSupply(actuon.ClampingMaxEffort):
        law = supplied

        def modify_forces(self, *arguments):
            pass

    class NoDuty(actuon.ControllerServoPWM):
        def compute(self, *arguments):
            pass

    def built(part):
        return actuon.Actuator([0], stages=stages_with(part))

    with pytest.raises(
        actuon.StructureError, match=r"NoMemory\.update_state: is not called, since the controller has no"
    ):
        built(NoMemory(1.0, 1.0))
    with pytest.raises(actuon.StructureError, match=r"NoHeat\.modify_forces: cannot change the memory of the clamp"):
        built(NoHeat(0.2, 0.5, 24.0))
    with pytest.raises(actuon.StructureError, match=r"NoSupply\.modify_forces: cannot read the signal 'feedforward'"):
        built(NoSupply(4.0))
    with pytest.raises(actuon.StructureError, match=r"NoDuty\.compute: cannot write the signal 'duty'"):
        built(NoDuty(kp=4.0, torque_constant=1.6, resistance=4.0, bus_voltage=12.0))
    with pytest.raises(actuon.StructureError, match=r"Late\.STATES: is not used, .* get_delayed_targets\(\)"):
        type("Late", (actuon.Delay,), {"STATES": ("age",)})


@pytest.mark.parametrize("name", ["compute", "run", "laws", "law"])
def test_a_method_of_one_component_cannot_be_replaced(name):
    part = actuon.ControllerPD(1.0, 1.0)
    with pytest.raises(actuon.StructureError, match=rf"ControllerPD\.{name}: .*override it in a subclass"):
        setattr(part, name, lambda *_: None)
