# SPDX-License-Identifier: Apache-2.0
"""actuon.yaml: the same as a USD file says, for people without USD."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from pxr import Usd, UsdPhysics

import actuon
from tests.support.robot_files import EXAMPLES, JOINTS, actuators, add, robot

odd = ["knee", "hips", "a-b", "yes", "null", "1", "ünï", "a: b", "#x", "x" * 300, "a\x85b", "?b", "?", "<<", "-", " a "]
names = st.sampled_from(odd) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.dictionaries(names, st.tuples(st.lists(names, min_size=1, max_size=3), actuators, st.booleans()), max_size=3))
def test_config_to_yaml_to_config(groups):
    entries = [actuon.ActuatorEntry(name, tuple(joints), a, one) for name, (joints, a, one) in groups.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "actuon.yaml"
        actuon.save_actuators(path, entries)
        assert actuon.load_actuators(path) == entries
        assert list(Path(folder).iterdir()) == [path]


@given(st.lists(actuators, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_usd_to_yaml_to_usd(configs, alike, shared):
    """Alike and named after their joints, so that they are merged; different; and several joints in one prim."""
    configs = [configs[0]] * 4 if alike else configs
    stages = [Usd.Stage.CreateInMemory() for _ in range(2)]
    for stage in stages:
        for i in range(5):
            UsdPhysics.RevoluteJoint.Define(stage, f"/Robot/leg_{i}/knee_{i}")
        UsdPhysics.RevoluteJoint.Define(stage, "/Robot/left/twin")
        UsdPhysics.RevoluteJoint.Define(stage, "/Robot/right/twin")
    for i, config in enumerate(configs):
        add(stages[0], config, f"knee_{i}", f"knee_{i}")
    if shared:
        add(stages[0], configs[0], ["right/twin", "left/twin"], "twins")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "actuon.yaml"
        actuon.save_actuators(path, actuon.export_actuators(stages[0]))
        loaded = actuon.load_actuators(path)
    if alike:
        assert len(loaded) == 1 + shared
    actuon.author_actuators("/Robot", loaded, stage=stages[1])
    before, after = (
        {
            prim.GetPath(): actuon.parse_actuator_prim(prim)
            for prim in stage.GetPrimAtPath("/Robot/Actuators").GetChildren()
        }
        for stage in stages
    )
    assert before == after


def test_the_file_is_for_people(tmp_path):
    path = tmp_path / "actuon.yaml"
    entry = actuon.ActuatorEntry("knees", (".*_knee",), EXAMPLES["everything"])
    actuon.save_actuators(path, [entry, actuon.ActuatorEntry("hip", "hip", EXAMPLES["pd"])])
    assert path.read_text().splitlines()[1:] == [
        "version: 1",
        "actuators:",
        "  knees:",
        "    joints: [.*_knee]",
        "    controller: {type: pid, kp: 0.1, ki: 0.2, kd: 0.3, integral_max: 0.4, const_effort: 0.5}",
        "    clamping:",
        "    - type: position_based",
        "      lookup_positions: [-1.0, 1.0]",
        "      lookup_efforts: [5.0, 20.0]",
        "    - {type: dc_motor, saturation_effort: 33.5, velocity_limit: 21.0, max_motor_effort: .inf}",
        "    - {type: max_effort, max_effort: 25.0}",
        "    delay: {delay_steps: 2}",
        "  hip:",
        "    joints: [hip]",
        "    controller: {type: pd, kp: 40.0, kd: 1.5, const_effort: 0.25}",
    ]


GOOD = """
actuators:
  legs:
    joints: ["hip|knee"]
    controller: {type: pd, kp: 1e3, kd: 1}
    clamping:
      - {type: max_effort, max_effort: .inf}
    delay: {delay_steps: 2}
