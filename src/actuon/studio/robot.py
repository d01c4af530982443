# SPDX-License-Identifier: Apache-2.0
"""A robot in the studio: simulation and actuators, with values that change while it runs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..actuator.actuator import Actuator
from ..actuator.config import EXPLICIT, IMPLICIT, ActuatorConfig
from ..attach.articulation_actuators import ArticulationActuators
from ..attach.telemetry import Telemetry
from ..charts import REAL
from ..components.component import Component
from ..declare.config import Config
from ..declare.registry import class_of
from ..errors import ActuonError, ParameterError, StructureError, listed, shown
from ..robot_source import RobotSource
from ..sim import Articulation
from .history import KEPT_SECONDS, History

OF_FILE = "as in the file"
MODES = (OF_FILE, EXPLICIT, IMPLICIT)


class StudioRobot:
    """A robot in its own simulation.

    Args:
        source: The robot.
        is_ideal: Remove limits and delay, but keep controllers and joint friction.
        configs: Actuators by name of the DOF. Default: those of the source.
        mode: Integration of efforts, one of `MODES`.
        colour: Colour of its curves.
    """

    def __init__(
        self,
        source: RobotSource,
        is_ideal: bool = False,
        configs: Mapping[str, ActuatorConfig] | None = None,
        mode: str = OF_FILE,
        colour: str = REAL,
    ):
        self.is_ideal, self.colour = is_ideal, colour
        self.name = "ideal" if is_ideal else source.title if source.actuators is None else source.actuators.name
        """Name in legends: that of the file with its motors, if one was named."""
        self.simulation = source.make()
        try:
            first = self.simulation.robots[0]
            self.articulation = Articulation(first.path, self.simulation)
            self.configs = dict(configs if configs is not None else source.configs(self.articulation))
            """Actuators by name of the DOF, with limits and delay also if the robot is ideal."""
            self.mode = mode
            self.actuators = self._attached(self.configs, mode)
        except BaseException:
            self.simulation.close()
            raise
        self.dof_names = self.articulation.dof_names
        self.slides = first.slides
        self.is_fixed_base = first.is_fixed_base
        self.home = self.articulation.get_dof_positions().numpy()[0].astype(np.float64)
        """Positions at the start [rad or m], shape (D,)."""
        self.history = History(round(KEPT_SECONDS / self.dt), len(self.dof_names))

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self.simulation.dt

    def _attached(self, configs: Mapping[str, ActuatorConfig], mode: str) -> ArticulationActuators:
        pairs = [(config.without_limits() if self.is_ideal else config, name) for name, config in configs.items()]
        return ArticulationActuators.from_actuators(
            self.articulation.paths,
            pairs,
            simulation=self.simulation,
            effort_mode=None if mode == OF_FILE else mode,
        )

    def step(self, targets: np.ndarray) -> Telemetry:
        """Step towards target positions [rad or m], shape (D,), and add the step to the history."""
        columns = self.actuators.actuated_dof_indices
        self.articulation.set_dof_position_targets(targets[columns], dof_indices=columns)
        self.simulation.step()
        telemetry = self.actuators.telemetry()
        self.history.add(self.simulation.time, self.articulation.values("joint_q")[0], targets, telemetry)
        return telemetry

    def reset(self) -> None:
        """Reset to the initial state, and clear the history."""
        self.simulation.reset()
        self.history.clear()

    def set_number(self, joints: Iterable[str], stage: int, name: str, value: Any) -> None:
        """Set a parameter of the actuators of some joints, from the next step on.

        Writes the value into the arrays of the running actuators. A delay longer than its buffer, or a change of
        armature, attaches the actuators again; they lose their state then.

        Args:
            joints: Names of the joints.
            stage: Index of the stage.
            name: Name of the parameter.
            value: New value.

        Raises:
            ParameterError: The value is out of range; nothing changes.
        """
        joints = list(joints)
        for joint in joints:
            if joint not in self.configs:
                raise ParameterError(
                    f"no joint '{joint}' with an actuator; {listed(str(joint), self.configs, 'joints')}"
                )
        changed = {joint: with_number(self.configs[joint], stage, name, value) for joint in joints}
        before = self._armatures()
        written = self._write_live(changed, stage, name) and self._armatures() == before
        if written:
            self.configs |= changed
        else:
            self.set_configs(changed)

    def set_configs(self, configs: Mapping[str, ActuatorConfig], mode: str | None = None) -> None:
        """Replace the actuators of some joints, and the mode of all, one of `MODES`; None keeps it."""
        configs, mode = self.configs | dict(configs), mode or self.mode
        self.actuators.close()
        try:
            self.actuators = self._attached(configs, mode)
        except ActuonError:
            self.actuators = self._attached(self.configs, self.mode)
            raise
        self.configs, self.mode = configs, mode

    def _write_live(self, changed: Mapping[str, ActuatorConfig], stage: int, name: str) -> bool:
        """Write values into the arrays of running actuators. Return False if that is impossible."""
        rows: dict[int, tuple[Component, list[int], list[Any]]] = {}
        for joint, config in changed.items():
            part = config.stages[stage]
            running = config.without_limits().stages if self.is_ideal else config.stages
            index = next((i for i, other in enumerate(running) if other is part), None)
            if index is None:
                continue
            found = self._component(joint, index)
            if found is None or not isinstance(part, Config) or type(found[0]) is not class_of(part):
                return False
            component, place = found
            _, places, values = rows.setdefault(id(component), (component, [], []))
            places.append(place)
            values.append(getattr(part, name))
        for component, places, values in rows.values():
            array = component.parameters().get(name)
            if array is None or None in values or name in component.SHARED_PARAMS:
                return False
            numbers = array.numpy().copy()
            numbers[places] = values
            try:
                setattr(component, name, numbers)
            except (ParameterError, StructureError):
                return False
        return True

    def _component(self, joint: str, stage: int) -> tuple[Component, int] | None:
        """Return the running stage of a joint, and the index of the joint in its arrays."""
        column = self.articulation.dof_names.index(joint)
        for actuator in self.actuators.actuators:
            at = np.flatnonzero(_columns(actuator) == column)
            if at.size and stage < len(actuator.stages):
                return actuator.stages[stage], int(at[0])
        return None

    def _armatures(self) -> list[list[float]]:
        """Return the armatures that the stages set in the engine."""
        stages = [stage for actuator in self.actuators.actuators for stage in actuator.stages]
        found = [stage.engine_armature() for stage in stages]
        return [armature.tolist() for armature in found if armature is not None]

    def close(self) -> None:
        """Close the simulation."""
        with contextlib.suppress(ActuonError):
            self.actuators.close()
        self.simulation.close()


def _columns(actuator: Actuator) -> np.ndarray:
    return actuator.effort_indices.numpy()


def with_number(config: ActuatorConfig, stage: int, name: str, value: Any) -> ActuatorConfig:
    """Return an actuator with another value of one parameter, after a check."""
    if isinstance(stage, bool) or not isinstance(stage, int) or not 0 <= stage < len(config.stages):
        raise ParameterError(f"stage: got {shown(stage)}; must be a whole number from 0 to {len(config.stages) - 1}")
    part = config.stages[stage]
    if not isinstance(part, Config):
        raise StructureError(f"stage {stage}: a {type(part).__name__} has no declared values to change")
    if name not in part.declared():
        known = listed(str(name), part.declared(), "parameters")
        raise ParameterError(f"stage {stage}: a {type(part).__name__} has no '{name}'; {known}")
    stages = list(config.stages)
    stages[stage] = dataclasses.replace(part, **{name: value})
    return config.with_stages(stages)
