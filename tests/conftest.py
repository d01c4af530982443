# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import os
import sys
import warnings

import numpy as np
import pytest
import warp as wp
from hypothesis import settings

from actuon.sim.newton.adjoints import leave_out_adjoints

gc.disable()  # until tests begin
os.environ.setdefault("OMP_NUM_THREADS", "1")  # PyTorch's threads would wait for those of the other test process
wp.config.log_level = wp.LOG_WARNING
settings.register_profile("actuon", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("actuon")


def pytest_collection_modifyitems(items):
    """Begin with tests that name Newton, so that one process of two has them, and its kernels are compiled once."""
    items.sort(key=lambda item: "newton" not in item.nodeid.lower())


def pytest_collection_finish(session):
    """Let Newton's solvers be compiled once, for commands too, in a fraction of the time; and let the million objects
    that modules have made be, of which each look for garbage would take most of a second."""
    if "newton" in sys.modules:
        leave_out_adjoints()
    gc.freeze()
    gc.enable()


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
    from actuon.tools import cli

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
