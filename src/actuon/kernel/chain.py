# SPDX-License-Identifier: Apache-2.0
"""`Chain`, the key of a kernel: stages in order and access to memory, without values."""

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
from .types import DENSE, Flavour, Tile

SIGNALS = {
    "q": "pos",
    "qd": "vel",
    "target_q": "target_pos",
    "target_qd": "target_vel",
    "feedforward": "target_vel",
}
"""Signals from the simulation, and the indices through which they are read."""

COMMANDS = ("target_q", "target_qd", "feedforward")
"""Commands among `SIGNALS`."""

FEEDBACK = ("q", "qd")
"""Measured signals among `SIGNALS`: controllers receive them from sensors, all other stages receive the true values."""

JOINT_SIGNALS = {"joint_q": "q", "joint_qd": "qd"}
"""Position and velocity of the joint on both sides of a transmission, by the signals that they are before the first."""

ERRORS = {"position_error": ("target_q", "joint_q"), "velocity_error": ("target_qd", "joint_qd")}
"""Errors at the joint on both sides of a transmission: a command minus a signal of the joint."""

CLIPPED = 1e-6
"""Smallest fraction of the requested effort that a limit removes if it counts as active."""

LIMITED_BY = "limited_by"
"""Signal of the kernel: position of the last stage that limited the effort, or -1."""

DERIVATIVES = ("effort_derivative_q", "effort_derivative_qd")
"""Signals of the kernel: derivatives of the effort by joint position [N·m/rad or N/m] and velocity [N·m·s/rad or
N·s/m], at constant commands, past values and states."""

BOUNDS = ("effort_min", "effort_max")
"""Signals of the kernel: bounds that the limits allow at this state [N·m or N]; infinite without limits."""

IMPLICIT_SIGNALS = (*DERIVATIVES, *BOUNDS)
"""Signals that cost time, and are computed only if named."""

CONTROL_DT = "control_dt"
"""Time from one run of a controller with decimation to the next."""

TIME_STEPS = ("dt", CONTROL_DT)

HELD = -1
"""Position of the states of a controller with decimation, instead of that of a stage."""
CLOCK = "clock"
"""Steps since a controller with decimation last ran. It runs at 0."""


def held(signal: str) -> str:
    """Return the name of the state that holds a signal of the controller."""
    return f"held_{signal}"


DIRECT = "direct"
"""Name of the indices of an array with one value per DOF, in the order of the DOFs."""


@dataclass(frozen=True)
class Ring:
    """Past values of signals, for stages with a delay."""

    signals: tuple[str, ...]
    """Signals that are stored, and replaced by their past values."""
    lag: str = ""
    """Integer parameter with the delay in steps, if ``law`` is None."""
    law: Any = None
    """Warp function of the age to look back, for steps of any length. Takes parameters, states, ``dt`` and ``gap``, the
    time since the last step. Returns the age [s], the number of last steps of equal length, and new states. The ring
    then also stores the length of each step."""
    blends: bool = False
    """Whether values are interpolated at exactly the law's age, instead of held from the step before it."""

    @property
    def columns(self) -> int:
        """Number of values per step and DOF."""
        return len(self.signals) + (self.law is not None)


@dataclass(frozen=True)
class Network:
    """A function over blocks of DOFs whose output is an input of a law."""

    build: Any
    """Builder of the Warp function. Takes the lanes of a block, 0 for single DOFs, and whether to return derivatives: a
    vector of the output of each lane, then its derivative by each input."""
    inputs: tuple[str, ...]
    """Expressions of signals in braces, one per input, such as ``"{target_q} - {q}"``."""
    output: str
    """Name of the law's argument that gets the output."""

    @functools.cached_property
    def signals(self) -> tuple[str, ...]:
        """The signals in its inputs."""
        fields = (field for text in self.inputs for _, field, _, _ in string.Formatter().parse(text))
        return tuple(dict.fromkeys(field for field in fields if field))


