# SPDX-License-Identifier: Apache-2.0
"""``actuon run``: real and ideal motors, shown in tables, plots, pictures and films."""

from __future__ import annotations

import io
import math
import re
import shutil
import sys
import warnings

import numpy as np
import PIL.Image
import pytest
from rich.console import Console

import actuon
from actuon.charts import LIMIT
from actuon.cli import main as cli
from actuon.cli.show import print_runs
from actuon.demo import film, plots, scenes
from actuon.demo.motion import SLIDE, SWING, Joint, choreography
from actuon.demo.run import lost_targets, saturation, simulate, summary
from actuon.robot_source import find_source
from tests.support.command_line import command, in_a_process, outcome
from tests.support.robot_files import save_everything, save_robot

ASSETS = actuon.assets.FOLDER


@pytest.mark.parametrize(
    ("robot_file", "engine"), [("quadruped.xml", None), ("quadruped.usda", None), ("arm.usda", "mujoco")]
)
def test_run_moves_a_robot_and_shows_it(robot_file, engine, tmp_path):
    if robot_file.endswith(".usda") and engine != "mujoco":
        pytest.importorskip("newton")
    options = ["--engine", engine] if engine else []
    line = ["run", ASSETS / robot_file, "--seconds", 0.1, "--envs", 2, "-o", tmp_path, "--record", tmp_path / "r.csv"]
    out = in_a_process(*line)[0] if robot_file.endswith(".xml") else command(*line, *options)
    names = [line.split("│")[1].strip() for line in out.splitlines() if "│" in line]
    assert [name for name in names if name][-1] in ("RR_calf_joint", "joint7")
    assert "real motors" in out
    assert "ideal motors" in out
    assert ("root body at" in out) == ("quadruped" in robot_file)
    assert ("its base is fixed to the world" in out) == ("arm" in robot_file)
    is_free, is_in_mujoco = "quadruped" in robot_file, ".xml" in robot_file or engine == "mujoco"
    files = ["tracking.png", "effort.png", "torque_speed.png", *(["height.png"] if is_free else [])]
    for name in files:
        assert (tmp_path / name).stat().st_size > 10_000
    assert (tmp_path / "height.png").exists() == is_free
    assert (tmp_path / "robot.png").exists() != ("no image: " in out)
    assert ("no image: Newton runs are not drawn" in out) != is_in_mujoco
    assert (tmp_path / "r.csv").read_text().startswith("time,position/0/")


def test_run_says_how_efforts_reach_the_engine(tmp_path):
    for name in ("arm.xml", "arm.actuon.yaml"):
        text = (ASSETS / name).read_text()
        (tmp_path / name).write_text(text.replace("  wrist:\n", "  wrist:\n    effort_mode: implicit\n"))
    told = []
    simulate(find_source(tmp_path / "arm.xml"), 0.01, 1, False, tell=told.append)
    assert told[0] == "real motors: implicit efforts of 3 DOFs, implicitfast instead of Euler"
    assert "effort_mode" in command("inspect", tmp_path / "arm.actuon.yaml")


def test_run_shows_what_limits_do(tmp_path):
    """In six seconds the quadruped hops against the limits of its calves, and is still up after the push."""
    real, ideal = (simulate(find_source(ASSETS / "quadruped.xml"), 6.0, 1, ideal)[0] for ideal in (False, True))
    assert summary(real)["FL_calf_joint"].clipped > 0.005
    assert summary(real)["FL_calf_joint"].peak <= 35.55
    assert summary(ideal)["FL_calf_joint"].peak > 40.0
    assert not ideal.data["clipped"].any()
    for run in (real, ideal):
        assert run.upright.min() > 0.8
        assert run.upright[-1].min() > 0.99
        assert abs(run.heights[-1, 0] - 0.27) < 0.02
        assert [phase.name for phase in run.phases] == ["crouch", "hop", "crouch", "hop", "push", "stand"]
        time, height = run.data["time"], run.heights[:, 0]
        for phase in run.phases:
            during = height[(time >= phase.start) & (time < phase.end)]
            if phase.name == "crouch":
                assert during[-1] < 0.17
            elif phase.name == "hop":
                assert 0.355 < during.max() < 0.405  # it stands at 0.27 m
        leans = np.abs(run.data["position"][:, 0, 0::3] - run.data["position"][0, 0, 0::3]).max(axis=1)
        assert leans[(time > 4.5) & (time < 5.0)].max() > leans[time < 4.5].max()  # it is pushed to the side
        assert run.phases[-1].end == pytest.approx(6.0)
    assert ideal.heights.max() > real.heights.max() + 0.03  # higher than motors could


