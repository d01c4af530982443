# SPDX-License-Identifier: Apache-2.0
"""Both ways with Newton: what we write it reads, what it reads we read."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from pxr import Sdf, Usd, UsdPhysics

import actuon
from tests.support.robot_files import EXAMPLES, actuators, add, robot

newton = pytest.importorskip("newton")
newton_actuators = pytest.importorskip("newton.actuators")

CLASSES = {
    actuon.ControllerPD: newton_actuators.DrivePD,
    actuon.ControllerPID: newton_actuators.DrivePID,
    actuon.ClampingMaxEffort: newton_actuators.ClampingMaxEffort,
    actuon.ClampingDCMotor: newton_actuators.ClampingDCMotor,
    actuon.ClampingPositionBased: newton_actuators.ClampingPositionBased,
    actuon.Delay: newton_actuators.Delay,
}


def assert_same_values(ours, theirs):
    assert set(theirs) <= set(ours)
    for name, value in theirs.items():
        np.testing.assert_array_equal(np.float32(ours[name]), np.float32(value), err_msg=name)


def assert_same(ours, theirs):
    """Check that components have equal values, as far as Newton's parser returns them: it omits defaults."""
    assert CLASSES[ours.controller_class] is theirs.drive_class
    assert_same_values(ours.controller_kwargs, theirs.drive_kwargs)
    assert [CLASSES[cls] for cls, _ in ours.component_specs] == [cls for cls, _ in theirs.component_specs]
    for (_, mine), (_, other) in zip(ours.component_specs, theirs.component_specs, strict=True):
        assert_same_values(mine, other)
    assert ours.target_path == theirs.target_path


@pytest.mark.parametrize("name", EXAMPLES)
def test_newton_parses_what_we_write(name):
    stage = robot()
    prim = add(stage, EXAMPLES[name])
    theirs = newton_actuators.parse_actuator_prim(prim)
    assert_same(actuon.parse_actuator_prim(prim), theirs)
    assert set(theirs.drive_kwargs) == set(EXAMPLES[name].controller.declared())


@given(actuators)
@settings(max_examples=40)
def test_newton_parses_whatever_we_write(actuator):
    stage = Usd.Stage.CreateInMemory()
    UsdPhysics.RevoluteJoint.Define(stage, "/Robot/knee")
    prim = add(stage, actuator)
    assert_same(actuon.parse_actuator_prim(prim), newton_actuators.parse_actuator_prim(prim))


@pytest.mark.parametrize("name", EXAMPLES)
def test_newton_builds_what_we_write(name, tmp_path):
    path = tmp_path / "robot.usda"
    stage = robot(Usd.Stage.CreateNew(str(path)))
    prim = add(stage, EXAMPLES[name])
    stage.GetRootLayer().Save()
    builder = newton.ModelBuilder()
    builder.add_usd(str(path))
    (actuator,) = builder.finalize(device="cpu").actuators
    assert actuator.indices.numpy().tolist() == [1]  # the base is fixed, the hip comes first
    parsed = actuon.parse_actuator_prim(prim)
    assert type(actuator.drive) is CLASSES[parsed.controller_class]
    for parameter, value in parsed.controller_kwargs.items():
        np.testing.assert_array_equal(getattr(actuator.drive, parameter).numpy(), np.float32([value]))
    assert [type(clamp) for clamp in actuator.clamping or []] == [CLASSES[cls] for cls, _ in parsed.clamping]
    for clamp, (_, values) in zip(actuator.clamping or [], parsed.clamping, strict=True):
        for parameter, value in values.items():
            held = getattr(clamp, parameter)
            held = held.numpy() if hasattr(held, "numpy") else held
            np.testing.assert_array_equal(np.ravel(held), np.ravel(np.float32(value)))
    if parsed.delay_steps is None:
        assert actuator.delay is None
    else:
        assert actuator.delay.delay_steps.numpy().tolist() == [parsed.delay_steps]


