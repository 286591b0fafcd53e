"""What is exported opens in transformers, and comes back."""

import json

import pytest
import torch

from course_utils.config import LlamaConfig
from course_utils.export import export_llama, import_llama
from course_utils.models import LlamaLM
from course_utils.tokenizer import train_words

SHAPE = {
    "vocab_size": 31,
    "d_model": 24,
    "num_heads": 6,
    "num_layers": 3,
    "d_ff": 40,
    "max_length": 16,
    "rope_base": 500.0,  # unlike the defaults: what is not written is seen
    "norm_eps": 1e-2,
}


def make_model(**changes):
    torch.manual_seed(5)
    model = LlamaLM(LlamaConfig(**(SHAPE | changes))).double()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model.eval()


def logits(model):
    ids = torch.arange(2 * 11).reshape(2, 11) % 31
    with torch.no_grad():
        seen = model(ids)
    return getattr(seen, "logits", seen)


def difference(a, b):
    return (logits(a) - logits(b)).abs().max().item()


def theirs(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()


@pytest.mark.parametrize("num_kv_heads", [1, 2, 6])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_logits_survive_the_way_there_and_back(tmp_path, num_kv_heads, tied):
    model = make_model(num_kv_heads=num_kv_heads, tied=tied)
    export_llama(model, tmp_path / "ours")
    there = theirs(tmp_path / "ours")
    assert difference(model, there) < 1e-5  # their RMSNorm and RoPE are float32
    back = import_llama(tmp_path / "ours")
    assert difference(model, back) == 0 and back.config == model.config
    there.save_pretrained(tmp_path / "theirs")
    settings = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert settings["rope_parameters"]["rope_theta"] == 500.0
    again = import_llama(tmp_path / "theirs")
    assert difference(model, again) == 0 and again.config == model.config


@pytest.mark.parametrize("name", ["rms_norm_eps", "rope_parameters"])
def test_a_setting_that_is_not_written_changes_the_logits(tmp_path, name):
    model = make_model(num_kv_heads=2)
    export_llama(model, tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    del settings[name]
    settings.pop("rope_theta" if name == "rope_parameters" else "", None)
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert difference(model, theirs(tmp_path)) > 1e-3


def test_the_tokenizer_goes_along(tmp_path):
    from transformers import PreTrainedTokenizerFast

    tokenizer = train_words(["the cat sat because it was tired"])
    export_llama(make_model(num_kv_heads=2), tmp_path, tokenizer)
    there = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    text = "the cat was tired"
    ids = there.encode(text, add_special_tokens=False)
    assert ids == tokenizer.encode(text)
    settings = json.loads((tmp_path / "config.json").read_text())
    kinds = [settings[f"{name}_token_id"] for name in ("pad", "bos", "eos")]
    assert kinds == [0, 1, 2]


def test_what_does_not_fit_is_refused(tmp_path):
    export_llama(make_model(num_kv_heads=2), tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())

    def refused(sentence, **changes):
        (tmp_path / "config.json").write_text(json.dumps(settings | changes))
        with pytest.raises(ValueError, match=sentence):
            import_llama(tmp_path)

    refused("does not fit its config: .*layers.3", num_hidden_layers=4)
    refused("does not fit its config: .*lm_head", tie_word_embeddings=False)
    refused("llama with plain RoPE", model_type="mistral")
    refused("llama with plain RoPE", rope_parameters={"rope_type": "yarn"})
