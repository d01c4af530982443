# SPDX-License-Identifier: Apache-2.0
"""Models of actuator groups on random signals, and the limits of a DC motor in PyTorch."""

from __future__ import annotations

import pytest

from actuon.lab import ArticulationActions

torch = pytest.importorskip("torch")
JOINTS = ["left_hip", "left_knee", "right_hip", "right_knee"]
E, J = 5, len(JOINTS)
LOOKUP = [[-2.0, 4.0, 10.0], [-1.0, 6.0, 20.0], [0.5, 3.0, 5.0]]
COMMON = {"joint_names_expr": [".*"], "stiffness": {".*_hip": 40.0, ".*_knee": 60.0}, "damping": 1.5}
KP = torch.tensor([40.0, 60.0, 40.0, 60.0])


def build(cfg, **asset):
    return cfg.class_type(cfg, JOINTS, slice(None), E, "cpu", **asset)


def signals(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(E, J, generator=generator) * scale for scale in (1.0, 6.0, 1.0, 2.0, 3.0)]


def act(model, q, qd, target, target_vel, feedforward):
    return model.compute(ArticulationActions(target.clone(), target_vel.clone(), feedforward.clone()), q, qd)


def dc_clip(effort, qd, saturation, velocity, limit):
    corner = velocity * (1 + limit / saturation)
    v = torch.clip(qd, -corner, corner)
    high = torch.clip(saturation * (1.0 - v / velocity), max=limit)
    low = torch.clip(saturation * (-1.0 - v / velocity), min=-limit)
    return torch.clip(effort, min=low, max=high)
