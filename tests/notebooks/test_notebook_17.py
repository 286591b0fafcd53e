"""What notebook 17 bills is what the package makes, and what the view of it shows."""

import json
import re
import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest
import torch
from nb17_budget import flops, parameters
from nb17_online import update
from nb17_ranks import mean_over_ranks
from torch.utils.flop_counter import FlopCounterMode

from course_utils.config import LlamaConfig
from course_utils.models import LlamaLM
from course_utils.recording import record
from course_utils.training.losses import label_loss
from course_utils.views.bill import BILL

PIECES = files("attention_views").joinpath("pieces.js")
NAMES = ("bill", "count", "on_two_ranks", "update", "stored", "streamed")
SIZES = {"d_model": 24, "num_heads": 4, "d_ff": 56, "max_length": 32}


def llama(**more):
    return LlamaLM(LlamaConfig(vocab_size=31, **SIZES, **more))


def weights_of(model):
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("recompute", [False, True])
def test_the_view_of_the_bill_computes_what_the_notebook_does(
    built, sharded, recompute
):
    asked = {"parameters": 6.7e9, "tokens": 1e12, "gpus": 64, "price": 2.5}
    asked |= {"sharded": sharded, "recompute": recompute}
    source = re.search(r"const bill = .*?\n};", PIECES.read_text(), re.DOTALL)[0]
    call = f"console.log(JSON.stringify(bill({json.dumps(asked)}, {json.dumps(BILL)})))"
    done = subprocess.run(
        ["node", "-e", f"{source}\n{call}"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == pytest.approx(built["bill"](**asked), rel=1e-12)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_count_of_parameters(built, layers):
    model = llama(num_layers=layers)
    assert built["count"](model.config) == weights_of(model)


@pytest.mark.parametrize("block", [1, 5, 12])
def test_streamed_attention_is_attention(built, block):
    queries, keys, values = torch.randn(3, 12, 4, dtype=torch.float64)
    scores = 300 * queries  # so large that exp overflows without the shrinking
    found = built["streamed"](scores, keys, values, block=block)
    wanted = torch.nn.functional.scaled_dot_product_attention(scores, keys, values)
    assert torch.allclose(found, wanted)
    state = torch.randn(2, 1), torch.rand(2, 1), torch.randn(2, 3)
    more = torch.randn(2, 5), torch.randn(5, 3)
    ours, theirs = update(*state, *more), built["update"](*state, *more)
    assert all(map(torch.equal, ours, theirs))


def test_the_bug_is_one(built):
    sums, lengths = np.array([6.0, 2.0, 5.0, 3.0]), np.array([9, 2, 7, 1])
    assert abs(built["on_two_ranks"](sums, lengths) - sums.sum() / lengths.sum()) > 0.1


@pytest.mark.parametrize("length", [8, 24])
def test_the_operations_are_those_that_the_counter_sees(length):
    model, ids = llama(num_layers=3), torch.randint(31, (2, length))
    matrices = sum(w.numel() for w in model.parameters() if w.ndim == 2)
    with record(model), FlopCounterMode(display=False) as counter:
        model(ids).sum().backward()
    counted = flops(matrices, 3, SIZES["d_model"], length, 2 * length)
    assert counter.get_total_flops() == counted


@pytest.mark.parametrize("kv_heads, tied", [(4, True), (2, False), (1, True)])
def test_the_formula_of_the_exercise_counts_what_is_made(kv_heads, tied):
    model = llama(num_layers=2, num_kv_heads=kv_heads, tied=tied)
    assert parameters(model.config) == weights_of(model)


def test_the_mean_over_ranks_is_the_loss_of_one_process():
    logits, labels = torch.randn(4, 6, 9), torch.randint(9, (4, 6))
    labels[1, 2:] = labels[3, 4:] = -100
    ranks = [slice(0, None, 2), slice(1, None, 2)]
    losses = [label_loss(logits[rank], labels[rank], 0.0) for rank in ranks]
    mean = mean_over_ranks(torch.stack(losses), [labels[rank] for rank in ranks])
    assert mean == pytest.approx(label_loss(logits, labels, 0.0).item())
    assert mean != pytest.approx(torch.stack(losses).mean().item())
