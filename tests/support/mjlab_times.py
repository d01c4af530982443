# SPDX-License-Identifier: Apache-2.0
"""Times of actuators of mjlab's Go1, mjlab's own and ours, without physics.

Run it where mjlab is, after `make test-mjlab`:  .venv-mjlab/bin/python -m tests.support.mjlab_times
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch
from mjlab.asset_zoo.robots import get_go1_robot_cfg
from mjlab.entity import EntityArticulationInfoCfg
from mjlab.scene import Scene, SceneCfg
from mjlab.sim import Simulation, SimulationCfg

import actuon
from actuon.mjlab import ActuonActuatorCfg
from tests.attach.mjlab.test_mjlab import ALL, of_mjlab, of_ours

LAG, ROUNDS, SECONDS = 2, 15, 0.1


def of_one_file(folder, mode=None):
    """Return equal motor models in a YAML file, so that one config drives all joints."""
    entries = [
        actuon.ActuatorEntry(f"group{i}", cfg.target_names_expr, cfg.actuator) for i, cfg in enumerate(of_ours(LAG))
    ]
    actuon.save_actuators(folder / "go1.yaml", entries)
    armature = of_ours(LAG)[0].armature
    return (
        ActuonActuatorCfg(target_names_expr=ALL, actuator=folder / "go1.yaml", armature=armature, effort_mode=mode),
    )


def robot_in_scene(actuators, num_envs):
    cfg = get_go1_robot_cfg()
    cfg.articulation = EntityArticulationInfoCfg(actuators=actuators)
    scene = Scene(SceneCfg(num_envs=num_envs, entities={"robot": cfg}), "cpu")
    simulation = Simulation(num_envs, SimulationCfg(nconmax=4, njmax=40), scene.compile(), "cpu")
    scene.initialize(simulation.mj_model, simulation.model, simulation.data)
    return scene, simulation


def efforts(scene, simulation):
    """Return the efforts of motors after five commands."""
    robot = scene["robot"]
    for step in range(5):
        generator = torch.Generator().manual_seed(step)
        target = torch.randn(robot.data.joint_pos_target.shape, generator=generator)
        robot.set_joint_position_target(target)
        scene.write_data_to_sim()
        scene.update(0.002)
    motors = [actuator for actuator in scene.spec.actuators if actuator.name == actuator.target]
    by_joint = {motor.target.split("/")[-1]: motor.id for motor in motors}
    return simulation.data.ctrl[:, [by_joint[name] for name in robot.joint_names]].clone()


def duration(scene, count):
    """Of one step of all actuators [µs]."""
    start = time.perf_counter()
    for _ in range(count):
        scene.write_data_to_sim()
        scene.update(0.002)
    return (time.perf_counter() - start) / count * 1e6


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        kinds = {"mjlab": of_mjlab(LAG), "ours": of_ours(LAG), "ours, one config": of_one_file(Path(folder))}
        kinds["ours, one config, implicit"] = of_one_file(Path(folder), "implicit")
        for num_envs in (64, 1024, 4096):
            made = {kind: robot_in_scene(actuators, num_envs) for kind, actuators in kinds.items()}
            told = {kind: efforts(*place) for kind, place in made.items()}
            for kind in told:
                torch.testing.assert_close(told[kind], told["mjlab"], msg=f"{kind}: other efforts than mjlab's")
            counts = {kind: max(1, int(SECONDS * 1e6 / duration(scene, 5))) for kind, (scene, _) in made.items()}
            best = dict.fromkeys(kinds, float("inf"))
            for _ in range(ROUNDS):
                for kind, (scene, _) in made.items():
                    best[kind] = min(best[kind], duration(scene, counts[kind]))
            shown = ", ".join(f"{kind} {best[kind]:.0f} µs ({best[kind] / best['mjlab']:.2f})" for kind in kinds)
            print(f"{num_envs} robots: {shown}")


if __name__ == "__main__":
    main()
