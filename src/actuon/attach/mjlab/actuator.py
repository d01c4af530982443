# SPDX-License-Identifier: Apache-2.0
"""Actuator of an mjlab entity that runs a motor model, and its config."""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import mujoco
import torch
import warp as wp
from mjlab.actuator.actuator import Actuator, ActuatorCfg, ActuatorCmd, TransmissionType
from mjlab.utils.spec import create_motor_actuator

from ...actuator.config import AUTO, EXPLICIT, IMPLICIT, ActuatorConfig, checked_effort_mode
from ...components.controllers.pd import PDControlConfig
from ...components.limits.battery import BatteryClampingConfig, ClampingBattery
from ...errors import ParameterError, RobotFileError, StructureError, listed, located, shown
from ...motors.catalogue import motor_of
from ...motors.unmodelled import warn_of_unmodelled
from ...robot_files.formats import YAML_FORMATS
from ...robot_files.yaml import ActuatorEntry, load_actuators, match_actuators
from ..groups.tensors import warp_device
from ..hand_overs import check_derivatives
from ..solved_by_engine import SolvedByEngine, solved_by_engine
from .chains import DERIVATIVE, HELD_FIELDS, INPUTS, EnvironmentMotors
from .friction import FrictionHandOver, sharpen

if TYPE_CHECKING:
    import mujoco_warp as mjwarp
    from mjlab.entity import Entity
    from mjlab.entity.data import EntityData
    from mjlab.sim import Simulation

_NO_LIMIT = float("inf")
_on_battery: weakref.WeakKeyDictionary[Entity, tuple[mjwarp.Data, str]] = weakref.WeakKeyDictionary()
"""The data of an entity's initialization, and its first joint with a battery."""
_STEEPEST = -1e9
"""Lowest derivative of an effort by velocity that is passed to MuJoCo [N·m·s/rad or N·s/m]."""


