# SPDX-License-Identifier: Apache-2.0
"""Network files as Newton reads them, run by Newton and by us on the same inputs."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.chains import random_signals
from tests.support.torch_networks import LSTM, assert_close, gradients, mlp

newton = pytest.importorskip("newton")
onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
N = 37
DT = 0.02
MEANS = {
    "position": 0.5,
    "target_position": 0.9,
    "position_error": -0.25,
    "velocity": 1.0,
    "target_velocity": -1.5,
    "velocity_error": 0.75,
    "bias_force": 40.0,
}
STDS = dict(zip(MEANS, (2.0, 1.75, 0.5, 4.0, 3.0, 2.5, 0.01), strict=True))
ALL = tuple(MEANS)


def normalization():
    return {
        "inputs": {"mean": MEANS, "std": STDS},
        "targets": {"mean": {"torque": 7.0}, "std": {"torque": 3.0}},
    }


def newton_metadata(columns=ALL, **changes):
    custom = ["bias_force"] if "bias_force" in columns else []
    found = {"input_columns": list(columns), "custom_inputs": custom, "sample_dt_s": DT}
    return found | {"model_type": "gru", "normalization": normalization()} | changes


def save_onnx(path, nodes, weights, inputs, outputs, metadata):
    """Write a graph; inputs and outputs by name and shape."""
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    sides = [
        [helper.make_tensor_value_info(n, float32, shape) for n, shape in side.items()] for side in (inputs, outputs)
    ]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "net", *sides, tensors), opset_imports=[helper.make_opsetid("", 17)]
    )
    helper.set_model_props(model, {"metadata": json.dumps(metadata)})
    onnx.save(model, str(path))


def save_gru(path, metadata, inputs=None, hidden=5, layers=1):
    """A GRU in the form that Newton asks for: states as inputs of their own, then Gemm, Tanh and a scale."""
    inputs = len(metadata["input_columns"]) if inputs is None else inputs
    rng = np.random.default_rng(4)

    def normal(*shape):
        return (0.3 * rng.standard_normal(shape)).astype(np.float32)

    weights = {"direction": np.array([1]), "time": np.array([0]), "scale": np.array(2.5, np.float32)}
    nodes, flow = [], "input"
    given, returned = {"input": [1, None, inputs]}, {"effort": [None, 1]}
    for i in range(layers):
        weights |= {
            f"W{i}": normal(1, 3 * hidden, inputs if i == 0 else hidden),
            f"R{i}": normal(1, 3 * hidden, hidden),
        }
        weights |= {f"B{i}": normal(1, 6 * hidden)}
        sides = [flow, f"W{i}", f"R{i}", f"B{i}", "", f"h{i}"], [f"Y{i}", f"next_h{i}"]
        nodes.append(onnx.helper.make_node("GRU", *sides, hidden_size=hidden, linear_before_reset=1))
        nodes.append(onnx.helper.make_node("Squeeze", [f"Y{i}", "direction"], [f"out{i}"]))
        flow = f"out{i}"
        given[f"h{i}"] = returned[f"next_h{i}"] = [1, None, hidden]
    weights |= {"head": normal(1, hidden), "bias": normal(1)}
    nodes += [
        onnx.helper.make_node("Squeeze", [flow, "time"], ["features"]),
        onnx.helper.make_node("Gemm", ["features", "head", "bias"], ["linear"], transB=1),
        onnx.helper.make_node("Tanh", ["linear"], ["bounded"]),
        onnx.helper.make_node("Mul", ["bounded", "scale"], ["effort"]),
    ]
    save_onnx(path, nodes, weights, given, returned, metadata)


def save_lstm(path, **changes):
    """An LSTM in the form that Newton asks for, its inputs and outputs in an order that only their names tell."""
    rng = np.random.default_rng(5)
    shapes = {"W": (1, 24, 2), "R": (1, 24, 6), "B": (1, 48), "head": (1, 6), "bias": (1,)}
    weights = {name: (0.3 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    weights |= {"direction": np.array([1]), "time": np.array([0])}
    nodes = [
        onnx.helper.make_node("LSTM", ["x", "W", "R", "B", "", "h", "c"], ["Y", "new_h", "new_c"], hidden_size=6),
        onnx.helper.make_node("Squeeze", ["Y", "direction"], ["out"]),
        onnx.helper.make_node("Squeeze", ["out", "time"], ["features"]),
        onnx.helper.make_node("Gemm", ["features", "head", "bias"], ["effort"], transB=1),
    ]
    state = [1, None, 6]
    metadata = {"pos_scale": 1.5, "vel_scale": 0.1, "torque_scale": 20.0, "num_layers": 1, "hidden_size": 6}
    metadata |= {"input_name": "x", "hidden_in_name": "h", "cell_in_name": "c", "output_name": "effort"}
    metadata |= {"hidden_out_name": "new_h", "cell_out_name": "new_c", "model_type": "lstm"} | changes
    given = {"c": state, "h": state, "x": [1, None, 2]}
    save_onnx(path, nodes, weights, given, {"new_c": state, "effort": [None, 1], "new_h": state}, metadata)


def steps_with_custom(count=60):
    rng = np.random.default_rng(6)
    steps = [random_signals(N, rng) for _ in range(count)]
    for signals in steps:
        signals["joint_act"][:] = 0.0  # Newton's networks take no feedforward
        signals["bias_force"] = (40.0 + 0.01 * rng.standard_normal(N)).astype(np.float32)
    return steps


def run(actuator, steps, dt=DT):
    """Efforts of Newton's actuator or ours over all steps, shape (steps, N)."""
    first, second = actuator.state(), actuator.state()
    efforts = []
    for signals in steps:
        sim = SimpleNamespace(**{name: wp.array(array) for name, array in signals.items()}, joint_f=wp.zeros(N))
        actuator.step(sim, sim, first, second, dt=dt)
        efforts.append(sim.joint_f.numpy())
        first, second = second, first
    return np.array(efforts)


