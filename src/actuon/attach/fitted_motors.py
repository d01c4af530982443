# SPDX-License-Identifier: Apache-2.0
"""Motors of simulated robots, drawn around fitted ones.

For each joint of each environment, one of the fitted motors is chosen, all equally likely. Its parameters are drawn
from a normal distribution with the covariance of its fit, on the scales of the parameters. Parameters that vary
together in the fits therefore vary together here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..declare.parameters import Field
from ..errors import ParameterError, RobotFileError, listed, shown
from ..robot_files.fleet import Fleet, FleetJoint
from ..robot_files.provenance import load_motors
from ..typing import PathLike
from .groups.resolution import matching


@dataclass(frozen=True, eq=False)
class DrawnMotors:
    """Motors that were drawn around fitted ones. See `ArticulationActuators.randomize`.

    Args:
        file: Name of the file of fits.
        robots: Robots in the file.
        env_ids: Environments that got motors, shape (n,).
        joints: Joints that got motors, and the joint of the file that each is drawn from.
        paths: Paths of the drawn parameters, by joint.
        motors: Robot of the file that each motor is drawn around, shape (n, joints).
        clipped: By path, the number of the n × joints values that were clipped to the allowed range.
        left_out: Paths in the file that these actuators lack.

    Examples:
        >>> from actuon.fit import Fleet, FleetJoint, FleetParameter, save_fleet
        >>> kp = FleetParameter("controller.kp", "N·m/rad", "log")
        >>> fits = {"values": np.array([[20.0], [30.0]]), "covariances": np.full((2, 1, 1), 0.01)}
        >>> rest = {"errors": np.full(2, 0.001), "times": {}, "settings": {}}
        >>> knee = FleetJoint("knee", "pd", (kp,), **fits, **rest)
        >>> save_fleet("fleet.yaml", Fleet(("a", "b"), ("a.yaml", "b.yaml"), (knee,)))
        >>> motor = actuon.ActuatorConfig(actuon.PDControlConfig(kp=20.0, kd=0.5))
        >>> motors = actuon.Motors(motor, ["knee"], num_envs=8)
        >>> drawn = motors.randomize(from_fit="fleet.yaml", seed=0)
        >>> print(drawn)
        fleet.yaml: 8 motors, drawn from 2 fitted robots
        >>> drawn.source(row=0, joint="knee")
        'fleet.yaml: around knee of b'
    """

    file: str
    robots: tuple[str, ...]
    env_ids: np.ndarray
    joints: Mapping[str, str]
    paths: Mapping[str, tuple[str, ...]]
    motors: np.ndarray
    clipped: Mapping[str, int]
    left_out: tuple[str, ...]

    def source(self, row: int, joint: str) -> str:
        """Return the source of a joint's values as text, for the environment in this row of `motors`."""
        robot = self.robots[self.motors[row, list(self.joints).index(joint)]]
        return f"{self.file}: around {self.joints[joint]} of {robot}"

    def __str__(self) -> str:
        few = f"{len(self.robots)} fitted robot{'s' * (len(self.robots) != 1)}"
        lines = [f"{self.file}: {self.motors.size} motors, drawn from {few}"]
        lines += [f"clipped: {path}, {count} of {self.motors.size}" for path, count in self.clipped.items()]
        return "\n".join([*lines, *([f"left out: {', '.join(self.left_out)}"] if self.left_out else [])])


