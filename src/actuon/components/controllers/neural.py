# SPDX-License-Identifier: Apache-2.0
r"""Actuator networks: controllers learned from a motor's logs.

.. math:: \tau = \tau_{ff} + s_\tau\, f(s_q (q^* - q),\; s_{\dot q}\, \dot q,\; \text{their past})

The inputs of an MLP are the position error and the velocity at a few past steps; those of an LSTM or GRU are the
current ones, and it has a state. The velocity is that of the joint, not its error. A file may define other inputs, each
with a mean and a standard deviation. Scales are folded into the weights when a file is read.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameters import ParameterValue, param
from ...declare.registry import ComponentKind, register_actuator_component
from ...errors import ParameterError, StateError, StructureError
from ...kernel.chain import Network, Stage, custom_signal
from ...kernel.run_stage import SignalArray
from ...kernel.state import State, Word
from ...networks.code import NetworkCode, pack, state_rows
from ...networks.files import Loaded, as_path, load_metadata, load_network
from ...networks.inputs import CONVENTION, InputSpec, check_entry
from ...networks.network import Network as Weights, check_weights
from ...networks.torch_module import NeuralModule
from ...typing import DeviceLike, IndexLike, PathLike
from ..kinds import Controller

_ARGUMENTS = ("input_order", "input_idx", "pos_scale", "vel_scale", "effort_scale", "sample_dt")
_SAMPLE_TOLERANCE = 0.01


@wp.func
def neural_law(network_effort: float, feedforward: float):
    return network_effort + feedforward


@wp.func
def network_law(network_effort: float):
    return network_effort


class NeuralControlConfig(Config):
    """Network file and its input convention. None means the value in the file, which also defines its kind.

    Examples:
        >>> controller = actuon.NeuralControlConfig("anydrive.onnx")
    """

    schema = "NewtonNeuralControlAPI"

    model_path: str = param("", "A .pt, .pt2, .onnx or .safetensors file.", path=True)
    input_order: str | None = param(
        "", "Order of the inputs: position errors or velocities first.", default=None, choices=("pos_vel", "vel_pos")
    )
    input_idx: tuple[int, ...] | None = param(
        "steps",
        "History steps of an MLP's inputs, 0 = now.",
        default=None,
        shared=True,
        integer=True,
        minimum=0,
        maximum=1000,
    )
    pos_scale: float | None = param("1", "Factor on the position error.", default=None)
    vel_scale: float | None = param("1", "Factor on the velocity.", default=None)
    effort_scale: float | None = param("1", "Factor on the output.", default=None)
    sample_dt: float | None = param("s", "Time step of the training data.", default=None, above=0.0)
    check_sample_dt: bool | None = param(
        "",
        "Raise an error at another time step, instead of a warning. Default: true.",
        default=None,
        boolean=True,
    )

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, ParameterValue]) -> None:
        for name in ("pos_scale", "vel_scale", "effort_scale"):
            if values[name] is not None:
                check_entry(f"{where}.{name}", name, values[name])
        steps = values["input_idx"]
        if steps is not None and (np.ndim(steps) != 1 or not np.size(steps)):
            raise ParameterError(f"{where}.input_idx: got {steps!r}; must be a list of history steps, 0 = now")

    def component_class(self) -> type[ControllerNeural]:
        return neural_class(self.model_path)

    def from_files(self) -> dict[str, Any]:
        """Return the unset parameters that the network's file defines."""
        found = load_metadata(self.model_path)
        shown = {key: found[key] for key in _ARGUMENTS if key in found and getattr(self, key) is None}
        return shown | {key: ", ".join(found[key]) for key in ("input_columns", "custom_inputs") if found.get(key)}


class NeuralState(State):
    """State of a network: arrays of shape (rows, N). Starts at zero.

    An MLP has ``pos_history`` [rad] and ``vel_history`` [rad/s], whose row k is k + 1 steps old, and similar arrays for
    other inputs. An LSTM has ``hidden`` and ``cell``, a GRU ``hidden``, of shape (layers, N, units); with
    ``robot_dofs``, (layers, R, D, units). If layers differ in their units, the units of all layers are rows.
    """

    def _hold(self, fields: Mapping[str, object]) -> None:
        names = {"pos_error_history": "pos_history"}
        super()._hold({names.get(name, name): array for name, array in fields.items()})

    @property
    def pos_error_history(self) -> wp.array:
        """Newton's name of ``pos_history``."""
        return self.pos_history


