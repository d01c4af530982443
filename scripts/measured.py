# SPDX-License-Identifier: Apache-2.0
"""Writes measured tables and numbers into the pages from ``docs/measured/*.json``: ``python -m scripts.measured``.

A page names a table by ``<!-- table: NAME -->`` and a number by ``<!-- figure: NAME -->text<!-- end -->``. Nothing that
was measured is typed into a page, so that no two pages can disagree.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "docs/measured/tables.json"
ACCURACY = ROOT / "docs/measured/accuracy.json"
_TABLE = re.compile(r"<!-- table: (\w+) -->\n(?:\|.*\n)*")
_FIGURE = re.compile(r"<!-- figure: (\w+) -->.*?<!-- end -->", re.DOTALL)


def tables() -> dict[str, Any]:
    """Return header and rows of each measured table, by its name."""
    return dict(json.loads(TABLES.read_text(encoding="utf-8")))


def save_tables(measured: Mapping[str, Mapping[str, Sequence[Any]]], path: Path = TABLES) -> None:
    """Replace the tables of these names, and keep the others."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(kept | dict(measured), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


def column(name: str, header: str) -> list[float]:
    """Return the numbers of a column of a table, without units; NaN for empty cells."""
    table = tables()[name]
    return [number(row[table["header"].index(header)]) for row in table["rows"]]


def number(cell: str) -> float:
    """Return the first number of a cell, such as 786432 of "786 432" and 3.4 of "3.4 ×"."""
    found = re.match(r"-?[\d.]+", cell.replace(" ", ""))
    return float(found[0]) if found else float("nan")


HIDDEN = {
    "chains": ("÷ in place", "÷ equal delays"),
    "environments": ("÷ given, CPU", "at most"),
    "one_robot": ("step() ÷", "step(10) ÷", "share, %"),
    "sizes": ("ns per DOF",),
}
"""Columns that only ``tables.json`` has, so that tables fit the page."""
BEST = "best µs", "back to back, best µs"
"""Columns that pages leave out of tables with times in a loop."""


SHOWN = {
    "who": "implementation",
    "chain": "motor model",
    "what": "computed",
    "given, ms": "replay, ms",
    "÷ given": "÷ replay",
    "efforts given, µs": "replay, µs",
    "loaded ÷ given": "loaded ÷ replay",
}
"""Headers as pages show them, by the header in ``tables.json``."""


def markdown(name: str) -> str:
    """Return a table as Markdown, without hidden columns. Columns of numbers are aligned to the right."""
    table = tables()[name]
    hidden = {*HIDDEN.get(name, ()), *(BEST if "in a loop, median µs" in table["header"] else ())}
    shown = [i for i, header in enumerate(table["header"]) if header not in hidden]
    rows = [[cells[i] for i in shown] for cells in (table["header"], *table["rows"])]
    head = [SHOWN.get(header, header) for header in rows[0]]
    sides = ["--:" if re.match(r"\W*\d", cell) else "---" for cell in rows[-1]]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---", *sides[1:]], *rows[1:]))


def _rows(name: str, **where: str) -> list[dict[str, str]]:
    """Return the rows of a table in which the columns have these values."""
    table = tables()[name]
    rows = [dict(zip(table["header"], row, strict=True)) for row in table["rows"]]
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def _span(values: Sequence[float], form: str = "{:.0f}") -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


EAGER = "eager"
COMPILED = "captured or compiled"
BY_ROBOT = "Actuon, robot by robot"


def _beyond(peer: str, mode: str, layout: str | None = None) -> str:
    """Return the span of how many times faster than a peer in the same mode one launch for all joints is."""
    rows = (row for row in _rows("sizes", mode=mode) if row["who"].startswith("Actuon") and row["who"] != BY_ROBOT)
    return _faster(peer, (row for row in rows if layout in (None, row["layout"])))


