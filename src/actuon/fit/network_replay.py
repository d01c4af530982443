# SPDX-License-Identifier: Apache-2.0
"""Network controllers in a replay: gains of logs that they share among all DOFs, and inputs they have not seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..components.controllers.neural import NeuralControlConfig
from ..declare.config import Config
from ..logs import JointLog
from ..networks.files import load_metadata
from ..networks.inputs import RANGE
from ..robot_files.yaml import load_actuators
from ..typing import PathLike
from .models import Model
from .parameters import place_of, value_at, with_values
from .plants.plant import Plant

OUTSIDE = 0.01
"""Share of samples outside of the range of a network's training that is worth a warning."""


def residuals_of(plant: Plant, models: Sequence[Model], values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Simulated less measured position [rad] of each run, shape (T, J), from values of shape (P,) for each joint.

    Numbers that grow with a setting of the log, and that all DOFs of a component share, such as the scale of an input
    of a network, take a simulation for each value of the setting.
    """
    groups: dict[tuple[float, ...], list[int]] = {}
    for i, run in enumerate(plant.runs):
        factors = [model.factors(run.settings)[path] for model in models for path in _shared(model)]
        groups.setdefault(tuple(factors), []).append(i)
    candidates = [own[None] for own in values]
    if all(not key for key in groups):
        return [run[0] for run in plant.residuals(models, candidates)]
    found: dict[int, np.ndarray] = {}
    for runs in groups.values():
        settings = plant.runs[runs[0]].settings
        own = [_at_settings(model, settings) for model in models]
        for i, residual in zip(runs, plant.subset(runs).residuals(own, candidates), strict=True):
            found[i] = residual[0]
    return [found[i] for i in range(len(plant.runs))]


def _shared(model: Model) -> list[str]:
    """Paths of numbers that grow with a setting, of which a component has one for all DOFs."""
    found = []
    for path in model.times:
        place = place_of(model.actuator, path)
        stage = model.actuator.stages[place.stage]
        if isinstance(stage, Config) and place.name in stage.component.SHARED_PARAMS:
            found.append(path)
    return found


def _at_settings(model: Model, settings: Mapping[str, Any]) -> Model:
    """The model for logs with these settings, with what components share written into the chain."""
    shared, factors = _shared(model), model.factors(settings)
    values = {path: factors[path] * (value_at(model.actuator, path) or 0.0) for path in shared}
    times = {path: name for path, name in model.times.items() if path not in shared}
    return dataclasses.replace(model, actuator=with_values(model.actuator, values), times=times)


def outside_of(plant: Plant, models: Sequence[Model], residuals: Sequence[np.ndarray]) -> dict[str, float]:
    """Share of samples at which a network sees what it was not trained on, by joint.

    Args:
        plant: With the runs.
        models: One for each joint; those without a network, or whose file does not say its range, are left out.
        residuals: Simulated less measured position [rad] of each run, shape (T, J).
    """
    found = {}
    for j, (joint, model) in enumerate(zip(plant.joints, models, strict=True)):
        controller = model.actuator.controller
        if not isinstance(controller, NeuralControlConfig):
            continue
        metadata = load_metadata(controller.model_path)
        ranges = metadata.get(RANGE)
        if ranges is None:
            continue
        outside = []
        for run, residual in zip(plant.runs, residuals, strict=True):
            factor = model.factors(run.settings).get("controller.pos_scale", 1.0)
            if controller.pos_scale is not None:
                factor *= controller.pos_scale / metadata.get("pos_scale", 1.0)
            outside.append(_is_outside(run.time, run.joint(joint), residual[:, j], factor, ranges))
        found[joint] = float(np.concatenate(outside).mean())
    return found


def _is_outside(
    time: np.ndarray, joint: JointLog, residual: np.ndarray, factor: float, ranges: dict[str, tuple[float, float]]
) -> np.ndarray:
    """At which samples a simulated joint is outside, while its motor is switched on."""
    position = joint.position + residual
    inputs = {"velocity": np.gradient(position, time)}
    if joint.command is not None:
        inputs["position_error"] = factor * (joint.command - position)
    is_on = np.ones(len(time), bool) if joint.enabled is None else joint.enabled.astype(bool)
    is_outside = np.zeros(len(time), bool)
    for name, (low, high) in ranges.items():
        if name in inputs:
            is_outside |= (inputs[name] < low) | (inputs[name] > high)
    return is_outside & is_on


def network_step(path: PathLike, allow_unsafe_torch_checkpoints: bool = False) -> float | None:
    """The time step [s] at which the networks of an actuator file are to be simulated; None where they do not say.

    Args:
        path: An ``actuon.yaml``.
        allow_unsafe_torch_checkpoints: Let the file name ``.pt`` and ``.pt2`` networks, which can run code.
    """
    for entry in load_actuators(Path(path), allow_unsafe_torch_checkpoints):
        controller = entry.actuator.controller
        if isinstance(controller, NeuralControlConfig):
            step = controller.sample_dt or load_metadata(controller.model_path).get("sample_dt")
            if step is not None:
                return float(step) / entry.actuator.control_every
    return None
