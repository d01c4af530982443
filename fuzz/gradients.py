# SPDX-License-Identifier: Apache-2.0
"""Gradients on a tape, through several steps, against differences of the oracle."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from hypothesis import strategies as st

from .rig import rig
from .values import SIGNALS, Chain, Structure, random_signals, structures

DT = 0.01


@dataclass(frozen=True)
class Case:
    """Random values of a case."""

    structure: Structure
    n: int
    scattered: bool
    staged: bool
    mood: str
    length: int
    numbers: int
    """Seed of all numbers."""


class Rollout:
    """A chain, its signals in float64, and the weights of the sum of efforts that is differentiated."""

    def __init__(self, case: Case):
        rng = np.random.default_rng(case.numbers)
        self.case, self.rng = case, rng
        self.chain = Chain.random(case.structure, case.n, case.mood, rng)
        size = case.n + 2
        self.indices = rng.permutation(size)[: case.n] if case.scattered else np.arange(case.n)
        self.signals = []
        for _ in range(case.length):
            drawn = random_signals((size, size), case.mood, rng)
            self.signals.append({k: np.nan_to_num(v, nan=0.5, posinf=3.0, neginf=-3.0) for k, v in drawn.items()})
        self.weights = rng.standard_normal((case.length, size)).astype(np.float32)

    def on_tape(self) -> dict[Any, np.ndarray]:
        """Gradients by signal and step, and by parameter and component; checks that backward writes nothing else."""
        case = self.case
        actuator = self.chain.actuator(self.indices, self.rng, staged=case.staged, requires_grad=True)
        states = [actuator.state() for _ in range(case.length + 1)]
        sims = []
        with wp.Tape() as tape:
            for t, signals in enumerate(self.signals):
                sim = {name: wp.array(values, requires_grad=True) for name, values in signals.items()}
                sim["joint_f"] = wp.zeros(len(signals["joint_qd"]), dtype=wp.float32, requires_grad=True)
                actuator.step(sim, sim, states[t], states[t + 1], dt=DT)
                sims.append(sim)
        before = [sim["joint_f"].numpy().copy() for sim in sims]
        found: list[dict[Any, np.ndarray]] = []
        for _ in range(2):
            grads = {s["joint_f"]: wp.array(weights) for s, weights in zip(sims, self.weights, strict=True)}
            tape.backward(grads=grads)
            arrays = {(t, name): sim[name] for t, sim in enumerate(sims) for name in SIGNALS}
            for place, part in enumerate(actuator.stages):
                arrays |= {(f"part {place}", name): value for name, value in part.parameters().items()}
            found.append({key: a.grad.numpy().copy() for key, a in arrays.items() if a.dtype is wp.float32})
            tape.zero()
        for sim, kept in zip(sims, before, strict=True):
            np.testing.assert_array_equal(sim["joint_f"].numpy(), kept, "backward changed the efforts")
        for key, gradient in found[0].items():
            np.testing.assert_array_equal(found[1][key], gradient, f"a second backward differs: {key}")
        return found[0]

    def objective(self) -> float:
        """The weighted sum of the oracle's efforts."""
        reference = self.chain.reference()
        total = 0.0
        for signals, weights in zip(self.signals, self.weights, strict=True):
            found, _ = reference.step(*(signals[name][self.indices] for name in SIGNALS), dt=DT)
            total += float(weights[self.indices].astype(np.float64) @ found["joint_f"])
        return total

    def in_double(self) -> Rollout:
        """Return this rollout in float64, for finite differences."""
        other = copy.deepcopy(self)
        for _, values in other.chain.owners:
            values.update({k: v.astype(np.float64) for k, v in values.items() if v.dtype == np.float32})
        other.signals = [{k: v.astype(np.float64) for k, v in s.items()} for s in other.signals]
        return other

    def array(self, key: Any) -> np.ndarray:
        """The array that a gradient is with respect to."""
        place, name = key
        return self.signals[place][name] if isinstance(place, int) else self.chain.owners[int(place[5:])][1][name]

    def difference(self, array: np.ndarray, i: int, h: float) -> float:
        """The central difference at entry ``i``."""
        kept = array[i]
        sums = []
        for shifted in (kept + h, kept - h):
            array[i] = shifted
            sums.append(self.objective())
        array[i] = kept
        return (sums[0] - sums[1]) / (2 * h)


def _cases(seed: int) -> dict[str, st.SearchStrategy]:
    cases = st.builds(
        Case,
        structure=st.sampled_from(structures(seed, 1)),
        n=st.sampled_from([1, 2, 3]),
        scattered=st.booleans(),
        staged=st.booleans(),
        mood=st.sampled_from(["plain", "plain", "edge"]),
        length=st.integers(2, 3),
        numbers=st.integers(0, 2**32 - 1),
    )
    return {"case": cases}


@rig("gradients", examples=25, drawn=_cases)
def gradients(case: Case) -> None:
    """Gradients are those of the oracle; at the edges of the range they are finite."""
    rollout = Rollout(case)
    found = rollout.on_tape()
    exact = rollout.in_double()
    for key, gradient in found.items():
        if key[1] == "start":
            continue  # a state begins before the tape does
        if case.mood == "plain":
            _compare(exact, key, gradient)
        elif not case.structure.has("ClampingSoftLimit"):  # whose quotient overflows
            assert not np.isnan(gradient).any(), f"{key}: {gradient}"


def _compare(exact: Rollout, key: Any, gradient: np.ndarray) -> None:
    array = exact.array(key)
    for i, got in enumerate(gradient):
        expected = exact.difference(array, i, 1e-6)
        scale = 2e-3 * (1.0 + abs(expected))
        wider = [exact.difference(array, i, h) for h in (1e-5, 1e-4)]
        if max(abs(other - expected) for other in wider) > scale:
            continue  # a corner nearby, where 32 bits may be on the other side
        assert abs(got - expected) <= scale, f"{key}[{i}]: got {got}, expected {expected}"
