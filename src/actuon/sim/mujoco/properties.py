# SPDX-License-Identifier: Apache-2.0
"""What MuJoCo's model holds for the joints of robots: gains, limits, armature, friction, masses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from ...errors import SimulationError
from ..robot import Robot
from ..simulation import Simulation
from .batch import Batch
from .drives import Drives
from .fields import PROPERTIES, ModelFields
from .friction import SEARCHES, SOFTNESS, switched_off
from .limits import ACTUATOR_FIELDS, CONTROL_FIELDS, JOINT_FIELDS, Limits
from .load import links_of
from .servos import GAIN_FIELDS
from .step_map import MujocoStepMaps

GAINS = ("actuator_gainprm", "actuator_biasprm")
LIMITS = (*ACTUATOR_FIELDS, *JOINT_FIELDS, *CONTROL_FIELDS)
_INERTIALS = {"mass": "body_mass", "com": "body_ipos", "inertia": "body_inertia"}


class ModelProperties(Simulation):
    """The part of a MuJoCo simulation that reads and writes models."""

    _mujoco: Any
    _where: str
    """Name of the model in messages."""
    _relied_on: list[Callable[[], None]]
    """Checks that options of the model, which anyone may write, still let it do what it was handed."""
    _checked_flags: tuple[int, int, int] | None = None
    """Options that switch something off, at the last check."""
    _compensates: bool
    """Whether MuJoCo counts gravity compensation among the efforts of actuators of a joint."""
    _fields: ModelFields
    _drives: Drives
    _limits: Limits
    _batch: Batch
    _sharpened: list[tuple[np.ndarray, np.ndarray]]
    """Robots and DOFs whose dry friction is firm."""

    def _with_models(self, robots: np.ndarray) -> Iterator[tuple[Any, Robot, np.ndarray]]:
        """Model, robot, and its DOFs in the model."""
        nv = self._fields.model.nv
        for robot in (self.robots[i] for i in robots):
            yield self._fields.view(robot.env), robot, robot.dofs - robot.env * nv

    def _to_change(
        self, names: Sequence[str], robots: np.ndarray, dofs: np.ndarray, alike: bool
    ) -> Iterator[tuple[int, Any, np.ndarray]]:
        """Row of a robot, the model to change for it, and its DOFs in the model."""
        nv = self._fields.model.nv
        chosen = [self.robots[i] for i in robots]
        for row, model in self._fields.to_change(names, [robot.env for robot in chosen], alike):
            yield row, model, chosen[row].dofs[dofs] - chosen[row].env * nv

    def dof_property(self, name: str, robots: np.ndarray) -> np.ndarray | None:
        """The effort limit is the larger bound of `Limits.effort_range`; MuJoCo has no limit of the speed."""
        if name == "velocity_limit" or self._switched_off(name):
            return None
        if name == "effort_limit":
            return np.abs(self.drive_effort_range(robots)).max(axis=0).astype(np.float32)
        place = PROPERTIES[name]
        rows = [place.values(model, place.of_dof)[dofs] for model, _, dofs in self._with_models(robots)]
        if self._actuators_add(name):
            for row, (model, _, dofs) in enumerate(self._with_models(robots)):
                own = place.values(model, place.of_actuator)
                rows[row] = rows[row] + self._drives.at_joints(model, own, dofs)
        return np.array(rows, np.float32)

    def _switched_off(self, name: str) -> str:
        return switched_off(self._mujoco, self._fields.model, name)

    def _check_switched_on(self, name: str) -> None:
        flag = self._switched_off(name)
        if flag:
            raise SimulationError(
                f"{self._where} has {flag} switched off in its <option>, so MuJoCo makes no use of the {name} of "
                "joints; switch it on"
            )

    def _rely_on(self, check: Callable[[], None]) -> Callable[[], None]:
        """Let ``check``, which refuses what steps would leave out, be called before a step with other flags. Returns
        what ends that."""
        self._relied_on.append(check)
        self._checked_flags = None
        return lambda: self._relied_on.remove(check)

    def _actuators_add(self, name: str) -> bool:
        """Return True if an actuator of the model adds to a property of joints."""
        field, fields = PROPERTIES[name].of_actuator, self._fields
        return bool(field) and bool(
            np.any(fields.rows[field] if field in fields.rows else getattr(fields.model, field))
        )

    def set_dof_property(self, name: str, robots: np.ndarray, dofs: np.ndarray, values: np.ndarray) -> None:
        if name == "velocity_limit":
            raise SimulationError("MuJoCo holds no limit of the speed of a joint; give it to an actuator")
        if np.any(values):  # none is what a property that is switched off comes to
            self._check_switched_on(name)
        self.limits_version += name == "effort_limit"
        if name == "effort_limit":
            for row, model, at in self._to_change(LIMITS, robots, dofs, _alike(values)):
                self._limits.set_effort_limits(model, at, values[row])
            return
        place, adds = PROPERTIES[name], self._actuators_add(name)
        if adds:
            self._check_not_shared(name, robots, dofs)
        for row, model, at in self._to_change(place.fields if adds else (place.of_dof,), robots, dofs, _alike(values)):
            place.values(model, place.of_dof)[at] = values[row]
            if adds:
                place.values(model, place.of_actuator)[self._drives.ids(at)] = 0.0
        if name == "armature":
            self._settle(robots)

    def _check_not_shared(self, name: str, robots: np.ndarray, dofs: np.ndarray) -> None:
        """Refuse to set what an actuator adds to a property of these DOFs and of others."""
        place = PROPERTIES[name]
        for model, robot, own in self._with_models(robots):
            at = own[dofs]
            adds = place.values(model, place.of_actuator) != 0.0
            shared = np.setdiff1d(np.flatnonzero(self._drives.moves[:, at].any(axis=1) & adds), self._drives.ids(at))
            if shared.size:
                why = self._drives.what_moves(model, int(shared[0]), "set")
                raise SimulationError(f"'{robot.path}': {name} of joints cannot be set: {why}")

    def property_writer(self, name: str, robots: np.ndarray, dofs: np.ndarray, values: wp.array) -> Callable[[], None]:
        field = PROPERTIES[name].of_dof
        nv = self._fields.model.nv
        chosen = [self.robots[i] for i in robots]
        envs = np.array([robot.env for robot in chosen])[:, None]
        at = np.stack([robot.dofs[dofs] - robot.env * nv for robot in chosen])
        if self.num_envs > 1:
            self._fields.make_rows([field])
        given = values.numpy()

        def write() -> None:
            self._fields.all_rows(field)[envs, at] = given[:, dofs]

        return write

    def sharpen_friction(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        kept = []
        option = self._fields.model.opt
        before_search, option.ls_iterations = option.ls_iterations, max(option.ls_iterations, SEARCHES)
        for model, robot, own in self._with_models(robots):
            at = own[dofs]
            kept.append((robot.env, at, {name: getattr(model, name)[at] for name in SOFTNESS}))
        self._make_firm(robots, dofs)
        place = robots, dofs
        self._sharpened.append(place)

        def check() -> None:
            for name in ("friction", "viscous_friction"):
                self._check_switched_on(name)

        release = self._rely_on(check)

        def give_back() -> None:
            release()
            self._sharpened[:] = [other for other in self._sharpened if other is not place]
            for env, at, values in kept:
                for name, before in values.items():
                    getattr(self._fields.view(env), name)[at] = before
            self._fields.model.opt.ls_iterations = before_search
            self._fields.version += 1

        return give_back

    def _make_firm(self, robots: np.ndarray, dofs: np.ndarray) -> None:
        for _, model, at in self._to_change(tuple(SOFTNESS), robots, dofs, alike=True):
            for name, firm in SOFTNESS.items():
                getattr(model, name)[at] = firm(self.dt)

    def _sharpen_again(self) -> None:
        """Make dry friction as firm as it can be with another time step."""
        for robots, dofs in self._sharpened:
            self._make_firm(robots, dofs)

    def load_reader(self, robots: np.ndarray, loads: wp.array) -> Callable[[], None]:
        envs = sorted({self.robots[i].env for i in robots})
        shown, told = loads.numpy().reshape(self.num_envs, -1), self._batch.tell_loads()

        def read() -> None:
            shown[envs] = told[envs]

        return read

    def joint_effort_range(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """MuJoCo clips the sum of actuators and gravity compensation where a joint has ``actuatorgravcomp``."""
        lower, upper = self._per_robot(self._limits.joint_range, robots, LIMITS)
        if self._compensates and np.isfinite([lower, upper]).any():
            given = self._batch.compensation(sorted({self.robots[i].env for i in robots}))
            for row, (_, robot, dofs) in enumerate(self._with_models(robots)):
                lower[row] -= given[robot.env][dofs]
                upper[row] -= given[robot.env][dofs]
        return lower, upper

    def drive_effort_range(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._per_robot(self._limits.effort_range, robots, LIMITS)

    def _per_robot(
        self, read: Callable[..., Sequence[Any]], robots: np.ndarray, fields: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The first two of what ``read`` gives for each robot, each of shape (n, D), read once where all share it."""
        differ = any(name in self._fields.rows for name in fields)
        known: dict[bytes, Sequence[Any]] = {}
        found = []
        for model, _, dofs in self._with_models(robots):
            key = dofs.tobytes()
            if differ or key not in known:
                known[key] = read(model, dofs)
            found.append(known[key])
        return np.array([each[0] for each in found]), np.array([each[1] for each in found])

    def _settle(self, robots: np.ndarray) -> None:
        """Constants of the constraint solver follow from masses and armatures."""
        self._fields.settle({self.robots[i].env for i in robots})

    def keep_properties(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        kept = []
        for model, robot, own in self._with_models(robots):
            at, ids = own[dofs], self._drives.ids(own[dofs])
            places = {place.of_dof: at for place in PROPERTIES.values()}
            places |= {place.of_actuator: ids for place in PROPERTIES.values() if place.of_actuator}
            places |= dict.fromkeys((*ACTUATOR_FIELDS, *GAIN_FIELDS), ids)
            places |= dict.fromkeys(JOINT_FIELDS, model.dof_jntid[at])
            places |= dict.fromkeys(CONTROL_FIELDS, model.actuator_ctrladr[ids][model.actuator_ctrlnum[ids] > 0])
            kept.append((robot.env, {name: (where, getattr(model, name)[where]) for name, where in places.items()}))

        def give_back() -> None:
            is_other = False
            self.limits_version += 1
            for env, values in kept:
                model = self._fields.view(env)
                for name, (where, before) in values.items():
                    now = getattr(model, name)
                    is_other |= name in PROPERTIES["armature"].fields and bool((now[where] != before).any())
                    now[where] = before
            self._fields.version += 1
            if is_other:
                self._settle(robots)

        return give_back

    def dof_limits(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = []
        for model, _, dofs in self._with_models(robots):
            joints = self._fields.model.dof_jntid[dofs]
            has_stop = model.jnt_limited[joints].astype(bool)[:, None] & (
                np.abs(model.jnt_range[joints]) < self._mujoco.mjMAXVAL
            )
            rows.append(np.where(has_stop, model.jnt_range[joints], (-np.inf, np.inf)))
        limits = np.array(rows)
        return limits[..., 0], limits[..., 1]

    def set_dof_limits(self, robots: np.ndarray, dofs: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        names = ("jnt_limited", "jnt_range")
        for row, model, at in self._to_change(names, robots, dofs, _alike(lower) and _alike(upper)):
            joints = self._fields.model.dof_jntid[at]
            model.jnt_limited[joints] = np.isfinite(lower[row]) | np.isfinite(upper[row])
            limits = np.stack([lower[row], upper[row]], axis=1)
            model.jnt_range[joints] = np.clip(limits, -self._mujoco.mjMAXVAL, self._mujoco.mjMAXVAL)

    def link_masses(self, robots: np.ndarray) -> np.ndarray:
        rows = [model.body_mass[links_of(self._fields.model, r.root_body)] for model, r, _ in self._with_models(robots)]
        return np.array(rows, np.float32)

    def set_link_masses(self, robots: np.ndarray, links: np.ndarray, values: np.ndarray) -> None:
        none = np.zeros(0, np.int64)
        for row, model, _ in self._to_change(("body_mass",), robots, none, _alike(values)):
            bodies = links_of(self._fields.model, self.robots[robots[row]].root_body)
            model.body_mass[bodies[links]] = values[row]
        self._settle(robots)

    def set_link_inertials(self, robots: np.ndarray, link: int, values: Mapping[str, np.ndarray]) -> None:
        """Change mass, centre of mass and inertia of a link.

        Args:
            robots: Indices of robots, shape (n,).
            link: Which one of their links.
            values: ``mass`` [kg], ``com_x`` … [m] and ``inertia_x`` … [kg·m²], in the frames of the model, each of
                shape (n,).
        """
        first = self.robots[robots[0]]
        body = int(links_of(self._fields.model, first.root_body)[link])
        envs = np.array([self.robots[i].env for i in robots])
        for name, numbers in values.items():
            kind, _, axis = name.partition("_")
            self._fields.make_rows([_INERTIALS[kind]] if self.num_envs > 1 else [])
            rows = self._fields.all_rows(_INERTIALS[kind])
            if axis:
                rows[envs, body, "xyz".index(axis)] = numbers
            else:
                rows[envs, body] = numbers
        self._settle(robots)

    def gains(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._per_robot(self._drives.gains, robots, GAINS)

    def set_gains(self, robots: np.ndarray, dofs: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        for row, (_, robot, own) in enumerate(self._with_models(robots)):
            for column, dof in enumerate(own[dofs]):
                kp, kd = stiffness[row, column], damping[row, column]
                why = self._drives.why_not(int(dof), float(kp)) if kp or kd else None
                if why:
                    raise SimulationError(f"joint '{robot.dof_names[int(dofs[column])]}' of '{robot.path}' {why}")
        for row, model, at in self._to_change(GAINS, robots, dofs, _alike(stiffness) and _alike(damping)):
            self._drives.set_gains(model, at, stiffness[row], damping[row])

    def silence_drives(self, robots: np.ndarray, dofs: np.ndarray) -> Callable[[], None]:
        kept = []
        for model, robot, own in self._with_models(robots):
            ids = self._drives.ids(own[dofs])
            kept.append((robot.env, ids, self._drives.keep(model, ids)))
        for _, model, at in self._to_change(GAIN_FIELDS, robots, dofs, alike=True):
            self._drives.silence(model, self._drives.ids(at))

        def give_back() -> None:
            for env, ids, values in kept:
                self._drives.put_back(self._fields.view(env), ids, values)
            self._fields.version += 1

        return give_back

    def silent_drives(self, robots: np.ndarray) -> np.ndarray:
        """A tendon that moves the joint is a drive too."""
        return np.array([self._drives.silent(model, dofs) for model, _, dofs in self._with_models(robots)])

    def step_maps(self, robot: int, dt: float, viscous: np.ndarray | None = None) -> MujocoStepMaps:
        chosen = self.robots[robot]
        self.refresh()
        qpos, ctrl = (self._batch.block(name)[chosen.env].copy() for name in ("qpos", "ctrl"))
        for places in self._drives.slopes.values():
            ctrl[places[places >= 0]] = 0.0
        dofs = chosen.dofs - chosen.env * self._fields.model.nv
        model = self._fields.model_of(chosen.env)
        return MujocoStepMaps(self._mujoco, model, (qpos, ctrl), dofs, chosen.is_fixed_base, dt, viscous)

    def what_drives(self, robot: int, dof: int) -> str:
        ((model, _, dofs),) = self._with_models(np.array([robot]))
        return self._drives.why_active(model, int(dofs[dof]))

    def effort_sources(self, robot: int) -> list[str]:
        ((model, _, dofs),) = self._with_models(np.array([robot]))
        return self._limits.effort_range(model, dofs)[2]


def _alike(values: np.ndarray) -> bool:
    """Whether all rows are the same."""
    return bool((values == values[:1]).all())
