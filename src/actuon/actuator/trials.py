# SPDX-License-Identifier: Apache-2.0
"""Trials of one actuator on arrays, under prescribed motions and efforts: the values of plots.

The actuator itself is stepped, so trials work for any stages.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ..components.component import Placement
from ..components.controllers.pd import PDControlConfig
from ..components.kinds import Transmission
from ..components.transmissions.coupled import TransmissionCoupled
from ..declare.config import Config
from ..declare.registry import ComponentKind, class_of
from ..errors import Option, ParameterError, StructureError
from .actuator import Actuator
from .config import ActuatorConfig, Part, built, part_kind

UNLIMITED = 1e7
"""Efforts above this [N·m or N] count as unlimited."""
LONGEST_DT = 0.1
"""Longest time step of a controller [s]: a frequency response needs several steps per period."""
_HUGE = 1e9
_REQUESTS = np.concatenate(
    [sign * np.append(np.geomspace(1e-2, 1e6, 17), _HUGE) for sign in (-1.0, 1.0)] + [np.zeros(1)]
)
"""Efforts requested at each speed [N·m or N]."""
_SETTLE = (60, 1e-3)
"""Number and length [s] of the steps at constant speed, until filters have settled."""
_INSTANT = 1e-6
"""Time step [s] at which settled values are read."""
_COMPUTED = "computed_effort"


@dataclass(frozen=True)
class Conditions:
    """Conditions of trials."""

    inertia: float = 0.1
    """Inertia of the load at the joint [kg·m² or kg], without the motor's."""
    dt: float = 0.002
    """Time step of the controller [s]."""
    position: float = 0.0
    """Position of the joint [rad or m]."""
    step: float = 0.1
    """Height of a step, and amplitude of a sine [rad or m]."""
    effort: float | None = None
    """Requested effort of a duty cycle [N·m or N]. None: the largest at rest."""
    duty: float = 0.5
    """Fraction of the period with that effort."""
    period: float | None = None
    """Period of the duty cycle [s]. None: 1/30 of ``seconds``."""
    seconds: float | None = None
    """Length of a trial [s]. None: from the motor's time constants."""
    damping: float = 0.0
    """Viscous damping of the joint [N·m·s/rad or N·s/m], without the motor's."""

    def check(self) -> None:
        """Raise an error for values that are not allowed.

        Raises:
            ParameterError: A value is out of range.
        """
        for name, unit in (("inertia", "kg·m² or kg"), ("dt", "s"), ("period", "s"), ("seconds", "s")):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < math.inf:
                raise ParameterError(f"got {value:g}; must be finite and > 0 [{unit}]", option=_option(name))
        for name in ("position", "step", "effort"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ParameterError(f"got {value:g}; must be finite", option=_option(name))
        if self.step == 0.0:
            raise ParameterError("got 0; must not be 0 [rad or m]", option=_option("step"))
        if not 0.0 <= self.duty <= 1.0:
            raise ParameterError(f"got {self.duty:g}; must be ≥ 0 and ≤ 1", option=_option("duty"))
        if self.dt > LONGEST_DT:
            raise ParameterError(f"got {self.dt:g}; must be ≤ {LONGEST_DT:g} [s]", option=_option("dt"))


def _option(name: str) -> Option:
    return Option(name, f"--{name}")


class Trial:
    """An actuator at ``count`` DOFs. Arrays are of shape (count,).

    Args:
        config: The actuator.
        count: Number of DOFs.
        conditions: Conditions; their inertia is the default of friction stages without one.
        motor_only: Remove sensors, delay and controller, and prescribe the requested effort. A controller with signals,
            such as a servo, is part of the motor: it stays, and gets that effort as position error.
    """

    def __init__(self, config: ActuatorConfig, count: int, conditions: Conditions, motor_only: bool):
        if is_coupled(config):
            raise StructureError("its joints are coupled: the available effort of one depends on the others")
        parts: list[Part] = list(config.stages)
        self._offset = 0.0
        if motor_only:
            parts = [part for part in parts if part_kind(part) not in (ComponentKind.SENSOR, ComponentKind.DELAY)]
            for i, part in enumerate(parts):
                if part_kind(part) is ComponentKind.CONTROLLER:
                    if _class_of(part).OUTPUTS:
                        self._offset = 1.0
                    else:
                        parts[i] = PDControlConfig(0.0, 0.0)
        parts, self.inertia = _with_inertia(parts, conditions.inertia)
        """Inertia at the joint, the motor's rotor included [kg·m² or kg]."""
        self.actuator = Actuator(
            range(count),
            stages=parts,
            control_computed_output_attr=_COMPUTED,
            control_signal_attrs=lambda name: name,
            accumulate=False,
            control_every=1 if motor_only else config.control_every,
        )
        self._position, self._damping = conditions.position, conditions.damping
        names = ["joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act", "joint_f", _COMPUTED]
        names += [*self.actuator.control_signal_attrs, *self.actuator.custom_inputs]
        self._arrays = {name: np.zeros(count, np.float32) for name in names}
        self._state = self.actuator.state()

    def step(self, q: np.ndarray, qd: np.ndarray, requested: np.ndarray | float, dt: float) -> np.ndarray:
        """Step with a requested effort, and return the effort [N·m or N] at these positions and velocities."""
        self._arrays["joint_act"][:] = requested
        return self.follow(q, qd, q + self._offset * requested, dt)

    def follow(self, q: np.ndarray, qd: np.ndarray, target: np.ndarray | float, dt: float) -> np.ndarray:
        """Step towards a target position, and return the effort [N·m or N] at these positions and velocities."""
        for name, values in (("joint_q", q), ("joint_qd", qd), ("joint_target_q", target)):
            self._arrays[name][:] = values
        self.actuator.step(self._arrays, self._arrays, self._state, self._state, dt)
        return self._arrays["joint_f"].astype(np.float64)

    def hold(self, speeds: np.ndarray, requested: np.ndarray | float) -> np.ndarray:
        """Return the settled effort [N·m or N] at constant speeds, at the position of the conditions."""
        steps, dt = _SETTLE
        for i in range(steps, 0, -1):
            self.step(self._position - i * dt * speeds, speeds, requested, dt)
        return self.step(np.full_like(speeds, self._position), speeds, requested, _INSTANT)

    def move(self, target: Callable[[float], np.ndarray | float], steps: int, dt: float) -> tuple[np.ndarray, ...]:
        """Return positions and efforts of free joints that follow ``target(time)``, each of shape (steps, count).

        The effort is constant over a step, so the motion of an undamped inertia is exact. Damping is implicit.
        """
        count = self.actuator.num_actuators
        q, qd = np.full(count, self._position), np.zeros(count)
        positions, efforts = np.empty((steps, count)), np.empty((steps, count))
        with np.errstate(over="ignore", invalid="ignore"):
            for i in range(steps):
                effort = self.follow(q, qd, self._position + target(i * dt), dt)
                positions[i], efforts[i] = q, effort
                before = qd
                qd = (qd + effort / self.inertia * dt) / (1.0 + self._damping / self.inertia * dt)
                q = q + 0.5 * (before + qd) * dt
        return positions - self._position, efforts

    def signal(self, name: str) -> np.ndarray | None:
        """Return a stage's signal of the last step; None if there is no such signal."""
        values = self._arrays.get(name) if name in (_COMPUTED, *self.actuator.control_signal_attrs) else None
        return None if values is None else values.astype(np.float64)


def is_coupled(config: ActuatorConfig) -> bool:
    """Return whether the joint's motors also move other joints."""
    return any(_class_of(part) is TransmissionCoupled for part in config.stages)


def _class_of(part: Part) -> Any:
    return class_of(part) if isinstance(part, Config) else type(part)


def _with_inertia(parts: list[Part], load: float) -> tuple[list[Part], float]:
    """Set the unset inertias of parts; return the parts and the total inertia at the joint.

    At a part, that inertia is divided by the square of the ratio before it."""
    transmissions = {i: built(part) for i, part in enumerate(parts) if part_kind(part) is ComponentKind.TRANSMISSION}
    placement = Placement(wp.get_device("cpu"), 1, losses_in_engine=True)
    gears = {i: part.bound(placement) for i, part in transmissions.items() if isinstance(part, Transmission)}
    inertia = load
    for gear in gears.values():
        armature = gear.engine_armature()
        inertia += 0.0 if armature is None else float(armature[0])
    filled: list[Part] = []
    ratio = 1.0
    for i, part in enumerate(parts):
        if isinstance(part, Config) and "inertia" in part.declared() and getattr(part, "inertia", 0.0) is None:
            part = dataclasses.replace(part, inertia=inertia / ratio**2)  # type: ignore[call-arg]
        constant = gears[i].constant_ratio() if i in gears else None
        ratio *= 1.0 if constant is None else abs(float(constant[0]))
        filled.append(part)
    return filled, inertia


@dataclass(frozen=True)
class Envelope:
    """Lowest and highest effort of an actuator at each speed [N·m or N], shape (K,)."""

    velocity: np.ndarray
    least: np.ndarray
    most: np.ndarray
    motor: Envelope | None = None
    """Envelope at the motor, if there is a transmission."""

    @property
    def is_limited(self) -> bool:
        """Whether there is a largest effort."""
        return bool(np.abs([self.least, self.most]).max() < UNLIMITED)


def envelope(config: ActuatorConfig, speeds: np.ndarray, conditions: Conditions | None = None) -> Envelope:
    """Return the lowest and highest effort of an actuator at ``speeds`` [rad/s or m/s]."""
    shape = (len(_REQUESTS), len(speeds))
    trial = Trial(config, shape[0] * shape[1], conditions or Conditions(), motor_only=True)
    applied = trial.hold(np.tile(speeds, shape[0]), np.repeat(_REQUESTS, shape[1])).reshape(shape)
    motor = None
    velocities, efforts = trial.signal("motor_velocity"), trial.signal("motor_effort")
    if velocities is not None and efforts is not None:
        efforts = efforts.reshape(shape)
        motor = Envelope(velocities.reshape(shape)[0], efforts.min(axis=0), efforts.max(axis=0))
    return Envelope(speeds, applied.min(axis=0), applied.max(axis=0), motor)


def speed_range(config: ActuatorConfig, conditions: Conditions | None = None) -> float:
    """Return the speed [rad/s or m/s] above which an actuator cannot drive, or above which its effort is constant."""
    speeds = np.geomspace(1e-2, 1e5, 141)
    most = envelope(config, speeds, conditions).most
    if most[0] >= UNLIMITED:
        return 10.0
    driving = np.flatnonzero(most > 1e-3 * most[0])
    if driving.size and driving[-1] < len(speeds) - 1:
        return float(speeds[driving[-1] + 1])
    changing = np.flatnonzero(np.abs(np.diff(most)) > 1e-3 * abs(most[0]))
    return float(speeds[changing[-1] + 1]) if changing.size and changing[-1] < len(speeds) - 2 else 10.0


def at_rest(config: ActuatorConfig, conditions: Conditions) -> float | None:
    """Return the largest effort at rest [N·m or N]; None if it is unlimited."""
    most = float(envelope(config, np.zeros(1), conditions).most[0])
    return most if most < UNLIMITED else None


def step_response(config: ActuatorConfig, conditions: Conditions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return time [s], position relative to the start [rad or m], and effort [N·m or N], shape (T,).

    The target steps at time 0, after it was constant.
    """
    dt, seconds = conditions.dt, conditions.seconds or 1.0
    trial = Trial(config, 1, conditions, motor_only=False)
    before = max(1, round(0.1 * seconds / dt))
    steps = before + max(2, round(seconds / dt))
    position, effort = trial.move(lambda time: conditions.step * (time > (before - 0.5) * dt), steps, dt)
    return dt * (np.arange(steps) - before), position[:, 0], effort[:, 0]


def frequencies(conditions: Conditions) -> np.ndarray:
    """Return the frequencies at which responses are measured [Hz], shape (F,)."""
    return np.geomspace(0.5, min(100.0, 0.2 / conditions.dt), 49)


_SEEN = 1e-3
"""Smallest amplitude of a motion that counts, relative to that of the target."""


def frequency_response(config: ActuatorConfig, conditions: Conditions, at: np.ndarray) -> np.ndarray:
    """Return the ratio of position to target position, complex [1], at frequencies ``at`` [Hz], shape (F,).

    NaN if it diverges, or if a free oscillation exceeds the response, as without damping.
    """
    trial = Trial(config, len(at), conditions, motor_only=False)
    omega, dt = 2 * np.pi * at, conditions.dt
    steps = _steps_for(at, dt)
    position, _ = trial.move(lambda time: conditions.step * np.sin(omega * time), steps, dt)
    found = _fitted(position, omega, dt) / conditions.step
    half = position[len(position) // 2 :] / conditions.step
    with np.errstate(invalid="ignore", over="ignore"):
        alternating = np.sqrt(2.0) * np.std(half, axis=0)
        free = np.sqrt(np.maximum(alternating**2 - np.abs(found) ** 2, 0.0))
        return np.where(free > np.maximum(np.abs(found), _SEEN), np.nan, found)


def effort_response(config: ActuatorConfig, conditions: Conditions, at: np.ndarray) -> np.ndarray:
    """Return the ratio of applied to requested effort, complex [1], at frequencies ``at`` [Hz], shape (F,).

    The joint is at rest, and the amplitude is a tenth of the largest effort."""
    amplitude = 0.1 * (at_rest(config, conditions) or 10.0)
    trial = Trial(config, len(at), conditions, motor_only=True)
    omega, dt = 2 * np.pi * at, conditions.dt
    still = np.zeros(len(at))
    place = still + conditions.position
    applied = np.empty((_steps_for(at, dt), len(at)))
    for i in range(len(applied)):
        applied[i] = trial.step(place, still, amplitude * np.sin(omega * i * dt), dt)
    return _fitted(applied, omega, dt) / amplitude


def _steps_for(at: np.ndarray, dt: float) -> int:
    return round((1.0 + 4.0 / at.min()) / dt)


def _fitted(series: np.ndarray, omega: np.ndarray, dt: float) -> np.ndarray:
    """Return the complex amplitude of the sine in the second half of each series, shape (F,)."""
    time = dt * np.arange(len(series))
    half = slice(len(series) // 2, None)
    found = []
    for values, w in zip(series.T, omega, strict=True):
        if not np.isfinite(values).all():
            found.append(np.nan + 0j)
            continue
        basis = np.stack([np.sin(w * time[half]), np.cos(w * time[half]), np.ones_like(time[half])], axis=1)
        sine, cosine, _ = np.linalg.lstsq(basis, values[half], rcond=None)[0]
        found.append(sine + 1j * cosine)
    return np.array(found)


def friction(config: ActuatorConfig, speeds: np.ndarray, conditions: Conditions, requested: float = 0.0) -> np.ndarray:
    """Return the effort lost to friction at constant ``speeds`` [rad/s or m/s], shape (K,) [N·m or N].

    It is the requested minus the applied effort; NaN if a limit is active.
    """
    trial = Trial(config, len(speeds), conditions, motor_only=True)
    applied, computed = trial.hold(speeds, requested), trial.signal(_COMPUTED)
    assert computed is not None
    limited = trial.signal("limited_by")
    return np.where(np.zeros(len(speeds)) if limited is None else limited >= 0.0, np.nan, computed - applied)


@dataclass(frozen=True)
class Heat:
    """Temperatures of a motor at rest over a duty cycle, each of shape (T,)."""

    time: np.ndarray
    temperature: np.ndarray
    """Temperature of the winding [°C]."""
    housing: np.ndarray | None
    """Temperature of the housing [°C]."""
    effort: np.ndarray
    """Applied effort [N·m or N]."""
    requested: np.ndarray
    """Requested effort [N·m or N]."""


def heat(config: ActuatorConfig, conditions: Conditions) -> Heat | None:
    """Return temperatures over a duty cycle; None if no stage has a temperature."""
    trial = Trial(config, 1, conditions, motor_only=True)
    if trial.signal("temperature") is None:
        return None
    most = conditions.effort if conditions.effort is not None else at_rest(config, conditions) or 1.0
    seconds = conditions.seconds or 4.0 * max(_time_constants(config), default=150.0)
    period = conditions.period or seconds / 30.0
    dt = min(period / 40.0, seconds / 400.0)
    steps = round(seconds / dt)
    time = dt * np.arange(steps)
    requested = np.where(time % period < conditions.duty * period, most, 0.0)
    still, place = np.zeros(1), np.full(1, conditions.position)
    rows = []
    for request in requested:
        effort = trial.step(place, still, request, dt)
        rows.append([effort, trial.signal("temperature"), trial.signal("housing_temperature")])
    housing = None if rows[0][2] is None else np.ravel([row[2] for row in rows])
    return Heat(time, np.ravel([row[1] for row in rows]), housing, np.ravel([row[0] for row in rows]), requested)


def _time_constants(config: ActuatorConfig) -> list[float]:
    """Return the time constants of stages that have a temperature [s]."""
    found = []
    for part in config.stages:
        if isinstance(part, Config) and "temperature" in _class_of(part).OUTPUTS:
            found += [getattr(part, name) for name, declared in part.declared().items() if declared.unit == "s"]
    return found
