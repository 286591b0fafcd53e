"""Metrics of predictions: numbers from losses, sentences and word alignments.

Knows strings, numbers and matrices of weights. Knows nothing of models, tokenizers or
where the data come from.
"""

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import zip_longest
from numbers import Integral

from jaxtyping import Float
from torch import Tensor

from course_utils.shapes import (
    check_floating,
    check_number,
    check_positive,
    check_same,
    check_tensor,
    check_type,
    describe,
)

Links = AbstractSet[tuple[int, int]]


def bits_per_byte(nats_per_token: float, num_tokens: int, num_bytes: int) -> float:
    """The loss in bits per byte of text, which does not depend on the tokenizer.

    nats_per_token: the mean loss over `num_tokens` labels (end tokens included).
    num_bytes: length of the same text in UTF-8, `len(text.encode())`.
    Raises TypeError or ValueError for a loss that is not a finite number >= 0, counts
    below 1, or more than two tokens a byte: then the two are exchanged.
    """
    check_positive(num_tokens=num_tokens, num_bytes=num_bytes)
    if num_tokens > 2 * num_bytes:
        raise ValueError(
            f"num_tokens={num_tokens} must be the smaller of the two, but "
            f"num_bytes={num_bytes}: are they exchanged?"
        )
    check_number(nats_per_token=nats_per_token)
    if not 0 <= nats_per_token < math.inf:
        raise ValueError(
            f"nats_per_token must be a finite number >= 0, got {nats_per_token}"
        )
    return nats_per_token * num_tokens / math.log(2) / num_bytes


# --- sentences -----------------------------------------------------------------------


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """BLEU over a corpus, 0 to 100 (Papineni et al. 2002), as sacrebleu computes it
    (Post 2018): with its own tokenization, and case sensitive.

    references[i] are the accepted translations of hypotheses[i], one or more.
    Raises TypeError for a string in place of a list or for entries that are not
    strings, ValueError for lists of different length, empty ones, or a hypothesis
    without a reference.
    """
    import sacrebleu

    _check_sentences(hypotheses, references)
    # sacrebleu wants the first references of all sentences, then the second, ...
    columns = [list(column) for column in zip_longest(*references)]
    return sacrebleu.corpus_bleu(list(hypotheses), columns).score


def exact_match(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> float:
    """Share of hypotheses, 0 to 1, that equal one of their references exactly.

    Raises as `bleu`.
    """
    _check_sentences(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    return sum(one in accepted for one, accepted in pairs) / len(hypotheses)


def _check_sentences(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> None:
    _check_list(hypotheses, "hypotheses", "strings")
    _check_list(references, "references", "lists of strings")
    check_same("lengths of hypotheses and references", len(hypotheses), len(references))
    if len(hypotheses) == 0:
        raise ValueError("hypotheses and references must not be empty")
    for index, hypothesis in enumerate(hypotheses):
        check_type(str, **{f"hypotheses[{index}]": hypothesis})
    for index, accepted in enumerate(references):
        name = f"references[{index}]"
        _check_list(accepted, name, "strings")
        if len(accepted) == 0:
            raise ValueError(f"{name} must hold at least one sentence, got none")
        for place, reference in enumerate(accepted):
            check_type(str, **{f"{name}[{place}]": reference})


def _check_list(values: object, name: str, of: str) -> None:
    """Raise TypeError unless it is a sequence; a string is not a list of strings."""
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise TypeError(f"{name} must be a list of {of}, got {describe(values)}")


# --- word alignments -----------------------------------------------------------------


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
    Raises TypeError for arguments that are not lists of sets of pairs of integers,
    ValueError for negative positions, different numbers of sentences, no sure link at
    all, or a sure link that is not possible.
    """
    possible = sure if possible is None else possible
    _check_links(predicted, "predicted")
    _check_links(sure, "sure")
    _check_links(possible, "possible")
    check_same("lengths of predicted and sure", len(predicted), len(sure))
    check_same("lengths of sure and possible", len(sure), len(possible))
    for index, (certain, allowed) in enumerate(zip(sure, possible, strict=True)):
        if extra := certain - allowed:
            link = min(extra)
            raise ValueError(
                f"possible[{index}] must contain the links of sure[{index}], {link} is "
                "missing"
            )
    num_sure = sum(len(links) for links in sure)
    if num_sure == 0:
        raise ValueError("sure must hold at least one link, got none")
    hits = sum(
        len(links & certain) + len(links & allowed)
        for links, certain, allowed in zip(predicted, sure, possible, strict=True)
    )
    return 1 - hits / (sum(len(links) for links in predicted) + num_sure)


def _check_links(sentences: object, name: str) -> None:
    _check_list(sentences, name, "sets of links")
    for index, links in enumerate(sentences):
        if not isinstance(links, AbstractSet):
            raise TypeError(
                f"{name}[{index}] must be a set of links, got {describe(links)}"
            )
        for link in links:
            if not _is_pair(link):
                raise TypeError(
                    f"{name}[{index}]: a link must be a pair of integers, got "
                    f"{describe(link)}"
                )
            if min(link) < 0:
                raise ValueError(
                    f"{name}[{index}]: positions must be >= 0, got {tuple(link)}"
                )


def _is_pair(link: object) -> bool:
    if not isinstance(link, tuple) or len(link) != 2:
        return False
    return all(isinstance(n, Integral) and not isinstance(n, bool) for n in link)


def strongest_links(weights: Float[Tensor, "q k"]) -> set[tuple[int, int]]:
    """One link (key position, query position) per query: the key of largest weight.

    For cross-attention these are (source position, target position). Of equal weights
    the first wins. Raises TypeError or ValueError unless weights is a tensor "q k" of
    finite floating-point numbers.
    """
    check_tensor("weights", weights, ("query", "key"))
    check_floating(weights=weights)
    if not weights.isfinite().all():
        raise ValueError("weights must be finite numbers, got NaN or infinity")
    return {(key, query) for query, key in enumerate(weights.argmax(dim=1).tolist())}
