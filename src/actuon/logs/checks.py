# SPDX-License-Identifier: Apache-2.0
"""Checks of a log for probable errors. They change nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .log import Finding, FindingKind, JointLog, Log
from .noise import is_above_noise, motion_of, noise_of, spikes, without_spikes

_GAP = 5.0
"""Steps of the usual length, from which on a step is a gap."""
_UNEVEN = 0.1
"""Spread of the steps from which on they are uneven [usual step]."""
_STALE = 0.1
"""Share of samples that repeat the one before while the joint moves, from which on positions are stale."""
_SLOW = 30.0
"""Rate below which a log is slow [Hz]."""
_FROZEN = 0.25
"""Time for which a position may stay the same [s]."""
_FURTHEST_OFF = 20
"""Rests that are examined, those furthest from their commands: each takes time in proportion to the log."""
_RELATED, _BETTER = 0.9, 4.0
"""Correlation with the command of another joint from which on columns may be swapped, and how much further from 1 the
correlation with the joint's own command must be."""
_FURTHEST = 2.0
"""Longest lag of positions behind commands that is searched [s]."""
_SAG = 0.1
"""Largest distance of a stated supply from the measured range, as a share, that load and charge explain."""
_FOLLOWS = 0.5
"""Correlation with the command from which on a joint moves, however slow the log: fast motion then looks like noise."""


def _warning(kind: FindingKind, where: str, text: str) -> Finding:
    return Finding(text, kind, where, "warning")


def gaps(time: np.ndarray, row: Callable[[int], str]) -> Iterator[Finding]:
    """Yield missing samples, and uneven steps.

    Args:
        time: Times of the samples [s], shape (T,).
        row: Returns the name of a sample in the file.
    """
    steps = np.diff(time)
    usual = float(np.median(steps))
    missing = np.flatnonzero(steps > _GAP * usual)
    if len(missing):
        worst = int(missing[np.argmax(steps[missing])])
        yield _warning(
            "gap",
            "time",
            f"time: {len(missing)} gap{'s' if len(missing) > 1 else ''}, the longest of {steps[worst]:.3g} s after "
            f"{time[worst]:.4g} s ({row(worst)})",
        )
    if usual * _SLOW > 1.0:
        yield _warning(
            "rate",
            "time",
            f"time: only {1.0 / usual:.3g} samples per second: a fit cannot resolve delays and steps within "
            f"{1e3 * usual:.3g} ms; record at 100 Hz or more",
        )
    low, high = np.quantile(steps, (0.01, 0.99))
    if high - low > _UNEVEN * usual:
        yield Finding(
            f"time: uneven steps, {1e3 * low:.3g} to {1e3 * high:.3g} ms, mostly {1e3 * usual:.3g} ms", "uneven", "time"
        )


def check_joint(log: Log, joint: JointLog, row: Callable[[int], str]) -> Iterator[Finding]:
    """Yield findings on one joint.

    Args:
        log: Its log.
        joint: The joint.
        row: Returns the name of a sample in the file.
    """
    if np.ptp(joint.position) == 0.0:
        yield _warning(
            "still", joint.name, f"{joint.name}: does not move: the position is {joint.position[0]:.4g} in all samples"
        )
        return
    if is_still(log.time, joint):
        lengths = motion_of(joint.position), noise_of(joint.position)
        moved, noise = (f"{1e3 * each:.2g} m{joint.unit}" for each in lengths)
        yield _warning(
            "still",
            joint.name,
            f"{joint.name}: does not move: the position stays within {moved} of {np.median(joint.position):.4g} on "
            f"average, about its noise ({noise})",
        )
        return
    yield from _spikes(joint, row)
    yield from _frozen(log.time, joint, row)
    if joint.velocity is not None:
        change = _smooth(np.gradient(joint.position, log.time))
        if _correlation(change, _smooth(joint.velocity)) < -0.8:
            yield _warning(
                "sign", joint.name, f"{joint.name}: velocity and position have opposite signs; state the 'sign' of one"
            )
    rows = _longest_enabled(joint)
    if not len(log.time[rows]):
        yield _warning("off", joint.name, f"{joint.name}: the motor is never switched on")
    elif joint.command is not None and np.ptp(joint.command[rows]) == 0.0:
        yield _warning(
            "constant command", joint.name, f"{joint.name}: the command is constant, {joint.command[rows][0]:.4g}"
        )


