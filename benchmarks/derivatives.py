# SPDX-License-Identifier: Apache-2.0
"""Cost of derivatives and bounds of the effort, added to a step of the same chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

import actuon
from actuon.components.component import Component

from .gate import Gate, require_agreement
from .networks import KINDS, controller
from .runner import TIMES_HEADER, Table, grouped, measure, one_thread, progress

DOFS = 49_152
DERIVATIVES = {"effort_derivative_q": "by_q", "effort_derivative_qd": "by_qd"}
BOUNDS = {"effort_min": "lowest", "effort_max": "highest"}
EXTRA_OUTPUTS: dict[str, dict[str, str]] = {
    "effort alone": {},
    "with derivatives": DERIVATIVES,
    "with derivatives and bounds": DERIVATIVES | BOUNDS,
}


def _motor() -> list[Component]:
    return [
        actuon.Delay(5, 5),
        actuon.ControllerPD(30.0, 0.8),
        actuon.ClampingDCMotor(30.0, 12.0, 15.0),
        actuon.ClampingMaxEffort(14.0),
    ]


def _whole_motor() -> list[Component]:
    return [
        actuon.Delay(5, 5),
        actuon.ControllerPD(30.0, 0.8),
        actuon.TransmissionGear(6.0, 0.9, 0.8),
        actuon.ClampingDCMotor(6.0, 60.0, 3.0),
        actuon.EffectFriction(0.1, 0.01, 0.15, 0.2, inertia=0.01),
    ]


def _network(name: str) -> list[Component]:
    import torch

    kind, make = KINDS[name]
    torch.manual_seed(0)
    return [controller(kind, make()), actuon.ClampingMaxEffort(14.0)]


CHAINS: dict[str, Callable[[], list[Component]]] = {
    "delay + PD + DC motor + max effort": _motor,
    "delay + PD + gear + DC motor + friction": _whole_motor,
    **{f"{name} + max effort": lambda name=name: _network(name) for name in KINDS},  # type: ignore[misc]
}


class Contender:
    """A chain in place, with some of the outputs besides the effort."""

    def __init__(self, label: str, stages: list[Component], signals: dict[str, np.ndarray]):
        self.label = label
        n = len(signals["joint_q"])
        attrs = EXTRA_OUTPUTS[label]
        self.actuator = actuon.Actuator(range(n), stages=stages, accumulate=False, control_derivative_attrs=attrs)
        self.state = self.actuator.state()
        self.sim: dict[str, Any] = {name: wp.array(array) for name, array in signals.items()}
        self.sim |= {name: wp.zeros(n, dtype=wp.float32) for name in ("joint_f", *attrs.values())}

    def step(self) -> None:
        self.actuator.step(self.sim, self.sim, self.state, self.state, 0.005)

    def first(self, moved: str = "", by: float = 0.0) -> dict[str, np.ndarray]:
        """Step once from the initial state, with a signal shifted, and return all arrays."""
        kept = {name: self.sim[name] for name in (moved,) if name}
        self.sim |= {name: wp.array(array.numpy() + np.float32(by)) for name, array in kept.items()}
        self.step()
        if self.state is not None:
            self.state.reset()
        self.sim |= kept
        return {name: array.numpy().astype(float) for name, array in self.sim.items()}


def contenders(chain: str, dofs: int) -> list[Contender]:
    """Build all, which must give the same efforts, and derivatives that agree with finite differences."""
    rng = np.random.default_rng(3)
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act")
    signals = {name: rng.normal(0.0, 0.3, dofs).astype(np.float32) for name in names}
    made = [Contender(label, CHAINS[chain](), signals) for label in EXTRA_OUTPUTS]
    where = f"derivatives, {chain}, {dofs} DOFs"
    found = {contender.label: contender.first() for contender in made}
    efforts = {label: numbers["joint_f"] for label, numbers in found.items()}
    require_agreement(f"{where}, effort", efforts)
    plain, *others = made
    for moved, derivative in (("joint_q", "by_q"), ("joint_qd", "by_qd")):
        up, down = (plain.first(moved, by)["joint_f"] for by in (2e-3, -2e-3))
        smooth = np.abs(up + down - 2.0 * efforts[plain.label]) < 1e-4
        derivatives = {"finite differences": (up - down) / 4e-3} | {
            other.label: found[other.label][derivative] for other in others
        }
        at_smooth = {label: numbers[smooth] for label, numbers in derivatives.items()}
        require_agreement(f"{where}, derivative by {moved}", at_smooth, rtol=0.02, atol=0.05)
    return made


GATE = Gate(CHAINS, contenders, smallest=12)


def measure_derivatives(seconds: float) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    with one_thread():
        for chain in CHAINS:
            progress(f"{DOFS} DOFs, derivatives of {chain}")
            everyone = contenders(chain, DOFS)
            times = measure(everyone, DOFS, seconds)
            for contender, own in zip(everyone, times, strict=True):
                rows.append((chain, contender.label, *own.cells(), f"{own.loop / times[0].loop:.2f}"))
    title = f"{grouped(DOFS)} DOFs, one thread, one launch each, in place."
    return [Table(title, ("chain", "what", *TIMES_HEADER, "÷ effort alone"), rows)]
