# SPDX-License-Identifier: Apache-2.0
"""Every flag, and every attribute of MJCF joints and actuators, one at a time: motors of Actuon move a robot as its own
servo with the same gains does, or are refused by name."""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from hypothesis import strategies as st

import actuon
from actuon import lab

from .command_line import run_command
from .rig import rig, without_messages

Attributes = dict[str, str]
STEPS, DT = 200, 0.002
KP, KD = 22.0, 1.1
"""Gains of motors where the robot has no servo."""
BASE: dict[str, Attributes] = {
    "joint": {"axis": "0 1 0", "armature": "0.03", "damping": "0.2", "stiffness": "1.5", "springref": "0.1",
              "frictionloss": "0.1", "range": "-0.6 0.7"},
    "position": {"kp": "20", "kv": "1"},
    "general": {"gainprm": "20", "biastype": "affine", "biasprm": "0 -20 -1"},
    "pid": {"kp": "20", "kv": "1"},
    "velocity": {"kv": "2"},
    "intvelocity": {"kp": "20", "kv": "1", "actrange": "-1 1"},
    "motor": {},
    "damper": {"kv": "1", "ctrlrange": "0 1"},
    "cylinder": {"area": "2"},
    "muscle": {"lengthrange": "-1 1"},
    "dcmotor": {"motorconst": "0.1", "resistance": "1"},
    "flag": {},
}  # fmt: skip
"""Attributes that a robot has unless they are varied."""
SERVOS = ("position", "general", "pid")
"""Actuators that follow a position target by themselves."""


@dataclass(frozen=True)
class Value:
    """A value of an attribute, with what else has to be there for it.

    Args:
        given: Attributes that are changed.
        reference: Attributes of the robot that it is compared with. Default: the same.
        reason: Why these differ.
        ways: Ways in which they do. Default: all.
        left_out: Attributes of the robot that what ``init`` writes is compared with, where it says that it leaves
            something out. Default: the same.
        apart: How far motions may be apart there [rad]. Default: that of the way.
    """

    given: Attributes
    reference: Attributes | None = None
    reason: str = ""
    ways: tuple[str, ...] | None = None
    left_out: Attributes | None = None
    apart: float | None = None

    def compared_with(self, way: str) -> Attributes:
        """Attributes of the robot that it is compared with."""
        if way == "init" and self.left_out is not None:
            return self.left_out
        is_other = self.reference is not None and (self.ways is None or way in self.ways)
        return self.reference if is_other and self.reference is not None else self.given


def same(*texts: str, **more: str) -> list[Attributes]:
    """Values under the attribute's own name, with others that have to be there."""
    return [{"": text} | more for text in texts]


