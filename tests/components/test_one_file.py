# SPDX-License-Identifier: Apache-2.0
"""A made-up effect with a state, defined here alone, works wherever an actuator goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import warp as wp

import actuon
from actuon.inspect.report import inspect_yaml
from scripts.reference import parameter_table
from tests.support.robot_files import add, robot


@dataclass(frozen=True)
class LagEffectConfig(actuon.Config):
    schema = "TestLagEffectAPI"

    time_constant: float = actuon.param("s", "Time in which the effort follows by two thirds.", minimum=0.0)
    max_effort: float = actuon.param("N·m", "Effort that it starts from.", default=0.25)


@wp.func
def lag_law(effort: float, dt: float, held: float, time_constant: float, max_effort: float):
    following = held + (effort - held) * dt / (time_constant + dt)
    return following, following


class EffectLag(actuon.Effect):
    config = LagEffectConfig
    law = lag_law
    STATES = {"held": "max_effort"}  # noqa: RUF012


ACTUATOR = actuon.ActuatorConfig(
    actuon.PDControlConfig(40.0, 1.0),
    [actuon.MaxEffortClampingConfig(12.0)],
    actuon.DelayConfig(2),
    effects=[LagEffectConfig(0.02)],
)
OTHER_ORDER = actuon.ActuatorConfig(
    stages=[
        actuon.DelayConfig(2),
        actuon.PDControlConfig(40.0, 1.0),
        LagEffectConfig(0.02, 0.5),
        actuon.MaxEffortClampingConfig(12.0),
    ]
)
BOTH = pytest.mark.parametrize("actuator", [ACTUATOR, OTHER_ORDER], ids=["usual", "other order"])


@BOTH
def test_in_yaml(actuator, tmp_path):
    path = tmp_path / "actuon.yaml"
    entry = actuon.ActuatorEntry("knee", "knee", actuator)
    actuon.save_actuators(path, [entry])
    assert actuon.load_actuators(path) == [entry]
    written = "effects:\n    - {type: lag, time_constant: 0.02}" if actuator is ACTUATOR else "stages:\n    - delay:"
    assert written in path.read_text()
    (reported,) = inspect_yaml(path).entries
    assert_reported(reported.chain, actuator, "default")


@BOTH
def test_in_usd(actuator, tmp_path):
    """Its parameter has the name of one of the clamp beside it, and a namespace of its own."""
    stage = robot()
    prim = add(stage, actuator)
    assert prim.GetAttribute("testLagEffect:maxEffort").Get() == actuator.effects[0].max_effort
    assert prim.GetAttribute("newton:maxEffort").Get() == 12.0
    assert actuon.parse_actuator_prim(prim).config == actuator
    (entry,) = actuon.export_actuators(stage)
    assert entry == actuon.ActuatorEntry("knee", "knee", actuator)
    actuon.author_actuators("/Robot", [actuon.ActuatorEntry("hip", "hip", actuator)], stage=stage)
    assert [parsed.config for parsed in actuon.parse_actuators(stage)] == [actuator, actuator]
    report = actuon.inspect_actuators(stage)
    assert not report.problems
    (joint,) = (joint for joint in report.joints if joint.name == "knee")
    assert_reported(joint.chain, actuator, "authored")


@dataclass(frozen=True)
class HalvingEffectConfig(actuon.Config):
    schema = "TestHalvingEffectAPI"


@wp.func
def halving_law(effort: float):
    return 0.5 * effort


class EffectHalving(actuon.Effect):
    config = HalvingEffectConfig
    law = halving_law


def test_in_the_table_of_inspect(capsys):
    """With values, and without any."""
    tables = pytest.importorskip("actuon.cli.show")
    stage = robot()
    effects = [LagEffectConfig(0.02), HalvingEffectConfig()]
    add(stage, actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0), effects=effects))
    tables.print_report(tables.make_console(), "robot.usda", actuon.inspect_actuators(stage))
    printed = capsys.readouterr().out
    assert "EffectLag     │ time_constant │  0.02 │ s" in printed
    assert "EffectHalving │" in printed


def assert_reported(chain, actuator, source):
    assert [part.kind for part in chain] == [part.component.kind.value for part in actuator.stages]
    (lag,) = (part for part in chain if part.name == "EffectLag")
    assert lag.kind == "effect"
    values = [(value.name, value.value, value.unit) for value in lag.values]
    assert values == [("time_constant", 0.02, "s"), ("max_effort", actuator.effects[0].max_effort, "N·m")]
    assert lag.values[0].source == "authored"
    if actuator is ACTUATOR:
        assert lag.values[1].source == source


def test_in_the_parameter_table():
    assert "| `time_constant` | s | finite and ≥ 0 | required | required | Time in which" in parameter_table(
        LagEffectConfig
    )


def test_in_the_builder():
    builder = actuon.ActuatorBuilder()
    for i in range(3):
        lag = LagEffectConfig(0.01 * i)
        builder.add(actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.0), effects=[lag]), i)
    builder.add(OTHER_ORDER, 3)
    first, second = builder.finalize()
    np.testing.assert_array_equal(first.effects[0].time_constant.numpy(), np.float32([0.0, 0.01, 0.02]))
    assert [type(part).__name__ for part in second.stages] == [
        "Delay",
        "ControllerPD",
        "EffectLag",
        "ClampingMaxEffort",
    ]


MJCF = """<mujoco><worldbody><body name="robot">
  <joint name="knee" type="hinge"/><geom size="0.1"/>
