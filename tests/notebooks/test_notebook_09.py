"""What notebook 09 builds is what its sentences say."""

import re

import torch
from nb09_masked_words import hide

from course_utils.config import ClassifierConfig, StackConfig
from course_utils.models import Classifier
from tests.support.notebook_code import code_cells
from tests.support.notebook_rules import joined

CLASSES, VOCABULARY = 7, 11
STACK = StackConfig(d_model=12, num_heads=3, num_layers=2, d_ff=16, max_length=9)
CONFIG = ClassifierConfig(vocab_size=VOCABULARY, num_classes=CLASSES, stack=STACK)
NAMES = ("think", "Bag", "Window", "Colleague", "hide", "pieces", "flattened")
KNOWN = {"MASK": VOCABULARY}
IDS = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0]])


def test_the_bag_knows_no_order_and_no_padding(built):
    bag = built["Bag"](VOCABULARY, CLASSES)
    mixed, positions = torch.tensor([[7, 3, 5, 6, 4]]), torch.tensor([2])
    torch.testing.assert_close(bag(IDS[:1], positions), bag(mixed, positions))
    torch.testing.assert_close(bag(IDS[1:], positions), bag(IDS[1:, :3], positions))


def test_the_window_sees_five_words_on_either_side_and_no_more(built):
    window = built["Window"](30, CLASSES)
    ids, position = torch.arange(1, 21)[None], torch.tensor([8])
    for place in range(20):
        changed = ids.clone()
        changed[0, place] = 25
        same = torch.allclose(window(changed, position), window(ids, position))
        assert same == (abs(place - 8) > 5)


def test_the_colleagues_mean_is_the_packages_without_padding_only(built):
    theirs, ours = built["Colleague"](CONFIG), Classifier(CONFIG)
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(theirs(IDS[:1]), ours(IDS[:1]))
    assert not torch.allclose(theirs(IDS[1:]), ours(IDS[1:]))


def test_words_are_hidden_as_in_the_exercise(built):
    chosen = torch.tensor([[True, False, True, False, False], [False] * 3 + [True] * 2])
    for ours, theirs in zip(
        built["hide"](IDS, chosen, 11), hide(IDS, chosen, 11), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_pieces_are_the_tokens_of_the_world(built):
    assert built["pieces"]("A bat, I think.") == ["A", " bat", ",", " I", " think", "."]


def test_the_plane_keeps_one_dot_one_dot(built):
    vectors = torch.randn(6, 3, 12)
    vectors[:, 0] = vectors[0, 0]
    places = built["flattened"](vectors)
    assert places.shape == (3, 6, 2)
    torch.testing.assert_close(places[0], places[0, :1].expand(6, 2))


def test_what_the_page_says_of_its_numbers_holds():
    """The stored outputs; they are compared with what the cells give."""
    text = "\n".join(
        joined(output.get("text", ""))
        for _, all_of in code_cells("09")
        for output in all_of
    )
    means = dict(re.findall(r"'(bag|window|encoder)': '([\d.]+)'", text))
    assert float(means["encoder"]) > 0.97 and 0.7 < float(means["bag"]) < 0.8
    assert 0.6 < float(means["window"]) < 0.7
    wins = [float(one) for one in re.findall(r"the thing wins in ([\d.]+)", text)]
    assert len(wins) == 4 and min(wins[::2]) >= 0.9 and max(wins[1::2]) < 0.6
    assert "right in 99.9% of 1,000" in text
    for word in ("asleep", "healed", "sang"):
        assert float(re.search(rf"  {word} ([\d.]+)", text)[1]) > 0.5
