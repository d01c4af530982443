# SPDX-License-Identifier: Apache-2.0
"""Kinds of charts of actuators: the measurement and the charts of each."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from actuon.actuator.config import ActuatorConfig
from actuon.actuator.trials import (
    Conditions,
    Envelope,
    Heat,
    at_rest,
    effort_response,
    envelope,
    frequencies,
    frequency_response,
    friction,
    heat,
    speed_range,
    step_response,
)
from actuon.charts import GREY, ORANGE, RED, Chart, Mark, Point, Series, area, dashed, dots, line, palette
from actuon.logs.records import Record
from actuon.motors.datasheet import MotorDatasheet

_AXES = (Mark("x", 0.0), Mark("y", 0.0))
DEFAULT_INERTIA = 0.1
"""Inertia of the load of an actuator without a robot [kg·m² or kg]."""


@dataclass(frozen=True)
class Subject:
    """An actuator to draw."""

    source: str
    """File, or name of the motor."""
    name: str
    """Name of the entry in the file."""
    actuator: ActuatorConfig
    slides: bool = False
    joints: tuple[str, ...] = ()
    """Names of its joints, or regular expressions; none: any."""
    inertia: float | None = None
    """Inertia of its joint in the robot [kg·m² or kg]; None without a robot."""
    damping: float = 0.0
    """Viscous damping of its joint in the robot [N·m·s/rad or N·s/m]."""
    datasheet: MotorDatasheet | None = None
    """Printed values of a motor of the catalogue."""

    @property
    def length(self) -> str:
        """Unit of its position."""
        return "m" if self.slides else "rad"

    @property
    def force(self) -> str:
        """Unit of its effort."""
        return "N" if self.slides else "N·m"

    @property
    def mass(self) -> str:
        """Unit of its load."""
        return "kg" if self.slides else "kg·m²"


@dataclass(frozen=True)
class PlotConditions:
    """Conditions of the trials, with inertia and damping of each robot's own joints unless an inertia is given."""

    trial: Conditions = dataclasses.field(default_factory=Conditions)
    inertia: float | None = None

    def check(self) -> None:
        """Raise an error, by the name of the option, if a condition is out of range."""
        (self.trial if self.inertia is None else dataclasses.replace(self.trial, inertia=self.inertia)).check()

    def of(self, subject: Subject) -> Conditions:
        """Return the conditions of an actuator."""
        if self.inertia is not None or subject.inertia is None:
            return dataclasses.replace(self.trial, inertia=DEFAULT_INERTIA if self.inertia is None else self.inertia)
        return dataclasses.replace(self.trial, inertia=subject.inertia, damping=subject.damping)


Measured = Sequence[tuple[Subject, Any]]


class Kind(abc.ABC):
    """A kind of charts: some for each subject, or for several subjects that are compared."""

    title: ClassVar[str]
    nothing: ClassVar[str]
    """Reason if `measure` returns None."""

    def __init__(self, conditions: PlotConditions, records: Sequence[Record]):
        self.conditions, self.records = conditions, records

    @abc.abstractmethod
    def measure(self, subject: Subject) -> Any:
        """Return the measurement of a subject; None if there is nothing to draw."""

    @abc.abstractmethod
    def charts(self, compared: Measured) -> list[Chart]:
        """Return charts of one subject, or of several in different colours."""

    def _labelled(self, compared: Measured) -> list[tuple[Subject, Any, str, str]]:
        """Return each with its label, empty for a single one, and its colour."""
        colours = palette(len(compared))
        several = len(compared) > 1
        return [
            (subject, measured, subject.source if several else "", colour)
            for (subject, measured), colour in zip(compared, colours, strict=True)
        ]

    def _load(self, compared: Measured) -> str:
        """Return the loads in words, once if all are equal."""
        loads = [f"{self.conditions.of(subject).inertia:.3g} {subject.mass}" for subject, _ in compared]
        return f"load {', '.join(dict.fromkeys(loads))}"