@dataclass(frozen=True)
class Law:
    """An equation of a stage."""

    function: Any
    """Warp function of signals, parameters and states, by the names of its arguments. None if the component runs its
    own kernels instead."""
    returns: tuple[str, ...] = ("effort",)
    """Signals that it returns first."""
    states: tuple[str, ...] = ()
    """States whose new values it returns after them."""

    def __post_init__(self) -> None:
        if self.function is not None and not hasattr(self.function, "input_types"):
            raise StructureError(f"law: got {self.function!r}; must be a function decorated with @wp.func")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the arguments."""
        return tuple(self.function.input_types) if self.function is not None else ()


@dataclass(frozen=True)
class Stage:
    """A component as the kernel sees it."""

    label: str
    """Name in the kernel, e.g. ``"dc_motor"``."""
    laws: tuple[Law, ...] = ()
    """Laws in order; a later one takes the results of earlier ones. Empty if the stage is only a ring, or runs its own
    kernels."""
    closing: Law | None = None
    """Law of the same parameters that runs after the last stage, in reverse order: back through a transmission."""
    signals: tuple[str, ...] = ("effort",)
    """Signals for later stages and telemetry. Other results of a law are local to the stage."""
    defaults: tuple[tuple[str, float], ...] = ()
    """Optional input signals, and their values if no earlier stage returns them."""
    params: tuple[str, ...] = ()
    """Parameters with one value per DOF."""
    integers: frozenset[str] = frozenset()
    """Whole numbers among ``params`` and the states of a ring's law."""
    tables: tuple[str, ...] = ()
    """Parameters shared by all DOFs, passed as whole arrays."""
    states: tuple[str, ...] = ()
    """States with one value per DOF."""
    limits: bool = False
    """Whether it limits the effort, so that ``limited_by`` names it if it reduces the effort."""
    sensed: bool = False
    """Whether it reads and changes the measured positions and velocities instead of the true ones."""
    ring: Ring | None = None
    network: Network | None = None
    wide_states: tuple[str, ...] = ()
    """States of a network, arrays of whole rows of DOFs, which its function reads and writes itself."""
    wide_rows: tuple[int, ...] = ()
    """Number of rows of each of ``wide_states``."""
    custom_inputs: tuple[str, ...] = ()
    """Names of further arrays in the simulation's control that it reads, each as `custom_signal`."""
    time_step: str = "dt"
    """Time step that its laws get as ``dt``: one of `TIME_STEPS`."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Signals that it adds to those of every chain."""
        return tuple(name for name in self.signals if name not in SIGNALS and name != "effort")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Signals that it takes, including ``dt``."""
        return (*self.law_inputs, *(name for name in self.closing_inputs if name not in self.law_inputs))

    @property
    def law_inputs(self) -> tuple[str, ...]:
        """Signals that it takes before the next stage."""
        ring, network = self.ring, self.network
        names = [*ring.law.input_types] if ring is not None and ring.law is not None else []
        names += [*(network.signals if network is not None else ()), *(ring.signals if ring is not None else ())]
        made: set[str] = set()
        for law in self.laws:
            names += [name for name in law.inputs if name not in made]
            made |= {*law.returns}
        return self._without_own(names)

    @property
    def closing_inputs(self) -> tuple[str, ...]:
        """Signals that its closing law takes."""
        return self._without_own(self.closing.inputs if self.closing is not None else ())

    def _without_own(self, names: Iterable[str]) -> tuple[str, ...]:
        own = {*self.params, *self.tables, *self.states}
        if self.ring is not None and self.ring.law is not None:
            own.add("gap")
        if self.network is not None:
            own.add(self.network.output)
        return tuple(dict.fromkeys(name for name in names if name not in own))

    @property
    def read_params(self) -> tuple[str, ...]:
        """Parameters that a kernel reads; others are for the engine, or for files."""
        ring = self.ring
        asked = {ring.lag} if ring is not None else set()
        asked |= {*ring.law.input_types} if ring is not None and ring.law is not None else set()
        asked |= {name for law in self.all_laws for name in law.inputs}
        return tuple(name for name in self.params if name in asked)

    @property
    def all_laws(self) -> tuple[Law, ...]:
        """All laws, including the closing one."""
        return self.laws if self.closing is None else (*self.laws, self.closing)

    def named_laws(self, label: str) -> dict[str, Law]:
        """Return the laws in order, by name in a kernel in which the stage has this ``label``."""
        if len(self.laws) == 1:
            return {f"{label}_law": self.laws[0]}
        own = (*self.params, *self.tables, *self.states)
        keys = (law.function.key for law in self.laws)
        names = (f"{label}_{key}_law" if key in own else f"{label}_{key}" for key in keys)
        return dict(zip(names, self.laws, strict=True))

    def closing_stage(self) -> Stage | None:
        """Return the closing law as a separate stage; None without one."""
        if self.closing is None:
            return None
        return Stage(
            f"{self.label}_closing",
            (self.closing,),
            signals=self.closing.returns,
            params=self.params,
            integers=self.integers,
            tables=self.tables,
            states=self.closing.states,
            defaults=self.defaults,
            custom_inputs=self.custom_inputs,
        )

    def check(self) -> None:
        """Raise if the laws cannot be written into any kernel."""
        if not self.laws:
            return
        self._check_spelling()
        self._check_names()
        for law in self.all_laws:
            if law.function is not None:
                self._check_law(law)

    def _check_names(self) -> None:
        local = dict.fromkeys(name for law in self.laws for name in law.returns if name not in self.signals)
        closing = self.closing.returns if self.closing is not None else ()
        own = (*self.params, *self.tables, *self.states, *self.outputs, *local)
        own += tuple(name for name in closing if name != "effort")
        for name in own:
            if name in _BUILT_IN or (name in ERRORS and name not in local) or own.count(name) > 1:
                raise StructureError(f"'{name}' is declared twice, or is the name of a built-in signal; rename it")
        if len(self.named_laws("")) < len(self.laws):
            names = ", ".join(law.function.key for law in self.laws)
            raise StructureError(f"laws: got {names}; the functions must have different names")

    def _check_law(self, law: Law) -> None:
        function = law.function
        for name, kind in function.input_types.items():
            expected = (int, wp.int32) if name in self.integers else (float, wp.float32)
            if name not in self.tables and kind not in expected:
                raise StructureError(
                    f"law '{function.key}': '{name}' is declared {kind}; must be {expected[0].__name__}"
                )
        if law is self.closing:
            for name in (name for first in self.laws for name in first.states):
                if name in law.inputs:
                    raise StructureError(
                        f"law '{function.key}': takes the state '{name}', which the first stage function changes; "
                        "add it to CLOSING_STATES, or return it as one of OUTPUTS"
                    )
        returned = (*law.returns, *law.states)
        for count in returned_counts(function):
            if count != len(returned):
                wanted = ", ".join(f"new {name}" if name in self.states else name for name in returned)
                raise StructureError(
                    f"law '{function.key}': returns {count} values; must return {len(returned)}: {wanted}"
                )

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
    """Return the stage with absent parameters replaced by constant zeros."""
    names = tuple(name for name in stage.params if name in absent)
    if not names:
        return stage
    zeros = tuple((name, 0 if name in stage.integers else 0.0) for name in names)
    left = tuple(name for name in stage.params if name not in names)
    return dataclasses.replace(stage, params=left, defaults=(*stage.defaults, *zeros))


@functools.cache
def returned_counts(law: wp.Function) -> tuple[int, ...]:
    """Return the number of values of each ``return`` of a Warp function, as far as its source shows it."""
    if law.native_snippet is not None:
        return ()
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
    return tuple(counts) if returned else (0,)


@dataclass(frozen=True)
class Write:
    """A signal that the kernel writes to an array, unless that is null."""

    signal: str
    may_add: bool = False
    """Whether the launch's argument ``adds`` decides if the kernel adds to the array. Otherwise it overwrites it."""
    is_double: bool = False
    """Whether the array holds float64."""
    scattered: bool = True
    """Whether it is written through the indices of efforts, instead of in the order of the DOFs."""
    after: int | None = None
    """Position of the stage after which the signal is taken. None: after the last."""
    sensed: bool = False
    """Whether it is a measured position or velocity, after sensors."""


