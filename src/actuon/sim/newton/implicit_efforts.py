# SPDX-License-Identifier: Apache-2.0
"""Implicit efforts in Newton: its MuJoCo solvers integrate damping of joints implicitly.

An effort τ ≈ τ₀ + b·(q̇′ − q̇) is passed to the solver as additional damping of -b and an effort of τ₀ − b·q̇. The
derivative by position is not used, as none of the solvers' integrators could. Newton's own model keeps its damping; the
additional one is written to the solver's model before each step.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from ...kernel.types import Floats, Ints
from ..engine import (
    AGREED,
    CORRECTIONS,
    NEAR,
    TOLERANCE,
    EndOfStep,
    HeldImplicitEffort,
    ImplicitEffort,
    ImplicitRefusedError,
)
from ..robots import DofSet
from .solvers import Physics

Table: Any = wp.array2d(dtype=wp.float32)
Pairs: Any = wp.array(dtype=wp.vec2)
Places: Any = wp.array2d(dtype=wp.int32)

_STEEPEST = wp.constant(-1.0e9)


@wp.kernel
def _take(
    effort: Table,
    derivative_qd: Table,
    low: Table,
    high: Table,
    columns: Ints,
    places: Places,
    velocity: Floats,
    constant: Floats,
    derivative: Floats,
    lower: Floats,
    upper: Floats,
    shown: Floats,
) -> None:
    """Compute lines from efforts and their derivatives."""
    i, j = wp.tid()
    column = columns[j]
    dof = places[i, j]
    given = effort[i, column]
    steep = derivative_qd[i, column]
    braking = wp.where(steep < 0.0, wp.max(steep, _STEEPEST), 0.0)
    derivative[dof] = braking
    constant[dof] = given - braking * velocity[dof]
    lower[dof] = low[i, column]
    upper[dof] = high[i, column]
    shown[dof] = given


@wp.kernel
def _hand_over(is_line: Ints, constant: Floats, shown: Floats, effort: Floats) -> None:
    dof = wp.tid()
    effort[dof] = wp.where(is_line[dof] > 0, constant[dof], shown[dof])


@wp.kernel
def _damp(of_newton: Places, is_line: Ints, derivative: Floats, own: Floats, damping: Table) -> None:
    world, i = wp.tid()
    dof = of_newton[world, i]
    if dof >= 0 and is_line[dof] > 0:
        damping[world, i] = own[dof] - derivative[dof]


@wp.kernel
def _end(
    is_line: Ints,
    velocity: Floats,
    lower: Floats,
    upper: Floats,
    rest: float,
    constant: Floats,
    derivative: Floats,
    shown: Floats,
    width: int,
    near: Ints,
) -> None:
    """Write the applied efforts, and the environments, of ``width`` DOFs, in which some are near their bounds."""
    dof = wp.tid()
    if is_line[dof] > 0:
        applied = constant[dof] + derivative[dof] * velocity[dof]
        shown[dof] = applied
        is_high = applied > upper[dof] - rest * wp.abs(upper[dof])
        if lower[dof] < upper[dof] and (is_high or applied < lower[dof] + rest * wp.abs(lower[dof])):
            near[dof // width] = 1


@wp.func
def _most(lowest: float, highest: float) -> float:
    """Return the largest magnitude of both limits that is finite."""
    larger = wp.max(wp.abs(lowest), wp.abs(highest))
    return wp.where(wp.isfinite(larger), larger, wp.min(wp.abs(lowest), wp.abs(highest)))


@wp.kernel
def _correct(
    effort: Table,
    derivative_qd: Table,
    low: Table,
    high: Table,
    columns: Ints,
    places: Places,
    velocity: Floats,
    lower: Floats,
    upper: Floats,
    is_first: int,
    begun: Table,
    begun_speed: Floats,
    last: Pairs,
    other: Pairs,
    is_corrected: Ints,
    shown: Floats,
    tolerance: float,
    share: float,
    width: int,
    near: Ints,
    constant: Floats,
    derivative: Floats,
    beyond: Ints,
) -> None:
    """Replace efforts that ended beyond their limits, or were clipped and ended far from the chain, by lines along the
    bound, or by secants of the chain between speeds that are too low and too high."""
    i, j = wp.tid()
    column = columns[j]
    dof = places[i, j]
    first_effort = begun[i, column]
    if is_first > 0:
        other[dof] = wp.vec2(begun_speed[dof], first_effort)
        is_corrected[dof] = 0
    if lower[dof] >= upper[dof] or near[dof // width] == 0:
        return
    given, applied, speed = effort[i, column], shown[dof], velocity[dof]
    lowest, highest = low[i, column], high[i, column]
    slack = tolerance * _most(lowest, highest)
    most = _most(lower[dof], upper[dof])
    above = applied > highest + slack
    is_beyond = above or applied < lowest - slack
    was_clipped = first_effort > upper[dof] - tolerance * most or first_effort < lower[dof] + tolerance * most
    off = wp.abs(applied - given)
    if is_beyond or ((is_corrected[dof] != 0 or was_clipped) and off > share * most):
        at_bound = (above and given >= highest) or (not above and given <= lowest)
        along = is_beyond and at_bound and is_corrected[dof] == 0 and not off > most
        side = wp.where(applied > given, 1, -1)
        if is_corrected[dof] == -side:
            other[dof] = last[dof]
        secant = (given - other[dof][1]) / (speed - other[dof][0])
        steep = wp.where(along, derivative_qd[i, column], secant)
        braking = wp.where(steep < 0.0, wp.max(steep, _STEEPEST), 0.0)
        derivative[dof] = braking
        constant[dof] = given - braking * speed
        last[dof] = wp.vec2(speed, given)
        is_corrected[dof] = side
        beyond[0] = 1


class Lines:
    """Efforts of all DOFs of a model as lines.

    Args:
        physics: The solver.
        state: The state that it steps.
        control: Efforts and targets of actuators.
        num_envs: Number of environments, with equal numbers of DOFs.
    """

    def __init__(self, physics: Physics, state: Any, control: Any, num_envs: int):
        self._physics, self._state, self._shown = physics, state, control.joint_f
        self._control = copy.copy(control)
        self._control.joint_f = wp.zeros_like(control.joint_f)
        self.constant, self.derivative = wp.zeros_like(control.joint_f), wp.zeros_like(control.joint_f)
        """Coefficients of the effort of each DOF, constant + derivative·q̇."""
        self.lower, self.upper = wp.full_like(self.derivative, -np.inf), wp.full_like(self.derivative, np.inf)
        self._is_line = wp.zeros(self.derivative.shape, dtype=wp.int32, device=self.derivative.device)
        self._users = np.zeros(len(self.derivative), dtype=np.int64)
        self.are_held = False
        """Whether any efforts are lines."""
        self._speed = wp.zeros_like(self.derivative)
        self._last, self._other = (
            wp.zeros(self.derivative.shape, wp.vec2, device=self.derivative.device) for _ in range(2)
        )
        self._is_corrected = wp.zeros_like(self._is_line)
        self._flag = wp.zeros(1, dtype=wp.int32, device=self.derivative.device)
        self._width = max(1, len(self.derivative) // num_envs)
        self._near = wp.zeros(num_envs, dtype=wp.int32, device=self.derivative.device)
        self.correctors: list[tuple[Callable[[], bool], Callable[[bool], bool]]] = []
        """Functions for each owner with limits: one evaluates chains at the end of a step, one corrects lines."""
        self._damping = physics.damping_writer(self._damp)

    def hold(self, dofs: np.ndarray) -> Callable[[], None]:
        """Make the efforts of DOFs lines. Returns a function that ends this."""
        self._count(dofs, 1)

        def give_back() -> None:
            self.level(dofs, np.zeros(len(dofs), np.float32))
            self._damping()
            self._count(dofs, -1)

        return give_back

    def _count(self, dofs: np.ndarray, by: int) -> None:
        self._users[dofs] += by
        self.are_held = bool(self._users.any())
        self._is_line.assign((self._users > 0).astype(np.int32))

    def level(self, dofs: np.ndarray, efforts: np.ndarray) -> None:
        """Set efforts [N·m or N] of DOFs to constants."""
        for array, values in (
            (self.constant, efforts),
            (self.derivative, 0.0),
            (self.lower, -np.inf),
            (self.upper, np.inf),
        ):
            numbers = array.numpy().copy()
            numbers[dofs] = values
            array.assign(numbers)

    def reset(self, env_ids: np.ndarray, first: wp.array) -> None:
        """Reset the efforts of environments to their initial values."""
        dofs = (env_ids[:, None] * self._width + np.arange(self._width)).ravel()
        self.level(dofs, first.numpy()[dofs])

    def _damp(self, of_newton: wp.array, damping: wp.array) -> None:
        """Write damping of shape (worlds, DOFs) to a solver's model, given the indices of its DOFs in Newton's."""
        own = self._physics.model.joint_damping
        inputs = [of_newton, self._is_line, self.derivative, own, damping]
        wp.launch(_damp, of_newton.shape, inputs, device=damping.device)

    def taker(self, implicit: ImplicitEffort, columns: np.ndarray, places: np.ndarray) -> Callable[[], None]:
        """Return a function that computes the lines of these columns, at these DOFs of shape (n, d)."""
        made = [self.constant, self.derivative, self.lower, self.upper, self._shown]
        inputs = [*self._read(implicit, columns, places), *made]
        return lambda: wp.launch(_take, places.shape, inputs, device=self.derivative.device)

    def corrector(
        self, implicit: ImplicitEffort, begun: wp.array, columns: np.ndarray, places: np.ndarray
    ) -> Callable[[bool], bool]:
        """Return a function that corrects lines by the derivatives at the end of a step, and returns whether it changed
        any. Its argument is whether the step was taken once."""
        read, last = (
            [*self._read(implicit, columns, places), self.lower, self.upper],
            [self._last, self._other, self._is_corrected],
        )
        bounds = [TOLERANCE, AGREED, self._width, self._near]
        made = [begun, self._speed, *last, self._shown, *bounds, self.constant, self.derivative, self._flag]

        def correct(is_first: bool) -> bool:
            self._flag.zero_()
            wp.launch(_correct, places.shape, [*read, int(is_first), *made], device=self.derivative.device)
            return bool(self._flag.numpy()[0])

        return correct

    def _read(self, implicit: ImplicitEffort, columns: np.ndarray, places: np.ndarray) -> list[wp.array]:
        device = self.derivative.device
        chosen, at = (wp.array(numbers, dtype=wp.int32, device=device) for numbers in (columns, places))
        return [
            implicit.effort,
            implicit.derivative_qd,
            implicit.lower,
            implicit.upper,
            chosen,
            at,
            self._state.joint_qd,
        ]

    def step(self, dt: float) -> None:
        """Advance the state. If efforts end beyond their limits, repeat the step."""
        state, count, device = self._state, len(self.derivative), self.derivative.device
        remembered = [state.joint_q, state.joint_qd, state.body_q, state.body_qd, *self._physics.memory(self._control)]
        before = [(array, array.copy() if isinstance(array, np.ndarray) else wp.clone(array)) for array in remembered]
        wp.copy(self._speed, state.joint_qd)
        self._near.zero_()
        for corrections_left in range(CORRECTIONS, -1, -1):
            inputs = [self._is_line, self.constant, self._shown, self._control.joint_f]
            wp.launch(_hand_over, count, inputs, device=device)
            self._damping()
            self._physics.step(state, self._control, dt)
            ended = [self.lower, self.upper, 1.0 - NEAR, self.constant, self.derivative, self._shown]
            ended += [self._width, self._near]
            wp.launch(_end, count, [self._is_line, state.joint_qd, *ended], device=device)
            is_first = corrections_left == CORRECTIONS
            if not self.correctors or not corrections_left or (is_first and not self._near.numpy().any()):
                return
            beyond = [correct(is_first) for evaluate, correct in self.correctors if evaluate()]
            if not any(beyond):
                return
            for array, values in before:
                if isinstance(array, np.ndarray):
                    array[...] = values
                else:
                    wp.copy(array, values)


class NewtonImplicitEfforts:
    """Efforts with derivatives for the MuJoCo solvers.

    Args:
        physics: The solver.
        lines: Efforts as lines.
        control: Efforts and targets of actuators.
    """

    integrator_changed = ""

    def __init__(self, physics: Physics, lines: Lines, control: Any):
        self._physics, self._lines, self._control = physics, lines, control

    @property
    def integrator(self) -> str:
        """Integrator of the solver, such as ``"implicitfast"``; empty if unknown."""
        return self._physics.integrator()

    def hold(
        self,
        at: DofSet,
        implicit: ImplicitEffort,
        ending: EndOfStep | None = None,
        usage: Callable[[], float] | None = None,
    ) -> HeldImplicitEffort:
        """Integrate efforts of these DOFs implicitly, until they are released."""
        why = self._physics.derivative_obstacle()
        if why:
            raise ImplicitRefusedError(f"effort_mode: {type(self._physics.solver).__name__} {why}; use 'explicit'")
        places, lines = at.flat("joint_f"), self._lines
        let_go = lines.hold(places.ravel())
        correctors = (
            []
            if ending is None
            else [(ending.evaluate, lines.corrector(ending.implicit, implicit.effort, at.dofs, places))]
        )
        lines.correctors += correctors

        def release() -> None:
            lines.correctors = [each for each in lines.correctors if each not in correctors]
            let_go()

        return HeldImplicitEffort(
            lines.taker(implicit, at.dofs, places), lambda: self._control.joint_f.numpy()[places], release
        )
