# SPDX-License-Identifier: Apache-2.0
"""Arrays of any framework as Warp arrays, without a copy."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import warp as wp

from .errors import ArrayError, ArrayTypeError, MissingArrayError


def share(value: Any, where: str, dtype: Any = wp.float32) -> wp.array:
    """Return ``value`` as a Warp array over the same memory.

    Args:
        value: A Warp, NumPy or PyTorch array, or anything with ``__dlpack__`` or an array interface.
        where: What to call it in an error.
        dtype: Required Warp dtype.

    Raises:
        ArrayTypeError: ``value`` is not an array, or has another dtype.
    """
    if isinstance(value, wp.array):
        array = value
    elif isinstance(value, np.ndarray):
        array = _share_numpy(value, where)
    elif hasattr(value, "__dlpack__"):
        refuse_autograd(value, where)
        array = _share_dlpack(value, where)
    elif hasattr(value, "__cuda_array_interface__") or hasattr(value, "__array_interface__"):
        array = _share_interface(value, where)
    else:
        raise ArrayTypeError(
            f"{where}: got {type(value).__name__}; must be a Warp, NumPy or PyTorch array, "
            "or an object with __dlpack__ or an array interface"
        )
    if array.dtype is not dtype:
        hint = ". Convert it first" if array.dtype is wp.float64 else ""
        raise ArrayTypeError(f"{where}: got dtype {_name(array.dtype)}; must be {_name(dtype)}{hint}")
    return array


def is_recorded(value: Any) -> bool:
    """Whether ``value`` is a PyTorch tensor whose gradient PyTorch is recording."""
    if isinstance(value, wp.array) or not getattr(value, "requires_grad", False):
        return False
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and torch.is_grad_enabled()


def refuse_autograd(value: Any, where: str) -> None:
    """Refuse a PyTorch tensor whose gradient would be lost without a word.

    Under ``torch.no_grad()`` or ``torch.inference_mode()`` nothing would have one, and the tensor is taken.

    Raises:
        ArrayError: PyTorch is recording what becomes of ``value``.
    """
    if is_recorded(value):
        raise ArrayError(
            f"{where}: got a PyTorch tensor that requires grad; this step would cut it off from autograd: use "
            "actuon.torch.step(actuator, ...), or pass tensor.detach()"
        )


class DoubleArray:
    """A float64 array of the CPU, such as MuJoCo's own, and the float32 copy of it that a kernel works on.

    Args:
        value: The array, of any framework.
        where: What to call it in an error.
    """

    def __init__(self, value: Any, where: str):
        self._values = share(value, where, wp.float64).numpy()
        self.copy = np.zeros(self._values.shape, np.float32)
        """What the kernel reads or writes."""

    def fetch(self) -> None:
        """Before a step: bring an input over."""
        with np.errstate(over="ignore"):
            np.copyto(self.copy, self._values, casting="same_kind")

    def deliver(self, chosen: np.ndarray, add: bool) -> None:
        """After a step: add an output at indices ``chosen``, each once, or write it over what is there."""
        if add:
            self._values[chosen] += self.copy[chosen]
        else:
            self._values[chosen] = self.copy[chosen]


def is_double(value: Any) -> bool:
    """Whether an array holds float64 on the CPU."""
    if isinstance(value, np.ndarray):
        return value.dtype == np.float64
    if isinstance(value, wp.array):
        return value.dtype is wp.float64 and value.device.is_cpu
    return str(getattr(value, "dtype", "")) == "torch.float64" and value.device.type == "cpu"


def watch(value: Any) -> tuple[Callable[[Any], Any] | None, Any]:
    """How to tell at little cost whether an array has changed under us, and what that gives now.

    None for arrays that do not tell: they are bound again at every step.
    """
    look: Callable[[Any], Any] | None
    if value is None:
        look = _look_at_nothing
    elif isinstance(value, wp.array):
        look = _look_at_warp
    elif isinstance(value, np.ndarray):
        look = _look_at_numpy
    else:
        look = look_at_tensor if hasattr(value, "data_ptr") else None
    return look, look(value) if look is not None else None


def _look_at_nothing(value: None) -> None:
    return None


def _look_at_warp(value: wp.array) -> Any:
    return value.ptr, value.shape, value.strides, value.dtype


def _look_at_numpy(value: np.ndarray) -> Any:
    return value.shape, value.strides, value.dtype


def look_at_tensor(value: Any) -> Any:
    """Address and layout of a PyTorch tensor."""
    return value.data_ptr(), value.shape, value.stride(), value.dtype, value.device, is_recorded(value)


class SharedInput:
    """An array of any framework that is read at every step, as a Warp array over the same memory.

    Args:
        value: The array. On the CPU it may be of float64, of which a copy is made at every step.
        where: What to call it in an error.
        check: Refuses a Warp array that does not fit.
    """

    def __init__(self, value: Any, where: str, check: Callable[[wp.array], None]):
        self.value = value
        self._where = where
        self._check = check
        self._bind()

    def _bind(self) -> None:
        refuse_autograd(self.value, self._where)
        self._double = DoubleArray(self.value, self._where) if is_double(self.value) else None
        self._array = share(self.value if self._double is None else self._double.copy, self._where)
        self._check(self._array)
        self._look, self._seen = watch(self.value)

    def array(self, *, copies: bool = True) -> wp.array:
        """The Warp array, with what is in the other now.

        Args:
            copies: Take float64, through a copy.
        """
        if self._look is None or self._look(self.value) != self._seen:
            self._bind()
        if self._double is not None:
            if not copies:
                raise ArrayTypeError(
                    f"{self._where}: got dtype float64; must be float32 in a captured graph and on a tape"
                )
            self._double.fetch()
        return self._array


def _share_numpy(value: np.ndarray, where: str) -> wp.array:
    try:
        return wp.array(value, copy=False, device="cpu")
    except (RuntimeError, TypeError, ValueError) as error:
        raise ArrayTypeError(f"{where}: NumPy array of dtype {value.dtype} cannot be shared with Warp") from error


def _share_dlpack(value: Any, where: str) -> wp.array:
    wp.init()  # from_dlpack alone does not
    try:
        return wp.from_dlpack(value.detach() if hasattr(value, "detach") else value)
    except Exception as error:  # whatever another framework's exporter raises
        raise ArrayTypeError(f"{where}: {type(value).__name__} cannot be shared with Warp: {error!r}") from error


def _share_interface(value: Any, where: str) -> wp.array:
    try:
        if hasattr(value, "__cuda_array_interface__"):
            return wp.array(value, copy=False)
        return wp.array(np.asarray(value), copy=False, device="cpu")
    except Exception as error:  # whatever another framework's exporter raises
        raise ArrayTypeError(f"{where}: {type(value).__name__} cannot be shared with Warp: {error!r}") from error


def is_read_only(value: Any) -> bool:
    """Whether an array must not be written to: it says so, or its framework has no others, as JAX."""
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
"""Where ``DLManagedTensorVersioned`` has its flags, after a version and two pointers. The first bit: read-only."""


def _is_read_only_dlpack(value: Any) -> bool:
    """Whether an array says so through DLPack, which it can from version 1.0 on."""
    if isinstance(value, wp.array) or not hasattr(value, "__dlpack__"):
        return False
    try:
        capsule = (value.detach() if hasattr(value, "detach") else value).__dlpack__(max_version=(1, 0))
    except Exception:  # exporters before version 1.0 do not know the argument
        return False
    if not _is_capsule(capsule, _VERSIONED):
        return False
    return bool(ctypes.c_uint64.from_address(_address_in(capsule, _VERSIONED) + _FLAGS_AT).value & 1)


def numbers(value: Any, where: str) -> np.ndarray:
    """Return plain numbers, or nested lists of them, as a NumPy array."""
    try:
        return value.numpy() if isinstance(value, wp.array) else np.asarray(value)
    except Exception as error:  # ragged lists, tensors that cannot be converted
        got = type(value).__name__
        raise ArrayTypeError(f"{where}: got {got}, which is not an array of numbers: {error}") from error


def flat(value: Any, where: str, device: wp.Device, *, dtype: Any = wp.float32, length: int | None = None) -> wp.array:
    """Share ``value`` and require a 1-D array on ``device``, of ``length`` where that is given."""
    array = share(value, where, dtype)
    if array.ndim != 1:
        raise ArrayError(f"{where}: got shape {array.shape}; must be 1-D")
    if array.device != device:
        raise ArrayError(f"{where}: got an array on '{array.device}'; the actuator runs on '{device}'")
    if length is not None and array.shape[0] != length:
        raise ArrayError(f"{where}: got {array.shape[0]} values; must have {length}, one per DOF")
    return array


def index_array(value: Any, where: str, device: wp.Device | None, length: int | None = None) -> wp.array:
    """Return indices as a ``uint32`` Warp array of its own, shape (N,): what was checked can then not change."""
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


def read_array(source: Any, name: str, role: str) -> Any:
    """Read array ``name`` from an object or mapping; it must be there and set.

    Raises:
        MissingArrayError: It is absent or None.
    """
    value = read_optional(source, name)
    if value is None:
        message = (
            f"{role} ({type(source).__name__}) has no array '{name}'. Set it, or name another one in Actuator(...)"
        )
        if hasattr(type(source), name):  # a property that failed inside
            try:
                getattr(source, name)
            except AttributeError as error:
                raise MissingArrayError(f"{message} ({error})") from error
        raise MissingArrayError(message)
    return value


def read_optional(source: Any, name: str) -> Any:
    """Read array ``name`` from an object or mapping; None where it is absent."""
    if type(source) is dict:
        return source.get(name)
    value = getattr(source, name, None)
    if value is None and isinstance(source, Mapping):
        return source.get(name)
    return value


def read_feedforward(source: Any, name: str | None, default: str) -> Any:
    """The feedforward; the ``default`` name may be absent, one that was asked for may only be None."""
    if name is None:
        return None
    value = read_optional(source, name)
    if value is None and name != default:
        there = name in source if isinstance(source, Mapping) else hasattr(source, name)
        return None if there else read_array(source, name, "sim_control")
    return value


def read_custom(source: Any, name: str, asking: str | None) -> Any:
    """An input beside targets, which ``asking`` cannot do without; None where it is absent and nobody is asking."""
    value = read_optional(source, name)
    if value is None and asking is not None:
        raise MissingArrayError(
            f"sim_control ({type(source).__name__}) has no array '{name}', which {asking} takes as an input beside "
            "targets; set it, one number for each entry of the velocities"
        )
    return value


def _name(dtype: Any) -> str:
    return getattr(dtype, "__name__", str(dtype))
