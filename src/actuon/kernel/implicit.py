# SPDX-License-Identifier: Apache-2.0
"""Finds the speeds that a step ends with, from the efforts of a chain and their slopes at speeds that are tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from . import implicit_dense, implicit_lanes, implicit_scalar
from .binding import Access
from .recorded import RecordedLaunch
from .types import CELL

MAX_SIZE = 64
"""Most DOFs of a robot with a matrix."""


@dataclass(frozen=True)
class Equation:
    """What the speeds depend on beside the chain, as Warp arrays of the actuator's DOFs in order."""

    velocities: wp.array
    """Velocities before the step, as the simulation has them, through indices."""
    inverse_inertia: wp.array
    """Shape (N,), or (R, D, D) with R·D = N."""
    acceleration: wp.array | None
    reference: wp.array | None
    """The effort under which the acceleration is what it is."""
    dt: float
    tolerance: float


class Scratch:
    """What a chain is evaluated with and into.

    Args:
        num_dofs: N.
        speeds: How velocities are accessed.
        device: Where it runs.
    """

    def __init__(self, num_dofs: int, speeds: Access, device: wp.Device):
        self.trial = wp.zeros(speeds.largest + 1, dtype=wp.float32, device=device)
        """The speeds that are tried, laid out as the velocities of the simulation."""
        self.effort = wp.zeros(num_dofs, dtype=wp.float32, device=device)
        """Efforts there, of the DOFs in order."""
        self.slope = wp.zeros(num_dofs, dtype=wp.float32, device=device)
        """Their derivatives by velocity."""
        self.counts = wp.zeros(2, dtype=wp.int32, device=device)
        """Bad inverse inertias, and DOFs or robots that are not solved yet."""
        self.bad, self.remaining = self.counts[0:1], self.counts[1:2]


