# SPDX-License-Identifier: Apache-2.0
"""How a parameter is declared: once, on a frozen config, with its unit, range, default and doc.

Validation, file formats, help texts and parameter tables all read this declaration. The same check runs on one scalar
(a config) and on an array of a hundred thousand of them (a component).
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ParameterError, shown

METADATA_KEY = "actuon"
"""Where a dataclass field keeps its declaration."""
_LARGEST_INTEGER = 2**31 - 1
_LONGEST_LIST = 4096
_LONGEST_PATH = 4096


@dataclass(frozen=True, kw_only=True)
class Field:
    """What is known about one parameter."""

    unit: str
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    finite: bool = True
    """Whether infinity is refused. Limits allow it: it switches them off."""
    shared: bool = False
    """One value for the whole group, handed to the law as it is, instead of one value per DOF."""
    fallback: Any = None
    """What a file or a builder means that does not mention the parameter."""
    optional: bool = False
    """Whether a component may leave the array out; its law then sees zero."""
    integer: bool = False
    path: bool = False
    """Whether it is the path of a file, and not a number."""
    choices: tuple[str, ...] = ()
    """The words that it may be, where it is a word and not a number."""
    boolean: bool = False
    """Whether it is true or false, and not a number."""
    nullable: bool = False
    """Whether a config may leave it open, as None, for the component to find out."""

    @property
    def range(self) -> str:
        """The allowed range in words, unit included."""
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

    def check(self, where: str, values: Any) -> None:
        """Raise `ParameterError` for the first of ``values`` that is outside the range.

        Args:
            where: What to call the parameter in the message, e.g. ``"ControllerPD.kp"``.
            values: A scalar or an array of any shape.
        """
        if self.path:
            text = os.fspath(values) if isinstance(values, (str, os.PathLike)) else ""
            if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_PATH or not text.isprintable():
                raise ParameterError(f"{where}: got {shown(values)}; must be {self.range}")
            return
        if self.choices or self.boolean:
            if not (isinstance(values, bool) if self.boolean else isinstance(values, str) and values in self.choices):
                raise ParameterError(f"{where}: got {shown(values)}; must be {self.range}")
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
        if bad.any():
            first = int(np.argmax(bad.ravel()))
            at = f" at index {first}" if numbers.ndim else ""
            raise ParameterError(f"{where}: got {np.ravel(np.asarray(values))[first]}{at}; must be {self.range}")


def _as_numbers(where: str, values: Any, integer: bool) -> np.ndarray:
    """View ``values`` as the precision the kernels use: a double that overflows there is infinite here too."""
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


def unit_at_joint(unit: str, slides: bool) -> str:
    """A declared unit, which is that of a joint that turns, for a joint that turns or slides: N·m/rad is N/m."""
    return unit.replace("N·m", "N").replace("rad", "m") if slides else unit


def param(
    unit: str,
    doc: str,
    *,
    default: Any = dataclasses.MISSING,
    fallback: Any = None,
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
    """Declare a parameter on a `Config`.

    Args:
        unit: SI unit, e.g. ``"N·m/rad"``; ``"1"`` where there is none.
        doc: What it is, in one sentence.
        default: Value when a person leaves it out. Required without one. None leaves it to the component.
        fallback: Value when a file or a builder leaves it out. Follows ``default`` where that is given.
        minimum: Smallest allowed value.
        maximum: Largest allowed value.
        above: Value that it must exceed.
        finite: Refuse infinity.
        shared: One value for the group, not one per DOF.
        optional: A component may be built without the array; its law then sees zero.
        integer: Whole numbers only.
        path: The path of a file, not a number.
        choices: One of these words, not a number.
        boolean: True or false, not a number.
    """
    has_default = default is not dataclasses.MISSING
    declared = Field(
        unit=unit,
        doc=doc,
        minimum=minimum,
        maximum=maximum,
        above=above,
        finite=finite,
        shared=shared,
        fallback=default if has_default else fallback,
        optional=optional,
        integer=integer,
        path=path,
        choices=choices,
        boolean=boolean,
        nullable=default is None,
    )
    metadata = {METADATA_KEY: declared}
    if has_default:
        return dataclasses.field(default=default, metadata=metadata)
    return dataclasses.field(metadata=metadata)
