# SPDX-License-Identifier: Apache-2.0
"""Files that are damaged, half written or wrongly typed get an error that names file, prim and property."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pxr import Sdf, Usd

import actuon
from actuon.robot_files.usd.author import author_file
from actuon.robot_files.usd.stage import open_stage
from tests.support.robot_files import EXAMPLES, add, robot, save_robot

NOT_UTF8 = b"caf\xe9"


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "robot.usda"
    stage = robot(Usd.Stage.CreateNew(str(path)))
    add(stage, EXAMPLES["everything"])
    stage.GetRootLayer().Save()
    stage.GetRootLayer().Export(str(tmp_path / "robot.usdc"))
    return path


def refused(match):
    return pytest.raises(actuon.RobotFileError, match=match)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (b"#usda 1.0\n", b"#usda 1.0\n# %s\n" % NOT_UTF8, 2),
        (b"#usda 1.0\n(\n", b'#usda 1.0\n(\n    doc = "%s"\n' % NOT_UTF8, 3),
        (b'"link1"', b'"%s"' % NOT_UTF8, None),
        (b"newton:kp =", b"newton:%s =" % NOT_UTF8, None),
    ],
)
def test_usda_that_is_not_utf8(old, new, line, good, tmp_path):
    path = tmp_path / "bad.usda"
    path.write_bytes(good.read_bytes().replace(old, new, 1))
    for read in (actuon.parse_actuators, actuon.inspect_actuators, actuon.export_actuators):
        with refused(rf"bad\.usda' cannot be read: line {line or '[0-9]+'} holds the byte 0xe9.* save it as UTF-8"):
            read(path)


def test_a_layer_below_that_cannot_be_read_is_named(good, tmp_path):
    text = good.read_bytes()
    for name, content in (("latin", text.replace(b"1.0\n", b"1.0\n# %s\n" % NOT_UTF8, 1)), ("half", text[:2000])):
        (tmp_path / f"{name}.usda").write_bytes(content)
        (tmp_path / f"over_{name}.usda").write_text(f"#usda 1.0\n(subLayers = [@./{name}.usda@])\n")
        problem = actuon.inspect_actuators(tmp_path / f"over_{name}.usda").problems[0]
        assert re.search(rf"{name}\.usda:\d+:\d+: syntax error", problem)
        assert "pegtl" not in problem
        with refused(rf"no joint that can be driven\. USD says: .*{name}\.usda"):
            actuon.export_actuators(tmp_path / f"over_{name}.usda")


@pytest.mark.parametrize("ending", ["usda", "usdc"])
def test_half_written_files(ending, good, tmp_path):
    content = good.with_suffix(f".{ending}").read_bytes()
    for share in (0.01, 0.3, 0.99 if ending == "usdc" else 0.9):
        path = tmp_path / f"half_{share}.{ending}"
        path.write_bytes(content[: int(share * len(content))])
        with refused(re.escape(f"{path}' cannot be read: ")) as caught:
            actuon.parse_actuators(path)
        assert "pegtl" not in str(caught.value)


@pytest.mark.parametrize("ending", ["usda", "usdc", "usd", "usdz"])
def test_empty_files_and_folders(ending, tmp_path):
    path = tmp_path / f"robot.{ending}"
    path.touch()
    with refused("is empty"):
        open_stage(path)
    path.unlink()
    path.mkdir()
    with refused("is a directory; must be a file"):
        open_stage(path)


def test_names_of_files(tmp_path):
    raw = os.fsencode(tmp_path) + b"/" + NOT_UTF8 + b".usda"
    Path(os.fsdecode(raw)).write_bytes(save_robot(tmp_path / "robot.usda").read_bytes())
    with refused(r"caf\\udce9.usda': the name is not valid UTF-8; rename the file") as caught:
        open_stage(os.fsdecode(raw))
    str(caught.value).encode()  # can be printed
    actuon.save_actuators(tmp_path / "a.yaml", [actuon.ActuatorEntry("k", "knee", EXAMPLES["pd"])])
    with refused("not valid UTF-8"):
        author_file(tmp_path / "robot.usda", tmp_path / "a.yaml", os.fsdecode(raw))
    for name in ("a\0b.usda", "\ud800.usda", "x" * 300 + ".usda", tmp_path / "robot.usda" / "inside.usda"):
        with refused("usda"):
            open_stage(name)
    path = Path(os.fsdecode(raw)).with_suffix(".yaml")
    path.write_bytes((tmp_path / "a.yaml").read_bytes())
    assert actuon.load_actuators(path) == actuon.load_actuators(tmp_path / "a.yaml")
    with refused("cannot be read: Is a directory"):
        actuon.load_actuators(tmp_path)
    with refused("cannot be read: embedded null byte"):
        actuon.load_actuators("a\0b.yaml")


def test_names_that_are_not_unicode():
    stage = robot()
    with refused("must be an absolute prim path"):
        actuon.add_actuator("/\ud800", "knee", "knee", EXAMPLES["pd"].controller, stage=stage)
    with refused("must be a USD identifier"):
        actuon.add_actuator("/Robot", "knee", "\ud800", EXAMPLES["pd"].controller, stage=stage)
    with refused("no joint"):
        actuon.add_actuator("/Robot", "\ud800", "knee", EXAMPLES["pd"].controller, stage=stage)


TARGET = "rel newton:targets = </Robot/joints/knee>"
GAINS = "float newton:kp = 1\nfloat newton:kd = 1"
TABLE = "float[] newton:lookupEfforts = [1, 2]"


def with_prim(folder, schema, body, name="typed.usda"):
    """A robot with an actuator that is written by hand."""
    stage = robot()
    stage.GetRootLayer().Export(str(folder / name))
    text = (folder / name).read_text().rstrip().removesuffix("}")
    schemas = ", ".join(f'"Newton{entry}API"' for entry in schema.split())
    text += 'def Scope "Actuators"\n{\n'
    text += f'def NewtonActuator "knee" (prepend apiSchemas = [{schemas}])\n{{\n{body}\n}}\n}}\n}}\n'
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    ("schema", "body", "match"),
    [
        (
            "PDControl",
            f'{GAINS}\nstring newton:targets = "/Robot/joints/knee"',
            "newton:targets .* 'string'; must be 'rel'",
        ),
        ("PDControl", f"{GAINS}\nfloat newton:targets", "newton:targets is authored as 'float'; must be 'rel'"),
        (
            "NeuralControl",
            f"{TARGET}\nasset[] newton:modelPath = [@a.onnx@]",
            r"modelPath .* 'asset\[\]'; must be 'asset'",
        ),
        ("NeuralControl", f'{TARGET}\nstring newton:modelPath = "a.onnx"', "'string'; must be 'asset'"),
        ("NeuralControl", f"{TARGET}\nfloat newton:modelPath = 3", "'float'; must be 'asset'"),
        ("NeuralControl", f"{TARGET}\nrel newton:modelPath = </Robot>", "'rel'; must be 'asset'"),
        (
            "NeuralControl",
            f"{TARGET}\nasset newton:modelPath = @{'a' * 300}.onnx@",
            "File name too long|does not exist",
        ),
        ("PDControl", f'{TARGET}\nstring newton:kp = "40"', "newton:kp is authored as 'string'; must be 'float'"),
        ("PDControl", f"{TARGET}\nrel newton:kp = </Robot>", "newton:kp is authored as 'rel'; must be 'float'"),
        ("PDControl", f"{TARGET}\nfloat[] newton:kp = [1]", r"'float\[\]'; must be 'float'"),
        ("PDControl", f"{TARGET}\nbool newton:kp = true", "'bool'; must be 'float'"),
        ("PDControl", f'{TARGET}\npathExpression newton:kp = "/x"', "'pathExpression'; must be 'float'"),
        ("PDControl", f"{TARGET}\nopaque newton:kp", "'opaque'; must be 'float'"),
        ("PDControl ActuatorDelay", f"{TARGET}\nfloat newton:delaySteps = 2", "delaySteps .* 'float'; must be 'int'"),
        (
            "PDControl ActuatorDelay",
            f"{TARGET}\nint newton:delaySteps = 2147483647",
            "got 2147483647; must be .* ≤ 10000",
        ),
        (
            "PDControl PositionBasedClamping",
            f"{TARGET}\n{TABLE}\nfloat newton:lookupPositions = 1",
            r"must be 'float\[\]'",
        ),
        (
            "PDControl PositionBasedClamping",
            f"{TARGET}\n{TABLE}\nint[] newton:lookupPositions = [{'0, ' * 5000}0]",
            "newton:lookupPositions: got 5001 numbers; must be .* at most 4096",
        ),
    ],
    ids=range(17),
)
def test_wrongly_typed_properties(schema, body, match, tmp_path):
    path = with_prim(tmp_path, schema, body)
    with refused(f"^/Robot/Actuators/knee: .*{match}"):
        actuon.parse_actuators(path)
    (problem,) = actuon.inspect_actuators(path).problems
    assert re.search(match, problem)


def test_other_types_of_numbers_are_read(tmp_path):
    body = f"{TARGET}\n{GAINS}\nint[] newton:lookupPositions = [0, 1]\ndouble[] newton:lookupEfforts = [1, 2.5]"
    (parsed,) = actuon.parse_actuators(with_prim(tmp_path, "PDControl PositionBasedClamping", body))
    assert parsed.config.clamping == [actuon.PositionBasedClampingConfig((0.0, 1.0), (1.0, 2.5))]


@pytest.mark.parametrize(
    "body", ['string newton:targets = "x"', f'{TARGET}\nstring newton:kp = "40"', f"{TARGET}\nrel newton:kp = </Robot>"]
)
@pytest.mark.parametrize("folder", [".", "other"])
def test_overwriting_mends_wrongly_typed_properties(body, folder, tmp_path):
    """In the same layer and from a stronger one; what fails leaves them as they were."""
    (tmp_path / "other").mkdir()
    path = with_prim(tmp_path, "PDControl", body)
    actuon.save_actuators(tmp_path / "a.yaml", [actuon.ActuatorEntry("knee", "knee", EXAMPLES["pd"])])
    output = tmp_path / folder / "out.usda"
    author_file(path, tmp_path / "a.yaml", output, overwrite_existing=True)
    (parsed,) = actuon.parse_actuators(output)
    assert parsed.config == EXAMPLES["pd"]
    layer = Sdf.Layer.FindOrOpen(str(path))
    layer.Reload(True)
    before = layer.ExportToString()
    with refused("target_names"):
        add(Usd.Stage.Open(layer), EXAMPLES["pd"], joints=["knee", "knee"], overwrite_existing=True)
    twice = [actuon.ActuatorEntry("knee", "knee", EXAMPLES["pd"]), actuon.ActuatorEntry("1", "hip", EXAMPLES["pd"])]
    with refused("USD identifier"):
        actuon.author_actuators("/Robot", twice, stage=Usd.Stage.Open(layer), overwrite_existing=True)
    assert layer.ExportToString() == before


def test_commands_give_one_line(tmp_path):
    (tmp_path / "robot.usda").write_bytes(b"#usda 1.0\n# " + NOT_UTF8)
    named = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + NOT_UTF8 + b".usda"))
    named.write_bytes(b"#usda 1.0\n")
    for path in (tmp_path / "robot.usda", named):
        line = [sys.executable, "-m", "actuon.cli", "inspect", path]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "UTF-8" in done.stderr
