# SPDX-License-Identifier: Apache-2.0
"""Pictures of single joints, each made by running the library: delays, sensors, limits, friction, fits, vibration."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

import actuon
from actuon.charts import to_matplotlib
from actuon.fit import JointLog, KnownLoadPlant, Log, fit_logs
from actuon.fit.model import place_of
from actuon.lab import LogUniform, Normal, Uniform
from actuon.plot.inputs import read_inputs
from actuon.plot.kinds import PlotConditions
from actuon.plot.pictures import actuator_grids
from actuon.sim.mujoco import mute_mujoco_warnings

from .figure_style import (
    GREEN,
    GREY,
    IDEAL,
    INK,
    LIMIT,
    MUTED,
    REAL,
    TARGET,
    VIOLET,
    name_dot,
    plot,
    point_out,
    size_of,
    write,
)

_INPUTS = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act", "joint_load", "joint_f")
_GRAVITY = 9.81

OfTime = Callable[[float], float]


@dataclass
class _Joint:
    """One joint with an actuator on arrays, and what is around it."""

    actuator: actuon.Actuator
    dt: float
    inertia: float = np.inf
    """Infinite: its motion is given."""
    load: Callable[[float], float] = lambda q: 0.0
    """External load [N·m] at a position [rad]."""
    position: float = 0.0
    velocity: float = 0.0
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = (*_INPUTS, *self.actuator.signals)
        self.arrays = {name: np.zeros(1, np.float32) for name in names}
        self.state = self.actuator.state()

    def step(self, target: float = 0.0, feedforward: float = 0.0) -> float:
        """Step the actuator and the joint; returns the effort."""
        load = self.load(self.position)
        for name, value in zip(
            _INPUTS, (self.position, self.velocity, target, 0.0, feedforward, load, 0.0), strict=True
        ):
            self.arrays[name][:] = value
        self.actuator.step(self.arrays, self.arrays, self.state, self.state, dt=self.dt)
        effort = float(self.arrays["joint_f"][0])
        self.velocity += self.dt * (effort + load) / self.inertia
        self.position += self.dt * self.velocity
        return effort

    def __getitem__(self, signal: str) -> float:
        return float(self.arrays[signal][0])


def _actuator(*stages: Any, kp: float = 0.0, kd: float = 0.0) -> actuon.Actuator:
    """Return an actuator of one joint, whose signals have names of their own in the arrays."""
    config = actuon.ActuatorConfig(stages=list(stages) or [actuon.PDControlConfig(kp, kd)])
    return actuon.Actuator([0], stages=list(config.stages), control_signal_attrs=lambda signal: signal)


def _times(seconds: float, dt: float) -> np.ndarray:
    return dt * np.arange(round(seconds / dt))


# Concepts ------------------------------------------------------------------------------------------------------------


def implicit_swing() -> Any:
    """Draw a joint that should swing forever, with an explicit and with an implicit spring."""
    inertia, kp, dt = 0.02, 60.0, 0.005

    def swing(is_implicit: bool, kd: float = 0.0) -> np.ndarray:
        q, v, found = 1.0, 0.0, []
        for _ in time:
            found.append(q)
            if is_implicit:
                v = (inertia * v - dt * kp * q) / (inertia + kd * dt + kp * dt**2)
            else:
                v += dt * (-kp * q - kd * v) / inertia
            q += dt * v
        return np.array(found)

    time = _times(0.6, dt)
    figure, axis = plot("An implicit spring swings as if it had a damping of kp · dt", 320)
    axis.plot(time, swing(False), color=REAL, label="explicit, kd = 0")
    axis.plot(time, swing(True), color=IDEAL, label="implicit, kd = 0")
    damped = swing(False, kp * dt)
    label = f"explicit, kd = kp · dt = {kp * dt:g} N·m·s/rad"
    axis.plot(time, damped, color=INK, linewidth=1.2, linestyle=(0, (3, 2)), label=label)
    axis.set(xlabel="time [s]", ylabel="position [rad]", xlim=(0, time[-1]), ylim=(-1.2, 1.2))
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def stability() -> Any:
    """Draw in which steps of which gains a joint is stable, and how it moves there."""
    damping = np.linspace(0.0, 2.4, 241)
    bend = 2.0 * np.sqrt(np.clip(1.0 - damping, 0.0, None))  # between, the roots of the step are complex
    most = np.clip(4.0 - 2.0 * damping, 0.0, None)
    slow, fast = (np.where(damping <= 1.0, 2.0 - damping + side * bend, 0.0) for side in (-1.0, 1.0))
    figure, axis = plot("Where one joint is stable, and how it moves", 400)
    edges = (np.zeros_like(damping), slow, fast, most, np.full_like(damping, 4.6))
    for (low, high), colour in zip(itertools.pairwise(edges), (GREEN, REAL, VIOLET, LIMIT), strict=True):
        axis.fill_between(damping, low, high, color=colour, alpha=0.16, linewidth=0)
    axis.plot([0.0, 2.0], [4.0, 0.0], color=LIMIT)
    axis.plot([0.0, 1.0], [2.0, 0.0], color=LIMIT, linewidth=1.2, linestyle=(0, (4, 2.5)))
    write(axis, (0.44, 3.3), "100 % of the limit", LIMIT)
    write(axis, (0.2, 1.75), "50 %", LIMIT)
    write(axis, (0.6, 1.7), "swings, and settles", REAL, "center")
    point_out(axis, "approaches its target", (0.9, 0.06), (1.05, 0.75), GREEN)
    write(axis, (1.42, 0.45), "rings from step to step,\nand settles", VIOLET, "center")
    write(axis, (1.75, 3.2), "diverges", LIMIT, "center")
    inertia, kp, kd = 0.01, 100.0, 1.0
    steps = np.array([0.001, 0.002, 0.005, 0.01, 0.012, 0.015])
    path = np.linspace(0.0, 0.016, 100)
    axis.plot(kd * path / inertia, kp * path**2 / inertia, color=INK, linewidth=1.2)
    axis.plot(kd * steps / inertia, kp * steps**2 / inertia, "o", color=INK, markersize=5)
    for step in steps[1:]:
        text = "1 and 2 ms" if step == steps[1] else f"{1000 * step:g} ms"
        name_dot(axis, (kd * step / inertia, kp * step**2 / inertia), text, fontsize=8)
    note = f"line: I = {inertia:g} kg·m², kp = {kp:g} N·m/rad,\nkd = {kd:g} N·m·s/rad, over the time step"
    write(axis, (2.38, 4.25), note, INK, "right")
    axis.set(xlabel="damping: kd · dt / I", ylabel="stiffness: kp · dt² / I", xlim=(0, 2.4), ylim=(0, 4.6))
    axis.grid(False)
    return figure


# Motors on arrays ----------------------------------------------------------------------------------------------------


def telemetry() -> Any:
    """Draw requested and applied effort of a jump, and which stage reduced it."""
    inertia, dt = 0.2, 0.001
    stages = [
        actuon.PDControlConfig(kp=80.0, kd=6.0),
        actuon.DCMotorClampingConfig(saturation_effort=36.0, velocity_limit=14.0, max_motor_effort=36.0),
        actuon.MaxEffortClampingConfig(24.0),
        actuon.FrictionEffectConfig(dynamic=1.5, inertia=inertia),
    ]
    knee = actuon.Motors(actuon.ActuatorConfig(stages=stages), joints=["knee"])
    q, qd, rows, limits = np.zeros(1), np.zeros(1), [], []
    for _ in _times(0.4, dt):
        effort = knee.step(q, qd, np.full(1, 1.5), dt=dt)
        found = knee.telemetry()
        rows.append((found.computed_effort[0, 0], found.applied_effort[0, 0], qd[0]))
        limits.append(str(found.limited_by[0, 0]))
        qd = qd + dt * effort / inertia
        q = q + dt * qd
    time, values = 1000 * _times(0.4, dt), np.array(rows)
    figure, (above, below) = plot(
        "limited_by names the stage that reduced the effort", 420, 2, 1, sharex=True, height_ratios=(3, 1)
    )
    above.plot(time, np.clip(values[:, 0], -70.0, 70.0), color=TARGET, linewidth=1.4)
    above.plot(time, values[:, 1], color=REAL)
    for stage, colour in (("ClampingMaxEffort", LIMIT), ("ClampingDCMotor", VIOLET)):
        is_limited = np.array([name == stage for name in limits])
        edges = np.flatnonzero(np.diff(np.concatenate([[False], is_limited, [False]]).astype(int)))
        for start, end in edges.reshape(-1, 2):
            for axis in (above, below):
                axis.axvspan(start, end, color=colour, alpha=0.13, linewidth=0)
        middle = (edges[0] + edges[-1]) / 2
        above.text(middle, -38.0, stage, color=colour, ha="center", fontsize=8, rotation=90)
    write(above, (77.0, 54.0), "requested", MUTED)
    write(above, (56.0, 25.0), "applied", REAL)
    point_out(above, "not limited: friction", (230.0, -11.0), (255.0, -26.0), INK)
    above.set(ylabel="effort [N·m]", ylim=(-40, 65))
    below.plot(time, values[:, 2], color=INK, linewidth=1.4)
    below.set(xlabel="time after a jump of the target [ms]", ylabel="speed [rad/s]", xlim=(0, 350))
    return figure


def randomise() -> Any:
    """Draw envelopes and steps of the motor of the page's example, whose parameters are drawn."""
    count, ratio, rotor, dt = 40, 6.33, 1e-4, 0.002
    inertia = 0.05 + rotor * ratio**2
    limit = actuon.DCMotorClampingConfig(saturation_effort=4.0, velocity_limit=190.0, max_motor_effort=3.7)
    stages = [
        actuon.DelayConfig(4),  # the longest
        actuon.PDControlConfig(kp=60.0, kd=1.5),
        actuon.GearTransmissionConfig(ratio=ratio),
        limit,
        actuon.FrictionEffectConfig(dynamic=0.2, viscous=0.01, inertia=inertia / ratio**2),
    ]
    motors = actuon.Motors(actuon.ActuatorConfig(stages=stages), joints=["knee"], num_envs=count + 1)
    drawn = list(range(count))
    motors.randomize(
        {
            "controller.kp": Uniform(0.9, 1.1),
            "dc_motor.saturation_effort": Normal(0.95, 0.05, per_joint=False),
            "friction.dynamic": LogUniform(0.5, 2.0),
            "delay.delay_steps": Uniform(0, 4, operation="set"),
        },
        env_ids=drawn,
        seed=0,
    )
    motors.randomize({"delay.delay_steps": Uniform(2, 2, operation="set")}, env_ids=[count])
    (clamping,) = motors.actuators[0].clamping
    stall = ratio * clamping.saturation_effort.numpy().ravel()
    inertias = np.full((count + 1, 1), inertia)
    inertias[:count, 0] += rotor * ratio**2 * np.random.default_rng(0).uniform(-0.05, 0.05, count)
    q, qd, rows = np.zeros((count + 1, 1)), np.zeros((count + 1, 1)), []
    for step in range(300):
        effort = motors.step(q, qd, np.full((count + 1, 1), 0.0 if step == 0 else 0.5), dt=dt)
        qd = qd + dt * np.asarray(effort) / inertias
        q = q + dt * qd
        rows.append(q[:, 0])
    time, motion = 1000 * _times(0.6, dt), np.array(rows)
    figure, (left, right) = plot("The same motor, drawn 40 times", 340, 1, 2, width_ratios=(2, 3))
    fastest, peak = limit.velocity_limit / ratio, limit.max_motor_effort * ratio
    for i in (*drawn, count):
        look = {"color": INK, "linewidth": 2.0} if i == count else {"color": REAL, "linewidth": 0.7, "alpha": 0.6}
        kink = fastest * max(1.0 - peak / stall[i], 0.0)
        left.plot([0.0, kink, fastest], [min(stall[i], peak), min(stall[i], peak), 0.0], **look)
        right.plot(time[::3], motion[::3, i], **look)
    right.axhline(0.5, color=TARGET, linewidth=1.0, linestyle=(0, (4, 2.5)))
    write(right, (580.0, 0.22), "dark: nominal", INK, "right")
    text = "blue: 40 draws of kp, stall effort,\ninertia, friction and delay"
    write(right, (580.0, 0.12), text, REAL, "right")
    left.set(title="limit at the joint", xlabel="speed [rad/s]", ylabel="effort [N·m]", xlim=(0, 32), ylim=(0, 30))
    right.set(title="step of the target", xlabel="time [ms]", ylabel="position [rad]", xlim=(0, 600), ylim=(0, 0.7))
    return figure


