"""What has no end is ended, in the caller's thread, and nothing is raised later."""

import threading
import time
from pathlib import Path

import pytest
import torch
from jupyter_client.manager import start_new_kernel

from course_utils.exercises.checking import examine
from course_utils.exercises.limit import TimeIsUp, call_within
from course_utils.exercises.session import BANK, check
from tests.notebook_plugin import patience

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


@pytest.mark.parametrize("function", ENDLESS)
def test_what_has_no_end_is_ended(function):
    start = time.perf_counter()
    with pytest.raises(TimeIsUp):
        call_within(0.2, function)
    assert 0.15 < time.perf_counter() - start < 3 * patience()


def test_what_ends_gives_its_value_or_its_error():
    assert call_within(5, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        call_within(5, divmod, 7, 0)
    with pytest.raises(KeyboardInterrupt):  # the Stop button of the reader
        call_within(5, _stop)


def _stop():
    raise KeyboardInterrupt


def test_no_thread_stays_behind():
    before = threading.active_count()
    for _ in range(50):
        call_within(5, len, "abc")
    time.sleep(0.1)
    assert threading.active_count() <= before + 1


def _computes(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_nothing_is_raised_after_the_call():
    """The hardest moment: the function returns just when the clock rings."""
    ended = []
    for number in range(150):
        try:
            call_within(0.01, _computes, 0.01 + (number - 75) * 2e-5)
            ended.append(True)
        except TimeIsUp:
            ended.append(False)
        _computes(0.001)  # here something late would arrive
    time.sleep(0.2)
    assert len(ended) == 150


def test_a_thread_of_its_own_may_check_too():
    caught = []

    def work():
        try:
            call_within(0.2, spins)
        except TimeIsUp:
            caught.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10 * patience())
    assert caught == [True]


def test_an_endless_loop_shows_the_line_of_the_learner():
    def endless(scores):
        steps = 0
        while steps < 5:
            scores = scores.softmax(dim=-1)
        return scores

    start = time.perf_counter()
    report = examine(BANK[NAME], endless)
    assert time.perf_counter() - start < 6 * patience()
    assert report.status == "error"
    assert report.title == f"{NAME}: it does not come to an end"
    assert "while steps < 5:" in report.code or "scores.softmax" in report.code
    assert "3 seconds" in report.text and "Asked with scores 3×5." in report.lines
    assert "Traceback" not in report.text and "limit.py" not in report.text


def test_stop_stays_with_the_reader():
    def stopped(scores):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(NAME, stopped)


def test_a_notebook_goes_on_after_an_endless_answer_and_after_stop():
    manager, client = start_new_kernel(cwd=str(Path(__file__).parents[1]))
    shown = []

    def hears(message):
        content = message["content"]
        shown.append(content.get("data", {}).get("text/plain", content.get("text")))

    def run(code):
        shown.clear()
        wait = 60 * patience()
        reply = client.execute_interactive(code, timeout=wait, output_hook=hears)
        return reply["content"].get("ename"), "\n".join(filter(None, shown))

    try:
        session = "from course_utils.exercises.session import check"
        run(f"{session}\ndef spins(*given):\n    while True:\n        pass")
        error, said = run(f"check({NAME!r}, spins)")
        assert error is None and "it does not come to an end" in said
        assert "while True:" in said and "Traceback" not in said
        threading.Timer(1, manager.interrupt_kernel).start()  # as the Stop button does
        error, said = run(f"check({NAME!r}, spins)")
        assert error == "KeyboardInterrupt"
        error, said = run(f"import torch\ncheck({NAME!r}, torch.nn.Softmax(dim=-1))")
        assert error is None and said.startswith(f"✓ {NAME}: right")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_only_exercises_that_train_take_longer():
    assert all(e.seconds <= 60 for e in BANK.values())
    assert sum(e.seconds > 3 for e in BANK.values()) <= len(BANK) // 10
