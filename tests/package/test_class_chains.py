# SPDX-License-Identifier: Apache-2.0
"""Chains of classes are short: who reads one need not open many files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import actuon

SOURCE = Path(actuon.__file__).parent
ROOMS = ("sim", "attach", "stability")
MOST_FILES = 2
MOST_CLASSES = 3


def classes():
    """Return all classes of the package, by module and name: names of their bases, by module where they come from."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        tree, package = ast.parse(path.read_text()), path.relative_to(SOURCE).parts[:-1]
        module, origins = path.relative_to(SOURCE).with_suffix("").parts, {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = package[: len(package) - node.level + 1]
                there = (*base, *(node.module.split(".") if node.module else ()))
                origins |= {alias.asname or alias.name: (there, alias.name) for alias in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).split("[")[0] for base in node.bases]
                found[module, node.name] = [origins.get(base, (module, base)) for base in bases]
    return found


CLASSES = classes()
CHECKED = sorted(key for key in CLASSES if key[0][0] in ROOMS)
COMPONENT = ("components", "component"), "Component"


def ancestors(key):
    """Return a class of the package and all that it inherits from, with the length of the longest chain to each."""
    found = {key: 1}
    for base in CLASSES.get(key, ()):
        if base in CLASSES:
            for other, length in ancestors(base).items():
                found[other] = max(found.get(other, 0), length + 1)
    return found


@pytest.mark.parametrize("key", CHECKED, ids=lambda key: f"{'/'.join(key[0])}.{key[1]}")
def test_no_class_is_spread_over_more_than_two_files(key):
    """A component is exempt, since users derive theirs from the same base; so is a chain that is read in one file."""
    found = ancestors(key)
    files = {module for module, _ in found}
    if COMPONENT in found or len(files) == 1:
        return
    assert len(files) <= MOST_FILES, found
    assert max(found.values()) <= MOST_CLASSES, found


def test_the_classes_of_these_rooms_are_found():
    names = {name for _, name in CHECKED}
    assert {"Simulation", "MujocoSimulation", "ArticulationActuators", "RemotizedPDActuator"} <= names
    groups = ("attach", "groups", "models"), "RemotizedPDActuator"
    assert [name for _, name in ancestors(groups)] == ["RemotizedPDActuator", "DelayedPDActuator", "ActuatorBase"]
    assert COMPONENT in ancestors((("attach", "newton_builder"), "_Described"))
