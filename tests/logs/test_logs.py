# SPDX-License-Identifier: Apache-2.0
"""Logs of real robots: files of all formats, what is found in them, and what is refused."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import actuon
from actuon.logs import ColumnMapping, JointLog, Log, read_log, read_logs, save_log
from actuon.logs.columns import recognise
from actuon.logs.formats import ENDINGS
from tests.support.paths import public_logs

AK80_6 = {
    "columns": {
        "time": "time",
        "pos_meas{joint}": "position",
        "vel_meas{joint}": "velocity",
        "tau_con{joint}": "effort_command",
    },
    "joints": {"1": "shoulder", "2": "elbow"},
}


def motion(count=400, dt=0.01, joints=("knee",), seed=7):
    """Columns of a log: positions that follow commands 30 ms later, in radians, with an encoder of 12 bits."""
    rng = np.random.default_rng(seed)
    time = np.round(np.arange(count) * dt, 6)
    columns = {"time": time}
    for joint in joints:
        frequencies, phases = rng.uniform(0.3, 1.5, 3), rng.uniform(0.0, 6.0, 3)

        def moved(t, frequencies=frequencies, phases=phases):
            return 0.4 * np.sin(np.outer(t, 2.0 * np.pi * frequencies) + phases).sum(axis=1)

        columns[f"cmd_{joint}"] = moved(time)
        columns[f"pos_{joint}"] = np.round(moved(time - 0.03) * 4096 / (2 * np.pi)) * 2 * np.pi / 4096
    return columns


def write_csv(path, columns, number="{:.9g}"):
    rows = [",".join(columns)]
    rows += [
        ",".join(cell if isinstance(cell, str) else number.format(cell) for cell in row)
        for row in zip(*columns.values(), strict=True)
    ]
    path.write_text("\n".join(rows) + "\n", "utf-8")
    return path


@pytest.fixture
def csv_of(tmp_path):
    return lambda columns, **options: write_csv(tmp_path / "log.csv", columns, **options)


def found(log, text):
    """The one finding that holds a text."""
    (finding,) = [finding for finding in log.findings if text in finding]
    return finding


def assert_same(one, other, exact=True):
    close = np.testing.assert_array_equal if exact else lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6)
    assert one.joint_names == other.joint_names
    close(one.time, other.time)
    for a, b in zip(one.joints, other.joints, strict=True):
        assert a.quantities().keys() == b.quantities().keys()
        for name, values in a.quantities().items():
            assert values.dtype == b.quantities()[name].dtype
            close(values, b.quantities()[name])


class TestRealLogs:
    def test_a_servo_on_a_pendulum(self):
        logs = read_logs(public_logs("xl330/*.json.gz"))
        assert len(logs) == 12
        assert {log.settings["kp"] for log in logs} == {100, 200, 800}
        for log in logs:
            assert log.settings["mass"] == 0.49
            assert log.settings["length"] == 0.1
            assert log.settings["motor"] == "xl330"
            (joint,) = log.joints
            assert joint.units["position"] == joint.units["command"] == "rad"
            assert joint.units["velocity"] == "rad/s"
            assert set(joint.quantities()) == {
                *("position", "command", "velocity", "enabled", "supply", "duty", "temperature")
            }
            assert joint.enabled.dtype == bool
            assert joint.enabled.all() == (log.settings["trajectory"] != "lift_and_drop")
            assert np.abs(joint.extra["duty"]).max() <= 885
            assert 5.9 < log.duration < 6.1
            odd = [
                text for text in log.findings if "uneven steps" not in text and "negative ones of 16 bits" not in text
            ]
            assert odd == []

    def test_an_arm_of_six_joints(self):
        logs = read_logs(public_logs("so101/logs/*.csv.gz"))
        names = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
        assert [log.joint_names for log in logs] == [names] * 6
        still = {}
        for log in logs:
            assert all("does not move" in text for text in log.findings)
            still[log.path.split("/")[-1].split(".")[0]] = len(log.findings)
            for joint in log.joints:
                assert set(joint.quantities()) == {"position", "command", "velocity", "current"}
                assert joint.units["current"] == "raw"
        assert {name: count for name, count in still.items() if count} == {"gripper_cycles": 2, "symmetric_motion": 1}

    def test_two_motors_by_torque(self):
        paths = public_logs("ak80_6/*.csv.gz")
        logs = read_logs(paths, AK80_6)
        assert [log.joint_names for log in logs] == [("shoulder", "elbow")] * 6
        assert all(log.findings == () for log in logs)
        recognised = read_log(paths[0])
        assert recognised.joint_names == ("1", "2")
        assert found(recognised, "not used") == "columns that are not used: tau_fric1, tau_fric2"
        np.testing.assert_array_equal(recognised.joints[1].effort_command, logs[0].joint("elbow").effort_command)
        assert [len(log.split_windows(0.5)) for log in logs] == [20] * 6


@pytest.fixture(scope="module")
def arm():
    """Columns of a real log, 30 s long, by name."""
    path = public_logs("so101/logs/prbs_excitation.csv.gz")[0]
    with gzip.open(path, "rt") as stream:
        header, *rows = stream.read().split("\n")[:1500]
    return dict(zip(header.split(","), np.array([row.split(",") for row in rows], dtype=float).T, strict=True))


def bent(columns, change, *prefixes):
    return {name: change(values) if name.startswith(prefixes) else values for name, values in columns.items()}


class TestUnits:
    """Real logs that were written in other units are the same after reading, and what was done is said."""

    @pytest.mark.parametrize(
        ("what", "digits"),
        [
            (("pos", "cmd"), "{:.6f}"),
            (("pos", "cmd", "vel"), "{:.6f}"),
            (("pos", "cmd", "vel"), "{:.2f}"),
            (("pos",), "{:.6f}"),
            (("cmd",), "{:.6f}"),
            (("vel",), "{:.6f}"),
        ],
    )
    def test_degrees_are_found(self, csv_of, arm, what, digits):
        log = read_log(csv_of(bent(arm, np.degrees, *what), number=digits))
        for name, unit in {"pos": "position", "cmd": "command", "vel": "velocity"}.items():
            expected = {True: "deg", False: "rad"}[name in what] + ("/s" if name == "vel" else "")
            assert {joint.units[unit] for joint in log.joints} == {expected}
        for joint in log.joints:
            np.testing.assert_allclose(joint.position, arm[f"pos_{joint.name}"], atol=1e-4)
            np.testing.assert_allclose(joint.command, arm[f"cmd_{joint.name}"], atol=1e-4)
            np.testing.assert_allclose(joint.velocity, arm[f"vel_{joint.name}"], atol=1e-4)
        if "pos" in what:
            also = " and commands" if "cmd" in what else ""
            assert f"positions{also} are in degrees ('pos_shoulder_pan' has steps of 360/4096)" in found(log, "360")
        elif what == ("cmd",):
            found(log, "commands are in degrees ('cmd_shoulder_pan' moves 57 times as far as 'pos_shoulder_pan')")
        if "vel" in what:
            found(log, "velocity: is in deg/s")

    def test_degrees_without_an_encoders_steps_are_found_by_range_and_speed(self, csv_of):
        t = np.arange(500) * 0.01
        columns = {"time": t, "cmd_knee": 40 * np.sin(5 * t), "pos_knee": 40 * np.sin(5 * t - 0.2)}
        log = read_log(csv_of(columns))
        np.testing.assert_allclose(log.joints[0].position, np.radians(columns["pos_knee"]), atol=1e-8)
        assert "reaches 40, at up to 200 per second" in found(log, "degrees")

    def test_what_may_be_degrees_is_asked_for(self, csv_of):
        t = np.arange(500) * 0.01
        columns = {"time": t, "cmd_knee": 40 * np.sin(0.3 * t), "pos_knee": 40 * np.sin(0.3 * t - 0.1)}
        path = csv_of(columns)
        with pytest.raises(
            actuon.LogError, match=r"column 'pos_knee': positions of 'knee' reach 39.9, which may be deg"
        ):
            read_log(path)
        for unit, factor in {"deg": np.pi / 180, "rad": 1.0, "turn": 2 * np.pi}.items():
            log = read_log(path, {"units": {"position": unit, "command": unit}})
            np.testing.assert_allclose(log.joints[0].command, columns["cmd_knee"] * factor, rtol=1e-8)
        named = csv_of({"time": t, "cmd_knee [deg]": columns["cmd_knee"], "pos_knee_deg": columns["pos_knee"]})
        assert read_log(named).joints[0].units["position"] == "deg"

    @pytest.mark.parametrize("name", ["vel_knee", "vel_knee [rad/s]", "vel_knee [rpm]"])
    def test_a_velocity_tells_radians_from_degrees_or_they_are_asked_for(self, csv_of, name):
        t = np.arange(2000) * 0.002
        one = {"vel_knee [rpm]": 2 * np.pi / 60}.get(name, 1.0)
        turns = {"time": t, "cmd_knee": 44 * np.sin(3.3 * t), "pos_knee": 44 * np.sin(3.3 * t - 0.2)}
        path = csv_of(turns | {name: 44 * 3.3 * np.cos(3.3 * t - 0.2) / one})
        if name == "vel_knee":
            with pytest.raises(
                actuon.LogError, match=r"positions of 'knee' reach 44, which may be degrees, or radians"
            ):
                read_log(path)
            log = read_log(path, {"units": {"position": "rad", "command": "rad"}})
        else:
            log = read_log(path)
        (joint,) = log.joints
        np.testing.assert_allclose(joint.position, turns["pos_knee"], atol=1e-6)
        np.testing.assert_allclose(joint.command, turns["cmd_knee"], atol=1e-6)
        np.testing.assert_allclose(joint.velocity, 44 * 3.3 * np.cos(3.3 * t - 0.2), atol=1e-5)
        in_degrees = csv_of(turns | {"vel_knee [rad/s]": np.radians(44 * 3.3 * np.cos(3.3 * t - 0.2))})
        np.testing.assert_allclose(read_log(in_degrees).joints[0].position, np.radians(turns["pos_knee"]), atol=1e-6)

    def test_lengths_are_not_angles(self, csv_of):
        t = np.arange(500) * 0.01
        way = 200 + 150 * np.sin(3 * t)
        with pytest.raises(
            actuon.LogError, match=r"'slide', which slides by its name, reach 350; state their unit, .*mm"
        ):
            read_log(csv_of({"time": t, "cmd_slide": way + 0.5, "pos_slide": way}))
        for names in (("cmd_slide_mm", "pos_slide_mm"), ("cmd_slide [mm]", "pos_slide [mm]")):
            (joint,) = read_log(csv_of({"time": t} | dict.fromkeys(names, way))).joints
            np.testing.assert_allclose(joint.position, 1e-3 * way, rtol=1e-6)
            assert (joint.name, joint.units["position"]) == ("slide", "mm")
        for name in ("left_slide", "baseRail", "rail2", "Linear"):
            with pytest.raises(actuon.LogError, match="which slides by its name"):
                read_log(csv_of({"time": t, f"cmd/{name}": way, f"pos/{name}": way}))
        for name in ("trailer_yaw", "nonlinear"):
            turning = dict.fromkeys((f"cmd/{name}", f"pos/{name}"), way / 80)
            assert read_log(csv_of({"time": t} | turning)).joint_names == (name,)

    def test_counts_are_asked_for(self, csv_of):
        columns = motion()
        columns["pos_knee"] = np.round(columns["pos_knee"] * 4096 / (2 * np.pi)) + 2048
        columns["cmd_knee"] = np.round(columns["cmd_knee"] * 4096 / (2 * np.pi)) + 2048
        path = csv_of(columns)
        with pytest.raises(actuon.LogError, match="whole numbers up to .*; state their unit, such as .*count/4096"):
            read_log(path)
        log = read_log(path, {"units": {"position": "count/4096", "command": "count/4096"}})
        np.testing.assert_allclose(log.joints[0].position - np.pi, motion()["pos_knee"], atol=1e-9)

    def test_wheels_that_turn_often_are_radians_by_their_encoder(self, csv_of):
        columns = motion()
        columns["pos_knee"] = np.round(np.linspace(0, 90, 400) * 2048 / np.pi) * np.pi / 2048
        columns["cmd_knee"] = np.linspace(0, 90, 400)
        log = read_log(csv_of(columns, number="{:.12g}"))
        assert log.joints[0].position.max() > 89.0
        assert log.joints[0].units["position"] == "rad"

    def test_numbers_that_lost_their_sign(self, csv_of):
        columns = motion()
        counts = np.round(columns["pos_knee"] * 4096 / (2 * np.pi))
        columns |= {"pos_knee": counts % 2**32, "cmd_knee": counts % 2**16, "load_knee": np.round(counts) % 65536}
        path = csv_of(columns, number="{:.12g}")
        log = read_log(path, {"units": {"position": "count/4096", "command": "count/4096"}})
        np.testing.assert_allclose(log.joints[0].position, motion()["pos_knee"], atol=1e-9)
        np.testing.assert_allclose(log.joints[0].command, motion()["pos_knee"], atol=1e-9)
        np.testing.assert_array_equal(log.joints[0].extra["duty"], counts)
        found(log, "pos_knee: numbers from 2147483648 on are negative ones of 32 bits")
        found(log, "cmd_knee: numbers from 32768 on are negative ones of 16 bits")

    @pytest.mark.parametrize("unit", ["rad", "deg", "count/4096"])
    def test_angles_that_start_again_after_a_turn(self, csv_of, unit):
        t = np.arange(600) * 0.01
        one = {"rad": 1.0, "deg": np.pi / 180, "count/4096": np.pi / 2048}[unit]
        true = 2.5 + 2.0 * np.sin(2 * t)
        wrapped = (np.round((true + np.pi) / (np.pi / 2048)) % 4096 - 2048) * np.pi / 2048
        command = (true + 0.1 + np.pi) % (2 * np.pi) - np.pi
        path = csv_of({"time": t, "pos": wrapped / one, "cmd": command / one}, number="{:.12g}")
        log = read_log(path, {"units": {"position": unit, "command": unit}})
        found(log, "joint: the position jumps by a turn")
        offset = log.joints[0].position[0] - true[0]
        assert round(offset / (2 * np.pi)) == pytest.approx(offset / (2 * np.pi), abs=1e-3)
        np.testing.assert_allclose(log.joints[0].position - offset, true, atol=4e-3)
        np.testing.assert_allclose(log.joints[0].command - offset, true + 0.1, atol=4e-3)

    def test_supplies(self, csv_of):
        columns = motion() | {"vin": np.full(400, 7400.0)}
        log = read_log(csv_of(columns))
        np.testing.assert_allclose(log.joints[0].supply, 7.4)
        found(log, "vin: 7400 and the like are mV")
        log = read_log(csv_of(columns | {"vin": np.full(400, 120.0)}))
        assert log.joints[0].supply is None
        found(log, "vin is left out: 120 is not a voltage; state its unit or scale")
        mapping = {"columns": {"time": "time", "pos_{joint}": "position", "cmd_{joint}": "command"}}
        mapping["columns"]["vin"] = {"quantity": "supply", "scale": 0.1}
        log = read_log(csv_of(columns | {"vin": np.full(400, 120.0)}), mapping)
        np.testing.assert_allclose(log.joints[0].supply, 12.0)
        found(log, "vin: scale 0.1, as stated")


class TestClocks:
    @pytest.mark.parametrize(("unit", "scale"), [("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
    @pytest.mark.parametrize("start", [0.0, 1.7e9])
    def test_units_of_time(self, csv_of, arm, unit, scale, start):
        log = read_log(csv_of(arm | {"t": np.round((arm["t"] + start) * scale)}, number="{:.19g}"))
        np.testing.assert_allclose(log.time, arm["t"], atol=1.1 / scale + 1e-6)
        found(log, f"are {unit}, converted to seconds")
        assert len([text for text in log.findings if "counted from there" in text]) == (start > 0.0)

    def test_time_by_name_and_by_date(self, csv_of):
        columns = motion()
        assert read_log(csv_of({"time_ms": columns.pop("time") * 1e3, **columns})).time[1] == pytest.approx(0.01)
        dates = [f"2026-01-15T10:28:10.{10 * i:03d}+00:00" for i in range(100)]
        log = read_log(csv_of({"timestamp": dates} | {name: values[:100] for name, values in columns.items()}))
        np.testing.assert_allclose(log.time, np.arange(100) * 0.01, atol=1e-6)
        found(log, "timestamp: dates")

    def test_time_that_may_be_two_units_is_asked_for(self, csv_of):
        columns = motion(dt=0.5)
        path = csv_of(columns)
        with pytest.raises(actuon.LogError, match="column 'time': steps of 0.5 may be seconds or milliseconds"):
            read_log(path)
        assert read_log(path, {"units": {"time": "ms"}}).time[1] == 0.0005

    @pytest.mark.parametrize("bits", [16, 32])
    def test_counters_that_start_again(self, csv_of, bits):
        columns = motion()
        columns["time"] = (np.round(columns["time"] * 1e6) + 2**bits - 10_000) % 2**bits
        log = read_log(csv_of(columns, number="{:.12g}"))
        np.testing.assert_allclose(log.time - log.time[0], np.arange(400) * 0.01, atol=1e-9)
        found(log, f"time: a counter of {bits} bits")

    def test_time_that_runs_backwards(self, csv_of):
        columns = motion()
        columns["time"][17] = 0.03
        with pytest.raises(
            actuon.LogError, match="log.csv', line 19, column 'time': time runs backwards, from 0.16 s to 0"
        ):
            read_log(csv_of(columns))

    def test_samples_of_the_same_time(self, csv_of):
        columns = motion()
        columns["time"][17] = columns["time"][16]
        log = read_log(csv_of(columns))
        assert len(log) == 399
        assert found(log, "have the time of the one after").startswith("time: 1 samples")
        assert log.joints[0].position[16] == pytest.approx(columns["pos_knee"][17])
        with pytest.raises(
            actuon.LogError, match="200 of 400 samples have the time of the one before; the clock is too c"
        ):
            read_log(csv_of(columns | {"time": np.repeat(np.arange(200) * 0.01, 2)}))

    def test_gaps_and_uneven_steps(self, csv_of):
        columns = motion()
        columns["time"][100:] += 0.5
        assert found(read_log(csv_of(columns)), "gap") == "time: 1 gap, the longest of 0.51 s after 0.99 s (line 101)"
        columns = motion()
        columns["time"] += np.random.default_rng(1).uniform(0.0, 0.006, 400)
        found(read_log(csv_of(columns)), "time: uneven steps")

    def test_a_low_rate(self, csv_of):
        slow = found(read_log(csv_of(motion(dt=0.1))), "per second")
        assert slow.startswith("time: only 10 samples per second: a fit cannot resolve delays and steps within 100 ms")
        assert read_log(csv_of(motion(dt=0.02))).findings == ()

    def test_a_rate_instead_of_a_column(self, csv_of):
        columns = motion()
        del columns["time"]
        path = csv_of(columns)
        with pytest.raises(actuon.LogError, match="no column of time, such as 'time' or 't'; state it, or the 'rate'"):
            read_log(path)
        np.testing.assert_allclose(read_log(path, {"rate": 50}).time, np.arange(400) * 0.02)
        with pytest.raises(actuon.LogError, match="has the column of time 'time', and the mapping a 'rate'"):
            read_log(csv_of(motion()), {"rate": 50})

    def test_commands_on_a_clock_of_their_own(self, csv_of):
        columns = motion()
        early = columns["time"] - 0.0137
        log = read_log(csv_of({"t_cmd": early, "t_pos": columns.pop("time"), **columns}))
        assert "13.7 ms (13.7 to 13.7) before the samples" in found(log, "t_cmd")
        np.testing.assert_allclose(log.joints[0].command[2:], [*columns["cmd_knee"][3:], columns["cmd_knee"][-1]])
        late = csv_of({"t_cmd": early + 500.0, "time": log.time, **columns})
        with pytest.raises(
            actuon.LogError, match="commands are from 499.986 s .* by the clock 't_cmd', .*; state the 'offset'"
        ):
            read_log(late)
        mapping = {"columns": {"time": "time", "t_cmd": {"quantity": "command_time", "offset": -500.0}}}
        mapping["columns"] |= {"cmd_knee": "command", "pos_knee": "position"}
        np.testing.assert_allclose(read_log(late, mapping).joints[0].command, log.joints[0].command)

    def test_commands_later_than_positions(self, csv_of, arm):
        late = bent(arm, lambda values: np.concatenate([np.full(30, values[0]), values[:-30]]), "cmd")
        assert "before their commands: the two are on different clocks" in found(read_log(csv_of(late)), "clocks")

    def test_positions_much_later_than_commands(self, csv_of, arm):
        late = bent(arm, lambda values: np.concatenate([np.full(30, values[0]), values[:-30]]), "pos", "vel")
        assert "after their commands, 3" in found(read_log(csv_of(late)), "positions come ")

    def test_clocks_of_different_speed(self, csv_of, arm):
        true = arm["t"]
        slow = bent(arm, lambda values: np.interp(true * 0.99, true, values), "pos", "vel")
        assert "clocks run at different speeds" in found(read_log(csv_of(slow)), "second half")


class TestSigns:
    def test_commands_against_positions(self, csv_of, arm):
        log = read_log(csv_of(bent(arm, np.negative, "cmd_elbow", "cmd_grip")))
        assert found(log, "opposite").startswith("elbow_flex, gripper: position and command have opposite signs (corr")
        flipped = bent(arm, np.negative, "cmd_wrist_roll")
        mapping = {"columns": {"t": "time", "pos_wrist_roll": {"quantity": "position", "joint": "roll"}}}
        mapping["columns"]["cmd_wrist_roll"] = {"quantity": "command", "joint": "roll", "sign": -1}
        log = read_log(csv_of(flipped), mapping)
        np.testing.assert_allclose(log.joint("roll").command, arm["cmd_wrist_roll"])
        assert log.findings == ("cmd_wrist_roll: sign -1, as stated",)

    def test_velocities_against_positions(self, csv_of, arm):
        log = read_log(csv_of(bent(arm, np.negative, "vel_gripper")))
        assert found(log, "opposite") == "gripper: velocity and position have opposite signs; state the 'sign' of one"

    def test_a_motor_that_is_let_go_is_not_compared(self, csv_of):
        columns = motion()
        columns["enabled"] = (np.arange(400) < 150).astype(float)
        columns["cmd_knee"][150:] = -3.0 * columns["pos_knee"][150:]
        assert read_log(csv_of(columns)).findings == ()
        columns["enabled"][:] = 1.0
        found(read_log(csv_of(columns)), "opposite signs")
        columns["enabled"][:] = 0.0
        assert read_log(csv_of(columns)).findings == ("knee: the motor is never switched on",)


class TestSamples:
    def test_repeated_readings(self, csv_of, arm):
        stale = bent(arm, lambda values: np.repeat(values[::2], 2)[: len(values)], "pos", "vel")
        assert "positions repeat while the joint moves" in found(read_log(csv_of(stale)), "repeat")

    def test_single_wild_positions(self, csv_of):
        columns = motion()
        columns["pos_knee"][40] += 2.0
        text = found(read_log(csv_of(columns)), "spike")
        assert re.fullmatch(r"knee: 1 position spike of up to [\d.]+ rad \(line 42\)", text)

    def test_a_time_without_readings(self, csv_of, arm):
        columns = motion()
        columns["pos_knee"][120:220] = columns["pos_knee"][120]
        assert found(read_log(csv_of(columns)), "does not change") == (
            "knee: the position does not change from 1.2 s to 2.19 s (line 122), although the joint must move: it was "
            "not read, or the joint was blocked; leave that part out"
        )
        arm = {name: values.copy() for name, values in arm.items()}
        arm["pos_gripper"][400:450] = arm["pos_gripper"][400]
        text = found(read_log(csv_of(arm)), "gripper: the position does not change from ")
        assert "to 9.007 s" in text  # and from where it rested before

    @pytest.mark.parametrize("dt", [0.002, 0.01, 0.05])
    @pytest.mark.parametrize("steps", [(1.0,), (1.0, 4.0, 8.0)], ids=["one", "some"])
    def test_a_joint_that_rests_before_a_step_is_read(self, csv_of, dt, steps):
        """A joint of the second order, 40 rad/s, 20 ms late, with an encoder of 12 bits."""
        fine = 5e-4
        time = np.arange(0.0, 10.0, fine)
        command = sum((0.5 * (-1) ** i * (time >= at) for i, at in enumerate(steps)), np.zeros(len(time)))
        q, v, positions = 0.0, 0.0, []
        for target in np.concatenate([np.zeros(40), command])[: len(time)]:
            positions.append(q)
            v += fine * (1600.0 * (target - q) - 72.0 * v)
            q += fine * v
        position = np.round(np.array(positions) * 4096 / (2 * np.pi)) * 2 * np.pi / 4096
        rows = slice(None, None, round(dt / fine))
        log = read_log(csv_of({"time": time[rows], "cmd_knee": command[rows], "pos_knee": position[rows]}))
        assert [text for text in log.findings if "samples per second" not in text] == []

    def test_swapped_joints(self, csv_of, arm):
        columns = motion(joints=("hip", "knee", "foot"))
        columns["pos_hip"], columns["pos_knee"] = columns["pos_knee"], columns["pos_hip"]
        log = read_log(csv_of(columns))
        assert [text.split(" (")[0] for text in log.findings] == [
            "hip: the position follows the command of knee",
            "knee: the position follows the command of hip",
        ]
        assert "columns may be swapped; state their meanings in a mapping" in log.findings[0]
        names = ("pos_shoulder_pan", "pos_elbow_flex", "vel_shoulder_pan", "vel_elbow_flex")
        pan, flex, pan_speed, flex_speed = (arm[name] for name in names)
        swapped = arm | dict(zip(names, (flex, pan, flex_speed, pan_speed), strict=True))
        log = read_log(csv_of(swapped))
        assert [text.split(":")[0] for text in log.findings if "swapped" in text] == ["shoulder_pan", "elbow_flex"]

    def test_joints_that_do_not_move(self, csv_of):
        columns = motion(joints=("hip", "knee"))
        columns["pos_hip"][:] = 0.25
        log = read_log(csv_of(columns))
        found(log, "hip: does not move: the position is 0.25 in all samples")
        columns["pos_knee"][:] = 0.5
        with pytest.raises(actuon.LogError, match="nothing moves: .* 400 samples of 'pos_hip', 'pos_knee'"):
            read_log(csv_of(columns))
        columns = motion()
        columns["cmd_knee"][:] = 0.0
        found(read_log(csv_of(columns)), "knee: the command is constant, 0")

    def test_empty_rows_at_the_end(self, tmp_path):
        path = write_csv(tmp_path / "log.csv", motion())
        path.write_text(path.read_text() + "4.0,,\n4.01,,\n")
        log = read_log(path)
        assert len(log) == 400
        found(log, "the last 2 rows, from line 402 on, are empty and are left out")

    def test_a_last_line_that_is_cut_off(self, tmp_path):
        path = write_csv(tmp_path / "log.csv", motion())
        path.write_text(path.read_text() + "4.0,0.1")
        log = read_log(path)
        assert len(log) == 400
        found(log, "line 402 is cut off and is left out")

    def test_other_measurements_with_holes_are_left_out(self, csv_of):
        columns = motion()
        columns["temp"] = np.full(400, 25.0)
        columns["temp"][7] = np.nan
        log = read_log(csv_of(columns))
        assert "temperature" not in log.joints[0].extra
        found(log, "temp is left out: 1 of 400 cells are empty, not finite or huge (first: line 9)")


def edited(line, column, cell):
    """A CSV file with one cell changed."""
    rows = [row.split(",") for row in written(motion()).split("\n")]
    rows[line - 1][column] = cell
    return "\n".join(",".join(row) for row in rows)


def written(columns):
    rows = [
        ",".join(columns),
        *(",".join(f"{cell:.6g}" for cell in row) for row in zip(*columns.values(), strict=True)),
    ]
    return "\n".join(rows) + "\n"


BAD_CSV = {
    "empty": ("", "log.csv' is empty; must hold a header and a row per sample"),
    "a header": ("time,pos,cmd\n", "has a header and no samples"),
    "no header": ("0,1,2\n1,2,3\n", "line 1: got the numbers .*; the first line must name the columns"),
    "two names": ("time,pos,cmd,pos\n0,1,2,3\n", "line 1: two columns are called 'pos'"),
    "few samples": ("time,pos,cmd\n0,1,2\n0.1,3,4\n", "has 2 samples; must have at least 3"),
    "NaN": (edited(5, 2, "nan"), "line 5, column 'pos_knee': is empty or not finite; must be a number"),
    "infinity": (edited(5, 1, "-inf"), "line 5, column 'cmd_knee': is empty or not finite"),
    "a hole": (edited(7, 2, ""), "line 7, column 'pos_knee': is empty or not finite"),
    "a hole in time": (edited(7, 0, ""), "line 7, column 'time': is empty or not finite"),
    "a huge number": (edited(7, 2, "1e300"), "line 7, column 'pos_knee': got 1e\\+300; must be smaller than 1e\\+25"),
    "text": (edited(9, 1, "off"), "line 9, column 'cmd_knee': got 'off'; must be a number"),
    "too many cells": (edited(9, 1, "1,2"), "line 9: got 4 cells; must be 3, one for each column"),
    "too few cells": (edited(9, 1, "1").replace("\n", "\n0.5\n", 1), "line 2: got 1 cells; must be 3"),
    "no position": ("time,x,cmd\n" + "0,1,2\n" * 5, "has no column of a position, .* Columns: time, x, cmd"),
    "no command": ("time,x,pos\n" + "0,1,2\n" * 5, "has no column of a command, .* Columns: time, x, pos"),
    "two positions": ("time,q,pos,cmd\n" + "0,1,2,3\n" * 5, "'q' and 'pos' are both the position; state in a mapping"),
    "switch": (
        "time,pos,cmd,enabled\n" + "".join(f"{t / 10},{t},{t},{t}\n" for t in range(5)),
        "line 4, column 'enabled': got 2; must be 0 or 1",
    ),
    "not text": (b"time,pos\xff,cmd\n0,1,2\n", "is not UTF-8 text: line 1 holds the byte 0xff"),
}


@pytest.mark.parametrize("name", BAD_CSV)
def test_bad_csv_files_are_refused_with_the_place(tmp_path, name):
    content, message = BAD_CSV[name]
    path = tmp_path / "log.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(actuon.LogError, match=message) as caught:
        read_log(path)
    assert "log.csv" in str(caught.value)


BAD_JSON = {
    "empty": ("", "is empty; must hold an object with 'entries'"),
    "cut off": ('{"mass": 1, "entries": [{"timestamp": 0.0, "pos', "line 1, column 44: is cut off"),
    "cut off after a value": ('{"mass": 1, "entries": [{"timestamp": 0.0}\n', "line 2, column 1: is cut off"),
    "cut off in an escape": ('{"mass": 1, "a\\', "column 13: is cut off"),
    "no comma": ('{"mass": 1 "entries": []}', "column 12: is not a valid JSON file: Expecting ','"),
    "an unclosed string before others": ('{"mass: 1, "entries": []}', "is not a valid JSON file"),
    "not JSON": ("entries: []", "line 1, column 1: is not a valid JSON file"),
    "a number": ("3", "got 3; must be an object with 'entries'"),
    "other keys": ('{"entrys": []}', "has no 'entries', .* Did you mean 'entrys'"),
    "no entries": ('{"entries": []}', r"entries: got \[\]; must be a list of samples, at least one"),
    "an entry": ('{"entries": [{"time": 1}, 3]}', "entry 2: got 3; must be an object"),
    "a hole": (
        json.dumps({"entries": [{"time": t / 10, "goal": t} | ({"pos": t} if t != 1 else {}) for t in range(5)]}),
        "entry 2, column 'pos': is empty or not finite",
    ),
    "null": (
        json.dumps({"entries": [{"time": t / 10, "pos": None if t == 2 else t, "goal": t} for t in range(5)]}),
        "entry 3, column 'pos': is empty or not finite",
    ),
    "a list": (
        json.dumps({"entries": [{"time": t / 10, "pos": [t], "goal": t} for t in range(5)]}),
        r"entry 1, column 'pos': got '\[0\]'; must be a number",
    ),
    "deep": ("[" * 100_000, "too deep|cut off"),
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_bad_json_files_are_refused_with_the_place(tmp_path, name):
    content, message = BAD_JSON[name]
    path = tmp_path / "log.json"
    path.write_text(content)
    with pytest.raises(actuon.LogError, match=message):
        read_log(path)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(actuon.LogError, match="is a directory; must be a file"):
        read_log(tmp_path)
    with pytest.raises(actuon.LogError, match="has the format '.xlsx'; must be one of .csv, .csv.gz, "):
        read_log(tmp_path / "log.xlsx")
    for ending in ENDINGS:
        with pytest.raises(actuon.LogError, match="does not exist"):
            read_log(tmp_path / f"none{ending}")
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(b"time,pos,cmd\n" * 1000)[:-20])
    with pytest.raises(actuon.LogError, match="log.csv.gz' is cut off: the compressed data has no end"):
        read_log(tmp_path / "log.csv.gz")
    (tmp_path / "log.json.gz").write_bytes(b"{}")
    with pytest.raises(actuon.LogError, match="log.json.gz' is not a valid gzip file"):
        read_log(tmp_path / "log.json.gz")
    for ending in (".npz", ".parquet"):
        (tmp_path / f"log{ending}").write_bytes(b"PK\x03\x04nothing")
        with pytest.raises(actuon.LogError, match=f"log{ending}' is .*not a valid"):
            read_log(tmp_path / f"log{ending}")


def test_texts_that_are_too_long_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("actuon.logs.formats.content.LARGEST", 1 << 20)
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(b"time,pos,cmd\n" + b"0,0,0\n" * 1_000_000))
    with pytest.raises(actuon.LogError, match="has more than 1 MiB of text; cut it, or write it as .npz or .parquet"):
        read_log(path)


def test_files_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("actuon.logs.formats.content.LARGEST", 1 << 20)
    columns = {name: np.zeros(200_000) for name in ("time", "pos", "cmd")}
    bombs = [tmp_path / name for name in ("log.npz", "bytes.npz", "empty.npz", "log.parquet", "log.json.gz")]
    np.savez_compressed(bombs[0], **columns)
    np.savez_compressed(bombs[1], **{name: values.astype(np.int8) for name, values in columns.items()})
    np.savez_compressed(bombs[2], **{name: np.full(200_000, "", "U0") for name in columns})
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow.parquet.write_table(pyarrow.table(columns | {"note": ["x" * 100] * 200_000}), bombs[3])
    bombs[4].write_bytes(gzip.compress(json.dumps([{}] * 2_000 + [{f"q{i}": 0 for i in range(2_000)}]).encode()))
    for path in bombs:
        assert path.stat().st_size < 200_000
        with pytest.raises(actuon.LogError, match=f"{path.name}' unpacks to more than 1 MiB; cut it into several logs"):
            read_log(path)


def test_what_a_npz_has_beside_arrays_is_not_used(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, **motion())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("readme.txt", "of the left knee")
    assert found(read_log(path), "arrays that are not used") == "arrays that are not used: readme.txt"


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])
def test_a_long_cell_does_not_make_all_cells_long(tmp_path, monkeypatch, ending):
    monkeypatch.setattr("actuon.logs.formats.content.LARGEST", 1 << 22)
    columns = motion() | {"note": ["x" * 100_000, *["y"] * 399]}
    path = tmp_path / f"log{ending}"
    if ending == ".csv":
        write_csv(path, columns)
    elif ending == ".json":
        path.write_text(
            json.dumps([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
        )
    else:
        pyarrow = pytest.importorskip("pyarrow")
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    tracemalloc.start()
    log = read_log(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(log) == 400
    assert most < 400 * 100_000


class TestMapping:
    def test_a_file(self, tmp_path, csv_of):
        (tmp_path / "columns.yaml").write_text(
            """\
