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
    "masks.causal",
    "Gives a bool mask “q k” for a length: True where a position may look, at itself "
    "and at what came before. One cell too many, and a model copies its answers.",
    ("length",),
    causal,
    lambda generator: [(5,), (7,), (1,)],
    (
        Mistake(
            "off by one: no word sees itself",
            lambda length: _ones(length).tril(-1),
            "The first word may look at nothing at all. May a word look at itself?",
            "The diagonal belongs to the past: query and key are the same position.",
        ),
        Mistake(
            "off by one: everybody sees one word ahead",
            lambda length: _ones(length).tril(1),
            "Row 0 may look at key 1, the very word it is to guess.",
            "One diagonal too many is open. Which one separates past and future?",
        ),
        Mistake(
            "upside down",
            lambda length: _ones(length).triu(1),
            "True marks what should be hidden. In this course True means: may look.",
            "Your table answers “what is the future?” Turn it around.",
        ),
        Mistake(
            "only itself and the future",
            lambda length: _ones(length).triu(),
            "The past is closed and the future open. Rows ask, columns answer.",
            "Row 0 should have one open place, the last row all. tril or triu?",
        ),
        Mistake(
            "numbers in place of booleans",
            lambda length: torch.ones(length, length).tril(),
            "The triangle is right, but it holds 1.0 and 0.0. A mask is inverted by ~ "
            "and joined by &, and both need booleans.",
            "torch.ones has an argument dtype; a comparison gives booleans as well.",
        ),
        Mistake(
            "numbers to be added",
            lambda length: torch.full((length, length), -torch.inf).triu(1),
            "The future is minus infinity and the past 0: a mask to be added. Which "
            "kind has this course agreed on?",
            "A table of booleans, True = may look. What does a comparison give?",
        ),
        Mistake(
            "upside down, and numbers in place of booleans",
            lambda length: torch.ones(length, length).triu(1),
            "1.0 marks the future, as in some other courses. Here a mask is a table of "
            "booleans, and True means: may look.",
            "The other triangle, with the diagonal; torch.ones has an argument dtype.",
        ),
    ),
    "Draw it for length 3, row by row. Then look up torch.tril.",
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
    return [*cases, (nothing, 4)]


def padding(ids: Tensor, pad_id: int) -> Tensor:
    """True at real words, "b 1 1 k"."""
    return (ids != pad_id)[:, None, None, :]


PADDING = Exercise(
    "masks.padding",
    "Gives a bool mask “b 1 1 k” for ids “b k” and a pad_id: no word looks at padding. "
    "Otherwise the answer for a sentence depends on how long its neighbors are.",
    ("ids", "pad_id"),
    padding,
    _padded,
    (
        Mistake(
            "it hides queries, not keys",
            lambda ids, pad: (ids != pad)[:, None, :, None],
            "Padding may not *ask*, but everybody may still listen to it.",
            "“b h q k”: which of the four axes should your ids lie along?",
        ),
        Mistake(
            "upside down",
            lambda ids, pad: (ids == pad)[:, None, None, :],
            "True marks the padding. In this course True means: may look.",
            "Compare with the opposite sign.",
        ),
        Mistake(
            "it hides queries and keys",
            lambda ids, pad: (
                (ids != pad)[:, None, None, :] & (ids != pad)[:, None, :, None]
            ),
            "The keys are right. Hiding queries as well makes rows with nothing to "
            "look at, and gains nothing.",
            "One of the two factors is enough: the one along k.",
        ),
        Mistake(
            "padding is always 0",
            lambda ids, pad: (ids != 0)[:, None, None, :],
            "A different tokenizer pads with a different number. One argument is "
            "unused.",
            "Compare with pad_id.",
        ),
        Mistake(
            "no room for heads and queries",
            lambda ids, pad: ids != pad,
            "The numbers are right, but “b k” would be lined up with “q k”: a "
            "sentence per row.",
            "Put two axes of size 1 between b and k: None in an index makes one.",
        ),
        Mistake(
            "every id above pad_id",
            lambda ids, pad: (ids > pad)[:, None, None, :],
            "Padding need not be the smallest id. A real word with a smaller number "
            "is hidden here.",
            "A word is real if its id is not pad_id.",
        ),
        Mistake(
            "padding is always at the end",
            lambda ids, pad: (
                torch.arange(ids.shape[1]) < (ids != pad).sum(dim=1, keepdim=True)
            )[:, None, None, :],
            "You count the real words and open as many places from the left. What if "
            "a sentence is padded on the left?",
            "Ask for each id separately whether it is padding.",
        ),
        Mistake(
            "one axis too few",
            lambda ids, pad: (ids != pad)[:, None, :],
            "The numbers are right, but “b 1 k” would be lined up with “h q k”: a "
            "sentence per head.",
            "The scores are “b h q k”: two axes stand between b and k.",
        ),
        Mistake(
            "upside down, and no room for heads and queries",
            lambda ids, pad: ids == pad,
            "True marks the padding, and “b k” would be lined up with “q k”. In this "
            "course True means: may look.",
            "Compare with the opposite sign; then put two axes of size 1 in between.",
        ),
    ),
    "One comparison gives “b k”. Two more axes make it fit “b h q k”.",
    shared=padding_mask,
)


