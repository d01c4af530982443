# SPDX-License-Identifier: Apache-2.0
"""Saved states: steps continue from them, and files of other versions are refused."""

from __future__ import annotations

import io

import numpy as np
import pytest

import actuon
from scripts import state_files

AFTER = (state_files.STEPS_BEFORE, state_files.STEPS_BEFORE + state_files.STEPS_AFTER)


FOLDER = state_files.FOLDER / "version_1"


@pytest.fixture(scope="module")
def expected():
    """Efforts and states of the steps after the files were written."""
    with np.load(FOLDER / state_files.EXPECTED) as arrays:
        return dict(arrays)


def assert_close(found, expected):
    """Up to what compilers and engines may round differently."""
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", state_files.ACTUATORS)
def test_an_actuator_goes_on_from_its_file(name, expected):
    actuator = state_files.build(name)
    state = actuator.load_state(FOLDER / f"{name}.npz")
    assert_close(state_files.run(actuator, state, *AFTER), expected[f"{name}/efforts"])
    fresh = state_files.run(actuator, actuator.state(), *AFTER)
    assert np.abs(fresh - expected[f"{name}/efforts"]).max() > 1e-2  # so the file matters


@pytest.mark.parametrize("name", state_files.ATTACHED)
def test_robots_go_on_from_the_file_of_their_actuators(name, expected):
    pytest.importorskip("mujoco")
    with state_files.simulation() as simulation:
        attached = state_files.ATTACHED[name](simulation)
        attached.load_state(FOLDER / f"{name}.npz")
        attached.articulation.set_dof_positions(expected[f"{name}/start"])
        attached.articulation.set_dof_velocities(expected[f"{name}/speed"])
        efforts, positions = state_files.drive(attached, *AFTER)
    assert_close(efforts, expected[f"{name}/efforts"])
    assert_close(positions, expected[f"{name}/positions"])


@pytest.mark.parametrize("code", [0x110000, 0xFFFFFFFB, 0xD800])
def test_a_description_with_characters_that_do_not_exist_is_refused(code, tmp_path):
    actuator, path = state_files.build("late"), tmp_path / "state.npz"
    actuator.state().save(path)
    with np.load(path) as file:
        contents = dict(file)
    structure = contents["__structure__"]
    structure.view(np.uint32)[0] = code
    np.savez(path, **contents)
    with pytest.raises(actuon.StateError, match=r"state\.npz' is not the state of an actuator"):
        actuator.load_state(path)


def test_every_file_is_read_by_a_test():
    names = {path.stem for path in FOLDER.glob("*.npz")}
    assert names == {*state_files.ACTUATORS, *state_files.ATTACHED, "expected"}


OTHER_VERSIONS = {"none": None, "an earlier one": 0, "a later one": 2, "text": "one", "several": [1, 1]}


@pytest.mark.parametrize("version", OTHER_VERSIONS.values(), ids=OTHER_VERSIONS)
def test_files_say_their_version_and_those_of_another_one_are_refused(version, tmp_path):
    actuator, path = state_files.build("late"), tmp_path / "state.npz"
    actuator.state().save(path)
    with np.load(path) as file:
        contents = dict(file)
    assert contents.pop("__version__") == 1
    np.savez(path, **contents, **({} if version is None else {"__version__": np.array(version)}))
    with pytest.raises(actuon.StateError, match=r"state\.npz': got (no )?version.*; this Actuon reads version 1"):
        actuator.load_state(path)


def test_robots_refuse_files_of_another_version(tmp_path):
    pytest.importorskip("mujoco")
    path = tmp_path / "state.npz"
    with state_files.simulation() as simulation:
        attached = state_files.ATTACHED["groups_on_robots"](simulation)
        attached.save_state(path)
        with np.load(path) as file:
            contents = dict(file)
        np.savez(path, **contents | {"__version__": np.array(5)})
        with pytest.raises(actuon.StateError, match="got version 5; this Actuon reads version 1"):
            attached.load_state(path)


def rewritten(path, **changes):
    """Change arrays of a file."""
    with np.load(path) as file:
        contents = dict(file)
    np.savez(path, **contents | {name: change(contents[name].copy()) for name, change in changes.items()})


def first(value):
    """A change of the first entry of an array."""

    def change(array):
        array.flat[0] = value
        return array

    return change


