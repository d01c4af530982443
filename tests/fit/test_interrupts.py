# SPDX-License-Identifier: Apache-2.0
"""Ctrl+C at any moment of a fit: the best so far is returned, said to be interrupted, and nothing else begins."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import actuon
from actuon.fit import KnownLoadPlant, SearchOptions, fit_fleet, fit_logs
from actuon.fit.excite import ExcitationOptions, Limits, excite, facts_of
from actuon.fit.fitting import fit_models
from actuon.fit.terms import build_model
from actuon.logs import save_log
from tests.fit.test_search import DT, MODEL, made_log, truth

OPTIONS = SearchOptions(starts=2, population=16, generations=6)
FEWER = dataclasses.replace(MODEL.fixed("delay.delay", 0.0), name="without delay")


def stop():
    """Press Ctrl+C."""
    os.kill(os.getpid(), signal.SIGINT)


class Stopped(KnownLoadPlant):
    """A plant that presses Ctrl+C in some of its traces of positions, of which least squares consist."""

    presses: tuple[int, ...] = ()
    traces = 0

    def simulate(self, trials, signal="position"):
        Stopped.traces += 1
        if Stopped.traces in Stopped.presses:
            stop()
        return super().simulate(trials, signal)

    def replace(self, *, runs=None, dt=None):
        logs = self.runs if runs is None else [self.runs[i] for i in runs]
        return type(self)(logs, self._given, self.dt if dt is None else dt, self._device)


@pytest.fixture
def pressed(monkeypatch):
    def press(*numbers):
        monkeypatch.setattr(Stopped, "presses", numbers)
        monkeypatch.setattr(Stopped, "traces", 0)

    return press


def stop_in(title_wanted, generation_wanted, begun):
    """Return a factory of progress that presses Ctrl+C in one generation of a search, and notes what begins."""

    def progress(title):
        begun.append(title)

        def told(generation, errors):
            if title == title_wanted and generation == generation_wanted:
                stop()
                stop()

        return told

    return progress


@pytest.mark.parametrize("generation", [1, 4])
def test_a_search_returns_the_best_so_far(generation):
    plant = KnownLoadPlant([made_log(truth(0), 0)], dt=DT)
    result = fit_logs(plant=plant, model=MODEL, options=OPTIONS, progress=stop_in("pd_coulomb", generation, []))
    assert result.interrupted
    assert result.generations == generation
    assert f"interrupted after {generation} generations" in " ".join(result.warnings)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_least_squares_keep_the_search_and_what_they_found(pressed):
    plant = Stopped([made_log(truth(0), 0)], dt=DT)
    searched = fit_models(plant, [MODEL], OPTIONS, refine_steps=0)
    errors = []
    whole = fit_logs(plant=plant, model=MODEL, options=OPTIONS)
    for presses in ((1,), (3,), (3, 4), (1, 2)):
        pressed(*presses)
        result = fit_logs(plant=plant, model=MODEL, options=OPTIONS)
        assert result.interrupted
        assert np.isfinite(result.error)
        errors.append(result.error)
        has_intervals = len(presses) == 1
        assert ("intervals were not computed" in " ".join(result.warnings)) is not has_intervals
        json.dumps(result.as_dict(), allow_nan=False)
    pressed()
    assert not whole.interrupted
    assert errors[0] <= 1.001 * searched.error
    assert whole.error - 1e-6 <= errors[1] <= 1.02 * errors[0]


@pytest.mark.parametrize(
    ("title", "complete"),
    [("without delay without run_0", 0), ("without delay without run_2", 0), ("pd_coulomb without run_0", 1)],
)
def test_a_selection_starts_no_other_search_and_keeps_what_it_has(title, complete, tmp_path):
    plant = KnownLoadPlant([made_log(truth(0), 0), made_log(truth(0), 2)], dt=DT)
    begun = []
    result = fit_logs(plant=plant, select=[FEWER, MODEL], options=OPTIONS, progress=stop_in(title, 3, begun))
    assert begun[-1] == title
    assert result.interrupted
    assert len(result.compared) == complete
    assert f"the selection was interrupted after {complete} of 2 models" in " ".join(result.warnings)
    assert result.joints[0].model.name == "without delay"
    assert result.error < 0.2
    result.save(tmp_path / "joint.yaml")
    text = " ".join((tmp_path / "joint.yaml").read_text().split())
    assert f"interrupted after {complete} of 2 models" in text
    assert (result.held_out is not None) is bool(complete)


def test_a_selection_whose_last_fit_is_interrupted_is_whole():
    plant = KnownLoadPlant([made_log(truth(0), 0), made_log(truth(0), 2)], dt=DT)
    result = fit_logs(plant=plant, select=[FEWER], options=OPTIONS, progress=stop_in("without delay", 2, []))
    assert result.interrupted
    assert result.generations == 2
    assert result.compared[0].chosen


@pytest.mark.parametrize("select", [False, [FEWER, MODEL]])
def test_a_fleet_keeps_the_robots_that_were_fitted(select, tmp_path):
    plants = {
        name: KnownLoadPlant([made_log(truth(i), 0), made_log(truth(i), 2)], dt=DT) for i, name in enumerate("abc")
    }
    result = fit_fleet(plants, None if select else "pd", select=select, options=OPTIONS, progress=stop_in("b", 2, []))
    assert result.interrupted
    assert list(result.robots) == ["a", "b"]
    assert result.missing == ("c",)
    assert "c: was not fitted" in result.warnings[0]
    files = result.save_robots(tmp_path / "fleet.yaml")
    assert [path.name for path in files] == ["a.yaml", "b.yaml"]
    assert [len(actuon.load_actuators(path)) for path in files] == [1, 1]


def test_a_motion_is_the_best_so_far():
    limits = Limits(-1.0, 1.0)
    facts = facts_of({"inertia": 0.01}, limits)
    model = build_model("pd", facts)

    def told(generation, narrower):
        if generation == 30:
            stop()

    options = ExcitationOptions(seconds=3.0, generations=40)
    found = excite("joint", model, model.start, limits, {"inertia": 0.01}, options, progress=told)
    assert found.interrupted
    assert np.isfinite(found.command).all()


def test_a_network_is_kept_and_no_model_is_compared():
    pytest.importorskip("torch")
    from actuon.fit.network_fitting import fit_network

    plant = KnownLoadPlant([made_log(truth(0), 0), made_log(truth(0), 2)], dt=DT)
    begun = []
    result = fit_network(
        plant, "gru", [[MODEL]], share=0.002, options=OPTIONS, progress=stop_in("gru without run_0", 1, begun)
    )
    assert result.interrupted
    assert not result.trained.interrupted
    assert begun == ["gru", "gru without run_0"]
    assert "the comparison was interrupted" in result.warnings[0]


PRESS = """
import os, signal, sys
from actuon.cli import fit, main
from actuon.cli.show import SearchBar

