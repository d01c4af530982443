# SPDX-License-Identifier: Apache-2.0
"""`Uncopyable`: a base for what holds something outside of itself."""

from __future__ import annotations

from typing import NoReturn

from ..errors import StructureError


class Uncopyable:
    """Refuses to be copied or pickled: a copy would close, or cancel, what the original still uses."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise StructureError(
            f"{type(self).__name__} cannot be copied or pickled: what it holds in a simulation has one owner. Use the "
            "object itself, or make another"
        )
