# SPDX-License-Identifier: Apache-2.0
"""Actuon: realistic motors for robot simulation."""

import types as _types
import typing as _typing

from .actuator.actuator import Actuator as Actuator
from .actuator.builder import ActuatorBuilder as ActuatorBuilder
from .actuator.config import ActuatorConfig as ActuatorConfig
from .actuator.newton_parts import (
    ClampingBase as ClampingBase,
    DriveBase as DriveBase,
    DriveNeuralGRU as DriveNeuralGRU,
    DriveNeuralLSTM as DriveNeuralLSTM,
    DriveNeuralMLP as DriveNeuralMLP,
    DrivePD as DrivePD,
    DrivePID as DrivePID,
)
from .actuator.response import Response as Response
from .actuator.shared_battery import SharedBattery as SharedBattery
from .components.component import Component as Component, Placement as Placement
from .components.controllers.neural import (
    ControllerNeural as ControllerNeural,
    ControllerNeuralGRU as ControllerNeuralGRU,
    ControllerNeuralLSTM as ControllerNeuralLSTM,
    ControllerNeuralMLP as ControllerNeuralMLP,
    NeuralControlConfig as NeuralControlConfig,
    NeuralState as NeuralState,
)
from .components.controllers.pd import ControllerPD as ControllerPD, PDControlConfig as PDControlConfig
from .components.controllers.pid import ControllerPID as ControllerPID, PIDControlConfig as PIDControlConfig
from .components.controllers.servo_pwm import (
    ControllerServoPWM as ControllerServoPWM,
    ServoPWMControlConfig as ServoPWMControlConfig,
)
from .components.delay import Delay as Delay, DelayConfig as DelayConfig
from .components.delay_low_pass import DelayLowPass as DelayLowPass, LowPassDelayConfig as LowPassDelayConfig
from .components.delay_time import (
    DelayInterpolated as DelayInterpolated,
    DelaySensorConfig as DelaySensorConfig,
    DelayTime as DelayTime,
    InterpolatedDelayConfig as InterpolatedDelayConfig,
    SensorDelay as SensorDelay,
    TimeDelayConfig as TimeDelayConfig,
)
from .components.effects.current_loop import (
    CurrentLoopEffectConfig as CurrentLoopEffectConfig,
    EffectCurrentLoop as EffectCurrentLoop,
)
from .components.effects.friction import EffectFriction as EffectFriction, FrictionEffectConfig as FrictionEffectConfig
from .components.effects.noise import EffectNoise as EffectNoise, NoiseEffectConfig as NoiseEffectConfig
from .components.effects.ripple import EffectRipple as EffectRipple, RippleEffectConfig as RippleEffectConfig
from .components.kinds import (
    Clamping as Clamping,
    Controller as Controller,
    Effect as Effect,
    Sensor as Sensor,
    Transmission as Transmission,
)
from .components.limits.battery import (
    BatteryClampingConfig as BatteryClampingConfig,
    ClampingBattery as ClampingBattery,
)
from .components.limits.dc_motor import (
    ClampingDCMotor as ClampingDCMotor,
    DCMotorClampingConfig as DCMotorClampingConfig,
)
from .components.limits.heat import ClampingHeat as ClampingHeat, HeatClampingConfig as HeatClampingConfig
from .components.limits.max_effort import (
    ClampingMaxEffort as ClampingMaxEffort,
    MaxEffortClampingConfig as MaxEffortClampingConfig,
)
from .components.limits.position_based import (
    ClampingPositionBased as ClampingPositionBased,
    PositionBasedClampingConfig as PositionBasedClampingConfig,
    read_lookup_table as read_lookup_table,
)
from .components.limits.remotized import (
    ClampingRemotized as ClampingRemotized,
    RemotizedClampingConfig as RemotizedClampingConfig,
)
from .components.limits.torque_speed import (
    ClampingTorqueSpeed as ClampingTorqueSpeed,
    TorqueSpeedClampingConfig as TorqueSpeedClampingConfig,
)
from .components.limits.voltage import (
    ClampingVoltage as ClampingVoltage,
    VoltageClampingConfig as VoltageClampingConfig,
)
from .components.math import limit as limit
from .components.sensors.differentiated import (
    DifferentiatedSensorConfig as DifferentiatedSensorConfig,
    SensorDifferentiated as SensorDifferentiated,
)
from .components.sensors.encoder import EncoderSensorConfig as EncoderSensorConfig, SensorEncoder as SensorEncoder
from .components.sensors.low_pass import LowPassSensorConfig as LowPassSensorConfig, SensorLowPass as SensorLowPass
from .components.transmissions.backlash import (
    BacklashTransmissionConfig as BacklashTransmissionConfig,
    TransmissionBacklash as TransmissionBacklash,
)
from .components.transmissions.coupled import (
    CoupledTransmissionConfig as CoupledTransmissionConfig,
    TransmissionCoupled as TransmissionCoupled,
)
from .components.transmissions.gear import (
    GearTransmissionConfig as GearTransmissionConfig,
    TransmissionGear as TransmissionGear,
)
from .components.transmissions.linkage import (
    LinkageTransmissionConfig as LinkageTransmissionConfig,
    TransmissionLinkage as TransmissionLinkage,
)
from .components.transmissions.series_elastic import (
    SeriesElasticTransmissionConfig as SeriesElasticTransmissionConfig,
    TransmissionSeriesElastic as TransmissionSeriesElastic,
)
from .declare.config import Config as Config
from .declare.parameters import (
    Field as Field,
    Number as Number,
    OptionalNumber as OptionalNumber,
    Parameters as Parameters,
    Table as Table,
    Whole as Whole,
    param as param,
)
from .declare.registry import ComponentKind as ComponentKind, register_actuator_component as register_actuator_component
from .errors import (
    ActuonError as ActuonError,
    ArrayError as ArrayError,
    ArrayTypeError as ArrayTypeError,
    ConvergenceError as ConvergenceError,
    Fix as Fix,
    LogError as LogError,
    MissingArrayError as MissingArrayError,
    MissingExtraError as MissingExtraError,
    Option as Option,
    ParameterError as ParameterError,
    RobotFileError as RobotFileError,
    SimulationError as SimulationError,
    StateError as StateError,
    StructureError as StructureError,
)
from .kernel.chain import Law as Law
from .kernel.run_stage import SignalArray as SignalArray
from .kernel.state import RingState as RingState, State as State
from .motors.building import ValueUse as ValueUse
from .motors.catalogue import CatalogueMotor as CatalogueMotor, find_motor as find_motor, motor_names as motor_names
from .motors.datasheet import MotorDatasheet as MotorDatasheet
from .networks.files import load_metadata as load_metadata, save_network as save_network
from .robot_files.bam import BamMotor as BamMotor, load_bam as load_bam
from .robot_files.parsed import ActuatorParsed as ActuatorParsed
from .robot_files.usd_plugin import announce_schemas as _announce_schemas
from .robot_files.yaml import (
    ActuatorEntry as ActuatorEntry,
    load_actuators as load_actuators,
    match_joints as match_joints,
    save_actuators as save_actuators,
)
from .version import __version__ as __version__
from .warp_messages import quiet as quiet

