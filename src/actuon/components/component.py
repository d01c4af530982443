# SPDX-License-Identifier: Apache-2.0
"""Base of all components: declared parameters as arrays, states, and a law or separate kernels.

A component with a ``law`` is fused into the actuator's kernel. A component without one brings its own kernels (see
`Component.run`); its actuator then runs stage by stage.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import warp as wp

from .. import arrays
from ..declare.config import Config
from ..declare.parameters import Field, ParameterOwner, Parameters, call_signature, with_arguments
from ..declare.registry import ComponentKind, register_actuator_component, snake_case
from ..errors import ArrayError, ParameterError, StateError, StructureError
from ..kernel.chain import ERRORS, Law, Stage, custom_signal, without
from ..kernel.run_stage import SignalArray, run_stage
from ..kernel.state import Cells, Memory, State, Word
from ..typing import DeviceLike

_LARGEST_DT = 3.0e38
_ALL = slice(None)

HeldValues: TypeAlias = Mapping[str, wp.array | np.ndarray | None]
"""Parameters of a component by name: Warp arrays, or NumPy arrays until it is bound."""


@dataclass(frozen=True)
class Placement:
    """Place of a component in an actuator."""

    device: wp.Device
    """Device of the actuator."""
    num_dofs: int
    """Number of DOFs, N."""
    requires_grad: bool = False
    """Whether parameters and states have gradients."""
    in_engine: bool = False
    """Whether an engine solves the dry friction that stages offer."""
    behind_spring: bool = False
    """Whether an earlier transmission has no ``gear_ratio``, such as a spring."""
    losses_in_engine: bool = False
    """Whether an engine solves the losses of gears as dry friction."""


class Component(ParameterOwner):
    """Base of the components of an actuator, each one stage of the motor model."""

    kind: ClassVar[ComponentKind | None] = None
    """Kind of stage, set by the base of each kind."""
    config: ClassVar[type[Config] | None] = None
    """Scalar config with the same parameters. With a ``schema``, robot files can contain it."""
    law: ClassVar[Any] = None
    """Equation, a ``@wp.func`` whose argument names select its inputs: signals, ``dt``, parameters, states."""
    STATES: ClassVar[tuple[str, ...] | Mapping[str, float | str]] = ()
    """Names of states per DOF that the law takes, and returns last; or their values after a reset by name, each a
    number or the name of a parameter. Default value: zero."""
    OUTPUTS: ClassVar[tuple[str, ...]] = ()
    """Signals that the law returns after those of its kind, for later stages and for telemetry."""
    OPTIONAL_SIGNALS: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """Optional signals of the laws, and their values if no earlier stage returns them."""
    OPTIONAL_INPUTS: ClassVar[tuple[str, ...]] = ()
    """Optional arrays in the simulation's control, one number per velocity. The law takes each as ``custom_`` and its
    name; it is zero if the array is absent."""
    closing_law: ClassVar[Any] = None
    """``@wp.func`` of the same parameters that runs after the last stage, in reverse order of the stages: back through
    a transmission, or for quantities known only then, such as the heat of the current. It may take signals of all
    stages, and ``q`` and ``qd`` of the law. Returns ``effort``, `CLOSING_OUTPUTS`, `CLOSING_STATES`."""
    CLOSING_OUTPUTS: ClassVar[tuple[str, ...]] = ()
    """Signals that the closing law returns after the effort."""
    CLOSING_STATES: ClassVar[tuple[str, ...]] = ()
    """States whose new values the closing law returns instead of the law; both may take them."""
    SHARED_PARAMS: ClassVar[frozenset[str] | set[str]] = frozenset()
    """Parameters that all DOFs share."""
    requires_grad: bool = False
    """Whether parameters and states have gradients. Set by `bound`."""
    in_engine: bool = False
    """Whether an engine solves the dry friction that stages offer. Set by `bound`."""
    behind_spring: bool = False
    """Whether an earlier transmission has no ``gear_ratio``, such as a spring. Set by `bound`."""
    losses_in_engine: bool = False
    """Whether an engine solves the losses of gears as dry friction. Set by `bound`."""

    State = State
    __signature__: ClassVar[inspect.Signature]
    _declared_laws: ClassVar[tuple[Law, ...]] = ()
    """The ``law`` and the names of its results."""
    _returns: ClassVar[tuple[str, ...]] = ("effort",)
    """Signals that a law of this kind returns first."""
    _sees_sensed: ClassVar[bool] = False
    """Whether a law of this kind gets positions and velocities from sensors."""
    _own_kernel_methods: ClassVar[tuple[str, ...]] = ("run", "run_closing", "state")
    """Methods whose override in a subclass replaces the stage function, so that the stage runs alone."""
    _is_ring: ClassVar[bool] = False
    """Whether the stage reads past signals instead of having a stage function."""
    _values: Any = MappingProxyType({})
    _owned: frozenset[str] = frozenset()
    """Parameters that were passed as numbers, whose arrays belong to the component."""
    _hidden: frozenset[str] = frozenset()
    """Optional parameters that are zero for all DOFs, and were never accessed: kernels omit them."""
    _is_bound: bool = False
    """Whether it is the copy that an actuator works with."""
    _is_passed_on: bool = False
    """Whether an actuator works with a copy of it, so that changes would have no effect."""
    _num_actuators: int | None = None
    _revision: int = 0
    """Number of times that parameter arrays were rebound, for actuators to detect."""
    _listeners: tuple[Callable[[], None], ...] = ()
    """Functions to call after a parameter was written."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        own_config: type[Config] | None = cls.__dict__.get("config")
        if own_config is not None:
            own_config.component = own_config.__dict__.get("component") or cls  # not that of its base class
        elif cls.config is not None and cls._declares_more_than(cls.config):
            cls.config = None
        if cls.config is not None:
            cls._declared = cls.config.declared()
        for name, declared in cls.declared().items():
            cls._check_free(name)
            if own_config is not None and inspect.getattr_static(cls, name, None) is not declared:
                setattr(cls, name, declared)
        shared = {name for name, declared in cls.declared().items() if declared.shared}
        cls.SHARED_PARAMS = frozenset(shared | set(cls.SHARED_PARAMS))
        cls.__signature__ = inspect.signature(functools.partial(cls.__init__, None))  # type: ignore[arg-type]
        if cls.__init__ is Component.__init__:
            cls.__signature__ = call_signature(cls.declared())
            if cls.__doc__ is not None:
                cls.__doc__ = with_arguments(cls.__doc__, cls.declared(), per_dof=True)
        states = tuple(name for name in cls.reset_values() if name not in cls.CLOSING_STATES)
        law = Law(cls.law, (*cls._returns, *cls.OUTPUTS), states)
        cls._declared_laws = (law,) if cls.law is not None else ()
        cls._check_declaration()
        schema = own_config.schema if own_config is not None else None
        if schema is not None and cls.kind is not None and cls.config.component is cls:  # type: ignore[union-attr]
            register_actuator_component(schema, cls, cls.kind)

    @classmethod
    def _declares_more_than(cls, config: type[Config]) -> bool:
        """Return whether the class adds parameters to those of the config that it inherits."""
        added = (base.declared() for base in cls.__bases__ if issubclass(base, Parameters))
        return any(name not in config.declared() for declared in added for name in declared)

    @classmethod
    def _check_free(cls, name: str) -> None:
        """Raise if a parameter has the name of an attribute of components."""
        bases = (owner for owner in cls.__mro__[1:] if issubclass(owner, Component) and owner.config is None)
        if any(name in vars(owner) and not isinstance(vars(owner)[name], Field) for owner in bases):
            declaring = cls if cls.config is None else cls.config
            raise StructureError(f"{declaring.__name__}.{name}: components have an attribute of this name; rename it")

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        if cls.__init__ is not Component.__init__:
            cls._bind(cls.__signature__, args, kwargs)
        return super().__new__(cls)

    def __init__(self, *args: object, **kwargs: object) -> None:
        given = self._bind(call_signature(self.declared()), args, kwargs)
        given.apply_defaults()
        self._values = dict.fromkeys(self.declared())
        self._owned = frozenset()
        for name, value in given.arguments.items():
            setattr(self, name, value)
        self._check_together(self._values)

    if not TYPE_CHECKING:  # for type checkers, it would allow any attribute

        def __setattr__(self, name, value):
            if self._is_passed_on and not name.startswith("_"):
                raise StructureError(
                    f"{type(self).__name__}.{name}: cannot be changed here, since an actuator works with a copy of "
                    f"this component; change that one, e.g. actuator.controller.{name}, or make a new component"
                )
            own = None if name.startswith("_") else getattr(type(self), name, None)
            if inspect.isroutine(own) or isinstance(own, wp.Function):
                raise StructureError(
                    f"{type(self).__name__}.{name}: cannot be replaced on one component, where nothing would call it; "
                    "override it in a subclass"
                )
            super().__setattr__(name, value)

    @classmethod
    def _bind(
        cls, signature: inspect.Signature, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> inspect.BoundArguments:
        try:
            return signature.bind(*args, **kwargs)
        except TypeError as error:
            names = ", ".join(signature.parameters) or "none"
            raise StructureError(f"{cls.__name__}: {error}; parameters: {names}") from error

    def _assign(self, declared: Field[object], value: object) -> None:
        self._write(declared.name, declared, value)
        self._has_written()

    def _write(self, name: str, declared: Field[object], value: Any) -> None:
        """Check and store ``value``: share an array on the device; copy numbers."""
        where = f"{type(self).__name__}.{name}"
        if self._num_actuators is not None and self._device.is_capturing:
            raise StructureError(
                f"{where}: cannot be assigned during graph capture; assign it before, or between replays, which read "
                "the array again"
            )
        if value is None:
            if not declared.optional:
                raise ParameterError(f"{where}: got None; must be {declared.range}")
        elif arrays.is_device_array(value):
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
        self.expose(name)
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

    def write_together(self, values: Mapping[str, np.ndarray], at: np.ndarray | slice = _ALL) -> None:
        """Write parameters of some DOFs, whose values were checked, each and together, into their arrays."""
        for name, numbers in values.items():
            self.expose(name)
            array = self._values[name]
            changed = array.numpy()
            changed[at] = numbers
            if not array.device.is_cpu:
                array.assign(changed)
        self._has_written()

    def expose(self, *names: str) -> None:
        """Let kernels read parameters that they omitted; by default all of them."""
        if self._hidden and self._hidden.intersection(names or self._hidden):
            self._hidden -= {*(names or self._hidden)}
            self._revision += 1

    def _value(self, name: str) -> wp.array | None:
        """Return a parameter, whose array the caller may write from now on."""
        self.expose(name)
        return self._values[name]

    def _has_written(self) -> None:
        """Update derived values after parameters were written."""
        for listener in self._listeners:
            listener()

    def on_write(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` after a parameter is assigned. Return a function that removes the listener.

        Numbers written into a parameter's array in place are not detected.
        """
        self._listeners = (*self._listeners, listener)

        def end() -> None:
            self._listeners = tuple(each for each in self._listeners if each != listener)

        return end

    def check_memory(self, values: HeldValues, dt: float | None) -> None:
        """Raise if the memory is too small for parameters at steps of ``dt`` [s]; None for the shortest step."""

    def _place(self, name: str, declared: Field[object], value: Any, device: wp.Device, num_actuators: int) -> Any:
        """Return a checked value on the device, with one entry per DOF unless it is shared."""
        if value is None:
            return None
        if isinstance(value, np.ndarray):
            value = arrays.with_slack(np.full(num_actuators, value) if value.ndim == 0 else value, device)
        where = f"{type(self).__name__}.{name}"
        length = None if declared.shared else num_actuators
        placed = arrays.flat(value, where, device, dtype=value.dtype, length=length)
        if self.requires_grad and not declared.integer:
            placed.requires_grad = True
        return placed

    def _check_together(self, values: HeldValues) -> None:
        numbers = {n: v.numpy() if isinstance(v, wp.array) else v for n, v in values.items()}
        declared = self.declared()
        lengths = {n: len(v) for n, v in numbers.items() if v is not None and v.ndim == 1 and not declared[n].shared}
        if len(set(lengths.values())) > 1:
            got = ", ".join(f"{count} for {name}" for name, count in lengths.items())
            raise ArrayError(f"{type(self).__name__}: got {got}; must have the same length, one value per DOF")
        rules = [owner.check_together for owner in (self.config, type(self)) if owner is not None]
        for rule in {getattr(rule, "__func__", rule): rule for rule in rules}.values():
            rule(type(self).__name__, numbers)

    @classmethod
    def with_values(cls, values: Mapping[str, object]) -> Any:
        """Return a component with these parameters, each one number for all DOFs or an array with one per DOF."""
        return cls(**values)

    @classmethod
    def resolve_arguments(cls, args: Mapping[str, object]) -> dict[str, Any]:
        """Complete ``args`` with defaults, check them, and return all parameters as plain scalars.

        Args:
            args: Scalar parameters by name, from a file or a builder.
        """
        declared = cls.declared()
        if cls.config is None and not declared:
            raise StructureError(f"{cls.__name__} has no config: implement resolve_arguments(args)")
        complete = cls.complete(args, fallbacks=True, where=cls.__name__)
        if cls.config is not None:
            return dataclasses.asdict(cls.config(**complete))
        values = {name: d.plain(f"{cls.__name__}.{name}", complete[name]) for name, d in declared.items()}
        cls.check_together(cls.__name__, values)
        return values

    def bound(self, placement: Placement) -> Self:
        """Return a copy for one actuator, which shares Warp arrays: see `Actuator`.

        Attributes that `finalize` does not set are shared too. A copy of a component of another actuator has separate
        arrays, unless they were passed.
        """
        self._check_overrides()
        if self._values or not self.declared():
            self._check_together(self._values)
        values = {
            name: wp.clone(value) if self._is_bound and name in self._owned and isinstance(value, wp.array) else value
            for name, value in self._values.items()
        }
        placed = {
            "_values": values,
            "requires_grad": self.requires_grad or placement.requires_grad,
            "in_engine": placement.in_engine,
            "behind_spring": placement.behind_spring,
            "losses_in_engine": placement.losses_in_engine,
            "_is_bound": True,
            "_is_passed_on": False,
        }
        made = object.__new__(type(self))
        vars(made).update(vars(self) | placed)
        made.finalize(placement.device, placement.num_dofs)
        return made

    def pass_on(self) -> None:
        """Refuse later changes, since an actuator works with a copy. A component of an actuator can still change."""
        if self._is_bound:
            return
        self._is_passed_on = True
        for value in self._values.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def shares_arrays(self) -> bool:
        """Return whether Warp arrays were passed, which actuators share."""
        return any(isinstance(value, wp.array) and name not in self._owned for name, value in self._values.items())

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        """Copy the parameters to ``device``, one value per DOF. `bound` calls it on the copy.

        Override it to allocate buffers.

        Args:
            device: Device of the actuator.
            num_actuators: Number of DOFs, N.
        """
        self._device: wp.Device = wp.get_device(device)
        if self._device.is_capturing:
            raise StructureError(f"{type(self).__name__}: cannot be finalized during graph capture; do it before")
        declared = self.declared()
        if declared and not self._values:
            raise StructureError(f"{type(self).__name__}.__init__ must call super().__init__() with the parameters")
        values = self._values
        self._hidden = frozenset()
        if not self.requires_grad and self._device.is_cpu:
            unset = {n for n, d in declared.items() if d.optional and d.default == 0.0}
            numbers = {n: values[n] for n in unset if isinstance(values[n], np.ndarray)}
            self._hidden = frozenset(n for n, number in numbers.items() if not number.any())
        self._values = {n: self._place(n, d, values[n], self._device, num_actuators) for n, d in declared.items()}
        self._num_actuators = num_actuators
        self._revision += 1

    def check_fits(self, num_actuators: int) -> None:
        """Raise if parameters are for another number of DOFs. `Actuator` calls it before it binds any component."""
        for name, value in self._values.items():
            if self.declared()[name].shared or value is None or value.ndim == 0 or len(value) == num_actuators:
                continue
            where = f"{type(self).__name__}.{name}"
            raise ArrayError(f"{where}: got {len(value)} values; must have {num_actuators}, one per DOF")

    def numbers(self, *names: str, at: np.ndarray | slice = _ALL) -> dict[str, np.ndarray]:
        """Return copies of parameters by name, without unset ones.

        Args:
            names: Which parameters. Default: all.
            at: Indices of their DOFs. Default: all.
        """
        values = ((name, self._values[name]) for name in names or self._values)
        return {name: np.array(value.numpy()[at]) for name, value in values if isinstance(value, wp.array)}

    def parameters(self) -> dict[str, wp.array]:
        """Return the parameter arrays by name, without unset ones.

        Examples:
            >>> actuator = actuon.Actuator(range(3), actuon.ControllerPD(kp=40.0, kd=1.0))
            >>> sorted(actuator.controller.parameters())
            ['kd', 'kp']
            >>> actuator.controller.kp = [40.0, 50.0, 60.0]
            >>> actuator.controller.parameters()["kp"].numpy()
            array([40., 50., 60.], dtype=float32)
        """
        self.expose()
        return {name: value for name, value in self._values.items() if isinstance(value, wp.array)}

    def arguments(self) -> dict[str, Any]:
        """Return the kernel's arguments by name; None for unset parameters."""
        return {name: None if name in self._hidden else self._values[name] for name in self.declared()}

    @classmethod
    def label(cls) -> str:
        """Return the component's name in a kernel, e.g. ``"dc_motor"`` for ``ClampingDCMotor``."""
        kinds = [owner.__name__ for owner in cls.__mro__[1:] if cls.__name__.startswith(owner.__name__)]
        name = cls.__name__.removeprefix(min(kinds, key=len)) if kinds else cls.__name__
        label = snake_case(name).strip("_")
        return label if label.isidentifier() else f"stage_{label}"

    @classmethod
    def reset_values(cls) -> dict[str, float | str]:
        """Return each state's value after a reset: a number, or the name of a parameter."""
        return dict(cls.STATES) if isinstance(cls.STATES, Mapping) else dict.fromkeys(cls.STATES, 0.0)

    @classmethod
    def _stage_with(cls, laws: tuple[Law, ...]) -> Stage:
        """Return the stage with these laws, and the declared signals and inputs that they return and take."""
        declared = cls.declared()
        closing = None
        if cls.closing_law is not None or cls.run_closing is not Component.run_closing:
            closing = Law(cls.closing_law, ("effort", *cls.CLOSING_OUTPUTS), tuple(cls.CLOSING_STATES))
        own = {*declared, *cls.reset_values(), *cls.OPTIONAL_SIGNALS}
        asked = {name for law in laws for name in law.inputs} - own
        laws = (*(law for name, law in _ERROR_LAWS.items() if name in asked), *laws)
        given = {name for law in laws for name in law.returns}
        taken = {name for law in (*laws, *([closing] if closing is not None else ())) for name in law.inputs}
        return Stage(
            label=cls.label(),
            laws=laws,
            closing=closing,
            signals=tuple(name for name in (*cls._returns, *cls.OUTPUTS) if not laws or name in given),
            defaults=tuple(cls.OPTIONAL_SIGNALS.items()),
            params=tuple(n for n, d in declared.items() if not d.shared),
            integers=frozenset(n for n, d in declared.items() if d.integer),
            tables=tuple(n for n, d in declared.items() if d.shared),
            states=tuple(cls.reset_values()),
            sensed=cls._sees_sensed,
            limits=cls.kind is ComponentKind.CLAMPING and "effort" in cls._returns,
            custom_inputs=tuple(n for n in cls.OPTIONAL_INPUTS if not laws or custom_signal(n) in taken),
        )

    @classmethod
    def _check_declaration(cls) -> None:
        """Raise at the definition of the class if it cannot run."""
        given = {"law": cls.law, "STATES": cls.STATES, "OUTPUTS": cls.OUTPUTS}
        unused = [name for name, value in (given | {"laws()": cls.laws is not Component.laws}).items() if value]
        if unused and cls._is_ring:
            own = [f"{name}()" for name in cls._own_kernel_methods if name not in Component._own_kernel_methods]
            raise StructureError(
                f"{cls.__name__}.{unused[0]}: is not used, since its base is a delay without a stage function; "
                f"override {' and '.join(own) or 'run()'}"
            )
        if cls.law is None:
            return
        cls._stage_with(cls._declared_laws).check()
        declared = cls.declared()
        unknown = [name for name in cls.CLOSING_STATES if name not in cls.reset_values()]
        if unknown or (cls.closing_law is None and (cls.CLOSING_STATES or cls.CLOSING_OUTPUTS)):
            raise StructureError(
                f"{cls.__name__}: got {unknown or 'no closing_law'}; CLOSING_STATES and CLOSING_OUTPUTS need a "
                "closing_law, and CLOSING_STATES must be in STATES"
            )
        for name, value in cls.reset_values().items():
            if isinstance(value, str) and (value not in declared or declared[value].shared or declared[value].integer):
                raise StructureError(
                    f"{cls.__name__}.STATES: {name} starts at '{value}'; must be a number, or a parameter per DOF"
                )

    def laws(self) -> tuple[Law, ...]:
        """Return the laws of the stage, in order. By default ``law`` alone.

        Override it to combine several laws, or to choose them by parameters. Results other than the signals of the kind
        and `OUTPUTS` are local: later laws of the stage take them by name.
        """
        return self._declared_laws

    def stage(self) -> Stage:
        """Return the description of the component for a kernel. Unset parameters are constant zeros."""
        absent = [name for name, value in self._values.items() if value is None or name in self._hidden]
        return without(self._stage_with(self.laws()), absent)

    def is_fused(self) -> bool:
        """Return whether the component runs inside the actuator's kernel: it has a stage function, and no subclass
        overrides a method that launches it."""
        return not self._overridden() and bool(self._is_ring or self.laws())

    @classmethod
    def _overridden(cls) -> list[str]:
        """Return the methods that classes below the one with the stage function override to launch other kernels."""
        found: list[str] = []
        for owner in cls.__mro__:
            if "_own_kernel_methods" not in vars(owner):
                found += [method for method in cls._own_kernel_methods if method in vars(owner)]
            has_laws = "laws" in vars(owner) and owner is not Component
            if vars(owner).get("law") is not None or has_laws or vars(owner).get("_is_ring"):
                break
        return found

    def _check_overrides(self) -> None:
        """Raise if a method that a subclass overrides would not be called, or could not give all results."""

    def is_stateful(self) -> bool:
        """Return whether the component has memory."""
        return any(word.rows != 0 for word in self.words())

    def is_graphable(self) -> bool:
        """Return whether a step can be captured in a graph."""
        return True

    def uses_dt(self) -> bool:
        """Return whether a stage function takes the time step."""
        functions = (self.closing_law, *(law.function for law in self.laws()))
        return any(function is not None and "dt" in function.input_types for function in functions)

    def check_dt(self, dt: float | None) -> float | None:
        """Return the time step [s], or raise if it is not allowed."""
        if dt is None:
            if self.uses_dt():
                raise StateError(f"{type(self).__name__} depends on the time step: step() needs dt [s]")
            return None
        if not isinstance(dt, (int, float, np.number)) or not 0.0 <= dt <= _LARGEST_DT:
            raise StateError(f"dt: got {dt!r}; must be a finite number ≥ 0 [s]")
        return float(dt)

    def state(self, num_actuators: int, device: DeviceLike) -> Any:
        """Return a new state for ``num_actuators`` DOFs; None without memory."""
        words = self.words()
        if not words:
            return None
        device = wp.get_device(device)
        return self.State.over(Memory(Cells.of(num_actuators, device), {0: words}, device, self.requires_grad), 0)

    def words(self) -> tuple[Word, ...]:
        """Return the states per DOF in an actuator's memory."""
        return tuple(Word(name, first=self._first_value(name, value)) for name, value in self.reset_values().items())

    def _first_value(self, name: str, value: float | str) -> Any:
        if not isinstance(value, str):
            return value
        if self._values[value] is None:
            return 0.0
        return lambda: self._values[value]

    def run(
        self,
        given: Mapping[str, SignalArray],
        results: Mapping[str, wp.array],
        current_state: Any,
        next_state: Any,
        dt: float | None,
    ) -> None:
        """Run this stage alone, from signals to signals and from a state to the next.

        Override it to launch other kernels; `Controller` and `Clamping` have simpler methods for that.

        Args:
            given: Signals before this stage, by name, each with the indices of the DOFs.
            results: Arrays of shape (N,) to write, for each signal that the stage returns or adds.
            current_state: State before the step; None without memory.
            next_state: State after the step, written; may be ``current_state``.
            dt: Time step [s].
        """
        if self.stage().ring is None:
            self._require_law("run()")
        run_stage(self, given, results, current_state, next_state, dt)

    def run_closing(
        self,
        given: Mapping[str, SignalArray],
        results: Mapping[str, wp.array],
        current_state: Any,
        next_state: Any,
        dt: float | None,
    ) -> None:
        """Run the closing function, like `run`: write ``effort`` and `CLOSING_OUTPUTS`. Override it with `run`."""
        stage = self.stage().closing_stage()
        if stage is not None and stage.laws[0].function is None:
            stage = dataclasses.replace(stage, laws=(Law(_unchanged),), signals=("effort",))
        run_stage(self, given, results, current_state, next_state, dt, stage)

    def fingerprint(self) -> str:
        """Return a text that identifies properties other than parameters, such as a checksum of weights."""
        return ""

    def engine_armature(self) -> np.ndarray | None:
        """Return the inertia that the engine adds at the joint [kg·m²], shape (N,). None: no inertia."""
        return None

    def _require_law(self, method: str) -> None:
        if not self.laws():
            raise StructureError(
                f"{type(self).__name__} has neither a stage function (`law`) nor its own {method}; define one of them"
            )

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_few_words(value)}" for name, value in self._values.items())
        return f"{type(self).__name__}({values})"

    def _finalize_if_needed(self, device: DeviceLike, num_actuators: int) -> None:
        """Finalize a component that is used outside an actuator."""
        if self._num_actuators != num_actuators:
            self.finalize(device, num_actuators)


@wp.func
def _unchanged(effort: float):
    return effort


@wp.func
def position_error_law(target_q: float, joint_q: float):
    return target_q - joint_q


@wp.func
def velocity_error_law(target_qd: float, joint_qd: float):
    return target_qd - joint_qd


_ERROR_LAWS = {
    name: Law(function, (name,))
    for name, function in zip(ERRORS, (position_error_law, velocity_error_law), strict=True)
}
"""Laws that a stage runs first if its own take an error at the joint."""


def _few_words(value: Any) -> str:
    """Return a parameter as short text: one number if all DOFs have the same."""
    if value is None:
        return "None"
    numbers = np.atleast_1d(value.numpy() if isinstance(value, wp.array) else value)
    if numbers.size and (numbers == numbers.flat[0]).all():
        return str(numbers.flat[0])
    few = ", ".join(map(str, numbers[:3]))
    return f"[{few}]" if numbers.size <= 3 else f"[{few}, … {numbers.size} values]"
