# SPDX-License-Identifier: Apache-2.0
"""Train a quadruped to walk with ideal motors, and evaluate it with real ones.

Trains with PPO of rsl-rl on the CPU for ``--minutes``, and evaluates each policy with each kind of motors. Prints a
table; saves policies and a plot to ``--out``.

Run with ``pip install 'actuon[gym,plot]' rsl-rl-lib torch==2.13.0`` and ``python examples/train_quadruped.py``.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

import actuon
from actuon.gym import QuadrupedEnv

NOISE = (0.2, 0.04)
"""Standard deviation of actions at the beginning and at the end. It falls, so that the mean action walks as well."""
CONFIG: dict[str, Any] = {
    "num_steps_per_env": 24,
    "save_interval": 10**9,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {
        "class_name": "MLPModel",
        "hidden_dims": [64, 64],
        "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": NOISE[0], "learn_std": False},
    },
    "critic": {"class_name": "MLPModel", "hidden_dims": [64, 64]},
    "algorithm": {"class_name": "PPO", "entropy_coef": 0.0005},
}
"""Settings like those of mjlab and Isaac Lab for quadrupeds, with smaller networks."""
COMMANDS = ((0.0, 1.0), (0.0, 0.0), (-0.5, 0.5))
"""Forward and sideways velocities [m/s] and yaw rates [rad/s]: narrower than the default, and faster to learn."""


class Trainee(VecEnv):
    """Quadrupeds with the interface of rsl-rl, on tensors."""

    def __init__(self, env: QuadrupedEnv, seed: int):
        self.env = env
        self.num_envs, self.num_actions = env.action_space.shape
        self.max_episode_length = env.max_episode_steps
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.device = "cpu"
        self.cfg: dict[str, Any] = {}
        self._observations, _ = env.reset(seed=seed)
        self.rewards: list[float] = []
        self.tracking: list[float] = []
        self.falls = 0

    def get_observations(self) -> TensorDict:
        return TensorDict({"policy": torch.from_numpy(self._observations)}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        self._observations, rewards, fell, late, _ = self.env.step(actions.numpy())
        self.rewards.append(float(rewards.mean()))
        self.tracking.append(float(np.abs(self.env.velocities - self.env.commands)[:, 0].mean()))
        self.falls += int(fell.sum())
        extras = {"time_outs": torch.from_numpy(late)}
        return self.get_observations(), torch.from_numpy(rewards), torch.from_numpy(fell | late), extras


def train(motors: str, num_envs: int, minutes: float, iterations: int | None, seed: int) -> Any:
    """Train a policy on robots with these motors."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # more do not speed up small networks; physics needs the cores
    env = QuadrupedEnv(num_envs, motors, commands=COMMANDS, autoreset_mode="SameStep")
    trainee = Trainee(env, seed)
    runner = OnPolicyRunner(trainee, {**CONFIG}, device="cpu")
    deviation = runner.alg.get_policy().distribution.std_param
    start, done, share = time.monotonic(), 0, 0.0
    while share < 1.0:
        deviation.data.fill_(NOISE[0] * (NOISE[1] / NOISE[0]) ** share)
        runner.learn(1)
        done += 1
        share = max((time.monotonic() - start) / (60.0 * minutes), done / iterations if iterations else 0.0)
        if done % 10 == 0 or done == iterations:
            took = time.monotonic() - start
            steps = done * CONFIG["num_steps_per_env"] * num_envs
            print(
                f"{motors} motors: iteration {done}, {took / 60.0:.1f} of {minutes:g} min, {steps / 1e6:.2f} M steps, "
                f"{steps / took:.0f}/s: reward {np.mean(trainee.rewards) * 50.0:.2f}/s, error of the forward "
                f"velocity {np.mean(trainee.tracking):.2f} m/s, {trainee.falls} falls",
                flush=True,
            )
            trainee.rewards, trainee.tracking, trainee.falls = [], [], 0
    env.close()
    return runner.get_inference_policy()


