"""A time limit for one function call.

Knows timers. Knows nothing of exercises.

The timers of the operating system interrupt the call; they exist for the main thread of
Linux and macOS, where notebooks run. On Windows, and in other threads, nothing
interrupts an answer without an end but the reader's Stop button.
"""

import signal
import threading
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


def call_within(seconds: float | int, function: Callable, *arguments: Any) -> Any:
    """Call the function and return its result.

    A loop in Python code is interrupted; a single call into compiled code is not.

    Raises TimeIsUp after `seconds` of computing: a busy machine does not shorten them.
    """
    main = threading.current_thread() is threading.main_thread()
    if not (main and hasattr(signal, "setitimer")):
        return function(*arguments)
    running = True

    def stop(*_):
        if running:
            raise TimeIsUp

    computing, waiting = signal.ITIMER_PROF, signal.ITIMER_REAL
    before = {n: signal.signal(n, stop) for n in (signal.SIGPROF, signal.SIGALRM)}
    try:
        try:
            signal.setitimer(computing, seconds, RETRY_INTERVAL)
            signal.setitimer(waiting, IDLE_FACTOR * seconds, RETRY_INTERVAL)
            return function(*arguments)
        finally:
            running = False
    finally:  # the inner one may itself be interrupted, once
        running = False
        for timer in (computing, waiting):
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
