"""The tokenizer of notebook 10 is the package's, and its chips are its tokens."""

import ast
import re

import pytest
from matplotlib.colors import to_hex

from course_utils import bpe
from known_worlds.stories import story
from tests.support.bank import BANK
from tests.support.notebook_code import code_cells
from tools.notebook_rules import ROOT

TEXTS = [story(0).text, "bàn bàn bạn", "потому что устала", "🙂🙂 🙂", "aaaa aaa"]
REFERENCE = bpe.train(TEXTS[:3], 320)
KNOWN = {"ranks": REFERENCE.made}
NAMES = ("byte_id", "count_pairs", "count_words", "join", "merge_in_tables")
NAMES += ("train_naive", "train_tables", "encode_word", "encode", "colleague_encode")
NAMES += ("write_letters", "draw_chips")
LAB_NOTES = ROOT / "notebooks" / "book" / "lab_notes.md"


@pytest.mark.parametrize("trainer", ["train_naive", "train_tables", "train_heap"])
def test_each_trainer_is_the_packages(trainer, built):
    names = dict(built)
    (heap,) = re.findall(
        r"^```python\n(import heapq.*?)^```", LAB_NOTES.read_text("utf-8"), re.M | re.S
    )
    exec(heap, names)
    merges = names[trainer](TEXTS, 60)
    assert list(merges.items()) == list(bpe.train(TEXTS, 320).made.items())


@pytest.mark.parametrize("trainer", ["train_naive", "train_tables"])
def test_a_trainer_stops_when_every_word_is_one_piece(trainer, built):
    assert len(built[trainer](["a cat sat"], 99)) == 5


def test_the_encoder_is_the_packages(built):
    for text in TEXTS:
        assert built["encode"](text, REFERENCE.made) == REFERENCE.encode(text)


def test_join_is_the_packages(built):
    for word in ((), (1,), (1, 1), (1, 1, 1), (1,) * 4, (2, 1, 1, 2), (1, 2, 1, 1)):
        assert list(built["join"](word, (1, 1), 9)) == bpe.join(word, (1, 1), 9)


def test_counting_is_what_the_exercise_wants(built):
    words = built["count_words"](TEXTS)
    assert built["count_pairs"](words) == BANK["tokens.pair_counts"].reference(words)


def test_the_bug_to_find_is_there_and_its_answer_cures_it(built):
    theirs = built["colleague_encode"](TEXTS[0])
    assert REFERENCE.decode(theirs) == TEXTS[0]
    assert theirs != REFERENCE.encode(TEXTS[0])
    source = next(s for s, _ in code_cells("10") if "def colleague_encode" in s)
    node = ast.parse(source).body[-1]
    bug = "max(known, key=lambda pair: (known[pair], pair))"
    assert bug in ast.unparse(node)
    names = dict(built)
    exec(ast.unparse(node).replace(bug, "min(known, key=lambda p: ranks[p])"), names)
    for text in TEXTS:
        assert names["colleague_encode"](text) == REFERENCE.encode(text)


def test_there_is_a_chip_for_each_token_and_parts_of_letters_are_orange(built):
    pieces = [b"L", b"ily", b" \xd0", b"\xbb", "и".encode(), b" ", b"."]
    figure = built["draw_chips"]({"mixed": pieces}, wide=6)
    chips = figure.axes[0].patches
    colors = [to_hex(chip.get_facecolor()).upper() for chip in chips]
    broken = [color == "#F2A974" for color in colors]
    assert broken == [piece in pieces[2:4] for piece in pieces]
    corners = [(chip.get_x(), chip.get_x() + chip.get_width()) for chip in chips]
    widths = [right - left + 0.08 for left, right in corners]
    assert widths == pytest.approx([1, 3, 1.5, 0.5, 1, 1, 1])
    assert [chip.get_y() // 1 for chip in chips] == [1, 1, 2, 2, 2, 2, 2]
