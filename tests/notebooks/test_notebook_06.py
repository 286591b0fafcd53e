"""Notebook 06: what it builds equals the package's; its answers cure its bug."""

import re
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course_utils.recurrent import RecurrentSeq2Seq
from tests.support.notebook_code import code_cells, texts

BATCH, SOURCE, TARGET, WIDTH, VOCAB = 2, 5, 4, 6, 13
KNOWN = {"SPECIAL": SimpleNamespace(pad_id=0, bos_id=1, eos_id=2)}
pytestmark = pytest.mark.usefixtures("float64")


def ids():
    source = torch.randint(1, VOCAB, (BATCH, SOURCE))
    return source, torch.randint(1, VOCAB, (BATCH, TARGET))


def test_the_recurrence_is_pytorchs(built):
    rnn, x = nn.RNN(3, WIDTH, batch_first=True), torch.randn(BATCH, SOURCE, 3)
    bias = rnn.bias_ih_l0 + rnn.bias_hh_l0
    ours = built["recur"](x, rnn.weight_ih_l0, rnn.weight_hh_l0, bias)
    torch.testing.assert_close(ours, rnn(x)[0])


@pytest.mark.parametrize("kind, score", [("OurSeq2Seq", None), ("OurAttentive", "dot")])
def test_each_model_equals_the_packages(kind, score, built):
    ours = built[kind](VOCAB, WIDTH)
    reference = RecurrentSeq2Seq(VOCAB, VOCAB, WIDTH, score=score)
    built["copy_into"](reference, ours)
    if score:
        reference.attention.combine.load_state_dict(ours.combine.state_dict())
    source, target = ids()
    logits, expected = ours(source, target), reference(source, target)
    torch.testing.assert_close(logits, expected)
    probe = torch.randn_like(expected)
    (logits * probe).sum().backward()
    (expected * probe).sum().backward()
    for name in ("weight_hh", "weight_ih", "bias_hh"):
        mine, other = getattr(ours.read, name), getattr(reference.encoder, f"{name}_l0")
        torch.testing.assert_close(mine.grad, other.grad)


def test_reversals_are_reversals(built):
    for word, back in built["reversals"](50, 2, 10, seed=3):
        assert word == back[::-1] and 2 <= len(word) <= 10
        assert all(4 <= letter < 30 for letter in word)


def test_the_bug_to_find_is_there_and_its_answer_cures_it(built):
    model = RecurrentSeq2Seq(VOCAB, VOCAB, WIDTH, score=None)
    source, target = ids()
    sick, repaired = built["colleague"], built["repaired"]
    torch.testing.assert_close(sick(model, source, target), model(source, target))
    source[0, 3:] = 0
    expected = model(source, target)
    assert not torch.allclose(sick(model, source, target), expected)
    torch.testing.assert_close(repaired(model, source, target), expected)
    answer = re.search(r"```python\n(last = .*?)```", "\n".join(texts("06")), re.S)[1]
    (cell,) = [source for source, _ in code_cells("06") if "def repaired" in source]
    assert all(line.strip() in cell for line in answer.splitlines() if line)


def test_the_longest_chain_is_counted(built):
    x = torch.ones(3, requires_grad=True)
    assert built["longest_chain"](x.exp()) == 2  # exp, then the leaf
    assert built["longest_chain"](x.exp() + x.exp().sin().cos()) == 5
