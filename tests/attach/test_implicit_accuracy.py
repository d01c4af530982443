# SPDX-License-Identifier: Apache-2.0
"""How far stiff drives stray from explicit PD at 0.05 ms, at the steps people train with, on the shipped robots, and
that they keep to the limits of their motors."""

from __future__ import annotations

import functools
import logging
import re

import mujoco
import numpy as np
import pytest

import actuon
from actuon import ActuatorConfig, Articulation, ArticulationActuators, MujocoSimulation
from actuon.lab import ActuatorGroups, IdealPDActuatorCfg
from tests.support.paths import PUBLIC

SECONDS = 2.0
FINE = 5e-5
"""Time step of the reference [s]."""
ARM = np.array([87.0] * 4 + [12.0] * 3)
LEG = np.array([23.7, 23.7, 35.55] * 4)
TROT = np.array([0.0, 0.3, -0.3] * 4) * np.repeat([1.0, -1.0, -1.0, 1.0], 3)

CASES = {
    "arm, kp 1000 kd 40": ("arm", 1000.0, 40.0, 3.0 * ARM, np.full(7, 30.0), 0.4),
    "arm, kp 4000 kd 200": ("arm", 4000.0, 200.0, np.full(7, 300.0), np.full(7, 30.0), 0.4),
    "quadruped on its feet, kp 60 kd 3": ("quadruped", 60.0, 3.0, LEG, np.array([30.1, 30.1, 20.07] * 4), TROT),
}
"""Robot, gains, stall efforts and no-load speeds of the motors, and how far joints swing, once a second."""

MEASURED = {
    ("arm, kp 1000 kd 40", 0.005): (1.2, 8.5),
    ("arm, kp 1000 kd 40", 0.010): (2.3, 16.0),
    ("arm, kp 4000 kd 200", 0.001): (0.29, 1.6),
    ("arm, kp 4000 kd 200", 0.005): (1.4, 7.9),
    ("arm, kp 4000 kd 200", 0.020): (5.7, 31.0),
    ("quadruped on its feet, kp 60 kd 3", 0.005): (4.1, 11.0),
    ("quadruped on its feet, kp 60 kd 3", 0.010): (14.0, 18.0),
    ("quadruped on its feet, kp 60 kd 3", 0.020): (84.0, 25.0),
}
"""RMS error [mrad] by case and time step [s], with ``implicitfast`` and with ``discrete``, which twice bounds it."""

EXPLICIT_FAILS = {
    ("arm, kp 4000 kd 200", 0.005): 50.0,
    ("arm, kp 4000 kd 200", 0.020): 300.0,
    ("quadruped on its feet, kp 60 kd 3", 0.020): 150.0,
}
"""RMS error [mrad] that an explicit effort has at least."""


def spec_of(name, integrator):
    spec = mujoco.MjSpec.from_file(str(getattr(actuon.assets, f"{name}_mjcf")))
    spec.option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    return spec


@functools.cache
def reference(case):
    """Positions at each millisecond, of explicit PD in NumPy, shape (steps, D)."""
    name, kp, kd, stall, speed, swing = CASES[case]
    model = spec_of(name, "euler").compile()
    model.opt.timestep = FINE
    model.actuator_gainprm[:], model.actuator_biasprm[:] = 0.0, 0.0
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    joints = np.flatnonzero(model.jnt_type == int(mujoco.mjtJoint.mjJNT_HINGE))
    at_q, at_v = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
    start, found = data.qpos[at_q].copy(), []
    each = round(0.001 / FINE)
    for step in range(round(SECONDS / FINE)):
        q, v = data.qpos[at_q], data.qvel[at_v]
        wanted = kp * (start + swing * np.sin(2.0 * np.pi * step * FINE) - q) - kd * v
        highest = np.minimum(stall * (1.0 - v / speed), stall)
        lowest = np.maximum(stall * (-1.0 - v / speed), -stall)
        data.qfrc_applied[at_v] = np.minimum(np.maximum(wanted, lowest), highest)
        mujoco.mj_step(model, data)
        if (step + 1) % each == 0:
            found.append(data.qpos[at_q].copy())
    return np.array(found)


