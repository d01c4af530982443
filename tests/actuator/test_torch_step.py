# SPDX-License-Identifier: Apache-2.0
"""Steps that PyTorch differentiates, against central differences of many steps through the same actuator."""

from __future__ import annotations

import numpy as np
import pytest

import actuon

torch = pytest.importorskip("torch")
N = 5
STEPS = 4
DT = 0.005


def build(requires_grad=True):
    return actuon.Actuator(
        range(N),
        actuon.ControllerPID(np.linspace(20.0, 30.0, N), 4.0, 0.8),
        delay=actuon.Delay([0, 1, 2, 0, 1], 2),
        transmission=actuon.TransmissionGear(6.0, 0.9),
        clamping=[actuon.ClampingDCMotor(8.0, 60.0, 4.0)],
        requires_grad=requires_grad,
    )


def signals(rng):
    return {
        name: torch.tensor(rng.normal(0.0, 0.3, N).astype(np.float32), requires_grad=True)
        for name in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act")
    }


def rollout(actuator, steps, weights, parameters=None):
    memory, total = None, 0.0
    for sim, weight in zip(steps, weights, strict=True):
        effort, memory = actuon.torch.step(actuator, sim, sim, memory, DT, parameters=parameters)
        total = total + (weight * effort).sum()
    return total


def test_gradients_through_several_steps(rng):
    actuator = build()
    steps = [signals(rng) for _ in range(STEPS)]
    weights = [torch.tensor(rng.normal(size=N).astype(np.float32)) for _ in range(STEPS)]
    kp = torch.tensor(np.linspace(20.0, 30.0, N).astype(np.float32), requires_grad=True)
    ratio = torch.tensor(6.0, requires_grad=True)
    parameters = {"controller.kp": kp, "transmission.ratio": ratio}
    rollout(actuator, steps, weights, parameters).backward()

    def difference(tensor, i, h):
        kept = tensor.detach().clone()
        values = []
        for sign in (1.0, -1.0):
            with torch.no_grad():
                tensor.view(-1)[i] = kept.view(-1)[i] + sign * h
                values.append(float(rollout(actuator, steps, weights, parameters)))
                tensor.copy_(kept)
        return (values[0] - values[1]) / (2.0 * h)

    for t in range(STEPS):
        for name, tensor in steps[t].items():
            expected = [difference(tensor, i, 2e-3) for i in range(N)]
            np.testing.assert_allclose(tensor.grad, expected, rtol=2e-2, atol=2e-2, err_msg=f"{name} of step {t}")
    np.testing.assert_allclose(kp.grad, [difference(kp, i, 0.05) for i in range(N)], rtol=2e-2, atol=2e-3)
    np.testing.assert_allclose(ratio.grad, difference(ratio, 0, 0.01), rtol=2e-2, atol=2e-3)


def test_gradients_of_steps_at_the_speeds_they_end_with(rng):
    """A closed loop of three steps, by the matrix of a robot, an acceleration, and a gain."""
    actuator = build()
    sims = [signals(rng) for _ in range(3)]
    weight = torch.tensor(rng.normal(size=N).astype(np.float32))
    roots = rng.normal(size=(N, N))
    given = {
        "inverse": torch.tensor((30.0 * np.eye(N) + roots @ roots.T)[None].astype(np.float32)),
        "acceleration": torch.tensor(rng.normal(0.0, 5.0, N).astype(np.float32)),
        "kp": torch.tensor(np.linspace(20.0, 30.0, N).astype(np.float32)),
    }

    def loss(inverse, acceleration, kp):
        memory, q, qd = None, sims[0]["joint_q"].detach(), sims[0]["joint_qd"].detach()
        for sim in sims:
            state = {"joint_q": q, "joint_qd": qd}
            response = {"inverse_inertia": inverse, "acceleration": acceleration}
            gains = {"controller.kp": kp}
            effort, memory = actuon.torch.step(actuator, state, sim, memory, 0.02, parameters=gains, response=response)
            qd = qd + 0.02 * (acceleration + inverse[0] @ effort)
            q = q + 0.02 * qd
        return (weight * qd).sum()

    tensors = {name: tensor.clone().requires_grad_() for name, tensor in given.items()}
    loss(**tensors).backward()
    for name, h in (("inverse", 1e-2), ("acceleration", 5e-2), ("kp", 0.1)):
        expected = np.empty(given[name].numel())
        for i in range(len(expected)):
            sides = []
            for sign in (1.0, -1.0):
                moved = given[name].clone()
                moved.view(-1)[i] += sign * h
                with torch.no_grad():
                    sides.append(float(loss(**given | {name: moved})))
            expected[i] = (sides[0] - sides[1]) / (2.0 * h)
        found = tensors[name].grad.flatten().numpy()
        np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-2 * np.abs(expected).max(), err_msg=name)


