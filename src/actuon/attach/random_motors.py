# SPDX-License-Identifier: Apache-2.0
"""Random parameters for actuators of robots, from distributions or around fitted motors, written all or none."""

from __future__ import annotations

import bisect
import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..actuator.actuator import Actuator
from ..components.component import Component
from ..components.delay import Delay
from ..components.delay_time import DelayTime
from ..errors import ParameterError, located, shown
from ..robot_files.paths import Place, check_unambiguous, parameter_places, place_in
from ..sim.ids import ids_to_reset, ids_to_write
from ..typing import IdsLike, PathLike
from .chain_set import ChainSet, check_changed
from .fitted_motors import DrawnMotors, FittedMotors
from .groups.randomisation import Distribution, checked, generator
from .groups.resolution import matching
from .value_table import Sources

_log = logging.getLogger("actuon.actuators")


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Chosen joints of chosen robots in one actuator."""

    actuator: Actuator
    at: np.ndarray
    """Indices of the joints among the DOFs of the actuator, shape (m,)."""
    rows: np.ndarray
    """Positions of their robots among the chosen ones, shape (m,)."""
    columns: np.ndarray
    """Positions of the joints among the chosen ones, shape (m,)."""

    @functools.cached_property
    def places(self) -> dict[str, Place]:
        """Places of all parameters by path."""
        return parameter_places(self.actuator.stages)

    def stage(self, place: Place) -> Component:
        return self.actuator.stages[place.stage]


class _Draft:
    """New values of parameters, which `write` checks and writes all together.

    Args:
        chains: Actuators of the robots.
        dt: Time step [s].
        joints: Names of the chosen joints.
        rows: Rows of the chosen robots, each once, shape (n,).
    """

    def __init__(self, chains: ChainSet, dt: float, joints: Sequence[str], rows: np.ndarray):
        self._chains, self._dt, self._rows, self._joints = chains, dt, rows, joints
        self.new: dict[tuple[int, str], tuple[Component, np.ndarray, np.ndarray]] = {}
        """New values. See `Changed`."""
        self._paths: dict[tuple[int, str], str] = {}
        columns = np.array([chains.dof_names.index(name) for name in joints], np.int64)
        self.chosen = []
        """The joints by actuator."""
        for actuator, dof_of in zip(chains.actuators, chains.dof_of, strict=True):
            if (dof_of[:1, columns] >= 0).any():
                table = dof_of[np.ix_(rows, columns)]
                at = np.nonzero(table >= 0)
                self.chosen.append(_Chosen(actuator, table[at], *at))

    def values(self, chosen: _Chosen, place: Place, path: str) -> np.ndarray:
        """Return the new values at a place, the present ones at first."""
        stage = chosen.stage(place)
        key = id(stage), place.name
        if key not in self.new:
            self.new[key] = stage, chosen.at, stage.numbers(place.name, at=chosen.at)[place.name]
            self._paths[key] = path
        return self.new[key][2]

    def room(self, chosen: _Chosen, place: Place) -> np.ndarray | None:
        """Return the longest delays that a stage has memory for, shape (m,); None for other parameters."""
        stage = chosen.stage(place)
        if isinstance(stage, DelayTime) and place.name == "delay":
            return stage.longest(self._dt)[chosen.at]
        return np.full(len(chosen.at), stage.buf_depth) if isinstance(stage, Delay) else None

    def describe(self, chosen: _Chosen, i: int) -> str:
        """Return the name of a joint and its robot for an error."""
        return f"joint '{self._joints[chosen.columns[i]]}' of robot {self._rows[chosen.rows[i]]}"

    def write(self) -> None:
        """Write the new values.

        Raises:
            ParameterError: A value is not allowed. Nothing is written then.
        """
        try:
            check_changed(self.new, self._dt)
        except ParameterError:
            for chosen in self.chosen:
                self._locate(chosen)
            raise
        self._chains.write(self.new)

    def _locate(self, chosen: _Chosen) -> None:
        """Raise an error that names the first joint of an actuator whose values are not allowed."""
        own = {key: entry for key, entry in self.new.items() if any(entry[0] is s for s in chosen.actuator.stages)}

        def check_to(i: int) -> None:
            first = {key: (stage, at[: i + 1], values[: i + 1]) for key, (stage, at, values) in own.items()}
            check_changed(first, self._dt)

        def is_refused(i: int) -> bool:
            try:
                check_to(i)
            except ParameterError:
                return True
            return False

        i = bisect.bisect_left(range(len(chosen.at)), True, key=is_refused)
        if i < len(chosen.at):
            with located(self.describe(chosen, i), ParameterError):
                for key, (stage, _, values) in own.items():
                    stage.declared()[key[1]].check(self._paths[key], values[i])
                check_to(i)


def randomize(
    chains: ChainSet,
    dt: float,
    names: Sequence[str],
    parameters: Mapping[str, Distribution] | None,
    from_fit: PathLike | None,
    joints: Iterable[str] | Mapping[str, str] | None,
    env_ids: IdsLike,
    seed: Any,
) -> tuple[DrawnMotors | None, Sources]:
    """Draw parameters of joints, or whole motors, and write them. If a value is not allowed, nothing is written.

    Args:
        chains: Actuators of the robots.
        dt: Time step [s].
        names: Joints that have an actuator.
        parameters: Distributions by path.
        from_fit: File of fitted motors, instead of distributions. See `FittedMotors`.
        joints: Regular expressions of joints; with ``from_fit``, a mapping of them to joints of the file.
        env_ids: Which robots. None means all.
        seed: Seed of the draw, or a generator for each of these robots.

    Returns:
        With ``from_fit``, the drawn motors; and the sources of the new values of the first robot.
    """
    if (parameters is None) == (from_fit is None):
        raise ParameterError("randomize: needs either parameters or from_fit")
    if parameters is None:
        assert from_fit is not None
        rows = ids_to_reset("env_ids", env_ids, chains.shape[0])
        return _randomize_from_fit(chains, dt, names, from_fit, joints, rows, generator("seed", seed))
    if not isinstance(parameters, Mapping):
        raise ParameterError(f"parameters: got {shown(parameters)}; must be a mapping of paths to distributions")
    if joints is not None:
        names = _matching(joints, names)
    if not isinstance(seed, (list, tuple)) or not any(isinstance(each, np.random.Generator) for each in seed):
        rows = ids_to_reset("env_ids", env_ids, chains.shape[0])
        return None, randomize_parameters(chains, dt, parameters, names, rows, generator("seed", seed))
    rows = ids_to_write("env_ids", env_ids, chains.shape[0])
    if len(seed) != len(rows) or not all(isinstance(each, np.random.Generator) for each in seed):
        raise ParameterError(f"seed: got {shown(seed)}; must be a generator for each of these {len(rows)} robots")
    return None, randomize_parameters(chains, dt, parameters, names, rows, seed)


def _matching(joints: Any, names: Sequence[str]) -> list[str]:
    """Return the names that regular expressions match."""
    patterns = [joints] if isinstance(joints, str) else joints
    if isinstance(patterns, Mapping) or not isinstance(patterns, Iterable):
        raise ParameterError(
            f"joints: got {shown(joints)}; must be regular expressions of joints, as for distributions"
        )
    found = list(dict.fromkeys(name for pattern in patterns for name in matching("joints", pattern, names)))
    if not found:
        raise ParameterError("joints: got none; must be regular expressions of joints")
    return found


def _randomize_from_fit(
    chains: ChainSet,
    dt: float,
    names: Sequence[str],
    path: PathLike,
    joints: Any,
    rows: np.ndarray,
    rng: np.random.Generator,
) -> tuple[DrawnMotors, Sources]:
    """Draw motors around fitted ones, and write them. See `randomize`."""
    fitted = FittedMotors(path, names, joints)
    drawn = fitted.draw(rng, len(rows))
    draft = _Draft(chains, dt, list(drawn), rows)
    sources: dict[tuple[str, int, str], str] = {}
    for chosen in draft.chosen:
        for column, (name, (_, values)) in enumerate(drawn.items()):
            mine = chosen.columns == column
            if mine.any():
                with located(f"'{path}': joint '{fitted.of[name].name}'", ParameterError):
                    places = _prepare(draft, chosen, mine, fitted, name, values)
                sources |= {(name, place.stage, place.name): name for place in places}
    draft.write()
    told = fitted.drawn(rows, {name: motors for name, (motors, _) in drawn.items()})
    for parameter, count in told.clipped.items():
        _log.warning("%s: %d of %d values of %s are clipped", told.file, count, told.motors.size, parameter)
    return told, {key: told.source(0, name) for key, name in sources.items()} if 0 in rows else {}


def randomize_parameters(
    chains: ChainSet,
    dt: float,
    parameters: Mapping[str, Distribution],
    joints: Sequence[str],
    rows: np.ndarray,
    rng: np.random.Generator | Sequence[np.random.Generator],
    from_built: bool = True,
) -> Sources:
    """Draw parameters of joints, and write them. If a value is not allowed, nothing is written.

    Args:
        chains: Actuators of the robots.
        dt: Time step [s].
        parameters: Distributions by path.
        joints: The joints to draw for. Those without a parameter keep their values.
        rows: Rows of the robots, each once, shape (n,).
        rng: Generator of the draw, or one for each robot.
        from_built: Whether scaling and adding start from the built values, or from the present ones.

    Returns:
        Sources of the new values of the first robot.

    Raises:
        ParameterError: No motor of these joints has this parameter, or a value is not allowed.
    """
    draft = _Draft(chains, dt, joints, rows)
    sources: Sources = {}
    for path, given in parameters.items():
        distribution = checked(path, given)
        if isinstance(rng, np.random.Generator):
            drawn = distribution.draw(rng, (len(rows), len(joints)))
        else:
            drawn = np.stack([distribution.draw(each, (1, len(joints)))[0] for each in rng])
        refusal: ParameterError | None = None
        found = False
        for chosen in draft.chosen:
            check_unambiguous(chosen.actuator.stages, path)
            try:
                place = _place(chosen, path)
            except ParameterError as error:
                refusal = error
                continue
            found = True
            values = draft.values(chosen, place, path)
            built = chains.built(chosen.stage(place), place.name)[chosen.at] if from_built else values
            with located(path, ParameterError):
                numbers = distribution.apply(built, drawn[chosen.rows, chosen.columns], place.declared.integer)
            most = draft.room(chosen, place)
            if most is not None and (numbers > most).any():
                i = int(np.argmax(numbers > most))
                raise ParameterError(
                    f"{draft.describe(chosen, i)}: {path}: drew {numbers[i]:.4g}; the delay has room for "
                    f"{most[i]:.4g}; build it with the longest"
                )
            values[:] = np.rint(numbers) if place.declared.integer else numbers
            if 0 in rows:
                source = f"config, drawn: {distribution}"
                sources |= {(joints[i], place.stage, place.name): source for i in np.unique(chosen.columns)}
        if not found:
            raise refusal or ParameterError(f"{path}: no joint has an actuator")
    if rows.size:
        draft.write()
    return sources


def _prepare(
    draft: _Draft, chosen: _Chosen, mine: np.ndarray, fitted: FittedMotors, name: str, drawn: np.ndarray
) -> Iterable[Place]:
    """Put motors of a joint, which is at ``mine`` of the chosen ones, into the draft. Returns the places."""
    parameters = fitted.of[name].parameters
    paths = [path for p in parameters for path in (p.path, *p.also) if not path.startswith("link.")]
    places = {path: _place(chosen, path) for path in paths}
    units = {p.path: p.unit for p in parameters}
    for path, place in places.items():
        if units.get(path, place.declared.unit) != place.declared.unit:
            raise ParameterError(f"{path}: is in {units[path]} in the file, and in {place.declared.unit} here")

    def held(path: str) -> np.ndarray:
        place = place_in(chosen.actuator.stages, path)
        values = chosen.stage(place).numbers(place.name, at=chosen.at[mine]).get(place.name)
        return np.zeros(mine.sum()) if values is None else values

    declared = {path: place.declared for path, place in places.items()}
    written = fitted.written(name, drawn[chosen.rows[mine]], declared, held)
    for path, numbers in written.items():
        most = draft.room(chosen, places[path])
        clipped = numbers if most is None else fitted.clip(path, numbers, most[mine])
        draft.values(chosen, places[path], path)[mine] = clipped
    return [places[path] for path in written]


def _place(chosen: _Chosen, path: str) -> Place:
    place = chosen.places.get(path) or place_in(chosen.actuator.stages, path)
    if place.declared.shared:
        raise ParameterError(f"{path}: all joints of an actuator share it, so it cannot be drawn per joint")
    if not chosen.stage(place).numbers(place.name, at=slice(0)):
        raise ParameterError(f"{path}: is unset in these motors; set it, such as to 0, and build them again")
    return place
