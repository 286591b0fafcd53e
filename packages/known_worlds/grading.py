"""Grade a text by the grammar of the story world, and name each mistake in it.

Knows the graph of stories and how to repair a text. Knows nothing of models.
"""

import dataclasses
import functools
from collections.abc import Iterable
from dataclasses import dataclass

from course_utils.shapes import check_choice, check_type, shown
from known_worlds.stories import vocabulary
from known_worlds.story_grammar import (
    END,
    PRONOUNS,
    Filler,
    Slot,
    Use,
    load_grammar,
    pieces,
    spell,
)
from known_worlds.story_graph import (
    Node,
    Reading,
    advance,
    first_node,
    load_graph,
)

SLOT_KINDS = {
    **dict.fromkeys(("hero", "friend", "petname"), "name"),
    **dict.fromkeys(("child", "parent"), "person"),
    **dict.fromkeys(("place", "spot"), "place"),
    "color": "color",
}
KINDS = (  # the kinds of mistakes; where two repairs tie, the first kind wins
    *("capital", "spacing", "quote", "punctuation", "article", "pronoun"),
    *("name", "person", "place", "color", "object", "repeated word", "unknown word"),
    *("word order", "extra word", "missing word", "wording"),
    *("repeated sentence", "missing sentence", "repeated beat", "missing beat"),
    *("beat order", "other plot", "no ending", "after the end"),
)
HOPELESS = ("no ending", "after the end")  # mistakes that no repair corrects
LOOK_BACK = 4  # pieces before the failing one where a repair may begin
MOST_SKIPPED = 5  # pieces that one repair may replace
MOST_MISTAKES = 12  # grading stops after so many
ARTICLES = {"a", "an", "the"}
PRONOUN_WORDS = {word for forms in PRONOUNS.values() for word in forms.values()}


@dataclass(frozen=True)
class Mistake:
    """A mistake: its kind (one of KINDS), the index of the piece, and a message."""

    kind: str
    position: int
    message: str


@dataclass(frozen=True)
class Grade:
    """The mistakes in a text, and its plot (None if it could not be determined)."""

    mistakes: tuple[Mistake, ...]
    plot: str | None

    @property
    def full_marks(self) -> bool:
        """Whether the text is a story of the world."""
        return not self.mistakes

    def __str__(self) -> str:
        return "\n".join(m.message for m in self.mistakes) or "full marks"


def grade(text: str, extra_names: dict[str, str] | None = None) -> Grade:
    """Whether a text belongs to the story world; if not, what is wrong and where.

    extra_names: more heroes, for example {"Zoe": "girl"}.
    Raises TypeError for a text that is not a str or names that are not a dict,
    ValueError for an extra name that is not one capitalized word.
    """
    check_type(str, text=text)
    extra_names = {} if extra_names is None else extra_names
    check_type(dict, extra_names=extra_names)
    slots = {**load_grammar().slots, "hero": _heroes(extra_names)}
    return _Grader([*pieces(text), END], slots).grade()


def _heroes(extra_names: dict[str, str]) -> Slot:
    hero = load_grammar().slots["hero"]
    children = load_grammar().slots["child"].fillers
    pronouns = {child.text: child.pronoun for child in children}
    for name, child in extra_names.items():
        if not isinstance(name, str) or not name.isalpha() or name != name.capitalize():
            raise ValueError(
                "extra_names must map capitalized words to 'girl' or 'boy', got the "
                f"name {shown(name)}"
            )
        check_choice(f"extra_names[{shown(name)}]", child, tuple(pronouns))
    more = tuple(Filler(name, pronouns[child]) for name, child in extra_names.items())
    return dataclasses.replace(hero, fillers=hero.fillers + more) if more else hero


@dataclass(frozen=True)
class _Repair:
    """A change of the text after which reading continues.

    readings: those after the change. start: the position where they continue. size: the
    number of changed pieces. reach: the first position that they cannot read. jump: the
    (section, beat) to which reading jumps, if it does.
    """

    kind: str
    position: int
    message: str
    start: int
    readings: list[Reading]
    size: int = 1
    reach: int = 0
    jump: tuple[str, str] | None = None


