# SPDX-License-Identifier: Apache-2.0
"""The actuon command: what it prints, writes and refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from unittest import mock

import pytest
from pxr import Usd

import actuon
from actuon.cli import main as cli
from tests.support.command_line import command, in_a_process
from tests.support.robot_files import EXAMPLES, add, robot, save_everything, save_robot


@pytest.fixture
def file(tmp_path):
    return save_everything(tmp_path / "robot.usda")


def test_inspect_prints_every_joint_its_values_units_and_sources(file):
    out, _ = in_a_process("inspect", file)
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]
    assert ["knee", "Delay", "delay_steps", "1", "steps", "schema default"] in lines
    assert ["", "ControllerPID", "kp", "0.1", "N·m/rad", "authored"] in lines
    assert ["", "", "max_motor_effort", "inf", "N·m", "authored"] in lines
    assert ["hip", "engine drive (no actuator)", "stiffness", "57.2958", "N·m/rad", "authored"] in lines
    assert ["slide", "nothing", "", "", "", ""] in lines
    assert "3 joints, 1 with an actuator" in out
    assert "no problems found" in out


def test_inspect_gives_json_to_programs(file):
    report = json.loads(command("inspect", file, "--json"))
    hip, knee, slide = report["joints"]
    assert report["problems"] == []
    assert [joint["path"] for joint in report["joints"]] == [f"/Robot/joints/{n}" for n in ("hip", "knee", "slide")]
    assert [part["kind"] for part in knee["chain"]] == ["delay", "controller", "clamping", "clamping", "clamping"]
    assert knee["chain"][0]["values"] == [
        {"name": "delay_steps", "value": 1, "unit": "steps", "source": "schema default"}
    ]
    assert hip["drive"]["values"][2] == {"name": "maxForce", "value": "inf", "unit": "N·m", "source": "schema default"}
    assert slide["type"] == "PhysicsPrismaticJoint"
    assert slide["drive"] is None


def test_inspect_says_what_is_wrong(file):
    stage = Usd.Stage.Open(str(file))
    add(stage, EXAMPLES["pd"], joints=["knee", "slide"], name="second")
    stage.DefinePrim("/Robot/Actuators/lost", "NewtonActuator").AddAppliedSchema("NewtonPDControlAPI")
    stage.GetRootLayer().Save()
    out = " ".join(command("inspect", file, code=1).split())
    assert "/Robot/Actuators/lost: has no target" in out
    assert "/Robot/joints/knee: is driven by /Robot/Actuators/knee and /Robot/Actuators/second" in out
    units = {
        v["unit"]
        for j in json.loads(command("inspect", file, "--json", code=1))["joints"][2:]
        for p in j["chain"]
        for v in p["values"]
    }
    assert units == {"N/m", "N·s/m", "N"}
    assert "no problems found" not in out


def test_author_and_export_go_round(file, tmp_path):
    (tmp_path / "out").mkdir()
    command("export", file, "-o", tmp_path / "actuon.yaml")
    plain = save_robot(tmp_path / "plain.usda")
    before = plain.read_text()
    out = command("author", plain, tmp_path / "actuon.yaml", "-o", tmp_path / "out" / "robot.usda")
    assert "wrote 1 actuators" in out
    assert plain.read_text() == before
    (first,) = actuon.parse_actuators(file)
    (second,) = actuon.parse_actuators(tmp_path / "out" / "robot.usda")
    assert first == second
    command("export", tmp_path / "out" / "robot.usda", "-o", tmp_path / "again.yaml")
    assert (tmp_path / "again.yaml").read_text() == (tmp_path / "actuon.yaml").read_text()
    command("author", plain, tmp_path / "actuon.yaml", "-o", plain, "--force")
    command("author", plain, tmp_path / "actuon.yaml", "-o", plain, "--force", "--overwrite")
    assert actuon.parse_actuators(plain) == [first]


def test_author_keeps_references_and_finds_them_from_another_folder(tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "out" / "deep").mkdir(parents=True)
    save_robot(tmp_path / "assets" / "body.usda")
    stage = Usd.Stage.CreateNew(str(tmp_path / "assets" / "robot.usda"))
    stage.SetDefaultPrim(stage.DefinePrim("/Robot"))
    stage.GetPrimAtPath("/Robot").GetReferences().AddReference("./body.usda")
    stage.GetRootLayer().Save()
    actuon.save_actuators(tmp_path / "a.yaml", [actuon.ActuatorEntry("legs", "hip|knee", EXAMPLES["pd"])])
    written = tmp_path / "out" / "deep" / "robot.usda"
    command("author", tmp_path / "assets" / "robot.usda", tmp_path / "a.yaml", "-o", written)
    assert "@../../assets/robot.usda@" in written.read_text()
    assert [p.prim_path for p in actuon.parse_actuators(written)] == ["/Robot/Actuators/hip", "/Robot/Actuators/knee"]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("inspect", "none.usda"), "'none.usda' does not exist"),
        (("inspect", "half.usda"), "'half.usda' cannot be read"),
        (("inspect", "robot.usda", "--root", "/Robo"), "Did you mean '/Robot'"),
        (("export", "none.usda", "-o", "x.yaml"), "does not exist"),
        (("export", "bare.usda", "-o", "x.yaml"), "has no actuators"),
        (("export", "robot.usda", "-o", "nowhere/x.yaml"), "cannot be written"),
        (("author", "robot.usda", "none.yaml", "-o", "x.usda"), "'none.yaml' does not exist"),
        (("inspect", "motors.yaml", "--root", "/Robot"), "--root: got a prim of a USD file"),
        (("author", "robot.usda", "half.yaml", "-o", "x.usda"), "half.yaml"),
        (("author", "half.usda", "motors.yaml", "-o", "x.usda"), "cannot be read"),
        (("author", "robot.usda", "motors.yaml", "-o", "x.txt"), "format '.txt'"),
        (("author", "robot.usda", "motors.yaml", "-o", "nowhere/x.usda"), "its folder does not exist"),
        (("author", "robot.usda", "motors.yaml", "-o", "x.usda"), "already"),
        (("author", "bare.usda", "wrong.yaml", "-o", "x.usda"), "'elbow' matches no joint"),
        (("author", "bare.usda", "net.yaml", "-o", "x.usda"), "none.onnx' does not exist"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_code_2(file, arguments, match, complaint):
    folder = file.parent
    (folder / "half.usda").write_text('#usda 1.0\ndef Xform "Robot" {')
    (folder / "half.yaml").write_text("actuators: {legs: [")
    save_robot(folder / "bare.usda")
    actuon.save_actuators(folder / "motors.yaml", actuon.export_actuators(file))
    actuon.save_actuators(folder / "wrong.yaml", [actuon.ActuatorEntry("a", "elbow", EXAMPLES["pd"])])
    neural = actuon.ActuatorConfig(actuon.NeuralControlConfig(folder / "none.onnx"))
    actuon.save_actuators(folder / "net.yaml", [actuon.ActuatorEntry("a", "knee", neural)])
    assert match in complaint(*arguments)


ASSETS = actuon.assets.FOLDER


@pytest.mark.parametrize("name", ["init", "inspect", "check", "plot", "export", "author", "run"])
def test_what_is_not_a_file_to_read_is_called_what_it_is(name, tmp_path, complaint):
    (tmp_path / "folder.usda").mkdir()
    (tmp_path / "memory.usda").symlink_to("/proc/self/mem")  # which not even root can read from its start
    actuon.save_actuators(tmp_path / "a.yaml", [actuon.ActuatorEntry("a", "knee", EXAMPLES["pd"])])
    rest = {"export": ("-o", "b.yaml"), "author": ("a.yaml", "-o", "b.usda")}.get(name, ())
    assert complaint(name, tmp_path, *rest).endswith("is a directory; must be a file")
    assert complaint(name, "folder.usda", *rest) == "actuon: 'folder.usda' is a directory; must be a file"
    assert complaint(name, "memory.usda", *rest) == "actuon: 'memory.usda' cannot be read: Input/output error"
    assert complaint(name, "none.usda", *rest) == "actuon: 'none.usda' does not exist"
    assert complaint(name, "n\udcff.usda", *rest) == r"actuon: 'n\udcff.usda' is not valid UTF-8; rename the file"


@pytest.mark.parametrize("arguments", [("inspect", "robot.usda"), ("run", "robot.usda")])
def test_a_file_that_may_not_be_read(arguments, file, complaint, monkeypatch):
    complaint(arguments[0], "none.usda")  # which imports what nobody may not
    file.chmod(0)
    main = cli.main

    def main_as_nobody():
        users = os.getresuid()
        if os.getuid() == 0:  # who may read everything
            os.setresuid(65534, 65534, 0)
        try:
            main()
        finally:
            os.setresuid(*users)

    monkeypatch.setattr(cli, "main", main_as_nobody)
    assert complaint(*arguments) == "actuon: 'robot.usda' cannot be read: Permission denied"


def test_a_folder_whose_name_is_not_utf8(file, tmp_path, complaint, monkeypatch):
    folder = tmp_path / "f\udcff"
    folder.mkdir()
    shutil.copy(file, folder)
    actuon.save_actuators(folder / "a.yaml", actuon.export_actuators(file))
    monkeypatch.chdir(folder)
    assert "not valid UTF-8" in complaint("author", "robot.usda", "a.yaml", "-o", "b.usda", "--overwrite")


def test_errors_speak_of_commands(file, tmp_path, complaint):
    shutil.copy(ASSETS / "arm.xml", tmp_path)
    error = complaint("run", "arm.xml")
    assert (
        "nor 'arm.actuon.yaml' or 'actuon.yaml' next to 'arm.xml'. Create a YAML with 'actuon init', or a USD file with"
        in error
    )
    actuon.save_actuators("a.yaml", actuon.export_actuators(file))
    assert complaint("author", file, "a.yaml", "-o", "b.usda").endswith(
        "already; --overwrite, or --force of fit, replaces it"
    )
    assert "no robot file next to a.yaml; name the robot's file. Files: arm.xml" in complaint("run", "a.yaml")
    assert "--root: there is no prim '/Robo'" in complaint("inspect", file, "--root", "/Robo")
    neural = actuon.ActuatorConfig(actuon.NeuralControlConfig(tmp_path / "n.pt"))
    actuon.save_actuators("n.yaml", [actuon.ActuatorEntry("a", "knee", neural)])
    error = complaint("inspect", "n.yaml")
    assert "or, if you trust it, allow it with --allow-torch" in error
    assert "allow_unsafe" not in error
    stage = robot(robot(Usd.Stage.CreateNew("two.usda")), root="/Other")
    stage.ClearDefaultPrim()
    stage.GetRootLayer().Save()
    where = "'two.usda' has no default prim, and several robots: /Robot, /Other; name the robot's root with --root"
    assert where in complaint("export", "two.usda", "-o", "b.yaml")
    assert where in complaint("author", "two.usda", "a.yaml", "-o", "b.usda")


def test_inspect_says_how_to_trust_a_network(tmp_path):
    stage = robot(Usd.Stage.CreateNew(str(tmp_path / "robot.usda")))
    actuon.add_actuator("/Robot", "knee", "knee", actuon.NeuralControlConfig(tmp_path / "n.pt"), stage=stage)
    stage.GetRootLayer().Save()
    (problem,) = json.loads(command("inspect", tmp_path / "robot.usda", "--json", code=1))["problems"]
    assert "allow it with --allow-torch" in problem


def test_export_replaces_a_file_only_when_told_to(file, tmp_path, complaint):
    (tmp_path / "a.yaml").write_text("mine")
    assert complaint("export", file, "-o", "a.yaml") == "actuon: 'a.yaml' already exists; --force replaces it"
    assert (tmp_path / "a.yaml").read_text() == "mine"
    command("export", file, "-o", tmp_path / "a.yaml", "--force")
    assert len(actuon.load_actuators(tmp_path / "a.yaml")) == 1


def test_the_root_is_what_is_looked_at(file, tmp_path):
    """Of two robots in a file."""
    stage = robot(Usd.Stage.Open(str(file)), root="/Other")
    actuon.add_actuator("/Other", "hip", "hip", EXAMPLES["pd"].controller, stage=stage)
    stage.GetRootLayer().Save()
    report = json.loads(command("inspect", file, "--root", "/Other", "--json"))
    assert [joint["path"] for joint in report["joints"]] == [f"/Other/joints/{n}" for n in ("hip", "knee", "slide")]
    command("export", file, "--root", "/Other", "-o", tmp_path / "a.yaml")
    assert [entry.name for entry in actuon.load_actuators(tmp_path / "a.yaml")] == ["hip"]
    out = command("author", file, tmp_path / "a.yaml", "--root", "/Other", "-o", tmp_path / "b.usda", "--overwrite")
    assert "wrote 1 actuators" in out
    assert out.strip().endswith(": /Other/Actuators/hip")


def test_inspect_shows_the_entries_of_a_yaml(tmp_path):
    (tmp_path / "actuon.yaml").write_text("""
