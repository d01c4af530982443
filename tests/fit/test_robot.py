# SPDX-License-Identifier: Apache-2.0
"""Fits of whole robots: all joints coupled, in MuJoCo."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest

import actuon
from actuon.errors import LogError, ParameterError
from actuon.files import read_yaml
from actuon.fit import (
    FitResult,
    JointLog,
    KnownLoadPlant,
    Log,
    Model,
    Plant,
    RobotPlant,
    SearchOptions,
    apply,
    fit_logs,
    load_plant,
    read_logs,
)
from actuon.fit.fitting import candidates_of, fit_models
from tests.support.paths import DATA
from tests.support.pendulums import pendulum_log
from tests.support.trials import errors_of, residuals_of

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("cmaes")

SO101 = DATA / "so101"

ARM = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.002" iterations="10" ls_iterations="20" integrator="implicitfast"/>
  <worldbody>
    <body name="base">
      <geom size="0.05"/>
      <body name="upper">
        <joint name="shoulder" axis="0 1 0" armature="0.02" range="-3 3" limited="true"/>
        <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.6"/>
        <body name="lower" pos="0.3 0 0">
          <joint name="elbow" axis="0 1 0" armature="0.02" range="-1 1" limited="true"/>
          <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.02" mass="0.3"/>
          <body name="tool" pos="0.25 0 0">
            <joint name="wrist" axis="1 0 0"/>
            <geom size="0.02" mass="0.05"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><position joint="shoulder" kp="500"/></actuator>
</mujoco>
"""
TRUTH = {
    "shoulder": {"kp": 30.0, "viscous": 1.2, "dynamic": 0.15, "armature": 0.02},
    "elbow": {"kp": 20.0, "viscous": 0.6, "dynamic": 0.08, "armature": 0.02},
}


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    path = tmp_path / "arm.xml"
    path.write_text(ARM)
    return path


