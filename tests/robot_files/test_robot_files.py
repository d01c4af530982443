# SPDX-License-Identifier: Apache-2.0
"""Robot files under stress: links, packages, other folders, other layers, other threads."""

from __future__ import annotations

import os
import stat

import pytest
from pxr import Sdf, Usd, UsdPhysics, UsdUtils

import actuon
from actuon.files import replacing
from actuon.robot_files.usd.author import author_file
from tests.support.robot_files import EXAMPLES, add, robot, save_robot

PD = actuon.PDControlConfig(40.0, 1.0)


def entries(*joints, name="all"):
    return [actuon.ActuatorEntry(name, joints or (".*",), actuon.ActuatorConfig(PD))]


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.yaml").write_text("old")
    (tmp_path / "a.yaml").symlink_to("real/a.yaml")
    actuon.save_actuators(tmp_path / "a.yaml", entries())
    assert (tmp_path / "a.yaml").is_symlink()
    assert actuon.load_actuators(tmp_path / "real" / "a.yaml") == entries()
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["a.yaml"]


def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(ValueError, match="not a regular file"):
        actuon.save_actuators(tmp_path / "pipe.yaml", entries())
    assert stat.S_ISFIFO((tmp_path / "pipe.yaml").stat().st_mode)


def test_files_keep_their_mode_and_new_ones_follow_the_umask(tmp_path):
    path = tmp_path / "a.yaml"
    actuon.save_actuators(path, entries())
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o640)
    actuon.save_actuators(path, entries())
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_failure_while_writing_leaves_nothing(tmp_path):
    def fail():
        with replacing(tmp_path / "a.txt") as partial:
            partial.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_author_trusts_no_network_that_the_robot_names(tmp_path):
    """An actuator that is there already is not even looked at, and one in the YAML needs approval."""
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    actuon.save_network(module, tmp_path / "net.pt")
    stage = robot(Usd.Stage.CreateNew(str(tmp_path / "robot.usda")))
    neural = actuon.ActuatorConfig(actuon.NeuralControlConfig(tmp_path / "net.pt"))
    add(stage, neural)
    (tmp_path / "net.pt").write_bytes(b"not a network any more")
    stage.GetRootLayer().Save()
    actuon.save_actuators(tmp_path / "a.yaml", entries("hip"))
    author_file(tmp_path / "robot.usda", tmp_path / "a.yaml", tmp_path / "out.usda")
    actuon.save_network(module, tmp_path / "net.pt")
    actuon.save_actuators(tmp_path / "a.yaml", [actuon.ActuatorEntry("s", "slide", neural)])
    with pytest.raises(ValueError, match="PyTorch file"):
        author_file(tmp_path / "robot.usda", tmp_path / "a.yaml", tmp_path / "second.usda")
    assert not (tmp_path / "second.usda").exists()
    author_file(
        tmp_path / "robot.usda", tmp_path / "a.yaml", tmp_path / "second.usda", allow_unsafe_torch_checkpoints=True
    )


def test_another_folder_gets_a_layer_over_the_robot_that_loses_nothing(tmp_path):
    for name in ("assets", "out"):
        (tmp_path / name).mkdir()
    save_robot(tmp_path / "assets" / "robot.usda")
    stage = Usd.Stage.Open(str(tmp_path / "assets" / "robot.usda"))
    stage.GetRootLayer().subLayerPaths.append("./missing.usda")
    stage.GetRootLayer().subLayerOffsets[0] = Sdf.LayerOffset(10, 2)
    prim = stage.GetPrimAtPath("/Robot")
    prim.CreateAttribute("textures", Sdf.ValueTypeNames.AssetArray).Set(["./a.png", "", "./u.<UDIM>.png"])
    stage.GetRootLayer().Save()
    before = (tmp_path / "assets" / "robot.usda").read_text()
    actuon.save_actuators(tmp_path / "a.yaml", entries("hip", "knee"))
    output = tmp_path / "out" / "robot.usda"
    author_file(tmp_path / "assets" / "robot.usda", tmp_path / "a.yaml", output)
    assert (tmp_path / "assets" / "robot.usda").read_text() == before
    written = Usd.Stage.Open(str(output))
    assert written.GetDefaultPrim().GetPath() == "/Robot"
    assert UsdPhysics.GetStageKilogramsPerUnit(written) == UsdPhysics.GetStageKilogramsPerUnit(stage)
    paths = [asset.path for asset in written.GetPrimAtPath("/Robot").GetAttribute("textures").Get()]
    assert paths == ["./a.png", "", "./u.<UDIM>.png"]
    assert len(actuon.parse_actuators(output)) == 2