def newton_actuator(drive):
    return newton.actuators.Actuator(indices=wp.array(range(N), dtype=wp.uint32), drive=drive)


@pytest.mark.parametrize(
    ("columns", "layers"),
    [(("position_error", "velocity"), 1), (("velocity", "position"), 2), (ALL, 2), (ALL[::-1], 1)],
    ids=["usual", "other", "all", "reversed"],
)
def test_a_gru_of_newton(columns, layers, tmp_path):
    pytest.importorskip("warp_nn")
    path = tmp_path / "net.onnx"
    save_gru(path, newton_metadata(columns), layers=layers)
    steps = steps_with_custom()
    expected = run(newton_actuator(newton.actuators.DriveNeuralGRU(str(path))), steps)
    assert np.ptp(expected) > 1.0
    controller = actuon.ControllerNeuralGRU(path)
    assert controller.input_columns == columns
    assert controller.sample_dt == DT
    actuator = actuon.Actuator(range(N), controller)
    assert actuator.is_fused()
    assert actuator.custom_inputs == (("bias_force",) if "bias_force" in columns else ())
    assert_close(run(actuator, steps), expected)


def test_an_lstm_of_newton_whose_names_tell_its_inputs_apart(tmp_path):
    pytest.importorskip("warp_nn")
    path = tmp_path / "net.onnx"
    save_lstm(path)
    steps = steps_with_custom()
    expected = run(newton_actuator(newton.actuators.DriveNeuralLSTM(str(path))), steps)
    assert_close(run(actuon.Actuator(range(N), actuon.ControllerNeuralLSTM(path)), steps), expected)


def test_an_mlp_of_newton(tmp_path):
    pytest.importorskip("warp_nn")
    path = tmp_path / "net.onnx"
    actuon.save_network(
        mlp(), path, input_idx=[0, 1, 3], input_order="vel_pos", pos_scale=2.0, vel_scale=0.1, torque_scale=5.0
    )
    steps = steps_with_custom()
    expected = run(newton_actuator(newton.actuators.DriveNeuralMLP(str(path))), steps)
    assert_close(run(actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path)), steps), expected)


@pytest.mark.filterwarnings("ignore:Torch neural-drive checkpoints:DeprecationWarning")  # Newton reads them still
@pytest.mark.parametrize("kind", ["mlp", "lstm"])
def test_exported_files_of_newton(kind, tmp_path):
    path = tmp_path / "net.pt2"
    if kind == "mlp":
        actuon.save_network(mlp(), path, input_idx=[0, 2, 1], effort_scale=4.0)
        ours, theirs = actuon.ControllerNeuralMLP, newton.actuators.DriveNeuralMLP
    else:
        actuon.save_network(LSTM(layers=2).eval(), path, num_layers=2, hidden_size=8, pos_scale=0.3)
        ours, theirs = actuon.ControllerNeuralLSTM, newton.actuators.DriveNeuralLSTM
    steps = steps_with_custom(20)
    assert_close(run(actuon.Actuator(range(N), ours(path)), steps), run(newton_actuator(theirs(str(path))), steps))


