# SPDX-License-Identifier: Apache-2.0
"""A network is recognised by the graph of its file: equal far from zero as well, or not recognised."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import actuon
from actuon.networks.axes import BATCH, FEATURES
from actuon.networks.files import load_network
from actuon.networks.formats import torch as torch_files
from actuon.networks.network import NotRecognised
from actuon.networks.recognise import Op, Recogniser, Ref
from tests.support.chains import rollout
from tests.support.torch_networks import GRU, LSTM, Feeder, assert_close, fed, gradients, mlp, signals

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
nn, F = torch.nn, torch.nn.functional
N = 40

FAR = np.concatenate([s * np.random.default_rng(0).standard_normal((40, 6)) for s in (1e-3, 0.1, 1.0, 10.0, 1e3, 1e6)])
"""Inputs from tiny to far beyond what any network sees."""


def write_onnx(path, nodes, constants=(), inputs=6, shape=None):
    """An ONNX network: ``x`` through a linear layer to ``z``, through ``nodes`` to ``y``, to the effort."""
    rng = np.random.default_rng(1)
    weights = {
        "W": rng.standard_normal((4, inputs)), "b": rng.standard_normal(4),
        "V": rng.standard_normal((1, 4)), "c": rng.standard_normal(1),
    }  # fmt: skip
    arrays = {name: value.astype(np.float32) for name, value in weights.items()}
    arrays |= {name: np.asarray(v, np.float32 if np.asarray(v).dtype.kind == "f" else None) for name, v in constants}
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "W", "b"], ["z"], transB=1),
            *(helper.make_node(kind, i, o, **a) for kind, i, o, a in nodes),
            helper.make_node("Gemm", ["y", "V", "c"], ["effort"], transB=1),
        ],
        "g",
        [helper.make_tensor_value_info("x", 1, shape or ["N", inputs])],
        [helper.make_tensor_value_info("effort", 1, ["N", 1])],
        [numpy_helper.from_array(value, name) for name, value in arrays.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), str(path))


def steps(text, **constants):
    """ONNX nodes from ``"Kind a b -> c, …"``, with the constants that they name."""
    nodes = []
    for part in text.split(","):
        before, after = part.split("->")
        kind, *inputs = before.split()
        nodes.append((kind, inputs, after.split(), {}))
    return nodes, list(constants.items())


ROOT = math.sqrt(2.0)
KNOWN = {
    "clip far out": steps("Clip z lo hi -> y", lo=-400.0, hi=400.0),
    "clip low": steps("Clip z lo -> y", lo=-350.0),
    "min": steps("Min z hi -> y", hi=5000.0),
    "max": steps("Max lo z -> y", lo=-5000.0),
    "min of three": steps("Min z hi top -> y", hi=5000.0, top=700.0),
    "min and max": steps("Min z hi -> t, Max t lo -> y", hi=1e4, lo=-1e3),
    "relu6": steps("Relu z -> t, Min t six -> y", six=6.0),
    "relu by max": steps("Max z zero -> y", zero=0.0),
    "leaky by max": steps("Mul z a -> t, Max z t -> y", a=0.2),
    "steep by max": steps("Mul z a -> t, Max t z -> y", a=3.0),
    "leaky by min": steps("Mul z a -> t, Min z t -> y", a=0.2),
    "relu by where": steps("Greater z zero -> g, Where g z zero -> y", zero=0.0),
    "leaky by where": steps("Mul z a -> t, Less z zero -> g, Where g t z -> y", a=0.1, zero=0.0),
    "elu by where": steps(
        "Greater z zero -> g, Exp z -> e, Sub e one -> m, Mul m a -> t, Where g z t -> y", zero=0.0, one=1.0, a=1.5
    ),
    "guarded softplus": steps("Greater z far -> g, Softplus z -> s, Where g z s -> y", far=20.0),
    "scaled softplus": steps("Mul z b -> t, Softplus t -> s, Div s b -> y", b=1.7),
    "softsign": steps("Abs z -> a, Add a one -> d, Div z d -> y", one=1.0),
    "softsign of a scaled": steps("Mul z two -> s, Abs s -> a, Add one a -> d, Div s d -> y", one=1.0, two=2.5),
    "silu": steps("Sigmoid z -> s, Mul s z -> y"),
    "swish": steps("Mul z b -> t, Sigmoid t -> s, Mul z s -> y", b=1.702),
    "silu by exp": steps("Neg z -> n, Exp n -> e, Add e one -> d, Div z d -> y", one=1.0),
    "sigmoid by exp": steps("Neg z -> n, Exp n -> e, Add e one -> d, Reciprocal d -> y", one=1.0),
    "gelu": steps(
        "Div z r -> t, Erf t -> e, Add e one -> p, Mul z p -> m, Mul m half -> y", r=ROOT, one=1.0, half=0.5
    ),
    "a wider gelu": steps("Div z r -> t, Erf t -> e, Add e one -> p, Mul z p -> y", r=1.5, one=1.0),
    "gelu by tanh": steps(
        "Mul z z -> q, Mul z q -> w, Mul k w -> v, Add z v -> u, Mul s u -> t, Tanh t -> h, Add one h -> p,"
        "Mul z p -> m, Mul half m -> y", k=0.044715, s=math.sqrt(2.0 / math.pi), one=1.0, half=0.5
    ),
    "gelu by tanh, factored": steps(
        "Pow z two -> q, Mul k q -> w, Add w one -> v, Mul z v -> u, Mul s u -> t, Tanh t -> h, Add one h -> p,"
        "Mul p z -> m, Mul half m -> y", two=2.0, k=0.044715, s=math.sqrt(2.0 / math.pi), one=1.0, half=0.5
    ),
    "two in a row": steps("Tanh z -> t, Mul t k -> u, Clip u lo hi -> y", k=25.0, lo=-20.0, hi=22.0),
    "a scale per feature": steps("Mul z k -> t, Sub t m -> u, Tanh u -> y", k=[1.0, 2.0, 3.0, 4.0], m=[[4.0, 3, 2, 1]]),
    "doubled": steps("Add z z -> t, Sub t z -> u, Tanh u -> y"),
    "a folded constant": steps("Sqrt v -> s, Div z s -> t, Tanh t -> y", v=[4.0, 9.0, 16.0, 0.25]),
}  # fmt: skip


@pytest.mark.parametrize("how", KNOWN)
def test_functions_of_a_graph_are_put_together(how, tmp_path):
    path = tmp_path / "net.onnx"
    write_onnx(path, *KNOWN[how])
    got = torch_files.reference(load_network(path).network, FAR)
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(str(path)).run(None, {"x": FAR.astype(np.float32)})[0].ravel()
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-4)


UNKNOWN = {
    "a clip by where": ("Where", steps("Greater z hi -> g, Where g hi z -> y", hi=300.0)),
    "a jump": ("Where", steps("Greater z one -> g, Mul z a -> t, Where g z t -> y", one=1.0, a=0.1)),
    "a leaky clip": ("Min", steps("Mul z a -> t, Add t k -> u, Min z u -> y", a=0.1, k=270.0)),
    "a clip per feature": ("Max", steps("Max z lo -> y", lo=[-1.0, -2.0, -3.0, -4.0])),
    "a clip upside down": ("Clip", steps("Clip z lo hi -> y", lo=3.0, hi=-3.0)),
    "a clip at NaN": ("Min", steps("Min z hi -> y", hi=math.nan)),
    "almost a softsign": ("Div", steps("Abs z -> a, Add a k -> d, Div z d -> y", k=1.001)),
    "almost a gelu": ("Mul", steps("Div z r -> t, Erf t -> e, Add e k -> p, Mul z p -> y", r=ROOT, k=1.001)),
    "a gelu of another value": (
        "Mul", steps("Div z r -> t, Erf t -> e, Add e one -> p, Add z k -> w, Mul w p -> y", r=ROOT, one=1.0, k=1e-3)
    ),
    "almost a gelu by tanh": (
        "Add", steps("Mul z z -> q, Mul z q -> w, Mul k w -> v, Add z v -> u, Tanh u -> y", k=0.05)
    ),
    "mish": ("Mul", steps("Softplus z -> s, Tanh s -> t, Mul z t -> y")),
    "a square": ("square", steps("Mul z z -> y")),
    "exp": ("exp", steps("Exp z -> y")),
    "softplus with a threshold": ("Where", steps("Greater z t -> g, Softplus z -> s, Where g z s -> y", t=2.0)),
    "rounded": ("Round", steps("Round z -> y")),
    "hard sigmoid": ("HardSigmoid", steps("HardSigmoid z -> y")),
    "scaled by whole numbers": ("Mul", steps("Div p q -> h, Mul z h -> y", p=np.array(7), q=np.array(2))),
    "a constant per row": ("Mul", steps("Mul z k -> y", k=[[1.0], [2.0], [3.0], [4.0]])),
    "a comparison": ("comparison", steps("Greater z zero -> y", zero=0.0)),
    "another layer": ("skip connections", steps("MatMul z A -> a, Add a z -> y", A=np.eye(4))),
    "features the other way round": ("Gather", ([("Gather", ["z", "o"], ["y"], {"axis": 1})], [("o", [3, 2, 1, 0])])),
    "features of two DOFs": ("Reshape", steps("Reshape z s -> t, Tanh t -> y", s=np.array([-1, 2]))),
    "a transpose": ("features, batch", ([("Transpose", ["z"], ["y"], {"perm": [1, 0]})], [])),
    "a reshape and a transpose": ("Reshape", ([
        ("Reshape", ["z", "s"], ["r"], {}), ("Transpose", ["r"], ["t"], {"perm": [0, 2, 1]}),
        ("Reshape", ["t", "f"], ["y"], {}),
    ], [("s", np.array([-1, 2, 2])), ("f", np.array([-1, 4]))])),
    "somebody's own Relu": ("com.example::Relu", ([("Relu", ["z"], ["y"], {"domain": "com.example"})], [])),
    "dropout in training": ("Dropout", steps("Dropout z r t -> y", r=0.1, t=np.array(True))),
}  # fmt: skip


@pytest.mark.parametrize("how", UNKNOWN)
def test_what_is_not_known_is_refused_by_name(how, tmp_path):
    name, (nodes, constants) = UNKNOWN[how]
    path = tmp_path / "net.onnx"
    write_onnx(path, nodes, constants)
    with pytest.raises(actuon.ParameterError, match=rf"net\.onnx' cannot be run: .*{name}"):
        load_network(path)


def test_an_output_beyond_a_clip_is_clipped(tmp_path):
    """Fused, and back from every format."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 1), nn.Hardtanh(-400.0, 390.0))
    with torch.no_grad():
        module[0].weight[:] = torch.tensor([[900.0, 1.0]])
    paths = [tmp_path / f"net{suffix}" for suffix in (".onnx", ".safetensors", ".pt", ".pt2")]
    values = signals(N, 3)
    expected = fed(Feeder(module, N, "mlp", input_idx=(0,)), values) - [v["joint_act"] for v in values]
    assert expected.max() == 390.0
    assert expected.min() == -400.0
    for path in paths:
        actuon.save_network(module, path)
        actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path))
        assert actuator.is_fused()
        got = rollout(actuator, values) - [v["joint_act"] for v in values]
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("bounds", [(-2.0, 3.0), (-2.0, None), (None, 3.0)])
def test_a_clip_has_a_gradient(bounds, tmp_path):
    class Clipped(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(2, 3), nn.Linear(3, 1)

        def forward(self, x):
            return self.last(torch.clamp(self.first(x), *bounds))

    module = Clipped().eval()
    path = tmp_path / "net.onnx"
    actuon.save_network(module, path, input_idx=[0])
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path), requires_grad=True)
    (values,) = signals(N, 1)
    (sim,) = gradients(actuator, [values], [np.ones(N, np.float32)])
    x = torch.tensor(np.stack([values["joint_target_q"] - values["joint_q"], values["joint_qd"]], axis=1))
    x.requires_grad = True
    module(x).sum().backward()
    np.testing.assert_allclose(sim["joint_qd"].grad.numpy(), x.grad[:, 1].numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(sim["joint_target_q"].grad.numpy(), x.grad[:, 0].numpy(), rtol=1e-4, atol=1e-6)


class Around(nn.Module):
    """Two linear layers and something around them, below an offset that hides it from a comparison of numbers."""

    def __init__(self, how: str, offset: float = 0.0):
        super().__init__()
        torch.manual_seed(4)
        self.how, self.offset = how, offset
        self.a, self.b = nn.Linear(6, 4), nn.Linear(4, 1)
        self.register_buffer("column", torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0]]))
        self.register_buffer("variance", torch.linspace(0.5, 4.0, 6))

    def forward(self, x):
        return self.around(x) + self.offset

    def around(self, x):
        how = self.how
        if how == "clipped beyond all samples":
            return torch.clamp(self.b(torch.relu(self.a(x))), -1e5, 1e5)
        if how == "clipped by hand":
            y = self.b(torch.relu(self.a(x)))
            return torch.where(y > 1e5, torch.full_like(y, 1e5), y)
        if how == "swapped":
            return self.b(torch.tanh(self.a(x.reshape(-1, 2, 3).transpose(1, 2).reshape(-1, 6))))
        if how == "flipped":
            return self.b(torch.tanh(self.a(torch.flip(x, [1]))))
        if how == "rounded":
            return self.b(torch.tanh(self.a(x.to(torch.int32).to(torch.float32))))
        if how == "divided and rounded":
            return self.b(torch.tanh(torch.div(self.a(x), 3.0, rounding_mode="floor")))
        if how == "one row at a time":
            return self.b(torch.tanh(self.a(x[:5] * self.column)))
        if how == "one unit twice":
            y = self.a(x)
            return self.b(torch.tanh(y[:, [0, 0, 1, 2]]))
        if how == "hardtanh":
            return self.b(F.hardtanh(self.a(x)))
        if how == "relu6":
            return self.b(F.relu6(self.a(x)))
        if how == "leaky":
            return self.b(F.leaky_relu(self.a(x), 0.3))
        if how == "normalised":
            return self.b(torch.tanh(self.a(x / torch.sqrt(self.variance + 1e-8))))
        if how == "addmm":
            return torch.addmm(self.b.bias, torch.tanh(self.a(x)), self.b.weight.t(), beta=0.5, alpha=3.0)
        if how == "clipped input":
            return self.b(torch.tanh(self.a(torch.clamp(x, -2.0, 2.0))))
        if how == "arranged":
            y = self.a(x.view(x.size(0), -1).unsqueeze(1).transpose(0, 1))
            return self.b(F.elu(y.squeeze(0), 0.5)).flatten().unsqueeze(-1)
        if how == "scaled after an activation":
            return torch.clamp(3.0 * torch.tanh(self.b(self.a(x))) - 0.5, max=2.0)
        return x


