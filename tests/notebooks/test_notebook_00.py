"""Notebook 00: its hundred lines are a causal transformer, and its bug can be cured."""

import ast

import pytest
import torch
import torch.nn.functional as F

from known_worlds.stories import story
from tests.support.notebook_code import code_cells

WORDS = ["<end>", " one", " two", " three", " four", " five", " six"]
KNOWN = {
    **{"WIDTH": 6, "HEADS": 2, "LAYERS": 2, "LENGTH": 5, "vocabulary": WORDS},
    "id_of": {word: i for i, word in enumerate(WORDS)},
}
IDS = torch.tensor([[0, 1, 2, 3, 4], [0, 6, 5, 4, 3]])


def test_attention_equals_pytorchs(built):
    torch.manual_seed(0)
    layer, x = built["Attention"](), torch.randn(3, 5, 6)
    q, k, v = layer.qkv(x).view(3, 5, 3, 2, 3).permute(2, 0, 3, 1, 4)
    context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    expected = layer.proj(context.transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x), expected)


def test_no_score_depends_on_a_later_word_and_each_on_all_before(built):
    torch.manual_seed(0)
    model = built["Decoder"]()
    scores = model(IDS[:1])
    for t in range(5):
        other = IDS[:1].clone()
        other[0, t] = 6
        changed = (model(other) - scores).abs().sum(dim=-1)[0] > 1e-6
        assert changed.tolist() == [place >= t for place in range(5)]


def test_a_text_is_cut_without_loss(built):
    text = story(0).text
    assert "".join(built["split"](text)) == text


def test_each_window_begins_with_a_story(built):
    words = [WORDS[i] for i in (*range(7), 0, 3, 3, 0, 4, 5, 6, 1, 2)]
    assert built["windows"](words)[:, 0].tolist() == [0, 0, 0]
    assert built["windows"](words)[1].tolist() == [0, 3, 3, 0, 4, 5]


def test_what_is_written_goes_on_from_its_beginning_and_stops(built):
    torch.manual_seed(0)
    text = built["write"](built["Decoder"](), " one two")
    assert text.startswith(" one two")
    assert len(built["split"](text)) <= 4 + 2 and text.count("<end>") <= 1


def cured():
    (source,) = [one for one, _ in code_cells("00") if "def colleagues_loss" in one]
    (node,) = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    assert ast.unparse(node).count("dim=0") == 1
    return ast.unparse(node).replace("dim=0", "dim=-1")


@pytest.mark.parametrize("count", [1, 4])
def test_the_bug_to_find_is_there_and_its_answer_cures_it(count, built):
    torch.manual_seed(0)
    logits, labels = torch.randn(count, 3), torch.tensor([0, 2, 1, 0])[:count]
    right = F.cross_entropy(logits, labels)
    assert not torch.allclose(built["colleagues_loss"](logits, labels), right)
    names = dict(built)
    exec(cured(), names)
    torch.testing.assert_close(names["colleagues_loss"](logits, labels), right)
