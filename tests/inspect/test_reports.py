# SPDX-License-Identifier: Apache-2.0
"""``inspect``, ``check``, ``export``, ``author`` and ``plot`` on robots in MJCF and URDF, and on a YAML alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from pxr import Usd, UsdPhysics

import actuon
from tests.inspect.test_starting_yaml import MIXED, URDF
from tests.support.command_line import command
from tests.support.robot_files import EXAMPLES, robot, save_robot

ASSETS = actuon.assets.FOLDER


@pytest.fixture
def quadruped(tmp_path):
    """In MJCF, with the YAML beside it."""
    for name in ("quadruped.xml", "quadruped.actuon.yaml"):
        shutil.copy(ASSETS / name, tmp_path)
    return tmp_path / "quadruped.xml"


def lines_of(out):
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]


def test_inspect_shows_the_actuators_beside_mjcf(quadruped):
    out = command("inspect", quadruped)
    assert "12 joints, 12 with an actuator, from quadruped.actuon.yaml next to it" in out
    assert "no problems found" in out
    report = json.loads(command("inspect", quadruped, "--json"))
    hip = report["joints"][0]
    assert (hip["name"], hip["path"], hip["type"]) == ("FL_hip_joint", "/base/FL_hip_joint", "hinge")
    assert report["actuators_from"] == str(quadruped.with_suffix(".actuon.yaml"))
    usd = json.loads(command("inspect", ASSETS / "quadruped.usda", "--json"))

    def values(report):
        return {
            joint["name"]: [[(v["name"], v["value"], v["unit"]) for v in part["values"]] for part in joint["chain"]]
            for joint in report["joints"]
        }

    assert values(report) == values(usd)


def test_inspect_shows_the_engine_s_drives_as_init_would_write_them(tmp_path):
    path = tmp_path / "mixed.xml"
    path.write_text(MIXED)
    out = command("inspect", path)
    assert "6 joints, 0 with an actuator\nshown are the engine's own drives, as `actuon init` would write them" in out
    lines = lines_of(out)
    assert lines[0][:5] == ["lift", "ControllerPD (no actuator)", "kp", "180", "N·m/rad"]
    assert ["swing", "not driven in the model (no actuator)"] in [line[:2] for line in lines]
    lift, turn, slide, swing, *_ = json.loads(command("inspect", path, "--json"))["joints"]
    assert lift["chain"][0]["values"][0]["source"] == "position servo 'lifter', times gear 3 squared"
    assert lift["drive"]["values"][0] == {
        "name": "stiffness",
        "value": 180.0,
        "unit": "N·m/rad",
        "source": "position servo 'lifter', times gear 3 squared",
    }
    assert slide["chain"][0]["values"][0]["unit"] == "N/m"
    assert slide["drive"] is None
    assert swing["chain"] == []
    assert lift["actuators"] == turn["actuators"] == []


def test_a_yaml_beside_a_usd_robot_counts_where_it_has_no_prims(tmp_path):
    path = save_robot(tmp_path / "robot.usda")
    actuon.save_actuators(
        tmp_path / "robot.actuon.yaml", [actuon.ActuatorEntry("all", "knee|slide", EXAMPLES["max_effort"])]
    )
    assert "3 joints, 2 with an actuator, from robot.actuon.yaml next to it" in command("inspect", path)
    joints = json.loads(command("inspect", path, "--json"))["joints"]
    assert [joint["actuators"] for joint in joints] == [[], ["robot.actuon.yaml: all"], ["robot.actuon.yaml: all"]]
    assert joints[2]["chain"][1]["values"][0]["unit"] == "N"
    command("export", path, "-o", tmp_path / "out.yaml")
    assert actuon.load_actuators(tmp_path / "out.yaml") == actuon.load_actuators(tmp_path / "robot.actuon.yaml")


def test_inspect_and_check_say_what_is_wrong_beside_mjcf(tmp_path):
    path = tmp_path / "mixed.xml"
    path.write_text(MIXED)
    (tmp_path / "mixed.actuon.yaml").write_text("""
actuators:
  a: {joints: [lift, turn], controller: {type: pd, kp: 40.0, kd: 1.0}}
  b: {joints: [turn], controller: {type: pd, kp: 0.0, kd: 0.0}}
  c: {joints: [elbow], controller: {type: pd, kp: 1.0, kd: 0.0}}
  d: {joints: [swing], controller: {type: pd, kp: 0.0, kd: 0.0}}
