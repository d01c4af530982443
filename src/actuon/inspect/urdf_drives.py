# SPDX-License-Identifier: Apache-2.0
"""Parts of a URDF about drives that MuJoCo does not keep: speed limits, and reductions between motor and joint."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from .own_drives import SourcedValue, limit

_REDUCTION = ("mechanicalReduction", "mechanical_reduction")
"""Names of the reduction in ``transmission_interface`` and ros2_control."""


@dataclass
class UrdfDrives:
    """Speed limits and reductions of joints, by name."""

    speeds: dict[str, SourcedValue] = field(default_factory=dict)
    """``velocity`` of ``<limit>`` [rad/s or m/s]."""
    reductions: dict[str, SourcedValue] = field(default_factory=dict)
    """Turns of the motor for one of the joint, where these are not the same."""
    notes: list[str] = field(default_factory=list)
    """Remarks on what could not be read."""


def read_urdf(path: Path) -> UrdfDrives:
    """Read speed limits and transmissions of a file that MuJoCo has read."""
    found = UrdfDrives()
    try:
        root = _parsed(path.read_bytes())
    except expat.ExpatError as error:
        found.notes.append(f"speed limits and transmissions are not read: the file is not well-formed XML: {error}")
        return found
    for joint in root.iter("joint"):
        bounds, name = joint.find("limit"), joint.get("name")
        speed = math.nan if bounds is None else _number(bounds.get("velocity"))
        given = limit(speed, "URDF <limit velocity> of {}", name or "") if speed > 0.0 else None
        if name and given is not None:
            found.speeds[name] = given
    for transmission in root.iter("transmission"):
        _add_transmission(found, transmission)
    return found


def _parsed(data: bytes) -> Element:
    """Return the root of a document, read as leniently as MuJoCo does: with space before the XML declaration, bytes
    that are not UTF-8, and undeclared prefixes."""
    builder, parser = TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler = builder.data
    parser.Parse(data.decode("utf-8-sig", errors="replace").strip(), True)
    return builder.close()


def _number(text: str | None) -> float:
    try:
        return float(text) if text is not None else math.nan
    except ValueError:
        return math.nan


def _add_transmission(found: UrdfDrives, transmission: Element) -> None:
    """Add the reduction of a ``<transmission>``. It stands at the actuator (``transmission_interface``), at the joint
    (ros2_control) or alone (PR2)."""
    name = transmission.get("name") or "without a name"
    joints, motors = transmission.findall("joint"), transmission.findall("actuator")
    written = (_reduction(part) for part in (*joints, *motors, transmission))
    reductions = [text for text in written if text is not None]
    names = [joint.get("name") or "?" for joint in joints]
    if len(joints) != 1 or len(motors) > 1:
        if reductions or len(joints) > 1:
            kind = transmission.findtext("type") or transmission.findtext("plugin") or "unknown type"
            numbers = f" with reductions {', '.join(reductions)}" if reductions else ""
            found.notes.append(
                f"left out: transmission '{name}' ({kind.strip()}) of {', '.join(names) or 'no joint'}{numbers}, which "
                "is not one motor on one joint"
            )
        return
    ratios = {_number(text) for text in reductions} or {1.0}  # the same one may stand at the joint and at the motor
    ratio = ratios.pop()
    if ratios:
        found.notes.append(
            f"left out: transmission '{name}' of {names[0]}, which has several reductions: {', '.join(reductions)}"
        )
    elif not math.isfinite(ratio) or ratio == 0.0:
        found.notes.append(
            f"left out: transmission '{name}' of {names[0]}, whose reduction is {', '.join(reductions)}; must be a "
            "number other than 0"
        )
    elif ratio != 1.0:
        found.reductions[names[0]] = SourcedValue(ratio, "transmission {}", name)


def _reduction(part: Element) -> str | None:
    """Return the reduction of a part of a transmission, a child or an attribute."""
    texts = [text for name in _REDUCTION for text in (part.findtext(name), part.get(name)) if text is not None]
    return texts[0].strip() if texts else None
