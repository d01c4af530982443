# SPDX-License-Identifier: Apache-2.0
"""What all components share: declared parameters held as arrays, and the two ways in.

A component with a ``law`` is fused into the actuator's kernel. A component without one brings kernels of its own
through `Controller.compute` or `Clamping.modify_forces`; its actuator then runs stage by stage.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import warp as wp

from .. import arrays
from ..errors import ArrayError, ParameterError, StateError, StructureError
from ..fields import Config, Field
from ..pipeline import (
    CLAMPING_SIGNALS,
    CONTROLLER_SIGNALS,
    SIGNALS,
    Flavour,
    Program,
    Stage,
    Structure,
    program,
)
from .state import State

_LARGEST_DT = 3.0e38


@wp.func
def limit(x: float, low: float, high: float):
    """``x`` held between ``low`` and ``high``. NaN stays NaN, so that a broken state is not mistaken for a limit."""
    return wp.where(x < low, low, wp.where(x > high, high, x))


class _Parameter:
    """A declared parameter as an attribute: reads as an array, checks what is written to it."""

    def __init__(self, name: str, declared: Field):
        self.name = name
        self.declared = declared
        self.__doc__ = f"{declared.doc} [{declared.unit}]"

    def __get__(self, component: Component | None, owner: type | None = None) -> Any:
        return self if component is None else component._values[self.name]

    def __set__(self, component: Component, value: Any) -> None:
        component._write(self.name, self.declared, value)


class Component:
    """Base of everything an actuator is composed of."""

    config: ClassVar[type[Config] | None] = None
    """The scalar config that declares the parameters."""
    law: ClassVar[Any] = None
    """The equation, a ``@wp.func`` whose argument names say what it wants: signals, parameters, states."""
    STATES: ClassVar[tuple[str, ...]] = ()
    """Names of the per-DOF states that the law takes, and returns after the effort."""
    SHARED_PARAMS: ClassVar[frozenset[str] | set[str]] = frozenset()
    """Parameters that all DOFs of a group share."""
    requires_grad: bool = False
    """Whether parameters and states get gradients. Set by `Actuator`."""
    _own_kernel_method: ClassVar[str] = ""
    _signals: ClassVar[frozenset[str]] = CONTROLLER_SIGNALS
    _values: Any = MappingProxyType({})
    _num_actuators: int | None = None
    _revision: int = 0
    """Counts rebinding of parameter arrays, so that an actuator notices."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "config" in cls.__dict__ and cls.config is not None:
            cls.config.component = cls.config.component or cls
            for name, declared in cls.config.declared().items():
                if any(name in owner.__dict__ for owner in cls.__mro__ if getattr(owner, "config", None) is None):
                    raise StructureError(f"{cls.config.__name__}.{name}: the name is taken by a method of components")
                setattr(cls, name, _Parameter(name, declared))
            shared = {name for name, d in cls.config.declared().items() if d.shared}
            cls.SHARED_PARAMS = frozenset(shared | set(cls.__dict__.get("SHARED_PARAMS", ())))
            if "__init__" not in cls.__dict__:
                cls.__signature__ = _signature(cls.config)  # type: ignore[attr-defined]
        cls._check_law()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        declared = self.config.declared() if self.config is not None else {}
        try:
            bound = _signature(self.config).bind(*args, **kwargs)
        except TypeError as error:
            raise StructureError(
                f"{type(self).__name__}: {error}; parameters: {', '.join(declared) or 'none'}"
            ) from error
        bound.apply_defaults()
        self._values = dict.fromkeys(declared)
        self._owned: set[str] = set()
        for name, value in bound.arguments.items():
            setattr(self, name, value)
        self._check_together(self._values)

    def _write(self, name: str, declared: Field, value: Any) -> None:
        """Check ``value`` and take it: a device array is shared; numbers are copied, into an array of our own."""
        where = f"{type(self).__name__}.{name}"
        if self._num_actuators is not None and self._device.is_capturing:
            raise StructureError(
                f"{where}: cannot be assigned while a graph is being captured; assign it before, or between replays, "
                "which read the array anew"
            )
        if value is None:
            if not declared.optional:
                raise ParameterError(f"{where}: got None; must be {declared.range}")
        elif _is_device_array(value):
            value = arrays.share(value, where, wp.int32 if declared.integer else wp.float32)
            if value.ndim != 1:
                raise ArrayError(f"{where}: got shape {value.shape}; must be 1-D, one value per DOF")
            declared.check(where, value.numpy())
        else:
            declared.check(where, value)
            with np.errstate(over="ignore"):
                value = np.asarray(value).astype(np.int32 if declared.integer else np.float32)
            if value.ndim > 1:
                raise ArrayError(f"{where}: got shape {value.shape}; must be a number, or 1-D with one value per DOF")
        existing = self._values[name]
        is_plain = isinstance(value, np.ndarray)
        if self._num_actuators is not None:
            value = self._place(name, declared, value, self._device, self._num_actuators)
            self._check_together(self._values | {name: value})
            if is_plain and name in self._owned and existing.shape == value.shape:
                wp.copy(existing, value)
                return
        self._values[name] = value
        self._owned = self._owned | {name} if is_plain else self._owned - {name}
        self._revision += 1

    def _place(self, name: str, declared: Field, value: Any, device: wp.Device, num_actuators: int) -> Any:
        """Bring a checked value onto the device, with one entry per DOF unless it is shared."""
        if value is None:
            return None
        if isinstance(value, np.ndarray):
            value = wp.array(np.full(num_actuators, value) if value.ndim == 0 else value, device=device)
        where = f"{type(self).__name__}.{name}"
        length = None if declared.shared else num_actuators
        placed = arrays.flat(value, where, device, dtype=value.dtype, length=length)
        if self.requires_grad and not declared.integer:
            placed.requires_grad = True
        return placed

    def _check_together(self, values: Mapping[str, Any]) -> None:
        if self.config is None:
            return
        numbers = {n: v.numpy() if isinstance(v, wp.array) else v for n, v in values.items()}
        declared = self.config.declared()
        lengths = {n: len(v) for n, v in numbers.items() if np.ndim(v) == 1 and not declared[n].shared}
        if len(set(lengths.values())) > 1:
            got = ", ".join(f"{count} for {name}" for name, count in lengths.items())
            raise ArrayError(f"{type(self).__name__}: got {got}; must be as many, one per DOF")
        self.config.check_together(type(self).__name__, numbers)

    @classmethod
    def resolve_arguments(cls, args: Mapping[str, Any]) -> dict[str, Any]:
        """Fill in what ``args`` leaves out, check the values, and return them all as plain scalars.

        Args:
            args: Scalar parameters by name, as a file or a builder gives them.
        """
        if cls.config is None:
            raise StructureError(f"{cls.__name__} has no config: implement resolve_arguments(args)")
        declared = cls.config.declared()
        unknown = [name for name in args if name not in declared]
        if unknown:
            raise ParameterError(
                f"{cls.__name__}: unknown parameter {unknown[0]!r}; parameters: {', '.join(declared) or 'none'}"
            )
        complete = {name: d.fallback if args.get(name) is None else args[name] for name, d in declared.items()}
        missing = [name for name, value in complete.items() if value is None]
        if missing:
            raise ParameterError(f"{cls.__name__}: needs '{missing[0]}' {declared[missing[0]].range}")
        return dataclasses.asdict(cls.config(**complete))

    def finalize(self, device: wp.Device, num_actuators: int) -> None:
        """Bring the parameters onto ``device``, one value per DOF. Called by `Actuator`.

        Args:
            device: Where the actuator runs.
            num_actuators: Number of DOFs, N.
        """
        device = wp.get_device(device)
        if self.config is not None:
            if not self._values and self.config.declared():
                raise StructureError(f"{type(self).__name__}.__init__ must call super().__init__() with the parameters")
            places = self.config.declared().items()
            self._values = {n: self._place(n, d, self._values[n], device, num_actuators) for n, d in places}
        self._device, self._num_actuators = device, num_actuators
        self._revision += 1

    def check_fits(self, num_actuators: int) -> None:
        """Refuse parameters for another number of DOFs, before anything is changed."""
        for name, value in self._values.items():
            shared = self.config is not None and self.config.declared()[name].shared
            if shared or value is None or value.ndim == 0 or len(value) == num_actuators:
                continue
            where = f"{type(self).__name__}.{name}"
            hint = ""
            if self._num_actuators is not None:
                hint = f": it belongs to an actuator of {self._num_actuators} DOFs already, make another component"
            raise ArrayError(f"{where}: got {len(value)} values; must have {num_actuators}, one per DOF{hint}")

    def parameters(self) -> dict[str, wp.array]:
        """The parameter arrays by name; those left out are not in it."""
        return {name: value for name, value in self._values.items() if isinstance(value, wp.array)}

    def arguments(self) -> dict[str, Any]:
        """What a kernel gets of the component, by name; None for a parameter that is left out."""
        return {name: self._values[name] for name in self.config.declared()} if self.config is not None else {}

    def is_fused(self) -> bool:
        """Whether the component runs inside the actuator's one kernel: it has a law, and no kernel that replaces it."""
        for owner in type(self).__mro__:
            if owner.__dict__.get("law") is not None:
                return True
            if self._own_kernel_method in owner.__dict__:
                return False
        return False

    @classmethod
    def _check_law(cls) -> None:
        """Refuse a law that asks for what the chain cannot supply, when the class is defined."""
        if cls.law is not None:
            for _ in cls._stage("law").arguments():
                pass

    @classmethod
    def _stage(cls, name: str) -> Stage:
        declared = cls.config.declared() if cls.config is not None else {}
        return Stage(
            name=name,
            law=cls.law,
            params=tuple(n for n, d in declared.items() if not d.shared),
            integers=frozenset(n for n, d in declared.items() if d.integer),
            tables=tuple(n for n, d in declared.items() if d.shared),
            states=cls.STATES,
            signals=cls._signals,
        )

    @classmethod
    def uses_dt(cls) -> bool:
        """Whether the law asks for the time step."""
        return cls.law is not None and "dt" in cls.law.input_types

    def is_graphable(self) -> bool:
        """Whether a step can be captured in a graph."""
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in self._values.items())})"

    def _finalize_if_needed(self, device: Any, num_actuators: int) -> wp.Device:
        """Make a component usable on its own, outside an actuator."""
        device = wp.get_device(device)
        if self._num_actuators != num_actuators:
            self.finalize(device, num_actuators)
        return device


