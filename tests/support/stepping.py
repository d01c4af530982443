# SPDX-License-Identifier: Apache-2.0
"""Two motors beside each other on a robot, in every way of stepping: joints move as in single steps.

An arm has a joint with an implicit PD, and others with a motor of some kind. Arms hang on one base and do not act on
each other, so the first moves the same whatever is beside it.
"""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import actuon
from actuon import lab
from actuon.actuator.config import EFFORT_MODE, EXPLICIT, IMPLICIT, built
from tests.support import built_in
from tests.support.staged import staged

DT, ENVS = 0.004, 2
BURSTS = (1, 3, 12)
FIRST, OTHERS = "a", ("b", "c")
ARM = """<body pos="0 {0} 0"><joint name="{1}" axis="0 1 0" damping="0.1" armature="0.02"/>
<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1" contype="0" conaffinity="0"/></body>"""
MJCF = f"""<mujoco><option timestep="{DT}" integrator="implicitfast"/><worldbody><body name="base">
<geom size="0.05" contype="0" conaffinity="0"/>{"".join(ARM.format(i, n) for i, n in enumerate((FIRST, *OTHERS)))}
</body></worldbody></mujoco>"""
STIFF = actuon.PDControlConfig(400.0, 20.0)
PD = actuon.PDControlConfig(40.0, 1.0)
COUPLED = "TransmissionCoupled"
OWN_KERNEL = "own kernel"
NETWORKS = tuple(name for name in dir(actuon) if name.startswith("ControllerNeural") and name != "ControllerNeural")
KINDS = (*sorted(built_in.components()), *NETWORKS, OWN_KERNEL)
"""Kinds of a stage: every component, networks, and a stage with its own kernel."""
MODES = tuple(EFFORT_MODE.choices or ())
"""Effort modes."""
ENGINES = {"mujoco": actuon.MujocoSimulation, "newton": actuon.NewtonSimulation}

Attached = list[Any]


@functools.cache
def networks() -> dict[str, Path]:
    """Network files by the class of their controller."""
    from tests.support import torch_networks

    folder = Path(tempfile.mkdtemp())
    made = {
        "ControllerNeuralMLP": (torch_networks.mlp(inputs=2), {"input_idx": [0]}),
        "ControllerNeuralLSTM": (torch_networks.LSTM(), {}),
        "ControllerNeuralGRU": (torch_networks.GRU(), {}),
    }
    for name, (module, options) in made.items():
        actuon.save_network(module, folder / f"{name}.safetensors", **options)
    return {name: folder / f"{name}.safetensors" for name in made}


def stages(kind: str, row: int = 0) -> list[Any]:
    """Stages of a motor with a stage of a kind; ``row`` counts joints that a transmission couples."""
    if kind == OWN_KERNEL:
        return list(staged(actuon.ActuatorConfig(PD)).stages)
    if kind in NETWORKS:
        return [actuon.NeuralControlConfig(str(networks()[kind]), effort_scale=5.0)]
    if kind == COUPLED:
        return [PD, actuon.CoupledTransmissionConfig([[1.0, 1.0], [1.0, -1.0]], row)]
    return built_in.stages(kind)


def configs(kind: str, mode: str) -> dict[str, actuon.ActuatorConfig]:
    """Motors of the joints, by name."""
    first = actuon.ActuatorConfig(STIFF, actuon.MaxEffortClampingConfig(60.0), effort_mode=IMPLICIT)
    others = {
        name: actuon.ActuatorConfig(stages=stages(kind, row), effort_mode=mode) for row, name in enumerate(OTHERS)
    }
    return {FIRST: first, **others}


def one_attachment(simulation: Any, kind: str, mode: str) -> Attached:
    pairs = [(config, name) for name, config in configs(kind, mode).items()]
    return [actuon.ArticulationActuators.from_actuators("base", pairs, simulation=simulation)]


def two_attachments(simulation: Any, kind: str, mode: str) -> Attached:
    pairs = [(config, name) for name, config in configs(kind, mode).items()]
    return [
        actuon.ArticulationActuators.from_actuators("base", own, simulation=simulation)
        for own in (pairs[1:], pairs[:1])
    ]


def groups(simulation: Any, kind: str, mode: str) -> Attached:
    def group(names: tuple[str, ...], parts: list[Any], effort_mode: str) -> Any:
        class Parts(lab.IdealPDActuator):
            def make_stages(self) -> list[Any]:
                return [built(part) for part in parts]

        return lab.IdealPDActuatorCfg(
            list(names), stiffness=1.0, damping=0.0, effort_mode=effort_mode, class_type=Parts, seed=3
        )

    own = {"first": group((FIRST,), [STIFF, actuon.MaxEffortClampingConfig(60.0)], IMPLICIT)}
    own |= {name: group((name,), stages(kind), mode) for name in OTHERS}
    return [lab.ActuatorGroups(actuon.Articulation("base", simulation), own)]


PLACES = {each.__name__: each for each in (one_attachment, two_attachments, groups)}
"""Ways to attach motors."""


