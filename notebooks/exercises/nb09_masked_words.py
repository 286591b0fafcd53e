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
        (padded, words, 7),  # two of three are as before, here and in the next two
        (padded, ~words, mask_id),
        (padded.flip(0), words, mask_id),
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
        name="every word has a label",
        function=lambda ids, chosen, mask_id: _with(ids, chosen, mask_id, labels=ids),
        hint="Most labels stand in plain sight in the inputs: copying them is the "
        "easiest way to a low loss.",
        more="Which positions should the loss ignore, and which number says so?",
    ),
    Mistake(
        name="every real word has a label",
        function=lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, labels=ids.masked_fill(ids == 0, -100)
        ),
        hint="Padding is ignored, but words that can be read in the inputs still "
        "count.",
        more="Only a hidden word is a question. What should the label of a visible one "
        "be?",
    ),
    Mistake(
        name="the hidden words are ignored",
        function=lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, labels=ids.masked_fill(chosen & (ids != 0), -100)
        ),
        hint="The loss would count the visible words and ignore those that were "
        "hidden.",
        more="-100 says: do not count. Turn the mask of your labels round.",
    ),
    Mistake(
        name="the visible words are asked for",
        function=lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, labels=ids.masked_fill(chosen | (ids == 0), -100)
        ),
        hint="Padding is ignored, and so are the hidden words. What is left can be "
        "read in the inputs.",
        more="-100 says: do not count. Which words should count?",
    ),
    Mistake(
        name="padding can be chosen",
        function=lambda ids, chosen, mask_id: (
            ids.masked_fill(chosen, mask_id),
            ids.masked_fill(~chosen, -100),
        ),
        hint="Where padding was chosen it turned into a hidden word, to be guessed as "
        "0.",
        more="A position is hidden if it was chosen *and* its id is not 0.",
    ),
    Mistake(
        name="hidden padding in the inputs",
        function=lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, inputs=ids.masked_fill(chosen, mask_id)
        ),
        hint="Your labels leave padding out. Your inputs hide it, and it counts as a "
        "word.",
        more="Use the same mask for the inputs as for the labels.",
    ),
    Mistake(
        name="padding among the labels",
        function=lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, labels=ids.masked_fill(~chosen, -100)
        ),
        hint="Your inputs leave padding alone. Your labels ask for it where it was "
        "chosen.",
        more="Use the same mask for the labels as for the inputs.",
    ),
    Mistake(
        name="nothing is hidden",
        function=lambda ids, chosen, mask_id: _with(ids, chosen, mask_id, inputs=ids),
        hint="The labels are right, but each answer can be read in the inputs.",
        more="Put mask_id where a word is to be guessed.",
    ),
    Mistake(
        name="the labels are taken after hiding",
        function=lambda ids, chosen, mask_id: _with(
            ids,
            chosen,
            mask_id,
            labels=torch.full_like(ids, mask_id).where(chosen & (ids != 0), -100),
        ),
        hint="Every label is mask_id: the ids had been replaced before you copied "
        "them.",
        more="Make a new tensor for the inputs; take the labels from the old ids.",
    ),
    Mistake(
        name="0 in place of -100",
        function=lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, labels=ids * (chosen & (ids != 0))
        ),
        hint="0 is a class like any other: the model would be taught to answer "
        "padding.",
        more="cross_entropy leaves out the labels that equal ignore_index, by default "
        "-100.",
    ),
    Mistake(
        name="-100 in the inputs",
        function=lambda ids, chosen, mask_id: _with(
            ids, chosen, mask_id, inputs=ids.masked_fill(chosen & (ids != 0), -100)
        ),
        hint="-100 is no row of an embedding table. It belongs to the labels.",
        more="The inputs have a token of their own for a hidden word: mask_id.",
    ),
    Mistake(
        name="the wrong words are hidden",
        function=lambda ids, chosen, mask_id: hide(ids, ~chosen, mask_id),
        hint="You hid the words that were not chosen, and kept those that were.",
        more="`masked_fill` and `where` take their masks in opposite senses.",
    ),
    Mistake(
        name="the labels come first",
        function=lambda ids, chosen, mask_id: hide(ids, chosen, mask_id)[::-1],
        hint="Both tensors are right, in the wrong order.",
        more="Return the inputs, then the labels.",
    ),
)

HIDE = Exercise(
    name="senses.hide",
    statement="Gives (inputs, labels), both “b t”, from ids “b t” and chosen, bool “b "
    "t”: chosen words become mask_id in the inputs and keep their id in the labels. "
    "All other labels are -100. Padding, the id 0, stays, even where it was chosen.",
    takes=("ids", "chosen", "mask_id"),
    reference=hide,
    cases=_cases,
    mistakes=MISTAKES,
    hint="First find the positions to hide: chosen, and not padding. The inputs are "
    "the ids with mask_id at these positions. The labels are the ids with -100 at all "
    "other positions.",
)

EXERCISES = (HIDE,)
