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
from .activations import GATE_MATH, SCALAR_MATH, VECTOR_MATH, value_text
from .adjoint_code import dense_adjoint, history_adjoint, recurrent_adjoint
from .model import Activation, Network
from .slope_code import mlp_slopes, recurrent_slopes

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
        keep = f"__builtin_memcpy(found.c + g, &y{len(self.dense)}[0], 4 * GROUP);\n"
        return self._in_groups(self.forward(keep=False) + self.save(), 1, keep)

    def _in_groups(self, evaluate: str, values: int, keep: str) -> str:
        """A block of lanes, group by group: ``values`` numbers of each lane."""
        text = _GROUP + VECTOR_MATH + GATE_MATH + f"wp::vec_t<{LANES * values}, wp::float32> found;\n"
        text += f"for (int g = 0; g < {LANES} && g < count; g += GROUP) {{\n" + _BLOCK_ACCESS
        for signal, _, _ in self._inputs():
            text += f"T now_{signal}; __builtin_memcpy(&now_{signal}, {signal}.c + g, 4 * GROUP);\n"
        return text + self.inputs() + evaluate + keep + "}\nreturn found;\n"

    def scalar_slopes(self) -> str:
        """The output, then its derivative by each signal."""
        text = self._scalar_start() + self._forward_and_back()
        text += f"wp::vec_t<{1 + len(self.histories)}, wp::float32> found;\n"
        return text + "".join(f"found.c[{i}] = {name};\n" for i, name in enumerate(self._found())) + "return found;\n"

    def block_slopes(self) -> str:
        """The output of each lane, then for each signal its derivatives."""
        kept = enumerate(self._found())
        return self._in_groups(
            self._forward_and_back(),
            1 + len(self.histories),
            "".join(f"__builtin_memcpy(found.c + {i * LANES} + g, &{name}, 4 * GROUP);\n" for i, name in kept),
        )

    def _found(self) -> list[str]:
        return [f"y{len(self.dense)}[0]", *(f"slope{i}" for i in range(len(self.histories)))]

    def _forward_and_back(self) -> str:
        text = self.forward(keep=True) + self.save()
        if self.kind == "mlp":
            return text + mlp_slopes(self.dense, [m for m, step in enumerate(self.steps) if step == 0], len(self.steps))
        return text + recurrent_slopes(self.kind, self.recurrent, self.dense)

    def adjoint(self) -> str:
        """Recompute forwards, keeping what the chain rule needs, then go backwards to signals and old state."""
        text = self._scalar_start() + self.forward(keep=True) + dense_adjoint(self.dense)
        if self.kind == "mlp":
            return text + history_adjoint(list(self._inputs()), len(self.steps), self.history)
        starts = [self._first_row(layer) for layer in range(len(self.recurrent))]
        return text + recurrent_adjoint(self.kind, self.recurrent, starts, list(self._inputs()))


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

    def __call__(self, in_blocks: bool, with_slopes: bool = False) -> Any:
        name = "block" if in_blocks else "scalar"
        return functions(self)[f"{name}_slopes" if with_slopes else name]


@functools.cache
def functions(code: NetworkCode) -> dict[str, Any]:
    """Build the Warp functions of a network: ``scalar`` with its adjoint, ``block``, and both with slopes.

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


@wp.func_native(block_slopes_text)
def {name}_block_slopes({signature("FloatBlock")}) -> BlockSlopes: ...


@wp.func_native(scalar_slopes_text)
def {name}_scalar_slopes({signature("float")}) -> ScalarSlopes: ...


@wp.func_replay({name}_scalar)
def {name}_replay({signature("float")}):
    return {name}_value({arguments})
"""
    filename = f"<actuon {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"wp": wp, "Floats": Floats, "FloatBlock": FloatBlock, "__name__": __name__}
    namespace |= {"block_text": writer.block(), "value_text": writer.scalar(saves=False)}
    namespace |= {"scalar_text": writer.scalar(), "adjoint_text": writer.adjoint()}
    namespace |= {"block_slopes_text": writer.block_slopes(), "scalar_slopes_text": writer.scalar_slopes()}
    parts = 1 + len(signals)
    namespace |= {"BlockSlopes": wp.types.vector(LANES * parts, wp.float32)}
    namespace |= {"ScalarSlopes": wp.types.vector(parts, wp.float32)}
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)
    return {kind: namespace[f"{name}_{kind}"] for kind in ("block", "scalar", "block_slopes", "scalar_slopes")}
