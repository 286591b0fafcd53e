"""Exercises of notebook 13: how surprised is a model?

Knows the shared loss. Knows nothing of how an answer is run or shown.
"""

from collections import Counter
from math import exp, log
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.data.batches import Rows
from course_utils.shapes import IGNORED
from course_utils.training.losses import label_loss
from named_mistakes import Exercise, Mistake

# --- perplexity --------------------------------------------------------------------


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
    "training.perplexity",
    "Gives e to the mean loss, for logits “b t v” and labels “b t” (−100: padding): "
    "among so many equally likely tokens a model as unsure as this would choose.",
    ("logits", "labels"),
    perplexity,
    _guesses,
    (
        Mistake(
            "the mean of exponentials",
            _of_exponentials,
            "One very surprising token would count more than all others. What comes "
            "first, the mean or the power?",
            "First the mean loss, one number. Then e to it.",
        ),
        Mistake(
            "powers of two",
            lambda logits, labels: 2 ** label_loss(logits, labels, 0.0).item(),
            "PyTorch's losses are in nats. Which number belongs below them?",
            "2 goes with bits: with nats goes the base of the natural logarithm.",
        ),
        Mistake(
            "padding is counted",
            lambda logits, labels: _each(logits, labels)[0].mean().exp().item(),
            "Padding costs nothing and was counted in the mean: too good to be true.",
            "Divide by the number of labels that are not −100.",
        ),
        Mistake(
            "padding is taken for token 0",
            _clamped,
            "A label of −100 is no token. You ask how surprising token 0 would be "
            "there.",
            "Leave those places out before the mean; do not give them another label.",
        ),
        Mistake(
            "sentence by sentence",
            _by_sentence,
            "A short sentence has the same say as a long one. Is a token a token?",
            "One mean over all counted labels of the batch, not a mean of means.",
        ),
        Mistake(
            "the mean of the sentences' perplexities",
            _perplexities_of_sentences,
            "You give every sentence a perplexity of its own. Which loss does the "
            "batch have?",
            "One mean over all counted labels of the batch, then one power.",
        ),
        Mistake(
            "labels shifted once more",
            _shifted,
            "You compare each place with the label of the next one. What do the labels "
            "of a batch hold already?",
            "logits[:, t] and labels[:, t] belong together.",
        ),
        Mistake(
            "softmax twice",
            lambda logits, labels: perplexity(logits.softmax(-1), labels),
            "You hand over probabilities. What does F.cross_entropy take?",
            "F.cross_entropy makes the softmax itself. Give it the logits.",
        ),
        Mistake(
            "e to minus the loss",
            lambda logits, labels: 1 / perplexity(logits, labels),
            "Yours is below 1 and falls as the model gets more unsure.",
            "The loss is the mean of −ln p, so its minus sign is there already.",
        ),
        Mistake(
            "the loss itself",
            lambda logits, labels: label_loss(logits, labels, 0.0).item(),
            "That is the loss in nats. A model with no idea among 10 words has "
            "perplexity 10: what does its loss become?",
            "One step is missing: what undoes a logarithm?",
        ),
        Mistake(
            "the sum for the mean",
            lambda logits, labels: _each(logits, labels)[0].sum().exp().item(),
            "A longer text would have a larger perplexity, whatever the model.",
            "How many labels were counted? Divide before the power.",
        ),
    ),
    "F.cross_entropy leaves −100 out by itself. It wants one row per label.",
    shared=perplexity_of_the_course,
)


# --- the trigram model ------------------------------------------------------------


def trigram_line(
    train_rows: Rows, held_rows: Rows, tokenizer: Any, alpha: float = 0.01
) -> float:
    """Nats per token of a model that looks two tokens back."""

    def triples(rows):
        for row in rows:
            row = [tokenizer.bos_id, tokenizer.bos_id, *row, tokenizer.eos_id]
            yield from zip(row, row[1:], row[2:], strict=False)

    counts = Counter(triples(train_rows))
    pairs = Counter(triple[:2] for triple in triples(train_rows))
    added = alpha * tokenizer.vocab_size
    losses = [
        -log((counts[triple] + alpha) / (pairs[triple[:2]] + added))
        for triple in triples(held_rows)
    ]
    return sum(losses) / len(losses)


