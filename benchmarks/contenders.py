# SPDX-License-Identifier: Apache-2.0
"""A chain as plain arrays, and who steps it: Actuon, Newton, PyTorch."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

import actuon

from .gate import require_agreement

DEPTH = 5
JOINTS = 12
GATE_STEPS = 12
RANGES = {
    "kp": (0.0, 100.0),
    "kd": (0.0, 5.0),
    "saturation_effort": (10.0, 80.0),
    "velocity_limit": (2.0, 20.0),
    "max_motor_effort": (5.0, 60.0),
    "max_effort": (5.0, 60.0),
}
"""Ranges that parameters are drawn from: two of the controller, three of the DC motor, the maximum."""


class Problem:
    """PD over ``n`` DOFs, as plain arrays, with what comes before and after it.

    Args:
        n: Number of DOFs.
        layout: ``contiguous``: DOF i is entry i of every array. ``scattered``: each environment's 12 joints come after
            a free base of 7 coordinates and 6 velocities.
        motor: Whether a DC motor and a maximum effort follow.
        lags: None without a delay; ``equal``: 5 for all; ``mixed``: from 0 to 5.
    """

    def __init__(self, n: int, layout: str = "contiguous", motor: bool = True, lags: str | None = "equal"):
        rng = np.random.default_rng(1)
        self.n, self.layout, self.motor = n, layout, motor
        dofs = coords = np.arange(n)
        if layout == "scattered":
            env, joint = np.divmod(np.arange(n), JOINTS)
            dofs, coords = env * (JOINTS + 6) + 6 + joint, env * (JOINTS + 7) + 7 + joint
        self.dofs, self.coords = dofs.astype(np.uint32), coords.astype(np.uint32)
        drawn = {"equal": np.full(n, DEPTH), "mixed": rng.integers(0, DEPTH + 1, n)}
        self.lags = None if lags is None else drawn[lags].astype(np.int32)
        names = tuple(RANGES)[: 6 if motor else 2]
        self.parameters = {name: rng.uniform(*RANGES[name], n).astype(np.float32) for name in names}
        size = {
            "joint_q": coords,
            "joint_qd": dofs,
            "joint_target_q": coords,
            "joint_target_qd": dofs,
            "joint_act": dofs,
        }
        self.signals = {
            name: rng.standard_normal(int(index[-1]) + 1).astype(np.float32) * 2 for name, index in size.items()
        }
        self.outputs = int(dofs[-1]) + 1

    def gate_signals(self, step: int) -> dict[str, np.ndarray]:
        return {name: np.roll(array, step) for name, array in self.signals.items()}

    def floats_touched(self) -> int:
        """Return how many numbers per DOF a step must read or write once.

        Signals, parameters, the output twice; with a delay the lag, a row of three commands read and one written.
        """
        return len(self.signals) + len(self.parameters) + 2 + (0 if self.lags is None else 1 + 3 + 3)


def _parts(problem: Problem) -> tuple[list[wp.array], list[wp.array], list[wp.array]]:
    """Return the parameters of the controller, the DC motor and the maximum effort."""
    arrays = [wp.array(array) for array in problem.parameters.values()]
    return arrays[:2], arrays[2:5], arrays[5:]


EAGER = "eager"
"""Mode of contenders that Python calls launch by launch, or operation by operation."""

COMPILED = "captured or compiled"
"""Mode of graphs that are replayed, of ``torch.compile`` and of compiled loops."""


class Contender(ABC):
    """Something that steps a problem. ``sim`` holds its arrays by name. Speeds are compared within a mode."""

    label: str
    mode = EAGER

    def __init__(self, problem: Problem):
        self.sim = SimpleNamespace(**{name: wp.array(array) for name, array in problem.signals.items()})
        self.sim.joint_f = wp.zeros(problem.outputs, dtype=wp.float32)
        self.gains, self.motor, self.maximum = _parts(problem)

    @abstractmethod
    def step(self) -> None: ...

    def efforts(self, signals: dict[str, np.ndarray]) -> np.ndarray:
        for name, array in signals.items():
            getattr(self.sim, name).assign(array)
        self.sim.joint_f.zero_()
        self.step()
        return self.sim.joint_f.numpy().copy()


class ActuonSwapped(Contender):
    """Two states, swapped after each step."""

    label = "Actuon, two states"
    robot_dofs: int | None = None

    def __init__(self, problem: Problem):
        super().__init__(problem)
        self.actuator = actuon.Actuator(
            wp.array(problem.dofs),
            actuon.ControllerPD(*self.gains),
            delay=None if problem.lags is None else actuon.Delay(wp.array(problem.lags), DEPTH),
            clamping=[actuon.ClampingDCMotor(*self.motor), actuon.ClampingMaxEffort(*self.maximum)]
            if problem.motor
            else [],
            pos_indices=wp.array(problem.coords),
            robot_dofs=self.robot_dofs,
        )
        self.current, self.other = self.actuator.state(), self.actuator.state()

    def step(self) -> None:
        self.actuator.step(self.sim, self.sim, self.current, self.other, dt=0.005)
        self.current, self.other = self.other, self.current


class ActuonInPlace(ActuonSwapped):
    """One state, updated in place."""

    label = "Actuon, in place"

    def __init__(self, problem: Problem):
        super().__init__(problem)
        self.other = self.current


class ActuonCaptured(ActuonInPlace):
    """One step in place, captured and replayed."""

    label = "Actuon, captured graph"
    mode = COMPILED

    def __init__(self, problem: Problem):
        super().__init__(problem)
        with wp.ScopedCapture() as capture:
            super().step()
        self.graph = capture.graph
        if self.current is not None:
            self.current.reset()

    def step(self) -> None:
        wp.capture_launch(self.graph)


_ROBOTS = """
char packed[8192];
__builtin_memcpy(packed, (const char*)arguments, size);
for (int robot = 0; robot < robots; ++robot) {
    *(wp::int32*)(packed + first) = robot;
    ((void (*)(void*, void*))function)((void*)bounds, packed);
}
"""


@wp.func_native(_ROBOTS)
def _call_robots(function: wp.uint64, bounds: wp.uint64, arguments: wp.uint64, size: int, first: int, robots: int): ...


@wp.kernel(enable_backward=False)
def _step_robots(function: wp.uint64, bounds: wp.uint64, arguments: wp.uint64, size: int, first: int, robots: int):
    _call_robots(function, bounds, arguments, size, first, robots)


class ActuonByRobot(ActuonInPlace):
    """Robot by robot in a compiled loop, as an engine steps them between two steps of physics."""

    label = "Actuon, robot by robot"
    mode = COMPILED
    robot_dofs = JOINTS

    def __init__(self, problem: Problem):
        super().__init__(problem)
        self.call = call = self.actuator.c_call(self.sim, self.sim, self.current, 0.005)
        assert call is not None
        given = [call.function, call.bounds, call.arguments, call.size, call.first, problem.n // JOINTS]
        self.launch = wp.launch(_step_robots, 1, given, device="cpu", record_cmd=True)

    def step(self) -> None:
        self.launch.launch()


class NewtonActuators(Contender):
    """Newton's own actuators: one kernel per stage."""

    label = "Newton"

    def __init__(self, problem: Problem):
        import newton.actuators as na

        super().__init__(problem)
        coords = wp.array(problem.coords)
        self.actuator = na.Actuator(
            wp.array(problem.dofs),
            drive=na.DrivePD(*self.gains),
            delay=None if problem.lags is None else na.Delay(wp.array(problem.lags), DEPTH),
            clamping=[na.ClampingDCMotor(*self.motor), na.ClampingMaxEffort(*self.maximum)] if problem.motor else [],
            pos_indices=coords,
            target_pos_indices=coords,
        )
        self.current, self.other = self.actuator.state(), self.actuator.state()

    def step(self) -> None:
        self.actuator.step(self.sim, self.sim, self.current, self.other, dt=0.005)
        self.current, self.other = self.other, self.current


