# SPDX-License-Identifier: Apache-2.0
"""Requirements of the project: bounded by tried versions, and exact for installs by ``make``."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scripts.constraints import newest
from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FILES = {
    "constraints.txt": ("dev", "docs", "ray"),
    "constraints-mujoco4.txt": ("test",),
    "constraints-mjlab.txt": ("yaml",),
    "constraints-simulators.txt": ("mujoco",),
}
"""Extras that are installed with each file."""


def required(*extras):
    """Requirements of the project with some extras, those of other packages alone."""
    found, todo = list(PROJECT["dependencies"]), list(extras)
    while todo:
        for text in EXTRAS[todo.pop()]:
            own = Requirement(text)
            if own.name == "actuon":
                todo += own.extras
            else:
                found.append(text)
    return [Requirement(text) for text in found]


def pinned(name):
    lines = [line for line in (ROOT / name).read_text("utf-8").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines), "names and versions, without hosts"
    return {canonicalize_name(package): Version(version) for package, version in (line.split("==") for line in lines)}


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_range_ends(extra):
    for requirement in required(extra):
        ends = [part for part in requirement.specifier if part.operator in ("<", "<=", "~=", "==")]
        assert ends, f"{requirement}: give it an upper bound that was tried"


@pytest.mark.parametrize("name", FILES)
def test_exact_versions_lie_within_the_ranges(name):
    versions = pinned(name)
    for requirement in required(*FILES[name]):
        if requirement.marker is None or requirement.marker.evaluate():
            version = versions.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement.name} is not in {name}: make constraints"
            assert requirement.specifier.contains(version), f"{requirement} and {name} disagree: make constraints"


def test_ranges_end_with_the_version_that_was_tried():
    """A major version, or a minor one of what has not reached 1.0."""
    main, four = pinned("constraints.txt"), pinned("constraints-mujoco4.txt")
    for requirement in required("dev", "docs", "ray"):
        if requirement.marker is None or requirement.marker.evaluate():
            name = canonicalize_name(requirement.name)
            major, minor, *_ = (*max(main[name], four.get(name, main[name])).release, 0)
            beyond = f"{major + 1}" if major else f"0.{minor + 1}"
            assert not requirement.specifier.contains(beyond), f"{requirement}: {beyond} was not tried"


def test_engines_are_those_that_are_supported():
    main, four, mjlab, _ = (pinned(name) for name in FILES)
    assert (main["newton"].release[:2], main["mujoco"].release[:2]) == ((1, 8), (3, 17))
    assert four["mujoco"].release[0] == 4
    assert "newton" not in four
    assert (mjlab["mjlab"].release[:2], mjlab["mujoco"].release[:2]) == ((1, 6), (3, 11))


def test_the_newest_have_no_upper_bound():
    found = [Requirement(text) for text in newest("dev")]
    assert {requirement.name for requirement in found} == {requirement.name for requirement in required("dev")}
    assert {part.operator for requirement in found for part in requirement.specifier} <= {">=", "=="}
    assert all(len(requirement.specifier) == 1 for requirement in found), "lower bounds stay"
