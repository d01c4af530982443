# SPDX-License-Identifier: Apache-2.0
"""Simulate a robot with its real motors or with ideal ones, and summarise the run. The motion is in `motion`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from actuon.actuator.config import ActuatorConfig
from actuon.attach.articulation_actuators import ArticulationActuators, idle_warning
from actuon.attach.recorder import Recorder
from actuon.declare.config import Config
from actuon.declare.registry import by_config
from actuon.errors import ActuonError, RobotFileError, SimulationError
from actuon.inspect.own_drives import read_own_drives
from actuon.inspect.starting_yaml import grouped, why_no_entries
from actuon.robot_source import RobotSource
from actuon.sim import Articulation, MujocoSimulation, NewtonSimulation
from actuon.sim.mujoco import mute_mujoco_warnings
from actuon.stability.advice import low_gains, summary_line, why_diverged, without_warnings
from actuon.stability.limits import RobotStability
from actuon.stability.report import stability_on

from .film import Film
from .motion import SLIDE, SWING, Joint, Phase, choreography

MOST_STEPS = 10_000_000
CHATTERS, SATURATED = 0.1, 0.5
"""Fraction of time at a limit above which an unstable joint chatters, and above which any joint is saturated."""
FALLEN = 60.0
"""Tilt of the base at the end, in addition to that at the start, above which a robot has fallen [°]."""
_SHOWN = 4
"""Most joints to name in one line."""


@dataclass
class Run:
    """One run of a robot, recorded."""

    title: str
    data: dict[str, np.ndarray]
    """Series of `Recorder.data`; empty if the first step failed."""
    joints: list[Joint]
    actuators: dict[str, ActuatorConfig]
    """Actuators of the file, by DOF."""
    heights: np.ndarray
    """Heights of the root bodies over time [m], shape (T, N)."""
    upright: np.ndarray
    """Cosine of the tilt of the root bodies, shape (T, N)."""
    is_fixed_base: bool
    end: float
    """Time of the end [s]."""
    problem: str | None
    """Reason for an early end; None if there was none."""
    phases: tuple[Phase, ...]
    """Phases of the motion, up to the end."""
    film: Film | None
    """Frames to render; None if the engine is not MuJoCo."""
    stability: RobotStability | None = None
    """Stability of the actuators; None if it could not be computed."""


@dataclass(frozen=True)
class JointSummary:
    """Summary of a joint in a run."""

    error: float
    """Tracking error, RMS [rad or m]."""
    peak: float
    """Peak effort [N·m or N]."""
    clipped: float
    """Fraction of time at a limit of the motor."""
    at_stop: float
    """Fraction of time at a stop."""


def joints_of(actuators: ArticulationActuators) -> list[Joint]:
    """Return the joints of the first robot."""
    robots = actuators.articulation
    lower, upper = (side.numpy()[0] for side in robots.get_dof_limits())
    stiffness = robots.get_dof_gains()[0].numpy()[0]
    silent = robots.simulation.engine.drives.are_silent(robots.at)[0]
    joints = []
    for i, name in enumerate(robots.dof_names):
        driven_by = "actuator" if name in actuators.configs else "nothing" if silent[i] else "engine drive"
        follows = driven_by == "actuator" or bool(not silent[i] and stiffness[i] > 0.0)
        slides = robots.robots[0].slides[i]
        joints.append(Joint(name, slides, float(lower[i]), float(upper[i]), driven_by, follows))
    return joints


def simulate(
    source: RobotSource,
    seconds: float,
    num_envs: int = 1,
    ideal: bool = False,
    *,
    engine: str | None = None,
    tick: Callable[[float], None] | None = None,
    tell: Callable[[str], None] | None = None,
) -> tuple[Run, Recorder]:
    """Simulate and record a robot, until the end or until it diverges.

    Args:
        source: The robot and its motors.
        seconds: Duration [s].
        num_envs: Number of copies.
        ideal: Remove limits and delay, on joints with the same friction and armature.
        engine: ``"mujoco"`` or ``"newton"``. Default: the one that reads the file.
        tick: Called with the completed fraction from time to time.
        tell: Called before the first step with lines about integration, stability and stages.
    """
    title = "ideal motors" if ideal else "real motors"
    engine, source = source.in_engine(engine)
    with mute_mujoco_warnings(), _usd_warnings_as_pythons(engine):
        simulation = source.make(num_envs, engine)
    if isinstance(simulation, NewtonSimulation) and num_envs > 1:
        _mute_overflow(simulation)
    with mute_mujoco_warnings(), simulation:
        first = simulation.robots[0].source_path
        paths = [robot.path for robot in simulation.robots if robot.source_path == first]
        robots = Articulation(paths, simulation)
        configs = _configs(source, robots)
        moving = {name: config.without_limits() if ideal else config for name, config in configs.items()}
        pairs = [(config, name) for name, config in moving.items()]
        with without_warnings():
            actuators = ArticulationActuators.from_actuators(paths, pairs, simulation=simulation)
        stability = _stability(actuators)
        idle = "" if ideal else idle_warning(configs)
        for said in (actuators.mode_text, stability and summary_line(stability), _makeup(moving), idle):
            if tell is not None and said:
                tell(f"{title}: {said}")
        joints = joints_of(actuators)
        motion = choreography(joints, robots.get_dof_positions().numpy()[0])
        if seconds / simulation.dt > MOST_STEPS:
            most = f"must be at most {MOST_STEPS}, so {MOST_STEPS * simulation.dt:g} s"
            raise SimulationError(f"{seconds:g} s in steps of {simulation.dt:g} s are too many steps; {most}")
        steps = max(1, round(seconds / simulation.dt))
        film = Film.of(simulation) if isinstance(simulation, MujocoSimulation) else None
        force = motion.force(0.0)
        poses = []
        problem = None
        with Recorder(actuators) as recorder:
            try:
                for step in range(steps):
                    robots.set_dof_position_targets(motion.targets(simulation.time))
                    if motion.force(simulation.time) != force:
                        force = motion.force(simulation.time)
                        robots.push(force)
                    simulation.step()
                    if film is not None and isinstance(simulation, MujocoSimulation):
                        film.shoot(simulation)
                    poses.append(robots.get_root_poses().numpy())
                    if tick is not None and step % 25 == 0:
                        tick(step / steps)
            except SimulationError as error:
                problem = str(error)
                if stability is not None and error.joint is not None:
                    problem += f"; {why_diverged(stability, error.joint)}"
        end = simulation.time
        actuators.close()
    pose = np.reshape(poses, (-1, len(robots), 7))
    upright = 1.0 - 2.0 * (pose[..., 3] ** 2 + pose[..., 4] ** 2)
    fixed = robots.robots[0].is_fixed_base
    phases = tuple(replace(phase, end=min(phase.end, end)) for phase in motion.phases if phase.start < end)
    run = Run(
        title,
        recorder.data,
        joints,
        configs,
        pose[..., 2],
        upright,
        fixed,
        end,
        problem,
        phases,
        film if film is not None and film.times else None,
        stability,
    )
    return run, recorder


def _mute_overflow(simulation: NewtonSimulation) -> None:
    """Suppress warnings of MuJoCo Warp about iterations that run out: a divergence raises an error."""
    _, engine_of_many = simulation.solver.import_mujoco()
    simulation.solver.mjw_model.opt.warn_overflow &= ~engine_of_many.OverflowType.ITERATIONS


def _configs(source: RobotSource, robots: Articulation) -> dict[str, ActuatorConfig]:
    """Return the actuators of a robot. The error says if the robot has no joint for one."""
    try:
        return source.configs(robots)
    except RobotFileError as error:
        if source.path is not None and source.yaml is None and not source.has_prims():
            own = read_own_drives(source.path)
            if not grouped(own):
                raise RobotFileError(why_no_entries(source.path, own)) from error
        raise


def _stability(actuators: ArticulationActuators) -> RobotStability | None:
    """Return the stability of actuators; None if it cannot be computed."""
    try:
        found = stability_on(actuators)
    except ActuonError:
        return None
    return found if found.joints else None


def _makeup(configs: Mapping[str, ActuatorConfig]) -> str:
    """Describe the stages of joints' actuators, and the source of the joints' friction."""
    stages = dict.fromkeys(
        by_config(part).type_name for config in configs.values() for part in config.stages if isinstance(part, Config)
    )
    rubbing = [name for name, config in configs.items() if config.gives_friction]
    source = "from the robot's file"
    if rubbing:
        at = "" if len(rubbing) == len(configs) else f" of {', '.join(rubbing)}"
        source = f"from the actuators{at}, instead of the robot's file"
    return f"stages {', '.join(stages)}; joint friction and damping: {source}"


@contextlib.contextmanager
def _usd_warnings_as_pythons(engine: str) -> Iterator[None]:
    """Turn warnings of USD, which would be printed into a progress bar, into warnings of Python."""
    if engine != "newton":
        yield
        return
    from pxr import UsdUtils

    delegate = UsdUtils.CoalescingDiagnosticDelegate()
    try:
        yield
    finally:
        for diagnostic in delegate.TakeUncoalescedDiagnostics():
            warnings.warn(diagnostic.commentary, stacklevel=1)


def saturation(run: Run) -> str | None:
    """Return a message about saturated joints, with advice; None if there are none.

    A joint is saturated if it is at a limit for more than `SATURATED` of the time, or `CHATTERS` if it is unstable.
    """
    usages = {} if run.stability is None else {joint.name: joint.usage for joint in run.stability.joints}
    found = {}
    for name, row in summary(run).items():
        is_unstable = usages.get(name, 0.0) >= 1.0
        if row.clipped > (CHATTERS if is_unstable else SATURATED):
            found[name] = row.clipped, is_unstable
    if not found:
        return None
    worst = sorted(found, key=lambda name: -found[name][0])
    names = ", ".join(f"{name} {100 * found[name][0]:.0f} %" for name in worst[:_SHOWN])
    more = f" and {len(worst) - _SHOWN} more" if len(worst) > _SHOWN else ""
    unstable = [name for name in worst if found[name][1]]
    advice = "raise the limits, lower the gains, or choose a stronger motor"
    if unstable and run.stability is not None:
        advice = why_diverged(run.stability, unstable[0])
    return f"its joints are saturated: at a limit for much of the time ({names}{more}); {advice}"


def lost_targets(run: Run) -> str | None:
    """Return a message about joints with errors larger than the motion of their targets; None without any.

    Without limits an unstable joint may swing further and further, but not diverge within the run. A stable one has
    gains too low for its load.
    """
    if run.stability is None:
        return None
    rows = summary(run)
    spans = np.ptp(run.data["position_target"].astype(np.float64), axis=(0, 1))
    gains = {own.name: own for own in run.stability.joints}
    lost = []
    for joint, span in zip(run.joints, spans, strict=True):
        far = max(float(span), SLIDE if joint.slides else SWING)
        if joint.has_targets and joint.name in gains and rows[joint.name].error > far:
            lost.append(joint)
    if not lost:
        return None
    worst = sorted(lost, key=lambda joint: (gains[joint.name].usage < 1.0, -rows[joint.name].error))
    shown = ", ".join(f"{joint.name} {rows[joint.name].error:.3g} {joint.unit}" for joint in worst[:_SHOWN])
    more = f" and {len(worst) - _SHOWN} more" if len(worst) > _SHOWN else ""
    first = gains[worst[0].name]
    advice = why_diverged(run.stability, first.name) if first.usage >= 1.0 else low_gains(first)
    return f"it does not track its targets: the error is larger than their motion ({shown}{more}, RMS); {advice}"


def fallen(run: Run) -> str | None:
    """Return a message about robots whose base ends tilted by more than `FALLEN`; None without any."""
    if run.is_fixed_base or not len(run.upright):
        return None
    tilts = np.degrees(np.arccos(np.clip(run.upright, -1.0, 1.0)))
    further = tilts[-1] - tilts[0]
    if further.max() <= FALLEN:
        return None
    count = int((further > FALLEN).sum())
    robots = "it has" if len(further) == 1 else f"{count} of {len(further)} robots have"
    rows = summary(run)
    worst = max((joint for joint in run.joints if joint.has_targets), key=lambda joint: rows[joint.name].error)
    known = [] if run.stability is None else run.stability.joints
    advice = next((f"; {low_gains(own)}" for own in known if own.name == worst.name), "")
    return (
        f"{robots} fallen: the base is tilted by {tilts[-1][further.argmax()]:.0f}° at the end. The largest tracking "
        f"error is {rows[worst.name].error:.2g} {worst.unit} RMS, at {worst.name}{advice}. A robot that must balance "
        "needs targets that balance it"
    )


def summary(run: Run) -> dict[str, JointSummary]:
    """Return a summary of each joint, by name."""
    position, target, effort = (
        run.data[name].astype(np.float64) for name in ("position", "position_target", "applied_effort")
    )
    over_time = (0, 1)
    error = np.sqrt(np.mean((target - position) ** 2, axis=over_time))
    peak = np.abs(effort).max(axis=over_time)
    clipped = run.data["clipped"].mean(axis=over_time)
    rows = {}
    for i, joint in enumerate(run.joints):
        span = joint.upper - joint.lower
        near = 1e-3 * span if np.isfinite(span) else 1e-3
        at = (position[..., i] <= joint.lower + near) | (position[..., i] >= joint.upper - near)
        rows[joint.name] = JointSummary(float(error[i]), float(peak[i]), float(clipped[i]), float(at.mean()))
    return rows
