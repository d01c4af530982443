# SPDX-License-Identifier: Apache-2.0
"""Actuators in USD: written, read back, and never half-written."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
import warp as wp
from hypothesis import given
from pxr import Sdf, Usd, UsdPhysics

import actuon
from actuon.robot_files.usd.stage import open_stage
from tests.support.robot_files import CONFIGS, EXAMPLES, actuators, add, robot

PD = actuon.PDControlConfig(40.0, 1.0)


def text(stage):
    return stage.GetRootLayer().ExportToString()


def refused(stage, match, kind=ValueError, **changes):
    """`add_actuator` refuses, and leaves the file to the last byte as it was."""
    before = [layer.ExportToString() for layer in stage.GetUsedLayers()]
    arguments = {"articulation_root": "/Robot", "target_names": "knee", "name": "new", "controller": PD}
    with pytest.raises(kind, match=match):
        actuon.add_actuator(**(arguments | changes), stage=stage)
    assert [layer.ExportToString() for layer in stage.GetUsedLayers()] == before


def test_what_is_written_is_a_newton_actuator():
    stage = robot()
    prim = add(stage, EXAMPLES["everything"])
    assert prim.GetPath() == "/Robot/Actuators/knee"
    assert prim.GetTypeName() == "NewtonActuator"
    assert stage.GetPrimAtPath("/Robot/Actuators").GetTypeName() == "Scope"
    assert prim.GetRelationship("newton:targets").GetTargets() == ["/Robot/joints/knee"]
    for schema in ("PIDControl", "PositionBasedClamping", "DCMotorClamping", "MaxEffortClamping", "ActuatorDelay"):
        assert prim.HasAPI(f"Newton{schema}API")
    assert prim.GetAttribute("newton:kp").Get() == pytest.approx(0.1)
    assert prim.GetAttribute("newton:kp").GetTypeName() == "float"
    assert prim.GetAttribute("newton:maxMotorEffort").Get() == math.inf
    assert prim.GetAttribute("newton:delaySteps").Get() == 2
    assert list(prim.GetAttribute("newton:lookupEfforts").Get()) == [5.0, 20.0]


@pytest.mark.parametrize("name", EXAMPLES)
def test_reads_back_what_was_written(name):
    stage = robot()
    parsed = actuon.parse_actuator_prim(add(stage, EXAMPLES[name]))
    assert parsed.config == EXAMPLES[name]
    assert parsed.target_path == "/Robot/joints/knee"
    assert parsed.target_paths == ("/Robot/joints/knee",)


@given(actuators)
def test_config_to_usd_to_config(actuator):
    stage = Usd.Stage.CreateInMemory()
    UsdPhysics.RevoluteJoint.Define(stage, "/Robot/knee")
    assert actuon.parse_actuator_prim(add(stage, actuator)).config == actuator


@pytest.mark.parametrize("name", CONFIGS)
def test_every_component_is_in_the_schema_with_our_defaults(name):
    """The declared file defaults are those of the installed schema, so that both ways of reading agree."""
    config = next(type(part) for e in EXAMPLES.values() for part in e.stages if name in _type_name(part))
    definition = Usd.SchemaRegistry().FindAppliedAPIPrimDefinition(config.schema)
    for parameter, declared in config.declared().items():
        words = parameter.split("_")
        attribute = "newton:" + words[0] + "".join(word.capitalize() for word in words[1:])
        default = definition.GetAttributeFallbackValue(attribute)
        if declared.shared:
            assert len(default) == 0
        else:
            assert default == declared.fallback


def _type_name(part):
    from actuon.declare.registry import by_config

    return by_config(part).type_name


def test_what_is_not_authored_has_the_schemas_default():
    stage = robot()
    prim = stage.DefinePrim("/Robot/a", "NewtonActuator")
    for schema in ("NewtonPDControlAPI", "NewtonActuatorDelayAPI", "NewtonMaxEffortClampingAPI"):
        prim.AddAppliedSchema(schema)
    prim.CreateRelationship("newton:targets").SetTargets(["/Robot/joints/hip"])
    prim.GetAttribute("newton:kd").Set(2.0)
    parsed = actuon.parse_actuator_prim(prim)
    assert parsed.controller_class is actuon.ControllerPD
    assert parsed.drive_class is parsed.controller_class
    assert parsed.drive_kwargs == parsed.controller_kwargs
    assert parsed.controller_kwargs == {"kp": 0.0, "kd": 2.0, "const_effort": 0.0}
    assert parsed.component_specs == [
        (actuon.Delay, {"delay_steps": 1}),
        (actuon.ClampingMaxEffort, {"max_effort": math.inf}),
    ]
    assert parsed.sources[1] == {"kp": "schema default", "kd": "authored", "const_effort": "schema default"}


def test_authored_values_read_without_the_schema_plugin(tmp_path):
    """In a process whose USD never heard of the Newton schema."""
    stage = robot(Usd.Stage.CreateNew(str(tmp_path / "robot.usda")))
    add(stage, EXAMPLES["everything"])
    stage.GetRootLayer().Save()
    code = f"""