class Controller(Component):
    """Base of controllers: command and joint state in, raw effort out.

    Give a subclass a ``config`` and a ``law`` and it is fused. To launch kernels of its own instead, override
    `compute`, `resolve_arguments`, `is_stateful` and `is_graphable`, and where it is stateful also `State`, `state` and
    `update_state`.
    """

    State = State
    _own_kernel_method = "compute"
    _pending: Any = None

    def is_stateful(self) -> bool:
        """Whether the controller keeps a state from one step to the next."""
        return bool(self.STATES)

    def check_dt(self, dt: float | None) -> float | None:
        """Return the time step of a step [s], or refuse it."""
        if not self.uses_dt():
            return dt
        if dt is None:
            raise StateError(f"{type(self).__name__} integrates over time: step() needs dt")
        if not isinstance(dt, (int, float, np.number)) or not 0.0 <= dt <= _LARGEST_DT:
            raise StateError(f"dt: got {dt!r}; must be a finite number ≥ 0 [s]")
        return float(dt)

    def state(self, num_actuators: int, device: Any) -> Any:
        """Return a new state for ``num_actuators`` DOFs, or None where there is none."""
        return State(wp.get_device(device), num_actuators, self.STATES, self.requires_grad) if self.STATES else None

    def compute(
        self,
        positions: Any,
        velocities: Any,
        target_pos: Any,
        target_vel: Any,
        feedforward: Any,
        pos_indices: wp.array,
        vel_indices: wp.array,
        target_pos_indices: wp.array,
        target_vel_indices: wp.array,
        forces: wp.array,
        state: Any,
        dt: float | None,
        device: Any = None,
    ) -> None:
        """Compute the effort of each DOF into ``forces``, without touching ``state``.

        Args:
            positions: Joint positions [rad or m], read at ``pos_indices``.
            velocities: Joint velocities [rad/s or m/s], read at ``vel_indices``.
            target_pos: Target positions [rad or m], read at ``target_pos_indices``.
            target_vel: Target velocities [rad/s or m/s], read at ``target_vel_indices``.
            feedforward: Feedforward efforts [N·m or N], read at ``target_vel_indices``; may be None.
            pos_indices: Indices, shape (N,).
            vel_indices: Indices, shape (N,).
            target_pos_indices: Indices, shape (N,).
            target_vel_indices: Indices, shape (N,).
            forces: Efforts [N·m or N], shape (N,), written.
            state: State of the controller; None where it has none.
            dt: Time step [s].
            device: Where to run.
        """
        if self.law is None:
            raise StructureError(f"{type(self).__name__} has neither a law nor a compute() of its own")
        num_actuators = forces.shape[0]
        device = self._finalize_if_needed(device, num_actuators)
        signals = dict(
            zip(SIGNALS, (positions, velocities, target_pos, target_vel, feedforward), strict=True),
            pos_indices=pos_indices,
            vel_indices=vel_indices,
            target_pos_indices=target_pos_indices,
            target_vel_indices=target_vel_indices,
            dt=dt,
        )
        stage = self._stage("controller")
        if self.STATES and state is None:
            raise StateError(f"{type(self).__name__} is stateful: compute() needs its state")
        signals["dt"] = self.check_dt(dt)
        pending = self.state(num_actuators, device)
        for side, held in (("in", state), ("out", pending)):
            signals |= {f"controller_{name}_{side}": getattr(held, name).flatten() for name in self.STATES}
        self._pending = pending
        forces.zero_()
        _launch_alone(self, Structure((stage,), flavour=_stage_flavour(forces)), signals, forces, device)

    def update_state(self, current_state: Any, next_state: Any) -> None:
        """Move what the last `compute` found into ``next_state``."""
        if self.STATES:
            if self._pending is None:
                raise StateError(f"{type(self).__name__}: update_state() without a compute() before")
            next_state.assign(self._pending)


