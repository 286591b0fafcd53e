"""Words with alignment labels in two languages, reproducible draws, the word table.

Knows how words join into text. Knows nothing of nouns, verbs or sentences.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

MASK = (1 << 64) - 1
ARTICLES = ("el", "la", "los", "las")

Word = tuple[str, frozenset[str], frozenset[str]]  # text, sure labels, possible labels
Words = tuple[Word, ...]


class Retry(Exception):  # noqa: N818
    """The choices made so far cannot become a sentence of this world: draw again."""


@dataclass(frozen=True)
class Both:
    """The same phrase in both languages; `+` appends in both."""

    english: Words = ()
    spanish: Words = ()

    def __add__(self, other: "Both") -> "Both":
        return Both(self.english + other.english, self.spanish + other.spanish)


@cache
def words(text: str, path: str = "") -> Words:
    """Parse "word:label,~label ..."; words that share path and label are aligned.

    A label with ~ makes its links only possible, not sure. The words after the first in
    "look_for" get possible links.
    """
    result = []
    for item in text.split():
        word, _, names = item.partition(":")
        labels = [label for label in names.split(",") if label]
        sure = frozenset(path + label for label in labels if label[0] != "~")
        maybe = frozenset(path + label[1:] for label in labels if label[0] == "~")
        first, *particles = word.split("_")
        result.append((first, sure, maybe))
        result += [(particle, frozenset(), sure) for particle in particles]
    return tuple(result)


@cache
def both(english: str, spanish: str, path: str = "") -> Both:
    """Labelled words in both languages; path: where the phrase is in the sentence."""
    return Both(words(english, path), words(spanish, path))


class Draw:
    """Random integers from a hash of the key: the same on any machine and Python."""

    def __init__(self, *key: str | int) -> None:
        self.state = int.from_bytes(sha256(repr(key).encode()).digest()[:8], "big")

    def below(self, n: int) -> int:
        """An integer in [0, n), by splitmix64 (Steele, Lea and Flood, 2014)."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) * n) >> 64

    def chance(self, percent: int) -> bool:
        """True with this probability."""
        return self.below(100) < percent

    def pick(self, items: Sequence) -> Any:
        """One of the items, each equally likely. Raises Retry if there are none."""
        if not items:
            raise Retry
        return items[self.below(len(items))]

    def weighted(self, weights: dict) -> Any:
        """One of the keys, by its integer weight. Raises Retry if there are none."""
        left = self.below(sum(weights.values())) if weights else -1
        for item, weight in weights.items():
            left -= weight
            if left < 0:
                return item
        raise Retry


@cache
def grammar() -> dict:
    """The content of phrases.toml: a table is a list of rows, a row a list of cells."""
    text = files("known_worlds").joinpath("phrases.toml").read_text("utf-8")

    def rows(value):
        if isinstance(value, dict):
            return {name: rows(inner) for name, inner in value.items()}
        if not isinstance(value, str) or "\n" not in value:
            return value
        lines = value.strip().splitlines()
        return [[column.strip() for column in line.split("|")] for line in lines]

    return rows(tomllib.loads(text))


def joined(phrase: Words, spanish: bool) -> list[Word]:
    """Apply the rules for adjacent words: an apple; del niño, al niño, Ana e Inés."""
    result: list[Word] = []
    for word in phrase:
        text = word[0].lower()
        last = result[-1][0] if result else ""
        if spanish and text == "el" and last in ("a", "de"):
            _, sure, maybe = result.pop()
            word = ("al" if last == "a" else "del", sure | word[1], maybe | word[2])
        elif spanish and last == "y" and text[0] == "i":
            result[-1] = ("e", *result[-1][1:])
        elif not spanish and last == "a" and (text[0] in "aeiou" or text == "honest"):
            result[-1] = ("an", *result[-1][1:])
        result.append(word)
    return result


def pieces(phrase: Words, mark: str, spanish: bool) -> list[Word]:
    """The words as tokens: with spaces, a capital and punctuation; mark: "." or "?"."""
    (first, *labels), *rest = joined(phrase, spanish)
    spaced = [(word if word == "'s" else f" {word}", *more) for word, *more in rest]
    opening = [("¿", frozenset(), frozenset("!"))] if spanish and mark == "?" else []
    closing = (mark, frozenset("!"), frozenset())
    return [*opening, (first[0].upper() + first[1:], *labels), *spaced, closing]


def links(source: list[Word], target: list[Word]) -> tuple[frozenset, frozenset]:
    """(sure, possible) index pairs of the words that share a label."""
    sure, possible = set(), set()
    for i, (_, strong, weak) in enumerate(source):
        for j, (_, solid, faint) in enumerate(target):
            if strong & solid:
                sure.add((i, j))
            elif strong & faint or weak & solid:
                possible.add((i, j))
    return frozenset(sure), frozenset(sure | possible)
