# SPDX-License-Identifier: Apache-2.0
"""Arrays of any framework as Warp arrays, without a copy."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from .errors import ArrayError, ArrayTypeError, MissingArrayError

if TYPE_CHECKING:
    import torch

SLACK = 64
"""Entries after the last one of a parameter: the lanes of a block."""


def share(value: object, where: str, dtype: type = wp.float32) -> wp.array:
    """Return ``value`` as a Warp array over the same memory.

    Args:
        value: A Warp, NumPy or PyTorch array, or anything with ``__dlpack__`` or an array interface.
        where: Name of the array in an error.
        dtype: Required Warp dtype.

    Raises:
        ArrayTypeError: ``value`` is not an array, or has another dtype.
    """
    if isinstance(value, wp.array):
        array = value
    elif isinstance(value, np.ndarray):
        array = _share_numpy(value, where)
    elif hasattr(value, "__dlpack__"):
        require_detached(value, where)
        array = _share_dlpack(value, where)
    elif hasattr(value, "__cuda_array_interface__") or hasattr(value, "__array_interface__"):
        array = _share_interface(value, where)
    else:
        raise ArrayTypeError(
            f"{where}: got {type(value).__name__}; must be a Warp, NumPy or PyTorch array, "
            "or an object with __dlpack__ or an array interface"
        )
    if array.dtype is not dtype:
        hint = ": convert it first" if array.dtype is wp.float64 else ""
        raise ArrayTypeError(f"{where}: got dtype {_name(array.dtype)}; must be {_name(dtype)}{hint}")
    return array


def is_device_array(value: object) -> bool:
    """Return whether ``value`` is an array to share, instead of a number or NumPy data to copy."""
    if isinstance(value, wp.array):
        return True
    plain = isinstance(value, (np.ndarray, np.generic))
    return not plain and hasattr(value, "__dlpack__") and getattr(value, "ndim", None) != 0


def is_recorded(value: object) -> bool:
    """Return whether ``value`` is a PyTorch tensor whose gradient PyTorch is recording."""
    if isinstance(value, wp.array) or not getattr(value, "requires_grad", False):
        return False
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and torch.is_grad_enabled()


def require_detached(value: object, where: str) -> None:
    """Raise if the gradient of a PyTorch tensor would be lost silently.

    ``torch.no_grad()`` and ``torch.inference_mode()`` record nothing, so they allow the tensor.

    Raises:
        ArrayError: PyTorch is recording operations on ``value``.
    """
    if is_recorded(value):
        raise ArrayError(
            f"{where}: got a PyTorch tensor that requires grad, which this step does not record: use "
            "actuon.torch.step(actuator, ...), or pass tensor.detach()"
        )


def is_double(value: Any) -> bool:
    """Return whether an array holds float64 on the CPU."""
    if isinstance(value, np.ndarray):
        return value.dtype == np.float64
    if isinstance(value, wp.array):
        return value.dtype is wp.float64 and value.device.is_cpu
    return str(getattr(value, "dtype", "")) == "torch.float64" and value.device.type == "cpu"


def change_detector(value: Any) -> tuple[Callable[[Any], Any] | None, Any]:
    """Return a cheap function whose result changes when an array is moved or reshaped, and its current result.

    The function is None for other arrays, which are bound again at every step.
    """
    look: Callable[[Any], Any] | None
    if value is None:
        look = _look_at_nothing
    elif isinstance(value, wp.array):
        look = _look_at_warp
    elif isinstance(value, np.ndarray):
        look = _look_at_numpy
    else:
        look = tensor_signature if hasattr(value, "data_ptr") else None
    return look, look(value) if look is not None else None


def _look_at_nothing(value: None) -> None:
    return None


def _look_at_warp(value: wp.array) -> Any:
    return value.ptr, value.shape, value.strides, value.dtype


def _look_at_numpy(value: np.ndarray) -> Any:
    return value.shape, value.strides, value.dtype


def tensor_signature(value: torch.Tensor) -> Any:
    """Return the address and layout of a PyTorch tensor."""
    return value.data_ptr(), value.shape, value.stride(), value.dtype, value.device, is_recorded(value)


class SharedInput:
    """An array of any framework that is read at every step, as a Warp array over the same memory.

    Args:
        value: The array. On the CPU it may be float64, which is copied at every step.
        where: Name of the array in an error.
        check: Function that raises if the Warp array does not fit.
    """

    def __init__(self, value: object, where: str, check: Callable[[wp.array], None]):
        self.value = value
        self._where = where
        self._check = check
        self._bind()

    def _bind(self) -> None:
        require_detached(self.value, self._where)
        self._doubles: np.ndarray | None = None
        if is_double(self.value):
            self._doubles = share(self.value, self._where, wp.float64).numpy()
            self._copy = np.zeros(self._doubles.shape, np.float32)
        self._array = share(self.value if self._doubles is None else self._copy, self._where)
        self._check(self._array)
        self._look, self._seen = change_detector(self.value)

    def array(self, *, copies: bool = True) -> wp.array:
        """Return the Warp array, with the current values.

        Args:
            copies: Whether float64 is allowed, through a copy.
        """
        if self._look is None or self._look(self.value) != self._seen:
            self._bind()
        if self._doubles is not None:
            if not copies:
                raise ArrayTypeError(
                    f"{self._where}: got dtype float64; must be float32 in a captured graph and on a tape"
                )
            with np.errstate(over="ignore"):
                np.copyto(self._copy, self._doubles, casting="same_kind")
        return self._array


def _share_numpy(value: np.ndarray, where: str) -> wp.array:
    try:
        return wp.array(value, copy=False, device="cpu")
    except (RuntimeError, TypeError, ValueError) as error:
        raise ArrayTypeError(f"{where}: NumPy array of dtype {value.dtype} cannot be shared with Warp") from error


def _share_dlpack(value: object, where: str) -> wp.array:
    wp.init()  # from_dlpack alone does not
    try:
        return wp.from_dlpack(value.detach() if hasattr(value, "detach") else value)
    except Exception as error:  # exporters of other frameworks raise many kinds
        raise ArrayTypeError(f"{where}: {type(value).__name__} cannot be shared with Warp: {error!r}") from error


def _share_interface(value: object, where: str) -> wp.array:
    try:
        if hasattr(value, "__cuda_array_interface__"):
            return wp.array(value, copy=False)
        return wp.array(np.asarray(value), copy=False, device="cpu")
    except Exception as error:  # exporters of other frameworks raise many kinds
        raise ArrayTypeError(f"{where}: {type(value).__name__} cannot be shared with Warp: {error!r}") from error


def is_read_only(value: object) -> bool:
    """Return whether an array is read-only: by its flag, or because all arrays of its framework are, as in JAX."""
    interface = getattr(value, "__array_interface__", None)
    data = interface.get("data") if isinstance(interface, dict) else None
    if isinstance(data, tuple):
        return bool(data[1])
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.Array):
        return True
    return _is_read_only_dlpack(value)


_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_address_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_VERSIONED = b"dltensor_versioned"
_FLAGS_AT = 24
"""Byte offset of the flags in ``DLManagedTensorVersioned``, after a version and two pointers. First bit: read-only."""


def _is_read_only_dlpack(value: object) -> bool:
    """Return whether an array is flagged read-only through DLPack, which has the flag since version 1.0."""
    if isinstance(value, wp.array) or not hasattr(value, "__dlpack__"):
        return False
    try:
        capsule = (value.detach() if hasattr(value, "detach") else value).__dlpack__(max_version=(1, 0))
    except Exception:  # exporters before version 1.0 do not have the argument
        return False
    if not _is_capsule(capsule, _VERSIONED):
        return False
    return bool(ctypes.c_uint64.from_address(_address_in(capsule, _VERSIONED) + _FLAGS_AT).value & 1)


def require_values(value: object, where: str) -> None:
    """Raise for a Warp array during graph capture: it may have its values only when the graph is replayed."""
    if isinstance(value, wp.array) and value.device.is_capturing:
        raise ArrayError(
            f"{where}: got a Warp array during graph capture, which may have no values until a replay; pass a NumPy "
            "array, or do it before"
        )


def numbers(value: object, where: str) -> np.ndarray:
    """Return plain numbers, or nested lists of them, as a NumPy array."""
    require_values(value, where)
    try:
        return value.numpy() if isinstance(value, wp.array) else np.asarray(value)
    except Exception as error:  # ragged lists, tensors that cannot be converted
        got = type(value).__name__
        raise ArrayTypeError(f"{where}: got {got}, which is not an array of numbers: {error}") from error


def flat(
    value: object, where: str, device: wp.Device, *, dtype: type = wp.float32, length: int | None = None
) -> wp.array:
    """Share ``value`` and require a 1-D array on ``device``, of ``length`` if set."""
    array = share(value, where, dtype)
    if array.ndim != 1:
        raise ArrayError(f"{where}: got shape {array.shape}; must be 1-D")
    if array.device != device:
        raise ArrayError(f"{where}: got an array on '{array.device}'; the actuator runs on '{device}'")
    if length is not None and array.shape[0] != length:
        raise ArrayError(f"{where}: got {array.shape[0]} values; must have {length}, one per DOF")
    return array


def constant(values: np.ndarray, device: wp.Device) -> wp.array:
    """Return values that nobody writes as a Warp array.

    On a CPU it is not a copy, which Warp would record during graph capture: the array would have no values until a
    replay.
    """
    return wp.array(values, device=device, copy=not device.is_cpu)


def index_array(value: object, where: str, device: wp.Device | None, length: int | None = None) -> wp.array:
    """Return a checked ``uint32`` copy of indices as a Warp array, shape (N,)."""
    found = numbers(value, where)
    if found.ndim != 1:
        raise ArrayError(f"{where}: got shape {found.shape}; must be 1-D")
    if found.size == 0:
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu":
        raise ArrayTypeError(f"{where}: got dtype {found.dtype}; indices must be whole numbers")
    if found.size and (found.min() < 0 or found.max() >= 2**31):
        bad = found.min() if found.min() < 0 else found.max()
        raise ArrayError(f"{where}: got index {bad}; must be from 0 to {2**31 - 1}")
    source = value.device if isinstance(value, wp.array) else device
    array = wp.array(found.astype(np.uint32), dtype=wp.uint32, device=source)
    return flat(array, where, array.device if device is None else device, dtype=wp.uint32, length=length)


def read_array(source: object, name: str, role: str) -> Any:
    """Read array ``name`` from an object or mapping.

    Raises:
        MissingArrayError: It is absent or None.
    """
    value = read_optional(source, name)
    if value is None:
        message = (
            f"{role} ({type(source).__name__}) has no array '{name}'; set it, or name another one in Actuator(...)"
        )
        if hasattr(type(source), name):  # a property that failed inside
            try:
                getattr(source, name)
            except AttributeError as error:
                raise MissingArrayError(f"{message} ({error})") from error
        raise MissingArrayError(message)
    return value


def read_optional(source: object, name: str) -> Any:
    """Read array ``name`` from an object or mapping; None if absent."""
    if type(source) is dict:
        return source.get(name)
    value = getattr(source, name, None)
    if value is None and isinstance(source, Mapping):
        return source.get(name)
    return value


def read_feedforward(source: object, name: str | None, default: str) -> Any:
    """Read the feedforward. An array with the ``default`` name may be absent; any other must exist, but may be None."""
    if name is None:
        return None
    value = read_optional(source, name)
    if value is None and name != default:
        there = name in source if isinstance(source, Mapping) else hasattr(source, name)
        return None if there else read_array(source, name, "sim_control")
    return value


def read_custom(source: object, name: str, asking: str | None) -> Any:
    """Read a custom input; None if it is absent and no component (``asking``) requires it."""
    value = read_optional(source, name)
    if value is None and asking is not None:
        raise MissingArrayError(
            f"sim_control ({type(source).__name__}) has no array '{name}', an input of {asking}; set it, with one "
            "number per entry of the velocities"
        )
    return value


def _name(dtype: type) -> str:
    return getattr(dtype, "__name__", str(dtype))


def with_slack(values: np.ndarray, device: wp.Device) -> wp.array:
    """Return a copy on ``device`` with zeros after its last entry, which a block of lanes may read."""
    padded = np.zeros(len(values) + SLACK, values.dtype)
    padded[: len(values)] = values
    whole = wp.array(padded, device=device)
    array = wp.array(ptr=whole.ptr, dtype=whole.dtype, shape=values.shape, capacity=whole.capacity, device=device)
    array._ref = whole  # keeps the memory
    return array
