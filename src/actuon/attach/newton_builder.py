# SPDX-License-Identifier: Apache-2.0
"""A drop-in ``newton.ModelBuilder`` that leaves Actuon's actuators in ``model.actuators``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..builder import ActuatorBuilder
from ..components.controllers.controller import Controller
from ..errors import MissingExtraError, ParameterError, RobotFileError, StructureError
from ..typing import DeviceLike, PathLike

if TYPE_CHECKING:
    from pxr import Usd

try:
    import newton
except ImportError as error:
    raise MissingExtraError("newton", "newton", "building Newton models") from error


class ModelBuilder(newton.ModelBuilder):
    """Newton's builder, with actuators of ours.

    `add_actuator` takes Actuon's controllers and clamps; Newton's own drives work too, and stay Newton's. `add_usd`
    reads the stage's actuators as Actuon does. They survive ``add_builder``, ``add_world`` and ``replicate``, and
    `finalize` leaves as few of them as possible in ``model.actuators``, to be stepped with
    ``actuator.step(state, control, ...)``.
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
        """Describe the actuator of one DOF. See `ActuatorBuilder.add_actuator`.

        Args:
            drive_class: E.g. `actuon.ControllerPD`.
            index: DOF index.
            clamping: Clamps in order, each as a class and its scalar parameters.
            delay_steps: Lag of the commands [steps]. None means no delay.
            pos_index: Coordinate index. Default: ``index``.
            controller_class: The same as ``drive_class``.
            kwargs: Scalar parameters of the controller.
        """
        if controller_class is not None:
            if drive_class is not None:
                raise StructureError("add_actuator: got drive_class and controller_class, which mean the same")
            drive_class = controller_class
        if _is_ours(drive_class):
            described: Any = ActuatorBuilder()  # checks everything, with errors that say where
            described.add_actuator(
                drive_class, index, clamping=clamping, delay_steps=delay_steps, pos_index=pos_index, **kwargs
            )
        super().add_actuator(drive_class, index, clamping, delay_steps, pos_index, **kwargs)

    def add_usd(self, source: PathLike | Usd.Stage, **options: Any) -> dict[str, Any]:
        """As Newton's, but actuators are read by Actuon: all targets of a prim, and the schema's defaults."""
        from ..robot_files.usd.attributes import ACTUATOR
        from ..robot_files.usd.parse import parse_actuators
        from ..robot_files.usd.stage import everything_below, open_stage

        stage = open_stage(source) if isinstance(source, (str, os.PathLike)) else source
        root = stage.GetPrimAtPath(options.get("root_path", "/"))
        if not root:
            raise RobotFileError(f"there is no prim '{options['root_path']}' to start from")
        prims = [str(prim.GetPath()) for prim in everything_below(root) if prim.GetTypeName() == ACTUATOR]
        ignored = options.pop("ignore_paths", None) or []
        # Read first: a bad actuator must not leave half a robot in the builder.
        actuators = parse_actuators(root, options.get("allow_unsafe_torch_checkpoints", False))
        actuators = [
            parsed
            for parsed in actuators
            if not any(re.match(p, path) for p in ignored for path in (parsed.prim_path, parsed.target_path))
        ]
        result: dict[str, Any] = super().add_usd(stage, ignore_paths=[*ignored, *prims], **options)
        joints = result["path_joint_map"]
        for parsed in actuators:
            if parsed.target_path not in joints:
                raise RobotFileError(f"{parsed.prim_path}: its target '{parsed.target_path}' is not in the model")
            joint = joints[parsed.target_path]
            self.add_actuator(
                parsed.controller_class,
                index=self.joint_qd_start[joint],
                clamping=parsed.clamping,
                delay_steps=parsed.delay_steps,
                pos_index=self.joint_q_start[joint],
                **parsed.controller_kwargs,
            )
        return result | {"actuator_count": len(actuators)}

    def finalize(self, device: DeviceLike = None, *, requires_grad: bool = False, **options: Any) -> newton.Model:
        """As Newton's, with Actuon's actuators in ``model.actuators``."""
        everything: dict[Any, Any] = self.actuator_entries  # type: ignore[has-type]
        ours = {key: entry for key, entry in everything.items() if _is_ours(entry.drive_class)}
        self.actuator_entries = {key: entry for key, entry in everything.items() if key not in ours}
        try:
            model = super().finalize(device=device, requires_grad=requires_grad, **options)
        finally:
            self.actuator_entries = everything
        by_coordinate = model.use_coord_layout_targets
        builder = ActuatorBuilder()
        for entry in ours.values():
            for i, (index, pos_index) in enumerate(zip(entry.indices, entry.pos_indices, strict=True)):
                shared = zip(entry.clamping_classes, entry.clamping_shared_kwargs, entry.clamping_args[i], strict=True)
                if index >= model.joint_dof_count or pos_index >= model.joint_coord_count:
                    raise ParameterError(f"DOF {index}: the model has {model.joint_dof_count} DOFs")
                builder.add_actuator(
                    entry.drive_class,
                    index,
                    clamping=[(cls, {**together, **own}) for cls, together, own in shared],
                    delay_steps=entry.delay_args[i]["delay_steps"] if entry.delay_args else None,
                    pos_index=pos_index,
                    target_pos_index=pos_index if by_coordinate else index,
                    **entry.drive_shared_kwargs,
                    **entry.drive_args[i],
                )
        model.actuators = [*model.actuators, *builder.finalize(device=model.device, requires_grad=requires_grad)]
        return model


def _is_ours(controller_class: Any) -> bool:
    return isinstance(controller_class, type) and issubclass(controller_class, Controller)
