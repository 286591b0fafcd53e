"""The story grammar as a graph of pieces, and how to read a text along it exactly.

Knows probabilities and bound slots. Knows nothing of seeds or grading.
"""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

from known_worlds.story_grammar import (
    END,
    Beat,
    Choice,
    Filler,
    Grammar,
    Slot,
    Use,
    load_grammar,
    spell,
)


class Node:
    """A position between two pieces, with the arcs to the pieces that may come next.

    arcs: (probability, label, node); a label is a piece or the use of a slot.
    sections: the names of those that the position can belong to.
    """

    def __init__(self, arcs: list[tuple], sections: frozenset):
        self.arcs = arcs
        self.sections = sections
        self.steps: dict = {}
        for chance, label, target in arcs:
            self.steps.setdefault(label, []).append((chance, target))
        self.uses = [label for label in self.steps if isinstance(label, Use)]
        self._merged: dict = {}

    def follow(self, label: str | Use) -> tuple[float, "Node"]:
        """The probability of a label, and the node that it leads to.

        Where wordings share a beginning, the label leads to several nodes. They are
        merged into one that has the arcs of all, so that probabilities stay exact.
        """
        if label not in self._merged:
            ways = self.steps[label]
            total = math.fsum(chance for chance, _ in ways)
            node = ways[0][1]
            if len(ways) > 1:
                arcs = [
                    (chance / total * p, label, target)
                    for chance, way in ways
                    for p, label, target in way.arcs
                ]
                sections = frozenset().union(*(way.sections for _, way in ways))
                node = Node(arcs, sections)
            self._merged[label] = total, node
        return self._merged[label]


LAST = Node([], frozenset())


def _arcs(sequence: tuple, follow: list[tuple], sections: frozenset) -> list[tuple]:
    """The arcs at the start of a sequence that is followed by the arcs `follow`."""
    for item in reversed(sequence):
        if isinstance(item, Choice):
            probability = 1 / len(item.options)
            follow = [
                (probability * chance, label, target)
                for option in item.options
                for chance, label, target in _arcs(option, follow, sections)
            ]
        else:
            follow = [(1.0, item, Node(follow, sections))]
    return follow


def _beat_arcs(beats: list[Beat], follow: list[tuple]) -> list[tuple]:
    for beat in reversed(beats):
        follow = _arcs((beat.wordings,), follow, frozenset([beat.section]))
    return follow


def build_graph(grammar: Grammar) -> Node:
    """The graph of all stories: the node at which each of them begins."""
    closing = _beat_arcs(grammar.sections["closing"], [(1.0, END, LAST)])
    plots = [
        (chance / len(grammar.plots), label, target)
        for plot in grammar.plots
        for chance, label, target in _beat_arcs(grammar.sections[plot], closing)
    ]
    arcs = _beat_arcs(grammar.sections["opening"], plots)
    return Node(arcs, frozenset(["opening"]))


@functools.cache
def load_graph() -> Node:
    """The graph of the grammar that ships with the package."""
    return build_graph(load_grammar())


class Reading(NamedTuple):
    """One parse of the pieces so far; rest: the pieces of a slot still to come."""

    weight: float
    node: Node
    bound: dict[str, Filler]
    rest: tuple[str, ...] = ()


@functools.lru_cache(maxsize=10_000)
def _openings(use: Use, fillers: tuple[Filler, ...]) -> dict[str, list[tuple]]:
    """The (filler, further pieces) that an unbound slot can write, by first piece."""
    openings: dict[str, list[tuple]] = {}
    for filler in fillers:
        first, *rest = spell(use, filler)
        openings.setdefault(first, []).append((filler, tuple(rest)))
    return openings


def advance(
    readings: list[Reading], token: str, slots: dict[str, Slot]
) -> list[Reading]:
    """The readings after one more piece, their weights times its probability."""
    after = []
    for weight, node, bound, rest in readings:
        if rest:
            if rest[0] == token:
                after.append(Reading(weight, node, bound, rest[1:]))
            continue
        if token in node.steps:
            chance, target = node.follow(token)
            after.append(Reading(weight * chance, target, bound))
        for use in node.uses:
            if use.slot in bound:
                spelled = spell(use, bound[use.slot])
                if spelled[0] == token:
                    chance, target = node.follow(use)
                    after.append(Reading(weight * chance, target, bound, spelled[1:]))
                continue
            options = slots[use.slot].choices(bound)
            for filler, rest in _openings(use, options).get(token, ()):
                chance, target = node.follow(use)
                probability = chance / len(options)
                now = {**bound, use.slot: filler}
                after.append(Reading(weight * probability, target, now, rest))
    return after


def read(
    tokens: list[str], start: Node, slots: dict[str, Slot]
) -> Iterator[tuple[float, list[Reading]]]:
    """Read piece by piece; yields p(piece | pieces before) and the readings after it.

    The sum over all readings keeps p exact where the prefix is ambiguous. A piece that
    is not possible has probability 0 and ends the iteration.
    """
    readings = [Reading(1.0, start, {})]
    for token in tokens:
        readings = advance(readings, token, slots)
        total = math.fsum(reading.weight for reading in readings)
        yield total, readings
        if not readings:
            return
        readings = [
            reading._replace(weight=reading.weight / total) for reading in readings
        ]
