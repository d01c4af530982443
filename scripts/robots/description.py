# SPDX-License-Identifier: Apache-2.0
"""Description of a robot: links, joints, and the shapes that are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass

Vector = tuple[float, float, float]
AXES: dict[str, Vector] = {"X": (1.0, 0.0, 0.0), "Y": (0.0, 1.0, 0.0), "Z": (0.0, 0.0, 1.0)}
TIME_STEP = 0.002
"""Of both files [s]."""
FRICTION = (0.8, 0.005, 0.0001)
"""Sliding [1], torsional [m] and rolling [m] friction of contacts."""
OWN = "Time step, friction of contacts, looks: chosen here."
COLOURS: dict[str, Vector] = {
    "shell": (0.90, 0.91, 0.93),
    "grey": (0.52, 0.55, 0.60),
    "dark": (0.13, 0.14, 0.17),
    "rubber": (0.05, 0.05, 0.06),
    "blue": (0.10, 0.35, 0.72),
    "orange": (0.96, 0.52, 0.10),
}
"""Red, green, blue from 0 to 1."""
FLOOR: tuple[Vector, Vector] = ((0.30, 0.36, 0.43), (0.42, 0.49, 0.57))
"""Colours of the floor and of the lines on it, `TILE` apart."""
TILE = 0.5
"""[m]"""


@dataclass(frozen=True)
class Shape:
    """A solid of even density, ``at`` its centre [m]. ``size`` [m] is chosen here unless a note says otherwise: edges
    of a box; radius and straight length of a cylinder or capsule along ``axis``; radius of a sphere."""

    kind: str
    size: tuple[float, ...]
    at: Vector
    axis: str = "Z"
    collides: bool = False
    colour: str = "dark"
    """Of `COLOURS`."""

    def inertia(self, mass: float) -> Vector:
        """About the centre, along x, y, z [kg·m²], to six digits."""
        if self.kind == "box":
            x, y, z = self.size
            moments = [mass / 12 * (a * a + b * b) for a, b in ((y, z), (x, z), (x, y))]
        else:
            radius, length = self.size
            round_part = math.pi * radius**2 * length
            caps = 4 / 3 * math.pi * radius**3 if self.kind == "capsule" else 0.0
            tube, cap = mass * round_part / (round_part + caps), mass * caps / (round_part + caps)
            along = tube * radius**2 / 2 + cap * 2 / 5 * radius**2
            across = tube * (radius**2 / 4 + length**2 / 12)
            across += cap * (2 / 5 * radius**2 + length**2 / 4 + 3 / 8 * length * radius)
            moments = [along if axis == self.axis else across for axis in AXES]
        x, y, z = (float(f"{moment:.6g}") for moment in moments)
        return x, y, z


@dataclass(frozen=True)
class Joint:
    """A hinge that puts the link ``at`` [m] in its parent, with a ``roll`` about x [rad]. ``limits``, ``home`` [rad];
    limits of ``effort`` [N·m], ``speed`` [rad/s]; ``kp`` [N·m/rad], ``kd`` [N·m·s/rad] of the engine's own drive, which
    Actuon replaces; ``armature`` [kg·m²]; dry ``friction`` [N·m], viscous ``damping`` [N·m·s/rad]."""

    name: str
    parent: str
    at: Vector
    axis: str
    limits: tuple[float, float]
    effort: float
    speed: float
    home: float
    kp: float
    kd: float
    armature: float
    friction: float
    damping: float
    roll: float = 0.0


@dataclass(frozen=True)
class Link:
    """``solid`` holds the ``mass`` [kg] and may collide, but is not drawn; ``shapes`` are drawn, and have no mass. The
    root has no ``joint``."""

    name: str
    mass: float
    solid: Shape
    joint: Joint | None = None
    shapes: tuple[Shape, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Robot:
    """Links, parents first. The root stands ``height`` [m] over the ground; None: bolted to a world whose ground
    is only drawn.
    ``sources`` says what the names in the notes stand for."""

    name: str
    links: tuple[Link, ...]
    height: float | None
    link_note: str
    joint_note: str
    sources: dict[str, str]
    view: tuple[Vector, float]
    """First view of a camera: its centre and size [m]."""


def rolled(angle: float) -> tuple[float, float, float, float]:
    """Quaternion w, x, y, z of a turn about x [rad]."""
    return math.cos(angle / 2), math.sin(angle / 2), 0.0, 0.0