def _texts(generator):
    special = SimpleNamespace(pad_id=0, bos_id=1, eos_id=2, vocab_size=9)

    def rows(*sizes):
        draw = {"generator": generator}
        return [torch.randint(4, 7, (size,), **draw).tolist() for size in sizes]

    new = [8, 8, 5]  # begins with pairs that training has not seen
    return [
        (rows(9, 1, 14, 6, 11), rows(5, 1, 8), special, 0.5),
        (rows(12, 8, 10), [*rows(3, 7), new], special, 0.01),
    ]


def _triples(rows, special, back=2, end=1):
    """All (two before, one before, token) of some rows; what is not seen is 0."""
    marked = [[1, 1, *row, *[special.eos_id] * end] for row in rows]
    triples = [t for row in marked for t in zip(row, row[1:], row[2:], strict=False)]
    if back == 2:
        return triples
    return [(0, before, token) for _, before, token in triples]


def _chances(train_rows, held_rows, special, alpha, below=None, **how):
    """The chance of each held token, by another idea of one of the parts."""
    seen = _triples(train_rows, special, **how)
    counts, pairs = Counter(seen), Counter(t[:2] for t in seen)
    below = below or (lambda times, total: times + alpha * special.vocab_size)
    held = _triples(held_rows, special, **how)
    return [(counts[t] + alpha) / below(pairs[t[:2]], len(seen)) for t in held]


def _mean(chances):
    return -sum(map(log, chances)) / len(chances)


def _without_surprises(train_rows, held_rows, special, alpha):
    """The mean over those held tokens that training has seen in their place."""
    seen = set(_triples(train_rows, special))
    chances = _chances(train_rows, held_rows, special, alpha)
    held = zip(_triples(held_rows, special), chances, strict=True)
    return _mean([p for triple, p in held if triple in seen] or [1.0])


def _without_new_pairs(train_rows, held_rows, special, alpha):
    """The mean over those held tokens whose two before training has seen."""
    seen = {triple[:2] for triple in _triples(train_rows, special)}
    chances = _chances(train_rows, held_rows, special, alpha)
    held = zip(_triples(held_rows, special), chances, strict=True)
    return _mean([p for triple, p in held if triple[:2] in seen])


def _no_end_counted(train_rows, held_rows, special, alpha):
    """As if training had never seen an end, which held_rows ask for."""
    seen = _triples(train_rows, special, end=0)
    counts, pairs = Counter(seen), Counter(triple[:2] for triple in seen)
    added = alpha * special.vocab_size
    held = _triples(held_rows, special)
    return _mean([(counts[t] + alpha) / (pairs[t[:2]] + added) for t in held])


def _one_begin(train_rows, held_rows, special, alpha):
    """Behind a single bos the first word has no two tokens before it."""
    chances = _chances(train_rows, held_rows, special, alpha)
    held = zip(_triples(held_rows, special), chances, strict=True)
    begin = special.bos_id, special.bos_id
    return _mean([p for triple, p in held if triple[:2] != begin])


def _no_end_asked(train_rows, held_rows, special, alpha):
    """The mean over the held tokens without the ends, which training counts."""
    chances = _chances(train_rows, held_rows, special, alpha)
    held = zip(_triples(held_rows, special), chances, strict=True)
    return _mean([p for triple, p in held if triple[2] != special.eos_id])


def _seen_words_only(train_rows, held_rows, special, alpha):
    """As if the vocabulary held only what stands in train_rows."""
    words = {token for _, _, token in _triples(train_rows, special)}
    return _mean(
        _chances(
            train_rows,
            held_rows,
            special,
            alpha,
            lambda times, total: times + alpha * len(words),
        )
    )


def _one_text(rows, special):
    """All rows behind each other, with an end between two."""
    return [token for row in rows for token in [*row, special.eos_id]][:-1]


