# SPDX-License-Identifier: Apache-2.0
"""Networks that look unusual: recognised all the same, run through PyTorch, or refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import actuon
from actuon.networks.formats import torch as torch_files
from actuon.networks.network import NotRecognised
from tests.support.chains import rollout
from tests.support.torch_networks import (
    LSTM,
    Feeder,
    assert_close,
    fed,
    signals,
)

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
nn = torch.nn
FORMATS = (".pt", ".pt2", ".onnx", ".safetensors")
N = 70


class Residual(nn.Module):
    """A skip connection: nothing that is known."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.first, self.second, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)) + self.second(x))


def test_what_is_not_recognised_runs_through_torch(tmp_path):
    module = Residual().eval()
    path = tmp_path / "net.pt"
    actuon.save_network(module, path, input_idx=[0, 1, 2], model_type="mlp")
    with pytest.warns(UserWarning, match="not recognised .*skip connections.*PyTorch runs it") as caught:
        controller = actuon.ControllerNeuralMLP(path, effort_scale=2.0)
    assert len(caught) == 1
    actuator = actuon.Actuator(range(N), controller, clamping=[actuon.ClampingMaxEffort(1e6)])
    assert not actuator.is_fused()
    assert not actuator.is_graphable()
    steps = signals(N, 12)
    masks = {6: np.arange(N) % 2 == 0}
    expected = fed(Feeder(module, N, "mlp", scales=(1.0, 1.0, 2.0)), steps, masks)
    assert_close(rollout(actuator, steps, masks=masks), expected)
    for suffix in (".onnx", ".safetensors"):
        with pytest.raises(actuon.ParameterError, match="skip connections"):
            actuon.save_network(module, tmp_path / f"net{suffix}", input_idx=[0, 1, 2])


class Gated(LSTM):
    """An LSTM whose output is multiplied by its input: not known either."""

    def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):
        out, after = self.rnn(x, state)
        return self.head(out[:, 0]) * x[:, 0, :1], after


def test_an_unknown_recurrent_network_runs_through_torch(tmp_path):
    module = Gated(layers=2, hidden=6).eval()
    path = tmp_path / "net.pt"
    actuon.save_network(module, path, model_type="lstm")
    with pytest.warns(UserWarning, match="not recognised"):
        actuator = actuon.Actuator(range(N), actuon.ControllerNeuralLSTM(path))
    steps = signals(N, 12)
    assert_close(rollout(actuator, steps), fed(Feeder(module, N, "lstm", input_idx=(0,), rnn=(2, 6)), steps))


class Lambda(nn.Module):
    """Two linear layers and a function around them, by name, so that they can be scripted."""

    def __init__(self, how: str, width: int = 8):
        super().__init__()
        torch.manual_seed(4)
        self.how = how
        self.a, self.b = nn.Linear(6, width), nn.Linear(width, 1)

    def forward(self, x):
        if self.how == "clip far out":
            return self.b(nn.functional.elu(self.a(torch.clamp(x, -10.0, 10.0))))
        if self.how == "clip the output":
            return torch.clamp(self.b(torch.tanh(self.a(x))), -0.3, 0.3)
        if self.how == "in place":
            y = self.b(torch.relu(self.a(x)))
            y.clamp_(-0.2, 0.2)
            return y
        if self.how == "through a view":
            z = x.clone()
            z[:, 1] *= 0.05
            return self.b(torch.relu(self.a(z)))
        if self.how == "swapped, and small":
            return 1e-4 * self.b(torch.tanh(self.a(x.reshape(-1, 2, 3).transpose(1, 2).reshape(-1, 6))))
        if self.how == "softplus with a threshold":
            return self.b(nn.functional.softplus(self.a(x), 1.0, 1.0))
        if self.how == "sliced":
            return self.b(torch.tanh(self.a(torch.cat([x[:, 3:], x[:, :3]], dim=1))))
        if self.how == "joined":
            y = torch.tanh(self.a(x))
            return self.b(torch.cat([y, y], dim=1)[:, 4:12])
        return x[:, :1]


UNKNOWN = [
    "clip far out", "clip the output", "in place", "through a view", "swapped, and small", "softplus with a threshold",
    "sliced", "joined",
]  # fmt: skip


@pytest.mark.parametrize("how", UNKNOWN)
@pytest.mark.parametrize("traced", [False, True])
def test_what_looks_like_a_known_network_and_is_not(how, traced, tmp_path):
    """Right numbers in any case, through PyTorch where it must be."""
    module = Lambda(how).eval()
    path = tmp_path / "net.pt"
    script = torch.jit.trace(module, torch.randn(3, 6)) if traced else torch.jit.script(module)
    torch.jit.save(script, str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path, input_idx=[0, 1, 2]))
    steps = [{k: v * 4 for k, v in s.items()} | {"joint_act": np.zeros(N, np.float32)} for s in signals(N, 8)]
    assert_close(rollout(actuator, steps), fed(Feeder(module, N, "mlp"), steps))