@pytest.mark.filterwarnings("ignore:Torch neural-drive checkpoints:DeprecationWarning")  # Newton reads them still
@pytest.mark.parametrize("kind", ["DriveNeuralMLP", "DriveNeuralLSTM", "DriveNeuralGRU"])
def test_networks_of_newtons_own_drives_as_stages(kind, tmp_path):
    """In place too; their states are PyTorch's, or Warp's."""
    path = tmp_path / ("net.onnx" if kind == "DriveNeuralGRU" else "net.pt2")
    if kind == "DriveNeuralMLP":
        actuon.save_network(mlp(), path, input_idx=[0, 2, 1], effort_scale=4.0)
    elif kind == "DriveNeuralLSTM":
        actuon.save_network(LSTM(layers=2).eval(), path, num_layers=2, hidden_size=8, pos_scale=0.3)
    else:
        pytest.importorskip("warp_nn")
        save_gru(path, newton_metadata(ALL), layers=2)
    drive = getattr(newton.actuators, kind)
    steps = steps_with_custom(20)
    expected = run(newton_actuator(drive(str(path))), steps)
    actuator = actuon.Actuator(range(N), drive(str(path)))
    np.testing.assert_array_equal(run(actuator, steps), expected)
    state, efforts = actuator.state(), []
    for signals in steps:
        sim = SimpleNamespace(**{name: wp.array(array) for name, array in signals.items()}, joint_f=wp.zeros(N))
        actuator.step(sim, sim, state, state, dt=DT)
        efforts.append(sim.joint_f.numpy())
    np.testing.assert_array_equal(efforts, expected)


def test_a_drive_of_newton_serves_actuators_of_any_size(tmp_path):
    """Its buffers are made for a number of DOFs: each actuator has a copy of it."""
    path = tmp_path / "net.onnx"
    actuon.save_network(mlp(), path, input_idx=[0, 2, 1])
    drive, steps = newton.actuators.DriveNeuralMLP(str(path)), steps_with_custom(4)
    alone = run(newton_actuator(newton.actuators.DriveNeuralMLP(str(path))), steps)
    first, second = (actuon.Actuator(range(N), drive) for _ in range(2))
    larger = actuon.Actuator(range(N + 1), drive)
    assert larger.controller.part is not first.controller.part
    for actuator in (first, second, first):
        np.testing.assert_array_equal(run(actuator, steps), alone)


def normalised(columns, signals):
    """Return the inputs of a network, written from Newton's description; shape (N, columns)."""
    q, qd, target_q, target_qd = (
        signals[name] for name in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")
    )
    values = {
        "position": q,
        "target_position": target_q,
        "position_error": target_q - q,
        "velocity": qd,
        "target_velocity": target_qd,
        "velocity_error": target_qd - qd,
        "bias_force": signals["bias_force"],
    }
    return np.stack([(values[c] - np.float32(MEANS[c])) / np.float32(STDS[c]) for c in columns], axis=1)


COLUMNS = ("bias_force", "velocity_error", "target_position")


def mlp_of_columns(path, module=None):
    """A network over three columns, now and two steps ago."""
    module = mlp(inputs=6, activation="tanh") if module is None else module
    options = {"input_columns": COLUMNS, "custom_inputs": ["bias_force"], "normalization": normalization()}
    actuon.save_network(module, path, input_idx=[0, 2], model_type="mlp", **options)
    return module


def fed_by_columns(module, steps):
    """Return the efforts of such a network, shape (steps, N)."""
    zero = dict.fromkeys(steps[0], np.zeros(N, np.float32))
    efforts = []
    for t, signals in enumerate(steps):
        past = steps[t - 2] if t >= 2 else zero
        x = np.stack([normalised(COLUMNS, signals), normalised(COLUMNS, past)], axis=2).reshape(N, -1)
        with torch.no_grad():
            efforts.append(3.0 * module(torch.from_numpy(x)).numpy()[:, 0] + 7.0)
    return np.array(efforts)


