# SPDX-License-Identifier: Apache-2.0
"""The catalogue of motors: complete, consistent, and reached from YAML and the command line."""

from __future__ import annotations

import logging
import re
import tomllib

import numpy as np
import pytest
from pxr import Usd

import actuon
from actuon.motors.catalogue import CATALOGUE
from actuon.motors.unmodelled import limits_of_model, unmodelled
from tests.support.command_line import command
from tests.support.robot_files import add, save_robot

NAMES = actuon.motor_names()
ENTRY = """
actuators:
  legs:
    joints: [".*"]
    motor: {motor}
    controller: {{type: pd, kp: 25.0, kd: 0.5}}
"""


def load(folder, motor, more=""):
    path = folder / "motors.yaml"
    path.write_text(ENTRY.format(motor=motor) + more)
    (entry,) = actuon.load_actuators(path)
    return entry.actuator


def test_there_are_many_and_every_figure_has_a_source():
    written = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))["motors"]
    assert len(NAMES) >= 12
    assert len({actuon.find_motor(name).vendor for name in NAMES}) >= 5
    for name in NAMES:
        motor = actuon.find_motor(name)
        assert set(motor.sources) == set(motor.datasheet.values)
        assert set(written[name]) <= {"vendor", "aliases", "robots", "sources", "values", "notes", "tolerance"}
        assert set(written[name]["sources"]) == {said["source"] for said in written[name]["values"].values()}
        assert all(set(said) <= {"value", "at", "source"} for said in written[name]["values"].values())
        assert all("." in source for source in motor.sources.values())


@pytest.mark.parametrize("name", NAMES)
def test_values_at_other_voltages_can_be_entered(name, tmp_path):
    for note in actuon.find_motor(name).notes:
        if found := re.match(r"at [\d.]+ V: (.*)", note):
            values = ", ".join(f"{key}: {value}" for key, value in re.findall(r"(\w+) ([\d.]+)", found[1]))
            assert load(tmp_path, f"{{name: {name}, {values}}}").stages


@pytest.mark.parametrize("name", NAMES)
def test_a_data_sheet_is_its_own_description(name):
    sheet = actuon.find_motor(name).datasheet
    assert repr(eval(repr(sheet), {"MotorDatasheet": actuon.MotorDatasheet})) == repr(sheet)


def largest_efforts(sheet, speeds):
    """Return the largest effort at the joint along the motion, at each of these speeds."""
    builder = actuon.ActuatorBuilder()
    for index in range(len(speeds)):
        builder.add(sheet.actuator(actuon.PDControlConfig(1e6, 0.0)), index=index)
    (actuator,) = builder.finalize()
    zeros, state = np.zeros(len(speeds), np.float32), actuator.state()
    sim = {"joint_q": zeros, "joint_qd": np.asarray(speeds, np.float32), "joint_target_q": zeros + 1.0}
    sim |= {"joint_target_qd": zeros, "joint_f": np.zeros(len(speeds), np.float32)}
    actuator.step(sim, sim, state, state, dt=1e-3)
    return sim["joint_f"]


