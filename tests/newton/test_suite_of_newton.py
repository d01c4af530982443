# SPDX-License-Identifier: Apache-2.0
"""Newton's own tests of its actuators, from its wheel, with Actuon's classes in place of Newton's.

Imports from ``newton.actuators`` look a name up in `actuon.newton`, then `actuon`, then Newton. Texts of errors are not
compared.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

newton = pytest.importorskip("newton", reason="Newton is not installed")

SUITES = Path(newton.__file__).parent / "tests"
FILES = ("test_actuators.py", "test_actuator_drive_api.py")
MOST_FAILED = 48
LEAST_PASSED = 150
"""Cases of Newton 1.8, subtests included."""
COUNTS = re.compile(r"(\d+) (failed|passed|skipped|subtests passed)")

NAMES = """
import actuon, actuon.newton
import newton.actuators

for name in newton.actuators.__all__:
    places = actuon.newton, actuon, newton.actuators
    globals()[name] = next(getattr(place, name) for place in places if hasattr(place, name))
"""
BUILDER = """import newton
import actuon.newton
newton.ModelBuilder = actuon.newton.ModelBuilder
"""
PARSE = "def parse_usd(builder, path, **options): return builder.add_usd(path, **options)\n"


def redirected(text):
    """Return a suite of Newton that tests Actuon."""
    text = text.replace("from newton.actuators import", "from names import")
    text = re.sub(r"from newton\.\w+\.actuators\.utils import load_metadata", "from actuon import load_metadata", text)
    text = re.sub(r"from newton\.\w+\.utils\.import_usd import parse_usd\n", PARSE, text)
    text = re.sub(r"self\.assertRaisesRegex\((\w+), [^\n]*\):", r"self.assertRaises(\1):", text)
    return text.replace("import newton\n", BUILDER, 1)


@pytest.mark.skipif(newton.__version__.split(".")[:2] != ["1", "8"], reason="the counts are those of Newton 1.8")
@pytest.mark.skipif(not (SUITES / FILES[0]).is_file(), reason="this wheel of Newton has no tests")
def test_what_newtons_suite_shows_runs(tmp_path):
    (tmp_path / "names.py").write_text(NAMES)
    (tmp_path / "conftest.py").write_text("import warp\nwarp.config.optimization_level = 0\n")
    (tmp_path / "assets").mkdir()
    stage = "assets/actuator_test.usda"
    (tmp_path / stage).write_bytes((SUITES / stage).read_bytes())
    for name in FILES:
        (tmp_path / name).write_text(redirected((SUITES / name).read_text()))
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "-W", "ignore", tmp_path]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    counts = {what: int(number) for number, what in COUNTS.findall(run.stdout.splitlines()[-1])}
    assert counts["passed"] + counts["subtests passed"] >= LEAST_PASSED, run.stdout
    assert counts["failed"] <= MOST_FAILED, run.stdout
