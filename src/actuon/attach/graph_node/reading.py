# SPDX-License-Identifier: Apache-2.0
"""Graphs of a USD stage: ``OmniGraph`` prims with ``OmniGraphNode`` prims below them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...errors import RobotFileError, StructureError, listed
from .node_types import EXECUTION

if TYPE_CHECKING:
    from pxr import Sdf, Usd

GRAPH, NODE = "OmniGraph", "OmniGraphNode"
_EVALUATOR = "execution"
_numbers = itertools.count(1)


@dataclass(eq=False)
class Node:
    """A node of a graph, with its type and the connections of its inputs."""

    path: str
    prim: Usd.Prim
    implementation: Any
    """The class with ``compute(db)``."""
    inputs: list[str]
    """Names of its inputs, declared by its type or allowed by it."""
    sources: dict[str, list[tuple[Node, str]]] = field(default_factory=dict)
    """Nodes and attributes, such as ``outputs:tick``, that each input is connected to."""
    targets: dict[str, list[Node]] = field(default_factory=dict)
    """Nodes that each execution output pulses."""
    state: Any = None
    outputs: SimpleNamespace = field(default_factory=SimpleNamespace)
    number: int = field(default_factory=lambda: next(_numbers))

    def node_id(self) -> int:
        """Return the number of the node."""
        return self.number

    def get_graph_instance_id(self) -> str:
        """Return "": the graph has one instance."""
        return ""

    def get_prim_path(self) -> str:
        """Return the path of the node."""
        return self.path

    def ports(self, side: str) -> dict[str, Any]:
        """Return the ``inputs`` or ``outputs`` that the node type declares."""
        return self.implementation.OGN.get(side, {})

    def execution(self, side: str) -> list[str]:
        """Names of its execution inputs or outputs."""
        return [name for name, port in self.ports(side).items() if port["type"] == EXECUTION]


def find_graph(stage: Usd.Stage, path: str | Sdf.Path | None = None) -> Usd.Prim:
    """Return the graph at ``path``, or the only one of the stage.

    Raises:
        RobotFileError: There is none, or more than one and no path.
    """
    from ...robot_files.usd.stage import everything_below, find_prim

    graphs = {
        str(prim.GetPath()): prim
        for prim in everything_below(stage.GetPseudoRoot())
        if prim.GetTypeName() == GRAPH and prim.GetParent().GetTypeName() != GRAPH
    }
    name = Path(stage.GetRootLayer().identifier).name
    if path is not None:
        prim = find_prim(stage, path)
        if prim.GetTypeName() != GRAPH:
            kind = prim.GetTypeName() or "prim without a type"
            raise RobotFileError(f"'{prim.GetPath()}' is a {kind}; must be an {GRAPH}; {listed('', graphs, 'graphs')}")
    elif len(graphs) == 1:
        prim = next(iter(graphs.values()))
    elif graphs:
        raise RobotFileError(f"'{name}' has {len(graphs)} graphs; name one with graph_path: {', '.join(graphs)}")
    else:
        raise RobotFileError(f"'{name}' has no graph; must have a prim of type {GRAPH}")
    evaluator = prim.GetAttribute("evaluator:type").Get()
    if evaluator not in (None, _EVALUATOR):
        raise RobotFileError(
            f"{prim.GetPath()}: evaluator:type: got '{evaluator}'; must be '{_EVALUATOR}', that of action graphs"
        )
    return prim


def read_nodes(graph: Usd.Prim, node_types: Mapping[str, type[object]]) -> list[Node]:
    """Return the nodes of a graph, with their connections.

    Raises:
        RobotFileError: A node is of an unknown type, a connection leads nowhere or in a circle, or a node has none.
    """
    from ...robot_files.usd.stage import everything_below

    prims = [prim for prim in everything_below(graph) if prim.GetTypeName() == NODE]
    if not prims:
        raise RobotFileError(f"{graph.GetPath()}: it has no nodes; must have prims of type {NODE} below it")
    nodes = {str(prim.GetPath()): _read_node(prim, node_types) for prim in prims}
    for node in nodes.values():
        for attribute in node.prim.GetAttributes():
            if attribute.GetName().startswith("inputs:"):
                _connect(node, attribute, nodes)
        pulsed = node.execution("inputs")
        if pulsed and not any(node.sources.get(name) for name in pulsed):
            raise RobotFileError(
                f"{node.path}: inputs:{pulsed[0]} is not connected, so the node never runs; connect an execution "
                "output, such as outputs:tick of an OnTick node"
            )
    _check_no_circle(list(nodes.values()))
    return list(nodes.values())


def _read_node(prim: Usd.Prim, node_types: Mapping[str, type[object]]) -> Node:
    kind = prim.GetAttribute("node:type").Get()
    if not kind:
        raise RobotFileError(f"{prim.GetPath()}: it has no node:type; {listed('', node_types, 'node types')}")
    if kind not in node_types:
        raise RobotFileError(
            f"{prim.GetPath()}: node:type: '{kind}' is not known here; {listed(str(kind), node_types, 'node types')}"
        )
    implementation: Any = node_types[kind]
    if not callable(getattr(implementation, "compute", None)) or not isinstance(
        getattr(implementation, "OGN", None), dict
    ):
        raise StructureError(f"node type '{kind}': got {implementation!r}; must be a class with OGN and compute(db)")
    return Node(str(prim.GetPath()), prim, implementation, list(implementation.OGN.get("inputs", {})))


def _connect(node: Node, attribute: Any, nodes: Mapping[str, Node]) -> None:
    name = attribute.GetName().removeprefix("inputs:")
    where = f"{node.path}: inputs:{name}"
    if name not in node.inputs:
        if not getattr(node.implementation, "dynamic_inputs", False):
            raise RobotFileError(f"{where}: there is no such input; {listed(name, node.inputs, 'inputs')}")
        node.inputs.append(name)
    pulsed = name in node.execution("inputs")
    connections = attribute.GetConnections()
    if len(connections) > 1 and not pulsed:
        raise RobotFileError(
            f"{where}: it has {len(connections)} connections; must have one: only execution inputs may have several"
        )
    for connection in connections:
        source, port = nodes.get(str(connection.GetPrimPath())), connection.name
        if source is None:
            raise RobotFileError(
                f"{where}: it is connected to <{connection}>, but there is no such node; "
                f"{listed(str(connection.GetPrimPath()), nodes, 'nodes')}"
            )
        _check_port(where, source, port, pulsed)
        node.sources.setdefault(name, []).append((source, port))
        if pulsed:
            source.targets.setdefault(port.removeprefix("outputs:"), []).append(node)


def _check_port(where: str, source: Node, port: str, pulsed: bool) -> None:
    side, _, name = port.partition(":")
    known = [f"outputs:{output}" for output in source.ports("outputs")]
    known += [f"inputs:{entry}" for entry in source.ports("inputs") if entry not in source.execution("inputs")]
    if port not in known:
        raise RobotFileError(
            f"{where}: it is connected to <{source.path}.{port}>, but there is no such attribute; "
            f"{listed(port, known, 'attributes')}"
        )
    if pulsed != (name in source.execution(side)):
        got, wanted = ("a value", "an execution output") if pulsed else ("an execution output", "a value")
        raise RobotFileError(f"{where}: it is connected to <{source.path}.{port}>, {got}; must be {wanted}")


def _check_no_circle(nodes: list[Node]) -> None:
    done: set[Node] = set()

    def visit(node: Node, trail: list[Node]) -> None:
        if node in trail:
            circle = [*trail[trail.index(node) :], node]
            raise RobotFileError(
                f"{node.path}: its connections lead in a circle: {' ← '.join(each.path for each in circle)}"
            )
        if node not in done:
            for sources in node.sources.values():
                for source, _ in sources:
                    visit(source, [*trail, node])
            done.add(node)

    for node in nodes:
        visit(node, [])
