# SPDX-License-Identifier: Apache-2.0
"""Several threads, forks, interrupts and the end of the process: steps stay the same steps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import actuon
from actuon.kernel import launch
from tests.support.chains import Values, random_signals, rollout
from tests.support.paths import ROOT

N = 4000


@pytest.fixture
def threads(monkeypatch):
    """Two threads for a few thousand DOFs, however short the step."""
    monkeypatch.setenv("ACTUON_NUM_THREADS", "2")
    monkeypatch.setattr(launch, "DOFS_PER_THREAD", 1024)
    monkeypatch.setattr(launch, "WORTH_WAKING", 0.0)


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


def run(n, seed, steps):
    actuator, sim = problem(n, seed)
    state = actuator.state()
    sim["joint_f"] = np.zeros(n, np.float32)
    total = np.zeros(n)
    for step in range(steps):
        sim["joint_target_q"] += 0.01
        sim["joint_f"][:] = 0.0
        actuator.step(sim, sim, state, state, dt=0.01)
        total += sim["joint_f"] * (step % 7)
    return total


def alone(n, seed, steps):
    old, launch.DOFS_PER_THREAD = launch.DOFS_PER_THREAD, 10**9
    try:
        return run(n, seed, steps)
    finally:
        launch.DOFS_PER_THREAD = old


def run_script(text, **environment):
    """Run Python in a process of its own; returns what it prints, and fails where it writes an error."""
    before = f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n"
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", before + textwrap.dedent(text)],
        capture_output=True, text=True, check=False, timeout=120, env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.strip().splitlines()


def test_shared_steps_equal_those_of_one_thread(threads):
    np.testing.assert_array_equal(run(N, 1, 100), alone(N, 1, 100))


def test_more_threads_than_cores(threads, monkeypatch):
    monkeypatch.setenv("ACTUON_NUM_THREADS", "4")
    np.testing.assert_array_equal(run(5000, 5, 100), alone(5000, 5, 100))


def in_threads(works):
    workers = [threading.Thread(target=work) for work in works]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def test_several_threads_step_actuators_of_their_own(threads):
    expected = [alone(N, seed, 100) for seed in range(3)]
    results = [None] * 3

    def work(seed):
        results[seed] = run(N, seed, 100)

    in_threads([lambda seed=seed: work(seed) for seed in range(3)])
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("staged", [False, True])
def test_several_threads_step_one_actuator(staged, rng):
    """Each on states and arrays of its own."""
    values = Values.random("pid-dc_max-late", 50, rng)
    episodes = [[random_signals(50, rng) for _ in range(60)] for _ in range(4)]
    expected = [rollout(values.actuator(), steps) for steps in episodes]
    actuator = values.actuator(staged=staged)
    results = [None] * 4

    def work(i):
        results[i] = rollout(actuator, episodes[i])

    in_threads([lambda i=i: work(i) for i in range(4)])
    for got, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_leave_actuators_usable(threads):
    """Ctrl-C at any moment of a step. Python drops one that falls into a finalizer; then another follows."""
    expected = alone(N, 6, 50)
    for attempt in range(6):
        is_raised = threading.Event()

        def press(delay=0.02 + 0.005 * attempt, is_raised=is_raised):
            time.sleep(delay)
            os.kill(os.getpid(), signal.SIGINT)
            while not is_raised.wait(5.0):
                os.kill(os.getpid(), signal.SIGINT)

        keyboard = threading.Thread(target=press)
        keyboard.start()
        with pytest.raises(KeyboardInterrupt):
            run(N, 6, 10**6)
        is_raised.set()
        keyboard.join()
        np.testing.assert_array_equal(run(N, 6, 50), expected)


SHARED = """
    import os, threading
    os.environ["ACTUON_NUM_THREADS"] = "2"
    from actuon.kernel import launch
    launch.DOFS_PER_THREAD, launch.WORTH_WAKING = 1024, 0.0
    import numpy as np
    from tests.actuator import test_threads as t
    actuator, sim = t.problem(t.N, 1)
    state = actuator.state()
    sim["joint_f"] = np.zeros(t.N, np.float32)

    def step(times=20):
        for _ in range(times):
            actuator.step(sim, sim, state, state, dt=0.01)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_children_step_while_their_parents_thread_does():
    """A lock that another thread holds at the moment of a fork is nobody's in the child."""
    printed = run_script(
        SHARED
        + """
    step()
    going = True

    def work():
        while going:
            step(1)

    worker = threading.Thread(target=work)
    worker.start()
    codes = []
    for _ in range(20):
        child = os.fork()
        if child == 0:
            step()
            os._exit(0)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    going = False
    worker.join()
    print(codes == [0] * 20)
    """
    )
    assert printed[-1] == "True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_compiles_what_its_parent_was_compiling(tmp_path):
    printed = run_script(
        SHARED
        + """
    import time
    worker = threading.Thread(target=step)
    worker.start()
    time.sleep(0.3)  # it compiles now
    child = os.fork()
    if child == 0:
        step()
        os._exit(0)
    worker.join()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """,
        WARP_CACHE_PATH=str(tmp_path),
    )
    assert printed[-1] == "0"


