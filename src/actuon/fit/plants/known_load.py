# SPDX-License-Identifier: Apache-2.0
"""One joint with a known load, a pendulum or an inertia. All trials are DOFs of one fused kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import warp as wp

from ...errors import Fix, LogError, Option, ParameterError, listed
from ...logs import Log
from ...typing import DeviceLike
from ..model import setting_of
from ..resume import digest
from .load_batch import LoadedPlant, LoadedRuns
from .plant import Scales
from .runs import Run, largest, smooth_motion, usual_step

GRAVITY = 9.81
STEPS = (0.004, 0.002, 0.001, 0.0005)
"""Time steps to choose from [s]."""
SMOOTHED = 0.06
"""Width [s] of the filter that differentiates positions for speeds and efforts of a joint."""
_STILL = 1e-3
"""Smallest range of a joint that moves [rad or m]."""
_OPTION = Option("load", "--load")
_INERTIA = "inertia"
_PENDULUM = ("mass", "length", "arm_mass", "gravity")
"""Settings of a pendulum, which exclude an inertia."""


@dataclass(frozen=True)
class Load:
    """Load of a joint, which hangs at position 0.

    Args:
        inertia: Moment of inertia about the joint [kg·m²], or the mass of a joint that slides [kg].
        gravity: Mass times gravity times length [N·m], the effort that holds it level.
    """

    inertia: float
    gravity: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.inertia < math.inf:
            raise ParameterError(f"load: inertia: got {self.inertia}; must be finite and > 0 [kg·m²]")

    @classmethod
    def of_sliding_joint(cls, settings: Mapping[str, Any], where: str = "load") -> Load:
        """Return the load of a joint that slides level: its ``mass`` or ``inertia`` [kg].

        Raises:
            ParameterError: The mass is missing, or the settings are those of a pendulum.
        """
        names = [name for name in ("mass", _INERTIA) if name in settings]
        if len(names) != 1 or "length" in settings:
            raise ParameterError(
                f"{where}: the load of a joint that slides is its mass [kg], without a length; state it in the file or "
                "by ",
                fix=Fix("load=", "--load"),
            )
        return cls(setting_of(settings, names[0], where))

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any], where: str = "load") -> Load:
        """Return the load with ``mass`` [kg] and ``length`` [m] of a pendulum, or ``inertia`` [kg·m²].

        A pendulum may also have a rod of ``arm_mass`` [kg], and a ``gravity`` [m/s²] other than 9.81.

        Raises:
            ParameterError: Both a pendulum and an inertia are stated, or neither.
        """
        if _INERTIA in settings:
            if "mass" in settings and "length" in settings:
                raise ParameterError(
                    f"{where}: states an inertia, and mass and length of a pendulum; must state one load: state it by ",
                    fix=Fix("load=", "--load"),
                )
            return cls(setting_of(settings, _INERTIA, where))
        if "mass" not in settings or "length" not in settings:
            raise ParameterError(
                f"{where}: the load is missing; set mass [kg] and length [m] of a pendulum, or inertia [kg·m²], in the "
                "file or by ",
                fix=Fix("load=", "--load"),
            )
        mass, length = (setting_of(settings, name, where) for name in ("mass", "length"))
        rod = setting_of(settings, "arm_mass", where) if "arm_mass" in settings else 0.0
        g = setting_of(settings, "gravity", where) if "gravity" in settings else GRAVITY
        return cls((mass + rod / 3.0) * length**2, (mass + 0.5 * rod) * g * length)


def with_load(settings: Mapping[str, Any], load: Mapping[str, float] | None) -> dict[str, Any]:
    """Return settings of a log in which a given load replaces the one that they state.

    Args:
        settings: Settings of a log.
        load: Some settings of a pendulum, or an inertia. An inertia replaces a pendulum and the other way round; the
            mass alone replaces that of the log's pendulum. None keeps the load of the log.

    Raises:
        ParameterError: The load has both an inertia and a setting of a pendulum.
    """
    if load is None:
        return dict(settings)
    if _INERTIA in load and not load.keys().isdisjoint(_PENDULUM):
        raise ParameterError(
            f"got {', '.join(load)}; must be an inertia, or mass and length of a pendulum", option=_OPTION
        )
    replaced = _PENDULUM if _INERTIA in load else (_INERTIA,)
    return {name: value for name, value in settings.items() if name not in replaced} | dict(load)


class KnownLoadPlant(LoadedPlant):
    """One joint with a known load.

    Args:
        logs: Runs, each with one joint.
        load: ``mass`` [kg] and ``length`` [m] of a pendulum, or ``inertia`` [kg·m²]; the ``mass`` [kg] of a joint that
            slides. Overrides the logs' settings.
        dt: Time step [s]. Default: 4, 2, 1 or 0.5 ms, close to that of the logs.
        device: Device of the simulation.

    Examples:
        >>> time = np.arange(0.0, 1.0, 0.01)
        >>> joint = actuon.fit.JointLog("knee", 0.9 * np.sin(3.0 * time - 0.1), np.sin(3.0 * time))
        >>> log = actuon.fit.Log("run", time, (joint,))
        >>> plant = actuon.fit.KnownLoadPlant([log], load={"mass": 0.5, "length": 0.1})
    """

    loads: tuple[Load, ...]

    def __init__(
        self,
        logs: Sequence[Log],
        load: Mapping[str, float] | None = None,
        dt: float | None = None,
        device: DeviceLike = None,
    ):
        if not logs:
            raise ParameterError("got no logs; must be at least one")
        for name in load or ():
            if name not in (_INERTIA, *_PENDULUM):
                known = listed(name, (_INERTIA, *_PENDULUM), "settings of a load")
                raise ParameterError(f"got '{name}'; {known}", option=_OPTION)
        for log in logs:
            if len(log.joints) != 1:
                raise ParameterError(
                    f"{log.path}: has {len(log.joints)} joints ({', '.join(log.joint_names)}); a known load takes one: "
                    "name the columns of one joint, or ",
                    fix=Fix("use RobotPlant", "give the robot with --robot"),
                )
        self.runs, self.joints = tuple(logs), logs[0].joint_names
        self.dt = usual_step(logs, STEPS) if dt is None else float(dt)
        self._given = None if load is None else dict(load)
        slides = self.units == ("m",)
        load_of = Load.of_sliding_joint if slides else Load.of_settings
        stated = [with_load(log.settings, self._given) for log in logs]
        self.loads = tuple(load_of(own, log.path) for own, log in zip(stated, logs, strict=True))
        named = "inertia" if not slides and _INERTIA in stated[0] else "mass"
        self.rests_on = f"all {'forces' if slides else 'torques'} scale with the stated {named}"
        on_grid = [Run.of(log, self.dt, is_held=True) for log in logs]
        loaded = LoadedRuns(
            [run.table(0) for run in on_grid],
            np.array([run.start[:, 0] for run in on_grid]),
            np.array([load.inertia for load in self.loads]),
            np.array([load.gravity for load in self.loads]),
        )
        self._set_loads(on_grid, loaded, wp.get_device(device))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the inputs; kernels are built anew."""
        return KnownLoadPlant, (self.runs, self._given, self.dt, str(self._device))

    def replace(self, *, runs: Sequence[int] | None = None, dt: float | None = None) -> Self:
        """Return the plant with some of the runs, or at another time step [s]."""
        logs = self.runs if runs is None else [self.runs[i] for i in runs]
        return type(self)(logs, self._given, self.dt if dt is None else dt, self._device)

    def facts(self) -> Mapping[str, Any]:
        """See `Plant.facts`."""
        loads = [value for load in self.loads for value in (load.inertia, load.gravity)]
        return {"plant": "a known load", "time step [s]": self.dt, "load": digest(loads)}

    def scales(self) -> list[Scales]:
        """See `Plant.scales`."""
        found = [_scales(log, load) for log, load in zip(self.runs, self.loads, strict=True)]
        efforts, speeds, inertias, ranges = (np.array(column) for column in zip(*found, strict=True))
        if ranges.max() < _STILL:
            raise LogError(
                f"{self.runs[0].path}: the joint moves less than {_STILL:g} {self.units[0]} in every log; a fit needs "
                "motion"
            )
        return [Scales(*(float(column.max()) for column in (efforts, speeds, inertias, ranges)))]


def _scales(log: Log, load: Load) -> tuple[float, float, float, float]:
    """Return effort, speed, inertia and range of the position in one log. See `Scales`."""
    position, velocity, acceleration = smooth_motion(log, SMOOTHED)
    effort = load.inertia * acceleration + load.gravity * np.sin(position)
    return (
        float(np.quantile(np.abs(effort), 0.98)),
        largest(velocity),
        load.inertia,
        float(np.ptp(position)),
    )
