"""What notebook 12 builds is what the package and `transformers` hold."""

import hashlib
from itertools import combinations, product
from pathlib import Path

import pytest
import torch
from einops import rearrange
from nb12_grouped_attention import grouped_attention
from nb12_grouped_heads import cache_of_a_token, repeat_keys
from torch import nn

from course_utils.attention import (
    GroupedQueryAttention,
    LayerCache,
    attend,
    split_heads,
)
from course_utils.config import LlamaConfig
from course_utils.export import SETTINGS
from course_utils.feedforward import SwiGLU
from course_utils.masks import causal_mask
from course_utils.models import LlamaLM
from course_utils.norms import RMSNorm
from course_utils.positions import rotary_table, rotate
from course_utils.records import load_record, load_script
from tests.support import notebook_code
from tools.llama2c_files import read_transformers

TRAINED = Path(__file__).parents[3] / "shared" / "data" / "stories260K"
BATCH, LENGTH, WIDTH, HEADS, VOCAB = 2, 5, 24, 6, 31
NAMES = ("RMSNorm", "rope", "SwiGLU", "Attention", "Block", "Model", "colleague")
NAMES += ("cache_bytes", "translated", "reordered", "greedy_text")
NAMES += ("PUBLISHED", "is_published", "YourAttention")
pytestmark = pytest.mark.usefixtures("float64")


def config_of(kv_heads=2, tied=True):
    return LlamaConfig(
        vocab_size=VOCAB,
        d_model=WIDTH,
        num_heads=HEADS,
        num_kv_heads=kv_heads,
        num_layers=2,
        d_ff=20,
        max_length=LENGTH + 3,
        rope_base=500.0,
        norm_eps=0.1,
        tied=tied,
    )


def loud(module):
    """Weights of size 1, so that no difference can hide."""
    for weight in module.parameters():
        nn.init.normal_(weight)
    return module


def vectors():
    return torch.randn(BATCH, LENGTH, WIDTH)


def random_ids():
    return torch.randint(VOCAB, (BATCH, LENGTH))