@dataclass(kw_only=True)
class ActuonActuatorCfg(ActuatorCfg):
    """Config of joints of an mjlab entity that are driven by motors of Actuon.

    ``armature``, ``frictionloss`` and ``viscous_damping`` replace the values of the motor, which replace those of the
    asset. mjlab's own delay, ``delay_max_lag``, is applied before that of the motor.

    Examples:
        >>> from mjlab.entity import EntityArticulationInfoCfg
        >>> knees = actuon.mjlab.ActuonActuatorCfg(
        ...     target_names_expr=(".*_calf_joint",),
        ...     actuator="unitree-go-m8010-6",
        ...     stiffness=35.0,
        ...     damping=0.8,
        ... )
        >>> articulation = EntityArticulationInfoCfg(actuators=(knees,))
    """

    actuator: ActuatorConfig | Path | str
    """Motor of all joints; or the path of an ``actuon.yaml`` with a motor for each joint; or the name of a motor of the
    catalogue, with a PD controller of ``stiffness`` and ``damping``."""

    stiffness: float | None = None
    """Position gain [N·m/rad], only with the name of a motor."""

    damping: float | None = None
    """Velocity gain [N·m·s/rad], only with the name of a motor."""

    effort_mode: str | None = None
    """``"explicit"``: MuJoCo receives efforts. ``"implicit"``: it also receives their derivatives by velocity, which
    ``implicitfast`` integrates, so that stiff gains are stable. Default: that of each motor."""

    allow_unsafe_torch_checkpoints: bool = False
    """Let a YAML file name ``.pt`` and ``.pt2`` networks, which can run code when loaded."""

    def build(self, entity: Entity, target_ids: list[int], target_names: list[str]) -> ActuonActuator:
        """Build the actuator. Called by the entity, with the matched targets."""
        return ActuonActuator(self, entity, target_ids, target_names)

    def configs(self, target_names: list[str], entity_names: tuple[str, ...]) -> dict[str, ActuatorConfig]:
        """Return the motor of each target, by name, with its ``effort_mode``.

        Args:
            target_names: Targets of this config.
            entity_names: All joints, or tendons, of the entity; entries of a YAML file may be for any of them.
        """
        if self.transmission_type == TransmissionType.SITE:
            raise StructureError("transmission_type: got SITE, which has no position; must be JOINT or TENDON")
        if isinstance(self.actuator, ActuatorConfig):
            self._refuse_gains("a motor model")
            entry = ActuatorEntry("actuator", self.target_names_expr, self.actuator)
            found = {name: entry.actuator_of(name) for name in target_names}
        elif isinstance(self.actuator, Path) or (
            isinstance(self.actuator, str) and self.actuator.endswith(YAML_FORMATS)
        ):
            self._refuse_gains("a YAML file")
            found = self._configs_of_file(Path(self.actuator), target_names, entity_names)
        elif not isinstance(self.actuator, str):
            raise ParameterError(
                f"actuator: got {shown(self.actuator)}; must be an ActuatorConfig, the path of a YAML file, or the "
                "name of a motor"
            )
        else:
            stages = motor_of(self.actuator).stages()
            if self.stiffness is None or self.damping is None:
                raise ParameterError(
                    f"motor '{self.actuator}': has no controller; pass stiffness [N·m/rad] and damping [N·m·s/rad]"
                )
            motor = ActuatorConfig(stages=[PDControlConfig(self.stiffness, self.damping), *stages])
            found = dict.fromkeys(target_names, motor)
        if self.effort_mode is not None:
            mode = checked_effort_mode(self.effort_mode)
            found = {name: config.copy() for name, config in found.items()}
            for config in found.values():
                config.effort_mode = mode
        for name, config in found.items():
            if config.effort_mode == AUTO:
                raise StructureError(
                    f"joint '{name}': effort_mode: got '{AUTO}', which only a simulation of Actuon can decide; must be "
                    f"'{EXPLICIT}' or '{IMPLICIT}'"
                )
            if config.effort_mode == IMPLICIT:
                check_derivatives(f"joint '{name}'", config.stages)
        return found

    def _refuse_gains(self, what: str) -> None:
        for name in ("stiffness", "damping"):
            if getattr(self, name) is not None:
                raise ParameterError(f"{name}: is for the name of a motor; {what} has its own controller")

    def _configs_of_file(
        self, path: Path, target_names: list[str], entity_names: tuple[str, ...]
    ) -> dict[str, ActuatorConfig]:
        entries = load_actuators(path, self.allow_unsafe_torch_checkpoints)
        with located(path, RobotFileError):
            matched = match_actuators(entries, entity_names)
        found = {name: actuator for _, own in matched for name, actuator in own.items()}
        for name in target_names:
            if name not in found:
                raise RobotFileError(f"{path}: has no actuator for '{name}'; {listed(name, found, 'joints')}")
        return {name: found[name] for name in target_names}


