# SPDX-License-Identifier: Apache-2.0
"""Every component is in every list that must know it; a failure says where to add it. See CONTRIBUTING.md."""

from __future__ import annotations

import re

import pytest

import actuon
from actuon.declare import registry
from fuzz import motors
from scripts.golden import chains as golden
from tests.support import built_in, chains, motor_oracle, oracle
from tests.support.paths import ROOT
from tests.support.robot_files import add, robot

EVERY = pytest.mark.parametrize("name", sorted(built_in.components()))
ORACLE_ELSEWHERE = {
    "ControllerPID": "support/oracle.py",
    "Delay": "support/chains.py",
    "DelayTime": "components/test_delay_time.py",
    "DelayInterpolated": "components/test_delay_time.py",
    "SensorDelay": "components/test_delay_time.py",
    "TransmissionGear": "components/test_transmissions.py",
    "TransmissionLinkage": "components/test_transmissions.py",
    "TransmissionCoupled": "components/test_coupled.py",
    "ClampingRemotized": "attach/groups/test_models.py",
    "EffectFriction": "components/test_friction.py",
    "EffectNoise": "components/test_motor_physics.py",
}
"""Components without a class in `motor_oracle`: the file under ``tests/`` that compares them with their equation."""


@EVERY
def test_it_is_exported(name):
    cls = built_in.components()[name]
    module = cls.__module__.removeprefix("actuon")
    for made in (cls, cls.config):
        line = f"from {module} import {made.__name__} as {made.__name__}"
        assert getattr(actuon, made.__name__, None) is made, f"add to src/actuon/__init__.py: {line}"


def test_every_class_with_a_law_has_a_config():
    public = {name: cls for name, cls in vars(actuon).items() if isinstance(cls, type)}
    laws = {cls for cls in public.values() if issubclass(cls, actuon.Component) and cls.law is not None}
    missing = {cls.__name__ for cls in laws if not issubclass(cls, actuon.ControllerNeural)}
    missing -= built_in.components().keys()
    assert not missing, f"{', '.join(sorted(missing))}: set `config`, the class of Config with the same parameters"


@EVERY
def test_robot_files_can_carry_it(name, tmp_path):
    """Its config is registered, and comes back from YAML and USD."""
    config = built_in.components()[name].config
    assert config.schema is not None, f'set the USD schema in {config.__name__}: schema = "Actuon…API"'
    assert registry.by_schema(config.schema).config is config, f"{config.__name__}: schema {config.schema} is taken"
    values = built_in.values(name)
    assert values is not None, (
        f"no values of {name}: add a class {name} with `ranges` to tests/support/motor_oracle.py, or values to "
        "WITHOUT_RANGES in tests/support/built_in.py"
    )
    part, pd = config(**values), actuon.PDControlConfig(40.0, 1.0)
    kind = registry.kind_of(part)
    made = [part] if kind is registry.ComponentKind.CONTROLLER else [pd, part]
    is_before = name.startswith(motor_oracle.BEFORE_THE_CONTROLLER)
    actuator = actuon.ActuatorConfig(stages=made[::-1] if is_before else made)
    entry = actuon.ActuatorEntry("knee", "knee", actuator)
    actuon.save_actuators(tmp_path / "actuon.yaml", [entry])
    assert actuon.load_actuators(tmp_path / "actuon.yaml") == [entry]
    if name != "TransmissionCoupled":  # needs as many joints as its matrix has rows: tests/components/test_coupled.py
        assert actuon.parse_actuator_prim(add(robot(), actuator)).config == actuator


def test_it_has_an_oracle():
    known = {*motor_oracle.oracles(), *oracle.CLAMPS, *ORACLE_ELSEWHERE}
    missing = built_in.components().keys() - known
    assert not missing, (
        f"{', '.join(sorted(missing))}: add a class of that name to tests/support/motor_oracle.py: the equation in "
        "NumPy, and `ranges` of its parameters"
    )
    for name, path in ORACLE_ELSEWHERE.items():
        words = re.findall("[A-Z]+[a-z]*", name)
        assert words[-1] in (ROOT / "tests" / path).read_text(), f"{name} is not tested in {path}"


@pytest.mark.parametrize("name", motor_oracle.oracles())
def test_its_oracle_draws_every_parameter(name):
    cls, drawn = built_in.components().get(name), motor_oracle.oracles()[name].ranges
    assert cls is not None, f"tests/support/motor_oracle.py: {name} is not a component"
    unknown = drawn.keys() - cls.declared().keys()
    assert not unknown, f"ranges of {name} in tests/support/motor_oracle.py: not parameters: {', '.join(unknown)}"
    missing = {p for p, field in cls.declared().items() if field.required} - drawn.keys()
    assert not missing, f"ranges of {name} in tests/support/motor_oracle.py lack {', '.join(sorted(missing))}"


def test_clamps_of_the_plain_oracle_are_in_the_chains_that_tests_share():
    missing = oracle.CLAMPS.keys() - {clamp for clamps in chains.CLAMPINGS.values() for clamp in clamps}
    assert not missing, f"{', '.join(sorted(missing))}: add to CLAMPINGS in tests/support/chains.py"


def test_it_is_in_the_golden_chains():
    missing = built_in.components().keys() - {stage.kind for chain in golden.CHAINS.values() for stage in chain.stages}
    assert not missing, (
        f"{', '.join(sorted(missing))}: add an oracle class to tests/support/motor_oracle.py, or a chain to "
        "scripts/golden/chains.py"
    )


def test_the_fuzzers_draw_every_oracle():
    missing = motor_oracle.oracles().keys() - motors.RANGES.keys() - motors.LEFT_OUT.keys()
    assert not missing, f"{', '.join(sorted(missing))}: fuzz/motors.py"
    assert motors.LEFT_OUT.keys() <= motor_oracle.oracles().keys(), "left out of fuzz/motors.py, but not an oracle"


@EVERY
def test_it_has_a_page(name):
    config = built_in.components()[name].config.__name__
    mark = f"<!-- parameters: {config} -->"
    named = re.compile(rf"<!-- parameters: (\w+, )*{config}(, \w+)* -->")
    assert any(named.search(page.read_text()) for page in ROOT.glob("docs/motors/*.md")), (
        f"no page of {name}: write docs/motors/….md with the line {mark}, and run: python -m scripts.reference docs"
    )


@EVERY
def test_it_is_in_the_api_reference(name):
    text = "".join(page.read_text() for page in ROOT.glob("docs/reference/api/*.md"))
    for made in (name, built_in.components()[name].config.__name__):
        assert f"::: actuon.{made}\n" in text, f"add to docs/reference/api/stages.md (or limits.md): ::: actuon.{made}"