def remembered(state):
    return {name: array.numpy().copy() for name, array in state.arrays().items()}


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("late", {"0.pushes": first(-1)}, "0.pushes: is -1 at index 0; must be from 0 to 4"),
        ("late", {"0.pushes": first(5)}, "0.pushes: is 5 at index 0; must be from 0 to 4"),
        (
            "late",
            {"0.pushes": first(2)},
            "0.past: holds a value of 3 steps ago for DOF 0, where 'pushes' is 2; must be 0 there",
        ),
        ("late", {"0.past": first(np.nan)}, "0.past: is nan at index 0, 0, 0; must be finite"),
        ("late", {"0.past": lambda array: array[:, :3]}, "'0.past': got shape"),
        ("late", {"1.integral": first(np.inf)}, "1.integral: is inf at index 0; must be finite"),
        ("late", {"1.integral": lambda array: array.astype(np.float64)}, "'1.integral': got shape .* of float64"),
        ("held", {"held_effort": first(np.nan)}, "held_effort: is nan at index 0; must be finite"),
        ("held", {"clock": lambda array: array + 5}, "'clock' is .*; must be from 0 to 4"),
        ("late_in_seconds", {"1.lost": first(9)}, "1.lost: is 9 at index 0; must be from 0 to 8"),
        ("late_in_seconds", {"1.count": first(-1)}, "1.count: is -1 at index 0; must be from 0 to 2147483647"),
        ("late_in_seconds", {"0.oldest": first(-1.0)}, "0.oldest: is -1.0 at index 0; must be from 0 to inf"),
        ("late_in_seconds", {"0.oldest": first(np.nan)}, "0.oldest: is nan at index 0; must be finite"),
        ("lstm", {"0.cell": first(np.nan)}, "0.cell: is nan at index 0, 0; must be finite"),
    ],
)
def test_a_damaged_file_is_refused_and_changes_nothing(name, changes, said, tmp_path):
    actuator, path = state_files.build(name), tmp_path / "state.npz"
    state = actuator.state()
    state_files.run(actuator, state, 0, 7)
    state.save(path)
    rewritten(path, **changes)
    state_files.run(actuator, state, 7, 9)
    before = remembered(state)
    for load in (state.load, actuator.load_state):
        with pytest.raises(actuon.StateError, match=f"state.npz': {said}"):
            load(path)
    for key, values in remembered(state).items():
        np.testing.assert_array_equal(values, before[key])


OTHERS = {
    "float64": lambda array: array.astype(np.float64),
    "text": lambda array: np.full(array.shape, "one"),
    "dates": lambda array: array.astype("M8[s]"),
    "complex": lambda array: array.astype(complex),
    "records": lambda array: np.zeros(array.shape, [("a", int)]),
    "two dimensions": lambda array: np.stack([array, array]),
    "longer": lambda array: np.concatenate([array, array]),
    "empty": lambda array: array[:0],
    "a number": lambda array: array.reshape(-1)[0],
}


@pytest.mark.parametrize("name", ["late", "late_in_seconds"])
@pytest.mark.parametrize("change", OTHERS)
def test_rings_of_another_shape_or_type_are_refused(name, change, tmp_path):
    actuator, path = state_files.build(name), tmp_path / "state.npz"
    for key in ("past", "pushes"):
        path.write_bytes((FOLDER / f"{name}.npz").read_bytes())
        rewritten(path, **{f"0.{key}": OTHERS[change]})
        with pytest.raises(actuon.StateError, match=rf"state.npz': '0\.{key}': got shape .*; must be"):
            actuator.load_state(path)


def test_arrays_of_a_state_fit_any_layout_of_memory():
    """Saved by all DOFs together, taken over by robots in cells of their own, and back."""
    for name in ("late", "late_in_seconds", "motor", "held", "lstm", "springs"):
        actuator, cells = state_files.build(name), state_files.build(name, robot_dofs=1)
        state, other = actuator.state(), cells.state()
        state_files.run(actuator, state, 0, 7)
        other.from_arrays(state.to_arrays())
        expected = state_files.run(actuator, state, 7, 12)
        np.testing.assert_array_equal(state_files.run(cells, other, 7, 12), expected)
        back = actuator.state()
        back.from_arrays(other.to_arrays())
        np.testing.assert_array_equal(state_files.run(actuator, back, 12, 15), state_files.run(actuator, state, 12, 15))


