# SPDX-License-Identifier: Apache-2.0
"""Motors in any MuJoCo loop: `load` returns a plain ``MjModel`` that has them.

``mj_step``, ``mujoco.viewer``, ``mujoco.rollout``, ``mujoco.batch`` and ``mujoco.sysid`` need no further code.
``ctrl`` of a joint's servo stays its target, its force is the motor's effort, and ``act`` has the memory of the motors.

Armature, friction, integrator and limits are those of a `MujocoSimulation` of the model with the same motors.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.config import ActuatorConfig, Part
from ..components.component import Component
from ..components.effects.noise import EffectNoise
from ..components.math import JOINT_FRICTION, JOINT_LOAD
from ..components.transmissions.gear import TransmissionGear
from ..errors import MissingExtraError, RobotFileError, SimulationError, StructureError, listed
from ..kernel.chain import HELD, IMPLICIT_SIGNALS, custom_signal
from ..kernel.launch import CCall
from ..kernel.state import Memory
from ..motors.catalogue import CatalogueMotor
from ..motors.datasheet import MotorDatasheet
from ..sim import Articulation, MujocoSimulation
from ..sim.mujoco.actuators import Actuators
from ..sim.mujoco.c_code import MOST_BYTES
from ..sim.mujoco.callback import CELLS, Call, Control, Draw, Joint, Robot, Words, door, no_callback
from ..sim.mujoco.model import read_spec
from ..typing import ArrayLike, PathLike
from .articulation_actuators import ArticulationActuators
from .attachment import Attachment
from .batteries import draws_of
from .chain_set import COMPUTED, IMPLICIT_ATTRS, ChainSet, is_implicit, repeated
from .effort_limits import effort_limiter
from .groups.cfg import ActuatorBaseCfg
from .groups.groups import ActuatorGroups
from .motors import configs_of_robot
from .telemetry import Telemetry, make_telemetry

try:
    import mujoco
except ImportError as error:
    raise MissingExtraError("mujoco", "mujoco", "motors in a MuJoCo loop") from error

_MARK = "actuon_"
"""Prefix of names of text elements that mark a model."""
_SAID = "Moves with motors of Actuon (actuon.mujoco.load). In a process that has not loaded them, joints are limp."
_INPUTS = ("velocity", "feedforward")
_DRY, _VISCOUS = "dry_friction", "viscous_friction"
_MOST_WORDS = 2**15
"""Largest count of numbers that a step copies to the stack of a thread."""
_SLIGHTEST = 1e-6
"""Smallest dry friction of a joint [N·m or N], so that MuJoCo makes a row for it."""


Source = (
    PathLike
    | ActuatorConfig
    | MotorDatasheet
    | CatalogueMotor
    | Mapping[str, ActuatorConfig]
    | Mapping[str, ActuatorBaseCfg]
)
"""Source of the motors of a robot."""


def load(
    model: PathLike | mujoco.MjSpec,
    actuators: Source | None = None,
    *,
    joints: Iterable[str] | None = None,
    inputs: Sequence[str] = (),
    controller: Part | None = None,
    allow_unsafe_torch_checkpoints: bool = False,
) -> mujoco.MjModel:
    """Return a ``mujoco.MjModel`` whose joints are driven by motors, in any loop around ``mj_step``.

    ``ctrl`` of a joint's servo stays its target, clipped to its ``ctrlrange``. A joint without a position servo gets a
    control named ``<joint>_position`` [rad or m], and its motors in the model are disabled. Joints without an actuator
    keep their drives. Rotor inertia becomes armature, and friction of motors replaces that of the model.

    Args:
        model: Path of an ``.xml`` or ``.urdf`` file, MJCF as text, or an ``MjSpec``, which is copied.
        actuators: As for `Motors`: an ``actuon.yaml``, a USD file with actuators, the name of a motor or its data
            sheet, a config for all joints, or a mapping of joints to configs; or groups by name, as for
            `actuon.lab.ActuatorGroups`. Default: the YAML next to the model's file.
        joints: Names of the joints that a config or motor drives. Default: all hinge and slide joints.
        inputs: Further controls of joints: ``"velocity"`` [rad/s or m/s], named ``<joint>_velocity``, for joints
            without a velocity servo, and ``"feedforward"`` [N·m or N], named ``<joint>_feedforward``.
        controller: Controller of a motor from the catalogue.
        allow_unsafe_torch_checkpoints: Let a file name ``.pt`` and ``.pt2`` networks, which can run code when loaded.

    Raises:
        RobotFileError: A file cannot be read, or has no actuator for a joint.
        StructureError: A motor model cannot run in MuJoCo: a stage has its own kernel, or an input that MuJoCo lacks.

    Examples:
        >>> import mujoco
        >>> model = actuon.mujoco.load(actuon.assets.arm_mjcf)  # with arm.actuon.yaml
        >>> data = mujoco.MjData(model)
        >>> mujoco.mj_step(model, data, nstep=5)
    """
    unknown = [name for name in inputs if name not in _INPUTS]
    if isinstance(inputs, str) or unknown:
        raise StructureError(f"inputs: got {inputs!r}; must be a list of {', '.join(map(repr, _INPUTS))}")
    spec, path = _spec_of(model)
    if any(text.name.startswith(_MARK) for text in spec.texts):
        raise StructureError(
            "model: has motors of an earlier load(), whose joints have no drives of their own; change the model that "
            "was loaded then, for example its time step, and load() that"
        )
    if actuators is None:
        if path is None:
            raise StructureError("actuators: is needed for a model without a file")
        actuators = path
    with no_callback(), contextlib.closing(MujocoSimulation(spec)) as simulation:
        simulation.hide()
        plain = spec.compile()
        if plain.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_ACTUATION):
            raise StructureError(
                "actuation is disabled in the model's <option>, so that MuJoCo steps no motor; enable it"
            )
        known = [name for robot in simulation.robots for name in robot.dof_names]
        names = known if joints is None else list(joints)
        for name in names:
            if name not in known:
                raise StructureError(f"joints: there is no joint '{name}'; {listed(str(name), known, 'joints')}")
        if _are_groups(actuators):
            attached = _attach_groups(simulation, actuators)
        else:
            found = configs_of_robot(actuators, names, controller, allow_unsafe_torch_checkpoints)
            attached = _attach(simulation, found)
        if not attached:
            raise StructureError("actuators: there is none for a joint; give one or more")
        drives = Actuators(plain)
        dofs = [joint.dof for each in attached for joint in each.driven(simulation).values()]
        has_velocity = "velocity" in inputs or bool((drives.velocity[dofs] >= 0).any())
        given = {"target_qd": has_velocity, "feedforward": "feedforward" in inputs}
        loaded = LoadedMotors(attached, simulation, {name for name, is_there in given.items() if not is_there})
        preparation = _Preparation(spec, plain, drives, simulation.models[0], loaded, frozenset(inputs))
        made, rows, word_at, clock = preparation.compile()
    loaded.spec = spec
    loaded.bind(made, rows, word_at, clock)
    _loaded[loaded.mark] = loaded
    return made


def unload(model: mujoco.MjModel) -> None:
    """Remove the motors from a model and its copies, whose joints are limp then.

    Examples:
        >>> model = actuon.mujoco.load(actuon.assets.arm_mjcf)
        >>> actuon.mujoco.unload(model)
    """
    loaded = _of(model)
    del _loaded[loaded.mark]
    loaded.close()


def spec(model: mujoco.MjModel) -> mujoco.MjSpec:
    """Return a copy of the ``MjSpec`` of a model, to compile changed models, as ``mujoco.sysid`` does.

    A model that is compiled from it has the same motors, if it has the same joints and actuators.

    Examples:
        >>> model = actuon.mujoco.load(actuon.assets.arm_mjcf)
        >>> spec = actuon.mujoco.spec(model)
        >>> _ = spec.body("link7").add_geom(size=[0.03, 0.0, 0.0], mass=1.0)
        >>> heavier = spec.compile()  # has the same motors
    """
    return _of(model).spec.copy()


def telemetry(model: mujoco.MjModel, data: mujoco.MjData) -> Telemetry:
    """Return the telemetry of the motors at the state and controls of ``data``, in arrays of shape (1, joints).

    Nothing is changed. After ``mj_forward`` the efforts are those of ``data.qfrc_actuator``, in which MuJoCo includes
    the gravity compensation of joints with ``actuatorgravcomp``.

    Raises:
        SimulationError: An error occurred since the last call, which MuJoCo's loop could not raise: an effort was not
            finite, the time step changed, or another callback was set.

    Examples:
        >>> import mujoco
        >>> model = actuon.mujoco.load(actuon.assets.arm_mjcf)
        >>> data = mujoco.MjData(model)
        >>> mujoco.mj_forward(model, data)
        >>> telemetry = actuon.mujoco.telemetry(model, data)
        >>> np.allclose(telemetry.applied_effort[0], data.qfrc_actuator[:7])
        True
    """
    return _of(model).telemetry(model, data)


def seed(model: mujoco.MjModel, data: mujoco.MjData | np.ndarray, number: int | ArrayLike = 0) -> None:
    """Restart motors at the next step with the random numbers of trajectory ``number``.

    Without it, each new trajectory has the next number, so that all differ.

    Args:
        model: A model of `load`.
        data: Its ``MjData``, or states of shape (..., size) for ``mujoco.rollout`` and ``mujoco.batch``, which are
            written.
        number: A whole number ≥ 0; for states, one for all or one for each.

    Examples:
        >>> import mujoco
        >>> model = actuon.mujoco.load(actuon.assets.arm_mjcf)
        >>> data = mujoco.MjData(model)
        >>> actuon.mujoco.seed(model, data, number=3)  # the same noise and jitter in each run
    """
    loaded = _of(model)
    numbers = np.asarray(number)
    if numbers.dtype.kind not in "iu" or (numbers < 0).any():
        raise StructureError(f"number: got {number!r}; must be a whole number ≥ 0, or one for each state")
    act = _activations(model, data) if isinstance(data, np.ndarray) else data.act
    if numbers.shape not in ((), act.shape[:-1]):
        raise StructureError(f"number: got the shape {numbers.shape}; must be one number, or {act.shape[:-1]} of them")
    act[..., loaded.word_at] = 0.0
    act[..., loaded.word_at[0]] = -(numbers.astype(np.float64) + 1.0)


def _activations(model: mujoco.MjModel, states: np.ndarray) -> np.ndarray:
    """Return the activations in states, a view of shape (..., na)."""
    kinds = mujoco.mjtState
    sizes = [mujoco.mj_stateSize(model, int(kind)) for kind in (kinds.mjSTATE_FULLPHYSICS, kinds.mjSTATE_INTEGRATION)]
    if states.ndim < 1 or states.shape[-1] not in sizes:
        raise StructureError(
            f"data: got an array of the shape {states.shape}; must be an MjData, or states of mjSTATE_FULLPHYSICS or "
            f"mjSTATE_INTEGRATION, {sizes[0]} or {sizes[1]} numbers each"
        )
    start = 1 + model.nq + model.nv
    return states[..., start : start + model.na]


def _spec_of(model: object) -> tuple[mujoco.MjSpec, Path | None]:
    """Return a copy of the spec of a model, and its file."""
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


_loaded: dict[str, LoadedMotors] = {}
"""Motors of all models that are loaded, by their marks."""


def _of(model: mujoco.MjModel) -> LoadedMotors:
    for i in range(model.ntext):
        found = _loaded.get(mujoco.mj_id2name(model, int(mujoco.mjtObj.mjOBJ_TEXT), i))
        if found is not None:
            return found
    raise SimulationError("the model has no motors that this process has loaded; make it with actuon.mujoco.load()")


@dataclass(frozen=True)
class _Driven:
    """A joint with a motor."""

    name: str
    dof: int
    """Index in the model."""
    number: int
    """Index of the DOF among those of all robots of the model."""
    is_implicit: bool
    friction: float
    """Dry friction of the joint besides that of its motor [N·m or N]."""
    lower: float
    """Lowest effort of the joint [N·m or N]."""
    upper: float


@dataclass(frozen=True)
class _Attached:
    """Actuators on a robot, whose armature and friction are in the model until they are closed."""

    attachment: Attachment
    robot: int
    """Number of the robot."""
    largest: Mapping[str, float] = field(default_factory=dict)
    """Largest effort of joints in addition to the model's limits [N·m or N]."""

    @property
    def actuators(self) -> list[tuple[Actuator, np.ndarray]]:
        """Actuators with the columns of their DOFs."""
        width = self.attachment.articulation.num_dofs
        return [(each, each.effort_indices.numpy().astype(np.int64) % width) for each in self.attachment.actuators]

    def driven(self, simulation: MujocoSimulation) -> dict[int, _Driven]:
        """Return the joints by column."""
        articulation, model = self.attachment.articulation, simulation.models[0]
        dofs = articulation.at.flat("joint_qd")[0]
        first = sum(len(robot.dofs) for robot in simulation.robots[: self.robot])
        lower, upper = np.full(len(dofs), -np.inf), np.full(len(dofs), np.inf)
        if self.attachment.effort_range is not None:
            by_engine = model.jnt_actgravcomp[model.dof_jntid[dofs]]  # which clips the sum with gravity compensation
            given = zip((lower, upper), self.attachment.effort_range, strict=True)
            lower, upper = (np.where(by_engine, none, bounds[0]) for none, bounds in given)
        found = {}
        for actuator, columns in self.actuators:
            for i in columns.tolist():
                name = articulation.dof_names[i]
                most = self.largest.get(name, np.inf)
                bounds = max(float(lower[i]), -most), min(float(upper[i]), most)
                friction = float(model.dof_frictionloss[dofs[i]])
                found[i] = _Driven(name, int(dofs[i]), first + i, is_implicit(actuator), friction, *bounds)
        return dict(sorted(found.items()))


