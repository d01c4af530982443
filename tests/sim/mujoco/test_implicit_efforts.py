# SPDX-License-Identifier: Apache-2.0
"""Derivatives of efforts in MuJoCo: taken into the solve, kept to bounds, shown as applied, and given back."""

from __future__ import annotations

import copy
import logging

import mujoco
import numpy as np
import pytest

from actuon import (
    ActuatorConfig,
    Articulation,
    ArticulationActuators,
    DelayConfig,
    MaxEffortClampingConfig,
    MujocoSimulation,
    PDControlConfig,
)
from actuon.sim.engine import AGREED

ROBOT = """<mujoco>{default}<option gravity="0 0 0" timestep="{dt}" integrator="{integrator}"/><worldbody>
<body name="r"><joint name="a" axis="0 1 0" {limit}/>
<inertial pos="0.1 0 0" mass="1" diaginertia="0.01 0.01 0.01"/><body pos="0.3 0 0"><joint name="b" axis="0 1 0"/>
<inertial pos="0.1 0 0" mass="0.5" diaginertia="0.01 0.01 0.01"/></body></body></worldbody>
<actuator><motor name="m" joint="a"/><position joint="b" kp="20" kv="2"/></actuator>
<keyframe><key name="home" qpos="0.1 0.2" ctrl="0.5 0.2"/></keyframe></mujoco>"""
LIMIT = 'actuatorfrcrange="-40 30"'


def spec_of(dt=0.005, integrator="Euler", default="", limit=""):
    return mujoco.MjSpec.from_string(ROBOT.format(dt=dt, integrator=integrator, default=default, limit=limit))


class Stiff:
    """PD with implicit efforts on both joints of all robots.

    Args:
        simulation: Where they are.
        kp: [N·m/rad].
        kd: [N·m·s/rad].
        most: Largest effort [N·m].
        target: Of both joints [rad]. None: as it is.
    """

    def __init__(self, simulation, kp=300.0, kd=30.0, most=np.inf, target=(0.6, -0.4)):
        self.kp, self.kd, self.most = kp, kd, most
        config = ActuatorConfig(PDControlConfig(kp, kd), [MaxEffortClampingConfig(most)], effort_mode="implicit")
        self.actuators = ArticulationActuators.from_actuators(
            "r", [(config, name) for name in "ab"], simulation=simulation
        )
        self.robots = self.actuators.articulation
        if target is not None:
            self.command(target)

    def command(self, target):
        self.target = np.float32(target)
        self.robots.set_dof_position_targets(self.target)

    def line(self):
        """Effort and derivatives in the present state, and that state, each of shape (robots, 2)."""
        q, qd = self.robots.get_dof_positions().numpy(), self.robots.get_dof_velocities().numpy()
        wanted = self.kp * (self.target - q) - self.kd * qd
        effort = np.clip(wanted, -self.most, self.most)
        free = effort == wanted
        return effort, np.where(free, -self.kp, 0.0), np.where(free, -self.kd, 0.0), q, qd

    def close(self):
        self.actuators.close()


def fields_of(model):
    names = [name for name in dir(model) if isinstance(getattr(model, name), np.ndarray)]
    return {name: getattr(model, name).copy() for name in names}


@pytest.mark.parametrize("num_envs", [1, 12])
@pytest.mark.parametrize("integrator", ["implicitfast", "implicit", "discrete"])
def test_efforts_shown_after_a_step_are_those_that_moved_the_joints(num_envs, integrator):
    with MujocoSimulation(spec_of(integrator=integrator), num_envs) as simulation:
        drive = Stiff(simulation)
        assert simulation.integrator == integrator
        assert not simulation.integrator_changed
        model, data = simulation.models[0], mujoco.MjData(simulation.models[0])
        full, bias = np.zeros((2, 2)), np.zeros(2)
        for _ in range(40):
            simulation.engine.state.refresh()
            data.qpos[:], data.qvel[:] = simulation.data[0].qpos, simulation.data[0].qvel
            data.ctrl[:] = 0.0
            mujoco.mj_forward(model, data)
            mujoco.mj_fullM(model, data, full)
            bias[:] = data.qfrc_bias
            effort, derivative_q, derivative_qd, q, qd = drive.line()
            simulation.step()
            after = simulation.data[0]
            line = effort[0] + derivative_qd[0] * (after.qvel - qd[0])
            if integrator == "discrete":
                line += derivative_q[0] * (after.qpos - q[0])
            shown = drive.robots.get_dof_efforts().numpy()
            np.testing.assert_allclose(shown, [line] * num_envs, rtol=2e-4, atol=2e-3)
            if integrator != "implicit":  # which adds derivatives of Coriolis forces
                moved = full @ (after.qvel - data.qvel) / simulation.dt + bias
                np.testing.assert_allclose(shown[0], moved, rtol=1e-3, atol=2e-3)
        drive.close()


