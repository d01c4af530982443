# SPDX-License-Identifier: Apache-2.0
"""Hand-overs: changes of an attachment in an engine, which last until the attachment is closed.

The engine drives are disabled. Joints get the inertia of rotors as armature, and the friction of motors. Efforts
are written unchanged or, with ``effort_mode="implicit"``, with their derivatives by position and velocity and their
bounds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ..actuator.config import EXPLICIT, IMPLICIT, Part, built
from ..actuator.implicit_step import derivative_obstacle
from ..actuator.state import ActuatorState
from ..components.component import Component
from ..components.kinds import Transmission
from ..components.math import JOINT_FRICTION, JOINT_LOAD
from ..declare.parameters import Field
from ..errors import ActuonError, SimulationError, StructureError
from ..kernel.chain import BOUNDS, DERIVATIVES
from ..kernel.launch import Launch
from ..sim import Articulation
from ..sim.engine import PROPERTIES, EndOfStep, ImplicitEffort
from ..sim.motor import Block, ImplicitProgram, MotorProgram, RobotCall
from ..sim.robots import DofSet
from ..stability.limits import usages_of
from .chain_set import COMPUTED, IMPLICIT_ATTRS, ChainSet, is_implicit, to_change
from .effort_limits import Bounds, Settler, effort_limiter
from .solved_by_engine import FRICTION

_log = logging.getLogger("actuon.actuators")

_FRICTION_OF_ASSETS = (*FRICTION.values(), "quadratic_friction", "cubic_friction")
"""Friction properties of an asset."""


class HandOver:
    """Part of an attachment that writes to the engine. Methods may be left out.

    It must not refer to the attachment, whose deletion restores the engine.
    """

    common: Collection[str] = ()
    """Names of memory that all robots share. See `Keeper`."""
    revision: int = 0
    """Number that changes with `settlers`."""

    def attach(self, undo: contextlib.ExitStack) -> None:
        """Write permanent changes to the engine, and put functions on ``undo`` that restore it."""

    def renew(self) -> None:
        """Update all that depends on parameters and limits, before steps."""

    def before(self) -> None:
        """Read inputs of actuators from the engine, before they are stepped from Python."""

    def settlers(self) -> Sequence[Settler]:
        """Return kernels that compute the efforts for the engine from those of the chains."""
        return ()

    def after(self) -> None:
        """Write results of actuators to the engine, after they were stepped from Python."""

    def kernels(self) -> Sequence[Callable[[], None]] | None:
        """Return the launches of `before` and `after`; None if they do more."""
        return ()

    def has_run(self, dt: float) -> None:
        """Update telemetry after steps of ``dt`` [s] from Python or in compiled code."""

    def add_to(self, program: MotorProgram, dt: float, cells: Sequence[np.ndarray]) -> MotorProgram:
        """Return a program with the values that compiled code writes to the engine.

        Args:
            program: The program without them.
            dt: Time step [s].
            cells: Number of each robot in each actuator. See `RobotCall`.
        """
        return program

    def reset(self, rows: np.ndarray) -> None:
        """Clear the memory of robots."""

    def last_step(self) -> dict[str, np.ndarray]:
        """Return arrays for files of simulations besides memory and parameters. They may be written in place."""
        return {}

    def resume(self) -> None:
        """Continue after such a file was loaded."""

    def description(self) -> dict[str, str]:
        """Return texts by label that must match those of a file."""
        return {}

    def kept(self) -> dict[str, np.ndarray]:
        """Return memory. See `Keeper`."""
        return {}

    def check_kept(self, where: str, contents: Mapping[str, np.ndarray]) -> None:
        """Raise an error for values that `kept` cannot return."""

    def take_kept(self, contents: Mapping[str, np.ndarray]) -> None:
        """Load the result of `kept`."""

    def parameters(self) -> dict[str, tuple[Field[Any], wp.array]]:
        """Return parameters besides those of stages. See `Keeper`."""
        return {}

    def take_parameters(self, values: Mapping[str, np.ndarray]) -> None:
        """Load parameters that were checked."""


@dataclass(frozen=True, eq=False)
class Efforts:
    """Efforts of the last step [N·m or N], each of shape (N, D)."""

    computed: wp.array
    """Requested efforts of the controllers, before limits."""
    given: wp.array
    """Efforts of the chains, after their own limits."""
    engine: wp.array
    """Efforts for the engine."""
    applied: wp.array
    """Applied efforts of the joints, by the chains or by the engine drive."""


class Inputs(HandOver):
    """Feedforward and custom inputs of chains, which are constant between steps, and are saved.

    Args:
        articulation: The robots.
        chains: Their chains.
        feedforward: Feedforward of controllers [N·m or N], flat as the simulation's velocities.
    """

    def __init__(self, articulation: Articulation, chains: ChainSet, feedforward: wp.array):
        self._at = articulation.at.flat("joint_qd")
        self._arrays = {"feedforward": feedforward}
        self._arrays |= {f"custom_inputs/{name}": array for name, array in chains.inputs.items()}

    def kept(self) -> dict[str, np.ndarray]:
        return {name: array.numpy()[self._at] for name, array in self._arrays.items()}

    def take_kept(self, contents: Mapping[str, np.ndarray]) -> None:
        for name, array in self._arrays.items():
            with to_change(array) as changed:
                changed[self._at] = contents[name]


class SilencedDrives(HandOver):
    """Disabled engine drives of DOFs.

    Args:
        articulation: The robots.
        columns: Which DOFs, shape (d,).
    """

    def __init__(self, articulation: Articulation, columns: np.ndarray):
        self._drives, self._at = articulation.simulation.engine.drives, articulation.at.of_dofs(columns)

    def attach(self, undo: contextlib.ExitStack) -> None:
        drives, at = self._drives, self._at
        undo.callback(drives.silence(at))
        silent = drives.are_silent(at)
        if not silent.all():
            row, column = np.argwhere(~silent)[0]
            what = drives.describe(at.subset(np.array([row]), np.array([column])))
            raise SimulationError(
                f"{at.joint(row, column)} is still driven by the engine: {what}. Disable it, or leave the joint to the "
                "engine"
            )


class RotorInertia(HandOver):
    """Rotor inertia of stages as the armature of their joints, which replaces the asset's.

    Args:
        articulation: The robots.
        chains: Their chains.
    """

    def __init__(self, articulation: Articulation, chains: ChainSet):
        self._articulation, self._chains = articulation, chains
        self._properties = articulation.simulation.engine.properties
        self._is_stale = False
        self._wanted = chains.inertia().astype(np.float32)
        self._own: np.ndarray | None = None
        self._undo = contextlib.ExitStack()

    def attach(self, undo: contextlib.ExitStack) -> None:
        self._undo = undo
        for stage in dict.fromkeys(self._chains.stages):
            if isinstance(stage, Transmission) or type(stage).engine_armature is not Component.engine_armature:
                undo.callback(stage.on_write(self._on_write))
        held = self._properties.get("armature", self._articulation.at)
        self._own = None if held is None else held.copy()
        columns = np.flatnonzero(self._wanted.any(axis=0))
        if not columns.size:
            return
        if self._own is None:
            self._warn_of_none()
            return
        self._say(columns, self._own)
        undo.callback(self._properties.keep(self._articulation.at.of_dofs(columns)))
        self._write(np.arange(len(self._own)), columns, self._values(columns, self._own))

    def _warn_of_none(self) -> None:
        engine = type(self._articulation.simulation).__name__
        _log.warning("%s holds no armature: the inertia of motors is left out", engine)

    def _on_write(self) -> None:
        self._is_stale = True

    def _values(self, columns: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Return the armature of DOFs [kg·m²], shape (N, d): that of stages, or the asset's if they have none."""
        wanted = self._wanted[:, columns]
        return np.where(wanted > 0.0, wanted, own[:, columns])

    def _say(self, columns: np.ndarray, own: np.ndarray) -> None:
        """Log armatures of the asset that are replaced, once for all joints with equal ones."""
        replaced: dict[tuple[str, str], list[str]] = {}
        for column, values in zip(columns, self._values(columns, own).T, strict=True):
            before = own[:, column]
            other = (before != 0.0) & ~np.isclose(before, values, rtol=1e-5)
            if other.any():
                robot = int(np.argmax(other))
                pair = f"{before[robot]:g}", f"{values[robot]:g}"
                replaced.setdefault(pair, []).append(f"'{self._articulation.dof_names[column]}'")
        for (old, new), joints in replaced.items():
            _log.warning(
                "joint%s %s: the asset's armature of %s kg·m² is replaced by %s kg·m², the inertia of the rotor at the "
                "joint",
                *("s" * (len(joints) > 1), ", ".join(joints), old, new),
            )

    def renew(self) -> None:
        if self._is_stale:
            self.update()

    def update(self) -> None:
        """Write inertia to the engine if parameters changed it."""
        before, wanted = self._wanted, self._chains.inertia().astype(np.float32)
        columns = np.flatnonzero((wanted != before).any(axis=0))
        if columns.size:
            self._wanted = wanted
            try:
                self._change(columns, columns[~before[:, columns].any(axis=0)])
            except SimulationError:
                self._wanted = before
                raise
        self._is_stale = False

    def _change(self, columns: np.ndarray, first: np.ndarray) -> None:
        """Write the armature of DOFs. Stages of the ``first`` had no inertia before."""
        at = self._articulation.at
        held = self._properties.get("armature", at)
        if held is None or self._own is None:
            self._warn_of_none()
            return
        self._own[:, first] = held[:, first]
        values = self._values(columns, self._own)
        rows = np.flatnonzero((held[:, columns] != values).any(axis=1))
        if not rows.size:
            return
        if first.size:
            self._undo.callback(self._properties.keep(at.of_dofs(first)))
        self._write(rows, columns, values[rows])

    def _write(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> None:
        at = self._articulation.at.subset(rows, columns)
        self._properties.set(at, armature=values)
        now = self._properties.get("armature", at)
        if now is None or not np.allclose(now, values, rtol=1e-5):
            raise SimulationError("the engine reports another armature than the one written")


class SolvedFriction(HandOver):
    """Friction of stages for engines that solve it, and external loads from the engine.

    Friction stages replace the asset's friction; losses of gears add to its dry friction.

    Args:
        articulation: The robots.
        chains: Their chains.
    """

    def __init__(self, articulation: Articulation, chains: ChainSet):
        self._articulation, self._chains = articulation, chains
        self._writers: list[Callable[[], None]] = []
        self._handed_over: dict[str, tuple[wp.array, np.ndarray]] = {}
        self._read: Callable[[], None] | None = None

    def attach(self, undo: contextlib.ExitStack) -> None:
        articulation, engine, chains = self._articulation, self._articulation.simulation.engine, self._chains
        columns = {signal: self._columns(signal) for signal in FRICTION}
        replaced = columns["viscous_friction"]
        both = np.union1d(columns["dry_friction"], replaced)
        if not both.size:
            return
        dofs = articulation.at.of_dofs(both)
        undo.callback(engine.properties.keep(dofs))
        if JOINT_FRICTION in chains.inputs:
            self._add_to(np.setdiff1d(both, replaced))
        self._replace(articulation.at.of_dofs(replaced))
        if articulation.simulation.solves_friction(articulation.at):
            undo.callback(engine.properties.stiffen_friction(dofs))
            for signal, name in FRICTION.items():
                if columns[signal].size:
                    own = articulation.at.of_dofs(columns[signal])
                    self._writers.append(engine.properties.writer(name, own, chains.signals[signal]))
                    self._handed_over[name] = chains.signals[signal], columns[signal]
        if JOINT_LOAD in chains.inputs:
            self._read = engine.state.load_reader(articulation.at, chains.inputs[JOINT_LOAD])

    def _columns(self, signal: str) -> np.ndarray:
        """Return the DOFs with stages that offer a signal. Friction stages offer both, gears with losses the first."""
        pairs = zip(self._chains.actuators, self._chains.places, strict=True)
        offering = [at for actuator, at in pairs if signal in actuator.signals]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *offering]) % self._articulation.num_dofs)

    def _add_to(self, columns: np.ndarray) -> None:
        """Let gears add their losses to the asset's dry friction of these DOFs."""
        at = self._articulation.at.of_dofs(columns)
        own = self._articulation.simulation.engine.properties.get("friction", at)
        if own is not None:
            with to_change(self._chains.inputs[JOINT_FRICTION]) as changed:
                changed[at.flat("joint_qd")] = own

    def _replace(self, at: DofSet) -> None:
        """Remove the asset's friction from these DOFs, and log it."""
        properties = self._articulation.simulation.engine.properties
        said: dict[str, list[str]] = {}
        for name in _FRICTION_OF_ASSETS:
            held = properties.get(name, at)
            if held is None:
                continue
            for joint, values in zip(at.names, held.T, strict=True):
                most = float(values[np.abs(values).argmax()])
                if most != 0.0:
                    said.setdefault(joint, []).append(f"{most:g} {PROPERTIES[name].unit}")
            if held.any():
                properties.set(at, **{name: np.zeros(at.shape, np.float32)})
        if said:
            own = ", ".join(f"{joint} ({' and '.join(values)})" for joint, values in said.items())
            _log.warning("the asset's own friction is replaced by that of the actuators, until close(): %s", own)

    def before(self) -> None:
        if self._read is not None:
            self._read()

    def after(self) -> None:
        for write in self._writers:
            write()

    def kernels(self) -> Sequence[Callable[[], None]] | None:
        return () if self._read is None and not self._writers else None

    def add_to(self, program: MotorProgram, dt: float, cells: Sequence[np.ndarray]) -> MotorProgram:
        properties = {name: (values.numpy(), own) for name, (values, own) in self._handed_over.items()}
        loads = None if self._read is None else self._chains.inputs[JOINT_LOAD].numpy()
        return dataclasses.replace(program, properties=properties, loads=loads)


