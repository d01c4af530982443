# SPDX-License-Identifier: Apache-2.0
"""Motors in anybody's loop: what a loaded model does under every call and copy of MuJoCo, against plain ``mj_step``."""

from __future__ import annotations

import concurrent.futures
import copy
import ctypes
import pickle
from pathlib import Path

import mujoco
import numpy as np
import pytest
from mujoco import rollout
from mujoco.batch import Batch

import actuon
import actuon.mujoco

ARM = """
<mujoco>
  <option timestep="0.004" integrator="{integrator}"/>
  <worldbody>
    <body name="arm">
      <joint name="shoulder" axis="0 1 0" range="-0.3 1.2"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/>
      <body pos="0.3 0 0">
        <joint name="elbow" axis="0 1 0" damping="0.05"/>
        <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.02" mass="0.5"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder_servo" joint="shoulder" kp="5" ctrlrange="-1 1"/>
    <position name="elbow_servo" joint="elbow" kp="5"/>
  </actuator>
  <sensor><jointpos joint="shoulder"/><actuatorfrc actuator="elbow_servo"/></sensor>
  <keyframe><key name="bent" qpos="0.2 0.4" qvel="0.1 -0.2" ctrl="0.2 0.4"/></keyframe>
</mujoco>
"""
"""Two links whose first joint reaches its stop."""

EULER = ARM.format(integrator="Euler")

CHAIN = actuon.ActuatorConfig(
    actuon.PIDControlConfig(kp=30.0, ki=20.0, kd=0.6, integral_max=1.0),
    [
        actuon.HeatClampingConfig(
            winding_thermal_resistance=0.5, housing_thermal_resistance=3.0, winding_time_constant=0.2,
            housing_time_constant=5.0, motor_constant=0.5, max_effort=20.0, derated_effort=2.0, derating_start=30.0,
            derating_end=60.0,
        ),
        actuon.MaxEffortClampingConfig(6.0),
    ],
    actuon.DelayConfig(delay_steps=3),
    control_every=2,
)  # fmt: skip
"""All kinds of memory: past commands, an integral, temperatures, and a controller that is held."""

STIFF = actuon.ActuatorConfig(
    actuon.PDControlConfig(kp=30.0, kd=1.5),
    [actuon.DCMotorClampingConfig(20.0, 40.0, 12.0)],
    actuon.DelayConfig(delay_steps=2),
    effects=[actuon.FrictionEffectConfig(0.2, 0.05, static=0.5, stribeck_velocity=0.1)],
    effort_mode="implicit",
)
"""Derivatives of the effort, and friction that changes in each step."""

KINDS = {
    "Euler": ("Euler", CHAIN),
    "implicitfast": ("implicitfast", CHAIN),
    "RK4": ("RK4", CHAIN),
    "derivatives": ("implicitfast", STIFF),
    "derivatives, discrete": ("discrete", STIFF),
}
"""Integrators, with motors."""

STEPS = 60
FULL = mujoco.mjtState.mjSTATE_FULLPHYSICS
INTEGRATION = mujoco.mjtState.mjSTATE_INTEGRATION


def targets(model, steps=STEPS):
    """Controls of the two servos in each step. Those that hold derivatives do nothing."""
    rng = np.random.default_rng(3)
    controls = np.ones((steps, model.nu))
    controls[:, :2] = 0.4 + 0.8 * rng.standard_normal((steps, 2)).cumsum(axis=0) / np.sqrt(steps)
    return controls


def state_of(model, data, kind=FULL):
    state = np.full(mujoco.mj_stateSize(model, kind), np.nan)
    mujoco.mj_getState(model, data, state, kind)
    return state


def begun(model, steps=0):
    """Data at the keyframe, after some steps."""
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for control in targets(model)[:steps]:
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
    return data


def plain(model, steps=STEPS):
    """States after each step of plain ``mj_step``."""
    data, states = begun(model), []
    for control in targets(model)[:steps]:
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        states.append(state_of(model, data))
    return np.array(states)


