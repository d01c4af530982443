# SPDX-License-Identifier: Apache-2.0
r"""Velocities after a step, for robots whose DOFs respond to each other's efforts.

For each robot, Newton's method finds the root of

.. math:: F(w) = w - c - h A\,\tau(w), \qquad c = \dot q + h\,(a - A \tau_r)

with the Jacobian :math:`J = 1 - h A\,\mathrm{diag}(\partial\tau/\partial w)`, which is regular if efforts brake, since
A is positive definite. Limits make efforts piecewise smooth, so a step with the derivative of one side overshoots. But
each effort depends on one velocity only, so every evaluation stays valid. If a step would take a DOF near or past a
velocity that was evaluated before, the derivative is replaced by the chord to that point, and the step is computed
again. So all DOFs approach their kinks at once. A DOF that keeps aiming at the same point goes half the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import warp as wp

from ..kernel.memory_scalar import dof_at
from ..kernel.types import Flavour, Floats, Indices, Ints, module_options
from .implicit_laws import is_solved, velocity_error

if TYPE_CHECKING:
    Matrices = Any
else:
    Matrices = wp.array(dtype=wp.float32, ndim=3)

ACTIVE, SOLVED, BAD = wp.constant(0), wp.constant(1), wp.constant(-1)
"""Status of a robot."""

ASYMMETRY = wp.constant(1e-3)
"""Allowed difference of two symmetric entries, as a share of their diagonal entries."""

NEAR = wp.constant(0.8)
"""Share of the way to an evaluated velocity from which the chord replaces the derivative."""

ROUNDS = wp.constant(2)
"""Times that a step is computed again with chords: other DOFs may then pass evaluated velocities."""

PATIENCE = wp.constant(2)
"""Times that a DOF aims at the same velocity before it goes half the way."""

MOST_PUSH = wp.constant(0.5)
"""Share of its velocity that the effort of a DOF may add over a step; the Newton step ignores larger gains."""

wp.set_module_options(module_options(Flavour.SCALAR))


@wp.func
def is_definite(given: Matrices, robot: int, size: int, factor: Matrices):
    """Return whether a matrix is symmetric and positive definite, by its Cholesky factor."""
    good = bool(True)
    for i in range(size):
        for j in range(i + 1):
            total = given[robot, i, j]
            limit = ASYMMETRY * wp.sqrt(wp.abs(given[robot, i, i] * given[robot, j, j]))
            if not wp.abs(total - given[robot, j, i]) <= limit:
                good = False
            for k in range(j):
                total -= factor[robot, i, k] * factor[robot, j, k]
            if i == j:
                if not (total > 0.0 and total < wp.inf):
                    good = False
                factor[robot, i, i] = wp.sqrt(total)
            else:
                factor[robot, i, j] = total / factor[robot, j, j]
    return good


_SOLVE = """
float* a = matrix.data + (size_t)robot * size * size;
float* b = x.data + (size_t)robot * size;
bool regular = true;
for (int k = 0; k < size; ++k) {
    float* row = a + (size_t)k * size;
    int pivot = k;
    for (int i = k + 1; i < size; ++i) if (fabsf(a[i * size + k]) > fabsf(a[pivot * size + k])) pivot = i;
    if (!(fabsf(a[pivot * size + k]) > 1e-20f)) regular = false;
    if (pivot != k) {
        float* other = a + (size_t)pivot * size;
        for (int j = k; j < size; ++j) { const float held = row[j]; row[j] = other[j]; other[j] = held; }
        const float held = b[k]; b[k] = b[pivot]; b[pivot] = held;
    }
    const float inverse = 1.0f / row[k];
    for (int i = k + 1; i < size; ++i) {
        float* to = a + (size_t)i * size;
        const float factor = to[k] * inverse;
        for (int j = k + 1; j < size; ++j) to[j] -= factor * row[j];
        b[i] -= factor * b[k];
    }
}
for (int i = size - 1; i >= 0; --i) {
    float total = b[i];
    for (int j = i + 1; j < size; ++j) total -= a[i * size + j] * b[j];
    b[i] = total / a[i * size + i];
}
return regular;
"""
"""C++: Warp's array access multiplies by strides that are known only at run time, which triples the time."""


@wp.func_native(_SOLVE)
def solve(matrix: Matrices, robot: int, size: int, x: Floats) -> bool:  # type: ignore[empty-body]
    """Solve in place, by elimination with partial pivoting. Return False if the matrix is singular."""