@pytest.mark.parametrize(
    ("extra", "stages", "source"),
    [
        (
            {"effects": [actuon.FrictionEffectConfig(dynamic=0.3, viscous=0.1)]},
            ("pd, max_effort, friction", "pd, friction"),
            "from the actuators, instead of the robot's file",
        ),
        (
            {"transmission": actuon.GearTransmissionConfig(9.0, rotor_inertia=1e-3)},
            ("pd, gear, max_effort", "pd, gear"),
            "from the robot's file",
        ),
    ],
    ids=["friction", "gear"],
)
def test_ideal_motors_move_the_same_joints(extra, stages, source, tmp_path):
    """Joints have the friction and armature that real motors bring, in place of the file's: so nothing differs here."""
    path = tmp_path / "robot.xml"
    path.write_text(UNSTABLE.replace('axis="0 1 0"', 'axis="0 1 0" damping="2" armature=".01"'))
    config = actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 1.0), [actuon.MaxEffortClampingConfig(1000.0)], **extra)
    actuon.save_actuators(tmp_path / "robot.actuon.yaml", [actuon.ActuatorEntry("all", ".*", config)])
    told = []
    real, ideal = (simulate(find_source(path), 2.0, 1, ideal, tell=told.append)[0] for ideal in (False, True))
    assert np.ptp(real.data["position"]) > 0.1
    np.testing.assert_allclose(ideal.data["position"], real.data["position"], rtol=0, atol=1e-6)
    titles = zip(("real motors", "ideal motors"), stages, strict=True)
    assert told[1::2] == [f"{title}: stages {own}; joint friction and damping: {source}" for title, own in titles]


def test_plots_mark_phases_and_the_push():
    run, _ = simulate(find_source(ASSETS / "quadruped.xml"), 4.7, 1, False)
    chart = plots.height([run])
    assert chart.y_label == "height of the trunk [m]"
    assert [span.label for span in chart.spans] == [phase.name for phase in run.phases]
    assert {span.label: span.colour for span in chart.spans}["push"] == LIMIT
    np.testing.assert_array_equal(chart.series[0].y, run.heights[:, 0])
    joint = plots.tracking([run], 2)
    assert [span.label for span in joint.spans] == ["crouch", "hop", "crouch", "hop", "push", "stand"]
    assert joint.labels[:2] == ["target", "real motors"]
    target = joint["target"].y
    assert joint.y_range[1] > max(target.max(), joint["real motors"].y.max()) + 0.1 * np.ptp(target)  # room for names
    plane = plots.torque_speed([run], 2)
    can = plane["motor envelope"]
    seen = plane["real motors"]
    assert np.all(seen.y <= np.interp(seen.x, can.x, can.spread[1]) + 1e-3)
    assert np.all(seen.y >= np.interp(seen.x, can.x, can.spread[0]) - 1e-3)
    assert [name for name, _ in scenes.moments(run)] == ["crouch", "hop", "push", "stand"]
    hop = dict(scenes.moments(run))["hop"]
    assert run.heights[np.searchsorted(run.data["time"], hop), 0] == run.heights[run.data["time"] < 2.4].max()


def can_draw():
    """Whether MuJoCo finds an OpenGL that draws without a screen."""
    run, _ = simulate(find_source(ASSETS / "arm.xml"), 0.01, 1, True)
    try:
        next(run.film.draw([0], 64, 48))
    except film.CannotDrawError:
        return False
    return True


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of imageio-ffmpeg
def test_run_draws_the_robot_and_films_it(tmp_path):
    if not can_draw():
        pytest.skip("MuJoCo finds no OpenGL to draw with: install libosmesa6")
    run, _ = simulate(find_source(ASSETS / "quadruped.xml"), 0.2, 1, False)
    assert len(run.film.times) == 7
    first, last = run.film.draw([0, -1], 160, 120)
    assert first.shape == (120, 160, 3)
    assert np.ptp(first) > 150  # light and dark
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 500
    assert (first != last).any()
    scenes.save_picture([run, run], tmp_path / "robot.png")
    assert (tmp_path / "robot.png").stat().st_size > 20_000
    scenes.save_video([run, run], tmp_path / "run.gif")
    with PIL.Image.open(tmp_path / "run.gif") as image:
        assert image.size == (896, 336)
        assert image.n_frames == 4
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    scenes.save_video([run, run], tmp_path / "run.mp4")
    frames = ffmpeg.read_frames(tmp_path / "run.mp4")
    about = next(frames)
    assert about["size"] == (896, 336)
    assert about["fps"] == 30.0
    assert len(list(frames)) == 7


