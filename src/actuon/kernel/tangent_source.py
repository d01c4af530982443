# SPDX-License-Identifier: Apache-2.0
"""The tangent of a chain, in its kernel: derivatives of the effort by position and velocity, and what limits allow.

Each signal carries its two slopes from law to law, by the chain rule; `wp.grad` gives the partial derivatives of a law.
Commands, past values and states are constants. The lowest and highest effort are what laws from the first limit on make
of efforts that are far too large.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Mapping, Sequence
from typing import Any

import warp as wp

from .lanes import Lanes, Slopes, Value, constant
from .structure import BOUNDS, SLOPES, Network, Stage, Structure

HUGE = 1e20
"""An effort that every limit clips [N·m or N]."""

UNLIMITED = 1e12
"""From here on, what is left of it is no limit."""

SEEDS = {
    "q": (constant("1.0"), None),
    "qd": (None, constant("1.0")),
}
"""Slopes of position and velocity themselves."""


def part_name(called: str, signal: str) -> str:
    """What the function is called in a kernel that gives one of the signals that a law returns."""
    return f"{called}_{signal}_alone"


@functools.cache
def part_of_law(law: Any, place: int, count: int) -> Any:
    """A Warp function that returns one of the values of a law: `wp.grad` sums over all that a function returns.

    It takes an array as its address and its length: `wp.grad` returns no arrays.
    """
    returned = [f"value{i}" for i in range(count)]
    key = f"{law.key}_value{place}"
    given, made = [], []
    for i, (name, kind) in enumerate(law.input_types.items()):
        if isinstance(kind, wp.array):
            given.append(f"{name}_at: wp.uint64, {name}_length: int")
            made.append(f"    {name} = wp.array(ptr={name}_at, shape=({name}_length,), dtype=type_{i})\n")
        else:
            given.append(f"{name}: type_{i}")
    source = f"""def {key}({", ".join(given)}):
{"".join(made)}    {", ".join(returned)} = law({", ".join(law.input_types)})
    return {returned[place]}
