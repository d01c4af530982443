# SPDX-License-Identifier: Apache-2.0
"""Motors in anybody's loop move robots as in a `MujocoSimulation`, to the last bit."""

from __future__ import annotations

import contextlib

import mujoco
import numpy as np
import pytest
from mujoco import rollout
from mujoco.batch import Batch

import actuon
import actuon.mujoco
from actuon import lab
from tests.support import built_in, torch_networks
from tests.support.paths import ASSETS, ROBOTS, public_robot

QUADRUPED = ASSETS / "quadruped.xml"
ARM = """
<mujoco>
  <option timestep="0.004" integrator="{integrator}"><flag island="{island}"/></option>
  <worldbody>
    <geom type="plane" size="2 2 0.1" pos="0 0 -0.35"/>
    <body name="arm">
      <joint name="shoulder" axis="0 1 0" range="-0.3 1.2" armature="0.01" frictionloss="0.02"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/>
      <body pos="0.3 0 0">
        <joint name="elbow" axis="0 1 0" damping="0.05"/>
        <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.02" mass="0.5"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder" joint="shoulder" kp="5" kv="0.1"/>
    <position name="elbow" joint="elbow" kp="5" kv="0.1"/>
  </actuator>
  <keyframe><key name="home" qpos="0.2 0.4" ctrl="0.2 0.4"/></keyframe>
</mujoco>
"""
EULER = ARM.format(integrator="Euler", island="enable")
FREE = EULER.replace('island="enable"', 'contact="disable" island="enable"').replace('range="-0.3 1.2"', "")
"""Without contacts and stops, whose forces no state has: gears with losses depend on loads."""
PD = actuon.PDControlConfig(40.0, 1.0)
LIMIT = actuon.MaxEffortClampingConfig(12.0)


class Both:
    """One robot in a plain loop and in a simulation.

    Args:
        text: MJCF, or a path.
        configs: By joint, or one for all.
        options: Of `actuon.mujoco.load`.
    """

    def __init__(self, text, configs, joints=None, **options):
        self.model = actuon.mujoco.load(text, configs, joints=joints, **options)
        spec = mujoco.MjSpec.from_string(text) if isinstance(text, str) else mujoco.MjSpec.from_file(str(text))
        self.simulation = actuon.MujocoSimulation(spec)
        self.robots, self.attached = [], []
        for robot in self.simulation.robots:
            names = [name for name in robot.dof_names if joints is None or name in joints]
            pairs = [(configs if isinstance(configs, actuon.ActuatorConfig) else configs.get(n), n) for n in names]
            own = [(config, name) for config, name in pairs if config is not None]
            if own:
                made = actuon.ArticulationActuators.from_actuators(robot.path, own, simulation=self.simulation)
                self.attached.append(made)
                self.robots.append(made.articulation)
        self.data, self.other = mujoco.MjData(self.model), self.simulation.data[0]
        keys = [self.model.key(i).name for i in range(self.model.nkey)]
        if "home" in keys:
            mujoco.mj_resetDataKeyframe(self.model, self.data, keys.index("home"))
        assert np.array_equal(self.data.qpos, self.other.qpos)
        self.nu = mujoco.MjSpec.from_string(text).compile().nu if isinstance(text, str) else spec.compile().nu

    def step(self, controls):
        """Take a step with these controls of the model's own actuators."""
        self.data.ctrl[: self.nu] = self.other.ctrl[: self.nu] = controls
        self.advance()

    def advance(self):
        mujoco.mj_step(self.model, self.data)
        self.simulation.step()

    def check(self, exact=True, **tolerance):
        for name in ("qpos", "qvel"):
            ours, theirs = getattr(self.data, name), getattr(self.simulation.data[0], name)
            assert np.isfinite(ours).all()
            if exact:
                np.testing.assert_array_equal(ours, theirs, err_msg=f"{name} at {self.data.time}")
            else:
                np.testing.assert_allclose(ours, theirs, err_msg=f"{name} at {self.data.time}", **tolerance)

    def move(self, steps=60, spread=0.4, exact=True, **tolerance):
        """Move with other targets in each step, and check each."""
        rng, start = np.random.default_rng(5), self.data.ctrl[: self.nu].copy()
        for _ in range(steps):
            self.step((start + rng.uniform(-spread, spread, self.nu)).astype(np.float32))
            self.check(exact, **tolerance)
        assert np.abs(self.data.qvel).max() > 1e-3

    def close(self):
        self.simulation.close()
        actuon.mujoco.unload(self.model)


@pytest.fixture
def both():
    with contextlib.ExitStack() as stack:

        def make(*arguments, **options):
            made = Both(*arguments, **options)
            stack.callback(made.close)
            return made

        yield make


@pytest.mark.parametrize("integrator", ["Euler", "implicit", "implicitfast"])
def test_the_quadruped(both, integrator):
    spec = mujoco.MjSpec.from_file(str(QUADRUPED))
    spec.option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    hinges = [joint.name for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_HINGE]
    matched = actuon.match_joints(actuon.load_actuators(actuon.assets.quadruped_yaml), hinges)
    configs = {name: entry.actuator_of(name) for entry, names in matched for name in names}
    moved = both(spec.to_xml(), configs)
    moved.move(200)
    assert moved.data.ncon


