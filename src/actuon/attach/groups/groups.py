# SPDX-License-Identifier: Apache-2.0
"""`ActuatorGroups`: actuator groups on the robots of a simulation."""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from ...actuator.actuator import Actuator
from ...actuator.config import AUTO, EXPLICIT, IMPLICIT, checked_effort_mode
from ...declare.parameters import Field
from ...errors import ParameterError, SimulationError, StructureError, listed, located
from ...sim import Articulation
from ...sim.engine import PROPERTIES
from ..attachment import Attachment, Parts, chains_on, places_of, robot_numbers
from ..chain_set import COMPUTED, IMPLICIT_ATTRS, PARAMETERS, ChainSet, build_actuator, signal_attr
from ..effort_limits import Settler, drive_shower
from ..hand_overs import (
    EffortLimits,
    Efforts,
    HandOver,
    LimitedEfforts,
    SilencedDrives,
    check_derivatives,
    joint_ranges,
)
from .cfg import ActuatorBaseCfg
from .group_model import ActuatorBase
from .randomisation import STREAM
from .resolution import PARAMETERS as GROUP_PARAMETERS, matching

_log = logging.getLogger("actuon.lab")

_LIMITED = "limited"
"""Name of the array to which models write efforts after their own limits."""

_PARAMETER_OF = {name: f"{name}_sim" if row.is_limit else name for name, row in PROPERTIES.items()}
ENGINE_PROPERTY = {own: name for name, own in _PARAMETER_OF.items() if own in GROUP_PARAMETERS}
"""Property of the engine, by parameter that it holds."""


class ActuatorGroups(Attachment):
    """Actuator groups on robots, whose motor models are stepped before physics.

    A group with the engine drive sets its gains and limits. The other groups disable the engine drives and apply
    efforts. Both set armature and friction. All written values are read back.

    Args:
        articulation: The robots.
        groups: Configs by name. Their regexes select joints, which keep the order of the articulation.
        effort_mode: Form of the efforts of the other groups: ``"explicit"``, ``"implicit"`` or ``"auto"``. Default:
            that of each config.

    Examples:
        >>> pd = actuon.lab.IdealPDActuatorCfg(["joint[1-4]"], stiffness=600.0, damping=50.0)
        >>> own = actuon.lab.ImplicitActuatorCfg(["joint[5-7]"], stiffness=150.0, damping=25.0)
        >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2) as simulation:
        ...     robots = actuon.Articulation("link0")
        ...     groups = actuon.lab.ActuatorGroups(robots, {"arm": pd, "wrist": own})
        ...     simulation.step(2)
        ...     print(groups["arm"].applied_effort.shape)
        torch.Size([2, 4])
    """

    def __init__(
        self,
        articulation: Articulation,
        groups: Mapping[str, ActuatorBaseCfg],
        *,
        effort_mode: str | None = None,
    ):
        columns = _columns_of(articulation, groups)
        self.unassigned = [
            name for i, name in enumerate(articulation.dof_names) if not any(i in chosen for chosen in columns.values())
        ]
        """Joints in no group. They keep the engine drive."""
        if self.unassigned:
            _log.warning("joints in no group, which keep the engine drive: %s", ", ".join(self.unassigned))
        self.groups = {name: _model_of(articulation, name, cfg, columns[name]) for name, cfg in groups.items()}
        """Models by the names of their groups."""
        self._modes = {name: _mode_of(name, model, effort_mode) for name, model in self.groups.items()}
        given, auto = (
            _joined([columns[name] for name, own in self._modes.items() if own == mode]) for mode in (IMPLICIT, AUTO)
        )

        def build(implicit: np.ndarray) -> Parts:
            for name, mode in self._modes.items():
                if mode != EXPLICIT:
                    self._modes[name] = IMPLICIT if np.isin(columns[name], implicit).any() else AUTO
            return _parts(articulation, self.groups, columns, self._modes)

        super().__init__(articulation, build, given, auto)

    def step(self) -> None:
        """Step all groups, and write the efforts to the engine. Each step of physics does so as well.

        Examples:
            >>> pd = actuon.lab.IdealPDActuatorCfg([".*"], stiffness=600.0, damping=50.0)
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf):
            ...     groups = actuon.lab.ActuatorGroups(actuon.Articulation("link0"), {"arm": pd})
            ...     groups.articulation.set_dof_position_targets(0.01)
            ...     groups.step()
            ...     print(groups["arm"].applied_effort[0, 0].item())
            6.0
        """
        self._step_now(self.articulation.simulation.dt)

    def __getitem__(self, name: str) -> ActuatorBase:
        if name not in self.groups:
            raise ParameterError(f"there is no group '{name}'; {listed(name, self.groups, 'groups')}")
        return self.groups[name]

    def resolution_table(self) -> str:
        """Return a table of the parameters of each joint: value of the asset, of the config, used, unit, source.

        Examples:
            >>> pd = actuon.lab.IdealPDActuatorCfg([".*"], stiffness=600.0, damping=50.0)
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf):
            ...     groups = actuon.lab.ActuatorGroups(actuon.Articulation("link0"), {"arm": pd})
            ...     print("\\n".join(groups.resolution_table().splitlines()[:3]))
            arm: IdealPDActuator
            joint   parameter           asset  config  used   unit       source
            joint1  stiffness           600    600     600    N·m/rad    config
        """
        parts = []
        for name, model in self.groups.items():
            mode = "" if self._modes[name] == EXPLICIT else f", effort_mode {self._modes[name]}"
            parts.append(f"{name}: {type(model).__name__}{mode}\n{model.resolution_table()}")
        if self.unassigned:
            parts.append(f"in no group: {', '.join(self.unassigned)}")
        if self.mode_text:
            parts.append(self.mode_text)
        return "\n\n".join(parts)


