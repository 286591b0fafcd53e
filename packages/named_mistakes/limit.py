"""A time limit for one function call.

Knows timers. Knows nothing of exercises.

Only a call in the main thread, where notebooks run, is interrupted. In another thread,
and where a handler in C has the signal, nothing interrupts an answer without an end but
the reader's Stop button.
"""

import _thread
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

# Seconds between exceptions: a bare `except:` in a loop swallows one, so keep raising.
RETRY_INTERVAL = 0.001
# A function that only waits (sleeps) is stopped after this many times its seconds.
IDLE_FACTOR = 10
ALARM = signal.Signals["SIGALRM" if hasattr(signal, "SIGALRM") else "SIGBREAK"]


class TimeIsUp(BaseException):
    """Raised in a call that took too long.

    A BaseException, so that `except Exception:` in the function does not catch it.
    """


def call_within(seconds: float | int, function: Callable, *arguments: Any) -> Any:
    """Call the function and return its result.

    A loop in Python code is interrupted; a single call into compiled code is not. A
    timer or a handler that somebody else has set goes on afterwards.

    Raises TimeIsUp after `seconds` that the main thread computes: a busy machine and
    other threads do not shorten them.
    """
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(ALARM)
    if not main or handler is None:  # None: it is in C, and cannot be put back
        return function(*arguments)
    running = True
    began, computed = time.monotonic(), time.thread_time()

    def stop(*_):
        computes = time.thread_time() - computed >= seconds
        waits = time.monotonic() - began >= IDLE_FACTOR * seconds
        if running and (computes or waits):
            raise TimeIsUp

    timers = hasattr(signal, "setitimer")
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0) if timers else (0, 0)
    ended = threading.Event()
    signal.signal(ALARM, stop)
    try:
        try:
            if timers:
                signal.setitimer(signal.ITIMER_REAL, seconds, RETRY_INTERVAL)
            else:
                threading.Thread(target=_ring, args=(seconds, ended)).start()
            return function(*arguments)
        finally:
            running = False
    finally:  # the inner one may itself be interrupted, once
        running = False
        ended.set()
        if timers:
            signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(ALARM, handler)
        if left:
            left = max(began + left - time.monotonic(), RETRY_INTERVAL)
            signal.setitimer(signal.ITIMER_REAL, left, interval)


def _ring(seconds, ended):
    """Interrupt the main thread as a timer does; Windows has none."""
    while not ended.wait(seconds):
        _thread.interrupt_main(ALARM)
        seconds = RETRY_INTERVAL
