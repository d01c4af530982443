# SPDX-License-Identifier: Apache-2.0
"""A quadruped in Newton, driven by the action graph in its USD file, with a value that changes while it runs.

Run with ``python examples/03_graph.py``. The page: docs/guides/omnigraph.md.
"""

from __future__ import annotations

import actuon
from actuon.graph import GraphRunner


def main() -> None:
    actuon.quiet()  # no messages of Warp
    with actuon.NewtonSimulation(actuon.assets.quadruped_graph_usd) as simulation:
        stage = simulation.stage
        runner = GraphRunner(stage)  # sends a pulse through the graph before each step of physics
        robot = actuon.Articulation("/Quadruped")
        hips = [i for i, name in enumerate(robot.dof_names) if "hip" in name]

        # The graph adds 2 N·m to the requested efforts of the hips.
        simulation.step(250)
        leaning = robot.get_dof_positions().numpy()[0, hips]
        print("hips with  2 N·m of feedforward [rad]:", leaning.round(3))
        assert leaning.mean() > 0.02

        # Values are read from the stage at each pulse. The session layer does not change the file.
        stage.SetEditTarget(stage.GetSessionLayer())
        stage.GetPrimAtPath("/ActionGraph/effort").GetAttribute("inputs:value").Set(-2.0)
        simulation.step(250)
        leaning = robot.get_dof_positions().numpy()[0, hips]
        print("hips with -2 N·m of feedforward [rad]:", leaning.round(3))
        assert leaning.mean() < -0.02

        assert runner.errors == {}
        runner.close()  # restores the engine's drives


if __name__ == "__main__":
    main()