def test_a_stiff_drive_holds_where_an_explicit_one_diverges():
    with MujocoSimulation(spec_of(dt=0.01), 2) as simulation:
        drive = Stiff(simulation, kp=2000.0, kd=200.0)
        simulation.step(200)
        np.testing.assert_allclose(drive.robots.get_dof_positions().numpy(), [drive.target] * 2, atol=1e-4)
        drive.close()


@pytest.mark.parametrize("num_envs", [1, 12])
@pytest.mark.parametrize(("dt", "own", "chosen"), [(0.002, "Euler", "implicitfast"), (0.02, "RK4", "discrete")])
def test_an_integrator_that_ignores_derivatives_is_changed_said_and_given_back(num_envs, dt, own, chosen, caplog):
    with MujocoSimulation(spec_of(dt, own), num_envs) as simulation:
        before, state = fields_of(simulation.models[-1]), simulation.save_state().engine
        with caplog.at_level(logging.WARNING):
            drive = Stiff(simulation)
        said = f"the model: {own} ignores derivatives of efforts; it is {chosen} until close()"
        assert [record.getMessage() for record in caplog.records] == [said]
        assert (simulation.integrator, simulation.integrator_changed) == (chosen, own)
        simulation.step(3)
        drive.close()
        assert (simulation.integrator, simulation.integrator_changed) == (own, "")
        simulation.reset()
        np.testing.assert_array_equal(simulation.save_state().engine, state)
        after = fields_of(simulation.models[-1])
        for name, values in before.items():
            np.testing.assert_array_equal(after[name], values, err_msg=name)


def test_who_reads_drives_targets_and_limits_sees_nothing_of_what_holds_derivatives():
    with MujocoSimulation(spec_of("0.02", "discrete", limit=LIMIT), 3) as simulation:
        robots = Articulation("r")
        limits, gains = robots.get_dof_max_efforts().numpy(), [g.numpy() for g in robots.get_dof_gains()]
        targets = robots.get_dof_position_targets().numpy()
        drive = Stiff(simulation, target=None)
        assert simulation.engine.drives.are_silent(robots.at).all()
        assert simulation.models[0].nu == 2 + 4
        assert list(simulation.engine.drives.joint_range(robots.at)[0][0]) == [-40.0, -np.inf]
        np.testing.assert_array_equal(robots.get_dof_max_efforts().numpy(), limits)
        np.testing.assert_array_equal(robots.get_dof_position_targets().numpy(), targets)
        assert simulation.engine.drives.follows("joint_target_q", robots.at).tolist() == [False, True]
        assert simulation.data[1].ctrl[:2].tolist() == [0.5, 0.2]
        simulation.step(2)
        assert simulation.data[1].ctrl[:2].tolist() == [0.5, 0.2]
        drive.close()
        np.testing.assert_array_equal([g.numpy() for g in robots.get_dof_gains()], gains)
        np.testing.assert_array_equal(robots.get_dof_max_efforts().numpy(), limits)


def test_a_limit_of_a_joint_can_be_set_while_derivatives_are_held():
    with MujocoSimulation(spec_of(limit=LIMIT), 3) as simulation:
        robots, drive = Articulation("r"), Stiff(simulation)
        robots.set_dof_max_efforts(7.0, dof_indices=[0], indices=[1])
        assert robots.get_dof_max_efforts().numpy()[:, 0].tolist() == [40.0, 7.0, 40.0]
        assert not any(model.jnt_actfrclimited.any() for model in simulation.models)
        drive.close()
        assert robots.get_dof_max_efforts().numpy()[:, 0].tolist() == [40.0, 7.0, 40.0]
        assert [model.jnt_actfrcrange[0].tolist() for model in simulation.models] == [[-40, 30], [-7, 7], [-40, 30]]
        assert all(model.jnt_actfrclimited[0] for model in simulation.models)


