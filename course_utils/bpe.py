"""Byte-pair encoding, readable: learn merges from texts, apply them, undo them.

Knows bytes and how often they are adjacent. Knows nothing of models or files.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise
from types import UnionType

import regex

from course_utils.shapes import check_index, check_integer, check_type, describe

# Where GPT-2 splits a text before anything is counted: English endings, words, numbers
# and punctuation with the space before them, and other white space.
CUTS = regex.compile(
    r"'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)
# GPT-2 numbers the printable bytes first, the other 68 after them.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = PRINTABLE + [byte for byte in range(256) if byte not in PRINTABLE]
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")  # the index is the id

Pair = tuple[int, int]


class BytePairs:
    """A vocabulary and the merges that made it: special tokens, 256 bytes, merges.

    `pieces[id]` holds the bytes of an id (none for a special token). `made[pair]` is
    the id that a merge makes, in the order of learning. No two merges make the same
    bytes: the bytes between two word borders are always merged in the same way.
    Source: Sennrich et al. 2016, section 3.2; bytes: Radford et al. 2019, section 2.2.
    """

    def __init__(self, merges: Iterable[Pair] = (), special: Sequence[str] = SPECIAL):
        """merges: pairs of ids, in the order of learning. special: names of tokens.

        Raises TypeError for an argument of the wrong type, ValueError for a repeated
        special token or a merge that `add` refuses.
        """
        check_type(tuple | list, special=special)
        for place, token in enumerate(special):
            check_type(str, **{f"special[{place}]": token})
        if len({*special}) < len(special):
            raise ValueError(f"special must hold different tokens, got {special!r}")
        self.special = tuple(special)
        self.pieces = [b"" for _ in special] + [bytes([byte]) for byte in BYTES]
        self.byte_ids = {byte: len(special) + place for place, byte in enumerate(BYTES)}
        self.made: dict[Pair, int] = {}
        for place, pair in enumerate(as_list("merges", merges, "pairs of ids")):
            try:
                self.add(pair)
            except (TypeError, ValueError) as error:
                raise type(error)(f"merges[{place}]: {error}") from None

    @property
    def vocab_size(self) -> int:
        """The number of ids, those of the special tokens included."""
        return len(self.pieces)

    def add(self, pair: Pair) -> int:
        """Learn one more merge and return the id that it makes.

        Raises TypeError unless pair holds two integers, ValueError if one is not yet
        the id of bytes, or if the pair is known.
        """
        pair = _checked_pair(pair)
        first = len(self.special)
        if pair in self.made or not all(first <= id < self.vocab_size for id in pair):
            raise ValueError(
                f"pair must be a new pair of ids in [{first}, "
                f"vocab_size={self.vocab_size}), got {pair}"
            )
        self.made[pair] = self.vocab_size
        self.pieces.append(self.pieces[pair[0]] + self.pieces[pair[1]])
        return self.made[pair]

    def encode(self, text: str | bytes) -> list[int]:
        """The ids of a text or of any bytes, valid UTF-8 or not; nothing is added.

        Raises as `cut`.
        """
        words = cut(text)
        known = {word: self.encode_word(word) for word in set(words)}
        return [id for word in words for id in known[word]]

    def encode_word(self, word: bytes) -> list[int]:
        """Merge within one word: of all pairs in it, first the one learned first."""
        check_type(bytes, word=word)
        ids = [self.byte_ids[byte] for byte in word]
        while len(ids) > 1:
            pair = min(pairwise(ids), key=lambda p: self.made.get(p, self.vocab_size))
            if pair not in self.made:
                break
            ids = join(ids, pair, self.made[pair])
        return ids

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of the ids; a special token has none.

        Raises TypeError unless ids are integers, ValueError for one that is not in the
        vocabulary.
        """
        if isinstance(ids, Mapping | Set):
            raise TypeError(f"ids must be a list of integers, got {describe(ids)}")
        ids = as_list("ids", ids, "integers")
        for place, id in enumerate(ids):
            check_index(self.vocab_size, "vocab_size", **{f"ids[{place}]": id})
        return b"".join(self.pieces[id] for id in ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids; bytes that are not valid UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")


def cut(text: str | bytes) -> list[bytes]:
    """The words of a text, split as GPT-2 does. Joined they are the text again.

    Raises TypeError unless text is a str or bytes, ValueError for a lone surrogate,
    which UTF-8 cannot encode.
    """
    check_type(str | bytes, text=text)
    if isinstance(text, str):
        check_unicode(text=text)
    else:
        text = text.decode("utf-8", errors="surrogateescape")
    words = CUTS.findall(text)
    return [word.encode("utf-8", errors="surrogateescape") for word in words]


def join(ids: Sequence[int], pair: Pair, new: int) -> list[int]:
    """Replace the pair by `new`, from left to right: in a a a only the first two.

    Raises TypeError for an argument of the wrong type, ValueError unless pair holds two
    ids.
    """
    _check_join(ids, pair, new)
    joined = []
    place = 0
    while place < len(ids):
        found = tuple(ids[place : place + 2]) == pair
        joined.append(new if found else ids[place])
        place += 2 if found else 1
    return joined


def train(
    texts: Iterable[str], vocab_size: int, special: Sequence[str] = SPECIAL
) -> BytePairs:
    """Learn merges: always the most frequent pair; of equals the one of lowest ids.

    The counts of all pairs are kept, and which words contain a pair; a merge recounts
    only those words. Stops at `vocab_size`, or when no word has two pieces left.
    Raises TypeError for texts that are not strings, ValueError for a vocab_size below
    the number of special tokens and 256 bytes.
    """
    model = BytePairs(special=special)
    texts = checked_texts(texts, str | bytes)
    check_integer(model.vocab_size, vocab_size=vocab_size)
    counts = Counter(word for text in texts for word in cut(text))
    words = [model.encode_word(word) for word in counts]
    times = list(counts.values())
    pairs = Counter()
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


# --- checks --------------------------------------------------------------------------


def check_unicode(**texts: str) -> None:
    """Raise ValueError for a named text that holds a lone surrogate.

    UTF-8 cannot encode it; it comes from a surrogate pair that was cut in two.
    """
    for name, text in texts.items():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{name} must be valid Unicode, got the lone surrogate "
                f"{text[error.start]!r} at index {error.start}"
            ) from None


