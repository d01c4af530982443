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
    IDEAL,
    INK,
    LIMIT,
    MUTED,
    PANEL,
    REAL,
    TARGET,
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
    top, bottom = 78, 148
    axis.axvspan(308, 548, 0.16, 0.86, color=REAL, alpha=0.08, linewidth=0)
    for x in (308, 548):
        axis.plot([x, x], [44, 262], color=MUTED, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1)
    for x, name in ((154, "joint side"), (428, "motor side of the gear"), (614, "joint side")):
        axis.text(x, 54, name, ha="center", va="center", fontsize=9, color=MUTED, style="italic")
    boxes = (
        (12, 76, "command", "position,\nvelocity,\neffort", TARGET),
        (106, 70, "delay", "steps or\nseconds", REAL),
        (194, 86, "controller", "PD, PID,\nnetwork,\nservo", REAL),
        (330, 90, "limits", "peak, speed,\nvoltage,\nheat", LIMIT),
        (440, 90, "losses", "friction,\ncurrent loop,\nripple", REAL),
        (576, 92, "joint", "inertia,\ncontacts:\nthe engine", GREY),
    )
    for x, width, name, text, colour in boxes:
        box(axis, (x, top), (width, bottom - top), name, text, colour)
    middle = (top + bottom) / 2
    for left, right in itertools.pairwise(boxes):
        arrow(axis, (left[0] + left[1], middle), (right[0], middle))
    for x in (308, 548):
        axis.add_patch(_circle((x, middle), 12))
        axis.text(x, middle, "n", ha="center", va="center", fontsize=9, style="italic", zorder=5)
    axis.text(301, bottom + 12, "requested\neffort ÷ n", ha="right", va="top", fontsize=8, color=MUTED)
    axis.text(542, bottom + 12, "motor effort", ha="right", va="top", fontsize=8, color=MUTED)
    axis.text(554, bottom + 12, "applied\neffort × n", ha="left", va="top", fontsize=8, color=MUTED)
    box(axis, (190, 214), (94, 48), "sensors", "encoder, filter", REAL)
    arrow(axis, (640, bottom), (640, 238), (284, 238), colour=GREEN)
    arrow(axis, (237, 214), (237, bottom), colour=GREEN)
    arrow(axis, (375, 238), (375, bottom), colour=GREEN)
    axis.text(634, 255, "position,\nvelocity", ha="right", va="center", fontsize=8, color=GREEN)
    axis.text(382, 200, "speed × n", ha="left", va="center", fontsize=8, color=GREEN)
    note = "n: gear ratio. Only the controller is required, and stages may stand in any order."
    axis.text(12, 284, note, fontsize=8, color=MUTED, va="center")
    return figure


def _circle(centre: tuple[float, float], radius: float) -> Any:
    from matplotlib.patches import Circle

    return Circle(centre, radius, facecolor=PANEL, edgecolor=INK, linewidth=1.2, zorder=4)


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
    point_out(axis, "stall effort\nsaturation_effort = 20", (0.0, stall), (2.2, 21.5))
    point_out(axis, "no-load speed\nvelocity_limit = 10", (no_load, 0.0), (12.6, 5.0))
    point_out(axis, "peak effort\nmax_motor_effort = 15", (-9.0, peak), (-9.0, 21.5), ha="center")
    point_out(
        axis, "corner velocity 17.5:\nvelocity_limit · (1 + peak / stall)", (corner, -peak), (14.5, -21.5), ha="center"
    )
    _name_quadrants(axis, 4.2, 5.0)
    return figure


def voltage() -> Any:
    """Draw the envelope of `ClampingVoltage`, with what makes it."""
    constant, resistance, supply, current = 0.1, 0.5, 24.0, 30.0
    stage = actuon.VoltageClampingConfig(
        torque_constant=constant, resistance=resistance, bus_voltage=supply, max_current=current
    )
    figure, axis = plot("Supply, winding and controller bound the effort", 400)
    _draw_envelope(axis, stage, (520.0, 6.2))
    stall, no_load, peak = constant * supply / resistance, supply / constant, constant * current
    kink = no_load * (1 - peak / stall)
    axis.plot([0.0, kink], [stall, peak], color=LIMIT, linewidth=1.2, linestyle=(0, (4, 2.5)))
    axis.plot([0.0, no_load, kink], [stall, 0.0, peak], "o", color=LIMIT, markersize=4.5, zorder=5)
    point_out(axis, "kt · U / R = 4.8\nstall, by the supply alone", (0.0, stall), (40.0, 5.35))
    point_out(axis, "U / kt = 240\nno-load speed", (no_load, 0.0), (290.0, 1.2))
    point_out(axis, "kt · max_current = 3", (-200.0, peak), (-200.0, 4.4), ha="center")
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
    point_out(axis, "driving (0, 20.2)", (0.0, 20.2), (2.5, 27.5))
    point_out(axis, "driving (13.5, 20.2)", (13.5, 20.2), (17.0, 23.5))
    point_out(axis, "driving (30, 0)", (30.0, 0.0), (31.0, 4.5))
    point_out(axis, "braking (0, 23.4): at any speed", (-20.0, 23.4), (-20.0, 29.0), ha="center")
    _name_quadrants(axis, 9.0, 7.0)
    return figure