@pytest.mark.parametrize(
    ("name", "sizes", "theirs"),
    [("RMSNorm", (WIDTH, 0.1), RMSNorm), ("SwiGLU", (WIDTH, 7), SwiGLU)],
)
def test_norm_and_gated_feedforward_are_the_packages(built, name, sizes, theirs):
    ours, theirs, x = loud(built[name](*sizes)), theirs(*sizes), vectors()
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize("kv_heads", [1, 2, 3, HEADS])
def test_the_grouped_attention_is_the_packages(built, kv_heads):
    ours, x = loud(built["Attention"](config_of(kv_heads))), vectors()
    theirs = GroupedQueryAttention(WIDTH, HEADS, kv_heads)
    theirs.load_state_dict(ours.state_dict())
    table = rotary_table(LENGTH, WIDTH // HEADS)
    expected = theirs(x, table, causal_mask(LENGTH))
    torch.testing.assert_close(ours(x, *table), expected)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kv_heads", [1, 3, HEADS])
def test_the_model_is_the_packages_and_that_of_transformers(built, kv_heads, tied):
    import transformers

    config = config_of(kv_heads, tied)
    ours, package = loud(built["Model"](config)), LlamaLM(config).eval()
    package.load_state_dict(ours.state_dict())
    settings = {theirs: getattr(config, name) for theirs, name in SETTINGS.items()}
    rope = {"rope_type": "default", "rope_theta": config.rope_base}
    their_config = transformers.LlamaConfig(**settings, rope_parameters=rope)
    theirs = transformers.LlamaForCausalLM(their_config).double().eval()
    theirs.load_state_dict(built["translated"](ours.state_dict()))
    ids = random_ids()
    torch.testing.assert_close(ours(ids), package(ids))
    expected = theirs(ids).logits  # it rotates and norms in 32 bits
    torch.testing.assert_close(ours(ids), expected, rtol=0, atol=1e-3)


def test_its_tables_move_with_the_model_and_stay_out_of_checkpoints(built):
    model = built["Model"](config_of())
    assert model.float().cos.dtype == torch.float32
    assert not {"cos", "sin"} & set(model.state_dict())


def test_the_colleague_rotates_other_pairs_and_other_rows_cure_it(built):
    x, table = torch.randn(BATCH, HEADS, LENGTH, 8), rotary_table(LENGTH, 8)
    order = torch.arange(8).view(2, 4).T.flatten()
    theirs = built["colleague"](x[..., order], *table)
    torch.testing.assert_close(theirs, rotate(x, *table)[..., order])
    ours = loud(built["Model"](config_of())).eval()
    cured = built["Model"](config_of())
    cured.load_state_dict(built["reordered"](ours.state_dict(), WIDTH // HEADS))
    ids = random_ids()
    assert (cured(ids) - ours(ids)).abs().max() > 0.1
    for block in cured.blocks:
        block.attention.rope = built["colleague"]
    torch.testing.assert_close(cured(ids), ours(ids))


@pytest.mark.parametrize("kv_heads", [1, 3])
def test_a_cache_is_as_large_as_its_formula_says(built, kv_heads):
    model = LlamaLM(config_of(kv_heads)).eval()
    cache = model.new_cache()
    model(random_ids()[:1], cache=cache)
    stored = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert stored == LENGTH * built["cache_bytes"](2, kv_heads, WIDTH // HEADS, 8)


class Counter:
    """A tokenizer whose text is the list of its ids."""

    def decode(self, ids):
        return ids.tolist()


def test_greedy_text_ends_with_the_token_between_stories(built):
    def following(ids):
        return nn.functional.one_hot((ids + 1) % 5, 5).double()

    assert built["greedy_text"](following, Counter(), 2) == [2, 3, 4, 0, 1, 2]
    assert built["greedy_text"](following, Counter(), 2, 3) == [2, 3, 4, 0]


def test_a_solved_exercise_speaks_in_the_model(built, monkeypatch):
    model, ids = (
        loud(built["Model"](config_of())),
        torch.randint(VOCAB, (BATCH, LENGTH)),
    )
    expected = model(ids)
    for block in model.blocks:
        block.attention.__class__ = built["YourAttention"]
    monkeypatch.setitem(built, "my_attention", grouped_attention)
    torch.testing.assert_close(model(ids), expected)


@pytest.mark.skipif(not TRAINED.is_dir(), reason="needs the model stories260K")
def test_the_notebooks_class_writes_the_published_text(built):
    theirs, pieces = read_transformers(TRAINED)
    model = built["Model"](theirs.config)
    model.load_state_dict(theirs.state_dict())
    text = built["greedy_text"](model, pieces, pieces.bos_id)
    stored = (TRAINED / "greedy.txt").read_text("utf-8")
    assert text in (stored, stored + ".")  # that file may lack the last token
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert digest.startswith(built["PUBLISHED"]) and built["is_published"](text)
    assert not built["is_published"](text.replace("Lily", "Lilly", 1))


# --- the recorded runs ----------------------------------------------------------------


def losses_of(model, steps):
    changes, record = load_script("nb12_changes"), load_record("nb12_changes")
    point = {"model": model, "steps": steps, "rate": changes.RATES[steps][1]}
    seeds = [record.numbers(**point, seed=seed)["test"] for seed in changes.SEEDS]
    return torch.tensor(seeds)


def equally_extreme(ours, others):
    """Of 3,432 relabelings, how many set the two means as far apart as they are?"""
    pooled = torch.cat([ours, others])
    chosen = torch.tensor(list(combinations(range(14), 7)))
    sums = pooled[chosen].sum(dim=1)
    differences = (sums - (pooled.sum() - sums)).abs() / 7
    return (differences > (ours.mean() - others.mean()).abs() - 1e-9).sum().item()


def test_the_middle_rate_is_the_best_of_every_model():
    changes, record = load_script("nb12_changes"), load_record("nb12_changes")
    for model, (steps, rates) in product(changes.MODELS, changes.RATES.items()):
        losses = {}
        for rate in rates:
            point = {"model": model, "steps": steps, "rate": rate}
            results = [record.numbers(**point, seed=seed) for seed in changes.CHOOSING]
            losses[rate] = sum(numbers["validation"] for numbers in results)
        assert min(losses, key=losses.get) == rates[1]


def test_which_changes_are_significant():
    """Bonferroni: 32 comparisons, each below 1 in 500."""
    changes = load_script("nb12_changes")
    for steps, expected in {
        100: {"rotary", "untied", "LLaMA", "no SwiGLU", "no untied"},
        300: {"rotary", "no SwiGLU"},
    }.items():
        significant = set()
        for model in changes.MODELS:
            base = "LLaMA" if model.startswith("no ") else "GPT-2"
            pair = losses_of(model, steps), losses_of(base, steps)
            if equally_extreme(*pair) < 3432 / 500:
                significant.add(model)
        assert significant == expected
        means = [losses_of(name, steps).mean() for name in changes.MODELS]
        assert max(means) - min(means) < {100: 0.08, 300: 0.012}[steps]


def test_rope_ends_lowest_and_gpt2_is_six_thousandths_above_it():
    changes = load_script("nb12_changes")
    names = ("GPT-2", *changes.PARTS, "LLaMA")
    ends = {name: losses_of(name, 300).mean().item() for name in names}
    assert min(ends, key=ends.get) == "rotary"
    assert ends["GPT-2"] - ends["rotary"] == pytest.approx(0.006, abs=5e-4)
    assert max(abs(ends[name] - ends["GPT-2"]) for name in names) < 0.01


# --- the exercises --------------------------------------------------------------------


@pytest.mark.parametrize("kv_heads", [1, 2, HEADS])
def test_the_exercises_keys_are_lent_as_the_layer_lends_them(kv_heads):
    layer = loud(GroupedQueryAttention(WIDTH, HEADS, kv_heads))
    x, table = vectors(), rotary_table(LENGTH, WIDTH // HEADS)
    queries = rotate(split_heads(layer.to_queries(x), HEADS), *table)
    keys = rotate(split_heads(layer.to_keys(x), kv_heads), *table)
    values = split_heads(layer.to_values(x), kv_heads)
    lent = (repeat_keys(part, HEADS) for part in (keys, values))
    mask = causal_mask(LENGTH)
    context = rearrange(attend(queries, *lent, mask), "b h q d -> b q (h d)")
    torch.testing.assert_close(layer.to_output(context), layer(x, table, mask))


def test_the_exercises_numbers_are_those_of_the_layers():
    layer, cache = GroupedQueryAttention(24 * 64, 24, 6).float(), LayerCache()
    table = tuple(part.float() for part in rotary_table(3, 64))
    layer(torch.zeros(1, 3, 24 * 64).float(), table, cache=cache)
    stored = cache.keys.nbytes + cache.values.nbytes
    assert 16 * stored == 3 * cache_of_a_token()


def test_the_official_numbers_of_parameters_are_printed():
    printed = "".join(str(outputs) for _, outputs in notebook_code.code_cells("12"))
    official = ("1,235,814,400", "3,212,749,824", "6,738,415,616", "8,030,261,248")
    assert all(number in printed for number in official)
