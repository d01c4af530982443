# SPDX-License-Identifier: Apache-2.0
"""The notebook of the first ten minutes runs in a kernel of Jupyter, from its first cell to its last."""

from __future__ import annotations

import pytest

from tests.support.paths import ROOT

nbclient = pytest.importorskip("nbclient", reason="notebooks run in the environment of the extra dev")
nbformat = pytest.importorskip("nbformat")


@pytest.mark.filterwarnings("default")  # of Jupyter
def test_the_notebook_of_the_first_ten_minutes_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = nbformat.read(ROOT / "examples/first_ten_minutes.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    printed = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("stable" in output.get("text", "") for output in printed), printed
