# SPDX-License-Identifier: Apache-2.0
"""Files of a session: the actuators as YAML or USD, and a report in HTML."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ..actuator.config import ActuatorConfig
from ..charts import Chart, draw_chart, name_curves, pyplot
from ..errors import RobotFileError, require
from ..files import replacing
from ..robot_files.formats import USD_FORMATS
from ..robot_files.yaml import ActuatorEntry, save_actuators
from ..robot_source import RobotSource
from .numbers import numbers_of

_STYLE = (
    "body{font-family:system-ui,sans-serif;max-width:60em;margin:2em auto;color:#222}"
    "td,th{padding:0.1em 1em 0.1em 0;text-align:left}svg{max-width:34em}img{max-width:100%}"
)


def entries_of(configs: Mapping[str, ActuatorConfig]) -> list[ActuatorEntry]:
    """Return entries for joints with equal actuators, named after the common part of the joints' names."""
    groups: list[tuple[ActuatorConfig, list[str]]] = []
    for joint, config in configs.items():
        for known, joints in groups:
            if known == config:
                joints.append(joint)
                break
        else:
            groups.append((config, [joint]))
    entries: list[ActuatorEntry] = []
    for config, joints in groups:
        name = _common(joints)
        taken = [entry.name for entry in entries]
        name = next(each for each in (name, *(f"{name}_{i}" for i in range(2, 10_000))) if each not in taken)
        entries.append(ActuatorEntry(name, tuple(joints), config))
    return entries


def _common(joints: list[str]) -> str:
    if len(joints) == 1:
        return joints[0]
    first = os.path.commonprefix(joints).strip("_ ")
    last = os.path.commonprefix([name[::-1] for name in joints])[::-1].strip("_ ")
    return max((last, first), key=len) or "motors"


def save_yaml(path: Path, configs: Mapping[str, ActuatorConfig]) -> None:
    """Write an ``actuon.yaml``."""
    save_actuators(path, entries_of(configs))


def usd_of(source: RobotSource) -> Path | None:
    """Return the USD file of a robot, or the one of the same name next to it; None if there is none."""
    if source.path is None:
        return None
    if source.path.suffix.lower() in USD_FORMATS:
        return source.path
    return next((path for ending in USD_FORMATS if (path := source.path.with_suffix(ending)).is_file()), None)


def save_usd(path: Path, source: RobotSource, configs: Mapping[str, ActuatorConfig]) -> None:
    """Write the robot's USD file with these actuators.

    Raises:
        RobotFileError: The robot has no USD file.
    """
    robot = usd_of(source)
    if robot is None:
        raise RobotFileError(f"{source.title} has no USD file: save the values as YAML")
    from ..robot_files.usd.author import author_file

    author_file(robot, entries_of(configs), path, overwrite_existing=True)


def as_png(picture: np.ndarray) -> bytes:
    """Return an image of shape (H, W, 3 or 4), 8 bits each, as a PNG file."""
    stream = io.BytesIO()
    require("PIL.Image", "studio", "an image of the page").fromarray(picture).save(stream, "PNG")
    return stream.getvalue()


def save_report(
    path: Path,
    title: str,
    picture: bytes | None,
    readouts: Mapping[str, str],
    charts: Mapping[str, Chart],
    configs: Mapping[str, ActuatorConfig],
) -> None:
    """Write a report.

    Args:
        path: The HTML file.
        title: Title, with the robot and the joint in the plots.
        picture: Image of the robot as a PNG file; None if no page is open.
        readouts: Pace, energy and others by name.
        charts: By name.
        configs: The actuators by joint.
    """
    image = ""
    if picture is not None:
        image = f'<img alt="the robot" src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>{image}{_table(readouts.items())}"
        f"{''.join(map(_drawn, charts.values()))}"
        f"<h2>Values</h2>{_values(configs)}</html>\n"
    )
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _drawn(chart: Chart) -> str:
    """Draw a chart as SVG."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7.0, chart.height / 60.0), layout="constrained")
    draw_chart(axes, chart)
    name_curves(figure, [(axes, chart)])
    stream = io.StringIO()
    figure.savefig(stream, format="svg")
    plt.close(figure)
    return stream.getvalue()[stream.getvalue().index("<svg") :]


def _values(configs: Mapping[str, ActuatorConfig]) -> str:
    parts = []
    for entry in entries_of(configs):
        rows = [(number.stage_name, number.label, str(number.value)) for number in numbers_of(entry.actuator)]
        parts.append(f"<h3>{html.escape(', '.join(entry.joints))}</h3>{_table(rows)}")
    return "".join(parts)


def _table(rows: Iterable[Iterable[str]]) -> str:
    lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
