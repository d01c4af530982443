# SPDX-License-Identifier: Apache-2.0
"""``effort_mode``: where it can be given, what it does on robots, and what is shown of it."""

from __future__ import annotations

import logging
import re

import mujoco
import numpy as np
import pytest

import actuon
from actuon import ActuatorConfig, Articulation, ArticulationActuators, MujocoSimulation, Recorder
from actuon.inspect.report import inspect_yaml
from actuon.lab import ActuatorGroups, DCMotorCfg, IdealPDActuatorCfg, ImplicitActuatorCfg
from actuon.robot_files.yaml import ActuatorEntry, load_actuators, save_actuators
from tests.support.robot_files import robot
from tests.support.servo_arm import bare_arm, servo_motion, wave

PD = actuon.PDControlConfig(4000.0, 200.0)
MOTOR = actuon.DCMotorClampingConfig(saturation_effort=300.0, velocity_limit=30.0, max_motor_effort=300.0)
STIFF = ActuatorConfig(PD, [MOTOR])
JOINTS = [f"joint{i}" for i in range(1, 8)]


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.ERROR, "actuon")


def moved(attach, num_envs=1, steps=60, dt=0.005):
    """Positions over time, the actuators, and the simulation, of an arm that is told a sine."""
    with MujocoSimulation(actuon.assets.arm_mjcf, num_envs, dt=dt) as simulation:
        robots = Articulation("link0")
        actuators = attach(robots)
        start, found = robots.get_dof_positions().numpy(), []
        for step in range(steps):
            robots.set_dof_position_targets(start + 0.4 * np.sin(2.0 * np.pi * step * dt))
            simulation.step()
            found.append(robots.get_dof_positions().numpy()[-1])
        telemetry, shown = actuators.telemetry(), robots.get_dof_efforts().numpy()
        np.testing.assert_array_equal(telemetry.applied_effort, shown)
        actuators.close()
        assert simulation.integrator == "Euler"
        return np.array(found)


def stiff(mode=None, own=None):
    config = STIFF.copy()
    config.effort_mode = own or "explicit"
    return lambda robots: ArticulationActuators.from_actuators(
        "link0", [(config, name) for name in JOINTS], effort_mode=mode
    )


def grouped(mode=None, own="explicit"):
    cfg = DCMotorCfg(
        joint_names_expr=[".*"],
        stiffness=4000.0,
        damping=200.0,
        saturation_effort=300.0,
        velocity_limit=30.0,
        effort_limit=300.0,
        armature=None,
        effort_mode=own,
    )
    return lambda robots: ActuatorGroups(robots, {"all": cfg}, effort_mode=mode)


def test_every_way_in_gives_the_same_motion_on_one_robot_and_on_many():
    explicit, implicit = moved(stiff()), moved(stiff("implicit"))
    assert np.abs(explicit - implicit).max() > 0.05
    np.testing.assert_array_equal(moved(stiff(own="implicit")), implicit)
    np.testing.assert_array_equal(moved(stiff("implicit"), 12), implicit)
    np.testing.assert_array_equal(moved(stiff("explicit", own="implicit")), explicit)
    pytest.importorskip("torch")
    np.testing.assert_array_equal(moved(grouped("implicit")), implicit)
    np.testing.assert_array_equal(moved(grouped(own="implicit"), 12), implicit)
    np.testing.assert_array_equal(moved(grouped("explicit", "implicit")), explicit)


@pytest.mark.parametrize(("kp", "kd"), [(1000.0, 40.0), (4000.0, 200.0)])
def test_an_implicit_pd_moves_as_mujocos_own_servo(kp, kd):
    """So it does in mjlab: see ``mjlab/test_implicit.py``."""
    dt, steps, found = 0.005, 200, []
    with MujocoSimulation(bare_arm(), dt=dt) as simulation:
        name = simulation.robots[0].name
        robots = Articulation(name)
        pairs = [(ActuatorConfig(actuon.PDControlConfig(kp, kd)), joint) for joint in robots.dof_names]
        with ArticulationActuators.from_actuators(name, pairs, effort_mode="implicit"):
            for step in range(steps):
                robots.set_dof_position_targets(wave(step, dt))
                simulation.step()
                found.append((robots.get_dof_positions().numpy()[0], robots.get_dof_velocities().numpy()[0]))
    for own, expected in zip(zip(*found, strict=True), servo_motion(kp, kd, dt, steps), strict=True):
        np.testing.assert_allclose(np.array(own), expected, rtol=1e-6, atol=2e-6)


