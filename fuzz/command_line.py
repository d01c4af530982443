# SPDX-License-Identifier: Apache-2.0
"""Random calls of the command: it does what was asked, or says in one line why not, and leaves nothing half done."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from pathlib import Path

from hypothesis import strategies as st

from .isolated import worker
from .mutations import Word, reworded, words
from .rig import rig
from .robot_files import prepare, sound

MJCF = """
<mujoco>
  <worldbody>
    <body name="arm">
      <joint name="hip" axis="0 1 0" range="-90 90"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
    </body>
  </worldbody>
</mujoco>
"""
SERVO = MJCF.replace("</worldbody>", '</worldbody><actuator><position joint="hip" kp="9"/></actuator>')
URDF = """
<robot name="arm">
  <link name="base"/>
  <link name="arm"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="hip" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="20" velocity="3"/></joint>
</robot>
"""
BESIDE = """
actuators:
  hip:
    joints: [hip]
    controller: {type: pd, kp: 20, kd: 1}
    clamping: [{type: max_effort, max_effort: 5}]
    delay: {delay_steps: 2}
"""
PATHS = (
    "robot.usda", "robot.usda", "robot.usda", "actuon.yaml", "actuon.yaml", "changed.usda", "changed.yaml", "arm.xml",
    "arm.actuon.yaml", "bytes.usda", "bytes.yaml", "bytes.xml", "empty.usda", "empty.yaml", "folder", "folder.usda",
    "missing.usda", "missing/robot.usda", "dangling.usda", "loop.usda", "closed.usda", "robot.usda/inside.usda",
    "with space é😀.usda", "not\udcffutf8.usda", "x" * 300 + ".usda", "", ".", "-", "--", "robot", "robot.USDA",
    "robot.txt", "new.usda", "new.usdc", "new.yaml", "new.npz", "new.csv", "folder/new.usda", "/proc/self/mem",
)  # fmt: skip
ROBOTS = ("robot.usda", "robot.usda", "changed.usda", "with space é😀.usda")
YAMLS = ("actuon.yaml", "actuon.yaml", "changed.yaml")
ANY = (*ROBOTS, *YAMLS, "arm.xml", "changed.xml", "plain.xml", "arm.urdf")
MEANT = {
    "init": {"robot": ANY, "-o": ["new.yaml", "folder/new.yml", "actuon.yaml"], "--root": [], "--force": None},
    "inspect": {"robot": ANY, "--root": [], "--json": None, "--allow-torch": None},
    "check": {"robot": ANY, "--dt": ["0.001", "0.02"], "--root": [], "--json": None, "--allow-torch": None},
    "plot": {"robot": ANY, "-o": ["new.png", "folder/new.png"], "--root": [], "--force": None, "--allow-torch": None},
    "author": {"robot": ROBOTS, "actuators": ANY, "-o": ["new.usda", "new.usdc", "folder/new.usda", "robot.usda"],
               "--root": [], "--overwrite": None, "--force": None, "--allow-torch": None},
    "export": {"robot": ANY, "-o": ["new.yaml", "folder/new.yml", "actuon.yaml"],
               "--root": [], "--force": None, "--allow-torch": None},
    "run": {"robot": ["arm.xml"], "--seconds": ["0.02"], "-o": ["plots", "folder"], "--record": ["new.npz", "new.csv"],
            "--envs": [], "--engine": [], "--allow-torch": None},
}  # fmt: skip
"""Arguments and options of each command, and what they are for; None for a flag."""
NEEDED = ("robot", "actuators", "-o", "--seconds")
ODD = {
    "--root": ["/Robot", "/Robot", "/World", "Robot", "", "/", "//", "/Robot/joints/hip", "/Robot.x", "a b"],
    "--engine": ["mujoco", "mujoco", "bullet", ""],
    "--seconds": ["0", "-1", "nan", "inf", "1e999", "many", ""],
    "--dt": ["0", "-1", "nan", "inf", "1e-300", "1e300", "soon", ""],
    "--envs": ["1", "2", "0", "-1", "1.5", "1e3", "٣"],
}
paths = st.sampled_from(PATHS)
noise = st.sampled_from(["--help", "--version", "-x", "--no-such", "--root", "-o"]) | paths


@st.composite
def calls(draw) -> list[str]:
    """A command as it is meant, with a file or an option here and there that is not."""
    command = draw(st.sampled_from([*MEANT, *MEANT, *MEANT, "inspct"]))
    arguments = [command]
    for name, meant in MEANT.get(command, {}).items():
        if draw(st.integers(0, 9)) < (1 if name in NEEDED else 7):
            continue
        arguments += [name] if name.startswith("-") else []
        if meant is not None:
            odd = st.sampled_from(ODD[name]) if name in ODD else paths
            arguments.append(draw(st.sampled_from(meant) if meant and draw(st.integers(0, 3)) else odd))
    if not draw(st.integers(0, 7)):
        arguments.insert(draw(st.integers(0, len(arguments))), draw(noise))
    return arguments


def run_command(arguments: list[str], folder: str) -> tuple[int, str, str]:
    """Run ``actuon`` in a folder. Returns its exit code, output and errors."""
    from actuon.cli import main as cli

    before = os.getcwd(), sys.argv, sys.stdout, sys.stderr
    os.environ["MPLBACKEND"] = "Agg"
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    os.chdir(folder)
    sys.argv, (sys.stdout, sys.stderr) = ["actuon", *arguments], streams
    try:
        cli.main()
        code = 0
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 0 if exit.code is None else 1
    finally:
        folder_before, sys.argv, sys.stdout, sys.stderr = before
        os.chdir(folder_before)
    output, errors = (stream.buffer.getvalue().decode() for stream in streams)
    return code, output, errors


@rig("command_line", examples=60, drawn=lambda seed: {"arguments": calls(), "changes": words})
def command_line(arguments: list[str], changes: list[Word]) -> None:
    """The exit code is 0, 1 or 2, an error is one line, and what failed has written nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fill(folder, changes)
        before = _contents(folder)
        code, output, errors = worker(prepare).call(run_command, arguments, name)
        assert code in (0, 1, 2), (code, errors)
        assert "Traceback" not in output + errors, errors
        if code == 2:
            assert re.fullmatch(r"(actuon: warning: .*\n)*actuon: .+\n", errors), errors
            assert _contents(folder) == before, errors
        elif not {"run", "init", "plot"} & set(arguments) and not {"-o", "--output"} & set(arguments):
            assert _contents(folder) == before