PID = actuon.PIDControlConfig(40.0, 30.0, 1.0)
GEAR = actuon.GearTransmissionConfig(6.0, 0.9, rotor_inertia=1e-4)
NOISE = actuon.NoiseEffectConfig(0.3, 0.1, seed=4)
CHAINS = {
    "delay": actuon.ActuatorConfig(PD, [LIMIT], actuon.DelayConfig(3)),
    "PID": actuon.ActuatorConfig(PID, [LIMIT]),
    "held": actuon.ActuatorConfig(PID, [LIMIT], actuon.DelayConfig(1), control_every=3),
    "gear": actuon.ActuatorConfig(PD, [actuon.DCMotorClampingConfig(2.0, 40.0, 1.5)], transmission=GEAR),
    "noise": actuon.ActuatorConfig(PD, [LIMIT], effects=[NOISE]),
    "jitter": actuon.ActuatorConfig(PD, [LIMIT], actuon.TimeDelayConfig(0.01, jitter=0.003)),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_chains(both, chain):
    moved = both(FREE if chain == "gear" else EULER, CHAINS[chain])
    moved.move()


COUPLED = "TransmissionCoupled"
"""Moves joints together, by a kernel of its own."""


def component_names():
    """Every component of which values are known."""
    return sorted(name for name in built_in.components() if built_in.values(name) is not None and name != COUPLED)


@pytest.mark.parametrize("name", component_names())
def test_every_component(both, name):
    model = FREE if name == "TransmissionGear" else EULER
    moved = both(model, actuon.ActuatorConfig(stages=built_in.stages(name)))
    moved.move(30)


@pytest.mark.parametrize("name", ["DelayTime", "DelayInterpolated"])
def test_the_first_run_has_the_draws_of_a_simulation_and_others_those_of_its_resets(both, name):
    part = built_in.components()[name].config(**built_in.values(name))
    moved = both(EULER, actuon.ActuatorConfig(stages=[part, PD]))
    for number in range(3):
        mujoco.mj_resetDataKeyframe(moved.model, moved.data, 0)
        if number:
            moved.simulation.reset()
            actuon.mujoco.seed(moved.model, moved.data, number)
        moved.move(20)


def body(name, joints, at="0 0 0"):
    """A robot whose links hang on each other, a joint each."""
    text = f'<body name="{name}" pos="{at}">'
    for i, joint in enumerate(joints):
        text += f'{joint}<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="{1.0 / (i + 1)}"/>'
        text += '<body pos="0.3 0 0">' if i < len(joints) - 1 else ""
    return text + "</body>" * len(joints)


def mjcf(bodies, actuators="", more="", option=""):
    return (
        f'<mujoco><option timestep="0.004" {option}/><worldbody>{bodies}</worldbody><actuator>{actuators}</actuator>'
        f"{more}</mujoco>"
    )


def hinge(name, more=""):
    return f'<joint name="{name}" axis="0 1 0" {more}/>'


TWO = body("arm", [hinge("a"), hinge("b")])
SERVOS = '<position name="a_servo" joint="a" kp="5"/><position name="b_servo" joint="b" kp="5"/>'
LATE = actuon.ActuatorConfig(PD, [LIMIT], actuon.DelayConfig(2))


@pytest.mark.parametrize(
    "servo",
    [
        '<position joint="a" kp="5" gear="3"/>',
        '<position joint="a" kp="5" gear="-2" armature="0.01" damping="0.1"/>',
        '<position joint="a" kp="5" timeconst="0.1"/>',
        '<position joint="a" kp="5" dampratio="1" forcerange="-1 1"/>',
        '<position joint="a" kp="5" inheritrange="0.5"/>',
        '<general joint="a" ctrlrange="0 255" gainprm="0.05" biastype="affine" biasprm="-2 -3 -0.1"/>',
        '<position joint="a" kp="5" ctrlrange="-0.2 0.1"/>',
        '<position joint="a" kp="5" nsample="5" delay="0.01"/>',
    ],
)
def test_servos_of_all_kinds_keep_their_control(both, servo):
    bodies = body("arm", [hinge("a", 'range="-1 2" limited="true"'), hinge("b")])
    moved = both(mjcf(bodies, servo + '<position joint="b" kp="5"/>'), LATE)
    assert moved.model.nu == 2
    np.testing.assert_array_equal(moved.model.actuator_ctrlrange, moved.simulation.models[0].actuator_ctrlrange)
    for step in range(40):
        moved.step([100.0 * np.sin(step / 9.0) + 100.0 if "255" in servo else np.sin(step / 9.0), 0.3])
        moved.check()


def test_targets_beyond_the_range_of_controls_are_clipped(both):
    """To `ctrlrange`, unless the model says that it is not to."""
    servo = '<position joint="a" kp="5" ctrlrange="-0.2 0.1"/><position joint="b" kp="5"/>'
    clipped = both(mjcf(TWO, servo), LATE)
    free = both(
        mjcf(TWO, servo).replace("<worldbody>", '<option><flag clampctrl="disable"/></option><worldbody>'), LATE
    )
    for moved in (clipped, free):
        for _ in range(20):
            moved.step([1.0, 0.0])
            moved.check()
    assert clipped.data.qpos[0] < free.data.qpos[0]
    at_edge = both(mjcf(TWO, servo), LATE)
    for _ in range(20):
        at_edge.step([0.1, 0.0])
    np.testing.assert_array_equal(at_edge.data.qpos, clipped.data.qpos)


@pytest.mark.parametrize("way", ["live", "spec", "flag", "added control"])
def test_a_range_of_controls_that_changes_later_counts(both, way):
    """As MuJoCo reads it at each step."""
    servo = '<position joint="a" kp="5" ctrlrange="-0.2 0.1"/><position joint="b" kp="5"/>'
    stiff = actuon.ActuatorConfig(PD, [actuon.MaxEffortClampingConfig(100.0)])
    moved = both(mjcf(TWO, servo if way != "added control" else ""), stiff)
    model = moved.model
    if way == "spec":
        spec = actuon.mujoco.spec(model)
        spec.actuators[0].ctrlrange = (-0.5, 0.6)
        model = spec.compile()
    elif way == "flag":
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL
    else:
        model.actuator_ctrllimited[0], model.actuator_ctrlrange[0] = True, (-0.5, 0.6)
    data = mujoco.MjData(model)
    data.ctrl[:2] = 1.0, 0.3
    mujoco.mj_forward(model, data)
    expected = 40.0 * np.array([1.0 if way == "flag" else 0.6, 0.3])
    np.testing.assert_allclose(data.qfrc_actuator, expected, rtol=1e-6)
    np.testing.assert_allclose(actuon.mujoco.telemetry(model, data).applied_effort[0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "actuators",
    [
        SERVOS + '<velocity name="speed" joint="a" kv="2" gear="2" ctrlrange="-1 1"/>',
        '<velocity name="speed" joint="a" kv="2"/><position joint="b" kp="5"/>',
        SERVOS + '<motor joint="a"/><damper joint="b" kv="1" ctrlrange="0 1"/>',
    ],
    ids=["beside a position servo", "alone", "motors beside servos"],
)
def test_velocity_servos_keep_their_control(both, actuators):
    moved = both(mjcf(TWO, actuators), LATE)
    alone = "b_servo" not in actuators
    assert moved.model.nu == moved.nu + alone
    for step in range(40):
        controls = 0.5 * np.sin((step + np.arange(moved.nu)) / 7.0) * 3.0
        if alone:
            target = np.float32(np.sin(step / 9.0))
            moved.robots[0].set_dof_position_targets(target, dof_indices=[0])
            moved.data.actuator("a_position").ctrl = target
        moved.step(np.float32(controls))
        moved.check()


def test_a_velocity_target_counts(both):
    moved = both(mjcf(TWO, SERVOS), actuon.ActuatorConfig(PD, [LIMIT]), inputs=["velocity"])
    speeds = [moved.model.actuator(f"{name}_velocity").id for name in "ab"]
    for step in range(30):
        wanted = np.float32([0.5 * np.cos(step / 5.0), -0.3])
        moved.data.ctrl[speeds] = wanted
        moved.robots[0].set_dof_velocity_targets(wanted)
        moved.step([0.1, 0.2])
        moved.check()


def test_feedforward_counts_and_is_late(both):
    moved = both(mjcf(TWO, SERVOS), LATE, inputs=["feedforward", "velocity"])
    places = [moved.model.actuator(f"{name}_feedforward").id for name in "ab"]
    for step in range(30):
        given = np.float32([np.cos(step / 5.0), -0.5])
        moved.data.ctrl[places] = given
        moved.attached[0].set_dof_feedforward_effort_targets(given)
        moved.step([0.1, 0.2])
        moved.check()
    without = both(mjcf(TWO, SERVOS), LATE)
    for _ in range(30):
        without.step([0.1, 0.2])
    assert np.abs(without.data.qpos - moved.data.qpos).max() > 1e-3


@pytest.mark.parametrize("actuators", ["", '<motor name="a" joint="a" gear="20" ctrlrange="-1 1"/>'])
def test_joints_without_a_servo_get_a_control(both, actuators):
    """Joints with a motor get one too, and the motor is disabled; other joints keep theirs."""
    moved = both(mjcf(TWO, actuators + '<motor name="b" joint="b"/>'), {"a": LATE})
    motors = moved.nu
    assert moved.model.nu == motors + 1
    assert moved.model.actuator("a_position").id == motors
    for step in range(30):
        target = np.float32(np.sin(step / 9.0))
        moved.robots[0].set_dof_position_targets(target, dof_indices=[0])
        moved.data.actuator("a_position").ctrl = target
        moved.step([0.7] * motors)
        moved.check()
    assert moved.data.actuator("b").force[0] == 0.7
    if motors > 1:
        assert moved.data.actuator("a").force[0] == 0.0


def test_keyframes_tell_added_controls_to_stay(both):
    keys = '<keyframe><key name="home" qpos="0.3 0.4"/><key qpos="0.1 0.2" ctrl="0.6"/></keyframe>'
    model = actuon.mujoco.load(mjcf(TWO, '<position name="b" joint="b" kp="5"/>', keys), LATE)
    data = mujoco.MjData(model)
    for key, expected in ((0, [0.0, 0.3]), (1, [0.6, 0.1])):
        mujoco.mj_resetDataKeyframe(model, data, key)
        np.testing.assert_array_equal(data.ctrl, expected)
        np.testing.assert_array_equal(data.act, 0.0)
    actuon.mujoco.unload(model)


def test_activations_of_others_stay(both):
    """Of a muscle and a filtered motor on joints without a motor of ours, in keyframes and in motion."""
    bodies = body("arm", [hinge("a"), hinge("b"), hinge("c", 'range="-1 1"')])
    actuators = (
        '<muscle name="muscle" joint="c" lengthrange="-1 1" force="3"/><position name="servo" joint="a" kp="5"/>'
        '<general name="filtered" joint="b" dyntype="filterexact" dynprm="0.1"/>'
    )
    keys = '<keyframe><key name="home" qpos="0 0.1 0.2" act="0.4 0.7" ctrl="0.5 0 1"/></keyframe>'
    moved = both(mjcf(bodies, actuators, keys), {"a": LATE})

    def activations(model, data):
        return [data.act[model.actuator(name).actadr[0]] for name in ("muscle", "filtered")]

    assert activations(moved.model, moved.data) == [0.4, 0.7]
    for step in range(40):
        moved.step([0.5, np.float32(np.sin(step / 9.0)), 1.0])
        moved.check()
        assert activations(moved.model, moved.data) == activations(moved.simulation.models[0], moved.other)


def test_tendons_of_other_joints_stay_and_of_ours_are_switched_off(both):
    bodies = body("arm", [hinge("a"), hinge("b")]) + body("hand", [hinge("c"), hinge("d")], "0 1 0")
    tendons = "".join(
        f'<fixed name="{x}{y}"><joint joint="{x}" coef="1"/><joint joint="{y}" coef="0.5"/></fixed>'
        for x, y in ("ab", "cd")
    )
    actuators = '<position name="ab" tendon="ab" kp="4"/><position name="cd" tendon="cd" kp="4"/>'
    text = mjcf(bodies, actuators, f"<tendon>{tendons}</tendon>")
    moved = both(text, {"a": LATE, "b": LATE})
    for step in range(40):
        targets = np.float32([np.sin(step / 9.0), -0.4])
        moved.robots[0].set_dof_position_targets(targets)
        for name, target in zip("ab", targets, strict=True):
            moved.data.actuator(f"{name}_position").ctrl = target
        moved.step([9.0, 0.5])
        moved.check()
    assert moved.data.actuator("ab").force == 0.0
    assert moved.data.actuator("cd").force != 0.0
    with pytest.raises(actuon.SimulationError, match="moves a, b together: drive all or none of them"):
        actuon.mujoco.load(text, {"a": LATE})


def test_a_drive_with_two_controls_keeps_both(both):
    if not hasattr(mujoco.mjtGain, "mjGAIN_PID"):
        pytest.skip("this MuJoCo has no <pid>")
    text = mjcf(TWO, '<pid name="both" joint="a" kp="5" kv="1" input="pos vel"/><position joint="b" kp="5"/>')
    moved = both(text, LATE)
    for step in range(30):
        moved.step(np.float32([np.sin(step / 9.0), np.cos(step / 9.0), 0.2]))
        moved.check()


def test_limits_of_joints(both):
    """Of the model, which are not the same in both directions."""
    limits = 'actuatorfrcrange="-0.7 1.3" actuatorfrclimited="true"'
    moved = both(mjcf(body("arm", [hinge("a", limits), hinge("b")]), SERVOS), LATE)
    for step in range(40):
        moved.step([2.0 * np.sin(step / 6.0), 0.0])
        moved.check()
    told = actuon.mujoco.telemetry(moved.model, moved.data)
    assert -0.7 < told.applied_effort[0, 0] < 1.3 or told.limited_by[0, 0] == "engine"
    moved.data.ctrl[0] = 3.0
    for _ in range(3):
        mujoco.mj_step(moved.model, moved.data)
    told = actuon.mujoco.telemetry(moved.model, moved.data)
    assert told.applied_effort[0, 0] == np.float32(1.3)
    assert told.limited_by[0, 0] == "engine"


def test_gravity_compensation_is_clipped_together_with_the_effort(both):
    limits = 'actuatorfrcrange="-2 2" actuatorfrclimited="true" actuatorgravcomp="true"'
    bodies = body("arm", [hinge("a", limits), hinge("b")]).replace('name="arm"', 'name="arm" gravcomp="1"')
    moved = both(mjcf(bodies, SERVOS), LATE)
    moved.move(40, spread=1.0, exact=False, rtol=0.0, atol=1e-6)


def test_an_implicit_effort_that_is_clipped_with_gravity_compensation_has_no_derivatives():
    """MuJoCo would damp the joint by more than the effort that it passes on."""
    bodies = body("arm", [hinge("a", 'actuatorfrcrange="-1 1" actuatorgravcomp="true"')])
    text = mjcf(bodies.replace('name="arm"', 'name="arm" gravcomp="1"'), "", option='integrator="implicitfast"')
    config = actuon.ActuatorConfig(PD, effort_mode="implicit")
    model = actuon.mujoco.load(text, {"a": config})
    data = mujoco.MjData(model)
    with actuon.MujocoSimulation(mujoco.MjSpec.from_string(text)) as simulation:
        actuators = actuon.ArticulationActuators.from_actuators("arm", [(config, "a")])
        for _ in range(50):
            mujoco.mj_step(model, data)
            simulation.step()
        assert actuators.telemetry().limited_by[0, 0] == "engine"
        np.testing.assert_allclose(data.qpos, simulation.data[0].qpos, rtol=0.0, atol=1e-6)
        assert abs(data.qpos[0]) > 0.01
    actuon.mujoco.unload(model)


@pytest.mark.parametrize("mode", ["explicit", "implicit"])
def test_telemetry_shows_what_mujoco_lets_through_beside_gravity_compensation(both, mode):
    limits = 'actuatorfrcrange="-4 3" actuatorgravcomp="true"'
    bodies = body("arm", [hinge("a", limits), hinge("b")]).replace('name="arm"', 'name="arm" gravcomp="1"')
    config = actuon.ActuatorConfig(PD, [LIMIT], effort_mode=mode)
    model = both(mjcf(bodies, SERVOS, option='integrator="implicitfast"'), config).model
    data = mujoco.MjData(model)
    for target in (-0.9, 0.7):
        data.ctrl[:2] = target
        mujoco.mj_step(model, data, 3)
        mujoco.mj_forward(model, data)
        told = actuon.mujoco.telemetry(model, data)
        compensation = data.qfrc_gravcomp * [1.0, 0.0]
        np.testing.assert_allclose(told.applied_effort[0], data.qfrc_actuator - compensation, rtol=1e-5, atol=1e-5)
        assert told.limited_by[0, 0] == "engine"
        assert told.clipped[0, 0]


def test_two_robots_have_a_battery_each(both):
    bodies = TWO + body("other", [hinge("c"), hinge("d"), hinge("e")], "0 1 0")
    actuators = SERVOS + "".join(f'<position joint="{name}" kp="5"/>' for name in "cde")

    def chain(*more):
        battery = actuon.BatteryClampingConfig(12.0, 0.8, capacity=8.0, empty_voltage=4.0)
        return actuon.ActuatorConfig(PD, [battery, actuon.VoltageClampingConfig(0.4, 0.5), *more])

    configs = dict.fromkeys("ace", chain()) | dict.fromkeys("bd", chain(LIMIT))
    moved = both(mjcf(bodies, actuators), configs)
    moved.move(80, spread=1.0)
    told = actuon.mujoco.telemetry(moved.model, moved.data).signals["supply_voltage"][0]
    assert told[0] == pytest.approx(told[1])
    assert told[0] < 11.0
    assert told[0] != pytest.approx(told[2], abs=0.05)


def test_chains_of_all_kinds_beside_each_other(both):
    """Friction on one joint is none of the others'."""
    bodies = body("arm", [hinge("a", 'frictionloss="0.2" damping="0.1"'), hinge("b", 'frictionloss="0.3"'), hinge("c")])
    actuators = SERVOS + '<position joint="c" kp="5"/>'
    configs = {
        "a": LATE,
        "b": actuon.ActuatorConfig(PD, [LIMIT], effects=[actuon.FrictionEffectConfig(0.4, 0.2)]),
        "c": actuon.ActuatorConfig(
            actuon.PIDControlConfig(20.0, 3.0, 0.5), transmission=actuon.GearTransmissionConfig(3.0)
        ),
    }
    both(mjcf(bodies, actuators), configs).move(60, spread=1.0)


def test_robots_of_many_joints():
    """More than one block of lanes: what is remembered of one trajectory is not mixed with another."""
    leaves = "".join(f'<body pos="0 {i} 0">{hinge(f"j{i}")}<geom size="0.1" pos="0.2 0 0"/></body>' for i in range(70))
    model = actuon.mujoco.load(
        mjcf(f'<body name="tree">{leaves}</body>'), actuon.ActuatorConfig(PID, delay=actuon.DelayConfig(3))
    )
    rng = np.random.default_rng(1)
    controls = rng.uniform(-0.5, 0.5, (2, 12, 70))
    alone = []
    for own in controls:
        data = mujoco.MjData(model)
        for control in own:
            data.ctrl[:] = control
            mujoco.mj_step(model, data)
        alone.append(data.qpos.copy())
    together = [mujoco.MjData(model) for _ in controls]
    for step in range(12):
        for data, own in zip(together, controls, strict=True):
            data.ctrl[:] = own[step]
            mujoco.mj_step(model, data)
    np.testing.assert_array_equal([data.qpos for data in together], alone)
    assert not np.array_equal(*alone)
    actuon.mujoco.unload(model)


def test_memory_that_no_thread_has_room_for_is_refused():
    late = actuon.ActuatorConfig(PD, delay=actuon.DelayConfig(9_000))
    with pytest.raises(actuon.StructureError, match=r"the motors remember \d+ numbers, .* shorten delays"):
        actuon.mujoco.load(mjcf(TWO, SERVOS), late, inputs=["velocity", "feedforward"])


def test_joints_without_a_name_are_called_by_their_number(both):
    bodies = body("arm", ['<joint axis="0 1 0"/>', hinge("b")])
    model = actuon.mujoco.load(mjcf(bodies), LATE)
    assert actuon.mujoco.telemetry(model, mujoco.MjData(model)).dof_names == ["joint0", "b"]
    data = mujoco.MjData(model)
    data.actuator("joint0_position").ctrl = 0.5
    mujoco.mj_step(model, data, 5)
    assert data.qvel[0] != 0.0
    assert data.actuator("joint0_position").force != 0.0
    actuon.mujoco.unload(model)


def test_a_group_of_actuators_that_is_switched_off(both):
    model = actuon.mujoco.load(mjcf(TWO, SERVOS.replace('name="a_servo"', 'name="a_servo" group="3"')), LATE)
    data = mujoco.MjData(model)
    model.opt.disableactuator = 1 << 3
    data.ctrl[:] = 0.5
    mujoco.mj_step(model, data, 5)
    np.testing.assert_array_equal(data.qfrc_actuator == 0.0, [True, False])
    actuon.mujoco.unload(model)


def shaken(model, steps=25):
    """Positions after each step from the start, with controls that stay."""
    data, seen = mujoco.MjData(model), []
    for _ in range(steps):
        mujoco.mj_step(model, data)
        seen.append(data.qpos.copy())
    return np.array(seen)


@pytest.fixture
def noisy():
    model = actuon.mujoco.load(mjcf(TWO, SERVOS), CHAINS["noise"])
    yield model
    actuon.mujoco.unload(model)


def test_noise_differs_between_trajectories_and_repeats_with_a_seed(noisy):
    one, other = shaken(noisy), shaken(noisy)
    assert not np.array_equal(one, other)
    data = mujoco.MjData(noisy)
    for expected, number in ((one, 0), (other, 1), (one, 0)):
        mujoco.mj_resetData(noisy, data)
        actuon.mujoco.seed(noisy, data, number)
        for qpos in expected:
            mujoco.mj_step(noisy, data)
            np.testing.assert_array_equal(data.qpos, qpos)


def test_a_look_before_the_first_step_draws_nothing(noisy):
    looked = mujoco.MjData(noisy)
    told = [actuon.mujoco.telemetry(noisy, looked).applied_effort for _ in range(2)]
    np.testing.assert_array_equal(told[0], told[1])
    seen = shaken(noisy)
    actuon.mujoco.seed(noisy, looked)
    for qpos in seen:
        mujoco.mj_step(noisy, looked)
        np.testing.assert_array_equal(looked.qpos, qpos)


def test_a_trajectory_has_the_noise_of_the_environment_of_its_number(noisy):
    with actuon.MujocoSimulation(mujoco.MjSpec.from_string(mjcf(TWO, SERVOS)), 3) as simulation:
        actuators = [(CHAINS["noise"], name) for name in "ab"]
        kept = actuon.ArticulationActuators.from_actuators("arm", actuators, simulation=simulation)
        datas = [mujoco.MjData(noisy) for _ in range(3)]
        for number, data in enumerate(datas):
            actuon.mujoco.seed(noisy, data, number)
        for _ in range(20):
            simulation.step()
            for env, data in enumerate(datas):
                mujoco.mj_step(noisy, data)
                np.testing.assert_array_equal(data.qpos, simulation.data[env].qpos)
        kept.close()


def test_rollouts_with_seeds(noisy):
    size = mujoco.mj_stateSize(noisy, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    starts = np.zeros((6, size))
    control = np.zeros((1, 20, noisy.nu))
    datas = [mujoco.MjData(noisy) for _ in range(2)]
    with rollout.Rollout(nthread=2) as roller:
        unseeded, _ = roller.rollout(noisy, datas, starts, control)
        assert len({each.tobytes() for each in unseeded[:, -1, 1:3]}) == 6
        actuon.mujoco.seed(noisy, starts, [5, 6, 7, 5, 6, 7])
        first, _ = roller.rollout(noisy, datas, starts, control)
        again, _ = roller.rollout(noisy, datas, starts, control)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[:3], first[3:])
    assert len({each.tobytes() for each in first[:, -1, 1:3]}) == 3
    batch = Batch(noisy, 3, nthread=2)
    actuon.mujoco.seed(noisy, batch.state, 6)
    for _ in range(20):
        batch.step()
    np.testing.assert_array_equal(batch.qpos, np.tile(first[1, -1, 1:3], (3, 1)))


def test_trajectories_without_random_numbers_are_alike():
    """Their memory is equal as well."""
    model = actuon.mujoco.load(mjcf(TWO, SERVOS), LATE)
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    states, _ = rollout.rollout(model, [mujoco.MjData(model)], np.zeros((3, size)), np.ones((1, 9, 2)))
    np.testing.assert_array_equal(states, np.tile(states[0], (3, 1, 1)))
    actuon.mujoco.unload(model)


@pytest.mark.parametrize("number", [-1, 0.5, "one", [1, 2]])
def test_seeds_are_whole_numbers(noisy, number):
    with pytest.raises(actuon.StructureError, match="number: got"):
        actuon.mujoco.seed(noisy, mujoco.MjData(noisy), number)


def test_states_that_are_seeded_are_those_of_the_model(noisy):
    with pytest.raises(actuon.StructureError, match=r"data: got an array of the shape \(3, 4\)"):
        actuon.mujoco.seed(noisy, np.zeros((3, 4)))


def network(kind, path):
    made = torch_networks.LSTM(hidden=4) if kind == "lstm" else torch_networks.mlp(inputs=6, width=8)
    actuon.save_network(made, path, **({} if kind == "lstm" else {"input_idx": [0, 1, 2]}))
    return actuon.NeuralControlConfig(str(path))


@pytest.mark.parametrize("kind", ["lstm", "mlp"])
def test_networks(both, kind, tmp_path):
    chain = actuon.ActuatorConfig(network(kind, tmp_path / f"{kind}.pt"), [LIMIT])
    both(EULER, chain, allow_unsafe_torch_checkpoints=True).move(40)


def test_chains_with_kernels_of_their_own_are_refused():
    matrix = ((1.0, 1.0), (1.0, -1.0))
    coupled = [
        actuon.ActuatorConfig(PD, transmission=actuon.CoupledTransmissionConfig(matrix, row=row)) for row in range(2)
    ]
    with pytest.raises(actuon.StructureError, match=r"joint 'a': TransmissionCoupled has its own kernels, .* use Muj"):
        actuon.mujoco.load(mjcf(TWO, SERVOS), dict(zip("ab", coupled, strict=True)))


def test_inputs_that_mujoco_has_not_are_refused():
    rough = actuon.FrictionEffectConfig(0.1, load_external=0.2)
    with pytest.raises(
        actuon.StructureError, match="joint 'a': takes the input 'joint_load', .*; use MujocoSimulation"
    ):
        actuon.mujoco.load(mjcf(TWO, SERVOS), actuon.ActuatorConfig(PD, effects=[rough]))


def group(name, folder, **more):
    """The config of a group of a kind, on all joints."""
    common = {"joint_names_expr": [".*"], "stiffness": 40.0, "damping": 1.0, "effort_limit": 9.0, "velocity_limit": 8.0}
    own = {
        "DCMotorCfg": {"saturation_effort": 12.0, "armature": 0.02, "friction": 0.1, "viscous_friction": 0.05},
        "DelayedPDActuatorCfg": {"min_delay": 3, "max_delay": 3, "stiffness": {"a": 20.0, "b": 30.0}},
        "IdealPDActuatorCfg": {"stiffness": None, "damping": None, "effort_limit": None, "effort_limit_sim": 3.0},
        "RemotizedPDActuatorCfg": {"joint_parameter_lookup": [[-2.0, 1.0, 8.0], [2.0, 2.0, 5.0]]},
    }
    kinds = {"ActuatorNetMLPCfg": "mlp", "ActuatorNetLSTMCfg": "lstm"}
    if name in kinds:
        path = folder / f"{kinds[name]}.pt"
        network(kinds[name], path)
        own[name] = {"saturation_effort": 12.0, "network_file": str(path)}
    return getattr(lab, name)(**{**common, **own[name], **more})


class GroupsToo(Both):
    """A robot with groups."""

    def __init__(self, text, groups):
        self.model = actuon.mujoco.load(text, groups)
        spec = mujoco.MjSpec.from_string(text)
        self.simulation = actuon.MujocoSimulation(spec)
        self.robots = [actuon.Articulation("arm", self.simulation)]
        self.attached = [lab.ActuatorGroups(self.robots[0], groups)]
        self.data, self.other = mujoco.MjData(self.model), self.simulation.data[0]
        self.nu = spec.compile().nu


@pytest.mark.parametrize(
    "name",
    [
        "IdealPDActuatorCfg",
        "DCMotorCfg",
        "DelayedPDActuatorCfg",
        "RemotizedPDActuatorCfg",
        "ActuatorNetMLPCfg",
        "ActuatorNetLSTMCfg",
    ],
)
def test_groups(name, tmp_path):
    servos = SERVOS.replace('kp="5"', 'kp="30" kv="1" forcerange="-4 5"')
    moved = GroupsToo(mjcf(TWO, servos), {"all": group(name, tmp_path)})
    with contextlib.closing(moved):
        moved.move(50, spread=1.0)


def test_lags_of_a_group_are_drawn_once():
    """When it is loaded: all trajectories have the same."""
    cfg = lab.DelayedPDActuatorCfg([".*"], stiffness=1.0, damping=0.0, effort_limit=9.0, max_delay=6)
    seen = set()
    for seed in range(6):
        model = actuon.mujoco.load(mjcf(TWO), {"all": cfg.replace(seed=seed)})
        size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        control = np.zeros((1, 9, 2))
        control[:, 1:] = 1.0
        datas = [mujoco.MjData(model) for _ in range(2)]
        with rollout.Rollout(nthread=2) as roller:
            states, _ = roller.rollout(model, datas, np.zeros((8, size)), control)
        np.testing.assert_array_equal(states, np.tile(states[0], (8, 1, 1)))
        seen.add(states[0].tobytes())
        actuon.mujoco.unload(model)
    assert len(seen) > 2


def test_several_groups_and_joints_in_none():
    bodies = body("arm", [hinge("a"), hinge("b"), hinge("c")])
    groups = {
        "first": lab.DCMotorCfg(["a"], stiffness=30.0, damping=1.0, saturation_effort=9.0, velocity_limit=9.0),
        "second": lab.IdealPDActuatorCfg(["b"], stiffness=20.0, damping=0.5, effort_limit=3.0),
    }
    moved = GroupsToo(mjcf(bodies, SERVOS + '<position joint="c" kp="5" kv="0.3"/>'), groups)
    with contextlib.closing(moved):
        moved.move(50, spread=1.0)
        assert actuon.mujoco.telemetry(moved.model, moved.data).dof_names == ["a", "b"]


def test_groups_that_cannot_be_loaded(tmp_path):
    implicit = lab.ImplicitActuatorCfg([".*"], stiffness=1.0, damping=1.0)
    with pytest.raises(actuon.StructureError, match="group 'legs': ImplicitActuatorCfg is the engine drive"):
        actuon.mujoco.load(mjcf(TWO, SERVOS), {"legs": implicit})
    explicit = group("IdealPDActuatorCfg", tmp_path)
    with pytest.raises(actuon.StructureError, match=r"actuators\['b'\]: got ActuatorConfig among groups"):
        actuon.mujoco.load(mjcf(TWO, SERVOS), {"legs": explicit, "b": LATE})
    two = TWO + body("other", [hinge("c")], "0 1 0")
    with pytest.raises(actuon.StructureError, match="a model of one robot; here are /arm, /other"):
        actuon.mujoco.load(mjcf(two, SERVOS), {"legs": explicit})
    with pytest.raises(actuon.ParameterError, match="matches no joint"):
        actuon.mujoco.load(mjcf(TWO, SERVOS), {"legs": explicit.replace(joint_names_expr=["x.*"])})


FRICTION = {
    "dry": actuon.FrictionEffectConfig(0.4),
    "viscous": actuon.FrictionEffectConfig(viscous=0.15),
    "Stribeck": actuon.FrictionEffectConfig(0.3, 0.05, static=0.9, stribeck_velocity=0.2),
}


def with_friction(name):
    return actuon.ActuatorConfig(PD, [LIMIT], actuon.DelayConfig(1), effects=[FRICTION[name]])


@pytest.mark.parametrize("island", ["enable", "disable"])
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit"])
@pytest.mark.parametrize("name", FRICTION)
def test_friction_of_an_arm(both, name, integrator, island, caplog):
    moved = both(ARM.format(integrator=integrator, island=island), with_friction(name))
    moved.move(80, spread=0.6)
    assert (moved.data.nisland > 0) == (island == "enable")
    assert "the asset's own friction is replaced" in caplog.text


@pytest.mark.parametrize("solver", ["PGS", "CG", "Newton"])
def test_friction_with_each_solver(both, solver):
    text = ARM.format(integrator="Euler", island="enable").replace("<option", f'<option solver="{solver}"')
    both(text, with_friction("Stribeck")).move(40, spread=0.6)


@pytest.mark.parametrize("island", [True, False])
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast"])
@pytest.mark.parametrize("name", ["dry", "Stribeck"])
def test_friction_of_the_quadruped(both, name, integrator, island):
    spec = mujoco.MjSpec.from_file(str(QUADRUPED))
    spec.option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    if not island:
        spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    chain = actuon.ActuatorConfig(actuon.PDControlConfig(60.0, 1.5), effects=[FRICTION[name]])
    moved = both(spec.to_xml(), chain)
    moved.move(120, spread=0.2)
    assert moved.data.ncon


def test_friction_acts_in_the_step_that_it_is_of(both):
    """A joint that is pushed as hard as it sticks stands still, and lets go when that is less."""
    chain = actuon.ActuatorConfig(
        actuon.PDControlConfig(0.0, 0.0), effects=[actuon.FrictionEffectConfig(0.5, static=1.0, stribeck_velocity=1e-3)]
    )
    text = mjcf(body("arm", [hinge("a")]), option='gravity="0 0 0"')
    model = actuon.mujoco.load(text, chain)
    data = mujoco.MjData(model)
    data.qfrc_applied[0] = 0.9
    for _ in range(20):
        mujoco.mj_step(model, data)
    assert abs(data.qvel[0]) < 1e-3
    data.qfrc_applied[0] = 1.1
    for _ in range(5):
        mujoco.mj_step(model, data)
    data.qfrc_applied[0] = 0.9  # which moves on
    before = data.qvel[0]
    for _ in range(5):
        mujoco.mj_step(model, data)
    assert data.qvel[0] > before
    assert model.dof_frictionloss[0] == 1.0
    actuon.mujoco.unload(model)


def stiff(mode="implicit", **more):
    return actuon.ActuatorConfig(actuon.PDControlConfig(400.0, 10.0), effort_mode=mode, **more)


@pytest.mark.parametrize("delay", [None, actuon.DelayConfig(2)])
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit", "discrete"])
def test_implicit_efforts(both, integrator, delay):
    """Efforts equal a simulation's up to rounding: there, a part is in `qfrc_applied`, which is the user's here."""
    moved = both(ARM.format(integrator=integrator, island="enable"), stiff(delay=delay))
    moved.move(80, spread=0.3, exact=False, rtol=0.0, atol=1e-12)
    assert moved.model.opt.integrator == moved.simulation.models[0].opt.integrator
    assert moved.model.nu == (6 if integrator == "discrete" else 4)
    told = actuon.mujoco.telemetry(moved.model, moved.data)
    mujoco.mj_forward(moved.model, moved.data)
    np.testing.assert_allclose(moved.data.qfrc_actuator, told.applied_effort[0], rtol=1e-5)


def test_implicit_efforts_of_the_quadruped(both):
    spec = mujoco.MjSpec.from_file(str(QUADRUPED))
    spec.option.timestep = 0.005
    moved = both(spec.to_xml(), actuon.ActuatorConfig(actuon.PDControlConfig(80.0, 3.0), effort_mode="implicit"))
    moved.move(40, spread=0.1, exact=False, rtol=0.0, atol=1e-9)


def test_efforts_that_would_diverge_are_implicit_on_their_own(both):
    """With `effort_mode` "auto", and so is the choice of the integrator."""
    text = ARM.format(integrator="Euler", island="enable")
    moved = both(text, {"shoulder": stiff("auto"), "elbow": actuon.ActuatorConfig(PD, effort_mode="auto")})
    implicit = [moved.model.actuator(i).name.endswith("_derivative_qd") for i in range(moved.model.nu)]
    assert sum(implicit) == len(moved.simulation.models[0].actuator_ctrladr) - 2 > 0
    moved.move(60, spread=0.3, exact=False, rtol=0.0, atol=1e-12)


def test_implicit_groups_of_an_explicit_kind():
    cfg = lab.IdealPDActuatorCfg([".*"], stiffness=300.0, damping=8.0, effort_limit=200.0, effort_mode="implicit")
    moved = GroupsToo(mjcf(TWO, SERVOS), {"all": cfg})
    with contextlib.closing(moved):
        moved.move(60, spread=0.3, exact=False, rtol=0.0, atol=1e-12)


def test_an_implicit_effort_begins_within_its_limit(both):
    """And may end beyond it: what it is at the end of a step is not looked at."""
    chain = actuon.ActuatorConfig(actuon.PDControlConfig(400.0, 10.0), [actuon.MaxEffortClampingConfig(5.0)])
    chain.effort_mode = "implicit"
    model = actuon.mujoco.load(mjcf(TWO, SERVOS), chain)
    data = mujoco.MjData(model)
    for step in range(50):
        data.ctrl[:2] = np.sin(step / 3.0)
        mujoco.mj_forward(model, data)
        assert np.abs(data.qfrc_actuator).max() <= 5.0 + 1e-6
        mujoco.mj_step(model, data)
    actuon.mujoco.unload(model)


def test_chains_without_derivatives_are_refused():
    matrix = ((1.0, 1.0), (1.0, -1.0))
    coupled = [
        actuon.ActuatorConfig(
            PD, transmission=actuon.CoupledTransmissionConfig(matrix, row=row), effort_mode="implicit"
        )
        for row in range(2)
    ]
    with pytest.raises(actuon.StructureError, match="needs derivatives of the effort"):
        actuon.mujoco.load(mjcf(TWO, SERVOS), dict(zip("ab", coupled, strict=True)))


def joints_with_actuators(path):
    """Joints of a file that have an actuator of their own, and no tendon that moves them."""
    model = mujoco.MjModel.from_xml_path(str(path))
    on_joint = {int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT)}
    own = {int(model.actuator_trnid[i, 0]) for i in range(model.nactuator) if model.actuator_trntype[i] in on_joint}
    hinges = {int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)}
    return [model.joint(i).name for i in sorted(own) if model.jnt_type[i] in hinges]


