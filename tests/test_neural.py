# SPDX-License-Identifier: Apache-2.0
"""Network controllers against PyTorch: real networks, and generated ones of every kind, size, activation and format."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import warp as wp
from chains import SIGNALS, rollout
from torch_networks import (
    ACTIVATIONS,
    GRU,
    LSTM,
    Feeder,
    assert_close,
    fed,
    gradients,
    mlp,
    signals,
    torch_objective,
)

import actuon
from actuon.kernel.staged import StagedRunner
from actuon.networks import safetensors_files, torch_files, torch_graphs
from actuon.networks.model import NotRecognised

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
nn = torch.nn

DATA = Path(__file__).parents[2] / "shared" / "data" / "networks"
real = pytest.mark.skipif(not DATA.exists(), reason="the published networks are not here")
FORMATS = (".pt", ".pt2", ".onnx", ".safetensors")
N = 70


@real
def test_unitree_go1_for_a_thousand_steps(rng):
    path = DATA / "unitree_go1.pt"
    assert actuon.load_metadata(path) == {}
    steps = signals(N, 1000)
    masks = {400: rng.random(N) < 0.5}
    controller = actuon.ControllerNeuralMLP(path, pos_scale=-1.0)
    assert controller.input_idx == (0, 1, 2)
    module = torch.jit.load(str(path), map_location="cpu").eval()
    expected = fed(Feeder(module, N, "mlp", scales=(-1.0, 1.0, 1.0)), steps, masks)
    assert_close(rollout(actuon.Actuator(range(N), controller), steps, masks=masks), expected)


@real
def test_anydrive_for_a_thousand_steps(rng):
    path = DATA / "anydrive_v3_lstm.pt"
    steps = signals(N, 1000)
    masks = {400: rng.random(N) < 0.5}
    module = torch.jit.load(str(path), map_location="cpu").eval()
    expected = fed(Feeder(module, N, "lstm", input_idx=(0,), rnn=(2, 8)), steps, masks)
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralLSTM(path))
    assert actuator.is_fused()
    assert actuator.is_graphable()
    assert_close(rollout(actuator, steps, masks=masks), expected)
    with pytest.raises(actuon.ParameterError, match="type 'lstm'; use ControllerNeuralLSTM"):
        actuon.ControllerNeuralMLP(path)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_in_every_format(activation, suffix, tmp_path):
    module = mlp(activation=activation)
    path = tmp_path / f"net{suffix}"
    actuon.save_network(module, path, input_idx=[0, 1, 2], sample_dt=0.01)
    assert actuon.load_metadata(path)["model_type"] == "mlp"
    steps = signals(N, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path))
    assert actuator.is_fused()
    assert_close(rollout(actuator, steps), fed(Feeder(module, N, "mlp"), steps))


@pytest.mark.parametrize(("layers", "width"), [(0, 4), (1, 4), (2, 30), (3, 64), (4, 128)])
def test_every_size(layers, width, tmp_path):
    module = mlp(inputs=4, layers=layers, width=width, activation="elu")
    path = tmp_path / "net.safetensors"
    actuon.save_network(module, path)
    steps = signals(N, 1000)
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path))
    assert_close(rollout(actuator, steps), fed(Feeder(module, N, "mlp", input_idx=(0, 1)), steps))


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize(("layers", "hidden", "head"), [(1, 4, 0), (2, 9, 0), (3, 16, 6), (1, 64, 0)])
def test_every_recurrent_network(kind, layers, hidden, head, suffix, tmp_path):
    module = (LSTM if kind == "lstm" else GRU)(layers=layers, hidden=hidden, head=head).eval()
    path = tmp_path / f"net{suffix}"
    actuon.save_network(module, path)
    assert actuon.load_metadata(path)["model_type"] == kind
    cls = actuon.ControllerNeuralLSTM if kind == "lstm" else actuon.ControllerNeuralGRU
    steps = signals(N, 1000)
    masks = {420: np.arange(N) % 3 == 0}
    actuator = actuon.Actuator(range(N), cls(path))
    assert actuator.is_fused()
    expected = fed(Feeder(module, N, kind, input_idx=(0,), rnn=(layers, hidden)), steps, masks)
    assert_close(rollout(actuator, steps, masks=masks), expected)


@pytest.mark.parametrize("kind", ["mlp", "lstm", "gru"])
def test_onnx_files_are_right_for_others_too(kind, tmp_path):
    """ONNX's own reference evaluator gives what the module gives."""
    from onnx.reference import ReferenceEvaluator

    module = {"mlp": mlp, "lstm": LSTM, "gru": GRU}[kind]().eval()
    path = tmp_path / "net.onnx"
    actuon.save_network(module, path)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 6 if kind == "mlp" else 2)).astype(np.float32)
    hidden, cell = (rng.standard_normal((1, 4, 8)).astype(np.float32) for _ in range(2))
    feeds = {"mlp": {}, "lstm": {"hidden_0": hidden, "cell_0": cell}, "gru": {"hidden_0": hidden}}[kind]
    (got, *_) = ReferenceEvaluator(str(path)).run(None, {"input": x, **feeds})
    with torch.no_grad():
        tensors = [torch.from_numpy(array) for array in feeds.values()]
        state = [tuple(tensors) if kind == "lstm" else tensors[0]] if tensors else []
        result = module(torch.from_numpy(x if kind == "mlp" else x[:, None]), *state)
    expected = (result if kind == "mlp" else result[0]).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_recurrent_without_biases(tmp_path):
    module = LSTM(bias=False).eval()
    actuon.save_network(module, tmp_path / "net.onnx")
    steps = signals(N, 10)
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralLSTM(tmp_path / "net.onnx"))
    assert_close(rollout(actuator, steps), fed(Feeder(module, N, "lstm", input_idx=(0,), rnn=(1, 8)), steps))


