# SPDX-License-Identifier: Apache-2.0
"""Models of groups, one for each config."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import warp as wp

from ...arrays import require_detached
from ...components.controllers.neural import ControllerNeuralLSTM, ControllerNeuralMLP
from ...components.delay import Delay
from ...components.kinds import Clamping, Controller
from ...components.limits.dc_motor import ClampingDCMotor
from ...components.limits.remotized import ClampingRemotized
from ...errors import ParameterError
from ...kernel.state import check_range
from ...typing import Array, ArrayLike, IdsLike, Tensor
from .group_model import ActuatorBase, ArticulationActions
from .resolution import PARAMETERS, Resolved, name_given
from .tensors import to_numpy


class ImplicitActuator(ActuatorBase):
    """The engine drive. Commands are passed on; efforts are its equation, evaluated for telemetry.

    ``effort_limit`` and ``effort_limit_sim`` are one parameter, and so are the velocity limits: ``cfg`` of the model
    shows the given one as both. A ``velocity_limit`` alone is not used, and is None in ``cfg``. An
    ``actuator_velocity_limit`` is only shown, as ``velocity_limit`` of the model.
    """

    is_implicit_model = True

    def _united(self) -> list[str]:
        apart = self.cfg.actuator_velocity_limit is not None
        return ["effort_limit"] if apart else ["effort_limit", "velocity_limit"]

    def _resolve(self) -> dict[str, Resolved]:
        if self.cfg.actuator_effort_limit is not None:
            raise ParameterError(
                f"{self._where}: actuator_effort_limit: the engine drive has one limit; pass joint_effort_limit"
            )
        names = [name for name in PARAMETERS if name in self._assets]
        resolved = {name: self._resolve_one(name) for name in names}
        for name in self._united():
            sim = f"{name}_sim"
            plain, inner = resolved[name], resolved[sim]
            called = name_given(self.cfg, sim)
            if plain.source != "asset" and inner.source != "asset":
                if not np.array_equal(plain.used, inner.used):
                    raise ParameterError(
                        f"{self._where}: {name} and {called} differ; the engine drive has one limit; pass {called}"
                    )
            elif plain.source != "asset":
                used = "is used as" if name == "effort_limit" else "is not used; pass"
                warnings.warn(f"{self._where}: {name} {used} {sim} for the engine drive", stacklevel=5)
                if name == "effort_limit":
                    inner = Resolved(sim, inner.asset, plain.config, plain.used, "config: effort_limit")
                    self.cfg.effort_limit_sim = self.cfg.effort_limit
            setattr(self.cfg, name, getattr(self.cfg, sim))
            resolved[sim] = inner
            resolved[name] = Resolved(name, inner.asset, inner.config, inner.used, inner.source)
        return resolved

    def compute(self, control_action: ArticulationActions, joint_pos: Array, joint_vel: Array) -> ArticulationActions:
        """Evaluate the drive's equation, and return the commands unchanged. See `ActuatorBase.compute`.

        Examples:
            >>> cfg = actuon.lab.ImplicitActuatorCfg([".*"], stiffness=40.0, damping=1.0)
            >>> arm = cfg.class_type(cfg, ["hip", "knee"], slice(None), num_envs=1, device="cpu")
            >>> command = actuon.lab.ArticulationActions(np.array([[0.1, 0.5]], np.float32))
            >>> zeros = np.zeros((1, 2), np.float32)
            >>> arm.compute(command, zeros, zeros) is command
            True
        """
        self._step(control_action, joint_pos, joint_vel)
        return control_action


class IdealPDActuator(ActuatorBase):
    """Explicit PD without delay, up to ``effort_limit``."""


class DCMotor(ActuatorBase):
    """Explicit PD, limited by the torque-speed envelope of a DC motor. The corner velocity follows the parameters.

    Examples:
        >>> limits = {"effort_limit": 25.0, "saturation_effort": 35.0, "velocity_limit": 20.0}
        >>> cfg = actuon.lab.DCMotorCfg([".*"], stiffness=40.0, damping=0.0, **limits)
        >>> motor = cfg.class_type(cfg, ["knee"], slice(None), num_envs=1, device="cpu")
        >>> command = actuon.lab.ArticulationActions(np.array([[2.0]], np.float32))
        >>> at = {"joint_pos": np.zeros((1, 1)), "joint_vel": np.full((1, 1), 12.0)}
        >>> np.round(motor.compute(command, **at).joint_efforts, 3)  # 80 N·m requested
        array([[14.]], dtype=float32)
    """

    saturation_effort: Tensor
    """Stall effort of the motor [N·m]."""
    _extra = ("saturation_effort",)

    def _resolve(self) -> dict[str, Resolved]:
        resolved = super()._resolve()
        if not np.isfinite(resolved["velocity_limit"].used).all():
            raise ParameterError(
                f"{self._where}: velocity_limit is not given, and the asset has none; a motor needs one"
            )
        return resolved

    def _clamping(self) -> list[Clamping]:
        return [_dc_motor(self.parameters.arrays)]


def _dc_motor(values: dict[str, wp.array]) -> ClampingDCMotor:
    return ClampingDCMotor(values["saturation_effort"], values["velocity_limit"], values["effort_limit"])


class DelayedPDActuator(ActuatorBase):
    """Explicit PD with delayed commands: one delay per environment, for position, velocity and effort.

    The delay is drawn when the model is built, and again at each reset of the environment. With ``saturation_effort``,
    the envelope of a DC motor limits efforts.

    Examples:
        >>> given = {"stiffness": 40.0, "damping": 1.0, "min_delay": 0, "max_delay": 4}
        >>> cfg = actuon.lab.DelayedPDActuatorCfg([".*"], **given, seed=0)
        >>> legs = cfg.class_type(cfg, ["hip", "knee"], slice(None), num_envs=4, device="cpu")
        >>> legs.time_lags.tolist()
        [4, 3, 2, 1]
        >>> legs.reset([0])  # draws a delay for the first environment
    """

    saturation_effort: Tensor
    """Stall effort of the motor [N·m], if the config has one."""

    def _resolve(self) -> dict[str, Resolved]:
        for name in ("min_delay", "max_delay"):
            value = getattr(self.cfg, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
                raise ParameterError(f"{self._where}: {name}: got {value!r}; must be a whole number ≥ 0 [steps]")
        if self.cfg.min_delay > self.cfg.max_delay:
            raise ParameterError(
                f"{self._where}: min_delay {self.cfg.min_delay} is above max_delay {self.cfg.max_delay}"
            )
        resolved = super()._resolve()
        if self.cfg.saturation_effort is not None:
            resolved["saturation_effort"] = self._resolve_one("saturation_effort")
            if not np.isfinite(resolved["velocity_limit"].used).all():
                raise ParameterError(f"{self._where}: saturation_effort needs a velocity_limit")
        return resolved

    def _delay(self) -> Delay:
        self._lags = wp.zeros(self.num_envs * self.num_joints, dtype=wp.int32, device=self.device)
        self._draw_lags(np.arange(self.num_envs))
        return Delay(self._lags, max(1, self.cfg.max_delay))

    def _clamping(self) -> list[Clamping]:
        if "saturation_effort" in self.parameters.arrays:
            return [_dc_motor(self.parameters.arrays)]
        return super()._clamping()

    def _draw_lags(self, ids: np.ndarray) -> None:
        lags = self._lags.numpy().copy().reshape(self.shape)
        lags[ids] = self.parameters.rng.integers(self.cfg.min_delay, self.cfg.max_delay + 1, (len(ids), 1))
        self._lags.assign(lags.ravel())

    @property
    def time_lags(self) -> Tensor:
        """Delay of each environment [steps], shape (environments,)."""
        lags = self._view(self._lags)[:, 0]
        return lags.clone() if hasattr(lags, "clone") else lags.copy()

    def _drawn(self) -> dict[str, np.ndarray]:
        return {**super()._drawn(), "lags": self._lags.numpy().reshape(self.shape)}

    def _check_drawn(self, where: str, drawn: Mapping[str, np.ndarray]) -> None:
        super()._check_drawn(where, drawn)
        check_range(f"{where}lags", drawn["lags"].ravel(), 0, self.cfg.max_delay)

    def _redraw(self, drawn: Mapping[str, np.ndarray]) -> None:
        super()._redraw(drawn)
        self._lags.assign(drawn["lags"].ravel())

    def reset(self, env_ids: IdsLike = None) -> None:
        """Clear the memory of environments, and draw their delays again."""
        ids = self.parameters.ids(env_ids)
        if ids.size:
            self._draw_lags(ids)
            super().reset(ids)


class RemotizedPDActuator(DelayedPDActuator):
    """Explicit PD with delayed commands for a linkage-driven joint: largest effort and ratio depend on its angle.

    Efforts in the table are those of the joint. ``effort_limit``, if given, is that of the motor, and is multiplied by
    the ratio and the ``gear_ratio``.
    """

    _motor_side = ()

    def _resolve(self) -> dict[str, Resolved]:
        table = np.asarray(self.cfg.joint_parameter_lookup, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != 3:
            raise ParameterError(
                f"{self._where}: joint_parameter_lookup: got the shape {table.shape}; must be rows of an angle [rad], "
                "a transmission ratio and the largest torque [N·m]"
            )
        if self.cfg.saturation_effort is not None:
            raise ParameterError(f"{self._where}: saturation_effort: a linkage-driven joint is limited by its table")
        self._table = table * [1.0, self.cfg.gear_ratio, 1.0]
        resolved = super()._resolve()
        if self.cfg.effort_limit is None:
            without = np.full(self.shape, np.inf, np.float32)
            nothing: list[float | None] = [None] * self.num_joints
            resolved["effort_limit"] = Resolved("effort_limit", None, nothing, without, "table")
        return resolved

    def _clamping(self) -> list[Clamping]:
        angles, ratios, efforts = (tuple(column.tolist()) for column in self._table.T)
        return [ClampingRemotized(angles, ratios, efforts, self.parameters.arrays["effort_limit"])]

    def transmission_ratio(self, joint_pos: ArrayLike) -> np.ndarray:
        """Return the turns of the motor per turn of the joint at ``joint_pos`` [rad], with its shape.

        Examples:
            >>> table = [[-2.0, 1.0, 30.0], [0.0, 1.2, 40.0]]  # angle [rad], ratio, effort [N·m]
            >>> gains = {"stiffness": 60.0, "damping": 1.5}
            >>> cfg = actuon.lab.RemotizedPDActuatorCfg(
            ...     [".*"], **gains, joint_parameter_lookup=table
            ... )
            >>> knees = cfg.class_type(cfg, ["left", "right"], slice(None), 1, device="cpu")
            >>> knees.transmission_ratio(np.array([[-1.0, 0.0]]))
            array([[1.1, 1.2]], dtype=float32)
        """
        require_detached(joint_pos, f"{self._where}: joint_pos")
        return np.interp(to_numpy(joint_pos), self._table[:, 0], self._table[:, 1]).astype(np.float32)


class ActuatorNetMLP(DCMotor):
    """A network of position errors and velocities of a few steps, limited by the envelope of a DC motor."""

    def _controller(self) -> Controller:
        cfg = self.cfg
        return ControllerNeuralMLP(
            cfg.network_file,
            input_order=cfg.input_order,
            input_idx=cfg.input_idx,
            pos_scale=cfg.pos_scale,
            vel_scale=cfg.vel_scale,
            torque_scale=cfg.torque_scale,
            check_sample_dt=False,
        )


class ActuatorNetLSTM(DCMotor):
    """A recurrent network, limited by the envelope of a DC motor at the joint's real velocity."""

    def _controller(self) -> Controller:
        return ControllerNeuralLSTM(self.cfg.network_file, check_sample_dt=False)
