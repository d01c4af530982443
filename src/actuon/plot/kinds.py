# SPDX-License-Identifier: Apache-2.0
"""The kinds of pictures of actuators: what each measures, and how it is drawn."""

from __future__ import annotations

import abc
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
from actuon.logs.records import Record


@dataclass(frozen=True)
class Subject:
    """An actuator to draw."""

    source: str
    """The file, or the name of the motor."""
    name: str
    """Of the entry in the file."""
    actuator: ActuatorConfig
    slides: bool = False
    joints: tuple[str, ...] = ()
    """Names of its joints, or regular expressions; none: any."""

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
        """Unit of what it moves."""
        return "kg" if self.slides else "kg·m²"


class Kind(abc.ABC):
    """A kind of picture: ``rows`` of axes for each subject, or for several subjects that are compared."""

    title: ClassVar[str]
    nothing: ClassVar[str]
    """Why there is nothing to draw, where `measure` gives None."""
    blank: ClassVar[str] = ""
    """What to write where a subject has nothing to show in one of its axes."""

    def __init__(self, conditions: Conditions, records: list[Record]):
        self.conditions, self.records = conditions, records

    @abc.abstractmethod
    def measure(self, subject: Subject) -> Any:
        """What is drawn of a subject; None where that is nothing."""

    @abc.abstractmethod
    def rows(self, measured: list[Any]) -> int:
        """How many axes what was measured needs."""

    @abc.abstractmethod
    def draw(self, axes: list[Any], subject: Subject, measured: Any, colour: str, label: str) -> None:
        """Draw a subject."""


class EnvelopeKind(Kind):
    """What an actuator can give at which speed, at the joint and at the motor, and what it gave in records."""

    title = "torque-speed envelope"
    nothing = "no stage limits the effort"
    blank = "no transmission"

    def measure(self, subject: Subject) -> Envelope | None:
        runs = [run for record in self.records for run in record.planes(subject.joints)]
        width = 1.15 * speed_range(subject.actuator, self.conditions)
        fastest = max((float(np.abs(run.velocity).max()) for run in runs), default=0.0)
        width = min(max(width, 1.1 * fastest), 3.0 * width)  # a run that diverged is not shown to its end
        found = envelope(subject.actuator, np.linspace(-width, width, 401), self.conditions)
        return found if found.is_limited else None

    def rows(self, measured: list[Envelope]) -> int:
        return 2 if any(found.motor is not None for found in measured) else 1

    def draw(self, axes: list[Any], subject: Subject, measured: Envelope, colour: str, label: str) -> None:
        sides = [(measured, subject.length, subject.force, ""), (measured.motor, "rad", "N·m", "motor ")]
        for axis, (side, length, force, of) in zip(axes, sides, strict=False):
            if side is None:
                continue
            axis.fill_between(side.velocity, side.least, side.most, color=colour, alpha=0.15)
            for values, text in ((side.least, None), (side.most, label)):
                axis.plot(side.velocity, values, color=colour, linewidth=1, label=text)
            axis.axhline(0.0, color="0.5", linewidth=0.5)
            axis.axvline(0.0, color="0.5", linewidth=0.5)
            label_axes(axis, f"{of}velocity [{length}/s]", f"{of}effort [{force}]")
        for number, record in enumerate(self.records):
            for run in record.planes(subject.joints):
                spots = {"markersize": 2, "color": f"C{number + 6}", "label": record.title}
                seen = np.abs(run.velocity) <= measured.velocity[-1]
                axes[0].plot(run.velocity[seen], run.effort[seen], ".", **spots)
                if measured.motor is not None and run.motor_velocity is not None and run.motor_effort is not None:
                    axes[1].plot(run.motor_velocity[seen], run.motor_effort[seen], ".", **spots)


class StepKind(Kind):
    """Position and effort after a step of the target."""

    title = "step response"
    nothing = "its controller follows no target position"

    def measure(self, subject: Subject) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        time, position, effort = step_response(subject.actuator, self.conditions)
        return (time, position, effort) if np.any(effort != 0.0) else None

    def rows(self, measured: list[Any]) -> int:
        return 2

    def draw(self, axes: list[Any], subject: Subject, measured: Any, colour: str, label: str) -> None:
        time, position, effort = measured
        height = self.conditions.step
        sane = np.cumsum(~(np.abs(position) < 4.0 * abs(height))) == 0
        if not sane.all():
            label = f"{label} (does not settle)".strip()
        axes[0].axhline(height, color="0.6", linewidth=1)
        axes[0].plot(time[sane], position[sane], color=colour, label=label)
        axes[1].plot(time[sane], effort[sane], color=colour)
        moved = f"load {self.conditions.inertia:g} {subject.mass}, {1000 * self.conditions.dt:g} ms"
        label_axes(axes[0], f"time [s] ({moved})", f"position [{subject.length}]")
        label_axes(axes[1], "time [s]", f"effort [{subject.force}]")


