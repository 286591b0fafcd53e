"""Exercises of notebook 06: one step that looks back, and a gate that keeps.

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

# --- one step ----------------------------------------------------------------------


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
    "recurrent.context_step",
    "Gives tanh(W [context; state]), “b m”, for a state “b m”, a memory “b k m”, a "
    "bool mask “b k” and W “m 2m”, with dot scores. So a state may look back.",
    ("state", "memory", "mask", "W"),
    context_step,
    _step_cases,
    (
        Mistake(
            "padding is not masked",
            _with(lambda s, h, mask: _scores(s, h).softmax(dim=-1)),
            "Rows without padding are right. In the others the state looks at words "
            "that are not there.",
            "The mask says True where it may look. Use it before the softmax.",
        ),
        Mistake(
            "upside down",
            _with(lambda s, h, mask: _hidden_softmax(s, h, ~mask)),
            "Your state looks at padding only. True means a real word.",
            "masked_fill fills where its mask is True.",
        ),
        Mistake(
            "upside down, and even where nothing is padded",
            _with(
                lambda s, h, mask: (
                    _scores(s, h)
                    .masked_fill(mask, torch.finfo(s.dtype).min)
                    .softmax(dim=-1)
                )
            ),
            "You hide the real words. Then a row without padding has nothing left and "
            "gets equal shares.",
            "True means a real word. masked_fill fills where its own mask is True.",
        ),
        Mistake(
            "padding gets a score of 0",
            _with(lambda s, h, mask: (_scores(s, h) * mask).softmax(dim=-1)),
            "The score of padding became 0. Is 0 a low score, when others are "
            "negative?",
            "e⁰ is 1. Which score makes a power vanish?",
        ),
        Mistake(
            "masked after the softmax only",
            _with(lambda s, h, mask: _scores(s, h).softmax(dim=-1) * mask),
            "Padding has weight 0, but the other weights do not add up to 1: padding "
            "has taken its share away.",
            "Hide the scores before they compete.",
        ),
        Mistake(
            "softmax along the batch",
            _with(_across),
            "Your weights add up to 1 over the *sentences*, which now compete for a "
            "word.",
            "Scores are “b k”. Along which of the two should shares add up to 1?",
        ),
        Mistake(
            "scores used as weights",
            _with(lambda s, h, mask: _scores(s, h) * mask),
            "Your mixture has no shares: nothing makes the numbers add up to 1.",
            "Between scores and mixing there is one more step.",
        ),
        Mistake(
            "every word counts alike",
            _with(lambda s, h, mask: mask / mask.sum(dim=-1, keepdim=True)),
            "You average the real words. The state has asked nothing.",
            "Compare the state with each memory row first.",
        ),
        Mistake(
            "scaled",
            _with(lambda s, h, mask: _weights(s / s.shape[-1] ** 0.5, h, mask)),
            "Your weights are too even: the scores were made smaller.",
            "The root came in 2017. Luong's dot score is plain.",
        ),
        Mistake(
            "state before context",
            lambda s, h, mask, w: _joined(s, _mix(_weights(s, h, mask), h), w),
            "Everything is there, but W's first half was learned for something else.",
            "Read the formula from left to right: what comes first in the brackets?",
        ),
        Mistake(
            "tanh forgotten",
            lambda s, h, mask, w: (
                torch.cat([_mix(_weights(s, h, mask), h), s], dim=-1) @ w.T
            ),
            "Some numbers lie outside −1 to 1. Can a state do that?",
            "One function is missing at the very end.",
        ),
        Mistake(
            "the join is forgotten",
            lambda s, h, mask, w: _mix(_weights(s, h, mask), h),
            "That is the context. W is unused, and the state itself is lost.",
            "Read the formula: what is in the brackets besides the context?",
        ),
        Mistake(
            "hidden places are set to 0 in the memory",
            _zeroed_memory,
            "The score of a hidden place is 0 in your version. Does softmax give a "
            "score of 0 no weight?",
            "Hide the scores, before the softmax.",
        ),
        Mistake(
            "tanh before W",
            _bent_before,
            "You bend context and state first and then send them through W. Can your "
            "result leave the range −1 to 1?",
            "tanh(W [context; state]): which of the two comes last?",
        ),
        Mistake(
            "the best word alone",
            _with(_hard),
            "You take the memory of the word with the highest score. Do the other "
            "words have no share?",
            "Between scores and mixing comes the softmax.",
        ),
    ),
    "Four lines: score, weight, mix, join. Write the shape next to each.",
    trains=True,
    shared=step_of_the_layer,
)


# --- a gate that keeps -------------------------------------------------------------


def gate_that_keeps() -> float:
    """The constant gate z whose 100th power is one half."""
    return 0.5 ** (1 / 100)


GATE = Exercise(
    "recurrent.gate",
    "Wants a number, to four decimals: the constant gate z that leaves half of the "
    "gradient after 100 steps, along the direct path. It tells how near 1 a gate "
    "must stay for a long memory.",
    (),
    gate_that_keeps,
    lambda generator: [()],
    (
        Mistake(
            "half in each step",
            lambda: 0.5,
            "After two steps only a quarter would be left.",
            "The same factor, 100 times: it has to be close to 1.",
        ),
        Mistake(
            "each step takes the same amount",
            lambda: 1 - 0.5 / 100,
            "Close. You take 1/200 of the *first* value each time, but a factor takes "
            "its share of what is left.",
            "Multiply it by itself 100 times and see what is left: not half.",
        ),
        Mistake(
            "divided by the steps",
            lambda: 0.5 / 100,
            "With this gate one step is enough to forget nearly everything.",
            "100 factors make a power. What undoes a power?",
        ),
        Mistake(
            "the share that is new",
            lambda: 1 - 0.5 ** (1 / 100),
            "That is how much the gate lets *in*.",
            "z is the part of the old state that stays.",
        ),
        Mistake(
            "it grows",
            lambda: 2 ** (1 / 100),
            "A gate above 1 would double the gradient over 100 steps.",
            "You want half at the end, not double.",
        ),
        Mistake(
            "the fourth decimal is another one",
            lambda: 0.5 ** (1 / 99),
            "Very close, but four decimals were asked for. Did you count 99 steps, or "
            "round too early?",
            "A hundred steps are a hundred factors. Round only at the end.",
        ),
        Mistake(
            "a hundredth in each step",
            lambda: 1 - 1 / 100,
            "That leaves e to the −1 after 100 steps, about 0.37.",
            "Half should be left: which number, multiplied by itself 100 times, gives "
            "0.5?",
        ),
        Mistake(
            "a half to the power of 100",
            lambda: 0.5**100,
            "That is what a gate of 0.5 leaves after 100 steps: nearly nothing.",
            "You know the power, 0.5, and are looking for its base.",
        ),
    ),
    "Over k steps a constant gate multiplies the gradient by z to the power of k.",
    predicts=True,
)


EXERCISES = (STEP, GATE)
