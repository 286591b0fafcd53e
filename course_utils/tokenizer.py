"""Turn text into token ids and back, after training on texts that are handed in.
Knows nothing of models, batches or where texts come from."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from jaxtyping import Int64
from tokenizers import decoders, models, pre_tokenizers, trainers
from torch import Tensor

from course_utils.shapes import check_between, check_whole

# The order is part of the contract: the position in this list is the id.
SPECIAL_TOKENS = ["<pad>", "<bos>", "<eos>", "<unk>"]
NUM_BYTES = 256
ROLES = ("pad", "bos", "eos", "unk")


class Tokenizer:
    """Text to ids and back, with four special tokens: `<pad>` `<bos>` `<eos>` `<unk>`.

    Text is data: the characters "<eos>" inside a text are ordinary characters, and
    `encode` never adds a special token. Make one with `train_bpe`, `train_words`,
    `from_transformers` or `Tokenizer.load`.
    """

    def __init__(self, backend: tokenizers.Tokenizer, special: dict[str, str]):
        """`special` maps each of pad, bos, eos, unk to its token in `backend`."""
        self._backend = backend
        self._backend.encode_special_tokens = True
        self._special = {role: special[role] for role in ROLES}
        self.vocab_size = backend.get_vocab_size()
        self.pad_id, self.bos_id, self.eos_id, self.unk_id = (
            backend.token_to_id(token) for token in self._special.values()
        )
        self._added = set(backend.get_added_tokens_decoder())

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, nothing added. Raises TypeError if it is not a string."""
        _check_text(text, "text")
        return self._backend.encode(text, add_special_tokens=False).ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """`[encode(text) for text in texts]`, on all cores."""
        texts = _checked_texts(texts)
        encodings = self._backend.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(
        self, ids: Sequence[int] | Int64[Tensor, "t"], skip_special: bool = True
    ) -> str:
        """The text of `ids`. Special tokens are left out unless `skip_special=False`.

        Raises ValueError for an id outside 0..vocab_size-1, TypeError for what is
        not an integer. Bytes that are no valid UTF-8 (half an emoji) become U+FFFD.
        """
        ids = self._checked_ids(ids)
        return self._backend.decode(ids, skip_special_tokens=skip_special)

    def tokens(self, ids: Sequence[int] | Int64[Tensor, "t"]) -> list[str]:
        """One readable piece per id: " the", "<eos>", and "<E2>" for a lone byte."""
        return [self._piece(id) for id in self._checked_ids(ids)]

    def save(self, path: str | Path) -> None:
        """Write everything into one JSON file."""
        backend = json.loads(self._backend.to_str())
        content = {"special": self._special, "tokenizer": backend}
        text = json.dumps(content, ensure_ascii=False, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read what `save` wrote. Raises ValueError if the file is something else."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            backend = tokenizers.Tokenizer.from_str(json.dumps(content["tokenizer"]))
            return cls(backend, content["special"])
        except FileNotFoundError:
            raise
        except Exception as error:  # the Rust library raises bare Exception
            raise ValueError(f"{path} was not written by Tokenizer.save") from error

    def _checked_ids(self, ids: Sequence[int] | Int64[Tensor, "t"]) -> list[int]:
        if isinstance(ids, str):
            raise TypeError("ids must be integers, not a string")
        ids = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        for position, id in enumerate(ids):
            if not isinstance(id, int) or isinstance(id, bool):
                kind = type(id).__name__
                raise TypeError(f"ids[{position}] must be an integer, not {kind}")
            check_between(0, self.vocab_size - 1, **{f"ids[{position}]": id})
        return ids

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


def train_bpe(texts: Iterable[str], vocab_size: int) -> "Tokenizer":
    """Learn byte-level byte-pair encoding (Sennrich et al. 2016, section 3.2; bytes
    as in Radford et al. 2019, section 2.2).

    The vocabulary holds the 4 special tokens, the 256 bytes and then merges, up to
    `vocab_size` entries (fewer when the texts have no pair left to merge). Any text
    round-trips exactly. The same texts give the same tokenizer.
    Raises ValueError for no texts or vocab_size below 260 (special tokens and bytes).
    """
    texts = _checked_texts(texts)
    check_whole(len(SPECIAL_TOKENS) + NUM_BYTES, vocab_size=vocab_size)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    return _trained(models.BPE(), trainer, texts)


def train_words(texts: Iterable[str]) -> "Tokenizer":
    """One entry per word of `texts`, a word being a piece as GPT-2 cuts them
    (" the", ".", "'s"), the most frequent first.

    Text made of these words round-trips exactly; any other word becomes `<unk>`.
    Raises ValueError for no texts.
    """
    trainer = trainers.WordLevelTrainer(
        vocab_size=2**31 - 1, special_tokens=SPECIAL_TOKENS, show_progress=False
    )
    model = models.WordLevel({}, unk_token="<unk>")
    return _trained(model, trainer, _checked_texts(texts))


def from_transformers(auto_tokenizer: Any) -> "Tokenizer":
    """The same interface around a fast tokenizer of the `transformers` library.

    Ids stay as they are. A missing padding token, or one that is also the end token,
    is replaced by an own `<pad>` behind the last entry; GPT's single <|endoftext|>
    keeps serving as bos, eos and unk.
    Raises TypeError for anything without a `backend_tokenizer`.
    """
    source = getattr(auto_tokenizer, "backend_tokenizer", None)
    if not isinstance(source, tokenizers.Tokenizer):
        kind = type(auto_tokenizer).__name__
        raise TypeError(f"auto_tokenizer must be a fast transformers one, not {kind}")
    end = auto_tokenizer.eos_token
    if end is None:
        raise ValueError("auto_tokenizer has no end-of-text token (eos_token is None)")
    backend = tokenizers.Tokenizer.from_str(source.to_str())
    special = {"bos": auto_tokenizer.bos_token or end, "eos": end}
    special["unk"], pad = auto_tokenizer.unk_token or end, auto_tokenizer.pad_token
    special["pad"] = "<pad>" if pad in (None, end, special["bos"]) else pad
    backend.add_special_tokens([special["pad"]])
    return Tokenizer(backend, special)


def _trained(model: Any, trainer: Any, texts: list[str]) -> "Tokenizer":
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(texts, trainer, length=len(texts))
    return Tokenizer(backend, dict(zip(ROLES, SPECIAL_TOKENS, strict=True)))


def _checked_texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise TypeError("texts must be a list of strings, not one string")
    texts = list(texts)
    if not texts:
        raise ValueError("texts is empty: at least one text is needed")
    for index, text in enumerate(texts):
        _check_text(text, f"texts[{index}]")
    return texts


def _check_text(text: object, name: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, not {type(text).__name__}")


def _byte_alphabet() -> dict[str, int]:
    """The printable stand-in that GPT-2 gives each of the 256 bytes, inverted."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(NUM_BYTES) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(256 + place): byte for place, byte in enumerate(others)}


BYTE_OF = _byte_alphabet()
