# SPDX-License-Identifier: Apache-2.0
"""MuJoCo models: loading, robots and names, and fields in many environments."""

from __future__ import annotations

import copy
import functools
import math
import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from ...actuator.state import check_like
from ...errors import RobotFileError, SimulationError, listed
from ...files import check_readable
from ...robot_files.formats import MUJOCO_FORMATS
from ..engine import Undo
from ..robots import DofSet, Robot, RobotKind, grid

_DERIVED = ("body_subtreemass", "body_invweight0", "dof_M0", "dof_invweight0", "tendon_invweight0", "actuator_acc0")
"""Fields that ``mj_setConst`` derives from masses and armatures, and that the constraint solver reads."""


def load_model(path_or_model: Any, dt: float | None) -> Any:
    """Return a new model, with time step ``dt`` [s] if it is given.

    Raises:
        RobotFileError: The file cannot be read, or its time step is invalid.
    """
    where = f"'{path_or_model}'" if isinstance(path_or_model, (str, Path)) else "the model"
    if isinstance(path_or_model, mujoco.MjModel):
        model = copy.copy(path_or_model)
    elif isinstance(path_or_model, mujoco.MjSpec):
        try:
            model = path_or_model.copy().compile()
        except ValueError as error:
            raise RobotFileError(f"the MjSpec cannot be compiled: {' '.join(str(error).split())}") from error
    elif isinstance(path_or_model, (str, Path)):
        model = _read(Path(path_or_model))
    else:
        raise RobotFileError(f"got {path_or_model!r}; must be the path of a model, an MjModel or an MjSpec")
    if dt is not None:
        model.opt.timestep = dt
    elif not 0.0 < model.opt.timestep < math.inf:
        raise RobotFileError(f"{where}: option timestep: got {model.opt.timestep}; must be finite and > 0 [s]")
    # a state that is not finite must be reported, not silently replaced by the first one
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    return model


def _read(path: Path) -> Any:
    check_readable(path, MUJOCO_FORMATS)
    suffix = path.suffix.lower()
    try:
        if suffix == ".mjb":
            model = mujoco.MjModel.from_binary_path(str(path))
        elif suffix == ".urdf":
            model = read_spec(path).compile()
        else:
            model = mujoco.MjModel.from_xml_path(str(path))
        model.names.decode()
    except UnicodeDecodeError as error:
        raise RobotFileError(f"'{path}' cannot be read: a name in it is not valid UTF-8: {error}") from error
    except (ValueError, RuntimeError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        raise RobotFileError(f"'{path}' cannot be read: {' '.join(str(error).split())}") from error
    return model


def spec_reader(path_or_model: Any) -> Callable[[], Any] | None:
    """Return a function that reads the `MjSpec` of a model of `load_model`; None without one."""
    if isinstance(path_or_model, mujoco.MjSpec):
        spec = path_or_model.copy()
        return lambda: spec
    if isinstance(path_or_model, mujoco.MjModel) or Path(path_or_model).suffix.lower() == ".mjb":
        return None
    return functools.partial(read_spec, Path(path_or_model))


def read_spec(path: Path) -> Any:
    """Return the `MjSpec` of an MJCF or URDF file."""
    spec = mujoco.MjSpec.from_file(str(path))
    if path.suffix.lower() == ".urdf":
        spec.compiler.fusestatic = False  # MuJoCo would merge the fixed base into the world and drop its name
    return spec


def find_kinds(model: mujoco.MjModel, tendons: Sequence[tuple[str, int, np.ndarray]] = ()) -> list[RobotKind]:
    """Return the robots of a model: bodies of the world with hinge or slide joints below them.

    Args:
        model: The model.
        tendons: Name of each tendon with a drive, root body of the robot that it moves, and DOFs that it moves.
    """
    hinge, slide = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)
    by_root: dict[int, list[int]] = {}
    for joint in range(model.njnt):
        if model.jnt_type[joint] in (hinge, slide):
            by_root.setdefault(int(model.body_rootid[model.jnt_bodyid[joint]]), []).append(joint)
    free = set(model.jnt_bodyid[model.jnt_type == int(mujoco.mjtJoint.mjJNT_FREE)].tolist())
    of_dofs = ("joint_qd", "joint_target_q", "joint_target_qd", "joint_f")
    kinds = []
    for root, joints in by_root.items():
        names, links = tuple(joint_name(model, j) for j in joints), links_of(model, root)
        dofs, own = model.jnt_dofadr[joints].astype(np.int64), [tendon for tendon in tendons if tendon[1] == root]
        kinds.append(
            RobotKind(
                name=body_name(model, root),
                source_path=f"/{body_name(model, root)}",
                dof_names=names,
                joint_paths=tuple(f"/{name}" for name in names),
                columns={"joint_q": model.jnt_qposadr[joints].astype(np.int64), **dict.fromkeys(of_dofs, dofs)},
                widths={"joint_q": model.nq, **dict.fromkeys(of_dofs, model.nv)},
                links=links,
                link_names=tuple(model.body(int(body)).name for body in links),
                slides=tuple(bool(model.jnt_type[j] == slide) for j in joints),
                is_fixed_base=root not in free,
                tendon_names=tuple(name for name, _, _ in own),
                tendon_dofs=tuple(np.flatnonzero(np.isin(dofs, moved)) for _, _, moved in own),
            )
        )
    return kinds


