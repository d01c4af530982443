# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of joints: bounded in time, and named where they are not valid."""

from __future__ import annotations

import re

import pytest

import actuon
from actuon.fit.replay import models_of
from actuon.patterns import compile_pattern
from tests.support.robot_files import EXAMPLES

LONG = "left_front_upper_leg_hip_pitch_abduction_actuator_motor_joint"
NAMES = ["FL_hip_joint", "FR_hip_joint", "RL_calf_joint", LONG, f"/World/envs/env_4095/quadruped/base_link/{LONG}"]
HARD = [*NAMES, "a" * 60]


@pytest.mark.parametrize(
    "pattern",
    [
        *(".*", ".*_hip_.*", "FL_.*|FR_.*|RL_.*|RR_.*", "(FL|FR|RL|RR)_(hip|thigh|calf)_joint", "(?:.*_)?hip.*"),
        *(".*_(hip|thigh)_.*", "(?!.*wheel).*", "[A-Z]+_.*", "(?=.*hip)(?!.*wheel)(?=.*left).*", "(.+/)*.*hip_joint"),
        *(".*left.*front.*hip.*pitch.*joint.*", "(.*)_(.*)_(.*)_(.*)_(.*)", "[a-z]+_[a-z]+_[a-z]+_[a-z]+_[a-z]+.*"),
        *(
            "(left|right)+_.*",
            "(left|right)*.*",
            "([a-z]+_)*joint",
            r"(\w+_)+joint",
            "(?:[^/]+/)*[^/]+_joint",
            "([a-z]|_)+",
        ),
        *("(leg|arm|left|right|hip|_)+.*", r"([a-z]+)_\1.*", "(left_)?(?(1)front.*|right.*)", "(?:(?:_|^)?hip)*.*"),
        *(".*left.*hip.*(roll|pitch).*", "[A-Z]+_.*_.*_.*"),
        *("(?i:fl_.*)", "[A-Z]{2}_[a-z]+_joint", ".*(?<!_calf)_joint", "(?P<side>[FR])[LR]_.*", "(?>F)L.*", "a{1,99}"),
    ],
)
def test_expressions_match_as_in_re(pattern):
    assert compile_pattern(pattern).pattern == pattern
    compiled = compile_pattern(pattern, NAMES)
    assert [bool(compiled.fullmatch(name)) for name in NAMES] == [bool(re.fullmatch(pattern, name)) for name in NAMES]


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+b", "(a|a)*b", "(a|aa)+b", "(a*)*b", "((a{1,20}){1,20}){1,20}b", ".*" * 8 + "b", "a?" * 40 + "a" * 60),
        *("(?=(a+)+b)a", "(?>(a+)+b)", "(a+){1000000000}b", "((a+)+)+" * 50 + "b", "(", "x{99999999999}"),
        *("(?:){999999999}.*", "(a?){999999999}.*", "(?i:(A|aA)*)b", r"(a+)(a+)(a+)(a+)(a+)\1\2b"),
    ],
)
def test_expressions_that_could_take_for_ever_are_refused(pattern):
    entry = actuon.ActuatorEntry("legs", (pattern,), EXAMPLES["pd"])
    with pytest.raises(
        actuon.RobotFileError, match=r"legs: joints: '.*' is neither a joint nor a valid regular express"
    ):
        actuon.match_joints([entry], HARD)


def test_what_could_take_for_ever_depends_on_the_names():
    assert compile_pattern("(a+)+b", NAMES).fullmatch("aaab")
    assert compile_pattern("(a+)+b").fullmatch("aab")
    with pytest.raises(re.error, match=r"too long to match 'a{60}': .*nested repetitions.*use fewer"):
        compile_pattern("(a+)+b", HARD)


@pytest.mark.parametrize("pattern", ["(hip", "(h+)+x"])
def test_actuators_that_are_replayed_name_it_too(tmp_path, pattern):
    entries = [actuon.ActuatorEntry(name, joint, EXAMPLES["pd"]) for name, joint in (("a", pattern), ("b", "knee"))]
    actuon.save_actuators(tmp_path / "actuon.yaml", entries)
    with pytest.raises(
        actuon.RobotFileError, match=r"a: joints: '.*' is neither a joint nor a valid regular expression"
    ):
        models_of(tmp_path / "actuon.yaml", ["h" * 60, "knee"])