def is_still(time: np.ndarray, joint: JointLog) -> bool:
    """Return whether a joint moves no further than the noise of its positions, and does not follow its command.

    Args:
        time: Times of the samples [s], shape (T,).
        joint: The joint.
    """
    if is_above_noise(without_spikes(joint.position)):
        return False
    rows = _longest_enabled(joint)
    if joint.command is None or len(time[rows]) < 2:
        return True
    return abs(_lag(time[rows], joint.command[rows], joint.position[rows])[1]) < _FOLLOWS


def _spikes(joint: JointLog, row: Callable[[int], str]) -> Iterator[Finding]:
    """Yield a finding on positions, up to three in a row, far from those around them."""
    found = np.flatnonzero(spikes(joint.position))
    if len(found):
        off = np.abs(joint.position - without_spikes(joint.position))
        worst = int(np.argmax(off))
        yield _warning(
            "spike",
            joint.name,
            f"{joint.name}: {len(found)} position spike{'s' if len(found) > 1 else ''} of up to {off[worst]:.3g} "
            f"{joint.unit} ({row(worst)})",
        )


def _frozen(time: np.ndarray, joint: JointLog, row: Callable[[int], str]) -> Iterator[Finding]:
    """Yield a finding on times in which the position was not read: it stays the same while its command moves away
    further than elsewhere, or it jumps afterwards."""
    change = np.abs(np.diff(joint.position))
    if len(change) < 20 or not change.any():
        return
    usual = float(np.quantile(change[change > 0.0], 0.95))
    rests = [
        (start, end)
        for start, end in _constant(change)
        if end - start >= 10 and time[end] - time[start] >= _FROZEN and end + 1 < len(change)
    ]
    jumps = {rest for rest in rests if _jumps_after(time, joint, change, rest[1], usual)}
    left = (rest for rest in _furthest_off(joint, rests) if rest not in jumps and _is_left_behind(time, joint, *rest))
    found = [*jumps, *left]
    if found:
        start, end = max(found, key=lambda each: time[each[1]] - time[each[0]])
        yield _warning(
            "frozen",
            joint.name,
            f"{joint.name}: the position does not change from {time[start]:.4g} s to {time[end]:.4g} s ({row(start)})"
            f"{f', and {len(found) - 1} more times' if len(found) > 1 else ''}, although the joint must move: it was "
            "not read, or the joint was blocked; leave that part out",
        )