def pid() -> Any:
    """Draw a pendulum that PD and PID hold against gravity."""
    inertia, weight, dt = 0.05, 3.0, 0.002
    time = _times(2.0, dt)
    controllers = {
        "PD": (actuon.PDControlConfig(kp=20.0, kd=1.2), IDEAL),
        "PID, ki = 60": (actuon.PIDControlConfig(kp=20.0, ki=60.0, kd=1.2, integral_max=0.2), REAL),
        "PID, integral_max = 0.02": (actuon.PIDControlConfig(kp=20.0, ki=60.0, kd=1.2, integral_max=0.02), VIOLET),
    }
    figure, axis = plot("The integral removes the error that a load leaves", 320)
    axis.axhline(0.5, color=TARGET, linestyle=(0, (4, 2.5)), linewidth=1.2)
    write(axis, (1.98, 0.515), "target", MUTED, "right", "bottom")
    for name, (controller, colour) in controllers.items():
        joint = _Joint(_actuator(controller), dt, inertia, lambda q: -weight * np.cos(q))
        positions = []
        for _ in time:
            positions.append(joint.position)
            joint.step(0.5)
        axis.plot(time, positions, color=colour)
        write(axis, (1.98, positions[-1] - 0.012), name, colour, "right", "top")
    axis.set(xlabel="time [s]", ylabel="position [rad]", xlim=(0, 2), ylim=(0, 0.62))
    return figure


