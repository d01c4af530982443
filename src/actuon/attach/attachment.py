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
from ..actuator.state import ActuatorState
from ..errors import ParameterError, SimulationError, listed
from ..kernel.chain import TANGENT
from ..sim import Articulation, Event, Subscription
from ..sim.events import subscribe_weakly
from ..sim.ids import ids_to_reset
from ..sim.uncopyable import Uncopyable
from ..typing import ArrayLike, IdsLike
from .bounded import Bounded
from .changed_parameters import Changed, write_changed
from .engine_friction import EngineFriction
from .engine_inertia import EngineInertia
from .in_engine_loop import InEngineLoop
from .motor_supply import TRIPPED, RobotBatteries, Trips, battery_pool, number_dofs, robot_numbers
from .remembering import Remembering, to_change
from .tangent_mode import COMPUTED, EndingChains, TangentHandOver, mode_text, nothing
from .telemetry import Telemetry, make_telemetry

_serial = itertools.count()


def signal_attr(name: str) -> str:
    """What the array is called to which actuators write a signal of their stages."""
    return f"signal_{name}"


class Attachment(Remembering, Bounded, Uncopyable):
    """Drives DOFs of robots, as their only owner, until `close` or until the last reference to it goes away."""

    _computed: wp.array
    """What the controllers wanted [N·m or N], shape (N, D)."""
    _velocity: np.ndarray | None
    """Of the joints when the actuators were stepped last [rad/s or m/s], shape (N, D); of an engine on a GPU flat, and
    there, in `_velocity_there`. None: they were stepped in the engine's loop, and `_in_loop` has it."""
    _velocity_there: wp.array | None = None
    _signals: dict[str, wp.array]
    """What stages offer, by name, each of shape (N, D)."""
    _control: dict[str, wp.array]
    """All of these, and the targets, as actuators read and write them: flat, by name."""
    _auto_step = True
    _write: Callable[[], None]
    _friction: EngineFriction
    _inertia: EngineInertia
    _subscriptions: list[Subscription]
    _undo: contextlib.ExitStack
    _other_states: list[ActuatorState | None]
    """Where actuators write what they remember: in place, but for those whose efforts are tangents; after a step, what
    these remembered before it."""
    _tangent_columns: np.ndarray = np.zeros(0, np.int64)
    """DOFs whose efforts reach the engine as tangents, shape (d,)."""
    _tangent: TangentHandOver | None = None
    _in_loop: InEngineLoop | None = None
    """For steps that the engine takes with actuators in its own loop, where nothing else is to be done at each."""
    _closed = True

    def _make_arrays(self, articulation: Articulation) -> None:
        """Make what the actuators read and write."""
        self.articulation = articulation
        self._serial = next(_serial)
        self._effort, self._computed = self._new_array(), self._new_array()
        self._applied = self._effort
        given = articulation.simulation.arrays
        self._velocity = np.zeros(self._effort.shape, np.float32)
        if not given.joint_qd.device.is_cpu:
            self._velocity_there = wp.zeros_like(given.joint_qd)
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
            else Trips(
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
        robots, simulation = self.articulation.robot_ids, self.articulation.simulation
        owner = object()  # not self, which would keep itself alive
        simulation.claim(robots, columns, owner, followed)
        with contextlib.ExitStack() as undo:
            undo.callback(simulation.release, owner)
            self._hand_over(undo)
            self._inertia = EngineInertia(self.articulation, self.actuators, undo)
            given = self._signals, self._custom_inputs
            self._friction = EngineFriction(self.articulation, self.actuators, *given, undo)
            self._hand_over_efforts(columns, undo)
            explicit = np.setdiff1d(columns if followed is None else followed, self._tangent_columns)
            if explicit.size:
                undo.callback(simulation.lift_limits(robots, explicit))
            undo.callback(self._batteries.join(self._states))
            self._subscriptions = subscribe_weakly(
                simulation,
                self,
                {
                    Event.PRE_STEP: "_on_pre_step",
                    Event.PHYSICS_READY: "reset",
                    Event.RESET: "_on_reset",
                    Event.SAVE: "_on_save",
                    Event.LOAD: "_on_load",
                },
            )
            self._undo = undo.pop_all()
        self._begin_bounds()
        self._closed = False
        if self._is_plain() and InEngineLoop.fits(self.articulation, self._robot_of):
            self._in_loop = InEngineLoop(self, columns)
            self._subscriptions[0].driver = self._in_loop

    def _is_plain(self) -> bool:
        """Whether a step is no more than to step the actuators, and to hand what they give to an engine on the CPU."""
        is_more = self._tangent is not None or self._batteries.has_any or self._friction.reads_loads
        return not is_more and self._applied is self._effort and self._to_check is not None

    def _hand_over_efforts(self, columns: np.ndarray, undo: contextlib.ExitStack) -> None:
        """Make ready to hand over efforts of these DOFs, of some as tangents."""
        robots, simulation = self.articulation.robot_ids, self.articulation.simulation
        self._columns_of_engine = columns
        if self._tangent_columns.size:
            given = self._actuators, self._other_states, self._control, self._settle_ending
            chains = EndingChains(self.articulation, *given)
            own = self._effort, self._signals, chains
            self._tangent = TangentHandOver(self.articulation, self.actuators, self._tangent_columns, *own, undo)
        explicit = np.setdiff1d(columns, self._tangent_columns)
        self._write = simulation.effort_writer(robots, explicit, self._effort) if explicit.size else nothing

    @abc.abstractmethod
    def _hand_over(self, undo: contextlib.ExitStack) -> None:
        """Give the engine what is its own, and put on ``undo`` what takes it back, without a reference to self."""

    def _silence(self, columns: np.ndarray, undo: contextlib.ExitStack) -> None:
        """Make the engine's own drives of these DOFs push no more, and read back that they do not."""
        robots, simulation = self.articulation.robot_ids, self.articulation.simulation
        undo.callback(simulation.silence_drives(robots, columns))
        silent = simulation.silent_drives(robots)[:, columns]
        if not silent.all():
            robot, column = np.argwhere(~silent)[0]
            name = self.articulation.dof_names[columns[column]]
            what = simulation.what_drives(int(robots[robot]), int(columns[column]))
            raise SimulationError(
                f"the engine's own drive of joint '{name}' of '{self.articulation.paths[robot]}' is still there after "
                f"those of the joints to drive were silenced: {what}"
            )

    def _on_pre_step(self, dt: float) -> None:
        """Physics is about to advance by ``dt`` [s]."""
        if self._auto_step:
            self.articulation.simulation.refresh_targets()
            self._step(dt)

    def _step_now(self, dt: float) -> None:
        """Step at a moment of the user's choice."""
        self._check_open()
        self.articulation.simulation.check_open()
        self.articulation.simulation.refresh()
        self._step(dt)

    def _step(self, dt: float) -> None:
        arrays, control = self.articulation.simulation.arrays, self._control
        if self._velocity_there is None:
            self._velocity = self.articulation.values("joint_qd")
        else:
            wp.copy(self._velocity_there, arrays.joint_qd)
        self._renew_inertia()
        self._friction.read_loads()
        for i, actuator in enumerate(self._actuators):
            actuator.step(arrays, control, self._states[i], self._other_states[i], dt)
            self._states[i], self._other_states[i] = self._other_states[i], self._states[i]
        self._batteries.share(self._states)
        self._settle()
        if self._to_check is not None:
            self._check_finite(self._to_check)
            self._keep_to_bounds()
            if self._trips is not None:
                self._trips.look(self.articulation.simulation.time)
        self._write()
        if self._tangent is not None:
            self._tangent.hand_over(dt, self._bounds)
        self._friction.hand_over()

    def _renew_inertia(self) -> None:
        """Hand over the inertia of rotors again where a parameter was assigned."""
        if self._inertia.is_stale:
            self._inertia.update(self._undo)

    def _settle(self) -> None:
        """Make what the engine gets, and what is shown, out of what the actuators gave, where that is not the same."""

    def _settle_ending(self, given: Mapping[str, wp.array]) -> tuple[wp.array, Callable[[], None]]:
        """The same where a step ends: the effort made of what they give there, and what makes it, without self."""
        return given["joint_f"], nothing

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
        robots, dofs = self.articulation.places_to_write(indices, dof_indices)
        numbers = self.articulation.numbers(argument, values, (len(robots), len(dofs)))
        at = self.articulation.flat_indices("joint_qd")[np.ix_(robots, dofs)]
        with to_change(array) as changed:
            changed[at] = numbers

    def telemetry(self) -> Telemetry:
        """What the actuators did in the last step."""
        signals = {name: array.numpy().copy() for name, array in self._signals.items() if name not in TANGENT}
        efforts = self._computed.numpy().copy(), self._applied.numpy().copy()
        if self._tangent is not None:
            self._tangent.show(efforts[1])
        if self._trips is not None and self._to_check is None:  # on a GPU, a look at each step would wait for it
            self._trips.look(self.articulation.simulation.time)
        names = self.articulation.dof_names
        return make_telemetry(names, self._velocity_seen(), *efforts, signals, self.actuators, self._bounds)

    def _velocity_seen(self) -> np.ndarray:
        """Of the joints when the actuators were stepped last [rad/s or m/s], shape (N, D), as a copy."""
        if self._velocity_there is not None:
            return np.asarray(self._velocity_there.numpy()[self.articulation.flat_indices("joint_qd")])
        if self._velocity is None:
            assert self._in_loop is not None
            return self._in_loop.velocities
        return self._velocity.copy()

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
        for array, value in self._shown():
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

    def _shown(self) -> list[tuple[wp.array, float]]:
        """Arrays of shape (N, D) that show the last step, and what they are without one."""
        efforts = [self._effort, self._computed, self._applied]
        return [*((array, 0.0) for array in efforts), *((array, math.nan) for array in self._signals.values())]

    def close(self) -> None:
        """Take the efforts off, and give the engine back what it held. May be called again."""
        if self._closed:
            return
        self._closed = True
        for subscription in self._subscriptions:
            subscription.cancel()
        if self.articulation.simulation.is_closed:
            return
        self._effort.zero_()
        self._tangent = None
        robots, columns = self.articulation.robot_ids, self._columns_of_engine
        zeros = np.zeros((len(robots), len(columns)), np.float32)
        self.articulation.simulation.write("joint_f", robots, columns, zeros)
        self._undo.close()

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

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of a process anything may be gone already
            self.close()
