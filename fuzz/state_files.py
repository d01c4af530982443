# SPDX-License-Identifier: Apache-2.0
"""State files that are damaged, patched or of other actuators: read, or refused by name, with nothing changed then."""

from __future__ import annotations

import contextlib
import functools
import io
import tempfile
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import actuon
from scripts import state_files as files

from .isolated import Refused, worker
from .mutations import damaged, damaged_inside, edits, places
from .rig import rig

VERSIONS = tuple(sorted(path.name for path in files.FOLDER.iterdir() if path.name != files.NETWORKS.name))
"""Versions of the format of which there are files of users."""
SIMULATION = "simulation"
NAMES = (*files.ACTUATORS, *files.ATTACHED, SIMULATION)
STEPS = 3
"""Steps that are taken from a state that was read."""
LARGEST = 1e6
"""Numbers of a state above this may overflow in a step."""
INTEGERS = (-(2**31), -5, -1, 0, 1, 2, 1000, 100_000, 2**31 - 1)
FLOATS = (np.nan, np.inf, -np.inf, 3e38, -1e30, 1e-45, -0.0, -1.0, 0.5, 7.0)
DTYPES = ("f8", "f2", ">f4", "i4", "i8", "u1", "c8", "?", "U3", "M8[s]", "O", "V4")


@dataclass(frozen=True)
class Patch:
    """One change of an array in a file: what is done, to which (a share of all), where in it, and with what."""

    kind: str
    which: float
    where: float
    choice: int


KINDS = (
    "value", "value", "value", "all", "bit", "shape", "dtype", "drop", "rename", "add", "swap", "repeat", "structure",
    "version",
)  # fmt: skip
patches = st.lists(st.builds(Patch, st.sampled_from(KINDS), places, places, st.integers(0, 30)), min_size=1, max_size=3)


def patched(content: bytes, changes: Sequence[Patch]) -> bytes:
    """The archive after the changes, in order, with its checksums right."""
    with np.load(io.BytesIO(content)) as file:
        arrays = {key: np.array(file[key]) for key in file.files}
    twice: dict[str, np.ndarray] = {}
    for patch in changes:
        _apply(patch, arrays, twice)
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that is there twice
        for key, array in [*arrays.items(), *twice.items()]:
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=True)
            archive.writestr(f"{key}.npy", member.getvalue())
    return result.getvalue()


def _apply(patch: Patch, arrays: dict[str, np.ndarray], twice: dict[str, np.ndarray]) -> None:
    if not arrays:
        return
    keys = list(arrays)
    key = keys[int(patch.which * len(keys))]
    array, choice = arrays[key], patch.choice
    if patch.kind in ("value", "all"):
        special = INTEGERS if array.dtype.kind in "iu" else FLOATS if array.dtype.kind == "f" else ()
        if special and array.size:
            at = slice(None) if patch.kind == "all" else int(patch.where * array.size)
            with np.errstate(over="ignore"):
                array.reshape(-1)[at] = np.array(special[choice % len(special)]).astype(array.dtype)
    elif patch.kind == "bit":
        raw = bytearray(array.tobytes())
        if raw and array.dtype.kind != "O":
            raw[int(patch.where * len(raw))] ^= 1 << choice % 8
            arrays[key] = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape).copy()
    elif patch.kind == "shape":
        flat = array.reshape(-1)
        shapes = (flat[:-1], flat[:0], flat[None], array[..., None], flat[:, None], np.concatenate([flat, flat]), flat)
        arrays[key] = shapes[choice % len(shapes)]
    elif patch.kind == "dtype":
        with np.errstate(invalid="ignore", over="ignore"), contextlib.suppress(TypeError, ValueError):
            arrays[key] = array.astype(DTYPES[choice % len(DTYPES)])
    elif patch.kind == "drop":
        del arrays[key]
    elif patch.kind == "rename":
        names = (key + "x", "9.ring", key.replace("/", "."), "", "../state", keys[choice % len(keys)])
        arrays[names[choice % len(names)]] = arrays.pop(key)
    elif patch.kind == "add":
        arrays[("more", "0.more", "clock", "custom_inputs/load")[choice % 4]] = array.copy()
    elif patch.kind == "swap":
        other = keys[choice % len(keys)]
        arrays[key], arrays[other] = arrays[other], arrays[key]
    elif patch.kind == "repeat":
        twice[key] = array + array if array.dtype.kind in "iuf" else array
    else:
        name = "__structure__" if patch.kind == "structure" else "__version__"
        values: tuple[Any, ...] = ("", [], ["5 DOFs"], 3, [["a", "b"]], np.nan, "x" * 50_000)
        if patch.kind == "version":
            values = (0, -1, 2, 10**9, True, 1.0, "1", [1], np.nan)
        arrays[name] = np.array(values[choice % len(values)])


def prepare() -> None:
    """Compile what a worker steps, and let each actuator take some steps."""
    import warp as wp

    wp.config.optimization_level = 0
    actuon.quiet()
    for name in NAMES:
        first(name)


