# SPDX-License-Identifier: Apache-2.0
"""DriveActuon in newton.actuators.Actuator, beside Actuon's own actuator and Newton's own drives."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.chains import random_signals
from tests.support.torch_networks import LSTM, mlp

newton = pytest.importorskip("newton")
actuators = newton.actuators
DriveActuon = pytest.importorskip("actuon.newton").DriveActuon

DT = 0.005
N = 37
PD = actuon.PDControlConfig(kp=40.0, kd=1.0)
ENVELOPE = actuon.DCMotorClampingConfig(saturation_effort=6.0, velocity_limit=70.0, max_motor_effort=4.0)
GEAR = actuon.GearTransmissionConfig(9.0, efficiency=0.9, rotor_inertia=2e-5)
FRICTION = actuon.FrictionEffectConfig(dynamic=0.2, viscous=0.02, inertia=0.01)
HOT = [
    actuon.BatteryClampingConfig(full_voltage=24.0, inner_resistance=0.1, capacity=50.0, empty_voltage=18.0),
    actuon.HeatClampingConfig(
        winding_thermal_resistance=1.0,
        housing_thermal_resistance=3.0,
        winding_time_constant=0.1,
        housing_time_constant=3.0,
        motor_constant=0.2,
        max_effort=20.0,
    ),
    actuon.VoltageClampingConfig(torque_constant=0.5, resistance=0.5),
]
CONFIGS = {
    "pd": actuon.ActuatorConfig(PD),
    "motor": actuon.ActuatorConfig(PD, [ENVELOPE], delay=actuon.DelayConfig(3), transmission=GEAR, effects=[FRICTION]),
    "pid": actuon.ActuatorConfig(actuon.PIDControlConfig(40.0, 20.0, 1.0, 0.1), [actuon.MaxEffortClampingConfig(20.0)]),
    "hot": actuon.ActuatorConfig(PD, HOT),
    "held": actuon.ActuatorConfig(PD, delay=actuon.DelayConfig(2), control_every=3),
}


def chain(name, folder):
    """A chain by name: one of `CONFIGS`, a network, or one with a kernel of its own."""
    if name in CONFIGS:
        return CONFIGS[name]
    if name == "staged":
        gains = [wp.full(N, value, dtype=wp.float32) for value in (40.0, 1.0)]
        return actuon.ActuatorConfig(actuators.DrivePD(*gains), [ENVELOPE], delay=actuon.DelayConfig(2))
    path = folder / f"{name}.safetensors"
    if name == "lstm":
        actuon.save_network(LSTM(), path)
    else:
        actuon.save_network(mlp(inputs=6), path, input_idx=[0, 1, 2])
    return actuon.ActuatorConfig(actuon.NeuralControlConfig(path), [ENVELOPE])


def index_array(numbers):
    return wp.array(np.asarray(numbers), dtype=wp.uint32)


def in_newton(config, n=N, **options):
    """A chain in Newton's own actuator."""
    return actuators.Actuator(index_array(range(n)), drive=DriveActuon(config), **options)


def simulation(signals, efforts):
    """State and control of a simulation over copies of arrays."""
    return SimpleNamespace(**{name: wp.array(value) for name, value in (signals | {"joint_f": efforts}).items()})


def steps_of(count, rng, n=N):
    """Signals of some steps, and what stands in the output before each."""
    return [(random_signals(n, rng), rng.standard_normal(n).astype(np.float32)) for _ in range(count)]


def efforts_of(actuator, steps, masks=None, stepping="two"):
    """Return the output after each step, shape (T, n)."""
    first, second = actuator.state(), actuator.state()
    found = []
    for t, (signals, efforts) in enumerate(steps):
        for state in (first, second) if masks is not None and t in masks else ():
            state.reset(wp.array(masks[t]))
        sim = simulation(signals, efforts)
        actuator.step(sim, sim, first, first if stepping == "one" else second, DT)
        if stepping == "two":
            first, second = second, first
        found.append(sim.joint_f.numpy())
    return np.array(found)


@pytest.mark.parametrize("stepping", ["two", "one"])
@pytest.mark.parametrize("name", [*CONFIGS, "lstm", "mlp", "staged"])
def test_same_bits_as_an_actuator_of_ours(name, stepping, rng, tmp_path):
    """Through indices in any order, with DOFs that nothing drives, and resets of some."""
    config, places = chain(name, tmp_path), 60
    dofs, coordinates, targets = (index_array(rng.permutation(places)[:N]) for _ in range(3))
    through = {"pos_indices": coordinates, "target_pos_indices": targets}
    drive = DriveActuon(config)
    theirs = actuators.Actuator(dofs, drive=drive, **through)
    ours = actuon.Actuator(dofs, stages=config.stages, control_every=config.control_every, **through)
    steps = steps_of(20, rng, places)
    masks = {7: rng.random(N) < 0.4, 13: rng.random(N) < 0.4} if theirs.is_stateful() else None
    expected = efforts_of(ours, steps, masks)
    np.testing.assert_array_equal(efforts_of(theirs, steps, masks, stepping), expected)
    assert np.ptp(expected - np.array([before for _, before in steps]), axis=0).astype(bool).sum() == N
    assert theirs.is_stateful() == ours.is_stateful()
    assert theirs.is_graphable()


