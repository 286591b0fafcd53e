"""Exercises of notebook 03: four masks.

Knows the shared masks. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor

from course_utils.masks import causal_mask, combine_masks, padding_mask
from named_mistakes import Exercise, Mistake


def _ones(length):
    return torch.ones(length, length, dtype=torch.bool)


def _tokens(generator, rows, length):
    return torch.randint(10, 99, (rows, length), generator=generator)


def causal(length: int) -> Tensor:
    """True on the diagonal and below it, "q k"."""
    return torch.ones(length, length, dtype=torch.bool).tril()


CAUSAL = Exercise(
    name="masks.causal",
    statement="Gives a bool mask “q k” for a length: True where a position may look, "
    "at itself and at what came before. One cell too many, and a model copies its "
    "answers.",
    takes=("length",),
    reference=causal,
    cases=lambda generator: [(5,), (7,), (1,)],
    mistakes=(
        Mistake(
            name="off by one: no word sees itself",
            function=lambda length: _ones(length).tril(-1),
            hint="The first word may look at nothing at all. May a word look at "
            "itself?",
            more="The diagonal belongs to the past: query and key are the same "
            "position.",
        ),
        Mistake(
            name="off by one: everybody sees one word ahead",
            function=lambda length: _ones(length).tril(1),
            hint="Row 0 may look at key 1, the very word it is to guess.",
            more="One diagonal too many is open. Which one separates past and future?",
        ),
        Mistake(
            name="upside down",
            function=lambda length: _ones(length).triu(1),
            hint="True marks what should be hidden. In this course True means: may "
            "look.",
            more="Your table answers “what is the future?” Turn it around.",
        ),
        Mistake(
            name="only itself and the future",
            function=lambda length: _ones(length).triu(),
            hint="The past is closed and the future open. Rows ask, columns answer.",
            more="Row 0 should have one open place, the last row all. tril or triu?",
        ),
        Mistake(
            name="numbers in place of booleans",
            function=lambda length: torch.ones(length, length).tril(),
            hint="The triangle is right, but it holds 1.0 and 0.0. A mask is inverted "
            "by ~ and joined by &, and both need booleans.",
            more="torch.ones has an argument dtype; a comparison gives booleans as "
            "well.",
        ),
        Mistake(
            name="numbers to be added",
            function=lambda length: torch.full((length, length), -torch.inf).triu(1),
            hint="The future is minus infinity and the past 0: a mask to be added. "
            "Which kind has this course agreed on?",
            more="A table of booleans, True = may look. What does a comparison give?",
        ),
        Mistake(
            name="upside down, and numbers in place of booleans",
            function=lambda length: torch.ones(length, length).triu(1),
            hint="1.0 marks the future, as in some other courses. Here a mask is a "
            "table of booleans, and True means: may look.",
            more="The other triangle, with the diagonal; torch.ones has an argument "
            "dtype.",
        ),
    ),
    hint="Draw it for length 3, row by row. Then look up torch.tril.",
    shared=causal_mask,
)


def _padded(generator):
    cases = []
    for pad, length in ((0, 5), (3, 7)):
        ids = _tokens(generator, 2, length)
        ids[0, length - 2 :], ids[1, :2] = pad, pad
        ids[1, 2] = 0 if pad else 1
        cases.append((ids, pad))
    nothing = torch.full((1, 3), 4)
    ids, pad = cases[0]
    again = [(ids.flip(1), pad), (ids, int(ids[0, 0]))]  # one of two is as before
    return [*cases, (nothing, 4), *again]


def padding(ids: Tensor, pad_id: int) -> Tensor:
    """True at real words, "b 1 1 k"."""
    return (ids != pad_id)[:, None, None, :]


PADDING = Exercise(
    name="masks.padding",
    statement="Gives a bool mask “b 1 1 k” for ids “b k” and a pad_id: no word looks "
    "at padding. Otherwise the answer for a sentence depends on how long its neighbors "
    "are.",
    takes=("ids", "pad_id"),
    reference=padding,
    cases=_padded,
    mistakes=(
        Mistake(
            name="it hides queries, not keys",
            function=lambda ids, pad: (ids != pad)[:, None, :, None],
            hint="Padding may not *ask*, but everybody may still listen to it.",
            more="“b h q k”: which of the four axes should your ids lie along?",
        ),
        Mistake(
            name="upside down",
            function=lambda ids, pad: (ids == pad)[:, None, None, :],
            hint="True marks the padding. In this course True means: may look.",
            more="Compare with the opposite sign.",
        ),
        Mistake(
            name="it hides queries and keys",
            function=lambda ids, pad: (
                (ids != pad)[:, None, None, :] & (ids != pad)[:, None, :, None]
            ),
            hint="The keys are right. Hiding queries as well makes rows with nothing "
            "to look at, and gains nothing.",
            more="One of the two factors is enough: the one along k.",
        ),
        Mistake(
            name="padding is always 0",
            function=lambda ids, pad: (ids != 0)[:, None, None, :],
            hint="A different tokenizer pads with a different number. One argument is "
            "unused.",
            more="Compare with pad_id.",
        ),
        Mistake(
            name="no room for heads and queries",
            function=lambda ids, pad: ids != pad,
            hint="The numbers are right, but “b k” would be lined up with “q k”: a "
            "sentence per row.",
            more="Put two axes of size 1 between b and k: None in an index makes one.",
        ),
        Mistake(
            name="every id above pad_id",
            function=lambda ids, pad: (ids > pad)[:, None, None, :],
            hint="Padding need not be the smallest id. A real word with a smaller "
            "number is hidden here.",
            more="A word is real if its id is not pad_id.",
        ),
        Mistake(
            name="padding is always at the end",
            function=lambda ids, pad: (
                torch.arange(ids.shape[1]) < (ids != pad).sum(dim=1, keepdim=True)
            )[:, None, None, :],
            hint="You count the real words and open as many places from the left. What "
            "if a sentence is padded on the left?",
            more="Ask for each id separately whether it is padding.",
        ),
        Mistake(
            name="one axis too few",
            function=lambda ids, pad: (ids != pad)[:, None, :],
            hint="The numbers are right, but “b 1 k” would be lined up with “h q k”: a "
            "sentence per head.",
            more="The scores are “b h q k”: two axes stand between b and k.",
        ),
        Mistake(
            name="upside down, and no room for heads and queries",
            function=lambda ids, pad: ids == pad,
            hint="True marks the padding, and “b k” would be lined up with “q k”. In "
            "this course True means: may look.",
            more="Compare with the opposite sign; then put two axes of size 1 in "
            "between.",
        ),
    ),
    hint="One comparison gives “b k”. Two more axes make it fit “b h q k”.",
    shared=padding_mask,
)


def _masks(generator):
    ids = _tokens(generator, 2, 5)
    ids[0, 3:], ids[1, 0] = 0, 0
    real, window = padding_mask(ids, 0), _ones(5).triu(-1)
    pairs = [(causal_mask(5), real), (causal_mask(3), _ones(3).triu(-1))]
    return [*pairs, (causal_mask(5), window), (window, real)]


def join(first: Tensor, second: Tensor) -> Tensor:
    """True where both are."""
    return first & second


JOIN = Exercise(
    name="masks.join",
    statement="Gives one bool mask from two that broadcast: may look only where both "
    "allow it. A layer takes one mask, and sentences need both kinds.",
    takes=("first", "second"),
    reference=join,
    cases=_masks,
    mistakes=(
        Mistake(
            name="or instead of and",
            function=lambda a, b: a | b,
            hint="Now one permission is enough: a sentence without padding sees its "
            "future.",
            more="Write out the four cases: open and open, open and closed, …",
        ),
        Mistake(
            name="only where the masks differ",
            function=lambda a, b: a ^ b,
            hint="Where both say yes, you say no.",
            more="Write out the four cases: open and open, open and closed, …",
        ),
        Mistake(
            name="turned around",
            function=lambda a, b: ~(a & b),
            hint="Joined correctly, then inverted: True now means hidden.",
            more="One sign too many.",
        ),
        Mistake(
            name="the second mask is lost",
            function=lambda a, b: a & torch.ones_like(b),
            hint="Your result is the first mask, in a larger shape.",
            more="Both masks must have a say at each place.",
        ),
        Mistake(
            name="where the masks agree",
            function=lambda a, b: a == b,
            hint="Where both masks forbid, they agree too, and you open that place.",
            more="Write out the four cases: open and open, open and closed, …",
        ),
        Mistake(
            name="numbers in place of booleans",
            function=lambda a, b: a.float() * b.float(),
            hint="The right places, but as 1.0 and 0.0. A mask is inverted by ~, and "
            "that needs booleans.",
            more="The sign & joins booleans and gives booleans.",
        ),
        Mistake(
            name="where both masks forbid",
            function=lambda a, b: ~a & ~b,
            hint="Open where both say no. In this course True means: may look.",
            more="Write out the four cases: open and open, open and closed, …",
        ),
        Mistake(
            name="the second mask is turned around",
            function=lambda a, b: a & ~b,
            hint="You read True as “may look” in the first mask and as “hidden” in the "
            "second.",
            more="Both are masks of this course: True means the same in each.",
        ),
    ),
    hint="Which of *and*, *or*, *not* says “only where both”? Broadcasting does the "
    "rest.",
    shared=combine_masks,
)


def window(length: int, width: int) -> Tensor:
    """A word sees itself and the `width - 1` words before it, "q k"."""
    ones = torch.ones(length, length, dtype=torch.bool)
    return ones.tril() & ones.triu(diagonal=1 - width)


def _wrapped(length, width):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for query in range(length):
        for distance in range(width):
            mask[query, query - distance] = True
    return mask


def _by_slices(length, width):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for query in range(length):
        mask[query, query - width + 1 : query + 1] = True
    return mask


WINDOW = Exercise(
    name="masks.window",
    statement="Gives a bool mask “q k”: a word sees itself and the width − 1 words "
    "before it. This makes long texts affordable.",
    takes=("length", "width"),
    reference=window,
    cases=lambda generator: [(7, 3), (5, 2), (6, 1), (4, 5), (7, 2)],
    mistakes=(
        Mistake(
            name="the future is open",
            function=lambda t, w: _ones(t).triu(1 - w),
            hint="“Not too long ago” is right. “Not after me” is missing.",
            more="A window is two masks, joined. You have one of them.",
        ),
        Mistake(
            name="one word too many",
            function=lambda t, w: _ones(t).tril() & _ones(t).triu(-w),
            hint="Count the open places in the last row: width + 1.",
            more="The word itself is one of the `width`.",
        ),
        Mistake(
            name="one word too few",
            function=lambda t, w: _ones(t).tril() & _ones(t).triu(2 - w),
            hint="Count the open places in the last row: width − 1.",
            more="With width 1 a word sees itself. Try it by hand.",
        ),
        Mistake(
            name="a window to both sides",
            function=lambda t, w: _ones(t).tril(w - 1) & _ones(t).triu(1 - w),
            hint="It looks as far ahead as back. May a word look ahead?",
            more="The upper edge is the diagonal, whatever the width.",
        ),
        Mistake(
            name="upside down",
            function=lambda t, w: ~window(t, w),
            hint="True marks what should be hidden. In this course True means: may "
            "look.",
            more="This is the right table, inverted.",
        ),
        Mistake(
            name="the word itself is left out",
            function=lambda t, w: _ones(t).tril(-1) & _ones(t).triu(1 - w),
            hint="The words before are right. The diagonal is closed: may a word look "
            "at itself?",
            more="A distance of 0 belongs to the window.",
        ),
        Mistake(
            name="a whole window before the word, without itself",
            function=lambda t, w: _ones(t).tril(-1) & _ones(t).triu(-w),
            hint="The width is right, but it is shifted by one: no word sees itself.",
            more="The word itself is one of the width: the distances are 0 to width − "
            "1.",
        ),
        Mistake(
            name="a slice that begins before the first word",
            function=_by_slices,
            hint="Long rows are right. In row 0 nothing is open: a slice that begins "
            "at −2 counts from the end.",
            more="A window cannot begin before word 0. Which function keeps a number "
            "at 0 or above?",
        ),
        Mistake(
            name="the words after, not before",
            function=lambda t, w: _ones(t).triu() & _ones(t).tril(w - 1),
            hint="Row 0 sees several words and the last row one. Rows ask, columns "
            "answer.",
            more="How far back a key lies is the position of the query minus that of "
            "the key.",
        ),
        Mistake(
            name="the past is open without end",
            function=lambda t, w: _ones(t).tril(),
            hint="“Not after me” is right. “Not too long before me” is missing. Where "
            "does the width come in?",
            more="A window is two masks, joined. You have one of them.",
        ),
        Mistake(
            name="joined by or",
            function=lambda t, w: _ones(t).tril() | _ones(t).triu(1 - w),
            hint="Both masks are right, but now one permission is enough. How many "
            "places of your table are closed?",
            more="Open only where *both* allow it: which sign says so?",
        ),
        Mistake(
            name="an index below 0 opens places at the end",
            function=_wrapped,
            hint="Long rows are right. The first rows also see the last words: what "
            "does the index −1 mean?",
            more="Word 0 has no word before it. Leave out distances that are larger "
            "than the position.",
        ),
        Mistake(
            name="the second edge lies above the diagonal",
            function=lambda t, w: _ones(t).tril() & _ones(t).triu(w - 1),
            hint="Nothing is open, unless the width is 1. On which side of the "
            "diagonal do the words before lie?",
            more="`triu(diagonal=1)` begins above the diagonal. Which diagonal lies "
            "below?",
        ),
        Mistake(
            name="numbers in place of booleans",
            function=lambda t, w: (
                torch.ones(t, t).tril() * torch.ones(t, t).triu(1 - w)
            ),
            hint="The right places, but as 1.0 and 0.0. A mask is inverted by ~ and "
            "joined by &, and both need booleans.",
            more="torch.ones has an argument dtype; & then joins the two.",
        ),
    ),
    hint=(
        "Draw the rows of five words for width 2. Which cells are open?",
        "Two masks joined: not after me, and not too long before me.",
    ),
)


EXERCISES = (CAUSAL, PADDING, JOIN, WINDOW)
