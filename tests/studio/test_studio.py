"""The studio without a page: sessions, changes of values, logs, files, and the background process."""

from __future__ import annotations

import operator
import socket
import sys
import threading
import time

import mujoco
import numpy as np
import pytest
from pxr import Usd

import actuon
from actuon.fit import JointLog, Log, read_log
from actuon.robot_source import find_source, motor_actuator
from actuon.sim.simulation import live_simulations
from actuon.studio.analyses import Analyses, envelope_of
from actuon.studio.background import Background
from actuon.studio.folder import Folder
from actuon.studio.history import Pace
from actuon.studio.motion import CHIRP, HOLD, SINE, STEP, Command, Motion
from actuon.studio.numbers import alike, exact, numbers_of, written
from actuon.studio.plots import joint_charts
from actuon.studio.replay import LogReplay, LogWork, command_of, fittable
from actuon.studio.saving import as_png, save_report, save_usd, save_yaml
from actuon.studio.scene import Scene, poses_of, shapes_of
from actuon.studio.server import is_of_own_page, make_server, quietly
from actuon.studio.session import Session
from tests.support import worker_calls


@pytest.fixture
def session():
    with Session(find_source(actuon.assets.quadruped_mjcf)) as made:
        yield made


@pytest.fixture
def motor():
    with Session(find_source("AK80-9")) as made:
        yield made


@pytest.fixture
def files(tmp_path):
    """Two files with motors of the arm: its own, and one with weaker controllers."""
    own = tmp_path / "own.yaml"
    own.write_text(actuon.assets.arm_mjcf.with_suffix(".actuon.yaml").read_text())
    weak = tmp_path / "weak.yaml"
    weak.write_text(own.read_text().replace("kp: 600", "kp: 60"))
    return own, weak


@pytest.fixture
def compared(files):
    """The arm with the motors of two files."""
    source, *others = (find_source(actuon.assets.arm_mjcf, actuators=file) for file in files)
    with Session(source, others) as made:
        yield made


@pytest.fixture
def background():
    made = Background()
    yield made
    made.close()


