# SPDX-License-Identifier: Apache-2.0
"""Motors in anybody's MuJoCo loop: `load` returns a plain ``MjModel`` that moves with them.

From there on ``mj_step``, ``mujoco.viewer``, ``mujoco.rollout``, ``mujoco.batch`` and ``mujoco.sysid`` need no further
code. ``ctrl`` of a joint's servo stays its target, its force is what the motor gives, and what the motors remember lies
in ``act``.
"""

from __future__ import annotations

import ctypes
import logging
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.builder import ActuatorBuilder
from ..actuator.config import AUTO, EXPLICIT, IMPLICIT, ActuatorConfig, Part
from ..components.effects.noise import EffectNoise
from ..components.limits.battery import ClampingBattery
from ..errors import MissingExtraError, RobotFileError, SimulationError, StructureError, listed, located
from ..kernel.chain import HELD, TANGENT
from ..kernel.launch import CCall
from ..sim.mujoco.actuators import Actuators
from ..sim.mujoco.c_code import MOST_BYTES
from ..sim.mujoco.callback import CELLS, Call, Draw, Joint, Robot, Words, door
from ..sim.mujoco.friction import SEARCHES, SOFTNESS
from ..sim.mujoco.model import read_spec
from ..sim.mujoco.tangents import INTEGRATOR_CHANGED, LONGEST_FAST
from ..typing import ArrayLike
from .attachment import signal_attr
from .engine_inertia import inertia_at_joints
from .motors import configs_of_robot
from .tangent_mode import COMPUTED, TANGENT_ATTRS, check_slopes
from .telemetry import Telemetry, make_telemetry

_MARK = "actuon_"
"""How names of text elements begin that mark a model."""
_SAID = "Moves with motors of Actuon (actuon.mujoco.load). In a process that has not loaded them, joints are limp."
_INPUTS = ("velocity", "feedforward")
_UNIT_GEAR = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
_DRY, _VISCOUS = "dry_friction", "viscous_friction"
_SLIGHTEST = 1e-6
"""Dry friction [N·m or N] that a joint has at least, so that MuJoCo makes a row for it."""

_log = logging.getLogger("actuon.actuators")


def load(
    model: Any,
    actuators: Any = None,
    *,
    joints: Iterable[str] | None = None,
    inputs: Sequence[str] = (),
    controller: Part | None = None,
    allow_unsafe_torch_checkpoints: bool = False,
) -> Any:
    """Return a ``mujoco.MjModel`` whose joints are driven by motors, in any loop around ``mj_step``.

    ``ctrl`` of a joint's servo stays its target, clipped to its ``ctrlrange``. A joint without a servo gets an actuator
    of its name, whose ``ctrl`` is its target [rad or m]; its motors in the model are switched off. Joints without an
    actuator of ours keep what they have. The inertia of rotors becomes the armature of joints, friction of motors
    replaces that of the model.

    Args:
        model: Path of an ``.xml`` or ``.urdf`` file, MJCF as text, or an ``MjSpec``, which is copied.
        actuators: As for `Motors`: an ``actuon.yaml``, the name of a motor, a config for all joints, or a mapping of
            joints to configs. Default: the YAML beside the model's file.
        joints: Names of the joints that a config or motor drives. Default: all hinge and slide joints.
        inputs: Controls that joints get beside their target: ``"velocity"`` [rad/s or m/s], named
            ``<joint>_velocity``, where the model has no velocity servo, and ``"feedforward"`` [N·m or N], named
            ``<joint>_feedforward``.
        controller: Controller in front of a motor from the catalogue.
        allow_unsafe_torch_checkpoints: Let a file name ``.pt`` and ``.pt2`` networks, which can run code when loaded.

    Raises:
        RobotFileError: A file cannot be read, or has no actuator for a joint.
        StructureError: A chain cannot run there: it has kernels of its own, or takes inputs that MuJoCo has not.
    """
    mujoco = _import_mujoco()
    unknown = [name for name in inputs if name not in _INPUTS]
    if isinstance(inputs, str) or unknown:
        raise StructureError(f"inputs: got {inputs!r}; must be a list of {', '.join(map(repr, _INPUTS))}")
    spec, path = _spec_of(mujoco, model)
    try:
        plain = spec.compile()
    except ValueError as error:
        raise RobotFileError(f"the model cannot be compiled: {' '.join(str(error).split())}") from error
    if actuators is None:
        if path is None:
            raise StructureError("actuators: is needed for a model without a file")
        actuators = path
    known = _joint_names(mujoco, plain)
    names = known if joints is None else list(joints)
    for name in names:
        if name not in known:
            raise StructureError(f"joints: there is no joint '{name}'; {listed(str(name), known, 'joints')}")
    configs = configs_of_robot(actuators, names, controller, allow_unsafe_torch_checkpoints)
    drives = Actuators(plain)
    has_velocity = "velocity" in inputs or any(drives.velocity[plain.joint(name).dofadr[0]] >= 0 for name in configs)
    zeros = {"target_qd": has_velocity, "feedforward": "feedforward" in inputs}
    loaded = LoadedMotors(
        configs, float(plain.opt.timestep), {name for name, is_there in zeros.items() if not is_there}
    )
    made = _Preparation(mujoco, spec, plain, drives, loaded, frozenset(inputs)).compile()
    _loaded[loaded.mark] = loaded
    return made


