# SPDX-License-Identifier: Apache-2.0
"""The quadruped."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from .description import Joint, Link, Robot, Shape, Vector


def quadruped() -> Robot:
    """Twelve joints, of the class of the Unitree Go2. x is forward, y to the left, z up."""
    length, foot_radius, calf_mass, foot_mass = 0.213, 0.022, 0.154, 0.04
    thigh_home, calf_home, knee = 0.9, -1.8, (0.0, 0.0, -length)

    def joint(name: str, parent: str, at: Vector, axis: str, limits: tuple[float, float], home: float) -> Joint:
        effort, speed = (35.55, 20.07) if "calf" in name else (23.7, 30.1)
        return Joint(name, parent, at, axis, limits, effort, speed, home, 60.0, 1.5, 0.01, 0.2, 0.1)

    def leg(name: str, front: int, left: int) -> Iterator[Link]:
        solid = Shape("cylinder", (0.046, 0.045), (front * -0.0054, left * 0.00194, -0.000105), "Y")
        at = (front * 0.1934, left * 0.0465, 0.0)
        hinge = joint(f"{name}_hip_joint", "base", at, "X", (-1.0472, 1.0472), 0.0)
        looks: tuple[Shape, ...] = (
            Shape("cylinder", (0.044, 0.06), (0.0, 0.0, 0.0), "X", colour="dark"),
            Shape("cylinder", (0.043, 0.03), (0.0, left * 0.058, 0.0), "Y", colour="blue"),
        )
        yield Link(f"{name}_hip", 0.678, solid, hinge, looks)
        solid = Shape("box", (0.05, 0.08, 0.21), (-0.00374, left * -0.0223, -0.0327))
        limits, at = (-1.5708, 3.4907) if front > 0 else (-0.5236, 4.5379), (0.0, left * 0.0955, 0.0)
        hinge = joint(f"{name}_thigh_joint", f"{name}_hip", at, "Y", limits, thigh_home)
        looks = (
            Shape("cylinder", (0.043, 0.046), (0.0, 0.0, 0.0), "Y", colour="grey"),
            Shape("capsule", (0.027, 0.16), (0.0, 0.0, -0.105), colour="shell"),
            Shape("cylinder", (0.029, 0.042), knee, "Y", colour="dark"),
        )
        yield Link(f"{name}_thigh", 1.152, solid, hinge, looks)
        mass = calf_mass + foot_mass
        x, y, z = (calf_mass * c / mass for c in (0.00548, left * -0.000975, -0.115))
        solid = Shape("capsule", (0.013, 0.17), (round(x, 6), round(y, 6), round(z - foot_mass * length / mass, 6)))
        hinge = joint(f"{name}_calf_joint", f"{name}_thigh", knee, "Y", (-2.7227, -0.83776), calf_home)
        shin = Shape("capsule", (0.014, 0.17), (0.0, 0.0, -0.1), colour="dark")
        foot = Shape("sphere", (foot_radius,), knee, collides=True, colour="rubber")
        note = "calf 0.154 kg and foot 0.04 kg are one link; radius of the foot: Unitree"
        yield Link(f"{name}_calf", mass, solid, hinge, (shin, foot), note)

    trunk = Shape("box", (0.40, 0.16, 0.11), (0.021112, 0.0, -0.005366), collides=True)
    looks = (
        Shape("box", (0.30, 0.11, 0.09), (0.0, 0.0, 0.0), colour="shell"),
        Shape("capsule", (0.038, 0.24), (0.0, 0.055, 0.0), "X", colour="shell"),
        Shape("capsule", (0.038, 0.24), (0.0, -0.055, 0.0), "X", colour="shell"),
        Shape("box", (0.24, 0.09, 0.02), (-0.01, 0.0, 0.047), colour="dark"),
        Shape("box", (0.42, 0.07, 0.07), (0.0, 0.0, 0.0), colour="grey"),
        Shape("capsule", (0.036, 0.045), (0.275, 0.0, 0.022), "Y", colour="shell"),
        Shape("box", (0.10, 0.075, 0.065), (0.235, 0.0, 0.02), colour="shell"),
        Shape("capsule", (0.022, 0.05), (0.295, 0.0, 0.024), "Y", colour="dark"),
        Shape("capsule", (0.006, 0.05), (0.315, 0.0, 0.03), "Y", colour="orange"),
    )
    base = Link("base", 6.921 + 2 * 0.001, trunk, None, looks, "with the two head links of 0.001 kg each")
    legs = (leg("FL", 1, 1), leg("FR", 1, -1), leg("RL", -1, 1), leg("RR", -1, -1))
    height = length * (math.cos(thigh_home) + math.cos(thigh_home + calf_home)) + foot_radius
    return Robot(
        "quadruped",
        (base, *itertools.chain(*legs)),
        round(height, 6),
        "mass, centre of mass: Unitree; size: chosen here; inertia: from mass and size",
        "place, axis, limits, effort, speed: Unitree; armature, dry friction, home angle: Menagerie; "
        "viscous damping, drive gains: chosen here",
        {
            "Unitree": "robots/go2_description/urdf/go2_description.urdf in github.com/unitreerobotics/unitree_ros",
            "Menagerie": "unitree_go2/go2.xml in github.com/google-deepmind/mujoco_menagerie",
        },
        ((0.0, 0.0, 0.2), 0.7),
    )