</body></worldbody></mujoco>"""


def test_on_a_robot(tmp_path):
    """From the YAML beside it; its state starts at a parameter, and starts again for the robots that are reset."""
    (tmp_path / "robot.xml").write_text(MJCF)
    plain = actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 0.0), effects=[LagEffectConfig(0.04, 0.5)])
    actuon.save_actuators(tmp_path / "robot.actuon.yaml", [actuon.ActuatorEntry("knee", "knee", plain)])
    with actuon.MujocoSimulation(tmp_path / "robot.xml", num_envs=3):
        robots = actuon.ArticulationActuators("robot")
        robots.articulation.set_dof_position_targets([[0.1]] * 3)
        robots.step_actuators(0.01)
        first = 0.5 + (4.0 - 0.5) * 0.2
        np.testing.assert_allclose(robots.telemetry().applied_effort[:, 0], first, rtol=1e-5)
        robots.reset([1])
        robots.step_actuators(0.01)
        second = first + (4.0 - first) * 0.2
        np.testing.assert_allclose(robots.telemetry().applied_effort[:, 0], [second, first, second], rtol=1e-5)


def test_two_clamps_with_the_same_parameters_travel_together(tmp_path):
    table = {"lookup_positions": (-1.0, 1.0), "lookup_efforts": (5.0, 20.0)}
    clamps = [
        actuon.PositionBasedClampingConfig(**table),
        actuon.RemotizedClampingConfig((0.0, 2.0, 3.0), (1.0, 1.5, 2.0), (7.0, 8.0, 9.0), 4.0),
    ]
    actuator = actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.0), clamps)
    assert actuon.parse_actuator_prim(add(robot(), actuator)).config == actuator
    entry = actuon.ActuatorEntry("knee", "knee", actuator)
    actuon.save_actuators(tmp_path / "actuon.yaml", [entry])
    assert actuon.load_actuators(tmp_path / "actuon.yaml") == [entry]


def test_schemas_that_others_applied_in_another_order_mean_the_usual_chain():
    stage = robot()
    prim = add(stage, actuon.ActuatorConfig(LATE.controller))
    for schema in ("NewtonMaxEffortClampingAPI", "NewtonActuatorDelayAPI"):
        prim.AddAppliedSchema(schema)
    prim.GetAttribute("newton:maxEffort").Set(12.0)
    prim.GetAttribute("newton:delaySteps").Set(2)
    assert actuon.parse_actuator_prim(prim).config == LATE


LATE = actuon.ActuatorConfig(
    actuon.PDControlConfig(40.0, 1.0), [actuon.MaxEffortClampingConfig(12.0)], actuon.DelayConfig(2)
)


@pytest.mark.parametrize(
    ("group", "match"),
    [
        (
            "stages: [{effect: {type: lag, time_constant: 1}}]",
            "got no controllers; a motor model in a robot file needs exactly one",
        ),
        ("stages: [], controller: {type: pd, kp: 1, kd: 1}", "has 'stages' and 'controller'"),
        ("stages: [{pd: {kp: 1, kd: 1}}]", r"stages\[0\]: unknown key 'pd'; keys: sensor, delay, controller"),
        ("stages: [{}]", r"stages\[0\]: got 0 keys; must be one kind"),
        ("stages: {controller: {}}", "stages: got .*; must be a list"),
        ("controller: {type: pd, kp: 1, kd: 1}, effects: {type: lag}", "effects: got .*; must be a list"),
        ("controller: {type: pd, kp: 1, kd: 1}, effects: [{type: lags}]", "Did you mean 'lag'"),
        ("controller: {type: pd, kp: 1, kd: 1}, effects: [{type: lag}]", r"effects\[0\]: needs 'time_constant'"),
    ],
)
def test_yaml_that_cannot_be(group, match, tmp_path):
    (tmp_path / "actuon.yaml").write_text(f"actuators: {{knee: {{joints: knee, {group}}}}}")
    with pytest.raises(actuon.RobotFileError, match=match):
        actuon.load_actuators(tmp_path / "actuon.yaml")


def test_an_actuator_config_can_be_changed_until_it_is_used():
    pd, pid = actuon.PDControlConfig(40.0, 1.0), actuon.PIDControlConfig(40.0, 3.0, 1.0)
    most, motor = actuon.MaxEffortClampingConfig(9.0), actuon.DCMotorClampingConfig(10.0, 20.0, 8.0)
    lag, late = LagEffectConfig(0.04, 0.5), actuon.DelayConfig(2)
    config = actuon.ActuatorConfig(pd, effects=[lag])
    config.clamping.append(most)
    assert config.stages == [pd, most, lag]
    config.clamping.insert(0, motor)
    config.delay = late
    assert config.stages == [late, pd, motor, most, lag]
    config.controller = pid
    config.clamping[-1] = actuon.MaxEffortClampingConfig(7.0)
    del config.clamping[0]
    config.effects = []
    assert config == actuon.ActuatorConfig(pid, [actuon.MaxEffortClampingConfig(7.0)], late)
    config.delay = None
    config.clamping[:] = [most, motor]
    config.stages.append(lag)
    assert config.stages == [pid, most, motor, lag]
    assert (len(config.clamping), config.clamping[1:], config.clamping.pop()) == (2, [motor], motor)
    config.clamping.insert(-1, motor)
    assert config.clamping == [motor, most]
    config.clamping.insert(9, last := actuon.MaxEffortClampingConfig(3.0))
    assert config.stages == [pid, motor, most, last, lag]
    config.clamping.clear()
    config.stages[0] = pd
    assert config == actuon.ActuatorConfig(pd, effects=[lag])
    config.stages.insert(1, lag)
    config.clamping.extend([most, motor])
    assert config.stages == [pd, most, motor, lag, lag]


def test_what_is_put_into_an_actuator_config_is_checked():
    pd = actuon.PDControlConfig(40.0, 1.0)
    config = actuon.ActuatorConfig(pd)
    with pytest.raises(actuon.StructureError, match=r"clamping\[0\]: got DelayConfig; must be a Clamping"):
        config.clamping.append(actuon.DelayConfig(1))
    with pytest.raises(actuon.StructureError, match="delay: got float; must be a Delay"):
        config.delay = 2.0
    with pytest.raises(actuon.StructureError, match="effects: got float; must be a list"):
        config.effects = 2.0
    assert config.stages == [pd]
    config.stages.append("pd")
    with pytest.raises(actuon.StructureError, match=r"DOF 3: stages\[1\]: got str; must be a component, or a config"):
        actuon.ActuatorBuilder().add(config, 3)
    config.stages = ()
    with pytest.raises(actuon.StructureError, match="stages: got tuple; must be a list"):
        actuon.ActuatorBuilder().add(config, 3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(config)


def test_an_actuator_config_is_not_shared_by_those_who_use_it():
    pd, most = actuon.PDControlConfig(40.0, 1.0), actuon.MaxEffortClampingConfig(9.0)
    stages = [pd]
    config = actuon.ActuatorConfig(stages=stages)
    stages.append(most)
    assert config.stages == [pd]
    copied = config.copy()
    builder = actuon.ActuatorBuilder()
    builder.add(config, 0)
    config.clamping.append(most)
    builder.add(config, 1)
    assert copied.stages == [pd]
    plain, limited = builder.finalize()
    assert (len(plain.clamping), len(limited.clamping)) == (0, 1)

    stage = robot()
    add(stage, copied, ["hip", "knee"])
    first, second = actuon.parse_actuators(stage)
    first.config.clamping.append(most)
    assert second.config.stages == [pd]

    with actuon.MujocoSimulation(actuon.assets.arm_mjcf):
        actuators = actuon.ArticulationActuators.from_actuators("link0", [(copied, "joint1"), (copied, "joint2")])
        copied.clamping.append(most)
        actuators.configs["joint1"].clamping.append(most)
        assert actuators.configs["joint2"].stages == [pd]
        assert [type(stage) for stage in actuators.actuators[0].stages] == [actuon.ControllerPD]
        actuators.close()
        broken = actuon.ActuatorConfig(pd)
        broken.stages.append(7)
        with pytest.raises(actuon.StructureError, match=r"DOF 'joint1': stages\[1\]: got int"):
            actuon.ArticulationActuators.from_actuators("link0", [(broken, "joint1")])


def test_actuator_configs_compare_and_show_what_they_hold():
    assert actuon.ActuatorConfig(stages=ACTUATOR.stages) == ACTUATOR
    assert ACTUATOR != OTHER_ORDER
    for actuator in (ACTUATOR, OTHER_ORDER):
        assert eval(repr(actuator), vars(actuon) | {"LagEffectConfig": LagEffectConfig}) == actuator
    assert ACTUATOR.controller == actuon.PDControlConfig(40.0, 1.0)
    assert (ACTUATOR.transmission, ACTUATOR.sensors) == (None, ())
    with pytest.raises(actuon.StructureError, match=r"effects\[0\]: got DelayConfig; must be an Effect"):
        actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.0), effects=[actuon.DelayConfig(1)])
    with pytest.raises(actuon.StructureError, match="pass one or the other"):
        actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.0), stages=ACTUATOR.stages)
