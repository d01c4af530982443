# SPDX-License-Identifier: Apache-2.0
"""The tangent of a chain, in its kernel: derivatives of the effort by position and velocity, and what limits allow.

Each signal carries its two slopes from law to law, by the chain rule (see `forward_mode`). Commands, past values and
states are constants. The lowest and highest effort are what laws from the first limit on make of efforts that are far
too large.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import warp as wp

from .forward_mode import SIDES, NotUnderstood, part_of_law, sloped
from .lanes import Lanes, Slopes, Value, constant
from .structure import BOUNDS, SLOPES, Network, Stage, Structure

HUGE = 1e20
"""An effort that every limit clips [N·m or N]."""

UNLIMITED = 1e12
"""From here on, what is left of it does not limit."""

SEEDS = {
    "q": (constant("1.0"), None),
    "qd": (None, constant("1.0")),
}
"""Slopes of position and velocity themselves."""


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
        self.functions: dict[str, Any] = {}
        """What the lines refer to beside the laws, by name."""

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
            signals: What it gives, before its states.
        """
        if not self.has_slopes:
            return {}
        slopes = {name: values[name].slopes for name in arguments if name in values}
        given = tuple((name, side) for name, by in slopes.items() for side in (0, 1) if by[side] is not None)
        if not given:
            return {}
        try:
            function = sloped(law, given)
        except NotUnderstood:
            return self._by_grad(law, called, arguments, slopes, signals)
        name = f"{called}_slopes"
        self.functions[name] = function.function
        made = [
            [self._lanes.new(f"{signal}_slope_{side}") for side in SIDES]
            for signal in (*signals, *["state"] * (len(function.returned) - len(signals)))
        ]
        texts = [*arguments.values(), *(self._lanes.at(_there(slopes[name][side])) for name, side in given)]
        self._lanes.loop.append(f"{', '.join(itertools.chain(*made))} = {name}({', '.join(texts)})")
        found: dict[str, Slopes] = {}
        for signal, names, has in zip(signals, made, function.returned, strict=False):
            by = [Value(names[side], self._lanes.in_blocks) if has[side] else None for side in (0, 1)]
            found[signal] = by[0], by[1]
        return found

    def _by_grad(
        self,
        law: Any,
        called: str,
        arguments: Mapping[str, str],
        slopes: Mapping[str, Slopes],
        signals: Sequence[str],
    ) -> dict[str, Slopes]:
        """The same by `wp.grad`, for laws that are not written in plain statements on numbers."""
        names, given = [], []
        for name, kind in law.input_types.items():
            text = arguments[name]
            is_array = isinstance(kind, wp.array)
            names += [f"{name}_at", f"{name}_length"] if is_array else [name]
            given += [f"{text}.ptr", f"{text}.shape[0]"] if is_array else [text]
        found = {}
        for place, signal in enumerate(signals):
            if signal in self._asked:
                alone = f"{called}_{signal}_alone"
                self.functions[alone] = part_of_law(law, place)
                partial = {name: self._lanes.new(f"{signal}_by_{name}") for name in names}
                self._lanes.loop.append(f"{', '.join(partial.values())} = wp.grad({alone})({', '.join(given)})")
                found[signal] = self._sums(signal, [(partial[name], by) for name, by in slopes.items()])
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

    def _sums(self, signal: str, terms: Sequence[tuple[str, Slopes]]) -> Slopes:
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


def _there(value: Value | None) -> Value:
    assert value is not None
    return value
