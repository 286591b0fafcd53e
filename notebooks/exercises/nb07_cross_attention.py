"""Exercises of notebook 07: look across, count the loss.

Knows the shared kernel and loss. Knows nothing of how an answer is run or shown.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.attention import attend
from course_utils.checks import IGNORED
from course_utils.training.losses import label_loss
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

# --- cross-attention ---------------------------------------------------------------


def cross_attention(
    x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, mask: Tensor
) -> Tensor:
    """One head, with no projection at the end."""
    return attend(x @ w_q, memory @ w_k, memory @ w_v, mask)


def _cross_cases(generator):
    def one(lengths, t, m, d):
        b, s = len(lengths), max(lengths)
        mask = (torch.arange(s) < torch.tensor(lengths)[:, None])[:, None]
        x, memory = normal(generator, b, t, m), normal(generator, b, s, m)
        return x, memory, *normal(generator, 3, m, d) / m**0.5, mask

    # Some mistakes run only where target and source are equally long.
    return [one([3, 5], 3, 6, 4), one([2, 4, 3], 4, 7, 2), one([2], 1, 3, 5)]


def _cross(of_queries, of_keys, of_values, change=lambda mask, t: mask):
    """The same with x (0) or the memory (1) in each of the three places."""

    def look(x, memory, w_q, w_k, w_v, mask):
        both = x, memory
        queries, keys = both[of_queries] @ w_q, both[of_keys] @ w_k
        values = both[of_values] @ w_v
        return attend(queries, keys, values, change(mask, queries.shape[1]))

    return look


def _causal_too(mask, t):
    return mask & torch.ones(t, mask.shape[-1], dtype=torch.bool).tril()


def _causal_only(mask, t):
    return torch.ones(t, mask.shape[-1], dtype=torch.bool).tril()


def _zeroed_values(x, memory, w_q, w_k, w_v, mask):
    return attend(x @ w_q, memory @ w_k, memory @ w_v * mask.mT)


def _zeroed_memory(x, memory, w_q, w_k, w_v, mask):
    memory = memory * mask.mT
    return attend(x @ w_q, memory @ w_k, memory @ w_v)


def _scaled_twice(x, memory, w_q, w_k, w_v, mask):
    return cross_attention(x, memory, w_q / w_q.shape[-1] ** 0.5, w_k, w_v, mask)


CROSS = Exercise(
    name="translation.cross_attention",
    statement="Gives the context “b t d” of one head, from x “b t m”, a memory “b s "
    "m”, matrices “m d” and a bool mask “b 1 s”. Here the decoder asks the encoder.",
    takes=("x", "memory", "W_q", "W_k", "W_v", "mask"),
    reference=cross_attention,
    cases=_cross_cases,
    mistakes=(
        Mistake(
            name="keys from the target",
            function=_cross(0, 0, 1),
            hint="The decoder compares itself with itself and then takes whatever has "
            "the same *number* in the memory.",
            more="The text that is searched must also supply what is handed over.",
        ),
        Mistake(
            name="values from the target",
            function=_cross(0, 1, 0),
            hint="It finds the right place in the source, but then reads from its own "
            "sentence.",
            more="Who owns what is handed over, the one who asks or the one who "
            "answers?",
        ),
        Mistake(
            name="keys and values from the target",
            function=_cross(0, 0, 0),
            hint="That is self-attention: nothing from the source comes across.",
            more="Change the memory and your result stays the same. Where should the "
            "memory come in?",
        ),
        Mistake(
            name="self-attention, without a mask",
            function=lambda x, memory, w_q, w_k, w_v, mask: attend(
                x @ w_q, x @ w_k, x @ w_v
            ),
            hint="Two arguments are unused: the memory and its mask. Where does the "
            "source come in?",
            more="What is compared with the queries, and what is handed over, comes "
            "from the encoder.",
        ),
        Mistake(
            name="queries from the memory",
            function=_cross(1, 0, 0),
            hint="The reader asks the writer. Your result has a row per *source* word.",
            more="The result needs one row for each word of x: so who asks?",
        ),
        Mistake(
            name="only the memory",
            function=_cross(1, 1, 1),
            hint="The source talks to itself; x is never asked.",
            more="The result needs one row for each word of x: so who asks?",
        ),
        Mistake(
            name="the mask is forgotten",
            function=_cross(0, 1, 1, lambda mask, t: None),
            hint="Rows without padding are right. The others attend to words that are "
            "not there.",
            more="True means: may look. `attend` takes it as its fourth argument.",
        ),
        Mistake(
            name="the mask turned around",
            function=_cross(0, 1, 1, lambda mask, t: ~mask),
            hint="You show the padding and hide the words. In this course True means: "
            "may look.",
            more="`attend` takes the mask as it is.",
        ),
        Mistake(
            name="a causal mask on top",
            function=_cross(0, 1, 1, _causal_too),
            hint="The first word of your output may see only the first word of the "
            "source.",
            more="The source is finished before writing begins. What is there to hide?",
        ),
        Mistake(
            name="keys used as values",
            function=lambda x, memory, w_q, w_k, w_v, mask: attend(
                x @ w_q, memory @ w_k, memory @ w_k, mask
            ),
            hint="The right words are found, but their keys are handed over. One "
            "matrix is unused.",
            more="Three matrices, three products. Which matrix makes what comes back?",
        ),
        Mistake(
            name="the matrices of keys and values exchanged",
            function=lambda x, memory, w_q, w_k, w_v, mask: attend(
                x @ w_q, memory @ w_v, memory @ w_k, mask
            ),
            hint="All three matrices are used, and two of them in the wrong place.",
            more="`attend` takes queries, keys, values, in this order.",
        ),
        Mistake(
            name="hidden places are set to 0 in the memory",
            function=_zeroed_memory,
            hint="A hidden place has a key of zeros in your version, so its score is "
            "0. Does softmax give a score of 0 no weight?",
            more="`attend` takes the mask as its fourth argument and hides scores by "
            "it.",
        ),
        Mistake(
            name="scaled twice",
            function=_scaled_twice,
            hint="Your scores are divided by the root of d twice. What does `attend` "
            "do with the product of queries and keys?",
            more="Hand the three products to `attend` as they are.",
        ),
        Mistake(
            name="the matrices of queries and keys exchanged",
            function=lambda x, memory, w_q, w_k, w_v, mask: attend(
                x @ w_k, memory @ w_q, memory @ w_v, mask
            ),
            hint="The values are right. Two of the three matrices have changed places.",
            more="The one who asks goes through W_q. Who asks here?",
        ),
        Mistake(
            name="a causal mask in place of the mask",
            function=_cross(0, 1, 1, _causal_only),
            hint="Your mask hides the end of the source from the first words of the "
            "target, and lets them look at padding.",
            more="The source is finished before writing begins. What is there to hide?",
        ),
        Mistake(
            name="hidden places take a share and hand over nothing",
            function=_zeroed_values,
            hint="A hidden place hands over nothing, but it still takes its share of "
            "the weight from the others.",
            more="`attend` takes the mask as its fourth argument and hides scores by "
            "it.",
        ),
        Mistake(
            name="the memory itself is handed over",
            function=lambda x, memory, w_q, w_k, w_v, mask: attend(
                x @ w_q, memory @ w_k, memory, mask
            ),
            hint="The right words are found. One matrix is unused, and your context "
            "has the width of the memory.",
            more="Three matrices, three products. Which matrix makes what comes back?",
        ),
    ),
    hint="Three products and one call of `attend`. For each product: what is "
    "multiplied by what?",
    trains=True,
)


# --- the loss ----------------------------------------------------------------------


def loss(scores: Tensor, target: Tensor, pad_id: int) -> Tensor:
    """Nats per real label, the end token included."""
    labels = target[:, 1:]
    each = F.cross_entropy(scores[:, :-1].mT, labels, reduction="none")
    return each[labels != pad_id].mean()


def loss_of_the_course(scores: Tensor, target: Tensor, pad_id: int) -> Tensor:
    """Nats per real label, the end token included."""
    labels = target[:, 1:]
    return label_loss(
        scores[:, :-1], labels.masked_fill(labels == pad_id, IGNORED), 0.0
    )


def _loss_cases(generator):
    def one(lengths, v, pad_id):
        b, t = len(lengths), max(lengths)
        words = torch.tensor([i for i in range(3, v) if i != pad_id])
        target = words[torch.randint(len(words), (b, t), generator=generator)]
        for row, length in zip(target, lengths, strict=True):
            row[0], row[length - 1], row[length:] = 1, 2, pad_id
        return normal(generator, b, t, v) * 2, target, pad_id

    return [one([5, 3], 7, 0), one([3, 6, 4], 11, 0), one([4, 2], 9, 8)]


def _mean(scores, labels, counted):
    """Mean over the labels where counted is True."""
    return F.cross_entropy(scores.mT, labels, reduction="none")[counted].mean()


def _each(scores, target, pad_id):
    """The loss at every place, and which places are real."""
    labels = target[:, 1:]
    each = F.cross_entropy(scores[:, :-1].mT, labels, reduction="none")
    return each, labels != pad_id


def _no_end(scores, target, pad_id):
    each, real = _each(scores, target, pad_id)
    before_the_end = F.pad(real[:, 1:], (0, 1))
    return each[before_the_end].mean()


def _pads_of_the_inputs(scores, target, pad_id):
    each, _ = _each(scores, target, pad_id)
    return each[target[:, :-1] != pad_id].mean()


def _by_sentence(scores, target, pad_id):
    each, real = _each(scores, target, pad_id)
    return ((each * real).sum(1) / real.sum(1)).mean()


def _diluted(scores, target, pad_id):
    each, real = _each(scores, target, pad_id)
    return (each * real).mean()


def _start_counted(scores, target, pad_id):
    each, real = _each(scores, target, pad_id)
    return each[real].sum() / (target != pad_id).sum()


def _added_up(scores, target, pad_id):
    each, real = _each(scores, target, pad_id)
    return each[real].sum()


LOSS = Exercise(
    name="translation.loss",
    statement="Gives the mean loss in nats per token for scores “b t v”, made from the "
    "target “b t”: start, words, end, pads. What it counts is all that training ever "
    "learns.",
    takes=("scores", "target", "pad_id"),
    reference=loss,
    cases=_loss_cases,
    mistakes=(
        Mistake(
            name="labels are not shifted",
            function=lambda s, t, pad: _mean(s, t, t != pad),
            hint="Each position is asked for the word that it has just read.",
            more="Scores at one place are about the *next* word of the target.",
        ),
        Mistake(
            name="shifted the wrong way",
            function=lambda s, t, pad: _mean(s[:, 1:], t[:, :-1], t[:, :-1] != pad),
            hint="Each position is asked for the word *before* it.",
            more="Which of the two loses its first column, and which its last?",
        ),
        Mistake(
            name="padding is counted",
            function=lambda s, t, pad: _each(s, t, pad)[0].mean(),
            hint="Your model is trained to write padding, the commonest word of all.",
            more="Use `ignore_index`, or select places before the mean.",
        ),
        Mistake(
            name="padding counts as zero",
            function=_diluted,
            hint="Padding adds nothing to the sum, but you still divide by its places.",
            more="Divide by the number of real labels.",
        ),
        Mistake(
            name="the end token is left out",
            function=_no_end,
            hint="No label is the end, so the model will never learn to stop.",
            more="This happens where the end token serves as padding too. Which places "
            "hold nothing but padding?",
        ),
        Mistake(
            name="a mean of sentences",
            function=_by_sentence,
            hint="A word in a short sentence counts for more than a word in a long "
            "one.",
            more="One mean, over all real labels of the batch.",
        ),
        Mistake(
            name="a sum",
            function=_added_up,
            hint="A batch twice the size would make a step twice as large.",
            more="Nats *per token*.",
        ),
        Mistake(
            name="padding is looked up in the inputs",
            function=_pads_of_the_inputs,
            hint="You leave a place out if its *input* is padding. So each row still "
            "has to predict one padding token, after its end token.",
            more="The loss compares with the labels. In which of the two tensors "
            "should you look for padding?",
        ),
        Mistake(
            name="the start token is counted",
            function=_start_counted,
            hint="You divide the sum by all real tokens of the target. Is the start "
            "token ever predicted?",
            more="Count the labels that you have added up, row by row.",
        ),
        Mistake(
            name="softmax twice",
            function=lambda s, t, pad: loss(s.softmax(dim=-1), t, pad),
            hint="You turn the scores into probabilities, and cross-entropy does it "
            "again. How far apart can two of its inputs then be?",
            more="F.cross_entropy takes scores as they come from the model.",
        ),
        Mistake(
            name="bits",
            function=lambda s, t, pad: loss(s, t, pad) / math.log(2),
            hint="The right loss in another unit: yours is larger by a factor of 1.44.",
            more="The natural logarithm gives nats.",
        ),
        Mistake(
            name="divided by the number of sentences",
            function=lambda s, t, pad: _added_up(s, t, pad) / len(t),
            hint="A batch of longer sentences would make larger steps.",
            more="Nats *per token*: count the real labels.",
        ),
        Mistake(
            name="both lose their last column",
            function=lambda s, t, pad: _mean(s[:, :-1], t[:, :-1], t[:, :-1] != pad),
            hint="Both are cut at the same end, so each position is asked for the word "
            "that it has just read.",
            more="Which of the two loses its first column, and which its last?",
        ),
        Mistake(
            name="a pad_id of your own",
            function=lambda s, t, pad: loss(s, t, 0),
            hint="This is right where padding is 0. In one of the cases it is a "
            "different number.",
            more="One argument is unused.",
        ),
        Mistake(
            name="reshaped where two axes should be swapped",
            function=lambda scores, target, pad_id: F.cross_entropy(
                scores[:, :-1].reshape(len(scores), scores.shape[-1], -1),
                target[:, 1:],
                ignore_index=pad_id,
            ),
            hint="cross_entropy wants “b v t”. Your reshape has that shape, but it "
            "cuts the row of numbers anew.",
            more=".mT or transpose(1, 2) swaps axes; flatten(0, 1) needs no swap.",
        ),
    ),
    hint=(
        "Write four ids in a row, and below each the id that its scores should "
        "predict. Which scores have none?",
        "Three steps: shift, cross-entropy in each place, a mean over what is real.",
    ),
    trains=True,
    shared=loss_of_the_course,
)


EXERCISES = (CROSS, LOSS)
