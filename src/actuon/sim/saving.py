# SPDX-License-Identifier: Apache-2.0
"""Files of simulations, with all that the next steps depend on.

An ``.npz`` file has these arrays, and the version of `actuator.state`:

- ``__simulation__``: a description of the simulation, texts by label as JSON. A file loads only into a simulation with
  the same description.
- ``time`` [s], ``engine`` and ``loads``: as in `SavedState`.
- ``properties/...``: properties of the engine's model.
- ``motors/0/...``: memory and parameters of actuators, in the order of their attachment.
- ``__checksum__`` of all of these. A damaged model could crash MuJoCo, and no other check would notice.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..actuator.state import check_like, read_arrays, write_arrays
from ..errors import StateError
from ..typing import PathLike

if TYPE_CHECKING:
    from .simulation import Simulation

_DESCRIPTION = "__simulation__"
_CHECKSUM = "__checksum__"
_LONGEST = 400
"""Length of a description in an error."""


def save(simulation: Simulation, path: PathLike) -> None:
    """Write a simulation to a file, whole or not at all. See `Simulation.save`."""
    text = json.dumps(dict(_description(simulation)))
    contents = {_DESCRIPTION: np.frombuffer(text.encode(), np.uint8), **_contents(simulation)}
    _checked(simulation, "the simulation cannot be saved", contents)
    write_arrays(path, contents | {_CHECKSUM: checksum_of(contents)})


def load(simulation: Simulation, path: PathLike) -> Callable[[], None]:
    """Read a file of `save`, and return a function that loads it. See `Simulation.load`."""
    contents = read_arrays(path, "a saved simulation")
    where, checksum = f"'{path}'", contents.pop(_CHECKSUM, None)
    if checksum is None or _DESCRIPTION not in contents:
        raise StateError(f"{where} is not a file of Simulation.save()")
    if not np.array_equal(checksum, checksum_of(contents)):
        raise StateError(f"{where} is damaged: its contents do not fit its checksum")
    _check_description(where, json.loads(contents[_DESCRIPTION].tobytes()), dict(_description(simulation)))
    return _checked(simulation, where, contents)


def _contents(simulation: Simulation) -> dict[str, np.ndarray]:
    loads = simulation.engine.state.loads()
    return {
        "time": np.array(simulation.time),
        "engine": simulation.engine.state.save(),
        **({} if loads is None else {"loads": loads}),
        **{f"properties/{name}": values for name, values in simulation.engine.properties.contents().items()},
        **{
            f"motors/{i}/{name}": values
            for i, motor in enumerate(simulation.motors)
            for name, values in motor.saved().items()
        },
    }


def _checked(simulation: Simulation, where: str, contents: Mapping[str, np.ndarray]) -> Callable[[], None]:
    """Raise an error for contents that do not fit. Returns a function that loads them."""
    loads, engine = simulation.engine.state.loads(), simulation.engine.state.save()
    check_like(where, "time", contents.get("time"), np.array(0.0))
    check_like(where, "engine", contents.get("engine"), engine)
    if loads is not None:
        check_like(where, "loads", contents.get("loads"), loads)
    takers = [
        motor.checked(f"{where}: attachment {i}", _part(contents, f"motors/{i}/"))
        for i, motor in enumerate(simulation.motors)
    ]
    takers.append(simulation.engine.properties.checked(where, _part(contents, "properties/")))
    everyone = np.arange(simulation.num_envs)

    def take() -> None:
        for each in takers:  # the engine's properties last: it holds some of those of actuators
            each()
        simulation.engine.time = float(contents["time"])
        simulation.engine.state.load(everyone, contents["engine"])
        if loads is not None:
            simulation.engine.state.set_loads(everyone, contents["loads"])

    return take


def _part(contents: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): values for name, values in contents.items() if name.startswith(prefix)}


def _description(simulation: Simulation) -> Iterator[tuple[str, str]]:
    """Yield labels and texts that must match those of a file."""
    yield "environments", str(simulation.num_envs)
    for i, robot in enumerate(robot for robot in simulation.robots if robot.env == 0):
        yield f"robot {i}", f"'{robot.path}' with the joints {', '.join(robot.dof_names)}"
    yield "attachments", str(len(simulation.motors))
    for i, motor in enumerate(simulation.motors):
        yield from ((f"attachment {i}: {label}", text) for label, text in motor.description().items())
    yield from simulation.engine.description().items()  # last: attachments may add to the model


def _check_description(where: str, saved: Mapping[str, str], present: Mapping[str, str]) -> None:
    for label in dict.fromkeys([*saved, *present]):
        theirs, ours = (each.get(label, "none") for each in (saved, present))
        if theirs != ours:
            alike = len(os.path.commonprefix([theirs, ours]))
            theirs, ours = (_around(text, alike) for text in (theirs, ours))
            raise StateError(f"{where}: {label}: saved with {theirs}; here {ours}")


def _around(text: str, place: int) -> str:
    """Shorten a text to the surroundings of a place."""
    start = place - _LONGEST // 2 if len(text) > _LONGEST and place > _LONGEST // 2 else 0
    end = start + _LONGEST
    return f"{'… ' if start else ''}{text[start:end]}{' …' if end < len(text) else ''}"


def checksum_of(contents: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the checksum of arrays by name, 16 bytes."""
    made = hashlib.blake2b(digest_size=16)
    for name in sorted(contents):
        values = contents[name]
        made.update(f"{name} {values.dtype.str} {values.shape}".encode(errors="surrogatepass"))
        made.update(values.tobytes())
    return np.frombuffer(made.digest(), np.uint8)
