# SPDX-License-Identifier: Apache-2.0
"""What the inputs of a network are, and how they and its output are scaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ParameterError, listed
from ..kernel.structure import custom_signal

COLUMNS = {
    "position": ("q",),
    "target_position": ("target_q",),
    "position_error": ("target_q", "q"),
    "velocity": ("qd",),
    "target_velocity": ("target_qd",),
    "velocity_error": ("target_qd", "qd"),
}
"""Inputs that are made of a DOF's signals: the first, less the second where there are two."""

TARGET = "torque"
"""What the output is called in ``normalization``."""

_HISTORIES = {"position_error": "pos_history", "velocity": "vel_history"}
_EXCLUDED = {
    "input_columns": ("input_order", "pos_scale", "vel_scale"),
    "normalization": ("pos_scale", "vel_scale", "effort_scale"),
}
"""Entries that say in another way what the key says."""


@dataclass(frozen=True)
class Feeding:
    """Each column goes in as (value − mean) · scale, and comes out as output · effort_scale + effort_mean."""

    columns: tuple[str, ...]
    custom_inputs: tuple[str, ...]
    """Those of them that are arrays of the simulation's control, by name."""
    means: tuple[float, ...]
    scales: tuple[float, ...]
    effort_scale: float
    effort_mean: float

    @property
    def is_centred(self) -> bool:
        """Whether a mean has to be taken off."""
        return any(self.means)

    def signals(self, column: str) -> tuple[str, ...]:
        """The signals that a column is made of: the first, less the second where there are two."""
        return (custom_signal(column),) if column in self.custom_inputs else COLUMNS[column]

    def texts(self) -> tuple[str, ...]:
        """The columns as expressions of signals in braces."""
        return tuple(" - ".join(f"{{{name}}}" for name in self.signals(column)) for column in self.columns)

    def histories(self) -> tuple[str, ...]:
        """What the arrays of past values are called, for each column."""
        return tuple(self._history(column) for column in self.columns)

    def _history(self, column: str) -> str:
        name = custom_signal(column) if column in self.custom_inputs else column
        return _HISTORIES.get(name, f"{name}_history")


def feeding(where: str, convention: Mapping[str, Any]) -> Feeding:
    """How a network is fed, from checked entries of its metadata and arguments.

    Args:
        where: What to call the network in an error.
        convention: By name, as `metadata.check_entry` returns them.
    """
    for key, others in _EXCLUDED.items():
        both = [other for other in others if other in convention]
        if key in convention and both:
            raise ParameterError(f"{where}: has {key} and {both[0]}, which say the same in two ways; keep one")
    custom = convention.get("custom_inputs", ())
    order = ("position_error", "velocity")
    columns = convention.get("input_columns", order[::-1] if convention.get("input_order") == "vel_pos" else order)
    _check_columns(where, columns, custom)
    effort_scale = convention.get("effort_scale", 1.0)
    if "normalization" not in convention:
        by_name = {"position_error": convention.get("pos_scale", 1.0), "velocity": convention.get("vel_scale", 1.0)}
        scales = tuple(by_name.get(column, 1.0) for column in columns)
        return Feeding(columns, custom, (0.0,) * len(columns), scales, effort_scale, 0.0)
    inputs, targets = (convention["normalization"][side] for side in ("inputs", "targets"))
    for kind in ("mean", "std"):
        for side, tables, names in (("inputs", inputs, columns), ("targets", targets, (TARGET,))):
            missing = [name for name in names if name not in tables[kind]]
            if missing:
                raise ParameterError(f"{where}: normalization.{side}.{kind}: has no entry for '{missing[0]}'")
    means = tuple(inputs["mean"][column] for column in columns)
    scales = tuple(1.0 / inputs["std"][column] for column in columns)
    return Feeding(columns, custom, means, scales, targets["std"][TARGET], targets["mean"][TARGET])


def _check_columns(where: str, columns: tuple[str, ...], custom: tuple[str, ...]) -> None:
    for name in custom:
        if name in COLUMNS:
            raise ParameterError(f"{where}: custom_inputs: '{name}' is an input that is always there; take it out")
        if name not in columns:
            raise ParameterError(f"{where}: custom_inputs: '{name}' is not in input_columns, {', '.join(columns)}")
    for column in columns:
        if column not in COLUMNS and column not in custom:
            raise ParameterError(
                f"{where}: input_columns: '{column}' is not known, and is not in custom_inputs, which names arrays of "
                f"the simulation's control; {listed(column, (*COLUMNS, *custom), 'columns')}"
            )
