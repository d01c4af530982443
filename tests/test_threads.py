# SPDX-License-Identifier: Apache-2.0
"""Steps that are shared between threads are the same steps."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import warp as wp

import actuon
from actuon import helpers, launch


@pytest.fixture
def threads(monkeypatch):
    """Two threads for a few thousand DOFs."""
    monkeypatch.setenv("ACTUON_NUM_THREADS", "2")
    monkeypatch.setattr(launch, "DOFS_PER_THREAD", 1024)


def problem(n, seed):
    rng = np.random.default_rng(seed)
    actuator = actuon.Actuator(
        range(n),
        actuon.ControllerPID(rng.uniform(0, 50, n), rng.uniform(0, 5, n), rng.uniform(0, 2, n), 0.5),
        delay=actuon.Delay(rng.integers(0, 5, n).astype(np.int32), 4),
        clamping=[actuon.ClampingMaxEffort(rng.uniform(1, 20, n))],
    )
    names = ("joint_q", "joint_qd", "joint_target_q", "joint_target_qd")
    return actuator, {name: rng.standard_normal(n).astype(np.float32) for name in names}


def run(n, seed, steps, pause=lambda step: None):
    actuator, sim = problem(n, seed)
    state = actuator.state()
    sim["joint_f"] = np.zeros(n, np.float32)
    total = np.zeros(n)
    for step in range(steps):
        sim["joint_target_q"] += 0.01
        sim["joint_f"][:] = 0.0
        actuator.step(sim, sim, state, state, dt=0.01)
        total += sim["joint_f"] * (step % 7)
        pause(step)
    return total


def alone(n, seed, steps):
    old, launch.DOFS_PER_THREAD = launch.DOFS_PER_THREAD, 10**9
    try:
        return run(n, seed, steps)
    finally:
        launch.DOFS_PER_THREAD = old


def test_steps_in_a_row_are_shared_and_the_same(threads):
    expected = alone(5000, 1, 400)
    for _ in range(20):
        np.testing.assert_array_equal(run(5000, 1, 400), expected)
        if helpers._all and helpers._all[0]._control[1]:
            return  # it was given work
    if os.cpu_count() > 1 and platform.machine() in ("x86_64", "AMD64"):
        pytest.fail("no step was shared")


def test_more_helpers_than_cores(monkeypatch):
    monkeypatch.setenv("ACTUON_NUM_THREADS", "4")
    monkeypatch.setattr(launch, "DOFS_PER_THREAD", 1024)
    np.testing.assert_array_equal(run(5000, 5, 300), alone(5000, 5, 300))


@pytest.mark.parametrize("pause", [0.0, 0.0004, 0.0008, 0.002])
def test_pauses_in_which_helpers_fall_asleep(threads, pause):
    """Also just as a call is posted: waits of about a helper's patience hit that moment now and then."""
    rng = np.random.default_rng(0)

    def wait(step):
        end = time.perf_counter() + pause * rng.uniform(0.5, 1.5)
        while time.perf_counter() < end:
            pass

    np.testing.assert_array_equal(run(4000, 2, 300, wait), alone(4000, 2, 300))


def test_several_threads_step_at_once(threads):
    expected = [alone(4000, seed, 150) for seed in range(3)]
    results = [None] * 3

    def work(seed):
        results[seed] = run(4000, seed, 150)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_helpers_may_be_switched_off(threads, monkeypatch):
    monkeypatch.setenv("ACTUON_HELPERS", "0")
    assert helpers.helpers([]) == []
    np.testing.assert_array_equal(run(4000, 3, 20), alone(4000, 3, 20))


def test_a_process_ends_and_forks_while_helpers_look_for_work():
    code = """
import os, sys
sys.path[:0] = [{folder!r}]
os.environ["ACTUON_NUM_THREADS"] = "2"
from actuon import launch
launch.DOFS_PER_THREAD = 1024
import test_threads as t
first = t.run(4000, 1, 100)
child = os.fork()
if child == 0:
    os._exit(0 if (t.run(4000, 1, 100) == first).all() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), (t.run(4000, 1, 100) == first).all())
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code.format(folder=os.path.dirname(__file__))],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "0 True"


def test_fresh_tensors_at_each_step_are_bound_where_they_lie():
    torch = pytest.importorskip("torch")
    n = 300
    actuator, sim = problem(n, 4)
    other, _ = problem(n, 4)
    states = actuator.state(), other.state()
    wp.synchronize()
    for step in range(6):
        fresh = {name: torch.from_numpy(array.copy()) + 0.1 * step for name, array in sim.items()}
        if step == 3:  # another layout in between
            fresh["joint_q"] = torch.stack([fresh["joint_q"]] * 2, dim=1)[:, 0]
        plain = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in fresh.items()}
        fresh["joint_f"], plain["joint_f"] = torch.zeros(n), np.zeros(n, np.float32)
        actuator.step(fresh, fresh, states[0], states[0], dt=0.01)
        other.step(plain, plain, states[1], states[1], dt=0.01)
        np.testing.assert_array_equal(fresh["joint_f"].numpy(), plain["joint_f"])
    bad = dict(fresh, joint_q=torch.zeros(n, dtype=torch.float64))
    with pytest.raises(ValueError, match="joint_q"):
        actuator.step(bad, bad, states[0], states[0], dt=0.01)
    short = dict(fresh, joint_q=torch.zeros(n - 1))
    with pytest.raises(ValueError, match="joint_q"):
        actuator.step(short, short, states[0], states[0], dt=0.01)


def idle_share():
    """CPU time that the process uses while it does nothing, as a share of one core."""
    time.sleep(0.05)
    start, begin = time.process_time(), time.perf_counter()
    time.sleep(0.3)
    return (time.process_time() - start) / (time.perf_counter() - begin)


def test_helpers_sleep_when_nothing_is_to_do(threads):
    run(4000, 1, 200)
    assert idle_share() < 0.3


def test_interrupts_leave_helpers_usable(threads):
    """Ctrl-C at any moment of a step."""
    expected = alone(4000, 6, 100)
    for attempt in range(8):
        timer = threading.Timer(0.01 + 0.004 * attempt, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            run(4000, 6, 10**6)
        timer.join()
        np.testing.assert_array_equal(run(4000, 6, 100), expected)
    assert idle_share() < 0.3


def test_stepping_from_many_threads_for_a_while_leaves_no_one_spinning(threads):
    end = time.perf_counter() + 4.0

    def work(seed):
        while time.perf_counter() < end:
            run(3000, seed, 30, lambda step: time.sleep(0.0003) if step % 5 == 0 else None)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert idle_share() < 0.3


def test_a_child_steps_what_its_parent_bound():
    code = """
import os, sys
sys.path[:0] = [{folder!r}]
os.environ["ACTUON_NUM_THREADS"] = "2"
from actuon import launch
launch.DOFS_PER_THREAD = 1024
import numpy as np
import test_threads as t
actuator, sim = t.problem(4000, 1)
state = actuator.state()
sim["joint_f"] = np.zeros(4000, np.float32)
for _ in range(300):
    actuator.step(sim, sim, state, state, dt=0.01)
for _ in range(10):
    child = os.fork()
    if child == 0:
        for _ in range(50):
            actuator.step(sim, sim, state, state, dt=0.01)
        os._exit(0)
    for _ in range(50):
        actuator.step(sim, sim, state, state, dt=0.01)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code.format(folder=os.path.dirname(__file__))],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip().endswith("done"), done.stderr
