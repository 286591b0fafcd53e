"""Every exercise of every bank: right answers pass, known mistakes are named.

`make check` tries each answer in two ways; the long tests try more seeds.
"""

import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from named_mistakes import check, examine
from tests.exercises.answers import (
    CODING,
    PREDICTED,
    RIGHT_ANSWERS,
    as_answer,
    judge,
)
from tests.support.bank import BANK, BANKS

README = Path(__file__).parents[2] / "README.md"
WAYS = {"float32": (torch.float32, 0), "float64": (torch.float64, 1)}
every_exercise = pytest.mark.parametrize("name", BANK)
every_coding_exercise = pytest.mark.parametrize("name", CODING)


def complaints(name, seed):
    """Right answers that are refused, mistakes that are not named or not caught."""
    exercise = BANK[name]
    right = [*RIGHT_ANSWERS[name], *filter(None, [exercise.shared])]
    failures = []
    for number, answer in enumerate(right):
        report = judge(name, answer, seed)
        if report.status != "right":
            failures.append(f"right answer {number}, seed {seed}: {report.text}")
    for mistake in exercise.mistakes:
        report = judge(name, as_answer(name, mistake.function), seed)
        if report.mistake != mistake.name or mistake.hint not in report.lines:
            failures.append(f"mistake {mistake.name!r}, seed {seed}: {report.text}")
    return failures


@pytest.fixture
def way(request):
    """A default type, set while the test runs, and a seed."""
    dtype, seed = WAYS[request.param]
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield seed
    torch.set_default_dtype(before)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, indirect=True)
@every_exercise
def test_right_answers_pass_and_known_mistakes_are_named(name, way, remembering):
    assert complaints(name, way) == []


@pytest.mark.long
@every_exercise
def test_the_verdicts_are_the_same_for_20_seeds(name, remembering, float64):
    """In float64, as in notebooks; fewer seeds where each check trains something."""
    for seed in range(20 if BANK[name].seconds <= 3 else 3):
        assert complaints(name, seed) == []


def test_every_exercise_has_answers_and_mistakes():
    assert RIGHT_ANSWERS.keys() == BANK.keys(), "answers to what no bank asks"
    few = [f"mistakes of {e.name}" for e in BANK.values() if len(e.mistakes) < 3]
    few += [f"exercises of {number}" for number, bank in BANKS.items() if len(bank) < 3]
    assert few == []


def test_what_the_readme_says_of_exercises_is_true(capsys, fresh_session):
    """It writes the counts, so that nobody else has to."""
    readme = README.read_text("utf-8")
    mistakes = sum(len(exercise.mistakes) for exercise in BANK.values())
    more_than = f"{(mistakes - 1) // 100 * 100:,} mistakes"
    sentence = f"The {len(BANK)} exercises recognize more than {more_than}"
    counted = re.sub(r"The \d+ exercises recognize .*? mistakes", sentence, readme)
    counted = re.sub(r"\S+ mistakes by name", f"{more_than} by name", counted)
    if counted != readme:
        README.write_text(counted, "utf-8", newline="\n")
        pytest.fail("README.md had other counts, and is now right: commit it")
    assert sentence in readme
    check("attention.weights", lambda scores: scores.softmax(dim=-2))
    title, *rest = capsys.readouterr().out.splitlines()
    assert "\n".join(f"  {line}" for line in [title, *rest]) in readme


def is_plain(value):
    """Whether somebody might look an answer up by it: numbers, ids, texts, words."""
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point()
    if isinstance(value, list | tuple | dict):
        return all(map(is_plain, value.values() if type(value) is dict else value))
    return isinstance(value, int | float | str | bytes)


def cases_of(name):
    return BANK[name].cases(torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "name", [n for n in CODING if all(map(is_plain, sum(cases_of(n), ())))]
)
def test_a_cache_that_forgets_an_argument_is_noticed(name):
    """Two cases differ in this argument alone, and in what is right."""
    for place, argument in enumerate(BANK[name].takes):
        answers = {}
        for case in cases_of(name):
            others = repr(case[:place] + case[place + 1 :])
            answers.setdefault(others, set()).add(repr(BANK[name].reference(*case)))
        assert any(len(different) > 1 for different in answers.values()), argument


