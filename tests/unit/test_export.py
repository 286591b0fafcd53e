"""What is exported opens in transformers, and comes back; the rest is refused."""

import json
import os
import subprocess
import sys
import sysconfig
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from course_utils import export, llama_folder
from course_utils.config import LlamaConfig
from course_utils.decoding import CachedStep, greedy
from course_utils.export import export_llama, import_llama
from course_utils.models import LlamaLM
from course_utils.pretrained import load, save
from course_utils.tokenizer import (
    Tokenizer,
    from_transformers,
    train_bpe,
    train_words,
)
from course_utils.tokenizer_folder import read_tokenizer

ROOT = Path(__file__).parents[2]
STORIES_260K = ROOT.parent / "shared/data/stories260K"

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


def imported(folder):
    return import_llama(folder)[0]


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
    back = imported(tmp_path / "ours")
    assert difference(model, back) == 0 and back.config == model.config
    there.save_pretrained(tmp_path / "theirs")
    settings = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert settings["rope_parameters"]["rope_theta"] == 500.0
    again = imported(tmp_path / "theirs")
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
    "no length": {"max_position_embeddings": ...},
    "LLaMA 1": {
        "max_position_embeddings": ...,
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
    assert difference(imported(tmp_path), theirs(tmp_path)) < 1e-5


LLAMA_3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
YARN = {"rope_type": "yarn", "factor": 4.0}
REFUSED = [  # what our model cannot compute, and weights that do not fit
    ({"rope_scaling": LLAMA_3}, "rope_scaling: rope_type .*'default', got 'llama3'"),
    ({"rope_scaling": {"type": "linear", "factor": 4.0}}, "rope_scaling: .* 'linear'"),
    ({"rope_parameters": YARN}, "rope_parameters: rope_type .* 'yarn'"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor must be 1.0, got 0.5"),
    ({"hidden_act": "gelu"}, "hidden_act must be \"silu\", got 'gelu'"),
    ({"head_dim": 8}, "head_dim must be 4, got 8"),
    ({"attention_bias": True}, "attention_bias must be false, got True"),
    ({"mlp_bias": True}, "mlp_bias must be false, got True"),
    ({"quantization_config": {"bits": 4}}, "quantization_config must be null"),
    ({"model_type": "mistral"}, "model_type must be 'llama', got 'mistral'"),
    ({"hidden_size": ...}, "hidden_size is missing"),
    ({"num_hidden_layers": 4}, "'model.layers.3.input_layernorm.weight' is missing"),
    ({"num_hidden_layers": 2}, "'model.layers.2.input_layernorm.weight' and 8 more"),
    ({"tie_word_embeddings": False}, "'lm_head.weight' is missing"),
    ({"vocab_size": 32}, "'model.embed_tokens.weight' .* got \\(31, 24\\)"),
    ({"num_key_value_heads": 3}, "self_attn.k_proj.weight' .* \\(12, 24\\), got"),
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


# --- import: the files of the weights ------------------------------------------------


HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"
NORM = "model.norm.weight"
ANGLES = "model.layers.0.self_attn.rotary_emb.inv_freq"


def test_other_weights_are_refused(tmp_path):
    export_llama(make_model(), tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    save_file(tensors | {"model.layers.0.mlp.up_proj.bias": torch.ones(40)}, path)
    assert_refused(tmp_path, "unexpected tensor 'model.layers.0.mlp.up_proj.bias'$")
    for kind in (torch.int8, torch.float8_e4m3fn):
        save_file(tensors | {NORM: torch.ones(24).to(kind)}, path)
        assert_refused(tmp_path, f"'{NORM}' .* floating-point .* got {kind}")
    path.write_bytes(path.read_bytes()[:100])
    assert_refused(tmp_path, "model.safetensors is not a valid safetensors file")


def test_angles_that_early_folders_store_are_not_read(tmp_path):
    model = make_model()
    export_llama(model, tmp_path)
    path = tmp_path / "model.safetensors"
    save_file(load_file(path) | {ANGLES: torch.ones(2)}, path)
    assert difference(model, imported(tmp_path)) == 0
    assert difference(model, theirs(tmp_path)) < 1e-5


@pytest.mark.parametrize("stored", [{EMBEDDING, HEAD}, {HEAD}], ids=["both", "head"])
def test_a_tied_matrix_is_found_where_it_is_stored(tmp_path, stored):
    """`safetensors.torch.save_model` keeps the head, torch.save keeps both."""
    model = make_model(tied=True)
    export_llama(model, tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    matrix = tensors.pop(EMBEDDING)
    save_file(tensors | {name: matrix.clone() for name in stored}, path)
    back = imported(tmp_path)
    assert difference(model, back) == 0
    assert back.head.weight is back.tokens.weight


def test_a_tied_matrix_that_is_two_is_refused(tmp_path):
    """Versions 4 and 5 of transformers differ in which of the two they take."""
    export_llama(make_model(tied=True), tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    for other in (tensors[EMBEDDING] + 1, torch.ones(3), tensors[NORM]):
        save_file(tensors | {HEAD: other.clone()}, path)
        assert_refused(tmp_path, f"'{HEAD}' must equal '{EMBEDDING}'")


def test_of_mixed_types_the_widest_is_kept(tmp_path):
    export_llama(make_model().bfloat16(), tmp_path / "one")
    path = tmp_path / "one" / "model.safetensors"
    norm = torch.rand(24)
    save_file(load_file(path) | {NORM: norm}, path)
    back = imported(tmp_path / "one")
    assert {weight.dtype for weight in back.parameters()} == {torch.float32}
    assert torch.equal(back.norm.weight, norm)
    mixed = make_model().bfloat16()
    mixed.norm.float().weight.data.copy_(norm)
    export_llama(mixed, tmp_path / "two")
    assert torch.equal(imported(tmp_path / "two").norm.weight, norm)


def cut(folder, tensors, name="model.safetensors", write=save_file):
    """Store the tensors in two files and an index, as transformers does."""
    stem, _, kind = name.partition(".")
    halves = list(tensors)[::2], list(tensors)[1::2]
    places = {}
    for number, half in enumerate(halves, 1):
        file = f"{stem}-0000{number}-of-00002.{kind}"
        write({key: tensors[key] for key in half}, folder / file)
        places |= dict.fromkeys(half, file)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / f"{name}.index.json").write_text(json.dumps(index))
    return places


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_weights_in_several_files_that_transformers_wrote(tmp_path, tied):
    model = make_model(tied=tied)
    export_llama(model, tmp_path / "ours")
    there = theirs(tmp_path / "ours")
    there.save_pretrained(tmp_path / "theirs", max_shard_size="30KB")
    assert len(list((tmp_path / "theirs").glob("model-*.safetensors"))) > 1
    assert difference(model, imported(tmp_path / "theirs")) == 0


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in two"])
@pytest.mark.parametrize("kind", ["model.safetensors", "pytorch_model.bin"])
def test_weights_as_each_version_of_transformers_writes_them(tmp_path, kind, whole):
    """The files that torch wrote hold a tied head, and early ones the angles."""
    model = make_model(tied=True)
    export_llama(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    write = save_file
    if kind == "pytorch_model.bin":
        write = torch.save
        tensors |= {HEAD: tensors[EMBEDDING], ANGLES: torch.ones(2)}
    if whole:
        write(tensors, tmp_path / kind)
    else:
        cut(tmp_path, tensors, kind, write)
    back = imported(tmp_path)
    assert difference(model, back) == 0
    assert back.head.weight is back.tokens.weight
    assert difference(model, theirs(tmp_path)) < 1e-5


def test_damaged_files_of_torch_are_refused(tmp_path):
    export_llama(make_model(), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    path = tmp_path / "pytorch_model.bin"
    unreadable = "pytorch_model.bin is not a file that torch.load reads"
    torch.save(tensors, path)
    path.write_bytes(path.read_bytes()[:-50])
    assert_refused(tmp_path, unreadable)
    for content in (b"", b"no weights"):
        path.write_bytes(content)
        assert_refused(tmp_path, unreadable)
    torch.save({"call": os.system}, path)  # a program is not run
    assert_refused(tmp_path, unreadable)
    torch.save([1, 2], path)
    assert_refused(tmp_path, "pytorch_model.bin must hold a dict, got a list of len")
    torch.save(tensors | {NORM: [1.0, 2.0]}, path)
    assert_refused(tmp_path, f"'{NORM}' must be a tensor, got a list of length 2")


def test_an_index_that_does_not_fit_is_refused(tmp_path):
    export_llama(make_model(), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    places = cut(tmp_path, tensors)
    index = tmp_path / "model.safetensors.index.json"
    imported(tmp_path)
    other = min({*places.values()} - {places[NORM]})
    outside = tmp_path.parent / "outside.safetensors"
    save_file(tensors, outside)
    for content, sentence in (
        ("no", "model.safetensors.index.json is not valid JSON"),
        ("[]", "index.json must hold an object, got a list"),
        ("{}", "weight_map must be an object, got None"),
        (places | {NORM: f"../{outside.name}"}, "must name files of the folder, got"),
        (places | {NORM: 5}, "must name files of the folder, got 5"),
        (places | {NORM: "more.safetensors"}, "'more.safetensors' is missing"),
        (places | {"more": places[NORM]}, "the tensor 'more' is missing"),
        (places | {NORM: other}, f"'{NORM}' is (missing|not in model)"),
    ):
        written = content
        if isinstance(content, dict):
            written = json.dumps({"weight_map": content})
        index.write_text(written)
        assert_refused(tmp_path, sentence)


def test_a_folder_without_the_files_is_refused(tmp_path):
    assert_refused(tmp_path / "none", "folder must contain config.json, got ")
    export_llama(make_model(), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert_refused(tmp_path, "folder must contain model.safetensors or pytorch_model")
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


# --- export: the folder --------------------------------------------------------------


def test_an_export_that_is_refused_writes_nothing(tmp_path):
    """Defect 10: another model left an empty folder, another tokenizer was accepted."""
    tokenizer = train_words(["the cat sat because it was tired"])
    fitting = make_model(vocab_size=tokenizer.vocab_size)
    broken = make_model()
    broken.norm.weight.data[3] = float("nan")
    above = tmp_path / "above"
    for call, sentence in (
        (lambda f: export_llama(make_model(), f, tokenizer), "vocab_size=31, got 11"),
        (lambda f: export_llama(broken, f), "finite weights, 'norm.weight' has"),
        (
            lambda f: export_llama(fitting, f, tokenizer, begin_id=11),
            "begin_id must be",
        ),
        (lambda f: export_llama(fitting, f, begin_id=1), "needs a tokenizer"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call(above / "folder")
        assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("a file")
    with pytest.raises(ValueError, match="folder must not be a file, got"):
        export_llama(make_model(), tmp_path / "file")


def test_an_earlier_export_is_replaced_and_nothing_else(tmp_path):
    folder = tmp_path / "above" / "folder"
    export_llama(make_model(), folder)
    export_llama(make_model(num_layers=1), folder)
    assert imported(folder).config.num_layers == 1
    assert [path.name for path in folder.parent.iterdir()] == ["folder"]
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"an earlier export, .* holds 'notes.txt'"):
        export_llama(make_model(), folder)
    assert (folder / "notes.txt").read_text() == "mine"
    (folder / "notes.txt").unlink()
    (folder / "README.md").write_text("The model of somebody else.")
    with pytest.raises(ValueError, match=r"an earlier export, .* holds 'README.md'"):
        export_llama(make_model(), folder)
    assert imported(folder).config.num_layers == 1


def other_settings(monkeypatch):
    def settings_of(config):
        return llama_folder.settings_of(config) | {"rms_norm_eps": 0.3}

    monkeypatch.setattr(export, "settings_of", settings_of)


def other_tensors(monkeypatch):
    def tensors_of(model):
        tensors = llama_folder.tensors_of(model)
        return tensors | {NORM: tensors[NORM] + 1}

    monkeypatch.setattr(export, "tensors_of", tensors_of)


def other_logits(monkeypatch):
    from transformers import LlamaForCausalLM

    forward = LlamaForCausalLM.forward

    def changed(self, *given, **named):
        found = forward(self, *given, **named)
        found.logits = found.logits * 1.01
        return found

    monkeypatch.setattr(LlamaForCausalLM, "forward", changed)


def other_text(monkeypatch):
    from transformers import LlamaForCausalLM

    generate = LlamaForCausalLM.generate

    def changed(self, **named):
        ids = generate(self, **named)
        ids[0, 1] = (ids[0, 1] + 1) % 11
        return ids

    monkeypatch.setattr(LlamaForCausalLM, "generate", changed)


def other_tokens(monkeypatch):
    from transformers import PreTrainedTokenizerFast

    encode = PreTrainedTokenizerFast.encode

    def changed(self, text, **named):
        return [*encode(self, text, **named), 1]

    monkeypatch.setattr(PreTrainedTokenizerFast, "encode", changed)


def other_roles(monkeypatch):
    def write(settings, path):
        if "bos_token" in settings:
            settings = settings | {"bos_token": "<unk>"}
        path.write_text(json.dumps(settings))

    monkeypatch.setattr("course_utils.tokenizer_folder.write_settings", write)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (other_settings, "import_llama reads other settings"),
        (other_tensors, "import_llama reads other numbers in 'norm.weight'"),
        (other_roles, "import_llama reads another bos token"),
        (other_logits, r"transformers 5\S+ computes other logits .* differ by"),
        (other_tokens, "transformers encodes .* in another way"),
        (other_text, "transformers writes another greedy text"),
    ],
)
def test_an_export_that_opens_as_something_else_leaves_nothing(
    tmp_path, monkeypatch, change, sentence
):
    tokenizer = train_words(["the cat sat because it was tired"])
    model = make_model(vocab_size=tokenizer.vocab_size)
    export_llama(model, tmp_path / "earlier", tokenizer)
    earlier = {path: path.read_bytes() for path in (tmp_path / "earlier").iterdir()}
    with monkeypatch.context() as patch:
        change(patch)
        for name in ("new", "earlier"):
            with pytest.raises(RuntimeError, match=sentence) as caught:
                export_llama(model, tmp_path / name, tokenizer)
            text = str(caught.value)
            assert len(text) < 240 and "\n" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["earlier"]
    left = {path: path.read_bytes() for path in (tmp_path / "earlier").iterdir()}
    assert left == earlier
    export_llama(model, tmp_path / "new", tokenizer)


def test_without_transformers_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match="opens the folder with transformers, which"):
        export_llama(make_model(), tmp_path / "folder")
    assert not list(tmp_path.iterdir())


def test_export_and_import_are_quiet_and_draw_no_random_numbers(tmp_path, capfd):
    """A cell that exports must not change what the cells after it compute."""
    tokenizer = train_words(["the cat sat because it was tired"])
    model = make_model(vocab_size=tokenizer.vocab_size, dropout=0.1).train()
    before = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        export_llama(model, tmp_path / "folder", tokenizer)
        import_llama(tmp_path / "folder")
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training
    assert capfd.readouterr() == ("", "")


def test_rounded_weights_keep_exact_positions(tmp_path):
    """Defect 6: a folder in bfloat16 was imported with its rotary table rounded."""
    from transformers import AutoModelForCausalLM

    export_llama(make_model(max_length=512).bfloat16(), tmp_path)
    ours = imported(tmp_path)
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
    assert len(long) == len(short) and short[0] == ours.pad_id
    assert batch["attention_mask"][1][0] == 0
    ids = [*ours.encode(TEXT), ours.eos_id]
    assert there.decode(ids, skip_special_tokens=True) == TEXT
    assert len(there) == ours.vocab_size  # no token was invented


def test_a_special_token_inside_a_text_stays_ordinary_text(exported):
    ours, there = exported
    text = "the<eos> cat"
    assert there.encode(text) == ours.encode(text)
    assert ours.eos_id not in there.encode(text)


def same_tokenizer(one, other):
    ids = [[getattr(t, f"{role}_id") for role in ROLES] for t in (one, other)]
    sizes = [one.vocab_size, other.vocab_size]
    texts = [[t.encode(text) for text in (TEXT, "the<eos> cat")] for t in (one, other)]
    return all(first == second for first, second in (ids, sizes, texts))


def test_the_pair_comes_back_from_an_export(exported, tmp_path):
    """Defect 4: the package could not read the tokenizer of its own export."""
    ours, there = exported
    model, back = import_llama(tmp_path)
    assert isinstance(back, Tokenizer) and same_tokenizer(ours, back)
    export_llama(model, tmp_path / "again", back)
    there.save_pretrained(tmp_path / "theirs")
    assert same_tokenizer(ours, read_tokenizer(tmp_path / "theirs"))
    assert same_tokenizer(ours, from_transformers(there))


def test_a_folder_without_tokenizer_has_none(tmp_path):
    export_llama(make_model(), tmp_path)
    assert import_llama(tmp_path)[1] is None


def rewrite(folder, name, **content):
    (folder / name).write_text(json.dumps(content))


def test_special_tokens_are_found_wherever_a_folder_names_them(exported, tmp_path):
    ours, _ = exported
    names = {f"{role}_token": token for role, token in ROLES.items()}
    objects = {name: {"content": token} for name, token in names.items()}
    ids = {f"{role}_token_id": getattr(ours, f"{role}_id") for role in ROLES}
    nothing = {name: "" for name in names}  # as the first LLaMA folders have it
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    change_settings(tmp_path, **dict.fromkeys(ids, ...))
    for file, content in (
        ("tokenizer_config.json", objects),
        ("special_tokens_map.json", names),
        ("special_tokens_map.json", objects),
        ("generation_config.json", ids),
        ("generation_config.json", ids | {"eos_token_id": [ours.eos_id, 7]}),
    ):
        rewrite(tmp_path, "tokenizer_config.json", **nothing)
        with pytest.raises(ValueError, match="must name the eos_token, and no other"):
            read_tokenizer(tmp_path)
        rewrite(tmp_path, file, **content)
        assert same_tokenizer(ours, import_llama(tmp_path)[1])
        (tmp_path / file).unlink()
    rewrite(tmp_path, "tokenizer_config.json", **nothing)
    change_settings(tmp_path, **ids)
    assert same_tokenizer(ours, import_llama(tmp_path)[1])


def test_roles_that_a_folder_leaves_open(exported, tmp_path):
    ours, _ = exported
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    named = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}
    settings = dict.fromkeys([f"{role}_token_id" for role in ROLES], ...)
    change_settings(tmp_path, **settings)
    for changes, roles in (
        ({}, "unk bos eos unk"),
        ({"pad_token": "<eos>"}, "unk bos eos unk"),
        ({"bos_token": None}, "unk eos eos unk"),
        ({"unk_token": None}, "eos bos eos eos"),
        ({"pad_token": "<pad>", "unk_token": None}, "pad bos eos eos"),
    ):
        rewrite(tmp_path, "tokenizer_config.json", **(named | changes))
        found = read_tokenizer(tmp_path)
        wanted = [getattr(ours, f"{role}_id") for role in roles.split()]
        assert [getattr(found, f"{role}_id") for role in ROLES] == wanted


def test_a_tokenizer_that_does_not_fit_is_refused(exported, tmp_path):
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    for changes, sentence in (
        ({"pad_token": "[PAD]"}, r"'\[PAD\]' is not in the vocabulary"),
        ({"eos_token": "</s>"}, "'</s>' is not in the vocabulary"),
    ):
        rewrite(tmp_path, "tokenizer_config.json", **(settings | changes))
        assert_refused(tmp_path, sentence)
    (tmp_path / "tokenizer_config.json").write_text("{")
    assert_refused(tmp_path, "tokenizer_config.json is not valid JSON")
    rewrite(tmp_path, "tokenizer_config.json", **settings)
    vocab_size = import_llama(tmp_path)[0].config.vocab_size
    change_settings(tmp_path, vocab_size=vocab_size - 1)
    assert_refused(tmp_path, f"has ids up to {vocab_size - 1}, but config.json says")
    change_settings(tmp_path, vocab_size=vocab_size)
    path = tmp_path / "tokenizer.json"
    for content in ("", "{}", "no", json.dumps({"model": {"type": "Other"}})):
        path.write_text(content)
        assert_refused(tmp_path, "tokenizer.json is not a file of the tokenizers libr")
    path.unlink()
    (tmp_path / "tokenizer.model").write_bytes(b"sentencepiece")
    assert_refused(tmp_path, "must contain tokenizer.json, got only tokenizer.model; ")


# --- in the hands of others ----------------------------------------------------------


@pytest.mark.parametrize("name", ["tinystories", "stories"])
def test_without_a_prompt_it_begins_a_story(name, tmp_path):
    """Defect 11: the storyteller never saw bos in training, and began in the middle of
    a sentence; the model of the story world never saw eos."""
    model, tokenizer = load(name)
    export_llama(model, tmp_path / "folder", tokenizer)
    settings = json.loads((tmp_path / "folder/generation_config.json").read_text())
    begins = {"tinystories": tokenizer.eos_id, "stories": tokenizer.bos_id}
    assert settings["bos_token_id"] == begins[name]
    assert settings["max_new_tokens"] < model.config.max_length
    other = tokenizer.bos_id + tokenizer.eos_id - begins[name]
    export_llama(model, tmp_path / "folder", tokenizer, begin_id=other)
    settings = json.loads((tmp_path / "folder/generation_config.json").read_text())
    assert settings["bos_token_id"] == other


PROMPTS = ["Once upon a time there", "One day Tom<eos> went", "Lily"]
NEW = 12
SAID_BY_VERSION_4 = ("Device set to use", "The following generation flags are not")


def used(python, folder, ids):
    """What tests/support/opened_folder.py finds in a folder."""
    script = ROOT / "tests/support/opened_folder.py"
    given = [str(folder), json.dumps(PROMPTS), json.dumps(ids)]
    done = subprocess.run(
        [python, "-W", "error::UserWarning", script, *given],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stderr.splitlines()
    return json.loads(done.stdout), [
        line for line in said if not line.startswith(SAID_BY_VERSION_4)
    ]


def assert_used_as_ours(python, folder):
    """The shipped storyteller, opened by people who know nothing of it."""
    model, tokenizer = load("tinystories")
    export_llama(model, folder, tokenizer)
    ids = torch.randint(2048, (2, 320), generator=torch.Generator().manual_seed(1))
    found, said = used(python, folder, ids.tolist())
    assert not said
    assert found["special"] == ROLES
    assert found["special ids"] == {r: getattr(tokenizer, f"{r}_id") for r in ROLES}
    assert found["size"] == tokenizer.vocab_size
    assert found["dtype"] == "torch.float32"
    rows = [tokenizer.encode(text) for text in PROMPTS]
    assert found["ids"] == rows and found["back"] == PROMPTS
    length = max(map(len, rows))
    padding = [length - len(row) for row in rows]
    pads = zip(padding, rows, strict=True)
    assert found["padded"] == [[tokenizer.pad_id] * n + row for n, row in pads]
    assert [row.count(0) for row in found["attention mask"]] == padding
    with torch.no_grad():
        gap = torch.tensor(found["last logits"]) - model(ids)[:, -1]
    assert gap.abs().max() < 1e-4
    stop = tokenizer.eos_id
    texts = [
        tokenizer.decode(
            greedy(CachedStep(model), torch.tensor([row]), NEW, stop_id=stop)[0]
        )
        for row in rows
    ]
    assert found["alone"] == found["together"] == found["pipeline"] == texts
    story = greedy(CachedStep(model), torch.tensor([[stop]]), 256, stop_id=stop)[0]
    assert found["promptless"] == story.tolist()
    assert found["empty prompt"] == tokenizer.decode(story)
    assert found["empty prompt"].startswith("Once upon a time")
    return found["version"]


@pytest.mark.slow
def test_people_use_the_folder_as_it_is(tmp_path):
    version = assert_used_as_ours(sys.executable, tmp_path / "folder")
    assert version.startswith("5.")


@pytest.mark.long
def test_people_use_the_folder_with_version_4_of_transformers(tmp_path):
    """In an environment of its own, which then borrows torch from this one."""
    own = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", own], check=True)
    python = own / "bin" / "python"
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", "transformers==4.57.1"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        pytest.skip(f"transformers 4.57.1 could not be installed: {last}")
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    place = subprocess.check_output([python, "-c", asked], text=True)
    borrowed = Path(place.strip()) / "borrowed.pth"  # searched after its own packages
    borrowed.write_text(sysconfig.get_path("purelib") + "\n")
    version = assert_used_as_ours(python, tmp_path / "folder")
    assert version == "4.57.1"


needs_260k = pytest.mark.skipif(
    not STORIES_260K.is_dir(), reason="needs the model stories260K"
)


@needs_260k
def test_a_published_model_writes_its_published_text():
    """llama2.c publishes what stories260K writes at temperature 0."""
    model, tokenizer = import_llama(STORIES_260K)
    assert model.config.num_kv_heads < model.config.num_heads
    assert tokenizer.vocab_size == model.config.vocab_size == 512
    begin = torch.tensor([[tokenizer.bos_id]])
    ids = greedy(CachedStep(model), begin, 255, stop_id=tokenizer.bos_id)
    assert tokenizer.decode(ids[0]) == (STORIES_260K / "greedy.txt").read_text()


@needs_260k
def test_a_published_model_goes_out_again(tmp_path):
    from transformers import AutoTokenizer

    model, tokenizer = import_llama(STORIES_260K)
    export_llama(model, tmp_path / "folder", tokenizer)
    settings = json.loads((tmp_path / "folder/generation_config.json").read_text())
    assert settings["bos_token_id"] == tokenizer.bos_id
    back, words = import_llama(tmp_path / "folder")
    assert back.config == model.config
    there = AutoTokenizer.from_pretrained(STORIES_260K)
    for text in ("Once upon a time, bàn 🙂", "</s> is no end<s>", ""):
        ids = words.encode(text)
        assert ids == tokenizer.encode(text) and words.decode(ids) == text
        if "<" not in text:
            assert ids == there.encode(text, add_special_tokens=False)
