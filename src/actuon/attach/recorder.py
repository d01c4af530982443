# SPDX-License-Identifier: Apache-2.0
"""`Recorder`: time series of robots and their actuators."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SimulationError, StructureError
from ..files import replacing
from ..sim import Event
from ..sim.events import refuse_copies, subscribe_weakly
from ..typing import PathLike
from .attachment import Attachment

FORMATS = (".npz", ".csv")

_NAMES = (
    "time",
    "position",
    "velocity",
    "position_target",
    "velocity_target",
    "computed_effort",
    "applied_effort",
    "clipped",
    "limited_by",
    "mechanical_power",
    "electrical_power",
    "dof_names",
    "dof_units",
    "paths",
)
"""Series of every recording."""


class Recorder:
    """Recording of robots and their actuators at each step of physics, until it is closed.

    Args:
        actuators: `ArticulationActuators` or `lab.ActuatorGroups` to record.

    Examples:
        >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
        ...     with actuon.Recorder(actuon.ArticulationActuators("link0")) as recorder:
        ...         simulation.step(20)
        >>> recorder.data["applied_effort"].shape
        (20, 1, 7)
    """

    __reduce_ex__ = refuse_copies

    def __init__(self, actuators: Attachment):
        if not isinstance(actuators, Attachment):
            raise StructureError(f"got {actuators!r}; must be ArticulationActuators or lab.ActuatorGroups")
        for name in actuators.telemetry().signals:
            if name in _NAMES:
                raise StructureError(f"the signal '{name}' has the name of another series; rename it in OUTPUTS")
        self._series: dict[str, list[Any]] = {}
        self._row: dict[str, Any] = {}
        self._listen_to(actuators)

    def _listen_to(self, actuators: Attachment) -> None:
        self.actuators = actuators
        self._subscriptions = subscribe_weakly(
            actuators.articulation.simulation, {Event.PRE_STEP: self._before, Event.POST_STEP: self._after}
        )

    def continue_with(self, actuators: Attachment) -> None:
        """Continue with other actuators on the same robots. Signals that some of them lack are NaN there.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     with actuon.ArticulationActuators("link0") as actuators:
            ...         recorder = actuon.Recorder(actuators)
            ...         simulation.step(5)
            ...     recorder.continue_with(actuon.ArticulationActuators("link0"))
            ...     simulation.step(5)
            >>> len(recorder)
            10
        """
        if actuators.articulation.simulation is not self.actuators.articulation.simulation:
            raise StructureError("the actuators are on robots of another simulation; make another Recorder")
        self.close()
        self._listen_to(actuators)

    def _before(self, dt: float) -> None:
        """Record the inputs of actuators. Targets are recorded after the step, since callbacks may still set them."""
        if self.actuators.is_closed:
            self.close()  # a simulation that calls nobody at each step takes many in one go
            return
        robots = self.actuators.articulation
        self._row = {
            "time": robots.simulation.time,
            "position": robots.values("joint_q"),
            "velocity": robots.values("joint_qd"),
        }

    def _after(self, dt: float) -> None:
        if self.actuators.is_closed:
            return
        robots, telemetry = self.actuators.articulation, self.actuators.telemetry()
        self._row |= {
            "position_target": robots.values("joint_target_q"),
            "velocity_target": robots.values("joint_target_qd"),
            "computed_effort": telemetry.computed_effort,
            "applied_effort": telemetry.applied_effort,
            "clipped": telemetry.clipped,
            "limited_by": telemetry.limited_by.astype(str),
            "mechanical_power": telemetry.mechanical_power,
            **telemetry.signals,
        }
        if {"voltage", "current"} <= telemetry.signals.keys():
            self._row["electrical_power"] = telemetry.electrical_power
        count, unknown = len(self), np.full_like(telemetry.applied_effort, np.nan)
        for name in self._series.keys() - self._row.keys():
            self._series[name].append(unknown)
        for name, value in self._row.items():
            self._series.setdefault(name, [unknown] * count).append(value)

    def __len__(self) -> int:
        return len(self._series.get("time", ()))

    @property
    def data(self) -> dict[str, np.ndarray]:
        """Series by name: ``time`` [s] of shape (T,); positions, velocities, their targets, and fields and signals of
        `Telemetry`, each of shape (T, N, D). Electrical power is included if a motor has voltage and current."""
        return {name: np.array(values) for name, values in self._series.items()}

    def save(self, path: PathLike) -> None:
        """Write the recording to an ``.npz`` or a ``.csv`` file.

        An ``.npz`` also has ``dof_names``, ``dof_units`` (rad or m) and ``paths``. A ``.csv`` has a row for each time
        and columns such as ``position/knee``, or ``position/3/knee`` for the fourth of several robots.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     with actuon.Recorder(actuon.ArticulationActuators("link0")) as recorder:
            ...         simulation.step(3)
            >>> recorder.save("run.npz")
            >>> with np.load("run.npz") as data:
            ...     print(data["time"].shape, data["position"].shape)
            (3,) (3, 1, 7)
        """
        path = Path(path)
        if path.suffix not in FORMATS:
            raise SimulationError(f"'{path}' has the format '{path.suffix}'; must be one of {', '.join(FORMATS)}")
        if not len(self):
            raise SimulationError(f"'{path}': there is nothing to write yet; step the simulation first")
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            (self._save_npz if path.suffix == ".npz" else self._save_csv)(partial)

    def _save_npz(self, path: Path) -> None:
        robots = self.actuators.articulation
        everything: dict[str, Any] = self.data
        everything["dof_names"], everything["paths"] = np.array(robots.dof_names), np.array(robots.paths)
        everything["dof_units"] = np.where(robots.robots[0].slides, "m", "rad")
        np.savez_compressed(path, **everything)

    def _save_csv(self, path: Path) -> None:
        names, count = self.actuators.articulation.dof_names, len(self.actuators.articulation)
        columns = {"time": self.data["time"]}
        for kind, values in self.data.items():
            if kind != "time":
                for robot in range(count):
                    for dof, name in enumerate(names):
                        key = f"{kind}/{name}" if count == 1 else f"{kind}/{robot}/{name}"
                        column = values[:, robot, dof]
                        columns[key] = column if column.dtype.kind == "U" else column.astype(np.float64)
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            for row in zip(*columns.values(), strict=True):
                writer.writerow([value if isinstance(value, str) else f"{value:.9g}" for value in row])

    def close(self) -> None:
        """Stop recording. `data` stays."""
        for subscription in self._subscriptions:
            subscription.cancel()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