def states_of(num_envs, most=6.0, integrator="implicitfast"):
    found = []
    with MujocoSimulation(spec_of(0.01, integrator), num_envs) as simulation:
        drive = Stiff(simulation, kp=300.0, kd=20.0, most=most)
        for step in range(60):
            drive.command([0.6, -0.4] if step % 20 < 10 else [-0.2, 0.3])
            simulation.step()
            found.append([simulation.data[0].qpos.copy(), simulation.data[0].qvel.copy()])
            found[-1] += [drive.robots.get_dof_efforts().numpy()[0]]
        last = simulation.num_envs - 1
        np.testing.assert_array_equal(drive.robots.get_dof_efforts().numpy()[last], found[-1][2])
        drive.close()
    return np.array(found)


@pytest.mark.parametrize("integrator", ["implicitfast", "discrete"])
def test_limits_bind_in_one_robot_in_many_and_with_a_callback_in_python_to_the_same_bit(integrator):
    one, many = (states_of(count, integrator=integrator) for count in (1, 12))
    assert np.abs(one[:, 2]).max() <= 6.0 * 1.011
    free = states_of(1, most=1e6, integrator=integrator)
    assert np.abs(free[:, 2]).max() > 20.0
    np.testing.assert_array_equal(one, many)
    mujoco.set_mjcb_time(lambda: 0.0)
    try:
        np.testing.assert_array_equal(states_of(12, integrator=integrator), many)
    finally:
        mujoco.set_mjcb_time(None)


def disagreements(lag, num_envs, kp=60.0, kd=4.0, most=6.0):
    """How far efforts that were at their limit are from those of the law where a step ends, as a share of the limit."""
    targets = np.random.default_rng(7).uniform(-0.5, 0.5, (80, 2)).astype(np.float32)
    config = ActuatorConfig(PDControlConfig(kp, kd), [MaxEffortClampingConfig(most)], DelayConfig(lag))
    found = []
    with MujocoSimulation(spec_of(0.02, "implicitfast"), num_envs) as simulation:
        pairs = [(config, name) for name in "ab"]
        actuators = ArticulationActuators.from_actuators("r", pairs, simulation=simulation, effort_mode="implicit")
        robots = actuators.articulation

        def law(target):
            q, qd = robots.get_dof_positions().numpy()[-1], robots.get_dof_velocities().numpy()[-1]
            return np.clip(kp * (target - q) - kd * qd, -most, most)

        for step, target in enumerate(targets):
            late = targets[max(step - lag, 0)]
            robots.set_dof_position_targets(target)
            was_clipped = np.abs(law(late)) == most
            simulation.step()
            off = np.abs(robots.get_dof_efforts().numpy()[-1] - law(late)) / most
            found += off[was_clipped].tolist()
        actuators.close()
    return np.array(found)


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("lag", [0, 2])
def test_steps_are_corrected_by_what_the_chain_gives_at_their_end(lag, num_envs, monkeypatch):
    """With what it remembered before the step, such as commands that are late."""
    assert disagreements(lag, num_envs).max() < AGREED + 0.02
    monkeypatch.setattr("actuon.sim.mujoco.batch.CORRECTIONS", 0)
    assert np.sum(disagreements(lag, num_envs) > 1.5 * AGREED) > 5


def test_without_a_correction_efforts_end_beyond_their_limits(monkeypatch):
    monkeypatch.setattr("actuon.sim.mujoco.batch.CORRECTIONS", 0)
    assert np.abs(states_of(1)[:, 2]).max() > 7.0
    assert np.abs(states_of(12)[:, 2]).max() > 7.0


@pytest.mark.parametrize("num_envs", [1, 12])
def test_a_saved_state_holds_derivatives_and_a_reset_forgets_them(num_envs):
    with MujocoSimulation(spec_of(), num_envs) as simulation:
        drive = Stiff(simulation)
        simulation.step(5)
        saved = simulation.save_state()
        simulation.step(7)
        expected = simulation.save_state().engine
        simulation.load_state(saved)
        assert drive.robots.get_dof_efforts().numpy().any()
        simulation.step(7)
        np.testing.assert_array_equal(simulation.save_state().engine, expected)
        simulation.reset([0])
        assert not drive.robots.get_dof_efforts().numpy()[0].any()
        assert simulation.data[0].ctrl.tolist() == [0.5, 0.2, 0.0, 0.0]
        drive.close()


