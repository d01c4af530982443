# SPDX-License-Identifier: Apache-2.0
"""Robot of a fit as a MuJoCo model without drives, contacts, and the stops that its logs exceed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ActuonError, Fix, LogError, RobotFileError, listed
from ...files import check_readable
from ...logs import Finding, Log
from ...logs.noise import without_spikes
from ...logs.units import default, held_in
from ...robot_files.formats import USD_FORMATS
from ..resume import digest
from .usd_robot import spec_of_usd

FORMATS = (".xml", ".urdf", *USD_FORMATS)
_LONGEST = 10.0
"""Largest position of a sliding joint [m]; larger values are in another unit."""
_MARGIN = 1e-6
"""Tolerance of positions outside the range of a joint [rad or m]."""
_FAR = 0.05
"""Distance [rad or m] beyond which a stop is out of reach."""
_OPTIONS = ("disableflags", "solver", "iterations", "tolerance")
"""Options of the engine that may differ from the file."""
_MOVING = ("body_", "jnt_", "dof_", "qpos", "tendon_", "wrap_", "eq_")
"""Prefixes of arrays that determine the motion of a model."""


class RobotModel:
    """Joints, links and gravity of a robot's file, without drives.

    Args:
        path: MJCF, URDF or USD file.
        logs: Logs of joints that the robot has by name.

    Raises:
        LogError: A joint of the logs is not one of the robot.
    """

    def __init__(self, path: Path, logs: Sequence[Log]):
        import mujoco

        check_readable(path, FORMATS)
        try:
            spec = _read(mujoco, path)
            held = _keep_joints(mujoco, spec, path, logs[0].path, logs[0].joint_names)
            self.model = spec.compile()
        except ActuonError:
            raise
        except (ValueError, RuntimeError, mujoco.FatalError) as error:
            raise RobotFileError(f"'{path}' cannot be read: {' '.join(str(error).split())}") from error
        self.path = path
        self.findings: list[Finding] = []
        """Changes to the model."""
        if held:
            text = f"joints of '{path.name}' that are not in the logs stand still: {', '.join(held)}"
            self.findings.append(Finding(text, "robot", ", ".join(held)))
        self.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        self.joints = logs[0].joint_names
        self.columns = np.array([int(self.model.joint(name).dofadr[0]) for name in self.joints])
        """DOF of each joint in the model, shape (J,)."""
        _check_units(path, self.model, logs)
        self._coordinates = self.model.jnt_qposadr[self.model.dof_jntid[self.columns]]
        self._open_stops(logs)
        from ...sim.mujoco.friction import is_free

        if is_free(self.model):  # dry friction alone is left, for which PGS is fastest
            self.model.opt.solver = int(mujoco.mjtSolver.mjSOL_PGS)
            self.model.opt.iterations, self.model.opt.tolerance = 50, 1e-10

    @property
    def armature(self) -> np.ndarray:
        """Armature of the joints in the file [kg·m² or kg], shape (J,)."""
        return np.array(self.model.dof_armature[self.columns])

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of the position of each joint, ``"rad"`` or ``"m"``."""
        import mujoco

        kinds = self.model.jnt_type[self.model.dof_jntid[self.columns]]
        return tuple("m" if kind == mujoco.mjtJoint.mjJNT_SLIDE else "rad" for kind in kinds)

    @property
    def links(self) -> list[int]:
        """Index of the link that each joint moves, among the links of the robot."""
        from ...sim.mujoco.model import links_of

        bodies = self.model.jnt_bodyid[self.model.dof_jntid[self.columns]]
        return [int(np.searchsorted(links_of(self.model, int(self.model.body_rootid[b])), b)) for b in bodies]

    def link_value(self, joint: int, name: str) -> float:
        """Return a value of the link that a joint moves, such as ``com_z``, from the file."""
        body = self.model.jnt_bodyid[self.model.dof_jntid[self.columns[joint]]]
        kind, _, axis = name.partition("_")
        value = {"mass": self.model.body_mass, "com": self.model.body_ipos, "inertia": self.model.body_inertia}[kind]
        return float(value[body, "xyz".index(axis)] if axis else value[body])

    @functools.cached_property
    def digest(self) -> str:
        """Hash of bodies, joints, constraints, and options of the engine."""
        model, options = self.model, self.model.opt
        arrays = [name for name in dir(model) if name.startswith(_MOVING)]
        values = [(name, getattr(model, name)) for name in arrays]
        values += [(name, getattr(options, name)) for name in dir(options) if not name.startswith("_")]
        numbers = (np.ndarray, int, float)
        return digest(part for name, value in values if isinstance(value, numbers) for part in (name, value))

    def spec(self) -> Any:
        """Read the file again as an `MjSpec` that compiles to `model`, so that an engine can add actuators."""
        import mujoco

        spec = _read(mujoco, self.path)
        _keep_joints(mujoco, spec, self.path, "the logs", self.joints)
        for name in _OPTIONS:
            setattr(spec.option, name, getattr(self.model.opt, name))
        for name in self.joints:
            spec.joint(name).limited = bool(self.model.joint(name).limited)
        return spec

    def _open_stops(self, logs: Sequence[Log]) -> None:
        """Disable stops that a log exceeds, and those that no log approaches, as each slows down a step."""
        for i, name in enumerate(self.joints):
            joint = int(self.model.dof_jntid[self.columns[i]])
            if not self.model.jnt_limited[joint]:
                continue
            low, high = self.model.jnt_range[joint]
            seen = [(without_spikes(log.joints[i].position), log.path) for log in logs]
            ends = [(positions.min(), positions.max(), where) for positions, where in seen]
            least, most = min(ends), max(ends, key=lambda own: own[1])
            if least[0] < low - _MARGIN or most[1] > high + _MARGIN:
                position, where = (least[0], least[2]) if least[0] < low - _MARGIN else (most[1], most[2])
                self.model.jnt_limited[joint] = False
                text = (
                    f"{name}: is at {position:.4g} in {where}, outside its range from {low:.4g} to {high:.4g} in "
                    f"'{self.path.name}': its stops are disabled"
                )
                self.findings.append(Finding(text, "robot", name, "warning"))
            elif least[0] > low + _FAR and most[1] < high - _FAR:
                self.model.jnt_limited[joint] = False

    def loads_along(
        self, positions: np.ndarray, velocities: np.ndarray, accelerations: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the load of each joint while the others move as in a log.

        Args:
            positions: Positions of the joints [rad or m], shape (T, J).
            velocities: Velocities, shape (T, J).
            accelerations: Accelerations, shape (T, J).

        Returns:
            Inertia [kg·m² or kg] at each joint without that of its motor, effort of gravity and Coriolis forces, and
            effort of the accelerations of other joints [N·m or N], shapes (T, J).
        """
        import mujoco

        model = self.bare()
        data = mujoco.MjData(model)
        full = np.zeros((model.nv, model.nv))
        at, to = np.ix_(self.columns, self.columns), self.columns
        inertias, loads, pushes = (np.empty(positions.shape) for _ in range(3))
        for i in range(len(positions)):
            data.qpos[self._coordinates] = positions[i]
            data.qvel[to] = velocities[i]
            mujoco.mj_forward(model, data)
            mujoco.mj_fullM(model, data, full)
            own = np.diag(full)[to]
            inertias[i] = own
            loads[i] = -data.qfrc_bias[to]
            pushes[i] = own * accelerations[i] - full[at] @ accelerations[i]
        return inertias, loads, pushes

    def bare(self) -> Any:
        """Return the model without armature, damping, dry friction and stops."""
        import copy

        model = copy.copy(self.model)
        for name in ("dof_armature", "dof_damping", "dof_dampingpoly", "dof_frictionloss"):
            getattr(model, name)[self.columns] = 0.0
        model.jnt_limited[model.dof_jntid[self.columns]] = False
        return model


def _read(mujoco: Any, path: Path) -> Any:
    from ...sim.mujoco.model import read_spec

    return spec_of_usd(mujoco, path) if path.suffix.lower() in USD_FORMATS else read_spec(path)


def _keep_joints(mujoco: Any, spec: Any, path: Path, where: str, names: Sequence[str]) -> list[str]:
    """Remove drives, sensors, and joints that are not in the log; returns the names of these joints."""
    kinds = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    known = {joint.name: joint for joint in spec.joints if joint.type in kinds}
    if not known:
        raise RobotFileError(f"'{path}': has no hinge or slide joint")
    for name in names:
        if name not in known:
            raise LogError(
                f"{where}: joint '{name}' is not one of '{path}'; {listed(name, known, 'joints')} Rename columns "
                "of a log with ",
                fix=Fix("a mapping", "--columns"),
            )
    for drive in spec.actuators:  # whose inertia and damping stay on the joint
        joint = known.get(drive.target) if drive.trntype == mujoco.mjtTrn.mjTRN_JOINT else None
        if joint is not None:
            joint.armature += drive.gear[0] ** 2 * drive.armature
            joint.damping = joint.damping + drive.gear[0] ** 2 * drive.damping
    for part in [*spec.actuators, *spec.sensors, *spec.keys]:
        spec.delete(part)
    held = [name for name in known if name not in names]
    for name in held:
        spec.delete(known[name])
    return held


def _check_units(path: Path, model: Any, logs: Sequence[Log]) -> None:
    """Check that positions of sliding joints are lengths, and those of rotary joints angles."""
    import mujoco

    slide = mujoco.mjtJoint.mjJNT_SLIDE
    for log in logs:
        for joint in log.joints:
            unit, most = joint.units.get("position", ""), float(np.abs(without_spikes(joint.position)).max())
            is_length = bool(unit) and held_in("position", unit) == "m"
            if model.joint(joint.name).type[0] != slide:
                is_right, what, units = not is_length, "turns", "rad or deg"
            else:  # metres without a unit are read as radians, with the same numbers
                is_right = is_length or (unit in ("", default("position")) and most < _LONGEST)
                what, units = "slides", "m or mm"
            if not is_right:
                raise LogError(
                    f"{log.path}: '{joint.name}' of '{path.name}' {what}, and its positions, up to {most:.3g}, are "
                    f"read as {unit or default('position')}; state 'units: {{position: …, command: …}}', {units}, in a "
                    "mapping",
                    fix=Fix("", " (--columns)"),
                )
