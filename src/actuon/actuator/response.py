# SPDX-License-Identifier: Apache-2.0
"""`Response`: response of joints to the efforts of an actuator, for implicit steps outside an engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import warp as wp

from ..arrays import SharedInput
from ..errors import ArrayError, ConvergenceError, ParameterError, StructureError
from ..typing import Array

_NAMED = 5
"""Number of DOFs that an error names."""

MAX_SIZE = 64
"""Largest number of DOFs of a robot with a matrix."""


class Response:
    """Response of joints to efforts over a step, for efforts at the velocities after the step.

    `Actuator.step(..., dt=h, response=...)` writes the effort τ(w) of the motors at the velocities w after the
    step::

        w = q̇ + h·(a + A·(τ(w) − τᵣ))

    Arrays hold the actuator's DOFs in order, and are read at every step: write into them, or assign others.

    Args:
        inverse_inertia: A. Inverse of the effective inertia of each DOF [1/(kg·m²) or 1/kg], shape (N,); or the
            inverse mass matrix of each robot, or a block of it, shape (R, D, D) with R·D = N, symmetric and positive
            definite.
        acceleration: a. Acceleration under ``effort`` and all other forces, such as gravity, contacts and other
            actuators [rad/s² or m/s²], shape (N,). Default: zero.
        effort: τᵣ. Efforts of this actuator that ``acceleration`` includes [N·m or N], shape (N,). Default: zero.
        max_iterations: Largest number of evaluations of the motor model per step; the exact number in a captured graph
            and on a GPU.
        tolerance: Largest relative error of a velocity: tolerance · (1 + |w|) [rad/s or m/s].

    Examples:
        >>> actuator = actuon.Actuator([0], actuon.ControllerPD(kp=100.0, kd=10.0))
        >>> names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
        >>> sim = {name: np.ones(1, np.float32) for name in names}
        >>> response = actuon.Response(inverse_inertia=np.array([1.0 / 8e-4]))
        >>> actuator.step(sim, sim, dt=0.005, response=response)
    """

    def __init__(
        self,
        inverse_inertia: Array,
        acceleration: Array | None = None,
        effort: Array | None = None,
        *,
        max_iterations: int = 30,
        tolerance: float = 1e-4,
    ):
        if isinstance(max_iterations, bool) or not isinstance(max_iterations, (int, np.integer)) or max_iterations < 2:
            raise ParameterError(f"max_iterations: got {max_iterations!r}; must be a whole number ≥ 2")
        if not isinstance(tolerance, (int, float, np.number)) or not 0.0 < float(tolerance) < math.inf:
            raise ParameterError(f"tolerance: got {tolerance!r}; must be a finite number > 0 [rad/s or m/s]")
        self.max_iterations = int(max_iterations)
        self.tolerance = float(tolerance)
        self._inputs: dict[str, SharedInput | None] = {}
        self._shape: tuple[int, ...] = ()
        self.inverse_inertia = inverse_inertia
        inverse = self.input("inverse_inertia")
        assert inverse is not None
        self._shape, self.device = tuple(inverse.shape), inverse.device
        if self.device.is_capturing:
            raise StructureError("a Response cannot be created during graph capture; create it before")
        self.num_dofs = n = math.prod(self._shape[:2])
        self.acceleration = acceleration
        self.effort = effort
        self.velocity = wp.zeros(n, dtype=wp.float32, device=self.device)
        """Velocities w after the last step [rad/s or m/s], shape (N,). On a `wp.Tape`, each step makes a new array."""
        self.residual = wp.zeros(n, dtype=wp.float32, device=self.device)
        """Estimated error of these velocities [rad/s or m/s], shape (N,)."""
        self.unconverged = wp.zeros(1, dtype=wp.int32, device=self.device)
        """Number of DOFs beyond the tolerance, summed over all steps, shape (1,). You may zero it at any time."""

    def check(self) -> None:
        """Wait for the device, and raise if the last step did not converge. Steps on a CPU do so themselves.

        Raises:
            ConvergenceError: Names the DOFs and their errors.
        """
        off, velocity = self.residual.numpy(), self.velocity.numpy()
        dofs = np.flatnonzero(~(off <= np.float32(self.tolerance) * (1.0 + np.abs(velocity))))
        if not dofs.size:
            return
        named = ", ".join(f"DOF {dof} by {off[dof]:.2g}" for dof in dofs[:_NAMED])
        more = f" and {len(dofs) - _NAMED} more" if len(dofs) > _NAMED else ""
        raise ConvergenceError(
            f"response: the velocities of {len(dofs)} of {len(off)} DOFs did not converge in {self.max_iterations} "
            f"iterations; errors [rad/s or m/s]: {named}{more}. The step used the best velocities found. Increase "
            "max_iterations or tolerance; neither helps if an effort jumps or an input is NaN",
            dofs.tolist(),
            off[dofs].tolist(),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the inverse inertia."""
        return self._shape

    @property
    def inverse_inertia(self) -> Array:
        """A [1/(kg·m²) or 1/kg], shape (N,) or (R, D, D), as passed."""
        return self._value("inverse_inertia")

    @inverse_inertia.setter
    def inverse_inertia(self, value: Array) -> None:
        self._inputs["inverse_inertia"] = SharedInput(value, "response.inverse_inertia", self._check_inverse)

    @property
    def acceleration(self) -> Array | None:
        """a [rad/s² or m/s²], shape (N,), as passed. None means zero."""
        return self._value("acceleration")

    @acceleration.setter
    def acceleration(self, value: Array | None) -> None:
        self._set("acceleration", value)

    @property
    def effort(self) -> Array | None:
        """Efforts τᵣ that the acceleration includes [N·m or N], shape (N,), as passed. None means zero."""
        return self._value("effort")

    @effort.setter
    def effort(self, value: Array | None) -> None:
        self._set("effort", value)

    def input(self, name: str, *, copies: bool = True) -> wp.array | None:
        """Return an array by name, as a Warp array.

        Args:
            name: ``"inverse_inertia"``, ``"acceleration"`` or ``"effort"``.
            copies: Accept float64, through a copy.
        """
        given = self._inputs[name]
        return None if given is None else given.array(copies=copies)

    def _set(self, name: str, value: Array | None) -> None:
        where = f"response.{name}"
        self._inputs[name] = None if value is None else SharedInput(value, where, lambda a: self._check_dofs(a, where))

    def _value(self, name: str) -> Any:
        given = self._inputs[name]
        return None if given is None else given.value

    def _check_inverse(self, array: wp.array) -> None:
        where, shape = "response.inverse_inertia", tuple(array.shape)
        if self._shape:
            if shape != self._shape:
                raise ArrayError(f"{where}: got shape {shape}; must keep its shape {self._shape}")
            self._check_device(array, where)
        elif len(shape) not in (1, 3) or shape[1:2] != shape[2:3]:
            hint = "; for one robot, A[None]" if len(shape) == 2 and shape[0] == shape[1] else ""
            raise ArrayError(f"{where}: got shape {shape}; must be (N,), or (R, D, D) with R·D = N{hint}")
        elif shape[-1] > MAX_SIZE and len(shape) == 3:
            raise ArrayError(f"{where}: got matrices of {shape[-1]} DOFs; must have at most {MAX_SIZE}")

    def _check_dofs(self, array: wp.array, where: str) -> None:
        if tuple(array.shape) != (self.num_dofs,):
            raise ArrayError(f"{where}: got shape {tuple(array.shape)}; must be ({self.num_dofs},), one per DOF")
        self._check_device(array, where)

    def _check_device(self, array: wp.array, where: str) -> None:
        if array.device != self.device:
            raise ArrayError(f"{where}: got an array on '{array.device}'; inverse_inertia is on '{self.device}'")

    def __repr__(self) -> str:
        return f"<Response of {self.num_dofs} DOFs on {self.device}: inverse inertia of shape {self._shape}>"