columns:
  stamp: {quantity: time, unit: ms}
  "{joint}.x": {quantity: position, unit: deg, sign: -1, offset: 0.5}
  "{joint}.goal": {quantity: command, unit: deg, scale: 2.0}
  u: effort_command
joints: {1: knee}
settings: {mass: 0.5, motor: big}
"""
        )
        count = np.arange(100.0)
        path = csv_of({"stamp": count * 10, "1.x": count, "1.goal": count, "u": count, "other": count})
        log = read_log(path, tmp_path / "columns.yaml")
        assert log.joint_names == ("knee",)
        assert log.settings == {"mass": 0.5, "motor": "big"}
        np.testing.assert_allclose(log.time, count / 100)
        np.testing.assert_allclose(log.joints[0].position, 0.5 - np.radians(count))
        np.testing.assert_allclose(log.joints[0].command, np.radians(2.0 * count))
        np.testing.assert_array_equal(log.joints[0].effort_command, count)
        assert log.joints[0].units["position"] == "deg"
        assert read_log(path, ColumnMapping.of(tmp_path / "columns.yaml")).findings == log.findings

    @pytest.mark.parametrize(
        ("mapping", "message"),
        [
            ({"colums": {}}, "mapping: unknown key 'colums'; keys: .* Did you mean 'columns'"),
            ({"columns": 3}, "mapping: columns: got 3; must be a mapping"),
            ({"columns": {"a": "positon"}}, "columns.a: got the quantity 'positon'; .* Did you mean 'position'"),
            ({"columns": {"a": {"joint": "b"}}}, "columns.a: needs 'quantity'"),
            (
                {"columns": {"a": {"quantity": "position", "units": "deg"}}},
                "unknown key 'units'; .* Did you mean 'unit'",
            ),
            (
                {"columns": {"a": {"quantity": "position", "unit": "s"}}},
                "position has no unit 's'; units: rad, mrad, deg",
            ),
            ({"columns": {"a": {"quantity": "position", "unit": "count/0"}}}, "position has no unit 'count/0'"),
            ({"columns": {"a": {"quantity": "position", "sign": 2}}}, "sign: got 2; must be 1 or -1"),
            ({"columns": {"a": {"quantity": "position", "scale": 0}}}, "scale: got 0; must not be 0"),
            ({"columns": {"a": {"quantity": "position", "offset": "x"}}}, "offset: got 'x'; must be a finite number"),
            ({"columns": {"a{joint}": {"quantity": "position", "joint": "b"}}}, "names the joint twice"),
            ({"columns": {"b": "position"}}, "has no column 'b'; columns: time, cmd_knee, pos_knee"),
            ({"columns": {"b{joint}": "position"}}, r"has no column like 'b\{joint\}'"),
            ({"columns": {"pos_knee": "time", "time": "time"}}, "'pos_knee' and 'time' are both the time"),
            ({"units": {"positon": "deg"}}, "units: unknown key 'positon'; .* Did you mean 'position'"),
            ({"units": {"position": "degre"}}, "has no unit 'degre'; .* Did you mean 'deg'"),
            ({"rate": 0}, "rate: got 0; must be greater than 0"),
            ({"settings": {"mass": [1]}}, r"settings.mass: got \[1\]; must be a finite number"),
            ({"joints": {"a": 1.5}}, "joints.a: got 1.5; must be text"),
            (3, "mapping: got 3; must be a mapping"),
        ],
    )
    def test_mistakes_are_named(self, csv_of, mapping, message):
        with pytest.raises(actuon.LogError, match=message):
            read_log(csv_of(motion()), mapping)

    @pytest.mark.parametrize(
        ("name", "quantity", "joint"),
        [
            ("t", "time", ""),
            ("timestamp", "time", ""),
            ("cmd_left_knee", "command", "left_knee"),
            ("left_knee_pos", "position", "left_knee"),
            ("goal_position", "command", ""),
            ("position_target/knee", "command", "knee"),
            ("dof_pos[3]", "position", "3"),
            ("dof_pos_target_3", "command", "3"),
            ("dofVel3", "velocity", "3"),
            ("Present_Position", "position", ""),
            ("joint1_torque", "effort", "joint1"),
            ("tau_con2", "effort_command", "2"),
            ("torque_enable", "enabled", ""),
            ("input_volts", "supply", ""),
            ("current_position", "position", ""),
            ("motor_current_hip", "current", "hip"),
            ("position/target", "position", "target"),
            ("t_cmd", "command_time", ""),
            ("q1", "position", "1"),
            ("dq1", "velocity", "1"),
            ("notes", None, None),
            ("t_knee", None, None),
        ],
    )
    def test_usual_names(self, name, quantity, joint):
        column = recognise(name)
        assert (column and (column.quantity, column.joint)) == (quantity and (quantity, joint))

    def test_names_with_units(self):
        assert recognise("pos_knee [deg]").unit == "deg"
        assert recognise("knee velocity (rpm)").unit == "rpm"
        assert recognise("time_us").unit == "us"
        assert recognise("torque_knee_Nm").unit == "N·m"
        assert recognise("pos_s").joint == "s"

    def test_a_column_belongs_to_the_name_that_says_most_of_it(self, csv_of):
        columns = motion(joints=("shoulder", "elbow"))
        path = csv_of(
            {"time": columns["time"]}
            | {f"{joint}_deg": np.degrees(columns[f"pos_{joint}"]) for joint in ("shoulder", "elbow")}
            | {f"{joint}_des_deg": np.degrees(columns[f"cmd_{joint}"]) for joint in ("shoulder", "elbow")}
        )
        angle = {"quantity": "position", "unit": "deg"}
        wanted = {"quantity": "command", "unit": "deg"}
        for names in (["{joint}_deg", "{joint}_des_deg"], ["{joint}_des_deg", "{joint}_deg"]):
            meant = {name: wanted if "des" in name else angle for name in names}
            log = read_log(path, {"columns": {"time": "time", **meant}})
            assert set(log.joint_names) == {"shoulder", "elbow"}
            for joint in log.joints:
                np.testing.assert_allclose(joint.command, columns[f"cmd_{joint.name}"], atol=1e-8)
                np.testing.assert_allclose(joint.position, columns[f"pos_{joint.name}"], atol=1e-8)
        meant = {"{joint}_deg": angle, "elbow_des_deg": wanted | {"joint": "elbow"}}
        log = read_log(path, {"columns": {"time": "time", **meant}})
        assert log.joint_names == ("shoulder", "elbow")
        assert log.joint("shoulder").command is None
        assert found(log, "left out") == (
            "shoulder_des_deg is left out of '{joint}_deg': by its name it is the command of 'shoulder'; add a "
            "line for it to the mapping"
        )

    def test_one_measurement_for_all_joints(self, csv_of):
        log = read_log(csv_of(motion(joints=("a", "b")) | {"vin": np.full(400, 12.0), "load": np.ones(400)}))
        assert [joint.supply[0] for joint in log.joints] == [12.0, 12.0]
        assert found(log, "not used") == "columns that are not used: load"

    def test_the_duty_is_a_quantity_of_a_mapping(self, csv_of):
        path = csv_of(motion() | {"load_knee": np.full(400, 50.0)})
        columns = {"time": "time", "pos_{joint}": "position", "cmd_{joint}": "command", "load_{joint}": "duty"}
        assert read_log(path, {"columns": columns, "units": {"duty": "%"}}).joint("knee").extra["duty"][0] == 0.5

    def test_a_log_of_one_joint_may_name_it_once(self, csv_of):
        columns = motion()
        log = read_log(csv_of({"time": columns["time"], "pos_knee": columns["pos_knee"], "cmd": columns["cmd_knee"]}))
        assert log.joint_names == ("knee",)
        assert log.joints[0].command is not None


@st.composite
def logs(draw):
    count = draw(st.integers(3, 40))
    steps = draw(st.lists(st.floats(1e-6, 0.1), min_size=count, max_size=count))
    characters = st.characters(blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp"))
    names = draw(st.lists(st.text(characters, min_size=1, max_size=12), min_size=1, max_size=3, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))

    def series(kinds):
        chosen = draw(st.sets(st.sampled_from(kinds)))
        return {kind: rng.normal(size=count) * 10.0 ** rng.integers(-3, 2) for kind in kinds if kind in chosen}

    joints = []
    for name in names:
        own = series(["velocity", "effort_command", "supply"])
        own |= {"enabled": rng.random(count) > 0.5} if draw(st.booleans()) else {}
        extra = series(["effort", "velocity_command", "current", "voltage", "temperature", "duty"])
        positions = rng.uniform(-1.5, 1.5, size=(2, count))
        joints.append(JointLog(name, positions[0], positions[1], **own, extra=extra))
    keys = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=8)
    keys = keys.filter(lambda key: key not in ("entries",))
    values = st.floats(allow_nan=False, allow_infinity=False) | st.text(
        st.characters(blacklist_categories=("Cs",)), max_size=8
    )
    said = draw(st.dictionaries(keys, values, max_size=3))
    return Log("", np.cumsum(steps), tuple(joints), said)


@pytest.mark.parametrize("ending", ENDINGS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(log=logs())
def test_what_is_written_reads_back_the_same(tmp_path, ending, log):
    path = tmp_path / f"log{ending}"
    save_log(path, log)
    again = read_log(path)
    assert_same(log, again)
    assert again.settings == log.settings
    assert again.path == str(path)


@pytest.mark.parametrize("ending", ENDINGS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(data=st.data())
def test_damaged_files_are_read_in_part_or_refused(tmp_path, ending, data):
    path = tmp_path / f"log{ending}"
    columns = motion(30)
    save_log(
        path, Log("", columns["time"], (JointLog("knee", columns["pos_knee"], columns["cmd_knee"]),), {"mass": 1.5})
    )
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    for place in data.draw(st.lists(st.integers(0, max(len(content) - 1, 0)), max_size=4)):
        if content:
            content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with contextlib.suppress(actuon.LogError):
        assert len(read_log(path)) <= 30


class TestFormats:
    def test_settings_and_decimal_commas_in_csv(self, tmp_path):
        rows = "".join(f"{t / 100:.2f};{t / 10};{t / 10}\n" for t in range(20)).replace(".", ",")
        path = tmp_path / "log.csv"
        path.write_text(f"# mass: 0.5\n# motor: xl330\n\n# just words\ntime;pos;cmd\n{rows}", "utf-8-sig")
        log = read_log(path)
        assert log.settings == {"mass": 0.5, "motor": "xl330"}
        np.testing.assert_allclose(log.joints[0].position, np.arange(20) / 10)
        found(log, "decimal comma")

    def test_lines_are_counted_with_comments_and_empty_lines(self, tmp_path):
        path = tmp_path / "log.csv"
        path.write_text("# a: 1\ntime,pos,cmd\n\n0,1,2\n\n0.1,x,3\n0.2,3,4\n0.3,4,5\n")
        with pytest.raises(actuon.LogError, match="line 6, column 'pos': got 'x'"):
            read_log(path)

    def test_lists_of_entries_and_booleans_in_json(self, tmp_path):
        path = tmp_path / "log.json"
        entries = [{"time": t / 100, "pos": t / 10, "cmd": t / 10, "enabled": t > 3} for t in range(20)]
        path.write_text(json.dumps(entries))
        np.testing.assert_array_equal(read_log(path).joints[0].enabled, np.arange(20) > 3)
        path.write_text(json.dumps({"kp": 3, "gains": [1, 2], "entries": entries}))
        log = read_log(path)
        assert log.settings == {"kp": 3}
        found(log, "settings that are not used: gains")

    def test_arrays_of_all_joints_in_npz(self, tmp_path):
        path = tmp_path / "log.npz"
        time, position = np.arange(50) * 0.02, np.random.default_rng(0).normal(size=(50, 2))
        arrays = {
            "time": time,
            "dof_pos": position,
            "dof_pos_target": position + 0.1,
            "mass": 0.5,
            "camera": np.ones((3, 4)),
        }
        np.savez(path, **arrays, joint_names=np.array(["hip", "knee"]))
        log = read_log(path)
        assert log.joint_names == ("hip", "knee")
        assert log.settings == {"mass": 0.5}
        np.testing.assert_array_equal(log.joint("knee").command, position[:, 1] + 0.1)
        found(log, "arrays that are not used: camera")
        np.savez(path, **arrays)
        assert read_log(path).joint_names == ("0", "1")
        np.savez(path, **arrays, joint_names=np.array(["hip"]))
        with pytest.raises(actuon.LogError, match=r"'dof_pos' has the shape \(50, 2\), and there are 1 joints"):
            read_log(path)
        np.savez(path, **(arrays | {"dof_pos": position[:40]}))
        with pytest.raises(actuon.LogError, match=r"'dof_pos' has the shape \(40, 2\); must be \(50, …\)"):
            read_log(path)

    def test_parquet_of_others(self, tmp_path):
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = motion(50)
        stamps = (columns["time"] * 1e9).astype("datetime64[ns]")
        table = {"stamp": stamps, "pos_knee": columns["pos_knee"].astype(np.float32), "cmd_knee": columns["cmd_knee"]}
        pq.write_table(pa.table(table | {"enabled": np.ones(50, bool), "label": ["a"] * 50}), tmp_path / "log.parquet")
        log = read_log(tmp_path / "log.parquet")
        np.testing.assert_allclose(log.time, columns["time"], atol=1e-9)
        assert log.joints[0].enabled.all()
        found(log, "columns that are not used: label")

    def test_parquet_needs_its_extra(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        with pytest.raises(actuon.MissingExtraError, match=r"pip install 'actuon\[parquet\]'"):
            read_log(tmp_path / "log.parquet")

    @pytest.mark.parametrize("robots", [1, 2])
    def test_records(self, tmp_path, robots):
        with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=robots) as simulation:
            actuators = actuon.ArticulationActuators("link0")
            names = actuators.articulation.dof_names
            with actuon.Recorder(actuators) as recorder:
                for step in range(60):
                    actuators.articulation.set_dof_position_targets(0.1 * np.sin(0.1 * step))
                    simulation.step()
            recorder.save(tmp_path / "run.npz")
            recorder.save(tmp_path / "run.csv")
        data = recorder.data
        for ending in (".npz", ".csv"):
            read = read_logs(tmp_path / f"run{ending}")
            assert [log.path for log in read] == [
                str(tmp_path / f"run{ending}") + (f"[{i}]" if robots > 1 else "") for i in range(robots)
            ]
            for i, log in enumerate(read):
                assert log.joint_names == tuple(names)
                np.testing.assert_allclose(log.time, data["time"], atol=1e-9)
                assert not any("not used" in text for text in log.findings)
                for dof, joint in enumerate(log.joints):
                    for name, kind in {"position": "position", "command": "position_target"}.items():
                        np.testing.assert_allclose(joint.quantities()[name], data[kind][:, i, dof], rtol=1e-6)
                    np.testing.assert_allclose(joint.extra["effort"], data["applied_effort"][:, i, dof], rtol=1e-6)
                    assert joint.units["position"] == "rad"
        if robots > 1:
            with pytest.raises(actuon.LogError, match="is a recording of 2 robots; read it with read_logs"):
                read_log(tmp_path / "run.npz")

    def test_a_record_of_a_joint_that_slides_is_in_metres(self, tmp_path):
        path = tmp_path / "lift.xml"
        joints = '<joint name="lift" type="slide" axis="0 0 1"/><joint name="turn" axis="0 0 1"/>'
        path.write_text(
            f'<mujoco><worldbody><body name="base">{joints}<geom size=".1"/></body></worldbody><actuator>'
            '<position joint="lift" kp="50"/><position joint="turn" kp="5"/></actuator></mujoco>'
        )
        config = actuon.ActuatorConfig(actuon.PDControlConfig(50.0, 5.0))
        with actuon.MujocoSimulation(path) as simulation:
            actuators = actuon.ArticulationActuators.from_actuators("base", [(config, "lift"), (config, "turn")])
            with actuon.Recorder(actuators) as recorder:
                for step in range(30):
                    actuators.articulation.set_dof_position_targets(0.1 * np.sin(0.1 * step))
                    simulation.step()
        recorder.save(tmp_path / "run.npz")
        log = read_log(tmp_path / "run.npz")
        of_lift = {"position": "m", "command": "m", "velocity": "m/s", "velocity_command": "m/s", "effort": "N"}
        of_turn = {
            "position": "rad",
            "command": "rad",
            "velocity": "rad/s",
            "velocity_command": "rad/s",
            "effort": "N·m",
        }
        assert {name: dict(log.joint(name).units) for name in log.joint_names} == {"lift": of_lift, "turn": of_turn}


class TestLog:
    def log(self):
        time = np.array([0.0, 0.1, 0.2, 0.4, 0.5])
        joint = JointLog("knee", time * 10, np.arange(5.0), enabled=np.array([True, True, False, False, True]))
        return Log("a.csv", time, (joint,))

    def test_windows(self):
        log = self.log()
        part = log.window(0.1, 0.4)
        np.testing.assert_array_equal(part.time, [0.1, 0.2])
        np.testing.assert_array_equal(part.joints[0].command, [1.0, 2.0])
        assert part.path == "a.csv"
        with pytest.raises(actuon.LogError, match="the window from 0.25 s to 0.45 s holds 1 samples"):
            log.window(0.25, 0.45)
        even = Log("", np.arange(100) / 100, (JointLog("a", np.arange(100.0)),))
        assert [len(part) for part in even.split_windows(0.25)] == [25] * 4
        assert [part.time[0] for part in even.split_windows(0.3)] == pytest.approx([0.0, 0.3, 0.6])
        for seconds in (0.0, -1.0, float("nan"), float("inf")):
            with pytest.raises(actuon.LogError, match="must be greater than 0"):
                even.split_windows(seconds)
        with pytest.raises(actuon.LogError, match="lasts 0.99 s; windows of 2 s do not fit"):
            even.split_windows(2.0)

    def test_resampling(self):
        even = self.log().resampled(0.05)
        np.testing.assert_allclose(even.time, np.arange(11) * 0.05)
        np.testing.assert_allclose(even.joints[0].position, even.time * 10)
        np.testing.assert_array_equal(even.joints[0].command, [0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 4])
        assert even.joints[0].enabled.dtype == bool
        np.testing.assert_array_equal(even.joints[0].enabled, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1])
        with pytest.raises(actuon.LogError, match="got a step of 0"):
            self.log().resampled(0)

    @given(dt=st.floats(1e-4, 0.2))
    def test_resampling_stays_inside(self, dt):
        log = self.log()
        even = log.resampled(dt)
        assert even.time[-1] <= log.time[-1] + 1e-9
        assert log.time[-1] - even.time[-1] < dt * (1 + 1e-9)
        np.testing.assert_allclose(even.joints[0].position, even.time * 10, atol=1e-9)
        expected = np.searchsorted(log.time, even.time + 1e-6 * dt, side="right") - 1
        np.testing.assert_array_equal(even.joints[0].command, expected)

    def test_joints_by_name(self):
        assert self.log().joint("knee").name == "knee"
        with pytest.raises(actuon.LogError, match="'a.csv' has no joint 'kne'; joints: knee. Did you mean 'knee'"):
            self.log().joint("kne")

    def test_logs_from_python_are_checked(self):
        with pytest.raises(actuon.LogError, match="time must be an array of at least 2 increasing numbers"):
            Log("", np.zeros(3), (JointLog("a", np.zeros(3)),))
        with pytest.raises(actuon.LogError, match=r"command of 'a' has the shape \(2,\); must be \(3,\)"):
            Log("", np.arange(3.0), (JointLog("a", np.zeros(3), np.zeros(2)),))
        with pytest.raises(actuon.LogError, match="must be at least one, each once"):
            Log("", np.arange(3.0), (JointLog("a", np.zeros(3)),) * 2)

    def test_the_table_of_a_log(self, csv_of, arm):
        text = read_log(csv_of(bent(arm, np.degrees, "pos", "cmd"))).describe().split("\n")
        assert " ".join(text[1].split()) == "joint samples rate span position command unit in file also logged"
        assert text[2].split()[:6] == ["shoulder_pan", "1499", "49.85", "Hz", "30.05", "s"]
        assert "deg" in text[2]
        assert text[8] == "found:"
        assert "degrees" in text[9]


class TestSeveral:
    def test_files_folders_and_patterns(self, tmp_path):
        (tmp_path / "a").mkdir()
        for name in ("a/2.csv", "a/1.csv", "b.csv"):
            write_csv(tmp_path / name, motion())
        (tmp_path / "a" / "README.md").write_text("words")
        names = [log.path for log in read_logs([tmp_path / "b.csv", tmp_path / "a", tmp_path / "a" / "*.csv"])]
        assert names == [str(tmp_path / name) for name in ("b.csv", "a/1.csv", "a/2.csv")]
        assert len(read_logs(str(tmp_path / "**" / "*.csv"))) == 3
        for paths, message in (
            ([], "no logs; pass files"),
            (tmp_path / "c*.csv", "matches no file"),
            (tmp_path / "c.csv", "does not exist"),
        ):
            with pytest.raises(actuon.LogError, match=message):
                read_logs(paths)
        (tmp_path / "empty").mkdir()
        with pytest.raises(actuon.LogError, match=r"holds no logs \(\.csv"):
            read_logs(tmp_path / "empty")

    def test_joints_must_be_the_same(self, tmp_path):
        write_csv(tmp_path / "1.csv", motion(joints=("hip", "knee")))
        write_csv(tmp_path / "2.csv", motion(joints=("knee", "hip")))
        assert [log.joint_names for log in read_logs(tmp_path)] == [("hip", "knee")] * 2
        write_csv(tmp_path / "3.csv", motion(joints=("knee", "foot")))
        with pytest.raises(actuon.LogError, match="3.csv' has no 'hip' and also has 'foot', compared with .*1.csv'"):
            read_logs(tmp_path)


def test_writing_refuses_other_formats(tmp_path):
    log = TestLog().log()
    with pytest.raises(actuon.LogError, match="has the format '.txt'; must be one of"):
        save_log(tmp_path / "log.txt", log)
    assert not list(tmp_path.iterdir())
