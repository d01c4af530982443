# SPDX-License-Identifier: Apache-2.0
"""Positions, velocities, targets and efforts of robots in MuJoCo: targets are controls of servos."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import mujoco
import numpy as np
import warp as wp

from ..engine import STATE
from ..robots import DofSet, RobotKind, as_slice, grid
from .actuators import Derivative, TendonDrive
from .added import MujocoModel
from .batch import Batch
from .loop import Line, Target
from .model import find_keyframe

_BLOCKS = {"joint_q": "qpos", "joint_qd": "qvel", "joint_f": "qfrc_applied"}


class _Controls(NamedTuple):
    """Targets that servos follow."""

    has: Any
    """Indices of the targets."""
    places: Any
    """Their indices in ``ctrl``."""
    dofs: Any
    """DOFs of the model."""
    meaning: tuple[np.ndarray, ...] | None
    """Scale, offset, lowest and highest control; None if controls are the targets."""


class MujocoState:
    """The states of all environments, for actuators and for MuJoCo.

    Args:
        model: The model.
        keyframe: Number of the keyframe to start at, or -1 for the model's own state.
    """

    def __init__(self, model: MujocoModel, keyframe: int):
        self._model, self._fields = model, model.fields
        shared, num_envs = self._fields.model, self._fields.num_envs
        widths = {"joint_q": shared.nq} | dict.fromkeys(
            ("joint_qd", "joint_target_q", "joint_target_qd", "joint_f"), shared.nv
        )
        self._rows = {kind: np.zeros((num_envs, width), np.float32) for kind, width in widths.items()}
        self.arrays = SimpleNamespace(
            **{kind: wp.array(rows.ravel(), copy=False, device="cpu") for kind, rows in self._rows.items()}
        )
        """Flat arrays of state, targets and efforts for actuators."""
        self.batch = Batch(self._fields, self._rows, self._targets())
        """States of MuJoCo, and the compiled loop."""
        self._controls: weakref.WeakKeyDictionary[DofSet, dict[str, _Controls]] = weakref.WeakKeyDictionary()
        self._keyframe = keyframe
        self._start = self._state_at(keyframe)
        self._dofs = self._coordinates = np.zeros(0, np.int64)
        model.tell(self)

    def place(self, kinds: Sequence[RobotKind]) -> None:
        """Set the first state of the robots."""
        self._dofs, self._coordinates = (
            np.concatenate([np.zeros(0, np.int64), *(kind.columns[name] for kind in kinds)])
            for name in ("joint_qd", "joint_q")
        )
        self.reset(np.arange(self._fields.num_envs))

    def _targets(self) -> list[Any]:
        """Return the targets that are controls of servos."""
        found, actuators = [], self._model.actuators
        for kind, servos in (("joint_target_q", actuators.position), ("joint_target_qd", actuators.velocity)):
            rows = self._rows[kind]
            for dof in np.flatnonzero(servos >= 0).tolist():
                control = int(servos[dof])
                meaning = float(actuators.scale[control]), float(actuators.offset[control])
                bounds = self._model.limits.control_range(self._fields.model, control)
                found.append(Target(rows.ctypes.data, rows.shape[1], dof, control, *meaning, *bounds))
        return found

    def _lines(self) -> list[Any]:
        """Return the efforts with derivatives, as lines."""
        model, derivatives = self._fields.model, self._model.actuators.derivatives
        by_velocity, by_position = derivatives[Derivative.BY_VELOCITY], derivatives[Derivative.BY_POSITION]
        coordinates = model.jnt_qposadr[model.dof_jntid]
        return [
            Line(dof, int(coordinates[dof]), int(by_velocity[dof]), int(by_position[dof]))
            for dof in np.flatnonzero(by_velocity >= 0).tolist()
        ]

    def take_model(self) -> None:
        """Continue with other actuators at the end of the model."""
        self.batch.change(self._targets(), self._lines())
        self._controls.clear()
        self._start = self._state_at(self._keyframe)
        actuators = self._model.actuators
        for kind, places in (("joint_target_q", actuators.position), ("joint_target_qd", actuators.velocity)):
            added = np.array([dof for dof in actuators.added_dofs if places[dof] >= 0], np.int64)
            if added.size:
                self._write_controls(kind, slice(None), self._find_controls(kind, added), self._rows[kind][:, added])

    def _state_at(self, keyframe: int) -> np.ndarray:
        """Return the state at a keyframe, or the model's own for -1, shape (W,)."""
        model, actuators = self._fields.model, self._model.actuators
        data = mujoco.MjData(model)
        if keyframe >= 0:
            mujoco.mj_resetDataKeyframe(model, data, keyframe)
        for dof in actuators.added_dofs:  # their targets are their positions
            if actuators.position[dof] >= 0:
                data.ctrl[actuators.position[dof]] = data.qpos[model.jnt_qposadr[model.dof_jntid[dof]]]
        state = np.zeros(self.batch.states.shape[1])
        mujoco.mj_getState(model, data, state, int(mujoco.mjtState.mjSTATE_INTEGRATION))
        return state

    def refresh(self) -> None:
        """Read values that users wrote to an ``MjData``."""
        self.batch.refresh()

    @contextlib.contextmanager
    def starting_at(self, keyframe: str | int | None) -> Iterator[None]:
        """Set the first state to a keyframe, by name or number; None keeps it."""
        first = self._start
        if keyframe is not None:
            self._start = self._state_at(find_keyframe(self._fields.model, keyframe, self._fields.where))
        try:
            yield
        finally:
            self._start = first

    def reset(self, envs: np.ndarray) -> None:
        """Return environments to their first state; targets of joints without a servo become their positions."""
        position = self.batch.part(self._start, "qpos")[self._coordinates]
        self._rows["joint_target_q"][envs[:, None], self._dofs] = position
        self._rows["joint_target_qd"][envs] = 0.0
        self.batch.set_states(envs, self._start)
        self._read_tendons(envs)

    def save(self) -> np.ndarray:
        """Return the integration states and targets of all environments, shape (N, ...)."""
        self.refresh()
        targets = (self._rows[kind] for kind in ("joint_target_q", "joint_target_qd"))
        return np.hstack([self.batch.states, *targets])

    def load(self, envs: np.ndarray, state: np.ndarray) -> None:
        """Load a state of `save` into environments, shape (n, ...)."""
        width, nv = self.batch.states.shape[1], self._rows["joint_target_q"].shape[1]
        for i, kind in enumerate(("joint_target_q", "joint_target_qd")):
            self._rows[kind][envs] = state[:, width + i * nv : width + (i + 1) * nv]
        self.batch.set_states(envs, state[:, :width])

    def write(self, kind: str, at: DofSet, values: np.ndarray) -> None:
        """Set values of DOFs, float32 of shape (n, d)."""
        envs = at.env_index
        self.refresh()
        coupling = self._model.actuators.coupling if kind == "joint_target_q" else ()
        if coupling:
            self._read_tendons(envs)
        self._rows[kind][at.index(kind)] = values
        if kind in _BLOCKS:
            self.batch.write(_BLOCKS[kind], envs, at.column_index(kind), values)
            if kind == "joint_f":
                self.clear_derivatives(at)
        else:
            self._write_controls(kind, envs, self._controls_of(kind, at), values)
        for tendon in coupling:
            self._write_tendon_control(tendon, envs, tendon.length(self._rows[kind][envs][:, tendon.dofs]))
        if kind in STATE:
            self.batch.look(envs)
            self.batch.forward(at.envs.tolist())

    def effort_writer(self, at: DofSet, efforts: wp.array) -> None:
        """Return None: programs write efforts."""

    def efforts(self, at: DofSet) -> np.ndarray:
        """Return the efforts of the last step [N·m or N], shape (n, d)."""
        return self._rows["joint_f"][at.index("joint_f")]

    def clear_derivatives(self, at: DofSet) -> None:
        """Set the derivatives of efforts of DOFs to zero."""
        for places in self._model.actuators.derivatives.values():
            own = places[at.columns("joint_f")]
            own = own[own >= 0]
            if own.size:
                self.batch.write("ctrl", at.env_index, own, np.zeros((len(at), len(own))))

    def load_reader(self, at: DofSet, loads: wp.array) -> Callable[[], None]:
        """Return a function that writes the external loads of these robots' joints in the last step to ``loads``."""
        shown, told = loads.numpy().reshape(self._fields.num_envs, -1), self.batch.tell_loads()
        envs = at.env_index

        def read() -> None:
            shown[envs] = told[envs]

        return read

    def _controls_of(self, kind: str, at: DofSet) -> _Controls:
        known = self._controls.get(at)
        if known is None:
            known = self._controls[at] = {}
        if kind not in known:
            known[kind] = self._find_controls(kind, at.columns(kind))
        return known[kind]

    def _find_controls(self, kind: str, columns: np.ndarray) -> _Controls:
        actuators, limits = self._model.actuators, self._model.limits
        places = (actuators.position if kind == "joint_target_q" else actuators.velocity)[columns]
        has = np.flatnonzero(places >= 0)
        at = places[has]
        ranges = np.array([limits.control_range(self._fields.model, int(place)) for place in at])
        meaning = actuators.scale[at], actuators.offset[at], *ranges.reshape(-1, 2).T
        is_plain = all((one == other).all() for one, other in zip(meaning, (1.0, 0.0, -np.inf, np.inf), strict=True))
        return _Controls(as_slice(has), as_slice(at), as_slice(columns[has]), None if is_plain else meaning)

    def _write_controls(self, kind: str, envs: Any, controls: _Controls, targets: np.ndarray) -> None:
        """Write targets to the controls of servos, and update the targets that they follow."""
        told = targets[:, controls.has]
        if controls.meaning is not None:
            scale, offset, low, high = controls.meaning
            told = np.clip(told * scale + offset, low, high)
            self._rows[kind][grid(envs, controls.dofs)] = (told - offset) / scale
        self.batch.write("ctrl", envs, controls.places, told)

    def _write_tendon_control(self, tendon: TendonDrive, envs: Any, lengths: np.ndarray) -> None:
        """Write target lengths of a tendon [m or rad], shape (n,)."""
        place = np.array([tendon.servo.position])
        low, high = self._model.limits.control_range(self._fields.model, int(place[0]))
        controls = self._model.actuators.controls(lengths[:, None], place)
        self.batch.write("ctrl", envs, place, np.clip(controls, low, high))

    def _lengths(self, tendon: TendonDrive, envs: Any) -> np.ndarray:
        """Return target lengths of a tendon [m or rad], shape (n,)."""
        place = tendon.servo.position
        return np.asarray(self._model.actuators.targets(self.batch.block("ctrl")[envs, place], np.array(place)))

    def _read_tendons(self, envs: Any) -> None:
        """Update the targets of joints from those of their tendons."""
        rows = self._rows["joint_target_q"]
        for tendon in self._model.actuators.coupling:
            at = grid(envs, tendon.dofs)
            rows[at] = tendon.spread(rows[at].astype(np.float64), self._lengths(tendon, envs))

    def _tendons_of(self, at: DofSet) -> list[TendonDrive]:
        return [tendon for tendon in self._model.actuators.tendons if tendon.root == int(at.kind.links[0])]

    def loads(self) -> np.ndarray | None:
        """Return a copy of the external loads that `load_reader` writes next [N·m or N], shape (environments, DOFs)."""
        return None if self.batch.loads is None else self.batch.loads.copy()

    def set_loads(self, envs: np.ndarray, loads: np.ndarray) -> None:
        """Set the loads that `load_reader` writes until the next step, shape (n, DOFs)."""
        if self.batch.loads is not None:
            self.batch.loads[envs] = loads

    def tendon_targets(self, at: DofSet) -> np.ndarray:
        """Return target lengths of tendons [m or rad], shape (n, T)."""
        self.refresh()
        lengths = [self._lengths(tendon, at.env_index) for tendon in self._tendons_of(at)]
        return np.stack(lengths, axis=1) if lengths else np.zeros((len(at), 0))

    def set_tendon_targets(self, at: DofSet, tendons: np.ndarray, lengths: np.ndarray) -> None:
        """Set target lengths of tendons, shape (n, t). Targets of the joints on the tendons follow."""
        self.refresh()
        own = self._tendons_of(at)
        for column, tendon in enumerate(tendons.tolist()):
            self._write_tendon_control(own[tendon], at.env_index, lengths[:, column].astype(np.float64))
        self._read_tendons(at.env_index)
