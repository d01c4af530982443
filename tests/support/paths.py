# SPDX-License-Identifier: Apache-2.0
"""Robots that are shipped, and public ones that may be there."""

from __future__ import annotations

from pathlib import Path

import pytest

import actuon

ASSETS = actuon.assets.FOLDER
ROOT = Path(__file__).parents[2]
"""The checkout."""
DATA = ROOT.parent / "shared" / "data"
"""Networks and logs of real robots, a folder each."""
PUBLIC = DATA / "robots"

ROBOTS = (
    "agility_cassie",
    "franka_emika_panda",
    "kinova_gen3",
    "robotiq_2f85",
    "shadow_hand",
    "unitree_g1",
    "unitree_go2",
    "unitree_h1",
    "universal_robots_ur5e",
)
"""Those of them that tests name."""


def public_robot(name):
    """The MJCF file of a public robot; skips the test where it is not there."""
    path = PUBLIC / f"{name}.xml"
    if not path.is_file():
        pytest.skip("the public robots are not here")
    return path


def public_logs(pattern):
    """Logs of real robots, by a pattern such as ``"xl330/*.json.gz"``; skips the test where there are none."""
    found = sorted(DATA.glob(pattern))
    if not found:
        pytest.skip("the public logs are not here")
    return found
