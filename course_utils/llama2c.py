"""Read a LLaMA that the program llama2.c wrote, with its tokenizer.

Knows the layout of its two files. Knows nothing of training.

A model is a header of seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads,
vocab_size, seq_len; a negative vocab_size says that the output matrix is not the
embedding) and then float32 matrices. A tokenizer is an int32 and then, for each token,
its score (float32), its length (int32) and its bytes.

Source: https://github.com/karpathy/llama2.c
"""

import struct
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers
from torch import Tensor

from course_utils.checks import check_same
from course_utils.config import LlamaConfig
from course_utils.models import LlamaLM
from course_utils.tokenizer import Tokenizer

HUB = "karpathy/tinyllamas"
FILES = {"stories260K": ("stories260K/stories260K.bin", "stories260K/tok512.bin")}
HEADER = struct.Struct("<7i")
BLOCK = (  # in the file's order: for each name the matrices of all layers
    "attention_norm",
    "attention.to_queries",
    "attention.to_keys",
    "attention.to_values",
    "attention.to_output",
    "feedforward_norm",
    "feedforward.gate",
    "feedforward.down",
    "feedforward.up",
)


def load_llama2c(name: str = "stories260K") -> tuple[LlamaLM, Tokenizer]:
    """A model of `karpathy/tinyllamas` on the hub, and its tokenizer."""
    from course_utils.data.hub import fetch

    if name not in FILES:
        raise ValueError(f"name must be one of {', '.join(FILES)}, got {name!r}")
    model, tokenizer = (fetch(HUB, file) for file in FILES[name])
    return read_llama2c(model), read_llama2c_tokenizer(tokenizer)


def read_llama2c(path: str | Path) -> LlamaLM:
    """The LlamaLM in a file of llama2.c, in float32 and eval mode."""
    raw = Path(path).read_bytes()
    dim, hidden, layers, heads, kv_heads, vocab, length = HEADER.unpack_from(raw)
    config = LlamaConfig(
        vocab_size=abs(vocab),
        d_model=dim,
        num_heads=heads,
        num_kv_heads=kv_heads,
        num_layers=layers,
        d_ff=hidden,
        max_length=length,
        norm_eps=1e-5,
        tied=vocab > 0,
    )
    head_dim = dim // heads
    model = LlamaLM(config).eval()
    weights = model.state_dict()  # the model's own memory
    blocks = [f"blocks.{layer}.{name}" for name in BLOCK for layer in range(layers)]
    order = ["tokens", *blocks, "norm", "angles"] + ["head"] * (not config.tied)
    # Cosines and sines of the positions: a LlamaLM has its own.
    weights["angles.weight"] = torch.empty(length, head_dim)
    sizes = [weights[f"{name}.weight"].numel() for name in order]
    numbers = torch.from_numpy(np.frombuffer(raw, "<f4", offset=HEADER.size).copy())
    what = f"{path}: numbers in the file and by its header"
    check_same(what, len(numbers), sum(sizes))
    for name, tensor in zip(order, numbers.split(sizes), strict=True):
        weight = weights[f"{name}.weight"]
        tensor = tensor.view_as(weight)
        if name.endswith(("to_queries", "to_keys")):
            tensor = halves_from_neighbors(tensor, head_dim)
        weight.copy_(tensor)
    return model


def halves_from_neighbors(weight: Tensor, head_dim: int) -> Tensor:
    """Rows "(h d) m" whose rotary pairs are neighbors, in the order of halves.

    llama2.c turns the elements (2i, 2i + 1) of a head together, a LlamaLM (i, i + d/2).
    """
    pairs = weight.unflatten(0, (-1, head_dim // 2, 2))
    return pairs.transpose(1, 2).flatten(0, 2)


def read_llama2c_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer in a file of llama2.c: byte pairs, and bytes for the rest."""
    raw = Path(path).read_bytes()
    offset = 4  # after the length of the longest token
    tokens, scores = [], []
    while offset < len(raw):
        score, length = struct.unpack_from("<fi", raw, offset)
        offset += 8
        tokens.append(raw[offset : offset + length].decode().replace(" ", "▁"))
        scores.append(score)
        offset += length
    tokens[:3] = "<unk>", "<s>", "</s>"
    ids = {token: id for id, token in enumerate(tokens)}
    merges = []  # every way to make a token of two, the best token first
    for token in sorted(tokens[259:], key=lambda t: -scores[ids[t]]):
        splits = ((token[:i], token[i:]) for i in range(1, len(token)))
        pairs = [pair for pair in splits if pair[0] in ids and pair[1] in ids]
        merges += sorted(pairs, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    options = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    backend = Backend(models.BPE(ids, merges, **options))
    before = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    backend.normalizer = normalizers.Sequence(before)
    after = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*after, decoders.Strip(" ", 1, 0)])
    special = {"pad": "<unk>", "bos": "<s>", "eos": "</s>", "unk": "<unk>"}
    return Tokenizer(backend, special)
