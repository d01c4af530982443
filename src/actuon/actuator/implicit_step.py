# SPDX-License-Identifier: Apache-2.0
r"""Implicit steps outside an engine: efforts at the velocities after the step.

The velocities w are a root of :math:`w = \dot q + h\,(a + A\,(\tau(w) - \tau_r))`. The search evaluates the chain at
trial velocities, each time from the state before the step into a state that is discarded; only the last step, at the
root, writes outputs and state. Evaluations do not wait for the host, except on a CPU, where it checks for convergence.

On a tape the root is differentiated by the implicit function theorem. With the derivatives of the efforts, :math:`B =
\mathrm{diag}(\partial\tau/\partial w)`, and the gradient of a loss by w, :math:`\bar w`, let :math:`(1 - h A B)^T \mu =
\bar w`. Then the gradient by :math:`\dot q` is :math:`\mu`, by a :math:`h\mu`, and by A :math:`h \mu (\tau -
\tau_r)^T`. The chain's own adjoint propagates :math:`h A^T \mu`, the gradient by the efforts, to all its inputs.
"""

from __future__ import annotations

import dataclasses
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ..arrays import SharedInput
from ..components.component import Component
from ..errors import ArrayError, ParameterError, StateError, StructureError
from ..kernel.arguments import Role, array_name
from ..kernel.build import kernel_for
from ..kernel.chain import DIRECT, Chain, Law, Stage, Write
from ..kernel.launch import Launch, recording_tape, unrecorded
from ..kernel.run_stage import memory_values, values_by_name
from ..kernel.state import Cells, Memory, Word
from ..kernel.types import Flavour, Floats, Indices, module_options
from ..typing import Array
from . import implicit_dense, implicit_laws
from .response import Response
from .state import ActuatorState
from .stepping import (
    OUTPUT,
    IndexLayout,
    MaybeState,
    Stepper,
    Wiring,
    compile_lock,
    renew_lock_after_fork,
    require_no_tape,
    stepper_of,
)

_DERIVATIVE = "effort_derivative_qd"

wp.set_module_options(module_options(Flavour.GRAD))


