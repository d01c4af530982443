# SPDX-License-Identifier: Apache-2.0
"""One model for all environments, and rows of those of its fields in which they differ."""

from __future__ import annotations

import copy
import operator
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...actuator.state import check_like


@dataclass(frozen=True)
class Property:
    """Where a model holds a property of its DOFs."""

    of_dof: str
    """Field of the DOFs."""
    of_actuator: str = ""
    """Field of actuators that the engine adds to it, times the square of their ratio to the joint."""
    term: int | None = None
    """Column of both fields, where these are polynomials."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of both fields."""
        return (self.of_dof, self.of_actuator) if self.of_actuator else (self.of_dof,)

    def values(self, model: Any, name: str) -> np.ndarray:
        """Return one of the fields, shape (DOFs,) or (actuators,), to read and write."""
        values = field(model, name)
        return values if self.term is None else values[:, self.term]


PROPERTIES = {
    "armature": Property("dof_armature", "actuator_armature"),
    "friction": Property("dof_frictionloss"),
    "viscous_friction": Property("dof_damping", "actuator_damping"),
    "quadratic_friction": Property("dof_dampingpoly", "actuator_dampingpoly", 0),
    "cubic_friction": Property("dof_dampingpoly", "actuator_dampingpoly", 1),
}
"""Properties of DOFs, by name."""

_DERIVED = ("body_subtreemass", "body_invweight0", "dof_M0", "dof_invweight0", "tendon_invweight0", "actuator_acc0")
"""What ``mj_setConst`` makes of masses and armatures, and the constraint solver reads."""

_STRUCTURE = ("id", "adr", "num", "_type", "trntype", "objtype")
"""How fields of whole numbers end that say what and where things are."""

_ASSETS = ("mesh_", "skin_", "tex_", "bvh_", "oct_", "text_", "plugin_attr")
"""How fields begin that hold shapes and texts, which nobody changes."""

_PARTS = ("opt", "stat")
"""Parts of a model that hold numbers beside its fields."""


