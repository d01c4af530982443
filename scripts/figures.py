# SPDX-License-Identifier: Apache-2.0
"""Pictures of the documentation: ``make figures`` draws all, ``python -m scripts.figures NAME…`` those of these names.

This module draws robots; MuJoCo does so without a screen, as in ``actuon run``. The other pictures are in `drawings`,
`measured_figures` and `motor_figures`.
"""

from __future__ import annotations

import argparse
import re
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from actuon import assets, load_actuators, match_joints, quiet
from actuon.actuator.trials import envelope
from actuon.charts import pyplot
from actuon.demo.film import Film
from actuon.demo.run import Run, simulate
from actuon.demo.scenes import moments
from actuon.robot_source import find_source

from .drawings import DRAWINGS
from .figure_style import IDEAL, INK, LIMIT, REAL, Draw, plot, size_of, write, write_pictures
from .measured_figures import MEASURED
from .motor_figures import MOTORS, TUTORIALS
from .terminal import TERMINALS

EXAMPLE = Path("examples/quadruped_with_arm.py")
"""In a checkout."""
_COLOURS = ("#d1495b", "#edae49", "#2e86ab", "#66a182", "#8d6a9f")
_PLAIN = (0.80, 0.81, 0.83, 1.0)
_WIDTH, _HEIGHT = 480, 360
_VIEW = 37.0
"""Angle of view of a robot that stands alone on a picture [°]."""
_BESIDE = 1.15
"""Distance of two robots on a picture [m]."""


@dataclass(frozen=True)
class Group:
    """Joints with the same motor: ``label`` says which."""

    label: str
    joints: tuple[str, ...]


def at_home(model: Any) -> Film:
    """Return a film of one frame, the model's first keyframe."""
    return Film(model, 1, [0.0], [model.key_qpos[0].copy()])


def on_picture(model: Any, points: np.ndarray, width: int = _WIDTH, height: int = _HEIGHT) -> np.ndarray:
    """Return the pixels, shape (K, 2), of points in space [m], shape (K, 3), on the picture of a model."""
    camera = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, camera)
    azimuth, elevation = np.radians([camera.azimuth, camera.elevation])
    forward = np.array([*(np.cos(elevation) * np.array([np.cos(azimuth), np.sin(azimuth)])), np.sin(elevation)])
    right = np.array([np.sin(azimuth), -np.cos(azimuth), 0.0])
    seen = points - (camera.lookat - camera.distance * forward)
    focal = 0.5 * height / np.tan(np.radians(model.vis.global_.fovy) / 2)
    offset = focal * np.stack([seen @ right, -seen @ np.cross(right, forward)], axis=1) / (seen @ forward)[:, None]
    return offset + 0.5 * np.array([width, height])


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


def on_white(model: Any) -> None:
    """Make sky and ground white, under even light, so that a picture ends nowhere and its file is small."""
    model.light_type[:] = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
    model.vis.map.haze = 0.0
    model.vis.headlight.ambient[:] = 0.55
    model.vis.quality.shadowsize, model.vis.map.shadowclip = 8192, 0.6
    model.tex_data[:] = 255
    ground = model.geom("ground").id
    model.geom_matid[ground], model.geom_rgba[ground], model.geom_size[ground] = -1, 1.0, (50.0, 50.0, 0.1)


def show_picture(axis: Any, picture: np.ndarray) -> None:
    """Show a picture in all its pixels."""
    axis.imshow(picture, interpolation="none")
    axis.set_axis_off()


def draw_groups(axis: Any, model: Any, groups: list[Group], title: str) -> None:
    """Draw the robot at home, its links in the colours of their groups, with a label below for each group and a line
    from it to one of the joints."""
    coloured(model, groups)
    on_white(model)
    model.vis.global_.fovy = _VIEW
    show_picture(axis, next(at_home(model).draw([0], _WIDTH, _HEIGHT)))
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
        line = {"arrowstyle": "-", "color": INK, "linewidth": 1.0, "shrinkA": 2, "shrinkB": 0}
        place = ((slot + 0.5) * _WIDTH / len(groups), _HEIGHT + 70)
        text = {"ha": "center", "va": "center", "fontsize": 8.5, "linespacing": 1.3}
        axis.annotate(groups[i].label, places[i], place, arrowprops=line, **text)
        axis.plot(*places[i], "o", markeredgecolor=INK, markerfacecolor=colour, markersize=6)
    axis.set(ylim=(_HEIGHT + 112, 0), title=title)


