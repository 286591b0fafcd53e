"""What is exported opens in transformers, with the same numbers."""

import json
from pathlib import Path

import pytest
import torch

from course_utils import export
from course_utils.config import LlamaConfig
from course_utils.decoding import CachedStep, greedy
from course_utils.export import export_llama
from course_utils.models import LlamaLM
from course_utils.pretrained import load
from course_utils.tokenizer import train_bpe, train_words
from tools.llama2c_files import read_transformers

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
def test_logits_are_those_of_our_model(tmp_path, num_kv_heads, tied):
    model = make_model(num_kv_heads=num_kv_heads, tied=tied)
    export_llama(model, tmp_path / "ours")
    there = theirs(tmp_path / "ours")
    # Their RMSNorm and RoPE are float32.
    torch.testing.assert_close(logits(there), logits(model), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["rms_norm_eps", "rope_parameters"])
def test_a_setting_that_is_not_written_changes_the_logits(tmp_path, name):
    model = make_model(num_kv_heads=2)
    export_llama(model, tmp_path)
    change_settings(tmp_path, **{name: ...})
    assert (logits(theirs(tmp_path)) - logits(model)).abs().max() > 1e-3


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


def test_an_export_draws_no_random_numbers(tmp_path):
    model = make_model()
    before = torch.get_rng_state()
    export_llama(model, tmp_path, trained_on="two sentences")
    assert torch.equal(torch.get_rng_state(), before)
    assert "two sentences" in (tmp_path / "README.md").read_text("utf-8")


# --- the tokenizer -------------------------------------------------------------------

TEXT = "the cat was tired"
ROLES = {"pad": "<pad>", "bos": "<bos>", "eos": "<eos>", "unk": "<unk>"}


@pytest.mark.parametrize("kind", [train_words, lambda texts: train_bpe(texts, 270)])
def test_the_tokenizer_goes_along(kind, tmp_path):
    from transformers import AutoTokenizer

    ours = kind(["the cat sat because it was tired"])
    export_llama(make_model(vocab_size=ours.vocab_size), tmp_path, ours)
    there = AutoTokenizer.from_pretrained(tmp_path)
    for text in (TEXT, "the<eos> cat"):  # a name inside a text is ordinary text
        assert there.encode(text) == ours.encode(text)
    for role, token in ROLES.items():
        assert getattr(there, f"{role}_token") == token
        assert getattr(there, f"{role}_token_id") == getattr(ours, f"{role}_id")
    long, short = there([TEXT, "the cat"], padding=True)["input_ids"]
    assert len(long) == len(short) and short[0] == ours.pad_id
    ids = [*ours.encode(TEXT), ours.eos_id]
    assert there.decode(ids, skip_special_tokens=True) == TEXT
    assert len(there) == ours.vocab_size


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
    model, tokenizer = read_transformers(STORIES_260K)
    assert model.config.num_kv_heads < model.config.num_heads
    assert tokenizer.vocab_size == model.config.vocab_size == 512
    begin = torch.tensor([[tokenizer.bos_id]])
    ids = greedy(CachedStep(model), begin, 255, stop_id=tokenizer.bos_id)
    assert tokenizer.decode(ids[0]) == (STORIES_260K / "greedy.txt").read_text()
    export_llama(model, tmp_path / "folder", tokenizer)
    back, words = read_transformers(tmp_path / "folder")
    assert back.config == model.config
    assert words.encode("Once, bàn 🙂</s>") == tokenizer.encode("Once, bàn 🙂</s>")
