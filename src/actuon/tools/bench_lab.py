# SPDX-License-Identifier: Apache-2.0
"""Actuator groups beside the same maths in eager PyTorch, on the same tensors and through the same call."""

from __future__ import annotations

from typing import Any

import numpy as np

SIZES = ((1, 12), (4096, 12))
"""Environments and joints."""
MOTOR: dict[str, float] = {"effort_limit": 30.0, "saturation_effort": 33.5, "velocity_limit": 21.0}
GAINS = {"stiffness": 40.0, "damping": 1.0}
MAX_DELAY = 5


class TorchDelayedPD:
    """Late PD through a DC motor, as one would write it in PyTorch: a ring per command, one lag per environment."""

    label = "PyTorch"

    def __init__(self, signals: list[Any], lags: Any):
        import torch

        self.torch = torch
        self.q, self.qd, *self.commands = signals
        self.lags, self.depth = lags.long(), MAX_DELAY + 1
        self.rings = [torch.zeros(self.depth, *self.q.shape) for _ in self.commands]
        self.envs = torch.arange(len(self.q))
        self.count = 0
        values = {**GAINS, **MOTOR}
        self.params = {name: torch.full_like(self.q, value) for name, value in values.items()}
        self.effort = self.q

    def step(self) -> None:
        torch, p = self.torch, self.params
        late = []
        at = self.count % self.depth
        read = (at - torch.minimum(self.lags, torch.tensor(self.count))) % self.depth
        for ring, command in zip(self.rings, self.commands, strict=True):
            ring[at] = command
            late.append(ring[read, self.envs])
        self.count += 1
        effort = p["stiffness"] * (late[0] - self.q) + p["damping"] * (late[1] - self.qd) + late[2]
        corner = p["velocity_limit"] * (1.0 + p["effort_limit"] / p["saturation_effort"])
        speed = torch.clip(self.qd, -corner, corner) / p["velocity_limit"]
        high = torch.minimum(p["saturation_effort"] * (1.0 - speed), p["effort_limit"])
        low = torch.maximum(p["saturation_effort"] * (-1.0 - speed), -p["effort_limit"])
        self.effort = torch.clip(effort, low, high)


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
    """Build both and check that they agree over several steps."""
    import torch

    generator = torch.Generator().manual_seed(0)
    scales = (1.0, 8.0, 1.0, 2.0, 3.0)
    signals = [torch.randn(envs, joints, generator=generator) * scale for scale in scales]
    ours = ActuonDelayedPD(signals)
    reference = TorchDelayedPD(signals, ours.model.time_lags)
    for step in range(2 * MAX_DELAY):
        for command in signals[2:]:
            command += 0.1 * torch.randn(envs, joints, generator=generator)
        reference.step()
        ours.step()
        if not np.allclose(ours.effort.numpy(), reference.effort.numpy(), rtol=1e-4, atol=1e-4):
            raise SystemExit(f"the group disagrees with PyTorch at step {step} of {envs} environments: no times")
    return [reference, ours]
