# SPDX-License-Identifier: Apache-2.0
"""`MujocoSimulation`: MuJoCo with one or many environments."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mujoco

from ...typing import IdsLike
from ..simulation import Simulation, check_arguments
from .engine import MujocoEngine
from .model import ModelFields, find_keyframe, load_model, spec_reader


class MujocoSimulation(Simulation):
    """MuJoCo with one or many copies of an MJCF or URDF model.

    A robot is named by its root body: ``"/base"``, or ``"/World/envs/env_3/base"`` with several environments. Targets
    are the ``ctrl`` of a joint's servos, or of the servo of its tendon. Efforts are written to ``qfrc_applied``.

    All cores step the environments, with the results of plain ``mj_step``, warm starts included, to the last bit.

    Args:
        path_or_model: An ``.xml`` or ``.urdf`` file, or an ``MjModel`` or ``MjSpec``, which is copied.
        num_envs: Number of copies.
        dt: Time step [s]. Default: the model's.
        keyframe: Name or number of the keyframe to start at. Default: ``home`` if the model has it, otherwise the
            model's initial state.

    Examples:
        >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2) as simulation:
        ...     robots = actuon.Articulation("link0")
        ...     simulation.step(5)
        ...     print(simulation.dt, robots.get_dof_positions().shape)
        0.002 (2, 7)
    """

    engine: MujocoEngine

    def __init__(
        self,
        path_or_model: str | Path | mujoco.MjModel | mujoco.MjSpec,
        num_envs: int = 1,
        dt: float | None = None,
        *,
        keyframe: str | int | None = None,
    ):
        check_arguments(num_envs, dt)
        model = load_model(path_or_model, dt)
        source = Path(path_or_model) if isinstance(path_or_model, (str, Path)) else None
        where = f"'{source}'" if source else "the model"
        start = find_keyframe(model, keyframe, where)
        engine = MujocoEngine(ModelFields(model, num_envs, where), spec_reader(path_or_model), start)
        super().__init__(engine, source)

    @property
    def models(self) -> Sequence[mujoco.MjModel]:
        """The ``MjModel`` of each environment: the shared one, or a copy if the environment differs.

        All environments have the same options, the time step included: if you write to those of any model, they act at
        the next step.
        """
        return _Each(self.num_envs, self.engine.fields.show)

    @property
    def data(self) -> Sequence[mujoco.MjData]:
        """The ``MjData`` of each environment, with its contacts and sensors, also for a viewer.

        After the first access it is kept in sync: you can read from it and write to it. Access only what you need: each
        takes as much memory as hundreds of environments without one.
        """
        self.engine.fields.is_shown = True  # by its attribute ``model``
        return _Each(self.num_envs, self.engine.state.batch.data)

    def reset(self, env_ids: IdsLike = None, *, keyframe: str | int | None = None) -> None:
        """Return environments to their first state, or to a keyframe. The others are not changed.

        Args:
            env_ids: Which environments: whole numbers, a slice or a mask. Default: all, which also resets the time.
            keyframe: Name or number of a keyframe for this reset. Default: the start of the simulation.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2) as simulation:
            ...     simulation.step(10)
            ...     simulation.reset(env_ids=[1], keyframe="home")
            ...     print([round(data.time, 3) for data in simulation.data])
            [0.02, 0.0]
        """
        with self.engine.state.starting_at(keyframe):
            super().reset(env_ids)


class _Each(Sequence[Any]):
    """Objects of environments, created at the first access."""

    def __init__(self, count: int, get: Callable[[int], Any]):
        self._count, self._get = count, get

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, env: Any) -> Any:
        if isinstance(env, slice):
            return [self._get(i) for i in range(*env.indices(self._count))]
        place = operator.index(env)
        if not -self._count <= place < self._count:
            raise IndexError(f"environment {place}: there are {self._count}")
        return self._get(place % self._count)
