# SPDX-License-Identifier: Apache-2.0
"""Differentiable steps for PyTorch: gradients of efforts by targets, states, parameters, and earlier steps.

Each step is recorded on a separate `wp.Tape`. Autograd connects them through the actuator's memory. The backward pass
runs each step again with the parameters that it had, also if they were changed since. There are no second derivatives.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import warp as wp

from .actuator.actuator import Actuator
from .actuator.response import Response
from .actuator.state import ActuatorState
from .arrays import read_optional
from .errors import (
    ArrayError,
    ArrayTypeError,
    MissingExtraError,
    ParameterError,
    StateError,
    StructureError,
    listed,
    located,
)
from .robot_files.paths import check_unambiguous, parameter_places

try:
    import torch
    from torch.autograd.function import FunctionCtx
except ImportError as error:
    raise MissingExtraError("torch", "torch", "actuon.torch") from error

__all__ = [
    "Memory",
    "step",
]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Memory:
    """Memory of an actuator after a step, for autograd. `step` returns it for the next step."""

    state: ActuatorState
    """State of the actuator after the step. Do not write to it: the backward pass reads it again."""
    tensors: tuple[torch.Tensor, ...]
    """Differentiable values of the state."""


def step(
    actuator: Actuator,
    sim_state: object,
    sim_control: object,
    memory: Memory | ActuatorState | None = None,
    dt: float | None = None,
    *,
    parameters: Mapping[str, torch.Tensor] | None = None,
    response: torch.Tensor | Mapping[str, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, Memory | None]:
    """Step, and return the efforts as a differentiable tensor.

    Args:
        actuator: Built with ``requires_grad=True``.
        sim_state: Object or mapping with tensors of positions and velocities, of any shape.
        sim_control: Object or mapping with tensors of targets and, if any, feedforward.
        memory: Second result of the previous step. Default: the initial state. Gradients end at a state from
            `Actuator.state`.
        dt: Time step [s]. Required if a stage uses it.
        parameters: Tensors that replace parameters in this step, shape (N,), or one number for all DOFs. By name,
            ``{"kp": kp}``; if several stages have the name, by kind, ``{"controller.kp": kp}``, by type,
            ``{"friction_1.viscous": viscous}``, or by the position of the stage, ``{"1.kp": kp}``.
        response: ``inverse_inertia`` of `actuon.Response`, for efforts at the velocities after the step, or a mapping
            with it and with ``acceleration`` and ``effort``, of any shape.

    Returns:
        Efforts [N·m or N], of the shape of the velocities, zero for DOFs of other actuators; and ``memory`` for the
        next step, None if the actuator has no memory.

    Examples:
        >>> import torch
        >>> pd = actuon.ControllerPD(kp=40.0, kd=1.0)
        >>> actuator = actuon.Actuator([0, 1], pd, requires_grad=True)
        >>> q, zero = torch.zeros(2, requires_grad=True), torch.zeros(2)
        >>> control = {"joint_target_q": torch.ones(2), "joint_target_qd": zero}
        >>> effort, _ = actuon.torch.step(actuator, {"joint_q": q, "joint_qd": zero}, control)
        >>> torch.autograd.grad(effort.sum(), q)
        (tensor([-40., -40.]),)
    """
    if not isinstance(actuator, Actuator):
        raise StructureError(f"actuon.torch.step: got {type(actuator).__name__}; must be an Actuator")
    if not actuator.requires_grad:
        raise StructureError("actuon.torch.step: the actuator must be built with requires_grad=True")
    signals = _signals(actuator, sim_state, sim_control)
    chosen = _chosen(actuator, parameters)
    answers = _answers(actuator, response)
    before = _memory(actuator, memory)
    after = actuator.state()
    arrays = tuple(array for array, _ in chosen.values())
    call = _Call(actuator, tuple(signals), arrays, tuple(answers), before, after, dt, _Parameters.of(actuator))
    values = (value for _, value in chosen.values())
    given = (*signals.values(), *values, *answers.values(), *(before.tensors if before else ()))
    effort, *kept = _Step.apply(call, *given)
    return effort, None if after is None else Memory(after, tuple(kept))


@dataclass(frozen=True)
class _Call:
    """Context of a step. Its tensors are in this order: signals, parameters, response, memory."""

    actuator: Actuator
    signals: tuple[str, ...]
    """Names of their arrays."""
    parameters: tuple[wp.array, ...]
    """Arrays of the actuator's parameters that are replaced."""
    response: tuple[str, ...]
    """Names of the response's arrays; empty for an explicit step."""
    before: Memory | None
    after: ActuatorState | None
    dt: float | None
    others: _Parameters
    """Values of all parameters before the step. Steps with equal ones share them."""


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.call = call
        ctx.save_for_backward(*tensors)
        with _in_use(_replaced(call, tensors)):
            _, _, output = _run(call, tensors)
        kept = [wp.to_torch(array, requires_grad=False).clone() for array in _remembered(call.after)]
        return (wp.to_torch(output, requires_grad=False).reshape(tensors[1].shape), *kept)

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Run the step again on a tape, with equal inputs and parameters."""
        call: _Call = ctx.call
        tensors: tuple[torch.Tensor, ...] = ctx.saved_tensors  # once: checkpoints unpack it only once
        with torch.no_grad():
            found = _gradients(call, tensors, gradients)
        if torch.is_grad_enabled():  # create_graph=True
            found = _FirstDerivatives.apply(*found, *tensors)[: len(found)]
        return None, *(g if needed else None for g, needed in zip(found, ctx.needs_input_grad[1:], strict=True))


class _FirstDerivatives(torch.autograd.Function):
    """Identity whose derivative is an error, for gradients that depend on the tensors passed after them."""

    @staticmethod
    def forward(ctx: FunctionCtx, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        raise StructureError(
            "actuon.torch.step: has no second derivatives; for a Hessian, take differences of first derivatives"
        )


def _gradients(
    call: _Call, tensors: tuple[torch.Tensor, ...], gradients: tuple[torch.Tensor | None, ...]
) -> tuple[torch.Tensor, ...]:
    """Return the gradients by the tensors of a step, from those by its results."""
    tape = wp.Tape()
    with _in_use([*call.others.changed(call.actuator), *_replaced(call, tensors)]):
        signals, answers, output = _run(call, tensors, tape)
        sources = [*signals, *call.parameters, *answers, *_remembered(call.before.state if call.before else None)]
        results = [output, *_remembered(call.after)]
        for array in (*sources, *results):
            array.grad.zero_()
        for array, gradient in zip(results, gradients, strict=True):
            if gradient is not None:
                wp.copy(
                    array.grad, _as_warp(gradient.clone(memory_format=torch.contiguous_format)).reshape(array.shape)
                )
        tape.backward()
        found = [wp.to_torch(array.grad).clone() for array in sources]
    return tuple(gradient.reshape(tensor.shape) for gradient, tensor in zip(found, tensors, strict=True))


class _Parameters:
    """Copies of all parameters of an actuator, by the position of the stage and name."""

    _last: ClassVar[WeakKeyDictionary[Actuator, _Parameters]] = WeakKeyDictionary()

    def __init__(self, actuator: Actuator):
        self._values = {key: wp.clone(array) for key, array in self._arrays(actuator).items()}

    @classmethod
    def of(cls, actuator: Actuator) -> _Parameters:
        """Return the present values. On the CPU, equal values are the same object as at the last call."""
        last = cls._last.get(actuator)
        if last is None or actuator.device.is_cuda or not last._are_those_of(actuator):
            last = cls._last[actuator] = cls(actuator)
        return last

    @staticmethod
    def _arrays(actuator: Actuator) -> dict[tuple[int, str], wp.array]:
        return {
            (position, name): array
            for position, stage in enumerate(actuator.stages)
            for name, array in stage.arguments().items()
            if isinstance(array, wp.array)
        }

    def _are_those_of(self, actuator: Actuator) -> bool:
        arrays = self._arrays(actuator)
        return arrays.keys() == self._values.keys() and all(
            _is_equal(array, self._values[key]) for key, array in arrays.items()
        )

    def changed(self, actuator: Actuator) -> list[tuple[wp.array, wp.array]]:
        """Return the actuator's arrays whose values differ now, with these values."""
        arrays = self._arrays(actuator)
        for position, name in arrays.keys() ^ self._values.keys():
            stage = type(actuator.stages[position]).__name__
            raise StructureError(
                f"actuon.torch.step: '{name}' of {stage} was set or unset between a step and its backward pass; "
                "call backward() before"
            )
        return [(array, self._values[key]) for key, array in arrays.items() if not _is_equal(array, self._values[key])]


