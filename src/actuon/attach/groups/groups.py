# SPDX-License-Identifier: Apache-2.0
"""`ActuatorGroups`: groups of joints with a model each, on the robots of a simulation."""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from ...actuator.actuator import Actuator
from ...actuator.config import AUTO, EXPLICIT, IMPLICIT, checked_effort_mode
from ...actuator.state import check_like
from ...declare.parameters import Field
from ...errors import ParameterError, SimulationError, StructureError, listed, located
from ...sim import Articulation
from ...sim.engine import PROPERTIES, Tangent
from ..attachment import Attachment, signal_attr
from ..auto_mode import install_with_auto
from ..changed_parameters import Changed
from ..effort_limits import Settler, drive_shower, effort_limiter
from ..motor_supply import robot_numbers
from ..remembering import PARAMETERS
from ..tangent_mode import COMPUTED, TANGENT_ATTRS, check_slopes
from ..telemetry import Telemetry
from .cfg import ActuatorBaseCfg
from .group_model import ActuatorBase
from .models import ImplicitActuator
from .randomisation import STREAM
from .resolution import PARAMETERS as GROUP_PARAMETERS, matching

_log = logging.getLogger("actuon.lab")

_LIMITED = "limited"
"""Name of the array to which models write efforts after their own limits."""

_LIMITS_CHANGED = "limits_changed"
"""Name in a file of whether effort limits of groups were drawn."""

_HELD = {
    "stiffness": "stiffness",
    "damping": "damping",
    "armature": "armature",
    "friction": "friction",
    "viscous_friction": "viscous_friction",
    "effort_limit_sim": "effort_limit",
    "velocity_limit_sim": "velocity_limit",
}
"""Parameters that the engine holds, and what it calls them."""


