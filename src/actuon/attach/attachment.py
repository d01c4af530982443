# SPDX-License-Identifier: Apache-2.0
"""`Attachment`: what all actuators on robots have in common, from taking joints over to giving them back."""

from __future__ import annotations

import abc
import contextlib
import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import warp as wp

from ..actuator import Actuator
from ..actuator_state import STRUCTURE, ActuatorState, check_like, check_structure, read_arrays, write_arrays
from ..errors import ParameterError, SimulationError, listed
from ..sim import Articulation, Event, Subscription
from ..sim.events import subscribe_weakly
from ..sim.ids import ids_to_reset
from ..sim.uncopyable import Uncopyable
from ..typing import ArrayLike, IdsLike, PathLike

CLIPPED = 1e-6
"""Share of the wanted effort that must be missing for a limit to have clipped it."""

COMPUTED = "computed"
"""What the array is called to which actuators write the effort before limits."""

STREAM = "stream"
"""The parameter of stages with random numbers that tells robots apart: the same on all joints of a robot."""

_FEEDFORWARD = "feedforward"
_serial = itertools.count()


@dataclass(frozen=True)
class Telemetry:
    """What the actuators did in the last step, each of shape (N, D); zero on DOFs without an actuator."""

    dof_names: list[str]
    computed_effort: np.ndarray
    """What the controllers wanted [N·m or N]."""
    applied_effort: np.ndarray
    """What the limits left of it, and the joint got [N·m or N]."""
    clipped: np.ndarray
    """Whether a limit took something away."""
    signals: Mapping[str, np.ndarray]
    """What stages of the chains offer, such as a motor's current, by name; NaN on DOFs without it, and before the first
    step."""


def signal_attr(name: str) -> str:
    """What the array is called to which actuators write a signal of their stages."""
    return f"signal_{name}"


