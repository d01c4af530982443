# SPDX-License-Identifier: Apache-2.0
"""Drives of the joints of an MJCF or URDF file: values as compiled by MuJoCo, and their sources."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from actuon.components.delay_time import TimeDelayConfig
from actuon.declare.parameters import rounded
from actuon.sim import Articulation, MujocoSimulation
from actuon.sim.mujoco.actuators import Lags, read_lags
from actuon.sim.robots import DofSet, Robot
from actuon.stability.limits import POSES, poses_of
from actuon.warp_messages import quiet

from .own_drives import OwnDrive, OwnDrives, OwnJoint, SourcedValue, gain, limit, no_gain, source_of
from .urdf_drives import UrdfDrives, read_urdf

_INTEGRATED = "integrated velocity servo"
_LONGEST = 9999
"""Longest delay of a stage [steps]."""


def read_mujoco(path: Path) -> OwnDrives:
    """Return the drives of the joints of all robots in a file that MuJoCo reads."""
    quiet()
    with MujocoSimulation(path) as simulation:
        model = _Model(simulation, path)
        joints = [joint for i, robot in enumerate(simulation.robots) for joint in model.joints_of(i, robot)]
        return OwnDrives(joints, model.has_actuators, [*model.urdf.notes, *model.left_out()], dt=simulation.dt)


class _Model:
    """Drives of a compiled model."""

    def __init__(self, simulation: MujocoSimulation, path: Path):
        import mujoco

        self._mujoco, self._simulation = mujoco, simulation
        self._model, self._data = simulation.models[0], simulation.data[0]
        self.has_actuators = self._model.nactuator > 0
        self._is_urdf = path.suffix.lower() == ".urdf"
        self.urdf = read_urdf(path) if self._is_urdf else UrdfDrives()
        on_joint = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
        between = (int(mujoco.mjtTrn.mjTRN_SITE), int(mujoco.mjtTrn.mjTRN_SLIDERCRANK))
        data = self._data
        moment = np.zeros((self._model.nactuator, self._model.nv))
        mujoco.mju_sparse2dense(
            moment, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind
        )
        self._left_out: dict[str, list[SourcedValue]] = {}
        self._on: dict[int, list[int]] = {}
        """Actuators on each joint."""
        self._through: dict[int, np.ndarray] = {}
        """Moment arms on each DOF, by actuator that acts through a tendon or between sites."""
        for i in range(self._model.nactuator):
            kind, (target, other) = self._model.actuator_trntype[i], self._model.actuator_trnid[i]
            if kind in on_joint:
                self._on.setdefault(int(target), []).append(i)
            elif kind == int(mujoco.mjtTrn.mjTRN_TENDON) or (kind in between and other >= 0):
                self._through[i] = moment[i]

    def joints_of(self, number: int, robot: Robot) -> list[OwnJoint]:
        """Return the joints of a robot, with their drives."""
        properties, at = self._simulation.engine.properties, DofSet(self._simulation.robots, np.array([number]))
        stiffness, damping, efforts = (properties.get(name, at) for name in ("stiffness", "damping", "effort_limit"))
        assert stiffness is not None
        assert damping is not None
        assert efforts is not None
        kp, kd = stiffness[0], damping[0]
        loads = self._loads(robot)
        joints = []
        for i, (name, dof) in enumerate(zip(robot.dof_names, robot.dofs, strict=True)):
            joint = int(self._model.dof_jntid[dof])
            through = [self._name(i) for i, moments in self._through.items() if moments[dof]]
            why_not = self._why_not(joint, through)
            drive = None
            if not why_not:
                effort = limit(float(efforts[0, i]), self._source_of_limit(joint, float(efforts[0, i])), name)
                gains = self._gains(joint, float(kp[i]), float(kd[i]))
                speed, reduction = self.urdf.speeds.get(name), self.urdf.reductions.get(name)
                drive = OwnDrive(*gains, effort, speed, reduction, **self._late(joint, bool(kp[i] or kd[i])))
            armature, viscous = (float(each[dof]) for each in (self._model.dof_armature, self._model.dof_damping))
            where = robot.dof_paths[i], robot.slides[i]
            joints.append(
                OwnJoint(name, *where, drive, why_not, float(loads[i]), armature, viscous, through_tendon=bool(through))
            )
        return joints

    def _why_not(self, joint: int, through: list[str]) -> str:
        """Return why a joint has no drive; empty if it has one."""
        if through:
            return f"moved by '{through[0]}' through a tendon, which the model keeps"
        if joint in self._on:
            return ""
        leader = self._leader(joint)
        if leader is not None:
            return f"follows '{leader}'"
        return "not driven in the model" if self.has_actuators else ""

    def _leader(self, joint: int) -> str | None:
        """Return the joint that this one follows by an equality, as a mimic joint does."""
        model = self._model
        for i in range(model.neq):
            follows = model.eq_type[i] == int(self._mujoco.mjtEq.mjEQ_JOINT) and model.eq_obj1id[i] == joint
            if follows and model.eq_obj2id[i] >= 0:
                return model.joint(int(model.eq_obj2id[i])).name
        return None

    def _name(self, actuator: int) -> str:
        return self._model.actuator(actuator).name or f"actuator {actuator}"

    def _gains(self, joint: int, kp: float, kd: float) -> tuple[SourcedValue, SourcedValue]:
        actuators = self._on.get(joint, [])
        if not actuators:
            none = no_gain("no gains in URDF" if self._is_urdf else "no actuators in the model")
            return none, none
        name = self._name(actuators[0])
        if not kp and not kd:
            kind = self._kind(actuators[0])
            text = f"no gains in the {kind} {{}}"
            if kind == _INTEGRATED:
                scale = -(float(self._model.actuator_gear[actuators[0], 0]) ** 2)
                kp, kd = (scale * float(value) + 0.0 for value in self._model.actuator_biasprm[actuators[0], 1:3])
                text = f"{{}} is an integrated velocity servo (kp {kp:g}, kd {kd:g}); no controller of Actuon does this"
            elif "servo" in kind and len(actuators) > 1:
                text = "several servos of one kind, the first {}"
            none = no_gain(text, name)
            return none, none
        servos = {self._kind(i): i for i in reversed(actuators)}
        given = []
        for value, bias, kinds in ((kp, 1, ("position servo",)), (kd, 2, ("position servo", "velocity servo"))):
            found = [servos[kind] for kind in kinds if kind in servos]
            sources = [i for i in found if self._model.actuator_biasprm[i, bias]]
            if not sources and value:
                given.append(gain(value, f"{self._kind(actuators[0])} {{}}", name))
                continue
            if not sources:
                what = {1: "no position servo, only {}", 2: "no damping in {}"}[bias]
                given.append(SourcedValue(rounded(value), what, name))
                continue
            whose = "' and '".join(self._name(i) for i in sources)
            kind = " and ".join(self._kind(i) for i in sources)
            gear = float(self._model.actuator_gear[sources[0], 0])
            times = f", times gear {gear:g} squared" if abs(gear) != 1.0 else ""
            given.append(gain(value, f"{kind} {{}}{times}", whose))
        return given[0], given[1]

    def _late(self, joint: int, has_gains: bool) -> dict[str, Any]:
        """Return the lags of a joint's actuators as arguments of `OwnDrive`; those without a stage are `left_out`."""
        found = {i: read_lags(self._model, i) for i in self._on.get(joint, [])}
        filters = {(lags.time_constant, lags.is_euler) for lags in found.values()}
        is_same = len({(lags.delay, lags.interpolation) for lags in found.values()}) == 1
        shortest_dt = min(float(self._model.opt.timestep), TimeDelayConfig(0.0).shortest_dt)
        late: dict[str, Any] = {}
        for i, lags in found.items():
            kind, name = self._kind(i), self._name(i)
            if lags.delay > 0.0 and has_gains and is_same and lags.delay <= _LONGEST * shortest_dt:
                cubic = ", interpolated cubically there" if lags.interpolation > 1 else ""
                cut = ", as far as its history reaches" if lags.delay < self._model.actuator_delay[i] else ""
                late["delay"] = SourcedValue(rounded(lags.delay), f"delay of the {kind} {{}}{cut}{cubic}", name)
                late["interpolates"] = lags.interpolation > 0
                if shortest_dt < TimeDelayConfig(0.0).shortest_dt:
                    late["shortest_dt"] = SourcedValue(rounded(shortest_dt), "time step of the model")
            elif lags.delay > 0.0:
                why = "stages delay targets, and not efforts" if not has_gains else "no stage is so long"
                why = why if is_same else "other actuators of its joint have another one"
                self._leave_out(f"the delay of {lags.delay:g} s of the {kind} {{}}: {why}", name)
            if lags.time_constant > 0.0:
                why = "other actuators of its joint have another one" if len(filters) > 1 else ""
                late |= self._filter(i, lags, why, has_gains)
            if lags.integral or lags.slew:
                both = f"the integral gain of {lags.integral:g} and the slew limit of {lags.slew:g}"
                self._leave_out(f"{both} of the {kind} {{}}", name)
        return late

    def _filter(self, i: int, lags: Lags, why: str, has_gains: bool) -> dict[str, SourcedValue]:
        """Return the filter of an actuator's control, as arguments of `OwnDrive`; none if there is a ``why``."""
        kind, name = self._kind(i), self._name(i)
        dt, nominal = float(self._model.opt.timestep), lags.time_constant
        time_constant, by_euler = nominal, ""
        is_motor = kind == "motor" and not has_gains
        if not has_gains and not is_motor:
            why = "its effort is not read"
        elif lags.is_euler and nominal <= dt:
            why = why or f"steps of {dt:g} s are too long for it"
        elif lags.is_euler:
            time_constant = -dt / math.log1p(-dt / nominal)
            by_euler = f", {nominal:g} s by Euler's method at steps of {dt:g} s"
        if why:
            self._leave_out(f"the time constant of {nominal:g} s of the {kind} {{}}: {why}", name)
            return {}
        low, high = self._model.actuator_actrange[i]
        if self._model.actuator_actlimited[i] and self._passes_range(i):
            self._leave_out(f"the actrange of {low:g} to {high:g} of the {kind} {{}}: no stage has one", name)
        if self._model.actuator_actearly[i] and not is_motor:
            self._leave_out(f"the actearly of the {kind} {{}}: a low-pass follows its target a step later", name)
        text = f"time constant of the {kind} {{}}{by_euler}"
        return {"lag" if is_motor else "low_pass": SourcedValue(rounded(time_constant), text, name)}

    def _passes_range(self, i: int) -> bool:
        """Return whether the control of an actuator may leave its ``actrange``."""
        model, place = self._model, self._model.actuator_ctrladr[i]
        (low, high), (lower, upper) = model.actuator_actrange[i], model.actuator_ctrlrange[place]
        return not model.actuator_ctrllimited[place] or lower < low or upper > high

    def _leave_out(self, what: str, name: str) -> None:
        self._left_out.setdefault(what, []).append(SourcedValue(0.0, what, name))

    def left_out(self) -> list[str]:
        """Return notes on properties of drives that were left out."""
        return [f"left out: {source_of(alike)}" for alike in self._left_out.values()]

    def _kind(self, i: int) -> str:
        """Return the name of an actuator's kind, inferred from its parameters."""
        mujoco, model = self._mujoco, self._model
        if model.actuator_dyntype[i] == int(mujoco.mjtDyn.mjDYN_INTEGRATOR):
            return _INTEGRATED
        if model.actuator_gaintype[i] == int(mujoco.mjtGain.mjGAIN_PID):
            return "PID"
        if model.actuator_dyntype[i] == int(mujoco.mjtDyn.mjDYN_MUSCLE):
            return "muscle"
        fixed = model.actuator_gaintype[i] == int(mujoco.mjtGain.mjGAIN_FIXED)
        if fixed and model.actuator_biastype[i] == int(mujoco.mjtBias.mjBIAS_NONE):
            return "motor"
        gain, (_, holds, brakes) = model.actuator_gainprm[i, 0], model.actuator_biasprm[i, :3]
        if fixed and gain and gain == -holds:
            return "position servo"
        return "velocity servo" if fixed and gain and holds == 0.0 and gain == -brakes else "actuator"

    def _source_of_limit(self, joint: int, value: float) -> str:
        """Return the source of a limit, by its value; ``{}`` stands for the joint."""
        model = self._model
        if model.jnt_actfrclimited[joint]:
            text = _asymmetric(model.jnt_actfrcrange[joint])
            if np.isclose(np.abs(model.jnt_actfrcrange[joint]), value, rtol=1e-5).any():
                place = "URDF <limit effort> of {}" if self._is_urdf else "actuatorfrcrange of joint {}"
                return place + text
        for i in self._on.get(joint, []):
            gear, gain = abs(float(model.actuator_gear[i, 0])), abs(float(model.actuator_gainprm[i, 0]))
            times = f" × gear {gear:g}" if gear != 1.0 else ""
            if np.isclose(np.abs(model.actuator_forcerange[i]) * gear, value, rtol=1e-5).any():
                return f"forcerange{times} of the {self._kind(i)} of {{}}{_asymmetric(model.actuator_forcerange[i])}"
            if not model.actuator_ctrlnum[i]:
                continue
            controls = model.actuator_ctrlrange[model.actuator_ctrladr[i]]
            if np.isclose(np.abs(controls) * gear * gain, value, rtol=1e-5).any():
                times += f" × gain {gain:g}" if gain != 1.0 else ""
                return f"ctrlrange{times} of the {self._kind(i)} of {{}}{_asymmetric(controls)}"
        return "limits of {} in the model"

    def _loads(self, robot: Robot) -> np.ndarray:
        """Return the effective inertia of the DOFs without their own armature, the smallest of all poses of `check`."""
        robots = Articulation(robot.path, self._simulation)
        maps = self._simulation.engine.step_maps(robot, self._simulation.dt, None)
        start = robots.get_dof_positions().numpy()[0].astype(np.float64)
        poses = [start, *poses_of(robots, maps.free, POSES)]
        smallest = np.min([maps.at(pose).inertia for pose in poses], axis=0)
        return np.asarray(smallest - self._model.dof_armature[list(robot.dofs)])


def _asymmetric(bounds: np.ndarray) -> str:
    low, high = (float(bound) for bound in bounds)
    return "" if math.isclose(-low, high, rel_tol=1e-6) else f", which is {low:g} to {high:g}: max_effort has one bound"
