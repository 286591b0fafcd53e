"""Exercises of notebook 18: advantages, the KL penalty, a reward without a hole.

Knows nothing of models or of how an answer is run or shown.
"""

import torch
from torch import Tensor

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

# --- advantages ----------------------------------------------------------------------


def advantages(rewards: Tensor) -> Tensor:
    """Each reward less its group's mean, over the group's standard deviation."""
    mean = rewards.mean(dim=1, keepdim=True)
    std = rewards.std(dim=1, keepdim=True, correction=0)
    return (rewards - mean) / (std + 1e-4)


def _rewards(generator):
    first, second = normal(generator, 3, 4), 3 + 2 * normal(generator, 2, 5)
    kind = torch.get_default_dtype()
    coins = torch.tensor([[1, 0, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1]], dtype=kind)
    return [(first,), (second,), (coins,)]


def _of(rewards, std, mean=None):
    mean = rewards.mean(dim=1, keepdim=True) if mean is None else mean
    return (rewards - mean) / std


def _sampled(rewards, least):
    return _of(rewards, rewards.std(dim=1, keepdim=True) + least)


ADVANTAGES = Exercise(
    name="after.advantages",
    statement="Gives for rewards “requests answers” how much better each answer is "
    "than its group: minus the mean, divided by the standard deviation plus 1e-4. So "
    "the unit of the rewards does not matter: points or per cent give the same.",
    takes=("rewards",),
    reference=advantages,
    cases=_rewards,
    mistakes=(
        Mistake(
            name="the mean of the whole batch",
            function=lambda rewards: _of(
                rewards,
                rewards.std(dim=1, keepdim=True, correction=0) + 1e-4,
                rewards.mean(),
            ),
            hint="You compare each answer with answers to other requests.",
            more="The mean belongs to a group, a row. Keep the axis.",
        ),
        Mistake(
            name="one group for all",
            function=lambda rewards: _of(
                rewards, rewards.std(correction=0) + 1e-4, rewards.mean()
            ),
            hint="You treat the whole batch as one group.",
            more="Mean and standard deviation of each row.",
        ),
        Mistake(
            name="one standard deviation for all",
            function=lambda rewards: _of(rewards, rewards.std(correction=0) + 1e-4),
            hint="The means are right. Your standard deviation is taken over all "
            "requests.",
            more="Each row has a standard deviation of its own.",
        ),
        Mistake(
            name="along the wrong axis",
            function=lambda rewards: advantages(rewards.T).T,
            hint="You compare answers with the same number, not answers to the same "
            "request.",
            more="A row is a request: reduce along its answers, dim=1.",
        ),
        Mistake(
            name="not divided",
            variant="Groups that nearly agree then weigh less, which some want.",
            function=lambda rewards: _of(rewards, 1),
            hint="The mean of each row is removed, but the rows still differ in scale.",
            more="Divide by the standard deviation of the row.",
        ),
        Mistake(
            name="no mean",
            function=lambda rewards: _of(
                rewards, rewards.std(dim=1, keepdim=True, correction=0) + 1e-4, 0
            ),
            hint="With rewards above 0 every answer would be pushed up.",
            more="Subtract the mean of the row first.",
        ),
        Mistake(
            name="the variance, not its root",
            function=lambda rewards: _of(
                rewards, rewards.var(dim=1, keepdim=True, correction=0) + 1e-4
            ),
            hint="You divide by the mean square, not by its root.",
            more="The standard deviation is the root of the variance.",
        ),
        Mistake(
            name="divided by n − 1",
            variant="Each step is a little smaller, by the same factor for all groups.",
            function=lambda rewards: _sampled(rewards, 1e-4),
            also=(lambda rewards: _sampled(rewards, 1e-6),),
            hint="Your standard deviation divides by n − 1, as `std` does by default.",
            more="You have all answers of the group: correction=0.",
        ),
        Mistake(
            name="1e-4 under the root",
            function=lambda rewards: _of(
                rewards,
                (rewards.var(dim=1, keepdim=True, correction=0) + 1e-4).sqrt(),
            ),
            hint="You add 1e-4 to the mean square, before the root: that adds up to "
            "0.01 to the standard deviation.",
            more="The root first, then 1e-4.",
        ),
        Mistake(
            name="1e-4 as a lower limit",
            function=lambda rewards: _of(
                rewards, rewards.std(dim=1, keepdim=True, correction=0).clamp(min=1e-4)
            ),
            hint="Your standard deviation is never below 1e-4. Here 1e-4 is *added* to "
            "it.",
            more="A plus, not a limit.",
        ),
        Mistake(
            name="nothing is added",
            function=lambda rewards: _of(
                rewards, rewards.std(dim=1, keepdim=True, correction=0)
            ),
            hint="A group of equal rewards gives nan.",
            more="Add 1e-4 to the standard deviation before you divide.",
        ),
    ),
    hint="The mean of each row, with keepdim=True. Its standard deviation, with "
    "correction=0. Add 1e-4 to that. Subtract, then divide.",
)


