"""Our byte-pair encoding is the library's, merge by merge, and loses no byte."""

import json
import random
import re
import time
import unicodedata
from pathlib import Path

import pytest
from tokenizers import pre_tokenizers

from course_utils import bpe
from course_utils.tokenizer import BYTE_OF, train_bpe
from known_worlds.stories import story
from known_worlds.story_grammar import pieces
from tools.notebook_rules import ROOT

REAL = Path(__file__).parents[3] / "shared" / "data" / "tinystories" / "train.txt"
LANGUAGES = {
    "English": "The cat lay by the stove. It's 2024, isn't it?\n\n  The end.  ",
    "Vietnamese": "Con mèo nằm bên bếp lò. Mẹ đặt bát canh lên bàn, rồi ngồi vào bàn.",
    "Russian": "Кошка лежала у печки, потому что устала. Дети сели за стол.",
    "emoji": "🐱🔥😴 🌧🏠 👧👦🏃🏡 👩‍🍳❤️ 🙂🙂🙂 🙂🙂",
    "story": story(0).text,
}
ALPHABETS = [
    "a",
    "ab",
    "aab ",
    "abcdefgh ",
    "aàbñ я🙂 ",
    "xyz \n'12",
    "ăâđêô ơư",
    "01 s't",
]
MODEL = bpe.train(LANGUAGES.values(), 500)


def library_merges(tokenizer, folder):
    tokenizer.save(folder / "saved.json")
    saved = json.loads((folder / "saved.json").read_text("utf-8"))
    model = saved["tokenizer"]["model"]
    return [tuple(model["vocab"][piece] for piece in pair) for pair in model["merges"]]


def assert_equal_merges(texts, vocab_size, folder, unseen=()):
    ours, library = bpe.train(texts, vocab_size), train_bpe(texts, vocab_size)
    assert list(ours.made) == library_merges(library, folder)
    assert ours.vocab_size == library.vocab_size
    for text in [*texts, *unseen]:
        assert ours.encode(text) == library.encode(text)
    return ours


def test_the_page_and_the_worlds_split_a_text_by_the_same_pattern():
    page = ROOT / "packages" / "attention_views" / "living" / "tokenizer.js"
    written = "".join(re.findall(r"String\.raw`(.*?)`", page.read_text("utf-8")))
    for name, short in ((r"\P{White_Space}", r"\S"), (r"\p{White_Space}", r"\s")):
        written = written.replace(name, short)
    assert written == bpe.CUTS.pattern
    for text in LANGUAGES.values():
        assert pieces(text) == bpe.CUTS.findall(text)


def test_ids_are_numbered_as_in_the_library():
    library = train_bpe(["a"], 260)
    assert tuple(library.tokens([0, 1, 2, 3])) == bpe.SPECIAL
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet(), key=ord)
    assert sorted(BYTE_OF, key=ord) == alphabet
    assert list(BYTE_OF.values()) == bpe.BYTES
    for place, byte in enumerate(bpe.BYTES):
        letter = next(key for key, value in BYTE_OF.items() if value == byte)
        assert library._backend.id_to_token(len(bpe.SPECIAL) + place) == letter


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("vocab_size", [260, 275, 400])
def test_merges_equal_the_library_in_each_language(language, vocab_size, tmp_path):
    unseen = LANGUAGES.values()
    assert_equal_merges([LANGUAGES[language]], vocab_size, tmp_path, unseen)


def test_ties_and_overlaps_equal_the_library(tmp_path):
    for seed in range(80):
        chance = random.Random(seed)
        alphabet = chance.choice(ALPHABETS)
        texts = [
            "".join(chance.choices(alphabet, k=chance.randrange(1, 200)))
            for _ in range(chance.randrange(1, 6))
        ]
        unseen = ["".join(chance.choices(alphabet + "ab zя", k=50))]
        assert_equal_merges(texts, 260 + chance.randrange(60), tmp_path, unseen)


def test_text_is_cut_as_in_the_library():
    library = pre_tokenizers.ByteLevel(add_prefix_space=False)
    every = [chr(c) for c in range(0x110000)]
    every = [c for c in every if unicodedata.category(c) not in ("Cs", "Cn")]
    spaces = [c for c in every if c.isspace()]
    for character in spaces + random.Random(0).sample(every, 2000):
        for text in (f"a {character} b", f" {character * 2}1", f"it's  {character}"):
            pieces = [piece for piece, _ in library.pre_tokenize_str(text)]
            pieces = [bytes(BYTE_OF[c] for c in piece) for piece in pieces]
            assert bpe.cut(text) == pieces


