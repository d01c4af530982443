# SPDX-License-Identifier: Apache-2.0
"""The Gymnasium environment with several kinds of motors, beside the same motion with the same efforts given."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import actuon
from actuon import assets

from .gate import Gate, require_agreement
from .given import Recording, Replay, engine_states, record
from .networks import softsign_mlp
from .runner import Table, best_steps, grouped, progress

SIZES = {256: 1.0, 1024: 2.0}
"""Numbers of robots, and how long each is measured, as a multiple of the seconds that were asked for."""
GAINS = {"quadruped": (60.0, 1.5)}
"""Gains of the model's own servos [N·m/rad, N·m·s/rad], which ideal motors and the network have here too."""
STEPS = 6
"""Steps from a reset on, of which the first is not timed: it finds the caches as another contender left them."""
AIM = 1.03
"""At most so many times as long as with the same efforts given."""
_FAINT = 1e-9
"""Factor on the efforts in a network, so small that its activations pass them on as they are."""


class Motors(NamedTuple):
    """Motors of a row."""

    motors: Any
    """Motors of the environment."""
    attach: Callable[[Any, float, float], Any] | None = None
    """Attaches more to an environment, with these gains."""
    actions: float = 0.2
    """Largest action. With the default no robot falls, and few efforts come to a limit."""
    moves_as_servos: bool = False
    changes_friction: bool = False
    is_implicit: bool = False
    """Whether MuJoCo takes steps again in which efforts came to a limit."""
    aim: float | None = AIM


class Walker:
    """An environment that gets random actions.

    Args:
        label: What its motors are called.
        env: The environment.
        actions: Largest action.
        attached: What drives its robots, beside its own motors; is kept.
    """

    def __init__(self, label: str, env: Any, actions: float, attached: Any = None):
        self.label, self.env, self._attached = label, env, attached
        shape = (STEPS, env.num_envs, 12)
        self._actions = actions * np.random.default_rng(1).uniform(-1.0, 1.0, shape).astype(np.float32)
        self.observations, self.rewards = np.zeros((env.num_envs, 50), np.float32), np.zeros(env.num_envs, np.float32)
        self._at = 0

    def prepare(self, at: int) -> None:
        if at == 0:
            self.env.reset(seed=0)
        self._at = at

    def step(self) -> None:
        self.observations, self.rewards, *_ = self.env.step(self._actions[self._at])

    def states(self, recording: Recording) -> np.ndarray:
        """Return the states of the engine, shape (N, W)."""
        return engine_states(self.env.simulation, recording.model)


class Given(Walker):
    """The environment of a walker, in which MuJoCo replays the walker's inputs.

    Args:
        walker: The walker, whose environment it takes over.
        kind: Its motors.
    """

    def __init__(self, walker: Walker, kind: Motors):
        super().__init__(f"{walker.label}, given", walker.env, kind.actions, walker)
        self.recording = record(walker, STEPS, kind.changes_friction)
        self.retaken = self.recording.retaken if kind.is_implicit else 0.0
        self.aim = "" if kind.aim is None else f"{kind.aim * (1.0 + self.retaken):.3f}"
        self.env.simulation = self.replay = Replay(self.env.simulation, self.recording)

    def prepare(self, at: int) -> None:
        super().prepare(at)
        self.replay.prepare(at)

    def states(self, recording: Recording) -> np.ndarray:
        return self.replay.batch.state.copy()


def with_pd_in_numpy(env: Any, kp: float, kd: float) -> Any:
    """Drive robots by a PD controller as one writes it by hand: before each step of physics, in NumPy."""
    robots = env.robots
    robots.set_dof_gains(0.0, 0.0)

    def push(simulation: Any, dt: float) -> None:
        error = robots.get_dof_position_targets().numpy() - robots.get_dof_positions().numpy()
        robots.set_dof_efforts(kp * error - kd * robots.get_dof_velocities().numpy())

    return env.simulation.subscribe(actuon.Event.PRE_STEP, push)


def with_groups(env: Any, kp: float, kd: float) -> Any:
    """Drive robots by two groups with the limits of the quadruped's real motors."""
    from actuon.lab import ActuatorGroups, DCMotorCfg

    def group(joints: list[str], effort: float, velocity: float) -> DCMotorCfg:
        limits = {"saturation_effort": effort, "effort_limit": effort, "velocity_limit": velocity}
        return DCMotorCfg(joints, stiffness=kp, damping=kd, **limits)  # type: ignore[arg-type]

    upper, calves = group([".*_hip_joint", ".*_thigh_joint"], 23.7, 30.1), group([".*_calf_joint"], 35.55, 20.07)
    return ActuatorGroups(env.robots, {"hips and thighs": upper, "calves": calves})


def pd_network(path: Path, kp: float, kd: float) -> None:
    """Save a network of the usual size that acts as the PD: one neuron per layer passes its effort on, scaled down."""
    import torch

    module = softsign_mlp()
    linear = [layer for layer in module if isinstance(layer, torch.nn.Linear)]
    with torch.no_grad():
        for layer in linear:
            layer.weight[0], layer.bias[0] = 0.0, 0.0
        linear[0].weight[0, 0], linear[0].weight[0, 3] = _FAINT * kp, -_FAINT * kd
        for layer in linear[1:]:
            layer.weight[0, 0] = 1.0
        linear[-1].weight[0, 0] = 1.0 / _FAINT
    actuon.save_network(module, path)


