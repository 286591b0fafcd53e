"""The lines of notebook 11 are the package's DecoderLM, on its shipped weights too."""

import math

import pytest
import torch

from course_utils.pretrained import load
from tests.support.bank import BANK
from tests.support.notebook_code import built


def test_the_lines_are_the_shipped_model():
    names = built("11", "take_out", "norm", "our_forward")
    model, tokenizer = load("gpt")
    ids = torch.randint(0, tokenizer.vocab_size, (2, 9))
    logits = names["our_forward"](ids, names["take_out"](model), 4)
    torch.testing.assert_close(logits, model(ids), atol=1e-3, rtol=1e-4)


def test_the_shipped_model_has_matrices_alone():
    for name, weight in load("gpt")[0].named_parameters():
        if weight.ndim < 2:
            assert torch.equal(weight, torch.full_like(weight, "norm.weight" in name))


def test_the_dictionary_has_as_many_weights_as_the_exercise_wants():
    weights = built("11", "new_weights")["new_weights"](50, 7, m=6, f=10, blocks=3)
    count = sum(weight.numel() for weight in weights.values())
    assert count == BANK["backbone.count_weights"].reference(50, 7, 6, 3, 10)


@pytest.mark.parametrize(("sigma", "good"), [(1, True), (2.5, True), (3.8, False)])
def test_the_first_loss_follows_the_formula_up_to_two_and_a_half(sigma, good):
    noise = sigma * torch.randn(2000, 1418, generator=torch.Generator().manual_seed(0))
    loss = noise.logsumexp(dim=1).mean().item()
    assert (abs(loss - math.log(1418) - sigma**2 / 2) < 0.1) == good
