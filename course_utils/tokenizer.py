"""Turn text into token ids and back, after training on given texts.

Knows the `tokenizers` library. Knows nothing of models, batches or files of texts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from jaxtyping import Int64
from tokenizers import decoders, models, pre_tokenizers, trainers
from torch import Tensor

from course_utils.bpe import (
    BYTES,
    PRINTABLE,
    SPECIAL,
    as_list,
    check_unicode,
    checked_texts,
)
from course_utils.shapes import (
    check_index,
    check_integer,
    check_text,
    check_type,
    describe,
)

ROLES = ("pad", "bos", "eos", "unk")  # of the tokens in SPECIAL
# GPT-2 writes a byte that is not printable as one of the characters from 256 on.
BYTE_CHARACTERS = [chr(byte) for byte in PRINTABLE]
BYTE_CHARACTERS += [chr(256 + place) for place in range(256 - len(PRINTABLE))]
BYTE_OF = dict(zip(BYTE_CHARACTERS, BYTES, strict=True))

TokenIds = Sequence[int] | Int64[Tensor, "t"] | Int64[np.ndarray, "t"]


class Tokenizer:
    """Text to ids and back, with four special tokens: `<pad>` `<bos>` `<eos>` `<unk>`.

    Text is data: the characters "<eos>" inside a text are ordinary characters, and
    `encode` never adds a special token. Make one with `train_bpe`, `train_words`,
    `from_transformers` or `Tokenizer.load`.

    pad_id, bos_id, eos_id, unk_id: the ids of the special tokens. vocab_size: the
    highest id + 1, the number of rows that an embedding needs.
    """

    def __init__(self, backend: tokenizers.Tokenizer, special: dict[str, str]):
        """special: the token of `backend` for each of the roles pad, bos, eos, unk.

        The backend is changed: it neither pads nor truncates, encodes special tokens
        in a text as ordinary text, and knows that these four are special.
        Raises TypeError for an argument of the wrong type, ValueError for a role that
        is missing or unknown, or a token that is not in the vocabulary.
        """
        check_type(tokenizers.Tokenizer, backend=backend)
        _check_special(special, backend)
        added = backend.get_added_tokens_decoder().values()
        known = {token.content for token in added if token.special}
        new = [token for token in special.values() if token not in known]
        backend.add_special_tokens(new)  # in the vocabulary already; decode skips them
        backend.encode_special_tokens = True
        backend.no_padding()
        backend.no_truncation()
        self._backend = backend
        self._special = {role: special[role] for role in ROLES}
        self._ids = frozenset(backend.get_vocab().values())
        self._added = frozenset(backend.get_added_tokens_decoder())
        self.vocab_size = max(self._ids) + 1
        self.pad_id = backend.token_to_id(special["pad"])
        self.bos_id = backend.token_to_id(special["bos"])
        self.eos_id = backend.token_to_id(special["eos"])
        self.unk_id = backend.token_to_id(special["unk"])

    @property
    def backend(self) -> tokenizers.Tokenizer:
        """A copy of the library's own tokenizer."""
        return tokenizers.Tokenizer.from_str(self._backend.to_str())

    @property
    def special(self) -> dict[str, str]:
        """The tokens of the roles pad, bos, eos and unk."""
        return dict(self._special)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, nothing added.

        Raises TypeError if it is not a string, ValueError for a lone surrogate, which
        UTF-8 cannot encode.
        """
        check_type(str, text=text)
        check_unicode(text=text)
        return self._backend.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """`[encode(text) for text in texts]`, on all cores. Raises as `encode`."""
        texts = _not_empty(texts)
        encodings = self._backend.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: TokenIds, skip_special: bool = True) -> str:
        """The text of `ids`. Special tokens are left out unless `skip_special=False`.

        Bytes that are not valid UTF-8 (half an emoji) become U+FFFD.
        Raises TypeError unless ids are integers, ValueError for an id that is not in
        the vocabulary.
        """
        check_type(bool, skip_special=skip_special)
        ids = self._checked_ids(ids)
        return self._backend.decode(ids, skip_special_tokens=skip_special)

    def tokens(self, ids: TokenIds) -> list[str]:
        """One readable piece per id: " the", "<eos>", and "<E2>" for a single byte.

        Raises as `decode`.
        """
        return [self._piece(id) for id in self._checked_ids(ids)]

    def save(self, path: str | Path) -> None:
        """Write everything into one JSON file."""
        check_type(str | Path, path=path)
        check_text(path=str(path))
        backend = json.loads(self._backend.to_str())
        content = {"special": self._special, "tokenizer": backend}
        text = json.dumps(content, ensure_ascii=False, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read what `save` wrote.

        Raises FileNotFoundError for a missing file, ValueError for one that was not
        written by `save`.
        """
        check_type(str | Path, path=path)
        check_text(path=str(path))
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            backend = tokenizers.Tokenizer.from_str(json.dumps(content["tokenizer"]))
            return cls(backend, content["special"])
        except FileNotFoundError:
            raise
        except Exception as error:  # the Rust library raises bare Exception
            raise ValueError(
                f"path {str(path)!r} was not written by Tokenizer.save"
            ) from error

    def _checked_ids(self, ids: object) -> list[int]:
        if isinstance(ids, Tensor | np.ndarray) and ids.ndim == 1:
            ids = ids.tolist()
        if isinstance(ids, Mapping | Set | Tensor | np.ndarray):
            raise TypeError(f"ids must be a list of integers, got {describe(ids)}")
        ids = as_list("ids", ids, "integers")
        if set(map(type, ids)) <= {int} and self._ids.issuperset(ids):
            return ids
        for position, id in enumerate(ids):
            name = f"ids[{position}]"
            check_index(self.vocab_size, "vocab_size", **{name: id})
            if id not in self._ids:
                raise ValueError(f"{name}={id} has no token in the vocabulary")
        return [int(id) for id in ids]

    def _piece(self, id: int) -> str:
        piece = self._backend.id_to_token(id)
        if id in self._added:
            return piece
        if any(character not in BYTE_OF for character in piece):
            return piece.replace("▁", " ")  # a vocabulary that is not byte-level
        raw = bytes(BYTE_OF[character] for character in piece)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return "".join(f"<{byte:02X}>" for byte in raw)