# --- the penalty ---------------------------------------------------------------------


def penalty(log_probs: Tensor, reference: Tensor) -> Tensor:
    """Schulman's estimate of the KL divergence: mean of exp(d) − d − 1."""
    log_ratio = reference - log_probs
    return (log_ratio.exp() - log_ratio - 1).mean()


def _pairs(generator):
    def one(rows, length, far):
        now = -normal(generator, rows, length).abs()
        return now, now + far * normal(generator, rows, length)

    return [one(3, 4, 1.0), one(2, 5, 0.3), one(1, 6, 2.0)]


PENALTY = Exercise(
    name="after.penalty",
    statement="Gives the mean of exp(d) − d − 1 over all drawn tokens, with d = "
    "reference − log_probs (both “n t”). It is 0 where the model has not moved, and "
    "positive wherever it has.",
    takes=("log_probs", "reference"),
    reference=penalty,
    cases=_pairs,
    mistakes=(
        Mistake(
            name="d is turned round",
            function=lambda log_probs, reference: penalty(reference, log_probs),
            hint="Your d is log_probs − reference.",
            more="d is what the old model gives, minus what the new one gives.",
        ),
        Mistake(
            name="the plain difference",
            function=lambda log_probs, reference: (log_probs - reference).mean(),
            hint="Yours can be negative: then moving away would be rewarded.",
            more="exp(d) − d − 1 is never below 0.",
        ),
        Mistake(
            name="the squared difference",
            function=lambda log_probs, reference: (
                (log_probs - reference).square().mean()
            ),
            hint="A square is twice as large for small steps, and far off for large "
            "ones.",
            more="Use the exponential in the formula.",
        ),
        Mistake(
            name="half the square",
            function=lambda log_probs, reference: (
                (log_probs - reference).square().mean() / 2
            ),
            hint="That is only the start of its series. For large steps it is far off.",
            more="Use the exponential in the formula.",
        ),
        Mistake(
            name="the sum",
            function=lambda log_probs, reference: (
                penalty(log_probs, reference) * log_probs.numel()
            ),
            hint="Yours grows with the number of tokens.",
            more="The mean over all tokens.",
        ),
        Mistake(
            name="a sum over the tokens of each answer",
            function=lambda log_probs, reference: (
                penalty(log_probs, reference) * log_probs.shape[-1]
            ),
            hint="You add up the tokens of an answer and average over the answers: "
            "long answers are held back more than short ones.",
            more="One mean, over all tokens alike.",
        ),
        Mistake(
            name="no minus one",
            function=lambda log_probs, reference: penalty(log_probs, reference) + 1,
            hint="Where nothing has moved yours is 1, not 0.",
            more="exp(0) is 1: subtract it.",
        ),
        Mistake(
            name="the exponential alone",
            function=lambda log_probs, reference: (
                (reference - log_probs).exp() - 1
            ).mean(),
            hint="The −d is missing, so yours falls below 0.",
            more="exp(d) − d − 1.",
        ),
        Mistake(
            name="a mean for each row",
            function=lambda log_probs, reference: (
                (reference - log_probs).exp() - (reference - log_probs) - 1
            ).mean(dim=-1),
            hint="You give a number for each row.",
            more="One number: the mean over all tokens.",
        ),
    ),
    hint="d is reference − log_probs. Then compute exp(d) − d − 1 for each token. "
    "Finally, take the mean.",
    trains=("log_probs",),
)


