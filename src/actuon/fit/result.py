# SPDX-License-Identifier: Apache-2.0
"""`FitResult`: motors, parameters with intervals, errors and warnings of a fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..actuator.config import ActuatorConfig
from ..files import json_text, replacing
from ..logs import Finding
from ..robot_files.provenance import Provenance, Scaled
from ..robot_files.yaml import ActuatorEntry, save_actuators
from ..typing import PathLike
from .fleet import joint_of
from .log_names import log_names
from .model import ENCODER_OFFSET, Model, place_of
from .plants.plant import Plant, Trials
from .plants.robot import LARGEST_OFFSET
from .refine import CONFIDENCE, Varying
from .units import at_joint, in_shown, key_of, means_by_unit, only_mean, to_shown
from .verdict import Verdict, useless

if TYPE_CHECKING:
    from .select import Compared

_FAR = 0.99
"""Share of the largest encoder offset above which a warning is given."""


@dataclass(frozen=True)
class FittedParameter:
    """A fitted parameter and its confidence interval."""

    path: str
    value: float
    low: float
    """Lower end of the 95 % confidence interval."""
    high: float
    """Upper end of the interval."""
    at_bound: str = ""
    """``"low"`` or ``"high"`` at that end of the range, ``"none"`` if the value is too low to matter, else ""."""
    above: str = ""
    """Path of the parameter to which this one is added; the motor file holds the sum."""

    @property
    def note(self) -> str:
        """Short remark on the value."""
        notes = [f"more than {self.above}"] if self.above else []
        notes += [{"low": "at the low end", "high": "at the high end", "none": "no effect"}.get(self.at_bound, "")]
        return ", ".join(note for note in notes if note)


@dataclass(frozen=True)
class RunError:
    """Errors of the model of one joint in one run."""

    path: str
    joint: str
    error: float
    """Mean absolute error of the position [rad or m] if the run was among those fitted to."""
    held_out: float | None = None
    """Mean absolute error [rad or m] of a model fitted without this run; None if no run was held out."""


@dataclass(frozen=True)
class FittedJoint:
    """Fitted model of one joint."""

    name: str
    model: Model
    values: np.ndarray
    parameters: tuple[FittedParameter, ...]
    undetermined: tuple[str, ...] = ()
    """Sentences on parameters that the logs do not determine."""
    covariance: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))
    """Covariance of the values, as shares of their ranges, shape (P, P)."""

    @property
    def actuator(self) -> ActuatorConfig:
        """Actuator with the fitted values, at the settings of the model."""
        return self.model.config(self.values)

    @property
    def links(self) -> dict[str, float]:
        """Fitted and known values of the link that the joint moves, by path."""
        return self.model.links_at(self.values)

    def unit_at(self, path: str, unit: str) -> str:
        """Return the unit of a parameter, given that of the joint's position.

        Args:
            path: Path of the parameter.
            unit: Unit of the position, ``"rad"`` or ``"m"``.
        """
        return at_joint(place_of(self.model.actuator, path).declared.unit, path, unit)


@dataclass(frozen=True)
class FitResult:
    """Result of a fit.

    Examples:
        >>> time = np.arange(0.0, 1.0, 0.01)
        >>> joint = actuon.fit.JointLog("knee", 0.9 * np.sin(3.0 * time - 0.1), np.sin(3.0 * time))
        >>> log = actuon.fit.Log("run", time, (joint,), {"mass": 0.5, "length": 0.1})
        >>> options = actuon.fit.SearchOptions(starts=1, population=32, generations=20)
        >>> result = actuon.fit.fit_logs([log], "pd", options=options)
        >>> [parameter.path for parameter in result.joints[0].parameters][:3]
        ['controller.kp', 'controller.kd', 'transmission.reflected_inertia']
        >>> result.save("knee.actuon.yaml")  # with the errors and the warnings in its section fit
        >>> result.save_json("knee.json")
        >>> sorted(result.as_dict())[:3], result.unit_of("knee")
        (['converged', 'dt', 'evaluations'], 'rad')
        >>> [entry.name for entry in result.entries()]
        ['knee']
    """

    joints: tuple[FittedJoint, ...]
    """Fitted model of each joint."""
    runs: tuple[RunError, ...]
    """Errors by run and joint, in the order of the plant's runs and joints."""
    converged: bool
    """Whether the search stopped because nothing improved."""
    interrupted: bool
    """Whether the search was interrupted."""
    generations: int
    """Number of generations."""
    evaluations: int
    """Number of simulated candidates."""
    seed: int
    """Seed of the random numbers."""
    seconds: float
    """Wall-clock time of the fit [s]."""
    dt: float | None = None
    """Time step of the simulation [s]."""
    findings: tuple[Finding, ...] = ()
    """Findings in the logs."""
    verdicts: tuple[Verdict, ...] = ()
    """Verdict on the fit of each joint."""
    compared: tuple[Compared, ...] = ()
    """Compared models, if one was selected."""
    cautions: tuple[str, ...] = ()
    """Further sentences for `warnings`."""
    per_log: Varying = dataclasses.field(default_factory=dict)
    """Values of parameters with one value for each log, by log, joint and path."""
    per_robot: Varying = dataclasses.field(default_factory=dict)
    """Values of parameters with one value for each robot of a fleet, by robot, joint and path."""

    @property
    def encoder_offsets(self) -> dict[str, dict[str, float]]:
        """Encoder offsets [rad or m] by log and joint, if estimated per log."""
        return encoder_offsets(self.per_log)

    def unit_of(self, joint: str) -> str:
        """Return the unit of a joint's position, ``"rad"`` or ``"m"``."""
        return next((verdict.unit for verdict in self.verdicts if verdict.joint == joint), "rad")

    @property
    def error(self) -> float:
        """Mean absolute error of the position over joints and runs [rad, or m if all joints slide].

        Raises:
            StateError: Some joints turn and some slide; see `errors`.
        """
        return only_mean(self.errors, "'errors'")

    @property
    def errors(self) -> dict[str, float]:
        """Mean absolute errors of the joints that turn [rad] and slide [m], by this unit."""
        return means_by_unit([run.error for run in self.runs], [self.unit_of(run.joint) for run in self.runs])

    @property
    def held_out(self) -> float | None:
        """Mean absolute error of the position in held-out runs [rad, or m if all joints slide]; None without such runs.

        Raises:
            StateError: Some joints turn and some slide; see `held_out_errors`.
        """
        return only_mean(self.held_out_errors, "'held_out_errors'") if self.held_out_errors else None

    @property
    def held_out_errors(self) -> dict[str, float]:
        """Mean absolute errors in held-out runs [rad or m], by this unit; empty if no run was held out."""
        found = [run for run in self.runs if run.held_out is not None]
        errors = (run.held_out for run in found if run.held_out is not None)
        return means_by_unit(errors, [self.unit_of(run.joint) for run in found])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before using the result."""
        return tuple(self._warnings())

    @property
    def is_useless(self) -> bool:
        """Whether the fit of any joint is bad. `warnings` then begins with the reason."""
        return any(verdict.is_useless for verdict in self.verdicts)

    def _warnings(self) -> Iterator[str]:
        yield from useless(self.verdicts)
        if self.interrupted:
            yield f"the fit was interrupted after {self.generations} generations: this is the best result so far"
        elif not self.converged:
            yield f"the fit did not converge in {self.generations} generations: allow more, or free fewer parameters"
        yield from self.cautions
        yield from large_offsets(self.encoder_offsets)
        for joint in self.joints:
            for parameter in joint.parameters:
                if parameter.at_bound in ("low", "high"):
                    yield (
                        f"{joint.name}: {parameter.path} is at the {parameter.at_bound} end of its range, "
                        f"{parameter.value:.4g}: free it in a wider range, or fix it"
                    )

    def entries(self) -> list[ActuatorEntry]:
        """Return the actuators as entries of a robot's YAML, one for each joint."""
        return [ActuatorEntry(joint.name, (joint.name,), joint.actuator) for joint in self.joints]

    def save(self, path: PathLike) -> None:
        """Write the actuators as ``actuon.yaml``, with their `Provenance` in its section ``fit``."""
        save_actuators(Path(path), self.entries(), fit=self._provenance().to_yaml())

    def _provenance(self) -> Provenance:
        return Provenance(
            models={joint.name: joint.model.name for joint in self.joints},
            error=self.errors,
            held_out=self.held_out_errors,
            logs=tuple(sorted(log_names(run.path for run in self.runs).values())),
            seed=self.seed,
            dt=self.dt,
            found={joint.name: joint_of(joint.name, [self]) for joint in self.joints},
            scaled={j.name: Scaled(j.model.scaled_by, j.model.settings) for j in self.joints if j.model.scaled_by},
            links={joint.name: joint.links for joint in self.joints if joint.links},
            encoder_offsets=dict(named_offsets(self.encoder_offsets)),
            verdict={verdict.joint: {"level": verdict.level, "text": verdict.sentence()} for verdict in self.verdicts},
            warnings=self.warnings,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain data for JSON, with errors in mrad, and in mm for joints that slide."""
        held_out = self.held_out_errors
        return {
            **{
                key_of("mae", unit): {"train": in_shown(error, unit), "held_out": in_shown(held_out.get(unit), unit)}
                for unit, error in self.errors.items()
            },
            "verdict": {verdict.joint: verdict.as_dict() for verdict in self.verdicts},
            "warnings": list(self.warnings),
            "converged": self.converged,
            "interrupted": self.interrupted,
            "generations": self.generations,
            "evaluations": self.evaluations,
            "seed": self.seed,
            "seconds": self.seconds,
            "dt": self.dt,
            "joints": {joint.name: _joint_as_dict(joint, self.unit_of(joint.name)) for joint in self.joints},
            "runs": [_run_as_dict(run, self.unit_of(run.joint)) for run in self.runs],
            "models": [compared.as_dict() for compared in self.compared],
            "findings": list(self.findings),
            **offsets_as_dict(self.encoder_offsets, self.unit_of),
            **({"robots": self.per_robot} if self.per_robot else {}),
        }

    def trials(self, plant: Plant) -> Trials:
        """Return the result as one candidate in the runs of a plant, the fitted or other ones."""
        found = []
        for joint in self.joints:
            parameters = (*joint.model.parameters, *plant.log_parameters)
            starts = [parameter.start for parameter in plant.log_parameters]
            values = np.tile(np.array([*joint.values, *starts], float), (len(plant.runs), 1))
            for parts, named in ((plant.parts("log"), self.per_log), (plant.parts("robot"), self.per_robot)):
                for run, part in enumerate(parts.of_run):
                    numbers = named.get(parts.names[part], {}).get(joint.name, {})
                    for i, parameter in enumerate(parameters):
                        values[run, i] = numbers.get(parameter.path, values[run, i])
            found.append((dataclasses.replace(joint.model, parameters=parameters), values[None]))
        models, candidates = zip(*found, strict=True)
        return plant.trials(models, candidates)

    def save_json(self, path: PathLike) -> None:
        """Write `as_dict` as JSON."""
        with replacing(Path(path)) as partial:
            partial.write_text(json_text(self.as_dict()) + "\n", encoding="utf-8")

    def with_held_out(self, errors: np.ndarray, compared: tuple[Compared, ...]) -> FitResult:
        """Return the result with errors on held-out runs [rad or m], shape (R, J), and the compared models."""
        runs = tuple(
            dataclasses.replace(run, held_out=float(error))
            for run, error in zip(self.runs, np.ravel(errors), strict=True)
        )
        by_joint = np.mean(errors, axis=0)
        verdicts = tuple(
            dataclasses.replace(verdict, held_out=float(error))
            for verdict, error in zip(self.verdicts, by_joint, strict=True)
        )
        return dataclasses.replace(self, runs=runs, verdicts=verdicts, compared=compared)


def encoder_offsets(per_log: Varying) -> dict[str, dict[str, float]]:
    """Return encoder offsets by log and joint."""
    return {
        log: {joint: numbers[ENCODER_OFFSET] for joint, numbers in own.items()}
        for log, own in per_log.items()
        if all(ENCODER_OFFSET in numbers for numbers in own.values())
    }


def named_offsets(offsets: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield the short name of each log with its encoder offsets by joint."""
    return zip(log_names(offsets).values(), offsets.values(), strict=True)


def offsets_as_dict(offsets: Mapping[str, Mapping[str, float]], unit_of: Callable[[str], str]) -> dict[str, Any]:
    """Return encoder offsets as plain data for JSON, in mrad, and in mm for joints that slide."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for log, own in offsets.items():
        for joint, offset in own.items():
            of_log = found.setdefault(key_of("encoder_offsets", unit_of(joint)), {}).setdefault(log, {})
            of_log[joint] = to_shown(offset, unit_of(joint))
    return dict(found)


def large_offsets(offsets: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield warnings about encoder offsets at an end of the searched range."""
    for log, own in offsets.items():
        for joint, offset in own.items():
            if abs(offset) > _FAR * LARGEST_OFFSET:
                yield (
                    f"{log}: the encoder offset of {joint} is {offset:.2g}, at the end of the searched range, "
                    f"±{LARGEST_OFFSET:g}: state the offset of its positions in a mapping of columns"
                )


def _run_as_dict(run: RunError, unit: str) -> dict[str, Any]:
    errors = {"train": run.error, "held_out": run.held_out}
    shown = {key_of(name, unit): in_shown(error, unit) for name, error in errors.items()}
    return {"log": run.path, "joint": run.joint, **shown}


def _joint_as_dict(joint: FittedJoint, unit: str) -> dict[str, Any]:
    parameters = {
        p.path: {
            "value": p.value,
            "interval": [p.low, p.high],
            "confidence": CONFIDENCE,
            "unit": joint.unit_at(p.path, unit),
            **({"at_bound": p.at_bound} if p.at_bound else {}),
            **({"more_than": p.above} if p.above else {}),
        }
        for p in joint.parameters
    }
    return {
        "model": joint.model.name,
        "parameters": parameters,
        "undetermined": list(joint.undetermined),
        "settings": dict(joint.model.settings),
    }
