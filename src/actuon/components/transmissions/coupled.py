# SPDX-License-Identifier: Apache-2.0
r"""Coupled joints: several motors move several joints through a constant matrix, as in differentials and ankles.

.. math:: q_m = M q, \qquad \dot q_m = M \dot q, \qquad \tau = M^T \tau_m

for the :math:`k` joints and :math:`k` motors of one coupling. Power is equal on both sides, since
:math:`\tau^T \dot q = \tau_m^T M \dot q`. The requested efforts of the motors are :math:`\tau_m = M^{-T} \tau`: without
limits, the joints receive exactly the efforts that their controllers request.

A law has one DOF, so this component has separate kernels, and its actuator runs stage by stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import warp as wp

from ...arrays import numbers
from ...declare.config import Config
from ...declare.parameters import Field, Parameters, ParameterValue, Table, Whole, param
from ...errors import ParameterError, RobotFileError, shown
from ...kernel.run_stage import SignalArray
from ...kernel.state import State
from ...kernel.types import Flavour, Floats, Indices, Ints, module_options
from ...typing import ArrayLike, DeviceLike
from ..component import HeldValues
from ..kinds import Transmission

wp.set_module_options(module_options(Flavour.GRAD))

MOST_SINGULAR = 1e5
"""Condition number from which a matrix counts as singular."""


def _flattened(where: str, matrix: Any) -> Any:
    """Flatten a matrix of rows to one list, row after row; return anything else unchanged."""
    try:
        shape = np.shape(matrix)
    except ValueError as error:
        raise ParameterError(f"{where}: got rows of different lengths; must be k rows of k numbers") from error
    if len(shape) != 2:
        return matrix
    if shape[0] != shape[1]:
        raise ParameterError(f"{where}: got {shape[0]} rows of {shape[1]} numbers; must be k rows of k numbers")
    return np.ravel(matrix).tolist()


class Coupled(Parameters):
    matrix: Table = param(
        "1",
        "k·k numbers, row after row: row i is the speed of motor i per unit speed of each joint.",
        shared=True,
    )
    row: Field[int | None] = param(
        "1",
        "Index of the joint and motor among the k. Default in YAML: the order of joints.",
        default=None,
        integer=True,
        minimum=0,
    )
    coupling: Whole = param(
        "1",
        "Number of the coupling, if a robot has several.",
        default=0,
        integer=True,
        minimum=0,
    )

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        matrix = np.asarray(values["matrix"], dtype=np.float64)
        size = round(matrix.size**0.5)
        if matrix.ndim != 1 or matrix.size == 0 or size * size != matrix.size:
            raise ParameterError(
                f"{where}.matrix: got {shown(values['matrix'])}; must be k rows of k numbers, or k·k in one list"
            )
        cls.declared()["matrix"].check(f"{where}.matrix", values["matrix"])
        condition = np.linalg.cond(matrix.reshape(size, size))
        if not condition < MOST_SINGULAR:
            raise ParameterError(
                f"{where}.matrix: got a condition number of {condition:.3g}; must be below {MOST_SINGULAR:g}: the "
                "matrix is singular, so some motion of the joints moves no motor"
            )
        rows = values["row"]
        if rows is not None and np.size(rows) and np.max(rows) >= size:
            raise ParameterError(
                f"{where}.row: got {int(np.max(rows))}; must be from 0 to {size - 1}, since the matrix has {size} rows"
            )


@wp.kernel(enable_backward=False)
def _invert(matrix: Floats, size: int, work: Floats, inverse: Floats):
    """Invert by Gauss-Jordan elimination with pivots, in one thread, since matrices are small."""
    for at in range(size * size):
        work[at] = matrix[at]
        inverse[at] = wp.where(at % (size + 1) == 0, 1.0, 0.0)
    for column in range(size):
        pivot = int(column)
        for i in range(column + 1, size):
            if wp.abs(work[i * size + column]) > wp.abs(work[pivot * size + column]):
                pivot = i
        scale = 1.0 / work[pivot * size + column]
        for j in range(size):
            work_above = float(work[column * size + j])
            work_pivot = float(work[pivot * size + j])
            work[pivot * size + j] = work_above
            work[column * size + j] = work_pivot * scale
            inverse_above = float(inverse[column * size + j])
            inverse_pivot = float(inverse[pivot * size + j])
            inverse[pivot * size + j] = inverse_above
            inverse[column * size + j] = inverse_pivot * scale
        for i in range(size):
            factor = float(work[i * size + column])
            if i != column:
                for j in range(size):
                    work[i * size + j] = work[i * size + j] - factor * work[column * size + j]
                    inverse[i * size + j] = inverse[i * size + j] - factor * inverse[column * size + j]


@wp.kernel
def _refine(matrix: Floats, inverse: Floats, size: int, refined: Floats):
    """Refine an inverse by a step of Newton's iteration, 2 X - X M X, which a tape can differentiate by M."""
    at = wp.tid()
    i = at / size
    j = at % size
    product = float(0.0)
    for a in range(size):
        for b in range(size):
            product += inverse[i * size + a] * matrix[a * size + b] * inverse[b * size + j]
    refined[at] = 2.0 * inverse[at] - product