TRIGRAM = Exercise(
    "training.trigram",
    "Gives the mean −ln p over all tokens and ends of held_rows, as counted in "
    "train_rows; a row begins after two bos. A line for longer memories to beat.",
    ("train_rows", "held_rows", "tokenizer", "alpha"),
    trigram_line,
    _texts,
    (
        Mistake(
            "one token back",
            lambda *given: _mean(_chances(*given, back=1)),
            "That is the bigram line. How far back does this model look?",
            "Count threes, and the pairs that begin them.",
        ),
        Mistake(
            "the end is not counted",
            lambda *given: _mean(_chances(*given, end=0)),
            "This model never has to guess where a story ends. All others had to.",
            "Each row has one token more than it shows. Which one?",
        ),
        Mistake(
            "the ends of held_rows are not guessed",
            _no_end_asked,
            "Training counts the ends, but in held_rows no end is ever to be guessed.",
            "The mean is over all tokens *and ends* of held_rows.",
        ),
        Mistake(
            "the ends of train_rows are not counted",
            _no_end_counted,
            "In held_rows the ends are guessed, but training has never counted one.",
            "Each row of train_rows has one token more than it shows, too.",
        ),
        Mistake(
            "the first word of a row is not guessed",
            _one_begin,
            "You ask for one token less per row than there is. Which token has fewer "
            "than two before it?",
            "Two bos in front, and every word has two tokens before it.",
        ),
        Mistake(
            "what follows a new pair is skipped",
            _without_new_pairs,
            "Where training has never met the two tokens before, you ask nothing. Has "
            "the model no chance to give there?",
            "With counts of 0 and 0, alpha above and below gives a uniform guess.",
        ),
        Mistake(
            "the sum for the mean",
            lambda *given: -sum(map(log, _chances(*given))),
            "With twice as many held rows yours would be twice as large.",
            "Nats *per token*: how many were guessed?",
        ),
        Mistake(
            "alpha only once below",
            lambda train, held, special, alpha: _mean(
                _chances(
                    train, held, special, alpha, lambda times, total: times + alpha
                )
            ),
            "Add up your chances over the whole vocabulary: far more than 1.",
            "Above, alpha goes to one cell. Over how many cells runs the sum below?",
        ),
        Mistake(
            "alpha only for the words of train_rows",
            _seen_words_only,
            "You add alpha once for each different token of train_rows. May a token "
            "come that never stood there?",
            "The tokenizer knows how many tokens there are.",
        ),
        Mistake(
            "divided by everything",
            lambda train, held, special, alpha: _mean(
                _chances(
                    train,
                    held,
                    special,
                    alpha,
                    lambda times, total: total + alpha * special.vocab_size,
                )
            ),
            "That is how often three tokens stand together. Given the first two, how "
            "often does the third follow?",
            "Divide by how often the two before it occur.",
        ),
        Mistake(
            "the logarithm of the mean",
            lambda *given: -log(sum(_chances(*given)) / len(_chances(*given))),
            "You take the mean of the chances. A token that was thought impossible "
            "would hardly cost anything.",
            "One surprise per token first. Their mean is the loss.",
        ),
        Mistake(
            "what was never seen is skipped",
            _without_surprises,
            "You leave out the largest surprises. Then every model looks clever.",
            "A triple without a count has a chance as well: that is what alpha is for.",
        ),
        Mistake(
            "the exam is counted as well",
            lambda train, held, *rest: trigram_line([*train, *held], held, *rest),
            "The counts hold the very texts on which the loss is measured.",
            "What may be counted: train_rows, held_rows, or both?",
        ),
        Mistake(
            "the mean of the texts' means",
            lambda train, held, *rest: (
                sum(trigram_line(train, [row], *rest) for row in held) / len(held)
            ),
            "A short text has the same say as a long one. Is a token a token?",
            "One mean over all tokens and ends of held_rows.",
        ),
        Mistake(
            "all rows in one stream",
            lambda train, held, special, alpha: trigram_line(
                [_one_text(train, special)], [_one_text(held, special)], special, alpha
            ),
            "The first tokens of a row look into the row before. Rows are texts of "
            "their own.",
            "Put two bos in front of every row, not only in front of the first.",
        ),
        Mistake(
            "counted in the exam",
            lambda train, held, *rest: trigram_line(held, held, *rest),
            "This model has seen the exam: its counts come from held_rows.",
            "Count in one list of rows, measure on the other.",
        ),
    ),
    "Two passes: count threes and pairs in train_rows, then look up held_rows.",
)


EXERCISES = (PERPLEXITY, TRIGRAM)
