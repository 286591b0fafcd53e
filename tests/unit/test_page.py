"""A page to share holds the model and nothing that runs or loads from outside."""

import re
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attention_views.living import quantized
from course_utils import page
from course_utils.config import EncoderDecoderConfig, LlamaConfig
from course_utils.models import EncoderDecoder, LlamaLM
from course_utils.tokenizer import Tokenizer, train_bpe, train_words
from tests.support.hostile import HOSTILE

TEXTS = ["One day, a cat saw a dog.", "The dog saw a red cat."]


def small(tokenizer, **changes):
    torch.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 20} | changes
    return LlamaLM(LlamaConfig(vocab_size=tokenizer.vocab_size, **sizes)).eval()


def test_a_rounded_matrix_is_off_by_half_a_scale_at_most():
    matrix = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    matrix[2] = 0
    integers, scales = quantized(matrix)
    assert integers.dtype == np.int8 and np.abs(integers).max() == 127
    assert np.all(
        np.abs(integers * scales[:, None] - matrix) <= scales[:, None] * 0.501
    )


def test_the_page_loads_nothing_and_its_words_cannot_end_a_script(tmp_path):
    for tokenizer in (train_bpe(TEXTS, 270), train_words([*TEXTS, "</script><b>"])):
        path = tmp_path / "deep" / "page.html"
        words = {"title": HOSTILE[1], "opening": HOSTILE[2] + "{{data}}"}
        assert page.share_page(small(tokenizer), tokenizer, path, **words) == path
        html = path.read_text("utf-8")
        assert "default-src 'none'" in html and html.count("<script") == 5
        assert not re.search(r"<link|src=|https?://(?!www.w3.org/2000/svg)", html)
        assert "<title>&lt;script&gt;" in html and r"\u003cscript\u003e" in html


def test_other_models_and_larger_ones_are_refused_in_a_sentence(tmp_path):
    tokenizer = train_bpe(TEXTS, 270)
    path = tmp_path / "page.html"
    translator = EncoderDecoder(
        EncoderDecoderConfig(source_vocab_size=9, target_vocab_size=9)
    )
    with pytest.raises(TypeError, match=r"must be a LlamaLM, got .*EncoderDecoder"):
        page.share_page(translator, tokenizer, path)
    large = small(tokenizer, d_model=512, d_ff=2800)
    with pytest.raises(ValueError, match=r"at most 4,000,000 .* 5,\d+,\d+: .* 8 MB"):
        page.share_page(large, tokenizer, path)
    with pytest.raises(ValueError, match=r"vocab_size must be equal, got 270 and 271"):
        page.share_page(small(SimpleNamespace(vocab_size=271)), tokenizer, path)
    broken = small(tokenizer)
    broken.norm.weight.data[0] = torch.nan
    with pytest.raises(ValueError, match=r"'norm'.* finite"):
        page.share_page(broken, tokenizer, path)
    assert not path.exists()


WRONG = {
    "title must not have half a character, got '\\\\ud83d'": {"title": "\ud83d"},
    "opening must have one hero in braces": {"opening": "{Tom} and {Lily} ran"},
    "start_id must be in .0, vocab_size=270., got 99999": {"start_id": 99_999},
}


@pytest.mark.parametrize("message", WRONG)
@pytest.mark.parametrize("call", [page.share_page, page.show_story])
def test_what_makes_no_page_is_refused_in_a_sentence(call, message, tmp_path):
    tokenizer = train_bpe(TEXTS, 270)
    with pytest.raises(ValueError, match=message):
        call(small(tokenizer), tokenizer, tmp_path / "page.html", **WRONG[message])
    assert not any(tmp_path.iterdir())


def test_the_address_of_a_page_is_relative_where_it_can_be():
    for path, address in {
        Path("runs/a page.html"): "runs/a%20page.html",
        Path.cwd() / "runs/a page.html": "runs/a%20page.html",
        PureWindowsPath("C:/a page.html"): "file:///C:/a%20page.html",
        PureWindowsPath(r"runs\page.html"): "runs/page.html",
    }.items():
        assert page._address(path) == address


def test_a_tokenizer_of_another_kind_is_refused(tmp_path):
    backend = train_bpe(TEXTS, 270).backend
    backend.pre_tokenizer.add_prefix_space = True
    special = {role: f"<{role}>" for role in ("pad", "bos", "eos", "unk")}
    other = Tokenizer(backend, special)
    with pytest.raises(ValueError, match="must split texts as those of train_bpe"):
        page.share_page(small(other), other, tmp_path / "page.html")


def test_a_cell_keeps_a_still_and_no_weights(tmp_path, monkeypatch):
    displayed = []

    def display(data, metadata=None, raw=True):
        displayed.append((data, metadata))

    monkeypatch.setattr(page, "display", display)
    monkeypatch.setattr(page.style, "display", display)
    monkeypatch.chdir(tmp_path)
    tokenizer = train_bpe(TEXTS, 270)
    page.show_story(small(tokenizer), tokenizer, "runs/own page.html", opening="One")
    (view, _), (still, about) = displayed
    assert 'href="runs/own%20page.html"' in view["text/html"]
    assert 'frame.sandbox = "allow-scripts"' in view["text/html"]
    assert len(view["text/html"]) < 2000 and (tmp_path / "runs/own page.html").is_file()
    assert "Run this cell" in view["text/plain"]
    assert about["image/png"]["alt"].startswith("A story that begins “One")
    assert len(still["image/png"]) < 100_000
