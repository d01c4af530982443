# SPDX-License-Identifier: Apache-2.0
"""State files of users: those of every version are read, and steps go on from them; those of later ones are refused."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from scripts import state_files

VERSIONS = pytest.mark.parametrize("version", ["unversioned", "version_1"])
AFTER = (state_files.STEPS_BEFORE, state_files.STEPS_BEFORE + state_files.STEPS_AFTER)


@pytest.fixture
def saved(version):
    """The folder of a version's files, and what was expected of the steps after."""
    folder = state_files.FOLDER / version
    with np.load(folder / state_files.EXPECTED) as expected:
        return folder, dict(expected)


def assert_close(found, expected):
    """Up to what compilers and engines may round differently."""
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@VERSIONS
@pytest.mark.parametrize("name", state_files.ACTUATORS)
def test_an_actuator_goes_on_from_its_file(name, saved):
    folder, expected = saved
    actuator = state_files.build(name)
    state = actuator.load_state(folder / f"{name}.npz")
    assert_close(state_files.run(actuator, state, *AFTER), expected[f"{name}/efforts"])
    fresh = state_files.run(actuator, actuator.state(), *AFTER)
    assert np.abs(fresh - expected[f"{name}/efforts"]).max() > 1e-2  # so the file matters


@VERSIONS
@pytest.mark.parametrize("name", state_files.ATTACHED)
def test_robots_go_on_from_the_file_of_their_actuators(name, saved):
    pytest.importorskip("mujoco")
    folder, expected = saved
    with state_files.simulation() as simulation:
        attached = state_files.ATTACHED[name](simulation)
        attached.load_state(folder / f"{name}.npz")
        attached.articulation.set_dof_positions(expected[f"{name}/start"])
        attached.articulation.set_dof_velocities(expected[f"{name}/speed"])
        efforts, positions = state_files.drive(attached, *AFTER)
    assert_close(efforts, expected[f"{name}/efforts"])
    assert_close(positions, expected[f"{name}/positions"])


@VERSIONS
def test_every_file_is_read_by_a_test(version):
    names = {path.stem for path in (state_files.FOLDER / version).glob("*.npz")}
    assert names == {*state_files.ACTUATORS, *state_files.ATTACHED, "expected"}


def test_files_say_their_version_and_those_of_a_later_one_are_refused(tmp_path):
    actuator, path = state_files.build("late"), tmp_path / "state.npz"
    actuator.state().save(path)
    with np.load(path) as file:
        contents = dict(file)
    assert contents["__version__"] == 1
    for version in (np.array(2), np.array("one")):
        np.savez(path, **contents | {"__version__": version})
        with pytest.raises(actuon.StateError, match=r"state\.npz': got version .*; this Actuon reads version 1"):
            actuator.load_state(path)


def test_robots_refuse_files_of_a_later_version(tmp_path):
    pytest.importorskip("mujoco")
    path = tmp_path / "state.npz"
    with state_files.simulation() as simulation:
        attached = state_files.ATTACHED["groups_on_robots"](simulation)
        attached.save_state(path)
        with np.load(path) as file:
            contents = dict(file)
        np.savez(path, **contents | {"__version__": np.array(2)})
        with pytest.raises(actuon.StateError, match="got version 2; this Actuon reads version 1"):
            attached.load_state(path)
