# SPDX-License-Identifier: Apache-2.0
"""Actuator groups beside the same maths in eager PyTorch, on the same tensors and through the same call."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .runner import TIMES_HEADER, Table, grouped, measure, times_faster

SIZES = ((1, 12), (4096, 12))
"""Environments and joints."""
MOTOR: dict[str, float] = {"effort_limit": 30.0, "saturation_effort": 33.5, "velocity_limit": 21.0}
GAINS = {"stiffness": 40.0, "damping": 1.0}
MAX_DELAY = 5


class DelayBuffer:
    """Commands of the last steps in PyTorch, with a lag and a count of steps since the reset for each environment."""

    def __init__(self, shape: tuple[int, int], lags: Any):
        import torch

        self.torch, self.lags = torch, lags.long()
        self.ring = torch.zeros(MAX_DELAY + 1, *shape)
        self.pushes = torch.zeros(shape[0], dtype=torch.long)
        self.envs = torch.arange(shape[0])
        self.newest = -1

    def compute(self, command: Any) -> Any:
        self.newest = (self.newest + 1) % len(self.ring)
        self.ring[self.newest] = command
        late = self.torch.minimum(self.lags, self.pushes)
        self.pushes += 1
        return self.ring[(self.newest - late) % len(self.ring), self.envs]


class TorchDelayedPD:
    """Late PD through a DC motor in PyTorch, with all that the model can: a reset of single environments included."""

    label = "PyTorch"

    def __init__(self, signals: list[Any], lags: Any):
        import torch

        self.torch = torch
        self.q, self.qd, *self.commands = signals
        self.params = {name: torch.full_like(self.q, value) for name, value in {**GAINS, **MOTOR}.items()}
        self.buffers = [DelayBuffer(tuple(self.q.shape), lags) for _ in self.commands]
        self.effort = self.q

    def late(self) -> list[Any]:
        return [buffer.compute(command) for buffer, command in zip(self.buffers, self.commands, strict=True)]

    def step(self) -> None:
        torch, p = self.torch, self.params
        late = self.late()
        self.computed = p["stiffness"] * (late[0] - self.q) + p["damping"] * (late[1] - self.qd) + late[2]
        corner = p["velocity_limit"] * (1.0 + p["effort_limit"] / p["saturation_effort"])
        speed = torch.clip(self.qd, -corner, corner) / p["velocity_limit"]
        high = torch.minimum(p["saturation_effort"] * (1.0 - speed), p["effort_limit"])
        low = torch.maximum(p["saturation_effort"] * (-1.0 - speed), -p["effort_limit"])
        self.effort = torch.clip(self.computed, low, high)


class TorchLean(TorchDelayedPD):
    """The same with one ring for all commands and one count for all environments, which cannot be reset alone."""

    label = "PyTorch, lean"

    def __init__(self, signals: list[Any], lags: Any):
        super().__init__(signals, lags)
        self.lags, self.rings, self.count = lags.long(), [buffer.ring for buffer in self.buffers], 0
        self.envs = self.buffers[0].envs

    def late(self) -> list[Any]:
        at = self.count % (MAX_DELAY + 1)
        read = (at - self.lags.clamp(max=self.count)) % (MAX_DELAY + 1)
        self.count += 1
        late = []
        for ring, command in zip(self.rings, self.commands, strict=True):
            ring[at] = command
            late.append(ring[read, self.envs])
        return late


class ActuonDelayedPD:
    """The group's model, called as a robot-learning environment calls it."""

    label = "Actuon"

    def __init__(self, signals: list[Any]):
        from actuon.lab import DelayedPDActuatorCfg

        values: dict[str, Any] = {**GAINS, **MOTOR, "seed": 0}
        cfg = DelayedPDActuatorCfg(joint_names_expr=[".*"], min_delay=0, max_delay=MAX_DELAY, **values)
        self.q, self.qd, *self.commands = signals
        envs, joints = self.q.shape
        self.model = cfg.class_type(cfg, [f"joint{i}" for i in range(joints)], slice(None), envs, "cpu")

    def step(self) -> None:
        from actuon.lab import ArticulationActions

        self.effort = self.model.compute(ArticulationActions(*self.commands), self.q, self.qd).joint_efforts


def contenders(envs: int, joints: int) -> list[Any]:
    """Build all and check that they agree over several steps."""
    import torch

    generator = torch.Generator().manual_seed(0)
    scales = (1.0, 8.0, 1.0, 2.0, 3.0)
    signals = [torch.randn(envs, joints, generator=generator) * scale for scale in scales]
    ours = ActuonDelayedPD(signals)
    peers = [TorchDelayedPD(signals, ours.model.time_lags), TorchLean(signals, ours.model.time_lags)]
    for step in range(2 * MAX_DELAY):
        for command in signals[2:]:
            command += 0.1 * torch.randn(envs, joints, generator=generator)
        ours.step()
        for peer in peers:
            peer.step()
            if not np.allclose(ours.effort.numpy(), peer.effort.numpy(), rtol=1e-4, atol=1e-4):
                raise SystemExit(
                    f"the group disagrees with {peer.label} at step {step} of {envs} environments: no times"
                )
    return [*peers, ours]


def measure_groups(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for envs, joints in SIZES:
        print(f"  {envs} × {joints} joints in groups …", file=sys.stderr, flush=True)
        everyone = contenders(envs, joints)
        times = measure(everyone, envs * joints, 2 * seconds)
        for contender, own in zip(everyone, times, strict=True):
            faster = (times_faster(peer, own) for peer in times[:2])
            rows.append((f"{grouped(envs)} × {joints}", contender.label, *own.cells(), *faster))
    header = ("environments × joints", "who", *TIMES_HEADER, "faster than PyTorch", "than lean")
    return [Table("DelayedPDActuator with the limits of a DC motor, through compute().", header, rows)]
