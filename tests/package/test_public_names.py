# SPDX-License-Identifier: Apache-2.0
"""Tests, fuzzers and benchmarks use public names only: what is behind them may change without their notice."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from pathlib import Path

import pytest

import actuon
from tests.support.paths import ROOT

FOLDERS = ("tests", "fuzz", "benchmarks")
ALLOWED = {
    "os._exit": "documented: ends a forked child without the parent's clean-up",
    "threading._register_atexit": "no public way to run something after the last thread has ended",
}
"""Private names of others that nothing public stands for, and why."""
BY_NAME = {"getattr", "setattr", "delattr", "hasattr", "attrgetter", "patch", "import_module", "importorskip"}
"""Functions that are told an attribute or a module as text."""
OWN = ("self", "cls")


def is_private(name):
    """Whether one of the parts of a dotted name begins with one underscore."""
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def is_own(node):
    return isinstance(node, ast.Name) and node.id in OWN


def text_of(node):
    """A string, with a name in the place of each value that is formatted into it; None for anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "x" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def private_in_call(node):
    """Private names that a function is told as text."""
    function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if function in BY_NAME and not (node.args and is_own(node.args[0])):
        yield from (text for text in map(text_of, node.args) if text and " " not in text and is_private(text))


def private_names(tree):
    """Line and text of each private name in a module, and in the code that it has as text."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        found, text = [], None if id(node) in inside else text_of(node)
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node.value):
            found = [ast.unparse(node)]
        elif isinstance(node, ast.ImportFrom):
            found = [name for alias in node.names if is_private(name := f"{node.module}.{alias.name}")]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names if is_private(alias.name)]
        elif isinstance(node, ast.Call):
            found = private_in_call(node)
        elif isinstance(node, ast.Subscript) and is_private(text_of(node.slice) or ""):
            is_namespace = ast.unparse(node.value).startswith("vars(") or ast.unparse(node.value).endswith(".__dict__")
            found = [ast.unparse(node)] if is_namespace else []
        elif text is not None and ("\n" in text or "import " in text):
            found = [name for _, name in private_names(parsed(text))]
        yield from ((getattr(node, "lineno", 0), name) for name in found)


def parsed(text):
    """Code, or an empty module for text that is none."""
    try:
        return ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return ast.Module([], [])


def test_public_names_only():
    found, allowed = [], set()
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if path != Path(__file__):
            for line, name in sorted(set(private_names(ast.parse(path.read_text(encoding="utf-8"))))):
                allowed |= {name} & ALLOWED.keys()
                found += [] if name in ALLOWED else [f"{path.relative_to(ROOT)}:{line}: {name}"]
    assert not found, "use what is public, or test its effect:\n" + "\n".join(found)
    assert allowed == ALLOWED.keys(), "allowed, but not used any more"


@pytest.mark.parametrize(
    "code",
    [
        "actuator._runner",
        "super()._step()",
        "self.simulations[0]._batch.states",
        "from actuon.actuator.stepping import _Plan",
        "from actuon._kernel import Plan",
        "import actuon._kernel as kernel",
        'monkeypatch.setattr(launch, "_WORTH", 0.0)',
        'monkeypatch.setattr("actuon.kernel.launch._WORTH", 0.0)',
        'getattr(actuator, f"_{name}")',
        'vars(actuator)["_runner"]',
        'actuator.__dict__["_runner"]',
        'run("import actuon; print(actuon._x)")',
        'run("""\n    import actuon\n    actuon._x\n    """)',
        'run(f"import actuon; print(actuon._x, {y!r})")',
    ],
)
def test_private_names_are_found(code):
    assert list(private_names(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "self._held, cls._made",
        "actuator.__dict__",
        'getattr(self, f"_{kind}")',
        'getattr(value, "__name__", "")',
        'infos["_final_obs"]',
        'print("_x")',
        '"""Prose about _names,\nin two lines."""',
    ],
)
def test_what_is_not_private_is_not_found(code):
    assert not list(private_names(ast.parse(code)))


MODULES = ("assets", "fit", "graph", "gym", "lab", "mjlab", "mujoco", "newton", "sim", "studio", "torch")
MODULES += ("logs", "robot_source", "usd")


def test_names_of_the_package():
    public = [name for name in dir(actuon) if not name.startswith("_")]
    assert len(set(public)) == len(public)
    assert {name for name in public if inspect.ismodule(getattr(actuon, name))} == set(MODULES) - {"mjlab"}
    assert {"Actuator", "ControllerPD", "MujocoSimulation", "Motors", "Recorder", "add_actuator"} <= set(public)
    assert {"Actuator", "ControllerPD"} <= set(actuon.__all__) < set(public)


@pytest.mark.parametrize("module", MODULES)
def test_names_of_public_modules(module):
    if module == "mjlab":
        pytest.importorskip("mjlab", reason="make test-mjlab runs it")
    module = importlib.import_module(f"actuon.{module}")
    assert sorted(name for name in dir(module) if not name.startswith("_")) == sorted(module.__all__)
    exported = {
        alias.asname
        for node in ast.parse(Path(module.__file__).read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert exported - {None} - {name for name in exported if name and name.startswith("_")} <= set(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
