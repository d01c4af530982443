# SPDX-License-Identifier: Apache-2.0
"""`Attachment`: chains on robots of a simulation, from attaching them to `close`."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import warp as wp

from ..actuator.actuator import Actuator
from ..actuator.state import check_like, read_arrays, write_arrays
from ..errors import ActuonError, ParameterError, SimulationError, listed
from ..kernel.launch import DOFS_PER_THREAD
from ..sim import Articulation, Event
from ..sim.engine import ImplicitRefusedError
from ..sim.events import refuse_copies, subscribe_weakly
from ..sim.ids import ids_to_reset
from ..sim.motor import MotorKernels, MotorProgram
from ..stability.advice import advice, log as stability_log
from ..stability.limits import stability_of, usage_of_gains, usages_of
from ..typing import ArrayLike, IdsLike, PathLike
from .chain_set import COMPUTED, ChainSet, Places, to_change
from .hand_overs import (
    EffortLimits,
    Efforts,
    ExplicitEfforts,
    HandOver,
    ImplicitEfforts,
    Inputs,
    LimitedEfforts,
    RotorInertia,
    SolvedFriction,
    calls_of,
    in_turn,
    joint_ranges,
)
from .telemetry import Telemetry, make_telemetry, trip_log

SHARE = 0.5
"""Share of the stability limit above which ``effort_mode="auto"`` makes an explicit effort implicit."""

_serial = itertools.count()

_log = logging.getLogger("actuon.actuators")

_PHASES = {"renew": HandOver.renew, "before": HandOver.before, "after": HandOver.after, "has_run": HandOver.has_run}
"""Methods that steps call of hand-overs that define them."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of an attachment: chains, and their hand-overs to the engine."""

    chains: ChainSet
    efforts: Efforts
    columns: np.ndarray
    """Owned DOFs, shape (d,)."""
    followed: np.ndarray | None
    """Owned DOFs whose targets the chains follow, and not the engine. None: all."""
    hand_overs: Sequence[HandOver]
    limits: EffortLimits
    implicit_efforts: ImplicitEfforts | None
    """Implicit efforts."""

    @classmethod
    def of(
        cls,
        articulation: Articulation,
        chains: ChainSet,
        efforts: Efforts,
        columns: np.ndarray,
        implicit: np.ndarray,
        first: Sequence[HandOver],
        *,
        followed: np.ndarray | None = None,
        limited: Sequence[LimitedEfforts] | None = None,
        ranges: Callable[[], tuple[np.ndarray, np.ndarray] | None] | None = None,
    ) -> Parts:
        """Return parts that hand over inertia, friction and efforts.

        Args:
            articulation: The robots.
            chains: Their chains.
            efforts: Arrays of their efforts.
            columns: Owned DOFs.
            implicit: DOFs whose efforts are implicit.
            first: Earlier hand-overs.
            followed: DOFs whose targets the chains follow. Default: all.
            limited: DOFs whose efforts are limited. Default: all.
            ranges: As for `EffortLimits`. Default: `joint_ranges`.
        """
        explicit = np.setdiff1d(columns, implicit)
        hand_overs = [*first, RotorInertia(articulation, chains), SolvedFriction(articulation, chains)]
        implicit_efforts = None
        if implicit.size:
            implicit_efforts = ImplicitEfforts(articulation, implicit, chains, efforts)
            hand_overs.append(implicit_efforts)
        if explicit.size:
            own = explicit if followed is None else np.intersect1d(explicit, followed)
            hand_overs.append(ExplicitEfforts(articulation, explicit, own, efforts))
        if limited is None:
            both = (explicit, False), (implicit, True)
            limited = [LimitedEfforts(own, is_implicit) for own, is_implicit in both if own.size]
        ranges = functools.partial(joint_ranges, articulation) if ranges is None else ranges
        limits = EffortLimits(articulation, efforts, limited, ranges, implicit_efforts)
        return cls(chains, efforts, columns, followed, [*hand_overs, limits], limits, implicit_efforts)