def _is_equal(array: wp.array, other: wp.array) -> bool:
    return array.shape == other.shape and array.numpy().tobytes() == other.numpy().tobytes()


def _replaced(call: _Call, tensors: tuple[torch.Tensor, ...]) -> list[tuple[wp.array, wp.array]]:
    """Return the arrays of parameters that tensors replace, with the tensors."""
    given = tensors[len(call.signals) : len(call.signals) + len(call.parameters)]
    return [(array, _as_warp(value).reshape(array.shape)) for array, value in zip(call.parameters, given, strict=True)]


@contextlib.contextmanager
def _in_use(values: Sequence[tuple[wp.array, wp.array]]) -> Iterator[None]:
    """Set arrays to values within the block."""
    before = [wp.clone(array) for array, _ in values]
    try:
        for array, value in values:
            wp.copy(array, value)
        yield
    finally:
        for (array, _), value in reversed(list(zip(values, before, strict=True))):
            wp.copy(array, value)


def _run(
    call: _Call, tensors: tuple[torch.Tensor, ...], tape: wp.Tape | None = None
) -> tuple[list[wp.array], list[wp.array], wp.array]:
    """Step, and return the arrays of the signals, the response and the efforts."""
    count = len(call.signals)
    signals = [_as_warp(tensor, requires_grad=True) for tensor in tensors[:count]]
    said = tensors[count + len(call.parameters) :][: len(call.response)]
    answers = [wp.from_torch(tensor.detach().contiguous(), requires_grad=True) for tensor in said]
    response = Response(**dict(zip(call.response, answers, strict=True))) if answers else None
    output = wp.zeros(tensors[1].numel(), dtype=wp.float32, device=call.actuator.device, requires_grad=True)
    sim = dict(zip(call.signals, signals, strict=True)) | {call.actuator.control_output_attr: output}
    with tape or contextlib.nullcontext():
        before = call.before.state if call.before else None
        call.actuator.step(sim, sim, before, call.after, call.dt, response=response)
    if response is not None and tape is None:
        response.check()
    return signals, answers, output


