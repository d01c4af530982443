# SPDX-License-Identifier: Apache-2.0
"""Fits on logs of motors that are known: what is found is right, or something is said; a damaged log is never taken in
silence for a sound one."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from actuon import ActuonError, LogError
from actuon.fit import FitResult, KnownLoadPlant, Log, Plant, RobotPlant, SearchOptions, apply, fit_logs, read_logs
from tests.support.pendulums import simulate

from .rig import rig

STEP, DT = 0.004, 0.002
"""Between two samples of a sound log, and of motors and fits [s]."""
SECONDS, REST, OFF = 4.0, 0.2, (2.6, 3.3)
"""Length of a log, time before the first motion, and when motors are switched off, which tells friction from damping
[s]."""
FURTHEST = 1.5
"""Largest command [rad]: beyond, a pendulum that is switched off may turn over."""
LOAD = {"mass": 0.5, "length": 0.1}
JOINTS = ("hip", "knee")
ROBOT = """
<mujoco>
  <worldbody>
    <body name="base">
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
      {links}
    </body>
  </worldbody>
</mujoco>
"""
LINK = """
<body name="{name}_link" pos="0 {at} 0">
  <joint name="{name}" axis="0 1 0"/>
  <inertial pos="0 0 -0.1" mass="0.5" diaginertia="1e-9 1e-9 1e-9"/>