class _RecurrentState(NeuralState):
    """State of a recurrent network whose layers have equally many units."""

    layers: ClassVar[int]
    """Number of layers."""

    @property
    def hidden(self) -> wp.array:
        """Hidden state, shape (layers, N, units)."""
        return self._by_layer("hidden")

    @property
    def cell(self) -> wp.array:
        """Cell state of an LSTM, shape (layers, N, units)."""
        return self._by_layer("cell")

    def _hold(self, fields: Mapping[str, object]) -> None:
        super()._hold({f"passed_{name}": array for name, array in fields.items()})

    def _by_layer(self, name: str) -> wp.array:
        if not self.is_in_memory:
            return getattr(self, f"passed_{name}")
        if (self.position, name) not in self.memory.words:
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        rows = self.memory.grid(self.position, name)
        (count, robots, dofs), (row, robot, dof) = rows.shape, rows.strides
        units = count // self.layers
        shape: tuple[int, ...] = (self.layers, robots, dofs, units)
        strides: tuple[int, ...] = (units * row, robot, dof, row)
        if not self.memory.cells.tile.is_robot:
            shape, strides = (shape[0], *shape[2:]), (strides[0], *strides[2:])
        view = wp.array(ptr=rows.ptr, dtype=rows.dtype, shape=shape, strides=strides, device=rows.device)
        view._ref = rows  # keeps the memory
        return view

    def arrays(self) -> dict[str, wp.array]:
        return {name.removeprefix("passed_"): array for name, array in super().arrays().items()}


@functools.cache
def _recurrent_state(layers: int) -> type[_RecurrentState]:
    return type("State", (_RecurrentState,), {"layers": layers})


