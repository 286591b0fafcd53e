"""Notebook 03 builds its own masks; they must equal those of course_utils.masks."""

import pytest
import torch

from course_utils.attention import MultiHeadAttention, attention_weights
from course_utils.diagnostics import leaks_future
from course_utils.masks import causal_mask, combine_masks, padding_mask
from named_mistakes import examine
from tests.support.bank import BANK

BATCH, QUERIES, HEADS, PAD = 2, 5, 7, 0
WORDS = 7  # of the notebook
KNOWN = {"VOCABULARY": range(8)}
FUTURE = (~causal_mask(WORDS)).nonzero().tolist()


@pytest.fixture
def ids():
    """Padding on the right in one text, on the left in the other."""
    return torch.tensor([[4, 5, 6, PAD, PAD], [PAD, PAD, 4, 5, 6]])


@pytest.mark.parametrize("length", [1, 2, QUERIES])
def test_its_causal_mask_is_the_packages(built, length):
    assert torch.equal(built["causal_mask"](length), causal_mask(length))


def test_its_padding_mask_is_the_packages(built, ids):
    assert torch.equal(built["padding_mask"](ids, PAD), padding_mask(ids, PAD))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_its_weights_are_the_packages_on_empty_rows_too(built, ids, dtype):
    scores = torch.randn(BATCH, HEADS, QUERIES, QUERIES, dtype=dtype)
    mask = combine_masks(causal_mask(QUERIES), padding_mask(ids, PAD))
    weights = built["masked_weights"](scores, mask)
    assert torch.equal(weights, attention_weights(scores, mask))
    assert (weights[1, :, :2] == 0).all()


def test_its_bug_is_not_the_packages_mask(built, ids):
    right = combine_masks(causal_mask(QUERIES), padding_mask(ids, PAD))
    assert not torch.equal(built["decoder_mask"](ids, PAD), right)


def test_its_own_code_answers_its_exercises(built):
    own = {"causal": "causal_mask", "padding": "padding_mask"}
    for exercise, name in {**own, "weights": "masked_weights"}.items():
        report = examine(BANK[f"masks.{exercise}"], built[name])
        assert report.status == "right", report.text


@pytest.mark.parametrize("cell", FUTURE)
def test_its_table_of_what_arrives_agrees_with_the_derivatives(built, cell):
    opened = causal_mask(WORDS)
    opened[tuple(cell)] = True
    arrived = built["arrived"](opened, 2)
    torch.manual_seed(0)
    layers = [MultiHeadAttention(8, 2) for _ in range(2)]

    def stack(x):
        for layer in layers:
            x = x + layer(x, mask=opened)
        return x

    slopes = torch.autograd.functional.jacobian(stack, torch.randn(1, WORDS, 8))
    reached = slopes[0, :, :, 0].norm(dim=(1, 3)) > 0  # from "i m j n"
    assert torch.equal(reached, arrived > 0)
    torch.testing.assert_close(arrived.sum(dim=-1), torch.ones(WORDS))
    leaks = arrived[~causal_mask(WORDS)] > 0
    assert leaks.sum() == 2 * (cell[1] - cell[0]) - 1


def test_its_model_leaks_without_a_mask_and_not_with_one(built):
    torch.manual_seed(0)
    model = built["TinyModel"](9, width=16)
    ids = torch.arange(1, 6)[None]
    assert leaks_future(model, ids, 9)
    assert not leaks_future(lambda ids: model(ids, causal_mask(ids.shape[1])), ids, 9)


@pytest.mark.parametrize("cell", FUTURE)
def test_its_detector_finds_each_open_cell(built, cell):
    torch.manual_seed(0)
    model, ids = built["TinyModel"](8, width=16), torch.arange(WORDS)[None]
    opened = causal_mask(WORDS)
    assert not built["leaks_future"](model, ids, opened)
    opened[tuple(cell)] = True
    assert built["leaks_future"](model, ids, opened)


def test_is_causal_counts_from_the_top_left_or_is_a_mere_hint():
    queries, keys, values = torch.zeros(2, 4), torch.zeros(7, 4), torch.eye(7)
    attend = torch.nn.functional.scaled_dot_product_attention
    weights = attend(*(one[None] for one in (queries, keys, values)), is_causal=True)
    assert (weights[0] > 0).sum(dim=-1).tolist() == [1, 2]  # not 6 and 7
    layer, x = torch.nn.MultiheadAttention(8, 1), torch.randn(1, 4, 8)
    with pytest.raises(RuntimeError, match="attn_mask"):
        layer(x, x, x, is_causal=True)