@pytest.mark.parametrize("library", ["osmesa", "unknown"])
def test_run_goes_on_without_the_library_that_mujoco_gl_names(library, tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", library)
    out, _ = in_a_process("run", ASSETS / "arm.xml", "--seconds", 0.02, "-o", tmp_path)
    assert (f"no image: MuJoCo cannot draw here ({library}: " in out) != (tmp_path / "robot.png").exists()
    assert (tmp_path / "effort.png").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere MuJoCo can open a window without a screen")
def test_run_goes_on_without_a_picture_where_nothing_can_draw(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    out = command("run", ASSETS / "arm.xml", "--seconds", 0.02, "-o", tmp_path)
    assert "no image: MuJoCo cannot draw here (glfw: " in out
    assert (tmp_path / "effort.png").exists()
    assert not (tmp_path / "robot.png").exists()
    arguments = [
        "actuon",
        "run",
        ASSETS / "arm.xml",
        "--seconds",
        0.02,
        "-o",
        tmp_path,
        "--video",
        tmp_path / "run.gif",
    ]
    monkeypatch.setattr(sys, "argv", [*map(str, arguments)])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == f"actuon: --video: '{tmp_path / 'run.gif'}' was not written\n"
    assert not (tmp_path / "run.gif").exists()


def test_what_usd_says_does_not_get_into_the_progress(tmp_path, capfd):
    pytest.importorskip("newton")
    actuon.quiet()
    with pytest.warns(UserWarning, match="has a possibly invalid inertia"):
        done, _ = simulate(find_source(save_everything(tmp_path / "robot.usda")), 0.02, 1, True)
    assert done.problem is None
    assert capfd.readouterr().err == ""


UNSTABLE = """
<mujoco><option timestep="0.01"/><worldbody><body name="base"><geom size=".1" mass="5"/>
  <body name="a" pos="0 0 .2"><joint name="shoulder" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 .3" size=".03" mass="1"/>
    <body name="b" pos="0 0 .3"><joint name="elbow" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 .3" size=".03" mass=".5"/>
      <body name="c" pos="0 0 .3"><joint name="wrist" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 .1" size=".02" mass=".05"/></body></body></body>
</body></worldbody></mujoco>
"""
GRIPPER = """
<mujoco><compiler angle="radian"/><option timestep="0.002"/><worldbody><body name="base"><geom size=".1" mass="5"/>
  <body name="arm" pos="0 0 .2"><joint name="lift" axis="0 1 0" range="-1 1"/>
    <geom type="capsule" fromto="0 0 0 0 0 .3" size=".03" mass="1"/>
    <body name="finger" pos="0 0 .3"><joint name="finger" type="slide" axis="0 1 0" range="0 .04"/>
      <geom size=".01" mass=".05" contype="0"/></body>
    <body name="flap" pos=".05 0 .3"><joint name="flap" axis="0 1 0" range="-.3 .3" damping=".001"/>
      <geom type="capsule" fromto="0 0 0 .1 0 0" size=".01" mass=".05" contype="0"/></body>
    <body name="camera" pos="-.05 0 .3"><joint name="camera" axis="0 0 1" armature=".001"/>
      <geom size=".02" mass=".05" contype="0"/></body></body>
</body></worldbody><actuator><position joint="camera" kp=".5" kv=".01"/></actuator></mujoco>
"""


def save_with_actuators(path, xml, gains):
    """A robot in MJCF and its YAML: PD gains and the largest effort of each joint."""
    path.write_text(xml)
    entries = [
        actuon.ActuatorEntry(
            name,
            name,
            actuon.ActuatorConfig(actuon.PDControlConfig(kp, kd), [actuon.MaxEffortClampingConfig(most)]),
        )
        for name, (kp, kd, most) in gains.items()
    ]
    actuon.save_actuators(path.with_suffix(".actuon.yaml"), entries)
    return path


def test_run_says_that_a_robot_fell_because_there_is_no_floor(tmp_path):
    robot = """<mujoco> <option timestep="0.01"/> <worldbody> <body name="base"> <freejoint/> <geom size="0.1"/>
      <body> <joint name="hip" axis="0 1 0"/> <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/> </body>
    </body> FLOOR </worldbody> </mujoco>"""
    for floor, falls in (("", True), ('<geom type="plane" size="0 0 1" pos="0 0 -0.5"/>', False)):
        save_with_actuators(tmp_path / "robot.xml", robot.replace("FLOOR", floor), {"hip": (1.0, 0.1, 5.0)})
        out = command("run", tmp_path / "robot.xml", "--seconds", 0.8, "-o", tmp_path)
        assert ("it fell by more than 2 m: is there a floor in its file?" in out) == falls


def test_run_shows_what_there_is_when_a_run_diverges(tmp_path):
    gains = {"shoulder": (20.0, 1.0, 5.0), "elbow": (20.0, 1.0, 5.0), "wrist": (100.0, 1.0, 0.05)}
    save_with_actuators(tmp_path / "robot.xml", UNSTABLE, gains)
    before = set(tmp_path.iterdir())
    out, error = in_a_process("run", "robot.xml", "--seconds", 1, "--record", "r.csv", code=1, cwd=tmp_path)
    saturated, diverged = re.split(r"\n(?=actuon: ideal motors: t = 0\.0)", error)
    assert saturated.startswith("actuon: real motors: its joints are saturated")
    assert "of joint 'wrist' of '/base' is " in diverged
    assert re.search(r"the gains of wrist use \d+ % of the stability limit at dt = 10 ms\. Fix one of:\n", diverged)
    assert "\n- dt ≤ " in diverged
    assert "\n- effort_mode: implicit" in diverged
    for title in ("real motors", "ideal motors"):
        assert re.search(rf"^{title}: ✗ /base: wrist uses \d+ % of the stability limit at dt = 10 ms; ", out, re.M)
    assert "real motors" in out
    assert "until 0.0" in out
    assert [row.split("│")[1].strip() for row in out.splitlines() if "│" in row] == list(gains)
    for name in ("tracking.png", "effort.png", "torque_speed.png"):
        assert (tmp_path / "out" / name).stat().st_size > 10_000
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 101
    assert set(tmp_path.iterdir()) - before == {tmp_path / "out", tmp_path / "r.csv"}


@pytest.mark.parametrize(
    ("wrist", "most", "code"),
    [((2.0, 1.0), 0.05, 1), ((0.02, 0.002), 5.0, 0), ((0.5, 0.0001), 0.001, 1)],
    ids=["unstable", "sound", "weak"],
)
def test_run_does_not_pass_a_robot_that_follows_its_limits(wrist, most, code, tmp_path):
    """At many times the stability limit, it does not diverge because of its limits; or a motor is just too weak."""
    gains = {"shoulder": (5.0, 0.3, 50.0), "elbow": (2.0, 0.1, 50.0), "wrist": (*wrist, most)}
    still = UNSTABLE.replace("<option ", '<option gravity="0 0 0" ')
    path = save_with_actuators(tmp_path / "robot.xml", still, gains)
    found = actuon.check(path)
    assert found.stable == (wrist[1] < 1.0)
    out, error = in_a_process("run", path, "--seconds", 1, "-o", tmp_path / "out", code=code)
    lines = [line for line in error.splitlines() if line.startswith("actuon: real motors: ")]
    assert len(lines) == code
    for line in lines:
        assert "its joints are saturated: at a limit for much of the time (wrist " in line
        assert ("of the stability limit at dt = 10 ms. Fix one of:" in line) != found.stable
        assert ("choose a stronger motor" in line) == found.stable
    assert "real motors" in out


def test_run_does_not_pass_a_robot_whose_gains_are_all_zero(tmp_path):
    gains = {"shoulder": (0.0, 0.0, 5.0), "elbow": (0.0, 0.0, 5.0), "wrist": (0.0, 0.0, 0.05)}
    for wrist, code in (((0.0, 0.0, 0.05), 1), ((0.02, 0.002, 5.0), 0)):
        still = UNSTABLE.replace("<option ", '<option gravity="0 0 0" ')
        path = save_with_actuators(tmp_path / "robot.xml", still, gains | {"wrist": wrist})
        out, error = in_a_process("run", path, "--seconds", 0.2, "-o", tmp_path / "out", code=code)
        assert "these joints will not track targets" in " ".join(out.split())
        assert ("no joint has gains, so none tracks its targets" in error) == (code == 1)


def test_run_does_not_pass_a_robot_that_swings_ever_further(tmp_path):
    """At 1.02 times the stability limit, a velocity grows by 4 % per step, and the run is over before it diverges."""
    path = tmp_path / "robot.xml"
    path.write_text(
        '<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody><body name="base"><geom size=".1"/>'
        '<body name="link"><joint name="hinge" axis="0 1 0" armature="1"/><geom size=".01"/></body>'
        "</body></worldbody></mujoco>"
    )
    config = actuon.ActuatorConfig(actuon.PDControlConfig(200.0, 204.0))
    actuon.save_actuators(tmp_path / "robot.actuon.yaml", [actuon.ActuatorEntry("hinge", "hinge", config)])
    done, _ = simulate(find_source(path), 3.0, 1, True)
    assert done.problem is None
    assert saturation(done) is None
    assert summary(done)["hinge"].error > 1.0
    told = r"it does not track its targets: the error is larger than their motion \(hinge [\d.]+ rad, RMS\); "
    told += "the gains of hinge use "
    assert re.match(told + "102 % of the stability limit", lost_targets(done))
    sound = actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 20.0))  # which is slow, and falls behind
    actuon.save_actuators(tmp_path / "robot.actuon.yaml", [actuon.ActuatorEntry("hinge", "hinge", sound)])
    assert lost_targets(simulate(find_source(path), 3.0, 1, True)[0]) is None