def _attach(simulation: MujocoSimulation, configs: Mapping[str, ActuatorConfig]) -> list[_Attached]:
    """Attach actuators to robots, which changes the model of the simulation until they are closed."""
    made = []
    for number, robot in enumerate(simulation.robots):
        own = [(configs[name], name) for name in robot.dof_names if name in configs]
        if own:
            actuators = ArticulationActuators.from_actuators(robot.path, own, simulation=simulation)
            made.append(_Attached(actuators, number))
    return made


def _are_groups(actuators: object) -> TypeGuard[Mapping[str, ActuatorBaseCfg]]:
    return isinstance(actuators, Mapping) and any(isinstance(cfg, ActuatorBaseCfg) for cfg in actuators.values())


def _attach_groups(simulation: MujocoSimulation, groups: Mapping[str, ActuatorBaseCfg]) -> list[_Attached]:
    """Attach groups to a robot. See `_attach`."""
    for name, cfg in groups.items():
        if not isinstance(cfg, ActuatorBaseCfg):
            raise StructureError(f"actuators['{name}']: got {type(cfg).__name__} among groups; must be a group")
        if getattr(cfg.class_type, "is_implicit_model", False):
            raise StructureError(
                f"group '{name}': {type(cfg).__name__} is the engine drive, which needs no motor; leave its "
                "joints out, which then keep the model's servos, or use IdealPDActuatorCfg(effort_mode='implicit')"
            )
    if len(simulation.robots) != 1:
        paths = ", ".join(robot.path for robot in simulation.robots)
        raise StructureError(f"groups are for a model of one robot; here are {paths}: map joints to configs instead")
    attached = ActuatorGroups(Articulation(simulation.robots[0].path, simulation), groups)
    largest: dict[str, float] = {}
    for model in attached.groups.values():
        largest |= dict(zip(model.joint_names, model.numbers("effort_limit_sim")[0].tolist(), strict=True))
    return [_Attached(attached, 0, largest)]


