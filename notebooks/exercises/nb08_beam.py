"""An exercise of notebook 08: a step of a beam.

Knows tensors. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor

from named_mistakes import Exercise, Mistake


def beam_step(totals: Tensor, log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Parents, tokens and new totals, each "w", the best first."""
    width, size = log_probs.shape
    best, picks = (totals[:, None] + log_probs).flatten().topk(width)
    return picks // size, picks % size, best


def _beam_cases(generator):
    """The first beginning is so good that its second-best word stays too."""

    def one(width, size):
        dtype = torch.get_default_dtype()
        noise = torch.randn((width, size), generator=generator, dtype=dtype)
        spaced = torch.linspace(0, 3, size, dtype=dtype) + 0.02 * noise
        order = torch.rand((width, size), generator=generator).argsort(dim=1)
        log_probs = spaced.gather(1, order).log_softmax(dim=-1)
        totals = -torch.arange(1, width + 1, dtype=dtype) * 0.77
        log_probs[-1] = torch.linspace(0, 9, size, dtype=dtype).log_softmax(dim=-1)
        return totals, log_probs

    totals, log_probs = one(3, 7)
    log_probs[-1, :] = 0  # two likely words behind the worst beginning
    log_probs[-1, [1, 4]] = torch.tensor([4.0, 3.9]).to(log_probs)
    log_probs[-1] = log_probs[-1].log_softmax(dim=-1)
    return [one(3, 7), one(4, 5), one(2, 9), (totals, log_probs), one(1, 6)]


def _step(combine, keep=lambda total, picks, log_probs: total.flatten()[picks]):
    """A step with other totals, or with other numbers handed on."""

    def step(totals, log_probs):
        width, size = log_probs.shape
        total = combine(totals[:, None], log_probs)
        picks = total.flatten().topk(width).indices
        return picks // size, picks % size, keep(total, picks, log_probs)

    return step


def _one_child_each(totals, log_probs):
    best, tokens = (totals[:, None] + log_probs).max(dim=1)
    best, parents = best.sort(descending=True)
    return parents, tokens[parents], best


def _totals_after_the_choice(totals, log_probs):
    width, size = log_probs.shape
    best, picks = log_probs.flatten().topk(width)
    parents = picks // size
    return parents, picks % size, totals[parents] + best


def _sorted_after_the_choice(totals, log_probs):
    parents, tokens, added = _totals_after_the_choice(totals, log_probs)
    best, order = added.sort(descending=True)
    return parents[order], tokens[order], best


def _divided_by_the_width(totals, log_probs):
    width = len(totals)
    best, picks = (totals[:, None] + log_probs).flatten().topk(width)
    return picks // width, picks % width, best


def _old_totals(totals, log_probs):
    parents, tokens, _ = beam_step(totals, log_probs)
    return parents, tokens, totals[parents]


def _exchanged(totals, log_probs):
    parents, tokens, best = beam_step(totals, log_probs)
    return tokens, parents, best


BEAM = Exercise(
    name="translation.beam",
    statement="Gives parents (which beginning goes on), tokens and new totals, each "
    "“w”, best first, from the totals “w” so far and log_probs “w v” of the next "
    "token. A beam repeats this step.",
    takes=("totals", "log_probs"),
    reference=beam_step,
    cases=_beam_cases,
    mistakes=(
        Mistake(
            name="one child for each",
            function=_one_child_each,
            hint="Every beginning goes on once. A very good one may deserve two "
            "children, and a bad one none.",
            more="Let all w · v continuations compete in one race.",
        ),
        Mistake(
            name="the past is forgotten",
            function=_step(lambda totals, log_probs: log_probs),
            hint="You rank by the last word alone.",
            more="A beginning keeps what it has earned so far.",
        ),
        Mistake(
            name="only the last word is handed on",
            function=_step(
                torch.add, lambda total, picks, log_probs: log_probs.flatten()[picks]
            ),
            hint="The choice is right, but the totals you return cover only one word.",
            more="At the next step, nothing tells how good the beginning was.",
        ),
        Mistake(
            name="the totals of the parents are handed on",
            function=_old_totals,
            hint="The choice is right, but your totals do not include the new token "
            "yet.",
            more="Which numbers did `topk` compare? Those are the new totals.",
        ),
        Mistake(
            name="the totals come in after the choice",
            function=_totals_after_the_choice,
            hint="The totals are right for what you chose, but you chose by the last "
            "word alone.",
            more="Add the totals before topk: a good word after a bad beginning may "
            "lose.",
        ),
        Mistake(
            name="the totals come in after the choice, for sorting only",
            function=_sorted_after_the_choice,
            hint="You choose by the last word alone, and sort by the totals "
            "afterwards. Can a likely word after a bad beginning push out a better "
            "text?",
            more="Which numbers should `topk` compare?",
        ),
        Mistake(
            name="log-probabilities are multiplied",
            function=_step(torch.mul),
            hint="In your version, two bad numbers below 0 make a good one above it.",
            more="Probabilities multiply. And their logarithms?",
        ),
        Mistake(
            name="probabilities are added to logarithms",
            function=_step(lambda totals, log_probs: totals + log_probs.exp()),
            hint="The totals are logarithms, and what you add to them are "
            "probabilities.",
            more="log_probs are logarithms already. Is there anything to convert?",
        ),
        Mistake(
            name="divided by the width",
            function=_divided_by_the_width,
            hint="Parents and tokens come out wrong: a row of the table is v wide, not "
            "w.",
            more="Place = row · (length of a row) + column.",
        ),
        Mistake(
            name="parents and tokens exchanged",
            function=_exchanged,
            hint="Your first result points past the last beginning.",
            more="// tells the row, % the column. Rows are beginnings.",
        ),
        Mistake(
            name="the best comes last",
            function=lambda totals, log_probs: tuple(
                part.flip(0) for part in beam_step(totals, log_probs)
            ),
            hint="The right ones, in the wrong order: the best should come first.",
            more="argsort and sort are ascending unless told otherwise.",
        ),
    ),
    hint=(
        "How many continuations are there in all, and what is the total of one of "
        "them?",
        "A table of all totals, w by v; flatten it; `topk`; then say row and column.",
    ),
)


EXERCISES = (BEAM,)
