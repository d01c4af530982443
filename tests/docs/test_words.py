# SPDX-License-Identifier: Apache-2.0
"""Words of the glossary in pages, help texts, errors and the API reference, and openings of docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted({*(ROOT / "src").rglob("*.py")} - {ROOT / "src/actuon/networks/code.py"})  # it writes code
OPENINGS = re.compile(r"\s*(What|Whether what|The same|To be|That|Who|Which|They|Also)\b")
FORMER = {
    r"bench(?! ROBOT)": "studio, benchmark or test stand",
    r"tangents?|slopes?": "implicit, derivatives",
    r"held control(ler)?s?": "control decimation",
    r"engine side": "solved by the engine",
    r"silenced?": "disabled",
    r"(wanted|asked) efforts?|let through": "requested effort",
    r"delay line|lags? of the commands?": "delay buffer, delay",
    r"remoti[sz]ed": "linkage-driven",
    r"own zeros|zeros of": "encoder offset",
    r"share of the (stability )?limit": "stability usage",
    r"left open": "unset",
    r"beside|meanwhile|off by": "next to, while, error",
    r"given efforts?": "applied or replayed effort",
}
"""Former words, and the words that replace them."""
INTERNAL = {r"chains?": "motor model", r"(?<!force )laws?": "stage function", r"a ring|rings? of": "delay buffer"}
"""Words of the code that only developers and authors of stages read."""
FOR_DEVELOPERS = ("project", "glossary.md", "extending.md", "extending_more.md", "CONTRIBUTING.md", "extending")


def found(text: str, words: dict[str, str]) -> list[str]:
    """Return the former words in a text, code left out, with their surroundings and replacements."""
    text = " ".join(
        re.sub(r"```.*?```|``?[^`]*``?|\]\([^)]*\)|<!--.*?-->|^:::.*?$|^    .*?$", " ", text, flags=re.S | re.M).split()
    )
    return [
        f"…{text[max(0, each.start() - 40) : each.end() + 30]}… → {better}"
        for word, better in words.items()
        for each in re.finditer(rf"\b({word})\b(?!\(|: got| ')", text, re.IGNORECASE)
    ]


def words_for(place: str) -> dict[str, str]:
    return FORMER if any(part in place for part in FOR_DEVELOPERS) else FORMER | INTERNAL


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings of a module that are statements: docstrings of modules, classes, functions and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


@pytest.mark.parametrize("folder", ["src", "benchmarks", "examples", "fuzz", "scripts", "studies", "tests"])
def test_docstrings_begin_with_a_verb_or_a_noun(folder):
    for path in (ROOT / folder).rglob("*.py"):
        for each in docstrings(ast.parse(path.read_text())):
            assert not OPENINGS.match(each.value), f"{path}:{each.lineno}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page):
    if page.name != "changelog.md":
        assert found(page.read_text(), words_for(str(page.relative_to(ROOT)))) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "src/actuon")))
def test_errors_and_outputs(path):
    tree = ast.parse(path.read_text())
    documented = {id(each) for each in docstrings(tree)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in documented:
            continue
        is_code = ";\n" in node.value or " " not in node.value.strip()
        assert is_code or found(node.value, FORMER | INTERNAL) == [], f"{path}:{node.lineno}"


def reference() -> Iterator[tuple[str, str]]:
    """Yield name and docstring of everything in the API reference that can be imported here."""
    for page in (ROOT / "docs/reference/api").glob("*.md"):
        for name in re.findall(r"^::: ([\w.]+)", page.read_text(), re.MULTILINE):
            module, _, last = name.rpartition(".")
            if module != "actuon.mjlab":
                value = getattr(importlib.import_module(module), last)
                yield f"{page.stem}: {name}", inspect.getdoc(value) or ""
                for member, method in vars(value).items() if inspect.isclass(value) else ():
                    if not member.startswith("_") and (callable(method) or isinstance(method, property)):
                        yield f"{page.stem}: {name}.{member}", inspect.getdoc(method) or ""


def test_the_api_reference():
    places = [f"{name}: {text}" for name, doc in reference() for text in found(doc, words_for(name))]
    assert places == []
