# SPDX-License-Identifier: Apache-2.0
"""What picks a kernel: the stages of a chain, in order, and how it touches memory. No values."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import warp as wp

from ..errors import StructureError, listed
from .types import Flavour

SIGNALS = {
    "q": "pos",
    "qd": "vel",
    "target_q": "target_pos",
    "target_qd": "target_vel",
    "feedforward": "target_vel",
}
"""Signals that come from the simulation, and the indices they are read through."""

COMMANDS = ("target_q", "target_qd", "feedforward")
"""Those of them that are commands."""

FEEDBACK = ("q", "qd")
"""Those of them that are measured: a controller sees what sensors make of them, the motor what they are."""

CLIPPED = 1e-6
"""Share of the wanted effort that must be missing for a limit to have clipped it."""

LIMITED_BY = "limited_by"
"""A signal that the kernel makes itself: position of the last stage that limited the effort, or -1."""

SLOPES = ("effort_slope_q", "effort_slope_qd")
"""Signals that the kernel makes itself: derivatives of the effort by position [N·m/rad or N/m] and by velocity
[N·m·s/rad or N·s/m] of the joint, with commands, past values and states held still."""

BOUNDS = ("effort_min", "effort_max")
"""Signals that the kernel makes itself: what limits let through at this state [N·m or N]; infinite without one."""

TANGENT = (*SLOPES, *BOUNDS)
"""Signals that cost time, and are made where they are asked for by name."""

CONTROL_DT = "control_dt"
"""The time from one run of the controller to the next, where it does not run at every step."""

TIME_STEPS = ("dt", CONTROL_DT)

DIRECT = "direct"
"""Stands for the indices of an array that holds one value per DOF, in the order of the DOFs."""


@dataclass(frozen=True)
class Ring:
    """Past values of signals that a stage looks back at."""

    signals: tuple[str, ...]
    """What is remembered, and replaced by what it was."""
    lag: str = ""
    """The integer parameter that says how many steps ago, where no law does."""
    law: Any = None
    """A Warp function that says how long ago, for steps of any length: parameters, states, ``dt`` and ``gap``, the time
    since the last step, in; the age [s], how many of the last steps were as long as the last one, and new states out.
    The ring then remembers the length of each step too."""
    blends: bool = False
    """Whether a law's age is taken exactly, between two steps, and not what was held then."""

    @property
    def columns(self) -> int:
        """How many numbers are remembered of each step and DOF."""
        return len(self.signals) + (self.law is not None)


@dataclass(frozen=True)
class Network:
    """A function over blocks of DOFs that a law gets a signal from."""

    build: Any
    """Called with whether the kernel works in blocks, and whether it wants slopes, returns the Warp function. With
    slopes that gives a vector: the output of each lane, then its derivative by each input, one input after the other.
    """
    inputs: tuple[str, ...]
    """Its inputs, each an expression of signals in braces, such as ``"{target_q} - {q}"``."""
    output: str
    """The name by which the law asks for what it gives."""

    @functools.cached_property
    def signals(self) -> tuple[str, ...]:
        """The signals that its inputs are made of."""
        fields = (field for text in self.inputs for _, field, _, _ in string.Formatter().parse(text))
        return tuple(dict.fromkeys(field for field in fields if field))