@wp.func
def find_step(
    robot: int, size: int, dt: float, derivative: Floats, inverse_inertia: Matrices, residual: Floats, forced: Floats,
    step: Floats, matrix: Matrices,
):  # fmt: skip
    """Compute the Newton step, without derivatives so positive that it would diverge.

    DOFs with a ``forced`` step take that; the others are solved for.
    """
    base = robot * size
    for i in range(size):
        if not dt * inverse_inertia[robot, i, i] * derivative[base + i] < MOST_PUSH:
            derivative[base + i] = 0.0
    for i in range(size):
        free = forced[base + i] == 0.0
        step[base + i] = wp.where(free, -residual[base + i], forced[base + i])
        for j in range(size):
            brake = wp.where(free, dt * inverse_inertia[robot, i, j] * derivative[base + j], 0.0)
            matrix[robot, i, j] = wp.where(i == j, 1.0, 0.0) - brake
    if not solve(matrix, robot, size, step):
        for i in range(size):
            step[base + i] = -residual[base + i]


@wp.func
def take_chord(
    dof: int, known: float, known_effort: float, now: float, effort: float, chord: Floats, aim: Floats,
    last_aim: Floats, stuck: Ints, forced: Floats,
):  # fmt: skip
    """Use the chord to an evaluated velocity as derivative, or go half the way there after `PATIENCE` attempts."""
    chord[dof] = (known_effort - effort) / (known - now)
    aim[dof] = known
    forced[dof] = 0.0
    if known == last_aim[dof] and stuck[dof] >= PATIENCE:
        forced[dof] = 0.5 * (known - now)


@wp.kernel(enable_backward=False)
def start(
    size: int,
    dt: float,
    velocities: Floats,
    indices: Indices,
    offset: int,
    inverse_inertia: Matrices,
    acceleration: Floats,
    reference: Floats,
    trial: Floats,
    free: Floats,
    best: Floats,
    error: Floats,
    left: Floats,
    right: Floats,
    last: Floats,
    last_aim: Floats,
    stuck: Ints,
    merit: Floats,
    known: Ints,
    matrix: Matrices,
):
    """Start at the velocities before the step."""
    robot, _unused = wp.tid()  # two dimensions: for one, Warp compiles the kernel twice
    good = is_definite(inverse_inertia, robot, size, matrix)
    known[robot] = wp.where(good, ACTIVE, BAD)
    merit[robot] = wp.inf
    base = robot * size
    for i in range(size):
        at = dof_at(indices, offset, base + i)
        qd = velocities[at]
        c = qd
        if acceleration:
            c += dt * acceleration[base + i]
        if reference:
            for j in range(size):
                c -= dt * inverse_inertia[robot, i, j] * reference[base + j]
        trial[at] = qd
        free[base + i] = c
        best[base + i] = qd
        error[base + i] = wp.inf
        left[base + i] = -wp.inf
        right[base + i] = wp.inf
        last[base + i] = qd
        last_aim[base + i] = wp.inf
        stuck[base + i] = 0