@dataclass
class Walk:
    """Recording of an evaluation."""

    learned: str
    """Motors of the training."""
    motors: str
    """Motors of the evaluation."""
    velocity: np.ndarray
    """Forward velocity [m/s], shape (T, N)."""
    standing: np.ndarray
    """Robots that have not fallen yet, shape (T, N)."""
    speed: np.ndarray
    """Joint velocities [rad/s], shape (T, N, 12)."""
    requested: np.ndarray
    """Requested efforts [N·m], shape (T, N, 12)."""
    applied: np.ndarray
    """Applied efforts [N·m], shape (T, N, 12)."""

    @property
    def fell(self) -> float:
        """Share of robots that fell [%]."""
        return 100.0 * (1.0 - float(self.standing[-1].mean()))

    def error(self, command: float) -> float:
        """Return the mean velocity error of standing robots after the first quarter [m/s]."""
        late = slice(len(self.standing) // 4, None)
        errors = np.abs(self.velocity[late] - command)[self.standing[late]]
        return float(errors.mean()) if errors.size else np.nan

    @property
    def power(self) -> float:
        """Mean absolute mechanical power of the joints of a standing robot [W]."""
        return float(np.abs(self.applied * self.speed)[self.standing].sum(axis=1).mean())

    @property
    def largest_request(self) -> float:
        """Largest requested effort [N·m]."""
        return float(np.abs(self.requested[self.standing]).max())

    @property
    def clipped(self) -> float:
        """Share of efforts that differ from the request [%]."""
        return 100.0 * float((np.abs(self.requested - self.applied) > 0.01)[self.standing].mean())


def name_of(motors: str) -> str:
    return Path(motors).stem.replace("_", " ")


def print_table(walks: list[Walk], command: float) -> None:
    """Print a row for each pair of motors, with one number per seed."""
    columns: dict[str, Callable[[Walk], str]] = {
        "fell [%]": lambda each: f"{each.fell:.0f}",
        "velocity error [m/s]": lambda each: f"{each.error(command):.2f}",
        "power [W]": lambda each: f"{each.power:.0f}",
        "largest requested effort [N·m]": lambda each: f"{each.largest_request:.0f}",
        "clipped [%]": lambda each: f"{each.clipped:.1f}",
    }
    print("| learnt on | walks with | " + " | ".join(columns) + " |")
    print("|---" * (2 + len(columns)) + "|")
    for (learned, motors), alike in grouped(walks).items():
        cells = [", ".join(map(cell, alike)) for cell in columns.values()]
        print(f"| {name_of(learned)} | {name_of(motors)} | " + " | ".join(cells) + " |")


def grouped(walks: list[Walk]) -> dict[tuple[str, str], list[Walk]]:
    """Return the walks of all seeds, by motors of training and evaluation."""
    groups: dict[tuple[str, str], list[Walk]] = {}
    for each in walks:
        groups.setdefault((each.learned, each.motors), []).append(each)
    return groups


def walk(policy: Any, learned: str, motors: str, command: float, num_envs: int, seconds: float) -> Walk:
    """Evaluate the mean actions of a policy on robots with these motors, at a forward command [m/s]."""
    options: dict[str, Any] = {"commands": ((command, command), (0.0, 0.0), (0.0, 0.0)), "episode_seconds": 1e6}
    env = QuadrupedEnv(num_envs, motors, autoreset_mode="SameStep", **options)
    observations, _ = env.reset(seed=10**6)
    standing = np.ones(num_envs, dtype=bool)
    steps: list[tuple[np.ndarray, ...]] = []
    for _ in range(round(seconds * 50.0)):
        with torch.inference_mode():
            given = TensorDict({"policy": torch.from_numpy(observations)}, batch_size=[num_envs])
            actions = policy(given).numpy()
        observations, _, fell, _, _ = env.step(actions)
        standing = standing & ~fell
        telemetry = env.telemetry()
        assert telemetry is not None
        speed = env.robots.get_dof_velocities().numpy()
        steps.append((env.velocities[:, 0], standing, speed, telemetry.computed_effort, telemetry.applied_effort))
    env.close()
    return Walk(learned, motors, *(np.array(values) for values in zip(*steps, strict=True)))


def draw(walks: list[Walk], command: float, path: Path) -> None:
    """Draw falls, velocity error and power, with a dot for each seed, and the efforts of the most clipped walk."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 4, figsize=(17.0, 4.5), layout="constrained")
    groups = grouped(walks)
    learned, motors = (list(dict.fromkeys(key[i] for key in groups)) for i in range(2))
    measures: dict[str, Callable[[Walk], float]] = {
        "robots that fell [%]": lambda each: each.fell,
        f"velocity error at {command:g} m/s [m/s]": lambda each: each.error(command),
        "mechanical power [W]": lambda each: each.power,
    }
    width = 0.8 / len(motors)
    for panel, (title, measure) in zip(panels, measures.items(), strict=False):
        for (taught, walked), alike in groups.items():
            at = learned.index(taught) + (motors.index(walked) + 0.5) * width - 0.4
            values = [measure(each) for each in alike]
            name = f"walks with {name_of(walked)}" if taught == learned[0] else None
            panel.bar(at, np.nanmean(values), width, color=f"C{motors.index(walked)}", alpha=0.6, label=name)
            panel.plot([at] * len(values), values, "k.", markersize=4.0)
        panel.set(title=title, xticks=range(len(learned)), xticklabels=[f"learnt on\n{name_of(m)}" for m in learned])
    panels[1].legend(fontsize=8, loc="upper left")
    clipped = max(walks, key=lambda each: float(np.abs(each.requested - each.applied).sum()))
    calves = slice(2, 12, 3)
    for efforts, colour, name in ((clipped.requested, "C3", "requested"), (clipped.applied, "C0", "applied")):
        points = clipped.speed[..., calves].ravel(), efforts[..., calves].ravel()
        panels[3].plot(*points, ".", markersize=1.5, alpha=0.3, color=colour, label=name)
    title = f"calves: learnt on {name_of(clipped.learned)},\nwalks with {name_of(clipped.motors)}"
    panels[3].set(title=title, xlabel="speed [rad/s]", ylabel="effort [N·m]")
    panels[3].legend(fontsize=8, markerscale=8.0)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", nargs="+", default=["ideal"], metavar="MOTORS", help="motors in training")
    parser.add_argument("--walk", nargs="+", default=["ideal", "real"], metavar="MOTORS", help="motors of the walks")
    parser.add_argument("--minutes", type=float, default=25.0, help="duration of each training")
    parser.add_argument("--iterations", type=int, help="largest number for each policy")
    parser.add_argument("--envs", type=int, default=256, help="robots in training")
    parser.add_argument("--robots", type=int, default=64, help="robots in evaluation")
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of the evaluation")
    parser.add_argument("--command", type=float, default=1.0, help="commanded velocity [m/s]")
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="seeds; one policy for each")
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    actuon.quiet()
    options.out.mkdir(parents=True, exist_ok=True)
    walks = []
    for seed, learned in itertools.product(options.seed, options.train):
        policy = train(learned, options.envs, options.minutes, options.iterations, seed)
        torch.save(policy.state_dict(), options.out / f"policy_{Path(learned).stem}_{seed}.pt")
        for motors in options.walk:
            walks.append(walk(policy, learned, motors, options.command, options.robots, options.seconds))
    print(f"{options.robots} robots, {options.seconds:g} s at {options.command:g} m/s:\n")
    print_table(walks, options.command)
    draw(walks, options.command, options.out / "walking.png")
    print(f"\nplot: {options.out / 'walking.png'}")


if __name__ == "__main__":
    main()
