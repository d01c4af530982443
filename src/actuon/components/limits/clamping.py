# SPDX-License-Identifier: Apache-2.0
"""Base of clamps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import warp as wp

from ...declare.registry import ComponentKind
from ...errors import StructureError
from ...kernel.alone import Given, run_alone
from ..component import Component


class Clamping(Component):
    """Base of clamps: effort in, effort that the motor can give out.

    Give a subclass a ``config`` and a ``law`` and it is fused. To launch kernels of its own instead, override
    `modify_forces` and `resolve_arguments`.
    """

    kind = ComponentKind.CLAMPING
    _own_kernel_methods = ("run", "run_closing", "modify_forces")

    def modify_forces(
        self,
        src_forces: wp.array,
        dst_forces: wp.array,
        positions: Any,
        velocities: Any,
        pos_indices: wp.array,
        vel_indices: wp.array,
        device: Any = None,
    ) -> None:
        """Clamp the effort of each DOF from ``src_forces`` into ``dst_forces``, which may be the same array.

        For a law that asks for nothing but effort, position and velocity, and has no state.

        Args:
            src_forces: Efforts to clamp [N·m or N], shape (N,).
            dst_forces: Clamped efforts [N·m or N], shape (N,), written.
            positions: Joint positions [rad or m], read at ``pos_indices``.
            velocities: Joint velocities [rad/s or m/s], read at ``vel_indices``.
            pos_indices: Indices, shape (N,).
            vel_indices: Indices, shape (N,).
            device: Where to run.
        """
        self._require_law("modify_forces()")
        self._finalize_if_needed(device, src_forces.shape[0])
        given = {
            "q": Given(positions, pos_indices),
            "qd": Given(velocities, vel_indices),
            "effort": Given(wp.clone(src_forces) if src_forces.ptr == dst_forces.ptr else src_forces, vel_indices),
        }
        run_alone(self, given, {"effort": dst_forces}, None, None, None)

    def run(
        self,
        given: Mapping[str, Given],
        results: Mapping[str, wp.array],
        current_state: Any,
        next_state: Any,
        dt: float | None,
    ) -> None:
        """Run this stage alone, by `modify_forces` where that is overridden."""
        if self.is_fused():
            super().run(given, results, current_state, next_state, dt)
            return
        q, qd, forces = given["q"], given["qd"], results["effort"]
        self.modify_forces(given["effort"].array, forces, q.array, qd.array, q.indices, qd.indices, forces.device)


def check_limits_first(components: Sequence[Component]) -> None:
    """Refuse limits after a stage that would use what they offer, and could do without: it would be left out.

    Raises:
        StructureError: Names both, and the signal.
    """
    known: set[str] = set()
    for i, component in enumerate(components):
        stage = component.stage()
        wanted = (set(dict(stage.defaults)) & set(stage.law.input_types)) - known if stage.law is not None else set()
        for later in components[i + 1 :]:
            late = sorted(wanted & set(later.stage().outputs)) if isinstance(later, Clamping) else []
            if late:
                raise StructureError(
                    f"{type(later).__name__} stands after {type(component).__name__}, which would not see its "
                    f"{late[0]}; list it before"
                )
        known |= set(stage.outputs)