</body>
"""
RANGES = {
    "controller.kp": (1.5, 4.0),
    "controller.kd": (0.03, 0.1),
    "transmission.reflected_inertia": (0.002, 0.006),
    "delay.delay": (0.0, 0.02),
    "encoder.bias": (-0.03, 0.03),
    "friction.dynamic": (0.02, 0.08),
    "friction.viscous": (0.002, 0.02),
}
"""Where the numbers of motors are drawn from."""


@dataclass(frozen=True)
class Raw:
    """The table of a log, as numbers without units: shape (T, J) each, and (T,) for the time."""

    time: np.ndarray
    position: np.ndarray
    command: np.ndarray
    enabled: np.ndarray

    def rows(self, which: Any) -> Raw:
        return Raw(*(getattr(self, field.name)[which] for field in dataclasses.fields(self)))


def drawn_motor(rng: np.random.Generator, is_of_robot: bool) -> dict[str, float]:
    motor = {path: float(rng.uniform(*ends)) for path, ends in RANGES.items()}
    if is_of_robot:  # where a fit takes all damping for friction, and the zeros of encoders for those of the file
        motor |= {"friction.viscous": motor["controller.kd"], "controller.kd": 0.0, "encoder.bias": 0.0}
    return motor


def recorded(motors: Sequence[Mapping[str, float]], noise: float, rng: np.random.Generator) -> Raw:
    """Return the motion of motors that follow waves and steps, by the equation."""
    time = STEP * np.arange(round(SECONDS / STEP))
    enabled = (time < OFF[0]) | (time >= OFF[1])
    positions, commands = [], []
    for motor in motors:
        waves = sum(rng.uniform(0.3, 0.8) * np.sin(w * time + rng.uniform(0.0, 6.0)) for w in rng.uniform(1.5, 11.0, 3))
        command = waves + np.repeat(rng.uniform(-0.6, 0.6, len(time) // 200 + 1), 200)[: len(time)]
        command *= FURTHEST / max(FURTHEST, float(np.abs(command).max()))
        command = np.where(time < REST, 0.0, command)  # so that the velocity at the start can be read off the log
        position = simulate(
            time, command, enabled, (0.0, 0.0), dt=DT, **LOAD,
            law=lambda target, q, v, m=motor: m["controller.kp"] * (target - q) - m["controller.kd"] * v,
            friction={"dynamic": motor["friction.dynamic"]}, viscous=motor["friction.viscous"],
            armature=motor["transmission.reflected_inertia"], bias=motor["encoder.bias"], delay=motor["delay.delay"],
        )  # fmt: skip
        positions.append(position + noise * rng.standard_normal(len(time)))
        commands.append(command)
    columns = np.stack(positions, axis=1), np.stack(commands, axis=1)
    return Raw(time, *columns, np.repeat(enabled[:, None], len(motors), axis=1))


def _flipped(raw: Raw, rng: np.random.Generator) -> Raw:
    return dataclasses.replace(raw, position=-raw.position)


def _late(raw: Raw, rng: np.random.Generator) -> Raw:
    by = int(rng.uniform(0.3, 0.6) / STEP)
    return dataclasses.replace(raw, command=np.concatenate([np.repeat(raw.command[:1], by, 0), raw.command[:-by]]))


def _early(raw: Raw, rng: np.random.Generator) -> Raw:
    by = int(rng.uniform(0.3, 0.6) / STEP)
    return dataclasses.replace(raw, command=np.concatenate([raw.command[by:], np.repeat(raw.command[-1:], by, 0)]))


def _degrees(raw: Raw, rng: np.random.Generator) -> Raw:
    return dataclasses.replace(raw, position=np.degrees(raw.position), command=np.degrees(raw.command))


def _degrees_of_positions(raw: Raw, rng: np.random.Generator) -> Raw:
    return dataclasses.replace(raw, position=np.degrees(raw.position))


def _gap(raw: Raw, rng: np.random.Generator) -> Raw:
    start = rng.uniform(0.5, SECONDS - 1.5)
    return raw.rows((raw.time < start) | (raw.time > start + rng.uniform(0.2, 0.8)))


def _swapped(raw: Raw, rng: np.random.Generator) -> Raw:
    return dataclasses.replace(raw, position=raw.position[:, ::-1])


def _frozen(raw: Raw, rng: np.random.Generator) -> Raw:
    start = int(rng.uniform(0.5, SECONDS - 1.5) / STEP)
    position = raw.position.copy()
    position[start : start + round(1.0 / STEP)] = position[start]
    return dataclasses.replace(raw, position=position)


def _slow(raw: Raw, rng: np.random.Generator) -> Raw:
    return raw.rows(slice(None, None, round(0.1 / STEP)))


def _spikes(raw: Raw, rng: np.random.Generator) -> Raw:
    position = raw.position.copy()
    position[rng.integers(10, len(position) - 10, 3)] += rng.choice([-1.0, 1.0]) * rng.uniform(2.0, 6.0)
    return dataclasses.replace(raw, position=position)


DAMAGES: dict[str, Callable[[Raw, np.random.Generator], Raw]] = {
    "flipped": _flipped, "late": _late, "early": _early, "degrees": _degrees,
    "degrees_of_positions": _degrees_of_positions, "gap": _gap, "swapped": _swapped, "frozen": _frozen, "slow": _slow,
    "spikes": _spikes,
}  # fmt: skip
"""Damages of a log."""


def written(folder: Path, name: str, raw: Raw, joints: Sequence[str]) -> Log:
    """The log of a table, through a file that states no units."""
    path = folder / f"{name}.csv"
    quantities = {"position": raw.position, "command": raw.command, "enabled": raw.enabled}
    header = ["time", *(f"{quantity}/{joint}" for joint in joints for quantity in quantities)]
    columns = [raw.time, *(values[:, j] for j in range(len(joints)) for values in quantities.values())]
    head = "".join(f"# {name}: {value}\n" for name, value in LOAD.items()) + ",".join(header)
    np.savetxt(path, np.column_stack(columns), "%.9g", ",", header=head, comments="")
    (log,) = read_logs([path])
    return log


def plant_of(folder: Path, logs: Sequence[Log], window: float | None) -> Plant:
    """The plant of these logs: a known load, or a robot of two joints that do not disturb each other."""
    names = logs[0].joint_names
    if len(names) > 1:
        path = folder / "robot.xml"
        path.write_text(ROBOT.format(links="".join(LINK.format(name=n, at=i) for i, n in enumerate(names))))
        return RobotPlant(path, logs, dt=DT, window=window)
    return KnownLoadPlant([part for log in logs for part in (log.split_windows(window) if window else [log])], dt=DT)


def is_told(result: FitResult) -> bool:
    """Whether a reader of the result learns that the logs, or the fit, are not as they should be."""
    return bool(result.findings) or any(v.is_useless or v.cause or v.error > FAR * v.noise for v in result.verdicts)


FAR = 5.0
"""How many times the noise an error is that a verdict shows to be no good."""


def check_sound(result: FitResult, motors: Sequence[Mapping[str, float]]) -> None:
    """Refuse a fit of sound logs that is sure of a wrong number."""
    for joint, motor in zip(result.joints, motors, strict=True):
        told = " ".join([*joint.undetermined, *(p.path for p in joint.parameters if p.at_bound)])
        for found in joint.parameters:
            if found.path in motor and found.path not in told:
                truth = motor[found.path]
                margin = 3.0 * (found.high - found.low) + 0.1 * abs(truth) + SMALL.get(found.path, 0.0)
                assert found.low - margin <= truth <= found.high + margin, f"{found}, but it is {truth}"


SMALL = {"delay.delay": DT, "encoder.bias": 2e-3, "friction.viscous": 2e-3}
"""Differences that are of no consequence, for numbers that may be zero."""


@st.composite
def cases(draw: st.DrawFn, damages: Sequence[str]) -> dict[str, Any]:
    damage = draw(st.sampled_from(damages))
    is_robot = damage == "swapped" or draw(st.sampled_from([False, False, True]))
    return {
        "seed": draw(st.integers(0, 2**31 - 1)),
        "damage": damage,
        "joints": 2 if is_robot else 1,
        "noise": draw(st.sampled_from([1e-4, 5e-4, 2e-3])),
        "logs": draw(st.integers(1, 2)),
        "window": draw(st.sampled_from([None, None, 1.0])),
        "select": draw(st.sampled_from([False, False, False, True])),
        "fix": draw(st.sampled_from(["", "", "delay.delay", "controller.kp"])),
        "starts": draw(st.integers(1, 2)),
        "stopped": draw(st.sampled_from([0, 0, 3])),
    }


def run(case: Mapping[str, Any], folder: Path) -> None:
    """Record motors, damage the logs, fit, and check."""
    rng = np.random.default_rng(case["seed"])
    joints = ("joint",) if case["joints"] == 1 else JOINTS
    motors = [drawn_motor(rng, len(joints) > 1) for _ in joints]
    sound = [recorded(motors, case["noise"], rng) for _ in range(case["logs"])]
    damage = case["damage"]
    clean = [written(folder, f"sound_{i}", raw, joints) for i, raw in enumerate(sound)]
    assert not any(log.findings for log in clean), [log.findings for log in clean]
    try:
        logs = [
            written(folder, f"run_{i}", DAMAGES[damage](raw, rng), joints) if damage else clean[i]
            for i, raw in enumerate(sound)
        ]
        result = fitted(case, plant_of(folder, logs, case["window"]), motors[0], folder)
    except ActuonError:
        if not damage:
            raise
        return
    if not damage:
        assert not result.is_useless, result.warnings
    if is_told(result):
        return
    if not damage:
        check_sound(result, motors)
        return
    result.save(folder / "found.yaml")
    error = apply(folder / "found.yaml", plant_of(folder, clean, case["window"])).mean
    assert error < 3.0 * case["noise"] + 2e-3, f"{1e3 * error:.1f} mrad on the sound logs, and nothing was said"


def fitted(case: Mapping[str, Any], plant: Plant, motor: Mapping[str, float], folder: Path) -> FitResult:
    """Fit as the case says. Where it is stopped and gone on with, the result is the same as without."""
    options = SearchOptions(
        seed=case["seed"] % 1000, starts=case["starts"], population=32, generations=150, patience=15, tolerance=0.01
    )
    given: dict[str, Any] = {"plant": plant}
    if case["select"] and len(plant.runs) > 1:
        given["select"] = ["pd", "pd_coulomb"]
    else:
        given["model"] = "pd_coulomb"
    if case["fix"] and case["joints"] == 1:
        given["fix"] = {case["fix"]: motor[case["fix"]]}
    result = fit_logs(options=options, **given)
    if case["stopped"] and "model" in given:  # a selection that is stopped may take another model
        kept = folder / "search.npz"
        fit_logs(options=dataclasses.replace(options, generations=case["stopped"]), resume=kept, **given)
        again = fit_logs(options=options, resume=kept, **given)
        for one, other in zip(again.joints, result.joints, strict=True):
            np.testing.assert_array_equal(one.values, other.values)
        try:
            fit_logs(options=dataclasses.replace(options, seed=options.seed + 1), resume=kept, **given)
        except LogError:
            pass
        else:
            raise AssertionError("a search was gone on with as another")
    return result


def _drawn(seed: int) -> dict[str, Any]:
    names = list(DAMAGES)
    return {"case": cases(["", names[seed % len(names)], names[(3 * seed + 5) % len(names)]])}


@rig("fits", 8, _drawn)
def fits(case: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(case, Path(folder))


# Logs without information ---------------------------------------------------------------------------------------------

COUNT = 2.0 * np.pi / 4096
UNRELATED: dict[str, Callable[[np.ndarray, np.ndarray, float, np.random.Generator], np.ndarray]] = {
    "still": lambda time, wanted, noise, rng: np.full(len(time), rng.uniform(-1.0, 1.0)),
    "drift": lambda time, wanted, noise, rng: noise * time / time[-1],
    "slow noise": lambda time, wanted, noise, rng: np.interp(time, time[::9], rng.normal(0.0, 0.1, len(time[::9]))),
    "walk": lambda time, wanted, noise, rng: np.cumsum(rng.normal(0.0, noise, len(time))),
    "the command": lambda time, wanted, noise, rng: wanted,
    "the command, a little": lambda time, wanted, noise, rng: noise * wanted,
}
"""Positions that tell nothing of a motor, before noise and rounding."""


@st.composite
def cases_without_information(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "seed": draw(st.integers(0, 2**31 - 1)),
        "kind": draw(st.sampled_from(list(UNRELATED))),
        "rate": draw(st.sampled_from([20.0, 50.0, 100.0, 250.0])),
        "noise": draw(st.sampled_from([2e-4, 1e-3, 1e-2])),
        "is_rounded": draw(st.booleans()),
        "logs": draw(st.integers(1, 2)),
        "window": draw(st.sampled_from([None, 1.0])),
        "model": draw(st.sampled_from(["pd", "pd_coulomb"])),
        "select": draw(st.sampled_from([False, False, True])),
    }


def log_without_information(case: Mapping[str, Any], folder: Path, number: int, rng: np.random.Generator) -> Log:
    """The log of a position that does not depend on a motor, through a file."""
    time = np.arange(0.0, SECONDS, 1.0 / case["rate"])
    wanted = sum(rng.uniform(0.3, 0.8) * np.sin(w * time + rng.uniform(0.0, 6.0)) for w in rng.uniform(1.5, 11.0, 3))
    position = UNRELATED[case["kind"]](time, wanted, case["noise"], rng)
    position = position + rng.normal(0.0, case["noise"], len(time))
    position = np.rint(position / COUNT) * COUNT if case["is_rounded"] else position
    always = np.ones((len(time), 1), bool)
    return written(folder, f"run_{number}", Raw(time, position[:, None], wanted[:, None], always), ("joint",))


def run_without_information(case: Mapping[str, Any], folder: Path) -> None:
    """Fit a log that tells nothing, and refuse a verdict that calls it good."""
    rng = np.random.default_rng(case["seed"])
    try:
        logs = [log_without_information(case, folder, number, rng) for number in range(case["logs"])]
        plant = plant_of(folder, logs, case["window"])
        options = SearchOptions(seed=case["seed"] % 1000, starts=1, population=16, generations=12)
        is_selection = case["select"] and len(plant.runs) > 1
        chosen: dict[str, Any] = {"select": ["pd", "pd_coulomb"]} if is_selection else {"model": case["model"]}
        result = fit_logs(plant=plant, options=options, **chosen)
    except LogError:
        return
    result.save(folder / "joint.yaml")
    applied = apply(folder / "joint.yaml", plant)
    positions = [(run.joint("joint").position, run.joint("joint").command) for run in plant.runs]
    still = np.mean([np.abs(position - np.median(position)).mean() for position, _ in positions])
    as_command = np.mean([np.abs(position - command).mean() for position, command in positions if command is not None])
    for verdict in (*result.verdicts, *applied.verdicts):
        assert verdict.level != "good", verdict.sentence()
        assert verdict.sentence().startswith(f"joint: {verdict.level} fit: error "), verdict.sentence()
        assert verdict.as_dict()["cause"], verdict
        if verdict.judged > min(as_command, 0.5 * still):
            assert verdict.level == "bad", verdict.sentence()
    assert result.is_useless == any(v.level == "bad" for v in result.verdicts)


@rig("fits_without_information", 10, lambda seed: {"case": cases_without_information()})
def fits_without_information(case: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_without_information(case, Path(folder))
