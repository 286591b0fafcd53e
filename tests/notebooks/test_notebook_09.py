"""What notebook 09 builds is what the package holds."""

import torch

from course_utils.config import ClassifierConfig, StackConfig
from course_utils.masks import causal_mask
from course_utils.models import Classifier

BATCH, LENGTH, CLASSES, VOCABULARY = 2, 5, 7, 11
STACK = StackConfig(d_model=12, num_heads=3, num_layers=2, d_ff=16, max_length=9)
CONFIG = ClassifierConfig(vocab_size=VOCABULARY, num_classes=CLASSES, stack=STACK)
NAMES = ("WordReader", "Bag", "Colleague", "chance", "Neighbors")
KNOWN = {"MASK": VOCABULARY, "rows_of": list}
IDS = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0]])


def test_the_reader_is_the_packages_classifier_masked_or_not(built):
    ours = built["WordReader"](VOCABULARY, CLASSES, STACK).double()
    theirs = Classifier(CONFIG).double()
    theirs.load_state_dict(ours.state_dict())
    positions = torch.tensor([3, 1])
    for mask in (None, causal_mask(LENGTH), torch.eye(LENGTH, dtype=torch.bool)):
        mine = ours(IDS, positions, mask)
        assert mine.shape == (BATCH, CLASSES)
        torch.testing.assert_close(mine, theirs(IDS, positions, mask))


def test_the_bag_knows_no_order_and_no_padding(built):
    bag = built["Bag"](VOCABULARY, CLASSES).double()
    mixed, positions = torch.tensor([[7, 3, 5, 6, 4]]), torch.tensor([2])
    torch.testing.assert_close(bag(IDS[:1], positions), bag(mixed, positions))
    torch.testing.assert_close(bag(IDS[1:], positions), bag(IDS[1:, :3], positions))


def test_the_colleagues_mean_is_the_packages_without_padding_only(built):
    theirs, ours = built["Colleague"](CONFIG), Classifier(CONFIG)
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(theirs(IDS[:1]), ours(IDS[:1]))
    assert not torch.allclose(theirs(IDS[1:]), ours(IDS[1:]))


def test_each_table_of_neighbors_gives_probabilities(built):
    tables = built["Neighbors"]([([3, 4, 5], 0, 0), ([3, 6, 5, 7], 0, 0)])
    for prior, following in ((3, 5), (0, 3), (VOCABULARY, 5), (VOCABULARY, VOCABULARY)):
        chances = [tables.chances(prior, word, following) for word in range(VOCABULARY)]
        total = torch.tensor(chances).double().sum(dim=0)
        torch.testing.assert_close(total, torch.ones(3).double())
    alone, left, both = tables.chances(3, 4, 5)
    assert alone < left < both
