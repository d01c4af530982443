# SPDX-License-Identifier: Apache-2.0
"""`step(n)` in MuJoCo against n single steps, with and without somebody who listens, under every flag of its options.

The robot has what a step may read late: gravity compensation within limits of joints, contacts, friction, implicit
efforts and the engine's own drives.
"""

from __future__ import annotations

import mujoco
import numpy as np

import actuon
from actuon import lab
from tests.support.states import states_of

STEPS = 40
LIMIT = 'actuatorfrcrange="-4 3"'
LINK = '<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="0.6"/>'
MJCF = f"""<mujoco><option timestep="0.004" integrator="implicitfast"/><default><geom friction="0.8"/></default>
<worldbody><geom type="plane" size="3 3 0.1" pos="0 0 -0.3"/>
<body name="arm" gravcomp="0.7"><joint name="a" axis="0 1 0" actuatorgravcomp="true" {LIMIT}/>{LINK}
<body pos="0.3 0 0" gravcomp="0.9"><joint name="b" axis="0 1 0" range="-0.5 0.6" frictionloss="0.1"
actuatorgravcomp="true" {LIMIT}/>{LINK}<body pos="0.3 0 0"><joint name="c" axis="0 0 1" damping="0.1"/>{LINK}</body>
</body></body></worldbody><actuator><position name="c" joint="c" kp="9" kv="0.6"/></actuator></mujoco>"""
PD = actuon.PDControlConfig(60.0, 2.0)
FRICTION = actuon.FrictionEffectConfig(0.2, load_external=0.1)
ATTACHED = {
    "explicit": lambda arm: _actuators(arm, [PD], [actuon.DelayConfig(2), PD, FRICTION]),
    "implicit": lambda arm: _actuators(arm, [PD], [PD, actuon.MaxEffortClampingConfig(8.0)], effort_mode="implicit"),
    "groups": lambda arm: lab.ActuatorGroups(
        arm,
        {
            "pd": lab.IdealPDActuatorCfg(["a", "b"], stiffness=60.0, damping=2.0),
            "drive": lab.ImplicitActuatorCfg(["c"], stiffness=9.0, damping=0.6),
        },
    ),
}
FLAGS = {
    None: (None, 0),
    **{
        bit.name: (field, int(bit))
        for field, kind in (("disableflags", mujoco.mjtDisableBit), ("enableflags", mujoco.mjtEnableBit))
        for bit in (getattr(kind, name) for name in dir(kind) if name.startswith(("mjDSBL_", "mjENBL_")))
    },
}
"""Field of the options and its bit, by name; without a flag first."""


def _actuators(arm, first, second, **options):
    pairs = [(actuon.ActuatorConfig(stages=parts, **options), name) for parts, name in ((first, "a"), (second, "b"))]
    return actuon.ArticulationActuators.from_actuators(arm.paths, pairs, simulation=arm.simulation)


def singly(simulation):
    for _ in range(STEPS):
        simulation.step()


def at_once(simulation):
    simulation.step(STEPS)


def in_parts(simulation):
    for steps in (1, 7, STEPS - 8):
        simulation.step(steps)


def heard(simulation):
    subscription = simulation.subscribe(actuon.Event.POST_STEP, lambda *_: None)
    simulation.step(STEPS)
    subscription.cancel()


WAYS = (singly, at_once, in_parts, heard)


def moved(attach, flag, way, num_envs=2):
    """States after the steps, or the error by which motors or steps are refused."""
    spec = mujoco.MjSpec.from_string(MJCF)
    field, bit = FLAGS[flag]
    if field is not None:
        setattr(spec.option, field, getattr(spec.option, field) | bit)
    if flag == "mjENBL_IPC":  # which needs both
        spec.option.integrator, spec.option.solver = mujoco.mjtIntegrator.mjINT_DISCRETE, mujoco.mjtSolver.mjSOL_CG
    with actuon.MujocoSimulation(spec, num_envs) as simulation:
        arm = actuon.Articulation("arm")
        try:
            attached = ATTACHED[attach](arm)
            arm.set_dof_position_targets([[1.4, -0.4, 0.3], [-0.9, 1.0, 0.5]][:num_envs])
            way(simulation)
        except actuon.ActuonError as error:
            return str(error)
        efforts = attached.telemetry().applied_effort
        return np.hstack([states_of(simulation), efforts])


def check(attach, flag):
    """Check that all ways give the same bits, or the same error."""
    expected = moved(attach, flag, singly)
    for way in WAYS[1:]:
        np.testing.assert_array_equal(moved(attach, flag, way), expected, err_msg=f"{attach}, {flag}, {way.__name__}")
    return expected