WITHOUT_LAG = "the gains of a servo say nothing of its lag"
LAGS = ("explicit", "implicit", "engine_drive", "replaced")
JOINT: dict[str, list[Attributes]] = {
    "actuatorfrclimited": same("true", "false", actuatorfrcrange="-2 1.5"),
    "actuatorfrcrange": same("-2 1.5"),
    "actuatorgravcomp": same("true") + same("true", actuatorfrcrange="-2 1.5"),
    "armature": same("0", "0.1"),
    "axis": same("0 0.8 0.6"),
    "damping": same("0", "1.5", "0.5 0.3 0.2"),
    "frictionloss": same("0", "0.8"),
    "group": same("2"),
    "limited": same("true", "false"),
    "margin": same("0.05"),
    "pos": same("0.05 0 0.02"),
    "range": same("-0.2 0.3"),
    "ref": same("0.3"),
    "solimpfriction": same("0.8 0.9 0.01 0.5 2"),
    "solimplimit": same("0.8 0.9 0.01 0.5 2"),
    "solreffriction": same("0.05 1"),
    "solreflimit": same("0.05 1"),
    "springdamper": same("0.2 0.5"),
    "springref": same("-0.3"),
    "stiffness": same("0", "8", "1 0.5 0.3"),
    "type": same("slide") + same("ball", range="", stiffness="0"),
    "user": same("1 2 3"),
}
LIMITS = {"forcerange": "-2 2"}
ACTUATOR: dict[str, list[Attributes]] = {
    "actdim": same("1", dyntype="filter", dynprm="0.05"),
    "actearly": same("true", dyntype="filter", dynprm="0.05"),
    "actlimited": same("true", dyntype="filter", dynprm="0.05", actrange="-0.3 0.3"),
    "actrange": same("-0.3 0.3", dyntype="filter", dynprm="0.05"),
    "area": same("3"),
    "armature": same("0.05"),
    "bias": same("0.1 0.2 0.1"),
    "biasprm": same("0 -30 -2", "0.5 -20 -1"),
    "biastype": same("affine"),
    "cogging": same("0.1 6 0"),
    "controller": same("5 0 0.1", input="pos"),
    "ctrllimited": same("true", ctrlrange="-0.3 0.25") + same("false"),
    "ctrlrange": same("-0.3 0.25"),
    "damping": same("0.7", "0.5 0.3 0.2"),
    "dampratio": same("0.7", kv=""),
    "delay": same("0.006", nsample="8"),
    "diameter": same("1.2"),
    "dynprm": same("0.05", dyntype="filter"),
    "dyntype": same("none") + same("filter", "filterexact", dynprm="0.05"),
    "ffrange": same("-1 1"),
    "force": same("10"),
    "forcelimited": same("true", **LIMITS) + same("false"),
    "forcerange": same("-2 2"),
    "fpmax": same("1.5"),
    "fvmax": same("1.3"),
    "gainprm": same("30"),
    "gaintype": same("fixed"),
    "gear": same("2", "-1.5"),
    "group": same("3"),
    "imax": same("0.5", ki="10"),
    "inductance": same("0.001"),
    "inheritrange": same("0.8"),
    "input": same("pos"),
    "interp": same("zoh", "linear", nsample="8", delay="0.006"),
    "jointinparent": same("j", joint=""),
    "ki": same("10"),
    "kp": same("35"),
    "kv": same("2.5"),
    "lengthrange": same("-1 1"),
    "lmax": same("1.7"),
    "lmin": same("0.4"),
    "lugre": same("0.1 100 0.01"),
    "motorconst": same("0.2", "0.1 0.12"),
    "nominal": same("12 5 30"),
    "nsample": same("8"),
    "posrange": same("-0.3 0.3"),
    "range": same("0.7 1.1"),
    "resistance": same("2"),
    "saturation": same("2"),
    "scale": same("150"),
    "slewmax": same("1"),
    "tausmooth": same("0.01"),
    "thermal": same("1 10 25 0.004 25 20"),
    "timeconst": same("0.05"),
    "user": same("1 2 3"),
    "velrange": same("-1 1"),
    "vmax": same("2"),
}
OF_ONE: dict[tuple[str, str], list[Attributes]] = {
    ("intvelocity", "actlimited"): same("true"),
    ("intvelocity", "actrange"): same("-0.3 0.3"),
    ("intvelocity", "inheritrange"): same("0.8", actrange=""),
    ("motor", "ctrllimited"): same("true", ctrlrange="-2 2") + same("false"),
    ("motor", "ctrlrange"): same("-2 2"),
    ("cylinder", "ctrllimited"): same("true", ctrlrange="-1 1") + same("false"),
    ("cylinder", "ctrlrange"): same("-1 1"),
    ("damper", "ctrlrange"): same("0 0.25"),
    ("muscle", "timeconst"): same("0.01 0.04"),
}
"""Values that a kind of actuator takes instead."""
FLAGS_LEFT_OUT = {("ipc", "enable"): "needs the integrator 'discrete'"}
LEFT_OUT = {
    "class": "stands for other attributes, which are here",
    "name": "has no effect",
    "joint": "is what the actuator is on",
    "body": "is another transmission: no joint has it alone",
    "cranklength": "is another transmission: no joint has it alone",
    "cranksite": "is another transmission: no joint has it alone",
    "refsite": "is another transmission: no joint has it alone",
    "site": "is another transmission: no joint has it alone",
    "slidersite": "is another transmission: no joint has it alone",
    "tendon": "is another transmission: no joint has it alone",
    "plugin": "needs a library",
    "instance": "needs a library",
}
"""Attributes that are not varied, and why."""
ELEMENTS_LEFT_OUT = {
    "adhesion": "acts on a body",
    "orientation": "acts on a ball joint",
    "plugin": "needs a library",
}
"""Kinds of actuators that are not tried, and why."""
WAYS = ("explicit", "implicit", "engine_drive", "init", "replaced")
"""An explicit actuator with the servo's gains; an implicit one; a group with the engine drive; what ``actuon init``
writes; and an actuator with an inertia and a friction of its own, which take the place of the joint's."""
APART = {"explicit": 1e-5, "implicit": 1e-3, "engine_drive": 1e-6, "init": 1e-4, "replaced": 0.01}
"""How far motions may be apart [rad]. An implicit effort that meets a limit is evaluated again where the step ends;
friction of a stage is made sharper than MuJoCo's own."""
OWN = {"armature": 0.08, "damping": 0.6, "frictionloss": 1.0}
"""Inertia and friction of the chain that replaces the joint's."""


