# SPDX-License-Identifier: Apache-2.0
"""Paths of the numbers in a chain: what stages are called."""

from __future__ import annotations

import pytest

import actuon
from actuon.robot_files.paths import check_unambiguous, parameter_places, place_in

STAGES = actuon.ActuatorConfig(
    actuon.PDControlConfig(40.0, 1.0),
    [actuon.DCMotorClampingConfig(30.0, 20.0, 25.0), actuon.MaxEffortClampingConfig(12.0)],
    actuon.DelayConfig(3),
    effects=[actuon.FrictionEffectConfig(0.1), actuon.FrictionEffectConfig(0.2)],
).stages


@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ("controller.kp", 1),  # a kind that one stage has
        ("pd.kp", 1),
        ("1.kp", 1),
        ("delay.delay_steps", 0),
        ("clamping.saturation_effort", 2),  # the only one of its kind that has it
        ("clamping.max_effort", 3),
        ("max_effort.max_effort", 3),
        ("friction_1.dynamic", 4),
        ("friction_2.dynamic", 5),
        ("5.dynamic", 5),
    ],
)
def test_what_a_path_leads_to(path, stage):
    """In a chain of configs, and in the components that they make."""
    components = actuon.Actuator([0], stages=STAGES, in_engine=True).stages
    for stages in (STAGES, components):
        place = place_in(stages, path)
        assert (place.stage, place.name) == (stage, path.partition(".")[2])
        assert parameter_places(stages)[path] == place


@pytest.mark.parametrize("path", ["effect.dynamic", "friction.dynamic"])
def test_a_path_to_several_stages(path):
    """It means the first one in files of fits, and is refused where a user writes it."""
    assert place_in(STAGES, path).stage == 4
    assert path not in parameter_places(STAGES)
    with pytest.raises(
        actuon.ParameterError, match="several stages have this name; must be one of friction_1.dynamic, friction_2.dyn"
    ):
        check_unambiguous(STAGES, path)


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("controller.kpp", "controller.kpp: there is no parameter 'kpp'; .*Did you mean 'kp'"),
        ("clamping.kp", "clamping.kp: there is no parameter 'kp'; .*max_effort"),
        ("frction.dynamic", "frction.dynamic: there is no stage 'frction'; .*Did you mean 'friction_[12]'"),
        ("6.kp", "6.kp: there is no stage '6'"),
        ("kp", "kp: there is no stage 'kp'"),
        ("", "there is no stage ''"),
    ],
)
def test_paths_that_lead_nowhere(path, match):
    with pytest.raises(actuon.ParameterError, match=match):
        place_in(STAGES, path)