_BUILT_IN = {*SIGNALS, *JOINT_SIGNALS, "effort", "dt"}
_RESERVED = {*SIGNALS.values(), "given", "target", "effort", "output", "computed", "kept", "control"}
_RESERVED |= {"in", "row", "tile", "floats", "ints", "longs"}
"""Prefixes of the kernel's own names, such as ``tile_size``."""


@dataclass(frozen=True)
class Chain:
    """Structure of an actuator's stages that selects its kernel."""

    stages: tuple[Stage, ...]
    writes: tuple[Write, ...]
    flavour: Flavour = Flavour.SCALAR
    given: tuple[tuple[str, str], ...] = ()
    """Further signals available before the first stage, and the indices through which they are read."""
    keeps_rings: bool = True
    """Whether new values are written to rings. Trial steps of a solver write none."""
    doubles: frozenset[str] = frozenset()
    """Signals that are read from arrays of float64."""
    held: int | None = None
    """Position of a controller that does not run at every step; its signals are held in between."""
    tile: Tile = DENSE
    """DOFs of a thread over blocks of lanes, and layout of rings in memory."""

    @functools.cached_property
    def sources(self) -> Mapping[str, str]:
        """Signals from the simulation, and the indices through which they are read."""
        return sources(self.stages) | dict(self.given)

    @functools.cached_property
    def reads(self) -> tuple[str, ...]:
        """Signals that the kernel reads from arrays."""
        asked = {name for stage in self.stages for name in stage.inputs} | {write.signal for write in self.writes}
        asked |= {JOINT_SIGNALS[name] for name in asked & JOINT_SIGNALS.keys() - self.sources.keys()}
        return tuple(name for name in self.sources if name in asked)

    @property
    def time_steps(self) -> tuple[str, ...]:
        """Time steps that laws take."""
        asked = {stage.time_step for stage in self.stages if "dt" in stage.inputs}
        return tuple(name for name in TIME_STEPS if name in asked)

    @property
    def has_derivatives(self) -> bool:
        """Whether derivatives of the effort are written."""
        return any(write.signal in DERIVATIVES for write in self.writes)

    @property
    def is_wide(self) -> bool:
        """Whether its kernel uses 512-bit vectors: with networks over many DOFs, but not beside an engine."""
        return not self.tile.is_robot and any(stage.network is not None for stage in self.stages)

    @property
    def held_signals(self) -> tuple[str, ...]:
        """Signals of a controller that are held between its runs."""
        if self.held is None:
            return ()
        return self.stages[self.held].signals

    def labelled(self) -> Iterator[tuple[int, Stage, str]]:
        """Yield the stages with their position and a unique label, as a prefix of names."""
        clashes = any(
            other is not stage and (other.label == stage.label or other.label.startswith(f"{stage.label}_"))
            for stage, other in itertools.product(self.stages, repeat=2)
        )
        clashes = clashes or any(stage.label in _RESERVED for stage in self.stages)
        for position, stage in enumerate(self.stages):
            yield position, stage, f"stage{position}_{stage.label}" if clashes else stage.label

    def check(self) -> None:
        """Raise if a stage cannot be written, or takes a signal that no earlier stage returns."""
        check_stages(((stage.label, stage) for stage in self.stages), self.sources)


