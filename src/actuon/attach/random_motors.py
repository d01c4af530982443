# SPDX-License-Identifier: Apache-2.0
"""Fitted motors on actuators of robots: values of each joint of each robot, drawn, checked, and written in place."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..actuator.actuator import Actuator
from ..components.component import Component
from ..components.delay import Delay
from ..components.delay_time import DelayTime
from ..errors import ParameterError, located, shown
from ..robot_files.paths import Place, place_in
from ..typing import PathLike
from .chain_set import ChainSet, check_changed, write_changed
from .fitted_motors import DrawnMotors, FittedMotors
from .groups.randomisation import Distribution, generator

Baseline: TypeAlias = dict[tuple[int, str], np.ndarray]
"""Values of parameters before they were first drawn, by identity of the stage and name."""

_log = logging.getLogger("actuon.actuators")


@dataclass(frozen=True, eq=False)
class _Chain:
    """The actuator of a joint of some of the robots."""

    actuator: Actuator
    at: np.ndarray
    """Where these are among the DOFs of the actuator, shape (m,)."""
    rows: np.ndarray
    """Which of the chosen robots they are, by position, shape (m,)."""

    def stage(self, place: Place) -> Component:
        return self.actuator.stages[place.stage]


def randomize_from_fit(
    chains: ChainSet,
    dt: float,
    names: list[str],
    path: PathLike,
    joints: Mapping[str, str] | None,
    rows: np.ndarray,
    seed: int | None,
) -> DrawnMotors:
    """Draw motors for joints of robots, and write them. If anything is not allowed, nothing is written.

    Args:
        chains: Chains of the robots.
        dt: Time step [s].
        names: The DOFs that have an actuator.
        path: As for `FittedMotors`, and so is the next.
        joints: Which joint of the file each is drawn from.
        rows: Which robots, shape (n,).
        seed: Of the draw; None for another each time.
    """
    fitted = FittedMotors(path, names, joints)
    drawn = fitted.draw(generator("seed", seed), len(rows))
    new: dict[tuple[int, str], tuple[Component, np.ndarray]] = {}
    for name, (_, values) in drawn.items():
        for chain in _chains(chains, name, rows):
            with located(f"'{path}': joint '{fitted.of[name].name}'", ParameterError):
                _prepare(chain, fitted, name, values, dt, new)
    check_changed(new, dt)
    write_changed(new)
    told = fitted.drawn(rows, {name: motors for name, (motors, _) in drawn.items()})
    for parameter, count in told.clipped.items():
        _log.warning("%s: %d of %d values of %s are clipped", told.file, count, told.motors.size, parameter)
    return told


def randomize_parameters(
    chains: ChainSet,
    dt: float,
    baseline: Baseline,
    parameters: Mapping[str, Distribution],
    joints: Sequence[str],
    rows: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Draw parameters of joints, and write them. If a value is not allowed, nothing is written.

    Args:
        chains: Chains of the robots.
        dt: Time step [s].
        baseline: Values before the first draw, to scale and add to. Gets those of parameters that are drawn first.
        parameters: Distributions by path.
        joints: The DOFs to draw for. Those whose chain lacks a parameter stay as they are.
        rows: Which robots, shape (n,).
        rng: Generator of the draw.

    Raises:
        ParameterError: No chain of these joints has such a parameter, or a value is not allowed.
    """
    new: dict[tuple[int, str], tuple[Component, np.ndarray]] = {}
    for path, distribution in parameters.items():
        if not isinstance(distribution, Distribution):
            raise ParameterError(
                f"{path}: got {shown(distribution)}; must be a distribution, such as Uniform(0.8, 1.2)"
            )
        drawn = distribution.draw(rng, (len(rows), len(joints)))
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
                held = stage.numbers()[place.name]
                first = baseline.setdefault((id(stage), place.name), held.copy())
                values = new.setdefault((id(stage), place.name), (stage, held.copy()))[1]
                numbers = distribution.apply(first[chain.at], drawn[chain.rows, column])
                most = _room(stage, place.name, dt)
                if most is not None and (numbers > most[chain.at]).any():
                    raise ParameterError(
                        f"{path}: drew {numbers.max():.4g}; the delay has room for {most[chain.at].min():.4g}; build "
                        "it with the longest"
                    )
                values[chain.at] = np.rint(numbers) if place.declared.integer else numbers
        if not found and rows.size:
            raise refusal or ParameterError(f"{path}: no joint has an actuator")
    check_changed(new, dt)
    write_changed(new)


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
