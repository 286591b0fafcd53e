"""Turn text into token ids and back, after training on given texts.

Knows the `tokenizers` library. Knows nothing of models, batches or files of texts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from jaxtyping import Int64
from tokenizers import decoders, models, pre_tokenizers, trainers
from torch import Tensor

from course_utils.bpe import BYTES, PRINTABLE, SPECIAL, checked_texts
from course_utils.checks import check_index, check_integer, check_type, describe

ROLES = ("pad", "bos", "eos", "unk")  # of the tokens in SPECIAL
# GPT-2 writes a byte that is not printable as one of the characters from 256 on.
BYTE_CHARACTERS = [chr(byte) for byte in PRINTABLE]
BYTE_CHARACTERS += [chr(256 + index) for index in range(256 - len(PRINTABLE))]
BYTE_OF = dict(zip(BYTE_CHARACTERS, BYTES, strict=True))

TokenIds = Sequence[int] | Int64[Tensor, "t"] | Int64[np.ndarray, "t"]


class Tokenizer:
    """Text to ids and back, with four special tokens: `<pad>` `<bos>` `<eos>` `<unk>`.

    The characters "<eos>" inside a text are ordinary, and `encode` adds no special
    token. vocab_size: the highest id + 1, the number of rows of an embedding.
    """

    def __init__(self, backend: tokenizers.Tokenizer, special: Mapping[str, str]):
        """special: the token of `backend` for each of the roles pad, bos, eos, unk."""
        self.special = {role: special[role] for role in ROLES}
        for role, token in self.special.items():
            if backend.token_to_id(token) is None:
                text = f"special[{role!r}]={token!r}"
                raise ValueError(f"{text} is not in the vocabulary")
        added = backend.get_added_tokens_decoder()
        known = {token.content for token in added.values() if token.special}
        new = [token for token in self.special.values() if token not in known]
        backend.add_special_tokens(new)  # in the vocabulary already; decode skips them
        backend.encode_special_tokens = True
        backend.no_padding()
        backend.no_truncation()
        self._backend = backend
        self._ids = frozenset(backend.get_vocab().values())
        self._added = frozenset(backend.get_added_tokens_decoder())
        self.vocab_size = max(self._ids) + 1
        self.pad_id, self.bos_id, self.eos_id, self.unk_id = (
            backend.token_to_id(token) for token in self.special.values()
        )

    @property
    def backend(self) -> tokenizers.Tokenizer:
        """A copy of the library's own tokenizer."""
        return tokenizers.Tokenizer.from_str(self._backend.to_str())

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, nothing added."""
        check_type(str, text=text)
        try:
            return self._backend.encode(text, add_special_tokens=False).ids
        except TypeError:
            half = "half a character (a surrogate)"
            raise ValueError(f"text must not hold {half}, got {text!r:.60}") from None

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """`[encode(text) for text in texts]`, on all cores."""
        texts = checked_texts(texts)
        encodings = self._backend.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: TokenIds, skip_special: bool = True) -> str:
        """The text of `ids`; bytes that are not UTF-8 (half an emoji) become U+FFFD."""
        ids = self._checked_ids(ids)
        return self._backend.decode(ids, skip_special_tokens=skip_special)

    def tokens(self, ids: TokenIds) -> list[str]:
        """One readable piece per id: " the", "<eos>", and "<E2>" for a single byte."""
        return [self._piece(id) for id in self._checked_ids(ids)]

    def save(self, path: str | Path) -> None:
        """Write everything into one JSON file."""
        backend = json.loads(self._backend.to_str())
        content = {"special": self.special, "tokenizer": backend}
        text = json.dumps(content, ensure_ascii=False, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read what `save` wrote. Raises ValueError for a file of another kind."""
        raw = Path(path).read_bytes()
        try:
            content = json.loads(raw)
            backend = tokenizers.Tokenizer.from_str(json.dumps(content["tokenizer"]))
            return cls(backend, content["special"])
        except Exception as error:  # the Rust library raises bare Exception
            raise ValueError(
                f"path {str(path)!r} was not written by Tokenizer.save"
            ) from error

    def _checked_ids(self, ids: TokenIds) -> list[int]:
        if isinstance(ids, Tensor | np.ndarray):
            ids = ids.tolist()
        if not isinstance(ids, Sequence):
            raise TypeError(f"ids must be a list of integers, got {describe(ids)}")
        for index, id in enumerate(ids):
            check_index(self.vocab_size, "vocab_size", **{f"ids[{index}]": id})
            if id not in self._ids:
                raise ValueError(f"ids[{index}]={id} has no token in the vocabulary")
        return list(ids)

    def _piece(self, id: int) -> str:
        piece = self._backend.id_to_token(id) or ""
        if id in self._added:
            return piece
        if any(character not in BYTE_OF for character in piece):
            return piece.replace("▁", " ")  # a vocabulary that is not byte-level
        return from_bytes(piece)


def from_bytes(piece: str) -> str:
    """The text that a byte-level piece spells; half a character is "<E2>"."""
    raw = bytes(BYTE_OF[character] for character in piece)
    letters = raw.decode("utf-8", "surrogateescape")  # stray bytes from U+DC80 on
    return "".join(
        f"<{ord(char) & 0xFF:02X}>" if "\udc80" <= char <= "\udcff" else char
        for char in letters
    )


def train_bpe(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn byte-level byte-pair encoding (Sennrich et al. 2016, section 3.2; bytes
    as in Radford et al. 2019, section 2.2).

    The vocabulary holds 4 special tokens, 256 bytes and then merges, while the texts
    have a pair to merge. Any text round-trips exactly.
    """
    texts = checked_texts(texts)
    smallest = len(SPECIAL) + len(BYTES)
    check_integer(smallest, vocab_size=vocab_size)
    # The library allocates all memory in advance; a merge shortens the texts by one.
    largest = smallest + sum(len(text.encode()) for text in texts)
    trainer = trainers.BpeTrainer(
        vocab_size=min(vocab_size, largest),
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    return _trained(models.BPE(), trainer, texts)


def train_words(texts: Iterable[str]) -> Tokenizer:
    """One entry per word of `texts` (as GPT-2 splits them: " the", ".", "'s"), the most
    frequent first; any other word becomes `<unk>`.
    """
    trainer = trainers.WordLevelTrainer(
        vocab_size=2**31 - 1, special_tokens=list(SPECIAL), show_progress=False
    )
    model = models.WordLevel({}, unk_token="<unk>")
    return _trained(model, trainer, checked_texts(texts))


def _trained(model: Any, trainer: Any, texts: list[str]) -> Tokenizer:
    if not any(texts):
        raise ValueError("texts is empty, at least one character is needed")
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(texts, trainer, length=len(texts))
    return Tokenizer(backend, dict(zip(ROLES, SPECIAL, strict=True)))
