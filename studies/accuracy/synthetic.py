# SPDX-License-Identifier: Apache-2.0
"""Joints with parameters that are drawn at random: whether a fit finds them again within its own intervals.

Logs are made by the simulation of the fit, at its time step or a shorter one, with noise and steps of the encoder,
uneven sample times and a delay of the commands. That the simulation is right is another question, which tests answer
with one in NumPy.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from actuon.fit import JointLog, KnownLoadPlant, Log, SearchOptions, fit_logs
from actuon.fit.model import Model
from actuon.fit.refine import CONFIDENCE
from actuon.fit.terms import JointFacts, build_model

from .study import MILLI, Place, say

_DT = 0.004
_NOISE = 1e-3
"""Standard deviation of measured positions [rad]."""
_COUNT = 2.0 * np.pi / 4096
"""A step of the encoder [rad]."""
_RUNS = 3
_SECONDS = 6.0
_LET_GO = 4.0
"""Time at which the motor is switched off [s]; without that, its damping and the joint's cannot be told apart."""
_DRAWN = {
    "controller.kp": (1.5, 4.0),
    "controller.kd": (0.03, 0.08),
    "transmission.reflected_inertia": (0.001, 0.004),
    "delay.delay": (0.0, 0.02),
    "encoder.bias": (-0.04, 0.04),
    "friction.dynamic": (0.02, 0.1),
    "friction.viscous": (0.002, 0.02),
    "friction.load_motor": (0.05, 0.3),
}
"""Ranges from which parameters are drawn, evenly, in SI units."""
_FIRST_SEED = 1000
"""Seed of the draws; the method was developed on others."""


@dataclass(frozen=True)
class Case:
    """Parameters to draw and runs to record.

    Args:
        title: What to call it.
        model: Name of the preset that makes the logs, and is fitted to them.
        finer: By how much the time step that makes the logs is shorter than that of the fit.
        is_let_go: Whether the motor is switched off at the end of each run.
    """

    title: str
    model: str
    finer: int = 1
    is_let_go: bool = True


CASES = (
    Case("`pd_coulomb`", "pd_coulomb"),
    Case("`m3`", "m3"),
    Case("`pd_coulomb`, logs at a quarter of the step", "pd_coulomb", finer=4),
    Case("`pd_coulomb`, never switched off", "pd_coulomb", is_let_go=False),
)


def study(place: Place) -> dict[str, Any]:
    """Draw, make logs, fit; and count how often the truth is inside the intervals."""
    found: dict[str, Any] = {}
    for case in CASES:
        cases: dict[str, list[tuple[float, float, float, float]]] = {}
        errors = []
        for draw in range(place.draws):
            begin = time.monotonic()
            error, own = find_again(case, _FIRST_SEED + draw)
            errors.append(error)
            for path, one in own.items():
                cases.setdefault(path, []).append(one)
            inside = sum(low <= true <= high for true, _, low, high in own.values())
            say(f"  {case.title}, draw {draw + 1}: {inside} of {len(own)} inside, {time.monotonic() - begin:.0f} s")
        found[case.title] = {"mae_mrad": errors, "cases": cases}
    setting = {"draws": place.draws, "noise_mrad": MILLI * _NOISE, "runs": _RUNS, "seconds_each": _SECONDS}
    setting["let_go"] = _LET_GO
    return {"models": found, "setting": setting, "confidence": CONFIDENCE}


def find_again(case: Case, seed: int) -> tuple[float, dict[str, tuple[float, float, float, float]]]:
    """Fit a model to logs that were made with parameters drawn at random.

    Returns:
        The error [mrad] of the fit, and by path: the truth, what was found, and the ends of its interval.
    """
    rng = np.random.default_rng([seed, 15])
    logs = [_commanded(rng, number, case.is_let_go) for number in range(_RUNS)]
    made_from = _model(case.model, logs)
    truth = {p.path: float(rng.uniform(*_DRAWN[p.path])) for p in made_from.parameters}
    values = np.array([truth[p.path] for p in made_from.parameters])
    logs = _made(rng, logs, made_from, values, _DT / case.finer)
    options = SearchOptions(seed=seed, starts=1, generations=120, patience=30)
    result = fit_logs(model=_model(case.model, logs), plant=KnownLoadPlant(logs, dt=_DT), options=options)
    found = {p.path: (truth[p.path], p.value, p.low, p.high) for p in result.joints[0].parameters}
    return MILLI * result.error, found


def _commanded(rng: np.random.Generator, number: int, is_let_go: bool) -> Log:
    """Return a run of a pendulum of 0.5 kg at 0.1 m: waves and steps, at uneven times, from rest."""
    at = np.cumsum(rng.uniform(0.003, 0.006, int(_SECONDS / 0.0045)))
    waves = sum(rng.uniform(0.2, 0.6) * np.sin(w * at + rng.uniform(0.0, 6.0)) for w in (1.5, 4.0, 9.0))
    steps = np.repeat(rng.uniform(-0.8, 0.8, 8), -(-len(at) // 8))[: len(at)]
    command = waves + steps
    enabled = (at < _LET_GO) | (not is_let_go)
    joint = JointLog("joint", command, command, velocity=np.zeros(len(at)), enabled=enabled)
    return Log(f"run_{number}", at, (joint,), {"mass": 0.5, "length": 0.1})


def _model(name: str, logs: list[Log]) -> Model:
    return build_model(name, JointFacts(KnownLoadPlant(logs, dt=_DT).scales()[0], tuple(logs), "joint"))


def _made(rng: np.random.Generator, logs: list[Log], model: Model, values: np.ndarray, dt: float) -> list[Log]:
    """Return the runs as the encoder of a joint with these values shows them."""
    still = [_with_position(log, np.zeros(len(log))) for log in logs]
    plant = KnownLoadPlant(still, dt=dt)
    paths = plant.residuals(plant.trials([model], [values[None]]))
    made = []
    for log, path in zip(logs, paths, strict=True):
        noisy = path[0, :, 0] + _NOISE * rng.standard_normal(len(log))
        made.append(_with_position(log, _COUNT * np.rint(noisy / _COUNT)))
    return made


def _with_position(log: Log, position: np.ndarray) -> Log:
    return dataclasses.replace(log, joints=(dataclasses.replace(log.joints[0], position=position),))
