# SPDX-License-Identifier: Apache-2.0
"""Terms for mjlab's event manager: randomisation of motors, and friction that MuJoCo solves."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from mjlab.actuator.actuator import TransmissionType
from mjlab.envs.mdp import dr
from mjlab.managers.event_manager import RecomputeLevel, requires_model_fields
from mjlab.managers.scene_entity_config import SceneEntityCfg

from ...errors import ParameterError, listed, located
from ...sim.ids import ids_to_reset, ids_to_write
from ...sim.mujoco.friction import SOFTNESS
from ...typing import PathLike
from ..groups.randomisation import Distribution, whole_numbers
from ..groups.resolution import matching
from .actuator import ActuonActuator
from .chains import HELD_FIELDS
from .friction import FIELDS

if TYPE_CHECKING:
    from mjlab.envs import ManagerBasedRlEnv

_DISTRIBUTIONS = {known.name: known for known in (dr.uniform, dr.log_uniform, dr.gaussian)}
_OPERATIONS = {known.name: known for known in (dr.scale, dr.add, dr.abs)}
_ROBOT = SceneEntityCfg("robot")


def randomize(
    env: ManagerBasedRlEnv,
    env_ids: torch.Tensor | None,
    parameter: str,
    ranges: tuple[float, float],
    asset_cfg: SceneEntityCfg = _ROBOT,
    distribution: dr.Distribution | str = "uniform",
    operation: dr.Operation | str = "scale",
) -> None:
    """Draw a parameter of an entity's motors for each environment and joint.

    Args:
        env: The environment.
        env_ids: Which environments. None means all.
        parameter: Stage and parameter, such as ``"controller.kp"``. See `EnvironmentMotors.parameter`. Joints without
            it keep their values.
        ranges: Lowest and highest number; mean and standard deviation with ``"gaussian"``. Whole numbers, such as
            ``"delay.delay_steps"``, are equally likely, both ends included; a scaled one is rounded.
        asset_cfg: Which entity, and which of its joints.
        distribution: ``"uniform"``, ``"log_uniform"``, ``"gaussian"``, or an object of ``dr.Distribution``.
        operation: ``"scale"`` or ``"add"`` to the built value, ``"abs"`` to replace it, or an object of
            ``dr.Operation``.

    Raises:
        ParameterError: No motor has this parameter, or a drawn value is not allowed.

    Examples:
        >>> from mjlab.managers.event_manager import EventTermCfg
        >>> gains = {"parameter": "controller.kp", "ranges": (0.8, 1.2)}
        >>> term = EventTermCfg(func=actuon.mjlab.randomize, mode="startup", params=gains)
    """
    drawing = _known("distribution", distribution, _DISTRIBUTIONS, dr.Distribution)
    doing = _known("operation", operation, _OPERATIONS, dr.Operation)
    ids = ids_to_write("env_ids", env_ids, env.num_envs)
    entity = env.scene[asset_cfg.name]
    ours = [actuator for actuator in entity.actuators if isinstance(actuator, ActuonActuator)]
    having = [actuator for actuator in ours if parameter in actuator.motors.parameter_names]
    if not having:
        known = dict.fromkeys(name for actuator in ours for name in actuator.motors.parameter_names)
        raise ParameterError(
            f"entity '{asset_cfg.name}': no parameter '{parameter}'; {listed(parameter, known, 'parameters')}"
        )
    chosen = torch.zeros(entity.num_joints, dtype=torch.bool, device=env.device)
    chosen[asset_cfg.joint_ids] = True
    for actuator in having:
        joints = actuator.target_names
        if actuator.transmission_type == TransmissionType.JOINT:
            joints = [*itertools.compress(joints, chosen[actuator.target_ids].tolist())]
        is_whole = actuator.motors.is_whole(parameter)
        if is_whole and drawing is dr.gaussian:
            raise ParameterError(f"{parameter}: takes whole numbers, which 'gaussian' does not draw")
        draws = _OfMjlab(drawing, doing, ranges, env.device)
        with located(f"entity '{asset_cfg.name}'"):
            actuator.motors.randomize(parameter, draws, ids, joints, doing.uses_defaults)


class _OfMjlab(Distribution):
    """Distribution and operation of mjlab, which draw from PyTorch's generator.

    Args:
        drawing: The distribution.
        doing: The operation.
        ranges: Parameters of the distribution.
        device: Device of PyTorch.
    """

    operation, per_joint = "set", True

    def __init__(
        self,
        drawing: dr.Distribution,
        doing: dr.Operation,
        ranges: tuple[float, float],
        device: str,
    ):
        self._drawing, self._doing, self._device = drawing, doing, device
        self._low, self._high = (float(end) for end in ranges)

    def _problem(self) -> str | None:
        return None

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        low, high = (torch.tensor(end, device=self._device) for end in (self._low, self._high))
        return np.asarray(self._drawing.sample(low, high, shape, self._device).cpu().numpy())

    def apply(self, values: np.ndarray, drawn: np.ndarray, is_whole: bool = False) -> np.ndarray:
        if is_whole and self._doing is not dr.scale:
            drawn = whole_numbers(drawn, self._low, self._high)
        own = torch.tensor(values, dtype=torch.float32), torch.tensor(drawn, dtype=torch.float32)
        return np.asarray(self._doing.combine(*own).numpy())


@requires_model_fields(*HELD_FIELDS, recompute=RecomputeLevel.set_const_0)
def randomize_motors(
    env: ManagerBasedRlEnv,
    env_ids: torch.Tensor | None,
    from_fit: PathLike,
    joints: Mapping[str, str] | None = None,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Draw motors of an entity's joints around fitted ones, with all fitted parameters together.

    Rotor inertia and constant friction are written to the model.

    Args:
        env: The environment.
        env_ids: Which environments. None means all.
        from_fit: A ``fleet.yaml``, or the ``actuon.yaml`` of a fit, with the stages of the joints' motors.
        joints: Regexes of joints, and the joint of the file that each is drawn from. Default: all that have a motor, by
            their names.
        asset_cfg: Which entity.

    Raises:
        ParameterError: The motors of a config lack a parameter of the file; they are not changed then.

    Examples:
        >>> from mjlab.managers.event_manager import EventTermCfg
        >>> fits = {"from_fit": "fleet.yaml", "joints": {".*_calf_joint": "knee"}}
        >>> term = EventTermCfg(func=actuon.mjlab.randomize_motors, mode="startup", params=fits)
    """
    ids = ids_to_reset("env_ids", env_ids, env.num_envs)
    rows = torch.as_tensor(ids, device=env.device)
    ours = [actuator for actuator in env.scene[asset_cfg.name].actuators if isinstance(actuator, ActuonActuator)]
    names = [name for actuator in ours for name in actuator.target_names]
    chosen = None if joints is None else {regex: set(matching("joints", regex, names)) for regex in joints}
    for actuator in ours:
        own = None
        if joints is not None and chosen is not None:
            own = {regex: joints[regex] for regex, found in chosen.items() if found & set(actuator.target_names)}
        if own is None or own:
            actuator.motors.draw_motors(from_fit, own, ids, int(torch.randint(2**31, ())))
            actuator.write_held(env.sim, rows)


@requires_model_fields(*FIELDS.values(), *SOFTNESS)
def solve_friction(
    env: ManagerBasedRlEnv, env_ids: torch.Tensor | None = None, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    """Make friction of an entity's motors stiff in MuJoCo, also if it changes with speed or load.

    A term of mode ``"startup"``: mjlab then has friction for each environment, which each step writes, so that its
    parameters may be changed and randomised.

    Args:
        env: The environment.
        env_ids: Not used: the term applies to all environments.
        asset_cfg: Which entity.

    Examples:
        >>> from mjlab.managers.event_manager import EventTermCfg
        >>> term = EventTermCfg(func=actuon.mjlab.solve_friction, mode="startup")
    """
    del env_ids
    for actuator in env.scene[asset_cfg.name].actuators:
        if isinstance(actuator, ActuonActuator) and actuator.transmission_type == TransmissionType.JOINT:
            actuator.solve_friction_in(env.sim)


def _known(where: str, given: Any, known: Mapping[str, Any], kind: type) -> Any:
    if isinstance(given, kind):
        return given
    if given not in known:
        raise ParameterError(f"{where}: got {given!r}; {listed(str(given), known, f'{where}s')}")
    return known[given]
