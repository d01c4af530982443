# SPDX-License-Identifier: Apache-2.0
"""The error tree. Each error is also the built-in error a caller would expect.

::

    ActuonError
    ├── ParameterError          ValueError                a parameter outside its range, a bad lookup table
    ├── ArrayError              ValueError                an array of the wrong shape, length or device
    │   └── ArrayTypeError      ValueError, TypeError     not an array, or one of the wrong dtype
    ├── MissingArrayError       ValueError, AttributeError   the simulation lacks an array that is needed
    ├── StateError              ValueError                a missing, foreign or wrongly masked state
    ├── StructureError          ValueError, TypeError     a component that cannot be run as it is written
    └── MissingExtraError       ImportError               an optional dependency that is not installed
"""

from __future__ import annotations


class ActuonError(Exception):
    """Base of all errors raised on purpose by Actuon."""


class ParameterError(ActuonError, ValueError):
    """A parameter is outside its allowed range."""


class ArrayError(ActuonError, ValueError):
    """An array has the wrong shape, length or device."""


class ArrayTypeError(ArrayError, TypeError):
    """A value is not an array, or is one of the wrong dtype."""


class MissingArrayError(ActuonError, ValueError, AttributeError):
    """The simulation's state or control lacks an array that the actuator reads or writes."""


class StateError(ActuonError, ValueError):
    """An actuator state is missing, belongs to another actuator, or is reset with a bad mask."""


class StructureError(ActuonError, ValueError, TypeError):
    """A component is written in a way that cannot be run."""


class MissingExtraError(ActuonError, ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs '{package}': install it with  pip install 'actuon[{extra}]'")
