"""English-Spanish pairs with their word alignment, each a pure function of its index.

Knows the splits and the content of a pair. Knows nothing of the grammar, which is in
phrase_sentences.
"""

from dataclasses import dataclass
from hashlib import sha256

from known_worlds import check_index, check_split
from known_worlds.phrase_sentences import Sentence
from known_worlds.phrase_words import Draw, Retry, links, pieces

SPLITS = {
    "train": "Sentences without any of the held-out structures below.",
    "test": "Other sentences of the same kind: no text is in both train and test.",
    "object": "The direct object is a noun that is only a subject in train.",
    "clitic_negation_future": "A clitic, a negation and the future tense together; "
    "train has any two of them, never all three.",
    "adjective": "A noun with an adjective that never modifies it in train.",
}
LONGEST = 14  # words of an English sentence
SHORTEST = 3


@dataclass(frozen=True)
class Pair:
    """One sentence in both languages; links are (source token, target token) indices.

    `alignment` holds the sure links; `possible` holds these and the ambiguous ones,
    such as a dropped pronoun and its verb (sure and possible as in Och and Ney, 2003).
    Tokens are the pieces of GPT-2's pre-tokenizer: "".join(source_tokens) == source.
    """

    source: str
    target: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


def pair(index: int, split: str = "train", seed: int = 0) -> Pair:
    """The pair at this index: a pure function of (index, split, seed) on any machine.

    split: a key of SPLITS. Raises ValueError for a negative index or seed or an unknown
    split.
    """
    check_index(index=index, seed=seed)
    check_split(split, SPLITS)
    key = (int(seed), str(split), int(index))  # Draw hashes the repr: no NumPy types
    attempt = 0
    while True:
        attempt += 1
        try:
            sentence = Sentence(Draw(*key, attempt), split)
        except Retry:
            continue
        source = pieces(sentence.words.english, sentence.mark, False)
        text = "".join(piece for piece, *_ in source)
        length = len(source) - 1  # without the punctuation
        if SHORTEST <= length <= LONGEST and split_of(sentence, text) == split:
            return _finished(sentence, source)


def pairs(split: str, limit: int) -> list[tuple[str, str]]:
    """The first `limit` (English, Spanish) sentences of a split."""
    drawn = (pair(index, split) for index in range(limit))
    return [(one.source, one.target) for one in drawn]


def split_of(sentence: Sentence, text: str) -> str:
    """The split that this sentence belongs to, or "" if it belongs to none."""
    held = set(sentence.held)
    negated = sentence.adverb in ("not", "never")
    if "clitic" in sentence.features and negated and sentence.tense == "future":
        held.add("clitic_negation_future")
    if held:
        return held.pop() if len(held) == 1 else ""
    return "test" if sha256(text.encode()).digest()[0] < 26 else "train"


def _finished(sentence: Sentence, source: list) -> Pair:
    target = pieces(sentence.words.spanish, sentence.mark, True)
    tokens = [tuple(piece for piece, *_ in side) for side in (source, target)]
    return Pair(*map("".join, tokens), *tokens, *links(source, target))
