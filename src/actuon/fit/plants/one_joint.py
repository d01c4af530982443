# SPDX-License-Identifier: Apache-2.0
"""One joint of a plant whose joints do not disturb each other: so that each can be searched where there is room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ...logs import Log
from ..models import Model
from ..search_inputs import Described
from .plant import Plant, Scales


@runtime_checkable
class Apart(Plant, Protocol):
    """A plant whose joints do not disturb each other."""

    def errors_of(self, joint: int, model: Model, candidates: np.ndarray) -> np.ndarray:
        """Mean absolute error of one joint's position [rad or m], shape (C, R)."""

    def residuals_of(self, joint: int, model: Model, candidates: np.ndarray) -> list[np.ndarray]:
        """Simulated less measured position of one joint [rad or m] at the samples: R arrays of shape (C, T)."""


class OneJoint:
    """One joint of a plant, as a plant.

    Args:
        plant: With all joints.
        joint: Which one.
    """

    def __init__(self, plant: Apart, joint: int):
        self._plant, self._joint = plant, joint

    @property
    def joints(self) -> tuple[str, ...]:
        """The name of the joint."""
        return (self._plant.joints[self._joint],)

    @property
    def runs(self) -> tuple[Log, ...]:
        """The runs."""
        return self._plant.runs

    def subset(self, runs: Sequence[int]) -> OneJoint:
        """The same plant with some of the runs."""
        part = self._plant.subset(runs)
        assert isinstance(part, Apart)
        return OneJoint(part, self._joint)

    def facts(self) -> dict[str, Any]:
        """See `search_inputs.Described`."""
        facts = self._plant.facts() if isinstance(self._plant, Described) else {"plant": type(self._plant).__qualname__}
        return {**facts, "joints of the plant": ", ".join(self._plant.joints)}

    def errors(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> np.ndarray:
        """Mean absolute error of the position [rad or m], shape (C, R, 1)."""
        return self._plant.errors_of(self._joint, models[0], candidates[0])[..., None]

    def residuals(self, models: Sequence[Model], candidates: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Simulated less measured position [rad or m] at the samples: R arrays of shape (C, T, 1)."""
        return [run[..., None] for run in self._plant.residuals_of(self._joint, models[0], candidates[0])]

    def scales(self) -> list[Scales]:
        """How large efforts, speeds and inertias are."""
        return [self._plant.scales()[self._joint]]
