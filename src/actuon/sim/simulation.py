# SPDX-License-Identifier: Apache-2.0
"""`Simulation`: what all engines have in common."""

from __future__ import annotations

import abc
import math
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import warp as wp

from ..errors import RobotFileError, SimulationError
from ..typing import DeviceLike, IdsLike, PathLike
from . import saving
from .claims import TARGETS, Claims
from .divergence import StateWatch
from .engine_bodies import EngineBodies
from .engine_drives import EngineDrives
from .events import Event, Events, Subscription
from .ids import ids_to_reset
from .motor import Motor
from .uncopyable import Uncopyable

if TYPE_CHECKING:
    from pxr import Usd

STATE = ("joint_q", "joint_qd")
CONTROL = (*TARGETS, "joint_f")
_live: list[weakref.ref[Simulation]] = []


@dataclass(frozen=True, eq=False, repr=False)
class SavedState:
    """A state of a simulation to come back to. See `Simulation.save_state`."""

    time: float
    """Simulated time [s]."""
    engine: np.ndarray
    """State of the engine and targets, shape (environments, ...). In MuJoCo each row begins with the environment's
    ``mjSTATE_INTEGRATION``."""
    memories: dict[Any, Any] = field(default_factory=dict)
    """What actuators on the robots remembered, by what they call themselves."""
    driven: dict[tuple[int, int], int] = field(default_factory=dict)
    """DOFs that had actuators, as indices into ``robots`` and columns of these, and whose they were."""
    loads: np.ndarray | None = None
    """External loads that stages read in the next step [N·m or N], shape (environments, DOFs); None where none does."""

    def __repr__(self) -> str:
        return f"<SavedState of {len(self.engine)} environments at {self.time:.6g} s>"