@dataclass(frozen=True)
class _Word:
    """A part of the memory of chains in activations. See `callback.Words`."""

    base: int
    stride: int
    count: int
    is_int: bool
    is_twice: bool
    numbered: int
    initial: np.ndarray


def _pieces(memory: Memory, place: int, name: str) -> Iterator[tuple[int, int]]:
    """Yield the start of each row of a state, and its count of numbers."""
    rows, _, count = memory.grid(place, name).shape
    for row in range(rows):
        yield row * memory.grid(place, name).strides[0] // 4, count


_GIVEN = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act", "joint_f", COMPUTED)
"""Arrays of motors, by name."""


_PRESENT_LOAD = "present_load"
"""Name of the array with the external load of each joint that follows from the present state [N·m or N]."""


@wp.func
def late_load_law(custom_present_load: float, last_load: float, has_last: float):  # type: ignore[no-untyped-def]
    return wp.where(has_last > 0.0, last_load, custom_present_load), custom_present_load, 1.0


class LateLoad(Component):
    """The external load of the last step, at first the present one, as a `MujocoSimulation` reads it.

    Gears with losses need it. It is gravity and motion alone: a state has no forces of contacts and stops.
    """

    law = late_load_law
    STATES = ("last_load", "has_last")
    OUTPUTS = (custom_signal(JOINT_LOAD),)
    OPTIONAL_INPUTS = (_PRESENT_LOAD,)
    _returns = ()


