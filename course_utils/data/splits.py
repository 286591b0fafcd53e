"""Which real sentences are held out: a rule that needs no list.

Knows strings. Knows nothing of where they come from; the worlds split themselves.
"""

import hashlib

from course_utils.shapes import check_number


def held_out(sentence: str, fraction: float = 0.02) -> bool:
    """Whether a sentence is among the held-out fraction, decided by a hash of it.

    A pure function of the sentence: all translations of one sentence are held out
    together. Upper case and white space make no difference.
    """
    check_number("[0, 1)", fraction=fraction)
    words = " ".join(sentence.casefold().split())
    digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < fraction * 2**64
