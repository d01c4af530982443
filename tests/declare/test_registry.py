# SPDX-License-Identifier: Apache-2.0
"""Components of users' own in robot files."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest
import warp as wp
from pxr import Sdf

import actuon
from actuon.declare import registry
from tests.support.robot_files import add, robot


@dataclass(frozen=True)
class SoftLimitConfig(actuon.Config):
    max_effort: float = actuon.param("N·m", "Effort approached, never passed.", above=0.0, fallback=7.0)


@wp.func
def soft_limit(effort: float, max_effort: float):
    return max_effort * wp.tanh(effort / max_effort)


class ClampingSoftLimit(actuon.Clamping):
    config = SoftLimitConfig
    law = soft_limit


class ClampingPlain(actuon.Clamping):
    """Brings kernels and arguments of its own, and has no config."""

    def __init__(self, factor):
        self.factor = factor

    @classmethod
    def resolve_arguments(cls, args):
        return {"factor": float(args.get("factor", 1.0))}

    def modify_forces(self, *arguments, **options):
        pass


@pytest.fixture(autouse=True)
def clean_registry():
    with registry.temporary_registrations():
        yield


ACTUATOR = actuon.ActuatorConfig(actuon.PDControlConfig(40.0, 1.0), [SoftLimitConfig(20.0)])


def register(**options):
    actuon.register_actuator_component("MySoftLimitAPI", ClampingSoftLimit, actuon.ComponentKind.CLAMPING, **options)


def test_a_component_of_ones_own_travels_in_usd_and_yaml(tmp_path):
    stage = robot()
    with pytest.raises(ValueError, match=r"SoftLimitConfig.*register_actuator_component"):
        add(stage, ACTUATOR)
    register()
    prim = add(stage, ACTUATOR)
    assert prim.GetAttribute("newton:maxEffort").Get() == 20.0
    parsed = actuon.parse_actuator_prim(prim)
    assert parsed.config == ACTUATOR
    assert parsed.component_specs == [(ClampingSoftLimit, {"max_effort": 20.0})]
    entry = actuon.ActuatorEntry("knee", "knee", ACTUATOR)
    actuon.save_actuators(tmp_path / "actuon.yaml", [entry])
    assert "{type: soft_limit, max_effort: 20.0}" in (tmp_path / "actuon.yaml").read_text()
    assert actuon.load_actuators(tmp_path / "actuon.yaml") == [entry]
    prim.RemoveProperty("newton:maxEffort")
    assert actuon.parse_actuator_prim(prim).component_specs[0][1] == {"max_effort": 7.0}


def test_a_schema_that_is_not_registered_is_passed_over():
    stage = robot()
    prim = add(stage, actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.0)))
    prim.AddAppliedSchema("SomebodyElsesAPI")
    assert actuon.parse_actuator_prim(prim).component_specs == []


def test_a_class_without_config_gets_what_is_authored():
    actuon.register_actuator_component("MyPlainAPI", ClampingPlain, actuon.ComponentKind.CLAMPING)
    stage = robot()
    prim = add(stage, actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.0)))
    prim.AddAppliedSchema("MyPlainAPI")
    prim.CreateAttribute("newton:factor", Sdf.ValueTypeNames.Float).Set(0.5)
    parsed = actuon.parse_actuator_prim(prim)
    assert parsed.component_specs == [(ClampingPlain, {"factor": 0.5})]
    assert isinstance(actuon.Actuator([0], stages=parsed.config.stages).clamping[0], ClampingPlain)
    with pytest.raises(ValueError, match="ClampingPlain: robot files cannot contain it; define a config for it"):
        add(stage, parsed.config, name="copy")


def test_a_function_may_choose_the_class_and_refuse():
    def choose(values):
        if values["max_effort"] > 100.0:
            raise ValueError("too strong")
        return ClampingSoftLimit

    actuon.register_actuator_component("MySoftLimitAPI", choose, actuon.ComponentKind.CLAMPING, config=SoftLimitConfig)
    stage = robot()
    prim = add(stage, ACTUATOR)
    assert actuon.parse_actuator_prim(prim).component_specs[0][0] is ClampingSoftLimit
    prim.GetAttribute("newton:maxEffort").Set(200.0)
    with pytest.raises(ValueError, match=r"^/Robot/Actuators/knee: too strong"):
        actuon.parse_actuator_prim(prim)


def test_bad_registrations_are_refused():
    kind = actuon.ComponentKind.CLAMPING
    with pytest.raises(ValueError, match="must be a subclass of Controller"):
        actuon.register_actuator_component("A", ClampingSoftLimit, actuon.ComponentKind.CONTROLLER)
    with pytest.raises(ValueError, match=r"ComponentKind\.CLAMPING"):
        actuon.register_actuator_component("A", ClampingSoftLimit, "clamping")
    with pytest.raises(ValueError, match="must be a class, or a function"):
        actuon.register_actuator_component("A", 3, kind)
    with pytest.raises(ValueError, match="identifier"):
        actuon.register_actuator_component("", ClampingSoftLimit, kind)
    register()
    register()
    with pytest.warns(UserWarning, match="replaces"):
        actuon.register_actuator_component("MySoftLimitAPI", ClampingPlain, kind)
    assert actuon.ComponentKind.DRIVE is actuon.ComponentKind.CONTROLLER


def test_a_class_that_is_defined_twice_replaces_itself():
    def define():
        @dataclass(frozen=True)
        class TwiceConfig(actuon.Config):
            schema = "TwiceAPI"

        class EffectTwice(actuon.Effect):
            config = TwiceConfig
            law = no_change

        return EffectTwice

    define()
    again = define()
    assert registry.by_schema("TwiceAPI").component_class is again
    with pytest.warns(UserWarning, match="replaces"):

        class EffectOther(actuon.Effect):
            config = dataclass(frozen=True)(type("OtherConfig", (actuon.Config,), {"schema": "TwiceAPI"}))
            law = no_change


@wp.func
def no_change(effort: float):
    return effort


def test_two_configs_of_one_name_are_told_apart_in_yaml(tmp_path):
    """The first that was registered has the short name."""
    pd_config = dataclass(frozen=True)(type("PDControlConfig", (actuon.Config,), {"schema": "OtherPDAPI"}))

    class ControllerOther(actuon.Controller):
        config = pd_config
        law = wp.func(passed_on)

    configs = [pd_config(), actuon.PDControlConfig(1.0, 2.0)]
    entries = [actuon.ActuatorEntry(f"e{i}", "knee", actuon.ActuatorConfig(part)) for i, part in enumerate(configs)]
    actuon.save_actuators(tmp_path / "actuon.yaml", entries)
    assert "{type: OtherPDAPI}" in (tmp_path / "actuon.yaml").read_text()
    assert actuon.load_actuators(tmp_path / "actuon.yaml") == entries


def passed_on(feedforward: float):
    return feedforward


SCHEMA = """#usda 1.0
class "OwnSoftLimitAPI" {
    float own:limits:maxEffort = 3
}
"""


def test_a_schema_known_to_usd_may_have_a_namespace_and_defaults_of_its_own(tmp_path):
    """In a process of its own: USD looks for schemas once."""

    (tmp_path / "generatedSchema.usda").write_text(SCHEMA)
    info = {"Plugins": [{
        "Name": "own", "Type": "resource", "Root": ".", "LibraryPath": "", "ResourcePath": ".",
        "Info": {"Types": {"OwnPluginSoftLimitAPI": {
            "alias": {"UsdSchemaBase": "OwnSoftLimitAPI"}, "autoGenerated": True, "bases": ["UsdAPISchemaBase"],
            "schemaIdentifier": "OwnSoftLimitAPI", "schemaKind": "singleApplyAPI"}}},
    }]}  # fmt: skip
    (tmp_path / "plugInfo.json").write_text(json.dumps(info))
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
import actuon
from pxr import Plug
Plug.Registry().RegisterPlugins([{str(tmp_path)!r}])
from tests.declare.test_registry import *
actuon.register_actuator_component("OwnSoftLimitAPI", ClampingSoftLimit, actuon.ComponentKind.CLAMPING)
stage = robot()
prim = add(stage, ACTUATOR)
assert prim.GetAttribute("own:limits:maxEffort").Get() == 20.0
assert actuon.parse_actuator_prim(prim).config == ACTUATOR
prim.RemoveProperty("own:limits:maxEffort")
assert actuon.parse_actuator_prim(prim).component_specs[0][1] == {{"max_effort": 3.0}}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
