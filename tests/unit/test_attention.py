"""Our attention against PyTorch's, over random sizes, masks, widths and dtypes."""

import pytest
import torch
from torch.nn import functional as F

from course_utils.attention import (
    Attend,
    MultiHeadAttention,
    attend,
    attention_scores,
    attention_weights,
)
from course_utils.masks import causal_mask, combine_masks, padding_mask
from course_utils.positions import alibi_bias
from course_utils.recording import record
from tests.support.reference_layers import torch_attention

BATCH, QUERIES, KEYS, HEADS, HEAD_DIM, VALUE_DIM = 2, 3, 5, 7, 4, 6
TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 2e-6,
    torch.bfloat16: 2e-2,
    torch.float16: 2e-3,
}


def tensors(generator, dtype=torch.float64):
    def make(length, width):
        shape = (BATCH, HEADS, length, width)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    return make(QUERIES, HEAD_DIM), make(KEYS, HEAD_DIM), make(KEYS, VALUE_DIM)


def random_mask(generator):
    """Every row may look at least at key 0."""
    mask = torch.rand(BATCH, 1, QUERIES, KEYS, generator=generator) < 0.5
    mask[..., 0] = True
    return mask


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_three_steps_equal_the_fused_kernel(dtype, masked, seed):
    generator = torch.Generator().manual_seed(seed)
    queries, keys, values = tensors(generator, dtype)
    mask = random_mask(generator) if masked else None
    weights = attention_weights(attention_scores(queries, keys), mask)
    expected = F.scaled_dot_product_attention(queries, keys, values, mask)
    for context in (attend(queries, keys, values, mask), weights @ values):
        torch.testing.assert_close(
            context, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype]
        )


def test_weights_sum_to_one_and_hidden_keys_get_exactly_zero():
    generator = torch.Generator().manual_seed(0)
    queries, keys, _ = tensors(generator)
    mask = random_mask(generator)
    weights = attention_weights(attention_scores(queries, keys), mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert (weights[~mask.expand_as(weights)] == 0).all()
    assert (weights[mask.expand_as(weights)] > 0).all()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_row_with_nothing_to_look_at_is_zero_forward_and_backward(dtype):
    queries, keys, values = tensors(torch.Generator().manual_seed(1), dtype)
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    mask[1] = False
    for explicit in (False, True):
        q, k, v = (t.clone().requires_grad_() for t in (queries, keys, values))
        if explicit:
            context = attention_weights(attention_scores(q, k), mask) @ v
        else:
            context = attend(q, k, v, mask)
        context.sum().backward()
        assert (context[..., 1, :] == 0).all()
        assert all(t.grad.isfinite().all() for t in (q, k, v))
        assert (q.grad[..., 1, :] == 0).all()


def test_bias_is_added_to_the_scores_under_the_mask():
    queries, keys, values = tensors(torch.Generator().manual_seed(2))
    bias = alibi_bias(HEADS, QUERIES, KEYS).double()
    mask = causal_mask(QUERIES, KEYS)
    scores = attention_scores(queries, keys) + bias
    expected = attention_weights(scores, mask) @ values
    torch.testing.assert_close(attend(queries, keys, values, mask, bias=bias), expected)
    plain = attend(queries, keys, values, mask)
    assert (plain - expected).abs().max() > 1e-3


@pytest.mark.parametrize("seed", range(8))
def test_multi_head_attention_equals_pytorchs_forward_and_gradients(seed):
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 6, (4,), generator=generator).tolist()
    batch, query_length, key_length, num_heads = (n + 1 for n in sizes)
    d_model, cross, bias = 6 * num_heads, seed % 2 == 0, seed % 3 != 0
    d_memory = d_model + 3 if cross else d_model
    ours = MultiHeadAttention(d_model, num_heads, d_memory=d_memory, bias=bias).double()
    theirs = torch_attention(ours, d_model, d_memory, num_heads, bias)
    x = torch.randn(batch, query_length, d_model).double().requires_grad_()
    memory = torch.randn(batch, key_length, d_memory).double().requires_grad_()
    memory = memory if cross else x
    keys = memory.shape[1]
    mask = torch.rand(batch, 1, query_length, keys, generator=generator) < 0.6
    mask[..., -1] = True
    hidden = ~mask.expand(-1, num_heads, -1, -1).flatten(0, 1)
    expected, weights = theirs(
        x, memory, memory, attn_mask=hidden, average_attn_weights=False
    )
    with record(ours) as seen:
        recorded = ours(x, memory if cross else None, mask)
    actual = ours(x, memory if cross else None, mask)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(recorded, expected)
    torch.testing.assert_close(seen["attend.weights"], weights)
    assert seen.weights().keys() == {""}
    probe = torch.randn_like(expected)
    leaves = [x, memory, *ours.parameters()] if cross else [x, *ours.parameters()]
    mine = torch.autograd.grad((actual * probe).sum(), leaves, retain_graph=True)
    again = torch.autograd.grad((recorded * probe).sum(), leaves, retain_graph=True)
    both = 2 if cross else 1
    other = torch.autograd.grad((expected * probe).sum(), leaves[:both])
    for a, b in zip(mine, again, strict=True):
        torch.testing.assert_close(a, b)
    for a, b in zip(mine[:both], other, strict=True):
        torch.testing.assert_close(a, b)


