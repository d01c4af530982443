# SPDX-License-Identifier: Apache-2.0
"""Writes the kernel of a chain as Python source, since Warp has no variadic kernels.

The text reads like a kernel written by hand: what is read, the laws in the order of the chain, what is written. In
blocks of lanes the laws stand in a loop over the lanes, which is closed where a stage works on whole blocks (a ring, a
network) and opened again after it.
"""

from __future__ import annotations

from typing import Any

from .arguments import Argument, Role, array_name
from .lanes import Lanes, Value, indented
from .ring_source import ring_footer, ring_header
from .structure import CLIPPED, CONTROL_DT, DIRECT, FEEDBACK, LIMITED_BY, Stage, Structure
from .tangent_source import Tangent
from .types import Flavour

_TAKEN = ("base", "block", "cell", "count", "dt", "first", "in_place", "j", "n", "thread", "unused", "wp")


def kernel_source(structure: Structure, signature: tuple[Argument, ...]) -> tuple[str, dict[str, Any]]:
    """Write the kernel for ``structure`` with the arguments ``signature``.

    Returns:
        Its text, and functions that this refers to beside the laws, by name.
    """
    structure.check()
    writer = _Writer(structure, signature)
    return writer.text(), writer.functions


class _Writer:
    def __init__(self, structure: Structure, signature: tuple[Argument, ...]):
        self._structure = structure
        self._signature = signature
        self._in_blocks = structure.flavour is Flavour.BLOCK
        self._name_of = {(argument.role, argument.key): argument.name for argument in signature}
        self._lanes = Lanes(self._in_blocks, (*_TAKEN, *self._name_of.values()))
        self._tangent = Tangent(self._lanes, structure)
        self._signals: dict[str, Value] = {}
        self._sensed: dict[str, Value] = {}
        self._before: list[dict[str, Value]] = []
        """Position and velocity before each stage, for its closing law."""
        self._closed: set[str] = set()
        """Signals that closing laws have given."""
        self._written: dict[int, Value] = {}
        self._loaded: dict[tuple[int, str], str] = {}
        """What states are called, by position of their stage and name."""
        self._from_networks: dict[int, Value] = {}
        """What networks gave, by position of their stage."""
        self._states: list[tuple[str, Value, bool]] = []
        """For each state: the array that gets it, what it is, and whether that is a whole number."""
        self._rings: list[tuple[str, tuple[Value, ...], Value]] = []
        """For each ring: the label of its stage, the signals to remember, and how far back one may look then."""

    @property
    def functions(self) -> dict[str, Any]:
        """What the text refers to beside the laws."""
        return self._tangent.functions

    def text(self) -> str:
        body = self._body()
        lines = ["def actuator_step("]
        lines += [f"    {argument.name}: {argument.type}," for argument in self._signature]
        lines += ["):"]
        rings = [(stage, label) for _, stage, label in self._structure.labelled() if stage.ring is not None]
        before = [line for _, label in rings for line in ring_header(label, self._structure.flavour)]
        kept = rings if self._structure.keeps_rings else []
        after = [line for _, label in kept for line in ring_footer(label, self._structure.flavour)]
        if self._in_blocks:
            lines += [
                "    thread, unused = wp.tid()",  # two dimensions: for one, Warp compiles the kernel twice
                "    cell = first + thread",
                *indented(before),
                "    for block in range(BLOCKS):",
                "        base = cell * CELL + block * LANES",
                "        count = wp.min(LANES, n - base)",
                "        if count > 0:",
                *indented(body, 3),
                *indented(after),
            ]
        else:
            lines += ["    base = first + wp.tid()", "    count = 1"]
            lines += indented(["cell = base / cell_size", *before] if rings else [])
            lines += indented(body)
            if kept:
                lines += ["    if base == wp.min((cell + 1) * cell_size, n) - 1:", *indented(after, 2)]
        return "\n".join(lines) + "\n"

    def _body(self) -> list[str]:
        structure = self._structure
        for signal in structure.reads:
            array, through = array_name(signal), structure.sources[signal]
            name = self._lanes.new(signal)
            read = f"load({array}, base, count)"
            if through != DIRECT:
                read = f"gather({array}, {through}_indices, {through}_offset, base, count)"
            self._lanes.lines.append(f"{name} = {read}")
            self._signals[signal] = self._tangent.seeded(signal, Value(name))
        self._sensed = {name: self._signals[name] for name in FEEDBACK if name in self._signals}
        if any(write.signal == LIMITED_BY for write in structure.writes):
            self._start_blaming()
        for position, stage, label in structure.labelled():
            self._before.append({name: self._signals[name] for name in FEEDBACK if name in self._signals})
            if stage.ring is not None:
                self._look_back(position, stage, label)
            if stage.network is not None:
                self._run_network(position, stage, label)
            if stage.law is not None:
                self._call(position, stage, label, stage.law, label)
            self._take(position)
        for position, stage, label in reversed(list(structure.labelled())):
            if stage.closing_law is not None:
                self._call(position, stage, label, stage.closing_law, f"{label}_closing")
        self._tangent.finish(self._signals)
        self._take(None)
        self._close()
        return self._lanes.lines + (self._block_writes() if self._in_blocks else self._scalar_writes())

    def _start_blaming(self) -> None:
        """So far nothing limited the effort."""
        name = self._lanes.new(LIMITED_BY)
        self._lanes.lines.append(f"{name} = FloatBlock(-1.0)" if self._in_blocks else f"{name} = float(-1.0)")
        self._signals[LIMITED_BY] = Value(name)

    def _view(self, stage: Stage) -> dict[str, Value]:
        """The signals as a stage sees them."""
        return self._signals | self._sensed if stage.sensed else self._signals

    def _close(self, position: int | None = None) -> None:
        """End the loop over lanes. Signals that were made in it stay, where a stage from ``position`` on needs them."""
        self._tangent.keep_bounds(self._signals)
        tables = (self._signals, self._sensed, *self._before)
        self._lanes.close(tables, self._needed_from(position) if position is not None else ())
        self._tangent.take_bounds(self._signals)

    def _needed_from(self, position: int) -> set[str]:
        stages = self._structure.stages
        asked = {name for stage in stages[position:] for name in stage.asks}
        asked |= {name for stage in stages for name in stage.asks_at_the_end}
        late = (write for write in self._structure.writes if write.after is None or write.after >= position)
        return asked | {write.signal for write in late}

    def _call(self, position: int, stage: Stage, label: str, law: object, called: str) -> None:
        """Call a law for one lane."""
        closing = law is not stage.law
        view = self._signals | self._before[position] if closing else self._view(stage)
        returns, outputs, states = stage.returns, stage.outputs, stage.law_states
        if closing:
            returns, outputs, states = ("effort",), stage.closing_outputs, stage.closing_states
        given = {
            **{name: str(value) for name, value in stage.defaults},
            **{name: self._lanes.at(value) for name, value in view.items()},
            "dt": stage.time_step,
            **self._parameters(position, stage, label),
            **self._load_states(position, stage),
        }
        arguments = {name: given[name] for name in law.input_types}  # type: ignore[attr-defined]
        if stage.network is not None:
            view = view | {stage.network.output: self._from_networks[position]}
        held_still = stage.time_step == CONTROL_DT
        slopes = {} if held_still else self._tangent.slopes_of(law, called, arguments, view, (*returns, *outputs))
        self._tangent.bound(stage, called, arguments, len((*returns, *outputs, *states)), closing)
        results = {name: self._lane_name(name) for name in (*returns, *outputs)}
        new = {name: self._lanes.new(f"{name}_next") for name in states}
        blamed = stage.limits and not closing and LIMITED_BY in self._signals
        before = self._lanes.new("unlimited") if blamed else ""
        if blamed:
            self._lanes.loop.append(f"{before} = {given['effort']}")
        self._lanes.loop.append(
            f"{', '.join((*results.values(), *new.values()))} = {called}_law({', '.join(arguments.values())})"
        )
        if blamed:
            missing = f"wp.abs({before} - {results['effort']}) > {CLIPPED} * wp.abs({before})"
            name, until_now = self._lane_name(LIMITED_BY), self._lanes.at(self._signals[LIMITED_BY])
            self._lanes.loop.append(f"{name} = wp.where({missing}, {float(position)}, {until_now})")
            self._signals[LIMITED_BY] = Value(name, is_lane=self._in_blocks)
        for signal, name in results.items():
            held = self._sensed if stage.sensed and not closing and signal in FEEDBACK else self._signals
            if signal not in self._closed:
                held[signal] = Value(name, self._in_blocks, slopes.get(signal, (None, None)))
        self._closed |= {*outputs} if closing else set()
        for name, local in new.items():
            kept = self._lanes.keep(Value(local, is_lane=True), self._lanes.new(f"{name}_new"))
            self._states.append((self._name_of[Role.STATE_OUT, (position, name)], kept, False))

    def _lane_name(self, signal: str) -> str:
        """What a signal is called in the lane at hand. The effort is written over; others may be asked for again."""
        if not self._in_blocks:
            return "effort" if signal == "effort" else self._lanes.new(signal)
        name = f"{signal}_j" if not self._lanes.closed_loops else f"{signal}_j{self._lanes.closed_loops}"
        return name if signal == "effort" else self._lanes.new(name)

    def _parameters(self, position: int, stage: Stage, label: str) -> dict[str, str]:
        """Load the parameters of a stage, once, and return how its laws call them."""
        names = {}
        for name in stage.read_params:
            local = f"{self._name_of[Role.PARAMETER, (position, name)]}_"
            if self._lanes.is_new(local):
                load = "load_int" if name in stage.integers else "load"
                self._lanes.lines.append(f"{local} = {load}({label}_{name}, base, count)")
            names[name] = self._lanes.at(Value(local))
        names |= {name: f"{label}_{name}" for name in stage.tables}
        if stage.network is not None:
            names[stage.network.output] = self._lanes.at(self._from_networks[position])
        return names

    def _load_states(self, position: int, stage: Stage) -> dict[str, str]:
        """Load the states of a stage, once, and return how its laws call them."""
        names = {}
        for name in stage.states:
            if (position, name) not in self._loaded:
                local = self._loaded[position, name] = self._lanes.new(name)
                load = "load_int" if name in stage.integers else "load"
                self._lanes.lines.append(
                    f"{local} = {load}({self._name_of[Role.STATE_IN, (position, name)]}, base, count)"
                )
            names[name] = self._lanes.at(Value(self._loaded[position, name]))
        return names

    def _take(self, position: int | None) -> None:
        """Keep the signals that are written as they are after this stage."""
        for place, write in enumerate(self._structure.writes):
            if write.after == position:
                value = (self._sensed if write.sensed else self._signals)[write.signal]
                if value.is_lane or position is not None:
                    inner = Value(self._lanes.at(value), is_lane=True)
                    then = "computed" if write.scattered else f"{write.signal}_then"
                    value = self._lanes.keep(inner, self._lanes.new(write.signal if position is None else then))
                self._written[place] = value

    def _look_back(self, position: int, stage: Stage, label: str) -> None:
        """Replace signals by what they were, as long ago as the lag of each DOF says."""
        self._close(position)
        ring = stage.ring
        assert ring is not None
        signals = self._sensed if stage.sensed else self._signals
        lag, pushes, row, common = (self._lanes.new(f"{label}_{name}") for name in ("lag", "pushes", "row", "common"))
        self._lanes.lines.append(
            f"{pushes} = load_pushes({label}_pushes_in, {label}_filled, {label}_rows - 1, base, count)"
        )
        columns = ring.columns
        now = tuple(signals[signal] for signal in ring.signals)
        share = ""
        if ring.law is None:
            self._lanes.lines.append(f"{lag} = load_int({label}_{ring.lag}, base, count)")
        else:
            length = self._lanes.new(f"{label}_dt")
            self._lanes.lines.append(f"{length} = FloatBlock(dt)" if self._in_blocks else f"{length} = float(dt)")
            now = (*now, Value(length))
            share = self._find_lag(position, stage, label, lag, pushes, length)
        new_pushes = self._lanes.new(f"{label}_pushes_new")
        back, may_look = self._lanes.at(Value(lag)), self._lanes.at(Value(pushes))
        texts = {
            row: f"late_row({back}, {may_look}, {label}_newest, {label}_rows)",
            new_pushes: f"wp.min({may_look} + 1, {label}_rows - 1)",
        }
        before = None
        if ring.blends:
            before = self._lanes.new(f"{label}_row_before")
            texts[before] = f"late_row({back} + 1, {may_look}, {label}_newest, {label}_rows)"
        self._lanes.for_lanes(texts, "IntBlock")
        self._lanes.lines.append(f"{common} = common_row({row})")
        for column, signal in enumerate(ring.signals):
            where = f"{now[column].name}, {column}, {columns}, n, base, count"
            late = self._lanes.new(f"{signal}_late")
            self._lanes.lines.append(f"{late} = ring_read({label}_ring_in, {row}, {common}, {where})")
            if before is not None:
                older, blended = self._lanes.new(f"{signal}_older"), self._lanes.new(f"{signal}_blended")
                read = f"ring_read({label}_ring_in, {before}, common_row({before}), {where})"
                self._lanes.lines.append(f"{older} = {read}")
                near, far, part = (self._lanes.at(Value(name)) for name in (late, older, share))
                self._lanes.for_lanes({blended: f"{near} + {part} * ({far} - {near})"}, "FloatBlock")
                late = blended
            slopes = self._tangent.slopes_now(signal, now[column], row, share)
            signals[signal] = Value(late, slopes=slopes)
        if self._structure.keeps_rings:
            self._rings.append((label, now, Value(new_pushes)))

    def _find_lag(self, position: int, stage: Stage, label: str, lag: str, pushes: str, length: str) -> str:
        """Find how many steps ago a law's age is, as ``lag``; returns what the share of the step before is called."""
        ring = stage.ring
        assert ring is not None
        gap, age, alike = (self._lanes.new(f"{label}_{name}") for name in ("gap", "age", "alike"))
        newest = f"IntBlock({label}_newest)" if self._in_blocks else f"{label}_newest"
        last = f"{length}, {ring.columns - 1}, {ring.columns}, n, base, count"
        known = self._lanes.new(f"{label}_gap_known")
        self._lanes.lines.append(f"{known} = ring_read({label}_ring_in, {newest}, {label}_newest, {last})")
        at = {name: self._lanes.at(Value(name)) for name in (known, gap, age, alike, lag, pushes)}
        self._lanes.for_lanes({gap: f"wp.where({at[known]} > 0.0, {at[known]}, dt)"}, "FloatBlock")
        given = {
            "dt": "dt",
            "gap": at[gap],
            **self._parameters(position, stage, label),
            **self._load_states(position, stage),
        }
        arguments = ", ".join(given[name] for name in ring.law.input_types)
        new = {name: self._lanes.new(f"{name}_new") for name in stage.states}
        local = {name: self._lanes.new(f"{name}_j") for name in (age, alike, *new.values())}
        call = f"{', '.join(local.values())} = {label}_lag_law({arguments})"
        if self._in_blocks:
            whole = {alike, *(new[name] for name in stage.states if name in stage.integers)}
            self._lanes.lines += [f"{name} = {'IntBlock' if name in whole else 'FloatBlock'}()" for name in local]
            kept = [f"{name}[j] = {inner}" for name, inner in local.items()]
            self._lanes.lines += ["for j in range(LANES):", *indented([call, *kept])]
        else:
            self._lanes.lines += [call, *(f"{name} = {inner}" for name, inner in local.items())]
        self._lanes.for_lanes({lag: f"{'whole' if ring.blends else 'held'}_back({at[age]}, {at[gap]})"}, "IntBlock")
        share = self._lanes.new(f"{label}_share") if ring.blends else ""
        if share:
            self._lanes.for_lanes({share: f"share_back({at[age]}, {at[gap]})"}, "FloatBlock")
        dof = "base + j" if self._in_blocks else "base"
        where = f"{ring.blends}, {at[pushes]}, {label}_newest, {label}_rows, {ring.columns}, n, {dof}"
        found = self._lanes.new(f"{label}_found")
        lines = [f"{found} = uneven_back({label}_ring_in, {at[age]}, dt, {where})", f"{at[lag]} = int({found}[0])"]
        if share:
            lines.append(f"{self._lanes.at(Value(share))} = uneven_share({at[age]}, {found})")
        if self._in_blocks:
            self._lanes.lines.append(f"if is_uneven({alike}, {pushes}, count) != 0:")
            self._lanes.lines += indented(["for j in range(LANES):", *indented(lines)])
        else:
            self._lanes.lines += [f"if {alike} < {pushes}:", *indented(lines)]
        for name, kept_as in new.items():
            array = self._name_of[Role.STATE_OUT, (position, name)]
            self._states.append((array, Value(kept_as), name in stage.integers))
        return share

    def _run_network(self, position: int, stage: Stage, label: str) -> None:
        """Give the inputs of a network to its function, which works on whole blocks."""
        network = stage.network
        assert network is not None
        view = {name: self._lanes.at(value) for name, value in self._view(stage).items()}
        inputs = [
            self._lanes.keep(Value(text.format(**view), is_lane=True), self._lanes.new(f"{label}_input"))
            for text in network.inputs
        ]
        self._close(position)
        states = [f"{label}_{name}_{side}" for name in stage.wide_states for side in ("in", "out")]
        given = ", ".join([f"{label}_weights", *(value.name for value in inputs), *states, "n", "base", "count"])
        output = f"{label}_{network.output}"
        self._lanes.lines.append(f"{output} = {label}_network({given})")
        slopes = self._tangent.slopes_of_network(output, network, self._view(stage))
        self._from_networks[position] = Value(output, slopes=slopes)

    def _block_writes(self) -> list[str]:
        """What a block of lanes writes: signals, new states, rings."""
        lines = []
        for place, write in enumerate(self._structure.writes):
            array, value = self._name_of[Role.WRITE, place], self._written[place].name
            if write.scattered:
                scatter = "scatter_add" if write.adds else "scatter_set"
                lines.append(f"{scatter}({array}, {value}, effort_indices, effort_offset, base, count)")
            else:
                lines.append(f"store({array}, {value}, base, count)")
        for array, state, is_whole in self._states:
            lines.append(f"{'store_int' if is_whole else 'store'}({array}, {state.name}, base, count)")
        for label, now, pushes in self._rings:
            where = f"{len(now)}, n, base"
            lines += [f"if not {label}_synced:"]
            lines += [f"    ring_copy({label}_ring_in, {label}_ring_out, {len(now)}, {label}_rows, n, base)"]
            new = [f"{value.name}, {label}_slot, {column}, {where}" for column, value in enumerate(now)]
            lines += [f"ring_write({label}_ring_out, {given})" for given in new]
            lines += ["if not in_place:", *(f"    ring_stream({label}_ring_in, {given})" for given in new)]
            lines += [f"if not {label}_full:", f"    store_int({label}_pushes_out, {pushes.name}, base, count)"]
        return lines

    def _scalar_writes(self) -> list[str]:
        """What one DOF writes, in plain statements: a backward pass replays functions, and would write again."""
        lines = []
        if any(write.scattered for write in self._structure.writes):
            lines.append("at = dof_at(effort_indices, effort_offset, base)")
        for place, write in enumerate(self._structure.writes):
            array, value = self._name_of[Role.WRITE, place], self._written[place].name
            at = "at" if write.scattered else "base"
            line = f"wp.atomic_add({array}, {at}, {value})" if write.adds else f"{array}[{at}] = {value}"
            lines += [f"if {array}:", f"    {line}"]
        lines += [f"{array}[base] = {state.name}" for array, state, _ in self._states]
        for label, now, pushes in self._rings:
            sides = ("out",) if self._structure.flavour is Flavour.GRAD else ("out", "in")
            where = f"{len(now)}, n, base"
            lines += [f"if not {label}_synced:", f"    for row in range({label}_rows):"]
            lines += [f"        if row != {label}_slot:"]
            for column in range(len(now)):
                lines.append(f"            at_{column} = ring_at(row, {column}, {where})")
                lines.append(f"            {label}_ring_out[at_{column}] = {label}_ring_in[at_{column}]")
            for side in sides:
                writes = [
                    f"{label}_ring_{side}[ring_at({label}_slot, {column}, {where})] = {value.name}"
                    for column, value in enumerate(now)
                ]
                lines += writes if side == "out" else ["if not in_place:", *indented(writes)]
            lines += [f"{label}_pushes_out[base] = {pushes.name}"]
        return lines
