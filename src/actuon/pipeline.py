# SPDX-License-Identifier: Apache-2.0
"""Structure → kernel: writes, builds and caches the one kernel that runs a whole chain.

A kernel is picked by *structure*: which laws, in which order, with a delay or not, and how it touches memory. Values
are arguments. The kernel is written as Python source, since Warp has no variadic kernels; `kernel_source` returns it
for reading.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import warp as wp

from . import memory
from .errors import StructureError
from .memory import block, scalar

SIGNALS = {
    "q": "pos",
    "qd": "vel",
    "target_q": "target_pos",
    "target_qd": "target_vel",
    "feedforward": "target_vel",
}
"""Array signals a law may ask for by name, and the indices they are read through."""

COMMANDS = ("target_q", "target_qd", "feedforward")
"""The signals that a delay holds back, in the order of its rings."""

CONTROLLER_SIGNALS = frozenset({*SIGNALS, "dt"})
CLAMPING_SIGNALS = frozenset({"effort", "q", "qd"})
"""What the law of either kind may ask for, besides its parameters and states."""


class Flavour(Enum):
    """How a kernel touches memory."""

    BLOCK = "block"
    """Blocks of lanes: CPU, contiguous arrays, no gradient."""
    SCALAR = "scalar"
    """One DOF per thread: CUDA, or strided arrays."""
    GRAD = "grad"
    """One DOF per thread, with an adjoint and a delay ring that is always copied whole."""


@dataclass(frozen=True)
class Stage:
    """One component as the kernel sees it."""

    name: str
    """Prefix of its arguments, e.g. ``"controller"``."""
    law: Any
    """The Warp function: signals, parameters and states in, effort (and new states) out."""
    params: tuple[str, ...] = ()
    """Parameters with one value per DOF."""
    integers: frozenset[str] = frozenset()
    """Those of them that are whole numbers."""
    tables: tuple[str, ...] = ()
    """Parameters shared by all DOFs, handed over whole."""
    states: tuple[str, ...] = ()
    """States with one value per DOF; the law returns their new values after the effort."""
    network: Any = None
    """Builds the functions of a network, by flavour, that turns position error and velocity into ``network_effort``."""
    network_states: tuple[str, ...] = ()
    """States of the network, arrays of whole rows of DOFs, which its function reads and writes itself."""

    signals: frozenset[str] = CONTROLLER_SIGNALS
    """The signals that the law may ask for."""

    def arguments(self) -> Iterator[str]:
        """The law's argument names, each checked to be something the chain can supply."""
        if not hasattr(self.law, "input_types"):
            raise StructureError(f"law: got {self.law!r}; must be a function decorated with @wp.func")
        own = (*self.params, *self.tables, *self.states)
        taken = [name for name in own if name in SIGNALS or name in ("effort", "dt") or own.count(name) > 1]
        if taken:
            raise StructureError(f"'{taken[0]}' is the name of a signal, or is declared twice; name it otherwise")
        known = {*self.signals, *own}
        if self.network is not None:
            known.add("network_effort")
        self._check_spelling()
        for name, kind in self.law.input_types.items():
            if name not in known:
                raise StructureError(
                    f"law '{self.law.key}' asks for '{name}', which is no signal, parameter or state; "
                    f"it may ask for: {', '.join(sorted(known))}"
                )
            expected = (int, wp.int32) if name in self.integers else (float, wp.float32)
            if name not in self.tables and kind not in expected:
                raise StructureError(
                    f"law '{self.law.key}': '{name}' is declared {kind}; must be {expected[0].__name__}"
                )
            yield name

    def _check_spelling(self) -> None:
        """Refuse names that would meet in the kernel, and a law that returns too few or too many values."""
        written: dict[str, str] = {}
        for name in (*self.params, *self.tables, *self.states):
            endings = ("_", "_in", "_out", "_new") if name in self.states else ("", "_")
            for spelled in (name + ending for ending in endings):
                if spelled in written:
                    raise StructureError(
                        f"law '{self.law.key}': '{written[spelled]}' and '{name}' would both be '{spelled}' in the "
                        "kernel; rename one"
                    )
                written[spelled] = name
        expected = 1 + len(self.states)
        for count in _returned_counts(self.law):
            if count != expected:
                wanted = ", ".join(["the effort", *(f"the new {name}" for name in self.states)])
                raise StructureError(f"law '{self.law.key}': returns {count} values; must return {expected}: {wanted}")