class Scaled(nn.Module):
    """Normalised inputs, and an output squashed and scaled."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.body = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1), nn.Tanh())
        self.register_buffer("mean", torch.tensor([0.1, -0.2, 0.3, 0.0]))
        self.register_buffer("std", torch.tensor([0.5, 2.0, 1.5, 3.0]))

    def forward(self, x):
        return 25.0 * self.body((x - self.mean) / self.std) + 0.5


@pytest.mark.parametrize("suffix", FORMATS)
def test_scales_inside_the_module_are_honoured(suffix, tmp_path):
    module = Scaled().eval()
    path = tmp_path / f"net{suffix}"
    actuon.save_network(module, path, input_idx=[0, 1])
    steps = signals(N, 10)
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path))
    assert actuator.is_fused()
    assert_close(rollout(actuator, steps), fed(Feeder(module, N, "mlp", input_idx=(0, 1)), steps))


CONVENTION = {
    "input_order": "vel_pos",
    "input_idx": [0, 2, 5],
    "pos_scale": -2.0,
    "vel_scale": 0.1,
    "effort_scale": 3.0,
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_carries_its_convention_and_arguments_win(suffix, tmp_path):
    module = mlp()
    path = tmp_path / f"net{suffix}"
    actuon.save_network(module, path, **CONVENTION, sample_dt=0.01, trained_by="nobody")
    found = actuon.load_metadata(path)
    assert {key: found[key] for key in CONVENTION} == CONVENTION | {"input_idx": (0, 2, 5)}
    assert found["sample_dt"] == 0.01
    assert found["trained_by"] == "nobody"
    steps = signals(N, 12)
    options = dict(input_idx=(0, 2, 5), order="vel_pos")
    controller = actuon.ControllerNeuralMLP(path)
    assert_close(
        rollout(actuon.Actuator(range(N), controller), steps),
        fed(Feeder(module, N, "mlp", scales=(-2.0, 0.1, 3.0), **options), steps),
    )
    controller = actuon.ControllerNeuralMLP(path, pos_scale=1.0, torque_scale=0.5)
    assert_close(
        rollout(actuon.Actuator(range(N), controller), steps),
        fed(Feeder(module, N, "mlp", scales=(1.0, 0.1, 0.5), **options), steps),
    )


def test_onnx_metadata_one_property_per_key(tmp_path):
    import onnx

    path = tmp_path / "net.onnx"
    actuon.save_network(mlp(inputs=4), path)
    model = onnx.load(str(path))
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, {"model_type": "mlp", "input_idx": "[0, 1]", "torque_scale": "2.5"})
    onnx.save(model, str(path))
    assert actuon.load_metadata(path) == {"model_type": "mlp", "input_idx": (0, 1), "effort_scale": 2.5}


def test_a_network_runs_at_the_rate_it_was_trained_at(tmp_path):
    path = tmp_path / "net.safetensors"
    actuon.save_network(mlp(), path, sample_dt=0.005)
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path))
    state = actuator.state()
    sim = {**signals(N, 1)[0], "joint_f": np.zeros(N, np.float32)}
    actuator.step(sim, sim, state, state, dt=0.00504)
    for dt in (0.01, None):
        with pytest.raises(actuon.StateError, match=rf"dt = {dt} s.*sample_dt = 0.005 s.*check_sample_dt=False"):
            actuator.step(sim, sim, state, state, dt=dt)
    for options in ({"check_sample_dt": False}, {"sample_dt": 0.01}):
        other = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path, **options))
        own = other.state()
        other.step(sim, sim, own, own, dt=0.01)


def stateful_chain(path, cls=actuon.ControllerNeuralMLP, **options):
    rng = np.random.default_rng(5)
    lags = rng.integers(0, 4, N).astype(np.int32)
    clamping = [actuon.ClampingDCMotor(2.0, 10.0, 1.5), actuon.ClampingMaxEffort(1.0)]
    return actuon.Actuator(range(N), cls(path), delay=actuon.Delay(lags, 3), clamping=clamping, **options)


@pytest.fixture(params=["mlp", "lstm", "gru"])
def chain(request, tmp_path):
    """A builder of actuators around a small network of each kind."""
    path = tmp_path / "net.safetensors"
    module = {"mlp": lambda: mlp(inputs=8, activation="tanh"), "lstm": LSTM, "gru": GRU}[request.param]().eval()
    actuon.save_network(module, path)
    cls = getattr(actuon, f"ControllerNeural{request.param.upper()}")
    return lambda **options: stateful_chain(path, cls, **options)


@pytest.mark.parametrize("stepping", ["one", "fresh"])
def test_fused_equals_staged_in_a_whole_chain(chain, stepping, rng):
    steps = signals(N, 15)
    masks = {7: rng.random(N) < 0.4}
    fused = rollout(chain(), steps, masks=masks)
    np.testing.assert_array_equal(rollout(chain(), steps, masks=masks, stepping=stepping), fused)
    staged = chain()
    staged._runner = StagedRunner(staged._chain, False)
    np.testing.assert_allclose(rollout(staged, steps, masks=masks), fused, rtol=1e-5, atol=1e-5)


def test_captured_equals_eager(chain):
    replays = signals(N, 6)
    expected = rollout(chain(), replays)
    actuator = chain()
    sim = {name: wp.zeros(N, dtype=wp.float32) for name in (*SIGNALS, "joint_f")}
    first, second = actuator.state(), actuator.state()
    with wp.ScopedCapture(device="cpu") as captured:
        sim["joint_f"].zero_()
        actuator.step(sim, sim, first, second, dt=0.01)
        first.assign(second)
    first.reset()
    second.reset()
    for t, values in enumerate(replays):
        for name, array in values.items():
            sim[name].assign(array)
        wp.capture_launch(captured.graph)
        np.testing.assert_array_equal(sim["joint_f"].numpy(), expected[t])


GRADIENT_CASES = [("mlp", name) for name in ACTIVATIONS] + [("lstm", 1), ("lstm", 2), ("gru", 1), ("gru", 2)]


@pytest.mark.parametrize(("kind", "variant"), GRADIENT_CASES)
def test_gradient_through_several_steps(kind, variant, tmp_path):
    """Against PyTorch's own gradient in double precision, which the finite differences of the next test confirm."""
    n, count = 5, 4
    if kind == "mlp":
        module, rnn = mlp(activation=variant), None
    else:
        module, rnn = (LSTM if kind == "lstm" else GRU)(layers=variant, hidden=5, head=3).eval(), (variant, 5)
    path = tmp_path / "net.safetensors"
    actuon.save_network(module, path)
    module = module.double()
    controller = getattr(actuon, f"ControllerNeural{kind.upper()}")(path)
    actuator = actuon.Actuator(range(n), controller, requires_grad=True)
    steps = signals(n, count, seed=9)
    weights = [np.random.default_rng(t).standard_normal(n).astype(np.float32) for t in range(count)]
    sims = gradients(actuator, steps, weights)
    tensors = [{k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in s.items()} for s in steps]
    objective = torch_objective(module, kind, rnn, tensors, weights, n)
    objective.backward()
    for t, sim in enumerate(sims):
        for name in ("joint_q", "joint_qd", "joint_target_q", "joint_act"):
            expected = tensors[t][name].grad.numpy()
            np.testing.assert_allclose(sim[name].grad.numpy(), expected, rtol=2e-3, atol=2e-3, err_msg=f"{t} {name}")


