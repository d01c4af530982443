# SPDX-License-Identifier: Apache-2.0
"""``actuon.check`` and ``actuon check``: what they show of a robot, advise and refuse."""

from __future__ import annotations

import json
import shutil

import mujoco
import numpy as np
import pytest

import actuon
from actuon import ActuatorConfig, ArticulationActuators, MujocoSimulation, PDControlConfig
from actuon.stability.advice import percent
from tests.stability.test_stability import TWO
from tests.support.command_line import command

ASSETS = actuon.assets.FOLDER
PENDULUM = """
<mujoco><compiler angle="radian"/><option timestep="0.005"/><worldbody><body name="base">
  <body name="a"><joint name="shoulder" axis="0 1 0" range="-1 1" armature="0.02"/>
    <geom type="capsule" fromto="0 0 0 0.5 0 0" size=".03" mass="2" contype="0"/>
    <body name="b" pos="0.5 0 0"><joint name="elbow" axis="0 1 0" armature="0.001"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 0" size=".02" mass=".2" contype="0"/></body></body>
</body></worldbody>
<actuator><position joint="shoulder" kp="50"/><position joint="elbow" kp="5"/></actuator>
<keyframe><key name="home" qpos="0 0" ctrl="1.5 0"/></keyframe></mujoco>
"""


def saved(folder, gains, **limits):
    """A robot that is held out sideways, with PD controllers, and limits by joint."""
    (folder / "robot.xml").write_text(PENDULUM)
    entries = [
        actuon.ActuatorEntry(name, name, ActuatorConfig(PDControlConfig(kp, kd), clamping=_limit(limits.get(name))))
        for name, (kp, kd) in gains.items()
    ]
    actuon.save_actuators(folder / "robot.actuon.yaml", entries)
    return folder / "robot.xml"


def _limit(effort):
    return [] if effort is None else [actuon.MaxEffortClampingConfig(effort)]


def test_a_stable_robot(tmp_path):
    path = saved(tmp_path, {"shoulder": (50.0, 2.0), "elbow": (5.0, 0.1)})
    found = actuon.check(path)
    assert found.stable
    assert found.problems == []
    assert [row.name for row in found.rows] == ["shoulder", "elbow"]
    (robot,) = found.robots
    assert (robot.path, robot.dt) == ("/base", 0.005)
    assert robot.usage == max(row.usage for row in found.rows) < 1.0 < robot.largest_dt / robot.dt
    table = found.table()
    assert table.splitlines()[1].split()[:2] == ["✓", "shoulder"]
    assert "✗" not in table
    assert "✓ /base: elbow uses " in table
    out = command("check", path)
    assert "│ ✓ │ elbow " in out
    assert out.endswith("✓ no other problems found\n")


def test_the_integrator_of_implicit_efforts_is_not_worth_a_warning_where_nothing_is_stepped(tmp_path, caplog):
    path = saved(tmp_path, {"shoulder": (50.0, 2.0), "elbow": (5.0, 0.1)})
    yaml = path.with_name("robot.actuon.yaml")
    yaml.write_text(yaml.read_text().replace("    controller:", "    effort_mode: implicit\n    controller:"))
    assert all(row.is_implicit for row in actuon.check(path).rows)
    assert not caplog.records
    with MujocoSimulation(path), ArticulationActuators("base"):
        assert "Euler ignores derivatives of efforts" in caplog.text


def test_an_unstable_robot_is_told_what_would_do(tmp_path):
    path = saved(tmp_path, {"shoulder": (50.0, 2.0), "elbow": (50.0, 5.0)})
    found = actuon.check(path)
    assert not found.stable
    assert [row.usage >= 1.0 for row in found.rows] == [False, True]
    (problem,) = found.problems
    elbow = found.rows[1]
    used = f"{100 * elbow.usage:.0f} %"
    assert problem.splitlines() == [
        f"/base: unstable at dt = 5 ms ({used} of the stability limit: elbow {used}). Fix one of:",
        f"- dt ≤ {1e3 * found.robots[0].largest_dt:.3g} ms",
        f"- lower gains: elbow kp {elbow.stable_kp:.3g}, kd {elbow.stable_kd:.3g}",
        f"- armature: elbow ≥ {elbow.armature_needed:.3g} kg·m²",
        "- effort_mode: implicit (implicit integration)",
    ]
    assert found.table().endswith(f"✗ {problem}")
    out = command("check", path, code=1)
    assert " ".join(problem.split()) in " ".join(out.split())
    assert used in out
    assert "unstable from 100 %; armature → minimum" in " ".join(out.split())
    assert out.count(used) == 3  # in the table, and twice in the problem
    assert "suggested" not in out
    assert "│ ✗ │ elbow " in out
    assert actuon.check(path, dt=0.5 * found.robots[0].largest_dt).stable
    command("check", path, "--dt", 0.5 * found.robots[0].largest_dt)
    assert actuon.check(tmp_path / "robot.actuon.yaml").to_json() == found.to_json()


