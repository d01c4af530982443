# SPDX-License-Identifier: Apache-2.0
"""A drop-in ``newton.ModelBuilder`` that puts Actuon's actuators into ``model.actuators``."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ..actuator.builder import ActuatorBuilder, config_of_classes
from ..actuator.config import EXPLICIT, IMPLICIT, ActuatorConfig
from ..components.kinds import Controller
from ..errors import MissingExtraError, ParameterError, RobotFileError, StructureError
from ..robot_files.parsed import ActuatorParsed
from ..sim.newton.reading import usd_dofs
from ..typing import DeviceLike, PathLike
from .newton_actuator import Actuator

if TYPE_CHECKING:
    from pxr import Usd

try:
    import newton
except ImportError as error:
    raise MissingExtraError("newton", "newton", "building Newton models") from error


class ModelBuilder(newton.ModelBuilder):
    """Newton's builder with Actuon's actuators.

    `add_actuator` takes Actuon's controllers and clamps; Newton's own drives work as before. `add_usd` reads actuators
    with Actuon. ``add_builder``, ``add_world`` and ``replicate`` copy them. `finalize` puts one actuator for
    each combination of stages into ``model.actuators``, to be stepped with ``actuator.step(state, control, ...)``.

    Examples:
        >>> import newton
        >>> import warp as wp
        >>> from actuon.newton import ModelBuilder
        >>> builder = ModelBuilder()
        >>> link = builder.add_link(mass=1.0, inertia=wp.mat33(0.01 * np.eye(3)))
        >>> joint = builder.add_joint_revolute(parent=-1, child=link, axis=newton.Axis.Y)
        >>> builder.add_articulation([joint])
        >>> builder.add_actuator(actuon.ControllerPD, index=0, delay_steps=2, kp=40.0, kd=1.0)
        >>> model = builder.finalize(device="cpu")
        >>> len(model.actuators)
        1
    """

    def add_actuator(
        self,
        drive_class: type | None = None,
        index: int | None = None,
        clamping: Sequence[tuple[type, Mapping[str, Any]]] | None = None,
        delay_steps: int | None = None,
        pos_index: int | None = None,
        *,
        controller_class: type | None = None,
        **kwargs: Any,
    ) -> None:
        """Add an actuator to one DOF. See `ActuatorBuilder.add_actuator`.

        Args:
            drive_class: Class of the controller, such as `actuon.ControllerPD`.
            index: DOF index.
            clamping: Clamps in order, each as a class and its scalar parameters.
            delay_steps: Delay of the commands [steps]. None means no delay.
            pos_index: Coordinate index. Default: ``index``.
            controller_class: Alias of ``drive_class``.
            kwargs: Scalar parameters of the controller.
        """
        if controller_class is not None:
            if drive_class is not None:
                raise StructureError("add_actuator: got drive_class and controller_class; pass only one")
            drive_class = controller_class
        if not (isinstance(drive_class, type) and issubclass(drive_class, Controller)):
            super().add_actuator(drive_class, index, clamping, delay_steps, pos_index, **kwargs)
            return
        config = config_of_classes(f"DOF {index}", drive_class, clamping, delay_steps, kwargs)
        self.add(config, index, pos_index)

    def add(self, config: ActuatorConfig, index: int | None, pos_index: int | None = None) -> None:
        """Add an actuator to one DOF by its config. See `ActuatorBuilder.add`.

        Args:
            config: Config of the actuator, with numbers as parameters.
            index: DOF index.
            pos_index: Coordinate index. Default: ``index``.

        Examples:
            >>> import newton
            >>> from actuon.newton import ModelBuilder
            >>> builder = ModelBuilder()
            >>> link = builder.add_link(mass=1.0)
            >>> joint = builder.add_joint_prismatic(parent=-1, child=link)
            >>> motor = actuon.find_motor("ak80-9").datasheet
            >>> builder.add(motor.actuator(actuon.PDControlConfig(kp=40.0, kd=1.0)), index=0)
        """
        checked: Any = ActuatorBuilder()  # raises errors with their place
        checked.add(config, index, pos_index=pos_index)
        if config.effort_mode == IMPLICIT:
            raise StructureError(
                f"DOF {index}: effort_mode '{IMPLICIT}': needs an engine; use '{EXPLICIT}', or "
                "ArticulationActuators on a NewtonSimulation"
            )
        super().add_actuator(_Described, index, None, None, pos_index, config=config.copy())

    def add_usd(self, source: PathLike | Usd.Stage, **options: Any) -> dict[str, Any]:
        """Add a USD stage like Newton's builder. Actuon reads the actuators: all targets of a prim, and defaults of the
        schema.

        Examples:
            >>> import newton
            >>> from actuon.newton import ModelBuilder
            >>> builder = ModelBuilder()
            >>> builder.add_usd(actuon.assets.quadruped_usd)["actuator_count"]
            12
        """
        from ..robot_files.usd.attributes import ACTUATOR
        from ..robot_files.usd.read import parse_actuators
        from ..robot_files.usd.stage import everything_below, open_stage

        stage = open_stage(source) if isinstance(source, (str, os.PathLike)) else source
        root = stage.GetPrimAtPath(options.get("root_path", "/"))
        if not root:
            raise RobotFileError(f"there is no prim '{options['root_path']}' to start from")
        prims = [str(prim.GetPath()) for prim in everything_below(root) if prim.GetTypeName() == ACTUATOR]
        ignored = options.pop("ignore_paths", None) or []
        # Read first: a bad actuator must not leave half a robot in the builder.
        actuators = parse_actuators(root, options.pop("allow_unsafe_torch_checkpoints", False))
        actuators = [
            parsed
            for parsed in actuators
            if not any(re.match(p, path) for p in ignored for path in (parsed.prim_path, parsed.target_path))
        ]
        result: dict[str, Any] = super().add_usd(stage, ignore_paths=[*ignored, *prims], **options)
        joints = dict.fromkeys(result["path_joint_map"].values())
        dofs = {dof.path: dof for joint in joints for dof in usd_dofs(newton, self, joint)}
        for parsed in actuators:
            dof = dofs.get(parsed.target_path)
            if dof is None:
                raise RobotFileError(
                    f"{parsed.prim_path}: its target '{parsed.target_path}' {self._why_not(parsed, result)}"
                )
            index, pos_index = (starts[dof.joint] + dof.axis for starts in (self.joint_qd_start, self.joint_q_start))
            self.add(parsed.config, index, pos_index)
        return result | {"actuator_count": len(actuators)}

    @staticmethod
    def _why_not(parsed: ActuatorParsed, result: Mapping[str, Any]) -> str:
        if parsed.target_path in result["path_joint_map"]:
            return (
                "is one of several joints between two links, which Newton merges; call "
                "newton.solvers.SolverMuJoCo.register_custom_attributes(builder) first, so that it keeps their names"
            )
        return "is not in the model"

    def finalize(self, device: DeviceLike = None, *, requires_grad: bool = False, **options: Any) -> newton.Model:
        """Return the model like Newton's builder, with Actuon's actuators in ``model.actuators``."""
        everything: dict[Any, Any] = self.actuator_entries  # type: ignore[has-type]
        ours = [entry for entry in everything.values() if entry.drive_class is _Described]
        self.actuator_entries = {k: entry for k, entry in everything.items() if entry.drive_class is not _Described}
        try:
            model = super().finalize(device=device, requires_grad=requires_grad, **options)
        finally:
            self.actuator_entries = everything
        builder = ActuatorBuilder()
        for config, at in _by_config(ours):
            index, pos_index = np.array(at).T
            if index.max() >= model.joint_dof_count or pos_index.max() >= model.joint_coord_count:
                raise ParameterError(f"DOF {index.max()}: the model has {model.joint_dof_count} DOFs")
            builder.add(config, index, pos_index=pos_index)
        actuators = builder.finalize(device=model.device, requires_grad=requires_grad, actuator_class=Actuator)
        model.actuators = [*model.actuators, *actuators]
        for name in dict.fromkeys(name for actuator in actuators for name in actuator.custom_inputs):
            _add_control_array(model, name, requires_grad)
        return model


def _add_control_array(model: newton.Model, name: str, requires_grad: bool) -> None:
    """Add an array with a number for each DOF to ``model.control()``, as Newton does for its own networks."""
    if not hasattr(model, name) and not hasattr(model.control(), name):
        array = wp.zeros(model.joint_dof_count, dtype=wp.float32, device=model.device, requires_grad=requires_grad)
        model.add_attribute(name, array, model.AttributeFrequency.JOINT_DOF, model.AttributeAssignment.CONTROL)


class _Described(Controller):
    """Placeholder in Newton's builder for an actuator, with its config as the only argument."""

    @classmethod
    def resolve_arguments(cls, args: Mapping[str, Any]) -> dict[str, Any]:
        return dict(args)


def _by_config(entries: list[Any]) -> Iterable[tuple[ActuatorConfig, list[tuple[int, int]]]]:
    """Return each actuator once, with the (DOF, coordinate) of all joints that have it."""
    found: dict[Hashable, tuple[ActuatorConfig, list[tuple[int, int]]]] = {}
    for entry in entries:
        for arguments, *at in zip(entry.drive_args, entry.indices, entry.pos_indices, strict=True):
            config = arguments["config"]
            _, joints = found.setdefault((config.frozen_stages(), config.control_every), (config, []))
            joints.append((at[0], at[1]))
    return found.values()