def singly(simulation: Any, attached: Attached, steps: int) -> None:
    for _ in range(steps):
        simulation.step()


def at_once(simulation: Any, attached: Attached, steps: int) -> None:
    simulation.step(steps)


def by_hand(simulation: Any, attached: Attached, steps: int) -> None:
    for actuators in attached:
        actuators.disable_auto_step_pre_physics()
    for _ in range(steps):
        for actuators in attached:
            actuators.step_actuators(DT)
        simulation.step()


def with_data(simulation: Any, attached: Attached, steps: int) -> None:
    assert simulation.data[0] is not None
    simulation.step(steps)


def with_python_callback(simulation: Any, attached: Attached, steps: int) -> None:
    mujoco.set_mjcb_time(lambda: 0.0)
    try:
        simulation.step(steps)
    finally:
        mujoco.set_mjcb_time(None)


def heard(event: actuon.Event) -> Callable[[Any, Attached, int], None]:
    """Return a way to step while somebody listens to an event."""

    def step(simulation: Any, attached: Attached, steps: int) -> None:
        subscription = simulation.subscribe(event, lambda *_: None)
        simulation.step(steps)
        subscription.cancel()

    return step


def saved_before(simulation: Any, attached: Attached, steps: int) -> None:
    saved = simulation.save_state()
    simulation.step(steps)
    simulation.load_state(saved)
    simulation.step(steps)


WAYS = {each.__name__: each for each in (singly, at_once, by_hand, saved_before)}
WAYS |= {f"heard at {event.value}": heard(event) for event in actuon.Event}
IN_MUJOCO = {each.__name__: each for each in (with_data, with_python_callback)}


@dataclass(frozen=True)
class Cell:
    """A way of stepping, and what is stepped."""

    engine: str
    place: str
    way: str
    kind: str
    mode: str

    @property
    def refused(self) -> str:
        """Part of the error for motors that cannot be; empty if they can."""
        if self.kind in (OWN_KERNEL, COUPLED) and self.mode == IMPLICIT:
            return "brings its own kernels"
        return ""

    @property
    def left_out(self) -> str:
        """Why the cell is empty."""
        if self.way == "by_hand" and self.place == "groups":
            return "groups are not stepped by hand"
        if self.kind == COUPLED and self.place == "groups":
            return "a group has one joint here"
        if self.engine == "newton" and self.way in IN_MUJOCO:
            return "of MuJoCo alone"
        return ""


@functools.cache
def moved(cell: Cell) -> dict[str, np.ndarray]:
    """Positions and applied efforts of all joints after each burst of steps, shape (bursts, environments, joints)."""
    if cell.engine == "newton":
        pytest.importorskip("newton")
    made: dict[str, list[np.ndarray]] = {"position": [], "effort": []}
    rng = np.random.default_rng(4)
    with ENGINES[cell.engine](_file(), ENVS, DT) as simulation:
        robots = actuon.Articulation("base", simulation)
        attached = PLACES[cell.place](simulation, cell.kind, cell.mode)
        for steps in BURSTS:
            robots.set_dof_position_targets(rng.uniform(-0.4, 0.4, (ENVS, 3)))
            (WAYS | IN_MUJOCO)[cell.way](simulation, attached, steps)
            made["position"].append(robots.get_dof_positions().numpy().copy())
            made["effort"].append(robots.get_dof_efforts().numpy().copy())
        for actuators in attached:
            actuators.close()
    return {name: np.array(values) for name, values in made.items()}


@functools.cache
def _file() -> Path:
    path = Path(tempfile.mkdtemp()) / "arms.xml"
    path.write_text(MJCF)
    return path


def cells(kinds: Any = KINDS, engines: Any = tuple(ENGINES), modes: Any = MODES) -> list[Cell]:
    """Return all cells of these kinds, engines and modes."""
    every = (
        Cell(engine, place, way, kind, mode)
        for engine in engines
        for kind in kinds
        for mode in modes
        for place in PLACES
        for way in (*WAYS, *IN_MUJOCO)
    )
    return [cell for cell in every if not cell.left_out]


PLAIN = "ControllerPD"


def check(cell: Cell) -> None:
    """Check a cell: all joints move as in single steps, the first one as beside any other motor.

    Motors that cannot be are refused by name.
    """
    if cell.refused:
        with pytest.raises(actuon.ActuonError, match=cell.refused):
            moved(cell)
        return
    found, expected = moved(cell), moved(dataclasses.replace(cell, way=singly.__name__))
    alone = moved(Cell(cell.engine, one_attachment.__name__, singly.__name__, PLAIN, EXPLICIT))
    for name, values in found.items():
        assert np.isfinite(values).all()
        np.testing.assert_array_equal(values, expected[name], err_msg=f"{cell} {name}")
        np.testing.assert_allclose(values[..., 0], alone[name][..., 0], atol=1e-4, err_msg=f"{cell} {name}")
    assert np.abs(found["position"]).max(axis=(0, 1)).min() > 1e-3, f"{cell}: a joint stays"