def _returned_counts(law: Any) -> list[int]:
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
class Structure:
    """What picks a kernel."""

    stages: tuple[Stage, ...]
    delay: bool = False
    flavour: Flavour = Flavour.SCALAR
    effort_given: bool = False
    """The first stage gets its effort from an array instead of making one."""
    adds: bool = True
    """The effort is added to the output, and not written over it."""

    @functools.cached_property
    def signals(self) -> tuple[str, ...]:
        """The array signals that the kernel reads."""
        used = {name for stage in self.stages for name in stage.arguments()}
        if any(stage.network is not None for stage in self.stages):
            used |= {"q", "qd", "target_q"}
        return tuple(name for name in SIGNALS if name in used or (self.delay and name in COMMANDS))

    @property
    def uses_dt(self) -> bool:
        return any("dt" in stage.law.input_types for stage in self.stages)


@dataclass(frozen=True)
class Program:
    """A built kernel and the names of its arguments, in order."""

    structure: Structure
    kernel: Any
    arguments: tuple[str, ...]


@functools.cache
def program(structure: Structure) -> Program:
    """Return the kernel for ``structure``; written once per process, compiled once per machine."""
    source, arguments = kernel_source(structure)
    filename = f"<actuon {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = _namespace(structure)
    exec(compile(source, filename, "exec"), namespace)
    kernel = wp.kernel(
        namespace["actuator_step"],
        enable_backward=structure.flavour is Flavour.GRAD,
        module="unique",
        module_options=module_options(structure.flavour),
    )
    return Program(structure, kernel, arguments)


def module_options(flavour: Flavour) -> dict[str, Any]:
    """Compile options of a kernel.

    Multiplications and additions stay separate (``fuse_fp``), so that each path through the library gives the same
    bits. Leaving an unused number type out of Warp's headers takes a third off the first compilation.
    """
    flags = wp.config.cpu_compiler_flags
    flags = "-march=native" if flags is None else flags
    options = {
        "fuse_fp": False,
        "cpu_compiler_flags": f"{flags} -DWP_NO_BFLOAT16= -mprefer-vector-width=512",
    }
    if flavour is Flavour.BLOCK:
        options["max_unroll"] = 1
    return options


def _namespace(structure: Structure) -> dict[str, Any]:
    access = block if structure.flavour is Flavour.BLOCK else scalar
    networks = {f"{s.name}_network": s.network(access is block) for s in structure.stages if s.network is not None}
    return {
        **networks,
        "wp": wp,
        **access.FUNCTIONS,
        **{f"{stage.name}_law": stage.law for stage in structure.stages},
        **{name: getattr(memory, name) for name in ("Floats", "Ints", "Longs", "Indices", "FloatBlock", "IntBlock")},
        **{name: getattr(memory, name) for name in ("LANES", "BLOCKS", "CELL")},
        "ring_offset": ring_offset,
    }


@wp.func
def ring_offset(lag: int, pushes: int, newest: int, depth: int, n: int):
    """Where the ring row of ``lag`` steps ago starts, or the oldest row there is; `memory.CURRENT` if there is none."""
    back = wp.min(lag, pushes)
    row = newest - back + 1
    row = wp.where(row < 0, row + depth, row)
    return wp.where(back <= 0, memory.CURRENT, row * n)


RING_STATE = {
    "ring_target_q": "Floats",
    "ring_target_qd": "Floats",
    "ring_feedforward": "Floats",
    "pushes": "Ints",
    "newest": "Ints",
    "tag": "Longs",
    "origin": "Longs",
}
"""Arrays of a delay's state as a kernel argument, each once to read and once to write."""


