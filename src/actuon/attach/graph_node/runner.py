# SPDX-License-Identifier: Apache-2.0
"""`GraphRunner`: runs an action graph of a USD stage on a simulation."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ActuonError, RobotFileError, SimulationError
from ...sim import Event, Simulation, current_simulation
from ...sim.events import Subscription, refuse_copies
from ...typing import PathLike
from .node_types import NODE_TYPES, PHYSICS_STEP, TARGET, TICK
from .reading import Node, find_graph, read_nodes

if TYPE_CHECKING:
    from pxr import Sdf, Usd

_log = logging.getLogger("actuon.graph")


@dataclass(frozen=True)
class Pulse:
    """A pulse, which starts a run of the graph."""

    event: str
    dt: float
    """Simulated time since the last pulse [s]."""
    time: float
    """Simulated time [s]."""
    frame: int
    """Number of earlier pulses."""
    system_dt: float
    """Wall-clock time since the last pulse [s]."""


class NodeDatabase:
    """Argument of ``compute(db)``: a node's values and state, with the names of OmniGraph.

    ``simulation``, ``pulse``, ``in_physics_step`` and ``allow_unsafe_torch_checkpoints`` are not in OmniGraph.
    """

    def __init__(
        self, node: Node, inputs: SimpleNamespace, simulation: Simulation, pulse: Pulse, allow_torch: bool = False
    ):
        self.node = self.abi_node = node
        self.inputs = inputs
        self.outputs = node.outputs
        self.per_instance_state = node.state
        self.simulation = simulation
        self.pulse = pulse
        self.in_physics_step = pulse.event == PHYSICS_STEP
        self.allow_unsafe_torch_checkpoints = allow_torch
        self.error: str | None = None

    def log_error(self, message: str) -> None:
        """Report why the node failed. The runner logs it once, until it changes."""
        self.error = str(message)

    def log_warning(self, message: str) -> None:
        """Log a warning."""
        _log.warning("%s: %s", self.node.path, message)

    def log_info(self, message: str) -> None:
        """Log information."""
        _log.info("%s: %s", self.node.path, message)


class GraphRunner:
    """Runner of an action graph of ``OmniGraph`` and ``OmniGraphNode`` prims on a simulation.

    ``OnTick`` and ``OnPlaybackTick`` nodes start the graph at each `tick`, ``OnPhysicsStep`` nodes before each step of
    physics. Values are read from the stage at each pulse, so that edits act at the next one; nodes and connections are
    read once. The graph runs until `close`, or until the simulation is closed. A node that fails logs an error to
    ``actuon.graph``, and its outputs are not pulsed.

    Args:
        stage: A ``Usd.Stage``, or a USD file.
        graph_path: The ``OmniGraph`` prim. Default: the only one.
        simulation: Default: the current one.
        node_types: Node types by name. Default: `NODE_TYPES`.
        allow_unsafe_torch_checkpoints: Let robots' files name ``.pt`` and ``.pt2`` networks. Loading one can run code.

    Raises:
        RobotFileError: There is no such graph, or it cannot be run.
        SimulationError: There is no simulation.

    Examples:
        >>> with actuon.NewtonSimulation(actuon.assets.quadruped_graph_usd) as simulation:
        ...     runner = actuon.graph.GraphRunner(simulation.stage)
        ...     simulation.step(2)
        ...     print(runner.errors)
        ...     runner.close()
        {}
    """

    __reduce_ex__ = refuse_copies

    def __init__(
        self,
        stage: Usd.Stage | PathLike,
        graph_path: str | Sdf.Path | None = None,
        simulation: Simulation | None = None,
        *,
        node_types: Mapping[str, type[object]] = NODE_TYPES,
        allow_unsafe_torch_checkpoints: bool = False,
    ):
        from ...robot_files.usd.stage import open_stage, stage_or_current

        self.simulation = simulation or current_simulation()
        if self.simulation.is_closed:
            raise SimulationError("the simulation is closed")
        self.stage = open_stage(stage) if isinstance(stage, (str, os.PathLike)) else stage_or_current(stage)
        graph = find_graph(self.stage, graph_path)
        self.graph_path = str(graph.GetPath())
        self._allow_torch = allow_unsafe_torch_checkpoints
        self.nodes = {node.path: node for node in read_nodes(graph, node_types)}
        """Nodes by path."""
        self.errors: dict[str, str] = {}
        """Errors of nodes in their last run, by path."""
        for node in self.nodes.values():
            make = getattr(node.implementation, "internal_state", None)
            node.state = make() if make else SimpleNamespace()
        self._frames = {TICK: 0, PHYSICS_STEP: 0}
        self._last_time = self.simulation.time
        self._last_clock = dict.fromkeys(self._frames, time.perf_counter())
        self._closed = False
        self._subscription: Subscription | None = None
        """Subscription to steps of physics, while a node starts pulses there: a simulation without callbacks takes many
        steps at once."""
        if self._started_by(PHYSICS_STEP):
            self._subscription = self.simulation.subscribe(Event.PRE_STEP, lambda _, dt: self._start(PHYSICS_STEP, dt))

    def tick(self) -> bool:
        """Advance by a frame: pulse the ``OnTick`` and ``OnPlaybackTick`` nodes.

        Returns:
            True if no node failed. Otherwise, see `errors`.

        Examples:
            >>> with actuon.NewtonSimulation(actuon.assets.quadruped_graph_usd) as simulation:
            ...     runner = actuon.graph.GraphRunner(simulation.stage)
            ...     print(runner.tick())
            ...     runner.close()
            True
        """
        if self._closed:
            raise SimulationError(f"the runner of {self.graph_path} is closed")
        if self.simulation.is_closed:
            raise SimulationError(f"the simulation that {self.graph_path} runs on is closed; make another GraphRunner")
        now, before = self.simulation.time, self._last_time
        self._last_time = now
        return self._start(TICK, max(now - before, 0.0))

    def _start(self, event: str, dt: float) -> bool:
        clock = time.perf_counter()
        pulse = Pulse(event, dt, self.simulation.time, self._frames[event], clock - self._last_clock[event])
        self._frames[event] += 1
        self._last_clock[event] = clock
        self._drop_removed()
        results = [self._run(node, pulse) for node in self._started_by(event)]
        return all(results)

    def _started_by(self, event: str) -> list[Node]:
        """Return the nodes that start pulses at an event."""
        return [node for node in self.nodes.values() if getattr(node.implementation, "event", None) == event]

    def _drop_removed(self) -> None:
        """Release nodes that were removed from the stage, alone or with their graph."""
        gone = [path for path, node in self.nodes.items() if not node.prim.IsValid()]
        for path in gone:
            _release(self.nodes.pop(path))
            self.errors.pop(path, None)
        if gone and not self._started_by(PHYSICS_STEP):
            self._leave_steps()

    def _leave_steps(self) -> None:
        """End the subscription to steps of physics."""
        if self._subscription is not None:
            self._subscription.cancel()

    def _run(self, node: Node, pulse: Pulse) -> bool:
        """Compute a node, and the nodes that it pulses."""
        if not self._compute(node, pulse):
            return False
        fired = [name for name in node.execution("outputs") if int(getattr(node.outputs, name))]
        targets = [target for name in fired for target in node.targets.get(name, ()) if target.prim.IsValid()]
        results = [self._run(target, pulse) for target in targets]
        return all(results)

    def _compute(self, node: Node, pulse: Pulse) -> bool:
        for name in node.execution("outputs"):
            setattr(node.outputs, name, 0)
        error: str | None = None
        try:
            db = NodeDatabase(node, self._inputs(node, pulse), self.simulation, pulse, self._allow_torch)
            if not node.implementation.compute(db):
                error = db.error or "it failed without saying why"
        except Exception as raised:  # a physics step continues without the node that failed
            error = str(raised) if isinstance(raised, ActuonError) else f"{type(raised).__name__}: {raised}"
        if error is None:
            self.errors.pop(node.path, None)
        elif self.errors.get(node.path) != error:
            self.errors[node.path] = error
            _log.error("%s: %s", node.path, error)
        return error is None

    def _inputs(self, node: Node, pulse: Pulse) -> SimpleNamespace:
        return SimpleNamespace(**{name: self._input(node, name, pulse) for name in node.inputs})

    def _input(self, node: Node, name: str, pulse: Pulse) -> Any:
        if name in node.execution("inputs"):
            return 1
        for source, port in node.sources.get(name, ()):
            side, _, there = port.partition(":")
            if side == "inputs":
                return self._input(source, there, pulse)
            return self._output(source, there, pulse)
        if node.ports("inputs").get(name, {}).get("type") == TARGET:
            relationship = node.prim.GetRelationship(f"inputs:{name}")
            return [str(path) for path in relationship.GetTargets()] if relationship else []
        attribute = node.prim.GetAttribute(f"inputs:{name}")
        value = attribute.Get() if attribute else None
        if value is None:
            value = node.ports("inputs").get(name, {}).get("default")
        if value is None and attribute:
            value = attribute.GetTypeName().defaultValue
        return np.array(value) if hasattr(value, "__len__") and not isinstance(value, str) else value

    def _output(self, node: Node, name: str, pulse: Pulse) -> Any:
        started = getattr(node.implementation, "event", None) or node.execution("inputs")
        if not started and not self._compute(node, pulse):
            raise RobotFileError(f"it needs outputs:{name} of {node.path}, which failed: {self.errors[node.path]}")
        if not hasattr(node.outputs, name):
            raise RobotFileError(f"it needs outputs:{name} of {node.path}, which has not run yet")
        return getattr(node.outputs, name)

    def close(self) -> None:
        """Stop the graph, and release the nodes. May be called again."""
        if self._closed:
            return
        self._closed = True
        self._leave_steps()
        for node in self.nodes.values():
            _release(node)

    def __enter__(self) -> GraphRunner:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<GraphRunner of {self.graph_path}: {len(self.nodes)} nodes>"


def _release(node: Node) -> None:
    if hasattr(node.implementation, "release_instance"):
        node.implementation.release_instance(node, node.get_graph_instance_id())
    if hasattr(node.implementation, "release"):
        node.implementation.release(node)
