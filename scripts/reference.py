# SPDX-License-Identifier: Apache-2.0
"""Writes the documentation's tables from the declarations, and what the command prints.

``python -m scripts.reference docs``
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import actuon
from actuon.declare.registry import ComponentKind, Registered, by_schema
from actuon.logs import FORMATS
from actuon.motors.quantities import QUANTITIES, SPELLINGS
from actuon.motors.unmodelled import unmodelled

_TABLE = re.compile(r"<!-- ([\w ]+)(?:: ([\w, ]+))? -->\n(?:\|.*\n)*")
_PARAMETERS = re.compile(r"<!-- parameters: ([\w, ]+) -->")
_TERMINAL = re.compile(r"<!-- terminal: (.*?)(, without (.*))? -->\n(?:```text\n(?:.*\n)*?```\n)?")
_COLUMNS = 90
"""Width of the terminal on pages [characters]."""

GROUP_STAGES = {
    "IdealPDActuatorCfg": ("ControllerPD", "ClampingMaxEffort"),
    "DCMotorCfg": ("ControllerPD", "ClampingDCMotor"),
    "DelayedPDActuatorCfg": ("Delay", "ControllerPD", "ClampingMaxEffort"),
    "RemotizedPDActuatorCfg": ("Delay", "ControllerPD", "ClampingRemotized"),
    "ActuatorNetMLPCfg": ("ControllerNeuralMLP", "ClampingDCMotor"),
    "ActuatorNetLSTMCfg": ("ControllerNeuralLSTM", "ClampingDCMotor"),
}
"""The components that the config of an actuator group in `actuon.lab` becomes, in order."""


def parameters_table(names: str) -> str:
    """A Markdown table of the parameters that some configs share, named with commas between them."""
    shared = {parameter_table(getattr(actuon, name)) for name in names.split(", ")}
    if len(shared) > 1:
        raise SystemExit(f"<!-- parameters: {names} -->: their parameters differ")
    return shared.pop()


def parameter_table(config: type[actuon.Config]) -> str:
    """A Markdown table of the parameters of ``config``."""
    lines = ["| parameter | unit | range | default | in USD | |", "|---|---|---|---|---|---|"]
    for field in dataclasses.fields(config):
        declared = config.declared()[field.name]
        left_open = "unset" if declared.nullable else "required"
        default = left_open if field.default in (None, dataclasses.MISSING) else f"{field.default}"
        fallback = left_open if declared.fallback is None else f"{declared.fallback}"
        allowed = declared.range.replace(f" [{declared.unit}]", "")
        lines.append(f"| `{field.name}` | {declared.unit} | {allowed} | {default} | {fallback} | {declared.doc} |")
    return "\n".join(lines) + "\n"


def vocabulary_table(docs: Path, page: Path) -> str:
    """A Markdown table: names of each component in Python, YAML, USD and `actuon.lab`, with links from ``page``."""
    lines = ["| component, its config | YAML | USD schema | group configs |", "|---|---|---|---|"]
    pages = _pages(docs, page)
    for entry in _registered():
        assert entry.config is not None
        config = entry.config.__name__
        names = _names(entry)
        groups = [cfg for cfg, stages in GROUP_STAGES.items() if set(stages) & set(names)]
        lines.append(
            f"| {'<br>'.join(f'[`{name}`]({pages[config]})' for name in names)}<br>`{config}` "
            f"| `{entry.kind.key}`: `{entry.type_name}` | `{entry.schema_name}` "
            f"| {'<br>'.join(f'`{cfg}`' for cfg in groups)} |"
        )
    return "\n".join(lines) + "\n"


def types_table(docs: Path, page: Path) -> str:
    """A Markdown table: the types that YAML knows of each kind, with links from ``page``."""
    lines, pages = ["| kind | `type` |", "|---|---|"], _pages(docs, page)
    for kind in dict.fromkeys(entry.kind for entry in _registered()):
        own = [entry for entry in _registered() if entry.kind is kind and entry.config is not None]
        links = [f"[`{entry.type_name}`]({pages[entry.config.__name__]})" for entry in own if entry.config]
        lines.append(f"| `{kind.key}` | {', '.join(links)} |")
    return "\n".join(lines) + "\n"


def log_formats_table() -> str:
    """A Markdown table: the formats of logs, and how a log looks in each."""
    lines = ["| endings | content |", "|---|---|"]
    lines += [f"| {', '.join(f'`{ending}`' for ending in each.endings)} | {each.doc} |" for each in FORMATS]
    return "\n".join(lines) + "\n"


def terminal_block(line: str, beside: str | None = None) -> str:
    """Return a command line and what it prints in a copy of the folder of sample robots, as a block of Markdown.

    Args:
        line: ``actuon …``, ``tail -n N FILE``, or both with ``&&``; ``| head -n N`` and ``| tail -n N`` cut the output.
        beside: Command whose options to leave out, for a help text.
    """
    first, _, file = line.partition(" && ")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        shutil.copytree(actuon.assets.FOLDER, folder, dirs_exist_ok=True)
        lines = _cut(_printed(first), first.partition(" | ")[2])
        if file:
            cut, name = file.rsplit(" ", 1)
            lines += _cut(Path(name).read_text(encoding="utf-8"), cut)
        if beside is not None:
            lines = _without(lines, _options(_printed(beside).splitlines()))
    return "\n".join(("```text", f"$ {line}", *lines, "```\n"))


def _printed(line: str) -> str:
    """Return what a command prints."""
    from .terminal import printed

    return printed(line.partition(" | ")[0], _COLUMNS).export_text()


def _cut(text: str, how: str) -> list[str]:
    """Return the lines that ``head -n N`` or ``tail -n N`` leaves, all without either."""
    lines = [each.rstrip() for each in text.strip("\n").splitlines()]
    count = int(how.split()[-1]) if how else len(lines)
    return lines[-count:] if how.startswith("tail") else lines[:count]


def _options(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each option of a help text."""
    starts = [i for i, each in enumerate(lines) if each.startswith("  -")]
    ends = [next((j for j in range(i + 1, len(lines)) if not lines[j].startswith("   ")), len(lines)) for i in starts]
    return [list(lines[i:j]) for i, j in zip(starts, ends, strict=True)]


