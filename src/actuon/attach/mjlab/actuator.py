# SPDX-License-Identifier: Apache-2.0
"""An actuator of an mjlab entity that runs a chain of ours, and its config."""

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
from ...errors import ParameterError, RobotFileError, StructureError, listed, located, shown
from ...motors.catalogue import motor_of
from ...robot_files.formats import YAML_FORMATS
from ...robot_files.yaml import ActuatorEntry, load_actuators, match_actuators
from ..batteries import BatteryPool
from ..engine_side import EngineSide, engine_side
from ..groups.tensors import warp_device
from ..hand_overs import check_slopes
from .chains import HELD_FIELDS, INPUTS, SLOPE, EnvironmentChains
from .friction import FrictionHandOver, sharpen

if TYPE_CHECKING:
    import mujoco_warp as mjwarp
    from mjlab.entity import Entity
    from mjlab.entity.data import EntityData
    from mjlab.sim import Simulation

_NO_LIMIT = float("inf")
_pools: weakref.WeakKeyDictionary[Entity, tuple[mjwarp.Data, BatteryPool]] = weakref.WeakKeyDictionary()
"""Batteries of the robots of each entity, which all its configs share, and the data that it was initialized with."""
_STEEPEST = -1e9
"""Steepest slope of an effort by velocity that MuJoCo gets [N·m·s/rad or N·s/m]."""