@dataclass(frozen=True)
class Stage:
    """One component as the kernel sees it."""

    label: str
    """What to call it, e.g. ``"dc_motor"``."""
    law: Any = None
    """The Warp function: signals, parameters and states in; signals, outputs and new states out. None for a ring."""
    closing_law: Any = None
    """A law of the same parameters that is run after the last stage, in reverse order: back through a transmission."""
    closes: bool = False
    """Whether kernels of the component's own are run then instead."""
    closing_outputs: tuple[str, ...] = ()
    """Signals that the closing law adds, returned after the effort."""
    closing_states: tuple[str, ...] = ()
    """Those of the states whose new values the closing law returns, last, and not the law."""
    defaults: tuple[tuple[str, float], ...] = ()
    """Signals that it can do without, and what they are where nothing before it gives them."""
    params: tuple[str, ...] = ()
    """Parameters with one value per DOF."""
    integers: frozenset[str] = frozenset()
    """Those of them, and of the states of a ring's law, that are whole numbers."""
    tables: tuple[str, ...] = ()
    """Parameters shared by all DOFs, handed over whole."""
    states: tuple[str, ...] = ()
    """States with one value per DOF; the law returns their new values last."""
    returns: tuple[str, ...] = ("effort",)
    """The signals that the law returns first, in place of what they were."""
    outputs: tuple[str, ...] = ()
    """Signals that the law adds, for later stages and for telemetry; returned after ``returns``."""
    limits: bool = False
    """Whether it limits the effort, so that it is to blame for what is missing after it."""
    sensed: bool = False
    """Whether it sees, and changes, positions and velocities as sensors give them, and not as they are."""
    ring: Ring | None = None
    network: Network | None = None
    wide_states: tuple[str, ...] = ()
    """States of a network, arrays of whole rows of DOFs, which its function reads and writes itself."""
    custom_inputs: tuple[str, ...] = ()
    """Names of arrays in the simulation's control that it reads beside the usual ones, each by `custom_signal`."""
    time_step: str = "dt"
    """The number of a launch that its laws get as ``dt``: one of `TIME_STEPS`."""

    @property
    def asks(self) -> tuple[str, ...]:
        """All signals that it takes, ``dt`` included."""
        return (*self.asks_at_its_place, *(name for name in self.asks_at_the_end if name not in self.asks_at_its_place))

    @property
    def asks_at_its_place(self) -> tuple[str, ...]:
        """Signals that it takes before the next stage."""
        laws = (self.law, self.ring.law if self.ring is not None else None)
        names = [name for law in laws if law is not None for name in law.input_types]
        names += [*(self.network.signals if self.network is not None else ())]
        names += [*(self.ring.signals if self.ring is not None else ())]
        return self._without_own(names)

    @property
    def asks_at_the_end(self) -> tuple[str, ...]:
        """Signals that its closing law takes."""
        return self._without_own(self.closing_law.input_types if self.closing_law is not None else ())

    def _without_own(self, names: Iterable[str]) -> tuple[str, ...]:
        own = {*self.params, *self.tables, *self.states}
        if self.ring is not None and self.ring.law is not None:
            own.add("gap")
        if self.network is not None:
            own.add(self.network.output)
        return tuple(dict.fromkeys(name for name in names if name not in own))

    @property
    def read_params(self) -> tuple[str, ...]:
        """Those of ``params`` that a kernel reads: others are for the engine, or for files."""
        ring = self.ring
        laws = (self.law, self.closing_law, ring.law if ring is not None else None)
        asked = {ring.lag} if ring is not None else set()
        asked |= {name for law in laws if law is not None for name in law.input_types}
        return tuple(name for name in self.params if name in asked)

    @property
    def law_states(self) -> tuple[str, ...]:
        """The states whose new values the law returns."""
        return tuple(name for name in self.states if name not in self.closing_states)

    def closing(self) -> Stage | None:
        """What is run after the last stage, as a stage of its own."""
        if self.closing_law is None and not self.closes:
            return None
        return Stage(
            f"{self.label}_closing",
            self.closing_law,
            params=self.params,
            integers=self.integers,
            tables=self.tables,
            states=self.closing_states,
            outputs=self.closing_outputs,
            defaults=self.defaults,
        )

    def check(self) -> None:
        """Refuse a law that cannot be written, whatever stands around it."""
        self._check_spelling()
        for law in (self.law, self.closing_law):
            if law is not None:
                self._check_law(law)

    def _check_law(self, law: Any) -> None:
        if not hasattr(law, "input_types"):
            raise StructureError(f"law: got {law!r}; must be a function decorated with @wp.func")
        own = (*self.params, *self.tables, *self.states, *self.outputs, *self.closing_outputs)
        for name in own:
            if name in SIGNALS or name in ("effort", "dt") or own.count(name) > 1:
                raise StructureError(f"'{name}' is the name of a signal, or is declared twice; rename it")
        for name, kind in law.input_types.items():
            expected = (int, wp.int32) if name in self.integers else (float, wp.float32)
            if name not in self.tables and kind not in expected:
                raise StructureError(f"law '{law.key}': '{name}' is declared {kind}; must be {expected[0].__name__}")
        returned = (*self.returns, *self.outputs, *self.law_states)
        if law is not self.law:
            returned = ("effort", *self.closing_outputs, *self.closing_states)
            for name in self.law_states:
                if name in law.input_types:
                    raise StructureError(
                        f"law '{law.key}': takes the state '{name}', which the first law changes; name it in "
                        "CLOSING_STATES, or hand it on as one of OUTPUTS"
                    )
        for count in returned_counts(law):
            if count != len(returned):
                wanted = ", ".join(f"new {name}" if name in self.states else name for name in returned)
                raise StructureError(f"law '{law.key}': returns {count} values; must return {len(returned)}: {wanted}")

    def _check_spelling(self) -> None:
        written: dict[str, str] = {}
        for name in (*self.params, *self.tables, *self.states):
            endings = ("_", "_in", "_out", "_new") if name in self.states else ("", "_")
            for spelled in (name + ending for ending in endings):
                if spelled in written:
                    raise StructureError(
                        f"'{written[spelled]}' and '{name}' would both be '{spelled}' in a kernel; rename one"
                    )
                written[spelled] = name


def without(stage: Stage, absent: Sequence[str]) -> Stage:
    """The same stage with parameters per DOF that are left out: they are zeros that the compiler knows."""
    names = tuple(name for name in stage.params if name in absent)
    if not names:
        return stage
    zeros = tuple((name, 0 if name in stage.integers else 0.0) for name in names)
    left = tuple(name for name in stage.params if name not in names)
    return dataclasses.replace(stage, params=left, defaults=(*stage.defaults, *zeros))


