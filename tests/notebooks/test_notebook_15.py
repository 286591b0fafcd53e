"""What notebook 15 measures is what it says: heads, scores of maps, sinks."""

import pytest
import torch
from nb15_ablation import ablated
from nb15_induction import induction
from nb15_maps import look_back

from course_utils import pretrained
from course_utils.attention import MultiHeadAttention
from course_utils.config import LlamaConfig
from course_utils.decoding import CachedStep, greedy
from course_utils.intervening import intervene, zero_ablation
from course_utils.models import LlamaLM
from course_utils.recording import record
from course_utils.records import load_record, load_script

BATCH, LENGTH, HEADS, WIDTH, VOCABULARY = 2, 7, 3, 24, 11
SIZES = {"d_model": WIDTH, "num_heads": HEADS, "num_layers": 2, "d_ff": 16}
NAMES = ("repeated", "induction_score")
OPENING = "Once upon a time, there was a little girl named Lily."


def silent(layer, heads, name="attend"):
    return intervene(layer, {name: zero_ablation(heads=heads)})


def attention():
    torch.manual_seed(0)
    layer = MultiHeadAttention(WIDTH, HEADS).double()
    return layer, torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64)


# --- removing ------------------------------------------------------------------------


def test_heads_add_up():
    layer, x = attention()
    expected, bias = layer(x), layer.to_output.bias
    alone = []
    for head in range(HEADS):
        with silent(layer, [h for h in range(HEADS) if h != head]):
            alone.append(layer(x) - bias)
    torch.testing.assert_close(sum(alone) + bias, expected)


def test_removing_equals_weights_of_zero_in_the_output_projection():
    layer, x = attention()
    with silent(layer, [1]):
        without = layer(x)
    width = WIDTH // HEADS
    layer.to_output.weight.data[:, width : 2 * width] = 0
    torch.testing.assert_close(without, layer(x))


def test_the_exercise_removes_what_the_hook_removes():
    layer, x = attention()
    with record(layer) as seen:
        layer(x)
    by_hand = ablated(seen["attend"], layer.to_output, 1)
    with silent(layer, [1]):
        torch.testing.assert_close(by_hand, layer(x))


def test_nothing_removed_and_everything_put_back():
    layer, x = attention()
    expected = layer(x)
    with silent(layer, []):
        assert torch.equal(layer(x), expected)
    everything = silent(layer, [0, 1, 2])
    with pytest.raises(RuntimeError), everything:
        torch.testing.assert_close(layer(x), layer.to_output.bias.expand_as(x))
        raise RuntimeError
    assert torch.equal(layer(x), expected)


def test_a_removed_head_is_removed_while_recording_too():
    model = LlamaLM(LlamaConfig(vocab_size=VOCABULARY, **SIZES)).double()
    ids = torch.randint(VOCABULARY, (BATCH, LENGTH))
    with silent(model, [0, 2], "blocks.1.attention.attend"):
        without = model(ids)
        with record(model) as seen:
            torch.testing.assert_close(model(ids), without)
    assert not torch.allclose(model(ids), without)
    assert seen.weights()["blocks.1.attention"].shape[1] == HEADS


# --- the storyteller -----------------------------------------------------------------


@pytest.fixture(scope="module")
def teller():
    model, tokenizer = pretrained.load("tinystories")
    return model.double().requires_grad_(False), tokenizer


def without(model, layer, head):
    return silent(model, head, f"blocks.{layer}.attention.attend")


def test_one_silent_head_repeats_the_name_and_another_is_hardly_missed(teller):
    model, tokenizer = teller
    ids = torch.tensor([[tokenizer.eos_id, *tokenizer.encode(OPENING)]])

    def told(layer, head, count):
        with torch.no_grad(), without(model, layer, head):
            return tokenizer.decode(greedy(CachedStep(model), ids, count)[0])

    whole = tokenizer.decode(greedy(CachedStep(model), ids, 24)[0])
    assert whole.startswith(f"{OPENING} She")
    assert told(2, 3, 1) == f"{OPENING} Lily"
    assert told(3, 2, 24) == whole


