# SPDX-License-Identifier: Apache-2.0
"""Rollouts of actuators over random signals: efforts, signals, states and tape gradients, as named arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import warp as wp

import actuon

from .case import Case, seeded

DT = 0.005
STEPS = 12
RESET_AT = 7
"""The step before which some of the DOFs are reset."""
TAPED_STEPS = 3
SIGNALS = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act")
IMPLICIT_SIGNALS = {name: name for name in ("effort_derivative_q", "effort_derivative_qd", "effort_min", "effort_max")}
"""Names of entries by signal."""

Named = Iterator[tuple[str, np.ndarray]]
Build = Callable[..., actuon.Actuator]
"""Builds an actuator of n DOFs: ``build(n, **options)`` with options of `Actuator`."""


def random_steps(name: str, n: int, inputs: tuple[str, ...] = (), count: int = STEPS) -> list[dict[str, np.ndarray]]:
    """Return the simulation's arrays at each step: smooth motion of every amplitude, with noise; some DOFs stand still.

    Args:
        name: What the random numbers depend on.
        n: Number of DOFs.
        inputs: Names of further arrays, which are random.
        count: Number of steps.
    """
    rng = seeded(name, n)
    kinds = len(SIGNALS)
    scale = np.array([1.0, 6.0, 1.0, 2.0, 4.0])[:, None] * 10.0 ** rng.uniform(-1.5, 0.3, (kinds, n))
    speed, phase = rng.uniform(1.0, 40.0, (kinds, n)), rng.uniform(-np.pi, np.pi, (kinds, n))
    scale[1, rng.random(n) < 0.15] = 0.0
    steps = []
    for t in range(count):
        values = scale * (np.sin(speed * t * DT + phase) + 0.05 * rng.standard_normal((kinds, n)))
        step = dict(zip(SIGNALS, values.astype(np.float32), strict=True))
        steps.append(step | {name: rng.standard_normal(n).astype(np.float32) for name in inputs})
    return steps


def simulation(actuator: actuon.Actuator, signals: dict[str, np.ndarray], *, requires_grad: bool = False) -> Any:
    """Return arrays of a simulation, with outputs that are NaN where the actuator must write them."""
    sim = {name: wp.array(values, requires_grad=requires_grad) for name, values in signals.items()}
    n = len(signals["joint_qd"])
    sim["joint_f"] = wp.zeros(n, dtype=wp.float32, requires_grad=requires_grad)
    for name in actuator.control_signal_attrs.values():
        sim[name] = wp.full(n, np.nan, dtype=wp.float32)
    return sim


def stepped(actuator: actuon.Actuator, steps: list[dict[str, np.ndarray]], *, in_place: bool) -> Named:
    """Step through the signals; yield efforts and signals over time, and the saved state at the end."""
    n = actuator.num_actuators
    current = actuator.state()
    following = current if in_place else actuator.state()
    seen: dict[str, list[np.ndarray]] = {}
    for t, signals in enumerate(steps):
        if t == RESET_AT and current is not None:
            current.reset(wp.array(np.arange(n) % 3 == 0))
        sim = simulation(actuator, signals)
        actuator.step(sim, sim, current, following, dt=DT)
        for name in ("joint_f", *actuator.control_signal_attrs.values()):
            seen.setdefault(name, []).append(sim[name].numpy())
        current, following = following, current
    for name, values in seen.items():
        yield name, np.array(values)
    if current is not None:
        yield from ((f"state/{name}", array) for name, array in saved(current))


def saved(state: Any) -> Named:
    """Return the numbers of a state that a file of it holds."""
    for name, array in state.to_arrays().items():
        if array.dtype.kind != "U":
            yield name, array


def taped(actuator: actuon.Actuator, steps: list[dict[str, np.ndarray]], name: str) -> Named:
    """Step on a tape; yield the efforts, and gradients of weighted efforts with respect to signals and parameters."""
    rng = seeded(f"weights of {name}", actuator.num_actuators)
    states = [actuator.state() for _ in range(len(steps) + 1)]
    sims = [simulation(actuator, signals, requires_grad=True) for signals in steps]
    weights = [rng.standard_normal(len(step["joint_qd"])).astype(np.float32) for step in steps]
    with wp.Tape() as tape:
        for t, sim in enumerate(sims):
            actuator.step(sim, sim, states[t], states[t + 1], dt=DT)
    tape.backward(grads={sim["joint_f"]: wp.array(w) for sim, w in zip(sims, weights, strict=True)})
    yield "joint_f", np.array([sim["joint_f"].numpy() for sim in sims])
    for signal in steps[0]:
        yield f"by/{signal}", np.array([sim[signal].grad.numpy() for sim in sims])
    for position, stage in enumerate(actuator.stages):
        for parameter, array in stage.parameters().items():
            if array.grad is not None:
                yield f"by/{position}.{parameter}", array.grad.numpy()


def cases_of(name: str, build: Build, dofs: tuple[int, ...], *, fusible: bool = True) -> Iterator[Case]:
    """Return the cases of one chain: every number of DOFs, on every path.

    Args:
        name: What to call it, and what random numbers depend on.
        build: Builds the actuator.
        dofs: Numbers of DOFs.
        fusible: Whether all its stages have laws.
    """
    for n in dofs:
        for fused in (True, False) if fusible else (True,):
            where = f"{name}/{n}/{'fused' if fused and fusible else 'staged'}"
            run = functools.partial(_explicit, name, build, n, fused)
            yield Case(f"{where}/in place", functools.partial(run, True))
            yield Case(f"{where}/two states", functools.partial(run, False))
            yield Case(f"{where}/signals", functools.partial(_signals, name, build, n, fused))
            yield Case(f"{where}/gradients", functools.partial(_gradients, name, build, n, fused))


def _explicit(name: str, build: Build, n: int, fused: bool, in_place: bool) -> Named:
    actuator = build(n, fused=fused)
    return stepped(actuator, random_steps(name, n, actuator.custom_inputs), in_place=in_place)


def _signals(name: str, build: Build, n: int, fused: bool) -> Named:
    """Yield everything that a chain can offer, derivatives and bounds among them."""
    has_derivatives = not build(n, fused=fused).derivative_obstacle()
    derivatives = IMPLICIT_SIGNALS if has_derivatives else None
    actuator = build(n, fused=fused, control_signal_attrs=str, control_derivative_attrs=derivatives)
    return stepped(actuator, random_steps(name, n, actuator.custom_inputs), in_place=False)


def _gradients(name: str, build: Build, n: int, fused: bool) -> Named:
    actuator = build(n, fused=fused, requires_grad=True)
    return taped(actuator, random_steps(name, n, actuator.custom_inputs, TAPED_STEPS), name)
