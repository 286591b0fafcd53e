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


def next_token_loss(
    logits: Float[Tensor, "b t v"], ids: Int64[Tensor, "b t"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats: the logits at each place against the next id."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def _loss(logits, labels):
    return label_loss(logits, labels, 0.0)


def _log_of_softmax(logits, ids):
    probabilities = logits[:, :-1].softmax(dim=-1).gather(-1, ids[:, 1:, None])
    return -probabilities.log().mean()


NEXT = Exercise(
    name="backbone.next_token_loss",
    statement="Gives the mean loss in nats of logits “b t v” for ids “b t”: at each "
    "place the next id is the label. A tensor, since training starts from it.",
    takes=("logits", "ids"),
    reference=next_token_loss,
    cases=_read,
    mistakes=(
        Mistake(
            name="nothing is shifted",
            function=_loss,
            hint="Each logit is compared with the id of its own place: the token that "
            "was just read.",
            more="Which logits have no label? Which id is not the label of any "
            "position?",
        ),
        Mistake(
            name="nothing is shifted, and the last place left out",
            function=lambda logits, ids: _loss(logits[:, :-1], ids[:, :-1]),
            hint="Both are cut at the end, so the label is the token that was just "
            "read.",
            more="Logits lose their last place. Which place do the ids lose?",
        ),
        Mistake(
            name="nothing is shifted, and the first place left out",
            function=lambda logits, ids: _loss(logits[:, 1:], ids[:, 1:]),
            hint="Both are cut at the start, so the label is the token that was just "
            "read.",
            more="The ids lose their first place. Which place do the logits lose?",
        ),
        Mistake(
            name="divided by all places",
            function=lambda logits, ids: (
                _loss(logits[:, :-1], ids[:, 1:]) * ids[:, 1:].numel() / ids.numel()
            ),
            hint="The sum is right. You divide it by the number of ids.",
            more="How many labels does a row of five ids have?",
        ),
        Mistake(
            name="softmax, then the logarithm",
            function=_log_of_softmax,
            hint="Right for small logits. Where softmax gives 0, its logarithm is "
            "infinite.",
            more="`log_softmax` and `cross_entropy` do both in one step.",
        ),
        Mistake(
            name="shifted the wrong way",
            function=lambda logits, ids: _loss(logits[:, 1:], ids[:, :-1]),
            hint="You ask for the token *before*.",
            more="The logits at place 0 belong to which id?",
        ),
        Mistake(
            name="rolled: the first token follows the last",
            function=lambda logits, ids: _loss(logits, ids.roll(-1, dims=1)),
            hint="At the last place, your label is the first token of the row. Does it "
            "really come next?",
            more="The last place has no label: leave it out.",
        ),
        Mistake(
            name="softmax twice",
            function=lambda logits, ids: _loss(logits[:, :-1].softmax(-1), ids[:, 1:]),
            hint="`cross_entropy` takes logits and does the softmax by itself.",
            more="Hand over the logits as they are.",
        ),
        Mistake(
            name="the sum of all losses",
            function=lambda logits, ids: (
                _loss(logits[:, :-1], ids[:, 1:]) * ids[:, 1:].numel()
            ),
            hint="Twice the batch, twice the loss: whose learning rate survives that?",
            more="Divide by the number of labels.",
        ),
        Mistake(
            name="divided by the rows only",
            function=lambda logits, ids: (
                _loss(logits[:, :-1], ids[:, 1:]) * ids[:, 1:].shape[1]
            ),
            hint="That is the loss of a whole row. We want nats per *token*.",
            more="How many labels are there in a batch?",
        ),
        Mistake(
            name="the last place only",
            function=lambda logits, ids: _loss(logits[:, -2:-1], ids[:, -1:]),
            hint="You make one prediction per row. A causal model makes t − 1 of them "
            "at once.",
            more="All places but the last have a label.",
        ),
        Mistake(
            name="the axes renamed by a reshape",
            function=lambda logits, ids: F.cross_entropy(
                logits[:, :-1].reshape(len(ids), logits.shape[-1], -1), ids[:, 1:]
            ),
            hint="`cross_entropy` wants v as the second axis, and a reshape does not "
            "move an axis.",
            more="Flatten b and t into one axis, or transpose.",
        ),
        Mistake(
            name="bits for nats",
            function=lambda logits, ids: (
                _loss(logits[:, :-1], ids[:, 1:]) / math.log(2)
            ),
            hint="Every loss is too large by the same factor. Which unit does "
            "cross_entropy give?",
            more="There is nothing to convert: a natural logarithm gives nats.",
        ),
        Mistake(
            name="flattened before the shift",
            function=lambda logits, ids: _loss(
                logits.flatten(0, 1)[None, :-1], ids.flatten()[None, 1:]
            ),
            hint="Each row but the last has to predict how the next row begins.",
            more="Shift within the rows first, flatten afterwards.",
        ),
        Mistake(
            name="the classes are not on the second axis",
            function=lambda logits, ids: F.cross_entropy(logits[:, :-1], ids[:, 1:]),
            hint="`cross_entropy` looks for the v classes on axis 1, and finds "
            "positions.",
            more="Make “n v” of the logits and “n” of the labels: flatten b and t.",
            also=(lambda logits, ids: F.cross_entropy(logits, ids),),
        ),
    ),
    hint="First which logits and which ids belong together. Then one call, with b and "
    "t flattened into one axis.",
    trains=True,
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
    name="backbone.loss_by_position",
    statement="Gives “t”: the mean loss in nats at each position, for logits “b t v” "
    "and labels “b t” (already shifted). It shows where the grammar leaves a choice.",
    takes=("logits", "labels"),
    reference=loss_by_position,
    cases=_read,
    mistakes=(
        Mistake(
            name="one mean per row",
            function=lambda logits, labels: _each(logits, labels).mean(dim=1),
            hint="You averaged over the positions: one number per story.",
            more="Which axis should be left over?",
        ),
        Mistake(
            name="the first row only",
            function=lambda logits, labels: _each(logits[:1], labels[:1])[0],
            hint="One loss per position, but of a single row. What about the others?",
            more="A mean over the rows is wanted.",
        ),
        Mistake(
            name="divided by the number of positions",
            function=lambda logits, labels: (
                _each(logits, labels).sum(0) / labels.shape[1]
            ),
            hint="You add up over the rows. By how many numbers do you divide?",
            more="Which length is b, and which is t?",
        ),
        Mistake(
            name="no mean at all",
            function=_each,
            hint="Right losses, one per row and position. The rows are still apart.",
            more="Average over the axis that is not wanted.",
        ),
        Mistake(
            name="the mean up to each position",
            function=_up_to_each,
            hint="Only the first position is right. You also average over all "
            "positions so far.",
            more="The mean runs over the rows alone: each position keeps its own loss.",
        ),
        Mistake(
            name="one number for all",
            function=lambda logits, labels: _each(logits, labels).mean(),
            hint="cross_entropy averages over everything unless you tell it not to.",
            more="Look up `reduction`.",
        ),
        Mistake(
            name="the sum over rows",
            function=lambda logits, labels: _each(logits, labels).sum(dim=0),
            hint="Twice the batch, twice the loss.",
            more="A mean was asked for.",
        ),
        Mistake(
            name="softmax twice",
            function=lambda logits, labels: loss_by_position(
                logits.softmax(-1), labels
            ),
            hint="`cross_entropy` takes logits and does the softmax by itself.",
            more="Hand over the logits as they are.",
        ),
        Mistake(
            name="the axes renamed by a reshape",
            function=lambda logits, labels: F.cross_entropy(
                logits.reshape(len(labels), logits.shape[-1], -1),
                labels,
                reduction="none",
            ).mean(dim=0),
            hint="`cross_entropy` wants v as the second axis, and a reshape does not "
            "move an axis.",
            more="An axis moves by transpose, permute or rearrange.",
        ),
        Mistake(
            name="the logarithm of a mean",
            function=_log_of_the_mean,
            hint="You average probabilities and take the logarithm at the end. A loss "
            "is a mean of logarithms.",
            more="First −log of each probability, then the mean over the rows.",
        ),
        Mistake(
            name="softmax, then the logarithm",
            function=lambda logits, labels: (
                -logits.softmax(-1).gather(-1, labels[..., None])[..., 0].log().mean(0)
            ),
            hint="Right for small logits. Where softmax gives 0, its logarithm is "
            "infinite.",
            more="`log_softmax` and `cross_entropy` do both in one step.",
        ),
        Mistake(
            name="folded by the wrong length",
            function=_folded_wrongly,
            hint="The losses are right, and then they are laid out in rows of the "
            "wrong length.",
            more="What was flattened from b rows of t must be folded into b rows of t.",
        ),
        Mistake(
            name="shifted once more",
            function=lambda logits, labels: loss_by_position(
                logits[:, :-1], labels[:, 1:]
            ),
            hint="One position too few: logits and labels belong together as they "
            "come.",
            more="The labels are shifted already. Shift nothing here.",
        ),
        Mistake(
            name="the classes are not on the second axis",
            function=lambda logits, labels: F.cross_entropy(
                logits, labels, reduction="none"
            ).mean(0),
            hint="`cross_entropy` looks for the v classes on axis 1, and finds "
            "positions.",
            more="Exchange two axes of the logits before the call, by transpose.",
        ),
    ),
    hint="First the loss of every row and position, without any mean (`reduction`). "
    "Then average over the rows.",
)


EXERCISES = (NEXT, BY_POSITION)
