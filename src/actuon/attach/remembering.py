# SPDX-License-Identifier: Apache-2.0
"""Memory of actuators on robots: saved to files, loaded, and restored with states of the simulation."""

from __future__ import annotations

import abc
import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.state import STRUCTURE, ActuatorState, check_like, check_structure, read_arrays, write_arrays
from ..components.component import Component
from ..declare.parameters import Field
from ..errors import SimulationError, StateError, located
from ..kernel.state import check_finite
from ..sim import Articulation
from ..typing import PathLike
from .changed_parameters import Changed, check_changed
from .motor_supply import RobotBatteries

PARAMETERS = "parameters"
"""Prefix of names of parameters in a file."""

_FEEDFORWARD = "feedforward"


class Remembering(abc.ABC):
    """The part of an attachment that keeps and takes over states."""

    articulation: Articulation
    """The robots."""
    _actuators: list[Actuator]
    _feedforward: wp.array
    """Feedforward of controllers [N·m or N], flat as the simulation's velocities."""
    _custom_inputs: dict[str, wp.array]
    """Inputs of networks beside targets, by name, flat as the simulation's velocities."""
    _states: list[ActuatorState | None]
    _batteries: RobotBatteries
    _robot_of: list[np.ndarray]
    """Row of the robot of each DOF, for each actuator."""
    _serial: int
    """Serial number in saved states."""

    @property
    def actuators(self) -> list[Actuator]:
        """Actuators, each for all robots together. A new list each time; changing it has no effect."""
        return list(self._actuators)

    @abc.abstractmethod
    def _check_open(self) -> None: ...

    def save_state(self, path: PathLike) -> None:
        """Write what the actuators remember to a file: delayed commands, integrals, hidden states, and the feedforward;
        and their parameters, as they were drawn or written.

        With the state of the engine, `load_state` lets a run go on bit for bit.

        Args:
            path: An ``.npz`` file. It is written whole, or not at all.

        Raises:
            StateError: A joint diverged, and its actuator remembers NaN. Says which.
        """
        self._check_open()
        write_arrays(path, self._saved())

    def load_state(self, path: PathLike) -> None:
        """Take over what `save_state` wrote. A simulation that is not running is started, since a start forgets all.

        Args:
            path: A file that was written by the same actuators, on as many robots. Their parameters become those of the
                file; what a file of an earlier version does not hold stays as it is.

        Raises:
            StateError: The file cannot be read, or is that of other actuators or robots; says how they differ.
                Nothing is changed then.
        """
        self._check_open()
        contents, version = read_arrays(path, "the state of actuators on robots")
        take = self._checked(f"'{path}'", contents, version)
        self.articulation.simulation.start()
        take()
        self._batteries.lead(self._states)

    def _saved(self) -> dict[str, np.ndarray]:
        """Return the memory of the actuators, and their parameters, for a file.

        Raises:
            StateError: An actuator remembers NaN. Says which.
        """
        contents = {STRUCTURE: np.array(self._structure()), **self._kept()}
        contents |= {key: array.numpy() for key, (_, array) in self._own_parameters().items()}
        contents |= {key: stage.numbers()[name] for key, stage, name in self._stage_parameters()}
        for name, state in self._named_states().items():
            contents |= {f"{name}/{key}": array for key, array in state.saved(name).items()}
        return contents

    def _checked(self, where: str, contents: Mapping[str, np.ndarray], version: int) -> Callable[[], None]:
        """Refuse what `_saved` would not give. Returns what takes the rest over.

        Raises:
            StateError: It is that of other actuators or robots, or damaged; says how they differ.
        """
        check_structure(where, contents, self._structure(), "the state of {}; here are {}")
        self._check_kept(where, contents)
        parts = {}
        for name, state in self._named_states().items():
            prefix = f"{name}/"
            own = {k.removeprefix(prefix): v for k, v in contents.items() if k.startswith(prefix)}
            parts[name] = state.checked(f"{where}: {name}", own, version)
        own, changed = self._checked_parameters(where, contents)

        def take() -> None:
            self._take_kept(where, contents)
            self._take_parameters(own, changed)
            for name, state in self._named_states().items():
                state.take(parts[name])

        return take

    def _own_parameters(self) -> dict[str, tuple[Field[Any], wp.array]]:
        """Parameters beside those of stages, by their name in a file: how they are declared, and their array."""
        return {}

    def _stage_parameters(self) -> Iterator[tuple[str, Component, str]]:
        """Parameters of stages: what they are called in a file, the stage, and their name there."""
        for actuator_name, actuator in zip(self._actuator_names(), self.actuators, strict=True):
            for position, stage in enumerate(actuator.stages):
                for name in stage.numbers():
                    if name in stage.declared():
                        yield f"{PARAMETERS}/{actuator_name}/{position}.{name}", stage, name

    def _checked_parameters(
        self, where: str, contents: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], Changed]:
        """Parameters that a file has: those of `_own_parameters`, and those of stages. A file of an earlier version has
        none.

        Raises:
            StateError: One is missing, or too many, or its values are not allowed.
        """
        found = {key for key in contents if key.startswith(f"{PARAMETERS}/")}
        if not found:
            return {}, {}
        own = self._own_parameters()
        places = {key: (stage, name) for key, stage, name in self._stage_parameters()}
        like = {key: array.numpy() for key, (_, array) in own.items()}
        like |= {key: stage.numbers()[name] for key, (stage, name) in places.items()}
        for key, values in like.items():
            check_like(where, key, contents.get(key), values)
        for key in sorted(found - like.keys()):
            raise StateError(f"{where}: '{key}' is a parameter that these actuators leave out; give it a value first")
        changed = {(id(stage), name): (stage, contents[key]) for key, (stage, name) in places.items()}
        with located(where, StateError):
            for key, (declared, _) in own.items():
                declared.check(key.removeprefix(f"{PARAMETERS}/"), contents[key])
            check_changed(changed, self.articulation.simulation.dt)
        arrays = {key: array for key, (_, array) in own.items()}
        arrays |= {key: stage.arguments()[name] for key, (stage, name) in places.items()}
        kept = self._kept()
        addresses = [(key, values.ctypes.data) for key, values in kept.items() if values.size]
        addresses += [(key, array.ptr) for key, array in arrays.items() if array is not None and array.size]
        in_memory: dict[int, str] = {}
        for key, address in addresses:
            same = in_memory.setdefault(address, key)
            if contents[same].tobytes() != contents[key].tobytes():
                raise StateError(f"{where}: '{same}' and '{key}' are one parameter, and differ; the file is damaged")
        return {key: contents[key] for key in own}, changed

    @abc.abstractmethod
    def _take_parameters(self, own: Mapping[str, np.ndarray], changed: Changed) -> None:
        """Take over parameters that were checked."""

    def _structure(self) -> list[str]:
        """Return texts that must be the same for a state to fit."""
        robots = self.articulation
        lines = [f"{len(robots)} robots"]
        for name, actuator in zip(self._actuator_names(), self.actuators, strict=True):
            lines.append(f"{name} on {self._joints_of(actuator)}")
        return lines

    def _joints_of(self, actuator: Actuator) -> str:
        """Names of the joints of an actuator."""
        columns = dict.fromkeys((actuator.effort_indices.numpy() % self.articulation.num_dofs).tolist())
        return ", ".join(self.articulation.dof_names[column] for column in columns)

    def _actuator_names(self) -> Sequence[str]:
        """Return the name of each actuator in a file."""
        return [f"actuators[{i}]" for i in range(len(self.actuators))]

    def _named_states(self) -> dict[str, ActuatorState]:
        pairs = zip(self._actuator_names(), self._states, strict=True)
        return {name: state for name, state in pairs if state is not None}

    def _kept(self) -> dict[str, np.ndarray]:
        """What is saved beside the states of actuators, by name: a row for each robot, but for what is `_common`."""
        return {name: array.numpy()[self.articulation.at.flat("joint_qd")] for name, array in self._inputs()}

    def _check_kept(self, where: str, contents: Mapping[str, np.ndarray]) -> None:
        """Refuse what `_take_kept` cannot take over."""
        for key, values in self._kept().items():
            check_like(where, key, contents.get(key), values)
            check_finite(f"{where}: {key}", contents[key])

    def _common(self) -> set[str]:
        """Names of what is kept for all robots together."""
        return set()

    def _take_kept(self, where: str, contents: Mapping[str, np.ndarray]) -> None:
        """Take over what `_kept` gave."""
        for name, array in self._inputs():
            with to_change(array) as changed:
                changed[self.articulation.at.flat("joint_qd")] = contents[name]

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
        kept = {name: values.copy() for name, values in self._kept().items()}
        common = self._common()
        for name, values in saved.items():
            if name not in common:
                kept[name][rows] = values[rows]
            elif rows.all():
                kept[name] = values
        self._take_kept("a saved state", kept)
        for own, other, robots in zip(self._states, states, self._robot_of, strict=True):
            if own is not None:
                own.assign(other, None if rows.all() else rows[robots])

    def _rows_of(self, env_ids: np.ndarray) -> np.ndarray:
        """Which robots stand in these environments, bool of shape (N,)."""
        return np.isin(self.articulation.env_ids, env_ids)


@contextlib.contextmanager
def to_change(array: wp.array) -> Iterator[Any]:
    """An array as NumPy, to write into."""
    numbers = array.numpy()
    yield numbers
    if not array.device.is_cpu:
        array.assign(numbers)