def error(case, dt, mode, integrator):
    """RMS error [mrad] of all joints over the whole time."""
    name, kp, kd, stall, speed, swing = CASES[case]
    with MujocoSimulation(spec_of(name, integrator), dt=dt) as simulation:
        robots = Articulation(simulation.robots[0].name)
        pairs = []
        for i, joint in enumerate(robots.dof_names):
            motor = actuon.DCMotorClampingConfig(stall[i], speed[i], stall[i])
            pairs.append((ActuatorConfig(actuon.PDControlConfig(kp, kd), [motor]), joint))
        with ArticulationActuators.from_actuators(simulation.robots[0].name, pairs, effort_mode=mode):
            start, found = robots.get_dof_positions().numpy(), []
            for step in range(round(SECONDS / dt)):
                robots.set_dof_position_targets(start + swing * np.sin(2.0 * np.pi * step * dt))
                simulation.step()
                found.append(robots.get_dof_positions().numpy()[0])
    each = round(dt / 0.001)
    return 1000.0 * float(np.sqrt(np.mean((np.array(found) - reference(case)[each - 1 :: each]) ** 2)))


LINK = '<joint name="{0}" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/>'
CHAIN = f"""<mujoco><option timestep="0.01" integrator="Euler"/><worldbody><body name="arm">{LINK.format("a")}
<body pos="0.3 0 0">{LINK.format("b")}<body pos="0.3 0 0">{LINK.format("c")}</body></body></body>
</worldbody></mujoco>"""


def swinging(t):
    return 0.3 * np.sin(2.0 * np.pi * t)


@pytest.mark.parametrize(("kd", "chosen", "measured"), [(10.0, "discrete", 14.1), (30.0, "implicitfast", 0.77)])
def test_the_integrator_is_chosen_by_stiffness_and_inertia(kd, chosen, measured, caplog):
    """Three links without limits, at 10 ms: with little damping, ``implicitfast`` diverges at this stiffness."""
    kp, dt = 3000.0, 0.01
    model = mujoco.MjModel.from_xml_string(CHAIN)
    model.opt.timestep = FINE
    data, exact = mujoco.MjData(model), []
    for step in range(round(SECONDS / FINE)):
        data.qfrc_applied[:] = kp * (swinging(step * FINE) - data.qpos) - kd * data.qvel
        mujoco.mj_step(model, data)
        exact.append(data.qpos.copy())
    motor = ActuatorConfig(actuon.PDControlConfig(kp, kd), effort_mode="implicit")
    with MujocoSimulation(mujoco.MjSpec.from_string(CHAIN)) as simulation:
        with ArticulationActuators.from_actuators("arm", [(motor, name) for name in "abc"]) as actuators:
            said = f"the model: Euler ignores derivatives of efforts; it is {chosen} until close()"
            assert [record.getMessage() for record in caplog.records] == [said]
            assert actuators.mode_text == f"implicit efforts of 3 DOFs, {chosen} instead of Euler"
            found = []
            for _ in range(round(SECONDS / dt)):
                actuators.articulation.set_dof_position_targets(swinging(simulation.time))
                simulation.step()
                found.append(actuators.articulation.get_dof_positions().numpy()[0])
        assert simulation.integrator == "Euler"
    each = round(dt / FINE)
    assert 1000.0 * np.sqrt(np.mean((np.array(found) - exact[each - 1 :: each]) ** 2)) < 2.0 * measured


def test_joints_that_need_another_integrator_than_was_chosen_for_others_are_told_of(caplog):
    soft, stiff = (ActuatorConfig(actuon.PDControlConfig(kp, 10.0), effort_mode="implicit") for kp in (30.0, 30000.0))
    with MujocoSimulation(mujoco.MjSpec.from_string(CHAIN)) as simulation:
        first = ArticulationActuators.from_actuators("arm", [(soft, "a")])
        caplog.clear()
        second = ArticulationActuators.from_actuators("arm", [(stiff, "b"), (stiff, "c")])
        (record,) = (record for record in caplog.records if record.name == "actuon.sim")
        message = r"joints use \d{3,} % of the stability limit with implicitfast, the integrator of the earlier ones; "
        assert re.search(message + r"create all actuators together", record.getMessage())
        second.close()
        first.close()
        assert simulation.integrator == "Euler"


