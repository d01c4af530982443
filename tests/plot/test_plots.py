# SPDX-License-Identifier: Apache-2.0
"""The numbers behind pictures, against closed forms, and ``actuon plot``."""

from __future__ import annotations

import dataclasses
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import warp as wp

import actuon
from actuon.actuator.trials import (
    Conditions,
    effort_response,
    envelope,
    frequency_response,
    friction,
    heat,
    speed_range,
    step_response,
)
from actuon.charts import LIMIT, Chart, Grid, Mark, Span, bars, line, pyplot, to_matplotlib, to_uplot
from actuon.logs.records import Record, read_record
from actuon.plot.inputs import Inputs, read_inputs
from actuon.plot.kinds import PlotConditions, Subject
from actuon.plot.pictures import actuator_grids, record_grid
from tests.support.command_line import command

ASSETS = actuon.assets.FOLDER
PD = actuon.PDControlConfig(40.0, 2.0)
STALL, NO_LOAD, MOST = 24.0, 30.0, 18.0
FULL = """version: 1
actuators:
  knee:
    joints: [joint4]
    stages:
      - controller: {type: pd, kp: 100.0, kd: 6.0}
      - transmission: {type: gear, ratio: 6.0, rotor_inertia: 0.0001}
      - clamping: {type: heat, winding_thermal_resistance: 1.0, housing_thermal_resistance: 2.0,
                   winding_time_constant: 20.0, housing_time_constant: 300.0, motor_constant: 0.3, max_effort: 4.0,
                   derated_effort: 1.0}
      - clamping: {type: voltage, torque_constant: 0.1, resistance: 0.2, bus_voltage: 24.0, max_current: 40.0}
      - effect: {type: current_loop, time_constant: 0.003}
"""


def dc_motor(**more):
    return actuon.ActuatorConfig(PD, actuon.DCMotorClampingConfig(STALL, NO_LOAD, MOST), **more)


@dataclass(frozen=True)
class DragConfig(actuon.Config):
    dry: float = actuon.param("N·m", "At any speed.", minimum=0.0)
    viscous: float = actuon.param("N·m·s/rad", "Per speed.", minimum=0.0)


@wp.func
def drag(effort: float, qd: float, dry: float, viscous: float):
    return effort - viscous * qd - wp.where(qd > 0.0, dry, wp.where(qd < 0.0, -dry, 0.0))


class EffectDrag(actuon.Effect):
    config = DragConfig
    law = drag


def is_picture(path):
    """Whether a file is what its name says."""
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[path.suffix]
    return path.read_bytes().startswith(start) and path.stat().st_size > 5_000