@pytest.mark.filterwarnings("ignore:allow_unsafe_torch_checkpoints is deprecated:DeprecationWarning")
def test_newton_reads_a_network_that_we_write(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    for ending in ("onnx", "pt2"):
        path = tmp_path / f"knee.{ending}"
        actuon.save_network(module, path, model_type="mlp", input_idx=[0, 1])
        stage = robot()
        prim = actuon.add_actuator("/Robot", "knee", "knee", actuon.NeuralControlConfig(path), stage=stage)
        theirs = newton_actuators.parse_actuator_prim(prim, allow_unsafe_torch_checkpoints=True)
        assert theirs.drive_class is newton_actuators.DriveNeuralMLP
        assert theirs.drive_kwargs == {"model_path": str(path)}
        ours = actuon.parse_actuator_prim(prim, allow_unsafe_torch_checkpoints=True)
        assert ours.controller_class is actuon.ControllerNeuralMLP
        assert ours.controller_kwargs == theirs.drive_kwargs


RAW = """#usda 1.0
def Xform "Robot" {{
    def PhysicsRevoluteJoint "knee" {{}}
    def NewtonActuator "KneeActuator" (
        {list_op} apiSchemas = [{schemas}]
    ) {{
        rel newton:targets = </Robot/knee>
        {attributes}
    }}
}}
"""


@pytest.mark.parametrize("list_op", ["prepend", "append", ""])
@pytest.mark.parametrize(
    ("schemas", "attributes"),
    [
        (["PDControl"], "float newton:kp = 40"),
        (["PDControl"], ""),
        (["PIDControl"], "float newton:ki = 3\nfloat newton:integralMax = 2"),
        (["MaxEffortClamping", "PDControl"], "float newton:kp = 40\nfloat newton:maxEffort = 12"),
        (
            ["PDControl", "DCMotorClamping", "MaxEffortClamping"],
            "float newton:saturationEffort = 30\nfloat newton:velocityLimit = 20\nfloat newton:maxEffort = 10",
        ),
        (
            ["PDControl", "PositionBasedClamping"],
            "float[] newton:lookupPositions = [0, 1]\nfloat[] newton:lookupEfforts = [5, 6]",
        ),
        (["PDControl", "ActuatorDelay"], "int newton:delaySteps = 4"),
    ],
)
def test_we_parse_what_newton_parses(schemas, attributes, list_op):
    """Files written by hand, or by others: any list operation, actuators anywhere, attributes left out."""
    layer = Sdf.Layer.CreateAnonymous(".usda")
    names = ", ".join(f'"Newton{schema}API"' for schema in schemas)
    assert layer.ImportFromString(RAW.format(list_op=list_op, schemas=names, attributes=attributes))
    stage = Usd.Stage.Open(layer)
    prim = stage.GetPrimAtPath("/Robot/KneeActuator")
    assert_same(actuon.parse_actuator_prim(prim), newton_actuators.parse_actuator_prim(prim))


def test_the_delay_default_differs_on_purpose():
    """An applied delay with no authored steps means 1 by the schema. Newton leaves the delay out."""
    stage = robot()
    prim = add(stage, EXAMPLES["pd"])
    prim.AddAppliedSchema("NewtonActuatorDelayAPI")
    assert actuon.parse_actuator_prim(prim).delay_steps == 1
    theirs = newton_actuators.parse_actuator_prim(prim)
    assert theirs.component_specs == [(newton_actuators.Delay, {})]
    builder = newton.ModelBuilder()
    builder.add_usd(stage)
    assert builder.finalize(device="cpu").actuators[0].delay is None


def test_a_delay_of_zero_differs():
    """By the schema 0 switches the delay off. Newton 1.8 reads it, and cannot build it."""
    stage = robot()
    prim = actuon.add_actuator(
        "/Robot", "knee", "knee", actuon.PDControlConfig(1.0, 0.0), delay=actuon.DelayConfig(0), stage=stage
    )
    assert actuon.parse_actuator_prim(prim).delay_steps == 0
    assert newton_actuators.parse_actuator_prim(prim).component_specs == [(newton_actuators.Delay, {"delay_steps": 0})]
    builder = newton.ModelBuilder()
    builder.add_usd(stage)
    with pytest.raises(ValueError, match="max_delay must be >= 1"):
        builder.finalize(device="cpu")


def test_several_targets_differ_on_purpose():
    """Newton drives the first joint of a prim only. `author_actuators` therefore writes a prim for each joint."""
    stage = robot()
    prim = add(stage, EXAMPLES["pd"], joints=["hip", "knee"])
    assert [p.target_path for p in actuon.parse_actuators(stage)] == ["/Robot/joints/hip", "/Robot/joints/knee"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert newton_actuators.parse_actuator_prim(prim).target_path == "/Robot/joints/hip"
    assert "only the first is used" in str(caught[0].message)
    stage = robot()
    actuon.author_actuators("/Robot", [actuon.ActuatorEntry("legs", "hip|knee", EXAMPLES["pd"])], stage=stage)
    builder = newton.ModelBuilder()
    builder.add_usd(stage)
    assert builder.finalize(device="cpu").actuators[0].indices.numpy().tolist() == [0, 1]
