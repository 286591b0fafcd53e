"""Compare printed texts number by number, where another machine made the stored one.

The words must be the same. A number may differ by a hundredth, or by one in the last
digit that is printed; what is nearly zero counts as zero.
"""

import re

RELATIVE, NOTHING = 0.01, 1e-9
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d[\d,]*(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w])")


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
    a, b = _value(old), _value(new)
    if abs(a) < NOTHING and abs(b) < NOTHING:
        return True
    coarser = max(_last_digit(old), _last_digit(new))
    return abs(a - b) <= max(RELATIVE * max(abs(a), abs(b)), 1.001 * coarser)


def _value(text):
    return float(text.replace(",", "").replace("−", "-"))


def _last_digit(text):
    """What one in the last printed digit is worth; 0 for a whole number."""
    digits, _, exponent = text.lower().partition("e")
    _, point, decimals = digits.partition(".")
    if not point and not exponent:
        return 0.0
    return 10.0 ** (int(exponent or 0) - len(decimals))
