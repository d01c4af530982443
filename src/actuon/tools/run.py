# SPDX-License-Identifier: Apache-2.0
"""Moves a robot twice, with the motors of its file and with ideal ones, and shows the difference.

A quadruped lies down, stands up, squats and is pushed. Any other robot swings all its joints.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from actuon.articulation_actuators import ArticulationActuators
from actuon.errors import RobotFileError
from actuon.recorder import Recorder
from actuon.sim import MujocoSimulation, NewtonSimulation, Simulation
from actuon.spec.actuator_config import ActuatorConfig

ENGINES = ("mujoco", "newton")
FORMATS = {"mujoco": (".xml", ".urdf", ".mjb"), "newton": (".usda", ".usd", ".usdc", ".usdz")}
PUSH = (0.0, 80.0, 0.0)
"""Force on the quadruped's trunk [N], for `PUSH_SECONDS`."""
PUSH_SECONDS = 0.12
PUSH_TIME = 4.5
"""When [s]."""

Targets = Callable[[float], np.ndarray]


@dataclasses.dataclass
class Run:
    """One run of a robot, recorded."""

    title: str
    data: dict[str, np.ndarray]
    dof_names: list[str]
    actuators: dict[str, ActuatorConfig]
    """Of each DOF that has one, as its file says."""
    heights: np.ndarray
    """Of the root bodies over time [m], shape (T, N)."""
    upright: np.ndarray
    """Cosine of their tilt, shape (T, N)."""


def engine_for(robot: Path, engine: str | None) -> tuple[str, Path]:
    """The engine, and the file of the robot that it reads: the one given, or the one of the same name beside it."""
    natural = next((name for name, endings in FORMATS.items() if robot.suffix in endings), None)
    if natural is None:
        known = ", ".join(ending for endings in FORMATS.values() for ending in endings)
        raise RobotFileError(f"'{robot}' has the format '{robot.suffix}'; must be one of {known}")
    engine = engine or natural
    if engine not in ENGINES:
        raise RobotFileError(f"engine: got '{engine}'; must be one of {', '.join(ENGINES)}")
    if not robot.is_file():
        raise RobotFileError(f"'{robot}' does not exist")
    candidates = [robot] if engine == natural else [robot.with_suffix(ending) for ending in FORMATS[engine]]
    for path in candidates:
        if path.is_file():
            return engine, path
    raise RobotFileError(f"'{robot}' cannot be read by {engine}, and there is no {candidates[0].name} beside it")


def make_simulation(engine: str, path: Path, num_envs: int) -> Simulation:
    """The robot in its engine."""
    return MujocoSimulation(path, num_envs) if engine == "mujoco" else NewtonSimulation(path, num_envs)


def choreography(dof_names: list[str], home: np.ndarray) -> Targets:
    """Targets over time, shape (D,): for a quadruped lie, stand, squat twice; for others a swing of each joint."""
    if not is_quadruped(dof_names):
        phase = np.arange(len(dof_names)) * 0.7
        return lambda time: home + 0.5 * np.sin(2 * np.pi * time + phase) * min(1.0, time)
    # A knee bends twice as far as a hip, which keeps the feet below the hips.
    fold = np.array([0.29 if "thigh" in name else -0.58 if "calf" in name else 0.0 for name in dof_names])
    # Down slowly, up within three hundredths of a second, as a policy would command it; twice. Then it stands.
    times = np.array([0.0, 0.9, 1.3, 1.33, 2.4, 3.0, 3.3, 3.33])
    depth = np.array([0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0])

    def targets(time: float) -> np.ndarray:
        return home + fold * np.interp(time, times, depth)

    return targets


def is_quadruped(dof_names: list[str]) -> bool:
    return sum("calf" in name for name in dof_names) == 4


def without_limits(actuator: ActuatorConfig) -> ActuatorConfig:
    """The same controller, at once and with any effort."""
    return ActuatorConfig(actuator.controller)


def simulate(
    engine: str,
    path: Path,
    seconds: float,
    num_envs: int,
    ideal: bool,
    tick: Callable[[float], None] | None = None,
    allow_torch: bool = False,
) -> tuple[Run, Recorder]:
    """Move the robot, and record it.

    Args:
        engine: Of `ENGINES`.
        path: The robot.
        seconds: How long [s].
        num_envs: How many copies.
        ideal: Take the limits and the delay off.
        tick: Told the share that is done, now and then.
        allow_torch: Trust ``.pt`` and ``.pt2`` networks that the robot's file names.
    """
    with make_simulation(engine, path, num_envs) as simulation:
        first = simulation.robots[0].source_path
        paths = [robot.path for robot in simulation.robots if robot.source_path == first]
        actuators = ArticulationActuators(paths, simulation=simulation, allow_unsafe_torch_checkpoints=allow_torch)
        configs = actuators.configs
        if ideal:
            actuators.close()
            pairs = [(without_limits(config), name) for name, config in configs.items()]
            actuators = ArticulationActuators.from_actuators(paths, pairs, simulation=simulation)
        robots = actuators.articulation
        targets = choreography(robots.dof_names, robots.get_dof_positions().numpy()[0])
        steps = max(1, round(seconds / simulation.dt))
        push = range(round(PUSH_TIME / simulation.dt), round((PUSH_TIME + PUSH_SECONDS) / simulation.dt))
        poses = []
        with Recorder(actuators) as recorder:
            for step in range(steps):
                robots.set_dof_position_targets(targets(simulation.time))
                if is_quadruped(robots.dof_names) and step in (push.start, push.stop):
                    robots.push(PUSH if step == push.start else (0.0, 0.0, 0.0))
                simulation.step()
                poses.append(robots.get_root_poses().numpy())
                if tick is not None and step % 25 == 0:
                    tick(step / steps)
        actuators.close()
    pose = np.array(poses)
    upright = 1.0 - 2.0 * (pose[..., 3] ** 2 + pose[..., 4] ** 2)
    title = "ideal PD" if ideal else "real motor"
    return Run(title, recorder.data, robots.dof_names, configs, pose[..., 2], upright), recorder


def summary(run: Run) -> list[tuple[str, float, float, float]]:
    """For each DOF: tracking error, RMS [rad or m]; peak effort [N·m or N]; share of time at a limit."""
    error = np.sqrt(np.mean((run.data["position_target"] - run.data["position"]) ** 2, axis=(0, 1)))
    peak = np.abs(run.data["applied_effort"]).max(axis=(0, 1))
    clipped = run.data["clipped"].mean(axis=(0, 1))
    rows = zip(run.dof_names, error, peak, clipped, strict=True)
    return [(name, float(e), float(p), float(c)) for name, e, p, c in rows]
