# SPDX-License-Identifier: Apache-2.0
"""Steps of the chain of a group on tensors of the user, for models without an engine."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import warp as wp

from ...actuator.config import ActuatorConfig
from ...arrays import require_detached
from ...components.component import Component
from ...errors import ParameterError
from ...typing import Tensor
from ..chain_set import COMPUTED, ChainSet, Places, build_actuator
from .tensors import viewed

_ARRAYS = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd", "joint_act", "joint_f", COMPUTED)
"""Arrays that each step receives."""


class TensorStep:
    """The chain of a group on tensors of shape (environments, joints), with its state.

    Args:
        where: Name of the group in an error.
        shape: (environments, joints).
        config: The chain, with a value for each environment and joint.
        device: Device of the chain.
    """

    def __init__(self, where: str, shape: tuple[int, int], config: ActuatorConfig, device: wp.Device):
        self._where, self.shape, self.device = where, shape, device
        at = np.arange(shape[0] * shape[1]).reshape(shape)
        places = Places(at, at, at)
        actuator = build_actuator(
            config, np.arange(shape[1]), places, device, control_computed_output_attr=COMPUTED, accumulate=False
        )
        names = [f"{where} {i}" for i in range(shape[1])]
        self._chains = ChainSet([actuator], shape[0], names, device, without=_ARRAYS)
        self._zeros = viewed(wp.zeros(shape[0] * shape[1], dtype=wp.float32, device=device), shape)
        self._flattened: dict[str, tuple[Any, Any]] = {}

    @property
    def stages(self) -> tuple[Component, ...]:
        """The components of the chain."""
        return tuple(self._chains.stages)

    def run(
        self,
        joint_pos: Tensor,
        joint_vel: Tensor,
        joint_positions: Tensor | None,
        joint_velocities: Tensor | None,
        joint_efforts: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return efforts before and after limits [N·m], from positions, velocities, their targets and feedforward."""
        computed, applied = self._new(), self._new()
        given = {"joint_pos": joint_pos, "joint_vel": joint_vel, "joint_positions": joint_positions}
        given |= {"joint_velocities": joint_velocities, "joint_efforts": joint_efforts}
        flat = [self._flat(name, tensor) for name, tensor in given.items()]
        sim = dict(zip(_ARRAYS, (*flat, applied, computed), strict=True))
        self._chains.step(sim, sim, None)
        return computed.reshape(self.shape), applied.reshape(self.shape)

    def reset(self, ids: np.ndarray) -> None:
        """Clear the memory of environments."""
        self._chains.reset(ids)

    def _new(self) -> Tensor:
        """Return a new flat tensor for the efforts of one step. Earlier ones stay unchanged."""
        count, torch = self.shape[0] * self.shape[1], sys.modules.get("torch")
        if torch is not None:
            return torch.empty(count, dtype=torch.float32, device=wp.device_to_torch(self.device))
        return np.empty(count, np.float32) if self.device.is_cpu else wp.empty(count, wp.float32, self.device)

    def _flat(self, name: str, tensor: Any) -> Any:
        """Return a tensor of shape (environments, joints) as a flat one, without a copy if possible."""
        if tensor is None:
            tensor = self._zeros
        require_detached(tensor, f"{self._where}: {name}")
        known, flat = self._flattened.get(name, (None, None))
        if (
            tensor is known
            and tensor.shape == self.shape
            and tensor.dtype == flat.dtype
            and tensor.is_contiguous()
            and flat.data_ptr() == tensor.data_ptr()
        ):
            return flat
        shape = getattr(tensor, "shape", ())
        if tuple(shape) != self.shape:
            raise ParameterError(
                f"{self._where}: {name}: got {tuple(shape) or tensor}; must have the shape {self.shape}"
            )
        if hasattr(tensor, "detach"):
            plain = not tensor.requires_grad and tensor.itemsize == 4 and tensor.is_floating_point()
            flat = tensor.reshape(-1) if plain else tensor.detach().reshape(-1).float()
            if plain and tensor.is_contiguous():
                self._flattened[name] = (tensor, flat)
            return flat
        if isinstance(tensor, wp.array):
            return tensor.contiguous().flatten()
        array = np.ascontiguousarray(tensor, dtype=np.float32).ravel()
        return array if self.device.is_cpu else wp.array(array, device=self.device)