def test_parameters_of_each_dof(rng):
    """Components with arrays; read and written while it runs."""
    kp = rng.uniform(10.0, 90.0, N).astype(np.float32)
    limits = rng.uniform(1.0, 20.0, N).astype(np.float32)
    stages = [actuon.ControllerPD(kp, 1.0), actuon.ClampingMaxEffort(limits)]
    theirs = actuators.Actuator(index_array(range(N)), drive=DriveActuon(stages))
    ours = actuon.Actuator(range(N), stages=stages)
    steps = steps_of(3, rng)
    np.testing.assert_array_equal(efforts_of(theirs, steps), efforts_of(ours, steps))
    drive = theirs.drive
    np.testing.assert_array_equal(drive.kp.numpy(), kp)
    np.testing.assert_array_equal(drive.actuator.clamping[0].max_effort.numpy(), limits)
    drive.kp.fill_(3.0)
    drive.kd = np.full(N, 2.0, np.float32)
    ours.controller.kp, ours.controller.kd = 3.0, 2.0
    np.testing.assert_array_equal(efforts_of(theirs, steps), efforts_of(ours, steps))
    with pytest.raises(AttributeError, match="'DriveActuon' has no attribute 'ki'"):
        _ = drive.ki
    with pytest.raises(ValueError, match="got 2 values"):
        actuators.Actuator(index_array(range(N)), drive=DriveActuon([actuon.ControllerPD([1.0, 2.0], 1.0)]))


