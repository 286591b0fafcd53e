"""Generated languages whose truth is known: `stories`, `phrases` and `senses`.

Each text is a pure function of its index, on every machine. Version 1 is frozen.
"""

import operator

__version__ = "1.0"


def check_index(**numbers: int) -> None:
    """Raise TypeError for another type, ValueError for a negative index or seed."""
    for name, number in numbers.items():
        if not hasattr(number, "__index__"):
            raise TypeError(f"{name} must be an integer, got {number!r:.60}")
        if operator.index(number) < 0:
            raise ValueError(f"{name} must be >= 0, got {number}")


def check_split(split: str, splits) -> None:
    """Raise ValueError for a split that a world does not have."""
    if split not in tuple(splits):
        known = ", ".join(map(repr, splits))
        raise ValueError(f"split must be one of {known}; got {split!r}")
