"""Sentences with a word that has two senses, each a pure function of its index.

Knows which sense is meant, which words decide it, and on which side of the word they
are. The words are in senses.toml. Knows nothing of token ids, batches or models.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from known_worlds import check_index, check_split
from known_worlds.phrase_words import Draw
from known_worlds.story_grammar import pieces

SPLITS = {
    "train": "Sentences without the held-out pairs below.",
    "test": "Each meets its word in a context that train never shows it in: clues "
    "known from other words, adjectives known from other nouns, frames turned around.",
    "far": "A noun, up to 15 words, its clue; and another noun with a clue of its own, "
    "without the held-out pairs.",
    "far_test": "As far, but each noun meets clues that far never shows it with.",
}
# Pairs (word, clue) are held out where the sum of their numbers is divisible by this.
HELD = 4
# Frame -> the noun that comes first in train; the other order is in test only.
TURNED = {("movable", 2): 0, ("movable", 5): 1}
PRONOUNS = 25  # percent of the sentences that ask for the referent of "it"
ALONE = 30  # percent of the clauses without a second clause
PLACED = 25  # percent of the nouns with a place
FARTHEST = 15  # words between a noun and its clue


@dataclass(frozen=True)
class Usage:
    """One sentence and the sense of one word in it.

    `tokens` are the pieces of GPT-2's pre-tokenizer: "".join(tokens) == text.
    `position` is the index of the word among them; `clues` are the indices of the words
    that decide its sense, all on one `side` of it, "left" or "right". `sense` is
    "animal", "thing", "action", …; for a pronoun it is "first" or "second", the noun
    that it refers to.
    """

    text: str
    word: str
    sense: str
    side: str
    tokens: tuple[str, ...]
    position: int
    clues: tuple[int, ...]

    @property
    def distance(self) -> int:
        """The number of words between the word and the nearest of its clues."""
        return min(abs(clue - self.position) for clue in self.clues) - 1

    @property
    def label(self) -> int:
        """The index of (word, sense) in `labels()`."""
        return labels().index(f"{self.word}: {self.sense}")


@cache
def lexicon() -> dict:
    """The content of senses.toml."""
    path = files("known_worlds") / "senses.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def labels() -> tuple[str, ...]:
    """All classes: "bat: animal", "bat: thing", …, "it: first", "it: second"."""
    words = lexicon()["words"] | {"it": ["first", "second"]}
    return tuple(f"{word}: {sense}" for word in words for sense in words[word])


def usage(index: int, split: str = "train", seed: int = 0) -> Usage:
    """The sentence at this index: a pure function of (index, split, seed).

    split: a key of SPLITS. Raises ValueError for a negative index or seed or an unknown
    split.
    """
    check_index(index=index, seed=seed)
    check_split(split, SPLITS)
    # Draw hashes the repr: no NumPy types
    draw = Draw("senses", int(seed), str(split), int(index))
    if split.startswith("far"):
        return _finished(*_far(draw, split == "far_test"))
    if draw.chance(PRONOUNS):
        return _finished(*_pronoun(draw, split == "test"))
    word = draw.pick([*lexicon()["words"]])
    sense = draw.pick(lexicon()["words"][word])
    side = draw.pick(["left", "right"])
    text = _arranged(draw, _clause(draw, word, sense, side, split == "test"), word)
    # "the book", "to book": the word on the left decides.
    verbal = "action" in lexicon()["words"][word]
    return _finished(text, word, sense, "left" if verbal else side)


def _clause(
    draw: Draw, word: str, sense: str, side: str, held: bool, taken: str = ""
) -> str:
    """A clause with the word marked by @ and its clues by ^.

    taken: the text of another clause, whose phrases are not used again.
    """
    words = lexicon()["words"]
    clauses = lexicon()["clauses"]
    number = [w for w in words if sense in words[w]].index(word)
    if sense == "action":
        start = _marked(_choice(draw, lexicon()["action"]["before"], number, held))
        return f"{start} @{word} {draw.pick(lexicon()['action']['objects'][word])}"
    forms = lexicon()["senses"][sense]
    verbal = "action" in words[word]
    if side == "left":
        phrase = _choice(draw, forms["before"], number, held, taken)
        return f"{_marked(phrase)} @{word}"
    noun = f"{'^' * verbal}{draw.pick(clauses['determiners'])} @{word}"
    if sense in clauses["placed"] and draw.chance(PLACED):
        noun += " " + draw.pick(clauses["places"])
    phrase = _choice(draw, forms["after"], number, held, taken)
    return f"{noun} {phrase if verbal else _marked(phrase)}"


def _arranged(draw: Draw, clause: str, word: str) -> str:
    """The clause alone, or joined with another that does not decide its sense."""
    clauses = lexicon()["clauses"]
    words = lexicon()["words"]
    if draw.chance(ALONE):
        return draw.pick(clauses["alone"]).format(clause)
    peers = [w for w in words if words[w] == words[word] and w != word]
    sense = draw.pick([sense for sense in words[word] if sense != "action"])
    if peers and "action" not in words[word]:
        side = draw.pick(["left", "right"])
        other = _clause(draw, draw.pick(peers), sense, side, False, _plain(clause))
    else:
        forms = lexicon()["senses"][sense]
        phrase = _choice(draw, forms["after"], 0, None, _plain(clause))
        other = f"the {draw.pick(forms['plain'])} {phrase}"
    other = _plain(other)
    both = [clause, other] if draw.chance(50) else [other, clause]
    return draw.pick(clauses["joined"]).format(*both)


def _pronoun(draw: Draw, held: bool) -> tuple[str, str, str, str]:
    table = lexicon()["pronoun"]
    kind = draw.pick(["movable", "movable", "movable", "crossed"])
    forms = table[kind]
    meant = draw.below(2)  # 0: the animal, 1: the other noun
    frame = draw.below(len(forms["frames"]))
    first = 0 if kind == "crossed" else draw.below(2)
    if (kind, frame) in TURNED and not held:
        first = TURNED[kind, frame]
    unseen = (kind, frame) in TURNED and first != TURNED[kind, frame]
    nouns = [table["first"], forms["nouns"]]
    number = draw.below(len(nouns[meant]))
    adjectives = table["tired"] if meant == 0 else forms["wide"]
    adjective = _choice(draw, adjectives, number, held and not unseen)
    pair = [draw.pick(nouns[0]), draw.pick(nouns[1])]
    pair[meant] = nouns[meant][number]
    clause = forms["frames"][frame].format(pair[first], pair[1 - first])
    text = f"{clause} {draw.pick(table['causes'])} @it was too ^{adjective}"
    return text, "it", "first" if meant == first else "second", "right"


def _far(draw: Draw, held: bool) -> tuple[str, str, str, str]:
    """A noun and what is said of it, far behind; and a decoy: another noun of its kind
    and "that" with a clue, of either sense, to that one alone."""
    words, forms = lexicon()["words"], lexicon()["senses"]
    peers = [w for w in words if words[w][0] in lexicon()["far"]["senses"]]
    word = draw.pick(peers)
    said = ""
    for sense in (draw.pick(words[word]), draw.pick(words[word])):
        number = [w for w in words if sense in words[w]].index(word)
        decoy, said = said, _choice(draw, forms[sense]["after"], number, held, said)
    noun = draw.pick([w for w in peers if words[w] == words[word] and w != word])
    decoy = f" {draw.pick(lexicon()['far']['before'])} the {noun} that {decoy}"
    count = draw.below(FARTHEST + 1)
    rest = count - len(decoy.split())
    if rest < 0 or draw.chance(50):
        between, behind = _place(draw, count), decoy
    else:
        places = [decoy, _place(draw, rest)]
        between, behind = "".join(places if draw.chance(50) else places[::-1]), ""
    return f"the @{word}{between} {_marked(said)}{behind}", word, sense, "right"


def _place(draw: Draw, count: int, taken: str = "") -> str:
    """So many words that say where something is, each with a space before it."""
    far = lexicon()["far"]
    if count < 3:
        return draw.pick(far["short"][count])
    # Whole phrases of three to five words: "near the old white bridge".
    size = count if count <= 5 else 3 + draw.below(min(3, count - 5))
    start = draw.pick(far["before"])
    noun = draw.pick([place for place in far["places"] if place not in taken])
    adjectives = [draw.pick(column) for column in far["adjectives"][: size - 3]]
    phrase = " ".join(["", start, "the", *adjectives, noun])
    return phrase + _place(draw, count - size, taken + noun)


def _choice(
    draw: Draw, items: list[str], number: int, held: bool | None, taken: str = ""
) -> str:
    """An item that is held out for this word (True), is not (False), or any (None)."""
    fit = [
        item
        for k, item in enumerate(items)
        if held in (None, (k + number) % HELD == 0) and item not in taken
    ]
    return draw.pick(fit)


def _plain(text: str) -> str:
    return text.replace("^", "").replace("@", "")


def _marked(phrase: str) -> str:
    return " ".join(f"^{word}" for word in phrase.split())


def _finished(text: str, word: str, sense: str, side: str) -> Usage:
    """The usage that a marked text describes."""
    marked = re.findall(r"[\^@]?[A-Za-z]+|,", text)
    clues = tuple(i for i, piece in enumerate(marked) if piece[0] == "^")
    position = next(i for i, piece in enumerate(marked) if piece[0] == "@")
    text = _plain(text)
    text = text[0].upper() + text[1:] + "."
    return Usage(text, word, sense, side, tuple(pieces(text)), position, clues)
