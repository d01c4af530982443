# SPDX-License-Identifier: Apache-2.0
"""The machine that a measurement was made on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version


def machine(*packages: str) -> str:
    """Return the CPU, its number of cores, and the versions of Python and of ``packages``."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
            name = names[0] if names else name
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return f"{name}, {os.cpu_count()} cores, no GPU used; Python {platform.python_version()}, {versions}"
