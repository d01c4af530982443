# SPDX-License-Identifier: Apache-2.0
"""Tutorials and pages on fitting name a script in ``examples/``, which runs as it is; its own assertions check it."""

from __future__ import annotations

import re
import runpy

import pytest

from tests.support.paths import ROOT

NAMED = re.compile(r"`examples/(\w+)\.py`")
PAGES = [page for page in ROOT.glob("docs/tutorials/*.md") if page.stem != "index"] + [ROOT / "docs/fit/robots.md"]
SCRIPTS = {page: NAMED.findall(page.read_text()) for page in PAGES}


@pytest.mark.parametrize("name", sorted(name for names in SCRIPTS.values() for name in names))
def test_scripts_of_pages_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = ROOT / f"examples/{name}.py"
    assert len(script.read_text().splitlines()) < 100
    runpy.run_path(str(script), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 2