@wp.kernel(enable_backward=False)
def improve(
    size: int,
    dt: float,
    tolerance: float,
    is_first: bool,
    effort: Floats,
    derivative: Floats,
    indices: Indices,
    offset: int,
    inverse_inertia: Matrices,
    trial: Floats,
    free: Floats,
    best: Floats,
    error: Floats,
    left: Floats,
    right: Floats,
    left_effort: Floats,
    right_effort: Floats,
    last: Floats,
    last_effort: Floats,
    residual: Floats,
    chord: Floats,
    aim: Floats,
    last_aim: Floats,
    stuck: Ints,
    forced: Floats,
    step: Floats,
    merit: Floats,
    known: Ints,
    matrix: Matrices,
):
    """Compute the velocities to evaluate next, from the efforts at the last ones and their derivatives."""
    robot, _unused = wp.tid()
    if known[robot] != ACTIVE:
        return
    base = robot * size
    total = float(0.0)
    solved = bool(not is_first)
    for i in range(size):
        w = trial[dof_at(indices, offset, base + i)]
        pushed = float(0.0)
        for j in range(size):
            pushed += inverse_inertia[robot, i, j] * effort[base + j]
        r = w - free[base + i] - dt * pushed
        residual[base + i] = r
        total += r * r / inverse_inertia[robot, i, i]
        if not is_solved(velocity_error(r, dt * inverse_inertia[robot, i, i], derivative[base + i]), w, tolerance):
            solved = False
    if total < merit[robot] or solved:
        merit[robot] = total
        for i in range(size):
            best[base + i] = trial[dof_at(indices, offset, base + i)]
            error[base + i] = velocity_error(
                residual[base + i], dt * inverse_inertia[robot, i, i], derivative[base + i]
            )
    if solved:
        known[robot] = SOLVED
        for i in range(size):
            trial[dof_at(indices, offset, base + i)] = best[base + i]
        return
    for dof in range(base, base + size):
        w = trial[dof_at(indices, offset, dof)]
        if w > last[dof]:
            left_effort[dof] = wp.where(right[dof] < w, right_effort[dof], last_effort[dof])
            left[dof] = wp.where(right[dof] < w, right[dof], last[dof])
            right[dof] = wp.where(right[dof] <= w, wp.inf, right[dof])
        elif w < last[dof]:
            right_effort[dof] = wp.where(left[dof] > w, left_effort[dof], last_effort[dof])
            right[dof] = wp.where(left[dof] > w, left[dof], last[dof])
            left[dof] = wp.where(left[dof] >= w, -wp.inf, left[dof])
        last[dof] = w
        last_effort[dof] = effort[dof]
        chord[dof] = derivative[dof]
        aim[dof] = wp.inf
        forced[dof] = 0.0
    find_step(robot, size, dt, chord, inverse_inertia, residual, forced, step, matrix)
    for _again in range(ROUNDS):
        found = int(0)
        for dof in range(base, base + size):
            if step[dof] > NEAR * (right[dof] - last[dof]):
                take_chord(
                    dof, right[dof], right_effort[dof], last[dof], effort[dof], chord, aim, last_aim, stuck, forced
                )
                found += 1
            elif step[dof] < NEAR * (left[dof] - last[dof]):
                take_chord(
                    dof, left[dof], left_effort[dof], last[dof], effort[dof], chord, aim, last_aim, stuck, forced
                )
                found += 1
        if found > 0:
            find_step(robot, size, dt, chord, inverse_inertia, residual, forced, step, matrix)
    for dof in range(base, base + size):
        trial[dof_at(indices, offset, dof)] = last[dof] + step[dof]
        again = aim[dof] == last_aim[dof] and aim[dof] != wp.inf and forced[dof] == 0.0
        stuck[dof] = wp.where(again, stuck[dof] + 1, 0)
        last_aim[dof] = aim[dof]


@wp.kernel(enable_backward=False)
def adjoint(
    size: int,
    dt: float,
    indices: Indices,
    offset: int,
    effort_indices: Indices,
    effort_offset: int,
    effort: Floats,
    derivative: Floats,
    inverse_inertia: Matrices,
    reference: Floats,
    matrix: Matrices,
    share: Floats,
    speed_adjoint: Floats,
    effort_adjoint: Floats,
    velocity_adjoint: Floats,
    acceleration_adjoint: Floats,
    reference_adjoint: Floats,
    inertia_adjoint: Matrices,
):
    """Propagate the gradient by the velocities to their inputs."""
    robot, _unused = wp.tid()  # two dimensions: for one, Warp compiles the kernel twice
    base = robot * size
    for i in range(size):
        share[base + i] = speed_adjoint[dof_at(indices, offset, base + i)]
        for j in range(size):
            matrix[robot, i, j] = wp.where(i == j, 1.0, 0.0) - dt * inverse_inertia[robot, j, i] * derivative[base + i]
    solve(matrix, robot, size, share)
    for i in range(size):
        back = float(0.0)
        for j in range(size):
            back += dt * inverse_inertia[robot, j, i] * share[base + j]
        effort_adjoint[dof_at(effort_indices, effort_offset, base + i)] = back
        if velocity_adjoint:
            velocity_adjoint[dof_at(indices, offset, base + i)] += share[base + i]
        if acceleration_adjoint:
            acceleration_adjoint[base + i] += dt * share[base + i]
        if reference_adjoint:
            reference_adjoint[base + i] -= back
        if inertia_adjoint:
            for j in range(size):
                more = effort[base + j]
                if reference:
                    more -= reference[base + j]
                inertia_adjoint[robot, i, j] += dt * share[base + i] * more