class Solve:
    """A search for speeds. All its memory is taken once.

    Args:
        num_dofs: N.
        speeds: How velocities are accessed.
        scratch: What the chain is evaluated into.
        arrays: Names of what is kept of each DOF.
    """

    def __init__(self, num_dofs: int, speeds: Access, scratch: Scratch, arrays: tuple[str, ...]):
        self._n, self._speeds, self._scratch = num_dofs, speeds, scratch
        self._device = scratch.trial.device
        self._fixed: dict[str, Any] = {"n": num_dofs, "trial": scratch.trial, **_through(speeds)}
        self._fixed |= {name: self._floats(num_dofs) for name in arrays}
        self._launches: dict[str, RecordedLaunch] = {}

    def start(self, equation: Equation) -> None:
        """Begin at the speeds before the step."""
        raise NotImplementedError

    def improve(self, equation: Equation, is_first: bool, count: bool) -> None:
        """Take in the efforts at the speeds that were tried, and make better ones.

        Args:
            equation: What is solved.
            is_first: Whether these are the speeds before the step, which are never good enough.
            count: Add what is not solved to ``scratch.remaining``.
        """
        raise NotImplementedError

    def finish(self, equation: Equation, velocity: wp.array, residual: wp.array, unconverged: wp.array) -> None:
        """Take the best speeds, and add the number of DOFs that are not solved to ``unconverged``."""
        given = {"velocity": velocity, "residual": residual, "unconverged": unconverged}
        self.launch_by_dof("finish", "finish", True, given | {"tolerance": equation.tolerance})

    def name_bad(self, inverse_inertia: np.ndarray) -> str:
        """Which inverse inertia is bad, and why."""
        raise NotImplementedError

    def adjoint(self, equation: Equation, efforts: Access, values: dict[str, Any]) -> None:
        """Hand back what a loss gains with the speeds.

        Args:
            equation: What was solved.
            efforts: How efforts are accessed.
            values: Arrays of the solution and of adjoints, by the names of the kernel.
        """
        raise NotImplementedError

    def launch_by_dof(self, key: str, name: str, in_lanes: bool, values: dict[str, Any]) -> None:
        """Launch a kernel over the DOFs.

        Args:
            key: What the launch is called, to be bound once.
            name: Name of the kernel.
            in_lanes: Take blocks of DOFs, on the CPU. Otherwise each DOF is a thread.
            values: Arguments that may change, by name.
        """
        in_lanes = in_lanes and self._device.is_cpu
        kernel = getattr(implicit_lanes if in_lanes else implicit_scalar, name)
        self._launch(key, kernel, -(-self._n // CELL) if in_lanes else self._n, values)

    def _launch(self, key: str, kernel: Any, threads: int, values: dict[str, Any]) -> None:
        if key not in self._launches:
            self._launches[key] = RecordedLaunch(kernel, (threads, 1), self._device, self._fixed | values)
        self._launches[key].launch(**values)

    def _floats(self, *shape: int) -> wp.array:
        return wp.zeros(shape, dtype=wp.float32, device=self._device)


class DiagonalSolve(Solve):
    """Finds the speed of each DOF by itself. Arguments as `Solve`."""

    def __init__(self, num_dofs: int, speeds: Access, scratch: Scratch):
        bracket = ("low", "high", "from_low", "from_high", "low_rise", "high_rise", "last", "last_width")
        super().__init__(num_dofs, speeds, scratch, ("free", "gain", *bracket, "best", "error"))

    def start(self, equation: Equation) -> None:
        """Begin at the speeds before the step."""
        given = _given(equation)
        in_lanes = all(array is None or array.is_contiguous for array in given.values())
        given |= {"dt": equation.dt, "bad": self._scratch.bad}
        self.launch_by_dof("start" if in_lanes else "start by DOF", "start", in_lanes, given)

    def improve(self, equation: Equation, is_first: bool, count: bool) -> None:
        """Take in the efforts at the speeds that were tried, and make better ones."""
        scratch = self._scratch
        values = {"effort": scratch.effort, "slope": scratch.slope, "remaining": scratch.remaining if count else None}
        values |= {"tolerance": equation.tolerance, "is_first": is_first}
        self.launch_by_dof("first" if is_first else "improve", "improve", True, values)

    def name_bad(self, inverse_inertia: np.ndarray) -> str:
        """Which inverse inertia is bad, and why."""
        at = int(np.flatnonzero(~((inverse_inertia > 0.0) & np.isfinite(inverse_inertia)))[0])
        return f"got {inverse_inertia[at]:g} for DOF {at}; must be a finite number > 0 [1/(kg·m²) or 1/kg]"

    def adjoint(self, equation: Equation, efforts: Access, values: dict[str, Any]) -> None:
        """Hand back what a loss gains with the speeds."""
        given = _given(equation) | {"dt": equation.dt} | _through(self._speeds) | _through(efforts, "effort_")
        _launch_once(implicit_scalar.adjoint, self._n, given | values, self._device)


class DenseSolve(Solve):
    """Finds the speeds of the DOFs of each robot together. Arguments as `Solve`, and the DOFs of a robot, ``size``."""

    def __init__(self, num_dofs: int, speeds: Access, scratch: Scratch, size: int):
        samples = ("left", "right", "left_effort", "right_effort", "last", "last_effort")
        arrays = ("free", "best", "error", *samples, "residual", "chord", "aim", "last_aim", "forced", "step")
        super().__init__(num_dofs, speeds, scratch, arrays)
        self._robots = num_dofs // size
        self._known = wp.zeros(self._robots, dtype=wp.int32, device=self._device)
        self._fixed |= {"size": size, "known": self._known, "matrix": self._floats(self._robots, size, size)}
        self._fixed |= {
            "merit": self._floats(self._robots),
            "stuck": wp.zeros(num_dofs, dtype=wp.int32, device=self._device),
        }

    def start(self, equation: Equation) -> None:
        """Begin at the speeds before the step."""
        given = _given(equation) | {"dt": equation.dt, "bad": self._scratch.bad}
        self._launch("start", implicit_dense.start, self._robots, given)

    def improve(self, equation: Equation, is_first: bool, count: bool) -> None:
        """Take in the efforts at the speeds that were tried, and make better ones."""
        scratch = self._scratch
        values = {"effort": scratch.effort, "slope": scratch.slope, "remaining": scratch.remaining if count else None}
        values |= {"tolerance": equation.tolerance, "is_first": is_first}
        values |= {"dt": equation.dt, "inverse_inertia": equation.inverse_inertia}
        self._launch("first" if is_first else "improve", implicit_dense.improve, self._robots, values)

    def name_bad(self, inverse_inertia: np.ndarray) -> str:
        """Which inverse inertia is bad, and why."""
        robot = int(np.flatnonzero(self._known.numpy() == implicit_dense.BAD)[0])
        found = inverse_inertia[robot]
        scale = np.sqrt(np.abs(np.outer(found.diagonal(), found.diagonal())))
        why = "is not positive definite"
        if not np.isfinite(found).all():
            why = "is not finite"
        elif not (np.abs(found - found.T) <= implicit_dense.ASYMMETRY * scale).all():
            why = "is not symmetric"
        return f"the matrix of robot {robot} {why}; must be the inverse of a mass matrix, or a block of one"

    def adjoint(self, equation: Equation, efforts: Access, values: dict[str, Any]) -> None:
        """Hand back what a loss gains with the speeds."""
        given = self._fixed | _given(equation) | {"dt": equation.dt} | _through(efforts, "effort_")
        given |= {"share": self._fixed["step"]}
        _launch_once(implicit_dense.adjoint, self._robots, given | values, self._device)


def _given(equation: Equation) -> dict[str, Any]:
    names = ("velocities", "inverse_inertia", "acceleration", "reference")
    return {name: getattr(equation, name) for name in names}


def _through(access: Access, prefix: str = "") -> dict[str, Any]:
    return {f"{prefix}indices": None if access.runs_on else access.indices, f"{prefix}offset": access.first}


def _launch_once(kernel: Any, threads: int, values: dict[str, Any], device: wp.Device) -> None:
    wp.launch(kernel, (threads, 1), [values[argument.label] for argument in kernel.adj.args], device=device)