class ActuonActuator(Actuator[ActuonActuatorCfg]):
    """Motors of an `ActuonActuatorCfg` in all environments, built by the entity."""

    def __init__(self, cfg: ActuonActuatorCfg, entity: Entity, target_ids: list[int], target_names: list[str]):
        super().__init__(cfg, entity, target_ids, target_names)
        is_joint = cfg.transmission_type == TransmissionType.JOINT
        everyone = entity.joint_names if is_joint else entity.tendon_names
        self.configs = cfg.configs(target_names, everyone)
        """Config of each target, by name."""
        warn_of_unmodelled(self.configs.values())
        self._sides = {name: _side(name, config, is_joint) for name, config in self.configs.items()}
        self._implicit = [i for i, name in enumerate(target_names) if self.configs[name].effort_mode == IMPLICIT]
        """Targets whose efforts are implicit."""
        self._mjs_derivatives: list[mujoco.MjsActuator] = []
        self._chains: EnvironmentMotors | None = None
        self._friction: FrictionHandOver | None = None

    def edit_spec(self, spec: mujoco.MjSpec, target_names: list[str]) -> None:
        """Add an actuator without limits for each target, and write armature and friction of the motor to the model.

        A target with implicit efforts gets a second actuator, ``<target>_derivative_qd``, with the effort ``ctrl``
        times velocity.
        """
        cfg = self.cfg
        motors = []
        for target_name in target_names:
            side = self._sides[target_name.split("/")[-1]]
            motor = create_motor_actuator(
                spec,
                target_name,
                effort_limit=_NO_LIMIT,
                armature=side.armature if cfg.armature is None else cfg.armature,
                frictionloss=side.frictionloss if cfg.frictionloss is None else cfg.frictionloss,
                viscous_damping=side.damping if cfg.viscous_damping is None else cfg.viscous_damping,
                transmission_type=cfg.transmission_type,
            )
            _let_push(motor, (1.0, 0.0, 0.0))
            motors.append(motor)
        self._mjs_actuators += motors
        for target_name, motor in zip(target_names, motors, strict=True):
            if self.configs[target_name.split("/")[-1]].effort_mode == IMPLICIT:
                derivative = spec.add_actuator(
                    name=f"{target_name}_derivative_qd", target=target_name, trntype=motor.trntype
                )
                derivative.gaintype, derivative.biastype = mujoco.mjtGain.mjGAIN_AFFINE, mujoco.mjtBias.mjBIAS_NONE
                derivative.dyntype, derivative.armature, derivative.damping[:] = mujoco.mjtDyn.mjDYN_NONE, 0.0, 0.0
                _let_push(derivative, (0.0, 0.0, 1.0))
                self._mjs_derivatives.append(derivative)

    def initialize(self, mj_model: mujoco.MjModel, model: mjwarp.Model, data: mjwarp.Data, device: str) -> None:
        """Build the motors. Called by the entity, after the model was compiled."""
        kinds = mujoco.mjtIntegrator
        if self._implicit and mj_model.opt.integrator not in (kinds.mjINT_IMPLICITFAST, kinds.mjINT_IMPLICIT):
            raise StructureError(
                f"joint '{self.target_names[self._implicit[0]]}': effort_mode '{IMPLICIT}' needs the integrator "
                f"implicitfast, got {kinds(mj_model.opt.integrator).name.removeprefix('mjINT_').lower()}; set "
                "cfg.sim.mujoco.integrator"
            )
        self._mjs_actuators += self._mjs_derivatives
        super().initialize(mj_model, model, data, device)
        in_engine = [side.solves_friction for side in self._sides.values()]
        where = wp.get_device(warp_device(device))
        is_joint = self.transmission_type == TransmissionType.JOINT
        if is_joint:
            self._refuse_second_battery(data)
        self._chains = EnvironmentMotors(
            self.configs,
            in_engine,
            data.nworld,
            where,
            float(mj_model.opt.timestep),
            columns=self._target_ids_list if is_joint else None,
            width=self.entity.num_joints if is_joint else None,
        )

    def _refuse_second_battery(self, data: mjwarp.Data) -> None:
        """Raise an error if motors of another config of the entity are on its battery."""
        batteries = (
            name
            for name, config in self.configs.items()
            if any(isinstance(part, (BatteryClampingConfig, ClampingBattery)) for part in config.stages)
        )
        first = next(batteries, None)
        if first is None:
            return
        known = _on_battery.get(self.entity)
        if known is not None and known[0] is data:
            raise StructureError(
                f"joint '{first}' has a battery, and so has joint '{known[1]}' of another ActuonActuatorCfg: a robot "
                "has one battery, so give all its motors to one config, by a YAML file of all joints"
            )
        _on_battery[self.entity] = data, first

    @property
    def motors(self) -> EnvironmentMotors:
        """Signals, inputs and parameters of the motors in all environments, after the entity is initialised."""
        if self._chains is None:
            raise StructureError("the entity is not initialised yet; its environment does that")
        return self._chains

    def get_command(self, data: EntityData) -> ActuatorCmd:
        """Return command and state of the targets; the entity's own tensors if these are all its joints."""
        is_joint = self.transmission_type == TransmissionType.JOINT
        if not is_joint or self._target_ids_list != list(range(self.entity.num_joints)):
            return super().get_command(data)
        return ActuatorCmd(
            position_target=data.joint_pos_target,
            velocity_target=data.joint_vel_target,
            effort_target=data.joint_effort_target,
            pos=data.joint_pos,
            vel=data.joint_vel,
        )

    def write_held(self, simulation: Simulation, env_ids: torch.Tensor) -> None:
        """Write armature and friction of some environments to the model, after they have changed.

        Args:
            simulation: Simulation whose model fields are expanded.
            env_ids: Which environments, shape (n,).
        """
        own = self.cfg
        given = dict(zip(HELD_FIELDS, (own.armature, own.frictionloss, own.viscous_damping), strict=True))
        dofs = self.entity.indexing.joint_v_adr[self.target_ids].long()
        for field, values in self.motors.held().items():
            columns = torch.nonzero(~values[0].isnan()).flatten()
            if given[field] is None and len(columns):
                getattr(simulation.model, field)[env_ids[:, None], dofs[columns]] = values[env_ids][:, columns]

    def compute(self, cmd: ActuatorCmd) -> torch.Tensor:
        """Return the controls for a command, shape (environments, controls). The memory stays unchanged until `update`.

        The first controls are the efforts of all targets [N·m or N]. The derivatives by velocity of implicit efforts
        follow [N·m·s/rad or N·s/m]; these efforts are reduced by derivative times velocity, which MuJoCo adds.
        """
        varying = self._varying
        if varying and self._friction is None:
            raise StructureError(
                f"joint '{self.target_names[varying[0]]}': its friction changes with speed or load; add the event term "
                "actuon.mjlab.solve_friction, mode 'startup', to the environment, or give the friction its inertia"
            )
        if self._friction is not None:
            self._friction.read_loads()
        effort = self.motors.run({name: getattr(cmd, name) for name in INPUTS})
        if self._friction is not None:
            self._friction.hand_over()
        if not self._implicit:
            return effort
        own = slice(None) if len(self._implicit) == len(self.target_names) else self._implicit
        derivative = self.motors.signals[DERIVATIVE][:, own].clamp(_STEEPEST, 0.0)
        effort[:, own] -= derivative * cmd.vel[:, own]
        return torch.cat([effort, derivative], dim=1)

    @functools.cached_property
    def _varying(self) -> list[int]:
        """Targets whose friction is written to the engine at each step."""
        return [i for i, name in enumerate(self.target_names) if self._sides[name].varies]

    def solve_friction_in(self, simulation: Simulation) -> None:
        """Make friction stiff in MuJoCo, and write it at each step. Called by `solve_friction`.

        Args:
            simulation: Simulation whose ``dof_frictionloss``, ``dof_damping``, ``dof_solref`` and ``dof_solimp`` are
                expanded.
        """
        dofs = self.entity.indexing.joint_v_adr[self.target_ids].long()
        rubs = [i for i, name in enumerate(self.target_names) if self._sides[name].frictionloss is not None]
        if rubs:
            sharpen(simulation, dofs[rubs])
            given = {"dof_frictionloss": self.cfg.frictionloss, "dof_damping": self.cfg.viscous_damping}
            fields = [field for field, value in given.items() if value is None]
            self._friction = FrictionHandOver(simulation, self.motors, rubs, dofs[rubs], fields)

    def update(self, dt: float) -> None:
        """Advance the memory after a physics step of ``dt`` [s] with the efforts of the last `compute`."""
        del dt  # always the time step of the model
        self.motors.advance()

    def reset(self, env_ids: torch.Tensor | slice | None = None) -> None:
        """Clear the memory of environments. None means all."""
        self.motors.reset(env_ids)
        super().reset(env_ids)


def _side(name: str, config: ActuatorConfig, is_joint: bool) -> SolvedByEngine:
    with located(f"joint '{name}'"):
        return solved_by_engine(config, takes_varying=is_joint)


def _let_push(actuator: mujoco.MjsActuator, gains: tuple[float, float, float]) -> None:
    """Set the effort of an actuator to ``ctrl`` times gains of 1, length and velocity, without the asset's defaults."""
    actuator.gear[:], actuator.gear[0] = 0.0, 1.0
    actuator.gainprm[:], actuator.gainprm[:3] = 0.0, gains
    actuator.forcelimited = actuator.ctrllimited = False
    actuator.forcerange[:] = actuator.ctrlrange[:] = 0.0
