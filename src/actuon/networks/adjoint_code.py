# SPDX-License-Identifier: Apache-2.0
"""C++ of a network's adjoint, one DOF at a time, backwards from the effort to signals and old state."""

from __future__ import annotations

from collections.abc import Sequence

from .activations import slope_text
from .model import Activation

_GRADIENT_ACCESS = """
auto grad_get = [&](wp::array_t<wp::float32>& a, int row) -> float {
    return a.grad ? a.grad[(size_t)row * n + base] : 0.0f;
};
auto grad_add = [&](wp::array_t<wp::float32>& a, int row, float value) {
    if (a.grad) a.grad[(size_t)row * n + base] += value;
};
"""


def dense_adjoint(dense: Sequence[tuple[int, int, Activation]]) -> str:
    """From the adjoint of the effort to ``d0``, that of what the first dense layer gets."""
    last = len(dense)
    text = _GRADIENT_ACCESS + f"float d{last}[1]; d{last}[0] = adj_ret;\n"
    text += "const float* end = w;\n"
    for index, (outputs, inputs, activation) in reversed(list(enumerate(dense, start=1))):
        text += _dense_layer(index, inputs, outputs, activation)
    return text


def _dense_layer(index: int, inputs: int, outputs: int, activation: Activation) -> str:
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


def history_adjoint(signals: Sequence[tuple[str, str, int]], steps: int, history: int) -> str:
    """From the inputs of an MLP to its signals and their past.

    Args:
        signals: What each is called, what its past is called, and where its inputs start.
        steps: How many inputs each has.
        history: How many past values of each are kept.
    """
    text = ""
    for signal, past, at in signals:
        text += f"for (int m = 0; m < {steps}; ++m) "
        if history:
            text += f"if (row_of[m] >= 0) grad_add({past}_in, row_of[m], d0[{at} + m]); else "
        text += f"adj_{signal} += d0[{at} + m];\n"
        if history:
            text += f"adj_{signal} += grad_get({past}_out, 0);\n"
            text += f"for (int r = 1; r < {history}; ++r) "
            text += f"grad_add({past}_in, r - 1, grad_get({past}_out, r));\n"
    return text


def recurrent_adjoint(
    kind: str, recurrent: Sequence[tuple[int, int]], starts: Sequence[int], signals: Sequence[tuple[str, str, int]]
) -> str:
    """From the outputs of recurrent layers to signals and old state.

    Args:
        kind: ``"lstm"`` or ``"gru"``.
        recurrent: Rows of weights and inputs of each layer.
        starts: First row of each layer's state.
        signals: What each is called, what its past is called, and where its input is.
    """
    lstm = kind == "lstm"
    gates = 4 if lstm else 3
    text = ""
    upper = "d0"
    for layer in reversed(range(len(recurrent))):
        rows, inputs = recurrent[layer]
        hidden, start = rows // gates, starts[layer]
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
    return text + "".join(f"adj_{signal} += dx0[{at}];\n" for signal, _, at in signals)