""")
    twice, missing = json.loads(command("inspect", path, "--json", code=1))["problems"]
    assert twice == ("turn: is driven by mixed.actuon.yaml: a and mixed.actuon.yaml: b; must be driven by one")
    assert "mixed.actuon.yaml: c: joints: 'elbow' matches no joint; joints: lift, turn" in missing
    checked = " ".join(command("check", path, code=1).split())
    assert twice in checked
    assert "kp and kd are 0: these joints will not track targets: swing" in checked
    assert "ControllerPD" not in checked


def test_check_says_that_nothing_is_wrong_in_usd():
    pytest.importorskip("newton")
    assert command("check", ASSETS / "arm.usda").endswith("\n✓ no problems found\n")


def test_check_says_that_nothing_is_wrong(quadruped, tmp_path):
    for path in (quadruped, quadruped.with_suffix(".actuon.yaml")):
        assert command("check", path).endswith("\n✓ no problems found\n")
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(quadruped.with_suffix(".actuon.yaml"), alone)
    out = " ".join(command("check", alone / "quadruped.actuon.yaml").split())
    assert out.startswith("motors from quadruped.actuon.yaml ! stability not checked: ")
    assert out.endswith("✓ no other problems found")


def test_export_takes_any_file(quadruped, tmp_path):
    out = command("export", quadruped, "-o", tmp_path / "a.yaml")
    assert out.strip().endswith("a.yaml, from quadruped.actuon.yaml")
    command("export", tmp_path / "a.yaml", "-o", tmp_path / "b.yaml")
    command("export", ASSETS / "quadruped.usda", "-o", tmp_path / "c.yaml")
    first, second, usd = (actuon.load_actuators(tmp_path / f"{name}.yaml") for name in "abc")
    assert first == second == actuon.load_actuators(ASSETS / "quadruped.actuon.yaml")
    names = actuon.parse_actuators(ASSETS / "quadruped.usda")
    joints = [parsed.target_path.rsplit("/", 1)[-1] for parsed in names]

    def by_joint(entries):
        return {joint: entry.actuator for entry, found in actuon.match_joints(entries, joints) for joint in found}

    assert by_joint(first) == by_joint(usd)
    quadruped.with_suffix(".actuon.yaml").unlink()
    out = command("export", quadruped, "-o", tmp_path / "d.yaml")
    assert "from its own drives, as  actuon init  writes them: it has no actuators" in out
    command("init", quadruped, "-o", tmp_path / "e.yaml")
    assert actuon.load_actuators(tmp_path / "d.yaml") == actuon.load_actuators(tmp_path / "e.yaml")


def test_export_refuses_what_drives_nothing(tmp_path, complaint):
    (tmp_path / "arm.urdf").write_text(URDF)
    text = complaint("export", "arm.urdf", "-o", "a.yaml")
    assert "'arm.urdf' has no actuators, and its joints no drives;  actuon init  writes a start" in text.replace(
        "; actuon init ", ";  actuon init  "
    )


def test_author_takes_the_actuators_of_another_robot(quadruped, tmp_path):
    """Those beside the MJCF, onto a USD file of the same robot."""
    out = command("author", ASSETS / "quadruped.usda", quadruped, "-o", tmp_path / "out.usda", "--overwrite")
    assert "wrote 12 actuators" in out
    assert "from quadruped.actuon.yaml" in out
    first, second = (
        {parsed.target_path: parsed.config for parsed in actuon.parse_actuators(path)}
        for path in (ASSETS / "quadruped.usda", tmp_path / "out.usda")
    )
    assert first == second


def test_plot_draws_what_each_actuator_can_give(quadruped, tmp_path, complaint):
    mixed = tmp_path / "mixed.xml"
    mixed.write_text(MIXED)
    for i, path in enumerate((quadruped, ASSETS / "arm.usda", ASSETS / "arm.actuon.yaml", mixed)):
        picture = tmp_path / "new" / f"{i}.png"
        assert f"saved {picture}" in command("plot", path, "-o", picture)
        assert picture.stat().st_size > 5_000
    assert "already exists; --force replaces it" in complaint("plot", mixed, "-o", picture)
    assert "must be .png, .svg or .pdf" in complaint("plot", mixed, "-o", "x.txt")


def test_a_usd_robot_without_actuators_shows_its_drives(tmp_path):
    stage = robot(Usd.Stage.CreateNew(str(tmp_path / "robot.usda")))
    UsdPhysics.DriveAPI.Apply(stage.GetPrimAtPath("/Robot/joints/hip"), "angular").CreateStiffnessAttr(1.0)
    stage.GetRootLayer().Save()
    out = command("inspect", tmp_path / "robot.usda")
    assert ["hip", "engine drive (no actuator)", "stiffness", "57.2958"] in [line[:4] for line in lines_of(out)]
    command("export", tmp_path / "robot.usda", "-o", tmp_path / "a.yaml")
    (entry,) = actuon.load_actuators(tmp_path / "a.yaml")
    assert entry == actuon.ActuatorEntry("hip", "hip", actuon.ActuatorConfig(actuon.PDControlConfig(57.29578, 0.0)))


def test_the_version_needs_no_extra(tmp_path):
    (tmp_path / "cyclopts.py").write_text("raise ModuleNotFoundError('not installed', name='cyclopts')")
    for argument, code in (("--version", 0), ("--help", 2)):
        done = subprocess.run(
            [sys.executable, "-m", "actuon.cli", argument],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert done.stdout == (f"{actuon.__version__}\n" if code == 0 else "")
        assert ("pip install 'actuon[cli]', from a checkout '.[cli]'" in done.stderr) == (code == 2)
