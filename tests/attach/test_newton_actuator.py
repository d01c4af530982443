# SPDX-License-Identifier: Apache-2.0
"""`actuon.newton.Actuator` as users of Newton's own write it, compared with Newton's own."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import actuon

newton = pytest.importorskip("newton")
pytest.importorskip("actuon.newton")
JointSpaceResponse = pytest.importorskip("newton.actuators").JointSpaceResponse
H = 0.01


def chain(worlds=2, links=3, free=False):
    """Return a model of hanging chains, each a world."""
    builder = newton.ModelBuilder(gravity=(0.0, 0.0, -9.81))
    one = newton.ModelBuilder()
    parent, joints = -1, []
    if free:
        parent = one.add_link(mass=5.0, inertia=wp.mat33(0.2 * np.eye(3)))
        joints.append(one.add_joint_free(child=parent))
    for i in range(links):
        link = one.add_link(mass=1.0 - 0.2 * i, inertia=wp.mat33(0.02 * np.eye(3)), com=wp.vec3(0.2, 0.0, 0.0))
        frame = wp.transform(wp.vec3(0.4 if i else 0.0, 0.0, 0.0), wp.quat_identity())
        joints.append(one.add_joint_revolute(parent=parent, child=link, axis=newton.Axis.Y, parent_xform=frame))
        parent = link
    one.add_articulation(joints)
    for _ in range(worlds):
        builder.add_world(one)
    return builder.finalize(device="cpu")


def dofs_of(model, count, worlds):
    """Return the last ``count`` DOFs of each world."""
    per_world = model.joint_dof_count // worlds
    return np.array([world * per_world + per_world - count + i for world in range(worlds) for i in range(count)])


def built(module, model, dofs, limit=None):
    """Return an actuator of Actuon's or Newton's classes."""
    n, rng = len(dofs), np.random.default_rng(3)
    kp, kd = (wp.array(rng.uniform(*ends, n).astype(np.float32), device="cpu") for ends in ((200, 900), (5, 30)))
    positions = []
    starts, coordinates = model.joint_qd_start.numpy(), model.joint_q_start.numpy()
    for dof in dofs:
        joint = int(np.searchsorted(starts, dof, side="right")) - 1
        positions.append(coordinates[joint] + dof - starts[joint])
    clamps = [] if limit is None else [module.ClampingMaxEffort(wp.full(n, limit, dtype=wp.float32, device="cpu"))]
    drive = module.DrivePD(kp, kd)
    indices, pos = (wp.array(np.array(at, np.uint32), device="cpu") for at in (dofs, positions))
    options = {"pos_indices": pos, "target_pos_indices": pos}
    return module.Actuator(indices, drive, clamping=clamps, **options)


def moved(model, seed=1):
    state, control, rng = model.state(), model.control(), np.random.default_rng(seed)
    q = state.joint_q.numpy().copy()
    q[-3:] += rng.uniform(-0.4, 0.4, 3)
    state.joint_q.assign(q)
    state.joint_qd.assign(rng.uniform(-1.0, 1.0, model.joint_dof_count).astype(np.float32))
    control.joint_target_q.assign((q + rng.uniform(-0.3, 0.3, len(q))).astype(np.float32))
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    return state, control


def effort(actuator, model, bias=None, options=None, **named):
    state, control = moved(model)
    response = JointSpaceResponse(model)
    response.refresh(state)
    actuator.set_effort_mode_implicit(response, options)
    control.joint_f.zero_()
    actuator.step(state, control, dt=H, bias_force=bias, **named)
    return control.joint_f.numpy().copy()


@pytest.mark.parametrize("limit", [None, 15.0])
@pytest.mark.parametrize(("worlds", "count", "free"), [(1, 3, False), (2, 3, False), (2, 1, False), (2, 2, True)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_implicit_efforts_are_those_of_newton(worlds, count, free, limit, with_bias):
    model = chain(worlds, free=free)
    dofs = dofs_of(model, count, worlds)
    bias = None
    if with_bias:
        numbers = np.random.default_rng(5).uniform(-3.0, 3.0, model.joint_dof_count).astype(np.float32)
        bias = wp.array(numbers, device="cpu")
    expected = effort(built(newton.actuators, model, dofs, limit), model, bias)
    got = effort(built(actuon.newton, model, dofs, limit), model, bias)
    assert np.abs(expected[dofs]).max() > 1.0
    np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)


def test_explicit_again_and_with_the_other_response():
    model = chain(1)
    dofs = dofs_of(model, 3, 1)
    actuator, own = built(actuon.newton, model, dofs), built(newton.actuators, model, dofs)
    implicit = effort(actuator, model)
    state, control = moved(model)
    for each in (actuator, own):
        each.set_effort_mode_explicit()
    efforts = []
    for each in (actuator, own):
        control.joint_f.zero_()
        each.step(state, control, dt=H)
        efforts.append(control.joint_f.numpy().copy())
    np.testing.assert_allclose(*efforts, rtol=1e-5)
    assert not np.allclose(implicit, efforts[0], rtol=0.05)
    actuator.set_effort_mode_implicit(np.ones(3, np.float32))
    control.joint_f.zero_()
    actuator.step(state, control, dt=H)
    assert not np.allclose(control.joint_f.numpy(), efforts[0], rtol=1e-3)


def test_a_captured_graph_reads_the_refreshed_response():
    model = chain(2)
    dofs = dofs_of(model, 3, 2)
    actuator, response = built(actuon.newton, model, dofs), JointSpaceResponse(model)
    expected = effort(built(actuon.newton, model, dofs), model)
    state, control = moved(model)
    actuator.set_effort_mode_implicit(response)
    response.refresh(state)
    actuator.step(state, control, dt=H)
    with wp.ScopedCapture(device="cpu") as captured:
        control.joint_f.zero_()
        actuator.step(state, control, dt=H)
    wp.capture_launch(captured.graph)
    np.testing.assert_allclose(control.joint_f.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_what_implicit_efforts_refuse():
    model = chain(1)
    dofs = dofs_of(model, 3, 1)
    actuator, response = built(actuon.newton, model, dofs), JointSpaceResponse(model)
    options = actuon.newton.Actuator.ImplicitOptions
    for bad, message in (
        (options(warm_start="Zero"), "options.warm_start: got 'Zero'; must be one of explicit, zero"),
        (options(fd_epsilon=0.0), "options.fd_epsilon: got 0.0; must be > 0"),
        (options(ls_iterations=-1), "options.ls_iterations: got -1; must be a whole number ≥ 0"),
        (7, "options: got int; must be Actuator.ImplicitOptions"),
    ):
        with pytest.raises(actuon.ParameterError, match=message):
            actuator.set_effort_mode_implicit(response, bad)
    with pytest.raises(actuon.ParameterError, match="options: are for a JointSpaceResponse"):
        actuator.set_effort_mode_implicit(np.ones(3, np.float32), options())
    actuator.set_effort_mode_implicit(response)
    with pytest.raises(actuon.StateError, match=r"dt: got 0\.0; implicit efforts need a time step > 0"):
        actuator.step(model.state(), model.control(), dt=0.0)
    with pytest.raises(actuon.ArrayError, match=r"bias_force: got shape \(1,\).*must be \(3,\)"):
        actuator.step(model.state(), model.control(), dt=H, bias_force=wp.zeros(1, dtype=wp.float32, device="cpu"))
    with pytest.raises(TypeError, match="bias_force: got list; must be a Warp array"):
        actuator.step(model.state(), model.control(), dt=H, bias_force=[0.0] * 3)

    class Own(actuon.ControllerPD):
        def compute(self, *arguments, **named):
            super().compute(*arguments, **named)

    with pytest.raises(actuon.StructureError, match="implicit efforts: the effort has no derivatives: Own"):
        actuon.newton.Actuator(dofs, Own(1.0, 1.0)).set_effort_mode_implicit(response)
    floating = chain(1, free=True)
    with pytest.raises(actuon.ParameterError, match="DOF 0 is of a FREE joint, whose positions are a quaternion"):
        actuon.newton.Actuator([0], actuon.ControllerPD(1.0, 1.0)).set_effort_mode_implicit(
            JointSpaceResponse(floating)
        )


def test_containers_have_the_fields_that_a_step_reads():
    actuator = actuon.newton.Actuator([0], actuon.ControllerPD(2.0, 0.0), control_computed_output_attr="raw")
    state, control = actuator.sim_state(), actuator.sim_control()
    assert (state.joint_q, state.joint_qd) == (None, None)
    for holder, names in (
        (state, ("joint_q", "joint_qd")),
        (control, ("joint_target_q", "joint_target_qd", "joint_f", "raw")),
    ):
        for name in names:
            setattr(holder, name, np.zeros(1, np.float32))
    control.joint_target_q[:] = 3.0
    actuator.step(state, control)
    assert (control.joint_f[0], control.raw[0], control.joint_act) == (6.0, 6.0, None)
    with pytest.raises(AttributeError):
        control.unknown = 1.0


def test_states_are_built_by_field():
    """Arrays that are passed stay those of the state, which a drive reads and writes."""
    n, at = 2, wp.array([0, 1], dtype=wp.uint32, device="cpu")
    drive = actuon.newton.DrivePID(kp=0.0, ki=10.0, kd=0.0)
    integral, after = (wp.array(values, dtype=wp.float32, device="cpu") for values in ([0.5, 1.0], [0.0, 0.0]))
    current, following = drive.State(integral=integral), drive.State(integral=after)
    zeros, forces = wp.zeros(n, dtype=wp.float32, device="cpu"), wp.zeros(n, dtype=wp.float32, device="cpu")
    targets = wp.full(n, 1.0, dtype=wp.float32, device="cpu")
    drive.finalize("cpu", n)
    drive.compute(zeros, zeros, targets, zeros, None, at, at, at, at, forces, current, 0.1)
    np.testing.assert_allclose(forces.numpy(), [6.0, 11.0], rtol=1e-6)
    drive.update_state(current, following)
    np.testing.assert_allclose(after.numpy(), [0.6, 1.1], rtol=1e-6)
    np.testing.assert_allclose(integral.numpy(), [0.5, 1.0])
    both = actuon.newton.Actuator.State(drive_state=current)
    both.assign(actuon.newton.Actuator.State(drive_state=following))
    np.testing.assert_allclose(integral.numpy(), [0.6, 1.1], rtol=1e-6)
    both.reset(wp.array([True, False], dtype=wp.bool, device="cpu"))
    np.testing.assert_allclose(integral.numpy(), [0.0, 1.1], rtol=1e-6)
    with pytest.raises(actuon.StateError, match=r"State\.integral: got list; must be a Warp array"):
        drive.State(integral=[0.0, 0.0])
    with pytest.raises(actuon.StateError, match="cannot assign"):
        both.assign(actuon.newton.Actuator.State())
    actuator = actuon.newton.Actuator(range(n), drive)
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
    sim = {name: np.zeros(n, np.float32) for name in names}
    with pytest.raises(actuon.StateError, match="pass a state from this actuator's state"):
        actuator.step(sim, sim, both, both, dt=0.1)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_feedforward_of_recurrent_networks_and_their_states(kind, tmp_path):
    """A GRU takes ``joint_act`` only as a named input; states have Newton's shape, (layers, N, units)."""
    torch_networks = pytest.importorskip("tests.support.torch_networks")
    module = getattr(torch_networks, kind.upper())(layers=2, hidden=4)
    actuon.save_network(module.eval(), tmp_path / "net.safetensors")
    drive = getattr(actuon.newton, f"DriveNeural{kind.upper()}")(tmp_path / "net.safetensors")
    actuator = actuon.newton.Actuator(range(3), drive)
    efforts = []
    for feedforward in (0.0, 5.0):
        names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f", "joint_act")
        sim = {name: np.zeros(3, np.float32) for name in names}
        sim["joint_q"][:], sim["joint_act"][:] = [0.1, 0.2, 0.3], feedforward
        state = actuator.state()
        actuator.step(sim, sim, state, state, dt=0.01)
        efforts.append(sim["joint_f"])
    np.testing.assert_allclose(efforts[1] - efforts[0], 0.0 if kind == "gru" else 5.0, atol=1e-5)
    hidden = state.drive_state.hidden
    assert hidden.shape == (2, 3, 4)
    assert np.unique(hidden.numpy()[0, :, 0]).size == 3
    hidden.fill_(0.25)
    np.testing.assert_array_equal(state.drive_state.to_arrays()["hidden"], 0.25)
