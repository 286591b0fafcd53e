"""A call that must come to an end. Knows nothing of exercises.

The function runs in the thread of its caller, as if it were called directly. A second
thread looks at the clock and, when the time is up, raises `TimeIsUp` in the first.
"""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

AGAIN = 0.001  # seconds: a bare `except:` swallows all that ring inside its `try`
IDLE_FACTOR = 10  # a function that only waits gets so many times its seconds


class TimeIsUp(BaseException):
    """Raised in a call that took too long: no Exception, so that few can catch it."""


class _Clock:
    """Rings in the thread that made it, until `done`.

    Whoever is interrupted may be anywhere, so nothing here takes a lock that an
    exception could leave locked: `done` and `ringing` are set in single steps.
    """

    def __init__(self, seconds):
        self.seconds = seconds
        self.caller = ctypes.c_ulong(threading.get_ident())
        self.done = self.ringing = False
        self.asleep = threading.Lock()
        self.asleep.acquire()

    def start(self):
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        """Computing counts, not waiting for a busy machine; yet waiting has an end."""
        start, computed = time.monotonic(), time.process_time()
        pause = self.seconds
        while not self.asleep.acquire(timeout=pause):
            passed = time.monotonic() - start
            used = time.process_time() - computed
            pause = AGAIN
            if used > 0.9 * self.seconds or passed > IDLE_FACTOR * self.seconds:
                self._ring()

    def _ring(self):
        self.ringing = True  # first say so, then look: `settle` does it the other way
        if not self.done:
            what = ctypes.py_object(TimeIsUp)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(self.caller, what)
        self.ringing = False

    def settle(self):
        """After `done`: wait until nothing rings any more and nothing is on its way.

        It may itself be interrupted, once, and then be called again. (To take an
        exception back is possible too, but leaves Python 3.11 looking for it forever.)
        """
        while self.ringing:
            time.sleep(0)
        for _ in range(9):
            pass  # Python looks at each turn: what is on its way arrives here
        if self.asleep.locked():
            self.asleep.release()


def call_within(seconds: float | int, function: Callable, *arguments: Any) -> Any:
    """What the function gives; TimeIsUp if it computes for longer than that.

    A loop in Python ends; one long call of compiled code is waited for.
    """
    clock = _Clock(seconds)
    try:
        clock.start()
        return function(*arguments)
    finally:
        clock.done = True  # from here on at most one exception is still on its way
        try:
            clock.settle()
        except BaseException as late:
            clock.settle()
            if not isinstance(late, TimeIsUp):
                raise