@pytest.mark.parametrize("name", ["motor", "hot", "held", "lstm"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_captured_graph_equals_eager_steps(name, count, rng, tmp_path):
    config = chain(name, tmp_path)
    steps = steps_of(5, rng)
    expected = efforts_of(in_newton(config), [step for step in steps for _ in range(count)])[count - 1 :: count]
    actuator = in_newton(config)
    sim = simulation(*steps[0])
    output = wp.zeros(N, dtype=wp.float32)
    first, second = actuator.state(), actuator.state()
    with wp.ScopedCapture(device="cpu") as captured:
        for i in range(count):
            wp.copy(sim.joint_f, output)
            actuator.step(sim, sim, first, second, DT)
            if count % 2 and i == count - 1:
                first.assign(second)
            else:
                first, second = second, first
    first.reset()
    second.reset()
    for (signals, efforts), wanted in zip(steps, expected, strict=True):
        for array, values in signals.items():
            getattr(sim, array).assign(values)
        output.assign(efforts)
        wp.capture_launch(captured.graph)
        np.testing.assert_array_equal(sim.joint_f.numpy(), wanted)


def test_two_graphs_and_eager_steps_in_turn(rng):
    """Isaac Lab captures a step in each direction, replays them in turn, and resets both states of some DOFs."""
    steps, mask = steps_of(24, rng), rng.random(N) < 0.5
    expected = efforts_of(in_newton(CONFIGS["motor"]), steps, {10: mask})
    actuator = in_newton(CONFIGS["motor"])
    sim, states, graphs = simulation(*steps[0]), [actuator.state(), actuator.state()], []
    for pair in (states, states[::-1]):
        with wp.ScopedCapture(device="cpu") as captured:
            actuator.step(sim, sim, *pair, DT)
        graphs.append(captured.graph)
    for state in states:
        state.reset()
    for t, (signals, efforts) in enumerate(steps):
        for name, values in (signals | {"joint_f": efforts}).items():
            getattr(sim, name).assign(values)
        for state in states if t == 10 else ():
            state.reset(wp.array(mask))
        if t % 5 == 4:
            actuator.step(sim, sim, *(states if t % 2 == 0 else states[::-1]), DT)
        else:
            wp.capture_launch(graphs[t % 2])
        np.testing.assert_array_equal(sim.joint_f.numpy(), expected[t])


def test_states_are_kept_apart(rng, tmp_path):
    """From one state two futures; what is saved goes on bit for bit; a step does not change where it came from."""
    actuator, steps = in_newton(CONFIGS["motor"]), steps_of(8, rng)
    start, one, other = (actuator.state() for _ in range(3))
    sims = [simulation(*step) for step in steps]
    for sim in sims[:4]:
        actuator.step(sim, sim, start, start, DT)
    start.drive_state.memory.save(tmp_path / "state.npz")
    futures = []
    for state in (one, other):
        state.assign(start)
        for (_, efforts), sim in zip(steps[4:], sims[4:], strict=True):
            sim.joint_f.assign(efforts)
            actuator.step(sim, sim, state, state, DT)
        futures.append(sims[-1].joint_f.numpy())
    np.testing.assert_array_equal(*futures)
    loaded = actuator.drive.actuator.load_state(tmp_path / "state.npz")
    before = start.drive_state.memory.to_arrays()
    assert all(np.array_equal(values, before[name]) for name, values in loaded.to_arrays().items())
    actuator.step(sims[0], sims[0], start, one, DT)
    after = start.drive_state.memory.to_arrays()
    assert all(np.array_equal(values, before[name]) for name, values in after.items())


def test_newtons_delay_and_clamps_around_it(rng):
    """Newton's delay and clamps work around it as around Newton's drives."""
    dofs, lags = index_array(rng.permutation(N)), wp.array(rng.integers(0, 4, N), dtype=wp.int32)
    gains = [wp.full(N, value, dtype=wp.float32) for value in (40.0, 1.0)]
    steps, found = steps_of(12, rng), []
    for drive in (DriveActuon(CONFIGS["pd"]), actuators.DrivePD(*gains)):
        clamp = actuators.ClampingMaxEffort(wp.full(N, 15.0, dtype=wp.float32))
        actuator = actuators.Actuator(dofs, drive=drive, delay=actuators.Delay(lags, 4), clamping=[clamp])
        found.append(efforts_of(actuator, steps))
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-4)


def test_no_feedforward(rng):
    actuator = in_newton(CONFIGS["pd"])
    signals, efforts = steps_of(1, rng)[0]
    zero = simulation(signals | {"joint_act": np.zeros(N, np.float32)}, efforts)
    none = simulation(signals, efforts)
    none.joint_act = None
    for sim in (zero, none):
        actuator.step(sim, sim, dt=DT)
    np.testing.assert_array_equal(zero.joint_f.numpy(), none.joint_f.numpy())


def arm(builder, joints=3):
    """Add an arm after a free body, so that coordinates and DOFs differ; return its DOFs and coordinates."""
    builder.add_body(mass=1.0, inertia=wp.mat33(np.eye(3)))
    links = [
        builder.add_link(mass=0.5, inertia=wp.mat33(1e-3 * np.eye(3)), com=wp.vec3(0.1, 0.0, 0.0))
        for _ in range(joints)
    ]
    made = [
        builder.add_joint_revolute(
            parent=-1 if i == 0 else links[i - 1],
            child=link,
            axis=newton.Axis.Y,
            parent_xform=wp.transform((0.2 if i else 0.0, 0.0, 0.0), wp.quat_identity()),
            armature=0.02,
        )
        for i, link in enumerate(links)
    ]
    builder.add_articulation(made)
    return [(builder.joint_qd_start[j], builder.joint_q_start[j]) for j in made]


def model_of(add, worlds=1):
    """A model of some arms, whose joints got actuators by ``add(builder, i, DOF, coordinate)``."""
    template = newton.ModelBuilder()
    for i, (dof, coordinate) in enumerate(arm(template)):
        add(template, i, dof, coordinate)
    builder = newton.ModelBuilder()
    builder.replicate(template, worlds)
    return builder.finalize(device="cpu")


def varied(i):
    """A chain with the stages of all others, and values of its own."""
    return actuon.ActuatorConfig(
        actuon.PDControlConfig(kp=40.0 + i, kd=1.0),
        [actuon.MaxEffortClampingConfig(3.0 + i)],
        delay=actuon.DelayConfig(1 + i),
    )


def random_arm(model, rng):
    state, control = model.state(), model.control()
    arrays = state.joint_q, state.joint_qd, control.joint_target_q, control.joint_target_qd, control.joint_act
    for array, scale in zip(arrays, (0.4, 2.0, 0.4, 0.5, 0.3), strict=True):
        array.assign((scale * rng.standard_normal(len(array))).astype(np.float32))
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    return state, control


def test_a_builder_puts_joints_with_the_same_stages_together(rng):
    """Whatever their values; and gives them the efforts of Actuon's own builder."""

    def add(builder, i, dof, coordinate):
        builder.add_actuator(DriveActuon, index=dof, pos_index=coordinate, config=varied(i))

    model = model_of(add, worlds=4)
    (theirs,) = model.actuators
    assert isinstance(theirs, actuators.Actuator)
    assert theirs.drive.kp.numpy().tolist() == [40.0, 41.0, 42.0] * 4
    assert theirs.drive.actuator.delay.delay_steps.numpy().tolist() == [1, 2, 3] * 4
    builder = actuon.newton.ModelBuilder()
    template = actuon.newton.ModelBuilder()
    for i, (dof, coordinate) in enumerate(arm(template)):
        template.add(varied(i), dof, coordinate)
    builder.replicate(template, 4)
    (ours,) = builder.finalize(device="cpu").actuators
    found = {theirs: [theirs.state(), theirs.state()], ours: [ours.state(), ours.state()]}
    for _ in range(6):
        state, control = random_arm(model, rng)
        efforts = []
        for actuator, states in found.items():
            control.joint_f.zero_()
            actuator.step(state, control, *states, DT)
            states.reverse()
            efforts.append(control.joint_f.numpy().copy())
        np.testing.assert_array_equal(*efforts)
        assert efforts[0].any()


def test_a_builder_keeps_other_stages_apart():
    def add(builder, i, dof, coordinate):
        config = CONFIGS["pd"] if i == 0 else CONFIGS["pid"]
        builder.add_actuator(DriveActuon, index=dof, pos_index=coordinate, config=config)

    assert [actuator.num_actuators for actuator in model_of(add).actuators] == [1, 2]


def test_custom_inputs_are_arrays_of_the_models_control(tmp_path):
    torch = pytest.importorskip("torch")
    module, path = torch.nn.Linear(2, 1), tmp_path / "net.safetensors"
    actuon.save_network(module, path, input_columns=["load", "velocity"], custom_inputs=["load"])
    config = actuon.ActuatorConfig(actuon.NeuralControlConfig(path))

    def add(builder, i, dof, coordinate):
        builder.add_actuator(DriveActuon, index=dof, pos_index=coordinate, config=config)

    model = model_of(add)
    (actuator,) = model.actuators
    state, control = model.state(), model.control()
    control.load.fill_(2.0)
    control.joint_f.zero_()
    actuator.step(state, control, dt=DT)
    with torch.no_grad():
        expected = module(torch.tensor([2.0, 0.0])).item()
    np.testing.assert_allclose(control.joint_f.numpy()[actuator.indices.numpy()], expected, rtol=1e-6)
    sim = simulation(random_signals(N, np.random.default_rng(0)), np.zeros(N, np.float32))
    with pytest.raises(actuon.MissingArrayError, match="'load', an input of ControllerNeuralMLP"):
        in_newton(config).step(sim, sim, dt=DT)


YAML = """
actuators:
  hips:
    joints: [hip]
    controller: {type: pd, kp: 30.0, kd: 1.0}
    clamping: [{type: max_effort, max_effort: 20.0}]
  knees:
    joints: [knee]
    controller: {type: pd, kp: 35.0, kd: 1.0}
    clamping: [{type: max_effort, max_effort: 20.0}]
"""


def test_what_a_drive_is_made_of(tmp_path):
    """A drive accepts all sources that Motors accept."""
    path = tmp_path / "robot.yaml"
    path.write_text(YAML)
    for config, options, gain in (
        (CONFIGS["pd"], {}, 40.0),
        ([PD, ENVELOPE], {}, 40.0),
        ({"knee": CONFIGS["pd"]}, {"joint": "knee"}, 40.0),
        (path, {"joint": "knee"}, 35.0),
        (str(path), {"joint": "hip"}, 30.0),
        ("ak80-9", {"controller": actuon.PDControlConfig(50.0, 2.0)}, 50.0),
        (actuon.find_motor("ak80-9"), {"controller": actuon.PDControlConfig(50.0, 2.0)}, 50.0),
    ):
        actuator = actuators.Actuator(index_array([0]), drive=DriveActuon(config, **options))
        assert actuator.drive.kp.numpy().tolist() == [gain]
        resolved = DriveActuon.resolve_arguments({"config": config, **options})
        assert resolved["0.kp"] == gain
        assert hash(resolved["config"]) == hash(DriveActuon.resolve_arguments({"config": config, **options})["config"])
    for config, options, message in (
        (path, {}, "joint: got None; .* has an actuator for each joint"),
        (path, {"joint": "kne"}, "has no actuator for joint 'kne'.*Did you mean 'knee'"),
        (path, {"joint": 3}, "joint: got 3; must be the name"),
        ("ak80-8", {}, "is neither a file .* nor a motor"),
        (CONFIGS["pd"], {"controller": PD}, "controller: is for a motor alone"),
        (CONFIGS["pd"], {"kp": 3.0}, "DriveActuon: has no argument 'kp'; arguments: config, joint"),
        (actuon.ActuatorConfig(PD, effort_mode="implicit"), {}, "set_effort_mode_implicit"),
        (3, {}, "source: got int"),
    ):
        with pytest.raises(actuon.ActuonError, match=message):
            DriveActuon(config, **options)
        with pytest.raises(actuon.ActuonError, match=message):
            newton.ModelBuilder().add_actuator(DriveActuon, index=0, config=config, **options)
    with pytest.raises(actuon.StructureError, match="DriveActuon: got no config"):
        newton.ModelBuilder().add_actuator(DriveActuon, index=0)
    with pytest.raises(actuon.StructureError, match="ControllerPD, which holds arrays"):
        newton.ModelBuilder().add_actuator(DriveActuon, index=0, config=[actuon.ControllerPD([1.0], 1.0)])


def test_what_cannot_be_is_refused(rng):
    drive = DriveActuon(CONFIGS["motor"])
    for read in (lambda: drive.armature, lambda: drive.friction, drive.is_stateful):
        with pytest.raises(actuon.StructureError, match="is in no actuator yet"):
            read()
    actuator = actuators.Actuator(index_array(range(N)), drive=drive)
    with pytest.raises(actuon.StructureError, match="in an actuator already; give each actuator its own drive"):
        actuators.Actuator(index_array(range(N)), drive=drive)
    sim = simulation(*steps_of(1, rng)[0])
    foreign = in_newton(CONFIGS["motor"]).state()
    with pytest.raises(actuon.StateError, match="got a state of another drive"):
        actuator.step(sim, sim, foreign, foreign, DT)
    with pytest.raises(actuon.StructureError, match="gradients do not go through it"), wp.Tape():
        actuator.step(sim, sim, actuator.state(), actuator.state(), DT)
    differentiable = in_newton(CONFIGS["motor"], requires_grad=True)
    with pytest.raises(actuon.StructureError, match="gradients do not go through it"):
        differentiable.step(sim, sim, differentiable.state(), differentiable.state(), DT)
    short = simulation(random_signals(N - 1, rng), np.zeros(N, np.float32))
    with pytest.raises(actuon.ArrayError, match=r"sim_state\.joint_q: has 36 entries"):
        actuator.step(short, short, actuator.state(), actuator.state(), DT)
    with pytest.raises(actuon.StateError, match="mask"):
        actuator.state().reset(wp.array(np.ones(3, bool)))


class HostDrive(actuators.DrivePD):
    """A drive that cannot be captured."""

    def is_graphable(self):
        return False


def test_a_chain_that_cannot_be_captured(rng):
    gains = [wp.full(N, value, dtype=wp.float32) for value in (40.0, 1.0)]
    actuator = in_newton([HostDrive(*gains)])
    assert not actuator.is_graphable()
    sim = simulation(*steps_of(1, rng)[0])
    actuator.step(sim, sim, dt=DT)
    with (
        pytest.raises(actuon.StructureError, match="cannot be captured in a graph; step it outside of one"),
        wp.ScopedCapture(device="cpu"),
    ):
        actuator.step(sim, sim, dt=DT)


def test_what_the_simulator_should_hold(rng, caplog):
    """Rotor inertia, and friction that the chain leaves to it, as Motors has them."""
    friction = actuon.FrictionEffectConfig(dynamic=0.2, viscous=0.02, static=0.5, stribeck_velocity=1.0)
    config = actuon.ActuatorConfig(PD, transmission=GEAR, effects=[friction])
    actuator = in_newton(config, 2)
    assert caplog.messages == [
        "the simulator should hold the rotor inertia of 2 DOFs (drive.armature) and the friction of 2 DOFs "
        "(drive.friction; an inertia in its stage lets the motor apply it)"
    ]
    motors = actuon.Motors(config, ["hip", "knee"])
    drive = actuator.drive
    np.testing.assert_array_equal(drive.armature, motors.armature)
    np.testing.assert_allclose(drive.armature, 2e-5 * 81, rtol=1e-6)
    for held in (drive.friction, motors.friction):
        np.testing.assert_allclose(held.dry, 0.5 * 9, rtol=1e-6)
        np.testing.assert_allclose(held.viscous, 0.02 * 81, rtol=1e-6)
    signals = random_signals(2, rng)
    sim = simulation(signals, np.zeros(2, np.float32))
    actuator.step(sim, sim, dt=DT)
    effort = motors.step(signals["joint_q"], signals["joint_qd"], signals["joint_target_q"], DT,
                         target_qd=signals["joint_target_qd"], feedforward=signals["joint_act"])  # fmt: skip
    np.testing.assert_array_equal(sim.joint_f.numpy(), effort)
    np.testing.assert_array_equal(drive.friction.dry, motors.friction.dry)
    assert (drive.friction.dry < 0.5 * 9).all()
    caplog.clear()
    applied = in_newton(CONFIGS["hot"], 2).drive
    assert caplog.messages == []
    assert not applied.armature.any()
    assert not np.array([applied.friction.dry, applied.friction.viscous]).any()


def test_usd(tmp_path):
    """Newton reads a prim whose schema was registered for the drive; Isaac Lab takes the same calls without a model."""
    sdf = pytest.importorskip("pxr.Sdf")
    from tests.support.robot_files import robot

    path, stage = tmp_path / "robot.yaml", robot()
    path.write_text(YAML)
    actuators.register_actuator_component("ActuonDriveAPI", DriveActuon, actuators.ComponentKind.DRIVE)
    prims = []
    for joint in ("hip", "knee"):
        prim = stage.DefinePrim(f"/Robot/{joint}_motor", "NewtonActuator")
        prim.AddAppliedSchema("ActuonDriveAPI")
        target = next(p for p in stage.Traverse() if p.GetName() == joint)
        prim.CreateRelationship("newton:targets").SetTargets([target.GetPath()])
        prim.CreateAttribute("newton:config", sdf.ValueTypeNames.Asset).Set(sdf.AssetPath(str(path)))
        prim.CreateAttribute("newton:joint", sdf.ValueTypeNames.String).Set(joint)
        prims.append(prim)
    builder = newton.ModelBuilder()
    assert builder.add_usd(stage)["actuator_count"] == 2
    (actuator,) = builder.finalize(device="cpu").actuators
    assert isinstance(actuator.drive, DriveActuon)
    assert actuator.drive.kp.numpy().tolist() == [30.0, 35.0]
    assert actuator.drive.actuator.clamping[0].max_effort.numpy().tolist() == [20.0, 20.0]

    parsed = [actuators.parse_actuator_prim(prim) for prim in prims]
    resolved = [each.drive_class.resolve_arguments(dict(each.drive_kwargs)) for each in parsed]
    shared = {name: value for name, value in resolved[0].items() if name in DriveActuon.SHARED_PARAMS}
    assert all(values[name] == value for values in resolved for name, value in shared.items())
    numbers = {
        name: wp.array(np.tile([values[name] for values in resolved], 3), dtype=wp.float32)
        for name in resolved[0].keys() - shared.keys()
    }
    copies = actuators.Actuator(index_array(range(6)), drive=DriveActuon(**numbers, **shared))
    assert copies.drive.kp.numpy().tolist() == [30.0, 35.0] * 3


ARM = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body name="upper" pos="0 0 1">
      <inertial pos="0.1 0 0" mass="1" diaginertia="0.01 0.01 0.01"/>
      <joint name="shoulder" axis="0 1 0"/>
      <body name="lower" pos="0.3 0 0">
        <inertial pos="0.1 0 0" mass="0.5" diaginertia="0.005 0.005 0.005"/>
        <joint name="elbow" axis="0 1 0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_the_motion_of_articulation_actuators(tmp_path):
    """A loop of Newton's own, with the armature that the drive tells, moves a robot as `NewtonSimulation` does."""
    path, dt = tmp_path / "arm.xml", 0.002
    path.write_text(ARM)
    config = actuon.ActuatorConfig(
        actuon.PDControlConfig(60.0, 2.0),
        [actuon.DCMotorClampingConfig(1.5, 100.0, 1.2)],
        delay=actuon.DelayConfig(3),
        transmission=actuon.GearTransmissionConfig(9.0, rotor_inertia=1e-4),
    )
    targets = 0.5 * np.sin(0.05 * np.arange(150))[:, None] * np.array([1.0, -1.0])
    expected, found = [], []
    with actuon.NewtonSimulation(path) as simulated:
        joints = [(config, name) for name in ("shoulder", "elbow")]
        attached = actuon.ArticulationActuators.from_actuators("upper", joints)
        for target in targets:
            attached.articulation.set_dof_position_targets(target.astype(np.float32))
            simulated.step()
            expected.append(attached.articulation.get_dof_positions().numpy()[0].copy())
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    builder.add_mjcf(str(path))
    for dof in range(2):
        builder.add_actuator(DriveActuon, index=dof, config=config)
    model = builder.finalize(device="cpu")
    (actuator,) = model.actuators
    model.joint_armature.assign(actuator.drive.armature.astype(np.float32))
    solver = newton.solvers.SolverMuJoCo(model, use_mujoco_cpu=True)
    states, memory, control = [model.state(), model.state()], [actuator.state(), actuator.state()], model.control()
    for target in targets:
        control.joint_target_q.assign(target.astype(np.float32))
        control.joint_f.zero_()
        actuator.step(states[0], control, *memory, dt)
        memory.reverse()
        solver.step(*states, control, None, dt)
        states.reverse()
        found.append(states[0].joint_q.numpy().copy())
    np.testing.assert_array_equal(found, expected)
    assert np.ptp(found, axis=0).min() > 0.3


IMPLICIT = {
    "pd": ([], lambda n: []),
    "max_effort": (
        [actuon.MaxEffortClampingConfig(3.0)],
        lambda n: [actuators.ClampingMaxEffort(wp.full(n, 3.0, dtype=wp.float32))],
    ),
    "dc_motor": (
        [actuon.DCMotorClampingConfig(8.0, 10.0, 6.0)],
        lambda n: [actuators.ClampingDCMotor(*(wp.full(n, v, dtype=wp.float32) for v in (8.0, 10.0, 6.0)))],
    ),
}
STIFF = actuon.PDControlConfig(kp=400.0, kd=40.0)
LONG = 0.01
"""Time step [s] at which these gains diverge when explicit."""


def implicit(model, drive, clamps=(), **options):
    """An actuator of all joints of the arms, in Newton's implicit mode, and the response of the arms."""
    dofs = np.array([world * 9 + 6 + i for world in range(model.world_count) for i in range(3)])
    coordinates = np.array([world * 10 + 7 + i for world in range(model.world_count) for i in range(3)])
    through = {"pos_indices": index_array(coordinates), "clamping": list(clamps), **options}
    actuator = actuators.Actuator(index_array(dofs), drive=drive, **through)
    response = actuators.JointSpaceResponse(model)
    actuator.set_effort_mode_implicit(response)
    return actuator, response


def pair(name, worlds=3):
    """A chain of ours and the same of Newton's own parts, both implicit."""
    model = model_of(lambda *_: None, worlds)
    n = 3 * worlds
    limits, clamps = IMPLICIT[name]
    gains = [wp.full(n, value, dtype=wp.float32) for value in (STIFF.kp, STIFF.kd)]
    ours = implicit(model, DriveActuon(actuon.ActuatorConfig(STIFF, limits)))
    return model, ours, implicit(model, actuators.DrivePD(*gains), clamps(n))


def implicit_efforts(model, pairs, rng, steps=25):
    """Efforts in random states, shape (steps, joints), of each actuator."""
    found = []
    for _ in range(steps):
        state, control = random_arm(model, rng)
        for actuator, response in pairs:
            response.refresh(state)
            control.joint_f.fill_(0.0)
            actuator.step(state, control, dt=LONG)
            found.append(control.joint_f.numpy()[actuator.indices.numpy()])
    return np.array(found).reshape(steps, len(pairs), -1).swapaxes(0, 1)


@pytest.mark.parametrize("name", IMPLICIT)
def test_implicit_efforts_are_those_of_newtons_own_drive(name, rng):
    """To rounding where limits do not depend on speed; near them otherwise."""
    model, *pairs = pair(name)
    ours, theirs = implicit_efforts(model, pairs, rng)
    if name == "dc_motor":
        off = np.abs(ours - theirs)
        assert np.median(off) < 1e-4
        assert np.quantile(off, 0.9) < 0.3  # of 6 N·m
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=5e-3)
    limit = {"pd": np.inf, "max_effort": 3.0, "dc_motor": 6.0}[name]
    assert np.abs(ours).max() <= limit
    assert name == "pd" or (np.abs(ours) == limit).mean() > 0.05


