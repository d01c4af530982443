# SPDX-License-Identifier: Apache-2.0
"""Where values lie in the rows of all environments, as slices where they lie side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

_MOST = 64


class Places(dict[tuple[Any, ...], Any]):
    """What was found out about places, by what was asked for. It forgets all where there is too much of it."""

    def keep(self, key: tuple[Any, ...], found: Any) -> Any:
        """Keep and return it."""
        if len(self) >= _MOST:
            self.clear()
        self[key] = found
        return found


def as_slice(indices: np.ndarray) -> Any:
    """Indices without gaps as a slice, which copies nothing."""
    if indices.size and (np.diff(indices) == 1).all():
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def grid(rows: Any, columns: Any) -> Any:
    """What to index with for all of ``columns`` in all of ``rows``, each a slice or indices."""
    return (rows, columns) if isinstance(rows, slice) or isinstance(columns, slice) else np.ix_(rows, columns)
