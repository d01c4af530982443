# SPDX-License-Identifier: Apache-2.0
"""Recognition of the network that a graph of operations computes.

The operations of a file's graph, each an `Op`, are followed from the input to the output: linear and recurrent layers
become steps, `elementwise` recognises activations between them, and `axes` tracks the features. The result depends on
the graph only, never on the results of trial inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from . import elementwise
from .axes import ARRANGEMENTS, BATCH, EITHER, FEATURES, Axes, Unclear, rearranged, size
from .network import Activated, Dense, Network, NotRecognised, Recurrent, Scale, Step, assemble


@dataclass
class Op:
    """An operation. ``inputs`` are names of values, or constants: arrays, numbers, lists of them, None."""

    name: str
    """Name in Actuon: of a layer, an arrangement, an element-wise operation, or anything else."""
    inputs: Sequence[object]
    outputs: list[str]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    """Name in the file. Default: ``name``."""

    @property
    def called(self) -> str:
        """Name for messages."""
        return self.label or self.name


@dataclass(frozen=True)
class Ref:
    """Name of a value that another operation returns, or the caller passes."""

    name: str


@dataclass(frozen=True)
class Signal:
    """A value that depends on the input: an element-wise function of the output of step ``origin``."""

    origin: int
    axes: Axes
    width: int | None
    value: elementwise.Value | elementwise.Condition = elementwise.PLAIN


@dataclass(frozen=True)
class Hidden:
    """Hidden states of several recurrent layers; that of the last layer is the output."""

    signal: Signal
    layers: int


@dataclass(frozen=True)
class State:
    """A recurrent state, or its zero start value. ``changed_by`` names an operation that changes it."""

    changed_by: str = ""
    is_new: bool = False
    """Whether a recurrent layer returned it."""
    part: int | None = None
    """0 for the hidden state, 1 for the cell state, None if unknown."""


@dataclass(frozen=True)
class Unknown:
    """Result of an unsupported operation; an error only if the output depends on it."""

    reason: str


_LAYERS = ("linear", "lstm", "gru")
_ZEROS = frozenset(["zeros", "zeros_like", "new_zeros"])
_KEEP_STATES = frozenset(["split", "expand", "index", "parts", *ARRANGEMENTS])


class Recogniser:
    """Recogniser that follows operations in the order in which they run.

    Args:
        input_name: Name of the input.
        axes: Axes of the input.
        width: Number of features of the input, if the file has it.
        states: Names of the states among the inputs, hidden state first.
    """

    def __init__(self, input_name: str, axes: Axes, width: int | None = None, states: Sequence[str] = ()):
        self._values: dict[str, Any] = {input_name: Signal(0, axes, width)}
        self._values |= {name: State(part=i if len(states) > 1 else None) for i, name in enumerate(states)}
        self._steps: list[Step] = []
        self._kinds: set[str] = set()

    def resolve(self, value: object) -> Any:
        """Return the value of a reference; anything else unchanged."""
        if isinstance(value, Ref):
            return self._values.get(value.name, State())
        if isinstance(value, (list, tuple)):
            return [self.resolve(part) for part in value]
        return value

    def run(self, op: Op) -> None:
        """Process one operation.

        Raises:
            NotRecognised: It is an unsupported layer, or an unsupported use of one.
        """
        inputs = [self.resolve(value) for value in op.inputs]
        results = self._results(op, inputs)
        results += results[-1:] * (len(op.outputs) - len(results))
        self._values.update(zip(op.outputs, results, strict=False))

    def forget(self, names: list[str], reason: str) -> None:
        """Mark values as unknown."""
        self._values.update(dict.fromkeys(names, Unknown(reason)))

    def _results(self, op: Op, inputs: list[Any]) -> list[Any]:
        first = inputs[0] if inputs else None
        flat = [part for value in inputs for part in (value if isinstance(value, list) else [value])]
        unknown = next((value for value in flat if isinstance(value, Unknown)), None)
        if op.name == "size":
            return [_sizes(*inputs)]
        if op.name in _ZEROS:
            return [State()]
        if unknown is not None:
            if op.name in _LAYERS:
                raise NotRecognised(unknown.reason)
            return [unknown]
        if op.name in ("lstm", "gru"):
            return self._recurrent(op, inputs)
        if op.name == "linear":
            return [self._linear(op, inputs)]
        if op.name in ("cat", "stack") and any(isinstance(value, (Signal, Hidden, State)) for value in flat):
            return [self._joined_states(op, flat)]
        if op.name == "parts" and isinstance(first, State) and len(inputs) == 1:
            return [replace(first, part=i) for i in range(len(op.outputs))]
        if op.name == "parts" and isinstance(first, State):
            return [replace(first, part=inputs[1] if first.part is None else first.part)]
        if isinstance(first, Hidden):
            return [_hidden_part(op, first, inputs[1:])]
        if any(isinstance(value, Signal) for value in flat):
            arranges = op.name in ARRANGEMENTS or op.name == "index"
            return [_arranged(op, inputs) if arranges else self._elementwise(op, inputs)]
        return [_without_signal(op, inputs, flat)]

    def _joined_states(self, op: Op, values: Sequence[object]) -> State | Unknown:
        states = [value for value in values if isinstance(value, (Signal, Hidden, State))]
        if all(self._is_new_state(value) for value in states):
            return State(is_new=True)
        is_given = all(isinstance(value, State) and value == State(part=value.part) for value in states)
        return State() if is_given else _not_known(op)

    def _is_new_state(self, value: object) -> bool:
        """Return whether a value is the state that recurrent layers return, unchanged."""
        if isinstance(value, Signal):
            is_recurrent = value.origin > 0 and isinstance(self._steps[value.origin - 1], Recurrent)
            return is_recurrent and value.value is elementwise.PLAIN
        return isinstance(value, Hidden) or (isinstance(value, State) and value.is_new and not value.changed_by)

    def _linear(self, op: Op, inputs: Sequence[object]) -> Signal:
        signal, weight, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
        if not isinstance(signal, Signal) or not isinstance(weight, np.ndarray) or weight.ndim != 2:
            raise NotRecognised(f"'{op.called}' is not a linear layer of the signal with constant weights")
        bias = np.zeros(1) if bias is None else np.asarray(bias)
        if bias.dtype.kind != "f" or bias.size not in (1, bias.shape[-1] if bias.ndim else 1):
            raise NotRecognised(f"'{op.called}' is a linear layer whose bias is not one constant per unit")
        weight = np.asarray(weight.T if op.attributes.get("transposed") else weight, np.float64)
        bias = np.ravel(bias).astype(np.float64)
        with np.errstate(all="ignore"):
            weight, bias = weight * op.attributes.get("alpha", 1.0), bias * op.attributes.get("beta", 1.0)
        if bias.size not in (1, len(weight)):
            raise NotRecognised(f"'{op.called}' has {bias.size} biases for {len(weight)} units")
        self._settle(op, signal, weight.shape[1])
        self._steps.append(Dense(weight, np.broadcast_to(bias, len(weight))))
        return Signal(len(self._steps), (*signal.axes[:-1], FEATURES), len(weight))

    def _recurrent(self, op: Op, inputs: Sequence[object]) -> list[Any]:
        layers: list[Recurrent] = op.attributes["layers"]
        signal, states = inputs[0], inputs[1:]
        if not isinstance(signal, Signal):
            raise NotRecognised(f"'{op.called}' does not depend on the input")
        _check_states(op, [part for state in states for part in (state if isinstance(state, list) else [state])])
        time = 1 if op.attributes.get("batch_first") else 0
        wanted: list[str | int] = [BATCH, BATCH, FEATURES]
        wanted[time] = 1
        fits = len(signal.axes) == 3 and all(a in (w, EITHER) for a, w in zip(signal.axes, wanted, strict=True))
        if not fits:
            raise NotRecognised(f"'{op.called}' takes its input, with axes {_text(signal.axes)}, for a sequence")
        self._settle(op, signal, layers[0].weight_ih.shape[1])
        self._kinds.add(op.name)
        self._steps += layers
        result = Signal(len(self._steps), tuple(op.attributes.get("axes", wanted)), layers[-1].hidden)
        last = replace(result, axes=(1, BATCH, FEATURES))
        return [result, last if len(layers) == 1 else Hidden(last, len(layers)), State(is_new=True)]

    def _elementwise(self, op: Op, inputs: Sequence[object]) -> Signal | Unknown:
        signals = [value for value in inputs if isinstance(value, Signal)]
        if op.name not in elementwise.OPERATIONS:
            return _not_known(op)
        if any(isinstance(value, (State, Hidden)) for value in inputs):
            return Unknown(f"'{op.called}' mixes the signal with a recurrent state")
        if len({signal.origin for signal in signals}) > 1:
            return Unknown(f"'{op.called}' joins two layers: skip connections are not known")
        if len({signal.axes for signal in signals}) > 1:
            return Unknown(f"'{op.called}' joins values of different shapes")
        axes, width = signals[0].axes, signals[0].width
        arguments = []
        for value in inputs:
            if isinstance(value, np.ndarray) and value.ndim:
                along = _along_features(value, axes, width)
                if along is None:
                    return Unknown(f"'{op.called}' has a constant of shape {value.shape}, which is not one per feature")
                axes = (*[1] * (value.ndim - len(axes)), *axes)
                width = len(along) if along.size > 1 else width
                value = along if along.size > 1 else float(along[0])
            elif isinstance(value, np.ndarray):
                value = float(value)
            arguments.append(value.value if isinstance(value, Signal) else value)
        value = elementwise.apply(op.name, arguments, op.attributes)
        if value is None:
            return Unknown(f"operation '{op.called}' is not part of a known activation")
        return Signal(signals[0].origin, axes, width, value)

    def _settle(self, op: Op, signal: Signal, width: int) -> None:
        """Add the steps between the last layer and the next, of ``width`` inputs."""
        if signal.origin != len(self._steps):
            raise NotRecognised("a layer is used twice: skip connections are not known")
        if signal.width not in (None, width) or not signal.axes or signal.axes[-1] not in (FEATURES, width):
            raise NotRecognised(
                f"'{op.called}' takes {width} features of a value with {signal.width}, and axes {_text(signal.axes)}"
            )
        if not isinstance(signal.value, elementwise.Value):
            raise NotRecognised(f"'{op.called}' takes a comparison")
        steps, part = elementwise.chain(signal.value)
        if part:
            raise NotRecognised(f"'{part}' between two layers is not part of a known activation")
        for activation, scale, shift in steps:
            if activation is not None:
                self._steps.append(Activated(activation, width))
            if not (np.all(np.equal(scale, 1.0)) and np.all(np.equal(shift, 0.0))):
                self._steps.append(Scale(np.broadcast_to(scale, width), np.broadcast_to(shift, width)))

    def finish(self, output: object, new_states: Sequence[object]) -> Network:
        """Return the network that computes ``output``, and ``new_states`` if it is recurrent.

        Raises:
            NotRecognised: It is not a known network.
        """
        signal = self.resolve(output)
        if isinstance(signal, Unknown):
            raise NotRecognised(signal.reason)
        if not isinstance(signal, Signal):
            raise NotRecognised("the output does not depend on the input")
        if not self._steps:
            raise NotRecognised("no linear layer")
        width = signal.width or 1
        if width != 1:
            raise NotRecognised(f"the network has {width} outputs; an actuator network has one")
        if [label for label in signal.axes if label not in (1, FEATURES)] != [BATCH]:
            raise NotRecognised(f"the output has axes {_text(signal.axes)}; an actuator network has one effort per DOF")
        self._settle(Op("the output", [], []), replace(signal, axes=(BATCH, FEATURES)), 1)
        if len(self._kinds) > 1:
            raise NotRecognised("LSTM and GRU layers in one network")
        returned = [self.resolve(state) for state in new_states]
        is_swapped = len(returned) == 2 and isinstance(returned[0], State) and not isinstance(returned[1], State)
        if self._kinds and (is_swapped or not all(self._is_new_state(state) for state in returned)):
            raise NotRecognised("the new state that it returns is not that of its recurrent layers")
        with np.errstate(all="ignore"):
            dense, recurrent = assemble(self._steps)
        return Network(next(iter(self._kinds), "mlp"), tuple(dense), tuple(recurrent))


def _text(axes: Axes) -> str:
    return f"({', '.join(str(label) for label in axes)})"


def _sizes(value: object, axis: object = None) -> Any:
    """Return the size of one axis, or of all; a `State` if unknown."""
    if not isinstance(value, Signal):
        return State()
    try:
        axes = range(len(value.axes)) if axis is None else [axis]
        sizes = [size(value.axes, value.width, a) for a in axes]
    except Unclear:
        return State()
    return sizes if axis is None else sizes[0]


def _along_features(constant: np.ndarray, axes: Axes, width: int | None) -> np.ndarray | None:
    """Return a constant of one entry, or of one per feature, as a flat array; None for any other."""
    long = [axis for axis in range(-constant.ndim, 0) if constant.shape[axis] != 1]
    if constant.dtype.kind not in "fi" or constant.size == 0:
        return None
    if long and (len(long) > 1 or len(axes) < -long[0] or axes[long[0]] != FEATURES):
        return None
    flat = constant.ravel().astype(np.float64)
    return flat if not long or width in (None, len(flat)) else None


def _not_known(op: Op) -> Unknown:
    return Unknown(f"operation '{op.called}' is not known")


def _arranged(op: Op, inputs: Sequence[object]) -> Signal | Unknown:
    signal, *arguments = [value.tolist() if isinstance(value, np.ndarray) else value for value in inputs]
    if not isinstance(signal, Signal):
        return _not_known(op)
    name = op.name
    try:
        if name == "index":
            name, arguments = _as_selection(*arguments)
        axes = rearranged(name, arguments, signal.axes, signal.width)
    except Unclear as error:
        return Unknown(f"'{op.called}' rearranges the features, or may do so ({error})")
    return replace(signal, axes=axes)


def _as_selection(at: object, axis: object) -> tuple[str, list[Any]]:
    """Return the selection that an indexing is equivalent to: of one entry, or of a list with one entry."""
    if isinstance(at, int):
        return "select", [axis, at]
    if not isinstance(at, list) or len(at) != 1 or not isinstance(at[0], int):
        raise Unclear(f"entries {at} of axis {axis}")
    return "slice", [axis, at[0], None if at[0] == -1 else at[0] + 1]


def _hidden_part(op: Op, hidden: Hidden, arguments: Sequence[object]) -> Any:
    """Return the last layer's hidden state if an operation selects it; other parts are states."""
    if op.name == "same":
        return hidden
    if op.name == "select" and arguments[0] in (0, -3) and arguments[1] in (-1, hidden.layers - 1):
        return replace(hidden.signal, axes=(BATCH, FEATURES))
    return State("" if op.name in _KEEP_STATES else op.called, is_new=True)


