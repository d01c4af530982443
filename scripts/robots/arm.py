# SPDX-License-Identifier: Apache-2.0
"""The arm."""

from __future__ import annotations

import math

from .description import Joint, Link, Robot, Shape, Vector

FR3_LINKS: tuple[tuple[float, str, tuple[float, ...], Vector, str], ...] = (
    (2.3966, "box", (0.16, 0.13, 0.17), (-0.0172, 0.0004, 0.0745), "Z"),
    (2.9274653454, "cylinder", (0.065, 0.27), (0.0000004128, -0.0181251324, -0.0386035970), "Z"),
    (2.9355370338, "cylinder", (0.07, 0.28), (0.0031828864, -0.0743221644, 0.0088146084), "Y"),
    (2.2449013699, "box", (0.18, 0.14, 0.22), (0.0407015686, -0.0048200565, -0.0289730823), "Z"),
    (2.6155955791, "box", (0.18, 0.22, 0.12), (-0.0459100965, 0.0630492960, -0.0085187868), "Z"),
    (2.3271207594, "cylinder", (0.055, 0.30), (-0.0016039605, 0.0292536262, -0.0972965990), "Z"),
    (1.8170376524, "box", (0.12, 0.14, 0.10), (0.0597131221, -0.0410294666, -0.0101692726), "Z"),
    (0.6271432862, "cylinder", (0.045, 0.06), (0.0045225817, 0.0086261921, -0.0161633251), "Z"),
)
"""Mass [kg], kind, size and axis of the shape, centre of mass [m]; link0 to link7."""

FR3_JOINTS: tuple[tuple[Vector, float, tuple[float, float], float, float, float, float, float], ...] = (
    ((0.0, 0.0, 0.333), 0.0, (-2.7437, 2.7437), 2.62, 0.0, 600.0, 50.0, 1.137),
    ((0.0, 0.0, 0.0), -math.pi / 2, (-1.7837, 1.7837), 2.62, -math.pi / 4, 600.0, 50.0, 1.137),
    ((0.0, -0.316, 0.0), math.pi / 2, (-2.9007, 2.9007), 2.62, 0.0, 600.0, 50.0, 1.137),
    ((0.0825, 0.0, 0.0), math.pi / 2, (-3.0421, -0.1518), 2.62, -3 * math.pi / 4, 600.0, 50.0, 1.137),
    ((-0.0825, 0.384, 0.0), -math.pi / 2, (-2.8065, 2.8065), 5.26, 0.0, 250.0, 30.0, 0.763),
    ((0.0, 0.0, 0.0), math.pi / 2, (0.5445, 4.5169), 4.18, math.pi / 2, 150.0, 25.0, 0.44),
    ((0.088, 0.0, 0.0), math.pi / 2, (-3.0159, 3.0159), 5.26, math.pi / 4, 50.0, 15.0, 0.248),
)
"""Place [m], roll [rad], limits [rad], speed [rad/s], home [rad], drive kp and kd, dry friction [N·m]; joint1 to 7."""


LOOKS: tuple[tuple[Shape, ...], ...] = (
    (
        Shape("cylinder", (0.072, 0.14), (0.0, 0.0, 0.07), colour="grey"),
        Shape("box", (0.12, 0.11, 0.09), (-0.09, 0.0, 0.045), colour="grey"),
    ),
    (
        Shape("cylinder", (0.062, 0.02), (0.0, 0.0, -0.182), colour="blue"),
        Shape("cylinder", (0.06, 0.172), (0.0, 0.0, -0.086), colour="shell"),
    ),
    (
        Shape("cylinder", (0.062, 0.14), (0.0, 0.0, 0.0), colour="blue"),
        Shape("cylinder", (0.056, 0.19), (0.0, -0.095, 0.0), "Y", colour="shell"),
    ),
    (
        Shape("cylinder", (0.058, 0.02), (0.0, 0.0, -0.116), colour="blue"),
        Shape("cylinder", (0.056, 0.10), (0.0, 0.0, -0.056), colour="shell"),
        Shape("capsule", (0.05, 0.0825), (0.04125, 0.0, 0.0), "X", colour="shell"),
    ),
    (
        Shape("cylinder", (0.056, 0.12), (0.0, 0.0, 0.0), colour="blue"),
        Shape("capsule", (0.05, 0.0825), (-0.04125, 0.0, 0.0), "X", colour="shell"),
        Shape("cylinder", (0.054, 0.11), (-0.0825, 0.06, 0.0), "Y", colour="shell"),
    ),
    (
        Shape("cylinder", (0.056, 0.02), (0.0, 0.0, -0.26), colour="blue"),
        Shape("cylinder", (0.052, 0.13), (0.0, 0.0, -0.185), colour="shell"),
        Shape("capsule", (0.042, 0.14), (0.0, 0.0, -0.07), colour="shell"),
    ),
    (
        Shape("cylinder", (0.048, 0.11), (0.0, 0.0, 0.0), colour="blue"),
        Shape("capsule", (0.045, 0.088), (0.044, 0.0, 0.0), "X", colour="shell"),
    ),
    (
        Shape("cylinder", (0.045, 0.06), (0.0, 0.0, 0.045), colour="dark"),
        Shape("cylinder", (0.0315, 0.032), (0.0, 0.0, 0.091), colour="orange"),
    ),
)
"""Visual shapes of link0 to link7, in the link's own frame."""


def arm() -> Robot:
    """Seven joints, of the class of the Franka Research 3, without a hand."""
    links = []
    for i, (mass, kind, size, centre, along) in enumerate(FR3_LINKS):
        joint = None
        if i > 0:
            at, roll, limits, speed, home, kp, kd, friction = FR3_JOINTS[i - 1]
            effort, armature = (87.0, 0.195) if i <= 4 else (12.0, 0.074)
            motor = (effort, speed, home, kp, kd, armature, friction, 0.21)
            joint = Joint(f"joint{i}", f"link{i - 1}", at, "Z", limits, *motor, roll)
        links.append(Link(f"link{i}", mass, Shape(kind, size, centre, along, collides=True), joint, LOOKS[i]))
    return Robot(
        "arm",
        tuple(links),
        None,
        "mass, centre of mass: Franka; size: chosen here; inertia: from mass and size",
        "limits, effort, speed: Franka; place, axis: Kinematics; armature, dry friction, viscous damping: Menagerie; "
        "home angle, drive gains: Example",
        {
            "Franka": "robots/fr3/inertials.yaml and joint_limits.yaml in github.com/frankaemika/franka_description",
            "Kinematics": "robots/fer/kinematics.yaml in the same, which Menagerie's FR3 shares",
            "Menagerie": "franka_fr3/fr3.xml in github.com/google-deepmind/mujoco_menagerie",
            "Example": "examples/joint_impedance_control.cpp in github.com/frankaemika/libfranka",
        },
        ((0.25, 0.0, 0.5), 1.0),
    )
