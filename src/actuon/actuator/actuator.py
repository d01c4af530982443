# SPDX-License-Identifier: Apache-2.0
"""`Actuator`: steps the motor model of N DOFs, as one kernel if every component has a stage function."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import warp as wp

from ..arrays import index_array, read_array, read_custom, read_feedforward, read_optional
from ..components.component import Component, Placement
from ..components.delay import Delay
from ..components.delay_low_pass import DelayLowPass
from ..components.delay_time import DelayTime
from ..components.kinds import (
    AnyClamping,
    AnyController,
    AnyEffect,
    AnySensor,
    AnyTransmission,
    Clamping,
    Controller,
    Effect,
    Sensor,
    Transmission,
    check_limits_first,
)
from ..components.transmissions.gear import TransmissionGear
from ..declare.config import Config
from ..declare.registry import ComponentKind
from ..errors import ParameterError, StateError, StructureError, listed
from ..kernel.build import kernel_for
from ..kernel.chain import HELD, IMPLICIT_SIGNALS, LIMITED_BY, SIGNALS, check_stages, custom_signal
from ..kernel.launch import CCall
from ..kernel.state import Cells, Memory
from ..kernel.types import Flavour
from ..typing import Array, IndexLike, PathLike
from .config import Part, arranged_stages, built, check_losses_once, checked_control_every
from .implicit_step import ImplicitStepper, derivative_obstacle
from .newton_parts import NewtonPart
from .response import Response
from .state import ActuatorState
from .stepping import COMPUTED, OUTPUT, FusedStepper, IndexLayout, Stepper, Wiring, stepper_of

_Part = TypeVar("_Part", bound=Component)


class Actuator:
    """Sensors → delay → controller → transmission → clamping → effects, for N DOFs at once.

    A step is one kernel launch if every component has a stage function (`law`). `step` *adds* the effort to the output
    array: zero it first. Several actuators may write to the same array.

    An actuator works with copies of the components that it gets. Warp arrays and PyTorch tensors that were passed as
    parameters are shared: values that you write into them act at the next step. Numbers, lists and NumPy arrays are
    copied. Change parameters at any time at its own components, as in ``actuator.controller.kp = 50.0``. A component
    that was passed raises an error if it is changed afterwards.

    Args:
        indices: DOF indices into velocities, velocity targets, feedforward and output, shape (N,).
        controller: Turns commands into efforts. Each stage is a component, or a config if all DOFs have equal values.
        delay: Delay of the commands.
        clamping: Limits of the effort, in order.
        pos_indices: Indices into positions, shape (N,). Default: ``indices``. They differ if a floating base or a
            ball joint has more coordinates than velocities.
        target_pos_indices: Indices into target positions, shape (N,). Default: ``pos_indices``.
        effort_indices: Indices into the outputs, shape (N,). Default: ``indices``. Efforts at repeated indices add up.
        state_pos_attr: Name of the positions in the simulation's state.
        state_vel_attr: Name of the velocities in the simulation's state.
        control_target_pos_attr: Name of the target positions in the simulation's control.
        control_target_vel_attr: Name of the target velocities in the simulation's control.
        control_feedforward_attr: Name of the feedforward efforts in the simulation's control. None means no
            feedforward. The array may be None; an array of the default name may be absent.
        control_output_attr: Name of the efforts in the simulation's control.
        control_computed_output_attr: Name of an array in the simulation's control to which `step` adds the requested
            effort, before clamping.
        requires_grad: Let a `wp.Tape` differentiate through steps.
        accumulate: Add the effort to the outputs. False overwrites them: they need no zeroing, and
            ``effort_indices`` must not repeat.
        transmission: Gear, linkage or spring between motor and joint. Later stages work on the motor side.
        effects: Friction, current loop and other effects between motor and joint, in order, after the limits.
        sensors: Sensors between joint and controller, in order.
        stages: All stages in any other order, instead of the arguments by kind.
        control_signal_attrs: Names of arrays in the simulation's control for the signals of stages, by signal, or a
            function that returns the array's name for a signal. They are written at ``effort_indices``.
            ``"limited_by"`` is the position of the last stage that limited the effort, or -1.
        control_derivative_attrs: Like ``control_signal_attrs``, for signals that cost time and are computed only if
            named: ``"effort_derivative_q"`` and ``"effort_derivative_qd"``, the derivatives of the effort by joint
            position and velocity, and ``"effort_min"`` and ``"effort_max"``, the bounds that the limits allow.
        drive: Alias of ``controller``, by its name in Newton.
        control_every: Run the controller at every k-th step, first after a reset, with a time step of k·``dt``. Its
            effort is held in between. All other stages run at every step.
        in_engine: The engine solves dry friction: friction stages pass the effort on unchanged and offer
            ``dry_friction`` and ``viscous_friction`` to the engine.
        losses_in_engine: Gears add their losses to ``dry_friction``, which must be written to the engine at each step.
            Default: ``in_engine``.
        robot_dofs: DOFs of one robot, adjacent in ``indices``. The state of each robot is then one block of memory,
            arrays of states have shape (robots, DOFs), and `c_call` can step a single robot.
        fused: Run the motor model as one kernel if possible. False launches the stages one by one, for
            comparison and debugging: slower, identical results, no ``control_derivative_attrs``.

    Examples:
        >>> actuator = actuon.Actuator(range(2), actuon.ControllerPD(kp=[40.0, 20.0], kd=1.0))
        >>> names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
        >>> sim = {name: np.zeros(2, np.float32) for name in names}
        >>> sim["joint_target_q"][:] = 0.5
        >>> actuator.step(sim, sim)
        >>> sim["joint_f"]
        array([20., 10.], dtype=float32)
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
        control_derivative_attrs: Mapping[str, str] | None = None,
        drive: Controller | Config | NewtonPart | None = None,
        control_every: int = 1,
        in_engine: bool = False,
        losses_in_engine: bool | None = None,
        robot_dofs: int | None = None,
        fused: bool = True,
    ):
        if drive is not None and controller is not None:
            raise StructureError("drive is an alias of controller; pass only one of them")
        self.accumulate = bool(accumulate)
        self.indices = index_array(indices, "indices", None)
        self.device = self.indices.device
        if self.device.is_capturing:
            raise StructureError("an actuator cannot be built during graph capture; build it before")
        self.num_actuators = n = self.indices.shape[0]
        self.pos_indices = self._indices("pos_indices", pos_indices, self.indices)
        self.target_pos_indices = self._indices("target_pos_indices", target_pos_indices, self.pos_indices)
        self.effort_indices = self._indices("effort_indices", effort_indices, self.indices)
        self.requires_grad = requires_grad
        self._robot_dofs = _checked_robot_dofs(robot_dofs, n)
        self._cells = Cells.of(n, self.device, self._robot_dofs)

        self._control_every = checked_control_every(control_every)
        parts = arranged_stages(
            controller if drive is None else drive,
            clamping,
            delay,
            transmission=transmission,
            effects=effects,
            sensors=sensors,
            stages=stages,
        )
        given = [built(part) for part in parts]
        for component in given:
            component.check_fits(n)
        in_engine = bool(in_engine)
        self._stages = self._bound(given, in_engine, in_engine if losses_in_engine is None else bool(losses_in_engine))
        """Copies of the components that were passed."""
        self._check_stages()
        held = held_controller(self._stages, self._control_every)
        self._custom_inputs: dict[str, str | None] = {}  # and the name of a component that requires it, if any
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
        why_not = self.derivative_obstacle()
        if control_derivative_attrs and why_not:
            raise StructureError(f"control_derivative_attrs: the effort has no derivatives: {why_not}")
        if callable(control_signal_attrs):
            asked = (signal for signal in self._offered() if signal not in IMPLICIT_SIGNALS)
            control_signal_attrs = {signal: control_signal_attrs(signal) for signal in asked}
        self.control_signal_attrs = {**(control_signal_attrs or {}), **(control_derivative_attrs or {})}
        self._check_names()
        self._wiring = self._wired(held)
        self._stateful = held is not None or any(component.is_stateful() for component in self._stages)
        self._stepper = stepper_of(self._wiring, requires_grad, self._fused)
        for component in given:
            component.pass_on()

    def _indices(self, name: str, value: IndexLike | None, default: wp.array) -> wp.array:
        return default if value is None else index_array(value, name, self.device, self.num_actuators)

    def _bound(self, given: Sequence[Component], in_engine: bool, losses_in_engine: bool) -> tuple[Component, ...]:
        """Return a copy of each component for its place in the motor model."""
        bound = []
        behind_spring = False
        for component in given:
            placement = Placement(
                self.device,
                self.num_actuators,
                self.requires_grad,
                in_engine and not behind_spring,
                behind_spring,
                losses_in_engine and not behind_spring,
            )
            bound.append(component.bound(placement))
            behind_spring |= isinstance(component, Transmission) and "gear_ratio" not in component.OUTPUTS
        return tuple(bound)

    def _check_stages(self) -> None:
        stages = [(type(component).__name__, component.stage()) for component in self._stages]
        check_stages(stages, SIGNALS)
        if not any("effort" in stage.signals for _, stage in stages):
            raise StructureError("the actuator has no controller; add one, e.g. actuon.ControllerPD(kp=40.0, kd=1.0)")
        check_limits_first(self._stages)
        check_losses_once(self._stages)
        lossy = [stage for stage in self._stages if isinstance(stage, TransmissionGear) and stage.has_friction]
        if len(lossy) > 1:
            raise StructureError(
                f"got {len(lossy)} gears with losses, which are friction here; list one gear with the products of "
                "their ratios and efficiencies"
            )

    def _check_names(self) -> None:
        for name in (self.state_pos_attr, self.state_vel_attr, self.control_output_attr):
            if not isinstance(name, str):
                raise StructureError(f"got {name!r} as the name of an array; must be a string")
        if self.control_computed_output_attr == self.control_output_attr:
            raise ParameterError(
                f"control_computed_output_attr: got '{self.control_output_attr}', which is control_output_attr; "
                "name another array"
            )
        for signal in self.control_signal_attrs:
            if signal not in self._offered():
                raise ParameterError(
                    f"control_signal_attrs: no stage offers a signal '{signal}'; "
                    f"{listed(signal, self._offered(), 'signals')}"
                )

    def _wired(self, held: int | None) -> Wiring:
        """Return the stages with the simulation arrays that they read and write."""
        through = {"pos": self.pos_indices, "vel": self.indices, "target_pos": self.target_pos_indices}
        layouts = {name: IndexLayout.of(indices) for name, indices in through.items()}
        layouts["target_vel"] = layouts["vel"]
        layouts["effort"] = IndexLayout.of(self.effort_indices)
        if layouts["effort"].repeats and not self.accumulate:
            raise ParameterError("effort_indices: some repeat; with accumulate=False each index must be unique")
        if layouts["effort"].repeats and self.control_signal_attrs:
            raise ParameterError("effort_indices: some repeat; with control_signal_attrs each index must be unique")
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
        first = next(i for i, component in enumerate(self._stages) if "effort" in component.stage().signals)
        return Wiring(
            self.device,
            self._cells,
            self._stages,
            layouts,
            names
            | {custom_signal(name): f"sim_control.{name}" for name in self._custom_inputs}
            | {signal: f"sim_control.{attr}" for signal, attr in self.control_signal_attrs.items()},
            computed_after=controllers[-1] if controllers else first,
            adds=self.accumulate,
            telemetry=tuple(self.control_signal_attrs),
            held=held,
            control_every=self._control_every,
        )

    @property
    def stages(self) -> tuple[Component, ...]:
        """Components, in the order in which they act. Their parameters can be changed; the list cannot."""
        return self._stages

    @property
    def controller(self) -> AnyController:
        """Controller, which turns commands into efforts."""
        controllers = self._of_kind(AnyController)
        if not controllers:
            raise StructureError("the actuator has no controller; its stages are in actuator.stages")
        return controllers[0]

    @property
    def drive(self) -> AnyController:
        """The controller, by its name in Newton."""
        return self.controller

    @property
    def delay(self) -> Delay | DelayTime | DelayLowPass | None:
        """Delay of the commands, the first of several; None without one."""
        found = (stage for stage in self._stages if stage.kind is ComponentKind.DELAY)
        return next(found, None)  # type: ignore[return-value]

    @property
    def transmission(self) -> AnyTransmission | None:
        """Transmission between motor and joint; None without one."""
        return next(iter(self._of_kind(AnyTransmission)), None)

    @property
    def clamping(self) -> tuple[AnyClamping, ...]:
        """Limits of the effort, in order."""
        return self._of_kind(AnyClamping)

    @property
    def effects(self) -> tuple[AnyEffect, ...]:
        """Friction, current loop and other effects between motor and joint, in order."""
        return self._of_kind(AnyEffect)

    @property
    def sensors(self) -> tuple[AnySensor, ...]:
        """Sensors between the joint and the controller, in order."""
        return self._of_kind(AnySensor)

    def _of_kind(self, kind: type[_Part]) -> tuple[_Part, ...]:
        return tuple(component for component in self._stages if isinstance(component, kind))

    @property
    def signals(self) -> tuple[str, ...]:
        """Signals that stages offer in addition to the effort, such as a motor's current, in their order."""
        stages = [component.stage() for component in self._stages]
        closing = [stage.closing.returns if stage.closing is not None else () for stage in stages]
        names = (name for stage, late in zip(stages, closing, strict=True) for name in (*stage.outputs, *late))
        return tuple(dict.fromkeys(name for name in names if name != "effort"))

    @property
    def control_every(self) -> int:
        """Number of steps from one run of the controller to the next."""
        return self._control_every

    def _offered(self) -> tuple[str, ...]:
        """Return the signals that a step can write: those of stages, ``limited_by``, and the effort's derivatives."""
        limited_by = [LIMITED_BY for component in self._stages if component.stage().limits][:1]
        return (*self.signals, *limited_by, *(() if self.derivative_obstacle() else IMPLICIT_SIGNALS))

    def derivative_obstacle(self) -> str:
        """Return why the effort has no derivatives; empty if it has."""
        why_not = derivative_obstacle(self._stages, self.requires_grad)
        return why_not or ("" if self._fused else "its stages are launched one by one (fused=False)")

    @property
    def custom_inputs(self) -> tuple[str, ...]:
        """Names of arrays in the simulation's control that stages read in addition to targets and feedforward."""
        return tuple(self._custom_inputs)

    State = ActuatorState
    _response: Response | None = None
    """Response of steps without the argument ``response``."""

    def is_stateful(self) -> bool:
        """Return whether the actuator has memory, such as a delay buffer or an integral.

        Examples:
            >>> actuon.Actuator(range(2), actuon.ControllerPD(kp=40.0, kd=1.0)).is_stateful()
            False
        """
        return self._stateful

    def is_graphable(self) -> bool:
        """Return whether steps can be captured in a graph.

        Examples:
            >>> actuon.Actuator(range(2), actuon.ControllerPD(kp=40.0, kd=1.0)).is_graphable()
            True
        """
        held = self._wiring.held
        can_hold = held is None or self._stages[held].is_fused()  # otherwise the host reads the controller's clock
        return can_hold and all(component.is_graphable() for component in self._stages)

    def is_fused(self) -> bool:
        """Return whether a step is one kernel launch: no component has its own kernels, and ``fused`` is True.

        Examples:
            >>> actuon.Actuator(range(2), actuon.ControllerPD(kp=40.0, kd=1.0)).is_fused()
            True
        """
        return self._fused

    def state(self) -> ActuatorState | None:
        """Return a new initial state, or None if the actuator has no memory.

        Examples:
            >>> pd = actuon.ControllerPD(kp=40.0, kd=1.0)
            >>> delay = actuon.Delay(delay_steps=1, max_delay=1)
            >>> actuon.Actuator(range(4), pd).state() is None
            True
            >>> state = actuon.Actuator(range(4), pd, delay).state()
            >>> state.reset(np.array([True, False, False, False]))
        """
        if not self.is_stateful():
            return None
        inside = [c.is_stateful() and type(c).state is Component.state for c in self._stages]
        words = {position: c.words() for position, c in enumerate(self._stages) if inside[position]}
        words |= {HELD: self._wiring.held_words()} if self.control_every > 1 else {}
        memory = Memory(self._cells, words, self.device, self.requires_grad)
        return ActuatorState(self, memory, tuple(self._stage_state(i, c, memory) for i, c in enumerate(self._stages)))

    def _stage_state(self, position: int, component: Component, memory: Memory) -> Any:
        """Return the state of one stage: views of ``memory``, or a separate object; None if it has none."""
        if not component.is_stateful():
            return None
        if type(component).state is Component.state:
            return component.State.over(memory, position)
        return component.state(self.num_actuators, self.device)

    def load_state(self, path: PathLike) -> ActuatorState | None:
        """Return the state in a file that `State.save` wrote. Steps from it continue bit for bit.

        Args:
            path: A file written by a state of an actuator with the same stages and number of DOFs.

        Raises:
            StateError: The file cannot be read, or belongs to other motors. The message names the difference.

        Examples:
            >>> delay = actuon.Delay(delay_steps=1, max_delay=1)
            >>> actuator = actuon.Actuator(range(2), actuon.ControllerPD(kp=40.0, kd=1.0), delay)
            >>> actuator.state().save("state.npz")
            >>> actuator.load_state("state.npz")
            <State of 2 DOFs: Delay>
        """
        state = self.state()
        if state is None:
            raise StateError(f"'{path}': this actuator has no memory, so no state can be loaded")
        state.load(path)
        return state

    def check_dt(self, dt: float | None) -> None:
        """Check a time step [s], as `step` does before it changes anything.

        Raises:
            StateError: A stage does not allow it.
        """
        self._wiring.check_dt(dt)

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
            current_act_state: State before the step. Required if `is_stateful`.
            next_act_state: State after the step, written. May be ``current_act_state`` unless you need gradients.
            dt: Time step [s]. Required if a stage uses it, and with ``response``.
            response: Response of the joints to efforts. The step then computes efforts at the velocities after it, so
                that stiff drives do not overshoot. Instead of a `Response`, pass an inverse inertia per DOF,
                shape (N,), or a matrix per robot, shape (R, D, D).

        Raises:
            ConvergenceError: With ``response``, the velocities did not converge. The step was taken.

        Examples:
            >>> delay = actuon.Delay(delay_steps=1, max_delay=1)
            >>> actuator = actuon.Actuator([0], actuon.ControllerPD(kp=40.0, kd=1.0), delay)
            >>> names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
            >>> sim, state = {name: np.ones(1, np.float32) for name in names}, actuator.state()
            >>> sim["joint_f"][:] = 0.0  # step() adds to it
            >>> actuator.step(sim, sim, state, state, dt=0.005)
        """
        if self.num_actuators == 0:
            return
        given = self._given(sim_state, sim_control)
        if self._stateful:
            self._check_state("current_act_state", current_act_state)
            self._check_state("next_act_state", next_act_state)
        response = self._response if response is None else response
        if response is None:
            self._stepper.step(given, current_act_state, next_act_state, dt)
        else:
            self._implicit.step(given, current_act_state, next_act_state, dt, response)

    def set_effort_mode_implicit(self, response: Response | Array, options: None = None) -> None:
        """Compute efforts at the velocities after each step, as `step` does with ``response``.

        Args:
            response: As for `step`, whose own argument takes precedence.
            options: Argument of Newton; must be None. `Response` has ``max_iterations`` and ``tolerance``.

        Raises:
            StructureError: The effort has no derivatives, which implicit steps require.

        Examples:
            >>> actuator = actuon.Actuator([0], actuon.ControllerPD(kp=1000.0, kd=10.0))
            >>> actuator.set_effort_mode_implicit(actuon.Response(np.array([20.0])))  # 1/I of the joint
            >>> names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
            >>> sim = {name: np.zeros(1, np.float32) for name in names}
            >>> sim["joint_target_q"][:] = 0.1
            >>> actuator.step(sim, sim, dt=0.01)
        """
        if options is not None:
            raise ParameterError(
                f"options: got {type(options).__name__}; must be None; pass max_iterations and tolerance to Response"
            )
        _ = self._implicit  # raises if the effort has no derivatives
        self._response = response if isinstance(response, Response) else Response(response)

    def set_effort_mode_explicit(self) -> None:
        """Compute efforts at the velocities before each step, unless `step` gets a ``response``.

        Examples:
            >>> actuator = actuon.Actuator([0], actuon.ControllerPD(kp=1000.0, kd=10.0))
            >>> actuator.set_effort_mode_implicit(actuon.Response(np.array([20.0])))
            >>> actuator.set_effort_mode_explicit()
        """
        self._response = None

    def _given(self, sim_state: object, sim_control: object) -> tuple[Any, ...]:
        """Return the arrays of the simulation in the order of the wiring."""
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

    def stepper(
        self, layouts: Mapping[str, IndexLayout], telemetry: tuple[str, ...] = (), *, keeps_rings: bool = True
    ) -> Stepper:
        """Return another stepper of these motors and their states, for arrays in another layout.

        Its ``step`` takes positions, velocities, both targets, feedforward, `custom_inputs`, the effort, the requested
        effort, and ``telemetry``, each an array or None, in this order. Each stepper needs its own next states.

        Args:
            layouts: Index layouts by name: ``pos``, ``vel``, ``target_pos``, ``target_vel``, ``effort``. Default:
                those of this actuator.
            telemetry: Signals of stages, and derivatives of the effort, that it writes.
            keeps_rings: Write new signals into delay buffers.
        """
        wiring = dataclasses.replace(
            self._wiring,
            layouts={**self._wiring.layouts, **layouts},
            labels={**self._wiring.labels, **{name: name for name in telemetry}},
            telemetry=telemetry,
            keeps_rings=keeps_rings,
        )
        return stepper_of(wiring, self.requires_grad, self._fused)

    def c_call(
        self, sim_state: object, sim_control: object, state: ActuatorState | None = None, dt: float | None = None
    ) -> CCall | None:
        """Return the in-place step of one robot as a C function and its arguments. Requires ``robot_dofs``.

        Its argument ``first`` is the number of the robot: copy the arguments, and write another number there. Values
        written into parameter arrays take effect. Call this again after a parameter got another array, or an optional
        parameter its first value.

        Args:
            sim_state: As for `step`.
            sim_control: As for `step`.
            state: State before and after each step. Required if `is_stateful`.
            dt: Time step [s].

        Returns:
            None if a step is not one kernel on the CPU.
        """
        if self._robot_dofs is None:
            raise StructureError("c_call: requires robot_dofs; build the actuator with the number of DOFs of a robot")
        if self._stateful:
            self._check_state("state", state)
        stepper = self._stepper
        if self.num_actuators == 0 or not self.device.is_cpu or self.requires_grad or self._response is not None:
            return None
        if not isinstance(stepper, FusedStepper):
            return None
        launch = stepper.robot_launch(self._given(sim_state, sim_control), state, dt)
        return None if launch is None else launch.c_call

    @property
    def robot_dofs(self) -> int | None:
        """DOFs of one robot; None if the actuator was built without ``robot_dofs``."""
        return self._robot_dofs

    @functools.cached_property
    def _implicit(self) -> ImplicitStepper:
        return ImplicitStepper(self._wiring, self._stepper, self.state, self.requires_grad)

    def _read_signal(self, sim_control: object, signal: str) -> Any:
        name = self.control_signal_attrs[signal]
        if signal == LIMITED_BY:  # control_signal_attrs may be a function that names it without its author's intent
            return read_optional(sim_control, name)
        return read_array(sim_control, name, "sim_control")

    def kernel_source(self) -> str:
        """Return the Python source of the kernel that a step launches. Requires `is_fused`.

        Examples:
            >>> source = actuon.Actuator([0], actuon.ControllerPD(kp=40.0, kd=1.0)).kernel_source()
            >>> "pd_law" in source
            True
        """
        if not self._fused:
            own = [type(component).__name__ for component in self._stages if not component.is_fused()]
            why = f"{own[0]} brings its own kernels" if own else "it was built with fused=False"
            raise StructureError(f"the actuator is not fused: {why}")
        flavour = Flavour.GRAD if self.requires_grad else Flavour.BLOCK if self.device.is_cpu else Flavour.SCALAR
        return kernel_for(self._wiring.chain(flavour)).source

    def _check_state(self, name: str, state: ActuatorState | None) -> None:
        if state is None:
            raise StateError(f"{name}: got None; this actuator has memory: pass a state from actuator.state()")
        if getattr(state, "owner", None) is not self:
            got = "a state of another actuator" if isinstance(state, ActuatorState) else type(state).__name__
            raise StateError(f"{name}: got {got}; pass a state from this actuator's state()")

    def __repr__(self) -> str:
        parts = [f"Delay(≤ {c.buf_depth})" if isinstance(c, Delay) else type(c).__name__ for c in self._stages]
        path = "fused" if self._fused else "staged"
        path += f", control every {self.control_every} steps" if self.control_every > 1 else ""
        return f"<Actuator of {self.num_actuators} DOFs on {self.device}, {path}: {' → '.join(parts)}>"


def held_controller(components: Sequence[Component], every: int) -> int | None:
    """Return the position of the controller that runs at one of ``every`` steps; None if it runs at each step.

    Raises:
        StructureError: There is not exactly one controller, or it has a closing function.
    """
    if every == 1:
        return None
    found = [position for position, component in enumerate(components) if isinstance(component, Controller)]
    if len(found) != 1:
        raise StructureError(
            f"control_every: got {every} for an actuator with {len(found)} controllers; must have exactly one"
        )
    if components[found[0]].stage().closing is not None:
        name = type(components[found[0]]).__name__
        raise StructureError(
            f"control_every: got {every}, but {name} has a closing function (`closing_law`), which runs at every step"
        )
    return found[0]


def _checked_robot_dofs(robot_dofs: int | None, num_dofs: int) -> int | None:
    if robot_dofs is None:
        return None
    is_whole = isinstance(robot_dofs, (int, np.integer)) and not isinstance(robot_dofs, bool)
    if not is_whole or robot_dofs < 1 or num_dofs % robot_dofs:
        raise ParameterError(
            f"robot_dofs: got {robot_dofs!r}; must be a whole number ≥ 1 that divides {num_dofs}, the number of DOFs"
        )
    return int(robot_dofs)