def test_without_inverse_masses_the_law_is_the_line_at_the_present_speed(rng):
    """Newton allows to leave them out."""
    model = model_of(lambda *_: None)
    actuator, _ = implicit(model, DriveActuon(actuon.ActuatorConfig(STIFF, IMPLICIT["max_effort"][0])))
    n, drive = actuator.num_actuators, actuator.drive
    signals = [wp.array(rng.normal(0, scale, n).astype(np.float32)) for scale in (0.005, 0.05, 0.005, 0.0)]
    in_order = index_array(range(n))
    given = (*signals, *[in_order] * 4, None, LONG)
    params = drive.bind_params().numpy()
    drive.prepare_implicit(*given, custom_inputs={})
    q, qd, target_q, _ = (signal.numpy() for signal in signals)
    effort = np.clip(STIFF.kp * (target_q - q - LONG * qd) - STIFF.kd * qd, -3.0, 3.0)
    np.testing.assert_array_equal(params[:, [0, 3]], np.stack([qd, qd], axis=1))
    lines = params[:, 6] + params[:, 7] * (qd - params[:, 8])
    np.testing.assert_allclose(np.clip(lines, params[:, 1], params[:, 2]), effort, rtol=1e-4, atol=1e-4)
    drive.prepare_implicit(*given, inv_mass=wp.zeros(n, dtype=wp.float32), custom_inputs={})
    np.testing.assert_array_equal(drive.bind_params().numpy()[:, [0, 3]], np.stack([qd, qd], axis=1))


