# SPDX-License-Identifier: Apache-2.0
"""Simulations that are saved in one process and go on in another.

``python -m tests.support.saved_runs FOLDER CASE...`` is the other: it loads ``CASE.npz``, saves it again as
``CASE.again.npz``, goes on, and writes what it found to ``CASE.found.npz``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import warp as wp

import actuon
from actuon import lab
from actuon.declare.parameters import Number, Parameters, param
from actuon.sim.newton.adjoints import leave_out_adjoints
from scripts.state_files import NETWORKS
from tests.support.remembered import remembered

ASSETS = actuon.assets.FOLDER
STEPS = 50
"""Steps before a simulation is saved, and after."""


class Payload(Parameters):
    gain: Number = param("1", "Share of the payload that is added.", default=1.0)


@wp.func
def payload_law(effort: float, custom_payload: float, gain: float):
    return effort + gain * custom_payload


class EffectPayload(Payload, actuon.Effect):
    """Adds what the user sets as the custom input ``payload``."""

    law = payload_law
    OPTIONAL_INPUTS = ("payload",)


@wp.kernel
def _add_steps(steps: wp.array(dtype=float), forces: wp.array(dtype=float), gain: float):
    i = wp.tid()
    forces[i] = gain * wp.sin(0.1 * steps[i])


@wp.kernel
def _count(source: wp.array(dtype=float), target: wp.array(dtype=float)):
    i = wp.tid()
    target[i] = source[i] + 1.0


class ControllerSwing(actuon.Controller):
    """Counts its steps by a kernel of its own, and swings with them."""

    @dataclass
    class State(actuon.Controller.State):
        steps: wp.array

    def __init__(self, gain):
        self.gain = gain

    @classmethod
    def resolve_arguments(cls, args):
        return {"gain": float(args["gain"])}

    def is_stateful(self):
        return True

    def state(self, num_actuators, device):
        return self.State(wp.zeros(num_actuators, dtype=wp.float32, device=device))

    def compute(self, positions, velocities, target_pos, target_vel, feedforward, pos_indices, vel_indices,
                target_pos_indices, target_vel_indices, forces, state, dt, device=None):  # fmt: skip
        wp.launch(_add_steps, len(forces), [state.steps], [forces, self.gain], device=device)

    def update_state(self, current_state, next_state):
        wp.launch(_count, len(current_state.steps), [current_state.steps], [next_state.steps])


PD = actuon.PDControlConfig(60.0, 1.5)
MOTOR = [actuon.DCMotorClampingConfig(12.0, 6.0, 12.0), actuon.MaxEffortClampingConfig(11.0)]
BATTERY = actuon.BatteryClampingConfig(24.0, 0.1, 20.0, 18.0)


def on_all(config, mode=None):
    """Put an actuator on each joint."""

    def attach(robots):
        pairs = [(config, joint) for joint in robots.dof_names]
        given = robots.paths, pairs
        return [actuon.ArticulationActuators.from_actuators(*given, simulation=robots.simulation, effort_mode=mode)]

    return attach


def two(robots):
    """Two attachments, by hand and by physics, one with a battery."""
    supply = [BATTERY, actuon.VoltageClampingConfig(0.8, 0.6)]
    attached = []
    half = len(robots.dof_names) // 2
    for joints, delay, limits in ((robots.dof_names[half:], 2, supply), (robots.dof_names[:half], 4, MOTOR)):
        motor = actuon.ActuatorConfig(PD, limits, actuon.DelayConfig(delay))
        pairs = [(motor, joint) for joint in joints]
        attached.append(actuon.ArticulationActuators.from_actuators(robots.paths, pairs, simulation=robots.simulation))
    return attached


def groups(robots):
    """Random lags, a motor, and the engine's own drive."""
    names = list(robots.dof_names)
    first, second, third = names[0::3], names[1::3], names[2::3]
    late = lab.DelayedPDActuatorCfg(
        first, stiffness=60.0, damping=1.5, effort_limit=14.0, min_delay=0, max_delay=4, seed=4
    )
    motor = lab.DCMotorCfg(
        second, stiffness=60.0, damping=1.5, saturation_effort=14.0, velocity_limit=9.0, effort_limit=12.0, seed=5
    )
    drive = lab.ImplicitActuatorCfg(third, stiffness=50.0, damping=1.0, armature=0.012, seed=6)
    return [lab.ActuatorGroups(robots, {"late": late, "motor": motor, "drive": drive})]


def randomise(robots, attached):
    """Draw parameters of groups, and write some."""
    (made,) = attached
    for group, name in (("late", "stiffness"), ("motor", "damping"), ("motor", "effort_limit"), ("drive", "stiffness")):
        made[group].randomize(name, lab.Uniform(0.8, 1.2))
    made["drive"].randomize("armature", lab.Uniform(0.01, 0.03, "set"))
    made["late"].damping[:] *= 0.9