def _late_loads(actuator: Actuator) -> list[LateLoad]:
    """Return the stage that gears of an actuator need to solve their losses; their closing functions run after it."""
    gears = [stage for stage in actuator.stages if isinstance(stage, TransmissionGear) and stage.has_solved_losses]
    return [LateLoad()] if gears else []


class LoadedMotors:
    """The motors of a model, on spare cells.

    Args:
        attached: The same motors in a simulation of the model.
        simulation: The simulation.
        zeros: Signals without a control, which are zero.
    """

    def __init__(self, attached: Sequence[_Attached], simulation: MujocoSimulation, zeros: Collection[str]):
        self._zeros = zeros
        self.mark = f"{_MARK}{uuid.uuid4().hex[:16]}"
        """Name of the text element of its models."""
        by_column = [each.driven(simulation) for each in attached]
        self.driven = [joint for own in by_column for joint in own.values()]
        self.joints = [joint.name for joint in self.driven]
        self.dt = simulation.dt
        self._num_dofs = sum(len(robot.dofs) for robot in simulation.robots)
        actuators: list[Actuator] = []
        self._robot_of: list[int] = []
        for each, own in zip(attached, by_column, strict=True):
            for actuator, columns in each.actuators:
                at = np.array([self.joints.index(own[column].name) for column in columns.tolist()])
                actuators.append(self._on_cells(actuator, at))
                self._robot_of.append(each.robot)
        robot_of_joint = np.array([each.robot for each, own in zip(attached, by_column, strict=True) for _ in own])
        zeroed = {name: wp.zeros(CELLS * len(self.joints), dtype=wp.float32, device="cpu") for name in _GIVEN}
        self.chains = ChainSet(
            actuators,
            *(CELLS, self.joints, wp.get_device("cpu")),
            given=zeroed,
            numbers=(robot_of_joint, np.array([joint.number for joint in self.driven])),
            has_two_states=lambda _: False,
        )
        for i, actuator in enumerate(actuators):
            others = (stage for stage in actuator.stages if not isinstance(stage, (TransmissionGear, LateLoad)))
            asked = [name for stage in others for name in stage.stage().custom_inputs]
            if asked:
                raise StructureError(
                    f"joint '{self._joint_of(i)}': takes the input '{asked[0]}', for which MuJoCo has no control; use "
                    "MujocoSimulation"
                )
        self.chains.reset(np.arange(CELLS))  # as a simulation does when it starts
        self.arrays = self.chains.arrays
        if JOINT_FRICTION in self.arrays:
            self.chains.table(JOINT_FRICTION).numpy()[:] = [joint.friction for joint in self.driven]
        self.calls = [self._call(i) for i in range(len(actuators))]
        self._limits, limit_calls = self._limit()
        self.calls += limit_calls
        self.words = [word for i in range(len(actuators)) for word in self._words(i)]
        self.half = sum(word.count for word in self.words if word.is_twice)
        self.num_words = 1 + 2 * self.half + sum(word.count for word in self.words if not word.is_twice)
        """Numbers that are remembered."""
        if self.num_words > _MOST_WORDS:
            raise StructureError(
                f"the motors remember {self.num_words} numbers, of which an MjData has room for {_MOST_WORDS} here; "
                "shorten delays, or use MujocoSimulation"
            )
        self.word_at: np.ndarray = np.zeros(0, np.int32)
        """Their places in ``act``."""
        self.spec: mujoco.MjSpec
        """The ``MjSpec`` of its models."""
        self.robot: Any = None
        self._place = -1
        self._kept: list[Any] = []

    def _on_cells(self, actuator: Actuator, columns: np.ndarray) -> Actuator:
        """Return an actuator of a robot for all cells, at these of the joints."""
        at = (np.arange(CELLS)[:, None] * len(self.joints) + columns).ravel()
        return Actuator(
            wp.array(at, dtype=wp.uint32, device="cpu"),
            stages=[*(repeated(stage, CELLS) for stage in actuator.stages), *_late_loads(actuator)],
            control_computed_output_attr=COMPUTED,
            control_signal_attrs=actuator.control_signal_attrs,
            accumulate=False,
            control_every=actuator.control_every,
            in_engine=any(stage.in_engine for stage in actuator.stages),
            losses_in_engine=any(stage.losses_in_engine for stage in actuator.stages),
            robot_dofs=len(columns),
        )

    def _joint_of(self, position: int) -> str:
        return self.joints[int(self.chains.places[position][0]) % len(self.joints)]

    def _call(self, position: int) -> CCall:
        actuator, state = self.chains.actuators[position], self.chains.states[position]
        call = actuator.c_call(self.arrays, self.arrays, state, self.dt)
        if call is None:
            own = [type(stage).__name__ for stage in actuator.stages if not stage.is_fused()]
            raise StructureError(
                f"joint '{self._joint_of(position)}': {', '.join(own) or 'the motor model'} has its own kernels, which "
                "MuJoCo cannot call; use MujocoSimulation"
            )
        if call.size > MOST_BYTES:
            raise StructureError(f"joint '{self._joint_of(position)}': the motor model has too many stages")
        return call

    def _limit(self) -> tuple[tuple[np.ndarray, np.ndarray] | None, list[CCall]]:
        """Return what joints allow, each of shape (cells, joints), and what keeps efforts to it."""
        shape = CELLS, len(self.driven)
        lower, upper = (
            np.tile(np.array([getattr(j, side) for j in self.driven], np.float32), (CELLS, 1))
            for side in ("lower", "upper")
        )
        if not np.isfinite([lower, upper]).any():
            return None, []
        bounds = wp.array(lower, device="cpu"), wp.array(upper, device="cpu")
        effort = self.arrays["joint_f"].reshape(shape)
        calls = []
        for implicit in (False, True):
            columns = np.array([i for i, joint in enumerate(self.driven) if joint.is_implicit == implicit])
            if columns.size:
                names = IMPLICIT_ATTRS.values() if implicit else ()
                derivatives = [self.arrays[name].reshape(shape) for name in names]
                _, call = effort_limiter(effort, columns, bounds, effort, derivatives=derivatives).one_robot()
                assert call is not None
                calls.append(call)
        return (lower, upper), calls

    def _words(self, position: int) -> Iterator[_Word]:
        """Yield what an actuator remembers, but for tags of rings, which tell copies apart and are not needed."""
        actuator, state = self.chains.actuators[position], self.chains.states[position]
        if state is None:
            return
        memory = state.memory
        for (place, name), word in memory.words.items():
            if word.buffer == "longs":
                continue
            buffer = memory.buffers[word.buffer]
            start, stride, is_ring = memory.places[place, name], memory.sizes[word.buffer], name == "ring"
            numbered = int(word.counts_resets)
            if place != HELD and name == "dof" and isinstance(actuator.stages[place], EffectNoise):
                numbered = self._num_dofs
            for at, count in self._ring_pieces(actuator, memory, place) if is_ring else _pieces(memory, place, name):
                at += start
                initial = buffer.numpy()[at : at + count].astype(np.float64)
                yield _Word(
                    buffer.ptr + 4 * at, 4 * stride, count, word.buffer == "ints", not is_ring, numbered, initial
                )

    def _ring_pieces(self, actuator: Actuator, memory: Memory, place: int) -> Iterator[tuple[int, int]]:
        """Yield pieces of a ring, but for signals that are zero. See `actuon.kernel.ring` for its layout."""
        ring, cells = actuator.stages[place].stage().ring, memory.cells
        assert ring is not None
        lanes = cells.tile.lanes
        for row, first in itertools.product(range(memory.ring_rows(place)), range(0, cells.width, lanes)):
            for column, signal in enumerate((*ring.signals, "")[: ring.columns]):
                if signal not in self._zeros:
                    yield (row * cells.width + first) * ring.columns + column * lanes, min(lanes, cells.dofs - first)

    def draws(self) -> list[Any]:
        """Return the motors on the batteries of the robots, battery by battery."""
        found: dict[int, list[Any]] = {}
        chains = self.chains.actuators, self.chains.states, self._robot_of
        for actuator, state, robot in zip(*chains, strict=True):
            for own in draws_of(actuator, state, np.zeros(0, np.int64)):
                found.setdefault(robot, []).append(Draw(own.own, own.other, own.stride, own.count, False))
        for pieces in found.values():
            pieces[-1].is_last = True
        return [piece for pieces in found.values() for piece in pieces]

    def at_rest(self, signal: str) -> np.ndarray:
        """Return a signal of each joint at rest; NaN where none is offered, shape (joints,)."""
        values = np.full(len(self.joints), np.nan)
        if signal in self.chains.signals:
            self.chains.try_step(self.arrays, self.arrays, self.dt)
            values[:] = self.chains.signals[signal].numpy()[0]
        return values

    def bind(self, model: mujoco.MjModel, joints: Sequence[Any], word_at: np.ndarray, clock: int) -> None:
        """Let MuJoCo step the motors of a model.

        Args:
            model: The compiled model.
            joints: `callback.Joint` of each joint.
            word_at: Where each number that is remembered lies in ``act``.
            clock: Where the clock of steps does.
        """
        self.word_at = word_at.astype(np.int32)
        initial = np.concatenate([np.zeros(0), *(word.initial for word in self.words if word.is_twice)])
        column_of = np.full(model.nv, -1, np.int32)
        column_of[[joint.velocity for joint in joints]] = np.arange(len(joints))
        cells = np.arange(CELLS, dtype=np.int64)
        calls = [Call(c.function, c.bounds, c.arguments, c.size, c.first, 0, cells.ctypes.data) for c in self.calls]
        words = [Words(w.base, w.stride, w.count, w.is_int, w.is_twice, w.numbered) for w in self.words]
        draws = self.draws()
        mark = ctypes.create_string_buffer(self.mark.encode())
        tables = [
            (kind * len(rows))(*rows) for kind, rows in ((Call, calls), (Words, words), (Joint, joints), (Draw, draws))
        ]
        self._kept = [initial, cells, mark, tables, self.word_at, column_of]
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
            is_random=any(word.numbered for word in self.words),
            taken=~1 if wp.config.optimization_level == 0 else 0,  # see `callback`
            clock=clock,
            dt=self.dt,
            word_at=self.word_at.ctypes.data,
            column_of=column_of.ctypes.data,
            initial=initial.ctypes.data,
        )
        robot.calls, robot.words, robot.joints, robot.draws = map(ctypes.addressof, tables)
        places = {"q": "joint_q", "qd": "joint_qd", "target": "joint_target_q", "target_qd": "joint_target_qd"}
        places |= {"feedforward": "joint_act", "effort": "joint_f"}
        places |= {"load": _PRESENT_LOAD} if _PRESENT_LOAD in self.arrays else {}
        optional = {
            "derivative_q": IMPLICIT_SIGNALS[0],
            "derivative_qd": IMPLICIT_SIGNALS[1],
            "dry": _DRY,
            "viscous": _VISCOUS,
        }
        read = {name: self.arrays[array] for name, array in places.items()}
        signals = self.chains.signals
        read |= {name: signals[signal] for name, signal in optional.items() if signal in signals}
        for name, array in read.items():
            setattr(robot, name, array.ptr)
        self._place = door().add(robot)

    def close(self) -> None:
        """Step the motors no more. What a call on another thread may still use is kept."""
        door().remove(self._place)
        _closed.append(self)

    def check(self) -> None:
        """Raise what went wrong in MuJoCo's loop since the last call, where nothing could be raised."""
        robot = self.robot
        flags = {name: int(getattr(robot, name)) for name in ("wrong_size", "wrong_dt", "bad_joint")}
        for name in flags:
            setattr(robot, name, 0)
        if flags["wrong_size"]:
            raise SimulationError(
                "a copy of the model has other joints or actuators; load() the file or MjSpec that it was made from"
            )
        if flags["wrong_dt"]:
            raise SimulationError(
                f"opt.timestep was changed: the motors were loaded for steps of {self.dt:g} s; set it in the file or "
                "MjSpec without motors, and load() that"
            )
        if flags["bad_joint"]:
            raise SimulationError(
                f"t = {robot.bad_time:.6g} s: the effort of joint '{self.joints[flags['bad_joint'] - 1]}' is not "
                "finite, and the motors were off; check its control, the state and its parameters"
            )
        if not door().is_installed:
            raise SimulationError(
                "the motors are not stepped: another mjcb_control was set after load(); set it before load(), and "
                "both are called"
            )

    def telemetry(self, model: mujoco.MjModel, data: mujoco.MjData) -> Telemetry:
        """Return the present telemetry of the motors."""
        with door().look(model, data, self.robot) as cell:
            names = ("joint_qd", COMPUTED, "joint_f")
            velocity, computed, applied = (self.chains.table(name).numpy().copy() for name in names)
            limits = self._limits_at(model, data)
            if limits is not None:
                applied[:] = np.clip(applied, *limits)
            told = make_telemetry(self.chains, velocity, computed, applied, limits)
        self.check()
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

    def _limits_at(self, model: mujoco.MjModel, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray] | None:
        """Return lowest and highest effort of the joints, each of shape (cells, joints); None: no limit.

        If a joint has ``actuatorgravcomp``, MuJoCo clips the sum of effort and gravity compensation.
        """
        dofs = np.array([joint.dof for joint in self.driven])
        joints = model.dof_jntid[dofs]
        by_mujoco = np.flatnonzero(model.jnt_actgravcomp[joints] & model.jnt_actfrclimited[joints])
        if not by_mujoco.size:
            return self._limits
        scratch, state = mujoco.MjData(model), mujoco.mjtState.mjSTATE_INTEGRATION
        values = np.zeros(mujoco.mj_stateSize(model, state))
        mujoco.mj_getState(model, data, values, state)
        mujoco.mj_setState(model, scratch, values, state)
        for compute in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_passive):
            compute(model, scratch)
        none = np.full((CELLS, len(dofs)), np.inf, np.float32)
        lower, upper = (side.copy() for side in self._limits or (-none, none))
        ranges = model.jnt_actfrcrange[joints[by_mujoco]] - scratch.qfrc_gravcomp[dofs[by_mujoco], None]
        lower[:, by_mujoco], upper[:, by_mujoco] = ranges.T[:, None]
        return lower, upper