def read(module, how):
    """The network of a module, in each of the three ways in which PyTorch writes a graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if how == "export":
            batch = torch.export.Dim("batch")
            return torch_files.read_export(
                torch.export.export(module, (torch.zeros(5, 6),), dynamic_shapes=({0: batch},))
            )
        traced = how == "trace"
        return torch_files.read_script(
            torch.jit.trace(module, torch.zeros(5, 6)) if traced else torch.jit.script(module)
        )


WAYS = ("script", "trace", "export")
EXACT = [
    "clipped beyond all samples", "hardtanh", "relu6", "leaky", "normalised", "addmm", "clipped input", "arranged",
    "scaled after an activation",
]  # fmt: skip
HIDDEN = [
    "clipped by hand", "swapped", "flipped", "rounded", "divided and rounded", "one row at a time", "one unit twice",
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", EXACT)
def test_graphs_of_torch_are_read(how, way):
    module = Around(how).eval()
    network = read(module, way)
    expected = module.double()(torch.tensor(FAR)).detach().numpy().ravel()
    got = torch_files.reference(network, FAR)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", HIDDEN)
def test_a_comparison_of_numbers_decides_nothing(how, way):
    module = Around(how, offset=1e7).eval()
    if how == "one row at a time" and way == "export":
        pytest.skip("cannot be exported for any number of rows")
    with pytest.raises(NotRecognised):
        read(module, way)


class Returns(LSTM):
    """An LSTM that does something to its state."""

    def __init__(self, how: str):
        super().__init__()
        self.how = how
        self.register_buffer("start", torch.full((1, 1, 8), 0.3))

    def forward(self, x, state: tuple[torch.Tensor, torch.Tensor]):
        h, c = state
        if self.how == "its own start":
            h = self.start
            c = self.start
        if self.how == "swapped before":
            h, c = c, h
        if self.how == "forgetful before":
            h = h * 0.9
        if self.how == "the batch for time":
            out, after = self.rnn(x.transpose(0, 1), (h, c))
            return self.head(out.transpose(0, 1)[:, 0]), after
        out, after = self.rnn(x, (h, c))
        if self.how == "swapped after":
            return self.head(out[:, 0]), (after[1], after[0])
        if self.how == "the old state":
            return self.head(out[:, 0]), state
        if self.how == "always zero":
            return self.head(out[:, 0]), (torch.zeros_like(h), torch.zeros_like(c))
        if self.how == "forgetful after":
            return self.head(out[:, 0]), (after[0] * 0.9, after[1])
        return self.head(out[:, 0]), after


CHANGED = [
    "its own start", "swapped before", "swapped after", "the old state", "always zero", "forgetful before",
    "forgetful after", "the batch for time",
]  # fmt: skip


def read_recurrent(how, way):
    module = Returns(how).eval()
    state = (torch.zeros(1, 1, 8), torch.zeros(1, 1, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if way == "script":
            return torch_files.read_script(torch.jit.script(module))
        return torch_files.read_export(torch.export.export(module, (torch.zeros(1, 1, 2), state)))


@pytest.mark.parametrize("way", ["script", "export"])
@pytest.mark.parametrize("how", CHANGED)
def test_recurrent_states_are_followed(how, way):
    with pytest.raises(NotRecognised, match="state|sequence"):
        read_recurrent(how, way)


@pytest.mark.parametrize("way", ["script", "export"])
def test_recurrent_states_as_they_are(way):
    assert read_recurrent("as they are", way).kind == "lstm"


def exported_onnx(module, example, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = ["x", "h", "c"][: 1 + (len(example[1]) if len(example) == 2 and isinstance(example[1], tuple) else 0)]
        torch.onnx.export(
            module, example, str(path), dynamo=False, opset_version=17, input_names=names, dynamic_axes={"x": {0: "N"}}
        )


@pytest.mark.parametrize(
    "activation",
    [nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Softplus(1.7), nn.Softsign(), nn.Hardtanh(-3, 2), nn.ReLU6(), nn.SELU(),
     nn.ELU(1.3), nn.LeakyReLU(0.2), nn.Tanh(), nn.Sigmoid()],
    ids=str,
)  # fmt: skip
def test_files_of_torch_onnx_are_recognised(activation, tmp_path):
    class Viewed(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.a, self.act, self.b = nn.Linear(6, 5), activation, nn.Linear(5, 1)

        def forward(self, x):
            return self.b(self.act(self.a(x.view(x.size(0), -1)))).squeeze(-1)

    module = Viewed().eval()
    path = tmp_path / "net.onnx"
    exported_onnx(module, (torch.zeros(4, 6),), path)
    got = torch_files.reference(load_network(path).network, FAR)
    expected = module.double()(torch.tensor(FAR)).detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_files_of_torch_onnx_are_recognised(kind, tmp_path):
    module = (LSTM if kind == "lstm" else GRU)(layers=2, hidden=5, head=3).eval()
    path = tmp_path / "net.onnx"
    state = torch.zeros(2, 4, 5)
    exported_onnx(module, (torch.zeros(4, 1, 2), (state, state) if kind == "lstm" else state), path)
    cls = actuon.ControllerNeuralLSTM if kind == "lstm" else actuon.ControllerNeuralGRU
    values = signals(N, 4)
    got = rollout(actuon.Actuator(range(N), cls(path)), values)
    assert_close(got, fed(Feeder(module, N, kind, input_idx=(0,), rnn=(2, 5)), values))


UNARY = {
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "expm1": np.expm1, "tanh": np.tanh, "reciprocal": np.reciprocal,
    "relu": lambda x: np.maximum(x, 0.0), "softsign": lambda x: x / (1.0 + np.abs(x)),
    "sigmoid": lambda x: 0.5 + 0.5 * np.tanh(0.5 * x), "erf": np.vectorize(math.erf, otypes=[float]),
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "gt": np.greater, "lt": np.less,
}  # fmt: skip
CONSTANTS = (0.0, 1.0, -1.0, 2.0, 0.1, 400.0, math.sqrt(2.0), 0.044715, np.array([1.0, -2.0, 0.5]))


def random_graph(rng):
    """A few element-wise operations between two linear layers: what is made of them, and what they compute."""
    w, b, v, c = (rng.standard_normal(shape) for shape in ((3, 2), 3, (1, 3), 1))
    x = np.concatenate([s * rng.standard_normal((20, 2)) for s in (0.01, 1.0, 30.0, 1e4)])
    recogniser = Recogniser("x", (BATCH, FEATURES))
    recogniser.run(Op("linear", [Ref("x"), w, b], ["z"]))
    names, values = ["z"], {"z": x @ w.T + b}

    def operand():
        if rng.random() < 0.5:
            constant = CONSTANTS[rng.integers(len(CONSTANTS))]
            return constant, constant
        name = names[rng.integers(len(names))]
        return Ref(name), values[name]

    for i in range(rng.integers(1, 8)):
        latest, other = (Ref(names[-1]), values[names[-1]]), operand()
        name = rng.choice([*UNARY, *BINARY, *BINARY])
        operands = [latest] if name in UNARY else [latest, other] if rng.random() < 0.7 else [other, latest]
        result = (UNARY | BINARY)[name](*(value for _, value in operands))
        recogniser.run(Op(name, [ref for ref, _ in operands], [f"v{i}"]))
        if name in ("gt", "lt"):
            first, second = operand(), latest
            recogniser.run(Op("where", [Ref(f"v{i}"), first[0], second[0]], [f"w{i}"]))
            result = np.where(result, first[1], second[1])
        names.append(f"{'w' if name in ('gt', 'lt') else 'v'}{i}")
        values[names[-1]] = result
    recogniser.run(Op("linear", [Ref(names[-1]), v, c], ["effort"]))
    return recogniser.finish(Ref("effort"), []), x, (values[names[-1]] @ v.T + c)[:, 0], np.abs(result) @ np.abs(v[0])


def test_random_graphs_are_read_right_or_not_at_all():
    read = 0
    for seed in range(1000):
        with np.errstate(all="ignore"):
            try:
                network, x, expected, size = random_graph(np.random.default_rng(seed))
            except NotRecognised:
                continue
            got = torch_files.reference(network, x)
        known = np.isfinite(expected)
        assert (np.abs(got - expected) <= 1e-5 * (1.0 + size))[known].all(), f"seed {seed}"
        read += 1
    assert read > 100


def test_what_python_decides_by_the_input_is_not_traced(tmp_path):
    class Decides(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = mlp()

        def forward(self, x, **unscriptable):
            y = self.layer(x)
            return y.clamp(-400, 400) if bool((y.abs() > 300).any()) else y

    with pytest.raises(actuon.ParameterError, match="cannot be scripted .* nor traced"):
        actuon.save_network(Decides(), tmp_path / "net.pt", input_idx=[0, 1, 2])
    assert not (tmp_path / "net.pt").exists()
