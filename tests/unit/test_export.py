"""What is exported opens in transformers, and comes back; the rest is refused."""

import inspect
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from course_utils.config import LlamaConfig
from course_utils.export import export_llama, import_llama
from course_utils.models import LlamaLM
from course_utils.pretrained import load, save
from course_utils.text.tokenizer import from_transformers, train_bpe, train_words

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


def change_settings(folder, **changes):
    """Rewrite some settings; `...` deletes one."""
    path = folder / "config.json"
    settings = json.loads(path.read_text()) | changes
    settings = {name: value for name, value in settings.items() if value is not ...}
    path.write_text(json.dumps(settings))


PLAIN = {"rope_type": "default"}
ACCEPTED = {
    "as version 4 writes it": {"rope_parameters": ..., "rope_scaling": None},
    "plain rope_scaling": {"rope_parameters": ..., "rope_scaling": PLAIN},
    "plain rope_scaling, old key": {"rope_scaling": {"type": "default"}},
    "empty rope_scaling": {"rope_scaling": {}},
    "as version 5 writes it": {"rope_theta": ...},
    "theta beside rope_parameters": {"rope_parameters": PLAIN, "rope_theta": 77.0},
    "two thetas": {"rope_parameters": {"rope_theta": 50.0}, "rope_theta": 9e4},
    "a theta in each": {"rope_scaling": {"rope_theta": 50.0}},
    "no theta": {"rope_parameters": ..., "rope_theta": ...},
    "no theta inside": {"rope_parameters": PLAIN, "rope_theta": ...},
    "no kv heads": {"num_key_value_heads": ...},
    "kv heads null": {"num_key_value_heads": None},
    "no eps": {"rms_norm_eps": ...},
    "no tie": {"tie_word_embeddings": ...},
    "no head_dim": {"head_dim": ...},
    "head_dim null": {"head_dim": None},
    "no activation": {"hidden_act": ...},
    "no biases": {"attention_bias": ..., "mlp_bias": ...},
    "LLaMA 1": {
        "num_key_value_heads": ...,
        "rope_parameters": ...,
        "rope_theta": ...,
        "head_dim": ...,
        "attention_bias": ...,
        "mlp_bias": ...,
    },
}


@pytest.mark.parametrize("changes", ACCEPTED.values(), ids=ACCEPTED)
def test_a_folder_that_is_accepted_has_the_logits_of_transformers(tmp_path, changes):
    """The defaults of missing settings are those of transformers (tried with 5.23)."""
    export_llama(make_model(tied=False), tmp_path)
    change_settings(tmp_path, **changes)
    assert difference(import_llama(tmp_path), theirs(tmp_path)) < 1e-5


