# SPDX-License-Identifier: Apache-2.0
"""Network controllers against PyTorch: real networks, and generated ones of every kind, size, activation and path."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.chains import SIGNALS, rollout
from tests.support.paths import DATA
from tests.support.torch_networks import (
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

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
nn = torch.nn
CHECKPOINTS = DATA / "networks"
real = pytest.mark.skipif(not CHECKPOINTS.exists(), reason="the published networks are not here")
FORMATS = (".pt", ".pt2", ".onnx", ".safetensors")
N = 70
STEPS = 300
MASKS = {42: np.arange(N) % 3 == 0}
"""Networks to reset, and the step before which."""


@real
def test_unitree_go1_for_a_thousand_steps(rng):
    path = CHECKPOINTS / "unitree_go1.pt"
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
    path = CHECKPOINTS / "anydrive_v3_lstm.pt"
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


def steps_for(suffix):
    """Signals of all steps, or of the first hundred: one kernel runs a network of every format."""
    return signals(N, STEPS)[: None if suffix == FORMATS[0] else 100]


@functools.lru_cache(maxsize=1)
def of_pytorch(kind, **options):
    """Efforts of all steps, shape (STEPS, N)."""
    if kind == "mlp":
        return fed(Feeder(mlp(**options), N, kind), signals(N, STEPS))
    module = {"lstm": LSTM, "gru": GRU}[kind](**options).eval()
    feeder = Feeder(module, N, kind, input_idx=(0,), rnn=(options["layers"], options["hidden"]))
    return fed(feeder, signals(N, STEPS), MASKS)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_in_every_format(activation, suffix, tmp_path):
    module = mlp(activation=activation)
    path = tmp_path / f"net{suffix}"
    actuon.save_network(module, path, input_idx=[0, 1, 2], sample_dt=0.01)
    assert actuon.load_metadata(path)["model_type"] == "mlp"
    steps = steps_for(suffix)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path))
    assert actuator.is_fused()
    assert_close(rollout(actuator, steps), of_pytorch("mlp", activation=activation)[: len(steps)])


@pytest.mark.parametrize(("layers", "width"), [(0, 4), (1, 4), (2, 30), (3, 64), (4, 128)])
def test_every_size(layers, width, tmp_path):
    module = mlp(inputs=4, layers=layers, width=width, activation="elu")
    path = tmp_path / "net.safetensors"
    actuon.save_network(module, path)
    steps = signals(N, STEPS)
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
    steps = steps_for(suffix)
    actuator = actuon.Actuator(range(N), cls(path))
    assert actuator.is_fused()
    expected = of_pytorch(kind, layers=layers, hidden=hidden, head=head)[: len(steps)]
    assert_close(rollout(actuator, steps, masks=MASKS), expected)


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
    other = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path, sample_dt=0.01))
    own = other.state()
    other.step(sim, sim, own, own, dt=0.01)


@pytest.mark.parametrize("fused", [True, False])
def test_another_rate_that_is_not_refused_is_warned_of_once(fused, tmp_path):
    path = tmp_path / "net.safetensors"
    actuon.save_network(mlp(), path, sample_dt=0.005)
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path, check_sample_dt=False), fused=fused)
    state = actuator.state()
    sim = {name: wp.array(array) for name, array in signals(N, 1)[0].items()} | {"joint_f": wp.zeros(N)}
    actuator.step(sim, sim, state, state, dt=0.005)
    actuator.step(sim, sim, state, state)
    with pytest.warns(UserWarning, match=r"net.safetensors.*dt = 0.01 s.*sample_dt = 0.005 s; .*step at that dt"):
        actuator.step(sim, sim, state, state, dt=0.01)
    for dt in (0.01, 0.02):
        actuator.step(sim, sim, state, state, dt=dt)
    with wp.ScopedCapture(device="cpu") as captured:
        actuator.step(sim, sim, state, state, dt=0.01)
    wp.capture_launch(captured.graph)


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
    np.testing.assert_allclose(rollout(chain(fused=False), steps, masks=masks), fused, rtol=1e-5, atol=1e-5)


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


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"input_idx": [0, 1]},
            "6 inputs, but position_error, velocity at steps .* make 4; must be one input for each",
        ),
        ({"input_idx": [0, -1, 2]}, "input_idx"),
        ({"input_order": "pos"}, "input_order: got 'pos'; must be one of pos_vel, vel_pos"),
        ({"input_idx": [[0, 1], [2]]}, "input_idx: got .*; must be a list of history steps"),
        ({"input_idx": []}, "input_idx"),
        ({"input_idx": True}, "input_idx"),
        ({"input_order": np.array(["pos_vel", "vel_pos"])}, "input_order: got"),
        ({"pos_scale": float("nan")}, "pos_scale: got nan"),
        ({"pos_scale": 0}, "pos_scale: got 0; must be a number with a magnitude from"),
        ({"vel_scale": 0.0}, "vel_scale: got 0.0; must be a number with a magnitude"),
        ({"effort_scale": 0.0}, "effort_scale: got 0.0; must be a number with a magnitude"),
        ({"torque_scale": 0.0}, "effort_scale: got 0.0; must be a number with a magnitude"),
        ({"effort_scale": float("inf")}, "effort_scale: got inf"),
        ({"effort_scale": 1e39}, "effort_scale: got 1e.39"),
        ({"effort_scale": -1e-46}, "effort_scale: got -1e-46"),
        ({"effort_scale": 10**400}, "effort_scale: got 1000"),
        ({"effort_scale": True}, "effort_scale: got True"),
        ({"effort_scale": 3e38}, "effort_scale = 3e.38 in its weights, dense.2.* has the magnitude .* 32 bits"),
        ({"pos_scale": 3e38, "effort_scale": 1e3}, "pos_scale = 3e.38, .* dense.0.weight has the magnitude .* 32 bits"),
        ({"pos_scale": 2e-38, "vel_scale": 2e-38, "effort_scale": 2e-38}, None),
        ({"sample_dt": 0.0}, "sample_dt: got 0.0; must be a finite number > 0"),
        ({"effort_scale": 1.0, "torque_scale": 1.0}, "torque_scale is an alias of effort_scale"),
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


@pytest.mark.parametrize("path", ["", None, 7])
def test_a_network_without_a_path(path):
    for controller in (actuon.ControllerNeuralMLP, actuon.ControllerNeuralLSTM, actuon.ControllerNeuralGRU):
        with pytest.raises(actuon.ParameterError, match=f"network file: got {path!r}; must be a path to a file"):
            controller(path)


@pytest.mark.parametrize("name", ["pos_scale", "vel_scale", "effort_scale"])
def test_a_config_refuses_a_scale_of_zero_before_its_file_is_read(name, tmp_path):
    with pytest.raises(actuon.ParameterError, match=f"NeuralControlConfig.{name}: got 0.0; must be a number"):
        actuon.NeuralControlConfig("net.onnx", **{name: 0.0})
    path = tmp_path / "motors.yaml"
    controller = f"{{type: neural, model_path: net.onnx, {name}: 0}}"
    path.write_text(f"actuators: {{all: {{joints: '.*', controller: {controller}}}}}")
    with pytest.raises(actuon.RobotFileError, match=f"actuators.all.controller: .*{name}: got 0.0; must be a number"):
        actuon.load_actuators(path)


def test_the_longest_history_and_the_most_layers(tmp_path):
    path = tmp_path / "net.safetensors"
    idx = tuple(range(1001))
    module = mlp(inputs=2002, width=4, layers=15, activation="elu")
    actuon.save_network(module, path, input_idx=list(idx))
    steps = signals(5, 3)
    got = rollout(actuon.Actuator(range(5), actuon.ControllerNeuralMLP(path)), steps)
    assert_close(got, fed(Feeder(module, 5, "mlp", input_idx=idx), steps))


@pytest.mark.parametrize("suffix", [".onnx", ".pt"])
def test_histories_of_a_network_that_sees_only_now_are_empty(suffix, tmp_path):
    """Newton's names are there, and there is nothing to remember."""
    path = tmp_path / f"now{suffix}"
    actuon.save_network(nn.Sequential(nn.Linear(2, 4), nn.Softsign(), nn.Linear(4, 1)), path)
    controller = actuon.ControllerNeuralMLP(path, input_idx=[0])
    assert actuon.Actuator(range(3), controller).state() is None
    state, following = controller.state(3, "cpu"), controller.state(3, "cpu")
    for array in (state.pos_history, state.pos_error_history, state.vel_history):
        assert array.shape == (0, 3)
    zeros, indices, forces = (wp.zeros(3, dtype=kind) for kind in (wp.float32, wp.uint32, wp.float32))
    controller.compute(zeros, zeros, zeros, zeros, None, *[indices] * 4, forces, state, 0.01)
    controller.update_state(state, following)
    following.assign(state)
    following.reset()
    assert np.isfinite(forces.numpy()).all()