@pytest.mark.parametrize("kind", ["mlp", "lstm", "gru"])
def test_gradient_against_finite_differences(kind, tmp_path):
    n = 3
    module, rnn = (
        (mlp(activation="tanh"), None) if kind == "mlp" else ({"lstm": LSTM, "gru": GRU}[kind](hidden=5).eval(), (1, 5))
    )
    path = tmp_path / "net.safetensors"
    actuon.save_network(module, path)
    module = module.double()
    actuator = actuon.Actuator(range(n), getattr(actuon, f"ControllerNeural{kind.upper()}")(path), requires_grad=True)
    steps = signals(n, 2, seed=4)
    weights = [np.ones(n, np.float32), np.full(n, -0.5, np.float32)]
    sims = gradients(actuator, steps, weights)

    @torch.no_grad()
    def objective(values):
        tensors = [{k: torch.tensor(v) for k, v in s.items()} for s in values]
        return float(torch_objective(module, kind, rnn, tensors, weights, n))

    exact = [{k: v.astype(np.float64) for k, v in s.items()} for s in steps]
    for t in range(2):
        for name in ("joint_q", "joint_qd", "joint_target_q", "joint_act"):
            for i in range(n):
                kept = exact[t][name][i]
                exact[t][name][i] = kept + 1e-5
                up = objective(exact)
                exact[t][name][i] = kept - 1e-5
                down = objective(exact)
                exact[t][name][i] = kept
                assert sims[t][name].grad.numpy()[i] == pytest.approx((up - down) / 2e-5, rel=2e-3, abs=2e-3)


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


