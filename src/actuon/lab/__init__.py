# SPDX-License-Identifier: Apache-2.0
"""Actuator groups in the vocabulary of Isaac Lab: joints by name pattern, tensors of shape (environments, joints)."""

from ..components.limits.remotized import (
    ClampingRemotized as ClampingRemotized,
    RemotizedClampingConfig as RemotizedClampingConfig,
)
from .base import ActuatorBase as ActuatorBase, ArticulationActions as ArticulationActions
from .cfg import (
    ActuatorBaseCfg as ActuatorBaseCfg,
    ActuatorNetLSTMCfg as ActuatorNetLSTMCfg,
    ActuatorNetMLPCfg as ActuatorNetMLPCfg,
    DCMotorCfg as DCMotorCfg,
    DelayedPDActuatorCfg as DelayedPDActuatorCfg,
    IdealPDActuatorCfg as IdealPDActuatorCfg,
    ImplicitActuatorCfg as ImplicitActuatorCfg,
    RemotizedPDActuatorCfg as RemotizedPDActuatorCfg,
)
from .groups import ActuatorGroups as ActuatorGroups
from .models import (
    ActuatorNetLSTM as ActuatorNetLSTM,
    ActuatorNetMLP as ActuatorNetMLP,
    DCMotor as DCMotor,
    DelayedPDActuator as DelayedPDActuator,
    IdealPDActuator as IdealPDActuator,
    ImplicitActuator as ImplicitActuator,
    RemotizedPDActuator as RemotizedPDActuator,
)
from .randomisation import LogUniform as LogUniform, Normal as Normal, Uniform as Uniform
