# SPDX-License-Identifier: Apache-2.0
"""Robots in physics engines: states after 200 steps, with the engine's servos and with actuators of every mode."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import actuon
from actuon import lab

from .case import DATA, Case, Scope, Unavailable, leave_out_adjoints, seeded
from .networks import network_file
from .rollout import Named

FOLDER = DATA / "robots"
BURSTS = (1, 5, 44, 50, 100)
"""Steps between two commands, 200 together."""
PUBLIC = (
    "agility_cassie",
    "franka_emika_panda",
    "kinova_gen3",
    "robotiq_2f85",
    "shadow_hand",
    "unitree_g1",
    "unitree_go2",
    "unitree_h1",
    "universal_robots_ur5e",
)
SMALL = {
    "pendulum": """<mujoco><option timestep="0.002"/><worldbody><body name="base"><geom size="0.02" mass="0.1"/>
<body name="link"><joint name="hinge" axis="0 1 0" damping="0.01"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="0.4"/></body></body></worldbody>
<actuator><position joint="hinge" kp="5" kv="0.2"/></actuator></mujoco>""",
    "slider": """<mujoco><option timestep="0.002" integrator="implicitfast"/><worldbody><body name="base">
<geom size="0.02" mass="0.1"/><body name="cart"><joint name="slide" type="slide" axis="1 0 0" range="-0.3 0.3"
limited="true" frictionloss="0.2" actuatorfrcrange="-8 6"/><geom size="0.05" mass="0.5"/>
<body name="pole" pos="0 0 0.1"><joint name="swing" axis="0 1 0" armature="0.01"/>
<geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.01" mass="0.1"/></body></body></body></worldbody>
<actuator><motor joint="slide" gear="2"/><velocity joint="swing" kv="0.1"/></actuator></mujoco>""",
    "gripper": """<mujoco><option timestep="0.002"/><default><geom size="0.02" mass="0.1" contype="0"/>
<joint armature="0.01" damping="0.05"/></default><worldbody><body name="base"><geom size="0.03"/>
<body name="left" pos="0 0.1 0"><joint name="left" axis="1 0 0"/><geom pos="0 0 0.1"/></body>
<body name="right" pos="0 -0.1 0"><joint name="right" axis="1 0 0"/><geom pos="0 0 0.1"/></body></body></worldbody>
<tendon><fixed name="both"><joint joint="left" coef="1"/><joint joint="right" coef="-1"/></fixed></tendon>
<actuator><position tendon="both" kp="4" kv="0.2"/></actuator></mujoco>""",
}
"""Robots of one or two joints, as MJCF: a hinge, a slide with a stop, and two joints on one tendon."""
SHIPPED = {"quadruped": actuon.assets.quadruped_mjcf, "arm": actuon.assets.arm_mjcf}
SHIPPED_USD = {"quadruped": actuon.assets.quadruped_usd, "arm": actuon.assets.arm_usd}
GAINS = {"quadruped": (60.0, 1.5), "arm": (300.0, 20.0)}
"""kp and kd of robots that need others than the usual ones."""
USUAL_GAINS = (5.0, 0.2)
LIMIT = 0.1
"""Largest effort, as the share of kp that is an error in position [rad or m]; commands are up to three times as far."""
WITHOUT_SERVOS = ("agility_cassie", "robotiq_2f85", "unitree_go2", "unitree_h1", "slider")
"""Robots with joints that no servo of the model holds. Without actuators they are pushed by efforts."""

Attach = Callable[[actuon.Articulation, str], Any]
"""Puts actuators on robots of that name, and returns them; None where the engine's own servos drive them."""


def _pd(name: str) -> actuon.PDControlConfig:
    return actuon.PDControlConfig(*GAINS.get(name, USUAL_GAINS))


def _attached(robots: actuon.Articulation, config: actuon.ActuatorConfig, mode: str | None = None) -> Any:
    pairs = [(config, joint) for joint in robots.dof_names]
    return actuon.ArticulationActuators.from_actuators(
        robots.paths, pairs, simulation=robots.simulation, effort_mode=mode
    )


def _servos(robots: actuon.Articulation, name: str) -> None:
    return None


