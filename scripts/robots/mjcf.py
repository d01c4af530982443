# SPDX-License-Identifier: Apache-2.0
"""A robot as MJCF."""

from __future__ import annotations

from collections.abc import Iterator

from .description import AXES, COLOURS, FLOOR, FRICTION, OWN, TILE, TIME_STEP, Joint, Link, Robot, Shape, rolled

DRAWN, HIDDEN = 1, 3
"""Groups of geoms: viewers draw 0 to 2 and leave out 3."""


def numbers(*values: float) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def scenery(robot: Robot) -> Iterator[str]:
    """Yield visual elements only: a view from the front, light, a sky, materials."""
    middle, extent = robot.view
    yield "  <visual>"
    yield '    <global azimuth="140" elevation="-18" offwidth="1920" offheight="1080"/>'
    yield '    <headlight ambient="0.4 0.4 0.4" diffuse="0.3 0.3 0.3" specular="0.1 0.1 0.1"/>'
    yield '    <map shadowscale="0.3"/>'
    yield '    <quality shadowsize="2048"/>'
    yield "  </visual>"
    yield f'  <statistic center="{numbers(*middle)}" extent="{numbers(extent)}"/>'
    floor, lines = (numbers(*colour) for colour in FLOOR)
    yield "  <asset>"
    sky = 'rgb1="0.75 0.82 0.90" rgb2="0.96 0.97 0.98" width="32" height="192"'
    yield f'    <texture type="skybox" builtin="gradient" {sky}/>'
    grid = f'builtin="flat" mark="edge" rgb1="{floor}" markrgb="{lines}" width="64" height="64"'
    yield f'    <texture name="grid" type="2d" {grid}/>'
    repeat = f'texuniform="true" texrepeat="{numbers(1 / TILE, 1 / TILE)}"'
    yield f'    <material name="floor" texture="grid" {repeat} specular="0" shininess="0"/>'
    used = {shape.colour for link in robot.links for shape in link.shapes}
    for name, colour in COLOURS.items():
        if name in used:
            yield f'    <material name="{name}" rgba="{numbers(*colour)} 1" specular="0.4" shininess="0.5"/>'
    yield "  </asset>"


def mjcf(robot: Robot) -> str:
    """The robot as MJCF. Its links touch the ground, never each other."""
    joints = [link.joint for link in robot.links if link.joint]
    friction = f'friction="{numbers(*FRICTION)}"'

    def geom(shape: Shape) -> str:
        size = [shape.size[0], *(s / 2 for s in shape.size[1:])]
        size[0] /= 2 if shape.kind == "box" else 1
        turn = {"X": ' quat="1 0 1 0"', "Y": ' quat="1 1 0 0"', "Z": ""}[shape.axis]
        touch = f'contype="1" conaffinity="0" {friction}' if shape.collides else 'contype="0" conaffinity="0"'
        return f'<geom type="{shape.kind}" size="{numbers(*size)}" pos="{numbers(*shape.at)}"{turn} {touch}'

    def body(link: Link) -> Iterator[str]:
        joint = link.joint
        at, roll = (joint.at, joint.roll) if joint else ((0.0, 0.0, robot.height or 0.0), 0.0)
        yield f'<body name="{link.name}" pos="{numbers(*at)}" quat="{numbers(*rolled(roll))}">'
        yield f"  <!-- {robot.link_note}{link.note and '; '}{link.note} -->"
        inertia = numbers(*link.solid.inertia(link.mass))
        yield f'  <inertial pos="{numbers(*link.solid.at)}" mass="{numbers(link.mass)}" diaginertia="{inertia}"/>'
        if joint:
            yield f"  <!-- speed {numbers(joint.speed)} rad/s; {robot.joint_note} -->"
            yield (
                f'  <joint name="{joint.name}" axis="{numbers(*AXES[joint.axis])}" range="{numbers(*joint.limits)}" '
                f'armature="{numbers(joint.armature)}" frictionloss="{numbers(joint.friction)}" '
                f'damping="{numbers(joint.damping)}"/>'
            )
        elif robot.height is not None:
            yield "  <freejoint/>"
        if link.solid.collides:
            yield f'  {geom(link.solid)} group="{HIDDEN}"/>'
        for shape in link.shapes:
            yield f'  {geom(shape)} group="{DRAWN}" material="{shape.colour}"/>'
        for child in robot.links:
            if child.joint and child.joint.parent == link.name:
                yield from (f"  {line}" for line in body(child))
        yield "</body>"

    def actuator(joint: Joint) -> str:
        gains = f'kp="{numbers(joint.kp)}" kv="{numbers(joint.kd)}"'
        limit = numbers(-joint.effort, joint.effort)
        return f'    <position name="{joint.name}" joint="{joint.name}" {gains} forcerange="{limit}"/>'

    touch = f'conaffinity="1" {friction}' if robot.height is not None else 'conaffinity="0"'
    ground = f'<geom name="ground" type="plane" size="5 5 0.1" contype="0" {touch} material="floor"/>'
    home = numbers(*(joint.home for joint in joints))
    root = "" if robot.height is None else f"0 0 {numbers(robot.height)} 1 0 0 0 "
    lines = [
        f'<mujoco model="{robot.name}">',
        "  <!-- Written by scripts.robots. Sources of the figures:",
        *(f"       {name}: {source}" for name, source in robot.sources.items()),
        f"       {OWN} -->",
        '  <compiler angle="radian" autolimits="true"/>',
        f'  <option timestep="{numbers(TIME_STEP)}" integrator="Euler" gravity="0 0 -9.81"/>',
        *scenery(robot),
        "  <worldbody>",
        '    <light pos="1.4 -1.4 4" dir="-0.33 0.33 -1" cutoff="75" exponent="1" diffuse="0.8 0.8 0.8"/>',
        f"    {ground}",
        *(f"    {line}" for line in body(robot.links[0])),
        "  </worldbody>",
        "  <actuator>",
        f"    <!-- {robot.joint_note} -->",
        *map(actuator, joints),
        "  </actuator>",
        "  <keyframe>",
        f'    <key name="home" qpos="{root}{home}" ctrl="{home}"/>',
        "  </keyframe>",
        "</mujoco>",
    ]
    return "\n".join(lines) + "\n"