def _masks(generator):
    ids = _tokens(generator, 2, 5)
    ids[0, 3:], ids[1, 0] = 0, 0
    return [(causal_mask(5), padding_mask(ids, 0)), (causal_mask(3), _ones(3).triu(-1))]


def join(first: Tensor, second: Tensor) -> Tensor:
    """True where both are."""
    return first & second


JOIN = Exercise(
    "masks.join",
    "Gives one bool mask from two that broadcast: may look only where both allow it. "
    "A layer takes one mask, and sentences need both kinds.",
    ("first", "second"),
    join,
    _masks,
    (
        Mistake(
            "or instead of and",
            lambda a, b: a | b,
            "Now one permission is enough: a sentence without padding sees its future.",
            "Write out the four cases: open and open, open and closed, …",
        ),
        Mistake(
            "only where the masks differ",
            lambda a, b: a ^ b,
            "Where both say yes, you say no.",
            "Write out the four cases: open and open, open and closed, …",
        ),
        Mistake(
            "turned around",
            lambda a, b: ~(a & b),
            "Joined correctly, then inverted: True now means hidden.",
            "One sign too many.",
        ),
        Mistake(
            "the second mask is lost",
            lambda a, b: a & torch.ones_like(b),
            "Your result is the first mask, in a larger shape.",
            "Both masks must have a say at each place.",
        ),
        Mistake(
            "where the masks agree",
            lambda a, b: a == b,
            "Where both masks forbid, they agree too, and you open that place.",
            "Write out the four cases: open and open, open and closed, …",
        ),
        Mistake(
            "numbers in place of booleans",
            lambda a, b: a.float() * b.float(),
            "The right places, but as 1.0 and 0.0. A mask is inverted by ~, and that "
            "needs booleans.",
            "The sign & joins booleans and gives booleans.",
        ),
        Mistake(
            "where both masks forbid",
            lambda a, b: ~a & ~b,
            "Open where both say no. In this course True means: may look.",
            "Write out the four cases: open and open, open and closed, …",
        ),
        Mistake(
            "the second mask is turned around",
            lambda a, b: a & ~b,
            "You read True as “may look” in the first mask and as “hidden” in the "
            "second.",
            "Both are masks of this course: True means the same in each.",
        ),
    ),
    "Which of *and*, *or*, *not* says “only where both”? Broadcasting does the rest.",
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
    "masks.window",
    "Gives a bool mask “q k”: a word sees itself and the width − 1 words before it. "
    "This makes long texts affordable.",
    ("length", "width"),
    window,
    lambda generator: [(7, 3), (5, 2), (6, 1), (4, 5)],
    (
        Mistake(
            "the future is open",
            lambda t, w: _ones(t).triu(1 - w),
            "“Not too long ago” is right. “Not after me” is missing.",
            "A window is two masks, joined. You have one of them.",
        ),
        Mistake(
            "one word too many",
            lambda t, w: _ones(t).tril() & _ones(t).triu(-w),
            "Count the open places in the last row: width + 1.",
            "The word itself is one of the `width`.",
        ),
        Mistake(
            "one word too few",
            lambda t, w: _ones(t).tril() & _ones(t).triu(2 - w),
            "Count the open places in the last row: width − 1.",
            "With width 1 a word sees itself. Try it by hand.",
        ),
        Mistake(
            "a window to both sides",
            lambda t, w: _ones(t).tril(w - 1) & _ones(t).triu(1 - w),
            "It looks as far ahead as back. May a word look ahead?",
            "The upper edge is the diagonal, whatever the width.",
        ),
        Mistake(
            "upside down",
            lambda t, w: ~window(t, w),
            "True marks what should be hidden. In this course True means: may look.",
            "This is the right table, inverted.",
        ),
        Mistake(
            "the word itself is left out",
            lambda t, w: _ones(t).tril(-1) & _ones(t).triu(1 - w),
            "The words before are right. The diagonal is closed: may a word look at "
            "itself?",
            "A distance of 0 belongs to the window.",
        ),
        Mistake(
            "a whole window before the word, without itself",
            lambda t, w: _ones(t).tril(-1) & _ones(t).triu(-w),
            "The width is right, but it is shifted by one: no word sees itself.",
            "The word itself is one of the width: the distances are 0 to width − 1.",
        ),
        Mistake(
            "a slice that begins before the first word",
            _by_slices,
            "Long rows are right. In row 0 nothing is open: a slice that begins at −2 "
            "counts from the end.",
            "A window cannot begin before word 0. Which function keeps a number at 0 "
            "or above?",
        ),
        Mistake(
            "the words after, not before",
            lambda t, w: _ones(t).triu() & _ones(t).tril(w - 1),
            "Row 0 sees several words and the last row one. Rows ask, columns answer.",
            "How far back a key lies is the position of the query minus that of the "
            "key.",
        ),
        Mistake(
            "the past is open without end",
            lambda t, w: _ones(t).tril(),
            "“Not after me” is right. “Not too long before me” is missing. Where does "
            "the width come in?",
            "A window is two masks, joined. You have one of them.",
        ),
        Mistake(
            "joined by or",
            lambda t, w: _ones(t).tril() | _ones(t).triu(1 - w),
            "Both masks are right, but now one permission is enough. How many places "
            "of your table are closed?",
            "Open only where *both* allow it: which sign says so?",
        ),
        Mistake(
            "an index below 0 opens places at the end",
            _wrapped,
            "Long rows are right. The first rows also see the last words: what does "
            "the index −1 mean?",
            "Word 0 has no word before it. Leave out distances that are larger than "
            "the position.",
        ),
        Mistake(
            "the second edge lies above the diagonal",
            lambda t, w: _ones(t).tril() & _ones(t).triu(w - 1),
            "Nothing is open, unless the width is 1. On which side of the diagonal do "
            "the words before lie?",
            "`triu(diagonal=1)` begins above the diagonal. Which diagonal lies below?",
        ),
        Mistake(
            "numbers in place of booleans",
            lambda t, w: torch.ones(t, t).tril() * torch.ones(t, t).triu(1 - w),
            "The right places, but as 1.0 and 0.0. A mask is inverted by ~ and joined "
            "by &, and both need booleans.",
            "torch.ones has an argument dtype; & then joins the two.",
        ),
    ),
    "Two masks joined: not after me, and not too long before me.",
)


EXERCISES = (CAUSAL, PADDING, JOIN, WINDOW)
