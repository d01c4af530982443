# SPDX-License-Identifier: Apache-2.0
"""Newton's kernels without adjoints, which take most of the compile time before a first step."""

from __future__ import annotations

import sys

import warp as wp

from .simulation import import_newton
from .solvers import SERVED

_DIFFERENTIATED = "newton._src.actuators"
"""Newton's own parts of actuators, which chains with gradients may use."""


def leave_out_adjoints() -> None:
    """Compile Newton's solvers without adjoints in this process, if nothing differentiates through them.

    Call it before the solvers are used: compiled kernels would be compiled again.
    """
    newton = import_newton()
    for solver, _ in SERVED.values():
        getattr(newton.solvers, solver)  # which loads its module
    for name, module in list(sys.modules.items()):
        is_own = name.startswith("newton.") and not name.startswith(_DIFFERENTIATED)
        if is_own and wp.get_module_options(module)["enable_backward"]:
            wp.set_module_options({"enable_backward": False}, module)