def test_a_package_is_kept_below_the_output(tmp_path):
    save_robot(tmp_path / "base.usda")
    stage = Usd.Stage.CreateNew(str(tmp_path / "root.usda"))
    stage.SetDefaultPrim(stage.DefinePrim("/Robot"))
    stage.GetPrimAtPath("/Robot").GetReferences().AddReference("./base.usda")
    stage.GetRootLayer().Save()
    assert UsdUtils.CreateNewUsdzPackage(str(tmp_path / "root.usda"), str(tmp_path / "robot.usdz"))
    (tmp_path / "base.usda").unlink()
    actuon.save_actuators(tmp_path / "a.yaml", entries("hip"))
    author_file(tmp_path / "robot.usdz", tmp_path / "a.yaml", tmp_path / "out.usda")
    (parsed,) = actuon.parse_actuators(tmp_path / "out.usda")
    assert parsed.target_path == "/Robot/joints/hip"


def test_a_file_that_is_open_shows_what_was_written(tmp_path):
    save_robot(tmp_path / "robot.usda")
    for kp in (1.0, 77.0):
        entry = actuon.ActuatorEntry("k", "knee", actuon.ActuatorConfig(actuon.PDControlConfig(kp, 0.0)))
        actuon.save_actuators(tmp_path / "a.yaml", [entry])
        author_file(tmp_path / "robot.usda", tmp_path / "a.yaml", tmp_path / "out.usda")
        stage = Usd.Stage.Open(str(tmp_path / "out.usda"))
        assert actuon.parse_actuators(stage)[0].controller_kwargs["kp"] == kp
        kept = stage  # stays open over the second round
    assert kept


def test_entries_that_cannot_be_written_leave_a_bare_robot_bare():
    stage = robot()
    before = stage.GetRootLayer().ExportToString()
    with pytest.raises(ValueError, match="USD identifier"):
        actuon.author_actuators("/Robot", entries("knee", name="my knee"), stage=stage)
    with pytest.raises(ValueError, match="USD identifier"):
        actuon.author_actuators("/Robot", entries("knee", name="my/knee"), stage=stage)
    assert stage.GetRootLayer().ExportToString() == before
    stage.GetRootLayer().SetPermissionToEdit(False)
    with pytest.raises(ValueError, match="cannot be edited"):
        actuon.author_actuators("/Robot", entries("knee"), stage=stage)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_author_leaves_the_stage_as_it_was(when, monkeypatch):
    """The interrupt comes around the copy of the second prim into the stage."""
    stage = robot()
    layer, copy = stage.GetRootLayer(), Sdf.CopySpec
    before = layer.ExportToString()
    copied = []

    def interrupted(*arguments):
        copied.extend(arguments[2:] if arguments[2] == layer else ())
        is_second = len(copied) == 4
        if is_second and when == "before":
            assert stage.GetPrimAtPath(copied[1])
            raise KeyboardInterrupt
        done = copy(*arguments)
        if is_second:
            assert stage.GetPrimAtPath(copied[1])
            assert stage.GetPrimAtPath(copied[3])
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(Sdf, "CopySpec", interrupted)
    with pytest.raises(KeyboardInterrupt):
        actuon.author_actuators("/Robot", entries(), stage=stage)
    assert layer.ExportToString() == before


