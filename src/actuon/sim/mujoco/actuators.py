# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's own actuators as drives of joints: kinds, targets, gains and limits."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from .model import joint_name


@dataclass(frozen=True)
class Servo:
    """An actuator that drives its joint or tendon with ``kp·(x* − x) + kd·(ẋ* − ẋ)``.

    A target without an input is zero: ``<position kp kv>`` has none for the velocity.
    """

    actuator: int
    gear: float
    position: int = -1
    """Index of its target position in ``ctrl``, or -1."""
    velocity: int = -1
    """Index of its target velocity in ``ctrl``, or -1."""
    scale: float = 1.0
    """``ctrl`` = scale · target + offset, with the gear and other units, such as 0 to 255 for a gripper."""
    offset: float = 0.0

    def gains(self, model: Any) -> tuple[float, float]:
        """Stiffness and damping at the joint or tendon."""
        _, holds, brakes = model.actuator_biasprm[self.actuator, :3]
        return -holds * self.gear**2 + 0.0, -brakes * self.gear**2 + 0.0

    def set_gains(self, model: Any, stiffness: float, damping: float) -> None:
        """Set what `gains` returns. Its ``ctrl`` keeps its meaning."""
        kp, kd = stiffness / self.gear**2, damping / self.gear**2
        model.actuator_biasprm[self.actuator, 1:3] = -kp, -kd
        if model.actuator_gaintype[self.actuator] == int(mujoco.mjtGain.mjGAIN_FIXED):
            gain = (kp if self.position >= 0 else kd) * self.gear / self.scale
            model.actuator_gainprm[self.actuator, 0] = gain
            model.actuator_biasprm[self.actuator, 0] = -self.offset * gain


def read_servo(model: Any, actuator: int) -> Servo | None:
    """Return the servo in an actuator; None for motors, muscles and the like."""
    gear = float(model.actuator_gear[actuator, 0])
    is_affine = model.actuator_biastype[actuator] == int(mujoco.mjtBias.mjBIAS_AFFINE)
    if not is_affine or gear == 0.0 or model.actuator_plugin[actuator] >= 0:
        return None
    if model.actuator_dyntype[actuator] not in _kinds("NONE", "FILTER", "FILTEREXACT", "PID"):
        return None
    control = int(model.actuator_ctrladr[actuator])
    gain = float(model.actuator_gainprm[actuator, 0])
    constant, holds, brakes = (float(value) for value in model.actuator_biasprm[actuator, :3])
    if model.actuator_gaintype[actuator] == int(mujoco.mjtGain.mjGAIN_PID):
        if constant != 0.0:
            return None
        position, velocity = _pid_inputs(model, actuator)
        return Servo(actuator, gear, position, velocity, gear, 0.0)
    if model.actuator_gaintype[actuator] != int(mujoco.mjtGain.mjGAIN_FIXED):
        return None
    if gain == 0.0:
        is_position, is_velocity, own = holds == 0.0 and constant == 0.0, False, 0.0
    else:
        is_position, is_velocity = holds < 0.0, holds == 0.0 and brakes < 0.0
        own = -holds if is_position else -brakes
    if not (is_position or is_velocity):
        return None
    scale = 1.0 if own == gain else own / gain
    offset = -constant / gain if constant else 0.0
    inputs = {"position": control} if is_position else {"velocity": control}
    return Servo(actuator, gear, **inputs, scale=gear * scale, offset=offset)


def _pid_inputs(model: Any, actuator: int) -> tuple[int, int]:
    """Return the indices of a PID's targets in ``ctrl``: it has the inputs that its signature names, in order."""
    control, spec = int(model.actuator_ctrladr[actuator]), int(model.actuator_ctrlspec[actuator])
    has_position = bool(spec & int(mujoco.mjtCtrlInput.mjINPUT_POS))
    has_velocity = bool(spec & int(mujoco.mjtCtrlInput.mjINPUT_VEL))
    return control if has_position else -1, control + has_position if has_velocity else -1