@pytest.fixture(params=KINDS)
def model(request):
    integrator, chain = KINDS[request.param]
    made = actuon.mujoco.load(ARM.format(integrator=integrator), chain)
    yield made
    actuon.mujoco.unload(made)


def nothing(model, data):
    return data


def forward(model, data):
    mujoco.mj_forward(model, data)
    return data


def forward_thrice(model, data):
    for _ in range(3):
        mujoco.mj_forward(model, data)
    return data


def forward_with_other_controls(model, data):
    control = data.ctrl.copy()
    data.ctrl[:] = -1.0
    mujoco.mj_forward(model, data)
    data.ctrl[:] = control
    return data


def forward_elsewhere_and_back(model, data):
    kept = state_of(model, data, INTEGRATION)
    data.qpos[:] += 0.3
    data.qvel[:] -= 1.0
    data.ctrl[:] = 1.0
    mujoco.mj_forward(model, data)
    qpos, qvel, act = (mujoco.mjtState.mjSTATE_QPOS, mujoco.mjtState.mjSTATE_QVEL, mujoco.mjtState.mjSTATE_CTRL)
    part = np.zeros(mujoco.mj_stateSize(model, qpos | qvel | act))
    mujoco.mj_extractState(model, kept, INTEGRATION, part, qpos | qvel | act)
    mujoco.mj_setState(model, data, part, qpos | qvel | act)  # the memory stays that of elsewhere
    return data


def inverse(model, data):
    mujoco.mj_inverse(model, data)
    return data


def finite_differences(model, data, centred=False):
    size = 2 * model.nv + model.na
    a, b = np.full((size, size), np.nan), np.full((size, model.nu), np.nan)
    mujoco.mjd_transitionFD(model, data, 1e-4, centred, a, b, None, None)
    assert np.isfinite(a).all()
    assert np.isfinite(b).all()
    return data


def centred_differences(model, data):
    return finite_differences(model, data, centred=True)


def copied(model, data):
    return copy.copy(data)


def pickled(model, data):
    return pickle.loads(pickle.dumps(data))


def copied_into_another(model, data):
    other = mujoco.MjData(model)
    other.act[:] = 1.0
    mujoco.mj_copyData(other, model, data)
    return other


def through_a_state(model, data):
    other = mujoco.MjData(model)
    other.act[:] = 1.0
    mujoco.mj_setState(model, other, state_of(model, data, INTEGRATION), INTEGRATION)
    return other


def looked_at(model, data):
    actuon.mujoco.telemetry(model, data)
    return data


BETWEEN = [
    nothing, forward, forward_thrice, forward_with_other_controls, forward_elsewhere_and_back, inverse,
    finite_differences, centred_differences, copied, pickled, copied_into_another, through_a_state, looked_at,
]  # fmt: skip


@pytest.mark.parametrize("between", BETWEEN, ids=lambda each: each.__name__)
def test_what_is_called_between_steps_changes_no_bit(model, between):
    if model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4 and "differences" in between.__name__:
        pytest.skip("mjd_transitionFD is not for RK4, says MuJoCo")
    expected, data = plain(model), begun(model)
    for step, control in enumerate(targets(model)):
        data.ctrl[:] = control
        data = between(model, data)
        mujoco.mj_step(model, data)
        np.testing.assert_array_equal(state_of(model, data), expected[step], err_msg=f"step {step}")


def test_derivatives_count():
    """Most steps of the model with implicit efforts are within their limits."""
    model = actuon.mujoco.load(ARM.format(integrator="implicitfast"), STIFF)
    data, held = begun(model), []
    for control in targets(model):
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        held.append([data.act[model.actuator(f"{name}_derivative_qd").actadr[0]] for name in ("shoulder", "elbow")])
    assert (np.array(held) == -1.5).mean() > 0.7
    actuon.mujoco.unload(model)


