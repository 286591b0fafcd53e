"""English-Spanish pairs with their word alignment, each a pure function of its index.

Knows the splits and what a pair holds; the grammar lies below, in phrase_sentences.
"""

from dataclasses import dataclass
from hashlib import sha256

from course_utils.data.phrase_sentences import Sentence
from course_utils.data.phrase_words import Draw, Retry, grammar, links, pieces

SPLITS = {
    "train": "Sentences without any of the held-out structures below.",
    "test": "Unseen sentences of the same kind: no text is in both train and test.",
    "object": "The direct object is a noun that train shows only as a subject.",
    "clitic_negation_future": "A clitic, a negation and the future tense together; "
    "train shows any two of them, never all three.",
    "adjective": "A noun with an adjective that never stands beside it in train.",
}
LONGEST = 14  # words of an English sentence; the shortest has three


@dataclass(frozen=True)
class Pair:
    """One sentence in both languages; links are (source token, target token) indices.

    `alignment` holds the sure links; `possible` those and the doubtful ones, such as a
    dropped pronoun and its verb (sure and possible as in Och and Ney, 2003). Tokens are
    the pieces of GPT-2's pre-tokenizer: "".join(source_tokens) == source. `features`
    names what the pair shows: its shape ("give"), its tense ("future"), and any of
    "clitic", "negation", "question", "moved adjective", "front adjective", "owner",
    "relative clause", "time", "dropped pronoun".
    """

    source: str
    target: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]
    features: frozenset[str]


def pair(index: int, split: str = "train", seed: int = 0) -> Pair:
    """The pair at this index: the same for the same (index, split, seed), everywhere.

    Raises ValueError for a negative index or an unknown split, TypeError for an index
    or seed that is not an int.
    """
    for name, value in (("index", index), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an int, not {value!r}")
    if index < 0:
        raise ValueError(f"index={index} must be 0 or more")
    if split not in SPLITS:
        raise ValueError(f"split={split!r} must be one of: {', '.join(SPLITS)}")
    attempt = 0
    while True:
        attempt += 1
        try:
            sentence = Sentence(Draw(seed, split, index, attempt), split)
        except Retry:
            continue
        source = pieces(sentence.words.english, sentence.mark, False)
        text = "".join(piece for piece, *_ in source)
        if 3 <= len(source) - 1 <= LONGEST and split_of(sentence, text) == split:
            return finished(sentence, source)


def split_of(sentence: Sentence, text: str) -> str:
    """The one split this sentence may stand in ("" for none)."""
    held = set(sentence.held)
    if {"clitic", "negation", "future"} <= sentence.features:
        held.add("clitic_negation_future")
    if held:
        return held.pop() if len(held) == 1 else ""
    return "test" if sha256(text.encode()).digest()[0] < 26 else "train"


def finished(sentence: Sentence, source: list) -> Pair:
    """The pair that a drawn sentence makes: texts, tokens and links."""
    target = pieces(sentence.words.spanish, sentence.mark, True)
    left, right = (tuple(piece for piece, *_ in side) for side in (source, target))
    sure, possible = links(source, target)
    features = frozenset(sentence.features)
    return Pair("".join(left), "".join(right), left, right, sure, possible, features)


def vocabulary() -> dict[str, dict[str, str]]:
    """The lexicon: for each part of speech, English entry -> Spanish entry."""
    table = grammar()
    nouns = [row for rows in table["nouns"].values() for row in rows]
    adjectives = [row for rows in table["adjectives"].values() for row in rows]
    adjectives += table["determiners"]["front"]
    verbs = [row for row in table["verbs"]["table"] if row[5] != "be"]
    lexicon = {
        "nouns": nouns,
        "adjectives": adjectives,
        "names": table["words"]["names"],
    }
    found = {
        part: {row[0].split()[0]: row[min(1, len(row) - 1)].split()[0] for row in rows}
        for part, rows in lexicon.items()
    }
    found["verbs"] = {
        f"{row[0].split()[0].replace('_', ' ')} ({row[5]})": row[1].split()[0]
        for row in verbs
    }
    rows = [row for row in table["determiners"]["table"]]
    found["determiners"] = {row[0].split()[-1]: row[1].split()[-2] for row in rows}
    return found
