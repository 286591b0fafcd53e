"""The benchmark's own promises; nothing is timed here."""

import importlib.util
import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import stories as of_stories
from benchmarks.decoding import compared
from benchmarks.gpt2 import GPT2
from benchmarks.stories import Stories
from benchmarks.training import operations_per_token
from benchmarks.ways import SIZE, WAYS


@pytest.fixture(scope="module")
def stories():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_stories, "GENERATED", {"train": 40, "validation": 12})
        yield Stories()


def test_bits_per_byte_counts_full_stories_and_their_ends(stories):
    size = stories.tokenizer.vocab_size
    half = stories.halves["report"]
    tokens = sum(len(ids) + 1 for ids, _ in half)
    size_in_bytes = sum(len(text.encode()) for _, text in half)
    actual = stories.bits_per_byte(lambda ids: torch.zeros(*ids.shape, size), "report")
    assert actual == pytest.approx(tokens * math.log2(size) / size_in_bytes)


def test_the_halves_are_disjoint(stories):
    chosen, reported = ({text for _, text in x} for x in stories.halves.values())
    assert chosen and reported and not chosen & reported


@pytest.mark.long
@pytest.mark.parametrize("name", WAYS)
def test_each_way_learns_from_the_same_batches(stories, name):
    if name == "trainer" and importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed")
    untrained, trained = (WAYS[name](stories, 0.002, 4, steps) for steps in (1, 6))
    before = stories.bits_per_byte(untrained, "report")
    assert stories.bits_per_byte(trained, "report") < before - 0.2


def test_the_rival_sees_no_later_token():
    torch.manual_seed(0)
    model = GPT2(11, 8, 2, 2).eval()
    ids = torch.randint(0, 11, (2, 6))
    changed = ids.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 11
    same = (model(ids) == model(changed)).all(dim=-1)
    assert same[:, :4].all() and not same[:, 4:].any()


def test_ways_that_differ_are_not_timed():
    with pytest.raises(AssertionError, match="other gives something else"):
        compared({"one": lambda: [1], "other": lambda: [2]}, 1)


@pytest.mark.parametrize("way", ["gpt2", "course"])
def test_the_operations_are_those_that_torch_counts(stories, way):
    """PyTorch's own counter, which takes every position to look at all others."""
    vocabulary, length = stories.tokenizer.vocab_size, 16
    model = GPT2(vocabulary, **SIZE)
    if way == "course":
        model = WAYS[way](stories, 0.001, 4, 1)
    ids = torch.randint(0, vocabulary, (2, length))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(ids)
    actual = counter.get_total_flops() / ids.numel()
    expected = operations_per_token(way, vocabulary, seen=length) / 3
    assert actual == pytest.approx(expected)