def max_effort() -> Any:
    """Draw the envelope of `ClampingMaxEffort`."""
    figure, axis = plot("One limit at any speed", 300)
    _draw_envelope(axis, actuon.MaxEffortClampingConfig(max_effort=15.0), (20.0, 22.0))
    point_out(axis, "max_effort = 15", (6.0, 15.0), (7.0, 19.0))
    point_out(axis, "−max_effort", (6.0, -15.0), (7.0, -19.0))
    _name_quadrants(axis, 9.0, 7.0)
    return figure


def datasheet() -> Any:
    """Draw where the values of a data sheet lie, and which parameters they become."""
    sheet = actuon.MotorDatasheet(
        at="joint",
        stall_torque=38.0,
        peak_torque=22.0,
        rated_torque=9.0,
        rated_speed_rpm=390.0,
        no_load_speed_rpm=570.0,
    )
    (stage,) = sheet.stages()
    assert isinstance(stage, actuon.DCMotorClampingConfig)
    figure, axis = plot("Values of a data sheet, and the parameters that they become", 360)
    no_load, kink = stage.velocity_limit, stage.velocity_limit * (1 - stage.max_motor_effort / stage.saturation_effort)
    speeds = np.linspace(0.0, no_load, 200)
    most = envelope(_motor(stage), speeds).most
    axis.fill_between(speeds, 0.0, most, color=REAL, alpha=0.10, linewidth=0)
    axis.plot(speeds, most, color=LIMIT)
    axis.plot([0.0, kink], [stage.saturation_effort, stage.max_motor_effort], color=LIMIT, linestyle=(0, (4, 2.5)))
    rated = sheet.at_joint
    axis.plot([0.0, rated["rated_speed"]], [rated["rated_torque"]] * 2, color=GREEN, linestyle=(0, (1, 1.5)))
    points = {
        "stall_torque: by the supply alone, at rest\n→ saturation_effort": (0.0, stage.saturation_effort, 5.0, 39.0),
        "peak_torque: for a short time\n→ max_motor_effort": (12.0, stage.max_motor_effort, 2.5, 17.0),
        "no_load_speed: end of the falling line\n→ velocity_limit": (no_load, 0.0, 50.0, 17.0),
        "rated_torque, rated_speed: indefinitely\n→ heat, if thermal values are printed": (
            rated["rated_speed"], rated["rated_torque"], 3.0, 4.2),
    }  # fmt: skip
    for text, (x, y, to_x, to_y) in points.items():
        colour = GREEN if text.startswith("rated") else LIMIT
        axis.plot(x, y, "o", color=colour, markersize=5, zorder=5)
        point_out(axis, text, (x, y), (to_x, to_y))
    axis.text(34.0, 12.5, "driving", color=REAL, style="italic", fontsize=9.5, ha="center")
    axis.set(
        xlim=(0.0, 80.0), ylim=(0.0, 43.0), xlabel="speed at the joint [rad/s]", ylabel="torque at the joint [N·m]"
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
    figure, axis = canvas("Which command acts when: four steps of physics for each step of the policy", 388)
    left, width, height = 150, 25.5, 26
    rows = [
        ("policy", "a target every 20 ms", commands, TARGET),
        ("delay_steps = 0", "same step", _delayed(commands, 0, reset_at=reset), REAL),
        ("delay_steps = 1", "one step later", _delayed(commands, 1, reset_at=reset), REAL),
        ("delay_steps = 2", "two steps later", _delayed(commands, 2, reset_at=reset), REAL),
        ("control_every = 4", "and delay_steps = 2", _delayed(commands, 2, 4, reset_at=reset), IDEAL),
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
    note = "A to E: targets of the policy, and where they act on the joint"
    axis.text(left, y + 38, note, ha="left", va="center", fontsize=8.5, color=MUTED)
    axis.text(left + count * width, y + 38, "time [ms]", ha="right", va="center", fontsize=8.5, color=MUTED)
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
    figure, axis = canvas("Which of these do I use?", 330)
    _question(axis, (160, 46), (270, 36), "What steps the joints?")
    _question(axis, (430, 150), (236, 36), "Where are the motors described?")
    leaves = (
        (14, 132, 152, "Motors", "arrays in, efforts out;\nActuator for gradients\nand captured graphs"),
        (182, 132, 172, "actuon.mujoco.load", "an MjModel that moves\nwith motors wherever\nMuJoCo steps it"),
        (340, 244, 172, "ArticulationActuators", "a motor for each joint,\nby name"),
        (528, 244, 130, "ActuatorGroups", "configs of\nactuon.lab"),
    )
    for x, y, width, name, text in leaves:
        box(axis, (x, y), (width, 72), name, text, REAL)
    for start, end, text, place in (
        ((200, 82), (90, 132), "my simulator,\non arrays", (94, 102)),
        ((295, 82), (268, 132), "my loop around\nmj_step", (336, 110)),
        ((400, 82), (548, 150), "Actuon's simulation\n(MuJoCo or Newton)", (532, 104)),
        ((500, 186), (428, 244), "robot file, YAML\nor Python", (402, 213)),
        ((590, 186), (593, 244), "groups, as in\nIsaac Lab", (638, 215)),
    ):
        arrow(axis, start, end, colour=MUTED)
        write(axis, place, text, MUTED, "center", fontsize=8)
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