def returned_counts(law: Any) -> list[int]:
    """How many values each ``return`` of a Warp function gives, as far as its text shows it."""
    if law.native_snippet is not None:
        return []
    nodes = list(ast.walk(law.adj.tree))
    returned = [node.value for node in nodes if isinstance(node, ast.Return)]
    assigned = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    counts = []
    for value in returned:
        shown = assigned.get(value.id) if isinstance(value, ast.Name) else value
        if not isinstance(shown, ast.Call):  # a call may give any number
            counts.append(0 if value is None else len(shown.elts) if isinstance(shown, ast.Tuple) else 1)
    return counts if returned else [0]


@dataclass(frozen=True)
class Write:
    """A signal that the kernel writes to an array, where that is not null."""

    signal: str
    adds: bool = False
    """Whether it is added to what is there."""
    scattered: bool = True
    """Whether it goes through the indices of efforts, or to an array of the DOFs in order."""
    after: int | None = None
    """Position of the stage after which it is taken. None: after the last."""
    sensed: bool = False
    """Whether it is a position or velocity as sensors give it."""


@dataclass(frozen=True)
class Structure:
    """What picks a kernel."""

    stages: tuple[Stage, ...]
    writes: tuple[Write, ...]
    flavour: Flavour = Flavour.SCALAR
    given: tuple[tuple[str, str], ...] = ()
    """Signals that are there before the first stage, and the indices they are read through, beside `SIGNALS`."""
    keeps_rings: bool = True
    """Whether rings of past signals get what is new. Without, a step can be tried at little cost."""

    @functools.cached_property
    def sources(self) -> Mapping[str, str]:
        """Where each signal comes from that no stage makes: the indices it is read through."""
        return sources(self.stages) | dict(self.given)

    @functools.cached_property
    def reads(self) -> tuple[str, ...]:
        """The signals that the kernel reads from arrays."""
        asked = {name for stage in self.stages for name in stage.asks} | {write.signal for write in self.writes}
        return tuple(name for name in self.sources if name in asked)

    @property
    def time_steps(self) -> tuple[str, ...]:
        """Those of `TIME_STEPS` that laws get."""
        asked = {stage.time_step for stage in self.stages if "dt" in stage.asks}
        return tuple(name for name in TIME_STEPS if name in asked)

    @property
    def has_slopes(self) -> bool:
        """Whether slopes of the effort are written."""
        return any(write.signal in SLOPES for write in self.writes)

    @property
    def has_rings(self) -> bool:
        return any(stage.ring is not None for stage in self.stages)

    def labelled(self) -> Iterator[tuple[int, Stage, str]]:
        """Stages with their position and a label that no other has, as a prefix of names."""
        clashes = any(
            other is not stage and (other.label == stage.label or other.label.startswith(f"{stage.label}_"))
            for stage, other in itertools.product(self.stages, repeat=2)
        )
        reserved = {"given", *SIGNALS.values(), "effort", "output", "computed", "kept"}
        clashes = clashes or any(stage.label in reserved for stage in self.stages)
        for position, stage in enumerate(self.stages):
            yield position, stage, f"stage{position}_{stage.label}" if clashes else stage.label

    def check(self) -> None:
        """Refuse a chain in which a stage asks for a signal that nothing before it gives."""
        check_order(((stage.label, stage) for stage in self.stages), self.sources)


def sources(stages: Iterable[Stage]) -> dict[str, str]:
    """The signals that stages can have from the simulation, and the indices they are read through."""
    return SIGNALS | {custom_signal(name): "vel" for stage in stages for name in stage.custom_inputs}


def custom_signal(name: str) -> str:
    """The signal that is read from an array ``name`` of the simulation's control."""
    return f"custom_{name}"


def check_order(stages: Iterable[tuple[str, Stage]], sources: Iterable[str]) -> None:
    """Refuse stages of which one asks for a signal that nothing before it gives.

    Args:
        stages: Stages in order, each with what to call it in an error.
        sources: The signals that are there before the first.
    """
    known = {*sources, "dt"}
    in_order = list(stages)

    def check(label: str, stage: Stage, names: Iterable[str]) -> None:
        for name in names:
            if name not in known and name not in dict(stage.defaults):
                raise StructureError(
                    f"{label} asks for '{name}', which is neither a parameter or state of its own nor a signal "
                    f"at this place of the chain; {listed(name, sorted(known), 'signals')}"
                )

    for label, stage in in_order:
        known |= {custom_signal(name) for name in stage.custom_inputs}
        check(label, stage, stage.asks_at_its_place)
        known |= {*stage.returns, *stage.outputs}
    for label, stage in reversed(in_order):
        check(f"the closing law of {label}", stage, stage.asks_at_the_end)
        known |= {*stage.closing_outputs}