def _without(lines: Sequence[str], known: Sequence[Sequence[str]]) -> list[str]:
    """Return a help text with names alone of options that are known."""
    text = "\n".join((*lines, ""))
    for option in known:
        names = re.findall(r"--[\w-]+", option[0])
        text = text.replace("\n".join((*option, "")), f"  {names[0]}, …\n")
    return re.sub(r", …\n  (?=--[\w-]+, …\n)", ", ", text).replace(", …\n", ": as above\n").splitlines()


def terms_table() -> str:
    """A Markdown table: the terms that models of a fit are built of."""
    from actuon.fit.terms import TERMS  # needs the extra `fit`, which the environment of mjlab lacks

    lines = ["| term | effect |", "|---|---|"]
    lines += [f"| `{term.name}` | {term.doc} |" for term in TERMS.values()]
    return "\n".join(lines) + "\n"


def values_table() -> str:
    """A Markdown table: the values of data sheets, their units and sides."""
    units: dict[str, list[str]] = {}
    for name, spelling in SPELLINGS.items():
        units.setdefault(spelling.quantity, []).append(name)
    sides = {"rotor_inertia": "motor", "reflected_inertia": "joint"}
    lines = ["| value | unit | other units | at | |", "|---|---|---|---|---|"]
    for name, quantity in QUANTITIES.items():
        others = ", ".join(f"`{other}`" for other in units[name] if other != name)
        side = "by `at=`" if quantity.kind else sides.get(name, "")
        lines.append(f"| `{name}` | {quantity.unit} | {others} | {side} | {quantity.doc} |")
    return "\n".join(lines) + "\n"


