# SPDX-License-Identifier: Apache-2.0
"""Robots in USD, and every kind of actuator on them."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st
from pxr import Gf, Usd, UsdGeom, UsdPhysics

import actuon

JOINTS = ("hip", "knee", "slide")


def robot(stage=None, root="/Robot", joints=JOINTS):
    """A small robot that Newton can load: links in a row, hinges between them, and a slider where the name says so."""
    stage = stage or Usd.Stage.CreateInMemory()
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    prim = UsdGeom.Xform.Define(stage, root).GetPrim()
    stage.SetDefaultPrim(prim) if root.count("/") == 1 else None
    links = []
    for i in range(len(joints) + 1):
        link = UsdGeom.Cube.Define(stage, f"{root}/link{i}")
        link.CreateSizeAttr(0.2)
        link.AddTranslateOp().Set(Gf.Vec3d(0.5 * i, 0.0, 1.0))
        UsdPhysics.RigidBodyAPI.Apply(link.GetPrim())
        UsdPhysics.MassAPI.Apply(link.GetPrim()).CreateMassAttr(1.0)
        links.append(link)
    UsdPhysics.ArticulationRootAPI.Apply(prim)
    fixed = UsdPhysics.FixedJoint.Define(stage, f"{root}/joints/base")
    fixed.CreateBody1Rel().SetTargets([links[0].GetPath()])
    for i, name in enumerate(joints):
        kind = UsdPhysics.PrismaticJoint if "slide" in name else UsdPhysics.RevoluteJoint
        joint = kind.Define(stage, f"{root}/joints/{name}")
        joint.CreateAxisAttr("Y")
        joint.CreateBody0Rel().SetTargets([links[i].GetPath()])
        joint.CreateBody1Rel().SetTargets([links[i + 1].GetPath()])
        joint.CreateLocalPos0Attr(Gf.Vec3f(0.25, 0, 0))
        joint.CreateLocalPos1Attr(Gf.Vec3f(-0.25, 0, 0))
    return stage


def solid(stage):
    """Give every link of a small robot an inertia that motors can move."""
    for prim in stage.Traverse():
        if prim.HasAPI(UsdPhysics.MassAPI):
            UsdPhysics.MassAPI(prim).CreateDiagonalInertiaAttr(Gf.Vec3f(0.05))
    return stage


def save_robot(path):
    stage = robot(Usd.Stage.CreateNew(str(path)))
    stage.GetRootLayer().Save()
    return path


def numbers(minimum=None, maximum=None, infinite=False, above=False):
    low = -1e6 if minimum is None else minimum
    drawn = st.floats(low, 1e6 if maximum is None else maximum, exclude_min=above, allow_nan=False)
    drawn = drawn.filter(lambda x: not above or np.float32(x) > np.float32(low))
    return drawn | st.just(math.inf) if infinite else drawn


gains = numbers(0)
limits = numbers(0, infinite=True)
tables = st.lists(numbers(-10, 10), min_size=1, max_size=6).flatmap(
    lambda positions: st.builds(
        actuon.PositionBasedClampingConfig,
        st.just(sorted(positions)),
        st.lists(gains, min_size=len(positions), max_size=len(positions)),
    )
)
CONFIGS = {
    "pd": st.builds(actuon.PDControlConfig, gains, gains, numbers()),
    "pid": st.builds(actuon.PIDControlConfig, gains, gains, gains, limits, numbers()),
    "max_effort": st.builds(actuon.MaxEffortClampingConfig, limits),
    "dc_motor": st.builds(actuon.DCMotorClampingConfig, gains, numbers(0, infinite=True, above=True), limits),
    "position_based": tables,
    "delay": st.builds(actuon.DelayConfig, st.integers(0, 10_000)),
}
controllers = CONFIGS["pd"] | CONFIGS["pid"]
clamps = st.lists(st.sampled_from(["max_effort", "dc_motor", "position_based"]), unique=True, max_size=3).flatmap(
    lambda names: st.tuples(*(CONFIGS[name] for name in names))
)
actuators = st.builds(actuon.ActuatorConfig, controllers, clamps, st.none() | CONFIGS["delay"])


def add(stage, actuator, joints="knee", name="knee", root="/Robot", **options):
    return actuon.add_actuator(root, joints, name, stages=actuator.stages, stage=stage, **options)


EXAMPLES = {
    "pd": actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.5, 0.25)),
    "pid": actuon.ActuatorConfig(actuon.PIDControlConfig(40.0, 3.0, 1.5, 0.7, -0.5)),
    "max_effort": actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.5), [actuon.MaxEffortClampingConfig(12.5)]),
    "dc_motor": actuon.ActuatorConfig(
        actuon.PDControlConfig(40.0, 1.5), [actuon.DCMotorClampingConfig(33.5, 21.0, 28.0)]
    ),
    "position_based": actuon.ActuatorConfig(
        actuon.PDControlConfig(40.0, 1.5), [actuon.PositionBasedClampingConfig((-1.0, 0.0, 1.0), (5.0, 20.0, 5.0))]
    ),
    "delay": actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.5), delay=actuon.DelayConfig(3)),
    "everything": actuon.ActuatorConfig(
        actuon.PIDControlConfig(0.1, 0.2, 0.3, 0.4, 0.5),
        [
            actuon.PositionBasedClampingConfig((-1.0, 1.0), (5.0, 20.0)),
            actuon.DCMotorClampingConfig(33.5, 21.0, math.inf),
            actuon.MaxEffortClampingConfig(25.0),
        ],
        actuon.DelayConfig(2),
    ),
}


def save_everything(path):
    """Write a robot with a drive at the hip and every kind of stage at the knee, its delay the schema's default."""
    stage = robot(Usd.Stage.CreateNew(str(path)))
    drive = UsdPhysics.DriveAPI.Apply(stage.GetPrimAtPath("/Robot/joints/hip"), "angular")
    drive.CreateStiffnessAttr(1.0)
    prim = add(stage, EXAMPLES["everything"])
    prim.AddAppliedSchema("NewtonActuatorDelayAPI")
    prim.RemoveProperty("newton:delaySteps")
    stage.GetRootLayer().Save()
    return path