def test_the_memory_counts(model):
    """Without it, the steps would be others."""
    data, other = begun(model, steps=20), begun(model, steps=20)
    other.act[:] = 0.0
    for each in (data, other):
        mujoco.mj_step(model, each)
    assert not np.array_equal(data.qvel, other.qvel)


def test_trajectories_in_turn_are_those_alone(model):
    """A look at one between two steps of another, which is elsewhere, changes neither."""
    expected, ours, theirs = plain(model), begun(model), begun(model, steps=25)
    for step, control in enumerate(targets(model)):
        for data in (ours, theirs):
            data.ctrl[:] = control
            mujoco.mj_step(model, data)
        np.testing.assert_array_equal(state_of(model, ours), expected[step])


def test_threads_of_a_program(model):
    """More of them than can be under way at the same time."""
    expected = plain(model)[-1]

    def run(_):
        return state_of(model, begun(model, steps=STEPS))

    with concurrent.futures.ThreadPoolExecutor(70) as pool:
        for found in pool.map(run, range(70)):
            np.testing.assert_array_equal(found, expected)


def test_two_halves_of_a_step(model):
    if model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4:
        pytest.skip("mj_step2 is not for RK4, says MuJoCo")
    expected, data = plain(model), begun(model)
    for step, control in enumerate(targets(model)):
        data.ctrl[:] = control
        mujoco.mj_step1(model, data)
        mujoco.mj_step2(model, data)
        np.testing.assert_array_equal(state_of(model, data), expected[step])


@pytest.mark.parametrize("steps_at_once", [2, 7])
def test_many_steps_in_one_call(model, steps_at_once):
    one, many = begun(model, steps=5), begun(model, steps=5)
    for _ in range(steps_at_once):
        mujoco.mj_step(model, one)
    mujoco.mj_step(model, many, steps_at_once)
    np.testing.assert_array_equal(state_of(model, one), state_of(model, many))


def test_a_reset_forgets(model):
    expected = plain(model)
    data = begun(model, steps=30)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for step, control in enumerate(targets(model)):
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        np.testing.assert_array_equal(state_of(model, data), expected[step])
    fresh, reset = mujoco.MjData(model), begun(model, steps=30)
    mujoco.mj_resetData(model, reset)
    for each in (fresh, reset):
        each.ctrl[:] = 0.3
        mujoco.mj_step(model, each, 10)
    np.testing.assert_array_equal(state_of(model, fresh), state_of(model, reset))


def test_a_keyframe_of_the_middle_remembers(model):
    other = copy.copy(model)
    expected, data = plain(model), begun(model, steps=30)
    mujoco.mj_setKeyframe(other, data, 0)
    mujoco.mj_resetDataKeyframe(other, data, 0)
    data.qacc_warmstart[:] = begun(model, steps=30).qacc_warmstart  # which a keyframe has not
    for step in range(30, STEPS):
        data.ctrl[:] = targets(model)[step]
        mujoco.mj_step(other, data)
        np.testing.assert_array_equal(state_of(other, data), expected[step])


def test_time_that_is_set_back_changes_no_motion(model):
    expected, data = plain(model), begun(model, steps=30)
    data.time = 0.0
    for step in range(30, STEPS):
        data.ctrl[:] = targets(model)[step]
        mujoco.mj_step(model, data)
        moved = slice(1, 1 + model.nq + model.nv)
        np.testing.assert_array_equal(state_of(model, data)[moved], expected[step, moved])


@pytest.mark.parametrize("held", [0.0, 7.0])
def test_time_that_is_held_changes_no_motion(model, held):
    """Motors count steps, and not seconds."""
    expected, data = plain(model), begun(model)
    moved = slice(1, 1 + model.nq + model.nv)
    for step, control in enumerate(targets(model)):
        data.ctrl[:], data.time = control, held
        mujoco.mj_step(model, data)
        np.testing.assert_array_equal(state_of(model, data)[moved], expected[step, moved], err_msg=f"step {step}")