def _fill(folder: Path, changes: list[Word]) -> None:
    texts = {"robot.usda": sound(".usda"), "actuon.yaml": sound(".yaml"), "arm.xml": MJCF, "arm.actuon.yaml": BESIDE}
    texts |= {"changed.usda": reworded(texts["robot.usda"], changes)}
    texts |= {"changed.yaml": reworded(texts["actuon.yaml"], changes)}
    texts |= {"changed.xml": reworded(MJCF, changes), "plain.xml": SERVO, "arm.urdf": URDF}
    texts |= {"with space é😀.usda": texts["robot.usda"], "empty.usda": "", "empty.yaml": "", "robot.txt": "text"}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for suffix in (".usda", ".yaml", ".xml"):
        (folder / f"bytes{suffix}").write_bytes(bytes(range(256)))
    Path(os.fsdecode(os.fsencode(folder) + b"/not\xffutf8.usda")).write_text(texts["robot.usda"])
    (folder / "folder").mkdir()
    (folder / "folder.usda").mkdir()
    (folder / "dangling.usda").symlink_to(folder / "nothing")
    (folder / "loop.usda").symlink_to(folder / "loop.usda")
    (folder / "closed.usda").write_text(texts["robot.usda"])
    (folder / "closed.usda").chmod(0)


def _contents(folder: Path) -> dict[str, int | bytes]:
    """Return the content of a folder, by name."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder)).decode(errors="replace")
        found[name] = path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else 0
    return found
