# SPDX-License-Identifier: Apache-2.0
"""`Model`: a motor model with free parameters; `Parameter`: one of them, by its path.

A path names a number of a stage, such as ``friction.viscous``, of the link that the joint moves, such as ``link.mass``,
or of the log, ``log.encoder_offset``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..actuator.config import ActuatorConfig
from ..declare.config import Config
from ..declare.parameters import param
from ..errors import Fix, ParameterError, listed
from ..robot_files.fleet import LINEAR as LINEAR, LOG as LOG
from ..robot_files.paths import Place, place_in

if TYPE_CHECKING:
    from ..logs import Log

OUTSIDE = -1
"""Stage of a parameter that belongs to the link or the log."""
LINK = "link"
ENCODER_OFFSET = "log.encoder_offset"
"""Path of the encoder offset of a log."""


class LinkConfig(Config):
    """Link that a joint moves, in the frame of the link. Omitted values keep those of the robot's file."""

    mass: float | None = param("kg", "Mass of the link.", default=None, optional=True, above=0.0)
    com_x: float | None = param("m", "Centre of mass of the link.", default=None, optional=True)
    com_y: float | None = param("m", "Centre of mass of the link.", default=None, optional=True)
    com_z: float | None = param("m", "Centre of mass of the link.", default=None, optional=True)
    inertia_x: float | None = param(
        "kg·m²", "Inertia about the centre of mass.", default=None, optional=True, above=0.0
    )
    inertia_y: float | None = param(
        "kg·m²", "Inertia about the centre of mass.", default=None, optional=True, above=0.0
    )
    inertia_z: float | None = param(
        "kg·m²", "Inertia about the centre of mass.", default=None, optional=True, above=0.0
    )


class LogConfig(Config):
    """Conditions of a recording."""

    encoder_offset: float = param("rad", "Reading of the encoder at position 0, in this log.", default=0.0)


_BESIDE: dict[str, type[Config]] = {LINK: LinkConfig, "log": LogConfig}
"""Configs of the link and the log, by the first part of a path."""


def is_of_link(path: str) -> bool:
    """Return whether a path names a number of the link that the joint moves."""
    return path.partition(".")[0] == LINK


def is_outside(path: str) -> bool:
    """Return whether a path names a number of the link or the log, and not of a stage."""
    return path.partition(".")[0] in _BESIDE


@dataclass(frozen=True)
class Parameter:
    """A free parameter of a fit.

    Args:
        path: Path of the parameter, such as ``friction.viscous``.
        low: Smallest value.
        high: Largest value.
        start: Start value. Default: the middle of the range on its scale.
        scale: ``"linear"``, or ``"log"`` for positive numbers of unknown order of magnitude.
        also: Paths of further parameters that get the same value.
        added_to: Path of a parameter to which the value is added: static friction is dynamic friction plus a value.
        per: ``"joint"`` for one value in all runs, ``"log"`` for one in each log, ``"robot"`` for one in each robot of
            a fleet, by `Log.robot`. The search estimates a common value; least squares then estimate one for each.

    Examples:
        >>> kp = actuon.fit.Parameter("controller.kp", 0.1, 10.0, scale="log")
        >>> kp.start
        1.0
    """

    path: str
    low: float
    high: float
    start: float | None = None
    scale: str = LINEAR
    also: tuple[str, ...] = ()
    added_to: str = ""
    per: Literal["joint", "log", "robot"] = "joint"

    def __post_init__(self) -> None:
        if self.per not in ("joint", "log", "robot"):
            raise ParameterError(f"{self.path}: per: got {self.per!r}; must be 'joint', 'log' or 'robot'")
        if self.scale not in (LINEAR, LOG):
            raise ParameterError(f"{self.path}: scale: got {self.scale!r}; must be {LINEAR!r} or {LOG!r}")
        finite = math.isfinite(self.low) and math.isfinite(self.high)
        if not finite or not self.low < self.high or (self.scale == LOG and self.low <= 0.0):
            least = "0 < low < high" if self.scale == LOG else "low < high"
            raise ParameterError(f"{self.path}: range: got {self.low} to {self.high}; must be finite, {least}")
        if self.start is None:
            middle = math.sqrt(self.low * self.high) if self.scale == LOG else 0.5 * (self.low + self.high)
            object.__setattr__(self, "start", middle)
        elif not self.low <= self.start <= self.high:
            raise ParameterError(f"{self.path}: start: got {self.start}; must be from {self.low:g} to {self.high:g}")

    def to_unit(self, value: np.ndarray) -> np.ndarray:
        """Convert values to shares of the range, 0 to 1.

        Examples:
            >>> kp = actuon.fit.Parameter("controller.kp", 0.1, 10.0, scale="log")
            >>> kp.to_unit(np.array([0.1, 1.0, 10.0]))
            array([0. , 0.5, 1. ])
        """
        if self.scale == LOG:
            return np.log(np.asarray(value) / self.low) / math.log(self.high / self.low)
        return (np.asarray(value) - self.low) / (self.high - self.low)

    @property
    def width(self) -> float:
        """Width of the range on its scale: ln(high / low), or high − low."""
        return math.log(self.high / self.low) if self.scale == LOG else self.high - self.low

    def from_unit(self, share: np.ndarray) -> np.ndarray:
        """Convert shares of the range, 0 to 1, to values.

        Examples:
            >>> kp = actuon.fit.Parameter("controller.kp", 0.1, 10.0, scale="log")
            >>> kp.from_unit(np.array([0.0, 0.5, 1.0])).round(3)
            array([ 0.1,  1. , 10. ])
        """
        share = np.clip(share, 0.0, 1.0)
        if self.scale == LOG:
            return self.low * np.exp(share * math.log(self.high / self.low))
        return self.low + share * (self.high - self.low)