def _signature(structure: Structure) -> dict[str, str]:
    """Kernel arguments and their types by role: sizes, signals, indices, parameters, states in and out, outputs."""
    arguments = {"n": "int", "first": "int"}
    if structure.uses_dt:
        arguments["dt"] = "float"
    if structure.delay:
        arguments |= {"depth": "int", "cell_size": "int", "in_place": "bool"}
    if structure.effort_given:
        arguments["given_effort"] = "Floats"
    arguments |= dict.fromkeys(structure.signals, "Floats")
    for through in dict.fromkeys(SIGNALS[name] for name in structure.signals):
        arguments |= {f"{through}_indices": "Indices", f"{through}_offset": "int"}
    arguments |= {"effort_indices": "Indices", "effort_offset": "int"}
    if structure.delay:
        arguments["delay_steps"] = "Ints"
    for stage in structure.stages:
        for name in (*stage.params, *stage.tables):
            arguments[f"{stage.name}_{name}"] = "Ints" if name in stage.integers else "Floats"
    for side in ("in", "out"):
        for stage in structure.stages:
            arguments |= {f"{stage.name}_{name}_{side}": "Floats" for name in (*stage.states, *stage.network_states)}
        if structure.delay:
            arguments |= {f"{name}_{side}": kind for name, kind in RING_STATE.items()}
    return arguments | {"output": "Floats", "computed_output": "Floats"}


def kernel_source(structure: Structure) -> tuple[str, tuple[str, ...]]:
    """Write the kernel for ``structure``. Returns its Python source and its argument names."""
    signature = _signature(structure)
    in_blocks = structure.flavour is Flavour.BLOCK
    lines = ["def actuator_step("]
    lines += [f"    {name}: {kind}," for name, kind in signature.items()]
    lines += ["):"]
    if in_blocks:
        lines += [
            "    thread, unused = wp.tid()",  # two dimensions: for one, Warp compiles the kernel twice
            "    cell = first + thread",
            *_indent(_delay_header(structure)),
            "    for block in range(BLOCKS):",
            "        base = cell * CELL + block * LANES",
            "        count = wp.min(LANES, n - base)",
            "        if count > 0:",
            *_indent(_body(structure), 3),
            *_indent(_delay_footer(structure)),
        ]
    else:
        lines += [
            "    base = first + wp.tid()",
            "    count = 1",
            *_indent(["cell = base / cell_size"] if structure.delay else []),
            *_indent(_delay_header(structure)),
            *_indent(_body(structure)),
        ]
        if structure.delay:
            lines += [
                "    if base == wp.min((cell + 1) * cell_size, n) - 1:",
                *_indent(_delay_footer(structure), 2),
            ]
    return "\n".join(lines) + "\n", tuple(signature)


def _indent(lines: list[str], by: int = 1) -> list[str]:
    return [" " * 4 * by + line for line in lines]


def _lane(in_blocks: bool, statements: list[str]) -> list[str]:
    """Statements for each lane, in which ``@`` marks what differs between lanes."""
    if not in_blocks:
        return [statement.replace("@", "") for statement in statements]
    return ["for j in range(LANES):", *_indent([statement.replace("@", "[j]") for statement in statements])]


def _block_of(in_blocks: bool, name: str, kind: str = "Float") -> list[str]:
    """Make a local block of lanes that the statements of a lane loop write to."""
    return [f"{name} = {kind}Block()"] if in_blocks else []


def _body(structure: Structure) -> list[str]:
    in_blocks = structure.flavour is Flavour.BLOCK
    lines = [
        f"{name}_ = gather({name}, {SIGNALS[name]}_indices, {SIGNALS[name]}_offset, base, count)"
        for name in structure.signals
    ]
    values = {name: f"{name}_@" for name in structure.signals}
    if structure.delay:
        lines += [
            "lag = load_int(delay_steps, base, count)",
            "pushes = load_int(pushes_in, base, count)",
            *_block_of(in_blocks, "late", "Int"),
            *_lane(
                in_blocks,
                [
                    "late@ = ring_offset(lag@, pushes@, newest, depth, n)",
                    "pushes@ = wp.min(pushes@ + 1, depth)",
                ],
            ),
            "common = common_offset(late)",
        ]
        for name in COMMANDS:
            lines += [f"late_{name} = ring_read(ring_{name}_in, late, common, {name}_, base, count)"]
            values[name] = f"late_{name}@"
    for stage in structure.stages:
        for name in stage.params:
            load = "load_int" if name in stage.integers else "load"
            lines += [f"{stage.name}_{name}_ = {load}({stage.name}_{name}, base, count)"]
        for name in stage.states:
            lines += [f"{stage.name}_{name}_ = load({stage.name}_{name}_in, base, count)"]
            lines += _block_of(in_blocks, f"{stage.name}_{name}_new")
        if stage.network is not None:
            lines += _block_of(in_blocks, "error")
            lines += _lane(in_blocks, [f"error@ = {values['target_q']} - {values['q']}"])
            states = [f"{stage.name}_{name}_{side}" for name in stage.network_states for side in ("in", "out")]
            given = ", ".join([f"{stage.name}_weights", "error", "qd_", *states, "n", "base", "count"])
            lines += [f"network_effort = {stage.name}_network({given})"]
    if structure.effort_given:
        lines += ["given = load(given_effort, base, count)"]
    lines += [*_block_of(in_blocks, "computed"), *_block_of(in_blocks, "effort")]
    lines += _lane(in_blocks, list(_chain(structure, values)))
    return lines + (_block_writes(structure) if in_blocks else _scalar_writes(structure))


