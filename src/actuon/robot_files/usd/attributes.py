# SPDX-License-Identifier: Apache-2.0
"""Mapping between the parameters of a config and the attributes of a prim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pxr import Sdf, Usd, Vt

from ...actuator.config import EFFORT_MODE
from ...declare.parameters import Field, rounded
from ...declare.registry import Registered, camel_case, snake_case
from ...errors import RobotFileError

ACTUATOR = "NewtonActuator"
TARGETS = "newton:targets"
RELATIONSHIP = ("rel",)
IN_ORDER = "ActuonInOrderAPI"
"""Schema without attributes: the stages act in the order of the applied schemas, instead of the usual order."""
CONTROL_EVERY = "actuon:controlEvery"
"""Attribute for ``control_every``. Default: 1."""
EFFORT_MODE_ATTRIBUTE = "actuon:effortMode"
"""Attribute for ``effort_mode``. Default: explicit."""
AUTHORED = "authored"
SCHEMA_DEFAULT = "schema default"


def attribute_names(schema: Registered) -> dict[str, str]:
    """Return the attribute of each parameter. A schema that USD knows may have another namespace."""
    definition = Usd.SchemaRegistry().FindAppliedAPIPrimDefinition(schema.schema_name)
    known = {}
    for name in definition.GetPropertyNames() if definition is not None else ():
        if definition.GetSpecType(name) == Sdf.SpecTypeAttribute:
            known[name.rpartition(":")[2]] = name
    if schema.config is None:
        return {snake_case(name): attribute for name, attribute in known.items()}
    names = {name: camel_case(name) for name in schema.config.declared()}
    return {name: known.get(camel, f"{schema.namespace}:{camel}") for name, camel in names.items()}


def value_type(declared: Field[object]) -> Sdf.ValueTypeName:
    """Return the USD type of a parameter."""
    if declared.path:
        return Sdf.ValueTypeNames.Asset
    if declared.choices:
        return Sdf.ValueTypeNames.Token
    if declared.boolean:
        return Sdf.ValueTypeNames.Bool
    if declared.shared:
        return Sdf.ValueTypeNames.IntArray if declared.integer else Sdf.ValueTypeNames.FloatArray
    return Sdf.ValueTypeNames.Int if declared.integer else Sdf.ValueTypeNames.Float


_WHOLE = ("int", "uint", "int64", "uint64", "uchar")
_NUMBERS = ("float", "double", "half", *_WHOLE)


def _readable_types(declared: Field[object]) -> tuple[str, ...]:
    """Return the USD types that a parameter is read from; the first one is also written."""
    if declared.path:
        return ("asset",)
    if declared.choices:
        return ("token", "string")
    if declared.boolean:
        return ("bool",)
    if declared.shared:
        return tuple(f"{name}[]" for name in (_WHOLE if declared.integer else _NUMBERS))
    return _WHOLE if declared.integer else _NUMBERS


def check_kind(prim: Usd.Prim, name: str, allowed: Sequence[str]) -> None:
    """Raise an error if a property is authored with another type: USD would return its default, or fail.

    Args:
        prim: The prim.
        name: The property's name.
        allowed: Names of types of attributes, or ``"rel"``.
    """
    stack = prim.GetProperty(name).GetPropertyStack()
    if not stack:
        return
    valued = [spec for spec in stack if isinstance(spec, Sdf.AttributeSpec) and spec.HasDefaultValue()]
    strongest = valued[0] if valued and "rel" not in allowed else stack[0]
    kind = str(strongest.typeName) if isinstance(strongest, Sdf.AttributeSpec) else "rel"
    if kind not in allowed:
        raise RobotFileError(f"{name} is authored as '{kind}'; must be '{allowed[0]}'")


def read_control_every(prim: Usd.Prim) -> Any:
    """Return ``control_every`` of an actuator [steps]."""
    check_kind(prim, CONTROL_EVERY, _WHOLE)
    attribute = prim.GetAttribute(CONTROL_EVERY)
    value = _value(attribute, None) if attribute else None
    return 1 if value is None else value


def read_effort_mode(prim: Usd.Prim) -> Any:
    """Return ``effort_mode`` of an actuator."""
    check_kind(prim, EFFORT_MODE_ATTRIBUTE, _readable_types(EFFORT_MODE))
    attribute = prim.GetAttribute(EFFORT_MODE_ATTRIBUTE)
    value = _value(attribute, EFFORT_MODE) if attribute else None
    return EFFORT_MODE.fallback if value is None else value


def usd_value(declared: Field[object], value: object) -> Any:
    """Return a parameter's value as its USD type."""
    if declared.path:
        return Sdf.AssetPath(value)
    if declared.shared:
        return Vt.IntArray(value) if declared.integer else Vt.FloatArray(value)
    return value


def read_parameters(prim: Usd.Prim, schema: Registered) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Return the values of a schema's attributes by parameter, defaults included, and the source of each."""
    names = attribute_names(schema)
    if schema.config is None and not names:  # USD does not know the schema: what is authored is all there is
        authored = [
            p.GetName() for p in prim.GetAuthoredPropertiesInNamespace("newton") if isinstance(p, Usd.Attribute)
        ]
        names = {snake_case(name.removeprefix("newton:")): name for name in authored}
    declared = schema.config.declared() if schema.config is not None else {}
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, attribute_name in names.items():
        if name in declared:
            check_kind(prim, attribute_name, _readable_types(declared[name]))
        attribute = prim.GetAttribute(attribute_name)
        value = _value(attribute, declared.get(name)) if attribute else None
        if value is None:
            value = declared[name].fallback if name in declared else None
        if value is None:
            continue
        values[name] = value
        sources[name] = AUTHORED if attribute and attribute.HasAuthoredValue() else SCHEMA_DEFAULT
    return values, sources


def _value(attribute: Usd.Attribute, declared: Field[object] | None) -> Any:
    value = attribute.Get()
    plain = attribute.GetResolveInfo(Usd.TimeCode.Default()).GetSource() == Usd.ResolveInfoSourceDefault
    if not plain and attribute.HasAuthoredValue():
        raise RobotFileError(f"{attribute.GetName()} varies over time; must be one plain value")
    if isinstance(value, Sdf.AssetPath):
        return _resolved(attribute, value)
    if isinstance(value, float):
        return rounded(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Sdf.AssetPathArray):
        return tuple(_resolved(attribute, asset) for asset in value)
    if isinstance(value, (Vt.StringArray, Vt.TokenArray)):
        return tuple(value)
    try:
        numbers = np.array(value)
    except (TypeError, ValueError):
        return value
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf":
        return value
    if declared is not None:
        declared.check(attribute.GetName(), numbers)
    number_type = int if declared is not None and declared.integer else rounded
    return tuple(number_type(number) for number in numbers)


def _resolved(attribute: Usd.Attribute, asset: Sdf.AssetPath) -> str | None:
    """Return the file of an asset path. If USD did not resolve it, it is relative to the layer that authors it."""
    if not asset.path:
        return None
    if asset.resolvedPath:
        return asset.resolvedPath
    stack = attribute.GetPropertyStack()
    return stack[0].layer.ComputeAbsolutePath(asset.path) if stack else asset.path
