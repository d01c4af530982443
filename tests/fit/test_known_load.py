# SPDX-License-Identifier: Apache-2.0
"""A joint with a known load, stepped in one kernel for all candidates and runs, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import actuon
from actuon.fit.model import Model, Parameter
from actuon.fit.plants.known_load import KnownLoadPlant, Load
from actuon.fit.plants.plant import Plant
from actuon.logs import JointLog, Log
from tests.support import oracle
from tests.support.pendulums import pendulum_log, simulate, swinging_command, uneven_time
from tests.support.trials import errors_of, residuals_of

DT = 0.002


def drop_log(name="drop", kp=1.0, seed=0):
    """A run in which the motor is switched off half way."""
    time = uneven_time(seed=seed)
    enabled = time < time[0] + 1.0
    return pendulum_log(name, time, np.full(len(time), 0.3), swinging_command(time, seed=seed), enabled, kp=kp)


def test_a_pd_joint_with_dry_friction_moves_and_sticks_as_in_numpy():
    logs = [drop_log("a", seed=1), drop_log("b", seed=2)]
    model = Model(
        "pd",
        actuon.ActuatorConfig(actuon.PDControlConfig(2.0, 0.05), effects=[actuon.FrictionEffectConfig(0.1, 0.01)]),
        (Parameter("controller.kp", 0.5, 5.0), Parameter("friction.dynamic", 0.01, 0.5, scale="log")),
    )
    plant = KnownLoadPlant(logs, dt=DT)
    assert isinstance(plant, Plant)
    candidates = np.array([[2.0, 0.1], [1.0, 0.3], [4.0, 0.02]])
    residuals = residuals_of(plant, [model], [candidates])
    stuck = 0
    for log, found in zip(logs, residuals, strict=True):
        joint = log.joints[0]
        for (kp, dry), residual in zip(candidates, found[..., 0], strict=True):
            expected = simulate(
                log.time, joint.command, joint.enabled, (0.3, 0.0), dt=DT, mass=0.5, length=0.1,
                law=lambda target, q, v, kp=kp: kp * (target - q) - 0.05 * v, friction={"dynamic": dry}, viscous=0.01,
            )  # fmt: skip
            stuck += (np.diff(expected) == 0.0).sum()
            np.testing.assert_allclose(residual, expected - joint.position, atol=2e-4)
    assert stuck > 100
    errors = errors_of(plant, [model], [candidates])
    assert errors.shape == (3, 2, 1)
    exact = np.stack([np.abs(r).mean(axis=1) for r in residuals], axis=1)
    np.testing.assert_allclose(errors, exact, rtol=2e-2)


def test_a_servo_with_every_term_of_friction_moves_as_in_numpy():
    log = drop_log(kp=3.0)
    friction = dict(
        dynamic=0.01, static=0.03, stribeck_velocity=0.4, stribeck_exponent=1.3, load_motor=0.1, load_external=0.05,
        load_motor_stribeck=0.02, load_external_stribeck=0.04, load_motor_quadratic=0.3, load_external_quadratic=0.6,
    )  # fmt: skip
    kp, kt, resistance, bias, armature, delay = 0.4, 0.4, 3.0, 0.03, 0.002, 0.0073
    actuator = actuon.ActuatorConfig(
        actuon.ServoPWMControlConfig(kp, kt, resistance, 7.4),
        delay=actuon.InterpolatedDelayConfig(delay),
        transmission=actuon.GearTransmissionConfig(1.0, reflected_inertia=armature),
        effects=[actuon.FrictionEffectConfig(viscous=0.004, **friction)],
        sensors=[actuon.EncoderSensorConfig(bias=bias)],
    )
    model = Model(
        "servo",
        actuator,
        (
            Parameter("controller.kp", 0.1, 1.0, start=kp),
            Parameter("delay.delay", 0.0, 0.02, start=delay),
            Parameter("transmission.reflected_inertia", 1e-4, 1e-2, start=armature),
            Parameter("encoder.bias", -0.1, 0.1, start=bias),
            Parameter("friction.static", 1e-3, 0.1, start=0.02, added_to="friction.dynamic"),
        ),
        scaled_by={"controller.kp": "kp"},
        settings={"kp": 1.0},
    )

    def law(target, q, v):
        duty = np.clip(3.0 * kp * (target - q), -1.0, 1.0)
        return kt * (7.4 * duty - kt * v) / resistance

    joint = log.joints[0]
    expected = simulate(
        log.time, joint.command, joint.enabled, (0.3, 0.0), dt=DT, mass=0.5, length=0.1, law=law, friction=friction,
        viscous=0.004, armature=armature, bias=bias, delay=delay,
    )  # fmt: skip
    residual = residuals_of(KnownLoadPlant([log], dt=DT), [model], [model.start[None]])[0][0, :, 0]
    assert np.ptp(expected) > 0.3
    np.testing.assert_allclose(residual + joint.position, expected, atol=5e-4)


def test_a_gear_with_losses_moves_as_in_numpy():
    """As dry friction, which the plant solves as an engine does; the efficiencies are parameters of a fit."""
    log, ratio, back = drop_log(kp=3.0), 20.0, 0.6
    actuator = actuon.ActuatorConfig(
        actuon.PDControlConfig(3.0, 0.02), transmission=actuon.GearTransmissionConfig(ratio, 0.9, back)
    )
    model = Model("gear", actuator, (Parameter("gear.efficiency", 0.3, 1.0),))
    joint, candidates = log.joints[0], np.array([[0.45], [0.8], [1.0]])
    found = residuals_of(KnownLoadPlant([log], dt=DT), [model], [candidates])[0][..., 0]
    for efficiency, residual in zip(candidates[:, 0], found, strict=True):

        def budget(effort, load, v, efficiency=efficiency):
            side = np.sign(v if abs(ratio * v) >= 1.0 else effort + load)
            return oracle.gear_friction(side * effort, side * load, efficiency, back)

        expected = simulate(
            log.time, joint.command, joint.enabled, (0.3, 0.0), dt=DT, mass=0.5, length=0.1,
            law=lambda target, q, v: 3.0 * (target - q) - 0.02 * v, friction=budget,
        )  # fmt: skip
        np.testing.assert_allclose(residual + joint.position, expected, atol=2e-3)
    assert np.abs(found[0] - found[2]).max() > 0.02


def test_a_candidate_moves_the_same_alone_and_in_a_batch_on_several_threads():
    logs = [drop_log(str(i), seed=i) for i in range(3)]
    model = Model(
        "pd",
        actuon.ActuatorConfig(actuon.PDControlConfig(2.0, 0.05), effects=[actuon.FrictionEffectConfig(0.1, 0.01)]),
        (Parameter("controller.kp", 0.5, 5.0),),
    )
    plant = KnownLoadPlant(logs, dt=DT)
    candidates = np.linspace(0.5, 5.0, 700)[:, None]
    together = errors_of(plant, [model], [candidates])
    for i in (0, 333, 699):
        np.testing.assert_array_equal(errors_of(plant, [model], [candidates[i : i + 1]])[0], together[i])
    np.testing.assert_array_equal(errors_of(plant.subset([2]), [model], [candidates])[:, 0], together[:, 2])


def test_a_simulation_that_diverges_has_an_error_of_inf():
    model = Model(
        "pd", actuon.ActuatorConfig(actuon.PDControlConfig(1.0, 0.0)), (Parameter("controller.kd", 0.0, 1e6),)
    )
    errors = errors_of(KnownLoadPlant([drop_log()], dt=DT), [model], [np.array([[0.01], [1e5]])])
    assert np.isfinite(errors[0]).all()
    assert np.isinf(errors[1]).all()


def test_a_load_is_that_of_the_log_or_the_one_given():
    assert Load.of_settings({"mass": 2.0, "length": 0.5}) == Load(0.5, 2.0 * 9.81 * 0.5)
    assert Load.of_settings({"inertia": 0.1, "mass": 2.0}) == Load(0.1)
    rod = Load.of_settings({"mass": 0.0, "length": 1.0, "arm_mass": 3.0, "gravity": 10.0})
    assert (rod.inertia, rod.gravity) == (1.0, 15.0)
    log = drop_log()
    bare = type(log)(log.path, log.time, log.joints, {"kp": 1.0})
    with pytest.raises(actuon.ActuonError, match="drop: the load is missing; set mass"):
        KnownLoadPlant([bare])
    KnownLoadPlant([bare], {"inertia": 0.01})


def test_a_load_that_is_given_replaces_that_of_the_log():
    time = np.arange(0.0, 1.0, 0.01)
    joint = JointLog("joint", np.sin(3.0 * time), np.sin(3.0 * time))
    disc = Log("disc", time, (joint,), {"inertia": 0.01})
    pendulum = Log("pendulum", time, (joint,), {"mass": 2.0, "length": 0.5})
    both = Log("both", time, (joint,), {"inertia": 0.01, "mass": 2.0, "length": 0.5})
    given = {"mass": 4.0, "length": 0.5}
    for log in (disc, pendulum, both):
        assert KnownLoadPlant([log], given).loads == (Load(1.0, 4.0 * 9.81 * 0.5),)
        assert KnownLoadPlant([log], {"inertia": 0.3}).loads == (Load(0.3),)
    assert KnownLoadPlant([disc], given).subset([0]).loads == KnownLoadPlant([disc], given).loads
    assert KnownLoadPlant([pendulum], {"mass": 1.0}).loads == (Load(0.25, 1.0 * 9.81 * 0.5),)
    for refused, said in (
        ({"inertia": 0.3, "mass": 1.0}, "load: got inertia, mass; must be an inertia, or mass and length"),
        ({"mas": 1.0, "length": 0.2}, "load: got 'mas'; .*mass"),
    ):
        with pytest.raises(actuon.ParameterError, match=said):
            KnownLoadPlant([pendulum], refused)
    with pytest.raises(actuon.ParameterError, match="both: states an inertia, and mass and length of a pendulum"):
        KnownLoadPlant([both])
    with pytest.raises(actuon.ParameterError, match="disc: the load is missing; set mass"):
        KnownLoadPlant([disc], {"mass": 1.0})


def test_a_path_that_the_chain_has_not_is_refused_with_those_that_it_has():
    chain = actuon.ActuatorConfig(actuon.PDControlConfig(2.0, 0.05), effects=[actuon.FrictionEffectConfig(0.1)])
    with pytest.raises(actuon.ParameterError, match=r"frction\.dynamic: .*friction"):
        Model("m", chain, (Parameter("frction.dynamic", 0.0, 1.0),))
    with pytest.raises(actuon.ParameterError, match=r"controller\.kq: .*kp"):
        Model("m", chain, (Parameter("controller.kq", 0.0, 1.0),))
    with pytest.raises(actuon.ParameterError, match="0 < low < high"):
        Parameter("controller.kp", 0.0, 1.0, scale="log")
