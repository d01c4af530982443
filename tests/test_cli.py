# SPDX-License-Identifier: Apache-2.0
"""The actuon command, run as users run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from pxr import Usd, UsdPhysics
from robot_files import EXAMPLES, add, robot, save_robot

import actuon


def command(*arguments, code=0, cwd=None):
    environment = os.environ | {"COLUMNS": "160", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "actuon.tools.cli", *map(str, arguments)],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code < 2 else done.stderr


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "robot.usda"
    stage = robot(Usd.Stage.CreateNew(str(path)))
    drive = UsdPhysics.DriveAPI.Apply(stage.GetPrimAtPath("/Robot/joints/hip"), "angular")
    drive.CreateStiffnessAttr(1.0)
    prim = add(stage, EXAMPLES["everything"])
    prim.AddAppliedSchema("NewtonActuatorDelayAPI")
    prim.RemoveProperty("newton:delaySteps")
    stage.GetRootLayer().Save()
    return path


def test_inspect_prints_every_joint_its_values_units_and_sources(file):
    out = command("inspect", file)
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]
    assert ["knee", "Delay", "delay_steps", "1", "steps", "schema default"] in lines
    assert ["", "ControllerPID", "kp", "0.1", "N·m/rad", "authored"] in lines
    assert ["", "", "max_motor_effort", "inf", "N·m", "authored"] in lines
    assert ["hip", "engine drive (no actuator)", "stiffness", "57.2958", "N·m/rad", "authored"] in lines
    assert ["slide", "nothing", "", "", "", ""] in lines
    assert "3 joints, 1 with an actuator" in out
    assert "nothing is wrong" in out


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
    assert "nothing is wrong" not in out


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
    command("author", plain, tmp_path / "actuon.yaml", "-o", plain)
    command("author", plain, tmp_path / "actuon.yaml", "-o", plain, "--overwrite")
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
        (("inspect", "actuon.yaml"), "must be one of .usda"),
        (("inspect", "robot.usda", "--root", "/Robo"), "Did you mean '/Robot'"),
        (("export", "none.usda", "-o", "x.yaml"), "does not exist"),
        (("export", "bare.usda", "-o", "x.yaml"), "has no actuators"),
        (("export", "robot.usda", "-o", "nowhere/x.yaml"), "cannot be written"),
        (("author", "robot.usda", "none.yaml", "-o", "x.usda"), "No such file"),
        (("author", "robot.usda", "half.yaml", "-o", "x.usda"), "half.yaml"),
        (("author", "half.usda", "actuon.yaml", "-o", "x.usda"), "cannot be read"),
        (("author", "robot.usda", "actuon.yaml", "-o", "x.txt"), "format '.txt'"),
        (("author", "robot.usda", "actuon.yaml", "-o", "nowhere/x.usda"), "its folder does not exist"),
        (("author", "robot.usda", "actuon.yaml", "-o", "x.usda"), "already"),
        (("author", "bare.usda", "wrong.yaml", "-o", "x.usda"), "'elbow' matches no joint"),
        (("author", "bare.usda", "net.yaml", "-o", "x.usda"), "none.onnx' does not exist"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_code_2(file, arguments, match):
    folder = file.parent
    (folder / "half.usda").write_text('#usda 1.0\ndef Xform "Robot" {')
    (folder / "half.yaml").write_text("actuators: {legs: [")
    save_robot(folder / "bare.usda")
    actuon.save_actuators(folder / "actuon.yaml", actuon.export_actuators(file))
    actuon.save_actuators(folder / "wrong.yaml", [actuon.ActuatorEntry("a", "elbow", EXAMPLES["pd"])])
    neural = actuon.ActuatorConfig(actuon.NeuralControlConfig(folder / "none.onnx"))
    actuon.save_actuators(folder / "net.yaml", [actuon.ActuatorEntry("a", "knee", neural)])
    before = sorted(path.name for path in folder.iterdir())
    error = command(*arguments, code=2, cwd=folder)
    assert match in error
    assert error.startswith("actuon: ")
    assert len(error.strip().splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == before


ASSETS = actuon.assets.FOLDER


@pytest.mark.parametrize(
    ("robot_file", "engine"), [("quadruped.xml", None), ("quadruped.usda", None), ("arm.usda", "mujoco")]
)
def test_run_moves_a_robot_and_shows_it(robot_file, engine, tmp_path):
    options = ["--engine", engine] if engine else []
    out = command(
        "run",
        ASSETS / robot_file,
        "--seconds",
        0.4,
        "--envs",
        2,
        "-o",
        tmp_path,
        "--record",
        tmp_path / "r.csv",
        *options,
    )
    names = [line.split("│")[1].strip() for line in out.splitlines() if "│" in line]
    assert [name for name in names if name][-1] in ("RR_calf_joint", "joint7")
    assert "real motor" in out
    assert "ideal PD" in out
    for name in ("tracking.png", "effort.png", "torque_speed.png"):
        assert (tmp_path / name).stat().st_size > 10_000
    assert (tmp_path / "r.csv").read_text().startswith("time,position/0/")


def test_run_shows_what_limits_do(tmp_path):
    """In six seconds the quadruped stands up against the limits of its calves, and is still up after the push."""
    from actuon.tools.run import simulate, summary

    real, ideal = (simulate("mujoco", ASSETS / "quadruped.xml", 6.0, 1, ideal)[0] for ideal in (False, True))
    rows = {name: row for name, *row in summary(real)}
    assert rows["FL_calf_joint"][2] > 0.005
    assert rows["FL_calf_joint"][1] <= 35.55
    assert {name: row for name, *row in summary(ideal)}["FL_calf_joint"][1] > 40.0
    assert not ideal.data["clipped"].any()
    for run in (real, ideal):
        assert run.upright.min() > 0.8
        assert run.upright[-1].min() > 0.99
        assert abs(run.heights[-1, 0] - 0.27) < 0.02
        assert run.heights.min() < 0.2  # it squatted
    assert ideal.heights.max() > real.heights.max() + 0.02  # and jumps, the ideal one higher than motors could


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("run", "none.xml"), "'none.xml' does not exist"),
        (("run", "robot.txt"), "must be one of .xml"),
        (("run", "robot.usda", "--engine", "bullet"), "must be one of mujoco, newton"),
        (("run", "robot.usda", "--engine", "mujoco"), "there is no robot.xml beside it"),
        (("run", "arm.xml"), "has no actuators"),
    ],
)
def test_run_with_bad_arguments(arguments, match, tmp_path):
    save_robot(tmp_path / "robot.usda")
    shutil.copy(ASSETS / "arm.xml", tmp_path)
    lines = command(*arguments, code=2, cwd=tmp_path).strip().splitlines()
    lines = [line for line in lines if "CUDA" not in line]  # Warp itself says that there is no driver
    assert len(lines) == 1
    assert match in lines[0]


def test_version_and_help():
    assert command("--version").strip() == actuon.__version__
    for name in ("inspect", "author", "export"):
        assert name in command("--help")