def test_run_keeps_a_partial_recording(tmp_path):
    gains = {"shoulder": (20.0, 1.0, 5.0), "elbow": (20.0, 1.0, 5.0), "wrist": (100.0, 1.0, math.inf)}
    done, recorder = simulate(find_source(save_with_actuators(tmp_path / "r.xml", UNSTABLE, gains)), 1.0, 2, False)
    assert "'wrist'" in done.problem
    assert 0 < len(recorder) < 20
    assert len(done.data["time"]) == len(recorder)
    assert done.end == pytest.approx(len(recorder) * 0.01)


JOINTS = [
    Joint("turns", False, -math.inf, math.inf, "actuator", True),
    Joint("wide", False, -3.0, 2.0, "actuator", True),
    Joint("narrow", False, 0.1, 0.3, "actuator", True),
    Joint("gripper", True, 0.0, 0.04, "actuator", True),
    Joint("rail", True, -2.0, 2.0, "engine drive", True),
    Joint("slides", True, -math.inf, math.inf, "actuator", True),
    Joint("one stop", False, 0.0, math.inf, "actuator", True),
    Joint("locked", False, 0.2, 0.2, "actuator", True),
    Joint("free", False, -1.0, 1.0, "nothing", False),
]


@pytest.mark.parametrize("start", ["lower", "upper", "outside", "zero"])
def test_targets_stay_within_the_range_and_fill_it(start):
    lower, upper = np.array([(joint.lower, joint.upper) for joint in JOINTS]).T
    home = {
        "lower": np.where(np.isfinite(lower), lower, 0.0),
        "upper": np.where(np.isfinite(upper), upper, 0.0),
        "outside": np.where(np.isfinite(upper), upper + 1.0, 0.0),
        "zero": np.zeros(len(JOINTS)),
    }[start]
    targets = choreography(JOINTS, home).targets
    path = np.array([targets(time) for time in np.linspace(0.0, 6.0, 3001)])
    assert (path >= lower - 1e-9).all()
    assert (path <= upper + 1e-9).all()
    np.testing.assert_allclose(path[0], np.clip(home, lower, upper))
    swing = np.ptp(path[1000:], axis=0)
    expected = [2 * SWING, 2 * SWING, 0.8 * 0.2, 0.8 * 0.04, 2 * SLIDE, 2 * SLIDE, 2 * SWING, 0.0, 0.0]
    np.testing.assert_allclose(swing, expected, rtol=1e-3, atol=1e-9)


