"""Exercises of notebook 15: what came after this token the last time?

Knows weights and ids. Knows nothing of how an answer is run or shown.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import causal_weights


def induction(
    weights: Float[Tensor, "b h t t"], ids: Int64[Tensor, "b t"]
) -> Float[Tensor, "h"]:
    """Mean weight on the key after the last earlier occurrence of the query's token.

    Over all queries of all texts whose token has occurred before.
    """
    selected = []
    for row, text in enumerate(ids.tolist()):
        last = {}
        for q, token in enumerate(text):
            if token in last:
                selected.append(weights[row, :, q, last[token] + 1])
            last[token] = q
    return torch.stack(selected).mean(dim=0)


def _texts(generator):
    """Few tokens; one comes three times, and one in the last text twice in a row."""
    rows = torch.tensor([[0, 1, 2, 0, 3, 0, 1, 4], [5, 6, 2, 3, 4, 2, 1, 3]])
    names = torch.randperm(90, generator=generator)[:7] + 10
    long, short = names[rows], names[rows[:1, :5]]
    twice_in_a_row = names[torch.tensor([[0, 0, 1, 2, 1, 0]])]
    return [
        (causal_weights(generator, 2, 3, 8, 8), long),
        (causal_weights(generator, 1, 2, 5, 5), short),
        (causal_weights(generator, 1, 2, 6, 6), twice_in_a_row),
    ]


def _at(shift, last=True):
    """As `induction`, `shift` keys from the last (or first) earlier occurrence."""

    def mean_weights(weights, ids):
        selected = []
        for row, text in enumerate(ids.tolist()):
            for q, token in enumerate(text):
                if earlier := [k for k in range(q) if text[k] == token]:
                    k = earlier[-1 if last else 0] + shift
                    selected.append(weights[row, :, q, k])
        return torch.stack(selected).mean(dim=0)

    return mean_weights


def _not_side_by_side(weights, ids):
    selected = []
    for row, text in enumerate(ids.tolist()):
        for q, token in enumerate(text):
            if earlier := [k for k in range(q - 1) if text[k] == token]:
                selected.append(weights[row, :, q, earlier[-1] + 1])
    return torch.stack(selected).mean(dim=0)


def _all_places(weights, ids):
    selected = []
    for row, text in enumerate(ids.tolist()):
        for q, token in enumerate(text):
            places = [k + 1 for k in range(q) if text[k] == token]
            selected += [weights[row, :, q, k] for k in places]
    return torch.stack(selected).mean(dim=0)


def _times(weights, ids):
    """For how many queries there is an earlier occurrence."""
    same = (ids[:, :, None] == ids[:, None, :]).tril(-1)
    return int(same.any(-1).sum())


def _by_first_row(weights, ids):
    return induction(weights, ids[:1].expand_as(ids))


def _text_by_text(weights, ids):
    rows = range(len(ids))
    each = [induction(weights[row : row + 1], ids[row : row + 1]) for row in rows]
    return torch.stack(each).mean(dim=0)


def _on_itself(weights, ids):
    has = (ids[:, :, None] == ids[:, None, :]).tril(-1).any(-1)
    return weights.diagonal(0, -2, -1).transpose(1, 2)[has].mean(dim=0)


INDUCTION = Exercise(
    name="inside.induction",
    statement="Gives one number per head, “h”, from weights “b h q k” and ids “b t”: "
    "the mean weight on the key after the last earlier place of the query's token. The "
    "mean is over all queries of all texts that have such a place.",
    takes=("weights", "ids"),
    reference=induction,
    cases=_texts,
    mistakes=(
        Mistake(
            name="the earlier occurrence itself",
            function=_at(0),
            hint="You look at the same token as the query. What came *after* it?",
            more="The head wants to know how the story went on. Go one key further.",
        ),
        Mistake(
            name="the token before the earlier occurrence",
            function=lambda weights, ids: _at(-1)(weights, ids),
            hint="One step in the wrong direction: this key came before.",
            more="What is proposed next came one place *later* in the text.",
        ),
        Mistake(
            name="the first occurrence, not the last",
            function=_at(1, last=False),
            hint="Right as long as a token comes twice. What if it comes a third time?",
            more="Of several earlier places the nearest one counts.",
        ),
        Mistake(
            name="all earlier places count",
            function=_all_places,
            hint="A token that comes a third time gives you two weights. How many "
            "should a query have?",
            more="Of several earlier places the nearest one counts.",
        ),
        Mistake(
            name="the place directly before the query is passed over",
            function=_not_side_by_side,
            hint="Take the same token twice in a row: the second one, too, has an "
            "earlier place. Does your search reach it?",
            more="Earlier places go from 0 up to the one before the query.",
        ),
        Mistake(
            name="the query's own key",
            function=_on_itself,
            hint="You read the diagonal, where a token looks at itself.",
            more="Find an earlier place first, strictly before the query.",
        ),
        Mistake(
            name="queries without an earlier occurrence count as 0",
            function=lambda weights, ids: (
                induction(weights, ids) * _times(weights, ids) / ids.numel()
            ),
            hint="The right sum, divided by too many. A new token has no place to look "
            "at.",
            more="Count only the queries whose token came before.",
        ),
        Mistake(
            name="a sum, not a mean",
            function=lambda weights, ids: (
                induction(weights, ids) * _times(weights, ids)
            ),
            hint="A perfect head should give 1, however long the text is.",
            more="Divide by the number of queries that had an earlier place.",
        ),
        Mistake(
            name="the first text decides for all",
            function=_by_first_row,
            hint="You look up the places in row 0 of the ids, for every row of the "
            "weights.",
            more="Each text has its repeats in its own places.",
        ),
        Mistake(
            name="a mean of the texts' means",
            function=_text_by_text,
            hint="A text with two such queries counts as much as one with three.",
            more="Collect the weights of all texts first, then take one mean.",
        ),
        Mistake(
            name="one number for all heads",
            function=lambda weights, ids: induction(weights, ids).mean(),
            hint="You average over the heads too, and the one that can do it is lost.",
            more="Which of the axes b, h, q stays?",
        ),
    ),
    hint="Go through one text by hand: remember for each token where it came last. "
    "Loops are fine.",
)


# --- a prediction ------------------------------------------------------------------


def next_key() -> int:
    """The row is 22 11 6 17 20 9 22 11 6 17 20; the query is the second 17."""
    row, query = [22, 11, 6, 17, 20, 9, 22, 11, 6, 17, 20], 9
    return row.index(row[query]) + 1


NEXT_KEY = Exercise(
    name="inside.next_key",
    statement="Wants the number of a key: in 22 11 6 17 20 9 22 11 6 17 20 the query "
    "is the second 17, at position 9. Where does a perfect induction head look?",
    takes=(),
    reference=next_key,
    cases=lambda generator: [()],
    mistakes=(
        Mistake(
            name="the earlier occurrence",
            function=lambda: 3,
            hint="The first 17 is there. The head already knows that it is reading a "
            "17.",
            more="What does it want to know? Go one step on from there.",
        ),
        Mistake(
            name="before the earlier occurrence",
            function=lambda: 2,
            hint="The 6 is there, which came *before* the first 17.",
            more="Go one step in the other direction.",
        ),
        Mistake(
            name="the token before the query",
            function=lambda: 8,
            hint="That is what the *other* head does, one layer below.",
            more="Find the first 17. What came after it?",
        ),
        Mistake(
            name="itself",
            function=lambda: 9,
            hint="It would learn that a 17 is a 17.",
            more="Find the first 17. What came after it?",
        ),
        Mistake(
            name="the answer itself",
            function=lambda: 10,
            hint="The wanted 20 is there, but after the query: the mask hides it.",
            more="The same token stands in the first half too.",
        ),
        Mistake(
            name="counted from 1",
            function=lambda: 5,
            hint="Key 5 is a 9.",
            more="You may have the right token. Its number counts from 0.",
        ),
        Mistake(
            name="the token, not its place",
            function=lambda: 20,
            hint="20 is what will be proposed. At which position does the head find "
            "it?",
            more="Keys are numbered 0, 1, 2, … from the left.",
        ),
    ),
    hint="Number the row from 0. Where did the query's token first appear?",
    predicts=True,
)


EXERCISES = (INDUCTION, NEXT_KEY)
