# SPDX-License-Identifier: Apache-2.0
"""Motors in anybody's loop: what a loaded model does under every call and copy of MuJoCo, against plain ``mj_step``."""

from __future__ import annotations

import copy
import pickle

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

CHAIN = actuon.ActuatorConfig(
    actuon.PIDControlConfig(kp=30.0, ki=20.0, kd=0.6, integral_max=1.0),
    [
        actuon.HeatClampingConfig(
            winding_thermal_resistance=2.0, housing_thermal_resistance=3.0, winding_time_constant=0.05,
            housing_time_constant=5.0, motor_constant=0.3, max_effort=20.0, derating_start=30.0, derating_end=60.0,
        ),
        actuon.MaxEffortClampingConfig(6.0),
    ],
    actuon.DelayConfig(delay_steps=3),
    control_every=2,
)  # fmt: skip
"""All kinds of memory: past commands, an integral, temperatures, and a controller that is held."""

STEPS = 60
FULL = mujoco.mjtState.mjSTATE_FULLPHYSICS
INTEGRATION = mujoco.mjtState.mjSTATE_INTEGRATION


def targets(model, steps=STEPS):
    rng = np.random.default_rng(3)
    return 0.4 + 0.8 * rng.standard_normal((steps, model.nu)).cumsum(axis=0) / np.sqrt(steps)


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


@pytest.fixture(scope="module", params=["Euler", "implicitfast", "RK4"])
def model(request):
    made = actuon.mujoco.load(ARM.format(integrator=request.param), CHAIN)
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
    assert np.isfinite(a).all() and np.isfinite(b).all()
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


def test_the_memory_counts(model):
    """Without it, the steps would be others."""
    data, other = begun(model, steps=20), begun(model, steps=20)
    other.act[:] = 0.0
    for each in (data, other):
        mujoco.mj_step(model, each)
    assert not np.array_equal(data.qvel, other.qvel)


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


def through_a_binary_file(model, path):
    mujoco.mj_saveModel(model, str(path / "model.mjb"), None)
    return mujoco.MjModel.from_binary_path(str(path / "model.mjb"))


@pytest.mark.parametrize("way", [copied_model, pickled_model, through_a_binary_file], ids=lambda each: each.__name__)
def test_copies_of_a_model_move_alike(model, way, tmp_path):
    other = way(model, tmp_path)
    np.testing.assert_array_equal(plain(other), plain(model))
    assert actuon.mujoco.telemetry(other, begun(other)).dof_names == ["shoulder", "elbow"]


def test_the_memory_advances_once_per_step(model):
    """Efforts that are nothing but commands of three steps ago."""
    chain = actuon.ActuatorConfig(
        actuon.PDControlConfig(kp=1.0, kd=0.0), delay=actuon.DelayConfig(delay_steps=3), control_every=1
    )
    integrator = mujoco.mjtIntegrator(model.opt.integrator).name.removeprefix("mjINT_")
    name = {"EULER": "Euler", "IMPLICITFAST": "implicitfast"}.get(integrator, integrator)
    late = actuon.mujoco.load(ARM.format(integrator=name), chain)
    data = mujoco.MjData(late)
    for step in range(12):
        data.ctrl[:] = 0.01 * step, 0.02 * step
        seen = [actuon.mujoco.telemetry(late, data).applied_effort[0] + data.qpos for _ in range(2)]
        expected = 0.01 * max(0, step - 3), 0.02 * max(0, step - 3)
        np.testing.assert_allclose(seen, [expected, expected], atol=1e-7)
        mujoco.mj_step(late, data)
    actuon.mujoco.unload(late)
