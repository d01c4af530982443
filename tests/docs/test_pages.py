# SPDX-License-Identifier: Apache-2.0
"""Pages of the documentation: their code runs, and their statements match the code."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import operator
import re
import textwrap
import tomllib
import typing
from pathlib import Path

import pytest
import torch

import actuon
from actuon import lab
from scripts.llms import llms_text
from scripts.measured import pages, with_measured
from scripts.reference import GROUP_STAGES, parameter_table, with_tables
from tests.support.paths import ROOT

PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")])
DOCS = ROOT / "docs"
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^::: (actuon\.[\w.]+)$", re.MULTILINE)
INCLUDED = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)
NEEDS = re.compile(r"<!-- code needs: (\w+) -->")
PARAMETERS = re.compile(r"<!-- parameters: ([\w, ]+) -->\n((?:\|.*\n)+)")


@pytest.mark.parametrize("page", [p for p in PAGES if CODE.search(p.read_text())], ids=lambda p: p.stem)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    for module in NEEDS.findall(page.read_text()):
        pytest.importorskip(module, reason=f"{module} is not installed")
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
    shown = [match for page in ROOT.glob("docs/motors/*.md") for match in PARAMETERS.findall(page.read_text())]
    tables = {name: table for names, table in shown for name in names.split(", ")}
    for config in configs():
        if config is not actuon.Config:
            assert tables.get(config.__name__) == parameter_table(config), (
                f"run: python -m scripts.reference docs  ({config.__name__})"
            )


def test_the_first_example_prints_what_its_comment_says(capsys):
    code = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    exec(code, {})
    assert capsys.readouterr().out.splitlines()[-1] == re.search(r"print\(effort.*\)  # (\[.*?\])", code)[1]


def anchors(page):
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def test_links_lead_somewhere():
    for page in PAGES:
        for target, _, anchor in re.findall(r"\]\(([^)#:]*)(#([^)]*))?\)", page.read_text()):
            leads_to = page.parent / target if target else page
            assert leads_to.exists(), f"{page.name}: {target}"
            if page.is_relative_to(DOCS):
                assert leads_to.resolve().is_relative_to(DOCS), f"{page.name}: {target} is not part of the site"
            assert not anchor or anchor in anchors(leads_to), f"{page.name}: {target}#{anchor}"


def test_pages_that_are_included_have_no_relative_links():
    for page in PAGES:
        for name in INCLUDED.findall(page.read_text()):
            assert not re.findall(r"\]\((?!https?:)[^)]+\)", (ROOT / name).read_text()), (
                f"{name}, included in {page.name}"
            )


def test_every_page_is_in_the_navigation_of_the_site_and_in_the_index_of_its_folder():
    def pages_of(entries):
        for entry in entries:
            for value in entry.values() if isinstance(entry, dict) else [entry]:
                yield from [value] if isinstance(value, str) else pages_of(value)

    listed = list(pages_of(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    pages = sorted(str(page.relative_to(DOCS)) for page in ROOT.glob("docs/**/*.md"))
    missing = sorted(set(pages) - set(listed))
    assert not missing, f"add to nav of zensical.toml: {', '.join(missing)}"
    assert sorted(listed) == pages, "nav of zensical.toml lists a page twice, or one that does not exist"
    for page in ROOT.glob("docs/*/**/*.md"):
        index = DOCS / page.relative_to(DOCS).parts[0] / "index.md"
        assert page == index or f"]({page.relative_to(index.parent)})" in index.read_text(), (
            f"{index} does not link {page}"
        )


def title(page):
    text = INCLUDED.sub(lambda found: (ROOT / found[1]).read_text(), page.read_text())
    return re.search(r"^# (.+)$", text, re.MULTILINE)[1]


def test_the_index_of_a_folder_names_pages_by_their_titles():
    for index in set(DOCS.glob("*/index.md")) - {DOCS / "fit/index.md"}:  # whose names are shorter
        for name, page in re.findall(r"^\| \[([^\]]+)\]\(([\w/]+\.md)\) \|", index.read_text(), re.MULTILINE):
            assert name == title(index.parent / page), f"{index.relative_to(ROOT)}: {page}"


def test_pages_end_with_two_or_three_next_links():
    for page in DOCS.glob("*/*.md"):
        if page.name not in ("index.md", "changelog.md"):
            last = page.read_text().splitlines()[-1]
            assert last.startswith("Next: "), page
            assert len(re.findall(r"\]\(", last)) in (2, 3), f"{page}: {last}"


def test_the_map_for_language_models_links_every_page():
    links = dict(re.findall(r"^- \[[^\]]+\]\(([^)]+)\)(?:: (.*))?$", llms_text(), re.MULTILINE))
    for link, question in links.items():
        assert question.endswith("?") or link.startswith("reference/api/"), f"{link}: {question}"
    assert sorted(links) == sorted(str(page.relative_to(DOCS).with_suffix(".html")) for page in DOCS.rglob("*.md"))


def test_tables_are_those_of_the_declarations():
    for page in sorted(DOCS.rglob("*.md")):
        assert with_tables(DOCS, page) == page.read_text(), f"{page}; run: python -m scripts.reference docs"


class Lstm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(2, 2, batch_first=True)
        self.head = torch.nn.Linear(2, 1)

    def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):
        y, state = self.lstm(x, state)
        return self.head(y[:, -1]), state


def test_group_configs_become_the_components_that_the_vocabulary_table_says(tmp_path):
    actuon.save_network(torch.nn.Linear(2, 1), tmp_path / "mlp.pt")
    actuon.save_network(Lstm(), tmp_path / "lstm.pt")
    common = {"joint_names_expr": [".*"], "stiffness": 1.0, "damping": 1.0, "effort_limit": 1.0, "velocity_limit": 1.0}
    own = {
        "DCMotorCfg": {"saturation_effort": 1.0},
        "RemotizedPDActuatorCfg": {"joint_parameter_lookup": [[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]},
        "ActuatorNetMLPCfg": {"saturation_effort": 1.0, "network_file": str(tmp_path / "mlp.pt")},
        "ActuatorNetLSTMCfg": {"saturation_effort": 1.0, "network_file": str(tmp_path / "lstm.pt")},
    }
    explicit = {name for name in dir(lab) if name.endswith("Cfg")} - {"ActuatorBaseCfg", "ImplicitActuatorCfg"}
    assert set(GROUP_STAGES) == explicit
    for name, stages in GROUP_STAGES.items():
        cfg = getattr(lab, name)(**common, **own.get(name, {}))
        model = cfg.class_type(cfg, ["knee"], [0], num_envs=1, device="cpu")
        assert tuple(type(stage).__name__ for stage in model.make_stages()) == stages, name


def public_names(module):
    """Names of a module that are its own to show: not modules, other packages' names or second names."""
    members = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    own = {name: value for name, value in members.items() if getattr(value, "__module__", "").startswith("actuon")}
    return {name for name, value in own.items() if getattr(value, "__name__", name) == name}


