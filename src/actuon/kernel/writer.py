# SPDX-License-Identifier: Apache-2.0
"""Writer of the kernel of a chain as Python source, since Warp has no variadic kernels.

The source reads like a kernel written by hand: loads, the laws in the order of the chain, stores. In blocks of lanes,
the laws are in a loop over the lanes, which is closed before a stage that works on whole blocks (a ring, a network) and
opened again after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .arguments import RING_STATES, Argument, Role, array_name, state_buffers
from .chain import (
    CLIPPED,
    CLOCK,
    CONTROL_DT,
    DIRECT,
    FEEDBACK,
    HELD,
    JOINT_SIGNALS,
    LIMITED_BY,
    Chain,
    Law,
    Stage,
    held,
)
from .derivatives import DerivativeWriter
from .lanes import Lanes, Value, indented
from .types import Flavour

_TAKEN: tuple[str, ...] = ("base", "block", "cell", "clock", "count", "dt", "floats_cell", "ints_cell", "j", "lane")
_TAKEN += ("longs_cell", "part", "thread", "unused")


def kernel_source(
    chain: Chain, signature: tuple[Argument, ...], namespace: Iterable[str]
) -> tuple[str, dict[str, Any]]:
    """Write the kernel for ``chain`` with the arguments ``signature``.

    Args:
        chain: The chain.
        signature: Arguments of the kernel.
        namespace: Names of functions that it may call, reserved in variables.

    Returns:
        The source, and further functions that it refers to, by name.
    """
    chain.check()
    writer = _Writer(chain, signature, namespace)
    return writer.text(), writer.functions


class _Writer:
    def __init__(self, chain: Chain, signature: tuple[Argument, ...], namespace: Iterable[str]):
        self._chain = chain
        self._signature = signature
        self._in_blocks = chain.flavour is Flavour.BLOCK
        self._name_of = {(argument.role, argument.key): argument.name for argument in signature}
        self._lanes = Lanes(self._in_blocks, (*_TAKEN, *namespace, *self._name_of.values()))
        self._derivatives = DerivativeWriter(self._lanes, chain)
        # Reading beyond the last DOF of a robot saves a loop over its tail; blocks of all DOFs have only one tail.
        self._readable = "room - base" if chain.tile.is_robot else "count"
        self._labels = {position: label for position, _, label in chain.labelled()}
        self._signals: dict[str, Value] = {}
        self._sensed: dict[str, Value] = {}
        self._before: list[dict[str, Value]] = []
        """Position and velocity before each stage, for its closing law."""
        self._closed: set[str] = set()
        """Signals that closing laws have returned."""
        self._written: dict[int, Value] = {}
        self._loaded: dict[tuple[int, str], str] = {}
        """Variables of states, by position of their stage and name."""
        self._from_networks: dict[int, Value] = {}
        """Outputs of networks, by position of their stage."""
        self._states: list[tuple[str, Value, bool]] = []
        """Place in its buffer, new value, and whether it is a whole number, of each state."""
        self._rings: list[tuple[int, tuple[Value, ...], Value]] = []
        """Position of the stage, signals to store, and new number of valid rows, of each ring."""

    @property
    def functions(self) -> dict[str, Any]:
        """Objects that the source refers to, in addition to the laws."""
        return self._derivatives.functions

    def text(self) -> str:
        body = self._body()
        lines = ["def actuator_step("]
        lines += [f"    {argument.name}: {argument.type}," for argument in self._signature]
        lines += ["):"]
        rings = [(position, label) for position, stage, label in self._chain.labelled() if stage.ring is not None]
        is_stateful = any(argument.role is Role.STATE_IN for argument in self._signature)
        buffers = [argument.key for argument in self._signature if argument.role is Role.STATE_IN]
        is_robot = self._chain.tile.is_robot
        starts = [f"{buffer}_cell = cell * {buffer}_size" for buffer in buffers if is_robot]
        before = [line for ring in rings for line in self._ring_header(*ring)]
        clock = [] if self._chain.held is None else [self._place(HELD, CLOCK, per_tile=True)]
        before += [f"clock = ints_in[{place}]" for place in clock]
        kept = rings if self._chain.keeps_rings else []
        after = [line for ring in kept for line in self._ring_footer(*ring)]
        after += [f"ints_out[{place}] = wp.where(clock + 1 < control_every, clock + 1, 0)" for place in clock]
        if self._in_blocks:
            lines += [
                "    thread, unused = wp.tid()",  # two dimensions: for one, Warp compiles the kernel twice
                f"    {'cell' if is_robot else 'part'} = first + thread",
                *indented([*starts, *before]),
                "    for block in range(BLOCKS):",
                f"        lane = {'' if is_robot else 'part * TILE + '}block * LANES",
                f"        base = {'cell * dofs + ' if is_robot else ''}lane",
                "        count = wp.min(LANES, dofs - lane)",
                "        if count > 0:",
                *indented(body, 3),
                *indented(after),
            ]
        else:
            lines += ["    base = first + wp.tid()", "    count = 1"]
            if is_stateful:
                lines += indented(["cell = base / dofs", "lane = base - cell * dofs"] if is_robot else ["lane = base"])
                lines += indented(starts)
            lines += indented(["part = lane / tile_size", *before] if before else [])
            lines += indented(body)
            if after:
                lines += ["    if lane == wp.min((part + 1) * tile_size, dofs) - 1:", *indented(after, 2)]
        return "\n".join(lines) + "\n"

    def _body(self) -> list[str]:
        chain = self._chain
        for signal in chain.reads:
            array, through = array_name(signal), chain.sources[signal]
            name = self._lanes.new(signal)
            read = f"load({array}, base, count)"
            if through != DIRECT:
                gather = "gather_double" if signal in chain.doubles else "gather"
                read = f"{gather}({array}, {through}_indices, {through}_offset, base, count)"
            self._lanes.lines.append(f"{name} = {read}")
            self._signals[signal] = self._derivatives.seeded(signal, Value(name))
        for signal, own in JOINT_SIGNALS.items():
            if own in self._signals:
                self._signals.setdefault(signal, self._signals[own])
        self._sensed = {name: self._signals[name] for name in FEEDBACK if name in self._signals}
        if any(write.signal == LIMITED_BY for write in chain.writes):
            self._init_limited_by()
        for position, stage, label in chain.labelled():
            self._before.append({name: self._signals[name] for name in FEEDBACK if name in self._signals})
            if stage.ring is not None:
                self._read_ring(position, stage, label)
            if position == chain.held:
                self._hold(position, stage, label)
            else:
                self._run(position, stage, label)
            self._save_writes(position)
        for position, stage, label in reversed(list(chain.labelled())):
            if stage.closing is not None:
                self._call_closing(position, stage, label, stage.closing)
        self._derivatives.finish(self._signals)
        self._save_writes(None)
        self._close()
        return self._lanes.lines + (self._block_writes() if self._in_blocks else self._scalar_writes())

    def _run(self, position: int, stage: Stage, label: str) -> None:
        """Run the network and the laws of a stage."""
        if stage.network is not None:
            self._run_network(position, stage, label)
        self._call_laws(position, stage, label)

    def _hold(self, position: int, stage: Stage, label: str) -> None:
        """Run a controller if its clock is at 0, otherwise hold its signals and states."""
        self._close(position)
        lanes = self._lanes
        kept = {signal: lanes.new(held(signal)) for signal in self._chain.held_signals}
        for signal, name in kept.items():
            lanes.lines.append(f"{name} = load_state(floats_in, {self._place(HELD, held(signal))})")
        self._load_states(position, stage)
        before, lanes.lines = lanes.lines, []
        self._run(position, stage, label)
        for signal, name in kept.items():
            lanes.keep(Value(lanes.at(self._signals[signal]), is_lane=True), name, declare=False)
            self._signals[signal] = Value(name)
        lanes.close()
        lanes.lines = [*before, "if clock == 0:", *indented(lanes.lines)]
        copies = [
            self._copy_rows(self._place(position, name), rows)
            for name, rows in zip(stage.wide_states, stage.wide_rows, strict=True)
        ]
        if copies:
            lanes.lines += ["elif not in_place:", *indented([line for lines in copies for line in lines])]
        for signal, name in kept.items():
            self._states.append((self._place(HELD, held(signal)), Value(name), False))

    def _copy_rows(self, place: str, rows: int) -> list[str]:
        """Copy rows of a state unchanged."""
        if self._in_blocks:
            return [f"copy_rows(floats_in, floats_out, {place}, {rows}, row_width)"]
        at = f"{place} + row * row_width"
        return [f"for row in range({rows}):", f"    floats_out[{at}] = floats_in[{at}]"]

    def _init_limited_by(self) -> None:
        """Declare `LIMITED_BY` with the value -1."""
        name = self._lanes.new(LIMITED_BY)
        self._lanes.lines.append(f"{name} = FloatBlock(-1.0)" if self._in_blocks else f"{name} = float(-1.0)")
        self._signals[LIMITED_BY] = Value(name)

    def _view(self, stage: Stage) -> dict[str, Value]:
        """Return the signals for a stage, with measured ones if it is a sensor or controller."""
        if not stage.sensed:
            return self._signals
        joint = {name: self._sensed[own] for name, own in JOINT_SIGNALS.items() if own in self._sensed}
        return self._signals | self._sensed | joint

    def _close(self, position: int | None = None) -> None:
        """End the loop over lanes, and store the signals that a stage from ``position`` on needs."""
        tables = (self._signals, self._sensed, *self._before)
        self._lanes.close(tables, self._needed_from(position) if position is not None else ())

    def _needed_from(self, position: int) -> set[str]:
        stages = self._chain.stages
        asked = {name for stage in stages[position:] for name in stage.inputs}
        asked |= {name for stage in stages for name in stage.closing_inputs}
        late = (write for write in self._chain.writes if write.after is None or write.after >= position)
        return asked | {write.signal for write in late}

    def _call_laws(self, position: int, stage: Stage, label: str) -> None:
        """Call the laws of a stage for one lane."""
        if stage.limits:
            self._derivatives.start_bounds(self._signals)
        local: dict[str, Value] = {}
        for called, law in stage.named_laws(label).items():
            view = self._view(stage) | local
            if stage.network is not None:
                view[stage.network.output] = self._from_networks[position]
            unlimited = ""
            if stage.limits and "effort" in law.returns and LIMITED_BY in self._signals:
                unlimited = self._lanes.new("unlimited")
                self._lanes.loop.append(f"{unlimited} = {self._lanes.at(view['effort'])}")
            carried = [name for name in law.returns if name == "effort" or name not in stage.signals]
            for signal, value in self._call_law(position, stage, label, law, called, view, carried).items():
                if signal not in stage.signals:
                    local[signal] = value
                elif stage.sensed and signal in FEEDBACK:
                    self._sensed[signal] = value
                else:
                    self._signals[signal] = value
            if unlimited:
                self._mark_limited(position, unlimited)

    def _call_closing(self, position: int, stage: Stage, label: str, law: Law) -> None:
        """Call the closing law of a stage for one lane. Signals of earlier closing laws take precedence."""
        view = self._signals | self._before[position]
        made = self._call_law(position, stage, label, law, f"{label}_closing_law", view, ["effort"])
        self._signals |= {name: value for name, value in made.items() if name not in self._closed}
        self._closed |= {*law.returns} - {"effort"}

    def _call_law(
        self,
        position: int,
        stage: Stage,
        label: str,
        law: Law,
        called: str,
        view: dict[str, Value],
        carried: list[str],
    ) -> dict[str, Value]:
        """Call a law for one lane, with the signals ``view``.

        Returns:
            Signals that it returns, with derivatives; those of ``carried`` also have bounds.
        """
        given = {
            **{name: str(value) for name, value in stage.defaults},
            **{name: self._lanes.at(value) for name, value in view.items()},
            "dt": stage.time_step,
        }
        own = self._parameters(position, stage, label) | self._load_states(position, stage)
        arguments = {name: own.get(name) or given[name] for name in law.inputs}
        signals = {name: value for name, value in view.items() if name not in own}
        held_still = stage.time_step == CONTROL_DT
        derivatives = {} if held_still else self._derivatives.derivatives_of(law, called, arguments, signals)
        bounds = self._derivatives.bounds_of(law, called, arguments, signals, carried)
        results = {name: self._lane_name(name) for name in law.returns}
        new = {name: self._lanes.new(f"{name}_next") for name in law.states}
        made = ", ".join((*results.values(), *new.values()))
        self._lanes.loop.append(f"{made} = {called}({', '.join(arguments.values())})")
        for name, local in new.items():
            is_held = position == self._chain.held
            into = self._loaded[position, name] if is_held else self._lanes.new(f"{name}_new")
            kept = self._lanes.keep(Value(local, is_lane=True), into, declare=not is_held)
            self._states.append((self._place(position, name), kept, False))
        return {
            signal: Value(name, self._in_blocks, derivatives.get(signal, (None, None)), bounds.get(signal))
            for signal, name in results.items()
        }

    def _mark_limited(self, position: int, unlimited: str) -> None:
        """Set `LIMITED_BY` to this stage if it limited the effort."""
        effort, until_now = (self._lanes.at(self._signals[name]) for name in ("effort", LIMITED_BY))
        missing = f"wp.abs({unlimited} - {effort}) > {CLIPPED} * wp.abs({unlimited})"
        name = self._lane_name(LIMITED_BY)
        self._lanes.loop.append(f"{name} = wp.where({missing}, {float(position)}, {until_now})")
        self._signals[LIMITED_BY] = Value(name, is_lane=self._in_blocks)

    def _lane_name(self, signal: str) -> str:
        """Return a signal's name in the current lane. The effort is overwritten; others get a new name."""
        if not self._in_blocks:
            return "effort" if signal == "effort" else self._lanes.new(signal)
        name = f"{signal}_j" if not self._lanes.closed_loops else f"{signal}_j{self._lanes.closed_loops}"
        return name if signal == "effort" else self._lanes.new(name)

    def _parameters(self, position: int, stage: Stage, label: str) -> dict[str, str]:
        """Load the parameters of a stage, once, and return their texts by the names in laws."""
        names = {}
        for name in stage.read_params:
            local = f"{self._name_of[Role.PARAMETER, (position, name)]}_"
            if self._lanes.is_new(local):
                load = "load_int" if name in stage.integers else "load"
                self._lanes.lines.append(f"{local} = {load}({label}_{name}, base, {self._readable})")
            names[name] = self._lanes.at(Value(local))
        return names | {name: f"{label}_{name}" for name in stage.tables}

    def _load_states(self, position: int, stage: Stage) -> dict[str, str]:
        """Load the states of a stage, once, and return their texts by the names in laws."""
        names = {}
        for name in stage.states:
            if (position, name) not in self._loaded:
                local = self._loaded[position, name] = self._lanes.new(name)
                load, buffer = ("load_int_state", "ints") if name in stage.integers else ("load_state", "floats")
                self._lanes.lines.append(f"{local} = {load}({buffer}_in, {self._place(position, name)})")
            names[name] = self._lanes.at(Value(self._loaded[position, name]))
        return names

    def _place(self, position: int, name: str, per_tile: bool = False) -> str:
        """Return the index of a state in its buffer, for the first lane or for the tile."""
        buffer = "ints" if name == CLOCK else "floats"
        if position != HELD:
            buffer = state_buffers(self._chain.stages[position])[name]
        return f"{self._start(buffer)}{self._name_of[Role.PLACE, (position, name)]}{self._offset(per_tile)}"

    def _start(self, buffer: str) -> str:
        """Return the offset of the cell in a buffer, as the first term of a sum."""
        return f"{buffer}_cell + " if self._chain.tile.is_robot else ""

    def _offset(self, per_tile: bool) -> str:
        """Return the index of the DOF, or of its tile, in a state, as the last term of a sum."""
        if not per_tile:
            return " + lane"
        return "" if self._chain.tile.is_robot and self._in_blocks else " + part"

    def _save_writes(self, position: int | None) -> None:
        """Store the signals that are written with their value after this stage."""
        for place, write in enumerate(self._chain.writes):
            if write.after == position:
                value = (self._sensed if write.sensed else self._signals)[write.signal]
                if value.is_lane or position is not None:
                    inner = Value(self._lanes.at(value), is_lane=True)
                    name = write.signal if position is None else "computed"
                    value = self._lanes.keep(inner, self._lanes.new(name))
                self._written[place] = value

    def _read_ring(self, position: int, stage: Stage, label: str) -> None:
        """Replace signals by their delayed values, per DOF."""
        self._close(position)
        ring = stage.ring
        assert ring is not None
        signals = self._sensed if stage.sensed else self._signals
        lag, pushes, row, common = (self._lanes.new(f"{label}_{name}") for name in ("lag", "pushes", "row", "common"))
        depth, ring_place = f"{label}_rows - 1", f"{self._start('floats')}{label}_ring_at"
        self._lanes.lines.append(
            f"{pushes} = load_pushes(ints_in, {label}_filled, {depth}, {self._place(position, 'pushes')})"
        )
        columns = ring.columns
        now = tuple(signals[signal] for signal in ring.signals)
        share = ""
        if ring.law is None:
            self._lanes.lines.append(f"{lag} = load_int({label}_{ring.lag}, base, {self._readable})")
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
            where = f"{now[column].name}, {column}, {columns}, width, lane, LANES"
            late = self._lanes.new(f"{signal}_late")
            self._lanes.lines.append(f"{late} = ring_read(floats_in, {ring_place}, {row}, {common}, {where})")
            if before is not None:
                older, blended = self._lanes.new(f"{signal}_older"), self._lanes.new(f"{signal}_blended")
                read = f"ring_read(floats_in, {ring_place}, {before}, common_row({before}), {where})"
                self._lanes.lines.append(f"{older} = {read}")
                near, far, part = (self._lanes.at(Value(name)) for name in (late, older, share))
                self._lanes.for_lanes({blended: f"{near} + {part} * ({far} - {near})"}, "FloatBlock")
                late = blended
            derivatives = self._derivatives.derivatives_now(signal, now[column], row, share)
            signals[signal] = Value(late, derivatives=derivatives)
        if self._chain.keeps_rings:
            self._rings.append((position, now, Value(new_pushes)))

    def _find_lag(self, position: int, stage: Stage, label: str, lag: str, pushes: str, length: str) -> str:
        """Write ``lag``, a law's age in steps; return the name of the share of the step before, or an empty name."""
        ring = stage.ring
        assert ring is not None
        gap, age, alike = (self._lanes.new(f"{label}_{name}") for name in ("gap", "age", "alike"))
        newest = f"IntBlock({label}_newest)" if self._in_blocks else f"{label}_newest"
        ring_place = f"{self._start('floats')}{label}_ring_at"
        last = f"{length}, {ring.columns - 1}, {ring.columns}, width, lane, LANES"
        known = self._lanes.new(f"{label}_gap_known")
        self._lanes.lines.append(f"{known} = ring_read(floats_in, {ring_place}, {newest}, {label}_newest, {last})")
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
        dof = "lane + j" if self._in_blocks else "lane"
        where = f"{ring.blends}, {at[pushes]}, {label}_newest, {label}_rows, {ring.columns}, width, {dof}, LANES"
        found = self._lanes.new(f"{label}_found")
        lines = [f"{found} = uneven_back(floats_in, {ring_place}, {at[age]}, dt, {where})"]
        lines.append(f"{at[lag]} = int({found}[0])")
        if share:
            lines.append(f"{self._lanes.at(Value(share))} = uneven_share({at[age]}, {found})")
        if self._in_blocks:
            self._lanes.lines.append(f"if is_uneven({alike}, {pushes}, count) != 0:")
            self._lanes.lines += indented(["for j in range(LANES):", *indented(lines)])
        else:
            self._lanes.lines += [f"if {alike} < {pushes}:", *indented(lines)]
        for name, kept_as in new.items():
            self._states.append((self._place(position, name), Value(kept_as), name in stage.integers))
        return share

    def _run_network(self, position: int, stage: Stage, label: str) -> None:
        """Call the function of a network, which works on whole blocks."""
        network = stage.network
        assert network is not None
        view = {name: self._lanes.at(value) for name, value in self._view(stage).items()}
        inputs = [
            self._lanes.keep(Value(text.format(**view), is_lane=True), self._lanes.new(f"{label}_input"))
            for text in network.inputs
        ]
        self._close(position)
        places = [f"{label}_{name}_at" for name in stage.wide_states]
        memory = ["floats_in", "floats_out", *places, "row_width", f"{self._start('floats')}lane"] if places else []
        given = ", ".join([f"{label}_weights", *(value.name for value in inputs), *memory, "count"])
        output = f"{label}_{network.output}"
        self._lanes.lines.append(f"{output} = {label}_network({given})")
        derivatives = self._derivatives.derivatives_of_network(output, network, self._view(stage))
        if self._derivatives.has_derivatives and not self._in_blocks:  # a vector: the output, then its derivatives
            value = self._lanes.new(f"{output}_value")
            self._lanes.lines.append(f"{value} = {output}[0]")
            output = value
        self._from_networks[position] = Value(output, derivatives=derivatives)

    def _block_writes(self) -> list[str]:
        """Return the stores of a block of lanes: signals, new states, rings."""
        lines = []
        for place, write in enumerate(self._chain.writes):
            array, value = self._name_of[Role.WRITE, place], self._written[place].name
            if write.scattered:
                scatter, adds = "scatter_double" if write.is_double else "scatter", "adds" if write.may_add else "False"
                lines.append(f"{scatter}({array}, {value}, {adds}, effort_indices, effort_offset, base, count)")
            else:
                lines.append(f"store({array}, {value}, base, count)")
        for at, state, is_whole in self._states:
            store, buffer = ("store_int_state", "ints") if is_whole else ("store_state", "floats")
            lines.append(f"{store}({buffer}_out, {state.name}, {at})")
        for position, now, pushes in self._rings:
            label = self._labels[position]
            ring_place, where = f"{self._start('floats')}{label}_ring_at", f"{len(now)}, width, lane"
            lines += [f"if not {label}_synced:"]
            lines += [f"    ring_copy(floats_in, floats_out, {ring_place}, {len(now)}, {label}_rows, width, lane)"]
            new = [f"{ring_place}, {v.name}, {label}_slot, {column}, {where}" for column, v in enumerate(now)]
            lines += [f"ring_write(floats_out, {given})" for given in new]
            lines += ["if not in_place:", *(f"    ring_stream(floats_in, {given})" for given in new)]
            lines += [f"if not {label}_full:"]
            lines += [f"    store_int_state(ints_out, {pushes.name}, {self._place(position, 'pushes')})"]
        return lines

    def _scalar_writes(self) -> list[str]:
        """Return the stores of one DOF, as statements: a backward pass replays functions, and would write twice."""
        lines = []
        if any(write.scattered for write in self._chain.writes):
            lines.append("at = dof_at(effort_indices, effort_offset, base)")
        for place, write in enumerate(self._chain.writes):
            array, value = self._name_of[Role.WRITE, place], self._written[place].name
            at = "at" if write.scattered else "base"
            value = f"wp.float64({value})" if write.is_double else value
            written = [f"{array}[{at}] = {value}"]
            if write.may_add:
                written = ["if adds:", f"    wp.atomic_add({array}, {at}, {value})", "else:", *indented(written)]
            lines += [f"if {array}:", *indented(written)]
        for where, state, is_whole in self._states:
            lines.append(f"{'ints' if is_whole else 'floats'}_out[{where}] = {state.name}")
        for position, now, pushes in self._rings:
            label = self._labels[position]
            sides = ("out",) if self._chain.flavour is Flavour.GRAD else ("out", "in")
            ring_place, where = f"{self._start('floats')}{label}_ring_at", f"{len(now)}, width, lane, LANES"
            lines += [f"if not {label}_synced:", f"    for row in range({label}_rows):"]
            lines += [f"        if row != {label}_slot:"]
            for column in range(len(now)):
                lines.append(f"            at_{column} = {ring_place} + ring_at(row, {column}, {where})")
                lines.append(f"            floats_out[at_{column}] = floats_in[at_{column}]")
            for side in sides:
                writes = [
                    f"floats_{side}[{ring_place} + ring_at({label}_slot, {column}, {where})] = {value.name}"
                    for column, value in enumerate(now)
                ]
                lines += writes if side == "out" else ["if not in_place:", *indented(writes)]
            lines += [f"ints_out[{self._place(position, 'pushes')}] = {pushes.name}"]
        return lines

    def _ring_header(self, position: int, label: str) -> list[str]:
        """Return the loads of a ring before the DOFs of a tile."""
        at = {name: self._place(position, name, per_tile=True) for name in RING_STATES}
        flavour = self._chain.flavour
        synced = "in_place"
        if flavour is not Flavour.GRAD:
            synced += f" or longs_out[{at['spare']}] == longs_in[{at['tag']}]"
            synced += f" or longs_in[{at['origin']}] == longs_out[{at['tag']}]"
        lines = [
            f"{label}_newest = ints_in[{at['newest']}]",
            f"{label}_slot = next_row({label}_newest, {label}_rows)",
            f"{label}_filled = ints_in[{at['filled']}]",
            f"{label}_synced = {synced}",
        ]
        if flavour is Flavour.BLOCK:
            lines.append(f"{label}_full = wp.min({label}_filled, ints_out[{at['filled']}]) >= {label}_rows - 1")
        return lines

    def _ring_footer(self, position: int, label: str) -> list[str]:
        """Return the stores of a ring after the DOFs of a tile."""
        at = {name: self._place(position, name, per_tile=True) for name in RING_STATES}
        lines = [
            f"longs_out[{at['tag']}] = longs_out[{at['tag']}] + wp.int64(1)",
            f"longs_out[{at['origin']}] = wp.int64(0)",
            f"ints_out[{at['newest']}] = {label}_slot",
            f"ints_out[{at['filled']}] = wp.min({label}_filled + 1, {label}_rows - 1)",
            f"longs_out[{at['spare']}] = wp.int64(0)",
        ]
        if self._chain.flavour is not Flavour.GRAD:
            lines += ["if not in_place:", f"    longs_in[{at['spare']}] = longs_out[{at['tag']}]"]
        return lines