def _without_signal(op: Op, inputs: Sequence[object], flat: Sequence[object]) -> Any:
    """Return the result of an operation on constants, sizes and states alone."""
    first = inputs[0] if inputs else None
    if isinstance(first, State) and op.name in _KEEP_STATES:
        return first
    if any(isinstance(value, (State, Hidden)) for value in flat):
        return State(op.called)
    if op.name == "expand":
        return State("" if isinstance(first, np.ndarray) and not np.any(first) else op.called)
    result = _fold_constants(op.name, inputs, op.attributes)
    return State(op.called) if result is None else result


def _check_states(op: Op, states: Sequence[object]) -> None:
    """Raise if a recurrent layer starts from anything except its own state or zero."""
    for state in states:
        if isinstance(state, State) and state.changed_by:
            raise NotRecognised(f"the state of '{op.called}' goes through '{state.changed_by}'")
        is_made = isinstance(state, State) and state.is_new
        if is_made or isinstance(state, (Signal, Hidden)) or (isinstance(state, np.ndarray) and np.any(state)):
            raise NotRecognised(f"'{op.called}' starts from a state that it makes itself")
    parts = [state.part for state in states if isinstance(state, State)]
    if parts in ([1, 0], [0, 0], [1, 1]):
        raise NotRecognised(f"'{op.called}' takes hidden and cell state for each other")


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, alpha=1: x + alpha * y,
    "sub": lambda x, y, alpha=1: x - alpha * y,
    "rsub": lambda x, y, alpha=1: y - alpha * x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "neg": lambda x: -x,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "reciprocal": lambda x: 1.0 / x,
    "pow": lambda x, y: x**y,
}