def test_inside_a_change_block_nothing_is_written():
    stage = robot()
    before = stage.GetRootLayer().ExportToString()
    with Sdf.ChangeBlock(), pytest.raises(ValueError, match="override"):
        actuon.add_actuator("/Robot", "knee", "knee", PD, stage=stage)
    assert stage.GetRootLayer().ExportToString() == before


def test_overwriting_hides_children_and_wiring_of_a_weaker_layer(tmp_path):
    asset = robot(Usd.Stage.CreateNew(str(tmp_path / "asset.usda")))
    old = add(asset, EXAMPLES["everything"])
    old.SetDocumentation("old")
    old.GetAttribute("newton:kp").AddConnection("/Robot.other")
    child = asset.DefinePrim("/Robot/Actuators/knee/nested", "NewtonActuator")
    child.AddAppliedSchema("NewtonPDControlAPI")
    child.CreateRelationship("newton:targets").SetTargets(["/Robot/joints/hip"])
    old.SetActive(False)
    asset.GetRootLayer().Save()
    stage = Usd.Stage.CreateInMemory()
    stage.DefinePrim("/Robot").GetReferences().AddReference(str(tmp_path / "asset.usda"))
    prim = add(stage, EXAMPLES["pd"], overwrite_existing=True)
    assert [p.prim_path for p in actuon.parse_actuators(stage)] == ["/Robot/Actuators/knee"]
    assert prim.IsActive()
    assert not prim.GetDocumentation()
    assert (
        not prim.GetAttribute("newton:kp").HasAuthoredConnections()
        or not prim.GetAttribute("newton:kp").GetConnections()
    )


def test_an_exact_path_is_never_ambiguous():
    stage = robot()
    UsdPhysics.RevoluteJoint.Define(stage, "/Robot/sub/Robot/joints/knee")
    prim = actuon.add_actuator("/Robot", "/Robot/joints/knee", "knee", PD, stage=stage)
    assert actuon.parse_actuator_prim(prim).target_path == "/Robot/joints/knee"
    actuon.author_actuators("/Robot", entries(), stage=stage, overwrite_existing=True)


def test_the_joint_itself_is_not_overwritten():
    stage = robot()
    UsdPhysics.RevoluteJoint.Define(stage, "/Robot/Actuators/k")
    with pytest.raises(ValueError, match="replace the joint"):
        actuon.add_actuator("/Robot", "k", "k", PD, stage=stage, overwrite_existing=True)


def test_a_prim_knows_its_stage():
    stage, other = robot(), robot()
    prim = actuon.add_actuator(stage.GetPrimAtPath("/Robot"), "knee", "knee", PD)
    assert prim.GetStage() == stage
    with pytest.raises(ValueError, match="another stage"):
        actuon.add_actuator(stage.GetPrimAtPath("/Robot"), "hip", "hip", PD, stage=other)
    for wrong in (None, 5):
        with pytest.raises(ValueError, match="target_names"):
            actuon.add_actuator("/Robot", wrong, "x", PD, stage=stage)


def test_two_actuators_on_a_joint_are_not_exported():
    stage = robot()
    add(stage, EXAMPLES["pd"])
    add(stage, EXAMPLES["pd"], name="second")
    with pytest.raises(ValueError, match="is driven by /Robot/Actuators/knee and by /Robot/Actuators/second"):
        actuon.export_actuators(stage)


@pytest.mark.parametrize(
    "text",
    ["clamping: false", "clamping: 0", "clamping: {}", "controller: {type: [pd], kp: 1, kd: 1}", "delay: false"],
)
def test_values_that_only_look_empty(text, tmp_path):
    path = tmp_path / "a.yaml"
    controller = "" if text.startswith("controller") else "controller: {type: pd, kp: 1, kd: 1}"
    path.write_text(f"actuators:\n  knee:\n    joints: [knee]\n    {controller}\n    {text}\n")
    with pytest.raises(ValueError, match=r"actuators\.knee"):
        actuon.load_actuators(path)


@pytest.mark.parametrize(
    "text", ["actuators: false", "actuators: []", "version: true\nactuators: {}", "[" * 3000, "actuators:"]
)
def test_files_that_only_look_empty(text, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"a\.yaml"):
        actuon.load_actuators(path)