def test_builder_groups_joints_by_file(tmp_path):
    paths = [tmp_path / f"{name}.safetensors" for name in ("a", "b")]
    for path in paths:
        actuon.save_network(mlp(), path)
    builder = actuon.ActuatorBuilder()
    for i in range(6):
        builder.add_actuator(actuon.ControllerNeuralMLP, i, model_path=str(paths[i % 2]), pos_scale=2.0)
    first, second = builder.finalize()
    assert first.indices.numpy().tolist() == [0, 2, 4]
    assert second.controller.pos_scale == 2.0


def run_without_torch(code, *arguments):
    blocked = "import sys; sys.modules['torch'] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", blocked + code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("suffix", [".onnx", ".safetensors"])
def test_no_torch_is_needed_to_run(suffix, tmp_path):
    path = tmp_path / f"net{suffix}"
    actuon.save_network(mlp(), path, input_idx=[0, 1, 2])
    code = """
import numpy as np, actuon
actuator = actuon.Actuator(range(5), actuon.ControllerNeuralMLP(sys.argv[1]))
state = actuator.state()
sim = {n: np.ones(5, np.float32) for n in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")}
actuator.step(sim, sim, state, state)
print(actuon.load_metadata(sys.argv[1])["model_type"])
"""
    assert run_without_torch(code, path).split()[-1] == "mlp"


def test_without_torch_a_torch_file_names_the_extra(tmp_path):
    path = tmp_path / "net.pt"
    actuon.save_network(mlp(), path)
    code = """
import actuon
assert actuon.load_metadata(sys.argv[1])["model_type"] == "mlp"
try:
    actuon.ControllerNeuralMLP(sys.argv[1])
except actuon.MissingExtraError as error:
    print(error)
"""
    assert "actuon[torch]" in run_without_torch(code, path)


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