@wp.kernel
def _to_motors(
    q: Floats,
    q_indices: Indices,
    qd: Floats,
    qd_indices: Indices,
    effort: Floats,
    effort_indices: Indices,
    matrix: Floats,
    inverse: Floats,
    row: Ints,
    first_member: Ints,
    members: Ints,
    size: int,
    motor_q: Floats,
    motor_qd: Floats,
    motor_effort: Floats,
    motor_velocity: Floats,
):
    i = wp.tid()
    position = float(0.0)
    velocity = float(0.0)
    given = float(0.0)
    for j in range(size):
        other = members[first_member[i] + j]
        position += matrix[row[i] * size + j] * q[int(q_indices[other])]
        velocity += matrix[row[i] * size + j] * qd[int(qd_indices[other])]
        given += inverse[j * size + row[i]] * effort[int(effort_indices[other])]
    motor_q[i] = position
    motor_qd[i] = velocity
    motor_effort[i] = given
    motor_velocity[i] = velocity


@wp.kernel
def _to_joints(
    effort: Floats,
    effort_indices: Indices,
    matrix: Floats,
    row: Ints,
    first_member: Ints,
    members: Ints,
    size: int,
    joint_effort: Floats,
    motor_effort: Floats,
):
    i = wp.tid()
    total = float(0.0)
    for j in range(size):
        total += matrix[j * size + row[i]] * effort[int(effort_indices[members[first_member[i] + j]])]
    joint_effort[i] = total
    motor_effort[i] = effort[int(effort_indices[i])]


class CoupledTransmissionConfig(Coupled, Config):
    """One of several joints that as many motors move together.

    Examples:
        >>> matrix = (1.0, 1.0, 1.0, -1.0)
        >>> pitch, roll = (actuon.CoupledTransmissionConfig(matrix, row) for row in (0, 1))
    """

    schema = "ActuonCoupledTransmissionAPI"

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", _flattened(f"{type(self).__name__}.matrix", self.matrix))
        super().__post_init__()

    def at_place(self, place: int, places: int) -> Self:
        """Return the config with an unset row set to the place among the names of an entry."""
        if self.row is not None:
            return self
        size = round(len(self.matrix) ** 0.5)
        if places != size:
            raise RobotFileError(
                f"joints: got {places} names or regular expressions; must be {size} for a matrix with {size} rows and "
                "no 'row', in the order of its columns"
            )
        values = {name: getattr(self, name) for name in self.declared()}
        return type(self)(**values | {"row": place})


