# SPDX-License-Identifier: Apache-2.0
"""One quadruped in a plain loop around ``mj_step``: loaded with motors, beside motors of MuJoCo that are given the same
efforts, and MuJoCo's own servos."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from mujoco import rollout

import actuon
import actuon.mujoco
from actuon import assets

from .gate import Gate, require_agreement
from .runner import Table, best_steps, micro, progress

STEPS = 200
"""Steps from a reset on, of which the first tenth is not timed."""
TRAJECTORIES, LENGTH = 8, 20
"""Trajectories of a rollout, and their steps."""


class Loop:
    """A loop that gives a model other controls in each step.

    Args:
        label: Its name.
        model: The model.
        controls: Of each step, shape (steps, nu).
    """

    def __init__(self, label: str, model: Any, controls: np.ndarray):
        self.label, self.model, self.controls = label, model, controls
        self.data = mujoco.MjData(model)
        self._step, self._control = mujoco.mj_step, self.data.ctrl

    def prepare(self, at: int) -> None:
        if at == 0:
            mujoco.mj_resetDataKeyframe(self.model, self.data, 0)
        self._now = self.controls[at]

    def step(self) -> None:
        self._control[:] = self._now
        self._step(self.model, self.data)

    def run(self, steps: int) -> np.ndarray:
        """Return the forces of the actuators in each step, shape (steps, nu)."""
        forces = []
        for at in range(steps):
            self.prepare(at)
            self.step()
            forces.append(self.data.actuator_force[: self.model.nu].copy())
        return np.array(forces)


class Rollouts(Loop):
    """Many trajectories in ``mujoco.rollout``, on one thread."""

    def __init__(self, label: str, model: Any, controls: np.ndarray):
        super().__init__(f"{label}, rollout", model, controls)
        kind = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)
        mujoco.mj_resetDataKeyframe(model, self.data, 0)
        start = np.zeros(mujoco.mj_stateSize(model, kind))
        mujoco.mj_getState(model, self.data, start, kind)
        self._starts = np.tile(start, (TRAJECTORIES, 1))
        self._controls = np.tile(controls[:LENGTH], (TRAJECTORIES, 1, 1))
        self._roller = rollout.Rollout(nthread=0)

    def prepare(self, at: int) -> None:
        """Each step is the same."""

    def step(self) -> None:
        self._roller.rollout(self.model, self.data, self._starts, self._controls)


def models() -> dict[str, Any]:
    """The quadruped with motors of ours, with motors of MuJoCo, and with its servos."""
    spec = mujoco.MjSpec.from_file(str(assets.quadruped_mjcf))
    servos = spec.compile()
    for actuator in spec.actuators:
        actuator.gaintype, actuator.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_NONE
        actuator.gainprm = [1.0, *[0.0] * (mujoco.mjNGAIN - 1)]
        actuator.biasprm, actuator.gear = np.zeros(mujoco.mjNBIAS), [1.0, *[0.0] * 5]
        actuator.ctrllimited = actuator.forcelimited = False
    return {"loaded": actuon.mujoco.load(assets.quadruped_mjcf), "given": spec.compile(), "servos": servos}


def contenders(steps: int) -> list[Loop]:
    """Build loops with efforts given, with motors, which must move alike to the last bit, and with servos."""
    made = models()
    home = made["servos"].key_ctrl[0]
    targets = home + np.random.default_rng(0).normal(0.0, 0.05, (steps, home.size))
    loaded = Loop("loaded", made["loaded"], targets)
    given = Loop("given", made["given"], loaded.run(steps))
    given.run(steps)
    where = f"own_loop, positions after {steps} steps"
    require_agreement(where, {each.label: each.data.qpos.astype(np.float32) for each in (given, loaded)})
    return [given, loaded, Loop("servos", made["servos"], targets)]


GATE = Gate((STEPS,), lambda row, steps: contenders(steps), smallest=10)


def measure_own_loop(seconds: float) -> list[Table]:
    progress("one robot in a plain loop")
    loops = contenders(STEPS)
    times = best_steps(loops, STEPS, seconds)[:, STEPS // 10 :, 0].mean(axis=1)
    rollouts = [Rollouts(each.label, each.model, each.controls) for each in loops]
    together = best_steps(rollouts, 1, seconds)[:, 0, 0] / (TRAJECTORIES * LENGTH)
    actuon.mujoco.unload(loops[1].model)
    rows = [
        (name, *map(micro, own), f"{own[1] / own[0]:.3f}")
        for name, own in (("mj_step", times), (f"rollout, {TRAJECTORIES} × {LENGTH}", together))
    ]
    header = ("loop", "efforts given, µs", "loaded, µs", "MuJoCo's servos, µs", "loaded ÷ given")
    title = (
        "One quadruped in a plain loop, one thread: a step of a model of actuon.mujoco.load (PD + delay + DC motor + "
        "max effort), beside\nmotors of MuJoCo that are given the same efforts, and its servos, which move otherwise; "
        "the best of each step."
    )
    return [Table(title, header, rows)]
