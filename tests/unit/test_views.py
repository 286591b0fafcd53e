"""Views: what they say is what was computed, and a token is never markup."""

import json
import re
import sys

import pytest
import torch
from bertviz import head_view, model_view

from attention_views import page
from course_utils.attention import MultiHeadAttention
from course_utils.config import (
    ClassifierConfig,
    DecoderConfig,
    EncoderDecoderConfig,
    LlamaConfig,
    StackConfig,
)
from course_utils.models import Classifier, DecoderLM, EncoderDecoder, LlamaLM
from course_utils.recording import record
from course_utils.recurrent import RecurrentSeq2Seq
from course_utils.views import display as displaying
from course_utils.views import (
    show_attention,
    show_bertviz,
    show_query,
    show_rotation,
    show_sampling,
)
from tests.support.hostile import HOSTILE
from tests.support.plain_python import answers_of
from tests.support.view_data import decoded, payload, stored_outputs

HEADS, LAYERS, SOURCE, TARGET = 2, 3, 7, 5
SIZES = {"d_model": 8, "num_heads": HEADS, "num_layers": LAYERS, "d_ff": 16}
SMALL = StackConfig(**SIZES, max_length=12)


@pytest.fixture
def displayed():
    with stored_outputs() as outputs:
        yield outputs


def words(count, letter="w"):
    return [f"{letter}{i}" for i in range(count)]


def translator():
    torch.manual_seed(0)
    config = EncoderDecoderConfig(
        source_vocab_size=11, target_vocab_size=13, encoder=SMALL, decoder=SMALL
    )
    source = torch.randint(4, 11, (1, SOURCE))
    source[0, -2:] = 0
    target = torch.randint(4, 13, (1, TARGET))
    return EncoderDecoder(config).double().eval(), (source, target)


def decoder():
    torch.manual_seed(0)
    stack = StackConfig(**SIZES, max_length=12, positions="learned")
    model = DecoderLM(DecoderConfig(vocab_size=11, stack=stack))
    return model.double().eval(), (torch.randint(4, 11, (1, TARGET)),)


def llama():
    torch.manual_seed(0)
    model = LlamaLM(LlamaConfig(vocab_size=11, **SIZES, num_kv_heads=1))
    return model.double().eval(), (torch.randint(4, 11, (1, TARGET)),)


