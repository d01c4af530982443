# SPDX-License-Identifier: Apache-2.0
"""Record which kernels are launched, or bound for repeated launches."""

from __future__ import annotations

import warp as wp


def record_launches(monkeypatch):
    """Return a list to which each `wp.launch` from now on adds its kernel and its size."""
    launches, launch = [], wp.launch

    def recorded(kernel, dim, *arguments, **options):
        launches.append((kernel, dim))
        return launch(kernel, dim, *arguments, **options)

    monkeypatch.setattr(wp, "launch", recorded)
    return launches
