# SPDX-License-Identifier: Apache-2.0
"""The `ArticulationActuators` node of OmniGraph. The ``.ogn`` file next to it declares its attributes."""

from __future__ import annotations

import json
import math
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ActuonError, SimulationError
from ...sim import Simulation, current_simulation
from ...sim.events import refuse_copies
from ..articulation_actuators import ArticulationActuators

NAME = "ArticulationActuators"
NODE_TYPE = f"actuon.graph.{NAME}"
"""Node type: OmniGraph prefixes the name in the ``.ogn`` file with that of the extension."""


class ActuatorsState:
    """State of one node between pulses: its actuators, and the path that they were built for."""

    __reduce_ex__ = refuse_copies

    def __init__(self) -> None:
        self.actuators: ArticulationActuators | None = None
        self._path = ""

    def pulse(self, inputs: Any, simulation: Simulation, allow_torch: bool) -> None:
        """Run a pulse at ``execIn``.

        Args:
            inputs: The node's inputs, by name.
            simulation: Simulation of the robot.
            allow_torch: Let the robot's file name PyTorch networks. A graph cannot allow this, as it is a file as well.
        """
        auto = bool(inputs.autoStepPrePhysics)
        actuators = self._prepare(inputs.robotPath, simulation, auto, allow_torch)
        if auto:
            actuators.enable_auto_step_pre_physics()
        else:
            actuators.disable_auto_step_pre_physics()
        _feed_forward(actuators, inputs.feedforwardCommand, inputs.indices, inputs.dofIndices)
        if not auto:
            actuators.step_actuators(_time_step(inputs.stepDt, simulation))

    def _prepare(self, path: Any, simulation: Simulation, auto: bool, allow_torch: bool) -> ArticulationActuators:
        """Return the actuators of the robot at ``path``: the existing or new ones."""
        kept = self.actuators
        if kept is not None and path == self._path and kept.articulation.simulation is simulation:
            return kept
        self.close()
        if not isinstance(path, str) or not path:
            raise SimulationError(f"robotPath: got {path!r}; must be the path or name of a robot, such as '/Robot'")
        self.actuators = ArticulationActuators(
            path,
            auto_step_pre_physics=auto,
            simulation=simulation,
            allow_unsafe_torch_checkpoints=allow_torch,
        )
        self._path = path
        return self.actuators

    def close(self) -> None:
        """Restore the engine drives. May be called again."""
        if self.actuators is not None:
            self.actuators.close()
        self.actuators = None


class OgnArticulationActuators:
    """Node that drives robots with the actuators of their file."""

    OGN: dict[str, Any] = json.loads(Path(__file__).with_suffix(".ogn").read_text("utf-8"))[NAME]
    """Content of the ``.ogn`` file."""

    @staticmethod
    def internal_state() -> ActuatorsState:
        """Return the state of a node, which OmniGraph passes to `compute` as ``db.per_instance_state``."""
        return ActuatorsState()

    @staticmethod
    def compute(db: Any) -> bool:
        """Run a pulse at ``execIn``.

        Returns:
            True on success. Otherwise ``db.log_error`` receives the reason, and ``execOut`` no pulse.
        """
        try:
            state = _state_of(db)
            simulation = getattr(db, "simulation", None) or current_simulation()
            state.pulse(
                db.inputs,
                simulation,
                getattr(db, "allow_unsafe_torch_checkpoints", False),
            )
            db.outputs.execOut = _enabled()
        except Exception as error:  # a graph continues without the node that failed
            db.log_error(str(error) if isinstance(error, ActuonError) else f"{type(error).__name__}: {error}")
            return False
        return True

    @staticmethod
    def release_instance(node: Any, graph_instance_id: Any) -> None:
        """Release the robot when an instance of the graph is removed."""
        state = _states.pop((node.node_id(), graph_instance_id), None)
        if state is not None:
            state.close()

    @staticmethod
    def release(node: Any) -> None:
        """Release the robot when the node is removed, with all instances of its graph."""
        for node_id, instance in list(_states):
            if node_id == node.node_id():
                OgnArticulationActuators.release_instance(node, instance)


_states: weakref.WeakValueDictionary[tuple[Any, Any], ActuatorsState] = weakref.WeakValueDictionary()
"""States by node and instance of its graph, since OmniGraph names only these when it releases a node."""


def _state_of(db: Any) -> ActuatorsState:
    # Before Kit 105.1 it was called internal_state, which is deprecated since and would warn.
    state: ActuatorsState = db.per_instance_state if hasattr(db, "per_instance_state") else db.internal_state
    node = getattr(db, "abi_node", None)
    if node is not None:
        _states[node.node_id(), node.get_graph_instance_id()] = state
    return state


def _enabled() -> Any:
    """Return the value that fires an execution output: OmniGraph's own if it is loaded."""
    og = sys.modules.get("omni.graph.core")
    return 1 if og is None else og.ExecutionAttributeState.ENABLED


def _feed_forward(actuators: ArticulationActuators, command: Any, indices: Any, dof_indices: Any) -> None:
    efforts = np.asarray(command, dtype=np.float32).ravel()
    if not efforts.size:
        return
    articulation = actuators.articulation
    robots, dofs = (None if not len(chosen) else np.asarray(chosen) for chosen in (indices, dof_indices))
    shape = (
        len(articulation) if robots is None else len(robots),
        articulation.num_dofs if dofs is None else len(dofs),
    )
    if efforts.size not in (1, shape[1], shape[0] * shape[1]):
        raise SimulationError(
            f"feedforwardCommand: got {efforts.size} values; must be none, 1, {shape[1]} (one for each DOF), or "
            f"{shape[0]} × {shape[1]} (for each robot)"
        )
    values = efforts.reshape(shape) if efforts.size == shape[0] * shape[1] else efforts
    actuators.set_dof_feedforward_effort_targets(values, indices=robots, dof_indices=dofs)


def _time_step(step_dt: Any, simulation: Simulation) -> float:
    dt = float(step_dt)
    if not 0.0 <= dt < math.inf:
        raise SimulationError(f"stepDt: got {dt}; must be finite and ≥ 0 [s], where 0 means the simulation's step")
    return dt or simulation.dt
