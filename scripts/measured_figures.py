# SPDX-License-Identifier: Apache-2.0
"""Pictures of what was measured: ``docs/measured/tables.json``, and the studies of ``make accuracy``."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

import actuon
from actuon.charts import palette
from studies.accuracy.page import REFERENCES

from .figure_style import FAINT, GREEN, GREY, IDEAL, INK, LIMIT, MUTED, REAL, TARGET, VIOLET, name_dot, plot, write
from .measured import ACCURACY, number, tables

_QUANTILE = 1.96
"""Half of a 95 % interval, in standard deviations."""
_COPY, _IN_PLACE, _CAPTURED = "copy of the same bytes", "Actuon, in place", "Actuon, captured graph"

Row = Mapping[str, str]


@cache
def _studies() -> Any:
    return json.loads(ACCURACY.read_text(encoding="utf-8"))


def _table(name: str) -> list[Row]:
    """Return the rows of a measured table, by column."""
    table = tables()[name]
    return [dict(zip(table["header"], row, strict=True)) for row in table["rows"]]


def _rows(name: str) -> list[list[str]]:
    """Return the rows of a measured table, as cells."""
    return list(tables()[name]["rows"])


def sizes() -> Any:
    """Draw the time per joint over the number of joints, and how many times as long eager Newton takes at both ends."""
    rows = _table("sizes")
    figure, axes = plot("", 430, 1, 2, sharey=True)
    lines = {
        "Newton": (IDEAL, "Newton"),
        "Newton, captured graph": (LIMIT, "Newton, captured graph"),
        "PyTorch": (INK, "PyTorch"),
        "Actuon, robot by robot": (VIOLET, "Actuon, robot by robot"),
        _CAPTURED: (GREEN, _CAPTURED),
        _IN_PLACE: (REAL, _IN_PLACE),
        _COPY: (MUTED, "copying the same bytes"),
    }
    for axis, layout in zip(axes, ("contiguous", "scattered"), strict=True):
        ends = {}
        for who, (colour, label) in lines.items():
            own = [row for row in rows if row["layout"] == layout and row["who"] == who]
            x, y = (np.array([number(row[column]) for row in own]) for column in ("DOFs", "ns per DOF"))
            style = (0, (3, 2)) if who == _COPY else "-"
            axis.loglog(x, y, "o", linestyle=style, markersize=3.5, color=colour, label=label)
            ends[who] = y
        for end, shift in ((0, 2.6), (-1, 0.4)):
            newton, own = ends["Newton"][end], ends[_IN_PLACE][end]
            axis.plot([x[end], x[end]], [own, newton], color=IDEAL, linewidth=1.0, linestyle=(0, (1, 2)))
            write(axis, (shift * x[end], newton), f"{newton / own:.0f} ×", IDEAL, "center")
        last = [values[-1] for values in ends.values()]
        for (colour, _), end, place in zip(lines.values(), last, _spread(last, 1.75), strict=True):
            axis.text(
                1.3e6, place, f"{end:.0f}" if end >= 10 else f"{end:.1f}", color=colour, fontsize=8.5, va="center"
            )
        axis.set(title=f"{layout} rows", xlabel="joints", xlim=(7, 1.2e6), ylim=(0.4, 1.5e4))
        axis.set_xticks([1e1, 1e2, 1e3, 1e4, 1e5, 1e6], ["10", "", "1 000", "", "100 000", ""])
        axis.set_yticks([1, 10, 100, 1000, 10000], ["1", "10", "100", "1 000", "10 000"])
        axis.minorticks_off()
    axes[0].set_ylabel("time per joint and step [ns]")
    in_place, captured = ([row for row in rows if row["who"] == who] for who in (_IN_PLACE, _CAPTURED))
    best = min(number(row["ns per DOF"]) for row in in_place)
    eager, graphs = (_range([number(row["faster than Newton"]) for row in part]) for part in (in_place, captured))
    title = f"Down to {best:.0f} ns per joint; Newton takes {eager} × eager, {graphs} × in graphs"
    figure.suptitle(title, x=0.012, ha="left")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _range(values: Sequence[float], digits: int = 2) -> str:
    low, high = f"{min(values):.{digits}g}", f"{max(values):.{digits}g}"
    return low if low == high else f"{low} to {high}"


def stages() -> Any:
    """Draw the time of motor models with more and more stages."""
    rows = [row for row in _table("chains") if row["states"] in ("", "in place")]
    figure, axis = plot("What each stage costs: 49 152 joints on one thread", 330)
    at = np.arange(len(rows))[::-1]
    own, newton, copying = (
        np.array([number(row[column]) for row in rows])
        for column in ("in a loop, median µs", "Newton µs", "copying µs")
    )
    axis.barh(at, newton, 0.62, facecolor="none", edgecolor=IDEAL, linewidth=1.2, label="Newton")
    axis.barh(at, own, 0.62, color=REAL, label=_IN_PLACE)
    axis.vlines(copying, at - 0.31, at + 0.31, color=INK, linewidth=1.4, label="copying the same bytes")
    gap = 0.008 * newton.max()
    for y, time, other in zip(at, own, newton, strict=True):
        axis.text(time + gap, y, f"{time:.0f} µs", va="center", color=REAL, fontsize=8.5)
        axis.text(other + gap, y, f"{other:.0f} µs, {other / time:.0f} ×", va="center", color=MUTED, fontsize=8.5)
    names = [row["motor model"] + (f"\n{row['delays']} delays" if row["delays"] else "") for row in rows]
    axis.set_yticks(at, names, color=INK)
    axis.set(xlabel="median step in a loop [µs]", xlim=(0, 1.2 * newton.max()))
    axis.grid(visible=False, axis="y")
    handles, labels = axis.get_legend_handles_labels()
    order = [labels.index(label) for label in (_IN_PLACE, "copying the same bytes", "Newton")]
    figure.legend([handles[i] for i in order], [labels[i] for i in order], loc="outside lower center", ncols=3)
    return figure


def pytorch() -> Any:
    """Draw how much faster motors are than the same equations in PyTorch: both eager, and captured against compiled."""
    kinds = {_IN_PLACE: REAL, _CAPTURED: GREEN}
    found: dict[str, dict[str, float]] = {}
    for table, own, name in (
        ("sizes", tuple(kinds), "PD, delay, DC motor: {DOFs} joints, {layout}"),
        ("groups", ("Actuon",), "actuator group: {environments × joints} joints"),
        ("networks", tuple(kinds), "{network}: {DOFs} joints"),
    ):
        for row in _table(table):
            if row["who"] in own:
                kind = _IN_PLACE if table == "groups" else row["who"]
                found.setdefault(name.format_map(row), {})[kind] = number(row["faster than PyTorch"])
    eager, captured = ([times[kind] for times in found.values() if kind in times] for kind in kinds)
    figure, axis = plot(f"{_range(eager)} × PyTorch's speed if both are eager, {_range(captured)} × compiled", 500)
    at = np.arange(len(found))[::-1]
    axis.hlines(at, 1.0, [max(times.values()) for times in found.values()], color=FAINT, linewidth=1.4)
    for kind, label in ((_IN_PLACE, "both eager"), (_CAPTURED, "captured graph, against torch.compile")):
        shown = [(y, times[kind]) for y, times in zip(at, found.values(), strict=True) if kind in times]
        axis.semilogx([x for _, x in shown], [y for y, _ in shown], "o", color=kinds[kind], markersize=6, label=label)
        for y, x in shown:
            above = 0.18 if kind == _CAPTURED else -0.5
            axis.text(x, y + above, f"{x:.1f} ×", ha="center", color=kinds[kind], fontsize=8)
    axis.axvline(1.0, color=MUTED, linewidth=1.0)
    axis.set_yticks(at, list(found), color=INK)
    axis.set(xlabel="times faster than PyTorch", xlim=(0.25, 1.6 * max(*eager, *captured)), ylim=(-0.8, at[0] + 0.8))
    axis.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    axis.minorticks_off()
    axis.grid(visible=False, axis="y")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def derivatives() -> Any:
    """Draw how much longer a step takes with derivatives of the effort, and with the bounds of limits."""
    rows = _table("derivatives")
    times = {(row["chain"], row["what"]): number(row["in a loop, median µs"]) for row in rows}
    names, (alone, *kinds) = (list(dict.fromkeys(row[column] for row in rows)) for column in ("chain", "what"))
    more = {key: 100 * (time / times[key[0], alone] - 1) for key, time in times.items() if key[1] != alone}
    low, high = min(more.values()), max(more.values())
    figure, axis = plot(f"Derivatives for implicit motors add {low:.0f} to {high:.0f} % to their step", 300)
    for (slot, (kind, colour)), (i, name) in itertools.product(
        enumerate(zip(kinds, (REAL, VIOLET), strict=True)), enumerate(names)
    ):
        y, share = i + 0.19 * (2 * slot - 1), more[name, kind]
        axis.barh(y, share, 0.36, color=colour, label=kind if i == 0 else None)
        text = f"{share:.0f} % of {times[name, alone]:.0f} µs"
        axis.text(share + 1, y, text, va="center", fontsize=8, color=MUTED)
    axis.set_yticks(range(len(names)), [name.replace(" + ", " +\n", 1) for name in names], color=INK)
    axis.invert_yaxis()
    axis.set(xlabel="longer than the effort alone, 49 152 joints on one thread [%]", xlim=(0, 1.35 * high))
    axis.grid(visible=False, axis="y")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def robots() -> Any:
    """Draw the time per robot over the number of robots in MuJoCo."""
    rows = _table("robots")
    figure, (axis, alone) = plot("", 360, 1, 2, width_ratios=(3, 2))
    lines = {
        "mj_step in a loop": ("mj_step in a Python loop", GREY),
        "mujoco.rollout": ("mujoco.rollout", INK),
        "Actuon, servos": ("Actuon, the model's servos", IDEAL),
        "Actuon, actuators": ("Actuon, actuators", REAL),
        "Actuon, groups": ("Actuon, actuator groups", VIOLET),
    }
    beyond = {}
    for who, (label, colour) in lines.items():
        own = [row for row in rows if row["who"] == who]
        x, y = (np.array([number(row[column]) for row in own]) for column in ("robots", "best µs"))
        style = "--" if "ctuon" not in who else "-"
        axis.loglog(x, y / x, "o", linestyle=style, markersize=4, color=colour, label=label)
        if who.startswith("Actuon"):
            beyond[who.removeprefix("Actuon, ")] = (number(own[0]["µs beyond mj_step, best"]), colour)
    axis.set(xlabel="robots", ylabel="best time per robot and step [µs]", title="quadrupeds, two cores")
    axis.set_xticks([1, 64, 256, 1024], ["1", "64", "256", "1 024"])
    low, high = axis.get_ylim()
    axis.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
    axis.set_ylim(low, high)
    axis.minorticks_off()
    alone.barh(range(3), [time for time, _ in beyond.values()], 0.55, color=[colour for _, colour in beyond.values()])
    for place, (time, _) in enumerate(beyond.values()):
        alone.text(1.03 * time, place, f"{time:.0f} µs", va="center")
    alone.set_yticks(range(3), list(beyond), color=INK)
    alone.invert_yaxis()
    longest = max(time for time, _ in beyond.values())
    alone.set(title="one robot", xlabel="beyond mj_step [µs]", xlim=(0, 1.3 * longest))
    alone.grid(visible=False, axis="y")
    many = [row for row in rows if row["who"] in ("Actuon, actuators", "Actuon, groups") and row["robots"] != "1"]
    times = _range([number(row["÷ rollout, best"]) for row in many], 3)
    figure.suptitle(f"From 64 robots on, motors take {times} × the time of mujoco.rollout", x=0.012, ha="left")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def arrays() -> Any:
    """Draw the time of a step on new arrays, for one robot and for many."""
    rows = _table("arrays")
    counts = list(dict.fromkeys(row["robots × joints"] for row in rows))
    looks = {"copy of the arrays": MUTED, "Actuon": REAL, "NumPy": GREEN, "Newton": IDEAL}
    figure, axes = plot("", 300, 1, 2, sharey=True)
    for axis, count in zip(axes, counts, strict=True):
        for row in (row for row in rows if row["robots × joints"] == count):
            is_double, time = row["dtype"] == "float64", number(row["in a loop, median µs"])
            y = list(looks).index(row["who"]) + 0.19 * (2 * is_double - 1)
            axis.barh(y, time, 0.36, color=looks[row["who"]], alpha=0.55 if is_double else 1.0)
            axis.text(time, y, f" {time:.0f} µs, {row['dtype']}", va="center", fontsize=8, color=MUTED)
        longest = max(number(row["in a loop, median µs"]) for row in rows if row["robots × joints"] == count)
        axis.set(title=f"{count} joints", xlabel="median step in a loop [µs]", xlim=(0, 1.55 * longest))
        axis.grid(visible=False)
    axes[0].set_yticks(range(len(looks)), list(looks), color=INK)
    axes[0].invert_yaxis()
    one, many = (
        _range([number(row["than NumPy"]) for row in rows if (row["who"], row["robots × joints"]) == ("Actuon", count)])
        for count in counts
    )
    title = f"Motors.step: {one} × NumPy's speed for one robot, {many} × for many"
    figure.suptitle(title, x=0.012, ha="left")
    return figure


def one_robot() -> Any:
    """Draw the time of a step of one robot: the engine's, and what Actuon adds."""
    rows = _table("one_robot")
    figure, axis = plot("", 360)
    more = [number(row["beyond, µs"]) for row in rows]
    for i, (row, own) in enumerate(zip(rows, more, strict=True)):
        place = i + 0.5 * (i // 3)
        captured = row["captured, µs"]
        alone = number(captured if captured[0].isdigit() else row["engine's step, µs"])
        axis.barh(place, alone, 0.74, color=TARGET, label="engine's step, captured if it can be" if i == 0 else None)
        axis.barh(place, own, 0.74, left=alone, color=REAL, label="Actuon's step() beyond it" if i == 0 else None)
        axis.text(alone + own + 0.6, place, f"{alone:.0f} + {own:.0f} µs", va="center", fontsize=8.5, color=MUTED)
    places = [i + 0.5 * (i // 3) for i in range(len(rows))]
    axis.set_yticks(places, [f"{row['engine']}: {row['drives']}" for row in rows], color=INK)
    axis.invert_yaxis()
    axis.set(xlabel="best step of one quadruped [µs]", xlim=(0, 72))
    axis.grid(visible=False, axis="y")
    title = f"One robot: Actuon takes {min(more):.0f} to {max(more):.0f} µs beyond the engine's step"
    figure.suptitle(title, x=0.012, ha="left")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def environments() -> Any:
    """Draw how much longer an environment's step takes than with MuJoCo's servos."""
    rows = _table("environments")
    counts = {"256": REAL, "1 024": VIOLET}
    names = list(dict.fromkeys(row["motors"] for row in rows if row["motors"] != "MuJoCo's own servos"))
    figure, axis = plot("", 330)
    for slot, (count, colour) in enumerate(counts.items()):
        more = [100 * (number(row["÷ servos"]) - 1) for row in rows if row["robots"] == count][1:]
        y = np.arange(len(names)) + 0.12 * (2 * slot - 1)
        axis.plot(more, y, "o", color=colour, markersize=6, label=f"{count} robots")
    real = [100 * (number(row["÷ servos"]) - 1) for row in rows if row["motors"] == "real motors"]
    figure.suptitle(f"Real motors add {min(real):.0f} to {max(real):.0f} % to a training step", x=0.012, ha="left")
    axis.axvline(0.0, color=MUTED, linewidth=1.0)
    axis.set_yticks(range(len(names)), names, color=INK)
    axis.invert_yaxis()
    axis.set(xlabel="longer than with MuJoCo's own servos [%]", xlim=(-0.5, None))
    axis.set_xticks(range(0, 21, 5))
    axis.legend(loc="upper right")
    return figure


def accuracy() -> Any:
    """Draw errors of fits in runs that they were not fitted to, of published parameters, and of other tools."""
    studies = _studies()
    chosen = {
        name: next(row for row in studies[name]["rows"] if row["chosen"]) for name in ("xl330", "ak80_6", "so101")
    }
    published = min(row["held_out_mrad"] for row in studies["xl330"]["published"])
    double = chosen["ak80_6"]["held_out_joints_mrad"]
    arm = [error for joint, error in chosen["so101"]["held_out_joints_mrad"].items() if joint != "gripper"]
    bars = {
        "XL330 on a pendulum": (chosen["xl330"]["held_out_mrad"], published, _of_others("xl330", 2)),
        "two AK80-6: shoulder": (double["shoulder"], None, _of_others("ak80_6", 0)),
        "two AK80-6: elbow": (double["elbow"], None, _of_others("ak80_6", 0, 1)),
        "SO-101: five joints": (float(np.mean(arm)), None, _of_others("so101", 4)),
    }
    fitted = [own for own, _, _ in bars.values()]
    title = f"Fitted motors predict unseen runs to {min(fitted):.0f} to {max(fitted):.0f} mrad"
    figure, axis = plot(title, 360)
    looks: tuple[tuple[str, dict[str, Any]], ...] = (
        ("fitted by Actuon, held-out runs", {"color": REAL}),
        ("best published parameters, same runs", {"color": IDEAL}),
        (
            "other tools or parameters, other runs of the robot",
            {"facecolor": "none", "edgecolor": GREY, "hatch": "///"},
        ),
    )
    top, ticks = 0.0, []
    for values in bars.values():
        start = top
        for value, (label, look) in zip(values, looks, strict=True):
            if value is not None:
                axis.barh(top, value, 0.8, label=label, **look)
                axis.text(value + 0.7, top, f"{value:.1f}", va="center", fontsize=8.5)
                top += 1.0
        ticks.append((start + top - 1.0) / 2)
        top += 0.8
    axis.set_yticks(ticks, list(bars), color=INK)
    axis.invert_yaxis()
    axis.set(xlabel="mean absolute error of the position [mrad]", xlim=(0, 76))
    axis.grid(visible=False, axis="y")
    handles = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    axis.legend(handles.values(), handles.keys(), loc="lower right")
    return figure


def _of_others(part: str, row: int, place: int = 0) -> float:
    """Return an error by the README of the data [mrad]."""
    return float(re.sub(r" \(.*?\)", "", REFERENCES[part][row][1]).split(", ")[place])


def models() -> Any:
    """Draw errors of models of the XL330, in the runs fitted to and in the others."""
    study = _studies()["xl330"]
    figure, axis = plot("XL330: more parameters help up to servo_m2q, and no further", 380)
    published = [row["held_out_mrad"] for row in study["published"]]
    axis.fill_between([-0.25, 1.01], min(published), max(published), color=TARGET, alpha=0.18, linewidth=0)
    middle = float(np.sqrt(min(published) * max(published)))
    axis.text(0.4, middle, "published parameters, M1 to M6", color=MUTED, ha="center", va="center", fontsize=8.5)
    ends = _spread([row["held_out_mrad"] for row in study["rows"]], 1.11)
    starts = _spread([row["train_mrad"] for row in study["rows"]], 1.11)
    for row, colour, start, end in zip(study["rows"], palette(9)[4:], starts, ends, strict=True):
        look = {"color": REAL, "linewidth": 3.0} if row["chosen"] else {"color": colour, "linewidth": 1.4}
        axis.plot([0, 1], [row["train_mrad"], row["held_out_mrad"]], "o-", markersize=5, **look)
        axis.text(-0.03, start, f"{row['train_mrad']:.0f}", ha="right", va="center", color=look["color"])
        text = f"{row['held_out_mrad']:.0f}  {row['model']}, {row['parameters']} parameters"
        weight = "bold" if row["chosen"] else "normal"
        axis.text(1.03, end, text, va="center", color=look["color"], fontweight=weight)
    axis.set_yscale("log")
    axis.set_yticks([10, 20, 50, 100], ["10", "20", "50", "100"])
    axis.minorticks_off()
    axis.set_xticks([0, 1], ["in the runs fitted to", "in held-out runs"], color=INK)
    axis.set(xlim=(-0.25, 1.75), ylim=(12, 110), ylabel="mean absolute error [mrad]")
    axis.grid(visible=False, axis="x")
    return figure


def _spread(values: Sequence[float], ratio: float) -> list[float]:
    """Return heights of labels of these values, at least ``ratio`` apart."""
    found = [0.0] * len(values)
    below = 0.0
    for i in sorted(range(len(values)), key=lambda i: values[i]):
        below = found[i] = max(values[i], below * ratio)
    return found


def by_motion() -> Any:
    """Draw errors of robots by the run that was held out, and by joint."""
    studies = _studies()
    figure, axes = plot(
        "Hardest: a motion unlike the others (prbs), and the gripper",
        400,
        2,
        2,
        width_ratios=(6, 6),
        height_ratios=(2, 1),
    )
    for row, (name, robot) in zip(axes, {"so101": "SO-101", "ak80_6": "AK80-6"}.items(), strict=True):
        for axis, kind, what in zip(
            row, ("held_out_folds_mrad", "held_out_joints_mrad"), ("held-out run", "joint"), strict=True
        ):
            rows = studies[name]["rows"]
            columns = [key.removesuffix(".csv.gz").replace("trajectory_", "run ") for key in rows[0][kind]]
            values = np.array([list(one[kind].values()) for one in rows])
            image = axis.imshow(values, cmap="Blues", vmin=0.0, vmax=26.0, aspect="auto")
            for (i, j), value in np.ndenumerate(values):
                axis.text(
                    j, i, f"{value:.1f}", ha="center", va="center", color=INK if value < 15 else "white", fontsize=8.5
                )
            turn = {"rotation": 28, "ha": "right", "rotation_mode": "anchor"} if len(columns) > 2 else {}
            axis.set_xticks(range(len(columns)), columns, fontsize=8, **turn)
            axis.set_yticks(range(len(rows)), [one["model"].replace("+", "\n+") for one in rows], fontsize=8)
            axis.set_title(f"{robot}, by {what}")
            axis.grid(visible=False)
            axis.spines[:].set_visible(False)
            axis.tick_params(length=0)
    figure.colorbar(image, ax=axes, label="mean absolute error [mrad]", shrink=0.8, aspect=30)
    return figure


def synthetic() -> Any:
    """Draw how far estimates are from true values, in deviations of their intervals."""
    models = _studies()["synthetic"]["models"]
    figure, axes = plot("", 620, len(models), 1, sharex=True)
    shares = []
    most = max((list(one["cases"]) for one in models.values()), key=len)
    for axis, (name, one) in zip(axes, models.items(), strict=True):
        inside = count = 0
        axis.axhspan(-_QUANTILE, _QUANTILE, color=GREEN, alpha=0.15, linewidth=0)
        axis.axhline(0.0, color=MUTED, linewidth=0.8)
        for parameter, cases in one["cases"].items():
            truth, found, low, high = np.array(cases).T
            off = (found - truth) / ((high - low) / (2 * _QUANTILE))
            x = most.index(parameter) + np.linspace(-0.3, 0.3, len(off))
            is_in = (low <= truth) & (truth <= high)
            shown, beyond = np.clip(off, -8.0, 8.0), np.abs(off) > 8.0
            look = {"markeredgewidth": 0, "clip_on": False, "in_layout": False}
            for mask, colour in ((is_in, REAL), (~is_in, LIMIT)):
                axis.plot(x[mask & ~beyond], shown[mask & ~beyond], "o", color=colour, markersize=3.8, **look)
            for side, sign in (("^", 1.0), ("v", -1.0)):
                mask = beyond & (np.sign(off) == sign)
                axis.plot(x[mask], shown[mask], side, color=LIMIT, markersize=5, **look)
            share = 100 * is_in.mean()
            axis.text(
                most.index(parameter), 11.2, f"{share:.0f} %", ha="center", va="center", color=MUTED, fontsize=8.5
            )
            inside, count = inside + is_in.sum(), count + len(is_in)
        shares.append(100 * inside / count)
        kind = name.replace("`", "")
        axis.set_title(f"{kind}: {shares[-1]:.0f} % within their interval")
        axis.set(ylim=(-9.5, 13.5), ylabel="error ÷ σ")
        axis.set_yticks([-8, 0, 8])
        axis.grid(visible=False, axis="x")
    names = {key: key.replace("transmission.reflected_", "transmission.\nreflected_") for key in most}
    axes[-1].set_xticks(range(len(most)), [names[key].replace(".", ".\n", 1).replace("\n\n", "\n") for key in most])
    usual, harder = _range(shares[:2]), _range(shares[2:])
    title = f"{usual} % of true values lie in their 95 % interval; in two harder cases, {harder} %"
    figure.suptitle(title, x=0.012, ha="left")
    return figure


def stability() -> Any:
    """Draw measured over predicted stability limits of robots."""
    rows = _table("stability")
    columns = {"no delay": REAL, "1 step of delay": IDEAL, "3 steps of delay": GREEN, "every 4th step": VIOLET}
    names = list(dict.fromkeys(row["robot"] for row in rows))
    worst = [float(row[column]) for row in rows if row["pose"] == "worst" for column in columns]
    off = 100 * max(abs(value - 1.0) for value in worst)
    figure, axis = plot(f"Measured limits lie within {off:.0f} % of the prediction, at the worst pose", 380)
    axis.axvline(1.0, color=MUTED, linewidth=1.0)
    for row in rows:
        for slot, (column, colour) in enumerate(columns.items()):
            is_worst = row["pose"] == "worst"
            y = names.index(row["robot"]) + 0.16 * (slot - 1.5)
            fill = colour if is_worst else "none"
            size = 4.0 if is_worst else 7.0  # a ring around a dot at the same place
            axis.plot(float(row[column]), y, "o", markeredgecolor=colour, markerfacecolor=fill, markersize=size)
    for column, colour in columns.items():
        axis.plot([], [], "o", color=colour, markersize=4.5, label=column)
    axis.plot([], [], "o", color=MUTED, markersize=4.5, label="worst pose")
    axis.plot([], [], "o", markeredgecolor=MUTED, markerfacecolor="none", markersize=7.0, label="start pose")
    axis.set_yticks(range(len(names)), names, color=INK)
    axis.invert_yaxis()
    axis.set(xlabel="measured ÷ predicted limit", xlim=(0.9, 1.72))
    figure.legend(loc="outside lower center", ncols=6, columnspacing=0.8, handletextpad=0.1)
    write(axis, (1.56, names.index("robotiq_2f85") + 0.9), "against its stops in the start pose", MUTED, "center")
    return figure


def implicit_errors() -> Any:
    """Draw errors of explicit and implicit motors over the time step."""
    rows = _table("implicit")
    robots = list(dict.fromkeys(row[""] for row in rows))
    modes = {"explicit": REAL, "implicit, `implicitfast`": IDEAL, "implicit, `discrete`": VIOLET}
    figure, axes = plot("Implicit motors pay off for stiff gains, not for soft ones at 5 ms", 340, 1, 3, sharey=True)
    for axis, robot in zip(axes, robots, strict=True):
        own = [row for row in rows if row[""] == robot]
        steps = [number(row["dt"]) for row in own]
        for mode, colour in modes.items():
            axis.loglog(steps, [float(row[mode]) for row in own], "o-", color=colour, label=mode.replace("`", ""))
        name, gains = robot.split(", ")
        _, kp, _, kd = gains.split()
        axis.set_title(f"{name}\nkp {kp} N·m/rad\nkd {kd} N·m·s/rad")
        axis.set(xlabel="time step [ms]", xlim=(0.8, 26), ylim=(0.15, 1000))
        axis.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        axis.minorticks_off()
    axes[0].set_ylabel("RMS error [mrad]")
    axes[0].set_yticks([1, 10, 100], ["1", "10", "100"])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def walking() -> Any:
    """Draw how many robots fell, by the motors that a policy learnt on and walks with."""
    figure, axis = plot("A policy walks with motors like those that it learnt on", 330)
    image = _draw_walks(axis, 2, "{:.0f} %", "Reds", (0.0, 100.0), with_seeds=True)
    figure.colorbar(image, ax=axis, label="robots that fell [%]: median, and three seeds")
    return figure


def walking_cost() -> Any:
    """Draw velocity error and power of robots that stand, by the motors that a policy learnt on and walks with."""
    figure, (left, right) = plot(
        "With late motors, policies that learnt on them err less and use less power", 300, 1, 2
    )
    _draw_walks(left, 3, "{:.2f}", "Purples", (0.0, 0.5))
    _draw_walks(right, 4, "{:.0f}", "Blues", (40.0, 160.0))
    left.set_title("velocity error [m/s], median of three seeds")
    right.set(title="mechanical power [W], median", ylabel="")
    right.tick_params(labelleft=False)
    return figure


def _draw_walks(
    axis: Any, column: int, form: str, colours: str, ends: tuple[float, float], with_seeds: bool = False
) -> Any:
    """Draw a column of the table of walking robots as a heat map; returns the image."""
    rows = _rows("walking")
    learnt, walks = (list(dict.fromkeys(row[i] for row in rows)) for i in (0, 1))
    values = np.zeros((len(learnt), len(walks)))
    for row in rows:
        seeds = [float(text) for text in row[column].replace("*", "").split(",")]
        i, j = learnt.index(row[0]), walks.index(row[1])
        value = values[i, j] = np.median(seeds)
        colour = "white" if value > ends[0] + 0.55 * (ends[1] - ends[0]) else INK
        font = {"ha": "center", "va": "center", "color": colour}
        axis.text(j, i - 0.08 * with_seeds, form.format(value), fontsize=11, **font)
        if with_seeds:
            axis.text(j, i + 0.26, " · ".join(f"{seed:.0f}" for seed in seeds), fontsize=8, **font)
    image = axis.imshow(values, cmap=colours, vmin=ends[0], vmax=ends[1], aspect="auto")
    axis.set_xticks(range(len(walks)), [name.replace(", ", ",\n") for name in walks], color=INK)
    axis.set_yticks(range(len(learnt)), [name.replace(", ", ",\n") for name in learnt], color=INK)
    axis.set(xlabel="walks with", ylabel="learnt on")
    axis.grid(visible=False)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return image


def implicit_cost() -> Any:
    """Draw the CPU time of a step with explicit and with implicit motors."""
    rows = _rows("implicit_costs")[1:]
    figure, axis = plot("", 300)
    more = []
    for slot, (name, first, colour) in enumerate((("implicitfast", 1, IDEAL), ("discrete", 3, VIOLET))):
        for i, row in enumerate(rows):
            explicit, implicit = float(row[first]), float(row[first + 1])
            share = 100 * (implicit / explicit - 1)
            more.append(share)
            y = i + 0.19 * (2 * slot - 1)
            axis.barh(y, share, 0.36, color=colour, label=name if i == 0 else None)
            axis.text(share + 0.4, y, f"{share:.0f} % of {explicit:.0f} µs", va="center", fontsize=8, color=MUTED)
    figure.suptitle(f"Implicit motors add {min(more):.0f} to {max(more):.0f} % to a step", x=0.012, ha="left")
    axis.set_yticks(range(len(rows)), [row[0].removesuffix(" robot") for row in rows], color=INK)
    axis.invert_yaxis()
    axis.set(xlabel="longer than explicit motors with the same integrator [%]", ylabel="number of robots", xlim=(0, 47))
    axis.grid(visible=False, axis="y")
    axis.legend(loc="lower right")
    return figure


def mjlab_limits() -> Any:
    """Draw by how much implicit efforts pass a limit in mjlab."""
    rows = _rows("mjlab_excess")
    figure, axis = plot("In mjlab, implicit efforts exceed a limit at long steps", 280)
    names, robot = [], ""
    for i, (who, dt, *values) in enumerate(rows):
        robot = who or robot
        names.append(f"{robot}: {dt}")
        for slot, (text, colour) in enumerate(zip(values, (REAL, IDEAL), strict=True)):
            y, value = i + 0.19 * (2 * slot - 1), number(text)
            axis.barh(y, value, 0.36, color=colour)
            axis.text(value + 1, y, f"{value:.0f} %", va="center", fontsize=8, color=MUTED)
    for label, colour in (("constant limit", REAL), ("envelope of a DC motor", IDEAL)):
        axis.barh(0, 0, color=colour, label=label)
    axis.set_yticks(range(len(names)), names, color=INK)
    axis.invert_yaxis()
    axis.set(xlabel="largest excess [% of the stall effort]", xlim=(0, 122))
    axis.grid(visible=False, axis="y")
    axis.legend(loc="upper right")
    return figure


def catalogue() -> Any:
    """Draw the motors of the catalogue by speed and torque at the joint."""
    motors = [actuon.find_motor(name) for name in actuon.motor_names()]
    vendors = list(dict.fromkeys(motor.vendor for motor in motors))
    colours = dict(zip(vendors, palette(len(vendors)), strict=True))
    figure, axis = plot(f"Which of the {len(motors)} motors of the catalogue is like mine?", 680)
    axis.set(xscale="log", yscale="log", xlim=(1.5, 90), ylim=(0.15, 420))
    for power, x in ((1, 1.6), (10, 1.6), (100, 1.6), (1000, 88.0), (10000, 88.0)):
        speeds = np.array([1.5, 90.0])
        axis.plot(speeds, power / speeds, color=FAINT, linewidth=1.0, zorder=1)
        side = "left" if x < 10 else "right"
        axis.text(x, power / x, f"{power:,} W".replace(",", " "), color=GREY, fontsize=8, ha=side, va="bottom")
    places = [(*_speed_and_torque(motor), motor.name, colours[motor.vendor]) for motor in motors]
    for speed, torque, is_rated, _, colour in places:
        fill = "none" if is_rated else colour
        axis.plot(speed, torque, "o", markeredgecolor=colour, markerfacecolor=fill, markersize=6, zorder=5)
    for vendor, colour in colours.items():
        axis.plot([], [], "o", color=colour, label=vendor)
    axis.plot([], [], "o", markeredgecolor=MUTED, markerfacecolor="none", label="rated speed")
    axis.set_xticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
    axis.set_yticks([0.2, 1, 10, 100], ["0.2", "1", "10", "100"])
    axis.minorticks_off()
    axis.set(xlabel="no-load or largest speed at the joint [rad/s]", ylabel="peak or stall torque at the joint [N·m]")
    figure.legend(loc="outside lower center", ncols=6, columnspacing=1.2, handletextpad=0.3)
    for speed, torque, _, name, colour in places:
        name_dot(axis, (speed, torque), name, colour, fontsize=8)
    return figure


def _speed_and_torque(motor: actuon.CatalogueMotor) -> tuple[float, float, bool]:
    """Return a motor's speed [rad/s] and torque [N·m] at the joint, and whether the speed is the rated one."""
    values: Mapping[str, Any] = motor.datasheet.at_joint
    if curve := values.get("driving_curve"):
        return curve[-1][0], max(torque for _, torque in curve), False
    torque = values.get("peak_torque") or values["stall_torque"]
    speed = values.get("no_load_speed") or values.get("max_speed")
    return speed or values["rated_speed"], torque, speed is None


MEASURED = {
    "performance_sizes": sizes,
    "performance_stages": stages,
    "performance_robots": robots,
    "performance_arrays": arrays,
    "performance_one_robot": one_robot,
    "performance_environments": environments,
    "performance_pytorch": pytorch,
    "performance_derivatives": derivatives,
    "accuracy_overview": accuracy,
    "accuracy_models": models,
    "accuracy_by_motion": by_motion,
    "accuracy_synthetic": synthetic,
    "stability_measured": stability,
    "implicit_errors": implicit_errors,
    "implicit_cost": implicit_cost,
    "walking": walking,
    "walking_cost": walking_cost,
    "mjlab_limits": mjlab_limits,
    "catalogue": catalogue,
}
"""Pictures by the names of their files."""
