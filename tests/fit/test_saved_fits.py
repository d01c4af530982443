# SPDX-License-Identifier: Apache-2.0
"""Saved fits: their actuators and their section ``fit`` are read as they were written."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import actuon
from actuon.files import read_yaml
from actuon.fit import KnownLoadPlant, apply
from actuon.robot_files.provenance import Provenance, load_motors
from actuon.robot_files.yaml import FIT, load_actuators, save_actuators
from scripts.golden import fits
from tests.support.paths import ROOT

SAVED = ROOT / "tests/data/fits/version_1"
ERRORS = json.loads((SAVED / "errors.json").read_text())
"""Mean absolute errors [rad] when the files were written, by run and joint."""
PLANTS = {
    "servo.yaml": lambda: KnownLoadPlant(fits.FACTS["gains"](), dt=0.002),
    "arm.yaml": fits.MORE_SEARCHES["zeros"][0],
}
"""The plants that were fitted: gains that grow with a setting; the mass of a link, and encoders zeroed for each log."""


@pytest.mark.parametrize("name", PLANTS)
def test_a_saved_fit_has_the_errors_that_it_had(name):
    applied = apply(SAVED / name, PLANTS[name]())
    np.testing.assert_allclose(applied.errors, ERRORS[name], rtol=1e-4)


@pytest.mark.parametrize("name", PLANTS)
def test_the_section_of_a_fit_is_written_as_it_was_read(name, tmp_path):
    origin = Provenance.from_yaml(SAVED / name)
    assert origin.models
    assert origin.error["rad"] == pytest.approx(np.mean([1e-3 * own["error_mrad"] for own in _found(name)]), abs=1e-5)
    assert origin.seed == 3
    assert origin.logs == ("a", "b")
    save_actuators(tmp_path / name, load_actuators(SAVED / name), fit=origin.to_yaml())
    assert _lines(tmp_path / name) == _lines(SAVED / name)
    motors = load_motors(SAVED / name)
    assert motors.robots == (name.removesuffix(".yaml"),)
    assert [joint.name for joint in motors.joints] == list(origin.found)


def _found(name):
    return read_yaml(SAVED / name)[FIT]["found"].values()


def _lines(path):
    """Lines without deviations, which are of covariances with more digits than the file holds."""
    return [line for line in path.read_text().splitlines() if "std:" not in line]


def test_a_section_may_say_little():
    assert Provenance().to_yaml() == {}
    assert dataclasses.replace(Provenance(), seed=0).to_yaml() == {"seed": 0}


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("scaled: {hip: 3}", "fit.scaled.hip: got 3; must have 'times', paths and names of settings, and 'settings'"),
        ("links: {hip: {link.mass: x}}", "fit.links.hip: got .*; must be paths, such as link.mass, and numbers"),
        ("models: {hip: 3}", "fit.models.hip: got 3; must be text"),
        ("encoder_offsets: {a: {hip: x}}", r"fit.encoder_offsets.a.hip: got \['x'\]; must be 1 finite number"),
        ("verdict: {hip: good}", "fit.verdict.hip: got 'good'; must be a mapping"),
        ("error_mrad: [1]", "fit.error_mrad: got .*; must be 1 finite number"),
        ("logs: a", "fit.logs: got 'a'; must be a list"),
        ("warnings: 3", "fit.warnings: got 3; must be a list"),
        ("seed: [1]", r"fit.seed: got \[1\]; must be a whole number"),
        ("found: {hip: 3}\n  models: {hip: pd}", "fit.found.hip: got 3; must be a mapping"),
    ],
)
def test_a_damaged_section_is_refused_with_its_place(tmp_path, section, said):
    path = tmp_path / "a.yaml"
    path.write_text(f"actuators: {{}}\nfit:\n  {section}\n")
    with pytest.raises(actuon.RobotFileError, match=f"'{path}': {said}"):
        Provenance.from_yaml(path)
