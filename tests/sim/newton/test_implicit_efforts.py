# SPDX-License-Identifier: Apache-2.0
"""Derivatives of efforts in Newton: which solvers take them in, what they apply, and what is given back."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from actuon import ActuatorConfig, Articulation, ArticulationActuators

pytest.importorskip("newton")
from actuon import NewtonSimulation

LINK = """<mujoco><option gravity="0 0 0"/><worldbody><body name="r"><joint name="a" axis="1 0 0" damping="0.01"/>
<inertial pos="0 0 0" mass="0.5" diaginertia="0.0008 0.007 0.007"/></body></worldbody></mujoco>"""
INERTIA = 0.0008
PD = ActuatorConfig(actuon.PDControlConfig(100.0, 10.0), effort_mode="implicit")


@pytest.fixture
def link(tmp_path):
    path = tmp_path / "link.xml"
    path.write_text(LINK)
    return path


def attached(config=PD, name="r", joint="a"):
    return ArticulationActuators.from_actuators(name, [(config, joint)])


@pytest.mark.parametrize(("num_envs", "dt"), [(1, 0.002), (1, 0.005), (3, 0.005)])
def test_a_light_link_tracks_where_an_explicit_drive_needs_a_tenth_of_a_millisecond(link, num_envs, dt):
    with NewtonSimulation(link, num_envs, dt=dt) as simulation, attached() as actuators:
        robots, errors = actuators.articulation, []
        for step in range(round(1.0 / dt)):
            time = (step + 1) * dt
            robots.set_dof_position_targets(0.3 * np.sin(2.0 * np.pi * time))
            simulation.step()
            late = 0.3 * np.sin(2.0 * np.pi * (time - 0.1))  # kd / kp: the velocity is braked, not led
            errors.append(robots.get_dof_positions().numpy()[:, 0] - late)
        assert np.abs(errors[len(errors) // 2 :]).max() < 0.06
        assert "implicit efforts of 1 DOFs, implicitfast" in repr(actuators)
    explicit = ActuatorConfig(PD.controller)
    with NewtonSimulation(link, num_envs, dt=dt) as simulation, attached(explicit) as actuators:
        actuators.articulation.set_dof_position_targets(0.3)
        with pytest.raises(actuon.SimulationError, match="diverged|is nan|is inf|beyond"):
            simulation.step(200)


@pytest.mark.parametrize("integrator", ["implicitfast", "euler"])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_efforts_shown_after_a_step_are_those_that_moved_the_joint(link, num_envs, integrator):
    with NewtonSimulation(link, num_envs, dt=0.005, integrator=integrator) as simulation:
        robots = Articulation("r")
        with attached() as actuators:
            targets = 0.2 + 0.1 * np.arange(num_envs)[:, None]
            robots.set_dof_position_targets(targets)
            for _ in range(5):
                before = robots.get_dof_velocities().numpy()
                held = PD.controller.kp * (targets - robots.get_dof_positions().numpy()) - PD.controller.kd * before
                simulation.step()
                after = robots.get_dof_velocities().numpy()
                applied = actuators.telemetry().applied_effort
                moved = INERTIA * (after - before) / simulation.dt + 0.01 * after
                np.testing.assert_allclose(applied, moved, rtol=2e-3, atol=2e-3)
                np.testing.assert_array_equal(robots.get_dof_efforts().numpy(), applied)
                np.testing.assert_allclose(robots.get_dof_friction()[1].numpy(), 0.01)
            assert np.abs(applied - held).max() > 0.1
        assert not robots.get_dof_efforts().numpy().any()
        speed = robots.get_dof_velocities().numpy()
        simulation.step()
        slowed = speed * INERTIA / (INERTIA + 0.01 * simulation.dt)
        np.testing.assert_allclose(robots.get_dof_velocities().numpy(), slowed, rtol=1e-4)


def largest_effort(path, num_envs):
    """Of a link that runs into its stop, with an effort of next to nothing before it."""
    limited = ActuatorConfig(PD.controller, [actuon.MaxEffortClampingConfig(0.4)], effort_mode="implicit")
    with NewtonSimulation(path, num_envs, dt=0.005) as simulation, attached(limited) as actuators:
        robots = actuators.articulation
        robots.set_dof_positions(0.19)
        robots.set_dof_velocities(5.0)
        robots.set_dof_position_targets(0.19 + 0.5)
        seen = []
        for _ in range(20):
            simulation.step()
            seen.append(actuators.telemetry().applied_effort)
        return np.abs(seen).max()


@pytest.mark.parametrize("num_envs", [1, 3])
def test_limits_bind(tmp_path, num_envs, monkeypatch):
    path = tmp_path / "stopped.xml"
    path.write_text(LINK.replace("damping=", 'limited="true" range="-0.2 0.2" damping='))
    assert 0.39 < largest_effort(path, num_envs) <= 0.4 * 1.011
    monkeypatch.setattr("actuon.sim.newton.implicit_efforts.CORRECTIONS", 0)
    assert largest_effort(path, num_envs) > 0.7


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_light_link_with_a_motor_at_its_limit_goes_where_it_is_told_and_stops(link, num_envs):
    link.write_text(LINK.replace(' damping="0.01"', ""))
    motor = ActuatorConfig(PD.controller, [actuon.DCMotorClampingConfig(6.0, 8.0, 6.0)], effort_mode="implicit")
    with NewtonSimulation(link, num_envs, dt=0.005) as simulation, attached(motor) as actuators:
        actuators.articulation.set_dof_position_targets(0.5)
        simulation.step(160)
        np.testing.assert_allclose(actuators.articulation.get_dof_positions().numpy(), 0.5, atol=0.002)
        assert np.abs(actuators.articulation.get_dof_velocities().numpy()).max() < 0.01


def test_a_robot_moves_as_it_would_beside_others(link):
    motor = ActuatorConfig(
        actuon.PDControlConfig(20.0, 0.5), [actuon.DCMotorClampingConfig(6.0, 8.0, 6.0)], effort_mode="implicit"
    )
    numbers = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 3))

    def ends(chosen):
        with NewtonSimulation(link, len(chosen), dt=0.005) as simulation, attached(motor) as actuators:
            robots = actuators.articulation
            robots.set_dof_positions(0.3 * numbers[chosen, :1])
            robots.set_dof_velocities(9.0 * numbers[chosen, 1:2])
            robots.set_dof_position_targets(0.3 * numbers[chosen, 2:])
            simulation.step(25)
            return robots.get_dof_positions().numpy()

    everyone = ends(np.arange(60))
    for chosen in np.arange(60).reshape(-1, 4):
        np.testing.assert_array_equal(ends(chosen), everyone[chosen])


def test_a_saved_state_holds_derivatives_and_a_reset_forgets_them(link):
    with NewtonSimulation(link, 3, dt=0.005) as simulation, attached() as actuators:
        robots = actuators.articulation
        robots.set_dof_position_targets(0.3)
        simulation.step(4)
        saved, held = simulation.save_state(), actuators.telemetry().applied_effort
        simulation.step(5)
        expected = simulation.save_state().engine
        simulation.load_state(saved)
        np.testing.assert_array_equal(robots.get_dof_efforts().numpy(), held)
        simulation.step(5)
        np.testing.assert_array_equal(simulation.save_state().engine, expected)
        simulation.reset([1])
        assert robots.get_dof_efforts().numpy()[:, 0].tolist()[1] == 0.0
        actuators.disable_auto_step_pre_physics()
        robots.set_dof_efforts(0.25, indices=[2])
        simulation.step()
        efforts = robots.get_dof_efforts().numpy()[:, 0]
        assert (efforts[1], efforts[2]) == (0.0, 0.25)
        assert efforts[0] != 0.0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"solver": "featherstone"}, "SolverFeatherstone computes damping from the state before the step"),
        ({"solver": "semi_implicit"}, "SolverSemiImplicit computes damping from the state before the step"),
        ({"solver": "xpbd"}, "SolverXPBD applies drives only as far as its iterations"),
        ({"integrator": "rk4"}, "SolverMuJoCo ignores derivatives of efforts with the integrator 'rk4'"),
    ],
)
def test_solvers_that_take_in_no_derivatives_are_refused_by_name(options, why, link):
    with NewtonSimulation(link, **options) as simulation:
        with pytest.raises(actuon.SimulationError, match=f"effort_mode: {why}"):
            attached()
        with attached(ActuatorConfig(PD.controller)):
            simulation.step()