class NewtonCaptured(NewtonActuators):
    """Newton's step from one state to the other and the step back, captured and replayed in turns."""

    label = "Newton, captured graph"
    mode = COMPILED

    def __init__(self, problem: Problem):
        super().__init__(problem)
        graphs = []
        for _ in range(2):
            with wp.ScopedCapture() as capture:
                super().step()
            graphs.append(capture.graph)
        for state in (self.current, self.other):
            if state is not None:
                state.reset()
        self.graphs = itertools.cycle(graphs)

    def step(self) -> None:
        wp.capture_launch(next(self.graphs))


class TorchEager(Contender):
    """The whole chain's maths in eager PyTorch, with its ring updated in place and one gather per command."""

    label = "PyTorch"

    def __init__(self, problem: Problem):
        import torch

        super().__init__(problem)
        self.torch = torch
        self.tensors = {name: wp.to_torch(array) for name, array in vars(self.sim).items()}
        self.contiguous = problem.layout == "contiguous"
        self.dofs = torch.from_numpy(problem.dofs.astype(np.int64))
        self.coords = torch.from_numpy(problem.coords.astype(np.int64))
        lags = problem.lags if problem.lags is not None else np.zeros(problem.n)
        self.lags = torch.from_numpy(lags.astype(np.int64))
        self.common_lag = int(lags[0]) if (lags == lags[0]).all() else None
        self.ring = torch.zeros(3, DEPTH, problem.n)
        self.pushes: Any = 0
        self.newest: Any = DEPTH - 1
        arrays = [wp.to_torch(array) for array in (*self.gains, *self.motor, *self.maximum)]
        self.kp, self.kd, self.stall, self.no_load, self.motor_limit, self.limit = arrays

    def _late(self, command: Any, newest: Any, pushes: Any) -> Any:
        torch = self.torch
        if pushes == 0:
            return command
        if self.common_lag is not None:
            lag = min(self.common_lag, pushes)
            return self.ring[:, (newest - lag + 1) % DEPTH] if lag else command
        lag = self.lags.clamp(max=pushes)
        row = (newest - lag + 1) % DEPTH
        late = torch.gather(self.ring, 1, row.expand(3, 1, -1))[:, 0]
        return torch.where(lag > 0, late, command)

    def compute(self, newest: Any, pushes: Any) -> None:
        """Add the efforts of a step, and store its command."""
        torch, t = self.torch, self.tensors
        if self.contiguous:
            q, qd = t["joint_q"], t["joint_qd"]
            command = torch.stack([t["joint_target_q"], t["joint_target_qd"], t["joint_act"]])
        else:
            q, qd = t["joint_q"][self.coords], t["joint_qd"][self.dofs]
            target_qd, act = t["joint_target_qd"][self.dofs], t["joint_act"][self.dofs]
            command = torch.stack([t["joint_target_q"][self.coords], target_qd, act])
        target_q, target_qd, act = self._late(command, newest, pushes)
        effort = act + self.kp * (target_q - q) + self.kd * (target_qd - qd)
        corner = self.no_load * (1.0 + self.motor_limit / self.stall)
        speed = torch.clamp(qd, -corner, corner) / self.no_load
        high = torch.minimum(self.stall * (1.0 - speed), self.motor_limit)
        low = torch.maximum(self.stall * (-1.0 - speed), -self.motor_limit)
        effort = torch.clamp(torch.clamp(effort, low, high), -self.limit, self.limit)
        if self.contiguous:
            t["joint_f"].add_(effort)
        else:
            t["joint_f"].index_add_(0, self.dofs, effort)
        self._store(command, newest)

    def _store(self, command: Any, newest: Any) -> None:
        self.newest = (newest + 1) % DEPTH
        self.ring[:, self.newest] = command
        self.pushes = min(self.pushes + 1, DEPTH)

    def step(self) -> None:
        with self.torch.inference_mode():
            self.compute(self.newest, self.pushes)