def robot_numbers(articulation: Articulation) -> tuple[np.ndarray, np.ndarray]:
    """Number robots and DOFs uniquely in a simulation.

    Robots are counted through the environments, one kind after the other, so that the first kind has the same numbers
    as without the others.

    Returns:
        Number of each robot, and of its first DOF, each of shape (N,).
    """
    simulation = articulation.simulation
    order = np.arange(len(simulation.robots)).reshape(simulation.num_envs, -1).T.ravel()
    widths = np.array([len(simulation.robots[i].dofs) for i in order])
    numbers, first_dofs = np.empty_like(order), np.empty_like(order)
    numbers[order], first_dofs[order] = np.arange(len(order)), np.cumsum(widths) - widths
    return numbers[articulation.robot_ids], first_dofs[articulation.robot_ids]


def places_of(articulation: Articulation) -> Places:
    """Return the indices of DOFs of robots in the arrays of their simulation."""
    at = articulation.at
    return Places(at.flat("joint_qd"), at.flat("joint_q"), at.flat("joint_target_q"))


def chains_on(
    articulation: Articulation,
    actuators: Sequence[Actuator],
    output: str = "joint_f",
    names: Sequence[str] | None = None,
) -> ChainSet:
    """Return chains over the arrays of a simulation.

    Args:
        articulation: The robots.
        actuators: Their ``effort_indices`` count through robots and DOFs.
        output: Name of the array to which they write efforts.
        names: Name of each actuator in files.
    """
    simulation = articulation.simulation
    numbers, first_dofs = robot_numbers(articulation)
    arrays, count = simulation.arrays, len(articulation) * articulation.num_dofs
    return ChainSet(
        actuators,
        *(len(articulation), articulation.dof_names, simulation.device),
        given={
            "joint_target_q": arrays.joint_target_q,
            "joint_target_qd": arrays.joint_target_qd,
            "joint_act": wp.zeros_like(arrays.joint_qd),
            **{name: wp.zeros(count, dtype=wp.float32, device=simulation.device) for name in (output, COMPUTED)},
        },
        num_velocities=arrays.joint_qd.size,
        numbers=(numbers[:, None], first_dofs[:, None] + np.arange(articulation.num_dofs)),
        names=names,
        shares_batteries=True,
    )


