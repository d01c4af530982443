# SPDX-License-Identifier: Apache-2.0
"""``docs/measured/accuracy.md``, from the numbers of the studies, and errors that others publish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_INTRODUCTION = """<!-- Written by `make accuracy` from accuracy.json. Do not edit. -->
# Accuracy

How well do fitted motors predict motions that they were not fitted to? On logs of a single servo, a double
pendulum and an arm, the mean absolute error of the position is 6 to 25 mrad.

Errors are [closed loop](../fit/index.md): the simulation starts at the first measured state and receives the logged
commands, without resets, over whole runs or the windows that are stated. *Held out* are runs that the model was not
fitted to. The logs are public: each section links its source. [accuracy.json](accuracy.json) has all numbers.
"""

_REPEAT = """## Repeat it

`python -m studies.accuracy --data FOLDER --only xl330` measures one part again. `make accuracy ONLY=xl330` reads the
folder `../shared/data`. Put these files into it:

| files | source |
|---|---|
| `xl330/*.json.gz` | BAM, `data.bak/raw` of commit af22604, compressed |
| `motors/xl330_m1.json` to `xl330_m6.json` | BAM, the published parameters of the XL330 |
| `ak80_6/trajectory_*.csv.gz` | double_pendulum, `data/experiment_records/design_C.0/20220914/sys_id`, compressed |
| `so101/logs/*.csv.gz` | sage, `output/real/so101/custom`: one table per motion, joined by row from its two |
| `so101/so101_arm.xml` | Menagerie, `robotstudio_so101/so101.xml`, without meshes and camera |

Next: [Fit](../fit/index.md) · [Models](../fit/models.md) · [Record a motion](../fit/record.md)
"""

_FAR = 3.0
"""How many times the median an error must be to be counted as far above."""
REFERENCES = {
    "xl330": (
        ("published with the motor, M1, M3, M6", "90.8, 73.5, 83.6"),
        ("the source's own tool, M3, 6 000 trials in 14 min", "45.2"),
        ("the source's own tool, M6, 6 000 trials in 22 min", "43.4"),
    ),
    "ak80_6": (
        ("published with the data", "25.6 (joint 1), 40.2 (joint 2)"),
        ("the same without friction", "61.6, 117.6"),
    ),
    "so101": (
        ("position = command", "33.0"),
        ("the servo in the MJCF", "31.0"),
        ("an older model of the arm, with its servo", "17.2"),
        ("PD, Coulomb, viscous, delay, armature, limit", "5.7"),
        ("the same with load-dependent friction, Stribeck, dead band", "5.0"),
    ),
}
"""Errors in mrad by the READMEs of the data."""

_DATA = {
    "xl330": (
        "XL330 on a pendulum",
        "A Dynamixel XL330 with 0.49 kg at 0.1 m: 12 runs of 6 s, at three gains of its firmware, from "
        "[BAM](https://github.com/Rhoban/bam). All runs of one gain are held out at a time. `kp 200` lies between the "
        "gains that are then fitted, 100 and 800; the two others lie outside the fitted gains.",
        "Errors that the README of the data states, for other runs, at a gain of 400:",
    ),
    "ak80_6": (
        "Double pendulum of two AK80-6",
        "Two geared motors, driven by torque: six trajectories of 10 s at 500 Hz from "
        "[double_pendulum](https://github.com/dfki-ric-underactuated-lab/double_pendulum), in windows of 0.5 s from "
        "the measured state. One trajectory is held out at a time. "
        "[Encoder offsets](../fit/robots.md#encoder-offsets) of a held-out trajectory are estimated from one half of "
        "its windows for the other half.",
        "Errors that the README of the data states, for another trajectory of the same kind, in the same windows:",
    ),
    "so101": (
        "SO-101 arm",
        "Six STS3215 servos in one arm, all coupled: six motions at 50 Hz from "
        "[sage](https://github.com/isaac-sim2real/sage), with the arm of "
        "[MuJoCo Menagerie](https://github.com/google-deepmind/mujoco_menagerie). One motion is held out at a time. "
        "`prbs_excitation` jumps faster than the others move, so a fit to the others has not seen such motions.",
        "Errors that the README of the data states, for other motions of the same arm, with `prbs_excitation` among "
        "the fitted ones; mean of the five joints without the gripper:",
    ),
}
"""Title, description of the data, and of the errors of others."""
_PICTURES = {
    "overview": (
        "accuracy_overview.svg",
        "Errors of fitted motors in held-out runs, of published parameters, of other tools: servo, pendulum, arm",
    ),
    "xl330": ("accuracy_models.svg", "Errors of models of the XL330, in the runs fitted to and in held-out runs"),
    "so101": ("accuracy_by_motion.svg", "Errors of the SO-101 and of two AK80-6, by held-out run and by joint"),
    "synthetic": (
        "accuracy_synthetic.svg",
        "Errors of estimated parameters in standard deviations; red: the true value is outside of its interval",
    ),
}
"""Pictures that ``make figures`` draws from these numbers, and their descriptions."""


def page(found: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        found: Results of the studies, by their names.
    """
    return "\n".join(_lines(found)).rstrip() + "\n"


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield _INTRODUCTION
    yield from _overview(found)
    for name in _DATA:
        yield from _data_set(name, found.get(name, _not_run(name)))
    yield from _synthetic(found.get("synthetic", _not_run("synthetic")))
    yield _REPEAT