def _block_writes(structure: Structure) -> list[str]:
    """What a block of lanes writes: efforts, new states, the delay ring."""
    scatter = "scatter_add" if structure.adds else "scatter_set"
    lines = [f"{scatter}({name}, {value}, effort_indices, effort_offset, base, count)"
             for name, value in (("output", "effort"), ("computed_output", "computed"))]  # fmt: skip
    for stage in structure.stages:
        lines += [f"store({stage.name}_{name}_out, {stage.name}_{name}_new, base, count)" for name in stage.states]
    if structure.delay:
        lines += ["if not in_place:"]
        lines += [
            f"    ring_carry(ring_{name}_in, ring_{name}_out, synced, newest, slot, depth, n, base, count)"
            for name in COMMANDS
        ]
        lines += [f"store(ring_{name}_out, {name}_, slot * n + base, count)" for name in COMMANDS]
        lines += ["store_int(pushes_out, pushes, base, count)"]
    return lines


def _scalar_writes(structure: Structure) -> list[str]:
    """What one DOF writes. Plain statements: a backward pass replays functions, and would add the effort again."""
    lines = ["at = dof_at(effort_indices, effort_offset, base)"]
    for name, value in (("output", "effort"), ("computed_output", "computed")):
        write = f"wp.atomic_add({name}, at, {value})" if structure.adds else f"{name}[at] = {value}"
        lines += [f"if {name}:", f"    {write}"]
    for stage in structure.stages:
        lines += [f"{stage.name}_{name}_out[base] = {stage.name}_{name}_new" for name in stage.states]
    if structure.delay:
        lines += ["if not in_place:", "    if synced:"]
        lines += [
            f"        ring_{name}_out[newest * n + base] = ring_{name}_in[newest * n + base]" for name in COMMANDS
        ]
        lines += ["    else:", "        for row in range(depth):", "            if row != slot:"]
        carried = [f"ring_{name}_out[row * n + base] = ring_{name}_in[row * n + base]" for name in COMMANDS]
        lines += _indent(carried, 4)
        lines += [f"ring_{name}_out[slot * n + base] = {name}_" for name in COMMANDS]
        lines += ["pushes_out[base] = pushes"]
    return lines


def _chain(structure: Structure, values: dict[str, str]) -> Iterator[str]:
    """The law calls of one lane, from command to effort."""
    if structure.effort_given:
        yield "running = given@"
    for position, stage in enumerate(structure.stages):
        own = {name: f"{stage.name}_{name}_@" for name in (*stage.params, *stage.states)}
        own |= {name: f"{stage.name}_{name}" for name in stage.tables}
        given = {**values, "effort": "running", "dt": "dt", "network_effort": "network_effort@", **own}
        call = f"{stage.name}_law({', '.join(given[name] for name in stage.arguments())})"
        yield ", ".join(["running", *(f"new_{name}" for name in stage.states)]) + f" = {call}"
        for name in stage.states:
            yield f"{stage.name}_{name}_new@ = new_{name}"
        if position == 0:
            yield "computed@ = running"
    yield "effort@ = running"


def _delay_header(structure: Structure) -> list[str]:
    if not structure.delay:
        return []
    synced = "False" if structure.flavour is Flavour.GRAD else "tag_out[cell] == origin_in[cell]"
    return [
        "newest = newest_in[cell]",
        "slot = newest + 1",
        "if slot == depth:",
        "    slot = 0",
        f"synced = {synced}",
    ]


def _delay_footer(structure: Structure) -> list[str]:
    if not structure.delay:
        return []
    return [
        "before = tag_in[cell]",
        "tag_out[cell] = tag_out[cell] + wp.int64(1)",
        "origin_out[cell] = before",
        "newest_out[cell] = slot",
    ]
