# SPDX-License-Identifier: Apache-2.0
"""`Motors`: the motors of a robot on plain arrays, for any simulator.

``effort = motors.step(q, qd, target, dt)`` takes arrays of any framework and returns a new one of the same kind. The
memory of the motors (delayed commands, integrals, temperatures) is kept here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.builder import ActuatorBuilder
from ..actuator.config import EXPLICIT, IMPLICIT, ActuatorConfig, Part
from ..actuator.state import read_arrays, write_arrays
from ..actuator.trials import Conditions, at_rest
from ..arrays import is_read_only, require_detached
from ..components.controllers.pd import PDControlConfig
from ..components.delay_time import DelayTime
from ..components.effects.friction import EffectFriction, FrictionEffectConfig
from ..components.transmissions.gear import GearTransmissionConfig, TransmissionGear, loses
from ..errors import (
    ArrayError,
    ArrayTypeError,
    MissingArrayError,
    ParameterError,
    RobotFileError,
    StructureError,
    listed,
    located,
    shown,
)
from ..motor_source import FILES, configs_of, named_motor, read_entries
from ..motors.catalogue import CatalogueMotor
from ..motors.datasheet import MotorDatasheet
from ..motors.unmodelled import warn_of_unmodelled
from ..sim.ids import ids_to_reset
from ..typing import Array, ArrayLike, DeviceLike, IdsLike, PathLike
from .chain_set import COMPUTED, ChainSet, signal_attr
from .fitted_motors import DrawnMotors
from .groups.randomisation import Distribution
from .random_motors import randomize
from .solved_by_engine import at_joints, stages_with_ratios
from .telemetry import Telemetry, make_telemetry, trip_log

_FULL_EFFORT = 0.5
"""Distance from the target [rad] at which default gains request the motor's full effort."""
_DAMPING = 0.1237
"""Braking effort at 1 rad/s with default gains, as a share of the full effort: a damping ratio of 0.5 for a pendulum of
0.25 m that needs 30 % of the full effort to hold it level."""
_ANY_DT = 1e6
"""Upper bound of time steps [s]."""
_NOT_CHECKED = float("nan")
_OWN_CONTROLLERS = "controller: is for a motor alone; the actuators of this source have their own"
_NUMPY_FLOATS = tuple(np.dtype(kind) for kind in (np.float16, np.float32, np.float64))
_WARP_FLOATS = (wp.float16, wp.bfloat16, wp.float32, wp.float64)
_LABELS = {
    "joint_q": "q",
    "joint_qd": "qd",
    "joint_target_q": "target",
    "joint_target_qd": "target_qd",
    "joint_act": "feedforward",
}
"""Arguments of `Motors.step`, by their names in actuators."""

_Array = TypeVar("_Array", bound=Array)

_log = logging.getLogger("actuon.actuators")


@dataclass(frozen=True)
class JointFriction:
    """Friction of joints for the simulator; arrays of shape (N, J), or (J,) for one robot."""

    dry: np.ndarray
    """Dry friction of the joint [N·m or N]."""
    viscous: np.ndarray
    """Friction proportional to speed [N·m·s/rad or N·s/m]."""


