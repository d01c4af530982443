# SPDX-License-Identifier: Apache-2.0
"""Charts of the page, and the form in which uPlot takes them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from actuon.charts import (
    GREEN,
    IDEAL,
    REAL,
    Chart,
    Mark,
    area,
    bars,
    dots,
    draw_chart,
    line,
    name_curves,
    pyplot,
    to_uplot,
)
from actuon.robot_source import find_source
from actuon.studio.analyses import envelope_of
from actuon.studio.motion import SINE, Motion
from actuon.studio.plots import Plots, joint_charts, log_charts, spectrum
from actuon.studio.replay import Replayed
from actuon.studio.session import Session


def test_the_spectrum_shows_what_vibrates():
    time = np.arange(2000) * 0.002
    frequency, amplitude = spectrum(3.0 + 0.5 * np.sin(2 * np.pi * 60.0 * time), 0.002)
    assert frequency[amplitude.argmax()] == pytest.approx(60.0, abs=1.0)
    assert amplitude.max() == pytest.approx(0.5, rel=0.05)


@pytest.fixture(scope="module")
def drawn():
    """Charts of a motor that is clipped, its past, and its envelope."""
    with Session(find_source("ak80-9")) as motor:
        motor.set_motion(Motion(SINE, (0,), amplitude=1.0, frequency=8.0, names=motor.dof_names))
        motor.advance(2.0)
        window = motor.history.window(0, 4.0, motor.real.dt)
        envelope = envelope_of(motor.real.configs["motor"])
        return (
            joint_charts(window, [("ideal", IDEAL, window)], envelope, motor.real.dt, ("rad", "N·m")),
            window,
            envelope,
        )


def test_charts_of_a_joint(drawn):
    charts, window, envelope = drawn
    assert list(charts)[:5] == ["plane", "position", "effort", "spectrum", "current"]
    assert charts["plane"].x_label == "velocity [rad/s]"
    assert charts["plane"].y_range[1] > envelope.most.max()
    np.testing.assert_array_equal(charts["plane"]["motor envelope"].spread, (envelope.least, envelope.most))
    position = charts["position"]["position"]
    assert -4.0 <= position.x[0] < position.x[-1] <= 0.0
    assert len(position.x) < len(window.time)
    assert np.ptp(position.y) == np.ptp(window.position)
    clipped = charts["effort"]["clipped"].y
    assert 0 < np.isfinite(clipped).sum() < len(clipped)
    assert np.isin(clipped[np.isfinite(clipped)], window.applied[window.limit >= 0]).all()
    assert [each.label for each in charts["position"].series] == ["target", "ideal", "position"]


def test_curves_of_other_motors_have_the_name_and_the_colour_of_their_robot(drawn):
    _, window, envelope = drawn
    later = dataclasses.replace(window, applied=10.0 * window.applied)
    others = [("b.yaml", GREEN, later), ("c.yaml", IDEAL, window)]
    charts = joint_charts(window, others, envelope, 0.002, ("rad", "N·m"))
    for name, chart in charts.items():
        assert (chart["b.yaml"].colour, chart["c.yaml"].colour) == (GREEN, IDEAL), name
    np.testing.assert_array_equal(charts["current"]["c.yaml"].y, charts["current"]["current"].y)
    np.testing.assert_array_equal(charts["position"]["b.yaml"].y, charts["position"]["position"].y)
    assert charts["effort"]["b.yaml"].y.max() <= 2.0 * np.abs(window.applied).max()
    assert charts["spectrum"]["b.yaml"].y.max() == pytest.approx(10.0 * charts["spectrum"]["amplitude"].y.max())
    without = dataclasses.replace(window, signals={})
    charts = joint_charts(window, [("b.yaml", GREEN, without)], envelope, 0.002, ("rad", "N·m"))
    assert "b.yaml" not in [each.label for each in charts["current"].series]


def test_no_gap_of_a_line_spoils_an_axis(drawn):
    for name, chart in drawn[0].items():
        settings = to_uplot(chart)
        (x, *columns), (_, *series) = settings["data"], settings["series"]
        assert (np.diff(x) > 0.0).all()
        for values, each in zip(columns, series, strict=True):
            assert values.dtype == np.float64
            assert values.shape == x.shape
            is_fitted = "range" not in settings["scales"]["y"] and each.get("auto", True)
            assert np.isfinite(values).all() or not is_fitted, name


def test_series_of_different_x_share_one():
    curve = line("curve", [0.0, 1.0, 2.0], [0.0, 1.0, 4.0])
    cloud = dots("cloud", [1.5, 0.5, 3.0], [7.0, np.nan, 9.0])
    between = area("area", [0.0, 2.0], [-1.0, -3.0], [1.0, 3.0])
    settings = to_uplot(Chart("x", "y", [curve, cloud, between], marks=[Mark("y", 5.0)], y_range=(-9.0, 9.0)))
    x, high, low, along, marked, straight = settings["data"]
    assert settings["bands"][0]["series"] == (1, 2)
    assert x.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 3.0]
    np.testing.assert_allclose(high, [1.0, 1.5, 2.0, 2.5, 3.0, np.nan])
    np.testing.assert_allclose(low, -high)
    np.testing.assert_allclose(along, [0.0, 0.5, 1.0, 2.5, 4.0, np.nan])
    np.testing.assert_allclose(marked, [np.nan, np.nan, np.nan, 7.0, np.nan, 9.0])
    np.testing.assert_allclose(straight, 5.0)
    _, held, _ = to_uplot(Chart("x", "y", [curve, cloud]))["data"]
    np.testing.assert_allclose(held, [0.0, 0.5, 1.0, 2.5, 4.0, 4.0])


@pytest.mark.parametrize(
    ("series", "message"),
    [
        (line("back", [0.0, 2.0, 1.0], [0.0, 0.0, 0.0]), "'back': the x of a curve must ascend for uPlot; draw dots"),
        (
            bars("bars", [0.0, 1.0], [1.0, 2.0]),
            "'y': bars, spans and names of values or places are drawn by Matplotlib only",
        ),
    ],
)
def test_what_uplot_cannot_draw_is_refused(series, message):
    with pytest.raises(ValueError, match=message):
        to_uplot(Chart("x", "y", [series]))


@pytest.mark.parametrize(("is_log", "digits"), [(False, [123.46, 0.0]), (True, [123.5, 0.0001235])])
def test_values_have_few_digits(is_log, digits):
    curve = line("a", [0.0, 1.0], [123.456789, 0.000123456])
    assert to_uplot(Chart("x", "y", [curve], y_log=is_log))["data"][1].tolist() == digits


class Page:
    """A viser server that keeps the charts it is told to show."""

    def __init__(self):
        self.gui, self.shown = self, []

    def add_uplot(self, data, **settings):
        self.shown.append(Handle(self, data, settings))
        return self.shown[-1]

    def atomic(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


class Handle:
    def __init__(self, page, data, settings):
        self.__dict__.update(page=page, changed=[], **settings, data=data)

    def __setattr__(self, name, value):
        self.changed.append(name)
        self.__dict__[name] = value

    def remove(self):
        self.page.shown.remove(self)


def test_new_values_change_the_data_alone_so_that_a_zoom_stays():
    page = Page()
    plots = Plots(page, page)

    def chart(count, label="y [rad]"):
        return Chart("x", label, [line("a", np.arange(count), np.arange(count))])

    plots.show({"one": chart(3), "two": chart(3)})
    one, two = page.shown
    plots.show({"one": chart(5), "two": chart(5, "y [m]")})
    assert one.changed == ["data"]
    assert two.changed == ["data", "axes"]
    assert len(one.data[0]) == 5
    plots.show({"one": chart(5), "two": chart(5, "y [m]")})  # as while the robot is paused
    assert one.changed == ["data"]
    plots.show({"two": chart(5)})
    assert page.shown == [two]


def test_charts_of_a_log_name_their_units():
    time = np.linspace(0.0, 2.0, 1001)
    joint = Replayed("knee", time, None, np.sin(time), np.sin(time) + 0.002)
    main, error = log_charts(joint, ("m", "mm")).values()
    assert (main["recorded"].colour, main["simulated"].colour) == (REAL, IDEAL)
    assert main.y_label == "knee [m]"
    assert error.y_label == "error [mm]"
    np.testing.assert_allclose(error.series[0].y, 2.0)


def test_a_chart_in_matplotlib(drawn):
    plane = drawn[0]["plane"]
    figure, axes = pyplot().subplots()
    draw_chart(axes, plane)
    name_curves(figure, [(axes, plane)])
    assert axes.get_xlim() == plane.x_range
    names = [text.get_text() for text in axes.texts or axes.get_legend().get_texts()]
    assert names == ["motor envelope", "ideal", "path", "clipped", "now"]
    pyplot().close(figure)
