# SPDX-License-Identifier: Apache-2.0
"""The golden file of a part: arrays by entry, and what they were computed with and on."""

from __future__ import annotations

import json
import platform
import subprocess
import zipfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from scripts.machine import machine

_ABOUT = "about"
_PACKAGES = ("warp-lang", "numpy", "mujoco", "newton", "torch", "scipy", "cmaes", "usd-core")
_FEATURES = ("avx2", "fma", "avx512f")
"""Instruction sets that change the bits of kernels."""

Arrays = dict[str, np.ndarray]


def about() -> dict[str, str]:
    """Describe the commit, the machine and the versions of this run."""
    versions = {name: _version(name) for name in _PACKAGES}
    return {"commit": _commit(), "cpu": _cpu(), "python": platform.python_version(), **versions}


def write(path: Path, arrays: Mapping[str, np.ndarray], described: Mapping[str, str]) -> None:
    """Write a golden file, whole or not at all."""
    partial = path.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(_ABOUT, json.dumps(dict(described), indent=1))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.array(array, order="C"), allow_pickle=False)
    partial.replace(path)


def read(path: Path) -> tuple[Arrays, dict[str, str]]:
    """Read what `write` wrote: arrays by entry, and what they were computed with and on."""
    with zipfile.ZipFile(path) as archive:
        described = json.loads(archive.read(_ABOUT))
        arrays = {}
        for name in archive.namelist():
            if name != _ABOUT:
                with archive.open(name) as member:
                    arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    return arrays, described


def difference(stored: np.ndarray, found: np.ndarray) -> str:
    """Describe how the bits of two arrays differ; empty where they do not. NaN and the sign of zero count."""
    if (stored.dtype, stored.shape) != (found.dtype, found.shape):
        return f"is {found.dtype} of shape {found.shape}; was {stored.dtype} of shape {stored.shape}"
    if not stored.size or not stored.dtype.itemsize:
        return ""
    one, other = (np.array(array, order="C") for array in (stored, found))
    if stored.dtype.kind == "U":
        differs = one != other
    else:
        bits = f"u{stored.dtype.itemsize}"
        differs = one.view(bits) != other.view(bits)
    count = int(np.count_nonzero(differs))
    if not count:
        return ""
    first = tuple(int(i) for i in np.argwhere(differs)[0])
    said = f"{count} of {stored.size} values differ"
    if stored.dtype.kind != "U":
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(one.astype(np.float64) - other.astype(np.float64))[differs]
        finite = apart[np.isfinite(apart)]
        largest = f"{finite.max():.3g}" if finite.size else "nan or inf"
        said += f", by at most {largest}" + (", nan or inf" if 0 < finite.size < apart.size else "")
    return f"{said}, first at {first}: {found[first]!r} instead of {stored[first]!r}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _cpu() -> str:
    flags: set[str] = set()
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        lines = listing.read_text(encoding="utf-8").splitlines()
        flags = next((set(line.split()) for line in lines if line.startswith("flags")), flags)
    name = machine().split(", no GPU")[0].rsplit(", ", 1)[0]
    return " ".join([name, *(feature for feature in _FEATURES if feature in flags)])
