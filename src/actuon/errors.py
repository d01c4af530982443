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
    ├── RobotFileError          ValueError                a robot file that cannot be read, or holds bad values
    ├── LogError                ValueError                a log of a real robot that cannot be read or used
    ├── SimulationError         ValueError                no such robot, a closed simulation, NaN in its state
    ├── ConvergenceError        ArithmeticError           an implicit step whose speeds were not found
    └── MissingExtraError       ImportError               an optional dependency that is not installed
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any


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


class RobotFileError(ActuonError, ValueError):
    """A robot file cannot be read or written, or holds values that are not allowed."""


class LogError(ActuonError, ValueError):
    """A log of a real robot cannot be read, or does not hold what is needed."""


class SimulationError(ActuonError, ValueError):
    """A simulation has no such robot, is closed, or its state is no longer finite."""

    joint: str | None = None
    """Name of the joint that made a simulation diverge, where that is the error."""


class ConvergenceError(ActuonError, ArithmeticError):
    """An implicit step did not converge. It was taken with the best velocities found."""

    def __init__(self, message: str, dofs: Sequence[int], residuals: Sequence[float]):
        super().__init__(message)
        self.dofs = tuple(dofs)
        """Positions of the DOFs in the actuator."""
        self.residuals = tuple(residuals)
        """How far their speeds are off, by Newton's estimate [rad/s or m/s]."""


class MissingExtraError(ActuonError, ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str | None, purpose: str):
        self.package = package
        """Name of the package that is not installed."""
        how = f"'{package}'" if extra is None else f"'actuon[{extra}]', from a checkout '.[{extra}]'"
        super().__init__(f"{purpose} needs '{package}': install it with  pip install {how}")


def listed(name: str, known: Iterable[str], what: str) -> str:
    """The end of a message about an unknown ``name``: what there is, and what may have been meant."""
    known = list(known)
    shown = ", ".join(known[:20]) + (f", and {len(known) - 20} more" if len(known) > 20 else "")
    close = difflib.get_close_matches(name, known, n=1) or [each for each in known if name and name in each]
    return f"{what}: {shown or 'none'}" + (f". Did you mean '{close[0]}'?" if close else "")


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 10
        self.maxstring = self.maxother = self.maxlong = 200

    def repr_array(self, x: Any, level: int) -> str:  # Warp's arrays are called as the standard library's are
        return self.repr_instance(x, level)

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # more than 4300 digits
            return f"a whole number of {x.bit_length()} bits"


_short = _Short()


def shown(value: Any) -> str:
    """``value`` as a message shows it: its ``repr``, shortened where it is long or deep."""
    return _short.repr(value)
