# SPDX-License-Identifier: Apache-2.0
"""Random sequences of calls on a simulation, against plain ``mj_step`` and motors in NumPy."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from hypothesis import strategies as st

import actuon
from actuon import lab
from tests.support.states import WHOLE, model_bytes, states_of

from .plain_robots import JOINTS, ROBOTS, Motor, PlainRobots
from .rig import rig, without_messages

STEPS_APART = 2e-4
"""How far a state may be off after several steps whose efforts were rounded to 32 bits, per 1 + its size."""
IMPLICIT_APART = 1e-7
"""How far one step with implicit efforts may be off: the same equation, solved with other roundings."""


@dataclass(eq=False)
class Attached:
    """Actuators on a robot, and their reference."""

    on: Any
    """`ArticulationActuators` or `ActuatorGroups`."""
    motor: Motor
    envs: np.ndarray
    """Environment of each row."""
    dofs: np.ndarray
    """DOF of the model of each column."""

    def spread(self, values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """Values by row and column as values by environment and DOF of the model."""
        found = np.zeros(shape)
        found[np.ix_(self.envs, self.dofs)] = values
        return found

    def chosen(self, values: np.ndarray) -> np.ndarray:
        """Values by environment and DOF of the model as values by row and column."""
        return values[np.ix_(self.envs, self.dofs)]


@dataclass(eq=False)
class Saved:
    """A saved state, and that of the reference."""

    state: Any
    states: np.ndarray
    targets: tuple[np.ndarray, np.ndarray]
    memories: list[tuple[Attached, dict[str, np.ndarray], dict[str, np.ndarray]]]
    time: float


class Sequence:
    """A simulation and its reference, to which the same is done."""

    def __init__(self, robot: str, integrator: str, dt: float, num_envs: int, folder: Path):
        text = ROBOTS[robot].format(integrator=integrator, dt=dt)
        self.simulation = actuon.MujocoSimulation(mujoco.MjSpec.from_string(text), num_envs)
        self.plain = PlainRobots(robot, integrator, dt, num_envs)
        self.robot, self.integrator, self.folder = robot, integrator, folder
        self.attached: list[Attached] = []
        self.saved: list[Saved] = []
        self.files: list[tuple[Attached, Path, dict[str, np.ndarray], dict[str, np.ndarray]]] = []
        self.roots = list(JOINTS[robot])
        self.views = [actuon.Articulation(root, self.simulation) for root in self.roots]
        self.first_model = model_bytes(self.simulation)[0]
        self.armature_is_own, self.first_dt = False, dt
        self.check()

    # What both must agree on.

    def check(self, apart: float = 0.0) -> None:
        """Compare states and targets; where rounding may differ, take over the simulation's states then."""
        found = states_of(self.simulation)
        moving = self.plain.moving()
        np.testing.assert_allclose(
            found[:, : moving.shape[1]], moving, rtol=apart, atol=apart, err_msg="time, positions, velocities"
        )
        if apart:
            self._take_over(found)
        np.testing.assert_allclose(self.simulation.time, self.plain.time, rtol=1e-9, atol=1e-9, err_msg="time")
        for root, view in zip(self.roots, self.views, strict=True):
            dofs = [self.plain.dof_of[name] for name in JOINTS[self.robot][root]]
            for kind, targets in (("position", self.plain.target_q), ("velocity", self.plain.target_qd)):
                got = getattr(view, f"get_dof_{kind}_targets")().numpy()
                np.testing.assert_array_equal(got, np.float32(targets[:, dofs]), f"target {kind} of '{root}'")

    def _take_over(self, found: np.ndarray) -> None:
        """Go on from the simulation's states, to the last bit. Its model may have more controls."""
        model = self.simulation.models[0]
        scratch = mujoco.MjData(model)
        for row, data in zip(found, self.plain.data, strict=True):
            mujoco.mj_setState(model, scratch, row, WHOLE)
            data.time = scratch.time
            for name in ("qpos", "qvel", "qacc_warmstart", "qfrc_applied"):
                getattr(data, name)[:] = getattr(scratch, name)

    def snapshot(self) -> list[Any]:
        """Everything that a refusal must leave as it is."""
        found: list[Any] = [self.simulation.time, states_of(self.simulation).tobytes(), *model_bytes(self.simulation)]
        for view in self.views:
            found += [view.get_dof_position_targets().numpy().tobytes()]
            found += [view.get_dof_velocity_targets().numpy().tobytes()]
        for each in self.attached:
            each.on.save_state(self.folder / "snapshot.npz")
            with np.load(self.folder / "snapshot.npz") as file:
                found += [(key, file[key].tobytes()) for key in file.files]
        return found

    @contextlib.contextmanager
    def refusal(self, must: bool) -> Iterator[list[str]]:
        """Let the block be refused with nothing changed, where it ``must``, or not at all."""
        if not must:
            yield []
            return
        before = self.snapshot()
        refused: list[str] = []
        with contextlib.suppress(actuon.ActuonError):
            try:
                yield refused
            except actuon.ActuonError as error:
                refused.append(str(error))
                raise
        assert refused, "was not refused"
        assert self.snapshot() == before, f"what was refused changed something: {refused[0]}"

    def has_implicit(self) -> bool:
        """Whether efforts of a motor are implicit."""
        return any(each.motor.is_implicit for each in self.attached)

    def followed(self, kind: str) -> set[int]:
        """DOFs whose targets something follows."""
        found = {int(dof) for each in self.attached if not each.motor.is_engine_drive for dof in each.motor.dofs}
        return found | set(self.plain.servo_of) if kind == "position" else found

    # What is done to both.

    def attach(self, rng: np.random.Generator) -> None:
        """Attach actuators or groups to joints of a robot; refused where one has an owner."""
        root = str(rng.choice(self.roots))
        view = self._view(root, rng)
        names = JOINTS[self.robot][root]
        chosen = [names[i] for i in rng.permutation(len(names))[: int(rng.integers(1, len(names) + 1))]]
        dofs = np.array([self.plain.dof_of[name] for name in chosen])
        owned = {int(dof) for each in self.attached for dof in each.motor.dofs}
        kinds = ["pd", "max", "late", "motor"]
        is_group = bool(rng.random() < 0.4)
        kinds += ["implicit"] if is_group and all(int(dof) in self.plain.servo_of for dof in dofs) else []
        kinds += [] if is_group else ["pid"]
        kind = str(rng.choice(kinds))
        may_be_implicit = kind == "pd" and self.integrator == "implicitfast" and self.robot != "servos"
        mode = "implicit" if may_be_implicit and rng.random() < 0.5 else "explicit"
        values = {"kp": rng.uniform(2, 30), "kd": rng.uniform(0, 0.8)}
        values |= {"max_effort": rng.uniform(1, 8)} if kind in ("max", "late", "motor") else {}
        values |= {"stall": rng.uniform(4, 12), "no_load": rng.uniform(3, 20)} if kind == "motor" else {}
        values |= {"ki": rng.uniform(0, 20), "integral_max": rng.uniform(0.02, 0.3)} if kind == "pid" else {}
        values |= {"lag": int(rng.integers(1, 4))} if kind == "late" else {}
        if is_group and kind == "pd":
            values["max_effort"] = 1e6
        values = {name: float(np.float32(value)) for name, value in values.items()}
        with self.refusal(must=bool(owned & set(dofs.tolist()))) as refused:
            make = self._group if is_group else self._actuators
            on = make(view, chosen, kind, values, mode, rng)
        if refused:
            return
        shape = self.plain.target_q.shape
        spread = {name: np.full(shape, value) for name, value in values.items()}
        motor = Motor(dofs, spread, int(values.get("lag", 0)), mode == "implicit", kind == "implicit")
        self.plain.motors.append(motor)
        columns = np.array([self.plain.dof_of[name] for name in on.articulation.dof_names])
        self.attached.append(Attached(on, motor, np.asarray(on.articulation.env_ids), columns))
        self.plain.silence()
        self.check()

    def _view(self, root: str, rng: np.random.Generator) -> Any:
        """Robots by name, or by paths in another order."""
        paths = list(self.views[self.roots.index(root)].paths)
        rng.shuffle(paths)
        return actuon.Articulation(root if rng.random() < 0.5 else paths, self.simulation)

    def _actuators(self, view: Any, names: list[str], kind: str, v: dict[str, float], mode: str, rng: Any) -> Any:
        limits: list[Any] = []
        if kind == "motor":
            limits.append(actuon.DCMotorClampingConfig(v["stall"], v["no_load"], v["max_effort"]))
        elif "max_effort" in v:
            limits.append(actuon.MaxEffortClampingConfig(v["max_effort"]))
        controller: Any = actuon.PDControlConfig(v["kp"], v["kd"])
        if kind == "pid":
            controller = actuon.PIDControlConfig(v["kp"], v["ki"], v["kd"], v["integral_max"])
        elif rng.random() < 0.3:  # a component with a value for each robot
            controller = actuon.ControllerPD(np.full(len(view), v["kp"], np.float32), v["kd"])
        delay = actuon.DelayConfig(int(v["lag"])) if kind == "late" else None
        config = actuon.ActuatorConfig(controller, limits, delay, effort_mode=mode)
        pairs = [(config, name) for name in names]
        return actuon.ArticulationActuators.from_actuators(view.paths, pairs, simulation=self.simulation)

    def _group(self, view: Any, names: list[str], kind: str, v: dict[str, float], mode: str, rng: Any) -> Any:
        given: dict[str, Any] = {"stiffness": v["kp"], "damping": v["kd"], "seed": 1}
        if kind == "implicit":
            cfg: Any = lab.ImplicitActuatorCfg(names, **given)
        else:
            given |= {"effort_limit": v["max_effort"], "effort_mode": mode}
            if kind == "motor":
                cfg = lab.DCMotorCfg(names, saturation_effort=v["stall"], velocity_limit=v["no_load"], **given)
            elif kind == "late":
                cfg = lab.DelayedPDActuatorCfg(names, min_delay=int(v["lag"]), max_delay=int(v["lag"]), **given)
            else:
                cfg = lab.IdealPDActuatorCfg(names, **given)
        return lab.ActuatorGroups(view, {"group": cfg})

    def close(self, rng: np.random.Generator) -> None:
        """Close something: its efforts are taken off, and the engine's own drives are back."""
        if not self.attached:
            return
        each = self.attached.pop(int(rng.integers(len(self.attached))))
        each.on.close()
        self.plain.motors.remove(each.motor)
        for data in self.plain.data:
            data.qfrc_applied[each.motor.dofs] = 0.0
        self.plain.silence()
        self.check()
        if not self.attached and not self.armature_is_own and self.plain.dt == self.first_dt:
            assert all(found == self.first_model for found in model_bytes(self.simulation)), (
                "the model is not given back"
            )

    def step(self, rng: np.random.Generator) -> None:
        """Take one step, with the efforts of telemetry, or several, with those of the reference."""
        if rng.random() < 0.6:
            self._step_once()
            return
        n = int(rng.integers(2, 21))
        for _ in range(n):
            self.plain.step([np.float32(self.plain.efforts(m)[0]).astype(float) for m in self.plain.motors])
        self.simulation.step(n)
        self.check(STEPS_APART)

    def _step_once(self) -> None:
        expected = [self.plain.efforts(motor) for motor in self.plain.motors]
        before = self.plain.velocities()
        self.simulation.step()
        efforts, after = [], states_of(self.simulation)[:, 1 + self.plain.models[0].nq :]
        for each, (effort, tolerance) in zip(self.attached, expected, strict=True):
            shown = each.spread(each.on.telemetry().applied_effort, effort.shape)
            at = each.motor.dofs
            given = effort
            if each.motor.is_implicit:
                change = after[:, : effort.shape[1]] - before
                effort = effort - each.motor.values["kd"] * change
                tolerance = tolerance + 1e-5 * each.motor.values["kd"] * np.abs(change)
            off = np.abs(shown - effort)[:, at] - tolerance[:, at]
            assert (off <= 0).all(), f"telemetry {shown[:, at]}, expected {effort[:, at]}, of DOFs {at}"
            efforts.append(given if each.motor.is_implicit else shown)
        self.plain.step(efforts)
        self.check(IMPLICIT_APART if self.has_implicit() else 0.0)

    def targets(self, rng: np.random.Generator) -> None:
        """Set targets, in any order of robots and joints; refused where nothing follows them."""
        kind = str(rng.choice(["position", "position", "velocity"]))
        root = str(rng.choice(self.roots))
        view, names = self._view(root, rng), JOINTS[self.robot][root]
        followed = self.followed(kind)
        able = [i for i, name in enumerate(view.dof_names) if self.plain.dof_of[name] in followed]
        columns = able if able and rng.random() < 0.85 else list(range(len(names)))
        columns = [int(i) for i in rng.permutation(columns)[: int(rng.integers(1, len(columns) + 1))]]
        rows = rng.permutation(len(view))[: int(rng.integers(1, len(view) + 1))]
        values = rng.uniform(-1.0, 1.0, (len(rows), len(columns))).astype(np.float32)
        dofs = [self.plain.dof_of[view.dof_names[i]] for i in columns]
        envs = np.asarray(view.env_ids)[rows]
        held = self.plain.target_q if kind == "position" else self.plain.target_qd
        is_new = np.any(np.float32(held[np.ix_(envs, dofs)]) != values, axis=0)
        lost = [dof for dof, other in zip(dofs, is_new, strict=True) if other and dof not in followed]
        with self.refusal(must=bool(lost)) as refused:
            getattr(view, f"set_dof_{kind}_targets")(values, rows.tolist(), columns)
        if refused:
            return
        held[np.ix_(envs, dofs)] = values
        if kind == "position":
            self._tell(envs)
        self.check()

    def _tell(self, envs: Any) -> None:
        for dof, servo in self.plain.servo_of.items():
            for env in envs:
                self.plain.data[env].ctrl[servo] = self.plain.target_q[env, dof]

    def feedforward(self, rng: np.random.Generator) -> None:
        """Set the feedforward of motors."""
        if self.attached:
            each = self.attached[int(rng.integers(len(self.attached)))]
            values = rng.uniform(-2, 2, (len(each.envs), len(each.dofs))).astype(np.float32)
            each.on.set_dof_feedforward_effort_targets(values)
            each.motor.feedforward = each.spread(values, each.motor.feedforward.shape)

    def efforts(self, rng: np.random.Generator) -> None:
        """Push on joints without a motor."""
        owned = {int(dof) for each in self.attached for dof in each.motor.dofs}
        for view in self.views:
            free = [i for i, n in enumerate(view.dof_names) if self.plain.dof_of[n] not in owned]
            free = [i for i in free if np.isinf(self.plain.upper[self.plain.dof_of[view.dof_names[i]]])]
            if free:
                values = rng.uniform(-1, 1, (len(view), len(free))).astype(np.float32)
                view.set_dof_efforts(values, None, free)
                for row, env in zip(values, view.env_ids, strict=True):
                    self.plain.data[env].qfrc_applied[[self.plain.dof_of[view.dof_names[i]] for i in free]] = row

    def parameter(self, rng: np.random.Generator) -> None:
        """Write a parameter while it is in use, or one that must be refused."""
        if not self.attached:
            return
        each = self.attached[int(rng.integers(len(self.attached)))]
        if isinstance(each.on, lab.ActuatorGroups):
            if not each.motor.is_engine_drive:
                held = getattr(each.on["group"], str(rng.choice(["stiffness", "damping"])))
                held[:] = held * float(np.float32(rng.uniform(0.6, 1.4)))
                self._read_group(each)
            return
        i = int(rng.integers(len(each.on.actuators)))
        actuator = each.on.actuators[i]
        at = self._places(each, actuator)
        names = [n for n in ("kp", "kd", "ki", "max_effort", "lag") if n in each.motor.values]
        name = str(rng.choice(names))
        owner, attribute = actuator.controller, name
        if name == "max_effort":
            owner, attribute = actuator.clamping[0], "max_motor_effort" if "stall" in each.motor.values else name
        elif name == "lag":
            owner, attribute = actuator.delay, "delay_steps"
        if name == "lag":
            values: Any = rng.integers(0, each.motor.depth + 1, len(at[0])).astype(np.int32)
            bad: Any = each.motor.depth + 1
        else:
            scale = {"kp": 30, "kd": 0.8, "ki": 20, "max_effort": 8}[name]
            values, bad = rng.uniform(0.1, scale, len(at[0])).astype(np.float32), [np.nan, -1.0][int(rng.integers(2))]
        if rng.random() < 0.25:
            before = getattr(owner, attribute).numpy().copy()
            with self.refusal(must=True):
                setattr(owner, attribute, bad)
            np.testing.assert_array_equal(getattr(owner, attribute).numpy(), before)
            return
        if rng.random() < 0.3:
            values[:] = values[0]
            setattr(owner, attribute, values[0].item())
        else:
            setattr(owner, attribute, values)
        each.motor.values[name][at] = values

    def _read_group(self, each: Attached) -> None:
        """Read a group's gains, which are public, into the reference."""
        model, columns = (
            each.on["group"],
            [each.on.articulation.dof_names.index(n) for n in each.on["group"].joint_names],
        )
        at = np.ix_(each.envs, each.dofs[columns])
        for name, ours in (("stiffness", "kp"), ("damping", "kd")):
            each.motor.values[ours][at] = np.asarray(getattr(model, name))
        self.plain.silence()

    def randomise(self, rng: np.random.Generator) -> None:
        """Draw gains of a group anew, in some environments."""
        groups = [each for each in self.attached if isinstance(each.on, lab.ActuatorGroups)]
        if not groups:
            return
        each = groups[int(rng.integers(len(groups)))]
        rows = np.flatnonzero(rng.random(len(each.envs)) < 0.6)
        name = str(rng.choice(["stiffness", "damping"]))
        before = np.array(getattr(each.on["group"], name))
        each.on["group"].randomize(name, lab.Uniform(0.8, 1.2), rows, relative_to="current")
        after = np.array(getattr(each.on["group"], name))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = after / before
        others = np.setdiff1d(np.arange(len(each.envs)), rows)
        np.testing.assert_array_equal(after[others], before[others])
        inside = (share[rows] >= 0.8 - 1e-6) & (share[rows] <= 1.2 + 1e-6)
        assert (inside | (before[rows] == 0)).all(), share
        self._read_group(each)

    def _memories(self) -> list[tuple[Attached, dict[str, np.ndarray], dict[str, np.ndarray]]]:
        return [(e, e.motor.memory(), {k: v.copy() for k, v in e.motor.values.items()}) for e in self.attached]

    def save(self, rng: np.random.Generator) -> None:
        """Save the state of everything."""
        plain = self.plain
        targets = plain.target_q.copy(), plain.target_qd.copy()
        self.saved.append(Saved(self.simulation.save_state(), plain.state(), targets, self._memories(), plain.time))

    def load(self, rng: np.random.Generator) -> None:
        """Go back to a saved state; refused where something was attached since."""
        if not self.saved:
            return
        saved = self.saved[int(rng.integers(len(self.saved)))]
        known = [each for each, _, _ in saved.memories]
        new = [each for each in self.attached if each not in known]
        implicit = {id(each) for each in known if each.motor.is_implicit}
        must = bool(new) or implicit != {id(each) for each in self.attached if each.motor.is_implicit}
        some = None if rng.random() < 0.5 else np.flatnonzero(rng.random(self.plain.num_envs) < 0.5)
        some = some if some is not None and some.size else None
        with self.refusal(must) as refused:
            self.simulation.load_state(saved.state, some)
        if refused:
            return
        envs = slice(None) if some is None else some
        self.plain.put(saved.states, envs)
        self.plain.target_q[envs], self.plain.target_qd[envs] = (held[envs] for held in saved.targets)
        if some is None:
            self.plain.time = saved.time
        for each, memory, _ in saved.memories:
            if each in self.attached:
                each.motor.take(memory, envs)
                self._check_values(each)
                continue
            for env in np.arange(self.plain.num_envs)[envs]:  # its efforts do not come back
                self.plain.data[env].qfrc_applied[each.motor.dofs] = 0.0
        self.check()
        if some is None:
            again = self.snapshot()
            self.simulation.load_state(saved.state)
            assert self.snapshot() == again, "loaded twice, a state differs"

    def _check_values(self, each: Attached) -> None:
        """Compare parameters with those of the reference."""
        if isinstance(each.on, lab.ActuatorGroups):
            before = {name: each.motor.values[name].copy() for name in ("kp", "kd")}
            self._read_group(each)
            for name, values in before.items():
                np.testing.assert_array_equal(each.motor.values[name], values, name)
            return
        for actuator in each.on.actuators:
            at = self._places(each, actuator)
            for name in ("kp", "kd"):
                found = getattr(actuator.controller, name).numpy()
                np.testing.assert_array_equal(found, np.float32(each.motor.values[name][at]), name)

    def _places(self, each: Attached, actuator: Any) -> tuple[np.ndarray, np.ndarray]:
        """Environments and DOFs of the model that an actuator's parameters are for."""
        rows, columns = np.divmod(actuator.effort_indices.numpy().astype(int), each.on.articulation.num_dofs)
        return each.envs[rows], each.dofs[columns]

    def save_file(self, rng: np.random.Generator) -> None:
        """Write what actuators remember to a file."""
        if self.attached:
            each = self.attached[int(rng.integers(len(self.attached)))]
            path = self.folder / f"{len(self.files)}.npz"
            each.on.save_state(path)
            values = {name: held.copy() for name, held in each.motor.values.items()}
            self.files.append((each, path, each.motor.memory(), values))

    def load_file(self, rng: np.random.Generator) -> None:
        """Take a file over, on the actuators that wrote it."""
        files = [file for file in self.files if file[0] in self.attached]
        if files:
            each, path, memory, values = files[int(rng.integers(len(files)))]
            each.on.load_state(path)
            each.motor.take(memory, slice(None))
            each.motor.values = {name: held.copy() for name, held in values.items()}
            self.plain.silence()
            self._check_values(each)
            self.check()

    def resume(self, rng: np.random.Generator) -> None:
        """Save the whole simulation to a file, go elsewhere, and load it: everything is as it was."""
        if not self.simulation.is_running:
            return
        self.simulation.save(self.folder / "simulation.npz")
        before, view = self.snapshot(), self._view(str(rng.choice(self.roots)), rng)
        view.set_dof_positions(rng.uniform(-0.5, 0.5, (len(view), view.num_dofs)).astype(np.float32))
        view.set_dof_armatures(rng.uniform(0.04, 0.09, (len(view), view.num_dofs)).astype(np.float32))
        self.simulation.step(int(rng.integers(1, 4)))
        self.simulation.load(self.folder / "simulation.npz")
        assert self.snapshot() == before, "loaded from a file, something differs"
        self.check()

    def reset(self, rng: np.random.Generator) -> None:
        """Reset environments, or what actuators remember."""
        plain = self.plain
        some = None if rng.random() < 0.3 else np.flatnonzero(rng.random(plain.num_envs) < 0.5)
        envs = slice(None) if some is None else some
        if self.attached and rng.random() < 0.3:
            each = self.attached[int(rng.integers(len(self.attached)))]
            each.on.reset(some)
            each.motor.forget(slice(None) if some is None else each.envs[some])
            return
        self.simulation.reset(some)
        plain.put(plain.start, envs)
        plain.target_q[envs], plain.target_qd[envs] = plain.first_targets[envs], 0.0
        plain.time = 0.0 if some is None else plain.time
        for each in self.attached:
            each.motor.forget(envs)
        self.check()

    def place(self, rng: np.random.Generator) -> None:
        """Put joints somewhere, at some speed."""
        view = self._view(str(rng.choice(self.roots)), rng)
        dofs = [self.plain.dof_of[name] for name in view.dof_names]
        rows = rng.permutation(len(view))[: int(rng.integers(1, len(view) + 1))]
        positions, velocities = (rng.uniform(-s, s, (len(rows), len(dofs))).astype(np.float32) for s in (0.5, 1.0))
        view.set_dof_positions(positions, rows)
        view.set_dof_velocities(velocities, rows)
        coordinates = [int(self.plain.coordinates[list(self.plain.dofs).index(dof)]) for dof in dofs]
        for env, q, qd in zip(np.asarray(view.env_ids)[rows], positions, velocities, strict=True):
            self.plain.data[env].qpos[coordinates], self.plain.data[env].qvel[dofs] = q, qd
        self.check()
        self._take_over(states_of(self.simulation))

    def armature(self, rng: np.random.Generator) -> None:
        """Give each robot another armature. Groups put back at their end what was there before them."""
        if any(isinstance(each.on, lab.ActuatorGroups) for each in self.attached):
            return
        view = self._view(str(rng.choice(self.roots)), rng)
        values = rng.uniform(0.04, 0.09, (len(view), view.num_dofs)).astype(np.float32)
        view.set_dof_armatures(values)
        dofs = [self.plain.dof_of[name] for name in view.dof_names]
        for env, row in zip(view.env_ids, values, strict=True):
            self.plain.models[env].dof_armature[dofs] = row
            mujoco.mj_setConst(self.plain.models[env], mujoco.MjData(self.plain.models[env]))
        self.armature_is_own = True
        self.check()

    def time_step(self, rng: np.random.Generator) -> None:
        """Change the time step of the model: what follows it follows all of it, or refuses to step."""
        models = list(self.simulation.models)
        if any(model is not models[0] for model in models):
            return
        before, dt = models[0].opt.timestep, float(rng.choice([0.001, 0.0025, 0.004]))
        models[0].opt.timestep = dt
        states = states_of(self.simulation).tobytes()
        try:
            self.simulation.step()
        except actuon.ActuonError:
            models[0].opt.timestep = before
            assert states_of(self.simulation).tobytes() == states, "a step that was refused changed the state"
            return
        self.plain.dt = dt
        for model in self.plain.models:
            model.opt.timestep = dt
        efforts = [np.float32(self.plain.efforts(motor)[0]).astype(float) for motor in self.plain.motors]
        self.plain.step(efforts)
        assert self.simulation.dt == dt, f"dt is {self.simulation.dt}, the engine's {dt}"
        self.check(STEPS_APART)

    def finish(self) -> None:
        """Close everything: the model is as it was."""
        while self.attached:
            self.close(np.random.default_rng(0))
        self.step(np.random.default_rng(1))