def place_robots(kinds: Sequence[RobotKind], num_envs: int) -> list[Robot]:
    """Return the robots of all environments."""
    return [
        Robot(kind, env, f"/{kind.name}" if num_envs == 1 else f"/World/envs/env_{env}/{kind.name}")
        for env in range(num_envs)
        for kind in kinds
    ]


def links_of(model: Any, root: int) -> np.ndarray:
    """Return the bodies of the robot below and with body ``root``, shape (L,)."""
    return np.flatnonzero(model.body_rootid == root)


def shown_groups(model: Any) -> np.ndarray:
    """Return which groups of geoms to draw, shape (6,): those of MuJoCo's viewers, or all if these show no robot."""
    shown = np.arange(mujoco.mjNGROUP) < 3
    return shown | (not shown[model.geom_group[model.geom_bodyid > 0]].any())


def body_name(model: Any, body: int) -> str:
    """Return the name of a body, or a unique one if it has none."""
    return model.body(body).name or _new_name(f"body{body}", {model.body(i).name for i in range(model.nbody)})


def joint_name(model: Any, joint: int) -> str:
    """Return the name of a joint, or a unique one if it has none."""
    return model.joint(joint).name or _new_name(f"joint{joint}", {model.joint(i).name for i in range(model.njnt)})


def _new_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def find_keyframe(model: Any, keyframe: str | int | None, where: str) -> int:
    """Return the number of a keyframe; -1 for none.

    Args:
        model: The model.
        keyframe: Its name or number. None: ``"home"``, if the model has it.
        where: Name of the model in an error.

    Raises:
        SimulationError: The keyframe does not exist.
    """
    names = [model.key(i).name for i in range(model.nkey)]
    if keyframe is None:
        return names.index("home") if "home" in names else -1
    if isinstance(keyframe, str) and keyframe and keyframe in names:
        return names.index(keyframe)
    is_number = isinstance(keyframe, (int, np.integer)) and not isinstance(keyframe, bool)
    if is_number and 0 <= int(keyframe) < len(names):
        return int(keyframe)
    if not names:
        raise SimulationError(f"keyframe: got {keyframe!r}, but {where} has no keyframes")
    known = listed(str(keyframe), [name for name in names if name], "keyframes") if any(names) else "none has a name"
    raise SimulationError(
        f"keyframe: got {keyframe!r}; must be the name of a keyframe of {where}, or its number from 0 to "
        f"{len(names) - 1}; {known}"
    )


def why_no_robot(model: Any) -> str:
    """Return why a model has no robot with joints to drive."""
    if not model.njnt:
        return "it has no joints, so that nothing in it moves"
    kinds = {int(mujoco.mjtJoint.mjJNT_FREE): "free", int(mujoco.mjtJoint.mjJNT_BALL): "ball"}
    found = " and ".join(dict.fromkeys(kinds[int(kind)] for kind in model.jnt_type))
    reason = f"its joints are {found}, and none is a hinge or slide"
    if (model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_SITE)).any():
        reason += "; its actuators push at sites, as rotors do"
    return f"{reason}. Actuators here drive hinges and slides; step such a model with MuJoCo itself"


_STRUCTURE = ("id", "adr", "num", "_type", "trntype", "objtype")
"""Endings of fields of whole numbers with types and addresses."""

_ASSETS = ("mesh_", "skin_", "tex_", "bvh_", "oct_", "text_", "plugin_attr")
"""Prefixes of fields of shapes and texts, which never change."""

_PARTS = ("opt", "stat")
"""Parts of a model with further numbers."""


