# SPDX-License-Identifier: Apache-2.0
"""`Simulation`: the interface that all engines share."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import RobotFileError, SimulationError
from ..typing import IdsLike, PathLike
from . import saving
from .engine import Engine, Undo
from .events import Event, Events, Subscription, refuse_copies
from .ids import ids_to_reset
from .motor import Motor
from .robots import DofSet, Robot

if TYPE_CHECKING:
    from pxr import Usd

_live: list[weakref.ref[Simulation]] = []


@dataclass(frozen=True, eq=False, repr=False)
class SavedState:
    """A saved state of a simulation. See `Simulation.save_state`."""

    time: float
    """Simulated time [s]."""
    engine: np.ndarray
    """State of the engine and targets, shape (environments, ...). In MuJoCo each row begins with the environment's
    ``mjSTATE_INTEGRATION``."""
    memories: dict[Any, Any] = field(default_factory=dict)
    """Memory of actuators on the robots, by serial number."""
    driven: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """Owner of each DOF, as in `Owners.table`."""
    loads: np.ndarray | None = None
    """External loads for stages in the next step [N·m or N], shape (environments, DOFs); None if not read."""

    def __repr__(self) -> str:
        return f"<SavedState of {len(self.engine)} environments at {self.time:.6g} s>"


class Owners:
    """Table of the actuators that drive each DOF.

    Args:
        robots: All robots.
    """

    def __init__(self, robots: Sequence[Robot]):
        self.table = np.zeros((len(robots), max(len(robot.dof_names) for robot in robots)), np.int64)
        """Number of the owner of each DOF, shape (robots, most DOFs); 0 for the engine."""
        self._follows = np.zeros(self.table.shape, dtype=bool)
        self._last = 0
        self.version = 0
        """Number that changes when a DOF gets or loses an owner."""

    def claim(self, at: DofSet, followed: np.ndarray | None = None) -> Undo:
        """Make the caller the only owner of these DOFs.

        Args:
            at: The DOFs.
            followed: DOFs whose targets the owner follows instead of the engine. Default: all.

        Returns:
            Function that releases them.

        Raises:
            SimulationError: One of them has an owner.
        """
        self._refuse(at, "is driven by other actuators already; close() them first")
        self._last += 1
        owner = self._last
        self.table[np.ix_(at.ids, at.dofs)] = owner
        self._follows[np.ix_(at.ids, at.dofs if followed is None else followed)] = True
        self.version += 1

        def release() -> None:
            mine = self.table == owner
            self.table[mine], self._follows[mine] = 0, False
            self.version += 1

        return release

    def check_free(self, at: DofSet) -> None:
        """Raise an error if one of these DOFs has an owner, before the engine's drives are changed."""
        self._refuse(
            at, "is driven by actuators, and the engine's own drive is off: set the actuators' gains, or close() them"
        )

    def _refuse(self, at: DofSet, why: str) -> None:
        driven = self.table[np.ix_(at.ids, at.dofs)] != 0
        if driven.any():
            row, column = np.argwhere(driven)[0]
            raise SimulationError(f"{at.joint(row, column)} {why}")

    def follow(self, at: DofSet) -> np.ndarray:
        """Return whether an owner follows the targets of a DOF, shape (n, d)."""
        return self._follows[np.ix_(at.ids, at.dofs)]


