# SPDX-License-Identifier: Apache-2.0
"""Robots driven from a graph: the `ArticulationActuators` node of OmniGraph, and a runner for graphs in a USD stage."""

from .attach.graph_node.node_types import NODE_TYPES as NODE_TYPES
from .attach.graph_node.OgnArticulationActuators import OgnArticulationActuators as OgnArticulationActuators
from .attach.graph_node.runner import GraphRunner as GraphRunner

__all__ = [
    "NODE_TYPES",
    "GraphRunner",
    "OgnArticulationActuators",
]
