# SPDX-License-Identifier: Apache-2.0
"""C++ code that evaluates a network, for one DOF or for a group of lanes.

Both use the same text over a type ``T``: a float, or a vector of floats. Weights are packed in the order in which the
code reads them. The function that a kernel calls takes the network's input signals, reads the network's state in
``floats_in``, writes it to ``floats_out`` (which may be the same array), and returns the effort.

Derivatives are computed in reverse, from the output to the inputs, which takes about as long as the evaluation for any
number of inputs. They are derivatives by the inputs of this step, at constant memory. The adjoint of the scalar
function, for tapes, includes the memory; it is explicit because Warp cannot differentiate through such loops.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from ..kernel.text import define
from ..kernel.types import LANES, Floats
from .activations import GATE_MATH, SCALAR_MATH, VECTOR_MATH, FloatArray, derivative_text, value_text
from .network import GATES, DenseShape, Network, RecurrentShape, Structure

_SCALAR_ACCESS = """
auto load = [&](int place, int row) -> T { return floats_in.data[at + place + (size_t)row * width]; };
auto keep = [&](int place, int row, T x) { floats_out.data[at + place + (size_t)row * width] = x; };
"""

_BLOCK_ACCESS = """
auto load = [&](int place, int row) -> T {
    T x;
    __builtin_memcpy(&x, floats_in.data + at + place + (size_t)row * width + g, 4 * GROUP);
    return x;
};
auto keep = [&](int place, int row, T x) {
    __builtin_memcpy(floats_out.data + at + place + (size_t)row * width + g, &x, 4 * GROUP);
};
"""

_GRADIENT_ACCESS = """
auto grad_get = [&](int place, int row) -> float {
    return floats_out.grad ? floats_out.grad[at + place + (size_t)row * width] : 0.0f;
};
auto grad_add = [&](int place, int row, float value) {
    if (floats_in.grad) floats_in.grad[at + place + (size_t)row * width] += value;
};
"""


def _group(lanes: int) -> str:
    """Return the number of lanes that are evaluated together.

    Two vector registers, if they divide a block: four sums are then eight independent chains of additions.
    """
    wide = 32 if lanes % 32 == 0 else 16
    return f"\n#if defined(__AVX512F__)\nenum {{ GROUP = {wide} }};\n#else\nenum {{ GROUP = 16 }};\n#endif\n"


def pack(network: Network, means: Sequence[float] = ()) -> npt.NDArray[np.float32]:
    """Return the mean of each signal, then the weights in the order in which the code reads them."""
    parts: list[FloatArray] = [np.array(means)]
    for layer in network.recurrent:
        hidden, gates = layer.hidden, layer.weight_hh.shape[0] // layer.hidden
        ih, hh = (w.reshape(gates, hidden, -1) for w in (layer.weight_ih, layer.weight_hh))
        bias_ih, bias_hh = (b.reshape(gates, hidden) for b in (layer.bias_ih, layer.bias_hh))
        for k in range(hidden):
            bias = bias_ih[:, k] + bias_hh[:, k]
            if gates == 3:
                bias = np.array([bias[0], bias[1], bias_ih[2, k], bias_hh[2, k]])
            parts += [bias, ih[:, k].T.ravel(), hh[:, k].T.ravel()]
    for dense in network.dense:
        for rows in _row_blocks(dense.weight.shape[0]):
            parts += [dense.bias[rows], dense.weight[rows].T.ravel()]
    return np.concatenate(parts).astype(np.float32)


def _row_blocks(count: int) -> list[slice]:
    return [slice(start, min(start + 4, count)) for start in range(0, count, 4)]


def state_rows(structure: Structure, input_idx: tuple[int, ...], histories: tuple[str, ...]) -> dict[str, int]:
    """Return the number of rows of each state array, by name."""
    if structure.kind == "mlp":
        return dict.fromkeys(histories, max(input_idx)) if max(input_idx) else {}
    return dict.fromkeys(_memories(structure.kind), sum(layer.hidden for layer in structure.recurrent))


def _memories(kind: str) -> tuple[str, ...]:
    """Return the state arrays of a recurrent network. Their first letters name the values in C++."""
    return ("hidden", "cell") if kind == "lstm" else ("hidden",)


def _dense_forward(index: int, layer: DenseShape, keep: bool) -> str:
    """Return C++ from ``y`` of the layer before to ``y`` of this one; with ``keep`` also ``z``, before activation.

    Four rows are processed at a time: each input is loaded once for four sums.
    """

    def rows(count: int, first: str) -> str:
        sums = "".join(f"T s{r} = w[{r}] - T{{}}; " for r in range(count))
        adds = "".join(f"s{r} = t_fma(v[{r}] - T{{}}, x, s{r}); " for r in range(count))
        stores = "".join(
            (f"z{index}[{first} + {r}] = s{r}; " if keep else "")
            + f"y{index}[{first} + {r}] = {value_text(layer.activation, f's{r}')}; "
            for r in range(count)
        )
        return (
            f"{{ {sums}const float* v = w + {count};\n"
            f"for (int i = 0; i < {layer.inputs}; ++i, v += {count}) {{ T x = y{index - 1}[i]; {adds}}}\n"
            f"{stores}w = v; }}\n"
        )

    full, rest = divmod(layer.outputs, 4)
    text = f"T y{index}[{layer.outputs}];\n" + (f"T z{index}[{layer.outputs}];\n" if keep else "")
    if full:
        text += f"for (int k = 0; k < {4 * full}; k += 4) {rows(4, 'k')}"
    if rest:
        text += rows(rest, str(4 * full))
    return text


def _dense_backward(index: int, layer: DenseShape, inputs: Sequence[int]) -> str:
    """Return C++ from ``d`` of a dense layer's outputs to ``d`` of its inputs; ``end`` points behind its weights.

    Four inputs are processed at a time: each derivative by an output is loaded once for four sums.

    Args:
        index: Number of the layer, from 1.
        layer: Shape of the layer. Outputs are packed by rows of four.
        inputs: Inputs to differentiate by. All of them are a loop.
    """
    here, below, width = f"d{index}", f"d{index - 1}", layer.inputs
    text = f"T {below}[{max(len(inputs), 1)}];\nend -= {layer.outputs * (width + 1)};\n"
    text += f"for (int k = 0; k < {layer.outputs}; ++k) {{ T z = z{index}[k], y = y{index}[k]; (void)z; (void)y; "
    text += f"{here}[k] = {here}[k] * {derivative_text(layer.activation)}; }}\n"
    full, rest = divmod(layer.outputs, 4)

    def sums(places: Sequence[str], to: str) -> str:
        def adds(rows: int, first: str) -> str:
            lines = ""
            for r in range(rows):
                lines += f"{{ T x = {here}[{first} + {r}]; "
                lines += "".join(
                    f"s{i} = t_fma(v[{rows} * ({p}) + {r}] - T{{}}, x, s{i}); " for i, p in enumerate(places)
                )
                lines += "}\n"
            return f"{{ v += {rows};\n{lines}v += {rows * width}; }}\n"

        text = f"{{ T {', '.join(f's{i} = T{{}}' for i in range(len(places)))}; const float* v = end;\n"
        if full:
            text += f"for (int k = 0; k < {4 * full}; k += 4) {adds(4, 'k')}"
        if rest:
            text += adds(rest, str(4 * full))
        return text + "".join(f"{below}[{to} + {i}] = s{i}; " for i in range(len(places))) + "}\n"

    if len(inputs) < width:
        for start in range(0, len(inputs), 4):
            text += sums([str(place) for place in inputs[start : start + 4]], str(start))
        return text
    if width >= 4:
        text += f"for (int i = 0; i < {width - width % 4}; i += 4) " + sums([f"i + {n}" for n in range(4)], "i")
    if width % 4:
        start = width - width % 4
        text += sums([str(place) for place in range(start, width)], str(start))
    return text


def _recurrent_forward(kind: str, index: int, layer: RecurrentShape, keep: bool) -> str:
    """Return C++ from input ``in`` and state ``h``, ``c`` of a layer to ``nh``, ``nc``; ``keep`` stores its gates."""
    gates, hidden = GATES[kind], layer.hidden
    names = ("gi", "gf", "gg", "go") if kind == "lstm" else ("gr", "gz", "gn", "gq")
    store = "".join(f"{name}{index}[k] = {name}; " for name in names) if keep else ""
    arrays = "".join(f"T {name}{index}[{hidden}]; " for name in names) if keep else ""
    to_x, to_h = ((0, 1, 2, 3), (0, 1, 2, 3)) if kind == "lstm" else ((0, 1, 2), (0, 1, 3))

    def adds(targets: tuple[int, ...]) -> str:
        return "".join(f"s{t} = t_fma(v[{i}] - T{{}}, x, s{t}); " for i, t in enumerate(targets))

    if kind == "lstm":
        finish = (
            "T gi = t_sigmoid(s0), gf = t_sigmoid(s1), gg = t_tanh(s2), go = t_sigmoid(s3);\n"
            f"nc{index}[k] = gf * c{index}[k] + gi * gg; nh{index}[k] = go * t_tanh(nc{index}[k]);\n"
        )
    else:
        finish = (
            "T gr = t_sigmoid(s0), gz = t_sigmoid(s1), gq = s3, gn = t_tanh(s2 + gr * s3);\n"
            f"nh{index}[k] = gn + gz * (h{index}[k] - gn);\n"
        )
    return (
        "".join(f"T n{name[0]}{index}[{hidden}]; " for name in _memories(kind)) + arrays + "\n"
        f"for (int k = 0; k < {hidden}; ++k) {{\n"
        "T s0 = w[0] - T{}, s1 = w[1] - T{}, s2 = w[2] - T{}, s3 = w[3] - T{}; const float* v = w + 4;\n"
        f"for (int i = 0; i < {layer.inputs}; ++i, v += {gates}) {{ T x = in{index}[i]; {adds(to_x)}}}\n"
        f"for (int i = 0; i < {hidden}; ++i, v += {gates}) {{ T x = h{index}[i]; {adds(to_h)}}}\n"
        f"w = v; {finish}{store}}}\n"
    )


def _recurrent_backward(kind: str, index: int, layer: RecurrentShape, upper: str, first_row: int | None) -> str:
    """Return C++ from derivatives by a layer's outputs to ``dx``, those by its inputs; ``end`` is behind its weights.

    Args:
        kind: ``"lstm"`` or ``"gru"``.
        index: Number of the layer, from 0.
        layer: Its shape.
        upper: Name of the array of derivatives by its outputs.
        first_row: First row of the layer in the state, to differentiate by the state; None for a constant state.
    """
    gates, hidden, with_state = GATES[kind], layer.hidden, first_row is not None
    size = 4 + gates * (layer.inputs + hidden)

    def zeros(name: str, count: int) -> str:
        return f"T {name}{index}[{count}]; for (int i = 0; i < {count}; ++i) {name}{index}[i] = T{{}};\n"

    def later(name: str) -> str:
        return f" + grad_get({name}_at, {first_row} + k)" if with_state else ""

    text = zeros("dx", layer.inputs) + (zeros("dh", hidden) if with_state else "")
    text += f"end -= {hidden * size};\n{{ const float* v = end + 4;\n"
    text += f"for (int k = 0; k < {hidden}; ++k, v += {size}) {{\nconst T dnh = {upper}[k]{later('hidden')};\n"
    if kind == "lstm":
        text += (
            f"const T i_ = gi{index}[k], f_ = gf{index}[k], g_ = gg{index}[k], o_ = go{index}[k];\n"
            f"const T tc = t_tanh(nc{index}[k]), dnc = dnh * o_ * (1.0f - tc * tc){later('cell')};\n"
            f"const T ds0 = dnc * g_ * i_ * (1.0f - i_), ds1 = dnc * c{index}[k] * f_ * (1.0f - f_);\n"
            "const T ds2 = dnc * i_ * (1.0f - g_ * g_), ds3 = dnh * tc * o_ * (1.0f - o_);\n"
        )
        text += f"grad_add(cell_at, {first_row} + k, dnc * f_);\n" if with_state else ""
        to_h: tuple[int, ...] = (0, 1, 2, 3)
    else:
        text += (
            f"const T r_ = gr{index}[k], z_ = gz{index}[k], n_ = gn{index}[k], q_ = gq{index}[k];\n"
            "const T ds2 = dnh * (1.0f - z_) * (1.0f - n_ * n_), ds0 = ds2 * q_ * r_ * (1.0f - r_);\n"
            f"const T ds1 = dnh * (h{index}[k] - n_) * z_ * (1.0f - z_);\n"
        )
        text += f"const T ds3 = ds2 * r_; dh{index}[k] += dnh * z_;\n" if with_state else ""
        to_h = (0, 1, 3)

    def sums(target: str, count: int, offset: int, sources: Sequence[int]) -> str:
        weights = [f"v[{offset} + i * {gates} + {gate}] - T{{}}" for gate in range(gates)]
        adds = "".join(f"sum = t_fma({w}, ds{s}, sum); " for w, s in zip(weights, sources, strict=True))
        return f"for (int i = 0; i < {count}; ++i) {{ T sum = {target}[i]; {adds}{target}[i] = sum; }}\n"

    text += sums(f"dx{index}", layer.inputs, 0, range(gates))
    if not with_state:
        return text + "} }\n"
    text += sums(f"dh{index}", hidden, gates * layer.inputs, to_h) + "} }\n"
    return text + f"for (int k = 0; k < {hidden}; ++k) grad_add(hidden_at, {first_row} + k, dh{index}[k]);\n"


class _Writer:
    """Writer of the C++ of one network structure."""

    def __init__(self, code: NetworkCode, lanes: int):
        self._kind, self._recurrent, self._dense = code.structure
        self._lanes = lanes
        self._rows = state_rows(code.structure, code.input_idx, code.histories)
        self._steps = code.input_idx
        self._histories = code.histories
        self._is_centred = code.is_centred
        self._history = max(self._steps) if self._kind == "mlp" else 0
        self._output = f"y{len(self._dense)}[0]"

    def scalar(self, saves: bool = True) -> str:
        """Return the function of one DOF."""
        return self._scalar_start() + self._forward() + (self._save() if saves else "") + f"return {self._output};\n"

    def block(self) -> str:
        """Return the function of a block of lanes."""
        return self._in_groups(self._forward() + self._save(), [self._output])

    def scalar_derivatives(self) -> str:
        """Return the function of one DOF that returns the output, then its derivative by each signal."""
        names = self._derivatives()
        text = self._scalar_start() + self._forward(keep=True) + self._save() + self._derivative_backward()
        text += f"wp::vec_t<{len(names)}, wp::float32> found;\n"
        return text + "".join(f"found.c[{i}] = {name};\n" for i, name in enumerate(names)) + "return found;\n"

    def block_derivatives(self) -> str:
        """Return the function of a block that returns the output of each lane, then its derivatives by each signal."""
        return self._in_groups(
            self._forward(keep=True) + self._save() + self._derivative_backward(), self._derivatives()
        )

    def adjoint(self) -> str:
        """Return the adjoint of one DOF: an evaluation that stores values, then gradients by signals and old state."""
        text = self._scalar_start() + self._forward(keep=True) + (_GRADIENT_ACCESS if self._rows else "")
        text += self._backward("adj_ret", with_state=True)
        if self._recurrent:
            return text + "".join(f"adj_{signal} += dx0[{at}];\n" for signal, _, at in self._signals())
        for signal, past, at in self._signals():
            text += f"for (int m = 0; m < {len(self._steps)}; ++m) "
            if self._history:
                text += f"if (row_of[m] >= 0) grad_add({past}_at, row_of[m], d0[{at} + m]); else "
            text += f"adj_{signal} += d0[{at} + m];\n"
            if self._history:
                text += f"adj_{signal} += grad_get({past}_at, 0);\n"
                text += f"for (int r = 1; r < {self._history}; ++r) "
                text += f"grad_add({past}_at, r - 1, grad_get({past}_at, r));\n"
        return text

    def _signals(self) -> Iterator[tuple[str, str, int]]:
        """Yield the name of each signal in C++, the name of its past, and the index of its first input."""
        for i, past in enumerate(self._histories):
            yield f"signal{i}", past, i * len(self._steps)

    def _scalar_start(self) -> str:
        now = "".join(f"T now_{signal} = {signal};\n" for signal, _, _ in self._signals())
        return SCALAR_MATH + GATE_MATH + now + (_SCALAR_ACCESS if self._rows else "") + self._load()

    def _in_groups(self, evaluate: str, results: Sequence[str]) -> str:
        """Return a function of a block of lanes, group by group, that returns ``results`` of each lane."""
        lanes = self._lanes
        text = _group(lanes) + VECTOR_MATH + GATE_MATH + f"wp::vec_t<{lanes * len(results)}, wp::float32> found;\n"
        text += f"for (int g = 0; g < {lanes} && g < count; g += GROUP) {{\n" + (_BLOCK_ACCESS if self._rows else "")
        for signal, _, _ in self._signals():
            text += f"T now_{signal}; __builtin_memcpy(&now_{signal}, {signal}.c + g, 4 * GROUP);\n"
        text += self._load() + evaluate
        for i, name in enumerate(results):
            text += f"__builtin_memcpy(found.c + {i * lanes} + g, &{name}, 4 * GROUP);\n"
        return text + "}\nreturn found;\n"

    def _load(self) -> str:
        """Return C++ that computes the inputs ``y0`` (or ``in0``) and loads the state."""

        def centred(value: str, i: int) -> str:
            return f"({value}) - weights.data[{i}]" if self._is_centred else value

        text = ""
        if self._kind == "mlp":
            text += f"T y0[{len(self._histories) * len(self._steps)}];\n"
            if self._history:  # a table, for a loop over a long history; -1 is now
                rows = ", ".join(str(step - 1) for step in self._steps)
                text += f"const int row_of[{len(self._steps)}] = {{{rows}}};\n"
            for i, (signal, past, at) in enumerate(self._signals()):
                past_or_now = f"row_of[m] < 0 ? now_{signal} : load({past}_at, row_of[m])"
                value = centred(past_or_now if self._history else f"now_{signal}", i)
                text += f"for (int m = 0; m < {len(self._steps)}; ++m) y0[{at} + m] = {value};\n"
            return text
        text += f"T in0[{len(self._histories)}];\n"
        text += "".join(f"in0[{at}] = {centred(f'now_{signal}', at)};\n" for signal, _, at in self._signals())
        for index, layer in enumerate(self._recurrent):
            for name in _memories(self._kind):
                values = f"{name[0]}{index}"
                text += f"T {values}[{layer.hidden}]; for (int k = 0; k < {layer.hidden}; ++k) "
                text += f"{values}[k] = load({name}_at, {self._first_row(index)} + k);\n"
        return text

    def _first_row(self, index: int) -> int:
        """Return the first row of a recurrent layer in the state."""
        return sum(layer.hidden for layer in self._recurrent[:index])

    def _forward(self, keep: bool = False) -> str:
        """Return C++ from the inputs to the output; with ``keep`` also values that the chain rule needs."""
        text = f"const float* w = weights.data + {len(self._histories) if self._is_centred else 0};\n"
        for index, recurrent in enumerate(self._recurrent):
            text += _recurrent_forward(self._kind, index, recurrent, keep)
            name = f"in{index + 1}" if index + 1 < len(self._recurrent) else "y0"
            count = recurrent.hidden
            text += f"T {name}[{count}]; for (int k = 0; k < {count}; ++k) {name}[k] = nh{index}[k];\n"
        for index, dense in enumerate(self._dense, start=1):
            text += _dense_forward(index, dense, keep)
        return text

    def _save(self) -> str:
        """Return C++ that writes the new state. The oldest rows come first, so that it works in place."""
        text = ""
        if self._history:
            for signal, past, _ in self._signals():
                text += f"for (int r = {self._history - 1}; r > 0; --r) {{ "
                text += f"T past = load({past}_at, r - 1); keep({past}_at, r, past); }}\n"
                text += f"keep({past}_at, 0, now_{signal});\n"
        for index, layer in enumerate(self._recurrent):
            for name in _memories(self._kind):
                text += f"for (int k = 0; k < {layer.hidden}; ++k) "
                text += f"keep({name}_at, {self._first_row(index)} + k, n{name[0]}{index}[k]);\n"
        return text

    def _backward(self, seed: str, with_state: bool, inputs: Sequence[int] | None = None) -> str:
        """Return C++ from the derivative by the output, ``seed``, to ``d0`` or ``dx0``, those by the inputs.

        Args:
            seed: A value of type ``T``.
            with_state: Whether to differentiate by the state of recurrent layers.
            inputs: Inputs of an MLP to differentiate by. None: all.
        """
        text = f"T d{len(self._dense)}[1]; d{len(self._dense)}[0] = {seed}; const float* end = w;\n"
        for index, dense in reversed(list(enumerate(self._dense, start=1))):
            chosen = inputs if index == 1 else None
            text += _dense_backward(index, dense, range(dense.inputs) if chosen is None else chosen)
        upper = "d0"
        for index, recurrent in reversed(list(enumerate(self._recurrent))):
            first_row = self._first_row(index) if with_state else None
            text += _recurrent_backward(self._kind, index, recurrent, upper, first_row)
            upper = f"dx{index}"
        return text

    def _derivatives(self) -> list[str]:
        """Return the output and the variables ``derivative0``, ``derivative1``, … of `_derivative_backward`."""
        return [self._output, *(f"derivative{i}" for i in range(len(self._histories)))]

    def _derivative_backward(self) -> str:
        """Return C++ of the derivatives of the output by the current value of each signal."""
        seed = "1.0f - T{}"
        if self._recurrent:
            text = self._backward(seed, with_state=False)
            return text + "".join(f"T derivative{i} = dx0[{i}];\n" for i in range(len(self._histories)))
        now = [m for m, step in enumerate(self._steps) if step == 0]
        wanted = [at + m for _, _, at in self._signals() for m in now]
        text = self._backward(seed, with_state=False, inputs=wanted)
        for i, (_, _, at) in enumerate(self._signals()):
            terms = [f"d0[{wanted.index(at + m)}]" for m in now]
            text += f"T derivative{i} = {' + '.join(terms) or 'T{}'};\n"
        return text


@dataclass(frozen=True)
class NetworkCode:
    """Compiled part of a network and its inputs. Calling it returns the Warp function for kernels."""

    structure: Structure
    input_idx: tuple[int, ...]
    histories: tuple[str, ...]
    """Name of each input signal's past."""
    is_centred: bool = False
    """Whether the weights begin with a mean of each signal, to subtract."""

    def __call__(self, lanes: int, with_derivatives: bool = False) -> Any:
        """Return the function for blocks of ``lanes``, or for single DOFs if that is 0."""
        return _functions(self, lanes or LANES)[lanes > 0, with_derivatives]


