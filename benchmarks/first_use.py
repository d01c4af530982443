# SPDX-License-Identifier: Apache-2.0
"""Imports and the first effort, in a fresh process with an empty kernel cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from .runner import Table, progress

ROUNDS = 3
PROGRAMS = {
    "import warp": "import warp",
    "import actuon": "import actuon",
    "Actuon": "from benchmarks.contenders import *; ActuonSwapped(Problem(12)).step()",
    "Newton": "from benchmarks.contenders import *; NewtonActuators(Problem(12)).step()",
}


def measure_first_use(seconds: float) -> list[Table]:
    """Best wall times of `ROUNDS` processes, from before the first import. They take as long as they take."""
    progress("first use")
    best = dict.fromkeys(PROGRAMS, float("inf"))
    for _ in range(ROUNDS):
        for name, code in PROGRAMS.items():
            best[name] = min(best[name], _wall_time(code))
    rows = [
        _row("import, compared with `import warp`", best["import warp"], best["import actuon"]),
        _row("import to first effort, empty kernel cache, compared with Newton", best["Newton"], best["Actuon"]),
    ]
    return [Table("First use.", ("first use", "peer [s]", "Actuon [s]", "Actuon takes"), rows)]


def _row(name: str, peer: float, own: float) -> tuple[str, ...]:
    return name, f"{peer:.2f}", f"{own:.2f}", f"{own / peer:.2f} ×"


def _wall_time(code: str) -> float:
    program = f"import time; t = time.perf_counter()\n{code}\nprint('seconds', time.perf_counter() - t)"
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"WARP_CACHE_PATH": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout.split("seconds")[-1])
