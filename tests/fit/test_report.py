# SPDX-License-Identifier: Apache-2.0
"""The report of a fit: charts as data, and pictures and Markdown that show them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from actuon.fit import FitResult, KnownLoadPlant, SearchOptions, fit_logs
from actuon.fit.excite import ExcitationOptions, Limits, excite
from actuon.fit.report import excitation_grid, models_chart, motion_grid, residual_grid, runs_chart, write_report
from tests.fit.test_search import DT, MODEL, made_log, truth


@pytest.fixture(scope="module")
def plant():
    logs = [dataclasses.replace(made_log(truth(2), seed), path=f"logs/run_{seed}.csv") for seed in range(3)]
    return KnownLoadPlant(logs, dt=DT)


@pytest.fixture(scope="module")
def result(plant) -> FitResult:
    options = SearchOptions(seed=1, starts=1, population=8, generations=3)
    return fit_logs(plant=plant, select=[MODEL], options=options)


def test_charts_show_runs_by_name_and_model_minus_log(plant, result):
    residuals = [run[0, :, 0] for run in plant.residuals(result.trials(plant))]
    motion = motion_grid(plant.runs, "joint", residuals).charts
    assert [chart.title.split(".csv")[0] for chart in motion] == ["run_0", "run_1", "run_2", "", "", ""]
    for chart, below, run, residual in zip(motion[:3], motion[3:], plant.runs, residuals, strict=True):
        assert chart.labels == ["command", "log", "model"]
        np.testing.assert_array_equal(chart["log"].y, run.joints[0].position)
        np.testing.assert_allclose(chart["model"].y - chart["log"].y, residual)
        assert below.y_label == "model − log [mrad]"
        np.testing.assert_array_equal(below.series[0].y, 1e3 * residual)
        assert chart.title.endswith(f"{1e3 * np.abs(residual).mean():.1f} mrad")
    over_velocity, over_position, histogram = residual_grid(plant.runs, "joint", residuals).charts
    for chart in (over_velocity, over_position):
        assert chart.y_label == "model − log [mrad]"
        assert np.isin(chart.series[0].y, 1e3 * np.concatenate(residuals)).all()
    assert histogram.series[0].y.sum() == sum(map(len, residuals))

    runs = runs_chart(result, "joint")
    assert list(runs.y_ticks.values()) == ["run_0.csv", "run_1.csv", "run_2.csv"]
    np.testing.assert_allclose(runs["fitted"].x, [1e3 * run.error for run in result.runs])
    np.testing.assert_allclose(runs["held out"].x, [1e3 * run.held_out for run in result.runs])
    assert list(runs.y_ticks) == list(runs["fitted"].y)
    models = models_chart(result.compared)
    assert list(models.x_ticks.values()) == [f"{MODEL.name}\n{len(MODEL.parameters)} free"]
    assert models["held out"].y[0] == pytest.approx(1e3 * result.held_out)


def test_windows_of_a_log_are_one_run_and_metres_are_shown_in_mm(result):
    (first, *_) = result.runs
    windows = [dataclasses.replace(first, error=error, held_out=None) for error in (0.001, 0.003)]
    verdicts = tuple(dataclasses.replace(verdict, unit="m") for verdict in result.verdicts)
    chart = runs_chart(dataclasses.replace(result, runs=tuple(windows), verdicts=verdicts), "joint")
    np.testing.assert_allclose(chart["fitted"].x, [2.0])
    assert chart.labels == ["fitted"]
    assert chart.x_label == "mean absolute error [mm]"


def test_a_report_has_all_pictures_and_the_verdict(plant, result, tmp_path):
    text = write_report(result, plant, tmp_path / "report").read_text()
    for name in ("joint_motion.png", "joint_residuals.png", "joint_runs.png", "models.png"):
        assert f"({name})" in text
        assert (tmp_path / "report" / name).stat().st_size > 1000
    assert result.verdicts[0].sentence() in text


def test_a_motion_to_record_is_shown_with_its_limits():
    limits = Limits(-1.0, 1.0, speed=8.0)
    options = ExcitationOptions(seconds=2.0, generations=1, seed=3)
    found = excite("joint", MODEL, MODEL.start, limits, {"mass": 0.5, "length": 0.1}, options)
    position, intervals, velocity, effort = excitation_grid(found, limits).charts
    np.testing.assert_array_equal(position["command"].y, found.command)
    np.testing.assert_array_equal(position["predicted"].y, found.position)
    assert [[mark.value for mark in chart.marks] for chart in (position, velocity, effort)] == [[-1, 1], [-8, 8], []]
    assert list(intervals.y_ticks.values()) == [one.path for one in found.parameters]
    np.testing.assert_allclose(intervals.series[0].x, [100.0 * one.narrower for one in found.parameters])
