# SPDX-License-Identifier: Apache-2.0
"""Between a config's parameters and a prim's attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pxr import Sdf, Usd, Vt

from ..errors import RobotFileError
from ..fields import Field, rounded
from ..spec.registry import Registered, camel_case, snake_case

ACTUATOR = "NewtonActuator"
TARGETS = "newton:targets"
AUTHORED = "authored"
SCHEMA_DEFAULT = "schema default"


def attribute_names(schema: Registered) -> dict[str, str]:
    """The attribute of each parameter. A schema that USD knows may have them in a namespace of its own."""
    definition = Usd.SchemaRegistry().FindAppliedAPIPrimDefinition(schema.schema_name)
    known = {}
    for name in definition.GetPropertyNames() if definition is not None else ():
        if definition.GetSpecType(name) == Sdf.SpecTypeAttribute:
            known[name.rpartition(":")[2]] = name
    if schema.config is None:
        return {snake_case(name): attribute for name, attribute in known.items()}
    names = {name: camel_case(name) for name in schema.config.declared()}
    return {name: known.get(camel, f"newton:{camel}") for name, camel in names.items()}


def value_type(declared: Field) -> Any:
    """The USD type of a parameter."""
    if declared.path:
        return Sdf.ValueTypeNames.Asset
    if declared.shared:
        return Sdf.ValueTypeNames.FloatArray
    return Sdf.ValueTypeNames.Int if declared.integer else Sdf.ValueTypeNames.Float


def usd_value(declared: Field, value: Any) -> Any:
    """A parameter's value as that type."""
    if declared.path:
        return Sdf.AssetPath(value)
    return Vt.FloatArray(value) if declared.shared else value


def read_parameters(prim: Any, schema: Registered) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Values of a schema's attributes by parameter name, defaults included, and where each comes from."""
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
        attribute = prim.GetAttribute(attribute_name)
        value = _value(attribute) if attribute else None
        if value is None:
            value = declared[name].fallback if name in declared else None
        if value is None:
            continue
        values[name] = value
        sources[name] = AUTHORED if attribute and attribute.HasAuthoredValue() else SCHEMA_DEFAULT
    return values, sources


def _value(attribute: Any) -> Any:
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
    return tuple(rounded(number) for number in numbers) if numbers.ndim == 1 and numbers.dtype.kind == "f" else value


def _resolved(attribute: Any, asset: Any) -> str | None:
    """The file that an asset path means: relative to the layer that says so, as far as USD has not found it."""
    if not asset.path:
        return None
    if asset.resolvedPath:
        return asset.resolvedPath
    stack = attribute.GetPropertyStack()
    return stack[0].layer.ComputeAbsolutePath(asset.path) if stack else asset.path