def test_a_stiff_arm_is_steady_where_explicit_is_not():
    """Moved by the response itself: from limit to limit, then at rest, as with Newton's own drive."""
    paths = {}
    model, (ours, response), (theirs, _) = pair("max_effort", worlds=1)
    for name, actuator in (("ours", ours), ("newton", theirs), ("explicit", ours)):
        if name == "explicit":
            actuator.set_effort_mode_explicit()
        else:
            actuator.set_effort_mode_implicit(response)
        state, control = model.state(), model.control()
        q, qd = state.joint_q.numpy(), state.joint_qd.numpy()
        control.joint_target_q.numpy()[7:] = (0.3, -0.4, 0.2)
        path = []
        for _ in range(150):
            newton.eval_fk(model, state.joint_q, state.joint_qd, state)
            response.refresh(state)
            control.joint_f.zero_()
            actuator.step(state, control, dt=LONG)
            inverse = response.inverse_blocks.numpy()
            qd[6:] += LONG * inverse[-1, :3, :3] @ control.joint_f.numpy()[6:]
            q[7:] += LONG * qd[6:]
            path.append(q[7:].copy())
        paths[name] = np.array(path)
    np.testing.assert_allclose(paths["ours"], paths["newton"], atol=2e-3)
    np.testing.assert_allclose(paths["ours"][-1], (0.3, -0.4, 0.2), atol=1e-3)
    assert np.abs(np.diff(paths["ours"][-20:], axis=0)).max() < 1e-4
    # it chatters between its limits, by an amount that rounding decides
    assert np.abs(np.diff(paths["explicit"][-20:], axis=0)).max() > 2e-3


