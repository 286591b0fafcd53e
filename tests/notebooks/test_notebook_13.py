"""What notebook 13 builds is what the package holds."""

import itertools
import random
from collections import Counter
from math import exp, inf, log
from pathlib import Path

import pytest
import torch
from nb13_accumulation import accumulated
from nb13_perplexity import perplexity, trigram_line
from nb13_schedule_and_clipping import clip
from nb13_step import steps

from course_utils import pretrained
from course_utils.config import LlamaConfig, TrainConfig
from course_utils.data.batches import packed_batches, padded_batches
from course_utils.data.hub import load_texts
from course_utils.export import import_llama
from course_utils.looking.metrics import bits_per_byte
from course_utils.models import LlamaLM
from course_utils.tokenizer import train_bpe, train_words
from course_utils.training.loop import train
from course_utils.training.losses import label_loss
from course_utils.training.optimizers import build_optimizers
from course_utils.training.records import load_script
from known_worlds.stories import story
from tests.support import notebook_code

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "13_tinystories_decoder.ipynb"
BUILT = (
    "transitions",
    "bigram_line",
    "unigram_line",
    "with_runs",
    "ngram_line",
    "adamw",
    "our_train",
    "document_mask",
)
STORIES_260K = ROOT.parent / "shared" / "data" / "stories260K"
TINYSTORIES = ROOT.parent / "shared" / "data" / "tinystories"
TEXTS = ["the cat sat because it was tired", "the cat ran", "it was", "tired it ran"]


@pytest.fixture(scope="module")
def built():
    return notebook_code.built("13", *BUILT)


@pytest.fixture(scope="module")
def data():
    tokenizer = train_words(TEXTS)
    return tokenizer, tokenizer.encode_batch(TEXTS)


def small_llama(tokenizer):
    """The same fresh model at each call, in float64."""
    torch.manual_seed(0)
    sizes = LlamaConfig(
        vocab_size=tokenizer.vocab_size,
        d_model=24,
        num_heads=2,
        num_layers=1,
        d_ff=40,
        max_length=16,
    )
    return LlamaLM(sizes).double()


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
@pytest.mark.parametrize("clip_norm", [0.3, 100.0])
def test_the_loop_is_the_packages(built, data, optimizer, clip_norm):
    tokenizer, rows = data
    batches = padded_batches(rows, batch_size=2, special=tokenizer)
    config = TrainConfig(
        steps=7,
        learning_rate=5e-3,
        warmup_steps=3,
        clip_norm=clip_norm,
        optimizer=optimizer,
    )

    ours = small_llama(tokenizer)
    theirs = small_llama(tokenizer)
    losses = built["our_train"](ours, batches, config)
    torch.testing.assert_close(losses, train(theirs, batches, config).losses)
    for mine, its in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, its)


def test_the_exercises_step_is_the_packages(data):
    tokenizer, rows = data
    batches = padded_batches(rows, batch_size=2, special=tokenizer)
    settings = {"schedule": "constant", "clip_norm": inf, "warmup_steps": 0}
    config = TrainConfig(steps=5, learning_rate=5e-3, **settings)

    ours = small_llama(tokenizer)
    theirs = small_llama(tokenizer)
    (optimizer,) = build_optimizers(ours, config)
    losses = steps(ours, optimizer, [batches(step) for step in range(5)])
    torch.testing.assert_close(losses, train(theirs, batches, config).losses)


def test_clipping_is_pytorchs():
    for size in (0.01, 50.0):
        gradients = [size * torch.randn(3, 5), size * torch.randn(7)]
        weights = [torch.zeros_like(g) for g in gradients]
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        clipped = clip(gradients, 1.0)
        expected = [weight.grad for weight in weights]
        torch.testing.assert_close(clipped, expected, rtol=1e-4, atol=1e-6)


def test_every_token_is_followed_by_the_next_and_the_last_by_eos(built, data):
    tokenizer, rows = data
    before, after = built["transitions"](rows[1:3], tokenizer)
    bos, eos = tokenizer.bos_id, tokenizer.eos_id
    assert before.tolist() == [bos, *rows[1], bos, *rows[2]]
    assert after.tolist() == [*rows[1], eos, *rows[2], eos]


def test_the_bigram_line_is_counted_by_hand(built, data):
    tokenizer, rows = data
    held, alpha = rows[:2], 0.01

    def pairs(rows):
        for row in rows:
            row = [tokenizer.bos_id, *row, tokenizer.eos_id]
            yield from itertools.pairwise(row)

    seen, size = Counter(pairs(rows)), tokenizer.vocab_size
    before = Counter(first for first, _ in pairs(rows))
    costs = [
        -log((seen[pair] + alpha) / (before[pair[0]] + alpha * size))
        for pair in pairs(held)
    ]
    line = built["bigram_line"](rows, held, tokenizer, alpha)
    assert line == pytest.approx(sum(costs) / len(costs))


def test_a_table_of_frequencies_is_a_logit_that_never_changes(built, data):
    """The unigram line is the package's loss of constant logits."""
    tokenizer, rows = data
    line = built["unigram_line"](rows, rows, tokenizer)
    after = built["transitions"](rows, tokenizer)[1]
    counts = torch.bincount(after, minlength=tokenizer.vocab_size).double() + 0.01
    logits = counts.log().expand(1, len(after), -1)
    assert line == pytest.approx(label_loss(logits, after[None], 0.0).item())
    shuffled = [random.Random(0).sample(row, len(row)) for row in rows]
    assert built["unigram_line"](rows, shuffled, tokenizer) == pytest.approx(line)