# --- a reward without a hole ---------------------------------------------------------


def reward(words: list[str], name: str) -> float:
    """1.0 for a first sentence of six words or more that has the name once."""
    if "." not in words:
        return 0.0
    first = words[: words.index(".")]
    return float(len(first) >= 6 and first.count(name) == 1)


def _texts(generator):
    texts = [
        "There once was a boy called Tim . Tim was happy .",
        "Once Tim was Tim was Tim was Tim . He was Tim",
        "Tim .",
        "There once was a girl called Mia . She met Tim .",
        "There once was a boy called Tim and he was Tim and Tim",
        "A boy called Tim .",
        "There lived a boy named Tim .",
        "A boy was called Tim .",
        ". There once was a boy called Tim .",
        "Tim lived in a house .",
        "There once was a boy called Tim",
        "There once was a good boy called Tim . He saw Tim and Tim .",
        "Tim . He saw a big dog and a cat .",
        "There once was a boy called Timmy .",
        "There once was a boy called tim .",
        "A boy and a boy : Tim .",
        "Once , long ago , Tim .",
    ]
    cases = [(text.split(), "Tim") for text in texts]
    return [*cases, (texts[0].split(), "Mia")]


def _first(words):
    return words[: words.index(".")] if "." in words else words


REWARD = Exercise(
    name="after.reward",
    statement="Gives 1.0 for the words of an answer whose first sentence, up to the "
    "first “.”, has the name exactly once and at least six words; else 0.0. A count of "
    "names would pay for repeating.",
    takes=("words", "name"),
    reference=reward,
    cases=_texts,
    mistakes=(
        Mistake(
            name="it counts the names",
            function=lambda words, name: float(words.count(name)),
            hint="“Tim was Tim was Tim” earns three from your function.",
            more="That is the loophole. Pay 1.0 or nothing.",
        ),
        Mistake(
            name="names may come again",
            function=lambda words, name: float(
                "." in words and len(_first(words)) >= 6 and name in _first(words)
            ),
            hint="A sentence that says the name four times gets your full reward.",
            more="Exactly once: count, and compare with 1.",
        ),
        Mistake(
            name="the whole answer is read",
            function=lambda words, name: float(
                "." in words and len(words) >= 6 and words.count(name) == 1
            ),
            hint="You look for the name in the whole answer.",
            more="Only the words before the first period are judged.",
        ),
        Mistake(
            name="short sentences pass",
            function=lambda words, name: float(
                "." in words and _first(words).count(name) == 1
            ),
            hint="“Tim .” gets your full reward: the shortest cheat.",
            more="Ask for at least six words before the period.",
        ),
        Mistake(
            name="it need not end",
            function=lambda words, name: float(
                len(_first(words)) >= 6 and _first(words).count(name) == 1
            ),
            hint="An answer without a period passes.",
            more="No period, no sentence: 0.0.",
        ),
        Mistake(
            name="the length of the whole answer counts",
            function=lambda words, name: float(
                "." in words and len(words) > 6 and _first(words).count(name) == 1
            ),
            hint="“Tim . He saw a big dog .” earns a full reward: the words after the "
            "period make up for those before it.",
            more="Keep the words before the first period, and count those.",
        ),
        Mistake(
            name="a longer word is taken for the name",
            function=lambda words, name: float(
                "." in words
                and len(_first(words)) >= 6
                and " ".join(_first(words)).count(name) == 1
            ),
            hint="Timmy is not Tim. You look for the letters, not for the word.",
            more="`words` is a list, and a list has a count, too.",
        ),
        Mistake(
            name="more than six words",
            function=lambda words, name: float(
                len(_first(words)) > 6 and reward(words, name)
            ),
            hint="A sentence of exactly six words gets nothing.",
            more="“At least” includes six.",
        ),
        Mistake(
            name="the period is counted as a word",
            function=lambda words, name: reward(["", *words], name),
            hint="A sentence of five words passes.",
            more="Count the words before the period, without it.",
        ),
    ),
    hint="Without a period the reward is 0.0. Keep the words before the first one. "
    "Count the name in them, and compare with 1. Ask for at least six words.",
)


EXERCISES = (ADVANTAGES, PENALTY, REWARD)