def of_yaml() -> tuple[Any, list[Group]]:
    """Return the quadruped, and the entries of its YAML."""
    model = mujoco.MjModel.from_xml_path(str(assets.quadruped_mjcf))
    names = [model.joint(i).name for i in range(model.njnt)]
    groups = []
    for entry, joints in match_joints(load_actuators(assets.quadruped_yaml), names[1:]):
        config: Any = entry.actuator
        gains, limit = config.controller, config.clamping[-1].max_effort
        text = f"{entry.name}: {len(joints)} joints\n{gains.kp:g} N·m/rad\n{gains.kd:g} N·m·s/rad\n{limit:g} N·m"
        groups.append(Group(text, tuple(joints)))
    return model, groups


def of_example() -> tuple[Any, list[Group]]:
    """Return the quadruped with an arm, and the groups of the example."""
    example = runpy.run_path(str(EXAMPLE))
    model = example["quadruped_with_arm"]()
    model.stat.center[:], model.stat.extent = (0.1, 0.0, 0.54), 1.25
    names = [model.joint(i).name for i in range(1, model.njnt)]
    groups = []
    for name, config in example["GROUPS"].items():
        joints = [joint for joint in names if any(re.fullmatch(text, joint) for text in config.joint_names_expr)]
        kind = "implicit" if "Implicit" in type(config).__name__ else "explicit"
        groups.append(Group(f'"{name}": {len(joints)} joints\n{type(config).__name__}\n{kind}', tuple(joints)))
    return model, groups


def groups_of_robots() -> Any:
    """Draw robots with their links in the colours of their groups."""
    figure, axes = plot("Links in the colours of the entries or groups that move them", 395, 1, 2)
    draw_groups(axes[0], *of_yaml(), "entries of quadruped.actuon.yaml")
    draw_groups(axes[1], *of_example(), "groups of examples/quadruped_with_arm.py")
    return figure


def shipped_robots() -> Any:
    """Draw the robots that come with Actuon."""
    paths, pictures = (assets.quadruped_mjcf, assets.arm_mjcf), []
    for path in paths:
        model = mujoco.MjModel.from_xml_path(str(path))
        on_white(model)
        model.vis.global_.fovy = _VIEW
        picture = next(at_home(model).draw([0], 800, 600))
        rows, columns = (np.flatnonzero((picture < 250).any(axis=(i, 2))) for i in (1, 0))
        pictures.append(picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
    widths = [picture.shape[1] / picture.shape[0] for picture in pictures]
    figure, axes = plot("The robots that come with Actuon", 330, 1, 2, width_ratios=widths)
    for axis, path, picture in zip(axes, paths, pictures, strict=True):
        show_picture(axis, picture)
        axis.set_title(path.name)
    return figure


def hop() -> Any:
    """Draw how high the quadruped hops with real and with ideal motors, and why."""
    real, ideal = (simulate(find_source(assets.quadruped_mjcf), 2.4, 1, kind)[0] for kind in (False, True))
    figure = pyplot().figure(figsize=size_of(520), layout="constrained")
    apex = [float(run.heights[:, 0].max()) for run in (real, ideal)]
    title = f"The same commands: real motors lift the trunk to {apex[0]:.2f} m, ideal ones to {apex[1]:.2f} m"
    figure.suptitle(title, x=0.012, ha="left")
    above, left, right = figure.subplot_mosaic("AA;BC", height_ratios=(0.8, 1.1)).values()
    _draw_apex(above, (real, ideal))
    _draw_heights(left, (real, ideal))
    _draw_plane(right, (real, ideal), "FL_calf_joint")
    return figure


def _draw_apex(axis: Any, runs: tuple[Run, Run]) -> None:
    """Draw the robot twice in one scene, at the top of its hop with real and with ideal motors."""
    scene = mujoco.MjSpec.from_file(str(assets.quadruped_mjcf))
    other = mujoco.MjSpec.from_file(str(assets.quadruped_mjcf))
    scene.worldbody.add_frame(pos=[_BESIDE, 0.0, 0.0]).attach_body(other.body("base"), "ideal-", "")
    model = scene.compile()
    view = model.vis.global_
    view.azimuth, view.elevation, view.fovy = 90.0, -5.0, 8.0  # from far, so that both are seen from the side
    model.stat.center[:], model.stat.extent = (0.41, 0.0, 0.24), 3.1
    on_white(model)
    for geom, material in enumerate(model.geom_matid):
        if material >= 0 and model.material(int(material)).name.endswith("shell"):
            root = model.body(int(model.body_rootid[model.geom_bodyid[geom]])).name
            colour = IDEAL if root.startswith("ideal-") else REAL
            model.geom_matid[geom] = -1
            model.geom_rgba[geom] = (*pyplot().matplotlib.colors.to_rgb(colour), 1.0)
    places = []
    for number, run in enumerate(runs):
        assert run.film is not None
        place = run.film.positions[run.film.at(dict(moments(run))["hop"])].copy()
        place[:2] = (number * _BESIDE, 0.0)
        places.append(place)
    film = Film(model, 0, [0.0], [np.concatenate(places)])
    width, height = 960, 264
    picture = next(film.draw([0], width, height))
    show_picture(axis, picture)
    for number, (run, colour) in enumerate(zip(runs, (REAL, IDEAL), strict=True)):
        top = float(run.heights[:, 0].max())
        x = number * _BESIDE - 0.4
        ends = on_picture(model, np.array([[x, 0.0, 0.0], [x, 0.0, top]]), width, height)
        axis.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "<->", "color": colour, "linewidth": 1.4})
        name = "real motors" if run.title.startswith("real") else "ideal motors"
        label = {"color": colour, "ha": "right", "va": "center", "fontsize": 9.5}
        axis.text(ends[:, 0].mean() - 14, ends[:, 1].mean(), f"{name}\n{top:.2f} m", **label)


