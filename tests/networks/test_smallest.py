# SPDX-License-Identifier: Apache-2.0
"""The smallest networks there are, on every path: one input step, one unit, no hidden layer, no bias, no head."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.chains import SIGNALS, rollout
from tests.support.torch_networks import GRU, LSTM, Feeder, assert_close, fed, gradients, mlp, signals, torch_objective

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
N = 70


@dataclass
class Case:
    """A module, its controller's file and how PyTorch is fed."""

    module: torch.nn.Module
    kind: str
    options: dict
    path: str = ""

    def controller(self):
        cls = getattr(actuon, f"ControllerNeural{self.kind.upper()}")
        options = {"input_idx": self.options["input_idx"]} if "input_idx" in self.options else {}
        return cls(self.path, **options)

    @property
    def input_idx(self):
        return self.options.get("input_idx", (0,))

    def expected(self, n, steps):
        rnn = None if self.kind == "mlp" else (1, 1)
        return fed(Feeder(self.module, n, self.kind, input_idx=self.input_idx, rnn=rnn), steps)


SMALLEST = {
    "no hidden layer": lambda: Case(mlp(2, layers=0), "mlp", {}),
    "no hidden layer, no bias": lambda: Case(mlp(2, layers=0, bias=False), "mlp", {"input_idx": (0,)}),
    "one unit": lambda: Case(mlp(2, width=1, layers=1, activation="tanh"), "mlp", {}),
    "now twice": lambda: Case(mlp(4, layers=0), "mlp", {"input_idx": (0, 0)}),
    "one step ago alone": lambda: Case(mlp(2, layers=0), "mlp", {"input_idx": (1,)}),
    "now and one step ago": lambda: Case(mlp(4, layers=0), "mlp", {"input_idx": (0, 1)}),
    "lstm": lambda: Case(LSTM(hidden=1), "lstm", {}),
    "lstm, no bias": lambda: Case(LSTM(hidden=1, bias=False), "lstm", {}),
    "gru": lambda: Case(GRU(hidden=1), "gru", {}),
    "gru, no bias": lambda: Case(GRU(hidden=1, bias=False), "gru", {}),
    "lstm, no head": lambda: Case(LSTM(hidden=1, head=None), "lstm", {}),
    "gru, no head": lambda: Case(GRU(hidden=1, head=None), "gru", {}),
}


@pytest.fixture(params=SMALLEST)
def case(request, tmp_path):
    made = SMALLEST[request.param]()
    made.module.eval()
    made.path = str(tmp_path / "net.safetensors")
    actuon.save_network(made.module, made.path)
    return made


@pytest.mark.parametrize("stepping", ["two", "one"])
def test_fused(case, stepping):
    steps = signals(N, 5)
    actuator = actuon.Actuator(range(N), case.controller())
    assert actuator.is_fused()
    assert_close(rollout(actuator, steps, stepping=stepping), case.expected(N, steps))


def test_a_single_dof(case):
    steps = signals(1, 5)
    assert_close(rollout(actuon.Actuator([0], case.controller()), steps), case.expected(1, steps))


def test_captured(case):
    steps = signals(N, 3)
    actuator = actuon.Actuator(range(N), case.controller())
    sim = {name: wp.zeros(N, dtype=wp.float32) for name in (*SIGNALS, "joint_f")}
    first, second = actuator.state(), actuator.state()
    with wp.ScopedCapture(device="cpu") as captured:
        sim["joint_f"].zero_()
        actuator.step(sim, sim, first, second, dt=0.01)
        if first is not None:
            first.assign(second)
    for state in (first, second):
        if state is not None:
            state.reset()
    for values, expected in zip(steps, case.expected(N, steps), strict=True):
        for name, array in values.items():
            sim[name].assign(array)
        wp.capture_launch(captured.graph)
        assert_close(sim["joint_f"].numpy(), expected)


def test_strided_arrays(case):
    steps = signals(N, 4)
    actuator = actuon.Actuator(range(N), case.controller())
    current, following = actuator.state(), actuator.state()
    for values, expected in zip(steps, case.expected(N, steps), strict=True):
        columns = {name: wp.array(np.stack([array, array * np.nan], axis=1)) for name, array in values.items()}
        columns["joint_f"] = wp.zeros((N, 2), dtype=wp.float32)
        sim = SimpleNamespace(**{name: array[:, 0] for name, array in columns.items()})
        actuator.step(sim, sim, current, following, dt=0.01)
        assert_close(columns["joint_f"].numpy()[:, 0], expected)
        current, following = following, current


def test_compute(case):
    steps = signals(N, 4)
    controller = case.controller()
    controller.finalize("cpu", N)
    current, following = controller.state(N, "cpu"), controller.state(N, "cpu")
    indices = [wp.array(np.arange(N), dtype=wp.uint32)] * 4
    for values, expected in zip(steps, case.expected(N, steps), strict=True):
        forces = wp.array(np.full(N, np.nan, np.float32))
        arrays = [wp.array(values[name]) for name in SIGNALS]
        controller.compute(*arrays, *indices, forces, current, 0.01)
        controller.update_state(current, following)
        assert_close(forces.numpy(), expected)
        current, following = following, current


def test_gradient_through_several_steps(case):
    """Against PyTorch's own gradient in double precision."""
    n, count = 5, 3
    actuator = actuon.Actuator(range(n), case.controller(), requires_grad=True)
    steps = signals(n, count, seed=9)
    weights = [np.random.default_rng(t).standard_normal(n).astype(np.float32) for t in range(count)]
    sims = gradients(actuator, steps, weights)
    tensors = [{k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in s.items()} for s in steps]
    rnn = None if case.kind == "mlp" else (1, 1)
    torch_objective(case.module.double(), case.kind, rnn, tensors, weights, n, case.input_idx).backward()
    for sim, tensor in zip(sims, tensors, strict=True):
        for name in ("joint_q", "joint_qd", "joint_target_q", "joint_act"):
            grad = tensor[name].grad
            expected = np.zeros(n) if grad is None else grad.numpy()
            np.testing.assert_allclose(sim[name].grad.numpy(), expected, rtol=2e-3, atol=2e-3, err_msg=name)


def test_backward_leaves_the_state_as_it_is(case):
    actuator = actuon.Actuator(range(N), case.controller(), requires_grad=True)
    if not actuator.controller.is_stateful():
        pytest.skip("it has no state")
    before, after = actuator.state(), actuator.state()
    sim = {name: wp.array(array, requires_grad=True) for name, array in signals(N, 1)[0].items()}
    sim["joint_f"] = wp.zeros(N, dtype=wp.float32, requires_grad=True)
    with wp.Tape() as tape:
        actuator.step(sim, sim, before, after, dt=0.01)
    kept = [getattr(after.controller_state, name) for name in actuator.controller.STATES]
    for array in kept:
        array.fill_(7.0)
    tape.backward(grads={sim["joint_f"]: wp.ones(N, dtype=wp.float32)})
    assert all((array.numpy() == 7.0).all() for array in kept)
