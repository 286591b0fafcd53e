"""Read the grammar of the story world: its slots, lists, plots, beats and wordings.

Knows the file format and the spelling of slots. Knows nothing of probabilities or
seeds.
"""

import functools
import re
from collections.abc import Iterator
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

    name: str
    fillers: tuple[Filler, ...] = ()
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


class GrammarError(ValueError):
    """A grammar file that cannot be read; the message names the line."""


def parse_wording(text: str, grammar: Grammar, space: bool) -> tuple:
    """Parse one wording into a sequence of pieces, uses and choices.

    space: whether a space precedes the first piece. Raises ValueError for a syntax
    error.
    """
    marks = MARK.findall(text)
    sequence = _sequence(marks, grammar, space)
    if marks:
        raise ValueError(f"unmatched {marks[0]!r}")
    return sequence


def _sequence(marks: list[str], grammar: Grammar, space: bool) -> tuple:
    """Consume marks up to "|", "]" or the end; a space belongs to the next piece."""
    items: list = []
    while marks and marks[0] not in ("|", "]"):
        mark = marks.pop(0)
        if mark == "[":
            items.append(_choice(marks, grammar, space))
        elif mark[0] == "{" and mark[-1] == "}" and len(mark) > 1:
            items.append(_use(mark[1:-1], grammar, space))
        elif mark[0] == "<" and mark[-1] == ">" and len(mark) > 1:
            if mark[1:-1] not in grammar.lists:
                raise ValueError(f"there is no list {mark[1:-1]!r}")
            options = grammar.lists[mark[1:-1]]
            items.append(
                Choice(tuple(parse_wording(o, grammar, space) for o in options))
            )
        elif mark[0] in "{}<>":
            raise ValueError(f"unmatched {mark!r}")
        else:
            items.extend(pieces(" " * space + mark.rstrip(" ")))
            space = mark.endswith(" ")
            continue
        space = False
    if space and items:
        raise ValueError("a space at the end of a wording or of a choice")
    return tuple(items)


def _choice(marks: list[str], grammar: Grammar, space: bool) -> Choice:
    options = [_sequence(marks, grammar, space)]
    while marks and marks[0] == "|":
        marks.pop(0)
        options.append(_sequence(marks, grammar, space))
    if not marks:
        raise ValueError("a '[' that is never closed")
    marks.pop(0)
    if len(set(options)) < max(2, len(options)):
        raise ValueError("a choice with a single or a repeated option")
    return Choice(tuple(options))


def _use(text: str, grammar: Grammar, space: bool) -> Use:
    capital = text[:1].isupper()
    text = text[:1].lower() + text[1:]
    article = text.startswith("a ")
    name, _, form = text.removeprefix("a ").partition(".")
    if name in PRONOUNS["he"]:
        form = name
        name = "hero"
    if form[:1].isupper():
        capital = True
        form = form.lower()
    if name not in grammar.slots:
        raise ValueError(f"there is no slot {name!r}")
    if form and form not in PRONOUNS["he"]:
        raise ValueError(f"there is no form {form!r}; use he, him, his or himself")
    return Use(name, form or "word", article, capital, space)


def read_grammar(text: str, source: str = "stories.txt") -> Grammar:
    """Parse a grammar. Raises GrammarError for a syntax error, naming source and line.

    text: the content of the file. source: its name.
    """
    grammar = Grammar()
    reader = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            if line[0] != " ":
                reader = _header(line, grammar)
            elif reader is None:
                raise ValueError("a line that belongs to no slot, list or beat")
            else:
                reader(line.strip())
        except ValueError as error:
            raise GrammarError(f"{source}, line {number}: {error}") from None
    for name in ("opening", "closing"):
        if name not in grammar.sections:
            raise GrammarError(f"{source}: the section {name!r} is missing")
    if not grammar.plots:
        raise GrammarError(f"{source}: there is no plot")
    for part in _incomplete(grammar):
        raise GrammarError(f"{source}: {part}")
    return grammar


def _incomplete(grammar: Grammar) -> Iterator[str]:
    """What a parsed grammar lacks to tell a story."""
    for slot in grammar.slots.values():
        if not slot.fillers:
            yield f"the slot {slot.name!r} has no words"
        if slot.agrees is not None and slot.agrees not in grammar.slots:
            yield f"the slot {slot.name!r} agrees with an unknown slot {slot.agrees!r}"
    for name, beats in grammar.sections.items():
        if not beats:
            yield f"the section {name!r} has no beats"
        for beat in beats:
            if not beat.wordings.options:
                yield f"the beat {beat.name!r} of {name!r} has no wordings"


def _header(line: str, grammar: Grammar):
    """Begin a slot, list, section or beat; return the parser of its indented lines."""
    word, _, rest = line.strip().partition(" ")
    if word == "slot" and rest:
        name, _, agrees = rest.partition(" as ")
        grammar.slots[name] = Slot(name, agrees=agrees or None)
        return functools.partial(_read_fillers, grammar, name)
    if word == "list" and rest:
        return functools.partial(_read_list, grammar.lists.setdefault(rest, []))
    if (word == "plot" and rest) or line.strip() in ("opening", "closing"):
        if (rest or word) in grammar.sections:
            raise ValueError(f"a second section {rest or word!r}")
        grammar.sections[rest or word] = []
        return None
    if word == "beat" and rest and grammar.sections:
        section = list(grammar.sections)[-1]
        grammar.sections[section].append(Beat(section, rest, Choice(())))
        return functools.partial(_read_wording, grammar, grammar.sections[section])
    raise ValueError(
        f"expected slot, list, opening, plot, closing or beat, not {line!r}"
    )


def _read_fillers(grammar: Grammar, name: str, line: str) -> None:
    pronoun, _, words = line.partition(":")
    if pronoun not in PRONOUNS or not words.strip():
        raise ValueError(
            f"expected 'she: word, word', 'he: …' or 'it: …', not {line!r}"
        )
    old = grammar.slots[name]
    new = tuple(Filler(word.strip(), pronoun) for word in words.split(","))
    grammar.slots[name] = Slot(name, old.fillers + new, old.agrees)


def _read_list(options: list[str], line: str) -> None:
    outside_brackets = r"\|(?![^\[]*\])"
    options.extend(option.strip() for option in re.split(outside_brackets, line))


def _read_wording(grammar: Grammar, beats: list[Beat], line: str) -> None:
    if not line.startswith("- "):
        raise ValueError(f"a wording begins with '- ', not {line!r}")
    beat = beats[-1]
    text = line[2:].strip()
    first = beat.section == "opening" and len(beats) == 1
    sequence = () if text == "(nothing)" else parse_wording(text, grammar, not first)
    if sequence in beat.wordings.options:
        raise ValueError("the same wording twice")
    wordings = Choice((*beat.wordings.options, sequence))
    beats[-1] = Beat(beat.section, beat.name, wordings)


@functools.cache
def load_grammar() -> Grammar:
    """The grammar that ships with the package."""
    file = resources.files(__package__).joinpath("stories.txt")
    return read_grammar(file.read_text(encoding="utf-8"))
