# SPDX-License-Identifier: Apache-2.0
"""Motors from data sheets: parameters from values, sides of the gear, contradictions."""

from __future__ import annotations

import math
from typing import get_type_hints

import numpy as np
import pytest

import actuon
from actuon.motors.quantities import QUANTITIES, SPELLINGS, SheetValues
from tests.support.paths import ROOT

SERVO = dict(stall_torque=6.0, no_load_speed_rpm=63.0, supply_voltage=12.0, stall_current=4.1)
DRIVE = dict(
    peak_torque=22.0,
    rated_torque=9.0,
    no_load_speed_rpm=570.0,
    kt=0.095,
    kv_rpm_per_volt=100.0,
    resistance_mohm=160.0,
    supply_voltage=48.0,
    gear_ratio=9.0,
    rotor_inertia_gcm2=579.0,
)
DRIVE_AT = {"peak_torque": "joint", "rated_torque": "joint", "no_load_speed_rpm": "joint", "kt": "motor", "kv": "motor"}
HEAT = dict(
    winding_thermal_resistance=1.0,
    housing_thermal_resistance=2.0,
    winding_time_constant=20.0,
    housing_time_constant=900.0,
    max_winding_temperature=120.0,
)
RPM = 2.0 * math.pi / 60.0


def uses(sheet):
    return {use.name: use.became for use in sheet.table()}


def test_stall_torque_and_no_load_speed_make_a_dc_motor():
    sheet = actuon.MotorDatasheet("joint", **SERVO)
    assert sheet.stages() == [actuon.DCMotorClampingConfig(6.0, 63.0 * RPM, 6.0)]
    assert uses(sheet)["stall_torque"] == "dc_motor.saturation_effort"
    assert uses(sheet)["no_load_speed_rpm"] == "dc_motor.velocity_limit"
    assert uses(sheet)["stall_current"] == "not used"
    capped = sheet.replaced("joint", peak_torque=4.0)
    assert capped.stages() == [actuon.DCMotorClampingConfig(6.0, 63.0 * RPM, 4.0)]


def test_with_a_gear_the_limits_are_the_motors():
    sheet = actuon.MotorDatasheet("joint", gear_ratio=200.0, **SERVO)
    gear, motor = sheet.stages()
    assert gear == actuon.GearTransmissionConfig(ratio=200.0)
    assert motor == actuon.DCMotorClampingConfig(6.0 / 200.0, 63.0 * RPM * 200.0, 6.0 / 200.0)
    turned = {"stall_torque": 6.0 / 200.0, "no_load_speed": 63.0 * RPM * 200.0}
    rest = {"supply_voltage": 12.0, "stall_current": 4.1}
    assert actuon.MotorDatasheet("motor", gear_ratio=200.0, **turned, **rest).stages() == [gear, motor]


def test_a_torque_at_the_joint_is_what_the_gears_losses_leave():
    sheet = actuon.MotorDatasheet("joint", gear_ratio=10.0, gear_efficiency=0.8, peak_torque=16.0)
    assert sheet.at_motor["peak_torque"] == pytest.approx(2.0)
    assert sheet.at_joint["peak_torque"] == 16.0
    assert actuon.MotorDatasheet("motor", gear_ratio=10.0, gear_efficiency=0.8, peak_torque=2.0).at_joint[
        "peak_torque"
    ] == pytest.approx(16.0)


