# SPDX-License-Identifier: Apache-2.0
"""`Attachment`: what all actuators on robots have in common, from taking joints over to giving them back."""

from __future__ import annotations

import abc
import contextlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.config import EXPLICIT, IMPLICIT
from ..actuator.state import ActuatorState, check_like
from ..errors import ParameterError, SimulationError, listed
from ..kernel.chain import TANGENT
from ..kernel.launch import DOFS_PER_THREAD, Launch
from ..sim import Articulation, Event
from ..sim.engine import Tangent
from ..sim.events import Uncopyable, subscribe_weakly
from ..sim.ids import ids_to_reset
from ..sim.motor import Block, ImplicitProgram, MotorProgram, RobotCall
from ..typing import ArrayLike, IdsLike
from .changed_parameters import Changed, write_changed
from .effort_limits import Settler, effort_limiter
from .engine_friction import EngineFriction
from .engine_inertia import EngineInertia
from .motor_supply import TRIPPED, RobotBatteries, TripLog, battery_pool, number_dofs, robot_numbers
from .remembering import Remembering, to_change
from .tangent_mode import COMPUTED, EndingChains, TangentHandOver, mode_text, nothing
from .telemetry import Telemetry, make_telemetry

_serial = itertools.count()

_FORGOTTEN = "last_step/forgotten"
"""Name in a file of the robots that were reset since the last step."""


def signal_attr(name: str) -> str:
    """Return the name of the array to which actuators write a signal of their stages."""
    return f"signal_{name}"


