"""The metrics equal their definitions on cases one can work out by hand."""

import math

import pytest
import torch

from course_utils.metrics import (
    alignment_error_rate,
    bits_per_byte,
    bleu,
    exact_match,
    strongest_links,
)

REFERENCES = [["the cat sat on the mat", "a cat sat on the mat"], ["no one saw it"]]


def test_bits_per_byte_does_not_depend_on_the_tokenizer():
    total_nats, num_bytes = 120.0, 75
    few, many = 20, 60
    by_few = bits_per_byte(total_nats / few, few, num_bytes)
    by_many = bits_per_byte(total_nats / many, many, num_bytes)
    assert by_few == pytest.approx(by_many)
    assert by_few == pytest.approx(total_nats / math.log(2) / num_bytes)


def test_a_uniform_guess_over_bytes_costs_eight_bits():
    assert bits_per_byte(math.log(256), 11, 11) == pytest.approx(8)


def test_bleu_of_any_reference_is_100_and_of_noise_near_0():
    assert bleu([accepted[-1] for accepted in REFERENCES], REFERENCES) == pytest.approx(
        100
    )
    assert bleu(["x y z w v u", "q r s t"], REFERENCES) < 5


def test_bleu_pairs_each_hypothesis_with_its_own_references():
    swapped = REFERENCES[::-1]
    hypotheses = [accepted[0] for accepted in REFERENCES]
    assert bleu(hypotheses, swapped) < 5 < bleu(hypotheses, REFERENCES)


def test_bleu_equals_its_formula_on_one_sentence():
    hypothesis, reference = "a b c d e", "a b c d f"
    precisions = [4 / 5, 3 / 4, 2 / 3, 1 / 2]  # n-grams of length 1 to 4
    expected = 100 * math.prod(precisions) ** (1 / 4)
    assert bleu([hypothesis], [[reference]]) == pytest.approx(expected)


def test_exact_match_counts_equal_sentences():
    assert exact_match(["a cat sat on the mat", "no"], REFERENCES) == 0.5
    assert exact_match(["a cat sat on the mat.", "no"], REFERENCES) == 0.0


def test_alignment_error_rate_follows_och_and_ney():
    sure = [{(0, 0), (1, 1)}, {(0, 0)}]
    possible = [{(0, 0), (1, 1), (2, 1)}, {(0, 0)}]
    predicted = [{(0, 0), (2, 1), (2, 2)}, {(0, 0)}]
    # |A & S| = 1 + 1, |A & P| = 2 + 1, |A| = 4, |S| = 3
    rate = alignment_error_rate(predicted, sure, possible)
    assert rate == pytest.approx(1 - (2 + 3) / (4 + 3))


def test_alignment_error_rate_of_the_truth_and_of_its_opposite():
    sure = [{(0, 1), (1, 0)}]
    assert alignment_error_rate(sure, sure, sure) == 0
    assert alignment_error_rate([{(0, 0), (1, 1)}], sure, sure) == 1
    assert alignment_error_rate([set()], sure, sure) == 1


def test_strongest_links_are_source_then_target():
    weights = torch.tensor([[0.1, 0.2, 0.7], [0.6, 0.4, 0.0]])
    assert strongest_links(weights) == {(2, 0), (0, 1)}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_any_type_have_a_strongest(dtype):
    weights = torch.tensor([[0.1, 0.2, 0.7], [0.6, 0.4, 0.0]], dtype=dtype)
    assert strongest_links(weights.requires_grad_()) == {(2, 0), (0, 1)}


WRONG = {
    "hypotheses and each .* a list": lambda: bleu("no", [["no"], ["no"]]),
    "each of references must be a list": lambda: exact_match(["a cat"], ["a cat"]),
    "lengths .* must be equal": lambda: bleu(["a", "b"], [["a"]]),
    "contain the links of sure": lambda: alignment_error_rate(
        [set()], [{(1, 0)}], [set()]
    ),
    "got NaN": lambda: strongest_links(torch.tensor([[0.1, torch.nan]])),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_what_would_be_counted_wrong_is_refused(sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        WRONG[sentence]()
