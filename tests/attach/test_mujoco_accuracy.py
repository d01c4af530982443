# SPDX-License-Identifier: Apache-2.0
"""Explicit PD with a robot's own gains and limits, beside MuJoCo's own servos, on public robots, under Euler."""

from __future__ import annotations

import copy

import mujoco
import numpy as np
import pytest

import actuon
from actuon import Articulation, MujocoSimulation
from actuon.lab import ActuatorGroups, IdealPDActuatorCfg, ImplicitActuatorCfg, Uniform
from tests.support.paths import PUBLIC

pytest.importorskip("torch")

SHIPPED = {"arm": actuon.assets.arm_mjcf, "quadruped": actuon.assets.quadruped_mjcf}
PUBLIC_NAMES = (
    "franka_emika_panda",
    "kinova_gen3",
    "shadow_hand",
    "unitree_g1",
    "universal_robots_ur5e",
    "agility_cassie",
    "robotiq_2f85",
    "unitree_go2",
    "unitree_h1",
)
TOO_STIFF = {"franka_emika_panda": 50, "kinova_gen3": 20}
"""Robots whose gains an explicit step cannot hold, so that rounding grows, and for how many steps they are compared."""
STEPS = 120


def spec_of(name):
    path = SHIPPED.get(name) or PUBLIC / f"{name}.xml"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    spec = mujoco.MjSpec.from_file(str(path))
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    return spec


def moved(spec, cfg, columns=None):
    """Positions over time of a robot that is told random targets, some of them beyond ranges and limits."""
    with MujocoSimulation(spec, keyframe=0 if len(spec.keys) else None) as simulation:
        robots = Articulation(simulation.robots[0].name)
        if columns is None:
            columns = np.flatnonzero(robots.get_dof_gains()[0].numpy()[0])
        names = [robots.dof_names[column] for column in columns]
        kept = ActuatorGroups(robots, {"all": cfg(names)}) if cfg is not None else None
        rng, start = np.random.default_rng(1), robots.get_dof_positions().numpy()[:, columns]
        positions = []
        for step in range(STEPS):
            if step % 20 == 0:
                targets = start + rng.uniform(-1.0, 1.0, start.shape)
                robots.set_dof_position_targets(targets, dof_indices=columns)
            simulation.step()
            positions.append(robots.get_dof_positions().numpy()[0])
        assert kept is None or kept.telemetry().applied_effort.any()
        return np.array(positions)


@pytest.mark.parametrize("name", [*SHIPPED, *PUBLIC_NAMES[:5]])
def test_explicit_pd_with_a_robots_own_gains_and_limits_follows_its_servos(name):
    spec = spec_of(name)
    servo = moved(spec, None)
    explicit = moved(spec, lambda names: IdealPDActuatorCfg(joint_names_expr=names, stiffness=None, damping=None))
    assert np.isfinite(explicit).all()
    compared = TOO_STIFF.get(name, STEPS)
    np.testing.assert_allclose(explicit[:compared], servo[:compared], atol=1e-5)


@pytest.mark.parametrize("name", PUBLIC_NAMES[5:])
def test_a_drive_that_is_added_is_the_explicit_pd_up_to_the_motors_limits(name):
    spec = spec_of(name)
    with MujocoSimulation(spec) as simulation:
        robots = Articulation(simulation.robots[0].name)
        limits = robots.get_dof_max_efforts().numpy()[0]
        columns = np.flatnonzero(np.isfinite(limits))
        assert len(columns)
    gains = {"stiffness": 3.0 * limits[columns].min(), "damping": 0.02 * limits[columns].min()}
    runs = [
        moved(spec, lambda names, cfg=cfg: cfg(joint_names_expr=names, **gains), columns)
        for cfg in (IdealPDActuatorCfg, ImplicitActuatorCfg)
    ]
    np.testing.assert_allclose(*runs, atol=1e-5)


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_implicit_groups_drive_every_robot_and_leave_its_model_as_it_was(name):
    with MujocoSimulation(spec_of(name), num_envs=9) as simulation:
        before = copy.copy(simulation.models[0])
        robots = Articulation(simulation.robots[0].name)
        cfg = ImplicitActuatorCfg(
            joint_names_expr=[".*"], stiffness=20.0, damping=1.0, armature=0.1, effort_limit_sim=9.0
        )
        with ActuatorGroups(robots, {"all": cfg}) as groups:
            robots.set_dof_position_targets(robots.get_dof_positions())
            groups["all"].randomize("stiffness", Uniform(0.9, 1.1))
            simulation.step(10)
            assert (robots.get_dof_gains()[0].numpy() > 0.0).all()
        simulation.step()
        for field in (field for field in dir(before) if not field.startswith("_")):
            values = getattr(before, field)
            if isinstance(values, np.ndarray):
                np.testing.assert_array_equal(getattr(simulation.models[8], field), values, err_msg=field)