def _explicit(robots: actuon.Articulation, name: str) -> Any:
    most = LIMIT * GAINS.get(name, USUAL_GAINS)[0]
    limits = [actuon.DCMotorClampingConfig(most, 4.0, most), actuon.MaxEffortClampingConfig(0.95 * most)]
    return _attached(robots, actuon.ActuatorConfig(_pd(name), limits, actuon.DelayConfig(1)))


def _implicit(robots: actuon.Articulation, name: str) -> Any:
    stiff = actuon.PDControlConfig(*(4.0 * gain for gain in GAINS.get(name, USUAL_GAINS)))
    most = LIMIT * stiff.kp
    limits = [actuon.DCMotorClampingConfig(most, 4.0, most)]
    return _attached(robots, actuon.ActuatorConfig(stiff, limits), "implicit")


def _auto(robots: actuon.Articulation, name: str) -> Any:
    stiff = actuon.PDControlConfig(*(8.0 * gain for gain in GAINS.get(name, USUAL_GAINS)))
    return _attached(robots, actuon.ActuatorConfig(stiff, [actuon.MaxEffortClampingConfig(LIMIT * stiff.kp)]), "auto")


def _network(robots: actuon.Articulation, name: str) -> Any:
    config = actuon.NeuralControlConfig(str(network_file("lstm of 1 of 4")))
    return _attached(robots, actuon.ActuatorConfig(config, [actuon.MaxEffortClampingConfig(20.0)]))


def _groups(robots: actuon.Articulation, name: str) -> Any:
    kp, kd = GAINS.get(name, USUAL_GAINS)
    most = LIMIT * kp
    half = len(robots.dof_names) // 2 + 2  # which leaves joints of one tendon in one group
    first, second = (list(names) for names in (robots.dof_names[:half], robots.dof_names[half:]))
    groups: dict[str, Any] = {
        "late": lab.DelayedPDActuatorCfg(
            joint_names_expr=first, stiffness=kp, damping=kd, effort_limit=most, min_delay=0, max_delay=3, seed=4
        )
    }
    if second:
        groups["motors"] = lab.DCMotorCfg(
            joint_names_expr=second,
            stiffness=kp,
            damping=kd,
            saturation_effort=most,
            velocity_limit=4.0,
            effort_limit=0.95 * most,
            seed=5,
        )
    return lab.ActuatorGroups(robots, groups)


def _implicit_group(robots: actuon.Articulation, name: str) -> Any:
    kp, kd = GAINS.get(name, USUAL_GAINS)
    cfg = lab.ImplicitActuatorCfg(
        joint_names_expr=[".*"], stiffness=kp, damping=kd, effort_limit=20.0, armature=0.01, seed=6
    )
    return lab.ActuatorGroups(robots, {"all": cfg})


def _battery(robots: actuon.Articulation, name: str) -> Any:
    limits = [actuon.BatteryClampingConfig(24.0, 0.1, 20.0, 18.0), actuon.VoltageClampingConfig(0.8, 0.6)]
    return _attached(robots, actuon.ActuatorConfig(_pd(name), limits))


def _friction(robots: actuon.Articulation, name: str) -> Any:
    return _attached(
        robots, actuon.ActuatorConfig(_pd(name), effects=[actuon.FrictionEffectConfig(0.4, 0.1, 0.6, 0.1)])
    )


def _load(robots: actuon.Articulation, name: str) -> Any:
    friction = actuon.FrictionEffectConfig(0.2, load_motor=0.05, load_external=0.1)
    return _attached(robots, actuon.ActuatorConfig(_pd(name), effects=[friction]))


def _held(robots: actuon.Articulation, name: str) -> Any:
    return _attached(robots, actuon.ActuatorConfig(_pd(name), [actuon.MaxEffortClampingConfig(20.0)], control_every=4))


def _noisy(robots: actuon.Articulation, name: str) -> Any:
    late = actuon.TimeDelayConfig(0.006, jitter=0.003, seed=3)
    gear = actuon.GearTransmissionConfig(6.0, 0.9, rotor_inertia=1e-3)
    pid = actuon.PIDControlConfig(GAINS.get(name, USUAL_GAINS)[0], 5.0, GAINS.get(name, USUAL_GAINS)[1])
    return _attached(
        robots, actuon.ActuatorConfig(pid, [], late, transmission=gear, effects=[actuon.NoiseEffectConfig(0.1)])
    )


