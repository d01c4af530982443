# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the documentation: ``make figures`` writes them into ``docs/images``.

This module draws robots; MuJoCo does so without a screen, as in ``actuon run``. The other pictures are in `drawings`
and `measured_figures`.
"""

from __future__ import annotations

import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from actuon import assets, load_actuators, match_joints, quiet
from actuon.charts import draw_chart, pyplot, save_figure
from actuon.demo.film import Film
from actuon.demo.plots import height
from actuon.demo.run import simulate
from actuon.demo.scenes import moments
from actuon.robot_source import find_source

from .drawings import DRAWINGS
from .figure_style import write_pictures
from .measured_figures import MEASURED

PICTURES = {**DRAWINGS, **MEASURED}
"""Pictures by the names of their files."""
EXAMPLE = Path("examples/quadruped_with_arm.py")
"""In a checkout."""
_COLOURS = ("#d1495b", "#edae49", "#2e86ab", "#66a182", "#8d6a9f")
_PLAIN = (0.80, 0.81, 0.83, 1.0)
_WIDTH, _HEIGHT = 640, 480


@dataclass(frozen=True)
class Group:
    """Joints with the same motor: ``label`` says which."""

    label: str
    joints: tuple[str, ...]


def at_home(model: Any) -> Film:
    """A film of one frame: the model's first keyframe."""
    return Film(model, 1, [0.0], [model.key_qpos[0].copy()])


def on_picture(model: Any, points: np.ndarray) -> np.ndarray:
    """Where points in space [m], shape (K, 3), are on the picture of the model, in pixels, shape (K, 2)."""
    camera = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, camera)
    azimuth, elevation = np.radians([camera.azimuth, camera.elevation])
    forward = np.array([*(np.cos(elevation) * np.array([np.cos(azimuth), np.sin(azimuth)])), np.sin(elevation)])
    right = np.array([np.sin(azimuth), -np.cos(azimuth), 0.0])
    seen = points - (camera.lookat - camera.distance * forward)
    focal = 0.5 * _HEIGHT / np.tan(np.radians(model.vis.global_.fovy) / 2)
    offset = focal * np.stack([seen @ right, -seen @ np.cross(right, forward)], axis=1) / (seen @ forward)[:, None]
    return offset + 0.5 * np.array([_WIDTH, _HEIGHT])


def coloured(model: Any, groups: list[Group]) -> None:
    """Give the links the colours of the groups that move them."""
    colours = pyplot().matplotlib.colors
    of_body = {
        int(model.joint(name).bodyid[0]): (*colours.to_rgb(colour), 1.0)
        for group, colour in zip(groups, _COLOURS, strict=False)
        for name in group.joints
    }
    for geom, body in enumerate(model.geom_bodyid):
        if body > 0:
            model.geom_matid[geom], model.geom_rgba[geom] = -1, of_body.get(int(body), _PLAIN)


def draw_groups(axis: Any, model: Any, groups: list[Group], title: str) -> None:
    """The robot at home, its links in the colours of their groups, and below it a label of each with a line to one of
    its joints."""
    coloured(model, groups)
    axis.imshow(next(at_home(model).draw([0], _WIDTH, _HEIGHT)))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    places: list[tuple[float, ...]] = []
    for group in groups:
        joints = np.array([data.joint(name).xanchor for name in group.joints])
        seen = on_picture(model, joints)
        places.append(tuple(seen[np.argmax(seen[:, 1])]))
    for slot, i in enumerate(sorted(range(len(groups)), key=lambda i: places[i])):
        colour = _COLOURS[i]
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": colour, "linewidth": 2}
        line = {"arrowstyle": "-", "color": colour, "linewidth": 1.5, "shrinkB": 0}
        place = ((slot + 0.5) * _WIDTH / len(groups), _HEIGHT + 75)
        axis.annotate(
            groups[i].label, places[i], place, ha="center", va="center", fontsize=8, bbox=box, arrowprops=line
        )
        axis.plot(*places[i], "o", color="white", markeredgecolor=colour, markersize=6)
    axis.set_ylim(_HEIGHT + 130, 0)
    axis.set_title(title, fontsize=10)
    axis.set_axis_off()


