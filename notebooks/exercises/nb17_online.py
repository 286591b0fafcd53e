"""Exercise of notebook 17: softmax over keys that come block by block.

Knows nothing of models or of how an answer is run or shown.
"""

import torch
from torch import Tensor

from named_mistakes import Exercise, Mistake

State = tuple[Tensor, Tensor, Tensor]


def update(
    top: Tensor, total: Tensor, mixed: Tensor, scores: Tensor, values: Tensor
) -> State:
    """Add a block: largest score, sum of weights, values mixed by them."""
    new = torch.maximum(top, scores.amax(-1, keepdim=True))
    weights = (scores - new).exp()
    shrink = (top - new).exp()
    return (
        new,
        total * shrink + weights.sum(-1, keepdim=True),
        (mixed * shrink + weights @ values),
    )


def _blocks(generator):
    kind = torch.get_default_dtype()

    def one(queries, keys, width, shift):
        def draw(*size):
            return torch.randn(size, generator=generator, dtype=kind)

        scores, values = draw(queries, keys) + shift, draw(keys, width)
        top = 0.3 + draw(queries, 1)
        return top, 1 + draw(queries, 1).exp(), draw(queries, width), scores, values

    return [one(3, 5, 4, 1.5), one(4, 7, 3, -2.0), one(2, 1, 5, 0.5)]


def _wrong(shrink_total=True, shrink_mixed=True, old=False, only=False):
    def answer(top, total, mixed, scores, values):
        block = scores.amax(-1, keepdim=True)
        new = block if only else top if old else torch.maximum(top, block)
        weights, shrink = (scores - new).exp(), (top - new).exp()
        total = total * shrink if shrink_total else total
        mixed = mixed * shrink if shrink_mixed else mixed
        return new, total + weights.sum(-1, keepdim=True), mixed + weights @ values

    return answer


def _divided(*state):
    new, total, mixed = update(*state)
    return new, total, mixed / total


def _upside_down(top, total, mixed, scores, values):
    new, more, context = update(top, 0 * total, 0 * mixed, scores, values)
    grow = (new - top).exp()
    return new, total * grow + more, mixed * grow + context


def _replaced(top, total, mixed, scores, values):
    return update(top, 0 * total, 0 * mixed, scores, values)


ONLINE = Exercise(
    name="scaling.online_softmax",
    statement="Takes top “q 1”, total “q 1” and mixed “q d” of the keys so far, scores "
    "“q k” and values “k d” of the next block; gives the new (top, total, mixed). So "
    "no table of all scores is ever stored.",
    takes=("top", "total", "mixed", "scores", "values"),
    reference=update,
    cases=_blocks,
    mistakes=(
        Mistake(
            name="nothing is rescaled",
            function=_wrong(shrink_total=False, shrink_mixed=False),
            hint="A new largest score has come, but your old sums still use the "
            "earlier one. What must both be multiplied by?",
            more="Every old weight was exp(score − old top). It should be exp(score − "
            "new).",
        ),
        Mistake(
            name="only the sum is rescaled",
            function=_wrong(shrink_mixed=False),
            hint="Your total is right. The values mixed so far hold old weights, too.",
            more="mixed needs the factor that total has.",
        ),
        Mistake(
            name="only the mixed values are rescaled",
            function=_wrong(shrink_total=False),
            hint="Your mixed values are right. The total still adds weights of two "
            "scales.",
            more="total needs the factor that mixed has.",
        ),
        Mistake(
            name="the largest score of the block alone",
            function=_wrong(only=True),
            hint="Your top forgets the earlier blocks: it may fall from block to "
            "block.",
            more="Compare the maximum of this block with the one that you were handed.",
        ),
        Mistake(
            name="the old largest score stays",
            function=_wrong(old=True),
            hint="Right in exact arithmetic, but your top never moves. A large score "
            "in a later block overflows.",
            more="torch.maximum of two things.",
        ),
        Mistake(
            name="divided already",
            function=_divided,
            hint="You have divided the mixed values, so the next block cannot add to "
            "them.",
            more="The division by total comes once, after the last block.",
        ),
        Mistake(
            name="the factor upside down",
            function=_upside_down,
            hint="Your old sums grow when a larger score arrives. They should shrink.",
            more="exp(old − new), which is at most 1.",
        ),
        Mistake(
            name="the blocks before are lost",
            function=_replaced,
            hint="That is the softmax of this block alone, without its division. Two "
            "arguments are unused.",
            more="Add to total and to mixed, after shrinking them.",
        ),
    ),
    hint="Begin with the new top: the larger of the old one and this block's maximum. "
    "The block's weights are exp(scores − new top). The old sums shrink by exp(old top "
    "− new top). Then add.",
)


EXERCISES = (ONLINE,)
