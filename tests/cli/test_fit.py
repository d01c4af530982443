# SPDX-License-Identifier: Apache-2.0
"""``actuon fit`` and ``actuon fit apply``, on files."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest

import actuon
from actuon.fit import Applied, JointLog, KnownLoadPlant, Log, apply, read_logs, replay_step
from actuon.fit.terms import JointFacts, build_model, duty_gain
from actuon.fit.verdict import judge
from tests.support.command_line import assert_gives_way, command, outcome
from tests.support.pendulums import pendulum_log, simulate, swinging_command, uneven_time
from tests.support.robot_files import save_robot
from tests.support.trials import errors_of

DT = 0.004
KP, KT, RESISTANCE, VOLTAGE = 0.02, 0.4, 3.0, 7.4


def write_bam(path, kp, seed):
    """A log of a servo as BAM writes it: made in NumPy, with Coulomb friction."""
    time = uneven_time(2.0, seed)
    command_ = swinging_command(time, seed=seed)

    def law(target, q, v):
        return KT * (VOLTAGE * np.clip(KP * kp * (target - q), -1.0, 1.0) - KT * v) / RESISTANCE

    position = simulate(
        time, command_, np.ones(len(time), bool), (0.0, 0.0), dt=DT, mass=0.5, length=0.1, law=law,
        friction={"dynamic": 0.03}, viscous=0.005, armature=0.002,
    )  # fmt: skip
    duty = np.rint(885 * np.clip(KP * kp * (command_ - position), -1.0, 1.0)).astype(int) % 65536
    entries = [
        {"timestamp": t, "position": q, "speed": 0.0, "goal_position": g, "torque_enable": True, "load": int(d)}
        for t, q, g, d in zip(time, position, command_, duty, strict=True)
    ]
    log = {"mass": 0.5, "length": 0.1, "kp": kp, "vin": VOLTAGE, "motor": "m", "trajectory": "t", "entries": entries}
    path.write_text(json.dumps(log))
    return path


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    return [write_bam(folder / f"run_{kp}_{seed}.json", kp, seed) for kp in (50, 200) for seed in range(2)]


def test_the_gain_of_a_firmware_is_found_in_the_logged_duty(logs):
    read = read_logs(logs)
    assert duty_gain(read, "joint", "kp") == pytest.approx(KP, rel=0.01)
    weak = [log for log in read if np.abs(log.joints[0].extra["duty"]).max() < 800]
    assert not weak or duty_gain(weak, "joint", "kp") is None


def test_fit_select_apply(logs, tmp_path):
    output, report = tmp_path / "servo.yaml", tmp_path / "report"
    options = ["--models", "servo_m1,pd", "--generations", "25", "--dt", DT, "--report", report]
    printed = command("fit", "select", *logs, "-o", output, *options)
    assert "servo_m1" in printed
    assert "chosen" in printed
    assert "fitted [mrad]" in printed
    assert f"wrote {output}" in printed
    (entry,) = actuon.load_actuators(output)
    assert entry.joints == ("joint",)
    assert entry.actuator.controller.kp == pytest.approx(KP * 50, rel=0.05)
    text = (report / "report.md").read_text()
    assert "**Warning: the fit did not converge" in text.split("## Models")[0]
    for finding in read_logs(logs)[0].findings:
        assert text.count(f"{logs[0]}: {finding}") == 1
    for picture in ("joint_motion.png", "joint_residuals.png", "models.png"):
        assert picture in text
        assert (report / picture).stat().st_size > 1000

    found = json.loads(command("fit", "apply", output, *logs, "--dt", DT, "--json"))["mae_mrad"]
    assert replay_step(output) == DT
    assert json.loads(command("fit", "apply", output, *logs, "--json"))["mae_mrad"] == found
    assert json.loads(command("fit", "apply", output, *logs, "--dt", 2 * DT, "--json"))["mae_mrad"] != found
    assert found["mean"] < 15.0
    assert found["joints"] == {"joint": pytest.approx(found["mean"])}
    assert list(found["logs"]) == [str(path) for path in logs]
    assert f"{found['mean']:.2f} mrad" in command("fit", "apply", output, *logs, "--dt", DT)
    assert "servo" in command("inspect", output)


def test_fit_inspect_shows_what_was_understood(logs, complaint):
    printed = command("fit", "inspect", *logs[:2])
    first, second = read_logs(logs[:2])
    assert f"{first.path}: {len(first)} samples in {first.duration:.4g} s" in " ".join(printed.split())
    assert re.search(r"│ joint +│ position +│ +-?[\d.]+ │ +[\d.]+ │ rad +│ rad ", printed)
    assert "kp 50" in printed
    for finding in first.findings:
        assert f"{finding.severity}: {finding}" in " ".join(printed.split())
    found = json.loads(command("fit", "inspect", *logs[:2], "--json"))["logs"]
    assert [log["path"] for log in found] == [first.path, second.path]
    position = found[0]["joints"]["joint"]["position"]
    assert position["unit"] == "rad"
    assert position["low"] == first.joints[0].position.min()
    assert [one["text"] for one in found[0]["findings"]] == [str(one) for one in first.findings]
    assert {one["kind"] for one in found[0]["findings"]} == {one.kind for one in first.findings}
    assert found[0]["rate"] == pytest.approx((len(first) - 1) / first.duration, rel=0.2)
    assert "'none.csv' does not exist" in complaint("fit", "inspect", "none.csv")


def test_tables_of_fits_give_way(logs, tmp_path):
    options = ["--generations", "2", "--starts", "1", "--dt", DT]
    shown = {
        "select": ("fit", "select", *logs, "--models", "servo_m1,pd", *options),
        "inspect": ("fit", "inspect", *logs[:2]),
        "excite": (
            "fit", "excite", tmp_path / "next.csv", "--load", "mass=0.5", "--load", "length=0.1",
            "--limit", "position=-1:1", "--seconds", "2", "--force", *options,
        ),
    }  # fmt: skip
    command("fit", *logs[:1], "--model", "servo_m1", "-o", tmp_path / "servo.yaml", *options, code=None)
    shown["apply"] = ("fit", "apply", tmp_path / "servo.yaml", *logs, "--dt", DT)
    for name, arguments in shown.items():

        def show(columns, arguments=arguments):
            code, printed, complaints = outcome(*arguments, columns=columns)
            assert complaints == ""
            assert code in (None, 0, 1)
            return re.sub(r"\d+ candidates in \d+ s", "", printed)

        assert "┃" in assert_gives_way(show), name


def test_tables_of_fleets_and_networks_give_way(logs, monkeypatch, capsys):
    from actuon.cli.show import print_fleet, print_network
    from actuon.fit import SearchOptions, fit_fleet
    from actuon.fit.network_fitting import NetworkResult, Trained

    plants = {name: KnownLoadPlant(read_logs(logs[i : i + 1]), dt=DT) for i, name in enumerate(("first", "second"))}
    fleet = fit_fleet(plants, model="servo_m1", options=SearchOptions(generations=2, starts=1))
    ranges = {"position_error": (-0.1, 0.2), "velocity": (-3.0, 3.0)}
    trained = Trained("mlp", {}, (0, 1), 1.0, 1.0, 1.0, DT, 0.01, 0.02, 0.003, 0.004, 0.005, ranges, 0.01)
    applied = apply_errors(plants["first"])
    network = NetworkResult("joint", trained, "", 0.0, applied, (), {}, 0)

    def showing(print_result, *arguments):
        def show(columns):
            monkeypatch.setenv("COLUMNS", str(columns))
            print_result(*arguments)
            return capsys.readouterr().out

        return show

    assert "servo_m1 on 2 robots" in assert_gives_way(showing(print_fleet, fleet))
    assert "dry friction" in assert_gives_way(showing(print_network, network, ()))


def apply_errors(plant):
    """Errors of actuators on the runs of a plant."""
    return Applied(plant.joints, tuple(run.path for run in plant.runs), np.full((len(plant.runs), 1), 0.01))


def test_fit_prints_json_and_keeps_what_is_fixed(logs, tmp_path):
    options = ["--model", "servo_m1", "--generations", "5", "--dt", DT, "--json", "--seed", "3"]
    options += ["--fix", "controller.resistance=3", "--free", "encoder.bias=-0.01:0.02"]
    found = json.loads(command("fit", *logs[:1], *options))
    joint = found["joints"]["joint"]
    assert "controller.resistance" not in joint["parameters"]
    assert -0.01 <= joint["parameters"]["encoder.bias"]["value"] <= 0.02
    assert found["seed"] == 3
    assert found["generations"] == 5
    assert not found["converged"]


@pytest.fixture(scope="module")
def swing():
    """Time, command, and position of a joint with a PD drive, 6 s long, with the noise of an encoder of 12 bits."""
    time = np.arange(1200) * 0.005
    wanted = swinging_command(time, seed=0)
    position = simulate(
        time, wanted, np.ones(1200, bool), (0.0, 0.0), dt=0.005, mass=0.5, length=0.1, friction={"dynamic": 0.03},
        law=lambda target, q, v: 2.0 * (target - q) - 0.05 * v, viscous=0.005, armature=0.002,
    )  # fmt: skip
    return time, wanted, np.round(position * 4096 / (2 * np.pi)) * 2 * np.pi / 4096


def test_joints_that_differ_by_punctuation_have_pictures_of_their_own(swing, tmp_path):
    time, wanted, position = swing
    names = ("a.b", "a_b", "A_B")
    path, robot, report = tmp_path / "run.csv", tmp_path / "robot.xml", tmp_path / "report"
    header = ",".join(["time", *(f"{quantity}/{name}" for name in names for quantity in ("position", "command"))])
    table = np.column_stack([time, *([position, wanted] * 3)])[:200]
    np.savetxt(path, table, delimiter=",", header=header, comments="")
    body = '<body><joint name="{}" axis="0 1 0"/><inertial pos="0 0 -.1" mass=".5" diaginertia="1 1 1"/></body>'
    bodies = "".join(body.format(name) for name in names)
    robot.write_text(f'<mujoco><worldbody><body name="base"><geom size=".1"/>{bodies}</body></worldbody></mujoco>')
    options = ["--model", "pd", "--generations", "2", "--starts", "1", "--robot", robot, "--report", report]
    command("fit", path, *options)
    text = (report / "report.md").read_text()
    pictures = re.findall(r"!\[(.*): motion\]\((.*)\)", text)
    assert pictures == [("a.b", "a_b_motion.png"), ("a_b", "a_b_2_motion.png"), ("A_B", "A_B_3_motion.png")]
    assert all((report / name).exists() for _, name in pictures)


DAMAGES = {
    "none": (lambda q, c: (q, c), "", ""),
    "sign": (
        lambda q, c: (q, -c),
        "position and command have opposite signs; state the 'sign' of one in a mapping of columns",
        "joint: position and command have opposite signs (correlation -0.9",
    ),
    "late commands": (
        lambda q, c: (q, np.concatenate([np.full(92, c[0]), c[:-92]])),
        "positions come 0.41 s before their commands: the two are on different clocks",
        "positions come 0.4",
    ),
    "late positions": (
        lambda q, c: (np.concatenate([np.full(92, q[0]), q[:-92]]), c),
        "positions come 0.49 s after their commands",
        "samples: the joint is slow",
    ),
    "another motion": (
        lambda q, c: (q, swinging_command(np.arange(1200) * 0.005, seed=3)),
        "see the findings in the logs, and try another",
        "",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_fit_that_is_of_no_use_says_so_first_with_its_cause(swing, tmp_path, damage):
    change, cause, finding = DAMAGES[damage]
    time, wanted, position = swing
    position, wanted = change(position, wanted)
    table = np.column_stack([time, position, wanted])
    path = tmp_path / "run.csv"
    np.savetxt(path, table, delimiter=",", header="# mass: 0.5\n# length: 0.1\ntime,pos,cmd", comments="")
    options = ["fit", path, "--model", "pd_coulomb", "--generations", "12", "--starts", "1"]
    code, is_useless = (0, False) if damage == "none" else (1, True)
    printed = command(*options, "-o", tmp_path / "joint.yaml", code=code)
    first = " ".join(printed.split("warning: the fit did not")[0].split())
    found = json.loads(command(*options, "--json", code=code))
    verdict = found["verdict"]["joint"]
    assert verdict["useless"] is is_useless
    assert verdict["level"] == ("bad" if is_useless else "good")
    assert verdict["text"] in " ".join(printed.split())
    assert verdict["error_mrad"] == pytest.approx(found["mae_mrad"]["train"])
    assert verdict["as_command_mrad"] == pytest.approx(1e3 * np.abs(position - wanted).mean())
    assert 0.2 < verdict["noise_mrad"] < 0.8  # a quarter of a step of the encoder is 0.38
    assert first.startswith("warning: joint: bad fit: error ") is is_useless
    assert cause in first
    assert finding in " ".join(printed.split())
    assert [text for text in found["findings"] if finding in text] or not finding
    assert f"wrote {tmp_path / 'joint.yaml'}" in printed
    if is_useless:
        assert "level: bad" in (tmp_path / "joint.yaml").read_text()
        assert verdict["error_mrad"] > 100.0
    else:
        assert "joint: good fit: error" in printed
        assert "times the noise of the logs" in printed
        assert "'position = command' has" in printed
        applied = command("fit", "apply", tmp_path / "joint.yaml", path)
        assert "found:" not in applied


@pytest.mark.parametrize(("error", "level"), [(0.2, "bad"), (0.1, "limited"), (0.05, "limited")])
def test_a_known_cause_does_not_excuse_a_fit(error, level):
    """A weak servo with an opposite sign: '−command' is far off too, and 'no motion' by 0.255 rad."""
    time = np.arange(0.0, 10.0, 0.005)
    joint = JointLog("joint", 0.4 * np.sin(2.0 * time), -np.sin(2.0 * time), units={"position": "m"})
    (verdict,) = judge([Log("run.csv", time, (joint,))], ["joint"], np.array([[error]]))
    assert verdict.simplest == pytest.approx(0.8 / np.pi, rel=0.02)  # not whole periods
    assert verdict.level == level
    assert "osition and command have opposite signs" in verdict.sentence()
    assert f"error {1e3 * error:g} mm" in verdict.sentence()


def test_what_was_found_in_logs_is_printed(logs, tmp_path):
    options = ["--model", "servo_m1", "--generations", "3", "--dt", DT]
    printed = " ".join(command("fit", *logs, *options, "-o", tmp_path / "servo.yaml").split())
    applied = " ".join(command("fit", "apply", tmp_path / "servo.yaml", *logs, "--dt", DT).split())
    first, *others = read_logs(logs)
    assert [len(log.findings) for log in (first, *others)] == [2] * 4
    names = ", ".join(path.name for path in logs[1:])
    for text in first.findings:  # those of the other logs differ by numbers, if at all
        assert f"found: {first.path}: {text}; alike in {names}" in printed
        assert f"found: {first.path}: {text}; alike in {names}" in applied
    assert printed.count("found: ") == applied.count("found: ") == 2
    found = json.loads(command("fit", "apply", tmp_path / "servo.yaml", *logs, "--dt", DT, "--json"))
    assert found["findings"] == [f"{log.path}: {text}" for log in read_logs(logs) for text in log.findings]


def test_fit_writes_its_actuators_into_a_robot(logs, tmp_path, complaint):
    robot, names = save_robot(tmp_path / "robot.usda"), tmp_path / "columns.yaml"
    before = robot.read_text()
    assert "has no joint 'joint', as the logs call it; joints: hip, knee, slide" in complaint(
        "fit", logs[0], "--author", robot
    )
    names.write_text("joints: {joint: knee}")
    options = [logs[0], "--columns", names, "--model", "servo_m1", "--generations", "3", "--dt", DT, "--author", robot]
    printed = command("fit", *options, "-o", tmp_path / "knee.yaml")
    assert f"wrote {robot}" in printed
    (written,) = actuon.parse_actuators(robot)
    (entry,) = actuon.load_actuators(tmp_path / "knee.yaml")
    assert written.target_path.endswith("/knee")
    assert written.config == entry.actuator
    assert "already" in complaint("fit", *options)
    command("fit", *options, "--force", "--seed", "1")
    (again,) = actuon.parse_actuators(robot)
    assert again.config != written.config

    robot.write_text(before)
    actuon.save_actuators(tmp_path / "a.yaml", [actuon.ActuatorEntry("drive", "knee", entry.actuator)])
    command("author", robot, tmp_path / "a.yaml", "-o", robot, "--force")
    assert "/Robot/Actuators/drive drives /Robot/joints/knee already" in complaint("fit", *options, "--force")


def test_an_actuator_by_hand_is_applied_and_grows_with_no_setting(logs, tmp_path):
    path = tmp_path / "hand.yaml"
    chain = actuon.ActuatorConfig(
        actuon.ServoPWMControlConfig(KP * 200, KT, RESISTANCE, VOLTAGE),
        transmission=actuon.GearTransmissionConfig(1.0, reflected_inertia=0.002),
        effects=[actuon.FrictionEffectConfig(0.03, 0.005)],
    )
    actuon.save_actuators(path, [actuon.ActuatorEntry("servo", "hip", chain)])
    plant = KnownLoadPlant(read_logs(logs), dt=DT)
    errors = apply(path, plant).errors[:, 0]
    assert (errors[2:] < 2e-4).all()
    assert (errors[:2] > 1e-2).all()


@pytest.mark.parametrize("name", ["servo_m3+limit+dead_band+supply", "servo_m3+backlash"])
def test_what_is_added_to_a_model_has_an_effect(logs, name, tmp_path):
    plant = KnownLoadPlant(read_logs(logs[2:]), dt=DT)
    model = build_model(name, JointFacts(plant.scales()[0], plant.runs, "joint"))
    assert model.name == name
    number = name.count("+")
    candidates = np.tile(model.start, (number + 1, 1))
    for i in range(1, number + 1):
        parameter = model.parameters[-i]
        candidates[i, -i] = parameter.low if parameter.path == "max_effort.max_effort" else parameter.high
    errors = errors_of(plant, [model], [candidates]).mean(axis=(1, 2))
    assert np.isfinite(errors).all()
    assert (np.abs(errors[1:] - errors[0]) > 1e-4).all(), errors
    path = tmp_path / "servo.yaml"
    actuon.save_actuators(path, [actuon.ActuatorEntry("servo", "joint", model.config(model.start))])
    assert actuon.load_actuators(path)[0].actuator == model.config(model.start)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "sevo_m1"], "model: got 'sevo_m1'; .*servo_m1"),
        (["--model", "servo_m1+backlsh"], r"got '\+backlsh'; .*backlash"),
        (["--model", "pd+supply"], "a PD controller has no supply"),
        (["--fix", "friction.dynamc=1"], "friction.dynamc: .*dynamic"),
        (["--fix", "friction.dynamic"], "--fix: got 'friction.dynamic'; must be NAME=NUMBER"),
        (["--free", "friction.dynamic=1"], "--free: got 'friction.dynamic=1'; must be PATH, or PATH=LOW:HIGH"),
        (["--load", "mass=x"], "--load: got 'mass=x'"),
        (["--dt", "0"], "--dt: got 0.0"),
        (["--on", "slurm"], "--on: got 'slurm'; must be ray, or ray://HOST:PORT"),
        (["--on", "ray", "--resume", "kept.npz"], "--resume: does not go with --on"),
        (["-o", "x.txt"], "must be .yaml or .yml"),
        (["--author", "x.usdz"], "--author: 'x.usdz' has the format '.usdz'; must be one of .usda"),
        (["--author", "none.usda"], "'none.usda' does not exist"),
        (["--load", "inertia=-1"], "inertia: got -1.0; must be finite and > 0"),
    ],
)
def test_bad_options_are_refused_in_one_line(logs, arguments, said, complaint):
    assert re.search(said, complaint("fit", logs[0], *arguments))


def test_a_missing_extra_is_named_before_a_robot_is_read(monkeypatch, complaint):
    monkeypatch.delitem(sys.modules, "actuon.fit")
    for module in ("cmaes", "scipy"):
        monkeypatch.setitem(sys.modules, module, None)
    said = complaint("fit", "none.csv", "--robot", "none.xml")
    assert "actuon.fit needs 'cmaes', 'scipy': install them with pip install 'actuon[fit]'" in said


def test_logs_without_a_load_or_motion_are_refused(tmp_path, complaint):
    path = tmp_path / "log.csv"
    time = np.arange(200) * 0.01
    rows = "\n".join(f"{t:.3f},{np.sin(t):.4f},{np.sin(t - 0.1):.4f}" for t in time)
    path.write_text(f"time,command,position\n{rows}\n")
    assert "log.csv: the load is missing; set mass [kg]" in complaint("fit", path)
    still = pendulum_log("still", time, np.zeros(200), np.zeros(200))
    with pytest.raises(actuon.ActuonError, match="still: the joint moves less than 0.001 rad"):
        KnownLoadPlant([still]).scales()
