# SPDX-License-Identifier: Apache-2.0
"""`ArticulationActuators`: actuators from a robot's file or from Python, on all copies of the robot in a simulation."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from ..actuator.config import AUTO, IMPLICIT, ActuatorConfig, checked_effort_mode
from ..components.controllers.pd import PDControlConfig
from ..errors import Fix, RobotFileError, SimulationError, StructureError, listed, located
from ..motors.unmodelled import warn_of_unmodelled
from ..robot_files.yaml import load_actuators, match_actuators, yaml_beside
from ..sim import Articulation, Simulation
from ..typing import DeviceLike, IdsLike, PathLike
from .attachment import Attachment, Parts, chains_on, places_of
from .chain_set import COMPUTED, IMPLICIT_ATTRS, build_actuators, signal_attr
from .fitted_motors import DrawnMotors
from .groups.randomisation import Distribution
from .hand_overs import Efforts, SilencedDrives, check_derivatives
from .random_motors import randomize
from .value_table import Sources, table_of_values

if TYPE_CHECKING:
    from pxr import Usd

_log = logging.getLogger("actuon.actuators")


class ArticulationActuators(Attachment):
    """Actuators of robots in a simulation, which are stepped before each step of physics.

    The actuators are those of the ``NewtonActuator`` prims below the robot, or of the ``actuon.yaml`` next to its file
    (``robot.actuon.yaml`` for ``robot.xml``, else ``actuon.yaml``). The engine drives are disabled on the DOFs
    that have an actuator, and read back; the other DOFs keep theirs. The logger ``actuon.actuators`` warns of joints
    whose kp and kd are 0. If no actuators are found, it warns, and nothing is driven.

    Args:
        paths: As for `Articulation`.
        auto_step_pre_physics: Step the actuators before each step of physics.
        device: Device of the actuators, which must be the simulation's. Default: the simulation's.
        simulation: Default: the current one.
        allow_unsafe_torch_checkpoints: Let the robot's file, or the YAML next to it, name ``.pt`` and ``.pt2``
            networks, which can run code when loaded.
        effort_mode: Form of the efforts: ``"explicit"``, ``"implicit"`` or ``"auto"``. Default: that in the
            file.

    Examples:
        >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=2) as simulation:
        ...     actuators = actuon.ArticulationActuators("link0")  # of arm.actuon.yaml
        ...     actuators.articulation.set_dof_position_targets(0.2, dof_indices=[0])
        ...     simulation.step(2)
        ...     print(actuators.telemetry().applied_effort[:, 0])
        [87. 87.]
    """

    def __init__(
        self,
        paths: str | Sequence[str],
        *,
        auto_step_pre_physics: bool = True,
        device: DeviceLike = None,
        simulation: Simulation | None = None,
        allow_unsafe_torch_checkpoints: bool = False,
        effort_mode: str | None = None,
    ):
        articulation = Articulation(paths, simulation)
        found = read_actuators(articulation, allow_unsafe_torch_checkpoints)
        if not found:
            _log.warning("%s", without_actuators(articulation))
        self._build(articulation, found, auto_step_pre_physics, device, effort_mode)
        if said := idle_warning(self.configs):
            _log.warning("%s", said)

    @classmethod
    def from_actuators(
        cls,
        paths: str | Sequence[str],
        actuators: Iterable[tuple[ActuatorConfig, str]],
        auto_step_pre_physics: bool = True,
        *,
        device: DeviceLike = None,
        simulation: Simulation | None = None,
        effort_mode: str | None = None,
    ) -> ArticulationActuators:
        """Drive robots with actuators from Python.

        Args:
            paths: As for `Articulation`.
            actuators: Pairs of an actuator and the name of its DOF, in any order. Its stages are configs, the same for
                all robots, or components with one value for each robot. What is shared is said at `Actuator`.
            auto_step_pre_physics: Step the actuators before each step of physics.
            device: As for `ArticulationActuators`.
            simulation: Default: the current one.
            effort_mode: As for `ArticulationActuators`. Default: that of each config.

        Examples:
            >>> motor = actuon.ActuatorConfig(actuon.PDControlConfig(kp=100.0, kd=10.0))
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf):
            ...     names = ["joint1", "joint2"]
            ...     actuators = actuon.ArticulationActuators.from_actuators(
            ...         "link0", [(motor, name) for name in names]
            ...     )
            ...     print(actuators.actuated_dof_indices)
            [0, 1]
        """
        articulation = Articulation(paths, simulation)
        found: dict[int, ActuatorConfig] = {}
        for pair in actuators:
            if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[0], ActuatorConfig):
                raise StructureError(f"got {pair!r}; must be pairs of an ActuatorConfig and the name of a DOF")
            if not isinstance(pair[1], str):
                raise StructureError(f"got {pair[1]!r} as the name of a DOF; must be one name, so make a pair for each")
            (dof,) = articulation.dof_columns(pair[1])
            if dof in found:
                raise SimulationError(f"DOF '{pair[1]}' is given two actuators; must be one")
            with located(f"DOF '{articulation.dof_names[int(dof)]}'"):
                found[int(dof)] = pair[0].copy()
        made = cls.__new__(cls)
        made._build(articulation, found, auto_step_pre_physics, device, effort_mode)
        return made

    def _build(
        self,
        articulation: Articulation,
        found: dict[int, ActuatorConfig],
        auto_step: bool,
        device: DeviceLike,
        effort_mode: str | None,
    ) -> None:
        simulation = articulation.simulation
        if device is not None and wp.get_device(device) != simulation.device:
            raise SimulationError(f"device: got '{device}'; must be '{simulation.device}', where the simulation runs")
        if effort_mode is not None:
            checked_effort_mode(effort_mode)
            for config in found.values():
                config.effort_mode = effort_mode
        self.configs = {articulation.dof_names[column]: found[column] for column in sorted(found)}
        """Config of each DOF, by name. Changing one has no effect."""
        warn_of_unmodelled(self.configs.values())
        self._sources: Sources = {}
        self._columns = np.array(sorted(found), dtype=np.int64)
        given, auto = (
            np.array([column for column in self._columns if found[column].effort_mode == mode], dtype=np.int64)
            for mode in (IMPLICIT, AUTO)
        )
        for column in given:
            check_derivatives(f"DOF '{articulation.dof_names[column]}'", found[column].stages)
        build = functools.partial(_parts, articulation, found)
        super().__init__(articulation, build, given, auto, bool(auto_step))

    def randomize(
        self,
        parameters: Mapping[str, Distribution] | None = None,
        *,
        from_fit: PathLike | None = None,
        joints: Iterable[str] | Mapping[str, str] | None = None,
        env_ids: IdsLike = None,
        seed: int | Sequence[np.random.Generator] | None = None,
    ) -> DrawnMotors | None:
        """Draw parameters for each joint of each robot. Rotor inertia and friction in the engine follow.

        ``effort_mode="auto"`` and the integrator are chosen when the actuators are made, and not again after a draw.

        Args:
            parameters: As for `Motors.randomize`, and so are ``from_fit`` and ``joints``.
            from_fit: File of fitted motors, instead of distributions.
            joints: Which joints. Default: all that have an actuator.
            env_ids: Which robots, by their row: whole numbers, a slice or a mask. Default: all.
            seed: As for `Motors.randomize`.

        Returns:
            With ``from_fit``, which motor each joint was drawn around.

        Raises:
            ParameterError: No motor has this parameter, or a drawn value is not allowed. Nothing is changed then.
            RobotFileError: The file cannot be read, or lacks a joint.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf, num_envs=16) as simulation:
            ...     actuators = actuon.ArticulationActuators("link0")
            ...     damping = {"controller.kd": actuon.lab.LogUniform(0.5, 2.0)}
            ...     actuators.randomize(damping, joints="joint[1-4]", seed=0)
            ...     print(actuators.actuators[0].controller.kd.numpy().std() > 0.0)
            True
        """
        self._check_open()
        dt, names = self.articulation.simulation.dt, list(self.configs)
        drawn, sources = randomize(self._chains, dt, names, parameters, from_fit, joints, env_ids, seed)
        self._renew()
        self._sources |= sources
        return drawn

    def resolution_table(self) -> str:
        """Return a table of the parameters of each joint: value in the config, value of the first robot, unit, source.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf):
            ...     table = actuon.ArticulationActuators("link0").resolution_table()
            >>> print(table.splitlines()[0])
            joint   parameter              config  used  unit       source
        """
        return table_of_values(self._chains, self.configs, self._sources)

    @property
    def actuated_dof_indices(self) -> list[int]:
        """Columns of the DOFs that have an actuator, in rising order. A new list each time."""
        return self._columns.tolist()

    def step_actuators(self, step_dt: float, context: object = None) -> None:
        """Read state and targets, step the actuators, and write the efforts to the engine.

        Args:
            step_dt: Time step [s].
            context: Ignored: physics callbacks of some engines pass one.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     actuators = actuon.ArticulationActuators("link0", auto_step_pre_physics=False)
            ...     for _ in range(3):
            ...         actuators.step_actuators(simulation.dt)
            ...         simulation.step()
        """
        self._step_now(step_dt)

    def enable_auto_step_pre_physics(self) -> None:
        """Step the actuators before each step of physics, also after a stop and start of the simulation.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     actuators = actuon.ArticulationActuators("link0", auto_step_pre_physics=False)
            ...     actuators.enable_auto_step_pre_physics()
            ...     simulation.step()  # with motors
        """
        self._auto_step = True

    def disable_auto_step_pre_physics(self) -> None:
        """Step the actuators only by `step_actuators`. Until then, the last efforts stay on.

        Examples:
            >>> with actuon.MujocoSimulation(actuon.assets.arm_mjcf) as simulation:
            ...     actuators = actuon.ArticulationActuators("link0")
            ...     actuators.disable_auto_step_pre_physics()
            ...     actuators.step_actuators(simulation.dt)
            ...     simulation.step(5)  # with the same efforts
        """
        self._auto_step = False

    def __repr__(self) -> str:
        robots, dofs = len(self.articulation), len(self._columns)
        text = f"<ArticulationActuators on {dofs} DOFs of {robots} robots: {len(self.actuators)} actuators"
        return f"{text}{self.mode_text and ', '}{self.mode_text}>"


def _parts(articulation: Articulation, found: Mapping[int, ActuatorConfig], implicit: np.ndarray) -> Parts:
    """Return actuators of DOFs, by column, and their hand-overs."""
    simulation, at = articulation.simulation, articulation.at
    columns = np.array(sorted(found), dtype=np.int64)
    places = places_of(articulation)
    actuators = []
    for chosen, attrs in ((np.setdiff1d(columns, implicit), None), (implicit, IMPLICIT_ATTRS)):
        actuators += build_actuators(
            {int(column): found[column] for column in chosen},
            articulation.dof_names,
            places,
            simulation.device,
            articulation.num_dofs if simulation.engine.steps_single_robots else None,
            accumulate=False,
            control_computed_output_attr=COMPUTED,
            control_signal_attrs=signal_attr,
            control_derivative_attrs=attrs,
            in_engine=simulation.solves_friction(at),
        )
    chains = chains_on(articulation, actuators)
    efforts = Efforts(chains.table(COMPUTED), *[chains.table("joint_f")] * 3)
    return Parts.of(articulation, chains, efforts, columns, implicit, [SilencedDrives(articulation, columns)])


def read_actuators(articulation: Articulation, allow_torch: bool) -> dict[int, ActuatorConfig]:
    """Return the actuators of the first robot, by column: from its prims, or from the YAML file next to it."""
    simulation = articulation.simulation
    if simulation.stage is not None:
        found = _read_prims(articulation, simulation.stage, allow_torch)
        if found:
            return found
    path = yaml_beside(simulation.source)
    if path is None:
        return {}
    entries = load_actuators(path, allow_torch)
    everyone = dict.fromkeys(name for other in simulation.robots for name in other.dof_names)
    with located(path, RobotFileError):
        matched = match_actuators(entries, everyone)
    return {
        int(articulation.dof_columns(name)[0]): actuator
        for _, own in matched
        for name, actuator in own.items()
        if name in articulation.dof_names
    }


def idle_joints(configs: Mapping[str, ActuatorConfig]) -> list[str]:
    """Return the joints whose controllers have no gains."""
    pds = {name: config.controller for name, config in configs.items()}
    return [n for n, pd in pds.items() if isinstance(pd, PDControlConfig) and not (pd.kp or pd.kd or pd.const_effort)]


def idle_warning(configs: Mapping[str, ActuatorConfig]) -> str:
    """Return a warning that names the joints whose controllers have no gains; empty if all have some."""
    names = idle_joints(configs)
    said = "kp and kd are 0: these joints will not track targets: {}; `actuon check` suggests gains"
    return said.format(", ".join(names)) if names else ""


def without_actuators(articulation: Articulation) -> RobotFileError:
    """Return the error for a robot without actuators."""
    source = articulation.simulation.source
    path = yaml_beside(source)
    if path is not None:
        yaml = f"an entry for its joints in '{path}'"
    elif source is not None:
        yaml = f"'{source.stem}.actuon.yaml' or 'actuon.yaml' next to '{source}'"
    else:
        yaml = "an actuon.yaml next to its model"
    return RobotFileError(
        f"no actuators found for '{articulation.paths[0]}': neither NewtonActuator prims nor {yaml}. Create a YAML "
        "with 'actuon init', ",
        fix=Fix(
            "prims with add_actuator(), or use ArticulationActuators.from_actuators()",
            "or a USD file with 'actuon author'",
        ),
    )


def _read_prims(articulation: Articulation, stage: Usd.Stage, allow_torch: bool) -> dict[int, ActuatorConfig]:
    from ..robot_files.usd.read import parse_actuators

    robot = articulation.robots[0]
    paths = [path.replace(robot.path, robot.source_path, 1) for path in robot.dof_paths]
    found: dict[int, ActuatorConfig] = {}
    owners: dict[int, str] = {}
    for parsed in parse_actuators(stage.GetPrimAtPath(robot.source_path), allow_torch):
        if parsed.target_path not in paths:
            raise RobotFileError(
                f"{parsed.prim_path}: its target '{parsed.target_path}' is not a DOF of '{robot.source_path}'; "
                f"{listed(parsed.target_path, paths, 'DOFs')}"
            )
        column = paths.index(parsed.target_path)
        if column in owners:
            raise RobotFileError(
                f"'{parsed.target_path}' is driven by {owners[column]} and by {parsed.prim_path}; must be driven by one"
            )
        owners[column] = parsed.prim_path
        found[column] = parsed.config
    return found
