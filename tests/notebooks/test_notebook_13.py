"""What notebook 13 builds is what the package holds."""

import random
from collections import Counter
from itertools import pairwise, product
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
from tests.support.notebook_code import texts

ROOT = Path(__file__).parents[2]
NAMES = ("transitions", "bigram_line", "unigram_line", "with_runs", "ngram_line")
NAMES += ("adamw", "our_train", "document_mask")
STORIES_260K = ROOT.parent / "shared" / "data" / "stories260K"
TINYSTORIES = ROOT.parent / "shared" / "data" / "tinystories"
TEXTS = ["the cat sat because it was tired", "the cat ran", "it was", "tired it ran"]


STEADY = {"schedule": "constant", "clip_norm": inf, "warmup_steps": 0}
TOKENIZER = train_words(TEXTS)
BOS, EOS, VOCAB = TOKENIZER.bos_id, TOKENIZER.eos_id, TOKENIZER.vocab_size
ROWS = TOKENIZER.encode_batch(TEXTS)


def small_llama():
    """The same fresh model at each call, in float64."""
    torch.manual_seed(0)
    sizes = {"d_model": 24, "num_heads": 2, "num_layers": 1, "d_ff": 40}
    return LlamaLM(LlamaConfig(vocab_size=VOCAB, **sizes, max_length=16)).double()


def batches_of(batch_size):
    return padded_batches(ROWS, batch_size=batch_size, special=TOKENIZER)


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
@pytest.mark.parametrize("clip_norm", [0.3, 100.0])
def test_the_loop_is_the_packages(built, optimizer, clip_norm):
    kinds = {"clip_norm": clip_norm, "optimizer": optimizer}
    config = TrainConfig(steps=7, learning_rate=5e-3, warmup_steps=3, **kinds)
    ours, theirs, batches = small_llama(), small_llama(), batches_of(2)
    losses = built["our_train"](ours, batches, config)
    torch.testing.assert_close(losses, train(theirs, batches, config).losses)
    for mine, its in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, its)


def test_the_exercises_steps_are_the_packages_in_one_part_or_two():
    batches = batches_of(4)
    config = TrainConfig(steps=3, learning_rate=5e-3, **STEADY)
    expected = train(small_llama(), batches, config).losses
    whole = [batches(step) for step in range(3)]
    halves = [[(x[:1], y[:1]), (x[1:], y[1:])] for x, y in whole]
    for make_steps, given in ((steps, whole), (accumulated, halves)):
        ours = small_llama()
        (optimizer,) = build_optimizers(ours, config)
        torch.testing.assert_close(make_steps(ours, optimizer, given), expected)


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


def test_every_token_is_followed_by_the_next_and_the_last_by_eos(built):
    before, after = built["transitions"](ROWS[1:3], TOKENIZER)
    assert before.tolist() == [BOS, *ROWS[1], BOS, *ROWS[2]]
    assert after.tolist() == [*ROWS[1], EOS, *ROWS[2], EOS]


def test_the_bigram_line_is_counted_by_hand(built):
    held, alpha = ROWS[:2], 0.01

    def pairs(rows):
        return [pair for row in rows for pair in pairwise([BOS, *row, EOS])]

    seen, before = Counter(pairs(ROWS)), Counter(first for first, _ in pairs(ROWS))
    costs = [
        -log((seen[pair] + alpha) / (before[pair[0]] + alpha * VOCAB))
        for pair in pairs(held)
    ]
    line = built["bigram_line"](ROWS, held, TOKENIZER, alpha)
    assert line == pytest.approx(sum(costs) / len(costs))


def test_a_table_of_frequencies_is_a_logit_that_never_changes(built):
    """The unigram line is the package's loss of constant logits."""
    line = built["unigram_line"](ROWS, ROWS, TOKENIZER)
    after = built["transitions"](ROWS, TOKENIZER)[1]
    counts = torch.bincount(after, minlength=VOCAB).double() + 0.01
    logits = counts.log().expand(1, len(after), -1)
    assert line == pytest.approx(label_loss(logits, after[None], 0.0).item())
    shuffled = [random.Random(0).sample(row, len(row)) for row in ROWS]
    assert built["unigram_line"](ROWS, shuffled, TOKENIZER) == pytest.approx(line)


def test_an_interpolated_line_is_counted_by_hand(built):
    train_rows, held, longest = ROWS[1:], ROWS[:2], 3

    def padded(row):
        return [BOS] * (longest - 1) + row + [EOS]

    def chances(run):
        """The chance of each token after a run, the mixture written as a recursion."""
        shorter = chances(run[1:]) if run else [1 / VOCAB] * VOCAB
        seen = Counter()
        for row in map(padded, train_rows):
            for place in range(longest - 1, len(row)):
                if tuple(row[place - len(run) : place]) == run:
                    seen[row[place]] += 1
        if not seen:
            return shorter
        total = seen.total() + len(seen)
        return [(seen[v] + len(seen) * shorter[v]) / total for v in range(VOCAB)]

    costs = []
    for row in map(padded, held):
        for place in range(longest - 1, len(row)):
            probabilities = chances(tuple(row[place - longest + 1 : place]))
            assert sum(probabilities) == pytest.approx(1)
            costs.append(-log(probabilities[row[place]]))
    line = built["ngram_line"](train_rows, held, TOKENIZER, longest)
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


def test_a_word_looks_at_its_own_story_only(built):
    batches = packed_batches(ROWS * 3, batch_size=2, length=9, special=TOKENIZER)
    ids = batches(0)[0]
    mask = built["document_mask"](ids, EOS)
    assert mask.shape == (2, 1, 9, 9)
    for row, allowed in zip(ids.tolist(), mask[:, 0], strict=True):
        for query, key in product(range(9), range(9)):
            first, last = sorted((query, key))
            same = EOS not in row[first + 1 : last + 1]
            assert allowed[query, key] == same


def test_the_record_hides_the_same_stories(built):
    record = load_script("nb13_documents")
    ids = torch.tensor([[0, 5, 6, 0, 7, 0, 0, 8]])
    assert torch.equal(record.document_mask(ids), built["document_mask"](ids, 0))


@pytest.mark.slow
@pytest.mark.skipif(
    not (STORIES_260K.is_dir() and TINYSTORIES.is_dir()),
    reason="needs the model stories260K and the TinyStories",
)
def test_the_reported_bits_of_somebody_elses_model_are_measured():
    bpe = train_bpe(load_texts(TINYSTORIES / "train.txt")[:8000], 2048)
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
    assert any("| 0.86 |" in text for text in texts("13"))