# --- in whatever surroundings -----------------------------------------------------


@pytest.mark.slow
@every_exercise
def test_an_exercise_can_be_checked_anywhere_and_soon(name):
    """Three crashed without gradients: training.step, clinic.dead_parameters, bytes."""
    exercise = BANK[name]
    mistake = exercise.mistakes[-1]
    right = as_answer(name, exercise.reference)
    wrong = as_answer(name, mistake.function)
    torch.set_grad_enabled(False)  # as a notebook does: by the call, not by a `with`
    try:
        report = examine(exercise, right)
    finally:
        torch.set_grad_enabled(True)
    assert report.status == "right", report.text
    start = time.process_time()
    with torch.inference_mode(), torch.device("meta"):
        report = examine(exercise, wrong)
    assert report.mistake == mistake.name, report.text
    assert time.process_time() - start < (5 if exercise.seconds <= 3 else 30)


# --- odd answers ------------------------------------------------------------------


def calm(report):
    """Few words, none of them the checker's own."""
    assert len(report.text) < 1200, report.text
    for word in ("Traceback", "checking.py", "running.py", "comparing.py", "limit.py"):
        assert word not in report.text
    return report


def turned(value, turn):
    """A result, and each tensor inside it, in another form."""
    if isinstance(value, tuple | list):
        return type(value)(turned(part, turn) for part in value)
    return turn(value) if isinstance(value, torch.Tensor) else value


def answer_turned(name, turn):
    right = RIGHT_ANSWERS[name][0]
    return lambda *given: turned(right(*given), turn)


def refuses(*given):
    raise ValueError("not today")


@pytest.mark.slow
@every_coding_exercise
def test_odd_answers_get_a_calm_report(name, remembering):
    for answer, text in ((refuses, "not today"), (lambda: 1, "It is called with")):
        report = calm(judge(name, answer))
        assert report.status == "error" and text in report.text, report.text
    for value in (None, object(), {}, float("nan")):
        report = calm(judge(name, lambda *given, value=value: (value, len(given))[0]))
        assert report.status in ("different", "mistake"), (value, report.text)


TENSORS_IN_OTHER_FORMS = (
    lambda tensor: tensor.detach().numpy(),
    lambda tensor: tensor.to("meta"),
    lambda tensor: tensor[None],
    lambda tensor: tensor.half(),
)


@pytest.mark.slow
@every_coding_exercise
def test_tensors_in_other_forms_get_a_calm_report(name, remembering):
    for turn in TENSORS_IN_OTHER_FORMS:
        report = calm(judge(name, answer_turned(name, turn)))
        assert report.status in ("different", "mistake", "right"), report.text
    loose = answer_turned(
        name, lambda tensor: torch.stack([tensor] * 2, dim=-1)[..., 0]
    )
    assert judge(name, loose).status == "right"


@every_coding_exercise
def test_every_exercise_names_what_is_changed_in_place(name, remembering):
    exercise = BANK[name]
    case = exercise.cases(torch.Generator().manual_seed(0))[0]
    for place, (argument, value) in enumerate(zip(exercise.takes, case, strict=True)):
        if isinstance(value, torch.Tensor) and value.numel():

            def writes(*given, place=place):
                result = RIGHT_ANSWERS[name][0](*given)
                with torch.no_grad():
                    given[place].copy_(given[place].logical_not())
                return result

            report = calm(judge(name, writes))
            assert report.status == "changed", report.text
            assert f"changes {argument} in place" in report.title


@pytest.mark.parametrize("name", PREDICTED)
def test_every_prediction_is_answered_calmly(name, remembering):
    meta = torch.ones(2, device="meta")
    for value in (object(), "text", [], 1j, float("nan"), np.ones(9), meta, 10**5000):
        report = calm(judge(name, value))
        assert report.status in ("different", "mistake"), report.text
    for value in (None, ..., NotImplemented):
        assert judge(name, value).status == "not tried"
    report = calm(judge(name, lambda: RIGHT_ANSWERS[name][0]))
    assert "the value itself" in report.text