class Clamping(Component):
    """Base of clamps: effort in, effort that the motor can give out.

    Give a subclass a ``config`` and a ``law`` and it is fused. To launch kernels of its own instead, override
    `modify_forces` and `resolve_arguments`.
    """

    _own_kernel_method = "modify_forces"
    _signals = CLAMPING_SIGNALS

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.STATES:
            raise StructureError(f"{cls.__name__}.STATES: clamps are stateless; only a controller may have states")

    def modify_forces(
        self,
        src_forces: wp.array,
        dst_forces: wp.array,
        positions: Any,
        velocities: Any,
        pos_indices: wp.array,
        vel_indices: wp.array,
        device: Any = None,
    ) -> None:
        """Clamp the effort of each DOF from ``src_forces`` into ``dst_forces``, which may be the same array.

        Args:
            src_forces: Efforts to clamp [N·m or N], shape (N,).
            dst_forces: Clamped efforts [N·m or N], shape (N,), written.
            positions: Joint positions [rad or m], read at ``pos_indices``.
            velocities: Joint velocities [rad/s or m/s], read at ``vel_indices``.
            pos_indices: Indices, shape (N,).
            vel_indices: Indices, shape (N,).
            device: Where to run.
        """
        if self.law is None:
            raise StructureError(f"{type(self).__name__} has neither a law nor a modify_forces() of its own")
        device = self._finalize_if_needed(device, src_forces.shape[0])
        given = {
            "q": positions,
            "qd": velocities,
            "pos_indices": pos_indices,
            "vel_indices": vel_indices,
            "given_effort": src_forces,
        }
        structure = Structure((self._stage("clamping"),), flavour=_stage_flavour(dst_forces), effort_given=True)
        if src_forces.ptr == dst_forces.ptr:
            given["given_effort"] = wp.clone(src_forces)
        dst_forces.zero_()
        _launch_alone(self, structure, given, dst_forces, device)