@pytest.mark.parametrize("joints", [range(7), (6,)], ids=["all", "without the others"])
def test_each_fix_names_all_unstable_joints_and_makes_them_stable(joints):
    """Gains of one unstable joint alone leave the robot unstable."""
    found = actuon.check(actuon.assets.arm_mjcf, dt=0.01)
    unstable = [row for row in found.rows if row.usage >= 1.0]
    assert len(unstable) > 4
    (problem,) = found.problems
    for fix in ("- lower gains: ", "- armature: "):
        (line,) = (line for line in problem.splitlines() if line.startswith(fix))
        assert all(f"{row.name} " in line for row in unstable)
    pairs = []
    for i, row in enumerate(found.rows):
        lower = 0.999 if i in joints else np.inf
        gains = actuon.PDControlConfig(min(row.kp, lower * row.stable_kp), min(row.kd, lower * row.stable_kd))
        pairs.append((actuon.ActuatorConfig(gains), row.name))
    assert actuon.check(actuon.assets.arm_mjcf, dt=0.01, actuators=pairs).stable == (len(joints) == 7)


def test_programs_get_json(tmp_path):
    path = saved(tmp_path, {"shoulder": (50.0, 2.0), "elbow": (50.0, 5.0)}, shoulder=1.0)
    report = json.loads(command("check", path, "--json", code=1))
    found = json.loads(actuon.check(path).to_json())
    assert report["file"] == str(path)
    assert report["stable"] is False
    assert report["robots"] == found["robots"]
    assert report["problems"] == found["problems"]
    assert report["warnings"] == found["warnings"]
    shoulder, elbow = report["robots"][0]["joints"]
    assert shoulder["highest_effort"] == 1.0
    assert elbow["highest_effort"] == "inf"
    assert elbow["delay_margin"] is None
    assert elbow["usage"] > 1.0


def test_targets_out_of_range_and_limits_that_always_clip_are_said(tmp_path):
    path = saved(tmp_path, {"shoulder": (50.0, 2.0), "elbow": (5.0, 0.1)}, shoulder=3.0, elbow=0.0)
    target, sinks, nothing = actuon.check(path).warnings
    assert target == "'/base': targets outside the range of their joints: shoulder 1.5, range -1 to 1"
    assert sinks.startswith("shoulder: holding the start pose needs 6.")
    assert "but the motor delivers at most 3 N·m at rest: the joint will sag and stay saturated" in sinks
    assert nothing == "elbow: the motor delivers no effort at rest; check its limits"
    assert "! shoulder: holding" in command("check", path)


@pytest.mark.parametrize("gains", [(0.0, 2.0), (0.0, 0.0), (1.0, 0.1)], ids=str)
def test_limits_of_drives_that_hardly_follow_positions_are_found(gains, tmp_path):
    found = actuon.check(saved(tmp_path, {"shoulder": gains, "elbow": gains}, shoulder=40.0, elbow=30.0))
    assert [(row.lowest_effort, row.highest_effort) for row in found.rows] == [(-40.0, 40.0), (-30.0, 30.0)]
    assert not [text for text in found.warnings if "delivers no effort" in text]


def test_gravity_in_other_poses_is_said():
    with MujocoSimulation(ASSETS / "arm.xml"):
        pairs = [(ActuatorConfig(PDControlConfig(600.0, 50.0), clamping=_limit(20.0)), "joint2")]
        with ArticulationActuators.from_actuators("link0", pairs) as actuators:
            (warning,) = actuon.check(actuators).warnings
    assert warning.startswith("joint2: holding some poses needs up to 3")