def implicit_motors(path: Path) -> None:
    """Save the quadruped's real motors with implicit efforts."""
    text = assets.quadruped_yaml.read_text(encoding="utf-8")
    path.write_text(text.replace("    joints:", "    effort_mode: implicit\n    joints:"), encoding="utf-8")


def all_motors(kp: float, kd: float, folder: Path) -> dict[str, Motors]:
    """Return the motors of all rows. Their files are written into a folder, which they need until they are built."""
    pd_network(folder / "network.safetensors", kp, kd)
    implicit_motors(folder / "implicit.yaml")
    pd, late = actuon.PDControlConfig(kp, kd), actuon.DelayConfig(2)
    line = [actuon.DCMotorClampingConfig(23.7, 30.1, 23.7), actuon.MaxEffortClampingConfig(23.7)]
    battery = actuon.BatteryClampingConfig(full_voltage=28.8, inner_resistance=0.05, capacity=54_000.0)
    winding = actuon.VoltageClampingConfig(torque_constant=0.957, resistance=1.163)  # 23.7 N·m, 30.1 rad/s at 28.8 V
    friction = actuon.FrictionEffectConfig(dynamic=0.2, viscous=0.1, load_motor=0.05, load_external=0.05)
    rubbing = actuon.ActuatorConfig(pd, line, late, effects=[friction])
    network = actuon.NeuralControlConfig(str(folder / "network.safetensors"))
    return {
        "MuJoCo's own servos": Motors("servo", moves_as_servos=True, aim=None),
        "PD written in NumPy": Motors("servo", with_pd_in_numpy, moves_as_servos=True, aim=None),
        "ideal motors": Motors(actuon.ActuatorConfig(pd), moves_as_servos=True),
        "real motors": Motors("real"),
        "groups": Motors("servo", with_groups),
        "a battery": Motors(actuon.ActuatorConfig(pd, [battery, winding], late)),
        "load-dependent friction": Motors(rubbing, changes_friction=True),
        "implicit motors": Motors(folder / "implicit.yaml", is_implicit=True),
        "implicit motors, at limits": Motors(folder / "implicit.yaml", actions=0.7, is_implicit=True),
        "a network, 6-32-32-32-1": Motors(actuon.ActuatorConfig(network), moves_as_servos=True, aim=1.09),
    }


def contenders(robot: str, num_envs: int) -> list[Walker]:
    """Build walkers, each followed by the same with efforts given, which must move as it does, to the last bit.

    Those with the gains of the servos must move as these do. Where motors change the friction of joints at each step,
    MuJoCo is given that of the first of five when times are measured; robots then move nearly as before.
    """
    from actuon.gym import QuadrupedEnv

    gains, where = GAINS[robot], f"environments, {robot}, {num_envs} environments"
    found: list[Walker] = []
    as_servos: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as folder:
        for label, kind in all_motors(*gains, Path(folder)).items():
            envs = [QuadrupedEnv(num_envs, kind.motors) for _ in range(2)]
            attached = [kind.attach and kind.attach(env, *gains) for env in envs]
            own, other = (Walker(label, env, kind.actions, its) for env, its in zip(envs, attached, strict=True))
            given = Given(other, kind)
            _require_same_motion(where, own, given)
            if kind.changes_friction:
                given.replay.holds_friction = True
                _require_same_motion(where, own, given, 0.2)
            found += [own, given]
            if kind.moves_as_servos:
                as_servos[label] = own.observations
    require_agreement(f"{where}, observations after {STEPS} steps", as_servos, rtol=1e-5, atol=1e-4)
    return found


def _require_same_motion(where: str, own: Walker, given: Given, tolerance: float = 0.0) -> None:
    """Let both take all steps, after each of which observations and rewards must agree, and at the end all state."""
    for step in range(STEPS):
        seen = {}
        for walker in (given, own):
            walker.prepare(step)
            walker.step()
            seen[walker.label] = np.concatenate([walker.observations, walker.rewards[:, None]], axis=1)
        require_agreement(f"{where}, step {step}", seen, atol=tolerance)
    if not tolerance:
        states = {walker.label: walker.states(given.recording) for walker in (given, own)}
        require_agreement(f"{where}, states after {STEPS} steps", states)


GATE = Gate(GAINS, contenders, smallest=12)


def measure_environments(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for robot, (num_envs, share) in product(GAINS, SIZES.items()):
        progress(f"{num_envs} robots in the Gymnasium environment")
        everyone = contenders(robot, num_envs)
        clocks = (time.perf_counter, time.process_time)
        times = best_steps(everyone, STEPS, share * seconds, clocks)[:, 1:].mean(axis=1)
        for own, given in zip(everyone[::2], everyone[1::2], strict=True):
            assert isinstance(given, Given)
            mine, theirs = times[everyone.index(own)], times[everyone.index(given)]
            ratios = [f"{ratio:.3f}" for ratio in (*mine / theirs, mine[0] / times[0, 0])]
            cells = [grouped(round(num_envs / mine[0])), f"{mine[0] * 1e3:.2f}", f"{theirs[0] * 1e3:.2f}", *ratios]
            rows.append((grouped(num_envs), own.label, *cells, f"{given.retaken:.3f}", given.aim))
            own.env.close()
            given.env.close()
    header = ("robots", "motors", "steps/s", "ms", "given, ms", "÷ given", "÷ given, CPU", "÷ servos")
    title = (
        "The Gymnasium environment: steps of 20 ms, five of physics, with observations and rewards; the best of each "
        "step.\nGiven: the same motion, MuJoCo told the same efforts."
    )
    return [Table(title, (*header, "steps retaken", "at most"), rows)]