class FittedMotors:
    """A file of fits, with the joint of the file for each joint of a robot.

    Args:
        path: A ``fleet.yaml``, or the ``actuon.yaml`` of a fit.
        names: Joints that may get motors.
        joints: Regexes of joints, and the joint of the file for each. Default: all, by their names.
    """

    def __init__(self, path: PathLike, names: Sequence[str], joints: Iterable[str] | Mapping[str, str] | None = None):
        self.file = Path(path).name
        self._fleet = load_motors(path)
        self.of = _joints_of(path, self._fleet, names, joints)
        """The fitted joint of each joint that gets motors."""
        self._clipped: Counter[str] = Counter()
        self._left_out: dict[str, None] = {}
        self._written: dict[str, tuple[str, ...]] = {}

    def draw(self, rng: np.random.Generator, count: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Draw motors for each joint.

        Returns:
            For each joint, the robot of the file for each motor, shape (count,), and values of the parameters, shape
            (count, P).
        """
        return {name: draw_motors(joint, rng, count) for name, joint in self.of.items()}

    def written(
        self, joint: str, values: np.ndarray, declared: Mapping[str, Field[Any]], at: Callable[[str], np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return values for the chain of a joint: by path, one number for each motor, within the allowed range.

        Args:
            joint: Name of the joint.
            values: Values of the parameters, shape (n, P).
            declared: Declarations of the chain's parameters, by path.
            at: Returns the chain's values at a path that is not drawn, shape (n,).
        """
        found: dict[str, np.ndarray] = {}
        parameters = self.of[joint].parameters
        for i in sorted(range(len(parameters)), key=lambda i: bool(parameters[i].above)):
            p, drawn = parameters[i], values[:, i]
            own = np.clip(drawn, max(p.low, 0.0) if p.above else p.low, p.high)
            base = 0.0 if not p.above else found[p.above] if p.above in found else at(p.above)
            for path in (p.path, *p.also):
                if path not in declared:
                    self._left_out[path] = None
                    continue
                number = np.rint(own + base) if declared[path].integer else own + base
                found[path] = _within(number, declared[path])
                self._clipped[path] += int(((own != drawn) | (found[path] != number)).sum())
        self._written[joint] = tuple(found)
        return found

    def clip(self, path: str, values: np.ndarray, most: np.ndarray) -> np.ndarray:
        """Return values clipped to the largest that memory allows."""
        self._clipped[path] += int((values > most).sum())
        return np.minimum(values, most)

    def drawn(self, env_ids: np.ndarray, motors: Mapping[str, np.ndarray]) -> DrawnMotors:
        """Return a report of the draw. ``motors`` are robots of the file by joint, each of shape (n,)."""
        clipped = {path: count for path, count in self._clipped.items() if count}
        joints = {name: joint.name for name, joint in self.of.items()}
        columns = np.stack([motors[name] for name in joints], axis=1)
        return DrawnMotors(
            self.file, self._fleet.robots, env_ids, joints, self._written, columns, clipped, tuple(self._left_out)
        )


def draw_motors(joint: FleetJoint, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw motors around the fitted ones of a joint: their robots, shape (count,), and values, shape (count, P)."""
    sizes, directions = np.linalg.eigh(joint.covariances)
    spreads = directions * np.sqrt(np.maximum(sizes, 0.0))[:, None, :]
    chosen = rng.integers(len(joint.values), size=count)
    away = np.einsum("npq,nq->np", spreads[chosen], rng.standard_normal((count, len(joint.parameters))))
    scaled = joint.on_scales[chosen] + away
    with np.errstate(over="ignore"):
        return chosen, np.where(joint.is_log, np.exp(np.where(joint.is_log, scaled, 0.0)), scaled)


def _joints_of(
    path: PathLike, fleet: Fleet, names: Sequence[str], joints: Iterable[str] | Mapping[str, str] | None
) -> dict[str, FleetJoint]:
    known = {joint.name: joint for joint in fleet.joints}
    if joints is None:
        for name in names:
            if name not in known:
                raise RobotFileError(
                    f"'{path}': has no joint '{name}'; {listed(name, known, 'joints')}. Say which to draw it from: "
                    f"joints={{'{name}': '{next(iter(known), '...')}'}}"
                )
        return {name: known[name] for name in names}
    if not isinstance(joints, Mapping):
        raise ParameterError(f"joints: got {shown(joints)}; must be a dict: regexes, and a joint of the file for each")
    found: dict[str, FleetJoint] = {}
    for pattern, of in joints.items():
        if not isinstance(of, str) or of not in known:
            raise RobotFileError(f"'{path}': has no joint '{of}'; {listed(str(of), known, 'joints')}")
        for name in matching("joints", pattern, names):
            if name in found and found[name] is not known[of]:
                raise ParameterError(f"joints: '{name}' is to be drawn from '{found[name].name}' and '{of}'")
            found[name] = known[of]
    if not found:
        raise ParameterError("joints: got none; must be regexes of joints, and a joint of the file for each")
    return {name: found[name] for name in names if name in found}


def _within(values: np.ndarray, declared: Field[Any]) -> np.ndarray:
    """Return values clipped to the allowed range."""
    low = -np.inf if declared.minimum is None else declared.minimum
    if declared.above is not None:
        low = max(low, float(np.nextafter(np.float32(declared.above), np.float32(np.inf))))
    highest = float(np.finfo(np.float32).max) if declared.finite else np.inf
    high = highest if declared.maximum is None else declared.maximum
    return np.clip(values, low, high)