def place_of(actuator: ActuatorConfig, path: str) -> Place:
    """Return the place of the parameter at a path.

    Raises:
        ParameterError: The stage or parameter does not exist; lists those that do.
    """
    stage_name, _, name = path.partition(".")
    if stage_name not in _BESIDE:
        return place_in(actuator.stages, path)
    declared = _BESIDE[stage_name].declared()
    if name not in declared:
        raise ParameterError(f"{path}: {listed(name, declared, f'parameters of a {stage_name}')}")
    return Place(OUTSIDE, name, declared[name])


def value_at(actuator: ActuatorConfig, path: str) -> float | None:
    """Return the value at a path; None if it is unset."""
    place = place_of(actuator, path)
    value: float | None = None if place.stage == OUTSIDE else getattr(actuator.stages[place.stage], place.name)
    return value


def with_values(actuator: ActuatorConfig, values: dict[str, float]) -> ActuatorConfig:
    """Return the motor model with other values, validated together. Ignores paths of the link and the log."""
    by_stage: dict[int, dict[str, float]] = {}
    for path, value in values.items():
        place = place_of(actuator, path)
        if place.stage == OUTSIDE:
            continue
        by_stage.setdefault(place.stage, {})[place.name] = int(value) if place.declared.integer else float(value)
    stages = list(actuator.stages)
    for position, own in by_stage.items():
        stages[position] = dataclasses.replace(stages[position], **own)  # type: ignore[type-var]
    return actuator.with_stages(stages)


def to_unit(parameters: Sequence[Parameter], values: np.ndarray) -> np.ndarray:
    """Convert values, shape (..., P), to shares of their ranges."""
    columns = [p.to_unit(values[..., i]) for i, p in enumerate(parameters)]
    return np.stack(columns, axis=-1) if columns else np.zeros(values.shape)


def from_unit(parameters: Sequence[Parameter], shares: np.ndarray) -> np.ndarray:
    """Convert shares of ranges, shape (..., P), to values."""
    columns = [p.from_unit(shares[..., i]) for i, p in enumerate(parameters)]
    return np.stack(columns, axis=-1) if columns else np.zeros(shares.shape)


