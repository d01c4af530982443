# SPDX-License-Identifier: Apache-2.0
"""Joints that several motors move together: against NumPy, on tapes and in graphs, in files, and what cannot be."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.chains import SIGNALS, random_signals
from tests.support.robot_files import add, robot

SIZE, COUPLINGS = 3, 5
N = SIZE * COUPLINGS


class Coupled:
    """PD → coupled joints → largest effort of each motor, with DOFs in any order; and the same in NumPy."""

    def __init__(self, rng, matrix=None):
        self.values = {
            "kp": rng.uniform(1, 50, N),
            "kd": rng.uniform(0, 2, N),
            "matrix": rng.uniform(-2, 2, (SIZE, SIZE)) + 3 * np.eye(SIZE)[rng.permutation(SIZE)],
            "max_effort": rng.uniform(1, 20, N),
        }
        self.values = {name: array.astype(np.float32) for name, array in self.values.items()}
        self.rows = np.concatenate([rng.permutation(SIZE) for _ in range(COUPLINGS)]).astype(np.int32)
        self.members = self.rows.reshape(COUPLINGS, SIZE).argsort(axis=1) + SIZE * np.arange(COUPLINGS)[:, None]

    def stages(self):
        v = self.values
        return [
            actuon.ControllerPD(wp.array(v["kp"]), wp.array(v["kd"])),
            actuon.TransmissionCoupled(v["matrix"], self.rows),
            actuon.ClampingMaxEffort(wp.array(v["max_effort"])),
        ]

    def actuator(self, **options):
        return actuon.Actuator(range(N), stages=self.stages(), **options)

    def oracle(self, signals):
        v = {name: array.astype(np.float64) for name, array in self.values.items()}
        q, qd, target_q, target_qd, feedforward = (signals[name].astype(np.float64) for name in SIGNALS)
        wanted = feedforward + v["kp"] * (target_q - q) + v["kd"] * (target_qd - qd)
        effort, offered = np.full(N, np.nan), {name: np.full(N, np.nan) for name in ("velocity", "effort")}
        matrix = v["matrix"].reshape(SIZE, SIZE)
        for dofs in self.members:
            motors = np.linalg.solve(matrix.T, wanted[dofs])
            motors = np.clip(motors, -v["max_effort"][dofs], v["max_effort"][dofs])
            effort[dofs] = matrix.T @ motors
            offered["velocity"][dofs], offered["effort"][dofs] = matrix @ qd[dofs], motors
        return effort, offered["velocity"], offered["effort"]


OFFERED = {"motor_velocity": "velocity", "motor_effort": "effort"}


def simulation(signals, requires_grad=False):
    sim = {name: wp.array(array, dtype=wp.float32, requires_grad=requires_grad) for name, array in signals.items()}
    outputs = ("joint_f", *OFFERED.values())
    return sim | {name: wp.zeros(N, dtype=wp.float32, requires_grad=requires_grad) for name in outputs}


def test_efforts_and_signals_equal_the_oracle_and_conserve_power(rng):
    chain = Coupled(rng)
    actuator = chain.actuator(control_signal_attrs=OFFERED)
    assert not actuator.is_fused()
    clipped = 0
    for _ in range(4):
        signals = random_signals(N, rng)
        sim = simulation(signals)
        actuator.step(sim, sim)
        found = [sim[name].numpy() for name in ("joint_f", "velocity", "effort")]
        for numbers, expected in zip(found, chain.oracle(signals), strict=True):
            np.testing.assert_allclose(numbers, expected, rtol=1e-4, atol=1e-3)
        joints, motors = found[0] * signals["joint_qd"], found[1] * found[2]
        for dofs in chain.members:
            np.testing.assert_allclose(joints[dofs].sum(), motors[dofs].sum(), rtol=1e-4, atol=1e-2)
        clipped += (np.abs(found[2]) == chain.values["max_effort"]).sum()
    assert 0 < clipped < 4 * N


def test_without_limits_joints_get_what_is_wanted(rng):
    controller, coupled, _ = Coupled(rng).stages()
    actuator = actuon.Actuator(range(N), stages=[controller, coupled], control_computed_output_attr="effort")
    sim = simulation(random_signals(N, rng))
    actuator.step(sim, sim)
    np.testing.assert_allclose(sim["joint_f"].numpy(), sim["effort"].numpy(), rtol=1e-5, atol=1e-4)


def test_the_matrix_is_live(rng):
    chain = Coupled(rng)
    actuator = chain.actuator()
    chain.values["matrix"] = (3 * np.eye(SIZE) + rng.uniform(-1, 1, (SIZE, SIZE))).astype(np.float32)
    for assign in (
        lambda m: setattr(actuator.transmission, "matrix", m),
        lambda m: actuator.transmission.matrix.assign(m),
    ):
        assign(chain.values["matrix"].ravel())
        signals = random_signals(N, rng)
        sim = simulation(signals)
        actuator.step(sim, sim)
        np.testing.assert_allclose(sim["joint_f"].numpy(), chain.oracle(signals)[0], rtol=1e-4, atol=1e-3)
        chain.values["matrix"] = chain.values["matrix"].T.copy()


def test_gradients_equal_differences_of_the_oracle_through_two_steps(rng):
    chain = Coupled(rng)
    steps = [random_signals(N, rng) for _ in range(2)]
    weights = [rng.standard_normal(N).astype(np.float32) for _ in steps]
    actuator = chain.actuator(requires_grad=True)
    sims = [simulation(signals, requires_grad=True) for signals in steps]
    tape = wp.Tape()
    with tape:
        for sim in sims:
            actuator.step(sim, sim)
    tape.backward(grads={sim["joint_f"]: wp.array(w) for sim, w in zip(sims, weights, strict=True)})
    exact = copy.deepcopy(chain)
    exact.values = {name: array.astype(np.float64) for name, array in chain.values.items()}
    double = [{name: array.astype(np.float64) for name, array in signals.items()} for signals in steps]

    def difference(array, i, h=1e-6):
        flat, found = array.reshape(-1), []
        kept = flat[i]
        for sign in (1, -1):
            flat[i] = kept + sign * h
            found.append(sum(float(w @ exact.oracle(s)[0]) for w, s in zip(weights, double, strict=True)))
        flat[i] = kept
        return (found[0] - found[1]) / (2 * h)

    parameters = {n: a for stage in actuator.stages for n, a in stage.parameters().items() if n in exact.values}
    pairs = [(parameters[name], array) for name, array in exact.values.items()]
    pairs += [(sim[name], signals[name]) for sim, signals in zip(sims, double, strict=True) for name in SIGNALS]
    for array, numbers in pairs:
        expected = [difference(numbers, i) for i in range(numbers.size)]
        np.testing.assert_allclose(array.grad.numpy(), expected, rtol=1e-2, atol=1e-2)


def test_a_captured_step_equals_an_eager_one(rng):
    chain = Coupled(rng)
    eager, captured = chain.actuator(), chain.actuator()
    assert captured.is_graphable()
    sim = simulation(random_signals(N, rng))
    captured.step(sim, sim)  # what is compiled is not captured
    with wp.ScopedCapture(device="cpu") as graph:
        sim["joint_f"].zero_()
        captured.step(sim, sim)
    for _ in range(3):
        signals = random_signals(N, rng)
        other = simulation(signals)
        eager.step(other, other)
        for name, array in signals.items():
            sim[name].assign(array)
        wp.capture_launch(graph.graph)
        np.testing.assert_array_equal(sim["joint_f"].numpy(), other["joint_f"].numpy())


def test_numbers_keep_couplings_apart_that_the_order_would_mix():
    a, b, c, d = speeds = [1.0, 10.0, 100.0, 1000.0]
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f", "velocity")
    for couplings, expected in (
        ([0, 0, 0, 0], [a + c, b + d, a - c, b - d]),
        ([0, 1, 1, 0], [a + d, b + c, b - c, a - d]),
    ):
        transmission = actuon.TransmissionCoupled([[1.0, 1.0], [1.0, -1.0]], [0, 0, 1, 1], couplings)
        sim = {name: np.zeros(4, np.float32) for name in names}
        sim["joint_qd"][:] = speeds
        stages = [actuon.ControllerPD(1.0, 0.0), transmission]
        actuator = actuon.Actuator(range(4), stages=stages, control_signal_attrs={"motor_velocity": "velocity"})
        actuator.step(sim, sim)
        assert sim["velocity"].tolist() == expected


MATRIX = ((1.0, 0.5), (1.0, -0.5))


@pytest.mark.parametrize(
    ("matrix", "row", "message"),
    [
        ([[1.0, 1.0], [2.0, 2.0]], [0, 1], "matrix: got a condition number of .*: the matrix is singular"),
        ([[1.0, 1.0], [1.0, 1.0 + 1e-6]], [0, 1], "matrix: got a condition number"),
        ([0.0], [0, 0], "matrix: got a condition number"),
        ([1.0, 2.0, 3.0], [0, 1], r"matrix: got .*; must be k rows of k numbers, or k·k in one"),
        ([], [0, 1], r"matrix: got .*; must be k rows of k numbers"),
        ([[1.0, 2.0, 3.0, 4.0]], [0, 1], "matrix: got 1 rows of 4 numbers; must be k rows of k"),
        ([[1.0, 2.0], [3.0]], [0, 1], "matrix: got rows of different lengths; must be k rows of k"),
        ([[1.0, np.nan], [0.0, 1.0]], [0, 1], "matrix: got nan at index 1; must be finite"),
        (MATRIX, [0, 2], "row: got 2; must be from 0 to 1, since the matrix has 2 rows"),
        (MATRIX, [0, -1], "row: got -1 at index 1; must be a whole number"),
        (MATRIX, [0, 0], "row: got 2 of row 0, 0 of row 1; must be equally many DOFs of each row"),
    ],
)
def test_couplings_that_cannot_be(matrix, row, message):
    with pytest.raises(actuon.ParameterError, match=message):
        actuon.Actuator(range(2), actuon.ControllerPD(1.0, 0.0), transmission=actuon.TransmissionCoupled(matrix, row))
    if "equally many" not in message:
        with pytest.raises(
            actuon.ParameterError, match=message.replace(" at index 1; must be a whole", "; must be a whole")
        ):
            actuon.CoupledTransmissionConfig(matrix, row[1])


def test_rows_may_change_where_they_still_fill_couplings():
    given = actuon.TransmissionCoupled(MATRIX, [0, 1, 0, 1])
    coupled = actuon.Actuator(range(4), actuon.ControllerPD(1.0, 0.0), transmission=given).transmission
    with pytest.raises(actuon.ParameterError, match="row: got 3 of row 0, 1 of row 1"):
        coupled.row = [0, 1, 0, 0]
    assert coupled.row.numpy().tolist() == [0, 1, 0, 1]
    coupled.row = [0, 0, 1, 1]
    with pytest.raises(actuon.ParameterError, match="matrix: got a condition number"):
        coupled.matrix = [1.0, 1.0, 1.0, 1.0]


def ankle(row=None, matrix=MATRIX):
    coupled = actuon.CoupledTransmissionConfig(matrix, row)
    return actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0), transmission=coupled)


def test_rows_in_yaml_are_by_the_order_of_joints(tmp_path):
    path = tmp_path / "actuon.yaml"
    path.write_text(
        "actuators: {ankles: {joints: ['.*_pitch', '.*_roll'], controller: {type: pd, kp: 40, kd: 1}, "
        "transmission: {type: coupled, matrix: [[1, 0.5], [1, -0.5]]}}}"
    )
    (entry,) = actuon.load_actuators(path)
    assert entry == actuon.ActuatorEntry("ankles", (".*_pitch", ".*_roll"), ankle())
    actuon.save_actuators(path, [entry])
    assert actuon.load_actuators(path) == [entry]
    names = ["left_roll", "left_pitch", "right_roll", "right_pitch"]
    assert [entry.actuator_of(name).transmission.row for name in names] == [1, 0, 1, 0]
    with pytest.raises(actuon.RobotFileError, match="ankle: joints: got 1 names .*; must be 2 for a matrix"):
        actuon.ActuatorEntry("ankle", (".*",), ankle())
    explicit = actuon.ActuatorEntry("ankle", (".*",), ankle(1))
    assert explicit.actuator_of("left_roll") == ankle(1)


def test_rows_in_usd_are_explicit():
    stage = robot()
    entry = actuon.ActuatorEntry("both", ("knee", "hip"), ankle())
    prims = actuon.author_actuators("/Robot", [entry], stage=stage)
    rows = {prim.GetName(): prim.GetAttribute("actuonCoupledTransmission:row").Get() for prim in prims}
    assert rows == {"knee": 0, "hip": 1}
    assert {e.name: e.actuator for e in actuon.export_actuators(stage)} == {"knee": ankle(0), "hip": ankle(1)}
    together = actuon.ActuatorEntry("both", ("knee", "hip"), ankle(), one_prim=True)
    with pytest.raises(
        actuon.RobotFileError, match="both: its joints differ by their order, so one_prim must be false"
    ):
        actuon.author_actuators("/Robot", [together], stage=robot())
    assert actuon.parse_actuator_prim(add(robot(), ankle(1))).config == ankle(1)


def test_a_builder_puts_the_joints_of_a_coupling_together():
    builder = actuon.ActuatorBuilder()
    for i, row in enumerate([1, 0]):
        builder.add(ankle(row), i)
    builder.replicate(3, 2)
    (actuator,) = builder.finalize()
    assert actuator.transmission.row.numpy().tolist() == [1, 0] * 3
    builder = actuon.ActuatorBuilder()
    builder.add(ankle(), 0)
    with pytest.raises(actuon.StructureError, match="TransmissionCoupled: missing a required argument: 'row'"):
        builder.finalize()
    builder = actuon.ActuatorBuilder()
    builder.add(ankle(0), 0)
    builder.add(ankle(1, ((1.0, 0.5), (1.0, -0.6))), 1)
    with pytest.raises(actuon.ParameterError, match="row: got 1 of row 0, 0 of row 1; .* the same matrix"):
        builder.finalize()
