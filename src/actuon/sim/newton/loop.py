# SPDX-License-Identifier: Apache-2.0
"""Steps of motors and a solver as kernels, so that one graph can hold all of them.

Kernels count the steps, and end the loop when an effort or the state is not finite. These checks run on the CPU only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from ...errors import SimulationError
from ...kernel.launch import Launch
from ...kernel.types import Flavour, Floats, Ints, module_options
from ..divergence import HUGE, StateWatch
from ..motor import MotorKernels, Trips

wp.set_module_options(module_options(Flavour.SCALAR) | {"enable_backward": False})

Table: Any = wp.array2d(dtype=wp.float32)
Counts: Any = wp.array2d(dtype=wp.int64)

_HUGE = wp.constant(float(HUGE))
_LEFT = wp.constant(0)
"""Number of remaining steps; 0 after a step that failed."""
_TAKEN = wp.constant(1)
_IS_SOUND = wp.constant(2)
_ROW = wp.constant(3)
"""Last written row of the ring of `StateWatch`."""


@wp.kernel
def _check(efforts: Table, counters: Ints) -> None:
    i, j = wp.tid()
    if not wp.isfinite(efforts[i, j]):
        counters[_LEFT] = 0


@wp.kernel
def _look_for_trips(
    tripped: Table, temperature: Table, counters: Ints, said: Counts, step: Counts, step_temperature: Table
) -> None:
    """Fill in `Trips`."""
    i, j = wp.tid()
    if tripped[i, j] > 0.0:
        if said[i, j] == wp.int64(0):
            step[i, j] = wp.int64(counters[_TAKEN])
            if temperature:
                step_temperature[i, j] = temperature[i, j]
        said[i, j] = wp.int64(1)
    else:
        said[i, j] = wp.int64(0)


@wp.kernel
def _count(rows: int, counters: Ints) -> None:
    counters[_LEFT] = counters[_LEFT] - 1
    counters[_TAKEN] = counters[_TAKEN] + 1
    counters[_ROW] = (counters[_ROW] + 1) % rows


@wp.kernel
def _watch(
    position: Floats, velocity: Floats, effort: Floats, counters: Ints, velocities: Table, efforts: Table
) -> None:
    """End the loop if the state has diverged, and record velocities and efforts if there is a ring for them."""
    i = wp.tid()
    is_bad = int(0)
    if i < position.shape[0]:  # noqa: SIM102 - both sides of a condition are read in kernels
        if not wp.abs(position[i]) <= _HUGE:
            is_bad = 1
    if i < velocity.shape[0]:
        if velocities:
            row = counters[_ROW]
            velocities[row, i] = velocity[i]
            efforts[row, i] = effort[i]
        if not wp.abs(velocity[i]) <= _HUGE:
            is_bad = 1
    if is_bad == 1:
        counters[_LEFT] = 0
        counters[_IS_SOUND] = 0


class StepLoop:
    """Kernels around the steps of a solver, without checks, for GPUs, where a check would wait.

    Args:
        device: Device of the kernels.
    """

    def __init__(self, device: wp.Device):
        self._device, self._wanted = device, 0

    def is_sound(self) -> bool:
        """Return whether no position or velocity is NaN, infinite or huge, if it is checked."""
        return True

    def begin(self, steps: int) -> None:
        """Prepare for a number of steps."""
        self._wanted = steps

    def taken(self, steps: int) -> tuple[int, bool]:
        """Return the number of steps that were taken, and whether the state is sound."""
        return steps, True

    def take_one(self, kernels: Sequence[MotorKernels], solve: Callable[[], None]) -> None:
        """Take a step; ``solve`` is the part of the solver."""

        def rest() -> None:
            solve()
            self.end_step()

        self.begin_step(kernels, rest)

    def record(self, kernels: Sequence[MotorKernels], solve: Callable[[], None]) -> Callable[[], None]:
        """Capture steps. Returns a function that takes all remaining ones."""
        one = captured(self._device, lambda: self.take_one(kernels, solve))

        def take_all() -> None:
            for _ in range(self._wanted):
                one()

        return take_all

    def record_around(
        self,
        kernels: Sequence[MotorKernels],
        push: Callable[[], None],
        integrate: Callable[[], None],
        pull: Callable[[], None],
    ) -> Callable[[], None]:
        """Capture steps except for ``integrate``. Returns a function that takes the remaining ones.

        Args:
            kernels: The motors.
            push: Writes the state and the efforts to the engine.
            integrate: Takes the step there, from Python.
            pull: Reads the state.
        """
        raise SimulationError("steps of MuJoCo itself are captured on a CPU only")

    def begin_step(self, kernels: Sequence[MotorKernels], rest: Callable[[], None]) -> None:
        """Step motors, and take the ``rest`` of the step."""
        for motor in kernels:
            motor.compute()
        self._hand_over(kernels, rest)

    def _hand_over(self, kernels: Sequence[MotorKernels], rest: Callable[[], None]) -> None:
        for motor in kernels:
            motor.push()
        rest()

    def end_step(self) -> None:
        """Count a step."""


class WatchedLoop(StepLoop):
    """Kernels that end the loop before a step with an effort that is not finite, or after one that diverged.

    Args:
        arrays: ``joint_q``, ``joint_qd`` and ``joint_f`` of all robots, flat, on the CPU.
        watch: Remembers the last steps.
    """

    def __init__(self, arrays: SimpleNamespace, watch: StateWatch):
        super().__init__(arrays.joint_q.device)
        self._watch = watch
        counters = wp.zeros(4, dtype=wp.int32, device=self._device)
        self._counters, self._left = counters, counters[:1]
        self._shown = memoryview(counters.numpy())
        self._rows, *ring = watch.ring
        read = arrays.joint_q, arrays.joint_qd, arrays.joint_f, counters
        dim = max(len(arrays.joint_q), len(arrays.joint_qd))
        self._remember = Launch(_watch, dim, self._device, [*read, *map(as_warp, ring)])
        self._look = Launch(_watch, dim, self._device, [*read, None, None])
        self._count = Launch(_count, 1, self._device, [self._rows, counters])

    def is_sound(self) -> bool:
        self._shown[2] = 1
        self._look.run()  # immediately, also in a capture
        return bool(self._shown[2])

    def begin(self, steps: int) -> None:
        shown = self._shown
        shown[0], shown[1], shown[2], shown[3] = steps, 0, 1, (self._watch.length - 1) % self._rows
        if self._device.is_capturing:  # a user's graph, before which nothing is set
            self._left.fill_(steps)

    def taken(self, steps: int) -> tuple[int, bool]:
        if self._device.is_capturing:
            return steps, True
        return self._shown[1], bool(self._shown[2])

    def record(self, kernels: Sequence[MotorKernels], solve: Callable[[], None]) -> Callable[[], None]:
        def take_all() -> None:
            wp.capture_while(self._left, lambda: self.take_one(kernels, solve))

        return captured(self._device, take_all)

    def record_around(
        self,
        kernels: Sequence[MotorKernels],
        push: Callable[[], None],
        integrate: Callable[[], None],
        pull: Callable[[], None],
    ) -> Callable[[], None]:
        def begin() -> None:
            self.begin_step(kernels, push)

        def turn() -> None:
            pull()
            self.end_step()
            wp.capture_if(self._left, begin)

        first, between = captured(self._device, begin), captured(self._device, turn)
        shown = self._shown

        def take_all() -> None:
            first()
            while shown[0]:
                integrate()
                between()

        return take_all

    def _hand_over(self, kernels: Sequence[MotorKernels], rest: Callable[[], None]) -> None:
        for motor in kernels:
            wp.launch(_check, motor.checked.shape, [motor.checked, self._counters], device=self._device)
            if motor.trips is not None:
                self._note(motor.trips)
        wp.capture_if(self._left, lambda: StepLoop._hand_over(self, kernels, rest))

    def end_step(self) -> None:
        self._count.launch()
        self._remember.launch()

    def _note(self, trips: Trips) -> None:
        """Record motors that were switched off."""
        temperature = None if trips.temperature is None else as_warp(trips.temperature)
        changed = [as_warp(array) for array in (trips.said, trips.step, trips.step_temperature)]
        inputs = [as_warp(trips.tripped), temperature, self._counters, *changed]
        wp.launch(_look_for_trips, trips.tripped.shape, inputs, device=self._device)


def captured(device: wp.Device, work: Callable[[], None]) -> Callable[[], None]:
    """Capture launches without running them. Returns a function that runs them."""
    with wp.ScopedCapture(device=device, force_module_load=False) as capture:
        work()
    return functools.partial(wp.capture_launch, capture.graph)


def as_warp(array: np.ndarray) -> wp.array:
    """Return the memory of an array as a Warp array."""
    return wp.array(array, device="cpu", copy=False)
