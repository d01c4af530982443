# SPDX-License-Identifier: Apache-2.0
"""Replay of an actuator file on logs, in the simulation of a fit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RobotFileError
from ..patterns import compile_pattern
from ..robot_files.provenance import Provenance, Scaled
from ..robot_files.yaml import ActuatorEntry, load_actuators, match_actuators
from ..typing import PathLike
from .model import Model
from .network_replay import OUTSIDE, network_step, outside_of
from .plants.plant import Plant
from .refine import judge_runs
from .result import encoder_offsets, large_offsets, offsets_as_dict
from .units import in_shown, key_of, means_by_unit, only_mean
from .verdict import Verdict, judge


@dataclass(frozen=True)
class Applied:
    """Mean absolute errors of the position [rad or m] of actuators on logs."""

    joints: tuple[str, ...]
    logs: tuple[str, ...]
    errors: np.ndarray
    """Error of each run and joint, shape (R, J); inf if the simulation diverged."""
    outside: Mapping[str, float] = field(default_factory=dict)
    """Share of samples outside the training range of a network, by joint."""
    encoder_offsets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Encoder offsets [rad or m] by log and joint, if estimated per log."""
    verdicts: tuple[Verdict, ...] = ()
    """Verdict on the actuator of each joint."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before using the errors, besides the verdicts."""
        lost = [path for path, own in zip(self.logs, self.errors, strict=True) if not np.isfinite(own).all()]
        diverged = [f"{path}: the simulation diverges with these actuators" for path in dict.fromkeys(lost)]
        outside = [
            f"{joint}: {100.0 * share:.0f} % of the samples are outside the training range of its network"
            for joint, share in self.outside.items()
            if share > OUTSIDE
        ]
        return (*diverged, *large_offsets(self.encoder_offsets), *outside)

    @property
    def is_useless(self) -> bool:
        """Whether the verdict on any joint is bad."""
        return any(verdict.is_useless for verdict in self.verdicts)

    @property
    def mean(self) -> float:
        """Mean error over joints and runs [rad, or m if all joints slide].

        Raises:
            StateError: Some joints turn and some slide; see `means`.
        """
        return only_mean(self.means, "'means'")

    @property
    def means(self) -> dict[str, float]:
        """Mean errors of the joints that turn [rad] and slide [m], by this unit."""
        return means_by_unit(self.errors.mean(axis=0).tolist(), self._units)

    @property
    def _units(self) -> list[str]:
        """Unit of the position of each joint."""
        known = {verdict.joint: verdict.unit for verdict in self.verdicts}
        return [known.get(joint, "rad") for joint in self.joints]

    def unit_of(self, joint: str) -> str:
        """Return the unit of a joint's position, ``"rad"`` or ``"m"``."""
        return self._units[self.joints.index(joint)]

    def by_log(self, unit: str) -> dict[str, Any]:
        """Return the errors of the joints with a unit, as they are shown: mean, by joint, and by log."""
        rows = {path: [i for i, own in enumerate(self.logs) if own == path] for path in dict.fromkeys(self.logs)}
        joints = [j for j, own in enumerate(self._units) if own == unit]

        def mean(errors: np.ndarray) -> float | None:
            return in_shown(float(errors.mean()), unit)

        return {
            "mean": mean(self.errors[:, joints]),
            "joints": {self.joints[j]: mean(self.errors[:, j]) for j in joints},
            "logs": {path: mean(self.errors[np.ix_(own, joints)]) for path, own in rows.items()},
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the errors as plain data for JSON: mean, by joint, and by log; in mrad, and in mm for sliding joints.

        Windows of a log are averaged. None if the simulation diverged.
        """
        return {
            **{key_of("mae", unit): self.by_log(unit) for unit in self.means},
            "verdict": {verdict.joint: verdict.as_dict() for verdict in self.verdicts},
            **offsets_as_dict(self.encoder_offsets, self.unit_of),
            **({"outside_training_range": dict(self.outside)} if self.outside else {}),
            **({"warnings": list(self.warnings)} if self.warnings else {}),
        }


def replay_step(path: PathLike, allow_unsafe_torch_checkpoints: bool = False) -> float | None:
    """Return the time step [s] for a replay of a motor file: the one of its fit, or of its networks.

    Args:
        path: An ``actuon.yaml``.
        allow_unsafe_torch_checkpoints: Let the file name ``.pt`` and ``.pt2`` networks, which can run code.

    Returns:
        None if the file states neither.

    Examples:
        >>> print(actuon.fit.replay_step(actuon.assets.arm_yaml))
        None
    """
    fitted = Provenance.from_yaml(path).dt
    return network_step(path, allow_unsafe_torch_checkpoints) if fitted is None else fitted


def apply(path: PathLike, plant: Plant, allow_unsafe_torch_checkpoints: bool = False) -> Applied:
    """Replay the actuators of a file on the runs of a plant.

    Args:
        path: An ``actuon.yaml``, from a fit or written by hand.
        plant: Mechanism that the actuators drive, with the logs.
        allow_unsafe_torch_checkpoints: Let the file name ``.pt`` and ``.pt2`` networks, which can run code.

    Examples:
        >>> time = np.arange(0.0, 1.0, 0.01)
        >>> joint = actuon.fit.JointLog("joint5", np.sin(3.0 * time - 0.1), np.sin(3.0 * time))
        >>> log = actuon.fit.Log("run", time, (joint,), {"mass": 0.5, "length": 0.1})
        >>> applied = actuon.fit.apply(actuon.assets.arm_yaml, actuon.fit.KnownLoadPlant([log]))
        >>> applied.errors.shape
        (1, 1)
    """
    models = models_of(path, plant.joints, allow_unsafe_torch_checkpoints)
    return apply_models(plant, models, [model.start for model in models])


def apply_models(plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray]) -> Applied:
    """Replay models with values of shape (P,) for each joint on the runs of a plant."""
    logs = tuple(run.path for run in plant.runs)
    if plant.log_parameters:
        errors, per_log = judge_runs(plant, models, values)
        offsets = encoder_offsets(per_log)
        return Applied(plant.joints, logs, errors, encoder_offsets=offsets, verdicts=_verdicts(plant, errors))
    residuals = [run[0] for run in plant.residuals(plant.trials(models, [own[None] for own in values]))]
    errors = np.array([np.abs(run).mean(axis=0) for run in residuals])
    errors[~np.isfinite(errors)] = np.inf
    outside = outside_of(plant, models, residuals)
    return Applied(plant.joints, logs, errors, outside, verdicts=_verdicts(plant, errors))


def _verdicts(plant: Plant, errors: np.ndarray) -> tuple[Verdict, ...]:
    return judge(plant.runs, plant.joints, errors, units=plant.units, rests_on=plant.rests_on)


def models_of(path: PathLike, joints: Sequence[str], allow_unsafe_torch_checkpoints: bool = False) -> list[Model]:
    """Return the actuators of a file as models without free parameters, one for each joint.

    Values that the section ``fit`` scales with a setting of the log are scaled again. If the file has one actuator and
    the plant one joint, their names need not match.
    """
    entries = load_actuators(Path(path), allow_unsafe_torch_checkpoints)
    if len(entries) == 1 and len(joints) == 1:
        chains = {joints[0]: (entries[0], entries[0].actuator)}
    else:
        wanted = [_only(entry, joints) for entry in entries]
        matched = match_actuators([entry for entry in wanted if entry], joints)
        chains = {joint: (entry, actuator) for entry, own in matched for joint, actuator in own.items()}
    missing = [joint for joint in joints if joint not in chains]
    if missing:
        raise RobotFileError(f"'{path}': has no actuator for joint '{missing[0]}' of the logs")
    origin = Provenance.from_yaml(path)
    models = []
    for entry, actuator in (chains[joint] for joint in joints):
        scaled = origin.scaled.get(entry.name, Scaled())
        links = origin.links.get(entry.name, {})
        models.append(Model(entry.name, actuator, (), scaled.times, scaled.settings, links))
    return models


def _only(entry: ActuatorEntry, joints: Sequence[str]) -> ActuatorEntry | None:
    """Return the entry without the patterns that match no joint of the logs; None if no pattern is left."""
    kept = tuple(pattern for pattern in entry.joints if _has_match(entry, pattern, joints))
    return ActuatorEntry(entry.name, kept, entry.actuator) if kept else None


def _has_match(entry: ActuatorEntry, pattern: str, joints: Sequence[str]) -> bool:
    """Return whether a name or regular expression of an entry matches one of the joints.

    Raises:
        RobotFileError: It is neither.
    """
    try:
        return pattern in joints or any(map(compile_pattern(pattern, joints).fullmatch, joints))
    except re.error as error:
        raise RobotFileError(
            f"{entry.name}: joints: '{pattern}' is neither a joint nor a valid regular expression: {error}"
        ) from error
