# SPDX-License-Identifier: Apache-2.0
"""Steps that are captured once in a graph and then replayed, without the interpreter.

A graph has addresses and numbers, not values of arrays: it is valid until one of the former changes. While Warp
captures on a CPU, it records launches of all threads, so other threads must launch nothing.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from ...errors import SimulationError
from ...kernel.launch import recording_tape
from ...kernel.types import Flavour, Floats, module_options
from ...threads import is_only_thread
from ..motor import MotorKernels
from .loop import StepLoop, as_warp, captured

wp.set_module_options(module_options(Flavour.SCALAR) | {"enable_backward": False})

Doubles: Any = wp.array(dtype=wp.float64)

_log = logging.getLogger(__name__)


@wp.kernel
def _widen(values: Floats, into: Doubles) -> None:
    i = wp.tid()
    into[i] = wp.float64(values[i])


@wp.kernel
def _narrow(values: Doubles, into: Floats) -> None:
    i = wp.tid()
    into[i] = wp.float32(values[i])


class Replay:
    """Sequence of launches that is captured in its second run with the same key, and replayed in later ones.

    Args:
        device: Device of the launches.
        graphs: Whether to capture. None: on a CPU, if no other thread can launch kernels.
    """

    def __init__(self, device: wp.Device, graphs: bool | None):
        self._device, self._graphs = device, graphs
        self._key: object = None
        self._replay: Callable[[], None] | None = None

    def forget(self) -> None:
        """Drop the capture. The next run is from Python."""
        self._key = self._replay = None

    def run(
        self, key: object, work: Callable[[], None], record: Callable[[], Callable[[], None]] | None = None
    ) -> bool:
        """Run the sequence.

        Args:
            key: Everything that the launches depend on, except values of arrays. None: do not capture.
            work: Function that runs the sequence.
            record: Function that captures the sequence and returns its replay. Default: ``work`` in one graph.

        Returns:
            True if the sequence was replayed.
        """
        if key is None or self._graphs is False or self._device.is_capturing or recording_tape() is not None:
            work()
            return False
        if key != self._key:
            self._key, self._replay = key, None
            work()
            return False
        self._replay = self._replay or self._capture(record or functools.partial(captured, self._device, work))
        if self._replay is None:
            work()
            return False
        self._replay()
        return True

    def _capture(self, record: Callable[[], Callable[[], None]]) -> Callable[[], None] | None:
        """Capture the sequence and return its replay; None if it cannot be captured now."""
        if not (self._graphs or (self._device.is_cpu and is_only_thread())):
            return None
        try:
            return record()
        except Exception as error:  # any exception of Warp, Newton or MuJoCo
            _log.info("steps are run from Python, since they cannot be captured: %s", error)
            self._graphs = False
            return None


class Attributes:
    """Attributes of objects whose methods were captured, to detect replaced ones."""

    def __init__(self) -> None:
        self._seen: list[object] = []

    def keep(self, objects: Iterable[object]) -> None:
        """Remember the present attributes."""
        self._seen = _values(objects)

    def have_changed(self, objects: Iterable[object]) -> bool:
        """Return whether an attribute was replaced since `keep`."""
        try:
            return _values(objects) != self._seen  # Python does not compare an object with itself
        except Exception:  # a NumPy array was replaced
            return True


def _values(objects: Iterable[object]) -> list[object]:
    values: list[object] = []
    for each in objects:
        values += vars(each).values()  # a comprehension takes twice as long, at each step
    return values


class NativeStep:
    """Step of ``SolverMuJoCo`` with ``use_mujoco_cpu``: Newton's conversions as graphs, with ``mj_step`` in between.

    No kernel can call ``mj_step``, so a graph covers the time between two calls. The solver's own methods convert, with
    arrays instead of MuJoCo's. They are not public: `record` compares a step with one of the solver, to the last
    bit, and raises an error if they differ.

    Args:
        solver: The solver, of one environment.
        state: The state, which is stepped in place.
        control: Its targets and efforts.
        dt: Time step [s].
    """

    def __init__(self, solver: Any, state: Any, control: Any, dt: float):
        self._solver, self._state, self._control, self._dt = solver, state, control, dt
        mujoco, _ = solver.import_mujoco()
        self._mujoco, self._model, self._data = mujoco, solver.mj_model, solver.mj_data
        self._options, self._device = self._model.opt, solver.model.device
        sizes = {"ctrl": wp.float32, "qfrc_applied": wp.float32, "xfrc_applied": wp.spatial_vector}
        sizes |= {"qpos": wp.float32, "qvel": wp.float32}
        arrays = {
            name: wp.zeros((1, len(getattr(self._data, name))), dtype=dtype, device=self._device)
            for name, dtype in sizes.items()
        }
        self._arrays = SimpleNamespace(nworld=1, **arrays)
        flat = {name: array.view(wp.float32).flatten() for name, array in arrays.items()}
        if self._model.nmocap:  # fixed bases, for which the solver has separate arrays
            mocap = {name: getattr(solver.mjw_data, name) for name in ("mocap_pos", "mocap_quat")}
            flat |= {name: array.view(wp.float32).flatten() for name, array in mocap.items()}
        pairs = {name: (as_warp(getattr(self._data, name).ravel()), array) for name, array in flat.items()}
        self._inputs, self._outputs = list(pairs.values()), [pairs["qpos"], pairs["qvel"]]

    def record(self) -> Callable[[], None]:
        """Capture the step and return its replay.

        Raises:
            SimulationError: The result differs from the solver's.
        """
        push, pull = (captured(self._device, work) for work in (self._write_mujoco, self.read_mujoco))

        def step() -> None:
            push()
            self._integrate()
            pull()

        before = self._contents()
        step()
        replayed = self._contents()
        self._restore(before)
        self._solver.step(self._state, self._state, self._control, None, self._dt)
        own = self._contents()
        self._restore(before)
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(replayed, own, strict=True)):
            raise SimulationError("a captured step differs from that of the solver")
        return step

    def record_loop(self, loop: StepLoop, kernels: Sequence[MotorKernels]) -> Callable[[], None]:
        """Capture steps with motors, and return the replay of all remaining ones."""
        self.record()
        return loop.record_around(kernels, self._write_mujoco, self._integrate, self.read_mujoco)

    def _write_mujoco(self) -> None:
        arrays, solver = self._arrays, self._solver
        for array in (arrays.ctrl, arrays.qfrc_applied, arrays.xfrc_applied):
            array.zero_()
        solver._apply_mjc_control(solver.model, self._state, self._control, arrays)
        solver._update_mjc_data(arrays, solver.model, self._state)
        for held, given in self._inputs:
            if held.size:
                wp.launch(_widen, held.size, [given], [held], device=self._device)

    def read_mujoco(self) -> None:
        """Read the state from MuJoCo."""
        for held, shown in self._outputs:
            if held.size:
                wp.launch(_narrow, held.size, [held], [shown], device=self._device)
        solver = self._solver
        solver._update_newton_state(solver.model, self._state, self._arrays, state_prev=self._state)

    def _integrate(self) -> None:
        self._solver._update_kinematic_weld_references()
        self._options.timestep = self._dt
        self._mujoco.mj_step(self._model, self._data)

    def _contents(self) -> list[np.ndarray]:
        """Return copies of all inputs and outputs of a step."""
        size = self._mujoco.mj_stateSize(self._model, self._mujoco.mjtState.mjSTATE_INTEGRATION)
        held = np.empty(size)
        self._mujoco.mj_getState(self._model, self._data, held, self._mujoco.mjtState.mjSTATE_INTEGRATION)
        return [held, *(array.numpy().copy() for array in self._own_arrays())]

    def _restore(self, contents: list[np.ndarray]) -> None:
        held, *own = contents
        self._mujoco.mj_setState(self._model, self._data, held, self._mujoco.mjtState.mjSTATE_INTEGRATION)
        for array, values in zip(self._own_arrays(), own, strict=True):
            array.assign(values)

    def _own_arrays(self) -> list[wp.array]:
        return [value for value in vars(self._state).values() if isinstance(value, wp.array) and value.size]
