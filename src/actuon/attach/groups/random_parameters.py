# SPDX-License-Identifier: Apache-2.0
"""Parameters of a group that are drawn at random: each from a distribution, or whole motors from fitted ones."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import warp as wp

from ...errors import ParameterError, listed
from ...sim.ids import ids_to_reset
from ...typing import IdsLike, PathLike
from ..chain_set import is_equal
from ..fitted_motors import DrawnMotors, FittedMotors
from .randomisation import STREAM, Distribution, check_stream, generator, set_stream, stream_of
from .resolution import PARAMETERS, Resolved

_KINDS = {"pd": "controller", "gear": "transmission"}
"""By what else a path may call a stage."""

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
"""What groups call parameters of fitted chains."""


class _OnRobot(Protocol):
    @property
    def on_change(self) -> Any: ...


class RandomParameters:
    """The part of a group's model that draws its parameters."""

    joint_names: list[str]
    shape: tuple[int, int]
    _values: dict[str, wp.array]
    """Parameters by name, each flat."""
    _baseline: dict[str, np.ndarray]
    _rng: np.random.Generator
    _sources: dict[str, list[str]]
    """Where parameters of the first environment were drawn from, for each joint."""
    _resolved: dict[str, Resolved]
    _on_robot: _OnRobot | None

    @property
    def _where(self) -> str:
        return type(self).__name__

    def _env_ids(self, env_ids: IdsLike) -> np.ndarray:
        return ids_to_reset("env_ids", env_ids, self.shape[0])

    def randomize(
        self,
        name: str | None = None,
        distribution: Distribution | None = None,
        env_ids: IdsLike = None,
        relative_to: str = "baseline",
        seed: int | None = None,
        *,
        from_fit: PathLike | None = None,
        joints: Mapping[str, str] | None = None,
    ) -> DrawnMotors | None:
        """Draw a parameter anew, for each environment; or, with ``from_fit``, all that were fitted, together.

        Args:
            name: Any parameter, such as ``"stiffness"``.
            distribution: What to draw, and what it does: `Uniform`, `LogUniform` or `Normal`.
            env_ids: Which environments. Default: all.
            relative_to: ``"baseline"``, the value that the group was made with, or ``"current"``.
            seed: Of this draw alone. Default: the group's own stream, which starts from ``cfg.seed``.
            from_fit: In place of a name and a distribution, a ``fleet.yaml`` or the ``actuon.yaml`` of a fit: each
                joint gets a motor that is drawn around one of the fitted ones.
            joints: With ``from_fit``, regexes of joints that get motors, and the joint of the file that each is drawn
                from. Default: all, by their own names.

        Returns:
            With ``from_fit``, what was drawn; else None.
        """
        if relative_to not in ("baseline", "current"):
            raise ParameterError(f"relative_to: got {relative_to!r}; must be 'baseline' or 'current'")
        if from_fit is None and joints is not None:
            raise ParameterError(f"{self._where}: joints: is for from_fit, which is not given")
        rng = self._rng if seed is None else generator(f"{self._where}: seed", seed)
        stream = rng.bit_generator.state
        try:
            if from_fit is None:
                self._draw_one(rng, name, distribution, self._env_ids(env_ids), relative_to)
                return None
            if name is not None or distribution is not None:
                raise ParameterError(f"{self._where}: got from_fit and a name; must be one or the other")
            return self._draw_motors(rng, from_fit, joints, self._env_ids(env_ids))
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
        if name not in self._values:
            known = listed(str(name), self._values, "parameters")
            raise ParameterError(f"{self._where}: no parameter '{name}'; {known}")
        if not isinstance(distribution, Distribution):
            raise ParameterError(f"{self._where}: got {distribution!r}; must be a Uniform, LogUniform or Normal")
        drawn = distribution.draw(rng, (len(ids), self.shape[1]))
        start = self._numbers_of(name) if relative_to == "current" else self._baseline[name].reshape(self.shape)
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
                raise ParameterError(f"{where}: {self._where} has no place for what was fitted: {paths}")
            for name, numbers in given.items():
                new.setdefault(name, self._numbers_of(name)[ids])[:, column] = numbers
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
        """What the group calls fitted parameters that it has, in the same unit, by path."""
        found = {}
        for p in fitted.of[joint].parameters:
            for path in (p.path, *p.also):
                name = _OF_FITS.get(_usual(path))
                if name in self._values and (path != p.path or PARAMETERS[name].unit == p.unit):
                    found[path] = name
        return found

    def _held(self, ids: np.ndarray, column: int, path: str) -> np.ndarray:
        """What environments have at the path of a fitted parameter, shape (n,)."""
        name = _OF_FITS.get(_usual(path), "")
        return self._numbers_of(name)[ids, column] if name in self._values else np.zeros(len(ids))

    def _numbers_of(self, name: str) -> np.ndarray:
        return self._values[name].numpy().reshape(self.shape)

    def _change(self, new: Mapping[str, np.ndarray], ids: np.ndarray) -> None:
        """Write parameters of some environments, each of shape (n, joints), all or none."""
        before = {name: self._numbers_of(name).copy() for name in new}
        for name, numbers in new.items():
            PARAMETERS[name].check(f"{self._where}.{name}", numbers)
        try:
            for name, numbers in new.items():
                now = before[name].copy()
                now[ids] = numbers
                self._values[name].assign(now.ravel())
                if self._on_robot is not None:
                    self._on_robot.on_change(name)
        except BaseException:
            for name, numbers in before.items():
                self._values[name].assign(numbers.ravel())
            raise

    def all_parameters(self) -> dict[str, wp.array]:
        """The memory of all parameters, by name, each of shape (environments, joints)."""
        return {name: array.reshape(self.shape) for name, array in self._values.items()}

    def take(self, values: Mapping[str, np.ndarray]) -> None:
        """Take over parameters of a saved state, by name, and hand to the engine those of them that are its own."""
        new = {name: numbers for name, numbers in values.items() if not is_equal(self._numbers_of(name), numbers)}
        self._change(new, np.arange(self.shape[0]))
        self._sources |= {name: ["saved state"] * self.shape[1] for name in new}

    def drawn(self) -> dict[str, np.ndarray]:
        """What chance has made of the model beside its parameters, a row for each environment, and where its generator
        stands: for `redraw`."""
        return {STREAM: stream_of(self._rng)}

    def check_drawn(self, where: str, drawn: Mapping[str, np.ndarray]) -> None:
        """Refuse what `drawn` never gives.

        Args:
            where: What to call it in an error, before the name of each array.
            drawn: Of a file.
        """
        check_stream(f"{where}{STREAM}", drawn[STREAM])

    def redraw(self, drawn: Mapping[str, np.ndarray]) -> None:
        """Take over what `drawn` gave."""
        set_stream(self._rng, drawn[STREAM])


def _usual(path: str) -> str:
    """A path with the kind of its stage, where groups have one of it."""
    stage, _, name = path.partition(".")
    return f"{_KINDS.get(stage, stage)}.{name}"