@pytest.mark.parametrize(
    ("at", "values", "knows"),
    [
        ("joint", {"peak_torque": 16.0}, True),
        ("motor", {"peak_torque": 2.0}, False),
        ({"peak_torque": "joint", "kt": "motor"}, {"peak_torque": 16.0, "kt": 0.1}, False),
        ({"peak_torque": "motor", "kt": "joint"}, {"peak_torque": 2.0, "kt": 0.8}, True),
        ({"stall_torque": "joint", "rated_torque": "motor"}, {"stall_torque": 16.0, "rated_torque": 1.0}, False),
    ],
)
def test_a_drive_that_was_calibrated_at_the_joint_compensates_the_losses_of_its_gear(at, values, knows):
    """A torque constant decides, or all torques."""
    sheet = actuon.MotorDatasheet(at, gear_ratio=10.0, gear_efficiency=0.8, **values)
    assert sheet.stages()[0].compensates_losses is (True if knows else None)
    (how,) = (use.how for use in sheet.table() if use.name == "gear_efficiency")
    assert how == "both ways" + "; the drive compensates losses, as its torque is for the joint" * knows
    without = sheet.replaced(gear_efficiency=None)
    assert without.stages()[0].compensates_losses is None
    motors = actuon.Motors(sheet.actuator(actuon.PDControlConfig(0.0, 0.0)), ["joint"])
    asked = np.array([4.0])
    effort = motors.step(np.zeros(1), np.array([1.0]), np.zeros(1), 0.002, feedforward=asked)
    np.testing.assert_allclose(effort, asked if knows else 0.8 * asked, rtol=1e-6)


def test_no_gear_of_the_catalogue_has_losses():
    """As its page says. With an efficiency of the user's, drives compensate it unless a constant is for the motor."""
    knows = set()
    for name in actuon.motor_names():
        sheet = actuon.find_motor(name).datasheet
        gears = [stage for stage in sheet.stages() if isinstance(stage, actuon.GearTransmissionConfig)]
        assert all(gear.efficiency == 1.0 and gear.backdrive_efficiency is None for gear in gears)
        if "gear_ratio" in sheet.values:
            lossy = sheet.replaced(gear_efficiency=0.9).stages()[0]
            knows.add((actuon.find_motor(name).vendor, lossy.compensates_losses is True))
    assert {vendor for vendor, known in knows if not known} == {"T-Motor", "CubeMars", "Damiao", "MIT"}
    assert {vendor for vendor, known in knows if known} >= {"Unitree", "Robotis", "Feetech", "RobStride"}


def test_electrical_values_make_a_voltage_limit():
    sheet = actuon.MotorDatasheet(DRIVE_AT, **DRIVE)
    gear, voltage = sheet.stages()
    assert gear == actuon.GearTransmissionConfig(ratio=9.0, rotor_inertia=579e-7)
    kt = 48.0 / (570.0 * RPM * 9.0)
    assert voltage == actuon.VoltageClampingConfig(kt, 0.16, 48.0, 22.0 / 9.0 / kt)
    assert uses(sheet)["peak_torque"] == "voltage.max_current"
    assert uses(sheet)["no_load_speed_rpm"] == "voltage.torque_constant"
    assert uses(sheet)["rated_torque"] == uses(sheet)["kt"] == "cross-check only"
    by_current = sheet.replaced(peak_torque=None, peak_current=28.0)
    assert by_current.stages()[1] == actuon.VoltageClampingConfig(kt, 0.16, 48.0, 28.0)
    by_kt = sheet.replaced(no_load_speed=None)
    assert by_kt.stages()[1] == actuon.VoltageClampingConfig(0.095, 0.16, 48.0, 22.0 / 9.0 / 0.095)
    assert uses(by_kt)["kt"] == "voltage.torque_constant"
    by_kv = by_kt.replaced(kt=None)
    assert by_kv.stages()[1].torque_constant == pytest.approx(1.0 / (100.0 * RPM))


def test_losses_that_slow_a_motor_make_a_line_through_both_ends():
    values = dict(kt=2.409, stall_torque=10.6, no_load_speed_rpm=30.0, supply_voltage=12.0, resistance=12.0 / 4.4)
    sheet = actuon.MotorDatasheet("joint", **values)
    assert sheet.stages() == [actuon.DCMotorClampingConfig(10.6, math.pi, 10.6)]
    by_constants = sheet.replaced(stall_torque=None)
    (motor,) = by_constants.stages()
    assert (motor.saturation_effort, motor.velocity_limit) == pytest.approx((2.409 * 4.4, math.pi), rel=1e-6)
    assert uses(by_constants)["resistance"] == "dc_motor.saturation_effort"