def test_robots_that_have_actuators_are_checked_as_they_are():
    """With gains that were changed since, and the inertia of motors; the robots are as before."""
    pairs = [(ActuatorConfig(PDControlConfig(1.0, 0.1)), "turn")]
    model = mujoco.MjModel.from_xml_string(TWO.replace("DAMPING", "0"))
    with MujocoSimulation(model, num_envs=2) as simulation:
        actuators = ArticulationActuators.from_actuators("base", pairs)
        before = simulation.save_state().engine.copy()
        first = actuon.check(actuators)
        actuators.actuators[0].controller.kp.assign([1.0, 3.0])
        second = actuon.check(actuators)
        np.testing.assert_array_equal(simulation.save_state().engine, before)
    assert (first.rows[0].kp, second.rows[0].kp) == (pytest.approx(1.0), pytest.approx(3.0))
    assert second.rows[0].usage > first.rows[0].usage


def test_implicit_groups_are_the_engines_own():
    pytest.importorskip("torch")
    from actuon.lab import ActuatorGroups, IdealPDActuatorCfg, ImplicitActuatorCfg

    explicit = IdealPDActuatorCfg(joint_names_expr=["joint[1-4]"], stiffness=600.0, damping=50.0)
    implicit = ImplicitActuatorCfg(joint_names_expr=["joint[5-7]"], stiffness=1e5, damping=1e4)
    with MujocoSimulation(ASSETS / "arm.xml"):
        groups = ActuatorGroups(actuon.Articulation("link0"), {"arm": explicit, "wrist": implicit})
        found = actuon.check(groups, poses=4)
    assert [row.name for row in found.rows] == [f"joint{i}" for i in range(1, 5)]
    assert found.stable


def test_a_usd_robot_is_looked_at_in_newton(tmp_path):
    found = actuon.check(ASSETS / "quadruped.usda")
    assert found.stable
    assert found.robots[0].path == "/Quadruped"
    assert len(found.rows) == 12
    assert found.rows[0].hold_effort is None


def test_actuators_of_choice_in_the_place_of_those_of_the_file():
    pairs = [(ActuatorConfig(PDControlConfig(600.0, 5000.0)), "joint2")]
    found = actuon.check(ASSETS / "arm.xml", actuators=pairs, poses=0)
    assert [row.name for row in found.rows] == ["joint2"]
    assert not found.stable


def test_a_robot_without_actuators(tmp_path, complaint):
    shutil.copy(ASSETS / "arm.xml", tmp_path / "arm.xml")
    with pytest.raises(
        actuon.RobotFileError, match="no actuators found for '/link0': neither NewtonActuator prims nor"
    ):
        actuon.check(tmp_path / "arm.xml")
    out = command("check", tmp_path / "arm.xml")
    assert "! stability is that of the engine's own drives as explicit actuators" in out
    assert "✓ no other problems found" in out


def test_joints_without_gains_get_suggestions_and_no_verdict(tmp_path):
    path = saved(tmp_path, {"shoulder": (0.0, 0.0), "elbow": (5.0, 0.1)}, shoulder=40.0)
    out = command("check", path, code=1)
    shoulder, elbow = ([cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line)
    assert shoulder[:2] + shoulder[5:-1] == ["—", "shoulder", *["—"] * 6]
    assert elbow[:2] == ["✓", "elbow"]
    kp, kd = (float(cell.removeprefix("0 → ")) for cell in shoulder[3:5])
    assert 0.0 < kd < kp <= 80.0  # which reach the limit at 0.5 rad
    assert f"- kp {kp:g}, kd {kd:g}: shoulder" in out
    found = json.loads(command("check", path, "--json", code=1))
    assert found["suggested"]["shoulder"] == {"kp": kp, "kd": kd}
    saved(tmp_path, {"shoulder": (kp, kd), "elbow": (5.0, 0.1)}, shoulder=40.0)
    assert actuon.check(path).stable
    saved(tmp_path, {"shoulder": (0.0, 0.0), "elbow": (0.0, 0.0)})
    assert "— /base: no joint has gains, so there is no stability limit" in command("check", path, code=1)


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (0.0, "0 %"),
        (0.0123, "1.2 %"),
        (0.336, "34 %"),
        (0.9999, "99 %"),
        (1.0, "100 %"),
        (1.7, "170 %"),
        (1e6, "1e+08 %"),
    ],
)
def test_a_usage_of_less_than_the_limit_is_below_100_percent(usage, text):
    assert percent(usage) == text


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"robot": "nowhere.xml"}, "'nowhere.xml' does not exist"),
        ({"robot": "robot.txt"}, "'robot.txt' has the format '.txt'; must be one of"),
        ({"robot": 3}, "robot: got int; must be the path of a robot's file, or actuators on robots"),
        ({"dt": 0.0}, "dt: got 0.0; must be a number from 1e-07 to 1 "),
        ({"dt": -0.1}, "dt: got -0.1; must be a number from 1e-07 to 1 "),
        ({"dt": float("nan")}, "dt: got nan; must be a number from 1e-07 to 1 "),
        ({"dt": 1e300}, r"dt: got 1e\+300; must be a number from 1e-07 to 1 "),
        ({"dt": "fast"}, "dt: got 'fast'; must be a number from 1e-07 to 1 "),
        ({"poses": -1}, "poses: got -1; must be a whole number ≥ 0"),
        ({"poses": 2.5}, "poses: got 2.5; must be a whole number ≥ 0"),
    ],
)
def test_bad_arguments(arguments, match):
    with pytest.raises(actuon.ActuonError, match=match):
        actuon.check(**{"robot": ASSETS / "arm.xml"} | arguments)


