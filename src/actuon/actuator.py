# SPDX-License-Identifier: Apache-2.0
"""`Actuator`: components composed into a chain, its state, and its step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import warp as wp

from .arrays import index_array, read_array, read_optional
from .chain import READ_THROUGH, Access, Chain
from .components.base import Clamping, Controller
from .components.delay import Delay
from .errors import ParameterError, StateError, StructureError
from .fields import Config
from .pipeline import Flavour, kernel_source
from .runners import FusedRunner, StagedRunner, TapeRunner
from .typing import ArrayLike, IndexLike

_Part = TypeVar("_Part", Controller, Delay, Clamping)


class Actuator:
    """Delay → controller → clamping, for N DOFs at once.

    Where every component has a law, a step is one kernel launch. The effort is *added* to the output array: the caller
    zeroes it first, and several actuators may write to the same one.

    Args:
        indices: DOF indices into velocities, velocity targets, feedforward and output, shape (N,).
        controller: What makes effort out of commands; a config of one value for all DOFs will do, here and below.
        delay: What holds commands back.
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
    """

    def __init__(
        self,
        indices: IndexLike,
        controller: Controller | Config,
        delay: Delay | Config | None = None,
        clamping: Sequence[Clamping | Config] | None = None,
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
    ):
        self.accumulate = bool(accumulate)
        self.indices = index_array(indices, "indices", None)
        self.device = self.indices.device
        if self.device.is_capturing:
            raise StructureError("an actuator cannot be built while a graph is being captured; build it before")
        self.num_actuators = n = self.indices.shape[0]
        self.pos_indices = self._indices("pos_indices", pos_indices, self.indices)
        self.target_pos_indices = self._indices("target_pos_indices", target_pos_indices, self.pos_indices)
        self.effort_indices = self._indices("effort_indices", effort_indices, self.indices)

        if clamping is not None and not isinstance(clamping, (list, tuple)):
            raise StructureError(f"clamping: got {type(clamping).__name__}; must be a list of clamps")
        self._controller: Controller = _built("controller", controller, Controller)
        self._delay: Delay | None = None if delay is None else _built("delay", delay, Delay)
        self._clamping = tuple(_built(f"clamping[{i}]", clamp, Clamping) for i, clamp in enumerate(clamping or ()))
        self.requires_grad = requires_grad

        self.state_pos_attr = state_pos_attr
        self.state_vel_attr = state_vel_attr
        self.control_target_pos_attr = control_target_pos_attr or "joint_target_q"
        self.control_target_vel_attr = control_target_vel_attr or "joint_target_qd"
        self.control_feedforward_attr = control_feedforward_attr
        self.control_output_attr = control_output_attr
        self.control_computed_output_attr = control_computed_output_attr
        for name in (state_pos_attr, state_vel_attr, control_output_attr):
            if not isinstance(name, str):
                raise StructureError(f"got {name!r} as the name of an array; must be a string")
        if control_computed_output_attr == control_output_attr:
            raise ParameterError(
                f"control_computed_output_attr: got '{control_output_attr}', which is the output; name another array"
            )

        for component in (self._controller, *self._clamping, *([] if self._delay is None else [self._delay])):
            component.check_fits(n)
        for component in (self._controller, *self._clamping):
            component.requires_grad = component.requires_grad or requires_grad
            component.finalize(self.device, n)
        if self._delay is not None:
            self._delay.finalize(self.device, n, requires_grad=requires_grad)

        self._stateful = self._delay is not None or self._controller.is_stateful()
        self._chain = self._compose()
        self._fused = all(component.is_fused() for component in (self._controller, *self._clamping))
        self._runner: FusedRunner | TapeRunner | StagedRunner
        if not self._fused:
            self._runner = StagedRunner(self._chain, requires_grad)
        elif requires_grad:
            self._runner = TapeRunner(self._chain)
        else:
            self._runner = FusedRunner(self._chain)

    def _compose(self) -> Chain:
        through = {"pos": self.pos_indices, "vel": self.indices, "target_pos": self.target_pos_indices}
        accesses = {name: Access.through(indices) for name, indices in through.items()}
        accesses["target_vel"] = accesses["vel"]
        accesses["effort"] = Access.through(self.effort_indices)
        names = (
            f"sim_state.{self.state_pos_attr}",
            f"sim_state.{self.state_vel_attr}",
            f"sim_control.{self.control_target_pos_attr}",
            f"sim_control.{self.control_target_vel_attr}",
            f"sim_control.{self.control_feedforward_attr}",
            f"sim_control.{self.control_output_attr}",
            f"sim_control.{self.control_computed_output_attr}",
        )
        labels = dict(zip(READ_THROUGH, names, strict=True))
        if not self.accumulate and accesses["effort"].repeats:
            raise ParameterError("effort_indices: some repeat; with accumulate=False each output must be written once")
        return Chain(
            self.device,
            self.num_actuators,
            self.controller,
            self.delay,
            self.clamping,
            accesses,
            labels,
            self.accumulate,
        )

    @property
    def controller(self) -> Controller:
        """What makes effort out of commands. Its parameters are live; itself it stays."""
        return self._controller

    @property
    def delay(self) -> Delay | None:
        """What holds commands back."""
        return self._delay

    @property
    def clamping(self) -> tuple[Clamping, ...]:
        """What limits the effort, in order."""
        return self._clamping

    def _indices(self, name: str, value: IndexLike | None, default: wp.array) -> wp.array:
        return default if value is None else index_array(value, name, self.device, self.num_actuators)

    @dataclass(eq=False)
    class State:
        """What an actuator remembers between two steps."""

        delay_state: Delay.State | None = None
        """Ring of past commands; None without a delay."""
        controller_state: Any = None
        """State of the controller; None where it is stateless."""
        owner: Actuator | None = field(default=None, repr=False)
        """The actuator it was made by."""
        tape: wp.Tape | None = field(default=None, repr=False)
        """The tape that last recorded a step from or to it."""
        plans: Any = field(default_factory=dict, init=False, repr=False)
        """What is bound to steps from this state, by the state that they go to."""

        def reset(self, mask: ArrayLike | None = None) -> None:
            """Go back to the initial state: all DOFs, or those where ``mask``, bool of shape (N,), is true."""
            parts = [part for part in (self.delay_state, self.controller_state) if part is not None]
            for part in parts:
                if not hasattr(part, "reset"):
                    raise StructureError(f"{type(part).__name__} has no reset(mask)")
            for part in parts:
                part.reset(mask)

        def assign(self, other: Actuator.State) -> None:
            """Copy ``other`` into this state, keeping this state's arrays: a captured graph goes on using them."""
            if not isinstance(other, Actuator.State):
                raise StateError(f"assign: got {type(other).__name__}; must be a state from actuator.state()")
            for name in ("delay_state", "controller_state"):
                _assign(name, getattr(self, name), getattr(other, name))

    def is_stateful(self) -> bool:
        """Whether the chain remembers anything between two steps."""
        return self._stateful

    def is_graphable(self) -> bool:
        """Whether steps can be captured in a graph."""
        return all(component.is_graphable() for component in (self.controller, *self.clamping))

    def is_fused(self) -> bool:
        """Whether a step is one kernel launch. False where a component brings kernels of its own."""
        return self._fused

    def state(self) -> Actuator.State | None:
        """Return a new initial state, or None where the chain is stateless."""
        if not self.is_stateful():
            return None
        controller_state = None
        if self.controller.is_stateful():
            controller_state = self.controller.state(self.num_actuators, self.device)
        delay_state = None if self.delay is None else self.delay.state(self.num_actuators, self.device)
        return Actuator.State(delay_state, controller_state, owner=self)

    def step(
        self,
        sim_state: object,
        sim_control: object,
        current_act_state: Actuator.State | None = None,
        next_act_state: Actuator.State | None = None,
        dt: float | None = None,
    ) -> None:
        """Read state and commands, and add the effort of each DOF to the output.

        Args:
            sim_state: Object or mapping with positions and velocities.
            sim_control: Object or mapping with targets, feedforward and outputs.
            current_act_state: State before the step. Needed where `is_stateful`.
            next_act_state: State after the step, written. May be ``current_act_state`` unless gradients are wanted.
            dt: Time step [s]. Needed by controllers that integrate.
        """
        if self.num_actuators == 0:
            return
        given = (
            read_array(sim_state, self.state_pos_attr, "sim_state"),
            read_array(sim_state, self.state_vel_attr, "sim_state"),
            read_array(sim_control, self.control_target_pos_attr, "sim_control"),
            read_array(sim_control, self.control_target_vel_attr, "sim_control"),
            self._read_feedforward(sim_control),
            read_array(sim_control, self.control_output_attr, "sim_control"),
            read_array(sim_control, self.control_computed_output_attr, "sim_control")
            if self.control_computed_output_attr
            else None,
        )
        if self._stateful:
            self._check_state("current_act_state", current_act_state)
            self._check_state("next_act_state", next_act_state)
        self._runner.run(given, current_act_state, next_act_state, dt)

    def _read_feedforward(self, sim_control: object) -> Any:
        """The feedforward; the default name may be absent, one that was asked for may only be None."""
        name = self.control_feedforward_attr
        if name is None:
            return None
        value = read_optional(sim_control, name)
        if value is None and name != "joint_act":
            there = name in sim_control if isinstance(sim_control, Mapping) else hasattr(sim_control, name)
            return None if there else read_array(sim_control, name, "sim_control")
        return value

    def kernel_source(self) -> str:
        """The Python source of the kernel that a step launches, for reading. Only where `is_fused`."""
        if not self._fused:
            raise StructureError("the chain is not fused: a component brings kernels of its own")
        flavour = Flavour.GRAD if self.requires_grad else Flavour.BLOCK if self.device.is_cpu else Flavour.SCALAR
        return kernel_source(self._chain.structure(flavour))[0]

    def _check_state(self, name: str, state: Actuator.State | None) -> None:
        if state is None:
            raise StateError(f"{name}: got None; the chain is stateful, make its states with actuator.state()")
        if getattr(state, "owner", None) is not self:
            got = "a state of another actuator" if isinstance(state, Actuator.State) else type(state).__name__
            raise StateError(f"{name}: got {got}; make states with this actuator's state()")

    def __repr__(self) -> str:
        delay = [] if self.delay is None else [f"Delay(≤ {self.delay.buf_depth})"]
        parts = [*delay, *(type(component).__name__ for component in (self.controller, *self.clamping))]
        path = "fused" if self._fused else "staged"
        return f"<Actuator of {self.num_actuators} DOFs on {self.device}, {path}: {' → '.join(parts)}>"


def _built(where: str, part: Any, kind: type[_Part]) -> _Part:
    """A component as it is, or the one that a config describes."""
    component = part.build() if isinstance(part, Config) else part
    if not isinstance(component, kind):
        raise StructureError(f"{where}: got {type(part).__name__}; must be a {kind.__name__}, or the config of one")
    return component


def _assign(name: str, target: Any, source: Any) -> None:
    """Copy the state of one component."""
    if type(target) is not type(source):
        raise StateError(
            f"{name}: cannot assign a {type(source).__name__} to a {type(target).__name__}; "
            "both states must come from the same actuator"
        )
    if target is None:
        return
    if hasattr(target, "assign"):
        target.assign(source)
        return
    for attribute, array in vars(target).items():
        if not isinstance(array, wp.array):
            raise StateError(f"{name}.{attribute}: is no Warp array; give {type(target).__name__} an assign(other)")
        wp.copy(array, getattr(source, attribute))
