# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks with a dense head, as PyTorch scripts them. Only for who has PyTorch."""

from __future__ import annotations

import torch


class LSTM(torch.nn.Module):
    """One layer of so many units over position error and velocity, and a head."""

    def __init__(self, width: int):
        super().__init__()
        self.rnn = torch.nn.LSTM(2, width, batch_first=True)
        self.head = torch.nn.Linear(width, 1)

    def forward(
        self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """The output for inputs of shape (N, steps, 2), shape (N, 1), and the state after them."""
        out, after = self.rnn(x, state)
        return self.head(out[:, -1]), after


class GRU(torch.nn.Module):
    """One layer of so many units over position error and velocity, and a head."""

    def __init__(self, width: int):
        super().__init__()
        self.rnn = torch.nn.GRU(2, width, batch_first=True)
        self.head = torch.nn.Linear(width, 1)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The output for inputs of shape (N, steps, 2), shape (N, 1), and the state after them."""
        out, after = self.rnn(x, state)
        return self.head(out[:, -1]), after
