# SPDX-License-Identifier: Apache-2.0
"""`ActuatorGroups`: groups of joints with a model each, on the robots of a simulation."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Callable, Mapping

import numpy as np
import warp as wp

from ...errors import ActuonError, ParameterError, SimulationError, listed
from ...sim import Articulation
from ...typing import ArrayLike, IdsLike
from ..attachment import Attachment, Telemetry, is_clipped
from .cfg import ActuatorBaseCfg
from .group_model import ActuatorBase, ArticulationActions
from .resolution import matching
from .tensors import to_numpy

_log = logging.getLogger("actuon.lab")

_HELD = {
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
    """

    def __init__(self, articulation: Articulation, groups: Mapping[str, ActuatorBaseCfg]):
        self.articulation = articulation
        columns = _columns_of(articulation, groups)
        self.unassigned = [
            name for i, name in enumerate(articulation.dof_names) if not any(i in chosen for chosen in columns.values())
        ]
        """Joints in no group. They keep the engine's drive."""
        if self.unassigned:
            _log.warning("joints in no group, which keep the engine's drive: %s", ", ".join(self.unassigned))
        self._columns = columns
        shape = (len(articulation), articulation.num_dofs)
        self._feedforward, self._computed, self._applied = (np.zeros(shape, np.float32) for _ in range(3))
        self._clipped = np.zeros(shape, dtype=bool)
        self._effort = wp.zeros(shape, dtype=wp.float32, device=articulation.simulation.device)
        self.groups: dict[str, ActuatorBase] = {
            name: self._make(name, cfg, columns[name]) for name, cfg in groups.items()
        }
        """The models, by the names of their groups."""
        self._attach(np.sort(np.concatenate(list(columns.values()))))

    def _make(self, name: str, cfg: ActuatorBaseCfg, columns: np.ndarray) -> ActuatorBase:
        robots = self.articulation
        simulation = robots.simulation
        stiffness, damping = simulation.gains(robots.robot_ids)
        assets = {"stiffness": stiffness[:, columns], "damping": damping[:, columns]}
        for ours, theirs in _HELD.items():
            held = simulation.dof_property(theirs, robots.robot_ids)
            if held is not None:
                assets[ours.removesuffix("_sim")] = held[:, columns]
        names = [robots.dof_names[i] for i in columns]
        try:
            return cfg.class_type(cfg, names, columns, len(robots), simulation.device, **assets)
        except ActuonError as error:
            raise type(error)(f"group '{name}': {error}") from error

    def _hand_over(self, undo: contextlib.ExitStack) -> None:
        for name, model in self.groups.items():
            undo.callback(self._hand_over_group(name, model, self._columns[name]))

    def _hand_over_group(self, name: str, model: ActuatorBase, columns: np.ndarray) -> Callable[[], None]:
        """Write gains and properties of a group to the engine, and read them back; returns what undoes it."""
        robots, simulation = self.articulation.robot_ids, self.articulation.simulation
        properties = simulation.keep_properties(robots, columns)
        gains = [values[:, columns] for values in simulation.gains(robots)]
        give_back = None if model.is_implicit_model else simulation.silence_drives(robots, columns)

        def undo() -> None:
            model._on_change = None
            if give_back is not None:
                give_back()
            else:
                simulation.set_gains(robots, columns, *gains)
            properties()

        own = ("stiffness", "damping", "effort_limit_sim", "velocity_limit_sim") if model.is_implicit_model else ()
        try:
            for parameter in ("armature", "friction", "viscous_friction", *own):
                if model.is_given(parameter):
                    self._push(name, parameter)
            if not model.is_implicit_model and not simulation.silent_drives(robots)[:, columns].all():
                raise SimulationError(f"group '{name}': the engine still holds drives on joints of an explicit group")
        except BaseException:
            undo()
            raise
        weak = weakref.ref(self)

        def changed(parameter: str) -> None:
            groups = weak()
            if groups is not None:
                groups._push(name, parameter)

        model._on_change = changed
        return undo

    def _push(self, name: str, parameter: str) -> None:
        """Write one parameter of a group to the engine, and read it back."""
        model, columns = self.groups[name], self._columns[name]
        robots, simulation = self.articulation.robot_ids, self.articulation.simulation
        values = model.numbers(parameter)
        if parameter in ("effort_limit", "velocity_limit"):
            parameter += "_sim"  # for an implicit model they are one
        if parameter in ("stiffness", "damping"):
            if not model.is_implicit_model:
                return
            simulation.set_gains(robots, columns, model.numbers("stiffness"), model.numbers("damping"))
            held: np.ndarray | None = simulation.gains(robots)[parameter == "damping"]
        elif parameter in _HELD and (model.is_implicit_model or not parameter.endswith("_sim")):
            if simulation.dof_property(_HELD[parameter], robots) is None:
                _log.warning("group '%s': %s holds no %s", name, type(simulation).__name__, _HELD[parameter])
                return
            values = np.where(np.isinf(values), simulation.no_limit, values)
            simulation.set_dof_property(_HELD[parameter], robots, columns, values)
            held = simulation.dof_property(_HELD[parameter], robots)
        else:
            return
        assert held is not None
        if not np.allclose(held[:, columns], values, rtol=1e-5):
            raise SimulationError(f"group '{name}': the engine holds another {parameter} than was written")

    def _on_pre_step(self, dt: float) -> None:
        self.articulation.simulation.refresh_targets()
        self._step()

    def step(self) -> None:
        """Compute all groups, and give the engine the efforts. Each step of physics does so too."""
        self._check_open()
        self.articulation.simulation.check_open()
        self.articulation.simulation.refresh()
        self._step()

    def _step(self) -> None:
        robots = self.articulation
        kinds = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")
        q, qd, target_q, target_qd = (robots.values(kind) for kind in kinds)
        given, unlimited = self._feedforward.copy(), self._feedforward.copy()
        for name, model in self.groups.items():
            at = self._columns[name]
            feedforward = self._feedforward[:, at]
            model.compute(ArticulationActions(target_q[:, at], target_qd[:, at], feedforward, at), q[:, at], qd[:, at])
            computed, effort = to_numpy(model.computed_effort), to_numpy(model.applied_effort)
            most = model.numbers("effort_limit_sim")
            if model.is_implicit_model:
                drive = computed - feedforward
                limited = np.clip(drive, -most, most)
                clipped = is_clipped(drive, limited)
                applied = np.where(clipped, limited + feedforward, computed)
                unlimited[:, at] = computed
            else:
                applied = given[:, at] = np.clip(effort, -most, most)
                clipped = is_clipped(computed, applied)
                unlimited[:, at] = effort
            self._computed[:, at], self._applied[:, at], self._clipped[:, at] = computed, applied, clipped
        self._check_finite(unlimited)  # before effort_limit_sim, which would turn infinity into a number
        if self._effort.device.is_cpu:
            self._effort.numpy()[:] = given
        else:
            self._effort.assign(given)
        self._write()

    def telemetry(self) -> Telemetry:
        """What the groups did in the last step.

        Of an explicit group, the applied effort is what the engine got. Of an implicit group the engine computes the
        effort itself: here it is the law of its drive, up to its limit, at the state before the step, and the
        feedforward beside it; within the step, the engine's own may change.
        """
        computed, applied, clipped = (values.copy() for values in (self._computed, self._applied, self._clipped))
        return Telemetry(self.articulation.dof_names, computed, applied, clipped)

    def set_dof_feedforward_effort_targets(
        self, values: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Set what is added to the efforts [N·m]: through the limits of explicit groups, as it is for implicit ones."""
        self._check_open()
        robots, dofs = self.articulation.places_to_write(indices, dof_indices)
        numbers = self.articulation.numbers("values", values, (len(robots), len(dofs)))
        self._feedforward[np.ix_(robots, dofs)] = numbers

    def _forget(self, rows: np.ndarray) -> None:
        for values in (self._computed, self._applied, self._clipped):
            values[rows] = 0
        for model in self.groups.values():
            model.reset(rows)

    def __getitem__(self, name: str) -> ActuatorBase:
        if name not in self.groups:
            raise ParameterError(f"there is no group '{name}'; {listed(name, self.groups, 'groups')}")
        return self.groups[name]

    def resolution_table(self) -> str:
        """Print, and return: per joint and parameter the asset's value, the config's, the one used, unit and source."""
        parts = [f"{name}: {type(model).__name__}\n{model._table_text()}" for name, model in self.groups.items()]
        if self.unassigned:
            parts.append(f"in no group: {', '.join(self.unassigned)}")
        text = "\n\n".join(parts)
        print(text)
        return text


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