_closed: list[LoadedMotors] = []
"""Motors that were unloaded, and may still be in a step of another thread."""


@dataclass
class _Place:
    """Actuators of a joint in the spec, and the controls of its servos in the model; -1 for none."""

    motor: Any
    """Actuator whose force is the effort, and whose activations are the memory."""
    target: int = -1
    velocity: int = -1
    added_velocity: Any = None
    feedforward: Any = None
    by_velocity: Any = None
    by_position: Any = None


class _Preparation:
    """Preparation of a model with motors.

    Args:
        spec: Spec, which is changed and compiled.
        plain: The model without motors.
        drives: Its own drives.
        driven: The model with the armature, friction and options of the motors.
        loaded: The motors.
        inputs: Further controls of joints.
    """

    def __init__(
        self,
        spec: mujoco.MjSpec,
        plain: mujoco.MjModel,
        drives: Actuators,
        driven: mujoco.MjModel,
        loaded: LoadedMotors,
        inputs: frozenset[str],
    ):
        self._spec, self._plain, self._drives = spec, plain, drives
        self._driven, self._loaded, self._inputs = driven, loaded, inputs
        self._actuators = {actuator.id: actuator for actuator in spec.actuators}
        self._joints = {joint.id: joint for joint in spec.joints}
        self._own = drives.ids(np.array([joint.dof for joint in loaded.driven]))
        """Actuators of the model that drive the joints."""
        self._names = {actuator.name for actuator in spec.actuators}
        self._added: list[float] = []
        """Coordinate at which the control of each added actuator starts in keyframes, or NaN."""
        self._depth = -(-loaded.num_words // len(loaded.joints))
        """Count of activations of a joint's actuator."""

    def compile(self) -> tuple[mujoco.MjModel, list[Any], np.ndarray, int]:
        """Return the model, its joints, and the places of their memory and of the clock, for `LoadedMotors.bind`."""
        loaded, spec, plain = self._loaded, self._spec, self._plain
        spec.option.integrator = int(self._driven.opt.integrator)
        spec.option.ls_iterations = int(self._driven.opt.ls_iterations)
        for i in self._own:
            self._silence(i)
        places = [self._prepare(joint) for joint in loaded.driven]
        clock = self._add_clock()
        damping = self._hand_over()
        spec.add_text(name=loaded.mark, data=_SAID)
        for key in spec.keys:
            key.act = []
            own = key.ctrl if len(key.ctrl) else np.zeros(plain.nu)
            key.ctrl = [*own, *(self._first_control(key, at) for at in self._added)]
        model = spec.compile()
        if self._copy_activations(model):
            model = spec.compile()
        by_name = {model.actuator(i).name: i for i in range(model.nactuator)}
        rows, starts = [], []
        for joint, place, own in zip(loaded.driven, places, damping, strict=True):
            rows.append(self._joint(model, joint, place, own, by_name))
            starts.append(int(model.actuator_actadr[self._number(place.motor, by_name)]))
        words = np.arange(loaded.num_words)
        word_at = np.array(starts)[words // self._depth] + words % self._depth
        return model, rows, word_at, int(model.actuator_actadr[by_name[clock.name]])

    def _number(self, actuator: Any, by_name: Mapping[str, int]) -> int:
        return int(actuator.id) if actuator.id >= 0 else by_name[actuator.name]

    def _new_name(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _add(self, joint: str, name: str, begins_at: float = np.nan, **fields: Any) -> Any:
        """Add an actuator to a joint. In keyframes its control is a coordinate, or zero."""
        off = int(self._plain.opt.disableactuator)
        made = self._spec.add_actuator(name=self._new_name(name), trntype=mujoco.mjtTrn.mjTRN_JOINT, target=joint)
        group = next((group for group in range(31) if not off >> group & 1), 0)
        for key, value in (_plain_actuator() | {"group": group} | fields).items():
            setattr(made, key, value)
        self._added.append(begins_at)
        return made

    def _add_clock(self) -> Any:
        """Add a filter without a control and without a force, whose activation goes from 1 to 0 in a step."""
        kinds = mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtDyn.mjDYN_FILTER
        motor = {"gaintype": mujoco.mjtGain.mjGAIN_DCMOTOR, "biastype": mujoco.mjtBias.mjBIAS_DCMOTOR}
        made = self._spec.add_actuator(
            name=self._new_name("actuon_clock"), trntype=kinds[0], target=self._loaded.joints[0]
        )
        fields = {"dyntype": kinds[1], "ctrlspec": int(mujoco.mjtCtrlInput.mjINPUT_NONE), "gear": (0.0,) * 6, **motor}
        fields["dynprm"] = self._loaded.dt * _unit(mujoco.mjNDYN, 0)
        for key, value in (_plain_actuator() | {"group": -1} | fields).items():  # a group that nobody disables
            setattr(made, key, value)
        return made

    def _first_control(self, key: Any, coordinate: float) -> float:
        if np.isnan(coordinate):
            return 0.0
        at = int(coordinate)
        return float(key.qpos[at]) if len(key.qpos) else float(self._plain.qpos0[at])

    def _copy_activations(self, model: mujoco.MjModel) -> bool:
        """Copy activations of other actuators to keyframes. Returns whether any exist."""
        plain, has_any = self._plain, False
        for row, key in enumerate(self._spec.keys):
            act = np.zeros(model.na)
            for i in range(plain.nactuator):
                start, count = int(plain.actuator_actadr[i]), int(plain.actuator_actnum[i])
                if count > 0 and model.actuator_dyntype[i] == plain.actuator_dyntype[i]:
                    at = int(model.actuator_actadr[i])
                    act[at : at + count] = plain.key_act[row, start : start + count]
            if act.any():
                key.act, has_any = act, True
        return has_any

    def _hand_over(self) -> list[float]:
        """Write armature, friction and limits of the motors to joints and actuators.

        Returns:
            The damping of each joint [N·m·s/rad or N·s/m].
        """
        loaded, plain, driven = self._loaded, self._plain, self._driven
        dry, viscous = loaded.at_rest(_DRY), loaded.at_rest(_VISCOUS)
        damping = np.where(np.isnan(viscous), driven.dof_damping[[joint.dof for joint in loaded.driven]], viscous)
        for i, joint in enumerate(loaded.driven):
            dof, at = joint.dof, int(plain.dof_jntid[joint.dof])
            own = self._joints[at]
            own.name = joint.name  # one without a name has that by which it is called here
            own.armature = float(driven.dof_armature[dof])
            own.damping = [damping[i], *driven.dof_dampingpoly[dof]]
            own.stiffness, own.springdamper = [plain.jnt_stiffness[at], *own.stiffness[1:]], (0.0, 0.0)
            own.frictionloss = float(driven.dof_frictionloss[dof] if np.isnan(dry[i]) else max(dry[i], _SLIGHTEST))
            own.solref_friction, own.solimp_friction = driven.dof_solref[dof], driven.dof_solimp[dof]
            if not plain.jnt_actgravcomp[at]:
                own.actfrclimited = False
        for i in self._own:
            gear = 1.0 if self._actuators[i].gear[0] == plain.actuator_gear[i, 0] else abs(plain.actuator_gear[i, 0])
            self._actuators[i].armature = float(driven.actuator_armature[i]) * gear**2
            poly = driven.actuator_damping[i], *driven.actuator_dampingpoly[i]
            self._actuators[i].damping = [term * gear ** (2 + power) for power, term in enumerate(poly)]
        return damping.tolist()

    def _silence(self, i: int) -> None:
        """Disable an actuator of the model. Its controls stay."""
        plain, actuator = self._plain, self._actuators[i]
        kinds = (mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtGain.mjGAIN_PID)
        if plain.actuator_gaintype[i] not in map(int, kinds):
            actuator.gaintype = mujoco.mjtGain.mjGAIN_FIXED
        if plain.actuator_dyntype[i] == int(mujoco.mjtDyn.mjDYN_DCMOTOR):
            actuator.dyntype = mujoco.mjtDyn.mjDYN_NONE
        actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
        actuator.gainprm, actuator.biasprm = np.zeros(mujoco.mjNGAIN), np.zeros(mujoco.mjNBIAS)
        actuator.inheritrange = 0.0
        self._keep_range(i)

    def _keep_range(self, i: int) -> None:
        """Set the range of an actuator with one control to that of the compiled model."""
        plain, actuator = self._plain, self._actuators[i]
        place = int(plain.actuator_ctrladr[i])
        if plain.actuator_ctrlnum[i] == 1:
            actuator.ctrllimited = bool(plain.actuator_ctrllimited[place])
            actuator.ctrlrange = plain.actuator_ctrlrange[place].copy()

    def _prepare(self, joint: _Driven) -> _Place:
        """Make the last activation of an actuator the effort of a joint."""
        plain, drives, name = self._plain, self._drives, joint.name
        at = int(plain.dof_jntid[joint.dof])
        target, velocity = (int(places[joint.dof]) for places in (drives.position, drives.velocity))
        servos = [servo.actuator for servo in drives.servos.get(joint.dof, []) if servo.position == target >= 0]
        fields = {
            "dyntype": mujoco.mjtDyn.mjDYN_USER,
            "actdim": self._depth + 1,
            "gainprm": _unit(mujoco.mjNGAIN, 0),
        }
        if servos and plain.actuator_ctrlnum[servos[0]] == 1:
            motor = self._actuators[servos[0]]
            for key, value in (_plain_actuator() | fields).items():
                setattr(motor, key, value)
            self._keep_range(servos[0])
        elif servos:
            motor = self._add(name, f"{name}_motor", **fields)
        else:
            motor = self._add(name, f"{name}_position", int(plain.jnt_qposadr[at]), **fields)
        place = _Place(motor, target, velocity)
        if "velocity" in self._inputs and velocity < 0:
            place.added_velocity = self._add(name, f"{name}_velocity")
        if "feedforward" in self._inputs:
            place.feedforward = self._add(name, f"{name}_feedforward")
        if joint.is_implicit:
            derivative = {"dyntype": mujoco.mjtDyn.mjDYN_USER, "actdim": 1, "gaintype": mujoco.mjtGain.mjGAIN_AFFINE}
            place.by_velocity = self._add(name, f"{name}_derivative_qd", **derivative, gainprm=_unit(mujoco.mjNGAIN, 2))
            if int(self._driven.opt.integrator) == int(mujoco.mjtIntegrator.mjINT_DISCRETE):
                place.by_position = self._add(
                    name, f"{name}_derivative_q", **derivative, gainprm=_unit(mujoco.mjNGAIN, 1)
                )
        return place

    def _joint(
        self, model: mujoco.MjModel, joint: _Driven, place: _Place, damping: float, by_name: Mapping[str, int]
    ) -> Any:
        number = self._number(place.motor, by_name)
        derivatives = [
            -1 if actuator is None else int(model.actuator_actadr[by_name[actuator.name]])
            for actuator in (place.by_velocity, place.by_position)
        ]
        return Joint(
            int(model.jnt_qposadr[model.dof_jntid[joint.dof]]),
            joint.dof,
            int(model.actuator_actadr[number]) + self._depth,
            *derivatives,
            self._control(place.target) if place.target >= 0 else self._own_control(model, place.motor, by_name),
            self._control(place.velocity)
            if place.velocity >= 0
            else self._own_control(model, place.added_velocity, by_name),
            self._own_control(model, place.feedforward, by_name),
            damping,
            int(model.dof_jntid[joint.dof]),
        )

    def _control(self, place: int) -> Any:
        """Return the reading of a control of the model's own servos."""
        return Control(place, float(self._drives.scale[place]), float(self._drives.offset[place]))

    def _own_control(self, model: mujoco.MjModel, actuator: Any, by_name: Mapping[str, int]) -> Any:
        """Return the reading of the control of an added actuator, or of none."""
        place = -1 if actuator is None else int(model.actuator_ctrladr[by_name[actuator.name]])
        return Control(place, 1.0, 0.0)


def _unit(size: int, at: int) -> np.ndarray:
    values = np.zeros(size)
    values[at] = 1.0
    return values


def _plain_actuator() -> dict[str, Any]:
    """Return the fields of an actuator without effect, independent of its default class."""
    return {
        "dyntype": mujoco.mjtDyn.mjDYN_NONE,
        "gaintype": mujoco.mjtGain.mjGAIN_FIXED,
        "biastype": mujoco.mjtBias.mjBIAS_NONE,
        "gainprm": np.zeros(mujoco.mjNGAIN),
        "biasprm": np.zeros(mujoco.mjNBIAS),
        "dynprm": np.zeros(mujoco.mjNDYN),
        "gear": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        "forcelimited": False,
        "forcerange": (0.0, 0.0),
        "actlimited": False,
        "actrange": (0.0, 0.0),
        "actearly": False,
        "delay": 0.0,
        "nsample": 0,
        "inheritrange": 0.0,
        "armature": 0.0,
        "damping": (0.0, 0.0, 0.0),
        "ctrllimited": False,
        "ctrlrange": (0.0, 0.0),
    }
