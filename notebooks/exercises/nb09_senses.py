"""Exercises of notebook 09: pick a word, average the real ones, find the clue.

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
    "senses.pick",
    "Gives “b m”: of vectors “b t m” the one at positions “b”, another place in each "
    "row. A head for one word reads nothing else.",
    ("vectors", "positions"),
    pick,
    _places,
    (
        Mistake(
            "every row at every position",
            lambda vectors, positions: vectors[:, positions],
            "A colon takes all rows, so each row is read at the positions of all "
            "others as well.",
            "Two lists of indices are read in pairs. Which list belongs where your "
            "colon is?",
        ),
        Mistake(
            "the mean over the positions of all rows",
            lambda vectors, positions: vectors[:, positions].mean(dim=1),
            "A colon takes all rows at all positions, and the mean hides this behind "
            "the right shape.",
            "Nothing should be averaged. Which list of rows goes with the list of "
            "positions?",
        ),
        Mistake(
            "the same position in every row",
            lambda vectors, positions: vectors[:, positions[0]],
            "The first sentence is read where it should be. What about the others?",
            "positions has one entry per row; you use one of them.",
        ),
        Mistake(
            "all from the first row",
            lambda vectors, positions: vectors[0, positions],
            "The positions are right, but all of them are read in the first sentence.",
            "positions has one entry per row. Give the numbers of the rows as well.",
        ),
        Mistake(
            "the word before",
            lambda vectors, positions: pick(vectors, positions - 1),
            "Off by one: you read the left neighbor.",
            "Positions count from 0, as Python does.",
        ),
        Mistake(
            "the word after",
            lambda vectors, positions: pick(vectors, positions + 1),
            "Off by one: you read the right neighbor.",
            "Positions count from 0, as Python does.",
        ),
        Mistake(
            "flat, with rows of b places",
            _rows_too_short,
            "Row 0 is right. In your flat list of all words, how many places lie "
            "between the beginnings of two rows?",
            "“b t m” becomes “(b t) m”. Which of b and t is the length of a row?",
        ),
        Mistake(
            "the start of the row",
            lambda vectors, positions: vectors[:, 0],
            "You read every row at its first place, whatever positions says.",
            "positions says where to read. You do not use it.",
        ),
        Mistake(
            "the end of the row",
            lambda vectors, positions: vectors[:, -1],
            "That is where a causal model answers, and here it may be padding.",
            "positions says where to read. You do not use it.",
        ),
        Mistake(
            "one number instead of a vector",
            lambda vectors, positions: vectors.gather(1, positions[:, None, None])[
                :, 0
            ],
            "The right place, but only its first column came along.",
            "The result of `gather` has the shape of its index. How wide must the "
            "index be?",
        ),
        Mistake(
            "the largest of a number and zeros",
            _largest_of_the_masked,
            "You set all other places to 0 and take the largest number. What happens "
            "to a number below 0?",
            "Which function keeps a number that stands among zeros, whatever its sign?",
        ),
    ),
    "Take one row by hand: vectors[0, positions[0]]. For all rows, give two lists of "
    "indices of the same length.",
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
    "senses.pool",
    "Gives “b m”: the mean of vectors “b t m” over the real words, bool “b t”. A "
    "sentence must not change with the company in its batch.",
    ("vectors", "real"),
    pool,
    _padded,
    (
        Mistake(
            "padding is counted",
            lambda vectors, real: vectors.mean(1),
            "This is the colleague's mean: padded positions have vectors too.",
            "Two things must leave them out: the sum, and the number you divide by.",
        ),
        Mistake(
            "padding is zero and still counted",
            lambda vectors, real: (vectors * real[:, :, None]).mean(1),
            "The sum is right. By how many words do you divide it?",
            "A sentence of 2 words in a row of 5 is divided by 5. Count each row.",
        ),
        Mistake(
            "padding is in the sum, but not counted",
            lambda vectors, real: vectors.sum(1) / real.sum(1)[:, None],
            "You divide by the right number. What have you added up?",
            "The vectors of padded positions are not 0 by themselves.",
        ),
        Mistake(
            "the first places of each row",
            lambda vectors, real: torch.stack(
                [row[:n].mean(0) for row, n in zip(vectors, real.sum(1), strict=True)]
            ),
            "You count the real words correctly, but then take that many from the "
            "start. Padding may come first.",
            "Which places are real? The mask says more than how many there are.",
        ),
        Mistake(
            "divided by the words of the whole batch",
            lambda vectors, real: (vectors * real[:, :, None]).sum(1) / real.sum(),
            "Each row has its own length. You use that of all rows together.",
            "Along which axis do you count? One number per row should remain.",
        ),
        Mistake(
            "divided by the mean number of words",
            lambda vectors, real: (
                (vectors * real[:, :, None]).sum(1) * len(real) / real.sum()
            ),
            "Right if all rows are equally long. You divide each by the mean length.",
            "Along which axis do you count? One number per row should be left.",
        ),
        Mistake(
            "the sum, not the mean",
            lambda vectors, real: (vectors * real[:, :, None]).sum(1),
            "Long sentences get long vectors: a division is still missing.",
            "Count the real words of each row, and keep an axis for m.",
        ),
        Mistake(
            "the largest, not the mean",
            lambda vectors, real: vectors.masked_fill(
                ~real[:, :, None], -torch.inf
            ).amax(1),
            "Padding is left out, but a maximum keeps one word per column.",
            "All real words should have an equal say.",
        ),
        Mistake(
            "one mean for the whole batch",
            lambda vectors, real: vectors[real].mean(0),
            "Indexing with a mask puts the real words of all rows into one list.",
            "Keep the rows apart: multiply by the mask instead of indexing with it.",
        ),
        Mistake(
            "the mean of the padding",
            lambda vectors, real: pool(vectors, ~real),
            "You kept what is not a word. True means: real.",
            "The mask is turned around somewhere.",
        ),
    ),
    "First make the padded vectors 0 and add up along t. Then count the real words of "
    "each row, and divide.",
    trains=True,
)


# --- strongest clue ----------------------------------------------------------------


def strongest_clue(weights: Float[Tensor, "h q k"], position: int) -> int:
    """The key position that gets most of this query's weight, averaged over heads."""
    return weights[:, position].mean(0).argmax().item()


