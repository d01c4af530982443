# SPDX-License-Identifier: Apache-2.0
r"""Actuator networks: a controller learned from a motor's logs.

.. math:: \tau = \tau_{ff} + s_\tau\, f(s_q (q^* - q),\; s_{\dot q}\, \dot q,\; \text{their past})

An MLP sees the position error and the velocity at a few past steps; an LSTM or GRU sees them now and keeps a state. The
velocity is the joint's own, not its error. The scales are folded into the weights when a file is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import warp as wp

from ...declare.config import Config
from ...declare.parameter import param
from ...declare.registry import ComponentKind, register_actuator_component
from ...errors import ParameterError, StateError, StructureError
from ...kernel.structure import Network, Stage
from ...networks.checks import check_entry, check_weights
from ...networks.code import NetworkCode, pack, state_rows
from ...networks.files import Loaded, load_metadata, load_network
from ...networks.formats import torch as torch_files
from ...networks.model import Network as Weights
from ..state import State
from .controller import Controller

_ARGUMENTS = ("input_order", "input_idx", "pos_scale", "vel_scale", "effort_scale", "sample_dt")
_SAMPLE_TOLERANCE = 0.01


@wp.func
def neural_law(network_effort: float, feedforward: float):
    return network_effort + feedforward


@dataclass(frozen=True)
class NeuralControlConfig(Config):
    """A network file, and how it is fed. What is None is as the file says, which also says what kind it is."""

    schema = "NewtonNeuralControlAPI"

    model_path: str = param("", "A .pt, .pt2, .onnx or .safetensors file.", path=True)
    input_order: str | None = param(
        "", "Whether position errors or velocities come first.", default=None, choices=("pos_vel", "vel_pos")
    )
    input_idx: tuple[int, ...] | None = param(
        "steps",
        "History steps that an MLP sees, 0 = now.",
        default=None,
        shared=True,
        integer=True,
        minimum=0,
        maximum=1000,
    )
    pos_scale: float | None = param("1", "Factor on the position error.", default=None)
    vel_scale: float | None = param("1", "Factor on the velocity.", default=None)
    effort_scale: float | None = param("1", "Factor on the output.", default=None)
    sample_dt: float | None = param("s", "Time step that the network was trained at.", default=None, above=0.0)
    check_sample_dt: bool | None = param(
        "", "Whether another time step is refused; it is, where nothing is said.", default=None, boolean=True
    )

    @classmethod
    def check_together(cls, where: str, values: Mapping[str, Any]) -> None:
        steps = values["input_idx"]
        if steps is not None and (np.ndim(steps) != 1 or not len(steps)):
            raise ParameterError(f"{where}.input_idx: got {steps!r}; must be a list of history steps, 0 = now")

    def component_class(self) -> type[ControllerNeural]:
        return neural_class(self.model_path)


class NeuralState(State):
    """State of a network: arrays of shape (rows, N). Starts at zero.

    An MLP has ``pos_history`` [rad] and ``vel_history`` [rad/s], row k holding the value of k + 1 steps ago; an LSTM
    has ``hidden`` and ``cell``, a GRU ``hidden``, the units of all layers below each other.
    """

    def __init__(self, device: wp.Device, num_actuators: int, rows: Mapping[str, int], requires_grad: bool = False):
        for name, count in rows.items():
            array = wp.zeros((count, num_actuators), dtype=wp.float32, device=device, requires_grad=requires_grad)
            setattr(self, name, array)
        self._sealed = True


class ControllerNeural(Controller):
    """Base of the network controllers. Use `ControllerNeuralMLP`, `ControllerNeuralLSTM` or `ControllerNeuralGRU`.

    Arguments win over what the file's metadata says.

    Args:
        model_path: A ``.pt``, ``.pt2``, ``.onnx`` or ``.safetensors`` file.
        input_order: ``"pos_vel"`` (default) or ``"vel_pos"``.
        input_idx: History steps that an MLP sees, 0 = now. Default: as many from now on as it has inputs for.
        pos_scale: Factor on the position error. Default 1.
        vel_scale: Factor on the velocity. Default 1.
        effort_scale: Factor on the output. Default 1.
        torque_scale: The same as ``effort_scale``.
        sample_dt: Time step that the network was trained at [s]. None: unknown.
        check_sample_dt: Refuse to step at a time step that is more than 1 % off ``sample_dt``.
    """

    model_type: ClassVar[str] = ""
    law = neural_law
    State = NeuralState  # type: ignore[assignment]
    SHARED_PARAMS = frozenset({"model_path", "torque_scale", "check_sample_dt", *_ARGUMENTS})

    def __init__(
        self,
        model_path: str | Path,
        *,
        input_order: str | None = None,
        input_idx: Any = None,
        pos_scale: float | None = None,
        vel_scale: float | None = None,
        effort_scale: float | None = None,
        torque_scale: float | None = None,
        sample_dt: float | None = None,
        check_sample_dt: bool = True,
    ):
        self.model_path = Path(model_path)
        if torque_scale is not None:
            if effort_scale is not None:
                raise ParameterError(f"{self._where}: got effort_scale and torque_scale, which mean the same")
            effort_scale = torque_scale
        loaded = load_network(self.model_path)
        given = dict(
            zip(_ARGUMENTS, (input_order, input_idx, pos_scale, vel_scale, effort_scale, sample_dt), strict=True)
        )
        given = {key: check_entry(f"{self._where}: {key}", key, v) for key, v in given.items() if v is not None}
        convention = {key: loaded.metadata[key] for key in _ARGUMENTS if key in loaded.metadata} | given
        self.input_order: str = convention.get("input_order", "pos_vel")
        self.pos_scale: float = convention.get("pos_scale", 1.0)
        self.vel_scale: float = convention.get("vel_scale", 1.0)
        self.effort_scale: float = convention.get("effort_scale", 1.0)
        self.sample_dt: float | None = convention.get("sample_dt")
        self.check_sample_dt = check_sample_dt
        self._check_type(loaded)
        self.input_idx: tuple[int, ...] = self._resolve_input_idx(loaded, convention.get("input_idx"))
        self._module = loaded.module
        if loaded.network is None:
            self._rows = self._prepare_module(loaded)
            self.STATES = tuple(self._rows)  # type: ignore[misc]
            self._try_module()
        else:
            network = self._scaled(loaded.network)
            self._code = NetworkCode(network.structure(), self.input_idx, self.input_order == "vel_pos")
            self._packed = pack(network)
            self._rows = state_rows(network.structure(), self.input_idx)
            self.STATES = tuple(self._rows)  # type: ignore[misc]

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
        if self.model_type != "mlp":
            if input_idx not in (None, (0,)):
                raise ParameterError(
                    f"{self._where}: input_idx: got {input_idx}; a recurrent network sees now only, (0,)"
                )
            steps: tuple[int, ...] = (0,)
        else:
            if loaded.network is None and input_idx is None:
                raise ParameterError(
                    f"{self._where}: not recognised ({loaded.reason}); give input_idx, for PyTorch to run it"
                )
            inputs = loaded.network.inputs if loaded.network is not None else 0
            steps = tuple(range(inputs // 2)) if input_idx is None else input_idx
        if loaded.network is not None and loaded.network.inputs != 2 * len(steps):
            raise ParameterError(
                f"{self._where}: the network has {loaded.network.inputs} inputs, but position error and velocity at "
                f"steps {steps} make {2 * len(steps)}; an actuator network has two inputs for each step in input_idx"
            )
        return steps

    def _scaled(self, network: Weights) -> Weights:
        """The network with the scales in its weights."""
        scales = [self.pos_scale] * len(self.input_idx), [self.vel_scale] * len(self.input_idx)
        first, second = scales[::-1] if self.input_order == "vel_pos" else scales
        scaled = network.scaled(np.array([*first, *second]), self.effort_scale)
        try:
            check_weights(scaled)
        except ParameterError as error:
            given = f"pos_scale = {self.pos_scale}, vel_scale = {self.vel_scale}, effort_scale = {self.effort_scale}"
            raise ParameterError(f"{self._where}: with {given} in its weights, {error}") from error
        return scaled

    @classmethod
    def resolve_arguments(cls, args: Mapping[str, Any]) -> dict[str, Any]:
        """Check the names and values of ``args`` and return them."""
        unknown = [name for name in args if name not in cls.SHARED_PARAMS]
        if unknown or "model_path" not in args:
            problem = f"unknown parameter {unknown[0]!r}" if unknown else "needs 'model_path'"
            raise ParameterError(f"{cls.__name__}: {problem}; parameters: {', '.join(sorted(cls.SHARED_PARAMS))}")
        checked = {k: check_entry(f"{cls.__name__}.{k}", k, v) if k in _ARGUMENTS else v for k, v in args.items()}
        return {key: value for key, value in checked.items() if value is not None}

    def finalize(self, device: Any, num_actuators: int) -> None:
        """Bring the weights onto ``device``. Called by `Actuator`."""
        if self._module is not None and self.requires_grad:
            raise StructureError(f"{self._where}: PyTorch runs it, which a wp.Tape cannot differentiate")
        super().finalize(device, num_actuators)
        if self._module is None:
            self._weights = wp.array(self._packed, dtype=wp.float32, device=self._device)
        else:
            self._module.to(wp.device_to_torch(self._device))

    def is_fused(self) -> bool:
        """Whether the network was recognised. Otherwise PyTorch runs it, stage by stage."""
        return self._module is None

    def is_graphable(self) -> bool:
        """Whether a step can be captured in a graph: not where PyTorch runs the network."""
        return self._module is None

    @classmethod
    def _check_declaration(cls) -> None:
        """The law takes what the network gives, which only an instance has."""

    def stage(self) -> Stage:
        """The network as a kernel sees it."""
        if self._module is not None:
            return Stage(self.label(), sensed=True)
        return Stage(
            self.label(),
            self.law,
            tables=("weights",),
            sensed=True,
            network=Network(self._code, inputs=("{target_q} - {q}", "{qd}"), output="network_effort"),
            wide_states=tuple(self.STATES),
        )

    def arguments(self) -> dict[str, Any]:
        """What a kernel gets of the controller: its packed weights."""
        return {"weights": self._weights}

    def state(self, num_actuators: int, device: Any) -> NeuralState | None:
        """Return a new state for ``num_actuators`` DOFs, or None for an MLP that sees only now."""
        return NeuralState(wp.get_device(device), num_actuators, self._rows, self.requires_grad) if self._rows else None

    def check_dt(self, dt: float | None) -> float | None:
        """Refuse a time step other than the one that the network was trained at."""
        if self.sample_dt is None or not self.check_sample_dt:
            return dt
        if dt is None or not abs(dt - self.sample_dt) <= _SAMPLE_TOLERANCE * self.sample_dt:
            raise StateError(
                f"{self._where}: stepped with dt = {dt} s, but the network was trained at sample_dt = "
                f"{self.sample_dt} s; step at that rate, or pass check_sample_dt=False if you know better"
            )
        return float(dt)

    def _prepare_module(self, loaded: Loaded) -> dict[str, int]:
        """Get ready to run through PyTorch what was not recognised; returns the rows of its state."""
        warnings.warn(
            f"{self._where}: not recognised ({loaded.reason}); PyTorch runs it, stage by stage and outside graphs",
            stacklevel=4,
        )
        if self.model_type == "mlp":
            count = max(self.input_idx)
            return {"pos_history": count, "vel_history": count} if count else {}
        weights = {n: p for n, p in self._module.named_parameters() if ".weight_hh_l" in f".{n}"}
        if not weights:
            raise ParameterError(
                f"{self._where}: {loaded.reason}, and it has no recurrent weights that say its state's size"
            )
        self._layers, self._hidden = len(weights), next(iter(weights.values())).shape[1]
        rows = self._layers * self._hidden
        return {"hidden": rows, "cell": rows} if self.model_type == "lstm" else {"hidden": rows}

    def _try_module(self) -> None:
        """Call the module once, so that one that cannot be called fails here and not in a step."""
        zero, index = wp.zeros(1, dtype=wp.float32, device="cpu"), wp.zeros(1, dtype=wp.uint32, device="cpu")
        try:
            state = self.state(1, "cpu")
            effort = wp.zeros_like(zero)
            self._compute_in_torch(zero, zero, zero, zero, None, index, index, index, index, effort, state, 0.0)
        except Exception as error:
            raise ParameterError(
                f"{self._where}: not recognised, and PyTorch cannot call it in the usual convention: "
                f"{str(error).strip().splitlines()[-1] if str(error) else error!r}"
            ) from error

    def compute(self, *arguments: Any, **keywords: Any) -> None:
        if self._module is None:
            super().compute(*arguments, **keywords)
        else:
            self._compute_in_torch(*arguments, **keywords)

    compute.__doc__ = Controller.compute.__doc__

    def _compute_in_torch(
        self, positions: Any, velocities: Any, target_pos: Any, target_vel: Any, feedforward: Any, pos_indices: Any,
        vel_indices: Any, target_pos_indices: Any, target_vel_indices: Any, forces: Any, state: Any, dt: Any,
        device: Any = None,
    ) -> None:  # fmt: skip
        torch = torch_files.import_torch("running an unrecognised network")
        dtype = next((p.dtype for p in self._module.parameters()), torch.float32)

        def gathered(array: wp.array, indices: wp.array) -> Any:
            return wp.to_torch(array)[wp.to_torch(indices.view(wp.int32)).long()]

        with torch.inference_mode():
            error = gathered(target_pos, target_pos_indices) - gathered(positions, pos_indices)
            velocity = gathered(velocities, vel_indices)
            n = len(error)
            pending = self.state(n, forces.device)
            if self.model_type == "mlp":
                effort = self._module(self._history(torch, error, velocity, state, pending).to(dtype))
            else:
                pair = (velocity * self.vel_scale, error * self.pos_scale)
                x = torch.stack(pair if self.input_order == "vel_pos" else pair[::-1], dim=1)[:, None]
                shape = (self._layers, self._hidden, n)
                before = tuple(wp.to_torch(getattr(state, s)).reshape(shape).permute(0, 2, 1) for s in self.STATES)
                before = tuple(part.contiguous().to(dtype) for part in before)
                effort, after = torch_files.call_recurrent(self._module, x.to(dtype), before)
                for name, value in zip(self.STATES, after, strict=True):
                    wp.to_torch(getattr(pending, name)).copy_(value.permute(0, 2, 1).reshape(-1, n))
            effort = effort.reshape(n) * self.effort_scale
            if feedforward is not None:
                effort = effort + gathered(feedforward, target_vel_indices)
            wp.to_torch(forces).copy_(effort)
        self._pending = pending

    def _history(self, torch: Any, error: Any, velocity: Any, state: Any, pending: Any) -> Any:
        """Inputs of an MLP, shape (N, features); leaves the new history in ``pending``."""
        columns = {}
        for name, now, scale in (("pos", error, self.pos_scale), ("vel", velocity, self.vel_scale)):
            rows = now[None]
            if state is not None:
                rows = torch.cat([rows, wp.to_torch(getattr(state, f"{name}_history"))])
                wp.to_torch(getattr(pending, f"{name}_history")).copy_(rows[:-1])
            columns[name] = rows[list(self.input_idx)].T * scale
        order = ("vel", "pos") if self.input_order == "vel_pos" else ("pos", "vel")
        return torch.cat([columns[name] for name in order], dim=1)


NeuralControlConfig.component = ControllerNeural
register_actuator_component(
    "NewtonNeuralControlAPI", ControllerNeural, ComponentKind.CONTROLLER, config=NeuralControlConfig
)


class ControllerNeuralMLP(ControllerNeural):
    """A multi-layer perceptron over position error and velocity at a few past steps. See `ControllerNeural`."""

    model_type = "mlp"


class ControllerNeuralLSTM(ControllerNeural):
    """An LSTM of any number of layers with a dense head, over position error and velocity. See `ControllerNeural`."""

    model_type = "lstm"


class ControllerNeuralGRU(ControllerNeural):
    """A GRU of any number of layers with a dense head, over position error and velocity. See `ControllerNeural`."""

    model_type = "gru"


def neural_class(model_path: Any) -> type[ControllerNeural]:
    """The controller for a network file, by the ``model_type`` of its metadata or by what the network is."""
    kind = load_metadata(model_path).get("model_type")
    if kind is None:
        loaded = load_network(model_path)
        if loaded.network is None:
            raise ParameterError(f"'{model_path}': has no 'model_type', and is not recognised: {loaded.reason}")
        kind = loaded.network.kind
    classes = (ControllerNeuralMLP, ControllerNeuralLSTM, ControllerNeuralGRU)
    return next(cls for cls in classes if cls.model_type == kind)
