"""Exercises of notebook 08: a step of a beam, and its last choice.

Knows the shared rule of lengths. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor

from course_utils.decoding import length_rule
from named_mistakes import Exercise, Mistake

# --- one step of a beam ------------------------------------------------------------


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
    hint="A table of all totals, w by v; flatten it; `topk`; then say row and column.",
)


# --- the last choice ---------------------------------------------------------------


def choice(
    log_probs: list[float], lengths: list[int], penalty: float
) -> tuple[int, float]:
    """The number of the best text, and its value."""
    pairs = zip(log_probs, lengths, strict=True)
    values = [total / length_rule(length, penalty) for total, length in pairs]
    return values.index(max(values)), max(values)


def _choice_by(value, pick=max):
    def choose(log_probs, lengths, penalty):
        pairs = zip(log_probs, lengths, strict=True)
        values = [value(total, length, penalty) for total, length in pairs]
        return values.index(pick(values)), pick(values)

    return choose


def _undivided(log_probs, lengths, penalty):
    number, _ = choice(log_probs, lengths, penalty)
    return number, log_probs[number]


def _chosen_by_total(log_probs, lengths, penalty):
    number = log_probs.index(max(log_probs))
    return number, log_probs[number] / length_rule(lengths[number], penalty)


CHOICE = Exercise(
    name="translation.choice",
    statement="Gives (number, value) of the best text: its total log-probability over "
    "((5 + length) / 6) to the power penalty. Without such a rule short texts are "
    "favored.",
    takes=("log_probs", "lengths", "penalty"),
    reference=choice,
    cases=lambda generator: [
        ([-2.0, -2.9, -2.3, -6.0], [3, 11, 4, 12], 0.6),
        ([-1.5, -4.0, -1.9], [2, 5, 9], 1.0),
        ([-3.0, -3.5], [4, 6], 0.8),
        ([-5.0, -2.0, -2.1], [9, 2, 8], 0.7),  # the largest total is not the first
        ([-3.0, -2.5, -2.6], [7, 5, 12], 0.0),  # no rule at all
        ([-3.0, -2.5, -2.6], [7, 5, 12], 2.0),  # another penalty, and no more
    ],
    mistakes=(
        Mistake(
            name="no rule of the length",
            function=_choice_by(lambda total, n, p: total),
            hint="Each word costs something, so you often choose one that says little.",
            more="Divide by something that grows with the length.",
        ),
        Mistake(
            name="divided by the length itself",
            function=_choice_by(lambda total, n, p: total / n),
            hint="A mean per word. The rule is gentler: it begins at 1 and grows "
            "slowly.",
            more="Where do 5, 6 and the penalty come in?",
        ),
        Mistake(
            name="the end token is not counted",
            function=_choice_by(lambda total, n, p: total / length_rule(n - 1, p)),
            hint="Your lengths are one too short.",
            more="The lengths given count every token that has a probability.",
        ),
        Mistake(
            name="multiplied",
            function=_choice_by(lambda total, n, p: total * length_rule(n, p)),
            hint="Long texts are punished a second time.",
            more="Log-probabilities lie below 0: what makes such a number better?",
        ),
        Mistake(
            name="the worst",
            function=_choice_by(lambda total, n, p: total / length_rule(n, p), min),
            hint="The values are right, and you took the one farthest from 0.",
            more="−1 is better than −2.",
        ),
        Mistake(
            name="the penalty is no power",
            function=_choice_by(lambda total, n, p: total / ((5 + n) / 6 * p)),
            hint="A factor is the same for short and long texts, so it chooses "
            "nothing.",
            more="With penalty 0 there should be no rule at all. Is that so in your "
            "version?",
        ),
        Mistake(
            name="the penalty is not used",
            function=_choice_by(lambda total, n, p: total / ((5 + n) / 6)),
            hint="Right for penalty 1. But your value is the same for every penalty.",
            more="With penalty 0 there should be no rule at all. Is that so in your "
            "version?",
        ),
        Mistake(
            name="the power is always 0.6",
            function=_choice_by(lambda total, n, p: total / length_rule(n, 0.6)),
            hint="0.6 is what `beam_search` takes unless told otherwise. What are you "
            "told?",
            more="The function has a third argument.",
        ),
        Mistake(
            name="the value before the division",
            function=_undivided,
            hint="The right text, but its value is the log-probability that you were "
            "given.",
            more="You compared different numbers from this one. Return the one that "
            "won.",
        ),
        Mistake(
            name="chosen before the division",
            function=_chosen_by_total,
            hint="You divide only the winner. The division has to come before the "
            "comparison.",
            more="One value for each text first. Then look for the largest.",
        ),
        Mistake(
            name="the length alone under the power",
            function=_choice_by(lambda total, n, p: total / n**p),
            hint="A power of the length, as some write it. The rule here is gentler.",
            more="Where do 5 and 6 come in?",
        ),
        Mistake(
            name="the 6 outside the power",
            function=_choice_by(lambda total, n, p: total / ((5 + n) ** p / 6)),
            hint="Right for penalty 1. Otherwise, your power applies to 5 + length "
            "alone.",
            more="Which comes first: the division by 6 or the power?",
        ),
        Mistake(
            name="only the 6 is raised to the power",
            function=_choice_by(lambda total, n, p: total / ((5 + n) / 6**p)),
            hint="Your penalty changes the 6 alone, not the length. What does Python "
            "compute first in a / b ** c?",
            more="A power is computed before a division. Which parentheses are "
            "missing?",
        ),
        Mistake(
            name="5 + length / 6",
            function=_choice_by(lambda total, n, p: total / (5 + n / 6) ** p),
            hint="For one word the rule divides by 1, your version by more. What does "
            "Python compute first in 5 + n / 6?",
            more="The sum of 5 and the length is divided by 6. Which parentheses are "
            "missing?",
        ),
    ),
    hint="One value for each text, then the largest. `length_rule` of the package is "
    "the divisor.",
)


EXERCISES = (BEAM, CHOICE)
