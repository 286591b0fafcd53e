"""Exercises of notebook 03: what masks are for. Weights, labels, others.

Knows the shared layer. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor

from course_utils.attention import attention_weights
from course_utils.masks import causal_mask, combine_masks, padding_mask
from named_mistakes import Exercise, Mistake


def _tokens(generator, rows, length):
    return torch.randint(10, 99, (rows, length), generator=generator)


def _scores_and_mask(generator):
    def one(ids, *shape):
        scores = torch.randn(shape, generator=generator) * 2
        mask = combine_masks(causal_mask(shape[-1]), padding_mask(ids, 0))
        return scores.to(torch.get_default_dtype()), mask

    left = torch.tensor([[0, 0, 11, 12, 13], [14, 15, 16, 0, 0]])
    loud, mask = one(torch.tensor([[14, 15, 0]]), 1, 1, 3, 3)
    loud[..., 2] += 40  # a hidden score far above the others
    huge, open_to_all = one(torch.tensor([[14, 15, 16]]), 1, 1, 3, 3)
    huge[..., 2, :] += 1000  # a row that sees all, and whose powers overflow
    deep, half_open = one(torch.tensor([[14, 15, 0]]), 1, 1, 3, 3)
    deep -= 2000  # a number like -100 for what is hidden would be the highest
    return [
        one(left, 2, 3, 5, 5),
        one(left[:1, :3], 1, 2, 3, 3),
        (loud, mask),
        (huge, open_to_all),
        (deep, half_open),
    ]


def _filled(scores, mask, number):
    return scores.masked_fill(~mask, number).softmax(dim=-1)


def _raw_powers(scores, mask):
    powers = scores.exp() * mask
    return powers / (powers.sum(dim=-1, keepdim=True) + 1e-12)


def _divided_again(scores, mask):
    masked = scores.softmax(dim=-1) * mask
    return masked / masked.sum(dim=-1, keepdim=True).clamp(min=1e-9)


def weights(scores: Tensor, mask: Tensor) -> Tensor:
    """Shares of what may be seen; hidden places and empty rows are 0."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1) * mask


WEIGHTS = Exercise(
    name="masks.weights",
    statement="Gives weights for scores “b h q k” and a bool mask: hidden ones exactly "
    "0, a row with nothing to look at all 0. One NaN would spoil the whole batch.",
    takes=("scores", "mask"),
    reference=weights,
    cases=_scores_and_mask,
    mistakes=(
        Mistake(
            name="an empty row as if there were no mask",
            function=lambda scores, mask: (scores - 1e4 * ~mask).softmax(dim=-1),
            hint="A row with nothing to look at gets the weights of its scores as they "
            "are.",
            more="If you add a number such as −1e4: softmax sees only differences, and "
            "here every score of the row gets that number. What is left to do "
            "afterwards?",
        ),
        Mistake(
            name="minus infinity, and NaN in an empty row",
            function=lambda scores, mask: _filled(scores, mask, float("-inf")),
            hint="Rows with something to see are right. An empty row divides 0 by 0.",
            more="Fill in the lowest *finite* number, and look at the empty row again.",
        ),
        Mistake(
            name="an empty row is even",
            variant="It matters only for rows that see nothing.",
            function=lambda scores, mask: _filled(
                scores, mask, torch.finfo(scores.dtype).min
            ),
            hint="No NaN, but an empty row hands out equal shares to keys it may not "
            "see.",
            more="Hidden weights are 0 in *every* row: enforce it again, after the "
            "softmax.",
        ),
        Mistake(
            name="masked after the softmax only",
            function=lambda scores, mask: scores.softmax(dim=-1) * mask,
            hint="Hidden weights are 0, but the others do not add up to 1: the hidden "
            "words have taken their share away.",
            more="Hide the scores *before* they compete.",
        ),
        Mistake(
            name="cleared too late, and divided again",
            function=_divided_again,
            hint="A hidden score far above the others takes nearly all the weight, and "
            "what is left is too small to be divided again.",
            more="Hide the scores *before* they compete. Then nothing has to be "
            "divided.",
        ),
        Mistake(
            name="scores times mask",
            function=lambda scores, mask: (scores * mask).softmax(dim=-1),
            hint="A hidden score became 0. Is 0 a low score?",
            more="e⁰ is 1. Which score makes a power vanish?",
        ),
        Mistake(
            name="scores times mask, and cleared after the softmax",
            function=lambda scores, mask: (scores * mask).softmax(dim=-1) * mask,
            hint="Hidden weights are 0. Yet hidden scores of 0 took part in the "
            "softmax, and the others do not add up to 1.",
            more="e⁰ is 1. Which score makes a power vanish?",
        ),
        Mistake(
            name="upside down",
            function=lambda scores, mask: attention_weights(scores, ~mask),
            hint="You hide what may be seen. True means: may look.",
            more="masked_fill fills where its mask is True.",
        ),
        Mistake(
            name="powers of scores as they are",
            function=_raw_powers,
            hint="Small scores are right. But e to the 1000 is infinite, and infinity "
            "divided by infinity is not a number.",
            more="Subtract the maximum of each row before you take powers, or let "
            "softmax do it.",
        ),
        Mistake(
            name="the softmax runs over the queries",
            function=lambda scores, mask: (
                scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-2)
                * mask
            ),
            hint="Hidden weights are 0. Along which axis do the others add up to 1?",
            more="Scores are “b h q k”. Each query shares its weight among the keys.",
        ),
        Mistake(
            name="a number that is not low enough",
            function=lambda scores, mask: _filled(scores, mask, -100) * mask,
            hint="Right for usual scores. But in a row around −2000 your number is the "
            "highest score.",
            more="Which number lies below every score?",
        ),
        Mistake(
            name="0 times minus infinity",
            function=lambda scores, mask: (scores + ~mask * -torch.inf).softmax(dim=-1),
            hint="To hide, you multiply by −∞ and add. What is 0 times infinity, where "
            "a word may be seen?",
            more="Do not multiply, choose: masked_fill changes a score only where it "
            "must.",
        ),
    ),
    hint=(
        "Which score gives a share of next to nothing? And what does softmax give "
        "to a row in which every score is as low as that?",
        "Two steps: a very low score before the softmax, and zeros after it.",
    ),
    shared=attention_weights,
    trains=True,
)


