# SPDX-License-Identifier: Apache-2.0
"""`ActuatorBuilder`: describes joints one by one and builds as few actuators as possible."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ..components.component import Component
from ..components.delay import Delay
from ..components.kinds import Clamping, Controller
from ..declare.config import Config
from ..declare.registry import ClassConfig, ComponentKind, class_of
from ..errors import ParameterError, StructureError, located
from ..typing import DeviceLike
from .actuator import Actuator
from .config import ActuatorConfig, configs_of

_LARGEST_INDEX = 2**31 - 1


@dataclass
class _Entry:
    """A joint and its copies."""

    indices: dict[str, np.ndarray]
    """``index``, ``pos_index``, ``target_pos_index`` and ``effort_index`` of each copy."""
    control_every: int
    classes: tuple[type[Component], ...]
    """The class of each stage."""
    arguments: tuple[dict[str, Any], ...]
    """The parameters of each stage."""

    def group(self) -> Hashable:
        """Return the key of joints that can share an actuator: control decimation, classes in order, names of
        parameters, and values of shared parameters."""
        return self.control_every, *(
            (
                cls,
                tuple(
                    (name, _hashable(value) if name in cls.SHARED_PARAMS else None) for name, value in arguments.items()
                ),
            )
            for cls, arguments in zip(self.classes, self.arguments, strict=True)
        )

    def where(self, mask: np.ndarray) -> _Entry:
        """Return the copies where ``mask`` is true."""
        return dataclasses.replace(self, indices={name: at[mask] for name, at in self.indices.items()})


class ActuatorBuilder:
    """Collects joints with scalar parameters and builds actuators with array parameters.

    Joints with the same component classes, in the same order, become one actuator, whatever their values. Joints with
    and without a delay become two; delays of different length do not. A network file is read once.

    Examples:
        >>> builder = actuon.ActuatorBuilder()
        >>> for index, kp in enumerate([40.0, 60.0]):
        ...     builder.add(actuon.ActuatorConfig(actuon.PDControlConfig(kp, kd=1.0)), index)
        >>> (actuator,) = builder.finalize()
        >>> actuator.controller.kp.numpy()
        array([40., 60.], dtype=float32)
    """

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def __len__(self) -> int:
        return sum(entry.indices["index"].size for entry in self._entries)

    def add(
        self,
        config: ActuatorConfig,
        index: int | np.ndarray,
        *,
        pos_index: int | np.ndarray | None = None,
        target_pos_index: int | np.ndarray | None = None,
        effort_index: int | np.ndarray | None = None,
    ) -> None:
        """Add the actuator of one joint, or of the same joint in many robots.

        Args:
            config: Stages of the actuator, each a config of numbers.
            index: DOF index, or an array with one for each robot. The other indices likewise.
            pos_index: Coordinate index. Default: ``index``.
            target_pos_index: Index of the target position. Default: ``pos_index``.
            effort_index: Index of the output. Default: ``index``.

        Examples:
            >>> builder, pd = actuon.ActuatorBuilder(), actuon.PDControlConfig(40.0, kd=1.0)
            >>> builder.add(actuon.ActuatorConfig(pd), np.array([0, 6]))  # one joint of two robots
            >>> len(builder)
            2
        """
        where = _place(index)
        indices = {"index": _whole_numbers(where, "index", index)}
        for name, given, default in (
            ("pos_index", pos_index, "index"),
            ("target_pos_index", target_pos_index, "pos_index"),
            ("effort_index", effort_index, "index"),
        ):
            indices[name] = indices[default] if given is None else _whole_numbers(where, name, given)
            if indices[name].size != indices["index"].size:
                raise ParameterError(
                    f"{where}: {name}: got {indices[name].size} values; must be {indices['index'].size}, one per index"
                )
        if not isinstance(config, ActuatorConfig):
            raise StructureError(f"{where}: got {type(config).__name__}; must be an ActuatorConfig")
        with located(where):
            stages = configs_of(config.frozen_stages(), "a builder accepts configs of numbers")
            classes = tuple(class_of(part) for part in stages)
        self._entries.append(_Entry(indices, config.control_every, classes, tuple(part.arguments() for part in stages)))

    def add_actuator(
        self,
        controller_class: type[Controller],
        index: int | np.ndarray,
        *,
        clamping: Sequence[tuple[type[Clamping], Mapping[str, object]]] | None = (),
        delay_steps: int | None = None,
        pos_index: int | np.ndarray | None = None,
        target_pos_index: int | np.ndarray | None = None,
        effort_index: int | np.ndarray | None = None,
        **controller_kwargs: object,
    ) -> None:
        """Add controller, clamps and delay by their classes, as Newton's builder does.

        Args:
            controller_class: Class of the controller.
            index: DOF index, or an array of them, as for `add`. The other indices likewise.
            clamping: Clamps in order, each as a class and its scalar parameters.
            delay_steps: Delay of the commands [steps]. None means no delay.
            pos_index: Coordinate index. Default: ``index``.
            target_pos_index: Index of the target position. Default: ``pos_index``.
            effort_index: Index of the output. Default: ``index``.
            controller_kwargs: Scalar parameters of the controller. Default: those of files.

        Examples:
            >>> builder = actuon.ActuatorBuilder()
            >>> limit = (actuon.ClampingMaxEffort, {"max_effort": 25.0})
            >>> builder.add_actuator(actuon.ControllerPD, 0, clamping=[limit], kp=40.0, kd=1.0)
        """
        config = config_of_classes(_place(index), controller_class, clamping, delay_steps, controller_kwargs)
        places = {"pos_index": pos_index, "target_pos_index": target_pos_index, "effort_index": effort_index}
        self.add(config, index, **places)

    def replicate(self, count: int, dof_stride: int, coord_stride: int | None = None) -> None:
        """Repeat all joints added so far for ``count`` robots.

        Args:
            count: Number of robots, the first included.
            dof_stride: DOFs from one robot to the next.
            coord_stride: Coordinates from one robot to the next. Default: ``dof_stride``.

        Examples:
            >>> builder = actuon.ActuatorBuilder()
            >>> builder.add(actuon.ActuatorConfig(actuon.PDControlConfig(40.0, kd=1.0)), index=0)
            >>> builder.replicate(3, dof_stride=6)
            >>> builder.finalize()[0].indices.numpy().tolist()
            [0, 6, 12]
        """
        count = _whole_number("replicate", "count", count)
        dof_stride = _whole_number("replicate", "dof_stride", dof_stride)
        coord_stride = dof_stride if coord_stride is None else _whole_number("replicate", "coord_stride", coord_stride)
        if count < 1:
            raise ParameterError(f"replicate: count: got {count}; must be ≥ 1")
        strides = dict.fromkeys(("index", "effort_index"), dof_stride)
        strides |= dict.fromkeys(("pos_index", "target_pos_index"), coord_stride)
        for name, stride in strides.items():
            largest = max((int(entry.indices[name].max()) for entry in self._entries), default=0) + (count - 1) * stride
            if largest > _LARGEST_INDEX:
                raise ParameterError(f"replicate: {name} would reach {largest}; must be at most {_LARGEST_INDEX}")
        copies = np.arange(count)[:, None]
        for entry in self._entries:
            entry.indices = {name: (copies * strides[name] + at).ravel() for name, at in entry.indices.items()}

    def finalize(
        self,
        device: DeviceLike = None,
        requires_grad: bool = False,
        *,
        robot_width: int | None = None,
        actuator_class: type[Actuator] = Actuator,
        **options: Any,
    ) -> list[Actuator]:
        """Build the actuators, in the order in which their first joints were added.

        Args:
            device: Device that runs them. Default: Warp's current device.
            requires_grad: Let a `wp.Tape` differentiate through steps.
            robot_width: Number of efforts of one robot in the output. With it, each actuator gets ``robot_dofs``, and
                robots that differ in their stages get separate actuators.
            actuator_class: Class of the actuators.
            options: Further arguments of `Actuator`, such as ``control_computed_output_attr``.

        Examples:
            >>> builder = actuon.ActuatorBuilder()
            >>> builder.add(actuon.ActuatorConfig(actuon.PDControlConfig(40.0, kd=1.0)), index=0)
            >>> (actuator,) = builder.finalize(accumulate=False)
            >>> actuator.num_actuators
            1
        """
        groups: dict[Hashable, list[_Entry]] = {}
        for entry in self._entries:
            groups.setdefault(entry.group(), []).append(entry)
        device = wp.get_device(device)
        options |= {"requires_grad": requires_grad, "actuator_class": actuator_class}
        if robot_width is None:
            return [_build(entries, device, **options) for entries in groups.values()]
        return [
            _build(own, device, robot_dofs=count, **options)
            for entries in groups.values()
            for count, own in _by_robot(entries, robot_width)
        ]


def _by_robot(entries: list[_Entry], width: int) -> Iterator[tuple[int, list[_Entry]]]:
    """Yield the number of DOFs of a robot and the entries, for each set of robots with the same joints."""
    at = np.sort(np.concatenate([entry.indices["effort_index"] for entry in entries]))
    robots, starts = np.unique(at // width, return_index=True)
    columns = np.split(at % width, starts[1:])
    kinds: dict[bytes, list[int]] = {}
    for robot, own in zip(robots.tolist(), columns, strict=True):
        kinds.setdefault(own.tobytes(), []).append(robot)
    for kind, chosen in kinds.items():
        count = len(kind) // at.itemsize
        if len(kinds) == 1:
            yield count, entries
        else:
            parts = [entry.where(np.isin(entry.indices["effort_index"] // width, chosen)) for entry in entries]
            yield count, [entry for entry in parts if entry.indices["index"].size]


def _build(entries: list[_Entry], device: wp.Device, actuator_class: type[Actuator], **options: Any) -> Actuator:
    """Build one actuator of entries, with DOFs in rising order so that a kernel reads memory in one direction."""
    indices = {name: np.concatenate([entry.indices[name] for entry in entries]) for name in entries[0].indices}
    order = np.argsort(indices["index"], kind="stable")
    sizes = [entry.indices["index"].size for entry in entries]

    stages = []
    for position, cls in enumerate(entries[0].classes):
        declared = cls.declared()
        columns: dict[str, Any] = {}
        for name, value in entries[0].arguments[position].items():
            columns[name] = value
            if name not in cls.SHARED_PARAMS:
                dtype = np.int32 if name in declared and declared[name].integer else np.float32
                numbers = np.array([entry.arguments[position][name] for entry in entries], dtype)
                columns[name] = np.repeat(numbers, sizes)[order]
                if name not in declared:  # a class of Newton, which takes arrays on its device
                    columns[name] = wp.array(columns[name], device=device)
        stages.append(cls.with_values(columns))
    on_device = {name: wp.array(at[order].astype(np.uint32), device=device) for name, at in indices.items()}
    return actuator_class(
        on_device["index"],
        stages=stages,
        pos_indices=on_device["pos_index"],
        target_pos_indices=on_device["target_pos_index"],
        effort_indices=on_device["effort_index"],
        control_every=entries[0].control_every,
        **options,
    )


def config_of_classes(
    where: str,
    controller_class: type[Controller],
    clamping: Sequence[tuple[type[Clamping], Mapping[str, object]]] | None,
    delay_steps: int | None,
    controller_kwargs: Mapping[str, object],
) -> ActuatorConfig:
    """Return the config of the arguments of `ActuatorBuilder.add_actuator`."""
    controller = _config(where, ComponentKind.CONTROLLER, controller_class, controller_kwargs)
    clamps = []
    for pair in clamping or ():
        if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[1], Mapping):
            raise StructureError(f"{where}: clamping: got {pair!r}; must be pairs of a class and a dict of parameters")
        clamps.append(_config(where, ComponentKind.CLAMPING, *pair))
    delay = None
    if delay_steps is not None:
        delay = _config(where, ComponentKind.DELAY, Delay, {"delay_steps": delay_steps})
    return ActuatorConfig(controller, clamps, delay)


def _config(where: str, kind: ComponentKind, cls: object, args: Mapping[str, object]) -> Config:
    if not isinstance(cls, type) or getattr(cls, "kind", None) is not kind:
        raise StructureError(f"{where}: got {cls!r}; must be a subclass of {kind.base_name}")
    with located(where):
        return config_of_class(cls, args)


def config_of_class(cls: type[Component], args: Mapping[str, object]) -> Config:
    """Return the config of a component class with these scalar parameters. Others get the default of files."""
    values = cls.resolve_arguments(args)
    has_own = cls.config is not None and cls.config.component is cls
    return cls.config(**values) if has_own else ClassConfig(cls, values)  # type: ignore[misc]


def _place(index: int | np.ndarray) -> str:
    return f"DOF {np.ravel(index)[0] if np.size(index) else 'none'}"


def _whole_number(where: str, name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value <= _LARGEST_INDEX:
        raise ParameterError(f"{where}: {name}: got {value!r}; must be a whole number from 0 to {_LARGEST_INDEX}")
    return int(value)


def _whole_numbers(where: str, name: str, value: object) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        return np.array([_whole_number(where, name, value)])
    if value.ndim != 1 or value.dtype.kind not in "iu" or not value.size:
        raise ParameterError(f"{where}: {name}: got {value!r}; must be a whole number, or an array of them")
    for bound in (value.min(), value.max()):
        _whole_number(where, name, bound)
    return value.astype(np.int64)


def _hashable(value: object) -> Hashable:
    return tuple(np.ravel(value).tolist()) if isinstance(value, (list, np.ndarray)) else value
