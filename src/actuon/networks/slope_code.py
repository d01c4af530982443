# SPDX-License-Identifier: Apache-2.0
"""C++ of a network's derivatives by its inputs of this step, one DOF at a time or a group of lanes at a time.

It goes backwards, from the output to the inputs: that takes about as long as the way forwards, for any number of
inputs. The past of an MLP's inputs, and the state of a recurrent network, are constants.
"""

from __future__ import annotations

from collections.abc import Sequence

from .activations import slope_text
from .model import Activation

_SEED = "T d{last}[1]; d{last}[0] = 1.0f - T{{}}; const float* end = w;\n"


def mlp_slopes(dense: Sequence[tuple[int, int, Activation]], now: Sequence[int], steps: int) -> str:
    """``slope0``, ``slope1`` and so on: derivatives of an MLP's output by each signal as it is now.

    Args:
        dense: Outputs, inputs and activation of its layers.
        now: Which of the steps that each signal enters at are this one.
        steps: How many there are.
    """
    signals = dense[0][1] // steps
    wanted = [signal * steps + m for signal in range(signals) for m in now]
    text = _SEED.format(last=len(dense))
    for index, (outputs, width, activation) in reversed(list(enumerate(dense, start=1))):
        text += _dense(index, wanted if index == 1 else range(width), width, outputs, activation)
    for signal in range(signals):
        terms = [f"d0[{wanted.index(signal * steps + m)}]" for m in now]
        text += f"T slope{signal} = {' + '.join(terms) or 'T{}'};\n"
    return text


def recurrent_slopes(
    kind: str, recurrent: Sequence[tuple[int, int]], dense: Sequence[tuple[int, int, Activation]]
) -> str:
    """``slope0``, ``slope1`` and so on: derivatives of a recurrent network's output by its inputs.

    Args:
        kind: ``"lstm"`` or ``"gru"``.
        recurrent: Rows of weights and inputs of its recurrent layers.
        dense: Outputs, inputs and activation of its dense layers.
    """
    text = _SEED.format(last=len(dense))
    for index, (outputs, width, activation) in reversed(list(enumerate(dense, start=1))):
        text += _dense(index, range(width), width, outputs, activation)
    upper = "d0"
    for layer, (rows, width) in reversed(list(enumerate(recurrent))):
        text += _recurrent(kind, layer, width, rows // (4 if kind == "lstm" else 3), upper)
        upper = f"dx{layer}"
    return text + "".join(f"T slope{i} = dx0[{i}];\n" for i in range(recurrent[0][1]))


def _dense(index: int, inputs: Sequence[int], width: int, outputs: int, activation: Activation) -> str:
    """From ``d`` of a dense layer's outputs to ``d`` of its inputs; ``end`` points behind its weights.

    Four inputs at a time: each derivative by an output is loaded once for four sums.

    Args:
        index: Of the layer, from 1.
        inputs: Which of its inputs. All of them are a loop.
        width: How many it has.
        outputs: How many outputs it has, packed by rows of four.
        activation: Of its outputs.
    """
    here, below = f"d{index}", f"d{index - 1}"
    text = f"T {below}[{max(len(inputs), 1)}];\nend -= {outputs * (width + 1)};\n"
    text += f"for (int k = 0; k < {outputs}; ++k) {{ T z = z{index}[k], y = y{index}[k]; (void)z; (void)y; "
    text += f"{here}[k] = {here}[k] * {slope_text(activation)}; }}\n"
    full, rest = divmod(outputs, 4)

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


def _recurrent(kind: str, layer: int, inputs: int, hidden: int, upper: str) -> str:
    """From ``upper``, derivatives by a layer's outputs, to ``dx``, those by its inputs.

    Args:
        kind: ``"lstm"`` or ``"gru"``.
        layer: Its number, from 0.
        inputs: How many it has.
        hidden: How many units it has.
        upper: What the array is called.
    """
    gates = 4 if kind == "lstm" else 3
    size = 4 + gates * (inputs + hidden)
    text = f"T dx{layer}[{inputs}]; for (int i = 0; i < {inputs}; ++i) dx{layer}[i] = T{{}};\n"
    text += f"end -= {hidden * size};\n{{ const float* v = end + 4;\n"
    text += f"for (int k = 0; k < {hidden}; ++k, v += {size}) {{\nconst T dnh = {upper}[k];\n"
    if kind == "lstm":
        text += (
            f"const T i_ = gi{layer}[k], f_ = gf{layer}[k], g_ = gg{layer}[k], o_ = go{layer}[k];\n"
            f"const T tc = t_tanh(nc{layer}[k]), dnc = dnh * o_ * (1.0f - tc * tc);\n"
            f"const T ds0 = dnc * g_ * i_ * (1.0f - i_), ds1 = dnc * c{layer}[k] * f_ * (1.0f - f_);\n"
            "const T ds2 = dnc * i_ * (1.0f - g_ * g_), ds3 = dnh * tc * o_ * (1.0f - o_);\n"
        )
    else:
        text += (
            f"const T r_ = gr{layer}[k], z_ = gz{layer}[k], n_ = gn{layer}[k], q_ = gq{layer}[k];\n"
            "const T ds2 = dnh * (1.0f - z_) * (1.0f - n_ * n_), ds0 = ds2 * q_ * r_ * (1.0f - r_);\n"
            f"const T ds1 = dnh * (h{layer}[k] - n_) * z_ * (1.0f - z_);\n"
        )
    sums = "".join(f"sum = t_fma(v[i * {gates} + {gate}] - T{{}}, ds{gate}, sum); " for gate in range(gates))
    text += f"for (int i = 0; i < {inputs}; ++i) {{ T sum = dx{layer}[i]; {sums}dx{layer}[i] = sum; }}\n"
    return text + "} }\n"