def done(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


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
    session.set_motion(Motion(HOLD))
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


def test_an_ideal_motor_moves_the_same_inertia(motor):
    motor.show_ideal(True)
    motor.set_number([motor.first_joint], place(motor, motor.first_joint, "rotor_inertia"), "rotor_inertia", 1e-3)
    armatures = [robot.articulation.get_dof_armatures().numpy()[0, 0] for robot in (motor.real, motor.ideal)]
    np.testing.assert_allclose(armatures, 1e-3 * 81.0, rtol=1e-4)


def test_robots_with_the_motors_of_two_files_follow_the_same_commands(compared, files):
    own, weak = compared.robots
    assert compared.title == "arm.xml (own.yaml, weak.yaml)"
    assert [robot.name for robot in compared.robots] == ["own.yaml", "weak.yaml"]
    assert own.colour != weak.colour
    joint = next(name for name, config in own.configs.items() if config.controller.kp == 600.0)
    assert weak.configs[joint].controller.kp == 60.0
    column = compared.dof_names.index(joint)
    compared.set_motion(Motion(STEP, (column,), amplitude=0.3, frequency=0.5, names=compared.dof_names))
    compared.advance(0.3)
    first, second = (robot.history.window(column, 1.0, own.dt) for robot in compared.robots)
    np.testing.assert_array_equal(first.time, second.time)
    np.testing.assert_array_equal(first.target, second.target)
    assert np.abs(first.position - second.position).max() > 1e-2
    with Session(find_source(actuon.assets.arm_mjcf, actuators=files[1])) as alone:
        alone.set_motion(compared.motion)
        alone.advance(0.3)
        np.testing.assert_array_equal(alone.history.window(column, 1.0, own.dt).position, second.position)


def test_values_act_on_the_first_file_and_its_ideal_robot_only(compared):
    own, weak = compared.robots
    before, joint = dict(weak.configs), compared.first_joint
    compared.show_ideal(True)
    assert compared.robots == [own, weak, compared.ideal]
    assert len(compared.poses) == 3
    compared.set_number([joint], place(compared, joint, "kp"), "kp", 77.0)
    compared.advance(0.02)
    assert [robot.configs[joint].controller.kp for robot in (own, compared.ideal)] == [77.0, 77.0]
    assert weak.configs == before
    compared.restore_all()
    assert own.configs == compared.file_configs != before
    compared.show_ideal(False)
    assert compared.robots == [own, weak]
    assert len(compared.poses) == 2
    compared.reset()
    assert [len(robot.history) for robot in compared.robots] == [0, 0]


def test_open_takes_one_file_or_several(files):
    pytest.importorskip("viser", reason="viser is not installed: pip install 'actuon[studio]'")
    with actuon.studio.open(actuon.assets.arm_mjcf, port=8161, actuators=files) as opened:
        assert [robot.name for robot in opened.session.robots] == ["own.yaml", "weak.yaml"]
        assert "arm.xml (own.yaml, weak.yaml)" in repr(opened)
    with actuon.studio.open(actuon.assets.arm_mjcf, port=8161, actuators=str(files[1])) as opened:
        assert [robot.name for robot in opened.session.robots] == ["weak.yaml"]
        assert "<Studio of arm.xml at" in repr(opened)


def test_a_push_moves_all_robots(compared):
    compared.set_motion(Motion(HOLD))
    compared.push((0.0, 0.0, 0.0), knock=2.0, column=0)
    speeds = [robot.articulation.get_dof_velocities().numpy()[0, 0] for robot in compared.robots]
    np.testing.assert_allclose(speeds, 2.0)


def test_a_failure_names_the_file_it_is_of(compared):
    _, weak = compared.robots
    joint = compared.first_joint
    for name, value in (("kd", 1e9), ("max_effort", 1e12)):
        weak.set_number([joint], place(compared, joint, name), name, value)
    with pytest.raises(actuon.SimulationError):
        compared.advance(2.0)
    assert compared.problem.startswith("weak.yaml: ")


def test_a_second_file_that_cannot_be_read_leaves_nothing_open(files):
    own, weak = (find_source(actuon.assets.arm_mjcf, actuators=file) for file in files)
    weak.actuators.write_text("actuators: 3\n")
    before = live_simulations()
    with pytest.raises(actuon.ActuonError, match="weak.yaml"):
        Session(own, [weak])
    assert live_simulations() == before


def test_a_motor_by_name_holds_its_pendulum(motor):
    assert motor.real.configs == {"motor": motor_actuator("AK80-9")}
    motor.set_motion(Motion(STEP, (0,), amplitude=0.5, frequency=0.1, names=motor.dof_names))
    motor.advance(1.0)
    window = motor.history.window(0, 1.0, motor.real.dt)
    assert 0.3 < window.position[-1] < 0.5
    assert window.signals["current"].max() > 1.0
    assert motor.electrical[0] > 0.0


def test_a_limit_that_clips_is_named(motor):
    motor.set_motion(Motion(SINE, (0,), amplitude=1.0, frequency=8.0, names=motor.dof_names))
    motor.advance(1.0)
    window = motor.history.window(0, 1.0, motor.real.dt)
    (name,) = window.clipped_shares()
    assert name == "ClampingVoltage"
    assert np.abs(window.applied).max() < np.abs(window.requested).max()


def test_two_robots_side_by_side(session):
    session.ask(session.show_ideal, True)
    session.advance(0.3)
    column = session.dof_names.index(session.first_joint)
    real, ideal = (robot.history.window(column, 1.0, session.real.dt) for robot in session.robots)
    assert np.abs(real.position - ideal.position).max() > 1e-3
    session.set_number([session.first_joint], place(session, session.first_joint, "kp"), "kp", 80.0)
    session.set_number([session.first_joint], place(session, session.first_joint, "max_effort"), "max_effort", 5.0)
    session.advance(0.01)
    assert session.ideal.actuators.actuators[0].controller.kp.numpy()[column] == 80.0
    session.show_ideal(False)
    session.advance(0.01)
    assert session.ideal is None


def test_explicit_and_implicit(session):
    session.set_mode("implicit")
    session.advance(0.1)
    assert "implicit efforts of 12 DOFs" in session.real.actuators.mode_text
    session.set_mode("explicit")
    session.advance(0.1)
    assert not session.real.actuators.mode_text


def test_a_push_moves_the_trunk_and_a_knock_a_joint(session, motor):
    session.set_motion(Motion(HOLD))
    session.advance(0.2)
    before = session.real.articulation.get_root_poses().numpy()[0, 1]
    session.push((0.0, 80.0, 0.0))
    session.advance(0.2)
    assert session.real.articulation.get_root_poses().numpy()[0, 1] - before > 0.005
    motor.set_motion(Motion(HOLD))
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


def test_motions():
    home = np.array([0.1, 0.2])
    for kind in (STEP, SINE, CHIRP):
        motion = Motion(kind, (1,), amplitude=0.5, frequency=2.0, offset=0.1)
        values = np.array([motion.targets(t, home) for t in np.linspace(0.0, 3.0, 500)])
        assert (values[:, 0] == 0.1).all()
        assert values[:, 1].max() == pytest.approx(0.8, abs=0.01)
    command = Command("a log", np.array([0.0, 1.0, 2.0]), {"b": np.array([1.0, 2.0, 3.0])})
    played = Motion("recorded", command=command, names=["a", "b"])
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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (999.96, "1_000"),
        (4567.8, "4_570"),
        (1234567.0, "1_230_000"),
        (-35.55, "-35.5"),
        (0.012345, "0.0123"),
        (1.2e-7, "1.2 × 10⁻⁷"),
        (3.21e12, "3.21 × 10¹²"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_as_people_write_them(value, text):
    assert written(value) == text.replace("_", "\u202f")


@pytest.mark.parametrize("value", [0, 3, 35.55, 1e-9, 5.56e-8, 1234.567, float("inf")])
def test_values_of_the_file_are_shown_with_all_digits(value):
    assert float(exact(value)) == value


@pytest.mark.parametrize("effort", [0.2, 35.0])
def test_sliders_of_zeros_suit_other_values_of_the_chain_and_the_joint(effort):
    limit, gear = actuon.MaxEffortClampingConfig(effort), actuon.GearTransmissionConfig(9.0)
    config = actuon.ActuatorConfig(actuon.PDControlConfig(10.0, 1.0), [limit], transmission=gear)
    ranges = {each.name: each.slider_range() for each in numbers_of(config, inertia=0.01) if each.is_slider}
    assert 0.1 * effort < ranges["const_effort"][1] < effort
    assert ranges["reflected_inertia"][:2] == (0.0, pytest.approx(0.03))


def test_values_go_back_to_those_of_the_file(session):
    joints = [session.first_joint, session.joints[0]]
    stage = place(session, joints[0], "kp")
    before = dict(session.real.configs)
    assert session.file_configs == before
    session.set_number(joints, stage, "kp", 33.0)
    session.set_number(joints, stage, "kd", 3.0)
    session.restore(joints, stage, "kp")
    assert [session.real.configs[joint].controller.kp for joint in joints] == [100.0, 60.0]
    assert [session.real.configs[joint].controller.kd for joint in joints] == [3.0, 3.0]
    session.set_mode("implicit")
    session.restore_all()
    assert session.real.configs == before
    assert session.real.mode == "as in the file"
    session.advance(0.01)


def test_envelope_and_share_follow_the_values(session, background):
    analyses = Analyses(session.source, background)
    joint, configs = session.first_joint, session.real.configs
    analyses.update(joint, configs, "explicit", 1)
    done(lambda: analyses.usages_version == 1)
    assert analyses.envelope(joint).most.max() == pytest.approx(35.55, rel=1e-3)
    assert analyses.envelope("FL_hip_joint") is None
    assert 0.0 < analyses.usages[joint] < 1.0
    assert not analyses.error
    session.set_number([joint], place(session, joint, "max_effort"), "max_effort", 10.0)
    assert envelope_of(session.real.configs[joint]).most.max() == pytest.approx(10.0)


def test_what_is_neither_a_robot_nor_a_motor():
    with pytest.raises(actuon.RobotFileError, match="neither a file .* nor a motor; .* mean 'ak80-"):
        find_source("AK80-8")
    with pytest.raises(actuon.RobotFileError, match="does not exist"):
        find_source("nowhere.xml")
    with pytest.raises(actuon.RobotFileError, match="neither a file"):
        find_source("a" * 5000)
    with pytest.raises(actuon.RobotFileError, match="cannot be read: File name too long"):
        find_source("a" * 5000 + ".xml")


def test_a_motor_is_found_beside_a_folder_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ak80-9").mkdir()
    assert find_source("ak80-9").motor == "ak80-9"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((["elbow"], 0, "kp", 1.0), "no joint 'elbow' with an actuator; joints: motor"),
        ((["motor"], 9, "kp", 1.0), "stage: got 9; must be a whole number from 0 to 2"),
        ((["motor"], "0", "kp", 1.0), "stage: got '0'"),
        ((["motor"], 0, "kq", 1.0), "stage 0: a PDControlConfig has no 'kq'; parameters: kp, kd"),
    ],
)
def test_values_that_are_not_there_are_told(motor, arguments, said):
    with pytest.raises(actuon.ParameterError, match=said):
        motor.set_number(*arguments)