@dataclass(frozen=True)
class Model:
    """A motor model with free parameters.

    Args:
        name: Name of the model.
        actuator: Motor model, with the values of all parameters that are not free.
        parameters: Free parameters.
        scaled_by: Name of a setting of the logs by path of a parameter proportional to it, free or fixed. Example: a
            servo's ``controller.kp``, proportional to the setting ``kp`` of its firmware.
        settings: Values of those settings at which the values of the model hold.
        links: Known values of the link that the joint moves, by path, such as ``link.mass``.

    Examples:
        >>> pd, limit = actuon.PDControlConfig(2.0, 0.05), actuon.MaxEffortClampingConfig(1.0)
        >>> kp = actuon.fit.Parameter("controller.kp", 0.1, 20.0, scale="log")
        >>> model = actuon.fit.Model("pd with a limit", actuon.ActuatorConfig(pd, [limit]), (kp,))
        >>> model.config(np.array([3.0])).controller
        PDControlConfig(kp=3.0, kd=0.05, const_effort=0.0)
    """

    name: str
    actuator: ActuatorConfig
    parameters: tuple[Parameter, ...]
    scaled_by: Mapping[str, str] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, float] = dataclasses.field(default_factory=dict)
    links: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for path, name in self.scaled_by.items():
            place_of(self.actuator, path)
            setting_of(self.settings, name, path)
        paths = self.paths
        for path in paths:
            if paths.count(path) > 1:
                raise ParameterError(f"{self.name}: {path} is free twice")
        for parameter in self.parameters:
            for path in (parameter.path, *parameter.also, *filter(None, [parameter.added_to])):
                place_of(self.actuator, path)

    @property
    def paths(self) -> list[str]:
        """Paths of the free parameters."""
        return [parameter.path for parameter in self.parameters]

    @property
    def start(self) -> np.ndarray:
        """Start values of the free parameters, shape (P,)."""
        return np.array([parameter.start for parameter in self.parameters], dtype=float)

    def factors(self, settings: Mapping[str, Any]) -> dict[str, float]:
        """Return the factors by ``scaled_by`` for a log with these settings, by path."""
        return {
            path: setting_of(settings, name, path) / setting_of(self.settings, name, path)
            for path, name in self.scaled_by.items()
        }

    def values(self, candidates: np.ndarray, runs: Sequence[Log]) -> dict[str, np.ndarray]:
        """Return all values of candidates in each run by path, shape (C, R), with ties, sums and settings resolved.

        Args:
            candidates: Values of the free parameters, shape (C, P), or one set for each run, shape (C, R, P).
            runs: Runs, with the settings of ``scaled_by``.
        """
        candidates = np.asarray(candidates, float)
        shape = (len(candidates), len(runs))
        by_path = self._by_path(candidates if candidates.ndim == 3 else candidates[:, None])
        factors = [self.factors(run.settings) for run in runs] if self.scaled_by else []
        values = {path: np.array(np.broadcast_to(own, shape)) for path, own in by_path.items()}
        for path in self.scaled_by:
            values[path] *= [own[path] for own in factors]
        return values

    def _by_path(self, candidates: np.ndarray) -> dict[str, np.ndarray]:
        """Convert candidates of shape (..., P) to values of shape (...) by path, at the settings of the model.

        Includes the values in ``scaled_by``, free or fixed, and in ``links``.
        """
        own = {p.path: candidates[..., i] for i, p in enumerate(self.parameters)}
        shape = candidates.shape[:-1]
        values = {path: np.full(shape, value_at(self.actuator, path)) for path in self.scaled_by}
        values |= {path: np.full(shape, value) for path, value in self.links.items()}
        for parameter in self.parameters:
            value = own[parameter.path]
            if parameter.added_to:
                base = own.get(parameter.added_to)
                value = value + (value_at(self.actuator, parameter.added_to) or 0.0 if base is None else base)
            values |= dict.fromkeys((parameter.path, *parameter.also), value)
        return values

    @property
    def written_paths(self) -> list[str]:
        """Paths of all values that `values` returns."""
        return list(self._by_path(self.start))

    def config(self, candidate: np.ndarray, settings: Mapping[str, Any] | None = None) -> ActuatorConfig:
        """Return the motor model with the values of one candidate.

        Args:
            candidate: Values of the free parameters, shape (P,).
            settings: Settings of a log, for ``scaled_by``. Default: those of the model.

        Examples:
            >>> motor = actuon.ActuatorConfig(actuon.PDControlConfig(kp=2.0, kd=0.05))
            >>> kp = actuon.fit.Parameter("controller.kp", 0.1, 10.0, scale="log")
            >>> model = actuon.fit.Model("pd", motor, (kp,))
            >>> model.config(np.array([3.0])).controller.kp
            3.0
        """
        values = {path: float(value) for path, value in self._by_path(np.asarray(candidate, float)).items()}
        for path, factor in ({} if settings is None else self.factors(settings)).items():
            values[path] *= factor
        return with_values(self.actuator, values)

    def fixed(self, path: str, value: float) -> Model:
        """Return the model with one parameter fixed at a value.

        Examples:
            >>> motor = actuon.ActuatorConfig(actuon.PDControlConfig(kp=2.0, kd=0.05))
            >>> kp = actuon.fit.Parameter("controller.kp", 0.1, 10.0, scale="log")
            >>> model = actuon.fit.Model("pd", motor, (kp,))
            >>> model.fixed("controller.kp", 3.0).paths
            []
        """
        place = place_of(self.actuator, path)
        place.declared.check(path, value)
        match = [p for p in self.parameters if p.path == path]
        others = tuple(p for p in self.parameters if p.path != path)
        names = [path, *(match[0].also if match else ())]
        actuator = with_values(self.actuator, dict.fromkeys(names, value))
        links = {**self.links, **{name: value for name in names if is_of_link(name)}}
        return dataclasses.replace(self, actuator=actuator, parameters=others, links=links)

    def links_at(self, candidate: np.ndarray) -> dict[str, float]:
        """Return the values of the link for one candidate, by path."""
        values = self._by_path(np.asarray(candidate, float))
        return {path: float(value) for path, value in values.items() if is_of_link(path)}

    def freed(self, parameter: Parameter) -> Model:
        """Return the model with one more free parameter, or with another range of one.

        Examples:
            >>> motor = actuon.ActuatorConfig(actuon.PDControlConfig(kp=2.0, kd=0.05))
            >>> kp = actuon.fit.Parameter("controller.kp", 0.1, 10.0, scale="log")
            >>> model = actuon.fit.Model("pd", motor, (kp,))
            >>> model.freed(actuon.fit.Parameter("controller.kd", 0.0, 0.2)).paths
            ['controller.kp', 'controller.kd']
        """
        others = tuple(p for p in self.parameters if p.path != parameter.path)
        return dataclasses.replace(self, parameters=(*others, parameter))