def _model_of(articulation: Articulation, name: str, cfg: ActuatorBaseCfg, columns: np.ndarray) -> ActuatorBase:
    """Return the model of a group, with the asset's values."""
    simulation, at = articulation.simulation, articulation.at.of_dofs(columns)
    assets = {}
    for ours, theirs in ENGINE_PROPERTY.items():
        held = simulation.engine.properties.get(theirs, at)
        if held is not None:
            assets[ours.removesuffix("_sim")] = held
    names = [articulation.dof_names[i] for i in columns]
    own: Any = copy.copy(cfg)
    first = int(robot_numbers(articulation)[0][0])
    if first and isinstance(cfg.seed, (int, np.integer)):
        own.seed = (cfg.seed, first)  # other numbers than for other robots of the simulation
    with located(f"group '{name}'"):
        model: ActuatorBase = cfg.class_type(own, names, columns, len(articulation), simulation.device, **assets)
    model.cfg.seed = cfg.seed
    places = simulation.engine.drives.effort_sources(at)
    if places:
        model.asset_places |= {"effort_limit": places, "effort_limit_sim": places}
    if model.is_implicit_model and model.stages_on_robots() is not model.stages:
        raise StructureError(
            f"group '{name}': {type(model).__name__} overrides compute(), which is not called, since the engine drives "
            "its joints; derive it from IdealPDActuator"
        )
    return model


def _mode_of(name: str, model: ActuatorBase, given: str | None) -> str:
    """Return the form of a group's efforts; those of the engine drive are the engine's."""
    own = checked_effort_mode(model.cfg.effort_mode, f"group '{name}': effort_mode")
    if not model.is_implicit_model:
        mode = own if given is None else checked_effort_mode(given)
        if mode == IMPLICIT:
            check_derivatives(f"group '{name}'", model.stages_on_robots())
        return mode
    if own != EXPLICIT:
        raise ParameterError(
            f"group '{name}': effort_mode: got '{own}' for {type(model).__name__}, which is the engine drive "
            "and gets no efforts; leave it out"
        )
    return own


def _parts(
    articulation: Articulation,
    groups: Mapping[str, ActuatorBase],
    columns: Mapping[str, np.ndarray],
    modes: Mapping[str, str],
) -> Parts:
    """Return the chains of groups, and their hand-overs."""
    actuators = [_actuator_of(articulation, name, groups[name], columns[name], modes[name]) for name in groups]
    chains = chains_on(articulation, actuators, _LIMITED, [f"group '{name}'" for name in groups])
    given = chains.table(_LIMITED)
    efforts = Efforts(chains.table(COMPUTED), given, wp.zeros_like(given), wp.zeros_like(given))
    own = HeldByEngine(articulation, groups, columns, chains, efforts)
    explicit = [name for name, model in groups.items() if not model.is_implicit_model]
    parts = Parts.of(
        articulation,
        chains,
        efforts,
        _joined(list(columns.values())),
        _joined([columns[name] for name, mode in modes.items() if mode == IMPLICIT]),
        [own],
        followed=_joined([columns[name] for name in explicit]),
        limited=[
            LimitedEfforts(columns[name], modes[name] == IMPLICIT, groups[name].parameters.table("effort_limit_sim"))
            for name in explicit
        ],
        ranges=own.ranges,
    )
    own.limits = parts.limits
    return parts