def test_a_record_that_could_not_be_saved_is_refused_at_its_start(tmp_path, motor):
    for path in (tmp_path / "run.txt", tmp_path):
        with pytest.raises(actuon.SimulationError, match="record: got .*; must be a file that ends in .npz or .csv"):
            motor.record(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(actuon.RobotFileError, match="is a file; must be a folder"):
        motor.record(tmp_path / "file" / "run.npz")
    assert not motor.is_recording


def test_a_recording_that_cannot_be_saved_continues(tmp_path, motor):
    motor.record(tmp_path / "run.npz")
    motor.advance(0.01)
    (tmp_path / "run.npz").mkdir()
    with pytest.raises(actuon.RobotFileError, match="cannot be written: it is not a regular file"):
        motor.stop_recording()
    motor.advance(0.01)
    assert motor.stop_recording(tmp_path / "other.npz") == tmp_path / "other.npz"
    assert not motor.is_recording
    with np.load(tmp_path / "other.npz") as data:
        assert len(data["time"]) == round(0.02 / motor.real.dt)


@pytest.mark.parametrize("port", [-1, 65536, "8017", 80.5])
def test_a_port_that_cannot_be(port):
    with pytest.raises(actuon.SimulationError, match="port: got .*; must be a whole number from 1 to 65535, or 0"):
        make_server("127.0.0.1", port)


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "secret.csv").write_text("time,pos,cmd\n")
    (root / "run.csv").write_text("time,pos,cmd\n")
    (root / "link.csv").symlink_to(tmp_path / "secret.csv")
    (root / "out").symlink_to(tmp_path, target_is_directory=True)
    return Folder(root)


