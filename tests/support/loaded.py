# SPDX-License-Identifier: Apache-2.0
"""Random models with motors in a plain loop, of `actuon.mujoco.load`, and in a `MujocoSimulation`: they move alike."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import mujoco
import numpy as np

import actuon
import actuon.mujoco

PD = actuon.PDControlConfig(30.0, 1.2)
LIMIT = actuon.MaxEffortClampingConfig(9.0)
CHAINS = {
    "pd": [PD],
    "limited": [actuon.DelayConfig(2), PD, LIMIT],
    "motor": [PD, actuon.DCMotorClampingConfig(12.0, 20.0, 10.0), actuon.FrictionEffectConfig(0.2, 0.05)],
    "jitter": [actuon.TimeDelayConfig(0.008, jitter=0.003), PD, LIMIT],
    "spread": [actuon.InterpolatedDelayConfig(delay=0.01, spread=0.002), PD],
    "noise": [PD, LIMIT, actuon.NoiseEffectConfig(0.3, 0.1, seed=4)],
    "implicit": [actuon.PDControlConfig(200.0, 8.0)],
}
"""Stages of motors: few, as each is compiled. Implicit ones have no limit, beyond which a simulation repeats a step."""
SERVOS = (
    "",
    '<position name="{0}_servo" joint="{0}" kp="6" kv="0.2" {1}/>',
    '<motor name="{0}_servo" joint="{0}" {1}/>',
    '<general name="{0}_servo" joint="{0}" gainprm="6" biastype="affine" biasprm="0.3 -6 -0.2" {1}/>',
)
FLAGS = ("clampctrl", "gravity", "warmstart", "eulerdamp", "island", "contact", "limit", "refsafe")
INTEGRATORS = ("Euler", "implicit", "implicitfast")
KIND = mujoco.mjtState.mjSTATE_PHYSICS
ROUNDING = {True: 1e-9, False: 2e-5}
"""How far positions may be apart [rad or m]: efforts are added up in another order, and where MuJoCo clips the sum of
efforts and gravity compensation itself, limits are not rounded to 32 bits."""


@dataclass(frozen=True)
class Case:
    """A model with motors, and what is done with them."""

    mjcf: str
    configs: dict[str, actuon.ActuatorConfig]
    is_exact: bool
    """Whether limits are those of the motors alone."""
    has_noise: bool
    seed: int


def draw(seed: int, *, chains: tuple[str, ...] = tuple(CHAINS)) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)

    def maybe(text: str, share: float = 0.3) -> str:
        return text if rng.random() < share else ""

    joints = [f"j{i}" for i in range(rng.integers(1, 4))]
    chosen = [str(name) for name in rng.choice(chains, len(joints))]
    bodies, actuators, clipped = "", "", False
    for i, name in enumerate(joints):
        limit = maybe(f'actuatorfrcrange="{-rng.uniform(3, 8):.3f} {rng.uniform(3, 8):.3f}"')
        limit = limit if chosen[i] != "implicit" else ""
        compensated = maybe('actuatorgravcomp="true"')
        clipped |= bool(limit and compensated)
        more = maybe('damping="0.2"') + maybe(' frictionloss="0.1"') + maybe(' armature="0.02"')
        more += maybe(' stiffness="1.5" springref="0.2"') + maybe(' range="-0.8 0.9" limited="true"')
        slides = i > 0 and rng.random() < 0.2
        own = f'name="{"arm" if i == 0 else f"b{i}"}" pos="{0.25 * (i > 0)} 0 0"' + maybe(' gravcomp="0.8"', 0.5)
        bodies += f"""<body {own}>
        <joint name="{name}" type="{"slide" if slides else "hinge"}" axis="{"1 0 0" if slides else "0 1 0"}"
        {limit} {compensated} {more}/>
        <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.03" mass="{1.0 / (i + 1):.3f}"/>"""
        options = maybe('ctrlrange="-0.4 0.5"') + maybe(' gear="2"') + maybe(' forcerange="-6 5"')
        actuators += str(rng.choice(SERVOS)).format(name, options)
    flags = "".join(f' {flag}="disable"' for flag in FLAGS if rng.random() < 0.1)
    option = f'<option timestep="0.004" integrator="{rng.choice(INTEGRATORS)}"><flag{flags}/></option>'
    mjcf = f"""<mujoco>{option}<worldbody><geom type="plane" size="3 3 0.1" pos="0 0 -0.3"/>{bodies}
    {"</body>" * len(joints)}</worldbody><actuator>{actuators}</actuator></mujoco>"""
    configs = {
        name: actuon.ActuatorConfig(stages=CHAINS[chain], effort_mode="implicit" if chain == "implicit" else "explicit")
        for name, chain in zip(joints, chosen, strict=True)
        if rng.random() < 0.85 or name == joints[0]
    }
    return Case(mjcf, configs, not clipped, "noise" in chosen, seed)