def _as_warp(tensor: torch.Tensor, requires_grad: bool = False) -> wp.array:
    return wp.from_torch(tensor.detach().contiguous().flatten(), requires_grad=requires_grad)


def _answers(actuator: Actuator, response: torch.Tensor | Mapping[str, torch.Tensor] | None) -> dict[str, torch.Tensor]:
    """Return the response's tensors by name, in the shapes of `Response`."""
    if response is None:
        return {}
    named = response if isinstance(response, Mapping) else {"inverse_inertia": response}
    allowed = ("inverse_inertia", "acceleration", "effort")
    for name, value in named.items():
        if name not in allowed:
            raise ParameterError(f"response: no '{name}'; {listed(str(name), allowed, 'names')}")
        if not check_tensor(actuator.device, f"response['{name}']", value).ndim:
            raise ArrayError(f"response['{name}']: got one number; must have one per DOF: pass tensor.expand(n)")
    if "inverse_inertia" not in named:
        raise ParameterError(f"response: got {', '.join(map(repr, named)) or 'nothing'}; must have 'inverse_inertia'")
    return {name: value if name == "inverse_inertia" else value.reshape(-1) for name, value in named.items()}


def check_tensor(device: wp.Device, where: str, value: object) -> torch.Tensor:
    """Return ``value`` if it is a tensor that kernels on ``device`` can read."""
    if not isinstance(value, torch.Tensor):
        raise ArrayTypeError(f"{where}: got {type(value).__name__}; must be a PyTorch tensor")
    if value.dtype is not torch.float32:
        raise ArrayTypeError(f"{where}: got dtype {value.dtype}; must be torch.float32: pass tensor.float()")
    if value.layout is not torch.strided:
        raise ArrayTypeError(f"{where}: got the layout {value.layout}; must be dense: pass tensor.to_dense()")
    if value.device.type not in ("cpu", "cuda") or wp.device_from_torch(value.device) != device:
        raise ArrayError(f"{where}: got a tensor on '{value.device}'; the actuator runs on '{device}'")
    return value