def _not_run(name: str) -> dict[str, str]:
    return {"missing": f"was not run yet; `make accuracy ONLY={name}` does"}


def _overview(found: Mapping[str, Any]) -> Iterator[str]:
    yield "| data | model that `actuon fit select` chooses | held out [mrad] | best of others [mrad] |"
    yield "|---|---|--:|--:|"
    for name, (title, *_) in _DATA.items():
        part = found.get(name, _not_run(name))
        reference = REFERENCES[name][0 if name == "ak80_6" else -1][1]
        if "missing" in part:
            yield f"| [{title}](#{_anchor(title)}) | {part['missing']} | | {reference} |"
            continue
        (row,) = (row for row in part["rows"] if row["chosen"])
        yield f"| [{title}](#{_anchor(title)}) | `{row['model']}` | {_headline(name, row)} | {reference} |"
    yield ""
    yield from _picture("overview")
    yield (
        "Other tools were measured on other runs, on the XL330 also at another gain, so hatched bars are not "
        "comparable one to one.\n"
    )


def _picture(name: str) -> Iterator[str]:
    if name in _PICTURES:
        file, shows = _PICTURES[name]
        yield f"![{shows}](../images/{file})\n"


def _folded(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield f'<details markdown="1"><summary>Table: {title}</summary>\n'
    yield from lines
    yield "</details>\n"


def _headline(name: str, row: Mapping[str, Any]) -> str:
    """Return the error to compare with that of others."""
    joints = row["held_out_joints_mrad"]
    if name == "xl330":
        folds = row["held_out_folds_mrad"]
        return f"{folds['kp 200']:.1f} at kp 200, {row['held_out_mrad']:.1f} over all"
    if name == "ak80_6":
        return ", ".join(f"{error:.1f}" for error in joints.values())
    arm = [error for joint, error in joints.items() if joint != "gripper"]
    return f"{sum(arm) / len(arm):.1f} without the gripper, {row['held_out_mrad']:.1f} with it"


def _data_set(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    title, text, of_others = _DATA[name]
    yield f"## {title}\n"
    yield f"{text}\n"
    if "missing" in part:
        yield f"Not measured: {part['missing']}.\n"
    else:
        yield from _picture(name)
        for picture in part["pictures"]:
            yield f"![{title}](../images/{picture})\n"
        yield from _folded("models and held-out runs", _rows(part))
        yield _where(part)
    yield f"{of_others}\n"
    yield "| | mrad |"
    yield "|---|--:|"
    yield from (f"| {what} | {error} |" for what, error in REFERENCES[name])
    yield ""


def _rows(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield models × held-out runs; with several joints, runs and joints × models, which fits the page."""
    rows, folds = part["rows"], list(part["rows"][0]["held_out_folds_mrad"])
    joints = list(rows[0]["held_out_joints_mrad"])
    several = len(joints) > 1
    heads = [] if several else [f"without {fold.split('.')[0]}" for fold in folds]
    yield f"| model | free | fitted | {_cells(heads)}held out | time |"
    yield f"|---|--:|--:|{'--:|' * len(heads)}--:|--:|"
    for row in part.get("published", ()):
        cells = [] if several else [f"{row['held_out_folds_mrad'][fold]:.1f}" for fold in folds]
        yield f"| published, `{row['model']}` | 0 | | {_cells(cells)}{row['held_out_mrad']:.1f} | |"
    for row in rows:
        cells = [] if several else [f"{row['held_out_folds_mrad'][fold]:.1f}" for fold in folds]
        errors = f"{row['train_mrad']:.1f} | {_cells(cells)}**{row['held_out_mrad']:.1f}**"
        yield f"| {_model(row)} | {row['parameters']} | {errors} | {row['seconds']:.0f} s |"
    yield f"\nTimes are for all {len(folds)} fits of a row. *Held out* is the mean over all runs.\n"
    if several:
        yield f"| held-out error [mrad] | {' | '.join(map(_model, rows))} |"
        yield f"|---|{'--:|' * len(rows)}"
        parts = (("held_out_folds_mrad", folds, "run"), ("held_out_joints_mrad", joints, "joint"))
        for key, names, kind in parts:
            for name in names:
                yield f"| {kind} `{name.split('.')[0]}` | {' | '.join(f'{row[key][name]:.1f}' for row in rows)} |"
        yield ""


def _model(row: Mapping[str, Any]) -> str:
    return f"`{row['model']}`{', chosen' if row['chosen'] else ''}"


def _cells(cells: Sequence[str]) -> str:
    return "".join(f"{cell} | " for cell in cells)


def _synthetic(part: Mapping[str, Any]) -> Iterator[str]:
    yield "## Parameters that are known\n"
    if "missing" in part:
        yield f"Not measured: {part['missing']}.\n"
        return
    setting = part["setting"]
    share = f"{100 * part['confidence']:.0f} %"
    yield (
        f"How often is the true value inside the {share} interval of the fit? For each model, parameters "
        f"of a joint with a pendulum of 0.5 kg at 0.1 m are drawn at random {setting['draws']} times, and each draw is "
        f"simulated in {setting['runs']} logs of {setting['seconds_each']:g} s, with uneven samples at about 220 Hz, "
        f"{setting['noise_mrad']:g} mrad of noise, an encoder of 4096 steps and delayed commands. The motor is "
        f"switched off after {setting['let_go']:g} s, unless stated otherwise.\n"
    )
    names = list(part["models"])
    yield "| model | error, median [mrad] | worst [mrad] | fits that ended far above the median |"
    yield "|---|--:|--:|--:|"
    yield from (f"| {name} | {_spread(part['models'][name]['mae_mrad'])} |" for name in names)
    yield (
        f"\n*Far above* means more than {_FAR:g} times: the search ended in a local minimum. The "
        "[verdict](../fit/index.md#is-it-any-good) reports it.\n"
    )
    yield from _picture("synthetic")
    yield from _folded("parameters", _parameters(part))
    yield (
        "Confidence intervals are local: they hold around the parameters that were found. They include the bias from a "
        "coarse time step, and parameters that compensate each other, such as damping of controller and joint if the "
        "motor is never switched off. The method was developed on other draws than these.\n"
    )
    yield _where(part)


def _parameters(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield parameters × models: how many true values are inside their intervals, and errors."""
    names = list(part["models"])
    yield f"| parameter | {' | '.join(names)} |"
    yield f"|---|{'--:|' * len(names)}"
    for path in dict.fromkeys(path for own in part["models"].values() for path in own["cases"]):
        cells = [_found_again(part["models"][name]["cases"].get(path)) for name in names]
        yield f"| `{path}` | {' | '.join(cells)} |"
    cells = [_found_again([c for own in part["models"][n]["cases"].values() for c in own], False) for n in names]
    yield f"| all | {' | '.join(cells)} |"
    yield (
        "\nEach cell: true values inside their intervals, then the median and the largest error, in percent of the "
        "range from which the parameter was drawn.\n"
    )


def _found_again(cases: Sequence[Sequence[float]] | None, with_distance: bool = True) -> str:
    if not cases:
        return ""
    inside = sum(low <= true <= high for true, _, low, high in cases)
    share = f"{inside} of {len(cases)}, {100 * inside / len(cases):.0f} %"
    if not with_distance:
        return share
    spread = max(case[0] for case in cases) - min(case[0] for case in cases)
    errors = sorted(abs(value - true) / max(spread, 1e-12) for true, value, *_ in cases)
    return f"{share}<br>{_percent(errors[len(errors) // 2])}, {_percent(errors[-1])}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _spread(errors: Sequence[float]) -> str:
    """Return the median and the worst error, and how many are far above the median."""
    median = sorted(errors)[len(errors) // 2]
    return f"{median:.2f} | {max(errors):.1f} | {sum(error > _FAR * median for error in errors)} of {len(errors)}"


def _where(part: Mapping[str, Any]) -> str:
    minutes = part["seconds"] / 60.0
    took = f"{minutes:.0f} min" if minutes >= 1.5 else f"{part['seconds']:.0f} s"
    return f"Measured on {part['date']}, in {took}: {part['machine']}.\n"


def _anchor(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")