def test_a_quadruped_folds_no_further_than_its_knees_go():
    names = [f"{leg}_{part}" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf")]
    joints = [Joint(name, False, -1.0, 1.0, "actuator", True) for name in names]
    targets = choreography(joints, np.tile([0.0, 0.9, -0.9], 4)).targets
    path = np.array([targets(time) for time in np.linspace(0.0, 6.0, 601)])
    assert path.min() == -1.0
    assert path.max() == 1.0


def test_run_shows_joints_as_what_they_are(tmp_path):
    gains = {"lift": (60.0, 4.0, 8.0), "finger": (400.0, 5.0, 3.0)}
    path = save_with_actuators(tmp_path / "gripper.xml", GRIPPER, gains)
    done, _ = simulate(find_source(path), 2.0, 1, False)
    assert [joint.driven_by for joint in done.joints] == ["actuator", "actuator", "nothing", "engine drive"]
    assert done.is_fixed_base
    finger = done.data["position"][500:, 0, 1]
    assert 0.0 < finger.min() < 0.01
    assert 0.03 < finger.max() < 0.04
    assert summary(done)["finger"].error < 0.003
    assert summary(done)["flap"].at_stop > 0.5  # it falls onto its stop
    console = Console(file=io.StringIO(), width=160)
    print_runs(console, "gripper", [done])
    text = console.file.getvalue()
    rows = {
        cells[1].strip(): [c.strip() for c in cells[2:-1]]
        for cells in (r.split("│") for r in text.splitlines())
        if cells[1:]
    }
    assert rows["lift"][1].endswith(" rad")
    assert rows["lift"][2].endswith(" N·m")
    assert rows["finger"][0] == "actuator"
    assert rows["finger"][1].endswith(" m")
    assert rows["finger"][2].endswith(" N")
    assert rows["flap"][:4] == ["nothing", "–", "–", "–"]
    assert rows["flap"][4] == f"{100 * summary(done)['flap'].at_stop:.1f} %"
    assert rows["camera"][0] == "engine drive"
    assert rows["camera"][1].endswith(" rad")
    assert rows["camera"][2:4] == ["–", "–"]
    assert "its base is fixed to the world" in text
    narrow = Console(file=io.StringIO(), width=80)
    print_runs(narrow, "gripper", [done, done])
    assert "…" not in narrow.file.getvalue()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("run", "none.xml"), "'none.xml' does not exist"),
        (("run", "robot.txt"), "neither a file (.usda, .usd, .usdc, .usdz, .xml,"),
        (("run", "folder.xml"), "'folder.xml' is a directory"),
        (("run", "nan.xml"), "'nan.xml': option timestep: got nan; must be finite and > 0 [s]"),
        (("run", ASSETS / "arm.xml", "--seconds", "inf"), "too many steps"),
        (("run", "arm.xml", "-o", "a_file"), "'a_file' is a file; must be a folder"),
        (("run", "arm.xml", "-o", "a_file/deep/er"), "'a_file/deep/er' cannot be written to: Not a directory"),
        (("run", "arm.xml", "-o", "/proc/here"), "the folder '/proc/here' cannot be written to"),
        (("run", "arm.xml", "--record", "a_file/x.npz"), "'a_file' is a file; must be a folder"),
        (("run", "arm.xml", "--record", "folder.npz"), "--record: 'folder.npz' is a directory"),
        (("run", "arm.xml", "--record", "x.txt"), "must be .npz or .csv"),
        (("run", "arm.xml", "--video", "x.avi"), "--video: 'x.avi' has the format '.avi'; must be .mp4 or .gif"),
        (("run", "arm.xml", "--video", "a_file/x.gif"), "'a_file' is a file; must be a folder"),
        (("run", "robot.usda", "--video", "x.gif"), "the engine is newton. Use --engine mujoco"),
        (("run", "robot.usda", "--engine", "newtom"), 'Choose from: "mujoco", "newton". Did you mean "newton"?'),
        (("run", "robot.usda", "--engine", "mujoco"), "robot.xml does not exist next to it"),
        (("run", "arm.xml"), "no actuators found for"),
    ],
)
def test_run_with_bad_arguments(arguments, match, tmp_path, complaint):
    save_robot(tmp_path / "robot.usda")
    shutil.copy(ASSETS / "arm.xml", tmp_path)
    (tmp_path / "nan.xml").write_text(UNSTABLE.replace("0.01", "nan"))
    (tmp_path / "a_file").touch()
    (tmp_path / "folder.xml").mkdir()
    (tmp_path / "folder.npz").mkdir()
    assert match in complaint(*arguments)


def test_run_says_that_a_robot_has_fallen(tmp_path):
    """Gains that were typed per degree, 57 times too low."""
    for name in ("quadruped.xml", "quadruped.actuon.yaml"):
        text = (ASSETS / name).read_text()
        text = re.sub(r"\b(kp|kd): ([\d.]+)", lambda m: f"{m[1]}: {float(m[2]) / 57.3:.4f}", text)
        (tmp_path / name).write_text(text)
    said = outcome("run", tmp_path / "quadruped.xml", "-o", tmp_path)[2]
    assert re.search(r"real motors: it (has fallen: the base is tilted by \d+°|does not track its targets)", said)
    assert "its gains are low for the load (kp " in said
    assert "if they are per degree, multiply them by 57.3" in said
