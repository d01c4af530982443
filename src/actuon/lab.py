# SPDX-License-Identifier: Apache-2.0
"""Actuator groups with the interface of Isaac Lab: joints by name pattern, tensors of shape (environments, joints)."""

from .attach.groups.cfg import (
    ActuatorBaseCfg as ActuatorBaseCfg,
    ActuatorNetLSTMCfg as ActuatorNetLSTMCfg,
    ActuatorNetMLPCfg as ActuatorNetMLPCfg,
    DCMotorCfg as DCMotorCfg,
    DelayedPDActuatorCfg as DelayedPDActuatorCfg,
    IdealPDActuatorCfg as IdealPDActuatorCfg,
    ImplicitActuatorCfg as ImplicitActuatorCfg,
    RemotizedPDActuatorCfg as RemotizedPDActuatorCfg,
)
from .attach.groups.group_model import ActuatorBase as ActuatorBase, ArticulationActions as ArticulationActions
from .attach.groups.groups import ActuatorGroups as ActuatorGroups
from .attach.groups.models import (
    ActuatorNetLSTM as ActuatorNetLSTM,
    ActuatorNetMLP as ActuatorNetMLP,
    DCMotor as DCMotor,
    DelayedPDActuator as DelayedPDActuator,
    IdealPDActuator as IdealPDActuator,
    ImplicitActuator as ImplicitActuator,
    RemotizedPDActuator as RemotizedPDActuator,
)
from .attach.groups.randomisation import LogUniform as LogUniform, Normal as Normal, Uniform as Uniform
from .components.limits.remotized import (
    ClampingRemotized as ClampingRemotized,
    RemotizedClampingConfig as RemotizedClampingConfig,
)

__all__ = [
    "ActuatorBase",
    "ActuatorBaseCfg",
    "ActuatorGroups",
    "ActuatorNetLSTM",
    "ActuatorNetLSTMCfg",
    "ActuatorNetMLP",
    "ActuatorNetMLPCfg",
    "ArticulationActions",
    "ClampingRemotized",
    "DCMotor",
    "DCMotorCfg",
    "DelayedPDActuator",
    "DelayedPDActuatorCfg",
    "IdealPDActuator",
    "IdealPDActuatorCfg",
    "ImplicitActuator",
    "ImplicitActuatorCfg",
    "LogUniform",
    "Normal",
    "RemotizedClampingConfig",
    "RemotizedPDActuator",
    "RemotizedPDActuatorCfg",
    "Uniform",
]