class Simulation:
    """A physics engine with one or many copies of the robots of a file.

    The newest simulation is the current one, the default of other interfaces. ``with simulation:`` makes it current,
    and closes it at the end.

    Args:
        engine: The engine.
        source: File of the robots.
        stage: USD stage of the robots.

    Examples:
        >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
        ...     print(actuon.current_simulation() is simulation)
        True
        >>> simulation.is_closed
        True
    """

    __reduce_ex__ = refuse_copies

    def __init__(self, engine: Engine, source: Path | None = None, stage: Usd.Stage | None = None):
        self.engine = engine
        """The engine."""
        self.source, self.stage = source, stage
        self.num_envs, self.device = engine.num_envs, engine.device
        self.robots = engine.robots
        """All robots, environment by environment."""
        if not self.robots:
            where = f"'{source}'" if source else "the model"
            raise RobotFileError(f"{where} holds no robot: no articulation with a revolute or prismatic joint")
        self.arrays = engine.state.arrays
        """Flat Warp arrays of positions, velocities, targets and efforts of all joints, as actuators read them."""
        self.owners = Owners(self.robots)
        """Actuators that drive each DOF."""
        self.common: dict[type, Any] = {}
        """Objects that actuators share, by class, such as batteries."""
        self._motors: list[weakref.ref[Motor]] = []
        self._undos: dict[object, contextlib.ExitStack] = {}
        self._events = Events()
        self._running = False
        self._stopped = False
        self._closed = False
        self._stepping = False
        _live.append(weakref.ref(self))

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self.engine.dt

    @property
    def time(self) -> float:
        """Simulated time since the start or the last reset of all environments [s]."""
        return self.engine.time

    @property
    def integrator(self) -> str:
        """Integrator of the engine, such as ``"implicitfast"``; empty if unknown."""
        return self.engine.implicit_efforts.integrator

    @property
    def integrator_changed(self) -> str:
        """Integrator of the file, if implicit motors replace it by another one; else empty."""
        return self.engine.implicit_efforts.integrator_changed

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def is_running(self) -> bool:
        """Whether physics is ready: from the first step or `start` until `stop`."""
        return self._running

    def subscribe(self, event: Event, callback: Callable[..., object]) -> Subscription:
        """Call ``callback(simulation, ...)`` at each ``event``. See `Event` for the other arguments.

        Returns:
            The subscription. Its `cancel` ends it.

        Examples:
            >>> times = []
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     kept = simulation.subscribe(actuon.Event.PRE_STEP, lambda _, dt: times.append(dt))
            ...     simulation.step(3)
            >>> times
            [0.002, 0.002, 0.002]
        """
        self.check_open()
        return self._events.subscribe(event, callback)

    def start(self) -> None:
        """Start physics. The first step does so as well.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     simulation.start()
            ...     print(simulation.is_running, simulation.time)
            True 0.0
        """
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
        """Stop physics. The next start begins from the first state.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     simulation.step(5)
            ...     simulation.stop()
            ...     simulation.start()
            ...     print(simulation.time)
            0.0
        """
        if self._running:
            self._running, self._stopped = False, True
            self._events.fire(Event.STOP, self)

    def step(self, n: int = 1) -> None:
        """Advance by ``n`` time steps, or until a callback stops the simulation.

        Raises:
            SimulationError: A position or velocity is NaN, infinite or beyond 1e10; no further step is taken. Or
                options of the engine were changed so that it ignores actuators.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, dt=0.001) as simulation:
            ...     simulation.step(20)
            ...     print(round(simulation.time, 6))
            0.02
        """
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
            raise SimulationError(f"n: got {n!r}; must be a whole number ≥ 0")
        if self._stepping:
            raise SimulationError("a callback of a step cannot step the simulation")
        engine, events = self.engine, self._events
        engine.check_options()
        self.start()
        self._stepping = True
        try:
            engine.state.refresh()
            self._check_state()
            while n:
                is_heard = events.has_any(Event.PRE_STEP, Event.POST_STEP)
                if is_heard:
                    events.fire(Event.PRE_STEP, self, self.dt)
                    if not self._running:
                        return
                    engine.state.refresh()
                begin = engine.time
                try:
                    n -= engine.step(1 if is_heard else n, self.motors)
                finally:
                    if is_heard and engine.time != begin:  # if one environment fails, the others have taken the step
                        events.fire(Event.POST_STEP, self, engine.dt)
                if is_heard:
                    if not self._running:
                        return
                    engine.state.refresh()
                self._check_state()
        finally:
            self._stepping = False

    def _check_state(self) -> None:
        engine, watch = self.engine, self.engine.watch
        is_sound = engine.is_sound()
        if watch is not None and not (is_sound and watch.time == engine.time):
            watch.check(engine.time, engine.dt, is_sound)

    @property
    def motors(self) -> list[Motor]:
        """Actuators that are stepped before each step of physics, in the order of their attachment."""
        return [motor for reference in self._motors if (motor := reference()) is not None]

    def add_motor(self, motor: Motor) -> Callable[[], None]:
        """Step actuators before each step of physics, by a weak reference. Returns a function that ends this."""
        reference = weakref.ref(motor)
        self._motors.append(reference)

        def remove() -> None:
            self._motors[:] = [other for other in self._motors if other is not reference]

        return remove

    def undo_with(self, owner: object, undo: contextlib.ExitStack) -> Callable[[], object]:
        """Close ``undo``, which must not refer to ``owner``, when ``owner`` is deleted.

        Nothing is undone in a simulation that is closed, or that is deleted in the same cycle of references: its arrays
        may be freed by then.

        Returns:
            Function that closes it earlier, once.
        """
        key = object()
        self._undos[key] = undo  # here, and not in the finalizer, which would keep the simulation alive
        finalizer = weakref.finalize(owner, _undo, weakref.ref(self), key)
        finalizer.atexit = False
        return finalizer

    def drive(self, motor: Motor, dt: float) -> None:
        """Step actuators, and write their efforts, without physics."""
        self.engine.drive(motor, self.motors, dt)

    def solves_friction(self, at: DofSet) -> bool:
        """Return whether the engine solves dry and viscous friction of joints."""
        return all(self.engine.properties.get(name, at) is not None for name in ("friction", "viscous_friction"))

    def unused_targets(self, kind: str, at: DofSet) -> np.ndarray | None:
        """Return whether neither engine nor actuators follow targets, shape (n, d); None if all are followed."""
        by_engine = self.engine.drives.follows(kind, at)
        if by_engine is None or by_engine.all():
            return None
        unused = ~by_engine & ~self.owners.follow(at)
        return unused if unused.any() else None

    def reset(self, env_ids: IdsLike = None) -> None:
        """Return environments to their first state. The others are not changed.

        Args:
            env_ids: Which environments: whole numbers, a slice or a mask. Default: all, which also resets the time.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=3) as simulation:
            ...     simulation.step(10)
            ...     simulation.reset([1])
            ...     print(actuon.Articulation("link0").get_dof_velocities().numpy().any(axis=1))
            [ True False  True]
        """
        self.check_open()
        ids = ids_to_reset("env_ids", env_ids, self.num_envs)
        if not ids.size:
            return
        if self.engine.watch is not None:
            self.engine.watch.forget()
        if env_ids is None:
            self._rewind()
        else:
            self.engine.state.reset(ids)
        self._events.fire(Event.RESET, self, ids)

    def save_state(self) -> SavedState:
        """Return all that the next steps depend on, except properties and parameters.

        It has the state of the engine, targets, efforts, and the memory of actuators. If the simulation is not running,
        it is started, as a start clears memory.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     start = simulation.save_state()
            ...     simulation.step(10)
            ...     simulation.load_state(start)
            ...     print(simulation.time)
            0.0
        """
        self.start()
        saved = SavedState(
            self.time, self.engine.state.save(), driven=self.owners.table.copy(), loads=self.engine.state.loads()
        )
        self._events.fire(Event.SAVE, self, saved.memories)
        return saved

    def load_state(self, saved: SavedState, env_ids: IdsLike = None) -> None:
        """Return to a state of `save_state`. The steps after it repeat bit for bit. A state can be loaded many times.

        Args:
            saved: A state of this simulation.
            env_ids: Which environments: whole numbers, a slice or a mask. The others are not changed. Default: all,
                which also resets the time.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2) as simulation:
            ...     start = simulation.save_state()
            ...     simulation.step(10)
            ...     simulation.load_state(start, env_ids=[0])
            ...     print(actuon.Articulation("link0").get_dof_velocities().numpy().any(axis=1))
            [False  True]
        """
        self.check_open()
        shapes = self.engine.state.save().shape, self.owners.table.shape
        if not isinstance(saved, SavedState) or (saved.engine.shape, saved.driven.shape) != shapes:
            raise SimulationError(
                f"saved: got {saved!r}; must be a result of save_state() of this simulation, with no drives added or "
                "removed since"
            )
        new = np.argwhere((self.owners.table != 0) & (self.owners.table != saved.driven))
        if len(new):
            robot, dof = new[0].tolist()
            where = f"joint '{self.robots[robot].dof_names[dof]}' of '{self.robots[robot].path}'"
            raise SimulationError(
                f"the state was saved before these actuators were attached, on {where}; attach first, then save"
            )
        ids = ids_to_reset("env_ids", env_ids, self.num_envs)
        if not ids.size:
            return
        self.start()
        if self.engine.watch is not None:
            self.engine.watch.forget()
        self._events.fire(Event.LOAD, self, saved.memories, ids)
        if env_ids is None:
            self.engine.time = saved.time
        self.engine.state.load(ids, saved.engine[ids])
        if saved.loads is not None:
            self.engine.state.set_loads(ids, saved.loads[ids])
        self._take_efforts_off(ids, (saved.driven != 0) & (self.owners.table == 0))

    def save(self, path: PathLike) -> None:
        """Write all that the next steps depend on to a file, for `load` in this or another process.

        The file has the contents of `save_state`, the engine's properties, options such as the time step, and the
        present parameters of actuators. If the simulation is not running, it is started.

        Args:
            path: An ``.npz`` file, written whole or not at all.

        Raises:
            StateError: The memory of an actuator has NaN, because a joint diverged.
            SimulationError: A position or velocity is not finite.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     simulation.step(5)
            ...     simulation.save("run.state")
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     simulation.load("run.state")
            ...     print(simulation.time)
            0.01
        """
        self.start()
        self.engine.state.refresh()
        self._check_state()
        saving.save(self, path)

    def load(self, path: PathLike) -> None:
        """Load a file of `save`. The steps after it repeat bit for bit. Starts the simulation if needed.

        Args:
            path: A file of a simulation of the same robot file, with the same number of environments, and the same
                actuators attached in the same order. It also sets their parameters and the engine's properties.

        Raises:
            StateError: The file cannot be read, is damaged, or is from another simulation or other actuators; the error
                describes the difference. Nothing is changed.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     simulation.step(5)
            ...     simulation.save("run.state")
            ...     simulation.reset()
            ...     simulation.load("run.state")
            ...     print(simulation.time)
            0.01
        """
        self.check_open()
        take = saving.load(self, path)
        self.start()
        if self.engine.watch is not None:
            self.engine.watch.forget()
        take()

    def _take_efforts_off(self, env_ids: np.ndarray, driven: np.ndarray) -> None:
        """Apply no effort to DOFs whose actuators are closed: a saved state has their last one."""
        is_loaded = np.isin([robot.env for robot in self.robots], env_ids)
        for dof in np.flatnonzero(driven.any(axis=0)):
            ids = np.flatnonzero(is_loaded & driven[:, dof])
            for _, rows in DofSet(self.robots, ids, np.array([dof])).kinds if ids.size else ():
                at = DofSet(self.robots, ids[rows], np.array([dof]))
                self.engine.state.write("joint_f", at, np.zeros(at.shape, np.float32))

    def _rewind(self) -> None:
        self.engine.time = 0.0
        self.engine.state.reset(np.arange(self.num_envs))

    def close(self) -> None:
        """Stop, and release the engine. May be called again.

        Examples:
            >>> simulation = actuon.MujocoSimulation(actuon.assets.arm_mjcf)
            >>> simulation.step()
            >>> simulation.close()
            >>> simulation.is_closed
            True
        """
        if self._closed:
            return
        self.stop()
        self._closed = True
        self._events.clear()
        self.hide()

    def check_open(self) -> None:
        """Raise an error if the simulation is closed."""
        if self._closed:
            raise SimulationError("the simulation is closed")

    def hide(self) -> None:
        """Keep the simulation from becoming the `current_simulation`, except by ``with``."""
        _live[:] = [ref for ref in _live if ref() is not self]

    def __enter__(self) -> Self:
        self.check_open()
        _live[:] = [*(ref for ref in _live if ref() is not self), weakref.ref(self)]
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def check_arguments(num_envs: Any, dt: Any) -> None:
    """Raise an error for an invalid number of environments or time step."""
    if isinstance(num_envs, bool) or not isinstance(num_envs, (int, np.integer)) or num_envs < 1:
        raise SimulationError(f"num_envs: got {num_envs!r}; must be a whole number ≥ 1")
    is_number = isinstance(dt, (int, float, np.number)) and not isinstance(dt, bool)
    if dt is not None and not (is_number and 0.0 < dt < math.inf):
        raise SimulationError(f"dt: got {dt!r}; must be a finite number > 0 [s]")


def _undo(reference: weakref.ref[Simulation], key: object) -> None:
    simulation = reference()
    if simulation is None:
        return
    undo = simulation._undos.pop(key)
    if not simulation.is_closed:
        undo.close()


def current_simulation() -> Simulation:
    """Return the default simulation: that of the innermost ``with`` block, or the newest one.

    Raises:
        SimulationError: No simulation is open.

    Examples:
        >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf):
        ...     actuon.current_simulation().step(3)
    """
    alive = live_simulations()
    if not alive:
        raise SimulationError(
            "there is no simulation; make one, such as MujocoSimulation('robot.xml'), or pass simulation="
        )
    return alive[-1]


def live_simulations() -> list[Simulation]:
    """Return all open simulations, the current one last."""
    return [simulation for ref in _live if (simulation := ref()) is not None]