def test_steps_while_the_interpreter_shuts_down():
    printed = run_script(
        SHARED
        + """
    class Last:
        def __del__(self):
            step()
            print("stepped at the end")

    def at_exit():
        step()
        print("stepped at exit")

    import atexit
    atexit.register(at_exit)
    keep = Last()
    keep.itself = keep
    step()
    threading._register_atexit(at_exit)
    """
    )
    assert printed.count("stepped at exit") == 2


def test_fresh_tensors_at_each_step_are_bound_where_they_lie():
    torch = pytest.importorskip("torch")
    n = 300
    actuator, sim = problem(n, 4)
    other, _ = problem(n, 4)
    states = actuator.state(), other.state()
    for step in range(6):
        fresh = {name: torch.from_numpy(array.copy()) + 0.1 * step for name, array in sim.items()}
        if step == 3:  # another layout in between
            fresh["joint_q"] = torch.stack([fresh["joint_q"]] * 2, dim=1)[:, 0]
        plain = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in fresh.items()}
        fresh["joint_f"], plain["joint_f"] = torch.zeros(n), np.zeros(n, np.float32)
        actuator.step(fresh, fresh, states[0], states[0], dt=0.01)
        other.step(plain, plain, states[1], states[1], dt=0.01)
        np.testing.assert_array_equal(fresh["joint_f"].numpy(), plain["joint_f"])
    short = dict(fresh, joint_q=torch.zeros(n - 1))
    with pytest.raises(ValueError, match="joint_q"):
        actuator.step(short, short, states[0], states[0], dt=0.01)


def test_what_a_task_raises_is_raised_when_all_are_done():
    done = []

    def fails():
        raise RuntimeError("broken")

    for tasks in ([lambda: done.append(1), fails], [fails, lambda: done.append(2)]):
        with pytest.raises(RuntimeError, match="broken"):
            actuon.threads.run_together(tasks)
    assert done == [1, 2]
    actuon.threads.run_together([lambda: done.append(3), lambda: done.append(4)])
    assert sorted(done) == [1, 2, 3, 4]


def test_tasks_within_tasks_and_beside_each_other():
    """Where threads are in use already, work is done by who brings it."""
    seen = []

    def within():
        actuon.threads.run_together([lambda: seen.append("a"), lambda: seen.append("b")])

    in_threads([lambda: actuon.threads.run_together([within, within, within]) for _ in range(4)])
    assert (seen.count("a"), seen.count("b")) == (12, 12)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no such signals here")
def test_what_a_signal_raises_is_raised_when_all_tasks_are_done():
    """Tasks work on arrays of the caller, so all of them end before the error is raised."""
    done = []

    def late(*_):
        raise TimeoutError("late")

    def slow():
        time.sleep(0.3)
        done.append(1)

    before = signal.signal(signal.SIGALRM, late)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(TimeoutError, match="late"):
            actuon.threads.run_together([lambda: None, slow])
        assert done == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
