# SPDX-License-Identifier: Apache-2.0
r"""Steps a chain at the speeds that a step ends with, outside an engine.

The speeds w are a root of :math:`w = \dot q + h\,(a + A\,(\tau(w) - \tau_r))`. To find it, the chain is evaluated at
speeds that are tried, each time from the state before the step and into a state that is thrown away; only the last
step, at the root, writes what a step writes. Between evaluations nothing waits for the host, but on a CPU, where it
looks whether all speeds are found.

On a tape the root is differentiated by the implicit function theorem. With the slopes of the efforts, :math:`B =
\mathrm{diag}(\partial\tau/\partial w)`, and what a loss gains with w, :math:`\bar w`, let :math:`(1 - h A B)^T \mu =
\bar w`. Then :math:`\dot q` gets :math:`\mu`, a gets :math:`h\mu`, A gets :math:`h \mu (\tau - \tau_r)^T`, and all that
the chain depends on gets what its own adjoint makes of :math:`h A^T \mu` as that of the efforts.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from .actuator_state import ActuatorState
from .arrays import SharedInput
from .errors import ArrayError, ParameterError, StateError, StructureError
from .held_control import Runner, runner_of
from .kernel.binding import OUTPUT, Access, Chain
from .kernel.implicit import DenseSolve, DiagonalSolve, Equation, Scratch, Solve
from .kernel.launch import recording_tape, unrecorded
from .kernel.stepping import building, refuse_tape, renew_lock_after_fork
from .kernel.types import Flavour, Floats, Indices, module_options
from .response import Response
from .tangent import why_no_slopes

_SLOPE = "effort_slope_qd"

wp.set_module_options(module_options(Flavour.GRAD))


class ImplicitStepper:
    """Steps a chain at the speeds that a step ends with.

    Args:
        chain: The chain.
        runner: What steps it.
        new_state: Makes a state of it, or None where it is stateless.
        requires_grad: Let a `wp.Tape` differentiate through steps.
    """

    def __init__(
        self, chain: Chain, runner: Runner, new_state: Callable[[], ActuatorState | None], requires_grad: bool
    ):
        why_not = why_no_slopes(chain.components, False)
        if why_not:
            raise StructureError(f"response: the chain has no slopes: {why_not}")
        self._speeds, self._efforts = chain.accesses["vel"], chain.accesses["effort"]
        for name, access in (("indices", self._speeds), ("effort_indices", self._efforts)):
            if access.repeats:
                raise ParameterError(
                    f"response: some {name} repeat; each DOF needs a velocity and an effort of its own"
                )
        _refuse_capture(chain.device)
        self._chain, self._runner, self._requires_grad = chain, runner, requires_grad
        in_order = Access.through(wp.array(range(chain.num_actuators), dtype=wp.uint32, device=chain.device))
        self._slope_chain = dataclasses.replace(
            chain,
            accesses={**chain.accesses, "effort": in_order},
            labels={**chain.labels, _SLOPE: _SLOPE},
            adds=False,
            telemetry=(_SLOPE,),
            keeps_rings=False,
        )
        self._slopes = runner_of(self._slope_chain, requires_grad=False, staged=False)
        self._thrown_away = new_state()
        self._scratch = Scratch(chain.num_actuators, self._speeds, chain.device)
        self._solves: dict[tuple[int, ...], Solve] = {}
        self._velocities: SharedInput | None = None
        self._bare: Response | None = None
        self.lock = threading.Lock()
        renew_lock_after_fork(self)

    def step(self, given: tuple[Any, ...], current: Any, following: Any, dt: float | None, response: Any) -> None:
        """Step, from the simulation arrays in the order of `Chain.slots`."""
        with self.lock:
            is_watched = self._chain.device.is_cpu and not self._chain.device.is_capturing
            answer = self._response(response, is_watched)
            tape = recording_tape()
            if not self._requires_grad:
                refuse_tape()
            copies = tape is None and not self._chain.device.is_capturing
            equation = self._equation(given, answer, _checked(dt), copies)
            before = int(answer.unconverged.numpy()[0]) if is_watched else 0
            with unrecorded():
                self._solve(equation, given, current, answer, is_watched)
            if tape is None:
                self._runner.run(self._at(self._scratch.trial, given), current, following, dt)
            else:
                self._record(tape, equation, given, current, following, answer)
            if is_watched and answer.unconverged.numpy()[0] != before:
                answer.check()

    def _response(self, given: Any, is_watched: bool) -> Response:
        response = given
        if not isinstance(given, Response):
            if not is_watched:
                raise ArrayError(
                    "response: got an array; in a captured graph and on a GPU a step that does not converge cannot "
                    "raise: make an actuon.Response(array) once, and check its `unconverged`"
                )
            if self._bare is None or self._bare.shape != tuple(getattr(given, "shape", ())):
                self._bare = Response(given)
            elif self._bare.inverse_inertia is not given:
                self._bare.inverse_inertia = given
            response = self._bare
        where, n, device = "response.inverse_inertia", self._chain.num_actuators, self._chain.device
        if response.num_dofs != n:
            raise ArrayError(f"{where}: got shape {response.shape}; the actuator has {n} DOFs")
        if response.device != device:
            raise ArrayError(f"{where}: got an array on '{response.device}'; the actuator runs on '{device}'")
        return response

    def _equation(self, given: tuple[Any, ...], response: Response, dt: float, copies: bool) -> Equation:
        value = given[self._chain.slots.index("qd")]
        if self._velocities is None or self._velocities.value is not value:
            self._velocities = SharedInput(value, self._chain.labels["qd"], self._check_velocities)
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
        self._chain.signal("qd", array)

    def _solver(self, response: Response) -> Solve:
        key = response.shape[1:]
        if key not in self._solves:
            _refuse_capture(self._chain.device)
            given = self._chain.num_actuators, self._speeds, self._scratch
            self._solves[key] = DenseSolve(*given, key[0]) if key else DiagonalSolve(*given)
        return self._solves[key]

    def _at(self, speeds: wp.array, given: tuple[Any, ...], **written: Any) -> tuple[Any, ...]:
        """The simulation arrays with other velocities, and what is ``written`` by the name of its slot."""
        return tuple(
            speeds if slot == "qd" else written.get(slot, value)
            for slot, value in zip(self._chain.slots, given, strict=True)
        )

    def _solve(
        self, equation: Equation, given: tuple[Any, ...], current: Any, response: Response, is_watched: bool
    ) -> None:
        """Put the speeds that the step ends with where the chain takes them from."""
        solve, scratch = self._solver(response), self._scratch
        counts = scratch.counts.numpy() if is_watched else None
        if counts is not None:
            counts[:] = 0
        with building:
            solve.start(equation)
        if counts is not None and counts[0]:
            raise ArrayError(f"response.inverse_inertia: {solve.name_bad(equation.inverse_inertia.numpy())}")
        for iteration in range(response.max_iterations):
            self._evaluate(given, current, equation.dt)
            if counts is not None:
                counts[1] = 0
            with building:
                solve.improve(equation, iteration == 0, is_watched)
            if counts is not None and not counts[1]:
                break
        with building:
            solve.finish(equation, response.velocity, response.residual, response.unconverged)

    def _evaluate(self, given: tuple[Any, ...], current: Any, dt: float) -> None:
        """Efforts and slopes at the speeds that are tried."""
        scratch = self._scratch
        signals = self._at(scratch.trial, given)[: len(self._chain.sources)]
        self._slopes.run((*signals, scratch.effort, None, scratch.slope), current, self._thrown_away, dt)

    def _record(
        self,
        tape: wp.Tape,
        equation: Equation,
        given: tuple[Any, ...],
        current: Any,
        following: Any,
        response: Response,
    ) -> None:
        """Step on a tape, with the speeds that were found."""
        device, n = self._chain.device, self._chain.num_actuators
        with unrecorded():
            self._evaluate(given, current, equation.dt)
            effort, slope = wp.clone(self._scratch.effort), wp.clone(self._scratch.slope)
            speeds = wp.clone(self._scratch.trial, requires_grad=True)
        solve = self._solver(response)

        def backward() -> None:
            with self.lock:
                self._adjoint(solve, equation, given, current, speeds, effort, slope)

        inputs = (equation.velocities, equation.inverse_inertia, equation.acceleration, equation.reference)
        tape.record_func(backward, [speeds, *(array for array in inputs if array is not None and array.requires_grad)])
        self._runner.run(self._at(speeds, given), current, following, equation.dt)
        response.velocity = wp.empty(n, dtype=wp.float32, device=device, requires_grad=True)
        indices = [None if self._speeds.runs_on else self._speeds.indices, self._speeds.first]
        wp.launch(_pick, n, [speeds, *indices], [response.velocity], device=device)

    def _adjoint(
        self,
        solve: Solve,
        equation: Equation,
        given: tuple[Any, ...],
        current: Any,
        speeds: wp.array,
        effort: wp.array,
        slope: wp.array,
    ) -> None:
        output = wp.zeros(self._efforts.largest + 1, dtype=wp.float32, device=self._chain.device, requires_grad=True)
        adjoints = {
            "velocity_adjoint": equation.velocities.grad,
            "acceleration_adjoint": _grad(equation.acceleration),
            "reference_adjoint": _grad(equation.reference),
            "inertia_adjoint": equation.inverse_inertia.grad,
        }
        solved = {"effort": effort, "slope": slope, "speed_adjoint": speeds.grad, "effort_adjoint": output.grad}
        solve.adjoint(equation, self._efforts, solved | adjoints)
        written = dict.fromkeys(self._chain.slots[len(self._chain.sources) :])
        again = wp.Tape()
        tape = None if current is None else current.tape
        with again:
            self._runner.run(
                self._at(speeds, given, **written | {OUTPUT: output}), current, self._thrown_away, equation.dt
            )
        again.backward()
        if current is not None:
            current.tape = tape
        speeds.grad.zero_()


def _refuse_capture(device: wp.Device) -> None:
    if device.is_capturing:
        raise StructureError("response: take one step with it before a graph is captured: that makes what it needs")


def _grad(array: wp.array | None) -> wp.array | None:
    return None if array is None else array.grad


def _checked(dt: float | None) -> float:
    if dt is None:
        raise StateError("response: the joints answer over time: step() needs dt")
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
