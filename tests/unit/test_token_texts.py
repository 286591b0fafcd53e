"""A tokenizer's encoding as labels: readable, one per token, nothing lost."""

import pytest
import tokenizers
import torch
import transformers
from tokenizers import (
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from course_utils.tokenizer import train_bpe
from course_utils.views import show_attention
from course_utils.views.tokens import token_texts
from tests.support.hostile import HOSTILE
from tests.support.view_data import payload, stored_outputs

TEXTS = [
    "the cat sat on the mat",
    "bàn café, naïve Übung",
    "Đặng: xin chào bạn",
    "два слова и ещё",
    "日本語 🎉 👩‍👩‍👧",
    "čaj, kuća, žluťoučký kůň",
    "zażółć gęślą jaźń",
    "ĝis la ĉielo",
]
SPECIAL = ["<pad>", "<bos>", "<eos>"]


def byte_level(texts=TEXTS[:2]):
    """A tokenizer as GPT-2 has it: of other texts it splits letters into bytes."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return backend


def sentencepiece():
    """A tokenizer as LLaMA and T5 have it."""
    backend = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    in_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<unk>", *SPECIAL, *in_bytes],
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS[:2], trainer)
    return backend


def wordpiece():
    """A tokenizer as BERT has it."""
    backend = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(
        strip_accents=False, lowercase=False
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=250,
        special_tokens=["[UNK]", "[CLS]", "[SEP]"],
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS, trainer)
    ends = [(token, backend.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    return backend


def batch_encoding(*texts, **options):
    """What a fast tokenizer of transformers gives for the texts."""
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte_level(), pad_token="<pad>"
    )
    return fast(texts[0] if len(texts) == 1 else list(texts), **options)


def test_half_a_letter_is_marked_and_the_whole_one_beside_it_stays():
    backend = byte_level(["aé aé aé"])
    half = ["<F0>", "<9F>", "<8E>", "<89>"]
    whole = token_texts(backend.encode(" aé"))
    assert token_texts(backend.encode(" aé🎉")) == [*whole, *half]
    vocabulary = {"aÃ": 0, "©": 1, "Ġb": 2}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="©"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert token_texts(backend.encode("aÃ © Ġb")) == ["a<C3>", "<A9>", " b"]


def test_they_read_as_our_own_tokenizer_writes_them():
    tokenizer = train_bpe(TEXTS[:2], 300)
    for text in [*TEXTS, "a  b\n\tc", "🎉"]:
        encoding = tokenizer._backend.encode(text)
        assert token_texts(encoding) == tokenizer.tokens(encoding.ids)


def test_sentencepiece_writes_spaces():
    texts = token_texts(sentencepiece().encode("the cat 🎉"))
    assert "".join(texts).startswith(" the cat ") and "▁" not in "".join(texts)
    assert texts[-4:] == ["<0xF0>", "<0x9F>", "<0x8E>", "<0x89>"]


def test_wordpiece_stays_as_it_is():
    """A letter such as é or č is one of the characters that spell a byte."""
    for encoding in wordpiece().encode_batch(TEXTS):
        assert token_texts(encoding) == encoding.tokens
        assert token_texts(encoding)[0] == "[CLS]"


@pytest.mark.parametrize("letter", "éčąłüñø")
def test_a_single_letter_of_a_word_vocabulary_stays(letter):
    backend = tokenizers.Tokenizer(models.WordLevel({letter: 0}, unk_token=letter))
    assert token_texts(backend.encode(letter)) == [letter]


def test_special_tokens_are_not_taken_apart():
    backend = byte_level()
    ends = ["▁begin▁of▁sentence", "Ġ<é>"]
    backend.add_special_tokens(ends)
    backend.post_processor = processors.TemplateProcessing(
        single=f"{ends[0]} $A {ends[1]}",
        special_tokens=[(token, backend.token_to_id(token)) for token in ends],
    )
    texts = token_texts(backend.encode("the café"))
    assert [texts[0], texts[-1]] == ends
    assert "".join(texts[1:-1]) == "the café"


def test_a_token_that_was_added_does_not_hide_how_the_others_are_spelled():
    backend = byte_level()
    backend.add_tokens(["<｜User▁says｜>"])
    texts = token_texts(backend.encode("the <｜User▁says｜> café"))
    assert "<｜User▁says｜>" in texts and "".join(texts) == "the <｜User▁says｜> café"


def test_a_text_may_end_inside_a_letter():
    encoding = byte_level().encode("the cat 🎉")
    encoding.truncate(len(encoding.ids) - 1)
    assert "".join(token_texts(encoding)) == "the cat <F0><9F><8E>"


def test_a_batch_encoding_of_one_text_is_taken():
    encoding = batch_encoding("the café")
    assert "".join(token_texts(encoding)) == "the café"
    tensors = batch_encoding("the café", return_tensors="pt")
    assert token_texts(tensors) == token_texts(encoding)


def test_of_a_batch_one_row_is_asked_for():
    encoding = batch_encoding("the cat", "a mat on it", padding=True)
    sentence = r"tokens must be one text, .* such as encoding\[0\]; got 2"
    with pytest.raises(ValueError, match=sentence):
        token_texts(encoding)
    assert "".join(token_texts(encoding[1])).replace("<pad>", "") == "a mat on it"


def test_ids_without_pieces_are_refused():
    encoding = transformers.BatchEncoding({"input_ids": [1, 2]})
    with pytest.raises(ValueError, match=r"source must be one text, .*; got 0"):
        token_texts(encoding, "source")
    for ids in ([1, 2], torch.tensor([1, 2])):
        with pytest.raises(TypeError, match=r"tokens\[0\] must be of type str, got"):
            token_texts(ids)
    with pytest.raises(TypeError, match="list of strings or a tokenizer's encoding"):
        token_texts({"input_ids": [1, 2]})


def test_strings_stay_as_they_are():
    given = [*HOSTILE, "Ġthe", "▁the", "##ing", "<0xE2>"]
    assert token_texts(given) == given
    assert token_texts(iter(given)) == given


def test_a_view_takes_an_encoding():
    encoding = byte_level().encode("the café")
    weights = torch.eye(len(encoding.ids))[None]
    with stored_outputs() as displayed:
        show_attention(weights, encoding, title="Each sees itself.")
    tokens = payload(displayed[0][0]["text/html"])["tokens"][0]
    assert tokens == token_texts(encoding)
