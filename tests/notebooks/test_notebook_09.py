"""What notebook 09 builds is what its sentences say."""

import itertools
import re

import torch
from nb09_masked_words import hide

from course_utils import pretrained
from course_utils.config import ClassifierConfig, StackConfig
from course_utils.intervening import activation_patch, intervene
from course_utils.models import Classifier
from course_utils.recording import record
from tests.support.notebook_code import code_cells
from tools.notebook_rules import joined

CLASSES, VOCABULARY = 7, 11
STACK = StackConfig(d_model=12, num_heads=3, num_layers=2, d_ff=16, max_length=9)
CONFIG = ClassifierConfig(vocab_size=VOCABULARY, num_classes=CLASSES, stack=STACK)
NAMES = ("mlp", "Bag", "Window", "GRU", "hide", "pieces", "flattened")
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


def test_the_gru_reads_the_whole_sentence_from_both_ends(built):
    gru = built["GRU"](30, CLASSES)
    ids, position = torch.arange(1, 21)[None], torch.tensor([8])
    for place in (0, 19):
        changed = ids.clone()
        changed[0, place] = 25
        assert not torch.equal(gru(changed, position), gru(ids, position))


def test_the_colleagues_mean_is_the_packages_without_padding_only():
    ours = Classifier(CONFIG)
    theirs = ours.head(ours.encoder(IDS).mean(dim=1))
    torch.testing.assert_close(theirs[0], ours(IDS)[0])
    assert not torch.allclose(theirs[1], ours(IDS)[1])


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


@torch.no_grad()
def test_the_order_of_the_nouns_says_which_of_the_eight_heads_decides():
    """Each gets what it read with "fragile"; and none looks at the piano."""
    model, tokenizer = pretrained.load("senses")
    place, deciding = torch.tensor([10]), []
    for nouns in ("piano near the horse", "horse near the piano"):
        frame = f"We would not leave the {nouns} because it was too "
        ids = {w: tokenizer.encode(frame + w + ".") for w in ("nervous", "fragile")}
        nervous, fragile = (torch.tensor([row]) for row in ids.values())
        with record(model) as seen:
            wanted = model(fragile, place).argmax()
        piano = frame.split().index("piano")
        assert all(w[0, :, 10, piano].max() < 0.1 for w in seen.weights().values())
        for block, head in itertools.product(range(2), range(4)):
            reads = f"encoder.blocks.{block}.attention.attend"
            patch = activation_patch(seen[reads], heads=head)
            with intervene(model, {reads: patch}):
                if model(nervous, place).argmax() == wanted:
                    deciding.append((nouns.split()[0], block, head))
    assert deciding == [("piano", 1, 2), ("horse", 1, 0)]


def test_what_the_page_says_of_its_numbers_holds():
    """The stored outputs; they are compared with what the cells give."""
    text = "\n".join(
        joined(output.get("text", ""))
        for _, all_of in code_cells("09")
        for output in all_of
    )
    means = dict(re.findall(r"'(bag|window|encoder|GRU)': '([\d.]+)'", text))
    assert float(means["encoder"]) > 0.97 and float(means["GRU"]) > 0.999
    assert 0.7 < float(means["bag"]) < 0.8 and 0.6 < float(means["window"]) < 0.7
    assert "too nervous → it: second" in text and "too fragile → it: first" in text
    assert "\nbat: animal\n" in text
    assert "right in 99.9% of 1,000" in text
    for word in ("asleep", "healed", "sang"):
        assert float(re.search(rf"  {word} ([\d.]+)", text)[1]) > 0.5