def test_a_state_without_its_time_is_restored(model):
    """After a state of ``mjSTATE_PHYSICS``, memory goes on where it was."""
    data, kind = begun(model, steps=20), mujoco.mjtState.mjSTATE_PHYSICS
    kept, warm = state_of(model, data, kind), data.qacc_warmstart.copy()
    moved = []
    for _ in range(2):
        mujoco.mj_setState(model, data, kept, kind)
        data.qacc_warmstart[:] = warm
        for control in targets(model)[20:]:
            data.ctrl[:] = control
            mujoco.mj_step(model, data)
            moved.append(state_of(model, data, kind))
    np.testing.assert_array_equal(moved[: len(moved) // 2], moved[len(moved) // 2 :])
    np.testing.assert_array_equal(moved[-1][: model.nq + model.nv], plain(model)[-1, 1 : 1 + model.nq + model.nv])


@pytest.mark.parametrize("threads", [0, 2])
def test_rollouts_from_the_middle(model, threads):
    count, middle = 6, begun(model, steps=30)
    start = np.tile(state_of(model, middle), (count, 1))
    controls = np.tile(targets(model)[30:], (count, 1, 1))
    expected = plain(model)[30:]
    datas = [mujoco.MjData(model) for _ in range(max(1, threads))]
    with rollout.Rollout(nthread=threads) as roller:
        for _ in range(2):
            states, sensed = roller.rollout(
                model, datas, start, controls, initial_warmstart=np.tile(middle.qacc_warmstart, (count, 1))
            )
            np.testing.assert_array_equal(states, np.tile(expected, (count, 1, 1)))
            assert np.isfinite(sensed).all()


def test_rollouts_of_a_list_of_models(model):
    models = [copy.copy(model) for _ in range(4)]
    for i, each in enumerate(models):
        each.body_mass[-1] *= 1.0 + 0.1 * i
    start = state_of(model, begun(model))
    datas = [mujoco.MjData(model) for _ in range(2)]
    with rollout.Rollout(nthread=2) as roller:
        states, _ = roller.rollout(models, datas, np.tile(start, (4, 1)), targets(model)[None])
    for each, own in zip(models, states, strict=True):
        np.testing.assert_array_equal(own, plain(each))
    assert len({own.tobytes() for own in states}) == 4


@pytest.mark.parametrize("persistent", [False, True])
def test_batches(model, persistent):
    expected = plain(model)
    batch = Batch(model, 5, nthread=2, persistent=persistent)
    batch.state[:] = state_of(model, begun(model), INTEGRATION)
    qpos, qvel, act = (batch.bind(name) for name in ("qpos", "qvel", "act"))
    for step, control in enumerate(targets(model)):
        batch.ctrl = np.tile(control, (5, 1))
        batch.step()
        for simulation in range(5):
            own = np.concatenate([qpos[simulation], qvel[simulation], act[simulation]])
            np.testing.assert_array_equal(own, expected[step, 1 : 1 + own.size])


def copied_model(model, path):
    return copy.copy(model)


def pickled_model(model, path):
    return pickle.loads(pickle.dumps(model))


def compiled_anew(model, path):
    return actuon.mujoco.spec(model).copy().compile()


def through_a_binary_file(model, path):
    mujoco.mj_saveModel(model, str(path / "model.mjb"), None)
    return mujoco.MjModel.from_binary_path(str(path / "model.mjb"))


WAYS = [copied_model, pickled_model, compiled_anew, through_a_binary_file]


@pytest.mark.parametrize("way", WAYS, ids=lambda each: each.__name__)
def test_copies_of_a_model_move_alike(model, way, tmp_path):
    other = way(model, tmp_path)
    np.testing.assert_array_equal(plain(other), plain(model))
    assert actuon.mujoco.telemetry(other, begun(other)).dof_names == ["shoulder", "elbow"]


def test_a_file_of_a_model_moves_with_its_motors(model, tmp_path):
    """But for what MuJoCo rounds where it writes XML."""
    (tmp_path / "model.xml").write_text(actuon.mujoco.spec(model).to_xml())
    read = mujoco.MjModel.from_xml_path(str(tmp_path / "model.xml"))
    moved = slice(1, 1 + model.nq)
    np.testing.assert_allclose(plain(read)[:20, moved], plain(model)[:20, moved], atol=1e-3)
    assert np.abs(begun(read, steps=20).qfrc_actuator).max() > 0.1


def test_a_spec_is_a_copy(model):
    """And what is compiled of it may have other values."""
    spec = actuon.mujoco.spec(model)
    spec.bodies[-1].add_geom(size=[0.01, 0, 0], mass=0.3)
    heavier = spec.compile()
    assert not np.array_equal(plain(heavier), plain(model))
    np.testing.assert_array_equal(plain(actuon.mujoco.spec(model).compile()), plain(model))


def test_system_identification():
    """MuJoCo's own finds the mass of a link of a robot that moves with motors."""
    sysid = pytest.importorskip("mujoco.sysid")
    if not hasattr(sysid, "optimize"):
        pytest.skip("mujoco[sysid] is not installed")
    text = EULER.replace("<jointpos ", '<jointpos name="angle" ').replace(
        "<actuatorfrc ", '<actuatorfrc name="effort" '
    )
    chain = actuon.ActuatorConfig(actuon.PDControlConfig(20.0, 1.0), delay=actuon.DelayConfig(2))
    model = actuon.mujoco.load(text, chain)

    def set_mass(spec, parameter):
        spec.geoms[1].mass = parameter.value[0]

    def mass_of(value):
        found = sysid.ParameterDict()
        found.add(sysid.Parameter("mass", value, 0.2, 2.0, modifier=set_mass))
        return found

    spec = actuon.mujoco.spec(model)
    true = sysid.apply_param_modifiers(mass_of(0.8), spec.copy())
    times = 0.004 * np.arange(150)
    controls = np.stack([0.4 * np.sin(5.0 * times), 0.6 * np.cos(7.0 * times)], axis=1)
    control = sysid.TimeSeries.from_control_names(times, controls, true)
    start = begun(true)
    initial = sysid.create_initial_state(true, start.qpos, start.qvel)
    (measured,) = sysid.sysid_rollout([true], [mujoco.MjData(true)], [control], [initial])
    sequences = sysid.ModelSequences("arm", spec, "swing", initial, control, measured.sensordata)
    residual = sysid.build_residual_fn(models_sequences=[sequences])
    found, _ = sysid.optimize(mass_of(0.5), residual, verbose=False, eps=1e-3)  # beyond the rounding of 32 bits
    assert found["mass"].value[0] == pytest.approx(0.8, abs=1e-3)
    actuon.mujoco.unload(model)


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "discrete", "RK4"])
def test_the_memory_advances_once_per_step(integrator):
    """Efforts that are nothing but commands of three steps ago."""
    chain = actuon.ActuatorConfig(
        actuon.PDControlConfig(kp=1.0, kd=0.0), delay=actuon.DelayConfig(delay_steps=3), control_every=1
    )
    late = actuon.mujoco.load(ARM.format(integrator=integrator), chain)
    data = mujoco.MjData(late)
    for step in range(12):
        data.ctrl[:] = 0.01 * step, 0.02 * step
        seen = [actuon.mujoco.telemetry(late, data).applied_effort[0] + data.qpos for _ in range(2)]
        expected = 0.01 * max(0, step - 3), 0.02 * max(0, step - 3)
        np.testing.assert_allclose(seen, [expected, expected], atol=1e-7)
        mujoco.mj_step(late, data)
    actuon.mujoco.unload(late)


