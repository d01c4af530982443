# SPDX-License-Identifier: Apache-2.0
"""Replay of recorded motor efforts: the motion is equal, and no motor is computed.

``mujoco.batch`` takes the recorded inputs of several steps at once, and steps each robot through all of them on one
thread. That is the least that a motion costs on all cores: nothing is computed between two steps of physics.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import mujoco
import numpy as np
from mujoco.batch import Batch

import actuon
from actuon.threads import available_threads

from .runner import Repeatable

_KINDS = mujoco.mjtState
INPUTS = int(_KINDS.mjSTATE_CTRL) | int(_KINDS.mjSTATE_QFRC_APPLIED)
"""Inputs of MuJoCo at each step that motors write: efforts or their derivatives, and friction of joints."""
FRICTION = ("dof_frictionloss", "dof_damping")
"""Fields of the model that hold the dry and the viscous friction of joints."""


@dataclass
class Recording:
    """Inputs of MuJoCo in a run of an environment of N robots, from its first state on."""

    model: Any
    """A copy of the ``MjModel`` of all robots."""
    states: list[np.ndarray] = field(default_factory=list)
    """For each step of the environment, the state before it, shape (N, W)."""
    inputs: list[np.ndarray] = field(default_factory=list)
    """For each step of the environment, controls and efforts of its steps of physics, shape (N, steps, nu + nv)."""
    friction: list[np.ndarray] = field(default_factory=list)
    """For each step of the environment, the friction of joints in its steps of physics, shape (steps, 2, N, nv); empty
    where it does not change."""
    shown: list[np.ndarray] = field(default_factory=list)
    """For each step of the environment, the efforts that the simulation then shows, shape (N·nv,)."""
    retaken: float = 0.0
    """How often MuJoCo stepped or forwarded a robot beyond once for each step of physics, as a share of these."""


class Walking(Repeatable, Protocol):
    """A contender that steps an environment."""

    env: Any


def record(walker: Walking, steps: int, changes_friction: bool) -> Recording:
    """Record a run.

    Args:
        walker: Who takes it.
        steps: Number of steps of the environment.
        changes_friction: Whether motors change the friction of joints.
    """
    simulation, robots = walker.env.simulation, walker.env.robots
    model = copy.copy(simulation.models[0])
    recording = Recording(model)
    columns = np.concatenate([state_part(model, kind) for kind in (_KINDS.mjSTATE_CTRL, _KINDS.mjSTATE_QFRC_APPLIED)])
    dofs = [int(model.joint(name).dofadr[0]) for name in robots.dof_names]
    inputs: list[np.ndarray] = []
    friction: list[np.ndarray] = []
    taken = 0

    def keep(simulation: actuon.MujocoSimulation, dt: float) -> None:
        inputs.append(engine_states(simulation, model)[:, columns])
        if changes_friction:
            held = np.repeat(np.stack([getattr(model, name) for name in FRICTION])[:, None], len(robots), axis=1)
            held[..., dofs] = [values.numpy() for values in robots.get_dof_friction()]
            friction.append(held)

    subscription = simulation.subscribe(actuon.Event.POST_STEP, keep)
    with counted_steps() as count:
        for at in range(steps):
            walker.prepare(at)
            recording.states.append(engine_states(simulation, model))
            before = count()
            walker.step()
            taken += count() - before
            recording.inputs.append(np.stack(inputs, axis=1))
            recording.shown.append(simulation.arrays.joint_f.numpy().copy())
            if changes_friction:
                recording.friction.append(np.stack(friction))
            inputs.clear()
            friction.clear()
    once = sum(inputs.shape[0] * inputs.shape[1] for inputs in recording.inputs)
    recording.retaken = taken / once - 1.0
    subscription.cancel()
    return recording


def engine_states(simulation: Any, model: Any) -> np.ndarray:
    """Return the integration states of all environments, shape (N, W)."""
    return simulation.save_state().engine[:, : mujoco.mj_stateSize(model, int(_KINDS.mjSTATE_INTEGRATION))]


def state_part(model: Any, kind: Any) -> np.ndarray:
    """Return the columns of one kind of state in an integration state."""
    before = (int(kind) - 1) & int(_KINDS.mjSTATE_INTEGRATION)
    start = mujoco.mj_stateSize(model, before) if before else 0
    return np.arange(start, start + mujoco.mj_stateSize(model, int(kind)))


@contextlib.contextmanager
def counted_steps() -> Iterator[Callable[[], int]]:
    """Count how often MuJoCo steps or forwards any model inside the context. Gives a function that returns it."""
    library = ctypes.CDLL(str(next(Path(mujoco.__file__).parent.glob("libmujoco.*"))))
    calls = 0

    def call(model: int, data: int) -> None:
        nonlocal calls
        calls += 1

    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(call)
    slot = ctypes.c_void_p.in_dll(library, "mjcb_passive")  # a function of C, as mujoco.batch wants it
    slot.value = ctypes.cast(callback, ctypes.c_void_p).value
    try:
        yield lambda: calls
    finally:
        slot.value = None


class Replay:
    """Stands in for the simulation of an environment, and steps its robots as recorded.

    Args:
        simulation: The simulation of the environment, whose arrays it writes.
        recording: What MuJoCo is told.
    """

    def __init__(self, simulation: Any, recording: Recording):
        self._simulation, self._recording = simulation, recording
        self.batch = Batch(recording.model, simulation.num_envs, nthread=available_threads())
        self._fields = [self.batch.expand(name) for name in FRICTION] if recording.friction else []
        self.holds_friction = False
        """Whether friction that changes is held through the steps that are taken at once: ``mujoco.batch`` takes state
        as inputs of each step, and no fields of the model. Each step of the environment then begins as recorded.
        Else steps are taken one by one, which costs more."""
        arrays = simulation.arrays
        names = {"joint_q": "qpos", "joint_qd": "qvel"}
        shape = (simulation.num_envs, -1)
        self._copied = [
            (getattr(arrays, kind).numpy().reshape(shape), self.batch.bind(name)) for kind, name in names.items()
        ]
        self._efforts = arrays.joint_f.numpy()
        self._at = 0

    def prepare(self, at: int) -> None:
        """Get ready for the step of the environment with this number."""
        if at == 0 or self.holds_friction:
            self.batch.state[:] = self._recording.states[at]
        self._at = at

    def step(self, n: int) -> None:
        recording, at = self._recording, self._at
        inputs = recording.inputs[at]
        at_once = n if self.holds_friction or not self._fields else 1
        for first in range(0, n, at_once):
            if self._fields:
                for rows, friction in zip(self._fields, recording.friction[at][first], strict=True):
                    rows[:] = friction
            self.batch.rollout(at_once, inputs[:, first : first + at_once], INPUTS, record=())
        for shown, values in self._copied:
            shown[:] = values
        self._efforts[:] = recording.shown[at]

    def reset(self, env_ids: Any) -> None:
        self._simulation.reset(env_ids)

    def close(self) -> None:
        self._simulation.close()
