"""A time limit for one function call.

Knows threads and clocks. Knows nothing of exercises.

The function runs in the calling thread, as if it were called directly. A second thread
watches the clock and, when the time is up, raises `TimeIsUp` in the calling thread.
"""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

# Seconds between exceptions: a bare `except:` in a loop swallows one, so keep raising.
RETRY_INTERVAL = 0.001
# A function that only waits (sleeps) is stopped after this many times its seconds.
IDLE_FACTOR = 10


class TimeIsUp(BaseException):
    """Raised in a call that took too long.

    A BaseException, so that `except Exception:` in the function does not catch it.
    """


class _Clock:
    """Raises TimeIsUp in the thread that made it, again and again, until it is done.

    The exception may interrupt that thread anywhere, so this class uses no lock that an
    exception could leave locked: `done` and `raising` are set by single assignments.
    """

    def __init__(self, seconds):
        self.seconds = seconds
        self.caller = ctypes.c_ulong(threading.get_ident())
        self.done = False
        self.raising = False
        self.stop = threading.Lock()  # released to end the watching thread
        self.stop.acquire()

    def start(self):
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        """Count processor time, so that a busy machine does not shorten the limit."""
        start = time.monotonic()
        computed = time.process_time()
        pause = self.seconds
        while not self.stop.acquire(timeout=pause):
            passed = time.monotonic() - start
            used = time.process_time() - computed
            pause = RETRY_INTERVAL
            if used > 0.9 * self.seconds or passed > IDLE_FACTOR * self.seconds:
                self._raise()

    def _raise(self):
        self.raising = True  # set before `done` is read; `settle` does the reverse
        if not self.done:
            what = ctypes.py_object(TimeIsUp)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(self.caller, what)
        self.raising = False

    def settle(self):
        """After `done`: wait until no exception is being raised or still pending.

        It may itself be interrupted once, and must then be called again. (Clearing the
        pending exception instead makes Python 3.11 check for it forever.)
        """
        while self.raising:
            time.sleep(0)
        for _ in range(9):
            pass  # the interpreter delivers a pending exception at a loop's jump
        if self.stop.locked():
            self.stop.release()


def call_within(seconds: float | int, function: Callable, *arguments: Any) -> Any:
    """Call the function and return its result.

    A loop in Python code is interrupted; a single call into compiled code is not.

    Raises TimeIsUp after `seconds` of computing.
    """
    clock = _Clock(seconds)
    try:
        clock.start()
        return function(*arguments)
    finally:
        clock.done = True  # from here on at most one exception is still pending
        try:
            clock.settle()
        except BaseException as late:
            clock.settle()
            if not isinstance(late, TimeIsUp):
                raise
