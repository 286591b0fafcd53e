"""Byte-pair encoding, readable: learn merges from texts, apply them, undo them.

Knows bytes and how often they are adjacent. Knows nothing of models or files.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import regex

from course_utils.checks import check_index, check_integer, check_type, describe

# Where GPT-2 splits a text before anything is counted: English endings, words, numbers
# and punctuation with the space before them, and other white space.
CUTS = regex.compile(
    r"'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)
# GPT-2 numbers the printable bytes first, the other 68 after them.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = PRINTABLE + [byte for byte in range(256) if byte not in PRINTABLE]
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")  # the index is the id
FIRST = len(SPECIAL)  # the id of the first byte

Pair = tuple[int, int]


class BytePairs:
    """A vocabulary and the merges that made it: special tokens, 256 bytes, merges.

    `pieces[id]` holds the bytes of an id (none for a special token). `made[pair]` is
    the id that a merge makes, in the order of learning.
    Source: Sennrich et al. 2016, section 3.2; bytes: Radford et al. 2019, section 2.2.
    """

    def __init__(self, merges: Iterable[Pair] = ()):
        """merges: pairs of ids, in the order of learning."""
        self.pieces = [b""] * FIRST + [bytes([byte]) for byte in BYTES]
        self.byte_ids = {byte: id for id, byte in enumerate(BYTES, FIRST)}
        self.made: dict[Pair, int] = {}
        for pair in merges:
            self.add(pair)

    @property
    def vocab_size(self) -> int:
        """The number of ids, those of the special tokens included."""
        return len(self.pieces)

    def add(self, pair: Pair) -> int:
        """Learn one more merge and return the id that it makes."""
        if pair in self.made or not all(FIRST <= id < self.vocab_size for id in pair):
            known = f"[{FIRST}, vocab_size={self.vocab_size})"
            raise ValueError(f"pair must be a new pair of ids in {known}, got {pair}")
        left, right = pair
        self.made[pair] = self.vocab_size
        self.pieces.append(self.pieces[left] + self.pieces[right])
        return self.made[pair]

    def encode(self, text: str | bytes) -> list[int]:
        """The ids of a text or of any bytes, valid UTF-8 or not; nothing is added."""
        words = cut(text)
        ids = {word: self.encode_word(word) for word in set(words)}
        return [id for word in words for id in ids[word]]

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
        """The bytes of the ids; a special token has none."""
        ids = list(ids)
        for index, id in enumerate(ids):
            check_index(self.vocab_size, "vocab_size", **{f"ids[{index}]": id})
        return b"".join(self.pieces[id] for id in ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids; bytes that are not valid UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")


def cut(text: str | bytes) -> list[bytes]:
    """The words of a text, split as GPT-2 does. Joined they are the text again."""
    if isinstance(text, str):
        return [word.encode() for word in CUTS.findall(text)]
    words = CUTS.findall(text.decode("utf-8", "surrogateescape"))
    return [word.encode("utf-8", "surrogateescape") for word in words]


def join(ids: Sequence[int], pair: Pair, new: int) -> list[int]:
    """Replace the pair by `new`, from left to right: in a a a only the first two."""
    left, right = pair
    joined = []
    index = 0
    while index < len(ids):
        if tuple(ids[index : index + 2]) == (left, right):
            joined.append(new)
            index += 2
        else:
            joined.append(ids[index])
            index += 1
    return joined


def train(texts: Iterable[str], vocab_size: int) -> BytePairs:
    """Learn merges: always the most frequent pair; of equals the one of lowest ids.

    A merge recounts only the words that contain it. Stops at `vocab_size`, or when no
    word has two pieces left.
    """
    model = BytePairs()
    check_integer(model.vocab_size, vocab_size=vocab_size)
    counts = Counter(word for text in checked_texts(texts) for word in cut(text))
    words = [model.encode_word(word) for word in counts]
    times = list(counts.values())
    pairs: Counter[tuple[int, int]] = Counter()
    where = defaultdict(set)
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


def checked_texts(texts: Iterable[str]) -> list[str]:
    """The texts as a list. Raises TypeError for a single one or for a dict of texts."""
    if isinstance(texts, str | bytes | Mapping | None):
        raise TypeError(f"texts must be a list of strings, got {describe(texts)}")
    texts = list(texts)
    for index, text in enumerate(texts):
        check_type(str | bytes, **{f"texts[{index}]": text})
    return texts
