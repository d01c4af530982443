# SPDX-License-Identifier: Apache-2.0
"""Examples in docstrings, which the API reference shows, run and print what they say."""

from __future__ import annotations

import ast
import doctest
import importlib.util

import numpy as np
import pytest

import actuon
from tests.support.paths import ROOT

WIDEST = 92
"""Columns of code that fit the page."""


def docstrings(node, name=""):
    """Yield the qualified names and docstrings of the classes and functions in a syntax tree."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, (ast.ClassDef, ast.FunctionDef)):
            path = f"{name}.{inner.name}".lstrip(".")
            yield path, ast.get_docstring(inner) or ""
            yield from docstrings(inner, path)


def examples():
    """Return the docstrings with examples, by qualified name; the sources are read, not imported."""
    sources = {path: path.read_text() for path in sorted((ROOT / "src").rglob("*.py"))}
    return {
        f"{'.'.join(path.relative_to(ROOT / 'src').with_suffix('').parts)}.{name}": text
        for path, source in sources.items()
        if ">>> " in source
        for name, text in docstrings(ast.parse(source))
        if ">>> " in text
    }


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(EXAMPLES[name], {"np": np, "actuon": actuon}, name, None, None)
    try:
        doctest.DebugRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example)
    except doctest.DocTestFailure as failure:
        pytest.fail(f"{name}: {failure.example.source}printed {failure.got}instead of {failure.example.want}")
    except doctest.UnexpectedException as error:
        reason = error.exc_info[1]
        missing = reason.name.partition(".")[0] if isinstance(reason, ModuleNotFoundError) and reason.name else ""
        if missing in ("newton", "mjlab") and importlib.util.find_spec(missing) is None:
            pytest.skip(f"{missing} is not installed")  # its MuJoCo is another than that of this environment
        raise reason from None


def test_every_example_is_in_a_section_that_the_reference_shows_and_fits_the_page():
    for name, text in EXAMPLES.items():
        shown = text.partition("\nExamples:\n")[2]
        assert text.count(">>> ") == shown.count(">>> "), name
        for line in shown.splitlines():
            assert len(line.removeprefix("    ")) <= WIDEST, f"{name}: {line}"