@dataclass(frozen=True)
class Lags:
    """Lags between the control of an actuator and its effort."""

    delay: float
    """Delay of the control, limited by its history [s]."""
    interpolation: int
    """Order of interpolation between controls: 0 holds the last one, 1 is linear, 2 cubic."""
    time_constant: float
    """Time constant of a first-order filter of the control [s]; 0 without one."""
    is_euler: bool
    """Whether the filter is integrated by Euler's method, instead of exactly."""
    integral: float
    """Integral gain of a PID."""
    slew: float
    """Largest rate of a PID's target [rad/s or m/s]; 0 without a limit."""


def read_lags(model: Any, actuator: int) -> Lags:
    """Read the lags between an actuator's control and its effort."""
    samples, interpolation = (int(number) for number in model.actuator_history[actuator])
    dynamics, parameters = model.actuator_dyntype[actuator], model.actuator_dynprm[actuator]
    is_pid = dynamics in _kinds("PID")
    has_euler_steps = model.opt.integrator != int(mujoco.mjtIntegrator.mjINT_RK4)
    return Lags(
        delay=min(float(model.actuator_delay[actuator]), samples * float(model.opt.timestep)),
        interpolation=interpolation,
        time_constant=float(parameters[0]) if dynamics in _kinds("FILTER", "FILTEREXACT") else 0.0,
        is_euler=dynamics in _kinds("FILTER") and has_euler_steps,
        integral=float(model.actuator_gainprm[actuator, 0]) if is_pid else 0.0,
        slew=float(parameters[1]) if is_pid else 0.0,
    )


def _kinds(*names: str) -> list[int]:
    """Numbers of kinds of activation dynamics."""
    return [int(getattr(mujoco.mjtDyn, f"mjDYN_{name}")) for name in names]


def is_active(model: Any, actuator: int) -> bool:
    """Return whether an actuator can apply an effort."""
    return bool(model.actuator_gainprm[actuator].any() or model.actuator_biasprm[actuator].any())