"""
    filename = f"<actuon {key} of {law.module.name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"wp": wp, "law": law, "__name__": __name__}
    kinds = (kind.dtype if isinstance(kind, wp.array) else kind for kind in law.input_types.values())
    namespace |= {f"type_{i}": kind for i, kind in enumerate(kinds)}
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)
    return wp.func(namespace[key])


def parts_of_laws(structure: Structure) -> dict[str, Any]:
    """What the text of a kernel with slopes refers to beside the laws, by name."""
    parts: dict[str, Any] = {}
    for _, stage, label in structure.labelled():
        laws = {
            label: (stage.law, (*stage.returns, *stage.outputs), stage.law_states),
            f"{label}_closing": (stage.closing_law, ("effort", *stage.closing_outputs), stage.closing_states),
        }
        for called, (law, signals, states) in laws.items():
            if law is not None:
                count = len(signals) + len(states)
                parts |= {part_name(called, s): part_of_law(law, i, count) for i, s in enumerate(signals)}
    return parts


class Tangent:
    """Writes it, law by law, beside the laws themselves.

    Args:
        lanes: Where to.
        structure: The chain.
    """

    def __init__(self, lanes: Lanes, structure: Structure):
        self._lanes = lanes
        written = {write.signal for write in structure.writes}
        self.has_slopes = structure.has_slopes
        self.has_bounds = not written.isdisjoint(BOUNDS)
        self._asked = {"effort", *(name for stage in structure.stages for name in stage.asks)}
        self._bounds: tuple[Value, Value] | None = None

    def seeded(self, signal: str, value: Value) -> Value:
        """A signal of the simulation, with its slopes."""
        return Value(value.name, value.is_lane, SEEDS[signal]) if self.has_slopes and signal in SEEDS else value

    def slopes_of(
        self, law: Any, called: str, arguments: Mapping[str, str], values: Mapping[str, Value], signals: Sequence[str]
    ) -> dict[str, Slopes]:
        """Write the slopes of signals that a law is about to give.

        Args:
            law: The law.
            called: What it is called.
            arguments: What it gets, as texts for one lane, by the name of the argument.
            values: Those of them that have slopes.
            signals: What it gives.
        """
        sloped = {name: values[name].slopes for name in arguments if name in values and any(values[name].slopes)}
        if not self.has_slopes or not sloped:
            return {}
        names, given = [], []
        for name, kind in law.input_types.items():
            text = arguments[name]
            is_array = isinstance(kind, wp.array)
            names += [f"{name}_at", f"{name}_length"] if is_array else [name]
            given += [f"{text}.ptr", f"{text}.shape[0]"] if is_array else [text]
        found = {}
        for signal in signals:
            if signal in self._asked:
                partial = {name: self._lanes.new(f"{signal}_by_{name}") for name in names}
                call = f"wp.grad({part_name(called, signal)})({', '.join(given)})"
                self._lanes.loop.append(f"{', '.join(partial.values())} = {call}")
                chained = {name: (partial[name], slopes) for name, slopes in sloped.items()}
                found[signal] = self.sums(signal, list(chained.values()))
        return found

    def slopes_now(self, signal: str, now: Value, row: str, share: str) -> Slopes:
        """Slopes of a signal out of a ring: its own where it is that of this step, else none.

        Args:
            signal: Its name.
            now: What it is at this step, outside the loop over lanes.
            row: Rows of the ring.
            share: Of the step before, where two are blended.
        """
        found: list[Value | None] = []
        for side, slope in zip(("slope_q", "slope_qd"), now.slopes, strict=True):
            if slope is not None:
                name = self._lanes.new(f"{signal}_late_{side}")
                text = f"wp.where({self._lanes.at(Value(row))} == -1, {self._lanes.at(slope)}, 0.0)"
                text += f" * (1.0 - {self._lanes.at(Value(share))})" if share else ""
                self._lanes.for_lanes({name: text}, "FloatBlock")
            found.append(None if slope is None else Value(name))
        return found[0], found[1]

    def slopes_of_network(self, output: str, network: Network, view: Mapping[str, Value]) -> Slopes:
        """Slopes of what a network gave, outside the loop over lanes.

        Args:
            output: What it is called.
            network: The network, whose inputs are sums and differences of signals.
            view: The signals.
        """
        found: list[Value | None] = []
        for side, name in enumerate(("slope_q", "slope_qd")):
            terms = []
            for place, text in enumerate(network.inputs):
                slopes = {signal: view[signal].slopes[side] for signal in view}
                if self.has_slopes and any(
                    slopes[signal] is not None for signal in network.signals if f"{{{signal}}}" in text
                ):
                    inner = {n: "0.0" if s is None else self._lanes.at(s) for n, s in slopes.items()}
                    at = f"j + {place + 1} * LANES" if self._lanes.in_blocks else f"{place + 1}"
                    terms.append(f"{output}[{at}] * ({text.format(**inner)})")
            made = self._lanes.new(f"{output}_{name}") if terms else ""
            if terms:
                self._lanes.for_lanes({made: " + ".join(terms)}, "FloatBlock")
            found.append(Value(made) if terms else None)
        return found[0], found[1]

    def sums(self, signal: str, terms: Sequence[tuple[str, Slopes]]) -> Slopes:
        """Slopes of a signal: of factors, each times the slopes of what it is the derivative by."""
        sides: list[Value | None] = []
        for side, name in enumerate(("slope_q", "slope_qd")):
            texts = [
                factor if slope.name == "1.0" else f"{factor} * {self._lanes.at(slope)}"
                for factor, slopes in terms
                if (slope := slopes[side]) is not None
            ]
            sides.append(self._lanes.variable(f"{signal}_{name}", " + ".join(texts)) if texts else None)
        return sides[0], sides[1]

    def bound(self, stage: Stage, called: str, arguments: Mapping[str, str], returned: int, closing: bool) -> None:
        """Write what a law makes of the lowest and the highest effort before it."""
        if not self.has_bounds or (self._bounds is None and (closing or not stage.limits)):
            return
        if not closing and "effort" not in stage.returns:
            return
        if "effort" not in arguments:
            self._bounds = None  # it makes an effort of its own
            return
        sides = []
        before = self._bounds or (constant(f"-{HUGE}"), constant(f"{HUGE}"))
        for name, value in zip(("lowest", "highest"), before, strict=True):
            made = [self._lanes.new(f"{name}_effort"), *(self._lanes.new(f"{name}_other") for _ in range(returned - 1))]
            given = ", ".join((dict(arguments) | {"effort": self._lanes.at(value)}).values())
            self._lanes.loop.append(f"{', '.join(made)} = {called}_law({given})")
            sides.append(Value(made[0], is_lane=self._lanes.in_blocks))
        self._bounds = sides[0], sides[1]

    def keep_bounds(self, signals: dict[str, Value]) -> None:
        """Put the bounds among the signals, so that they outlast the loop over lanes."""
        if self._bounds is not None:
            signals |= dict(zip(BOUNDS, self._bounds, strict=True))

    def take_bounds(self, signals: Mapping[str, Value]) -> None:
        """Go on with the bounds as they are among the signals."""
        if self._bounds is not None:
            self._bounds = signals[BOUNDS[0]], signals[BOUNDS[1]]

    def finish(self, signals: dict[str, Value]) -> None:
        """Make signals of the slopes of the effort, and of its bounds."""
        if self.has_slopes:
            found = zip(SLOPES, signals["effort"].slopes, strict=True)
            signals |= {name: value or constant("0.0") for name, value in found}
        if self.has_bounds:
            if self._bounds is None:
                signals |= {BOUNDS[0]: constant("-wp.inf"), BOUNDS[1]: constant("wp.inf")}
                return
            one, other = (self._lanes.at(value) for value in self._bounds)
            lowest = self._lanes.variable("lowest", f"wp.min({one}, {other})").name
            highest = self._lanes.variable("highest", f"wp.max({one}, {other})").name
            lower = f"wp.where({lowest} < -{UNLIMITED}, -wp.inf, {lowest})"
            upper = f"wp.where({highest} > {UNLIMITED}, wp.inf, {highest})"
            signals[BOUNDS[0]] = self._lanes.variable(BOUNDS[0], lower)
            signals[BOUNDS[1]] = self._lanes.variable(BOUNDS[1], upper)
