"""The tokens of a text as a reader sees them.

Knows what tokenizers give and how their pieces spell text. Knows nothing of models.
"""

from collections.abc import Mapping
from typing import Any

import tokenizers

from course_utils.shapes import check_type, describe
from course_utils.tokenizer import BYTE_OF

_CONTROLS = {chr(code) for code in (*range(32), *range(127, 160))} - {"\t", "\n"}
_SPACE = "Ġ"  # how such a vocabulary spells a space
_WORD_START = "▁"  # how SentencePiece spells a space


def token_texts(tokens: Any, name: str = "tokens") -> list[str]:
    """The text of each token.

    tokens: strings, which stay as they are, or what a tokenizer gave for one text: a
    `tokenizers.Encoding` or a BatchEncoding of `transformers`. Its pieces become text:
    "Ġthe" and "▁the" become " the", the pieces of a byte-level vocabulary are decoded,
    a byte that is only a part of a character becomes "<E2>", and WordPiece's "##ing"
    stays. `name` is used in messages.

    Raises TypeError for a string, ids or a dict, ValueError for several texts.
    """
    if hasattr(tokens, "encodings"):
        count = len(tokens.encodings or [])  # None from a tokenizer that is not fast
        if count != 1:
            raise ValueError(
                f"{name} must be one text, encoded by a fast tokenizer, such as "
                f"encoding[0]; got {count}"
            )
        tokens = tokens.encodings[0]
    if isinstance(tokens, tokenizers.Encoding):
        return _readable(tokens.tokens, tokens.special_tokens_mask)
    if isinstance(tokens, str | Mapping):
        raise TypeError(
            f"{name} must be a list of strings or a tokenizer's encoding, got "
            f"{describe(tokens)}"
        )
    tokens = list(tokens)
    check_type(str, **{f"{name}[{place}]": token for place, token in enumerate(tokens)})
    return tokens


def _readable(pieces: list[str], special: list[int]) -> list[str]:
    """The texts of pieces, spelled as their vocabulary shows by what is not special."""
    ordinary = [
        piece for piece, added in zip(pieces, special, strict=True) if not added
    ]
    if any(piece.startswith(_WORD_START) for piece in ordinary):
        spelled = _from_words
    elif _is_byte_level(ordinary):
        spelled = _from_bytes
    else:
        return pieces
    return [
        piece if added else spelled(piece)
        for piece, added in zip(pieces, special, strict=True)
    ]


def _is_byte_level(pieces: list[str]) -> bool:
    """Whether the pieces spell bytes: a space does, or the bytes of all are a text.

    A letter such as the "é" of a WordPiece vocabulary spells a byte too, but by itself
    it is no text; the letters from 256 on, such as "č", would spell control characters.
    """
    if any(_SPACE in piece for piece in pieces):
        return True
    letters = "".join(pieces)
    if not all(letter in BYTE_OF for letter in letters):
        return False
    try:
        text = bytes(BYTE_OF[letter] for letter in letters).decode()
    except UnicodeDecodeError:
        return False
    return _CONTROLS.isdisjoint(text.replace("\r\n", "\n"))


def _from_words(piece: str) -> str:
    return piece.replace(_WORD_START, " ")


def _from_bytes(piece: str) -> str:
    if not all(letter in BYTE_OF for letter in piece):
        return piece  # a token that was added to the vocabulary as it is
    return _decoded(bytes(BYTE_OF[letter] for letter in piece))


def _decoded(raw: bytes) -> str:
    """The text of bytes, with those that are no text in angle brackets: "<E2>"."""
    text = ""
    while raw:
        try:
            return text + raw.decode()
        except UnicodeDecodeError as error:
            text += f"{raw[: error.start].decode()}<{raw[error.start]:02X}>"
            raw = raw[error.start + 1 :]
    return text