@functools.cache
def _landings() -> dict[str, list[Node]]:
    """The nodes where a beat or a sentence begins, by a piece that may come first."""
    queue = list(load_graph().values())
    begins = dict.fromkeys(queue)
    seen = set(queue)
    while queue:
        for _, label, target in queue.pop().arcs:
            if target not in seen:
                seen.add(target)
                queue.append(target)
            goes_on = all(after.beats <= target.beats for _, _, after in target.arcs)
            if goes_on and isinstance(label, str) and _ends_sentence(label):
                begins[target] = None
    found: dict[str, list[Node]] = {}
    slots = load_grammar().slots
    for node in begins:
        for label in node.steps:
            firsts = {label}
            if isinstance(label, Use):
                firsts = {
                    spell(label, filler)[0] for filler in slots[label.slot].fillers
                }
            for first in firsts - {END}:
                found.setdefault(first, []).append(node)
    return found


def _ends_sentence(token: str) -> bool:
    return token.rstrip('"')[-1:] in (".", "!", "?")


class _Grader:
    """Reads a text; where reading fails, applies the repair that gets furthest."""

    def __init__(self, tokens: list[str], slots: dict[str, Slot]):
        self.tokens = tokens
        self.slots = slots
        start = first_node(load_grammar(), load_graph())
        self.before = {0: [Reading(1.0, start, {})]}  # the readings before each token
        self.mistakes: list[Mistake] = []
        self.missed: list[tuple[str, str]] = []

    def grade(self) -> Grade:
        reach = self.run(0, self.before[0], keep=True)
        while reach < len(self.tokens) and len(self.mistakes) < MOST_MISTAKES:
            repair = self.best_repair(reach)
            if repair.jump:
                self.note_jump(repair)
            else:
                self.note(repair.kind, repair.position, repair.message)
            if repair.reach <= reach:
                break
            reach = self.run(repair.start, repair.readings, keep=True)
        return Grade(tuple(self.mistakes), self.plot())

    def plot(self) -> str | None:
        """The plot of the last part that was read, or None if there was none."""
        for position in sorted(self.before, reverse=True):
            beats = {beat for r in self.before[position] for beat in r.node.beats}
            sections = {section for section, _ in beats} - {"opening", "closing"}
            if len(sections) == 1:
                return sections.pop()
        return None

    def run(self, position: int, readings: list[Reading], keep: bool = False) -> int:
        """Read on from a position; returns that of the first impossible token."""
        while position < len(self.tokens):
            if keep:
                self.before[position] = readings
            readings = advance(readings, self.tokens[position], self.slots)
            if not readings:
                return position
            position += 1
        return position

    def note(self, kind: str, position: int, message: str) -> None:
        where = "".join(self.tokens[max(0, position - 3) : position]).strip()
        message = f"{message}, after “{where}”" if where else message
        self.mistakes.append(Mistake(kind, position, f"{kind}: {message}"))

    def best_repair(self, stuck: int) -> _Repair:
        """The repair that gets furthest; the smaller one of two that are equal."""
        best = self.furthest(
            repair
            for position in range(stuck, max(-1, stuck - LOOK_BACK), -1)
            for reading in self.before.get(position, ())
            for repair in self.local_repairs(position, reading)
        )
        if best is None or best.reach < len(self.tokens):
            jump = self.furthest(self.jumps(stuck))
            if jump and (best is None or jump.reach > best.reach):
                best = jump
        if best is None or best.reach < len(self.tokens):
            best = self.hopeless(stuck) or best
        if best is None or (best.reach <= stuck and best.kind not in HOPELESS):
            token = self.tokens[stuck]
            kind = "wording" if token in _known() else "unknown word"
            best = _Repair(
                kind, stuck, f"“{token.strip()}” is not possible here", 0, []
            )
        return best

    def furthest(self, repairs: Iterable[_Repair]) -> _Repair | None:
        found = [
            dataclasses.replace(repair, reach=self.run(repair.start, repair.readings))
            for repair in repairs
            if repair.readings
        ]
        order = {kind: -place for place, kind in enumerate(KINDS)}
        rank = lambda r: (r.reach, -r.size, order[r.kind], r.position)  # noqa: E731
        return max(found, key=rank, default=None)

    def hopeless(self, stuck: int) -> _Repair | None:
        """The two mistakes that no repair corrects: text missing or left at the end."""
        if self.tokens[stuck] == END:
            return _Repair("no ending", stuck, "the story ends too early", 0, [])
        if any(END in reading.node.steps for reading in self.before[stuck]):
            return _Repair("after the end", stuck, "the story has already ended", 0, [])
        return None

    def local_repairs(self, position: int, reading: Reading) -> list[_Repair]:
        """Insert, delete, replace or swap pieces at a position."""
        found = []
        token = self.tokens[position]
        rest = self.tokens[position:-1]
        for wanted, use in self.expected(reading):
            after = [reading]
            for piece in wanted:
                after = advance(after, piece, self.slots)
            for skipped in range(min(MOST_SKIPPED if use else 2, len(rest)) + 1):
                text = "".join(rest[:skipped])
                want = "".join(wanted)
                kind = _name_change(text, want, use)
                if kind:
                    message = f"expected “{want.strip()}”, found “{text.strip()}”"
                    if not text.strip():
                        message = f"“{want.strip()}” is missing"
                    start = position + skipped
                    size = max(skipped, len(wanted))
                    found.append(_Repair(kind, position, message, start, after, size))
            if wanted == (' "',):
                inside = advance(after, token.lstrip(), self.slots)
                message = "an opening quote is missing"
                found.append(_Repair("quote", position, message, position + 1, inside))
        if len(rest) > 1:
            swapped = advance([reading], rest[1], self.slots)
            swapped = advance(swapped, token, self.slots)
            message = f"“{token.strip()}” and “{rest[1].strip()}” are swapped"
            found.append(
                _Repair("word order", position, message, position + 2, swapped)
            )
        if rest:
            kind = _name_extra(token, self.tokens[position - 1] if position else "")
            message = f"“{token.strip()}” should not be here"
            found.append(_Repair(kind, position, message, position + 1, [reading]))
        return found

    def expected(self, reading: Reading) -> list[tuple[tuple[str, ...], Use | None]]:
        """The pieces that may come next, each with its use if the slot is bound."""
        if reading.rest:
            return [(reading.rest[:1], None)]
        found = []
        for label in reading.node.steps:
            if isinstance(label, str):
                found.append(((label,), None))
            elif label.slot in reading.bound:
                found.append((spell(label, reading.bound[label.slot]), label))
            else:
                options = self.slots[label.slot].choices(reading.bound)
                found += [(spell(label, f)[:1], None) for f in options]
        return [(wanted, use) for wanted, use in found if wanted != (END,)]

    def jumps(self, stuck: int) -> Iterable[_Repair]:
        """Continue with another sentence or beat, from here or an earlier sentence."""
        starts = [
            position
            for position in range(stuck, -1, -1)
            if position == 0 or _ends_sentence(self.tokens[position - 1])
        ]
        for position in starts[:3]:
            token = self.tokens[position] if position else " " + self.tokens[position]
            for node in _landings().get(token, ()):
                for reading in self.before.get(position, ())[:1]:
                    landed = [Reading(1.0, node, reading.bound)]
                    after = advance(landed, token, self.slots)
                    (beat,) = node.beats
                    yield _Repair(
                        "missing beat", position, "", position + 1, after, jump=beat
                    )

    def note_jump(self, repair: _Repair) -> None:
        """Note a jump as a mistake, named by the beats before it and those left out."""
        beat = repair.jump
        position = repair.position
        name = f"“{beat[1]}”"
        here = self.told_before(position)
        plot = next((s for s, _ in here if s not in ("opening", "closing")), beat[0])
        if beat[0] not in ("opening", "closing", plot):
            return self.note("other plot", position, f"{name} belongs to {beat[0]}")
        beats = _beats_of(plot)
        abroad = bool(here) and here[-1] not in beats
        here = [one for one in here if one in beats]
        place = beats.index(here[-1]) + 1 if here else 0
        skipped = beats[place : beats.index(beat)]
        over = not here or self.finished(position)
        if beat in self.missed:
            self.missed.remove(beat)
            missing = f"missing beat: {name}"
            self.mistakes = [m for m in self.mistakes if missing not in m.message]
            self.note("beat order", position, f"{name} comes too late")
        elif beat in here and beat[0] == "closing":
            self.note("after the end", position, "the story has already ended")
        elif beat in here[:-1] or (beat in here and over):
            self.note("repeated beat", position, f"{name} is repeated")
        elif beat in here and self.sentence(position) in "".join(
            self.tokens[:position]
        ):
            self.note("repeated sentence", position, f"in the beat {name}")
        elif not abroad and (beat in here or not skipped):
            self.note("missing sentence", position, f"in the beat {name}")
        for one in skipped:
            if one not in here and one not in self.missed:
                self.missed.append(one)
                self.note("missing beat", position, f"“{one[1]}” is left out")

    def told_before(self, position: int) -> list[tuple[str, str]]:
        """The beats of the text before a position, without repeats."""
        found: list[tuple[str, str]] = []
        for place in sorted(place for place in self.before if place <= position):
            beats = {beat for r in self.before[place] for beat in r.node.beats}
            if len(beats) == 1 and place > 0 and not beats <= set(found[-1:]):
                found += beats
        return found

    def finished(self, position: int) -> bool:
        """Whether the current beat may end at a position."""
        reading = self.before[position][0]
        return any(
            target.beats != reading.node.beats for _, _, target in reading.node.arcs
        )

    def sentence(self, position: int) -> str:
        """The sentence that begins at a position."""
        end = position
        while end < len(self.tokens) - 1 and not _ends_sentence(self.tokens[end]):
            end += 1
        return "".join(self.tokens[position : end + 1])


