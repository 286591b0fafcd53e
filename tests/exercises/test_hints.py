"""Each hint leads on, gives nothing away and fits one mistake alone."""

import inspect

import pytest

from tests.support.bank import BANK


@pytest.mark.parametrize("name", BANK)
def test_hints_lead_on_and_give_nothing_away(name):
    exercise = BANK[name]
    source = inspect.getsource(inspect.unwrap(exercise.reference))
    answer = source.split("return ")[-1].split("\n")[0].strip()
    assert 60 < len(exercise.statement) <= 240
    texts = [text for m in exercise.mistakes for text in (m.hint, m.more)]
    for text in (*texts, *exercise.steps):
        assert 8 < len(text) < 240
        assert len(answer) < 12 or answer not in text
    assert len(exercise.steps) > 1, "a first step, not the whole at once"
    assert not exercise.steps[0].startswith(("Then", "Now", "It ", "Their"))
    assert not any(step.startswith("First") for step in exercise.steps[1:])


def test_no_hint_fits_two_mistakes():
    for exercise in BANK.values():
        for part in ("name", "hint"):
            texts = [getattr(mistake, part) for mistake in exercise.mistakes]
            assert len(set(texts)) == len(texts), exercise.name