def test_head_width_is_free_of_model_width():
    layer = MultiHeadAttention(10, 3, head_dim=7, d_memory=11)
    assert layer.to_queries.weight.shape == (21, 10)
    assert layer(torch.randn(2, 3, 10), torch.randn(2, 5, 11)).shape == (2, 3, 10)


def test_masks_hide_keys_and_combine_by_and():
    ids = torch.tensor([[5, 6, 0], [7, 0, 0]])
    both = combine_masks(causal_mask(3), None, padding_mask(ids, 0))
    assert both.shape == (2, 1, 3, 3)
    for row in range(2):
        for query in range(3):
            for key in range(3):
                allowed = key <= query and ids[row, key] != 0
                assert both[row, 0, query, key] == allowed
    assert combine_masks(None, None) is None
    assert causal_mask(2, 4).tolist() == [[True] * 3 + [False], [True] * 4]


@pytest.mark.parametrize("queries, keys", [(5, 5), (1, 5), (3, 5)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_causal_equals_the_causal_mask(queries, keys, masked, biased):
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(BATCH, HEADS, queries, 8, generator=generator)
    k, v = torch.randn(2, BATCH, HEADS, keys, 8, generator=generator)
    mask = torch.rand(BATCH, 1, queries, keys, generator=generator) < 0.7
    mask = mask if masked else None
    bias = alibi_bias(HEADS, queries, keys) if biased else None
    both = combine_masks(causal_mask(queries, keys), mask)
    expected = attend(q, k, v, both, bias=bias)
    torch.testing.assert_close(attend(q, k, v, mask, causal=True, bias=bias), expected)
    layer = Attend()
    layer.explicit = 1
    explicit = layer(q, k, v, mask, causal=True, bias=bias)
    torch.testing.assert_close(explicit, expected)


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
@pytest.mark.parametrize("length", [1, 7, 512, 513])
def test_bfloat16_on_a_cpu_equals_float32(leading, length):
    """Short causal texts take two products there, longer ones the fused kernel."""
    torch.manual_seed(0)
    wide = [torch.randn(*leading, length, 8).requires_grad_() for _ in range(3)]
    narrow = [x.detach().to(torch.bfloat16).requires_grad_() for x in wide]
    expected = attend(*wide, causal=True)
    actual = attend(*narrow, causal=True)
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual.float(), expected, atol=0.03, rtol=0.03)
    direction = torch.randn_like(expected)
    expected.backward(direction)
    actual.backward(direction.to(torch.bfloat16))
    for one, other in zip(wide, narrow, strict=True):
        torch.testing.assert_close(other.grad.float(), one.grad, atol=0.06, rtol=0.06)


@pytest.mark.parametrize(
    ("dtype", "length", "times"),
    [(torch.bfloat16, 512, 0), (torch.bfloat16, 513, 1), (torch.float32, 512, 1)],
)
def test_only_short_bfloat16_texts_leave_the_fused_kernel(
    dtype, length, times, monkeypatch
):
    asked = []
    kernel = F.scaled_dot_product_attention

    def counted(*given, **options):
        asked.append(options)
        return kernel(*given, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    x = torch.randn(1, length, 8, dtype=dtype)
    attend(x, x, x, causal=True)
    assert len(asked) == times


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("bias_dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_recording_runs_wherever_the_layer_runs(dtype, bias_dtype):
    """A bias of another type than the layer raised, but only while recording."""
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(16, 2).to(dtype), torch.randn(1, 3, 16).to(dtype)
    bias = alibi_bias(2, 3, 3).to(bias_dtype)
    with record(layer) as seen:
        recorded = layer(x, bias=bias)
    assert seen.weights()[""].dtype == dtype
    torch.testing.assert_close(recorded, layer(x, bias=bias), atol=0.02, rtol=0.02)
    with torch.autocast("cpu", torch.bfloat16), record(layer):
        layer(x.float() if dtype == torch.float32 else x, bias=bias)


def test_a_mask_says_who_looks_at_whom():
    """A mask "b q k" where b = h meant something else."""
    q, of_rows = torch.randn(2, 2, 3, 8), torch.ones(2, 3, 3, dtype=torch.bool)
    assert attention_weights(torch.zeros(2, 3, 3), of_rows).shape == (2, 3, 3)
    for fits in (of_rows[0], of_rows[:, None], of_rows[None, :1]):
        assert attend(q, q, q, fits).shape == q.shape
