# SPDX-License-Identifier: Apache-2.0
"""Drawings of the documentation: the chain, envelopes, timing, a data sheet, a choice, a motion to record.

Numbers in them come from the library: envelopes and timings are run, parameters of a data sheet are built.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import actuon
from actuon.actuator.trials import envelope

from .figure_style import (
    FAINT,
    GREEN,
    GREY,
    INK,
    LIMIT,
    MUTED,
    REAL,
    TARGET,
    VIOLET,
    arrow,
    box,
    canvas,
    plot,
    point_out,
    write,
)


def chain() -> Any:
    """Draw the stages between a command and the effort at a joint, and on which side of the gear they stand."""
    figure, axis = canvas("From a command to the effort at the joint", 300)
    top, bottom, gears = 78, 148, (286, 552)
    axis.fill_between(gears, 42, 264, color=REAL, alpha=0.08, linewidth=0, zorder=0)
    for x in gears:
        axis.plot([x, x], [42, 264], color=MUTED, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1)
    for x, name in ((143, "joint side"), (419, "motor side of the gear"), (612, "joint side")):
        axis.text(x, 54, name, ha="center", va="center", fontsize=9, color=MUTED, style="italic")
    boxes = (
        (6, 76, "command", "position,\nvelocity,\neffort", TARGET),
        (94, 58, "delay", "steps or\nseconds", REAL),
        (164, 88, "controller", "PD, PID,\nnetwork,\nservo", REAL),
        (264, 44, "gear", "÷ n", REAL),
        (324, 90, "limits", "peak, speed,\nvoltage, heat,\nbattery", LIMIT),
        (426, 90, "effects", "friction,\ncurrent loop,\nripple", REAL),
        (530, 44, "gear", "× n", REAL),
        (590, 82, "joint", "inertia,\ncontacts:\nthe engine", GREY),
    )
    for x, width, name, text, colour in boxes:
        box(axis, (x, top), (width, bottom - top), name, text, colour)
    middle = (top + bottom) / 2
    for left, right in itertools.pairwise(boxes):
        arrow(axis, (left[0] + left[1], middle), (right[0], middle))
    for x, text in ((280, "requested\neffort"), (546, "motor\neffort")):
        axis.text(x, bottom + 8, text, ha="right", va="top", fontsize=8, color=MUTED)
    axis.text(558, bottom + 8, "applied\neffort", ha="left", va="top", fontsize=8, color=MUTED)
    box(axis, (156, 214), (104, 48), "sensors", "encoder, filter", REAL)
    arrow(axis, (640, bottom), (640, 238), (260, 238), colour=GREEN)
    arrow(axis, (208, 214), (208, bottom), colour=GREEN)
    arrow(axis, (369, 238), (369, bottom), colour=GREEN)
    axis.text(634, 255, "position,\nvelocity", ha="right", va="center", fontsize=8, color=GREEN)
    axis.text(376, 200, "speed × n", ha="left", va="center", fontsize=8, color=GREEN)
    note = "n: gear ratio. Only the controller is required, and stages may stand in any order."
    axis.text(12, 284, note, fontsize=8, color=MUTED, va="center")
    return figure


def _motor(stage: Any) -> actuon.ActuatorConfig:
    return actuon.ActuatorConfig(actuon.PDControlConfig(kp=0.0, kd=0.0), [stage])


def _draw_envelope(axis: Any, stage: Any, reach: tuple[float, float]) -> None:
    """Draw an envelope in four quadrants, and say in which the motor drives and brakes."""
    width, height = reach
    speeds = np.linspace(-width, width, 601)
    can = envelope(_motor(stage), speeds)
    axis.fill_between(speeds, can.least, can.most, color=REAL, alpha=0.10, linewidth=0)
    for side in (can.least, can.most):
        axis.plot(speeds, side, color=LIMIT, zorder=4)
    for line in (axis.axhline, axis.axvline):
        line(0.0, color=MUTED, linewidth=0.9, zorder=2)
    axis.set(xlim=(-width, width), ylim=(-height, height), xlabel="speed [rad/s]", ylabel="effort [N·m]")
    axis.grid(False)


def _name_quadrants(axis: Any, x: float, y: float) -> None:
    for sign_x, sign_y in ((1, 1), (-1, 1), (-1, -1), (1, -1)):
        text = "driving" if sign_x == sign_y else "braking"
        axis.text(sign_x * x, sign_y * y, text, ha="center", va="center", fontsize=9.5, color=REAL, style="italic")


def dc_motor() -> Any:
    """Draw the envelope of `ClampingDCMotor`, with its parameters."""
    stall, no_load, peak = 20.0, 10.0, 15.0
    stage = actuon.DCMotorClampingConfig(saturation_effort=stall, velocity_limit=no_load, max_motor_effort=peak)
    figure, axis = plot("A DC motor: driving costs effort with speed, braking does not", 400)
    _draw_envelope(axis, stage, (24.0, 26.0))
    corner = no_load * (1 + peak / stall)
    kink = no_load * (1 - peak / stall)
    axis.plot([0.0, kink], [stall, peak], color=LIMIT, linewidth=1.2, linestyle=(0, (4, 2.5)))
    axis.plot([0.0, -kink], [-stall, -peak], color=LIMIT, linewidth=1.2, linestyle=(0, (4, 2.5)))
    axis.plot([0.0, no_load, corner, kink], [stall, 0.0, -peak, peak], "o", color=LIMIT, markersize=4.5, zorder=5)
    point_out(axis, "stall effort\nsaturation_effort = 20 N·m", (0.0, stall), (2.2, 21.5))
    point_out(axis, "no-load speed\nvelocity_limit = 10 rad/s", (no_load, 0.0), (12.6, 5.0))
    point_out(axis, "peak effort\nmax_motor_effort = 15 N·m", (-9.0, peak), (-9.0, 21.5), ha="center")
    point_out(
        axis,
        "corner velocity 17.5 rad/s:\nvelocity_limit · (1 + peak / stall)",
        (corner, -peak),
        (14.5, -21.5),
        ha="center",
    )
    _name_quadrants(axis, 4.2, 5.0)
    return figure


def voltage() -> Any:
    """Draw the envelope of `ClampingVoltage`, with what makes it."""
    constant, resistance, supply, current = 0.1, 0.5, 24.0, 30.0
    stage = actuon.VoltageClampingConfig(
        torque_constant=constant, resistance=resistance, bus_voltage=supply, max_current=current
    )
    figure, axis = plot("Supply, winding and motor controller bound the effort", 400)
    _draw_envelope(axis, stage, (520.0, 6.2))
    stall, no_load, peak = constant * supply / resistance, supply / constant, constant * current
    kink = no_load * (1 - peak / stall)
    axis.plot([0.0, kink], [stall, peak], color=LIMIT, linewidth=1.2, linestyle=(0, (4, 2.5)))
    axis.plot([0.0, no_load, kink], [stall, 0.0, peak], "o", color=LIMIT, markersize=4.5, zorder=5)
    point_out(axis, "kt · U / R = 4.8 N·m\nstall, by the supply alone", (0.0, stall), (40.0, 5.35))
    point_out(axis, "U / kt = 240 rad/s\nno-load speed", (no_load, 0.0), (290.0, 1.2))
    point_out(axis, "kt · max_current = 3 N·m", (-200.0, peak), (-200.0, 4.4), ha="center")
    point_out(axis, "line: U = R · i + kt · speed", (165.0, stall * (1 - 165.0 / no_load)), (220.0, 2.75))
    _name_quadrants(axis, 85.0, 1.0)
    return figure


def torque_speed() -> Any:
    """Draw the envelope of `ClampingTorqueSpeed` of the page's example."""
    stage = actuon.TorqueSpeedClampingConfig.symmetric(
        driving=[(0.0, 20.2), (13.5, 20.2), (30.0, 0.0)], braking=[(0.0, 23.4)]
    )
    figure, axis = plot("A curve from a data sheet becomes a polygon", 400)
    _draw_envelope(axis, stage, (42.0, 34.0))
    axis.plot([0.0, 13.5, 30.0], [20.2, 20.2, 0.0], "o", color=LIMIT, markersize=4.5, zorder=5)
    point_out(axis, "driving (0 rad/s, 20.2 N·m)", (0.0, 20.2), (2.5, 27.5))
    point_out(axis, "driving (13.5 rad/s, 20.2 N·m)", (13.5, 20.2), (15.5, 23.5))
    point_out(axis, "driving (30 rad/s, 0)", (30.0, 0.0), (24.5, -4.5))
    point_out(axis, "braking (0 rad/s, 23.4 N·m): at any speed", (-20.0, 23.4), (-20.0, 29.0), ha="center")
    _name_quadrants(axis, 9.0, 7.0)
    return figure


