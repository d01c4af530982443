# SPDX-License-Identifier: Apache-2.0
"""Declarations of YAML documents: what is taken, and what is refused with the place."""

from __future__ import annotations

import math

import pytest

import actuon
from actuon.declare.documents import entries, interval, mapping, number, one_of, text

PLANT = entries(
    robot=text(),
    dt=number(above=0.0),
    sign=one_of(1, -1),
    encoder_offset=one_of("per_log"),
    scale=number(nonzero=True),
    load=mapping(number()),
    range=interval(),
    fix=mapping(mapping(number()), keys=("hip", "knee")),
)


def test_values_are_returned_as_declared():
    given = {
        "robot": 3,
        "dt": 1,
        "sign": -1.0,
        "encoder_offset": None,
        "load": {"mass": 2},
        "range": [-1, 0.5],
        "fix": {"knee": {"controller.kp": 4}},
    }
    found = PLANT("plant.yaml", given)
    assert found == {
        "robot": "3",
        "dt": 1.0,
        "sign": -1,
        "load": {"mass": 2.0},
        "range": (-1.0, 0.5),
        "fix": {"knee": {"controller.kp": 4.0}},
    }
    assert [type(found[key]) for key in ("dt", "sign")] == [float, int]
    assert PLANT("plant.yaml", {}) == {}
    assert mapping(text())("joints", {1: "hip", "2": "knee"}) == {"1": "hip", "2": "knee"}
    assert number()("offset", 1.7e9 + 0.25) == 1.7e9 + 0.25  # in full precision, unlike parameters of components
    assert text(empty=True)("joint", "") == ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "p.yaml: got 3; must be a mapping of names to values"),
        ({"robt": ""}, "p.yaml: unknown key 'robt'; keys: .* Did you mean 'robot'"),
        ({1.5: ""}, "p.yaml: got the key 1.5; must be text: put it in quotes"),
        ({"robot": ""}, "p.yaml: robot: got ''; must be text"),
        ({"robot": True}, "p.yaml: robot: got True; must be text"),
        ({"dt": 0}, "p.yaml: dt: got 0; must be greater than 0"),
        ({"dt": "1"}, "p.yaml: dt: got '1'; must be a finite number"),
        ({"dt": True}, "p.yaml: dt: got True; must be a finite number"),
        ({"dt": math.inf}, "p.yaml: dt: got inf; must be a finite number"),
        ({"scale": 0}, "p.yaml: scale: got 0; must not be 0"),
        ({"range": [1.0]}, r"p.yaml: range: got \[1.0\]; must be two numbers, lowest and highest"),
        ({"range": [1.0, 0.5]}, r"p.yaml: range: got \[1.0, 0.5\]; must be two numbers, lowest and highest"),
        ({"range": [1.0, "x"]}, "p.yaml: range: got 'x'; must be a finite number"),
        ({"sign": True}, "p.yaml: sign: got True; must be 1 or -1"),
        ({"sign": [1]}, r"p.yaml: sign: got \[1\]; must be 1 or -1"),
        ({"encoder_offset": "all"}, "p.yaml: encoder_offset: got 'all'; must be per_log"),
        ({"load": {"mass": None}}, "p.yaml: load.mass: got None; must be a finite number"),
        ({"fix": {"kne": {}}}, "p.yaml: fix: unknown key 'kne'; .* Did you mean 'knee'"),
        ({"fix": {"knee": {"controller.kp": "x"}}}, "p.yaml: fix.knee.controller.kp: got 'x'; must be a finite number"),
    ],
)
def test_others_are_refused_with_the_place(given, message):
    with pytest.raises(actuon.ParameterError, match=message):
        PLANT("p.yaml", given)