class Simulation(Claims, EngineBodies, EngineDrives, Uncopyable, abc.ABC):
    """A physics engine with one or many copies of what a file holds.

    The newest is the current one, which is used where none is passed; ``with simulation:`` makes it the current one,
    and closes it at the end.
    """

    arrays: SimpleNamespace
    """Positions, velocities, targets and efforts of all joints, flat Warp arrays, as actuators read them."""
    no_limit: float = math.inf
    """How the engine says that a joint has no limit of effort or speed."""
    steps_single_robots: bool = False
    """Whether the engine steps actuators robot by robot, in compiled code."""
    source: Path | None = None
    """The file that it was made from."""
    stage: Usd.Stage | None = None
    """The USD stage that it was made from."""

    def __init__(self, num_envs: int, dt: float, device: DeviceLike):
        self.num_envs = num_envs
        self._dt = dt
        self.device = wp.get_device(device)
        self.common: dict[type, Any] = {}
        """Objects that actuators on its robots share, by class, such as batteries."""
        self._motors: list[weakref.ref[Motor]] = []
        self._events = Events()
        self._time = 0.0
        self._running = False
        self._stopped = False
        self._reset_claims()
        self._closed = False
        self._stepping = False
        self._watch: StateWatch | None = None

    def _be_current(self) -> None:
        """To be called when everything is there: one whose construction failed is never listed."""
        if not self.robots:
            where = f"'{self.source}'" if self.source else "the model"
            raise RobotFileError(f"{where} holds no robot: no articulation with a revolute or prismatic joint")
        if self.device.is_cpu:
            self._watch = StateWatch(self.robots, self.num_envs, self.arrays)
        _live.append(weakref.ref(self))

    @staticmethod
    def _check_arguments(num_envs: Any, dt: Any) -> None:
        if isinstance(num_envs, bool) or not isinstance(num_envs, (int, np.integer)) or num_envs < 1:
            raise SimulationError(f"num_envs: got {num_envs!r}; must be a whole number ≥ 1")
        is_number = isinstance(dt, (int, float, np.number)) and not isinstance(dt, bool)
        if dt is not None and not (is_number and 0.0 < dt < math.inf):
            raise SimulationError(f"dt: got {dt!r}; must be a finite number > 0 [s]")

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self._dt

    @property
    def time(self) -> float:
        """Simulated time since the start or the last reset of everything [s]."""
        return self._time

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def is_running(self) -> bool:
        """Whether physics is ready: from the first step or `start` until `stop`."""
        return self._running

    def subscribe(self, event: Event, callback: Callable[..., object]) -> Subscription:
        """Call ``callback(simulation, ...)`` at each ``event``. See `Event` for what else it gets.

        Returns:
            What to `cancel` to be called no more.
        """
        self.check_open()
        return self._events.subscribe(event, callback)

    def start(self) -> None:
        """Make physics ready. The first step does so too."""
        self.check_open()
        if self._running:
            return
        if self._stopped:
            self._rewind()
        self._running = True
        try:
            self._events.fire(Event.PHYSICS_READY, self)
        except BaseException:
            self._running = False
            raise

    def stop(self) -> None:
        """End the run. The next start begins from the first state."""
        if self._running:
            self._running, self._stopped = False, True
            self._events.fire(Event.STOP, self)

    def step(self, n: int = 1) -> None:
        """Advance by ``n`` time steps, or until a callback stops the simulation.

        Raises:
            SimulationError: A position or velocity is NaN, infinite or beyond 1e10: nothing is stepped or written from
                then on. Or options of the engine were changed, so that it ignores what actuators hand over.
        """
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
            raise SimulationError(f"n: got {n!r}; must be a whole number ≥ 0")
        if self._stepping:
            raise SimulationError("a callback of a step cannot step the simulation")
        self._check_options()
        self.start()
        self._stepping = True
        try:
            self.refresh()
            self._check_state()
            while n:
                is_heard = self._events.has_any(Event.PRE_STEP, Event.POST_STEP)
                if is_heard:
                    self._events.fire(Event.PRE_STEP, self, self.dt)
                    if not self._running:
                        return
                    self.refresh_targets()
                n -= self._advance(1 if is_heard else n)
                if is_heard:
                    self._events.fire(Event.POST_STEP, self, self._dt)
                    if not self._running:
                        return
                    self.refresh()
                self._check_state()
        finally:
            self._stepping = False

    @property
    def motors(self) -> list[Motor]:
        """Actuators that are stepped before each step of physics, in the order in which they were attached."""
        return [motor for reference in self._motors if (motor := reference()) is not None]

    def add_motor(self, motor: Motor) -> Callable[[], None]:
        """Step actuators before each step of physics, without keeping them alive. Returns what ends that."""
        reference = weakref.ref(motor)
        self._motors.append(reference)

        def remove() -> None:
            self._motors[:] = [other for other in self._motors if other is not reference]

        return remove

    @property
    def dofs_per_env(self) -> int:
        """DOFs of an environment, of free bases too."""
        return len(self.arrays.joint_qd) // self.num_envs

    def drive(self, motor: Motor, dt: float) -> bool:
        """Step actuators at once, in compiled code. False where they have to be stepped from Python."""
        return False

    def _step_motors(self) -> None:
        """Step the actuators from Python."""
        for motor in self.motors:
            if motor.is_stepped:
                motor.step_in_python(self._dt)

    def _check_options(self) -> None:
        """Refuse options of the engine with which it ignores what it was handed."""

    def reset(self, env_ids: IdsLike = None) -> None:
        """Bring environments back to their first state. The others are not touched.

        Args:
            env_ids: Which ones: whole numbers, a slice or a mask. None of them: nothing happens. Default: all, and the
                time too.
        """
        self.check_open()
        ids = ids_to_reset("env_ids", env_ids, self.num_envs)
        if not ids.size:
            return
        if self._watch is not None:
            self._watch.forget()
        if env_ids is None:
            self._rewind()
        else:
            self._reset(ids)
        self._events.fire(Event.RESET, self, ids)

    def save_state(self) -> SavedState:
        """Keep everything that the next steps depend on, but for properties and parameters.

        That is the state of the engine, targets and efforts, and what actuators on the robots remember.
        """
        self.check_open()
        saved = SavedState(self._time, self._engine_state(), driven=dict(self._claims), loads=self._told_loads())
        self._events.fire(Event.SAVE, self, saved.memories)
        return saved

    def load_state(self, saved: SavedState, env_ids: IdsLike = None) -> None:
        """Go back to a state of `save_state`, from which steps go on bit for bit. It can be loaded any number of times.

        Args:
            saved: A state of this simulation.
            env_ids: Which environments: whole numbers, a slice or a mask. Default: all, and the time too. The others
                are not touched.
        """
        self.check_open()
        shape = self._engine_state().shape
        if not isinstance(saved, SavedState) or saved.engine.shape != shape:
            raise SimulationError(
                f"saved: got {saved!r}; must be what save_state() of this simulation returned, with no drives added to "
                "the model or taken away since"
            )
        new = sorted(place for place, _ in self._claims.items() - saved.driven.items())
        if new:
            robot, dof = new[0]
            where = f"joint '{self.robots[robot].dof_names[dof]}' of '{self.robots[robot].path}'"
            raise SimulationError(
                f"the state was saved before these actuators were attached, on {where}; attach first, then save"
            )
        ids = ids_to_reset("env_ids", env_ids, self.num_envs)
        if not ids.size:
            return
        self.start()
        if self._watch is not None:
            self._watch.forget()
        self._events.fire(Event.LOAD, self, saved.memories, ids)
        if env_ids is None:
            self._time = saved.time
        self._load_engine_state(ids, saved.engine[ids])
        if saved.loads is not None:
            self._tell_loads(ids, saved.loads[ids])
        self._take_efforts_off(ids, saved.driven.keys() - self._claims.keys())

    def save(self, path: PathLike) -> None:
        """Write everything that the next steps depend on to a file, for `load` in this or another process.

        That is what `save_state` keeps, the properties that the engine holds, options such as the time step, and the
        parameters of actuators, as they were written or drawn. Starts a simulation that is not running, as its next
        step would.

        Args:
            path: An ``.npz`` file. It is written whole, or not at all.

        Raises:
            StateError: An actuator remembers NaN, of a joint that diverged.
            SimulationError: A position or velocity is not finite.
        """
        self.start()
        self.refresh()
        self._check_state()
        saving.save(self, path)

    def load(self, path: PathLike) -> None:
        """Go back to what `save` wrote, from which steps go on bit for bit. Starts a simulation that is not running.

        Args:
            path: A file of a simulation that was made from the same robot file, with as many environments and the same
                actuators attached in the same order. Nothing else need be the same.

        Raises:
            StateError: The file cannot be read, is damaged, or is that of another simulation or other actuators; says
                how they differ. Nothing is changed then.
        """
        self.check_open()
        take = saving.load(self, path)
        self.start()
        if self._watch is not None:
            self._watch.forget()
        take()

    def _take_efforts_off(self, env_ids: np.ndarray, driven: Iterable[tuple[int, int]]) -> None:
        """Apply no effort to DOFs whose actuators are closed: a saved state holds the last one that they gave."""
        for robot, dof in driven:
            if self.robots[robot].env in env_ids:
                self.write("joint_f", np.array([robot]), np.array([dof]), np.zeros((1, 1), np.float32))

    def _rewind(self) -> None:
        self._time = 0.0
        self._reset(np.arange(self.num_envs))

    def close(self) -> None:
        """Stop, and let go of the engine. May be called again."""
        if self._closed:
            return
        self.stop()
        self._closed = True
        self._events.clear()
        self.hide()

    def check_open(self) -> None:
        """Refuse to use what is closed."""
        if self._closed:
            raise SimulationError("the simulation is closed")

    def hide(self) -> None:
        """Do not be the `current_simulation`, unless entered by ``with``: for one that a program keeps to itself."""
        _live[:] = [ref for ref in _live if ref() is not self]

    def __enter__(self) -> Self:
        self.check_open()
        _live[:] = [*(ref for ref in _live if ref() is not self), weakref.ref(self)]
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check_state(self) -> None:
        if self._watch is not None:
            self._watch.check(self._time, self._dt, self._is_sound())

    def _is_sound(self) -> bool:
        """Whether no position or velocity is NaN, infinite or huge. To be overridden by an engine that knows."""
        return self._watch is None or self._watch.is_sound()

    @abc.abstractmethod
    def refresh(self) -> None:
        """Bring ``arrays`` up to date with the engine."""

    @abc.abstractmethod
    def refresh_targets(self) -> None:
        """Bring the targets in ``arrays`` up to date, as far as they may have changed since `refresh`."""

    @abc.abstractmethod
    def _advance(self, steps: int) -> int:
        """Step motors and physics, at least once and at most so often, count the time, and refresh.

        Returns:
            How many steps were taken.
        """

    @abc.abstractmethod
    def _reset(self, env_ids: np.ndarray) -> None:
        """Bring environments back to their first state and targets. There is at least one, and each is named once."""

    @abc.abstractmethod
    def _engine_state(self) -> np.ndarray:
        """State, targets and efforts of all environments, to be kept, shape (environments, ...)."""

    @abc.abstractmethod
    def _load_engine_state(self, env_ids: np.ndarray, state: np.ndarray) -> None:
        """Put environments into such a state, of shape (n, ...)."""

    @abc.abstractmethod
    def _engine_description(self) -> dict[str, str]:
        """What of the engine and its model must be the same for a file of `save` to fit: texts by label."""

    @abc.abstractmethod
    def _properties(self) -> dict[str, np.ndarray]:
        """What the engine's model holds and may be changed, by name, not copied."""

    @abc.abstractmethod
    def _checked_properties(self, where: str, found: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Refuse properties of a file that do not fit. Returns what takes them over.

        Args:
            where: What to call the file in an error.
            found: What `_properties` gave.
        """

    def _told_loads(self) -> np.ndarray | None:
        """External loads that `load_reader` tells next [N·m or N], copied, shape (environments, DOFs); None: none."""
        return None

    def _tell_loads(self, env_ids: np.ndarray, loads: np.ndarray) -> None:
        """Let `load_reader` tell such loads, of shape (n, DOFs), until the next step. The state is loaded before."""

    @abc.abstractmethod
    def write(self, kind: str, robots: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        """Set values in the engine.

        Args:
            kind: One of `STATE` or `CONTROL`.
            robots: Which robots, indices into ``robots``, shape (n,).
            dofs: Which DOFs of each, shape (d,).
            values: float32 of shape (n, d).
        """

    @abc.abstractmethod
    def effort_writer(self, robots: np.ndarray, dofs: np.ndarray, efforts: wp.array) -> Callable[[], None]:
        """Return what hands ``efforts``, float32 of shape (n, D), to the engine at each call, for these DOFs only."""

    @abc.abstractmethod
    def silence_drives(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        """Make the engine's own drives push no more on these DOFs.

        Returns:
            What gives them back as they were.
        """

    @abc.abstractmethod
    def silent_drives(self, robots: np.ndarray) -> np.ndarray:
        """Whether the engine holds no drive that pushes on a DOF, read back from it, shape (n, D)."""

    @abc.abstractmethod
    def dof_property(self, name: str, robots: np.ndarray) -> np.ndarray | None:
        """Return a property of joints as the engine holds it, shape (n, D). None where it makes no use of it.

        ``"armature"`` [kg·m²], ``"friction"`` [N·m], ``"viscous_friction"`` [N·m·s/rad], ``"quadratic_friction"``
        [N·m·s²/rad²], ``"cubic_friction"`` [N·m·s³/rad³], ``"effort_limit"`` [N·m] or ``"velocity_limit"`` [rad/s],
        with what the engine's own actuators add to inertia and friction.
        """

    def solves_friction(self, robots: np.ndarray) -> bool:
        """Return True if the engine solves dry and viscous friction of joints."""
        return all(self.dof_property(name, robots) is not None for name in ("friction", "viscous_friction"))

    @abc.abstractmethod
    def keep_properties(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        """Return what gives these DOFs their properties back as they are now, to the last bit."""

    @abc.abstractmethod
    def set_dof_property(self, name: str, robots: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        """Set such a property, for values of shape (n, d). The engine's own actuators then add nothing to it."""

    def property_writer(self, name: str, robots: np.ndarray, dofs: np.ndarray, values: wp.array) -> Callable[[], None]:
        """Return what hands ``values``, float32 of shape (n, D), to the engine at each call, for these DOFs only.

        For properties that change at every step: ``"friction"`` and ``"viscous_friction"``.
        """
        return lambda: self.set_dof_property(name, robots, dofs, values.numpy()[:, dofs])

    @abc.abstractmethod
    def dof_limits(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest position of joints [rad or m], each of shape (n, D); ±inf where there is no stop."""

    @abc.abstractmethod
    def set_dof_limits(self, robots: np.ndarray, dofs: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        """Set these, each of shape (n, d)."""

    @abc.abstractmethod
    def gains(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Stiffness and damping of the drives that the engine holds, each of shape (n, D)."""

    @abc.abstractmethod
    def set_gains(self, robots: np.ndarray, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        """Set stiffness and damping of the engine's drives, each of shape (n, d)."""


def current_simulation() -> Simulation:
    """The simulation used where none is passed: the newest one, or that of the innermost ``with`` block.

    Raises:
        SimulationError: There is none.
    """
    alive = live_simulations()
    if not alive:
        raise SimulationError(
            "there is no simulation; make one, such as MujocoSimulation('robot.xml'), or pass simulation="
        )
    return alive[-1]


def live_simulations() -> list[Simulation]:
    """All that are open, the current one last."""
    return [simulation for ref in _live if (simulation := ref()) is not None]
