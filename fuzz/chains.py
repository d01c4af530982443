# SPDX-License-Identifier: Apache-2.0
"""Random chains, sizes, indices, arrays, values and events, against the oracle and against every other path."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import strategies as st

from .arrays import FLOAT32, KINDS, STRIDED
from .reference import assert_within
from .rig import rig
from .script import LAYOUTS, OUTPUTS, STEPPINGS, Case, Player, Reader, Script
from .values import MOODS, structures

SIZES = (0, 1, 2, 5, 15, 16, 17, 63, 64, 65, 130, 257, 600)
LENGTH = 100
"""Steps of most chains. A failure is shrunk to fewer."""
PATHS = ("staged", "alone", "gradients", "strided", "replayed")
"""Other ways to the same efforts: a kernel per stage, an actuator per DOF, the kernel for a tape, the one for strided
arrays, a captured graph."""


def _cases(seed: int) -> dict[str, st.SearchStrategy]:
    cases = st.builds(
        Case,
        structure=st.sampled_from(structures(seed, 1)),
        n=st.sampled_from(SIZES),
        layout=st.sampled_from(LAYOUTS),
        stepping=st.sampled_from(list(STEPPINGS)),
        mood=st.sampled_from(MOODS),
        feedforward=st.sampled_from(["given", "absent", "at times"]),
        arrays=st.sampled_from(["any", *KINDS]),
        accumulate=st.booleans(),
        computed=st.booleans(),
        length=st.sampled_from([1, 2, 5, 16, *[LENGTH] * 36]),
        dt=st.sampled_from([None, 0.01]),
        numbers=st.integers(0, 2**32 - 1),
    )
    return {"case": cases, "path": st.sampled_from([None, *PATHS])}


@rig("chains", examples=20, drawn=_cases)
def chains(case: Case, path: str | None) -> None:
    """Efforts are those of the oracle, whatever happens, and the same bits on every path."""
    case = dataclasses.replace(case, accumulate=case.accumulate or case.layout == "repeated efforts")
    if path == "replayed":
        feedforward = "given" if case.feedforward == "at times" else case.feedforward
        case = dataclasses.replace(case, stepping="one", feedforward=feedforward, dt=0.01)
    chains.tally.add("steps", case.length)
    chains.tally.add(f"of {LENGTH} steps", int(case.length == LENGTH))
    chains.tally.see("structures", case.structure)
    script = Script(case)
    played = Player(script, kinds=KINDS if path is None else FLOAT32 | STRIDED).outputs
    _check_outputs(script, played)
    if path is not None:
        _check_same(script, played, path)


def _check_outputs(script: Script, played: list[dict[str, np.ndarray]]) -> None:
    expected = Reader(script)
    steps = [event for event in script.events if event.kind == "step"]
    at = script.effort_indices
    for t, (event, outputs) in enumerate(zip(steps, played, strict=True)):
        for name in OUTPUTS:
            right = event.before[name].astype(np.float64)
            size = np.abs(right)
            if not _is_written(script, name):
                size[:] = 0.0
            else:
                if name == "motor_speed" or not script.case.accumulate:
                    right[at] = size[at] = 0.0
                with np.errstate(all="ignore"):
                    np.add.at(right, at, expected.signals[t][name])
                    np.add.at(size, at, expected.sizes[t][name])
            assert_within(outputs[name], right, size, f"step {t}, {name}")


def _is_written(script: Script, output: str) -> bool:
    if output == "joint_f":
        return True
    return script.case.computed and (output == "computed" or script.offers_speed)


def _check_same(script: Script, played: list[dict[str, np.ndarray]], path: str) -> None:
    at = script.effort_indices
    if path == "alone":
        alone = at[np.array([np.count_nonzero(at == i) == 1 for i in at], bool)]
        chosen = sorted({i for i in (0, 1, 62, 63, 64, len(at) - 1) if 0 <= i < len(at) and at[i] in alone})
        others = Player(script, kinds=FLOAT32, only=chosen).outputs
        compared = at[chosen]
    else:
        options = {
            "staged": {"kinds": FLOAT32, "staged": True},
            "gradients": {"kinds": ["warp", "warp strided"], "requires_grad": True},
            "strided": {"kinds": STRIDED},
            "replayed": {"kinds": ["warp", "warp strided", "numpy"], "replayed": True},
        }
        others = Player(script, **options[path]).outputs
        compared = np.arange(script.sizes[0])
    for t, (first, second) in enumerate(zip(played, others, strict=True)):
        for name in OUTPUTS:
            np.testing.assert_array_equal(second[name][compared], first[name][compared], f"{path}, step {t}, {name}")