def test_thermal_values_derate_to_the_rated_torque():
    sheet = actuon.MotorDatasheet(DRIVE_AT, **DRIVE, **HEAT)
    _, heat, _ = sheet.stages()
    assert heat.motor_constant == pytest.approx(48.0 / (570.0 * RPM * 9.0) / math.sqrt(0.16))
    assert (heat.derating_start, heat.derating_end, heat.derated_effort) == (120.0, 120.0, 1.0)
    assert heat.max_effort == pytest.approx(22.0 / 9.0)
    assert uses(sheet)["rated_torque"] == "heat.derated_effort"
    with pytest.raises(actuon.ParameterError, match="winding_thermal_resistance is for the heat .* needs rated_torque"):
        sheet.replaced(rated_torque=None)


def test_a_largest_speed_leaves_only_braking_beyond_it():
    sheet = actuon.MotorDatasheet("joint", peak_torque=23.7, max_speed=30.0)
    expected = actuon.TorqueSpeedClampingConfig.symmetric([(0.0, 23.7), (30.0, 23.7), (30.0, 0.0)])
    assert sheet.stages() == [expected]
    assert actuon.MotorDatasheet("joint", peak_torque=23.7).stages() == [actuon.MaxEffortClampingConfig(23.7)]


def test_curves_make_a_polygon():
    driving, braking = [(0.0, 71.0), (22.6, 71.0), (35.5, 0.0)], [(0.0, 83.3)]
    sheet = actuon.MotorDatasheet("joint", driving_curve=driving, braking_curve=braking, reflected_inertia=0.01)
    gear, polygon = sheet.stages()
    assert gear == actuon.GearTransmissionConfig(ratio=1.0, reflected_inertia=0.01)
    assert polygon == actuon.TorqueSpeedClampingConfig.symmetric(driving, braking)
    with pytest.raises(actuon.ParameterError, match="got driving_curve and peak_torque, which the curve contains"):
        sheet.replaced("joint", peak_torque=70.0)


def test_a_current_loop_by_its_bandwidth():
    sheet = actuon.MotorDatasheet("joint", peak_torque=10.0, current_bandwidth=1000.0)
    assert sheet.stages()[-1] == actuon.CurrentLoopEffectConfig(1.0 / (2000.0 * math.pi))


def test_an_actuator_gives_at_the_joint_what_the_sheet_says():
    motor = actuon.MotorDatasheet("joint", gear_ratio=200.0, **SERVO).actuator(
        actuon.PDControlConfig(1e4, 0.0), delay=actuon.DelayConfig(0)
    )
    assert isinstance(motor.delay, actuon.DelayConfig)
    builder = actuon.ActuatorBuilder()
    for i in range(4):
        builder.add(motor, index=i)
    (actuator,) = builder.finalize()
    zeros = np.zeros(4, np.float32)
    sim = {"joint_q": zeros, "joint_target_qd": zeros, "joint_target_q": np.ones(4, np.float32)}
    sim["joint_qd"] = np.array([0.0, 0.5, 1.0, -1.0], np.float32) * np.float32(63.0 * RPM)
    sim["joint_f"] = np.zeros(4, np.float32)
    state = actuator.state()
    actuator.step(sim, sim, state, state, dt=0.005)
    np.testing.assert_allclose(sim["joint_f"], [6.0, 3.0, 0.0, 6.0], atol=1e-4)


@pytest.mark.parametrize(
    ("name", "value", "si"),
    [
        ("no_load_speed_rpm", 60.0, 2.0 * math.pi),
        ("no_load_speed_deg_per_s", 180.0, math.pi),
        ("no_load_speed_s_per_60deg", 0.2, math.pi / 3.0 / 0.2),
        ("stall_torque_kgcm", 30.0, 2.941995),
        ("stall_torque_mnm", 30.0, 0.03),
        ("stall_torque_ozin", 100.0, 0.706155),
        ("rotor_inertia_gcm2", 607.0, 6.07e-5),
        ("resistance_mohm", 170.0, 0.17),
        ("kv_rpm_per_volt", 100.0, 10.471976),
        ("stall_current_ma", 1470.0, 1.47),
    ],
)
def test_units_by_name(name, value, si):
    quantity = SPELLINGS[name].quantity
    others = {"peak_torque": 1e-3, "gear_ratio": 1.0}
    if quantity == "no_load_speed":
        others["stall_torque"] = 1.0
    assert actuon.MotorDatasheet("joint", **{name: value}, **others).at_joint[quantity] == pytest.approx(si, rel=1e-6)


