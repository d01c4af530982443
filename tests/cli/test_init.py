# SPDX-License-Identifier: Apache-2.0
"""`actuon init`: what it writes moves the robot as the robot's own servos do, also where explicit efforts diverge."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from tests.support.command_line import command
from tests.support.paths import DATA

mujoco = pytest.importorskip("mujoco")
STIFF = """<mujoco><option timestep="0.002" integrator="implicitfast"/><worldbody><body>
<joint name="shoulder" axis="0 1 0" range="-2 2"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
<body pos=".3 0 0"><joint name="wrist" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .1 0 0" size=".01"/>
</body></body></worldbody><actuator>
<position name="shoulder" joint="shoulder" kp="300" kv="20"/><position name="wrist" joint="wrist" kp="500" kv="50"/>
</actuator></mujoco>"""


def moved(model, steps=500):
    data = mujoco.MjData(model)
    data.ctrl[: model.nu] = 0.0
    data.qvel[:] = 0.3
    for _ in range(steps):
        mujoco.mj_step(model, data)
    return data.qpos


def assert_moves_as_before(path):
    command("init", path)
    own = mujoco.MjModel.from_xml_path(str(path))
    np.testing.assert_allclose(moved(actuon.mujoco.load(path)), moved(own), atol=1e-5)


def test_unstable_gains_become_implicit(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(STIFF)
    assert_moves_as_before(path)
    entries = actuon.load_actuators(path.with_suffix(".actuon.yaml"))
    assert {entry.joints: entry.actuator.effort_mode for entry in entries}[("wrist",)] == "auto"
    assert actuon.check(path).stable


@pytest.mark.parametrize("name", ["franka_emika_panda", "kinova_gen3", "universal_robots_ur5e", "unitree_g1"])
def test_public_robots(name, tmp_path):
    if not (DATA / "robots").is_dir():
        pytest.skip("the public robots are not here")
    path = tmp_path / f"{name}.xml"
    path.write_text((DATA / f"robots/{name}.xml").read_text())
    assert_moves_as_before(path)