# Friction ------------------------------------------------------------------------------------------------------------


def friction_models() -> Any:
    """Draw friction over speed of the models M1 to M6, without a load, lifting one and lowering one."""
    plain = {"dynamic": 0.1, "viscous": 0.05}
    rest = {"static": 0.2, "stribeck_velocity": 0.3}
    equal = {"load_motor": 0.12, "load_external": 0.12}
    equal_at_rest = {"load_motor_stribeck": 0.12, "load_external_stribeck": 0.12}
    directional = {"load_motor": 0.22, "load_external": 0.04}
    directional_at_rest = {"load_motor_stribeck": 0.14, "load_external_stribeck": 0.02}
    quadratic = {"load_motor_quadratic": 0.05, "load_external_quadratic": 0.12}
    models = {
        "M1 Coulomb": plain,
        "M2 Stribeck": plain | rest,
        "M3 load-dependent": plain | equal,
        "M4 Stribeck and load": plain | rest | equal | equal_at_rest,
        "M5 directional": plain | rest | directional | directional_at_rest,
        "M6 quadratic": plain | rest | directional | directional_at_rest | quadratic,
    }
    loads = {
        "no load": (0.0, 0.0, TARGET),
        "lifts a load of 1 N·m": (1.3, -1.0, REAL),
        "lowers a load of 1 N·m": (-0.7, 1.0, VIOLET),
    }
    speeds = np.linspace(0.01, 1.5, 150, dtype=np.float32)
    figure, axes = plot("Friction over speed: what each model adds", 430, 2, 3, sharex=True, sharey=True)
    for axis, (name, parameters) in zip(axes.flat, models.items(), strict=True):
        with_load = any(key.startswith("load") for key in parameters)
        for label, (effort, load, colour) in loads.items():
            stage = actuon.FrictionEffectConfig(**parameters, inertia=1.0)
            actuator = actuon.Actuator(range(len(speeds)), actuon.ControllerPD(kp=0.0, kd=0.0), effects=[stage.build()])
            arrays = {key: np.zeros(len(speeds), np.float32) for key in _INPUTS}
            arrays["joint_qd"][:], arrays["joint_act"][:], arrays["joint_load"][:] = speeds, effort, load
            actuator.step(arrays, arrays, dt=1e-4)
            style = "-" if label == "no load" or with_load else (0, (4, 4))  # elsewhere, all three are one
            axis.plot(speeds, effort - arrays["joint_f"], color=colour, linestyle=style, label=label)
        axis.set(title=name, xlim=(0.0, 1.5), ylim=(0.0, 0.9))
        if not with_load:
            axis.text(0.75, 0.3, "with any load", color=MUTED, ha="center")
    for axis in axes[1]:
        axis.set_xlabel("speed [rad/s]")
    for axis in axes[:, 0]:
        axis.set_ylabel("friction [N·m]")
    figure.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


_PENDULUM = """
<mujoco><worldbody><body name="arm"><joint name="hinge" axis="0 1 0" frictionloss="{}"/>
  <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1"/></body></worldbody>
</mujoco>
"""


