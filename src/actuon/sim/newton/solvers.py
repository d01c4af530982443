# SPDX-License-Identifier: Apache-2.0
"""Newton's solvers, and their treatment of joints."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import warp as wp

from ...errors import SimulationError
from ..motor import MotorKernels
from ..mujoco.friction import SOFTNESS, external_loads, warp_load_reader
from ..mujoco.rows import PROPERTIES
from ..robots import Robot
from ..step_map import StepMaps
from .loop import StepLoop, captured
from .replay import Attributes, NativeStep, Replay
from .rows import FEATHERSTONE, MUJOCO, SEMI_IMPLICIT, XPBD, used_by
from .step_map import ArticulationStepMaps, mujoco_step_maps

SolverLike: TypeAlias = "str | Callable[[Any], Any]"
"""A name, a class of solver, or a function that returns a solver for a ``newton.Model``."""

_INTEGRATORS = ("euler", "implicitfast", "rk4")

_USE_DERIVATIVES = ("implicitfast", "euler")
"""Integrators with implicit damping of joints."""

_FRICTION = {"dof_solref": "solreffriction", "dof_solimp": "solimpfriction"}
"""Names in Newton's models of MuJoCo's fields of the softness of dry friction."""


class Physics:
    """Interface of a solver. The base class is for solvers that read the model's arrays at each step."""

    used_properties: frozenset[str] = frozenset()
    """Properties of joints that the solver uses."""

    def __init__(self, newton: Any, solver: Any):
        self.newton, self.solver, self.model = newton, solver, solver.model
        self._pipeline = newton.CollisionPipeline(self.model) if self._needs_contacts() else None
        self._contacts = self._pipeline.contacts() if self._pipeline is not None else None
        self.graphs: bool | None = None
        """Whether steps are captured and replayed. None: on a CPU where no other thread runs."""
        self._replays: dict[int, Replay] = {}
        self._attributes = Attributes()
        self._stepped: tuple[Any, ...] = ()
        """State and control of the last step from Python; implicit efforts have a separate control."""

    def _needs_contacts(self) -> bool:
        return True

    def collide(self, state: Any) -> Any:
        """Return contacts for the next step; None if the solver computes them."""
        if self._pipeline is not None:
            self._pipeline.collide(state, self._contacts)
        return self._contacts

    def step(
        self,
        state: Any,
        control: Any,
        dt: float,
        loop: StepLoop | None = None,
        kernels: Sequence[MotorKernels] = (),
    ) -> bool:
        """Advance ``state`` by ``dt`` [s], in place: from Python, or by a captured graph.

        Args:
            state: The state.
            control: Targets and efforts.
            dt: Time step [s].
            loop: Steps with motors; Python takes one of them. Default: a step without motors.
            kernels: The motors.

        Returns:
            True if a graph was replayed, which takes all steps of the loop.
        """
        replay = self._replays.get(id(control))
        if replay is None:
            replay = self._replays[id(control)] = Replay(self.model.device, self.graphs)

        def solve() -> None:
            self._step_once(state, control, dt)

        def work() -> None:
            if loop is None:
                solve()
            else:
                loop.take_one(kernels, solve)
            self._keep(state, control)

        def record() -> Callable[[], None]:
            made = self._record(state, control, dt, loop, kernels)
            self._keep(state, control)
            return made

        key = (dt, loop, *kernels) if self._is_graphable() else None
        return replay.run(key, work, record)

    def _keep(self, state: Any, control: Any) -> None:
        """Remember the objects of a step from Python, which may have changed them."""
        self._stepped = state, control
        self._attributes.keep(self._read_in_steps(*self._stepped))

    def notice_changes(self) -> None:
        """Drop graphs if arrays or options were replaced since their capture."""
        if self._stepped and self._attributes.have_changed(self._read_in_steps(*self._stepped)):
            for replay in self._replays.values():
                replay.forget()

    def _step_once(self, state: Any, control: Any, dt: float) -> None:
        self.solver.step(state, state, control, self.collide(state), dt)

    def _record(
        self, state: Any, control: Any, dt: float, loop: StepLoop | None, kernels: Sequence[MotorKernels]
    ) -> Callable[[], None]:
        """Capture a step and return its replay."""

        def solve() -> None:
            self._step_once(state, control, dt)

        return captured(self.model.device, solve) if loop is None else loop.record(kernels, solve)

    def _is_graphable(self) -> bool:
        """Return whether a graph of one step is valid for all; unknown, so False, for solvers of users."""
        kind = type(self.solver)
        return kind is getattr(self.newton.solvers, kind.__name__, None)

    def _read_in_steps(self, *given: Any) -> list[Any]:
        """Return the objects whose attributes a step reads."""
        return [self.solver, self.model, *given]

    def reset(self, state: Any, env_ids: np.ndarray) -> None:
        """Clear memory outside of the state, such as warm starts."""
        mask = np.zeros(self.model.world_count + 1, dtype=bool)
        mask[env_ids] = True
        everything = len(env_ids) >= self.model.world_count
        self.solver.reset(state, None if everything else wp.array(mask, device=self.model.device), 0)

    def memory(self, control: Any) -> list[wp.array | np.ndarray]:
        """Return the inputs of the next step besides state, targets and efforts."""
        return []

    def stiffen_friction(self, dofs: np.ndarray, dt: float, tell: Callable[[], None]) -> Callable[[], None]:
        """Make dry friction of these DOFs of the model stiff, and notify the solver by ``tell``.

        Returns:
            Function that restores its softness.
        """
        return lambda: None

    def load_reader(self, loads: wp.array) -> Callable[[], None] | None:
        """Return a function that writes the external load of each DOF to ``loads``; None if the solver has none."""
        return None

    def integrator(self) -> str:
        """Return the integrator of the solver; empty if unknown."""
        return ""

    def derivative_obstacle(self) -> str:
        """Return why the solver cannot use derivatives of efforts; empty if it can."""
        return "computes damping from the state before the step, so derivatives of efforts would have no effect"

    def why_drives_rest(self) -> str:
        """Return why the solver ignores its own drives; empty if it does not."""
        return ""

    def damping_writer(self, write: Callable[[wp.array, wp.array], None]) -> Callable[[], None]:
        """Return a function that lets ``write`` change the damping of joints in the solver's own model.

        ``write`` receives the index of each DOF of the solver in Newton's model, or -1, and the damping, both of shape
        (worlds, DOFs).
        """
        return lambda: None

    def step_maps(self, robot: Robot, joint_q: np.ndarray, dt: float, viscous: np.ndarray | None) -> StepMaps:
        """Return linear maps of steps of ``dt`` [s] for motions of a robot of the first environment, with all joints at
        ``joint_q``, and this viscous friction of its DOFs if it is not NaN."""
        return ArticulationStepMaps(self.newton, self.model, robot, joint_q, self.used_properties, dt, viscous)

    def can_be_driven(self) -> np.ndarray:
        """Return whether gains have an effect, for each DOF of the model."""
        return np.ones(self.model.joint_dof_count, dtype=bool)

    def can_have_stops(self) -> np.ndarray:
        """Return whether limits of the position have an effect, for each DOF of the model."""
        return np.ones(self.model.joint_dof_count, dtype=bool)

    def is_pushed(self) -> np.ndarray:
        """Return whether a drive of the solver may act, for each DOF of the model."""
        stiffness, damping = self.model.joint_target_ke.numpy(), self.model.joint_target_kd.numpy()
        return np.logical_or(stiffness != 0.0, damping != 0.0)

    def silence_others(self, dofs: np.ndarray) -> Callable[[], None]:
        """Disable all actuators of these DOFs besides the gains. Returns a function that restores them."""
        return lambda: None

    def of_actuators(self, name: str) -> np.ndarray:
        """Return the share of the solver's own actuators in a property of joints, for each DOF of the model."""
        return np.zeros(self.model.joint_dof_count, np.float32)

    def own_properties(self) -> dict[str, np.ndarray]:
        """Return further properties of the solver's own model, by name, to read and write."""
        return {}

    def clear_of_actuators(self, name: str, dofs: np.ndarray) -> None:
        """Set the share of actuators in a property of these DOFs of the model to zero.

        Raises:
            SimulationError: The solver cannot change it.
        """

    def keep_of_actuators(self, dofs: np.ndarray) -> Callable[[], None]:
        """Return a function that restores the share of actuators in properties of these DOFs."""
        return lambda: None