def unload(model: Any) -> None:
    """Drive the joints of a model, and of its copies, no more. They are limp then."""
    loaded = _of(model)
    del _loaded[loaded.mark]
    loaded.close()


def telemetry(model: Any, data: Any) -> Telemetry:
    """Return what the motors give at the state and the controls that ``data`` has now, each of shape (1, joints).

    Nothing is changed. After ``mj_forward`` the efforts are those of ``data.actuator_force``.
    """
    loaded = _of(model)
    loaded.check()
    return loaded.telemetry(model, data)


def seed(model: Any, data: Any, number: int | ArrayLike = 0) -> None:
    """Let motors begin anew with the random numbers of trajectory ``number``, from the next step on.

    Without it, each trajectory that begins has the next number, so that all differ.

    Args:
        model: A model of `load`.
        data: Its ``MjData``, or states of ``mjSTATE_FULLPHYSICS`` of shape (n, size), as ``mujoco.rollout`` takes them,
            which are written.
        number: A whole number ≥ 0; for states, one or n of them.
    """
    mujoco = _import_mujoco()
    loaded = _of(model)
    numbers = np.asarray(number)
    if numbers.dtype.kind not in "iu" or (numbers < 0).any():
        raise StructureError(f"number: got {number!r}; must be a whole number ≥ 0, or one for each state")
    if isinstance(data, np.ndarray):
        before = mujoco.mjtState.mjSTATE_TIME | mujoco.mjtState.mjSTATE_QPOS | mujoco.mjtState.mjSTATE_QVEL
        start = mujoco.mj_stateSize(model, int(before))
        act = data[..., start : start + model.na]
    else:
        act = data.act
    act[..., loaded.word_at] = 0.0
    act[..., loaded.word_at[0]] = -(numbers.astype(np.float64) + 1.0)


def _import_mujoco() -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise MissingExtraError("mujoco", "mujoco", "motors in a MuJoCo loop") from error
    return mujoco