def test_bad_values_of_configs():
    with pytest.raises(ValueError, match="flat list of numbers"):
        actuon.PositionBasedClampingConfig([0, True], [1.0, 2.0])
    for path in ("", "a\nb", 3, None):
        with pytest.raises(ValueError, match="path of a file"):
            actuon.NeuralControlConfig(path)


def test_networks_through_linked_folders(tmp_path):
    (tmp_path / "real" / "robot").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/robot")
    (tmp_path / "real" / "net.onnx").write_bytes(b"")
    (tmp_path / "real" / "robot" / "a.yaml").write_text(
        "actuators: {knee: {joints: knee, controller: {type: neural, model_path: ../net.onnx}}}"
    )
    (entry,) = actuon.load_actuators(tmp_path / "link" / "a.yaml")
    assert os.path.exists(entry.actuator.controller.model_path)
    stage = robot(Usd.Stage.CreateNew(str(tmp_path / "link" / "robot.usda")))
    (tmp_path / "real" / "robot" / "own.onnx").write_bytes(b"")
    config = actuon.NeuralControlConfig(tmp_path / "real" / "robot" / "own.onnx")
    prim = actuon.add_actuator("/Robot", "knee", "knee", config, stage=stage)
    assert prim.GetAttribute("newton:modelPath").Get().path == "./own.onnx"


def test_a_large_robot_is_written_in_one_walk():
    stage = Usd.Stage.CreateInMemory()
    for i in range(300):
        UsdPhysics.RevoluteJoint.Define(stage, f"/Robot/joint_{i}")
    assert len(actuon.author_actuators("/Robot", entries(), stage=stage)) == 300


def test_every_joint_that_an_entry_matches_gets_a_prim(tmp_path):
    """Names that differ by folder only stay apart."""
    stage = Usd.Stage.CreateNew(str(tmp_path / "robot.usda"))
    joints = ("/R/l/knee", "/R/r/knee", "/R/r_knee", "/R/a/b_c", "/R/a_b/c", "/R/x/b_c", "/R/x/c")
    for path in joints:
        UsdPhysics.RevoluteJoint.Define(stage, path)
    stage.SetDefaultPrim(stage.GetPrimAtPath("/R"))
    stage.GetRootLayer().Save()
    actuon.save_actuators(tmp_path / "a.yaml", entries())
    written = author_file(tmp_path / "robot.usda", tmp_path / "a.yaml", tmp_path / "out.usda")
    names = ("l_knee", "r_knee_2", "r_knee", "a_b_c", "a_b_c_2", "x_b_c", "x_c")
    assert written == [f"/R/Actuators/{name}" for name in names]
    parsed = actuon.parse_actuators(tmp_path / "out.usda")
    assert sorted(p.target_path for p in parsed) == sorted(joints)
    assert {p.prim_path: p.target_path for p in parsed}["/R/Actuators/r_knee"] == "/R/r_knee"
    for _ in range(2):  # the names do not depend on what is there already
        author_file(tmp_path / "out.usda", tmp_path / "a.yaml", tmp_path / "out.usda", overwrite_existing=True)
    assert len(actuon.parse_actuators(tmp_path / "out.usda")) == len(joints)
    exported = actuon.export_actuators(tmp_path / "out.usda")
    assert sum(len(entry.joints) for entry in exported) == len(joints)


def test_names_are_unique_across_entries():
    stage = Usd.Stage.CreateInMemory()
    for path in ("/R/l/knee", "/R/r/knee", "/R/r_knee", "/R/hip"):
        UsdPhysics.RevoluteJoint.Define(stage, path)
    both = [*entries("l/knee", "r/knee", name="folders"), *entries("r_knee", "hip", name="plain")]
    prims = actuon.author_actuators("/R", both, stage=stage)
    assert [prim.GetName() for prim in prims] == ["l_knee", "r_knee_2", "r_knee", "hip"]
