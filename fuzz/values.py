# SPDX-License-Identifier: Apache-2.0
"""Random chains: which components, and the parameters and signals that they get."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import warp as wp

import actuon

from .laws import CLASSES
from .reference import Reference

CONTROLLERS = {
    "ControllerPD": (("kp", "kd"), ("kp", "kd", "const_effort")),
    "ControllerPID": (("kp", "ki", "kd", "integral_max"), ("kp", "ki", "kd", "integral_max", "const_effort")),
    "ControllerFiltered": (("kp", "kd", "time_constant"),),
}
CLAMPS = {
    "ClampingMaxEffort": ("max_effort",),
    "ClampingDCMotor": ("saturation_effort", "velocity_limit", "max_motor_effort"),
    "ClampingPositionBased": ("lookup_positions", "lookup_efforts"),
    "ClampingSoftLimit": ("max_effort",),
    "ClampingRepeated": ("count", "gain"),
    "ClampingStop": ("slope", "reach", "drag"),
}
RANGES = {
    "kp": (0, 100), "ki": (0, 300), "kd": (0, 5), "const_effort": (-3, 3), "integral_max": (0.001, 0.05),
    "time_constant": (0.001, 0.1), "max_effort": (5, 60), "saturation_effort": (10, 80), "velocity_limit": (2, 20),
    "max_motor_effort": (5, 60), "gain": (-2, 2), "slope": (0, 30), "reach": (0, 4), "drag": (0, 2),
    "lookup_positions": (-2, 2), "lookup_efforts": (1, 60),
}  # fmt: skip
MAY_BE_INFINITE = {"integral_max", "saturation_effort", "velocity_limit", "max_motor_effort"}
MUST_BE_ABOVE_ZERO = {"time_constant", "velocity_limit"}
MOODS = ("plain", "edge", "huge")
"""Values of an ordinary robot; with zeros, denormals, infinite limits and NaN among them; and of any size."""


@dataclass(frozen=True)
class Structure:
    """What a kernel is compiled for."""

    controller: str
    parameters: tuple[str, ...]
    clamps: tuple[str, ...]
    delayed: bool

    @staticmethod
    def random(source: random.Random) -> Structure:
        controller = source.choice(list(CONTROLLERS))
        clamps = tuple(source.choice(list(CLAMPS)) for _ in range(source.choice([0, 1, 1, 2, 2, 3])))
        return Structure(controller, source.choice(CONTROLLERS[controller]), clamps, source.random() < 0.6)


def structures(seed: int, count: int) -> list[Structure]:
    """The few structures of a seed: each costs a compilation."""
    source = random.Random(seed)
    return [Structure.random(source) for _ in range(count)]


def parameter(name: str, owner: str, n: int, mood: str, rng: np.random.Generator) -> np.ndarray:
    """Legal values of a parameter, shape (n,)."""
    if name == "count":
        return rng.integers(0, 4, n).astype(np.int32)
    low, high = RANGES[name]
    values = rng.uniform(low, high, n)
    above = name in MUST_BE_ABOVE_ZERO or owner == "ClampingSoftLimit"
    if mood == "edge":
        special = [0.0, 1e-40, 1e-30, high * 1e3]
        special += [np.inf] * (name in MAY_BE_INFINITE or (owner, name) == ("ClampingMaxEffort", "max_effort"))
        values = np.where(rng.random(n) < 0.4, rng.choice(special, n), values)
    elif mood == "huge":
        values = np.sign(values) * 10.0 ** rng.uniform(-8, 6, n)
    values = values.astype(np.float32)
    return np.where(values > 0, values, np.float32(high)) if above else values


def table(mood: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A lookup table without jumps: on one, either side is right."""
    count = int(rng.choice([1, 2, 6, 33]))
    positions = np.unique(parameter("lookup_positions", "", count, mood, rng))
    positions = positions[np.diff(positions, prepend=-np.inf) > 1e-9]
    efforts = np.abs(parameter("lookup_efforts", "", len(positions), mood, rng))
    return {"lookup_positions": positions, "lookup_efforts": efforts}


def is_legal(owner: str, values: dict[str, np.ndarray]) -> bool:
    """Whether parameters are legal together."""
    if owner != "ClampingDCMotor":
        return True
    return not np.any(np.isinf(values["saturation_effort"]) & np.isfinite(values["velocity_limit"]))