def test_any_bytes_come_back():
    for seed in range(300):
        chance = random.Random(seed)
        noise = chance.randbytes(chance.randrange(80))
        ids = MODEL.encode(noise)
        assert MODEL.decode_bytes(ids) == noise
        assert all(len(bpe.SPECIAL) <= id < MODEL.vocab_size for id in ids)


def test_any_text_comes_back():
    for seed in range(100):
        chance = random.Random(seed)
        codes = [chance.randrange(0xD800) for _ in range(20)]
        text = "".join(map(chr, codes)) + chance.choice(list(LANGUAGES.values()))
        assert MODEL.decode(MODEL.encode(text)) == text


def test_overlapping_pairs_are_joined_from_the_left():
    assert bpe.join([7, 7, 7], (7, 7), 9) == [9, 7]
    assert bpe.join([7, 7, 7, 7, 5], (7, 7), 9) == [9, 9, 5]
    assert bpe.join([], (7, 7), 9) == []


def test_the_first_merges_are_the_smaller_tokenizer():
    small = bpe.train(LANGUAGES.values(), 300)
    assert list(MODEL.made)[:40] == list(small.made)
    assert bpe.BytePairs(list(MODEL.made)[:40]).pieces == small.pieces


def test_no_two_ids_are_the_same_bytes():
    for seed in range(40):
        texts = ["".join(random.Random(seed).choices("aab", k=300))]
        pieces = bpe.train(texts, 340).pieces[len(bpe.SPECIAL) :]
        assert len(set(pieces)) == len(pieces)


def test_special_tokens_are_no_text():
    ids = MODEL.encode("<eos>")
    assert 2 not in ids
    assert MODEL.decode([1, *ids, 2]) == "<eos>"


def test_half_a_character_becomes_a_replacement_character():
    assert MODEL.decode(MODEL.encode("bàn".encode()[:2])) == "b\ufffd"


def test_what_would_compute_something_wrong_is_refused():
    for texts in ("one text", {"a": "text"}):
        with pytest.raises(TypeError, match="texts must be a list of strings"):
            bpe.train(texts, 300)
    with pytest.raises(ValueError, match="vocab_size must be an integer >= 260"):
        bpe.train(["a"], 259)
    with pytest.raises(ValueError, match="surrogates not allowed"):
        MODEL.encode("a\udc80")
    for stray in (-1, MODEL.vocab_size):
        with pytest.raises(ValueError, match=rf"ids\[1\] must be in .* got {stray}"):
            MODEL.decode([5, stray])
    for pair in ((5, 260), (-1, 5), (2, 5)):
        with pytest.raises(ValueError, match="must be a new pair of ids in"):
            bpe.BytePairs([pair])


def test_training_ends_when_no_pair_is_left():
    assert bpe.train(["abc abc"], 9999).pieces[260:] == [b"ab", b"abc", b" abc"]
    assert bpe.train([], 300).vocab_size == 260


@pytest.mark.slow
@pytest.mark.skipif(not REAL.exists(), reason="no real stories beside this folder")
def test_real_stories_within_a_minute(tmp_path, record_budget):
    texts = REAL.read_text("utf-8").split("<|endoftext|>")
    started = time.process_time()
    ours = bpe.train(texts, 2048)
    record_budget("BPE of 11 MB, CPU seconds", time.process_time() - started, 60)
    library = train_bpe(texts, 2048)
    assert list(ours.made) == library_merges(library, tmp_path)
    assert ours.encode(texts[0]) == library.encode(texts[0])


def test_english_endings_are_pieces_of_their_own():
    pieces = ["I", "'m", " you", "'re", " he", "'s", " they", "'d", " we", "'ve"]
    pieces += [" it", "'ll", " don", "'t"]
    assert bpe.CUTS.findall("".join(pieces)) == pieces
    assert bpe.CUTS.findall("o'clock") == ["o", "'", "clock"]


def test_a_word_that_comes_again_is_encoded_once(monkeypatch):
    pairs = bpe.train(["the cat and the dog"], 300)
    asked = []
    encode_word = type(pairs).encode_word

    def counted(self, word):
        asked.append(word)
        return encode_word(self, word)

    monkeypatch.setattr(type(pairs), "encode_word", counted)
    pairs.encode(" the" * 50 + " cat" * 50)
    assert sorted(asked) == [b" cat", b" the"]
