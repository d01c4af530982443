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

from .laws import OWN
from .reference import Reference
from .stages import STAGES

CONTROLLERS = ("ControllerPD", "ControllerPID", "ControllerFiltered")
CLAMPS = (
    "ClampingMaxEffort", "ClampingDCMotor", "ClampingPositionBased", "ClampingSoftLimit", "ClampingRepeated",
    "ClampingStop",
)  # fmt: skip
EFFECTS = ("EffectLag", "EffectDrag", "EffectMotorDrag")
RANGES = {
    "kp": (0, 100), "ki": (0, 300), "kd": (0, 5), "const_effort": (-3, 3), "integral_max": (0.001, 0.05),
    "time_constant": (0.001, 0.1), "max_effort": (5, 60), "saturation_effort": (10, 80), "velocity_limit": (2, 20),
    "max_motor_effort": (5, 60), "gain": (-2, 2), "slope": (0, 30), "reach": (0, 4), "drag": (0, 2),
    "lookup_positions": (-2, 2), "lookup_efforts": (1, 60), "bias": (-0.2, 0.2), "share": (0, 1), "ratio": (0.5, 9),
    "efficiency": (0, 1), "start": (-5, 5),
}  # fmt: skip
MAY_BE_INFINITE = {"integral_max", "saturation_effort", "velocity_limit", "max_motor_effort"}
MUST_BE_ABOVE_ZERO = {"time_constant", "velocity_limit"}
SHARES = {"share", "efficiency"}
MOODS = ("plain", "far", "edge", "huge")
"""Values of an ordinary robot; of one whose wheels have turned for long; with zeros, denormals, infinite limits and NaN
among them; and of any size."""
FAR = 1e4
"""How far a wheel has turned [rad]."""


@dataclass(frozen=True)
class Structure:
    """Stages and their parameters, in order, which determine the kernel."""

    stages: tuple[tuple[str, tuple[str, ...]], ...]

    @staticmethod
    def random(source: random.Random) -> Structure:
        names = ["SensorLate"] * (source.random() < 0.2) + ["Delay"] * (source.random() < 0.6)
        source.shuffle(names)
        names.append(source.choice(CONTROLLERS))
        rest = [source.choice(CLAMPS) for _ in range(source.choice([0, 1, 1, 2, 2, 3]))]
        if source.random() < 0.4:
            rest += [source.choice(EFFECTS) for _ in range(source.choice([1, 2]))]
        if source.random() < 0.3:
            source.shuffle(rest)
        if source.random() < 0.3 or "EffectMotorDrag" in rest:
            first = rest.index("EffectMotorDrag") if "EffectMotorDrag" in rest else len(rest)
            rest.insert(source.choice([0, source.randint(0, first)]), "TransmissionGear")
        return Structure(tuple((name, source.choice(PARAMETERS[name])) for name in [*names, *rest]))

    def has(self, name: str) -> bool:
        """Whether a stage is in it."""
        return any(stage == name for stage, _ in self.stages)

    @property
    def is_stateful(self) -> bool:
        return any(name == "Delay" or STAGES[name].memory for name, _ in self.stages)

    @property
    def is_usual(self) -> bool:
        """Whether the arguments of an actuator by kind put its stages into this order."""
        kinds = [KINDS_IN_ORDER.index(kind_of(name)) for name, _ in self.stages]
        return kinds == sorted(kinds)


KINDS_IN_ORDER = ("Sensor", "Delay", "Controller", "Transmission", "Clamping", "Effect")
PARAMETERS = {name: stage.parameters for name, stage in STAGES.items()} | {"Delay": (("delay_steps",),)}


def kind_of(name: str) -> str:
    """``"Clamping"`` for ``"ClampingDCMotor"``."""
    return next(kind for kind in KINDS_IN_ORDER if name.startswith(kind))


def structures(seed: int, count: int) -> list[Structure]:
    """The few structures of a seed: each costs a compilation."""
    source = random.Random(seed)
    return [Structure.random(source) for _ in range(count)]