def test_an_editor_and_the_docs_know_every_figure():
    text = (ROOT / "docs/motors/datasheet.md").read_text("utf-8")
    assert all(
        f"| `{name}` | {quantity.unit} |" in text and quantity.doc in text for name, quantity in QUANTITIES.items()
    )
    assert all(f"`{name}`" in text for name in SPELLINGS)
    assert set(get_type_hints(SheetValues)) == set(SPELLINGS)
    assert all(quantity.doc for quantity in QUANTITIES.values())


CONTRADICTIONS = [
    (
        dict(kt=0.123),
        "kt is 0.123 N·m/A at the motor, and must be 1/kv, 0.09549 N·m/A: they differ by 22%; at most 10% is allowed",
    ),
    (dict(no_load_speed_rpm=700.0), "no_load_speed is .* must be kv·supply_voltage"),
    (
        dict(stall_torque=100.0),
        "stall_torque is 11.11 N·m .* must be kt·supply_voltage/resistance, 28.5 N·m.*peak_torque",
    ),
    (dict(peak_current=20.0), "peak_torque is 2.444 .* must not be above kt·peak_current, 1.9"),
    (dict(rated_torque=30.0), "rated_torque is 3.333 .* must not be above peak_torque, 2.444"),
    (dict(rated_speed_rpm=900.0), "rated_speed is .* must not be above no_load_speed"),
    (dict(reflected_inertia=1e-4), "rotor_inertia is .* must not be above reflected_inertia/gear_ratio²"),
    (dict(stall_current=100.0), "stall_current is 100 A .* must be supply_voltage/resistance, 300 A"),
]


@pytest.mark.parametrize(("change", "message"), CONTRADICTIONS)
def test_contradicting_values_are_refused_with_both_values(change, message):
    sheet = actuon.MotorDatasheet(DRIVE_AT, **DRIVE)
    with pytest.raises(actuon.ParameterError, match=message) as caught:
        sheet.replaced("motor" if "kt" in change else "joint", **change)
    assert f"{next(iter(change))} {next(iter(change.values())):g}" in str(caught.value)


def test_another_voltage_needs_the_values_at_that_voltage():
    servo = actuon.MotorDatasheet("joint", **SERVO)
    with pytest.raises(
        actuon.ParameterError, match="stall_torque is for a supply_voltage of 12 V, and would be kept at 14.8"
    ):
        servo.replaced(supply_voltage=14.8)
    other = servo.replaced(supply_voltage=14.8, stall_torque=7.3, no_load_speed_rpm=78.0, stall_current=5.2)
    assert other.stages() == [actuon.DCMotorClampingConfig(7.3, 78.0 * RPM, 7.3)]
    drive = actuon.MotorDatasheet(DRIVE_AT, **DRIVE).replaced(supply_voltage=24.0, no_load_speed_rpm=None)
    assert drive.stages()[1].bus_voltage == 24.0


def test_how_much_values_may_differ_can_be_said():
    values = DRIVE | {"kt": 0.123, "no_load_speed_rpm": None}
    assert actuon.MotorDatasheet(DRIVE_AT, tolerance=0.3, **values).stages()[1].torque_constant == 0.123
    with pytest.raises(actuon.ParameterError, match="differ by 1%; at most 0% is allowed"):
        actuon.MotorDatasheet(DRIVE_AT, tolerance=0.0, **DRIVE)
    with pytest.raises(actuon.ParameterError, match="tolerance: got 2.0; must be ≥ 0 and < 1"):
        actuon.MotorDatasheet(DRIVE_AT, tolerance=2.0, **DRIVE)


