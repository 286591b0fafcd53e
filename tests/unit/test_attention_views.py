"""Weights of any model, in every form: real classes of transformers, small, random."""

import numpy as np
import pytest
import torch

from course_utils.recording import record
from course_utils.views import show_attention, show_map
from tests.support.view_data import decoded, payload, stored_outputs

transformers = pytest.importorskip("transformers")

SOURCE, TARGET, HEADS = 7, 5, 4
WORDS = [f"w{place}" for place in range(SOURCE)]
TARGETS = [f"t{place}" for place in range(TARGET)]
IDS = torch.arange(3, 3 + SOURCE)[None]
DECODER = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
}
TRANSLATOR = {
    "vocab_size": 50,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
}
SIZES = {
    "GPT2LMHeadModel": {"vocab_size": 50, "n_embd": 16, "n_layer": 3, "n_head": HEADS},
    "LlamaForCausalLM": DECODER,
    "MistralForCausalLM": {**DECODER, "sliding_window": 3},
    "Qwen2ForCausalLM": {
        **DECODER,
        "use_sliding_window": True,
        "sliding_window": 3,
        "max_window_layers": 1,
    },
    "Qwen3ForCausalLM": {**DECODER, "head_dim": 4},
    "Gemma2ForCausalLM": {**DECODER, "head_dim": 4, "sliding_window": 3},
    "BertModel": {key: DECODER[key] for key in list(DECODER)[:5]},
    "T5ForConditionalGeneration": {
        "vocab_size": 50,
        "d_model": 16,
        "d_kv": 4,
        "d_ff": 24,
        "num_layers": 2,
        "num_decoder_layers": 3,
        "num_heads": HEADS,
        "decoder_start_token_id": 0,
    },
    "BartForConditionalGeneration": TRANSLATOR,
    "MarianMTModel": TRANSLATOR,
}
ALONE = [name for name in SIZES if "T5" not in name and SIZES[name] is not TRANSLATOR]
PAIRED = [name for name in SIZES if name not in ALONE]
FIELDS = {
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}


def model(name, attention="eager"):
    """A random model of this class. No word of it is downloaded."""
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    config = kind.config_class(**SIZES[name])
    return kind._from_config(config, attn_implementation=attention).eval()


def outputs(name, attention="eager", **options):
    """What the model gives for 7 tokens, or for 5 after an encoder read 7."""
    options = {"output_attentions": True, **options}
    if name in PAIRED:
        options["decoder_input_ids"] = IDS[:, :TARGET]
    with torch.no_grad():
        return model(name, attention)(IDS, **options)


@pytest.fixture
def displayed():
    with stored_outputs() as stored:
        yield stored


def held(stored):
    """{part: weights "layer h q k"} of an explorer, with its data."""
    data = payload(stored[0][0]["text/html"])
    return {part["name"]: decoded(part)[1] for part in data["parts"]}, data


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_a_model_that_reads_one_text_is_shown(name, displayed):
    out = outputs(name)
    assert len(out.attentions) == 3, "transformers gives no weights any more"
    show_attention(out, WORDS, title="Random.", layer=2, head=3)
    parts, data = held(displayed)
    true = torch.cat(out.attentions)
    assert list(parts) == ["self"] and data["parts"][0]["layers"] == ["0", "1", "2"]
    assert (parts["self"] - true).abs().max() <= 1 / 479
    assert ((parts["self"] > 0) <= (true > 0)).all()
    assert "layer 2, head 3" in displayed[1][0]["text/plain"]


@pytest.mark.parametrize("name", PAIRED)
def test_a_model_that_reads_two_texts_is_shown(name, displayed):
    out = outputs(name)
    show_attention(out, TARGETS, WORDS, title="Random.")
    parts, data = held(displayed)
    assert list(parts) == list(FIELDS)
    for place, (part, field) in enumerate(FIELDS.items()):
        true = torch.cat(getattr(out, field))
        assert len(true) == (2 if part == "encoder" else 3)
        assert (parts[part] - true).abs().max() <= 1 / 479
        queries, keys = data["parts"][place]["tokens"]
        assert data["tokens"][queries] == (WORDS if part == "encoder" else TARGETS)
        assert data["tokens"][keys] == (TARGETS if part == "decoder" else WORDS)
    with pytest.raises(ValueError, match="source must be the tokens that cross"):
        show_attention(out, TARGETS, title="Random.")


def test_a_window_is_seen_in_the_layers_that_have_one(displayed):
    window = torch.ones(SOURCE, SOURCE).tril().triu(-2).bool()
    causal = torch.ones(SOURCE, SOURCE).tril().bool()
    masks = {
        "MistralForCausalLM": [window] * 3,
        "Qwen2ForCausalLM": [causal, window, window],
        "Gemma2ForCausalLM": [window, causal, window],
    }
    for name, expected in masks.items():
        show_attention(outputs(name), WORDS, title="Random.")
        codes, _ = decoded(payload(displayed[-2][0]["text/html"])["parts"][0])
        for layer, mask in zip(codes, expected, strict=True):
            assert (layer > 0).equal(mask.expand(HEADS, -1, -1)), name


# --- the forms -----------------------------------------------------------------------


def softmaxed(*shape):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).softmax(-1)


