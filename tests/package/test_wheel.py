# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed outside the checkout, runs the commands of README and docs."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import actuon
from tests.support.paths import ROOT

PAGES = ("README.md", "docs/guides/mujoco.md", "docs/guides/environments.md")
QUICKER = "from actuon.sim.newton.adjoints import leave_out_adjoints; leave_out_adjoints()"
"""Newton's kernels are then those that other tests have compiled."""
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def blocks(page, kind):
    return "\n".join(code for found, code in BLOCK.findall((ROOT / page).read_text("utf-8")) if found == kind)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation", "--quiet", "-w", folder)
    (path,) = folder.glob("actuon-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The environment of the wheel: its ``bin`` first in PATH, this environment's packages after its own."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet")
    run(*pip, wheel)
    (own,) = folder.glob("lib/python*/site-packages")
    # A plain line in a .pth does not read the .pth of an editable install there.
    (own / "dependencies.pth").write_text("\n".join(site.getsitepackages()), "utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{environment['PATH']}"
    where = run(python, "-c", "import actuon; print(actuon.__file__)", cwd=folder, env=environment).strip()
    assert Path(where).is_relative_to(own)
    return environment


def strict_mypy(folder, environment, programs):
    """Return the output of ``mypy --strict``, by name, for user programs that use the installed package."""
    for name, code in programs.items():
        (folder / name).write_text(code, "utf-8")
    unread = "matplotlib.*,mujoco.*,newton.*,onnx.*,pxr.*,ruamel.*,torch.*"
    settings = ("[mypy]", "strict = true", "disallow_untyped_calls = false")  # of methods of Warp
    settings += (f"[mypy-{unread}]", "follow_imports = skip", "ignore_missing_imports = true")
    (folder / "mypy.ini").write_text("\n".join(settings), "utf-8")
    python = shutil.which("python", path=environment["PATH"])
    command = (sys.executable, "-m", "mypy", "--python-executable", python, *programs)
    return run(*command, cwd=folder, env=environment)


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel):
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name and ".egg-info" not in name}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == files
    assert "actuon/py.typed" in names


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_outside_the_checkout(installed, tmp_path, page):
    code = f"{QUICKER}\n{blocks(page, 'python')}"
    (tmp_path / "page.py").write_text(code, "utf-8")
    run("python", "-W", "error", "page.py", cwd=tmp_path, env=installed)


def test_the_commands_of_the_readme_run_outside_the_checkout(installed, tmp_path):
    assert actuon.__version__ in run("actuon", "--version", cwd=tmp_path, env=installed)
    printed = run("bash", "-e", "-c", blocks("README.md", "sh"), cwd=tmp_path, env=installed)
    assert "no problems found" in printed
    assert "real motors" in printed
    plots = {path.name for path in (tmp_path / "out").iterdir()}
    drawn = {"robot.png"} if "no image: " not in printed else set()
    assert plots == {"effort.png", "height.png", "torque_speed.png", "tracking.png"} | drawn


def test_a_type_checker_knows_every_public_name(installed, tmp_path):
    public = [name for name in dir(actuon) if not name.startswith("_")]
    names = [f"actuon.{name}" for name in public if not inspect.ismodule(getattr(actuon, name))]
    names += ["actuon.assets.arm_mjcf", "actuon.lab.DCMotorCfg"]
    programs = {f"page{i}.py": blocks(page, "python") for i, page in enumerate(PAGES)}
    programs["names.py"] = "import actuon\n" + "".join(f"reveal_type({name})\n" for name in names)
    printed = strict_mypy(tmp_path, installed, programs)
    known = dict(zip(names, re.findall('note: Revealed type is "(.*)"', printed), strict=True))
    assert known["actuon.assets.arm_mjcf"] == "pathlib.Path"
    assert [name for name, kind in known.items() if kind == "Any"] == []