@dataclass(frozen=True, eq=False)
class TendonDrive:
    """A tendon with a position servo.

    The length of a fixed tendon is ``Σ coefficient · q`` of its joints, so targets for these joints are a target of the
    length. The length of a tendon through sites depends on the pose, so only its length can be a target.
    """

    name: str
    tendon: int
    root: int
    """Root body of the robot that it moves, or of the first of several."""
    servo: Servo
    dofs: np.ndarray
    """DOFs that it moves, in the model, shape (k,)."""
    coefficients: np.ndarray | None
    """Coefficient of each of them in the length [m/rad or 1], shape (k,); None if the length depends on the pose."""
    coupled: frozenset[int]
    """DOFs whose targets it follows: all of ``dofs``, or none if one of its joints has a servo."""

    def length(self, targets: np.ndarray) -> np.ndarray:
        """Return the length [m or rad] for targets of ``dofs`` [rad or m], of shape (..., k)."""
        assert self.coefficients is not None
        return targets @ self.coefficients

    def spread(self, targets: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the nearest targets of ``dofs``, of shape (..., k), with these ``lengths``; the same targets if they
        have these lengths up to rounding in 32 bits."""
        assert self.coefficients is not None
        missing = lengths - self.length(targets)
        missing = np.where(np.abs(missing) > 1e-6 * (1.0 + np.abs(lengths)), missing, 0.0)
        return targets + missing[..., None] * self.coefficients / (self.coefficients @ self.coefficients)


def read_tendon_drives(model: Any, with_servo: set[int]) -> list[TendonDrive]:
    """Return tendons that have one position servo, in the order of the model.

    Args:
        model: The model.
        with_servo: DOFs that have a servo.
    """
    servos: dict[int, list[Servo]] = {}
    for i in range(model.nactuator):
        servo = read_servo(model, i)
        if model.actuator_trntype[i] == int(mujoco.mjtTrn.mjTRN_TENDON) and servo is not None and servo.position >= 0:
            servos.setdefault(int(model.actuator_trnid[i, 0]), []).append(servo)
    drives = []
    for tendon, found in sorted(servos.items()):
        if len(found) > 1:
            continue
        coefficients = fixed_coefficients(model, tendon)
        dofs = np.flatnonzero(tendon_dofs(model, tendon))
        own = None if coefficients is None else coefficients[dofs]
        coupled = dofs.tolist() if own is not None and not with_servo.intersection(dofs.tolist()) else []
        name = model.tendon(tendon).name or f"tendon{tendon}"
        bodies = [int(model.body_rootid[model.dof_bodyid[dof]]) for dof in dofs]
        root = bodies[0] if bodies else 0
        drives.append(TendonDrive(name, tendon, root, found[0], dofs, own, frozenset(coupled)))
    return drives


def fixed_coefficients(model: Any, tendon: int) -> np.ndarray | None:
    """Return coefficients of a fixed tendon, by DOF of the model, shape (DOFs,); None for one through sites."""
    wraps = _wraps(model, tendon)
    if any(model.wrap_type[wrap] != int(mujoco.mjtWrap.mjWRAP_JOINT) for wrap in wraps):
        return None
    coefficients = np.zeros(model.nv)
    for wrap in wraps:
        coefficients[model.jnt_dofadr[model.wrap_objid[wrap]]] += model.wrap_prm[wrap]
    return coefficients


def tendon_dofs(model: Any, tendon: int) -> np.ndarray:
    """Return whether a tendon moves each DOF, shape (DOFs,)."""
    coefficients = fixed_coefficients(model, tendon)
    if coefficients is not None:
        return coefficients != 0.0
    kinds = mujoco.mjtWrap
    bodies = []
    for wrap in _wraps(model, tendon):
        thing = model.wrap_objid[wrap]
        if model.wrap_type[wrap] == int(kinds.mjWRAP_SITE):
            bodies.append(int(model.site_bodyid[thing]))
        elif model.wrap_type[wrap] in (int(kinds.mjWRAP_SPHERE), int(kinds.mjWRAP_CYLINDER)):
            bodies.append(int(model.geom_bodyid[thing]))
    return bodies_dofs(model, bodies)


def bodies_dofs(model: Any, bodies: list[int]) -> np.ndarray:
    """Return whether each DOF moves these bodies relative to each other, shape (DOFs,)."""
    chains = np.zeros((len(bodies), model.nv), dtype=bool)
    for chain, body in zip(chains, bodies, strict=True):
        while body > 0:
            first, count = int(model.body_dofadr[body]), int(model.body_dofnum[body])
            chain[first : first + count] = True  # empty for a body without DOFs
            body = int(model.body_parentid[body])
    return np.logical_or.reduce(chains) & ~np.logical_and.reduce(chains)


def _wraps(model: Any, tendon: int) -> range:
    first = int(model.tendon_adr[tendon])
    return range(first, first + int(model.tendon_num[tendon]))


class Derivative(enum.Enum):
    """Variable by which an effort is differentiated."""

    BY_POSITION = "q"
    BY_VELOCITY = "qd"


class Actuators:
    """The actuators of a model, by DOF.

    A joint may have a position servo, a velocity servo, both, or one drive that follows both targets. Two servos of a
    kind on a joint count as none, because a target would be ambiguous. Other actuators, such as motors and muscles, do
    not follow targets.

    The object describes the compiled model: actuators may be disabled later. Actuators that were added to hold
    derivatives of efforts are not drives.
    """

    def __init__(self, model: Any, added: Sequence[int] = (), derivatives: Mapping[int, Derivative] | None = None):
        self.added = frozenset(added)
        """Actuators that were added to the model. They are the only servos of their joints."""
        self.on: dict[int, list[int]] = {}
        """Actuators on the joint of each DOF."""
        self.servos: dict[int, list[Servo]] = {}
        """Actuators that follow a target: one, or one for positions and one for velocities."""
        self.several: set[int] = set()
        """DOFs with ambiguous servos."""
        self.motor_gain: dict[int, float] = {}
        """Effort of a motor before its gear, per unit of ``ctrl``, by actuator."""
        self.derivatives = {derivative: np.full(model.nv, -1) for derivative in Derivative}
        """Indices in ``ctrl`` of the derivatives of each DOF's effort, or -1, by variable."""
        self.moves = np.zeros((model.nactuator, model.nv), dtype=bool)
        """Whether an actuator drives a DOF, on its joint or through a tendon, shape (actuators, DOFs)."""
        found: dict[int, list[Servo]] = {}
        for i in range(model.nactuator):
            dof = self._joint_dof(model, i)
            if derivatives is not None and i in derivatives:
                self.derivatives[derivatives[i]][dof] = int(model.actuator_ctrladr[i])
                continue
            if dof is None:
                self.moves[i] = self._dofs_by_transmission(model, i)
                continue
            self.moves[i, dof] = True
            self.on.setdefault(dof, []).append(i)
            servo = read_servo(model, i)
            if servo is not None:
                found.setdefault(dof, []).append(servo)
            elif self._is_motor(model, i):
                self.motor_gain[i] = float(model.actuator_gainprm[i, 0])
        self.position, self.velocity = np.full(model.nv, -1), np.full(model.nv, -1)
        """Index in ``ctrl`` of the target of each DOF, or -1."""
        self.scale, self.offset = np.ones(model.nu), np.zeros(model.nu)
        """``ctrl`` = scale · target + offset, by input."""
        for dof, servos in found.items():
            self._take(dof, servos)
        self.tendons: list[TendonDrive] = read_tendon_drives(model, set(self.servos))
        """Drives of tendons, which may move several joints."""
        self.coupling = [tendon for tendon in self.tendons if tendon.coupled]
        """Tendon drives that follow the targets of joints."""
        for tendon in self.tendons:
            self._scale(tendon.servo)

    def _joint_dof(self, model: Any, actuator: int) -> int | None:
        """Return the DOF of an actuator's joint, if that joint has one DOF."""
        on_joint = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
        single = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
        joint = int(model.actuator_trnid[actuator, 0])
        if model.actuator_trntype[actuator] not in on_joint or model.jnt_type[joint] not in single:
            return None
        return int(model.jnt_dofadr[joint])

    def _dofs_by_transmission(self, model: Any, actuator: int) -> np.ndarray:
        """Return the DOFs that an actuator drives, but not on their joint. A force at a site or body drives none."""
        kinds, (target, other) = mujoco.mjtTrn, model.actuator_trnid[actuator]
        kind = model.actuator_trntype[actuator]
        if kind == int(kinds.mjTRN_TENDON):
            return tendon_dofs(model, int(target))
        if kind in (int(kinds.mjTRN_SITE), int(kinds.mjTRN_SLIDERCRANK)) and other >= 0:
            return bodies_dofs(model, [int(model.site_bodyid[site]) for site in (target, other)])
        return np.zeros(model.nv, dtype=bool)

    def _is_motor(self, model: Any, i: int) -> bool:
        has_bias = model.actuator_biastype[i] != int(mujoco.mjtBias.mjBIAS_NONE) and model.actuator_biasprm[i].any()
        is_fixed = model.actuator_gaintype[i] == int(mujoco.mjtGain.mjGAIN_FIXED)
        kinds = (mujoco.mjtDyn.mjDYN_NONE, mujoco.mjtDyn.mjDYN_FILTER, mujoco.mjtDyn.mjDYN_FILTEREXACT)
        return is_fixed and not has_bias and int(model.actuator_dyntype[i]) in map(int, kinds)

    @property
    def added_dofs(self) -> list[int]:
        """DOFs that have an added drive, in the order of these."""
        return [int(np.flatnonzero(self.moves[i])[0]) for i in sorted(self.added)]

    def _take(self, dof: int, servos: list[Servo]) -> None:
        servos = [servo for servo in servos if servo.actuator in self.added] or servos
        for kind, places in (("position", self.position), ("velocity", self.velocity)):
            inputs = [getattr(servo, kind) for servo in servos if getattr(servo, kind) >= 0]
            if len(inputs) > 1:
                self.several.add(dof)
            elif inputs:
                places[dof] = inputs[0]
        if dof in self.several:
            self.position[dof] = self.velocity[dof] = -1
            return
        self.servos[dof] = servos
        for servo in servos:
            self._scale(servo)

    def _scale(self, servo: Servo) -> None:
        for place in (servo.position, servo.velocity):
            if place >= 0:
                self.scale[place], self.offset[place] = servo.scale, servo.offset

    def gains(self, model: Any, dofs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return total stiffness and damping of a joint's servos; zero without one."""
        pairs = [self._gains(model, int(dof)) for dof in dofs]
        gains = np.array(pairs, np.float32).reshape(-1, 2)
        return gains[:, 0].copy(), gains[:, 1].copy()

    def _gains(self, model: Any, dof: int) -> tuple[float, float]:
        pairs = [servo.gains(model) for servo in self.servos.get(dof, [])]
        return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)

    def gain_error(self, dof: int, stiffness: float) -> str | None:
        """Return why gains of a DOF cannot be set, or None if they can."""
        if dof in self.several:
            return "has several servos of one kind in the model"
        if dof not in self.servos:
            return "has no servo in the model"
        if self.position[dof] < 0 and stiffness != 0.0:
            return "has a velocity servo alone in the model, which has no stiffness"
        return None

    def set_gains(self, model: Any, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        """Set the gains of `gains`. DOFs without a servo are ignored.

        If a joint has two servos, a new damping goes to the velocity servo, and acts on the velocity error; an
        unchanged one keeps its shares in both.
        """
        for dof, kp, kd in zip(dofs.tolist(), stiffness, damping, strict=True):
            servos = self.servos.get(dof, [])
            keeps_damping = len(servos) > 1 and np.float32(self._gains(model, dof)[1]) == np.float32(kd)
            for servo in servos:
                own_kp = float(kp) if servo.position >= 0 or len(servos) == 1 else 0.0
                takes_damping = len(servos) == 1 or servo.velocity >= 0
                own_kd = servo.gains(model)[1] if keeps_damping else float(kd) * takes_damping
                servo.set_gains(model, own_kp, own_kd)

    def at_joints(self, model: Any, values: np.ndarray, dofs: np.ndarray) -> np.ndarray:
        """Return the sum of inertias or dampings of actuators at each DOF, shape (d,).

        Each is multiplied by the square of its ratio to the joint. Actuators whose ratio depends on the pose are left
        out.

        Args:
            model: The model.
            values: Value of each actuator, shape (actuators,).
            dofs: DOFs of the model, shape (d,).
        """
        total = np.zeros(model.nv)
        for i in np.flatnonzero(values).tolist():
            ratios: np.ndarray | None = self.moves[i].astype(float)
            if model.actuator_trntype[i] == int(mujoco.mjtTrn.mjTRN_TENDON):
                ratios = fixed_coefficients(model, int(model.actuator_trnid[i, 0]))
            elif self._joint_dof(model, i) is None:
                ratios = None
            if ratios is not None:
                total += values[i] * (model.actuator_gear[i, 0] * ratios) ** 2
        return np.asarray(total[dofs])

    def controls(self, targets: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return ``ctrl`` at ``places`` for targets [rad or m, or per second]."""
        return targets * self.scale[places] + self.offset[places]

    def targets(self, controls: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the targets [rad or m, or per second] for ``ctrl`` at ``places``."""
        return (controls - self.offset[places]) / self.scale[places]

    def follows(self, dof: int, kind: str) -> bool:
        """Return whether an actuator of the model follows a target ``"position"`` or ``"velocity"`` of a DOF."""
        if (self.position if kind == "position" else self.velocity)[dof] >= 0:
            return True
        return kind == "position" and any(dof in tendon.coupled for tendon in self.coupling)

    def ids(self, dofs: np.ndarray) -> list[int]:
        """Return actuators that drive these DOFs and no others: on their joints, and through tendons."""
        chosen = np.zeros(self.moves.shape[1], dtype=bool)
        chosen[dofs] = True
        return np.flatnonzero((self.moves & chosen).any(axis=1) & ~(self.moves & ~chosen).any(axis=1)).tolist()

    def why_active(self, model: Any, dof: int) -> str:
        """Describe the actuator that acts on a DOF."""
        active = [i for i in np.flatnonzero(self.moves[:, dof]).tolist() if is_active(model, i)]
        return self.what_moves(model, active[0]) if active else "nothing pushes on it"

    def what_moves(self, model: Any, actuator: int, do: str = "drive") -> str:
        """Describe the joints that an actuator moves together, and what to do with them."""
        names = [joint_name(model, int(model.dof_jntid[dof])) for dof in np.flatnonzero(self.moves[actuator])]
        name = model.actuator(actuator).name or actuator
        return f"actuator '{name}' moves {', '.join(names)} together: {do} all or none of them"
