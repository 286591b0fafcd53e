"""A model of llama2.c comes out of its own file as it went in."""

from pathlib import Path

import pytest
import torch

from course_utils import llama2c
from course_utils.config import LlamaConfig
from course_utils.llama2c import read_llama2c, read_llama2c_tokenizer
from course_utils.models import LlamaLM
from tools.llama2c_files import read_transformers, write_llama2c, write_tokenizer

STORIES_260K = Path(__file__).parents[3] / "shared/data/stories260K"
needs_260k = pytest.mark.skipif(
    not STORIES_260K.is_dir(), reason="needs the model stories260K"
)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_comes_back(tmp_path, tied):
    torch.manual_seed(0)
    sizes = {"d_model": 24, "num_heads": 3, "num_kv_heads": 1, "num_layers": 2}
    config = LlamaConfig(vocab_size=11, **sizes, d_ff=20, max_length=9, tied=tied)
    model = LlamaLM(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    back = read_llama2c(write_llama2c(tmp_path / "a.bin", model))
    assert back.config.tied == tied
    ids = torch.arange(9)[None]
    torch.testing.assert_close(back(ids), model(ids), rtol=1e-4, atol=1e-4)
    with (tmp_path / "a.bin").open("ab") as file:
        file.write(bytes(4))
    with pytest.raises(ValueError, match="numbers in the file and by its header"):
        read_llama2c(tmp_path / "a.bin")


@needs_260k
def test_the_published_model_comes_back(tmp_path):
    """From the file that llama2.c's own format makes of it; the real one is untried."""
    model, _ = read_transformers(STORIES_260K)
    back = read_llama2c(write_llama2c(tmp_path / "a.bin", model))
    assert back.config == model.config
    ids = torch.arange(300)[None]
    torch.testing.assert_close(back(ids), model(ids), rtol=1e-5, atol=1e-5)


@needs_260k
def test_the_published_tokenizer_comes_back(tmp_path):
    _, tokenizer = read_transformers(STORIES_260K)
    back = read_llama2c_tokenizer(write_tokenizer(tmp_path / "tok512.bin", tokenizer))
    stories = (STORIES_260K.parent / "tinystories/valid.txt").read_text()[:200_000]
    for text in [*stories.split("<|endoftext|>"), "bàn 🙂", "", " two  spaces"]:
        assert back.encode(text) == tokenizer.encode(text)
        assert back.decode(back.encode(text)) == tokenizer.decode(back.encode(text))
    assert back.special == tokenizer.special


def test_without_a_network_one_sentence(monkeypatch):
    from course_utils.data.hub import DataUnavailable

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataUnavailable, match=r"karpathy/tinyllamas cannot be loaded"):
        llama2c.load_llama2c()