_announce_schemas()

_LAZY: dict[str, tuple[str, ...]] = {
    "attach.attachment": ("Telemetry",),
    "attach.articulation_actuators": ("ArticulationActuators",),
    "attach.fitted_motors": ("DrawnMotors",),
    "attach.motors": ("JointFriction", "Motors"),
    "attach.recorder": ("Recorder",),
    "sim": ("Articulation", "Event", "MujocoSimulation", "NewtonSimulation", "Simulation", "current_simulation"),
    "stability.report": ("CheckResult", "check"),
    "newton": (),
    "torch": (),
    "assets": (),
    "fit": (),
    "graph": (),
    "gym": (),
    "lab": (),
    "logs": (),
    "mujoco": (),
    "robot_source": (),
    "studio": (),
    "usd": (
        "add_actuator",
        "author_actuators",
        "current_stage",
        "export_actuators",
        "inspect_actuators",
        "parse_actuator_prim",
        "parse_actuators",
        "use_stage",
    ),
}
"""Names that need more than Warp and NumPy, by the module that defines them. They are imported on first use."""

if _typing.TYPE_CHECKING:
    from . import (
        assets as assets,
        fit as fit,
        graph as graph,
        gym as gym,
        lab as lab,
        logs as logs,
        mujoco as mujoco,
        newton as newton,
        robot_source as robot_source,
        sim as sim,
        studio as studio,
        torch as torch,
        usd as usd,
    )
    from .attach.articulation_actuators import ArticulationActuators as ArticulationActuators
    from .attach.fitted_motors import DrawnMotors as DrawnMotors
    from .attach.motors import JointFriction as JointFriction, Motors as Motors
    from .attach.recorder import Recorder as Recorder
    from .attach.telemetry import Telemetry as Telemetry
    from .sim import (
        Articulation as Articulation,
        Event as Event,
        MujocoSimulation as MujocoSimulation,
        NewtonSimulation as NewtonSimulation,
        Simulation as Simulation,
        current_simulation as current_simulation,
    )
    from .stability.report import CheckResult as CheckResult, check as check
    from .usd import (
        add_actuator as add_actuator,
        author_actuators as author_actuators,
        current_stage as current_stage,
        export_actuators as export_actuators,
        inspect_actuators as inspect_actuators,
        parse_actuator_prim as parse_actuator_prim,
        parse_actuators as parse_actuators,
        use_stage as use_stage,
    )
else:
    # Not for type checkers, which treat `name as name` as public. Without the names of `_LAZY`: `from actuon import *`
    # would import them all, and fail if an extra is missing.
    __all__ = [name for name, it in globals().items() if name[0] != "_" and not isinstance(it, _types.ModuleType)]

    def __getattr__(name):
        import importlib

        for module, names in _LAZY.items():
            if name in names:
                return getattr(importlib.import_module(f".{module}", __name__), name)
            if name == module and "." not in module:
                return importlib.import_module(f".{module}", __name__)
        raise AttributeError(f"module 'actuon' has no attribute {name!r}")

    def __dir__():
        modules = (module for module in _LAZY if "." not in module)
        return sorted([*__all__, "__version__", *modules, *(name for names in _LAZY.values() for name in names)])
