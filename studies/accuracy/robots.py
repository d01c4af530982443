# SPDX-License-Identifier: Apache-2.0
"""Whole robots: a double pendulum of two AK80-6 in short windows, and an SO-101 arm in whole motions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actuon.fit import Plant, RobotPlant, SearchOptions, load_plant, read_logs
from actuon.fit.select import folds_of

from .pictures import draw_motion
from .study import Comparison, NotPossible, Place, compare_presets

_WINDOW = 0.5
_AK80_6 = Path("examples/fit/ak80_6.yaml")
_SO101 = ("pd_coulomb+limit", "m3+limit")
_SHOWN, _RUNS, _TIMES = "elbow_flex", ("multisine", "prbs_excitation"), (20.0, 50.0)
"""Joint, motions and times [s] that the picture shows: a usual motion, and the one that is unlike the others."""
_OPTIONS = SearchOptions(starts=1)
"""One start instead of two: there are many fits."""


def ak80_6(place: Place) -> dict[str, Any]:
    """Fit windows of 0.5 s, without each trajectory in turn."""
    logs = place.logs("ak80_6/*.csv.gz")
    if not _AK80_6.is_file():
        raise NotPossible(f"{_AK80_6}, which describes the robot, is not there")
    plant = load_plant(_AK80_6, logs, window=_WINDOW)
    found = compare_presets(plant, ("m1",), _OPTIONS)
    return {"rows": found.rows(plant.joints), "pictures": []}


def so101(place: Place) -> dict[str, Any]:
    """Fit whole motions, without each of them in turn."""
    plant = RobotPlant(place.data / "so101" / "so101_arm.xml", read_logs(place.logs("so101/logs/*.csv.gz")))
    found = compare_presets(plant, _SO101, _OPTIONS)
    picture = _held_out(place.images / "accuracy_so101.svg", plant, found)
    return {"rows": found.rows(plant.joints), "pictures": [picture.name]}


def _held_out(path: Path, plant: Plant, found: Comparison) -> Path:
    """Draw one joint in some motions, as the model predicts it that was fitted without them."""
    models, one = found.models[found.chosen], found.compared[found.chosen]
    joint = plant.joints.index(_SHOWN)
    shown = []
    for fold in folds_of(plant.runs):
        if fold.name.split(".")[0] in _RUNS:
            part = plant.subset(fold.runs)
            residuals = part.residuals(part.trials(models, [own[None] for own in one.values[fold.name]]))
            shown += [(run, own[0, :, joint]) for run, own in zip(part.runs, residuals, strict=True)]
    title = f"SO-101, {_SHOWN}: each motion as a fit to the others predicts it"
    return draw_motion(path, _SHOWN, shown, title, *_TIMES)
