# SPDX-License-Identifier: Apache-2.0
"""What a network file may say of itself. What is not understood is an error: the network may be fed wrongly."""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ParameterError, listed, shown

CONVENTION = (
    "input_order", "input_idx", "pos_scale", "vel_scale", "effort_scale", "sample_dt", "input_columns",
    "custom_inputs", "normalization",
)  # fmt: skip
"""How a network is fed."""

GRAPH_NAMES = ("input_name", "hidden_in_name", "cell_in_name", "output_name", "hidden_out_name", "cell_out_name")
"""What an ONNX graph calls its inputs and outputs, as Newton writes it."""

SIZES = ("num_layers", "hidden_size")
"""The recurrent layers, and the units of each, as Newton writes it."""

SAME = {"torque_scale": "effort_scale", "sample_dt_s": "sample_dt"}
"""Other names for entries."""

RANGE = "input_range"
"""Lowest and highest value of each input in what a network was trained on, by the name of its column, not scaled."""

KEYS = ("model_type", *CONVENTION, *SIZES, *GRAPH_NAMES, RANGE)

HARMLESS = (
    "author", "date", "description", "license", "name", "notes", "source",  # for people
    "model_author", "model_license",  # of the ONNX standard
    "format",  # the framework that wrote a safetensors file, such as "pt"
)  # fmt: skip
"""Entries that say nothing about how a network is fed."""

HARMLESS_PREFIXES = ("pkg.", "onnx.")
"""Starts of entries that tools write by themselves into ONNX files: PyTorch's exporter, ONNX Runtime."""

MOST_STEPS = 1000
"""Furthest step back that a network may see: the history is kept for every DOF and moved at every step."""

_CHOICES = {"model_type": ("mlp", "lstm", "gru"), "input_order": ("pos_vel", "vel_pos")}
_FLOAT = np.finfo(np.float32)


def checked_metadata(path: Path, found: Mapping[str, Any], extra: tuple[str, ...] = ()) -> dict[str, Any]:
    """Decode metadata, either one JSON entry ``metadata`` or an entry per key, and check all of it.

    Args:
        path: The file, for errors.
        found: Its entries as text.
        extra: Entries that are known in this format, beside `KEYS`.
    """
    for key in found:
        if not isinstance(key, str):
            raise ParameterError(f"'{path}': its metadata has the key {shown(key)}; must be text in UTF-8")
    if "metadata" in found:
        beside = [key for key in found if key != "metadata" and not is_harmless(key)]
        if beside:
            raise ParameterError(f"'{path}': has '{beside[0]}' beside the JSON entry 'metadata'; move it in there")
        entries = decoded(path, found["metadata"])
    else:
        entries = {key: text if key in GRAPH_NAMES else _value(text) for key, text in found.items()}
    return checked_entries(f"'{path}'", entries, extra)


def decoded(path: Path, text: Any) -> dict[str, Any]:
    """The entries of one JSON text."""
    try:
        entries = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ParameterError(f"'{path}': metadata is not valid JSON: {error}") from error
    if not isinstance(entries, dict):
        raise ParameterError(f"'{path}': metadata is a {type(entries).__name__}; must be a JSON object")
    return entries


