"""An exercise of notebook 10: apply the merges, in the order of learning.

Knows the package's byte pairs. Knows nothing of how an answer is run or shown.
"""

from collections import Counter
from itertools import pairwise

import torch

from course_utils import bpe
from named_mistakes import Exercise, Mistake

Word = tuple[int, ...]


def encode(word: Word, merges: dict[bpe.Pair, int]) -> list[int]:
    """Of all pairs in the word join the one learned first, until none is known."""
    ids = list(word)
    while known := [pair for pair in pairwise(ids) if pair in merges]:
        first = min(known, key=merges.get)
        ids = bpe.join(ids, first, merges[first])
    return ids


def _encoded(word, merges, order):
    """Joins the pair of lowest order(pair, first place) again and again."""
    ids = list(word)
    while True:
        places = {p: i for i, p in reversed(list(enumerate(pairwise(ids))))}
        known = [pair for pair in places if pair in merges]
        if not known:
            return ids
        best = min(known, key=lambda pair: order(pair, places[pair]))
        ids = bpe.join(ids, best, merges[best])


def _most_frequent(word, merges):
    """Of the known pairs always the one that stands most often in this word."""
    ids = list(word)
    while seen := Counter(pair for pair in pairwise(ids) if pair in merges):
        best = max(seen, key=seen.__getitem__)
        ids = bpe.join(ids, best, merges[best])
    return ids


def _last_learned_first(word, merges):
    """Joins the known pair that was learned last, at its first place only."""
    ids = list(word)
    while known := [pair for pair in pairwise(ids) if pair in merges]:
        last = max(known, key=merges.get)
        place = list(pairwise(ids)).index(last)
        ids[place : place + 2] = [merges[last]]
    return ids


def _one_pass(word, merges):
    """Joins the known pairs of single ids that it meets from the left."""
    ids, place = [], 0
    while place < len(word):
        pair = word[place : place + 2]
        ids.append(merges.get(pair, word[place]))
        place += 2 if pair in merges else 1
    return ids


def _longest(word, merges):
    """The longest piece that fits, from left to right."""
    pieces = {(id,): id for id in word}
    spelled = {id: (id,) for pair in merges for id in pair if id not in merges.values()}
    for (left, right), new in merges.items():
        spelled[new] = spelled[left] + spelled[right]
        pieces[spelled[new]] = new
    ids, place = [], 0
    while place < len(word):
        ends = range(place + 1, len(word) + 1)
        end = max(end for end in ends if word[place:end] in pieces)
        ids.append(pieces[word[place:end]])
        place = end
    return ids


def _leftmost(word, merges):
    """Joins the first known pair from the left, there only, and begins again."""
    ids = list(word)
    place = 0
    while place < len(ids) - 1:
        pair = tuple(ids[place : place + 2])
        if pair in merges:
            ids[place : place + 2] = [merges[pair]]
            place = 0
        else:
            place += 1
    return ids


def _one_walk(word, merges):
    """Each merge once, in the order of learning, but only at its first place."""
    for pair, new in merges.items():
        for place, here in enumerate(pairwise(word)):
            if here == pair:
                word = (*word[:place], new, *word[place + 2 :])
                break
    return list(word)


def _known_at_first(word, merges):
    """Joins the pairs of single ids, in the order of learning, and no others."""
    known = set(pairwise(word))
    for pair, new in merges.items():
        if pair in known:
            word = bpe.join(word, pair, new)
    return list(word)


def _walks(word, merges):
    """Joins all known pairs that it meets from the left, until a walk finds none."""
    ids = _one_pass(tuple(word), merges)
    return ids if ids == list(word) else _walks(ids, merges)


def _backwards(word, merges):
    for pair, new in reversed(merges.items()):
        word = bpe.join(word, pair, new)
    return list(word)


def _until_one_is_missing(word, merges):
    for pair, new in merges.items():
        if pair not in set(pairwise(word)):
            break
        word = bpe.join(word, pair, new)
    return list(word)


