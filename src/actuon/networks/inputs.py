# SPDX-License-Identifier: Apache-2.0
"""Inputs of a network: their description in a file's metadata, and the scales of inputs and output.

Unknown metadata is an error, since the network might get wrong inputs.
"""

from __future__ import annotations

import functools
import json
import keyword
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ParameterError, listed, shown
from ..kernel.chain import custom_signal

CONVENTION = (
    "input_order", "input_idx", "pos_scale", "vel_scale", "effort_scale", "sample_dt", "input_columns",
    "custom_inputs", "normalization",
)  # fmt: skip
"""Entries about inputs and scales."""

GRAPH_NAMES = ("input_name", "hidden_in_name", "cell_in_name", "output_name", "hidden_out_name", "cell_out_name")
"""Entries with the names of an ONNX graph's inputs and outputs, as Newton writes them."""

_ALIASES = {"torque_scale": "effort_scale", "sample_dt_s": "sample_dt"}
"""Other names for entries."""

RANGE = "input_range"
"""Lowest and highest value of each input in the training data, by the name of its column, not scaled."""

_HARMLESS = (
    "author", "date", "description", "license", "name", "notes", "source",  # for people
    "model_author", "model_license",  # of the ONNX standard
    "format",  # the framework that wrote a safetensors file, such as "pt"
)  # fmt: skip
"""Entries that do not affect the inputs."""

_HARMLESS_PREFIXES = ("pkg.", "onnx.")
"""Prefixes of entries that PyTorch's exporter and ONNX Runtime write into ONNX files."""

_MOST_STEPS = 1000
"""Longest history of a network [steps]: it is stored for every DOF and moved at every step."""

_COLUMNS = {
    "position": ("q",),
    "target_position": ("target_q",),
    "position_error": ("target_q", "q"),
    "velocity": ("qd",),
    "target_velocity": ("target_qd",),
    "velocity_error": ("target_qd", "qd"),
}
"""Built-in inputs, as signals of a DOF: the first, minus the second if there are two."""

_OUTPUT = "torque"
"""Name of the output in ``normalization``."""

_HISTORIES = {"position_error": "pos_history", "velocity": "vel_history"}
_EXCLUDED = {
    "input_columns": ("input_order", "pos_scale", "vel_scale"),
    "normalization": ("pos_scale", "vel_scale", "effort_scale"),
}
"""Entries that must not be combined with the key."""

_FLOAT = np.finfo(np.float32)


@dataclass(frozen=True)
class InputSpec:
    """Columns and scales of a network.

    Each input is (value − mean) · scale; the effort is output · effort_scale + effort_mean.
    """

    columns: tuple[str, ...]
    custom_inputs: tuple[str, ...]
    """Columns that are arrays of the simulation's control, by name."""
    means: tuple[float, ...]
    scales: tuple[float, ...]
    effort_scale: float
    effort_mean: float

    @classmethod
    def from_metadata(cls, where: str, convention: Mapping[str, Any]) -> InputSpec:
        """Read the inputs from checked entries of metadata and arguments.

        Args:
            where: The network's name in errors.
            convention: Entries by name, as `check_entry` returns them.
        """
        for key, others in _EXCLUDED.items():
            both = [other for other in others if other in convention]
            if key in convention and both:
                raise ParameterError(f"{where}: has {key} and {both[0]}, which define the same inputs; keep one")
        custom = convention.get("custom_inputs", ())
        order = ("position_error", "velocity")
        columns = convention.get("input_columns", order[::-1] if convention.get("input_order") == "vel_pos" else order)
        _check_columns(where, columns, custom)
        effort_scale = convention.get("effort_scale", 1.0)
        if "normalization" not in convention:
            by_name = {"position_error": convention.get("pos_scale", 1.0), "velocity": convention.get("vel_scale", 1.0)}
            scales = tuple(by_name.get(column, 1.0) for column in columns)
            return cls(columns, custom, (0.0,) * len(columns), scales, effort_scale, 0.0)
        inputs, targets = (convention["normalization"][side] for side in ("inputs", "targets"))
        for kind in ("mean", "std"):
            for side, tables, names in (("inputs", inputs, columns), ("targets", targets, (_OUTPUT,))):
                missing = [name for name in names if name not in tables[kind]]
                if missing:
                    raise ParameterError(f"{where}: normalization.{side}.{kind}: has no entry for '{missing[0]}'")
        means = tuple(inputs["mean"][column] for column in columns)
        scales = tuple(1.0 / inputs["std"][column] for column in columns)
        return cls(columns, custom, means, scales, targets["std"][_OUTPUT], targets["mean"][_OUTPUT])

    @property
    def is_centred(self) -> bool:
        """Whether any column has a mean to subtract."""
        return any(self.means)

    def signals(self, column: str) -> tuple[str, ...]:
        """Return the signals of a column: the first, minus the second if there are two."""
        return (custom_signal(column),) if column in self.custom_inputs else _COLUMNS[column]

    def expressions(self) -> tuple[str, ...]:
        """Return the columns as expressions of signals in braces."""
        return tuple(" - ".join(f"{{{name}}}" for name in self.signals(column)) for column in self.columns)

    def histories(self) -> tuple[str, ...]:
        """Return the name of each column's array of past values."""
        return tuple(self._history(column) for column in self.columns)

    def _history(self, column: str) -> str:
        name = custom_signal(column) if column in self.custom_inputs else column
        return _HISTORIES.get(name, f"{name}_history")


