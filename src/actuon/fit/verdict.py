# SPDX-License-Identifier: Apache-2.0
"""`Verdict`: the error of a fit compared with the noise of the logs and with trivial predictors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..logs import JointLog, Log
from ..logs.units import default, held_in

Level = Literal["good", "poor", "bad"]
_NOISE = 5.0
"""Largest error of a good fit, as a multiple of the noise of the logs."""
_USUAL_LAG, _LONGEST_LAG = 0.25, 2.0
"""Usual and longest delay between commands and positions that is searched [s]."""
_LAGS = 81
_SAMPLES = 2000
"""Maximum number of samples of a run for the predictors."""
_ORDERS = (3, 4, 5, 6)
"""Orders of the differences for the estimate of the noise."""
_CLEARLY = 0.5
"""Ratio of errors below which a predictor explains the log better than another one."""
_WELL = 0.25
"""Share of the largest useful error below which a fit is good."""
_NEARLY = 1.2
"""Largest ratio of errors, opposite to shifted command, at which the sign is blamed. In a sine both are the same, and
signs are wrong more often than clocks."""
_AS_IT_IS, _OPPOSITE, _SHIFTED, _STILL = (
    "position = command",
    "position = −command",
    "the command, shifted",
    "no motion",
)


@dataclass(frozen=True)
class Verdict:
    """Verdict on the fit of one joint, from mean absolute errors of the position [rad or m].

    Examples:
        >>> simple = {"as_command": 0.142, "simplest": 0.142, "simplest_name": "position = command"}
        >>> verdict = actuon.fit.Verdict("knee", error=0.0013, noise=0.0004, **simple)
        >>> verdict.level
        'good'
        >>> print(verdict.sentence())
        knee: good fit: error 1.3 mrad, 3.2 times the noise of the logs (0.4 mrad); 'position =
        command' has 142 mrad
    """

    joint: str
    error: float
    """Error of the fit."""
    noise: float
    """Noise of the measured positions: encoder resolution and random noise."""
    as_command: float | None
    """Error of "position = command"; None if no positions were commanded."""
    simplest: float
    """Error of the best trivial predictor."""
    simplest_name: str
    """Name of that predictor."""
    cause: str = ""
    """Why the logs cannot be fitted, if they show it: wrong signs or clocks."""
    unit: str = "rad"
    """Unit of the position: rad, or m for a sliding joint."""

    @property
    def level(self) -> Level:
        """Quality of the fit.

        ``"bad"`` above 5 times the noise and above the largest useful error, that of a trivial predictor; ``"poor"``
        above 5 times the noise and above a quarter of the largest useful error, or if signs or clocks are wrong; else
        ``"good"``.
        """
        noise, most = _NOISE * self.noise, _largest_useful(self.simplest_name, self.simplest)
        if not self.error <= max(noise, most):
            return "bad"
        return "good" if self.error <= max(noise, _WELL * most) and not self.cause else "poor"

    @property
    def is_useless(self) -> bool:
        """Whether the fit is bad."""
        return self.level == "bad"

    def sentence(self) -> str:
        """Return the verdict in words."""
        error, noise, simplest = map(self._milli, (self.error, self.noise, self.simplest))
        times = f"{_rounded(self.error / self.noise)} times " if self.noise > 0.0 else ""
        text = f"{self.joint}: {self.level} fit: error {error}, {times}the noise of the logs ({noise})"
        if self.is_useless:
            half = ", and a useful fit at most half of that" if self.simplest_name == _STILL else ""
            cause = self.cause or "see the findings in the logs, and try another model"
            return f"{text}; '{self.simplest_name}' has {simplest}{half}: {cause}"
        others = f"'{self.simplest_name}' has {simplest}"
        if self.as_command is not None and self.simplest_name != _AS_IT_IS:
            others = f"'{_AS_IT_IS}' has {self._milli(self.as_command)}, {others}"
        text = f"{text}; {others}"
        return f"{text}. {self.cause[0].upper()}{self.cause[1:]}" if self.cause else text

    def _milli(self, value: float) -> str:
        return f"{1e3 * value:.3g} m{self.unit}"

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data for JSON, with errors in mrad, or in mm if the unit is m.

        Examples:
            >>> simple = {"as_command": 0.142, "simplest": 0.142, "simplest_name": "position = command"}
            >>> verdict = actuon.fit.Verdict("knee", error=0.0013, noise=0.0004, **simple)
            >>> verdict.as_dict()["level"], verdict.as_dict()["error_mrad"]
            ('good', 1.3)
        """
        return {
            "level": self.level,
            "text": self.sentence(),
            "useless": self.is_useless,
            "unit": self.unit,
            "error_mrad": 1e3 * self.error if np.isfinite(self.error) else None,
            "noise_mrad": 1e3 * self.noise,
            "as_command_mrad": None if self.as_command is None else 1e3 * self.as_command,
            "simplest_mrad": 1e3 * self.simplest,
            "simplest": self.simplest_name,
            "cause": self.cause,
        }


def judge(runs: Sequence[Log], joints: Sequence[str], errors: np.ndarray) -> tuple[Verdict, ...]:
    """Compare the errors of a fit with the noise of its runs and with trivial predictors.

    Args:
        runs: Runs of the fit.
        joints: Names of the joints.
        errors: Mean absolute errors by run and joint [rad or m], shape (R, J).
    """
    return tuple(_judge(runs, name, float(errors[:, j].mean())) for j, name in enumerate(joints))