class ExplicitEfforts(HandOver):
    """Explicit efforts.

    Args:
        articulation: The robots.
        columns: Which DOFs, shape (d,), at least one.
        followed: DOFs of these that the engine does not drive.
        efforts: Efforts of all DOFs.
    """

    def __init__(self, articulation: Articulation, columns: np.ndarray, followed: np.ndarray, efforts: Efforts):
        self._articulation, self._columns, self._followed = articulation, columns, followed
        self._effort = efforts.engine
        self._write: Callable[[], None] | None = None

    def attach(self, undo: contextlib.ExitStack) -> None:
        engine, at = self._articulation.simulation.engine, self._articulation.at
        self._write = engine.state.effort_writer(at.of_dofs(self._columns), self._effort)
        if self._followed.size:
            undo.callback(engine.drives.lift_limits(at.of_dofs(self._followed)))

    def after(self) -> None:
        assert self._write is not None
        self._write()

    def kernels(self) -> Sequence[Callable[[], None]]:
        assert self._write is not None
        return [self._write]

    def add_to(self, program: MotorProgram, dt: float, cells: Sequence[np.ndarray]) -> MotorProgram:
        return dataclasses.replace(program, pushed=self._columns)


class ImplicitEfforts(HandOver):
    """Implicit efforts.

    The chains are evaluated again at the end of a step, with their memory before it, so that limits apply there.

    Args:
        articulation: The robots.
        columns: Which DOFs, shape (d,), at least one.
        chains: All their chains.
        efforts: Efforts of all DOFs.
    """

    def __init__(self, articulation: Articulation, columns: np.ndarray, chains: ChainSet, efforts: Efforts):
        self._articulation, self.columns, self._chains = articulation, columns, chains
        self.implicit = ImplicitEffort(efforts.engine, *(chains.signals[name] for name in (*DERIVATIVES, *BOUNDS)))
        """Efforts and derivatives for the engine."""
        self._forgotten = np.zeros(len(articulation), dtype=bool)
        """Whether robots were reset since the last step, so that telemetry shows efforts of zero, shape (N,)."""
        self._own = [i for i, actuator in enumerate(chains.actuators) if is_implicit(actuator)]
        names = {
            name
            for actuator in (chains.actuators[i] for i in self._own)
            for name in (actuator.control_output_attr, COMPUTED, *actuator.control_signal_attrs.values())
        }
        outputs = {name: wp.zeros_like(chains.arrays[name]) for name in sorted(names)}
        self._at_end: dict[str, wp.array] = {**chains.arrays, **outputs}
        tables = {name: array.reshape(chains.shape) for name, array in outputs.items()}
        self.given_at_end = tables[chains.actuators[self._own[0]].control_output_attr]
        """Efforts of the chains at the end of a step [N·m or N], shape (N, D)."""
        effort = self.given_at_end if efforts.engine is efforts.given else wp.zeros_like(efforts.engine)
        self.implicit_at_end = ImplicitEffort(effort, *(tables[attr] for attr in IMPLICIT_ATTRS.values()))
        """Efforts and derivatives at the end of a step."""
        self._scratch: dict[int, ActuatorState] = {}
        """States of the chains at the end of a step, by position."""
        for i in self._own:
            state = chains.actuators[i].state()
            if state is not None:
                self._scratch[i] = state
        self.settlers_at_end: Sequence[Settler] = ()
        """Kernels that compute the efforts for the engine at the end of a step."""
        self.settle_at_end: Callable[[], None] = _nothing
        self._dt: float | None = None
        self._time = math.nan

    def attach(self, undo: contextlib.ExitStack) -> None:
        at, engine = self._articulation.at.of_dofs(self.columns), self._articulation.simulation.engine.implicit_efforts
        ending = EndOfStep(self.implicit_at_end, self._evaluate)
        self._held = engine.hold(at, self.implicit, ending, self._usage)
        undo.callback(self._held.release)

    def _usage(self) -> float:
        """Return the stability usage of the implicit efforts [1]; 0 if unknown."""
        columns = self.columns.tolist()
        try:
            shares = usages_of(self._articulation, self._chains.actuators, columns)
        except ActuonError:  # which a step will say
            return 0.0
        return max(shares[column] for column in columns)

    def _evaluate(self) -> bool:
        """Update the derivatives at the end of a step. Returns False if the actuators were not stepped."""
        simulation, chains = self._articulation.simulation, self._chains
        if simulation.time != self._time:
            return False
        for i in self._own:
            before, scratch = chains.other_states[i], self._scratch.get(i)
            chains.actuators[i].step(simulation.arrays, self._at_end, before, scratch, self._dt)
        self.settle_at_end()
        return True

    def has_begun(self, time: float) -> bool:
        """Return whether derivatives were written for the step that begins at ``time`` [s]."""
        return self._time == time

    def after(self) -> None:
        assert self._held.write is not None
        self._held.write()

    def kernels(self) -> None:
        return None

    def has_run(self, dt: float) -> None:
        self._forgotten[:] = False
        self._dt, self._time = dt, self._articulation.simulation.time

    def add_to(self, program: MotorProgram, dt: float, cells: Sequence[np.ndarray]) -> MotorProgram:
        arrays, chains = self._articulation.simulation.arrays, self._chains
        calls = [
            RobotCall(call, cells[i])
            for i in self._own
            if (call := chains.actuators[i].c_call(arrays, self._at_end, self._scratch.get(i), dt)) is not None
        ]
        settling, kept = calls_of(self.settlers_at_end)
        implicit = ImplicitProgram(
            self.columns,
            [array.numpy() for array in self.implicit],
            [array.numpy() for array in self.implicit_at_end],
            [*calls, *settling],
            [block for i in self._own for block in self._blocks(i, cells[i])],
        )
        return dataclasses.replace(program, implicit=implicit, keep=[*program.keep, kept])

    def _blocks(self, position: int, cells: np.ndarray) -> list[Block]:
        """Return the memory of an actuator."""
        state, before = self._chains.states[position], self._chains.other_states[position]
        if state is None or before is None:
            return []
        at_end = self._scratch[position].memory
        return [
            Block(buffer.ptr, before.memory.buffers[name].ptr, at_end.buffers[name].ptr, size, cells)
            for name, buffer in state.memory.buffers.items()
            if (size := state.memory.sizes[name] * wp.types.type_size_in_bytes(buffer.dtype))
        ]

    def show(self, applied: np.ndarray) -> None:
        """Write the efforts that the engine applied in its last step into an array of shape (N, D)."""
        applied[:, self.columns] = np.where(self._forgotten[:, None], 0.0, self._held.applied())

    def reset(self, rows: np.ndarray) -> None:
        self._forgotten[rows] = True

    def last_step(self) -> dict[str, np.ndarray]:
        return {"last_step/forgotten": self._forgotten}

    def resume(self) -> None:
        self._time = math.nan