class TransmissionCoupled(Coupled, Transmission):
    """Coupled joints, which as many motors move together through a constant matrix.

    A DOF is a joint before this stage, and the motor of the same row after it. The j-th DOF of each row belongs to the
    j-th coupling, so several robots can follow each other, each with its DOFs in any order.

    Args:
        matrix: Motor velocities by joint velocities [1], shape (k, k), or flat, row after row. Shared by all DOFs.
        row: Index of the joint and motor of each DOF among the k, shape (N,).
        coupling: Number of the coupling of each DOF, shape (N,), if the order of DOFs does not define it.

    Examples:
        >>> transmission = actuon.TransmissionCoupled(
        ...     matrix=[[1.0, 1.0], [1.0, -1.0]], row=[0, 1]
        ... )
    """

    config = CoupledTransmissionConfig
    OUTPUTS = ("motor_velocity",)
    CLOSING_OUTPUTS = ("motor_effort",)

    def __init__(self, matrix: ArrayLike, row: ArrayLike, coupling: ArrayLike = 0):
        super().__init__(_flattened(f"{type(self).__name__}.matrix", matrix), row, coupling)

    @property
    def size(self) -> int:
        """Number of joints, and of motors, of one coupling, k."""
        return round(self.matrix.size**0.5)

    def check_fits(self, num_actuators: int) -> None:
        super().check_fits(num_actuators)
        self._find_members(self._values, num_actuators)

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        super().finalize(device, num_actuators)
        first, members = self._find_members(self._values, num_actuators)
        self._first_member = wp.array(first, device=self._device)
        self._members = wp.array(members, device=self._device)
        self._work = wp.empty_like(self.matrix, requires_grad=False)
        self._inverse = wp.empty_like(self.matrix, requires_grad=False)
        self._refined = wp.empty_like(self.matrix)

    def _check_together(self, values: HeldValues) -> None:
        super()._check_together(values)
        if self._num_actuators is not None:
            self._find_members(values, self._num_actuators)

    def _has_written(self) -> None:
        super()._has_written()
        if self._num_actuators is not None:
            first, members = self._find_members(self._values, self._num_actuators)
            self._first_member.assign(first)
            self._members.assign(members)

    def _find_members(self, values: HeldValues, num_actuators: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the start of each DOF's coupling in the list of members, and that list: k DOFs each, by row."""
        given = (numbers(values[name], name) for name in ("row", "coupling"))
        rows, couplings = (np.broadcast_to(array, num_actuators) for array in given)
        size = self.size
        first = np.zeros(num_actuators, np.int32)
        members: list[int] = []
        for coupling in np.unique(couplings):
            of_row = [np.flatnonzero((couplings == coupling) & (rows == row)) for row in range(size)]
            counts = [len(dofs) for dofs in of_row]
            if len(set(counts)) > 1:
                got = ", ".join(f"{count} of row {row}" for row, count in enumerate(counts))
                raise ParameterError(
                    f"{type(self).__name__}.row: got {got}; must be equally many DOFs of each row. All joints of a "
                    "coupling must be in one actuator: on robots, with the same kinds of stages and the same matrix"
                )
            for dofs in np.stack(of_row, axis=1):
                first[dofs] = len(members)
                members += dofs.tolist()
        return first, np.array(members, np.int32)

    def run(
        self,
        given: Mapping[str, SignalArray],
        results: Mapping[str, wp.array],
        current_state: State | None,
        next_state: State | None,
        dt: float | None,
    ) -> None:
        refined = wp.empty_like(self.matrix) if self.requires_grad else self._refined
        inputs = [self.matrix, self.size, self._work]
        wp.launch(_invert, 1, inputs, [self._inverse], device=self._device, record_tape=False)
        wp.launch(_refine, self.matrix.size, [self.matrix, self._inverse, self.size], [refined], device=self._device)
        signals = [part for name in ("q", "qd", "effort") for part in (given[name].array, given[name].indices)]
        wp.launch(
            _to_motors,
            self._num_actuators,
            [*signals, self.matrix, refined, self.row, self._first_member, self._members, self.size],
            [results[name] for name in ("q", "qd", "effort", "motor_velocity")],
            device=self._device,
        )

    def run_closing(
        self,
        given: Mapping[str, SignalArray],
        results: Mapping[str, wp.array],
        current_state: State | None,
        next_state: State | None,
        dt: float | None,
    ) -> None:
        effort = given["effort"]
        wp.launch(
            _to_joints,
            self._num_actuators,
            [effort.array, effort.indices, self.matrix, self.row, self._first_member, self._members, self.size],
            [results["effort"], results["motor_effort"]],
            device=self._device,
        )
