# SPDX-License-Identifier: Apache-2.0
"""Linearisation of a chain in its kernel: derivatives of the effort by position and velocity, and bounds of the limits.

Each signal carries its two derivatives from law to law, by the chain rule (see `forward_mode`). Commands, past values
and states are constant. The effort, and signals that laws of a stage derive from it, also carry two bounds: the results
of the laws, from the first limit on, for efforts of ±`HUGE`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import warp as wp

from .chain import BOUNDS, DERIVATIVES, Chain, Law, Network
from .forward_mode import VARIABLES, UnsupportedLaw, derivative_of, part_of_law
from .lanes import Derivatives, Lanes, Value, constant

HUGE = 1e20
"""An effort that every limit clips [N·m or N]."""

UNLIMITED = 1e12
"""Value from which a bound does not limit."""

SEEDS = {
    "q": (constant("1.0"), None),
    "qd": (None, constant("1.0")),
}
"""Derivatives of position and velocity themselves."""


class DerivativeWriter:
    """Writer of the linearisation, law by law.

    Args:
        lanes: Lines of the kernel.
        chain: The chain.
    """

    def __init__(self, lanes: Lanes, chain: Chain):
        self._lanes = lanes
        written = {write.signal for write in chain.writes}
        self.has_derivatives = chain.has_derivatives
        self.has_bounds = not written.isdisjoint(BOUNDS)
        self._asked = {"effort", *(name for stage in chain.stages for law in stage.all_laws for name in law.inputs)}
        self.functions: dict[str, Any] = {}
        """Objects other than laws that the lines refer to, by name."""

    def seeded(self, signal: str, value: Value) -> Value:
        """Return a signal of the simulation, with its derivatives."""
        return Value(value.name, value.is_lane, SEEDS[signal]) if self.has_derivatives and signal in SEEDS else value

    def derivatives_of(
        self, law: Law, called: str, arguments: Mapping[str, str], values: Mapping[str, Value]
    ) -> dict[str, Derivatives]:
        """Write the derivatives of the signals that a law returns, before its call.

        Args:
            law: The law.
            called: Name of the law in the kernel.
            arguments: Texts of its arguments for one lane, by name.
            values: Arguments that are signals.
        """
        if not self.has_derivatives:
            return {}
        derivatives = {name: values[name].derivatives for name in arguments if name in values}
        given = tuple((name, side) for name, by in derivatives.items() for side in (0, 1) if by[side] is not None)
        if not given:
            return {}
        try:
            function = derivative_of(law.function, given)
        except UnsupportedLaw:
            return self._by_grad(law, called, arguments, derivatives)
        name = f"{called}_derivatives"
        self.functions[name] = function.function
        made = [
            [self._lanes.new(f"{signal}_derivative_{side}") for side in VARIABLES]
            for signal in (*law.returns, *law.states)
        ]
        texts = [*arguments.values(), *(self._lanes.at(_there(derivatives[name][side])) for name, side in given)]
        self._lanes.loop.append(f"{', '.join(itertools.chain(*made))} = {name}({', '.join(texts)})")
        found: dict[str, Derivatives] = {}
        for signal, names, has in zip(law.returns, made, function.returned, strict=False):
            by = [Value(names[side], self._lanes.in_blocks) if has[side] else None for side in (0, 1)]
            found[signal] = by[0], by[1]
        return found

    def _by_grad(
        self, law: Law, called: str, arguments: Mapping[str, str], derivatives: Mapping[str, Derivatives]
    ) -> dict[str, Derivatives]:
        """Differentiate a law by `wp.grad`, if forward mode does not support it."""
        names, given = [], []
        for name, kind in law.function.input_types.items():
            text = arguments[name]
            is_array = isinstance(kind, wp.array)
            names += [f"{name}_at", f"{name}_length"] if is_array else [name]
            given += [f"{text}.ptr", f"{text}.shape[0]"] if is_array else [text]
        found = {}
        for place, signal in enumerate(law.returns):
            if signal in self._asked:
                alone = f"{called}_{signal}_alone"
                self.functions[alone] = part_of_law(law.function, place)
                partial = {name: self._lanes.new(f"{signal}_by_{name}") for name in names}
                self._lanes.loop.append(f"{', '.join(partial.values())} = wp.grad({alone})({', '.join(given)})")
                found[signal] = self._sums(signal, [(partial[name], by) for name, by in derivatives.items()])
        return found

    def derivatives_now(self, signal: str, now: Value, row: str, share: str) -> Derivatives:
        """Return the derivatives of a signal from a ring: zero for past values.

        Args:
            signal: Name of the signal.
            now: Value at this step, outside the loop over lanes.
            row: Rows of the ring.
            share: Share of the step before, if two are blended.
        """
        found: list[Value | None] = []
        for side, derivative in zip(("derivative_q", "derivative_qd"), now.derivatives, strict=True):
            if derivative is not None:
                name = self._lanes.new(f"{signal}_late_{side}")
                text = f"wp.where({self._lanes.at(Value(row))} == -1, {self._lanes.at(derivative)}, 0.0)"
                text += f" * (1.0 - {self._lanes.at(Value(share))})" if share else ""
                self._lanes.for_lanes({name: text}, "FloatBlock")
            found.append(None if derivative is None else Value(name))
        return found[0], found[1]

    def derivatives_of_network(self, output: str, network: Network, view: Mapping[str, Value]) -> Derivatives:
        """Return the derivatives of a network's output, outside the loop over lanes.

        Args:
            output: Name of the output.
            network: The network, whose inputs are sums and differences of signals.
            view: Signals by name.
        """
        found: list[Value | None] = []
        for side, name in enumerate(("derivative_q", "derivative_qd")):
            terms = []
            for place, text in enumerate(network.inputs):
                derivatives = {signal: view[signal].derivatives[side] for signal in view}
                if self.has_derivatives and any(
                    derivatives[signal] is not None for signal in network.signals if f"{{{signal}}}" in text
                ):
                    inner = {n: "0.0" if s is None else self._lanes.at(s) for n, s in derivatives.items()}
                    at = f"j + {place + 1} * LANES" if self._lanes.in_blocks else f"{place + 1}"
                    terms.append(f"{output}[{at}] * ({text.format(**inner)})")
            made = self._lanes.new(f"{output}_{name}") if terms else ""
            if terms:
                self._lanes.for_lanes({made: " + ".join(terms)}, "FloatBlock")
            found.append(Value(made) if terms else None)
        return found[0], found[1]

    def _sums(self, signal: str, terms: Sequence[tuple[str, Derivatives]]) -> Derivatives:
        """Return the derivatives of a signal: the sum of its partial derivatives times those of their variables."""
        sides: list[Value | None] = []
        for side, name in enumerate(("derivative_q", "derivative_qd")):
            texts = [
                factor if derivative.name == "1.0" else f"{factor} * {self._lanes.at(derivative)}"
                for factor, derivatives in terms
                if (derivative := derivatives[side]) is not None
            ]
            sides.append(self._lanes.variable(f"{signal}_{name}", " + ".join(texts)) if texts else None)
        return sides[0], sides[1]

    def start_bounds(self, signals: dict[str, Value]) -> None:
        """Set the bounds of the effort before the first limit to ±`HUGE`."""
        effort = signals.get("effort")
        if self.has_bounds and effort is not None and effort.bounds is None:
            bounds = constant(f"-{HUGE}"), constant(f"{HUGE}")
            signals["effort"] = Value(effort.name, effort.is_lane, effort.derivatives, bounds)

    def bounds_of(
        self, law: Law, called: str, arguments: Mapping[str, str], values: Mapping[str, Value], signals: Sequence[str]
    ) -> dict[str, tuple[Value, Value]]:
        """Write the bounds of signals that a law returns, before its call; none if no argument has bounds.

        Args:
            law: The law.
            called: Name of the law in the kernel.
            arguments: Texts of its arguments for one lane, by name.
            values: Arguments that are signals.
            signals: Results whose bounds are needed.
        """
        given = {name: values[name].bounds for name in arguments if name in values}
        bounds = {name: pair for name, pair in given.items() if pair is not None}
        if not bounds or not signals:
            return {}
        sides: list[dict[str, Value]] = []
        for side, prefix in enumerate(("lowest", "highest")):
            made = {name: self._lanes.new(f"{prefix}_{name}") for name in (*law.returns, *law.states)}
            texts = dict(arguments) | {name: self._lanes.at(pair[side]) for name, pair in bounds.items()}
            self._lanes.loop.append(f"{', '.join(made.values())} = {called}({', '.join(texts.values())})")
            sides.append({name: Value(made[name], is_lane=self._lanes.in_blocks) for name in signals})
        return {name: (sides[0][name], sides[1][name]) for name in signals}

    def finish(self, signals: dict[str, Value]) -> None:
        """Add the derivatives and bounds of the effort to the signals."""
        if self.has_derivatives:
            found = zip(DERIVATIVES, signals["effort"].derivatives, strict=True)
            signals |= {name: value or constant("0.0") for name, value in found}
        if self.has_bounds:
            bounds = signals["effort"].bounds
            if bounds is None:
                signals |= {BOUNDS[0]: constant("-wp.inf"), BOUNDS[1]: constant("wp.inf")}
                return
            one, other = (self._lanes.at(value) for value in bounds)
            lowest = self._lanes.variable("lowest", f"wp.min({one}, {other})").name
            highest = self._lanes.variable("highest", f"wp.max({one}, {other})").name
            lower = f"wp.where({lowest} < -{UNLIMITED}, -wp.inf, {lowest})"
            upper = f"wp.where({highest} > {UNLIMITED}, wp.inf, {highest})"
            signals[BOUNDS[0]] = self._lanes.variable(BOUNDS[0], lower)
            signals[BOUNDS[1]] = self._lanes.variable(BOUNDS[1], upper)


def _there(value: Value | None) -> Value:
    assert value is not None
    return value
