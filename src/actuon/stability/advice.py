# SPDX-License-Identifier: Apache-2.0
"""Results of the stability analysis as text, with what makes an unstable robot stable."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator

from .limits import JointStability, RobotStability

log = logging.getLogger("actuon.stability")
"""Logger of warnings about unstable actuators, at the time when they are attached."""

_LONGEST_IN_USE = 0.1
"""Longest time step of physics in practice [s]."""
_DEGREES = 180.0 / math.pi
_SHOWN = 4
"""Most joints to name in one line."""

ABSENT = "—"
"""Cell of a value that does not apply, and sign of a joint without gains."""


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress warnings about unstable actuators, in what reports stability by itself."""
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def percent(usage: float) -> str:
    """Return a stability usage in %. A stable one is at most 99 %."""
    value = 100.0 * usage if usage >= 1.0 else min(100.0 * usage, 99.0)
    return f"{value:.0f} %" if 10.0 <= value < 1e6 else f"{value:.2g} %"


def summary_line(robot: RobotStability) -> str:
    """Return the stability of a robot in one line."""
    worst = max(robot.joints, key=lambda joint: joint.usage)
    if not any(joint.has_gains for joint in robot.joints):
        return f"{ABSENT} {robot.path}: no joint has gains, so there is no stability limit"
    sign = "✓" if robot.is_stable else "✗"
    is_long = robot.largest_dt > _LONGEST_IN_USE
    largest = "at any time step used in practice" if is_long else f"for dt ≤ {milliseconds(robot.largest_dt)}"
    return (
        f"{sign} {robot.path}: {worst.name} uses {percent(robot.usage)} of the stability limit at dt = "
        f"{milliseconds(robot.dt)}; stable {largest}"
    )


def advice(robot: RobotStability) -> str:
    """Return the ways to make an unstable robot stable, one per line."""
    unstable = _unstable(robot)
    where = f" in some poses, {percent(robot.usage_at_start)} in the present one" if robot.usage_at_start < 1.0 else ""
    names = some([f"{joint.name} {percent(joint.usage)}" for joint in unstable])
    return (
        f"{robot.path}: unstable at dt = {milliseconds(robot.dt)} ({percent(robot.usage)} of the stability limit"
        f"{where}: {names}). {_fixes(robot, unstable)}"
    )


def why_diverged(robot: RobotStability, joint: str | None) -> str:
    """Return whether the gains explain that a joint diverged, and what to do."""
    found = next((each for each in robot.joints if each.name == joint), None)
    own = robot.usage if found is None else found.usage
    whose = "its gains use" if found is None else f"the gains of {joint} use"
    used = f"{whose} {percent(own)} of the stability limit at dt = {milliseconds(robot.dt)}"
    if robot.is_stable:
        return (
            f"{used}, so the time step is not the cause: look for targets and efforts that jump, and for contacts "
            "that push"
        )
    return f"{used}. {_fixes(robot, _unstable(robot))}"


def low_gains(joint: JointStability) -> str:
    """Return advice for a joint whose gains are too low for its load."""
    unit = "N/m" if joint.slides else "N·m/rad"
    degrees = "" if joint.slides else f"; if they are per degree, multiply them by {_DEGREES:.1f}"
    return f"its gains are low for the load (kp {number(joint.kp)} {unit}){degrees}"


def _unstable(robot: RobotStability) -> list[JointStability]:
    """Return the unstable joints, the worst first."""
    return sorted((joint for joint in robot.joints if joint.usage >= 1.0), key=lambda joint: -joint.usage)


def _fixes(robot: RobotStability, unstable: list[JointStability]) -> str:
    """Return the fixes, each of which makes all joints stable."""
    lowered = [f"{joint.name} kp {number(joint.stable_kp)}, kd {number(joint.stable_kd)}" for joint in unstable]
    inertias = [
        f"{joint.name} ≥ {number(joint.armature_needed)} {'kg' if joint.slides else 'kg·m²'}" for joint in unstable
    ]
    implicit = "effort_mode: implicit (implicit integration)"
    if unstable and all(joint.is_implicit for joint in unstable):
        implicit = "integrator: implicit in positions as well as in velocities, as MuJoCo's discrete"
    fixes = (
        f"dt ≤ {milliseconds(robot.largest_dt)}",
        f"lower gains: {'; '.join(lowered)}",
        f"armature: {', '.join(inertias)}",
        implicit,
    )
    return "\n- ".join(("Fix one of:", *fixes))


def some(texts: list[str]) -> str:
    """Return the first texts, and how many more there are."""
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def number(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"


def milliseconds(seconds: float) -> str:
    """Return a time in ms."""
    return f"{1e3 * seconds:.3g} ms"