def c_slot():
    """Where MuJoCo's library has the control callback, as a C pointer."""
    library = ctypes.CDLL(str(next(Path(mujoco.__file__).parent.glob("libmujoco.*"))))
    return ctypes.c_void_p.in_dll(library, "mjcb_control")


@pytest.fixture
def no_callbacks():
    """All callbacks off before and after a test, whatever it sets."""
    before = c_slot().value
    mujoco.set_mjcb_control(None)
    yield
    mujoco.set_mjcb_control(None)
    c_slot().value = before


def arm(chain=CHAIN, **options):
    return actuon.mujoco.load(EULER, chain, **options)


def with_text(name):
    """The arm with a text element."""
    return EULER.replace("<keyframe>", f'<custom><text name="{name}" data="x"/></custom><keyframe>')


def test_a_callback_in_python_is_called_too_and_put_back(no_callbacks):
    seen = []

    def controller(model, data):
        seen.append(data.time)
        data.ctrl[:] = 0.5 * np.sin(10.0 * data.time)

    mujoco.set_mjcb_control(controller)
    model = arm()
    assert mujoco.get_mjcb_control() is controller
    data, other = begun(model), begun(model)
    states = []
    for _ in range(10):
        mujoco.mj_step(model, data)
        states.append(state_of(model, data))
    np.testing.assert_allclose(seen, 0.004 * np.arange(10))

    mujoco.set_mjcb_control(None)
    again = arm()
    for state in states:  # the same controls, from outside
        other.ctrl[:] = 0.5 * np.sin(10.0 * other.time)
        mujoco.mj_step(again, other)
        np.testing.assert_array_equal(state_of(again, other), state)
    for each in (model, again):
        actuon.mujoco.unload(each)


