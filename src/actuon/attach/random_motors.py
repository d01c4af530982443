# SPDX-License-Identifier: Apache-2.0
"""Random parameters for actuators of robots, from distributions or around fitted motors, written all or none."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..actuator.actuator import Actuator
from ..components.component import Component
from ..components.delay import Delay
from ..components.delay_time import DelayTime
from ..errors import ParameterError, located, shown
from ..robot_files.paths import Place, place_in
from ..typing import PathLike
from .chain_set import ChainSet, check_changed
from .fitted_motors import DrawnMotors, FittedMotors
from .groups.randomisation import Distribution, checked, generator
from .groups.resolution import matching
from .value_table import Sources

_log = logging.getLogger("actuon.actuators")


@dataclass(frozen=True, eq=False)
class _Chain:
    """The actuator of a joint of some of the robots."""

    actuator: Actuator
    at: np.ndarray
    """Indices of the joint among the DOFs of the actuator, shape (m,)."""
    rows: np.ndarray
    """Positions of its robots among the chosen ones, shape (m,)."""

    def stage(self, place: Place) -> Component:
        return self.actuator.stages[place.stage]


def randomize(
    chains: ChainSet,
    dt: float,
    names: Sequence[str],
    parameters: Mapping[str, Distribution] | None,
    from_fit: PathLike | None,
    joints: Iterable[str] | Mapping[str, str] | None,
    rows: np.ndarray,
    seed: Any,
) -> tuple[DrawnMotors | None, Sources]:
    """Draw parameters of joints, or whole motors, and write them. If a value is not allowed, nothing is written.

    Args:
        chains: Chains of the robots.
        dt: Time step [s].
        names: Joints that have an actuator.
        parameters: Distributions by path.
        from_fit: File of fitted motors, instead of distributions. See `FittedMotors`.
        joints: Regular expressions of joints; with ``from_fit``, a mapping of them to joints of the file.
        rows: Rows of the robots, shape (n,).
        seed: Seed of the draw, or a list of n generators, one for each robot.

    Returns:
        With ``from_fit``, the drawn motors; and the sources of the new values of the first of these robots.
    """
    if (parameters is None) == (from_fit is None):
        raise ParameterError("randomize: needs either parameters or from_fit")
    if parameters is None:
        assert from_fit is not None
        return _randomize_from_fit(chains, dt, names, from_fit, joints, rows, generator("seed", seed))
    if not isinstance(parameters, Mapping):
        raise ParameterError(f"parameters: got {shown(parameters)}; must be a mapping of paths to distributions")
    if joints is not None:
        patterns = [joints] if isinstance(joints, str) else joints
        names = list(dict.fromkeys(name for pattern in patterns for name in matching("joints", pattern, names)))
    is_by_robot = isinstance(seed, list) and len(seed) == len(rows) > 0
    rng = seed if is_by_robot else generator("seed", seed)
    return None, randomize_parameters(chains, dt, chains.baseline, parameters, names, rows, rng)


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
    new: dict[tuple[int, str], tuple[Component, np.ndarray]] = {}
    stages = {}
    for name, (_, values) in drawn.items():
        for chain in _chains(chains, name, rows):
            stages[name] = chain.actuator.stages
            with located(f"'{path}': joint '{fitted.of[name].name}'", ParameterError):
                _prepare(chain, fitted, name, values, dt, new)
    check_changed(new, dt)
    chains.write(new)
    told = fitted.drawn(rows, {name: motors for name, (motors, _) in drawn.items()})
    for parameter, count in told.clipped.items():
        _log.warning("%s: %d of %d values of %s are clipped", told.file, count, told.motors.size, parameter)
    places = ((name, place_in(stages[name], path)) for name, paths in told.paths.items() for path in paths)
    return told, {(name, place.stage, place.name): told.source(0, name) for name, place in places}


def randomize_parameters(
    chains: ChainSet,
    dt: float,
    baseline: Mapping[tuple[int, str], np.ndarray],
    parameters: Mapping[str, Distribution],
    joints: Sequence[str],
    rows: np.ndarray,
    rng: np.random.Generator | Sequence[np.random.Generator],
) -> Sources:
    """Draw parameters of joints, and write them. If a value is not allowed, nothing is written.

    Args:
        chains: Chains of the robots.
        dt: Time step [s].
        baseline: `ChainSet.baseline` to scale the first values, or to add to them; empty for the present ones.
        parameters: Distributions by path.
        joints: The joints to draw for. Those whose chain lacks a parameter stay as they are.
        rows: Rows of the robots, shape (n,).
        rng: Generator of the draw, or one for each robot.

    Returns:
        Sources of the new values of the first of these robots.

    Raises:
        ParameterError: No chain of these joints has such a parameter, or a value is not allowed.
    """
    new: dict[tuple[int, str], tuple[Component, np.ndarray]] = {}
    sources: Sources = {}
    for path, given in parameters.items():
        distribution = checked(path, given)
        if isinstance(rng, np.random.Generator):
            drawn = distribution.draw(rng, (len(rows), len(joints)))
        else:
            drawn = np.stack([distribution.draw(each, (1, len(joints)))[0] for each in rng])
        refusal: ParameterError | None = None
        found = False
        for column, name in enumerate(joints):
            for chain in _chains(chains, name, rows):
                try:
                    place = _place(chain, path)
                except ParameterError as error:
                    refusal = error
                    continue
                found = True
                stage = chain.stage(place)
                key = id(stage), place.name
                held = stage.numbers()[place.name]
                first = baseline.get(key, held)[chain.at]
                values = new.setdefault(key, (stage, held))[1]
                numbers = distribution.apply(first, drawn[chain.rows, column], place.declared.integer)
                most = _room(stage, place.name, dt)
                if most is not None and (numbers > most[chain.at]).any():
                    raise ParameterError(
                        f"{path}: drew {numbers.max():.4g}; the delay has room for {most[chain.at].min():.4g}; build "
                        "it with the longest"
                    )
                values[chain.at] = np.rint(numbers) if place.declared.integer else numbers
                sources[name, place.stage, place.name] = f"config, drawn: {distribution}"
        if not found and rows.size:
            raise refusal or ParameterError(f"{path}: no joint has an actuator")
    check_changed(new, dt)
    chains.write(new)
    return sources


def _chains(chains: ChainSet, name: str, rows: np.ndarray) -> Iterator[_Chain]:
    column = chains.dof_names.index(name)
    for actuator, places, robots in zip(chains.actuators, chains.places, chains.robot_of, strict=True):
        at = np.flatnonzero((places % chains.shape[1] == column) & np.isin(robots, rows))
        if at.size:
            yield _Chain(actuator, at, np.searchsorted(rows, robots[at]))


def _prepare(
    chain: _Chain,
    fitted: FittedMotors,
    name: str,
    values: np.ndarray,
    dt: float,
    new: dict[tuple[int, str], tuple[Component, np.ndarray]],
) -> None:
    """Put what motors of a joint change into copies of the parameters."""
    stages = chain.actuator.stages
    parameters = fitted.of[name].parameters
    paths = [path for p in parameters for path in (p.path, *p.also) if not path.startswith("link.")]
    places = {path: _place(chain, path) for path in paths}
    units = {p.path: p.unit for p in parameters}
    for path, place in places.items():
        if units.get(path, place.declared.unit) != place.declared.unit:
            raise ParameterError(f"{path}: is in {units[path]} in the file, and in {place.declared.unit} here")

    def held(path: str) -> np.ndarray:
        place = place_in(stages, path)
        values = chain.stage(place).numbers().get(place.name)
        return np.zeros(len(chain.at)) if values is None else values[chain.at]

    declared = {path: place.declared for path, place in places.items()}
    for path, numbers in fitted.written(name, values[chain.rows], declared, held).items():
        stage = chain.stage(places[path])
        key = id(stage), places[path].name
        if key not in new:
            new[key] = stage, stage.numbers()[places[path].name]
        most = _room(stage, places[path].name, dt)
        new[key][1][chain.at] = numbers if most is None else fitted.clip(path, numbers, most[chain.at])


def _place(chain: _Chain, path: str) -> Place:
    place = place_in(chain.actuator.stages, path)
    if place.declared.shared:
        raise ParameterError(f"{path}: all joints of an actuator share it, so that it cannot be drawn for each")
    if place.name not in chain.stage(place).numbers():
        raise ParameterError(f"{path}: the actuator leaves it out; give it a value, such as 0, and attach it again")
    return place


def _room(stage: Component, name: str, dt: float) -> np.ndarray | None:
    """Longest lags of a delay that it has memory for, shape (N,)."""
    if isinstance(stage, DelayTime) and name == "delay":
        return stage.longest(dt)
    if isinstance(stage, Delay):
        return np.full(len(stage.delay_steps), stage.buf_depth)
    return None
