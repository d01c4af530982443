# SPDX-License-Identifier: Apache-2.0
"""Each tutorial has a script in ``examples/``, which runs as it is; its own assertions say whether it is right."""

from __future__ import annotations

import runpy

import pytest

from tests.support.paths import ROOT

TUTORIALS = sorted(page.stem for page in ROOT.glob("docs/tutorials/*.md"))


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_has_a_script_that_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert f"`examples/{name}.py`" in (ROOT / f"docs/tutorials/{name}.md").read_text()
    script = ROOT / f"examples/{name}.py"
    assert len(script.read_text().splitlines()) < 100
    runpy.run_path(str(script), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 2
