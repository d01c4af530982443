# SPDX-License-Identifier: Apache-2.0
"""Friction on bare arrays: against an oracle, at rest, at breakaway; it never pushes and never creates energy."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support import oracle
from tests.support.robot_files import add, robot

DT = 0.005
RANGES = {
    "dynamic": (0.1, 2.0),
    "viscous": (0.0, 0.5),
    "static": (2.0, 3.0),
    "stribeck_velocity": (0.05, 2.0),
    "stribeck_exponent": (0.7, 4.0),
    "load_motor": (0.0, 0.3),
    "load_external": (0.0, 0.3),
    "load_motor_stribeck": (0.0, 0.3),
    "load_external_stribeck": (0.0, 0.3),
    "load_motor_quadratic": (0.0, 0.02),
    "load_external_quadratic": (0.0, 0.02),
    "inertia": (0.005, 0.5),
}
INPUTS = ("joint_act", "joint_load", "joint_qd")


class Bench:
    """A joint for each DOF, of which each has friction of its own; steps as engines do, velocity first."""

    def __init__(self, friction, n, **options):
        stages = [actuon.ControllerPD(0.0, 0.0), friction]
        attrs = {"dry_friction": "dry", "viscous_friction": "wet"}
        self.actuator = actuon.Actuator(range(n), stages=stages, control_signal_attrs=attrs, **options)
        names = ("joint_q", "joint_target_q", "joint_target_qd", "joint_f", "dry", "wet", *INPUTS)
        grad = options.get("requires_grad", False)
        self.sim = {name: wp.zeros(n, dtype=float, requires_grad=grad) for name in names}

    def left(self, effort, load, qd, dt=DT):
        """Return the efforts that remain after friction."""
        for name, values in zip(INPUTS, (effort, load, qd), strict=True):
            self.sim[name].assign(np.broadcast_to(values, self.sim[name].shape))
        self.sim["joint_f"].zero_()
        self.actuator.step(self.sim, self.sim, dt=dt)
        return self.sim["joint_f"].numpy().astype(np.float64)

    def run(self, effort, load, qd, inertia, dt, steps):
        """Velocities, of shape (steps, n)."""
        velocities = []
        for _ in range(steps):
            qd = qd + dt * (self.left(effort, load, qd, dt) + load) / inertia
            velocities.append(qd)
        return np.array(velocities)


COULOMB = ("dynamic", "viscous", "inertia")
TERMS = {"coulomb": COULOMB, "stribeck": (*COULOMB, "static", "stribeck_velocity"), "everything": tuple(RANGES)}
"""Parameters that are given: each of these has a law of its own."""


def draw(rng, n, terms="everything"):
    return {name: rng.uniform(*RANGES[name], n).astype(np.float32) for name in TERMS[terms]}


def draw_inputs(rng, n):
    """Efforts, loads and velocities; of some joints each is zero."""
    scales = np.array([[3.0], [3.0], [2.0]])
    inputs = rng.standard_normal((3, n)) * scales * (rng.random((3, n)) > 0.2)
    return inputs.astype(np.float32)


@pytest.mark.parametrize("terms", TERMS)
def test_as_the_oracle_fused_and_staged(terms):
    rng = np.random.default_rng(1)
    n = 333
    values = draw(rng, n, terms)
    bench = Bench(actuon.EffectFriction(**values), n)
    assert bench.actuator.is_fused()
    staged = Bench(actuon.EffectFriction(**values), n, fused=False)
    exact = {name: array.astype(np.float64) for name, array in values.items()}
    stuck = 0
    for dt in (0.001, 0.02):
        effort, load, qd = draw_inputs(rng, n)
        left = bench.left(effort, load, qd, dt)
        expected = oracle.friction(*np.float64([effort, load, qd]), dt, **exact)
        size = np.abs(effort) + np.abs(load) + np.abs(values["inertia"] * qd / dt)
        rounding = 2.0 if terms == "stribeck" else 1.0  # a Gaussian within 3e-6
        assert (np.abs(left - expected) < rounding * (2e-6 * size + 1e-6)).all()
        np.testing.assert_array_equal(staged.left(effort, load, qd, dt), left)
        budget = {name: exact[name] for name in exact if name not in ("inertia", "viscous")}
        expected = oracle.friction_budget(*np.float64([effort, load, qd]), **budget)
        np.testing.assert_allclose(bench.sim["dry"].numpy(), expected, rtol=rounding * 2e-6)
        np.testing.assert_array_equal(bench.sim["wet"].numpy(), values["viscous"])
        stuck += np.count_nonzero(np.abs(qd + dt * (left + load) / values["inertia"]) < 1e-6)
    assert (20 if terms == "coulomb" else 50) < stuck < 600


def test_a_load_may_come_and_go():
    """Without the array there is none, and the kernel knows it; with it, friction holds against it again."""
    values = {"dynamic": 1.0, "viscous": 0.1, "inertia": 0.1}
    bench = Bench(actuon.EffectFriction(**values), 5)
    load = bench.sim.pop("joint_load")
    load.fill_(3.0)
    zero = np.zeros(5, np.float32)
    for given, held in ((None, 0.0), (load, 3.0), (None, 0.0)):
        bench.sim.pop("joint_load", None)
        if given is not None:
            bench.sim["joint_load"] = given
        bench.sim["joint_qd"].assign(zero + 0.5)
        bench.sim["joint_f"].zero_()
        bench.actuator.step(bench.sim, bench.sim, dt=DT)
        expected = oracle.friction(zero, zero + held, zero + 0.5, DT, **values)
        np.testing.assert_allclose(bench.sim["joint_f"].numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("terms", TERMS)
def test_gradients(terms):
    rng = np.random.default_rng(2)
    n = 60
    values = draw(rng, n, terms)
    bench = Bench(actuon.EffectFriction(**values), n, requires_grad=True)
    friction = bench.actuator.stages[-1]
    inputs = draw_inputs(rng, n)
    for name, numbers in zip(INPUTS, inputs, strict=True):
        bench.sim[name].assign(numbers)
    with wp.Tape() as tape:
        bench.actuator.step(bench.sim, bench.sim, dt=DT)
    weights = rng.standard_normal(n).astype(np.float32)
    tape.backward(grads={bench.sim["joint_f"]: wp.array(weights)})
    exact = {name: array.astype(np.float64) for name, array in values.items()}
    exact |= dict(zip(INPUTS, inputs.astype(np.float64), strict=True))

    def objective(changed):
        given = exact | changed
        arguments = [given.pop(name) for name in INPUTS]
        return weights * oracle.friction(*arguments, DT, **given)

    for name, array in exact.items():
        gradient = (bench.sim[name] if name in INPUTS else getattr(friction, name)).grad.numpy()
        assert np.isfinite(gradient).all(), name
        smooth = (inputs != 0.0).all(axis=0)  # friction has corners there
        h = 1e-6
        expected = (objective({name: array + h}) - objective({name: array - h})) / (2 * h)
        np.testing.assert_allclose(gradient[smooth], expected[smooth], rtol=2e-3, atol=2e-3, err_msg=name)


@pytest.mark.parametrize("dt", [0.001, 0.005, 0.02])
def test_a_joint_at_rest_stays_at_rest(dt):
    """Under nine tenths of what friction holds, from the motor, from outside, and from both, for up to ten seconds."""
    threshold, inertia = np.full(6, 2.0), np.array([0.001, 0.01, 0.1, 1.0, 0.02, 0.05])
    bench = Bench(actuon.EffectFriction(1.5, 0.1, 2.0, stribeck_velocity=0.1, inertia=inertia), 6)
    effort = 0.9 * threshold * [1, -1, 0, 0, 0.5, 3.0]
    load = 0.9 * threshold * [0, 0, 1, -1, 0.5, -2.0]
    velocities = bench.run(effort, load, np.zeros(6), inertia, dt, min(int(10 / dt), 2000))
    assert np.abs(velocities).max() < 1e-6 * dt / 0.001
    assert np.abs(velocities.sum(axis=0) * dt).max() < 1e-6
    from_the_motor = velocities[:, :2]
    assert (from_the_motor == 0.0).all()


@pytest.mark.parametrize("dt", [0.001, 0.005, 0.02])
def test_breakaway_is_at_the_threshold(dt):
    share = np.array([0.99, 0.999, 1.001, 1.01, -0.999, -1.001])
    bench = Bench(actuon.EffectFriction(1.5, 0.0, 2.0, stribeck_velocity=0.1, inertia=0.05), 6)
    after = bench.run(2.0 * share, 0.0, np.zeros(6), 0.05, dt, int(2 / dt))[-1]
    assert (after[np.abs(share) < 1.0] == 0.0).all()
    assert (np.abs(after[np.abs(share) > 1.0]) > 10.0).all(), "once it slides, friction falls"
    assert np.sign(after[-1]) == -1


@pytest.mark.parametrize("dt", [0.001, 0.005, 0.02])
def test_a_coasting_joint_stops_in_time_and_does_not_turn_round(dt):
    inertia, dynamic = np.array([0.01, 0.03, 0.1]), 0.5
    bench = Bench(actuon.EffectFriction(dynamic, inertia=inertia), 3)
    velocities = bench.run(0.0, 0.0, np.full(3, 6.0), inertia, dt, int(2 / dt))
    assert (velocities >= -1e-6).all(), "but for rounding"
    assert (np.abs(velocities[-1]) < 1e-30).all()
    stopped = np.argmax(velocities < 1e-6, axis=0) * dt
    np.testing.assert_allclose(stopped, inertia * 6.0 / dynamic, atol=1.01 * dt)


def test_friction_never_creates_energy():
    """Over random motion the work of friction, effort times the way of a step, is never above zero."""
    rng = np.random.default_rng(3)
    n = 500
    values = draw(rng, n)
    bench = Bench(actuon.EffectFriction(**values), n)
    qd = np.zeros(n)
    work = np.zeros(n)
    for _ in range(300):
        dt = rng.choice([0.001, 0.004, 0.02])
        effort, load, _ = draw_inputs(rng, n)
        left = bench.left(effort, load, qd, dt)
        rounding = 1e-6 * (np.abs(qd) + dt * (np.abs(effort) + np.abs(load)) / values["inertia"])
        qd = qd + dt * (left + load) / values["inertia"]
        step = (left - effort) * qd * dt
        assert (step <= np.abs(left - effort) * rounding * dt + 1e-30).all()
        work += step
    assert (work < 0.0).all()


def test_friction_on_both_sides_of_a_gear():
    """The budget for an engine is at the joint, of all stages together; a motor's friction acts times the ratio."""
    at_joint = actuon.EffectFriction(0.5, 0.02, inertia=0.1)
    at_motor = actuon.EffectFriction(0.1, 0.001, inertia=0.1 / 36.0)
    stages = [actuon.ControllerPD(0.0, 0.0), at_joint, actuon.TransmissionGear(6.0), at_motor]
    attrs = {"dry_friction": "dry", "viscous_friction": "wet"}
    names = ("joint_q", "joint_target_q", "joint_target_qd", "joint_f", "dry", "wet", *INPUTS)
    sim = {name: np.zeros(2, np.float32) for name in names}
    sim["joint_act"][:] = [3.0, 1.0]
    actuator = actuon.Actuator(range(2), stages=stages, control_signal_attrs=attrs)
    actuator.step(sim, sim, dt=DT)
    np.testing.assert_allclose(sim["dry"], 0.5 + 6.0 * 0.1, rtol=1e-6)
    np.testing.assert_allclose(sim["wet"], 0.02 + 36.0 * 0.001, rtol=1e-6)
    damping = [b * DT / (0.1 + b * DT) for b in (0.02, 0.036)]
    after_joint = 2.5 * (1 - damping[0])
    np.testing.assert_allclose(sim["joint_f"], [(after_joint - 0.6) * (1 - damping[1]), 0.0], rtol=1e-5)


