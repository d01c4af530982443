# SPDX-License-Identifier: Apache-2.0
"""Errors say where they come from, and at which index a value is bad."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import actuon
from actuon.errors import Fix, Option, check_installed, located, refuse_where

SOURCE = Path(actuon.__file__).parent
OPTION = re.compile(r"(^|[\s('])--[a-z]{2}")


def test_places_stand_before_the_text_outermost_first():
    with (
        pytest.raises(actuon.ParameterError) as caught,
        located("robot.yaml"),
        located("actuators.knee"),
    ):
        raise actuon.ParameterError("kp: got -1")
    assert str(caught.value) == "robot.yaml: actuators.knee: kp: got -1"
    assert caught.value.where == ("robot.yaml", "actuators.knee")
    assert actuon.ParameterError("kp").where == ()


def test_errors_name_arguments_in_python_and_options_on_the_command_line():
    option, fix = Option("root", "--root"), Fix("name the root", "name the root with --root")
    with pytest.raises(actuon.RobotFileError) as caught, located("robot.usda", actuon.RobotFileError), located(option):
        raise actuon.ParameterError("there are two; ", fix=fix)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert str(error) == "robot.usda: root: there are two; name the root"
        assert error.in_command() == "robot.usda: --root: there are two; name the root with --root"
    assert str(actuon.ParameterError("got 3", option=option)) == "root: got 3"
    assert actuon.ParameterError("got 3", option=option).in_command() == "--root: got 3"


def test_no_text_of_the_library_speaks_of_options_alone():
    """Words for the command line stand in a `Fix` or an `Option`, next to those for Python."""
    spoken = []
    for path in sorted(SOURCE.rglob("*.py")):
        if "cli" in path.parts:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {id(node): node for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                texts.pop(id(body[0].value), None)  # a docstring
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Fix", "Option"):
                for part in ast.walk(node):
                    texts.pop(id(part), None)
        found = [node for node in texts.values() if isinstance(node.value, str) and OPTION.search(node.value)]
        spoken += [f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value!r}" for node in found]
    assert not spoken, "give both words, by errors.Fix or errors.Option:\n" + "\n".join(spoken)


def test_an_error_becomes_the_one_that_is_promised():
    with pytest.raises(actuon.RobotFileError) as caught, located("robot.yaml", actuon.RobotFileError), located("knee"):
        raise actuon.ParameterError("kp: got -1")
    assert str(caught.value) == "robot.yaml: knee: kp: got -1"
    assert isinstance(caught.value.__cause__, actuon.ParameterError)
    with pytest.raises(actuon.RobotFileError) as caught, located("robot.yaml", actuon.RobotFileError):
        raise actuon.RobotFileError("is empty")
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "error",
    [actuon.MissingExtraError("usd-core", "usd", "reading"), actuon.ConvergenceError("no speeds", [1], [0.1])],
    ids=lambda error: type(error).__name__,
)
def test_errors_with_fields_keep_them(error):
    text = str(error)
    with pytest.raises(type(error)) as caught, located("knee"):
        raise error
    assert caught.value is error
    assert str(error) == f"knee: {text}"


def test_a_loaded_module_without_a_specification_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "stub", types.ModuleType("stub"))
    check_installed(["stub"], "fit", "a fit")
    with pytest.raises(actuon.MissingExtraError, match="a fit needs 'no_such_module'"):
        check_installed(["stub", "no_such_module"], "fit", "a fit")


@pytest.mark.parametrize(
    ("missing", "module", "extra"),
    [
        ("mujoco", "actuon.newton", "newton"),
        ("newton", "actuon.newton", "newton"),
        ("mujoco", "actuon.studio", "studio"),
        ("scipy", "actuon.studio", "studio"),
    ],
)
def test_a_module_names_its_own_extra(missing, module, extra):
    code = f"import sys; sys.modules[{missing!r}] = None; import {module}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = f"{module} needs '{missing}': install it with  pip install 'actuon[{extra}]'"
    assert said in ended.stderr.splitlines()[-1]


def test_other_errors_pass_through():
    with pytest.raises(KeyError, match="'kp'"), located("knee"):
        raise KeyError("kp")


def test_places_survive_a_process():
    with pytest.raises(actuon.ParameterError) as caught, located("knee"):
        raise actuon.ParameterError("kp: got -1")
    assert str(pickle.loads(pickle.dumps(caught.value))) == "knee: kp: got -1"


@pytest.mark.parametrize(
    ("bad", "got", "text"),
    [
        (True, 3.0, "X: got 3; must be < 2"),
        (np.array([False, True, True]), [1.0, 4.0, 5.0], "X: got 4 at index 1; must be < 2"),
        (np.array([False, True]), 4.0, "X: got 4 at index 1; must be < 2"),
    ],
)
def test_the_first_bad_value_is_named(bad, got, text):
    with pytest.raises(actuon.ParameterError) as caught:
        refuse_where(bad, "X: got {got:g}{at}; must be < 2", got=got)
    assert str(caught.value) == text


@pytest.mark.parametrize("bad", [False, np.False_, np.zeros(3, bool), np.zeros(0, bool)])
def test_nothing_is_refused_where_nothing_is_bad(bad):
    refuse_where(bad, "{at}")