def assert_envelope_is_printed(sheet):
    """The envelope at the joint against the values of its own table."""
    values = sheet.at_joint
    corners = values.get("driving_curve", ())
    most = values.get("peak_torque", values.get("stall_torque", corners[0][1] if corners else None))
    fastest = values.get("max_speed", values.get("no_load_speed", corners[-1][0] if corners else None))
    ends = () if fastest is None else (0.999 * fastest, 1.001 * fastest)
    rated = values.get("rated_speed", 0.0)
    efforts = largest_efforts(sheet, np.maximum([0.0, rated, *ends, *(speed for speed, _ in corners)], 1e-6))
    at_rest, at_rated, *rest = efforts
    assert at_rest == pytest.approx(most, rel=1e-5)
    assert at_rated >= values.get("rated_torque", 0.0)
    if ends:
        assert rest[0] > 0.0 >= rest[1]
    np.testing.assert_allclose(rest[len(ends) :], [effort for _, effort in corners], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_envelope_of_each_is_what_its_table_prints(name):
    assert_envelope_is_printed(actuon.find_motor(name).datasheet)


def test_an_envelope_starts_and_ends_where_both_ends_are_printed():
    """The printed constants give 0.594 N·m at rest and no torque from 400 rad/s on."""
    sheet = actuon.MotorDatasheet(
        "joint", stall_torque=0.55, no_load_speed=420.0, kt=0.06, resistance=2.424, supply_voltage=24.0
    )
    assert_envelope_is_printed(sheet)
    became = {use.name: use.became for use in sheet.table()}
    assert became["no_load_speed"] == "voltage.torque_constant"
    assert became["stall_torque"] == "voltage.resistance"
    assert became["kt"] == became["resistance"] == "cross-check only"


def test_names_are_found_however_they_are_spelled():
    assert actuon.find_motor("AK80 9") is actuon.find_motor("ak80-9")
    assert actuon.find_motor("XL_330-m288").name == "xl330-m288"
    with pytest.raises(actuon.ParameterError, match="unknown motor 'ak809v9'; motors: .* Did you mean 'ak80-9'"):
        actuon.find_motor("ak809v9")
    with pytest.raises(actuon.ParameterError, match="got 7; must be the name of a motor"):
        actuon.find_motor(7)


def test_names_on_motors_are_aliases(tmp_path):
    """Each names one motor, differs from all names, and works in YAML."""
    aliases = [alias for name in NAMES for alias in actuon.find_motor(name).aliases]
    assert {"RS03", "XL330-M288-T", "DM-J4340-2EC"} <= set(aliases)
    plain = [name.replace("-", "").replace(".", "").replace(" ", "").lower() for name in (*NAMES, *aliases)]
    assert len(set(plain)) == len(plain)
    for name in NAMES:
        assert all(actuon.find_motor(alias).name == name for alias in actuon.find_motor(name).aliases)
    assert load(tmp_path, "RS03") == load(tmp_path, "robstride-03")


def test_a_motor_by_name_in_yaml(tmp_path):
    sheet = actuon.find_motor("ak80-9").datasheet
    loaded = load(tmp_path, "ak80-9", "    delay: {delay_steps: 2}\n    effects: []\n")
    pd = actuon.PDControlConfig(25.0, 0.5)
    assert loaded == sheet.actuator(pd, delay=actuon.DelayConfig(2))
    entry = actuon.ActuatorEntry("legs", (".*",), loaded)
    actuon.save_actuators(tmp_path / "saved.yaml", [entry])
    assert actuon.load_actuators(tmp_path / "saved.yaml") == [entry]
    assert "motor:" not in (tmp_path / "saved.yaml").read_text()


def test_values_of_a_motor_can_be_replaced_in_yaml(tmp_path):
    pd = actuon.PDControlConfig(25.0, 0.5)
    knee = load(tmp_path, "{name: mini-cheetah, gear_ratio: 9.33, peak_torque: null}")
    sheet = actuon.find_motor("mini-cheetah").datasheet
    assert knee == sheet.replaced(gear_ratio=9.33, peak_torque=None).actuator(pd)
    own = load(tmp_path, "{at: joint, stall_torque_kgcm: 30, no_load_speed_s_per_60deg: 0.22}")
    expected = actuon.MotorDatasheet("joint", stall_torque_kgcm=30, no_load_speed_s_per_60deg=0.22)
    assert own == expected.actuator(pd)


@pytest.mark.parametrize("name", ["unitree-go2", "ak80-9"])  # without and with a gear of its own
def test_a_transmission_of_an_entry_stands_between_joint_and_motor(tmp_path, name):
    more = """
    transmission: {type: linkage, joint_positions: [-2.0, 0.0], motor_positions: [-3.0, 0.0]}
    clamping: [{type: max_effort, max_effort: 3.0}]
"""
    motor = actuon.find_motor(name).datasheet.stages()
    rod = actuon.LinkageTransmissionConfig([-2.0, 0.0], [-3.0, 0.0])
    expected = [rod, *motor, actuon.MaxEffortClampingConfig(3.0)]
    assert load(tmp_path, name, more).stages[1:] == expected


def test_a_motor_among_stages_in_yaml(tmp_path):
    path = tmp_path / "stages.yaml"
    path.write_text("""
actuators:
  legs:
    joints: [".*"]
    stages:
      - controller: {type: pd, kp: 25.0, kd: 0.5}
      - clamping: {type: max_effort, max_effort: 15.0}
      - motor: mini-cheetah
""")
    (entry,) = actuon.load_actuators(path)
    motor = actuon.find_motor("mini-cheetah").datasheet.stages()
    assert entry.actuator.stages[1:] == [actuon.MaxEffortClampingConfig(15.0), *motor]


@pytest.mark.parametrize(
    ("motor", "message"),
    [
        ("ak80-8", "actuators.legs.motor: unknown motor 'ak80-8'; .* Did you mean 'ak80-"),
        ("7", "actuators.legs.motor: got 7; must be the name of a motor"),
        ("{gear_ratio: 9.0}", "actuators.legs.motor: needs the 'name' of a motor, or 'at'"),
        (
            "{name: ak80-9, torque: 9.0}",
            "actuators.legs.motor: MotorDatasheet: 'torque' is ambiguous; use one of stall_torque",
        ),
        ("{name: ak80-9, kt: 0.2}", "actuators.legs.motor: MotorDatasheet: kt is 0.2 N·m/A"),
        ("{name: ak80-9, 7: 0.2}", "actuators.legs.motor: got the key 7; must be the name of a value"),
        ("{name: ak80-9, kt: {a: 1}}", "actuators.legs.motor: MotorDatasheet.kt: got "),
        ("{at: joint, driving_curve: 7}", "actuators.legs.motor: MotorDatasheet.driving_curve: got 7"),
        ("{at: {peak_torque: [1]}, peak_torque: 7}", "actuators.legs.motor: MotorDatasheet.at: got "),
        ("{at: 7, peak_torque: 7}", "actuators.legs.motor: needs the 'name' of a motor, or 'at'"),
    ],
)
def test_bad_motors_in_yaml_are_refused_by_place(tmp_path, motor, message):
    with pytest.raises(actuon.RobotFileError, match=message):
        load(tmp_path, motor)


PENDULUM = """
<mujoco><option timestep="0.002"/><worldbody><body><joint name="hip"/><geom size="0.1"/></body></worldbody></mujoco>
"""
BARE = "motor ak80-9: friction and heat are not modelled; its vendor rates it for 9 N·m, and the model allows more"


@pytest.mark.parametrize("door", ["yaml", "usd", "from_actuators", "Motors", "load"])
def test_a_robot_is_told_what_its_motor_does_not_model(door, tmp_path, caplog):
    motor = load(tmp_path, "AK80-9")
    robot = tmp_path / "robot.xml"
    robot.write_text(PENDULUM)
    (tmp_path / "motors.yaml").rename(tmp_path / "actuon.yaml")
    with caplog.at_level(logging.WARNING, "actuon.actuators"):
        if door == "Motors":
            actuon.Motors(tmp_path / "actuon.yaml", ["hip", "knee"], num_envs=2)
        elif door == "usd":  # rounds to 32 bits
            path = save_robot(tmp_path / "robot.usda")
            stage = Usd.Stage.Open(str(path))
            add(stage, motor)
            stage.GetRootLayer().Save()
            actuon.Motors(path, ["knee"])
        elif door == "load":
            actuon.mujoco.load(robot, tmp_path / "actuon.yaml")
        else:
            with actuon.MujocoSimulation(robot, num_envs=2) as simulation:
                if door == "yaml":
                    actuon.ArticulationActuators(simulation.robots[0].name)
                else:
                    actuon.ArticulationActuators.from_actuators(simulation.robots[0].name, [(motor, "hip")])
    assert caplog.messages[0].startswith(BARE)
    assert caplog.text.count("not modelled") == 1


def test_effects_that_a_file_adds_are_not_missed(tmp_path, caplog):
    friction = "    effects: [{type: friction, dynamic: 0.2}]\n"
    assert unmodelled(load(tmp_path, "ak80-9", friction).stages) == ("heat",)
    with caplog.at_level(logging.WARNING, "actuon.actuators"):
        actuon.Motors(tmp_path / "motors.yaml", ["hip"], inertia=0.1)
    assert caplog.messages[0].startswith("motor ak80-9: heat is not modelled; its vendor rates it for 9 N·m")
    caplog.clear()
    thermal = {
        "winding_thermal_resistance": 1.2,
        "housing_thermal_resistance": 3.0,
        "winding_time_constant": 8.0,
        "housing_time_constant": 900.0,
    }
    sheet = actuon.find_motor("ak80-9").datasheet.replaced(**thermal, max_winding_temperature=120.0)
    warm = sheet.actuator(actuon.PDControlConfig(kp=25.0, kd=0.5))
    warm.effects.append(actuon.FrictionEffectConfig(dynamic=0.2))
    assert not limits_of_model(actuon.find_motor("ak80-9"), warm.stages)
    with caplog.at_level(logging.WARNING, "actuon.actuators"):
        actuon.Motors(warm, ["hip"], inertia=0.1)
    assert "not modelled" not in caplog.text


def test_the_command_lists_and_shows_them(tmp_path, complaint):
    listed = command("motors")
    assert all(name in listed for name in NAMES)
    assert "rated" in listed.splitlines()[1]
    assert "Not modelled: friction and heat of all motors" in listed
    shown = command("motors", "show", "ak80-9")
    for text in ("peak_torque", "voltage.max_current", "kv_rpm_per_volt", "cubemars.com", "gear: ratio 9", "Ω"):
        assert text in shown
    assert BARE in " ".join(shown.split())
    assert "contradicts kv" in command("motors", "show", "AK70-10")
    assert "unknown motor 'ak99'" in complaint("motors", "show", "ak99")
    load(tmp_path, "ak80-9")
    rows = {
        line.split("│")[3].strip(): line for line in command("inspect", tmp_path / "motors.yaml").splitlines()[4:-2]
    }
    assert rows["torque_constant"].split("│")[-2].strip() == "motor"
    assert rows["efficiency"].split("│")[-2].strip() == "default"
    assert rows["kp"].split("│")[-2].strip() == "authored"