class TorchCompiled(TorchEager):
    """PyTorch by ``torch.compile``, which needs a C++ compiler. Numbers that change from step to step are tensors."""

    label = "PyTorch, compiled"
    mode = COMPILED

    def __init__(self, problem: Problem):
        super().__init__(problem)
        torch = self.torch
        self.newest, self.pushes = torch.tensor([DEPTH - 1]), torch.tensor([0])
        torch.compiler.reset()  # nothing of other sizes and layouts
        self.compute = torch.compile(self.compute)  # type: ignore[method-assign]

    def _late(self, command: Any, newest: Any, pushes: Any) -> Any:
        torch = self.torch
        lag = torch.minimum(pushes, self.lags if self.common_lag is None else torch.full_like(pushes, self.common_lag))
        row = (newest - lag + 1) % DEPTH
        if self.common_lag is None:
            late = torch.gather(self.ring, 1, row.expand(3, 1, -1))[:, 0]
        else:
            late = self.ring.index_select(1, row)[:, 0]
        return torch.where(lag > 0, late, command)

    def _store(self, command: Any, newest: Any) -> None:
        self.newest.copy_((newest + 1) % DEPTH)
        self.ring.index_copy_(1, self.newest, command[:, None])
        self.pushes.copy_((self.pushes + 1).clamp(max=DEPTH))

    def step(self) -> None:
        with self.torch.inference_mode():
            self.compute(self.newest, self.pushes)


class Copy:
    """Copying as many bytes as a step must touch, half read and half written."""

    label = "copy of the same bytes"

    def __init__(self, problem: Problem):
        self.source = np.ones(problem.n * problem.floats_touched() // 2, np.float32)
        self.target = self.source.copy()

    def step(self) -> None:
        np.copyto(self.target, self.source)


def require_same_efforts(where: str, problem: Problem, contenders: Iterable[Contender], tolerance: float) -> None:
    """Raise `Disagreement` unless all contenders give the same efforts over several steps."""
    for step in range(GATE_STEPS):
        signals = problem.gate_signals(step)
        efforts = {contender.label: contender.efforts(signals) for contender in contenders}
        require_agreement(f"{where}, {problem.n} DOFs, step {step}", efforts, rtol=tolerance, atol=tolerance)
