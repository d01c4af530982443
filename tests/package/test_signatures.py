# SPDX-License-Identifier: Apache-2.0
"""Public signatures say their types."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

UNKNOWN = {
    "Actuator.State": "the states of stages: a component of yours may have any; its owner, which stands after it",
    "Actuator.State.controller_state": "a controller of yours may have any",
    "Actuator.State.drive_state": "a controller of yours may have any",
    "Actuator.State.delay_state": "a delay of yours may have any",
    "OgnArticulationActuators.compute": "OmniGraph's own",
    "OgnArticulationActuators.release": "OmniGraph's own",
    "OgnArticulationActuators.release_instance": "OmniGraph's own",
}
"""What is Any in public signatures, and why."""
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


PROGRAM = """
from typing import assert_type
import numpy as np
import actuon

class Soft(actuon.Parameters):
    most: actuon.Number = actuon.param("N·m", "Effort approached.", above=0.0)
    steps: actuon.Whole = actuon.param("1", "A count.", default=3, integer=True)

class ClampingSoft(Soft, actuon.Clamping): ...
class SoftConfig(Soft, actuon.Config): ...

class SoftestConfig(actuon.Config):
    most: float = actuon.param("N·m", "Effort approached.", above=0.0)

assert_type(actuon.PDControlConfig(40.0, kd=1.0).kp, float)
assert_type(actuon.GearTransmissionConfig(2.0).backdrive_efficiency, float | None)
assert_type(actuon.LinkageTransmissionConfig((0.0, 1.0), (0.0, 2.0)).joint_positions, tuple[float, ...])
assert_type(actuon.DelayConfig(2).delay_steps, int)
assert_type(SoftConfig(1.0).steps, int)
assert_type(SoftestConfig(1.0).most, float)
controller = actuon.ControllerPD(np.ones(3), 1.0)
controller.kp = 3.0
controller.kd = np.ones(3)
print(controller.kp.numpy(), ClampingSoft(1.0, 2).most.numpy())
"""
WRONG = {
    "controller.kq": '"ControllerPD" has no attribute "kq"',
    "controller.kq = 1.0": '"ControllerPD" has no attribute "kq"',
    "actuon.ControllerPD(1.0)": 'Missing positional argument "kd" in call to "ControllerPD"',
    "actuon.ControllerPD(1.0, 1.0, gain=3)": 'Unexpected keyword argument "gain" for "ControllerPD"',
    "actuon.PDControlConfig(1.0, 1.0, gain=3)": 'Unexpected keyword argument "gain" for "PDControlConfig"',
    "actuon.PDControlConfig(1.0, 1.0).gain": '"PDControlConfig" has no attribute "gain"',
    "ClampingSoft(1.0).least": '"ClampingSoft" has no attribute "least"',
    "ClampingSoft(least=1.0)": 'Unexpected keyword argument "least" for "ClampingSoft"',
}
"""What a type checker says of a line after `PROGRAM`."""


def test_a_type_checker_knows_parameters(tmp_path):
    pytest.importorskip("mypy")
    code = PROGRAM.splitlines()
    (tmp_path / "program.py").write_text("\n".join([*code, *WRONG]), "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file="]
    command += ["--cache-dir", ROOT / ".mypy_cache", "--python-version=3.11", "--allow-untyped-calls", "program.py"]
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    found = re.findall(r"program\.py:(\d+): error: (.*?)  \[", done.stdout)
    expected = [(str(len(code) + i + 1), text) for i, text in enumerate(WRONG.values())]
    assert found == expected, done.stdout + done.stderr