def recorded(seed: int, seconds: float = 4.0, noise: float = 2e-4) -> Log:
    """Return MuJoCo's own motion with the parameters of `TRUTH`, at a fine step, as a log at 100 Hz."""
    spec = mujoco.MjSpec.from_string(ARM)
    for drive in list(spec.actuators):
        spec.delete(drive)
    spec.delete(spec.joint("wrist"))
    model = spec.compile()
    model.opt.timestep, model.opt.ls_iterations = 0.0005, 50
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    names = list(TRUTH)
    for name, value in TRUTH.items():
        dof = model.joint(name).dofadr[0]
        model.dof_armature[dof], model.dof_damping[dof] = value["armature"], value["viscous"]
        model.dof_frictionloss[dof] = value["dynamic"]
        model.dof_solref[dof], model.dof_solimp[dof] = (-1.0, -2000.0), (0.9999, 0.9999, 0.001, 0.5, 2.0)
    rng = np.random.default_rng(seed)
    time = np.arange(0.0, seconds, 0.01)
    steps = np.repeat(rng.uniform(-0.4, 0.4, (len(time) // 40 + 1, 2)), 40, axis=0)[: len(time)]
    command = steps + 0.2 * np.sin(rng.uniform(2.0, 6.0, 2) * time[:, None])
    data = mujoco.MjData(model)
    gains = np.array([TRUTH[name]["kp"] for name in names])
    positions = []
    for target in command:
        positions.append(data.qpos.copy())
        for _ in range(20):
            data.qfrc_applied[:] = gains * (target - data.qpos)
            mujoco.mj_step(model, data)
    shown = np.array(positions) + rng.normal(0.0, noise, command.shape)
    joints = tuple(JointLog(name, shown[:, i], command[:, i]) for i, name in enumerate(names))
    return Log(f"run{seed}.csv", time, joints)


def test_parameters_of_a_coupled_robot_are_found_again(arm: Path) -> None:
    plant = RobotPlant(arm, [recorded(1), recorded(2)], dt=0.002)
    free = {"delay.delay": 0.0}
    options = SearchOptions(starts=1, population=48, generations=60)
    result = fit_logs(model="pd_coulomb", plant=plant, fix=free, options=options)
    assert result.error < 3e-3
    for joint in result.joints:
        found, truth = {p.path: p.value for p in joint.parameters}, TRUTH[joint.name]
        assert found["controller.kp"] == pytest.approx(truth["kp"], rel=0.1)
        assert found["friction.viscous"] == pytest.approx(truth["viscous"], rel=0.15)
        assert found["friction.dynamic"] == pytest.approx(truth["dynamic"], rel=0.25)


def test_a_fit_is_written_and_replayed_on_a_log_that_it_has_not_seen(arm: Path, tmp_path: Path) -> None:
    plant = RobotPlant(arm, [recorded(1, 2.0)], dt=0.002)
    options = SearchOptions(starts=1, population=32, generations=25)
    result = fit_logs(model="pd_coulomb", plant=plant, options=options)
    result.save(tmp_path / "arm.yaml")
    errors = apply(tmp_path / "arm.yaml", RobotPlant(arm, [recorded(3, 2.0)], dt=0.002)).as_dict()["mae_mrad"]
    assert set(errors["joints"]) == {"shoulder", "elbow"}
    assert errors["mean"] < 20.0


def chain(joint: str, **changed: float) -> actuon.ActuatorConfig:
    truth = TRUTH[joint] | changed
    return actuon.ActuatorConfig(
        actuon.PDControlConfig(truth["kp"], 0.0),
        transmission=actuon.GearTransmissionConfig(1.0, reflected_inertia=truth["armature"]),
        effects=[actuon.FrictionEffectConfig(dynamic=truth["dynamic"], viscous=truth["viscous"])],
    )


def test_the_true_actuators_follow_the_log_together_and_alone(arm: Path) -> None:
    plant = RobotPlant(arm, [recorded(1, 3.0, 0.0), recorded(2, 2.0, 0.0)], dt=0.001)
    models = [Model(joint, chain(joint), ()) for joint in plant.joints]
    none = [np.zeros((1, 0)), np.zeros((1, 0))]
    assert errors_of(plant, models, none).max() < 3e-3
    for joint in range(2):
        assert errors_of(plant.only(joint), models[joint : joint + 1], none[:1]).max() < 5e-3


def test_a_joint_alone_has_the_armature_of_the_file_where_its_chain_brings_none(tmp_path: Path) -> None:
    path = tmp_path / "heavy.xml"
    path.write_text(ARM.replace('armature="0.02"', 'armature="0.3"'))
    friction = actuon.FrictionEffectConfig(dynamic=0.1, viscous=1.0)
    models = [Model("pd", actuon.ActuatorConfig(actuon.PDControlConfig(30.0, 0.0), effects=[friction]), ())] * 2
    plant = RobotPlant(path, [recorded(1, 2.0)])
    none = [np.zeros((1, 0))] * 2
    alone = [errors_of(plant.only(joint), models[:1], none[:1])[..., 0] for joint in range(2)]
    np.testing.assert_allclose(np.stack(alone, axis=-1), errors_of(plant, models, none), rtol=0.15)


def test_inertia_and_damping_of_the_files_actuators_are_those_of_its_joints(tmp_path: Path) -> None:
    own, drives = tmp_path / "own.xml", tmp_path / "drives.xml"
    own.write_text(ARM.replace('armature="0.02"', 'armature="0.32" damping="0.4"'))
    motors = "".join(f'<motor joint="{name}" gear="2" armature="0.075" damping="0.1"/>' for name in TRUTH)
    drives.write_text(ARM.replace("<actuator>", f"<actuator>{motors}"))
    models = [Model("pd", actuon.ActuatorConfig(actuon.PDControlConfig(30.0, 0.0)), ())] * 2
    errors = [errors_of(RobotPlant(path, [recorded(1, 0.5)]), models, [np.zeros((1, 0))] * 2) for path in (own, drives)]
    np.testing.assert_allclose(errors[0], errors[1], rtol=1e-4)


def test_a_plant_keeps_its_simulation_to_itself(arm: Path) -> None:
    with actuon.MujocoSimulation(arm) as simulation:
        plant = RobotPlant(arm, [recorded(1, 0.5)], dt=0.002)
        errors_of(plant, [Model(joint, chain(joint), ()) for joint in plant.joints], [np.zeros((1, 0))] * 2)
        assert actuon.current_simulation() is simulation
    with pytest.raises(actuon.SimulationError, match="there is no simulation"):
        actuon.current_simulation()


def test_errors_are_those_of_the_residuals(arm: Path) -> None:
    plant = RobotPlant(arm, [recorded(1, 2.0), recorded(2, 1.0), recorded(3, 0.9)], dt=0.002)
    models = [Model(joint, chain(joint, kp=10.0), ()) for joint in plant.joints]
    none = [np.zeros((2, 0)), np.zeros((2, 0))]
    errors, residuals = errors_of(plant, models, none), residuals_of(plant, models, none)
    means = np.array([np.abs(run).mean(axis=1) for run in residuals]).swapaxes(0, 1)
    np.testing.assert_allclose(errors, means, rtol=0.02)
    for run in range(3):
        np.testing.assert_allclose(errors_of(plant.subset([run]), models, none)[:, 0], errors[:, run], rtol=1e-5)


def test_a_trial_that_diverges_does_not_disturb_the_others(arm: Path) -> None:
    plant = RobotPlant(arm, [recorded(1, 1.0)], dt=0.002)
    free = [
        Model(joint, chain(joint), (actuon.fit.Parameter("controller.kp", 1.0, 1e9, 30.0, "log"),))
        for joint in plant.joints
    ]
    alone = errors_of(plant, free, [np.array([[30.0]]), np.array([[20.0]])])
    both = errors_of(plant, free, [np.array([[30.0], [1e8]]), np.array([[20.0], [20.0]])])
    assert np.isinf(both[1]).all()
    np.testing.assert_allclose(both[0], alone[0], rtol=1e-6)


ONE_JOINT = """
<mujoco>
  <worldbody>
    <body name="bob">
      <joint name="joint" axis="0 1 0"/>
      <inertial pos="0 0 -0.1" mass="0.5" diaginertia="1e-9 1e-9 1e-9"/>
    </body>
  </worldbody>
</mujoco>
"""
PD = actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.05), effects=[actuon.FrictionEffectConfig(0.02, 0.01)])
GROWING = Model(
    "pd", PD, (actuon.fit.Parameter("controller.kp", 0.1, 1e9, 1.0, "log"),), {"controller.kp": "kp"}, {"kp": 1.0}
)


@pytest.fixture
def pendulum(tmp_path: Path) -> Path:
    path = tmp_path / "pendulum.xml"
    path.write_text(ONE_JOINT)
    return path


def held_pendulum(kp: float, seconds: float = 0.8, off: float = np.inf) -> Log:
    """A pendulum at 0.3 rad, which a motor is told to move, and that is switched off after ``off`` [s]."""
    time = 0.002 * np.arange(round(seconds / 0.002))
    command = 0.6 * np.sin(6.0 * time)
    return pendulum_log(f"kp{kp:g}.csv", time, np.full(len(time), 0.3), command, time < off, kp=kp)


def test_a_robot_of_one_joint_moves_as_a_known_load(pendulum: Path) -> None:
    """Gains grow with a setting of the log, in runs side by side and one after another, and motors are switched off."""
    logs = [held_pendulum(1.0), held_pendulum(4.0), held_pendulum(2.0, 0.4, 0.15), held_pendulum(1.0, 0.4)]
    robot, known = RobotPlant(pendulum, logs, dt=0.002), KnownLoadPlant(logs, dt=0.002)
    candidates = [np.array([[1.0], [3.0]])]
    expected = residuals_of(known, [GROWING], candidates)
    for paths, wanted in zip(residuals_of(robot, [GROWING], candidates), expected, strict=True):
        np.testing.assert_allclose(paths, wanted, atol=2e-3)
    assert np.abs(expected[1] - expected[0]).max() > 0.1
    np.testing.assert_allclose(
        errors_of(robot, [GROWING], candidates), errors_of(known, [GROWING], candidates), rtol=0.02, atol=1e-4
    )


def test_a_log_without_the_setting_that_a_gain_grows_with_is_refused(pendulum: Path) -> None:
    log = held_pendulum(1.0)
    plant = RobotPlant(pendulum, [dataclasses.replace(log, settings={})], dt=0.002)
    with pytest.raises(ParameterError, match=r"controller\.kp: needs the setting 'kp' of the log"):
        errors_of(plant, [GROWING], [np.ones((1, 1))])


def test_a_trial_that_diverges_does_so_in_each_run_of_an_environment(pendulum: Path) -> None:
    logs = [held_pendulum(1.0, seconds) for seconds in (0.8, 0.42, 0.38)]
    model = dataclasses.replace(GROWING, scaled_by={})
    errors = errors_of(RobotPlant(pendulum, logs, dt=0.002), [model], [np.array([[1.0], [1e8]])])
    assert np.isinf(errors[1]).all()
    alone = errors_of(RobotPlant(pendulum, logs, dt=0.002), [model], [np.array([[1.0]])])
    np.testing.assert_allclose(errors[0], alone[0], rtol=1e-6)


def test_a_trial_that_diverges_in_one_run_is_itself_in_the_next(pendulum: Path) -> None:
    """The long run and the short one of ``kp`` 1e8 diverge; the other short one follows in the environment of one."""
    logs = [held_pendulum(1.0, 0.8), held_pendulum(1e8, 0.4), held_pendulum(1.0, 0.38)]
    for candidates in ([[1.0], [2.0]], [[2.0]]):
        together = RobotPlant(pendulum, logs, dt=0.002)
        errors = errors_of(together, [GROWING], [np.array(candidates)])
        paths = residuals_of(together, [GROWING], [np.array(candidates)])
        assert np.isinf(errors[:, 1]).all()
        assert np.isnan(paths[1]).any(axis=1).all()
        for run in (0, 2):
            alone = RobotPlant(pendulum, [logs[run]], dt=0.002)
            np.testing.assert_allclose(
                errors[:, run], errors_of(alone, [GROWING], [np.array(candidates)])[:, 0], rtol=1e-6
            )
            np.testing.assert_allclose(
                paths[run], residuals_of(alone, [GROWING], [np.array(candidates)])[0], rtol=1e-5, atol=1e-7
            )


def test_runs_after_one_in_which_all_trials_diverge_are_simulated(pendulum: Path) -> None:
    logs = [held_pendulum(1e8, 0.8), held_pendulum(1e8, 0.42), held_pendulum(1.0, 0.38)]
    plant, candidates = RobotPlant(pendulum, logs, dt=0.002), [np.array([[1.0], [2.0]])]
    alone = RobotPlant(pendulum, [logs[2]], dt=0.002)
    errors = errors_of(plant, [GROWING], candidates)
    assert np.isinf(errors[:, :2]).all()
    np.testing.assert_allclose(errors[:, 2], errors_of(alone, [GROWING], candidates)[:, 0], rtol=1e-6)
    np.testing.assert_allclose(
        residuals_of(plant, [GROWING], candidates)[2],
        residuals_of(alone, [GROWING], candidates)[0],
        rtol=1e-5,
        atol=1e-7,
    )


@pytest.mark.parametrize("off", [np.inf, 0.15])
def test_efforts_reach_the_engine_as_the_chain_says(pendulum: Path, off: float) -> None:
    """A damping that an explicit effort makes diverge, and an implicit one does not."""
    kp, kd, dt, inertia, weight = 200.0, 20.0, 0.002, 0.5 * 0.1**2, 0.5 * 9.81 * 0.1
    chain = actuon.ActuatorConfig(
        actuon.PDControlConfig(kp, kd), delay=actuon.InterpolatedDelayConfig(0.0), effort_mode="implicit"
    )
    log = held_pendulum(1.0, 0.4, off)
    q, v, path = 0.3, 0.0, []
    for target, is_on in zip(log.joints[0].command, log.joints[0].enabled, strict=True):
        path.append(q)
        effort = is_on * kp * (target - q) - weight * np.sin(q)
        v = (inertia * v / dt + effort) / (inertia / dt + is_on * kd)
        q += dt * v
    plant = RobotPlant(pendulum, [log], dt=dt)
    free = (actuon.fit.Parameter("controller.kp", 1.0, 1e3, kp),)
    (residual,) = residuals_of(plant, [Model("stiff", chain, free)], [np.array([[kp]])])
    np.testing.assert_allclose(residual[0, :, 0] + log.joints[0].position, path, atol=1e-3)
    chain.effort_mode = "explicit"
    assert np.isinf(errors_of(plant, [Model("stiff", chain, free)], [np.array([[kp]])])).all()


def test_windows_start_at_the_measured_state(arm: Path) -> None:
    log = recorded(1, 2.0, 0.0)
    plant = RobotPlant(arm, [log], dt=0.002, window=0.5)
    models = [Model(joint, chain(joint), ()) for joint in plant.joints]
    assert len(plant.runs) == 4
    none = [np.zeros((1, 0)), np.zeros((1, 0))]
    first = [run[0, 0] for run in residuals_of(plant, models, none)]
    assert np.abs(first).max() < 1e-6
    assert errors_of(plant, models, none).mean() < 4e-3


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_file_of_a_search_is_of_one_robot(arm: Path, tmp_path: Path, is_alone: bool) -> None:
    log, kept = recorded(1, 0.4), tmp_path / "search.npz"
    free = {} if is_alone else {"shoulder": {"link.mass": (0.1, 1.0)}}

    def result(resume: Path | None = kept, generations: int = 2, window: float = 0.2) -> FitResult:
        plant = RobotPlant(arm, [log], dt=0.002, window=window, free=free)
        options = SearchOptions(starts=1, population=8, generations=generations)
        (models,) = candidates_of(plant, "pd_coulomb")
        return fit_models(plant, models, options, resume=resume, refine_steps=0)

    result()
    with pytest.raises(LogError, match=r"another search: runs: 2 of .* s in the file, 4 of .* s now"):
        result(window=0.1)
    for one, other in zip(result(generations=3).joints, result(None, generations=3).joints, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    arm.write_text(ARM.replace('mass="0.3"', 'mass="0.4"'))
    with pytest.raises(LogError, match=r"is a checkpoint of another search: .*robot: differ"):
        result()


def test_a_joint_that_the_robot_has_not(arm: Path) -> None:
    log = recorded(1, 0.5)
    renamed = dataclasses.replace(log, joints=(dataclasses.replace(log.joints[0], name="sholder"), log.joints[1]))
    with pytest.raises(LogError, match=r"joint 'sholder' is not one of .*Did you mean 'shoulder'"):
        RobotPlant(arm, [renamed])


def test_lengths_of_a_joint_that_turns_and_angles_of_one_that_slides_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "axes.xml"
    body = '<body pos="0 0 {}"><joint name="{}" type="{}"/><geom size=".1"/></body>'
    bodies = body.format(0, "lift", "slide") + body.format(1, "knee", "hinge")
    path.write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    time = np.arange(0.0, 1.0, 0.01)

    def log(lift: str, knee: str, size: float = 0.3) -> Log:
        units = (("lift", lift), ("knee", knee))
        joints = (JointLog(n, size * np.sin(time), np.sin(time), units={"position": unit}) for n, unit in units)
        return Log("run.csv", time, tuple(joints))

    for lift in ("m", "mm", "rad"):
        assert RobotPlant(path, [log(lift, "deg")]).joints == ("lift", "knee")
    with pytest.raises(actuon.LogError, match=r"'lift' of 'axes.xml' slides, .* read as deg; state .* m or mm"):
        RobotPlant(path, [log("deg", "rad")])
    with pytest.raises(actuon.LogError, match=r"'lift' of 'axes.xml' slides, .* up to 334, are read as rad"):
        RobotPlant(path, [log("rad", "rad", 400.0)])
    with pytest.raises(actuon.LogError, match=r"'knee' of 'axes.xml' turns, .* read as mm; state .* rad or deg"):
        RobotPlant(path, [log("m", "mm")])


def test_a_position_beyond_a_stop_switches_it_off_and_says_so(arm: Path) -> None:
    log = recorded(1, 0.5)
    beyond = dataclasses.replace(log.joints[1], position=log.joints[1].position + 1.2)
    plant = RobotPlant(arm, [dataclasses.replace(log, joints=(log.joints[0], beyond))])
    assert any("elbow: is at" in finding and "stops are disabled" in finding for finding in plant.findings)


def test_a_spike_beyond_a_stop_does_not_switch_it_off(arm: Path) -> None:
    log = recorded(1, 1.0)
    first, *others = log.joints
    position = first.position.copy()
    position[50] += 9.0
    spiked = dataclasses.replace(log, joints=(dataclasses.replace(first, position=position), *others))
    assert RobotPlant(arm, [spiked], dt=0.002).findings == RobotPlant(arm, [log], dt=0.002).findings
    scales = [RobotPlant(arm, [each], dt=0.002).scales()[0] for each in (log, spiked)]
    np.testing.assert_allclose(dataclasses.astuple(scales[1]), dataclasses.astuple(scales[0]), rtol=0.1)


def test_joints_that_are_not_logged_stand_still_and_are_named(arm: Path) -> None:
    assert any("stand still: wrist" in finding for finding in RobotPlant(arm, [recorded(1, 0.5)]).findings)


def test_a_log_without_commands(arm: Path) -> None:
    log = recorded(1, 0.5)
    silent = dataclasses.replace(log, joints=(log.joints[0], dataclasses.replace(log.joints[1], command=None)))
    with pytest.raises(LogError, match="joint 'elbow' has neither commanded positions nor efforts"):
        RobotPlant(arm, [silent])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("columns: {}", "must have either 'robot' or 'load'"),
        ("robot: arm.xml\nwindw: 0.5", "Did you mean 'window'"),
        ("robot: arm.xml\nwindow: 0", "window: got 0; must be greater than 0"),
        ("robot: arm.xml\nfree: {sholder: {}}", "Did you mean 'shoulder'"),
        ("robot: arm.xml\nfree: {shoulder: {controller.kp: 3}}", "must be two numbers"),
        ("robot: arm.xml\nfree: {shoulder: {controller.kp: [3, 1]}}", "must be two numbers, lowest and highest"),
        ("robot: arm.xml\ncolumns: {t: tme}", "columns.t: got the quantity 'tme'; .*Did you mean 'time'"),
        ("robot: [1]", r"robot: got \[1\]; must be text"),
        ("robot: arm.xml\nencoder_offset: each", "encoder_offset: got 'each'; must be per_log"),
        ("load: {inertia: 1.0}\nencoder_offset: per_log", "encoder_offset: requires 'robot', not 'load'"),
        ("load: {inertia: 1.0}\nmodel: pd", "model: requires 'robot'"),
    ],
)
def test_a_plant_file_that_is_wrong(arm: Path, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        plant_of(tmp_path, text)


def plant_of(folder: Path, text: str) -> Plant:
    path = folder / "plant.yaml"
    path.write_text(text)
    log = recorded(1, 0.5)
    table = np.column_stack([log.time, *(x for j in log.joints for x in (j.command, j.position))])
    header = "t,cmd_shoulder,pos_shoulder,cmd_elbow,pos_elbow"
    np.savetxt(folder / "log.csv", table, delimiter=",", header=header, comments="")
    return load_plant(path, folder / "log.csv")


def test_a_plant_file_says_what_is_fitted(arm: Path, tmp_path: Path) -> None:
    text = "joints: {shoulder: shoulder}\nmodel: m1\ndt: 0.004\nwindow: 0.2\nfix: {elbow: {controller.kp: 2}}"
    plant = plant_of(
        tmp_path, f"robot: arm.xml\n{text}\nencoder_offset: per_log\nfree: {{shoulder: {{link.mass: [1, 2]}}}}"
    )
    assert (plant.usual_model, plant.dt, len(plant.runs)) == ("m1", 0.004, 2)
    (parameter,) = plant.log_parameters
    assert parameter.per == "log"
    assert plant.couples_joints


def pushed(arm: Path, mass: float) -> Log:
    """The arm with another lower link, as efforts of a sine move it, at 500 Hz; windows of it may be fitted."""
    spec = mujoco.MjSpec.from_file(str(arm))
    for part in [*spec.actuators, spec.joint("wrist")]:
        spec.delete(part)
    model = spec.compile()
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    model.opt.gravity[:] = 0.0
    model.body("lower").mass[:] = mass
    data = mujoco.MjData(model)
    model.opt.timestep = 0.001
    mujoco.mj_setConst(model, data)
    time = np.arange(0.0, 2.0, 0.002)
    efforts = np.stack([0.8 * np.sin(9.0 * time), 0.3 * np.sin(13.0 * time + 1.0)], axis=1)
    positions = []
    for effort in efforts:
        positions.append(data.qpos.copy())
        data.qfrc_applied[:] = effort
        mujoco.mj_step(model, data, 2)
    shown = np.array(positions)
    joints = tuple(
        JointLog(name, shown[:, i], effort_command=efforts[:, i]) for i, name in enumerate(("shoulder", "elbow"))
    )
    return Log("pushed.csv", time, joints)


def test_the_mass_of_a_link_is_found_and_kept_in_the_file(tmp_path: Path) -> None:
    arm = tmp_path / "arm.xml"
    arm.write_text(ARM.replace('integrator="implicitfast"', 'integrator="implicitfast" gravity="0 0 0"'))
    free = {"elbow": {"link.mass": (0.1, 0.8)}}
    fix = {name: {"delay.delay": 0.0, "transmission.reflected_inertia": 0.02} for name in TRUTH}
    plant = RobotPlant(arm, [pushed(arm, 0.5)], dt=0.002, window=0.5, usual_model="pd", free=free, fix=fix)
    assert plant.couples_joints
    result = fit_logs(plant=plant, options=SearchOptions(starts=1, population=16, generations=25))
    (found,) = result.joints[1].parameters
    assert found.path == "link.mass"
    assert found.value == pytest.approx(0.5, rel=0.05)
    result.save(tmp_path / "arm.yaml")
    assert apply(tmp_path / "arm.yaml", plant).mean == pytest.approx(result.error, rel=0.05)


@pytest.mark.skipif(not SO101.is_dir(), reason="needs the logs of the SO-101")
def test_so101_with_a_servo_of_its_own_does_better_than_with_a_stiff_one() -> None:
    log = read_logs(SO101 / "logs" / "symmetric_motion.csv.gz")[0].window(0.0, 12.0)
    plant = RobotPlant(SO101 / "so101_arm.xml", [log])
    errors = {}
    for name, gains in {"stiff": (500.0, 5.0, 0.05), "soft": (12.0, 0.7, 0.3)}.items():
        config = actuon.ActuatorConfig(
            actuon.PDControlConfig(gains[0], 0.0),
            transmission=actuon.GearTransmissionConfig(1.0, reflected_inertia=0.03),
            effects=[actuon.FrictionEffectConfig(dynamic=gains[2], viscous=gains[1])],
        )
        models = [Model(name, config, ()) for _ in plant.joints]
        errors[name] = errors_of(plant, models, [np.zeros((1, 0))] * 6)[0, 0, :5].mean()
    assert errors["soft"] < 0.6 * errors["stiff"]


PENDULUM = """
<mujoco>
  <compiler angle="radian" inertiafromgeom="false"/>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body name="base">
      <inertial pos="0 0 0" mass="1" diaginertia="0.01 0.01 0.01"/>
      <body name="link">
        <joint name="hip" axis="0 1 0" armature="0.004"/>
        <inertial pos="0 0 -0.25" mass="0.6" diaginertia="0.003 0.003 0.001"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
FREE = actuon.ActuatorConfig(actuon.PDControlConfig(0.0, 0.0))
"""A motor that gives the commanded efforts alone."""
ZEROS = {"first.csv": 0.06, "second.csv": -0.03, "third.csv": 0.04}


def swinging(name: str) -> Log:
    """A pendulum that efforts of a sine push, with an encoder whose zero is that of `ZEROS`."""
    model = mujoco.MjModel.from_xml_string(PENDULUM)
    model.opt.timestep = 0.0005
    model.dof_damping[0], model.dof_frictionloss[0] = 0.01, 0.05
    data = mujoco.MjData(model)
    time = np.arange(0.0, 4.0, 0.002)
    rate = {"first.csv": 5.0, "second.csv": 7.0, "third.csv": 6.0}[name]
    effort = 0.6 * np.sin(rate * time) * np.sin(0.9 * time)
    shown = []
    for now in effort:
        shown.append(float(data.qpos[0]) + ZEROS[name])
        data.qfrc_applied[:] = now
        mujoco.mj_step(model, data, 4)
    return Log(name, time, (JointLog("hip", np.array(shown), effort_command=effort),))


def test_zeros_of_encoders_are_found_for_each_log_and_those_of_a_new_log_from_its_other_windows(tmp_path: Path) -> None:
    path = tmp_path / "pendulum.xml"
    path.write_text(PENDULUM)
    fix = {"hip": {"delay.delay": 0.0, "transmission.reflected_inertia": 0.004}}

    def plant(*names: str, encoder_offset_per_log: bool = True) -> RobotPlant:
        logs = [swinging(name) for name in names]
        return RobotPlant(
            path, logs, 0.002, window=0.5, usual_model="m1", fix=fix, encoder_offset_per_log=encoder_offset_per_log
        )

    options = SearchOptions(starts=1, population=16, generations=8)
    without = fit_logs(plant=plant("first.csv", "second.csv", encoder_offset_per_log=False), options=options)
    result = fit_logs(plant=plant("first.csv", "second.csv"), options=options)
    assert result.error < 0.2 * without.error
    for name in ("first.csv", "second.csv"):
        assert result.encoder_offsets[name]["hip"] == pytest.approx(ZEROS[name], abs=2e-3)
    found = {p.path: p.value for p in result.joints[0].parameters}
    assert found["friction.dynamic"] == pytest.approx(0.05, rel=0.1)
    assert result.as_dict()["encoder_offsets_mrad"]["first.csv"]["hip"] == pytest.approx(60.0, abs=2.0)
    result.save(tmp_path / "pendulum.yaml")
    applied = apply(tmp_path / "pendulum.yaml", plant("third.csv"))
    assert applied.mean < 3.0 * result.error
    assert applied.as_dict()["encoder_offsets_mrad"]["third.csv"]["hip"] == pytest.approx(40.0, abs=2.0)
    assert apply(tmp_path / "pendulum.yaml", plant("third.csv", encoder_offset_per_log=False)).mean > 3.0 * applied.mean


def test_logs_of_the_same_name_in_two_folders_have_zeros_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "pendulum.xml"
    path.write_text(PENDULUM)
    paths = {"runs/a/log.csv": "first.csv", "runs/b/log.csv": "second.csv"}
    logs = [dataclasses.replace(swinging(name), path=path) for path, name in paths.items()]
    fix = {"hip": {"delay.delay": 0.0, "transmission.reflected_inertia": 0.004}}
    plant = RobotPlant(path, logs, 0.002, window=0.5, usual_model="m1", fix=fix, encoder_offset_per_log=True)
    result = fit_logs(plant=plant, options=SearchOptions(starts=1, population=8, generations=4))
    result.save(tmp_path / "pendulum.yaml")
    said = read_yaml(tmp_path / "pendulum.yaml")["fit"]
    assert said["logs"] == ["a/log.csv", "b/log.csv"]
    assert said["encoder_offsets"]["a/log.csv"]["hip"] == pytest.approx(ZEROS["first.csv"], abs=5e-3)
    assert said["encoder_offsets"]["b/log.csv"]["hip"] == pytest.approx(ZEROS["second.csv"], abs=5e-3)
    twins = RobotPlant(path, [dataclasses.replace(log, path="log") for log in logs], 0.002, window=2.0)
    assert twins.parts("log").names == ("log", "log (2)")
    np.testing.assert_array_equal(twins.parts("log").of_run, [0, 0, 1, 1])


@pytest.mark.parametrize("encoder_offset_per_log", [False, True])
def test_actuators_that_diverge_are_told_without_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], encoder_offset_per_log: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pendulum.xml").write_text(PENDULUM)
    actuator = actuon.ActuatorConfig(actuon.PDControlConfig(1e9, 1e7, const_effort=1e9))
    actuon.save_actuators("mad.yaml", [actuon.ActuatorEntry("hip", "hip", actuator)])
    plant = RobotPlant(
        "pendulum.xml", [swinging("first.csv")], 0.002, window=0.5, encoder_offset_per_log=encoder_offset_per_log
    )
    applied = apply("mad.yaml", plant)
    assert np.isinf(applied.errors).all()
    said = applied.as_dict()
    assert said["mae_mrad"] == {"mean": None, "joints": {"hip": None}, "logs": {"first.csv": None}}
    assert said["warnings"] == ["first.csv: the simulation diverges with these actuators"]
    assert capfd.readouterr().err == ""
    assert not Path("MUJOCO_LOG.TXT").exists()


def test_a_zero_that_is_too_far_off_is_told(tmp_path: Path) -> None:
    (tmp_path / "pendulum.xml").write_text(PENDULUM)
    log = swinging("first.csv")
    joint = dataclasses.replace(log.joints[0], position=log.joints[0].position + 1.0)
    actuon.save_actuators(tmp_path / "a.yaml", [actuon.ActuatorEntry("hip", "hip", FREE)])
    logs = [dataclasses.replace(log, joints=(joint,))]
    plant = RobotPlant(tmp_path / "pendulum.xml", logs, 0.002, window=0.5, encoder_offset_per_log=True)
    (warning,) = apply(tmp_path / "a.yaml", plant).warnings
    assert warning.startswith(
        "first.csv: the encoder offset of hip is 0.3, at the end of the searched range, ±0.3: state the"
    )


def test_a_plant_that_was_sent_elsewhere_keeps_its_runs(arm: Path) -> None:
    plant = RobotPlant(arm, [recorded(1, 1.0), recorded(2, 1.0)], window=0.5, encoder_offset_per_log=True)
    some = plant.subset([1, 2])
    sent = pickle.loads(pickle.dumps(some))
    assert [run.time[0] for run in sent.runs] == [run.time[0] for run in some.runs]
    np.testing.assert_array_equal(sent.parts("log").of_run, [0, 1])
    assert sent.log_parameters == some.log_parameters


def test_a_robot_is_named_by_its_file_or_by_the_yaml_next_to_it(arm: Path) -> None:
    actuon.save_actuators(arm.with_name("actuon.yaml"), [actuon.ActuatorEntry("all", ".*", FREE)])
    plants = [RobotPlant(path, [recorded(1, 0.5)]) for path in (arm, arm.with_name("actuon.yaml"))]
    assert plants[0].facts() == plants[1].facts()
    for name, said in (
        ("ak80-9", "'ak80-9' is a motor of the catalogue; must be a robot's file"),
        ("ak80-8", "nor a motor; .*Did you mean"),
    ):
        with pytest.raises(actuon.RobotFileError, match=said):
            RobotPlant(name, [recorded(1, 0.5)])
