# SPDX-License-Identifier: Apache-2.0
"""Where real robots diverge: gains are raised and lowered until their simulation just does not.

Run it to print the table of ``docs/measured/stability.md``: ``python -m tests.support.limits_found``.
"""

from __future__ import annotations

import contextlib
import sys

import mujoco
import numpy as np

import actuon
from actuon import Articulation, ArticulationActuators, MujocoSimulation
from actuon.stability.limits import POSES, stability_of
from tests.support.paths import ASSETS, PUBLIC, ROBOTS

SECONDS = 1.5
KICKS = {"start": 0.2, "worst": 0.005}
"""How far targets are off at the start [rad or m]: more than dry friction holds, or so little that the pose stays."""


def model_of(name, integrator="EULER", pose="start", dt=None):
    """A shipped or public robot with an integrator and a time step of choice, without gravity, which moves it to other
    poses, and without limits of efforts; for the worst pose without stops and dry friction, too."""
    shipped = ASSETS / f"{name}.xml"
    model = mujoco.MjModel.from_xml_path(str(shipped if shipped.is_file() else PUBLIC / f"{name}.xml"))
    model.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator}")
    model.opt.timestep = dt or model.opt.timestep
    model.opt.gravity[:] = 0.0
    model.jnt_actfrclimited[:] = False
    if pose == "worst":
        model.dof_frictionloss[:] = 0.0
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    return model


def gains_of(robots):
    """kp and kd by DOF: the model's own where it has servos, else such that the largest effort is for 0.3 rad."""
    kp, kd = (values.numpy()[0].astype(float) for values in robots.get_dof_gains())
    limits = robots.get_dof_max_efforts().numpy()[0]
    maps = robots.simulation.engine.step_maps(robots.simulation.robots[0], robots.simulation.dt)
    inertia = maps.at(robots.get_dof_positions().numpy()[0]).inertia
    columns = np.flatnonzero((kp > 0.0) | np.isfinite(limits))
    kp = np.where(kp > 0.0, kp, np.where(np.isfinite(limits), limits / 0.3, 0.0))
    kd = np.where(kd > 0.0, kd, 2.0 * np.sqrt(kp * inertia))
    return {robots.dof_names[i]: (kp[i], kd[i]) for i in columns}


@contextlib.contextmanager
def driven(simulation, gains, factor=1.0, **chain):
    """Actuators with these gains times a factor, on the first robot, high above any floor."""
    robots = Articulation(simulation.robots[0].path, simulation)
    if not simulation.robots[0].is_fixed_base:
        poses = robots.get_root_poses().numpy()
        poses[:, 2] += 50.0
        robots.set_root_poses(poses)
    pairs = [
        (actuon.ActuatorConfig(actuon.PDControlConfig(factor * kp, factor * kd), **chain), name)
        for name, (kp, kd) in gains.items()
    ]
    with ArticulationActuators.from_actuators(robots.paths, pairs, simulation=simulation) as actuators:
        yield actuators


def diverges(model, gains, factor, positions, kick, chain):
    """Whether a robot that is told to move a little does not come to rest: it speeds up, or swings at its stops."""
    with MujocoSimulation(model) as simulation, driven(simulation, gains, factor, **chain) as actuators:
        robots, columns = actuators.articulation, actuators.actuated_dof_indices
        robots.set_dof_positions(positions)
        lower, upper = (side.numpy()[0] for side in robots.get_dof_limits())
        kicks = kick * np.random.default_rng(1).uniform(-1.0, 1.0, len(positions))
        robots.set_dof_position_targets(np.clip(positions + kicks, lower, upper)[columns], dof_indices=columns)
        speeds = np.zeros(4)
        steps = round(SECONDS / simulation.dt)
        try:
            for step in range(steps):
                simulation.step()
                speed = np.abs(robots.get_dof_velocities().numpy()[0, columns]).max()
                speeds[4 * step // steps] = max(speeds[4 * step // steps], speed)
        except actuon.SimulationError:
            return True
        return speeds[3] > 0.5 * speeds[0]


def found_by_predicted(model, chain=None, pose="start", rounds=6):
    """The largest factor on the gains with which a robot does not diverge, by the one that is predicted, and the usage.

    Args:
        model: The robot.
        chain: Stages beside the PD controller.
        pose: ``"start"``, or ``"worst"`` of all.
        rounds: How often the interval of the factor is halved.
    """
    chain = chain or {}
    with MujocoSimulation(model) as simulation:
        gains = gains_of(Articulation(simulation.robots[0].path))
        with driven(simulation, gains, **chain) as actuators:
            result = stability_of(actuators.articulation, actuators.actuators, poses=0 if pose == "start" else POSES)
    low, high = 0.5, 2.0
    for _ in range(rounds):
        middle = (low * high) ** 0.5
        if diverges(model, gains, middle / result.usage, result.worst_pose, KICKS[pose], chain):
            high = middle
        else:
            low = middle
    return (low * high) ** 0.5, result.usage


def late(model, steps):
    """A chain whose controller sees positions and velocities some steps late."""
    dt = model.opt.timestep
    return {"sensors": [actuon.DelaySensorConfig(delay=steps * dt, shortest_dt=dt)]}


CHAINS = {
    "no delay": lambda model: {},
    "1 step of delay": lambda model: late(model, 1),
    "3 steps of delay": lambda model: late(model, 3),
    "every 4th step": lambda model: {"control_every": 4},
}


def main(names):
    actuon.quiet()
    mujoco.set_mju_user_warning(lambda message: None)
    print("| robot | dt [ms] | integrator | pose | usage [%] |", " | ".join(CHAINS), "|")
    print("|---" * (5 + len(CHAINS)) + "|")
    for name in names:
        for integrator in ("EULER", "IMPLICITFAST"):
            for pose in KICKS:
                model = model_of(name, integrator, pose)
                found = [found_by_predicted(model, chain(model), pose) for chain in CHAINS.values()]
                cells = [name, f"{1e3 * model.opt.timestep:g}", integrator.lower(), pose, f"{100.0 * found[0][1]:.4g}"]
                print("|", " | ".join([*cells, *(f"{ratio:.2f}" for ratio, _ in found)]), "|", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ("arm", "quadruped", *ROBOTS))
