# SPDX-License-Identifier: Apache-2.0
"""Actuator groups beside the same maths in eager PyTorch, on the same tensors and through the same call."""

from __future__ import annotations

from itertools import product
from typing import Any

from .gate import Gate, require_agreement
from .runner import TIMES_HEADER, Stepper, Table, grouped, measure, progress, times_faster

SIZES = (1, 4096)
"""Numbers of environments."""
JOINTS = 12
MAX_DELAY = 5
GROUPS: dict[str, dict[str, float]] = {
    "delayed PD through a DC motor": {
        "stiffness": 40.0,
        "damping": 1.0,
        "effort_limit": 30.0,
        "saturation_effort": 33.5,
        "velocity_limit": 21.0,
    }
}


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

    def __init__(self, group: dict[str, float], signals: list[Any], lags: Any):
        import torch

        self.torch = torch
        self.q, self.qd, *self.commands = signals
        self.params = {name: torch.full_like(self.q, value) for name, value in group.items()}
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
    """Variant with one delay buffer and one count for all environments, which cannot be reset alone."""

    label = "PyTorch, lean"

    def __init__(self, group: dict[str, float], signals: list[Any], lags: Any):
        super().__init__(group, signals, lags)
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

    def __init__(self, group: dict[str, float], signals: list[Any]):
        from actuon.lab import DelayedPDActuatorCfg

        values: dict[str, Any] = {**group, "seed": 0}
        cfg = DelayedPDActuatorCfg(joint_names_expr=[".*"], min_delay=0, max_delay=MAX_DELAY, **values)
        self.q, self.qd, *self.commands = signals
        envs, joints = self.q.shape
        self.model = cfg.class_type(cfg, [f"joint{i}" for i in range(joints)], slice(None), envs, "cpu")

    def step(self) -> None:
        from actuon.lab import ArticulationActions

        self.effort = self.model.compute(ArticulationActions(*self.commands), self.q, self.qd).joint_efforts


def contenders(name: str, envs: int) -> list[Stepper]:
    """Build all, which must agree over several steps."""
    import torch

    generator = torch.Generator().manual_seed(0)
    scales = (1.0, 8.0, 1.0, 2.0, 3.0)
    signals = [torch.randn(envs, JOINTS, generator=generator) * scale for scale in scales]
    ours = ActuonDelayedPD(GROUPS[name], signals)
    peers = [kind(GROUPS[name], signals, ours.model.time_lags) for kind in (TorchDelayedPD, TorchLean)]
    everyone: list[Any] = [*peers, ours]
    for step in range(2 * MAX_DELAY):
        for command in signals[2:]:
            command += 0.1 * torch.randn(envs, JOINTS, generator=generator)
        for contender in everyone:
            contender.step()
        efforts = {contender.label: contender.effort.numpy() for contender in everyone}
        require_agreement(f"groups, {name}, {envs} environments, step {step}", efforts, rtol=1e-4, atol=1e-4)
    return everyone


GATE = Gate(GROUPS, contenders, smallest=1)


def measure_groups(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    for name, envs in product(GROUPS, SIZES):
        progress(f"{envs} × {JOINTS} joints in groups")
        everyone = contenders(name, envs)
        times = measure(everyone, envs * JOINTS, 2 * seconds)
        for contender, own in zip(everyone, times, strict=True):
            faster = (times_faster(peer, own) for peer in times[:2])
            rows.append((f"{grouped(envs)} × {JOINTS}", contender.label, *own.cells(), *faster))
    header = ("environments × joints", "who", *TIMES_HEADER, "faster than PyTorch", "than lean")
    return [Table("DelayedPDActuator with the limits of a DC motor, through compute().", header, rows)]
