"""Notebook 06: what it builds equals the package's; its answer cures its bug."""

import re
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course_utils.recurrent import RecurrentSeq2Seq
from tests.support import notebook_code
from tests.support.notebook_code import code_cells, texts
from tools.notebook_rules import joined

BATCH, SOURCE, TARGET, WIDTH, VOCAB = 2, 5, 4, 6, 13
SPECIAL = SimpleNamespace(pad_id=0, bos_id=1, eos_id=2)
NAMES = [
    *("recur", "OurSeq2Seq", "OurAttentive", "LETTERS", "as_ids", "spell", "reversals"),
    *("colleague", "gradient_by_distance"),
]
KNOWN = {"SPECIAL": SPECIAL, "WIDTH": 32, "STEPS": 61}
pytestmark = pytest.mark.usefixtures("float64")


def ids():
    source = torch.randint(1, VOCAB, (BATCH, SOURCE))
    return source, torch.randint(1, VOCAB, (BATCH, TARGET))


def printed(start):
    """What the cell prints whose source holds `start`."""
    (outputs,) = [outputs for source, outputs in code_cells("06") if start in source]
    return "".join(joined(output.get("text", "")) for output in outputs)


def copy_into(twin, ours):
    """Give the package's model the weights of the notebook's."""
    for name in ("source_embedding", "target_embedding", "head"):
        getattr(twin, name).load_state_dict(getattr(ours, name).state_dict())
    for theirs, cell in ((twin.encoder, ours.read), (twin.decoder, ours.write)):
        weights = cell.state_dict()
        theirs.load_state_dict({f"{name}_l0": w for name, w in weights.items()})


def test_the_recurrence_is_pytorchs(built):
    rnn, x = nn.RNN(3, WIDTH, batch_first=True), torch.randn(BATCH, SOURCE, 3)
    bias = rnn.bias_ih_l0 + rnn.bias_hh_l0
    ours = built["recur"](x, rnn.weight_ih_l0, rnn.weight_hh_l0, bias)
    torch.testing.assert_close(ours, rnn(x)[0])


@pytest.mark.parametrize("kind, score", [("OurSeq2Seq", None), ("OurAttentive", "dot")])
def test_each_model_equals_the_packages(kind, score, built):
    ours = built[kind](VOCAB, WIDTH)
    reference = RecurrentSeq2Seq(VOCAB, VOCAB, WIDTH, score=score)
    copy_into(reference, ours)
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


def test_writing_from_a_state_and_a_memory_of_one_word_is_writing(built):
    model = RecurrentSeq2Seq(30, 30, WIDTH, score="general").eval()
    names = "write_from", "as_ids", "spell", "LETTERS"
    space = notebook_code.built("06", *names, attentive=model, SPECIAL=SPECIAL)
    cab = space["as_ids"]("cab")
    written = space["write_from"](cab, cab)
    begin = torch.tensor([[SPECIAL.bos_id]])
    step = space["TranslationStep"](model, cab)
    expected = space["greedy"](step, begin, 12, stop_id=SPECIAL.eos_id)
    assert written.tolist() == expected[:, 1:].tolist()


def test_what_it_says_of_the_trained_networks_holds():
    shares = re.findall(r"[01]\.\d*", printed("forced = by_length"))
    assert [float(share) for share in shares] == pytest.approx(
        [1, 0.79, 0.44], abs=0.05
    )
    looking = re.findall(r"[01]\.\d*", printed("looking = by_length"))
    assert min(float(share) for share in looking) > 0.9
    shares = re.findall(r"[01]\.\d*", printed("end_alike = ["))
    end, begin = (list(map(float, part)) for part in (shares[:4], shares[4:]))
    assert end == sorted(end) and end[0] < 0.15 and end[-1] > 0.8 and max(begin) < 0.25


def test_the_bug_to_find_is_there_and_its_answer_cures_it(built):
    model = RecurrentSeq2Seq(VOCAB, VOCAB, WIDTH, score=None)
    source, target = ids()
    sick = built["colleague"]
    torch.testing.assert_close(sick(model, source, target), model(source, target))
    source[0, 3:] = 0
    expected = model(source, target)
    assert not torch.allclose(sick(model, source, target), expected)
    answer = re.search(r"```python\n(last = .*?)```", "\n".join(texts("06")), re.S)[1]
    (cell,) = [source for source, _ in code_cells("06") if "def colleague" in source]
    function = cell.split("\n\n\n")[0]
    cured = answer.rstrip().replace("\n", "\n    ")
    space = {"torch": torch}
    exec(function.replace("first_state = memory[:, -1]", cured), space)
    torch.testing.assert_close(space["colleague"](model, source, target), expected)


def test_gradients_vanish_explode_and_stay(built):
    ends = {}
    for gain in (0.5, 1.0, 3.0):  # of the recurrent matrix
        torch.manual_seed(1)
        rnn = nn.RNN(32, 32, batch_first=True)
        nn.init.orthogonal_(rnn.weight_hh_l0, gain)
        gradient = built["gradient_by_distance"](rnn)
        ends[gain] = (gradient[60] / gradient[0]).item()
    assert ends[0.5] < 1e-18 and ends[1.0] < 1e-6 and 1e6 < ends[3.0] < 1e8
    gradient = built["gradient_by_distance"](nn.GRU(32, 32, batch_first=True))
    assert gradient[60] / gradient[0] < ends[1.0] / 1_000  # a start beats half gates
