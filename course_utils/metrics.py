"""Say how good predictions are: numbers from losses, sentences and word alignments.
Knows nothing of models, tokenizers or where the data come from."""

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import zip_longest

from jaxtyping import Float
from torch import Tensor

from course_utils.shapes import check_equal, check_positive

Links = AbstractSet[tuple[int, int]]


def bits_per_byte(nats_per_token: float, num_tokens: int, num_bytes: int) -> float:
    """Bits that the model needs for one byte of the text: the only loss that
    compares models with different tokenizers.

    nats_per_token: the mean loss over `num_tokens` labels (end tokens included).
    num_bytes: length of the same text in UTF-8, `len(text.encode())`.
    Raises ValueError for a negative loss, or counts below 1.
    """
    check_positive(num_tokens=num_tokens, num_bytes=num_bytes)
    if not 0 <= nats_per_token < math.inf:
        raise ValueError(f"nats_per_token must be 0 or more, got {nats_per_token}")
    return nats_per_token * num_tokens / math.log(2) / num_bytes


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """BLEU over a corpus, 0 to 100 (Papineni et al. 2002), as sacrebleu computes it
    (Post 2018): its own tokenization, case kept.

    references[i] are the accepted translations of hypotheses[i], one or more.
    Raises ValueError for lists of different length, empty ones, or a sentence
    without a reference.
    """
    import sacrebleu

    _check_references(hypotheses, references)
    # sacrebleu wants the first references of all sentences, then the second, ...
    columns = [list(column) for column in zip_longest(*references)]
    return sacrebleu.corpus_bleu(list(hypotheses), columns).score


def exact_match(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> float:
    """Share of hypotheses, 0 to 1, that equal one of their references exactly.

    Raises as `bleu`.
    """
    _check_references(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    return sum(one in accepted for one, accepted in pairs) / len(hypotheses)


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
    check_equal("the numbers of predicted and sure", len(predicted), len(sure))
    check_equal("the numbers of sure and possible", len(sure), len(possible))
    for index, (certain, allowed) in enumerate(zip(sure, possible, strict=True)):
        if extra := certain - allowed:
            raise ValueError(f"sure[{index}] holds impossible links {sorted(extra)}")
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
        raise ValueError(f"weights must be a filled matrix, got {tuple(weights.shape)}")
    if not weights.isfinite().all():
        raise ValueError("weights must be finite numbers, found NaN or infinity")
    return {(key, query) for query, key in enumerate(weights.argmax(dim=1).tolist())}


def _check_references(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> None:
    counts = len(hypotheses), len(references)
    check_equal("the numbers of hypotheses and references", *counts)
    if not hypotheses:
        raise ValueError("hypotheses and references must not be empty")
    for index, accepted in enumerate(references):
        if isinstance(accepted, str):
            raise TypeError(f"references[{index}] must be a list of sentences, not one")
        if not accepted:
            raise ValueError(f"references[{index}] is empty: one or more are needed")