def max_effort() -> Any:
    """Draw the envelope of `ClampingMaxEffort`."""
    figure, axis = plot("One limit at any speed", 300)
    _draw_envelope(axis, actuon.MaxEffortClampingConfig(max_effort=12.0), (20.0, 18.0))
    point_out(axis, "max_effort = 12 N·m", (6.0, 12.0), (7.0, 15.5))
    point_out(axis, "−max_effort", (6.0, -12.0), (7.0, -15.5))
    _name_quadrants(axis, 9.0, 6.0)
    return figure


def datasheet() -> Any:
    """Draw the points that a vendor prints, the envelope made of them, and the parameters that they become."""
    sheet = actuon.MotorDatasheet(
        at="joint",
        stall_torque=38.0,
        peak_torque=22.0,
        rated_torque=9.0,
        rated_speed_rpm=390.0,
        no_load_speed_rpm=570.0,
        max_speed_rpm=500.0,
    )
    printed = sheet.at_joint
    stall, peak, rated = (printed[f"{name}_torque"] for name in ("stall", "peak", "rated"))
    no_load, fastest, at_rated = (printed[f"{name}_speed"] for name in ("no_load", "max", "rated"))
    figure, axis = plot("A vendor's points become an envelope", 380)
    speeds = np.linspace(0.0, 64.0, 641)
    most = envelope(actuon.ActuatorConfig(actuon.PDControlConfig(kp=0.0, kd=0.0), list(sheet.stages())), speeds).most
    axis.fill_between(speeds, 0.0, most, color=REAL, alpha=0.10, linewidth=0)
    axis.plot(speeds, most, color=LIMIT)
    for x in ((0.0, no_load * (1.0 - peak / stall)), (fastest, no_load)):
        axis.plot(x, stall * (1.0 - np.array(x) / no_load), color=LIMIT, linewidth=1.2, linestyle=(0, (4, 2.5)))
    points = (
        ("stall_torque: by the supply alone, at rest\n→ saturation_effort", (0.0, stall), (4.0, 39.5)),
        ("peak_torque: for a short time\n→ max_motor_effort", (0.0, peak), (2.5, 17.5)),
        ("no_load_speed: end of the falling line\n→ velocity_limit", (no_load, 0.0), (40.6, 17.5)),
        ("max_speed: driving ends here\n→ a torque-speed limit", (fastest, 0.0), (28.5, 3.6)),
        (
            "rated_torque, rated_speed: indefinitely\n→ heat, if thermal values are printed",
            (at_rated, rated),
            (3.0, 4.5),
        ),
    )
    axis.plot([0.0, at_rated], [rated, rated], color=GREEN, linestyle=(0, (1, 1.5)))
    for text, at, place in points:
        axis.plot(*at, "D", color=INK, markersize=5, zorder=7, clip_on=False)
        point_out(axis, text, at, place)
    axis.plot([], [], "D", color=INK, markersize=5, label="printed in the data sheet")
    axis.plot([], [], color=LIMIT, label="envelope of the motor that is built of it")
    axis.legend(loc="upper right")
    axis.set(
        xlim=(0.0, 66.0), ylim=(0.0, 43.0), xlabel="speed at the joint [rad/s]", ylabel="torque at the joint [N·m]"
    )
    axis.grid(False)
    return figure


