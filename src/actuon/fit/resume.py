# SPDX-License-Identifier: Apache-2.0
"""`SearchLog`: the checkpoint file of a search.

A search depends only on its inputs and on the errors of its candidates. The file holds these errors, and no code. It
also holds the inputs by name, so the file of another search raises an error.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..actuator.config import Part, part_kind
from ..components.component import Component
from ..components.controllers.neural import NeuralControlConfig
from ..declare.config import Config
from ..errors import LogError, shown
from ..files import replacing
from ..logs import Log
from ..robot_files.paths import stage_names
from ..typing import PathLike
from .model import Model

if TYPE_CHECKING:
    from .plants.plant import Plant
    from .search import SearchOptions

_SIMULATED = ("position", "command", "velocity", "effort_command", "enabled")
_MOST = 3
"""Maximum number of differences in a message."""
_LONG = 40
"""Maximum length of a value in a message."""
_ENDING = ("generations", "patience", "tolerance")
"""Options that only determine when a search ends, so they may differ."""
_VERSION = 1
_SAVE_EVERY = 25
"""Number of generations after which the file is written."""


class SearchLog:
    """Errors of the candidates of a search by generation, stored in a file.

    Args:
        path: File, which is read if it exists; None to store nothing.
        inputs: Callable that returns the inputs of the search by name.
    """

    def __init__(self, path: PathLike | None, inputs: Callable[[], dict[str, str]]):
        self._path = None if path is None else Path(path)
        self._of = {} if path is None else inputs()
        self._errors: list[np.ndarray] = []
        self._saved = 0
        if self._path is not None and self._path.exists():
            self._errors = self._read(self._path)
            self._saved = len(self._errors)

    def _read(self, path: Path) -> list[np.ndarray]:
        try:
            with np.load(path, allow_pickle=False) as file:
                version, errors = file["version"].tolist(), file["errors"]
                of = json.loads(str(file["of"]))
        except Exception as error:  # whatever zipfile, zlib and NumPy raise of a damaged file
            raise LogError(f"'{path}': is not a checkpoint of a search: {error}") from error
        if version != _VERSION:
            raise LogError(f"'{path}': got version {shown(version)}; this Actuon reads version {_VERSION}")
        if of != self._of:
            said = differences(of, self._of) if isinstance(of, dict) else "its inputs"
            raise LogError(f"'{path}': is a checkpoint of another search: {said}. Remove it, or pass another file")
        return list(errors)

    def at(self, generation: int) -> np.ndarray | None:
        """Return the errors of a generation, shape (C, J); None if it is not stored."""
        return self._errors[generation] if generation < len(self._errors) else None

    def add(self, errors: np.ndarray) -> None:
        """Store the errors of the next generation, shape (C, J)."""
        self._errors.append(errors)
        if self._path is not None and len(self._errors) - self._saved >= _SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write the file, if errors were added."""
        if self._path is not None and len(self._errors) > self._saved:
            with replacing(self._path) as partial, partial.open("wb") as stream:
                np.savez_compressed(stream, version=_VERSION, of=json.dumps(self._of), errors=np.array(self._errors))
            self._saved = len(self._errors)


def search_inputs(
    plant: Plant, models: Sequence[Model], options: SearchOptions, begin: Sequence[np.ndarray]
) -> dict[str, str]:
    """Return all inputs that the candidates of a search and their errors depend on, as text by name.

    The most informative come first, as a message names only a few.

    Args:
        plant: Mechanism that the actuators drive, with the runs.
        models: One for each joint.
        options: Effort and seed of the search.
        begin: Start values for each joint, shape (P,).
    """
    found: dict[str, Any] = {
        "joints": ", ".join(plant.joints),
        "runs": f"{len(plant.runs)} of {sum(run.duration for run in plant.runs):.6g} s",
        "logs": digest(value for run in plant.runs for value in _of_log(run)),
    }
    found |= plant.facts()
    for joint, model in zip(plant.joints, models, strict=True):
        found |= {f"{joint}: {name}": value for name, value in _of_model(model).items()}
    kept = {field.name for field in dataclasses.fields(options)} - {*_ENDING}
    found |= {name: getattr(options, name) for name in sorted(kept)}
    found["where it begins"] = digest(begin)
    return {name: value if isinstance(value, str) else repr(value) for name, value in found.items()}


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return the inputs in which two searches differ as text; empty if they are equal."""
    names = [name for name in dict.fromkeys([*here, *there]) if there.get(name) != here.get(name)]
    told = [_difference(name, there.get(name, "none"), here.get(name, "none")) for name in names[:_MOST]]
    more = len(names) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _difference(name: str, there: str, here: str) -> str:
    return f"{name}: differ" if max(len(there), len(here)) > _LONG else f"{name}: {there} in the file, {here} now"


def digest(values: Iterable[Any]) -> str:
    """Hash arrays, numbers and text by their values and shapes."""
    found = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            plain = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
            found.update(f"{plain.dtype.str} {plain.shape}".encode() + plain.tobytes())
        else:
            found.update(repr(value).encode())
        found.update(b"\0")
    return found.hexdigest()


def _of_log(log: Log) -> list[Any]:
    found: list[Any] = [log.time, json.dumps(dict(log.settings), sort_keys=True, default=repr)]
    for joint in log.joints:
        quantities = joint.quantities()
        found += [joint.name, *(quantities.get(name) for name in _SIMULATED)]
    return found


def _of_model(model: Model) -> dict[str, Any]:
    """Return the inputs of a model by name: its stages, ranges of free parameters, and fixed values."""
    chain = model.actuator
    found: dict[str, Any] = {
        "model": model.name,
        "stages": ", ".join(type(part).__name__ for part in chain.stages),
        "control_every": chain.control_every,
        "effort_mode": chain.effort_mode,
    }
    for p in model.parameters:
        found[f"range of {p.path}"] = f"{p.low!r} to {p.high!r}, {p.scale}"
        found |= {f"{p.path} is shared by": ", ".join(p.also)} if p.also else {}
        found |= {f"{p.path} is above": p.added_to} if p.added_to else {}
    free = {path for p in model.parameters for path in (p.path, *p.also)}
    for names, part in zip(stage_names(chain.stages), chain.stages, strict=True):
        kind = part_kind(part)
        stage = (names or (type(part).__name__,))[-1 if kind is None or kind.several else 0]
        found |= {
            f"{stage}.{name}": value
            for name, value in _of_part(part).items()
            if free.isdisjoint(f"{own}.{name}" for own in names)
        }
    found |= {f"{path} grows with": name for path, name in model.scaled_by.items()}
    found |= {f"{name} of the model": value for name, value in model.settings.items()}
    return found | {path: value for path, value in model.links.items() if path not in free}


def _of_part(part: Part) -> dict[str, Any]:
    """Return the values of a stage, and the hash of its file, by name."""
    if not isinstance(part, Config):
        return {"values": repr(part)} if isinstance(part, Component) else {}
    found = {name: getattr(part, name) for name in part.declared()}
    if isinstance(part, NeuralControlConfig) and (path := Path(part.model_path)).is_file():
        found["model_path"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