class OnArrays:
    """An actuator with a state that was stepped."""

    def __init__(self, name: str):
        self._actuator = files.build(name)
        self._state = self._actuator.state()
        assert self._state is not None
        self.step()

    def load(self, path: str) -> None:
        """Take a file over."""
        self._state.load(path)

    def save(self, path: Path) -> None:
        """Write a file."""
        self._state.save(path)

    def step(self) -> np.ndarray:
        """Take steps. Returns the efforts."""
        return files.run(self._actuator, self._state, 0, STEPS)


class OnRobots:
    """Actuators on robots that were stepped."""

    def __init__(self, name: str):
        self._open = contextlib.ExitStack()
        self._simulation = self._open.enter_context(files.simulation())
        self._attached = files.ATTACHED[name](self._simulation)
        self.step()

    def load(self, path: str) -> None:
        """Take a file over."""
        self._attached.load_state(path)

    def save(self, path: Path) -> None:
        """Write a file."""
        self._attached.save_state(path)

    def step(self) -> np.ndarray:
        """Take steps, from the first state of the robots. Returns the efforts."""
        robots = self._attached.articulation
        robots.set_dof_positions(0.0)
        robots.set_dof_velocities(0.0)
        return files.drive(self._attached, 0, STEPS)[0]


class InSimulation(OnRobots):
    """A simulation with groups on its robots."""

    def __init__(self) -> None:
        super().__init__("groups_on_robots")

    def load(self, path: str) -> None:
        """Take a file over."""
        self._simulation.load(path)

    def save(self, path: Path) -> None:
        """Write a file."""
        self._simulation.save(path)


@functools.cache
def subject(name: str) -> OnArrays | OnRobots:
    """Return the reader of the file of that name, in a worker."""
    if name == SIMULATION:
        return InSimulation()
    return OnRobots(name) if name in files.ATTACHED else OnArrays(name)


def arrays(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of a file."""
    with np.load(io.BytesIO(content)) as file:
        return {key: np.asarray(file[key]) for key in file.files}


def contents(name: str) -> bytes:
    """The file that what is remembered now would make."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        subject(name).save(path)
        return path.read_bytes()


@functools.cache
def first(name: str) -> bytes:
    """A file of a sound state, in a worker."""
    return contents(name)


def assert_same(found: bytes, expected: bytes) -> None:
    """Compare the arrays of files bit for bit."""
    ours, theirs = arrays(found), arrays(expected)
    for key, values in ours.items():
        if key == "__version__":
            continue  # a number of any type
        assert key in theirs, f"'{key}' is not in the file"
        assert values.tobytes() == theirs[key].tobytes(), f"'{key}': {values!r} for {theirs[key]!r}"


def read(name: str, path: str) -> str:
    """Load a file and go on from it. Where it is refused, what is remembered has not changed."""
    on, before = subject(name), contents(name)
    try:
        on.load(path)
    except actuon.ActuonError:
        assert_same(contents(name), before)
        raise
    now, content = contents(name), Path(path).read_bytes()
    if np.array_equal(arrays(content).get("__version__"), arrays(now)["__version__"]):
        assert_same(now, content)
    floats = [values for values in arrays(now).values() if values.dtype.kind == "f"]
    is_moderate = all(np.all(~(np.abs(values) > LARGEST)) for values in floats)
    try:
        efforts = on.step()
    except actuon.SimulationError:  # gains that the file may hold, and no robot survives
        assert not is_moderate
        subject.cache_clear()
        return "read"
    assert np.isfinite(efforts).all() or not is_moderate, f"efforts after the file was read: {efforts}"
    sound = Path(path).with_name("sound.npz")
    sound.write_bytes(first(name))
    on.load(str(sound))
    return "read"


@functools.cache
def _sound(name: str, version: str = "") -> bytes:
    """A file of a user, or one that is written now."""
    if version and name != SIMULATION:
        return (files.FOLDER / version / f"{name}.npz").read_bytes()
    return bytes(worker(prepare).call(first, name))


ways = st.one_of(
    st.tuples(st.just("patched"), patches),
    st.tuples(st.just("patched"), patches),
    st.tuples(st.just("patched"), patches),
    st.tuples(st.just("inside"), edits, st.integers(0, 60)),
    st.tuples(st.just("damaged"), edits),
    st.tuples(st.just("of another"), st.sampled_from(NAMES), st.sampled_from(["", *VERSIONS])),
)


@rig("state_files", examples=400, drawn=lambda seed: {"name": st.sampled_from(NAMES), "way": ways})
def state_files(name: str, way: tuple[Any, ...]) -> None:
    """A damaged file is read or refused by name; a refusal changes nothing, and steps go on."""
    kind, *what = way
    if kind == "patched":
        content = patched(_sound(name), what[0])
    elif kind == "inside":
        content = damaged_inside(_sound(name), what[1], what[0])
    else:
        content = damaged(_sound(name), what[0]) if kind == "damaged" else _sound(*what)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        path.write_bytes(content)
        outcome = worker(prepare).call(read, name, str(path))
    if isinstance(outcome, Refused):
        state_files.tally.add("refused")
        assert outcome.kind == "StateError", outcome
        assert "state.npz" in outcome.message, outcome.message[:2000]
        assert len(outcome.message) < 2000, outcome.message[:2000]
    else:
        state_files.tally.add("read")