def _remembered(state: ActuatorState | None) -> list[wp.array]:
    """Return the differentiable arrays of a state."""
    return [] if state is None else [array for array in state.arrays().values() if array.requires_grad and array.size]


def _memory(actuator: Actuator, memory: Memory | ActuatorState | None) -> Memory | None:
    if not actuator.is_stateful():
        return None
    if isinstance(memory, Memory):
        if memory.state.owner is not actuator:
            raise StateError("memory: got that of another actuator; pass that of this actuator's last step")
        return memory
    if memory is not None and not isinstance(memory, ActuatorState):
        raise StateError(
            f"memory: got {type(memory).__name__}; must be the second result of the last step, or a state from "
            "actuator.state()"
        )
    state: ActuatorState | None = actuator.state() if memory is None else copy.deepcopy(memory)
    assert state is not None
    return Memory(state, tuple(wp.to_torch(a, requires_grad=False).clone() for a in _remembered(state)))


def _signals(actuator: Actuator, sim_state: object, sim_control: object) -> dict[str, torch.Tensor]:
    """Return the tensors by array name; positions and velocities first."""
    named: dict[str, object] = dict.fromkeys((actuator.state_pos_attr, actuator.state_vel_attr), sim_state)
    commands = (actuator.control_target_pos_attr, actuator.control_target_vel_attr, actuator.control_feedforward_attr)
    named |= dict.fromkeys(filter(None, (*commands, *actuator.custom_inputs)), sim_control)
    found = {}
    for name, source in named.items():
        value = read_optional(source, name)
        role = "sim_state" if source is sim_state and name in list(named)[:2] else "sim_control"
        if value is None and role == "sim_control":
            continue  # the step raises if it is required
        found[name] = check_tensor(actuator.device, f"{role}.{name}", value)
    return found


def _chosen(
    actuator: Actuator, parameters: Mapping[str, torch.Tensor] | None
) -> dict[str, tuple[wp.array, torch.Tensor]]:
    """Return the actuator's own arrays of parameters, and the tensors in their shapes."""
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ParameterError(f"parameters: got {type(parameters).__name__}; must be a dict of tensors by name")
    found: dict[str, tuple[wp.array, torch.Tensor]] = {}
    for name, value in (parameters or {}).items():
        array, tensor = _parameter(actuator, name, value)
        for other, (known, _) in found.items():
            if known is array:
                raise ParameterError(f"parameters: '{other}' and '{name}' are the same parameter; pass only one")
        found[name] = array, tensor
    return found


def _parameter(actuator: Actuator, name: str, value: torch.Tensor) -> tuple[wp.array, torch.Tensor]:
    """Return the actuator's own array of a parameter, and the tensor in its shape."""
    offered = {
        path: array
        for path, place in parameter_places(actuator.stages).items()
        if (array := actuator.stages[place.stage].parameters().get(place.name)) is not None and array.requires_grad
    }
    if name not in offered:
        with located("parameters", ParameterError):
            check_unambiguous(actuator.stages, name)
    named = [path for path in offered if name in (path, path.rpartition(".")[2])]
    if name not in offered and len({id(offered[path]) for path in named}) > 1:
        raise ParameterError(f"parameters: several stages have '{name}'; must be one of {', '.join(named)}")
    if not named:
        raise ParameterError(f"parameters: no '{name}'; {listed(str(name), offered, 'parameters')}")
    array = offered[name if name in offered else named[0]]
    check_tensor(actuator.device, f"parameters['{name}']", value)
    try:
        return array, value.expand(array.shape)
    except RuntimeError as error:
        raise ArrayError(f"parameters['{name}']: got shape {tuple(value.shape)}; must be {array.shape}") from error