def _faster(peer: str, rows: Iterable[dict[str, str]]) -> str:
    values = [number(row[f"faster than {peer}"]) for row in rows]
    low, high = (f"{value:.0f}" if value >= 10 else f"{value:.1f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _beyond_torch(name: str, **where: str) -> str:
    return _faster("PyTorch", (row for row in _rows(name, **where) if row["who"].startswith("Actuon")))


def _percent_more(name: str, header: str, rows: Callable[[dict[str, str]], bool] = lambda row: True) -> str:
    return _span([100 * (number(row[header]) - 1) for row in _rows(name) if row[header] and rows(row)]) + " %"


def _accuracy(model: str | None = None) -> float:
    """Return the held-out error of a fitted XL330, or of the best published parameters [mrad]."""
    part = json.loads(ACCURACY.read_text(encoding="utf-8"))["xl330"]
    rows = part["published"] if model is None else [row for row in part["rows"] if row["model"] == model]
    return float(min(row["held_out_mrad"] for row in rows))


def _without(gain: str) -> str:
    part = json.loads(ACCURACY.read_text(encoding="utf-8"))["xl330"]
    (row,) = (row for row in part["rows"] if row["chosen"])
    return f"{row['held_out_folds_mrad'][gain]:.1f}"


def _stiff_arm(header: str) -> str:
    (row,) = _rows("implicit", **{"": "arm, kp 4000 kd 200", "dt": "5 ms"})
    return row[header]


def _worst_pose() -> list[float]:
    delays = tables()["stability"]["header"][4:]
    return [number(row[delay]) for row in _rows("stability", pose="worst") for delay in delays]


def _newton_step(value: Callable[[dict[str, str]], float]) -> str:
    """Return the span of a value over one robot in Newton, with the engine's step captured."""
    return _span([value(row) for row in _rows("one_robot") if row["engine"].startswith("Newton")])


def _excess(header: str) -> str:
    """Return the span of an excess over limits, or its upper end for implicit motors."""
    found = column("implicit_excess", header)
    return f"{max(found):.0f} %" if header == "implicit" else f"{_span(found)} %"


FIGURES: dict[str, Callable[[], str]] = {
    "beyond_newton": lambda: _beyond("Newton", EAGER),
    "beyond_newton_captured": lambda: _beyond("Newton", COMPILED),
    "beyond_newton_contiguous": lambda: _beyond("Newton", COMPILED, "contiguous"),
    "beyond_newton_scattered": lambda: _beyond("Newton", COMPILED, "scattered"),
    "beyond_torch": lambda: _beyond("PyTorch", EAGER),
    "beyond_torch_compiled": lambda: _beyond("PyTorch", COMPILED),
    "beyond_newton_by_robot": lambda: _faster("Newton", _rows("sizes", who=BY_ROBOT)),
    "beyond_torch_by_robot": lambda: _faster("PyTorch", _rows("sizes", who=BY_ROBOT)),
    "networks_beyond_torch": lambda: _beyond_torch("networks", mode=EAGER),
    "networks_beyond_compiled": lambda: _beyond_torch("networks", mode=COMPILED),
    "groups_beyond_torch": lambda: _beyond_torch("groups"),
    "beyond_copying": lambda: _span(column("chains", "÷ copying (of best)"), "{:.1f}"),
    "two_states": lambda: _percent_more("chains", "÷ in place"),
    "mixed_delays": lambda: _percent_more("chains", "÷ equal delays"),
    "real_motors": lambda: _percent_more("environments", "÷ servos", lambda row: row["motors"] == "real motors"),
    "numpy_pd": lambda: _percent_more("environments", "÷ servos", lambda row: row["motors"] == "PD written in NumPy"),
    "one_robot_beyond": lambda: _rows("one_robot", engine="MuJoCo", drives="actuators")[0]["beyond, µs"],
    "one_robot_loop": lambda: _rows("one_robot", engine="MuJoCo", drives="actuators")[0]["loop, beyond, µs"],
    "stiff_explicit": lambda: _stiff_arm("explicit"),
    "stiff_implicit": lambda: _stiff_arm("implicit, `implicitfast`"),
    "newton_step": lambda: _newton_step(lambda row: number(row["beyond, µs"])),
    "newton_ten_steps": lambda: _newton_step(
        lambda row: 100 * (number(row["step(10), µs each"]) / number(row["captured, µs"]) - 1)
    ),
    "steps_retaken": lambda: f"{100 * max(column('environments', 'steps retaken')):.0f} %",
    "excess_explicit": lambda: _excess("explicit"),
    "excess_implicit": lambda: _excess("implicit"),
    "stability_worst": lambda: _span(_worst_pose(), "{:.2f}"),
    "stability_error": lambda: f"{100 * max(abs(ratio - 1) for ratio in _worst_pose()):.0f} %",
    "xl330_fitted": lambda: f"{_accuracy('servo_m2q'):.0f}",
    "xl330_without_kp_100": lambda: _without("kp 100"),
    "xl330_without_kp_200": lambda: _without("kp 200"),
    "xl330_without_kp_800": lambda: _without("kp 800"),
    "xl330_mean": lambda: f"{_accuracy('servo_m2q'):.1f}",
    "xl330_published": lambda: f"{_accuracy():.0f}",
}
"""Figures that pages quote, by name, each computed from the tables."""


def with_measured(text: str) -> str:
    """Return the text of a page with its measured tables and figures written anew."""
    text = _TABLE.sub(lambda m: f"<!-- table: {m[1]} -->\n{markdown(m[1])}", text)
    return _FIGURE.sub(lambda m: f"<!-- figure: {m[1]} -->{FIGURES[m[1]]()}<!-- end -->", text)


def pages() -> Iterator[Path]:
    """Yield the pages that may show something measured."""
    yield from sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])


def main() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        written = with_measured(text)
        if written != text:
            page.write_text(written, encoding="utf-8")
            print(page.relative_to(ROOT), file=sys.stderr)


if __name__ == "__main__":
    main()
