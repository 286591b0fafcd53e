"""Tokenizers give back the text that they encoded, and refuse wrong arguments."""

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from course_utils.bpe import SPECIAL
from course_utils.tokenizer import (
    ROLES,
    Tokenizer,
    train_bpe,
    train_words,
)

TEXTS = [
    'Once upon a time there was a little girl. She said, "I don\'t know!"',
    "The little girl went to the park.\n\nThe end.  ",
    "bàn ăn, привет, 🙂",
]
END = "<|endoftext|>"


@pytest.fixture(scope="module")
def bpe():
    return train_bpe(TEXTS, vocab_size=300)


@pytest.fixture(scope="module")
def words():
    return train_words(TEXTS)


@pytest.fixture(scope="module", params=["bpe", "words"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


def gpt2_like():
    """A fast transformers tokenizer as gpt-neo's: one special token, no padding."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: id for id, piece in enumerate([*alphabet, "he"])}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[("h", "e")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=END, eos_token=END, unk_token=END
    )


def test_special_tokens_have_the_first_ids(tokenizer):
    ids = [tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id]
    assert ids == [0, 1, 2, 3]
    assert tokenizer.tokens(ids) == [*SPECIAL]


@pytest.mark.parametrize("text", TEXTS)
def test_known_text_comes_back(tokenizer, text):
    (ids,) = tokenizer.encode_batch([text])
    assert tokenizer.encode(text) == ids
    assert tokenizer.decode(ids) == tokenizer.decode(torch.tensor(ids)) == text
    assert min(ids) > 3 and max(ids) < tokenizer.vocab_size


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_bpe_gives_any_text_back(text):
    assert BPE.decode(BPE.encode(text)) == text


BPE = train_bpe(TEXTS, vocab_size=300)


@pytest.mark.parametrize("special", SPECIAL)
def test_a_special_token_inside_a_text_is_ordinary_text(bpe, special):
    ids = bpe.encode(f"a {special} b")
    assert not set(ids) & {0, 1, 2, 3}
    assert bpe.decode(ids) == f"a {special} b"


def test_special_ids_are_dropped_or_shown_by_decode(tokenizer):
    ids = [tokenizer.bos_id, *tokenizer.encode("The end."), tokenizer.eos_id]
    assert tokenizer.decode(ids) == "The end."
    assert tokenizer.decode(ids, skip_special=False) == "<bos>The end.<eos>"


def test_an_unknown_word_is_unk_and_only_that_word(words):
    ids = words.encode("The zebra went to the park.")
    assert words.tokens(ids) == ["The", "<unk>", " went", " to", " the", " park", "."]


def test_tokens_join_to_the_text_and_lone_bytes_are_named(bpe):
    text = "The little girl went"
    assert "".join(bpe.tokens(bpe.encode(text))) == text
    assert bpe.tokens(bpe.encode("é")) == ["<C3>", "<A9>"]


def test_the_most_frequent_comes_first():
    assert train_bpe(["xyxy xyxy zq"], vocab_size=261).tokens([260]) == ["xy"]
    assert train_words(["b a a a", "a b c"]).tokens([4]) == [" a"]


def test_bpe_stops_at_the_vocabulary_size_or_earlier():
    assert train_bpe(TEXTS * 3, vocab_size=290).vocab_size == 290
    assert train_bpe(["ab ab"], vocab_size=5000).vocab_size < 270
    # The library would reserve memory for all of these, and abort.
    assert train_bpe(["ab ab"], vocab_size=10**18).vocab_size < 270
    assert train_bpe(["abc"] * 9, vocab_size=10**18).tokens([261]) == ["abc"]


def test_saved_and_loaded_is_the_same(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert [loaded.encode(t) for t in TEXTS] == [tokenizer.encode(t) for t in TEXTS]
    assert loaded.decode([2], skip_special=False) == "<eos>"
    assert loaded.encode("<eos>") == tokenizer.encode("<eos>")
    loaded.save(tmp_path / "again.json")
    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()


@pytest.mark.parametrize("train", [lambda texts: train_bpe(texts, 300), train_words])
def test_training_again_gives_the_same(train, tmp_path):
    for name in ("one", "two"):
        train(TEXTS * 2).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_truncation_and_padding_of_earlier_calls_are_not_inherited():
    """A text was cut without a word, and a batch padded."""
    theirs = gpt2_like()
    theirs.pad_token = END
    texts = ["he", "he, hello", "hello hello hello"]
    expected = [theirs.encode(text) for text in texts]
    theirs(texts, padding=True, truncation=True, max_length=3)
    assert theirs.backend_tokenizer.truncation and theirs.backend_tokenizer.padding
    special = dict.fromkeys(ROLES, END)
    ours = Tokenizer(Backend.from_str(theirs.backend_tokenizer.to_str()), special)
    assert [ours.encode(text) for text in texts] == expected
    assert ours.encode_batch(texts) == expected


def with_gaps():
    words = {"<unk>": 0, "a": 5, "<eos>": 9}
    return Backend(models.WordLevel(words, unk_token="<unk>"))


def test_the_vocabulary_size_is_the_highest_id_and_one():
    """Ids with gaps made a vocabulary that is too small."""
    special = dict(zip(ROLES, ("<eos>", "<eos>", "<eos>", "<unk>"), strict=True))
    tokenizer = Tokenizer(with_gaps(), special)
    assert tokenizer.vocab_size == 10
    assert tokenizer.tokens([0, 5, 9]) == ["<unk>", "a", "<eos>"]
    assert tokenizer.decode([5, 9]) == "a"
    for method in (tokenizer.tokens, tokenizer.decode):
        with pytest.raises(ValueError, match=r"ids\[1\]=6 has no token"):
            method([5, 6])
        with pytest.raises(ValueError, match=r"ids\[0\] must be in .*=10\), got 10"):
            method([10])


def test_a_role_without_token_is_refused():
    """Pad_id was None."""
    special = dict(zip(ROLES, ("<pad>", "<eos>", "<eos>", "<unk>"), strict=True))
    with pytest.raises(ValueError, match=r"special\['pad'\]='<pad>' is not in the voc"):
        Tokenizer(with_gaps(), special)
