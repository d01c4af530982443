# SPDX-License-Identifier: Apache-2.0
"""What the documentation says is what the code does."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import re
from pathlib import Path

import pytest

import actuon
from actuon.tools.reference import parameter_table

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PARAMETERS = re.compile(r"<!-- parameters: (\w+) -->\n((?:\|.*\n)+)")


@pytest.mark.parametrize("page", [p for p in PAGES if CODE.search(p.read_text())], ids=lambda p: p.stem)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"page_{page.stem}.py"
    path.write_text("\n".join(CODE.findall(page.read_text())))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    logs = [logging.getLogger(name) for name in ("actuon.actuators", "actuon.sim")]
    levels = [log.level for log in logs]
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def configs():
    return [value for value in vars(actuon).values() if inspect.isclass(value) and issubclass(value, actuon.Config)]


def test_every_component_has_a_page_with_its_parameters():
    tables = dict(match for page in ROOT.glob("docs/components/*.md") for match in PARAMETERS.findall(page.read_text()))
    for config in configs():
        if config is not actuon.Config:
            assert tables.get(config.__name__) == parameter_table(config), (
                f"run: python -m actuon.tools.reference docs/components  ({config.__name__})"
            )


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_public_name_is_documented():
    public = {name: getattr(actuon, name) for name in dir(actuon) if not name.startswith("_")}
    public = {name: value for name, value in public.items() if not inspect.ismodule(value)}
    text = "".join(page.read_text() for page in PAGES)
    for name, value in public.items():
        assert inspect.getdoc(value), name
        if not (inspect.isclass(value) and issubclass(value, (Exception, actuon.Config, actuon.Component))):
            assert name in text, f"{name} is on no page"
    for cls in (actuon.Actuator, actuon.ActuatorBuilder, actuon.Delay, actuon.ControllerPD, actuon.ClampingMaxEffort):
        for name, member in inspect.getmembers(cls, callable):
            if not name.startswith("_") and name != "law":
                assert inspect.getdoc(member), f"{cls.__name__}.{name}"


def test_version_is_in_the_changelog():
    assert f"## {actuon.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_readme_names_the_commands():
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme
    assert "make test" in readme


def test_readme_has_the_measured_table_and_its_machine():
    readme = (ROOT / "README.md").read_text()
    assert "faster than Newton" in readme
    assert re.search(r"\d+ cores", readme)