def catalogue_table() -> str:
    """A Markdown table: the motors of the catalogue, with their main values at the joint."""
    numbers_of = "peak torque [N·m]", "rated torque [N·m]", "speed [rad/s]", "ratio"
    heads = "name", "on the motor", "vendor", *numbers_of, "not modelled"
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|--:|--:|--:|--:|---|"]
    for motor in map(actuon.find_motor, actuon.motor_names()):
        values = motor.datasheet.at_joint
        curve = values.get("driving_curve", ())
        peak = max((torque for _, torque in curve), default=values.get("peak_torque", values.get("stall_torque")))
        speed = max((speed for speed, _ in curve), default=values.get("no_load_speed", values.get("max_speed")))
        shown = peak, values.get("rated_torque"), speed, values.get("gear_ratio")
        cells = [motor.vendor, *("" if value is None else f"{value:.3g}" for value in shown)]
        if speed is None and "rated_speed" in values:
            cells[3] = f"rated {values['rated_speed']:.3g}"
        cells.append(", ".join(unmodelled(motor.datasheet.stages())))
        lines.append(f"| `{motor.name}` | {', '.join(motor.aliases)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def robots_table() -> str:
    """A Markdown table: robots, and the motors of their joints."""
    robots: dict[str, list[str]] = {}
    for motor in map(actuon.find_motor, actuon.motor_names()):
        for robot in motor.robots:
            name, _, joints = robot.partition(" (")
            robots.setdefault(name, []).append(f"`{motor.name}`{joints and ': '}{joints.removesuffix(')')}")
    lines = ["| robot | motors |", "|---|---|"]
    lines += [f"| {name} | {'<br>'.join(motors)} |" for name, motors in sorted(robots.items())]
    return "\n".join(lines) + "\n"


def _pages(docs: Path, linking: Path) -> dict[str, str]:
    """The page of each config, by its name, as ``linking`` links it."""
    pages = {
        name: Path(os.path.relpath(page, linking.parent)).as_posix()
        for page in sorted(docs.glob("motors/*.md"))
        for names in _PARAMETERS.findall(page.read_text(encoding="utf-8"))
        for name in names.split(", ")
    }
    missing = [entry.config.__name__ for entry in _registered() if entry.config and entry.config.__name__ not in pages]
    if missing:
        marks = ", ".join(f"<!-- parameters: {name} -->" for name in missing)
        raise SystemExit(f"{docs}/motors: no page has the line {marks}")
    return pages


def _registered() -> list[Registered]:
    """Components that come with Actuon and that files may name, in the usual order of stages."""
    configs = (value for value in vars(actuon).values() if isinstance(value, type) and issubclass(value, actuon.Config))
    entries = [by_schema(config.schema) for config in configs if config.schema is not None]
    kinds = list(ComponentKind)
    return sorted((entry for entry in entries if entry is not None), key=lambda entry: kinds.index(entry.kind))


def _names(entry: Registered) -> list[str]:
    """The classes that run a component's config: several if the content of a file picks one."""
    components: dict[str, type[actuon.Component]] = {
        name: cls for name, cls in vars(actuon).items() if isinstance(cls, type) and issubclass(cls, actuon.Component)
    }
    classes = {
        name: cls
        for name, cls in components.items()
        if issubclass(cls, entry.component_class) and cls.config in (None, entry.config)
    }
    own = [name for name, cls in classes.items() if name == cls.__name__]
    return [name for name in own if classes[name] is not entry.component_class] or own


def with_tables(docs: Path, page: Path) -> str:
    """Return the text of a page with its tables written anew."""
    tables: dict[str, Callable[[str], str]] = {
        "parameters": parameters_table,
        "vocabulary": lambda _: vocabulary_table(docs, page),
        "types": lambda _: types_table(docs, page),
        "log formats": lambda _: log_formats_table(),
        "terms": lambda _: terms_table(),
        "values": lambda _: values_table(),
        "catalogue": lambda _: catalogue_table(),
        "robots": lambda _: robots_table(),
    }

    def written(found: re.Match[str]) -> str:
        kind, name = found[1], found[2]
        mark = found[0].split("\n", 1)[0]
        return f"{mark}\n{tables[kind](name)}" if kind in tables else found[0]

    text = _TABLE.sub(written, page.read_text(encoding="utf-8"))
    return _TERMINAL.sub(lambda m: f"<!-- terminal: {m[1]}{m[2] or ''} -->\n{terminal_block(m[1], m[3])}", text)


def main() -> None:
    docs = Path(sys.argv[1])
    for page in sorted(docs.rglob("*.md")):
        written = with_tables(docs, page)
        if written != page.read_text(encoding="utf-8"):
            page.write_text(written, encoding="utf-8")
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