@dataclass
class Chain:
    """A structure with values for n DOFs, of which an actuator and a reference can be made."""

    structure: Structure
    n: int
    gains: dict[str, np.ndarray]
    clamps: list[tuple[str, dict[str, np.ndarray]]]
    lags: np.ndarray | None
    depth: int

    @staticmethod
    def random(structure: Structure, n: int, mood: str, rng: np.random.Generator) -> Chain:
        gains = {p: parameter(p, structure.controller, n, mood, rng) for p in structure.parameters}
        clamps = []
        for name in structure.clamps:
            values = {p: parameter(p, name, n, mood, rng) for p in CLAMPS[name]}
            if name == "ClampingPositionBased":
                values = table(mood, rng)
            elif not is_legal(name, values):
                values["saturation_effort"] = np.minimum(values["saturation_effort"], np.float32(1e6))
            clamps.append((name, values))
        depth = int(rng.choice([1, 2, 5, 17]))
        lags = rng.integers(0, depth + 1, n).astype(np.int32) if structure.delayed else None
        return Chain(structure, n, gains, clamps, lags, depth)

    def owners(self) -> list[tuple[str, dict[str, np.ndarray]]]:
        """Controller and clamps with their parameters, in order."""
        return [(self.structure.controller, self.gains), *self.clamps]

    def reference(self, kind: type[Reference] = Reference) -> Reference:
        """The reference of the chain, or its `Magnitude`. Parameters are shared with it."""
        return kind(self.n, self.structure.controller, self.gains, self.clamps, self.lags, self.depth)

    def actuator(
        self, indices: Any, rng: np.random.Generator, staged: bool = False, own_arrays: bool = True, **options: Any
    ) -> actuon.Actuator:
        """The actuator of the chain, its parameters given in any way that they can be, or as numbers to copy."""

        def given(values: np.ndarray, name: str = "") -> Any:
            return as_given(values, rng, shared=name.startswith("lookup")) if own_arrays else values.copy()

        parts = []
        for name, values in self.owners():
            cls = component_class(name, staged and name.startswith("Controller"))
            parts.append(cls(**{key: given(value, key) for key, value in values.items()}))
        delay = None if self.lags is None else actuon.Delay(given(self.lags), self.depth)
        return actuon.Actuator(indices, parts[0], delay=delay, clamping=parts[1:], **options)

    def of(self, chosen: np.ndarray) -> Chain:
        """The same chain for some of its DOFs."""
        clamps = []
        for name, values in self.clamps:
            shared = name == "ClampingPositionBased"
            clamps.append((name, {k: v.copy() if shared else v[chosen] for k, v in values.items()}))
        lags = None if self.lags is None else self.lags[chosen]
        gains = {k: v[chosen] for k, v in self.gains.items()}
        return Chain(self.structure, len(chosen), gains, clamps, lags, self.depth)


def component_class(name: str, staged: bool) -> type:
    """The class of a component, or a subclass with a method of its own, whose chain then runs stage by stage."""
    cls = CLASSES.get(name) or getattr(actuon, name)
    if not staged:
        return cls

    def compute(self: Any, *arguments: Any, **keywords: Any) -> None:
        cls.compute(self, *arguments, **keywords)

    return type(f"Own{name}", (cls,), {"compute": compute})


def as_given(values: np.ndarray, rng: np.random.Generator, shared: bool = False) -> Any:
    """Values as a user may pass them; ``shared`` ones are a table, of one entry at least."""
    kind = rng.choice(["array", "list", "number", "warp", "torch", "double"])
    if kind == "number" and not shared and len(values) and (values == values[0]).all():
        return values[0].item()
    if kind == "list":
        return values.tolist()
    if kind == "double" and values.dtype == np.float32:
        return values.astype(np.float64)
    if kind == "warp":
        return wp.array(values)
    return torch.from_numpy(values.copy()) if kind == "torch" else values.copy()


SIGNALS = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act")


def random_signals(sizes: tuple[int, int], mood: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One step's signals, float32: positions of the second of ``sizes``, the others of the first."""
    made = {}
    for name, scale in zip(SIGNALS, (1.5, 6.0, 1.5, 2.0, 5.0), strict=True):
        size = sizes[1] if name in ("joint_q", "joint_target_q") else sizes[0]
        values = rng.standard_normal(size) * scale
        if mood == "huge":
            values = values * 10.0 ** rng.uniform(-20, 20, size)
        elif mood == "edge":
            special = [0.0, -0.0, 1e-40, 1e4, np.nan]
            special += [] if name in ("joint_q", "joint_qd") else [np.inf, -np.inf]
            values = np.where(rng.random(size) < 0.2, rng.choice(special, size), values)
        made[name] = values.astype(np.float32)
    return made