"""


def load(tmp_path, text):
    path = tmp_path / "actuon.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return actuon.load_actuators(path)


def test_numbers_as_people_write_them(tmp_path):
    (entry,) = load(tmp_path, GOOD)
    assert entry.actuator.controller == actuon.PDControlConfig(1000.0, 1.0)
    assert entry.actuator.delay == actuon.DelayConfig(2)
    assert entry.joints == ("hip|knee",)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("kp: 1e3", "kp: -1", r"actuators\.legs\.controller: PDControlConfig\.kp: got -1"),
        ("kp: 1e3", "kp: high", "got 'high'"),
        ("kp: 1e3", "kp: [1, 2]", "one number"),
        ("kp: 1e3", "kp: true", "got True"),
        ("kp: 1e3", "kp: .nan", "got nan"),
        ("kp: 1e3, ", "", r"needs 'kp'"),
        ("kp: 1e3", "stiffness: 1e3", "unknown parameter 'stiffness'.*kp, kd"),
        ("type: pd", "type: pdd", "got type 'pdd'.*Did you mean 'pd'"),
        ("type: max_effort", "type: effort", "got type 'effort'.*Did you mean 'max_effort'"),
        ("type: pd, ", "", "needs a 'type'"),
        ("type: max_effort", "type: pd", r"legs\.clamping\[0\]: got type 'pd'; types: .*max_effort"),
        ("    controller: {type: pd, kp: 1e3, kd: 1}\n", "", "needs 'controller'"),
        ('    joints: ["hip|knee"]\n', "", "needs 'joints'"),
        ('["hip|knee"]', "[]", "must be joint names or regular expressions"),
        ('["hip|knee"]', "[3]", "must be joint names or regular expressions"),
        ("joints:", "joint:", "unknown key 'joint'.*Did you mean 'joints'"),
        ("delay_steps: 2", "delay_steps: 2.5", "whole number"),
        ("delay_steps: 2", "", "needs 'delay_steps'"),
        ("{delay_steps: 2}", "2", "must be a mapping"),
        ("actuators:", "version: 7\nactuators:", "version: got 7"),
        ("actuators:", "actuator:", "unknown key 'actuator'"),
        ("actuators:", "version: 1", "actuon.yaml:3: is not a valid YAML file"),
        ("  legs:", "  3:", "put it in quotes"),
        ("  legs:", "  legs: {}\n  legs:", "legs"),
        ('["hip|knee"]', '["hip|knee"', "is not a valid YAML file"),
        (
            "- {type: max_effort, max_effort: .inf}",
            "- {type: max_effort, max_effort: 1}\n      - {type: max_effort, max_effort: 2}",
            "twice",
        ),
    ],
)
def test_files_that_cannot_be(old, new, match, tmp_path):
    assert old in GOOD
    with pytest.raises(ValueError, match=match) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert "actuon.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"- 1\n- 2\n", b"text", b"{{{", b"\x00", b"actuators: 3", b"a: &a [*a]"]
)
def test_broken_files(content, tmp_path):
    with pytest.raises(ValueError, match=r"actuon\.yaml"):
        load(tmp_path, content)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        actuon.load_actuators(tmp_path / "none.yaml")
    with pytest.raises(ValueError, match="cannot be read"):
        actuon.load_actuators(tmp_path)


def test_a_file_that_cannot_be_written_is_left_as_it_is(tmp_path):
    path = tmp_path / "actuon.yaml"
    entry = actuon.ActuatorEntry("knee", "knee", EXAMPLES["pd"])
    actuon.save_actuators(path, [entry])
    before = path.read_text()
    with pytest.raises(ValueError, match="two entries are called 'knee'"):
        actuon.save_actuators(path, [entry, entry])
    with pytest.raises(ValueError, match="cannot be written"):
        actuon.save_actuators(tmp_path / "nowhere" / "actuon.yaml", [entry])
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def entries(**joints):
    return [actuon.ActuatorEntry(name, pattern, EXAMPLES["pd"]) for name, pattern in joints.items()]


def test_joints_are_matched_whole_in_the_robots_order():
    matched = actuon.match_joints(entries(legs="hip|kn.*", rest=["slide"]), JOINTS)
    assert [found for _, found in matched] == [["hip", "knee"], ["slide"]]
    assert actuon.match_joints(entries(legs=["knee", "hip"]), JOINTS)[0][1] == ["knee", "hip"]
    assert actuon.match_joints(entries(legs=["knee", ".*e"]), JOINTS)[0][1] == ["knee", "slide"]
    with pytest.raises(ValueError, match=r"'kne' matches no joint; joints: hip, knee, slide. Did you mean 'knee'"):
        actuon.match_joints(entries(legs="kne"), JOINTS)
    with pytest.raises(ValueError, match="joint 'knee' is in 'a' and in 'b'"):
        actuon.match_joints(entries(a=".*", b="knee"), JOINTS)
    with pytest.raises(ValueError, match=r"'\(' is neither a joint nor a valid regular expression"):
        actuon.match_joints(entries(a="("), JOINTS)
    assert actuon.match_joints(entries(a="a(b"), ["a(b"])[0][1] == ["a(b"]


def test_authoring_entries_is_all_or_nothing():
    stage = robot()
    add(stage, EXAMPLES["pid"])
    before = stage.GetRootLayer().ExportToString()
    both = entries(hip="hip", knee="knee")
    with pytest.raises(ValueError, match="already"):
        actuon.author_actuators("/Robot", both, stage=stage)
    assert stage.GetRootLayer().ExportToString() == before
    actuon.author_actuators("/Robot", both, stage=stage, overwrite_existing=True)
    assert [p.config for p in actuon.parse_actuators(stage)] == [EXAMPLES["pd"]] * 2
    with pytest.raises(ValueError, match="both make a prim called 'hip'"):
        actuon.author_actuators("/Robot", entries(legs="hip|knee", hip="slide"), stage=robot())


def laughs(inner, outer, end):
    lines = [f"a0: &a0 {inner}"]
    lines += [f"a{i}: &a{i} {outer % ', '.join([f'*a{i - 1}'] * 10)}" for i in range(1, 9)]
    return "\n".join([*lines, end])


CHAIN = "\n".join(["a0: &a0 [1]", *(f"a{i}: &a{i} [[[[*a{i - 1}]]]]" for i in range(1, 40)), "actuators: *a39"])
KP = "actuators: {k: {joints: k, controller: {type: pd, kd: 1, kp: %s}}}"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (
            laughs("[x]", "[%s]", "actuators: *a8"),
            r"actuon.yaml:\d: the file has more than 50000 values with its aliases",
        ),
        (laughs("[x]", "[%s]", KP % "*a8"), "more than 50000 values with its aliases"),
        (laughs("{k: 1}", "{<<: [%s]}", "actuators: *a8"), "more than 50000 values with its aliases"),
        (CHAIN, r"actuon.yaml:\d+: lists and mappings are more than 32 deep"),
        ("[" * 10_000, "more than 32 deep"),
        ("- " * 1000 + "x", "more than 32 deep"),
        ("{a: " * 1000, "more than 32 deep"),
        ("a: &a [*a]", r"actuon.yaml:1: \*a refers to a value that contains it"),
        (KP % "&a [*a]", "refers to a value that contains it"),
        (KP % ("1" * 5000), "a value has 5000 characters; must have at most 4096"),
        (KP % ("0x" + "f" * 4000), r"kp: got a whole number of 16000 bits; must be"),
        ("version: 0x" + "f" * 4000, "version: got a whole number of 16000 bits"),
        ("? 0x" + "f" * 4000 + "\n: 1", "got the key a whole number of"),
        (KP.replace("type: pd", "type: 0x" + "f" * 4000) % 1, "got type a whole number of"),
        (KP.replace("joints: k", "joints: 0x" + "f" * 4000) % 1, "joints: got a whole number of"),
        (KP % ("x" * 2_000_000), "is too large; must have at most 1048576 bytes"),
        ("# " + "x" * 2_000_000, "is too large; must have at most 1048576 bytes"),
        (KP % '"\\ud800"', "half a character"),
        (KP.replace("{k:", '{"\\udfff":') % 1, "half a character"),
        (KP % "*nothing", "is not a valid YAML file: found undefined alias"),
        (KP % "!!python/object/apply:os.getcwd []", "is not a valid YAML file"),
        ("a: 1\na: 2", "is not a valid YAML file: found duplicate key"),
        ("--- 1\n--- 2", "is not a valid YAML file"),
        ("? [a]\n: 1", "yaml"),
        (b"actuators:\n  caf\xe9: {}", "is not UTF-8 text: line 2 holds the byte 0xe9; save it as UTF-8"),
    ],
    ids=range(25),
)
def test_files_are_bounded(content, match, tmp_path):
    """The time and memory to read a file follow from its size. Each is refused by name and line."""
    with pytest.raises(actuon.RobotFileError, match=match) as caught:
        load(tmp_path, content)
    assert "actuon.yaml" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_aliases_and_merges_within_bounds_are_read(tmp_path):
    (first, second) = load(
        tmp_path,
        """
        actuators:
          a:
            joints: [x, y]
            controller: &motor {type: pd, kp: 1, kd: 2}
            clamping: &limits [{type: max_effort, max_effort: 3}]
          b: {joints: [z], controller: {<<: *motor, kp: 5}, clamping: *limits}
        """,
    )
    assert first.actuator.controller == actuon.PDControlConfig(1.0, 2.0)
    assert second.actuator.controller == actuon.PDControlConfig(5.0, 2.0)
    assert second.actuator.clamping == first.actuator.clamping


def test_regular_expressions_that_cannot_be():
    for pattern in ("(", "a{99999999999}", "(" * 5000 + ")" * 5000, "[z-a]", "(?P<1>a)"):
        with pytest.raises(actuon.RobotFileError, match="is neither a joint nor a valid regular expression"):
            actuon.match_joints(entries(a=pattern), JOINTS)
