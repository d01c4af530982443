# SPDX-License-Identifier: Apache-2.0
"""Random actuators through YAML and USD and back, and files that are damaged or reworded."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from pxr import Usd

import actuon
from tests.support import built_in
from tests.support.robot_files import EXAMPLES, JOINTS, actuators, add, robot

from .isolated import Refused, worker
from .mutations import Edit, Word, damaged, edits, reworded, words
from .rig import rig

ODD_NAMES = (
    "null",
    "true",
    "1",
    "1.0",
    "~",
    "- a",
    "a: b",
    "&a",
    "*a",
    "!a",
    "?a",
    "#",
    "'",
    '"',
    "\n",
    " a ",
    ".*_knee",
)
motors = st.builds(
    lambda plain, effects: actuon.ActuatorConfig(plain.controller, plain.clamping, plain.delay, effects=effects),
    actuators,
    st.lists(built_in.drawn(actuon.Effect), max_size=2, unique_by=type),
)
"""Actuators with any effect that has an oracle."""
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8) | st.sampled_from(ODD_NAMES)
entries = st.lists(
    st.builds(actuon.ActuatorEntry, names, st.lists(names, min_size=1, max_size=3).map(tuple), motors, st.booleans()),
    max_size=4,
    unique_by=lambda entry: entry.name,
)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@rig("yaml", examples=60, drawn=lambda seed: {"written": entries})
def yaml(written: list[actuon.ActuatorEntry]) -> None:
    """A YAML file that was written is read back equal."""
    with _folder() as folder:
        path = folder / "actuon.yaml"
        actuon.save_actuators(path, written)
        assert actuon.load_actuators(path) == written


@rig(
    "usd",
    examples=40,
    drawn=lambda seed: {
        "written": st.lists(motors, min_size=1, max_size=len(JOINTS)),
        "suffix": st.sampled_from([".usda", ".usdc"]),
    },
)
def usd(written: list[actuon.ActuatorConfig], suffix: str) -> None:
    """Actuators written onto a robot are read back equal, from its file and by way of an actuon.yaml."""
    expected = dict(zip(JOINTS, written, strict=False))
    with _folder() as folder:
        path = folder / f"robot{suffix}"
        stage = robot(Usd.Stage.CreateNew(str(path)))
        for joint, actuator in expected.items():
            add(stage, actuator, joint, f"{joint}_motor")
        assert _by_joint(stage) == expected
        stage.GetRootLayer().Save()
        assert _by_joint(path) == expected
        exported = folder / "actuon.yaml"
        actuon.save_actuators(exported, actuon.export_actuators(path))
        other = robot()
        actuon.author_actuators("/Robot", actuon.load_actuators(exported), stage=other)
        assert _by_joint(other) == expected
        assert not actuon.inspect_actuators(other).problems


def _by_joint(source: Any) -> dict[str, actuon.ActuatorConfig]:
    return {parsed.target_path.rpartition("/")[2]: parsed.config for parsed in actuon.parse_actuators(source)}


def prepare() -> None:
    """Load what a worker needs."""
    import pxr.UsdPhysics  # noqa: F401
    import ruamel.yaml  # noqa: F401


def read_yaml(path: str) -> int:
    """Read, match and build what a file says. Returns the number of its actuators."""
    found = actuon.load_actuators(path)
    for entry in found:
        _build(entry.actuator)
    return len(actuon.match_joints(found, JOINTS))


def read_usd(path: str) -> int:
    """Read a robot's file in every way. Returns the number of its actuators."""
    actuon.inspect_actuators(path)
    actuon.export_actuators(path)
    parsed = actuon.parse_actuators(path)
    for actuator in parsed:
        _build(actuator.config)
    return len(parsed)


def _build(config: actuon.ActuatorConfig) -> None:
    actuon.Actuator(range(2), config.controller, delay=config.delay, clamping=config.clamping).state()


@functools.cache
def sound(suffix: str) -> str:
    """The text of a file that is right."""
    with _folder() as folder:
        path = folder / f"robot{suffix}"
        joints = dict(zip(JOINTS, ("everything", "pd", "position_based"), strict=True))
        if suffix == ".yaml":
            actuon.save_actuators(path, [actuon.ActuatorEntry(j, j, EXAMPLES[name]) for j, name in joints.items()])
        else:
            stage = robot(Usd.Stage.CreateNew(str(path)))
            for joint, name in joints.items():
                add(stage, EXAMPLES[name], joint, f"{joint}_motor")
            stage.GetRootLayer().Save()
        return path.read_text()


def _read_changed(content: bytes, suffix: str) -> None:
    with _folder() as folder:
        path = folder / f"robot{suffix}"
        path.write_bytes(content)
        outcome = worker(prepare).call(read_yaml if suffix == ".yaml" else read_usd, str(path))
        if isinstance(outcome, Refused):
            assert len(outcome.message) < 4000, outcome.message[:500]
            named = (path.name, "/Robot", "joint", "there are no actuators")
            assert any(name in outcome.message for name in named), outcome


suffixes = st.sampled_from([".yaml", ".usda"])


@rig("damaged_files", examples=150, drawn=lambda seed: {"suffix": suffixes, "changes": edits})
def damaged_files(suffix: str, changes: list[Edit]) -> None:
    """A file whose bytes were changed is read or refused by name, in little time and memory."""
    _read_changed(damaged(sound(suffix).encode(), changes), suffix)


@rig("reworded_files", examples=150, drawn=lambda seed: {"suffix": suffixes, "changes": words})
def reworded_files(suffix: str, changes: list[Word]) -> None:
    """A file that says something else is read or refused by name, in little time and memory."""
    _read_changed(reworded(sound(suffix), changes).encode(), suffix)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from([10**400, 1e308]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@rig(
    "retyped_yaml",
    examples=150,
    drawn=lambda seed: {"path": st.lists(st.integers(0, 5), max_size=5), "value": values},
)
def retyped_yaml(path: list[int], value: Any) -> None:
    """A file with another kind of value somewhere is read or refused by name."""
    from ruamel.yaml import YAML

    document = inside = YAML(typ="safe").load(sound(".yaml"))
    key = "actuators"
    for step in path:
        child = inside[key]
        if not isinstance(child, (dict, list)) or not child:
            break
        inside, key = child, list(child if isinstance(child, dict) else range(len(child)))[step % len(child)]
    inside[key] = value
    _read_changed(json.dumps(document).encode(), ".yaml")
