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

from course_utils.config import LlamaConfig
from course_utils.models import LlamaLM
from course_utils.tokenizer import Tokenizer, from_backend

HUB = "karpathy/tinyllamas"
FILES = {"stories260K": ("stories260K/stories260K.bin", "stories260K/tok512.bin")}
HEADER = struct.Struct("<7i")
NORM_EPS = 1e-5
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
    """A model of `karpathy/tinyllamas` on the hub, and its tokenizer.

    Raises DataUnavailable where the hub does not answer and nothing is cached.
    """
    from course_utils.data.hub import fetch

    model, tokenizer = (fetch(HUB, file) for file in FILES[name])
    return read_llama2c(model), read_llama2c_tokenizer(tokenizer)


def read_llama2c(path: str | Path) -> LlamaLM:
    """The LlamaLM in a file of llama2.c, in float32 and eval mode.

    Raises ValueError for a file that is shorter or longer than its header says.
    """
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
        norm_eps=NORM_EPS,
        tied=vocab > 0,
    )
    numbers = torch.from_numpy(np.frombuffer(raw, "<f4", offset=HEADER.size).copy())
    with torch.device("meta"):
        shapes = {name: one.shape for name, one in LlamaLM(config).state_dict().items()}
    angles = length * (dim // heads)  # cosines and sines of the positions
    order = ["tokens", *BLOCK, "norm", "angles"] + ["head"] * (not config.tied)
    state: dict[str, Tensor] = {}
    place = 0
    for name in order:
        if name == "angles":
            place += angles
            continue
        names = [f"{name}.weight"]
        if name in BLOCK:
            names = [f"blocks.{layer}.{name}.weight" for layer in range(layers)]
        for one in names:
            size = shapes[one].numel()
            state[one] = numbers[place : place + size]
            place += size
    if place != len(numbers):
        raise ValueError(
            f"{path} holds {len(numbers):,} numbers, but its header asks for {place:,}"
        )
    model = LlamaLM(config)
    if config.tied:
        state["head.weight"] = state["tokens.weight"]
    state = {name: weight.view(shapes[name]) for name, weight in state.items()}
    for name in state:
        if name.endswith(("to_queries.weight", "to_keys.weight")):
            state[name] = halves_from_neighbours(state[name], dim // heads)
    model.load_state_dict(state)
    return model.eval()


def halves_from_neighbours(weight: Tensor, head_dim: int) -> Tensor:
    """Rows "(h d) m" whose rotary pairs are neighbours, in the order of halves.

    llama2.c turns the elements (2i, 2i + 1) of a head together, a LlamaLM (i, i + d/2).
    """
    pairs = weight.unflatten(0, (-1, head_dim // 2, 2))
    return pairs.transpose(1, 2).flatten(0, 2)


def read_llama2c_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer in a file of llama2.c: byte pairs, and bytes for the rest."""
    raw = Path(path).read_bytes()
    place = 4  # after the length of the longest token
    tokens, scores = [], []
    while place < len(raw):
        score, length = struct.unpack_from("<fi", raw, place)
        place += 8
        tokens.append(raw[place : place + length].decode().replace(" ", "▁"))
        scores.append(score)
        place += length
    tokens[:3] = "<unk>", "<s>", "</s>"
    ids = {token: id for id, token in enumerate(tokens)}
    merges = []  # every way to make a token of two, the best token first
    for token in sorted(tokens[259:], key=lambda one: -scores[ids[one]]):
        cuts = ((token[:cut], token[cut:]) for cut in range(1, len(token)))
        found = [cut for cut in cuts if cut[0] in ids and cut[1] in ids]
        merges += sorted(found, key=lambda cut: (ids[cut[0]], ids[cut[1]]))
    model = models.BPE(
        ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True
    )
    backend = Backend(model)
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    special = {"pad": "<unk>", "bos": "<s>", "eos": "</s>", "unk": "<unk>"}
    return from_backend(backend, special)