@dataclass(frozen=True, eq=False)
class LimitedEfforts:
    """DOFs whose efforts are limited in one launch."""

    columns: np.ndarray
    """Columns of the DOFs, shape (J,)."""
    is_implicit: bool
    """Whether they are implicit."""
    largest: wp.array | None = None
    """Largest effort of the engine [N·m or N], shape (N, J). None: no limit."""


class EffortLimits(HandOver):
    """Limits of joints in the engine, which it does not apply to external efforts.

    Args:
        articulation: The robots.
        efforts: Efforts of all DOFs.
        parts: DOFs whose efforts are limited.
        ranges: Returns lowest and highest effort for the engine [N·m or N], each of shape (N, D); None: no limit.
        implicit_efforts: Implicit efforts.
    """

    def __init__(
        self,
        articulation: Articulation,
        efforts: Efforts,
        parts: Sequence[LimitedEfforts],
        ranges: Callable[[], tuple[np.ndarray, np.ndarray] | None],
        implicit_efforts: ImplicitEfforts | None,
    ):
        self._properties = articulation.simulation.engine.properties
        self._efforts, self._parts, self._ranges, self._implicit_efforts = efforts, parts, ranges, implicit_efforts
        self.bounds: Bounds = None
        """Lowest and highest effort for the engine [N·m or N], each of shape (N, D). None: no limit."""
        self._version: int | None = -1
        self._settlers: list[Settler] = []

    def attach(self, undo: contextlib.ExitStack) -> None:
        self._settle_with(None)
        self.update()

    def renew(self) -> None:
        version = self._properties.limits_version
        if version is None or version != self._version:
            self.update()

    def update(self) -> None:
        """Read the limits again."""
        bounds = self._ranges()
        self._version = self._properties.limits_version
        if bounds is not None and self.bounds is not None:
            for array, values in zip(self.bounds, bounds, strict=True):
                array.assign(np.ascontiguousarray(values, np.float32))
        elif bounds is not None:
            lower, upper = (wp.array(values, dtype=wp.float32, device=self._efforts.engine.device) for values in bounds)
            self._settle_with((lower, upper))
        elif self.bounds is not None:
            self._settle_with(None)

    def _settle_with(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.revision += 1
        efforts, implicit_efforts = self._efforts, self._implicit_efforts
        applied = None if efforts.applied is efforts.engine else efforts.applied
        parts = [part for part in self._parts if bounds is not None or part.largest is not None]
        self._settlers, at_end = [], []
        for part in parts:
            given, engine, derivatives = efforts.given, efforts.engine, tuple[wp.array, ...]()
            if part.is_implicit and implicit_efforts is not None:
                derivatives, end = implicit_efforts.implicit[1:], implicit_efforts.implicit_at_end
                at_end.append(
                    effort_limiter(
                        implicit_efforts.given_at_end,
                        part.columns,
                        bounds,
                        end.effort,
                        part.largest,
                        derivatives=end[1:],
                    )
                )
            self._settlers.append(
                effort_limiter(given, part.columns, bounds, engine, part.largest, applied, derivatives)
            )
        if implicit_efforts is not None:
            implicit_efforts.settlers_at_end, implicit_efforts.settle_at_end = at_end, in_turn(at_end)

    def settlers(self) -> Sequence[Settler]:
        return self._settlers


def in_turn(settlers: Sequence[Settler]) -> Callable[[], None]:
    """Return a function that runs settlers for all robots."""
    launches: list[Launch] = [settler.all_robots() for settler in settlers]

    def run() -> None:
        for launch in launches:
            launch.launch()

    return run if launches else _nothing


def calls_of(settlers: Sequence[Settler]) -> tuple[list[RobotCall], list[object]]:
    """Return the calls of settlers for one robot in compiled code, and the objects that own their memory."""
    made = [(settler.robots, *settler.one_robot()) for settler in settlers]
    calls = [RobotCall(call, np.arange(robots, dtype=np.int64)) for robots, _, call in made if call is not None]
    return calls, [made]


def joint_ranges(articulation: Articulation) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the lowest and highest effort of joints [N·m or N], each of shape (N, D). None: no limit."""
    found = articulation.simulation.engine.drives.joint_range(articulation.at)
    return None if found is None or not np.isfinite(found).any() else found


def check_derivatives(where: str, stages: Sequence[Part]) -> None:
    """Raise an error for a chain whose effort has no derivatives.

    Raises:
        StructureError: It has none, with ``where`` and the reason.
    """
    why = derivative_obstacle([built(part) for part in stages], requires_grad=False)
    if why:
        raise StructureError(
            f"{where}: effort_mode '{IMPLICIT}' needs derivatives of the effort, but {why}; use '{EXPLICIT}'"
        )


def _nothing() -> None:
    """Do nothing."""
