"""Right answers, and a judge that computes each known mistake once."""

import dataclasses
import functools
import importlib
from pathlib import Path

import torch

from named_mistakes import examine
from named_mistakes.running import run
from tests.support.bank import BANK


def as_answer(name, function):
    """What a learner hands over: the function, or the value of a prediction."""
    return function() if BANK[name].predicts else function


RIGHT_ANSWERS = {}
for path in sorted(Path(__file__).parent.glob("answers_[0-9][0-9].py")):
    module = importlib.import_module(f"tests.exercises.{path.stem}")
    RIGHT_ANSWERS |= module.RIGHT_ANSWERS
for name, exercise in BANK.items():
    if name not in RIGHT_ANSWERS:  # without another one, its own
        RIGHT_ANSWERS[name] = [as_answer(name, exercise.reference)]
CODING = [name for name in RIGHT_ANSWERS if name in BANK and not BANK[name].predicts]
PREDICTED = [name for name in RIGHT_ANSWERS if name in BANK and BANK[name].predicts]

_own = {mistake.function for e in BANK.values() for mistake in e.mistakes}
_own |= {exercise.reference for exercise in BANK.values()}
_outcomes = {}


def remembering_run(function, case, seconds=60):
    """`run`, but what the bank itself does with a case is computed once."""
    if function not in _own:
        return run(function, case, seconds)
    key = function, id(case), torch.get_default_dtype()
    if key not in _outcomes:  # kept with its case, or the id would be given again
        _outcomes[key] = case, run(function, case, seconds)
    return _outcomes[key][1]


@functools.cache
def with_fixed_cases(name, seed, dtype):
    """The exercise with the cases of this seed, made once."""
    cases = BANK[name].cases(torch.Generator().manual_seed(seed))
    return dataclasses.replace(BANK[name], cases=lambda generator: cases)


def forget_outcomes():
    if len(_outcomes) > 3000:
        _outcomes.clear()
        with_fixed_cases.cache_clear()


def judge(name, answer, seed=0):
    """The report on an answer. Tests that use it ask for `remembering`."""
    exercise = with_fixed_cases(name, seed, torch.get_default_dtype())
    return examine(exercise, answer, seed)
