# SPDX-License-Identifier: Apache-2.0
"""A robot as USD."""

from __future__ import annotations

import math
from typing import Any

from .description import AXES, COLOURS, FLOOR, FRICTION, OWN, TILE, TIME_STEP, Joint, Robot, Shape, rolled


def add_scenery(stage: Any) -> None:
    """Add visual elements only: lines on the ground, a sun and a sky."""
    from pxr import Gf, UsdGeom, UsdLux

    half, tiles = 5.0, round(5.0 / TILE)
    ends = [(TILE * i, side * half) for i in range(-tiles, tiles + 1) for side in (-1, 1)]
    grid = UsdGeom.BasisCurves.Define(stage, "/Grid")
    grid.CreateTypeAttr(UsdGeom.Tokens.linear)
    grid.CreateCurveVertexCountsAttr([2] * len(ends))
    grid.CreatePointsAttr([Gf.Vec3f(x, y, 0.001) for x, y in ends] + [Gf.Vec3f(y, x, 0.001) for x, y in ends])
    grid.CreateWidthsAttr([0.008])
    grid.SetWidthsInterpolation(UsdGeom.Tokens.constant)
    grid.CreateDisplayColorAttr([FLOOR[1]])
    sun = UsdLux.DistantLight.Define(stage, "/Lights/sun")
    sun.CreateIntensityAttr(2000.0)
    sun.CreateAngleAttr(1.0)
    sun.AddRotateXYZOp().Set(Gf.Vec3f(-20.0, 20.0, 0.0))
    sky = UsdLux.DomeLight.Define(stage, "/Lights/sky")
    sky.CreateIntensityAttr(500.0)
    sky.CreateColorAttr(Gf.Vec3f(0.85, 0.92, 1.0))


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
    root.SetDocumentation("\n".join(("Written by scripts.robots. Sources of the figures:", *legend, OWN)))
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

    ground = UsdGeom.Plane.Define(stage, "/Ground")
    ground.CreateDisplayColorAttr([FLOOR[0]])
    if robot.height is not None:
        collide(ground.GetPrim())
    add_scenery(stage)

    def add(shape: Shape, place: str) -> Any:
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
        return solid

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
        if link.solid.collides:
            add(link.solid, f"{path}/{link.name}/collider").CreatePurposeAttr(UsdGeom.Tokens.guide)
        for i, shape in enumerate(link.shapes):
            add(shape, f"{path}/{link.name}/shape{i}").CreateDisplayColorAttr([COLOURS[shape.colour]])

    UsdGeom.Scope.Define(stage, f"{path}/joints")
    for link in robot.links:
        if link.joint:
            hinge(link.joint, f"{path}/{link.name}")
        elif robot.height is None:
            bolt = UsdPhysics.FixedJoint.Define(stage, f"{path}/joints/world_joint")
            bolt.CreateBody1Rel().SetTargets([f"{path}/{link.name}"])
    return stage
