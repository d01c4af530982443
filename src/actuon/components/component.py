# SPDX-License-Identifier: Apache-2.0
"""What all components share: declared parameters held as arrays, states, a law, and a kernel of their own.

A component with a ``law`` is fused into the actuator's kernel. A component without one brings kernels of its own (see
`Component.run`); its actuator then runs stage by stage.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import warp as wp

from .. import arrays
from ..declare.attribute import ParameterAttribute
from ..declare.config import Config
from ..declare.parameter import Field
from ..declare.registry import ComponentKind, register_actuator_component, snake_case
from ..errors import ArrayError, ParameterError, StateError, StructureError
from ..kernel.alone import Given, run_alone
from ..kernel.structure import Stage, without
from ..typing import DeviceLike
from .describing import is_device_array, shown, signature as call_signature
from .state import State

_LARGEST_DT = 3.0e38


@wp.func
def limit(x: float, low: float, high: float):
    """``x`` held between ``low`` and ``high``. NaN stays NaN, so that a broken state is not mistaken for a limit."""
    return wp.where(x < low, low, wp.where(x > high, high, x))


@contextlib.contextmanager
def unchanged_on_failure(components: Iterable[Component]) -> Iterator[None]:
    """Give components their attributes back where the block raises."""
    before = [(component, dict(vars(component))) for component in components]
    try:
        yield
    except BaseException:
        for component, attributes in before:
            vars(component).clear()
            vars(component).update(attributes)
        raise


class Component:
    """Base of everything an actuator is composed of: one stage of its chain."""

    kind: ClassVar[ComponentKind | None] = None
    """The place in the chain, set by the base of each kind."""
    config: ClassVar[type[Config] | None] = None
    """The scalar config that declares the parameters. Where it names a ``schema``, robot files may carry it."""
    law: ClassVar[Any] = None
    """The equation, a ``@wp.func`` whose argument names say what it wants: signals, ``dt``, parameters, states."""
    STATES: ClassVar[tuple[str, ...] | Mapping[str, float | str]] = ()
    """Names of the per-DOF states that the law takes, and returns last; or their values after a reset by name, each a
    number or the name of a parameter. Without one it is zero."""
    ADDED_STATES: ClassVar[frozenset[str]] = frozenset()
    """Those of `STATES` that older files of states may lack; they are then as after a reset."""
    OUTPUTS: ClassVar[tuple[str, ...]] = ()
    """Signals that the law returns after those of its kind, for later stages and for telemetry."""
    OPTIONAL_SIGNALS: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """Signals that the laws can do without: what they are in a chain where nothing before gives them."""
    OPTIONAL_INPUTS: ClassVar[tuple[str, ...]] = ()
    """Arrays of the simulation's control, one number for each velocity, that the law reads where they are there: it
    takes each as ``custom_`` and its name, and sees zero without."""
    closing_law: ClassVar[Any] = None
    """A ``@wp.func`` of the same parameters that is run after the last stage, in reverse order of the stages: the way
    back through a transmission, or what is known only then, such as the heat of the current. It may ask for signals of
    all stages, and for ``q`` and ``qd`` as the law did. Returns ``effort``, `CLOSING_OUTPUTS`, `CLOSING_STATES`."""
    CLOSING_OUTPUTS: ClassVar[tuple[str, ...]] = ()
    """Signals that the closing law returns after the effort."""
    CLOSING_STATES: ClassVar[tuple[str, ...]] = ()
    """Those of `STATES` whose new values the closing law returns, and not the law; both may take them."""
    SHARED_PARAMS: ClassVar[frozenset[str] | set[str]] = frozenset()
    """Parameters that all DOFs of a group share."""
    requires_grad: bool = False
    """Whether parameters and states get gradients. Set by `Actuator`."""
    in_engine: bool = False
    """Whether an engine solves dry friction, and is to get what stages offer of it. Set by `Actuator`."""
    is_apart: bool = False
    """Whether a transmission without a ``gear_ratio``, such as a spring, is before it. Set by `Actuator`."""

    State = State
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the parameters that a config declares

    _returns: ClassVar[tuple[str, ...]] = ("effort",)
    """The signals that a law of this kind returns first."""
    _sees_sensed: ClassVar[bool] = False
    """Whether a law of this kind gets positions and velocities as sensors give them."""
    _own_kernel_methods: ClassVar[tuple[str, ...]] = ("run", "run_closing")
    _values: Any = MappingProxyType({})
    _num_actuators: int | None = None
    _revision: int = 0
    """Counts rebinding of parameter arrays, so that an actuator notices."""
    _listeners: tuple[Callable[[], None], ...] = ()
    """Functions that are called when a parameter was written."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "config" in cls.__dict__ and cls.config is not None:
            cls.config.component = cls.config.__dict__.get("component") or cls  # not that of the config it extends
            for name, declared in cls.config.declared().items():
                if any(name in owner.__dict__ for owner in cls.__mro__ if getattr(owner, "config", None) is None):
                    raise StructureError(f"{cls.config.__name__}.{name}: the name is taken by a method of components")
                setattr(cls, name, ParameterAttribute(name, declared))
            shared = {name for name, d in cls.config.declared().items() if d.shared}
            cls.SHARED_PARAMS = frozenset(shared | set(cls.__dict__.get("SHARED_PARAMS", ())))
            if "__init__" not in cls.__dict__:
                cls.__signature__ = call_signature(cls.config)  # type: ignore[attr-defined]
        cls._check_declaration()
        schema = cls.config.schema if "config" in cls.__dict__ and cls.config is not None else None
        if schema is not None and cls.kind is not None and cls.config.component is cls:  # type: ignore[union-attr]
            register_actuator_component(schema, cls, cls.kind)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        signature = inspect.signature(cls)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            names = ", ".join(signature.parameters) or "none"
            raise StructureError(f"{cls.__name__}: {error}; parameters: {names}") from error
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = call_signature(self.config).bind(*args, **kwargs)
        bound.apply_defaults()
        self._values = dict.fromkeys(self.config.declared() if self.config is not None else ())
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
                "which read the array again"
            )
        if value is None:
            if not declared.optional:
                raise ParameterError(f"{where}: got None; must be {declared.range}")
        elif is_device_array(value):
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
            self.check_memory(self._values | {name: value}, None)
            if is_plain and name in self._owned and existing.shape == value.shape:
                wp.copy(existing, value)
                return
        self._values[name] = value
        self._owned = self._owned | {name} if is_plain else self._owned - {name}
        self._revision += 1

    def write_together(self, values: Mapping[str, np.ndarray]) -> None:
        """Write parameters whose values were checked, each and together, into their arrays."""
        for name, numbers in values.items():
            self._values[name].assign(numbers)
        self._has_written()

    def _has_written(self) -> None:
        """Bring up to date what follows from parameters, after some were written."""
        for listener in self._listeners:
            listener()

    def on_write(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` whenever a parameter was written. Returns a function that ends this.

        Numbers that are written into a parameter's array in place are not noticed.
        """
        self._listeners = (*self._listeners, listener)

        def end() -> None:
            self._listeners = tuple(each for each in self._listeners if each != listener)

        return end

    def check_memory(self, values: Mapping[str, Any], dt: float | None) -> None:
        """Refuse parameters that there is no memory for at steps of ``dt`` [s]; None for the shortest it takes."""

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
            raise ArrayError(f"{type(self).__name__}: got {got}; must have the same length, one value per DOF")
        self.config.check_together(type(self).__name__, numbers)

    @classmethod
    def with_values(cls, values: Mapping[str, Any]) -> Any:
        """Return a component with these parameters, each a number for all DOFs or an array of one for each."""
        return cls(**values)

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
        missing = [name for name, value in complete.items() if value is None and not declared[name].nullable]
        if missing:
            raise ParameterError(f"{cls.__name__}: needs '{missing[0]}' {declared[missing[0]].range}")
        return dataclasses.asdict(cls.config(**complete))

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        """Bring the parameters onto ``device``, one value per DOF. Called by `Actuator`.

        Args:
            device: Where the actuator runs.
            num_actuators: Number of DOFs, N.
        """
        self._device: wp.Device = wp.get_device(device)
        if self.config is not None:
            if not self._values and self.config.declared():
                raise StructureError(f"{type(self).__name__}.__init__ must call super().__init__() with the parameters")
            places = self.config.declared().items()
            self._values = {n: self._place(n, d, self._values[n], self._device, num_actuators) for n, d in places}
        self._num_actuators = num_actuators
        self._revision += 1

    def is_finalized(self, device: DeviceLike = None, num_actuators: int | None = None) -> bool:
        """Return whether it belongs to an actuator; to one on ``device`` with ``num_actuators`` DOFs, if given."""
        if self._num_actuators is None or num_actuators is None:
            return self._num_actuators is not None
        return self._num_actuators == num_actuators and self._device == wp.get_device(device)

    def check_fits(self, num_actuators: int) -> None:
        """Refuse parameters, or what its own kernels may keep, for another number of DOFs; nothing has changed then."""
        if self._num_actuators not in (None, num_actuators) and not self.is_fused():
            raise StructureError(
                f"{type(self).__name__}: belongs to an actuator of {self._num_actuators} DOFs already, and may keep "
                f"buffers for these; make another component for the one of {num_actuators}"
            )
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

    @classmethod
    def label(cls) -> str:
        """What the component is called in a kernel, e.g. ``"dc_motor"`` for ``ClampingDCMotor``."""
        kinds = [owner.__name__ for owner in cls.__mro__[1:] if cls.__name__.startswith(owner.__name__)]
        name = cls.__name__.removeprefix(min(kinds, key=len)) if kinds else cls.__name__
        label = snake_case(name).strip("_")
        return label if label.isidentifier() else f"stage_{label}"

    @classmethod
    def reset_values(cls) -> dict[str, float | str]:
        """What each state is after a reset: a number, or the name of a parameter."""
        return dict(cls.STATES) if isinstance(cls.STATES, Mapping) else dict.fromkeys(cls.STATES, 0.0)

    @classmethod
    def _declared_stage(cls) -> Stage:
        declared = cls.config.declared() if cls.config is not None else {}
        return Stage(
            label=cls.label(),
            law=cls.law,
            closing_law=cls.closing_law,
            closes=cls.run_closing is not Component.run_closing,
            closing_outputs=tuple(cls.CLOSING_OUTPUTS),
            closing_states=tuple(cls.CLOSING_STATES),
            defaults=tuple(cls.OPTIONAL_SIGNALS.items()),
            params=tuple(n for n, d in declared.items() if not d.shared),
            integers=frozenset(n for n, d in declared.items() if d.integer),
            tables=tuple(n for n, d in declared.items() if d.shared),
            states=tuple(cls.reset_values()),
            returns=cls._returns,
            outputs=tuple(cls.OUTPUTS),
            sensed=cls._sees_sensed,
            limits=cls.kind is ComponentKind.CLAMPING and "effort" in cls._returns,
            custom_inputs=tuple(cls.OPTIONAL_INPUTS),
        )

    @classmethod
    def _check_declaration(cls) -> None:
        """Refuse what cannot be run, when the class is defined."""
        if cls.law is None:
            return
        cls._declared_stage().check()
        declared = cls.config.declared() if cls.config is not None else {}
        unknown = [name for name in cls.CLOSING_STATES if name not in cls.reset_values()]
        if unknown or (cls.closing_law is None and (cls.CLOSING_STATES or cls.CLOSING_OUTPUTS)):
            raise StructureError(
                f"{cls.__name__}: CLOSING_STATES and CLOSING_OUTPUTS need a closing_law, and states must be in STATES; "
                f"got {unknown or 'no closing_law'}"
            )
        for name, value in cls.reset_values().items():
            if isinstance(value, str) and (value not in declared or declared[value].shared or declared[value].integer):
                raise StructureError(
                    f"{cls.__name__}.STATES: {name} starts at '{value}', which is not a parameter with a value per DOF"
                )

    def stage(self) -> Stage:
        """The component as a kernel sees it: parameters that are left out are zeros in its text."""
        return without(self._declared_stage(), [name for name, value in self._values.items() if value is None])

    def is_fused(self) -> bool:
        """Whether the component runs inside the actuator's one kernel: it has a law, and no kernel that replaces it."""
        for owner in type(self).__mro__:
            if owner.__dict__.get("law") is not None:
                return True
            if any(method in owner.__dict__ for method in self._own_kernel_methods):
                return False
        return False

    def is_stateful(self) -> bool:
        """Whether the component remembers anything from one step to the next."""
        return bool(self.STATES)

    def is_graphable(self) -> bool:
        """Whether a step can be captured in a graph."""
        return True

    @classmethod
    def uses_dt(cls) -> bool:
        """Whether the law asks for the time step."""
        return any(law is not None and "dt" in law.input_types for law in (cls.law, cls.closing_law))

    def check_dt(self, dt: float | None) -> float | None:
        """Return the time step of a step [s], or refuse it."""
        if not self.uses_dt():
            return dt
        if dt is None:
            raise StateError(f"{type(self).__name__} works over time: step() needs dt")
        if not isinstance(dt, (int, float, np.number)) or not 0.0 <= dt <= _LARGEST_DT:
            raise StateError(f"dt: got {dt!r}; must be a finite number ≥ 0 [s]")
        return float(dt)

    def state(self, num_actuators: int, device: DeviceLike) -> Any:
        """Return a new state for ``num_actuators`` DOFs, or None where there is none."""
        if not self.STATES:
            return None
        values = {name: self._first_value(name, value) for name, value in self.reset_values().items()}
        return State(wp.get_device(device), num_actuators, values, self.requires_grad)

    def _first_value(self, name: str, value: float | str) -> Any:
        if not isinstance(value, str):
            return value
        if self._values[value] is None:
            return 0.0
        return lambda: self._values[value]

    def run(
        self,
        given: Mapping[str, Given],
        results: Mapping[str, wp.array],
        current_state: Any,
        next_state: Any,
        dt: float | None,
    ) -> None:
        """Run this stage alone: from signals to signals, and from a state to the next.

        Override it to launch kernels of one's own; `Controller` and `Clamping` have simpler methods for that.

        Args:
            given: The signals before this stage, by name, each with the indices of the DOFs.
            results: Arrays of shape (N,) to write, for each signal that the stage returns or adds.
            current_state: State before the step; None where there is none.
            next_state: State after the step, written; may be ``current_state``.
            dt: Time step [s].
        """
        if self.stage().ring is None:
            self._require_law("run()")
        run_alone(self, given, results, current_state, next_state, dt)

    def run_closing(
        self,
        given: Mapping[str, Given],
        results: Mapping[str, wp.array],
        current_state: Any,
        next_state: Any,
        dt: float | None,
    ) -> None:
        """Run the way back alone, as `run`: write the ``effort`` and `CLOSING_OUTPUTS`. Override it where `run` is."""
        run_alone(self, given, results, current_state, next_state, dt, self.stage().closing())

    def engine_armature(self) -> np.ndarray | None:
        """Inertia that it brings at its joint [kg·m²], shape (N,), for robots' engines to hold. None: no inertia."""
        return None

    def _require_law(self, method: str) -> None:
        if self.law is None:
            raise StructureError(f"{type(self).__name__} has neither a law nor a {method} of its own")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={shown(value)}' for name, value in self._values.items())})"

    def _finalize_if_needed(self, device: DeviceLike, num_actuators: int) -> wp.Device:
        """Make a component usable on its own, outside an actuator."""
        device = wp.get_device(device)
        if self._num_actuators != num_actuators:
            self.finalize(device, num_actuators)
        return device