def shift(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs and labels, both "b (t - 1)"."""
    return ids[:, :-1], ids[:, 1:]


SHIFT = Exercise(
    name="masks.shift",
    statement="Gives inputs and labels, both “b (t − 1)”, for ids “b t”: at each place "
    "the label is the word that comes next. A slip here makes a loss that means "
    "nothing.",
    takes=("ids",),
    reference=shift,
    cases=lambda g: [(_tokens(g, 2, 5),), (_tokens(g, 3, 8),), (_tokens(g, 1, 6),)],
    mistakes=(
        Mistake(
            name="labels equal inputs",
            function=lambda ids: (ids[:, :-1], ids[:, :-1]),
            hint="The model would learn to repeat the word it has just read.",
            more="Which word comes *after* the last input?",
        ),
        Mistake(
            name="nothing is shifted",
            function=lambda ids: (ids, ids),
            hint="Each word is its own label, and the last one has no next word.",
            more="Both lose one word: one at the end, the other at the beginning.",
        ),
        Mistake(
            name="rolled the wrong way",
            function=lambda ids: (ids[:, :-1], ids.roll(1, dims=1)[:, :-1]),
            hint="Your labels are the words *before*, and the first label is the last "
            "word of its row.",
            more="Nothing has to be rolled: two slices are enough.",
        ),
        Mistake(
            name="shifted the wrong way",
            function=lambda ids: (ids[:, 1:], ids[:, :-1]),
            hint="Your model learns to guess the word *before*.",
            more="Exchange something.",
        ),
        Mistake(
            name="shifted by two",
            function=lambda ids: (ids[:, :-2], ids[:, 2:]),
            hint="Your labels skip a word.",
            more="Inputs and labels together use every word of the row.",
        ),
        Mistake(
            name="the beginning becomes the last label",
            function=lambda ids: (ids, ids.roll(-1, dims=1)),
            hint="`roll` goes in a circle: after the last word comes the first.",
            more="The last word has no next word, so it is no input.",
        ),
        Mistake(
            name="the inputs are rolled",
            function=lambda ids: (ids[:, :-1], ids[:, :-1].roll(-1, dims=1)),
            hint="The last label of a row is its first word. Which word of ids comes "
            "after the last input?",
            more="You cut off the last word before you looked for labels. That word is "
            "a label.",
        ),
        Mistake(
            name="the sentences are shifted, not the words",
            function=lambda ids: (ids[:-1], ids[1:]),
            hint="You drop a whole sentence from each side. Which axis do the words of "
            "a sentence lie along?",
            more="The first index chooses among sentences. Write a colon there and "
            "shift the second.",
        ),
        Mistake(
            name="the last word is still an input",
            function=lambda ids: (ids, ids[:, 1:]),
            hint="The labels are right. Which label belongs to the last input?",
            more="Inputs and labels are equally long: each input has one next word.",
        ),
        Mistake(
            name="only the last word is a label",
            function=lambda ids: (ids[:, :-1], ids[:, -1]),
            hint="You make one guess per sentence. How many exercises does a text of "
            "five words hold?",
            more="At each place the label is the next word, so there are as many "
            "labels as inputs.",
        ),
    ),
    hint="Write down a row of five words, and below each word its next word. Which "
    "word has none?",
)


def _of_others(generator):
    """Masks as nn.MultiheadAttention takes them: of booleans, and of numbers."""
    hidden = ~causal_mask(5)
    numbers = torch.zeros(4, 4).masked_fill(~causal_mask(4), -torch.inf)
    lower = -torch.rand(3, 3, generator=generator) - 0.5
    lower[0, 2] = -torch.inf
    loud = torch.tensor([[-1e4, 0.0, 70.0], [-torch.inf, -1e10, 0.0]])
    nothing_hidden = -torch.rand(2, 4, generator=generator) - 0.5
    return [(hidden,), (numbers,), (lower,), (loud,), (nothing_hidden,)]


def convert(theirs: Tensor) -> Tensor:
    """True where a mask of nn.MultiheadAttention lets a word look."""
    if theirs.dtype == torch.bool:
        return ~theirs
    return theirs > -torch.inf


CONVERT = Exercise(
    name="masks.convert",
    statement="Gives our mask, True = may look, for one of nn.MultiheadAttention: of "
    "booleans or of numbers that are added to the scores. Then layers of both kinds "
    "work together.",
    takes=("theirs",),
    reference=convert,
    cases=_of_others,
    mistakes=(
        Mistake(
            name="booleans are left as they are",
            function=lambda m: m if m.dtype == torch.bool else m > -torch.inf,
            hint="Masks of numbers like ours come out right. In one of bools, True "
            "hides.",
            more="Turn a table of booleans around with ~.",
        ),
        Mistake(
            name="numbers are turned around",
            function=lambda m: ~m if m.dtype == torch.bool else m == -torch.inf,
            hint="The booleans are right. With numbers, you open exactly what should "
            "be hidden.",
            more="What stays of a score when minus infinity is added to it?",
        ),
        Mistake(
            name="a finite number hides",
            function=lambda m: ~m if m.dtype == torch.bool else m == 0,
            hint="A finite number makes a weight smaller, or larger, but hides "
            "nothing.",
            more="Only one number makes a weight exactly 0 whatever the score is.",
        ),
        Mistake(
            name="only what is not negative is open",
            function=lambda m: ~m if m.dtype == torch.bool else m >= 0,
            hint="A negative number lowers a score. Does it hide the word?",
            more="Which is the one number that no score can make up for?",
        ),
        Mistake(
            name="only what is above 0 is open",
            function=lambda m: ~m if m.dtype == torch.bool else m > 0,
            hint="A 0 changes no score, so it hides nothing. Your mask hides that "
            "place.",
            more="What is added to the score of a word that may be seen?",
        ),
        Mistake(
            name="every number but 0 counts as True",
            function=lambda m: m.bool(),
            hint="You left the booleans as they are, and treated every number but 0 as "
            "True.",
            more="Two cases: theirs.dtype tells which of them you have.",
        ),
        Mistake(
            name="the numbers are forgotten",
            function=lambda m: ~m,
            hint="A mask of booleans comes out right. ~ does not take numbers: what do "
            "you do with a mask that is added to the scores?",
            more="theirs.dtype tells which kind you have. Of all numbers, one hides.",
        ),
        Mistake(
            name="a threshold hides",
            function=lambda m: ~m if m.dtype == torch.bool else m > -1e9,
            hint="You draw a line at some low number. A high score can make up for it: "
            "which number hides whatever the score is?",
            more="Only −∞ hides. Compare with it.",
            also=(lambda m: ~m if m.dtype == torch.bool else m > -100,),
        ),
    ),
    hint="Two cases, by theirs.dtype. In each: which entries hide a word?",
)


EXERCISES = (WEIGHTS, SHIFT, CONVERT)
