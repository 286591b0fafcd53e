"""An exercise of notebook 13: how surprised is a model?

Knows the shared loss. Knows nothing of how an answer is run or shown.
"""

from math import exp

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.checks import IGNORED
from course_utils.training.losses import label_loss
from named_mistakes import Exercise, Mistake


def perplexity(logits: Tensor, labels: Tensor) -> float:
    """e to the mean loss of the labels that count, for logits "b t v"."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten()).exp().item()


def perplexity_of_the_course(logits: Tensor, labels: Tensor) -> float:
    """e to the shared loss, for logits "b t v" and labels "b t"."""
    return exp(label_loss(logits, labels, 0.0).item())


def _guesses(generator):
    def one(b, t, v):
        draw = {"generator": generator, "dtype": torch.get_default_dtype()}
        logits = 2 * torch.randn(b, t, v, **draw)
        return logits, torch.randint(v, (b, t), generator=generator)

    padded, full = one(2, 7, 11), one(3, 1, 5)
    padded[1][0, 2:], padded[1][1, 0] = IGNORED, IGNORED
    return [padded, full]


def _each(logits, labels):
    """The loss at each place, 0 at padding, and where it counts."""
    losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return losses, labels != IGNORED


def _of_exponentials(logits, labels):
    losses, counts = _each(logits, labels)
    return losses[counts].exp().mean().item()


def _clamped(logits, labels):
    return perplexity(logits, labels.clamp(min=0))


def _by_sentence(logits, labels):
    losses, counts = _each(logits, labels)
    return (losses.sum(1) / counts.sum(1)).mean().exp().item()


def _perplexities_of_sentences(logits, labels):
    losses, counts = _each(logits, labels)
    return (losses.sum(1) / counts.sum(1)).exp().mean().item()


def _shifted(logits, labels):
    return perplexity(logits[:, :-1], labels[:, 1:])


PERPLEXITY = Exercise(
    name="training.perplexity",
    statement="Gives e to the mean loss, for logits “b t v” and labels “b t” (−100: "
    "padding): among so many equally likely tokens a model as unsure as this would "
    "choose.",
    takes=("logits", "labels"),
    reference=perplexity,
    cases=_guesses,
    mistakes=(
        Mistake(
            name="the mean of exponentials",
            function=_of_exponentials,
            hint="One very surprising token would count more than all others. What "
            "comes first, the mean or the power?",
            more="First the mean loss, one number. Then e to it.",
        ),
        Mistake(
            name="powers of two",
            function=lambda logits, labels: 2 ** label_loss(logits, labels, 0.0).item(),
            hint="PyTorch's losses are in nats. Which base goes with nats?",
            more="2 goes with bits: with nats goes the base of the natural logarithm.",
        ),
        Mistake(
            name="padding is counted",
            function=lambda logits, labels: (
                _each(logits, labels)[0].mean().exp().item()
            ),
            hint="Padding costs nothing and was counted in the mean: too good to be "
            "true.",
            more="Divide by the number of labels that are not −100.",
        ),
        Mistake(
            name="padding is taken for token 0",
            function=_clamped,
            hint="A label of −100 is no token. You ask how surprising token 0 would be "
            "there.",
            more="Leave those places out before the mean; do not give them another "
            "label.",
        ),
        Mistake(
            name="sentence by sentence",
            function=_by_sentence,
            hint="A short sentence has as much say as a long one. Should every token "
            "count the same?",
            more="One mean over all counted labels of the batch, not a mean of means.",
        ),
        Mistake(
            name="the mean of the sentences' perplexities",
            function=_perplexities_of_sentences,
            hint="You give every sentence a perplexity of its own. Which loss does the "
            "batch have?",
            more="One mean over all counted labels of the batch, then one power.",
        ),
        Mistake(
            name="labels shifted once more",
            function=_shifted,
            hint="You compare each place with the label of the next one. What do the "
            "labels of a batch hold already?",
            more="logits[:, t] and labels[:, t] belong together.",
        ),
        Mistake(
            name="softmax twice",
            function=lambda logits, labels: perplexity(logits.softmax(-1), labels),
            hint="You hand over probabilities. What does F.cross_entropy take?",
            more="F.cross_entropy does the softmax itself. Give it the logits.",
        ),
        Mistake(
            name="e to minus the loss",
            function=lambda logits, labels: 1 / perplexity(logits, labels),
            hint="Your result is below 1 and falls as the model gets less sure.",
            more="The loss is the mean of −ln p, so its minus sign is there already.",
        ),
        Mistake(
            name="the loss itself",
            function=lambda logits, labels: label_loss(logits, labels, 0.0).item(),
            hint="That is the loss in nats. A model with no idea among 10 words has "
            "perplexity 10: what does its loss become?",
            more="One step is missing: what undoes a logarithm?",
        ),
        Mistake(
            name="the sum for the mean",
            function=lambda logits, labels: _each(logits, labels)[0].sum().exp().item(),
            hint="A longer text would have a larger perplexity, whatever the model.",
            more="How many labels were counted? Divide before the power.",
        ),
    ),
    hint="F.cross_entropy leaves −100 out by itself. It wants one row per label.",
    shared=perplexity_of_the_course,
)


EXERCISES = (PERPLEXITY,)