@pytest.mark.parametrize(("case", "dt"), MEASURED, ids=lambda value: str(value).replace(" ", "_"))
def test_implicit_efforts_are_as_exact_as_measured(case, dt, caplog):
    caplog.set_level(logging.ERROR, "actuon")
    for integrator, measured in zip(("implicitfast", "discrete"), MEASURED[case, dt], strict=True):
        found = error(case, dt, "implicit", integrator)
        assert found < 2.0 * measured, f"{integrator}: {found:.2f} mrad"
    if (case, dt) in EXPLICIT_FAILS:
        assert error(case, dt, "explicit", "euler") > EXPLICIT_FAILS[case, dt]


def largest_excess(case, dt, share, corrections, monkeypatch):
    """By how much efforts leave the envelope of their motors where steps end, as a share of the stall effort.

    Joints jump to and fro, with motors of which a share is left.
    """
    monkeypatch.setattr("actuon.sim.mujoco.batch.CORRECTIONS", corrections)
    name, kp, kd, stall, speed, _ = CASES[case]
    stall, excess = share * stall, []
    with MujocoSimulation(spec_of(name, "euler"), 2, dt=dt) as simulation:
        robots = Articulation(simulation.robots[0].name)
        pairs = []
        for i, joint in enumerate(robots.dof_names):
            motor = actuon.DCMotorClampingConfig(stall[i], speed[i], stall[i])
            pairs.append((ActuatorConfig(actuon.PDControlConfig(kp, kd), [motor]), joint))
        with ArticulationActuators.from_actuators(robots.paths, pairs, effort_mode="implicit") as actuators:
            start = robots.get_dof_positions().numpy()
            for step in range(round(1.2 / dt)):
                robots.set_dof_position_targets(start + (0.5 if step * dt % 0.6 < 0.3 else -0.5))
                simulation.step()
                effort, v = actuators.telemetry().applied_effort, robots.get_dof_velocities().numpy()
                highest = np.minimum(stall * (1.0 - v / speed), stall)
                lowest = np.maximum(stall * (-1.0 - v / speed), -stall)
                excess.append(np.maximum(effort - highest, lowest - effort) / stall)
    return np.max(excess)


@pytest.mark.parametrize("dt", [0.005, 0.02])
@pytest.mark.parametrize("case", ["arm, kp 1000 kd 40", "quadruped on its feet, kp 60 kd 3"])
def test_efforts_end_within_the_envelope_of_their_motors(case, dt, monkeypatch, caplog):
    caplog.set_level(logging.ERROR, "actuon")
    assert largest_excess(case, dt, 0.5, 3, monkeypatch) < 0.011
    assert largest_excess(case, dt, 0.5, 0, monkeypatch) > 0.04


@pytest.mark.parametrize("name", ["kinova_gen3", "unitree_g1"])
def test_public_robots_hold_with_gains_that_shake_an_explicit_drive(name, caplog):
    pytest.importorskip("torch")
    caplog.set_level(logging.ERROR, "actuon")
    path, speeds = PUBLIC / f"{name}.xml", {}
    if not path.exists():
        pytest.skip(f"{path} is not there")
    for mode in ("explicit", "implicit"):
        with MujocoSimulation(path, 2, dt=0.005) as simulation:
            robots = Articulation(simulation.robots[0].name)
            columns = np.flatnonzero(robots.get_dof_gains()[0].numpy()[0])
            joints = [robots.dof_names[column] for column in columns]
            cfg = IdealPDActuatorCfg(joints, stiffness=None, damping=None, effort_mode=mode)
            start = robots.get_dof_positions().numpy()[:, columns]
            with ActuatorGroups(robots, {"all": cfg}):
                for step in range(60):
                    robots.set_dof_position_targets(start + 0.1 * np.sin(0.03 * step), dof_indices=columns)
                    simulation.step()
            speeds[mode] = np.abs(robots.get_dof_velocities().numpy()).max()
    assert speeds["implicit"] < 1.0 < 5.0 < speeds["explicit"]
