# SPDX-License-Identifier: Apache-2.0
"""Declaration of a parameter, with its unit, range, default and doc.

A class of `Parameters` declares those of one physical effect. A config and a component inherit it: the config holds one
number of each, the component an array with one value per DOF. Validation, file formats, help texts and parameter tables
all use this declaration. Scalars and arrays share the same check.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import types
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Self,
    SupportsFloat,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    overload,
)

import numpy as np
import numpy.typing as npt
import warp as wp

from ..errors import ParameterError, listed, shown
from ..typing import ArrayLike

if TYPE_CHECKING:
    from .config import Config

V_co = TypeVar("V_co", covariant=True)
ParameterValue: TypeAlias = npt.ArrayLike | None
"""Value of a parameter: a number, a list or array of them, a word or a path; None if unset."""

_LARGEST_INTEGER = 2**31 - 1
_LONGEST_LIST = 4096
_LONGEST_PATH = 4096


@dataclass(frozen=True, kw_only=True)
class Field(Generic[V_co]):
    """A declared parameter: a number on a config, an array with one value per DOF on a component. See `param`."""

    unit: str
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    finite: bool = True
    """Whether infinity is an error. Limits allow it: it switches them off."""
    shared: bool = False
    """Whether all DOFs share one value, which the law gets unchanged, instead of one value per DOF."""
    fallback: Any = None
    """Default in files and builders."""
    optional: bool = False
    """Whether a component may omit the array; its law then gets zero."""
    integer: bool = False
    path: bool = False
    """Whether it is the path of a file instead of a number."""
    choices: tuple[str, ...] = ()
    """Allowed words, if it is a word instead of a number."""
    boolean: bool = False
    """Whether it is true or false instead of a number."""
    nullable: bool = False
    """Whether a config may leave it unset, as None, for the component to determine."""
    default: Any = None
    """Default in Python, unless it is required."""
    required: bool = True
    """Whether it has no default in Python."""
    name: str = dataclasses.field(default="", init=False, compare=False)
    """Name of its attribute."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", f"{self.doc} [{self.unit}]")

    def __set_name__(self, owner: type, name: str) -> None:
        object.__setattr__(self, "name", name)

    @overload
    def __get__(self, owner: None, cls: type) -> Self: ...
    @overload
    def __get__(self, owner: Config, cls: type) -> V_co: ...
    @overload
    def __get__(self, owner: ParameterOwner, cls: type) -> wp.array: ...
    def __get__(self, owner: ParameterOwner | None, cls: type[ParameterOwner]) -> Any:
        return cls._class_value(self) if owner is None else owner._value(self.name)

    def __set__(self, owner: ParameterOwner, value: ArrayLike | None) -> None:
        owner._assign(self, value)

    @property
    def range(self) -> str:
        """Allowed range in words, including the unit."""
        if self.path:
            return "the path of a file"
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.boolean:
            return "true or false"
        parts = ["finite"] if self.finite and not self.integer else []
        if self.integer and self.maximum is None:
            parts.append("< 2³¹")
        if self.minimum is not None:
            parts.append(f"≥ {self.minimum:g}")
        if self.above is not None:
            parts.append(f"> {self.above:g}")
        if self.maximum is not None:
            parts.append(f"≤ {self.maximum:g}")
        text = " and ".join(parts)
        text = f"a whole number {text}" if self.integer else text or "a number"
        text += f" [{self.unit}]"
        text += f", at most {_LONGEST_LIST} of them" if self.shared else ""
        return text + ("" if self.finite else "; inf switches it off")

    @property
    def value_type(self) -> Any:
        """Type of its value on a config."""
        kind: Any = str if self.path or self.choices else bool if self.boolean else int if self.integer else float
        kind = tuple[kind, ...] if self.shared else kind
        return kind | None if self.nullable else kind

    def plain(self, where: str, value: Any) -> Any:
        """Check one value of a config and return it as a plain Python number, tuple of numbers, word or path."""
        if value is None and self.nullable:
            return None
        self.check(where, value)
        if self.path:
            return os.fspath(value)
        if self.choices or self.boolean:
            return value
        if self.shared:
            number_type = int if self.integer else rounded
            return tuple(number_type(number) for number in np.ravel(value)) if np.ndim(value) == 1 else value
        if np.ndim(value) != 0:
            raise ParameterError(f"{where}: got {np.size(value)} values; must be one number in a config")
        return int(value) if self.integer else rounded(value)

    def check(self, where: str, values: object) -> None:
        """Raise `ParameterError` for the first of ``values`` that is outside the range.

        Args:
            where: Name of the parameter in the message, e.g. ``"ControllerPD.kp"``.
            values: A scalar or an array of any shape.
        """
        if self.path:
            text = os.fspath(values) if isinstance(values, (str, os.PathLike)) else ""
            if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_PATH or not text.isprintable():
                raise ParameterError(f"{where}: got {shown(values)}; must be {self.range}")
            return
        if self.choices:
            if not (isinstance(values, str) and values in self.choices):
                raise ParameterError(f"{where}: got {shown(values)}; must be {self.range}")
            return
        if self.boolean:
            if not isinstance(values, (bool, np.bool_)):
                self._check_flags(where, values)
            return
        numbers = _as_numbers(where, values, self.integer)
        if self.shared and numbers.size > _LONGEST_LIST:
            raise ParameterError(f"{where}: got {numbers.size} numbers; must be {self.range}")
        bad = np.isnan(numbers)
        if self.finite:
            bad |= np.isinf(numbers)
        if self.minimum is not None:
            bad |= numbers < self.minimum
        if self.above is not None:
            bad |= numbers <= self.above
        if self.maximum is not None:
            bad |= numbers > self.maximum
        elif self.integer:
            bad |= numbers > _LARGEST_INTEGER
        self._refuse(where, values, bad)

    def _check_flags(self, where: str, values: object) -> None:
        """Check arrays or lists of booleans, or of 0 and 1, as components hold them."""
        is_list = isinstance(values, (list, tuple)) and all(isinstance(value, bool) for value in values)
        if not (is_list or (isinstance(values, np.ndarray) and values.ndim and values.dtype.kind in "biuf")):
            raise ParameterError(f"{where}: got {shown(values)}; must be {self.range}")
        flags = np.asarray(values, np.float32)
        self._refuse(where, values, (flags != 0.0) & (flags != 1.0))

    def _refuse(self, where: str, values: object, bad: np.ndarray) -> None:
        """Raise `ParameterError` for the first of ``values`` that is ``bad``."""
        if bad.any():
            first = int(np.argmax(bad.ravel()))
            at = f" at index {first}" if bad.ndim else ""
            raise ParameterError(f"{where}: got {np.ravel(np.asarray(values))[first]}{at}; must be {self.range}")


