# SPDX-License-Identifier: Apache-2.0
"""A Dynamixel XL330 on a pendulum, 12 runs at three gains: all runs of one gain are held out at a time."""

from __future__ import annotations

from typing import Any

import actuon
from actuon.fit import KnownLoadPlant, Model, read_logs
from actuon.fit.model import value_at
from actuon.fit.replay import apply_models
from actuon.fit.select import folds_of
from actuon.fit.terms import SELECTED, JointFacts, build_model

from .pictures import draw_motion
from .study import MILLI, Place, by_fold, compare_presets, say

SHOWN = "kp 200"
"""The gain between the two others, at which the motion is drawn."""


def study(place: Place) -> dict[str, Any]:
    """Judge published parameters, then fit the models of ``actuon fit select`` without each gain in turn."""
    plant = KnownLoadPlant(read_logs(place.logs("xl330/*.json.gz")))
    found = compare_presets(plant, SELECTED["servo"])
    best, one = found.models[found.chosen], found.compared[found.chosen]
    residuals = plant.residuals(plant.trials(best, [own[None] for own in one.values[SHOWN]]))
    (fold,) = (fold for fold in folds_of(plant.runs) if fold.name == SHOWN)
    shown = [(plant.runs[i], residuals[i][0, :, 0]) for i in fold.runs]
    title = f"XL330: {one.name}, fitted without {SHOWN}, predicts these runs"
    picture = draw_motion(place.images / "accuracy_xl330.svg", plant.joints[0], shown, title)
    rows = found.rows(plant.joints)
    return {"published": _published(place, plant), "rows": rows, "pictures": [picture.name]}


def _published(place: Place, plant: KnownLoadPlant) -> list[dict[str, Any]]:
    """Return errors of the parameters that the source publishes for this kind of motor."""
    servo = build_model("servo_m1", JointFacts(plant.scales()[0], plant.runs, plant.joints[0]))
    kp, voltage = (value_at(servo.actuator, f"controller.{name}") for name in ("kp", "bus_voltage"))
    rows = []
    for path in sorted(place.data.glob("motors/xl330_m*.json")):
        motor = actuon.load_bam(path)
        chain = actuon.ActuatorConfig(
            actuon.ServoPWMControlConfig(kp, motor.torque_constant, motor.resistance, voltage),
            transmission=actuon.GearTransmissionConfig(1.0, reflected_inertia=motor.armature),
            effects=[motor.friction],
            sensors=[actuon.EncoderSensorConfig(bias=-motor.q_offset)],
        )
        model = Model(path.stem, chain, (), servo.scaled_by, servo.settings)
        errors = apply_models(plant, [model], [model.start]).errors
        folds = by_fold(errors, [(fold.name, fold.runs) for fold in folds_of(plant.runs)])
        rows.append({"model": path.stem, "held_out_mrad": float(MILLI * errors.mean()), "held_out_folds_mrad": folds})
        say(f"  {path.stem} as published: {rows[-1]['held_out_mrad']:.1f} mrad")
    return rows
