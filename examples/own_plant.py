# SPDX-License-Identifier: Apache-2.0
"""Your own plant: fit the motor of a flap with a return spring to a log.

Run with ``pip install 'actuon[fit]'`` and ``python examples/own_plant.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import actuon
from actuon.fit import JointLog, Log, Model, Parameter, Plant, Scales, SearchOptions, Trials, fit_logs

INERTIA, STIFFNESS = 0.02, 1.5  # [kg·m²], [N·m/rad]


class SpringPlant(Plant):
    """A joint with the equation of motion inertia · acceleration = effort − stiffness · position."""

    def __init__(self, logs: Sequence[Log], dt: float = 0.005):
        self.runs, self.joints, self.dt = tuple(logs), logs[0].joint_names, dt

    def simulate(self, trials: Trials, signal: str = "position") -> list[np.ndarray]:
        return [self._run(trials, run, signal) for run in range(len(self.runs))]

    def _run(self, trials: Trials, run: int, signal: str) -> np.ndarray:
        """Simulate all candidates in one run, each as a joint of `actuon.Motors`; shape (C, T, 1)."""
        log, count = self.runs[run], trials.count
        motors = actuon.Motors({str(i): trials.config(0, i, run) for i in range(count)}, inertia=INERTIA)
        grid = np.arange(log.time[0], log.time[-1] + self.dt, self.dt)
        position, velocity, shown = np.full(count, log.joints[0].position[0]), np.zeros(count), []
        for command in np.interp(grid, log.time, log.joints[0].command):
            effort = motors.step(position, velocity, command, self.dt)
            shown.append(position.copy() if signal == "position" else effort)
            velocity += self.dt * (effort - STIFFNESS * position) / INERTIA
            position += self.dt * velocity
        return np.stack([np.interp(log.time, grid, path) for path in np.transpose(shown)])[..., None]

    def scales(self) -> list[Scales]:
        size = max(float(np.ptp(log.joints[0].position)) for log in self.runs)
        return [Scales(effort=STIFFNESS * size, speed=10.0 * size, inertia=INERTIA, position=size)]

    def replace(self, *, runs: Sequence[int] | None = None, dt: float | None = None) -> SpringPlant:
        logs = self.runs if runs is None else [self.runs[i] for i in runs]
        return SpringPlant(logs, self.dt if dt is None else dt)


def model() -> Model:
    """Return a PD controller with dry friction, and the ranges of their parameters."""
    config = actuon.ActuatorConfig(actuon.PDControlConfig(5.0, 0.1), effects=[actuon.FrictionEffectConfig(0.1)])
    ranges = {"controller.kp": (1.0, 50.0), "controller.kd": (0.01, 1.0), "friction.dynamic": (0.01, 1.0)}
    return Model(
        "pd with friction", config, tuple(Parameter(path, *ends, scale="log") for path, ends in ranges.items())
    )


def main() -> None:
    actuon.quiet()
    time = np.arange(0.0, 3.0, 0.01)
    command = 0.6 * np.sin(4.0 * time) * np.sin(0.9 * time)
    truth = np.array([12.0, 0.3, 0.15])

    # A log: the motion with the true parameters, and encoder noise.
    plant = SpringPlant([Log("flap", time, (JointLog("flap", np.zeros_like(time), command),))])
    (motion,) = plant.simulate(plant.trials([model()], [truth[None]]))
    measured = motion[0, :, 0] + np.random.default_rng(0).normal(0.0, 1e-3, len(time))
    plant = SpringPlant([Log("flap", time, (JointLog("flap", measured, command),))])

    result = fit_logs(plant=plant, model=model(), options=SearchOptions(starts=1, generations=30))
    for parameter in result.joints[0].parameters:
        print(f"{parameter.path}: {parameter.value:.3g}, between {parameter.low:.3g} and {parameter.high:.3g}")
    print(result.verdicts[0].sentence())
    np.testing.assert_allclose(result.joints[0].values, truth, rtol=0.1)
    assert result.verdicts[0].level == "good"


if __name__ == "__main__":
    main()
