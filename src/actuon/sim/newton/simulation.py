# SPDX-License-Identifier: Apache-2.0
"""`NewtonSimulation`: Newton with one or many environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import warp as wp

from ...errors import MissingExtraError
from ...typing import DeviceLike, PathLike
from ..simulation import Simulation, check_arguments, live_simulations
from .engine import NewtonEngine
from .reading import new_builder, read_robot_file
from .solvers import SolverLike, check_options, make_physics

if TYPE_CHECKING:
    from pxr import Usd

_DEFAULT_DT = 0.002


class NewtonSimulation(Simulation):
    """Newton with one or many copies of a USD stage or an MJCF model.

    A robot of a stage is named by its articulation root: its path, or ``"/World/envs/env_3/Robot"`` with several
    environments. It starts in the pose of the stage. A robot of an MJCF file is named, and starts, as in
    `MujocoSimulation`. On the CPU, MuJoCo itself steps one environment, and MuJoCo Warp several; on GPUs, MuJoCo Warp
    steps all.

    A joint of several DOFs, ``PhysicsJoint`` in USD, has one for each free axis, linear ones first: ``waist:0``,
    ``waist:1``.

    Args:
        stage_or_path: A ``Usd.Stage``, a USD file or an MJCF file.
        num_envs: Number of copies.
        dt: Time step [s]. Default: that of the file.
        device: Device of the simulation. Default: Warp's current device.
        solver: ``"mujoco"``, ``"featherstone"``, ``"semi_implicit"`` or ``"xpbd"``; or the class of such a solver;
            or a function ``make(model)`` that returns one, with any of its options.
        integrator: ``"euler"``, ``"implicitfast"`` or ``"rk4"``, of the MuJoCo solver. Default: that of the file, or
            ``"implicitfast"``.
        njmax: Most constraints in an environment, of MuJoCo Warp. Default: Newton's estimate.
        nconmax: Most contact points in an environment, of MuJoCo Warp. Default: Newton's estimate.
        graphs: Whether steps are captured in graphs and replayed, which is faster, with equal results. A graph has all
            steps of a call of `step`, motors and solver included; if MuJoCo itself steps, the time between two of its
            steps. With True, no other thread may use Warp during a step. Default: on a CPU, without other threads of
            Python.

    Examples:
        >>> with actuon.NewtonSimulation(actuon.assets.arm_usd) as simulation:
        ...     actuators = actuon.ArticulationActuators("Arm")
        ...     simulation.step(2)
        ...     print(actuators.telemetry().applied_effort.shape)
        (1, 7)
    """

    engine: NewtonEngine

    def __init__(
        self,
        stage_or_path: Usd.Stage | PathLike,
        num_envs: int = 1,
        dt: float | None = None,
        device: DeviceLike = None,
        *,
        solver: SolverLike = "mujoco",
        integrator: str | None = None,
        njmax: int | None = None,
        nconmax: int | None = None,
        graphs: bool | None = None,
    ):
        check_arguments(num_envs, dt)
        sizes = {"njmax": njmax, "nconmax": nconmax}
        check_options(solver, integrator, sizes)
        newton = import_newton()
        file = read_robot_file(newton, stage_or_path)
        builder = file.builder
        if num_envs > 1:
            builder = new_builder(newton)
            builder.replicate(file.builder, num_envs)
        place = wp.get_device(device)
        self.model = builder.finalize(device=place)
        """The ``newton.Model`` of all environments."""
        options = {"use_mujoco_cpu": place.is_cpu and num_envs == 1, "integrator": integrator, **sizes}
        physics = make_physics(newton, self.model, solver, options)
        physics.graphs = graphs
        self.solver = physics.solver
        """The solver, with its options."""
        engine = NewtonEngine(physics, file, num_envs, float(dt or file.dt or _DEFAULT_DT))
        self.state, self.control = engine.state.state, engine.state.control
        """Newton's own state and control, which the solver steps."""
        if file.stage is not None:
            from ...robot_files.usd.stage import provide_stage

            provide_stage(_current_stage)
        super().__init__(engine, file.source, file.stage)


def _current_stage() -> Usd.Stage | None:
    stages = [simulation.stage for simulation in live_simulations() if simulation.stage is not None]
    return stages[-1] if stages else None


def import_newton() -> Any:
    """Return the package ``newton``."""
    try:
        import newton
    except ImportError as error:
        raise MissingExtraError("newton", "newton", "simulating with Newton") from error
    return newton