def friction_hold() -> Any:
    """Draw a pendulum that friction should hold, with MuJoCo's friction and with Actuon's."""
    weight, seconds = _GRAVITY * 0.15, 10.0
    model = mujoco.MjModel.from_xml_string(_PENDULUM.format(weight / 0.9))
    data, creeping = mujoco.MjData(model), []
    for _ in range(round(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)
        creeping.append(data.qpos[0])
    controller = actuon.PDControlConfig(kp=0.0, kd=0.0)
    motor = actuon.ActuatorConfig(controller, effects=[actuon.FrictionEffectConfig(dynamic=weight / 0.9)])
    held = []
    with actuon.MujocoSimulation(mujoco.MjModel.from_xml_string(_PENDULUM.format(0.0))) as simulation:
        actuators = actuon.ArticulationActuators.from_actuators("/arm", [(motor, "hinge")])
        for _ in creeping:
            simulation.step()
            held.append(simulation.data[0].qpos[0])
        actuators.close()
    time = model.opt.timestep * (1 + np.arange(len(held)))
    figure, axis = plot("A joint that friction can hold stays where it is", 300)
    axis.plot(time[::25], creeping[::25], color=IDEAL)
    axis.plot(time[::25], held[::25], color=REAL)
    end = f"frictionloss in the robot's file: {creeping[-1]:.2f} rad"
    write(axis, (5.6, 0.75 * creeping[-1]), end, IDEAL, "right")
    write(axis, (9.7, 0.03), f"friction of Actuon in MuJoCo: {1000 * abs(held[-1]):.1f} mrad", REAL, "right", "bottom")
    axis.set(xlabel="time [s]", ylabel="position [rad]", xlim=(0, seconds), ylim=(-0.04, 1.1 * max(creeping)))
    axis.set_title("pendulum whose weight is 0.9 of its dry friction", color=MUTED)
    return figure


def gear_losses() -> Any:
    """Draw the effort of a gear that holds a load, with losses that fade at rest and with losses as friction."""
    load, inertia, dt, seconds = -20.0, 0.05, 0.002, 0.6
    gear = actuon.GearTransmissionConfig(9.0, efficiency=0.7)
    motor = actuon.ActuatorConfig(actuon.PDControlConfig(kp=200.0, kd=2.0), transmission=gear)
    efforts: dict[str, list[float]] = {}
    for name, known in (("smoothed", None), ("friction", inertia)):
        motors = actuon.Motors(motor, ["joint"], inertia=known)
        inputs = {} if known is None else {"joint_load": load}
        q, qd, efforts[name] = np.zeros(1), np.zeros(1), []
        for _ in range(round(seconds / dt)):
            effort = motors.step(q, qd, target=0.0, dt=dt, **inputs)
            qd += dt * (effort + load) / inertia
            q += dt * qd
            efforts[name].append(effort[0])
    time = dt * np.arange(len(efforts["friction"]))
    span = np.ptp(efforts["smoothed"][-50:])
    figure, axis = plot(f"Losses as friction hold a load; losses that fade at rest chatter by {span:.0f} N·m", 300)
    axis.plot(time, efforts["smoothed"], color=IDEAL, linewidth=1.0)
    axis.plot(time, efforts["friction"], color=REAL)
    write(axis, (0.59, 33.0), "losses that fade at rest", IDEAL, "right", "bottom")
    write(axis, (0.59, 4.0), "losses as friction, of an engine or for an inertia", REAL, "right", "bottom")
    axis.set(xlabel="time [s]", ylabel="effort at the joint [N·m]", xlim=(0, seconds), ylim=(0.0, 40.0))
    axis.set_title("gear 9, efficiency 0.7, that holds 20 N·m on 0.05 kg·m², steps of 2 ms", color=MUTED)
    return figure


# Components ----------------------------------------------------------------------------------------------------------


def heat() -> Any:
    """Draw a motor that holds a torque until it is derated."""
    stage = actuon.HeatClampingConfig(
        winding_thermal_resistance=1.0,
        housing_thermal_resistance=3.0,
        winding_time_constant=10.0,
        housing_time_constant=300.0,
        motor_constant=0.2,
        max_effort=2.0,
        trip_temperature=150.0,
    )
    joint = _Joint(_actuator(actuon.PDControlConfig(kp=1.0, kd=0.0), stage), dt=1.0)
    rows = np.array([(joint.step(1.0), joint["temperature"], joint["housing_temperature"]) for _ in range(900)])
    figure, (above, below) = plot("A motor that holds 1 N·m is derated from 100 °C on", 400, 2, 1, sharex=True)
    above.plot(rows[:, 1], color=REAL)
    above.plot(rows[:, 2], color=GREY)
    for value, name in ((stage.derating_start, "derating_start"), (stage.derating_end, "derating_end: derated_effort")):
        above.axhline(value, color=LIMIT, linewidth=1.0, linestyle=(0, (4, 2.5)))
        above.text(895, value + 1, name, color=LIMIT, ha="right", va="bottom", fontsize=8.5)
    above.text(120, rows[120, 1] + 4, "winding", color=REAL, ha="right", va="bottom")
    above.text(200, rows[200, 2] - 5, "housing", color=MUTED, ha="left", va="top")
    above.set(ylabel="temperature [°C]", ylim=(20, 135))
    below.axhline(1.0, color=TARGET, linestyle=(0, (4, 2.5)))
    below.plot(rows[:, 0], color=REAL)
    below.text(10, 1.03, "requested", color=MUTED, va="bottom")
    below.text(880, rows[-1, 0] - 0.05, "motor effort", color=REAL, ha="right", va="top")
    below.set(xlabel="time [s]", ylabel="effort [N·m]", xlim=(0, 900), ylim=(0, 1.2))
    return figure


def battery() -> Any:
    """Draw the voltage of a battery under a load that pulses."""
    pack = actuon.BatteryClampingConfig(full_voltage=24.0, inner_resistance=0.1, capacity=150.0, empty_voltage=18.0)
    motor = actuon.VoltageClampingConfig(torque_constant=0.1, resistance=1.2)
    joint = _Joint(_actuator(actuon.PDControlConfig(kp=1e4, kd=0.0), pack, motor), dt=0.005)
    time = _times(20.0, joint.dt)
    rows = np.array([(joint.step(1.0 if t % 2.0 < 1.0 else 0.0), joint["supply_voltage"]) for t in time])
    figure, (above, below) = plot("The supply sags under load and falls with the charge", 380, 2, 1, sharex=True)
    above.plot(time[::4], rows[::4, 1], color=REAL, linewidth=1.4)
    above.axhline(pack.full_voltage, color=GREY, linewidth=1.0, linestyle=(0, (4, 2.5)))
    write(above, (19.9, pack.full_voltage + 0.15), "full_voltage", MUTED, "right", "bottom")
    above.set(ylabel="supply voltage [V]", ylim=(16, 25.3))
    point_out(above, "empty: 0 V", (18.35, 16.4), (17.9, 20.8), LIMIT)
    below.plot(time[::4], rows[::4, 0], color=REAL, linewidth=1.4)
    below.set(xlabel="time [s]", ylabel="motor effort [N·m]", xlim=(0, 20), ylim=(-0.1, 2.3))
    return figure


def elastic() -> Any:
    """Draw the effort at a held joint after a step, through a spring and through a gap."""
    dt, effort = 0.0005, 2.0
    push = actuon.PDControlConfig(kp=0.0, kd=0.0)
    spring = actuon.SeriesElasticTransmissionConfig(stiffness=300.0, motor_inertia=0.02, damping=1.0)
    gap = actuon.BacklashTransmissionConfig(gap=0.02, stiffness=5000.0, motor_inertia=0.02, damping=5.0)
    figure, axis = plot("A spring overshoots the motor's effort; backlash delays it and hits", 330)
    time = _times(0.25, dt)
    for stage, colour in ((spring, REAL), (gap, VIOLET)):
        joint = _Joint(_actuator(push, stage), dt=dt)
        efforts = np.array([joint.step(feedforward=effort) for _ in time])
        axis.plot(time, np.clip(efforts, -10.0, 14.0), color=colour, linewidth=1.5)
    axis.plot([0.0, 0.25], [effort, effort], color=IDEAL, linewidth=1.4, linestyle=(0, (4, 4)))
    axis.set(xlabel="time after a step of the motor's effort [s]", ylabel="effort at the joint [N·m]", xlim=(0, 0.25))
    write(axis, (0.02, 9.5), "backlash", VIOLET)
    point_out(axis, "series-elastic spring", (0.027, 3.0), (0.04, 4.8), REAL)
    write(axis, (0.245, 1.4), "rigid", IDEAL, "right")
    return figure


def disturbances() -> Any:
    """Draw ripple over a turn, and noise over time."""
    turn = np.linspace(0.0, 2 * np.pi, 720, endpoint=False)
    figure, (left, right) = plot("Ripple repeats over a turn, noise does not repeat", 300, 1, 2, sharey=True)
    push = actuon.PDControlConfig(kp=0.0, kd=0.0)
    for label, stage, colour in (
        ("ripple = 0.1", actuon.RippleEffectConfig(ripple=0.1, ripple_periods=6.0), IDEAL),
        ("cogging = 0.1", actuon.RippleEffectConfig(cogging=0.1, cogging_periods=12.0), REAL),
    ):
        joint = _Joint(_actuator(push, stage), dt=0.001)
        efforts = []
        for angle in turn:
            joint.position = angle
            efforts.append(joint.step(feedforward=1.0))
        left.plot(np.degrees(turn), efforts, color=colour, label=label)
    left.set(xlabel="motor angle [°]", ylabel="effort at 1 N·m requested [N·m]", xlim=(0, 360), ylim=(0.6, 1.4))
    left.set_xticks([0, 90, 180, 270, 360])
    for seed, colour in ((0, REAL), (1, VIOLET)):
        joint = _Joint(_actuator(push, actuon.NoiseEffectConfig(noise=0.05, bias=0.1, seed=seed)), dt=0.001)
        right.plot([joint.step(feedforward=1.0) for _ in range(100)], color=colour, linewidth=1.2, label=f"seed {seed}")
    right.set(xlabel="step", xlim=(0, 100), title="noise = 0.05, bias = 0.1")
    left.set_title("over a turn")
    for axis in (left, right):
        axis.axhline(1.0, color=GREY, linewidth=1.0, linestyle=(0, (4, 2.5)))
        axis.legend(loc="upper right", ncols=2)
    return figure


def sensors() -> Any:
    """Draw the velocity that a controller sees, from an encoder."""
    encoder = actuon.EncoderSensorConfig(resolution=2 * np.pi / 4096)
    dt = 0.001
    time = _times(0.3, dt)
    figure, axis = plot("Velocity from an encoder of 4096 counts: noisy, or late", 320)
    looks = ((0.0, "difference of two samples", TARGET, 0.9), (0.01, "with time_constant = 10 ms", REAL, 1.8))
    for constant, label, colour, width in looks:
        seen = _actuator(encoder, actuon.DifferentiatedSensorConfig(constant), actuon.PDControlConfig(kp=0.0, kd=1.0))
        joint, found = _Joint(seen, dt), []
        for t in time:
            joint.position, joint.velocity = 0.3 - 0.3 * np.cos(10.0 * t), 3.0 * np.sin(10.0 * t)
            found.append(-joint.step())
        axis.plot(time, found, color=colour, linewidth=width, label=label)
    axis.plot(time, 3.0 * np.sin(10.0 * time), color=IDEAL, label="velocity of the joint")
    axis.set(xlabel="time [s]", ylabel="velocity [rad/s]", xlim=(0, 0.3))
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def delays() -> Any:
    """Draw what four kinds of delay make of a command."""
    dt = 0.01
    kinds = {
        "Delay: 2 steps of 10 ms": actuon.DelayConfig(2),
        "DelayTime: 25 ms, jitter, dropout": actuon.TimeDelayConfig(0.025, jitter=0.02, dropout=0.25, seed=3),
        "DelayInterpolated: 25 ms": actuon.InterpolatedDelayConfig(0.025),
        "DelayLowPass: 50 ms": actuon.LowPassDelayConfig(0.05),
    }
    time = _times(0.5, dt)
    commands = np.where(time > 0.349, 0.2, 0.5 - 0.5 * np.cos(np.pi * np.clip(time - 0.05, 0.0, 0.2) / 0.2))
    figure, axes = plot("Four kinds of delay", 420, 2, 2, sharex=True, sharey=True)
    for axis, (name, stage) in zip(axes.flat, kinds.items(), strict=True):
        joint = _Joint(_actuator(stage, actuon.PDControlConfig(kp=1.0, kd=0.0)), dt)
        late = [joint.step(command) for command in commands]
        axis.step(1000 * time, commands, where="post", color=TARGET, label="command")
        axis.step(1000 * time, late, where="post", color=REAL, label="command at the controller")
        axis.set(title=name, xlim=(0, 490), ylim=(-0.1, 1.15))
    for axis in axes[1]:
        axis.set_xlabel("time [ms]")
    for axis in axes[:, 0]:
        axis.set_ylabel("target [rad]")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


# The command ---------------------------------------------------------------------------------------------------------


def plot_envelope() -> Any:
    """Draw what ``actuon plot`` draws of a motor with a gear, as wide as a page."""
    width, height = size_of(290)
    grids = actuator_grids(read_inputs([Path("ak80-9")]), ["envelope"], PlotConditions())
    return to_matplotlib(*grids, panel=(width / 2, height - 0.5))


# Fits ----------------------------------------------------------------------------------------------------------------


def record_motion() -> Any:
    """Draw a motion to record, with what each part of it shows."""
    dt, mass, length = 0.005, 0.5, 0.1
    inertia = mass * length**2 + 0.002
    stages = (
        actuon.DelayConfig(3),
        actuon.PDControlConfig(kp=2.0, kd=0.06),
        actuon.FrictionEffectConfig(dynamic=0.05, viscous=0.004, inertia=inertia),
    )
    holding = _Joint(_actuator(*stages), dt, inertia, lambda q: -mass * _GRAVITY * length * np.sin(q))
    parts = (
        (0.0, 6.0, "slow ramps:\nfriction, gravity"),
        (6.0, 10.0, "steps: delay,\ninertia, limits"),
        (10.0, 14.0, "sines, faster and faster:\ndamping, kp, kd"),
        (14.0, 17.0, "switched off:\njoint friction"),
    )
    time = _times(17.0, dt)
    command = np.interp(time, [0, 0.5, 2.5, 3.0, 5.0, 5.5, 6.0], [0, 0, 1.2, 1.2, -1.2, -1.2, 0])
    levels = np.array([0.4, -0.3, 1.0, -0.9, 0.0])
    command = np.where(time >= 6.0, levels[np.clip(((time - 6.0) / 0.8).astype(int), 0, 4)], command)
    sweep = 0.5 * np.sin(2 * np.pi * (0.5 + 0.45 * (time - 10.0)) * (time - 10.0))
    command = np.where(time >= 10.0, sweep + 0.3 * np.sin(1.7 * (time - 10.0)), command)
    command = np.where(time >= 13.5, 1.2, command)
    position, is_off = [], time >= 14.0
    for target, off in zip(command, is_off, strict=True):
        if off:
            holding.actuator.controller.kp.zero_()
            holding.actuator.controller.kd.zero_()
        position.append(holding.position)
        holding.step(target)
    figure, axis = plot("A motion that separates the parameters", 340)
    axis.plot(time[~is_off][::2], command[~is_off][::2], color=TARGET, linewidth=1.2, label="command")
    axis.plot(time[::2], position[::2], color=REAL, linewidth=1.4, label="position")
    for number, (start, end, text) in enumerate(parts):
        if number % 2 == 0:
            axis.axvspan(start, end, color=GREY, alpha=0.10, linewidth=0)
        axis.text((start + end) / 2, 2.35, text, ha="center", va="top", fontsize=8.5, linespacing=1.25)
    axis.set(xlabel="time [s]", ylabel="position [rad]", xlim=(0, 17), ylim=(-1.5, 2.45))
    axis.set_yticks([-1, 0, 1])
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def fit() -> Any:
    """Draw a log and the model that was fitted to it, what is left, and what was found."""
    dt, mass, length = 0.004, 0.5, 0.1
    truth = {
        "controller.kp": 2.0,
        "controller.kd": 0.05,
        "friction.dynamic": 0.04,
        "friction.viscous": 0.005,
        "transmission.reflected_inertia": 0.002,
        "delay.delay": 0.008,
        "encoder.bias": 0.0,
    }
    kp, kd, dry, viscous, armature, delay, _ = truth.values()
    time = _times(4.0, dt)
    command, is_on = np.sin(2.0 * time) + 0.5 * np.sin(7.0 * time), time < 3.2
    fine, inertia, q, qd, path = dt / 8, mass * length**2 + armature, 0.0, 0.0, []
    for i, on in enumerate(is_on):
        path.append(q)
        for _ in range(8):  # reality has no time step
            effort = on * (kp * (command[max(i - round(delay / dt), 0)] - q) - kd * qd)
            effort += inertia * qd / fine - viscous * qd - mass * _GRAVITY * length * np.sin(q)
            qd = (effort - np.clip(effort, -dry, dry)) * fine / inertia
            q += fine * qd
    noise = 1e-3 * np.random.default_rng(0).standard_normal(len(time))
    measured = np.array(path) + noise
    log = Log(
        "run",
        time,
        (JointLog("joint", measured, command, enabled=is_on),),
        {"mass": mass, "length": length},
    )
    plant = KnownLoadPlant([log], dt=0.001)
    result = fit_logs(model="pd_coulomb", plant=plant)
    residual = plant.residuals(result.trials(plant))[0][0, :, 0]
    error, of_noise = (1e3 * np.abs(own).mean() for own in (residual, noise))
    figure, axes = plot("", 460, 3, 1, height_ratios=(3, 1.4, 2))
    above, middle, below = axes
    title = f"The fitted model is {error:.1f} mrad from its log, which has {of_noise:.1f} mrad of noise"
    figure.suptitle(title, x=0.012, ha="left")
    above.plot(time[is_on][::2], command[is_on][::2], color=TARGET, linewidth=1.2, label="command")
    above.axvspan(3.2, 4.0, color=GREY, alpha=0.12, linewidth=0)
    above.text(3.6, -1.45, "switched off", color=MUTED, ha="center")
    above.plot(time[::2], measured[::2], color=REAL, linewidth=2.6, label="log")
    above.plot(time[::2], (measured + residual)[::2], color=IDEAL, linewidth=1.2, label="model")
    above.set(ylabel="position [rad]", xlim=(0, 4), ylim=(-1.7, 2.3))
    above.legend(loc="upper right", ncols=3)
    middle.plot(time[::2], 1e3 * residual[::2], color=LIMIT, linewidth=0.9)
    middle.set(xlabel="time [s]", ylabel="model − log\n[mrad]", xlim=(0, 4))
    below.set_axis_off()
    rows: list[tuple[str, ...]] = [("parameter", "found", "95 % interval", "true", "unit")]
    for one in result.joints[0].parameters:
        unit = place_of(result.joints[0].model.actuator, one.path).declared.unit
        numbers = f"{one.value:.4g}", f"{one.low:.4g} to {one.high:.4g}", f"{truth[one.path]:.4g}"
        rows.append((one.path, *(text.replace("-", "−") for text in numbers), unit))
    for i, row in enumerate(rows):
        for x, text in zip((0.0, 0.36, 0.52, 0.8, 0.88), row, strict=True):
            weight = "bold" if i == 0 else "normal"
            below.text(
                x, 1.0 - i / len(rows), text, transform=below.transAxes, va="top", fontsize=8.5, fontweight=weight
            )
    return figure


# Vibration -----------------------------------------------------------------------------------------------------------

_LINK = 0.006
"""Inertia of the hinge's link [kg·m²]."""
_HINGE = """
<mujoco>
  <option gravity="0 0 0" integrator="{integrator}"/>
  <worldbody>
    <body name="leg">
      <inertial pos="0 0 0" mass="1" diaginertia="{link} {link} {link}"/>
      <joint name="knee" axis="0 1 0" armature="{armature}"/>
    </body>
  </worldbody>
</mujoco>
"""
_EXPLICIT = ("explicit", "Euler")
_IMPLICITFAST = ("implicit", "implicitfast")
_DISCRETE = ("implicit", "discrete")


def _hinge(
    kp: float,
    kd: Any,
    dt: float,
    seconds: float,
    *,
    armature: float = 0.0,
    limit: float = np.inf,
    target: OfTime = lambda t: 0.3,
    mode: tuple[str, str] = _EXPLICIT,
) -> dict[str, np.ndarray]:
    """Record a hinge that follows a target; ``kd`` may be one for each environment.

    Raises:
        actuon.SimulationError: It diverged.
    """
    gains = np.broadcast_arrays(np.atleast_1d(kp), np.atleast_1d(kd))
    effort_mode, integrator = mode
    text = _HINGE.format(link=_LINK, armature=armature, integrator=integrator)
    with actuon.MujocoSimulation(mujoco.MjSpec.from_string(text), num_envs=len(gains[1]), dt=dt) as simulation:
        motor = actuon.ActuatorConfig(
            actuon.ControllerPD(*gains), actuon.MaxEffortClampingConfig(limit), effort_mode=effort_mode
        )
        actuators = actuon.ArticulationActuators.from_actuators("leg", [(motor, "knee")])
        with actuon.Recorder(actuators) as recorder:
            for _ in range(round(seconds / dt)):
                actuators.articulation.set_dof_position_targets(target(simulation.time))
                simulation.step()
    return {name: values.squeeze() for name, values in recorder.data.items()}


def armature() -> Any:
    """Draw the velocity after a step with more and more armature."""
    kp, kd, dt = 60.0, 4.0, 0.004
    figure, axis = plot("The rotor's inertia steadies a joint", 330)
    axis.axhline(0.0, color=MUTED, linewidth=0.8)
    for own, colour in ((0.0, LIMIT), (0.003, IDEAL), (0.01, REAL)):
        data = _hinge(kp, kd, dt, 0.08, armature=own)
        outside = np.flatnonzero(np.abs(data["velocity"]) > 11.0)
        end = outside[0] + 3 if len(outside) else len(data["velocity"])
        used = 100 * (kd * dt + kp * dt**2 / 2) / (2 * (_LINK + own))
        label = f"{own:g} kg·m²: {used:.0f} %{', diverges' if used > 100 else ''}"
        axis.plot(1000 * data["time"][:end], data["velocity"][:end], "o-", color=colour, markersize=4, label=label)
    axis.set(xlabel="time after a step of the target [ms]", ylabel="velocity [rad/s]", xlim=(0, 70), ylim=(-10, 10))
    figure.legend(
        loc="outside lower center", ncols=3, title="armature: usage of the stability limit", title_fontsize=8.5
    )
    return figure


def physics_rate() -> Any:
    """Draw a joint at four time steps, and the largest damping that is stable."""
    kp, kd, rotor = 60.0, 4.0, 0.01
    steps = np.array([0.001, 0.002, 0.004, 0.008])
    figure, (left, right) = plot("At 8 ms the joint shakes", 340, 1, 2)
    looks = ((0.008, LIMIT), (0.004, IDEAL), (0.002, GREEN), (0.001, REAL))
    for dt, colour in looks:
        data = _hinge(kp, kd, dt, 0.1, armature=0.005, limit=100.0)
        left.plot(1000 * data["time"], data["velocity"], color=colour, linewidth=1.5, label=f"{1000 * dt:g} ms")
    left.set(xlabel="time [ms]", ylabel="velocity [rad/s]", xlim=(0, 60), ylim=(-10, 14), title="kd = 4 N·m·s/rad")
    for own, colour in ((0.0, IDEAL), (rotor, REAL)):
        rule = (2 * (_LINK + own) - kp * steps**2 / 2) / steps
        measured = [_largest_damping(kp, most, dt, own) for most, dt in zip(rule, steps, strict=True)]
        right.loglog(1000 * steps, rule, color=colour)
        right.loglog(1000 * steps, measured, "o", color=colour, markersize=6)
        place = (2.3, 19.0) if own else (1.05, 3.6)
        write(right, place, f"armature {own:g} kg·m²", colour, "left", "bottom")
    right.set(xlabel="time step [ms]", ylabel="largest stable kd [N·m·s/rad]", title="rule (line), measured (dots)")
    right.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    right.set_yticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    right.minorticks_off()
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4, title="time step, left")
    return figure