class FeatherstonePhysics(Physics):
    """Interface of a solver whose state is that of the joints."""

    used_properties = used_by(FEATHERSTONE)

    def _is_graphable(self) -> bool:
        return super()._is_graphable() and self.solver.update_mass_matrix_interval == 1


class MaximalPhysics(Physics):
    """Interface of solvers whose state is that of the bodies, from which joints are computed."""

    def __init__(self, newton: Any, solver: Any):
        super().__init__(newton, solver)
        self._next = self.model.state()

    def _step_once(self, state: Any, control: Any, dt: float) -> None:
        self.solver.step(state, self._next, control, self.collide(state), dt)
        wp.copy(state.body_q, self._next.body_q)
        wp.copy(state.body_qd, self._next.body_qd)
        self.newton.eval_ik(self.model, state, state.joint_q, state.joint_qd)


class SemiImplicitPhysics(MaximalPhysics):
    """Semi-implicit physics in maximal coordinates, with damping of joints."""

    used_properties = used_by(SEMI_IMPLICIT)


class XpbdPhysics(MaximalPhysics):
    """XPBD in maximal coordinates, without damping of joints."""

    used_properties = used_by(XPBD)

    def derivative_obstacle(self) -> str:
        return "applies drives only as far as its iterations and relaxation allow, so derivatives have no exact effect"


