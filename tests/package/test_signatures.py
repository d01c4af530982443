# SPDX-License-Identifier: Apache-2.0
"""Public signatures say their types."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re

import pytest

UNKNOWN = {
    "Actuator.State": "the states of stages: a component of yours may have any; its owner, which stands after it",
    "Actuator.State.controller_state": "a controller of yours may have any",
    "Actuator.State.drive_state": "a controller of yours may have any",
    "Actuator.State.delay_state": "a delay of yours may have any",
    "OgnArticulationActuators.compute": "OmniGraph's own",
    "OgnArticulationActuators.release": "OmniGraph's own",
    "OgnArticulationActuators.release_instance": "OmniGraph's own",
}
"""Reasons for each Any in public signatures."""
DECLARED = ("actuon.components", "actuon.declare", "actuon.kernel")
"""Modules whose classes take whatever their parameters are declared to be."""


def signatures(name, value):
    """Annotations of a public function, or of a class, its methods and fields: (where, annotation)."""
    if inspect.isclass(value):
        yield from ((f"{name}.{field}", kind) for field, kind in inspect.get_annotations(value).items())
        for member, made in vars(value).items():
            if not member.startswith("_") or (member == "__init__" and not dataclasses.is_dataclass(value)):
                made = made.fget if isinstance(made, property) else getattr(made, "__func__", made)
                yield from signatures(f"{name}.{member}".removesuffix(".__init__"), made)
    elif inspect.isfunction(value):
        signature = inspect.signature(value)
        kinds = [(p.name, p.annotation) for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        assert all(kind is not inspect.Parameter.empty for arg, kind in kinds if arg not in ("self", "cls")), name
        yield from ((name, kind) for kind in (*(kind for _, kind in kinds), signature.return_annotation))


MODULES = (
    "actuon",
    "actuon.gym",
    "actuon.logs",
    "actuon.lab",
    "actuon.mjlab",
    "actuon.mujoco",
    "actuon.newton",
    "actuon.graph",
)


@pytest.mark.parametrize("module", MODULES)
def test_public_signatures_say_their_types(module):
    if module == "actuon.mjlab":
        pytest.importorskip("mjlab", reason="make test-mjlab runs it")
    module = importlib.import_module(module)
    public = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    for name, value in public.items():
        home = getattr(value, "__module__", "")
        if home.startswith("actuon") and not home.startswith(DECLARED):
            for where, kind in signatures(name, value):
                known = re.sub(r"(dict|Mapping)\[str, Any\]", "", str(kind))
                assert not re.search(r"\bAny\b", known) or where in UNKNOWN, f"{where}: {kind}"