def _largest_damping(kp: float, rule: float, dt: float, own: float) -> float:
    """Return the largest of 21 dampings around the rule at which a hinge does not shake [N·m·s/rad]."""
    dampings = rule * np.linspace(0.9, 1.1, 21)
    data = _hinge(kp, dampings, dt, 250 * dt, armature=own, limit=20.0)
    is_shaking = np.abs(np.diff(data["velocity"][-20:], axis=0)).max(axis=0) > 0.1
    return float(dampings[~is_shaking].max())


def spectrum() -> Any:
    """Draw spectra of the effort of a joint that shakes, and of what calms it."""
    swing: dict[str, Any] = {"seconds": 2.0, "target": lambda t: 0.3 * np.sin(2 * np.pi * t), "limit": 23.7}
    runs = (
        ("shaking: kd = 4, 4 ms", LIMIT, _hinge(60.0, 4.0, 0.004, **swing)),
        ("with the rotor's armature", REAL, _hinge(60.0, 4.0, 0.004, armature=0.01, **swing)),
        ("a step of 1 ms", GREEN, _hinge(60.0, 4.0, 0.001, **swing)),
        ("kd = 1", IDEAL, _hinge(60.0, 1.0, 0.004, **swing)),
    )
    figure, axis = plot("A peak at half the physics rate: the time step is too long", 340)
    for label, colour, data in runs:
        half = len(data["time"]) // 2
        effort, dt = data["applied_effort"][half:], data["time"][1] - data["time"][0]
        window = np.hanning(half)
        size = np.abs(np.fft.rfft((effort - effort.mean()) * window)) / window.sum()
        frequencies = np.fft.rfftfreq(half, dt)
        axis.loglog(frequencies[1:], np.maximum(size[1:], 1e-9), color=colour, linewidth=1.4, label=label)
        if colour == LIMIT:
            peak = np.argmax(size)
            point_out(
                axis,
                f"{frequencies[peak]:.0f} Hz =\nhalf the physics rate",
                (frequencies[peak], size[peak]),
                (160, 5.0),
            )
            axis.plot(frequencies[peak], size[peak], "o", color=LIMIT, markersize=6)
    point_out(axis, "the swing, 1 Hz", (1.0, 0.04), (1.5, 3.0))
    axis.set(xlabel="frequency [Hz]", ylabel="effort [N·m]", xlim=(0.9, 900), ylim=(1e-8, 100))
    figure.legend(loc="outside lower center", ncols=4)
    return figure


