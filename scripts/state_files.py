# SPDX-License-Identifier: Apache-2.0
"""Writes the saved files that tests continue from: ``python -m scripts.state_files``.

They are files as users have them: written once for each version of a format, and never again. So what is described here
must not change; add to it instead.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import actuon
from actuon import lab
from actuon.actuator.state import VERSION

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "states"
NETWORKS = FOLDER / "networks"
SIMULATIONS = FOLDER.with_name("simulations")
FITS = FOLDER.with_name("fits")
EXPECTED = "expected.npz"
"""Name of the file with what steps from the states give."""
DOFS, DT = 5, 0.005
STEPS_BEFORE, STEPS_AFTER = 12, 10
ROBOTS = 3
ROBOT = """<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody><body name="robot">
<joint name="hip" axis="0 1 0" armature="0.02"/><geom size="0.1" mass="1"/>
<body name="shank" pos="0 0 -0.3"><joint name="knee" axis="0 1 0" armature="0.02"/><geom size="0.05" mass="0.5"/></body>
</body></worldbody></mujoco>"""


def _late() -> dict[str, Any]:
    limits = [actuon.ClampingDCMotor(30.0, 12.0, 15.0), actuon.ClampingMaxEffort(12.0)]
    delay = actuon.Delay([0, 1, 2, 3, 4], 4)
    return {"stages": [delay, actuon.ControllerPID(30.0, 50.0, 0.8, 0.05), *limits]}


def _late_in_seconds() -> dict[str, Any]:
    streams = list(range(DOFS))
    bus = actuon.DelayTime(0.003, spread=0.01, jitter=0.002, dropout=0.2, seed=3, stream=streams, shortest_dt=DT)
    between = actuon.SensorDelay(0.0072, shortest_dt=DT)
    return {"stages": [between, bus, actuon.ControllerPD(30.0, 0.8)]}


def _motor() -> dict[str, Any]:
    stages = [
        actuon.SensorEncoder(0.001, 0.01),
        actuon.SensorDifferentiated(0.02),
        actuon.ControllerPD(40.0, 1.0),
        actuon.ClampingHeat(1.0, 2.0, 1.0, 10.0, 0.5, max_effort=40.0, trip_temperature=300.0),
        actuon.ClampingBattery(48.0, 0.05, 40.0, 30.0),
        actuon.ClampingVoltage(1.0, 0.8, max_current=20.0),
        actuon.EffectCurrentLoop(0.01),
        actuon.EffectNoise(0.1, 0.2, seed=[3, 4, 5, 6, 7]),
    ]
    return {"stages": stages}


def _springs() -> dict[str, Any]:
    spring = actuon.TransmissionSeriesElastic(300.0, 0.05, 5.0)
    backlash = actuon.TransmissionBacklash(0.02, 200.0, 0.05, 2.0)
    return {"stages": [actuon.ControllerPD(20.0, 1.0), spring, backlash]}


def _servo() -> dict[str, Any]:
    servo = actuon.ControllerServoPWM(1.0, 0.8, 2.0, 12.0, ki=2.0, kd=0.005)
    return {"stages": [actuon.SensorLowPass(0.02), servo, actuon.ClampingMaxEffort(6.0)]}


def _held() -> dict[str, Any]:
    limits = [actuon.ClampingVoltage(0.4, 1.2, 12.0)]
    stages = [actuon.SensorLowPass(0.02), actuon.Delay(2, 3), actuon.ControllerPID(30.0, 20.0, 0.8), *limits]
    return {"stages": stages, "control_every": 5}


def _mlp() -> dict[str, Any]:
    return {"stages": [actuon.ControllerNeuralMLP(NETWORKS / "mlp.safetensors")]}


def _lstm() -> dict[str, Any]:
    return {"stages": [actuon.ControllerNeuralLSTM(NETWORKS / "lstm.safetensors")]}


def _gru() -> dict[str, Any]:
    return {"stages": [actuon.ControllerNeuralGRU(NETWORKS / "gru.safetensors")]}


ACTUATORS: dict[str, Callable[[], dict[str, Any]]] = {
    "late": _late,
    "late_in_seconds": _late_in_seconds,
    "motor": _motor,
    "springs": _springs,
    "servo": _servo,
    "held": _held,
    "mlp": _mlp,
    "lstm": _lstm,
    "gru": _gru,
}
"""Arguments of `Actuator`, by the name of the file."""


def _actuators_on_robots(simulation: actuon.Simulation) -> Any:
    pid = actuon.PIDControlConfig(20.0, 30.0, 1.0, 0.1)
    limits = [actuon.BatteryClampingConfig(24.0, 0.08, 40.0, 18.0), actuon.VoltageClampingConfig(0.4, 0.6)]
    hip = actuon.ActuatorConfig(pid, limits, actuon.DelayConfig(3))
    knee = actuon.ActuatorConfig(pid, [*limits], actuon.TimeDelayConfig(0.006, jitter=0.003, seed=5))
    attached = actuon.ArticulationActuators.from_actuators(
        "robot", [(hip, "hip"), (knee, "knee")], simulation=simulation
    )
    attached.set_dof_feedforward_effort_targets([[0.1, -0.2], [0.3, 0.0], [-0.1, 0.2]])
    return attached


def _groups_on_robots(simulation: actuon.Simulation) -> Any:
    late = lab.DelayedPDActuatorCfg(
        ["hip"], stiffness=20.0, damping=1.0, effort_limit=8.0, min_delay=0, max_delay=4, seed=2
    )
    motor = lab.DCMotorCfg(
        ["knee"], stiffness=20.0, damping=1.0, effort_limit=8.0, saturation_effort=10.0, velocity_limit=20.0, seed=3
    )
    return lab.ActuatorGroups(actuon.Articulation("robot", simulation), {"late": late, "motor": motor})


ATTACHED: dict[str, Callable[[actuon.Simulation], Any]] = {
    "actuators_on_robots": _actuators_on_robots,
    "groups_on_robots": _groups_on_robots,
}
"""Actuators on the robots of `simulation`, by the name of the file."""


def build(name: str, **options: Any) -> actuon.Actuator:
    """Return the actuator whose state the file of that name holds."""
    return actuon.Actuator(range(DOFS), accumulate=False, **ACTUATORS[name](), **options)


def run(actuator: actuon.Actuator, state: Any, first: int, last: int, diverged: Sequence[int] = ()) -> np.ndarray:
    """Step an actuator from one step of a given motion to another; return the efforts, shape (steps, DOFs).

    All signals of the DOFs in ``diverged`` are NaN.
    """
    efforts = []
    for t in range(first, last):
        phase = 0.3 * t + np.arange(DOFS)
        signals = {
            "joint_q": 0.4 * np.sin(phase),
            "joint_qd": 2.0 * np.cos(phase),
            "joint_target_q": 0.5 * np.sin(0.5 * phase + 1.0),
            "joint_target_qd": 0.2 * np.cos(0.7 * phase),
            "joint_act": 0.5 * np.sin(1.3 * phase),
            "joint_f": np.zeros(DOFS),
        }
        sim = {key: values.astype(np.float32) for key, values in signals.items()}
        for values in sim.values():
            values[list(diverged)] = np.nan
        actuator.step(sim, sim, state, state, dt=DT)
        efforts.append(sim["joint_f"])
    return np.array(efforts)


@contextmanager
def simulation() -> Iterator[actuon.MujocoSimulation]:
    """Make the robots that `ATTACHED` drives."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.xml"
        path.write_text(ROBOT, encoding="utf-8")
        with actuon.MujocoSimulation(path, ROBOTS) as made:
            yield made