CALLS: dict[str, Callable[[Sequence, np.random.Generator], None]] = {
    "attach": Sequence.attach, "close": Sequence.close, "step": Sequence.step, "targets": Sequence.targets,
    "feedforward": Sequence.feedforward, "efforts": Sequence.efforts, "parameter": Sequence.parameter,
    "randomise": Sequence.randomise, "save": Sequence.save, "load": Sequence.load, "save_file": Sequence.save_file,
    "load_file": Sequence.load_file, "reset": Sequence.reset, "place": Sequence.place, "armature": Sequence.armature,
    "time_step": Sequence.time_step, "resume": Sequence.resume,
}  # fmt: skip
OFTEN = ("attach", "attach", "step", "step", "step", "step", "targets", "targets", "parameter", "close", "save", "load")
calls = st.lists(
    st.tuples(st.sampled_from([*CALLS, *OFTEN]), st.integers(0, 2**16)), min_size=4, max_size=16
)  # fmt: skip


@rig(
    "sequences",
    examples=250,
    drawn=lambda seed: {
        "robot": st.sampled_from(list(ROBOTS)),
        "integrator": st.sampled_from(["Euler", "implicitfast"]),
        "dt": st.sampled_from([0.002, 0.005]),
        "num_envs": st.sampled_from([1, 2, 3, 9, 16]),
        "done": calls,
    },
)
def sequences(robot: str, integrator: str, dt: float, num_envs: int, done: list[tuple[str, int]]) -> None:
    """Whatever is called, robots move as under ``mj_step`` with the motors' equations, and refusals change nothing."""
    with tempfile.TemporaryDirectory() as folder, without_messages():
        sequence = Sequence(robot, integrator, dt, num_envs, Path(folder))
        with sequence.simulation:
            for place, (name, number) in enumerate([("attach", num_envs), *done]):
                sequences.tally.add("calls")
                try:
                    CALLS[name](sequence, np.random.default_rng(number))
                except Exception as error:
                    error.add_note(f"in call {place}: {name}")
                    raise
            sequence.finish()