def of_yaml() -> tuple[Any, list[Group]]:
    """The quadruped, and the entries of its YAML."""
    model = mujoco.MjModel.from_xml_path(str(assets.quadruped_mjcf))
    names = [model.joint(i).name for i in range(model.njnt)]
    groups = []
    for entry, joints in match_joints(load_actuators(assets.quadruped_yaml), names[1:]):
        config: Any = entry.actuator
        gains, limit = config.controller, config.clamping[-1].max_effort
        text = f"{entry.name}: {len(joints)} joints\n{gains.kp:g} N·m/rad,\n{gains.kd:g} N·m·s/rad; {limit:g} N·m"
        groups.append(Group(text, tuple(joints)))
    return model, groups


def of_example() -> tuple[Any, list[Group]]:
    """The quadruped with an arm, and the groups of the example."""
    example = runpy.run_path(str(EXAMPLE))
    model = example["quadruped_with_arm"]()
    model.stat.center[:], model.stat.extent = (0.1, 0.0, 0.58), 1.15
    names = [model.joint(i).name for i in range(1, model.njnt)]
    groups = []
    for name, config in example["GROUPS"].items():
        joints = [joint for joint in names if any(re.fullmatch(text, joint) for text in config.joint_names_expr)]
        kind = "implicit" if "Implicit" in type(config).__name__ else "explicit"
        groups.append(Group(f'"{name}": {len(joints)} joints\n{type(config).__name__}\n{kind}', tuple(joints)))
    return model, groups


def write_groups(folder: Path) -> Path:
    """``groups.png``: robots with their groups."""
    figure, axes = pyplot().subplots(1, 2, figsize=(10.0, 5.2), layout="constrained")
    draw_groups(axes[0], *of_yaml(), "entries of quadruped.actuon.yaml")
    draw_groups(axes[1], *of_example(), "groups of examples/quadruped_with_arm.py")
    save_figure(figure, folder / "groups.png")
    return folder / "groups.png"


def write_robots(folder: Path) -> Path:
    """``robots.png``: the robots that come with Actuon."""
    figure, axes = pyplot().subplots(1, 2, figsize=(10.0, 3.85), layout="constrained")
    for axis, path in zip(axes, (assets.quadruped_mjcf, assets.arm_mjcf), strict=True):
        film = at_home(mujoco.MjModel.from_xml_path(str(path)))
        axis.imshow(next(film.draw([0], _WIDTH, _HEIGHT)))
        axis.set_axis_off()
    save_figure(figure, folder / "robots.png")
    return folder / "robots.png"


def write_hop(folder: Path) -> Path:
    """``hop.png``: how high the quadruped hops with real and with ideal motors."""
    figure = pyplot().figure(figsize=(10.0, 5.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1.25, 1.0))
    runs = [simulate(find_source(assets.quadruped_mjcf), 6.0, 1, ideal)[0] for ideal in (False, True)]
    for axis, run in zip(above.subplots(1, 2), runs, strict=True):
        assert run.film is not None
        frame = run.film.at(dict(moments(run))["hop"])
        axis.imshow(next(run.film.draw([frame], _WIDTH, 352)))
        axis.set_title(f"{run.title}: {run.heights[:, 0].max():.2f} m", fontsize=10)
        axis.set_axis_off()
    draw_chart(below.subplots(), height(runs))
    save_figure(figure, folder / "hop.png")
    return folder / "hop.png"


if __name__ == "__main__":
    quiet()
    images = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    robots = [write(images) for write in (write_groups, write_robots, write_hop)]
    for path in [*robots, *write_pictures(PICTURES, images)]:
        print(f"wrote {path}")
