"""Compare printed texts number by number, where another machine made the stored one.

Words, whole numbers, versions and dates must be the same. A decimal may differ by a
hundredth, or by one in the last digit that is printed where that is at most a twentieth
of it: 0.36 may become 0.37, but 0.1 not 0.2. What is nearly zero counts as zero.
"""

import re

RELATIVE, ONE_DIGIT, NOTHING = 0.01, 0.05, 1e-9
# No part of a version or a date such as 2.13.0 is a number.
NUMBER = re.compile(
    r"(?<![\w.])[-+−]?\d+(?:,\d{3}\b)*(?:\.\d*)?(?:[eE][-+]?\d+)?(?!\w|\.\d)"
)


def same_but_for_last_digits(stored, computed):
    """Whether two texts say the same, but for what another machine may change."""
    if _blanks(NUMBER.sub("#", stored)) != _blanks(NUMBER.sub("#", computed)):
        return False
    pairs = zip(NUMBER.findall(stored), NUMBER.findall(computed), strict=True)
    return all(near(old, new) for old, new in pairs)


def _blanks(text):
    """Every run of blanks as one: a number of another width moves what follows."""
    return " ".join(text.split())


def near(old, new):
    """Whether two printed numbers may be the same result of two machines."""
    a, b = _value(old), _value(new)
    if _is_whole(old) and _is_whole(new):
        return a == b
    if abs(a) < NOTHING and abs(b) < NOTHING:
        return True
    size, gap = max(abs(a), abs(b)), abs(a - b)
    one_digit = 1.001 * max(_last_digit(old), _last_digit(new))
    return gap <= RELATIVE * size or gap <= min(one_digit, ONE_DIGIT * size)


def _value(text):
    return float(text.replace(",", "").replace("−", "-"))


def _is_whole(text):
    return not re.search("[.eE]", text)


def _last_digit(text):
    """What one in the last printed digit is worth; 0 for a whole number."""
    if _is_whole(text):
        return 0.0
    digits, _, exponent = text.lower().partition("e")
    decimals = digits.partition(".")[2]
    return 10.0 ** (int(exponent or 0) - len(decimals))