@dataclass(kw_only=True)
class ActuonActuatorCfg(ActuatorCfg):
    """Joints that are driven by a chain of Actuon, beside mjlab's own configs.

    ``armature``, ``frictionloss`` and ``viscous_damping`` replace what the chain says of them, which replaces what the
    asset says. The lag of mjlab, ``delay_max_lag``, comes before the chain, which may have a delay of its own.
    """

    actuator: ActuatorConfig | Path | str
    """The chain of each joint; or the path of an ``actuon.yaml``, which gives each of the joints its own; or the name
    of a motor of the catalogue, for which ``stiffness`` and ``damping`` make a PD controller."""

    stiffness: float | None = None
    """Position gain [N·m/rad], with the name of a motor only."""

    damping: float | None = None
    """Velocity gain [N·m·s/rad], with the name of a motor only."""

    effort_mode: str | None = None
    """``"explicit"``: MuJoCo gets efforts. ``"implicit"``: it gets them with their slopes by velocity, which
    ``implicitfast`` takes into its solve, so that stiff gains do not shake. Default: what each chain says."""

    allow_unsafe_torch_checkpoints: bool = False
    """Let a YAML file name ``.pt`` and ``.pt2`` networks. Loading one can run code that is in it."""

    def build(self, entity: Entity, target_ids: list[int], target_names: list[str]) -> ActuonActuator:
        """Build the actuator. Called by the entity, with the targets that the expressions matched."""
        return ActuonActuator(self, entity, target_ids, target_names)

    def configs(self, target_names: list[str], entity_names: tuple[str, ...]) -> dict[str, ActuatorConfig]:
        """The chain of each target, by name, with the ``effort_mode`` that it has here.

        Args:
            target_names: Those that this config drives.
            entity_names: All joints, or tendons, of the entity, which the entries of a YAML file may be for.
        """
        if self.transmission_type == TransmissionType.SITE:
            raise StructureError("transmission_type: got SITE, which has no position; must be JOINT or TENDON")
        if isinstance(self.actuator, ActuatorConfig):
            self._refuse_gains("a chain")
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
                    f"motor '{self.actuator}': stiffness [N·m/rad] and damping [N·m·s/rad] must be given too: a motor "
                    "has no controller"
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
                    f"joint '{name}': effort_mode: got '{AUTO}', which a simulation of Actuon decides; must be "
                    f"'{EXPLICIT}' or '{IMPLICIT}'"
                )
            if config.effort_mode == IMPLICIT:
                check_slopes(f"joint '{name}'", config.stages)
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
    """Runs the chains of an `ActuonActuatorCfg` in all environments. Made by the entity."""

    def __init__(self, cfg: ActuonActuatorCfg, entity: Entity, target_ids: list[int], target_names: list[str]):
        super().__init__(cfg, entity, target_ids, target_names)
        is_joint = cfg.transmission_type == TransmissionType.JOINT
        everyone = entity.joint_names if is_joint else entity.tendon_names
        self.configs = cfg.configs(target_names, everyone)
        """Sources of each target, by name."""
        self._sides = {name: _side(name, config, is_joint) for name, config in self.configs.items()}
        self._implicit = [i for i, name in enumerate(target_names) if self.configs[name].effort_mode == IMPLICIT]
        """Targets whose efforts are implicit."""
        self._mjs_slopes: list[mujoco.MjsActuator] = []
        self._chains: EnvironmentChains | None = None
        self._friction: FrictionHandOver | None = None

    def edit_spec(self, spec: mujoco.MjSpec, target_names: list[str]) -> None:
        """Add a motor without limits for each target, and author what the engine holds of its chain.

        A target whose effort is implicit gets a second actuator, ``<target>_slope_qd``, which pushes with ``ctrl``
        times the velocity.
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
                slope = spec.add_actuator(name=f"{target_name}_slope_qd", target=target_name, trntype=motor.trntype)
                slope.gaintype, slope.biastype = mujoco.mjtGain.mjGAIN_AFFINE, mujoco.mjtBias.mjBIAS_NONE
                slope.dyntype, slope.armature, slope.damping[:] = mujoco.mjtDyn.mjDYN_NONE, 0.0, 0.0
                _let_push(slope, (0.0, 0.0, 1.0))
                self._mjs_slopes.append(slope)

    def initialize(self, mj_model: mujoco.MjModel, model: mjwarp.Model, data: mjwarp.Data, device: str) -> None:
        """Build the chains. Called by the entity, after the model was compiled."""
        kinds = mujoco.mjtIntegrator
        if self._implicit and mj_model.opt.integrator not in (kinds.mjINT_IMPLICITFAST, kinds.mjINT_IMPLICIT):
            raise StructureError(
                f"joint '{self.target_names[self._implicit[0]]}': effort_mode '{IMPLICIT}' needs the integrator "
                f"implicitfast, got {kinds(mj_model.opt.integrator).name.removeprefix('mjINT_').lower()}; set "
                "cfg.sim.mujoco.integrator"
            )
        self._mjs_actuators += self._mjs_slopes
        super().initialize(mj_model, model, data, device)
        in_engine = [side.solves_friction for side in self._sides.values()]
        where = wp.get_device(warp_device(device))
        is_joint = self.transmission_type == TransmissionType.JOINT
        self._chains = EnvironmentChains(
            self.configs,
            in_engine,
            data.nworld,
            where,
            float(mj_model.opt.timestep),
            pool=self._battery_pool(data) if is_joint else None,
            columns=self._target_ids_list if is_joint else None,
            width=self.entity.num_joints if is_joint else None,
        )

    def _battery_pool(self, data: mjwarp.Data) -> BatteryPool:
        """Return the batteries of the entity's robots: new ones where the entity is initialized again."""
        known = _pools.get(self.entity)
        if known is None or known[0] is not data:
            known = _pools[self.entity] = data, BatteryPool()
        return known[1]

    @property
    def chains(self) -> EnvironmentChains:
        """The chains over all environments, once the entity is initialized: signals, inputs, parameters."""
        if self._chains is None:
            raise StructureError("the entity is not initialized yet; its environment does that")
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
        """Give the model what it holds of the chains of some environments, after that has changed.

        Args:
            simulation: Where the fields of the model are expanded.
            env_ids: Which environments, shape (n,).
        """
        own = self.cfg
        given = dict(zip(HELD_FIELDS, (own.armature, own.frictionloss, own.viscous_damping), strict=True))
        dofs = self.entity.indexing.joint_v_adr[self.target_ids].long()
        for field, values in self.chains.held().items():
            columns = torch.nonzero(~values[0].isnan()).flatten()
            if given[field] is None and len(columns):
                getattr(simulation.model, field)[env_ids[:, None], dofs[columns]] = values[env_ids][:, columns]

    def compute(self, cmd: ActuatorCmd) -> torch.Tensor:
        """Controls that follow a command, shape (environments, controls). Remembers nothing until `update`.

        Of each target the effort [N·m or N]; where it is implicit, its slope by velocity [N·m·s/rad or N·s/m] comes
        after those of all targets, and slope times velocity is taken off the effort, to be added by MuJoCo.
        """
        varying = self._varying
        if varying and self._friction is None:
            raise StructureError(
                f"joint '{self.target_names[varying[0]]}': its friction changes with speed or load; add the event term "
                "actuon.mjlab.solve_friction, mode 'startup', to the environment, or give the friction its inertia"
            )
        if self._friction is not None:
            self._friction.read_loads()
        effort = self.chains.run({name: getattr(cmd, name) for name in INPUTS})
        if self._friction is not None:
            self._friction.hand_over()
        if not self._implicit:
            return effort
        own = slice(None) if len(self._implicit) == len(self.target_names) else self._implicit
        slope = self.chains.signals[SLOPE][:, own].clamp(_STEEPEST, 0.0)
        effort[:, own] -= slope * cmd.vel[:, own]
        return torch.cat([effort, slope], dim=1)

    @functools.cached_property
    def _varying(self) -> list[int]:
        """Targets whose friction the engine gets at each step."""
        return [i for i, name in enumerate(self.target_names) if self._sides[name].varies]

    def solve_friction_in(self, simulation: Simulation) -> None:
        """Let MuJoCo solve friction firmly, and hand it over at each step. `solve_friction` calls it.

        Args:
            simulation: Where ``dof_frictionloss``, ``dof_damping``, ``dof_solref`` and ``dof_solimp`` are expanded.
        """
        dofs = self.entity.indexing.joint_v_adr[self.target_ids].long()
        rubs = [i for i, name in enumerate(self.target_names) if self._sides[name].frictionloss is not None]
        if rubs:
            sharpen(simulation, dofs[rubs])
            given = {"dof_frictionloss": self.cfg.frictionloss, "dof_damping": self.cfg.viscous_damping}
            fields = [field for field, value in given.items() if value is None]
            self._friction = FrictionHandOver(simulation, self.chains, rubs, dofs[rubs], fields)

    def update(self, dt: float) -> None:
        """Move on: physics has advanced by ``dt`` [s], with the efforts of the last `compute`."""
        del dt  # always the time step of the model
        self.chains.advance()

    def reset(self, env_ids: torch.Tensor | slice | None = None) -> None:
        """Let environments forget the past, and no others. None means all."""
        self.chains.reset(env_ids)
        super().reset(env_ids)


def _side(name: str, config: ActuatorConfig, is_joint: bool) -> EngineSide:
    with located(f"joint '{name}'"):
        return engine_side(config, takes_varying=is_joint)


def _let_push(actuator: mujoco.MjsActuator, gains: tuple[float, float, float]) -> None:
    """Let an actuator push with ``ctrl`` times the gains of 1, length and velocity, whatever the asset's defaults."""
    actuator.gear[:], actuator.gear[0] = 0.0, 1.0
    actuator.gainprm[:], actuator.gainprm[:3] = 0.0, gains
    actuator.forcelimited = actuator.ctrllimited = False
    actuator.forcerange[:] = actuator.ctrlrange[:] = 0.0