def test_unload_puts_a_callback_in_python_back(no_callbacks):
    calls = []
    mujoco.set_mjcb_control(lambda model, data: calls.append(data.time))
    before, kept = c_slot().value, mujoco.get_mjcb_control()
    model, second = arm(), arm()
    assert c_slot().value != before
    actuon.mujoco.unload(model)
    assert c_slot().value != before
    actuon.mujoco.unload(second)
    assert c_slot().value == before
    assert mujoco.get_mjcb_control() is kept
    mujoco.mj_step(model, begun(model))
    assert len(calls) == 1


def test_what_a_callback_in_python_raises(no_callbacks):
    def broken(model, data):
        raise ZeroDivisionError("in the callback")

    mujoco.set_mjcb_control(broken)
    model = arm()
    data = begun(model)
    for _ in range(100):  # more often than there are cells
        with pytest.raises(ZeroDivisionError, match="in the callback"):
            mujoco.mj_step(model, data)
    actuon.mujoco.unload(model)
    mujoco.set_mjcb_control(None)
    model = arm()
    np.testing.assert_array_equal(plain(model), plain(model))
    actuon.mujoco.unload(model)


def test_a_callback_in_c_is_called_too_and_put_back(no_callbacks):
    calls = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda model, data: calls.append(data))
    address = ctypes.cast(function, ctypes.c_void_p).value
    c_slot().value = address
    model = arm()
    expected_calls = len(calls)
    data = begun(model, steps=5)
    assert len(calls) == expected_calls + 5
    actuon.mujoco.telemetry(model, data)
    assert len(calls) == expected_calls + 5
    states, _ = rollout.rollout(model, [mujoco.MjData(model)], state_of(model, begun(model)), targets(model)[None])
    np.testing.assert_array_equal(states[0], plain(model))
    actuon.mujoco.unload(model)
    assert c_slot().value == address


def test_a_callback_that_is_set_later_replaces_ours(no_callbacks):
    model = arm()
    data = begun(model, steps=3)
    mujoco.set_mjcb_control(lambda model, data: None)
    with pytest.raises(actuon.SimulationError, match="another mjcb_control was set after load"):
        actuon.mujoco.telemetry(model, data)
    again = arm()  # which puts ours in front of it again
    actuon.mujoco.telemetry(model, data)
    for each in (model, again):
        actuon.mujoco.unload(each)
    assert mujoco.get_mjcb_control() is not None


def test_a_callback_in_python_that_is_set_later_stays_after_unload(no_callbacks):
    model, calls = arm(), []
    mujoco.set_mjcb_control(lambda model, data: calls.append(data.time))
    actuon.mujoco.unload(model)
    mujoco.mj_step(model, begun(model))
    assert calls == [0.0]