def _check_columns(where: str, columns: tuple[str, ...], custom: tuple[str, ...]) -> None:
    for name in custom:
        if name in _COLUMNS:
            raise ParameterError(f"{where}: custom_inputs: '{name}' is a built-in input; remove it from custom_inputs")
        if name not in columns:
            raise ParameterError(f"{where}: custom_inputs: '{name}' is not in input_columns, {', '.join(columns)}")
    for column in columns:
        if column not in _COLUMNS and column not in custom:
            raise ParameterError(
                f"{where}: input_columns: '{column}' is neither a built-in input nor in custom_inputs, the names of "
                f"arrays in the simulation's control; {listed(column, (*_COLUMNS, *custom), 'columns')}"
            )


def check_metadata(path: Path, found: Mapping[str, str], extra: tuple[str, ...] = ()) -> dict[str, Any]:
    """Decode metadata, either one JSON entry ``metadata`` or an entry per key, and check all entries.

    Args:
        path: The file, for errors.
        found: Entries as text.
        extra: Additional entries that this format allows.
    """
    for key in found:
        if not isinstance(key, str):
            raise ParameterError(f"'{path}': its metadata has the key {shown(key)}; must be text in UTF-8")
    if "metadata" in found:
        beside = [key for key in found if key != "metadata" and not _is_harmless(key)]
        if beside:
            raise ParameterError(f"'{path}': has '{beside[0]}' next to the JSON entry 'metadata'; move it into that")
        entries = _decoded(path, found["metadata"])
    else:
        entries = {key: text if key in GRAPH_NAMES else _value(text) for key, text in found.items()}
    return check_entries(f"'{path}'", entries, extra)


def _decoded(path: Path, text: str) -> dict[str, Any]:
    """Return the entries of one JSON text."""
    try:
        entries = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ParameterError(f"'{path}': metadata is not valid JSON: {error}") from error
    if not isinstance(entries, dict):
        raise ParameterError(f"'{path}': metadata is a {type(entries).__name__}; must be a JSON object")
    return entries


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return text


def _is_harmless(key: str) -> bool:
    """Return whether an entry does not affect the inputs of a network."""
    return key in _HARMLESS or key.startswith(_HARMLESS_PREFIXES)


def check_entries(where: str, entries: Mapping[str, object], extra: tuple[str, ...] = ()) -> dict[str, Any]:
    """Check all entries, and return them by their usual names."""
    checked: dict[str, Any] = {}
    for name, value in entries.items():
        key = _ALIASES.get(name, name)
        if key in checked:
            other = next(n for n in entries if _ALIASES.get(n, n) == key)
            raise ParameterError(f"{where}: has {other} and {name}, which mean the same; keep one")
        if key in _CHECKS:
            checked[key] = check_entry(f"{where}: {key}", key, value)
        elif key in extra or _is_harmless(key):
            checked[key] = value
        else:
            known = (*_CHECKS, *_ALIASES, *extra)
            raise ParameterError(
                f"{where}: its metadata has the unknown entry '{shown(key)[1:-1]}', so the network might get wrong "
                f"inputs. Move text for people to 'notes'; {listed(key, known, 'entries')}"
            )
    return checked


def check_entry(where: str, key: str, value: object) -> Any:
    """Check one entry, from a file or an argument, and return its value."""
    return _CHECKS[key](where, value)