def error_over_dt() -> Any:
    """Draw the error of explicit and implicit motors over the time step."""
    kp, kd = 100.0, 2.0

    def sine(t: float) -> float:
        return 0.3 * np.sin(2 * np.pi * t)

    exact = _positions(kp, kd, 1e-4, 1.0, sine)
    steps = np.array([0.001, 0.002, 0.004, 0.005, 0.01, 0.02])
    figure, axis = plot("Explicit motors diverge at 10 ms, implicit ones do not", 330)
    looks = ((_EXPLICIT, "explicit", REAL), (_IMPLICITFAST, "implicitfast", IDEAL), (_DISCRETE, "discrete", VIOLET))
    for mode, label, colour in looks:
        errors: list[float] = []
        for dt in steps:
            each = round(dt / 1e-4)
            try:
                with mute_mujoco_warnings():
                    found = _positions(kp, kd, dt, 1.0, sine, mode=mode)
            except actuon.SimulationError:
                before = 1000 * steps[len(errors) - 1], errors[-1]
                axis.annotate(
                    "", (1000 * dt, 300), before, arrowprops={"arrowstyle": "->", "color": colour, "linestyle": "--"}
                )
                write(axis, (1000 * dt, 420), f"explicit diverges at {1000 * dt:g} ms", colour, "center")
                break
            errors.append(1000 * np.sqrt(np.mean((found - exact[each - 1 :: each]) ** 2)))
        axis.loglog(1000 * steps[: len(errors)], errors, "o-", color=colour)
        if mode is not _EXPLICIT:
            write(axis, (19.0, errors[-1] * 1.5), f"implicit, {label}", colour, "right", "bottom")
    axis.set(xlabel="time step [ms]", ylabel="RMS error [mrad]", xlim=(0.9, 23), ylim=(0.02, 1000))
    axis.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    axis.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axis.minorticks_off()
    return figure