def test_an_interpolated_line_is_counted_by_hand(built, data):
    tokenizer, rows = data
    train_rows, held, longest = rows[1:], rows[:2], 3
    size = tokenizer.vocab_size

    def padded(row):
        return [tokenizer.bos_id] * (longest - 1) + row + [tokenizer.eos_id]

    def chances(run):
        """The chance of each token after a run, the mixture written as a recursion."""
        shorter = chances(run[1:]) if run else [1 / size] * size
        seen = Counter()
        for row in map(padded, train_rows):
            for place in range(longest - 1, len(row)):
                if tuple(row[place - len(run) : place]) == run:
                    seen[row[place]] += 1
        if not seen:
            return shorter
        total = seen.total() + len(seen)
        return [(seen[v] + len(seen) * shorter[v]) / total for v in range(size)]

    costs = []
    for row in map(padded, held):
        for place in range(longest - 1, len(row)):
            probabilities = chances(tuple(row[place - longest + 1 : place]))
            assert sum(probabilities) == pytest.approx(1)
            costs.append(-log(probabilities[row[place]]))
    line = built["ngram_line"](train_rows, held, tokenizer, longest)
    assert line == pytest.approx(sum(costs) / len(costs))


def test_the_trigram_line_lies_between_bigram_and_floor(built):
    texts = load_texts("stories", limit=4000)
    tokenizer = train_words(texts)
    held = [story(10**9 + i) for i in range(60)]
    rows = tokenizer.encode_batch(texts), tokenizer.encode_batch(s.text for s in held)
    floor = sum(sum(s.floor) for s in held) / sum(len(s.tokens) for s in held)
    line = trigram_line(*rows, tokenizer)
    assert 3 * floor < line < 0.7 * built["bigram_line"](*rows, tokenizer)


def test_the_perplexity_of_a_reader_without_an_idea_is_the_number_of_tokens():
    labels = torch.tensor([[3, 0, -100]])
    assert perplexity(torch.zeros(1, 3, 7), labels) == pytest.approx(7)
    logits = torch.tensor([[[0.0, log(3)], [0.0, log(9)]]])
    mean = (log(4 / 3) + log(10 / 9)) / 2
    assert perplexity(logits, torch.ones(1, 2).long()) == pytest.approx(exp(mean))


def test_adamw_by_hand_is_pytorchs(built):
    draw = torch.Generator().manual_seed(0)
    gradients = (5 * torch.randn(20, generator=draw).double()).tolist()
    weight = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
    optimizer = torch.optim.AdamW([weight], 0.1, betas=(0.9, 0.95), weight_decay=0.1)
    path = []
    for gradient in gradients:
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
        path.append(weight.item())
    assert built["adamw"](gradients) == pytest.approx(path)


def test_a_batch_in_parts_makes_the_step_of_the_full_batch(data):
    tokenizer, rows = data
    full_batches = padded_batches(rows, batch_size=4, special=tokenizer)
    settings = {"schedule": "constant", "clip_norm": inf, "warmup_steps": 0}
    config = TrainConfig(steps=3, learning_rate=5e-3, **settings)
    parts = [
        [(inputs[:1], labels[:1]), (inputs[1:], labels[1:])]
        for inputs, labels in map(full_batches, range(3))
    ]

    ours = small_llama(tokenizer)
    theirs = small_llama(tokenizer)
    (optimizer,) = build_optimizers(ours, config)
    losses = accumulated(ours, optimizer, parts)
    torch.testing.assert_close(losses, train(theirs, full_batches, config).losses)


def test_a_word_looks_at_its_own_story_only(built, data):
    tokenizer, rows = data
    batches = packed_batches(rows * 3, batch_size=2, length=9, special=tokenizer)
    ids = batches(0)[0]
    mask = built["document_mask"](ids, tokenizer.eos_id)
    assert mask.shape == (2, 1, 9, 9)
    for row, allowed in zip(ids.tolist(), mask[:, 0], strict=True):
        for query, key in itertools.product(range(9), range(9)):
            first, last = sorted((query, key))
            same = tokenizer.eos_id not in row[first + 1 : last + 1]
            assert allowed[query, key] == same


def test_the_record_hides_the_same_stories(built, data):
    record = load_script("nb13_documents")
    ids = torch.tensor([[0, 5, 6, 0, 7, 0, 0, 8]])
    assert torch.equal(record.document_mask(ids), built["document_mask"](ids, 0))


@pytest.mark.skipif(
    not (STORIES_260K.is_dir() and TINYSTORIES.is_dir()),
    reason="needs the model stories260K and the TinyStories",
)
def test_the_reported_bits_of_somebody_elses_model_are_measured():
    texts = load_texts(TINYSTORIES / "train.txt")[:8000]
    bpe = train_bpe(texts, 2048)
    held = load_texts(TINYSTORIES / "valid.txt")[:60]
    held = [text for text in held if len(bpe.encode(text)) < 256][:40]
    num_bytes = sum(len(text.encode()) for text in held)
    bits = {}
    loaded = import_llama(STORIES_260K), pretrained.load("tinystories")
    for name, (model, tokenizer) in zip(("260K", "ours"), loaded, strict=True):
        end = tokenizer.bos_id if name == "260K" else tokenizer.eos_id
        nats = labels = 0
        for row in tokenizer.encode_batch(held):
            ids = torch.tensor([[end, *row, end]])
            with torch.no_grad():
                loss = label_loss(model(ids[:, :-1]), ids[:, 1:], 0.0).item()
            nats += loss * (len(row) + 1)
            labels += len(row) + 1
        bits[name] = bits_per_byte(nats / labels, labels, num_bytes)
    assert bits["260K"] == pytest.approx(0.864, abs=0.002)
    assert bits["ours"] == pytest.approx(0.655, abs=0.002)
    assert "| 0.86 |" in NOTEBOOK.read_text("utf-8")