@functools.cache
def _functions(code: NetworkCode, lanes: int) -> dict[tuple[bool, bool], Any]:
    """Build the Warp functions of a network, by whether they work in blocks and whether they return derivatives.

    An adjoint replays ``value`` instead of ``scalar``, since it writes no state.
    """
    writer = _Writer(code, lanes)
    signals = [f"signal{i}" for i in range(len(code.histories))]
    states = state_rows(code.structure, code.input_idx, code.histories)
    memory = {"floats_in": "Floats", "floats_out": "Floats", **{f"{state}_at": "int" for state in states}}
    memory = memory | {"width": "int", "at": "int"} if states else {}
    name = f"network_{hashlib.sha256(repr(code).encode()).hexdigest()[:12]}_{lanes}"

    def signature(kind: str) -> str:
        given = {"weights": "Floats", **dict.fromkeys(signals, kind), **memory, "count": "int"}
        return ", ".join(f"{argument}: {of}" for argument, of in given.items())

    arguments = ", ".join(["weights", *signals, *memory, "count"])
    source = f"""
@wp.func_native(block_text)
def {name}_block({signature("FloatBlock")}) -> FloatBlock: ...


@wp.func_native(value_text)
def {name}_value({signature("float")}) -> float: ...


@wp.func_native(scalar_text, adjoint_text)
def {name}_scalar({signature("float")}) -> float: ...


@wp.func_native(block_derivatives_text)
def {name}_block_derivatives({signature("FloatBlock")}) -> BlockDerivatives: ...


@wp.func_native(scalar_derivatives_text)
def {name}_scalar_derivatives({signature("float")}) -> ScalarDerivatives: ...


@wp.func_replay({name}_scalar)
def {name}_replay({signature("float")}):
    return {name}_value({arguments})
"""
    namespace: dict[str, Any] = {"wp": wp, "Floats": Floats, "__name__": __name__}
    namespace["FloatBlock"] = wp.types.vector(lanes, wp.float32)
    namespace |= {"block_text": writer.block(), "value_text": writer.scalar(saves=False)}
    namespace |= {"scalar_text": writer.scalar(), "adjoint_text": writer.adjoint()}
    namespace |= {
        "block_derivatives_text": writer.block_derivatives(),
        "scalar_derivatives_text": writer.scalar_derivatives(),
    }
    parts = 1 + len(signals)
    namespace |= {"BlockDerivatives": wp.types.vector(lanes * parts, wp.float32)}
    namespace |= {"ScalarDerivatives": wp.types.vector(parts, wp.float32)}
    define(source, name, namespace)
    return {
        (False, False): namespace[f"{name}_scalar"],
        (False, True): namespace[f"{name}_scalar_derivatives"],
        (True, False): namespace[f"{name}_block"],
        (True, True): namespace[f"{name}_block_derivatives"],
    }
