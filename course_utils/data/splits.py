"""Which real sentences are held out: a rule that needs no list.

Knows strings. Knows nothing of where they come from; the worlds split themselves.
"""

import hashlib
from collections.abc import Iterable

from course_utils.checks import check_number


def held_out(sentence: str, fraction: float = 0.02) -> bool:
    """Whether a sentence is among the held-out fraction, decided by a hash of it.

    A pure function of the sentence: all translations of one sentence are held out
    together. Upper case and white space make no difference.
    """
    check_number("[0, 1)", fraction=fraction)
    words = " ".join(sentence.casefold().split())
    digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < fraction * 2**64


def split_pairs(
    pairs: Iterable[tuple[str, str]], fraction: float = 0.02
) -> tuple[list[tuple[str, str]], dict[str, list[str]]]:
    """Pairs to learn from, and a test: {sentence: all its translations}.

    The first sentence of a pair decides (`held_out`). A pair whose translation is an
    answer of the test is in neither.
    """
    pairs = list(pairs)
    if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
        raise ValueError("pairs must be (sentence, translation) each")
    test: dict[str, list[str]] = {}
    for sentence, translation in pairs:
        if held_out(sentence, fraction):
            test.setdefault(sentence, []).append(translation)
    answers = {text.casefold() for texts in test.values() for text in texts}
    learn = [
        (sentence, translation)
        for sentence, translation in pairs
        if not held_out(sentence, fraction) and translation.casefold() not in answers
    ]
    return learn, test