class EnvelopeKind(Kind):
    """Torque-speed envelope, at the joint and at the motor, and where recordings were in it."""

    title = "torque-speed envelope"
    nothing = "no stage limits the effort"

    def measure(self, subject: Subject) -> Envelope | None:
        conditions = self.conditions.of(subject)
        runs = [run for record in self.records for run in record.planes(subject.joints)]
        width = 1.15 * speed_range(subject.actuator, conditions)
        fastest = max((float(np.abs(run.velocity).max()) for run in runs), default=0.0)
        width = min(max(width, 1.1 * fastest), 3.0 * width)  # a run that diverged is not shown to its end
        found = envelope(subject.actuator, np.linspace(-width, width, 401), conditions)
        return found if found.is_limited else None

    def charts(self, compared: Measured) -> list[Chart]:
        joint: list[Series] = []
        motor: list[Series] = []
        for subject, measured, label, colour in self._labelled(compared):
            joint.append(area(label, measured.velocity, measured.least, measured.most, colour))
            if measured.motor is not None:
                side = measured.motor
                motor.append(area(label, side.velocity, side.least, side.most, colour))
            tones = palette(len(compared) + len(self.records))[len(compared) :]
            for record, tone in zip(self.records, tones, strict=True):
                for run in record.planes(subject.joints):
                    seen = np.abs(run.velocity) <= measured.velocity[-1]
                    joint.append(dots(record.title, run.velocity[seen], run.effort[seen], tone))
                    if measured.motor is not None and run.motor_velocity is not None and run.motor_effort is not None:
                        motor.append(dots(record.title, run.motor_velocity[seen], run.motor_effort[seen], tone))
        first, found = compared[0]
        is_alone = len(compared) == 1
        speed, effort = f"{first.length}/s", first.force
        sheet = first.datasheet
        printed = {} if sheet is None else sheet.at_joint
        points = _points(found, speed, effort, printed) if is_alone else []
        sides = [Chart(f"velocity [{speed}]", f"effort [{effort}]", joint, marks=_AXES, points=points)]
        if any(measured.motor is not None for _, measured in compared):
            printed = {} if sheet is None else sheet.at_motor
            points = _points(found.motor, "rad/s", "N·m", printed) if is_alone else []
            sides.append(
                Chart("motor velocity [rad/s]", "motor effort [N·m]", motor, "motor side", _AXES, points=points)
            )
            sides[0] = dataclasses.replace(sides[0], title="joint side")
        return sides