@pytest.mark.parametrize("robot", ROBOTS)
def test_public_robots(both, robot):
    path = public_robot(robot)
    joints = joints_with_actuators(path) or None
    chain = actuon.ActuatorConfig(
        actuon.PDControlConfig(20.0, 1.0),
        [actuon.DCMotorClampingConfig(30.0, 40.0, 20.0)],
        actuon.DelayConfig(2),
    )
    moved = both(path, chain, joints)
    rng, start = np.random.default_rng(2), moved.data.ctrl[: moved.nu].copy()
    names = {moved.model.actuator(i).name for i in range(moved.nu, moved.model.nactuator)}
    for _ in range(25):
        for robots in moved.robots:
            added = [i for i, name in enumerate(robots.dof_names) if f"{name}_position" in names]
            targets = np.float32(rng.uniform(-0.1, 0.1, len(added)))
            if added:
                robots.set_dof_position_targets(targets, dof_indices=added)
            for i, target in zip(added, targets, strict=True):
                moved.data.actuator(f"{robots.dof_names[i]}_position").ctrl = target
        moved.step((start + rng.uniform(-0.1, 0.1, moved.nu)).astype(np.float32))
        moved.check()
    assert np.abs(moved.data.qvel).max() > 1e-3
    assert np.abs(actuon.mujoco.telemetry(moved.model, moved.data).applied_effort).max() > 0.01