class ImplicitStepper:
    """Steps a chain with efforts at the velocities after the step.

    Args:
        wiring: Chain and its arrays.
        stepper: Explicit stepper of the chain.
        new_state: Returns a new state, or None if the chain has no memory.
        requires_grad: Let a `wp.Tape` differentiate through steps.
    """

    def __init__(
        self, wiring: Wiring, stepper: Stepper, new_state: Callable[[], ActuatorState | None], requires_grad: bool
    ):
        why_not = derivative_obstacle(wiring.components, False)
        if why_not:
            raise StructureError(f"response: the effort has no derivatives: {why_not}")
        self._speeds, self._efforts = wiring.layouts["vel"], wiring.layouts["effort"]
        for name, access in (("indices", self._speeds), ("effort_indices", self._efforts)):
            if access.repeats:
                raise ParameterError(f"response: some {name} repeat; each DOF needs its own velocity and effort")
        _refuse_capture(wiring.device)
        self._wiring, self._stepper, self._requires_grad = wiring, stepper, requires_grad
        in_order = IndexLayout.of(wp.array(range(wiring.num_dofs), dtype=wp.uint32, device=wiring.device))
        self._derivative_wiring = dataclasses.replace(
            wiring,
            layouts={**wiring.layouts, "effort": in_order},
            labels={**wiring.labels, _DERIVATIVE: _DERIVATIVE},
            adds=False,
            telemetry=(_DERIVATIVE,),
            keeps_rings=False,
        )
        self._derivatives = stepper_of(self._derivative_wiring, requires_grad=False, fused=True)
        self._discarded_state = new_state()
        self._buffers = SolverBuffers(wiring.num_dofs, self._speeds, wiring.device)
        self._solves: dict[tuple[int, ...], Solve] = {}
        self._velocities: SharedInput | None = None
        self._bare: Response | None = None
        self.lock = threading.Lock()
        renew_lock_after_fork(self)

    def step(
        self,
        given: tuple[Array | None, ...],
        current: MaybeState,
        following: MaybeState,
        dt: float | None,
        response: Response | Array,
    ) -> None:
        """Step, from the simulation arrays in the order of `Wiring.slots`."""
        with self.lock:
            is_watched = self._wiring.device.is_cpu and not self._wiring.device.is_capturing
            answer = self._response(response, is_watched)
            tape = recording_tape()
            if not self._requires_grad:
                require_no_tape()
            copies = tape is None and not self._wiring.device.is_capturing
            equation = self._equation(given, answer, _checked(dt), copies)
            before = int(answer.unconverged.numpy()[0]) if is_watched else 0
            with unrecorded():
                self._solve(equation, given, current, answer, is_watched)
            if tape is None:
                self._stepper.step(self._with_velocities(self._buffers.trial, given), current, following, dt)
            else:
                self._record(tape, equation, given, current, following, answer)
            if is_watched and answer.unconverged.numpy()[0] != before:
                answer.check()

    def _response(self, given: Response | Array, is_watched: bool) -> Response:
        if isinstance(given, Response):
            response = given
        else:
            if not is_watched:
                raise ArrayError(
                    "response: got an array; in a captured graph and on a GPU, a step cannot raise if it does not "
                    "converge: create an actuon.Response(array) once, and check its `unconverged`"
                )
            if self._bare is None or self._bare.shape != tuple(getattr(given, "shape", ())):
                self._bare = Response(given)
            elif self._bare.inverse_inertia is not given:
                self._bare.inverse_inertia = given
            response = self._bare
        where, n, device = "response.inverse_inertia", self._wiring.num_dofs, self._wiring.device
        if response.num_dofs != n:
            raise ArrayError(f"{where}: got shape {response.shape}; the actuator has {n} DOFs")
        if response.device != device:
            raise ArrayError(f"{where}: got an array on '{response.device}'; the actuator runs on '{device}'")
        return response

    def _equation(self, given: tuple[Array | None, ...], response: Response, dt: float, copies: bool) -> Equation:
        value = given[self._wiring.slots.index("qd")]
        if self._velocities is None or self._velocities.value is not value:
            self._velocities = SharedInput(value, self._wiring.labels["qd"], self._check_velocities)
        inverse_inertia = response.input("inverse_inertia", copies=copies)
        assert inverse_inertia is not None
        return Equation(
            self._velocities.array(copies=copies),
            inverse_inertia,
            response.input("acceleration", copies=copies),
            response.input("effort", copies=copies),
            dt,
            response.tolerance,
        )

    def _check_velocities(self, array: wp.array) -> None:
        self._wiring.signal("qd", array)

    def _solver(self, response: Response) -> Solve:
        key = response.shape[1:]
        if key not in self._solves:
            _refuse_capture(self._wiring.device)
            given = self._wiring.num_dofs, self._speeds, self._buffers
            self._solves[key] = DenseSolve(*given, key[0]) if key else DiagonalSolve(*given)
        return self._solves[key]

    def _with_velocities(self, speeds: wp.array, given: tuple[Array | None, ...], **written: Array) -> tuple[Any, ...]:
        """Return the simulation arrays with other velocities, and with the ``written`` ones by name."""
        return tuple(
            speeds if slot == "qd" else written.get(slot, value)
            for slot, value in zip(self._wiring.slots, given, strict=True)
        )

    def _solve(
        self,
        equation: Equation,
        given: tuple[Array | None, ...],
        current: MaybeState,
        response: Response,
        is_watched: bool,
    ) -> None:
        """Write the velocities after the step into ``trial``, which the chain reads."""
        solve = self._solver(response)
        with compile_lock:
            solve.start(equation)
        if is_watched and solve.has_bad():
            raise ArrayError(f"response.inverse_inertia: {solve.name_bad(equation.inverse_inertia.numpy())}")
        for iteration in range(response.max_iterations):
            self._evaluate(given, current, equation.dt)
            with compile_lock:
                solve.improve(equation, iteration == 0)
            if is_watched and solve.is_solved():
                break
        with compile_lock:
            solve.finish(equation, response.velocity, response.residual, response.unconverged)

    def _evaluate(self, given: tuple[Array | None, ...], current: MaybeState, dt: float) -> None:
        """Evaluate efforts and their derivatives at the trial velocities."""
        buffers = self._buffers
        signals = self._with_velocities(buffers.trial, given)[: len(self._wiring.sources)]
        self._derivatives.step((*signals, buffers.effort, None, buffers.derivative), current, self._discarded_state, dt)

    def _record(
        self,
        tape: wp.Tape,
        equation: Equation,
        given: tuple[Array | None, ...],
        current: MaybeState,
        following: MaybeState,
        response: Response,
    ) -> None:
        """Step on a tape, at the solved velocities."""
        device, n = self._wiring.device, self._wiring.num_dofs
        with unrecorded():
            self._evaluate(given, current, equation.dt)
            effort, derivative = wp.clone(self._buffers.effort), wp.clone(self._buffers.derivative)
            speeds = wp.clone(self._buffers.trial, requires_grad=True)
        solve = self._solver(response)

        def backward() -> None:
            with self.lock:
                self._adjoint(solve, equation, given, current, speeds, effort, derivative)

        inputs = (equation.velocities, equation.inverse_inertia, equation.acceleration, equation.reference)
        tape.record_func(backward, [speeds, *(array for array in inputs if array is not None and array.requires_grad)])
        self._stepper.step(self._with_velocities(speeds, given), current, following, equation.dt)
        response.velocity = wp.empty(n, dtype=wp.float32, device=device, requires_grad=True)
        indices = [None if self._speeds.is_contiguous else self._speeds.indices, self._speeds.first]
        wp.launch(_pick, n, [speeds, *indices], [response.velocity], device=device)

    def _adjoint(
        self,
        solve: Solve,
        equation: Equation,
        given: tuple[Array | None, ...],
        current: MaybeState,
        speeds: wp.array,
        effort: wp.array,
        derivative: wp.array,
    ) -> None:
        output = wp.zeros(self._efforts.largest + 1, dtype=wp.float32, device=self._wiring.device, requires_grad=True)
        adjoints = {
            "velocity_adjoint": equation.velocities.grad,
            "acceleration_adjoint": _grad(equation.acceleration),
            "reference_adjoint": _grad(equation.reference),
            "inertia_adjoint": equation.inverse_inertia.grad,
        }
        solved = {
            "effort": effort,
            "derivative": derivative,
            "speed_adjoint": speeds.grad,
            "effort_adjoint": output.grad,
        }
        solve.adjoint(equation, self._efforts, solved | adjoints)
        written = dict.fromkeys(self._wiring.slots[len(self._wiring.sources) :])
        again = wp.Tape()
        tape = None if current is None else current.tape
        with again:
            self._stepper.step(
                self._with_velocities(speeds, given, **written | {OUTPUT: output}),
                current,
                self._discarded_state,
                equation.dt,
            )
        again.backward()
        if current is not None:
            current.tape = tape
        speeds.grad.zero_()


