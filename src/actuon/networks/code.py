# SPDX-License-Identifier: Apache-2.0
"""Network structure → C++ that evaluates it, one DOF at a time or a group of lanes at a time.

Both are one text over a type ``T``: a float, or a vector of floats. Weights come packed in the order in which the code
reads them. The scalar version has an adjoint, written out by hand: Warp cannot differentiate through such loops.

The function that a kernel calls takes the network's input signals, reads the network's state at ``*_in``, writes it to
``*_out`` (which may be the same arrays), and returns the effort.
"""

from __future__ import annotations

import functools
import hashlib
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ..kernel.types import LANES, FloatBlock, Floats
from .activations import GATE_MATH, SCALAR_MATH, VECTOR_MATH, slope_text, value_text
from .model import Activation, Network

_GROUP = """
#if defined(__AVX512F__)
enum { GROUP = 32 };
#else
enum { GROUP = 16 };
#endif
"""
"""Lanes evaluated together: two vector registers, so that four sums make eight independent chains of additions."""


def pack(network: Network, means: Sequence[float] = ()) -> np.ndarray:
    """The weights in the order in which the code reads them, float32; before them what is taken off each signal."""
    parts: list[np.ndarray] = [np.array(means)]
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


def _dense_text(index: int, inputs: int, outputs: int, activation: Activation, keep: bool) -> str:
    """Rows four at a time: each input is loaded once for four sums."""

    def rows(count: int, first: str) -> str:
        sums = "".join(f"T s{r} = w[{r}] - T{{}}; " for r in range(count))
        adds = "".join(f"s{r} = t_fma(v[{r}] - T{{}}, x, s{r}); " for r in range(count))
        stores = "".join(
            (f"z{index}[{first} + {r}] = s{r}; " if keep else "")
            + f"y{index}[{first} + {r}] = {value_text(activation, f's{r}')}; "
            for r in range(count)
        )
        return (
            f"{{ {sums}const float* v = w + {count};\n"
            f"for (int i = 0; i < {inputs}; ++i, v += {count}) {{ T x = y{index - 1}[i]; {adds}}}\n"
            f"{stores}w = v; }}\n"
        )

    full, rest = divmod(outputs, 4)
    text = f"T y{index}[{outputs}];\n" + (f"T z{index}[{outputs}];\n" if keep else "")
    if full:
        text += f"for (int k = 0; k < {4 * full}; k += 4) {rows(4, 'k')}"
    if rest:
        text += rows(rest, str(4 * full))
    return text


def _recurrent_text(kind: str, layer: int, inputs: int, hidden: int, keep: bool) -> str:
    """One LSTM or GRU layer: from input ``in0`` and state ``h0`` (and ``c0``) to ``nh0`` (and ``nc0``), for layer 0."""
    gates = 4 if kind == "lstm" else 3
    names = ("gi", "gf", "gg", "go") if kind == "lstm" else ("gr", "gz", "gn", "gq")
    store = "".join(f"{name}{layer}[k] = {name}; " for name in names) if keep else ""
    arrays = "".join(f"T {name}{layer}[{hidden}]; " for name in names) if keep else ""
    to_x, to_h = ((0, 1, 2, 3), (0, 1, 2, 3)) if kind == "lstm" else ((0, 1, 2), (0, 1, 3))

    def adds(targets: tuple[int, ...]) -> str:
        return "".join(f"s{t} = t_fma(v[{i}] - T{{}}, x, s{t}); " for i, t in enumerate(targets))

    if kind == "lstm":
        finish = (
            "T gi = t_sigmoid(s0), gf = t_sigmoid(s1), gg = t_tanh(s2), go = t_sigmoid(s3);\n"
            f"nc{layer}[k] = gf * c{layer}[k] + gi * gg; nh{layer}[k] = go * t_tanh(nc{layer}[k]);\n"
        )
    else:
        finish = (
            "T gr = t_sigmoid(s0), gz = t_sigmoid(s1), gq = s3, gn = t_tanh(s2 + gr * s3);\n"
            f"nh{layer}[k] = gn + gz * (h{layer}[k] - gn);\n"
        )
    return (
        f"T nh{layer}[{hidden}]; " + (f"T nc{layer}[{hidden}]; " if kind == "lstm" else "") + arrays + "\n"
        f"for (int k = 0; k < {hidden}; ++k) {{\n"
        "T s0 = w[0] - T{}, s1 = w[1] - T{}, s2 = w[2] - T{}, s3 = w[3] - T{}; const float* v = w + 4;\n"
        f"for (int i = 0; i < {inputs}; ++i, v += {gates}) {{ T x = in{layer}[i]; {adds(to_x)}}}\n"
        f"for (int i = 0; i < {hidden}; ++i, v += {gates}) {{ T x = h{layer}[i]; {adds(to_h)}}}\n"
        f"w = v; {finish}{store}}}\n"
    )