def _is_device_array(value: Any) -> bool:
    """Whether ``value`` is an array to share, and not a number or NumPy data to copy."""
    if isinstance(value, wp.array):
        return True
    plain = isinstance(value, (np.ndarray, np.generic))
    return not plain and hasattr(value, "__dlpack__") and getattr(value, "ndim", None) != 0


def _shown(value: Any) -> str:
    """A parameter in few words: one number where all DOFs have the same."""
    if value is None:
        return "None"
    numbers = np.atleast_1d(value.numpy() if isinstance(value, wp.array) else value)
    if numbers.size and (numbers == numbers.flat[0]).all():
        return str(numbers.flat[0])
    few = ", ".join(map(str, numbers[:3]))
    return f"[{few}]" if numbers.size <= 3 else f"[{few}, … {numbers.size} values]"


def _stage_flavour(forces: wp.array) -> Flavour:
    return Flavour.GRAD if forces.requires_grad else Flavour.SCALAR


def _launch_alone(
    component: Component, structure: Structure, given: dict[str, Any], forces: wp.array, device: wp.Device
) -> None:
    """Run a one-component chain, adding its effort to ``forces``."""
    built: Program = program(structure)
    stage = structure.stages[0]
    values = {f"{stage.name}_{name}": value for name, value in component.arguments().items()}
    values |= given | {"n": forces.shape[0], "first": 0, "output": forces}
    inputs = [values.get(name, 0 if name.endswith("_offset") else None) for name in built.arguments]
    wp.launch(built.kernel, forces.shape[0], inputs, device=device)


def _signature(config: type[Config] | None) -> inspect.Signature:
    parameters = []
    for field in dataclasses.fields(config) if config is not None else ():
        declared = config.declared()[field.name]  # type: ignore[union-attr]
        default = None if declared.optional else field.default
        if default is dataclasses.MISSING:
            default = inspect.Parameter.empty
        parameters.append(inspect.Parameter(field.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return inspect.Signature(parameters)
