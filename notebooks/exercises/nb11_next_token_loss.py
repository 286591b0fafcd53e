"""Exercises of notebook 11: the loss on the next token, whole and by position.

Knows the shared loss. Knows nothing of how an answer is run or shown.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from course_utils.training.losses import label_loss
from named_mistakes import Exercise, Mistake


def _read(generator):
    """Logits "b t v", and ids of as many positions."""

    def one(batch, length, vocab):
        shape, dtype = (batch, length, vocab), torch.get_default_dtype()
        logits = 2 * torch.randn(shape, generator=generator, dtype=dtype)
        return logits, torch.randint(vocab, (batch, length), generator=generator)

    sure, ids = one(2, 4, 5)
    sure[:, -2:, :2] = torch.tensor([5.0, -5.0]).to(sure)
    ids[:, -1] = 1  # which a softmax gives exactly 0
    return [one(3, 5, 11), one(2, 7, 13), (400 * sure, ids), one(1, 6, 9)]


# --- the next token ----------------------------------------------------------------


def next_token_loss(logits: Float[Tensor, "b t v"], ids: Int64[Tensor, "b t"]) -> float:
    """Mean cross-entropy in nats: the logits at each place against the next id."""
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    return loss.item()


def _loss(logits, labels):
    return label_loss(logits, labels, 0.0).item()


def _log_of_softmax(logits, ids):
    probabilities = logits[:, :-1].softmax(dim=-1).gather(-1, ids[:, 1:, None])
    return -probabilities.log().mean().item()


NEXT = Exercise(
    "backbone.next_token_loss",
    "Gives the mean loss in nats of logits “b t v” for ids “b t”: at each place the "
    "next id is the label. This line decides what the model learns.",
    ("logits", "ids"),
    next_token_loss,
    _read,
    (
        Mistake(
            "nothing is shifted",
            _loss,
            "Each logit is compared with the id of its own place: the token that was "
            "just read.",
            "Which logits have no label? Which id is not the label of any position?",
        ),
        Mistake(
            "nothing is shifted, and the last place left out",
            lambda logits, ids: _loss(logits[:, :-1], ids[:, :-1]),
            "Both are cut at the end, so the label is the token that was just read.",
            "Logits lose their last place. Which place do the ids lose?",
        ),
        Mistake(
            "nothing is shifted, and the first place left out",
            lambda logits, ids: _loss(logits[:, 1:], ids[:, 1:]),
            "Both are cut at the start, so the label is the token that was just read.",
            "The ids lose their first place. Which place do the logits lose?",
        ),
        Mistake(
            "divided by all places",
            lambda logits, ids: (
                _loss(logits[:, :-1], ids[:, 1:]) * ids[:, 1:].numel() / ids.numel()
            ),
            "The sum is right. You divide it by the number of ids.",
            "How many labels does a row of five ids have?",
        ),
        Mistake(
            "softmax, then the logarithm",
            _log_of_softmax,
            "Right for small logits. Where softmax gives 0, its logarithm is infinite.",
            "`log_softmax` and `cross_entropy` do both in one step.",
        ),
        Mistake(
            "shifted the wrong way",
            lambda logits, ids: _loss(logits[:, 1:], ids[:, :-1]),
            "You ask for the token *before*.",
            "The logits at place 0 belong to which id?",
        ),
        Mistake(
            "rolled: the first token follows the last",
            lambda logits, ids: _loss(logits, ids.roll(-1, dims=1)),
            "At the last place, your label is the first token of the row. Does it "
            "really come next?",
            "The last place has no label: leave it out.",
        ),
        Mistake(
            "softmax twice",
            lambda logits, ids: _loss(logits[:, :-1].softmax(-1), ids[:, 1:]),
            "`cross_entropy` takes logits and does the softmax by itself.",
            "Hand over the logits as they are.",
        ),
        Mistake(
            "the sum of all losses",
            lambda logits, ids: _loss(logits[:, :-1], ids[:, 1:]) * ids[:, 1:].numel(),
            "Twice the batch, twice the loss: whose learning rate survives that?",
            "Divide by the number of labels.",
        ),
        Mistake(
            "divided by the rows only",
            lambda logits, ids: _loss(logits[:, :-1], ids[:, 1:]) * ids[:, 1:].shape[1],
            "That is the loss of a whole row. We want nats per *token*.",
            "How many labels are there in a batch?",
        ),
        Mistake(
            "the last place only",
            lambda logits, ids: _loss(logits[:, -2:-1], ids[:, -1:]),
            "You make one prediction per row. A causal model makes t − 1 of them at "
            "once.",
            "All places but the last have a label.",
        ),
        Mistake(
            "the axes renamed by a reshape",
            lambda logits, ids: F.cross_entropy(
                logits[:, :-1].reshape(len(ids), logits.shape[-1], -1), ids[:, 1:]
            ).item(),
            "`cross_entropy` wants v as the second axis, and a reshape does not move "
            "an axis.",
            "Flatten b and t into one axis, or transpose.",
        ),
        Mistake(
            "bits for nats",
            lambda logits, ids: _loss(logits[:, :-1], ids[:, 1:]) / math.log(2),
            "Every loss is too large by the same factor. Which unit does "
            "cross_entropy give?",
            "There is nothing to convert: a natural logarithm gives nats.",
        ),
        Mistake(
            "flattened before the shift",
            lambda logits, ids: _loss(
                logits.flatten(0, 1)[None, :-1], ids.flatten()[None, 1:]
            ),
            "Each row but the last has to predict how the next row begins.",
            "Shift within the rows first, flatten afterwards.",
        ),
        Mistake(
            "the classes are not on the second axis",
            lambda logits, ids: F.cross_entropy(logits[:, :-1], ids[:, 1:]).item(),
            "`cross_entropy` looks for the v classes on axis 1, and finds positions.",
            "Make “n v” of the logits and “n” of the labels: flatten b and t.",
            (lambda logits, ids: F.cross_entropy(logits, ids).item(),),
        ),
    ),
    "First which logits and which ids belong together. Then one call, with b and t "
    "flattened into one axis.",
)


# --- by position -------------------------------------------------------------------


def loss_by_position(
    logits: Float[Tensor, "b t v"], labels: Int64[Tensor, "b t"]
) -> Float[Tensor, "t"]:
    """Mean cross-entropy in nats at each position, over the rows of the batch."""
    each = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return each.mean(dim=0)


def _each(logits, labels):
    return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")


def _up_to_each(logits, labels):
    losses = _each(logits, labels).mean(dim=0)
    return losses.cumsum(0) / torch.arange(1, len(losses) + 1)


def _folded_wrongly(logits, labels):
    batch, length = labels.shape
    return _each(logits, labels).reshape(length, batch).mean(dim=1)


def _log_of_the_mean(logits, labels):
    probabilities = logits.softmax(dim=-1).gather(-1, labels[..., None])
    return -probabilities[..., 0].mean(dim=0).log()


BY_POSITION = Exercise(
    "backbone.loss_by_position",
    "Gives “t”: the mean loss in nats at each position, for logits “b t v” and labels "
    "“b t” (already shifted). It shows where the grammar leaves a choice.",
    ("logits", "labels"),
    loss_by_position,
    _read,
    (
        Mistake(
            "one mean per row",
            lambda logits, labels: _each(logits, labels).mean(dim=1),
            "You averaged over the positions: one number per story.",
            "Which axis should be left over?",
        ),
        Mistake(
            "the first row only",
            lambda logits, labels: _each(logits[:1], labels[:1])[0],
            "One loss per position, but of a single row. What about the others?",
            "A mean over the rows is wanted.",
        ),
        Mistake(
            "divided by the number of positions",
            lambda logits, labels: _each(logits, labels).sum(0) / labels.shape[1],
            "You add up over the rows. By how many numbers do you divide?",
            "Which length is b, and which is t?",
        ),
        Mistake(
            "no mean at all",
            _each,
            "Right losses, one per row and position. The rows are still apart.",
            "Average over the axis that is not wanted.",
        ),
        Mistake(
            "the mean up to each position",
            _up_to_each,
            "Only the first position is right. You also average over all positions so "
            "far.",
            "The mean runs over the rows alone: each position keeps its own loss.",
        ),
        Mistake(
            "one number for all",
            lambda logits, labels: _each(logits, labels).mean(),
            "cross_entropy averages over everything unless you tell it not to.",
            "Look up `reduction`.",
        ),
        Mistake(
            "the sum over rows",
            lambda logits, labels: _each(logits, labels).sum(dim=0),
            "Twice the batch, twice the loss.",
            "A mean was asked for.",
        ),
        Mistake(
            "softmax twice",
            lambda logits, labels: loss_by_position(logits.softmax(-1), labels),
            "`cross_entropy` takes logits and does the softmax by itself.",
            "Hand over the logits as they are.",
        ),
        Mistake(
            "the axes renamed by a reshape",
            lambda logits, labels: F.cross_entropy(
                logits.reshape(len(labels), logits.shape[-1], -1),
                labels,
                reduction="none",
            ).mean(dim=0),
            "`cross_entropy` wants v as the second axis, and a reshape does not move "
            "an axis.",
            "An axis moves by transpose, permute or rearrange.",
        ),
        Mistake(
            "the logarithm of a mean",
            _log_of_the_mean,
            "You average probabilities and take the logarithm at the end. A loss is a "
            "mean of logarithms.",
            "First −log of each probability, then the mean over the rows.",
        ),
        Mistake(
            "softmax, then the logarithm",
            lambda logits, labels: (
                -logits.softmax(-1).gather(-1, labels[..., None])[..., 0].log().mean(0)
            ),
            "Right for small logits. Where softmax gives 0, its logarithm is infinite.",
            "`log_softmax` and `cross_entropy` do both in one step.",
        ),
        Mistake(
            "folded by the wrong length",
            _folded_wrongly,
            "The losses are right, and then they are laid out in rows of the wrong "
            "length.",
            "What was flattened from b rows of t must be folded into b rows of t.",
        ),
        Mistake(
            "shifted once more",
            lambda logits, labels: loss_by_position(logits[:, :-1], labels[:, 1:]),
            "One position too few: logits and labels belong together as they come.",
            "The labels are shifted already. Shift nothing here.",
        ),
        Mistake(
            "the classes are not on the second axis",
            lambda logits, labels: F.cross_entropy(
                logits, labels, reduction="none"
            ).mean(0),
            "`cross_entropy` looks for the v classes on axis 1, and finds positions.",
            "Exchange two axes of the logits before the call, by transpose.",
        ),
    ),
    "First the loss of every row and position, without any mean (`reduction`). Then "
    "average over the rows.",
)


EXERCISES = (NEXT, BY_POSITION)
