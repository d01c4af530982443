# SPDX-License-Identifier: Apache-2.0
"""Chains that only Python can step: one of their stages has a kernel of its own, and hands efforts on as they are."""

from __future__ import annotations

import warp as wp

from actuon import ClampingMaxEffort


class ClampingNothing(ClampingMaxEffort):
    """Has the parameter of its base, so that robots are told apart, and makes no use of it."""

    def modify_forces(self, src_forces, dst_forces, *rest):
        wp.copy(dst_forces, src_forces)


def staged(config):
    """Return an `ActuatorConfig` with such a stage at its end."""
    return config.with_stages([*config.stages, ClampingNothing(1.0)])


def staged_group(cfg):
    """Return the config of an explicit group with such a stage at its end."""

    class Staged(cfg.class_type):
        def make_stages(self):
            return [*super().make_stages(), ClampingNothing(1.0)]

    return cfg.replace(class_type=Staged)
