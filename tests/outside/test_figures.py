# SPDX-License-Identifier: Apache-2.0
"""Pictures of robots in the documentation."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.text import Text

from scripts import figures
from scripts.drawings import DRAWINGS
from scripts.figure_style import WIDTH, name_dot, place_labels, plot, point_out, write, write_pictures
from scripts.terminal import TERMINALS
from tests.support.paths import ROOT


@pytest.mark.parametrize("make", [figures.of_yaml, figures.of_example])
def test_groups_of_a_figure_are_all_joints_each_in_its_colour(make, monkeypatch):
    monkeypatch.chdir(ROOT)
    model, groups = make()
    joints = [joint for group in groups for joint in group.joints]
    assert sorted(joints) == sorted(model.joint(i).name for i in range(1, model.njnt))
    figures.coloured(model, groups)
    shown = {tuple(colour) for colour in model.geom_rgba[model.geom_bodyid > 0]}
    assert len(shown) == len(groups) + 1  # and the base
    for group in groups:
        bodies = [int(model.joint(name).bodyid[0]) for name in group.joints]
        assert len({tuple(colour) for colour in model.geom_rgba[np.isin(model.geom_bodyid, bodies)]}) == 1


def test_places_on_a_picture_are_where_the_camera_sees_them():
    model, _ = figures.of_yaml()
    middle = np.array(model.stat.center)
    height = np.array([0.0, 0.0, 0.1])
    places = figures.on_picture(model, np.array([middle, middle + height, middle - height, [1.0, 0.0, 0.2]]))
    np.testing.assert_allclose(places[0], [240.0, 180.0])
    np.testing.assert_allclose(places[1:3, 0], 240.0, atol=1e-9)
    assert places[1, 1] < 150.0 < 210.0 < places[2, 1]
    assert places[3, 0] > 300.0  # its head is on the right


PATHS = [folder / f"{name}.svg" for folder, pictures in figures.PICTURES.items() for name in pictures]


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_picture_of_the_scripts_is_there_as_wide_as_a_page_and_small(path):
    root = ElementTree.parse(ROOT / path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("width") == f"{0.75 * WIDTH:g}pt"
    assert (ROOT / path).stat().st_size < 150_000


def test_pictures_are_the_same_bytes_each_time(tmp_path):
    first, second = (write_pictures(DRAWINGS, tmp_path / folder) for folder in "ab")
    assert [path.name for path in first] == [f"{name}.svg" for name in DRAWINGS]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_labels_leave_curves_dots_and_each_other():
    figure, axis = plot("Title", 300)
    x = np.linspace(0.0, 10.0, 50)
    axis.plot(x, np.sin(x))
    axis.plot(dots := [2.0, 2.1, 2.2], [0.0, 0.02, 0.0], "o")
    write(axis, (5.0, np.sin(5.0)), "on the curve")
    write(axis, (5.0, np.sin(5.0)), "on it as well")
    point_out(axis, "at the edge", (7.0, np.sin(7.0)), (9.9, -1.0))
    for dot in dots:
        name_dot(axis, (dot, 0.0), f"dot {dot}", "black")
    place_labels(figure)
    edges = [Text.get_window_extent(text).extents for text in axis.texts]  # without leaders
    curve = axis.transData.transform(np.column_stack([x, np.sin(x)]))
    for i, (left, bottom, right, top) in enumerate(edges):
        assert min(left, bottom) >= 0.0
        assert (right, top) <= (figure.bbox.x1, figure.bbox.y1)
        assert not ((curve > (left, bottom)) & (curve < (right, top))).all(axis=1).any()
        assert not any(left < o[2] and o[0] < right and bottom < o[3] and o[1] < top for o in edges[:i])


def test_a_label_without_a_free_place_is_reported():
    figure, axis = plot("Title", 160)
    axis.plot(*np.random.default_rng(0).uniform(size=(2, 4000)), "o")
    write(axis, (0.5, 0.5), "nowhere to go")
    with pytest.warns(UserWarning, match="no free place for the label 'nowhere to go'"):
        place_labels(figure)


def words(svg):
    """Return the words of a picture up to the list of files, as last digits and images depend on the machine."""
    texts = ElementTree.fromstring(svg.encode()).iter("{http://www.w3.org/2000/svg}text")
    text = " ".join("".join(element.itertext()) for element in texts)
    return re.findall(r"[^\W\d]{2,}", re.split("saved|no image", text)[0])


def test_pictures_of_terminals_show_what_commands_print():
    text = (ROOT / "docs/images/terminal_check.svg").read_text(encoding="utf-8")
    assert text == TERMINALS["terminal_check"](), "run: make figures"
    for name in ("terminal_fit", "terminal_run"):
        text = (ROOT / f"docs/images/{name}.svg").read_text(encoding="utf-8")
        assert words(text) == words(TERMINALS[name]()), "run: make figures"
    for name in TERMINALS:
        root = ElementTree.parse(ROOT / f"docs/images/{name}.svg").getroot()
        texts = [" ".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
        assert texts[0].split() == ["$", *TERMINALS[name].line.split()]
        assert "url(" not in ElementTree.tostring(root, encoding="unicode")


def test_screenshots_are_small_and_the_only_bitmaps():
    pictures = sorted(ROOT.glob("docs/**/*.png"))
    assert [str(picture) for picture in pictures if not picture.name.startswith("studio")] == []
    assert [str(picture) for picture in pictures if picture.stat().st_size > 300_000] == []
