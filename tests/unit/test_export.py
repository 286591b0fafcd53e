"""What is exported opens in transformers, and comes back; the rest is refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from course_utils import export
from course_utils.config import LlamaConfig
from course_utils.decoding import CachedStep, greedy
from course_utils.export import export_llama, import_llama
from course_utils.models import LlamaLM
from course_utils.pretrained import load
from course_utils.tokenizer import train_bpe, train_words

STORIES_260K = Path(__file__).parents[3] / "shared/data/stories260K"
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
needs_260k = pytest.mark.skipif(
    not STORIES_260K.is_dir(), reason="needs the model stories260K"
)


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


def theirs(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()


def change_settings(folder, **changes):
    """Rewrite some settings; `...` deletes one."""
    path = folder / "config.json"
    settings = json.loads(path.read_text()) | changes
    settings = {name: value for name, value in settings.items() if value is not ...}
    path.write_text(json.dumps(settings))


@pytest.mark.parametrize("num_kv_heads", [1, 2, 6])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_logits_survive_the_way_there_and_back(tmp_path, num_kv_heads, tied):
    model = make_model(num_kv_heads=num_kv_heads, tied=tied)
    export_llama(model, tmp_path / "ours")
    there = theirs(tmp_path / "ours")
    # Their RMSNorm and RoPE are float32.
    torch.testing.assert_close(logits(there), logits(model), rtol=0, atol=1e-5)
    back, none = import_llama(tmp_path / "ours")
    assert torch.equal(logits(back), logits(model)) and back.config == model.config
    assert none is None
    there.save_pretrained(tmp_path / "theirs", max_shard_size="8KB")
    assert len(list((tmp_path / "theirs").glob("*.safetensors"))) > 2
    again, _ = import_llama(tmp_path / "theirs")
    assert torch.equal(logits(again), logits(model)) and again.config == model.config


@pytest.mark.parametrize("name", ["rms_norm_eps", "rope_parameters"])
def test_a_setting_that_is_not_written_changes_the_logits(tmp_path, name):
    model = make_model(num_kv_heads=2)
    export_llama(model, tmp_path)
    change_settings(tmp_path, **{name: ...})
    assert (logits(theirs(tmp_path)) - logits(model)).abs().max() > 1e-3


LLAMA_3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0}
LLAMA_3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA_3 |= {"original_max_position_embeddings": 8}
REFUSED = [  # what our model cannot compute, and weights that do not fit
    ({"rope_parameters": LLAMA_3}, "rope_type must be 'default', got 'llama3'"),
    ({"rope_parameters": ..., "rope_scaling": {"type": "linear", "factor": 4.0}}, "li"),
    ({"hidden_act": "gelu"}, "hidden_act must be 'silu', got 'gelu'"),
    ({"head_dim": 8}, "head_dim must be 4, got 8|head_dim"),
    ({"attention_bias": True}, "attention_bias must be False, got True"),
    ({"mlp_bias": True}, "mlp_bias must be False, got True"),
    ({"model_type": "mistral"}, "model_type must be 'llama', got 'mistral'|plain"),
    ({"num_hidden_layers": 4}, "missing_keys.*model.layers.3"),
    ({"num_hidden_layers": 2}, "unexpected_keys.*model.layers.2"),
    ({"tie_word_embeddings": False}, "missing_keys.*lm_head.weight"),
    ({"vocab_size": 32}, "plain LLaMA|mismatched"),
    ({"num_key_value_heads": 3}, "plain LLaMA|mismatched"),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSED, ids=lambda x: str(x)[:40])
def test_a_setting_that_does_not_fit_is_refused(tmp_path, changes, sentence):
    export_llama(make_model(num_kv_heads=2), tmp_path)
    change_settings(tmp_path, **changes)
    with pytest.raises(ValueError, match=sentence) as caught:
        import_llama(tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="does not hold a plain LLaMA"):
        import_llama(tmp_path)


def test_weights_that_are_missing_are_not_drawn_at_random(tmp_path):
    export_llama(make_model(), tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    del tensors["model.norm.weight"]
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(ValueError, match=r"missing_keys.*model\.norm\.weight"):
        import_llama(tmp_path)


# --- the folder ----------------------------------------------------------------------


def test_what_cannot_be_exported_is_refused(tmp_path):
    with pytest.raises(ValueError, match="vocab_size must be equal, got 7 and 31"):
        export_llama(make_model(), tmp_path / "a", train_words(["a b c"]))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="folder must be new or empty"):
        export_llama(make_model(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_beginning_of_a_text_is_found_without_dropout():
    """Two exports of one model in training mode began texts with two tokens."""
    tokenizer = train_words(["a b c d e"])
    torch.manual_seed(0)
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 16}
    config = LlamaConfig(vocab_size=tokenizer.vocab_size, **sizes, dropout=0.5)
    model = LlamaLM(config)
    assert len({export._beginning(model, tokenizer) for _ in range(20)}) == 1
    assert model.training


def test_export_and_import_draw_no_random_numbers(tmp_path):
    model = make_model()
    before = torch.get_rng_state()
    export_llama(model, tmp_path, trained_on="two sentences")
    import_llama(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert "two sentences" in (tmp_path / "README.md").read_text("utf-8")


def test_rounded_weights_stay_rounded(tmp_path):
    export_llama(make_model().bfloat16(), tmp_path)
    assert import_llama(tmp_path)[0].head.weight.dtype == torch.bfloat16


# --- the tokenizer -------------------------------------------------------------------

TEXT = "the cat was tired"
ROLES = {"pad": "<pad>", "bos": "<bos>", "eos": "<eos>", "unk": "<unk>"}


@pytest.mark.parametrize("kind", [train_words, lambda texts: train_bpe(texts, 270)])
def test_the_tokenizer_goes_along_and_comes_back(kind, tmp_path):
    from transformers import AutoTokenizer

    ours = kind(["the cat sat because it was tired"])
    export_llama(make_model(vocab_size=ours.vocab_size), tmp_path, ours)
    there, (_, back) = AutoTokenizer.from_pretrained(tmp_path), import_llama(tmp_path)
    for text in (TEXT, "the<eos> cat"):  # a name inside a text is ordinary text
        assert there.encode(text) == ours.encode(text) == back.encode(text)
    for role, token in ROLES.items():
        assert getattr(there, f"{role}_token") == token == back.special[role]
        assert getattr(there, f"{role}_token_id") == getattr(ours, f"{role}_id")
    long, short = there([TEXT, "the cat"], padding=True)["input_ids"]
    assert len(long) == len(short) and short[0] == ours.pad_id
    ids = [*ours.encode(TEXT), ours.eos_id]
    assert there.decode(ids, skip_special_tokens=True) == TEXT == back.decode(ids)
    assert len(there) == ours.vocab_size == back.vocab_size


@pytest.mark.parametrize("name", ["tinystories", "stories"])
def test_without_a_prompt_it_begins_a_story(name, tmp_path):
    """The storyteller never saw bos in training, the other model never saw eos."""
    model, tokenizer = load(name)
    export_llama(model, tmp_path / "folder", tokenizer)
    settings = json.loads((tmp_path / "folder/generation_config.json").read_text())
    begins = {"tinystories": tokenizer.eos_id, "stories": tokenizer.bos_id}
    assert settings["bos_token_id"] == begins[name]
    assert settings["eos_token_id"] == tokenizer.eos_id
    assert settings["pad_token_id"] == tokenizer.pad_id
    assert settings["max_new_tokens"] < model.config.max_length


@pytest.mark.slow
def test_people_use_the_folder_as_it_is(tmp_path):
    """The shipped storyteller, through a pipeline that knows nothing of the course."""
    from transformers import pipeline

    model, tokenizer = load("tinystories")
    export_llama(model, tmp_path / "folder", tokenizer)
    write = pipeline("text-generation", model=str(tmp_path / "folder"))
    prompts = ["Once upon a time there", "Lily"]
    greedily = {"max_new_tokens": 12, "do_sample": False}
    for prompt in prompts:
        ids = torch.tensor([tokenizer.encode(prompt)])
        row = greedy(CachedStep(model), ids, 12, stop_id=tokenizer.eos_id)[0]
        (result,) = write(prompt, **greedily)
        assert result["generated_text"] == tokenizer.decode(row)
    (result,) = write("", do_sample=False)
    assert result["generated_text"].startswith("Once upon a time")


@needs_260k
def test_a_published_model_writes_its_published_text(tmp_path):
    """llama2.c publishes what stories260K writes at temperature 0."""
    model, tokenizer = import_llama(STORIES_260K)
    assert model.config.num_kv_heads < model.config.num_heads
    assert tokenizer.vocab_size == model.config.vocab_size == 512
    begin = torch.tensor([[tokenizer.bos_id]])
    ids = greedy(CachedStep(model), begin, 255, stop_id=tokenizer.bos_id)
    assert tokenizer.decode(ids[0]) == (STORIES_260K / "greedy.txt").read_text()
    export_llama(model, tmp_path / "folder", tokenizer)
    back, words = import_llama(tmp_path / "folder")
    assert back.config == model.config
    assert words.encode("Once, bàn 🙂</s>") == tokenizer.encode("Once, bàn 🙂</s>")