def _points(side: Envelope, speed_unit: str, effort_unit: str, printed: Mapping[str, Any]) -> list[Point]:
    """Return names for the quadrants, the ends of the envelope, and the rated point.

    Args:
        side: The envelope, on one side of the gear.
        speed_unit: Unit of its speeds.
        effort_unit: Unit of its efforts.
        printed: Values of the data sheet on this side, in SI units.
    """
    order = np.argsort(side.velocity)
    velocity, least, most = side.velocity[order], side.least[order], side.most[order]
    at_rest = float(np.interp(0.0, velocity, most))
    width, height = float(velocity[-1]), float(np.abs([least, most]).max())
    driving = velocity >= 0.0
    speeds, efforts = velocity[driving], most[driving]
    points = [
        Point(0.2 * across * width, 0.27 * up * height, "driving" if across == up else "braking", None, "centre")
        for across in (-1, 1)
        for up in (-1, 1)
    ]
    is_flat = bool(efforts[min(len(efforts) // 20, len(efforts) - 1)] > 0.99 * at_rest)
    if np.isfinite(at_rest) and at_rest > 0.0:
        name = "peak" if is_flat else "stall"
        points.append(Point(0.0, at_rest, f"{name} {_number(at_rest)} {effort_unit}", RED, "below left"))
    beyond = np.flatnonzero(efforts <= 0.0)
    if beyond.size and beyond[0] > 0:
        last, first = beyond[0] - 1, beyond[0]
        end = float(np.interp(0.0, efforts[[first, last]], speeds[[first, last]]))
        name = "max speed" if efforts[last] > 0.5 * at_rest else "no-load"
        points.append(Point(end, 0.0, f"{name} {_number(end)} {speed_unit}", RED, "below left"))
    if "rated_torque" in printed and "rated_speed" in printed:
        speed, effort = printed["rated_speed"], printed["rated_torque"]
        label = f"rated {_number(effort)} {effort_unit}\nat {_number(speed)} {speed_unit}"
        points.append(Point(speed, effort, label, ORANGE, "left"))
    elif "rated_torque" in printed:
        effort = printed["rated_torque"]
        points.append(Point(0.0, effort, f"rated {_number(effort)} {effort_unit}", ORANGE))
    return points


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1e3 else f"{value:.3g}"


class StepKind(Kind):
    """Position and effort after a step of the target."""

    title = "step response"
    nothing = "its controller does not track target positions"

    def measure(self, subject: Subject) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        time, position, effort = step_response(subject.actuator, self.conditions.of(subject))
        return (time, position, effort) if np.any(effort != 0.0) else None

    def charts(self, compared: Measured) -> list[Chart]:
        height = self.conditions.trial.step
        positions, efforts = [], []
        for _, (time, position, effort), label, colour in self._labelled(compared):
            sane = np.cumsum(~(np.abs(position) < 4.0 * abs(height))) == 0
            text = label if sane.all() else f"{label} (does not settle)".strip()
            positions.append(line(text, time[sane], position[sane], colour, 1.5))
            efforts.append(line("", time[sane], effort[sane], colour, 1.5))
        moved = f"{self._load(compared)}, dt {1000 * self.conditions.trial.dt:g} ms"
        first = compared[0][0]
        target = (Mark("y", height, "target"),)
        return [
            Chart(f"time [s] ({moved})", f"position [{first.length}]", positions, marks=target),
            Chart("time [s]", f"effort [{first.force}]", efforts),
        ]


class FrequencyKind(Kind):
    """Position by target, of a joint with a load, and effort by requested effort, of a joint at rest."""

    title = "frequency response"
    nothing = "its controller does not track target positions, and its effort is not delayed"

    def measure(self, subject: Subject) -> Any:
        conditions = self.conditions.of(subject)
        at = frequencies(conditions)
        position = frequency_response(subject.actuator, conditions, at)
        effort = effort_response(subject.actuator, conditions, at)
        gain, phase = np.abs(effort), np.degrees(np.angle(effort))
        follows = bool(np.any(position != 0.0))
        is_late = np.ptp(gain) > 0.05 * gain.max() or np.abs(phase).max() > 2.0  # friction alone only takes a share
        return (at, position if follows else None, effort if is_late else None) if follows or is_late else None

    def charts(self, compared: Measured) -> list[Chart]:
        first = compared[0][0]
        moved = f"{self._load(compared)}, amplitude {self.conditions.trial.step:g} {first.length}"
        charts = []
        for column, of, where in ((1, "position", moved), (2, "effort", "at rest")):
            gains, phases = [], []
            for _, measured, label, colour in self._labelled(compared):
                at, response = measured[0], measured[column]
                if response is None:
                    continue
                known = np.isfinite(response)
                why = "some frequencies left out" if known.any() else "does not settle"
                text = label if known.all() else f"{label} ({why})".strip()
                with np.errstate(divide="ignore"):
                    gains.append(line(text, at[known], 20.0 * np.log10(np.abs(response[known])), colour, 1.5))
                phases.append(line("", at[known], np.degrees(np.unwrap(np.angle(response[known]))), colour, 1.5))
            if not gains and of == "effort":
                continue
            shared: dict[str, Any] = {"x_range": (float(at[0]), float(at[-1])), "x_log": True}
            half = (Mark("y", -3.0, "−3 dB"),)
            charts += [
                Chart(f"frequency [Hz] ({where})", f"gain of {of} [dB]", gains, marks=half, **shared),
                Chart("frequency [Hz]", f"phase of {of} [°]", phases, **shared),
            ]
        return charts


class FrictionKind(Kind):
    """Lost effort at each speed, without and with an effort of the motor."""

    title = "friction over speed"
    nothing = "no stage loses effort"

    def measure(self, subject: Subject) -> Any:
        conditions = self.conditions.of(subject)
        most = at_rest(subject.actuator, conditions)
        width = speed_range(subject.actuator, conditions)
        speeds = np.linspace(-width, width, 402)
        lost = {
            requested: friction(subject.actuator, speeds, conditions, requested)
            for requested in ([0.0] if most is None else [0.0, 0.5 * most])
        }
        known = np.concatenate([values[np.isfinite(values)] for values in lost.values()])
        has_some = known.size and np.abs(known).max() > 1e-5 * (most or 1.0)
        return (speeds, lost) if has_some else None

    def charts(self, compared: Measured) -> list[Chart]:
        series = []
        for subject, (speeds, lost), label, colour in self._labelled(compared):
            for (requested, values), draw in zip(lost.items(), (line, dashed), strict=False):
                text = f"{label}{label and ', '}motor effort {requested:.3g} {subject.force}"
                series.append(draw(text, speeds, values, colour))
        first = compared[0][0]
        return [Chart(f"velocity [{first.length}/s]", f"lost effort [{first.force}]", series)]


class HeatKind(Kind):
    """Temperatures of a motor at rest over a duty cycle, and its effort after derating."""

    title = "heat over a duty cycle"
    nothing = "no stage has a temperature"

    def measure(self, subject: Subject) -> Heat | None:
        return heat(subject.actuator, self.conditions.of(subject))

    def charts(self, compared: Measured) -> list[Chart]:
        temperatures, efforts = [], []
        for _, measured, label, colour in self._labelled(compared):
            temperatures.append(line(f"{label} winding".strip(), measured.time, measured.temperature, colour))
            if measured.housing is not None:
                temperatures.append(dashed(f"{label} housing".strip(), measured.time, measured.housing, colour))
            efforts.append(line("", measured.time, measured.requested, GREY, 0.8))
            efforts.append(line("", measured.time, measured.effort, colour, 0.8))
        first, one = compared[-1]
        duty = f"{100 * self.conditions.trial.duty:g} % of the time {one.requested.max():.3g} {first.force}"
        return [
            Chart(f"time [s] ({duty})", "temperature [°C]", temperatures),
            Chart("time [s]", f"effort [{first.force}]", efforts),
        ]


KINDS: dict[str, type[Kind]] = {
    "envelope": EnvelopeKind,
    "step": StepKind,
    "frequency": FrequencyKind,
    "friction": FrictionKind,
    "heat": HeatKind,
}
"""Kinds by name on the command line."""
