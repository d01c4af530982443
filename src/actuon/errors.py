# SPDX-License-Identifier: Apache-2.0
"""Exceptions of Actuon. Each is also the built-in exception that fits.

::

    ActuonError
    ├── ParameterError          ValueError                a parameter outside its range, a bad lookup table
    ├── ArrayError              ValueError                an array of the wrong shape, length or device
    │   └── ArrayTypeError      ValueError, TypeError     not an array, or one of the wrong dtype
    ├── MissingArrayError       ValueError, AttributeError   the simulation lacks a required array
    ├── StateError              ValueError                a missing, foreign or wrongly masked state
    ├── StructureError          ValueError, TypeError     a component or actuator that cannot run
    ├── RobotFileError          ValueError                a robot file that cannot be read, or has bad values
    ├── LogError                ValueError                a log of a real robot that cannot be read or used
    ├── SimulationError         ValueError                no such robot, a closed simulation, NaN in its state
    ├── ConvergenceError        ArithmeticError           an implicit step that did not converge
    └── MissingExtraError       ImportError               an optional dependency that is not installed
"""

from __future__ import annotations

import array
import contextlib
import difflib
import importlib.util
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class _Wording:
    """Words of an error that differ between Python and the command line."""

    python: str
    """Words in Python."""
    command: str
    """Words on the command line."""


class Fix(_Wording):
    """Advice at the end of an error's text."""


class Option(_Wording):
    """Name of an argument, and of its option, at the start of an error's text."""


class ActuonError(Exception):
    """Base of all errors that Actuon raises.

    Args:
        args: Text of the error.
        fix: Advice that differs between Python and the command line.
        option: Wrong argument that is also an option of the command line.
    """

    where: tuple[str | Option, ...] = ()
    """Places at the start of the text, outermost first: a file, a joint, a stage."""
    fix: Fix | None = None

    def __init__(self, *args: object, fix: Fix | None = None, option: Option | None = None):
        super().__init__(*args)
        if fix is not None:
            self.fix = fix
        if option is not None:
            self.where = (option,)

    def __str__(self) -> str:
        return self._text(lambda words: words.python)

    def in_command(self) -> str:
        """Return the text for the command line."""
        return self._text(lambda words: words.command)

    def _text(self, chosen: Callable[[_Wording], str]) -> str:
        places = (chosen(place) if isinstance(place, Option) else place for place in self.where)
        return ": ".join((*places, super().__str__())) + (chosen(self.fix) if self.fix else "")


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
    """A component, or the stages of an actuator, cannot run."""


class RobotFileError(ActuonError, ValueError):
    """A robot file cannot be read or written, or has values that are not allowed."""


class LogError(ActuonError, ValueError):
    """A log of a real robot cannot be read, or lacks required columns."""


class SimulationError(ActuonError, ValueError):
    """A simulation has no such robot, is closed, or its state is not finite."""

    joint: str | None = None
    """Name of the joint that made the simulation diverge; None for other errors."""
    diverged: Mapping[int, str | None] = MappingProxyType({})
    """Environments that stopped because they diverged, with the joint that caused it; None for a base. The others have
    taken all steps."""


class ConvergenceError(ActuonError, ArithmeticError):
    """An implicit step did not converge. The step used the best velocities found."""

    def __init__(self, message: str, dofs: Sequence[int], residuals: Sequence[float]):
        super().__init__(message)
        self.dofs = tuple(dofs)
        """Positions of the DOFs in the actuator."""
        self.residuals = tuple(residuals)
        """Estimated errors of their velocities [rad/s or m/s]."""


class MissingExtraError(ActuonError, ImportError):
    """A required optional dependency is not installed."""

    def __init__(self, package: str, extra: str | None, purpose: str, *others: str):
        self.package = package
        """Name of the package that is not installed, or of the first one."""
        how = f"'{package}'" if extra is None else f"'actuon[{extra}]', from a checkout '.[{extra}]'"
        named, it = ", ".join(f"'{name}'" for name in (package, *others)), "them" if others else "it"
        super().__init__(f"{purpose} needs {named}: install {it} with  pip install {how}")


def require(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional dependency.

    Args:
        module: Name, such as ``"scipy.signal"``.
        extra: Extra of Actuon that installs it.
        purpose: Feature that needs it, for the message.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(module.partition(".")[0], extra, purpose) from error


def check_installed(modules: Iterable[str], extra: str, purpose: str) -> None:
    """Check that modules of optional dependencies are installed, without importing them. See `require`.

    Raises:
        MissingExtraError: Some are not installed; names them all.
    """
    missing = [name for name in modules if not _is_installed(name)]
    if missing:
        raise MissingExtraError(missing[0], extra, purpose, *missing[1:])


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # of the package that it is in
        return False
    except ValueError:  # a module without a specification is loaded
        return True


@contextlib.contextmanager
def located(where: object, kind: type[ActuonError] | None = None) -> Iterator[None]:
    """Prepend a place to `ActuonError.where` of errors in the block.

    Args:
        where: Place, such as the path of a file, ``"joint 'knee'"`` or an `Option`.
        kind: Error class that the caller documents. Other errors of Actuon, except a missing extra, are raised as this
            class.
    """
    try:
        yield
    except ActuonError as error:
        places = (where if isinstance(where, Option) else str(where), *error.where)
        if kind is None or isinstance(error, (kind, MissingExtraError)):
            error.where = places
            raise
        promised = kind(*error.args, fix=error.fix)
        promised.where = places
        raise promised from error


def refuse_where(bad: ArrayLike, message: str, **values: ArrayLike) -> None:
    """Raise a `ParameterError` if any entry of ``bad`` is true.

    Args:
        bad: Flag of values that are not allowed: one, or one per DOF.
        message: Format of the text. ``{at}`` becomes ``" at index 3"``, or empty for a single flag; other names become
            the entry of ``values`` at that index.
        values: Numbers for the message, each one for all DOFs or one per DOF.
    """
    flags = np.asarray(bad)
    if not flags.any():
        return
    first = int(np.argmax(flags))
    got = {name: np.broadcast_to(np.asarray(value), flags.shape).flat[first] for name, value in values.items()}
    raise ParameterError(message.format(at=f" at index {first}" if flags.ndim else "", **got))


def listed(name: str, known: Iterable[str], what: str) -> str:
    """Return the end of a message about an unknown ``name``: known names and the closest match."""
    known = list(known)
    shown = ", ".join(known[:20]) + (f", and {len(known) - 20} more" if len(known) > 20 else "")
    close = [each for each in known if name and each.endswith(f".{name}")]  # "kp" for "controller.kp"
    close = close or difflib.get_close_matches(name, known, n=1) or [each for each in known if name and name in each]
    return f"{what}: {shown or 'none'}" + (f". Did you mean '{close[0]}'?" if close else "")


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 10
        self.maxstring = self.maxother = self.maxlong = 200

    def repr_array(
        self, x: array.array[Any], level: int
    ) -> str:  # reprlib selects by class name, which Warp's arrays share with array.array
        return self.repr_instance(x, level)

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:  # more than 4300 digits
            return f"a whole number of {x.bit_length()} bits"


_short = _Short()


def shown(value: object) -> str:
    """Return the ``repr`` of ``value`` for a message, shortened if it is long or deep."""
    return _short.repr(value)
