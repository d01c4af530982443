"""The bench without a page: a robot that moves, and whose values are changed meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from actuon.bench.drive import CHIRP, HOLD, SINE, STEP, Command, Drive
from actuon.bench.numbers import alike, numbers_of
from actuon.bench.plots import draw_joint, spectrum
from actuon.bench.session import Session
from actuon.bench.source import find_source, motor_actuator
from actuon.bench.study import Asked, Found, Study, envelope_of


@pytest.fixture
def session():
    with Session(find_source(actuon.assets.quadruped_mjcf)) as made:
        yield made


@pytest.fixture
def motor():
    with Session(find_source("AK80-9")) as made:
        yield made


def place(session, joint, name):
    """Stage of a parameter."""
    return next(n.stage for n in numbers_of(session.real.configs[joint]) if n.name == name)


def test_the_robot_moves_and_its_past_is_kept(session):
    session.advance(1.0)
    column = session.dof_names.index(session.first_joint)
    window = session.history.window(column, 2.0, session.real.dt)
    assert len(window.time) == round(1.0 / session.real.dt)
    assert np.ptp(window.position) > 0.1
    assert np.ptp(window.target) == pytest.approx(0.4, rel=0.01)
    assert session.work.sum() > 0.0


def test_a_value_takes_effect_at_the_next_step_without_a_new_actuator(session):
    session.set_drive(Drive(HOLD))
    session.advance(0.1)
    before = session.real.actuators
    joints = alike(session.real.configs, session.first_joint)
    assert len(joints) == 4
    session.ask(session.set_number, joints, place(session, joints[0], "kp"), "kp", 50.0)
    session.advance(0.002)
    assert session.real.actuators is before
    columns = [session.dof_names.index(joint) for joint in joints]
    (actuator,) = session.real.actuators.actuators
    gains = actuator.controller.kp.numpy()
    assert (gains[columns] == 50.0).all()
    assert (np.delete(gains, columns) == 60.0).all()
    assert session.real.configs[joints[0]].controller.kp == 50.0
    assert not session.message


def test_a_value_out_of_range_changes_nothing_and_is_told(session):
    joint = session.first_joint
    session.ask(session.set_number, [joint], place(session, joint, "kp"), "kp", -1.0)
    session.advance(0.01)
    assert "must be finite and ≥ 0" in session.message
    assert session.real.configs[joint].controller.kp == 100.0
    assert session.time == pytest.approx(0.01)


def test_a_longer_delay_than_there_is_memory_for_is_attached_anew(session):
    joint = session.first_joint
    before = session.real.actuators
    session.set_number([joint], place(session, joint, "delay_steps"), "delay_steps", 7)
    assert session.real.actuators is not before
    session.advance(0.05)
    assert session.real.configs[joint].delay.delay_steps == 7
    assert not session.problem


def test_an_inertia_reaches_the_engine(motor):
    joint = motor.first_joint
    before = float(motor.real.articulation.get_dof_armatures().numpy()[0, 0])
    motor.set_number([joint], place(motor, joint, "rotor_inertia"), "rotor_inertia", 1e-3)
    after = float(motor.real.articulation.get_dof_armatures().numpy()[0, 0])
    assert after == pytest.approx(1e-3 * 81.0, rel=1e-4) != before


def test_a_motor_by_name_holds_its_pendulum(motor):
    assert motor.real.configs == {"motor": motor_actuator("AK80-9")}
    motor.set_drive(Drive(STEP, (0,), amplitude=0.5, frequency=0.1, names=motor.dof_names))
    motor.advance(1.0)
    window = motor.history.window(0, 1.0, motor.real.dt)
    assert 0.3 < window.position[-1] < 0.5
    assert window.signals["current"].max() > 1.0
    assert motor.electrical[0] > 0.0


def test_a_limit_that_clips_is_named(motor):
    motor.set_drive(Drive(SINE, (0,), amplitude=1.0, frequency=8.0, names=motor.dof_names))
    motor.advance(1.0)
    window = motor.history.window(0, 1.0, motor.real.dt)
    (name,) = window.clipped_shares()
    assert name == "ClampingVoltage"
    assert np.abs(window.given).max() < np.abs(window.wanted).max()


def test_two_robots_side_by_side(session):
    session.ask(session.show_ideal, True)
    session.advance(0.3)
    column = session.dof_names.index(session.first_joint)
    real, ideal = (history.window(column, 1.0, session.real.dt) for history in (session.history, session.ideal_history))
    assert np.abs(real.position - ideal.position).max() > 1e-3
    session.set_number([session.first_joint], place(session, session.first_joint, "kp"), "kp", 80.0)
    session.set_number([session.first_joint], place(session, session.first_joint, "max_effort"), "max_effort", 5.0)
    session.advance(0.01)
    assert session.ideal.actuators.actuators[0].controller.kp.numpy()[column] == 80.0
    session.show_ideal(False)
    session.advance(0.01)
    assert session.ideal is None


def test_explicit_and_tangent(session):
    session.set_mode("tangent")
    session.advance(0.1)
    assert "tangents of 12 DOFs" in session.real.actuators.mode_text
    session.set_mode("explicit")
    session.advance(0.1)
    assert not session.real.actuators.mode_text


def test_a_push_moves_the_trunk_and_a_knock_a_joint(session, motor):
    session.set_drive(Drive(HOLD))
    session.advance(0.2)
    before = session.real.articulation.get_root_poses().numpy()[0, 1]
    session.push((0.0, 80.0, 0.0))
    session.advance(0.2)
    assert session.real.articulation.get_root_poses().numpy()[0, 1] - before > 0.005
    motor.set_drive(Drive(HOLD))
    motor.push((0.0, 0.0, 0.0), knock=3.0)
    assert motor.real.articulation.get_dof_velocities().numpy()[0, 0] == pytest.approx(3.0)


def test_a_run_that_diverges_stops_until_the_reset(session):
    session.set_number(session.joints, place(session, session.first_joint, "kd"), "kd", 1e5)
    session.set_number(session.joints, place(session, session.first_joint, "max_effort"), "max_effort", 1e9)
    for name in ("saturation_effort", "max_motor_effort"):
        session.set_number(session.joints, place(session, session.first_joint, name), name, 1e9)
    with pytest.raises(actuon.SimulationError):
        session.advance(2.0)
    assert session.problem
    session.set_number(session.joints, place(session, session.first_joint, "kd"), "kd", 1.5)
    session.reset()
    session.advance(0.1)
    assert not session.problem


def test_the_thread_runs_and_answers(session):
    session.start()
    assert session.do(lambda: 3) == 3
    with pytest.raises(actuon.ParameterError):
        session.do(session.set_number, [session.first_joint], 1, "kp", -1.0)
    session.do(session.pause, True)
    held = session.time
    session.do(session.pause, True)
    assert session.time == held
    session.close()


def test_what_is_recorded_is_saved_at_the_end(tmp_path, session):
    session.record(tmp_path / "run.npz")
    session.advance(0.1)
    session.set_number([session.first_joint], 0, "delay_steps", 9)  # another attachment
    session.advance(0.1)
    session.close()
    with np.load(tmp_path / "run.npz") as saved:
        assert len(saved["time"]) == round(0.2 / session.real.dt)
        assert (np.diff(saved["time"]) > 0.0).all()


def test_drives():
    home = np.array([0.1, 0.2])
    for kind in (STEP, SINE, CHIRP):
        drive = Drive(kind, (1,), amplitude=0.5, frequency=2.0, offset=0.1)
        values = np.array([drive.targets(t, home) for t in np.linspace(0.0, 3.0, 500)])
        assert (values[:, 0] == 0.1).all()
        assert values[:, 1].max() == pytest.approx(0.8, abs=0.01)
    command = Command("a log", np.array([0.0, 1.0, 2.0]), {"b": np.array([1.0, 2.0, 3.0])})
    played = Drive("recorded", command=command, names=["a", "b"])
    assert played.targets(1.5, home).tolist() == [0.1, 2.0]
    assert played.targets(2.5, home).tolist() == [0.1, 1.0]


def test_sliders_stay_within_what_is_declared():
    for config in (motor_actuator("AK80-9"), motor_actuator(actuon.motor_names()[0])):
        for number in numbers_of(config):
            if number.is_slider:
                low, high, step = number.slider_range()
                assert low < high
                assert 0.0 < step <= high - low
                number.declared.check(number.name, int(high) if number.declared.integer else high)
                number.declared.check(number.name, int(low) if number.declared.integer else low)


def test_envelope_and_share_follow_the_values(session):
    study = Study(session.source)
    joint, configs = session.first_joint, session.real.configs
    study.ask(Asked(joint, configs, "explicit", 1))
    for _ in range(600):
        if study.found.shares_version == 1:
            break
        study._thread.join(0.05)
    assert study.found.envelope.most.max() == pytest.approx(35.55, rel=1e-3)
    assert 0.0 < study.found.shares[joint] < 1.0
    study.close()
    session.set_number([joint], place(session, joint, "max_effort"), "max_effort", 10.0)
    assert envelope_of(session.real.configs[joint]).most.max() == pytest.approx(10.0)


def test_the_spectrum_shows_what_vibrates():
    time = np.arange(2000) * 0.002
    frequency, amplitude = spectrum(3.0 + 0.5 * np.sin(2 * np.pi * 60.0 * time), 0.002)
    assert frequency[amplitude.argmax()] == pytest.approx(60.0, abs=1.0)
    assert amplitude.max() == pytest.approx(0.5, rel=0.05)


def test_pictures_of_a_joint(motor):
    motor.set_drive(Drive(SINE, (0,), amplitude=1.0, frequency=8.0, names=motor.dof_names))
    motor.advance(0.5)
    window = motor.history.window(0, 4.0, motor.real.dt)
    found = Found("motor", envelope_of(motor.real.configs["motor"]))
    pictures = draw_joint(window, window, found, motor.real.dt, ("rad", "N·m"))
    assert {"plane", "position", "effort", "spectrum", "current"} <= pictures.keys()
    assert 'data-actuon="envelope"' in pictures["plane"]
    assert "Voltage" in pictures["clipping"]
    assert "nan" not in "".join(pictures.values())


def test_what_is_neither_a_robot_nor_a_motor():
    with pytest.raises(actuon.RobotFileError, match="neither a robot's file .* nor a motor; .* mean 'ak80-"):
        find_source("AK80-8")
    with pytest.raises(actuon.RobotFileError, match="does not exist"):
        find_source("nowhere.xml")
