# SPDX-License-Identifier: Apache-2.0
"""The code of docs/guides/other_simulators.md moves a robot in each simulator as its motors and its equations say."""

from __future__ import annotations

import re
import shutil

import pytest

pytest.importorskip("pybullet", reason="make test-simulators runs it")

import numpy as np

import actuon
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/guides/other_simulators.md").read_text()
SETUP = PAGE.split("\n## ")[0]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SIMULATORS = ("PyBullet", "Drake", "SAPIEN", "Your own simulator")
ROBOT = ROOT / "tests/simulators/robot.urdf"

MASS, LENGTH, INERTIA = np.array([1.5, 2.5]), np.array([0.2, 0.1]), np.array([0.02, 0.01])
PEAK = 22.0  # of an AK80-9 [N·m]


def code(section: str, language: str) -> str:
    return "\n".join(text for kind, text in BLOCK.findall(section) if kind == language)


def run(simulator: str, folder, monkeypatch) -> tuple[dict, list[np.ndarray]]:
    """Run a section after the page's beginning; return its variables, and positions, velocities and efforts by step."""
    shutil.copy(ROBOT, folder)
    (folder / "robot.actuon.yaml").write_text(code(SETUP, "yaml"))
    monkeypatch.chdir(folder)
    steps, step = [], actuon.Motors.step

    def recorded(motors, q, qd, *arguments, **options):
        effort = step(motors, q, qd, *arguments, **options)
        steps.append([np.array(values, np.float64) for values in (q, qd, effort)])
        return effort

    with monkeypatch.context() as patch:
        patch.setattr(actuon.Motors, "step", recorded)
        variables: dict = {}
        section = next(text for text in PAGE.split("\n## ") if text.startswith(simulator))
        exec(code(SETUP, "python") + code(section, "python"), variables)
    return variables, [np.array(values) for values in zip(*steps, strict=True)]


@pytest.mark.filterwarnings("ignore")  # of the simulators
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_the_robot_moves_as_its_motors_and_its_equations_say(simulator, tmp_path, monkeypatch):
    variables, (q, qd, effort) = run(simulator, tmp_path, monkeypatch)
    target, dt, motors = (variables[name] for name in ("target", "dt", "motors"))

    reference = actuon.Motors("robot.urdf", variables["names"])
    expected = [reference.step(*state, target, dt=dt) for state in zip(q, qd, strict=True)]
    np.testing.assert_allclose(effort, expected, atol=2e-4)  # [N·m]; positions of SAPIEN have 32 bits

    position, velocity, path = np.zeros(2), np.zeros(2), []
    for now in effort:
        path.append(position)
        weight = MASS * 9.81 * LENGTH * np.sin(position)
        velocity = velocity + dt * (now - weight) / (INERTIA + MASS * LENGTH**2 + motors.armature)
        position = position + dt * velocity
    np.testing.assert_allclose(q, path, atol=1e-4)  # [rad]

    assert np.isclose(np.abs(effort).max(), PEAK, rtol=1e-3)
    assert (np.isclose(np.abs(effort), PEAK, rtol=1e-3).sum(axis=0) > 5).all()
    assert np.abs(q[-1] - target).max() < 0.06  # held against gravity
