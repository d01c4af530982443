# SPDX-License-Identifier: Apache-2.0
"""Networks that Actuon does not recognise, run by PyTorch, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import warp as wp

from ..errors import ParameterError
from ..kernel.state import State
from .formats import torch as torch_files
from .inputs import InputSpec

if TYPE_CHECKING:
    import torch


class NeuralModule:
    """A PyTorch module with its input convention.

    Args:
        module: Module of ``(N, features)``, or of ``(N, 1, features)`` and its state.
        kind: ``"mlp"``, ``"lstm"`` or ``"gru"``.
        steps: History steps of an MLP's inputs, 0 = now.
        spec: Columns and scales.
    """

    def __init__(self, module: torch.nn.Module, kind: str, steps: tuple[int, ...], spec: InputSpec):
        self.module = module
        self._kind, self._steps, self._spec = kind, steps, spec
        self._layers, self._hidden = 0, 0
        self.rows = self._state_rows()
        """Number of rows of each state array, by name."""

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Units of each recurrent layer."""
        return (self._hidden,) * self._layers

    def _state_rows(self) -> dict[str, int]:
        if self._kind == "mlp":
            count = max(self._steps)
            return dict.fromkeys(self._spec.histories(), count) if count else {}
        weights = {n: p for n, p in self.module.named_parameters() if ".weight_hh_l" in f".{n}"}
        if not weights:
            raise ParameterError("it has no recurrent weights, which determine the size of its state")
        self._layers, self._hidden = len(weights), next(iter(weights.values())).shape[1]
        rows = self._layers * self._hidden
        return {"hidden": rows, "cell": rows} if self._kind == "lstm" else {"hidden": rows}

    def run(
        self, signals: Mapping[str, tuple[wp.array, wp.array]], forces: wp.array, state: State | None, pending: State
    ) -> None:
        """Compute efforts into ``forces``, and the new state into ``pending``.

        Args:
            signals: Signals by name, each an array and the indices of the DOFs in it. ``feedforward`` is optional.
            forces: Efforts [N·m or N], shape (N,), written.
            state: State before.
            pending: State after, written.
        """
        torch = torch_files.import_torch("running an unrecognised network")
        dtype = next((p.dtype for p in self.module.parameters()), torch.float32)
        with torch.inference_mode():
            columns = [self._column(column, signals) for column in self._spec.columns]
            if self._kind == "mlp":
                effort = self.module(self._with_past(torch, columns, state, pending).to(dtype))
            else:
                x = torch.stack([self._scaled(i, column) for i, column in enumerate(columns)], dim=1)[:, None]
                effort = self._recur(x.to(dtype), state, pending)
            effort = effort.reshape(len(forces)) * self._spec.effort_scale + self._spec.effort_mean
            if "feedforward" in signals:
                effort = effort + _gathered(*signals["feedforward"])
            wp.to_torch(forces).copy_(effort)

    def _column(self, column: str, signals: Mapping[str, tuple[wp.array, wp.array]]) -> Any:
        first, *less = (_gathered(*signals[name]) for name in self._spec.signals(column))
        return first - less[0] if less else first

    def _scaled(self, i: int, values: torch.Tensor) -> Any:
        return (values - self._spec.means[i]) * self._spec.scales[i]

    def _with_past(
        self, torch: ModuleType, columns: Sequence[torch.Tensor], state: State | None, pending: State
    ) -> Any:
        """Return the inputs of an MLP, shape (N, features), and write the new history."""
        inputs = []
        for i, (name, now) in enumerate(zip(self._spec.histories(), columns, strict=True)):
            rows = now[None]
            if state is not None:
                rows = torch.cat([rows, wp.to_torch(getattr(state, name)).reshape(-1, len(now))])
                _write(getattr(pending, name), rows[:-1])
            inputs.append(self._scaled(i, rows[list(self._steps)].T))
        return torch.cat(inputs, dim=1)

    def _recur(self, x: torch.Tensor, state: State | None, pending: State) -> Any:
        n = len(x)
        shape = (self._layers, n, self._hidden)
        before = (wp.to_torch(getattr(state, name)).reshape(shape) for name in self.rows)
        effort, after = torch_files.call_recurrent(
            self.module, x, tuple(part.contiguous().to(x.dtype) for part in before)
        )
        for name, value in zip(self.rows, after, strict=True):
            _write(getattr(pending, name), value)
        return effort


def _write(array: wp.array, values: torch.Tensor) -> None:
    """Write values per DOF into an array of a state, which may have an axis of robots."""
    target = wp.to_torch(array)
    target.copy_(values.reshape(target.shape))


def _gathered(array: wp.array, indices: wp.array) -> Any:
    return wp.to_torch(array)[wp.to_torch(indices.view(wp.int32)).long()]