def test_pickled_checkpoints_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {
        "state.pt": lambda p: torch.save({"w": Bomb()}, p),
        "plain.pt": lambda p: p.write_bytes(pickle.dumps(Bomb())),
    }
    for name, write in files.items():
        path = tmp_path / name
        write(path)
        for call in (actuon.ControllerNeuralMLP, actuon.load_metadata):
            with pytest.raises(actuon.ParameterError, match=f"{name}.*pickled checkpoint"):
                call(path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("suffix", FORMATS)
def test_truncated_and_corrupt_files_are_named(suffix, tmp_path):
    good = tmp_path / f"good{suffix}"
    actuon.save_network(mlp(), good, input_idx=[0, 1, 2])
    content = good.read_bytes()
    bad = tmp_path / f"bad{suffix}"
    for keep in (0, 3, 7, 40, len(content) // 3, len(content) // 2, len(content) - 1):
        bad.write_bytes(content[:keep])
        with pytest.raises(actuon.ActuonError, match="bad"):
            actuon.ControllerNeuralMLP(bad)
    bad.write_bytes(b"not a network at all" * 50)
    with pytest.raises(actuon.ActuonError, match="bad"):
        actuon.load_metadata(bad)


def test_hostile_safetensors(tmp_path):
    path = tmp_path / "hostile.safetensors"

    def write(header, data=b"", length=None):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)

    layout = {"metadata": json.dumps({"layout": {"kind": "mlp", "recurrent": 0, "activations": [["relu", 0.0]]}})}
    entry = {"dtype": "F32", "shape": [2**39], "data_offsets": [0, 4]}
    cases = [
        dict(header={}, length=2**60),
        dict(header=b"[" * 100_000),
        dict(header=[1, 2]),
        dict(header={"a": 3}),
        dict(header={"__metadata__": layout}),
        dict(header={"__metadata__": layout, "dense.0.weight": entry}, data=b"1234"),
        dict(header={"__metadata__": layout, "dense.0.weight": entry | {"shape": [1], "data_offsets": [0, 2**40]}}),
        dict(header={"__metadata__": layout, "dense.0.weight": entry | {"shape": [-1]}}),
        dict(header={"__metadata__": layout, "dense.0.weight": entry | {"dtype": "I64"}}),
        dict(header={"__metadata__": {"metadata": "{"}}),
        dict(header={"__metadata__": {"metadata": "[]"}}),
        dict(header={"__metadata__": {"metadata": '{"input_idx": "all"}'}}),
        dict(header={"__metadata__": {"metadata": '{"pos_scale": "NaN"}'}}),
        dict(header={}),
    ]
    for case in cases:
        write(**case)
        with pytest.raises(actuon.ActuonError, match="hostile"):
            actuon.ControllerNeuralMLP(path)


def test_hostile_onnx(tmp_path):
    import onnx

    path = tmp_path / "hostile.onnx"
    actuon.save_network(mlp(), path)
    clean = onnx.load(str(path))

    def mutated(change):
        model = onnx.ModelProto()
        model.CopyFrom(clean)
        change(model)
        path.write_bytes(model.SerializeToString())
        with pytest.raises(actuon.ActuonError, match="hostile"):
            actuon.ControllerNeuralMLP(path)

    def external(model):
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "/etc/passwd"

    mutated(external)
    mutated(lambda model: model.graph.initializer[0].dims.__setitem__(0, 2**50))
    mutated(lambda model: model.graph.initializer[0].dims.__setitem__(0, -4))
    mutated(lambda model: model.graph.initializer[0].__setattr__("raw_data", b"12"))
    mutated(lambda model: model.graph.node[1].__setattr__("op_type", "Conv"))
    mutated(lambda model: model.graph.ClearField("input"))


def test_weights_that_are_not_finite(tmp_path):
    module = mlp()
    with torch.no_grad():
        module[0].weight[0, 0] = float("nan")
    for suffix in FORMATS:
        path = tmp_path / f"net{suffix}"
        with pytest.raises(actuon.ParameterError, match="NaN"):
            actuon.save_network(module, path)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"input_idx": [0, 1]},
            "6 inputs, but position error and velocity at steps .* make 4; an actuator network has two inputs",
        ),
        ({"input_idx": [0, -1, 2]}, "input_idx"),
        ({"input_order": "pos"}, "input_order: got 'pos'; must be one of pos_vel, vel_pos"),
        ({"input_idx": [[0, 1], [2]]}, "input_idx: got .*; must be a list of history steps"),
        ({"input_idx": []}, "input_idx"),
        ({"input_idx": True}, "input_idx"),
        ({"input_order": np.array(["pos_vel", "vel_pos"])}, "input_order: got"),
        ({"pos_scale": float("nan")}, "pos_scale: got nan"),
        ({"pos_scale": 0}, "pos_scale: got 0; must be a number other than 0 that 32 bits hold"),
        ({"vel_scale": 0.0}, "vel_scale: got 0.0; must be a number other than 0"),
        ({"effort_scale": 0.0}, "effort_scale: got 0.0; must be a number other than 0"),
        ({"torque_scale": 0.0}, "effort_scale: got 0.0; must be a number other than 0"),
        ({"effort_scale": float("inf")}, "effort_scale: got inf"),
        ({"effort_scale": 1e39}, "effort_scale: got 1e.39"),
        ({"effort_scale": -1e-46}, "effort_scale: got -1e-46"),
        ({"effort_scale": 10**400}, "effort_scale: got 1000"),
        ({"effort_scale": True}, "effort_scale: got True"),
        ({"effort_scale": 3e38}, "effort_scale = 3e.38 in its weights, dense.2.* reaches .* 32 bits do not hold"),
        ({"pos_scale": 3e38, "effort_scale": 1e3}, "pos_scale = 3e.38, .* dense.0.weight reaches .* 32 bits"),
        ({"pos_scale": 2e-38, "vel_scale": 2e-38, "effort_scale": 2e-38}, None),
        ({"sample_dt": 0.0}, "sample_dt: got 0.0; must be a finite number > 0"),
        ({"effort_scale": 1.0, "torque_scale": 1.0}, "mean the same"),
    ],
)
def test_bad_arguments(options, match, tmp_path):
    path = tmp_path / "net.safetensors"
    module = mlp()
    with torch.no_grad():
        for layer in (module[0], module[-1]):
            layer.weight[0, 0] = 2.0
    actuon.save_network(module, path)
    if match is None:
        actuon.ControllerNeuralMLP(path, **options)
        return
    with pytest.raises(actuon.ParameterError, match=match):
        actuon.ControllerNeuralMLP(path, **options)


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        ({"effort_scale": 0}, "effort_scale: got 0; must be a number other than 0"),
        ({"torque_scale": 0.0}, "effort_scale: got 0.0; must be a number other than 0"),
        ({"pos_scale": 0.0}, "pos_scale: got 0.0"),
        ({"vel_scale": float("nan")}, "vel_scale: got nan"),
        ({"vel_scale": 1e300}, "vel_scale: got 1e.300"),
        ({"input_idx": [0, [1, 2]]}, r"input_idx: got \[0, \[1, 2\]\]; must be a list of history steps"),
        ({"input_idx": [[0], [1, 2]]}, "input_idx: got"),
        ({"input_idx": {"a": 1}}, "input_idx: got"),
        ({"effort_scale": 1.0, "torque_scale": 2.0}, "effort_scale and torque_scale, which mean the same"),
    ],
)
@pytest.mark.parametrize("suffix", [".safetensors", ".onnx"])
def test_bad_metadata(entry, match, suffix, tmp_path):
    import onnx

    path = tmp_path / f"bad{suffix}"
    actuon.save_network(mlp(), path)
    if suffix == ".onnx":
        model = onnx.load(str(path))
        onnx.helper.set_model_props(model, {"metadata": json.dumps(entry)})
        onnx.save(model, str(path))
    else:
        tensors = safetensors_files.read_tensors(path)
        layout = actuon.load_metadata(path)["layout"]
        path.write_bytes(safetensors_files.content(tensors, {"metadata": json.dumps({"layout": layout} | entry)}))
    for call in (actuon.load_metadata, actuon.ControllerNeuralMLP, lambda p: actuon.NeuralControlConfig(p).build()):
        with pytest.raises(actuon.ParameterError, match=rf"bad\{suffix}.*{match}"):
            call(str(path))
    key = next(iter(entry))
    with pytest.raises(actuon.ParameterError, match=f"save_network: .*{match}"):
        actuon.save_network(mlp(), tmp_path / f"new{suffix}", **entry)
    assert not (tmp_path / f"new{suffix}").exists(), key


