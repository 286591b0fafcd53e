"""An answer that stops half way is right so far, or its mistake is named already."""

import pytest
import torch

from named_mistakes import examine
from tests.support.bank import BANK

STAGED = [exercise for exercise in BANK.values() if exercise.stages]


@pytest.mark.parametrize("exercise", STAGED, ids=lambda one: one.name)
def test_a_check_says_how_far_an_answer_is_right(exercise, float64):
    for place, (name, stage) in enumerate(exercise.stages, 1):
        report = examine(exercise, stage)
        assert report.status == "stage" and f"{place} of" in report.title
        assert name in report.title, report.text


@pytest.mark.slow
@pytest.mark.parametrize("exercise", STAGED, ids=lambda one: one.name)
def test_a_mistake_is_named_at_the_stage_where_it_shows(exercise, float64):
    for mistake in exercise.mistakes:
        for unfinished in mistake.also[:1]:
            report = examine(exercise, unfinished)
            assert report.mistake == mistake.name, (mistake.name, report.text)


def test_the_whole_is_no_stage(float64):
    for exercise in STAGED:
        assert examine(exercise, exercise.reference).status == "right"
        report = examine(exercise, lambda *given: torch.zeros(1))
        assert report.status == "different"