def _checked_choice(where: str, value: object, *, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(f"{where}: got {shown(value)}; must be one of {', '.join(choices)}")
    return value


def _checked_graph_name(where: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ParameterError(f"{where}: got {shown(value)}; must be the name of an input or output of the graph")
    return value


def whole_number(where: str, value: object, least: int = 1) -> int:
    """Return a count as an int. Some writers of JSON write 2.0 for 2."""
    number = _number(value)
    if not number >= least or not number.is_integer():
        raise ParameterError(f"{where}: got {shown(value)}; must be a whole number ≥ {least}")
    return int(number)


def _checked_time(where: str, value: object) -> float:
    number = _number(value)
    if not 0.0 < number < math.inf:
        raise ParameterError(f"{where}: got {shown(value)}; must be a finite number > 0 [s]")
    return number


def _checked_scale(where: str, value: object) -> float:
    number = _number(value)
    if not float(_FLOAT.tiny) <= abs(number) <= float(_FLOAT.max):
        raise ParameterError(
            f"{where}: got {shown(value)}; must be a number with a magnitude from {_FLOAT.tiny:.1e} to "
            f"{_FLOAT.max:.1e}, the range of 32 bits"
        )
    return number


def _number(value: object) -> float:
    """Return a number as a float, and NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _checked_steps(where: str, value: object) -> tuple[int, ...]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    given = list(value) if isinstance(value, (list, tuple, range)) else [value]
    steps = tuple(step for step in given if type(step) is int and 0 <= step <= _MOST_STEPS)
    if not given or len(steps) < len(given):
        raise ParameterError(
            f"{where}: got {shown(value)}; must be a list of history steps, whole numbers from 0 (now) to {_MOST_STEPS}"
        )
    return steps


def _names(value: object) -> tuple[str, ...] | None:
    """Return a list of names; None for anything else."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        return None
    return tuple(value)


def _checked_columns(where: str, value: object) -> tuple[str, ...]:
    names = _names(value)
    if not names or len(set(names)) < len(names):
        raise ParameterError(f"{where}: got {shown(value)}; must be a list of different names, one for each input")
    return names


def _checked_custom(where: str, value: object) -> tuple[str, ...]:
    names = _names(value)
    if names is None or not all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
        raise ParameterError(f"{where}: got {shown(value)}; must be a list of names of arrays, valid Python names")
    return tuple(dict.fromkeys(names))


def _checked_normalization(where: str, value: object) -> dict[str, dict[str, dict[str, float]]]:
    """Return ``inputs`` and ``targets``, each with ``mean`` and ``std``, each a number by name."""
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


def _checked_ranges(where: str, value: object) -> dict[str, tuple[float, float]]:
    """Return two numbers by name, the first not above the second."""
    if not isinstance(value, Mapping):
        raise ParameterError(f"{where}: got {shown(value)}; must be an object with two numbers by name")
    result = {}
    for name, ends in value.items():
        low, high = (_number(end) for end in ends) if isinstance(ends, (list, tuple)) and len(ends) == 2 else (1.0, 0.0)
        if not -math.inf < low <= high < math.inf:
            raise ParameterError(f"{where}.{name}: got {shown(ends)}; must be two finite numbers, the lower one first")
        result[str(name)] = low, high
    return result


def _parts(where: str, value: object, names: tuple[str, str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or set(value) != set(names):
        raise ParameterError(f"{where}: got {shown(value)}; must be an object with {' and '.join(names)}")
    return value


_CHECKS: dict[str, Callable[[str, object], Any]] = {
    "model_type": functools.partial(_checked_choice, choices=("mlp", "lstm", "gru")),
    "input_order": functools.partial(_checked_choice, choices=("pos_vel", "vel_pos")),
    "input_idx": _checked_steps,
    "pos_scale": _checked_scale,
    "vel_scale": _checked_scale,
    "effort_scale": _checked_scale,
    "sample_dt": _checked_time,
    "input_columns": _checked_columns,
    "custom_inputs": _checked_custom,
    "normalization": _checked_normalization,
    "num_layers": whole_number,
    "hidden_size": whole_number,
    **dict.fromkeys(GRAPH_NAMES, _checked_graph_name),
    RANGE: _checked_ranges,
}
"""Check of each known entry. Sizes and names of the graph are those that Newton writes."""
