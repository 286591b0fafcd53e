"""An exercise of notebook 09: a batch with hidden words, and its labels.

Knows that padding is 0 and that the loss ignores -100. Knows nothing of how an answer
is run or shown.
"""

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from named_mistakes import Exercise, Mistake

Ids = Int64[Tensor, "b t"]


def hide(ids: Ids, chosen: Bool[Tensor, "b t"], mask_id: int) -> tuple[Ids, Ids]:
    """The ids with the chosen words hidden, and labels for these words only."""
    hidden = chosen & (ids != 0)
    inputs = ids.masked_fill(hidden, mask_id)
    labels = ids.masked_fill(~hidden, -100)
    return inputs, labels


def _cases(generator):
    """Padding is chosen too; rows without padding; nothing chosen; one row."""

    def one(lengths, size, mask_id, fraction):
        length = max(lengths)
        ids = torch.randint(3, size, (len(lengths), length), generator=generator)
        real = torch.arange(length) < torch.tensor(lengths)[:, None]
        chosen = torch.rand(ids.shape, generator=generator) < fraction
        return ids * real, chosen, mask_id

    padded, words, mask_id = one([4, 7, 2], 20, 20, 0.5)
    words[:, :2] = torch.tensor([True, False])
    words[2, 4:6] = True
    return [
        (padded, words, mask_id),
        one([6, 6], 30, 2, 0.5),
        one([5, 3], 12, 12, 0.0),
        one([3], 9, 40, 1.0),
    ]


def _with(ids, chosen, mask_id, **other):
    """The right inputs and labels, or others in their place."""
    inputs, labels = hide(ids, chosen, mask_id)
    return other.get("inputs", inputs), other.get("labels", labels)


MISTAKES = (
    Mistake(
        "every word has a label",
        lambda ids, chosen, mask_id: _with(ids, chosen, mask_id, labels=ids),
        "Most labels stand in plain sight in the inputs: copying them is the "
        "easiest way to a low loss.",
        "Which positions should the loss ignore, and which number says so?",
    ),
    Mistake(
        "every real word has a label",
        lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, labels=ids.masked_fill(ids == 0, -100)
        ),
        "Padding is ignored, but words that can be read in the inputs still count.",
        "Only a hidden word is a question. What should the label of a visible one be?",
    ),
    Mistake(
        "the hidden words are ignored",
        lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, labels=ids.masked_fill(chosen & (ids != 0), -100)
        ),
        "The loss would count the visible words and ignore those that were hidden.",
        "-100 says: do not count. Turn the mask of your labels round.",
    ),
    Mistake(
        "the visible words are asked for",
        lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, labels=ids.masked_fill(chosen | (ids == 0), -100)
        ),
        "Padding is ignored, and so are the hidden words. What is left can be read in "
        "the inputs.",
        "-100 says: do not count. Which words should count?",
    ),
    Mistake(
        "padding can be chosen",
        lambda ids, chosen, mask_id: (
            ids.masked_fill(chosen, mask_id),
            ids.masked_fill(~chosen, -100),
        ),
        "Where padding was chosen it turned into a hidden word, to be guessed as 0.",
        "A position is hidden if it was chosen *and* its id is not 0.",
    ),
    Mistake(
        "hidden padding in the inputs",
        lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, inputs=ids.masked_fill(chosen, mask_id)
        ),
        "Your labels leave padding out. Your inputs hide it, and it counts as a word.",
        "Use the same mask for the inputs as for the labels.",
    ),
    Mistake(
        "padding among the labels",
        lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, labels=ids.masked_fill(~chosen, -100)
        ),
        "Your inputs leave padding alone. Your labels ask for it where it was chosen.",
        "Use the same mask for the labels as for the inputs.",
    ),
    Mistake(
        "nothing is hidden",
        lambda ids, chosen, mask_id: _with(ids, chosen, mask_id, inputs=ids),
        "The labels are right, but each answer can be read in the inputs.",
        "Put mask_id where a word is to be guessed.",
    ),
    Mistake(
        "the labels are taken after hiding",
        lambda ids, chosen, mask_id: _with(
            ids,
            chosen,
            mask_id,
            labels=torch.full_like(ids, mask_id).where(chosen & (ids != 0), -100),
        ),
        "Every label is mask_id: the ids had been replaced before you copied them.",
        "Make a new tensor for the inputs; take the labels from the old ids.",
    ),
    Mistake(
        "0 in place of -100",
        lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, labels=ids * (chosen & (ids != 0))
        ),
        "0 is a class like any other: the model would be taught to answer padding.",
        "cross_entropy leaves out the labels that equal ignore_index, by default -100.",
    ),
    Mistake(
        "-100 in the inputs",
        lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, inputs=ids.masked_fill(chosen & (ids != 0), -100)
        ),
        "-100 is no row of an embedding table. It belongs to the labels.",
        "The inputs have a token of their own for a hidden word: mask_id.",
    ),
    Mistake(
        "the wrong words are hidden",
        lambda ids, chosen, mask_id: hide(ids, ~chosen, mask_id),
        "You hid the words that were not chosen, and kept those that were.",
        "`masked_fill` and `where` take their masks in opposite senses.",
    ),
    Mistake(
        "the labels come first",
        lambda ids, chosen, mask_id: hide(ids, chosen, mask_id)[::-1],
        "Both tensors are right, in the wrong order.",
        "Return the inputs, then the labels.",
    ),
)

HIDE = Exercise(
    "senses.hide",
    "Gives (inputs, labels), both “b t”, from ids “b t” and chosen, bool “b t”: chosen "
    "words become mask_id in the inputs and keep their id in the labels. All other "
    "labels are -100. Padding, the id 0, stays, even where it was chosen.",
    ("ids", "chosen", "mask_id"),
    hide,
    _cases,
    MISTAKES,
    "First find the positions to hide: chosen, and not padding. "
    "The inputs are the ids with mask_id at these positions. "
    "The labels are the ids with -100 at all other positions.",
)

EXERCISES = (HIDE,)