class ModelFields:
    """The fields of the models of all environments, without a model for each.

    Args:
        model: Model that all environments share.
        num_envs: Number of environments, N.
        where: Name of the model in messages.
    """

    def __init__(self, model: mujoco.MjModel, num_envs: int, where: str):
        self.model = model
        """Model that all environments share."""
        self.num_envs = num_envs
        self.where = where
        self.rows: dict[str, np.ndarray] = {}
        """Fields in which environments differ, by name, each of shape (N, ...)."""
        self.version = 0
        """Count of changes of the shared model and of the set of rows. Values in rows may change at any time."""
        self.is_shown = False
        """Whether a user has the shared model, and may write to its options."""
        self.options = model.opt
        """Options of the shared model."""
        public = (name for name in dir(self.options) if not name.startswith("_"))
        self._option_names = [name for name in public if not callable(getattr(self.options, name))]
        self._get_options = operator.attrgetter(*self._option_names)
        self._options: list[Any] = []
        self._others: list[_Other] = []
        """Models of users besides the shared one."""
        self._dt = float(model.opt.timestep)
        self.on_timestep: weakref.WeakMethod[Callable[[], None]] | None = None
        """Called after the time step changed."""
        self._checks: list[Callable[[], None]] = []
        self._checked: tuple[int, int, int] | None = None

    @property
    def dt(self) -> float:
        """Time step of the options [s], which may change between steps."""
        self.gather_options()
        dt = self.options.timestep
        if dt != self._dt:
            if not 0.0 < dt < math.inf:
                raise SimulationError(f"opt.timestep of {self.where}: got {dt}; must be a finite number > 0 [s]")
            self._dt = float(dt)
            self.version += 1
            call = self.on_timestep and self.on_timestep()
            if call:
                call()
        return self._dt

    def rely_on(self, check: Callable[[], None]) -> Undo:
        """Call ``check`` before a step with changed options; it raises an error if a step would ignore values.

        Returns:
            Function that ends this.
        """
        self._checks.append(check)
        self._checked = None
        return lambda: self._checks.remove(check)

    def check_options(self) -> None:
        """Raise an error for options, which users may change, that make MuJoCo ignore written values."""
        if not self._checks:
            return
        self.gather_options()
        flags = self.options.disableflags, self.options.disableactuator, self.options.integrator
        if flags != self._checked:
            for check in self._checks:
                check()
            self._checked = flags

    def view(self, env: int) -> Any:
        """Return the model of an environment, with its fields as arrays."""
        return _View(self, env) if self.rows else self.model

    def read(self, name: str, at: DofSet, columns: np.ndarray) -> np.ndarray:
        """Return a field in the environments of robots, at ``columns`` of shape (d,), shape (n, d, ...)."""
        if name in self.rows:
            return self.rows[name][grid(at.env_index, columns)]
        shared = field(self.model, name)[columns]
        return np.broadcast_to(shared, (len(at), *shared.shape))

    def write(self, name: str, at: DofSet, columns: np.ndarray, values: np.ndarray) -> None:
        """Set the values of `read`. Environments with different values get rows."""
        self.version += 1
        if self._is_shared([name], at, are_alike(values)):
            field(self.model, name)[columns] = values[0]
        else:
            self.make_rows([name])
            self.rows[name][grid(at.env_index, columns)] = values

    def _is_shared(self, names: Sequence[str], at: DofSet, alike: bool) -> bool:
        """Return whether to write the shared model, with equal values of robots if ``alike``."""
        is_everyone = alike and len(at) == self.num_envs and not any(name in self.rows for name in names)
        return self.num_envs == 1 or is_everyone

    def snapshot(self, places: Mapping[str, np.ndarray], at: DofSet) -> Callable[[], set[str]]:
        """Return a function that restores the present values of fields, to the last bit.

        The function returns the names of fields that had changed.

        Args:
            places: Columns of each field, by name.
            at: The robots.
        """

        def now(name: str) -> tuple[np.ndarray, Any]:
            columns = places[name]
            return (
                (self.rows[name], grid(at.env_index, columns))
                if name in self.rows
                else (field(self.model, name), columns)
            )

        kept = {name: values[index].copy() for name in places for values, index in [now(name)]}

        def give_back() -> set[str]:
            changed = set()
            for name, before in kept.items():
                values, index = now(name)
                if (values[index] != before).any():
                    changed.add(name)
                values[index] = before
            self.version += 1
            return changed

        return give_back

    def each(
        self, at: DofSet, names: Sequence[str], read: Callable[[Any, np.ndarray], Sequence[np.ndarray]]
    ) -> list[np.ndarray]:
        """Return the results of ``read`` for a model and the DOFs of robots, each of shape (n, ...).

        It is called once if environments are equal in all fields ``names``.
        """
        columns = at.columns("joint_qd")
        if not any(name in self.rows for name in names):
            return [np.repeat(values[None], len(at), axis=0) for values in read(self.model, columns)]
        return [np.array(values) for values in zip(*(read(self.view(env), columns) for env in at.envs), strict=True)]

    def change(self, names: Sequence[str], at: DofSet, alike: bool) -> Iterator[tuple[int, Any]]:
        """Yield objects to write fields to: the row of a robot, and the model, or a view of it.

        Args:
            names: Fields to write.
            at: The robots.
            alike: Whether all robots get equal values.
        """
        self.version += 1
        if self._is_shared(names, at, alike):
            yield 0, self.model
            return
        self.make_rows(names)
        for row, env in enumerate(at.envs.tolist()):
            yield row, _View(self, env)

    def make_rows(self, names: Iterable[str]) -> None:
        """Create rows for these fields, which start with the shared values."""
        for name in names:
            if name not in self.rows:
                shared = field(self.model, name)
                self.rows[name] = np.repeat(shared[None], self.num_envs, axis=0)
                self.version += 1

    def share(self, model: Any) -> None:
        """Share another model, which differs only in actuators at the end; rows of these start with its values."""
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
        """Copy options that a user wrote to a model other than the shared one."""
        if self._others:
            self._others = [other for other in self._others if self._follow(other)]

    def count_options(self) -> None:
        """Count a change of options that a user wrote to the shared model, if threads have copies of it."""
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
        """Copy options that were written to a model since the last call. Returns False if no user has it."""
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
        """Return the values of the shared model that may change, and the rows, by name, not copied."""
        model = self.model
        found = {f"model/{name}": values for name, values in _fields(model) if not _is_structure(name, values)}
        for part in _PARTS:
            found |= {f"{part}/{name}": np.asarray(value) for name, value in _attributes(getattr(model, part))}
        return found | {f"rows/{name}": rows for name, rows in self.rows.items() if rows.size}

    def structure(self) -> dict[str, np.ndarray]:
        """Return the fields of the shared model with types and addresses, by name."""
        return {name: values for name, values in _fields(self.model) if _is_structure(name, values)}

    def check(self, where: str, found: Mapping[str, np.ndarray]) -> None:
        """Raise an error for values that `take` cannot load."""
        like = {name: values for name, values in self.values().items() if not name.startswith("rows/")}
        rows = {name: values for name, values in found.items() if name.startswith("rows/")}
        for name in rows:
            shared = like.get(name.replace("rows/", "model/", 1), np.zeros(0))
            like[name] = np.broadcast_to(shared, (self.num_envs, *shared.shape))
        for name in sorted(like.keys() | found.keys()):
            check_like(where, f"properties/{name}", found.get(name), like.get(name))

    def take(self, values: Mapping[str, np.ndarray]) -> None:
        """Load the result of `values`, of models with the same structure."""
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
        self._dt, self._checked = float(self.options.timestep), None
        self.version += 1

    def all_rows(self, name: str) -> np.ndarray:
        """Return a field of all environments, to write to at any time, shape (N, ...). It has rows, or N is 1."""
        return self.rows[name] if name in self.rows else field(self.model, name)[None]

    def recompute_constants(self, envs: Iterable[int]) -> None:
        """Update fields that depend on masses and armatures, after these changed in environments."""
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
        """Return the model of an environment for a user, who may write to its options."""
        self.is_shown = True
        if self._others:  # so that at most one without a user is kept
            self._follow(self._others[-1])
        model = self.model_of(env)
        if model is not self.model:
            self._add_other(model)
        return model

    def model_of(self, env: int) -> Any:
        """Return the model of an environment: the shared one, or a copy if it differs."""
        if all(np.array_equal(rows[env], field(self.model, name)) for name, rows in self.rows.items()):
            return self.model
        model = copy.copy(self.model)
        self.load(env, model)
        return model


class _Other:
    """A model of a user besides the shared one, whose options may be written.

    Args:
        model: The model. It is kept until the first check, then as long as a user has it.
        options: Its options.
    """

    def __init__(self, model: Any, options: list[Any]):
        self.model = weakref.ref(model)
        self.unseen: Any = model
        self.options = options


class _View:
    """A model whose fields are the rows of an environment, or those of the shared model."""

    def __init__(self, fields: ModelFields, env: int):
        self._fields, self._env = fields, env

    def __getattr__(self, name: str) -> Any:
        rows = self._fields.rows.get(name)
        return getattr(self._fields.model, name) if rows is None else rows[self._env]


def _is_structure(name: str, values: np.ndarray) -> bool:
    """Return whether a field of a model has types or addresses."""
    return values.dtype.kind in "iu" and name.endswith(_STRUCTURE)


def _fields(model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Return the fields of a model that are not empty, without names and assets."""
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


def are_alike(values: np.ndarray) -> bool:
    """Return whether all rows are equal."""
    return bool((values == values[:1]).all())