def _constant(change: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the first and last sample of each time in which a signal stays the same, by its changes."""
    edges = np.flatnonzero(np.diff(np.concatenate([[1], change > 0.0, [1]]).astype(int)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _furthest_off(joint: JointLog, rests: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the rests furthest from their commands, with the motor on; none without commands of the position."""
    if joint.command is None:
        return []
    if joint.enabled is not None:
        rests = [(start, end) for start, end in rests if joint.enabled[start : end + 1].all()]
    off = joint.position - joint.command
    off = np.abs(off - np.median(off))
    return sorted(rests, key=lambda rest: -off[rest[0] : rest[1] + 1].max())[:_FURTHEST_OFF]


def _jumps_after(time: np.ndarray, joint: JointLog, change: np.ndarray, end: int, usual: float) -> bool:
    """Return whether the position jumps after a rest without a step of its command.

    A joint that starts to move speeds up from sample to sample; one that is read again jumps in one.
    """
    if change[end] <= 3.0 * usual or change[end] <= 3.0 * change[end + 1]:
        return False
    if joint.command is None:
        return True
    recent = joint.command[np.searchsorted(time, time[end] - _FROZEN) : end + 2]
    return bool(np.abs(np.diff(recent)).max(initial=0.0) < 0.3 * change[end])


def _is_left_behind(time: np.ndarray, joint: JointLog, start: int, end: int) -> bool:
    """Return whether the command is much further away than elsewhere in the log, for longer than a start takes."""
    assert joint.command is not None
    off = joint.position - joint.command
    rest = np.concatenate([off[:start], off[end + 1 :]])
    middle = float(np.median(rest))
    most = float(np.quantile(np.abs(rest - middle), 0.98))
    far = np.flatnonzero(np.abs(off[start : end + 1] - middle) > 2.0 * most + 0.05 * np.ptp(joint.position))
    return bool(len(far)) and float(time[end] - time[start + far[0]]) > _FROZEN


def _is_stale(joint: JointLog) -> bool:
    """Return whether positions repeat between samples in which the joint moves by several of its smallest steps."""
    position = joint.position
    change = np.abs(np.diff(position))
    moved = change[change > 0.0]
    if len(position) < 20 or not len(moved):
        return False
    travel = np.abs(position[4:] - position[:-4])
    is_moving = np.minimum(travel[:-5], travel[5:]) > 12.0 * np.quantile(moved, 0.01)
    repeats = change[4:-4] == 0.0
    return bool(is_moving.sum() >= 20 and repeats[is_moving].mean() > _STALE)


@dataclass(frozen=True)
class _Following:
    """Lag and correlation of a position behind its command."""

    joint: str
    lag: float
    """Lag of the position [s]; NaN if it is unknown."""
    alike: float
    """Correlation after a shift by the lag."""
    at_once: float
    """Correlation without a shift."""
    drift: float
    """Lag in the second half minus that in the first [s]; NaN if it is unknown."""


def check_joints(log: Log) -> Iterator[Finding]:
    """Yield findings on all joints: repeated readings, signs, swapped columns, and lags behind commands."""
    stale = [joint.name for joint in log.joints if _is_stale(joint)]
    if stale:
        yield _warning(
            "stale",
            ", ".join(stale),
            f"{', '.join(stale)}: positions repeat while the joint moves: the sensor is slower than the log",
        )
    found = [each for joint in log.joints if (each := _follow(log, joint))]
    opposite = [each for each in found if -each.at_once > max(0.5, 0.85 * each.alike)]
    if opposite:
        names = ", ".join(each.joint for each in opposite)
        yield _warning(
            "sign",
            names,
            f"{names}: position and command have opposite signs (correlation "
            f"{opposite[0].at_once:.2f}); state the 'sign' of one in a mapping",
        )
        return
    swapped = list(_swapped(log, found))
    if swapped:
        yield from swapped
        return
    step = float(np.median(np.diff(log.time)))
    lags = [each.lag for each in found if math.isfinite(each.lag)]
    if lags and min(lags) < -max(2.5 * step, 0.01):
        yield _warning(
            "clock", "", f"positions come {-min(lags):.3g} s before their commands: the two are on different clocks"
        )
    elif lags and min(lags) > max(10.0 * step, 0.25):
        yield _warning(
            "lag",
            "",
            f"positions come {min(lags):.3g} s after their commands, {min(lags) / step:.0f} samples: the joint is "
            "slow, or the two are on different clocks",
        )
    drifts = np.array([each.drift for each in found if math.isfinite(each.drift)])
    if len(drifts) and np.abs(drifts).min() > max(5.0 * step, 0.1) and np.ptp(np.sign(drifts)) == 0.0:
        more = "more" if drifts[0] > 0.0 else "less"
        yield _warning(
            "drift",
            "",
            f"positions lag commands by {abs(np.median(drifts)):.3g} s {more} in the second half than in the first: "
            "their clocks run at different speeds",
        )


def check_supply(log: Log) -> Iterator[Finding]:
    """Yield a finding if the settings state another supply voltage than the log has."""
    stated = log.settings.get("vin")
    measured = next((joint.supply for joint in log.joints if joint.supply is not None), None)
    if not isinstance(stated, (int, float)) or measured is None:
        return
    low, high = (float(end) for end in np.quantile(measured, (0.01, 0.99)))
    if not (1.0 - _SAG) * low <= stated <= (1.0 + _SAG) * high:
        yield _warning(
            "supply",
            "vin",
            f"supply: the settings state vin {stated:.4g} V, but the log has {np.median(measured):.4g} V ({low:.4g} to "
            f"{high:.4g}); a servo model takes the stated one: correct it in the log or in a mapping",
        )


def _swapped(log: Log, found: Sequence[_Following]) -> Iterator[Finding]:
    """Yield findings on joints whose positions follow the command of another one, which does not follow it itself."""
    lost = [each.joint for each in found if each.alike < 1.0 - (1.0 - _RELATED) / _BETTER]
    alike = {name: {other: _alike(log.joint(name), log.joint(other), log.time) for other in lost} for name in lost}
    follows = {name: max(own, key=own.__getitem__) for name, own in alike.items()}
    for name, other in follows.items():
        best, own = alike[name][other], alike[name][name]
        if follows[other] != other and best > _RELATED and 1.0 - own > _BETTER * (1.0 - best):
            yield _warning(
                "swapped",
                name,
                f"{name}: the position follows the command of {other} (correlation {best:.2f}), not its own "
                f"({own:.2f}): columns may be swapped; state their meanings in a mapping",
            )


def _alike(joint: JointLog, other: JointLog, time: np.ndarray) -> float:
    """Return the correlation of a joint's position with the command of another, at the best lag."""
    assert other.command is not None
    rows = _longest_enabled(joint)
    return _lag(time[rows], other.command[rows], joint.position[rows])[1]


def _follow(log: Log, joint: JointLog) -> _Following | None:
    rows = _longest_enabled(joint)
    if joint.command is None or len(log.time[rows]) < 50:
        return None
    time, position, command = log.time[rows], joint.position[rows], joint.command[rows]
    if np.ptp(command) == 0.0 or np.ptp(position) == 0.0:
        return None
    half = len(time) // 2
    first, _, _ = _lag(time[:half], command[:half], position[:half])
    second, _, _ = _lag(time[half:], command[half:], position[half:])
    lag, alike, at_once = _lag(time, command, position)
    return _Following(joint.name, lag, alike, at_once, second - first)


def _longest_enabled(joint: JointLog) -> slice:
    if joint.enabled is None or joint.enabled.all():
        return slice(None)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], joint.enabled.astype(int), [0]])))
    starts, stops = edges[::2], edges[1::2]
    if not len(starts):
        return slice(0)
    longest = int(np.argmax(stops - starts))
    return slice(int(starts[longest]), int(stops[longest]))


