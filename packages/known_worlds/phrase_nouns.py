"""Noun phrases that agree: determiners, adjectives, owners, relative clauses, places.

Knows nouns and the words around them in both languages. Knows nothing of verbs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from known_worlds.phrase_words import ARTICLES, Both, Draw, both, grammar, words

PEOPLE = ("person", "kin")
MASS = ("staple", "drink")
SMALL = ("food", "fruit", "text", "clothes", "apparel", "thing", "bit", "container")
WORTHY = ("person", "animal", "food", "fruit", "text", "song", "vehicle")  # good, bad
SITES = {"in": 15, "at": 7, "on": 2, "room": 5, "town": 4, "water": 1}
ANYWHERE = "in at on room town"
TAKES = {"kin": {"own"}, "person": {"all", "one", "each"}}
TAKES |= {kind: {"all"} for kind in SITES} | {kind: {"all", "own"} for kind in MASS}


@dataclass(frozen=True)
class Phrase:
    """A noun phrase in both languages, and the features that other words agree with."""

    words: Both
    person: int  # of the verb: 0 I, 1 he or she, 2 we, 3 they
    gender: str
    kind: str = "person"
    pronoun: str = ""  # the English object pronoun, or the subject pronoun itself
    personal: bool = True  # as an object it takes "a" in Spanish

    @property
    def column(self) -> int:
        """Of the Spanish forms: m, f, plural m, plural f."""
        return column_of(self.person == 3, self.gender)

    def as_object(self, path: str) -> Both:
        """The phrase as a direct object, with the personal "a" where Spanish has it."""
        return Both((), words(f"a:~{path}n" if self.personal else "")) + self.words


def column_of(plural: bool, gender: str) -> int:
    """The column of a Spanish form: masculine, feminine, both of them in plural."""
    column = 2 if plural else 0
    return column + 1 if gender == "f" else column


@cache
def nouns(kinds: tuple[str, ...]) -> tuple[list, list, list]:
    """All (kind, row) of these kinds, the held-out ones, and the others."""
    table = grammar()["nouns"]
    names = grammar()["held"]["nouns"].split()
    candidates = [(kind, row) for kind in kinds for row in table[kind]]
    held = [item for item in candidates if item[1][0].split()[0] in names]
    return candidates, held, [item for item in candidates if item not in held]


@cache
def adjectives(kind: str, noun: str, new: bool) -> list[list[str]]:
    """Rows [English, Spanish forms, ser or estar, meaning]; all of them for noun ""."""
    table = grammar()["adjectives"]
    fits = grammar()["fits"].get(kind, "")
    rows = [[*row, fit] for fit in fits.split() for row in table[fit]]
    return [row for row in rows if not noun or new_adjective(row[0], noun) == new]


@cache
def new_adjective(adjective: str, noun: str) -> bool:
    """Whether train withholds this adjective from this noun."""
    return sha256(f"{adjective} {noun}".encode()).digest()[0] % 8 == 0


class NounPhrases:
    """Draws noun phrases; the state of the sentence decides which are allowed.

    Roles: subject, definite (a subject, or the object of "like": no "a", no adjective),
    object, antecedent (an object that "it" refers to), new (after "there is"), other.
    """

    def __init__(self, draw: Draw, goal: str) -> None:
        self.draw = draw
        self.goal = goal
        self.grammar = grammar()
        self.shape = ""
        self.tense = "present"
        self.adverb = ""
        self.question = False
        self.mark = "."
        self.features: set[str] = set()  # "clitic", "relative clause"
        self.held: set[str] = set()

    def noun(self, kinds: Sequence[str], role: str) -> tuple[str, list[str]]:
        """A (kind, row); held-out nouns are subjects, and objects for goal "object"."""
        candidates, held, others = nouns(tuple(kinds))
        like = role == "definite" and self.shape == "like"
        if self.goal == "object" and (role in ("object", "antecedent") or like):
            self.held.add("object")
            return self.draw.pick(held)
        if role == "subject" or (role == "definite" and not like):
            return self.draw.pick(held if held and self.draw.chance(25) else candidates)
        return self.draw.pick(others)

    def determiner(self, kind: str, plural: int, role: str) -> list[str] | None:
        """A row of the table that fits; None for no determiner in either language."""
        bare = 45 if kind in MASS else 15 if plural and kind in SMALL else 0
        if role == "object" and not self.question and self.draw.chance(bare):
            return None
        takes = TAKES.get(kind, {"all", "own", "one", "each"})
        takes = {"one"} if role == "new" else takes
        takes = takes - {"each"} if role != "subject" else takes
        takes = takes - {"one", "each"} if role == "definite" else takes
        rows = [row for row in self.grammar["determiners"]["table"] if row[3] in takes]
        if self.adverb in ("not", "never"):
            rows = [row for row in rows if row[0] not in ("- some", "- several")]
        rows = [row for row in rows if row[0].split()[plural] != "-"]
        return rows[self.draw.weighted({i: int(row[2]) for i, row in enumerate(rows)})]

    def adjective(self, noun: str, kind: str) -> list[str] | None:
        """An adjective that fits the noun (new to it for goal "adjective")."""
        new = bool(noun) and self.goal == "adjective"
        rows = adjectives(kind, noun, new)
        if new and rows:
            self.held.add("adjective")
        return self.draw.pick(rows) if rows else None

    def described(self, path: str, row: list[str], column: int) -> Both:
        """An adjective in both languages, now and then with "very"."""
        very = row[3] in self.grammar["words"]["graded"] and self.draw.chance(15)
        adverb = both("very:y", "muy:y", path) if very else Both()
        return adverb + both(f"{row[0]}:a", f"{row[1].split()[column]}:a", path)

    def noun_phrase(self, path: str, kinds: Sequence[str], role: str) -> Phrase:
        """Draw a noun with its determiner, adjectives, owner and relative clause."""
        draw = self.draw
        kind, noun = self.noun(kinds, role)
        singular, more = noun[0].split()
        plural = int(more != "-" and draw.chance(30))
        column = column_of(plural == 1, noun[2])
        english = more if plural else singular
        core = both(f"{english}:n", f"{noun[1].split()[plural]}:n", path)
        row = None
        if role != "definite" and draw.chance(80 if self.goal == "adjective" else 28):
            row = self.adjective(singular, kind)
        if row:
            core = self.behind(core, self.described(path, row, column))
        personal = kind in PEOPLE
        if kind in (*SMALL, "vehicle") and role != "new" and draw.chance(7):
            core = self.owned(path, core, column)
        else:
            det = self.determiner(kind, plural, role)
            personal = personal or (kind == "animal" and det[3] in ("all", "own"))
            if det:
                if kind not in ("kin", *MASS) and draw.chance(12):
                    good = row is None and kind in WORTHY
                    core = self.front(path, det, column, good) + core
                forms = det[0].split()[plural], det[1].split()[column]
                core = both(f"{forms[0]}:d", f"{forms[1]}:d", path) + core
            if det and role == "object" and kind in SMALL and draw.chance(6):
                core = core + self.relative(path, plural, kind)
        person = {"m": "him", "f": "her"}[noun[2]] if kind in PEOPLE else "it"
        pronoun = "them" if plural else person
        return Phrase(core, 1 + 2 * plural, noun[2], kind, pronoun, personal)

    def behind(self, noun: Both, adjective: Both) -> Both:
        """A red house, una casa roja: the alignment links cross."""
        return Both(adjective.english + noun.english, noun.spanish + adjective.spanish)

    def front(self, path: str, det: list[str], column: int, good: bool) -> Both:
        """An adjective that precedes the noun in both languages."""
        takes = []
        if good:
            takes.append("any")
        if det[0] == "the the":
            takes.append("the")
        if not takes:
            return Both()
        table = self.grammar["determiners"]["front"]
        row = self.draw.pick([row for row in table if row[2] in takes])
        return both(f"{row[0]}:f", f"{row[1].split()[column]}:f", path)

    def owned(self, path: str, core: Both, column: int) -> Both:
        """The boy's red shoes: los zapatos rojos del niño."""
        name = self.draw.pick(self.grammar["words"]["names"])[0].split()[0]
        owner = both(f"{name}:o", f"{name}:o", path)
        if self.draw.chance(50):
            _, noun = self.noun(["person"], "other")
            owner = both(f"{noun[0].split()[0]}:o", f"{noun[1].split()[0]}:o", path)
            owner = both("the:q", f"{ARTICLES[noun[2] == 'f']}:q", path) + owner
        spanish = words(f"{ARTICLES[column]}:~g", path) + core.spanish
        spanish = spanish + words("de:g", path) + owner.spanish
        return Both(owner.english + words("'s:g", path) + core.english, spanish)

    def relative(self, path: str, plural: int, kind: str) -> Both:
        """(The cup) that is on the table: (la taza) que está en la mesa."""
        if self.tense in ("past", "progressive"):
            return Both()
        self.features.add("relative clause")
        where = self.place(path + "R", kind)
        be, estar = ("are", "están") if plural else ("is", "está")
        return both(f"that:t {be}:r", f"que:t {estar}:r", path) + where

    def plain(self, path: str, kinds: Sequence[str]) -> Both:
        """A noun with its article and little more; for places."""
        kind, noun = self.noun(kinds, "other")
        left = noun[0].split()[0]
        right = noun[1].split()[0]
        feminine = noun[2] == "f"
        core = both(f"{left}:n", f"{right}:n", path)
        row = self.adjective(left, kind) if self.draw.chance(12) else None
        if row:
            form = row[1].split()[feminine]
            core = self.behind(core, both(f"{row[0]}:a", f"{form}:a", path))
        return both("the:d", f"{ARTICLES[feminine]}:d", path) + core

    def site(self, path: str, kinds: str = ANYWHERE, goes: bool = False) -> Both:
        """In the kitchen, en la cocina; with `goes`, to the kitchen, a la cocina."""
        kind = self.draw.weighted({kind: SITES[kind] for kind in kinds.split()})
        there = self.plain(path, [kind])
        english = "to" if goes else kind if kind in ("at", "on") else "in"
        return both(f"{english}:p", "a:p" if goes else "en:p", path) + there

    def place(self, path: str, kind: str) -> Both:
        """Where something is; small things can also be on, in or under other things."""
        small = kind in SMALL
        if not self.draw.chance(70 if small else 35):
            return self.site(path)
        table = self.grammar["words"]["relations"]
        inside = small and kind != "container"
        table = [row for row in table if inside or row[2] != "container"]
        row = self.draw.pick(table if small else table[2:])
        there = self.plain(path, row[2].split())
        return both(row[0], row[1], path) + there
