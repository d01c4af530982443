# SPDX-License-Identifier: Apache-2.0
"""`actuon.Motors` on new arrays at each step, beside the same maths in NumPy and Newton's actuators."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from itertools import product
from typing import Any

import numpy as np

import actuon

from .contenders import JOINTS, RANGES, Contender, NewtonActuators, Problem
from .gate import Gate, require_agreement
from .runner import TIMES_HEADER, Stepper, Table, grouped, measure, progress, times_faster

SIZES = (JOINTS, 4096 * JOINTS)
"""Numbers of DOFs, of robots with 12 joints."""
DTYPES = ("float32", "float64")
ARRAYS = 8
"""Sets of arrays that steps take in turn."""
DT = 0.005

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Positions, velocities and targets."""


class OnArrays(ABC):
    """Something that returns a new array of efforts for arrays that it has not seen before."""

    label: str

    def __init__(self, problem: Problem, given: list[Arrays]):
        self.problem = problem
        self.given = itertools.cycle(given)

    def step(self) -> None:
        self.efforts(*next(self.given))

    @abstractmethod
    def efforts(self, q: np.ndarray, qd: np.ndarray, target: np.ndarray) -> np.ndarray: ...


class NumpyMotors(OnArrays):
    """PD through a DC motor with a largest effort in NumPy."""

    label = "NumPy"

    def __init__(self, problem: Problem, given: list[Arrays]):
        super().__init__(problem, given)
        shape, dtype = given[0][0].shape, given[0][0].dtype
        self.parameters = [values.reshape(shape).astype(dtype) for values in problem.parameters.values()]

    def efforts(self, q: np.ndarray, qd: np.ndarray, target: np.ndarray) -> np.ndarray:
        kp, kd, stall, no_load, motor_limit, limit = self.parameters
        effort = kp * (target - q) - kd * qd
        corner = no_load * (1.0 + motor_limit / stall)
        speed = np.clip(qd, -corner, corner) / no_load
        high = np.minimum(stall * (1.0 - speed), motor_limit)
        low = np.maximum(stall * (-1.0 - speed), -motor_limit)
        return np.clip(np.clip(effort, low, high), -limit, limit)


class NewtonMotors(OnArrays):
    """Newton's actuators, whose arrays are filled and emptied at each step."""

    label = "Newton"

    def __init__(self, problem: Problem, given: list[Arrays]):
        super().__init__(problem, given)
        self.newton: Contender = NewtonActuators(problem)
        for name in ("joint_target_qd", "joint_act"):
            getattr(self.newton.sim, name).zero_()

    def efforts(self, q: np.ndarray, qd: np.ndarray, target: np.ndarray) -> np.ndarray:
        sim: Any = self.newton.sim
        for array, values in ((sim.joint_q, q), (sim.joint_qd, qd), (sim.joint_target_q, target)):
            array.assign(values.ravel())
        sim.joint_f.zero_()
        self.newton.step()
        return np.asarray(sim.joint_f.numpy().reshape(q.shape).astype(q.dtype))


class ActuonMotors(OnArrays):
    """`actuon.Motors`."""

    label = "Actuon"

    def __init__(self, problem: Problem, given: list[Arrays]):
        super().__init__(problem, given)
        robots = problem.n // JOINTS
        configs = {f"joint{i}": _config(problem, i) for i in range(JOINTS)}
        self.motors = actuon.Motors(configs, num_envs=robots)

    def efforts(self, q: np.ndarray, qd: np.ndarray, target: np.ndarray) -> np.ndarray:
        return self.motors.step(q, qd, target, DT)


class CopyArrays(OnArrays):
    """A copy of what is given and returned."""

    label = "copy of the arrays"

    def efforts(self, q: np.ndarray, qd: np.ndarray, target: np.ndarray) -> np.ndarray:
        q.copy(), qd.copy(), target.copy()
        return q.copy()


def _config(problem: Problem, joint: int) -> actuon.ActuatorConfig:
    kp, kd, *motor, limit = (float(values[joint]) for values in problem.parameters.values())
    return actuon.ActuatorConfig(
        actuon.PDControlConfig(kp, kd),
        [actuon.DCMotorClampingConfig(*motor), actuon.MaxEffortClampingConfig(limit)],
    )


def contenders(dtype: str, dofs: int) -> list[Stepper]:
    """Build all, of which those that compute efforts must agree."""
    problem = Problem(dofs, motor=True, lags=None)
    for name in RANGES:  # all robots alike
        problem.parameters[name] = np.tile(problem.parameters[name][:JOINTS], dofs // JOINTS)
    rng = np.random.default_rng(2)
    shape = (dofs,) if dofs == JOINTS else (dofs // JOINTS, JOINTS)

    def drawn() -> np.ndarray:
        return (2.0 * rng.standard_normal(shape)).astype(dtype)

    given: list[Arrays] = [(drawn(), drawn(), drawn()) for _ in range(ARRAYS)]
    made = [kind(problem, given) for kind in (NewtonMotors, NumpyMotors, ActuonMotors)]
    for step, arrays in enumerate(given):
        efforts = {contender.label: contender.efforts(*arrays) for contender in made}
        require_agreement(f"arrays, {dtype}, {dofs} DOFs, step {step}", efforts, rtol=1e-4, atol=1e-4)
    return [*made, CopyArrays(problem, given)]


GATE = Gate(DTYPES, contenders, smallest=JOINTS)


def measure_arrays(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for dofs, dtype in product(SIZES, DTYPES):
        progress(f"{dofs} DOFs on new arrays of {dtype}")
        everyone = contenders(dtype, dofs)
        times = measure(everyone, dofs, seconds)
        for contender, own in zip(everyone, times, strict=True):
            faster = (times_faster(peer, own) for peer in times[:2])
            rows.append((f"{grouped(dofs // JOINTS)} × {JOINTS}", dtype, contender.label, *own.cells(), *faster))
    header = ("robots × joints", "dtype", "who", *TIMES_HEADER, "faster than Newton", "than NumPy")
    return [Table("PD + DC motor + max effort on new NumPy arrays at each step.", header, rows)]