class ControllerNeural(Controller):
    """Base of the network controllers. Use `ControllerNeuralMLP`, `ControllerNeuralLSTM` or `ControllerNeuralGRU`.

    Arguments take precedence over the file's metadata.

    Args:
        model_path: A ``.pt``, ``.pt2``, ``.onnx`` or ``.safetensors`` file.
        input_order: ``"pos_vel"`` (default) or ``"vel_pos"``.
        input_idx: History steps of an MLP's inputs, 0 = now. Default: the last ones, as many as it has inputs.
        pos_scale: Factor on the position error. Default: 1.
        vel_scale: Factor on the velocity. Default: 1.
        effort_scale: Factor on the output. Default: 1.
        torque_scale: Alias of ``effort_scale``.
        sample_dt: Time step of the training data [s]. None: unknown.
        check_sample_dt: Raise if the time step of the network, ``dt`` times the actuator's ``control_every``, differs
            from ``sample_dt`` by more than 1 %. False warns once.
    """

    model_type: ClassVar[str] = ""
    law = neural_law
    State = NeuralState
    SHARED_PARAMS = frozenset({"model_path", "torque_scale", "check_sample_dt", *_ARGUMENTS})

    def __init__(
        self,
        model_path: str | Path,
        *,
        input_order: str | None = None,
        input_idx: IndexLike | None = None,
        pos_scale: float | None = None,
        vel_scale: float | None = None,
        effort_scale: float | None = None,
        torque_scale: float | None = None,
        sample_dt: float | None = None,
        check_sample_dt: bool = True,
    ):
        self.model_path = as_path(model_path)
        if torque_scale is not None:
            if effort_scale is not None:
                raise ParameterError(f"{self._where}: torque_scale is an alias of effort_scale; pass only one of them")
            effort_scale = torque_scale
        loaded = load_network(self.model_path)
        given: dict[str, Any] = dict(
            zip(_ARGUMENTS, (input_order, input_idx, pos_scale, vel_scale, effort_scale, sample_dt), strict=True)
        )
        given = {key: check_entry(f"{self._where}: {key}", key, v) for key, v in given.items() if v is not None}
        convention = {key: loaded.metadata[key] for key in CONVENTION if key in loaded.metadata} | given
        self._spec = InputSpec.from_metadata(self._where, convention)
        self._is_normalised = "normalization" in convention
        self.input_columns: tuple[str, ...] = self._spec.columns
        """Inputs of the network, in order."""
        self.custom_inputs = self._spec.custom_inputs
        self.pos_scale: float = convention.get("pos_scale", 1.0)
        self.vel_scale: float = convention.get("vel_scale", 1.0)
        self.effort_scale: float = convention.get("effort_scale", 1.0)
        self.sample_dt: float | None = convention.get("sample_dt")
        self.check_sample_dt = check_sample_dt
        self._is_warned = False
        self._check_type(loaded)
        self.input_idx: tuple[int, ...] = self._resolve_input_idx(loaded, convention.get("input_idx"))
        self._module: NeuralModule | None = None
        if loaded.network is None:
            self._module = self._prepare_module(loaded)
            self._checksum = zlib.crc32(self.model_path.read_bytes())
            self._rows = self._module.rows
            self._layer_sizes = self._module.layer_sizes
            self._try_module()
        else:
            network, fed = self._scaled(loaded.network), self._spec
            histories = fed.histories()
            self._code = NetworkCode(network.structure(), self.input_idx, histories, fed.is_centred)
            self._packed = pack(network, fed.means if fed.is_centred else ())
            self._checksum = zlib.crc32(self._packed.tobytes())
            self._rows = state_rows(network.structure(), self.input_idx, histories)
            self._layer_sizes = tuple(layer.hidden for layer in network.recurrent)

        if self.model_type != "mlp" and len(set(self._layer_sizes)) == 1:
            self.State = _recurrent_state(len(self._layer_sizes))

    @property
    def input_order(self) -> str | None:
        """``"pos_vel"`` or ``"vel_pos"``; None for other inputs."""
        orders: dict[tuple[str, ...], str] = {
            ("position_error", "velocity"): "pos_vel",
            ("velocity", "position_error"): "vel_pos",
        }
        return orders.get(self.input_columns)

    @property
    def _where(self) -> str:
        return f"{type(self).__name__}('{self.model_path.name}')"

    def _check_type(self, loaded: Loaded) -> None:
        kind = loaded.network.kind if loaded.network is not None else loaded.metadata.get("model_type", self.model_type)
        named = loaded.metadata.get("model_type", kind)
        for found in (kind, named):
            if found != self.model_type:
                right = {"mlp": "ControllerNeuralMLP", "lstm": "ControllerNeuralLSTM", "gru": "ControllerNeuralGRU"}
                raise ParameterError(f"{self._where}: the file holds a network of type '{found}'; use {right[found]}")

    def _resolve_input_idx(self, loaded: Loaded, input_idx: tuple[int, ...] | None) -> tuple[int, ...]:
        columns = len(self.input_columns)
        if self.model_type != "mlp":
            if input_idx not in (None, (0,)):
                raise ParameterError(f"{self._where}: input_idx: got {input_idx}; must be (0,) for a recurrent network")
            steps: tuple[int, ...] = (0,)
        else:
            if loaded.network is None and input_idx is None:
                raise ParameterError(
                    f"{self._where}: not recognised ({loaded.reason}); pass input_idx, so that PyTorch can run it"
                )
            inputs = loaded.network.inputs if loaded.network is not None else 0
            steps = tuple(range(inputs // columns)) if input_idx is None else input_idx
        if loaded.network is not None and loaded.network.inputs != columns * len(steps):
            raise ParameterError(
                f"{self._where}: the network has {loaded.network.inputs} inputs, but {', '.join(self.input_columns)} "
                f"at steps {steps} make {columns * len(steps)}; must be one input for each of input_columns at each "
                "step in input_idx"
            )
        return steps

    def _scaled(self, network: Weights) -> Weights:
        """Return the network with the scales folded into its weights."""
        fed = self._spec
        scaled = network.scaled(np.repeat(fed.scales, len(self.input_idx)), fed.effort_scale, fed.effort_mean)
        try:
            check_weights(scaled)
        except ParameterError as error:
            given = f"pos_scale = {self.pos_scale}, vel_scale = {self.vel_scale}, effort_scale = {self.effort_scale}"
            given = f"its normalization {fed.scales} → {fed.effort_scale}" if self._is_normalised else given
            raise ParameterError(f"{self._where}: with {given} in its weights, {error}") from error
        return scaled

    @classmethod
    def resolve_arguments(cls, args: Mapping[str, object]) -> dict[str, Any]:
        """Check the names and values of ``args`` and return them."""
        unknown = [name for name in args if name not in cls.SHARED_PARAMS]
        if unknown or "model_path" not in args:
            problem = f"unknown parameter {unknown[0]!r}" if unknown else "needs 'model_path'"
            raise ParameterError(f"{cls.__name__}: {problem}; parameters: {', '.join(sorted(cls.SHARED_PARAMS))}")
        NeuralControlConfig.declared()["model_path"].check(f"{cls.__name__}.model_path", args["model_path"])
        checked = {k: check_entry(f"{cls.__name__}.{k}", k, v) if k in _ARGUMENTS else v for k, v in args.items()}
        return {key: value for key, value in checked.items() if value is not None}

    def finalize(self, device: DeviceLike, num_actuators: int) -> None:
        """Copy the weights to ``device``. Called by `Actuator`."""
        if self._module is not None and self.requires_grad:
            raise StructureError(f"{self._where}: PyTorch runs it, so a wp.Tape cannot differentiate it")
        super().finalize(device, num_actuators)
        if self._module is None:
            self._weights = wp.array(self._packed, dtype=wp.float32, device=self._device)
        else:
            self._module.module.to(wp.device_to_torch(self._device))

    def fingerprint(self) -> str:
        """Return a checksum of the network as it was read: of its weights, or of the file that PyTorch runs."""
        return f"{self._checksum:08x}"

    def is_fused(self) -> bool:
        """Return whether the network was recognised. Otherwise PyTorch runs it, and the actuator is staged."""
        return self._module is None and super().is_fused()

    def is_graphable(self) -> bool:
        """Return whether a step can be captured in a graph: not if PyTorch runs the network."""
        return self._module is None

    def stage(self) -> Stage:
        """Return the description of the network for a kernel."""
        plain = super().stage()
        custom = tuple(dict.fromkeys((*plain.custom_inputs, *self.custom_inputs)))
        if self._module is not None:
            return dataclasses.replace(plain, laws=(), custom_inputs=custom)
        return dataclasses.replace(
            plain,
            tables=(*plain.tables, "weights"),
            network=Network(self._code, inputs=self._spec.expressions(), output="network_effort"),
            wide_states=tuple(self._rows),
            wide_rows=tuple(self._rows.values()),
            custom_inputs=custom,
        )

    def arguments(self) -> dict[str, Any]:
        """Return the kernel's arguments: the packed weights."""
        return {**super().arguments(), "weights": self._weights}

    def words(self) -> tuple[Word, ...]:
        """Return the states per DOF. An MLP without past inputs has histories without rows."""
        rows = self._rows or dict.fromkeys(self._spec.histories(), 0)
        return (*super().words(), *(Word(name, rows=count) for name, count in rows.items()))

    def check_dt(self, dt: float | None) -> float | None:
        """Raise if the time step differs from that of the training data, or warn once."""
        super().check_dt(dt)
        if self.sample_dt is None or (dt is None and not self.check_sample_dt):
            return dt
        if dt is None or not abs(dt - self.sample_dt) <= _SAMPLE_TOLERANCE * self.sample_dt:
            rates = f"stepped with dt = {dt} s, but the network was trained at sample_dt = {self.sample_dt} s"
            remedy = "step at that dt, or at a fraction of it with the actuator's control_every"
            if self.check_sample_dt:
                raise StateError(f"{self._where}: {rates}; {remedy}, or pass check_sample_dt=False to allow it")
            if not self._is_warned:
                self._is_warned = True
                warnings.warn(f"{self._where}: {rates}; its efforts may be wrong: {remedy}", stacklevel=2)
        return dt if dt is None else float(dt)

    def _prepare_module(self, loaded: Loaded) -> NeuralModule:
        """Prepare a module that was not recognised, to run it in PyTorch."""
        warnings.warn(
            f"{self._where}: not recognised ({loaded.reason}); PyTorch runs it, slower and without graph capture",
            stacklevel=4,
        )
        try:
            return NeuralModule(loaded.module, self.model_type, self.input_idx, self._spec)
        except ParameterError as error:
            raise ParameterError(f"{self._where}: {loaded.reason}, and {error}") from error

    def _try_module(self) -> None:
        """Call the module once, so that errors occur here instead of in a step."""
        zero, index = wp.zeros(1, dtype=wp.float32, device="cpu"), wp.zeros(1, dtype=wp.uint32, device="cpu")
        names = ("q", "qd", "target_q", "target_qd", *map(custom_signal, self.custom_inputs))
        given = dict.fromkeys(names, SignalArray(zero, index))
        try:
            self._run_module(given, zero, self.state(1, "cpu"), self.state(1, "cpu"))
        except Exception as error:
            raise ParameterError(
                f"{self._where}: not recognised, and PyTorch cannot call it in the usual convention: "
                f"{str(error).strip().splitlines()[-1] if str(error) else error!r}"
            ) from error

    def _evaluate(
        self,
        given: Mapping[str, SignalArray],
        results: Mapping[str, wp.array],
        current_state: Any,
        next_state: Any,
        dt: float | None,
    ) -> None:
        if self._module is None:
            super()._evaluate(given, results, current_state, next_state, dt)
        else:
            self._run_module(given, results["effort"], current_state, next_state)

    def _run_module(
        self, given: Mapping[str, SignalArray], forces: wp.array, state: NeuralState | None, pending: Any
    ) -> None:
        """Run the network in PyTorch, from signals to efforts and from a state to the next."""
        assert self._module is not None
        taken = {name: signal for name, signal in given.items() if name != "feedforward" or self.law is neural_law}
        arrays = {name: (signal.array, signal.indices) for name, signal in taken.items() if signal.array is not None}
        self._module.run(arrays, forces, state, pending)


NeuralControlConfig.component = ControllerNeural
register_actuator_component(
    "NewtonNeuralControlAPI", ControllerNeural, ComponentKind.CONTROLLER, config=NeuralControlConfig
)


class ControllerNeuralMLP(ControllerNeural):
    """Multi-layer perceptron of position error and velocity at a few past steps. Arguments as `ControllerNeural`.

    Examples:
        >>> import torch
        >>> actuon.save_network(torch.nn.Linear(2, 1), "motor.onnx")
        >>> controller = actuon.ControllerNeuralMLP("motor.onnx", input_idx=[0])
    """

    model_type = "mlp"


class ControllerNeuralLSTM(ControllerNeural):
    """LSTM of any number of layers with a dense head. Arguments as `ControllerNeural`."""

    model_type = "lstm"


class ControllerNeuralGRU(ControllerNeural):
    """GRU of any number of layers with a dense head. Arguments as `ControllerNeural`.

    As in Newton, feedforward is not added to its effort. A network that was trained with it names ``joint_act`` among
    its custom inputs.
    """

    model_type = "gru"
    law = network_law


def neural_class(model_path: PathLike) -> type[ControllerNeural]:
    """Return the controller class for a network file, by the ``model_type`` of its metadata or the network's type."""
    kind = load_metadata(model_path).get("model_type")
    if kind is None:
        loaded = load_network(model_path)
        if loaded.network is None:
            raise ParameterError(
                f"'{model_path}': not recognised ({loaded.reason}); its metadata needs a 'model_type': mlp, lstm or gru"
            )
        kind = loaded.network.kind
    classes = (ControllerNeuralMLP, ControllerNeuralLSTM, ControllerNeuralGRU)
    return next(cls for cls in classes if cls.model_type == kind)