def _by_votes(weights, position):
    favorites = weights[:, position].argmax(dim=-1)
    return favorites.bincount(minlength=weights.shape[-1]).argmax()


def _not_itself(weights, position):
    row = weights[:, position].mean(dim=0)
    others = torch.arange(len(row)) != position
    return row.where(others, -1.0).argmax()


MISREAD = (
    Mistake(
        "column for row",
        lambda weights, position: weights[:, :, position].mean(0).argmax(),
        "You found the word that looks at *it* most. Who looks, who is looked at?",
        "“h q k”: the one who looks is q.",
    ),
    Mistake(
        "the first head only",
        lambda weights, position: weights[0, position].argmax(),
        "One head has spoken. What do the others say?",
        "Average the heads before you choose.",
    ),
    Mistake(
        "the last head only",
        lambda weights, position: weights[-1, position].argmax(),
        "Only the last head is asked. What do the others say?",
        "Average the heads before you choose.",
    ),
    Mistake(
        "only the words up to this one",
        lambda weights, position: weights[:, position, : position + 1].mean(0).argmax(),
        "You look at the word and what stands before it. May a clue come later?",
        "The row of the word has an entry for each position, on both sides.",
    ),
    Mistake(
        "the strongest single head decides",
        lambda weights, position: weights[:, position].amax(0).argmax(),
        "One head with a large weight outvotes all others. An average was asked for.",
        "amax over the heads keeps the largest; what gives each head the same say?",
    ),
    Mistake(
        "counted through all heads",
        lambda weights, position: weights[:, position].argmax(),
        "Without dim, argmax numbers the entries of all heads in one long row.",
        "Get rid of the axis h first. Then argmax counts keys.",
    ),
    Mistake(
        "one answer per head",
        lambda weights, position: weights[:, position].argmax(-1),
        "Each head names its own favorite. One word is wanted.",
        "First average the heads, then choose.",
    ),
    Mistake(
        "averaged over all who look",
        lambda weights, position: weights.mean((0, 1)).argmax(),
        "This is everybody's favorite word. Which row did we ask for?",
        "Pick the query before you average.",
    ),
    Mistake(
        "the word itself is left out",
        _not_itself,
        "A word may look at itself most. You took that answer away.",
        "The row of the word has an entry for each position, its own too.",
    ),
    Mistake(
        "each head has one vote",
        _by_votes,
        "Each head names its favorite, and you count. A head that hardly cares gets "
        "as much say as one that is sure.",
        "Average the weights before you choose.",
    ),
    Mistake(
        "the head with the number of the word",
        lambda weights, position: weights[position].mean(0).argmax(),
        "The first axis is not the query: position chose a head.",
        "“h q k”: write a colon for the heads, then the position.",
    ),
)


