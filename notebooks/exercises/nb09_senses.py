"""Exercises of notebook 09: pick a word, average the real ones.

Knows the shared classifier. Knows nothing of how an answer is run or shown.
"""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional as F

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

# --- pick --------------------------------------------------------------------------


def pick(
    vectors: Float[Tensor, "b t m"], positions: Int64[Tensor, "b"]
) -> Float[Tensor, "b m"]:
    """The vector of each row at that row's own position."""
    return vectors[torch.arange(len(vectors)), positions]


def _largest_of_the_masked(vectors, positions):
    chosen = F.one_hot(positions, vectors.shape[1])[:, :, None]
    return (vectors * chosen).amax(dim=1)


def _rows_too_short(vectors, positions):
    """Reads the flat list of all words as if a row had b places, not t."""
    starts = torch.arange(len(vectors)) * len(vectors)
    return vectors.flatten(0, 1)[starts + positions]


def _places(generator):
    long, short = normal(generator, 3, 5, 7), normal(generator, 2, 4, 6)
    single = normal(generator, 1, 3, 4)
    return [
        (long, torch.tensor([1, 3, 2])),
        (short, torch.tensor([0, 2])),
        (single, torch.tensor([1])),
    ]


PICK = Exercise(
    name="senses.pick",
    statement="Gives “b m”: of vectors “b t m” the one at positions “b”, another place "
    "in each row. A head for one word reads nothing else.",
    takes=("vectors", "positions"),
    reference=pick,
    cases=_places,
    mistakes=(
        Mistake(
            name="every row at every position",
            function=lambda vectors, positions: vectors[:, positions],
            hint="A colon takes all rows, so each row is read at the positions of all "
            "others as well.",
            more="Two lists of indices are read in pairs. Which list belongs where "
            "your colon is?",
        ),
        Mistake(
            name="the mean over the positions of all rows",
            function=lambda vectors, positions: vectors[:, positions].mean(dim=1),
            hint="A colon takes all rows at all positions, and the mean hides this "
            "behind the right shape.",
            more="Nothing should be averaged. Which list of rows goes with the list of "
            "positions?",
        ),
        Mistake(
            name="the same position in every row",
            function=lambda vectors, positions: vectors[:, positions[0]],
            hint="The first sentence is read where it should be. What about the "
            "others?",
            more="positions has one entry per row; you use one of them.",
        ),
        Mistake(
            name="all from the first row",
            function=lambda vectors, positions: vectors[0, positions],
            hint="The positions are right, but all of them are read in the first "
            "sentence.",
            more="positions has one entry per row. Give the numbers of the rows as "
            "well.",
        ),
        Mistake(
            name="the word before",
            function=lambda vectors, positions: pick(vectors, positions - 1),
            hint="Off by one: you read the left neighbor.",
            more="Positions count from 0, as Python does.",
        ),
        Mistake(
            name="the word after",
            function=lambda vectors, positions: pick(vectors, positions + 1),
            hint="Off by one: you read the right neighbor.",
            more="Positions count from 0, as Python does.",
        ),
        Mistake(
            name="flat, with rows of b places",
            function=_rows_too_short,
            hint="Row 0 is right. In your flat list of all words, how many places lie "
            "between the beginnings of two rows?",
            more="“b t m” becomes “(b t) m”. Which of b and t is the length of a row?",
        ),
        Mistake(
            name="the start of the row",
            function=lambda vectors, positions: vectors[:, 0],
            hint="You read every row at its first place, whatever positions says.",
            more="positions says where to read. You do not use it.",
        ),
        Mistake(
            name="the end of the row",
            function=lambda vectors, positions: vectors[:, -1],
            hint="That is where a causal model answers, and here it may be padding.",
            more="positions says where to read. You do not use it.",
        ),
        Mistake(
            name="one number instead of a vector",
            function=lambda vectors, positions: vectors.gather(
                1, positions[:, None, None]
            )[:, 0],
            hint="The right place, but only its first column came along.",
            more="The result of `gather` has the shape of its index. How wide must the "
            "index be?",
        ),
        Mistake(
            name="the largest of a number and zeros",
            function=_largest_of_the_masked,
            hint="You set all other places to 0 and take the largest number. What "
            "happens to a number below 0?",
            more="Which function keeps a number that stands among zeros, whatever its "
            "sign?",
        ),
    ),
    hint="Take one row by hand: vectors[0, positions[0]]. For all rows, give two lists "
    "of indices of the same length.",
    trains=True,
)


# --- pool --------------------------------------------------------------------------


def pool(
    vectors: Float[Tensor, "b t m"], real: Bool[Tensor, "b t"]
) -> Float[Tensor, "b m"]:
    """The mean of the vectors of real words, for each row."""
    real = real[:, :, None]
    return (vectors * real).sum(1) / real.sum(1)


def _padded(generator):
    real = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1], [1, 0, 0, 0, 0]]).bool()
    zeros = normal(generator, 2, 4, 6)
    zeros[0, 1] = 0  # a real word may have the number 0
    return [
        (normal(generator, 3, 5, 7), real),
        (zeros, real[:2, :4]),
        (normal(generator, 1, 5, 4), real[1:2]),
    ]


