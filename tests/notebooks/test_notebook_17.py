"""What notebook 17 counts is what the package makes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from nb17_budget import activations, days, flops, parameters
from nb17_ranks import bytes_per_process, mean_over_ranks
from nb17_scaling_law import padding_share
from torch.utils.flop_counter import FlopCounterMode

from course_utils.config import LlamaConfig
from course_utils.data.batches import padded_batches
from course_utils.feedforward import SwiGLU
from course_utils.looking.recording import record
from course_utils.models import LlamaLM
from course_utils.training.losses import label_loss

NAMES = ("count", "on_two_ranks", "repaired", "kept_for_backward")
SIZES = {"d_model": 24, "num_heads": 4, "d_ff": 56, "max_length": 32}


def llama(**more):
    return LlamaLM(LlamaConfig(vocab_size=31, **SIZES, **more))


def weights_of(model):
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("layers", [1, 3])
def test_the_count_of_parameters(built, layers):
    model = llama(num_layers=layers)
    assert built["count"](model.config) == weights_of(model)


def test_the_bug_is_one_and_the_repair_is_one(built):
    sums, lengths = np.array([6.0, 2.0, 5.0, 3.0]), np.array([9, 2, 7, 1])
    one_process = sums.sum() / lengths.sum()
    assert abs(built["on_two_ranks"](sums, lengths) - one_process) > 0.1
    assert built["repaired"](sums, lengths) == pytest.approx(one_process)


@pytest.mark.parametrize("length", [8, 24])
def test_the_operations_are_those_that_the_counter_sees(length):
    model, ids = llama(num_layers=3), torch.randint(31, (2, length))
    matrices = sum(w.numel() for w in model.parameters() if w.ndim == 2)
    with record(model), FlopCounterMode(display=False) as counter:
        model(ids).sum().backward()
    counted = flops(matrices, 3, SIZES["d_model"], length, 2 * length)
    assert counter.get_total_flops() == counted


def test_the_plan_of_the_notebook_takes_nineteen_days():
    assert round(days(7e9, 1e12, 64, 1e15, 0.4)) == 19
    assert round(days(7e9, 1e12, 64, 1e15, 1.0)) == 8
    sizes = [bytes_per_process(7e9, 8, sharded) for sharded in (False, True)]
    assert sizes == [112e9, 14e9]


@pytest.mark.parametrize("kv_heads, tied", [(4, True), (2, False), (1, True)])
def test_the_formula_of_the_exercise_counts_what_is_made(kv_heads, tied):
    model = llama(num_layers=2, num_kv_heads=kv_heads, tied=tied)
    assert parameters(model.config) == weights_of(model)


def test_the_fractions_of_padding_are_those_of_the_batches():
    lengths = [3, 9, 4, 1, 7]
    special = SimpleNamespace(pad_id=0, bos_id=1, eos_id=2)
    rows = [[5] * length for length in lengths]
    batches = padded_batches(rows, batch_size=2, special=special)
    labels = [labels for _, labels in batches]
    padding = sum((x == -100).sum() for x in labels) / sum(x.numel() for x in labels)
    # a row of labels is a text and its end
    assert padding_share([n + 1 for n in lengths], 2) == pytest.approx(padding.item())


@pytest.mark.parametrize("width, hidden", [(24, 60), (16, 40)])
def test_the_activations_are_those_that_pytorch_keeps(built, width, hidden):
    kept_for_backward = built["kept_for_backward"]
    network = SwiGLU(width, hidden).bfloat16()
    x = torch.randn(3, 7, width, dtype=torch.bfloat16, requires_grad=True)
    assert kept_for_backward(network, x) == activations(3, 7, width, hidden)
    with torch.no_grad():
        assert kept_for_backward(network, x) == 0


def test_the_mean_over_ranks_is_the_loss_of_one_process():
    logits, labels = torch.randn(4, 6, 9), torch.randint(9, (4, 6))
    labels[1, 2:] = labels[3, 4:] = -100
    ranks = [slice(0, None, 2), slice(1, None, 2)]
    losses = [label_loss(logits[rank], labels[rank], 0.0) for rank in ranks]
    mean = mean_over_ranks(torch.stack(losses), [labels[rank] for rank in ranks])
    assert mean == pytest.approx(label_loss(logits, labels, 0.0).item())
    assert mean != pytest.approx(torch.stack(losses).mean().item())
