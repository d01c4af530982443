# SPDX-License-Identifier: Apache-2.0
"""Values of a group's parameters for each joint: from the config, otherwise from the asset."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import require_detached
from ...declare.parameters import Field
from ...errors import ParameterError, listed
from ...patterns import compile_pattern

PARAMETERS: Mapping[str, Field[Any]] = {
    "stiffness": Field(unit="N·m/rad", doc="Position gain.", minimum=0.0),
    "damping": Field(unit="N·m·s/rad", doc="Velocity gain.", minimum=0.0),
    "armature": Field(unit="kg·m²", doc="Inertia of the rotor as seen at the joint: gear_ratio²·J.", minimum=0.0),
    "friction": Field(unit="N·m", doc="Dry friction before the joint moves.", minimum=0.0),
    "dynamic_friction": Field(unit="N·m", doc="Dry friction while it moves.", minimum=0.0),
    "viscous_friction": Field(unit="N·m·s/rad", doc="Friction that grows with speed.", minimum=0.0),
    "effort_limit": Field(unit="N·m", doc="Largest effort of the model.", minimum=0.0, finite=False),
    "effort_limit_sim": Field(unit="N·m", doc="Largest effort that the engine allows.", minimum=0.0, finite=False),
    "velocity_limit": Field(unit="rad/s", doc="Largest speed of the model.", above=0.0, finite=False),
    "velocity_limit_sim": Field(unit="rad/s", doc="Largest speed that the engine allows.", above=0.0, finite=False),
    "saturation_effort": Field(unit="N·m", doc="Stall effort of the motor.", above=0.0, finite=False),
}
"""Parameters with a value for each environment and joint."""

NEWER_NAMES: Mapping[str, str] = {
    "effort_limit": "actuator_effort_limit",
    "effort_limit_sim": "joint_effort_limit",
    "velocity_limit": "actuator_velocity_limit",
    "velocity_limit_sim": "joint_velocity_limit",
}
"""Names of limits in a config of Isaac Lab 3."""


@dataclass(frozen=True)
class Resolved:
    """A parameter of a group with its sources. Values are those of each joint in the first environment."""

    name: str
    asset: np.ndarray | None
    config: list[float | None]
    used: np.ndarray
    source: str


def name_given(cfg: Any, name: str) -> str:
    """Return the name of a parameter in a config, for an error: the newer one if it is used."""
    newer = NEWER_NAMES.get(name, name)
    return name if getattr(cfg, newer, None) is None else newer


def take_newer_names(where: str, cfg: Any, joint_names: Sequence[str]) -> None:
    """Copy limits with newer names in a config to the names that are used here.

    Raises:
        ParameterError: A limit has two names and two values.
    """
    for name, newer in NEWER_NAMES.items():
        given, other = getattr(cfg, newer, None), getattr(cfg, name, None)
        if given is None:
            continue
        declared = PARAMETERS[name]
        numbers = values_by_joint(f"{where}: {newer}", given, joint_names, declared)
        if other is not None and numbers != values_by_joint(f"{where}: {name}", other, joint_names, declared):
            raise ParameterError(f"{where}: {newer} and {name} differ; they are one, so give {newer}")
        setattr(cfg, name, given)


def values_by_joint(where: str, value: Any, joint_names: Sequence[str], declared: Field[Any]) -> list[float]:
    """Return the values of a config entry, a number or a dict of regexes, for each joint.

    Raises:
        ParameterError: A joint has no value or two, a regex matches no joint, or a value is out of range.
    """
    if not isinstance(value, Mapping):
        require_detached(value, where)
        declared.check(where, value)
        if np.ndim(value) != 0:
            raise ParameterError(f"{where}: got {value!r}; must be a number, or a dict of joint regexes to numbers")
        return [float(value)] * len(joint_names)
    found: dict[str, tuple[str, float]] = {}
    for pattern, number in value.items():
        matched = matching(where, pattern, joint_names)
        require_detached(number, f"{where}['{pattern}']")
        declared.check(f"{where}['{pattern}']", number)
        for name in matched:
            if name in found:
                raise ParameterError(f"{where}: joint '{name}' matches '{found[name][0]}' and '{pattern}'")
            found[name] = (pattern, float(number))
    for name in joint_names:
        if name not in found:
            raise ParameterError(f"{where}: joint '{name}' has no value; the regexes are {', '.join(map(repr, value))}")
    return [found[name][1] for name in joint_names]


def matching(where: str, pattern: Any, names: Sequence[str]) -> list[str]:
    """Return the names that a regex matches whole, at least one."""
    try:
        regex = compile_pattern(pattern, names)
    except (re.error, TypeError) as error:
        raise ParameterError(f"{where}: {pattern!r} is not a valid regex: {error}") from error
    found = [name for name in names if regex.fullmatch(name)]
    if not found:
        raise ParameterError(f"{where}: '{pattern}' matches no joint; {listed(str(pattern), names, 'joints')}")
    return found


def asset_values(where: str, value: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return a value of the asset, a number or a tensor of shape (environments, joints), as an array of that shape."""
    require_detached(value, where)
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        return np.array(np.broadcast_to(np.asarray(value, dtype=np.float32), shape))
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{where}: got {value!r}; must be a number, or fit (environments, joints) = {shape}"
        ) from error


def shown_number(value: float | None) -> str:
    """Return a number as text for a table."""
    if value is None:
        return "–"
    return "inf" if math.isinf(value) else f"{value:g}"


def rows_by_parameter(
    resolved: Mapping[str, Resolved], joint_names: Sequence[str], joint_ids: Sequence[int]
) -> dict[str, list[list[str | float | None]]]:
    """Return rows of each parameter, one for each joint: name, index, value of the asset, of the config, used value."""
    table = {}
    for name, r in resolved.items():
        asset = [None] * len(joint_names) if r.asset is None else r.asset[0].tolist()
        rows = zip(joint_names, map(int, joint_ids), asset, r.config, r.used[0].tolist(), strict=True)
        table[name] = [list(row) for row in rows]
    return table


def table_text(
    resolved: Mapping[str, Resolved],
    joint_names: Sequence[str],
    places: Mapping[str, Sequence[str]] | None = None,
    drawn: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return the rows of `rows_by_parameter` as text, with units and sources. ``places`` are places of values in the
    asset, for each joint; ``drawn`` are sources of drawn values."""
    header = ("joint", "parameter", "asset", "config", "used", "unit", "source")
    rows: list[Sequence[str]] = [header]
    for i, joint in enumerate(joint_names):
        for name, r in resolved.items():
            asset = None if r.asset is None else float(r.asset[0, i])
            numbers = (shown_number(asset), shown_number(r.config[i]), shown_number(float(r.used[0, i])))
            place = (places or {}).get(name, [])[i : i + 1] if r.source == "asset" else []
            source = (drawn or {}).get(name, [])[i : i + 1] or [": ".join([r.source, *filter(None, place)])]
            rows.append((joint, name, *numbers, PARAMETERS[name].unit, *source))
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of a table as text, with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def joint_numbers(joint_ids: Any, count: int) -> list[int]:
    """Return indices of joints; a slice may have its start only."""
    if isinstance(joint_ids, slice):
        step = joint_ids.step or 1
        start = (joint_ids.start or 0) if step > 0 else joint_ids.start
        stop = start + count * step if joint_ids.stop is None else joint_ids.stop
        return list(range(start, stop, step))
    return [int(i) for i in joint_ids]