@pytest.mark.parametrize("suffix", [".pt", ".pt2", ".onnx", ".safetensors"])
def test_other_columns_with_a_history_in_every_format(suffix, tmp_path):
    path = tmp_path / f"net{suffix}"
    module = mlp_of_columns(path)
    steps = steps_with_custom(12)
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path))
    assert_close(run(actuator, steps), fed_by_columns(module, steps))
    assert set(actuator.state().controller_state.arrays()) == {
        "custom_bias_force_history",
        "velocity_error_history",
        "target_position_history",
    }


class Skipping(torch.nn.Module):
    """A skip connection, which only PyTorch can run."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 6), torch.nn.Linear(6, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)) + x)


def test_other_columns_of_a_network_that_pytorch_runs(tmp_path):
    path = tmp_path / "net.pt"
    module = mlp_of_columns(path, Skipping().eval())
    steps = steps_with_custom(6)
    with pytest.warns(UserWarning, match="PyTorch runs it"):
        controller = actuon.ControllerNeuralMLP(path)
    assert_close(run(actuon.Actuator(range(N), controller), steps), fed_by_columns(module, steps))


def test_custom_inputs_on_every_path(tmp_path):
    """Fused, stage by stage, behind a delay and sensors, called alone, and captured."""
    path = tmp_path / "net.onnx"
    save_gru(path, newton_metadata())
    steps = steps_with_custom(8)

    def make(**options):
        return actuon.Actuator(range(N), actuon.ControllerNeuralGRU(path), delay=actuon.Delay(1, 2), **options)

    fused = run(make(), steps)
    assert_close(run(make(fused=False), steps), fused)

    actuator = make()
    sim = {name: wp.zeros(N) for name in (*steps[0], "joint_f")}
    state = actuator.state()
    with wp.ScopedCapture(device="cpu") as captured:
        sim["joint_f"].zero_()
        actuator.step(sim, sim, state, state, dt=DT)
    state.reset()
    for signals, expected in zip(steps, fused, strict=True):
        for name, array in signals.items():
            sim[name].assign(array)
        wp.capture_launch(captured.graph)
        np.testing.assert_array_equal(sim["joint_f"].numpy(), expected)


def test_a_controller_alone_takes_custom_inputs(tmp_path):
    path = tmp_path / "net.onnx"
    save_gru(path, newton_metadata())
    (signals,) = steps_with_custom(1)
    controller = actuon.ControllerNeuralGRU(path)
    arrays = [wp.array(signals[n]) for n in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")]
    indices, forces = wp.array(range(N), dtype=wp.uint32), wp.zeros(N)
    state = controller.state(N, "cpu")
    given = (*arrays, None, indices, indices, indices, indices, forces, state, DT)
    controller.compute(*given, custom_inputs={"bias_force": wp.array(signals["bias_force"])})
    whole = run(actuon.Actuator(range(N), actuon.ControllerNeuralGRU(path)), [signals])
    assert_close(forces.numpy(), whole[0])
    with pytest.raises(actuon.MissingArrayError, match="custom_inputs .dict. has no array 'bias_force'"):
        controller.compute(*given)


def test_custom_inputs_are_read_at_the_indices_of_velocities(tmp_path):
    path = tmp_path / "net.onnx"
    save_gru(path, newton_metadata())
    (signals,) = steps_with_custom(1)
    order = np.random.default_rng(0).permutation(N)
    got = run(actuon.Actuator(order, actuon.ControllerNeuralGRU(path)), [signals])
    assert_close(got, run(actuon.Actuator(range(N), actuon.ControllerNeuralGRU(path)), [signals]))


def test_gradients_reach_custom_inputs(tmp_path):
    path = tmp_path / "net.safetensors"
    mlp_of_columns(path)
    steps = steps_with_custom(3)
    weights = [np.random.default_rng(t).standard_normal(N).astype(np.float32) for t in range(3)]
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path), requires_grad=True)
    sims = gradients(actuator, steps, weights)

    def objective(changed):
        efforts = run(actuon.Actuator(range(N), actuon.ControllerNeuralMLP(path)), changed)
        return float((efforts.astype(np.float64) * weights).sum(axis=0)[5])

    for name, eps in (("bias_force", 2e-3), ("joint_target_q", 2e-2), ("joint_qd", 2e-2)):
        sides = []
        for sign in (1.0, -1.0):
            changed = [{key: array.copy() for key, array in signals.items()} for signals in steps]
            changed[0][name][5] += sign * eps
            sides.append(objective(changed))
        expected = (sides[0] - sides[1]) / (2 * eps)
        assert sims[0][name].grad.numpy()[5] == pytest.approx(expected, rel=0.05, abs=2e-3), name


def test_a_missing_custom_input_is_named(tmp_path):
    path = tmp_path / "net.onnx"
    save_gru(path, newton_metadata())
    (signals,) = steps_with_custom(1)
    actuator = actuon.Actuator(range(N), actuon.ControllerNeuralGRU(path))
    state = actuator.state()
    del signals["bias_force"]
    sim = signals | {"joint_f": np.zeros(N, np.float32)}
    with pytest.raises(actuon.MissingArrayError, match="no array 'bias_force', an input of ControllerNeuralGRU"):
        actuator.step(sim, sim, state, state, dt=DT)
    with pytest.raises(actuon.ArrayError, match=r"sim_control.bias_force: has 3 entries"):
        actuator.step(sim, sim | {"bias_force": np.zeros(3, np.float32)}, state, state, dt=DT)


def test_a_constant_column_of_tiny_deviation_stays_exact(tmp_path):
    """The mean is taken off before the weights multiply: folded into a bias it would drown in rounding."""
    tight = normalization()
    tight["inputs"] = {"mean": MEANS | {"bias_force": 1000.1}, "std": STDS | {"bias_force": 1e-6}}
    path = tmp_path / "net.onnx"
    save_gru(path, newton_metadata(normalization=tight))
    plain = tmp_path / "plain.onnx"
    save_gru(plain, newton_metadata())
    steps = steps_with_custom(5)
    for signals in steps:
        signals["bias_force"][:] = 1000.1
    got = run(actuon.Actuator(range(N), actuon.ControllerNeuralGRU(path)), steps)
    for signals in steps:
        signals["bias_force"][:] = 40.0
    assert_close(got, run(actuon.Actuator(range(N), actuon.ControllerNeuralGRU(plain)), steps))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"input_columns": []}, r"input_columns: got \[\]"),
        ({"input_columns": "velocity"}, "input_columns: got 'velocity'"),
        ({"input_columns": ["velocity", "velocity"]}, "must be a list of different names"),
        ({"input_columns": ["velocity", "tempo"], "custom_inputs": []}, "input_columns: 'tempo' is neither"),
        ({"input_columns": ["velocity"]}, "'bias_force' is not in input_columns, velocity"),
        ({"custom_inputs": ["velocity"]}, "'velocity' is a built-in input"),
        ({"custom_inputs": ["bias force"]}, r"custom_inputs: got \['bias force'\]"),
        ({"input_order": "pos_vel"}, "has input_columns and input_order, which define the same"),
        ({"effort_scale": 2.0}, "has normalization and effort_scale"),
        ({"sample_dt_s": -1.0}, "sample_dt: got -1.0"),
        ({"sample_dt": DT}, "has sample_dt_s and sample_dt, which mean the same"),
        ({"normalization": {"inputs": {}}}, "normalization: got .*; must be an object with inputs and targets"),
        ({"normalization": {"inputs": {"mean": {}, "std": {}}, "targets": {"mean": {}, "std": {}}}}, "'position'"),
        ({"normalization": normalization() | {"scheme": 1}}, "must be an object with inputs and targets"),
        ({"hidden_size": 9}, "hidden_size: got 9; the file holds 5"),
        ({"num_layers": 2}, "num_layers: got 2; the file holds 1"),
        ({"output_name": "torque"}, "output_name: got 'torque'; the graph has: effort, next_h0"),
        ({"joint_names": ["a"]}, "the unknown entry 'joint_names'"),
        ({"input_colums": ["a"]}, "the unknown entry 'input_colums'.*Did you mean 'input_columns'"),
    ],
)
def test_metadata_that_cannot_be_honoured(changes, match, tmp_path):
    path = tmp_path / "net.onnx"
    save_gru(path, newton_metadata(**changes), inputs=len(ALL))
    with pytest.raises(actuon.ParameterError, match=rf"net\.onnx.*{match}"):
        actuon.NeuralControlConfig(str(path)).build()


def test_a_network_with_other_inputs_than_its_columns(tmp_path):
    save_gru(tmp_path / "net.onnx", newton_metadata(), inputs=3)
    with pytest.raises(actuon.ParameterError, match="has 3 inputs, but position, .*bias_force at steps .0,. make 7"):
        actuon.ControllerNeuralGRU(tmp_path / "net.onnx")