class FrequencyKind(Kind):
    """Position by target, of a joint with a load, and effort by wanted effort, of a joint at rest."""

    title = "frequency response"
    nothing = "its controller follows no target position, and nothing delays its effort"

    def measure(self, subject: Subject) -> Any:
        at = frequencies(self.conditions)
        position = frequency_response(subject.actuator, self.conditions, at)
        effort = effort_response(subject.actuator, self.conditions, at)
        gain, phase = np.abs(effort), np.degrees(np.angle(effort))
        follows = bool(np.any(position != 0.0))
        is_late = np.ptp(gain) > 0.05 * gain.max() or np.abs(phase).max() > 2.0  # friction alone only takes a share
        return (at, position if follows else None, effort if is_late else None) if follows or is_late else None

    def rows(self, measured: list[Any]) -> int:
        return 4 if any(effort is not None for _, _, effort in measured) else 2

    def draw(self, axes: list[Any], subject: Subject, measured: Any, colour: str, label: str) -> None:
        at, position, effort = measured
        moved = f"load {self.conditions.inertia:g} {subject.mass}, amplitude {self.conditions.step:g} {subject.length}"
        for pair, response, of in ((axes[:2], position, "position"), (axes[2:], effort, "effort")):
            if response is None or not pair:
                continue
            known = np.isfinite(response)
            text = label if known.all() else f"{label} (does not settle)".strip()
            with np.errstate(divide="ignore"):
                pair[0].semilogx(at[known], 20.0 * np.log10(np.abs(response[known])), color=colour, label=text)
            pair[1].semilogx(at[known], np.degrees(np.unwrap(np.angle(response[known]))), color=colour)
            for axis in pair:
                axis.set_xlim(at[0], at[-1])
            pair[0].axhline(-3.0, color="0.6", linewidth=0.5)
            label_axes(pair[0], f"frequency [Hz] ({moved if of == 'position' else 'at rest'})", f"gain of {of} [dB]")
            label_axes(pair[1], "frequency [Hz]", f"phase of {of} [°]")


class FrictionKind(Kind):
    """Effort that is lost at each speed, without and with an effort of the motor."""

    title = "friction over speed"
    nothing = "no stage loses effort"

    def measure(self, subject: Subject) -> Any:
        most = at_rest(subject.actuator, self.conditions)
        width = speed_range(subject.actuator, self.conditions)
        speeds = np.linspace(-width, width, 402)
        lost = {
            wanted: friction(subject.actuator, speeds, self.conditions, wanted)
            for wanted in ([0.0] if most is None else [0.0, 0.5 * most])
        }
        known = np.concatenate([values[np.isfinite(values)] for values in lost.values()])
        has_some = known.size and np.abs(known).max() > 1e-5 * (most or 1.0)
        return (speeds, lost) if has_some else None

    def rows(self, measured: list[Any]) -> int:
        return 1

    def draw(self, axes: list[Any], subject: Subject, measured: Any, colour: str, label: str) -> None:
        speeds, lost = measured
        for (wanted, values), style in zip(lost.items(), ("-", "--"), strict=False):
            text = f"{label}{label and ', '}motor effort {wanted:.3g} {subject.force}"
            axes[0].plot(speeds, values, style, color=colour, linewidth=1, label=text)
        label_axes(axes[0], f"velocity [{subject.length}/s]", f"lost effort [{subject.force}]")


class HeatKind(Kind):
    """Temperatures of a motor that is held at rest, over a duty cycle, and what derating leaves of its effort."""

    title = "heat over a duty cycle"
    nothing = "no stage has a temperature"

    def measure(self, subject: Subject) -> Heat | None:
        return heat(subject.actuator, self.conditions)

    def rows(self, measured: list[Any]) -> int:
        return 2

    def draw(self, axes: list[Any], subject: Subject, measured: Heat, colour: str, label: str) -> None:
        axes[0].plot(measured.time, measured.temperature, color=colour, linewidth=1, label=f"{label} winding".strip())
        if measured.housing is not None:
            axes[0].plot(measured.time, measured.housing, "--", color=colour, label=f"{label} housing".strip())
        axes[1].plot(measured.time, measured.wanted, color="0.7", linewidth=0.8)
        axes[1].plot(measured.time, measured.effort, color=colour, linewidth=0.8)
        duty = f"{100 * self.conditions.duty:g} % of the time {measured.wanted.max():.3g} {subject.force}"
        label_axes(axes[0], f"time [s] ({duty})", "temperature [°C]")
        label_axes(axes[1], "time [s]", f"effort [{subject.force}]")


KINDS: dict[str, type[Kind]] = {
    "envelope": EnvelopeKind,
    "step": StepKind,
    "frequency": FrequencyKind,
    "friction": FrictionKind,
    "heat": HeatKind,
}
"""By what people call them."""


def label_axes(axis: Any, horizontal: str, vertical: str) -> None:
    """Say what is drawn, in small letters."""
    axis.set_xlabel(horizontal, fontsize=8)
    axis.set_ylabel(vertical, fontsize=8)
    axis.tick_params(labelsize=7)
    axis.grid(alpha=0.3)