class ModelFields:
    """The fields of the models of all environments, without a model for each.

    Args:
        mujoco: The module.
        model: What all environments share.
        num_envs: Number of environments, N.
    """

    def __init__(self, mujoco: Any, model: Any, num_envs: int):
        self._mujoco = mujoco
        self.model = model
        """What all environments share."""
        self.num_envs = num_envs
        self.rows: dict[str, np.ndarray] = {}
        """Fields in which environments differ, by name, each of shape (N, ...)."""
        self.version = 0
        """Counts changes of the shared model and of which fields have rows. Values in rows may change at any time."""
        self.is_shown = False
        """Whether somebody has the shared model, and may write into its options."""
        self.options = model.opt
        """Those of the shared model."""
        public = (name for name in dir(self.options) if not name.startswith("_"))
        self._option_names = [name for name in public if not callable(getattr(self.options, name))]
        self._get_options = operator.attrgetter(*self._option_names)
        self._options: list[Any] = []
        self._others: list[_Other] = []
        """Models that somebody has beside the shared one."""

    def view(self, env: int) -> Any:
        """The model of an environment, as far as its fields are read and written as arrays."""
        return _View(self, env) if self.rows else self.model

    def to_change(self, names: Sequence[str], envs: Sequence[int], alike: bool) -> Iterator[tuple[int, Any]]:
        """What to write fields into.

        Args:
            names: Fields that are about to be written.
            envs: Environments to change, of which some may be the same.
            alike: Whether all get the same values.

        Yields:
            Position in ``envs``, and the model, or a view of it, to write its values into.
        """
        self.version += 1
        shared = alike and len(set(envs)) == self.num_envs and not any(name in self.rows for name in names)
        if self.num_envs == 1 or shared:
            yield from ((i, self.model) for i, env in enumerate(envs) if env == 0)
            return
        self.make_rows(names)
        for i, env in enumerate(envs):
            yield i, _View(self, int(env))

    def make_rows(self, names: Iterable[str]) -> None:
        """Let environments differ in these fields. They begin with what they share."""
        for name in names:
            if name not in self.rows:
                shared = field(self.model, name)
                self.rows[name] = np.repeat(shared[None], self.num_envs, axis=0)
                self.version += 1

    def share(self, model: Any) -> None:
        """Share another model, of the same parts but for actuators at the end; rows of these begin as it has them."""
        for name, rows in self.rows.items():
            shared = field(model, name)
            if shared.shape != rows.shape[1:]:
                common = (slice(None), *(slice(min(pair)) for pair in zip(shared.shape, rows.shape[1:], strict=True)))
                self.rows[name] = np.repeat(shared[None], self.num_envs, axis=0)
                self.rows[name][common] = rows[common]
        self._others = [other for other in self._others if other.model() is not model]
        if self.is_shown:
            self._add_other(self.model)
        self.model, self.options = model, model.opt
        self.version += 1

    def gather_options(self) -> None:
        """Take over options that somebody wrote into a model that was shown, other than the shared one."""
        if self._others:
            self._others = [other for other in self._others if self._follow(other)]

    def count_options(self) -> None:
        """Count a change of options that somebody wrote into the shared model, where threads have copies of it."""
        if self.rows and self.is_shown:
            now = self._read_options(self.model)
            self.version += now != self._options
            self._options = now

    def _read_options(self, model: Any) -> list[Any]:
        values = self._get_options(model.opt)
        return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]

    def _add_other(self, model: Any) -> None:
        self._others.append(_Other(model, self._read_options(model)))

    def _follow(self, other: _Other) -> bool:
        """Take over options that were written into a model since the last look. False where nobody has it any more."""
        model, other.unseen = other.model(), None
        if model is None:
            return False
        before, other.options = other.options, self._read_options(model)
        if before != other.options:
            for name, old, new in zip(self._option_names, before, other.options, strict=True):
                if new != old:
                    setattr(self.options, name, new)
        return True

    def values(self) -> dict[str, np.ndarray]:
        """Return what can be changed in the shared model, and the rows, by name, not copied."""
        model = self.model
        found = {f"model/{name}": values for name, values in _fields(model) if not _is_structure(name, values)}
        for part in _PARTS:
            found |= {f"{part}/{name}": np.asarray(value) for name, value in _attributes(getattr(model, part))}
        return found | {f"rows/{name}": rows for name, rows in self.rows.items() if rows.size}

    def structure(self) -> dict[str, np.ndarray]:
        """Return the fields of the shared model that say what and where things are, by name."""
        return {name: values for name, values in _fields(self.model) if _is_structure(name, values)}

    def check(self, where: str, found: Mapping[str, np.ndarray]) -> None:
        """Refuse what `take` cannot take over."""
        like = {name: values for name, values in self.values().items() if not name.startswith("rows/")}
        rows = {name: values for name, values in found.items() if name.startswith("rows/")}
        for name in rows:
            shared = like.get(name.replace("rows/", "model/", 1), np.zeros(0))
            like[name] = np.broadcast_to(shared, (self.num_envs, *shared.shape))
        for name in sorted(like.keys() | found.keys()):
            check_like(where, f"properties/{name}", found.get(name), like.get(name))

    def take(self, values: Mapping[str, np.ndarray]) -> None:
        """Take over what `values` gave, of models with the same structure."""
        rows = {name.removeprefix("rows/"): new for name, new in values.items() if name.startswith("rows/")}
        self.make_rows(rows)
        for name, own in _fields(self.model):
            if not _is_structure(name, own):
                own[...] = values[f"model/{name}"]
        for part in _PARTS:
            held = getattr(self.model, part)
            for name, _ in _attributes(held):
                setattr(held, name, values[f"{part}/{name}"].tolist())
        for name, own in self.rows.items():
            own[...] = rows.get(name, field(self.model, name))
        self.version += 1

    def all_rows(self, name: str) -> np.ndarray:
        """A field of all environments, to write into at any time, shape (N, ...). It has rows, or N is one."""
        return self.rows[name] if name in self.rows else field(self.model, name)[None]

    def settle(self, envs: Iterable[int]) -> None:
        """Bring up to date what follows from masses and armatures that were changed in these environments."""
        mujoco = self._mujoco
        self.version += 1
        if not self.rows:
            mujoco.mj_setConst(self.model, mujoco.MjData(self.model))
            return
        model = copy.copy(self.model)
        data = mujoco.MjData(model)
        self.make_rows(name for name in _DERIVED if hasattr(model, name))
        for env in envs:
            self.load(env, model)
            mujoco.mj_setConst(model, data)
            for name in _DERIVED:
                if name in self.rows:
                    self.rows[name][env] = field(model, name)

    def load(self, env: int, model: Any) -> None:
        """Write the rows of an environment into a model."""
        for name, rows in self.rows.items():
            field(model, name)[...] = rows[env]

    def show(self, env: int) -> Any:
        """The model of an environment, for somebody who may write into its options."""
        self.is_shown = True
        if self._others:  # so that no more than one is kept that nobody has
            self._follow(self._others[-1])
        model = self.model_of(env)
        if model is not self.model:
            self._add_other(model)
        return model

    def model_of(self, env: int) -> Any:
        """The model of an environment: the shared one, or a copy where it differs from that."""
        if all(np.array_equal(rows[env], field(self.model, name)) for name, rows in self.rows.items()):
            return self.model
        model = copy.copy(self.model)
        self.load(env, model)
        return model


class _Other:
    """A model that somebody has beside the shared one, and may write options into.

    Args:
        model: The model. It is kept until it was looked at, then as long as somebody has it.
        options: What it has.
    """

    def __init__(self, model: Any, options: list[Any]):
        self.model = weakref.ref(model)
        self.unseen: Any = model
        self.options = options


class _View:
    """A model whose fields are the rows of an environment, or else those of the shared model."""

    def __init__(self, fields: ModelFields, env: int):
        self._fields, self._env = fields, env

    def __getattr__(self, name: str) -> Any:
        rows = self._fields.rows.get(name)
        return getattr(self._fields.model, name) if rows is None else rows[self._env]


def _is_structure(name: str, values: np.ndarray) -> bool:
    """Return whether a field of a model says what and where things are."""
    return values.dtype.kind in "iu" and name.endswith(_STRUCTURE)


def _fields(model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Return the fields of a model that are not empty, but for names and assets."""
    for name, values in _attributes(model):
        if isinstance(values, np.ndarray) and values.size and not name.startswith(("name", "path", *_ASSETS)):
            yield name, values


def _attributes(part: Any) -> Iterator[tuple[str, Any]]:
    """Return the public attributes of a model, or of a part of it, without methods."""
    for name in dir(part):
        if not name.startswith("_") and not callable(value := getattr(part, name)):
            yield name, value


def field(model: Any, name: str) -> np.ndarray:
    """Return a field of a model as an array to read and write."""
    return np.asarray(getattr(model, name))
