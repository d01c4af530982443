# SPDX-License-Identifier: Apache-2.0
"""`Verdict`: the error of a fit compared with the noise of the logs and with trivial predictors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..logs import JointLog, Log
from ..logs.checks import is_still
from ..logs.noise import motion_of, noise_of
from .units import in_shown, key_of, shown_unit, to_shown

Level = Literal["good", "limited", "bad"]
_NOISE = 10.0
"""Largest error of a good fit, as a multiple of the noise of the logs."""
_FINEST = 1e-4
"""Smallest noise that counts, as a share of the motion: that of an encoder of about 14 bits."""
_USUAL_LAG, _LONGEST_LAG = 0.25, 2.0
"""Usual and longest delay between commands and positions that is searched [s]."""
_LAGS = 81
_SAMPLES = 2000
"""Maximum number of samples of a run for the predictors."""
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
    """Verdict on the motor of one joint, from mean absolute errors of the position [rad or m].

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
    """Noise of the measured positions: encoder resolution and random noise, at least 1/10 000 of the motion."""
    as_command: float | None
    """Error of "position = command"; None if no positions were commanded."""
    simplest: float
    """Error of the best trivial predictor."""
    simplest_name: str
    """Name of that predictor."""
    cause: str = ""
    """Why the logs cannot be fitted, if they show it: wrong signs or clocks."""
    doubt: str = ""
    """Reason to doubt the parameters, such as one at a bound."""
    unit: str = "rad"
    """Unit of the position: rad, or m for a sliding joint."""
    held_out: float | None = None
    """Error in runs that the model was not fitted to, which the level is of; None if no run was held out."""
    moves: bool = True
    """Whether the joint moves further than the noise of its positions."""
    rests_on: str = ""
    """Assumption of the parameters, such as the stated mass."""

    @property
    def level(self) -> Level:
        """Quality of the fit.

        ``"bad"`` above the largest useful error, that of a trivial predictor or half of that of "no motion", and if the
        joint does not move; ``"good"`` up to 10 times the noise and a quarter of the largest useful error, if neither
        logs nor parameters speak against it; else ``"limited"``.
        """
        if not self.moves or not self.judged <= self._most:
            return "bad"
        return (
            "good"
            if self.judged <= _NOISE * self.noise and self._is_clear and not (self.cause or self.doubt)
            else "limited"
        )

    @property
    def judged(self) -> float:
        """Error that the level is of: in held-out runs, if any."""
        return self.error if self.held_out is None else self.held_out

    @property
    def _most(self) -> float:
        """Largest useful error."""
        return _largest_useful(self.simplest_name, self.simplest)

    @property
    def _is_clear(self) -> bool:
        """Whether no trivial predictor is nearly as good."""
        return self.judged <= _WELL * self._most

    @property
    def is_useless(self) -> bool:
        """Whether the fit is bad."""
        return self.level == "bad"

    def sentence(self) -> str:
        """Return the verdict in words."""
        text = f"{self.joint}: {self.level} fit: error {self._milli(self.error)}"
        if self.held_out is not None:
            text += f", {self._milli(self.held_out)} in held-out runs"
        times = f"{_rounded(self.judged / self.noise)} times " if self.noise > 0.0 else ""
        text += f", {times}the noise of the logs ({self._milli(self.noise)}); "
        simplest = f"'{self.simplest_name}' has {self._milli(self.simplest)}"
        if self.is_useless:
            half = ", and a useful fit at most half of that" if self.simplest_name == _STILL else ""
            text += f"{simplest}{half}: {self._why}"
        else:
            if self.as_command is not None and self.simplest_name != _AS_IT_IS:
                text += f"'{_AS_IT_IS}' has {self._milli(self.as_command)}, "
            text += f"{simplest}. {self._why[0].upper()}{self._why[1:]}" if self._why else simplest
        return f"{text}. {self.rests_on[0].upper()}{self.rests_on[1:]}" if self.rests_on else text

    @property
    def _why(self) -> str:
        """Reason why the fit is not good, and the remedy; empty for a good one."""
        if not self.moves:
            return "the joint does not move further than its noise; record motion"
        if self.level == "good":
            return ""
        if self.level == "bad":
            return self.cause or "see the findings in the logs, and try another model"
        if self.cause:
            return self.cause
        reasons = [self.doubt] if self.doubt else []
        if self.judged > _NOISE * self.noise:
            reasons.append(
                "other effects, such as a limit or load-dependent friction, may explain the rest: compare models"
            )
        elif not self._is_clear:
            reasons.append(
                "a trivial predictor is nearly as good, so the logs show little of the motor: record faster motion"
            )
        return ". ".join(f"{reason[0].upper()}{reason[1:]}" if i else reason for i, reason in enumerate(reasons))

    def _milli(self, value: float) -> str:
        return f"{to_shown(value, self.unit):.3g} {shown_unit(self.unit)}"

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data for JSON, with errors in mrad, or in mm for a joint that slides.

        Examples:
            >>> simple = {"as_command": 0.142, "simplest": 0.142, "simplest_name": "position = command"}
            >>> verdict = actuon.fit.Verdict("knee", error=0.0013, noise=0.0004, **simple)
            >>> verdict.as_dict()["level"], verdict.as_dict()["error_mrad"]
            ('good', 1.3)
        """
        errors = {
            "error": self.error,
            "held_out": self.held_out,
            "noise": self.noise,
            "as_command": self.as_command,
            "simplest": self.simplest,
        }
        return {
            "level": self.level,
            "text": self.sentence(),
            "useless": self.is_useless,
            "unit": self.unit,
            **{key_of(name, self.unit): in_shown(error, self.unit) for name, error in errors.items()},
            "simplest": self.simplest_name,
            "cause": self._why,
            "moves": self.moves,
            "rests_on": self.rests_on,
        }


def judge(
    runs: Sequence[Log],
    joints: Sequence[str],
    errors: np.ndarray,
    *,
    units: Sequence[str] | None = None,
    doubts: Mapping[str, str] | None = None,
    rests_on: str = "",
) -> tuple[Verdict, ...]:
    """Compare the errors of motors with the noise of their runs and with trivial predictors.

    Args:
        runs: Runs of the motors.
        joints: Names of the joints.
        errors: Mean absolute errors by run and joint [rad or m], shape (R, J).
        units: Units of the positions, ``"rad"`` or ``"m"``, by joint. Default: those of the logs.
        doubts: Reasons to doubt the parameters, such as one at a bound, by joint.
        rests_on: Assumption of the parameters.
    """
    units = units or [runs[0].joint(name).unit for name in joints]
    found = [_judge(runs, name, float(errors[:, j].mean())) for j, name in enumerate(joints)]
    return tuple(
        dataclasses.replace(verdict, unit=unit, doubt=(doubts or {}).get(verdict.joint, ""), rests_on=rests_on)
        for verdict, unit in zip(found, units, strict=True)
    )


def _judge(runs: Sequence[Log], name: str, error: float) -> Verdict:
    found = [_Predictors.of(run.time, run.joint(name)) for run in runs]
    still = float(np.mean([each.still for each in found]))
    noise = float(np.mean([noise_of(run.joint(name).position) for run in runs]))
    noise = max(noise, _FINEST * still)
    moves = not all(is_still(run.time, run.joint(name)) for run in runs)
    if any(each.as_command is None for each in found):
        return Verdict(name, error, noise, None, still, _STILL, moves=moves)
    as_command = float(np.mean([each.as_command for each in found]))
    followed = float(np.mean([each.followed for each in found]))
    opposite = float(np.mean([each.opposite for each in found]))
    shifted = float(np.mean([each.shifted for each in found]))
    simple = min(as_command, followed)
    predictors = {_AS_IT_IS: as_command, _STILL: still}
    cause = ""
    if moves and opposite < min(_CLEARLY * simple, _NEARLY * shifted):
        cause = "position and command have opposite signs; state the 'sign' of one in a mapping of columns"
        predictors |= {_OPPOSITE: opposite, _SHIFTED: shifted}
    elif moves and shifted < _CLEARLY * simple:
        lag = float(np.median([each.lag for each in found]))
        where = f"{-lag:.2g} s before" if lag < 0.0 else f"{lag:.2g} s after"
        cause = f"positions come {where} their commands: the two are on different clocks, or logged in different rows"
        predictors |= {_OPPOSITE: opposite, _SHIFTED: shifted}
    best = min(predictors, key=lambda each: _largest_useful(each, predictors[each]))
    return Verdict(name, error, noise, as_command, predictors[best], best, cause, moves=moves)


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
        still = motion_of(joint.position)
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


def _rounded(times: float) -> str:
    return f"{times:.0f}" if times >= 10.0 else f"{times:.1f}"


def useless(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the sentences of bad verdicts."""
    return (verdict.sentence() for verdict in verdicts if verdict.is_useless)
