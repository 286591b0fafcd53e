"""The tokenizer that notebook 10 builds is the package's, and its texts are unseen."""

import pytest

from course_utils import bpe
from known_worlds.stories import story
from tests.support.bank import BANK

TRAINERS = ("train_naive", "train_tables", "train_heap")
NAMES = ("FIRST", "number", "count_pairs", "count_words", "join", "make_tables")
NAMES += ("merge_in_tables", *TRAINERS, "encode_word", "encode")
TEXTS = [story(0).text, "bàn bàn bạn", "потому что устала", "🙂🙂 🙂", "aaaa aaa"]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_each_trainer_is_the_packages(built, trainer):
    merges = built[trainer](TEXTS, 60)
    assert list(merges.items()) == list(bpe.train(TEXTS, 320).made.items())


def test_the_encoder_is_the_packages(built):
    reference = bpe.train(TEXTS[:3], 320)
    for text in TEXTS:
        assert built["encode"](text, reference.made) == reference.encode(text)


def test_join_is_the_packages(built):
    for word in ((), (1,), (1, 1), (1, 1, 1), (1,) * 4, (2, 1, 1, 2), (1, 2, 1, 1)):
        assert list(built["join"](word, (1, 1), 9)) == bpe.join(word, (1, 1), 9)


def test_counting_is_what_the_exercise_wants(built):
    words = built["count_words"](TEXTS)
    assert built["count_pairs"](words) == BANK["tokens.pair_counts"].reference(words)