def as_list(name: str, values: object, kind: str) -> list:
    """The values as a list. Raises TypeError for a string or what is not iterable."""
    try:
        if not isinstance(values, str | bytes):
            return list(values)
    except TypeError:
        pass
    raise TypeError(f"{name} must be a list of {kind}, got {describe(values)}")


def checked_texts(texts: Iterable[str | bytes], kind: type | UnionType = str) -> list:
    """The texts as a list. Raises TypeError unless they are an iterable of `kind`."""
    if isinstance(texts, Mapping):
        raise TypeError(f"texts must be a list of strings, got {describe(texts)}")
    texts = as_list("texts", texts, "strings")
    for place, text in enumerate(texts):
        name = f"texts[{place}]"
        check_type(kind, **{name: text})
        if isinstance(text, str):
            check_unicode(**{name: text})
    return texts


def _checked_pair(pair: object) -> Pair:
    check_type(tuple | list, pair=pair)
    if len(pair) != 2:
        raise ValueError(f"pair must hold two ids, got {describe(pair)}")
    check_integer(0, **{"pair[0]": pair[0], "pair[1]": pair[1]})
    return tuple(pair)


def _check_join(ids: object, pair: object, new: object) -> None:
    """Raise unless `join` can use these; the usual case is fast, as in a loop."""
    usual = type(ids) is list and type(pair) is tuple and len(pair) == 2
    if usual and type(pair[0]) is type(pair[1]) is type(new) is int and new >= 0:
        return
    check_type(Sequence, ids=ids)
    check_type(tuple, pair=pair)
    _checked_pair(pair)
    check_integer(0, new=new)
    for place, id in enumerate(ids):
        check_integer(0, **{f"ids[{place}]": id})