def test_every_public_name_is_in_the_api_reference():
    shown = [name for page in ROOT.glob("docs/reference/api/*.md") for name in SHOWN.findall(page.read_text())]
    assert len(shown) == len(set(shown))
    in_mjlab = re.findall(r"\b(\w+) as \1\b", Path(actuon.__file__).with_name("mjlab.py").read_text())  # not installed
    for name in shown:
        owner, _, last = name.rpartition(".")
        module = actuon if owner == "actuon" else owner != "actuon.mjlab" and operator.attrgetter(owner[7:])(actuon)
        assert hasattr(module, last) if module else last in in_mjlab, name
    missing = {f"actuon.{name}" for name in public_names(actuon)} | {f"actuon.mjlab.{name}" for name in in_mjlab}
    for module in ("fit", "graph", "gym", "lab", "mujoco", "newton", "sim", "studio", "usd"):
        missing |= {f"actuon.{module}.{name}" for name in public_names(getattr(actuon, module)) - public_names(actuon)}
    missing -= set(shown)
    assert not missing, f"add to a page in docs/reference/api: {', '.join(f'::: {name}' for name in sorted(missing))}"


def test_every_public_name_is_documented():
    public = {name: getattr(actuon, name) for name in dir(actuon) if not name.startswith("_")}
    public = {name: value for name, value in public.items() if not inspect.ismodule(value)}
    text = "".join(page.read_text() for page in PAGES if page.parent.name != "api")
    for name, value in public.items():
        assert inspect.getdoc(typing.get_origin(value) or value), name
        if not (inspect.isclass(value) and issubclass(value, (Exception, actuon.Config, actuon.Component))):
            assert name in text, f"{name} is on no page"
    for cls in (actuon.Actuator, actuon.ActuatorBuilder, actuon.Delay, actuon.ControllerPD, actuon.ClampingMaxEffort):
        for name, member in inspect.getmembers(cls, callable):
            if not name.startswith("_") and name != "law":
                assert inspect.getdoc(member), f"{cls.__name__}.{name}"