POOL = Exercise(
    name="senses.pool",
    statement="Gives “b m”: the mean of vectors “b t m” over the real words, bool “b "
    "t”. A sentence must not change with the company in its batch.",
    takes=("vectors", "real"),
    reference=pool,
    cases=_padded,
    mistakes=(
        Mistake(
            name="padding is counted",
            function=lambda vectors, real: vectors.mean(1),
            hint="This is the colleague's mean: padded positions have vectors too.",
            more="Two things must leave them out: the sum, and the number you divide "
            "by.",
        ),
        Mistake(
            name="padding is zero and still counted",
            function=lambda vectors, real: (vectors * real[:, :, None]).mean(1),
            hint="The sum is right. By how many words do you divide it?",
            more="A sentence of 2 words in a row of 5 is divided by 5. Count each row.",
        ),
        Mistake(
            name="padding is in the sum, but not counted",
            function=lambda vectors, real: vectors.sum(1) / real.sum(1)[:, None],
            hint="You divide by the right number. What have you added up?",
            more="The vectors of padded positions are not 0 by themselves.",
        ),
        Mistake(
            name="the first places of each row",
            function=lambda vectors, real: torch.stack(
                [row[:n].mean(0) for row, n in zip(vectors, real.sum(1), strict=True)]
            ),
            hint="You count the real words correctly, but then take that many from the "
            "start. Padding may come first.",
            more="Which places are real? The mask says more than how many there are.",
        ),
        Mistake(
            name="divided by the words of the whole batch",
            function=lambda vectors, real: (
                (vectors * real[:, :, None]).sum(1) / real.sum()
            ),
            hint="Each row has its own length. You use that of all rows together.",
            more="Along which axis do you count? One number per row should remain.",
        ),
        Mistake(
            name="divided by the mean number of words",
            function=lambda vectors, real: (
                (vectors * real[:, :, None]).sum(1) * len(real) / real.sum()
            ),
            hint="Right if all rows are equally long. You divide each by the mean "
            "length.",
            more="Along which axis do you count? One number per row should be left.",
        ),
        Mistake(
            name="the sum, not the mean",
            function=lambda vectors, real: (vectors * real[:, :, None]).sum(1),
            hint="Long sentences get long vectors: a division is still missing.",
            more="Count the real words of each row, and keep an axis for m.",
        ),
        Mistake(
            name="the largest, not the mean",
            function=lambda vectors, real: vectors.masked_fill(
                ~real[:, :, None], -torch.inf
            ).amax(1),
            hint="Padding is left out, but a maximum keeps one word per column.",
            more="All real words should have an equal say.",
        ),
        Mistake(
            name="one mean for the whole batch",
            function=lambda vectors, real: vectors[real].mean(0),
            hint="Indexing with a mask puts the real words of all rows into one list.",
            more="Keep the rows apart: multiply by the mask instead of indexing with "
            "it.",
        ),
        Mistake(
            name="the mean of the padding",
            function=lambda vectors, real: pool(vectors, ~real),
            hint="You kept what is not a word. True means: real.",
            more="The mask is turned around somewhere.",
        ),
    ),
    hint="First make the padded vectors 0 and add up along t. Then count the real "
    "words of each row, and divide.",
    trains=True,
)


# --- a prediction ------------------------------------------------------------------


def causal_share() -> float:
    """Before the clue has come, both senses are equally likely: one guess in two."""
    return 1 / 2


CAUSAL = Exercise(
    name="senses.causal_share",
    statement="Wants a number from 0 to 1 (within 0.05): how often a causal model is "
    "right where the clue stands on the right of the word and both senses are equally "
    "frequent.",
    takes=(),
    reference=causal_share,
    cases=lambda generator: [()],
    mistakes=(
        Mistake(
            name="never",
            function=lambda: 0.0,
            hint="To always be wrong, you have to know the answer too.",
            more="It sees the word itself, and how many senses does a word have?",
        ),
        Mistake(
            name="always",
            function=lambda: 1.0,
            hint="That is the encoder, which sees both sides.",
            more="Which words has a causal model read when it computes this vector?",
        ),
        Mistake(
            name="nearly always",
            function=lambda: 0.97,
            hint="Then the mask would take next to nothing away. Where does the clue "
            "stand here, and who may look there?",
            more="Which words has a causal model read when it computes this vector?",
        ),
        Mistake(
            name="a guess among all classes",
            function=lambda: 1 / 48,
            hint="It does see which word is asked about. Most of the 48 classes are "
            "ruled out.",
            more="How many senses are left once the word is known?",
        ),
        Mistake(
            name="the mean of both sides",
            function=lambda: 0.75,
            hint="Left and right together would give about that. The question is about "
            "the right.",
            more="Keep only sentences whose clue comes later. What remains to go by?",
        ),
        Mistake(
            name="one in three",
            function=lambda: 1 / 3,
            hint="How many senses does the word have? Chance chooses only among those.",
            more="Clue on the left, on the right, or none are kinds of sentences, not "
            "senses.",
        ),
        Mistake(
            name="a percentage",
            function=lambda: 50,
            hint="You give a number of sentences in a hundred. Which share of all "
            "sentences is that?",
            more="A share lies between 0 and 1.",
        ),
    ),
    hint="List what the model has read up to the word. Which part of it tells the "
    "senses apart?",
    predicts=True,
    tolerance=0.05,
)


EXERCISES = (PICK, POOL, CAUSAL)
