# SPDX-License-Identifier: Apache-2.0
"""Node types of `GraphRunner`: events, constants, commands of joints, and Actuon's own node.

A node type is a class with ``OGN``, the contents of an ``.ogn`` file about its inputs and outputs, and a static method
``compute(db)``. A type with ``event`` starts pulses. A node without an execution input is computed on demand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .articulation_controller import IsaacArticulationController
from .OgnArticulationActuators import NAME, NODE_TYPE, OgnArticulationActuators

EXECUTION = "execution"
TARGET = "target"
"""Types of inputs: a pulse, and prims that a relationship points to."""
TICK = "tick"
PHYSICS_STEP = "physics step"


def _ogn(inputs: dict[str, tuple[str, Any]], outputs: dict[str, str]) -> dict[str, Any]:
    return {
        "inputs": {name: {"type": kind, "default": default} for name, (kind, default) in inputs.items()},
        "outputs": {name: {"type": kind} for name, kind in outputs.items()},
    }


class IsaacArticulationActuators(OgnArticulationActuators):
    """Actuon's node with the name and ``stepDt`` of Isaac Sim's."""

    OGN = OgnArticulationActuators.OGN | {
        "inputs": OgnArticulationActuators.OGN["inputs"]
        | {"stepDt": OgnArticulationActuators.OGN["inputs"]["stepDt"] | {"default": 0.016667}},
    }


class OnPlaybackTick:
    """Node that starts a pulse at each `GraphRunner.tick`."""

    event = TICK
    OGN = _ogn({}, {"tick": EXECUTION, "deltaSeconds": "double", "time": "double", "frame": "double"})

    @staticmethod
    def compute(db: Any) -> bool:
        """Output the pulse, the simulated time [s], the time since the last tick [s], and the count of ticks."""
        db.outputs.deltaSeconds, db.outputs.time = db.pulse.dt, db.pulse.time
        db.outputs.frame = float(db.pulse.frame)
        db.outputs.tick = 1
        return True


class OnTick:
    """Node that starts a pulse at each `GraphRunner.tick`, or at every n-th."""

    event = TICK
    OGN = _ogn(
        {"framePeriod": ("uint", 0), "onlyPlayback": ("bool", True)},
        {
            "tick": EXECUTION,
            "isPlaying": "bool",
            "deltaSeconds": "double",
            "time": "double",
            "timeSinceStart": "double",
            "absoluteSimTime": "double",
            "frame": "double",
        },
    )

    @staticmethod
    def compute(db: Any) -> bool:
        """Output the pulse after skipping ``framePeriod`` of them. All times are simulated."""
        OnPlaybackTick.compute(db)
        db.outputs.isPlaying = True
        db.outputs.timeSinceStart = db.outputs.absoluteSimTime = db.pulse.time
        db.outputs.tick = int(db.pulse.frame % (int(db.inputs.framePeriod) + 1) == 0)
        return True


class OnPhysicsStep:
    """Node that starts a pulse before each step of physics."""

    event = PHYSICS_STEP
    OGN = _ogn({}, {"step": EXECUTION, "deltaSimulationTime": "double", "deltaSystemTime": "double"})

    @staticmethod
    def compute(db: Any) -> bool:
        """Output the pulse, the time step [s] and the wall-clock time since the last one [s]."""
        db.outputs.deltaSimulationTime, db.outputs.deltaSystemTime = db.pulse.dt, db.pulse.system_dt
        db.outputs.step = 1
        return True


class Constant:
    """Node with a constant in ``inputs:value``."""

    OGN = _ogn({"value": ("any", None)}, {})

    @staticmethod
    def compute(db: Any) -> bool:
        """Do nothing."""
        return True


class ConstructArray:
    """Node that makes an array of the inputs ``input0``, ``input1``, ..."""

    dynamic_inputs = True
    OGN = _ogn({"arraySize": ("int", 1), "arrayType": ("token", "auto")}, {"array": "any"})

    @staticmethod
    def compute(db: Any) -> bool:
        """Output the first ``arraySize`` values. If there are fewer, the last is repeated."""
        names = {int(name[5:]): name for name in vars(db.inputs) if name.startswith("input") and name[5:].isdigit()}
        values = [getattr(db.inputs, names[number]) for number in sorted(names)]
        size = int(db.inputs.arraySize)
        if size > 0 and not values:
            db.log_error(f"inputs:arraySize: got {size}, but there is no inputs:input0")
            return False
        db.outputs.array = np.array((values + values[-1:] * size)[:size])
        return True


_CONSTANTS = (
    *("Bool", "UChar", "Int", "Int2", "Int3", "Int4", "Int64", "UInt", "UInt64"),
    *("Half", "Float", "Float2", "Float3", "Float4", "Double", "Double2", "Double3", "Double4"),
    *("String", "Token", "Path"),
)
NODE_TYPES: dict[str, type[object]] = {
    NODE_TYPE: OgnArticulationActuators,
    f"isaacsim.core.experimental.actuators.{NAME}": IsaacArticulationActuators,
    "isaacsim.core.nodes.IsaacArticulationController": IsaacArticulationController,
    "isaacsim.core.nodes.OnPhysicsStep": OnPhysicsStep,
    "omni.graph.action.OnPlaybackTick": OnPlaybackTick,
    "omni.graph.action.OnTick": OnTick,
    "omni.graph.nodes.ConstructArray": ConstructArray,
} | {f"omni.graph.nodes.Constant{name}": Constant for name in _CONSTANTS}
"""Node types by name. Pass ``node_types=NODE_TYPES | {"my.Node": MyNode}`` to `GraphRunner` for others."""
