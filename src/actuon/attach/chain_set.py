# SPDX-License-Identifier: Apache-2.0
"""`ChainSet`: actuators of robots with their arrays, states and batteries.

Everything that steps chains has one: attachments in engines, `Motors` on arrays, mjlab's entities, groups on tensors,
motors in MuJoCo's own loop, and the probe that measures the response of chains.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.builder import ActuatorBuilder, config_of_class
from ..actuator.config import EXPLICIT, IMPLICIT, ActuatorConfig, Part, built
from ..actuator.newton_parts import check_lengths
from ..actuator.state import STRUCTURE, ActuatorState, check_like, check_structure
from ..components.component import Component
from ..components.effects.noise import EffectNoise
from ..declare.config import Config
from ..declare.parameters import Field
from ..errors import StateError, located
from ..kernel.chain import BOUNDS, DERIVATIVES, IMPLICIT_SIGNALS
from ..kernel.state import check_finite
from ..sim.motor import Draws, RobotCall
from .batteries import RobotBatteries
from .solved_by_engine import at_joints

COMPUTED = "computed"
"""Name of the array to which actuators write the effort before limits."""

IMPLICIT_ATTRS = {name: f"implicit_{name}" for name in (*DERIVATIVES, *BOUNDS)}
"""Names of the arrays to which actuators write derivatives and bounds of their efforts."""

STREAM = "stream"
"""Name of the parameter that selects the random numbers of a robot; equal on all its joints."""

PARAMETERS = "parameters/"
"""Prefix of names of parameters in a file."""

ALL = slice(None)
"""All DOFs of an actuator."""

Changed = Mapping[tuple[int, str], tuple[Component, np.ndarray | slice, np.ndarray]]
"""New values by the ``id`` of a stage and the name of its parameter, with the stage and the indices of its DOFs, which
are the same for all parameters of the stage."""


def signal_attr(name: str) -> str:
    """Return the name of the array to which actuators write a signal of their stages."""
    return f"signal_{name}"


def is_implicit(actuator: Actuator) -> bool:
    """Return whether an actuator computes derivatives of its efforts."""
    return not {*IMPLICIT_SIGNALS}.isdisjoint(actuator.control_signal_attrs)


@dataclass(frozen=True, eq=False)
class Places:
    """Indices of the DOFs of N robots in flat arrays of a simulation, each of shape (N, D)."""

    velocities: np.ndarray
    positions: np.ndarray
    targets: np.ndarray

    def of(self, rows: np.ndarray, columns: int | np.ndarray) -> dict[str, np.ndarray]:
        """Return the indices of DOFs of some robots, robot by robot, as arguments of `ActuatorBuilder.add`."""
        at = np.ix_(rows, np.atleast_1d(columns))
        return {
            "index": self.velocities[at].ravel(),
            "pos_index": self.positions[at].ravel(),
            "target_pos_index": self.targets[at].ravel(),
            "effort_index": (at[0] * self.velocities.shape[1] + at[1]).ravel(),
        }


class Keeper(Protocol):
    """Further memory and parameters that are saved with those of chains."""

    @property
    def common(self) -> Collection[str]:
        """Names of memory that all robots share."""

    def kept(self) -> Mapping[str, np.ndarray]:
        """Return memory by name, with a row for each robot unless it is `common`."""

    def check_kept(self, where: str, contents: Mapping[str, np.ndarray]) -> None:
        """Raise an error for finite values of the right shape that `kept` cannot return."""

    def take_kept(self, contents: Mapping[str, np.ndarray]) -> None:
        """Load the result of `kept`."""

    def parameters(self) -> Mapping[str, tuple[Field[Any], wp.array]]:
        """Return parameters by their name in a file: declaration and array."""

    def take_parameters(self, values: Mapping[str, np.ndarray]) -> None:
        """Load parameters that were checked."""


class ChainSet:
    """Actuators of N robots with D DOFs each, with their arrays, states and batteries.

    Args:
        actuators: Their ``effort_indices`` count through robots and DOFs.
        num_robots: Number of robots.
        dof_names: Names of the DOFs of each.
        device: Where they run.
        given: Arrays that actuators read and write, flat, by name. Those of ``without``, which come with each step, are
            left out; all others are made.
        without: Names of arrays that are not made.
        num_velocities: Length of arrays of velocities. Default: N·D.
        numbers: Number of the robot and of the DOF for random numbers, of shapes that fit (N, D). Default: actuators
            have theirs.
        names: Name of each actuator in files.
        shares_batteries: Whether all motors of a robot share one battery. Default: each motor has its own.
        has_two_states: Whether an actuator keeps the state before a step. Default: if its efforts are implicit.
    """

    def __init__(
        self,
        actuators: Sequence[Actuator],
        num_robots: int,
        dof_names: Sequence[str],
        device: wp.Device,
        *,
        given: Mapping[str, wp.array] | None = None,
        without: Collection[str] = (),
        num_velocities: int | None = None,
        numbers: tuple[np.ndarray, np.ndarray] | None = None,
        names: Sequence[str] | None = None,
        shares_batteries: bool = False,
        has_two_states: Callable[[Actuator], bool] = is_implicit,
    ):
        self.actuators = list(actuators)
        """Actuators, one for each combination of stages, each for all robots."""
        self.shape = num_robots, len(dof_names)
        """(N, D)."""
        self.dof_names = list(dof_names)
        self.device = device
        self.names = [f"actuators[{i}]" for i in range(len(actuators))] if names is None else list(names)
        """Names of the actuators in files."""
        self.stages = [stage for actuator in actuators for stage in actuator.stages]
        """Stages of all actuators."""
        self.places = [actuator.effort_indices.numpy().astype(np.int64) for actuator in actuators]
        """Number of each DOF of each actuator among the N·D."""
        self.robot_of = [at // len(dof_names) for at in self.places]
        """Row of the robot of each DOF, for each actuator."""
        if numbers is not None:
            self._number(*(np.broadcast_to(own, self.shape).ravel() for own in numbers))
        self.states = [actuator.state() for actuator in actuators]
        """State of each actuator; None for one without memory."""
        self.other_states = [
            actuator.state() if has_two_states(actuator) else state
            for actuator, state in zip(actuators, self.states, strict=True)
        ]
        """States after the next step, equal to `states` for steps in place; after a step, the states before it."""
        self.arrays = dict(given or {})
        """Arrays that actuators read and write besides positions and velocities, flat, by name."""
        self.signals: dict[str, wp.array] = {}
        """Signals of stages, by name, each of shape (N, D); NaN before the first step, and on DOFs without it."""
        self.inputs: dict[str, wp.array] = {}
        """Inputs of stages besides targets and feedforward, by name, flat as velocities; zero at first."""
        self._make_arrays(without, math.prod(self.shape) if num_velocities is None else num_velocities)
        self.batteries = RobotBatteries(actuators if shares_batteries else [], self.robot_of)
        """Batteries of the robots."""
        self._built = {(id(stage), name): values for stage in self.stages for name, values in stage.numbers().items()}

    def built(self, stage: Component, name: str) -> np.ndarray:
        """Return the built values of a parameter; those of the first call if it was unset then."""
        key = id(stage), name
        if key not in self._built:
            self._built[key] = stage.numbers(name)[name]
        return self._built[key]

    @functools.cached_property
    def dof_of(self) -> list[np.ndarray]:
        """For each actuator, the index of each robot's DOFs in it, shape (N, D); -1 for DOFs of others."""
        found = []
        for places in self.places:
            own = np.full(math.prod(self.shape), -1, np.int64)
            own[places] = np.arange(len(places))
            found.append(own.reshape(self.shape))
        return found

    def _number(self, robots: np.ndarray, dofs: np.ndarray) -> None:
        """Give each robot and each DOF different random numbers, independent of their actuators."""
        for actuator, at in zip(self.actuators, self.places, strict=True):
            for stage in actuator.stages:
                if isinstance(stage, EffectNoise):
                    stage.number_dofs(dofs[at])
                elif STREAM in (numbers := stage.numbers()) and not numbers[STREAM].any():
                    setattr(stage, STREAM, robots[at])

    def _make_arrays(self, without: Collection[str], num_velocities: int) -> None:
        def make(name: str | None, length: int, value: float = 0.0) -> None:
            if name is not None and name not in self.arrays and name not in without:
                self.arrays[name] = wp.full(length, value, dtype=wp.float32, device=self.device)

        count = math.prod(self.shape)
        for actuator in self.actuators:
            for name in (actuator.control_target_vel_attr, actuator.control_feedforward_attr, *actuator.custom_inputs):
                make(name, num_velocities)
            for name in (actuator.control_output_attr, actuator.control_computed_output_attr):
                make(name, count)
            for signal, attr in actuator.control_signal_attrs.items():
                make(attr, count, math.nan)
                if attr in self.arrays:
                    self.signals[signal] = self.table(attr)
            self.inputs |= {name: self.arrays[name] for name in actuator.custom_inputs}

    def table(self, name: str) -> wp.array:
        """Return an array that actuators write, with shape (N, D)."""
        return self.arrays[name].reshape(self.shape)

    def run(self, state: object, control: object, dt: float | None) -> None:
        """Step all actuators from `states` to `other_states`, by kernels. See `Actuator.step`."""
        for actuator, before, after in zip(self.actuators, self.states, self.other_states, strict=True):
            actuator.step(state, control, before, after, dt)

    def advance(self) -> None:
        """Make the states after the last `run` the present ones."""
        self.states, self.other_states = self.other_states, self.states

    def step(self, state: object, control: object, dt: float | None) -> None:
        """Step all actuators, and share the loads of their batteries."""
        self.run(state, control, dt)
        self.advance()
        self.batteries.share(self.states)

    def try_step(self, state: object, control: object, dt: float | None) -> None:
        """Step all actuators from fresh states, without an effect on `states`."""
        for actuator in self.actuators:
            fresh = actuator.state()
            actuator.step(state, control, fresh, fresh, dt)

    def reset(self, rows: np.ndarray, has_run: bool = False) -> None:
        """Clear the memory of robots.

        Args:
            rows: Rows of the robots, each once.
            has_run: Whether to clear `other_states` as well, as between `run` and `advance`.
        """
        everyone = len(rows) == self.shape[0]
        for i, robots in enumerate(self.robot_of):
            mask = None if everyone else wp.array(np.isin(robots, rows), device=self.device)
            for state in (self.states[i], self.other_states[i])[: 1 + has_run]:
                if state is not None:
                    state.reset(mask)

    def inertia(self) -> np.ndarray:
        """Return the inertia of rotors at each joint [kg·m²], shape (N, D)."""
        found = np.zeros(self.shape)
        for actuator, at in zip(self.actuators, self.places, strict=True):
            found.ravel()[at] = at_joints(actuator).inertia
        return found

    def cells(self) -> list[np.ndarray]:
        """Return the number of each robot in each actuator, or -1. All actuators have ``robot_dofs``."""
        found = []
        for actuator, robots in zip(self.actuators, self.robot_of, strict=True):
            count = actuator.robot_dofs
            assert count is not None
            assert (robots.reshape(-1, count) == robots[::count, None]).all()
            cells = np.full(self.shape[0], -1, np.int64)
            cells[robots[::count]] = np.arange(len(robots) // count)
            found.append(cells)
        return found

    def calls(self, state: object, dt: float, cells: Sequence[np.ndarray]) -> dict[int, RobotCall]:
        """Return calls that step actuators of one robot in compiled code, by position; without those that have a stage
        with its own kernel."""
        calls = (
            actuator.c_call(state, self.arrays, memory, dt)
            for actuator, memory in zip(self.actuators, self.states, strict=True)
        )
        return {i: RobotCall(call, cells[i]) for i, call in enumerate(calls) if call is not None}

    def in_place(self, positions: Sequence[int], state: object, dt: float) -> Callable[[], None]:
        """Return a function that steps some actuators in place, from Python."""
        own = [(self.actuators[i], self.states[i]) for i in positions]

        def step() -> None:
            for actuator, memory in own:
                actuator.step(state, self.arrays, memory, memory, dt)

        return step

    def draws(self, cells: Sequence[np.ndarray]) -> list[Draws]:
        """Return motors on batteries for compiled code."""
        return self.batteries.draws(self.states, cells)

    def joints_of(self, position: int) -> str:
        """Return the names of the joints of an actuator."""
        columns = dict.fromkeys((self.places[position] % self.shape[1]).tolist())
        return ", ".join(self.dof_names[column] for column in columns)

    def description(self) -> dict[str, str]:
        """Return the chain and the joints of each actuator, by its name."""
        found = {}
        for i, (name, actuator) in enumerate(zip(self.names, self.actuators, strict=True)):
            stages = " → ".join(f"{type(stage).__name__} {stage.fingerprint()}".strip() for stage in actuator.stages)
            every = f", control every {actuator.control_every} steps" if actuator.control_every > 1 else ""
            mode = IMPLICIT if is_implicit(actuator) else EXPLICIT
            found[name] = f"{stages}{every} with {mode} efforts on {self.joints_of(i)}"
        return found

    def structure(self, labels: Sequence[str] | None = None) -> list[str]:
        """Return lines that must match those of a saved state.

        Args:
            labels: Label of each actuator. Default: its name.
        """
        lines = []
        for i, label in enumerate(labels or self.names):
            networks = " ".join(filter(None, (stage.fingerprint() for stage in self.actuators[i].stages)))
            lines.append(f"{label} on {self.joints_of(i)}" + (f" with the network {networks}" if networks else ""))
        return [f"{self.shape[0]} robots", *lines]

    def parameters(self) -> dict[str, tuple[Component, str]]:
        """Return parameters of stages by their name in a file: the stage, and their name there."""
        return {
            f"{PARAMETERS}{own}/{position}.{name}": (stage, name)
            for own, actuator in zip(self.names, self.actuators, strict=True)
            for position, stage in enumerate(actuator.stages)
            for name in stage.numbers()
            if name in stage.declared()
        }

    def _named_states(self) -> dict[str, ActuatorState]:
        pairs = zip(self.names, self.states, strict=True)
        return {name: state for name, state in pairs if state is not None}

    def saved(self, keepers: Sequence[Keeper] = (), labels: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """Return memory and parameters for a file.

        Args:
            keepers: Further memory and parameters.
            labels: As for `structure`.

        Raises:
            StateError: The memory of an actuator has NaN.
        """
        contents = {STRUCTURE: np.array(self.structure(labels))}
        for keeper in keepers:
            contents |= keeper.kept()
            contents |= {key: array.numpy() for key, (_, array) in keeper.parameters().items()}
        contents |= {key: stage.numbers()[name] for key, (stage, name) in self.parameters().items()}
        for name, state in self._named_states().items():
            contents |= {f"{name}/{key}": array for key, array in state.saved(name).items()}
        return contents

    def checked(
        self,
        where: str,
        contents: Mapping[str, np.ndarray],
        dt: float | None,
        keepers: Sequence[Keeper] = (),
        labels: Sequence[str] | None = None,
    ) -> Callable[[], None]:
        """Raise an error for contents that do not fit. Returns a function that loads them.

        Args:
            where: Name of their origin in an error.
            contents: Arrays by name.
            dt: Time step [s]. None: any that stages accept.
            keepers: Further memory and parameters.
            labels: As for `structure`.

        Raises:
            StateError: They are from other actuators or robots, or damaged; the error describes the difference.
        """
        check_structure(where, contents, self.structure(labels), "the state of {}; here are {}")
        for keeper in keepers:
            for key, values in keeper.kept().items():
                check_like(where, key, contents.get(key), values)
                check_finite(f"{where}: {key}", contents[key])
            keeper.check_kept(where, contents)
        parts = {}
        for name, state in self._named_states().items():
            prefix = f"{name}/"
            own = {k.removeprefix(prefix): v for k, v in contents.items() if k.startswith(prefix)}
            parts[name] = state.checked(f"{where}: {name}", own)
        changed = self._checked_parameters(where, contents, dt, keepers)

        def take() -> None:
            for keeper in keepers:
                keeper.take_kept(contents)
                keeper.take_parameters({key: contents[key] for key in keeper.parameters()})
            self.write(changed)
            for name, state in self._named_states().items():
                state.take(parts[name])

        return take

    def _checked_parameters(
        self, where: str, contents: Mapping[str, np.ndarray], dt: float | None, keepers: Sequence[Keeper]
    ) -> Changed:
        """Return the parameters of stages in a file.

        Raises:
            StateError: One is missing or unknown, or its values are not allowed.
        """
        found = {key for key in contents if key.startswith(PARAMETERS)}
        places = self.parameters()
        beside = {key: own for keeper in keepers for key, own in keeper.parameters().items()}
        like = {key: array.numpy() for key, (_, array) in beside.items()}
        like |= {key: stage.numbers()[name] for key, (stage, name) in places.items()}
        for key, values in like.items():
            check_like(where, key, contents.get(key), values)
        for key in sorted(found - like.keys()):
            raise StateError(f"{where}: '{key}' is unset in these actuators; set it first")
        changed = {(id(stage), name): (stage, ALL, contents[key]) for key, (stage, name) in places.items()}
        with located(where, StateError):
            for key, (declared, _) in beside.items():
                declared.check(key.removeprefix(PARAMETERS), contents[key])
            check_changed(changed, dt)
        addresses = [(key, values.ctypes.data) for keeper in keepers for key, values in keeper.kept().items()]
        addresses += [(key, array.ptr) for key, (_, array) in beside.items()]
        held = ((key, stage.arguments()[name]) for key, (stage, name) in places.items())
        addresses += [(key, array.ptr) for key, array in held if array is not None]
        in_memory: dict[int, str] = {}
        for key, address in addresses:
            if contents[key].size:
                same = in_memory.setdefault(address, key)
                if contents[same].tobytes() != contents[key].tobytes():
                    raise StateError(
                        f"{where}: '{same}' and '{key}' are one parameter, and differ; the file is damaged"
                    )
        return changed

    def write(self, new: Changed) -> None:
        """Write values that were checked, where they differ from the present ones in a bit."""
        for stage, at, changed in by_stage(new):
            before = stage.numbers(*changed, at=at)
            differing = {name: values for name, values in changed.items() if not is_equal(before[name], values)}
            stage.write_together(differing, at)

    def remembered(self, keepers: Sequence[Keeper]) -> tuple[dict[str, np.ndarray], list[ActuatorState | None]]:
        """Return copies of all memory, for `recall`."""
        kept = {name: values.copy() for keeper in keepers for name, values in keeper.kept().items()}
        return kept, [copy.deepcopy(state) for state in self.states]

    def recall(
        self,
        memory: tuple[Mapping[str, np.ndarray], Sequence[ActuatorState | None]],
        rows: np.ndarray,
        keepers: Sequence[Keeper],
    ) -> None:
        """Restore the memory of robots.

        Args:
            memory: Result of `remembered`.
            rows: Which robots, bool of shape (N,).
            keepers: The keepers of `remembered`.
        """
        saved, states = memory
        for keeper in keepers:
            kept = {name: values.copy() for name, values in keeper.kept().items()}
            for name in kept:
                if name not in keeper.common:
                    kept[name][rows] = saved[name][rows]
                elif rows.all():
                    kept[name] = saved[name]
            keeper.take_kept(kept)
        for own, other, robots in zip(self.states, states, self.robot_of, strict=True):
            if own is not None and other is not None:
                own.assign(other, None if rows.all() else rows[robots])


def check_changed(new: Changed, dt: float | None) -> None:
    """Raise an error for values that are not allowed, alone or together, or that exceed a stage's memory.

    Args:
        new: The values.
        dt: Time step [s]. None: the shortest that each stage accepts.

    Raises:
        ParameterError: A value is not allowed.
    """
    for stage, at, changed in by_stage(new):
        whole = stage.numbers(*changed)
        for name, numbers in changed.items():
            stage.declared()[name].check(f"{type(stage).__name__}.{name}", numbers)
            whole[name][at] = numbers
        values = stage.arguments() | whole
        stage._check_together(values)
        stage.check_memory(values, dt)


def is_equal(before: np.ndarray, after: np.ndarray) -> bool:
    """Return whether numbers are equal to the last bit in the type of ``before``: -0.0 is not 0.0."""
    return before.tobytes() == after.astype(before.dtype).tobytes()


def by_stage(new: Changed) -> Iterator[tuple[Component, np.ndarray | slice, dict[str, np.ndarray]]]:
    """Yield each stage, the indices of its DOFs, and its new values by name."""
    for stage, at in {id(stage): (stage, at) for stage, at, _ in new.values()}.values():
        yield stage, at, {name: numbers for (of, name), (_, _, numbers) in new.items() if of == id(stage)}


@contextlib.contextmanager
def to_change(array: wp.array) -> Iterator[Any]:
    """Yield an array as NumPy, to write into."""
    numbers = array.numpy()
    yield numbers
    if not array.device.is_cpu:
        array.assign(numbers)


def build_actuators(
    configs: Mapping[int, ActuatorConfig],
    dof_names: Sequence[str],
    places: Places,
    device: wp.Device,
    robot_width: int | None = None,
    **options: Any,
) -> list[Actuator]:
    """Build the actuators of DOFs of all robots, one for each combination of stages.

    Args:
        configs: By column of the DOF. Configs are the same for all robots; components have a value for each. DOFs of
            components with own kernels or Warp arrays, which are shared, get separate actuators.
        dof_names: Names of all DOFs.
        places: Their indices.
        device: Device of the actuators.
        robot_width: As for `ActuatorBuilder.finalize`.
        options: Further arguments of `Actuator`.
    """
    builder, as_they_are = ActuatorBuilder(), []
    count = len(places.velocities)
    for column, config in sorted(configs.items()):
        with located(f"DOF '{dof_names[column]}'"):
            if all(isinstance(part, Config) or _is_copied(part) for part in config.stages):
                for rows, own in _fanned_out(config, count):
                    builder.add(own, **places.of(rows, column))
            else:
                own = config.with_stages([_stage(part, count) for part in config.stages])
                robot_dofs = None if robot_width is None else 1
                as_they_are.append(build_actuator(own, column, places, device, robot_dofs=robot_dofs, **options))
    return [*builder.finalize(device=device, robot_width=robot_width, **options), *as_they_are]


def build_actuator(
    config: ActuatorConfig, columns: int | np.ndarray, places: Places, device: wp.Device, **options: Any
) -> Actuator:
    """Build one actuator for DOFs of all robots, with the components of a config.

    Args:
        config: Its components have one value for all of these DOFs, or one for each, robot by robot.
        columns: One or several DOFs.
        places: Their indices.
        device: Device of the actuator.
        options: Further arguments of `Actuator`.
    """
    at = places.of(np.arange(len(places.velocities)), columns)
    index, pos, target_pos, effort = (
        wp.array(at[name], dtype=wp.uint32, device=device)
        for name in ("index", "pos_index", "target_pos_index", "effort_index")
    )
    return Actuator(
        index,
        stages=config.frozen_stages(),
        pos_indices=pos,
        target_pos_indices=target_pos,
        effort_indices=effort,
        control_every=config.control_every,
        **options,
    )


def _is_declared(part: Part) -> TypeGuard[Component]:
    """Return whether a part is a component that can be rebuilt from its parameters."""
    if not isinstance(part, Component):
        return False
    if part.config is None or part.config.component is None:
        return bool(part.declared()) and type(part).__init__ is Component.__init__
    return type(part).__init__ is part.config.component.__init__


def _is_copied(part: Part) -> TypeGuard[Component]:
    """Return whether a part can be rebuilt from its parameters, without arrays that it has to share."""
    return _is_declared(part) and not part.shares_arrays()


def _stage(part: Part, count: int) -> Component:
    """Return a stage for all robots."""
    if isinstance(part, Component) and _is_declared(part):
        part.check_fits(count)
    elif not isinstance(part, Config):
        check_lengths(part, count)
    return built(part)


def repeated(part: Component, count: int) -> Component:
    """Return a component with the values of another ``count`` times, or that one if it has none."""
    if not _is_declared(part):
        return part
    values = {}
    for name, value in part.arguments().items():
        if value is not None:
            numbers = value.numpy().copy() if isinstance(value, wp.array) else value
            is_repeated = not part.declared()[name].shared and np.ndim(numbers) > 0
            values[name] = np.tile(numbers, count) if is_repeated else numbers
    made: Component = type(part).with_values(values)
    return made


def _fanned_out(actuator: ActuatorConfig, count: int) -> Iterator[tuple[np.ndarray, ActuatorConfig]]:
    """Yield the actuator for all robots together, or for each robot where a part has one value for each."""
    if all(isinstance(part, Config) for part in actuator.stages):
        yield np.arange(count), actuator
        return
    columns = [_configs_of(part, count) if _is_declared(part) else [part] * count for part in actuator.stages]
    for i in range(count):
        yield np.array([i]), actuator.with_stages([configs[i] for configs in columns])


def _configs_of(part: Component, count: int) -> list[Config]:
    """Return the config of a component for each robot."""
    part.check_fits(count)
    part.pass_on()
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, declared in part.declared().items():
        value = part.arguments()[name]
        if value is None:
            continue
        numbers = np.asarray(value.numpy() if isinstance(value, wp.array) else value)
        for i, row in enumerate(rows):
            if declared.shared:
                row[name] = tuple(numbers.tolist())
            else:
                row[name] = (numbers if numbers.ndim == 0 else numbers[i]).item()
    return [config_of_class(type(part), row) for row in rows]
