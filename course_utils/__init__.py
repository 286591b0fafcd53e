"""From Attention to Stories: what its notebooks share.

`from course_utils import LlamaLM, train, sample` works for every name below; its module
is read at the first use. Who reads the code finds it in the file that stands before it.
"""

from importlib import import_module
from typing import Any

from course_utils import moved

FILES = {
    "attention": "GroupedQueryAttention MultiHeadAttention attend attention_scores "
    "attention_weights split_heads",
    "blocks": "DecoderBlock EncoderBlock",
    "cache": "KeyValueCache LayerCache",
    "config": "ClassifierConfig DecoderConfig EncoderDecoderConfig LlamaConfig "
    "StackConfig TrainConfig",
    "data.batches": "packed_batches padded_batches pair_batches",
    "data.hub": "DataUnavailable load_model load_pairs load_texts load_tokenizer",
    "data.splits": "split_pairs",
    "decoding": "CachedStep TranslationStep beam_search greedy "
    "next_token_probabilities sample",
    "diagnostics": "dead_parameters ignores_source leaks_future",
    "export": "export_llama",
    "feedforward": "FeedForward SwiGLU",
    "intervening": "activation_patch intervene mean_ablation zero_ablation",
    "llama2c": "load_llama2c",
    "masks": "causal_mask padding_mask",
    "metrics": "alignment_error_rate bits_per_byte bleu exact_match strongest_links",
    "models": "Classifier DecoderLM EncoderDecoder LlamaLM",
    "norms": "RMSNorm",
    "page": "share_page show_story show_training train_page",
    "parts": "mine",
    "positions": "SinusoidalPositions alibi_bias rotary_table rotate "
    "sinusoidal_positions",
    "pretrained": "load save",
    "recording": "record",
    "records": "load_record load_script",
    "recurrent": "RecurrentAttention RecurrentSeq2Seq",
    "tokenizer": "BYTE_OF train_bpe train_words",
    "training.evaluation": "mean_loss",
    "training.loop": "train",
    "training.losses": "next_token_loss translation_loss",
    "training.machine": "find_device progress_bar",
    "training.optimizers": "build_optimizers learning_rate_at orthogonalize "
    "set_learning_rate",
    "views": "ask show_attention show_bertviz show_bill show_comparison show_frames "
    "show_map show_query show_rotation show_sampling",
}
FILE_OF = {name: file for file, names in FILES.items() for name in names.split()}
__all__ = sorted(FILE_OF)

moved.watch()


def __getattr__(name: str) -> Any:
    if now := moved.NOW.get(f"looking.{name}"):  # from course_utils.looking import maps
        return import_module(f"course_utils.{now}")
    if name not in FILE_OF:
        raise AttributeError(f"module 'course_utils' has no attribute {name!r}")
    value = getattr(import_module(f"course_utils.{FILE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
