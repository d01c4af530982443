# SPDX-License-Identifier: Apache-2.0
"""Write the constraints files, or list what the newest environment installs.

``python scripts/constraints.py write constraints.txt --editable '.[dev]'`` installs into a fresh environment what the
registry has today, within the bounds of ``pyproject.toml``, and writes the exact versions.
``python scripts/constraints.py newest dev`` prints the requirements of an extra without upper bounds.

Uses the standard library alone: ``make`` runs it before anything is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

HEADER = "# Exact versions that were tested together. `make constraints` writes this file.\n"
_OWN = re.compile(r"actuon\[(.*)\]")
_UPPER = re.compile(r"<=?\s*[^,;]+")


def write(path: Path, requirements: list[str]) -> None:
    """Resolve ``requirements`` in a fresh environment and write the versions found to ``path``."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = [str(Path(folder, "bin", "python")), "-m", "pip", "--disable-pip-version-check"]
        # A first call for exact pins: with them installed, ranges that they satisfy bring no other build.
        pinned = [requirement for requirement in requirements if "==" in requirement]
        for chosen in filter(None, (pinned, requirements)):
            subprocess.run([*pip, "install", "--quiet", *chosen], check=True)
        frozen = subprocess.run([*pip, "freeze", "--exclude", "actuon"], check=True, capture_output=True, text=True)
    found = [line.split("+")[0] for line in frozen.stdout.splitlines() if re.fullmatch(r"[\w.-]+==\S+", line)]
    path.write_text(HEADER + "".join(f"{line}\n" for line in found), encoding="utf-8")
    print(f"{path}: {len(found)} packages")


def newest(extra: str) -> list[str]:
    """Return the requirements of an extra and of the project itself, without upper bounds; exact pins stay."""
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    extras, found, todo = project["optional-dependencies"], list(project["dependencies"]), [extra]
    while todo:
        for requirement in extras[todo.pop()]:
            if own := _OWN.fullmatch(requirement):
                todo += own[1].split(",")
            else:
                found.append(requirement)
    return sorted({_without_upper_bound(requirement) for requirement in found})


def _without_upper_bound(requirement: str) -> str:
    bare, *marker = requirement.split(";")
    name, bounds = re.fullmatch(r"([\w.\[\],-]+?)\s*([<>=~!].*)?", bare.strip()).groups()  # type: ignore[union-attr]
    parts = (bounds or "").replace("~=", ">=").split(",")
    kept = ",".join(part for part in parts if part and not _UPPER.fullmatch(part.strip()))
    return ";".join([name + kept, *marker])


if __name__ == "__main__":
    command, *arguments = sys.argv[1:] or ("help",)
    if command == "write" and len(arguments) > 1:
        write(Path(arguments[0]), arguments[1:])
    elif command == "newest" and len(arguments) == 1:
        print("\n".join(newest(arguments[0])))
    else:
        sys.exit(__doc__)
