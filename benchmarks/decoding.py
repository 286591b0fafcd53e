"""Seconds for text and translations from the shipped models, in several ways."""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from course_utils.decoding import CachedStep, TranslationStep, beam_search, greedy
from course_utils.export import export_llama
from course_utils.pretrained import load
from known_worlds.phrases import pair

NEW_TOKENS = 256
SENTENCES = 500
LONGEST = 40  # tokens of a translation
Ways = dict[str, Callable[[], object]]


def generation(batch_size: int) -> Ways:
    """Greedy text of the storyteller, the same in all ways."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model, tokenizer = load("tinystories")
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "storyteller")
        export_llama(model, folder, tokenizer)
        other = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    other.generation_config.eos_token_id = None
    generator = torch.Generator().manual_seed(0)
    shape = (batch_size, 3)
    words = torch.randint(10, tokenizer.vocab_size, shape, generator=generator)
    prompt = torch.cat([torch.full((batch_size, 1), tokenizer.bos_id), words], dim=1)

    def generate() -> Tensor:
        """`transformers`, told never to stop."""
        return other.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            do_sample=False,
            pad_token_id=tokenizer.pad_id,
        )

    return {
        "`generate` of transformers": generate,
        "`greedy(CachedStep)`": lambda: greedy(CachedStep(model), prompt, NEW_TOKENS),
    }


def translation() -> Ways:
    """Beam search of width 4 over SENTENCES sentences, the same in all ways."""
    model, tokenizer = load("translator")
    sentences = [tokenizer.encode(pair(i, "test").source) for i in range(SENTENCES)]

    def translated(rows: Sequence[list[int]]) -> list[str]:
        longest = max(map(len, rows))
        padded = [row + [tokenizer.pad_id] * (longest - len(row)) for row in rows]
        step = TranslationStep(model, torch.tensor(padded))
        start = torch.full((len(rows), 1), tokenizer.bos_id)
        options = {"stop_id": tokenizer.eos_id, "pad_id": tokenizer.pad_id}
        generated = beam_search(step, start, LONGEST, beams=4, **options)
        return [tokenizer.decode(ids) for ids in generated.tolist()]

    def one_by_one() -> list[str]:
        return [text for row in sentences for text in translated([row])]

    def together() -> list[str]:
        """In batches of 100 of about equal length, then in the old order."""
        order = sorted(range(SENTENCES), key=lambda index: len(sentences[index]))
        translations = {}
        for first in range(0, SENTENCES, 100):
            chosen = order[first : first + 100]
            texts = translated([sentences[index] for index in chosen])
            translations.update(zip(chosen, texts, strict=True))
        return [translations[index] for index in range(SENTENCES)]

    return {
        "one sentence at a time": one_by_one,
        "100 sentences at a time": together,
    }


def compared(ways: Ways, repeats: int) -> dict[str, float]:
    """Median seconds of each way, taken in turn; raises unless all give the same."""
    expected = None
    for name, way in ways.items():
        result = as_lists(way())
        if expected is None:
            expected = result
        if result != expected:
            raise AssertionError(f"{name} gives something else")
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(one) for name, one in seconds.items()}


def as_lists(result: object) -> object:
    """Something that == compares as a whole."""
    return result.tolist() if isinstance(result, Tensor) else result