def test_other_models_are_left_alone(model):
    servos = mujoco.MjModel.from_xml_string(EULER)
    moved = plain(servos)
    with_text = mujoco.MjModel.from_xml_string(
        EULER.replace("<keyframe>", '<custom><text name="actuon_x" data="x"/></custom><keyframe>')
    )
    np.testing.assert_array_equal(plain(with_text), moved)
    before = c_slot().value
    c_slot().value = None
    try:
        np.testing.assert_array_equal(plain(servos), moved)
    finally:
        c_slot().value = before
    for call in (lambda: actuon.mujoco.telemetry(servos, mujoco.MjData(servos)), lambda: actuon.mujoco.unload(servos)):
        with pytest.raises(actuon.SimulationError, match="make it with actuon.mujoco.load"):
            call()


def test_an_unloaded_model_is_limp():
    model = arm()
    actuon.mujoco.unload(model)
    data = begun(model)
    data.ctrl[:] = 1.0
    mujoco.mj_step(model, data, 10)
    np.testing.assert_array_equal(data.actuator_force, 0.0)
    (text,) = (model.text_data[a : a + n] for a, n in zip(model.text_adr, model.text_size, strict=True))
    assert b"limp" in bytes(text)
    with pytest.raises(actuon.SimulationError, match="make it with actuon.mujoco.load"):
        actuon.mujoco.unload(model)