def test_efforts_stay_as_lines_while_nobody_steps_the_motors():
    """Derivatives stay as the last step left them, so motors go on braking."""
    with MujocoSimulation(spec_of(integrator="implicitfast")) as simulation:
        drive = Stiff(simulation)
        simulation.step(3)
        drive.actuators.disable_auto_step_pre_physics()
        before, speed = drive.robots.get_dof_efforts().numpy(), drive.robots.get_dof_velocities().numpy()
        simulation.step()
        change = drive.robots.get_dof_velocities().numpy() - speed
        np.testing.assert_allclose(drive.robots.get_dof_efforts().numpy(), before - drive.kd * change, rtol=1e-4)
        assert np.abs(change).min() > 0.02
        drive.close()


def test_an_effort_that_is_set_by_hand_is_a_constant():
    with MujocoSimulation(spec_of(integrator="implicitfast")) as simulation:
        drive = Stiff(simulation)
        simulation.step(3)
        drive.actuators.disable_auto_step_pre_physics()
        drive.robots.set_dof_efforts(1.5)
        simulation.step(3)
        assert drive.robots.get_dof_efforts().numpy().tolist() == [[1.5, 1.5]]
        drive.close()


def test_the_default_class_of_a_model_does_not_reach_what_holds_derivatives():
    default = '<default><general gear="50" ctrlrange="-1 1" forcerange="-2 2" dyntype="filter" group="3"/></default>'
    runs = []
    for text in ("", default):
        xml = ROBOT.format(dt=0.005, integrator="implicitfast", default=text, limit="")
        xml = xml.replace('<position joint="b" kp="20" kv="2"/>', '<motor joint="b"/>')
        with MujocoSimulation(mujoco.MjSpec.from_string(xml)) as simulation:
            drive = Stiff(simulation)
            simulation.step(20)
            runs.append(drive.robots.get_dof_positions().numpy())
            drive.close()
    np.testing.assert_array_equal(*runs)


def test_what_cannot_hold_derivatives_is_refused_and_stays_as_it_was():
    cases = {
        "actuation switched off in its <option>": ('<option><flag actuation="disable"/></option>', False),
        "only to a model from an .xml": ("", True),
    }
    for match, (option, compiled) in cases.items():
        spec = mujoco.MjSpec.from_string(ROBOT.format(dt=0.002, integrator="Euler", default=option, limit=""))
        with MujocoSimulation(spec.compile() if compiled else spec) as simulation:
            before = copy.copy(simulation.models[0])
            with pytest.raises(ValueError, match=match):
                Stiff(simulation)
            assert simulation.integrator == "Euler"
            assert simulation.models[0].nu == before.nu


def test_groups_of_actuators_that_are_switched_off_do_not_switch_derivatives_off():
    option = '<option actuatorgroupdisable="0 1"/>'
    runs = []
    for text in ("", option):
        with MujocoSimulation(spec_of(integrator="implicitfast", default=text)) as simulation:
            drive = Stiff(simulation)
            simulation.step(20)
            runs.append(drive.robots.get_dof_positions().numpy())
            drive.close()
    np.testing.assert_array_equal(*runs)


def test_an_integrator_that_is_changed_meanwhile_is_refused():
    with MujocoSimulation(spec_of(integrator="implicitfast")) as simulation:
        drive = Stiff(simulation)
        simulation.step()
        simulation.models[0].opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
        with pytest.raises(ValueError, match="changed to Euler, while actuators"):
            simulation.step()
        simulation.models[0].opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        drive.close()


def test_limits_bind_where_trees_may_sleep():
    text = ROBOT.format(dt=0.01, integrator="implicitfast", default="", limit="").replace(
        "<worldbody>", "{}<worldbody>", 1
    )
    found = []
    for flag in ("", '<option><flag sleep="enable"/></option>'):
        with MujocoSimulation(mujoco.MjSpec.from_string(text.format(flag)), 3) as simulation:
            drive = Stiff(simulation, kp=300.0, kd=20.0, most=6.0)
            for step in range(40):
                drive.command([0.6, -0.4] if step % 20 < 10 else [-0.2, 0.3])
                simulation.step()
                found.append(drive.robots.get_dof_efforts().numpy())
            drive.close()
    assert np.abs(found).max() <= 6.0 * 1.011
    np.testing.assert_allclose(found[40:], found[:40], atol=1e-3)
