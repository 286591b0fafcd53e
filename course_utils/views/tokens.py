"""The tokens of a text as a reader sees them.

Knows what tokenizers give and how their pieces spell text. Knows nothing of models.
"""

from collections.abc import Mapping
from typing import Any

import tokenizers

from course_utils.checks import check_type, describe
from course_utils.tokenizer import BYTE_OF, from_bytes

_WORD_START = "▁"  # how SentencePiece spells a space


def token_texts(tokens: Any, name: str = "tokens") -> list[str]:
    """The text of each token.

    tokens: strings, which stay as they are, or what a tokenizer gave for one text: a
    `tokenizers.Encoding` or a BatchEncoding of `transformers`. "Ġthe" and "▁the" become
    " the", half a character becomes "<E2>", and WordPiece's "##ing" stays.
    """
    if hasattr(tokens, "encodings"):
        count = len(tokens.encodings or [])  # None from a tokenizer that is not fast
        if count != 1:
            expected = "one text, encoded by a fast tokenizer, such as encoding[0]"
            raise ValueError(f"{name} must be {expected}; got {count}")
        tokens = tokens.encodings[0]
    if isinstance(tokens, tokenizers.Encoding):
        return _readable(tokens.tokens, tokens.special_tokens_mask)
    if isinstance(tokens, str | Mapping | None):
        kinds = "a list of strings or a tokenizer's encoding"
        raise TypeError(f"{name} must be {kinds}, got {describe(tokens)}")
    tokens = list(tokens)
    for index, token in enumerate(tokens):
        check_type(str, **{f"{name}[{index}]": token})
    return tokens


def _readable(pieces: list[str], special: list[int]) -> list[str]:
    """The texts of pieces, spelled as their vocabulary shows by what is not special."""
    ordinary = [
        piece for piece, added in zip(pieces, special, strict=True) if not added
    ]
    words = any(piece.startswith(_WORD_START) for piece in ordinary)
    if not words and not _is_byte_level("".join(ordinary)):
        return pieces
    texts = []
    for piece, added in zip(pieces, special, strict=True):
        if words and not added:
            piece = piece.replace(_WORD_START, " ")
        elif not added and all(letter in BYTE_OF for letter in piece):
            piece = from_bytes(piece)
        texts.append(piece)
    return texts


def _is_byte_level(letters: str) -> bool:
    """Whether letters spell bytes: a space does, or together they are another text."""
    if "Ġ" in letters:
        return True
    try:
        return not bytes(BYTE_OF[letter] for letter in letters).decode().isascii()
    except (KeyError, UnicodeDecodeError):
        return False
