# SPDX-License-Identifier: Apache-2.0
"""`Telemetry`: efforts, limits, power and signals of actuators in their last step."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import warp as wp

from ..kernel.chain import CLIPPED, IMPLICIT_SIGNALS, LIMITED_BY
from ..sim.motor import Trips
from .chain_set import ChainSet

TRIPPED = "tripped"
"""The signal of a motor that was switched off."""

_log = logging.getLogger("actuon.actuators")

ENGINE = "engine"
"""Name in ``limited_by`` of a joint limit in the engine."""

UNITS = {
    "velocity": "rad/s or m/s",
    "computed_effort": "N·m or N",
    "applied_effort": "N·m or N",
    "mechanical_power": "W",
    "electrical_power": "W",
    "motor_velocity": "rad/s",
    "motor_effort": "N·m",
    "gear_ratio": "1",
    "current": "A",
    "voltage": "V",
    "supply_voltage": "V",
    "energy": "J",
    "copper_loss": "W",
    "charge": "C",
    "temperature": "°C",
    "housing_temperature": "°C",
    "dry_friction": "N·m or N",
    "viscous_friction": "N·m·s/rad or N·s/m",
    "spring_deflection": "rad or m",
    "spring_load": "N·m or N",
    "gap_offset": "rad or m",
}
"""Units of telemetry and recordings, by name. For other signals, see their stage."""


@dataclass(frozen=True, repr=False)
class Telemetry:
    """Telemetry of the last step of actuators, in arrays of shape (N, D); zero on DOFs without an actuator.

    Examples:
        >>> motors = actuon.Motors(actuon.assets.arm_yaml, ["joint1", "joint2"])
        >>> _ = motors.step(np.zeros(2), qd=np.array([0.5, 0.0]), target=0.1, dt=0.002)
        >>> telemetry = motors.telemetry()
        >>> telemetry.applied_effort, telemetry.mechanical_power
        (array([[35., 60.]], dtype=float32), array([[17.5,  0. ]], dtype=float32))
    """

    dof_names: list[str]
    velocity: np.ndarray
    """Joint velocity at the actuator step [rad/s or m/s]."""
    computed_effort: np.ndarray
    """Requested effort of the controllers, before limits [N·m or N]."""
    applied_effort: np.ndarray
    """Applied effort at the joints, after limits [N·m or N]."""
    clipped: np.ndarray
    """Whether a limit reduced the effort."""
    limited_by: np.ndarray
    """Class of the last stage that reduced the effort, such as ``"ClampingDCMotor"``, or ``"engine"`` for a limit of
    the joint in the robot's model; empty if none did."""
    signals: Mapping[str, np.ndarray]
    """Signals of stages, such as a motor's current, by name; NaN on DOFs without it, and before the first step."""

    def __repr__(self) -> str:
        robots, dofs = self.applied_effort.shape
        signals = f"; signals: {', '.join(self.signals)}" if self.signals else ""
        return f"<Telemetry of {robots} × {dofs} efforts, {self.clipped.sum()} of them clipped{signals}>"

    @property
    def mechanical_power(self) -> np.ndarray:
        """Power at the joints [W]: applied effort times velocity; below zero if an actuator brakes."""
        return self.applied_effort * self.velocity

    @property
    def electrical_power(self) -> np.ndarray:
        """Electrical power of the motors [W]: voltage times current; below zero if a motor feeds back. NaN on DOFs
        without these signals."""
        unknown = np.full_like(self.applied_effort, np.nan)
        return self.signals.get("voltage", unknown) * self.signals.get("current", unknown)

    def table(self, robot: int = 0) -> str:
        """Return a table as text, with a row for each joint of a robot, and a column with unit for each quantity.

        Args:
            robot: Row of the robot in the arrays.

        Examples:
            >>> motors = actuon.Motors(actuon.assets.arm_yaml, ["joint1", "joint2"])
            >>> _ = motors.step(np.zeros(2), np.zeros(2), target=0.1, dt=0.002)
            >>> motors.telemetry().table().splitlines()[1].split()
            ['joint1', '0', '60', '60', '0']
        """
        shown = {"velocity": self.velocity, "computed_effort": self.computed_effort}
        shown |= {"applied_effort": self.applied_effort, "mechanical_power": self.mechanical_power}
        if {"voltage", "current"} <= self.signals.keys():
            shown["electrical_power"] = self.electrical_power
        shown |= self.signals
        columns = [("joint", *self.dof_names), ("limited by", *self.limited_by[robot])]
        for name, values in shown.items():
            unit = f" [{UNITS[name]}]" if name in UNITS else ""
            numbers = ("" if np.isnan(value) else f"{value:.4g}" for value in values[robot])
            columns.append((f"{name.replace('_', ' ')}{unit}", *numbers))
        widths = [max(map(len, column)) for column in columns]
        rows = zip(*columns, strict=True)
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def make_telemetry(
    chains: ChainSet,
    velocity: np.ndarray,
    computed: np.ndarray,
    applied: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray] | None,
) -> Telemetry:
    """Return telemetry from the arrays of actuators.

    Args:
        chains: The actuators.
        velocity: Joint velocities at the actuator step [rad/s or m/s], shape (N, D).
        computed: Requested efforts [N·m or N], shape (N, D).
        applied: Applied efforts [N·m or N], shape (N, D).
        bounds: Lowest and highest effort of the engine, each of shape (N, D). None: no limit.
    """
    signals = {name: array.numpy().copy() for name, array in chains.signals.items() if name not in IMPLICIT_SIGNALS}
    with np.errstate(invalid="ignore"):  # infinity less infinity, which is told elsewhere
        differs = np.abs(computed - applied) > CLIPPED * np.abs(computed)
    clipped = differs.copy()
    limited_by = np.full(applied.shape, "", dtype=object)
    positions = signals.pop(LIMITED_BY, None)
    for actuator, at in zip(chains.actuators, chains.places, strict=True):
        if LIMITED_BY in actuator.control_signal_attrs and positions is not None:
            numbers = positions.reshape(-1)[at]
            for position, stage in enumerate(actuator.stages):
                limited_by.reshape(-1)[at[numbers == position]] = type(stage).__name__
        elif any(stage.stage().limits for stage in actuator.stages):
            continue
        clipped.reshape(-1)[at] = limited_by.reshape(-1)[at] != ""
    if bounds is not None:
        by_engine = differs & ((applied <= bounds[0]) | (applied >= bounds[1]))
        limited_by[by_engine], clipped[by_engine] = ENGINE, True
    return Telemetry(list(chains.dof_names), velocity, computed, applied, clipped, limited_by, signals)