def train_bpe(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn byte-level byte-pair encoding (Sennrich et al. 2016, section 3.2; bytes
    as in Radford et al. 2019, section 2.2).

    The vocabulary holds the 4 special tokens, the 256 bytes and then merges, up to
    `vocab_size` entries (fewer when the texts have no pair left to merge). Any text
    round-trips exactly. The same texts give the same tokenizer.
    Raises TypeError for texts that are not strings, ValueError for no text, or a
    vocab_size below 260 (special tokens and bytes).
    """
    texts = _training_texts(texts)
    smallest = len(SPECIAL) + len(BYTES)
    check_integer(smallest, vocab_size=vocab_size)
    # A merge shortens the texts by a token at least. The library allocates memory for
    # the whole vocabulary in advance, so it is not asked for more than there can be.
    largest = smallest + sum(len(text.encode()) for text in texts)
    trainer = trainers.BpeTrainer(
        vocab_size=min(int(vocab_size), largest),
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    return _trained(models.BPE(), trainer, texts)


def train_words(texts: Iterable[str]) -> Tokenizer:
    """One entry per word of `texts`, the most frequent first.

    A word is a piece as GPT-2 splits texts: " the", ".", "'s". Text made of these words
    round-trips exactly; any other word becomes `<unk>`.
    Raises TypeError for texts that are not strings, ValueError for no text.
    """
    trainer = trainers.WordLevelTrainer(
        vocab_size=2**31 - 1, special_tokens=list(SPECIAL), show_progress=False
    )
    model = models.WordLevel({}, unk_token="<unk>")
    return _trained(model, trainer, _training_texts(texts))


def from_transformers(auto_tokenizer: Any) -> Tokenizer:
    """The same interface for a fast tokenizer of the `transformers` library.

    Ids stay as they are. A padding token that is missing, or that is also another
    special token, is replaced by a new `<pad>` after the last entry. GPT's single
    <|endoftext|> remains bos, eos and unk.
    Raises TypeError for anything without a `backend_tokenizer`, ValueError for a
    tokenizer without eos_token.
    """
    source = getattr(auto_tokenizer, "backend_tokenizer", None)
    if not isinstance(source, tokenizers.Tokenizer):
        raise TypeError(
            f"auto_tokenizer must be a fast tokenizer of transformers, got "
            f"{describe(auto_tokenizer)}"
        )
    end = auto_tokenizer.eos_token
    if end is None:
        raise ValueError("auto_tokenizer must have an end token, got eos_token=None")
    backend = tokenizers.Tokenizer.from_str(source.to_str())
    special = {
        "bos": auto_tokenizer.bos_token or end,
        "eos": end,
        "unk": auto_tokenizer.unk_token or end,
    }
    pad = auto_tokenizer.pad_token
    special["pad"] = "<pad>" if pad is None or pad in special.values() else pad
    backend.add_special_tokens([special["pad"]])
    return Tokenizer(backend, special)


def from_backend(source: tokenizers.Tokenizer, special: Mapping[str, str]) -> Tokenizer:
    """A copy of a tokenizer of the `tokenizers` library, with these special tokens."""
    return Tokenizer(tokenizers.Tokenizer.from_str(source.to_str()), dict(special))


def _trained(model: Any, trainer: Any, texts: list[str]) -> Tokenizer:
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(texts, trainer, length=len(texts))
    return Tokenizer(backend, dict(zip(ROLES, SPECIAL, strict=True)))


def _not_empty(texts: Iterable[str]) -> list[str]:
    texts = checked_texts(texts)
    if not texts:
        raise ValueError("texts is empty, at least one text is needed")
    return texts


def _training_texts(texts: Iterable[str]) -> list[str]:
    texts = _not_empty(texts)
    if not any(texts):
        raise ValueError("texts must hold at least one character, all are empty")
    return texts


def _check_special(special: object, backend: tokenizers.Tokenizer) -> None:
    """Raise unless `special` maps each role to a token of the backend."""
    check_type(Mapping, special=special)
    for role in ROLES:
        if role not in special:
            raise ValueError(f"special must name a token for {role!r}, it is missing")
    for role, token in special.items():
        if role not in ROLES:
            roles = ", ".join(ROLES)
            raise ValueError(
                f"special must have the roles {roles}, got {describe(role)}"
            )
        name = f"special[{role!r}]"
        check_type(str, **{name: token})
        if backend.token_to_id(token) is None:
            raise ValueError(f"{name}={token!r} is not in the vocabulary")
