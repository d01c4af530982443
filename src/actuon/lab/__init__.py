# SPDX-License-Identifier: Apache-2.0
"""Actuator groups in the vocabulary of Isaac Lab: joints by name pattern, tensors of shape (environments, joints)."""

from .base import ActuatorBase, ArticulationActions
from .cfg import (
    ActuatorBaseCfg,
    ActuatorNetLSTMCfg,
    ActuatorNetMLPCfg,
    DCMotorCfg,
    DelayedPDActuatorCfg,
    IdealPDActuatorCfg,
    ImplicitActuatorCfg,
    RemotizedPDActuatorCfg,
)
from .clamping import ClampingRemotized, RemotizedClampingConfig
from .groups import ActuatorGroups
from .models import (
    ActuatorNetLSTM,
    ActuatorNetMLP,
    DCMotor,
    DelayedPDActuator,
    IdealPDActuator,
    ImplicitActuator,
    RemotizedPDActuator,
)
from .randomisation import LogUniform, Normal, Uniform
