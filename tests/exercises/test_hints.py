"""Each hint belongs to its own mistake, leads on and gives nothing away.

That two hints were exchanged is seen by their words. A hint is likened to what is known
of each mistake of its exercise: its name, the names and numbers in its function, and
what outsiders who made it said of it (`descriptions.jsonl`). For many pairs of mistakes
words are too few to tell which hint belongs to which: `hints_alike.json` has, for each
exercise, how many pairs read better exchanged, in each of the PARTS. An exchange of two
`hint` adds a pair to that in 90 of 100 cases, of two `more` in 82, of both in 91.
"""

import ast
import functools
import inspect
import itertools
import json
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.support.bank import BANK, BANKS

HERE = Path(__file__).parent
ALIKE = json.loads(HERE.joinpath("hints_alike.json").read_text("utf-8"))
LINES = HERE.joinpath("descriptions.jsonl").read_text("utf-8").splitlines()
DESCRIPTIONS = {
    (line["exercise"], line["mistake"]): line["described"]
    for line in map(json.loads, LINES)
}
FREQUENT = re.compile(
    r"\b(the|a|an|of|is|to|and|in|it|what|that|you|your|with|for|as|are|be|by|on|at|which"
    r"|does|do|how|who|this|one|or|not|from|its|has|have|their|there|these|if|than|then"
    r"|when)\b"
)
ENDINGS = re.compile(r"(?<=...)(ings|ing|ies|es|ed|s|e)$")
every_exercise = pytest.mark.parametrize("name", BANK)


def stems(text):
    """The words and signs of a text, without their endings, counted."""
    words = re.findall(r"[a-z]+|\d+|[^\sa-z0-9_]", FREQUENT.sub("", text.lower()))
    return Counter(ENDINGS.sub("", word) for word in words)


@functools.cache
def functions_in(path):
    """{line: the function or lambda that begins there} of a file."""
    nodes = ast.walk(ast.parse(Path(path).read_text("utf-8")))
    return {n.lineno: n for n in nodes if isinstance(n, ast.FunctionDef | ast.Lambda)}


def named_in(function):
    """The names, numbers and texts in the source of a function of a bank."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    node = code and functions_in(code.co_filename).get(code.co_firstlineno)
    if node is None:
        return ""
    fields = ("id", "attr", "arg", "value")
    parts = [getattr(n, field, "") for n in ast.walk(node) for field in fields]
    return " ".join(str(part) for part in parts if isinstance(part, str | int | float))


def known_of(exercise, mistake):
    """All words about a mistake that stand outside its hints."""
    described = DESCRIPTIONS.get((exercise.name, mistake.name), "")
    return f"{mistake.name} {mistake.name} {named_in(mistake.function)} {described}"


def likeness(hints, mistakes):
    """How like each text of `hints` is to each of `mistakes`: cosines "hint mistake".

    A word counts for more the fewer mistakes of the exercise have it.
    """
    hints = [stems(text) for text in hints]
    mistakes = [stems(text) for text in mistakes]
    having = Counter(itertools.chain(*mistakes))
    vocabulary = sorted(having)
    rarity = [math.log((len(mistakes) + 1) / (having[w] + 0.5)) for w in vocabulary]
    rarity = np.array(rarity).clip(0)

    def vectors(counted):
        rows = np.array([[count[word] for word in vocabulary] for count in counted])
        rows = np.log1p(rows) * rarity
        return rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-9)

    return vectors(hints) @ vectors(mistakes).T


def better_exchanged(similarity):
    """The pairs whose texts fit better when exchanged, the clearest first."""
    own = np.diag(similarity)
    gain = similarity + similarity.T - own[:, None] - own
    pairs = itertools.combinations(range(len(own)), 2)
    gains = [(gain[pair], pair) for pair in pairs if gain[pair] > 1e-9]
    return [pair for _, pair in sorted(gains, reverse=True)]


PARTS = "`hint` beside its mistake", "`more` beside its mistake", "`hint` beside `more`"


def exchanged_pairs(exercise, mistakes):
    """The pairs of mistakes that fit better exchanged, for each of PARTS."""
    known = [known_of(exercise, mistake) for mistake in exercise.mistakes]
    hints = [mistake.hint for mistake in mistakes]
    more = [mistake.more for mistake in mistakes]
    likenesses = likeness(hints, known), likeness(more, known), likeness(hints, more)
    return [better_exchanged(similarity) for similarity in likenesses]


@every_exercise
def test_no_two_hints_of_an_exercise_read_as_if_exchanged(name):
    exercise = BANK[name]
    exchanged = exchanged_pairs(exercise, exercise.mistakes)
    for part, pairs, known in zip(PARTS, exchanged, ALIKE[name], strict=True):
        names = [[exercise.mistakes[place].name for place in pair] for pair in pairs]
        assert len(pairs) <= known, (
            f"{part}: {len(pairs)} pairs read better exchanged, {known} before. Are "
            f"two of these exchanged? If not, say more of the mistake itself, or write "
            f"the new number into hints_alike.json. The clearest first: {names}"
        )


def test_what_outsiders_described_is_in_the_banks():
    known = {(e.name, mistake.name) for e in BANK.values() for mistake in e.mistakes}
    assert DESCRIPTIONS.keys() <= known and ALIKE.keys() == BANK.keys()


@pytest.mark.parametrize("number", BANKS)
def test_no_two_exercises_of_a_notebook_have_exchanged_steps(number):
    known = []
    for exercise in BANKS[number]:
        hints = [f"{m.name} {m.hint} {m.more}" for m in exercise.mistakes]
        named = named_in(exercise.reference)
        known.append(" ".join([exercise.name, exercise.statement, named, *hints]))
    steps = [" ".join(exercise.steps) for exercise in BANKS[number]]
    names = [exercise.name for exercise in BANKS[number]]
    pairs = better_exchanged(likeness(steps, known))
    assert [(names[i], names[j]) for i, j in pairs] == []


@every_exercise
def test_hints_lead_on_and_give_nothing_away(name):
    exercise = BANK[name]
    source = inspect.getsource(inspect.unwrap(exercise.reference))
    answer = source.split("return ")[-1].split("\n")[0].strip()
    assert 60 < len(exercise.statement) <= 240
    texts = [text for m in exercise.mistakes for text in (m.hint, m.more)]
    for text in (*texts, *exercise.steps):
        assert 8 < len(text) < 240
        assert len(answer) < 12 or answer not in text
    assert not exercise.steps[0].startswith(("Then", "Now", "It ", "Their"))
    assert not any(step.startswith("First") for step in exercise.steps[1:])


def test_no_hint_fits_two_mistakes():
    for exercise in BANK.values():
        for part in ("name", "hint"):
            texts = [getattr(mistake, part) for mistake in exercise.mistakes]
            assert len(set(texts)) == len(texts), exercise.name