def test_a_load_behind_a_gear_that_turns_the_other_way(rng):
    """A motor that is mounted the other way round does the same."""
    given = {name: rng.normal(size=8).astype(np.float32) for name in INPUTS}
    names = ("joint_q", "joint_target_q", "joint_target_qd", "joint_f", "dry")
    found = []
    for ratio in (6.0, -6.0):
        friction = actuon.EffectFriction(0.05, 0.001, load_motor=0.1, load_external=0.2, inertia=0.003)
        stages = [actuon.ControllerPD(0.0, 0.0), actuon.TransmissionGear(ratio), friction]
        actuator = actuon.Actuator(range(8), stages=stages, control_signal_attrs={"dry_friction": "dry"})
        sim = given | {name: np.zeros(8, np.float32) for name in names}
        actuator.step(sim, sim, dt=DT)
        found.append((sim["joint_f"], sim["dry"]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    assert (found[1][1] > 0.0).all()


@pytest.mark.parametrize("in_engine", [False, True])
@pytest.mark.parametrize("gear", [1.0, -4.0])
def test_a_motor_behind_a_spring_stands_where_friction_holds_it(gear, in_engine):
    """Against the force of the spring, which an engine cannot know; the joint has no friction of it."""
    springs = [
        actuon.TransmissionSeriesElastic(stiffness=100.0, motor_inertia=0.01, damping=0.1),
        actuon.TransmissionBacklash(gap=0.002, stiffness=100.0, motor_inertia=0.01, damping=0.1),
    ]
    for spring, force in zip(springs, (0.5, 0.4), strict=True):
        friction = actuon.EffectFriction(dynamic=0.6 / abs(gear), inertia=0.01 / gear**2)
        stages = [actuon.ControllerPD(0.0, 0.0), spring, actuon.TransmissionGear(gear), friction]
        actuator = actuon.Actuator([0], stages=stages, in_engine=in_engine)
        assert "dry_friction" not in actuator.signals
        sim = {name: np.zeros(1, np.float32) for name in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")}
        state, efforts = actuator.state(), []
        for step in range(400):
            sim["joint_qd"][:] = 0.0001 / DT if 1 <= step <= 50 else 0.0
            sim["joint_f"] = np.zeros(1, np.float32)
            actuator.step(sim, sim, state, state, dt=DT)
            sim["joint_q"] += DT * sim["joint_qd"]
            efforts.append(float(sim["joint_f"][0]))
        np.testing.assert_allclose(efforts[-1], -force, rtol=2e-2)
        np.testing.assert_allclose(efforts[100:], efforts[-1], rtol=1e-5)
    with pytest.raises(actuon.StructureError, match="needs inertia, that of the motor side of the spring"):
        actuon.Actuator([0], stages=[actuon.ControllerPD(0.0, 0.0), springs[0], actuon.EffectFriction(0.1)])


def test_in_an_engine_the_effort_is_handed_on():
    rng = np.random.default_rng(4)
    n = 40
    values = draw(rng, n)
    del values["inertia"]
    bench = Bench(actuon.EffectFriction(**values), n, in_engine=True)
    effort, load, qd = draw_inputs(rng, n)
    np.testing.assert_array_equal(bench.left(effort, load, qd), effort)
    del values["viscous"]
    np.testing.assert_allclose(bench.sim["dry"].numpy(), oracle.friction_budget(effort, load, qd, **values), rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dynamic": 1.0, "static": 0.9}, "static is below dynamic; must be at least dynamic"),
        ({"dynamic": 1.0, "static": 1.5}, "stribeck_velocity is 0; must be > 0"),
        ({"load_motor_quadratic": 0.1}, "stribeck_velocity is 0"),
        ({"dynamic": -0.1}, "dynamic: got -0.1; must be finite and ≥ 0"),
        ({"viscous": float("nan")}, "viscous: got nan"),
        ({"stribeck_exponent": 0.0}, "stribeck_exponent: got 0.0; must be finite and > 0"),
        ({"inertia": 0.0}, "inertia: got 0.0; must be finite and > 0"),
        ({"load_external": -1.0}, "load_external: got -1.0"),
    ],
)
def test_contradicting_figures_are_refused(values, message):
    for make in (actuon.FrictionEffectConfig, actuon.EffectFriction):
        with pytest.raises(actuon.ParameterError, match=message):
            make(**values)


def test_contradicting_figures_of_one_dof_are_named():
    with pytest.raises(actuon.ParameterError, match="EffectFriction: static is below dynamic at index 1"):
        actuon.EffectFriction(dynamic=[1.0, 2.0], static=[1.0, 1.5], stribeck_velocity=0.1)
    friction = actuon.EffectFriction(dynamic=[1.0, 2.0], static=[1.0, 2.5], stribeck_velocity=0.1, inertia=1.0)
    bound = Bench(friction, 2).actuator.stages[-1]
    with pytest.raises(actuon.ParameterError, match="static is below dynamic at index 0"):
        bound.dynamic = [1.2, 2.0]
    assert bound.dynamic.numpy().tolist() == [1.0, 2.0]
    friction = actuon.EffectFriction(dynamic=[1.0, 2.0], static=[1.0, 2.5], stribeck_velocity=0.1, inertia=1.0)
    friction.dynamic = [1.2, 2.0]
    with pytest.raises(actuon.ParameterError, match="static is below dynamic at index 0"):
        Bench(friction, 2)
    assert bound.dynamic.numpy().tolist() == [1.0, 2.0]


def test_without_an_engine_the_inertia_is_needed():
    with pytest.raises(actuon.StructureError, match="EffectFriction: needs inertia"):
        Bench(actuon.EffectFriction(dynamic=1.0), 2)


def test_in_files_and_builders(tmp_path):
    plain = actuon.FrictionEffectConfig(dynamic=0.5, viscous=0.1, inertia=0.2)
    full = actuon.FrictionEffectConfig(0.5, 0.1, 0.7, 0.1, 1.5, 0.1, 0.2, 0.3, 0.4, 0.01, 0.02)
    path = tmp_path / "actuon.yaml"
    pd = actuon.PDControlConfig(40.0, 1.0)
    entries = [
        actuon.ActuatorEntry(name, name, actuon.ActuatorConfig(pd, effects=[friction]))
        for name, friction in (("hip", plain), ("knee", full))
    ]
    actuon.save_actuators(path, entries)
    assert actuon.load_actuators(path) == entries
    assert "{type: friction, dynamic: 0.5, viscous: 0.1, inertia: 0.2}" in path.read_text()
    stage = robot()
    prim = add(stage, entries[1].actuator)
    assert prim.GetAttribute("actuonFrictionEffect:loadExternalStribeck").Get() == np.float32(0.4)
    assert actuon.parse_actuator_prim(prim).config == entries[1].actuator

    builder = actuon.ActuatorBuilder()
    with_inertia = dataclasses.replace(full, inertia=0.3)
    for i, friction in enumerate((plain, with_inertia, plain, with_inertia)):
        builder.add(actuon.ActuatorConfig(pd, effects=[friction]), i)
    first, second = builder.finalize()
    assert first.effects[0].static is None
    np.testing.assert_array_equal(second.effects[0].static.numpy(), np.float32([0.7, 0.7]))


XL330 = {
    "m1": {"friction_base": 0.0128, "friction_viscous": 0.00366},
    "m2": {
        "friction_base": 4.13e-15, "friction_stribeck": 0.01265, "dtheta_stribeck": 4.167, "alpha": 1.364,
        "friction_viscous": 0.00562,
    },
    "m3": {"friction_base": 0.00888, "load_friction_base": 0.1217, "friction_viscous": 0.00438},
    "m4": {
        "friction_base": 0.00876, "friction_stribeck": 7.5e-17, "load_friction_base": 0.068,
        "load_friction_stribeck": 0.0738, "dtheta_stribeck": 2.558, "alpha": 0.76, "friction_viscous": 0.00462,
    },
    "m5": {
        "friction_base": 0.000366, "friction_stribeck": 0.00868, "load_friction_motor": 0.2897,
        "load_friction_external": 0.0, "load_friction_motor_stribeck": 3.06e-05,
        "load_friction_external_stribeck": 0.0587, "dtheta_stribeck": 3.189, "alpha": 2.99,
        "friction_viscous": 0.00635,
    },
    "m6": {
        "friction_base": 0.00477, "friction_stribeck": 0.00468, "load_friction_motor": 0.2668,
        "load_friction_external": 8.5e-06, "load_friction_motor_stribeck": 1.07e-05,
        "load_friction_external_stribeck": 0.0808, "load_friction_motor_quad": 0.00997,
        "load_friction_external_quad": 0.0049, "dtheta_stribeck": 2.89, "alpha": 8.683, "friction_viscous": 0.00536,
    },
}  # fmt: skip
"""Rounded figures of a Dynamixel XL330, after github.com/Rhoban/bam (Apache-2.0)."""
OTHERS = {"kt": 0.366, "R": 2.81, "armature": 0.00181, "q_offset": 0.0271, "actuator": "xl330"}


def published_budget(model, values, motor, external, velocity):
    """The budget as its authors compute it, by which of the models has which terms."""
    get = values.get
    moving = np.exp(-(np.abs(velocity / get("dtheta_stribeck", 1.0)) ** get("alpha", 1.0)))
    loss = get("friction_base") + moving * get("friction_stribeck", 0.0)
    if model in ("m3", "m4"):
        gearbox = np.abs(external - motor)
        loss = loss + gearbox * (get("load_friction_base") + moving * get("load_friction_stribeck", 0.0))
    if model in ("m5", "m6"):
        loss = loss + np.abs(external * get("load_friction_external") - motor * get("load_friction_motor"))
        at_rest = external * get("load_friction_external_stribeck") - motor * get("load_friction_motor_stribeck")
        loss = loss + moving * np.abs(at_rest)
    if model == "m6":
        by_motor = (np.abs(external) < np.abs(motor)) * get("load_friction_external_quad") * external**2
        by_load = (np.abs(external) > np.abs(motor)) * get("load_friction_motor_quad") * motor**2
        loss = loss + moving * (by_motor + by_load) * (np.sign(external) != np.sign(motor))
    return loss


@pytest.fixture
def bam_file(tmp_path):
    def write(values):
        path = tmp_path / "motor.json"
        path.write_text(json.dumps(values) if isinstance(values, dict) else values)
        return path

    return write


def test_published_parameter_files(bam_file):
    rng = np.random.default_rng(5)
    n = 40
    motor, external, velocity = (rng.standard_normal((3, n)) * [[0.5], [0.5], [3.0]]).astype(np.float32)
    motors = {}
    for model, values in XL330.items():
        motors[model] = loaded = actuon.load_bam(bam_file({**OTHERS, **values, "model": model}))
        assert (loaded.actuator, loaded.model) == ("xl330", model)
        assert (loaded.torque_constant, loaded.resistance, loaded.armature) == (0.366, 2.81, 0.00181)
        assert (loaded.q_offset, loaded.command_delay, loaded.friction.inertia) == (0.0271, 0.0, None)
        assert loaded.friction.viscous == np.float32(values["friction_viscous"]).item() or np.isclose(
            loaded.friction.viscous, values["friction_viscous"]
        )
    for model, loaded in motors.items():
        given = {name: value for name, value in dataclasses.asdict(loaded.friction).items() if value is not None}
        everything = dict.fromkeys(RANGES, 0.0) | {"stribeck_exponent": 2.0, "inertia": None} | given
        if "static" not in given:
            everything["static"] = given["dynamic"]
        bench = Bench(actuon.EffectFriction(**everything), n, in_engine=True)
        bench.left(motor, external, velocity)
        expected = published_budget(model, XL330[model], *np.float64([motor, external, velocity]))
        np.testing.assert_allclose(bench.sim["dry"].numpy(), expected, rtol=1e-4, atol=1e-9, err_msg=model)


def test_a_published_servo_as_an_actuator(bam_file):
    """Voltage less back-EMF over the resistance gives the effort, as its authors have it; friction takes its share."""
    servo = actuon.load_bam(bam_file({**OTHERS, **XL330["m1"], "model": "m1"}))
    servo = dataclasses.replace(servo, friction=dataclasses.replace(servo.friction, inertia=0.01))
    electric = {"torque_constant": servo.torque_constant, "resistance": servo.resistance, "bus_voltage": 5.0}
    config = servo.config(actuon.ServoPWMControlConfig(kp=2.0, **electric), bus_voltage=5.0)
    builder = actuon.ActuatorBuilder()
    builder.add(config, 0)
    (actuator,) = builder.finalize()
    sim = {name: np.zeros(1, np.float32) for name in ("joint_q", "joint_target_qd", "joint_f", *INPUTS)}
    sim |= {"joint_target_q": np.float32([0.3]), "joint_qd": np.float32([2.0])}
    state = actuator.state()
    actuator.step(sim, sim, state, state, dt=DT)
    effort = 0.366 * (2.0 * 0.3 * 5.0 - 0.366 * 2.0) / 2.81
    values = {"dynamic": 0.0128, "viscous": 0.00366, "inertia": 0.01}
    np.testing.assert_allclose(sim["joint_f"], oracle.friction(effort, 0.0, 2.0, DT, **values), rtol=1e-5)
    without = dataclasses.replace(servo, resistance=None).config(actuon.PDControlConfig(1.0, 0.0))
    assert not without.clamping
    assert without.transmission.reflected_inertia == np.float32(0.00181).astype(float).round(8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "m7"}, "got model 'm7' and actuator 'xl330'; must be one of m1, m2, m3, m4, m5, m6"),
        ({"friction_stribeck": None}, "friction_stribeck: got None; must be a finite number"),
        ({"friction_bas": 0.1}, "model m2 has no 'friction_bas'"),
        ({"kt": float("nan")}, "kt: got nan; must be a finite number"),
        ({"friction_viscous": -0.1}, "viscous: got -0.1; must be finite and ≥ 0"),
    ],
)
def test_damaged_parameter_files(bam_file, change, message):
    path = bam_file({**OTHERS, **XL330["m2"], "model": "m2", **change})
    with pytest.raises(actuon.RobotFileError, match=message) as error:
        actuon.load_bam(path)
    assert str(path) in str(error.value)


def test_parameter_files_that_are_none(bam_file, tmp_path):
    for text, message in (("{", "is not a JSON file"), ("[1]", "got list"), ('{"model": "m1"}', "and actuator None")):
        with pytest.raises(actuon.RobotFileError, match=message):
            actuon.load_bam(bam_file(text))
    incomplete = {**OTHERS, **XL330["m1"], "model": "m1"}
    del incomplete["friction_base"]
    with pytest.raises(actuon.RobotFileError, match="model m1 needs 'friction_base'"):
        actuon.load_bam(bam_file(incomplete))
    with pytest.raises(actuon.RobotFileError, match="does not exist"):
        actuon.load_bam(tmp_path / "none.json")