def _maps(generator):
    """Each way of misreading these maps leads to another word."""

    def one(heads, length, position):
        scores = 0.1 * normal(generator, heads, length, length)
        others = torch.randperm(length - 1, generator=generator)[:5]
        meant, first, loud, looker, loved = (others + (others >= position)).tolist()
        scores[..., loved] += 2.5
        scores[:, looker, position] += 4
        scores[:, position, loved] -= 2.5
        scores[2:, position, meant] += 3
        scores[0, position, [first, meant]] += torch.tensor([2, 1.5]).to(scores)
        scores[1, position, loud] += 6
        return scores.softmax(dim=-1), position

    own = 0.1 * normal(generator, 3, 5, 5)
    own[:, 3, 3] += 4  # the word looks at itself most
    outvoted = [[0.4, 0.35, 0.25], [0.4, 0.35, 0.25], [0.05, 0.9, 0.05]]
    no_median = [[0.04, 0.8, 0.1, 0.06], [0.0, 0.3, 0.4, 0.3], [0.0, 0.15, 0.4, 0.45]]
    late = [[0.07, 0.01, 0.3, 0.62], [0.07, 0.01, 0.3, 0.62], [0.25, 0.25, 0.5, 0.0]]
    steady = [[0.85, 0.05, 0.0, 0.1], [0.0, 0.3, 0.3, 0.4], [0.0, 0.3, 0.3, 0.4]]

    def by_hand(rows):
        weights = torch.tensor(rows).to(own)
        return weights[:, None].repeat(1, weights.shape[1], 1)

    return [
        one(4, 7, 2),
        one(5, 6, 4),
        (own.softmax(dim=-1), 3),
        (by_hand(outvoted), 2),
        (by_hand(no_median), 2),
        (by_hand(late), 1),
        (by_hand(steady), 1),
    ]


CLUE = Exercise(
    "senses.strongest_clue",
    "Gives the key position that the word at this position looks at most, in weights "
    "“h q k” averaged over heads: a map read by code, not by eye.",
    ("weights", "position"),
    strongest_clue,
    _maps,
    MISREAD,
    "Three steps: the row of the word, the average over heads, the place of the "
    "largest.",
)


# --- a prediction ------------------------------------------------------------------


def causal_share() -> float:
    """Before the clue has come, both senses are equally likely: one guess in two."""
    return 1 / 2


CAUSAL = Exercise(
    "senses.causal_share",
    "Wants a number from 0 to 1 (within 0.05): how often a causal model is right where "
    "the clue stands on the right of the word and both senses are equally frequent.",
    (),
    causal_share,
    lambda generator: [()],
    (
        Mistake(
            "never",
            lambda: 0.0,
            "To always be wrong, you have to know the answer too.",
            "It sees the word itself, and how many senses does a word have?",
        ),
        Mistake(
            "always",
            lambda: 1.0,
            "That is the encoder, which sees both sides.",
            "Which words has a causal model read when it computes this vector?",
        ),
        Mistake(
            "nearly always",
            lambda: 0.97,
            "Then the mask would take next to nothing away. Where does the clue stand "
            "here, and who may look there?",
            "Which words has a causal model read when it computes this vector?",
        ),
        Mistake(
            "a guess among all classes",
            lambda: 1 / 48,
            "It does see which word is asked about. Most of the 48 classes are ruled "
            "out.",
            "How many senses are left once the word is known?",
        ),
        Mistake(
            "the mean of both sides",
            lambda: 0.75,
            "Left and right together would give about that. The question is about the "
            "right.",
            "Keep only sentences whose clue comes later. What remains to go by?",
        ),
        Mistake(
            "one in three",
            lambda: 1 / 3,
            "How many senses does the word have? Chance chooses only among those.",
            "Clue on the left, on the right, or none are kinds of sentences, not "
            "senses.",
        ),
        Mistake(
            "a percentage",
            lambda: 50,
            "You give a number of sentences in a hundred. Which share of all sentences "
            "is that?",
            "A share lies between 0 and 1.",
        ),
    ),
    "List what the model has read up to the word. Which part of it tells the senses "
    "apart?",
    predicts=True,
    tolerance=0.05,
)


EXERCISES = (PICK, POOL, CLUE, CAUSAL)