class _Writer:
    """Writes the C++ of one network structure."""

    def __init__(self, code: NetworkCode):
        self.kind, self.recurrent, self.dense = code.structure
        self.steps = code.input_idx
        self.histories = code.histories
        self.is_centred = code.is_centred
        self.history = max(self.steps) if self.kind == "mlp" else 0
        self.states = state_rows(code.structure, self.steps, self.histories)

    def _inputs(self) -> Iterator[tuple[str, str, int]]:
        """The signals: as C++ calls it, its past, and where its inputs start."""
        for i, past in enumerate(self.histories):
            yield f"signal{i}", past, i * len(self.steps)

    def _centred(self, value: str, i: int) -> str:
        return f"({value}) - weights.data[{i}]" if self.is_centred else value

    def _steps_table(self) -> str:
        """The history rows of the inputs as a table, so that a long history is a loop; -1 is now."""
        return f"const int row_of[{len(self.steps)}] = {{{', '.join(str(step - 1) for step in self.steps)}}};\n"

    def inputs(self) -> str:
        """Make the inputs ``y0`` (or ``in0``) and load the state."""
        if self.kind == "mlp":
            text = f"T y0[{len(self.histories) * len(self.steps)}];\n" + (self._steps_table() if self.history else "")
            for i, (signal, past, at) in enumerate(self._inputs()):
                value = f"row_of[m] < 0 ? now_{signal} : load({past}_in, row_of[m])"
                value = self._centred(value if self.history else f"now_{signal}", i)
                text += f"for (int m = 0; m < {len(self.steps)}; ++m) y0[{at} + m] = {value};\n"
            return text
        text = f"T in0[{len(self.histories)}];\n"
        text += "".join(f"in0[{at}] = {self._centred(f'now_{signal}', at)};\n" for signal, _, at in self._inputs())
        for layer, (rows, _) in enumerate(self.recurrent):
            hidden = rows // (4 if self.kind == "lstm" else 3)
            for short, name in (("h", "hidden"), ("c", "cell"))[: 2 if self.kind == "lstm" else 1]:
                start = self._first_row(layer)
                text += f"T {short}{layer}[{hidden}]; for (int k = 0; k < {hidden}; ++k) "
                text += f"{short}{layer}[k] = load({name}_in, {start} + k);\n"
        return text

    def _first_row(self, layer: int) -> int:
        gates = 4 if self.kind == "lstm" else 3
        return sum(rows // gates for rows, _ in self.recurrent[:layer])

    def forward(self, keep: bool) -> str:
        text = f"const float* w = weights.data + {len(self.histories) if self.is_centred else 0};\n"
        gates = 4 if self.kind == "lstm" else 3
        for layer, (rows, inputs) in enumerate(self.recurrent):
            hidden = rows // gates
            text += _recurrent_text(self.kind, layer, inputs, hidden, keep)
            name = "in" + str(layer + 1) if layer + 1 < len(self.recurrent) else "y0"
            text += f"T {name}[{hidden}]; for (int k = 0; k < {hidden}; ++k) {name}[k] = nh{layer}[k];\n"
        for index, (outputs, inputs, activation) in enumerate(self.dense, start=1):
            text += _dense_text(index, inputs, outputs, activation, keep)
        return text

    def save(self) -> str:
        """Write the new state. Rows go from old to new, so that they may be written in place."""
        text = ""
        if self.history:
            for signal, past, _ in self._inputs():
                text += f"for (int r = {self.history - 1}; r > 0; --r) {{ "
                text += f"T past = load({past}_in, r - 1); keep({past}_out, r, past); }}\n"
                text += f"keep({past}_out, 0, now_{signal});\n"
        for layer, (rows, _) in enumerate(self.recurrent):
            hidden = rows // (4 if self.kind == "lstm" else 3)
            for short, name in (("nh", "hidden"), ("nc", "cell"))[: 2 if self.kind == "lstm" else 1]:
                start = self._first_row(layer)
                text += f"for (int k = 0; k < {hidden}; ++k) keep({name}_out, {start} + k, {short}{layer}[k]);\n"
        return text

    def scalar(self, saves: bool = True) -> str:
        text = self._scalar_start() + self.forward(keep=False) + (self.save() if saves else "")
        return text + f"return y{len(self.dense)}[0];\n"

    def _scalar_start(self) -> str:
        now = "".join(f"T now_{signal} = {signal};\n" for signal, _, _ in self._inputs())
        return SCALAR_MATH + GATE_MATH + now + _SCALAR_ACCESS + self.inputs()

    def block(self) -> str:
        text = _GROUP + VECTOR_MATH + GATE_MATH + f"wp::vec_t<{LANES}, wp::float32> effort;\n"
        text += f"for (int g = 0; g < {LANES} && g < count; g += GROUP) {{\n" + _BLOCK_ACCESS
        for signal, _, _ in self._inputs():
            text += f"T now_{signal}; __builtin_memcpy(&now_{signal}, {signal}.c + g, 4 * GROUP);\n"
        text += self.inputs() + self.forward(keep=False) + self.save()
        return text + f"__builtin_memcpy(effort.c + g, &y{len(self.dense)}[0], 4 * GROUP);\n}}\nreturn effort;\n"

    def adjoint(self) -> str:
        """Recompute forwards, keeping what the chain rule needs, then go backwards to signals and old state."""
        text = self._scalar_start() + self.forward(keep=True) + _GRADIENT_ACCESS
        last = len(self.dense)
        text += f"float d{last}[1]; d{last}[0] = adj_ret;\n"
        text += "const float* end = w;\n"
        for index, (outputs, inputs, activation) in reversed(list(enumerate(self.dense, start=1))):
            text += self._dense_adjoint(index, inputs, outputs, activation)
        return text + (self._history_adjoint() if self.kind == "mlp" else self._recurrent_adjoint())

    def _dense_adjoint(self, index: int, inputs: int, outputs: int, activation: Activation) -> str:
        size = outputs * (inputs + 1)
        full, rest = divmod(outputs, 4)
        text = f"float d{index - 1}[{inputs}]; for (int i = 0; i < {inputs}; ++i) d{index - 1}[i] = 0.0f;\n"
        text += f"end -= {size};\n"
        text += f"{{ const float* v = end; for (int k = 0; k < {outputs};) {{\n"
        text += f"const int rows = k < {4 * full} ? 4 : {max(rest, 1)};\n"
        text += f"for (int r = 0; r < rows; ++r) {{ float z = z{index}[k + r], y = y{index}[k + r]; (void)z; (void)y;\n"
        text += f"const float dz = d{index}[k + r] * {slope_text(activation)};\n"
        text += f"for (int i = 0; i < {inputs}; ++i) d{index - 1}[i] += v[rows + i * rows + r] * dz; }}\n"
        text += f"v += rows * ({inputs} + 1); k += rows; }} }}\n"
        return text

    def _history_adjoint(self) -> str:
        text = ""
        for signal, past, at in self._inputs():
            text += f"for (int m = 0; m < {len(self.steps)}; ++m) "
            if self.history:
                text += f"if (row_of[m] >= 0) grad_add({past}_in, row_of[m], d0[{at} + m]); else "
            text += f"adj_{signal} += d0[{at} + m];\n"
            if self.history:
                text += f"adj_{signal} += grad_get({past}_out, 0);\n"
                text += f"for (int r = 1; r < {self.history}; ++r) "
                text += f"grad_add({past}_in, r - 1, grad_get({past}_out, r));\n"
        return text

    def _recurrent_adjoint(self) -> str:
        lstm = self.kind == "lstm"
        gates = 4 if lstm else 3
        text = ""
        upper = "d0"
        for layer in reversed(range(len(self.recurrent))):
            rows, inputs = self.recurrent[layer]
            hidden, start = rows // gates, self._first_row(layer)
            size = hidden * (4 + gates * (inputs + hidden))
            text += f"float dx{layer}[{inputs}]; for (int i = 0; i < {inputs}; ++i) dx{layer}[i] = 0.0f;\n"
            text += f"float dh{layer}[{hidden}]; for (int i = 0; i < {hidden}; ++i) dh{layer}[i] = 0.0f;\n"
            text += f"end -= {size};\n{{ const float* v = end;\n"
            text += f"for (int k = 0; k < {hidden}; ++k, v += {size // hidden}) {{\n"
            text += f"const float dnh = {upper}[k] + grad_get(hidden_out, {start} + k);\n"
            if lstm:
                text += (
                    f"const float i_ = gi{layer}[k], f_ = gf{layer}[k], g_ = gg{layer}[k], o_ = go{layer}[k];\n"
                    f"const float tc = ::tanhf(nc{layer}[k]);\n"
                    f"const float dnc = grad_get(cell_out, {start} + k) + dnh * o_ * (1.0f - tc * tc);\n"
                    f"const float ds0 = dnc * g_ * i_ * (1.0f - i_), ds1 = dnc * c{layer}[k] * f_ * (1.0f - f_);\n"
                    "const float ds2 = dnc * i_ * (1.0f - g_ * g_), ds3 = dnh * tc * o_ * (1.0f - o_);\n"
                    f"grad_add(cell_in, {start} + k, dnc * f_);\n"
                )
                at_x = at_h = list(enumerate(("ds0", "ds1", "ds2", "ds3")))
            else:
                text += (
                    f"const float r_ = gr{layer}[k], z_ = gz{layer}[k], n_ = gn{layer}[k], q_ = gq{layer}[k];\n"
                    "const float dn = dnh * (1.0f - z_) * (1.0f - n_ * n_);\n"
                    f"const float ds1 = dnh * (h{layer}[k] - n_) * z_ * (1.0f - z_);\n"
                    "const float ds0 = dn * q_ * r_ * (1.0f - r_);\n"
                    "const float ds2 = dn, ds3 = dn * r_;\n"
                    f"dh{layer}[k] += dnh * z_;\n"
                )
                at_x, at_h = list(enumerate(("ds0", "ds1", "ds2"))), list(enumerate(("ds0", "ds1", "ds3")))
            for count, target, terms, offset in (
                (inputs, f"dx{layer}", at_x, "4"),
                (hidden, f"dh{layer}", at_h, f"4 + {gates * inputs}"),
            ):
                total = " + ".join(f"v[{offset} + i * {gates} + {j}] * {name}" for j, name in terms)
                text += f"for (int i = 0; i < {count}; ++i) {target}[i] += {total};\n"
            text += "} }\n"
            text += f"for (int k = 0; k < {hidden}; ++k) grad_add(hidden_in, {start} + k, dh{layer}[k]);\n"
            upper = f"dx{layer}"
        return text + "".join(f"adj_{signal} += dx0[{at}];\n" for signal, _, at in self._inputs())


_GRADIENT_ACCESS = """
auto grad_get = [&](wp::array_t<wp::float32>& a, int row) -> float {
    return a.grad ? a.grad[(size_t)row * n + base] : 0.0f;
};
auto grad_add = [&](wp::array_t<wp::float32>& a, int row, float value) {
    if (a.grad) a.grad[(size_t)row * n + base] += value;
};
"""


_SCALAR_ACCESS = """
auto load = [&](wp::array_t<wp::float32>& a, int row) -> T { return a.data[(size_t)row * n + base]; };
auto keep = [&](wp::array_t<wp::float32>& a, int row, T x) { a.data[(size_t)row * n + base] = x; };
"""

_BLOCK_ACCESS = """
const int left = count - g < GROUP ? count - g : GROUP;
auto load = [&](wp::array_t<wp::float32>& a, int row) -> T {
    T x = T{};
    const float* from = a.data + (size_t)row * n + base + g;
    if (left == GROUP) __builtin_memcpy(&x, from, 4 * GROUP);
    else __builtin_memcpy(&x, from, 4 * left);
    return x;
};
auto keep = [&](wp::array_t<wp::float32>& a, int row, T x) {
    float* to = a.data + (size_t)row * n + base + g;
    if (left == GROUP) __builtin_memcpy(to, &x, 4 * GROUP);
    else __builtin_memcpy(to, &x, 4 * left);
};
"""


def state_rows(structure: tuple, input_idx: tuple[int, ...], histories: tuple[str, ...]) -> dict[str, int]:
    """Names of the state arrays, and how many rows of N each has."""
    kind, recurrent, _ = structure
    if kind == "mlp":
        return dict.fromkeys(histories, max(input_idx)) if max(input_idx) else {}
    gates = 4 if kind == "lstm" else 3
    rows = sum(r // gates for r, _ in recurrent)
    return {"hidden": rows, "cell": rows} if kind == "lstm" else {"hidden": rows}


@dataclass(frozen=True)
class NetworkCode:
    """What is compiled of a network and its inputs. Called, it gives the function for kernels in blocks or not."""

    structure: tuple
    input_idx: tuple[int, ...]
    histories: tuple[str, ...]
    """What the past of each input signal is called."""
    is_centred: bool = False
    """Whether the weights begin with a number for each signal that is taken off it."""

    def __call__(self, in_blocks: bool) -> Any:
        return functions(self)["block" if in_blocks else "scalar"]


@functools.cache
def functions(code: NetworkCode) -> dict[str, Any]:
    """Build the Warp functions of a network: ``scalar`` with its adjoint, and ``block``.

    An adjoint replays ``scalar`` for its value; then ``value`` stands in, which writes no state.
    """
    writer = _Writer(code)
    signals = [f"signal{i}" for i in range(len(code.histories))]
    states = [f"{name}_{side}" for name in writer.states for side in ("in", "out")]
    name = "network_" + hashlib.sha256(repr(code).encode()).hexdigest()[:12]

    def signature(kind: str) -> str:
        given = [*(f"{signal}: {kind}" for signal in signals), *(f"{state}: Floats" for state in states)]
        return f"weights: Floats, {', '.join(given)}, n: int, base: int, count: int"

    arguments = ", ".join(["weights", *signals, *states, "n", "base", "count"])
    source = f"""
@wp.func_native(block_text)
def {name}_block({signature("FloatBlock")}) -> FloatBlock: ...


@wp.func_native(value_text)
def {name}_value({signature("float")}) -> float: ...


@wp.func_native(scalar_text, adjoint_text)
def {name}_scalar({signature("float")}) -> float: ...


@wp.func_replay({name}_scalar)
def {name}_replay({signature("float")}):
    return {name}_value({arguments})
"""
    filename = f"<actuon {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"wp": wp, "Floats": Floats, "FloatBlock": FloatBlock, "__name__": __name__}
    namespace |= {"block_text": writer.block(), "value_text": writer.scalar(saves=False)}
    namespace |= {"scalar_text": writer.scalar(), "adjoint_text": writer.adjoint()}
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)
    return {flavour: namespace[f"{name}_{flavour}"] for flavour in ("block", "scalar")}