def _from_file(robots: actuon.Articulation, name: str) -> Any:
    return actuon.ArticulationActuators(robots.paths, simulation=robots.simulation)


MODES: dict[str, Attach] = {"servos": _servos, "explicit": _explicit, "implicit": _implicit, "groups": _groups}
"""Motors that drive every robot."""
MORE_MODES: dict[str, Attach] = {
    "file": _from_file,
    "auto": _auto,
    "network": _network,
    "implicit group": _implicit_group,
    "battery": _battery,
    "friction": _friction,
    "load": _load,
    "held": _held,
    "noisy": _noisy,
}
"""Further motors that drive the shipped robots."""


def cases(scope: Scope) -> Iterator[Case]:
    """Return the cases of all robots."""
    for name in (*SHIPPED, *PUBLIC, *SMALL):
        for mode in MODES | (MORE_MODES if name in SHIPPED else {}):
            for count in scope.environments:
                yield Case(f"mujoco/{name}/{mode}/{count}", functools.partial(_in_mujoco, name, mode, count))
    for name in SHIPPED_USD:
        for mode in (*MODES, "file", "friction"):
            for count in scope.environments:
                yield Case(f"newton/{name}/{mode}/{count}", functools.partial(_in_newton, name, mode, count))


def _in_mujoco(name: str, mode: str, count: int) -> Named:
    with actuon.MujocoSimulation(_file(name), count) as simulation:
        return _driven(simulation, name, mode)


def _in_newton(name: str, mode: str, count: int) -> Named:
    leave_out_adjoints()
    with actuon.NewtonSimulation(SHIPPED_USD[name], count) as simulation:
        return _driven(simulation, name, mode)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="golden-robots-")


def _file(name: str) -> Path:
    if name in SHIPPED:
        return SHIPPED[name]
    if name in PUBLIC:
        path = FOLDER / f"{name}.xml"
        if not path.is_file():
            raise Unavailable(f"'{path.name}' is not in the folder of robots")
        return path
    path = Path(_folder().name) / f"{name}.xml"
    path.write_text(SMALL[name], encoding="utf-8")
    return path


def _driven(simulation: actuon.Simulation, name: str, mode: str) -> Named:
    """Command and step, and return what the engine and the actuators hold at the end."""
    robots = actuon.Articulation([robot.path for robot in simulation.robots], simulation)
    attached = (MODES | MORE_MODES)[mode](robots, name)
    rng = seeded(f"commands of {name}", len(robots))
    start = robots.get_dof_positions().numpy()
    found: dict[str, np.ndarray] = {}
    with attached if attached is not None else contextlib.nullcontext():
        for steps in BURSTS:
            offsets = rng.uniform(-0.3, 0.3, start.shape).astype(np.float32)
            if attached is None and name in WITHOUT_SERVOS:
                robots.set_dof_efforts(2.0 * offsets)
            else:
                robots.set_dof_position_targets(start + offsets)
            simulation.step(steps)
        found["positions"] = robots.get_dof_positions().numpy()
        found["velocities"] = robots.get_dof_velocities().numpy()
        found["efforts"] = robots.get_dof_efforts().numpy()
        found["roots"] = robots.get_root_poses().numpy()
        found["engine"] = simulation.save_state().engine
        if attached is not None:
            found |= _actuators(attached)
    return iter([(key, np.array(array)) for key, array in found.items()])


def _actuators(attached: Any) -> dict[str, np.ndarray]:
    """Return what actuators report, and what they save."""
    told = attached.telemetry()
    found = {key: getattr(told, key) for key in ("computed_effort", "applied_effort", "clipped")}
    found |= {f"signals/{key}": values for key, values in told.signals.items()}
    path = Path(_folder().name) / "state.npz"
    attached.save_state(path)
    with np.load(path, allow_pickle=False) as saved:
        numbers = {key: saved[key] for key in saved.files if not key.startswith("__")}
    found |= {f"state/{key}": values for key, values in numbers.items() if values.dtype.kind != "U"}
    return found
