# SPDX-License-Identifier: Apache-2.0
"""The page of ``make accuracy``: what it is written from, and that nobody writes to it by hand."""

from __future__ import annotations

import json

from studies.accuracy.__main__ import PARTS, run_part
from studies.accuracy.page import page
from studies.accuracy.study import Place
from studies.accuracy.synthetic import CASES, find_again
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
MEASURED = DOCS / "measured"


def test_the_page_holds_what_was_measured():
    found = json.loads((MEASURED / "accuracy.json").read_text())
    text = (MEASURED / "accuracy.md").read_text()
    assert text == page(found), "make accuracy writes it; to write it anew: python -m studies.accuracy --page"
    for part in found.values():
        for picture in part.get("pictures", ()):
            assert (DOCS / "images" / picture).is_file()
            assert picture in text


def test_data_that_is_absent_is_a_row_that_says_so(tmp_path):
    found = {}
    for name in set(PARTS) - {"synthetic"}:
        run_part(name, Place(tmp_path, tmp_path, draws=1), found)
        assert "is not in the folder of the data" in found[name]["missing"]
    text = page(found)
    assert text.count("is not in the folder of the data") == 2 * len(found)
    assert "Not measured: was not run yet" in text
    kept = {"xl330": {"rows": []}}
    run_part("xl330", Place(tmp_path, tmp_path, draws=1), kept)
    assert kept == {"xl330": {"rows": []}}


def test_a_draw_is_found_again():
    error, found = find_again(CASES[0], 0)
    assert error < 2.0  # of which the noise is 0.8
    assert sum(low <= true <= high for true, _, low, high in found.values()) >= 5