def implicit_groups(robots):
    """Groups whose efforts are implicit."""
    stiff = lab.DCMotorCfg(
        [".*"], stiffness=200.0, damping=4.0, saturation_effort=20.0, velocity_limit=9.0, effort_limit=15.0, seed=5
    )
    return [lab.ActuatorGroups(robots, {"all": stiff}, effort_mode="implicit")]


def no_change(robots, attached):
    """Leave everything as it was built."""


def gains(robots, attached):
    """Write parameters of stages, another value for each DOF."""
    for i, own in enumerate(attached):
        for actuator in own.actuators:
            kp = actuator.controller.kp.numpy()
            actuator.controller.kp = kp * np.linspace(0.8, 1.0 + 0.1 * i, len(kp), dtype=np.float32)
        own.set_dof_feedforward_effort_targets(0.3 * (i + 1))


def properties(robots, attached):
    """Let environments differ in what the engine holds."""
    count = len(robots)
    some = np.linspace(0.9, 1.3, count, dtype=np.float32)[:, None]
    robots.set_dof_armatures(robots.get_dof_armatures().numpy() * some)
    robots.set_link_masses(robots.get_link_masses().numpy() * some)
    lower, upper = (side.numpy() for side in robots.get_dof_limits())
    robots.set_dof_limits(0.95 * lower, 0.95 * upper)


def engine(robots, attached):
    """Change all that an engine lets change, options included."""
    properties(robots, attached)
    stiffness, damping = (values.numpy() for values in robots.get_dof_gains())
    robots.set_dof_gains(stiffness * np.linspace(0.9, 1.1, len(robots), dtype=np.float32)[:, None], damping)
    robots.set_dof_max_efforts(20.0)
    if isinstance(robots.simulation, actuon.MujocoSimulation):
        options = robots.simulation.models[-1].opt
        options.timestep, options.gravity = 0.003, [0.0, 0.5, -9.0]


def payload(robots, attached):
    attached[0].set_dof_custom_inputs("payload", np.linspace(-1.0, 1.0, robots.num_dofs, dtype=np.float32)[None])


LATE = actuon.TimeDelayConfig(0.006, spread=0.004, jitter=0.003, dropout=0.2, seed=3, shortest_dt=0.002)
GEAR = actuon.GearTransmissionConfig(6.0, 0.9, rotor_inertia=1e-3)
NOISY = actuon.ActuatorConfig(
    actuon.PIDControlConfig(60.0, 5.0, 1.5),
    [],
    LATE,
    transmission=GEAR,
    effects=[actuon.NoiseEffectConfig(0.3, 0.1, seed=7)],
)
HOT = actuon.HeatClampingConfig(
    *(0.3, 0.4, 0.05, 3.0, 2.0),
    max_effort=20.0,
    derated_effort=15.0,
    derating_start=30.0,
    derating_end=31.0,
    trip_temperature=55.0,
)
FRICTION = actuon.FrictionEffectConfig(0.3, 0.1, 0.5, 0.1, load_motor=0.05, load_external=0.1)
EACH = {
    "servos": (lambda robots: [], no_change),
    "engine": (lambda robots: [], engine),
    "explicit": (on_all(actuon.ActuatorConfig(PD, MOTOR, actuon.DelayConfig(3))), properties),
    "implicit": (on_all(actuon.ActuatorConfig(actuon.PDControlConfig(240.0, 6.0), MOTOR), "implicit"), gains),
    "auto": (on_all(actuon.ActuatorConfig(actuon.PDControlConfig(500.0, 10.0), MOTOR), "auto"), no_change),
    "groups": (groups, randomise),
    "implicit groups": (implicit_groups, no_change),
    "noisy": (on_all(NOISY), gains),
    "two": (two, gains),
    "hot": (on_all(actuon.ActuatorConfig(PD, [HOT, BATTERY, actuon.VoltageClampingConfig(0.8, 0.6)])), properties),
    "held": (on_all(actuon.ActuatorConfig(PD, MOTOR, control_every=7)), gains),
    "load": (on_all(actuon.ActuatorConfig(PD, MOTOR, effects=[FRICTION])), gains),
    "network": (
        on_all(
            actuon.ActuatorConfig(
                actuon.NeuralControlConfig(str(NETWORKS / "lstm.safetensors"), effort_scale=20.0), MOTOR
            )
        ),
        properties,
    ),
    "payload": (on_all(actuon.ActuatorConfig(PD, effects=[EffectPayload()])), payload),
    "own kernel": (on_all(actuon.ActuatorConfig(ControllerSwing(5.0), MOTOR, actuon.DelayConfig(2))), no_change),
}
"""By name: what is attached to robots, and what is changed then."""