@pytest.mark.parametrize(
    ("at", "values", "message"),
    [
        ("joint", dict(torque=5.0), "'torque' is ambiguous; use one of stall_torque, peak_torque, rated_torque"),
        ("joint", dict(speed=5.0), "'speed' is ambiguous; use one of no_load_speed, rated_speed, max_speed"),
        ("joint", dict(peek_torque=5.0), "unknown value 'peek_torque'; .*Did you mean 'peak_torque'"),
        ("joint", dict(peak_torque=-5.0), "MotorDatasheet.peak_torque: got -5.0; must be finite and > 0"),
        ("joint", dict(peak_torque=math.nan), "peak_torque: got nan"),
        ("joint", dict(peak_torque=[1.0, 2.0]), "must be one number"),
        ("joint", dict(peak_torque="22"), "peak_torque: got '22'"),
        (
            "joint",
            dict(gear_efficiency=1.2, gear_ratio=9.0),
            "gear_efficiency: got 1.2; must be finite and > 0 and ≤ 1",
        ),
        ("joint", dict(peak_torque=5.0, gear_ratio=0.0), "gear_ratio: got 0.0; must be finite and > 0"),
        (7, dict(peak_torque=5.0), "at: got 7; must be 'joint' .output of the gear. or 'motor'"),
        ("output", dict(peak_torque=5.0), "at: got 'output'; must be 'joint' .output of the gear. or 'motor'"),
        ("motor", dict(peak_torque=5.0), "peak_torque needs gear_ratio, which is 1 for a direct drive"),
        ("joint", dict(peak_torque=5.0, rotor_inertia=1e-5), "rotor_inertia needs gear_ratio"),
        ({}, dict(peak_torque=5.0), "the side of peak_torque is missing"),
        ({"peak_torqe": "joint", "peak_torque": "joint"}, dict(peak_torque=5.0), "at: unknown value 'peak_torqe'"),
        ({7: "joint", "peak_torque": "joint"}, dict(peak_torque=5.0), "at: unknown value '7'"),
        (
            {"rotor_inertia": "joint", "peak_torque": "joint"},
            dict(peak_torque=5.0, rotor_inertia=1e-5, gear_ratio=2.0),
            "at: got rotor_inertia, .* Inertia of the rotor, at the motor",
        ),
        ("joint", dict(driving_curve=[(0.0, [1.0, 2.0])]), "driving_curve: got .* must be pairs"),
        ("joint", dict(peak_torque=5.0, peak_torque_kgcm=50.0), "is also given as peak_torque; must be given once"),
        ("joint", dict(max_speed=5.0), "the largest torque is unknown; needs peak_torque, stall_torque"),
        (
            "joint",
            dict(peak_torque=5.0, no_load_speed=30.0),
            "no_load_speed alone does not define a torque-speed line; also give stall_torque",
        ),
        ("joint", dict(braking_curve=[(0.0, 1.0)], peak_torque=1.0), "braking_curve needs driving_curve"),
        ("joint", dict(driving_curve=[(0.0, -1.0)]), "driving_curve: got .* speeds must not decrease"),
        ("joint", dict(peak_torque=5.0, winding_time_constant=20.0), "winding_time_constant is for the heat"),
    ],
)
def test_what_a_sheet_cannot_say_is_refused(at, values, message):
    with pytest.raises(actuon.ParameterError, match=message):
        actuon.MotorDatasheet(at, **values)


def test_a_sheet_shows_what_it_holds():
    sheet = actuon.MotorDatasheet(DRIVE_AT, **DRIVE)
    assert eval(repr(sheet), {"MotorDatasheet": actuon.MotorDatasheet}) == sheet
    assert sheet.replaced(peak_torque=np.float32(20.0)) != sheet
    assert [use.name for use in sheet.table()] == list(DRIVE)
    assert all(use.became and bool(use.how) >= use.is_used for use in sheet.table())
    checked = [use.name for use in sheet.table() if not use.is_used]
    assert {use.became for use in sheet.table() if use.name in checked} == {"cross-check only"}
    assert "kt" in checked
    assert "resistance_mohm" not in checked