class Plain(nn.Module):
    """Weights that are not in a layer, and a scale before an activation."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.w = nn.Parameter(torch.randn(6, 9) * 0.4)
        self.c = nn.Parameter(torch.randn(9))
        self.last = nn.Linear(9, 1)

    def forward(self, x):
        return self.last(torch.tanh(2.0 * (x @ self.w + self.c)))


class LastHidden(LSTM):
    """Takes the hidden state for the output."""

    def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):
        _, after = self.rnn(x, state)
        return self.head(after[0][-1]), after


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_by_hand_are_recognised(dtype, tmp_path):
    module = Plain().eval()
    path = tmp_path / "net.pt"
    torch.jit.save(torch.jit.script(Plain().eval().to(dtype)), str(path))
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path))
    assert actuator.is_fused()
    steps = signals(N, 10)
    assert_close(rollout(actuator, steps), fed(Feeder(module, N, "mlp"), steps))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("suffix", FORMATS)
def test_the_last_hidden_state_is_recognised(layers, suffix, tmp_path):
    module = LastHidden(layers=layers).eval()
    path = tmp_path / f"net{suffix}"
    actuon.save_network(module, path)
    steps = signals(N, 10)
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralLSTM(path))
    assert actuator.is_fused()
    assert_close(rollout(actuator, steps), fed(Feeder(module, N, "lstm", input_idx=(0,), rnn=(layers, 8)), steps))


class Apart(LSTM):
    """Takes hidden and cell state as two arguments; ``swapped`` feeds the two inputs the wrong way round."""

    def __init__(self, swapped: bool):
        super().__init__()
        self.swapped = swapped

    def forward(self, x, hidden, cell):
        out, after = self.rnn(torch.flip(x, [2]) if self.swapped else x, (hidden, cell))
        return self.head(out[:, -1]), after[0], after[1]


def test_a_state_in_two_arguments_is_checked_as_well(tmp_path, monkeypatch):
    path = tmp_path / "net.pt"
    torch.jit.save(torch.jit.script(Apart(False).eval()), str(path))
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralLSTM(path))
    module = Apart(False).eval()
    steps = signals(N, 10)
    together = Feeder(lambda x, s: (lambda r: (r[0], r[1:]))(module(x, *s)), N, "lstm", input_idx=(0,), rnn=(1, 8))
    assert_close(rollout(actuator, steps), fed(together, steps))
    # where the reader takes a flip for an arrangement of numbers, the comparison with the module notices
    monkeypatch.setitem(torch_files.RENAMED, "flip", "same")
    network = torch_files.read_script(torch.jit.script(Apart(True).eval()))
    with pytest.raises(NotRecognised, match="the module computes something else"):
        torch_files.verify(Apart(True).eval(), network)


def onnx_model(path, nodes, weights):
    import onnx
    from onnx import helper, numpy_helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(kind, i, o, **a) for kind, i, o, a in nodes],
        "g",
        [value("x", 1, ["N", 6])],
        [value("y", 1, ["N", 1])],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), str(path))


def onnx_parts():
    rng = np.random.default_rng(6)
    weights = {"W": rng.standard_normal((6, 6)), "b": rng.standard_normal(6), "V": rng.standard_normal((6, 1))}
    weights = {k: v.astype(np.float32) for k, v in weights.items()} | {"order": np.array([3, 4, 5, 0, 1, 2])}
    tail = [("Add", ["h", "b"], ["z"], {}), ("Tanh", ["z"], ["t"], {}), ("MatMul", ["t", "V"], ["y"], {})]
    return weights, tail


def test_onnx_matmul_and_add(tmp_path):
    from onnx.reference import ReferenceEvaluator

    weights, tail = onnx_parts()
    path = tmp_path / "net.onnx"
    onnx_model(path, [("Identity", ["W"], ["Wi"], {}), ("MatMul", ["x", "Wi"], ["h"], {}), *tail], weights)
    evaluator = ReferenceEvaluator(str(path))
    steps = signals(N, 5)
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path))
    expected = fed(Feeder(lambda x: torch.from_numpy(evaluator.run(None, {"x": x.numpy()})[0]), N, "mlp"), steps)
    assert_close(rollout(actuator, steps), expected)


@pytest.mark.parametrize(
    "front",
    [
        [("Gather", ["x", "order"], ["s"], {"axis": 1})],
        [("Cast", ["x"], ["i"], {"to": 6}), ("Cast", ["i"], ["s"], {"to": 1})],
        [("Add", [f"a{i}" if i else "x", f"a{i}" if i else "x"], [f"a{i + 1}"], {}) for i in range(60)]
        + [("Gather", ["a60", "order"], ["s"], {"axis": 1})],
    ],
    ids=["reordered", "rounded", "doubled sixty times"],
)
def test_onnx_graphs_that_do_more_are_refused(front, tmp_path):
    weights, tail = onnx_parts()
    path = tmp_path / "net.onnx"
    onnx_model(path, [*front, ("MatMul", ["s", "W"], ["h"], {}), *tail], weights)
    with pytest.raises(actuon.ParameterError, match=r"net\.onnx"):
        actuon.ControllerNeuralMLP(path)


def test_an_unrecognised_network_has_no_gradient(tmp_path):
    path = tmp_path / "net.pt"
    actuon.save_network(Residual().eval(), path, input_idx=[0, 1, 2], model_type="mlp")
    with pytest.warns(UserWarning, match="not recognised"):
        controller = actuon.ControllerNeuralMLP(path)
    with pytest.raises(actuon.StructureError, match="cannot differentiate"):
        actuon.Actuator(range(3), controller, requires_grad=True)


@pytest.mark.filterwarnings("ignore:.*not recognised")
def test_modules_that_cannot_be_called(tmp_path):
    class Two(nn.Module):
        def forward(self, pos, vel):
            return pos + vel

    path = tmp_path / "net.pt"
    torch.jit.save(torch.jit.script(Two()), str(path))
    with pytest.raises(actuon.ActuonError, match=r"net\.pt"):
        actuon.ControllerNeuralMLP(path, input_idx=[0])
    with pytest.raises(actuon.ParameterError, match="pass input_idx"):
        actuon.ControllerNeuralMLP(path)
