# SPDX-License-Identifier: Apache-2.0
"""Expected efforts of a motor model in float64, and the tolerance of 32 bits."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .stages import STAGES, finite

INPUTS = ("q", "qd", "target_q", "target_qd", "feedforward")
EPSILON = float(np.finfo(np.float32).eps)
LARGEST = 1e37
"""Where terms of a sum may overflow 32 bits, and NaN or infinity is as good as any number."""
ROUNDINGS = 32
"""Roundings of the sizes of terms that an effort may be off by: two or three for each stage."""


class Line:
    """Commands of the last steps, of which each DOF gets one that is some steps old.

    Args:
        n: Number of DOFs.
        lags: How many steps, shape (n,); the array may change.
        depth: Longest lag [steps].
    """

    def __init__(self, n: int, lags: np.ndarray, depth: int):
        self.lags, self.past, self.pushes = lags, np.zeros((depth, 3, n)), np.zeros(n, int)

    def reset(self, mask: np.ndarray) -> None:
        """Forget the past, where ``mask`` is true."""
        self.pushes[mask] = 0

    def copy(self) -> Line:
        """Return a copy with the present memory, which then develops on its own."""
        other = copy.copy(self)
        other.past, other.pushes = self.past.copy(), self.pushes.copy()
        return other

    def push(self, i: int, command: np.ndarray) -> None:
        """Let a DOF have got a command, shape (3,)."""
        self.past[1:, :, i] = self.past[:-1, :, i]
        self.past[0, :, i] = command
        self.pushes[i] = min(self.pushes[i] + 1, len(self.past))

    def late(self, *command: np.ndarray) -> np.ndarray:
        """Return the delayed target positions, target velocities and feedforward, each of shape (n,)."""
        now = np.stack(command).astype(np.float64)
        lags = np.minimum(self.lags, self.pushes)
        late = np.take_along_axis(self.past, np.maximum(lags - 1, 0)[None, None], axis=0)[0]
        self.past[1:] = self.past[:-1]
        self.past[0] = now
        self.pushes = np.minimum(self.pushes + 1, len(self.past))
        return np.where(lags > 0, late, now)


class Reference:
    """A chain of stages with its past: its signals, and beside each the sum of the sizes of the terms it is made of.

    Args:
        owners: Name and values of each stage, in order; values that change there change here.
        n: Number of DOFs.
        depth: Longest lag of the delay [steps].
    """

    def __init__(self, owners: list[tuple[str, dict[str, np.ndarray]]], n: int, depth: int):
        self.owners, self.n = owners, n
        lags = dict(owners).get("Delay", {}).get("delay_steps", np.zeros(n, int))
        self.lines = [Line(n, lags, depth) for _ in range(2)]
        self.memory: list[dict[str, np.ndarray]] = [{} for _ in owners]
        self.sizes: list[dict[str, np.ndarray]] = [{} for _ in owners]
        self.reset(np.ones(n, bool))

    def reset(self, mask: np.ndarray) -> None:
        """Go back to the initial state, where ``mask`` is true."""
        for line in self.lines:
            line.reset(mask)
        for (name, values), memory, sizes in zip(self.owners, self.memory, self.sizes, strict=True):
            for state, start in STAGES[name].memory if name != "Delay" else ():
                initial = values[start] if start else np.zeros(self.n)
                memory[state] = np.where(mask, initial, memory.get(state, 0.0))
                for size in (state, f"{state} rounded"):
                    sizes[size] = np.where(mask, np.abs(initial), sizes.get(size, 0.0))

    def copy(self) -> Reference:
        """Return a copy that shares parameter values and copies the memory."""
        other = copy.copy(self)
        other.lines = [line.copy() for line in self.lines]
        other.memory = [dict(memory) for memory in self.memory]
        other.sizes = [dict(sizes) for sizes in self.sizes]
        return other

    def step(self, *arrays: np.ndarray, dt: float) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Take q, qd, target_q, target_qd and feedforward through the chain.

        Returns:
            Signals by name, ``joint_f`` and ``computed`` among them, and their sizes, each of shape (N,).
        """
        exact = {name: array.astype(np.float64) for name, array in zip(INPUTS, arrays, strict=True)}
        sizes = {name: np.abs(np.where(np.isnan(array), 0.0, array)) for name, array in exact.items()}
        for signals in (exact, sizes):
            signals |= {"seen_q": signals["q"], "seen_qd": signals["qd"]}
        for signal in ("seen_q", "seen_qd"):
            sizes[f"{signal} rounded"] = np.zeros(self.n)  # what is given is exact
        for place, (name, values) in enumerate(self.owners):
            sizes["error"] = np.abs(exact["target_q"] - exact["seen_q"]) + sizes["seen_q rounded"]
            sizes["rate"] = np.abs(exact["target_qd"] - exact["seen_qd"]) + sizes["seen_qd rounded"]
            if name == "Delay":
                for signals, line in zip((exact, sizes), self.lines, strict=True):
                    signals |= zip(INPUTS[2:], line.late(*(signals[part] for part in INPUTS[2:])), strict=True)
                continue
            STAGES[name].law(exact, values, self.memory[place], dt)
            STAGES[name].size(sizes, values, self.sizes[place], dt)
            if "effort" in exact:
                sizes["effort"] = np.maximum(sizes["effort"], np.abs(finite(exact["effort"])[0]))
            if name.startswith("Controller"):
                exact["computed"], sizes["computed"] = exact["effort"], sizes["effort"]
        for signals in (exact, sizes):
            signals["joint_f"] = signals["effort"] * signals.get("closing", 1.0)
        return exact, sizes


def assert_within(got: Any, expected: np.ndarray, magnitude: np.ndarray, where: str) -> None:
    """Check efforts: to rounding of terms of that size, NaN and infinity where the reference has them."""
    comparable = magnitude < LARGEST
    got, expected = np.asarray(got, np.float64)[comparable], expected[comparable]
    tolerance = ROUNDINGS * EPSILON * magnitude[comparable] + 1e-35
    with np.errstate(invalid="ignore"):
        right = np.abs(got - expected) <= tolerance
    right |= (got == expected) | (np.isnan(got) & np.isnan(expected))
    if not right.all():
        worst = int(np.argmin(right))
        at = np.flatnonzero(comparable)[worst]
        raise AssertionError(
            f"{where}: entry {at}: got {got[worst]!r}, expected {expected[worst]!r} ± {tolerance[worst]:.3g}; "
            f"{int((~right).sum())} of {len(right)} entries are off"
        )