class MujocoPhysics(Physics):
    """Interface of MuJoCo and MuJoCo Warp, which have a separate model."""

    used_properties = used_by(MUJOCO)

    def __init__(self, newton: Any, solver: Any):
        super().__init__(newton, solver)
        if solver.use_mujoco_cpu and self.model.world_count > 1:
            raise SimulationError("solver: use_mujoco_cpu steps one environment only; leave it off for several")
        mujoco, _ = solver.import_mujoco()
        self._joint_kind = int(mujoco.mjtTrn.mjTRN_JOINT)
        # a state that diverged must be reported, not silently replaced by the first one, as MuJoCo does
        solver.mj_model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        self.used_properties = frozenset(
            name for name in self.used_properties if not PROPERTIES[name].switched_off(solver.mj_model)
        )
        self._driven, self._direct = self._actuators()
        stops = np.zeros(self._width, dtype=bool)
        dof_of_joint = self.solver.mjc_jnt_to_newton_dof.numpy()[0]
        stops[dof_of_joint[(dof_of_joint >= 0) & solver.mj_model.jnt_limited.astype(bool)]] = True
        self._stops = np.tile(stops, self._worlds)

    def _needs_contacts(self) -> bool:
        return not self.solver.use_mujoco_cpu and not self.solver.mjw_model.opt.run_collision_detection

    def _is_graphable(self) -> bool:
        interval = getattr(self.solver, "_update_data_interval", 1)  # the public name is deprecated
        return super()._is_graphable() and interval == 1

    def _read_in_steps(self, *given: Any) -> list[Any]:
        of_warp = [] if self.solver.use_mujoco_cpu else [self.solver.mjw_model.opt]
        return [*super()._read_in_steps(*given), *of_warp]

    def _record(
        self, state: Any, control: Any, dt: float, loop: StepLoop | None, kernels: Sequence[MotorKernels]
    ) -> Callable[[], None]:
        if not self.solver.use_mujoco_cpu:
            return super()._record(state, control, dt, loop, kernels)
        native = NativeStep(self.solver, state, control, dt)
        return native.record() if loop is None else native.record_loop(loop, kernels)

    @property
    def _worlds(self) -> int:
        """Number of separate worlds of MuJoCo."""
        return 1 if self.solver.use_mujoco_cpu else self.solver.mjw_data.nworld

    @property
    def _width(self) -> int:
        return self.model.joint_dof_count // self._worlds

    def _actuators(self) -> tuple[dict[int, int], dict[int, int]]:
        """MuJoCo's actuators with the DOF of each in the first world: those that follow targets, and those that do not,
        such as motors of an MJCF file.
        """
        if self.solver.mjc_actuator_to_newton_idx is None:
            return {}, {}
        numbers = self.solver.mjc_actuator_to_newton_idx.numpy()
        sources = self.solver.mjc_actuator_ctrl_source.numpy()
        driven = {
            i: int(dof if dof >= 0 else -(dof + 2)) for i, dof in enumerate(numbers) if sources[i] == 0 and dof != -1
        }
        held, dof_of_joint = self.solver.mj_model, self.solver.mjc_jnt_to_newton_dof.numpy()[0]
        direct = {
            i: int(dof_of_joint[held.actuator_trnid[i, 0]])
            for i in range(held.nu)
            if i < len(sources) and sources[i] != 0 and held.actuator_trntype[i] == self._joint_kind
        }
        return driven, direct

    def integrator(self) -> str:
        held = self.solver.mj_model if self.solver.use_mujoco_cpu else self.solver.mjw_model
        mujoco, _ = self.solver.import_mujoco()
        return mujoco.mjtIntegrator(int(held.opt.integrator)).name.removeprefix("mjINT_").lower()

    def derivative_obstacle(self) -> str:
        mujoco, _ = self.solver.import_mujoco()
        held = self.solver.mj_model if self.solver.use_mujoco_cpu else self.solver.mjw_model
        if int(held.opt.disableflags) & int(mujoco.mjtDisableBit.mjDSBL_DAMPER):
            return "has damping switched off in its options, so derivatives of efforts would have no effect"
        if self.integrator() not in _USE_DERIVATIVES:
            return (
                f"ignores derivatives of efforts with the integrator '{self.integrator()}'; it must be one of "
                f"{', '.join(_USE_DERIVATIVES)}"
            )
        if not self.solver.use_mujoco_cpu and self.of_actuators("viscous_friction").any():
            return (
                "adds damping of the robot's actuators to that of joints, which implicit efforts would overwrite; "
                "remove it from the <actuator> in the file"
            )
        return ""

    def why_drives_rest(self) -> str:
        mujoco, _ = self.solver.import_mujoco()
        off = int(self.solver.mj_model.opt.disableflags) & int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
        return "has actuation switched off in its options, so its own drives have no effect" if off else ""

    def damping_writer(self, write: Callable[[wp.array, wp.array], None]) -> Callable[[], None]:
        of_newton = self.solver.mjc_dof_to_newton_dof
        if not self.solver.use_mujoco_cpu:
            return lambda: write(of_newton, self.solver.mjw_model.dof_damping)
        held = self.solver.mj_model.dof_damping
        values = wp.array(held[None], dtype=wp.float32, device=of_newton.device)
        shown = values.numpy()[0]

        def damp() -> None:
            shown[:] = held
            write(of_newton, values)
            held[:] = shown

        return damp

    def can_be_driven(self) -> np.ndarray:
        driven = np.zeros(self._width, dtype=bool)
        driven[list(self._driven.values())] = True
        return np.tile(driven, self._worlds)

    def memory(self, control: Any) -> list[wp.array | np.ndarray]:
        data = self.solver.mj_data if self.solver.use_mujoco_cpu else self.solver.mjw_data
        direct = getattr(getattr(control, "mujoco", None), "ctrl", None)
        return [data.qacc_warmstart, data.act, *([direct] if direct is not None else [])]

    def stiffen_friction(self, dofs: np.ndarray, dt: float, tell: Callable[[], None]) -> Callable[[], None]:
        own = getattr(self.model, "mujoco", None)
        found = {name: getattr(own, _FRICTION[name], None) for name in SOFTNESS}
        arrays = {name: array for name, array in found.items() if array is not None}
        kept = {name: array.numpy()[dofs] for name, array in arrays.items()}

        def put(values: Mapping[str, Any]) -> None:
            for name, array in arrays.items():
                numbers = array.numpy().copy()
                numbers[dofs] = values[name]
                array.assign(numbers)
            tell()

        put({name: firm(dt) for name, firm in SOFTNESS.items()})
        return functools.partial(put, kept)

    def load_reader(self, loads: wp.array) -> Callable[[], None]:
        of_newton, solver = self.solver.mjc_dof_to_newton_dof, self.solver
        if not solver.use_mujoco_cpu:
            return warp_load_reader(solver.mjw_data, of_newton, loads)
        dofs, shown = of_newton.numpy()[0], loads.numpy()
        has = dofs >= 0

        def read() -> None:
            shown[dofs[has]] = external_loads(solver.mj_data)[has]

        return read

    def step_maps(self, robot: Robot, joint_q: np.ndarray, dt: float, viscous: np.ndarray | None) -> StepMaps:
        return mujoco_step_maps(self.solver, robot, joint_q, dt, viscous)

    def can_have_stops(self) -> np.ndarray:
        return self._stops

    def is_pushed(self) -> np.ndarray:
        """Return whether a drive acts, read back from the solver's own model."""
        gain, bias = self._parameters()
        active = np.logical_or(gain.any(axis=2), bias.any(axis=2))
        pushed = np.zeros((self._worlds, self._width), dtype=bool)
        for i, dof in (self._driven | self._direct).items():
            pushed[:, dof] |= active[:, i]
        return pushed.ravel()

    def _parameters(self) -> tuple[np.ndarray, np.ndarray]:
        """Return gain and bias of MuJoCo's actuators, shape (worlds, actuators, 10), not copied on the CPU."""
        if self.solver.use_mujoco_cpu:
            return self.solver.mj_model.actuator_gainprm[None], self.solver.mj_model.actuator_biasprm[None]
        return self.solver.mjw_model.actuator_gainprm.numpy(), self.solver.mjw_model.actuator_biasprm.numpy()

    def silence_others(self, dofs: np.ndarray) -> Callable[[], None]:
        rows = [(dof // self._width, i) for dof in dofs for i, own in self._direct.items() if own == dof % self._width]
        if not rows:
            return lambda: None
        at = tuple(np.array(rows).T)
        kept = [numbers[at].copy() for numbers in self._parameters()]
        self._set_parameters(at, [np.zeros_like(values) for values in kept])
        return lambda: self._set_parameters(at, kept)

    def of_actuators(self, name: str) -> np.ndarray:
        """Return the share of actuators in a property. MuJoCo Warp ignores their inertia, of which Newton warns."""
        total = np.zeros(self._width, np.float32)
        place, held = PROPERTIES.get(name), self.solver.mj_model
        if place is not None and place.of_actuator and (self.solver.use_mujoco_cpu or name != "armature"):
            values = place.part(getattr(held, place.of_actuator))
            for i, dof in (self._driven | self._direct).items():
                total[dof] += values[i] * held.actuator_gear[i, 0] ** 2
        return np.tile(total, self._worlds)

    def own_properties(self) -> dict[str, np.ndarray]:
        """Return further properties. MuJoCo Warp cannot change those of its actuators."""
        names = {place.of_actuator for place in PROPERTIES.values() if place.of_actuator}
        return {name: getattr(self.solver.mj_model, name) for name in sorted(names)}

    def clear_of_actuators(self, name: str, dofs: np.ndarray) -> None:
        added = self.of_actuators(name)[dofs]
        if not added.any():
            return
        if not self.solver.use_mujoco_cpu:
            raise SimulationError(
                f"{name} of joints cannot be set: the robot's own actuators add {added.max():g} to it, which MuJoCo "
                "Warp cannot drop; take damping off the <actuator> in the file, or step one environment on the CPU"
            )
        place = PROPERTIES[name]
        place.part(getattr(self.solver.mj_model, place.of_actuator))[self._actuators_of(dofs)] = 0.0

    def _actuators_of(self, dofs: np.ndarray) -> list[int]:
        """Return MuJoCo's actuators on these DOFs of the model."""
        return [i for i, dof in (self._driven | self._direct).items() if dof in dofs % self._width]

    def keep_of_actuators(self, dofs: np.ndarray) -> Callable[[], None]:
        held, at = self.solver.mj_model, self._actuators_of(dofs)
        names = {place.of_actuator for place in PROPERTIES.values() if place.of_actuator}
        kept = {name: getattr(held, name)[at].copy() for name in names}

        def give_back() -> None:
            for name, values in kept.items():
                getattr(held, name)[at] = values

        return give_back

    def _set_parameters(self, at: Any, values: list[np.ndarray]) -> None:
        for name, numbers, new in zip(("gain", "bias"), self._parameters(), values, strict=True):
            numbers[at] = new
            if not self.solver.use_mujoco_cpu:
                getattr(self.solver.mjw_model, f"actuator_{name}prm").assign(numbers)


SERVED: dict[str, tuple[str, type[Physics]]] = {
    MUJOCO: ("SolverMuJoCo", MujocoPhysics),
    FEATHERSTONE: ("SolverFeatherstone", FeatherstonePhysics),
    SEMI_IMPLICIT: ("SolverSemiImplicit", SemiImplicitPhysics),
    XPBD: ("SolverXPBD", XpbdPhysics),
}
"""Solvers by name: their class in Newton, and their interface."""


def check_options(solver: Any, integrator: Any, sizes: dict[str, Any]) -> None:
    """Raise an error for invalid options, before anything is built."""
    if isinstance(solver, str):
        if solver not in SERVED:
            raise SimulationError(f"solver: got '{solver}'; must be {_allowed()}")
    elif not callable(solver):
        raise SimulationError(
            f"solver: got {type(solver).__name__}; must be {_allowed()}. A solver that is made already belongs to "
            "another model"
        )
    given = {name: value for name, value in (("integrator", integrator), *sizes.items()) if value is not None}
    if given and solver != "mujoco":
        raise SimulationError(
            f"{', '.join(given)}: only for solver='mujoco'; a function that makes a solver sets its options itself"
        )
    if integrator is not None and integrator not in _INTEGRATORS:
        raise SimulationError(f"integrator: got {integrator!r}; must be one of {', '.join(_INTEGRATORS)}")
    for name, value in sizes.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1):
            raise SimulationError(f"{name}: got {value!r}; must be a whole number ≥ 1")


def make_physics(newton: Any, model: Any, solver: SolverLike, options: dict[str, Any]) -> Physics:
    """Return the chosen solver.

    Args:
        newton: The package.
        model: A ``newton.Model``.
        solver: As for `NewtonSimulation`, checked.
        options: Options of the MuJoCo solver, if it is chosen by name.

    Raises:
        SimulationError: Robots cannot be stepped with it.
    """
    if isinstance(solver, str):
        name, kind = SERVED[solver]
        try:
            with np.errstate(invalid="ignore"):  # it casts arrays that are not filled yet
                made = getattr(newton.solvers, name)(model, **(options if solver == "mujoco" else {}))
        except (ValueError, RuntimeError, NotImplementedError) as error:
            raise SimulationError(f"{name} cannot step this robot: {' '.join(str(error).split())}") from error
        return kind(newton, made)
    if isinstance(solver, type) and issubclass(solver, newton.solvers.SolverBase):
        _kind_of(newton, solver)
    with np.errstate(invalid="ignore"):
        made = solver(model)
    if not isinstance(made, newton.solvers.SolverBase):
        raise SimulationError(f"solver: its function returned {type(made).__name__}; must return a solver of Newton")
    if made.model is not model:
        raise SimulationError("solver: its function returned a solver of another model than its argument")
    return _kind_of(newton, type(made))(newton, made)


def _kind_of(newton: Any, solver: type) -> type[Physics]:
    for name, kind in SERVED.values():
        if issubclass(solver, getattr(newton.solvers, name)):
            return kind
    raise SimulationError(f"solver: {solver.__name__} does not step robots here; must be {_allowed()}")


def _allowed() -> str:
    names = ", ".join(f"'{name}'" for name in SERVED)
    classes = ", ".join(name for name, _ in SERVED.values())
    return f"one of {names}, or a function of the model that makes one of {classes}"