@pytest.mark.parametrize(
    "name",
    ["../secret.csv", "out/secret.csv", "link.csv", "a/../../secret.csv", "/etc/passwd.csv", ".", "", "a\0b.csv", None],
)
def test_a_page_reaches_no_file_outside_of_the_folder(folder, name):
    for reach in (folder.to_read, folder.to_write):
        with pytest.raises(actuon.RobotFileError, match="outside of|must be the name of a file"):
            reach(name, (".csv",))


def test_a_page_reads_and_writes_inside_of_the_folder(folder):
    assert folder.files((".csv",)) == ["link.csv", "run.csv"]
    assert folder.to_read("run.csv", (".csv",)) == folder.root / "run.csv"
    assert folder.to_read(str(folder.root / "run.csv"), (".csv",)) == folder.root / "run.csv"
    with pytest.raises(actuon.RobotFileError, match="has the format '.csv'; must be one of .yaml"):
        folder.to_write("run.csv", (".yaml",))
    with pytest.raises(actuon.RobotFileError, match="exists; choose another name"):
        folder.to_write("run.csv", (".csv",))
    assert folder.to_write("run.csv", (".csv",), replace=True) == folder.root / "run.csv"
    assert folder.to_write("new.csv", (".csv",)) == folder.root / "new.csv"
    with pytest.raises(actuon.RobotFileError, match="its folder does not exist"):
        folder.to_write("a/b.csv", (".csv",))
    for reach in (folder.to_read, folder.to_write):
        with pytest.raises(actuon.RobotFileError, match="cannot be used: .*File name too long"):
            reach("a" * 300 + ".csv", (".csv",))
    (folder.root / "old.csv").mkdir()
    with pytest.raises(actuon.RobotFileError, match="'old.csv' is a folder; must be a file"):
        folder.to_write("old.csv", (".csv",), replace=True)
    with pytest.raises(actuon.RobotFileError, match="is not a folder"):
        Folder(folder.root / "run.csv")