def parameter(name: str, owner: str, n: int, mood: str, rng: np.random.Generator) -> np.ndarray:
    """Legal values of a parameter, shape (n,)."""
    if name == "count":
        return rng.integers(0, 4, n).astype(np.int32)
    if name == "ratio":
        return rng.uniform(*RANGES[name], n).astype(np.float32)
    if name in SHARES:
        return np.clip(rng.uniform(-0.1, 1.1, n), 0.0, 1.0).astype(np.float32)
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
    owners: list[tuple[str, dict[str, np.ndarray]]]
    """Name and values of each stage, in order."""
    depth: int
    """Longest lag of the delay [steps]."""

    @staticmethod
    def random(structure: Structure, n: int, mood: str, rng: np.random.Generator) -> Chain:
        owners: list[tuple[str, dict[str, np.ndarray]]] = []
        depth = int(rng.choice([1, 2, 5, 17]))
        for name, parameters in structure.stages:
            if name == "Delay":
                values = {"delay_steps": rng.integers(0, depth + 1, n).astype(np.int32)}
            elif name == "ClampingPositionBased":
                values = table(mood, rng)
            else:
                values = {p: parameter(p, name, n, mood, rng) for p in parameters}
            if not is_legal(name, values):
                values["saturation_effort"] = np.minimum(values["saturation_effort"], np.float32(1e6))
            owners.append((name, values))
        return Chain(structure, n, owners, depth)

    def reference(self) -> Reference:
        """The reference of the chain. Values are shared with it."""
        return Reference(self.owners, self.n, self.depth)

    def actuator(
        self, indices: Any, rng: np.random.Generator, staged: bool = False, own_arrays: bool = True, **options: Any
    ) -> actuon.Actuator:
        """The actuator of the chain, its parameters given in any way that they can be, or as numbers to copy."""
        parts: list[Any] = []
        has_own_kernel = staged and rng.random() < 0.5
        options["fused"] = has_own_kernel or not staged
        for name, values in self.owners:
            shared = name == "ClampingPositionBased"
            given = {k: as_given(v, rng, shared) if own_arrays else v.copy() for k, v in values.items()}
            given |= {"max_delay": self.depth} if name == "Delay" else {}
            parts.append(component_class(name, has_own_kernel and name.startswith("Controller"))(**given))
        if not self.structure.is_usual or rng.random() < 0.3:
            return actuon.Actuator(indices, stages=parts, **options)
        by_kind: dict[str, list[Any]] = {kind: [] for kind in KINDS_IN_ORDER}
        for (name, _), part in zip(self.owners, parts, strict=True):
            by_kind[kind_of(name)].append(part)
        one = {kind: (by_kind[kind] or [None])[0] for kind in ("Controller", "Delay", "Transmission")}
        return actuon.Actuator(
            indices,
            one["Controller"],
            one["Delay"],
            by_kind["Clamping"],
            transmission=one["Transmission"],
            effects=by_kind["Effect"],
            sensors=by_kind["Sensor"],
            **options,
        )

    def of(self, chosen: np.ndarray) -> Chain:
        """Return this motor model for some of its DOFs."""
        owners = []
        for name, values in self.owners:
            shared = name == "ClampingPositionBased"
            owners.append((name, {k: v.copy() if shared else v[chosen] for k, v in values.items()}))
        return Chain(self.structure, len(chosen), owners, self.depth)


def component_class(name: str, has_own_kernel: bool) -> type:
    """The class of a component, or a subclass with a method of its own, whose chain then runs stage by stage."""
    cls = OWN.get(name) or getattr(actuon, name)
    if not has_own_kernel:
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
        if mood == "far" and name in ("joint_q", "joint_target_q"):
            values = values + FAR
        elif mood == "huge":
            values = values * 10.0 ** rng.uniform(-20, 20, size)
        elif mood == "edge":
            special = [0.0, -0.0, 1e-40, 1e4, np.nan]
            special += [] if name in ("joint_q", "joint_qd") else [np.inf, -np.inf]
            values = np.where(rng.random(size) < 0.2, rng.choice(special, size), values)
        made[name] = values.astype(np.float32)
    return made