from pxr import Usd
stage = Usd.Stage.Open({str(tmp_path / "robot.usda")!r})
assert not Usd.SchemaRegistry().FindAppliedAPIPrimDefinition("NewtonPIDControlAPI")
import actuon
parsed = actuon.parse_actuators(stage)
print(parsed[0].config)
prim = actuon.add_actuator("/Robot", "hip", "hip", actuon.PDControlConfig(1.0, 2.0), stage=stage)
prim.AddAppliedSchema("NewtonActuatorDelayAPI")
print(actuon.parse_actuator_prim(prim).component_specs)
"""
    environment = {key: value for key, value in os.environ.items() if key != "PXR_PLUGINPATH_NAME"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().splitlines()
    assert first == repr(EXAMPLES["everything"])
    assert "delay_steps': 1" in second


def test_the_schema_is_registered_by_importing_actuon():
    code = """
import sys, actuon
assert "pxr" not in sys.modules
from pxr import Usd
print(Usd.SchemaRegistry().FindAppliedAPIPrimDefinition("NewtonPDControlAPI").GetPropertyNames())
"""
    environment = {key: value for key, value in os.environ.items() if key != "PXR_PLUGINPATH_NAME"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "newton:kp" in done.stdout, done.stderr


def test_several_targets_are_one_actuator_each():
    stage = robot()
    prim = add(stage, EXAMPLES["everything"], joints=["knee", "hip"])
    parsed = actuon.parse_actuators(stage)
    assert [p.target_path for p in parsed] == ["/Robot/joints/knee", "/Robot/joints/hip"]
    assert all(p.config == EXAMPLES["everything"] for p in parsed)
    assert actuon.parse_actuator_prim(prim).target_paths == ("/Robot/joints/knee", "/Robot/joints/hip")


def test_subtrees_are_read_alone():
    stage = robot(robot(), root="/Other")
    add(stage, EXAMPLES["pd"])
    add(stage, EXAMPLES["pid"], root="/Other")
    assert len(actuon.parse_actuators(stage)) == 2
    parsed = actuon.parse_actuators(stage.GetPrimAtPath("/Other"))
    assert [p.target_path for p in parsed] == ["/Other/joints/knee"]


def test_other_prims_are_no_actuators():
    stage = robot()
    assert actuon.parse_actuator_prim(stage.GetPrimAtPath("/Robot")) is None
    with pytest.raises(ValueError, match="must be a prim"):
        actuon.parse_actuator_prim(stage.GetPrimAtPath("/nothing"))
    assert actuon.parse_actuators(stage) == []


def test_saving_and_reopening_keeps_everything(tmp_path):
    for ending in ("usda", "usdc"):
        path = tmp_path / f"robot.{ending}"
        stage = robot(Usd.Stage.CreateNew(str(path)))
        for joint, name in zip(("hip", "knee"), ("everything", "dc_motor"), strict=True):
            add(stage, EXAMPLES[name], joints=joint, name=joint)
        stage.GetRootLayer().Save()
        del stage
        hip, knee = actuon.parse_actuators(path)
        assert (hip.config, knee.config) == (EXAMPLES["everything"], EXAMPLES["dc_motor"])


def test_stages_in_use():
    stage, other = robot(), robot()
    with pytest.raises(ValueError, match="use_stage"):
        actuon.add_actuator("/Robot", "knee", "knee", PD)
    with actuon.use_stage(stage):
        with actuon.use_stage(other):
            assert actuon.current_stage() == other
            actuon.add_actuator("/Robot", "hip", "hip", PD)
        actuon.add_actuator("/Robot", "knee", "knee", PD)
    assert stage.GetPrimAtPath("/Robot/Actuators/knee")
    assert not stage.GetPrimAtPath("/Robot/Actuators/hip")
    assert other.GetPrimAtPath("/Robot/Actuators/hip")
    with pytest.raises(ValueError, match=r"must be an open Usd\.Stage"), actuon.use_stage("robot.usda"):
        pass


def test_bad_names_are_refused_and_nothing_is_written():
    stage = robot()
    refused(stage, r"/Robot/Actuators/new: .*no joint 'kne'.*hip, knee, slide.*Did you mean 'knee'", target_names="kne")
    refused(stage, "is a PhysicsFixedJoint", target_names="base")
    refused(stage, "is a Cube", target_names="link1")
    refused(stage, "must be one joint or several different", target_names=[])
    refused(stage, "must be one joint or several different", target_names=["hip", "hip"])
    refused(stage, "must be the name of a joint", target_names=[3])
    refused(stage, "no prim '/Robo'.*Did you mean '/Robot'", articulation_root="/Robo")
    refused(stage, "absolute", articulation_root="Robot")
    refused(stage, "absolute", articulation_root="")
    for name in ("", "a b", "1a", "a/b", None):
        refused(stage, "USD identifier", name=name)


def test_bad_parts_are_refused_and_nothing_is_written():
    stage = robot()
    clamp = actuon.MaxEffortClampingConfig(1.0)
    refused(stage, "twice", clamping=[clamp, actuon.MaxEffortClampingConfig(2.0)])
    refused(stage, "must be a Controller", controller=clamp)
    refused(stage, "must be a Clamping", clamping=[PD])
    refused(stage, "must be a Delay", delay=clamp)
    refused(stage, "must be a Controller", controller=None)
    refused(stage, "holds arrays", controller=actuon.ControllerPD(1.0, wp.zeros(3, dtype=wp.float32)))
    with pytest.raises(ValueError, match="lookup"):
        actuon.PositionBasedClampingConfig((0.0, 1.0), (1.0,))
    with pytest.raises(ValueError, match="must not decrease"):
        actuon.PositionBasedClampingConfig((1.0, 0.0), (1.0, 2.0))


def test_a_name_of_several_joints_is_refused_and_a_longer_one_is_not():
    stage = robot()
    UsdPhysics.RevoluteJoint.Define(stage, "/Robot/left/knee")
    refused(stage, "2 joints.*/Robot/joints/knee, /Robot/left/knee.*'joints/knee'", target_names="knee")
    for name in ("left/knee", "/Robot/left/knee"):
        prim = actuon.add_actuator("/Robot", name, "left", PD, stage=stage, overwrite_existing=True)
        assert actuon.parse_actuator_prim(prim).target_path == "/Robot/left/knee"


def test_overwriting_leaves_nothing_of_the_old():
    stage = robot()
    old = add(stage, EXAMPLES["everything"], joints=["knee", "hip"])
    old.CreateAttribute("mine:note", Sdf.ValueTypeNames.String).Set("old")
    stage.DefinePrim("/Robot/Actuators/knee/child", "Xform")
    order = [child.GetName() for child in stage.GetPrimAtPath("/Robot").GetChildren()]
    refused(stage, "NewtonActuator already", name="knee")
    prim = add(stage, EXAMPLES["max_effort"], overwrite_existing=True)
    other = robot()
    fresh = add(other, EXAMPLES["max_effort"])
    assert prim.GetAuthoredPropertyNames() == fresh.GetAuthoredPropertyNames()
    assert prim.GetAppliedSchemas() == fresh.GetAppliedSchemas()
    assert not prim.GetChildren()
    assert order == [child.GetName() for child in stage.GetPrimAtPath("/Robot").GetChildren()]


def test_overwriting_what_another_layer_says(tmp_path):
    """The old prim is in a referenced file that is not touched: what it says is hidden."""
    asset = robot(Usd.Stage.CreateNew(str(tmp_path / "asset.usda")))
    add(asset, EXAMPLES["everything"], joints=["knee", "hip"])
    asset.GetRootLayer().Save()
    before = (tmp_path / "asset.usda").read_text()
    stage = Usd.Stage.CreateNew(str(tmp_path / "scene.usda"))
    stage.DefinePrim("/World/Robot").GetReferences().AddReference("./asset.usda")
    prim = add(stage, EXAMPLES["max_effort"], root="/World/Robot", overwrite_existing=True)
    assert actuon.parse_actuator_prim(prim).config == EXAMPLES["max_effort"]
    assert not prim.GetAttribute("newton:ki").HasAuthoredValue()
    stage.GetRootLayer().Save()
    (parsed,) = actuon.parse_actuators(tmp_path / "scene.usda")
    assert parsed.config == EXAMPLES["max_effort"]
    assert parsed.target_paths == ("/World/Robot/joints/knee",)
    assert (tmp_path / "asset.usda").read_text() == before


def test_a_stronger_layer_that_overrides_is_found_out():
    stage = robot()
    weak = Sdf.Layer.CreateAnonymous(".usda")
    stage.GetRootLayer().subLayerPaths.append(weak.identifier)
    add(stage, EXAMPLES["pd"])
    stage.SetEditTarget(weak)
    refused(stage, "stronger layer", name="knee", overwrite_existing=True)
    stage.SetEditTarget(stage.GetRootLayer())
    stage.GetRootLayer().SetPermissionToEdit(False)
    refused(stage, "cannot be edited")


@pytest.mark.parametrize("arc", ["reference", "payload", "inherit", "instance"])
def test_joints_are_found_wherever_they_come_from(arc, tmp_path):
    leg = Usd.Stage.CreateNew(str(tmp_path / "leg.usda"))
    UsdPhysics.RevoluteJoint.Define(leg, "/Leg/knee")
    leg.SetDefaultPrim(leg.GetPrimAtPath("/Leg"))
    leg.GetRootLayer().Save()
    stage = Usd.Stage.CreateNew(str(tmp_path / "robot.usda"))
    stage.DefinePrim("/Robot", "Xform")
    for side in ("left", "right"):
        prim = stage.DefinePrim(f"/Robot/{side}", "Xform")
        if arc == "payload":
            prim.GetPayloads().AddPayload("./leg.usda")
        elif arc == "inherit":
            UsdPhysics.RevoluteJoint.Define(stage, "/_class_leg/knee")
            stage.GetPrimAtPath("/_class_leg").SetSpecifier(Sdf.SpecifierClass)
            prim.GetInherits().AddInherit("/_class_leg")
        else:
            prim.GetReferences().AddReference("./leg.usda")
            prim.SetInstanceable(arc == "instance")
    refused(stage, "2 joints", target_names="knee")
    for side in ("left", "right"):
        actuon.add_actuator("/Robot", f"{side}/knee", side, PD, stage=stage)
    stage.GetRootLayer().Save()
    parsed = actuon.parse_actuators(tmp_path / "robot.usda")
    assert [p.target_path for p in parsed] == ["/Robot/left/knee", "/Robot/right/knee"]


def test_actuators_inside_an_instance_are_read_and_cannot_be_written(tmp_path):
    asset = robot(Usd.Stage.CreateNew(str(tmp_path / "asset.usda")))
    add(asset, EXAMPLES["pd"])
    asset.GetRootLayer().Save()
    stage = Usd.Stage.CreateInMemory()
    for i in range(2):
        prim = stage.DefinePrim(f"/World/robot_{i}")
        prim.GetReferences().AddReference(str(tmp_path / "asset.usda"))
        prim.SetInstanceable(True)
    parsed = actuon.parse_actuators(stage)
    assert [p.target_path for p in parsed] == [f"/World/robot_{i}/joints/knee" for i in range(2)]
    refused(stage, "is an instance.*instanceable to false", articulation_root="/World/robot_0")


def test_an_unloaded_payload_is_named(tmp_path):
    asset = robot(Usd.Stage.CreateNew(str(tmp_path / "asset.usda")))
    asset.GetRootLayer().Save()
    stage = Usd.Stage.CreateInMemory(load=Usd.Stage.LoadNone)
    stage.DefinePrim("/Robot/legs").GetPayloads().AddPayload(str(tmp_path / "asset.usda"))
    refused(stage, "payload of /Robot/legs is not loaded")


def test_writing_into_a_variant():
    stage = robot()
    variants = stage.GetPrimAtPath("/Robot").GetVariantSets().AddVariantSet("motors")
    for name in ("strong", "weak"):
        variants.AddVariant(name)
        variants.SetVariantSelection(name)
        with variants.GetVariantEditContext():
            actuon.add_actuator("/Robot", "knee", "knee", actuon.PDControlConfig(len(name), 0.0), stage=stage)
            refused(stage, "already", name="knee")
            refused(stage, "no joint", name="other", target_names="nothing")
    for name in ("strong", "weak"):
        variants.SetVariantSelection(name)
        (parsed,) = actuon.parse_actuators(stage)
        assert parsed.controller_kwargs["kp"] == len(name)
        assert parsed.target_path == "/Robot/joints/knee"


def actuator_prim(stage, *schemas, targets=("/Robot/joints/knee",)):
    prim = stage.DefinePrim("/Robot/a", "NewtonActuator")
    for schema in schemas:
        prim.AddAppliedSchema(f"Newton{schema}API")
    prim.CreateRelationship("newton:targets").SetTargets(list(targets))
    return prim


@pytest.mark.parametrize(
    ("schemas", "targets", "match"),
    [
        (["PDControl"], [], "no target"),
        (["PDControl"], ["/Robot/joints/nothing"], "does not exist"),
        (["PDControl"], ["/Robot/joints/base"], "PhysicsFixedJoint"),
        (["PDControl"], ["/Robot/joints"], "prim without a type"),
        (["PDControl"], ["/Robot/joints/knee", "/Robot/link0"], "Cube"),
        ([], ["/Robot/joints/knee"], "no controller"),
        (["MaxEffortClamping"], ["/Robot/joints/knee"], "no controller.*NewtonMaxEffortClampingAPI"),
        (["PDControl", "PIDControl"], ["/Robot/joints/knee"], "2 controllers"),
        (["PDControl", "PositionBasedClamping"], ["/Robot/joints/knee"], "lookup_positions"),
        (["NeuralControl"], ["/Robot/joints/knee"], "does not name a network"),
    ],
)
def test_prims_that_cannot_be(schemas, targets, match):
    stage = robot()
    prim = actuator_prim(stage, *schemas, targets=targets)
    with pytest.raises(ValueError, match=f"^/Robot/a: .*{match}"):
        actuon.parse_actuator_prim(prim)
    with pytest.raises(ValueError, match=f"^/Robot/a: .*{match}"):
        actuon.parse_actuators(stage)


def write_raw(prim, name, kind, value):
    """A program without the schema does this."""
    spec = prim.GetStage().GetRootLayer().GetPrimAtPath(prim.GetPath())
    Sdf.AttributeSpec(spec, name, kind).default = value


def test_bad_values_name_the_prim_and_the_parameter():
    stage = robot()
    prim = actuator_prim(stage, "PDControl")
    attribute = prim.GetAttribute("newton:kp")
    for value in (-1.0, math.nan, math.inf):
        attribute.Set(value)
        with pytest.raises(ValueError, match=r"^/Robot/a: PDControlConfig\.kp: got"):
            actuon.parse_actuator_prim(prim)
    attribute.Clear()
    attribute.Set(5.0, 1.0)
    with pytest.raises(ValueError, match="varies over time"):
        actuon.parse_actuator_prim(prim)
    prim.RemoveProperty("newton:kp")
    write_raw(prim, "newton:kp", Sdf.ValueTypeNames.String, "40")
    with pytest.raises(ValueError, match="^/Robot/a: newton:kp is authored as 'string'; must be 'float'"):
        actuon.parse_actuator_prim(prim)


def test_other_numeric_types_are_read():
    stage = robot()
    prim = actuator_prim(stage, "PDControl")
    write_raw(prim, "newton:kp", Sdf.ValueTypeNames.Double, 0.1)
    write_raw(prim, "newton:kd", Sdf.ValueTypeNames.Int, 2)
    assert actuon.parse_actuator_prim(prim).controller_kwargs == {"kp": 0.1, "kd": 2.0, "const_effort": 0.0}


def test_a_deactivated_actuator_is_off_and_a_deactivated_joint_is_an_error():
    stage = robot()
    prim = add(stage, EXAMPLES["pd"])
    stage.GetPrimAtPath("/Robot/joints/knee").SetActive(False)
    with pytest.raises(ValueError, match="deactivated"):
        actuon.parse_actuators(stage)
    prim.SetActive(False)
    assert actuon.parse_actuators(stage) == []


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        open_stage(tmp_path / "none.usda")
    with pytest.raises(ValueError, match=r"must be one of \.usda"):
        open_stage(tmp_path / "robot.xml")
    (tmp_path / "half.usda").write_text('#usda 1.0\ndef Xform "Robot" {\n')
    with pytest.raises(ValueError, match="cannot be read"):
        open_stage(tmp_path / "half.usda")
    for wrong in (3, None, robot().GetPrimAtPath("/nothing")):
        with pytest.raises(ValueError, match=r"must be a Usd\.Stage"):
            actuon.parse_actuators(wrong)


def test_what_is_parsed_builds():
    stage = robot()
    add(stage, EXAMPLES["everything"], joints=["knee", "hip"])
    builder = actuon.ActuatorBuilder()
    for index, parsed in enumerate(actuon.parse_actuators(stage)):
        builder.add_actuator(
            parsed.controller_class,
            index,
            clamping=parsed.clamping,
            delay_steps=parsed.delay_steps,
            **parsed.controller_kwargs,
        )
    (actuator,) = builder.finalize()
    assert actuator.controller.kp.numpy().tolist() == pytest.approx([0.1, 0.1])