def _delayed(targets: list[float], steps: int, every: int = 1, reset_at: int | None = None) -> list[float]:
    """Return the target that acts in each step: effort over gain of a joint at zero."""
    actuator = actuon.Actuator(
        [0],
        actuon.ControllerPD(kp=1.0, kd=0.0),
        delay=actuon.Delay([steps], max_delay=max(steps, 1)),
        control_every=every,
    )
    state, found = actuator.state(), []
    assert state is not None
    for step, target in enumerate(targets):
        if step == reset_at:
            state.reset()
        arrays = {name: np.zeros(1, np.float32) for name in ("joint_q", "joint_qd", "joint_target_qd", "joint_f")}
        arrays["joint_target_q"] = np.full(1, target, np.float32)
        actuator.step(arrays, arrays, state, state, dt=0.005)
        found.append(float(arrays["joint_f"][0]))
    return found


def timing() -> Any:
    """Draw which command acts in which step of physics, by running the delays."""
    letters = "ABCDE"
    count, each, reset = 20, 4, 12
    commands = [1.0 + step // each for step in range(count)]
    figure, axis = canvas("Which command acts when: four steps of physics for each step of the policy", 426)
    left, width, height = 150, 25.5, 26
    rows = [
        ("policy", "a target every 20 ms", commands, TARGET),
        ("delay_steps = 0", "same step", _delayed(commands, 0, reset_at=reset), REAL),
        ("delay_steps = 1", "one step later", _delayed(commands, 1, reset_at=reset), REAL),
        ("delay_steps = 2", "two steps later", _delayed(commands, 2, reset_at=reset), REAL),
        ("control_every = 4", "and delay_steps = 2", _delayed(commands, 2, 4, reset_at=reset), VIOLET),
    ]
    for row, (name, note, values, colour) in enumerate(rows):
        y = 62 + 52 * row + (14 if row else 0)
        axis.text(left - 12, y + 7, name, ha="right", va="center", fontsize=9, fontweight="bold")
        axis.text(left - 12, y + 21, note, ha="right", va="center", fontsize=8, color=MUTED)
        starts = [step for step in range(count) if step == 0 or values[step] != values[step - 1]]
        for start, end in zip(starts, [*starts[1:], count], strict=True):
            shade = 0.16 + 0.16 * (int(values[start]) % 2)
            axis.add_patch(_rectangle((left + start * width, y), ((end - start) * width, height), colour, shade))
            middle = left + (start + end) / 2 * width
            axis.text(middle, y + height / 2, letters[int(values[start]) - 1], ha="center", va="center", fontsize=9)
    y = 62 + 52 * len(rows) + 10
    axis.text(left - 12, y + 6, "physics", ha="right", va="center", fontsize=9, fontweight="bold")
    axis.text(left - 12, y + 20, "a step every 5 ms", ha="right", va="center", fontsize=8, color=MUTED)
    for step in range(count + 1):
        x = left + step * width
        axis.plot([x, x], [y, y + (10 if step % each == 0 else 6)], color=MUTED, linewidth=1.0)
        if step % each == 0:
            axis.plot([x, x], [56, y], color=FAINT, linewidth=1.0, zorder=0)
            axis.text(x, y + 21, f"{5 * step}", ha="center", va="center", fontsize=8.5, color=MUTED)
    axis.plot([left, left + count * width], [y, y], color=MUTED, linewidth=1.0)
    notes = (
        "A to E: targets of the policy, and where they act on the joint. With control_every = 4 and the reset,",
        "the controller never reads C. Telemetry holds the state at the start of the last step of physics,",
        "and the efforts that act during it.",
    )
    for row, note in enumerate(notes):
        axis.text(12, y + 56 + 14 * row, note, ha="left", va="center", fontsize=8.5, color=MUTED)
    axis.text(left + count * width, y + 36, "time [ms]", ha="right", va="center", fontsize=8.5, color=MUTED)
    x = left + reset * width
    axis.plot([x, x], [48, y], color=LIMIT, linewidth=1.4, linestyle=(0, (4, 2.5)), zorder=5)
    axis.text(
        x, 42, "reset: the first command after it is not delayed", ha="center", va="center", color=LIMIT, fontsize=8.5
    )
    return figure


def _rectangle(corner: tuple[float, float], size: tuple[float, float], colour: str, alpha: float) -> Any:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    return Rectangle(corner, *size, facecolor=to_rgba(colour, alpha), edgecolor=colour, linewidth=1.2, zorder=2)


def choose() -> Any:
    """Draw the questions that lead to a way in."""
    figure, axis = canvas("Which of these do I use?", 350)
    _question(axis, (180, 46), (250, 34), "What steps the joints?")
    _question(axis, (434, 150), (236, 34), "Where are the motors described?")
    leaves = (
        (10, 130, 130, "Motors", "arrays in, efforts out", REAL),
        (154, 130, 166, "actuon.mujoco.load", "an MjModel with motors", REAL),
        (334, 252, 176, "ArticulationActuators", "a motor for each joint,\nby name", REAL),
        (534, 252, 136, "ActuatorGroups", "configs of actuon.lab", REAL),
        (10, 252, 98, "DriveActuon", "in Newton, Isaac", GREY),
        (114, 252, 104, "actuon.mjlab", "in mjlab", GREY),
        (224, 252, 96, "actuon.gym", "in Gymnasium", GREY),
    )
    for x, y, width, name, text, colour in leaves:
        box(axis, (x, y), (width, 60), name, text, colour)
    for start, end, text, place in (
        ((215, 80), (75, 130), "my simulator,\non arrays", (90, 96)),
        ((275, 80), (245, 130), "my loop around\nmj_step", (310, 108)),
        ((380, 80), (552, 150), "Actuon's simulation\n(MuJoCo or Newton)", (540, 104)),
        ((510, 184), (422, 252), "robot file, YAML\nor Python", (408, 214)),
        ((592, 184), (602, 252), "groups, as in\nIsaac Lab", (638, 218)),
    ):
        arrow(axis, start, end, colour=MUTED)
        write(axis, place, text, MUTED, "center", fontsize=8)
    axis.text(10, 238, "another framework has a loop of its own:", fontsize=8, color=MUTED, va="center")
    axis.text(
        10, 334, "Actuator, below all of them: for gradients and captured graphs.", fontsize=8, color=MUTED, va="center"
    )
    return figure


def _question(axis: Any, corner: tuple[float, float], size: tuple[float, float], text: str) -> None:
    axis.add_patch(_rectangle(corner, size, GREY, 0.12))
    axis.text(corner[0] + size[0] / 2, corner[1] + size[1] / 2, text, ha="center", va="center", fontsize=9.5, zorder=4)


DRAWINGS = {
    "chain": chain,
    "envelope_dc_motor": dc_motor,
    "envelope_torque_speed": torque_speed,
    "envelope_voltage": voltage,
    "envelope_max_effort": max_effort,
    "timing": timing,
    "datasheet": datasheet,
    "choose": choose,
}
"""Pictures by the names of their files."""
