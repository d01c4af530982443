# SPDX-License-Identifier: Apache-2.0
"""The clock of a log: from a column of time to increasing seconds."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import numpy as np

from ..errors import LogError
from .columns import Column
from .signals import LARGEST, not_a_number
from .table import Table
from .units import factor

_SLOWEST, _FASTEST = 0.2, 2e-4
"""Steps of logs that are of use [s]. They are a factor of 1000 apart, so that only one unit fits."""
_SHORTEST = 1e-9
"""Samples that are closer have the same time [s]."""
_EPOCH = 1e8
"""Times from here on are counted from 1970, or from when a computer was started [s]."""
_COARSE = 0.2
"""Share of samples with the time of the one before, from which on the clock is too coarse."""


@dataclass(frozen=True, eq=False)
class Clock:
    """Times of a log [s], the rows of the file they belong to, and the time that was taken off all of them [s]."""

    time: np.ndarray
    rows: np.ndarray
    start: float = 0.0


def read_clock(table: Table, column: Column, rows: np.ndarray, findings: list[str]) -> Clock:
    """The times of rows. Of rows with the same time, the last stays.

    Raises:
        LogError: Time runs backwards, is not a number, or its unit is ambiguous; says where.
    """
    time = seconds(table, column, rows, findings)
    steps = np.diff(time)
    for i in np.flatnonzero(steps < 0.0)[:1]:
        raise LogError(
            f"{table.at(rows[i + 1], column.name)}: time runs backwards, from {time[i]:.9g} s to {time[i + 1]:.9g} s; "
            "must increase"
        )
    same = np.flatnonzero(steps < _SHORTEST)
    if len(same) > _COARSE * len(steps) or len(same) == len(steps):
        raise LogError(
            f"'{table.path}', column '{column.name}': {len(same)} of {len(time)} samples have the time of the one "
            "before; the clock is too coarse. Where samples are evenly spaced, give their 'rate' in a mapping instead"
        )
    if len(same):
        findings.append(
            f"{column.name}: {len(same)} samples have the time of the one after (first: {table.row(rows[same[0]])}), "
            "and are left out"
        )
        time, rows = np.delete(time, same), np.delete(rows, same)
    start = float(time[0]) if abs(time[0]) >= _EPOCH else 0.0
    if start:
        findings.append(f"{column.name}: starts at {start:.9g} s; counted from there")
    return Clock(time - start, rows, start)


def seconds(table: Table, column: Column, rows: np.ndarray, findings: list[str]) -> np.ndarray:
    """A column of time in seconds, wrapped counters unwrapped."""
    dates = _dates(table.columns[column.name])
    if dates is not None:
        findings.append(f"{column.name}: dates, turned to seconds")
        return dates[rows] + column.offset
    time = table.numbers(column.name)[rows] * column.scale
    for i in np.flatnonzero(~(np.abs(time) < LARGEST))[:1]:
        raise LogError(f"{table.at(rows[i], column.name)}: {not_a_number(time[i])}")
    time = _unwrapped(column.name, time, findings)
    unit = column.unit or _unit(table, column, time, findings)
    return time * factor("time", unit) + column.offset


def _dates(values: np.ndarray) -> np.ndarray | None:
    if values.dtype.kind != "U":
        return None
    try:
        return np.array([datetime.datetime.fromisoformat(text).timestamp() for text in values])
    except ValueError:
        return None


def _unwrapped(name: str, time: np.ndarray, findings: list[str]) -> np.ndarray:
    """Counters of 16 or 32 bits start again from 0."""
    for bits in (16, 32):
        period = 2.0**bits
        steps = np.diff(time)
        falls = steps < 0.0
        usual = float(np.median(steps[~falls])) if not falls.all() else 0.0
        is_counter = falls.any() and time.min() >= 0.0 and time.max() < period and not np.any(time % 1.0)
        if is_counter and np.all(steps[falls] + period > 0.0) and np.median(steps[falls] + period) < 3.0 * usual:
            findings.append(f"{name}: a counter of {bits} bits that starts again from 0, unwrapped")
            return time + period * np.concatenate([[0], np.cumsum(falls)])
    return time


def _unit(table: Table, column: Column, time: np.ndarray, findings: list[str]) -> str:
    """The unit in which the steps are those of a log."""
    steps = np.diff(time)
    step = float(np.median(steps[steps > 0.0])) if np.any(steps > 0.0) else 0.0
    if step < _SLOWEST:
        return "s"
    if step < 1.0:
        raise LogError(
            f"'{table.path}', column '{column.name}': steps of {step:.3g} may be seconds or milliseconds; say which, "
            "with 'units: {time: ms}' in a mapping or a name such as 'time_ms'"
        )
    for unit in ("ms", "us", "ns"):
        if _FASTEST <= step * factor("time", unit) < _SLOWEST:
            findings.append(f"{column.name}: steps of {step:.6g} are {unit}, turned to seconds")
            return unit
    raise LogError(f"'{table.path}', column '{column.name}': got steps of {step:.3g}; say their unit in a mapping")


def on_clock(clock: Clock, times: np.ndarray, table: Table, column: Column, findings: list[str]) -> np.ndarray:
    """Which of the commands, given at ``times`` [s] of a clock of their own, holds at each sample.

    Raises:
        LogError: Their clock runs backwards, or is at another time altogether.
    """
    times = times - clock.start
    for i in np.flatnonzero(np.diff(times) < 0.0)[:1]:
        raise LogError(
            f"{table.at(clock.rows[i + 1], column.name)}: time runs backwards, from {times[i]:.9g} s to "
            f"{times[i + 1]:.9g} s; must increase"
        )
    span = clock.time[-1] - clock.time[0]
    common = min(times[-1], clock.time[-1]) - max(times[0], clock.time[0])
    if common < 0.5 * span:
        raise LogError(
            f"'{table.path}': commands are from {times[0]:.6g} s to {times[-1]:.6g} s by the clock '{column.name}', "
            f"samples from {clock.time[0]:.6g} s to {clock.time[-1]:.6g} s by theirs; state the 'offset' of "
            "one in a mapping"
        )
    ahead = 1e3 * (clock.time - times)
    findings.append(
        f"{column.name}: commands have a clock of their own; in its rows they are {np.median(ahead):.3g} ms "
        f"({ahead.min():.3g} to {ahead.max():.3g}) before the samples. Each holds from its own time"
    )
    held: np.ndarray = np.clip(np.searchsorted(times, clock.time, side="right") - 1, 0, None)
    return held