def drive(attached: Any, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Step robots likewise; return applied efforts and positions, each of shape (steps, robots, joints)."""
    robots, efforts, positions = attached.articulation, [], []
    for t in range(first, last):
        phase = 0.1 * t + np.arange(2 * ROBOTS).reshape(ROBOTS, 2)
        robots.set_dof_position_targets((0.4 * np.sin(phase)).astype(np.float32))
        robots.simulation.step()
        efforts.append(attached.telemetry().applied_effort)
        positions.append(robots.get_dof_positions().numpy())
    return np.array(efforts), np.array(positions)


def write(folder: Path) -> None:
    """Write a state of everything, and what the next steps give."""
    folder.mkdir(parents=True)
    expected: dict[str, Any] = {}
    for name in ACTUATORS:
        actuator = build(name)
        state = actuator.state()
        assert state is not None
        run(actuator, state, 0, STEPS_BEFORE)
        state.save(folder / f"{name}.npz")
        expected[f"{name}/efforts"] = run(actuator, state, STEPS_BEFORE, STEPS_BEFORE + STEPS_AFTER)
    for name, attach in ATTACHED.items():
        with simulation() as made:
            attached = attach(made)
            drive(attached, 0, STEPS_BEFORE)
            attached.save_state(folder / f"{name}.npz")
            robots = attached.articulation
            expected[f"{name}/start"] = robots.get_dof_positions().numpy()
            expected[f"{name}/speed"] = robots.get_dof_velocities().numpy()
            efforts, positions = drive(attached, STEPS_BEFORE, STEPS_BEFORE + STEPS_AFTER)
            expected[f"{name}/efforts"], expected[f"{name}/positions"] = efforts, positions
    np.savez_compressed(folder / EXPECTED, **expected)


def write_simulation(folder: Path) -> None:
    """Write a whole simulation, and what the next steps give. It is of the version of MuJoCo that is installed."""
    folder.mkdir(parents=True)
    with simulation() as made:
        attached = ATTACHED["groups_on_robots"](made)
        drive(attached, 0, STEPS_BEFORE)
        made.save(folder / "groups_on_robots.npz")
        efforts, positions = drive(attached, STEPS_BEFORE, STEPS_BEFORE + STEPS_AFTER)
    np.savez_compressed(folder / EXPECTED, efforts=efforts, positions=positions)


def write_fits(folder: Path) -> None:
    """Write results of fits, and their mean absolute errors by run and joint [rad]."""
    from actuon.fit import KnownLoadPlant, apply, fit_logs

    from .golden.fits import FACTS, MORE_SEARCHES

    folder.mkdir(parents=True)
    arm, options = MORE_SEARCHES["zeros"]
    servo = KnownLoadPlant(FACTS["gains"](), dt=0.002)
    fits = {"servo.yaml": (servo, options | {"model": "servo_m1"}), "arm.yaml": (arm(), options)}
    errors = {}
    for name, (plant, given) in fits.items():
        fit_logs(plant=plant, **given).save(folder / name)
        errors[name] = apply(folder / name, plant).errors.tolist()
    (folder / "errors.json").write_text(json.dumps(errors, indent=1) + "\n", encoding="utf-8")


def write_networks() -> None:
    """Write the networks that the controllers run. They are shared by all versions of the format."""
    import torch
    from torch import nn

    class LSTM(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.LSTM(2, 5, 2, batch_first=True), nn.Linear(5, 1)

        def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):  # type: ignore[no-untyped-def]
            out, after = self.rnn(x, state)
            return self.head(out[:, 0]), after

    class GRU(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.GRU(2, 5, 1, batch_first=True), nn.Linear(5, 1)

        def forward(self, x, state):  # type: ignore[no-untyped-def]
            out, after = self.rnn(x, state)
            return self.head(out[:, 0]), after

    torch.manual_seed(0)
    NETWORKS.mkdir(parents=True, exist_ok=True)
    mlp = nn.Sequential(nn.Linear(6, 8), nn.Softsign(), nn.Linear(8, 1))
    for name, module in (("mlp", mlp), ("lstm", LSTM()), ("gru", GRU())):
        path = NETWORKS / f"{name}.safetensors"
        if not path.exists():
            actuon.save_network(module.eval(), path)


if __name__ == "__main__":
    actuon.quiet()
    write_networks()
    write(FOLDER / f"version_{VERSION}")
    write_simulation(SIMULATIONS / f"version_{VERSION}")
    write_fits(FITS / "version_1")