def _judge(runs: Sequence[Log], name: str, error: float) -> Verdict:
    noise = float(np.mean([noise_of(run.joint(name).position) for run in runs]))
    found = [_Predictors.of(run.time, run.joint(name)) for run in runs]
    still = float(np.mean([each.still for each in found]))
    logged = [run.joint(name).units.get("position", default("position")) for run in runs]
    unit = held_in("position", logged[0])
    if any(each.as_command is None for each in found):
        return Verdict(name, error, noise, None, still, _STILL, unit=unit)
    as_command = float(np.mean([each.as_command for each in found]))
    followed = float(np.mean([each.followed for each in found]))
    opposite = float(np.mean([each.opposite for each in found]))
    shifted = float(np.mean([each.shifted for each in found]))
    simple = min(as_command, followed)
    cause = ""
    if opposite < min(_CLEARLY * simple, _NEARLY * shifted):
        cause = "position and command have opposite signs; state the 'sign' of one in a mapping of columns"
    elif shifted < _CLEARLY * simple:
        lag = float(np.median([each.lag for each in found]))
        where = f"{-lag:.2g} s before" if lag < 0.0 else f"{lag:.2g} s after"
        cause = f"positions come {where} their commands: the two are on different clocks, or logged in different rows"
    predictors = {_AS_IT_IS: as_command, _STILL: still}
    if cause:
        predictors |= {_OPPOSITE: opposite, _SHIFTED: shifted}
    best = min(predictors, key=lambda each: _largest_useful(each, predictors[each]))
    return Verdict(name, error, noise, as_command, predictors[best], best, cause, unit)


def _largest_useful(name: str, error: float) -> float:
    """Return the largest error of a useful fit, given that of a predictor: half of it for "no motion"."""
    return _CLEARLY * error if name == _STILL else error


@dataclass(frozen=True)
class _Predictors:
    """Errors of trivial predictors in one run."""

    still: float
    """Error of "no motion"."""
    as_command: float | None = None
    followed: float = np.inf
    """Error of the command after a usual delay, with an offset."""
    opposite: float = np.inf
    """Error of the negative command after a usual delay, with an offset."""
    shifted: float = np.inf
    """Error of the command with an unusual or negative delay."""
    lag: float = 0.0
    """Delay at this error [s]."""

    @classmethod
    def of(cls, time: np.ndarray, joint: JointLog) -> _Predictors:
        still = float(np.abs(joint.position - np.median(joint.position)).mean())
        on = slice(None) if joint.enabled is None else joint.enabled
        if joint.command is None or len(time[on]) < 2:
            return cls(still)
        as_command = float(np.abs(joint.position - joint.command)[on].mean())
        rows = np.flatnonzero(np.ones(len(time), bool) if joint.enabled is None else joint.enabled)
        rows = rows[:: max(1, len(rows) // _SAMPLES)]
        most = min(_LONGEST_LAG, 0.25 * float(time[-1] - time[0]))
        lags = np.linspace(-most, most, _LAGS)
        errors = {lag: _errors(time, joint, rows, lag) for lag in lags}
        usual = [lag for lag in lags if -1e-9 <= lag <= max(_USUAL_LAG, lags[1] - lags[0])]
        others = [lag for lag in lags if lag not in usual]
        lag = min(others, key=lambda each: errors[each][0])
        followed, opposite = (min(errors[each][sign] for each in usual) for sign in (0, 1))
        return cls(still, as_command, followed, opposite, errors[lag][0], float(lag))


def _errors(time: np.ndarray, joint: JointLog, rows: np.ndarray, lag: float) -> tuple[float, float]:
    """Return the errors of the command after a delay [s], and of its negative, both with an offset."""
    assert joint.command is not None
    inside = rows[(time[rows] - lag >= time[0]) & (time[rows] - lag <= time[-1])]
    command, position = np.interp(time[inside] - lag, time, joint.command), joint.position[inside]

    def error(off: np.ndarray) -> float:
        return float(np.abs(off - np.median(off)).mean()) if len(off) else np.inf

    return error(position - command), error(position + command)


def noise_of(position: np.ndarray) -> float:
    """Estimate the mean absolute error of measured positions [rad or m].

    The rounding error of an encoder is a quarter of its step. Random noise is estimated from differences in time of
    high order: all orders show the same noise, while the differences of smooth motion decrease from order to order.
    """
    steps = np.abs(np.diff(position))
    if not steps.any() or len(position) < 8:
        return 0.0
    resolution = float(np.quantile(steps[steps > 0.0], 0.01)) / 4.0
    deviations = (
        float(np.median(np.abs(np.diff(position, order)))) / (0.6745 * math.sqrt(math.comb(2 * order, order)))
        for order in _ORDERS
    )
    return max(resolution, 0.8 * min(deviations))


def _rounded(times: float) -> str:
    return f"{times:.0f}" if times >= 10.0 else f"{times:.1f}"


def useless(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the sentences of bad verdicts."""
    return (verdict.sentence() for verdict in verdicts if verdict.is_useless)