def test_implicit_steps_remember_as_explicit_ones(rng):
    """The chain advances once a step, from the state before it; feedforward is late as targets are."""
    config = actuon.ActuatorConfig(STIFF, delay=actuon.DelayConfig(2))
    model = model_of(lambda *_: None, worlds=2)
    actuator, response = implicit(model, DriveActuon(config))
    plain, again = implicit(model, DriveActuon(actuon.ActuatorConfig(STIFF)))
    states = {mode: [actuator.state(), actuator.state()] for mode in ("implicit", "explicit")}
    commands = []
    for t in range(6):
        state, control = random_arm(model, rng)
        commands.append([control.joint_target_q, control.joint_target_qd, control.joint_act])
        efforts = {}
        for mode, pair_of_states in states.items():
            actuator.set_effort_mode_implicit(response) if mode == "implicit" else actuator.set_effort_mode_explicit()
            response.refresh(state)
            control.joint_f.zero_()
            actuator.step(state, control, *pair_of_states, LONG)
            pair_of_states.reverse()
            efforts[mode] = control.joint_f.numpy().copy()
        saved = [pair_of_states[0].drive_state.memory.to_arrays() for pair_of_states in states.values()]
        assert all(np.array_equal(values, saved[1][name]) for name, values in saved[0].items())
        late = model.control()
        late.joint_target_q, late.joint_target_qd, late.joint_act = commands[max(t - 2, 0)]
        late.joint_f.zero_()
        again.refresh(state)
        plain.step(state, late, dt=LONG)
        np.testing.assert_array_equal(efforts["implicit"], late.joint_f.numpy())
        assert np.abs(efforts["implicit"] - efforts["explicit"]).max() > 1.0


