# SPDX-License-Identifier: Apache-2.0
"""Tutorials and pages on fitting and graphs name a script in ``examples/``, which runs; its own assertions check it."""

from __future__ import annotations

import re
import runpy

import pytest

from tests.support.paths import ROOT

NAMED = re.compile(r"`examples/(\w+)\.py`")
NEEDS = re.compile(r"<!-- code needs: (\w+) -->")
PAGES = [*ROOT.glob("docs/tutorials/*.md"), ROOT / "docs/fit/robots.md", ROOT / "docs/guides/omnigraph.md"]
SCRIPTS = {name: NEEDS.findall(page.read_text()) for page in PAGES for name in NAMED.findall(page.read_text())}
"""Packages that a script needs, by its name."""


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_of_pages_run(name, tmp_path, monkeypatch, capsys):
    for module in SCRIPTS[name]:
        pytest.importorskip(module, reason=f"{module} is not installed")
    monkeypatch.chdir(tmp_path)
    script = ROOT / f"examples/{name}.py"
    assert len(script.read_text().splitlines()) < 100
    runpy.run_path(str(script), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 2