def trip_log(chains: ChainSet, robots: Sequence[str] | None) -> TripLog | None:
    """Return a log of motors that trip; None if no motor can.

    Args:
        chains: The chains.
        robots: Name of each robot. None if there is only one.
    """
    tripped = chains.signals.get(TRIPPED)
    if tripped is None:
        return None
    return TripLog(chains.dof_names, robots, tripped, chains.signals.get("temperature"))


class TripLog:
    """Log of motors that trip: each is reported once, with joint, robot, time and temperature.

    Args:
        joint_names: Names of the joints, in order.
        robots: Name of each robot. None if there is only one.
        tripped: Above zero for motors that have tripped, shape (N, D).
        temperature: Temperatures of the windings [°C], shape (N, D).
    """

    def __init__(
        self, joint_names: Sequence[str], robots: Sequence[str] | None, tripped: wp.array, temperature: wp.array | None
    ):
        self._joint_names, self._robots = joint_names, robots
        self._tripped, self._temperature = tripped, temperature
        self._said = np.zeros(tripped.shape, np.int64)
        self._step = np.full(tripped.shape, -1, np.int64)
        self._step_temperature = np.zeros(tripped.shape, np.float32)

    def for_program(self) -> Trips:
        """Return the arrays that compiled code fills at each step, for `report`."""
        temperature = None if self._temperature is None else self._temperature.numpy()
        return Trips(self._tripped.numpy(), temperature, self._said, self._step, self._step_temperature)

    def look(self, time: float | None = None) -> None:
        """Report motors that have tripped since the last call.

        Args:
            time: Simulated time [s], if known.
        """
        flags = self._tripped.numpy() > 0.0
        new = flags & (self._said == 0)
        self._said[...] = flags  # one that was reset is reported again
        if np.count_nonzero(new):
            self._say(new, time, None if self._temperature is None else self._temperature.numpy())

    def forget(self) -> None:
        """Do not report motors that have tripped until now."""
        self._said[...] = self._tripped.numpy() > 0.0
        self._step[...] = -1

    def report(self, begin: float, dt: float) -> None:
        """Report motors that tripped in a run of steps of ``dt`` [s] that began at ``begin`` [s]."""
        if self._step.max() < 0:
            return
        temperatures = None if self._temperature is None else self._step_temperature
        for step in np.unique(self._step[self._step >= 0]).tolist():
            self._say(self._step == step, begin + step * dt, temperatures)
        self._step[...] = -1

    def _say(self, new: np.ndarray, time: float | None, temperatures: np.ndarray | None) -> None:
        for column in np.flatnonzero(new.any(axis=0)):
            (rows,) = np.nonzero(new[:, column])
            _log.warning(
                "%sthe motor of joint '%s'%s%s has tripped%s; it delivers no effort until it is reset",
                "" if time is None else f"t = {time:.6g} s: ",
                self._joint_names[int(column)],
                "" if self._robots is None else f" of {self._robots[int(rows[0])]}",
                f", and of {len(rows) - 1} more" if len(rows) > 1 else "",
                "" if temperatures is None else f" at {temperatures[rows[0], column]:.4g} °C",
            )
