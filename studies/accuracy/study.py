# SPDX-License-Identifier: Apache-2.0
"""Parts that all studies share: comparison of models on runs that they were not fitted to."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from actuon.fit import Plant, SearchOptions
from actuon.fit.model import Model
from actuon.fit.select import Compared, compare, mark_chosen
from actuon.fit.terms import JointFacts, build_model

MILLI = 1e3


class NotPossible(Exception):
    """Reason why a study cannot run, as a sentence."""


@dataclass(frozen=True)
class Place:
    """Folders of a study's data and pictures.

    Args:
        data: Folder of the logs, one folder for each robot.
        images: Folder for pictures.
        draws: How many sets of parameters a synthetic study draws.
    """

    data: Path
    images: Path
    draws: int

    def logs(self, pattern: str) -> list[Path]:
        """Return files of the data, by a pattern such as ``"xl330/*.json.gz"``.

        Raises:
            NotPossible: There are none.
        """
        found = sorted(self.data.glob(pattern))
        if not found:
            raise NotPossible(f"no logs: {pattern} is not in the folder of the data")
        return found


def say(text: str) -> None:
    """Print progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def _begun(title: str) -> None:
    """Print which search begins, without its progress."""
    say(f"    {title}")


def models_of(plant: Plant, name: str) -> list[Model]:
    """Return a preset for each joint of a plant."""
    scales = zip(plant.scales(), plant.joints, strict=True)
    models = [build_model(name, JointFacts(own, plant.runs, joint)) for own, joint in scales]
    return [plant.adapt(joint, model) for joint, model in enumerate(models)]


@dataclass(frozen=True)
class Comparison:
    """Models that were compared on a plant."""

    models: list[list[Model]]
    compared: list[Compared]
    seconds: list[float]

    @property
    def chosen(self) -> int:
        """Index of the model that ``actuon fit select`` chooses."""
        return next(i for i, one in enumerate(self.compared) if one.chosen)

    def rows(self, joints: Sequence[str]) -> list[dict[str, Any]]:
        """Return the errors of each model in mrad, as JSON can hold them."""
        return [
            {
                **one.as_dict(),
                "held_out_joints_mrad": dict(zip(joints, (MILLI * one.by_run.mean(axis=0)).tolist(), strict=True)),
                "seconds": seconds,
            }
            for one, seconds in zip(self.compared, self.seconds, strict=True)
        ]


def compare_presets(plant: Plant, names: Sequence[str], options: SearchOptions | None = None) -> Comparison:
    """Fit each preset without each fold of runs, as ``actuon fit select --models`` does."""
    models = sorted((models_of(plant, name) for name in names), key=lambda own: sum(len(m.parameters) for m in own))
    compared, seconds = [], []
    for own in models:
        begin = time.monotonic()
        (one,) = compare(plant, [own], options, progress=_begun).compared
        compared.append(one)
        seconds.append(time.monotonic() - begin)
        folds = ", ".join(f"{fold} {MILLI * error:.1f}" for fold, error in one.by_fold.items())
        say(f"  {one.name}: {MILLI * one.held_out:.1f} mrad held out ({folds}), {seconds[-1]:.0f} s")
    return Comparison(models, mark_chosen(compared), seconds)


def by_fold(errors: np.ndarray, folds: Sequence[tuple[str, Sequence[int]]]) -> dict[str, float]:
    """Return means over runs and joints in mrad, by fold, of errors of shape (R, J) [rad]."""
    return {name: float(MILLI * errors[list(runs)].mean()) for name, runs in folds}