def _refuse_capture(device: wp.Device) -> None:
    if device.is_capturing:
        raise StructureError("response: take one step with it before graph capture, which allocates its buffers")


def _grad(array: wp.array | None) -> wp.array | None:
    return None if array is None else array.grad


def _checked(dt: float | None) -> float:
    if dt is None:
        raise StateError("response: step() needs dt, since joints respond over a time step")
    if isinstance(dt, bool) or not isinstance(dt, (int, float, np.number)) or not 0.0 <= float(dt) < np.inf:
        raise StateError(f"dt: got {dt!r}; must be a finite number ≥ 0 [s]")
    return float(dt)


@wp.kernel
def _pick(source: Floats, indices: Indices, offset: int, target: Floats) -> None:
    i = wp.tid()
    if indices:
        target[i] = source[int(indices[i])]
    else:
        target[i] = source[offset + i]


@dataclass(frozen=True)
class Equation:
    """Terms of the equation of the velocities, except the chain, as Warp arrays of the actuator's DOFs in order."""

    velocities: wp.array
    """Velocities before the step, in the layout of the simulation."""
    inverse_inertia: wp.array
    """Shape (N,), or (R, D, D) with R·D = N."""
    acceleration: wp.array | None
    reference: wp.array | None
    """Effort that the acceleration includes."""
    dt: float
    tolerance: float