def _as_numbers(where: str, values: object, integer: bool) -> np.ndarray:
    """Return ``values`` in the precision of kernels: a double that overflows there becomes infinite."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(f"{where}: got {shown(values)}; must be a number or a flat list of numbers") from error
    has_bools = isinstance(values, (list, tuple)) and any(isinstance(value, bool) for value in values)
    if array.dtype.kind not in "iuf" or has_bools:
        raise ParameterError(f"{where}: got {shown(values)}; must be a number or a flat list of numbers")
    if integer and array.dtype.kind == "f" and array.size:
        raise ParameterError(f"{where}: got {shown(values)}; must be a whole number")
    with np.errstate(over="ignore"):
        return np.asarray(array, dtype=np.float64 if integer else np.float32)


def rounded(value: SupportsFloat) -> float:
    """Round ``value`` to the 32-bit precision of kernels and robot files, to the shortest decimal: 0.1 stays 0.1."""
    with np.errstate(over="ignore"):
        return float(str(np.float32(value)))


def unit_at_joint(unit: str, slides: bool) -> str:
    """Return the unit of a parameter for a revolute or a sliding joint: N·m/rad or N/m."""
    return unit.replace("N·m", "N").replace("kg·m²", "kg").replace("rad", "m") if slides else unit


def param(
    unit: str,
    doc: str,
    *,
    default: object = dataclasses.MISSING,
    fallback: object = None,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    finite: bool = True,
    shared: bool = False,
    optional: bool = False,
    integer: bool = False,
    path: bool = False,
    choices: tuple[str, ...] = (),
    boolean: bool = False,
) -> Any:
    """Declare a parameter in a class of `Parameters`, or on a `Config`.

    Args:
        unit: SI unit, e.g. ``"N·m/rad"``; ``"1"`` if dimensionless.
        doc: Description in one sentence.
        default: Default in Python. Without one, the parameter is required. None leaves it unset, for the component.
        fallback: Default in files and builders, if ``default`` is not set.
        minimum: Smallest allowed value.
        maximum: Largest allowed value.
        above: Exclusive lower bound.
        finite: Whether infinity is an error.
        shared: Whether all DOFs share one value.
        optional: Whether a component may omit the array; its law then gets zero.
        integer: Whether it is a whole number.
        path: Whether it is the path of a file.
        choices: Allowed words, if it is a word.
        boolean: Whether it is true or false.

    Examples:
        >>> class Deadband(actuon.Parameters):
        ...     width: actuon.Number = actuon.param("N·m", "Half of the band.", minimum=0.0)
        >>> Deadband.declared()["width"].unit
        'N·m'
    """
    required = default is dataclasses.MISSING
    return Field(
        unit=unit,
        doc=doc,
        minimum=minimum,
        maximum=maximum,
        above=above,
        finite=finite,
        shared=shared,
        fallback=fallback if required else default,
        optional=optional,
        integer=integer,
        path=path,
        choices=choices,
        boolean=boolean,
        nullable=default is None,
        default=None if required else default,
        required=required,
    )


Number: TypeAlias = Field[float]
"""A number on a config, a float32 array on a component."""
OptionalNumber: TypeAlias = Field[float | None]
"""A number that may be left out."""
Whole: TypeAlias = Field[int]
"""A whole number on a config, an int32 array on a component."""
Table: TypeAlias = Field[tuple[float, ...]]
"""Numbers that all DOFs share."""


class ParameterOwner:
    """Base of classes with declared parameters: configs and components."""

    _declared: ClassVar[Mapping[str, Field[object]]] = types.MappingProxyType({})
    _values: Any

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        found: dict[str, Field[object]] = {}
        for base in reversed(cls.__mro__):
            for name, value in vars(base).items():
                if isinstance(value, Field):
                    found[name] = value
                else:
                    found.pop(name, None)
        cls._declared = types.MappingProxyType(found)

    @classmethod
    def declared(cls) -> Mapping[str, Field[object]]:
        """Return the declared parameters, in order."""
        return cls._declared

    def _value(self, name: str) -> Any:
        """Return a parameter as an attribute."""
        return self._values[name]

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        """Check the consistency of several parameters, scalars or arrays. Override it if needed."""

    @classmethod
    def complete(cls, values: Mapping[str, object], *, fallbacks: bool, where: str = "") -> dict[str, Any]:
        """Return a value for each parameter, with defaults for those that are missing or None.

        Args:
            values: Values by name.
            fallbacks: Use the defaults of files and builders instead of those of Python.
            where: Name of the parameters' owner in a message.

        Raises:
            ParameterError: A name is unknown, or a parameter without default is missing.
        """
        place = f"{where}: " if where else ""
        declared = cls.declared()
        unknown = [name for name in values if name not in declared]
        if unknown:
            known = listed(str(unknown[0]), declared, "parameters")
            raise ParameterError(f"{place}unknown parameter {unknown[0]!r}; {known}")
        found = {}
        for name, field in declared.items():
            value = values.get(name)
            if value is None:
                value = field.fallback if fallbacks else field.default
            if value is None and not field.nullable:
                raise ParameterError(f"{place}needs '{name}', {field.range}")
            found[name] = value
        return found

    @classmethod
    def _class_value(cls, declared: Field[object]) -> Any:
        """Return the value of a parameter as an attribute of the class."""
        return declared

    @abstractmethod
    def _assign(self, declared: Field[object], value: object) -> None:
        """Store a value that is assigned to a parameter."""


@dataclass_transform(field_specifiers=(param,))
class Parameters(ParameterOwner):
    """Base of declarations: the parameters of one effect, for its config and its component.

    Type checkers infer the arguments and attributes of both from it. See `param`.
    """


_LISTS = ("a list of numbers", "a list of at least one number", "a list of at least two numbers")


def table_columns(
    where: str, declared: Mapping[str, Field[object]], values: Mapping[str, ParameterValue], fewest: int
) -> list[np.ndarray]:
    """Return the columns of a table as arrays, or raise if they are not lists of equal length.

    Args:
        where: Name of the table in an error.
        declared: Columns by name.
        values: Values of the columns.
        fewest: Smallest length, at most 2.
    """
    columns = []
    for name, field in declared.items():
        column = np.asarray(values[name])
        if column.ndim != 1 or column.size < fewest:
            raise ParameterError(f"{where}.{name}: got {shown(values[name])}; must be {_LISTS[fewest]}")
        field.check(f"{where}.{name}", values[name])
        columns.append(column)
    if len({len(column) for column in columns}) > 1:
        got = " and ".join(f"{len(column)} {name}" for name, column in zip(declared, columns, strict=True))
        raise ParameterError(f"{where}: got {got}; must have the same length")
    return columns


def call_signature(declared: Mapping[str, Field[object]]) -> inspect.Signature:
    """Return the signature of a component with these parameters."""
    parameters = []
    for name, field in declared.items():
        default = None if field.optional else inspect.Parameter.empty if field.required else field.default
        annotation = "ArrayLike | None" if default is None else "ArrayLike"
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
    return inspect.Signature(parameters)


def with_arguments(doc: str, declared: Mapping[str, Field[object]], *, per_dof: bool) -> str:
    """Return the docstring of a class with a section on its arguments added, unless it has one."""
    if not declared or "Args:" in doc:
        return doc
    lines = (f"    {name}: {_described(field, per_dof)}" for name, field in declared.items())
    return "\n".join((inspect.cleandoc(doc), "", "Args:", *lines))


def _described(field: Field[object], per_dof: bool) -> str:
    """Return the doc with unit and shape at the end of its first sentence: ``Position gain [N·m/rad], shape (N,).``"""
    unit = f" [{field.unit}]" if field.unit else ""
    shape = f", shape ({'K' if field.shared else 'N'},)" if per_dof else ""
    return re.sub(r"\.(?=\s|$)", lambda _: f"{unit}{shape}.", field.doc, count=1)
