# SPDX-License-Identifier: Apache-2.0
"""Searches as jobs: from several starts, here and on a local Ray, with the same results."""

from __future__ import annotations

import dataclasses
import pickle
import sys

import numpy as np
import pytest

import actuon
from actuon.fit import KnownLoadPlant, RobotPlant, SearchOptions, fit_logs
from actuon.fit.fitting import candidates_of, fit_models
from actuon.fit.refine import refine, refine_all
from actuon.fit.search import Search, best_start, run_searches, run_task
from actuon.fit.select import compare
from actuon.fit.workers import RayWorkers
from tests.fit.test_robot import ARM, recorded
from tests.fit.test_search import DT, MODEL, made_log, truth
from tests.support.trials import errors_of

SHORT = SearchOptions(seed=5, starts=1, population=16, generations=6)


@pytest.fixture(scope="module")
def plant():
    return KnownLoadPlant([made_log(truth(0), seed) for seed in range(2)], dt=DT)


@pytest.fixture(scope="module")
def workers():
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    with RayWorkers() as found:
        yield found


def test_a_job_that_was_sent_away_finds_the_same(plant):
    errors_of(plant, [MODEL], [MODEL.start[None]])  # with a kernel built, as a plant in use has one
    ((task,),) = Search(plant, (MODEL,), SHORT).tasks()
    sent = pickle.loads(pickle.dumps(task))
    np.testing.assert_array_equal(run_task(sent).values[0], run_task(task).values[0])


def test_each_start_is_a_job_of_its_own_and_the_best_is_taken(plant):
    search = Search(plant, (MODEL,), dataclasses.replace(SHORT, starts=3))
    (starts,) = search.tasks()
    assert [one.options.starts for one in starts] == [1, 1, 1]
    assert len({one.options.seed for one in starts}) == 3
    found = [run_task(one) for one in starts]
    (best,) = run_searches([search])
    assert best.errors[0] == min(one.errors[0] for one in found)
    assert best.evaluations == sum(one.evaluations for one in found)


def test_nothing_more_begins_after_an_interrupt(plant):
    begun = []

    def progress(title):
        begun.append(title)

        def told(generation, errors):
            if title == "second":
                raise KeyboardInterrupt

        return told

    options = dataclasses.replace(SHORT, generations=2)
    searches = [Search(plant, (MODEL,), options, title) for title in ("first", "second", "third")]
    found = list(run_searches(searches, progress=progress))
    assert begun == ["first", "second"]
    assert [one.interrupted for one in found] == [False, True]


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """Two joints of an arm, each alone, while the other moves as in the log."""
    pytest.importorskip("mujoco")
    path = tmp_path_factory.mktemp("arm") / "arm.xml"
    path.write_text(ARM)
    return RobotPlant(path, [recorded(1, 1.0)], dt=0.002)


def test_joints_that_do_not_disturb_each_other_are_jobs_of_their_own(arm):
    (models,) = candidates_of(arm, "pd_coulomb")
    search = Search(arm, tuple(models), dataclasses.replace(SHORT, starts=2))
    parts = search.tasks()
    assert [[task.plant.joints for task in starts] for starts in parts] == [[("shoulder",)] * 2, [("elbow",)] * 2]
    (found,) = run_searches([search])
    for starts, values, error in zip(parts, found.values, found.errors, strict=True):
        one = best_start([run_task(task) for task in starts])
        np.testing.assert_array_equal(one.values[0], values)
        assert one.errors[0] == error
        np.testing.assert_array_equal(errors_of(starts[0].plant, starts[0].models, [values[None]])[0].mean(), error)
    begin = [model.start for model in models]
    for joint, estimate in enumerate(refine_all(arm, models, begin, steps=1).estimates):
        alone = refine(arm.only(joint), models[joint : joint + 1], begin[joint : joint + 1], steps=1)
        np.testing.assert_allclose(estimate.values, alone.values, rtol=1e-6)


def test_joints_that_move_one_another_are_one_task_for_each_start(arm, tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(ARM)
    plant = RobotPlant(path, arm.runs, dt=0.002, together=True)
    (models,) = candidates_of(plant, "pd_coulomb")
    (starts,) = Search(plant, tuple(models), dataclasses.replace(SHORT, starts=2)).tasks()
    assert [task.plant.joints for task in starts] == [("shoulder", "elbow")] * 2


def test_an_interrupt_finds_all_joints_as_far(arm):
    def interrupt(generation, errors):
        assert errors.shape == (2,)
        if generation == 3:
            raise KeyboardInterrupt

    (models,) = candidates_of(arm, "pd_coulomb")
    options = dataclasses.replace(SHORT, generations=20)
    searches = [Search(arm, tuple(models), options)] * 2
    (found,) = run_searches(searches, progress=lambda title: interrupt)
    (wanted,) = run_searches([Search(arm, tuple(models), dataclasses.replace(SHORT, generations=3))])
    assert found.interrupted
    assert found.generations == 3
    for one, other in zip(found.values, wanted.values, strict=True):
        np.testing.assert_array_equal(one, other)


def test_joints_of_a_robot_are_found_on_ray_as_here(arm, workers):
    here, there = (
        fit_logs(model="pd_coulomb", plant=arm, options=SHORT, workers=each).joints for each in (None, workers)
    )
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one.values, other.values)


def test_a_fit_on_ray_finds_the_same_as_here(plant, workers):
    options = dataclasses.replace(SHORT, starts=2)
    told = []
    here = fit_models(plant, [MODEL], options)
    there = fit_models(plant, [MODEL], options, workers=workers, progress=lambda *news: told.append(news))
    np.testing.assert_array_equal(there.joints[0].values, here.joints[0].values)
    assert there.runs == here.runs
    assert there.evaluations == here.evaluations
    assert told


def test_a_selection_on_ray_chooses_the_same_as_here(plant, workers):
    fewer = MODEL.fixed("delay.delay", 0.0)
    candidates = [[dataclasses.replace(fewer, name="without delay")], [MODEL]]
    here, there = (compare(plant, candidates, SHORT, workers=each).compared for each in (None, workers))
    assert [one.chosen for one in there] == [one.chosen for one in here]
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one.by_run, other.by_run)


def test_errors_and_interrupts_reach_tasks_of_ray(plant, workers):
    bad = dataclasses.replace(MODEL, scaled_by={"controller.kp": "kp"}, settings={"kp": 1.0})
    with pytest.raises(actuon.ParameterError, match="needs the setting 'kp' of the log"):
        fit_models(plant, [bad], SHORT, workers=workers)
    result = fit_models(
        plant, [MODEL], dataclasses.replace(SHORT, generations=100_000, patience=100_000),
        workers=workers, progress=_interrupt_once(),
    )  # fmt: skip
    assert result.interrupted
    assert np.isfinite(result.error)


def _interrupt_once():
    seen = []

    def told(generation, errors):
        seen.append(generation)
        if len(seen) == 1:
            raise KeyboardInterrupt

    return told


def test_what_is_not_a_cluster_is_refused(monkeypatch):
    with pytest.raises(actuon.ParameterError, match="address: got 'slurm'; must be ray, or ray://HOST:PORT"):
        RayWorkers("slurm")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(actuon.MissingExtraError, match=r"actuon\[ray\]"):
        RayWorkers()
