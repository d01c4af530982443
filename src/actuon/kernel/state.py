# SPDX-License-Identifier: Apache-2.0
"""Memory of an actuator: one buffer per type, cell by cell, and views of it by stage and name.

A cell is one contiguous block of each buffer: the memory of one robot, or of all DOFs without ``robot_dofs``. It holds
the states of the stages one after the other, each as rows over the DOFs of the cell, padded to whole blocks of lanes.
States per tile (see `actuon.kernel.ring`) have one entry for each tile of the cell.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import warp as wp

from .. import arrays
from ..errors import ArrayError, ParameterError, StateError
from ..typing import ArrayLike
from .launch import Launch, recording_tape
from .types import DENSE, Bools, Flavour, FloatGrid, Floats, Ints, LongGrid, Tile, module_options

wp.set_module_options(module_options(Flavour.GRAD))

FirstValue = float | Callable[[], wp.array]
"""Value of a state after a reset: a number, or a function that returns an array with one value per DOF."""

NEXT = -1
"""First value of a whole number that counts resets."""
_NEXT = wp.constant(NEXT)
_LAST_COUNT = wp.constant(2**31 - 1)
_DTYPES = {"floats": wp.float32, "ints": wp.int32, "longs": wp.int64}
_MOST_NUMBERS = 2**31 - 1
_serial = itertools.count(1)


@dataclass(frozen=True)
class Cells:
    """Layout of an actuator's DOFs in cells."""

    num_dofs: int
    dofs: int
    """DOFs of a cell: of one robot, or all."""
    tile: Tile = DENSE
    """Blocks of lanes of a kernel thread. Cells are padded to these blocks."""
    tile_size: int = DENSE.size
    """DOFs per tile in memory: those of ``tile``, or one on CUDA."""

    @staticmethod
    def of(num_dofs: int, device: wp.Device, robot_dofs: int | None = None) -> Cells:
        """Return the cells of an actuator: one for all DOFs, or one for each robot of ``robot_dofs`` DOFs."""
        tile = DENSE if robot_dofs is None else Tile.of_robot(robot_dofs)
        return Cells(num_dofs, robot_dofs or num_dofs, tile, 1 if device.is_cuda else tile.size)

    @property
    def count(self) -> int:
        """Number of cells."""
        return self.num_dofs // self.dofs if self.dofs else 0

    @property
    def width(self) -> int:
        """Lanes of a cell: its DOFs, padded to whole blocks of lanes."""
        return -(-self.dofs // self.tile.lanes) * self.tile.lanes

    @property
    def row_width(self) -> int:
        """Lanes from one row of a network's state to the next.

        Rows at multiples of 4 KB would share cache sets, and evict each other.
        """
        return self.width + self.tile.lanes if self.width and self.width % 1024 == 0 else self.width

    @property
    def tiles(self) -> int:
        """Tiles of a cell in memory."""
        return -(-self.dofs // self.tile_size)


@dataclass(frozen=True)
class Word:
    """A state of a stage: a number per DOF, several rows of such numbers, or a number per tile."""

    name: str
    buffer: str = "floats"
    """One of ``floats``, ``ints``, ``longs``."""
    rows: int | None = None
    """Rows over the DOFs; None for one number per DOF."""
    first: FirstValue | None = 0.0
    """Value after a reset; None if a reset keeps it, `NEXT` if a reset adds one."""
    per_tile: bool = False
    by_mask: bool = True
    """Whether a reset with a mask applies to it, or only a reset of all DOFs."""

    @property
    def counts_resets(self) -> bool:
        """Whether a reset adds one."""
        return self.buffer == "ints" and self.first == NEXT


def ring_words(depth: int, columns: int) -> tuple[Word, ...]:
    """Return the states of a ring that looks back ``depth`` steps."""
    newest = Word("newest", "ints", first=depth - 1, per_tile=True, by_mask=False)
    tags = [Word(name, "longs", first=None, per_tile=True) for name in ("tag", "spare", "origin")]
    ring = Word("ring", rows=(depth + 1) * columns, first=None)
    return (ring, Word("pushes", "ints"), newest, Word("filled", "ints", per_tile=True), *tags)


class Memory:
    """Buffers of a state, and the place of each state of each stage in them.

    Args:
        cells: Layout of the DOFs in cells.
        words: States of each stage, by its position.
        device: Device of the buffers.
        requires_grad: Allocate gradients.
    """

    def __init__(
        self, cells: Cells, words: Mapping[int, Sequence[Word]], device: wp.Device, requires_grad: bool = False
    ):
        self.cells, self.device = cells, device
        self.words: dict[tuple[int, str], Word] = {}
        """States, by position of their stage and name."""
        self.places: dict[tuple[int, str], int] = {}
        """Offset of each state in a cell of its buffer."""
        self.sizes = dict.fromkeys(_DTYPES, 0)
        """Entries of a cell in each buffer."""
        for position, own in words.items():
            for word in own:
                self.words[position, word.name] = word
                self.places[position, word.name] = self.sizes[word.buffer]
                rows = 1 if word.rows is None else word.rows
                self.sizes[word.buffer] += cells.tiles if word.per_tile else rows * self._stride(word)
        for buffer, size in self.sizes.items():
            if size * cells.count > _MOST_NUMBERS:
                raise ParameterError(
                    f"a state would hold {size * cells.count} {buffer}; must be at most {_MOST_NUMBERS}: shorten the "
                    "longest delay, or split the actuator"
                )
        self.buffers = {
            name: wp.zeros(
                size * cells.count,
                dtype=_DTYPES[name],
                device=device,
                requires_grad=requires_grad and name == "floats",
            )
            for name, size in self.sizes.items()
        }
        """Buffers by name of the type."""
        self._views: dict[tuple[int, str, bool], wp.array] = {}
        self._resets: dict[int | None, Launch] = {}
        for key, word in self.words.items():
            if word.name == "tag":
                self.view(*key).fill_(next(_serial) << 32)
            elif not callable(word.first) and word.first not in (None, 0) and not word.counts_resets:
                self.view(*key).fill_(word.first)
        self._fill_from_parameters(None, None)
        for at in (None, *words) if device.is_cuda else (None,):
            self._tables(at)  # here, since graph capture must not allocate them

    def _stride(self, word: Word) -> int:
        """Return the entries from one row of a state to the next."""
        return self.cells.width if word.rows is None or word.name == "ring" else self.cells.row_width

    def reset(self, mask: wp.array | None, position: int | None = None) -> None:
        """Reset states to their first values.

        Args:
            mask: DOFs to reset, bool of shape (N,); None for all, including states per tile.
            position: Position of a stage; None for all stages.
        """
        if self.cells.num_dofs == 0:
            return
        if position not in self._resets:
            self._resets[position] = self._reset_of(position)
        self._resets[position].set("mask", mask)
        self._resets[position].launch()
        self._fill_from_parameters(mask, position)

    def _reset_of(self, position: int | None) -> Launch:
        """Return the launch that resets a stage, or all."""
        count, tables = self._tables(position)
        sizes = {"dofs": self.cells.dofs, "tile_size": self.cells.tile_size}
        sizes |= {"floats_size": self.sizes["floats"], "ints_size": self.sizes["ints"]}
        values = {"mask": None, "floats": self.buffers["floats"], "ints": self.buffers["ints"], **sizes, **tables}
        return Launch(_reset, (count, self.cells.num_dofs), self.device, values)

    def _tables(self, position: int | None) -> tuple[int, dict[str, wp.array]]:
        """Return the rows of a stage, or of all stages, as arguments of `_reset`."""
        rows = tuple(
            (word.buffer, self.places[key], word.rows, float(word.first), word.per_tile, word.by_mask)
            for key, word in self.words.items()
            if position in (None, key[0]) and word.first is not None and not callable(word.first)
        )
        return _reset_tables(rows, self.cells.row_width, str(self.device))

    def _fill_from_parameters(self, mask: wp.array | None, position: int | None) -> None:
        """Reset states whose first value is that of a parameter."""
        for key, word in self.words.items():
            if callable(word.first) and position in (None, key[0]) and self.cells.num_dofs:
                grid = self.grid(*key)
                wp.launch(_fill_where, grid.shape, [mask, word.first(), grid], device=self.device)

    def empty_like(self) -> Memory:
        """Return memory of the same layout, all zeros."""
        words: dict[int, list[Word]] = {}
        for (position, _), word in self.words.items():
            words.setdefault(position, []).append(word)
        return Memory(self.cells, words, self.device, self.buffers["floats"].requires_grad)

    def ring_rows(self, position: int) -> int:
        """Return the number of rows in the ring of a stage: one more than its depth."""
        newest = self.words[position, "newest"].first
        assert isinstance(newest, int)
        return newest + 2

    def grid(self, position: int, name: str) -> wp.array:
        """Return a state as an array of shape (rows, cells, DOFs of a cell), or (1, cells, tiles)."""
        if (position, name, True) not in self._views:
            word, cells = self.words[position, name], self.cells
            columns = cells.tiles if word.per_tile else cells.dofs
            shape = (1 if word.rows is None else word.rows, cells.count, columns)
            view = self._view(position, name, shape, (self._stride(word), self.sizes[word.buffer], 1))
            self._views[position, name, True] = view
        return self._views[position, name, True]

    def view(self, position: int, name: str) -> wp.array:
        """Return a state for users: shape (N,) or (rows, N); with ``robot_dofs``, (R, D) or (rows, R, D)."""
        if (position, name, False) in self._views:
            return self._views[position, name, False]
        word, cells = self.words[position, name], self.cells
        shape: tuple[int, ...] = (cells.tiles if word.per_tile else cells.dofs,)
        strides: tuple[int, ...] = (1,)
        if cells.tile.is_robot:
            shape, strides = (cells.count, *shape), (self.sizes[word.buffer], *strides)
        if word.rows is not None:
            shape, strides = (word.rows, *shape), (self._stride(word), *strides)
        view = self._views[position, name, False] = self._view(position, name, shape, strides)
        return view

    def of_tiles(self, position: int, name: str) -> np.ndarray:
        """Return a state per tile as values per DOF, shape (N,)."""
        by_tile = self.grid(position, name).numpy()[0]
        return np.repeat(by_tile, self.cells.tile_size, axis=1)[:, : self.cells.dofs].ravel()

    def _view(self, position: int, name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> wp.array:
        source = self.buffers[self.words[position, name].buffer]
        size = wp.types.type_size_in_bytes(source.dtype)
        if 0 in shape:
            return wp.empty(shape, dtype=source.dtype, device=self.device, requires_grad=source.requires_grad)

        def over(array: wp.array, grad: wp.array | None) -> wp.array:
            view = wp.array(
                ptr=array.ptr + size * self.places[position, name],
                dtype=array.dtype,
                shape=shape,
                strides=tuple(size * stride for stride in strides),
                device=self.device,
                grad=grad,
            )
            view._ref = array  # keeps the buffer
            return view

        return over(source, None if source.grad is None else over(source.grad, None))

    def ring(self, position: int) -> np.ndarray:
        """Return the numbers of a ring in their order in memory, shape (cells, numbers of a cell); on a CPU no copy."""
        return self._ring_in(self.buffers["floats"].numpy(), position)

    def write_ring(self, position: int, values: np.ndarray) -> None:
        """Write the numbers of a ring, in the layout of `ring`."""
        floats = self.buffers["floats"].numpy()
        self._ring_in(floats, position)[...] = values
        if not self.device.is_cpu:
            self.buffers["floats"].assign(floats)

    def _ring_in(self, floats: np.ndarray, position: int) -> np.ndarray:
        place, rows = self.places[position, "ring"], self.words[position, "ring"].rows
        assert rows is not None
        by_cell = floats.reshape(self.cells.count, self.sizes["floats"])
        return by_cell[:, place : place + rows * self.cells.width]

    def assign(self, other: Memory) -> None:
        """Copy all of ``other``, which has the same cells and states, and give its rings new tags."""
        for name in ("floats", "ints"):
            wp.copy(self.buffers[name], other.buffers[name])
        for position, name in self.words:
            if name == "tag":
                self.mark_as_copy_of(other, position, position)

    def mark_as_copy_of(self, other: Memory, position: int, theirs: int) -> None:
        """Record in the tags of a ring that its content was copied from a ring of ``other``."""
        wp.copy(self.view(position, "spare"), other.view(theirs, "spare"))
        tags = [other.grid(theirs, "tag"), self.grid(position, "tag"), self.grid(position, "origin")]
        wp.launch(_mark_as_copy, tags[0].shape, tags, device=self.device)


@functools.lru_cache(maxsize=64)
def _reset_tables(
    rows: tuple[tuple[str, int, int | None, float, bool, bool], ...], width: int, device: str
) -> tuple[int, dict[str, wp.array]]:
    """Return the number of rows to reset, and tables of their places and first values."""
    at: dict[str, list[int]] = {"floats": [], "ints": [], "tiles": []}
    first: dict[str, list[float]] = {"floats": [], "ints": [], "tiles": []}
    masked = []
    for buffer, place, count, value, per_tile, by_mask in rows:
        table = "tiles" if per_tile else buffer
        at[table] += [place + row * width for row in range(1 if count is None else count)]
        first[table] += [value] * (1 if count is None else count)
        masked += [int(by_mask)] if per_tile else []
    dtypes = {"floats": np.float32, "ints": np.int32, "tiles": np.int32}
    tables = {f"{name}_at": np.array(places, np.int32) for name, places in at.items()}
    tables |= {f"{name}_first": np.array(values, dtypes[name]) for name, values in first.items()}
    tables["tiles_masked"] = np.array(masked, np.int32)
    made = {name: arrays.constant(table, wp.get_device(device)) for name, table in tables.items()}
    return max(sum(map(len, at.values())), 1), made


class State:
    """State of a component: arrays as attributes.

    A subclass may have any attributes. `reset` and `assign` include those that are float32 Warp arrays of shape (N,)
    or (…, N).

    Args:
        device: Device of the arrays.
        num_actuators: Number of DOFs, N.
        names: Names of arrays of shape (N,), or their values after a reset by name. Default value: zero.
        requires_grad: Allocate gradients.
        fields: Warp arrays by name, instead of all these. They are the attributes, and are not copied; a component's
            ``compute`` and ``update_state`` take such a state too.
    """

    memory: Memory
    """Layout of its arrays."""
    position: int = 0
    """Position of its stage in the memory."""

    def __init__(
        self,
        device: wp.Device | None = None,
        num_actuators: int = 0,
        names: Iterable[str] | Mapping[str, FirstValue] = (),
        requires_grad: bool = False,
        **fields: wp.array,
    ):
        if device is None:
            self._hold(fields)
            return
        first = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, 0.0)
        words = [Word(name, first=value) for name, value in first.items()]
        self._show(Memory(Cells.of(num_actuators, device), {0: words}, device, requires_grad), 0)

    def _hold(self, fields: Mapping[str, object]) -> None:
        """Keep arrays by name, without a memory."""
        if not fields:
            raise StateError(f"{type(self).__qualname__}: got no arrays; make states with state()")
        for name, array in fields.items():
            if not isinstance(array, wp.array):
                raise StateError(f"{type(self).__qualname__}.{name}: got {type(array).__name__}; must be a Warp array")
            setattr(self, name, array)

    @property
    def is_in_memory(self) -> bool:
        """Whether its arrays are views of a memory, instead of arrays that were passed."""
        return "memory" in vars(self)

    @classmethod
    def over(cls, memory: Memory, position: int) -> Self:
        """Return the state of one stage of an actuator, as views of its memory."""
        state = cls.__new__(cls)
        state._show(memory, position)
        return state

    def _show(self, memory: Memory, position: int) -> None:
        self.memory, self.position = memory, position
        self._sealed = True

    def __getattr__(self, name: str) -> wp.array:
        if "memory" not in vars(self) or (self.position, name) not in self.memory.words:
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        return self.memory.view(self.position, name)

    def fits(self, other: State) -> bool:
        """Return whether both have the same layout in memory."""
        mine, theirs = self.memory, other.memory
        return self.position == other.position and mine.cells == theirs.cells and mine.places == theirs.places

    def empty_like(self) -> Self:
        """Return a new state with the same layout in memory."""
        return type(self).over(self.memory.empty_like(), self.position)

    def __setattr__(self, name: str, value: object) -> None:
        refuse_rebinding(self, name)
        super().__setattr__(name, value)

    def reset(self, mask: ArrayLike | None = None) -> None:
        """Reset all DOFs, or those where ``mask``, bool of shape (N,), is true.

        Examples:
            >>> pd, delay = actuon.ControllerPD(kp=40.0, kd=1.0), actuon.Delay(1, max_delay=2)
            >>> state = actuon.Actuator(range(3), pd, delay).state().delay_state
            >>> state.reset(np.array([True, False, False]))
        """
        own = self.arrays()
        refuse_reset_on_tape(own.values())
        if "memory" in vars(self):
            cells, device = self.memory.cells, self.memory.device
            self.memory.reset(None if mask is None else as_mask(mask, cells.num_dofs, device), self.position)
        for name, array in own.items():
            if self._word(name) is None:
                self._zero(array, mask)

    @staticmethod
    def _zero(array: wp.array, mask: ArrayLike | None) -> None:
        """Zero an array of a subclass, shape (…, N)."""
        if mask is None or not array.size:
            array.zero_()
        else:
            grid = array.reshape((-1, 1, array.shape[-1]))
            wp.launch(_zero_where, grid.shape, [as_mask(mask, grid.shape[2], array.device), grid], device=array.device)

    def _word(self, name: str) -> Word | None:
        """Return the declaration of an array; None for an array of a subclass, which is not in the memory."""
        return self.memory.words.get((self.position, name)) if "memory" in vars(self) else None

    def assign(self, other: State, mask: np.ndarray | None = None) -> None:
        """Copy the state of ``other`` into this one, of all DOFs or of those where ``mask``, bool (N,), is true.

        States per tile are copied only without a mask, between states with the same cells.
        """
        if mask is None and not self.is_in_memory:
            for name, value in vars(self).items():
                if not isinstance(value, wp.array) and not name.startswith("_"):
                    raise StateError(
                        f"{type(self).__qualname__}.{name}: got {type(value).__name__}; must be a Warp array, or the "
                        "class needs a method assign(other)"
                    )
            for name, array in self.arrays().items():
                wp.copy(array, getattr(other, name))
            return
        sources = other.arrays()
        if mask is None and all(array.shape == sources[name].shape for name, array in self.arrays().items()):
            for name, array in self.arrays().items():
                wp.copy(array, sources[name])
            return
        self._assign_by_dof(other, mask)

    def _assign_by_dof(self, other: State, mask: np.ndarray | None) -> None:
        values, theirs = self.to_arrays(), other.to_arrays()
        for name, array in values.items():
            if theirs[name].shape != array.shape:
                raise StateError(f"cannot assign {name} of shape {theirs[name].shape} to one of shape {array.shape}")
            chosen = slice(None) if mask is None else mask
            array[..., chosen] = theirs[name][..., chosen]
        self.from_arrays(values)

    def arrays(self) -> dict[str, wp.array]:
        """Return the arrays by name.

        Examples:
            >>> pid = actuon.ControllerPID(kp=40.0, ki=5.0, kd=1.0)
            >>> state = actuon.Actuator(range(3), pid).state().controller_state
            >>> sorted(state.arrays())
            ['integral', 'integral_rest']
        """
        slots = {field.name: getattr(self, field.name) for field in getattr(self, "__dataclass_fields__", {}).values()}
        own = {name: value for name, value in (vars(self) | slots).items() if isinstance(value, wp.array)}
        if "memory" not in vars(self):
            return own
        return {name: self.memory.view(at, name) for at, name in self.memory.words if at == self.position} | own

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return copies of all arrays by name, of shape (…, N): valid in any process, on any device.

        Examples:
            >>> pid = actuon.ControllerPID(kp=40.0, ki=5.0, kd=1.0)
            >>> state = actuon.Actuator(range(3), pid).state().controller_state
            >>> {name: array.shape for name, array in state.to_arrays().items()}
            {'integral': (3,), 'integral_rest': (3,)}
        """
        return {name: _flat(grid, has_rows) for name, (grid, has_rows) in self._grids().items()}

    def _grids(self) -> dict[str, tuple[wp.array, bool]]:
        """Return the arrays per DOF by name, of shape (rows, cells, DOFs of a cell), and whether users see rows."""
        found = {}
        for name, array in self.arrays().items():
            word = self._word(name)
            if word is None:
                found[name] = array.reshape((-1, 1, array.shape[-1])), array.ndim > 1
            elif not word.per_tile:
                found[name] = self.memory.grid(self.position, name), word.rows is not None
        return found

    def from_arrays(self, values: Mapping[str, np.ndarray]) -> None:
        """Set the state from the result of `to_arrays`, after `check_arrays`."""
        for name, (grid, _) in self._grids().items():
            _write(grid, np.asarray(values[name]).reshape(grid.shape))

    def check_arrays(self, where: str, values: Mapping[str, np.ndarray]) -> None:
        """Check arrays of the right shapes and types for values that no step produces.

        Args:
            where: Prefix of their names in an error.
            values: Arrays by name.

        Raises:
            StateError: One of them holds a value that is not allowed.
        """
        for name, array in values.items():
            check_finite(f"{where}{name}", array, "; reset such DOFs with reset(mask) before you save the state")


class BufferCopy:
    """Copy of a part of a delay buffer. ``fill_``, ``zero_`` and ``assign`` change the buffer too.

    It is not a Warp array, and `numpy` returns a read-only one: a kernel, `wp.copy` or a view would write into the copy
    alone. Pass ``wp.array(copy.numpy(), ...)`` to kernels that read it.
    """

    def __init__(self, values: np.ndarray, device: wp.Device, write_back: Callable[[np.ndarray], None]):
        """Copy ``values``. ``write_back`` gets new ones, and raises if they are not allowed."""
        if device.is_capturing:
            raise StateError("a delay buffer cannot be read or written during graph capture; do it before, or after")
        self.device = device
        self._values = np.array(values)
        self._values.flags.writeable = False
        self._write_back = write_back

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the copy."""
        return self._values.shape

    @property
    def dtype(self) -> Any:
        """Warp's type of an element."""
        return wp.dtype_from_numpy(self._values.dtype)

    def __len__(self) -> int:
        return len(self._values)

    def assign(self, src: Any) -> None:
        """Copy ``src`` into the buffer."""
        self._write(src.numpy() if isinstance(src, (wp.array, BufferCopy)) else arrays.numbers(src, "delay buffer"))

    def fill_(self, value: Any) -> None:
        """Fill the buffer."""
        self._write(value)

    def zero_(self) -> None:
        """Fill the buffer with zeros."""
        self._write(0)

    def _write(self, values: Any) -> None:
        made = np.array(np.broadcast_to(values, self.shape), dtype=self._values.dtype)
        self._write_back(made)
        made.flags.writeable = False
        self._values = made

    def numpy(self) -> np.ndarray:
        """Return a read-only array."""
        return self._values

    def __getitem__(self, key: Any) -> Any:
        raise StateError("a copy of a delay buffer has no views, whose writes would be lost; index its numpy()")

    def __setitem__(self, key: Any, value: Any) -> None:
        self[key]  # raises


class RingState(State):
    """Delay buffer: the last values of some signals, for each DOF.

    Its arrays are copies whose ``fill_``, ``zero_`` and ``assign`` change the buffer: see `BufferCopy`.
    """

    depth: int
    """Largest delay [steps]."""
    columns: int
    """Number of stored signals."""

    def _show(self, memory: Memory, position: int) -> None:
        rows = memory.words[position, "ring"].rows
        assert rows is not None
        self.depth = memory.ring_rows(position) - 1
        self.columns = rows // (self.depth + 1)
        super()._show(memory, position)

    @property
    def num_pushes(self) -> BufferCopy:
        """Number of valid past values of each DOF, shape (N,)."""
        return self._copied("num_pushes", "pushes")

    @property
    def write_idx(self) -> BufferCopy:
        """Row written last, shape (tiles,)."""
        return self._copied("write_idx", "newest")

    def _copied(self, attribute: str, name: str) -> BufferCopy:
        shape = self.memory.view(self.position, name).shape

        def write_back(values: np.ndarray) -> None:
            check_range(attribute, values.ravel(), 0, self.depth)
            grid = self.memory.grid(self.position, name)
            _write(grid, values.reshape(grid.shape))
            self.memory.view(self.position, "filled").fill_(0)  # a lower bound: kernels then read each DOF's
            self._renew_tags()

        values = self.memory.grid(self.position, name).numpy()[0]
        return BufferCopy(values.reshape(shape), self.memory.device, write_back)

    def _renew_tags(self) -> None:
        """Mark the content as new, and its spare row as unset."""
        for name, value in (("spare", 0), ("origin", 0), ("tag", next(_serial) << 32)):
            self.memory.view(self.position, name).fill_(value)

    def past(self, column: int) -> BufferCopy:
        """Return a copy of the past values of a signal, shape (depth, N). Row k is k + 1 steps old; zero if unset.

        Examples:
            >>> pd, delay = actuon.ControllerPD(kp=40.0, kd=1.0), actuon.Delay(1, max_delay=2)
            >>> state = actuon.Actuator(range(3), pd, delay).state().delay_state
            >>> state.past(0).shape  # target positions: depth and DOFs
            (2, 3)
        """

        def write_back(values: np.ndarray) -> None:
            check_finite("delay buffer", values)
            rows = self._rows()
            at = (self.memory.of_tiles(self.position, "newest") - np.arange(self.depth)[:, None]) % (self.depth + 1)
            np.put_along_axis(rows[column], at, values, axis=0)
            self.memory.write_ring(self.position, self._in_order(rows))
            self._renew_tags()

        return BufferCopy(self._past()[column], self.memory.device, write_back)

    def _past(self) -> np.ndarray:
        """Return the past of all signals, shape (columns, depth, N), the newest first; zero if unset."""
        rows, newest = self._rows(), self.memory.of_tiles(self.position, "newest")
        back = np.arange(self.depth)[:, None]
        at = (newest - back) % (self.depth + 1)
        found = np.take_along_axis(rows, at[None], axis=1)
        return np.where(back < self._pushes(), found, np.float32(0.0))

    def _rows(self) -> np.ndarray:
        """Return a copy of the ring, shape (columns, rows, N)."""
        cells = self.memory.cells
        rows = self._in_place().transpose(3, 1, 0, 2, 4)
        found = rows.reshape(self.columns, self.depth + 1, cells.count, cells.width)
        return found[..., : cells.dofs].reshape(self.columns, self.depth + 1, cells.num_dofs)

    def _in_place(self) -> np.ndarray:
        """Return the ring in its order in memory, shape (cells, rows, blocks, columns, lanes)."""
        cells = self.memory.cells
        ring = self.memory.ring(self.position)
        lanes = cells.tile.lanes
        return ring.reshape(cells.count, self.depth + 1, cells.width // lanes, self.columns, lanes)

    def _pushes(self) -> np.ndarray:
        return self.memory.grid(self.position, "pushes").numpy().ravel()

    def assign(self, other: State, mask: np.ndarray | None = None) -> None:
        """Copy the delay buffer of ``other`` into this one, of all DOFs or of those where ``mask`` is true."""
        if not isinstance(other, RingState) or _shape(self) != _shape(other):
            raise StateError(f"cannot assign {_shape(other)} to {_shape(self)}")
        if mask is not None or self.memory.cells != other.memory.cells:
            self._assign_by_dof(other, mask)
            return
        for name, array in self.arrays().items():
            if name not in ("tag", "spare", "origin"):
                wp.copy(array, other.arrays()[name])
        self.memory.mark_as_copy_of(other.memory, self.position, other.position)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return copies of all arrays by name; ``past`` has the shape (columns, depth, N), the newest first."""
        own = {name: _flat(grid, has_rows) for name, (grid, has_rows) in self._grids().items() if name != "ring"}
        return {"past": self._past(), **own}

    def from_arrays(self, values: Mapping[str, np.ndarray]) -> None:
        """Set the state from the result of `to_arrays`, with new tags."""
        memory, position = self.memory, self.position
        cells = memory.cells
        for name in values:
            if name != "past":
                grid = memory.grid(position, name)
                _write(grid, np.asarray(values[name]).reshape(grid.shape))
        rows = np.zeros((self.columns, self.depth + 1, cells.num_dofs), np.float32)
        rows[:, : self.depth] = np.asarray(values["past"])[:, ::-1]  # so that the newest is in row depth - 1
        memory.write_ring(position, self._in_order(rows))
        memory.view(position, "newest").fill_(self.depth - 1)
        pushes = memory.grid(position, "pushes").numpy()[0]
        starts = np.arange(0, cells.dofs, cells.tile_size)
        filled = np.minimum.reduceat(pushes, starts, axis=1) if pushes.size else pushes
        _write(memory.grid(position, "filled"), filled.reshape(1, cells.count, cells.tiles))
        self._renew_tags()

    def _in_order(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of the ring, shape (columns, rows, N), in their order in memory."""
        cells, lanes = self.memory.cells, self.memory.cells.tile.lanes
        padded = np.zeros((self.columns, self.depth + 1, cells.count, cells.width), np.float32)
        padded[..., : cells.dofs] = rows.reshape(self.columns, self.depth + 1, cells.count, cells.dofs)
        shaped = padded.reshape(self.columns, self.depth + 1, cells.count, cells.width // lanes, lanes)
        ordered = shaped.transpose(2, 1, 3, 0, 4)
        return ordered.reshape(cells.count, self.columns * (self.depth + 1) * cells.width)

    def check_arrays(self, where: str, values: Mapping[str, np.ndarray]) -> None:
        """Check arrays for values that no step produces: a kernel would access memory outside of the delay buffer."""
        pushes = values["pushes"]
        check_range(f"{where}pushes", pushes, 0, self.depth)
        super().check_arrays(where, values)
        unknown = np.arange(self.depth)[:, None] >= pushes
        bad = np.argwhere((values["past"] != 0.0) & unknown)
        if bad.size:
            _, back, dof = (int(i) for i in bad[0])
            raise StateError(
                f"{where}past: holds a value of {back + 1} steps ago for DOF {dof}, where 'pushes' is {pushes[dof]}; "
                "must be 0 there"
            )


def check_finite(where: str, values: np.ndarray, remedy: str = "") -> None:
    """Raise if an array of a file holds NaN or infinities; ``remedy`` ends the message."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        at = np.argwhere(~np.isfinite(values))[0]
        raise StateError(f"{where}: is {values[tuple(at)]} at index {_shown_index(at)}; must be finite{remedy}")


def check_range(where: str, values: np.ndarray, low: float, high: float) -> None:
    """Raise if an array of a file holds numbers below ``low`` or above ``high``."""
    bad = np.flatnonzero((values < low) | (values > high))
    if bad.size:
        raise StateError(f"{where}: is {values[bad[0]]} at index {bad[0]}; must be from {low} to {high}")


def _shown_index(at: np.ndarray) -> str:
    """Return an index of one or more numbers as text."""
    return ", ".join(str(int(i)) for i in at)


def _flat(grid: wp.array, has_rows: bool) -> np.ndarray:
    """Return a copy of a grid, shape (N,) or (rows, N)."""
    rows, cells, columns = grid.shape
    found = grid.numpy().reshape(rows, cells * columns)
    return np.array(found if has_rows else found[0])


def _write(grid: wp.array, values: np.ndarray) -> None:
    """Write numbers into a view of a buffer."""
    if grid.device.is_cpu:
        grid.numpy()[...] = values
    elif grid.size:
        wp.copy(grid, wp.array(np.ascontiguousarray(values), dtype=grid.dtype, device=grid.device))


def refuse_rebinding(state: object, name: str) -> None:
    """Raise if ``name`` is an array of a state: kernels refer to it, and would not see another one."""
    if getattr(state, "_sealed", False) and isinstance(getattr(state, name, None), (wp.array, BufferCopy)):
        raise StateError(f"{name}: cannot be replaced by another array; write into it, e.g. with array.assign()")


def refuse_reset_on_tape(state_arrays: Iterable[wp.array]) -> None:
    """Raise if a tape is recording: a reset is not differentiable, so that gradients would ignore it."""
    if recording_tape() is not None and any(array.requires_grad for array in state_arrays):
        raise StateError("a wp.Tape is recording: reset() before it, or continue from a new actuator.state()")


def as_mask(mask: ArrayLike, num_actuators: int, device: wp.Device, where: str = "reset mask") -> wp.array:
    """Return ``mask`` as a bool array of shape (N,) on ``device``; ``where`` names it in errors."""
    if device.is_capturing and not isinstance(mask, wp.array):
        raise StateError(f"{where}: got {type(mask).__name__}; must be a Warp array, which the graph reads at replays")
    try:
        if isinstance(mask, (list, tuple)):
            mask = arrays.numbers(mask, where)
        if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and device.is_cuda:
            mask = wp.array(mask, dtype=wp.bool, device=device)
        return arrays.flat(mask, where, device, dtype=wp.bool, length=num_actuators)
    except ArrayError as error:
        raise StateError(str(error)) from error


def _shape(state: object) -> str:
    if not isinstance(state, RingState):
        return f"a {type(state).__name__}"
    steps, dofs = state.depth, state.memory.cells.num_dofs
    return f"a delay buffer of {state.columns} signals, {steps} steps, {dofs} DOFs"


@wp.kernel(enable_backward=False)
def _reset(
    mask: Bools,
    dofs: int,
    tile_size: int,
    floats_size: int,
    ints_size: int,
    floats: Floats,
    ints: Ints,
    floats_at: Ints,
    floats_first: Floats,
    ints_at: Ints,
    ints_first: Ints,
    tiles_at: Ints,
    tiles_first: Ints,
    tiles_masked: Ints,
):
    row, dof = wp.tid()
    chosen = True
    if mask:
        chosen = mask[dof]
    if not chosen:
        return
    cell = dof / dofs
    lane = dof - cell * dofs
    if row < floats_at.shape[0]:
        floats[cell * floats_size + floats_at[row] + lane] = floats_first[row]
        return
    row = row - floats_at.shape[0]
    if row < ints_at.shape[0]:
        at = cell * ints_size + ints_at[row] + lane
        if ints_first[row] != _NEXT:
            ints[at] = ints_first[row]
        else:
            ints[at] = wp.where(ints[at] == _LAST_COUNT, 0, ints[at] + 1)
        return
    row = row - ints_at.shape[0]
    if row < tiles_at.shape[0] and (not mask or tiles_masked[row] != 0):
        ints[cell * ints_size + tiles_at[row] + lane / tile_size] = tiles_first[row]


@wp.kernel(enable_backward=False)
def _fill_where(mask: Bools, values: Floats, target: FloatGrid):
    row, cell, lane = wp.tid()
    dof = cell * target.shape[2] + lane
    chosen = True
    if mask:
        chosen = mask[dof]
    if chosen:
        target[row, cell, lane] = values[dof]


@wp.kernel(enable_backward=False)
def _zero_where(mask: Bools, target: FloatGrid):
    row, cell, lane = wp.tid()
    if mask[cell * target.shape[2] + lane]:
        target[row, cell, lane] = 0.0


@wp.kernel(enable_backward=False)
def _mark_as_copy(tag_in: LongGrid, tag_out: LongGrid, origin_out: LongGrid):
    _, cell, tile = wp.tid()
    tag_out[0, cell, tile] = tag_out[0, cell, tile] + wp.int64(1)
    origin_out[0, cell, tile] = tag_in[0, cell, tile]
