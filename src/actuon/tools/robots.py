# SPDX-License-Identifier: Apache-2.0
"""Two robots of our own primitive shapes, with the published masses, limits and motor figures of real ones.

Each robot is one table of links and joints here, written twice: as MJCF for MuJoCo and as USD for Newton. Both say
beside each figure where it comes from; "chosen here" marks what nobody published. Inertia follows from the published
mass and the shape drawn here, which is centred on the published centre of mass.

Run with ``python -m actuon.tools.robots [folder]``; without a folder it writes over those of `actuon.assets`. The files
do not depend on when or where they are written.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actuon import assets, author_actuators, load_actuators

Vector = tuple[float, float, float]
AXES: dict[str, Vector] = {"X": (1.0, 0.0, 0.0), "Y": (0.0, 1.0, 0.0), "Z": (0.0, 0.0, 1.0)}
TIME_STEP = 0.002
"""Of both files [s]."""
FRICTION = (0.8, 0.005, 0.0001)
"""Sliding [1], torsional [m] and rolling [m] friction of contacts."""
OWN = "Time step, friction of contacts: chosen here."


@dataclass(frozen=True)
class Shape:
    """A solid of even density, ``at`` its centre [m]. ``size`` [m] is chosen here unless a note says otherwise: edges
    of a box; radius and straight length of a cylinder or capsule along ``axis``; radius of a sphere."""

    kind: str
    size: tuple[float, ...]
    at: Vector
    axis: str = "Z"
    collides: bool = False

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
    """``solid`` holds the ``mass`` [kg]; ``shapes`` have none. The root has no ``joint``."""

    name: str
    mass: float
    solid: Shape
    joint: Joint | None = None
    shapes: tuple[Shape, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Robot:
    """Links, parents first. The root stands ``height`` [m] over the ground; None: bolted to a world without ground.
    ``sources`` says what the names in the notes stand for."""

    name: str
    links: tuple[Link, ...]
    height: float | None
    link_note: str
    joint_note: str
    sources: dict[str, str]


def quadruped() -> Robot:
    """Twelve joints, of the class of the Unitree Go2. x is forward, y to the left, z up."""
    length, foot_radius, calf_mass, foot_mass = 0.213, 0.022, 0.154, 0.04
    thigh_home, calf_home, knee = 0.9, -1.8, (0.0, 0.0, -length)

    def joint(name: str, parent: str, at: Vector, axis: str, limits: tuple[float, float], home: float) -> Joint:
        effort, speed = (35.55, 20.07) if "calf" in name else (23.7, 30.1)
        return Joint(name, parent, at, axis, limits, effort, speed, home, 60.0, 1.5, 0.01, 0.2, 0.1)

    def leg(name: str, front: int, left: int) -> Iterator[Link]:
        shape = Shape("cylinder", (0.046, 0.045), (front * -0.0054, left * 0.00194, -0.000105), "Y")
        at = (front * 0.1934, left * 0.0465, 0.0)
        yield Link(f"{name}_hip", 0.678, shape, joint(f"{name}_hip_joint", "base", at, "X", (-1.0472, 1.0472), 0.0))
        shape = Shape("box", (0.05, 0.08, 0.21), (-0.00374, left * -0.0223, -0.0327))
        bone = Shape("capsule", (0.015, 0.16), (0.0, 0.0, -0.12))
        limits, at = (-1.5708, 3.4907) if front > 0 else (-0.5236, 4.5379), (0.0, left * 0.0955, 0.0)
        hinge = joint(f"{name}_thigh_joint", f"{name}_hip", at, "Y", limits, thigh_home)
        yield Link(f"{name}_thigh", 1.152, shape, hinge, (bone,))
        mass = calf_mass + foot_mass
        x, y, z = (calf_mass * c / mass for c in (0.00548, left * -0.000975, -0.115))
        shape = Shape("capsule", (0.013, 0.17), (round(x, 6), round(y, 6), round(z - foot_mass * length / mass, 6)))
        hinge = joint(f"{name}_calf_joint", f"{name}_thigh", knee, "Y", (-2.7227, -0.83776), calf_home)
        foot = Shape("sphere", (foot_radius,), knee, collides=True)
        note = "calf 0.154 kg and foot 0.04 kg are one link; radius of the foot: Unitree"
        yield Link(f"{name}_calf", mass, shape, hinge, (foot,), note)

    trunk = Shape("box", (0.40, 0.16, 0.11), (0.021112, 0.0, -0.005366), collides=True)
    head = Shape("box", (0.09, 0.09, 0.09), (0.26, 0.0, 0.01))
    base = Link("base", 6.921 + 2 * 0.001, trunk, None, (head,), "with the two head links of 0.001 kg each")
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
    )


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
        flange = (Shape("cylinder", (0.0315, 0.097), (0.0, 0.0, 0.0585)),) if i == len(FR3_JOINTS) else ()
        links.append(Link(f"link{i}", mass, Shape(kind, size, centre, along, collides=True), joint, flange))
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
    )


def numbers(*values: float) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def rolled(angle: float) -> tuple[float, float, float, float]:
    """Quaternion w, x, y, z of a turn about x [rad]."""
    return math.cos(angle / 2), math.sin(angle / 2), 0.0, 0.0


def mjcf(robot: Robot) -> str:
    """The robot as MJCF. Its links touch the ground, never each other."""
    joints = [link.joint for link in robot.links if link.joint]
    friction = f'friction="{numbers(*FRICTION)}"'

    def geom(shape: Shape) -> str:
        size = [shape.size[0], *(s / 2 for s in shape.size[1:])]
        size[0] /= 2 if shape.kind == "box" else 1
        turn = {"X": ' quat="1 0 1 0"', "Y": ' quat="1 1 0 0"', "Z": ""}[shape.axis]
        touch = f'contype="1" conaffinity="0" {friction}' if shape.collides else 'contype="0" conaffinity="0" group="1"'
        return f'<geom type="{shape.kind}" size="{numbers(*size)}" pos="{numbers(*shape.at)}"{turn} {touch}/>'

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
        yield from (f"  {geom(shape)}" for shape in (link.solid, *link.shapes))
        for child in robot.links:
            if child.joint and child.joint.parent == link.name:
                yield from (f"  {line}" for line in body(child))
        yield "</body>"

    def actuator(joint: Joint) -> str:
        gains = f'kp="{numbers(joint.kp)}" kv="{numbers(joint.kd)}"'
        limit = numbers(-joint.effort, joint.effort)
        return f'    <position name="{joint.name}" joint="{joint.name}" {gains} forcerange="{limit}"/>'

    ground = f'<geom name="ground" type="plane" size="5 5 0.1" contype="0" conaffinity="1" {friction}/>'
    home = numbers(*(joint.home for joint in joints))
    root = "" if robot.height is None else f"0 0 {numbers(robot.height)} 1 0 0 0 "
    lines = [
        f'<mujoco model="{robot.name}">',
        "  <!-- Written by actuon.tools.robots. Sources of the figures:",
        *(f"       {name}: {source}" for name, source in robot.sources.items()),
        f"       {OWN} -->",
        '  <compiler angle="radian" autolimits="true"/>',
        f'  <option timestep="{numbers(TIME_STEP)}" integrator="Euler" gravity="0 0 -9.81"/>',
        "  <worldbody>",
        *([] if robot.height is None else [f"    {ground}"]),
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


def usd_stage(robot: Robot) -> Any:
    """The robot as a USD stage in memory. Its links stand at home, where the drives aim, and never touch each other."""
    from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade

    def extend(prim: Any, schema: str, **values: float) -> None:
        """Apply a schema of Newton's by name, which needs no plugin."""
        prim.AddAppliedSchema(schema)
        types = {bool: Sdf.ValueTypeNames.Bool, int: Sdf.ValueTypeNames.Int, float: Sdf.ValueTypeNames.Float}
        for name, value in values.items():
            prim.CreateAttribute(f"newton:{name}", types[type(value)], False).Set(value)

    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    path = f"/{robot.name.capitalize()}"
    root = UsdGeom.Xform.Define(stage, path).GetPrim()
    stage.SetDefaultPrim(root)
    legend = (f"{name}: {source}" for name, source in robot.sources.items())
    root.SetDocumentation("\n".join(("Written by actuon.tools.robots. Sources of the figures:", *legend, OWN)))
    UsdPhysics.ArticulationRootAPI.Apply(root)
    extend(root, "NewtonArticulationRootAPI", selfCollisionEnabled=False)

    scene = UsdPhysics.Scene.Define(stage, "/PhysicsScene")
    scene.CreateGravityDirectionAttr((0.0, 0.0, -1.0))
    scene.CreateGravityMagnitudeAttr(9.81)
    extend(scene.GetPrim(), "NewtonSceneAPI", timeStepsPerSecond=round(1 / TIME_STEP))

    sliding, torsional, rolling = FRICTION
    material = UsdShade.Material.Define(stage, f"{path}/contact")
    physics = UsdPhysics.MaterialAPI.Apply(material.GetPrim())
    physics.CreateDynamicFrictionAttr(sliding)
    physics.CreateStaticFrictionAttr(sliding)
    extend(material.GetPrim(), "NewtonMaterialAPI", torsionalFriction=torsional, rollingFriction=rolling)

    def collide(prim: Any) -> None:
        UsdPhysics.CollisionAPI.Apply(prim)
        UsdShade.MaterialBindingAPI.Apply(prim).Bind(material, materialPurpose="physics")

    if robot.height is not None:
        collide(UsdGeom.Plane.Define(stage, "/Ground").GetPrim())

    def draw(shape: Shape, place: str) -> None:
        solid = getattr(UsdGeom, {"box": "Cube"}.get(shape.kind, shape.kind.capitalize())).Define(stage, place)
        solid.AddTranslateOp().Set(Gf.Vec3d(*shape.at))
        if shape.kind == "box":
            solid.CreateSizeAttr(1.0)
            solid.AddScaleOp().Set(Gf.Vec3f(*shape.size))
        else:
            solid.CreateRadiusAttr(shape.size[0])
        if shape.kind in ("cylinder", "capsule"):
            solid.CreateHeightAttr(shape.size[1])
            solid.CreateAxisAttr(shape.axis)
        if shape.collides:
            collide(solid.GetPrim())

    def hinge(joint: Joint, child: str) -> None:
        prim = UsdPhysics.RevoluteJoint.Define(stage, f"{path}/joints/{joint.name}")
        prim.GetPrim().SetDocumentation(robot.joint_note)
        prim.CreateBody0Rel().SetTargets([f"{path}/{joint.parent}"])
        prim.CreateBody1Rel().SetTargets([child])
        prim.CreateLocalPos0Attr(Gf.Vec3f(*joint.at))
        prim.CreateLocalRot0Attr(Gf.Quatf(*rolled(joint.roll)))
        prim.CreateAxisAttr(joint.axis)
        prim.CreateLowerLimitAttr(math.degrees(joint.limits[0]))
        prim.CreateUpperLimitAttr(math.degrees(joint.limits[1]))
        drive = UsdPhysics.DriveAPI.Apply(prim.GetPrim(), "angular")
        drive.CreateTargetPositionAttr(math.degrees(joint.home))
        drive.CreateStiffnessAttr(math.radians(joint.kp))
        drive.CreateDampingAttr(math.radians(joint.kd))
        drive.CreateMaxForceAttr(joint.effort)
        passive = {"armature": joint.armature, "friction": joint.friction, "damping": math.radians(joint.damping)}
        extend(prim.GetPrim(), "NewtonJointAPI", velocityLimit=math.degrees(joint.speed), **passive)

    poses: dict[str, Any] = {}
    for link in robot.links:
        pose = Gf.Matrix4d().SetTranslate((0.0, 0.0, robot.height or 0.0))
        if joint := link.joint:
            swing = Gf.Matrix4d().SetRotate(Gf.Rotation(AXES[joint.axis], math.degrees(joint.home)))
            frame = Gf.Matrix4d().SetRotate(Gf.Quatd(*rolled(joint.roll))).SetTranslateOnly(joint.at)
            pose = swing * frame * poses[joint.parent]
        poses[link.name] = pose
        xform = UsdGeom.Xform.Define(stage, f"{path}/{link.name}")
        xform.AddTranslateOp().Set(Gf.Vec3d(*(round(x, 9) + 0.0 for x in pose.ExtractTranslation())))
        turn = pose.ExtractRotationQuat()
        xform.AddOrientOp().Set(Gf.Quatf(*(round(x, 7) + 0.0 for x in (turn.GetReal(), *turn.GetImaginary()))))
        prim = xform.GetPrim()
        prim.SetDocumentation(f"{robot.link_note}{link.note and '; '}{link.note}")
        UsdPhysics.RigidBodyAPI.Apply(prim)
        mass = UsdPhysics.MassAPI.Apply(prim)
        mass.CreateMassAttr(link.mass)
        mass.CreateCenterOfMassAttr(Gf.Vec3f(*link.solid.at))
        mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*link.solid.inertia(link.mass)))
        mass.CreatePrincipalAxesAttr(Gf.Quatf(1.0))
        for i, shape in enumerate((link.solid, *link.shapes)):
            draw(shape, f"{path}/{link.name}/shape{i}")

    UsdGeom.Scope.Define(stage, f"{path}/joints")
    for link in robot.links:
        if link.joint:
            hinge(link.joint, f"{path}/{link.name}")
        elif robot.height is None:
            bolt = UsdPhysics.FixedJoint.Define(stage, f"{path}/joints/world_joint")
            bolt.CreateBody1Rel().SetTargets([f"{path}/{link.name}"])
    return stage


def write_all(folder: Path) -> None:
    """Write both robots as MJCF and USD, the latter with the actuators of the YAML files that are there."""
    for robot in (quadruped(), arm()):
        (folder / f"{robot.name}.xml").write_text(mjcf(robot), encoding="utf-8", newline="\n")
        stage = usd_stage(robot)
        actuators = folder / f"{robot.name}.actuon.yaml"
        author_actuators(stage.GetDefaultPrim(), load_actuators(actuators), stage=stage)
        scope = stage.GetDefaultPrim().GetChild("Actuators")
        scope.SetDocumentation(f"From {actuators.name}, which names the source of each figure.")
        text = stage.GetRootLayer().ExportToString()
        (folder / f"{robot.name}.usda").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]) if len(sys.argv) > 1 else assets.FOLDER)