class Motors:
    """Motors of one robot, or of many robots of a kind, on arrays of any framework.

    Args:
        source: An ``actuon.yaml``; a USD file with actuators; a robot's file with a YAML next to it; the name of a
            catalogue motor, or its data sheet; an `ActuatorConfig` for all joints; or a mapping of joints to configs.
        joints: Names of the joints, in the order of the arrays. Default: the keys of a mapping.
        num_envs: Number of robots.
        controller: Controller of a motor from the catalogue or a data sheet. Default: a PD controller that requests the
            motor's full effort 0.5 rad from its target; its gains are logged.
        inertia: Inertia that moves with each joint, without the rotor's [kg·m² or kg]: one number, or one per joint.
            If given, the motors apply their own friction, and losses of gears as friction; otherwise the simulator
            must apply friction (`friction`), and losses fade to zero at rest.
        device: Where the motors run. Default: Warp's current device.
        allow_unsafe_torch_checkpoints: Let a file name ``.pt`` and ``.pt2`` networks, which can run code when loaded.

    Raises:
        RobotFileError: The source is neither a file nor a motor, or has no actuator for a joint.

    Examples:
        >>> motors = actuon.Motors(actuon.assets.arm_yaml, joints=["joint1", "joint2"])
        >>> effort = motors.step(np.zeros(2), np.zeros(2), target=[0.1, 1.0], dt=0.002)
        >>> print(effort)  # the second joint requests 600 N·m
        [60. 87.]

        >>> pd = actuon.PDControlConfig(kp=40.0, kd=1.0)
        >>> actuon.Motors("ak80-9", ["hip", "knee"], num_envs=64, controller=pd).armature.shape
        (64, 2)
    """

    def __init__(
        self,
        source: PathLike | ActuatorConfig | MotorDatasheet | CatalogueMotor | Mapping[str, ActuatorConfig],
        joints: Iterable[str] | None = None,
        num_envs: int = 1,
        *,
        controller: Part | None = None,
        inertia: ArrayLike | None = None,
        device: DeviceLike = None,
        allow_unsafe_torch_checkpoints: bool = False,
    ):
        if isinstance(num_envs, bool) or not isinstance(num_envs, (int, np.integer)) or num_envs < 1:
            raise ParameterError(f"num_envs: got {shown(num_envs)}; must be a whole number ≥ 1")
        names = _joint_names(source, joints)
        configs = open_configs(source, names, controller, allow_unsafe_torch_checkpoints)
        warn_of_unmodelled(configs)
        self.joint_names = tuple(names)
        """Names of the joints, in the order of the arrays."""
        self.num_envs = int(num_envs)
        """Number of robots."""
        self.configs = {name: config.copy() for name, config in zip(names, configs, strict=True)}
        """Config of each joint. Changing one has no effect."""
        self._shape = self.num_envs, len(names)
        self._shapes = (self._shape[1:], self._shape) if self.num_envs == 1 else (self._shape,)
        self._device = wp.get_device(device)
        self._inertia = inertia
        self.actuators, self._in_simulator = self._build(inertia is not None)
        if inertia is not None:
            self._write_inertia(inertia)
        self._make_arrays()
        self._report_simulator_side()

    def _build(self, applies_friction: bool) -> tuple[list[Actuator], list[bool]]:
        """Return an actuator per combination of stages, and whether the simulator solves the friction of each."""
        builders = {in_simulator: ActuatorBuilder() for in_simulator in (False, True)}
        for column, (name, config) in enumerate(self.configs.items()):
            if config.effort_mode == IMPLICIT:
                raise StructureError(
                    f"joint '{name}': got effort_mode '{IMPLICIT}', which needs an engine; must be '{EXPLICIT}'"
                )
            config = _with_inertia(config) if applies_friction else config
            with located(f"joint '{name}'"):
                builders[_needs_inertia(config)].add(config, np.arange(self.num_envs) * self._shape[1] + column)
        options: dict[str, Any] = {"control_computed_output_attr": COMPUTED, "control_signal_attrs": signal_attr}
        built = {
            in_simulator: builder.finalize(
                self._device, accumulate=False, in_engine=in_simulator, losses_in_engine=False, **options
            )
            for in_simulator, builder in builders.items()
        }
        return [*built[False], *built[True]], [False] * len(built[False]) + [True] * len(built[True])

    def _write_inertia(self, inertia: ArrayLike) -> None:
        """Write the inertia of joint and rotor to friction stages, reflected to the place of each."""
        try:
            joints = np.broadcast_to(np.asarray(inertia, np.float64), self._shape).ravel()
        except (TypeError, ValueError) as error:
            raise ParameterError(f"inertia: got {shown(inertia)}; must be one number, or one per joint") from error
        if not ((joints > 0.0) & np.isfinite(joints)).all():
            raise ParameterError(f"inertia: got {shown(inertia)}; must be > 0 and finite [kg·m² or kg]")
        configs = list(self.configs.values())
        for actuator in self.actuators:
            at = actuator.effort_indices.numpy()
            total = joints[at] + at_joints(actuator).inertia
            for position, (stage, ratio, varies) in enumerate(stages_with_ratios(actuator)):
                if not isinstance(stage, (EffectFriction, TransmissionGear)):
                    continue
                lacking = np.array([_lacks_inertia(configs[i].stages[position]) for i in at % len(configs)])
                if not lacking.any():
                    continue
                if ratio is None:
                    raise StructureError(
                        f"inertia: {type(stage).__name__} behind {varies} has a different one at each position; set "
                        "the inertia of its stage"
                    )
                held = stage.parameters()["inertia"]
                held.assign(np.where(lacking, total / ratio**2, held.numpy()).astype(np.float32))

    def _make_arrays(self) -> None:
        """Create the arrays of the actuators: flat, robot by robot."""
        size = math.prod(self._shape)
        given = ("joint_q", "joint_qd", "joint_target_q")
        self._chains = ChainSet(
            self.actuators,
            self.num_envs,
            self.joint_names,
            self._device,
            given={name: wp.zeros(size, dtype=wp.float32, device=self._device) for name in given},
            numbers=(np.arange(self.num_envs)[:, None], np.arange(size).reshape(self._shape)),
            shares_batteries=True,
        )
        self._arrays = self._chains.arrays
        takes = {name: stage for stage in self._chains.stages for name in stage.stage().custom_inputs}
        self._needed = {name: type(s).__name__ for name, s in takes.items() if name not in s.OPTIONAL_INPUTS}
        self._custom_inputs = tuple(takes)
        self._rows = {name: self._host(name) for name in self._arrays}
        self._tensors: dict[str, Any] = {}
        self._nonzero: set[str] = set()
        self._dt: float | None = None
        """Time step of the last step [s]; None before the first, and if none was given."""
        self._checked_dt: float | None = _NOT_CHECKED
        """Time step [s] that all stages accept."""
        self._friction_is_current = False
        """Whether the arrays of friction match the present parameters."""
        robots = [f"robot {i}" for i in range(self.num_envs)] if self.num_envs > 1 else None
        self._trips = trip_log(self._chains, robots)

    def _host(self, name: str) -> np.ndarray:
        """Return an array as NumPy, shape (N, J): a view on the CPU, a copy from a GPU."""
        return self._arrays[name].numpy().reshape(self._shape)

    def step(
        self,
        q: _Array,
        qd: ArrayLike,
        target: ArrayLike,
        dt: float | None = None,
        *,
        target_qd: ArrayLike | None = None,
        feedforward: ArrayLike | None = None,
        out: Array | None = None,
        **inputs: ArrayLike,
    ) -> _Array:
        """Return the effort of each joint [N·m or N], and advance the motors' memory by one step.

        Arrays may be NumPy, PyTorch, JAX or Warp arrays of any float type and strides, of shape (N, J), or (J,) for one
        robot. They are never written.

        Args:
            q: Positions [rad or m].
            qd: Velocities [rad/s or m/s].
            target: Target positions [rad or m]; here and below, a single number applies to all joints.
            dt: Time step [s]. Required by stages that depend on time, such as a delay in seconds.
            target_qd: Target velocities [rad/s or m/s]. Default: 0.
            feedforward: Efforts added by the controller [N·m or N]. Default: 0.
            out: Array to write the efforts to and return. Default: a new array with the framework, dtype and device of
                ``q``.
            inputs: Further inputs of stages, by name, such as ``joint_load`` [N·m]. See `custom_inputs`.

        Raises:
            ArrayError: An array has a wrong shape, or is a tensor that requires grad: see `actuon.torch`.
            MissingArrayError: A network needs an input that was not given.

        Examples:
            >>> motors = actuon.Motors(actuon.assets.arm_yaml, ["joint1", "joint2"], num_envs=3)
            >>> q = qd = np.zeros((3, 2))
            >>> motors.step(q, qd, target=0.01, dt=0.002, feedforward=np.tile([5.0, -5.0], (3, 1)))
            array([[11.,  1.],
                   [11.,  1.],
                   [11.,  1.]])
        """
        if self._device.is_capturing:
            raise StructureError(
                "Motors.step copies its arrays, so replays of a graph would not see new values; capture steps of "
                "motors.actuators instead"
            )
        if out is not None:
            self._check_out(out)
        if q is None or qd is None or target is None:
            missing = "q" if q is None else "qd" if qd is None else "target"
            raise MissingArrayError(f"{missing}: got None; must be an array, for {self._describe()}")
        given = {"joint_q": q, "joint_target_q": target, "joint_target_qd": target_qd, "joint_act": feedforward}
        if inputs or self._custom_inputs:
            given |= self._further(inputs)
        given["joint_qd"] = qd  # last, for telemetry: it stays where another one is refused
        for name, value in given.items():
            self._put(name, value)
        self._check_dt(dt)
        self._chains.step(self._arrays, self._arrays, dt)
        self._dt, self._friction_is_current = dt, True
        if self._trips is not None and self._device.is_cpu:  # a look at each step would wait for a GPU
            self._trips.look()
        efforts: _Array = self._efforts(q, out)
        return efforts

    def _check_dt(self, dt: float | None) -> None:
        """Raise an error for a time step that a stage cannot take, before any stage takes it."""
        if dt is not self._checked_dt and dt != self._checked_dt:
            for actuator in self.actuators:
                actuator.check_dt(dt)
            self._checked_dt = dt

    def _further(self, inputs: Mapping[str, ArrayLike]) -> dict[str, ArrayLike | None]:
        """Return all further inputs by name; None for optional ones that were not given."""
        for name in inputs:
            if name not in self._custom_inputs:
                known = ("target_qd", "feedforward", *self._custom_inputs)
                raise ParameterError(f"step: no stage takes an input '{name}'; {listed(name, known, 'inputs')}")
        for name, asking in self._needed.items():
            if name not in inputs:
                raise MissingArrayError(f"step: {asking} needs an input '{name}'; pass {name}=, of shape {self._shape}")
        return {name: inputs.get(name) for name in self._custom_inputs}

    def _put(self, name: str, value: Any) -> None:
        """Copy an argument into the array that kernels read."""
        rows = self._rows[name]
        if value is None:
            if name not in self._nonzero:
                return
            rows.fill(0.0)
            self._nonzero.discard(name)
        else:
            if type(value) is not np.ndarray:
                label = _LABELS.get(name, name)
                require_detached(value, label)
                if not _is_tensor(value):
                    value = _to_numpy(value, label)
                elif self._device.is_cpu:
                    value = _tensor_to_numpy(value, label)
                else:
                    self._check_shape(name, tuple(value.shape))
                    self._tensor(name).copy_(value.detach())
                    self._nonzero.add(name)
                    return
            if value.shape not in self._shapes:
                self._check_shape(name, value.shape)
            try:
                np.copyto(rows, value, casting="same_kind")
            except TypeError as error:
                label = _LABELS.get(name, name)
                raise ArrayTypeError(f"{label}: got dtype {value.dtype}; must be real numbers") from error
            self._nonzero.add(name)
        if not self._device.is_cpu:
            self._arrays[name].assign(rows.ravel())

    def _check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        is_state = name in ("joint_q", "joint_qd")
        if shape in self._shapes or (shape == () and not is_state):
            return
        allowed = " or ".join(map(str, self._shapes)) + ("" if is_state else ", or one number")
        raise ArrayError(f"{_LABELS.get(name, name)}: got shape {shape}; must be {allowed}, for {self._describe()}")

    def _describe(self) -> str:
        robots = f"{self.num_envs} robots" if self.num_envs > 1 else "one robot"
        return f"{robots} with the joints {', '.join(self.joint_names)}"

    def _tensor(self, name: str) -> Any:
        """Return an array on a GPU as a PyTorch tensor with the same memory, shape (N, J)."""
        if name not in self._tensors:
            with sys.modules["torch"].inference_mode(False):  # it is written to in and outside of inference mode
                self._tensors[name] = wp.to_torch(self._arrays[name]).view(self._shape)
        return self._tensors[name]

    def _check_out(self, out: Any) -> None:
        if not isinstance(out, (np.ndarray, wp.array)) and not _is_tensor(out):
            raise ArrayTypeError(f"out: got {type(out).__name__}; must be a writable NumPy, PyTorch or Warp array")
        if tuple(out.shape) not in self._shapes:
            allowed = " or ".join(map(str, self._shapes))
            raise ArrayError(f"out: got shape {tuple(out.shape)}; must be {allowed}, for {self._describe()}")
        require_detached(out, "out")
        if _is_tensor(out):
            is_float, is_writable = out.is_floating_point(), _is_spread_out(out)
        elif type(out) is np.ndarray:
            is_float, is_writable = out.dtype in _NUMPY_FLOATS, out.flags.writeable
        else:
            is_float, is_writable = out.dtype in (*_NUMPY_FLOATS, *_WARP_FLOATS), not is_read_only(out)
        if not is_float:
            raise ArrayTypeError(f"out: got dtype {_dtype_name(out.dtype)}; must be floats")
        if not is_writable:
            raise ArrayTypeError("out: got an array that is read-only, or whose entries share memory; pass another")

    def _efforts(self, q: Any, out: Any) -> Any:
        """Return the efforts of the last step, in ``out`` or in a new array like ``q``."""
        if _is_tensor(q if out is None else out):
            if self._device.is_cpu:
                return _to_tensor(self._rows["joint_f"], q, out)
            effort = self._tensor("joint_f")
            if out is not None:
                return out.copy_(effort.view(tuple(out.shape)))
            dtype = q.dtype if q.is_floating_point() else effort.dtype
            return effort.to(dtype=dtype, device=q.device, copy=True).view(tuple(q.shape))
        rows = self._rows["joint_f"] if self._device.is_cpu else self._host("joint_f")
        if isinstance(out, np.ndarray):
            np.copyto(out, rows.reshape(out.shape), casting="same_kind")
            return out
        if out is not None:
            out.assign(rows.reshape(out.shape))
            return out
        return _like(q, rows)

    def reset(self, env_ids: IdsLike = None) -> None:
        """Clear the memory of robots: delayed commands, integrals, temperatures, hidden states.

        Args:
            env_ids: Which robots: whole numbers, a slice, or a mask. Default: all.

        Examples:
            >>> motors = actuon.Motors(actuon.assets.arm_yaml, ["joint1"], num_envs=2)
            >>> q = qd = np.zeros((2, 1))
            >>> _ = motors.step(q, qd, target=0.1, dt=0.002)
            >>> motors.reset(env_ids=[1])
            >>> motors.step(q, qd, target=0.0, dt=0.002)  # robot 0 still gets its delayed target
            array([[60.],
                   [ 0.]])
        """
        self._chains.reset(ids_to_reset("env_ids", env_ids, self.num_envs))

    def save(self, path: PathLike) -> None:
        """Write the memory and the parameters of the motors to a file.

        Args:
            path: An ``.npz`` file, written whole or not at all.

        Raises:
            StateError: The memory of a motor has NaN, because a joint diverged.

        Examples:
            >>> motors, same = (actuon.Motors(actuon.assets.arm_yaml, ["joint1"]) for _ in range(2))
            >>> first = motors.step(np.zeros(1), np.zeros(1), target=0.05, dt=0.002)
            >>> motors.save("motors.npz")
            >>> same.load("motors.npz")
            >>> same.step(np.zeros(1), np.zeros(1), target=0.0, dt=0.002)  # follows the delayed target
            array([30.])
        """
        write_arrays(path, self._chains.saved(labels=self._labels()))

    def _labels(self) -> list[str]:
        """Return the label of each actuator in a file."""
        return [", ".join(type(stage).__name__ for stage in actuator.stages) for actuator in self.actuators]

    def load(self, path: PathLike) -> None:
        """Load a file of `save`. The steps after it repeat bit for bit.

        Args:
            path: A file of motors with the same joints and stages, for as many robots.

        Raises:
            StateError: The file cannot be read, or is from other motors; the error describes the difference. Nothing is
                changed.

        Examples:
            >>> motors = actuon.Motors(actuon.assets.arm_yaml, ["joint1"])
            >>> motors.randomize({"controller.kp": actuon.lab.Uniform(0.5, 0.5)})
            >>> motors.save("motors.npz")
            >>> same = actuon.Motors(actuon.assets.arm_yaml, ["joint1"])
            >>> same.load("motors.npz")
            >>> same.actuators[0].controller.kp.numpy()
            array([300.], dtype=float32)
        """
        self._take(f"'{path}'", read_arrays(path, "the state of motors"))

    def _take(self, where: str, contents: Mapping[str, np.ndarray]) -> None:
        """Load memory and parameters, all or none."""
        self._chains.checked(where, contents, self._dt, labels=self._labels())()
        self._parameters_changed()

    def _parameters_changed(self) -> None:
        self._checked_dt, self._friction_is_current = _NOT_CHECKED, False

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce motors for copies and pickles, with their memory and parameters."""
        shown = {name: array.numpy() for name, array in self._arrays.items()}
        contents = self._chains.saved(labels=self._labels())
        memory = contents, shown, self._nonzero, self._dt, self._friction_is_current
        return _copied, (type(self), self.configs, self.num_envs, self._inertia, str(self._device), memory)

    def _restore(self, memory: tuple[Any, ...]) -> None:
        """Load the memory from `__reduce__`."""
        contents, shown, nonzero, self._dt, is_current = memory
        self._take("copied motors", contents)
        for name, values in shown.items():
            self._arrays[name].assign(values)
        self._nonzero, self._friction_is_current = set(nonzero), is_current

    def randomize(
        self,
        parameters: Mapping[str, Distribution] | None = None,
        *,
        from_fit: PathLike | None = None,
        joints: Iterable[str] | Mapping[str, str] | None = None,
        env_ids: IdsLike = None,
        seed: int | Sequence[np.random.Generator] | None = None,
    ) -> DrawnMotors | None:
        """Draw parameters for each joint of each robot.

        Args:
            parameters: Distributions by path of the parameter, such as ``{"controller.kp": actuon.lab.Uniform(0.8,
                1.2)}``. Scaling and adding start from the values that the motors were built with. Joints without the
                parameter keep their values.
            from_fit: A ``fleet.yaml``, or the ``actuon.yaml`` of a fit, to draw whole motors from instead.
            joints: Regular expressions of joints. Default: all. With ``from_fit``, a mapping of these to the joint of
                the file that each is drawn from; default: all, by their names.
            env_ids: Which robots: whole numbers, a slice, or a mask. Default: all.
            seed: Seed of the draw; or, for distributions, a generator for each of these robots, so that its values do
                not depend on the others. Default: a different draw each time.

        Returns:
            With ``from_fit``, which motor each joint was drawn around.

        Raises:
            ParameterError: No motor has this parameter, or a drawn value is not allowed. Nothing is changed then.
            RobotFileError: The file cannot be read, or lacks a joint.

        Examples:
            >>> motors = actuon.Motors(actuon.assets.arm_yaml, ["joint1", "joint2"], num_envs=16)
            >>> stiffness = {"controller.kp": actuon.lab.Uniform(0.8, 1.2)}
            >>> motors.randomize(stiffness, joints="joint2", seed=0)
            >>> gains = motors.actuators[0].controller.kp.numpy().reshape(16, 2)
            >>> gains.std(axis=0) > 0.0
            array([False,  True])
        """
        # before the first step, a delay may have any length; a step that is too short for it raises an error
        dt = _ANY_DT if self._dt is None else self._dt
        drawn, _ = randomize(self._chains, dt, self.joint_names, parameters, from_fit, joints, env_ids, seed)
        self._parameters_changed()
        return drawn

    def telemetry(self) -> Telemetry:
        """Return requested, applied and clipped efforts of the last step, and the signals of stages.

        Examples:
            >>> motors = actuon.Motors(actuon.assets.arm_yaml, ["joint1", "joint2"])
            >>> _ = motors.step(np.zeros(2), np.zeros(2), target=[0.1, 1.0], dt=0.002)
            >>> telemetry = motors.telemetry()
            >>> telemetry.computed_effort, telemetry.limited_by
            (array([[ 60., 600.]], dtype=float32), array([['', 'ClampingMaxEffort']], dtype=object))
        """
        if self._trips is not None and not self._device.is_cpu:
            self._trips.look()
        velocity, computed, applied = (self._host(name).copy() for name in ("joint_qd", COMPUTED, "joint_f"))
        return make_telemetry(self._chains, velocity, computed, applied, None)

    @property
    def armature(self) -> np.ndarray:
        """Rotor inertia at the joints, to set in the simulator [kg·m² or kg]; shape (N, J), or (J,) for one robot."""
        return self._chains.inertia().reshape(self._shapes[0])

    @property
    def friction(self) -> JointFriction:
        """Friction of the joints at the last step, to set in the simulator; zero if the motors apply it."""
        with contextlib.nullcontext() if self._friction_is_current else self._scratch_step(None):
            total = {signal: np.zeros(math.prod(self._shape)) for signal in ("dry_friction", "viscous_friction")}
            for i, in_simulator in enumerate(self._in_simulator):
                at = self._chains.places[i]
                for signal in set(total).intersection(self.actuators[i].control_signal_attrs if in_simulator else ()):
                    total[signal][at] = self._chains.signals[signal].numpy().ravel()[at]
        return JointFriction(*(values.reshape(self._shapes[0]) for values in total.values()))

    def compile(self, dt: float | None = None) -> None:
        """Compile the kernels before the first step, which does so otherwise.

        Args:
            dt: A time step that all stages accept [s]. Default: that of the last step, or any.

        Examples:
            >>> motors = actuon.Motors(actuon.assets.arm_yaml, ["joint1"])
            >>> motors.compile(dt=0.002)  # steps are fast from the first one on
        """
        with self._scratch_step(dt):
            pass

    @contextlib.contextmanager
    def _scratch_step(self, dt: float | None) -> Iterator[None]:
        """Step from a fresh state, and restore all arrays at the end.

        Args:
            dt: Time step [s]. Default: one that all stages accept.
        """
        dt = possible_dt(self.actuators, self._dt) if dt is None else dt
        kept = {name: array.numpy().copy() for name, array in self._arrays.items()}
        try:
            self._check_dt(dt)
            self._chains.try_step(self._arrays, self._arrays, dt)
            yield
        finally:
            for name, values in kept.items():
                self._arrays[name].assign(values)

    @property
    def custom_inputs(self) -> tuple[str, ...]:
        """Names of the further inputs of stages."""
        return self._custom_inputs

    def _report_simulator_side(self) -> None:
        """Log the joints whose rotor inertia or friction belongs into the simulator."""
        rotors = self.armature.reshape(self._shape).any(axis=0)
        lacking = [name for name, config in self.configs.items() if any(self._in_simulator) and _needs_inertia(config)]
        report_simulator_side(
            "motors",
            ", ".join(np.array(self.joint_names)[rotors]),
            ", ".join(lacking),
            "inertia= lets the motors apply it",
        )

    def __repr__(self) -> str:
        chains = f"{len(self.actuators)} kernel{'s' * (len(self.actuators) != 1)}"
        return f"<Motors of {self._describe()}: {chains} on {self._device}>"


def actuator_with(motor: MotorDatasheet, controller: Part | None = None) -> ActuatorConfig:
    """Return an actuator with a motor behind a controller.

    Args:
        motor: Its data sheet.
        controller: Default: a PD controller that requests the motor's full effort 0.5 rad from its target.
    """
    if controller is not None:
        return motor.actuator(controller)
    most = at_rest(motor.actuator(PDControlConfig(0.0, 0.0)), Conditions()) or 1.0
    return motor.actuator(PDControlConfig(float(f"{most / _FULL_EFFORT:.2g}"), float(f"{most * _DAMPING:.2g}")))


def possible_dt(actuators: Iterable[Actuator], last: float | None) -> float:
    """Return a time step that delays and networks accept [s].

    Args:
        actuators: Their actuators.
        last: Time step of the last step [s], which is returned if delays accept it; None before the first.
    """
    shortest, trained_at = 0.0, 0.005
    for actuator in actuators:
        for stage in actuator.stages:
            if isinstance(stage, DelayTime):
                shortest = max(shortest, stage.shortest_step)
            sample_dt: float | None = getattr(stage, "sample_dt", None)
            if sample_dt:
                trained_at = sample_dt / actuator.control_every
    return max(shortest, trained_at if last is None else last)


def report_simulator_side(owner: str, rotors: str, friction: str, remedy: str) -> None:
    """Log rotor inertia and friction that belong into the simulator.

    Args:
        owner: Name of the object with ``armature`` and ``friction``.
        rotors: Joints whose motors have rotor inertia; empty if none has.
        friction: Joints whose friction the motors do not apply; empty if they apply all.
        remedy: Way to let the motors apply it.
    """
    found = [f"rotor inertia of {rotors} ({owner}.armature)"] if rotors else []
    found += [f"friction of {friction} ({owner}.friction; {remedy})"] if friction else []
    if found:
        _log.warning("the simulator should hold the %s", " and the ".join(found))


def _copied(
    kind: type[Motors],
    configs: dict[str, ActuatorConfig],
    num_envs: int,
    inertia: ArrayLike | None,
    device: str,
    memory: tuple[Any, ...],
) -> Motors:
    """Return copied motors."""
    motors = kind(configs, num_envs=num_envs, inertia=inertia, device=device)
    motors._restore(memory)
    return motors


def _joint_names(source: Any, joints: Iterable[str] | None) -> list[str]:
    if joints is None and isinstance(source, Mapping):
        joints = list(source)
    names = list(joints) if isinstance(joints, Iterable) and not isinstance(joints, str) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise StructureError(f"joints: got {shown(joints)}; must be a list of names, in the order of the arrays")
    if not names:
        raise StructureError("joints: got no names; must be one or more")
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise StructureError(f"joints: got '{twice[0]}' twice; a joint has one motor")
    return [str(name) for name in names]


def is_by_joint(source: Any) -> bool:
    """Return whether a ``source`` of `Motors` is a file or a mapping, with an actuator for each joint."""
    return not isinstance(source, ActuatorConfig) and _motor(source) is None


def configs_of_robot(
    source: Any, names: list[str], controller: Part | None, allow_torch: bool
) -> dict[str, ActuatorConfig]:
    """Return the actuators of ``source`` for joints of a robot that have one. See `Motors`."""
    if is_by_joint(source) and not isinstance(source, Mapping):
        if controller is not None:
            raise StructureError(_OWN_CONTROLLERS)
        known, patterns = _read(Path(source), names, allow_torch)
        if not known:
            raise RobotFileError(
                f"{source}: has no actuator for a joint of the robot; {listed('', patterns, 'joints')}"
            )
        return {name: known[name] for name in names if name in known}
    if isinstance(source, Mapping):
        for name in source:
            if name not in names:
                raise StructureError(f"there is no joint '{name}'; {listed(str(name), names, 'joints')}")
        names = list(source)
    return dict(zip(names, open_configs(source, names, controller, allow_torch), strict=True))


def open_configs(source: Any, names: list[str], controller: Part | None, allow_torch: bool) -> list[ActuatorConfig]:
    """Return the actuator of each joint, from any ``source`` of `Motors`."""
    motor = _motor(source)
    if motor is not None:
        config = actuator_with(motor, controller)
        if controller is None:
            _log.warning("no controller= is given; using %s", config.controller)
        return [config] * len(names)
    if controller is not None:
        raise StructureError(_OWN_CONTROLLERS)
    if isinstance(source, ActuatorConfig):
        return [source] * len(names)
    if isinstance(source, Mapping):
        found, known, where = source, list(source), "source"
    else:
        where = str(source)
        found, known = _read(Path(source), names, allow_torch)
    for name in names:
        if name not in found:
            raise RobotFileError(
                f"{where}: has no actuator for joint '{name}'; leave it out of joints= if it has no motor; "
                f"{listed(name, known, 'joints that have one')}"
            )
        if not isinstance(found[name], ActuatorConfig):
            raise StructureError(f"source['{name}']: got {type(found[name]).__name__}; must be an ActuatorConfig")
    return [found[name] for name in names]


def _motor(source: Any) -> MotorDatasheet | None:
    """Return the motor that ``source`` is or names; None for other sources."""
    if isinstance(source, (ActuatorConfig, Mapping)):
        return None
    if isinstance(source, (MotorDatasheet, CatalogueMotor)):
        return source.datasheet if isinstance(source, CatalogueMotor) else source
    if not isinstance(source, (str, os.PathLike)):
        raise StructureError(
            f"source: got {type(source).__name__}; must be a file ({', '.join(FILES)}), the name of a motor, a data "
            "sheet, an ActuatorConfig, or a mapping of joints to configs"
        )
    motor = named_motor(source)
    return None if motor is None else motor.datasheet


def _read(path: Path, names: list[str], allow_torch: bool) -> tuple[dict[str, ActuatorConfig], list[str]]:
    """Return the actuators of a file, by joint, and all names and regular expressions in it."""
    entries = read_entries(path, allow_torch)
    return configs_of(path, entries, names, partial=True), [pattern for entry in entries for pattern in entry.joints]


def _needs_inertia(config: ActuatorConfig) -> bool:
    """Return whether an actuator has friction that it cannot apply."""
    return any(isinstance(part, FrictionEffectConfig) and _lacks_inertia(part) for part in config.stages)


def _lacks_inertia(part: Part) -> bool:
    """Return whether a stage is friction, or a gear with losses, without ``inertia``."""
    rubs = isinstance(part, FrictionEffectConfig)
    rubs = rubs or (isinstance(part, GearTransmissionConfig) and bool(loses(part.arguments())))
    return rubs and part.inertia is None  # type: ignore[union-attr]


def _with_inertia(config: ActuatorConfig) -> ActuatorConfig:
    """Return the actuator with a placeholder inertia in each stage that lacks one, overwritten after it is built."""
    return config.with_stages(
        [
            dataclasses.replace(part, inertia=1.0) if _lacks_inertia(part) else part  # type: ignore[type-var]
            for part in config.stages
        ]
    )


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _tensor_to_numpy(value: Any, label: str) -> np.ndarray:
    """Return a PyTorch tensor as a NumPy array, with the same memory if possible."""
    try:
        array: np.ndarray = value.numpy()
    except (RuntimeError, TypeError):  # under no_grad, on a GPU, or of a float that NumPy does not know
        try:
            torch = sys.modules["torch"]
            array = (value.float() if value.dtype is torch.bfloat16 else value).numpy(force=True)
        except (RuntimeError, TypeError) as error:  # sparse, or without data
            raise ArrayTypeError(f"{label}: got a tensor that NumPy cannot read: {error}") from error
    return array


def _to_tensor(efforts: np.ndarray, q: Any, out: Any) -> Any:
    """Return the efforts in ``out``, or in a new tensor like ``q``; float32 if ``q`` has no floats."""
    torch = sys.modules["torch"]
    if out is not None:
        return out.copy_(torch.from_numpy(efforts.reshape(out.shape)))
    new = torch.from_numpy(efforts.reshape(q.shape).astype(np.float64 if q.dtype is torch.float64 else np.float32))
    return new.to(q.device, q.dtype if q.is_floating_point() else new.dtype)


def _is_spread_out(tensor: Any) -> bool:
    """Return whether entries of a tensor share no memory, unlike those of ``tensor.expand()``."""
    return all(stride or size == 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))


def _to_numpy(value: Any, label: str) -> np.ndarray:
    """Return an argument that is neither a NumPy array nor a tensor as a NumPy array."""
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.core.Tracer):
        raise ArrayTypeError(f"{label}: got a JAX tracer; call Motors.step outside of jit, grad and vmap")
    try:
        array: np.ndarray = _warp_to_numpy(value) if isinstance(value, wp.array) else np.asarray(value)
        if array.dtype.kind == "O":
            raise TypeError("its entries are objects")
        return array
    except Exception as error:  # ragged lists, and whatever another framework raises
        got = type(value).__name__
        raise ArrayTypeError(f"{label}: got {got}, which is not an array of real numbers: {error}") from error


def _warp_to_numpy(value: wp.array) -> np.ndarray:
    array: np.ndarray = value.numpy()
    if array.shape != value.shape:
        raise TypeError(f"its entries are {_dtype_name(value.dtype)}")
    if value.dtype is wp.bfloat16:  # which NumPy knows as such where ml_dtypes is installed only
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array


def _like(q: Any, efforts: np.ndarray) -> Any:
    """Return a new array with the framework, shape, dtype and device of ``q``, which is not a tensor; float32 if ``q``
    has no floats."""
    if isinstance(q, wp.array):
        dtype = q.dtype if q.dtype in _WARP_FLOATS else wp.float32
        return wp.array(efforts.reshape(q.shape), dtype=dtype, device=q.device, copy=True)
    dtype = getattr(q, "dtype", None)
    # "V" is the kind of the short floats of JAX
    is_float = isinstance(dtype, np.dtype) and dtype.kind in "fV" and dtype.names is None
    numbers = efforts.astype(dtype if is_float else np.float32).reshape(np.shape(q))
    return sys.modules["jax"].device_put(numbers, q.sharding) if hasattr(q, "sharding") else numbers


def _dtype_name(dtype: Any) -> str:
    return getattr(dtype, "__name__", str(dtype))