class Attachment(Uncopyable, abc.ABC):
    """Drives DOFs of robots, as their only owner, until `close` or until the last reference to it goes away."""

    articulation: Articulation
    """The robots."""
    actuators: list[Actuator]
    """What is stepped, each for all robots together."""
    _effort: wp.array
    """What the engine gets from here [N·m or N], shape (N, D)."""
    _computed: wp.array
    """What the controllers wanted [N·m or N], shape (N, D)."""
    _applied: wp.array
    """What the joints got [N·m or N], shape (N, D): from here, or from the engine's own drive."""
    _feedforward: wp.array
    """What controllers add [N·m or N], flat, as the simulation's velocities are."""
    _custom_inputs: dict[str, wp.array]
    """What networks take beside targets, by name, flat, as the simulation's velocities are."""
    _signals: dict[str, wp.array]
    """What stages offer, by name, each of shape (N, D)."""
    _control: dict[str, wp.array]
    """All of these, and the targets, as actuators read and write them: flat, by name."""
    _states: list[ActuatorState | None]
    _auto_step = True
    _write: Callable[[], None]
    _subscriptions: list[Subscription]
    _undo: contextlib.ExitStack
    _bounds: tuple[np.ndarray, np.ndarray] | None
    """What `_effort_bounds` gave, and the version of the limits at that time."""
    _bounds_version: int
    _closed = True

    def _make_arrays(self, articulation: Articulation) -> None:
        """Make what the actuators read and write."""
        self.articulation = articulation
        self._serial = next(_serial)
        self._effort, self._computed = self._new_array(), self._new_array()
        self._applied = self._effort
        given = articulation.simulation.arrays
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
        self.actuators = list(actuators)
        self._states = [actuator.state() for actuator in actuators]
        width = self.articulation.num_dofs
        self._robot_of = [actuator.effort_indices.numpy() // width for actuator in actuators]
        for actuator, robots in zip(actuators, self._robot_of, strict=True):
            for stage in actuator.stages:
                if STREAM in stage.parameters() and not stage.parameters()[STREAM].numpy().any():
                    setattr(stage, STREAM, robots)
        for actuator in actuators:
            for name, attr in actuator.control_signal_attrs.items():
                if name not in self._signals:
                    self._signals[name] = self._new_array(math.nan)
                    self._control[attr] = self._signals[name].flatten()
            for name in actuator.custom_inputs:
                if name not in self._control:
                    self._custom_inputs[name] = self._control[name] = wp.zeros_like(self._feedforward)

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
            self._write = simulation.effort_writer(robots, columns, self._effort)
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
        self._to_check = self._applied.numpy().ravel() if self._applied.device.is_cpu else None
        self._bounds = self._effort_bounds()
        self._bounds_version = simulation.limits_version
        self._closed = False

    def _effort_bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Lowest and highest effort [N·m or N] that the engine gets from here, each of shape (N, D). None: any.

        What the engine clips of its own drives at a joint, it does not clip of efforts from outside.
        """
        found = self.articulation.simulation.joint_effort_range(self.articulation.robot_ids)
        if found is None or not np.isfinite(found).any():
            return None
        lower, upper = (values.astype(np.float32) for values in found)
        return lower, upper

    def _keep_to_bounds(self) -> None:
        version = self.articulation.simulation.limits_version
        if version != self._bounds_version:
            self._bounds, self._bounds_version = self._effort_bounds(), version
        if self._bounds is not None:
            for array in (self._effort, self._applied):
                numbers = array.numpy()
                np.clip(numbers, *self._bounds, out=numbers)

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
            raise SimulationError(
                f"the engine's own drive of joint '{name}' of '{self.articulation.paths[robot]}' is still there after "
                "its gains were set to zero: two would pull at one joint"
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
        for actuator, state in zip(self.actuators, self._states, strict=True):
            actuator.step(arrays, control, state, state, dt)
        self._settle()
        if self._to_check is not None:
            self._check_finite(self._to_check)
            self._keep_to_bounds()
        self._write()

    def _settle(self) -> None:
        """Make what the engine gets, and what is shown, out of what the actuators gave, where that is not the same."""

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
        with _to_change(array) as changed:
            changed[at] = numbers

    def telemetry(self) -> Telemetry:
        """What the actuators did in the last step."""
        computed, applied = self._computed.numpy().copy(), self._applied.numpy().copy()
        with np.errstate(invalid="ignore"):  # infinity less infinity, which is told elsewhere
            clipped = np.abs(computed - applied) > CLIPPED * np.abs(computed)
        signals = {name: array.numpy().copy() for name, array in self._signals.items()}
        return Telemetry(self.articulation.dof_names, computed, applied, clipped, signals)

    def save_state(self, path: PathLike) -> None:
        """Write what the actuators remember to a file: delayed commands, integrals, hidden states, and the feedforward.

        With the state of the engine, `load_state` lets a run go on bit for bit. Parameters are not in it.

        Args:
            path: An ``.npz`` file. It is written whole, or not at all.
        """
        self._check_open()
        contents = {STRUCTURE: np.array(self._structure()), **self._kept()}
        for name, state in self._named_states().items():
            contents |= {f"{name}/{key}": array for key, array in state.contents().items()}
        write_arrays(path, contents)

    def load_state(self, path: PathLike) -> None:
        """Take over what `save_state` wrote. A simulation that is not running is started, since a start forgets all.

        Args:
            path: A file that was written by the same actuators, on as many robots.

        Raises:
            StateError: The file cannot be read, or is that of other actuators or robots; says in what they differ.
                Nothing is changed then.
        """
        self._check_open()
        contents, where = read_arrays(path, "the state of actuators on robots"), f"'{path}'"
        check_structure(where, contents, self._structure(), "the state of {}; here are {}")
        for key, values in self._kept().items():
            check_like(where, key, contents.get(key), values)
        parts = {}
        for name, state in self._named_states().items():
            prefix = f"{name}/"
            parts[name] = {k.removeprefix(prefix): v for k, v in contents.items() if k.startswith(prefix)}
            state.check(f"{where}: {name}", parts[name])
        self.articulation.simulation.start()
        self._take_kept(where, contents)
        for name, state in self._named_states().items():
            state.take(parts[name])

    def _structure(self) -> list[str]:
        """What must be the same for a state to fit."""
        robots = self.articulation
        lines = [f"{len(robots)} robots"]
        for name, actuator in zip(self._actuator_names(), self.actuators, strict=True):
            columns = dict.fromkeys((actuator.effort_indices.numpy() % robots.num_dofs).tolist())
            lines.append(f"{name} on {', '.join(robots.dof_names[column] for column in columns)}")
        return lines

    def _actuator_names(self) -> Sequence[str]:
        """What to call each actuator in a file."""
        return [f"actuators[{i}]" for i in range(len(self.actuators))]

    def _named_states(self) -> dict[str, ActuatorState]:
        pairs = zip(self._actuator_names(), self._states, strict=True)
        return {name: state for name, state in pairs if state is not None}

    def _kept(self) -> dict[str, np.ndarray]:
        """What is saved beside the states of actuators, by name."""
        return {name: array.numpy()[self.articulation.flat_indices("joint_qd")] for name, array in self._inputs()}

    def _take_kept(self, where: str, contents: Mapping[str, np.ndarray]) -> None:
        """Take over what `_kept` gave."""
        for name, array in self._inputs():
            with _to_change(array) as changed:
                changed[self.articulation.flat_indices("joint_qd")] = contents[name]

    def _inputs(self) -> Iterator[tuple[str, wp.array]]:
        """What stays set from step to step, by the name that it has in a file."""
        yield _FEEDFORWARD, self._feedforward
        yield from ((f"custom_inputs/{name}", array) for name, array in self._custom_inputs.items())

    def _on_save(self, memories: dict[Any, Any]) -> None:
        kept = {name: values.copy() for name, values in self._kept().items()}
        memories[self._serial] = kept, [copy.deepcopy(state) for state in self._states]

    def _on_load(self, memories: Mapping[Any, Any], env_ids: np.ndarray) -> None:
        if self._serial not in memories:
            raise SimulationError("the state was saved before these actuators were attached; attach first, then save")
        saved, states = memories[self._serial]
        rows = self._rows_of(env_ids)
        kept = self._kept()
        for name, values in saved.items():
            kept[name] = kept[name].copy()
            kept[name][rows] = values[rows]
        self._take_kept("a saved state", kept)
        for own, other, robots in zip(self._states, states, self._robot_of, strict=True):
            if own is not None:
                own.assign(other, None if rows.all() else rows[robots])

    def _rows_of(self, env_ids: np.ndarray) -> np.ndarray:
        """Which robots stand in these environments, bool of shape (N,)."""
        return np.isin([robot.env for robot in self.articulation.robots], env_ids)

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
            with _to_change(array) as numbers:
                numbers[rows] = value
        everyone = len(rows) == len(self.articulation)
        for state, robots in zip(self._states, self._robot_of, strict=True):
            if state is not None:
                mask = None if everyone else wp.array(np.isin(robots, rows), device=self._effort.device)
                state.reset(mask)

    def _shown(self) -> list[tuple[wp.array, float]]:
        """Arrays of shape (N, D) that show the last step, and what they are without one."""
        efforts = [self._effort, self._computed, self._applied]
        return [*((array, 0.0) for array in efforts), *((array, math.nan) for array in self._signals.values())]

    def _check_finite(self, efforts: np.ndarray) -> None:
        """Hand no effort to the engine that is NaN or infinite, as a target or parameter of NaN makes it.

        Args:
            efforts: [N·m or N], shape (N·D,).
        """
        if (
            efforts.dot(efforts) < math.inf or np.isfinite(efforts).all()
        ):  # a sum of squares is one call in place of two
            return
        robots = self.articulation
        robot, dof = divmod(int(np.flatnonzero(~np.isfinite(efforts))[0]), robots.num_dofs)
        raise SimulationError(
            f"t = {robots.simulation.time:.6g} s: the effort of joint '{robots.dof_names[dof]}' of "
            f"'{robots.paths[robot]}' is {efforts[robot * robots.num_dofs + dof]}; look at its target and parameters"
        )

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
        self._write()
        self._undo.close()

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


@contextlib.contextmanager
def _to_change(array: wp.array) -> Iterator[Any]:
    """An array as NumPy, to write into."""
    numbers = array.numpy()
    yield numbers
    if not array.device.is_cpu:
        array.assign(numbers)