def _positions(kp: float, kd: float, dt: float, seconds: float, target: OfTime, **rest: Any) -> np.ndarray:
    """Return positions of the hinge after each step [rad]."""
    data = _hinge(kp, kd, dt, seconds + dt, target=target, **rest)
    return data["position"][1:]


def _step(t: float) -> float:
    return 0.3


def backward_euler() -> Any:
    """Draw what the integrator `discrete` damps away."""
    kp, kd, rotor = 60.0, 0.05, 0.01
    figure, axis = plot("The integrator discrete damps a swing that the real joint has", 320)
    exact = _positions(kp, kd, 1e-4, 0.6, _step, armature=rotor)
    axis.plot(1e-4 * np.arange(1, len(exact) + 1)[::20], exact[::20], color=INK, linewidth=1.2)
    for mode, colour in ((_IMPLICITFAST, IDEAL), (_DISCRETE, VIOLET)):
        found = _positions(kp, kd, 0.005, 0.6, _step, armature=rotor, mode=mode)
        axis.plot(0.005 * np.arange(1, len(found) + 1), found, ".-", color=colour, linewidth=1.2)
    axis.set(xlabel="time [s]", ylabel="position [rad]", xlim=(0, 0.6), ylim=(0, 0.64))
    write(axis, (0.058, 0.61), "line: exact (0.1 ms)", INK)
    write(axis, (0.215, 0.57), "dots: implicitfast, 5 ms", IDEAL)
    point_out(axis, "discrete, 5 ms", (0.31, 0.29), (0.335, 0.09), VIOLET)
    return figure