class Attachment(Remembering, Uncopyable):
    """Drives DOFs of robots, as their only owner, until `close` or until the last reference to it goes away."""

    _effort: wp.array
    """Efforts that the engine gets from here [N·m or N], shape (N, D)."""
    _applied: wp.array
    """Efforts that joints got, from here or from the engine's own drive [N·m or N], shape (N, D)."""
    _computed: wp.array
    """Efforts before limits [N·m or N], shape (N, D)."""
    _velocity: wp.array
    """Velocities when the actuators were stepped last [rad/s or m/s], flat as the simulation's are."""
    _signals: dict[str, wp.array]
    """Signals of stages, by name, each of shape (N, D)."""
    _control: dict[str, wp.array]
    """All of these, and the targets, as actuators read and write them: flat, by name."""
    _auto_step = True
    _write: Callable[[], None]
    _friction: EngineFriction
    _inertia: EngineInertia
    _undo: contextlib.ExitStack
    """Gives the engine back what it held."""
    _give_back: Callable[[], object]
    """Runs it, once; so does the end of the last reference."""
    _other_states: list[ActuatorState | None]
    """Where actuators write what they remember: in place, but for those whose efforts are tangents; after a step, what
    these remembered before it."""
    _tangent_columns: np.ndarray = np.zeros(0, np.int64)
    """DOFs whose efforts reach the engine as tangents, shape (d,)."""
    _tangent: TangentHandOver | None = None
    _bounds: tuple[wp.array, wp.array] | None = None
    """Lowest and highest effort that the engine gets from here [N·m or N], each of shape (N, D). None: any."""
    _bounds_version: int = -1
    """The version of the engine's limits at that time."""
    _settlers: Sequence[Settler] = ()
    """Kernels that turn the efforts of actuators into those that the engine gets."""
    _settle: Callable[[], None] = staticmethod(nothing)
    """Runs these for all robots."""
    _program: MotorProgram | None = None
    _program_key: object = None
    """Time step, bounds and revisions of parameters that the program was made from."""
    _closed = True

    def _make_arrays(self, articulation: Articulation) -> None:
        """Make what the actuators read and write."""
        self.articulation = articulation
        self._serial = next(_serial)
        self._effort, self._computed = self._new_array(), self._new_array()
        self._applied = self._effort
        given = articulation.simulation.arrays
        self._velocity = wp.zeros_like(given.joint_qd)
        self._feedforward = wp.zeros_like(given.joint_qd)
        self._control = {
            "joint_target_q": given.joint_target_q,
            "joint_target_qd": given.joint_target_qd,
            "joint_act": self._feedforward,
            "joint_f": self._effort.flatten(),
            COMPUTED: self._computed.flatten(),
        }
        self._signals, self._custom_inputs = {}, {}

    def _new_array(self, value: float = 0.0) -> wp.array:
        """An array of shape (N, D)."""
        robots = self.articulation
        return wp.full((len(robots), robots.num_dofs), value, dtype=wp.float32, device=robots.simulation.device)

    def _take_actuators(self, actuators: Sequence[Actuator]) -> None:
        """Step these, which write their efforts and signals to DOFs of the arrays of shape (N, D)."""
        self._actuators = list(actuators)
        self._all_stages = [stage for actuator in actuators for stage in actuator.stages]
        width = self.articulation.num_dofs
        places = [np.divmod(actuator.effort_indices.numpy().astype(np.int64), width) for actuator in actuators]
        self._robot_of = [robots for robots, _ in places]
        numbers, first_dofs = robot_numbers(self.articulation)
        dofs = [first_dofs[robots] + columns for robots, columns in places]
        number_dofs(actuators, [numbers[robots] for robots in self._robot_of], dofs)
        self._states = [actuator.state() for actuator in actuators]
        self._other_states = [
            state if {*TANGENT}.isdisjoint(actuator.control_signal_attrs) else actuator.state()
            for actuator, state in zip(actuators, self._states, strict=True)
        ]
        for actuator in actuators:
            for name, attr in actuator.control_signal_attrs.items():
                if name not in self._signals:
                    self._signals[name] = self._new_array(math.nan)
                    self._control[attr] = self._signals[name].flatten()
            for name in actuator.custom_inputs:
                if name not in self._control:
                    self._custom_inputs[name] = self._control[name] = wp.zeros_like(self._feedforward)
        robots = [self.articulation.robot_ids[rows] for rows in self._robot_of]
        self._batteries = RobotBatteries(actuators, robots, battery_pool(self.articulation.simulation))
        tripped = self._signals.get(TRIPPED)
        self._trips = (
            None
            if tripped is None
            else TripLog(
                self.articulation.dof_names,
                [f"'{path}'" for path in self.articulation.paths],
                tripped,
                self._signals.get("temperature"),
            )
        )

    def _attach(self, columns: np.ndarray, followed: np.ndarray | None = None) -> None:
        """Take these DOFs over. If that fails, the engine is left as it was.

        Args:
            columns: Which DOFs, shape (d,).
            followed: Those whose targets are followed here, and not by the engine. Default: all.
        """
        simulation, at = self.articulation.simulation, self.articulation.at
        with contextlib.ExitStack() as undo:
            undo.callback(simulation.owners.claim(at.of_dofs(columns), followed))
            self._hand_over(undo)
            self._inertia = EngineInertia(self.articulation, self.actuators, undo)
            given = self._signals, self._custom_inputs
            self._friction = EngineFriction(self.articulation, self.actuators, *given, undo)
            self._hand_over_efforts(columns, undo)
            explicit = np.setdiff1d(columns if followed is None else followed, self._tangent_columns)
            if explicit.size:
                undo.callback(simulation.engine.drives.lift_limits(at.of_dofs(explicit)))
            undo.callback(self._batteries.join(self._states))
            heard: dict[Event, Callable[..., object]] = {
                Event.PHYSICS_READY: self.reset,
                Event.RESET: self._on_reset,
                Event.SAVE: self._on_save,
                Event.LOAD: self._on_load,
            }
            for subscription in subscribe_weakly(simulation, heard):
                undo.callback(subscription.cancel)
            undo.callback(simulation.add_motor(self))
            mine = at.of_dofs(columns)
            undo.callback(simulation.engine.state.write, "joint_f", mine, np.zeros(mine.shape, np.float32))
            self._undo = undo.pop_all()
        self._give_back = simulation.undo_with(self, self._undo)
        self._program_key = None
        self._set_bounds(self._effort_bounds())
        self._bounds_version = simulation.engine.properties.limits_version
        self._closed = False

    def _hand_over_efforts(self, columns: np.ndarray, undo: contextlib.ExitStack) -> None:
        """Make ready to hand over efforts of these DOFs, of some as tangents."""
        self._columns_of_engine = columns
        if self._tangent_columns.size:
            given = self._actuators, self._other_states, self._control, self._ending_effort()
            chains = EndingChains(self.articulation, *given)
            own = self._effort, self._signals, chains
            self._tangent = TangentHandOver(self.articulation, self.actuators, self._tangent_columns, *own, undo)
        explicit = np.setdiff1d(columns, self._tangent_columns)
        self._write = nothing
        if explicit.size:
            at = self.articulation.at.of_dofs(explicit)
            self._write = self.articulation.simulation.engine.state.effort_writer(at, self._effort)

    @abc.abstractmethod
    def _hand_over(self, undo: contextlib.ExitStack) -> None:
        """Give the engine what is its own, and put on ``undo`` what takes it back, without a reference to self."""

    def _silence(self, columns: np.ndarray, undo: contextlib.ExitStack) -> None:
        """Make the engine's own drives of these DOFs push no more, and read back that they do not."""
        drives, at = self.articulation.simulation.engine.drives, self.articulation.at.of_dofs(columns)
        undo.callback(drives.silence(at))
        silent = drives.are_silent(at)
        if not silent.all():
            row, column = np.argwhere(~silent)[0]
            what = drives.describe(at.subset(np.array([row]), np.array([column])))
            raise SimulationError(
                f"the engine's own drive of {at.joint(row, column)} is still there after those of the joints to drive "
                f"were silenced: {what}"
            )

    @property
    def is_stepped(self) -> bool:
        """Whether each step of physics steps the actuators, and not their owner by hand."""
        return self._auto_step and not self._closed

    def _step_now(self, dt: float) -> None:
        """Step at a moment of the user's choice."""
        self._check_open()
        self.articulation.simulation.check_open()
        self.articulation.simulation.engine.state.refresh()
        if not self.articulation.simulation.drive(self, dt):
            self.step_in_python(dt)
        else:
            self._batteries.share(self._states)

    def step_in_python(self, dt: float) -> None:
        """Step the actuators, and hand what they give to the engine, from Python."""
        self.prepare()
        self.compute(dt)
        self.hand_over(dt)

    def prepare(self) -> None:
        """Take over what was changed since the last step. See `Motor`."""
        self._renew_inertia()
        self._renew_bounds()
        self._friction.read_loads()

    def compute(self, dt: float) -> None:
        """Compute the efforts of a step of ``dt`` [s]. See `Motor`."""
        arrays, control = self.articulation.simulation.arrays, self._control
        wp.copy(self._velocity, arrays.joint_qd)
        for i, actuator in enumerate(self._actuators):
            actuator.step(arrays, control, self._states[i], self._other_states[i], dt)
            self._states[i], self._other_states[i] = self._other_states[i], self._states[i]
        self._settle()

    def capture_key(self, dt: float) -> object:
        """Return what `compute` depends on beside the values of arrays. See `Motor`."""
        return dt, self._settle, [*self._states], [stage._revision for stage in self._all_stages]

    @property
    def is_graphable(self) -> bool:
        """Whether `compute` can be captured, and nothing is lost by it. See `Motor`."""
        few = self._applied.size < 2 * DOFS_PER_THREAD or not self._applied.device.is_cpu  # a graph takes one thread
        return few and self._tangent is None and all(actuator.is_graphable() for actuator in self._actuators)

    def hand_over(self, dt: float) -> None:
        """Check the efforts, and hand them to the engine. See `Motor`."""
        self._batteries.share(self._states)
        if self._applied.device.is_cpu:  # on a GPU, a look at each step would wait for it
            self._check_finite()
            if self._trips is not None:
                self._trips.look(self.articulation.simulation.time)
        self._write()
        if self._tangent is not None:
            self._tangent.hand_over(dt)
        self._friction.hand_over()
        self._show()

    def program(self, dt: float) -> MotorProgram | None:
        """Return what an engine's compiled code steps, at steps of ``dt`` [s]. See `Motor`."""
        self._renew_inertia()
        self._renew_bounds()
        key = (dt, self._bounds, self._batteries.is_compiled, [stage._revision for stage in self._all_stages])
        if self._program_key != key:
            self._program, self._program_key = self._make_program(dt), key
        return self._program

    def _make_program(self, dt: float) -> MotorProgram | None:
        robots, simulation = self.articulation, self.articulation.simulation
        all_cells = [self._cells_of(i) for i in range(len(self._actuators))]
        cells = [own for own in all_cells if own is not None]
        draws = self._batteries.draws(cells) if len(cells) == len(all_cells) else None
        if draws is None:
            return None
        arrays, keep = simulation.arrays, []
        calls = []
        for actuator, state, own in zip(self._actuators, self._states, cells, strict=True):
            call = actuator.c_call(arrays, self._control, state, dt)
            if call is None:
                return None
            calls.append(RobotCall(call, own))
        everyone = np.arange(len(robots), dtype=np.int64)

        def settling(settlers: Sequence[Settler]) -> list[RobotCall]:
            made = [settler.one_robot() for settler in settlers]
            keep.append(made)
            return [RobotCall(call, everyone) for _, call in made if call is not None]

        implicit = None
        if self._tangent is not None:
            chains = self._tangent.chains
            ending = [
                RobotCall(call, cells[i])
                for i in chains.own
                if (call := self._actuators[i].c_call(arrays, chains.control, chains.scratch.get(i), dt)) is not None
            ]
            implicit = ImplicitProgram(
                self._tangent.columns,
                [array.numpy() for array in self._tangent.tangent],
                [array.numpy() for array in chains.tangent],
                [*ending, *settling(self._ending_settlers)],
                [block for i in chains.own for block in self._blocks(i, cells[i])],
            )
        trips, loads = self._trips, self._friction.loads
        return MotorProgram(
            robots.robot_ids,
            robots.at.columns("joint_qd"),
            [*calls, *settling(self._settlers)],
            self._effort.numpy(),
            self._applied.numpy(),
            np.setdiff1d(self._columns_of_engine, self._tangent_columns),
            self._velocity.numpy(),
            implicit,
            {name: (values.numpy(), own) for name, (values, own) in self._friction.handed_over.items()},
            None if loads is None else loads.numpy(),
            draws,
            None if trips is None else trips.for_program(),
            keep,
        )

    def _cells_of(self, position: int) -> np.ndarray | None:
        """Return the number of each robot in an actuator, or -1; None where its robots are not told apart."""
        count, robots = self._actuators[position].robot_dofs, self._robot_of[position]
        if count is None or (robots.reshape(-1, count) != robots[::count, None]).any():
            return None
        cells = np.full(len(self.articulation), -1, np.int64)
        cells[robots[::count]] = np.arange(len(robots) // count)
        return cells

    def _blocks(self, position: int, cells: np.ndarray) -> list[Block]:
        """Return the memory of an actuator whose efforts are tangents."""
        assert self._tangent is not None
        state, before = self._states[position], self._other_states[position]
        if state is None or before is None:
            return []
        at_end = self._tangent.chains.scratch[position].memory
        return [
            Block(buffer.ptr, before.memory.buffers[name].ptr, at_end.buffers[name].ptr, size, cells)
            for name, buffer in state.memory.buffers.items()
            if (size := state.memory.sizes[name] * wp.types.type_size_in_bytes(buffer.dtype))
        ]

    def has_run(self, time: float) -> None:
        """Show what the engine's compiled code did since ``time`` [s]."""
        simulation = self.articulation.simulation
        if self.is_stepped:
            self._batteries.were_shared()
        if self._trips is not None:
            self._trips.report(time, simulation.dt)
        if self._tangent is not None:
            self._tangent.has_run(simulation.dt)
        self._show()

    def ends_step_at(self, time: float) -> bool:
        """Return whether tangents were handed over by hand for the step that begins at ``time`` [s]."""
        return self._tangent is not None and self._tangent.chains.begun_at(time)

    def _show(self) -> None:
        """Show the last step."""

    def _renew_inertia(self) -> None:
        """Hand over the inertia of rotors again where a parameter was assigned."""
        if self._inertia.is_stale:
            self._inertia.update(self._undo)

    def _effort_bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the lowest and highest effort [N·m or N] that the engine gets from here, each of shape (N, D).

        What the engine clips of its own drives at a joint, it does not clip of efforts from outside. None: any.
        """
        found = self.articulation.simulation.engine.drives.joint_range(self.articulation.at)
        return None if found is None or not np.isfinite(found).any() else found

    @property
    def effort_range(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Lowest and highest effort [N·m or N] that the engine gets from here, each of shape (N, D). None: any."""
        return None if self._bounds is None else (self._bounds[0].numpy(), self._bounds[1].numpy())

    def _renew_bounds(self) -> None:
        """Read the engine's limits again where they were changed."""
        version = self.articulation.simulation.engine.properties.limits_version
        if version != self._bounds_version:
            self._set_bounds(self._effort_bounds())
            self._bounds_version = version

    def _set_bounds(self, bounds: tuple[np.ndarray, np.ndarray] | None) -> None:
        if bounds is not None and self._bounds is not None:
            for array, values in zip(self._bounds, bounds, strict=True):
                array.assign(np.ascontiguousarray(values, np.float32))
            return
        if bounds is None:
            self._bounds = None
        else:
            lower, upper = (wp.array(values, dtype=wp.float32, device=self._effort.device) for values in bounds)
            self._bounds = lower, upper
        self._settlers = self._make_settlers()
        self._settle = _in_turn([settler.all_robots() for settler in self._settlers])
        self._ending_settlers: Sequence[Settler] = ()
        if self._tangent is not None:
            chains = self._tangent.chains
            self._ending_settlers = self._make_ending_settlers(chains.given, chains.tangent)
            chains.settle = _in_turn([settler.all_robots() for settler in self._ending_settlers])

    def _make_settlers(self) -> list[Settler]:
        """Return what makes the efforts that the engine gets of what the actuators gave."""
        if self._bounds is None:
            return []
        columns, bounds = np.setdiff1d(self._columns_of_engine, self._tangent_columns), self._bounds
        made = [effort_limiter(self._effort, columns, bounds, self._effort)] if columns.size else []
        if self._tangent is not None:
            made += self._make_ending_settlers({}, self._tangent.tangent)
        return made

    def _ending_effort(self) -> wp.array | None:
        """Return an array for the efforts that the engine would get where a step ends; None: those of the chains."""
        return None

    def _make_ending_settlers(self, given: Mapping[str, wp.array], tangent: Tangent) -> list[Settler]:
        """Return what makes the tangents that the engine gets, of what the chains of tangents gave.

        Args:
            given: What these gave, by name, each of shape (N, D).
            tangent: What the engine gets.
        """
        if self._bounds is None:
            return []
        effort = tangent.effort
        return [effort_limiter(effort, self._tangent_columns, self._bounds, effort, tangent=tangent[1:])]

    def _check_finite(self) -> None:
        """Hand no effort to the engine that is NaN or infinite, as a target or parameter of NaN makes it."""
        efforts = self._applied.numpy().ravel()
        # A sum of squares is one call in place of two.
        if efforts.dot(efforts) < math.inf or np.isfinite(efforts).all():
            return
        robot, dof = divmod(int(np.flatnonzero(~np.isfinite(efforts))[0]), self.articulation.num_dofs)
        time = self.articulation.simulation.time
        raise SimulationError(f"t = {time:.6g} s: {self.not_finite(robot, dof)}")

    def not_finite(self, robot: int, column: int) -> str:
        """Say which effort is not finite."""
        robots = self.articulation
        return (
            f"the effort of joint '{robots.dof_names[column]}' of '{robots.paths[robot]}' is "
            f"{self._applied.numpy()[robot, column]}; check its target and parameters"
        )

    def set_dof_feedforward_effort_targets(
        self, target_feedforward_efforts: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Set what controllers add to their effort [N·m or N]. It goes through delay and limits as they do.

        Beside the engine's own drive of an implicit group it acts as it is.

        Args:
            target_feedforward_efforts: As for `Articulation.set_dof_efforts`. On DOFs without an actuator they have no
                effect.
            indices: Which robots. Default: all.
            dof_indices: Which DOFs. Default: all.
        """
        self._set("target_feedforward_efforts", self._feedforward, target_feedforward_efforts, indices, dof_indices)

    def set_dof_custom_inputs(
        self, name: str, values: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Set an input that a network takes beside targets, such as a load. It is zero until then.

        Args:
            name: As the network's file has it in ``custom_inputs``.
            values: As for `Articulation.set_dof_efforts`, in the unit that the network was trained with.
            indices: Which robots. Default: all.
            dof_indices: Which DOFs. Default: all.
        """
        if name not in self._custom_inputs:
            raise ParameterError(
                f"no actuator takes an input '{name}'; {listed(str(name), self._custom_inputs, 'custom inputs')}"
            )
        self._set("values", self._custom_inputs[name], values, indices, dof_indices)

    def _set(self, argument: str, array: wp.array, values: ArrayLike, indices: IdsLike, dof_indices: IdsLike) -> None:
        """Write to an array that is flat as the simulation's velocities are."""
        self._check_open()
        at = self.articulation.to_write(indices, dof_indices)
        numbers = self.articulation.numbers(argument, values, at.shape)
        with to_change(array) as changed:
            changed[at.flat("joint_qd")] = numbers

    def telemetry(self) -> Telemetry:
        """Return efforts and signals of the last step."""
        signals = {name: array.numpy().copy() for name, array in self._signals.items() if name not in TANGENT}
        efforts = self._computed.numpy().copy(), self._applied.numpy().copy()
        if self._tangent is not None:
            self._tangent.show(efforts[1])
        if self._trips is not None and not self._applied.device.is_cpu:  # where no step has looked
            self._trips.look(self.articulation.simulation.time)
        names = self.articulation.dof_names
        velocity = np.asarray(self._velocity.numpy()[self.articulation.at.flat("joint_qd")])
        return make_telemetry(names, velocity, *efforts, signals, self.actuators, self.effort_range)

    def description(self) -> dict[str, str]:
        """Return what must be the same for what was saved to fit. See `Motor`."""
        found = {"class": type(self).__name__, "robots": ", ".join(map(str, self.articulation.robot_ids))}
        for name, actuator in zip(self._actuator_names(), self._actuators, strict=True):
            stages = " → ".join(f"{type(stage).__name__} {stage.fingerprint()}".strip() for stage in actuator.stages)
            every = f", control every {actuator.control_every} steps" if actuator.control_every > 1 else ""
            mode = EXPLICIT if {*TANGENT}.isdisjoint(actuator.control_signal_attrs) else IMPLICIT
            found[name] = f"{stages}{every} with {mode} efforts on {self._joints_of(actuator)}"
        return found

    def saved(self) -> dict[str, np.ndarray]:
        """Return what a file of the simulation holds: memory, parameters, and what was shown last. See `Motor`."""
        found = self._saved() | {name: array.numpy() for name, array in self._last_step().items()}
        return found if self._tangent is None else found | {_FORGOTTEN: self._tangent.forgotten}

    def checked(self, where: str, contents: Mapping[str, np.ndarray], version: int) -> Callable[[], None]:
        """Refuse what does not fit. Returns what takes the rest over. See `Motor`."""
        take = self._checked(where, contents, version)
        if self._tangent is not None:
            check_like(where, _FORGOTTEN, contents.get(_FORGOTTEN), self._tangent.forgotten)
        for name, array in self._last_step().items():
            check_like(where, name, contents.get(name), array.numpy())

        def take_all() -> None:
            take()
            for name, array in self._last_step().items():
                array.assign(contents[name])
            if self._tangent is not None:
                self._tangent.resume(contents[_FORGOTTEN])
            if self._trips is not None:
                self._trips.forget()
            self._show()

        return take_all

    def _last_step(self) -> dict[str, wp.array]:
        """Return the arrays that show the last step, by name in a file."""
        shown = {name: array for name, (array, _) in self._shown().items()}
        return {f"last_step/{name}": array for name, array in (shown | {"velocity": self._velocity}).items()}

    def _take_parameters(self, own: Mapping[str, np.ndarray], changed: Changed) -> None:
        write_changed(changed)
        self._inertia.update(self._undo)

    def _on_reset(self, env_ids: np.ndarray) -> None:
        self.reset(self._rows_of(env_ids))

    def reset(self, env_ids: IdsLike = None) -> None:
        """Let robots forget the past: delayed commands, integrals, hidden states. Feedforward stays.

        Args:
            env_ids: Which robots, by their row: whole numbers, a slice or a mask. Default: all. The others are not
                touched.
        """
        self._check_open()
        rows = ids_to_reset("env_ids", env_ids, len(self.articulation))
        if rows.size:
            self._forget(rows)

    def _forget(self, rows: np.ndarray) -> None:
        """Reset these robots, of which there is at least one, and each is named once."""
        for array, value in self._shown().values():
            with to_change(array) as numbers:
                numbers[rows] = value
        if self._tangent is not None:
            self._tangent.forget(rows)
        everyone = len(rows) == len(self.articulation)
        for state, robots in zip(self._states, self._robot_of, strict=True):
            if state is not None:
                mask = None if everyone else wp.array(np.isin(robots, rows), device=self._effort.device)
                state.reset(mask)
        self._batteries.lead(self._states)

    def _shown(self) -> dict[str, tuple[wp.array, float]]:
        """Arrays of shape (N, D) that show the last step, and what they are without one, by name."""
        efforts = {"effort": self._effort, "computed": self._computed, "applied": self._applied}
        signals = {f"signals/{name}": (array, math.nan) for name, array in self._signals.items()}
        return {name: (array, 0.0) for name, array in efforts.items()} | signals

    def close(self) -> None:
        """Take the efforts off, and give the engine back what it held. May be called again."""
        if self._closed:
            return
        self._closed = True
        if not self.articulation.simulation.is_closed:
            self._effort.zero_()
            self._tangent = None
        self._give_back()

    @property
    def mode_text(self) -> str:
        """Form of the efforts, such as ``"implicit efforts of 7 DOFs, discrete"``; empty if all are explicit."""
        return mode_text(self.articulation, self._tangent_columns)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise SimulationError(f"this {type(self).__name__} is closed; make another")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _in_turn(launches: Sequence[Launch]) -> Callable[[], None]:
    def run() -> None:
        for launch in launches:
            launch.launch()

    return run