@pytest.mark.parametrize("name", ["late", "late_in_seconds", "held", "motor", "lstm", "springs"])
def test_a_dof_that_diverged_is_told_before_a_file_is_written_and_forgotten_by_a_reset(name, tmp_path):
    actuator, path = state_files.build(name), tmp_path / "state.npz"
    state = actuator.state()
    state_files.run(actuator, state, 0, 6, diverged=[1])
    with pytest.raises(actuon.StateError, match=r"state: .*: is nan at index .*1; .*reset\(mask\) before you save"):
        state.save(path)
    assert not path.exists()
    state.reset(np.arange(actuator.num_actuators) == 1)
    for step in range(6, 10):  # while rings still hold what the DOF cannot look back at
        state.save(path)
        expected = state_files.run(actuator, state, step, step + 1)
        assert np.isfinite(expected).all()
        np.testing.assert_array_equal(state_files.run(actuator, actuator.load_state(path), step, step + 1), expected)


def test_files_with_changed_bytes_are_read_or_refused(tmp_path):
    actuator, path = state_files.build("late"), tmp_path / "state.npz"
    state_files.run(actuator, state := actuator.state(), 0, 7)
    state.save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for start in [0, len(whole) - 900] * 200:  # anywhere, and in the archive's table of contents
        changed = bytearray(whole)
        for at in rng.integers(start, len(whole), size=rng.integers(1, 6)):
            changed[at] = rng.integers(256)
        path.write_bytes(changed)
        try:
            read = actuator.load_state(path)
        except actuon.StateError:
            continue
        state_files.run(actuator, read, 7, 8)


@pytest.mark.parametrize(
    ("key", "change", "said"),
    [
        ("feedforward", first(np.nan), "feedforward: is nan at index 0, 0; must be finite"),
        ("group 'late'/lags", first(5), "group 'late'/lags: is 5 at index 0; must be from 0 to 4"),
        (
            "group 'late'/lags",
            lambda lags: (lags + 1) % 5,
            "'group 'late'/lags' and 'parameters/group 'late'/0.delay_steps' are one parameter, and differ",
        ),
        (
            "parameters/group 'motor'/velocity_limit",
            first(21.0),
            "'parameters/group 'motor'/velocity_limit' and 'parameters/group 'motor'/1.velocity_limit' are one",
        ),
        ("group 'late'/random", first(7), None),
        ("group 'motor'/random", lambda words: words * 2, "group 'motor'/random: is not the state of a generator"),
        ("group 'late'/0.pushes", first(9), "group 'late': 0.pushes: is 9 at index 0; must be from 0 to 4"),
    ],
)
def test_robots_refuse_damaged_files_and_change_nothing(key, change, said, tmp_path):
    pytest.importorskip("mujoco")
    path, after = tmp_path / "state.npz", tmp_path / "after.npz"
    with state_files.simulation() as simulation:
        attached = state_files.ATTACHED["groups_on_robots"](simulation)
        state_files.drive(attached, 0, 6)
        attached.save_state(path)
        before = path.read_bytes()
        rewritten(path, **{key: change})
        if said is None:  # any place of a generator is one
            attached.load_state(path)
            return
        with pytest.raises(actuon.StateError, match=f"state.npz': {said}"):
            attached.load_state(path)
        attached.save_state(after)
    with np.load(after) as found, np.load(io.BytesIO(before)) as expected:
        assert found.files == expected.files
        for name in expected.files:
            np.testing.assert_array_equal(found[name], expected[name])


def test_anything_but_arrays_is_refused_and_changes_nothing():
    actuator = state_files.build("late")
    state_files.run(actuator, state := actuator.state(), 0, 5)
    arrays = state.to_arrays()
    lists = {name: array.tolist() for name, array in arrays.items()}
    less = {name: array for name, array in arrays.items() if name != "0.past"}
    for bad, said in (
        ("x", "got str; must be a dict"),
        ({}, "is not the state"),
        (lists, "of float64; must be"),
        (less, "0.past"),
    ):
        with pytest.raises(actuon.StateError, match=said):
            state.from_arrays(bad)
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(array, arrays[name])


def test_the_state_of_no_dofs_is_saved_and_loaded(tmp_path):
    actuator = actuon.Actuator([], actuon.ControllerPID(1.0, 1.0, 1.0, 1.0), actuon.DelayConfig(2))
    state = actuator.state()
    state.save(tmp_path / "state.npz")
    assert actuator.load_state(tmp_path / "state.npz").to_arrays().keys() == state.to_arrays().keys()
