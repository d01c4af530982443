# SPDX-License-Identifier: Apache-2.0
"""Stages that run the ``compute()`` of a user's group model on robots, in Python."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from ...components.kinds import Clamping, Controller
from ...errors import StructureError
from ...typing import Tensor
from .tensors import to_numpy

if TYPE_CHECKING:
    from .group_model import ActuatorBase, ArticulationActions


class ControllerOfModel(Controller):
    """Calls the ``compute()`` of a model, and returns its requested effort.

    Args:
        model: The model, whose joints are those of the actuator.
        action: Class of the commands.
    """

    def __init__(self, model: ActuatorBase, action: type[ArticulationActions]):
        self._model, self._action = model, action

    def is_graphable(self) -> bool:
        return False

    def compute(self, *arguments: Any, **_: Any) -> None:
        *arrays, q_at, qd_at, target_q_at, target_qd_at, forces, _state, _dt, _device = arguments
        pairs = zip(arrays, (q_at, qd_at, target_q_at, target_qd_at, target_qd_at), strict=True)
        q, qd, target_q, target_qd, feedforward = (self._gathered(array, at) for array, at in pairs)
        model = self._model
        model._efforts = None
        with _without_gradients():
            given = model.compute(self._action(target_q, target_qd, feedforward, model.joint_indices), q, qd)
        effort = getattr(given, "joint_efforts", None)
        if effort is None or tuple(getattr(effort, "shape", ())) != model.shape:
            got = "no joint_efforts" if effort is None else f"joint_efforts of shape {tuple(np.shape(effort))}"
            raise StructureError(
                f"{type(model).__name__}.compute(): returned {got}; must return ArticulationActions with joint_efforts "
                f"of shape {model.shape}"
            )
        model._own_effort = effort
        _write(forces, effort if model._efforts is None else model._efforts[0])

    def _gathered(self, array: wp.array | None, indices: wp.array) -> Tensor | None:
        """Return a signal as a tensor of shape (environments, joints)."""
        if array is None:
            return None
        if "torch" in sys.modules:
            at = wp.to_torch(indices.view(wp.int32)).long()
            return wp.to_torch(array)[at].view(self._model.shape)
        return array.numpy()[indices.numpy()].reshape(self._model.shape)


class ClampingOfModel(Clamping):
    """Returns the effort that the ``compute()`` of a model returned."""

    def __init__(self, model: ActuatorBase):
        self._model = model

    def is_graphable(self) -> bool:
        return False

    def modify_forces(self, src_forces: wp.array, dst_forces: wp.array, *_: Any, **__: Any) -> None:
        _write(dst_forces, self._model._own_effort)


def _write(target: wp.array, tensor: Any) -> None:
    """Write a tensor of shape (environments, joints) into an array per DOF."""
    if hasattr(tensor, "detach"):
        wp.to_torch(target).copy_(tensor.reshape(-1))
    else:
        target.assign(np.ascontiguousarray(to_numpy(tensor), dtype=np.float32).ravel())


def _without_gradients() -> contextlib.AbstractContextManager[Any]:
    """Return a block in which PyTorch, if loaded, records no gradients."""
    torch = sys.modules.get("torch")
    return contextlib.nullcontext() if torch is None else torch.no_grad()