def test_joints_of_both_modes_on_one_robot():
    with MujocoSimulation(actuon.assets.arm_mjcf, 2, dt=0.005) as simulation:
        slow = ActuatorConfig(actuon.PDControlConfig(100.0, 5.0))
        pairs = [(STIFF if i < 4 else slow, name) for i, name in enumerate(JOINTS)]
        pairs = [(config.copy(), name) for config, name in pairs]
        for config, _ in pairs[:4]:
            config.effort_mode = "implicit"
        with ArticulationActuators.from_actuators("link0", pairs) as actuators:
            assert simulation.models[0].nu == 7 + 4
            assert repr(actuators) == (
                "<ArticulationActuators on 7 DOFs of 2 robots: 2 actuators, implicit efforts of 4 DOFs, implicitfast "
                "instead of Euler>"
            )
            assert actuators.configs["joint1"].effort_mode == "implicit"
            simulation.step(40)
            efforts = actuators.telemetry().applied_effort
            np.testing.assert_array_equal(actuators.articulation.get_dof_efforts().numpy(), efforts)
            assert efforts.all()


def test_telemetry_and_records_show_what_the_engine_applied(tmp_path):
    with (
        MujocoSimulation(actuon.assets.arm_mjcf, dt=0.005) as simulation,
        stiff("implicit")(None) as actuators,
        Recorder(actuators) as recorder,
    ):
        robots = actuators.articulation
        targets = robots.get_dof_positions().numpy()[0] + 0.05
        robots.set_dof_position_targets(targets)
        held, moved_by = [], []
        for _ in range(10):
            before = robots.get_dof_velocities().numpy()[0]
            held.append(PD.kp * (targets - robots.get_dof_positions().numpy()[0]) - PD.kd * before)
            simulation.step()
            np.testing.assert_allclose(actuators.telemetry().computed_effort[0], held[-1], rtol=1e-5, atol=1e-3)
            moved_by.append(held[-1] - PD.kd * (robots.get_dof_velocities().numpy()[0] - before))
        applied = recorder.data["applied_effort"][:, 0]
        np.testing.assert_allclose(applied, moved_by, rtol=1e-3, atol=5e-3)
        assert np.abs(applied - held).max() > 10.0
        telemetry = actuators.telemetry()
        np.testing.assert_array_equal(telemetry.applied_effort[0], applied[-1])
        np.testing.assert_array_equal(telemetry.mechanical_power, telemetry.applied_effort * telemetry.velocity)
        assert not {"effort_derivative_q", "effort_derivative_qd", "effort_min", "effort_max"} & {*telemetry.signals}
        actuators.reset()
        assert not actuators.telemetry().applied_effort.any()
        simulation.step()
        assert actuators.telemetry().applied_effort.any()
        simulation.reset()
        assert not actuators.telemetry().applied_effort.any()


