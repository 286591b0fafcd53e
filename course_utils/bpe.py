"""Byte-pair encoding, readable: learn merges from texts, apply them, undo them.
Knows bytes and how often they stand side by side. Knows nothing of models or files."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import regex

# Where GPT-2 cuts a text before anything is counted: English endings, words, numbers
# and signs with the blank before them, and other blanks.
CUTS = regex.compile(
    r"'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)
# GPT-2 numbers the bytes that print first, the other 68 after them.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = PRINTABLE + [byte for byte in range(256) if byte not in PRINTABLE]
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")

Pair = tuple[int, int]


class BytePairs:
    """A vocabulary and the merges that made it: special tokens, 256 bytes, merges.

    `pieces[id]` are the bytes of an id (none for a special token); `made[pair]` is the
    id that a merge makes, in the order of learning. No two merges make the same bytes:
    what stands between two borders is always merged in the same way.
    Source: Sennrich et al. 2016, section 3.2; bytes: Radford et al. 2019, section 2.2.
    """

    def __init__(self, merges: Iterable[Pair] = (), special: Sequence[str] = SPECIAL):
        """Raises ValueError for a merge of ids that do not exist yet, or known ones."""
        self.special = tuple(special)
        self.pieces = [b"" for _ in special] + [bytes([byte]) for byte in BYTES]
        self.byte_ids = {byte: len(special) + place for place, byte in enumerate(BYTES)}
        self.made: dict[Pair, int] = {}
        for pair in merges:
            self.add(tuple(pair))

    @property
    def vocab_size(self) -> int:
        """How many ids there are, the special ones included."""
        return len(self.pieces)

    def add(self, pair: Pair) -> int:
        """Learn one more merge and return the id that it makes."""
        first = len(self.special)
        if pair in self.made or not all(first <= id < self.vocab_size for id in pair):
            raise ValueError(
                f"pair={pair} must be a new pair of ids from {first} to "
                f"{self.vocab_size - 1}"
            )
        self.made[pair] = self.vocab_size
        self.pieces.append(self.pieces[pair[0]] + self.pieces[pair[1]])
        return self.made[pair]

    def encode(self, text: str | bytes) -> list[int]:
        """The ids of a text, or of any bytes, valid UTF-8 or not; nothing is added."""
        words = cut(text)
        known = {word: self.encode_word(word) for word in set(words)}
        return [id for word in words for id in known[word]]

    def encode_word(self, word: bytes) -> list[int]:
        """Merge within one word: of all pairs in it, first the one learned first."""
        ids = [self.byte_ids[byte] for byte in word]
        while len(ids) > 1:
            pair = min(pairwise(ids), key=lambda p: self.made.get(p, self.vocab_size))
            if pair not in self.made:
                break
            ids = join(ids, pair, self.made[pair])
        return ids

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of the ids; a special token has none. ValueError for other ids."""
        ids = list(ids)
        if strange := [id for id in ids if not 0 <= id < self.vocab_size]:
            raise ValueError(
                f"ids must go from 0 to {self.vocab_size - 1}, found {strange[0]}"
            )
        return b"".join(self.pieces[id] for id in ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids; bytes that are no valid UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")


def cut(text: str | bytes) -> list[bytes]:
    """The words of a text, as GPT-2 cuts them. Joined they are the text again."""
    if not isinstance(text, str | bytes):
        raise TypeError(f"text must be a string or bytes, not {type(text).__name__}")
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="surrogateescape")
    words = CUTS.findall(text)
    return [word.encode("utf-8", errors="surrogateescape") for word in words]


def join(ids: Sequence[int], pair: Pair, new: int) -> list[int]:
    """Replace the pair by `new`, from left to right: in a a a only the first two."""
    joined, place = [], 0
    while place < len(ids):
        found = tuple(ids[place : place + 2]) == pair
        joined.append(new if found else ids[place])
        place += 2 if found else 1
    return joined


def train(
    texts: Iterable[str], vocab_size: int, special: Sequence[str] = SPECIAL
) -> BytePairs:
    """Learn merges: always the pair seen most often, of equals the one of lowest ids.

    Keeps the count of every pair, and which words hold it; a merge recounts only those
    words. Stops at `vocab_size`, or when no word has two pieces left.
    Raises ValueError for a vocab_size below the special tokens and 256 bytes.
    """
    model = BytePairs(special=special)
    if isinstance(texts, str):
        raise TypeError("texts must be a list of strings, not one string")
    if vocab_size < model.vocab_size:
        raise ValueError(
            f"vocab_size={vocab_size} must be at least {model.vocab_size}: the special "
            "tokens and 256 bytes"
        )
    counts = Counter(word for text in texts for word in cut(text))
    words, times = [model.encode_word(word) for word in counts], list(counts.values())
    pairs, where = Counter(), defaultdict(set)
    for index, word in enumerate(words):
        for pair in pairwise(word):
            pairs[pair] += times[index]
            where[pair].add(index)
    while model.vocab_size < vocab_size and pairs:
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        new = model.add(best)
        for index in where.pop(best):
            for pair in pairwise(words[index]):
                pairs[pair] -= times[index]
                if not pairs[pair]:
                    del pairs[pair]
            words[index] = join(words[index], best, new)
            for pair in pairwise(words[index]):
                pairs[pair] += times[index]
                where[pair].add(index)
    return model