class Attachment:
    """Owner of DOFs of robots, which it drives until `close` or until it is deleted.

    Args:
        articulation: The robots.
        build: Returns its parts, given the DOFs with implicit efforts, shape (d,).
        implicit: DOFs whose efforts are implicit, shape (d,).
        auto: DOFs whose efforts become implicit if they use more than half of the stability limit.
        auto_step: Whether each step of physics steps the actuators.
    """

    __reduce_ex__ = refuse_copies

    _closed = True

    def __init__(
        self,
        articulation: Articulation,
        build: Callable[[np.ndarray], Parts],
        implicit: np.ndarray,
        auto: np.ndarray,
        auto_step: bool = True,
    ):
        self.articulation = articulation
        """The robots."""
        self._auto_step = auto_step
        self._serial = next(_serial)
        self._attach(build(implicit))
        if auto.size:
            self._make_implicit(build, implicit, auto)
        self._warn_if_unstable()

    def _attach(self, parts: Parts) -> None:
        """Take ownership of DOFs. If that fails, the engine is restored."""
        articulation, simulation = self.articulation, self.articulation.simulation
        _refuse_second_battery(articulation, parts.chains)
        self._chains, self._efforts, self._limits = parts.chains, parts.efforts, parts.limits
        self._implicit_efforts = parts.implicit_efforts
        self._implicit = np.zeros(0, np.int64) if parts.implicit_efforts is None else parts.implicit_efforts.columns
        self._feedforward: wp.array = parts.chains.arrays["joint_act"]
        """Feedforward of controllers [N·m or N], flat as the simulation's velocities."""
        self._velocity = wp.zeros_like(simulation.arrays.joint_qd)
        """Velocities at the last actuator step [rad/s or m/s], flat as the simulation's."""
        self._trips = trip_log(parts.chains, [f"'{path}'" for path in articulation.paths])
        self._hand_overs: list[HandOver] = [Inputs(articulation, parts.chains, self._feedforward), *parts.hand_overs]
        self._renewing, self._before, self._after, self._shown = (
            [getattr(each, name) for each in self._hand_overs if getattr(type(each), name) is not own]
            for name, own in _PHASES.items()
        )
        mine = articulation.at.of_dofs(parts.columns)
        heard: dict[Event, Callable[..., object]] = {
            Event.PHYSICS_READY: self.reset,
            Event.RESET: self._on_reset,
            Event.SAVE: self._on_save,
            Event.LOAD: self._on_load,
        }
        undo = contextlib.ExitStack()
        try:
            undo.callback(simulation.owners.claim(mine, parts.followed))
            for hand_over in self._hand_overs:
                hand_over.attach(undo)
            for subscription in subscribe_weakly(simulation, heard):
                undo.callback(subscription.cancel)
            undo.callback(simulation.add_motor(self))
            undo.callback(simulation.engine.state.write, "joint_f", mine, np.zeros(mine.shape, np.float32))
        except BaseException:
            undo.close()
            raise
        self._give_back = simulation.undo_with(self, undo)
        self._settled = -1
        self._program: MotorProgram | None = None
        self._program_key: object = None
        self._shares_after = False
        """Whether loads of batteries are shared after a program ran, which does not do so."""
        self._kernels: MotorKernels | None = None
        self._kernels_key: object = None
        self._closed = False

    def _make_implicit(self, build: Callable[[np.ndarray], Parts], implicit: np.ndarray, auto: np.ndarray) -> None:
        """Attach again with implicit efforts of those DOFs of ``auto`` that use much of the stability limit.

        If the engine cannot use derivatives, or a chain has none, a warning names the DOFs that stay explicit.
        """
        chains = self._chains
        shares = usages_of(self.articulation, chains.actuators, implicit.tolist())
        near = np.intersect1d(auto, [column for column, share in shares.items() if share > SHARE]).astype(np.int64)
        why = {
            int(column): actuator.derivative_obstacle()
            for actuator, at in zip(chains.actuators, chains.places, strict=True)
            for column in at % chains.shape[1]
        }
        without = [column for column in near if why[int(column)]]
        if without:
            self._warn_of_explicit(without, why[int(without[0])])
        further = np.setdiff1d(near, without)
        if not further.size:
            return
        self.close()
        try:
            self._attach(build(np.union1d(implicit, further)))
        except ImplicitRefusedError as error:
            self._warn_of_explicit(further, str(error))
            self._attach(build(implicit))

    def _warn_if_unstable(self) -> None:
        """Warn of gains that are unstable in the present pose, with the fixes of `actuon.check`."""
        if stability_log.disabled:
            return
        with contextlib.suppress(ActuonError):
            implicit = self._implicit.tolist()
            if usage_of_gains(self.articulation, self._chains.actuators, implicit) >= 1.0:
                found = stability_of(self.articulation, self._chains.actuators, implicit=implicit)
                if not found.is_stable:
                    stability_log.warning("%s", advice(found))

    def _warn_of_explicit(self, columns: Iterable[int], why: str) -> None:
        names = ", ".join(self.articulation.dof_names[column] for column in columns)
        _log.warning("effort_mode 'auto' leaves %s explicit, beyond half of the stability limit: %s", names, why)

    @property
    def actuators(self) -> list[Actuator]:
        """Actuators, each for all robots together. A new list each time; changing it has no effect."""
        return list(self._chains.actuators)

    @property
    def is_stepped(self) -> bool:
        """Whether each step of physics steps the actuators."""
        return self._auto_step and not self._closed

    def _step_now(self, dt: float) -> None:
        """Step the actuators for the user."""
        self._check_open()
        self.articulation.simulation.start()  # clears memory, which must not happen after this step
        self.articulation.simulation.engine.state.refresh()
        self.articulation.simulation.drive(self, dt)

    def prepare(self) -> None:
        """Apply changes since the last step. See `Motor`."""
        self._renew()
        for before in self._before:
            before()

    def compute(self, dt: float) -> None:
        """Compute the efforts of a step of ``dt`` [s]. See `Motor`."""
        self._computer(dt)()

    def _computer(self, dt: float) -> Callable[[], None]:
        """Return a function for `compute` that does not refer to the attachment."""
        arrays, chains = self.articulation.simulation.arrays, self._chains
        velocity, settle = self._velocity, self._settle

        def compute() -> None:
            wp.copy(velocity, arrays.joint_qd)
            chains.run(arrays, chains.arrays, dt)
            chains.advance()
            settle()

        return compute

    def capture_key(self, dt: float) -> object:
        """Return all that `compute` depends on besides values of arrays. See `Motor`."""
        return dt, self._settle, [*self._chains.states], [stage._revision for stage in self._chains.stages]

    @property
    def is_graphable(self) -> bool:
        """Whether `compute` can be captured and is not slower in a graph. See `Motor`."""
        chains = self._chains
        few = math.prod(chains.shape) < 2 * DOFS_PER_THREAD or not chains.device.is_cpu  # a graph takes one thread
        return few and self._implicit_efforts is None and all(actuator.is_graphable() for actuator in chains.actuators)

    def hand_over(self, dt: float) -> None:
        """Check the efforts, and write them to the engine. See `Motor`."""
        self._chains.batteries.share(self._chains.states)
        if self._chains.device.is_cpu:  # on a GPU, a look at each step would wait for it
            self.check()
            if self._trips is not None:
                self._trips.look(self.articulation.simulation.time)
        for after in self._after:
            after()
        for show in self._shown:
            show(dt)

    def kernels(self, dt: float) -> MotorKernels | None:
        """Return steps of ``dt`` [s] as kernels. See `Motor`."""
        self._renew()
        key = self.capture_key(dt)
        if self._kernels_key != key:
            self._kernels, self._kernels_key = self._make_kernels(dt), key
        return self._kernels

    def _make_kernels(self, dt: float) -> MotorKernels | None:
        chains, handed_over = self._chains, [hand_over.kernels() for hand_over in self._hand_overs]
        pushes = [push for each in handed_over if each is not None for push in each]
        if None in handed_over or not self.is_graphable:
            return None
        trips = self._trips.for_program() if self._trips is not None and chains.device.is_cpu else None

        def push() -> None:
            chains.batteries.share(chains.states)
            for each in pushes:
                each()

        return MotorKernels(self._computer(dt), push, self._efforts.applied, trips)

    def program(self, dt: float) -> MotorProgram:
        """Return the program of compiled code for steps of ``dt`` [s]. See `Motor`."""
        self._renew()
        chains = self._chains
        key = (dt, self._settled, [stage._revision for stage in chains.stages])
        if self._program is None or self._program_key != key:
            self._program, self._program_key = self._make_program(dt), key
        return self._program

    def _renew(self) -> None:
        """Update all that depends on parameters and limits."""
        for renew in self._renewing:
            renew()
        if self._settled != self._limits.revision:
            self._settlers = [settler for each in self._hand_overs for settler in each.settlers()]
            self._settle = in_turn(self._settlers)
            self._settled = self._limits.revision

    def _make_program(self, dt: float) -> MotorProgram:
        robots, chains, efforts = self.articulation, self._chains, self._efforts
        arrays, cells = robots.simulation.arrays, chains.cells()
        calls = chains.calls(arrays, dt, cells)
        in_python = [i for i in range(len(chains.actuators)) if i not in calls]
        self._shares_after = not calls.keys() >= {*chains.batteries.places}
        settling, kept = calls_of(self._settlers)
        program = MotorProgram(
            robots.robot_ids,
            robots.at.columns("joint_qd"),
            [*calls.values(), *settling],
            efforts.engine.numpy(),
            efforts.applied.numpy(),
            np.zeros(0, np.int64),
            self._velocity.numpy(),
            in_python=_in_turn([*self._before, chains.in_place(in_python, arrays, dt)]) if in_python else None,
            draws=[] if self._shares_after else chains.draws(cells),
            trips=None if self._trips is None else self._trips.for_program(),
            keep=[kept],
        )
        for hand_over in self._hand_overs:
            program = hand_over.add_to(program, dt, cells)
        return program

    def has_run(self, time: float) -> None:
        """Update telemetry after compiled code ran from ``time`` [s] on. See `Motor`."""
        simulation = self.articulation.simulation
        if self._shares_after:
            self._chains.batteries.share(self._chains.states)
        if self._trips is not None:
            self._trips.report(time, simulation.dt)
        for show in self._shown:
            show(simulation.dt)

    def ends_step_at(self, time: float) -> bool:
        """Return whether the user stepped implicit efforts for the step that begins at ``time`` [s]."""
        return self._implicit_efforts is not None and self._implicit_efforts.has_begun(time)

    @property
    def effort_range(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Lowest and highest effort [N·m or N] that is written to the engine, each of shape (N, D). None: no limit."""
        bounds = self._limits.bounds
        return None if bounds is None else (bounds[0].numpy(), bounds[1].numpy())

    def check(self) -> None:
        """Raise an error if an effort is NaN or infinite, as after a target or parameter of NaN."""
        efforts = self._efforts.applied.numpy().ravel()
        # a sum of squares is one call instead of two
        if efforts.dot(efforts) < math.inf or np.isfinite(efforts).all():
            return
        robot, dof = divmod(int(np.flatnonzero(~np.isfinite(efforts))[0]), self.articulation.num_dofs)
        time = self.articulation.simulation.time
        raise SimulationError(f"t = {time:.6g} s: {self.not_finite(robot, dof)[0]}")

    def not_finite(self, robot: int, column: int) -> tuple[str, str]:
        """Return a description of an effort that is not finite, and the name of its joint."""
        robots = self.articulation
        text = (
            f"the effort of joint '{robots.dof_names[column]}' of '{robots.paths[robot]}' is "
            f"{self._efforts.applied.numpy()[robot, column]}; check its target and parameters"
        )
        return text, robots.dof_names[column]

    def set_dof_feedforward_effort_targets(
        self, target_feedforward_efforts: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Set the feedforward that controllers add to their effort [N·m or N]. Delays and limits apply to it.

        In a group with the engine drive, it is added to the effort of that drive, unlimited.

        Args:
            target_feedforward_efforts: As for `Articulation.set_dof_efforts`. DOFs without an actuator ignore it.
            indices: Which robots. Default: all.
            dof_indices: Which DOFs. Default: all.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     actuators = actuon.ArticulationActuators("link0")
            ...     actuators.set_dof_feedforward_effort_targets(12.0, dof_indices=[0])
            ...     simulation.step()
            ...     print(actuators.telemetry().computed_effort[0, :2])
            [12.  0.]
        """
        self._set("target_feedforward_efforts", self._feedforward, target_feedforward_efforts, indices, dof_indices)

    def set_dof_custom_inputs(
        self, name: str, values: ArrayLike, indices: IdsLike = None, dof_indices: IdsLike = None
    ) -> None:
        """Set a further input of a network, such as a load. Its default is 0.

        Args:
            name: A name of ``custom_inputs`` in the network's file.
            values: As for `Articulation.set_dof_efforts`, in the unit of the network's training.
            indices: Which robots. Default: all.
            dof_indices: Which DOFs. Default: all.

        Examples:
            >>> friction = actuon.FrictionEffectConfig(0.1, load_external=0.05, inertia=0.1)
            >>> pd = actuon.PDControlConfig(kp=100.0, kd=10.0)
            >>> motor = actuon.ActuatorConfig(pd, effects=[friction])
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf):
            ...     pairs = [(motor, "joint1")]
            ...     actuators = actuon.ArticulationActuators.from_actuators("link0", pairs)
            ...     actuators.set_dof_custom_inputs("joint_load", 2.0)  # [N·m]
        """
        if name not in self._chains.inputs:
            raise ParameterError(
                f"no actuator takes an input '{name}'; {listed(str(name), self._chains.inputs, 'custom inputs')}"
            )
        self._set("values", self._chains.inputs[name], values, indices, dof_indices)

    def _set(self, argument: str, array: wp.array, values: ArrayLike, indices: IdsLike, dof_indices: IdsLike) -> None:
        """Write to an array that is flat as the simulation's velocities."""
        self._check_open()
        at = self.articulation.to_write(indices, dof_indices)
        numbers = self.articulation.numbers(argument, values, at.shape)
        with to_change(array) as changed:
            changed[at.flat("joint_qd")] = numbers

    def telemetry(self) -> Telemetry:
        """Return efforts and signals of the last step.

        The engine does not report the effort of its drives. For a group with the engine drive, telemetry shows the
        equation of the drive at the state before the step, limited, plus the feedforward.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     actuators = actuon.ArticulationActuators("link0")
            ...     actuators.articulation.set_dof_position_targets(0.2, dof_indices=[0])
            ...     simulation.step()
            ...     telemetry = actuators.telemetry()
            ...     print(telemetry.computed_effort[0, 0], telemetry.limited_by[0, 0])
            120.0 ClampingMaxEffort
        """
        computed, applied = (array.numpy().copy() for array in (self._efforts.computed, self._efforts.applied))
        if self._implicit_efforts is not None:
            self._implicit_efforts.show(applied)
        if self._trips is not None and not self._chains.device.is_cpu:  # where no step has looked
            self._trips.look(self.articulation.simulation.time)
        velocity = np.asarray(self._velocity.numpy()[self.articulation.at.flat("joint_qd")])
        return make_telemetry(self._chains, velocity, computed, applied, self.effort_range)

    def save_state(self, path: PathLike) -> None:
        """Write memory and parameters of the actuators to a file: delayed commands, integrals, hidden states,
        feedforward, and present parameters.

        Together with the state of the engine, a loaded run repeats bit for bit.

        Args:
            path: An ``.npz`` file, written whole or not at all.

        Raises:
            StateError: The memory of an actuator has NaN, because a joint diverged.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf):
            ...     actuators = actuon.ArticulationActuators("link0")
            ...     actuators.actuators[0].controller.kp = 500.0
            ...     actuators.save_state("actuators.npz")
            ...     actuators.close()
            ...     actuators = actuon.ArticulationActuators("link0")
            ...     actuators.load_state("actuators.npz")
            ...     print(actuators.actuators[0].controller.kp.numpy()[0])
            500.0
        """
        self._check_open()
        write_arrays(path, self._chains.saved(self._hand_overs))

    def load_state(self, path: PathLike) -> None:
        """Load a file of `save_state`. If the simulation is not running, it is started first, as a start clears memory.

        Args:
            path: A file of the same actuators on as many robots. It also sets their parameters.

        Raises:
            StateError: The file cannot be read, or is from other actuators or robots; the error describes the
                difference. Nothing is changed.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     actuators = actuon.ArticulationActuators("link0")
            ...     simulation.step()
            ...     actuators.save_state("actuators.npz")
            ...     simulation.step(5)
            ...     actuators.load_state("actuators.npz")  # delayed commands of the first step
        """
        self._check_open()
        contents = read_arrays(path, "the state of actuators on robots")
        simulation, chains = self.articulation.simulation, self._chains
        take = chains.checked(f"'{path}'", contents, simulation.dt, self._hand_overs)
        simulation.start()
        take()
        self._renew()

    def description(self) -> dict[str, str]:
        """Return texts by label that must match those of a file. See `Motor`."""
        found = {"class": type(self).__name__, "robots": ", ".join(map(str, self.articulation.robot_ids))}
        found |= self._chains.description()
        return found | {label: text for each in self._hand_overs for label, text in each.description().items()}

    def saved(self) -> dict[str, np.ndarray]:
        """Return memory, parameters and telemetry for a file of the simulation. See `Motor`."""
        shown = {name: array.numpy() for name, array in self._last_step().items()}
        beside = {name: array for each in self._hand_overs for name, array in each.last_step().items()}
        return self._chains.saved(self._hand_overs) | shown | beside

    def checked(self, where: str, contents: Mapping[str, np.ndarray]) -> Callable[[], None]:
        """Raise an error for contents that do not fit. Returns a function that loads them. See `Motor`."""
        take = self._chains.checked(where, contents, self.articulation.simulation.dt, self._hand_overs)
        shown = self._last_step()
        beside = {name: array for each in self._hand_overs for name, array in each.last_step().items()}
        for name, like in ({name: array.numpy() for name, array in shown.items()} | beside).items():
            check_like(where, name, contents.get(name), like)

        def take_all() -> None:
            take()
            for name, array in shown.items():
                array.assign(contents[name])
            for name, values in beside.items():
                values[...] = contents[name]
            for hand_over in self._hand_overs:
                hand_over.resume()
            self._renew()
            if self._trips is not None:
                self._trips.forget()

        return take_all

    def _shown_arrays(self) -> dict[str, tuple[wp.array, float]]:
        """Return the arrays of telemetry, shape (N, D), and their initial values, by name."""
        efforts = self._efforts
        found = {"effort": efforts.engine, "computed": efforts.computed, "applied": efforts.applied}
        if efforts.given is not efforts.engine:
            found["limited"] = efforts.given
        signals = {f"signals/{name}": (array, math.nan) for name, array in self._chains.signals.items()}
        return {name: (array, 0.0) for name, array in found.items()} | signals

    def _last_step(self) -> dict[str, wp.array]:
        """Return the arrays of telemetry, by name in a file."""
        shown = {name: array for name, (array, _) in self._shown_arrays().items()} | {"velocity": self._velocity}
        return {f"last_step/{name}": array for name, array in shown.items()}

    def _rows_of(self, env_ids: np.ndarray) -> np.ndarray:
        """Return whether each robot is in one of these environments, bool of shape (N,)."""
        return np.isin(self.articulation.env_ids, env_ids)

    def _on_save(self, memories: dict[Any, Any]) -> None:
        memories[self._serial] = self._chains.remembered(self._hand_overs)

    def _on_load(self, memories: Mapping[Any, Any], env_ids: np.ndarray) -> None:
        if self._serial not in memories:
            raise SimulationError(
                "the state was saved before these actuators were created; create them first, then save"
            )
        self._chains.recall(memories[self._serial], self._rows_of(env_ids), self._hand_overs)

    def _on_reset(self, env_ids: np.ndarray) -> None:
        self.reset(self._rows_of(env_ids))

    def reset(self, env_ids: IdsLike = None) -> None:
        """Clear the memory of robots: delayed commands, integrals, hidden states. Feedforward stays.

        Args:
            env_ids: Which robots, by their row: whole numbers, a slice or a mask. The others are not changed. Default:
                all.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=4) as simulation:
            ...     actuators = actuon.ArticulationActuators("link0")
            ...     simulation.step(5)
            ...     actuators.reset([1, 3])  # simulation.reset([1, 3]) also resets the robots
        """
        self._check_open()
        rows = ids_to_reset("env_ids", env_ids, len(self.articulation))
        if not rows.size:
            return
        for array, value in self._shown_arrays().values():
            with to_change(array) as numbers:
                numbers[rows] = value
        for hand_over in self._hand_overs:
            hand_over.reset(rows)
        self._chains.reset(rows)

    def close(self) -> None:
        """Remove the efforts, and restore the engine drives and properties. May be called again.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf):
            ...     robots = actuon.Articulation("link0")
            ...     armature = robots.get_dof_armatures().numpy()
            ...     actuon.ArticulationActuators("link0").close()
            ...     print(np.array_equal(robots.get_dof_armatures().numpy(), armature))
            True
        """
        if self._closed:
            return
        self._closed = True
        if not self.articulation.simulation.is_closed:
            self._efforts.engine.zero_()
            self._implicit_efforts = None
        self._give_back()

    @property
    def mode_text(self) -> str:
        """Text such as ``"implicit efforts of 7 DOFs, discrete"``; empty if all are explicit."""
        simulation, count = self.articulation.simulation, len(self._implicit)
        changed = f" instead of {simulation.integrator_changed}" if simulation.integrator_changed else ""
        return f"implicit efforts of {count} DOFs, {simulation.integrator}{changed}" if count else ""

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise SimulationError(f"this {type(self).__name__} is closed; make another")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _refuse_second_battery(articulation: Articulation, chains: ChainSet) -> None:
    """Raise an error if other actuators have motors on the battery of one of the robots."""
    mine = _on_battery(articulation, chains)
    others = [motor for motor in articulation.simulation.motors if isinstance(motor, Attachment)] if mine else []
    for other in others:
        its = _on_battery(other.articulation, other._chains)
        for robot in sorted(mine.keys() & its.keys()):
            raise SimulationError(
                f"joint '{mine[robot]}' of '{articulation.simulation.robots[robot].path}' has a battery, and so has "
                f"joint '{its[robot]}', which other actuators drive: a robot has one battery, so give all motors on it "
                "to one ArticulationActuators or ActuatorGroups"
            )


def _on_battery(articulation: Articulation, chains: ChainSet) -> dict[int, str]:
    """Return the first joint with a battery of each robot, by the number of the robot."""
    found: dict[int, str] = {}
    for i in reversed(chains.batteries.places):
        rows, columns = np.divmod(chains.places[i][::-1], chains.shape[1])
        joints = (chains.dof_names[column] for column in columns)
        found |= dict(zip(articulation.robot_ids[rows].tolist(), joints, strict=True))
    return found


def _in_turn(functions: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """Return a function that calls functions one after the other."""

    def call() -> None:
        for function in functions:
            function()

    return call
