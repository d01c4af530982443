# SPDX-License-Identifier: Apache-2.0
"""Motors with springs, gaps, batteries, sensors and low-passes, near and a thousand turns away; delays in seconds."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import actuon
from tests.support import motor_oracle

from .rig import rig

LENGTH = 100
N = 5
FAR = 8192.0
"""How far a wheel has turned [rad]. Positions are whole multiples of `GRID`, so that they are exact there too."""
GRID = 2.0**-9
SHARE = 2e-3
"""How far an effort may be off after `LENGTH` steps, as a share of the largest one."""


class Battery(motor_oracle.ClampingBattery):
    """One that is not charged beyond full."""

    def law(self, s: dict[str, Any], dt: float) -> None:
        super().law(s, dt)
        self.charge = np.maximum(self.charge, 0.0)
        s["charge"] = self.charge


ORACLES = motor_oracle.oracles() | {"ClampingBattery": Battery}
WRITTEN: dict[str, dict[str, tuple[float, float]]] = {
    "SensorDifferentiated": {"time_constant": (0.005, 0.03)},
    "SensorLowPass": {"time_constant": (0.005, 0.03)},
    "DelayLowPass": {"time_constant": (0.0, 0.1)},
    "ControllerPD": {"kp": (2, 40), "kd": (0.1, 1)},
    "TransmissionSeriesElastic": {"stiffness": (50, 400), "motor_inertia": (0.01, 0.05), "damping": (0.5, 4)},
    "TransmissionBacklash": {
        "gap": (0.005, 0.05), "stiffness": (50, 400), "motor_inertia": (0.01, 0.05), "damping": (0.5, 4)
    },
    "ClampingBattery": {
        "full_voltage": (20, 28), "inner_resistance": (0.02, 0.1), "capacity": (20, 40), "empty_voltage": (16, 19)
    },
    "ClampingVoltage": {"torque_constant": (0.3, 1), "resistance": (0.4, 1.5), "max_current": (5, 30)},
    "EffectCurrentLoop": {"time_constant": (0.002, 0.02)},
}  # fmt: skip
"""Stages that `_structure` places by name, with ranges that suit long runs."""
LEFT_OUT = {
    "SensorEncoder": "jumps where rounding decides",
    "ControllerServoPWM": "takes another place than the PD controller",
    "ClampingHeat": "trips at a temperature, where rounding decides",
}
"""Stages with an oracle that are not drawn, and why."""
OTHERS = [name for name in ORACLES if name not in WRITTEN and name not in LEFT_OUT]
"""All other stages with an oracle, in the ranges that it has: at most one of them in a chain."""
RANGES = WRITTEN | {name: ORACLES[name].ranges for name in OTHERS}
FIXED = {
    "ClampingVoltage": {"bus_voltage": 24.0, "temperature_coefficient": 0.0},
    "EffectCurrentLoop": {"max_slope": 1e6},
}
"""Parameters that oracles need and that are not drawn."""


def _structure(seed: int) -> tuple[str, ...]:
    """The stages of a seed."""
    source = random.Random(seed)
    names = [[], ["SensorDifferentiated"], ["SensorLowPass"]][source.randrange(3)]
    names = [*names, "ControllerPD"]
    names += [[], ["TransmissionSeriesElastic"], ["TransmissionBacklash"]][source.randrange(3)]
    names += [[], ["ClampingVoltage"], ["ClampingBattery", "ClampingVoltage"]][source.randrange(3)]
    names += ["EffectCurrentLoop"] * (source.random() < 0.4)
    is_rigid = not any(name.startswith("Transmission") for name in names)  # a gap would close a step sooner or later
    if source.random() < 0.5 and is_rigid:
        names.insert(names.index("ControllerPD"), "DelayLowPass")
    if source.random() < 0.4 and "TransmissionBacklash" not in names:  # for the same reason
        other = source.choice(OTHERS)
        names.insert(0 if other.startswith(motor_oracle.BEFORE_THE_CONTROLLER) else len(names), other)
    return tuple(names)


def _signals(rng: np.random.Generator, dt: float) -> list[dict[str, np.ndarray]]:
    """A motion as engines make it: each position is the one before and the velocity times the step."""
    time = np.arange(LENGTH + 1)[:, None] * dt
    swing, pace = rng.uniform(0.1, 1.0, (2, N)) * np.array([[1.0], [12.0]])
    positions = np.round(swing * np.sin(pace * time + rng.uniform(0, 6, N)) / GRID) * GRID
    targets = np.round(rng.uniform(-1, 1, N) * np.cos(rng.uniform(1, 9, N) * time) / GRID) * GRID
    velocities = np.diff(positions, axis=0) / dt
    return [
        {
            "joint_q": positions[t + 1],
            "joint_qd": velocities[t].astype(np.float32),
            "joint_target_q": targets[t],
            "joint_target_qd": np.zeros(N),
            "joint_act": np.zeros(N),
        }
        for t in range(LENGTH)
    ]


def _efforts(actuator: Any, signals: list[dict[str, np.ndarray]], dt: float, far: float, save_at: int) -> np.ndarray:
    """Efforts of an actuator, shape (steps, N), whose state is saved to a file and loaded at a step."""
    state, found = actuator.state(), []
    for t, given in enumerate(signals):
        if t == save_at and state is not None:
            with tempfile.TemporaryDirectory() as folder:
                state.save(Path(folder) / "state.npz")
                state = actuator.load_state(Path(folder) / "state.npz")
        sim = {name: values.astype(np.float32) for name, values in given.items()}
        sim |= {name: (given[name] + far).astype(np.float32) for name in ("joint_q", "joint_target_q")}
        sim["joint_f"] = np.zeros(N, np.float32)
        actuator.step(sim, sim, state, state, dt=dt)
        found.append(sim["joint_f"])
    return np.array(found)


def _exact(
    structure: tuple[str, ...],
    values: list[dict[str, Any]],
    signals: list[dict[str, np.ndarray]],
    dt: float,
    far: float,
) -> np.ndarray:
    """Efforts of the equations, shape (steps, N)."""
    oracles = [ORACLES[name](N, **given) for name, given in zip(structure, values, strict=True)]
    found = []
    for given in signals:
        there = given | {name: given[name] + far for name in ("joint_q", "joint_target_q")}
        found.append(motor_oracle.step(oracles, there, dt)["effort"])
    return np.array(found)


@rig(
    "motors",
    examples=20,
    drawn=lambda seed: {
        "structure": st.just(_structure(seed)),
        "dt": st.sampled_from([0.001, 0.002, 0.005]),
        "save_at": st.integers(1, LENGTH - 1),
        "numbers": st.integers(0, 2**32 - 1),
    },
)
def motors(structure: tuple[str, ...], dt: float, save_at: int, numbers: int) -> None:
    """Efforts are those of the equations, also a thousand turns away; a state from a file goes on bit for bit."""
    motors.tally.add("steps", LENGTH)
    motors.tally.see("structures", structure)
    rng = np.random.default_rng(numbers)
    values: list[dict[str, Any]] = [
        {key: rng.uniform(*span, N).astype(np.float32) for key, span in RANGES[name].items()} | FIXED.get(name, {})
        for name in structure
    ]
    signals = _signals(rng, dt)
    stages = [getattr(actuon, name)(**given) for name, given in zip(structure, values, strict=True)]
    actuator = actuon.Actuator(range(N), stages=stages, accumulate=False)
    near, again, far = (_efforts(actuator, signals, dt, *where) for where in ((0.0, -1), (0.0, save_at), (FAR, -1)))
    np.testing.assert_array_equal(again, near, "saved to a file and loaded")
    right, right_far, beside = (
        _exact(structure, values, signals, dt, far) for far in (0.0, FAR, FAR * (1.0 + 2.0**-22))
    )
    most = SHARE * np.abs(right).max(axis=0) + 1e-5
    is_rounded = "DelayLowPass" in structure  # a filtered target is not on the grid, and is a signal of 32 bits
    stiffness = values[structure.index("ControllerPD")]["kp"]
    there = most + is_rounded * stiffness * FAR * 2.0**-24
    there = there + np.abs(beside - right_far).max(axis=0)  # of laws of the angle, whose product is rounded
    for found, exact, allowed, where in (
        (near, right, most, "near"),
        (far, right_far, there, f"{FAR:g} rad away"),
    ):
        off = np.abs(found - exact) - allowed
        t, i = np.unravel_index(np.argmax(off), off.shape)
        expected = f"expected {exact[t, i]} ± {allowed[i]:.2g}"
        assert off.max() <= 0, f"{where}: step {t}, DOF {i}: got {found[t, i]}, {expected}"


DELAYS = ("DelayTime", "DelayInterpolated", "SensorDelay")
SHORTEST, LONGEST_STEP, MOST = 0.001, 0.004, 0.03


@rig(
    "delays",
    examples=60,
    drawn=lambda seed: {
        "name": st.sampled_from(DELAYS),
        "delay": st.sampled_from([0.0, 0.0005, 0.002, 0.008, 0.0133]),
        "jitter": st.sampled_from([0.0, 0.0, 0.001, 0.01]),
        "dropout": st.sampled_from([0.0, 0.0, 0.2]),
        "varying": st.booleans(),
        "later": st.sampled_from([None, None, 0.001, 0.012, 1.0]),
        "numbers": st.integers(0, 2**31 - 1),
    },
)
def delays(
    name: str, delay: float, jitter: float, dropout: float, varying: bool, later: float | None, numbers: int
) -> None:
    """Arriving commands are as old as the delay at any time step, and not older than the previous one.

    A delay that does not fit the memory is refused."""
    rng = np.random.default_rng(numbers)
    stage = getattr(actuon, name)(
        delay, jitter=jitter, dropout=dropout, seed=numbers, stream=np.arange(N), shortest_dt=SHORTEST
    )
    controller = actuon.ControllerPD(1.0, 0.0)
    actuator = actuon.Actuator(range(N), stages=[stage, controller], accumulate=False)
    stage = actuator.stages[0]
    state, time, since, last = actuator.state(), 0.0, 0.0, np.full(N, -np.inf)
    delays.tally.add("steps", LENGTH)
    for t in range(LENGTH):
        dt = float(rng.choice([0.001, 0.002, LONGEST_STEP])) if varying else 0.002
        if t == LENGTH // 2 and later is not None:
            try:
                stage.delay = later
                delay, since = later, time
            except actuon.ParameterError:
                np.testing.assert_array_equal(stage.delay.numpy(), np.float32(delay))
            assert delay != 1.0, "a delay that does not fit the memory was taken"
        sim = {key: np.zeros(N, np.float32) for key in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")}
        sim |= {"joint_f": np.zeros(N, np.float32)}
        sim["joint_q" if name == "SensorDelay" else "joint_target_q"][:] = time
        actuator.step(sim, sim, state, state, dt=dt)
        arrived = np.abs(sim["joint_f"].astype(np.float64))
        step = LONGEST_STEP if varying else dt
        lost = 9 * step if dropout else 0.0
        if since == 0.0 or time - since > MOST + lost:
            assert (arrived >= last - 1e-6).all(), f"step {t}: {arrived} s after {last} s: back in time"
        last = arrived
        age, uncertain = time - arrived, step if varying else 0.0
        settled = time - since > delay + jitter + lost + 2 * step
        low, high = delay - uncertain - 1e-5, delay + jitter + lost + step + uncertain + 1e-5
        if name == "DelayInterpolated" and not dropout:
            high = delay + jitter + uncertain + 1e-5
        if settled:
            assert ((age >= low) & (age <= high)).all(), f"step {t}: {age} s old; must be from {low} to {high}"
        time += dt
