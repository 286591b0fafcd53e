"""A trained model of `transformers` opens with its attention weights, or not at all."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from course_utils.data.hub import load_model, load_tokenizer
from tools.mirror_data import trained_model

IDS = torch.tensor([[2, 5, 7, 3, 0]])
SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}


def bert():
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=11, intermediate_size=16, **SIZES)
    return transformers.BertModel(config)


def llama():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=11, intermediate_size=16, **SIZES)
    return transformers.LlamaForCausalLM(config)


@pytest.mark.parametrize("make", [bert, llama])
def test_a_folder_opens_with_weights_to_look_at(tmp_path, make):
    saved = make().eval()
    saved.save_pretrained(tmp_path)
    model = load_model(tmp_path)
    assert not model.training
    with torch.no_grad():
        output = model(IDS, output_attentions=True)
        body = getattr(saved, "model", saved)
        assert torch.allclose(output[0], body(IDS)[0], atol=1e-5)
    assert [tuple(one.shape) for one in output.attentions] == [(1, 2, 5, 5)] * 2


def test_it_has_the_default_dtype(tmp_path):
    bert().save_pretrained(tmp_path)
    torch.set_default_dtype(torch.float64)
    try:
        model = load_model(str(tmp_path))
    finally:
        torch.set_default_dtype(torch.float32)
    assert {one.dtype for one in model.parameters()} == {torch.float64}


def without(folder, beginning):
    """Take weights out of a saved model."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    remaining = {k: v for k, v in tensors.items() if not k.startswith(beginning)}
    assert len(remaining) < len(tensors)
    save_file(remaining, path, {"format": "pt"})


def test_a_pooler_that_nobody_trained_is_left_out(tmp_path):
    bert().save_pretrained(tmp_path)
    assert load_model(tmp_path)(IDS).pooler_output is not None
    without(tmp_path, "pooler.")
    assert load_model(tmp_path)(IDS).pooler_output is None


def test_weights_that_are_missing_are_not_drawn_at_random(tmp_path):
    bert().save_pretrained(tmp_path)
    without(tmp_path, "encoder.layer.1.attention.self")
    message = (
        r"every weight of a BertModel, .* lacks 'encoder.layer.1.attention.* 5 others"
    )
    with pytest.raises(ValueError, match=message):
        load_model(tmp_path)


def test_a_damaged_folder_is_refused(tmp_path):
    bert().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match="cannot be opened: SafetensorError"):
        load_model(tmp_path)


def test_the_trained_model_of_the_tests_is_one():
    folder = trained_model()
    if folder is None:
        pytest.skip("`make test` fetches a trained model")
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    assert settings["architectures"] == ["BertModel"]
    encoding = load_tokenizer(folder)("The cat sat.", return_tensors="pt")
    with torch.no_grad():
        output = load_model(folder)(**encoding, output_attentions=True)
    back = output.attentions[0][0, 2].diagonal(-1)
    assert back.min() > 0.9  # a head that looks one back: nothing random does that