class ActuatorGroups(Attachment):
    """Puts groups on robots: writes to the engine what is the engine's, and steps explicit models before physics.

    An implicit group gives the engine its gains and limits. An explicit one silences the engine's drives, and gives it
    efforts. Both give it armature and friction. What was written is read back.

    Args:
        articulation: The robots.
        groups: Configs by name. Joints are matched by their regexes, and keep the order of the articulation.
        effort_mode: How the efforts of explicit groups, those that are not the engine's own drive, reach the engine:
            ``"explicit"``, ``"implicit"`` or ``"auto"``. Default: what each config says.
    """

    def __init__(
        self,
        articulation: Articulation,
        groups: Mapping[str, ActuatorBaseCfg],
        *,
        effort_mode: str | None = None,
    ):
        self.articulation = articulation
        columns = _columns_of(articulation, groups)
        self.unassigned = [
            name for i, name in enumerate(articulation.dof_names) if not any(i in chosen for chosen in columns.values())
        ]
        """Joints in no group. They keep the engine's drive."""
        if self.unassigned:
            _log.warning("joints in no group, which keep the engine's drive: %s", ", ".join(self.unassigned))
        self._columns = columns
        self._make_arrays(articulation)
        self._applied, self._limited = self._new_array(), self._new_array()
        self._control[_LIMITED] = self._limited.flatten()
        self.groups: dict[str, ActuatorBase] = {
            name: self._make(name, cfg, columns[name]) for name, cfg in groups.items()
        }
        """The models, by the names of their groups."""
        self._modes = {name: self._mode_of(name, effort_mode) for name in self.groups}
        self._limits_changed: set[str] = set()
        given, auto = (
            _joined([columns[name] for name, own in self._modes.items() if own == mode]) for mode in (IMPLICIT, AUTO)
        )
        if auto.size:
            install_with_auto(self, self._install, given, auto)
        else:
            self._install(given)

    def _install(self, tangent: np.ndarray) -> None:
        """Build the actuators and attach them, with tangents of groups that have one of these DOFs."""
        columns = self._columns
        for name, mode in self._modes.items():
            if mode != EXPLICIT:
                self._modes[name] = IMPLICIT if np.isin(columns[name], tangent).any() else AUTO
        self._tangent_columns = _joined([columns[name] for name, mode in self._modes.items() if mode == IMPLICIT])
        self._take_actuators([self._actuator_of(name) for name in self.groups])
        limits = {name: model.parameter("effort_limit_sim") for name, model in self.groups.items()}
        self._drive_bounds = {
            name: (wp.full_like(limits[name], -math.inf), wp.full_like(limits[name], math.inf))
            for name, model in self.groups.items()
            if model.is_implicit_model
        }
        followed = _joined([columns[name] for name, model in self.groups.items() if not model.is_implicit_model])
        self._attach(_joined(list(columns.values())), followed)

    def _make(self, name: str, cfg: ActuatorBaseCfg, columns: np.ndarray) -> ActuatorBase:
        robots = self.articulation
        simulation = robots.simulation
        at = robots.at.of_dofs(columns)
        assets = {}
        for ours, theirs in _HELD.items():
            held = simulation.engine.properties.get(theirs, at)
            if held is not None:
                assets[ours.removesuffix("_sim")] = held
        names = [robots.dof_names[i] for i in columns]
        with located(f"group '{name}'"):
            model: ActuatorBase = cfg.class_type(
                self._seeded(cfg), names, columns, len(robots), simulation.device, **assets
            )
        model.cfg.seed = cfg.seed
        places = simulation.engine.drives.effort_sources(at)
        if places:
            model.asset_places |= {"effort_limit": places, "effort_limit_sim": places}
        if type(model).compute not in (ActuatorBase.compute, ImplicitActuator.compute):
            raise StructureError(
                f"group '{name}': {type(model).__name__} overrides compute(), which is not called on robots; override "
                "make_stages()"
            )
        return model

    def _seeded(self, cfg: ActuatorBaseCfg) -> Any:
        """A config whose seed draws other numbers for these robots than for others of the simulation."""
        own: Any = copy.copy(cfg)
        first = int(robot_numbers(self.articulation)[0][0])
        if first and isinstance(cfg.seed, (int, np.integer)):
            own.seed = (cfg.seed, first)
        return own

    def _mode_of(self, name: str, given: str | None) -> str:
        """How the efforts of a group reach the engine; of an implicit one they are the engine's own."""
        model = self.groups[name]
        own = checked_effort_mode(model.cfg.effort_mode, f"group '{name}': effort_mode")
        if not model.is_implicit_model:
            mode = own if given is None else checked_effort_mode(given)
            if mode == IMPLICIT:
                check_slopes(f"group '{name}'", model.stages)
            return mode
        if own != EXPLICIT:
            raise ParameterError(
                f"group '{name}': effort_mode: got '{own}' for {type(model).__name__}, which is the engine's own "
                "drive and gets no efforts; leave it out"
            )
        return own

    def _actuator_of(self, name: str) -> Actuator:
        """The model's chain at its joints of all robots, over the arrays of the simulation."""
        model, robots, columns = self.groups[name], self.articulation, self._columns[name]
        at, engine = robots.at.of_dofs(columns), robots.simulation.engine
        with located(f"group '{name}'"):
            actuator = Actuator(
                wp.array(at.flat("joint_qd").ravel(), dtype=wp.uint32, device=robots.simulation.device),
                stages=model.stages,
                pos_indices=at.flat("joint_q").ravel(),
                target_pos_indices=at.flat("joint_target_q").ravel(),
                effort_indices=(np.arange(len(robots))[:, None] * robots.num_dofs + columns).ravel(),
                control_output_attr=_LIMITED,
                control_computed_output_attr=COMPUTED,
                control_signal_attrs=signal_attr,
                control_tangent_attrs=TANGENT_ATTRS if self._modes[name] == IMPLICIT else None,
                accumulate=False,
                robot_dofs=len(columns) if engine.steps_single_robots else None,
                in_engine=robots.simulation.solves_friction(at),
            )
        model.stages = actuator.stages
        return actuator

    def _make_settlers(self) -> list[Settler]:
        made = []
        for name, model in self.groups.items():
            columns, largest = self._columns[name], model.parameter("effort_limit_sim")
            to = self._effort, largest, self._applied
            if model.is_implicit_model:
                at = self.articulation.at.of_dofs(columns).flat("joint_qd")
                given = self._computed, self._feedforward, largest, self._drive_bounds[name], columns, at
                made.append(drive_shower(*given, self._effort, self._applied))
            elif self._modes[name] != IMPLICIT:
                made.append(effort_limiter(self._limited, columns, self._bounds, *to))
        if self._tangent is not None:
            made += self._make_ending_settlers({_LIMITED: self._limited}, self._tangent.tangent, self._applied)
        return made

    def _ending_effort(self) -> wp.array:
        return self._new_array()

    def _make_ending_settlers(
        self, given: Mapping[str, wp.array], tangent: Tangent, applied: wp.array | None = None
    ) -> list[Settler]:
        return [
            effort_limiter(
                given[_LIMITED],
                self._columns[name],
                self._bounds,
                tangent.effort,
                model.parameter("effort_limit_sim"),
                applied,
                tangent[1:],
            )
            for name, model in self.groups.items()
            if self._modes[name] == IMPLICIT
        ]

    def _effort_bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Where the limit of an explicit group is the robot's, so are both bounds; else they are those of joints, or
        none beside an ``effort_limit_sim``. The engine's own drive keeps to its bounds by itself, and shows them."""
        robots = self.articulation
        ranges = [-np.full(self._effort.shape, np.inf, np.float32), np.full(self._effort.shape, np.inf, np.float32)]
        joints, drives = super()._effort_bounds(), robots.simulation.engine.drives.effort_range(robots.at)
        if joints is None and drives is not None and (-drives[0] == drives[1]).all():
            drives = None  # the limit of the model says it all
        for name, model in self.groups.items():
            at = np.s_[:, self._columns[name]]
            has_robots_limit = not model.is_given("effort_limit") and name not in self._limits_changed
            own = drives if has_robots_limit else None
            if model.is_implicit_model:
                for side, bounds in enumerate(self._drive_bounds[name]):
                    bounds.assign(ranges[side][at] if own is None else own[side][at].astype(np.float32))
            elif model.cfg.effort_limit_sim is None:
                for lower, upper in filter(None, (own, joints)):
                    ranges[0][at] = np.maximum(ranges[0][at], lower[at])
                    ranges[1][at] = np.minimum(ranges[1][at], upper[at])
        return (ranges[0], ranges[1]) if np.isfinite(ranges).any() else None

    def _hand_over(self, undo: contextlib.ExitStack) -> None:
        for name, model in self.groups.items():
            self._hand_over_group(name, model, self._columns[name], undo)

    def _hand_over_group(self, name: str, model: ActuatorBase, columns: np.ndarray, undo: contextlib.ExitStack) -> None:
        """Write gains and properties of a group to the engine, and read them back."""
        engine, at = self.articulation.simulation.engine, self.articulation.at.of_dofs(columns)
        if model.is_implicit_model:
            undo.callback(engine.drives.add(at, model.numbers("stiffness"), model.numbers("damping")))
        undo.callback(engine.properties.keep(at))
        own: tuple[str, ...] = ()
        if model.is_implicit_model:
            own = ("stiffness", "damping", "effort_limit_sim", "velocity_limit_sim")
            held = ((name, engine.properties.get(name, at)) for name in ("stiffness", "damping"))
            gains = {name: values for name, values in held if values is not None}
            undo.callback(functools.partial(engine.properties.set, at, **gains))
        else:
            self._silence(columns, undo)
        for parameter in ("armature", "friction", "viscous_friction", *own):
            if model.is_given(parameter):
                self._push(name, parameter)
        weak = weakref.ref(self)

        def changed(parameter: str) -> None:
            groups = weak()
            if groups is not None:
                groups._push(name, parameter)
                if parameter.startswith("effort_limit"):
                    groups._limits_changed.add(name)
                    groups._set_bounds(groups._effort_bounds())

        undo.callback(model.detach)
        model.attach(changed, self._computed, self._limited, columns)

    def _push(self, name: str, parameter: str) -> None:
        """Write one parameter of a group to the engine, and read it back."""
        model, simulation = self.groups[name], self.articulation.simulation
        properties, at = simulation.engine.properties, self.articulation.at.of_dofs(self._columns[name])
        if parameter in ("effort_limit", "velocity_limit"):
            parameter += "_sim"  # for an implicit model they are one
        values = model.numbers(parameter)
        held_as = _HELD.get(parameter, "")
        if parameter in ("stiffness", "damping"):
            if not model.is_implicit_model:
                return
            properties.set(at, stiffness=model.numbers("stiffness"), damping=model.numbers("damping"))
        elif held_as and (model.is_implicit_model or not parameter.endswith("_sim")):
            if properties.get(held_as, at) is None:
                if PROPERTIES[held_as].is_limit or np.any(values):
                    text = "group '%s': %s makes no use of %s of joints here: it is left out"
                    _log.warning(text, name, type(simulation).__name__, held_as)
                return
            values = np.where(np.isinf(values), properties.no_limit, values)
            properties.set(at, **{held_as: values})
        else:
            return
        held = properties.get(held_as, at)
        if held is None or not np.allclose(held, values, rtol=1e-5):
            raise SimulationError(f"group '{name}': the engine holds a different {parameter} from what was written")

    def step(self) -> None:
        """Compute all groups, and give the engine the efforts. Each step of physics does so too."""
        self._step_now(self.articulation.simulation.dt)

    def _show(self) -> None:
        for model in self.groups.values():
            model.efforts_changed()

    def telemetry(self) -> Telemetry:
        """What the groups did in the last step.

        Of an explicit group, the applied effort is what the engine got, or what it made of a tangent. Of an implicit
        group the engine computes the effort itself: here it is the law of its drive, up to its limit, at the state
        before the step, and the feedforward beside it; within the step, the engine's own may change.
        """
        return super().telemetry()

    def _shown(self) -> dict[str, tuple[wp.array, float]]:
        return {**super()._shown(), "limited": (self._limited, 0.0)}

    def _forget(self, rows: np.ndarray) -> None:
        super()._forget(rows)
        for model in self.groups.values():
            model.reset(rows)
            model.efforts_changed()

    def description(self) -> dict[str, str]:
        models = {f"group '{name}': class": type(model).__name__ for name, model in self.groups.items()}
        return super().description() | models

    def saved(self) -> dict[str, np.ndarray]:
        changed = [name in self._limits_changed for name in self.groups]
        return {**super().saved(), _LIMITS_CHANGED: np.array(changed)}

    def checked(self, where: str, contents: Mapping[str, np.ndarray], version: int) -> Callable[[], None]:
        take = super().checked(where, contents, version)
        check_like(where, _LIMITS_CHANGED, contents.get(_LIMITS_CHANGED), np.zeros(len(self.groups), dtype=bool))

        def take_all() -> None:
            take()
            changed = zip(self.groups, contents[_LIMITS_CHANGED], strict=True)
            self._limits_changed = {name for name, is_changed in changed if is_changed}

        return take_all

    def _actuator_names(self) -> list[str]:
        return [f"group '{name}'" for name in self.groups]

    def _kept(self) -> dict[str, np.ndarray]:
        kept = super()._kept()
        for name, model in self.groups.items():
            kept |= {f"group '{name}'/{key}": values for key, values in model.drawn().items()}
        return kept

    def _check_kept(self, where: str, contents: Mapping[str, np.ndarray]) -> None:
        super()._check_kept(where, contents)
        for name, model in self.groups.items():
            group = f"group '{name}'/"
            model.check_drawn(f"{where}: {group}", {key: contents[f"{group}{key}"] for key in model.drawn()})

    def _common(self) -> set[str]:
        return {f"group '{name}'/{STREAM}" for name in self.groups}

    def _take_kept(self, where: str, contents: Mapping[str, np.ndarray]) -> None:
        super()._take_kept(where, contents)
        for name, model in self.groups.items():
            model.redraw({key: contents[f"group '{name}'/{key}"] for key in model.drawn()})

    def _own_parameters(self) -> dict[str, tuple[Field[Any], wp.array]]:
        return {
            f"{PARAMETERS}/group '{name}'/{key}": (GROUP_PARAMETERS[key], array)
            for name, model in self.groups.items()
            for key, array in model.all_parameters().items()
        }

    def _take_parameters(self, own: Mapping[str, np.ndarray], changed: Changed) -> None:
        for name, model in self.groups.items():
            prefix = f"{PARAMETERS}/group '{name}'/"
            model.take({key.removeprefix(prefix): values for key, values in own.items() if key.startswith(prefix)})
        super()._take_parameters(own, changed)

    def __getitem__(self, name: str) -> ActuatorBase:
        if name not in self.groups:
            raise ParameterError(f"there is no group '{name}'; {listed(name, self.groups, 'groups')}")
        return self.groups[name]

    def resolution_table(self) -> str:
        """Return text: for joints and parameters the asset's value, the config's, value used, unit, source."""
        parts = []
        for name, model in self.groups.items():
            mode = "" if self._modes[name] == EXPLICIT else f", effort_mode {self._modes[name]}"
            parts.append(f"{name}: {type(model).__name__}{mode}\n{model.resolution_table()}")
        if self.unassigned:
            parts.append(f"in no group: {', '.join(self.unassigned)}")
        if self.mode_text:
            parts.append(self.mode_text)
        return "\n\n".join(parts)


def _joined(columns: Sequence[np.ndarray]) -> np.ndarray:
    """All of these, in rising order."""
    return np.sort(np.concatenate([np.zeros(0, np.int64), *columns]))


def _columns_of(articulation: Articulation, groups: Mapping[str, ActuatorBaseCfg]) -> dict[str, np.ndarray]:
    """The columns of each group's joints, in the order of the articulation."""
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
