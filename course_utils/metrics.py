"""Say how good predictions are: numbers from losses, sentences and word alignments.
Knows nothing of models, tokenizers or where the data come from."""

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from jaxtyping import Float
from torch import Tensor

Links = AbstractSet[tuple[int, int]]


def perplexity(nats_per_token: float) -> float:
    """exp(loss): among how many equally likely tokens the model seems to choose.

    Raises ValueError for a loss that is negative or not a number.
    """
    return math.exp(_checked_loss(nats_per_token))


def bits_per_byte(nats_per_token: float, num_tokens: int, num_bytes: int) -> float:
    """Bits that the model needs for one byte of the text: the only loss that
    compares models with different tokenizers.

    nats_per_token: the mean loss over `num_tokens` labels (end tokens included).
    num_bytes: length of the same text in UTF-8, `len(text.encode())`.
    Raises ValueError for a negative loss, or counts below 1.
    """
    for name, number in (("num_tokens", num_tokens), ("num_bytes", num_bytes)):
        if number < 1:
            raise ValueError(f"{name}={number} must be at least 1")
    return _checked_loss(nats_per_token) * num_tokens / math.log(2) / num_bytes


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """BLEU over a corpus, 0 to 100 (Papineni et al. 2002), as sacrebleu computes it
    (Post 2018): its own tokenization, case kept.

    references[i] are the accepted translations of hypotheses[i], one or more.
    Raises ValueError for lists of different length, empty ones, or a sentence
    without a reference.
    """
    import sacrebleu

    _check_references(hypotheses, references)
    most = max(len(accepted) for accepted in references)
    # sacrebleu wants the first references of all sentences, then the second, ...
    columns = [
        [accepted[place] if place < len(accepted) else None for accepted in references]
        for place in range(most)
    ]
    return sacrebleu.corpus_bleu(list(hypotheses), columns).score


def exact_match(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> float:
    """Share of hypotheses, 0 to 1, that equal one of their references exactly.

    Raises as `bleu`.
    """
    _check_references(hypotheses, references)
    hits = [
        one in accepted for one, accepted in zip(hypotheses, references, strict=True)
    ]
    return sum(hits) / len(hits)


def alignment_error_rate(
    predicted: Sequence[Links],
    sure: Sequence[Links],
    possible: Sequence[Links] | None = None,
) -> float:
    """1 - (|A & S| + |A & P|) / (|A| + |S|) over all sentences, 0 is perfect
    (Och and Ney 2003, section 3.2).

    Each argument holds one set of links per sentence; a link is a pair of positions,
    in the same order everywhere. `possible` (P) contains the sure links (S) and
    those that may also be right; without it P = S.
    Raises ValueError for different numbers of sentences, no sure link at all, or a
    sure link that is not possible.
    """
    possible = sure if possible is None else possible
    if not len(predicted) == len(sure) == len(possible):
        raise ValueError(
            f"predicted, sure and possible must cover the same sentences, not "
            f"{len(predicted)}, {len(sure)} and {len(possible)}"
        )
    for index, (certain, allowed) in enumerate(zip(sure, possible, strict=True)):
        if extra := certain - allowed:
            raise ValueError(
                f"sentence {index}: its sure links {sorted(extra)} are not possible"
            )
    num_sure = sum(len(links) for links in sure)
    if num_sure == 0:
        raise ValueError("sure holds no links: there is nothing to compare with")
    hits = sum(
        len(links & certain) + len(links & allowed)
        for links, certain, allowed in zip(predicted, sure, possible, strict=True)
    )
    return 1 - hits / (sum(len(links) for links in predicted) + num_sure)


def strongest_links(weights: Float[Tensor, "q k"]) -> set[tuple[int, int]]:
    """One link (key position, query position) per query: where it looks most.

    For cross-attention these are (source position, target position). Of equal weights
    the first wins. Raises ValueError unless weights is "q k", not empty, all numbers.
    """
    if weights.ndim != 2 or 0 in weights.shape:
        raise ValueError(
            f"weights must have a shape (queries, keys) with at least one of each, "
            f"got {tuple(weights.shape)}"
        )
    if not weights.isfinite().all():
        raise ValueError("weights must be finite numbers, found NaN or infinity")
    strongest = weights.argmax(dim=1).tolist()
    return {(key, query) for query, key in enumerate(strongest)}


def _checked_loss(nats_per_token: float) -> float:
    if not nats_per_token >= 0 or math.isinf(nats_per_token):
        raise ValueError(f"nats_per_token={nats_per_token} must be a loss of 0 or more")
    return float(nats_per_token)


def _check_references(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> None:
    if not hypotheses or len(hypotheses) != len(references):
        raise ValueError(
            f"hypotheses and references must be equally many and not empty, "
            f"got {len(hypotheses)} and {len(references)}"
        )
    for index, accepted in enumerate(references):
        if isinstance(accepted, str):
            raise TypeError(f"references[{index}] must be a list of sentences, not one")
        if not accepted:
            raise ValueError(f"references[{index}] is empty: one or more are needed")
