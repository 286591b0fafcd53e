"""Load from the hub that the environment names; print the results as one JSON line.

A separate program, because the libraries read their settings only when first imported.
With the argument `patient` it meets the faults after which they retry for a long time.
"""

import json
import os
import sys
import time

import datasets
import torch
import transformers

from course_utils.data.hub import (
    load_labelled,
    load_model,
    load_pairs,
    load_texts,
    load_tokenizer,
)

STORIES = "roneneldan/TinyStories"
TATOEBA = "sentence-transformers/parallel-sentences-tatoeba"
OPUS = "Helsinki-NLP/opus-100"
TOKENIZER = "EleutherAI/gpt-neo-125M"
FAULTY = ("busy", "dropped", "damaged", "silent", "absent")


def attempt(call):
    """The outcome of a call: how long it took, and its value or its exception."""
    start = time.monotonic()
    try:
        outcome = {"value": call()}
    except Exception as error:
        outcome = {"error": type(error).__name__, "message": str(error)}
    return outcome | {"seconds": time.monotonic() - start}


def unmodified():
    """The libraries' own calls, as anyone writes them."""
    splits = datasets.load_dataset(STORIES)
    part = datasets.load_dataset(STORIES, split="train[2:5]")
    stream = datasets.load_dataset(STORIES, split="validation", streaming=True)
    return {
        "splits": {name: len(rows) for name, rows in splits.items()},
        "columns": splits["train"].column_names,
        "slice": part["text"][:],
        "stream": [row["text"] for row in stream.take(3)],
    }


def ours():
    """The course's calls for the same data."""
    return {
        "first": load_texts(STORIES, limit=5),
        "validation": load_texts(STORIES, "validation"),
        "tatoeba": load_pairs(TATOEBA, limit=3),
        "dev": load_pairs(TATOEBA, "dev"),
        "opus": load_pairs(OPUS, "test", limit=2),
    }


def gaps():
    """Data sets with rows that have no text."""
    return {
        "texts": load_texts("odd/texts"),
        "first texts": load_texts("odd/texts", limit=2),
        "pairs": load_pairs("odd/pairs"),
        "first pair": load_pairs("odd/pairs", limit=1),
        "labelled": load_labelled("odd/labelled"),
        "first labelled": load_labelled("odd/labelled", limit=1),
    }


def tokens():
    """The tokenizer by the library's own call."""
    transformers.logging.set_verbosity_error()  # it has a remark on its own settings
    tokenizer = transformers.AutoTokenizer.from_pretrained(TOKENIZER)
    text = "Once upon a time, there was a little girl."
    ids = tokenizer.encode(text)
    return {"ids": ids, "text": tokenizer.decode(ids), "end": tokenizer.eos_token}


def weights_of(name):
    """The shapes of the attention weights of a model."""
    output = load_model(name)(torch.tensor([[1, 2, 3]]), output_attentions=True)
    return [list(one.shape) for one in output.attentions]


def patient():
    """The faults that the libraries meet with many retries."""
    return {
        "stalled": attempt(lambda: load_texts("faulty/stalled")),
        "dropped stream": attempt(lambda: load_texts("faulty/dropped", limit=2)),
    }


def quick():
    """Everything else, in one process: each one spends seconds on its imports."""
    results = {
        "unmodified": attempt(unmodified),
        "ours": attempt(ours),
        "gaps": attempt(gaps),
        "no text": attempt(lambda: load_texts("odd/nothing", limit=3)),
        "tokens": attempt(tokens),
        "unknown split": attempt(lambda: load_texts(STORIES, "nonsense")),
        "missing column": attempt(lambda: load_texts(STORIES, limit=2, column="story")),
    }
    for name in FAULTY:
        results[name] = attempt(lambda name=name: load_texts(f"faulty/{name}"))
    results["model"] = attempt(lambda: weights_of("tiny/model"))
    results["damaged model"] = attempt(lambda: weights_of("faulty/model"))
    os.environ["HF_HUB_OFFLINE"] = "1"
    results["cached model"] = attempt(lambda: weights_of("tiny/model"))
    results["cached"] = attempt(lambda: load_texts(STORIES, limit=5))
    results["cached gaps"] = attempt(lambda: load_texts("odd/texts", limit=2))
    results["cached tokenizer"] = attempt(lambda: len(load_tokenizer(TOKENIZER)))
    results["not cached"] = attempt(lambda: load_texts("faulty/healthy-v1.5"))
    results["no tokenizer"] = attempt(lambda: load_tokenizer("faulty/healthy"))
    return results


if __name__ == "__main__":
    print(json.dumps(patient() if sys.argv[1:] == ["patient"] else quick()))
