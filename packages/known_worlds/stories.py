"""The story world: short stories whose exact probability is known.

Knows how to generate the story of an index, and the probability of each of its tokens.
Knows nothing of tensors, models or grading.
"""

import functools
import hashlib
import math
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
from known_worlds.story_graph import first_node, load_graph, read, totals

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
        """-log p(token | tokens before) in nats, one per token, the end included.

        Raises as `token_costs` where the tokens are not a story of the world.
        """
        return token_costs(self.tokens)

    @property
    def floor_by_kind(self) -> dict[str, float]:
        """The nats of the story for each kind of token."""
        costs = list(zip(self.kinds, self.floor, strict=True))
        return {kind: sum(c for k, c in costs if k == kind) for kind in KINDS}


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


def token_costs(tokens: list[str]) -> list[float]:
    """-log p(token | tokens before) in nats for the tokens of a story of the world.

    Raises ValueError unless the tokens (with the end token) are a complete story.
    """
    grammar = load_grammar()
    steps = list(read(tokens, first_node(grammar, load_graph()), grammar.slots))
    if not steps or not steps[-1][1] or tokens[-1] != END:
        raise ValueError(
            f"tokens must be a complete story of the world with its end token {END!r}, "
            f"got {len(tokens)} tokens that are not"
        )
    return [-math.log(chance) for chance, _ in steps]


@dataclass(frozen=True)
class Floor:
    """The lowest loss that a model can have on the world, as means over stories."""

    nats_per_token: float
    nats_per_story: float
    bits_per_byte: float
    nats_per_story_by_kind: dict[str, float]
    tokens_per_story_by_kind: dict[str, float]


def mean_floor(count: int = 1000, seed: int = 0, start: int = 0) -> Floor:
    """The floor averaged over the stories start, …, start + count - 1.

    The end token counts as a token and as one byte. Raises ValueError for a negative
    seed or start.
    """
    stories = [story(index, seed) for index in range(start, start + count)]
    nats = -sum(one.log_probability for one in stories)
    tokens = sum(len(one.tokens) for one in stories)
    size = sum(len(one.text.encode()) + 1 for one in stories)
    by_kind = [one.floor_by_kind for one in stories]
    return Floor(
        nats_per_token=nats / tokens,
        nats_per_story=nats / count,
        bits_per_byte=nats / math.log(2) / size,
        nats_per_story_by_kind={k: sum(b[k] for b in by_kind) / count for k in KINDS},
        tokens_per_story_by_kind={
            k: sum(one.kinds.count(k) for one in stories) / count for k in KINDS
        },
    )


def entropy() -> float:
    """The exact entropy of the world in nats per story, the end token included."""
    grammar = load_grammar()
    return totals(first_node(grammar, load_graph()), grammar.slots)[1]


def story_count() -> int:
    """The exact number of different stories in the world."""
    grammar = load_grammar()
    return totals(first_node(grammar, load_graph()), grammar.slots)[0]


def plots() -> list[str]:
    """The names of the plots."""
    return load_grammar().plots


def vocabulary() -> list[str]:
    """All pieces that a story can contain, sorted, without the end token."""
    return list(_vocabulary())


@functools.cache
def _vocabulary() -> tuple[str, ...]:
    grammar = load_grammar()
    tokens = set()

    def collect(sequence: tuple) -> None:
        for item in sequence:
            if isinstance(item, Choice):
                for option in item.options:
                    collect(option)
            elif isinstance(item, Use):
                for filler in grammar.slots[item.slot].fillers:
                    tokens.update(spell(item, filler))
            else:
                tokens.add(item)

    for beats in grammar.sections.values():
        collect(tuple(beat.wordings for beat in beats))
    return tuple(sorted(tokens))
