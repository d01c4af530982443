# SPDX-License-Identifier: Apache-2.0
"""Network controllers in a replay: their time step, and inputs outside their training range."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..components.controllers.neural import NeuralControlConfig
from ..logs import Log
from ..networks.files import load_metadata
from ..networks.inputs import RANGE
from ..robot_files.yaml import load_actuators
from ..typing import PathLike
from .model import Model
from .plants.plant import Plant

SMOOTHED = 0.044
"""Width [s] of the filter that differentiates positions for a training and for the range of its inputs."""
OUTSIDE = 0.01
"""Share of samples outside the training range above which a warning is given."""


def outside_of(plant: Plant, models: Sequence[Model], residuals: Sequence[np.ndarray]) -> dict[str, float]:
    """Return the share of samples with inputs outside the training range of a network, by joint.

    Ignores runs that diverged.

    Args:
        plant: Plant with the runs.
        models: One for each joint. Models without a network, or without a range in its file, are omitted.
        residuals: Simulated − measured position [rad] of each run, shape (T, J).
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
        outside = [np.zeros(0, bool)]
        for run, residual in zip(plant.runs, residuals, strict=True):
            if not np.isfinite(residual[:, j]).all():
                continue
            factor = model.factors(run.settings).get("controller.pos_scale", 1.0)
            if controller.pos_scale is not None:
                factor *= controller.pos_scale / metadata.get("pos_scale", 1.0)
            own = run.joint(joint)
            own = dataclasses.replace(own, position=own.position + residual[:, j])
            outside.append(_is_outside(dataclasses.replace(run, joints=(own,)), factor, ranges))
        samples = np.concatenate(outside)
        found[joint] = float(samples.mean()) if samples.size else 0.0
    return found


def _is_outside(simulated: Log, factor: float, ranges: dict[str, tuple[float, float]]) -> np.ndarray:
    """Return the samples with inputs outside the range while the motor is switched on, bool of shape (T,)."""
    (joint,) = simulated.joints
    inputs = {"velocity": simulated.derivatives(SMOOTHED)[1][:, 0]}
    if joint.command is not None:
        inputs["position_error"] = factor * (joint.command - joint.position)
    is_on = np.ones(len(simulated), bool) if joint.enabled is None else joint.enabled.astype(bool)
    is_outside = np.zeros(len(simulated), bool)
    for name, (low, high) in ranges.items():
        if name in inputs:
            is_outside |= (inputs[name] < low) | (inputs[name] > high)
    return is_outside & is_on


def network_step(path: PathLike, allow_unsafe_torch_checkpoints: bool = False) -> float | None:
    """Return the time step [s] of the networks in an actuator file; None if they do not state it.

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
