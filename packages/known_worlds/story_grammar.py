"""Read the grammar of the story world: its slots, lists, plots, beats and wordings.

Knows the file format and the spelling of slots. Knows nothing of probabilities or
seeds.
"""

import functools
import re
from dataclasses import dataclass, field
from importlib import resources
from typing import NamedTuple

END = "<eos>"
PRONOUNS = {
    "she": {"he": "she", "him": "her", "his": "her", "himself": "herself"},
    "he": {"he": "he", "him": "him", "his": "his", "himself": "himself"},
    "it": {"he": "it", "him": "it", "his": "its", "himself": "itself"},
}
PIECE = re.compile(
    r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"
)
OUTSIDE_BRACKETS = r"\|(?![^\[]*\])"
MARK = re.compile(r"\{[^{}]*\}|<[^<>]*>|[\[\]|]|[^\[\]{}<>|]+|.")


def pieces(text: str) -> list[str]:
    """Split a text into GPT-2's pieces (" the", "Once", "."); they join to the text."""
    return PIECE.findall(text)


class Filler(NamedTuple):
    """A word for a slot, and the pronoun that refers to it: "she", "he" or "it"."""

    text: str
    pronoun: str


@dataclass(frozen=True, eq=False)
class Slot:
    """A variable that is bound once per story.

    fillers: the words that it can take. agrees: the slot whose pronoun it must share.
    """

    fillers: tuple[Filler, ...]
    agrees: str | None = None

    def choices(self, bound: dict[str, Filler]) -> tuple[Filler, ...]:
        """The fillers that agree with the slots that are bound already."""
        if self.agrees not in bound:
            return self.fillers
        return _agreeing(self, bound[self.agrees].pronoun)


@functools.lru_cache(maxsize=1000)
def _agreeing(slot: Slot, pronoun: str) -> tuple[Filler, ...]:
    return tuple(filler for filler in slot.fillers if filler.pronoun == pronoun)


class Use(NamedTuple):
    """One use of a slot: the word itself ("word") or one of its pronouns ("his")."""

    slot: str
    form: str = "word"
    article: bool = False
    capital: bool = False
    space: bool = True


@functools.lru_cache(maxsize=100_000)
def spell(use: Use, filler: Filler) -> tuple[str, ...]:
    """The pieces of the text that a use of a slot writes for a filler."""
    text = filler.text if use.form == "word" else PRONOUNS[filler.pronoun][use.form]
    if use.article:
        text = ("an " if text[0] in "aeiou" else "a ") + text
    if use.capital:
        text = text[0].upper() + text[1:]
    return tuple(pieces(" " * use.space + text))


@dataclass(frozen=True)
class Choice:
    """Equally likely sequences of pieces, uses and choices."""

    options: tuple[tuple, ...]


@dataclass(frozen=True)
class Beat:
    """One step of a story and its possible wordings."""

    section: str
    name: str
    wordings: Choice


@dataclass
class Grammar:
    """The content of the file: slots, lists, and the beats of each section."""

    slots: dict[str, Slot] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    sections: dict[str, list[Beat]] = field(default_factory=dict)

    @property
    def plots(self) -> list[str]:
        """The names of the plots, in the file's order."""
        return [name for name in self.sections if name not in ("opening", "closing")]


def _sequence(marks: list[str], grammar: Grammar, space: bool) -> tuple:
    """Consume marks up to "|", "]" or the end; a space belongs to the next piece.

    space: whether a space precedes the first piece.
    """
    items: list = []
    while marks and marks[0] not in ("|", "]"):
        mark = marks.pop(0)
        if mark[0] not in "[{<":
            items.extend(pieces(" " * space + mark.rstrip(" ")))
            space = mark.endswith(" ")
            continue
        if mark == "[":
            items.append(_choice(marks, grammar, space))
        elif mark[0] == "{":
            items.append(_use(mark[1:-1], space))
        else:
            options = map(MARK.findall, grammar.lists[mark[1:-1]])
            items.append(Choice(tuple(_sequence(o, grammar, space) for o in options)))
        space = False
    return tuple(items)


def _choice(marks: list[str], grammar: Grammar, space: bool) -> Choice:
    options = [_sequence(marks, grammar, space)]
    while marks.pop(0) == "|":
        options.append(_sequence(marks, grammar, space))
    return Choice(tuple(options))


def _use(text: str, space: bool) -> Use:
    lower = text.lower()
    article = lower.startswith("a ")
    name, _, form = lower.removeprefix("a ").partition(".")
    if name in PRONOUNS["he"]:
        name, form = "hero", name
    return Use(name, form or "word", article, text != lower, space)


def read_grammar(text: str) -> Grammar:
    """Parse a grammar; the head of stories.txt describes the format.

    The file is frozen, so nothing here looks for faults in it.
    """
    grammar = Grammar()
    part = ""
    lines = [line for line in text.splitlines() if line.strip() and line[0] != "#"]
    for block in re.split(r"\n(?=\S)", "\n".join(lines)):
        header, *rows = block.split("\n  ")
        kind, _, name = header.partition(" ")
        if kind == "slot":
            name, _, agrees = name.partition(" as ")
            grammar.slots[name] = Slot(_fillers(rows), agrees or None)
        elif kind == "list":
            options = [re.split(OUTSIDE_BRACKETS, row) for row in rows]
            grammar.lists[name] = [one.strip() for row in options for one in row]
        elif kind == "beat":
            space = part != "opening" or len(grammar.sections[part]) > 0
            texts = [row.removeprefix("- ").replace("(nothing)", "") for row in rows]
            options = [_sequence(MARK.findall(text), grammar, space) for text in texts]
            beat = Beat(part, name, Choice(tuple(options)))
            grammar.sections[part].append(beat)
        else:
            part = name or kind
            grammar.sections[part] = []
    return grammar


def _fillers(rows: list[str]) -> tuple[Filler, ...]:
    pairs = [row.split(": ") for row in rows]
    return tuple(
        Filler(word, pronoun) for pronoun, words in pairs for word in words.split(", ")
    )


@functools.cache
def load_grammar() -> Grammar:
    """The grammar that ships with the package."""
    file = resources.files(__package__).joinpath("stories.txt")
    return read_grammar(file.read_text(encoding="utf-8"))