def pronouns(model, tokenizer, name, head=None):
    """P(He), P(She) after each block, "layer 2", perhaps without a head of layer 2."""
    text = OPENING.replace("girl named Lily", name)
    ids = torch.tensor([[tokenizer.eos_id, *tokenizer.encode(text)]])
    with without(model, 2, [] if head is None else head), record(model) as seen:
        model(ids)
    streams = torch.stack([seen[f"blocks.{layer}"][0, -1] for layer in range(4)])
    chances = model.head(model.norm(streams)).softmax(dim=-1)
    return chances[:, [tokenizer.encode(word)[0] for word in (" He", " She")]]


def test_the_lens_goes_from_he_to_she_and_one_head_is_the_reason(teller):
    he, she = pronouns(*teller, "girl named Lily").T
    assert (he[:2] > she[:2]).all() and (she[2:] > 0.8).all()
    for head in range(4):
        *_, she = pronouns(*teller, "girl named Lily", head).T
        assert she[2] < 0.3 if head == 3 else she[2] > 0.95
    he, she = pronouns(*teller, "boy named Tim").T
    assert (he[:3] > she[:3]).all() and she.max() < 0.2


def test_the_storyteller_has_no_sink(teller):
    model, tokenizer = teller
    ids = torch.tensor([[tokenizer.eos_id, *tokenizer.encode(OPENING)]])
    ids = greedy(CachedStep(model), ids, 110)
    with record(model) as seen:
        model(ids)
    weights = torch.stack(list(seen.weights().values()))
    assert weights[..., 50:, 0].mean(dim=-1).max() < 0.02


# --- induction -----------------------------------------------------------------------


def test_induction_is_the_token_after_the_earlier_one(built):
    ids, labels = built["repeated"](3, BATCH, half=LENGTH)
    assert ids.shape == labels.shape == (BATCH, 2 * LENGTH - 1)
    assert (labels[:, :LENGTH] == -100).all()  # when a text repeats is a surprise
    assert torch.equal(labels[:, LENGTH:], ids[:, 1:LENGTH])
    perfect = torch.zeros(BATCH, HEADS, 2 * LENGTH - 1, 2 * LENGTH - 1)
    for row in range(BATCH):
        for q in range(LENGTH, 2 * LENGTH - 1):
            earlier = ids[row, :q].tolist().index(ids[row, q].item())
            perfect[row, 1, q, earlier + 1] = 1
    scores = built["induction_score"](perfect, LENGTH)
    assert scores.tolist() == [0, 1, 0]


def test_the_scores_of_the_exercises_are_those_of_the_notebook(built):
    ids, _ = built["repeated"](3, BATCH, half=LENGTH)
    shape = BATCH, HEADS, 2 * LENGTH - 1, 2 * LENGTH - 1
    weights = torch.rand(shape).tril()
    theirs = built["induction_score"](weights, LENGTH)
    torch.testing.assert_close(induction(weights, ids), theirs)
    below = torch.zeros(shape)
    below[:, 2, range(1, shape[2]), range(shape[2] - 1)] = 1
    assert look_back(below).tolist() == [0, 0, 1]


# --- sinks ---------------------------------------------------------------------------


def test_the_gate_takes_most_of_the_sink_away_and_a_learned_sink_does_not():
    sinks, runs = load_script("nb15_sinks"), load_record("nb15_sinks")
    for seed in sinks.SEEDS:
        plain, learned, gate = (
            runs.numbers(kind=kind, steps=sinks.STEPS[-1], seed=seed)
            for kind in sinks.KINDS
        )
        share = "first, no trigger"
        assert gate[share] < 0.7 * plain[share] and plain[share] > 0.2
        assert learned[share] > 0.6 * plain[share]
        for loss in ("loss, trigger", "loss, no trigger"):
            assert max(one[loss] for one in (plain, learned, gate)) < (
                min(one[loss] for one in (plain, learned, gate)) + 0.03
            )
        assert min(one["before, trigger"] for one in (plain, learned, gate)) > 0.8


def test_after_a_trigger_the_token_before_it_comes_again():
    sinks = load_script("nb15_sinks")
    ids = sinks.texts(64, torch.Generator().manual_seed(0))
    assert (ids[:, 0] == sinks.BOS).all() and (ids[:, 1:] < sinks.TOKENS).all()
    trigger = torch.isin(ids[:, 2:-1], sinks.TRIGGERS)
    assert trigger.sum() > 50
    assert torch.equal(ids[:, 3:][trigger], ids[:, 1:-2][trigger])