actuators:
  knees:
    joints: [".*_knee", left_ankle]
    controller: {type: pd, kp: 40.0, kd: 1.0}
    clamping: [{type: max_effort, max_effort: .inf}]
    delay: {delay_steps: 2}
  hip: {joints: [hip], controller: {type: pd, kp: 3.0, kd: 0.5, const_effort: 1.0}}
""")
    out = command("inspect", tmp_path / "actuon.yaml")
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]
    assert lines[:5] == [
        ["knees:", "Delay", "delay_steps", "2", "steps", "authored"],
        [".*_knee", "ControllerPD", "kp", "40", "N·m/rad", "authored"],
        ["left_ankle", "", "kd", "1", "N·m·s/rad", "authored"],
        ["", "", "const_effort", "0", "N·m", "default"],
        ["", "ClampingMaxEffort", "max_effort", "inf", "N·m", "authored"],
    ]
    assert "2 entries" in out
    assert "no problems found" in out
    report = json.loads(command("inspect", tmp_path / "actuon.yaml", "--json"))
    knees, hip = report["entries"]
    assert (knees["name"], knees["joints"], knees["one_prim"]) == ("knees", [".*_knee", "left_ankle"], False)
    assert [part["kind"] for part in knees["chain"]] == ["delay", "controller", "clamping"]
    assert knees["chain"][2]["values"] == [{"name": "max_effort", "value": "inf", "unit": "N·m", "source": "authored"}]
    assert hip["chain"][0]["values"][2]["source"] == "authored"
    assert report["problems"] == []


def test_inspect_says_what_is_wrong_with_a_yaml(tmp_path):
    neural = actuon.ActuatorConfig(actuon.NeuralControlConfig(tmp_path / "none.onnx"))
    entries = [actuon.ActuatorEntry("a", "(knee", EXAMPLES["pd"]), actuon.ActuatorEntry("b", "hip", neural)]
    actuon.save_actuators(tmp_path / "actuon.yaml", entries)
    pattern, network = json.loads(command("inspect", tmp_path / "actuon.yaml", "--json", code=1))["problems"]
    assert "actuators.a.joints: '(knee' is not a valid regular expression" in pattern
    assert "actuators.b: " in network
    assert "none.onnx' does not exist" in network


def test_version():
    assert in_a_process("--version")[0].strip() == actuon.__version__


@pytest.fixture
def arm(tmp_path):
    """An arm with its motors, and a file with weaker ones."""
    for name in ("arm.xml", "arm.actuon.yaml"):
        shutil.copy(ASSETS / name, tmp_path)
    weak = tmp_path / "weak.yaml"
    weak.write_text((tmp_path / "arm.actuon.yaml").read_text().replace("kp: 600", "kp: 60"))
    assert weak.read_text() != (tmp_path / "arm.actuon.yaml").read_text()
    return tmp_path / "arm.xml"


def test_the_first_line_says_where_the_motors_are_from(arm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weak = ("--actuators", "weak.yaml")
    for name, rest in (
        ("check", ()),
        ("run", ("--seconds", 0.02)),
        ("plot", ("--kind", "envelope", "-o", "a.png", "--force")),
    ):
        assert command(name, "arm.xml", *rest).splitlines()[0] == "motors from arm.actuon.yaml"
        assert command(name, "arm.xml", *rest, *weak).splitlines()[0] == "motors from weak.yaml"
    assert command("plot", "ak80-9", "-o", "b.png").splitlines()[0] == "motor ak80-9 of the catalogue"
    assert json.loads(command("check", "arm.xml", "--json"))["motors_from"] == "motors from arm.actuon.yaml"


def test_several_files_of_motors_are_compared(arm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    both = ("--actuators", "arm.actuon.yaml", "--actuators", "weak.yaml")
    printed = command("check", "arm.xml", *both)
    own, weak = printed.split("motors from weak.yaml\n")
    assert own.startswith("motors from arm.actuon.yaml\n")
    assert ("│ 600 │" in own, "│ 600 │" in weak) == (True, False)
    first, second = json.loads(command("check", "arm.xml", *both, "--json"))["compared"]
    assert first == json.loads(command("check", "arm.xml", "--json"))
    assert second["robots"][0]["joints"][0]["kp"] == pytest.approx(60.0)
    printed = command("run", "arm.xml", "--seconds", 0.02, *both)
    assert printed.splitlines()[:2] == ["motors from arm.actuon.yaml", "motors from weak.yaml"]
    header = printed[printed.index("┏") : printed.index("┡")]
    for title in ("arm.actuon.yaml", "weak.yaml", "ideal"):
        assert title in header
    printed = command("plot", "arm.xml", "--kind", "step", "-o", "a.png", *both)
    assert printed.splitlines()[:2] == ["motors from arm.actuon.yaml", "motors from weak.yaml"]
    assert (tmp_path / "a.png").exists()


def test_the_studio_compares_files_of_motors(arm, tmp_path, monkeypatch):
    pytest.importorskip("viser", reason="viser is not installed: pip install 'actuon[studio]'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSH_CONNECTION", "somewhere")
    monkeypatch.setattr(actuon.studio.Studio, "wait", mock.Mock(side_effect=KeyboardInterrupt))
    both = ("--actuators", "arm.actuon.yaml", "--actuators", "weak.yaml")
    network = ("--host", "0.0.0.0", "--allow-host", "robot.lan")
    printed = command("studio", "arm.xml", "--port", 8151, *both, *network).splitlines()
    assert printed[:2] == ["motors from arm.actuon.yaml", "motors from weak.yaml"]
    assert "arm.xml (arm.actuon.yaml, weak.yaml): serving at" in "\n".join(printed)
    addresses = [re.search(r"http://[^/ ]+:\d+/([\w-]{22}\.html)", line) for line in printed]
    own, others, tunnel = (found[1] for found in addresses if found)
    assert own == others == tunnel


def test_files_of_motors_that_cannot_be_used(arm, complaint):
    assert "'none.yaml' does not exist" in complaint("check", "arm.xml", "--actuators", "none.yaml")
    assert "--actuators: got 'weak.yaml' for the motor 'ak80-9'" in complaint(
        "plot", "ak80-9", "--actuators", "weak.yaml"
    )
    text = complaint("run", "weak.yaml", "--actuators", "arm.actuon.yaml")
    assert "--actuators: got 'arm.actuon.yaml' for the motors in 'weak.yaml'" in text
    both = ("--actuators", "weak.yaml", "--actuators", "none.yaml")
    assert "'none.yaml' does not exist" in complaint("studio", "arm.xml", *both)


def test_a_short_run_warns_that_there_is_no_push(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = "! no push: it comes at 4.5 s, and the run ends at 0.05 s"
    assert said in command("run", ASSETS / "quadruped.xml", "--seconds", 0.05)
    assert "no push" not in command("run", ASSETS / "arm.xml", "--seconds", 0.05)


def test_motors_that_become_parameters_stand_first():
    rows = [line.split("│") for line in command("motors", "show", "ak80-9").splitlines() if "│" in line]
    used = ["." in cells[5] for cells in rows]
    assert used == sorted(used, reverse=True)
    assert {True, False} == set(used)


@pytest.mark.parametrize(
    "arguments", [("inspect", "arm.usda"), ("plot", "ak80-9"), ("export", "ak80-9", "-o", "a.yaml")]
)
def test_motors_and_usd_files_need_no_engine(arguments, tmp_path):
    shutil.copy(ASSETS / "arm.usda", tmp_path)
    code = "import sys; sys.modules |= {'mujoco': None, 'newton': None}; from actuon.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
