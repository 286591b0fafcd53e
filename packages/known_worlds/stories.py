"""The story world: short stories whose exact probability is known.

Knows how to generate the story of an index, and the probability of each of its tokens.
Knows nothing of tensors, models or grading.
"""

import functools
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

from known_worlds import check_index, check_split
from known_worlds.story_grammar import (
    END,
    Choice,
    Filler,
    Grammar,
    Use,
    load_grammar,
    spell,
)
from known_worlds.story_graph import load_graph, read

KINDS = ("wording", "copying", "ending")
# The world has no end: each split begins at its own index.
SPLITS = {"train": 0, "validation": 10**9, "test": 2 * 10**9}


@dataclass(frozen=True)
class Story:
    """One story of the world.

    text: the story without the end token.
    log_probability: of the story with its end token, exact, in nats.
    plot: the name of its plot. bindings: each slot that it uses, and the word in it.
    tokens: GPT-2's pieces of the text (" the", "Once", "."), then "<eos>".
    beats: the name of each beat, and its part of the text.
    kinds: for each token "wording", "copying" (a word or pronoun that the text before
    it determines) or "ending" (the end token, or the token that could have been it).
    """

    text: str
    log_probability: float
    plot: str
    bindings: dict[str, str]
    beats: dict[str, str]
    tokens: list[str]
    kinds: list[str]

    @property
    def floor(self) -> list[float]:
        """-log p(token | tokens before) in nats, one per token, the end included."""
        steps = read(self.tokens, load_graph(), load_grammar().slots)
        return [-math.log(chance) for chance, _ in steps]


def story(index: int, seed: int = 0) -> Story:
    """The story at this index: the same text on any machine and version of Python.

    Raises ValueError for a negative index or seed.
    """
    check_index(index=index, seed=seed)
    digest = hashlib.sha512(f"story {int(seed)} {int(index)}".encode()).digest()
    return tell(load_grammar(), int.from_bytes(digest, "big"))


def texts(split: str, limit: int) -> list[str]:
    """The first `limit` stories of a split. Raises ValueError for an unknown split."""
    check_split(split, SPLITS)
    return [story(SPLITS[split] + index).text for index in range(limit)]


def tell(grammar: Grammar, number: int) -> Story:
    """The story that a number stands for: each choice takes the next of its digits.

    number: an integer >= 0, large enough for all choices.
    """
    teller = _Teller(grammar, number)
    beats = {}
    begin = 0
    plot = teller.pick(grammar.plots)
    for section in ("opening", plot, "closing"):
        for beat in grammar.sections[section]:
            begin = len(teller.tokens)
            teller.tell((beat.wordings,))
            beats[beat.name] = "".join(teller.tokens[begin:])
    teller.write((END,), "ending")
    teller.kinds[begin] = "ending"
    return Story(
        text="".join(teller.tokens[:-1]),
        log_probability=-math.log(teller.ways),
        plot=plot,
        bindings={name: filler.text for name, filler in teller.bound.items()},
        beats=beats,
        tokens=teller.tokens,
        kinds=teller.kinds,
    )


class _Teller:
    """Generates one story; each choice is the next digit of one large number."""

    def __init__(self, grammar: Grammar, number: int):
        self.grammar = grammar
        self.number = number
        self.ways = 1
        self.bound: dict[str, Filler] = {}
        self.tokens: list[str] = []
        self.kinds: list[str] = []

    def pick(self, options):
        """One of the options: the next digit in base len(options)."""
        self.number, digit = divmod(self.number, len(options))
        self.ways *= len(options)
        return options[digit]

    def tell(self, sequence: tuple) -> None:
        for item in sequence:
            if isinstance(item, Choice):
                self.tell(self.pick(item.options))
            elif isinstance(item, Use):
                self.use(item)
            else:
                self.write((item,), "wording")

    def use(self, use: Use) -> None:
        kind = "copying"
        if use.slot not in self.bound:
            kind = "wording"
            options = self.grammar.slots[use.slot].choices(self.bound)
            self.bound[use.slot] = self.pick(options)
        self.write(spell(use, self.bound[use.slot]), kind)

    def write(self, tokens: tuple[str, ...], kind: str) -> None:
        self.tokens.extend(tokens)
        self.kinds.extend([kind] * len(tokens))


def plots() -> list[str]:
    """The names of the plots."""
    return load_grammar().plots


@functools.cache
def vocabulary() -> frozenset[str]:
    """All pieces that a story can contain, without the end token."""
    beats = [beat for beats in load_grammar().sections.values() for beat in beats]
    return frozenset(token for beat in beats for token in _pieces_of(beat.wordings))


def _pieces_of(item: Choice | Use | str) -> Iterator[str]:
    if isinstance(item, Choice):
        for option in item.options:
            for part in option:
                yield from _pieces_of(part)
    elif isinstance(item, Use):
        for filler in load_grammar().slots[item.slot].fillers:
            yield from spell(item, filler)
    else:
        yield item