def _mujoco(count) -> Callable[[], actuon.Simulation]:
    return lambda: actuon.MujocoSimulation(ASSETS / "quadruped.xml", count)


def _newton(count) -> Callable[[], actuon.Simulation]:
    return lambda: actuon.NewtonSimulation(ASSETS / "quadruped.usda", count)


def _pendulum(count, solver) -> Callable[[], actuon.Simulation]:
    def make():
        from tests.support.robot_files import robot, solid

        return actuon.NewtonSimulation(solid(robot(joints=("hip",))), count, dt=0.001, solver=solver)

    return make


ALONE = ("servos", "explicit", "implicit", "groups", "load", "own kernel")
"""Those that one robot has too, whose way through the engine is another."""
MUJOCO = {
    **{f"mujoco {name} 1": (_mujoco(1), name) for name in ALONE},
    **{f"mujoco {name} 12": (_mujoco(12), name) for name in EACH},
}
NEWTON = {
    **{
        f"newton {name} 1": (_newton(1), name)
        for name in ("engine", "explicit", "implicit", "groups", "noisy", "hot", "held", "load", "network")
    },
    **{f"newton {name} 3": (_newton(3), name) for name in ("engine", "implicit", "groups", "load")},
    **{
        f"{solver} {count}": (_pendulum(count, solver), "held")
        for solver, count in (("featherstone", 1), ("featherstone", 2), ("semi_implicit", 2), ("xpbd", 2))
    },
}
CASES: dict[str, tuple[Callable[[], actuon.Simulation], str]] = MUJOCO | NEWTON
"""By name: what makes the simulation, and which of `EACH` is on its robots."""


class Run:
    """A simulation with what is attached."""

    def __init__(self, case):
        make, self.name = CASES[case]
        self.simulation = make()
        self.robots = actuon.Articulation([robot.path for robot in self.simulation.robots], self.simulation)
        self.attached = EACH[self.name][0](self.robots)
        self.start = self.robots.get_dof_positions().numpy()

    def change(self):
        """Change parameters and properties."""
        EACH[self.name][1](self.robots, self.attached)

    def go(self, seed, left=STEPS):
        """Take steps, with targets that follow from the seed."""
        rng = np.random.default_rng(seed)
        while left:
            steps = min(left, int(rng.integers(1, 6)))
            offsets = rng.uniform(-0.3, 0.3, self.start.shape)
            self.robots.set_dof_position_targets((self.start + offsets).astype(np.float32))
            self.simulation.step(steps)
            left -= steps

    def reset_some(self):
        """Reset an environment, which draws random numbers, and draw some more."""
        self.simulation.reset([0])
        for own in self.attached:
            if isinstance(own, lab.ActuatorGroups):
                for model in own.groups.values():
                    model.randomize("stiffness", lab.Uniform(0.9, 1.1), relative_to="current")

    def found(self):
        """Return all that can be seen, by name."""
        saved = self.simulation.save_state()
        found = {"engine": saved.engine, "time": np.array([self.simulation.time, self.simulation.dt])}
        found["efforts"] = self.robots.get_dof_efforts().numpy()
        for i, own in enumerate(self.attached):
            told = own.telemetry()
            for name in ("computed_effort", "applied_effort", "clipped", "mechanical_power"):
                found[f"{i}/{name}"] = getattr(told, name)
            found |= {f"{i}/signals/{name}": values for name, values in told.signals.items()}
            found |= {f"{i}/{name}": values for name, values in remembered(own).items()}
        return found

    def all_found(self):
        """Go on, and return what is found at once, after the steps, and after a reset and more steps."""
        found = {f"saved/{name}": np.array(values) for name, values in self.found().items()}
        self.go(2)
        found |= {f"later/{name}": np.array(values) for name, values in self.found().items()}
        self.reset_some()
        self.go(3, 20)
        return found | {f"last/{name}": np.array(values) for name, values in self.found().items()}


def save(folder, case):
    """Run a case, save it on the way, and return what it finds later."""
    run = Run(case)
    with run.simulation:
        run.change()
        run.go(1)
        run.simulation.save(folder / f"{case}.npz")
        return run.all_found()


def load(folder, case):
    """Load a case, and return what it finds later."""
    run = Run(case)
    with run.simulation:
        run.simulation.load(folder / f"{case}.npz")
        run.simulation.save(folder / f"{case}.again.npz")
        return run.all_found()


def main(folder, cases):
    """Go on with cases whose files are in a folder, and write beside them what they find."""
    wp.config.optimization_level = 0  # as tests compile
    if any(case in NEWTON for case in cases):
        leave_out_adjoints()
    for case in cases:
        np.savez(folder / f"{case}.found.npz", **load(folder, case))


if __name__ == "__main__":
    actuon.quiet()
    logging.disable(logging.WARNING)
    main(Path(sys.argv[1]), sys.argv[2:])