def test_limits_of_joints_and_of_groups_bind():
    pytest.importorskip("torch")
    spec = mujoco.MjSpec.from_file(str(actuon.assets.arm_mjcf))
    for joint in spec.joints:
        joint.actfrclimited, joint.actfrcrange = True, [-30.0, 20.0]
    cfg = IdealPDActuatorCfg(
        joint_names_expr=[".*"], stiffness=4000.0, damping=200.0, effort_limit=1e3, effort_mode="implicit"
    )
    limited = IdealPDActuatorCfg(
        joint_names_expr=[".*"],
        stiffness=4000.0,
        damping=200.0,
        effort_limit=1e3,
        effort_limit_sim=25.0,
        effort_mode="implicit",
    )

    def attach(kind):
        if kind == "config":
            pairs = [(ActuatorConfig(PD), name) for name in JOINTS]
            return ArticulationActuators.from_actuators("link0", pairs, effort_mode="implicit")
        return ActuatorGroups(Articulation("link0"), {"all": limited if kind == "group" else cfg})

    for kind, lowest, highest in (("config", -30.0, 20.0), ("joint", -30.0, 20.0), ("group", -25.0, 25.0)):
        with MujocoSimulation(spec, 2, dt=0.005) as simulation, attach(kind) as actuators:
            robots, seen = actuators.articulation, []
            start = robots.get_dof_positions().numpy()
            for step in range(40):
                robots.set_dof_position_targets(start + (0.1 if step < 20 else -0.1))
                simulation.step()
                seen.append(actuators.telemetry().applied_effort)
            lowest_seen, highest_seen = np.min(seen), np.max(seen)
            assert 1.011 * lowest <= lowest_seen < 0.99 * lowest, kind
            assert 1.011 * highest >= highest_seen > 0.99 * highest, kind