@pytest.fixture
def recorded(tmp_path, motor):
    """A log of the motor, recorded in the studio."""
    motor.record(tmp_path / "run.csv")
    motor.set_motion(Motion(SINE, (0,), amplitude=0.6, frequency=1.3, names=motor.dof_names))
    motor.advance(1.5)
    motor.stop_recording()
    return tmp_path / "run.csv"


def test_a_log_is_replayed_with_the_values_as_they_are_and_fitted(motor, background, recorded):
    work = LogWork(motor, background)
    work.load(recorded)
    done(lambda: work.log is not None or work.error)
    assert not work.error
    work.refresh()
    done(lambda: work.replayed)
    (joint,) = work.replayed
    assert joint.error < 3e-3
    motor.set_number(["motor"], 0, "kp", 90.0)
    work.refresh()
    done(lambda: work.version == motor.values_version)
    assert work.replayed[0].error > 0.05
    assert fittable(motor.real.configs["motor"])["controller.kp"]
    work.fit(["controller.kp", "controller.kd"])
    done(lambda: work.progress is None)
    assert not work.error
    assert "mrad, " in work.status
    assert motor.real.configs["motor"].controller.kp == pytest.approx(44.0, rel=0.1)


def test_the_commands_of_a_log_are_played(motor, recorded):
    motor.reset()
    motor.set_motion(Motion("recorded", command=command_of(read_log(recorded)), names=motor.dof_names))
    motor.advance(1.0)
    window = motor.history.window(0, 1.0, motor.real.dt)
    assert np.ptp(window.target) == pytest.approx(1.2, rel=0.05)


def test_a_log_of_other_joints_is_told(session, recorded):
    with pytest.raises(actuon.LogError, match="the robot has no joint 'motor'; joints: FL_hip_joint"):
        LogReplay(session.source, session.joints, read_log(recorded))


def test_a_log_of_a_robot_in_usd_is_replayed_and_judged():
    pytest.importorskip("newton")
    times = np.arange(0.0, 0.4, 0.01)
    wave = 0.2 * np.sin(6.0 * times)
    at = {"joint2": 0.3, "joint4": -1.5}
    log = Log("arm.csv", times, tuple(JointLog(name, where + wave, where + wave) for name, where in at.items()))
    configs = dict.fromkeys(at, actuon.ActuatorConfig(actuon.PDControlConfig(400.0, 20.0)))
    usd, mjcf = (
        LogReplay(find_source(robot), list(at), log).run(configs)
        for robot in (actuon.assets.arm_usd, actuon.assets.arm_mjcf)
    )
    for one, other in zip(usd, mjcf, strict=True):
        np.testing.assert_allclose(one.simulated, other.simulated, atol=5e-3)
        assert one.verdict.level in ("good", "limited", "bad")
        assert one.verdict.error == pytest.approx(one.error)


def test_values_are_saved_as_yaml_and_into_usd(tmp_path, session):
    joints = alike(session.real.configs, session.first_joint)
    session.set_number(joints, place(session, joints[0], "kp"), "kp", 77.0)
    save_yaml(tmp_path / "legs.yaml", session.real.configs)
    entries = {entry.name: entry for entry in actuon.load_actuators(tmp_path / "legs.yaml")}
    assert entries.keys() == {"joint", "calf_joint"}
    assert entries["calf_joint"].joints == tuple(joints)
    assert entries["calf_joint"].actuator.controller.kp == 77.0
    save_usd(tmp_path / "legs.usda", session.source, session.real.configs)
    stage = Usd.Stage.Open(str(tmp_path / "legs.usda"))
    parsed = actuon.parse_actuators(stage.GetDefaultPrim())
    gains = {each.target_path.rpartition("/")[2]: each.config.controller.kp for each in parsed}
    assert {joint for joint, kp in gains.items() if kp == 77.0} == set(joints)