def test_the_envelope_of_a_dc_motor_is_its_four_quadrants_at_joint_and_motor():
    speeds = np.linspace(-45.0, 45.0, 91)
    most = np.clip(STALL * (1.0 - speeds / NO_LOAD), -MOST, MOST)
    found = envelope(dc_motor(delay=actuon.DelayConfig(3)), speeds)
    np.testing.assert_allclose(found.most, most, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.least, -most[::-1], rtol=1e-5, atol=1e-5)
    assert found.motor is None
    assert speed_range(dc_motor()) == pytest.approx(NO_LOAD, rel=0.15)

    geared = envelope(dc_motor(transmission=actuon.GearTransmissionConfig(-5.0)), speeds / 5.0)
    np.testing.assert_allclose(geared.most, 5.0 * most, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(geared.motor.velocity, -speeds, rtol=1e-5)
    np.testing.assert_allclose(geared.motor.most, most[::-1], rtol=1e-5, atol=1e-5)
    assert not envelope(actuon.ActuatorConfig(PD), speeds).is_limited


def test_the_envelope_of_a_servo_is_that_of_its_motor():
    """Its controller holds the motor: it is told to be far off."""
    servo = actuon.ServoPWMControlConfig(kp=10.0, torque_constant=1.2, resistance=2.0, bus_voltage=12.0, max_duty=0.9)
    speeds = np.linspace(-12.0, 12.0, 25)
    found = envelope(actuon.ActuatorConfig(servo), speeds)
    np.testing.assert_allclose(found.most, 1.2 * (0.9 * 12.0 - 1.2 * speeds) / 2.0, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.least, 1.2 * (-0.9 * 12.0 - 1.2 * speeds) / 2.0, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_the_step_response_of_a_pd_is_that_of_a_damped_oscillator(damping):
    inertia, rotor, ratio = 0.09, 1e-4, 10.0
    gear = actuon.GearTransmissionConfig(ratio, rotor_inertia=rotor)
    config = actuon.ActuatorConfig(PD, transmission=gear)
    conditions = Conditions(inertia=inertia, damping=damping, dt=1e-4, step=0.2, position=0.3, seconds=0.5)
    time, position, effort = step_response(config, conditions)
    moved = inertia + rotor * ratio**2
    decay = (PD.kd + damping) / (2 * moved)
    omega = math.sqrt(PD.kp / moved - decay**2)
    after = np.maximum(time, 0.0)
    expected = 0.2 * (1 - np.exp(-decay * after) * (np.cos(omega * after) + decay / omega * np.sin(omega * after)))
    np.testing.assert_allclose(position, np.where(time > 0.0, expected, 0.0), atol=2e-4)
    assert effort[np.argmax(time > -1e-9)] == pytest.approx(PD.kp * 0.2, rel=1e-4)
    assert not effort[time < -1e-9].any()


def test_a_delay_holds_the_step_back():
    config = actuon.ActuatorConfig(PD, delay=actuon.DelayConfig(7))
    time, _, effort = step_response(config, Conditions(dt=0.002))
    assert time[np.flatnonzero(effort)[0]] == pytest.approx(7 * 0.002)


def test_the_frequency_response_of_a_pd_is_of_second_order():
    at = np.array([0.5, 2.0, 3.2, 10.0])
    conditions = Conditions(inertia=0.1, dt=5e-4)
    s = 2j * np.pi * at
    expected = PD.kp / (0.1 * s * s + PD.kd * s + PD.kp)
    found = frequency_response(actuon.ActuatorConfig(PD), conditions, at)
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=2e-3)


def test_frequencies_at_which_a_joint_without_damping_only_swings_are_left_out():
    undamped = actuon.ActuatorConfig(actuon.PDControlConfig(10.0, 0.0))
    response = frequency_response(undamped, Conditions(inertia=0.1), np.array([0.5, 5.0, 20.0]))
    assert np.abs(response[0]) == pytest.approx(1 / (1 - (np.pi / 10.0) ** 2), rel=0.1)
    assert np.isnan(response[1:]).all()
    (grid,) = actuator_grids(Inputs([Subject("a.yaml", "hip", undamped)]), ["frequency"], PlotConditions())
    gain, phase = grid.charts
    assert gain.labels == ["(some frequencies left out)", "−3 dB"]
    assert gain.x_log
    assert len(gain.series[0].x) == len(phase.series[0].x) < 60


def test_the_effort_of_a_current_loop_is_late_by_first_order():
    lag = 0.02
    config = actuon.ActuatorConfig(
        PD, actuon.MaxEffortClampingConfig(10.0), effects=actuon.CurrentLoopEffectConfig(lag)
    )
    corner = 1.0 / (2 * np.pi * lag)
    found = effort_response(config, Conditions(dt=1e-4), np.array([0.5, corner]))
    np.testing.assert_allclose(np.abs(found), [1.0, math.sqrt(0.5)], rtol=5e-3)
    assert np.degrees(np.angle(found[1])) == pytest.approx(-45.0, abs=0.5)


def test_friction_is_what_is_lost_at_the_joint_where_no_limit_takes_it():
    config = dc_motor(effects=DragConfig(0.5, 0.02), transmission=actuon.GearTransmissionConfig(4.0))
    speeds = np.array([-6.0, -1.0, 1.0, 6.0])
    expected = 4.0 * (0.5 * np.sign(speeds) + 0.02 * 4.0 * speeds)
    for wanted in (0.0, 10.0):
        np.testing.assert_allclose(friction(config, speeds, Conditions(), wanted), expected, rtol=1e-4)
    assert np.isnan(friction(config, np.array([NO_LOAD / 4.0 + 1.0]), Conditions())).all()
    assert not friction(dc_motor(), speeds, Conditions()).any()


def test_heat_at_a_constant_effort_settles_where_the_loss_is_carried_off():
    figures = {
        "winding_thermal_resistance": 1.0,
        "housing_thermal_resistance": 2.0,
        "winding_time_constant": 5.0,
        "housing_time_constant": 50.0,
        "motor_constant": 0.5,
        "max_effort": 8.0,
        "derated_effort": 1.0,
        "temperature_coefficient": 0.0,
    }
    config = actuon.ActuatorConfig(PD, actuon.HeatClampingConfig(**figures))
    found = heat(config, Conditions(effort=1.5, duty=1.0, seconds=1000.0))
    loss = (1.5 / 0.5) ** 2
    assert found.temperature[-1] == pytest.approx(25.0 + 3.0 * loss, abs=0.05)
    assert found.housing[-1] == pytest.approx(25.0 + 2.0 * loss, abs=0.05)
    hot = heat(config, Conditions(duty=1.0))
    assert hot.requested.max() == 8.0
    assert hot.time[-1] == pytest.approx(200.0, rel=0.01)
    assert hot.effort[0] == 8.0
    assert 1.0 < hot.effort[-1] < 5.0
    assert 100.0 < hot.temperature[-1] < 120.0
    assert heat(dc_motor(), Conditions()) is None


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """The arm with a geared motor at one joint, for a while, in both formats."""
    folder = tmp_path_factory.mktemp("record")
    (folder / "full.yaml").write_text(FULL)
    (entry,) = actuon.load_actuators(folder / "full.yaml")
    with actuon.MujocoSimulation(ASSETS / "arm.xml", 2) as simulation:
        actuators = actuon.ArticulationActuators.from_actuators("link0", [(entry.actuator, "joint4")])
        with actuon.Recorder(actuators) as recorder:
            simulation.step(40)
        for name in ("run.npz", "run.csv"):
            recorder.save(folder / name)
    return folder


def test_records_are_read_back_from_both_formats(record):
    packed, text = (read_record(record / f"run.{ending}") for ending in ("npz", "csv"))
    assert packed.dof_names == text.dof_names == [f"joint{i}" for i in range(1, 8)]
    assert packed.series.keys() == text.series.keys()
    assert "electrical_power" in packed.series
    for name, values in packed.series.items():
        if name == "limited_by":
            np.testing.assert_array_equal(values, text.series[name])
        else:
            np.testing.assert_allclose(values.astype(np.float64), text.series[name], rtol=1e-6, atol=1e-9)
    (plane,) = packed.planes(("joint[45]",))
    assert plane.velocity.shape == (80,)
    np.testing.assert_allclose(plane.motor_velocity, 6.0 * plane.velocity, rtol=1e-5, atol=1e-7)


def test_plot_draws_all_that_there_is_of_a_motor_and_a_record_on_top(record):
    out = command("plot", record / "full.yaml", "--record", record / "run.npz", "-o", record / "all.png", "--force")
    assert "torque-speed envelope, step response, frequency response, heat over a duty cycle of 1 actuator" in out
    assert is_picture(record / "all.png")
    for name in ("run.npz", "run.csv"):
        assert f"recording of {name}" in command("plot", record / name, "-o", record / "run.svg", "--force")
        assert is_picture(record / "run.svg")


def test_plot_compares_files_and_motors_by_name(record, tmp_path):
    (tmp_path / "other.yaml").write_text(FULL.replace("bus_voltage: 24.0", "bus_voltage: 48.0"))
    given = (record / "full.yaml", tmp_path / "other.yaml", "Mini Cheetah", record / "run.npz")
    out = command("plot", *given, "--kind", "envelope", "-o", tmp_path / "all.pdf")
    assert "torque-speed envelope of 3 actuators" in out
    assert is_picture(tmp_path / "all.pdf")


def test_plot_says_why_there_is_nothing_to_draw(record, tmp_path, complaint):
    unlimited = actuon.ActuatorConfig(actuon.PDControlConfig(0.0, 0.0))
    actuon.save_actuators(tmp_path / "free.yaml", [actuon.ActuatorEntry("a", "knee", unlimited)])
    coupled = actuon.CoupledTransmissionConfig(((1.0, 1.0), (1.0, -1.0)), row=0)
    ankle = actuon.ActuatorEntry("ankle", "ankle", actuon.ActuatorConfig(PD, transmission=coupled))
    actuon.save_actuators(tmp_path / "coupled.yaml", [ankle])
    (tmp_path / "text.csv").write_text("a,b\n1,2\n")
    (tmp_path / "broken.npz").write_text("no")
    np.savez_compressed(tmp_path / "damaged.npz", dof_names=np.array(["a"]), time=np.zeros(2))
    with zipfile.ZipFile(tmp_path / "damaged.npz") as archive:
        begin = archive.getinfo("dof_names.npy").header_offset
    packed = bytearray((tmp_path / "damaged.npz").read_bytes())
    packed[begin + 60 : begin + 80] = b"\xff" * 20
    (tmp_path / "damaged.npz").write_bytes(packed)
    np.savez(tmp_path / "other.npz", dof_names=np.array(["a"]), time=np.zeros(2))
    full = record / "full.yaml"
    for arguments, match in [
        (("free.yaml",), "there is nothing to draw: envelope: no stage limits the effort; step: its controller"),
        (("free.yaml", "--kind", "heat"), "--kind heat: there is nothing to draw: no stage has a temperature"),
        ((full, "--kind", "friction"), "--kind friction: there is nothing to draw: no stage loses effort"),
        ((full, "--kind", "steep"), 'Invalid value "steep" for --kind. Choose from: "envelope", "step", '),
        ((full, "--kind", "recording"), "--kind recording: there is no recording to draw"),
        ((record / "run.npz", "--kind", "step"), "the other kinds need a robot"),
        (
            ("coupled.yaml", "--kind", "step"),
            "nothing to draw: ankle: its joints are coupled: the available effort of one",
        ),
        (
            ("min-cheetah",),
            "'min-cheetah' is neither a file (.usda, .usd, .usdc, .usdz, .xml,",
        ),
        (("text.csv",), "'text.csv' is not a recording"),
        (("broken.npz",), "'broken.npz' is not a recording"),
        (("damaged.npz",), "'damaged.npz' is not a recording"),
        (("other.npz",), "'other.npz' is not a recording of actuon.Recorder: it has no series 'velocity'"),
        ((full, "--inertia", "0"), "--inertia: got 0; must be finite and > 0 [kg·m² or kg]"),
        ((full, "--duty", "2"), "--duty: got 2; must be ≥ 0 and ≤ 1"),
        ((full, "--dt", "nan"), "--dt: got nan; must be finite and > 0 [s]"),
    ]:
        assert match in complaint("plot", *arguments, "-o", "x.png")
    assert not (tmp_path / "x.png").exists()


def test_a_motor_without_a_transmission_leaves_its_side_of_the_picture_blank(record):
    geared = [entry.actuator for entry in actuon.load_actuators(record / "full.yaml")]
    subjects = [Subject("a.yaml", "knee", geared[0]), Subject("a.yaml", "hip", dc_motor())]
    run = read_record(record / "run.npz")
    (grid,) = actuator_grids(Inputs(subjects), ["envelope"], PlotConditions(), [run])
    (knee, hip), (motor, blank) = grid.rows
    assert (knee.title, hip.title, motor.title) == ("knee: joint side", "hip", "knee: motor side")
    assert blank is None
    assert "run.npz" in knee.labels
    np.testing.assert_allclose(motor["run.npz"].x, 6.0 * knee["run.npz"].x, rtol=1e-5, atol=1e-7)


def test_a_record_says_what_is_dashed_and_tells_joints_apart(record):
    run = read_record(record / "run.npz")
    names = [f"joint{i}" for i in range(14)]
    wide = {name: np.repeat(run.series[name][:, :, :1], 14, axis=2) for name in run.series if name != "time"}
    grid = record_grid([Record("many", names, {"time": run.series["time"]} | wide)])
    first, last = grid.charts[0], grid.charts[-1]
    assert first.y_label == "position [rad or m]\ndashed: position target"
    assert first.labels == names
    assert len({series.colour for series in first.series}) == 14
    assert [series.style for series in first.series] == ["line"] * 14 + ["dashed"] * 14
    assert list(last.y_ticks.values()) == names
    assert last.note == "at no time"
    assert len({chart.x_range for chart in grid.charts}) == 1


def test_a_record_has_the_units_of_its_joints(record):
    run = read_record(record / "run.npz")
    labels = [chart.y_label.partition("\n")[0] for chart in record_grid([run]).charts]
    assert labels[:2] == ["position [rad]", "velocity [rad/s]"]
    assert "computed effort [N·m]" in labels
    assert read_record(record / "run.csv").unit("rad or m") == "rad or m"
    units = ["m", *["rad"] * 6]
    assert dataclasses.replace(run, dof_units=units).unit("N·m or N") == "N·m; N: joint1"
    assert dataclasses.replace(run, dof_units=["m"] * 7).unit("N·m or N") == "N"
    assert run.unit("W") == "W"


def test_axes_have_the_units_of_the_joint_and_compared_motors_a_legend():
    subjects = [Subject(name, "lift", dc_motor(), slides=True) for name in ("a.yaml", "b.yaml")]
    first, position, effort = (
        chart
        for grid in actuator_grids(Inputs(subjects), ["envelope", "step"], PlotConditions(Conditions(dt=0.05), 0.01))
        for chart in grid.charts
    )
    assert (first.x_label, first.y_label) == ("velocity [m/s]", "effort [N]")
    assert "load 0.01 kg, dt 50 ms" in position.x_label
    assert (position.y_label, effort.y_label) == ("position [m]", "effort [N]")
    assert first.labels == ["a.yaml", "b.yaml"]
    assert position.labels == ["a.yaml (does not settle)", "b.yaml (does not settle)", "target"]


def test_a_robot_brings_the_inertia_and_damping_of_its_own_joints(tmp_path):
    """Of a pendulum that is a ball of 2 kg at 0.5 m: its own, with the armature that no rotor of the motor replaces."""
    model = """<mujoco><worldbody><body><joint name="hip" axis="0 1 0" armature="0.03" damping="0.3"/>
      <inertial pos="0 0 -0.5" mass="2" diaginertia="0.01 0.01 0.01"/></body></worldbody>
      <actuator><position name="hip" joint="hip" kp="20" kv="1"/></actuator></mujoco>"""
    load = 2.0 * 0.5**2 + 0.01
    bare, geared = (
        actuon.ActuatorConfig(PD, transmission=transmission)
        for transmission in (None, actuon.GearTransmissionConfig(5.0, rotor_inertia=1e-3))
    )
    for config, expected in ((bare, load + 0.03), (geared, load)):
        (tmp_path / "robot.xml").write_text(model)
        actuon.save_actuators(tmp_path / "robot.actuon.yaml", [actuon.ActuatorEntry("hip", "hip", config)])
        (subject,) = read_inputs([tmp_path / "robot.xml"]).subjects
        assert subject.inertia == pytest.approx(expected)
        assert PlotConditions().of(subject).inertia == pytest.approx(expected)
        assert PlotConditions().of(subject).damping == 0.3
        assert PlotConditions(inertia=0.2).of(subject) == Conditions(inertia=0.2)
    rubbing = actuon.ActuatorConfig(PD, effects=[actuon.FrictionEffectConfig(viscous=0.1)])
    actuon.save_actuators(tmp_path / "robot.actuon.yaml", [actuon.ActuatorEntry("hip", "hip", rubbing)])
    assert read_inputs([tmp_path / "robot.xml"]).subjects[0].damping == 0.0
    assert PlotConditions().of(Subject("a.yaml", "hip", bare)).inertia == 0.1


def test_a_robot_brings_the_smallest_inertia_of_the_poses_of_check(tmp_path):
    """A second link folds back on the first one."""
    (tmp_path / "robot.xml").write_text("""<mujoco><worldbody><body><joint name="hip" axis="0 1 0" range="-60 60"/>
      <inertial pos="0 0 -0.25" mass="1" diaginertia="0.01 0.01 0.01"/><body pos="0 0 -0.5">
      <joint name="knee" axis="0 1 0" range="0 150"/><inertial pos="0 0 -0.25" mass="1" diaginertia="0.01 0.01 0.01"/>
      </body></body></worldbody></mujoco>""")
    entries = [actuon.ActuatorEntry(name, name, actuon.ActuatorConfig(PD)) for name in ("hip", "knee")]
    actuon.save_actuators(tmp_path / "robot.actuon.yaml", entries)
    rows = actuon.check(tmp_path / "robot.xml").rows
    drawn = read_inputs([tmp_path / "robot.xml"]).subjects
    assert [subject.inertia for subject in drawn] == pytest.approx([row.inertia for row in rows])


def test_the_ends_of_an_envelope_and_the_rated_point_are_named():
    inputs = read_inputs([Path("ak80-9")])
    (grid,) = actuator_grids(inputs, ["envelope"], PlotConditions())
    joint, motor = ({point.label.split()[0]: point for point in chart.points} for chart in grid.charts)
    assert joint.keys() == motor.keys() == {"driving", "braking", "peak", "no-load", "rated"}
    sheet = actuon.find_motor("ak80-9").datasheet
    for points, printed in ((joint, sheet.at_joint), (motor, sheet.at_motor)):
        assert points["peak"].y == pytest.approx(printed["peak_torque"], rel=1e-3)
        assert points["no-load"].x == pytest.approx(printed["no_load_speed"], rel=1e-3)
        assert (points["rated"].x, points["rated"].y) == (printed["rated_speed"], printed["rated_torque"])
    alone = Subject("a.yaml", "hip", dc_motor())
    ((chart,),) = (grid.rows[0] for grid in actuator_grids(Inputs([alone]), ["envelope"], PlotConditions()))
    assert {"peak", "no-load"} < {point.label.split()[0] for point in chart.points}
    with pytest.raises(ValueError, match="names of values or places are drawn by Matplotlib only"):
        to_uplot(chart)
    compared = [alone, Subject("b.yaml", "hip", dc_motor())]
    (grid,) = actuator_grids(Inputs(compared), ["envelope"], PlotConditions())
    assert not grid.charts[0].points


def named(chart):
    """Return the names next to the curves of a chart, and those in its legend."""
    figure = to_matplotlib(Grid([[chart]]))
    (axis,) = figure.axes
    frame = axis.get_window_extent()
    boxes = [text.get_window_extent() for text in axis.texts]
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    for box in boxes:
        for curve in axis.lines:
            fine = np.linspace(0.0, 1.0, 2000)
            dense = [np.interp(fine, np.linspace(0.0, 1.0, len(values)), values) for values in curve.get_data()]
            at = curve.get_transform().transform(np.transpose(dense))
            assert not ((at > box.min) & (at < box.max)).all(axis=1).any()
    legend = axis.get_legend()
    pyplot().close(figure)
    return tuple([text.get_text() for text in texts] for texts in (axis.texts, legend.get_texts() if legend else ()))


def test_curves_are_named_next_to_them_and_in_a_legend_only_if_a_name_does_not_fit():
    x = np.linspace(0.0, 6.0, 200)
    rising, falling = line("rising", x, x), line("falling", x, 6.0 - x)
    assert named(Chart("x", "y", [rising, falling], marks=[Mark("y", 5.0, "limit")])) == (
        ["rising", "falling", "limit"],
        [],
    )
    assert named(Chart("x", "y", [rising, line("same", x, x)])) == ([], ["rising", "same"])
    assert named(Chart("x", "y", [bars("train", x, x), bars("held out", x + 0.4, x)])) == ([], ["train", "held out"])
    noise = line("noise", x, np.where(np.arange(200) % 2, 0.0, 6.0))
    assert named(Chart("x", "y", [noise, rising])) == ([], ["noise", "rising"])
    hidden = [dataclasses.replace(one, label=f"_{one.label}") for one in (noise, rising)]
    assert named(Chart("x", "y", hidden)) == ([], ["_noise", "_rising"])
    figure = to_matplotlib(Grid([[Chart("x", "y", hidden)]]), shared_legend=True)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["_noise", "_rising"]
    pyplot().close(figure)


def test_phases_are_named_above_the_curves_if_there_is_room():
    x = np.linspace(0.0, 60.0, 200)
    phases = [Span(0.0, 1.0, "crouch"), Span(1.0, 2.0, "hop", None), Span(2.0, 60.0, "stand")]
    assert named(Chart("x", "y", [line("", x, np.sin(x))], spans=phases)) == (["crouch", "stand"], [])
    push = Span(1.4, 1.6, "push", LIMIT)
    assert named(Chart("x", "y", [line("", x, np.sin(x))], spans=[*phases, push])) == (["push", "stand"], [])


def test_names_of_places_keep_clear_of_curves_and_of_each_other():
    (grid,) = actuator_grids(read_inputs([Path("ak80-9")]), ["envelope"], PlotConditions())
    for chart in grid.charts:
        names, legend = named(chart)
        assert sorted(names) == sorted(point.label for point in chart.points)
        assert legend == []