def test_the_largest_effort_of_a_motor_is_called_a_peak_everywhere():
    pages = [(DOCS / name).read_text() for name in ("motors/dc_motor.md", "concepts/glossary.md")]
    field = actuon.DCMotorClampingConfig.declared()["max_motor_effort"]
    for text in (*pages, field.doc, inspect.getdoc(actuon.ClampingDCMotor)):
        assert re.search(r"\bpeak (effort|torque)", text, re.IGNORECASE)
    for path in [*PAGES, *ROOT.glob("src/**/*.py")]:
        text = " ".join(path.read_text().split())
        for found in re.finditer(r"continuous (limit|torque)|continuous\) torque", text, re.IGNORECASE):
            assert "rated" in text[found.start() - 120 : found.end() + 60], path


STILTED = re.compile(r"(?<!there )\b(is|are) no (?!longer|more|larger|farther)|\bis not late\b|\bloud\b", re.IGNORECASE)


def test_english_is_as_engineers_write_it():
    for path in [*PAGES, *ROOT.glob("src/**/*.py")]:
        text = re.sub(r"\s*\n[ #\"f]*", " ", path.read_text())
        text = text.replace('not "is no regex"', "")  # CONTRIBUTING.md, of what not to write
        found = STILTED.search(text)
        assert not found, f"{path.name}: …{text[found.start() - 40 : found.end() + 20]}…"


def test_version_is_in_the_changelog_and_the_citation():
    assert f"## {actuon.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {actuon.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_readme_names_the_commands():
    readme = (ROOT / "README.md").read_text()
    for command in ("make test", "make docs"):
        assert command in readme


def test_measured_tables_and_figures_are_those_that_were_kept():
    shown = 0
    for page in pages():
        text = page.read_text()
        assert with_measured(text) == text, f"{page.name}; run: python -m scripts.measured"
        assert "\n<!-- figure: " not in text, f"{page.name}: a line that begins with a figure ends its paragraph"
        shown += text.count("<!-- figure: ") + text.count("<!-- table: ")
    assert shown > 20


def test_code_fits_the_page():
    fenced = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
    for page in PAGES:
        text = page.read_text()
        indented = re.findall(r"(?<=\n\n)(?: {4}.*\n+)+", fenced.sub("", text))
        for line in "".join([*fenced.findall(text), *map(textwrap.dedent, indented)]).splitlines():
            assert len(line) <= 92, f"{page.relative_to(ROOT)}: {line}"


def test_tables_fit_the_page():
    for page in PAGES:
        for row in re.findall(r"^\|(.*)\|$", page.read_text(), re.MULTILINE):
            assert len(row.split("|")) <= 8, f"{page.relative_to(ROOT)}: {row}"


def test_the_measured_tables_say_on_which_machine():
    page = (DOCS / "measured/performance.md").read_text()
    assert "faster than Newton" in page
    assert re.search(r"\d+ cores", page)


def test_entries_of_the_changelog_are_short_lines():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert all(len(line) <= 120 for line in lines)
    assert not [line for line in lines if line.startswith(" ")], "an entry is one line"


def test_links_of_the_changelog_lead_to_pages_from_the_file_and_from_the_site():
    definition = re.compile(r"^\[(\w+)\]: (\S+)$", re.MULTILINE)
    text = (ROOT / "CHANGELOG.md").read_text()
    page = DOCS / "project/changelog.md"
    pages = {name: (ROOT / target).resolve() for name, target in definition.findall(text)}
    assert pages == {name: (page.parent / target).resolve() for name, target in definition.findall(page.read_text())}
    assert all(target.exists() for target in pages.values())
    assert set(re.findall(r"\]\[(\w+)\]", text)) == set(pages)