@pytest.mark.parametrize("name", ["max_effort", "dc_motor"])
def test_a_captured_implicit_step_equals_an_eager_one(name, rng):
    model, (actuator, response), _ = pair(name)
    state, control = random_arm(model, rng)
    response.refresh(state)
    with (
        pytest.raises(actuon.StructureError, match="take one step in the implicit mode before a graph is captured"),
        wp.ScopedCapture(device="cpu"),
    ):
        actuator.step(state, control, dt=LONG)
    actuator.step(state, control, dt=LONG)
    with wp.ScopedCapture(device="cpu") as captured:
        control.joint_f.zero_()
        actuator.step(state, control, dt=LONG)
    for _ in range(5):
        other, commands = random_arm(model, rng)
        for target, source in ((state, other), (control, commands)):
            for array in ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act"):
                if hasattr(source, array):
                    getattr(target, array).assign(getattr(source, array))
        response.refresh(other)
        wp.capture_launch(captured.graph)
        replayed = control.joint_f.numpy().copy()
        control.joint_f.zero_()
        actuator.step(state, control, dt=LONG)
        np.testing.assert_array_equal(control.joint_f.numpy(), replayed)
        assert replayed.any()


def test_what_cannot_be_implicit_is_refused(rng):
    model = model_of(lambda *_: None)
    gains = [wp.full(3, value, dtype=wp.float32) for value in (40.0, 1.0)]
    with pytest.raises(actuon.StructureError, match="needs derivatives .*, but NewtonDrive brings its own kernels"):
        implicit(model, DriveActuon([actuators.DrivePD(*gains)]))
    delay = actuators.Delay(wp.full(3, 1, dtype=wp.int32), 2)
    actuator, response = implicit(model, DriveActuon(CONFIGS["pd"]), delay=delay)
    state, control = random_arm(model, rng)
    response.refresh(state)
    with pytest.raises(actuon.StructureError, match="put the delay in the motor model"):
        actuator.step(state, control, actuator.state(), actuator.state(), LONG)


