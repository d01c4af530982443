# SPDX-License-Identifier: Apache-2.0
"""Steps at the velocities that they end with: against roots of float64 equations, and across paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import warp as wp
from scipy.optimize import brentq

import actuon
from actuon.actuator.implicit_step import DiagonalSolve
from tests.support import oracle
from tests.support.paths import DATA

N = 70
DT = 0.005
NAMES = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
NETWORKS = DATA / "networks"
RATIO, EFFICIENCY, BACK = 6.0, 0.9, 0.8
STALL, NO_LOAD, MOST = 6.0, 60.0, 3.0


@dataclass(frozen=True)
class JumpConfig(actuon.Config):
    at: float = actuon.param("rad/s", "Speed at which the effort jumps.")


@wp.func
def jump_law(qd: float, at: float):
    return wp.where(qd > at, -5.0, 5.0)


class ControllerJump(actuon.Controller):
    config = JumpConfig
    law = jump_law


def geared_stages(kp=30.0, kd=0.8):
    gear = actuon.TransmissionGear(RATIO, EFFICIENCY, BACK)
    return [actuon.ControllerPD(kp, kd), gear, actuon.ClampingDCMotor(STALL, NO_LOAD, MOST)]


def late_stages():
    pid = actuon.ControllerPID(30.0, 5.0, 0.8, 2.0)
    return [actuon.Delay(2, 3), pid, actuon.ClampingDCMotor(30.0, 12.0, 15.0), actuon.ClampingMaxEffort(12.0)]


def geared_effort(q, w, target_q, target_qd, kp=30.0, kd=0.8, stall=STALL, seen=None):
    """The chain of `geared_stages` in float64, at the velocity ``w``, of which the controller sees ``seen``."""
    wanted = oracle.pd(q, w if seen is None else seen, target_q, target_qd, 0.0, kp, kd)
    speed = RATIO * w
    losses = (EFFICIENCY, BACK, 1.0)
    motor = wanted / RATIO
    motor = oracle.dc_motor(motor, q, speed, *(np.broadcast_to(v, np.shape(w)) for v in (stall, NO_LOAD, MOST)))
    return RATIO * motor * oracle.gear(speed, motor, *losses)


def random_sim(rng, n=N, speed=3.0, kind=np.float32):
    scales = dict(zip(NAMES, (0.3, speed, 0.3, 1.0, 0.0), strict=True))
    sim = {name: rng.normal(0.0, scale, n).astype(kind) for name, scale in scales.items()}
    sim["joint_f"][:] = np.nan
    return sim


def random_diagonal(rng, n=N):
    return (10.0 ** rng.uniform(-1.0, 3.0, n)).astype(np.float32)


def random_blocks(rng, robots, size):
    roots = rng.normal(size=(robots, size, size))
    mass = roots @ roots.transpose(0, 2, 1) / size + 0.2 * np.eye(size)
    scale = np.sqrt(10.0 ** rng.uniform(-3.0, 0.0, (robots, size)))
    mass *= scale[:, :, None] * scale[:, None, :]
    return np.linalg.inv(mass).astype(np.float32)


def random_response(rng, shape, **options):
    inverse = random_diagonal(rng) if len(shape) == 1 else random_blocks(rng, *shape[:2])
    return actuon.Response(inverse, **options)


def pushed(inverse, effort):
    """A times an effort."""
    return (
        inverse * effort
        if inverse.ndim == 1
        else np.einsum("rij,rj->ri", inverse, effort.reshape(-1, inverse.shape[1])).ravel()
    )


SHAPES = pytest.mark.parametrize("shape", [(N,), (10, 7, 7)], ids=["diagonal", "blocks"])


@pytest.mark.parametrize("dt", [0.001, 0.005, 0.02])
def test_speeds_are_roots_of_the_equation(dt, rng):
    sim, inverse = random_sim(rng), random_diagonal(rng)
    acceleration, reference = (rng.normal(0.0, scale, N).astype(np.float32) for scale in (20.0, 5.0))
    actuator = actuon.Actuator(range(N), stages=geared_stages(), accumulate=False)
    response = actuon.Response(inverse, acceleration, reference, tolerance=1e-5)
    actuator.step(sim, sim, dt=dt, response=response)

    q, qd, target_q, target_qd, _ = (sim[name].astype(np.float64) for name in NAMES)
    free = qd + dt * (acceleration.astype(np.float64) - inverse.astype(np.float64) * reference)
    roots = np.empty(N)
    for i in range(N):

        def off(w, i=i):
            effort = geared_effort(*(np.array([x]) for x in (q[i], w, target_q[i], target_qd[i])))[0]
            return w - free[i] - dt * inverse[i] * effort

        far = 1.0 + abs(free[i]) + dt * inverse[i] * 2.0 * RATIO * STALL
        roots[i] = brentq(off, -far, far, xtol=1e-10)
    np.testing.assert_allclose(response.velocity.numpy(), roots, rtol=2e-4, atol=2e-4)
    efforts = geared_effort(q, roots, target_q, target_qd)
    np.testing.assert_allclose(sim["joint_f"], efforts, rtol=1e-3, atol=1e-3)
    assert (np.abs(efforts - geared_effort(q, qd, target_q, target_qd)) > 1.0).mean() > 0.1  # not those before the step
    assert response.unconverged.numpy()[0] == 0


@pytest.mark.parametrize("dt", [0.001, 0.005, 0.02])
@pytest.mark.parametrize("size", [1, 2, 7, 35])
def test_speeds_of_robots_are_roots_of_their_equations(dt, size, rng):
    sim, inverse = random_sim(rng), random_blocks(rng, N // size, size)
    acceleration, reference = (rng.normal(0.0, scale, N).astype(np.float32) for scale in (20.0, 5.0))
    actuator = actuon.Actuator(range(N), stages=geared_stages(), accumulate=False)
    response = actuon.Response(inverse, acceleration, reference)
    actuator.step(sim, sim, dt=dt, response=response)
    q, qd, target_q, target_qd, effort = (sim[name].astype(np.float64) for name in NAMES)
    w = response.velocity.numpy().astype(np.float64)
    np.testing.assert_allclose(effort, geared_effort(q, w, target_q, target_qd), rtol=1e-3, atol=1e-3)
    more = dt * (
        acceleration + pushed(inverse.astype(np.float64), geared_effort(q, w, target_q, target_qd) - reference)
    )
    derivative = np.abs(
        np.gradient([geared_effort(q, w + d, target_q, target_qd) for d in (-1e-4, 0.0, 1e-4)], 1e-4, axis=0)[1]
    )
    rise = 1.0 + dt * np.einsum("rii->ri", inverse).ravel() * derivative
    assert (np.abs(w - qd - more) < 3e-4 * (1.0 + np.abs(w)) * rise).all()


@pytest.mark.parametrize("size", [2, 7])
def test_blocks_of_diagonals_equal_the_diagonal(size, rng):
    sim, inverse = random_sim(rng), random_diagonal(rng)
    actuator = actuon.Actuator(range(N), stages=geared_stages(), accumulate=False)
    found = []
    for given in (inverse, inverse.reshape(-1, size)[:, :, None] * np.eye(size, dtype=np.float32)):
        response = actuon.Response(given, tolerance=1e-5)
        actuator.step(sim, sim, dt=DT, response=response)
        found.append((response.velocity.numpy(), sim["joint_f"].copy()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dt", [0.002, 0.005])
def test_a_light_link_that_explicit_steps_cannot_hold(dt):
    """0.5 kg, 0.4 m long, about its thin axis, with kp 100 and kd 10: explicit steps need dt < 0.17 ms."""
    inertia = 8e-4
    actuator = actuon.Actuator([0], actuon.ControllerPD(100.0, 10.0), accumulate=False)

    def swing(dt, response, until=1.0):
        sim = {name: np.zeros(1, np.float32) for name in NAMES}
        sim["joint_target_q"][:] = 0.5
        path = []
        for _ in range(round(until / dt)):
            actuator.step(sim, sim, dt=dt, response=response)
            sim["joint_qd"] += np.float32(dt / inertia) * sim["joint_f"]
            sim["joint_q"] += np.float32(dt) * sim["joint_qd"]
            path.append(sim["joint_q"][0])
        return np.array(path)

    with np.errstate(over="ignore", invalid="ignore"):
        explicit = swing(dt, None)
    assert not np.abs(explicit[-1]) < 1e3
    path = swing(dt, np.full(1, 1.0 / inertia, np.float32))
    exact = swing(1e-5, None)[round(dt / 1e-5) - 1 :: round(dt / 1e-5)]
    assert np.abs(path - exact).max() < 0.02
    assert abs(path[-1] - 0.5) < 1e-3


def test_short_steps_are_explicit_ones(rng):
    sim = random_sim(rng)
    actuator = actuon.Actuator(range(N), stages=geared_stages(), accumulate=False)
    actuator.step(sim, sim)
    explicit = sim["joint_f"].copy()
    actuator.step(sim, sim, dt=1e-8, response=np.full(N, 10.0, np.float32))
    np.testing.assert_allclose(sim["joint_f"], explicit, rtol=1e-4, atol=1e-4)


def chains_with_states():
    sensed = [actuon.SensorLowPass(0.01), *geared_stages()]
    yield "delay, integral and limits", late_stages, {}
    yield "held control behind a filter", lambda: sensed, {"control_every": 2}
    if (NETWORKS / "unitree_go1.pt").is_file():
        network = NETWORKS / "unitree_go1.pt"
        yield "network", lambda: [actuon.ControllerNeuralMLP(network), actuon.ClampingMaxEffort(9.0)], {}


STATEFUL = [pytest.param(stages, options, id=name) for name, stages, options in chains_with_states()]


@SHAPES
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("stages", "options"), STATEFUL)
def test_a_step_is_the_plain_one_at_those_speeds(stages, options, in_place, shape, rng, tmp_path):
    """Efforts, signals and states, through several steps, in place and not."""
    attrs = {"control_signal_attrs": {"limited_by": "limit"}, "control_computed_output_attr": "wanted"}
    given = dict(stages=stages(), accumulate=False, **attrs, **options)
    actuator, plain = actuon.Actuator(range(N), **given), actuon.Actuator(range(N), **given)
    response = random_response(rng, shape)
    states, others = ([a.state(), a.state()] for a in (actuator, plain))
    outputs = ("joint_f", "limit", "wanted")
    for step in range(5):
        sim = random_sim(rng) | {"limit": np.full(N, np.nan, np.float32), "wanted": np.full(N, np.nan, np.float32)}
        following = states[0] if in_place else states[1]
        actuator.step(sim, sim, states[0], following, DT, response=response)
        found = {name: sim[name].copy() for name in outputs}
        sim["joint_qd"][:] = response.velocity.numpy()
        plain.step(sim, sim, others[0], others[0], DT)
        for name in outputs:
            np.testing.assert_array_equal(found[name], sim[name], err_msg=f"{name}, step {step}")
        states = states if in_place else states[::-1]
    for key, array in states[0].to_arrays().items():
        if key != "__structure__" and "ring" not in key and "newest" not in key:
            np.testing.assert_array_equal(array, others[0].to_arrays()[key], err_msg=key)


@SHAPES
def test_replays_equal_eager_steps(shape, rng):
    actuator, eager = (actuon.Actuator(range(N), stages=late_stages(), accumulate=False) for _ in range(2))
    response = random_response(rng, shape)
    other = actuon.Response(np.array(response.inverse_inertia))
    sim = {name: wp.array(values) for name, values in random_sim(rng).items()}
    state, kept = actuator.state(), eager.state()
    actuator.step(sim, sim, state, state, DT, response=response)
    state.reset()
    with wp.ScopedCapture(device="cpu") as capture:
        actuator.step(sim, sim, state, state, DT, response=response)
    state.reset()
    for _ in range(5):
        now = random_sim(rng)
        for name, values in now.items():
            sim[name].assign(values)
        wp.capture_launch(capture.graph)
        eager.step(now, now, kept, kept, DT, response=other)
        np.testing.assert_array_equal(sim["joint_f"].numpy(), now["joint_f"])
        np.testing.assert_array_equal(response.velocity.numpy(), other.velocity.numpy())


def test_one_dof_alone_gets_what_it_gets_among_others(rng):
    sim, inverse = random_sim(rng), random_diagonal(rng)
    together = actuon.Response(inverse)
    actuon.Actuator(range(N), stages=geared_stages(), accumulate=False).step(sim, sim, dt=DT, response=together)
    alone = actuon.Actuator([0], stages=geared_stages(), accumulate=False)
    for i in (0, 33, N - 1):
        one = {name: values[i : i + 1].copy() for name, values in sim.items()}
        response = actuon.Response(inverse[i : i + 1])
        alone.step(one, one, dt=DT, response=response)
        assert response.velocity.numpy()[0] == together.velocity.numpy()[i]
        assert one["joint_f"][0] == sim["joint_f"][i]


@SHAPES
def test_scattered_and_strided_and_double_arrays(shape, rng):
    """Indices into larger arrays, every second entry of an array, and float64."""
    sim, inverse = random_sim(rng), random_response(rng, shape).inverse_inertia
    acceleration = rng.normal(0.0, 5.0, N).astype(np.float32)
    expected = actuon.Response(inverse, acceleration)
    actuon.Actuator(range(N), stages=geared_stages(), accumulate=False).step(sim, sim, dt=DT, response=expected)

    places = rng.permutation(3 * N)[:N]
    large = {name: np.full(3 * N, np.nan, np.float32) for name in NAMES}
    for name, values in sim.items():
        large[name][places] = values
    scattered = actuon.Actuator(places, stages=geared_stages(), accumulate=False)
    response = actuon.Response(inverse, acceleration)
    scattered.step(large, large, dt=DT, response=response)
    np.testing.assert_array_equal(large["joint_f"][places], sim["joint_f"])

    wide = np.zeros((*inverse.shape, 2), np.float32)
    wide[..., 0] = inverse
    strided = actuon.Response(wide[..., 0], np.repeat(acceleration, 2)[::2])
    assert not strided.input("inverse_inertia").is_contiguous
    scattered.step(large, large, dt=DT, response=strided)
    np.testing.assert_array_equal(strided.velocity.numpy(), expected.velocity.numpy())

    double = {name: values.astype(np.float64) for name, values in large.items()}
    response = actuon.Response(inverse.astype(np.float64), acceleration.astype(np.float64))
    scattered.step(double, double, dt=DT, response=response)
    np.testing.assert_array_equal(double["joint_f"][places].astype(np.float32), sim["joint_f"])


def test_one_dof_per_thread_gives_the_same(rng, monkeypatch):
    """The kernels of a GPU."""

    class ByDof(DiagonalSolve):
        def in_blocks(self, arrays):
            return False

    sim, inverse = random_sim(rng), random_diagonal(rng)
    inverse[3] = 1e4  # takes longer
    expected, response = actuon.Response(inverse), actuon.Response(inverse)
    actuon.Actuator(range(N), stages=geared_stages(), accumulate=False).step(sim, sim, dt=DT, response=expected)
    monkeypatch.setattr("actuon.actuator.implicit_step.DiagonalSolve", ByDof)
    actuon.Actuator(range(N), stages=geared_stages(), accumulate=False).step(sim, sim, dt=DT, response=response)
    np.testing.assert_array_equal(response.velocity.numpy(), expected.velocity.numpy())
    np.testing.assert_array_equal(response.residual.numpy(), expected.residual.numpy())


def test_arrays_are_read_at_every_step(rng):
    sim, inverse = random_sim(rng), random_diagonal(rng)
    actuator = actuon.Actuator(range(N), stages=geared_stages(), accumulate=False)
    response = actuon.Response(inverse)
    found = []
    for change in ("write", "assign", "bare", "accelerate"):
        if change == "write":
            inverse *= np.float32(0.5)
        elif change == "assign":
            response.inverse_inertia = 2.0 * inverse
        elif change == "accelerate":
            response.acceleration = np.full(N, 100.0, np.float32)
        actuator.step(sim, sim, dt=DT, response=3.0 * inverse if change == "bare" else response)
        found.append(sim["joint_f"].copy())
    assert len({values.tobytes() for values in found}) == 4


@pytest.mark.parametrize("name", ["friction", "limit"])
def test_chains_with_kinks_converge(name, rng):
    stages = {
        "friction": [actuon.ControllerPD(30.0, 2.0), actuon.EffectFriction(0.5, 0.1, inertia=0.01)],
        "limit": [actuon.ControllerPD(400.0, 20.0), actuon.ClampingMaxEffort(10.0)],
    }[name]
    n = 42 * 30
    actuator = actuon.Actuator(range(n), stages=stages, accumulate=False)
    for dt in (0.001, 0.005, 0.02):
        sim = random_sim(rng, n)
        for inverse in (random_diagonal(rng, n), random_blocks(rng, n // 2, 2), random_blocks(rng, n // 42, 42)):
            actuator.step(sim, sim, dt=dt, response=actuon.Response(inverse))


def test_what_is_not_found_is_said():
    actuator = actuon.Actuator(range(3), ControllerJump([0.0, 0.5, 100.0]), accumulate=False)
    sim = {name: np.zeros(3, np.float32) for name in NAMES}
    inverse = np.full(3, 20.0, np.float32)
    response = actuon.Response(inverse)
    with pytest.raises(actuon.ConvergenceError, match=r"2 of 3 DOFs.*DOF 0 by .*, DOF 1 by .*max_iterations") as caught:
        actuator.step(sim, sim, dt=0.01, response=response)
    assert caught.value.dofs == (0, 1)
    np.testing.assert_array_equal(response.residual.numpy()[:2], caught.value.residuals)
    assert isinstance(caught.value, ArithmeticError)
    assert (np.abs(sim["joint_f"]) == 5.0).all()
    np.testing.assert_allclose(response.velocity.numpy(), [0.0, 0.5, 1.0], atol=1e-3)
    assert response.unconverged.numpy()[0] == 2
    with pytest.raises(actuon.ConvergenceError, match="2 of 3"):
        actuator.step(sim, sim, dt=0.01, response=inverse)
    blocks = actuon.Response(inverse[:, None, None])
    with pytest.raises(actuon.ConvergenceError, match="2 of 3"):
        actuator.step(sim, sim, dt=0.01, response=blocks)

    sim = {name: wp.array(values) for name, values in sim.items()}
    with wp.ScopedCapture(device="cpu") as capture:
        actuator.step(sim, sim, dt=0.01, response=response)
    response.unconverged.zero_()
    for _ in range(3):
        wp.capture_launch(capture.graph)
    assert response.unconverged.numpy()[0] == 6
    with wp.ScopedCapture(device="cpu"), pytest.raises(actuon.ArrayError, match="cannot raise"):
        actuator.step(sim, sim, dt=0.01, response=inverse)


@SHAPES
def test_what_is_not_a_number_is_said(shape, rng):
    sim, response = random_sim(rng), random_response(rng, shape)
    sim["joint_qd"][3] = np.nan
    actuator = actuon.Actuator(range(N), stages=geared_stages(), accumulate=False)
    with pytest.raises(actuon.ConvergenceError, match="DOF 3 by") as caught:
        actuator.step(sim, sim, dt=DT, response=response)
    robot = range(7) if len(shape) == 3 else (3,)
    assert caught.value.dofs == tuple(robot)
    assert np.isfinite(np.delete(sim["joint_f"], robot)).all()


def bad_blocks(entry, value):
    blocks = np.tile(np.diag([3.0, 5.0]).astype(np.float32), (2, 1, 1))
    blocks[1][entry] = value
    return blocks


BAD = [
    (np.array([1.0, 0.0, 2.0, 3.0], np.float32), "got 0 for DOF 1; must be a finite number > 0"),
    (np.array([1.0, 1.0, 2.0, -3.0], np.float32), "got -3 for DOF 3"),
    (np.array([np.nan, 1.0, 2.0, 3.0], np.float32), "got nan for DOF 0"),
    (np.array([1.0, 1.0, np.inf, 3.0], np.float32), "got inf for DOF 2"),
    (bad_blocks((0, 0), -1.0), "the matrix of robot 1 is not positive definite"),
    (bad_blocks(([0, 1], [1, 0]), 4.0), "the matrix of robot 1 is not positive definite"),
    (bad_blocks((0, 1), 1.0), "the matrix of robot 1 is not symmetric"),
    (bad_blocks((0, 1), np.nan), "the matrix of robot 1 is not finite"),
    (np.ones(3, np.float32), r"got shape \(3,\); the actuator has 4 DOFs"),
    (np.ones((2, 3, 3), np.float32), r"got shape \(2, 3, 3\); the actuator has 4 DOFs"),
    (np.ones((4, 4), np.float32), r"must be \(N,\), or \(R, D, D\) with R·D = N; for one robot, A\[None\]"),
    (np.ones((1, 65, 65), np.float32), "got matrices of 65 DOFs; must have at most 64"),
    (np.ones((2, 2, 3), np.float32), r"got shape \(2, 2, 3\)"),
    (np.ones(4, np.int32), "got dtype int32"),
    (3.0, "got float; must be a Warp, NumPy or PyTorch array"),
]


@pytest.mark.parametrize(("inverse", "complaint"), BAD, ids=[complaint for _, complaint in BAD])
def test_bad_inverse_inertias_are_refused(inverse, complaint, rng):
    actuator = actuon.Actuator(range(4), actuon.ControllerPD(10.0, 1.0), delay=actuon.Delay(1, 1), accumulate=False)
    sim, state = random_sim(rng, 4), actuator.state()
    before = state.to_arrays()
    with pytest.raises(actuon.ArrayError, match=complaint):
        actuator.step(sim, sim, state, state, DT, response=inverse)
    assert np.isnan(sim["joint_f"]).all()
    for key, array in state.to_arrays().items():
        np.testing.assert_array_equal(array, before[key])


def test_other_bad_input_is_refused(rng):
    actuator = actuon.Actuator(range(4), actuon.ControllerPD(10.0, 1.0), accumulate=False)
    sim, inverse = random_sim(rng, 4), np.ones(4, np.float32)
    with pytest.raises(actuon.StateError, match=r"step\(\) needs dt"):
        actuator.step(sim, sim, response=inverse)
    with pytest.raises(actuon.StateError, match="dt: got nan"):
        actuator.step(sim, sim, dt=float("nan"), response=inverse)
    for options, complaint in (
        ({"max_iterations": 1}, "max_iterations: got 1; must be a whole number ≥ 2"),
        ({"max_iterations": 2.5}, "max_iterations: got 2.5"),
        ({"tolerance": 0.0}, "tolerance: got 0.0; must be a finite number > 0"),
    ):
        with pytest.raises(actuon.ParameterError, match=complaint):
            actuon.Response(inverse, **options)
    with pytest.raises(actuon.ArrayError, match=r"response.acceleration: got shape \(3,\); must be \(4,\)"):
        actuon.Response(inverse, np.ones(3, np.float32))
    response = actuon.Response(inverse)
    with pytest.raises(actuon.ArrayError, match=r"inverse_inertia: got shape \(5,\); must keep its shape \(4,\)"):
        response.inverse_inertia = np.ones(5, np.float32)
    with pytest.raises(actuon.ArrayError, match="sim_state.joint_qd: has 3 entries; the vel indices reach 3"):
        actuator.step(sim | {"joint_qd": np.ones(3, np.float32)}, sim, dt=DT, response=response)

    coupled = actuon.TransmissionCoupled([[1.0, 1.0], [1.0, -1.0]], [0, 1])
    staged = actuon.Actuator([0, 1], actuon.ControllerPD(1.0, 1.0), transmission=coupled)
    with pytest.raises(actuon.StructureError, match="the effort has no derivatives: TransmissionCoupled brings"):
        staged.step(sim, sim, dt=DT, response=inverse[:2])
    twice = actuon.Actuator([0, 0], actuon.ControllerPD(1.0, 1.0))
    with pytest.raises(actuon.ParameterError, match="response: some indices repeat"):
        twice.step(sim, sim, dt=DT, response=inverse[:2])

    fresh = actuon.Actuator(range(4), actuon.ControllerPD(10.0, 1.0), accumulate=False)
    sim = {name: wp.array(values) for name, values in sim.items()}
    with wp.ScopedCapture(device="cpu"):
        with pytest.raises(actuon.StructureError, match="take one step with it before graph capture"):
            fresh.step(sim, sim, dt=DT, response=response)
        with pytest.raises(actuon.StructureError, match="create it before"):
            actuon.Response(inverse)
    sim = {name: wp.zeros(4, requires_grad=True) for name in NAMES}
    with wp.Tape(), pytest.raises(actuon.StructureError, match="requires_grad=True"):
        actuator.step(sim, sim, dt=DT, response=response)


@wp.kernel
def move(q: wp.array(dtype=float), w: wp.array(dtype=float), dt: float, after: wp.array(dtype=float)):
    i = wp.tid()
    after[i] = q[i] + dt * w[i]


def root_in_double(off, w):
    """By Newton's method with differences, each step halved until it leads down."""
    for _ in range(100):
        now = off(w)
        if np.abs(now).max() < 1e-10:
            return w
        jacobian = np.stack([(off(w + h) - off(w - h)) / 2e-6 for h in 1e-6 * np.eye(len(w))], axis=1)
        step = np.linalg.solve(jacobian, -now)
        while np.linalg.norm(off(w + step)) >= np.linalg.norm(now) and np.abs(step).max() > 1e-12:
            step = step / 2.0
        w = w + step
    raise AssertionError("no root")


