"""Send a trained model around: one HTML file in which it writes, or the same in a cell.

Turns a model and its tokenizer into plain numbers. The page knows nothing of the course.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from attention_views.living import living_page
from course_utils.models import LlamaLM
from course_utils.shapes import check_same, describe
from course_utils.tokenizer import BYTE_OF, Tokenizer

OPENING = "Once upon a time, there was a little {girl named Lily}."
TITLE = "A storyteller that fits into a page"


def share_page(
    model: nn.Module,
    tokenizer: Tokenizer,
    path: str | Path,
    *,
    title: str = TITLE,
    opening: str = OPENING,
    start_id: int | None = None,
) -> Path:
    """Write a page in which the model runs, and return its path.

    The file needs no network and no server: its weights are int8 with one scale a row.
    Whoever opens it types a hero or an opening, and may ask each word what else was
    likely and what it looked at, take another road, or silence a head.

    model: a `LlamaLM` of at most 4,000,000 weights. tokenizer: its own, from
    `train_bpe` or `train_words`. opening: how the first story begins; a part of it in
    braces is the hero, in whose place a reader may type another. start_id: the token
    before each text of the training, by default the tokenizer's end token.

    Raises TypeError for another model, ValueError for a larger one, weights that are
    not finite, and a tokenizer of another vocabulary or kind. Nothing is written then.
    """
    if not isinstance(model, LlamaLM):
        raise TypeError(f"model must be a LlamaLM, got {describe(model)}")
    config = model.config
    sizes = (tokenizer.vocab_size, config.vocab_size)
    check_same("tokenizer and model: vocab_size", *sizes)
    weights = {  # a shared matrix comes once
        name.removesuffix(".weight"): weight.detach().float().cpu().numpy()
        for name, weight in model.named_parameters()
    }
    page = living_page(
        asdict(config),
        weights,
        _plain(tokenizer),
        title=title,
        opening=opening,
        start_id=tokenizer.eos_id if start_id is None else start_id,
        end_id=tokenizer.eos_id,
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8", newline="\n")
    return path


def _plain(tokenizer: Tokenizer) -> dict[str, Any]:
    """Tokens as bytes, merges as ids. Raises ValueError for another kind of tokenizer.

    A page splits a text as GPT-2 does and works on bytes, without a normalizer.
    """
    content = json.loads(tokenizer.backend.to_str())
    model = content["model"]
    splits = content["pre_tokenizer"] or {}
    fits = (
        model["type"] in ("BPE", "WordLevel")
        and content["normalizer"] is None
        and splits.get("type") == "ByteLevel"
        and splits.get("use_regex")
        and not splits.get("add_prefix_space")
        and not model.get("ignore_merges")
    )
    if not fits:
        raise ValueError(
            "tokenizer must split texts as those of train_bpe and train_words do, got "
            f"a {model['type']} model with {splits.get('type', 'no')} pre-tokenizer"
        )
    ids = model["vocab"]
    special = {one["id"]: one["content"] for one in content["added_tokens"]}
    tokens = [b""] * tokenizer.vocab_size
    for piece, id in ids.items():
        if id not in special:
            tokens[id] = bytes(BYTE_OF[letter] for letter in piece)
    merges = None
    if model["type"] == "BPE":
        merges = [(ids[a], ids[b], ids[a + b]) for a, b in model["merges"]]
    return {
        "tokens": tokens,
        "special": special,
        "merges": merges,
        "unknown": tokenizer.unk_id,
    }