@pytest.mark.parametrize("suffix", FORMATS)
def test_weights_of_64_bits_that_32_bits_do_not_hold(suffix, tmp_path):
    path = tmp_path / f"net{suffix}"
    for at, value in ((0, 1e200), (4, -1e39), (4, 1e308)):
        module = mlp().double()
        with torch.no_grad():
            module[at].weight[0, 0] = value
        with pytest.raises(actuon.ParameterError, match=rf"dense.{at // 2}.weight reaches .* 32 bits do not hold"):
            actuon.save_network(module, path)
    script = torch.jit.script(module)
    torch.jit.save(script, str(tmp_path / "other.pt"))
    with pytest.raises(actuon.ParameterError, match=r"other\.pt.*dense.2.weight reaches"):
        actuon.ControllerNeuralMLP(tmp_path / "other.pt")


def test_scales_inside_the_module_that_overflow(tmp_path):
    """Each number fits in 32 bits, their products do not."""

    class Large(nn.Module):
        def __init__(self, into: float, out: float):
            super().__init__()
            self.body = nn.Linear(2, 1)
            self.into, self.out = into, out

        def forward(self, x):
            return self.out * self.body(self.into * x)

    for scales in ((1e30, 1e30), (1e-30, 1e-30)):
        with pytest.raises(actuon.ParameterError, match="dense.0.weight reaches .* 32 bits do not hold"):
            actuon.save_network(Large(*scales), tmp_path / "net.onnx", input_idx=[0])


