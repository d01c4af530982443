# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import warp as wp
from hypothesis import settings

import actuon
from actuon.sim.newton.adjoints import leave_out_adjoints

gc.disable()  # until tests begin
os.environ.setdefault("OMP_NUM_THREADS", "1")  # PyTorch's threads would wait for those of the other test process
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in what they run in the background
wp.config.log_level = wp.LOG_WARNING
settings.register_profile("actuon", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("actuon")

HERE = Path(__file__).parent
OPTIMISED = (
    "actuator/test_paths.py",
    "attach/test_mujoco_loop.py",
    "cli/",
    "fit/",
    "inspect/test_reports.py",
    "kernel/test_cuda.py",
    "outside/test_accuracy.py",
    "outside/test_fuzz_fits.py",
    "sim/mujoco/test_motors_in_the_loop.py",
    "sim/mujoco/test_ways_to_step.py",
    "studio/",
)
"""Tests that compile as users do, marked ``optimised``: controllers with every clamping on every path, those that step
more than they compile, or run kernels on threads, and those for CUDA, whose compiler takes no -O0."""

COMPILE_NEWTON = ("fit/test_usd_robot.py",)
"""Tests among them that would compile Newton's kernels a second time."""


def _is_optimised(path):
    if not path.is_relative_to(HERE):
        return False
    name = path.relative_to(HERE).as_posix()
    return name.startswith(OPTIMISED) and name not in COMPILE_NEWTON


def pytest_ignore_collect(collection_path, config):
    """Import only the files of the run: ``-m optimised`` or ``-m "not optimised"``."""
    chosen = {"optimised": True, "not optimised": False}.get(config.getoption("markexpr"))
    is_left_out = chosen is not None and collection_path.is_file() and _is_optimised(collection_path) != chosen
    return is_left_out or None


def pytest_collection_modifyitems(items):
    """Begin with tests that name Newton, so that one process of two has them, and its kernels are compiled once."""
    for item in items:
        if _is_optimised(item.path):
            item.add_marker("optimised")
    items.sort(key=lambda item: "newton" not in item.nodeid.lower())


def pytest_collection_finish(session):
    """Compile Newton's solvers without adjoints, and freeze imported objects.

    Without the freeze, each collection of garbage would take most of a second.
    """
    if "newton" in sys.modules:
        leave_out_adjoints()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@contextlib.contextmanager
def _skipped_without_newton():
    """Skip what needs Newton where it is not installed, as beside MuJoCo 4."""
    try:
        yield
    except actuon.MissingExtraError as error:
        if error.package != "newton" or importlib.util.find_spec("newton") is not None:
            raise
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Compile without optimisation, in a third of the time, but for tests marked ``optimised``.

    A kernel that the process has loaded already stays as it is: hence two runs in ``make test``.
    `test_optimisation` compares the bits of both.
    """
    wp.config.optimization_level = None if item.get_closest_marker("optimised") else 0
    with _skipped_without_newton():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    with _skipped_without_newton():
        return (yield)


@pytest.fixture(autouse=True, scope="module")
def _no_simulation_is_left():
    """Fail where tests leave a simulation open: it would be the current one of those that follow."""
    yield
    with contextlib.suppress(actuon.SimulationError):
        actuon.current_simulation()
        gc.collect()  # it may be garbage in a cycle
        pytest.fail(f"{actuon.current_simulation()!r} is still open")


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def arms(tmp_path):
    """Two arms of two DOFs, driven by PD controllers, and by servos of the engine until then."""
    from actuon import MujocoSimulation
    from tests.support.action_graphs import ACTUATORS, MODEL

    (tmp_path / "arms.xml").write_text(MODEL)
    (tmp_path / "arms.actuon.yaml").write_text(ACTUATORS)
    with MujocoSimulation(tmp_path / "arms.xml") as simulation:
        yield simulation


@pytest.fixture
def complaint(monkeypatch, capsys, tmp_path):
    """The one line that the command prints when it refuses its arguments, in this process, which is quicker."""
    from actuon.cli import main as cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["actuon", *map(str, arguments)])
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as caught:
            cli.main()
        (line,) = capsys.readouterr().err.splitlines()
        assert caught.value.code == 2
        assert line.startswith("actuon: ")
        assert sorted(tmp_path.rglob("*")) == before
        return line

    return run
