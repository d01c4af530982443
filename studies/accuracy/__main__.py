# SPDX-License-Identifier: Apache-2.0
"""Measure how well fits predict real logs and find parameters again; writes ``docs/measured/accuracy.md``.

Run with ``make accuracy``, or ``make accuracy ONLY=xl330`` for one part; numbers of the others are those of
``docs/measured/accuracy.json``, where all are kept.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import actuon
from actuon.files import replacing
from scripts.machine import machine

from . import robots, synthetic, xl330
from .page import page
from .study import NotPossible, Place, say

PARTS: dict[str, Callable[[Place], dict[str, Any]]] = {
    "xl330": xl330.study,
    "ak80_6": robots.ak80_6,
    "so101": robots.so101,
    "synthetic": synthetic.study,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.accuracy", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"parts to run: {', '.join(PARTS)}")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the logs, by robot")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="folder of the documentation")
    parser.add_argument("--draws", type=int, default=20, help="sets of parameters that the synthetic study draws")
    parser.add_argument(
        "--page", action="store_true", help="write the page anew from the numbers kept, and run nothing"
    )
    options = parser.parse_args()
    actuon.quiet()
    kept = options.docs / "measured/accuracy.json"
    found = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    place = Place(options.data, options.docs / "images", options.draws)
    for name in () if options.page else options.only or PARTS:
        say(name)
        run_part(name, place, found)
        _write(kept, json.dumps(found, indent=1) + "\n")
    written = options.docs / "measured/accuracy.md"
    _write(written, page(found))
    say(f"wrote {written}")


def run_part(name: str, place: Place, found: dict[str, Any]) -> None:
    """Run one part and put its result into ``found``; if it is not possible, the former result stays."""
    begin = time.monotonic()
    try:
        part = PARTS[name](place)
    except NotPossible as error:
        say(f"  left out: {error}")
        found.setdefault(name, {"missing": str(error)})
        return
    on = {
        "seconds": time.monotonic() - begin,
        "date": datetime.date.today().isoformat(),
        "machine": machine("warp-lang", "numpy", "scipy", "cmaes"),
    }
    found[name] = {**part, **on}


def _write(path: Path, text: str) -> None:
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