def _beats_of(plot: str) -> list[tuple[str, str]]:
    """The beats of a story in order; without a plot, those of the opening."""
    sections = load_grammar().sections
    names = dict.fromkeys(("opening", plot, "closing"))
    return [(name, beat.name) for name in names for beat in sections[name]]


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(vocabulary())


def _is_word(text: str) -> bool:
    return text.isalpha()


def _is_words(text: str) -> bool:
    return all(word.isalpha() for word in text.split(" "))


def _is_mark(text: str) -> bool:
    return bool(text.strip()) and not any(letter.isalnum() for letter in text)


def _name_change(found: str, wanted: str, use: Use | None) -> str | None:
    """The kind of mistake it is to write `found` for `wanted`; None for none."""
    said, want = found.strip(), wanted.strip()
    if found == wanted:
        return None
    if said == want:
        return "spacing"
    if said.lower() == want.lower():
        return "capital"
    if _is_mark(want) and (not said or _is_mark(said)):
        return "quote" if said.count('"') != want.count('"') else "punctuation"
    if want.lower() in ARTICLES and said.lower() in ARTICLES | {""}:
        return "article"
    if not said:
        return "missing word"
    say, *said_after = said.split()
    tell, *told_after = want.split()
    if {say, tell} == {"a", "an"} and said_after == told_after:
        return "article"
    if want.lower() in PRONOUN_WORDS and said.lower() in PRONOUN_WORDS:
        return "pronoun"
    if use and use.form == "word":
        return SLOT_KINDS.get(use.slot, "object") if _is_words(said) else None
    if not _is_word(said) and not _is_mark(said):
        return None
    return "wording" if found in _known() else "unknown word"


def _name_extra(token: str, last: str) -> str:
    """The kind of mistake it is to write a piece that should not be there."""
    if not token.strip():
        return "spacing"
    if _is_mark(token):
        return "quote" if '"' in token else "punctuation"
    if token.strip().lower() == last.strip().lower():
        return "repeated word"
    if token not in _known():
        return "unknown word"
    return "article" if token.strip().lower() in ARTICLES else "extra word"
