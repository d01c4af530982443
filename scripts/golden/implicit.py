# SPDX-License-Identifier: Apache-2.0
"""Implicit steps: diagonal and dense responses, over steps with states, and their gradients."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import warp as wp

import actuon

from .case import Case, Scope, seeded
from .rollout import DT, Named, saved

_STEPS = 6
_TAPED_STEPS = 2
_ROBOTS = (1, 2, 7, 35)
"""DOFs of the robots whose responses are dense."""
_N = 70


def _geared() -> list[Any]:
    return [
        actuon.ControllerPD(30.0, 0.8),
        actuon.TransmissionGear(6.0, 0.9, 0.8),
        actuon.ClampingDCMotor(6.0, 60.0, 3.0),
    ]


def _late() -> list[Any]:
    limits = [actuon.ClampingDCMotor(30.0, 12.0, 15.0), actuon.ClampingMaxEffort(12.0)]
    return [actuon.Delay(2, 3), actuon.ControllerPID(30.0, 5.0, 0.8, 2.0), *limits]


def _sensed() -> list[Any]:
    return [actuon.SensorLowPass(0.01), *_geared()]


def _rubbing() -> list[Any]:
    return [actuon.ControllerPD(30.0, 2.0), actuon.EffectFriction(0.5, 0.1, inertia=0.01)]


def _limited() -> list[Any]:
    return [actuon.ControllerPD(400.0, 20.0), actuon.ClampingMaxEffort(10.0)]


CHAINS: dict[str, tuple[Callable[[], list[Any]], dict[str, Any]]] = {
    "geared": (_geared, {}),
    "late": (_late, {}),
    "held": (_sensed, {"control_every": 2}),
    "friction": (_rubbing, {}),
    "limit": (_limited, {}),
}
"""Stages and options, by name."""


def cases(scope: Scope) -> Iterator[Case]:
    """Return the cases of all chains and responses."""
    for name, block in itertools.product(CHAINS, (0, *_ROBOTS)):
        shape = f"robots of {block}" if block else "diagonal"
        counts = sorted({-(-n // (block or 1)) * (block or 1) for n in (*scope.dofs, _N)})
        for n in counts:
            yield Case(f"implicit/{name}/{n}/{shape}", functools.partial(_stepped, name, n, block))
    for block in (0, 2):
        shape = f"robots of {block}" if block else "diagonal"
        yield Case(f"implicit/gradients/{shape}", functools.partial(_gradients, 4, block))


def _inverse_inertia(rng: np.random.Generator, n: int, block: int) -> np.ndarray:
    if not block:
        return (10.0 ** rng.uniform(-1.0, 3.0, n)).astype(np.float32)
    roots = rng.normal(size=(n // block, block, block))
    mass = roots @ roots.transpose(0, 2, 1) / block + 0.2 * np.eye(block)
    scale = np.sqrt(10.0 ** rng.uniform(-3.0, 0.0, (n // block, block)))
    mass *= scale[:, :, None] * scale[:, None, :]
    return np.linalg.inv(mass).astype(np.float32)


def _signals(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    scales = {"joint_q": 0.3, "joint_qd": 3.0, "joint_target_q": 0.3, "joint_target_qd": 1.0}
    return {name: rng.normal(0.0, scale, n).astype(np.float32) for name, scale in scales.items()}


def _stepped(name: str, n: int, block: int) -> Named:
    stages, options = CHAINS[name]
    rng = seeded(f"implicit {name}", n, block)
    actuator = actuon.Actuator(range(n), stages=stages(), accumulate=False, **options)
    acceleration, reference = (rng.normal(0.0, scale, n).astype(np.float32) for scale in (20.0, 5.0))
    response = actuon.Response(_inverse_inertia(rng, n, block), acceleration, reference)
    state = actuator.state()
    seen: dict[str, list[np.ndarray]] = {"joint_f": [], "velocity": [], "residual": []}
    for _ in range(_STEPS):
        sim = _signals(rng, n) | {"joint_f": np.full(n, np.nan, np.float32)}
        with contextlib.suppress(actuon.ConvergenceError):  # the step is taken, and counted in response.unconverged
            actuator.step(sim, sim, state, state, DT, response=response)
        seen["joint_f"].append(sim["joint_f"])
        seen["velocity"].append(np.array(response.velocity.numpy()))
        seen["residual"].append(np.array(response.residual.numpy()))
    for key, values in seen.items():
        yield key, np.array(values)
    yield "unconverged", response.unconverged.numpy()
    if state is not None:
        yield from ((f"state/{key}", array) for key, array in saved(state))


def _gradients(n: int, block: int) -> Named:
    """Yield gradients through two steps, of which the second begins with the velocities that the first ends with."""
    rng = seeded("implicit gradients", block)
    stages = [actuon.SensorLowPass(0.01), *_geared()]
    actuator = actuon.Actuator(range(n), stages=stages, requires_grad=True)
    values = _signals(rng, n) | {"inverse": 0.1 * _inverse_inertia(rng, n, block)}
    values |= {
        name: rng.normal(0.0, scale, n).astype(np.float32) for name, scale in (("free", 5.0), ("reference", 1.0))
    }
    arrays = {name: wp.array(array, requires_grad=True) for name, array in values.items()}
    response = actuon.Response(arrays["inverse"], arrays["free"], arrays["reference"], tolerance=1e-6)
    states = [actuator.state() for _ in range(_TAPED_STEPS + 1)]
    sim, outputs = {name: arrays[name] for name in _signals(rng, n)}, []
    with wp.Tape() as tape:
        for t in range(_TAPED_STEPS):
            sim = sim | {"joint_f": wp.zeros(n, requires_grad=True)}
            actuator.step(sim, sim, states[t], states[t + 1], DT, response=response)
            sim["joint_qd"] = response.velocity
            outputs += [sim["joint_f"], response.velocity]
    weights = [wp.array(rng.normal(size=n).astype(np.float32)) for _ in outputs]
    tape.backward(grads=dict(zip(outputs, weights, strict=True)))
    for i, output in enumerate(outputs):
        yield f"output {i}", output.numpy()
    for name, array in arrays.items():
        yield f"by/{name}", array.grad.numpy()
    for position, stage in enumerate(actuator.stages):
        for parameter, array in stage.parameters().items():
            if array.grad is not None:
                yield f"by/{position}.{parameter}", array.grad.numpy()
