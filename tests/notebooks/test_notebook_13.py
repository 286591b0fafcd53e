"""What notebook 13 builds is what the package holds."""

import re
from collections import Counter
from itertools import pairwise, product
from math import exp, inf, log
from pathlib import Path

import pytest
import torch
from nb13_accumulation import accumulated
from nb13_clipping import clip
from nb13_perplexity import perplexity
from nb13_step import steps

from course_utils import pretrained
from course_utils.config import LlamaConfig, TrainConfig
from course_utils.data.batches import packed_batches, padded_batches
from course_utils.data.hub import load_texts
from course_utils.metrics import bits_per_byte
from course_utils.models import LlamaLM
from course_utils.records import load_record, load_script
from course_utils.tokenizer import train_words
from course_utils.training.loop import train
from course_utils.training.losses import label_loss
from course_utils.training.optimizers import build_optimizers
from known_worlds.story_grammar import load_grammar
from tests.support import notebook_code
from tests.support.notebook_code import code_cells, texts
from tools.llama2c_files import read_transformers
from tools.notebook_rules import joined

ROOT = Path(__file__).parents[2]
NAMES = ("with_history", "count_runs", "table_loss")
NAMES += ("adamw", "our_train", "document_mask", "new_model")
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


def test_the_loss_of_a_table_is_counted_by_hand(built):
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
    table = built["count_runs"](train_rows, TOKENIZER, longest)
    loss = built["table_loss"](table, held, TOKENIZER, longest)
    assert loss == pytest.approx(sum(costs) / len(costs))


def test_a_table_of_long_runs_holds_the_shorter_ones(built):
    table = built["count_runs"](ROWS[1:], TOKENIZER, 4)
    for n in (1, 2, 3):
        of_its_own = built["count_runs"](ROWS[1:], TOKENIZER, n)
        losses = [
            built["table_loss"](t, ROWS, TOKENIZER, n) for t in (table, of_its_own)
        ]
        assert losses[0] == pytest.approx(losses[1])


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


def test_a_packed_story_has_the_loss_of_a_row_of_its_own(built):
    """With the document mask; without it the story before leaks in."""
    model = built["new_model"](VOCAB, d_model=24, num_layers=2).double()
    rows = [torch.tensor([EOS, *row]) for row in ROWS[:3]]
    packed = torch.cat(rows)[None]
    alone = torch.cat([model(row[None])[0] for row in rows])
    mask = built["document_mask"](packed, EOS)
    assert (model(packed, mask)[0] - alone).abs().max() < 1e-12
    assert (model(packed)[0] - alone).abs().max() > 1e-4


@pytest.mark.parametrize("pad_id, ends", [(EOS, 0), (TOKENIZER.pad_id, 16)])
def test_only_a_padding_of_its_own_leaves_the_ends(pad_id, ends):
    rows = [torch.tensor([BOS, *row, EOS]) for row in ROWS * 8]
    batch = notebook_code.built("13", "colleagues_batch", small=TOKENIZER, rows=rows)
    labels = batch["colleagues_batch"](0, pad_id)[1]
    assert (labels == EOS).sum() == ends


def test_eight_openings_end_lowest_and_no_two_sizes_overlap():
    sweep, record = load_script("nb13_sweep"), load_record("nb13_sweep")
    ends = {}
    for size, rates in sweep.RATES.items():
        best = []
        for rate in rates:
            point = {"size": size, "rate": rate}
            runs = [record.numbers(**point, seed=seed) for seed in sweep.SEEDS]
            chosen_by = sum(run["validation"] for run in runs)
            best.append((chosen_by, sorted(run["test"] for run in runs)))
        ends[size] = min(best)[1]
    order = sorted(ends, key=ends.get)
    assert order == [8, 2, 32, 128]
    assert all(ends[low][-1] < ends[high][0] for low, high in pairwise(order))


def printed(piece):
    """What the cell with this piece of code has stored."""
    (outputs,) = [outs for source, outs in code_cells("13") if piece in source]
    return "".join(joined(output.get("text", "")) for output in outputs)


def test_the_colleagues_model_never_stops_and_the_cured_one_does():
    assert " 0 of 40" in printed("def train_and_write")
    assert re.search(r" (3[89]|40) of 40", printed("pad_id=small.pad_id"))


def test_half_of_the_excess_is_one_word():
    total = float(re.search(r"excess ([\d.]+)", printed("def excess(model"))[1])
    worst = float(re.search(r"courtyard +([\d.]+) nats", printed("worst = nats"))[1])
    assert worst > total / 2 > 1


@pytest.fixture(scope="module")
def slots():
    names = ("excess", "excess_by_slot", "new_stories")
    space = notebook_code.built("13", *names)
    model, words = pretrained.load("stories")
    return space["excess_by_slot"](model.double(), words)


def test_places_colors_and_pets_are_guessed_and_all_else_is_copied(slots):
    for slot, values in slots.items():
        mean = sum(values) / len(values)
        guess = log(len(load_grammar().slots[slot].fillers))
        if slot in {"color", "place", "pet"}:
            assert mean > 0.95 * guess and min(values) > 1.5
        else:
            assert mean < 0.1 * guess


@pytest.mark.slow
@pytest.mark.skipif(
    not (STORIES_260K.is_dir() and TINYSTORIES.is_dir()),
    reason="needs the model stories260K and the TinyStories",
)
def test_the_reported_bits_of_somebody_elses_model_are_measured():
    held = load_texts(TINYSTORIES / "valid.txt")[:60]
    held = [text for text in held if len(text) < 900][:40]
    num_bytes = sum(len(text.encode()) for text in held)
    bits = {}
    loaded = read_transformers(STORIES_260K), pretrained.load("tinystories")
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
    assert bits["260K"] == pytest.approx(0.859, abs=0.002)
    assert bits["ours"] == pytest.approx(0.649, abs=0.002)
    assert any("0.86 bits" in " ".join(text.split()) for text in texts("13"))
