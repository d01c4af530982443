# SPDX-License-Identifier: Apache-2.0
"""`Actuator`: composes a chain of stages for N DOFs and runs it, fused where every component has a law."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import warp as wp

from .actuator_config import ActuatorConfig, Part, built
from .actuator_stages import ActuatorStages
from .actuator_state import ActuatorState
from .arrays import index_array, read_array, read_custom, read_feedforward, read_optional
from .components.component import Component, unchanged_on_failure
from .components.controllers.controller import Controller
from .components.delay import Delay
from .components.delay_low_pass import DelayLowPass
from .components.delay_time import DelayTime
from .components.effects.effect import Effect
from .components.limits.clamping import Clamping, check_limits_first
from .components.sensors.sensor import Sensor
from .components.transmissions.transmission import Transmission
from .declare.config import Config
from .errors import ParameterError, StateError, StructureError, listed
from .held_control import held_state, holding_of, runner_of
from .implicit_step import ImplicitStepper
from .kernel.arguments import arguments
from .kernel.binding import COMPUTED, OUTPUT, Access, Chain
from .kernel.fused import FusedRunner
from .kernel.launch import Shard
from .kernel.source import kernel_source
from .kernel.structure import LIMITED_BY, SIGNALS, TANGENT, check_order, custom_signal
from .kernel.types import CELL, Flavour
from .newton_parts import NewtonPart
from .response import Response
from .tangent import why_no_slopes
from .typing import Array, IndexLike, PathLike

_Part = TypeVar("_Part", bound=Component)


class Actuator(ActuatorStages):
    """Sensors → delay → controller → transmission → clamping → effects, for N DOFs at once.

    Where every component has a law, a step is one kernel launch. The effort is *added* to the output array: the caller
    zeroes it first, and several actuators may write to the same one.

    Args:
        indices: DOF indices into velocities, velocity targets, feedforward and output, shape (N,).
        controller: Turns commands into efforts. Here and below, a config is enough where all DOFs have the same values.
        delay: Delay of the commands.
        clamping: What limits the effort, in this order.
        pos_indices: Indices into positions, shape (N,). Default: ``indices``. They differ where a floating base or a
            ball joint has more coordinates than velocities.
        target_pos_indices: Indices into target positions, shape (N,). Default: ``pos_indices``.
        effort_indices: Indices into the outputs, shape (N,). Default: ``indices``. Entries that repeat add up.
        state_pos_attr: Name of the positions in the simulation's state.
        state_vel_attr: Name of the velocities in the simulation's state.
        control_target_pos_attr: Name of the target positions in the simulation's control.
        control_target_vel_attr: Name of the target velocities in the simulation's control.
        control_feedforward_attr: Name of the feedforward efforts in the simulation's control. None means no
            feedforward; so does an array that is None, and the default name where it is absent.
        control_output_attr: Name of the efforts in the simulation's control.
        control_computed_output_attr: Name of an array in the simulation's control that the effort before clamping is
            added to.
        requires_grad: Let a `wp.Tape` differentiate through steps.
        accumulate: Add the effort to the outputs. False writes over what is there, which the caller need not zero then;
            no two entries of ``effort_indices`` may be the same.
        transmission: What stands between motor and joint: stages after it work on the motor's side.
        effects: Losses and lags between motor and joint, in this order, after the clamps.
        sensors: What the controller sees of position and velocity, in this order.
        stages: All stages in another order than the usual one, instead of the arguments by kind.
        control_signal_attrs: Names of arrays in the simulation's control that signals of stages are written to, by the
            name of the signal; at ``effort_indices``. Or a function from the name of each signal to that of its array.
            ``"limited_by"`` gets the position of the last stage that limited the effort, or -1.
        control_tangent_attrs: The same for what takes time, and is made only here: ``"effort_slope_q"`` and
            ``"effort_slope_qd"``, the derivatives of the effort by position and velocity of the joint, and
            ``"effort_min"`` and ``"effort_max"``, what the limits would let through.
        drive: What Newton calls the controller: the same as ``controller``.
        control_every: The controller runs at every k-th step, the first after a reset included, with k times ``dt``;
            what it gives is held in between. All other stages run at every step.
        in_engine: An engine solves dry friction: friction stages leave the effort as it is, and offer ``dry_friction``
            and ``viscous_friction`` for the engine.
        fused: Run the chain as one kernel where every component has a law. False launches the stages one by one: the
            same results, slower; for comparing and debugging. There is no tangent then.
    """

    def __init__(
        self,
        indices: IndexLike,
        controller: Controller | Config | NewtonPart | None = None,
        delay: Delay | DelayTime | DelayLowPass | Config | NewtonPart | None = None,
        clamping: Sequence[Clamping | Config | NewtonPart] | None = None,
        pos_indices: IndexLike | None = None,
        target_pos_indices: IndexLike | None = None,
        effort_indices: IndexLike | None = None,
        state_pos_attr: str = "joint_q",
        state_vel_attr: str = "joint_qd",
        control_target_pos_attr: str | None = "joint_target_q",
        control_target_vel_attr: str | None = "joint_target_qd",
        control_feedforward_attr: str | None = "joint_act",
        control_output_attr: str = "joint_f",
        control_computed_output_attr: str | None = None,
        requires_grad: bool = False,
        accumulate: bool = True,
        *,
        transmission: Transmission | Config | None = None,
        effects: Sequence[Effect | Config] | None = None,
        sensors: Sequence[Sensor | Config] | None = None,
        stages: Sequence[Part] | None = None,
        control_signal_attrs: Mapping[str, str] | Callable[[str], str] | None = None,
        control_tangent_attrs: Mapping[str, str] | None = None,
        drive: Controller | Config | NewtonPart | None = None,
        control_every: int = 1,
        in_engine: bool = False,
        fused: bool = True,
    ):
        if drive is not None and controller is not None:
            raise StructureError("drive: got controller too, which means the same; give one of them")
        self.accumulate = bool(accumulate)
        self.indices = index_array(indices, "indices", None)
        self.device = self.indices.device
        if self.device.is_capturing:
            raise StructureError("an actuator cannot be built while a graph is being captured; build it first")
        self.num_actuators = n = self.indices.shape[0]
        self.pos_indices = self._indices("pos_indices", pos_indices, self.indices)
        self.target_pos_indices = self._indices("target_pos_indices", target_pos_indices, self.pos_indices)
        self.effort_indices = self._indices("effort_indices", effort_indices, self.indices)
        self.requires_grad = requires_grad

        described = ActuatorConfig(
            controller if drive is None else drive,
            clamping,
            delay,
            transmission=transmission,
            effects=effects,
            sensors=sensors,
            stages=stages,
            control_every=control_every,
        )
        self._control_every = described.control_every
        self._stages = tuple(built(part) for part in described.stages)
        with unchanged_on_failure(self._stages):
            self._place_stages(bool(in_engine))
            self._check_stages()
            self._holding = holding_of(self._stages, described.control_every)
            self._custom_inputs: dict[str, str | None] = {}  # and who cannot do without, where there is one
            for component in self._stages:
                for name in component.stage().custom_inputs:
                    asking = None if name in component.OPTIONAL_INPUTS else type(component).__name__
                    self._custom_inputs[name] = self._custom_inputs.get(name) or asking

            self.state_pos_attr = state_pos_attr
            self.state_vel_attr = state_vel_attr
            self.control_target_pos_attr = control_target_pos_attr or "joint_target_q"
            self.control_target_vel_attr = control_target_vel_attr or "joint_target_qd"
            self.control_feedforward_attr = control_feedforward_attr
            self.control_output_attr = control_output_attr
            self.control_computed_output_attr = control_computed_output_attr
            self._fused = bool(fused) and all(component.is_fused() for component in self._stages)
            why_not = self.why_no_slopes()
            if control_tangent_attrs and why_not:
                raise StructureError(f"control_tangent_attrs: the chain has no slopes: {why_not}")
            if callable(control_signal_attrs):
                asked = (signal for signal in self._offered() if signal not in TANGENT)
                control_signal_attrs = {signal: control_signal_attrs(signal) for signal in asked}
            self.control_signal_attrs = {**(control_signal_attrs or {}), **(control_tangent_attrs or {})}
            self._check_names()

            for component in self._stages:
                component.check_fits(n)
            for component in self._stages:
                if not component.is_finalized(self.device, n) or (requires_grad and not component.requires_grad):
                    component.requires_grad = component.requires_grad or requires_grad
                    component.finalize(self.device, n)

            self._chain = self._compose()
            self._stateful = self._holding is not None or any(component.is_stateful() for component in self._stages)
            self._runner = runner_of(self._chain, requires_grad, staged=not self._fused)

    def _indices(self, name: str, value: IndexLike | None, default: wp.array) -> wp.array:
        return default if value is None else index_array(value, name, self.device, self.num_actuators)

    def _place_stages(self, in_engine: bool) -> None:
        """Set on which side of a spring each stage works, and whether an engine solves its friction.

        Raises:
            StructureError: A stage belongs to another actuator too, and would work differently in this one.
        """
        is_apart = False
        placed: set[int] = set()
        for component in self._stages:
            used = component.stage() if id(component) in placed or component.is_finalized() else None
            there = component.is_apart, component.in_engine
            component.is_apart, component.in_engine = is_apart, in_engine and not is_apart
            if used is not None:
                if component.stage() != used:
                    raise StructureError(
                        f"{type(component).__name__}: is a stage of another actuator, or of this one twice, and would "
                        "work differently here (behind a spring or coupling, or with in_engine); make another component"
                    )
                component.is_apart, component.in_engine = there
            placed.add(id(component))
            is_apart = is_apart or (isinstance(component, Transmission) and "gear_ratio" not in component.OUTPUTS)

    def _check_stages(self) -> None:
        stages = [(type(component).__name__, component.stage()) for component in self._stages]
        check_order(stages, SIGNALS)
        if not any("effort" in stage.returns for _, stage in stages):
            raise StructureError("the chain has no controller: no stage makes an effort")
        check_limits_first(self._stages)

    def _check_names(self) -> None:
        for name in (self.state_pos_attr, self.state_vel_attr, self.control_output_attr):
            if not isinstance(name, str):
                raise StructureError(f"got {name!r} as the name of an array; must be a string")
        if self.control_computed_output_attr == self.control_output_attr:
            raise ParameterError(
                f"control_computed_output_attr: got '{self.control_output_attr}', which is the output; "
                "name another array"
            )
        for signal in self.control_signal_attrs:
            if signal not in self._offered():
                raise ParameterError(
                    f"control_signal_attrs: no stage offers a signal '{signal}'; "
                    f"{listed(signal, self._offered(), 'signals')}"
                )

    def _compose(self) -> Chain:
        through = {"pos": self.pos_indices, "vel": self.indices, "target_pos": self.target_pos_indices}
        accesses = {name: Access.through(indices) for name, indices in through.items()}
        accesses["target_vel"] = accesses["vel"]
        accesses["effort"] = Access.through(self.effort_indices)
        if accesses["effort"].repeats and not self.accumulate:
            raise ParameterError("effort_indices: some repeat; with accumulate=False each output must be written once")
        if accesses["effort"].repeats and self.control_signal_attrs:
            raise ParameterError("effort_indices: some repeat; a signal needs an entry of its own for each DOF")
        names = {
            "q": f"sim_state.{self.state_pos_attr}",
            "qd": f"sim_state.{self.state_vel_attr}",
            "target_q": f"sim_control.{self.control_target_pos_attr}",
            "target_qd": f"sim_control.{self.control_target_vel_attr}",
            "feedforward": f"sim_control.{self.control_feedforward_attr}",
            OUTPUT: f"sim_control.{self.control_output_attr}",
            COMPUTED: f"sim_control.{self.control_computed_output_attr}",
        }
        controllers = [i for i, component in enumerate(self._stages) if isinstance(component, Controller)]
        first = next(i for i, component in enumerate(self._stages) if "effort" in component.stage().returns)
        return Chain(
            self.device,
            self.num_actuators,
            self._stages,
            accesses,
            names
            | {custom_signal(name): f"sim_control.{name}" for name in self._custom_inputs}
            | {signal: f"sim_control.{attr}" for signal, attr in self.control_signal_attrs.items()},
            computed_after=controllers[-1] if controllers else first,
            adds=self.accumulate,
            telemetry=tuple(self.control_signal_attrs),
            holding=self._holding,
        )

    @property
    def control_every(self) -> int:
        """The controller runs at every k-th step."""
        return self._control_every

    def _offered(self) -> tuple[str, ...]:
        """All that can be written: signals of stages, which of them limited the effort, and its tangent."""
        limited_by = [LIMITED_BY for component in self._stages if component.stage().limits][:1]
        return (*self.signals, *limited_by, *(() if self.why_no_slopes() else TANGENT))

    def why_no_slopes(self) -> str:
        """Why the effort has no slopes; empty where it has."""
        why_not = why_no_slopes(self._stages, self.requires_grad)
        return why_not or ("" if self._fused else "its stages are launched one by one (fused=False)")

    @property
    def custom_inputs(self) -> tuple[str, ...]:
        """Names of arrays in the simulation's control that stages read beside targets and feedforward."""
        return tuple(self._custom_inputs)

    State = ActuatorState
    _response: Response | None = None
    """Response of steps that are given none."""

    def is_stateful(self) -> bool:
        """Whether the chain remembers anything between two steps."""
        return self._stateful

    def is_graphable(self) -> bool:
        """Whether steps can be captured in a graph."""
        return all(component.is_graphable() for component in self._stages)

    def is_fused(self) -> bool:
        """Whether a step is one kernel launch. False where a component brings kernels of its own, or with
        ``fused=False``."""
        return self._fused

    def state(self) -> ActuatorState | None:
        """Return a new initial state, or None where the chain is stateless."""
        if not self.is_stateful():
            return None
        n, device = self.num_actuators, self.device
        held = held_state(self._chain, self.requires_grad)
        return ActuatorState(self, tuple(c.state(n, device) if c.is_stateful() else None for c in self._stages), held)

    def load_state(self, path: PathLike) -> ActuatorState | None:
        """Return a state with what `State.save` wrote: steps from it go on bit for bit.

        Args:
            path: A file that was written by a state of an actuator with the same stages and number of DOFs.

        Raises:
            StateError: The file cannot be read, or is that of another chain; says how they differ.
        """
        state = self.state()
        if state is None:
            raise StateError(f"'{path}': the chain is stateless, there is nothing to load")
        state.load(path)
        return state

    def check_dt(self, dt: float | None) -> None:
        """Refuse a time step [s] that a stage cannot take, as `step` does before it changes anything.

        Raises:
            StateError: Says which stage, and what it takes.
        """
        self._chain.check_dt(dt)

    def step(
        self,
        sim_state: object,
        sim_control: object,
        current_act_state: ActuatorState | None = None,
        next_act_state: ActuatorState | None = None,
        dt: float | None = None,
        *,
        response: Response | Array | None = None,
    ) -> None:
        """Read state and commands, and add the effort of each DOF to the output.

        Args:
            sim_state: Object or mapping with positions and velocities.
            sim_control: Object or mapping with targets, feedforward and outputs.
            current_act_state: State before the step. Needed where `is_stateful`.
            next_act_state: State after the step, written. May be ``current_act_state`` unless gradients are wanted.
            dt: Time step [s]. Needed where a stage works over time, and for ``response``.
            response: How joints respond to efforts: these are then computed at the velocities that the step ends
                with, and not at those before it, so that stiff drives do not overshoot. An inverse inertia for each
                DOF, shape (N,), or a matrix for each robot, shape (R, D, D), does for a `Response`.

        Raises:
            ConvergenceError: With ``response``, these velocities were not found. The step was taken.
        """
        if self.num_actuators == 0:
            return
        given = self._given(sim_state, sim_control)
        if self._stateful:
            self._check_state("current_act_state", current_act_state)
            self._check_state("next_act_state", next_act_state)
        response = self._response if response is None else response
        if response is None:
            self._runner.run(given, current_act_state, next_act_state, dt)
        else:
            self._implicit.step(given, current_act_state, next_act_state, dt, response)

    def set_effort_mode_implicit(self, response: Response | Array, options: None = None) -> None:
        """Compute the efforts of all steps at the velocities that these end with, as `step` does with ``response``.

        Args:
            response: As for `step`, which may be given another.
            options: Argument of Newton; must be None: `Response` has ``max_iterations`` and ``tolerance``.

        Raises:
            StructureError: The chain has no slopes, which implicit steps need.
        """
        if options is not None:
            raise ParameterError(
                f"options: got {type(options).__name__}; must be None: give max_iterations and tolerance to Response"
            )
        _ = self._implicit  # refuses a chain without slopes
        self._response = response if isinstance(response, Response) else Response(response)

    def set_effort_mode_explicit(self) -> None:
        """Compute the efforts of steps at the velocities before them, unless a step is given a response."""
        self._response = None

    def _given(self, sim_state: object, sim_control: object) -> tuple[Any, ...]:
        """The arrays of the simulation, in the order of `Chain.slots`."""
        return (
            read_array(sim_state, self.state_pos_attr, "sim_state"),
            read_array(sim_state, self.state_vel_attr, "sim_state"),
            read_array(sim_control, self.control_target_pos_attr, "sim_control"),
            read_array(sim_control, self.control_target_vel_attr, "sim_control"),
            read_feedforward(sim_control, self.control_feedforward_attr, "joint_act"),
            *(read_custom(sim_control, name, asking) for name, asking in self._custom_inputs.items()),
            read_array(sim_control, self.control_output_attr, "sim_control"),
            read_array(sim_control, self.control_computed_output_attr, "sim_control")
            if self.control_computed_output_attr
            else None,
            *(self._read_signal(sim_control, signal) for signal in self.control_signal_attrs),
        )

    def shards(
        self, sim_state: object, sim_control: object, state: ActuatorState | None, dt: float, dofs: tuple[int, ...]
    ) -> list[Shard] | None:
        """Steps in place of ranges of DOFs, for an engine to run in its own loop.

        Args:
            sim_state: As for `step`.
            sim_control: As for `step`.
            state: Before and after each step. Needed where `is_stateful`.
            dt: Time step [s].
            dofs: Where ranges begin, and the last ends: multiples of `CELL`, but for the end.

        Returns:
            The same list as long as it stays right; None where a step is not one and the same kernel on the CPU.
        """
        if self._stateful:
            self._check_state("state", state)
        if self.num_actuators == 0 or not isinstance(self._runner, FusedRunner) or not self.device.is_cpu:
            return None
        if self._response is not None:
            return None
        cells = tuple(-(-dof // CELL) for dof in dofs)
        return self._runner.shards(self._given(sim_state, sim_control), state, dt, cells)

    @functools.cached_property
    def _implicit(self) -> ImplicitStepper:
        return ImplicitStepper(self._chain, self._runner, self.state, self.requires_grad)

    def _read_signal(self, sim_control: object, signal: str) -> Any:
        name = self.control_signal_attrs[signal]
        if signal == LIMITED_BY:  # a function of names was asked for it too, whether or not its author knows it
            return read_optional(sim_control, name)
        return read_array(sim_control, name, "sim_control")

    def kernel_source(self) -> str:
        """The Python source of the kernel that a step with the controller launches. Only where `is_fused`."""
        if not self._fused:
            own = [type(component).__name__ for component in self._stages if not component.is_fused()]
            why = f"{own[0]} brings kernels of its own" if own else "it was built with fused=False"
            raise StructureError(f"the chain is not fused: {why}")
        flavour = Flavour.GRAD if self.requires_grad else Flavour.BLOCK if self.device.is_cpu else Flavour.SCALAR
        structure = self._chain.structure(flavour)
        return kernel_source(structure, arguments(structure))[0]

    def _check_state(self, name: str, state: ActuatorState | None) -> None:
        if state is None:
            raise StateError(f"{name}: got None; the chain is stateful, make its states with actuator.state()")
        if getattr(state, "owner", None) is not self:
            got = "a state of another actuator" if isinstance(state, ActuatorState) else type(state).__name__
            raise StateError(f"{name}: got {got}; make states with this actuator's state()")

    def __repr__(self) -> str:
        parts = [f"Delay(≤ {c.buf_depth})" if isinstance(c, Delay) else type(c).__name__ for c in self._stages]
        path = "fused" if self._fused else "staged"
        path += f", control every {self.control_every} steps" if self.control_every > 1 else ""
        return f"<Actuator of {self.num_actuators} DOFs on {self.device}, {path}: {' → '.join(parts)}>"