def test_a_report_holds_pictures_and_values(tmp_path, motor):
    motor.advance(0.2)
    window = motor.history.window(0, 4.0, motor.real.dt)
    charts = joint_charts(window, (), None, motor.real.dt, ("rad", "N·m"))
    picture = as_png(np.zeros((4, 4, 3), np.uint8))
    readouts = {"time": "0.2 s"}
    save_report(tmp_path / "report.html", "ak80-9: motor", picture, readouts, charts, motor.real.configs)
    text = (tmp_path / "report.html").read_text()
    assert "data:image/png;base64," in text
    assert text.count("<svg") == len(charts)
    assert "<td>time</td><td>0.2 s</td>" in text
    assert "torque_constant [N·m/A]" in text


@pytest.mark.parametrize(
    ("host", "origin", "is_local", "allowed"),
    [
        ("localhost:8017", None, True, True),
        ("localhost:8017", "http://localhost:8017", True, True),
        ("localhost:9000", "http://localhost:9000", True, True),
        ("127.0.0.1:8017", "http://127.0.0.1:8017", True, True),
        ("localhost:8017", "https://elsewhere.example", True, False),
        ("localhost:8017", "null", True, False),
        ("rebound.example:8017", "http://rebound.example:8017", True, False),
        ("rebound.example:8017", None, True, False),
        ("robot.lan:8017", "http://robot.lan:8017", False, True),
        ("robot.lan:8017", "http://robot.lan:8017", True, True),
        ("robot.lan:8017", "http://elsewhere.example", False, False),
        ("rebound.example:8017", "http://rebound.example:8017", False, False),
        ("192.168.1.5:8017", "http://192.168.1.5:8017", False, True),
        ("[fe80::1]:8017", "http://[fe80::1]:8017", False, True),
        ("192.168.1.5:8017", "http://192.168.1.5:8017", True, False),
    ],
)
def test_only_the_own_page_may_use_the_studio(host, origin, is_local, allowed):
    assert is_of_own_page(host, origin, is_local, {"robot.lan"}) is allowed


@pytest.mark.parametrize("hosts", ["robot.lan", ["http://robot.lan"], ["robot.lan:8017"], [""], [3]])
def test_hosts_that_cannot_be(hosts):
    pytest.importorskip("viser", reason="viser is not installed: pip install 'actuon[studio]'")
    with pytest.raises(actuon.SimulationError, match="hosts: got .*; must be"):
        make_server("127.0.0.1", 8173, hosts)


def without_attribute(name):
    return lambda made: delattr(made, name)


@pytest.mark.parametrize(
    ("owner", "change", "lacking"),
    [
        ("infra.WebsockServer", without_attribute("_live_connections"), "'WebsockServer._live_connections'"),
        ("infra.WebsockServer", without_attribute("_http_server_root"), "'WebsockServer._http_server_root'"),
        ("_gui_api.GuiApi", without_attribute("_gui_input_handle_from_uuid"), "'GuiApi._gui_input_handle_from_uuid'"),
        (
            "infra.WebsockServer",
            lambda made: setattr(made, "register_handler", lambda *handler: None),
            "its handlers of updates",
        ),
    ],
)
def test_a_viser_without_a_name_that_the_checks_need_is_refused(owner, change, lacking, monkeypatch, capfd):
    viser = pytest.importorskip("viser", reason="viser is not installed: pip install 'actuon[studio]'")
    cls = operator.attrgetter(owner)(viser)
    original = cls.__init__

    def changed(made, *args, **options):
        original(made, *args, **options)
        change(made)

    before = {thread.ident for thread in threading.enumerate() if not thread.daemon}
    monkeypatch.setattr(cls, "__init__", changed)
    with pytest.raises(actuon.SimulationError, match=rf"viser 1\.\d.* has no {lacking}.* refuse pages of other sites"):
        make_server("127.0.0.1", 8175)
    monkeypatch.undo()
    with socket.create_server(("127.0.0.1", 8175)):  # nothing listens
        pass
    assert {thread.ident for thread in threading.enumerate() if not thread.daemon} <= before