def assert_is_true(part, seen, model, stem):
    """A part of a view is what was recorded, and that made the layers' outputs."""
    codes, weights = decoded(part)
    assert part["layers"] == ["0", "1", "2"]
    for layer in range(LAYERS):
        name = stem.format(layer)
        true = seen.weights()[name][0]
        assert (weights[layer] - true).abs().max() <= 1 / 479
        assert ((codes[layer] == 0) == (true == 0)).all()
        seeing = (true > 0).any(-1).double()
        assert (true.sum(-1) - seeing).abs().max() < 1e-12
        attention = model.get_submodule(name)
        kv_heads = getattr(attention, "num_kv_heads", HEADS)
        values = seen[f"{name}.to_values"][0].unflatten(-1, (kv_heads, -1))
        values = values.transpose(0, 1).repeat_interleave(HEADS // kv_heads, 0)
        context = (true @ values).transpose(0, 1).flatten(1)
        torch.testing.assert_close(attention.to_output(context), seen[name][0])
    return codes


@pytest.mark.parametrize("make", [translator, decoder, llama])
def test_maps_are_those_of_the_forward_pass(make, displayed):
    model, ids = make()
    with torch.no_grad(), record(model) as seen:
        model(*ids)
    crossed = len(ids) > 1
    source = words(SOURCE, "s") if crossed else None
    show_attention(seen, words(TARGET), source, title="A finding.")
    data = payload(displayed[0][0]["text/html"])
    names = ["encoder", "decoder", "cross"] if crossed else ["self"]
    assert [part["name"] for part in data["parts"]] == names
    stems = {
        "encoder": "encoder.blocks.{}.attention",
        "cross": "blocks.{}.cross_attention",
    }
    for part in data["parts"]:
        stem = stems.get(part["name"], "blocks.{}.attention")
        codes = assert_is_true(part, seen, model, stem)
        if part["name"] != "cross":
            future = torch.ones(codes.shape[-2:]).triu(1).bool()
            assert part["name"] == "encoder" or (codes[..., future] == 0).all()
        if part["name"] in ("encoder", "cross"):
            assert (codes[..., -2:] == 0).all() and (codes[..., :-2] > 0).any()
        queries, keys = (data["tokens"][side] for side in part["tokens"])
        assert queries == (source if part["name"] == "encoder" else words(TARGET))
        alone = part["name"] in ("decoder", "self")
        assert keys == (words(TARGET) if alone else source)


def classifier():
    model = Classifier(ClassifierConfig(vocab_size=11, num_classes=3, stack=SMALL))
    return model.double().eval(), (torch.tensor([[4, 5, 6, 7, 0]]),)


# Who may look at whom: all, two texts packed into one row, a window of three.
WHOLE = torch.ones(TARGET, TARGET).bool()
PACKED = torch.block_diag(torch.ones(2, 2), torch.ones(3, 3)).bool().tril()
WINDOW = WHOLE.tril() & ~WHOLE.tril(-3)


@pytest.mark.slow
@pytest.mark.parametrize("mask", [WHOLE, PACKED, WINDOW])
@pytest.mark.parametrize("make", [classifier, decoder, llama])
def test_maps_are_true_under_any_mask(make, mask, displayed):
    model, (ids,) = make()
    causal = {} if make is classifier else {"causal": False}
    with torch.no_grad(), record(model) as seen:
        model(ids, mask=mask, **causal)
    show_attention(seen, words(TARGET), title="A finding.")
    (part,) = payload(displayed[0][0]["text/html"])["parts"]
    assert part["name"] == ("encoder" if make is classifier else "self")
    stem = f"{'encoder.' * (make is classifier)}blocks.{{}}.attention"
    codes = assert_is_true(part, seen, model, stem)
    hidden = ~mask | (ids == 0)
    assert ((codes == 0) == hidden).all()


@pytest.mark.parametrize("score", ["dot", "general", "additive"])
def test_maps_of_a_recurrent_translator_are_true(score, displayed):
    torch.manual_seed(0)
    model = RecurrentSeq2Seq(11, 13, d_model=8, score=score).double().eval()
    source = torch.randint(4, 11, (1, SOURCE))
    target = torch.randint(4, 13, (1, TARGET))
    source[0, -2:] = 0
    with torch.no_grad(), record(model) as seen:
        model(source, target)
    show_attention(seen, words(TARGET), words(SOURCE, "s"), title="A finding.")
    data = payload(displayed[0][0]["text/html"])
    (part,) = data["parts"]
    assert part["name"] == "cross" and part["tokens"] == [0, 1]
    assert data["tokens"] == [words(TARGET), words(SOURCE, "s")]
    codes, weights = decoded(part)
    true = seen.weights()["attention"][0]
    assert (weights[0] - true).abs().max() <= 1 / 479
    assert (codes[..., -2:] == 0).all() and (codes[..., :-2] > 0).all()
    assert (true.sum(-1) - 1).abs().max() < 1e-12
    context = true[0] @ model.encode(source)[0]
    torch.testing.assert_close(context, seen["attention.attend"][0])


def test_every_view_leaves_a_picture_and_a_sentence(displayed):
    weights = {"": torch.tensor([[[[1.0, 0.0], [0.2, 0.8]]]])}
    show_attention(weights, ["it", " sat"], title="It looks back.")
    (view, _), (picture, about) = displayed
    sentence = (
        "It looks back. The strongest link goes from “sat” to “sat”, weight 0.80 "
        "(self attention, layer 0, head 0)."  # "it" has no choice: it sees itself alone
    )
    assert view["text/plain"].startswith(sentence) and "trust" in view["text/plain"]
    assert f"<p>{view['text/plain']}</p>" in view["text/html"]
    assert picture["image/png"][:4] == b"\x89PNG"
    assert about["image/png"]["alt"] == picture["text/plain"] == sentence


def test_the_strongest_link_is_named_even_where_no_row_can_choose(displayed):
    show_attention({"": torch.eye(2)[None, None]}, ["a", "b"], title="Alone.")
    assert "from “a” to “a”, weight 1.00" in displayed[0][0]["text/plain"]


def test_the_same_data_give_the_same_page(displayed):
    torch.manual_seed(0)
    weights = {"": torch.randn(1, HEADS, TARGET, TARGET).softmax(-1)}
    for title in ("One.", "One.", "Two."):
        show_attention(weights, words(TARGET), title=title)
    first, second, third = (data["text/html"] for data, _ in displayed[::2])
    assert first == second != third
    written = first + page.page_script()
    assert "http" not in written.replace("http://www.w3.org/2000/svg", "")


def scripts(displayed, monkeypatch, *runs):
    """How often the script stands in the views of each run: (message, cell, views)."""
    counts = []
    for message, cell, count in runs:
        monkeypatch.setattr(displaying, "running_cell", lambda run=(message, cell): run)
        displayed.clear()
        for _ in range(count):
            show_query({"a": (1, 0)}, title="t")
        htmls = [data["text/html"] for data, _ in displayed[::2]]
        counts.append([html.count(page.page_script()) for html in htmls])
    return counts


def test_the_script_comes_once_and_again_with_a_cell_that_is_run_again(
    displayed, monkeypatch
):
    monkeypatch.setattr(displaying, "_shown", {})
    runs = ("1", "a", 2), ("2", "b", 1), ("3", "c", 1), ("4", "b", 2), ("5", "b", 1)
    counts = scripts(displayed, monkeypatch, *runs)
    assert counts == [[1, 0], [0], [0], [1, 0], [1]]
    assert scripts(displayed, monkeypatch, ("", "", 2)) == [[1, 1]], "no kernel"
    monkeypatch.setitem(sys.modules, "google.colab", sys)
    assert scripts(displayed, monkeypatch, ("6", "d", 2)) == [[1, 1]]


def test_a_change_of_the_script_changes_no_view(displayed, monkeypatch):
    for source in (page.lines_of, lambda name: f"/* newer */{name}"):
        monkeypatch.setattr(page, "lines_of", source)
        page.page_script.cache_clear()
        monkeypatch.setattr(displaying, "_shown", {})
        show_query({"a": (1, 0)}, title="t")
    page.page_script.cache_clear()
    first, second = (data["text/html"] for data, _ in displayed[::2])
    assert first != second and page.inflated(first) == page.inflated(second)
    assert payload(page.inflated(first))["title"] == "t"


def test_rounding_does_not_turn_on_a_last_bit():
    weights_tried = [1 / n for n in range(1, 161)] + [n / 480 for n in range(480)]
    weights_tried = torch.tensor(weights_tried, dtype=torch.float64)
    codes = page.weight_codes(weights_tried)
    for off in (1 - 1e-9, 1 + 1e-9):
        assert (page.weight_codes(weights_tried * off) == codes).all()
    assert page.weight_codes(torch.tensor([0.0, 1e-30, 0.5, 1.0])).tolist() == [
        0,
        1,
        121,
        241,
    ]
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            page.weight_codes(torch.tensor([wrong]))


def test_another_zlib_makes_no_other_view(displayed, monkeypatch):
    weights = {"": torch.rand(1, HEADS, TARGET, TARGET).softmax(-1)}
    show_attention(weights, words(TARGET), title="One.")
    compress = page.zlib.compress
    monkeypatch.setattr(page.zlib, "compress", lambda data, level: compress(data, 1))
    show_attention(weights, words(TARGET), title="One.")
    weights[""][0, 0, 0] = weights[""][0, 0, 0].flip(0)
    show_attention(weights, words(TARGET), title="One.")
    first, second, third = (data["text/html"] for data, _ in displayed[::2])
    assert first != second, "the stand-in changes nothing"
    assert page.inflated(first) == page.inflated(second) != page.inflated(third)


@pytest.mark.slow
def test_hostile_tokens_stay_text(displayed):
    count = len(HOSTILE)
    assert count >= 30
    weights = {"": torch.eye(count).expand(1, 1, count, count)}
    show_attention(weights, HOSTILE, title=HOSTILE[2])
    html = displayed[0][0]["text/html"]
    assert html.count("</script") == html.count("<script") == 1
    assert "<!--" not in html.split("<script>")[1] and "\u2028" not in html
    html.encode("utf-8")
    assert payload(html)["tokens"][0] == HOSTILE
    assert displayed[1][0]["image/png"] and len(displayed[1][0]["text/plain"]) < 400


SHARPNESS = (0.0, 0.3, 1.0, 1.5, 2.0, 3.0, 10.0)


@pytest.mark.slow
def test_a_view_is_small(displayed, record_budget):
    for layers, heads, tokens, allowed in ((2, 4, 7, 4), (6, 8, 20, 23)):
        for sharpness in SHARPNESS:
            torch.manual_seed(0)
            scores = sharpness * torch.randn(layers, 1, heads, tokens, tokens)
            weights = {f"blocks.{i}": one.softmax(-1) for i, one in enumerate(scores)}
            show_attention(weights, words(tokens), title="Random weights.")
            codes, _ = decoded(payload(displayed[-2][0]["text/html"])["parts"][0])
            true = torch.cat(list(weights.values()))
            assert (codes == torch.tensor(page.weight_codes(true))).all()
        sizes = [len(data["text/html"].encode()) for data, _ in displayed[::2]]
        scripts = [page.lines_of(f"{name}.js") for name in ("kit", *page.VIEWS)]
        record_budget("script of the views, KB", len("".join(scripts)) // 1000, 34)
        name = f"view of {layers} layers, {heads} heads, {tokens} tokens, KB"
        record_budget(name, round(max(sizes) / 1000, 1), allowed)
        displayed.clear()


def test_a_lone_attention_layer_and_its_memory(displayed):
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, HEADS)
    with torch.no_grad(), record(layer) as seen:
        layer(torch.randn(1, TARGET, 8), torch.randn(1, SOURCE, 8))
    show_attention(seen, words(TARGET), words(SOURCE, "s"), title="Random.")
    data = payload(displayed[0][0]["text/html"])
    assert [part["name"] for part in data["parts"]] == ["cross"]
    assert data["parts"][0]["shape"] == [1, HEADS, TARGET, SOURCE]


NUMBERED = {
    # defect 7: the first number of a name was the label, so layers replaced each other
    ("gpt2.layer.0", "gpt2.layer.1"): ["0", "1"],
    ("gpt2.layer.0", "gpt2.layer.3", "gpt2.layer.11"): ["0", "3", "11"],
    ("stage1.blocks.0", "stage2.blocks.0"): ["1", "2"],
    ("stage1.blocks.0", "stage1.blocks.1", "stage2.blocks.0"): ["1.0", "1.1", "2.0"],
    ("block.0.layer.1.attn", "block.1.layer.1.attn"): ["0", "1"],
    ("gpt2.layer.5",): ["5"],
    ("attention",): ["0"],
    ("blocks.3.attention",): ["3"],
    ("blocks.0", "blocks.1"): ["0", "1"],
}


@pytest.mark.slow
@pytest.mark.parametrize("names", NUMBERED)
def test_no_layer_is_lost(names, displayed):
    weights = {}
    for place, name in enumerate(names):
        weights[name] = torch.eye(3).roll(place, 0)[None, None]
    show_attention(weights, ["a", "b", "c"], title="Layers.")
    data = payload(displayed[0][0]["text/html"])
    (part,) = data["parts"]
    assert part["layers"] == NUMBERED[names]
    codes, _ = decoded(part)
    assert len(codes) == len(names)
    for layer, true in zip(codes, weights.values(), strict=True):
        assert torch.equal(layer > 0, true[0] > 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_of_any_type_can_be_shown(dtype, displayed):
    given = torch.tensor([[[[1.0, 0.0], [0.3, 0.7]]]]).to(dtype)
    for weights in (given.double(), given):
        show_attention({"blocks.0": weights}, ["a", "b"], title="The same.")
        show_sampling(-weights[0, 0, 1], ["a", "b"], title="The same.")
    assert displayed[:4] == displayed[4:]


def test_bertviz_needs_nothing_else_and_repeats_itself(displayed):
    model, ids = translator()
    with torch.no_grad(), record(model) as seen:
        model(*ids)
    weights = seen.weights()
    for view in (head_view, head_view, model_view):
        page = view(
            encoder_attention=[w for n, w in weights.items() if "encoder" in n],
            decoder_attention=[weights[f"blocks.{i}.attention"] for i in range(LAYERS)],
            cross_attention=[w for n, w in weights.items() if "cross" in n],
            encoder_tokens=words(SOURCE, "s"),
            decoder_tokens=words(TARGET),
            html_action="return",
        )
        show_bertviz(page, "A finding.")
    first, second, third = (data["text/html"] for data, _ in displayed)
    assert first == second != third
    for html in (first, third):
        assert len(set(re.findall(r"bertviz-[0-9a-f]+", html))) == 1
        assert "require" not in html.split("PYTHON")[0][:2000]
        assert "cdnjs" not in html
        params = json.JSONDecoder().raw_decode(html.split("const params = ")[1])[0]
        names = [part["name"] for part in params["attention"]]
        assert names == ["Encoder", "Decoder", "Cross"]
        cross = torch.tensor(params["attention"][2]["attn"], dtype=torch.float64)
        true = [seen.weights()[f"blocks.{i}.cross_attention"][0] for i in range(LAYERS)]
        assert (cross - torch.stack(true)).abs().max() < 1e-4
        assert params["attention"][2]["left_text"] == words(TARGET)
    assert "trust" in displayed[0][0]["text/plain"]


@pytest.mark.slow
def test_bertviz_takes_hostile_tokens_as_text(displayed):
    weights = [torch.eye(len(HOSTILE))[None, None]]
    for view in (head_view, model_view):
        show_bertviz(view(weights, HOSTILE, html_action="return"), HOSTILE[2])
        html = displayed[-1][0]["text/html"]
        assert html.count("</script") == 1
        html.encode("utf-8")
        params = json.JSONDecoder().raw_decode(html.split("const params = ")[1])[0]
        assert params["attention"][0]["left_text"] == HOSTILE


def test_pieces_show_what_was_computed(displayed):
    torch.manual_seed(0)
    scores = torch.randn(40, dtype=torch.float64)
    show_sampling(scores, words(40), title="One token leads.")
    data = payload(displayed[0][0]["text/html"])
    best = scores.sort(descending=True)
    assert data["tokens"] == [f"w{i}" for i in best.indices[:16]]
    displayed_scores = torch.tensor(data["scores"]) / 100
    assert (displayed_scores - (best.values - best.values[0])).abs().max() <= 0.00501
    show_rotation(2, title="A shift is a turn.")
    assert "distance 2" in (alt := displayed[-2][0]["text/plain"]), alt
    assert "ghosts 8, 14, 52, 59" in alt
    show_query({"a": (1, 0), "b": (0, 1)}, title="It turns.")
    for (view, _), (picture, about) in zip(
        displayed[::2], displayed[1::2], strict=True
    ):
        assert about["image/png"]["alt"] in view["text/plain"]
        assert picture["image/png"] and "sliders" in view["text/plain"]
    with pytest.raises(
        ValueError, match=r"tokens must be equal, got \(40,\) and \(2,\)"
    ):
        show_sampling(scores, ["a", "b"], title="t")


NONSENSE = {  # in a plain Python: executed annotations would answer first
    "show_attention(w, ab, title=None)": "title must be of type str, got None",
    "show_map(w, ab, title=None)": "title must be of type str, got None",
    "show_bertviz(None, 't')": "page must be what bertviz gives with html_action=",
    "show_bertviz(w, None)": "sentence must be of type str, got None",
    "show_sampling(None, ab, title='t')": "scores must be of type Tensor, got None",
    "show_sampling(w[0, 1], ab, title='t')": "scores must be logits, got probabilities",
    "show_rotation(None, title='t')": "back must be an integer, got None",
    "show_query(None, title='t')": "keys must be of type Mapping, got None",
    "show_query({'a': (1, 0)}, title=None)": "title must be of type str, got None",
    "show_story(None, None)": "model must be a LlamaLM, got None",
    "show_story(LlamaLM(), None)": "tokenizer must be of type Tokenizer, got None",
    "share_page(LlamaLM(), t, None)": "path must be of type str | pathlib.Path",
    "share_page(LlamaLM(), t, '', title=None)": "title must be of type str, got None",
    "share_page(LlamaLM(), t, '', start_id='<bos>')": "start_id must be an integer",
}
ANSWER = """
import torch
from course_utils.page import share_page, show_story
from course_utils.views import *
from course_utils.views import attention, display as displaying
from course_utils.tokenizer import train_words
LlamaLM = type("LlamaLM", (), {"config": type("", (), {"vocab_size": 5})})
w, ab, t = torch.tensor([[[1.0, 0.0], [0.2, 0.8]]]), ["a", "b"], train_words(["a"])
for module in (attention, displaying):
    module.display = print
for call in given:
    try:
        answers[call] = f"nothing: {eval(call)}"
    except Exception as error:
        answers[call] = str(error)
"""


def test_nonsense_is_answered_in_a_sentence():
    answers = answers_of(ANSWER, [*NONSENSE])
    wrong = {c: a for c, a in answers.items() if not a.startswith(NONSENSE[c])}
    assert not wrong
