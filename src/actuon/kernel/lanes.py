# SPDX-License-Identifier: Apache-2.0
"""Lines of a kernel on numbers of each DOF: a loop over a block of lanes, or a single DOF."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass

from .text import new_name

Derivatives = tuple["Value | None", "Value | None"]
"""Derivatives of a number by position and velocity of the joint; None for zero, or if not needed."""


@dataclass
class Value:
    """A number of each DOF: a local vector of lanes, or a variable of the current lane."""

    name: str
    is_lane: bool = False
    derivatives: Derivatives = (None, None)
    bounds: tuple[Value, Value] | None = None
    """Values at the lowest and at the highest effort that limits allow; None if equal, or not needed."""


def constant(text: str, derivatives: Derivatives = (None, None)) -> Value:
    """Return the value of a number shared by all DOFs."""
    return Value(text, is_lane=True, derivatives=derivatives)


def indented(lines: list[str], by: int = 1) -> list[str]:
    """Return ``lines``, indented by levels."""
    return [" " * 4 * by + line for line in lines]


class Lanes:
    """Lines written so far, and the open loop over lanes.

    Args:
        in_blocks: Whether a kernel's thread works on blocks of lanes.
        taken: Names that are in use.
    """

    def __init__(self, in_blocks: bool, taken: Iterable[str]):
        self.in_blocks = in_blocks
        self.lines: list[str] = []
        """Lines before the open loop."""
        self.loop: list[str] = []
        """Lines of the open loop."""
        self.closed_loops = 0
        self._taken = {*taken}

    def new(self, name: str) -> str:
        """Return a name that is not in use."""
        return new_name(name, self._taken)

    def is_new(self, name: str) -> bool:
        """Reserve a name; return False if it is in use."""
        if name in self._taken:
            return False
        self._taken.add(name)
        return True

    def at(self, value: Value) -> str:
        """Return the text of a value inside the loop."""
        return f"{value.name}[j]" if self.in_blocks and not value.is_lane else value.name

    def variable(self, name: str, text: str) -> Value:
        """Return a new variable of the current lane."""
        made = self.new(name)
        self.loop.append(f"{made} = {text}")
        return Value(made, is_lane=self.in_blocks)

    def keep(self, value: Value, name: str, declare: bool = True) -> Value:
        """Store a value of this lane for use after the loop; without ``declare``, in an existing variable."""
        if not self.in_blocks:
            if value.name != name:
                self.loop.append(f"{name} = {value.name}")
            return Value(name)
        if declare:
            self.lines.append(f"{name} = FloatBlock()")
        self.loop.append(f"{name}[j] = {value.name}")
        return Value(name)

    def close(self, tables: Iterable[MutableMapping[str, Value]] = (), needed: Iterable[str] = ()) -> None:
        """End the loop.

        Args:
            tables: Signals by name. Those computed in the loop are replaced by stored ones.
            needed: Signals to store.
        """
        kept: dict[str, Value] = {}
        for signals in tables:
            for signal in [name for name in signals if name in needed]:
                signals[signal] = self._kept(signal, signals[signal], kept)
        if self.loop:
            self.lines += ["for j in range(LANES):", *indented(self.loop)] if self.in_blocks else self.loop
        self.loop = []
        self.closed_loops += 1

    def _kept(self, signal: str, value: Value, kept: dict[str, Value]) -> Value:
        if not value.is_lane or value.name[0].isdigit():
            return value
        if value.name not in kept:
            sides = zip(("derivative_q", "derivative_qd"), value.derivatives, strict=True)
            derivatives = [None if s is None else self._kept(f"{signal}_{side}", s, kept) for side, s in sides]
            bounds = None
            if value.bounds is not None:
                lowest, highest = value.bounds
                bounds = self._kept(f"{signal}_lowest", lowest, kept), self._kept(f"{signal}_highest", highest, kept)
            made = self.keep(value, self.new(signal))
            kept[value.name] = dataclasses.replace(made, derivatives=(derivatives[0], derivatives[1]), bounds=bounds)
        return kept[value.name]

    def for_lanes(self, texts: Mapping[str, str], block: str) -> None:
        """Compute local vectors, by name, from the text for one lane, outside the open loop."""
        if self.in_blocks:
            self.lines += [f"{name} = {block}()" for name in texts]
            self.lines += ["for j in range(LANES):", *(f"    {name}[j] = {text}" for name, text in texts.items())]
        else:
            self.lines += [f"{name} = {text}" for name, text in texts.items()]
