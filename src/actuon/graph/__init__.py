# SPDX-License-Identifier: Apache-2.0
"""Robots driven from a graph: the `ArticulationActuators` node of OmniGraph, and a runner for graphs in a USD stage."""

from .node_types import NODE_TYPES as NODE_TYPES
from .OgnArticulationActuators import OgnArticulationActuators as OgnArticulationActuators
from .runner import GraphRunner as GraphRunner