LIGHT = """<mujoco><option gravity="0 0 0"/><worldbody><body name="r"><joint name="a" axis="1 0 0"/>
<inertial pos="0 0 0" mass="0.5" diaginertia="0.0008 0.007 0.007"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("dt", [0.002, 0.005, 0.02])
@pytest.mark.parametrize("limit", [(6.0,), (1.0,), (6.0, 8.0, 6.0), (20.0, 30.0, 20.0)], ids=str)
def test_a_light_link_at_its_limits_goes_where_it_is_told_and_stops(limit, dt, num_envs):
    kind = actuon.DCMotorClampingConfig if len(limit) > 1 else actuon.MaxEffortClampingConfig
    motor = ActuatorConfig(actuon.PDControlConfig(100.0, 10.0), [kind(*limit)])
    with MujocoSimulation(mujoco.MjSpec.from_string(LIGHT), num_envs, dt=dt) as simulation:
        actuators = ArticulationActuators.from_actuators("r", [(motor, "a")], effort_mode="implicit")
        speeds = []
        for target in (0.5, -0.5):
            actuators.articulation.set_dof_position_targets(target)
            for _ in range(round(0.8 / dt)):
                simulation.step()
                speeds.append(actuators.articulation.get_dof_velocities().numpy()[:, 0])
            np.testing.assert_allclose(actuators.articulation.get_dof_positions().numpy(), target, atol=0.002)
        assert (np.diff(np.sign(speeds), axis=0) != 0).sum(axis=0).max() <= 3


def test_efforts_that_stay_on_between_steps_of_the_actuators_keep_their_derivatives():
    with MujocoSimulation(actuon.assets.arm_mjcf, 2, dt=0.002) as simulation, stiff("implicit")(None) as actuators:
        simulation.start()
        actuators.disable_auto_step_pre_physics()
        robots = actuators.articulation
        targets, speeds = robots.get_dof_positions().numpy() + 0.02, robots.get_dof_velocities().numpy()
        robots.set_dof_position_targets(targets)
        actuators.step_actuators(0.002)
        effort = PD.kp * (targets - robots.get_dof_positions().numpy()) - PD.kd * speeds
        simulation.step(4)
        line = effort - PD.kd * (robots.get_dof_velocities().numpy() - speeds)
        np.testing.assert_allclose(actuators.telemetry().applied_effort, line, rtol=1e-3, atol=5e-3)


@pytest.mark.parametrize("num_envs", [1, 12])
def test_auto_makes_implicit_efforts_of_joints_that_use_much_of_the_stability_limit(num_envs, caplog):
    stiff_ones = {"joint5", "joint7"}
    pairs = []
    for name in JOINTS:
        kp, kd = (600.0, 50.0) if name in stiff_ones else (10.0, 0.5)
        pairs.append((ActuatorConfig(actuon.PDControlConfig(kp, kd), effort_mode="auto"), name))
    with MujocoSimulation(actuon.assets.arm_mjcf, num_envs, dt=0.01) as simulation:
        with ArticulationActuators.from_actuators("link0", pairs) as actuators:
            assert "implicit efforts of 2 DOFs, implicitfast instead of Euler" in repr(actuators)
            implicit = [one for one in actuators.actuators if "effort_derivative_qd" in one.control_signal_attrs]
            assert {JOINTS[i % 7] for one in implicit for i in one.effort_indices.numpy()} == stiff_ones
            assert actuators.configs["joint1"].effort_mode == "auto"
            simulation.step(3)
            assert actuators.telemetry().applied_effort.shape == (num_envs, 7)
        assert simulation.integrator == "Euler"
        with ArticulationActuators.from_actuators("link0", pairs[2:4], effort_mode="auto") as actuators:
            assert repr(actuators).endswith("1 actuators>")
            assert simulation.integrator == "Euler"
            simulation.step()


def test_auto_in_groups_is_of_whole_groups():
    pytest.importorskip("torch")
    slack = IdealPDActuatorCfg(["joint[1-4]"], stiffness=10.0, damping=0.5, effort_mode="auto")
    taut = IdealPDActuatorCfg(["joint[5-7]"], stiffness=300.0, damping=30.0, effort_mode="auto")
    with (
        MujocoSimulation(actuon.assets.arm_mjcf, 2, dt=0.01) as simulation,
        ActuatorGroups(Articulation("link0"), {"slack": slack, "taut": taut}) as groups,
    ):
        text = groups.resolution_table()
        assert "slack: IdealPDActuator, effort_mode auto\n" in text
        assert "taut: IdealPDActuator, effort_mode implicit\n" in text
        assert text.endswith("implicit efforts of 3 DOFs, implicitfast instead of Euler")
        groups["taut"].stiffness[:] *= 0.5
        simulation.step(3)
        assert (groups["taut"].computed_effort != 0.0).any()


def test_auto_does_without_where_the_engine_takes_in_no_derivatives(caplog):
    model = mujoco.MjModel.from_xml_path(str(actuon.assets.arm_mjcf))
    pairs = [(ActuatorConfig(actuon.PDControlConfig(600.0, 50.0)), name) for name in JOINTS]
    with MujocoSimulation(model, dt=0.01) as simulation:
        with caplog.at_level(logging.WARNING, "actuon"):
            actuators = ArticulationActuators.from_actuators("link0", pairs, effort_mode="auto")
        said = r"effort_mode 'auto' leaves joint1, .*joint7 explicit, beyond half of .*: effort_mode: the model has no"
        assert re.search(said, caplog.text)
        assert "implicit" not in repr(actuators)
        simulation.step()
        actuators.close()


def test_auto_does_without_where_a_chain_has_no_derivatives(caplog):
    matrix = (1.0, 0.5, 0.0, 1.0)
    coupled = [actuon.CoupledTransmissionConfig(matrix, row) for row in range(2)]
    pairs = [
        (ActuatorConfig(actuon.PDControlConfig(300.0, 30.0), transmission=coupled[i]), JOINTS[5 + i]) for i in range(2)
    ]
    with MujocoSimulation(actuon.assets.arm_mjcf, dt=0.01) as simulation, caplog.at_level(logging.WARNING, "actuon"):
        with ArticulationActuators.from_actuators("link0", pairs, effort_mode="auto"):
            assert "'auto' leaves joint6, joint7 explicit" in caplog.text
            assert "TransmissionCoupled brings its own kernels" in caplog.text
            simulation.step()
        with pytest.raises(actuon.StructureError, match="DOF 'joint6': effort_mode 'implicit' needs derivatives"):
            ArticulationActuators.from_actuators("link0", pairs, effort_mode="implicit")


def test_modes_in_files(tmp_path):
    config = STIFF.copy()
    config.effort_mode = "implicit"
    assert repr(config).endswith("effort_mode='implicit')")
    assert config.copy() == config != STIFF
    entry = ActuatorEntry("arm", ("hip", "knee"), config)
    save_actuators(tmp_path / "a.yaml", [entry])
    assert "effort_mode: implicit" in (tmp_path / "a.yaml").read_text()
    assert load_actuators(tmp_path / "a.yaml") == [entry]
    assert entry.actuator_of("knee") == config
    values = {
        value.name: value.value for part in inspect_yaml(tmp_path / "a.yaml").entries[0].chain for value in part.values
    }
    assert values["effort_mode"] == "implicit"
    stage = robot()
    actuon.usd.author_actuators("/Robot", [entry], stage=stage)
    attribute = stage.GetPrimAtPath("/Robot/Actuators/knee").GetAttribute("actuon:effortMode")
    assert (attribute.Get(), attribute.GetTypeName()) == ("implicit", "token")
    assert [parsed.config for parsed in actuon.usd.parse_actuators(stage)] == [config] * 2
    assert actuon.usd.export_actuators(stage)[0].actuator == config
    attribute.Set("sometimes")
    match = r"/Robot/Actuators/knee: .*effort_mode: got 'sometimes'; must be one of explicit, implicit, auto"
    with pytest.raises(actuon.RobotFileError, match=match):
        actuon.usd.parse_actuators(stage)
    (tmp_path / "b.yaml").write_text((tmp_path / "a.yaml").read_text().replace("implicit", "sometimes"))
    match = r"actuators.arm: effort_mode: got 'sometimes'; must be one of explicit, implicit, auto"
    with pytest.raises(actuon.RobotFileError, match=match):
        load_actuators(tmp_path / "b.yaml")
    prim = actuon.usd.add_actuator("/Robot", "slide", "slide", PD, effort_mode="auto", stage=stage)
    assert prim.GetAttribute("actuon:effortMode").Get() == "auto"


def test_every_door_refuses_an_unknown_mode():
    match = "effort_mode: got 'sometimes'; must be one of explicit, implicit, auto"
    config = ActuatorConfig(PD)
    config.effort_mode = "sometimes"
    with pytest.raises(actuon.ParameterError, match=match):
        config.copy()
    with pytest.raises(actuon.ParameterError, match=match):
        actuon.usd.add_actuator("/Robot", "slide", "slide", PD, effort_mode="sometimes", stage=robot())
    with MujocoSimulation(actuon.assets.arm_mjcf):
        with pytest.raises(actuon.ParameterError, match=match):
            ArticulationActuators("link0", effort_mode="sometimes")
        pytest.importorskip("torch")
        with pytest.raises(actuon.ParameterError, match=match):
            grouped("sometimes")(Articulation("link0"))
        with pytest.raises(actuon.ParameterError, match=f"group 'all': {match}"):
            grouped(own="sometimes")(Articulation("link0"))


def test_a_mode_in_the_file_beside_a_robot_is_followed(tmp_path):
    for name in ("arm.xml", "arm.actuon.yaml"):
        text = (actuon.assets.FOLDER / name).read_text()
        (tmp_path / name).write_text(text.replace("  wrist:\n", "  wrist:\n    effort_mode: implicit\n"))
    with MujocoSimulation(tmp_path / "arm.xml") as simulation:
        with ArticulationActuators("link0") as actuators:
            assert "implicit efforts of 3 DOFs, implicitfast instead of Euler" in repr(actuators)
            simulation.step(2)
        with ArticulationActuators("link0", effort_mode="explicit") as actuators:
            assert "implicit" not in repr(actuators)


class ControllerWhole(actuon.Controller):
    """Brings a kernel of its own."""

    def compute(self, *args, **kwargs):
        raise AssertionError

    def is_graphable(self):
        return False


def test_what_cannot_be_is_refused_by_name():
    with pytest.raises(actuon.ParameterError, match="effort_mode: got 'sometimes'; must be one of explicit, implicit"):
        ActuatorConfig(PD, effort_mode="sometimes")
    with MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
        with pytest.raises(actuon.ParameterError, match="effort_mode: got 3; must be one of explicit, implicit, auto"):
            stiff(3)(None)
        pairs = [(ActuatorConfig(ControllerWhole()), "joint3")]
        match = "DOF 'joint3': effort_mode 'implicit' needs derivatives .* ControllerWhole brings its own kernels"
        with pytest.raises(actuon.StructureError, match=match):
            ArticulationActuators.from_actuators("link0", pairs, effort_mode="implicit")
        assert simulation.integrator == "Euler"
        assert simulation.engine.drives.are_silent(Articulation("link0").at).sum() == 0
        pytest.importorskip("torch")
        robots = Articulation("link0")
        implicit = ImplicitActuatorCfg(joint_names_expr=[".*"], effort_mode="implicit")
        match = "group 'all': effort_mode: got 'implicit' for ImplicitActuator, which is the engine drive"
        with pytest.raises(actuon.ParameterError, match=match):
            ActuatorGroups(robots, {"all": implicit})
        with pytest.raises(actuon.ParameterError, match="group 'all': effort_mode: got 'late'; must be one of"):
            ActuatorGroups(robots, {"all": IdealPDActuatorCfg(joint_names_expr=[".*"], effort_mode="late")})
        groups = {"all": implicit.replace(effort_mode="explicit")}
        with ActuatorGroups(robots, groups, effort_mode="implicit") as actuators:
            assert "effort_mode" not in actuators.resolution_table()


def test_the_table_of_groups_says_how_efforts_reach_the_engine():
    pytest.importorskip("torch")
    with MujocoSimulation(actuon.assets.arm_mjcf, dt=0.02), grouped("implicit")(Articulation("link0")) as actuators:
        text = actuators.resolution_table()
        assert "all: DCMotor, effort_mode implicit\n" in text
        assert text.endswith("implicit efforts of 7 DOFs, discrete instead of Euler")


def test_joints_of_several_dofs_are_not_driven():
    text = """<mujoco><worldbody><body name="r"><joint name="hip" axis="0 1 0"/><geom size="0.1"/><body pos="0.3 0 0">
    <joint name="ball" type="ball"/><geom size="0.1"/></body></body></worldbody></mujoco>"""
    raised = pytest.raises(actuon.SimulationError, match="'/r' has no DOF 'ball'; .*hip")
    with MujocoSimulation(mujoco.MjSpec.from_string(text)), raised:
        ArticulationActuators.from_actuators("r", [(STIFF, "ball")], effort_mode="implicit")


def test_newtons_builder_refuses_implicit_efforts():
    newton = pytest.importorskip("newton")
    newton_layer = pytest.importorskip("actuon.newton")
    builder = newton_layer.ModelBuilder()
    link = builder.add_link(mass=1.0, inertia=np.eye(3))
    builder.add_articulation([builder.add_joint_revolute(-1, link, axis=newton.Axis.Y)])
    with pytest.raises(actuon.StructureError, match="DOF 0: effort_mode 'implicit': needs an engine"):
        builder.add(ActuatorConfig(PD, effort_mode="implicit"), 0)


def test_two_that_drive_one_robot_each_have_implicit_efforts_of_their_own_joints():
    whole = moved(lambda _: halves(JOINTS), 3, steps=20)
    with MujocoSimulation(actuon.assets.arm_mjcf, 3, dt=0.005) as simulation:
        robots = Articulation("link0")
        start = robots.get_dof_positions().numpy()
        first = halves(JOINTS[4:])
        second = halves(JOINTS[:4])
        assert simulation.models[0].nu == 14
        found = []
        for step in range(20):
            robots.set_dof_position_targets(start + 0.4 * np.sin(2.0 * np.pi * step * 0.005))
            simulation.step()
            found.append(robots.get_dof_positions().numpy()[-1])
        np.testing.assert_array_equal(found, whole)
        second.close()
        assert simulation.integrator == "implicitfast"
        simulation.step(3)
        assert first.telemetry().applied_effort[:, 4:].all()
        first.close()
        assert (simulation.integrator, simulation.models[0].nu) == ("Euler", 7)
        simulation.step()


def halves(joints):
    return ArticulationActuators.from_actuators("link0", [(STIFF, name) for name in joints], effort_mode="implicit")


def test_the_engine_lets_go_of_derivatives_with_the_last_reference():
    with MujocoSimulation(actuon.assets.arm_mjcf, 2, dt=0.005) as simulation:
        actuators = halves(JOINTS)
        simulation.step(3)
        assert simulation.models[0].nu == 14
        del actuators
        assert (simulation.integrator, simulation.models[0].nu) == ("Euler", 7)
        simulation.step()
