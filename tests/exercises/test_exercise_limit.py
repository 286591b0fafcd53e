"""A check has limits: in time, and in what it may change in the process.

An answer without an end is stopped in the thread of the caller, and nothing is raised
later. What an answer does to the global state does not outlive its call.
"""

import contextlib
import dataclasses
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from jupyter_client.manager import start_new_kernel

from named_mistakes import check, examine
from named_mistakes.limit import TimeIsUp, call_within
from named_mistakes.running import run
from tests.support.bank import BANK

NAME = "attention.weights"


def spins():
    while True:
        pass


def spins_and_catches():
    while True:
        try:
            torch.ones(3).softmax(dim=-1)
        except Exception:
            continue


def spins_and_catches_all():
    while True:
        try:
            sum(range(50))
        except:  # noqa: E722
            continue


def spins_in_a_generator():
    return [n for n in iter(lambda: 0, 1) if n]


def recurs_and_catches():
    try:
        return recurs_and_catches()
    except RecursionError:
        return recurs_and_catches()


def sleeps():
    while True:
        time.sleep(0.01)


ENDLESS = [spins, spins_and_catches, spins_and_catches_all, spins_in_a_generator]
ENDLESS += [recurs_and_catches, sleeps]


@pytest.mark.parametrize("ringing", ["timer", "thread"])
@pytest.mark.parametrize("function", ENDLESS)
def test_what_has_no_end_is_ended(function, ringing, monkeypatch):
    if ringing == "thread":  # as on Windows
        monkeypatch.delattr(signal, "setitimer", raising=False)
    # An exception that arrives within a callback goes to this hook. pytest's own would
    # format the traceback of a thousand calls, and be interrupted again and again.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    start = time.process_time()
    with pytest.raises(TimeIsUp):
        call_within(0.1, function)
    assert time.process_time() - start < 3