def _taught(generator):
    order = torch.randperm(4, generator=generator).tolist()
    a, b, c, d = ((4, 37, 90, 150)[place] for place in order)
    pairs = [(b, c), (c, d), (b, b), (c, 262), (a, 260), (a, b), (260, b)]
    merges = {pair: 260 + place for place, pair in enumerate(pairs)}
    words = [(b, b, c, b, c, d), (c, b, b, b, c, b, b), (c, d, b, b), (a, b, c, d)]
    words += [(a, b, c), (b, c, b, c, b), (a, b, c, a, b, c), (b, b, b), (b, c, c, d)]
    few = dict(list(merges.items())[:2])
    return [*((word, merges) for word in [*words, (a,)]), (words[3], few)]


ENCODE = Exercise(
    name="tokens.encode",
    statement="Gives the ids of a word (a tuple of byte ids), for merges from pair to "
    "new id, in the order of learning. A model knows only the pieces that this order "
    "makes.",
    takes=("word", "merges"),
    reference=encode,
    cases=_taught,
    mistakes=(
        Mistake(
            name="from left to right",
            function=lambda word, merges: _encoded(
                word, merges, lambda pair, place: place
            ),
            hint="You take the first known pair that you meet.",
            more="All pairs in the word compete, but not by position.",
        ),
        Mistake(
            name="from left to right, one place at a time",
            function=_leftmost,
            hint="You join the first known pair that you meet, and start again.",
            more="Where a pair stands does not matter. When was it learned?",
        ),
        Mistake(
            name="the longest piece first",
            function=_longest,
            hint="Greedy: the longest piece that fits. Training never asked for "
            "length.",
            more="Start from single ids and join; merges grow the pieces.",
        ),
        Mistake(
            name="the pair learned last",
            function=lambda word, merges: _encoded(
                word, merges, lambda p, place: -merges[p]
            ),
            hint="Late merges may be made of early ones. Which come first?",
            more="A merge with a low new id was learned early.",
        ),
        Mistake(
            name="the pair learned last, one place at a time",
            function=_last_learned_first,
            hint="You join the pair with the highest new id, and look again after each "
            "place.",
            more="Early merges come first. Which new id was learned early?",
        ),
        Mistake(
            name="the pair that is frequent here",
            function=_most_frequent,
            hint="You count what is frequent in this word. Training counted in its own "
            "texts, once.",
            more="What training found is written down: the order of `merges`.",
        ),
        Mistake(
            name="the merges backwards",
            function=_backwards,
            hint="You begin with the merge learned last. Late merges may be made of "
            "early ones.",
            more="Which merges can find their pair among single bytes?",
        ),
        Mistake(
            name="one walk after the other, from left to right",
            function=_walks,
            hint="In a walk you join each known pair that you meet. Two known pairs "
            "may share an id: which of them wins?",
            more="Where a pair stands does not matter. When was it learned?",
        ),
        Mistake(
            name="the first merge that is missing ends it",
            function=_until_one_is_missing,
            hint="A merge whose pair is not in the word ends your loop. What about the "
            "later ones?",
            more="A word need not hold every pair. Go on with the next merge.",
        ),
        Mistake(
            name="each merge at one place only",
            function=_one_walk,
            hint="A pair may occur in a word twice, and both belong to the same merge.",
            more="Join every place of the pair, then look for the next one.",
        ),
        Mistake(
            name="only pairs that stood there at first",
            function=_known_at_first,
            hint="You list the known pairs once. Joining makes new neighbors.",
            more="When do you look at the pairs of the word: once, or after each join?",
        ),
        Mistake(
            name="one walk from left to right",
            function=_one_pass,
            hint="You walk through the word once. What you have joined may be half of "
            "another pair.",
            more="Joining makes new neighbors. Look at the whole word again after each "
            "join.",
        ),
        Mistake(
            name="one merge and out",
            function=lambda word, merges: next(
                (
                    bpe.join(word, pair, new)
                    for pair, new in merges.items()
                    if pair in set(pairwise(word))
                ),
                list(word),
            ),
            hint="A good first step. The new id has neighbors, too.",
            more="Repeat until no pair of the word is known.",
        ),
    ),
    hint="Look at all pairs of the word. Which of them was learned first? Join it, and "
    "look again.",
)


EXERCISES = (ENCODE,)