def test_indices_made_during_a_capture_are_read_by_the_graph():
    """Until a replay they hold arbitrary numbers, from which nothing may be concluded."""
    n = 3
    drive = DriveActuon(actuon.ActuatorConfig(actuon.PDControlConfig(kp=2.0, kd=0.0)))
    drive.finalize(wp.get_device("cpu"), n)
    zeros, targets = wp.zeros(n, dtype=wp.float32, device="cpu"), wp.array([1.0, 2.0, 3.0], dtype=wp.float32)
    forces, order = wp.zeros(n, dtype=wp.float32, device="cpu"), np.array([2, 0, 1], np.uint32)

    def step(indices):
        drive.compute(zeros, zeros, targets, zeros, None, indices, indices, indices, indices, forces, None, 0.01)

    step(wp.array(order, device="cpu"))
    expected = forces.numpy().copy()
    np.testing.assert_allclose(expected, [6.0, 2.0, 4.0])
    with wp.ScopedCapture(device="cpu") as captured:
        step(wp.array(order, device="cpu"))
    forces.zero_()
    wp.capture_launch(captured.graph)
    np.testing.assert_array_equal(forces.numpy(), expected)


def test_a_component_is_not_finalized_during_a_capture():
    pd = actuon.ControllerPD(kp=2.0, kd=0.0)
    with (
        wp.ScopedCapture(device="cpu"),
        pytest.raises(actuon.StructureError, match="ControllerPD: cannot be finalized"),
    ):
        pd.finalize("cpu", 3)


def test_values_made_during_a_capture_are_not_read():
    """On a CPU they are garbage until a replay."""
    with actuon.MujocoSimulation(actuon.assets.arm_mjcf):
        robots = actuon.Articulation("link0")
        before = robots.get_dof_position_targets().numpy()
        with wp.ScopedCapture(device="cpu"):
            value, index = wp.array([[0.3]], dtype=float, device="cpu"), wp.array([0], dtype=int, device="cpu")
            for values, dofs in ((value, [0]), ([[0.3]], index)):
                with pytest.raises(actuon.ArrayError, match="got a Warp array during graph capture"):
                    robots.set_dof_position_targets(values, dof_indices=dofs)
            with pytest.raises(actuon.ArrayError, match="indices: got a Warp array during graph capture"):
                actuon.Actuator(index, actuon.ControllerPD(1.0, 1.0))
        np.testing.assert_array_equal(robots.get_dof_position_targets().numpy(), before)