@pytest.mark.parametrize("threads", [0, 2])
def test_an_effort_that_is_not_finite_ends_no_process(no_callbacks, threads, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log
    model = arm()
    controls = np.tile(targets(model), (4, 1, 1))
    controls[2, 20:, 1] = np.nan
    datas = [mujoco.MjData(model) for _ in range(max(1, threads))]
    with rollout.Rollout(nthread=threads) as roller:
        states, _ = roller.rollout(model, datas, state_of(model, begun(model)), controls)
    assert np.isfinite(states).all()
    for each in (0, 1, 3):
        np.testing.assert_array_equal(states[each], plain(model))
    np.testing.assert_array_equal(states[2, :20], plain(model)[:20])
    with pytest.raises(actuon.SimulationError, match=r"t = 0.08 s: the effort of joint 'elbow' is not finite"):
        actuon.mujoco.telemetry(model, begun(model))
    actuon.mujoco.telemetry(model, begun(model))  # said once
    actuon.mujoco.unload(model)


def test_a_control_that_is_not_finite_lets_the_robot_be_limp_for_that_step(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = arm()
    data, unhurt = begun(model, steps=20), begun(model, steps=20)
    count = data.warning[mujoco.mjtWarning.mjWARN_BADCTRL].number
    data.ctrl[0] = np.nan
    mujoco.mj_step(model, data)
    assert data.warning[mujoco.mjtWarning.mjWARN_BADCTRL].number > count
    np.testing.assert_array_equal(data.actuator_force, 0.0)
    mujoco.mj_step(model, unhurt)
    assert np.abs(unhurt.qfrc_actuator).min() > 0.0
    data.ctrl[:] = targets(model)[20]
    mujoco.mj_step(model, data)
    assert np.abs(data.qfrc_actuator).min() > 0.0
    assert np.isfinite(state_of(model, data)).all()
    with pytest.raises(actuon.SimulationError, match="the effort of joint 'shoulder' is not finite"):
        actuon.mujoco.telemetry(model, data)
    actuon.mujoco.unload(model)


def test_batches_count_efforts_that_are_not_finite(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = arm()
    batch = Batch(model, 3, nthread=2)
    batch.ctrl = [[0.1, 0.2], [0.1, np.nan], [0.1, 0.2]]
    batch.step()
    counted = batch.warning[:, int(mujoco.mjtWarning.mjWARN_BADCTRL)]
    np.testing.assert_array_equal(counted.any(axis=1), [False, True, False])
    with pytest.raises(actuon.SimulationError, match="the effort of joint 'elbow' is not finite"):
        actuon.mujoco.telemetry(model, mujoco.MjData(model))
    actuon.mujoco.unload(model)


@pytest.mark.parametrize("factor", [0.1, 0.5, 3.0])
def test_another_time_step_is_refused(factor):
    model = arm()
    data = begun(model, steps=3)
    model.opt.timestep *= factor
    mujoco.mj_step(model, data, 5)
    assert np.isfinite(data.qpos).all()
    with pytest.raises(actuon.SimulationError, match=r"opt.timestep was changed: .* for steps of 0.004 s"):
        actuon.mujoco.telemetry(model, data)
    model.opt.timestep = 0.004
    actuon.mujoco.telemetry(model, data)
    actuon.mujoco.unload(model)


def test_a_model_with_other_parts_under_the_same_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = arm()
    (name,) = (mujoco.mj_id2name(model, int(mujoco.mjtObj.mjOBJ_TEXT), i) for i in range(model.ntext))
    other = mujoco.MjModel.from_xml_string(
        EULER.replace("<keyframe>", f'<custom><text name="{name}" data="x"/></custom><keyframe>')
    )
    data = begun(other, steps=2)
    assert data.warning[mujoco.mjtWarning.mjWARN_BADCTRL].number > 0
    for _ in range(2):
        with pytest.raises(actuon.SimulationError, match="a copy of the model has other joints or actuators"):
            actuon.mujoco.telemetry(other, data)
    actuon.mujoco.telemetry(model, begun(model))
    actuon.mujoco.unload(model)


def test_a_spec_that_has_motors_is_refused(tmp_path):
    """A second set of motors would drive a limp robot."""
    model = arm()
    spec = actuon.mujoco.spec(model)
    spec.option.timestep = 0.002
    (tmp_path / "model.xml").write_text(spec.to_xml())
    for given in (spec, tmp_path / "model.xml", spec.to_xml()):
        with pytest.raises(actuon.StructureError, match="model: has motors of an earlier load"):
            actuon.mujoco.load(given, CHAIN)
    actuon.mujoco.unload(model)


def test_a_compiled_model_is_refused():
    compiled = mujoco.MjModel.from_xml_string(EULER)
    with pytest.raises(actuon.StructureError, match="has no room for motors; pass its file, its XML or its MjSpec"):
        actuon.mujoco.load(compiled, CHAIN)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ((3, CHAIN), actuon.StructureError, "model: got int; must be a path, XML or an MjSpec"),
        (("missing.xml", CHAIN), actuon.RobotFileError, "'missing.xml' does not exist"),
        (("<mujoco><worldbody></mujoco>", CHAIN), actuon.RobotFileError, "the XML cannot be read"),
        ((EULER,), actuon.StructureError, "actuators: is needed for a model without a file"),
        ((EULER, {"wrist": CHAIN}), actuon.StructureError, "there is no joint 'wrist'"),
        ((EULER, "no-such-motor"), actuon.RobotFileError, "nor a motor"),
        ((EULER, {}), actuon.StructureError, "actuators: there is none for a joint"),
        (("<mujoco/>", CHAIN), actuon.RobotFileError, "holds no robot"),
    ],
)
def test_what_cannot_be_loaded(given, error, text):
    before = c_slot().value
    with pytest.raises(error, match=text):
        actuon.mujoco.load(*given)
    assert c_slot().value == before


def test_joints_and_inputs_are_checked():
    with pytest.raises(actuon.StructureError, match="joints: there is no joint 'wrist'; .*shoulder"):
        arm(joints=["wrist"])
    for wrong in (["torque"], "velocity"):
        with pytest.raises(actuon.StructureError, match="inputs: got .*; must be a list of 'velocity', 'feedforward'"):
            arm(inputs=wrong)


def test_a_model_without_actuation_is_refused():
    text = EULER.replace("<worldbody>", '<option><flag actuation="disable"/></option><worldbody>')
    with pytest.raises(actuon.StructureError, match="actuation is disabled"):
        actuon.mujoco.load(text, CHAIN)