@pytest.mark.parametrize("dt", [1e-7, 1.0])
def test_the_shortest_and_the_longest_step_find_the_same_limit(dt):
    found = actuon.check(ASSETS / "arm.xml", dt, poses=0)
    assert found.robots[0].largest_dt == pytest.approx(5.9e-3, rel=0.05)


def test_a_yaml_without_a_robot_or_for_several(tmp_path):
    yaml = tmp_path / "actuon.yaml"
    shutil.copy(ASSETS / "arm.actuon.yaml", yaml)
    with pytest.raises(actuon.RobotFileError, match="no robot file next to"):
        actuon.check(yaml)
    for name in ("one.xml", "other.xml"):
        shutil.copy(ASSETS / "arm.xml", tmp_path / name)
    with pytest.raises(actuon.RobotFileError, match="several robot files next to actuon.yaml"):
        actuon.check(yaml)
    assert actuon.check(tmp_path / "one.xml", poses=0).stable


@pytest.mark.parametrize("dt", ["0", "-1", "nan", "inf"])
def test_the_command_refuses_a_bad_time_step(dt, complaint):
    assert "--dt: got " in complaint("check", ASSETS / "arm.xml", "--dt", dt)


def test_gains_of_nan_are_refused_where_they_are_read(tmp_path, complaint):
    shutil.copy(ASSETS / "arm.xml", tmp_path / "arm.xml")
    text = (ASSETS / "arm.actuon.yaml").read_text()
    (tmp_path / "arm.actuon.yaml").write_text(text.replace("kp: 600.0", "kp: .nan"))
    with pytest.raises(actuon.RobotFileError, match="PDControlConfig.kp: got nan; must be finite"):
        actuon.check(tmp_path / "arm.xml")
    assert "PDControlConfig.kp: got nan" in complaint("check", "arm.xml")


def test_gains_per_degree_are_suspected(tmp_path):
    path = saved(tmp_path, {"shoulder": (200.0 / 57.3, 2.0), "elbow": (5.0, 0.1)})
    (sag,) = (warning for warning in actuon.check(path).warnings if "pose needs" in warning)
    assert sag.startswith("shoulder: holding the start pose needs ")
    assert sag.endswith(
        "its gains are low for the load (kp 3.49 N·m/rad); if they are per degree, multiply them by 57.3"
    )
    ok = saved(tmp_path, {"shoulder": (200.0, 2.0), "elbow": (5.0, 0.1)})
    assert not any("per degree" in warning for warning in actuon.check(ok).warnings)


def test_an_armature_of_another_motor_is_suspected(tmp_path):
    limits = {"shoulder": 30.0, "elbow": 0.52}
    path = saved(tmp_path, {"shoulder": (200.0, 2.0), "elbow": (5.0, 0.1)}, **limits)
    assert not any("armature" in warning for warning in actuon.check(path).warnings)
    path.write_text(PENDULUM.replace('armature="0.001"', 'armature="0.5"'))
    (found,) = (warning for warning in actuon.check(path).warnings if "armature" in warning)
    assert found == (
        "elbow: an armature of 0.5 kg·m² is large for a motor of 0.52 N·m, which accelerates it alone by 1.04 rad/s²; "
        "is it another motor's?"
    )


def test_a_limit_beyond_any_time_step_is_not_a_number(tmp_path):
    path = saved(tmp_path, {"shoulder": (5.0, 0.1), "elbow": (0.001, 0.0)})
    assert "stable at any time step used in practice" in actuon.check(path, poses=0).table()
