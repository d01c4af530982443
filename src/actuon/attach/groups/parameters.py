# SPDX-License-Identifier: Apache-2.0
"""Parameters of a group, with random draws: from a distribution, or of whole motors from a fit."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from ...errors import ParameterError, listed
from ...sim.ids import ids_to_reset
from ...typing import IdsLike, IndexLike, PathLike
from ..chain_set import is_equal
from ..fitted_motors import DrawnMotors, FittedMotors
from .randomisation import Distribution, checked, generator
from .resolution import PARAMETERS, Resolved, joint_numbers, rows_by_parameter, table_text

_KINDS = {"pd": "controller", "gear": "transmission"}
"""Kind of a stage, by its type in a path."""

_OF_FITS = {
    "controller.kp": "stiffness",
    "controller.kd": "damping",
    "transmission.reflected_inertia": "armature",
    "friction.static": "friction",
    "friction.dynamic": "dynamic_friction",
    "friction.viscous": "viscous_friction",
    "max_effort.max_effort": "effort_limit",
    "dc_motor.saturation_effort": "saturation_effort",
    "dc_motor.velocity_limit": "velocity_limit",
}
"""Parameter of groups, by path in a fitted chain."""


class GroupParameters:
    """Parameters of a group, each with a value for every environment and joint, and their random draws.

    Args:
        where: Name of the group's model in an error.
        joint_names: Names of the joints.
        num_envs: Number of environments.
        resolved: Initial values, by name.
        seed: Seed of the draws. Default: different draws each time.
        device: Device of the values.
    """

    def __init__(
        self,
        where: str,
        joint_names: Sequence[str],
        num_envs: int,
        resolved: Mapping[str, Resolved],
        seed: Any,
        device: wp.Device,
    ):
        self.where, self.joint_names, self.shape = where, list(joint_names), (num_envs, len(joint_names))
        self.arrays = {name: wp.array(self._spread(r), device=device) for name, r in resolved.items()}
        """Flat arrays by name, which kernels read."""
        self.rng = generator(f"{where}: seed", seed)
        """Generator of all draws of the group, delays included."""
        self.on_change: Callable[[str], None] | None = None
        """Called with the name of a parameter that was drawn, to update the engine."""
        self._resolved = resolved
        self._baseline = {name: array.numpy().copy() for name, array in self.arrays.items()}
        self._sources: dict[str, list[str]] = {}
        """Sources of drawn parameters of the first environment, for each joint."""

    def _spread(self, resolved: Resolved) -> np.ndarray:
        return np.ascontiguousarray(np.broadcast_to(resolved.used, self.shape), dtype=np.float32).ravel()

    def unite(self, name: str, other: str) -> None:
        """Make a parameter an alias of another."""
        self.arrays[name] = self.arrays[other]

    def table(self, name: str) -> wp.array:
        """Return the memory of a parameter, which its tensor shares, with shape (environments, joints)."""
        return self.arrays[name].reshape(self.shape)

    def tables(self) -> dict[str, wp.array]:
        """Return the memory of all parameters, by name, each of shape (environments, joints)."""
        return {name: self.table(name) for name in self.arrays}

    def numbers(self, name: str) -> np.ndarray:
        """Return a parameter as NumPy, shape (environments, joints)."""
        return np.asarray(self.arrays[name].numpy().reshape(self.shape))

    def is_given(self, name: str) -> bool:
        """Return whether the config defines a parameter, and not the asset."""
        return self._resolved[name].source != "asset"

    def rows(self, joint_indices: IndexLike | slice) -> dict[str, list[list[str | float | None]]]:
        """Return a row per joint for each parameter. See `rows_by_parameter`."""
        return rows_by_parameter(self._resolved_now(), self.joint_names, joint_numbers(joint_indices, self.shape[1]))

    def text(self, places: Mapping[str, Sequence[str]]) -> str:
        """Return `rows` as text, with units and sources. See `table_text`."""
        return table_text(self._resolved_now(), self.joint_names, places, self._sources)

    def _resolved_now(self) -> dict[str, Resolved]:
        """Return resolved parameters, with drawn values of the first environment."""
        now = {name: dataclasses.replace(self._resolved[name], used=self.numbers(name)) for name in self._sources}
        return {**self._resolved, **now}

    def ids(self, env_ids: IdsLike) -> np.ndarray:
        """Return the environments as indices."""
        return ids_to_reset("env_ids", env_ids, self.shape[0])

    def draw(
        self,
        name: str | None,
        distribution: Distribution | None,
        env_ids: IdsLike,
        relative_to: str,
        seed: int | None,
        from_fit: PathLike | None,
        joints: Mapping[str, str] | None,
    ) -> DrawnMotors | None:
        """Draw parameters, all or none. See `ActuatorBase.randomize`."""
        if relative_to not in ("baseline", "current"):
            raise ParameterError(f"relative_to: got {relative_to!r}; must be 'baseline' or 'current'")
        if from_fit is None and joints is not None:
            raise ParameterError(f"{self.where}: joints: is for from_fit, which is not given")
        rng = self.rng if seed is None else generator(f"{self.where}: seed", seed)
        stream = rng.bit_generator.state
        try:
            if from_fit is None:
                self._draw_one(rng, name, distribution, self.ids(env_ids), relative_to)
                return None
            if name is not None or distribution is not None:
                raise ParameterError(f"{self.where}: got from_fit and a name; must be one or the other")
            return self._draw_motors(rng, from_fit, joints, self.ids(env_ids))
        except BaseException:
            rng.bit_generator.state = stream
            raise

    def _draw_one(
        self,
        rng: np.random.Generator,
        name: str | None,
        distribution: Distribution | None,
        ids: np.ndarray,
        relative_to: str,
    ) -> None:
        if name not in self.arrays:
            known = listed(str(name), self.arrays, "parameters")
            raise ParameterError(f"{self.where}: no parameter '{name}'; {known}")
        distribution = checked(f"{self.where}.{name}", distribution)
        drawn = distribution.draw(rng, (len(ids), self.shape[1]))
        start = self.numbers(name) if relative_to == "current" else self._baseline[name].reshape(self.shape)
        self._change({name: distribution.apply(start[ids], drawn)}, ids)
        if 0 in ids:
            kept = relative_to == "current" and name in self._sources
            before = self._sources[name] if kept else [self._resolved[name].source] * self.shape[1]
            self._sources[name] = [f"{text}, drawn: {distribution}" for text in before]

    def _draw_motors(
        self, rng: np.random.Generator, path: PathLike, joints: Mapping[str, str] | None, ids: np.ndarray
    ) -> DrawnMotors:
        fitted = FittedMotors(path, self.joint_names, joints)
        drawn = fitted.draw(rng, len(ids))
        new: dict[str, np.ndarray] = {}
        for joint, (_, values) in drawn.items():
            column = self.joint_names.index(joint)
            names = self._names_of(fitted, joint)
            declared = {path: PARAMETERS[name] for path, name in names.items()}
            held = functools.partial(self._held, ids, column)
            found = fitted.written(joint, values, declared, held)
            given = {names[path]: numbers for path, numbers in found.items()}
            if "friction" not in given and "dynamic_friction" in given:
                given["friction"] = given["dynamic_friction"]
            if not given:
                paths = ", ".join(p.path for p in fitted.of[joint].parameters)
                where = f"'{path}': joint '{fitted.of[joint].name}'"
                raise ParameterError(f"{where}: {self.where} has none of the fitted parameters: {paths}")
            for name, numbers in given.items():
                new.setdefault(name, self.numbers(name)[ids])[:, column] = numbers
        self._change(new, ids)
        told = fitted.drawn(ids, {joint: motors for joint, (motors, _) in drawn.items()})
        if 0 in ids:
            for name in new:
                before = self._sources.get(name, [self._resolved[name].source] * self.shape[1])
                self._sources[name] = [
                    told.source(0, joint) if joint in told.joints else text
                    for joint, text in zip(self.joint_names, before, strict=True)
                ]
        return told

    def _names_of(self, fitted: FittedMotors, joint: str) -> dict[str, str]:
        """Return the group's names of fitted parameters that it has, in the same unit, by path."""
        found = {}
        for p in fitted.of[joint].parameters:
            for path in (p.path, *p.also):
                name = _OF_FITS.get(_usual(path))
                if name in self.arrays and (path != p.path or PARAMETERS[name].unit == p.unit):
                    found[path] = name
        return found

    def _held(self, ids: np.ndarray, column: int, path: str) -> np.ndarray:
        """Return values of environments at the path of a fitted parameter, shape (n,)."""
        name = _OF_FITS.get(_usual(path), "")
        return self.numbers(name)[ids, column] if name in self.arrays else np.zeros(len(ids))

    def _change(self, new: Mapping[str, np.ndarray], ids: np.ndarray) -> None:
        """Write parameters of some environments, each of shape (n, joints), all or none."""
        before = {name: self.numbers(name).copy() for name in new}
        for name, numbers in new.items():
            self._check(name, numbers, ids)
        try:
            for name, numbers in new.items():
                now = before[name].copy()
                now[ids] = numbers
                self.arrays[name].assign(now.ravel())
                if self.on_change is not None:
                    self.on_change(name)
        except BaseException:
            for name, numbers in before.items():
                self.arrays[name].assign(numbers.ravel())
            raise

    def _check(self, name: str, numbers: np.ndarray, ids: np.ndarray) -> None:
        """Raise an error that names joint and environment of the first value that is not allowed."""
        where = f"{self.where}.{name}"
        try:
            PARAMETERS[name].check(where, numbers)
        except ParameterError:
            for (row, column), number in np.ndenumerate(numbers):
                joint = f"joint '{self.joint_names[column]}' of environment {ids[row]}"
                PARAMETERS[name].check(f"{joint}: {where}", number)
            raise

    def take(self, values: Mapping[str, np.ndarray]) -> None:
        """Load parameters of a saved state, by name, and write those of the engine to it."""
        new = {name: numbers for name, numbers in values.items() if not is_equal(self.numbers(name), numbers)}
        self._change(new, np.arange(self.shape[0]))
        self._sources |= {name: ["saved state"] * self.shape[1] for name in new}


def _usual(path: str) -> str:
    """Return a path with the kind of its stage, if groups have such a stage."""
    stage, _, name = path.partition(".")
    return f"{_KINDS.get(stage, stage)}.{name}"