def _actuator_of(
    articulation: Articulation, name: str, model: ActuatorBase, columns: np.ndarray, mode: str
) -> Actuator:
    """Return the chain of a model at its joints of all robots, over the arrays of the simulation."""
    simulation = articulation.simulation
    stages = model.stages_on_robots()
    with located(f"group '{name}'"):
        actuator = build_actuator(
            model.config().with_stages(stages),
            columns,
            places_of(articulation),
            simulation.device,
            control_output_attr=_LIMITED,
            control_computed_output_attr=COMPUTED,
            control_signal_attrs=signal_attr,
            control_derivative_attrs=IMPLICIT_ATTRS if mode == IMPLICIT else None,
            accumulate=False,
            robot_dofs=len(columns) if simulation.engine.steps_single_robots else None,
            in_engine=simulation.solves_friction(articulation.at.of_dofs(columns)),
        )
    if stages is model.stages:
        model.stages = actuator.stages
    return actuator


class HeldByEngine(HandOver):
    """Gains and limits of engine drives, armature and friction of groups, read back after they were written.

    Args:
        articulation: The robots.
        groups: Models by the names of their groups.
        columns: DOFs of each.
        chains: Their chains.
        efforts: Efforts of all DOFs.
    """

    limits: EffortLimits
    """Limits of the engine, which follow those of groups."""

    def __init__(
        self,
        articulation: Articulation,
        groups: Mapping[str, ActuatorBase],
        columns: Mapping[str, np.ndarray],
        chains: ChainSet,
        efforts: Efforts,
    ):
        self._articulation, self._groups, self._columns, self._efforts = articulation, groups, columns, efforts
        self._engine = articulation.simulation.engine
        self._limits_changed = np.zeros(len(groups), dtype=bool)
        """Whether effort limits of each group were drawn."""
        self.common = {f"group '{name}'/{STREAM}" for name in groups}
        self._drive_bounds: dict[str, tuple[wp.array, wp.array]] = {}
        """Lowest and highest effort of the engine drives [N·m or N], each of shape (N, J)."""
        self._settlers = []
        for name, model in groups.items():
            if model.is_implicit_model:
                largest, at = model.parameters.table("effort_limit_sim"), articulation.at.of_dofs(columns[name])
                bounds = wp.full_like(largest, -math.inf), wp.full_like(largest, math.inf)
                self._drive_bounds[name] = bounds
                given = efforts.computed, chains.arrays["joint_act"], largest, bounds
                to = columns[name], at.flat("joint_qd"), efforts.engine, efforts.applied
                self._settlers.append(drive_shower(*given, *to))

    def attach(self, undo: contextlib.ExitStack) -> None:
        for name, model in self._groups.items():
            self._attach_group(name, model, self._columns[name], undo)

    def _attach_group(self, name: str, model: ActuatorBase, columns: np.ndarray, undo: contextlib.ExitStack) -> None:
        engine, at = self._engine, self._articulation.at.of_dofs(columns)
        own: tuple[str, ...] = ()
        if model.is_implicit_model:
            undo.callback(engine.drives.add(at, model.numbers("stiffness"), model.numbers("damping")))
        undo.callback(engine.properties.keep(at))
        if model.is_implicit_model:
            own = ("stiffness", "damping", "effort_limit_sim", "velocity_limit_sim")
            held = ((name, engine.properties.get(name, at)) for name in ("stiffness", "damping"))
            gains = {name: values for name, values in held if values is not None}
            undo.callback(functools.partial(engine.properties.set, at, **gains))
        else:
            SilencedDrives(self._articulation, columns).attach(undo)
        for parameter in ("armature", "friction", "viscous_friction", *own):
            if model.parameters.is_given(parameter):
                self._push(name, parameter)
        undo.callback(model._detach)
        model._attach(functools.partial(self._on_change, name), self._efforts.computed, self._efforts.given, columns)

    def _on_change(self, name: str, parameter: str) -> None:
        """Write a drawn parameter to the engine."""
        self._push(name, parameter)
        if parameter.startswith("effort_limit"):
            self._limits_changed[list(self._groups).index(name)] = True
            self.limits.update()

    def _push(self, name: str, parameter: str) -> None:
        """Write one parameter of a group to the engine, and read it back."""
        model, properties = self._groups[name], self._engine.properties
        at = self._articulation.at.of_dofs(self._columns[name])
        if parameter in ("effort_limit", "velocity_limit"):
            parameter += "_sim"  # the engine drive has one limit
        values = model.numbers(parameter)
        held_as = ENGINE_PROPERTY.get(parameter, "")
        if parameter in ("stiffness", "damping"):
            if not model.is_implicit_model:
                return
            properties.set(at, stiffness=model.numbers("stiffness"), damping=model.numbers("damping"))
        elif held_as and (model.is_implicit_model or not parameter.endswith("_sim")):
            if properties.get(held_as, at) is None:
                if PROPERTIES[held_as].is_limit or np.any(values):
                    text = "group '%s': %s ignores %s of joints: not set"
                    _log.warning(text, name, type(self._articulation.simulation).__name__, held_as)
                return
            values = np.where(np.isinf(values), properties.no_limit, values)
            properties.set(at, **{held_as: values})
        else:
            return
        held = properties.get(held_as, at)
        if held is None or not np.allclose(held, values, rtol=1e-5):
            raise SimulationError(f"group '{name}': the engine reports another {parameter} than the one written")

    def ranges(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the lowest and highest effort for the engine, each of shape (N, D). None: no limit.

        If the limit of a group without the engine drive is the robot's, both bounds are; otherwise they are those of
        joints, or none with an ``effort_limit_sim``. The engine applies the bounds of its own drives, which telemetry
        shows.
        """
        robots, shape = self._articulation, self._efforts.engine.shape
        ranges = [-np.full(shape, np.inf, np.float32), np.full(shape, np.inf, np.float32)]
        joints, drives = joint_ranges(robots), self._engine.drives.effort_range(robots.at)
        if joints is None and drives is not None and (-drives[0] == drives[1]).all():
            drives = None  # the limit of the model says it all
        for (name, model), is_changed in zip(self._groups.items(), self._limits_changed, strict=True):
            at = np.s_[:, self._columns[name]]
            own = drives if not model.parameters.is_given("effort_limit") and not is_changed else None
            if model.is_implicit_model:
                for side, bounds in enumerate(self._drive_bounds[name]):
                    bounds.assign(ranges[side][at] if own is None else own[side][at].astype(np.float32))
            elif model.cfg.effort_limit_sim is None:
                for lower, upper in filter(None, (own, joints)):
                    ranges[0][at] = np.maximum(ranges[0][at], lower[at])
                    ranges[1][at] = np.minimum(ranges[1][at], upper[at])
        return (ranges[0], ranges[1]) if np.isfinite(ranges).any() else None

    def settlers(self) -> Sequence[Settler]:
        return self._settlers

    def has_run(self, dt: float) -> None:
        for model in self._groups.values():
            model._efforts_changed()

    def reset(self, rows: np.ndarray) -> None:
        for model in self._groups.values():
            model.reset(rows)
            model._efforts_changed()

    def last_step(self) -> dict[str, np.ndarray]:
        return {"limits_changed": self._limits_changed}

    def resume(self) -> None:
        self.limits.update()
        self.has_run(0.0)

    def description(self) -> dict[str, str]:
        return {f"group '{name}': class": type(model).__name__ for name, model in self._groups.items()}

    def kept(self) -> dict[str, np.ndarray]:
        return {
            f"group '{name}'/{key}": values
            for name, model in self._groups.items()
            for key, values in model._drawn().items()
        }

    def check_kept(self, where: str, contents: Mapping[str, np.ndarray]) -> None:
        for name, model in self._groups.items():
            group = f"group '{name}'/"
            model._check_drawn(f"{where}: {group}", {key: contents[f"{group}{key}"] for key in model._drawn()})

    def take_kept(self, contents: Mapping[str, np.ndarray]) -> None:
        for name, model in self._groups.items():
            model._redraw({key: contents[f"group '{name}'/{key}"] for key in model._drawn()})

    def parameters(self) -> dict[str, tuple[Field[Any], wp.array]]:
        return {
            f"{PARAMETERS}group '{name}'/{key}": (GROUP_PARAMETERS[key], array)
            for name, model in self._groups.items()
            for key, array in model.parameters.tables().items()
        }

    def take_parameters(self, values: Mapping[str, np.ndarray]) -> None:
        for name, model in self._groups.items():
            prefix = f"{PARAMETERS}group '{name}'/"
            own = {key.removeprefix(prefix): array for key, array in values.items() if key.startswith(prefix)}
            model.parameters.take(own)


def _joined(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return all columns in rising order."""
    return np.sort(np.concatenate([np.zeros(0, np.int64), *columns]))


def _columns_of(articulation: Articulation, groups: Mapping[str, ActuatorBaseCfg]) -> dict[str, np.ndarray]:
    """Return the columns of each group's joints, in the order of the articulation."""
    names = articulation.dof_names
    owner: dict[str, str] = {}
    columns = {}
    for group, cfg in groups.items():
        expressions = [cfg.joint_names_expr] if isinstance(cfg.joint_names_expr, str) else list(cfg.joint_names_expr)
        if not expressions:
            raise ParameterError(f"group '{group}': joint_names_expr is empty")
        found = {name for pattern in expressions for name in matching(f"group '{group}'", pattern, names)}
        for name in sorted(found, key=names.index):
            if name in owner:
                raise ParameterError(f"joint '{name}' is in the groups '{owner[name]}' and '{group}'; must be in one")
            owner[name] = group
        columns[group] = np.array(sorted(names.index(name) for name in found), dtype=np.int64)
    if not columns:
        raise ParameterError("got no groups")
    return columns