class SolverBuffers:
    """Inputs and outputs of the chain's evaluation.

    Args:
        num_dofs: Number of DOFs, N.
        speeds: Index layout of velocities.
        device: Device of the buffers.
    """

    def __init__(self, num_dofs: int, speeds: IndexLayout, device: wp.Device):
        self.trial = wp.zeros(speeds.largest + 1, dtype=wp.float32, device=device)
        """Trial velocities, in the layout of the simulation's velocities."""
        self.effort = wp.zeros(num_dofs, dtype=wp.float32, device=device)
        """Efforts at these velocities, of the DOFs in order."""
        self.derivative = wp.zeros(num_dofs, dtype=wp.float32, device=device)
        """Derivatives of these efforts by velocity."""


class Solve(ABC):
    """Search for the velocities after a step. All its memory is allocated once.

    Args:
        num_dofs: Number of DOFs, N.
        speeds: Index layout of velocities.
        buffers: Inputs and outputs of the chain's evaluation.
    """

    def __init__(self, num_dofs: int, speeds: IndexLayout, buffers: SolverBuffers):
        self._n, self._speeds, self._buffers = num_dofs, speeds, buffers
        self._device = buffers.trial.device
        self._fixed: dict[str, Any] = {"trial": buffers.trial, **_through(speeds)}
        self._launches: dict[Hashable, Launch] = {}

    @abstractmethod
    def start(self, equation: Equation) -> None:
        """Start at the velocities before the step."""

    @abstractmethod
    def has_bad(self) -> bool:
        """Return whether an inverse inertia is invalid. On a CPU only."""

    @abstractmethod
    def improve(self, equation: Equation, is_first: bool) -> None:
        """Compute better velocities from the efforts at the trial velocities.

        Args:
            equation: Equation to solve.
            is_first: Whether the trial velocities are those before the step, which never count as solved.
        """

    @abstractmethod
    def is_solved(self) -> bool:
        """Return whether all velocities are within tolerance. On a CPU only."""

    def finish(self, equation: Equation, velocity: wp.array, residual: wp.array, unconverged: wp.array) -> None:
        """Take the best velocities, and add the number of unsolved DOFs to ``unconverged``."""
        given = {"velocity": velocity, "residual": residual, "unconverged": unconverged}
        self._launch("finish", implicit_laws.finish, (self._n, 1), given | {"tolerance": equation.tolerance})

    @abstractmethod
    def name_bad(self, inverse_inertia: np.ndarray) -> str:
        """Describe the first invalid inverse inertia."""

    @abstractmethod
    def adjoint(self, equation: Equation, efforts: IndexLayout, values: Mapping[str, object]) -> None:
        """Propagate the gradient by the velocities to the inputs of the equation.

        Args:
            equation: Equation that was solved.
            efforts: Index layout of efforts.
            values: Arrays of the solution and of adjoints, by the argument names of the kernel.
        """

    def _launch(self, key: Hashable, kernel: wp.Kernel, dim: tuple[int, int], values: Mapping[str, object]) -> None:
        if key not in self._launches:
            self._launches[key] = Launch(kernel, dim, self._device, {**self._fixed, **values})
        self._launches[key].update(values)
        self._launches[key].launch()

    def _floats(self, *shape: int) -> wp.array:
        return wp.zeros(shape, dtype=wp.float32, device=self._device)


_STATES = tuple(dict.fromkeys((*implicit_laws.STARTED, *implicit_laws.IMPROVED)))
_START = Stage(
    "start",
    (Law(implicit_laws.start_law, ("trial", "is_bad"), implicit_laws.STARTED),),
    signals=("trial", "is_bad"),
    states=_STATES,
)
_IMPROVE = Stage(
    "improve",
    (Law(implicit_laws.improve_law, ("trial", "is_unsolved"), implicit_laws.IMPROVED),),
    signals=("trial", "is_unsolved"),
    tables=("tolerance",),
    states=_STATES,
)