_CONSTANT_ARRANGEMENTS: dict[str, Callable[..., np.ndarray]] = {
    "unsqueeze": lambda array, at: np.expand_dims(array, tuple(at) if isinstance(at, list) else at),
    "squeeze": lambda array, at=None: np.squeeze(array, tuple(at) if isinstance(at, list) else at),
    "permute": lambda array, order: np.transpose(array, order),
    "transpose": np.swapaxes,
    "t": np.transpose,
    "reshape": lambda array, shape, *unused: np.reshape(array, [int(length) for length in shape]),
}


def _fold_constants(name: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Return the result of an operation on constants and sizes alone; None if not supported."""
    first = inputs[0] if inputs else None
    is_shape = isinstance(first, (list, str, int))
    if name == "same":
        return first
    try:
        if name == "cast":
            return first if is_shape else np.asarray(first).astype(attributes["dtype"])
        if name == "cat":
            return [length for part in inputs for length in np.ravel(part).tolist()]
        if name == "index" and isinstance(first, list):
            return [first[int(i)] for i in inputs[1]] if np.ndim(inputs[1]) else first[int(inputs[1])]
        if name in ("squeeze", "unsqueeze") and is_shape:
            return first if isinstance(first, list) else [first]
        if name in _CONSTANT_ARRANGEMENTS and isinstance(first, np.ndarray):
            return _CONSTANT_ARRANGEMENTS[name](first, *inputs[1:])
        return _calculated(name, inputs, attributes)
    except (TypeError, ValueError, IndexError):  # arguments that do not fit
        return None


def _calculated(name: str, inputs: Sequence[object], attributes: Mapping[str, Any]) -> np.ndarray | None:
    """Return the result of arithmetic in 64 bits; None for whole numbers only, which formats divide differently."""
    numbers = [np.asarray(value) for value in inputs]
    if name not in _ARITHMETIC or not all(number.dtype.kind in "fi" for number in numbers):
        return None
    size = math.prod(np.broadcast_shapes(*(number.shape for number in numbers)))
    if all(number.dtype.kind == "i" for number in numbers) or size > max(number.size for number in numbers):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(_ARITHMETIC[name](*numbers, **attributes), np.float64)