class Answers:
    """Results, errors and progress of calls in the background, in the order in which they came."""

    def __init__(self, background):
        self.background, self.all = background, []

    def submit(self, key, function, *args, told=lambda value: True):
        def on_told(value):
            self.all.append((key, "told", value))
            return told(value)

        self.background.submit(
            key,
            function,
            *args,
            done=lambda value: self.all.append((key, "done", value)),
            failed=lambda error: self.all.append((key, "failed", error)),
            progress=on_told,
        )

    def last(self):
        """Wait until a call has ended, and return its answer."""
        done(lambda: self.all and self.all[-1][1] != "told")
        return self.all.pop()[1:]


def test_the_background_answers_tells_and_says_what_went_wrong(background):
    answers = Answers(background)
    answers.submit("count", worker_calls.count_up, 3)
    assert answers.last() == ("done", 3)
    assert [value for *_, value in answers.all] == [0, 1, 2]
    answers.submit("count", worker_calls.count_up, 3, told=lambda value: value < 1)
    assert answers.last() == ("done", 1)
    answers.submit("refuse", worker_calls.refuse, "a number")
    assert answers.last() == ("failed", "must be a number")
    answers.submit("divide", worker_calls.divide, 0)
    assert answers.last() == ("failed", "ZeroDivisionError: division by zero")
    answers.submit("leave", worker_calls.leave)
    kind, error = answers.last()
    assert kind == "failed"
    assert "the background process has ended" in error
    answers.submit("count", worker_calls.count_up, 0)
    assert answers.last() == ("done", 0)


def test_of_calls_with_one_key_the_latest_is_made_and_others_in_between(background):
    answers = Answers(background)

    def submit_more(value):
        if value == 0:
            for count in (0, 7, 2):
                answers.submit("count", worker_calls.count_up, count)
            answers.submit("leave once", worker_calls.divide, 4)
            answers.submit("long", worker_calls.divide, 2)
        return True

    answers.submit("long", worker_calls.count_up, 2, told=submit_more)
    done(lambda: sum(kind == "done" for _, kind, _ in answers.all) == 4)
    assert answers.all == [
        ("long", "told", 0),
        ("count", "told", 0),
        ("leave once", "done", 0.25),
        ("count", "told", 1),
        ("count", "done", 2),
        ("long", "told", 1),
        ("long", "done", 2),
        ("long", "done", 0.5),
    ]


def test_calls_in_between_that_end_the_process_are_told_to_both(background):
    answers = Answers(background)
    answers.submit(
        "long", worker_calls.count_up, 2, told=lambda value: answers.submit("leave", worker_calls.leave) or True
    )
    done(lambda: sum(kind == "failed" for _, kind, _ in answers.all) == 2)
    assert [key for key, kind, _ in answers.all if kind == "failed"] == ["leave", "long"]


def test_the_background_is_closed_while_it_computes():
    background = Background()
    answers = Answers(background)
    answers.submit("long", worker_calls.wait_long)
    done(lambda: answers.all)
    background.close()
    background.close()
    assert [kind for _, kind, _ in answers.all] == ["told"]


def test_time_that_cannot_be_kept_is_given_up_and_told(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("actuon.studio.history.time.perf_counter", lambda: clock[0])
    pace = Pace()
    for _ in range(800):  # steps of 4 ms that take 1 ms
        clock[0] += 0.001
        clock[0] += max(0.0, pace.took(0.004, 0.001, 0.1))
    assert pace.real_time == pytest.approx(1.0, rel=0.01)
    assert pace.cpu == pytest.approx(0.25)
    assert pace.given_up == 0.0
    for _ in range(600):  # that take 8 ms
        clock[0] += 0.008
        assert pace.took(0.004, 0.008, 0.1) <= 0.0
    assert pace.real_time == pytest.approx(0.5, rel=0.01)
    assert pace.cpu == pytest.approx(2.0)
    assert pace.given_up > 1.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere.xml",), "'nowhere.xml' does not exist"),
        (("ak80-99",), "nor a motor; motors: "),
        (("ak80-9", "--record", "run.txt"), "--record: 'run.txt' has the format '.txt'; must be .npz or .csv"),
        (("ak80-9", "--host", "256.1.1.1"), "cannot serve at '256.1.1.1'"),
    ],
)
def test_the_command_says_what_is_wrong(complaint, arguments, said):
    assert said in complaint("studio", *arguments)


