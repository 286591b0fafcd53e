"""Grade a text by the grammar of the story world: where does it first go wrong?

Knows the graph of stories. Knows nothing of models.
"""

from dataclasses import dataclass

from known_worlds.stories import vocabulary
from known_worlds.story_grammar import END, Use, load_grammar, pieces, spell
from known_worlds.story_graph import Reading, advance, load_graph

SLOT_KINDS = {
    **dict.fromkeys(("hero", "friend", "petname"), "name"),
    **dict.fromkeys(("child", "parent"), "person"),
    **dict.fromkeys(("place", "spot"), "place"),
    "color": "color",
}
KINDS = ("name", "person", "place", "color", "object", "pronoun", "wording")
KINDS += ("unknown word", "no ending", "after the end")


@dataclass(frozen=True)
class Mistake:
    """The first piece that no story of the world could have at its place.

    kind: one of KINDS. position: its index among the pieces of the text.
    """

    kind: str
    position: int
    message: str


@dataclass(frozen=True)
class Grade:
    """The first mistake of a text, or None, and its plot, or None if unclear."""

    mistake: Mistake | None
    plot: str | None

    @property
    def full_marks(self) -> bool:
        """Whether the text is a story of the world."""
        return self.mistake is None

    def __str__(self) -> str:
        return self.mistake.message if self.mistake else "full marks"


def grade(text: str) -> Grade:
    """Whether a text belongs to the story world; if not, where it first goes wrong."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got a {type(text).__name__}")
    tokens = [*pieces(text), END]
    readings = [Reading(1.0, load_graph(), {})]
    plot = None
    for position, token in enumerate(tokens):
        after = advance(readings, token, load_grammar().slots)
        if not after:
            where = "".join(tokens[max(0, position - 3) : position]).strip()
            return Grade(_named(token, position, readings, where), plot)
        readings = after
        plot = _plot(readings) or plot
    return Grade(None, plot)


def _plot(readings: list[Reading]) -> str | None:
    """The one plot that the readings can be in, or None."""
    sections = set().union(*(r.node.sections for r in readings))
    sections -= {"opening", "closing"}
    return sections.pop() if len(sections) == 1 else None


def _named(token: str, position: int, readings: list[Reading], where: str) -> Mistake:
    """What was wrong with a token that none of the readings could go on with."""
    word = f"“{token.strip()}”"
    slots = load_grammar().slots
    bound = [use for r in readings for use in r.node.uses if use.slot in r.bound]
    forgotten = [
        use
        for use in bound
        if token in {spell(use, filler)[0] for filler in slots[use.slot].fillers}
    ]
    if forgotten:
        kind = _kind_of(forgotten[0])
        reason = f"{word} is not the {kind} that this story has"
    elif token == END:
        kind, reason = "no ending", "the story ends too early"
    elif any(END in reading.node.steps for reading in readings):
        kind, reason = "after the end", f"the story has already ended before {word}"
    elif token not in vocabulary():
        kind, reason = "unknown word", f"no story has the word {word}"
    else:
        kind, reason = "wording", f"{word} cannot stand here"
    message = f"{kind}: {reason}, after “{where}”" if where else f"{kind}: {reason}"
    return Mistake(kind, position, message)


def _kind_of(use: Use) -> str:
    return "pronoun" if use.form != "word" else SLOT_KINDS.get(use.slot, "object")
