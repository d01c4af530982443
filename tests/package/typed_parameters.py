# SPDX-License-Identifier: Apache-2.0
"""Lines that mypy accepts or refuses: types of parameters as a user's type checker sees them.

``make lint`` checks this file. Each ``type: ignore`` names the error that mypy must find; one that it does not find is
an error itself (``warn_unused_ignores``).
"""

from __future__ import annotations

from typing import assert_type

import numpy as np

import actuon
from actuon.typing import Tensor


class Soft(actuon.Parameters):
    most: actuon.Number = actuon.param("N·m", "Effort approached.", above=0.0)
    steps: actuon.Whole = actuon.param("1", "A count.", default=3, integer=True)


class ClampingSoft(Soft, actuon.Clamping): ...


class SoftConfig(Soft, actuon.Config): ...


class SoftestConfig(actuon.Config):
    most: float = actuon.param("N·m", "Effort approached.", above=0.0)


def accepted() -> None:
    assert_type(actuon.PDControlConfig(40.0, kd=1.0).kp, float)
    assert_type(actuon.GearTransmissionConfig(2.0).backdrive_efficiency, float | None)
    assert_type(actuon.LinkageTransmissionConfig((0.0, 1.0), (0.0, 2.0)).joint_positions, tuple[float, ...])
    assert_type(actuon.DelayConfig(2).delay_steps, int)
    assert_type(SoftConfig(1.0).steps, int)
    assert_type(SoftestConfig(1.0).most, float)
    controller = actuon.ControllerPD(np.ones(3), 1.0)
    print(controller.kp.numpy(), ClampingSoft(1.0, 2).most.numpy())
    controller.kp = 3.0
    controller.kd = np.ones(3)


def groups(groups: actuon.lab.ActuatorGroups) -> None:
    legs = groups["legs"]
    assert_type(legs.stiffness, Tensor)
    assert_type(legs.damping, Tensor)
    assert_type(legs.armature, Tensor)
    assert_type(legs.friction, Tensor)
    assert_type(legs.dynamic_friction, Tensor)
    assert_type(legs.viscous_friction, Tensor)
    assert_type(legs.effort_limit, Tensor)
    assert_type(legs.effort_limit_sim, Tensor)
    assert_type(legs.velocity_limit, Tensor)
    assert_type(legs.velocity_limit_sim, Tensor)
    assert_type(legs.applied_effort, Tensor)
    if isinstance(legs, actuon.lab.DCMotor | actuon.lab.DelayedPDActuator):
        assert_type(legs.saturation_effort, Tensor)
    legs.stiffness[:, 0] = 40.0
    print(legs.stiffness * 2.0)
    print(legs.stiffness.nonsense)  # type: ignore[union-attr]
    print(legs.nonsense)  # type: ignore[attr-defined]
    print(legs.stiffnes)  # type: ignore[attr-defined]


def refused(controller: actuon.ControllerPD) -> None:
    print(controller.kq)  # type: ignore[attr-defined]
    controller.kq = 1.0  # type: ignore[attr-defined]
    actuon.ControllerPD(1.0)  # type: ignore[call-arg]
    actuon.ControllerPD(1.0, 1.0, gain=3)  # type: ignore[call-arg]
    actuon.PDControlConfig(1.0, 1.0, gain=3)  # type: ignore[call-arg]
    print(actuon.PDControlConfig(1.0, 1.0).gain)  # type: ignore[attr-defined]
    print(ClampingSoft(1.0).least)  # type: ignore[attr-defined]
    ClampingSoft(least=1.0)  # type: ignore[call-arg]