THREE = softmaxed(3, 1, 2, TARGET, TARGET)
FORMS = {
    "tuple": tuple(THREE),
    "list": list(THREE),
    "no batch axis": [layer[0] for layer in THREE],
    "NumPy": [layer.numpy() for layer in THREE],
    "NumPy, reversed and read-only": [
        np.broadcast_to(layer.flip(-1).numpy()[..., ::-1], layer.shape)
        for layer in THREE
    ],
    "dict": {f"layer.{place}": layer for place, layer in enumerate(THREE)},
    "gradient": [layer.clone().requires_grad_() for layer in THREE],
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_view(form, displayed):
    show_attention(FORMS["dict"], TARGETS, title="Random.")
    show_attention(FORMS[form], TARGETS, title="Random.")
    show_map(FORMS[form], TARGETS, title="Random.")
    assert displayed[2] == displayed[0] and displayed[4] == displayed[3] == displayed[1]
    assert len(displayed) == 5, "a map alone is one picture"


def test_a_picture_alone_shows_a_model_that_is_too_large_for_a_page(displayed):
    large = [torch.full((32, 64, 64), 1 / 64)] * 32
    tokens = [f"w{place}" for place in range(64)]
    with pytest.raises(ValueError, match="up to 2,400,000 weights, got 4,194,304"):
        show_attention(large, tokens, title="Large.")
    show_map(large, tokens, title="Large.", layer=31, head=31)
    assert [list(data) for data, _ in displayed] == [["image/png", "text/plain"]]
    assert "layer 31, head 31" in displayed[0][0]["text/plain"]


@pytest.mark.parametrize("one", [THREE[0], THREE[0][0], THREE[0, 0].numpy()])
def test_the_weights_of_one_layer_are_enough(one, displayed):
    show_attention(one, TARGETS, title="Random.", head=1)
    parts, _ = held(displayed)
    assert (parts["self"] - THREE[0]).abs().max() <= 1 / 479
    show_attention(softmaxed(2, TARGET, SOURCE), TARGETS, WORDS, title="Random.")
    assert list(held(displayed[2:])[0]) == ["cross"]


def test_a_layer_without_attention_leaves_the_others_their_numbers(displayed):
    hybrid = (None, THREE[0], None, THREE[1])
    show_attention(hybrid, TARGETS, title="Every second layer.", layer=1)
    _, data = held(displayed)
    assert data["parts"][0]["layers"] == ["1", "3"]
    assert "layer 3, head 0" in displayed[0][0]["text/plain"]


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "MarianMTModel"])
def test_the_weights_of_generate_are_refused_with_the_way_out(name):
    options = {"output_attentions": True, "return_dict_in_generate": True}
    out = model(name).generate(IDS, max_new_tokens=3, do_sample=False, **options)
    with pytest.raises(TypeError, match="after `generate`, run the model"):
        show_attention(out, WORDS, WORDS if name in PAIRED else None, title="t")


def test_layers_of_other_sizes_are_refused():
    """Weights behind a cache or a window, of pruned heads, of two kinds of layers."""
    full = softmaxed(1, 2, TARGET, TARGET)
    others = [softmaxed(1, *shape) for shape in ((2, TARGET, 3), (1, TARGET, TARGET))]
    for layers in (*((full, other) for other in others), {"a": full, "b": full}):
        with pytest.raises(
            ValueError, match=r"self attention, .* one shape; show them"
        ):
            show_attention(layers, TARGETS, title="t")
    with pytest.raises(ValueError, match="3 queries and 5 keys, got 5 and 5 tokens"):
        show_attention(softmaxed(1, 2, 3, TARGET), TARGETS, title="t")


MODULES = {
    "BART": (
        "model.encoder.layers.{}.self_attn",
        "model.decoder.layers.{}.self_attn",
        "model.decoder.layers.{}.encoder_attn",
    ),
    "T5": (
        "encoder.block.{}.layer.0.SelfAttention",
        "decoder.block.{}.layer.0.SelfAttention",
        "decoder.block.{}.layer.1.EncDecAttention",
    ),
}


@pytest.mark.parametrize("names", MODULES)
def test_the_names_of_modules_tell_what_a_layer_looks_at(names, displayed):
    weights = {}
    for place, layer in enumerate(THREE):
        for name in MODULES[names]:
            weights[name.format(place)] = layer.roll(MODULES[names].index(name), -1)
    show_attention(weights, TARGETS, WORDS[:TARGET], title="Named.")
    parts, data = held(displayed)
    assert list(parts) == ["encoder", "decoder", "cross"]
    for turns, part in enumerate(parts.values()):
        assert (part - THREE[:, 0].roll(turns, -1)).abs().max() <= 1 / 479
    assert all(part["layers"] == ["0", "1", "2"] for part in data["parts"])


EAGER = 'needs attn_implementation="eager" and output_attentions=True'


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "BertModel", "MarianMTModel"])
def test_a_model_that_kept_no_weights_is_told_how_to(name):
    source = WORDS if name in PAIRED else None
    tokens = TARGETS if name in PAIRED else WORDS
    for out in (outputs(name, "sdpa"), outputs(name, output_attentions=False)):
        with pytest.raises(ValueError, match=EAGER):
            show_attention(out, tokens, source, title="t")


def test_a_recording_of_a_model_of_transformers_is_told_too():
    network = model("LlamaForCausalLM")
    with torch.no_grad(), record(network) as seen:
        network(IDS)
    assert len(seen) > 10
    with pytest.raises(ValueError, match=EAGER):
        show_attention(seen, WORDS, title="t")


def test_a_batch_is_refused_and_its_rows_are_shown(displayed):
    rows = torch.cat([IDS, IDS.flip(1)])
    with torch.no_grad():
        attentions = model("BertModel")(rows, output_attentions=True).attentions
    with pytest.raises(ValueError, match=r"one text.* got \(2, 4, 7, 7\)"):
        show_attention(attentions, WORDS, title="t")
    show_attention([layer[1] for layer in attentions], WORDS, title="t")
    parts, _ = held(displayed)
    true = torch.stack([layer[1] for layer in attentions])
    assert (parts["self"] - true).abs().max() <= 1 / 479