def _draw_heights(axis: Any, runs: tuple[Run, Run]) -> None:
    for run, colour in zip(runs, (REAL, IDEAL), strict=True):
        time = run.data["time"][: len(run.heights)]
        axis.plot(time[::4], run.heights[::4, 0], color=colour)
    axis.text(1.66, 0.385, "ideal", color=IDEAL)
    axis.text(1.4, 0.355, "real", color=REAL, ha="right")
    axis.set(xlabel="time [s]", ylabel="height of the trunk [m]", xlim=(1.2, 2.4), ylim=(0.12, 0.44))


def _draw_plane(axis: Any, runs: tuple[Run, Run], joint: str) -> None:
    """Draw efforts over speeds of a joint, and the envelope of its motor."""
    speeds = np.linspace(-30.0, 30.0, 241)
    can = envelope(runs[0].actuators[joint], speeds)
    axis.fill_between(speeds, can.least, can.most, color=REAL, alpha=0.10, linewidth=0)
    for side in (can.least, can.most):
        axis.plot(speeds, side, color=LIMIT, linewidth=1.2)
    dof = [own.name for own in runs[0].joints].index(joint)
    for run, colour in zip(runs[::-1], (IDEAL, REAL), strict=True):
        late = run.data["time"] > 1.2
        velocity, effort = (run.data[name][late, 0, dof][::2] for name in ("velocity", "applied_effort"))
        axis.plot(velocity, effort, color=colour, linewidth=1.1)
    axis.set(xlabel="calf: speed [rad/s]", ylabel="effort [N·m]", xlim=(-25, 25), ylim=(-60, 60))
    write(axis, (10.0, -42.0), "torque-speed limit", LIMIT, "center")


PICTURES: dict[Path, dict[str, Draw]] = {
    Path("docs/images"): {
        "hop": hop,
        "groups": groups_of_robots,
        "robots": shipped_robots,
        **DRAWINGS,
        **MEASURED,
        **MOTORS,
        **TERMINALS,
    },
    Path("docs/tutorials/images"): TUTORIALS,
}
"""Pictures by the names of their files, by folder."""


if __name__ == "__main__":
    quiet()
    names = {name: None for pictures in PICTURES.values() for name in pictures}
    parser = argparse.ArgumentParser("python -m scripts.figures", description="Draw pictures of the documentation.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"Default: all of {', '.join(names)}.")
    wanted = parser.parse_args().names or names
    if unknown := [name for name in wanted if name not in names]:
        parser.error(f"no pictures of these names: {', '.join(unknown)}")
    for folder, pictures in PICTURES.items():
        for path in write_pictures({name: draw for name, draw in pictures.items() if name in wanted}, folder):
            print(f"wrote {path}")