begin, press = SearchBar.search, (sys.argv.pop(1), int(sys.argv.pop(1)))

def search(bar, title):
    tick = begin(bar, title)

    def told(generation, errors):
        tick(generation, errors)
        if (title, generation) == press:
            os.kill(os.getpid(), signal.SIGINT)

    return told

SearchBar.search = search
if press[0] == "reading":
    from actuon.cli.fit_options import PlantOptions
    PlantOptions.read = lambda *given: os.kill(os.getpid(), signal.SIGINT)
main.main()
"""


@pytest.mark.parametrize("moment", ["pd", "pd_coulomb without run_2.csv", "reading"])
def test_the_command_writes_the_best_so_far_and_says_so(moment, tmp_path):
    for seed in (0, 2):
        save_log(tmp_path / f"run_{seed}.csv", made_log(truth(0), seed))
    sub, models = (("select",), ("--models", "pd,pd_coulomb")) if " " in moment else ((), ("--model", "pd"))
    arguments = ["fit", *sub, "run_0.csv", "run_2.csv", *models, "-o", "joint.yaml", "--report", "report"]
    ended = subprocess.run(
        [sys.executable, "-c", PRESS, moment, "3", *arguments, "--generations", "8", "--dt", str(DT)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr
    if moment == "reading":
        assert "actuon: interrupted" in ended.stderr
        return
    assert "interrupted after" in " ".join(ended.stdout.split())
    assert "wrote joint.yaml" in ended.stdout
    assert "interrupted after" in " ".join((tmp_path / "joint.yaml").read_text().split())
    assert "interrupted after" in (tmp_path / "report" / "report.md").read_text()
    assert actuon.load_actuators(tmp_path / "joint.yaml")[0].joints == ("joint",)
