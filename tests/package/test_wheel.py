# SPDX-License-Identifier: Apache-2.0
"""What a user gets: the wheel, installed outside the checkout, runs what the README and the docs show."""

from __future__ import annotations

import dataclasses
import importlib
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

PAGES = ("README.md", "docs/simulation.md")
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
    """What ``mypy --strict`` prints about programs of a user, by name, which use the installed package."""
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
    printed = run("bash", "-e", "-c", blocks("README.md", "sh"), cwd=tmp_path, env=installed)
    assert actuon.__version__ in printed.splitlines()[0]
    assert "nothing is wrong" in printed
    assert "real motor" in printed
    plots = {path.name for path in (tmp_path / "out").iterdir()}
    drawn = {"robot.png"} if "no picture: " not in printed else set()
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


UNKNOWN = {
    "Actuator.State": "the states of stages: a component of yours may have any; its owner, which stands after it",
    "Actuator.State.controller_state": "a controller of yours may have any",
    "Actuator.State.drive_state": "a controller of yours may have any",
    "Actuator.State.delay_state": "a delay of yours may have any",
    "OgnArticulationActuators.compute": "OmniGraph's own",
    "OgnArticulationActuators.release": "OmniGraph's own",
    "OgnArticulationActuators.release_instance": "OmniGraph's own",
}
"""What is Any in public signatures, and why."""
DECLARED = ("actuon.components", "actuon.declare", "actuon.kernel")
"""Modules whose classes take whatever their parameters are declared to be."""


def signatures(name, value):
    """Annotations of a public function, or of a class, its methods and fields: (where, annotation)."""
    if inspect.isclass(value):
        yield from ((f"{name}.{field}", kind) for field, kind in inspect.get_annotations(value).items())
        for member, made in vars(value).items():
            if not member.startswith("_") or (member == "__init__" and not dataclasses.is_dataclass(value)):
                made = made.fget if isinstance(made, property) else getattr(made, "__func__", made)
                yield from signatures(f"{name}.{member}".removesuffix(".__init__"), made)
    elif inspect.isfunction(value):
        signature = inspect.signature(value)
        kinds = [(p.name, p.annotation) for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        assert all(kind is not inspect.Parameter.empty for arg, kind in kinds if arg not in ("self", "cls")), name
        yield from ((name, kind) for kind in (*(kind for _, kind in kinds), signature.return_annotation))


MODULES = ("actuon", "actuon.gym", "actuon.lab", "actuon.mjlab", "actuon.newton", "actuon.graph")


@pytest.mark.parametrize("module", MODULES)
def test_public_signatures_say_their_types(module):
    if module == "actuon.mjlab":
        pytest.importorskip("mjlab", reason="make test-mjlab runs it")
    module = importlib.import_module(module)
    public = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    for name, value in public.items():
        home = getattr(value, "__module__", "")
        if home.startswith("actuon") and not home.startswith(DECLARED):
            for where, kind in signatures(name, value):
                known = re.sub(r"(dict|Mapping)\[str, Any\]", "", str(kind))
                assert not re.search(r"\bAny\b", known) or where in UNKNOWN, f"{where}: {kind}"