def test_what_ends_gives_its_value_or_its_error():
    assert call_within(5, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        call_within(5, divmod, 7, 0)
    with pytest.raises(KeyboardInterrupt):  # the Stop button of the reader
        call_within(5, _stop)


def _stop():
    raise KeyboardInterrupt


def test_only_what_the_answer_itself_computes_counts():
    ended = threading.Event()

    def burns():
        while not ended.is_set():
            pass

    def waits():
        end = time.process_time() + 0.3
        while time.process_time() < end:
            time.sleep(0.01)

    other = threading.Thread(target=burns)
    other.start()
    try:
        call_within(0.2, waits)
    finally:
        ended.set()
        other.join()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_timers_and_handlers_of_others_go_on(monkeypatch):
    rung = []
    handler = signal.signal(signal.SIGALRM, lambda *_: rung.append(True))
    try:
        signal.setitimer(signal.ITIMER_PROF, 30)
        signal.setitimer(signal.ITIMER_REAL, 30, 5)
        assert call_within(1, divmod, 7, 2) == (3, 1)
        assert signal.setitimer(signal.ITIMER_PROF, 0)[0] > 0
        left, interval = signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert 0 < left <= 30 and interval == 5
        call_within(1, time.sleep, 0.1)  # in which it would have rung
        time.sleep(0.1)
        assert rung
        with monkeypatch.context() as patch:
            patch.setattr(signal, "getsignal", lambda _: None)  # it is one in C
            assert call_within(1, divmod, 7, 2) == (3, 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


def _computes(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_nothing_is_raised_after_the_call():
    """The hardest moment: the function returns just when the clock rings."""
    ended = []
    for number in range(60):
        try:
            call_within(0.01, _computes, 0.01 + (number - 40) * 5e-5)
            ended.append(True)
        except TimeIsUp:
            ended.append(False)
        _computes(0.001)  # here something late would arrive
    time.sleep(0.2)
    assert len(ended) == 60


def test_an_endless_loop_shows_the_line_of_the_learner():
    def endless(scores):
        steps = 0
        while steps < 5:
            scores = scores.softmax(dim=-1)
        return scores

    exercise = dataclasses.replace(BANK[NAME], seconds=1)
    report = examine(exercise, endless)
    assert report.status == "error"
    assert report.title == f"{NAME}: it does not come to an end"
    assert "while steps < 5:" in report.code or "scores.softmax" in report.code
    assert "after 1 seconds" in report.text and "Asked with scores 3×5." in report.lines
    assert "Traceback" not in report.text and "limit.py" not in report.text


def test_stop_stays_with_the_reader():
    def stopped(scores):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(NAME, stopped)


@pytest.mark.slow
def test_a_notebook_goes_on_after_an_endless_answer_and_after_stop():
    manager, client = start_new_kernel(cwd=str(Path(__file__).parents[2]))
    outputs = []

    def hear(message):
        content = message["content"]
        text = content.get("data", {}).get("text/plain", content.get("text"))
        outputs.append(text)
        if text == "press Stop\n":
            threading.Timer(0.5, manager.interrupt_kernel).start()

    def run(code):
        outputs.clear()
        reply = client.execute_interactive(code, timeout=120, output_hook=hear)
        return reply["content"].get("ename"), "\n".join(filter(None, outputs))

    try:
        session = "from named_mistakes import check"
        run(f"{session}\ndef spins(*given):\n    while True:\n        pass")
        error, text = run(f"check({NAME!r}, spins)")
        assert error is None and "it does not come to an end" in text
        assert "while True:" in text and "Traceback" not in text
        error, _ = run(f"print('press Stop', flush=True)\ncheck({NAME!r}, spins)")
        assert error == "KeyboardInterrupt"
        error, text = run(f"import torch\ncheck({NAME!r}, torch.nn.Softmax(dim=-1))")
        assert error is None and text.startswith(f"✓ {NAME}: right")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# --- the global state --------------------------------------------------------------


def global_state():
    """What `isolated` promises to leave as it was, as one comparable value."""
    return (
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_rng_state().tolist(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        str(torch.tensor(1 / 3)),
        str(np.ones(1) / 3),
        np.geterr(),
        dict(os.environ),
        os.getcwd(),
        list(sys.path),
    )


def enters_inference_mode():
    torch.inference_mode().__enter__()


CHANGES = {
    "Python's random state": random.random,
    "Python's seed": lambda: random.seed(8),
    "NumPy's random state": np.random.rand,
    "NumPy's seed": lambda: np.random.seed(8),
    "torch's random state": lambda: torch.rand(1),
    "torch's seed": lambda: torch.manual_seed(8),
    "default dtype": lambda: torch.set_default_dtype(torch.float16),
    "default device": lambda: torch.set_default_device("meta"),
    "gradients": lambda: torch.set_grad_enabled(False),
    "inference mode": enters_inference_mode,
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "determinism": lambda: torch.use_deterministic_algorithms(True),
    "printing": lambda: torch.set_printoptions(precision=1),
    "NumPy's printing": lambda: np.set_printoptions(precision=1),
    "NumPy's warnings": lambda: np.seterr(all="raise"),
    "environment": lambda: os.environ.update(LEFT="behind"),
    "folder": lambda: os.chdir("/"),
    "where modules are": lambda: sys.path.insert(0, "left behind"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("ends", ["returns", "raises", "is stopped"])
def test_what_an_answer_does_to_the_process_does_not_outlive_it(name, ends):
    def answer(scores):
        CHANGES[name]()
        if ends == "raises":
            raise ValueError("not today")
        while ends == "is stopped":
            pass
        return scores

    before = global_state()
    outcome = run(answer, (torch.ones(2),), 0.1 if ends == "is stopped" else 3)
    assert (outcome.error is None) == (ends == "returns")
    assert global_state() == before


def seen_by(function):
    """What an answer sees of the global state."""
    seen = []

    def answer(scores):
        function()
        seen.append((random.random(), np.random.rand(), torch.rand(2).tolist()))
        seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        seen.append(torch.get_default_device().type)
        return scores

    run(answer, (torch.ones(2),))
    return seen


def test_each_call_begins_in_the_same_state():
    first = seen_by(lambda: None)
    assert first[1:] == [(True, False), "cpu"]
    for change in (random.random, np.random.rand, lambda: torch.rand(1)):
        change()
        assert seen_by(lambda: None) == first
    assert seen_by(lambda: random.seed(8)) != first


@contextlib.contextmanager
def default_device(device):
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextlib.contextmanager
def no_gradients():
    """As a notebook switches them off: by the call, not by a `with`."""
    torch.set_grad_enabled(False)
    try:
        yield
    finally:
        torch.set_grad_enabled(True)


SURROUNDINGS = {
    "gradients on": contextlib.nullcontext,
    "gradients off": no_gradients,
    "no_grad": torch.no_grad,
    "inference mode": torch.inference_mode,
    "default device": lambda: default_device("meta"),
    "device context": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("where", SURROUNDINGS)
def test_a_check_is_the_same_anywhere_and_leaves_all_as_it_was(where):
    with SURROUNDINGS[where]():
        before = global_state()
        reports = [examine(BANK[n], BANK[n].reference) for n in (NAME, "training.step")]
        assert global_state() == before
        assert seen_by(lambda: None)[1:] == [(True, False), "cpu"]
    assert [report.status for report in reports] == ["right", "right"]
