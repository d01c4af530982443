# SPDX-License-Identifier: Apache-2.0
"""From one description of each DOF to the actuators of all robots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.builder import ActuatorBuilder, config_of_class
from ..actuator.config import ActuatorConfig, Part, built
from ..actuator.newton_parts import check_lengths
from ..components.component import Component
from ..declare.config import Config
from ..errors import located
from ..sim import Articulation
from ..sim.robots import DofSet


def actuators_of_all(
    articulation: Articulation, configs: Mapping[int, ActuatorConfig], **options: Any
) -> list[Actuator]:
    """Give each DOF of all robots its actuator, and group them into as few as possible.

    Args:
        articulation: The robots.
        configs: By column of the DOF. Configs are the same for all robots; components have a value for each.
        options: Further arguments of `Actuator`.
    """
    builder = ActuatorBuilder()
    device, width = articulation.simulation.device, articulation.num_dofs
    robot_width = width if articulation.simulation.engine.steps_single_robots else None
    count = len(articulation)
    as_they_are = []
    for column, config in sorted(configs.items()):
        with located(f"DOF '{articulation.dof_names[column]}'"):
            if all(_is_described(part) for part in config.stages):
                for rows, own in _fanned_out(config, count):
                    builder.add(own, **_places(articulation.at, rows, column))
            else:
                places = _places(articulation.at, np.arange(count), column)
                at = {name: wp.array(x, dtype=wp.uint32, device=device) for name, x in places.items()}
                actuator = Actuator(
                    at["index"],
                    stages=[_stage(part, count) for part in config.stages],
                    pos_indices=at["pos_index"],
                    target_pos_indices=at["target_pos_index"],
                    effort_indices=at["effort_index"],
                    control_every=config.control_every,
                    **options,
                )
                as_they_are.append(actuator)
    return [*builder.finalize(device=device, robot_width=robot_width, **options), *as_they_are]


def _places(at: DofSet, rows: np.ndarray, column: int) -> dict[str, np.ndarray]:
    """Return where the DOF of some robots is in the simulation's arrays, each of shape (n,)."""
    return {
        "index": at.flat("joint_qd")[rows, column],
        "pos_index": at.flat("joint_q")[rows, column],
        "target_pos_index": at.flat("joint_target_q")[rows, column],
        "effort_index": rows * at.shape[1] + column,
    }


def _is_described(part: Part) -> bool:
    """Whether a part is a config, or a component that its parameters can make again."""
    return isinstance(part, Config) or _is_declared(part)


def _is_declared(part: Part) -> TypeGuard[Component]:
    if not isinstance(part, Component):
        return False
    if part.config is None or part.config.component is None:
        return bool(part.declared()) and type(part).__init__ is Component.__init__
    return type(part).__init__ is part.config.component.__init__


def _stage(part: Part, count: int) -> Component:
    """A stage for all robots: with values of its own, or the component as it is."""
    if isinstance(part, Config):
        return built(part)
    if not _is_declared(part):
        check_lengths(part, count)
        return built(part)
    part.check_fits(count)
    values = {name: value for name, value in part.arguments().items() if value is not None}
    made: Component = type(part).with_values(
        {name: value.numpy().copy() if isinstance(value, wp.array) else value for name, value in values.items()}
    )
    return made


def repeated(part: Component, count: int) -> Component:
    """Return a component with the values of another ``count`` times, or that one where it has none of its own."""
    if not _is_declared(part):
        return part
    values = {}
    for name, value in part.arguments().items():
        if value is not None:
            numbers = value.numpy().copy() if isinstance(value, wp.array) else value
            is_repeated = not part.declared()[name].shared and np.ndim(numbers) > 0
            values[name] = np.tile(numbers, count) if is_repeated else numbers
    made: Component = type(part).with_values(values)
    return made


def _fanned_out(actuator: ActuatorConfig, count: int) -> Iterator[tuple[np.ndarray, ActuatorConfig]]:
    """The actuator for all robots together, or for each robot where a part has one value for each."""
    if all(isinstance(part, Config) for part in actuator.stages):
        yield np.arange(count), actuator
        return
    columns = [_configs_of(part, count) if _is_declared(part) else [part] * count for part in actuator.stages]
    for i in range(count):
        yield np.array([i]), actuator.with_stages([configs[i] for configs in columns])


def _configs_of(part: Component, count: int) -> list[Config]:
    """The config of a component for each robot."""
    part.check_fits(count)
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, declared in part.declared().items():
        value = part.arguments()[name]
        if value is None:
            continue
        numbers = np.asarray(value.numpy() if isinstance(value, wp.array) else value)
        for i, row in enumerate(rows):
            if declared.shared:
                row[name] = tuple(numbers.tolist())
            else:
                row[name] = (numbers if numbers.ndim == 0 else numbers[i]).item()
    return [config_of_class(type(part), row) for row in rows]