def _value(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return text


def is_harmless(key: str) -> bool:
    """Whether an entry says nothing about how a network is fed."""
    return key in HARMLESS or key.startswith(HARMLESS_PREFIXES)


def checked_entries(where: str, entries: Mapping[str, Any], extra: tuple[str, ...] = ()) -> dict[str, Any]:
    """Check all entries, and return them by their usual names."""
    checked: dict[str, Any] = {}
    for name, value in entries.items():
        key = SAME.get(name, name)
        if key in checked:
            other = next(n for n in entries if SAME.get(n, n) == key)
            raise ParameterError(f"{where}: has {other} and {name}, which mean the same; keep one")
        if key in KEYS:
            checked[key] = check_entry(f"{where}: {key}", key, value)
        elif key in extra or is_harmless(key):
            checked[key] = value
        else:
            known = (*KEYS, *SAME, *extra)
            raise ParameterError(
                f"{where}: its metadata has '{shown(key)[1:-1]}', which is not understood, so that the network may be "
                f"fed wrongly. What is only for people goes under 'notes'; {listed(key, known, 'known')}"
            )
    return checked


def check_entry(where: str, key: str, value: Any) -> Any:
    """Check one entry, from a file or an argument, and return it as it is used."""
    if key in _CHOICES:
        if not isinstance(value, str) or value not in _CHOICES[key]:
            raise ParameterError(f"{where}: got {shown(value)}; must be one of {', '.join(_CHOICES[key])}")
        return value
    if key in GRAPH_NAMES:
        if not isinstance(value, str) or not value:
            raise ParameterError(f"{where}: got {shown(value)}; must be the name of an input or output of the graph")
        return value
    if key in SIZES:
        return whole_number(where, value, least=1)
    special = {
        "input_idx": _checked_steps,
        "input_columns": _checked_columns,
        "custom_inputs": _checked_custom,
        "normalization": _checked_normalization,
        RANGE: _checked_ranges,
    }
    return special[key](where, value) if key in special else _checked_number(where, key, value)


def whole_number(where: str, value: Any, least: int) -> int:
    """Return a count as an int; JSON of some writers has 2.0 for 2."""
    number = _number(value)
    if not number >= least or not number.is_integer():
        raise ParameterError(f"{where}: got {shown(value)}; must be a whole number ≥ {least}")
    return int(number)


def _checked_number(where: str, key: str, value: Any) -> float:
    number = _number(value)
    if key == "sample_dt":
        if not 0.0 < number < math.inf:
            raise ParameterError(f"{where}: got {shown(value)}; must be a finite number > 0 [s]")
    elif not float(_FLOAT.tiny) <= abs(number) <= float(_FLOAT.max):
        raise ParameterError(
            f"{where}: got {shown(value)}; must be a number other than 0 that 32 bits hold, "
            f"{_FLOAT.tiny:.1e} to {_FLOAT.max:.1e} in size"
        )
    return number


def _number(value: Any) -> float:
    """A number as it is; NaN for all else."""
    try:
        is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        return float(value) if is_number else math.nan
    except OverflowError:
        return math.inf


def _checked_steps(where: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    steps = list(value) if isinstance(value, (list, tuple, range)) else [value]
    if not steps or not all(type(step) is int and 0 <= step <= MOST_STEPS for step in steps):
        raise ParameterError(
            f"{where}: got {shown(value)}; must be a list of history steps, whole numbers from 0 (now) to {MOST_STEPS}"
        )
    return tuple(steps)


def _checked_columns(where: str, value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)
    if not is_list or not value or len(set(value)) < len(value):
        raise ParameterError(f"{where}: got {shown(value)}; must be a list of different names, one for each input")
    return tuple(value)


def _checked_custom(where: str, value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)
    if not is_list or not all(name.isidentifier() and not keyword.iskeyword(name) for name in value):
        raise ParameterError(f"{where}: got {shown(value)}; must be a list of names of arrays, as Python spells names")
    return tuple(dict.fromkeys(value))


def _checked_normalization(where: str, value: Any) -> dict[str, dict[str, dict[str, float]]]:
    """``inputs`` and ``targets``, each with ``mean`` and ``std``, each a number by name."""
    result: dict[str, dict[str, dict[str, float]]] = {}
    for side, tables in _parts(where, value, ("inputs", "targets")).items():
        result[side] = {}
        for kind, numbers in _parts(f"{where}.{side}", tables, ("mean", "std")).items():
            here = f"{where}.{side}.{kind}"
            if not isinstance(numbers, Mapping):
                raise ParameterError(f"{here}: got {shown(numbers)}; must be an object with a number by name")
            result[side][kind] = {}
            for name, entry in numbers.items():
                number = _number(entry)
                if not abs(number) <= float(_FLOAT.max) or (kind == "std" and not number >= float(_FLOAT.tiny)):
                    wanted = "a finite number > 0" if kind == "std" else "a finite number"
                    raise ParameterError(f"{here}.{name}: got {shown(entry)}; must be {wanted} that 32 bits hold")
                result[side][kind][name] = number
    return result


def _checked_ranges(where: str, value: Any) -> dict[str, tuple[float, float]]:
    """Two numbers by name, the first not above the second."""
    if not isinstance(value, Mapping):
        raise ParameterError(f"{where}: got {shown(value)}; must be an object with two numbers by name")
    result = {}
    for name, ends in value.items():
        low, high = (_number(end) for end in ends) if isinstance(ends, (list, tuple)) and len(ends) == 2 else (1.0, 0.0)
        if not -math.inf < low <= high < math.inf:
            raise ParameterError(f"{where}.{name}: got {shown(ends)}; must be two finite numbers, the lower one first")
        result[str(name)] = low, high
    return result


def _parts(where: str, value: Any, names: tuple[str, str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or set(value) != set(names):
        raise ParameterError(f"{where}: got {shown(value)}; must be an object with {' and '.join(names)}")
    return value