def standing(*given, **options):
    """Positions of the quadruped after some steps of its keyframe."""
    model = actuon.mujoco.load(*given, **options)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    data.ctrl[:] += 0.1
    mujoco.mj_step(model, data, 40)
    actuon.mujoco.unload(model)
    return data.qpos.copy()


def test_actuators_come_from_files():
    """The YAML beside a model, any other, and a USD file; the model as a path, text and a spec."""
    pytest.importorskip("pxr")
    beside = standing(QUADRUPED)
    assert beside[2] > 0.2
    text = QUADRUPED.read_text()
    for given in (
        (str(QUADRUPED),),
        (QUADRUPED, ASSETS / "quadruped.actuon.yaml"),
        (text, str(ASSETS / "quadruped.actuon.yaml")),
        (mujoco.MjSpec.from_file(str(QUADRUPED)), ASSETS / "quadruped.usda"),
    ):
        np.testing.assert_array_equal(standing(*given), beside)


def test_a_spec_that_is_given_stays_as_it_is():
    spec = mujoco.MjSpec.from_file(str(QUADRUPED))
    before = spec.to_xml()
    standing(spec, ASSETS / "quadruped.actuon.yaml")
    assert spec.to_xml() == before


def test_a_motor_by_its_name_brings_its_inertia(both):
    """A data sheet and an actuator made from it bring it as well."""
    sheet = actuon.find_motor("ak80-9").datasheet
    expected = both(EULER, sheet.actuator(PD))
    expected.move(30)
    np.testing.assert_array_equal(
        np.float32(expected.model.dof_armature), expected.robots[0].get_dof_armatures().numpy()[0]
    )
    assert (expected.model.dof_armature == expected.model.dof_armature[1]).all()  # not the model's own
    for motor in ("ak80-9", sheet, actuon.find_motor("ak80-9")):
        model = actuon.mujoco.load(EULER, motor, controller=PD)
        np.testing.assert_array_equal(model.dof_armature, expected.model.dof_armature)
        np.testing.assert_array_equal(model.dof_invweight0, expected.model.dof_invweight0)
        actuon.mujoco.unload(model)
    with pytest.raises(actuon.StructureError, match="controller: is for a motor alone"):
        actuon.mujoco.load(QUADRUPED, controller=PD)


def test_urdf(tmp_path):
    (tmp_path / "robot.urdf").write_text(
        '<robot name="arm"><link name="base"/><link name="link"><inertial><mass value="1"/>'
        '<origin xyz="0.1 0 0"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="hip" type="revolute"><parent link="base"/><child link="link"/><axis xyz="0 1 0"/>'
        '<limit lower="-2" upper="2" effort="3" velocity="1"/></joint></robot>'
    )
    model = actuon.mujoco.load(tmp_path / "robot.urdf", LATE)
    data = mujoco.MjData(model)
    data.actuator("hip_position").ctrl = 1.0
    mujoco.mj_step(model, data, 5)
    told = actuon.mujoco.telemetry(model, data)
    assert told.applied_effort[0, 0] == 3.0
    assert told.limited_by[0, 0] == "engine"
    actuon.mujoco.unload(model)


def test_no_simulation_is_left():
    with actuon.MujocoSimulation(QUADRUPED) as own:
        standing(QUADRUPED)
        assert actuon.current_simulation() is own
    with pytest.raises(actuon.SimulationError):
        actuon.current_simulation()
