"""Write models and tokenizers as llama2.c does: the inverse of `course_utils.llama2c`.

They come from a folder of `transformers`.
"""

import struct

import numpy as np
import tokenizers
import torch

from course_utils.config import LlamaConfig
from course_utils.export import SETTINGS, their_name
from course_utils.llama2c import BLOCK, HEADER
from course_utils.models import LlamaLM
from course_utils.tokenizer import Tokenizer


def read_transformers(folder):
    """The plain LLaMA in a folder of `transformers`, as ours, and its tokenizer."""
    import transformers

    transformers.utils.logging.disable_progress_bar()  # it takes a moment
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    settings = {ours: getattr(theirs.config, name) for name, ours in SETTINGS.items()}
    model = LlamaLM(LlamaConfig(**settings)).eval()
    weights = theirs.state_dict()
    model.load_state_dict({n: weights[their_name(n)] for n in model.state_dict()})
    words = transformers.AutoTokenizer.from_pretrained(folder)
    special = {role: getattr(words, f"{role}_token") for role in ("bos", "eos", "unk")}
    backend = tokenizers.Tokenizer.from_str(words.backend_tokenizer.to_str())
    return model, Tokenizer(backend, special | {"pad": special["unk"]})


def neighbors_from_halves(weight, head_dim):
    """The inverse of what the reader does, written another way."""
    order = [half * head_dim // 2 + i for i in range(head_dim // 2) for half in (0, 1)]
    rows = weight.view(-1, head_dim, weight.shape[1])
    return rows[:, order].reshape(weight.shape)


def write_llama2c(path, model):
    """The file that llama2.c would have written for this model."""
    c, state = model.config, model.state_dict()
    head_dim = c.d_model // c.num_heads
    sizes = (c.d_model, c.d_ff, c.num_layers, c.num_heads, c.num_kv_heads)
    vocab = c.vocab_size if c.tied else -c.vocab_size
    parts = [state["tokens.weight"]]
    for name in BLOCK:
        for layer in range(c.num_layers):
            weight = state[f"blocks.{layer}.{name}.weight"]
            if name.endswith(("queries", "keys")):
                weight = neighbors_from_halves(weight, head_dim)
            parts.append(weight)
    parts += [state["norm.weight"], torch.zeros(c.max_length * head_dim)]
    parts += [] if c.tied else [state["head.weight"]]
    numbers = np.concatenate([part.float().numpy().ravel() for part in parts])
    path.write_bytes(
        HEADER.pack(*sizes, vocab, c.max_length) + numbers.astype("<f4").tobytes()
    )
    return path


def write_tokenizer(path, tokenizer):
    """The file of a tokenizer; the scores say only which token was learned first."""
    vocabulary = tokenizer.backend.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.get)
    pieces = [struct.pack("<i", max(map(len, tokens)))]
    for id, token in enumerate(tokens):
        raw = token.replace("▁", " ").encode()
        pieces.append(struct.pack("<fi", float(259 - id), len(raw)) + raw)
    path.write_bytes(b"".join(pieces))
    return path
