# SPDX-License-Identifier: Apache-2.0
"""The `ArticulationActuators` node as OmniGraph calls it, action graphs in a USD stage, and robots for both."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from pxr import Sdf, Usd

from actuon.graph import OgnArticulationActuators

NODE = "actuon.graph.ArticulationActuators"
PHYSICS, TICK = "isaacsim.core.nodes.OnPhysicsStep", "omni.graph.action.OnTick"
ARM = """<body name="{name}" pos="{x} 0 1"><joint name="{name}_hinge" type="hinge" axis="0 1 0"/>
<geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0" mass="1"/>
<body pos="0.3 0 0"><joint name="{name}_slide" type="slide" axis="1 0 0"/>
<geom type="sphere" size="0.05" mass="0.5"/></body></body>"""
MODEL = f"""<mujoco><option timestep="0.002"/><worldbody>{ARM.format(name="left", x=0)}{ARM.format(name="right", x=2)}
</worldbody><actuator><position joint="left_hinge" kp="7"/><position joint="right_hinge" kp="7"/>
<pid joint="left_slide" kp="7" kv="1"/><pid joint="right_slide" kp="7" kv="1"/></actuator></mujoco>"""
ACTUATORS = """version: 1
actuators:
  all:
    joints: [".*"]
    controller: {type: pd, kp: 30.0, kd: 0.5}
"""


class OmniGraphNode:
    """OmniGraph's interface of a node."""

    def __init__(self, number=1, instance=7):
        self.number, self.instance = number, instance

    def node_id(self):
        return self.number

    def get_graph_instance_id(self):
        return self.instance


def database(**inputs):
    """A node's database, as OmniGraph hands it to ``compute``."""
    defaults = {name: port.get("default", 1) for name, port in OgnArticulationActuators.OGN["inputs"].items()}
    values = {k: np.array(v, np.float32 if k == "feedforwardCommand" else np.int32) if isinstance(v, list) else v
              for k, v in (defaults | inputs).items()}  # fmt: skip
    logged = []
    node = OmniGraphNode()
    return SimpleNamespace(
        inputs=SimpleNamespace(**values),
        outputs=SimpleNamespace(execOut=None),
        per_instance_state=OgnArticulationActuators.internal_state(),
        abi_node=node,
        node=node,
        logged=logged,
        log_error=logged.append,
    )


def compute(db):
    db.outputs.execOut = None
    return OgnArticulationActuators.compute(db)


def servo_gain(simulation, name):
    return simulation.models[0].actuator_gainprm[["left", "right"].index(name), 0]


def attribute_type(value):
    first = value[0] if isinstance(value, list) and value else value
    kinds = {bool: "bool", int: "int", float: "float", str: "string", list: "float"}
    return Sdf.ValueTypeNames.Find(kinds[type(first)] + "[]" * isinstance(value, list))


def graph(nodes, connections=(), path="/ActionGraph", stage=None):
    """A stage with an action graph: nodes as name → (type, inputs), connections as ("a.outputs:x", "b.inputs:y")."""
    stage = stage or Usd.Stage.CreateInMemory()
    stage.DefinePrim(path, "OmniGraph").CreateAttribute("evaluator:type", Sdf.ValueTypeNames.Token).Set("execution")
    for name, (kind, values) in nodes.items():
        prim = stage.DefinePrim(f"{path}/{name}", "OmniGraphNode")
        prim.CreateAttribute("node:type", Sdf.ValueTypeNames.Token).Set(kind)
        for key, value in values.items():
            prim.CreateAttribute(f"inputs:{key}", attribute_type(value)).Set(value)
    for source, target in connections:
        prim, name = target.split(".")
        attribute = stage.GetPrimAtPath(f"{path}/{prim}").GetAttribute(name)
        if not attribute:
            attribute = stage.GetPrimAtPath(f"{path}/{prim}").CreateAttribute(name, Sdf.ValueTypeNames.UInt)
        attribute.AddConnection(
            source if source.startswith("/") else f"{path}/{source}", Usd.ListPositionBackOfPrependList
        )
    return stage


def driven(trigger=PHYSICS, output="step", **inputs):
    """A graph with a trigger and our node."""
    return graph(
        {"start": (trigger, {}), "actuators": (NODE, inputs)}, [(f"start.outputs:{output}", "actuators.inputs:execIn")]
    )


def actuators_of(runner):
    return runner.nodes["/ActionGraph/actuators"].state.actuators


def set_input(stage, name, value, node="actuators"):
    stage.GetPrimAtPath(f"/ActionGraph/{node}").GetAttribute(f"inputs:{name}").Set(value)