LLAMA_3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
YARN = {"rope_type": "yarn", "factor": 4.0}
REFUSED = [
    # B5 and defect 1: a scaled RoPE in the spelling of transformers 4 was accepted
    ({"rope_scaling": LLAMA_3}, "rope_scaling: rope_type .*'default', got 'llama3'"),
    ({"rope_scaling": LLAMA_3, "rope_parameters": ...}, "rope_scaling: .* 'llama3'"),
    ({"rope_scaling": {"type": "linear", "factor": 4.0}}, "rope_scaling: .* 'linear'"),
    ({"rope_scaling": {"rope_type": None}}, "rope_scaling: rope_type .* got None"),
    ({"rope_scaling": "linear"}, "rope_scaling must be an object .* got 'linear'"),
    ({"rope_parameters": YARN}, "rope_parameters: rope_type .* 'yarn'"),
    ({"rope_parameters": {"type": "dynamic"}}, "rope_parameters: .* 'dynamic'"),
    ({"rope_parameters": PLAIN | {"partial_rotary_factor": 0.5}}, "partial_rotary_fac"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor must be 1.0, got 0.5"),
    ({"rope_theta": -5, "rope_parameters": ...}, "rope_theta must be .* > 1, got -5"),
    ({"rope_parameters": {"rope_theta": "x"}}, "rope_theta must be a number, got 'x'"),
    # defect 5: another activation function was accepted
    ({"hidden_act": "gelu"}, "hidden_act must be \"silu\", got 'gelu'"),
    ({"hidden_act": "relu"}, "hidden_act must be \"silu\", got 'relu'"),
    # defect 9: errors without a name, or of many lines
    ({"head_dim": 8}, "head_dim must be 4, got 8"),
    ({"attention_bias": True}, "attention_bias must be false, got True"),
    ({"mlp_bias": True}, "mlp_bias must be false, got True"),
    ({"quantization_config": {"bits": 4}}, "quantization_config must be null"),
    ({"model_type": "mistral"}, "model_type must be 'llama', got 'mistral'"),
    ({"model_type": ...}, "model_type must be 'llama', got None"),
    ({"vocab_size": ...}, "vocab_size is missing"),
    ({"hidden_size": ...}, "hidden_size is missing"),
    ({"intermediate_size": ...}, "intermediate_size is missing"),
    ({"num_hidden_layers": ...}, "num_hidden_layers is missing"),
    ({"num_attention_heads": ...}, "num_attention_heads is missing"),
    ({"max_position_embeddings": ...}, "max_position_embeddings is missing"),
    ({"hidden_size": "24"}, "hidden_size must be an integer, got '24'"),
    ({"hidden_size": 0}, "hidden_size must be an integer >= 1, got 0"),
    ({"hidden_size": 25}, "hidden_size=25 is not divisible by num_attention_heads=6"),
    ({"hidden_size": 18, "head_dim": 3}, "hidden_size / num_attention_heads .* got 3"),
    ({"num_key_value_heads": 4}, "num_attention_heads=6 .* num_key_value_heads=4"),
    ({"num_key_value_heads": 0}, "num_key_value_heads must be .* got 0"),
    ({"rms_norm_eps": 0}, "rms_norm_eps must be a finite number > 0, got 0"),
    ({"tie_word_embeddings": "no"}, "tie_word_embeddings must be a bool, got 'no'"),
    ({"max_position_embeddings": 2.5}, "max_position_embeddings .* got 2.5"),
    # weights that do not fit: the first one is named
    ({"num_hidden_layers": 4}, "'model.layers.3.input_layernorm.weight' is missing"),
    ({"num_hidden_layers": 10**9}, "'model.layers.3.input_layernorm.weight' is miss"),
    ({"num_hidden_layers": 2}, "'model.layers.2.input_layernorm.weight' and 8 more"),
    ({"tie_word_embeddings": False}, "'lm_head.weight' is missing"),
    (
        {"vocab_size": 32},
        "'model.embed_tokens.weight' .* \\(32, 24\\), got \\(31, 24\\)",
    ),
    ({"vocab_size": 10**12}, "'model.embed_tokens.weight' must have shape"),
    ({"intermediate_size": 41}, "mlp.gate_proj.weight' .* \\(41, 24\\), got \\(40, 24"),
    ({"num_key_value_heads": 3}, "self_attn.k_proj.weight' .* \\(12, 24\\), got"),
    ({"hidden_size": 48, "head_dim": 8}, "embed_tokens.weight' .* got \\(31, 24\\)"),
]


def assert_refused(folder, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        import_llama(folder)
    text = str(caught.value)
    assert type(caught.value) is ValueError and len(text) < 240 and "\n" not in text


@pytest.mark.parametrize(("changes", "sentence"), REFUSED, ids=lambda x: str(x)[:40])
def test_a_setting_that_does_not_fit_is_refused(tmp_path, changes, sentence):
    export_llama(make_model(num_kv_heads=2), tmp_path)
    change_settings(tmp_path, **changes)
    assert_refused(tmp_path, sentence)


def test_other_weights_are_refused(tmp_path):
    export_llama(make_model(), tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    save_file(tensors | {name: torch.ones(2)}, path)
    assert_refused(tmp_path, f"unexpected tensor '{name}'$")
    head = {"lm_head.weight": torch.ones(31, 24)}
    save_file(tensors | head, path)
    assert_refused(tmp_path, "unexpected tensor 'lm_head.weight'$")
    save_file(tensors | {"model.norm.weight": torch.ones(24, dtype=torch.int8)}, path)
    assert_refused(tmp_path, "'model.norm.weight' .* floating-point .* got torch.int8")
    save_file(
        tensors | {"model.norm.weight": torch.ones(24).to(torch.float8_e4m3fn)}, path
    )
    assert_refused(tmp_path, "'model.norm.weight' .* got torch.float8_e4m3fn")
    path.write_bytes(path.read_bytes()[:100])
    assert_refused(tmp_path, "model.safetensors is not a valid safetensors file")


def test_a_folder_without_the_files_is_refused(tmp_path):
    assert_refused(tmp_path / "none", "folder must contain config.json, got ")
    export_llama(make_model(), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert_refused(tmp_path, "folder must contain model.safetensors, got ")
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    assert_refused(tmp_path, "weights in several files are not supported")
    export_llama(make_model(), tmp_path)
    config = tmp_path / "config.json"
    for content, sentence in (
        (b"not json", "config.json is not valid JSON: Expecting value"),
        (b"\xff\xfe", "config.json is not valid JSON: .*utf-8"),
        (b"[1, 2]", "config.json must hold an object, got a list of length 2"),
        (b"{}", "model_type must be 'llama', got None"),
    ):
        config.write_bytes(content)
        assert_refused(tmp_path, sentence)


def test_a_folder_of_the_course_is_refused_and_so_is_ours_by_the_course(tmp_path):
    tokenizer = train_words(["the cat sat because it was tired"])
    model = make_model(vocab_size=tokenizer.vocab_size)
    save(model, tokenizer, tmp_path / "own")
    assert_refused(tmp_path / "own", "model_type must be 'llama', got None")
    export_llama(model, tmp_path / "theirs", tokenizer)
    with pytest.raises(ValueError, match=r"'kind'.*import_llama"):
        load(tmp_path / "theirs")


def test_an_export_that_is_refused_writes_nothing(tmp_path):
    """Defect 10: another model left an empty folder, another tokenizer was accepted."""
    tokenizer = train_words(["the cat sat because it was tired"])
    folder = tmp_path / "folder"
    for model, given, error, sentence in (
        (torch.nn.Linear(2, 2), None, TypeError, "model must be a LlamaLM, got Linear"),
        (make_model(), tokenizer, ValueError, "tokenizer .* vocab_size=31, got 11"),
        (
            make_model(),
            "words",
            TypeError,
            "tokenizer must be a Tokenizer, got 'words'",
        ),
    ):
        with pytest.raises(error, match=sentence):
            inspect.unwrap(export_llama)(model, folder, given)
        assert not folder.exists()
    folder.write_text("a file")
    with pytest.raises(ValueError, match="folder must not be a file, got"):
        export_llama(make_model(), folder)


def test_rounded_weights_keep_exact_positions(tmp_path):
    """Defect 6: a folder in bfloat16 was imported with its rotary table rounded."""
    from transformers import AutoModelForCausalLM

    export_llama(make_model(max_length=512).bfloat16(), tmp_path)
    ours = import_llama(tmp_path)
    there = AutoModelForCausalLM.from_pretrained(tmp_path, dtype="auto").eval()
    assert ours.head.weight.dtype == there.lm_head.weight.dtype == torch.bfloat16
    ids = torch.arange(512)[None] % 31
    with torch.no_grad():
        gap = ours.float()(ids) - there.float()(ids).logits
    assert gap.abs().max() < 1e-4


# --- the tokenizer -------------------------------------------------------------------


TEXT = "the cat was tired"
ROLES = {"pad": "<pad>", "bos": "<bos>", "eos": "<eos>", "unk": "<unk>"}


@pytest.fixture(params=[train_words, lambda texts: train_bpe(texts, 270)])
def exported(request, tmp_path):
    """Our tokenizer, and the one that transformers finds in the folder."""
    from transformers import AutoTokenizer

    ours = request.param(["the cat sat because it was tired"])
    model = make_model(vocab_size=ours.vocab_size)
    export_llama(model, tmp_path, ours)
    return ours, AutoTokenizer.from_pretrained(tmp_path)


def test_the_tokenizer_goes_along(exported, tmp_path):
    ours, there = exported
    assert there.encode(TEXT, add_special_tokens=False) == ours.encode(TEXT)
    assert there.encode(TEXT) == ours.encode(TEXT)  # nothing is added
    settings = json.loads((tmp_path / "config.json").read_text())
    kinds = [settings[f"{name}_token_id"] for name in ("pad", "bos", "eos")]
    assert kinds == [0, 1, 2]


def test_bug_b14_the_exported_tokenizer_knows_its_special_tokens(exported):
    """Defect 3: special_tokens_map was empty, so padding raised."""
    ours, there = exported
    for role, token in ROLES.items():
        assert getattr(there, f"{role}_token") == token
        assert getattr(there, f"{role}_token_id") == getattr(ours, f"{role}_id")
    batch = there([TEXT, "the cat"], padding=True)
    long, short = batch["input_ids"]
    assert len(long) == len(short) and short[-1] == ours.pad_id
    assert batch["attention_mask"][1][-1] == 0
    assert there.decode(
        [*ours.encode(TEXT), ours.eos_id], skip_special_tokens=True
    ) == (TEXT)
    assert len(there) == ours.vocab_size  # no token was invented


def test_a_special_token_inside_a_text_stays_ordinary_text(exported):
    ours, there = exported
    text = "the<eos> cat"
    assert there.encode(text) == ours.encode(text)
    assert ours.eos_id not in there.encode(text)


def test_our_tokenizer_comes_back_from_an_export(exported):
    """Defect 4: `from_transformers` did not accept it."""
    ours, there = exported
    back = from_transformers(there)
    assert back.vocab_size == ours.vocab_size
    for text in (TEXT, "the<eos> cat"):
        assert back.encode(text) == ours.encode(text)
    for role in ROLES:
        assert getattr(back, f"{role}_id") == getattr(ours, f"{role}_id")
