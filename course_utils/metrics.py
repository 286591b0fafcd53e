"""Metrics of predictions: numbers from losses, sentences and word alignments.

Knows strings, numbers and matrices of weights. Knows nothing of models, tokenizers or
where the data come from.
"""

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, zip_longest
from numbers import Integral

from jaxtyping import Float
from torch import Tensor

from course_utils.checks import (
    check_integer,
    check_same,
    check_type,
    describe,
)

Links = AbstractSet[tuple[int, int]]


def bits_per_byte(nats_per_token: float, num_tokens: int, num_bytes: int) -> float:
    """The loss in bits per byte of text, which does not depend on the tokenizer.

    nats_per_token: the mean loss over `num_tokens` labels (end tokens included).
    num_bytes: length of the same text in UTF-8, `len(text.encode())`.
    """
    check_integer(1, num_tokens=num_tokens, num_bytes=num_bytes)
    if num_tokens > 2 * num_bytes:
        both = f"num_tokens={num_tokens} and num_bytes={num_bytes}"
        raise ValueError(f"{both}: are they exchanged?")
    if not 0 <= nats_per_token < math.inf:
        raise ValueError(f"nats_per_token must be finite, >= 0, got {nats_per_token}")
    return nats_per_token * num_tokens / math.log(2) / num_bytes


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """BLEU over a corpus, 0 to 100 (Papineni et al. 2002), as sacrebleu computes it
    (Post 2018): with its own tokenization, and case sensitive.

    references[i] are the accepted translations of hypotheses[i], one or more.
    """
    import sacrebleu

    _check_sentences(hypotheses, references)
    # sacrebleu wants the first references of all sentences, then the second, ...
    columns = [list(column) for column in zip_longest(*references)]
    return sacrebleu.corpus_bleu(list(hypotheses), columns).score


def exact_match(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> float:
    """Fraction of hypotheses, 0 to 1, that equal one of their references exactly."""
    _check_sentences(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    return sum(text in accepted for text, accepted in pairs) / len(hypotheses)


def _check_sentences(hypotheses: Sequence, references: Sequence[Sequence[str]]) -> None:
    for sentences in (hypotheses, *references):
        if isinstance(sentences, str) or len(sentences) == 0:
            each = "hypotheses and each of references must be a list of strings"
            raise TypeError(f"{each}, one or more, got {describe(sentences)}")
    check_same("lengths of hypotheses and references", len(hypotheses), len(references))


def alignment_error_rate(
    predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links]
) -> float:
    """1 - (|A & S| + |A & P|) / (|A| + |S|) over all sentences, 0 is perfect
    (Och and Ney 2003, section 3.2).

    Each argument holds one set of links per sentence, pairs of positions. `possible`
    (P) contains the sure links (S) and those that may also be right.
    """
    check_type(Sequence, predicted=predicted, sure=sure, possible=possible)
    lengths = len(predicted), len(sure), len(possible)
    if not predicted or len(set(lengths)) > 1:
        raise ValueError(f"each argument needs a set per sentence, got {lengths} sets")
    for links in chain(predicted, sure, possible):
        for link in links:  # positions in tensors would never be equal
            if not all(isinstance(position, Integral) for position in link):
                raise TypeError(f"a link must be a pair of integers, got {link}")
    hits = count = 0
    for links, certain, allowed in zip(predicted, sure, possible, strict=True):
        if not certain <= allowed:
            missing = f"{min(certain - allowed)} is missing"
            raise ValueError(f"possible must contain the links of sure, {missing}")
        hits += len(links & certain) + len(links & allowed)
        count += len(links) + len(certain)
    if not count:
        raise ValueError("there is no link at all, so no share of them is right")
    return 1 - hits / count


def strongest_links(weights: Float[Tensor, "q k"]) -> set[tuple[int, int]]:
    """One link (key position, query position) per query: the first key of most weight.

    For cross-attention these are (source position, target position).
    """
    if weights.ndim != 2:
        shape = tuple(weights.shape)
        raise ValueError(f"weights must be (query, key), of one head, got {shape}")
    if weights.isnan().any():
        raise ValueError("weights must be numbers, got NaN")
    return {(key, query) for query, key in enumerate(weights.argmax(dim=1).tolist())}