class DiagonalSolve(Solve):
    """Finds the velocity of each DOF separately, by generated kernels. Arguments as `Solve`."""

    def __init__(self, num_dofs: int, speeds: IndexLayout, buffers: SolverBuffers):
        super().__init__(num_dofs, speeds, buffers)
        self._cells = Cells.of(num_dofs, self._device)
        self._memory = Memory(self._cells, {0: [Word(name) for name in _STATES]}, self._device)
        self._flags = {name: self._floats(num_dofs) for name in ("is_bad", "is_unsolved")}
        self._seen = {name: flag.numpy() for name, flag in self._flags.items()}  # on a CPU the same memory
        self._tolerance, self._never = self._floats(1), wp.array([-1.0], dtype=wp.float32, device=self._device)
        self._tolerance_now = 0.0
        self._fixed |= {name: self._memory.view(0, name) for name in ("best", "error")}

    def start(self, equation: Equation) -> None:
        signals = {"qd": equation.velocities, "inverse_inertia": equation.inverse_inertia}
        signals |= {"acceleration": equation.acceleration, "reference": equation.reference}
        key = "start", self.in_blocks(signals.values())
        if key not in self._launches:
            self._launches[key] = self._bound(_START, "is_bad", signals, {}, key[1])
        changed = {array_name(name): array for name, array in signals.items()}
        self._launches[key].update({**changed, "dt": equation.dt})
        self._launches[key].launch()

    def has_bad(self) -> bool:
        return bool(self._seen["is_bad"].max())

    def improve(self, equation: Equation, is_first: bool) -> None:
        if equation.tolerance != self._tolerance_now:
            self._tolerance.fill_(equation.tolerance)
            self._tolerance_now = equation.tolerance
        key = "improve", is_first
        if key not in self._launches:
            buffers = self._buffers
            signals = {"trial": buffers.trial, "trial_effort": buffers.effort, "trial_derivative": buffers.derivative}
            tables = {"tolerance": self._never if is_first else self._tolerance}
            self._launches[key] = self._bound(_IMPROVE, "is_unsolved", signals, tables, self.in_blocks(()))
        self._launches[key].launch()

    def is_solved(self) -> bool:
        return not self._seen["is_unsolved"].max()

    def in_blocks(self, arrays: Iterable[wp.array | None]) -> bool:
        """Return whether a kernel processes blocks of DOFs. Otherwise each DOF is a thread."""
        return self._device.is_cpu and all(array is None or array.is_contiguous for array in arrays)

    def _bound(
        self,
        stage: Stage,
        flag: str,
        signals: Mapping[str, wp.array | None],
        tables: Mapping[str, wp.array],
        in_blocks: bool,
    ) -> Launch:
        """Return the launch of a stage over all DOFs, which writes trial velocities, a flag per DOF and states."""
        cells, memory = self._cells, self._memory
        given = tuple((name, "vel" if name == "trial" else DIRECT) for name in signals if name != "qd")
        writes = (Write("trial"), Write(flag, scattered=False))
        built = kernel_for(Chain((stage,), writes, Flavour.BLOCK if in_blocks else Flavour.SCALAR, given))
        through = _through(self._speeds)
        values = memory_values(cells, memory, memory)
        values[Role.SIZE]["dt"] = 0.0
        values |= {
            Role.SIGNAL: dict(signals),
            Role.INDICES: dict.fromkeys(("vel", "effort"), through["indices"]),
            Role.OFFSET: dict.fromkeys(("vel", "effort"), through["offset"]),
            Role.PARAMETER: {(0, name): table for name, table in tables.items()},
            Role.WRITE: {0: self._buffers.trial, 1: self._flags[flag]},
        }
        threads = (cells.tiles, 1) if in_blocks else self._n
        return Launch(built.function, threads, self._device, values_by_name(built.arguments, values))

    def name_bad(self, inverse_inertia: np.ndarray) -> str:
        at = int(np.flatnonzero(~((inverse_inertia > 0.0) & np.isfinite(inverse_inertia)))[0])
        return f"got {inverse_inertia[at]:g} for DOF {at}; must be a finite number > 0 [1/(kg·m²) or 1/kg]"

    def adjoint(self, equation: Equation, efforts: IndexLayout, values: Mapping[str, object]) -> None:
        given = _given(equation) | _through(self._speeds) | {"size": 1, "matrix": self._floats(self._n, 1, 1)}
        given |= {"share": self._floats(self._n), **values}
        given |= {name: _as_matrices(given[name]) for name in ("inverse_inertia", "inertia_adjoint")}
        _launch_adjoint(self._n, equation.dt, efforts, given, self._device)