def _lag(time: np.ndarray, command: np.ndarray, position: np.ndarray) -> tuple[float, float, float]:
    """Return the lag of the position behind the command [s], and their correlation with and without that shift.

    The lag is NaN unless the shift raises the correlation much: friction delays a position and also changes its shape.
    """
    count = min(len(time), 1 << 15)
    even = np.linspace(time[0], time[-1], count)
    first, second = (np.interp(even, time, values) for values in (command, position))
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.linalg.norm(first) * np.linalg.norm(second))
    if scale == 0.0:
        return math.nan, 0.0, 0.0
    step = float(even[1] - even[0])
    padded = 2 * count
    products = np.fft.irfft(np.fft.rfft(second, padded) * np.conj(np.fft.rfft(first, padded)), padded) / scale
    furthest = min(count // 4, int(_FURTHEST / step))
    shifts = np.concatenate([np.arange(furthest + 1), np.arange(-furthest, 0)])
    best = int(np.argmax(products[shifts]))
    alike, at_once = float(products[shifts[best]]), float(products[0])
    is_sure = alike > 0.9 and 1.0 - at_once > 2.0 * (1.0 - alike)
    return float(shifts[best] * step) if is_sure else math.nan, alike, at_once


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    if not len(first) or not (first.std() > 0.0 and second.std() > 0.0):
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _smooth(values: np.ndarray) -> np.ndarray:
    return np.convolve(values, np.full(9, 1.0 / 9.0), mode="valid") if len(values) >= 20 else np.array([])