def sources(stages: Iterable[Stage]) -> dict[str, str]:
    """Return the signals that stages can read from the simulation, and the indices through which they are read."""
    return SIGNALS | {custom_signal(name): "vel" for stage in stages for name in stage.custom_inputs}


def custom_signal(name: str) -> str:
    """Return the name of the signal from array ``name`` of the simulation's control."""
    return f"custom_{name}"


def check_stages(stages: Iterable[tuple[str, Stage]], sources: Iterable[str]) -> None:
    """Raise if a stage cannot be written, or takes a signal that no earlier stage returns.

    Args:
        stages: Stages in order, each with its name in an error.
        sources: Signals available before the first stage.
    """
    everywhere = dict.fromkeys((*JOINT_SIGNALS, *ERRORS))
    known = {*sources, *JOINT_SIGNALS, "dt"}
    in_order = list(stages)

    def check(label: str, stage: Stage, names: Iterable[str]) -> None:
        for name in names:
            if name not in known and name not in dict(stage.defaults):
                raise StructureError(
                    f"{label} needs '{name}', which is neither its parameter or state nor a signal of an earlier "
                    f"stage; {listed(name, [*sorted(known - everywhere.keys()), *everywhere], 'signals')}"
                )

    for label, stage in in_order:
        stage.check()
        known |= {custom_signal(name) for name in stage.custom_inputs}
        check(label, stage, stage.law_inputs)
        known |= {*stage.signals}
    for label, stage in reversed(in_order):
        check(f"the closing function of {label}", stage, stage.closing_inputs)
        known |= {*stage.closing.returns} if stage.closing is not None else set()