class DenseSolve(Solve):
    """Finds the velocities of all DOFs of a robot together. Arguments as `Solve`, and the DOFs of a robot, ``size``."""

    def __init__(self, num_dofs: int, speeds: IndexLayout, buffers: SolverBuffers, size: int):
        super().__init__(num_dofs, speeds, buffers)
        samples = ("left", "right", "left_effort", "right_effort", "last", "last_effort")
        arrays = ("free", "best", "error", *samples, "residual", "chord", "aim", "last_aim", "forced", "step")
        self._fixed |= {name: self._floats(num_dofs) for name in arrays}
        self._robots = num_dofs // size
        self._known = wp.zeros(self._robots, dtype=wp.int32, device=self._device)
        self._seen = self._known.numpy()  # on a CPU the same memory
        self._fixed |= {"size": size, "known": self._known, "matrix": self._floats(self._robots, size, size)}
        self._fixed |= {
            "merit": self._floats(self._robots),
            "stuck": wp.zeros(num_dofs, dtype=wp.int32, device=self._device),
        }

    def start(self, equation: Equation) -> None:
        self._launch("start", implicit_dense.start, (self._robots, 1), _given(equation) | {"dt": equation.dt})

    def has_bad(self) -> bool:
        return int(self._seen.min()) == implicit_dense.BAD

    def improve(self, equation: Equation, is_first: bool) -> None:
        values = {"effort": self._buffers.effort, "derivative": self._buffers.derivative, "is_first": is_first}
        values |= {"tolerance": equation.tolerance, "dt": equation.dt, "inverse_inertia": equation.inverse_inertia}
        self._launch("first" if is_first else "improve", implicit_dense.improve, (self._robots, 1), values)

    def is_solved(self) -> bool:
        return int(self._seen.min()) != implicit_dense.ACTIVE

    def name_bad(self, inverse_inertia: np.ndarray) -> str:
        robot = int(np.flatnonzero(self._seen == implicit_dense.BAD)[0])
        found = inverse_inertia[robot]
        scale = np.sqrt(np.abs(np.outer(found.diagonal(), found.diagonal())))
        why = "is not positive definite"
        if not np.isfinite(found).all():
            why = "is not finite"
        elif not (np.abs(found - found.T) <= implicit_dense.ASYMMETRY * scale).all():
            why = "is not symmetric"
        return f"the matrix of robot {robot} {why}; must be the inverse of a mass matrix, or a block of one"

    def adjoint(self, equation: Equation, efforts: IndexLayout, values: Mapping[str, object]) -> None:
        given = self._fixed | _given(equation) | {"share": self._fixed["step"], **values}
        _launch_adjoint(self._robots, equation.dt, efforts, given, self._device)


def _given(equation: Equation) -> dict[str, Any]:
    names = ("velocities", "inverse_inertia", "acceleration", "reference")
    return {name: getattr(equation, name) for name in names}


def _through(access: IndexLayout, prefix: str = "") -> dict[str, Any]:
    return {f"{prefix}indices": None if access.is_contiguous else access.indices, f"{prefix}offset": access.first}


def _as_matrices(array: wp.array | None) -> wp.array | None:
    """Return one number per DOF as 1 × 1 matrices over the same memory."""
    if array is None:
        return None
    shape, strides = (array.shape[0], 1, 1), (array.strides[0], 4, 4)
    view = wp.array(ptr=array.ptr, dtype=wp.float32, shape=shape, strides=strides, device=array.device)
    view._ref = array  # keeps the memory
    return view


def _launch_adjoint(
    robots: int, dt: float, efforts: IndexLayout, values: Mapping[str, object], device: wp.Device
) -> None:
    kernel = implicit_dense.adjoint
    given = {**values, "dt": dt, **_through(efforts, "effort_")}
    wp.launch(kernel, (robots, 1), [given[argument.label] for argument in kernel.adj.args], device=device)


def derivative_obstacle(stages: Sequence[Component], requires_grad: bool) -> str:
    """Return why the effort of a chain has no derivatives; empty if it has.

    Args:
        stages: Stages of the chain.
        requires_grad: Whether a tape differentiates it.
    """
    apart = [type(component).__name__ for component in stages if not component.is_fused()]
    if apart:
        return f"{apart[0]} brings its own kernels, which compute none"
    return "with requires_grad=True a tape differentiates the effort, but not its derivatives" if requires_grad else ""
