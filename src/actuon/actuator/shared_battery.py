# SPDX-License-Identifier: Apache-2.0
"""`SharedBattery`: one battery for several motors of a robot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import warp as wp

from ..arrays import index_array
from ..components.limits.battery import ClampingBattery
from ..errors import ParameterError, StateError, StructureError
from ..kernel.types import Flavour, FloatGrid, Floats, Ints, module_options
from ..typing import IndexLike
from .actuator import Actuator
from .state import ActuatorState

wp.set_module_options(module_options(Flavour.GRAD))


class SharedBattery:
    """Battery that several DOFs share, of one actuator or more.

    Each DOF stores a copy of the battery's state; `share`, called after each step, adds the loads of the other DOFs to
    it. All DOFs of a battery must have the same battery parameters.

    Args:
        actuators: Actuators that have a `ClampingBattery`.
        batteries: For each actuator, the battery number of each DOF, shape (N,). Default: one battery for all.

    Examples:
        >>> pd = actuon.PDControlConfig(kp=40.0, kd=1.0)
        >>> battery = actuon.BatteryClampingConfig(25.2, inner_resistance=0.05)
        >>> motor = actuon.VoltageClampingConfig(torque_constant=0.1, resistance=0.2)
        >>> legs = actuon.Actuator(range(12), pd, clamping=[battery, motor])
        >>> shared = actuon.SharedBattery([legs])  # after each step: shared.share(state)
    """

    def __init__(self, actuators: Sequence[Actuator], batteries: Sequence[IndexLike] | None = None):
        if not actuators:
            raise StructureError("SharedBattery: got no actuators; must be one or more")
        self._device = actuators[0].device
        if self._device.is_capturing:
            raise StructureError("a SharedBattery cannot be built during graph capture; build it before")
        if batteries is None:
            batteries = [np.zeros(actuator.num_actuators, np.uint32) for actuator in actuators]
        if len(batteries) != len(actuators):
            raise StructureError(
                f"batteries: got {len(batteries)}; must be one array for each of {len(actuators)} actuators"
            )
        numbers = [
            index_array(given, f"batteries[{i}]", self._device, actuator.num_actuators).numpy().astype(np.int64)
            for i, (given, actuator) in enumerate(zip(batteries, actuators, strict=True))
        ]
        self._places = [_place(actuator) for actuator in actuators]
        self._actuators = tuple(actuators)
        self._check_alike(numbers)
        self._count = 1 + max((int(given.max()) for given in numbers if given.size), default=0)
        self._totals = wp.zeros(self._count, dtype=wp.float32, device=self._device)
        self._members = [self._by_battery(given) for given in numbers]
        self._of_dof = [wp.array(given.astype(np.int32), device=self._device) for given in numbers]

    def _by_battery(self, numbers: np.ndarray) -> tuple[wp.array, wp.array]:
        """Return the start of each battery's DOFs in a list, and that list: DOFs in the order of their batteries."""
        starts = np.searchsorted(np.sort(numbers), np.arange(self._count + 1)).astype(np.int32)
        dofs = np.argsort(numbers, kind="stable").astype(np.int32)
        return wp.array(starts, device=self._device), wp.array(dofs, device=self._device)

    def _check_alike(self, numbers: Sequence[np.ndarray]) -> None:
        every = np.concatenate(numbers)
        for name in ClampingBattery.declared():
            values = np.concatenate(
                [
                    actuator.stages[place].numbers()[name]
                    for actuator, place in zip(self._actuators, self._places, strict=True)
                ]
            )
            order = np.lexsort((values, every))
            same = every[order][1:] == every[order][:-1]
            differ = np.flatnonzero(same & (values[order][1:] != values[order][:-1]))
            if differ.size:
                first, second = order[differ[0]], order[differ[0] + 1]
                raise ParameterError(
                    f"battery {every[first]}: {name} is {values[first]:g} at one of its motors and {values[second]:g} "
                    "at another; all motors on a battery must have the same"
                )

    def share(self, *states: ActuatorState | None) -> None:
        """Add up the loads of the last step on each battery. Supports graph capture and tapes.

        Args:
            states: States after the step, one for each actuator.

        Examples:
            >>> pd = actuon.PDControlConfig(kp=40.0, kd=1.0)
            >>> stages = [actuon.BatteryClampingConfig(25.2, inner_resistance=0.05)]
            >>> stages += [actuon.VoltageClampingConfig(torque_constant=0.1, resistance=0.2)]
            >>> legs = actuon.Actuator(range(2), pd, clamping=stages)
            >>> state = legs.state()
            >>> actuon.SharedBattery([legs]).share(state)  # after each step
        """
        if len(states) != len(self._actuators):
            raise StateError(
                f"share: got {len(states)} states; must be one for each of {len(self._actuators)} actuators"
            )
        loads = []  # of each actuator: own and other loads, of shape (1, robots, DOFs of a robot)
        for actuator, place, state in zip(self._actuators, self._places, states, strict=True):
            if state is None or state.owner is not actuator:
                raise StateError("share: got a state of another actuator, or None; pass states in the actuators' order")
            loads.append([state.memory.grid(place, name) for name in ("own_load", "other_load")])
        if any(own.requires_grad for own, _ in loads):
            totals = wp.zeros(self._count, dtype=wp.float32, device=self._device, requires_grad=True)
        else:
            totals = self._totals
            totals.zero_()
        for (own, _), (starts, dofs) in zip(loads, self._members, strict=True):
            wp.launch(_sum_up, self._count, [own, starts, dofs], [totals], device=self._device)
        for (own, others), numbers in zip(loads, self._of_dof, strict=True):
            wp.launch(_hand_out, own.shape, [totals, numbers, own], [others], device=self._device)


def _place(actuator: Actuator) -> int:
    places = [i for i, stage in enumerate(actuator.stages) if isinstance(stage, ClampingBattery)]
    if len(places) != 1:
        raise StructureError(f"SharedBattery: {actuator} has {len(places)} batteries; must have one ClampingBattery")
    return places[0]


@wp.kernel
def _sum_up(loads: FloatGrid, starts: Ints, dofs: Ints, totals: Floats) -> None:
    battery = wp.tid()
    for i in range(starts[battery], starts[battery + 1]):
        cell = dofs[i] / loads.shape[2]
        wp.atomic_add(totals, battery, loads[0, cell, dofs[i] - cell * loads.shape[2]])


@wp.kernel
def _hand_out(totals: Floats, numbers: Ints, own: FloatGrid, others: FloatGrid) -> None:
    _, cell, lane = wp.tid()
    others[0, cell, lane] = totals[numbers[cell * own.shape[2] + lane]] - own[0, cell, lane]
