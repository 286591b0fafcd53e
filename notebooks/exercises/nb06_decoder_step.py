"""An exercise of notebook 06: one step that looks back.

Knows the shared layer. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from course_utils.attention import attention_weights
from course_utils.recurrent import RecurrentAttention
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal


def context_step(state: Tensor, memory: Tensor, mask: Tensor, w: Tensor) -> Tensor:
    """Score, weight, mix, join: "b m"."""
    scores = (memory @ state[:, :, None]).squeeze(-1)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    context = (weights[:, None] @ memory).squeeze(1)
    return (torch.cat([context, state], dim=-1) @ w.T).tanh()


def step_of_the_layer(state: Tensor, memory: Tensor, mask: Tensor, w: Tensor) -> Tensor:
    """`RecurrentAttention` with the score "dot" and this matrix, for one state."""
    layer = RecurrentAttention(memory.shape[-1], "dot")
    arguments = state[:, None], memory, mask[:, None, None]
    return functional_call(layer, {"combine.weight": w}, arguments)[:, 0]


def _step_cases(generator):
    def one(lengths, k, m):
        mask = torch.arange(k) < torch.tensor(lengths)[:, None]
        b = len(lengths)
        state, memory = normal(generator, b, m), normal(generator, b, k, m)
        return state, memory, mask, normal(generator, m, 2 * m) / m**0.5

    loud = one([3], 4, 5)
    loud[0].fill_(-100)
    loud[1].abs_()  # so that all scores of real words are far below 0
    loud[3].div_(100)  # and tanh still tells contexts apart
    return [one([5, 3], 5, 4), one([2, 6, 7], 7, 3), one([1], 1, 6), loud]


def _scores(state, memory):
    return torch.einsum("bm, bkm -> bk", state, memory)


def _weights(state, memory, mask):
    return attention_weights(_scores(state, memory), mask)


def _hidden_softmax(state, memory, mask):
    """Without care for rows in which nothing is left."""
    return _scores(state, memory).masked_fill(~mask, -torch.inf).softmax(dim=-1)


def _mix(weights, memory):
    return torch.einsum("bk, bkm -> bm", weights, memory)


def _joined(first, second, w):
    return (torch.cat([first, second], dim=-1) @ w.T).tanh()


def _with(weigh):
    """The whole step with other weights."""

    def step(state, memory, mask, w):
        return _joined(_mix(weigh(state, memory, mask), memory), state, w)

    return step


def _across(state, memory, mask):
    scores = _scores(state, memory).masked_fill(~mask, -1e9)
    return scores.softmax(dim=0)


def _hard(state, memory, mask):
    best = _weights(state, memory, mask).argmax(dim=-1)
    return F.one_hot(best, memory.shape[1]).to(memory.dtype)


def _zeroed_memory(state, memory, mask, w):
    memory = memory * mask[..., None]
    context = _mix(_scores(state, memory).softmax(dim=-1), memory)
    return _joined(context, state, w)


def _bent_before(state, memory, mask, w):
    context = _mix(_weights(state, memory, mask), memory)
    return torch.cat([context, state], dim=-1).tanh() @ w.T


STEP = Exercise(
    name="recurrent.context_step",
    statement="Gives tanh(W [context; state]), “b m”, for a state “b m”, a memory “b k "
    "m”, a bool mask “b k” and W “m 2m”, with dot scores. So a state may look back.",
    takes=("state", "memory", "mask", "W"),
    reference=context_step,
    cases=_step_cases,
    mistakes=(
        Mistake(
            name="padding is not masked",
            function=_with(lambda s, h, mask: _scores(s, h).softmax(dim=-1)),
            hint="Rows without padding are right. In the others the state looks at "
            "words that are not there.",
            more="The mask says True where it may look. Use it before the softmax.",
        ),
        Mistake(
            name="upside down",
            function=_with(lambda s, h, mask: _hidden_softmax(s, h, ~mask)),
            hint="Your state looks at padding only. True means a real word.",
            more="masked_fill fills where its mask is True.",
        ),
        Mistake(
            name="upside down, and even where nothing is padded",
            function=_with(
                lambda s, h, mask: (
                    _scores(s, h)
                    .masked_fill(mask, torch.finfo(s.dtype).min)
                    .softmax(dim=-1)
                )
            ),
            hint="You hide the real words. Then a row without padding has nothing left "
            "and gets equal shares.",
            more="True means a real word. masked_fill fills where its own mask is "
            "True.",
        ),
        Mistake(
            name="padding gets a score of 0",
            function=_with(lambda s, h, mask: (_scores(s, h) * mask).softmax(dim=-1)),
            hint="The score of padding became 0. Is 0 a low score, when others are "
            "negative?",
            more="e⁰ is 1. Which score makes a power vanish?",
        ),
        Mistake(
            name="masked after the softmax only",
            function=_with(lambda s, h, mask: _scores(s, h).softmax(dim=-1) * mask),
            hint="Padding has weight 0, but the other weights do not add up to 1: "
            "padding has taken its share away.",
            more="Hide the scores before they compete.",
        ),
        Mistake(
            name="softmax along the batch",
            function=_with(_across),
            hint="Your weights add up to 1 over the *sentences*, which now compete for "
            "a word.",
            more="Scores are “b k”. Along which of the two should shares add up to 1?",
        ),
        Mistake(
            name="scores used as weights",
            function=_with(lambda s, h, mask: _scores(s, h) * mask),
            hint="Your mixture has no shares: nothing makes the numbers add up to 1.",
            more="Between scores and mixing there is one more step.",
        ),
        Mistake(
            name="every word counts alike",
            function=_with(lambda s, h, mask: mask / mask.sum(dim=-1, keepdim=True)),
            hint="You average the real words. The state has asked nothing.",
            more="Compare the state with each memory row first.",
        ),
        Mistake(
            name="scaled",
            function=_with(
                lambda s, h, mask: _weights(s / s.shape[-1] ** 0.5, h, mask)
            ),
            hint="Your weights are too even: the scores were made smaller.",
            more="The root came in 2017. Luong's dot score is plain.",
        ),
        Mistake(
            name="state before context",
            function=lambda s, h, mask, w: _joined(s, _mix(_weights(s, h, mask), h), w),
            hint="Everything is there, but W's first half was learned for something "
            "else.",
            more="Read the formula from left to right: what comes first in the "
            "brackets?",
        ),
        Mistake(
            name="tanh forgotten",
            function=lambda s, h, mask, w: (
                torch.cat([_mix(_weights(s, h, mask), h), s], dim=-1) @ w.T
            ),
            hint="Some numbers lie outside −1 to 1. Can a state do that?",
            more="One function is missing at the very end.",
        ),
        Mistake(
            name="the join is forgotten",
            function=lambda s, h, mask, w: _mix(_weights(s, h, mask), h),
            hint="That is the context. W is unused, and the state itself is lost.",
            more="Read the formula: what is in the brackets besides the context?",
        ),
        Mistake(
            name="hidden places are set to 0 in the memory",
            function=_zeroed_memory,
            hint="The score of a hidden place is 0 in your version. Does softmax give "
            "a score of 0 no weight?",
            more="Hide the scores, before the softmax.",
        ),
        Mistake(
            name="tanh before W",
            function=_bent_before,
            hint="You bend context and state first and then send them through W. Can "
            "your result leave the range −1 to 1?",
            more="tanh(W [context; state]): which of the two comes last?",
        ),
        Mistake(
            name="the best word alone",
            function=_with(_hard),
            hint="You take the memory of the word with the highest score. Do the other "
            "words have no share?",
            more="Between scores and mixing comes the softmax.",
        ),
    ),
    hint="Four lines: score, weight, mix, join. Write the shape next to each.",
    trains=True,
    shared=step_of_the_layer,
)


EXERCISES = (STEP,)