def test_units_are_those_of_a_joint_that_slides():
    config = actuon.ActuatorConfig(actuon.PDControlConfig(10.0, 1.0), [actuon.MaxEffortClampingConfig(5.0)])
    labels = [number.label for number in numbers_of(config, slides=True)]
    assert labels == ["kp [N/m]", "kd [N·s/m]", "const_effort [N]", "max_effort [N]"]
    assert numbers_of(config)[0].label == "kp [N·m/rad]"


def test_a_robot_that_cannot_be_made_leaves_nothing_behind(tmp_path):
    (tmp_path / "bare.xml").write_text(
        '<mujoco><worldbody><body name="arm"><joint name="elbow"/><geom size="0.1"/></body></worldbody></mujoco>'
    )
    before = mujoco.get_mju_user_warning()
    with pytest.raises(actuon.RobotFileError, match="no actuators found for"):
        Session(find_source(tmp_path / "bare.xml"))
    assert mujoco.get_mju_user_warning() is before


def test_robots_are_let_go_of_where_a_record_cannot_be_saved(tmp_path):
    session = Session(find_source("ak80-9"))
    session.record(tmp_path / "run.npz")
    session.advance(0.01)
    (tmp_path / "run.npz").mkdir()
    with pytest.raises(actuon.RobotFileError, match="cannot be written: it is not a regular file"):
        session.close()
    assert session.real.simulation.is_closed


def test_a_missing_extra_is_reported_before_the_robot_is_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(actuon.MissingExtraError, match="the page in the browser needs 'viser'"):
        actuon.studio.Studio("no_such_robot.xml")


@pytest.mark.parametrize("module", ["viser", "mujoco", "scipy"])
def test_the_command_names_the_extra_of_the_studio(module, monkeypatch, complaint):
    monkeypatch.setitem(sys.modules, module, None)
    said = complaint("studio", "ak80-9")
    assert f"the page in the browser needs '{module}'" in said
    assert "actuon[studio]" in said


def test_a_robot_without_meshes_is_drawn_as_rods():
    inertia = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    tool = f'<body name="tool" pos="0 0 0.2"><joint/>{inertia}</body>'
    arm = f'<body name="arm" pos="0 0.3 0.4"><joint/>{inertia}{tool}</body>'
    text = f'<mujoco><worldbody><body name="base">{inertia}{arm}</body></worldbody></mujoco>'
    with actuon.MujocoSimulation(mujoco.MjModel.from_xml_string(text)) as simulation:
        rods = {shape.body: shape.vertices for shape in shapes_of(simulation)}
        model = simulation.models[0]
    radius = 0.012 * model.stat.extent
    assert rods.keys() == {model.body("base").id, model.body("arm").id}
    for name, end in (("base", [0.0, 0.3, 0.4]), ("arm", [0.0, 0.0, 0.2])):
        along = rods[model.body(name).id] @ np.array(end) / np.linalg.norm(end)
        assert along.min() == pytest.approx(-radius)
        assert along.max() == pytest.approx(np.linalg.norm(end) + radius)


@pytest.mark.parametrize("group", [0, 3])
def test_robots_that_are_drawn_get_no_rods(group):
    text = f'<body name="tool" pos="0 0 0.2"><joint/><geom size="0.1" group="{group}"/></body>'
    text = f'<geom type="plane" size="1 1 1"/><body pos="0 0 1"><joint/><geom size="0.1" group="{group}"/>{text}</body>'
    with actuon.MujocoSimulation(
        mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
    ) as s:
        assert len(shapes_of(s)) == 2


def test_the_scene_knows_how_far_the_trunk_fell(session):
    pytest.importorskip("viser", reason="viser is not installed: pip install 'actuon[studio]'")
    server, _ = make_server("127.0.0.1", 8171)
    scene = Scene(server, session.real)
    poses = poses_of(session.real.simulation)
    scene.show([session.real], [poses])
    assert scene.fallen == 0.0
    scene.show([session.real], [poses - [0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0]])
    assert scene.fallen == pytest.approx(3.0)
    with quietly():
        server.stop()