class Pair:
    """A model of `load` and its data, beside a simulation with the same motors."""

    def __init__(self, case: Case):
        self.case, self.rng = case, np.random.default_rng(case.seed + 1)
        self.model = actuon.mujoco.load(case.mjcf, case.configs)
        self.data = mujoco.MjData(self.model)
        self.simulation = actuon.MujocoSimulation(mujoco.MjSpec.from_string(case.mjcf))
        self.nu = self.simulation.models[0].nu
        self.robots = actuon.Articulation("arm", self.simulation)
        pairs = [(config, name) for name, config in case.configs.items()]
        self.motors = actuon.ArticulationActuators.from_actuators("arm", pairs, simulation=self.simulation)
        self.resets = 0

    def close(self) -> None:
        self.simulation.close()
        actuon.mujoco.unload(self.model)

    def command(self) -> None:
        """Give both new targets."""
        controls = self.rng.uniform(-0.8, 0.8, self.nu).astype(np.float32)
        self.data.ctrl[: self.nu] = self.simulation.data[0].ctrl[: self.nu] = controls
        added = [self.model.actuator(i).name for i in range(self.nu, self.model.nu)]
        for name in self.case.configs:
            if f"{name}_position" in added:
                target = np.float32(self.rng.uniform(-0.6, 0.6))
                self.data.actuator(f"{name}_position").ctrl = target
                self.robots.set_dof_position_targets(target, dof_indices=[self.robots.dof_names.index(name)])

    def step(self, steps: int, *, held: bool = False) -> None:
        """Advance both; ``held`` sets the time back before each step of the plain loop."""
        for _ in range(steps):
            self.command()
            told = actuon.mujoco.telemetry(self.model, self.data)
            if held:
                self.data.time = 0.0
            mujoco.mj_step(self.model, self.data)
            self.simulation.step()
            self.check(told)

    def check(self, told: actuon.Telemetry) -> None:
        """Check that both are at the same place, with the same efforts in the last step."""
        its, tolerance = self.simulation.data[0], ROUNDING[self.case.is_exact]
        for name in ("qpos", "qvel"):
            ours = getattr(self.data, name)
            assert np.isfinite(ours).all()
            apart = 1.0 if name == "qpos" else 100.0
            np.testing.assert_allclose(ours, getattr(its, name), rtol=0.0, atol=apart * tolerance, err_msg=name)
        shown = self.motors.telemetry()
        columns = [shown.dof_names.index(name) for name in told.dof_names]
        held = np.array([self.case.configs[name].effort_mode == "explicit" for name in told.dof_names])
        for name, own in (("computed_effort", slice(None)), ("applied_effort", held)):  # others: that of the whole step
            ours, theirs = getattr(told, name)[0, own], getattr(shown, name)[0, columns][own]
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 + 100.0 * tolerance, err_msg=name)

    def there_and_back(self, steps: int) -> None:
        """Go back to where both were, in the plain loop without the time."""
        kept = np.zeros(mujoco.mj_stateSize(self.model, KIND))
        mujoco.mj_getState(self.model, self.data, kept, KIND)
        warm, saved = self.data.qacc_warmstart.copy(), self.simulation.save_state()
        self.step(steps)
        mujoco.mj_setState(self.model, self.data, kept, KIND)
        self.data.qacc_warmstart[:] = warm
        self.simulation.load_state(saved)

    def reset(self) -> None:
        """Begin again, with the next random numbers."""
        self.resets += 1
        mujoco.mj_resetData(self.model, self.data)
        actuon.mujoco.seed(self.model, self.data, self.resets)
        self.simulation.reset()


def check(case: Case) -> int:
    """Move both, and return the number of steps."""
    logger = logging.getLogger("actuon")
    level, pair = logger.level, None
    logger.setLevel(logging.ERROR)
    try:
        pair = Pair(case)
        pair.step(12)
        pair.step(4, held=True)
        pair.there_and_back(6)
        pair.step(6)
        if not case.has_noise:
            pair.reset()
            pair.step(8)
    finally:
        logger.setLevel(level)
        if pair is not None:
            pair.close()
    return 36