def _spec_of(mujoco: Any, model: Any) -> tuple[Any, Path | None]:
    """Return a copy of the spec that a model is made of, and its file."""
    if isinstance(model, mujoco.MjSpec):
        return model.copy(), None
    if isinstance(model, mujoco.MjModel):
        raise StructureError(
            "model: got a compiled MjModel, which has no room for motors; pass its file, its XML or its MjSpec"
        )
    if isinstance(model, str) and model.lstrip().startswith("<"):
        try:
            return mujoco.MjSpec.from_string(model), None
        except ValueError as error:
            raise RobotFileError(f"the XML cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(model, (str, Path)):
        raise StructureError(f"model: got {type(model).__name__}; must be a path, XML or an MjSpec")
    path = Path(model)
    if not path.exists():
        raise RobotFileError(f"'{path}' does not exist")
    try:
        return read_spec(path), path
    except ValueError as error:
        raise RobotFileError(f"'{path}' cannot be read: {' '.join(str(error).split())}") from error


def _joint_names(mujoco: Any, model: Any) -> list[str]:
    kinds = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    return [model.joint(i).name for i in range(model.njnt) if model.jnt_type[i] in kinds and model.joint(i).name]


_loaded: dict[str, LoadedMotors] = {}
"""Motors of all models that are loaded, by their marks."""


def _of(model: Any) -> LoadedMotors:
    mujoco = _import_mujoco()
    for i in range(model.ntext):
        found = _loaded.get(mujoco.mj_id2name(model, int(mujoco.mjtObj.mjOBJ_TEXT), i))
        if found is not None:
            return found
    raise SimulationError("the model has no motors that this process has loaded; make it with actuon.mujoco.load()")


@dataclass(frozen=True)
class _Word:
    """A part of what chains remember, in activations: see `callback.Words`."""

    base: int
    stride: int
    count: int
    is_int: bool
    is_twice: bool
    numbered: int
    initial: np.ndarray


class LoadedMotors:
    """The motors of a model, on spare cells.

    Args:
        configs: The actuator of each joint.
        dt: Time step [s].
        zeros: Signals that no control gives, and which are zero.
    """

    def __init__(self, configs: Mapping[str, ActuatorConfig], dt: float, zeros: Collection[str]):
        self._zeros = zeros
        self.mark = f"{_MARK}{uuid.uuid4().hex[:16]}"
        """Name of the text element of its models."""
        self.joints = list(configs)
        self.dt = dt
        self.is_implicit = [_is_implicit(name, config) for name, config in configs.items()]
        """Whether the effort of each joint is implicit."""
        self.actuators = self._build(configs)
        self._make_arrays()
        self.states = [actuator.state() for actuator in self.actuators]
        self.calls = [self._call(i) for i in range(len(self.actuators))]
        self.words = [word for i in range(len(self.actuators)) for word in self._words(i)]
        self.half = sum(word.count for word in self.words if word.is_twice)
        self.num_words = 2 + 2 * self.half + sum(word.count for word in self.words if not word.is_twice)
        """Numbers that are remembered."""
        self.word_at: np.ndarray = np.zeros(0, np.int32)
        """Their places in ``act``."""
        self.robot: Any = None
        self._place = -1
        self._kept: list[Any] = []

    def _build(self, configs: Mapping[str, ActuatorConfig]) -> list[Actuator]:
        made = []
        for is_implicit in (False, True):
            builder = ActuatorBuilder()
            for column, (name, config) in enumerate(configs.items()):
                if self.is_implicit[column] == is_implicit:
                    with located(f"joint '{name}'"):
                        builder.add(config, np.arange(CELLS) * len(configs) + column)
            options: dict[str, Any] = {"control_tangent_attrs": TANGENT_ATTRS} if is_implicit else {}
            made += builder.finalize(
                "cpu",
                robot_width=len(configs),
                accumulate=False,
                in_engine=True,
                control_computed_output_attr=COMPUTED,
                control_signal_attrs=signal_attr,
                **options,
            )
        return made

    def _make_arrays(self) -> None:
        names = ["joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act", "joint_f", COMPUTED]
        self.signals = {
            signal: attr for actuator in self.actuators for signal, attr in actuator.control_signal_attrs.items()
        }
        for actuator in self.actuators:
            if actuator.custom_inputs:
                raise StructureError(
                    f"joint '{self._joint_of(actuator)}': takes the input '{actuator.custom_inputs[0]}', for which "
                    "MuJoCo has no control; use MujocoSimulation"
                )
        self.arrays = {name: wp.zeros(CELLS * len(self.joints), dtype=wp.float32, device="cpu") for name in names}
        self.arrays |= {
            attr: wp.full(CELLS * len(self.joints), np.nan, dtype=wp.float32, device="cpu")
            for attr in self.signals.values()
        }

    def _joint_of(self, actuator: Actuator) -> str:
        return self.joints[int(actuator.effort_indices.numpy()[0]) % len(self.joints)]

    def _call(self, position: int) -> CCall:
        actuator, state = self.actuators[position], self.states[position]
        for stage in actuator.stages:
            stage.expose()  # so that what is written to parameters takes effect
        call = actuator.c_call(self.arrays, self.arrays, state, self.dt)
        if call is None:
            own = [type(stage).__name__ for stage in actuator.stages if not stage.is_fused()]
            raise StructureError(
                f"joint '{self._joint_of(actuator)}': {', '.join(own) or 'the chain'} has kernels of its own, which "
                "MuJoCo cannot call; use MujocoSimulation"
            )
        if call.size > MOST_BYTES:
            raise StructureError(f"joint '{self._joint_of(actuator)}': the chain has too many stages")
        return call

    def _words(self, position: int) -> Iterator[_Word]:
        """Yield what an actuator remembers, but for tags of rings, which tell copies apart and are not needed."""
        actuator, state = self.actuators[position], self.states[position]
        if state is None:
            return
        memory, dofs = state.memory, state.memory.cells.dofs
        for (place, name), word in memory.words.items():
            if word.buffer == "longs":
                continue
            buffer = memory.buffers[word.buffer]
            start, stride = memory.places[place, name], memory.sizes[word.buffer]
            is_ring = name == "ring"
            numbered = int(word.counts_resets)
            if place != HELD and name == "dof" and isinstance(actuator.stages[place], EffectNoise):
                numbered = len(self.joints)
            count = memory.cells.tiles if word.per_tile else dofs
            lanes = memory.grid(place, name).strides[0] // 4
            ring = actuator.stages[place].stage().ring if is_ring else None
            for row in range(1 if word.rows is None else word.rows):
                if ring is not None and (*ring.signals, "")[row % ring.columns] in self._zeros:
                    continue
                at = start + row * lanes
                initial = buffer.numpy()[at : at + count].astype(np.float64)
                if numbered > 1:
                    initial = actuator.effort_indices.numpy()[:count].astype(np.float64)
                yield _Word(
                    buffer.ptr + 4 * at, 4 * stride, count, word.buffer == "ints", not is_ring, numbered, initial
                )

    def draws(self) -> list[Any]:
        """Return the motors on the robot's battery."""
        found = []
        for actuator, state in zip(self.actuators, self.states, strict=True):
            for place, stage in enumerate(actuator.stages):
                if isinstance(stage, ClampingBattery) and state is not None:
                    memory = state.memory
                    own, other = (
                        memory.buffers["floats"].ptr + 4 * memory.places[place, name]
                        for name in ("own_load", "other_load")
                    )
                    found.append(Draw(own, other, 4 * memory.sizes["floats"], memory.cells.dofs))
        return found

    def at_rest(self, signal: str) -> np.ndarray:
        """Return a signal of each joint at rest; NaN where none is offered, shape (joints,)."""
        values = np.full(len(self.joints), np.nan)
        for actuator in self.actuators:
            if signal in actuator.control_signal_attrs:
                state = actuator.state()
                actuator.step(self.arrays, self.arrays, state, state, self.dt)
                at = actuator.effort_indices.numpy()[: actuator.robot_dofs]
                values[at] = self.arrays[self.signals[signal]].numpy()[at]
        return values

    def inertia(self) -> np.ndarray:
        """Return the inertia of rotors at each joint [kg·m² or kg], shape (joints,)."""
        total = np.zeros(len(self.joints))
        for actuator in self.actuators:
            at = actuator.effort_indices.numpy()[: actuator.robot_dofs]
            total[at] = inertia_at_joints(actuator)[: actuator.robot_dofs]
        return total

    def bind(self, model: Any, joints: Sequence[Any], word_at: np.ndarray) -> None:
        """Let MuJoCo step the motors of a model.

        Args:
            model: The compiled model.
            joints: `callback.Joint` of each joint.
            word_at: Where each number that is remembered lies in ``act``.
        """
        import mujoco

        self.word_at = word_at.astype(np.int32)
        initial = np.concatenate([np.zeros(0), *(word.initial for word in self.words if word.is_twice)])
        cells = np.arange(CELLS, dtype=np.int64)
        calls = [Call(c.function, c.bounds, c.arguments, c.size, c.first, cells.ctypes.data) for c in self.calls]
        words = [Words(w.base, w.stride, w.count, w.is_int, w.is_twice, w.numbered) for w in self.words]
        draws = self.draws()
        mark = ctypes.create_string_buffer(self.mark.encode())
        tables = [
            (kind * len(rows))(*rows) for kind, rows in ((Call, calls), (Words, words), (Joint, joints), (Draw, draws))
        ]
        self._kept = [initial, cells, mark, tables, self.word_at]
        robot = self.robot = Robot(
            mark=ctypes.addressof(mark),
            nq=model.nq,
            nv=model.nv,
            nu=model.nu,
            na=model.na,
            dofs=len(joints),
            num_calls=len(calls),
            num_words=len(words),
            num_draws=len(draws),
            half=self.half,
            is_rk4=int(model.opt.integrator) == int(mujoco.mjtIntegrator.mjINT_RK4),
            dt=self.dt,
            word_at=self.word_at.ctypes.data,
            initial=initial.ctypes.data,
        )
        robot.calls, robot.words, robot.joints, robot.draws = map(ctypes.addressof, tables)
        places = {"q": "joint_q", "qd": "joint_qd", "target": "joint_target_q", "target_qd": "joint_target_qd"}
        places |= {"feedforward": "joint_act", "effort": "joint_f"}
        optional = {"slope_q": TANGENT[0], "slope_qd": TANGENT[1], "dry": _DRY, "viscous": _VISCOUS}
        places |= {name: self.signals[signal] for name, signal in optional.items() if signal in self.signals}
        for name, array in places.items():
            setattr(robot, name, self.arrays[array].ptr)
        self._place = door().add(robot)

    def close(self) -> None:
        """Step the motors no more. What a call on another thread may still use is kept."""
        door().remove(self._place)
        self.robot.mark = None
        _closed.append(self)

    def check(self) -> None:
        """Raise what went wrong in MuJoCo's loop since the last call, where nothing could be raised."""
        robot = self.robot
        bad, robot.bad_joint = int(robot.bad_joint), 0
        if bad:
            raise SimulationError(
                f"t = {robot.bad_time:.6g} s: the effort of joint '{self.joints[bad - 1]}' is not finite; check its "
                "control, the state and its parameters"
            )
        wrong, robot.wrong_dt = int(robot.wrong_dt), 0
        if wrong:
            raise SimulationError(
                f"opt.timestep was changed: the motors were loaded for steps of {self.dt:g} s; load() the model again"
            )
        wrong, robot.wrong_size = int(robot.wrong_size), 0
        if wrong:
            raise SimulationError("a copy of the model has other joints or actuators; load() it from its own MjSpec")

    def telemetry(self, model: Any, data: Any) -> Telemetry:
        """Return what the motors give now."""
        shape = CELLS, len(self.joints)
        with door().look(model, data, self.robot) as cell:
            arrays = {name: array.numpy().reshape(shape).copy() for name, array in self.arrays.items()}
        signals = {signal: arrays[attr] for signal, attr in self.signals.items() if signal not in TANGENT}
        told = make_telemetry(
            self.joints, arrays["joint_qd"], arrays[COMPUTED], arrays["joint_f"], signals, self.actuators, None
        )
        one = slice(cell, cell + 1)
        return Telemetry(
            told.dof_names,
            told.velocity[one],
            told.computed_effort[one],
            told.applied_effort[one],
            told.clipped[one],
            told.limited_by[one],
            {name: values[one] for name, values in told.signals.items()},
        )


_closed: list[LoadedMotors] = []


def _is_implicit(name: str, config: ActuatorConfig) -> bool:
    if config.effort_mode == AUTO:
        raise StructureError(
            f"joint '{name}': effort_mode '{AUTO}' is decided by a simulation; set '{EXPLICIT}' or '{IMPLICIT}'"
        )
    if config.effort_mode == IMPLICIT:
        check_slopes(f"joint '{name}'", config.stages)
    return config.effort_mode == IMPLICIT


class _Preparation:
    """Makes the model that moves with motors.

    Args:
        mujoco: The module.
        spec: Changed, and compiled.
        plain: The model that it is without motors.
        drives: Its own drives.
        loaded: The motors.
        inputs: Controls that joints get beside their target.
    """

    def __init__(
        self, mujoco: Any, spec: Any, plain: Any, drives: Actuators, loaded: LoadedMotors, inputs: frozenset[str]
    ):
        self._mujoco, self._spec, self._plain, self._drives = mujoco, spec, plain, drives
        self._loaded, self._inputs = loaded, inputs
        self._actuators = {actuator.id: actuator for actuator in spec.actuators}
        self._names = {actuator.name for actuator in spec.actuators}
        self._added: list[tuple[str, float]] = []
        """Actuators that were added, and the keyframe's coordinate that each begins at, or NaN."""
        self._depth = -(-loaded.num_words // len(loaded.joints))
        """Numbers that the actuator of a joint remembers."""

    def compile(self) -> Any:
        """Return the model, which MuJoCo drives from now on."""
        loaded, spec = self._loaded, self._spec
        joints = {joint.name: joint for joint in spec.joints}
        self._choose_integrator()
        self._hand_over_inertia(joints)
        damping = self._hand_over_friction(joints)
        places = [self._prepare(name, i) for i, name in enumerate(loaded.joints)]
        spec.add_text(name=loaded.mark, data=_SAID)
        for key in spec.keys:
            key.act = []
            if len(key.ctrl):
                key.ctrl = [*key.ctrl, *(self._first_control(key, at) for _, at in self._added)]
        model = spec.compile()
        by_name = {model.actuator(i).name: i for i in range(model.nactuator)}
        self._copy_activations(model, by_name)
        rows, starts = [], []
        for name, place, own in zip(loaded.joints, places, damping, strict=True):
            rows.append(self._joint(model, name, place, own, by_name))
            starts.append(int(model.actuator_actadr[self._number(place.motor, by_name)]))
        words = np.arange(loaded.num_words)
        loaded.bind(model, rows, np.array(starts)[words // self._depth] + words % self._depth)
        return model

    def _number(self, actuator: Any, by_name: Mapping[str, int]) -> int:
        return int(actuator.id) if actuator.id >= 0 else by_name[actuator.name]

    def _new_name(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _add(self, joint: str, name: str, begins_at: float = np.nan, **fields: Any) -> Any:
        """Add an actuator on a joint, whose control begins at a coordinate of keyframes, or at zero."""
        mujoco = self._mujoco
        made = self._spec.add_actuator(name=self._new_name(name), trntype=mujoco.mjtTrn.mjTRN_JOINT, target=joint)
        _make_plain(mujoco, made)
        for field, value in fields.items():
            setattr(made, field, value)
        self._added.append((made.name, begins_at))
        return made

    def _first_control(self, key: Any, coordinate: float) -> float:
        if np.isnan(coordinate):
            return 0.0
        at = int(coordinate)
        return float(key.qpos[at]) if len(key.qpos) else float(self._plain.qpos0[at])

    def _copy_activations(self, model: Any, by_name: Mapping[str, int]) -> None:
        """Give keyframes the activations of actuators that are not ours."""
        plain = self._plain
        for i in range(plain.nactuator):
            start, count = int(plain.actuator_actadr[i]), int(plain.actuator_actnum[i])
            if count > 0 and model.actuator_dyntype[i] == plain.actuator_dyntype[i]:
                at = int(model.actuator_actadr[i])
                model.key_act[:, at : at + count] = plain.key_act[:, start : start + count]

    def _choose_integrator(self) -> None:
        """Let the integrator be one that takes in slopes, where efforts are implicit."""
        kinds, option = self._mujoco.mjtIntegrator, self._spec.option
        implicit = (kinds.mjINT_IMPLICIT, kinds.mjINT_IMPLICITFAST, kinds.mjINT_DISCRETE)
        if not any(self._loaded.is_implicit) or int(option.integrator) in map(int, implicit):
            return
        before = kinds(int(option.integrator)).name.removeprefix("mjINT_")
        chosen = kinds.mjINT_IMPLICITFAST if self._loaded.dt <= LONGEST_FAST else kinds.mjINT_DISCRETE
        option.integrator = int(chosen)
        _log.warning(INTEGRATOR_CHANGED, "the model", before, chosen.name.removeprefix("mjINT_").lower())

    def _hand_over_inertia(self, joints: Mapping[str, Any]) -> None:
        for name, inertia in zip(self._loaded.joints, self._loaded.inertia(), strict=True):
            if inertia > 0.0:
                if joints[name].armature != 0.0 and not np.isclose(joints[name].armature, inertia, rtol=1e-5):
                    text = "joint '%s': the model's armature of %g kg·m² is replaced by %g kg·m², the rotor's"
                    _log.warning(text, name, joints[name].armature, inertia)
                joints[name].armature = float(inertia)

    def _hand_over_friction(self, joints: Mapping[str, Any]) -> list[float]:
        """Let the model have friction where motors do. Returns its damping of each joint [N·m·s/rad or N·s/m]."""
        loaded, damping = self._loaded, []
        dry, viscous = loaded.at_rest(_DRY), loaded.at_rest(_VISCOUS)
        for i, name in enumerate(loaded.joints):
            joint = joints[name]
            if not np.isnan(dry[i]):
                joint.frictionloss = max(float(dry[i]), _SLIGHTEST)
                joint.solref_friction, joint.solimp_friction = (firm(loaded.dt) for firm in SOFTNESS.values())
                self._spec.option.ls_iterations = max(self._spec.option.ls_iterations, SEARCHES)
            if not np.isnan(viscous[i]):
                joint.damping = [float(viscous[i]), *list(joint.damping)[1:]] if np.ndim(joint.damping) else viscous[i]
            damping.append(0.0 if np.isnan(viscous[i]) else float(viscous[i]))
        return damping

    def _prepare(self, name: str, position: int) -> _Place:
        """Let the effort of a joint be what an actuator remembers last."""
        mujoco, plain, drives = self._mujoco, self._plain, self._drives
        dof, coordinate = int(plain.joint(name).dofadr[0]), int(plain.joint(name).qposadr[0])
        own = drives.on.get(dof, [])
        others = [i for i in np.flatnonzero(drives.moves[:, dof]).tolist() if i not in own]
        if others:
            raise StructureError(f"joint '{name}': {drives.what_moves(plain, others[0])}; use MujocoSimulation")
        servos = {int(plain.actuator_ctrladr[servo.actuator]): servo.actuator for servo in drives.servos.get(dof, [])}
        target, velocity = (int(places[dof]) for places in (drives.position, drives.velocity))
        for i in own:
            _make_plain(mujoco, self._actuators[i], keeps_controls=target == int(plain.actuator_ctrladr[i]))
        fields = {"dyntype": mujoco.mjtDyn.mjDYN_USER, "actdim": self._depth + 1, "gainprm": _first(mujoco.mjNGAIN, 0)}
        if target in servos:
            motor = self._actuators[servos[target]]
            for field, value in fields.items():
                setattr(motor, field, value)
            at = servos[target]
            if plain.actuator_ctrllimited[target]:
                motor.ctrllimited, motor.ctrlrange = True, plain.actuator_ctrlrange[target].copy()
            self._keep_inertia(motor, at)
        else:
            motor = self._add(name, name, coordinate, **fields)
        place = _Place(motor, target if target in servos else -1, velocity if velocity in servos else -1)
        if "velocity" in self._inputs and place.velocity < 0:
            place.added_velocity = self._add(name, f"{name}_velocity")
        if "feedforward" in self._inputs:
            place.feedforward = self._add(name, f"{name}_feedforward")
        if self._loaded.is_implicit[position]:
            slope = {"dyntype": mujoco.mjtDyn.mjDYN_USER, "actdim": 1, "gaintype": mujoco.mjtGain.mjGAIN_AFFINE}
            place.by_velocity = self._add(name, f"{name}_slope_qd", **slope, gainprm=_first(mujoco.mjNGAIN, 2))
            if int(self._spec.option.integrator) == int(mujoco.mjtIntegrator.mjINT_DISCRETE):
                place.by_position = self._add(name, f"{name}_slope_q", **slope, gainprm=_first(mujoco.mjNGAIN, 1))
        return place

    def _keep_inertia(self, motor: Any, actuator: int) -> None:
        """Let an actuator add the armature that it added with its gear, where motors bring none."""
        gear = float(self._plain.actuator_gear[actuator, 0])
        motor.armature = float(self._plain.actuator_armature[actuator]) * gear**2

    def _joint(self, model: Any, name: str, place: _Place, damping: float, by_name: Mapping[str, int]) -> Any:
        number = self._number(place.motor, by_name)
        joint, drives = model.joint(name), self._drives
        target = place.target if place.target >= 0 else int(model.actuator_ctrladr[number])
        has_range = bool(model.actuator_ctrllimited[target]) and place.target >= 0
        low, high = model.actuator_ctrlrange[target] if has_range else (-np.inf, np.inf)
        controls = {
            kind: -1 if actuator is None else int(model.actuator_ctrladr[by_name[actuator.name]])
            for kind, actuator in (("velocity", place.added_velocity), ("feedforward", place.feedforward))
        }
        slopes = [
            -1 if actuator is None else int(model.actuator_actadr[by_name[actuator.name]])
            for actuator in (place.by_velocity, place.by_position)
        ]
        return Joint(
            int(joint.qposadr[0]),
            int(joint.dofadr[0]),
            target,
            place.velocity if place.velocity >= 0 else controls["velocity"],
            controls["feedforward"],
            int(model.actuator_actadr[number]) + self._depth,
            *slopes,
            float(drives.scale[target]) if place.target >= 0 else 1.0,
            float(drives.offset[target]) if place.target >= 0 else 0.0,
            float(low),
            float(high),
            float(drives.scale[place.velocity]) if place.velocity >= 0 else 1.0,
            damping,
        )


@dataclass
class _Place:
    """Actuators of a joint in the spec, and the controls of its servos in the model."""

    motor: Any
    target: int
    velocity: int
    added_velocity: Any = None
    feedforward: Any = None
    by_velocity: Any = None
    by_position: Any = None


def _first(size: int, at: int) -> np.ndarray:
    values = np.zeros(size)
    values[at] = 1.0
    return values


def _make_plain(mujoco: Any, actuator: Any, keeps_controls: bool = False) -> None:
    """Let an actuator of a spec do nothing, whatever it was, and whatever its default class says."""
    actuator.dyntype, actuator.gaintype = mujoco.mjtDyn.mjDYN_NONE, mujoco.mjtGain.mjGAIN_FIXED
    actuator.biastype = mujoco.mjtBias.mjBIAS_NONE
    actuator.gainprm, actuator.biasprm, actuator.dynprm = (
        np.zeros(size) for size in (mujoco.mjNGAIN, mujoco.mjNBIAS, mujoco.mjNDYN)
    )
    actuator.gear, actuator.forcelimited, actuator.forcerange = _UNIT_GEAR, False, (0.0, 0.0)
    actuator.actlimited, actuator.actrange, actuator.actearly = False, (0.0, 0.0), False
    actuator.delay, actuator.nsample, actuator.armature, actuator.inheritrange = 0.0, 0, 0.0, 0.0
    if not keeps_controls:
        actuator.ctrllimited, actuator.ctrlrange = False, (0.0, 0.0)