def test_recurrent_biases_whose_sum_overflows(tmp_path):
    module = LSTM(hidden=1)
    with torch.no_grad():
        module.rnn.bias_ih_l0[0] = module.rnn.bias_hh_l0[0] = 3e38
    with pytest.raises(actuon.ParameterError, match=r"recurrent.0.bias_ih \+ bias_hh reaches 6e\+38"):
        actuon.save_network(module.eval(), tmp_path / "net.safetensors")


@pytest.mark.parametrize("suffix", FORMATS)
def test_paths_that_cannot_be_written(suffix, tmp_path):
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    (tmp_path / "file").write_text("")
    for path, match in (
        (folder, "cannot be written: it is a folder; name a file"),
        (tmp_path / "nowhere" / f"net{suffix}", "the folder .*nowhere' does not exist; name a file"),
        (tmp_path / "file" / f"net{suffix}", "the folder .*file' does not exist"),
        (
            tmp_path / f"{'n' * 300}{suffix}",
            "cannot be written: File name too long; name a file in a folder that exists",
        ),
        (f"{tmp_path}/n\0{suffix}", "cannot be written"),
    ):
        with pytest.raises(actuon.ParameterError, match=match):
            actuon.save_network(mlp(), path)
    with pytest.raises(actuon.ParameterError, match="is a folder"):
        actuon.ControllerNeuralMLP(folder)
    with pytest.raises(actuon.ParameterError, match="does not exist"):
        actuon.ControllerNeuralMLP(tmp_path / f"{'n' * 300}{suffix}")


@pytest.mark.skipif(os.geteuid() == 0, reason="may read and write everything")
def test_files_without_permission(tmp_path):
    path = tmp_path / "net.safetensors"
    actuon.save_network(mlp(), path)
    path.chmod(0)
    with pytest.raises(actuon.ParameterError, match="cannot be written: Permission denied"):
        actuon.save_network(mlp(), path)
    for call in (actuon.load_metadata, actuon.ControllerNeuralMLP):
        with pytest.raises(actuon.ParameterError, match="cannot be read: Permission denied"):
            call(path)


def test_bad_paths(tmp_path):
    for path in (None, 3):
        with pytest.raises(actuon.ParameterError, match="must be a path"):
            actuon.load_metadata(path)
        with pytest.raises(actuon.ParameterError, match="must be a path"):
            actuon.save_network(mlp(), path)
    with pytest.raises(actuon.ParameterError, match=r"got a dict; must be a torch.nn.Module"):
        actuon.save_network({}, tmp_path / "net.pt")
    with pytest.raises(actuon.ParameterError, match="does not exist"):
        actuon.ControllerNeuralMLP(tmp_path / "nothing.onnx")
    with pytest.raises(actuon.ParameterError, match=r"known: \.pt, \.pt2"):
        actuon.load_metadata(tmp_path / "net.h5")
    with pytest.raises(actuon.ParameterError, match=r"format '\.h5'"):
        actuon.save_network(mlp(), tmp_path / "net.h5")
    with pytest.raises(actuon.ParameterError, match="unknown parameter 'gain'"):
        actuon.ControllerNeuralMLP.resolve_arguments({"model_path": "a.onnx", "gain": 1.0})
    with pytest.raises(actuon.ParameterError, match="needs 'model_path'"):
        actuon.ControllerNeuralMLP.resolve_arguments({})