def armature_or_implicit() -> Any:
    """Draw an implicit motor with and without the rotor of the real joint."""
    kp, kd, rotor = 60.0, 1.0, 0.01
    figure, axis = plot("Without the rotor, an implicit motor is stable and wrong", 320)
    exact = _positions(kp, kd, 1e-4, 0.25, _step, armature=rotor)
    axis.plot(1e-4 * np.arange(1, len(exact) + 1)[::10], exact[::10], color=INK, linewidth=1.2)
    for own, colour in ((rotor, IDEAL), (0.0, LIMIT)):
        found = _positions(kp, kd, 0.004, 0.25, _step, armature=own, mode=_IMPLICITFAST)
        axis.plot(0.004 * np.arange(1, len(found) + 1), found, ".-", color=colour, linewidth=1.2)
    axis.set(xlabel="time [s]", ylabel="position [rad]", xlim=(0, 0.25), ylim=(0, 0.39))
    write(axis, (0.072, 0.365), "dots: implicit, 4 ms, with the rotor", IDEAL)
    point_out(axis, "line: exact, with the rotor", (0.03, 0.2), (0.05, 0.16), INK)
    point_out(axis, "implicit, 4 ms, without", (0.0275, 0.27), (0.004, 0.345), LIMIT)
    return figure


def feedforward() -> Any:
    """Draw the elbow of the arm with and without feedforward of gravity."""
    figure, (above, below) = plot("Gravity feedforward removes most of the error", 400, 2, 1, sharex=True)
    motors = [(_limited(200.0, 30.0, 87.0), f"joint{i}") for i in (1, 2, 3, 4)]
    motors += [(_limited(50.0, 8.0, 12.0), f"joint{i}") for i in (5, 6, 7)]
    for is_helped, colour in ((False, IDEAL), (True, REAL)):
        with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            actuators = actuon.ArticulationActuators.from_actuators("link0", motors)
            arm = actuators.articulation
            home = arm.get_dof_positions().numpy()
            swing = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0])
            with actuon.Recorder(actuators) as recorder:
                for _ in range(round(4.0 / simulation.dt)):
                    angle = np.pi * simulation.time
                    arm.set_dof_position_targets(home + 0.4 * swing * np.sin(angle))
                    arm.set_dof_velocity_targets(0.4 * np.pi * swing * np.cos(angle))
                    if is_helped:
                        efforts = np.stack([data.qfrc_bias for data in simulation.data])
                        actuators.set_dof_feedforward_effort_targets(efforts)
                    simulation.step()
            data, joint4 = recorder.data, arm.dof_names.index("joint4")
        time, target, position = (
            data["time"][::5],
            data["position_target"][::5, 0, joint4],
            data["position"][::5, 0, joint4],
        )
        if not is_helped:
            above.plot(time, target, color=TARGET)
        above.plot(time, position, color=colour, linewidth=1.3)
        below.plot(time, 1000 * (position - target), color=colour)
    below.axhline(0.0, color=TARGET, linewidth=1.0)
    above.set(ylabel="position of joint4 [rad]", xlim=(0, 4))
    below.set(xlabel="time [s]", ylabel="error [mrad]")
    write(above, (1.5, -2.2), "target, and\nwith feedforward", REAL, "center")
    write(below, (2.0, -35.0), "with feedforward", REAL, "center")
    write(below, (2.0, -75.0), "without feedforward", IDEAL, "center")
    return figure


def _limited(kp: float, kd: float, limit: float) -> actuon.ActuatorConfig:
    return actuon.ActuatorConfig(
        actuon.PDControlConfig(kp, kd), actuon.MaxEffortClampingConfig(limit), actuon.DelayConfig(1)
    )


MOTORS = {
    "implicit_swing": implicit_swing,
    "stability": stability,
    "telemetry": telemetry,
    "randomise": randomise,
    "pid": pid,
    "friction_models": friction_models,
    "friction_hold": friction_hold,
    "gear_losses": gear_losses,
    "heat": heat,
    "battery": battery,
    "elastic": elastic,
    "disturbances": disturbances,
    "sensors": sensors,
    "delays": delays,
    "plot_envelope": plot_envelope,
    "record_motion": record_motion,
    "fit": fit,
    "error_over_dt": error_over_dt,
    "backward_euler": backward_euler,
    "armature_or_implicit": armature_or_implicit,
}
"""Pictures by the names of their files."""
TUTORIALS = {
    "armature": armature,
    "physics_rate": physics_rate,
    "spectrum": spectrum,
    "feedforward": feedforward,
}
"""Pictures of the tutorials, by the names of their files."""
