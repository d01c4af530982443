# SPDX-License-Identifier: Apache-2.0
"""Threads that look for work without sleeping, for steps that are over before a sleeping thread has woken.

Waking a thread takes some 50 µs, and on a virtual machine more: half a step of fifty thousand DOFs. So a helper goes on
looking for work for a short while after its last, and is used only while it does. Steps that follow each other closely
are shared between cores; one that comes alone is not, and wakes nobody.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import threading
import time
from collections.abc import Sequence
from typing import Any

import warp as wp

from .shards import Shard

_LOOKING, _POSTED, _ASLEEP = range(3)
_PATIENCE = 2_000_000
"""Ticks of the processor's clock for which a helper looks for work before it goes to sleep: somewhat below 1 ms."""
_OFTEN = 1e-3
"""Steps that follow each other within this [s] are worth a helper that is awake."""
_MOST_HELPERS = 7

Control: Any = wp.array(dtype=wp.int64)


@wp.func_native(f"""
long long* c = (long long*)control.data;
for (;;) {{
    unsigned long long since = __builtin_ia32_rdtsc();
    while (__atomic_load_n(&c[0], __ATOMIC_ACQUIRE) != {_POSTED}) {{
        if (__builtin_ia32_rdtsc() - since > {_PATIENCE}ULL) {{
            long long state = {_LOOKING};
            if (__atomic_compare_exchange_n(&c[0], &state, {_ASLEEP}LL, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {{
                __atomic_store_n(&c[4], 1LL, __ATOMIC_RELEASE);
                return;
            }}
            since = __builtin_ia32_rdtsc();
        }}
        __builtin_ia32_pause();
    }}
    ((void (*)(void*, void*))c[1])((void*)c[2], (void*)c[3]);
    __atomic_store_n(&c[0], {_LOOKING}LL, __ATOMIC_RELEASE);
    __atomic_store_n(&c[5], c[5] + 1, __ATOMIC_RELEASE);
}}
""")
def serve(control: Control): ...


@wp.kernel(enable_backward=False, module="unique")
def serve_calls(control: Control):
    serve(control)


class Helper:
    """A thread that serves posted calls of compiled functions. To be used by one caller at a time.

    Its control block holds a state, the addresses of a call, whether the thread has left the loop that serves, and how
    many calls it has made. Only the helper sets the last two, so that a call posted just as it leaves is noticed by who
    waits for it.
    """

    def __init__(self) -> None:
        self._control = (ctypes.c_longlong * 6)(_ASLEEP, 0, 0, 0, 1, 0)
        array = wp.array(
            ptr=ctypes.addressof(self._control), dtype=wp.int64, shape=(6,), device="cpu", capacity=48, deleter=None
        )
        self._serve = Shard(wp.launch(serve_calls, 1, [array], device="cpu", record_cmd=True))
        self._bell = threading.Semaphore(0)
        self._rung = False
        self._calls = 0
        self.is_gone = False
        """Whether the thread is that of a parent process."""
        self.last_work = 0.0
        """When a step ended that it could have helped with."""
        threading.Thread(target=self._live, name="actuon-helper", daemon=True).start()

    def _live(self) -> None:
        while True:
            self._bell.acquire()
            self._control[0] = _LOOKING
            self._control[4] = 0
            self._rung = False
            self._serve.run()

    def is_awake(self) -> bool:
        """Whether it looks for work. If it does not, and steps follow each other closely, it is woken for the next."""
        if self._control[0] == _LOOKING and not self._control[4]:
            return True
        if time.perf_counter() - self.last_work < _OFTEN and self._control[4] and not self._rung:
            self._rung = True
            self._bell.release()
        return False

    def post(self, shard: Shard) -> None:
        """Give it a call to make."""
        assert shard.call is not None
        self._calls = self._control[5] + 1
        self._control[1], self._control[2], self._control[3] = shard.call
        self._control[0] = _POSTED

    def wait(self, shard: Shard) -> None:
        """Wait until the call is over, or make it, where the helper had just left.

        An interrupt is raised afterwards: what the call works on must not go away under it.
        """
        interrupt = None
        while True:
            try:
                control = self._control
                while control[5] != self._calls:
                    if control[4] and control[5] != self._calls:
                        self._calls = control[5]
                        shard.run()
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def forget(self) -> None:
        """In a child process, where its thread is not."""
        self.is_gone = True
        self._control[0], self._control[4] = _ASLEEP, 1


_all: list[Helper] = []


def helpers(shards: Sequence[Shard]) -> list[Helper]:
    """A helper for each of ``shards``; none where there are too many, or the machine is not one to wait on so."""
    known = platform.machine() in ("x86_64", "AMD64") and os.environ.get("ACTUON_HELPERS", "1") != "0"
    if not known or len(shards) > _MOST_HELPERS or any(shard.call is None for shard in shards):
        return []
    with _making:
        while len(_all) < len(shards):
            _all.append(Helper())
        return _all[: len(shards)]


_making = threading.Lock()


def _forget_helpers() -> None:
    """A child process has none of its parent's threads."""
    global _making
    for helper in _all:
        helper.forget()
    _all.clear()
    _making = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=functools.partial(_forget_helpers))