def schema() -> dict[str, set[str]]:
    """Attributes of this MuJoCo's elements, by path."""
    found: dict[str, set[str]] = {}
    path: list[str] = []
    for line in mujoco.mj_printSchema(False, False).splitlines():
        match = re.match(r"^( *)(\S+) \(.\) *(.*)$", line)
        if match:
            path = [*path[: len(match[1]) // 3], match[2].rpartition(")")[2]]
            found.setdefault("/".join(path), set()).update(match[3].split())
        elif line.strip():
            found["/".join(path)].update(line.split())
    return found


@functools.cache
def elements() -> dict[str, list[str]]:
    """Attributes of flags, joints and each kind of actuator in this MuJoCo's schema."""
    known = schema()
    found = {"flag": sorted(known["mujoco/option/flag"])}
    (joint,) = {path for path in known if re.fullmatch(r"mujoco/(world)?body/joint", path)}
    found["joint"] = sorted(known[joint])
    for path, attributes in known.items():
        if path.startswith("mujoco/actuator/") and path.count("/") == 2:
            found[path.rpartition("/")[2]] = sorted(attributes)
    return found


def unknown() -> list[str]:
    """Attributes and kinds of actuators that no table has."""
    missing = []
    for element, attributes in elements().items():
        if element in ELEMENTS_LEFT_OUT or element == "flag":
            continue
        if element not in BASE:
            missing.append(element)
        table = JOINT if element == "joint" else ACTUATOR
        missing += [f"{element}.{name}" for name in attributes if name not in table and name not in LEFT_OUT]
    return missing


def values(element: str, attribute: str) -> Iterator[Value]:
    """Return values to try for an attribute."""
    if element == "flag":
        for text in ("disable", "enable"):
            if (attribute, text) not in FLAGS_LEFT_OUT:
                yield _flag(attribute, text)
        return
    table = JOINT if element == "joint" else ACTUATOR
    for given in OF_ONE.get((element, attribute), table[attribute]):
        yield _value(element, attribute, {attribute if name == "" else name: text for name, text in given.items()})


def _flag(name: str, text: str) -> Value:
    given = {name: text}
    if text == "disable" and name == "actuation":
        reason = "efforts from outside act without the engine's actuators"
        return Value(given, {}, reason, ("explicit", "implicit", "engine_drive", "init", "replaced"))
    if text == "disable" and name in ("frictionloss", "constraint"):
        reason = "a friction stage holds, whatever the engine leaves out"
        others = {"limit": "disable", "contact": "disable"} if name == "constraint" else {}
        return Value(given, others, reason, ("replaced",), apart=0.05)
    return Value(given)


def _value(element: str, attribute: str, given: Attributes) -> Value:
    lags = {"timeconst", "delay", "dyntype", "actearly", "actdim", "dynprm", "actlimited", "actrange"}
    if element in SERVOS and lags & given.keys() and given.get("dyntype") != "none":
        plain = {name: text for name, text in given.items() if name not in lags | {"nsample", "interp"}}
        left_out = {name: text for name, text in given.items() if name not in ("actearly", "actlimited", "actrange")}
        return Value(given, plain, WITHOUT_LAG, LAGS, left_out if left_out != given else None)
    if {"actuatorfrcrange", "forcerange"} & given.keys():
        reason = (
            "an implicit effort at a limit is evaluated again where the step ends; a servo of MuJoCo is clipped before"
        )
        return Value(given, given.copy(), reason, ("implicit",), apart=0.02)
    if element == "pid" and {"ki", "slewmax"} & given.keys():
        plain = {name: text for name, text in given.items() if name not in ("ki", "imax", "slewmax")}
        return Value(given, plain, "the gains of a servo say nothing of its integral and slope", LAGS, plain)
    return Value(given)


@dataclass(frozen=True)
class Robot:
    """An arm with one driven joint, and one that swings."""

    flag: tuple[tuple[str, str], ...] = ()
    joint: tuple[tuple[str, str], ...] = ()
    kind: str = "position"
    actuator: tuple[tuple[str, str], ...] = ()
    more: str = ""
    """Further actuators."""
    integrator: str = "Euler"
    is_replaced: bool = False
    """Whether the joint has the inertia and friction of the chain, and nothing of its own or of its actuator."""

    def xml(self) -> str:
        """Its file."""
        joint = BASE["joint"] | dict(self.joint)
        actuator = {"joint": "j"} | BASE[self.kind] | dict(self.actuator)
        return f"""<mujoco><compiler angle="radian"/>
<option timestep="{DT}" integrator="{self.integrator}"><flag{_text(dict(self.flag))}/></option>
<worldbody><geom type="plane" size="2 2 0.1" pos="0 0 -0.32"/>
<body name="arm" gravcomp="0.4"><joint name="j"{_text(joint)}/>
<geom type="capsule" size="0.03" fromto="0 0 0 0.25 0 -0.05" mass="0.5"/>
<body pos="0.25 0 -0.05"><joint name="k" axis="0 1 0" damping="0.05" armature="0.01"/>
<geom type="capsule" size="0.03" fromto="0 0 0 0.2 0 0" mass="0.3"/></body></body></worldbody>
<actuator><{self.kind} name="servo"{_text(actuator)}/>{self.more}</actuator></mujoco>"""


def _text(attributes: Attributes) -> str:
    return "".join(f' {name}="{text}"' for name, text in attributes.items() if text != "")


def target(step: int) -> float:
    """Target position at a step [rad]: within the range of the joint, and beyond it."""
    time = step * DT
    return float(np.float32(0.35 * np.sin(9.0 * time) + (0.8 if 0.2 < time < 0.3 else 0.0)))


def own_motion(robot: Robot, position: str = "servo") -> np.ndarray:
    """Positions of both joints under the robot's own servo and plain ``mj_step``, shape (steps, 2)."""
    model = mujoco.MjModel.from_xml_string(robot.xml())
    if robot.is_replaced:
        dof = model.joint("j").dofadr[0]
        model.dof_armature[dof], model.dof_damping[dof] = OWN["armature"], OWN["damping"]
        model.dof_frictionloss[dof], model.dof_dampingpoly[dof] = OWN["frictionloss"], 0.0
        model.actuator_armature[:], model.actuator_damping[:], model.actuator_dampingpoly[:] = 0.0, 0.0, 0.0
        mujoco.mj_setConst(model, mujoco.MjData(model))
    data = mujoco.MjData(model)
    servo, found = model.actuator(position).id, []
    control = int(model.actuator_ctrladr[servo])
    for step in range(STEPS):
        data.ctrl[control] = _control(model, servo, target(step))
        mujoco.mj_step(model, data)
        found.append(data.qpos[:].copy())
    return np.array(found)


def _control(model: Any, servo: int, position: float) -> float:
    """The control with which a servo holds a position: its force is gain·ctrl + bias − kp·gear·q, or that of a PID."""
    length = float(model.actuator_gear[servo, 0]) * position
    gain, (bias, slope) = float(model.actuator_gainprm[servo, 0]), model.actuator_biasprm[servo, :2]
    return float(-(bias + slope * length) / gain) if gain and slope else length


class Driven:
    """A robot in a simulation, with its joint taken over."""

    def __init__(self, robot: Robot, way: str, folder: Path):
        path = folder / "robot.xml"
        path.write_text(robot.xml())
        if way == "init":
            code, _, errors = run_command(["init", "robot.xml", "-o", "robot.actuon.yaml"], str(folder))
            if code:
                raise actuon.RobotFileError(errors)
        self.simulation = actuon.MujocoSimulation(path)
        try:
            self.robots = actuon.Articulation("arm", self.simulation)
            self.column = int(self.robots.dof_columns("j")[0])
            self.attached = self._attach(way)
        except BaseException:
            self.simulation.close()
            raise

    def _attach(self, way: str) -> Any:
        if way == "init":
            return actuon.ArticulationActuators("arm", simulation=self.simulation)
        if way == "engine_drive":
            cfg = lab.ImplicitActuatorCfg(["j"], stiffness=KP, damping=KD)
            return lab.ActuatorGroups(self.robots, {"group": cfg})
        kp, kd = (float(gains.numpy()[0, self.column]) for gains in self.robots.get_dof_gains())
        if not (kp or kd) or way == "replaced":
            kp, kd = KP, KD
        most = float(self.robots.get_dof_max_efforts().numpy()[0, self.column])
        limits = [actuon.MaxEffortClampingConfig(most)] if np.isfinite(most) else []
        parts: dict[str, Any] = {}
        if way == "replaced":
            parts["transmission"] = actuon.GearTransmissionConfig(1.0, reflected_inertia=OWN["armature"])
            friction = actuon.FrictionEffectConfig(OWN["frictionloss"], OWN["damping"])
            parts["effects"] = [friction]
        mode = "implicit" if way == "implicit" else "explicit"
        config = actuon.ActuatorConfig(actuon.PDControlConfig(kp, kd), limits, effort_mode=mode, **parts)
        return actuon.ArticulationActuators.from_actuators("arm", [(config, "j")], simulation=self.simulation)

    def motion(self) -> np.ndarray:
        """Positions of both joints, shape (steps, 2); telemetry is what acted."""
        found = []
        data = self.simulation.data[0]
        for step in range(STEPS):
            self.robots.set_dof_position_targets([[target(step)]], None, [self.column])
            self.simulation.step()
            found.append(data.qpos[:].copy())
            self._check_telemetry(data)
        return np.array(found)

    def _check_telemetry(self, data: Any) -> None:
        shown = float(self.attached.telemetry().applied_effort[0, self.column])
        dof = int(self.simulation.models[0].joint("j").dofadr[0])
        acted = float(data.qfrc_applied[dof] + data.qfrc_actuator[dof])
        is_sum = bool(self.simulation.models[0].jnt_actgravcomp[0])  # with what holds the robot up
        if not is_sum and (isinstance(self.attached, lab.ActuatorGroups) or self.simulation.integrator == "Euler"):
            assert abs(shown - acted) <= 1e-4 * (1 + abs(acted)), f"telemetry shows {shown}, {acted} acted"


def check_one(element: str, way: str, value: Value) -> str:
    """Compare a robot's own servo with ours. Returns ``"compared"`` or ``"refused"``."""
    own, ours = _robots(element, way, value)
    mujoco.MjModel.from_xml_string(ours.xml())
    with tempfile.TemporaryDirectory() as folder:
        try:
            driven = Driven(ours, way, Path(folder))
        except actuon.ActuonError:
            return "refused"
        with driven.simulation:
            found = driven.motion()
            driven.attached.close()
        if way == "init":
            text = (Path(folder) / "robot.actuon.yaml").read_text()
            assert ("# Left out: " in text) == (value.left_out is not None), f"it says what is left out wrongly: {text}"
    expected = own_motion(own, "servo" if own.kind in SERVOS else "reference")
    apart = np.abs(found - expected).max()
    most = value.apart if value.apart is not None and value.compared_with(way) is not value.given else APART[way]
    assert apart <= most, f"{apart:.3g} rad apart; may be {most:g}"
    return "compared"


def _robots(element: str, way: str, value: Value) -> tuple[Robot, Robot]:
    """The robot to compare with, and the one to attach to."""
    kind = element if element in BASE and element not in ("joint", "flag") else "position"
    integrator = "implicitfast" if way == "implicit" else "Euler"
    changed = {name: dict(value.given) if name == element else {} for name in ("flag", "joint", kind)}
    other = {name: value.compared_with(way) if name == element else {} for name in ("flag", "joint", kind)}
    ours = Robot(_items(changed["flag"]), _items(changed["joint"]), kind, _items(changed[kind]), "", integrator)
    flag, joint, actuator = _items(other["flag"]), _items(other["joint"]), other[kind]
    if kind in SERVOS:
        if way in ("engine_drive", "replaced"):
            actuator = _with_gains(kind, actuator)
        return Robot(flag, joint, kind, _items(actuator), "", integrator, way == "replaced"), ours
    # Beside a motor that is told nothing, with what else the actuator has, a servo with the gains of ours.
    kept = {name: text for name, text in actuator.items() if name in ("armature", "damping", "gear", "group")}
    servo = _text(_reference_servo(kind, way, BASE[kind] | actuator))
    servo = f'<general name="reference" joint="j" biastype="affine"{servo}/>'
    return Robot(flag, joint, "motor", _items(kept), servo, integrator, way == "replaced"), ours


def _reference_servo(kind: str, way: str, actuator: Attributes) -> Attributes:
    """A servo with the gains of ours and the limits of the actuator, at the joint."""
    gear = abs(float(actuator.get("gear", "1").split()[0]))
    kp, kd = KP, KD
    if kind == "velocity" and way in ("explicit", "implicit"):
        kp, kd = 0.0, float(actuator["kv"]) * gear**2
    most = np.inf
    if actuator.get("forcelimited") != "false" and "forcerange" in actuator:
        most = float(actuator["forcerange"].split()[1])
    if kind in ("motor", "cylinder") and actuator.get("ctrllimited") != "false" and "ctrlrange" in actuator:
        most = min(most, float(actuator["ctrlrange"].split()[1]) * float(actuator.get("area", "1")))
    if "saturation" in actuator:
        most = float(actuator["saturation"].split()[0])
    limits = {"forcerange": f"{-most * gear} {most * gear}"} if np.isfinite(most) else {}
    return {"gainprm": f"{kp}", "biasprm": f"0 {-kp} {-kd}"} | limits


def _with_gains(kind: str, given: Attributes) -> Attributes:
    """The attributes of a servo with the gains of ours at the joint."""
    gear = float(given.get("gear", "1").split()[0])
    kp, kd = KP / gear**2, KD / gear**2
    if kind == "general":
        return given | {"gainprm": f"{kp}", "biastype": "affine", "biasprm": f"0 {-kp} {-kd}"}
    return {name: text for name, text in given.items() if name != "dampratio"} | {"kp": f"{kp}", "kv": f"{kd}"}


def _items(attributes: Attributes) -> tuple[tuple[str, str], ...]:
    return tuple(attributes.items())


def parts() -> list[tuple[str, str]]:
    """Elements and ways, each of which is a case."""
    names = [name for name in elements() if name not in ELEMENTS_LEFT_OUT]
    have_gains = ("flag", "joint", *SERVOS)  # and so something to init from
    return [(name, way) for name in names for way in WAYS if way != "init" or name in have_gains]


def _drawn(seed: int) -> dict[str, st.SearchStrategy]:
    element, way = parts()[seed % len(parts())]
    return {"element": st.just(element), "way": st.just(way)}


@rig("mjcf_flags", examples=1, drawn=_drawn)
def mjcf_flags(element: str, way: str) -> None:
    """With each attribute of an element, ours and the robot's own servo move alike, or ours is refused."""
    failures = []
    with without_messages():
        for attribute in elements()[element]:
            for value in values(element, attribute) if attribute not in LEFT_OUT else ():
                try:
                    mjcf_flags.tally.add(check_one(element, way, value))
                except Exception as error:
                    said = " ".join(str(error).split())[:300]
                    failures.append(f"{_text(value.given)}: {type(error).__name__}: {said}")
    assert not failures, f"<{element}>, {way}:\n" + "\n".join(failures)