def test_the_same_efforts_as_the_plain_step(rng):
    taped, plain = build(), build(requires_grad=False)
    states, memory = [plain.state(), plain.state()], None
    for _ in range(STEPS):
        sim = signals(rng)
        effort, memory = actuon.torch.step(taped, sim, sim, memory, DT)
        given = {name: tensor.detach() for name, tensor in sim.items()} | {"joint_f": torch.zeros(N)}
        plain.step(given, given, *states, DT)
        states.reverse()
        np.testing.assert_allclose(effort.detach(), given["joint_f"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["kp", "controller.kp"])
def test_parameters_that_change_between_steps_are_those_of_each_step(name, rng):
    actuator = actuon.Actuator(range(N), actuon.ControllerPD(1.0, 0.0), requires_grad=True)
    gains = [torch.full((N,), value, requires_grad=True) for value in (10.0, 20.0)]
    sims = [signals(rng) for _ in gains]
    efforts = [
        actuon.torch.step(actuator, sim, sim, parameters={name: kp})[0] for sim, kp in zip(sims, gains, strict=True)
    ]
    sum(effort.sum() for effort in efforts).backward()
    for sim, kp in zip(sims, gains, strict=True):
        np.testing.assert_allclose(sim["joint_q"].grad, -kp.detach())
        error = (sim["joint_target_q"] - sim["joint_q"]).detach()
        np.testing.assert_allclose(kp.grad, error, atol=1e-6)
    np.testing.assert_allclose(actuator.controller.kp.numpy(), 1.0)


def test_parameters_that_are_set_between_steps_are_those_of_each_step():
    actuator = actuon.Actuator([0], actuon.ControllerPD(1.0, 0.0), requires_grad=True)
    zero, q = torch.zeros(1), torch.zeros(1, requires_grad=True)
    control = {"joint_target_q": torch.ones(1), "joint_target_qd": zero}
    total = 0.0
    for kp in (20.0, 40.0, 80.0):
        actuator.controller.kp.fill_(kp)
        total = total + actuon.torch.step(actuator, {"joint_q": q, "joint_qd": zero}, control)[0].sum()
    (gradient,) = torch.autograd.grad(total, q)
    np.testing.assert_array_equal(gradient, -140.0)
    np.testing.assert_array_equal(actuator.controller.kp.numpy(), 80.0)


def test_parameters_that_are_set_after_the_steps_do_not_change_gradients(rng):
    actuator, same = build(), build()
    steps = [signals(rng) for _ in range(STEPS)]
    weights = [torch.ones(N)] * STEPS
    expected = torch.autograd.grad(rollout(same, steps, weights), steps[0]["joint_q"])
    total = rollout(actuator, steps, weights)
    actuator.controller.kp = 7.0
    actuator.delay.delay_steps.fill_(0)
    np.testing.assert_array_equal(torch.autograd.grad(total, steps[0]["joint_q"])[0], expected[0])
    np.testing.assert_array_equal(actuator.controller.kp.numpy(), 7.0)


def test_checkpoints(rng):
    from torch.utils.checkpoint import checkpoint

    actuator, sim = build(), signals(rng)
    wanted = [sim["joint_q"], sim["joint_target_q"]]

    def twice(*tensors):
        inputs = dict(zip(sim, tensors, strict=True))
        first, memory = actuon.torch.step(actuator, inputs, inputs, dt=DT)
        return first + actuon.torch.step(actuator, inputs, inputs, memory, DT)[0]

    expected = torch.autograd.grad(twice(*sim.values()).sum(), wanted)
    actual = torch.autograd.grad(checkpoint(twice, *sim.values(), use_reentrant=False).sum(), wanted)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_second_derivatives_are_an_error(rng):
    actuator, sim = build(), signals(rng)
    q = sim["joint_q"]

    def effort(q):
        return actuon.torch.step(actuator, sim | {"joint_q": q}, sim, dt=DT)[0].square().sum()

    with pytest.raises(actuon.StructureError, match="has no second derivatives; for a Hessian"):
        torch.autograd.functional.hessian(effort, q.detach())
    (first,) = torch.autograd.grad(effort(q), q, create_graph=True)
    np.testing.assert_array_equal(first.detach(), torch.autograd.grad(effort(q), q)[0])
    with pytest.raises(actuon.StructureError, match="has no second derivatives"):
        first.sum().backward()


def test_parameters_of_one_step_are_not_those_of_another(rng):
    """Parameters stay apart if the backward pass comes later, or if the step fails."""
    actuator = build()
    own = actuator.controller.kp.numpy()
    sims = [signals(rng) for _ in range(3)]
    gains = [None, {"controller.kp": torch.full((N,), 3.0)}, None]
    runs = [actuon.torch.step(actuator, sim, sim, dt=DT, parameters=p)[0] for sim, p in zip(sims, gains, strict=True)]
    sum(effort.sum() for effort in runs).backward()
    for sim, parameters in zip(sims, gains, strict=True):
        alone = {name: tensor.detach().requires_grad_() for name, tensor in sim.items()}
        actuon.torch.step(build(), alone, alone, dt=DT, parameters=parameters)[0].sum().backward()
        np.testing.assert_array_equal(sim["joint_q"].grad, alone["joint_q"].grad)
    with pytest.raises(actuon.ActuonError, match="joint_target_q"):
        actuon.torch.step(actuator, sims[0], {}, dt=DT, parameters=gains[1])
    np.testing.assert_array_equal(actuator.controller.kp.numpy(), own)


def test_tensors_of_any_shape_and_a_chain_without_memory(rng):
    actuator = actuon.Actuator(range(6), actuon.ControllerPD(10.0, 1.0), requires_grad=True)
    zeros = torch.zeros(2, 3)
    q = torch.randn(2, 3, requires_grad=True)
    control = {"joint_target_q": zeros, "joint_target_qd": zeros}
    effort, memory = actuon.torch.step(actuator, {"joint_q": q, "joint_qd": zeros}, control)
    assert memory is None
    assert effort.shape == (2, 3)
    effort.sum().backward()
    np.testing.assert_allclose(q.grad, -10.0 * torch.ones(2, 3))


def test_a_state_is_where_gradients_begin_and_is_not_touched(rng):
    actuator = build()
    state = actuator.state()
    first = state.to_arrays()
    sim = signals(rng)
    _, memory = actuon.torch.step(actuator, sim, sim, state, DT)
    np.testing.assert_equal(state.to_arrays(), first)
    effort, _ = actuon.torch.step(actuator, sim, sim, memory, DT)
    effort.sum().backward()
    assert sim["joint_q"].grad.abs().sum() > 0.0


def test_the_plain_step_names_this_one(rng):
    actuator = build(requires_grad=False)
    sim = signals(rng) | {"joint_f": torch.zeros(N)}
    with pytest.raises(actuon.ArrayError, match=r"use actuon\.torch\.step\(actuator"):
        actuator.step(sim, sim, actuator.state(), actuator.state(), DT)


def same_twice(actuator):
    position = actuator.stages.index(actuator.controller)
    return "controller.kp", f"{position}.kp"


def test_bad_input(rng):
    actuator, sim = build(), signals(rng)
    with pytest.raises(actuon.StructureError, match="requires_grad=True"):
        actuon.torch.step(build(requires_grad=False), sim, sim, dt=DT)
    with pytest.raises(actuon.ArrayTypeError, match=r"sim_state\.joint_q: got dtype torch\.float64"):
        actuon.torch.step(actuator, sim | {"joint_q": sim["joint_q"].double()}, sim, dt=DT)
    with pytest.raises(actuon.ArrayTypeError, match=r"sim_state\.joint_q: got NoneType"):
        actuon.torch.step(actuator, {}, sim, dt=DT)
    with pytest.raises(actuon.MissingArrayError, match="joint_target_q"):
        actuon.torch.step(actuator, sim, {}, dt=DT)
    with pytest.raises(actuon.ParameterError, match=r"no 'controller\.kq'.*Did you mean 'controller\.kp'"):
        actuon.torch.step(actuator, sim, sim, dt=DT, parameters={"controller.kq": torch.zeros(N)})
    with pytest.raises(actuon.ParameterError, match=r"no 'stiffness'; parameters: .*controller\.kp"):
        actuon.torch.step(actuator, sim, sim, dt=DT, parameters={"stiffness": torch.zeros(N)})
    twice = [actuon.EffectFriction(dynamic=0.1, viscous=0.1, inertia=1.0) for _ in range(2)]
    rubbing = actuon.Actuator(range(N), actuon.ControllerPD(1.0, 0.0), effects=twice, requires_grad=True)
    with pytest.raises(actuon.ParameterError, match=r"several stages have 'viscous'; must be one of .*2\.viscous"):
        actuon.torch.step(rubbing, sim, sim, dt=DT, parameters={"viscous": torch.zeros(N)})
    with pytest.raises(
        actuon.ParameterError, match=r"friction\.viscous: several .*one of friction_1\.viscous, friction_2"
    ):
        actuon.torch.step(rubbing, sim, sim, dt=DT, parameters={"friction.viscous": torch.zeros(N)})
    with pytest.raises(actuon.ArrayError, match=r"controller\.kp.*got shape \(3,\)"):
        actuon.torch.step(actuator, sim, sim, dt=DT, parameters={"controller.kp": torch.zeros(3)})
    for parameters, said in (
        ([torch.zeros(N)], "parameters: got list; must be a dict of tensors by name"),
        ({3: torch.zeros(N)}, "parameters: no '3'"),
        ({"controller.kp": torch.zeros(N).double()}, r"\['controller.kp'\]: got dtype torch.float64; must be"),
        ({"controller.kp": torch.zeros(N, device="meta")}, r"\['controller.kp'\]: got a tensor on 'meta'"),
        (dict.fromkeys(same_twice(actuator), torch.zeros(N)), "are the same parameter; pass only one"),
    ):
        with pytest.raises(actuon.ActuonError, match=said):
            actuon.torch.step(actuator, sim, sim, dt=DT, parameters=parameters)
    for joint_q, said in (
        (torch.zeros(N, device="meta"), "joint_q: got a tensor on 'meta'"),
        (torch.zeros(N).to_sparse(), "joint_q: got the layout torch.sparse_coo; must be dense"),
    ):
        with pytest.raises(actuon.ArrayError, match=said):
            actuon.torch.step(actuator, sim | {"joint_q": joint_q}, sim, dt=DT)
    for response, said in (
        (torch.tensor(1.0), r"response\['inverse_inertia'\]: got one number; must have one per DOF"),
        (3.0, r"response\['inverse_inertia'\]: got float; must be a PyTorch tensor"),
    ):
        with pytest.raises(actuon.ArrayError, match=said):
            actuon.torch.step(actuator, sim, sim, dt=DT, response=response)
    with pytest.raises(actuon.StructureError, match="got str; must be an Actuator"):
        actuon.torch.step("knee", sim, sim, dt=DT)
    with pytest.raises(actuon.ParameterError, match=r"response: no 'inertia'; names: inverse_inertia"):
        actuon.torch.step(actuator, sim, sim, dt=DT, response={"inertia": torch.ones(N)})
    with pytest.raises(actuon.ParameterError, match="response: got .*; must have 'inverse_inertia'"):
        actuon.torch.step(actuator, sim, sim, dt=DT, response={"effort": torch.ones(N)})
    with pytest.raises(actuon.ArrayTypeError, match=r"response\['inverse_inertia'\]: got dtype torch\.float64"):
        actuon.torch.step(actuator, sim, sim, dt=DT, response=torch.ones(N).double())
    _, memory = actuon.torch.step(build(), sim, sim, dt=DT)
    with pytest.raises(actuon.StateError, match="another actuator"):
        actuon.torch.step(actuator, sim, sim, memory, DT)
    with pytest.raises(actuon.StateError, match="got int"):
        actuon.torch.step(actuator, sim, sim, 3, DT)


@pytest.mark.parametrize("n", [1, 2])
def test_gradients_of_a_sum(n):
    """`sum` sends back one number that is expanded, of stride 0."""
    actuator = actuon.Actuator(range(n), actuon.ControllerPD(np.full(n, 3.0), 0.0), requires_grad=True)
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")
    sim = {name: torch.zeros(n) for name in names}
    sim["joint_target_q"].requires_grad_()
    effort, _ = actuon.torch.step(actuator, sim, sim, dt=DT)
    effort.sum().backward()
    np.testing.assert_allclose(sim["joint_target_q"].grad.numpy(), 3.0)