LAG = 0.01
GIVEN = ("q", "qd", "target_q", "target_qd", "inverse", "acceleration", "reference", "kp", "kd", "stall")


def loss_in_double(values, weights):
    """Of efforts and speeds of two steps, each at the roots of its equation."""
    q, w, seen, loss = values["q"], values["qd"], None, 0.0
    kept = np.exp(-DT / LAG)
    for by_effort, by_speed in weights:

        def shown(speed, seen=seen):
            return speed if seen is None else speed + (seen - speed) * kept

        def effort(speed, q=q, shown=shown):
            targets = values["target_q"], values["target_qd"]
            return geared_effort(q, speed, *targets, values["kp"], values["kd"], values["stall"], shown(speed))

        def off(speed, w=w, effort=effort):
            more = pushed(values["inverse"], effort(speed) - values["reference"])
            return speed - w - DT * (values["acceleration"] + more)

        w = root_in_double(off, w)
        loss += by_effort @ effort(w) + by_speed @ w
        seen, q = shown(w), q + DT * w
    return loss


@pytest.mark.parametrize("blocks", [False, True])
def test_gradients_of_two_steps(blocks, rng):
    """Against differences of float64 solves. A state of the filter, positions and speeds carry the first step over."""
    n = 4
    inverse = random_blocks(rng, 2, 2) if blocks else random_diagonal(rng, n)
    values = {name: rng.normal(0.0, 0.3, n) for name in ("q", "target_q", "target_qd")}
    values |= {"qd": rng.normal(0.0, 2.0, n), "inverse": 0.1 * inverse, "kp": np.full(n, 30.0), "kd": np.full(n, 0.8)}
    values |= {"acceleration": rng.normal(0.0, 5.0, n), "reference": rng.normal(size=n), "stall": np.full(n, STALL)}
    values["target_q"][2], values["qd"][2] = 3.0, 7.0  # one at the limit of its motor
    values = {name: values[name].astype(np.float32) for name in GIVEN}
    weights = rng.normal(size=(2, 2, n)).astype(np.float32)

    controller = actuon.ControllerPD(values["kp"].copy(), values["kd"].copy())
    motor = actuon.ClampingDCMotor(values["stall"].copy(), NO_LOAD, MOST)
    stages = [actuon.SensorLowPass(LAG), controller, actuon.TransmissionGear(RATIO, EFFICIENCY, BACK), motor]
    actuator = actuon.Actuator(range(n), stages=stages, requires_grad=True)
    controller, motor = actuator.stages[1], actuator.stages[3]
    arrays = {name: wp.array(values[name], requires_grad=True) for name in GIVEN}
    response = actuon.Response(arrays["inverse"], arrays["acceleration"], arrays["reference"], tolerance=1e-6)
    states = [actuator.state() for _ in range(3)]
    q, qd = arrays["q"], arrays["qd"]
    outputs = []
    with wp.Tape() as tape:
        for t in range(2):
            sim = {"joint_q": q, "joint_qd": qd, "joint_f": wp.zeros(n, requires_grad=True)}
            sim |= {"joint_target_q": arrays["target_q"], "joint_target_qd": arrays["target_qd"]}
            actuator.step(sim, sim, states[t], states[t + 1], DT, response=response)
            qd, before = response.velocity, q
            q = wp.zeros(n, requires_grad=True)
            wp.launch(move, n, [before, qd, DT], [q])
            outputs += [sim["joint_f"], qd]
    flat = weights.reshape(4, n)
    tape.backward(grads={output: wp.array(weight) for output, weight in zip(outputs, flat, strict=True)})
    found = {name: array.grad.numpy() for name, array in arrays.items() if name not in ("kp", "kd", "stall")}
    found |= {"kp": controller.kp.grad.numpy(), "kd": controller.kd.grad.numpy()}
    found["stall"] = motor.saturation_effort.grad.numpy()

    exact = {name: array.astype(np.float64) for name, array in values.items()}
    for name in GIVEN:
        array = exact[name].reshape(-1)
        expected = np.empty(array.size)
        for i in range(array.size):
            value, h = array[i], 1e-6 * max(1.0, abs(array[i]))
            sides = []
            for sign in (1.0, -1.0):
                array[i] = value + sign * h
                sides.append(loss_in_double(exact, weights.astype(np.float64)))
            array[i] = value
            expected[i] = (sides[0] - sides[1]) / (2.0 * h)
        got = found[name].reshape(-1)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(got, expected, rtol=5e-3, atol=2e-3 * scale + 1e-5, err_msg=name)
    assert np.abs(found["stall"][2]) > 1e-3

    again = {name: array.copy() for name, array in found.items()}
    tape.zero()
    assert not any(arrays[name].grad.numpy().any() for name in arrays if name not in ("kp", "kd", "stall"))
    assert not controller.kp.grad.numpy().any()
    tape.backward(grads={output: wp.array(weight) for output, weight in zip(outputs, flat, strict=True)})
    np.testing.assert_array_equal(arrays["qd"].grad.numpy(), again["qd"])
    np.testing.assert_array_equal(controller.kp.grad.numpy(), again["kp"])


def test_newtons_names_of_the_modes(rng):
    """`set_effort_mode_implicit` and back, as in Newton 1.8, against the response in each step."""
    sim, inverse = random_sim(rng), random_diagonal(rng)
    actuator = actuon.Actuator(range(N), stages=geared_stages(), accumulate=False)

    def efforts(**options):
        actuator.step(sim, sim, dt=DT, **options)
        return sim["joint_f"].copy()

    explicit, implicit = efforts(), efforts(response=inverse)
    assert (np.abs(explicit - implicit) > 1.0).any()
    actuator.set_effort_mode_implicit(response=inverse)
    np.testing.assert_array_equal(efforts(), implicit)
    actuator.set_effort_mode_explicit()
    np.testing.assert_array_equal(efforts(), explicit)
    with pytest.raises(actuon.ParameterError, match="options: got dict; must be None"):
        actuator.set_effort_mode_implicit(inverse, {"max_iters": 3})
    with pytest.raises(actuon.ArrayTypeError, match="inverse_inertia: got str"):
        actuator.set_effort_mode_implicit("oracle")