def setting_of(settings: Mapping[str, Any], name: str, path: str) -> float:
    """Return a numeric setting of a log."""
    value = settings.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ParameterError(f"{path}: needs the setting '{name}' of the log; {listed(name, settings, 'settings')}")
    return float(value)


def changed(model: Model, fix: Mapping[str, float], free: Mapping[str, tuple[float, float] | None]) -> Model:
    """Return a model with some parameters fixed and others free. See `fit_logs`."""
    for path, value in fix.items():
        model = model.fixed(path, value)
    for path, ends in free.items():
        model = model.freed(_freed(model, path, ends))
    return model


def _freed(model: Model, path: str, ends: tuple[float, float] | None) -> Parameter:
    known = next((p for p in model.parameters if p.path == path), None)
    declared, value = place_of(model.actuator, path).declared, value_at(model.actuator, path)
    if ends is None and known is not None:
        return known
    if ends is None:
        if not value:
            fix = Fix(f"free={{'{path}': (low, high)}}", f"--free {path}=LOW:HIGH")
            raise ParameterError(f"{path}: has no value to start from; give a range, ", fix=fix)
        ends = (0.01 * value, 100.0 * value) if value > 0.0 else (100.0 * value, -100.0 * value)
        least = declared.minimum if declared.minimum is not None else declared.above
        low = ends[0] if least is None else max(ends[0], least)
        ends = low, ends[1] if declared.maximum is None else min(ends[1], declared.maximum)
    low, high = ends
    scale = LOG if low > 0.0 and high / low > 10.0 else LINEAR
    start = value if value is not None and low <= value <= high else None
    kept = known or Parameter(path, low, high)
    start = None if kept.added_to else start
    return Parameter(path, low, high, start, scale, kept.also, kept.added_to, kept.per)
