"""Which real sentences are held out: a rule that needs no list.

Knows strings. Knows nothing of where they come from; the worlds split themselves.
"""

import hashlib

from course_utils.shapes import check_greater, check_rate, check_type


def held_out(sentence: str, share: float = 0.02) -> bool:
    """Whether a sentence belongs to the held-out share, decided by a hash of it.

    A pure function of the sentence: all translations of one sentence are held out
    together. Upper case and white space make no difference.
    Raises TypeError for a sentence that is not a str, ValueError unless 0 < share < 1.
    """
    check_type(str, sentence=sentence)
    check_greater(0, share=share)
    check_rate(share=share)
    words = " ".join(sentence.casefold().split())
    digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