def test_metadata_is_read_from_the_archive_alone(tmp_path):
    """Also where the rest of the archive is no network."""
    path = tmp_path / "net.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/code/__torch__.py", "")
        archive.writestr("net/extra/metadata.json", json.dumps({"model_type": "gru", "torque_scale": 4}))
    assert actuon.load_metadata(path) == {"model_type": "gru", "effort_scale": 4.0}


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
        return x[:, :1]


UNKNOWN = [
    "clip far out", "clip the output", "in place", "through a view", "swapped, and small", "softplus with a threshold",
    "sliced",
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
    monkeypatch.setitem(torch_graphs._OURS, "flip", "same")
    network = torch_graphs.read_script(torch.jit.script(Apart(True).eval()))
    with pytest.raises(NotRecognised, match="compute something else"):
        torch_files.verify(Apart(True).eval(), network)


def test_exported_for_one_batch_size(tmp_path):
    module = mlp()
    path = tmp_path / "extra_net.pt2"
    torch.export.save(torch.export.export(module, (torch.zeros(1, 6),)), str(path))
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path))
    assert actuator.is_fused()
    steps = signals(N, 10)
    assert_close(rollout(actuator, steps), fed(Feeder(module, N, "mlp"), steps))


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


def test_limits_of_size(tmp_path):
    for module, match in (
        (mlp(inputs=2, width=9000, layers=1), "9001 units; at most 8192 can be run"),
        (mlp(inputs=2, width=2, layers=16), "17 layers; at most 16 can be run"),
        (GRU(layers=16, hidden=1).eval(), "17 layers; at most 16 can be run"),
    ):
        with pytest.raises(actuon.ParameterError, match=match):
            actuon.save_network(module, tmp_path / "large.safetensors")
    path = tmp_path / "net.safetensors"
    actuon.save_network(mlp(inputs=4), path)
    with pytest.raises(actuon.ParameterError, match=r"input_idx: got \[0, 1001\]; .* from 0 \(now\) to 1000"):
        actuon.ControllerNeuralMLP(path, input_idx=[0, 1001])


def test_the_longest_history_and_the_most_layers(tmp_path):
    path = tmp_path / "net.safetensors"
    idx = tuple(range(1001))
    module = mlp(inputs=2002, width=4, layers=15, activation="elu")
    actuon.save_network(module, path, input_idx=list(idx))
    steps = signals(5, 3)
    got = rollout(actuon.Actuator(range(5), actuon.ControllerNeuralMLP(path)), steps)
    assert_close(got, fed(Feeder(module, 5, "mlp", input_idx=idx), steps))


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
    with pytest.raises(actuon.ParameterError, match="give input_idx"):
        actuon.ControllerNeuralMLP(path)


def test_saving_leaves_the_module_alone_and_checks_the_convention(tmp_path):
    module = mlp().train()
    actuon.save_network(module, tmp_path / "net.safetensors", input_idx=np.array([0, 1, 2]))
    assert module.training
    for options, match in (
        ({"input_idx": [0, 1]}, "got 2 steps; the module has 6 inputs"),
        ({"model_type": "lstm"}, "the module is of type 'mlp'"),
        ({"effort_scale": 1.0, "torque_scale": 2.0}, "mean the same"),
        ({"epoch": np.int64(3)}, "JSON"),
    ):
        with pytest.raises(actuon.ParameterError, match=match):
            actuon.save_network(module, tmp_path / "other.onnx", **options)
    assert not (tmp_path / "other.onnx").exists()


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.filterwarnings("ignore")
def test_flipped_bytes_give_named_errors(suffix, tmp_path):
    good = tmp_path / f"good{suffix}"
    actuon.save_network(mlp(width=4), good, input_idx=[0, 1, 2])
    content = np.frombuffer(good.read_bytes(), np.uint8)
    bad = tmp_path / f"bad{suffix}"
    rng = np.random.default_rng(8)
    for _ in range(40):
        changed = content.copy()
        at = rng.integers(0, len(content), 6)
        changed[at] = rng.integers(0, 256, 6)
        bad.write_bytes(changed.tobytes())
        try:
            actuon.ControllerNeuralMLP(bad)
        except actuon.ActuonError as error:
            assert "bad" in str(error)  # noqa: PT017 (a flipped weight is still a network)
