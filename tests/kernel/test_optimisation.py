# SPDX-License-Identifier: Apache-2.0
"""Kernels give the same bits with and without optimisation: tests compile most of them without."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import warp as wp

import actuon
from tests.support.chains import NAMED, NAMES, Values, named, random_signals, rollout
from tests.support.paths import ROOT

N = 71
"""DOFs: a block of 64, and a tail."""
STEPS = 12


def bits(name):
    """Efforts of a chain over several steps, as hexadecimal digits."""
    rng = np.random.default_rng(5)
    named_values = Values.random(name, N, rng) if name in NAMES else None
    actuator = named_values.actuator() if named_values else actuon.Actuator(range(N), stages=named(name))
    return rollout(actuator, [random_signals(N, rng) for _ in range(STEPS)]).tobytes().hex()


def gradient_bits():
    """Gradient of the effort by kp and position through two steps, as hexadecimal digits."""
    rng = np.random.default_rng(6)
    actuator = actuon.Actuator(range(N), stages=named("late_motor"), requires_grad=True)
    states = [actuator.state() for _ in range(3)]
    sims = [
        {name: wp.array(array, requires_grad=True) for name, array in random_signals(N, rng).items()} for _ in range(2)
    ]
    tape = wp.Tape()
    for i, sim in enumerate(sims):
        sim["joint_f"] = wp.zeros(N, dtype=wp.float32, requires_grad=True)
        with tape:
            actuator.step(sim, sim, states[i], states[i + 1], dt=0.01)
    tape.backward(grads={sim["joint_f"]: wp.ones(N, dtype=wp.float32) for sim in sims})
    arrays = (actuator.controller.kp, sims[0]["joint_q"], sims[0]["joint_target_q"])
    assert all(array.grad.numpy().any() for array in arrays)
    return "".join(array.grad.numpy().tobytes().hex() for array in arrays)


def everything():
    return {name: bits(name) for name in (*NAMES, *NAMED)} | {"gradients": gradient_bits()}


@pytest.fixture(scope="module")
def levels():
    """What all chains give without optimisation and as users compile them, each in a process of its own."""
    program = (
        "import json, sys, warp as wp; wp.config.log_level = wp.LOG_WARNING; "
        "wp.config.optimization_level = int(sys.argv[1]); "
        "from tests.kernel.test_optimisation import everything; print(json.dumps(everything()))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(level)], stdout=subprocess.PIPE, cwd=ROOT, text=True)
        for level in (0, 2)
    ]
    found = [json.loads(process.communicate()[0]) for process in running]
    assert [process.returncode for process in running] == [0, 0]
    return found


@pytest.mark.parametrize("name", [*NAMES, *NAMED, "gradients"])
def test_bits_are_the_same(name, levels):
    without, with_optimisation = (level[name] for level in levels)
    assert without == with_optimisation
    assert set(without) - {"0"}
