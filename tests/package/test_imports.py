# SPDX-License-Identifier: Apache-2.0
"""The shape of the package: which module may import which, and what an import loads."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import actuon

SOURCE = Path(actuon.__file__).parent
ORDER = [
    "version",
    "errors",
    "patterns",
    "assets",
    "typing",
    "threads",
    "declare",
    "files",
    "arrays",
    "kernel",
    "networks",
    "components",
    "actuator",
    "motors",
    "robot_files",
    "motor_source",
    "torch",
    "warp_messages",
    "sim",
    "attach.batteries",
    "attach.solved_by_engine",
    "attach.chain_set",
    "stability.chain_response",
    "stability.limits",
    "stability.advice",
    "attach",
    "stability",
    "usd",
    "graph",
    "mujoco",
    "newton",
    "lab",
    "mujoco",
    "mjlab",
    "robot_source",
    "gym",
    "charts",
    "logs",
    "fit",
    "inspect",
    "plot",
    "demo",
    "studio",
]
ORDER += ["__init__", "cli"]
"""Rooms in the order of imports. A module that stands apart from its room, as ``room.module``, comes where it is."""
ROOMS_OF = {"usd": ("pxr",), "newton_builder": ("newton",), "newton_drive": ("newton",)}
ROOMS_OF |= {"cli": ("cyclopts", "rich"), "network_training": ("torch",), "gym": ("gymnasium", "mujoco")}
ROOMS_OF |= {"mjlab": ("mjlab", "mujoco", "torch"), "mujoco": ("mujoco",)}
ROOMS_OF |= {"render_frames": ("mujoco",)}
"""Folders and modules that are there to load a heavy package, and are loaded only when asked for."""
HEAVY = ("torch", "newton", "mujoco", "pxr", "onnx", "matplotlib", "cyclopts", "rich", "ruamel")
HEAVY += ("scipy", "cmaes", "pyarrow", "gymnasium", "mjlab", "viser", "trimesh")


def room(parts):
    """The room of a module or a name in it, from its dotted path below the package."""
    return next((name for name in (".".join(parts[:2]), parts[0]) if name in ORDER), "__init__")


def imported_rooms(path):
    """Rooms of this package that a module imports."""
    package = ["actuon", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            base += node.module.split(".") if node.module else []
            names = [[*base, alias.name] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [[*node.module.split("."), alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        for parts in names:
            if parts[0] == "actuon":
                yield room(parts[1:] or ["__init__"])


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_only_from_rooms_before(path):
    own = room(path.relative_to(SOURCE).with_suffix("").parts)
    assert own != "__init__" or path == SOURCE / "__init__.py"
    for other in imported_rooms(path):
        assert ORDER.index(other) <= ORDER.index(own), f"{own} imports {other}"


def test_heavy_packages_are_imported_only_where_used():
    for path in SOURCE.rglob("*.py"):
        places = (*path.relative_to(SOURCE).parts[:-1], path.stem)
        allowed = [package for place in places for package in ROOMS_OF.get(place, ())]
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                if isinstance(node, ast.ImportFrom) and node.level:
                    continue
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                assert not any(name.split(".")[0] in HEAVY and name.split(".")[0] not in allowed for name in names), (
                    path
                )


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_warp_and_numpy_only():
    code = f"import sys, actuon; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert run(code).strip() == "[]"


def test_a_star_import_works_without_any_extra():
    missing = f"import sys; sys.modules.update(dict.fromkeys({HEAVY!r}))"
    run(f"{missing}\nfrom actuon import *\nActuator, ControllerPD, load_actuators")


def test_fitting_names_its_extra_and_all_that_is_missing_of_it():
    missing = f"import sys; sys.modules.update(dict.fromkeys({HEAVY!r}))"
    said = run(f"{missing}\ntry:\n    from actuon.fit import fit_logs\nexcept ImportError as error:\n    print(error)")
    needed = "actuon.fit needs 'cmaes', 'mujoco', 'ruamel.yaml', 'scipy'"
    assert said.strip() == f"{needed}: install them with  pip install 'actuon[fit]', from a checkout '.[fit]'"


def test_import_neither_initialises_warp_nor_compiles(tmp_path):
    run("import actuon", WARP_CACHE_PATH=str(tmp_path))
    assert not list(tmp_path.rglob("*.o"))
    before, after = run("import warp as wp, actuon; print('imported'); wp.init()").split("imported")
    assert before.strip() == ""
    assert "Warp" in after  # which it says when it is initialised


def test_quiet_silences_warp_and_nobody_else(tmp_path):
    """Its greeting, its line for each kernel, and that there is no CUDA driver; written by native code too."""
    code = """
import os, sys
import numpy as np
import actuon
if "quiet" in sys.argv:
    actuon.quiet()
sim = dict.fromkeys(("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f"), np.zeros(2, np.float32))
actuon.Actuator(range(2), actuon.ControllerPD(1.0, 0.5)).step(sim, sim)
os.write(2, b"native code")
"""
    environment = os.environ | {"WARP_CACHE_PATH": str(tmp_path)}
    loud, quiet = (
        subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, check=True)
        for arguments in ((), ("quiet",))
    )
    assert b"load on device" in loud.stdout
    assert quiet.stdout == b""
    assert quiet.stderr == b"native code"


def test_what_warp_says_of_other_things_is_kept():
    code = """
import os
from actuon.warp_messages import without_missing_driver
with without_missing_driver():
    os.write(2, b"Warp CUDA warning: Could not find or load the NVIDIA CUDA driver. No.\\nWarp CUDA error: 3\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stderr == b"Warp CUDA error: 3\n"


def declares_only(node):
    """Whether a class is the declaration that a config and a component share."""
    return [ast.unparse(base) for base in node.bases] == ["Parameters"]


def test_public_names_are_complete():
    """Every public class and function of the components is in the package's own namespace."""
    for path in (*(SOURCE / "components").rglob("*.py"), SOURCE / "errors.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not declares_only(node):
                assert hasattr(actuon, node.name), node.name


def test_errors_are_actuon_errors_and_built_in_errors():
    for value in vars(actuon).values():
        if isinstance(value, type) and issubclass(value, actuon.ActuonError) and value is not actuon.ActuonError:
            assert issubclass(value, (ValueError, TypeError, ImportError, ArithmeticError))


def test_a_step_works_in_a_forked_process():
    """Threads of the parent are not waited for in the child."""
    code = """
import multiprocessing, numpy as np
import actuon
from actuon.kernel import launch
launch.DOFS_PER_THREAD = 256

def efforts():
    n = 2048
    actuator = actuon.Actuator(range(n), actuon.ControllerPD(2.0, 0.0))
    sim = {name: np.zeros(n, np.float32) for name in ("joint_q", "joint_qd", "joint_target_qd", "joint_f")}
    sim["joint_target_q"] = np.ones(n, np.float32)
    actuator.step(sim, sim)
    return float(sim["joint_f"].sum())

assert efforts() == 4096.0
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.apply(efforts))
"""
    assert run(code, ACTUON_NUM_THREADS="2").split()[-1] == "4096.0"
