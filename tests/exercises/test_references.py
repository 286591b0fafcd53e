"""The short answers that `solution` shows compute what the layers of the course do.

Where the course has a function of the same arguments, the bank names it as `shared`,
and test_exercises compares the two. Here stand the others, and what no case of a bank
asks: the edges. The cases of a bank must notice any small change of its reference.
"""

import ast
import copy
import inspect
import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from nb01_attention import context, normalized_powers, scores_of_pairs
from nb02_heads import merge, multi_head, split
from nb03_using_masks import convert, shift
from nb07_cross_attention import cross_attention
from nb08_beam import beam_step
from nb09_senses import pick, pool
from nb10_encode import encode
from nb10_merges import pair_counts
from nb11_backbone import heads_from_qkv
from torch.nn import functional as F

from course_utils.attention import GroupedQueryAttention, MultiHeadAttention, attend
from course_utils.bpe import cut, train
from course_utils.config import ClassifierConfig, StackConfig
from course_utils.data.batches import padded_batches
from course_utils.decoding import beam_search
from course_utils.models import Classifier
from course_utils.tokenizer import train_words
from named_mistakes.comparing import difference
from named_mistakes.running import isolated, run
from tests.exercises.answers import RIGHT_ANSWERS
from tests.support.bank import BANK

pytestmark = pytest.mark.usefixtures("float64")


def test_scores_weights_and_context_are_attention():
    queries, keys, values = torch.randn(3, 2, 5, 8)
    actual = context(normalized_powers(scores_of_pairs(queries, keys)), values)
    torch.testing.assert_close(actual, attend(queries, keys, values))


def test_split_and_merge_are_those_of_the_layer():
    layer = MultiHeadAttention(12, 3)
    x = torch.randn(2, 5, 12)
    parts = layer.to_queries(x), layer.to_keys(x), layer.to_values(x)
    actual = merge(attend(*(split(part, 3) for part in parts)))
    torch.testing.assert_close(layer.to_output(actual), layer(x))


def test_the_layer_from_four_matrices_is_that_of_the_course():
    layer = MultiHeadAttention(12, 3, head_dim=5, bias=False)
    x = torch.randn(2, 7, 12)
    parts = layer.to_queries, layer.to_keys, layer.to_values, layer.to_output
    actual = multi_head(x, *(part.weight.T for part in parts), num_heads=3)
    torch.testing.assert_close(actual, layer(x))


def test_heads_from_one_product_are_those_of_three():
    layer = GroupedQueryAttention(12, 3, 3)
    x = torch.randn(2, 5, 12)
    layers = layer.to_queries, layer.to_keys, layer.to_values
    fused = torch.cat([one(x) for one in layers], dim=-1)
    for actual, one in zip(heads_from_qkv(fused, 3), layers, strict=True):
        torch.testing.assert_close(actual, split(one(x), 3))


def test_shifted_ids_are_those_of_the_batches():
    tokenizer = train_words(["the cat sat", "it was tired"])
    rows = tokenizer.encode_batch(["the cat sat", "it was tired"])
    batches = padded_batches(rows, batch_size=2, special=tokenizer)
    full = [[tokenizer.bos_id, *row, tokenizer.eos_id] for row in rows]
    for actual, expected in zip(
        shift(torch.tensor(full)), batches.rows([0, 1]), strict=True
    ):
        assert torch.equal(actual, expected)


def test_a_converted_mask_hides_what_the_layer_of_torch_hides():
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(1, 5, 8)
    hidden = torch.ones(5, 5).triu(1).bool()
    prices = -torch.rand(5, 5).masked_fill(hidden, torch.inf)
    for theirs in (hidden, prices):
        _, weights = layer(x, x, x, attn_mask=theirs)
        assert torch.equal(convert(theirs), weights[0] > 0)


def test_looking_across_is_the_layer_without_its_last_projection():
    layer = MultiHeadAttention(6, 1, bias=False)
    layer.to_output = torch.nn.Identity()
    x, memory = torch.randn(2, 3, 6), torch.randn(2, 5, 6)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()[:, None]
    matrices = (
        one.weight.T for one in (layer.to_queries, layer.to_keys, layer.to_values)
    )
    actual = cross_attention(x, memory, *matrices, mask)
    torch.testing.assert_close(actual, layer(x, memory, mask[:, None]))


def test_steps_of_a_beam_make_the_search():
    scores = torch.randn(7, 7)
    scores[:, 6] = -1e9  # nothing ever stops
    table = scores.log_softmax(dim=-1)

    def step(ids):
        return table[ids[:, -1]]

    start, length, width = torch.tensor([[3]]), 4, 3
    best = table[3].topk(width)
    texts, totals = best.indices[:, None], best.values
    for _ in range(length - 1):
        parents, tokens, totals = beam_step(totals, table[texts[:, -1]])
        texts = torch.cat([texts[parents], tokens[:, None]], dim=1)
    best = beam_search(step, start, length, beams=width, stop_id=6, length_penalty=0.0)
    assert best[0].tolist() == [3, *texts[0].tolist()]


@pytest.mark.parametrize("of_a_word", [True, False])
def test_picked_and_pooled_vectors_are_what_the_classifier_reads(of_a_word):
    stack = StackConfig(d_model=8, num_heads=2, num_layers=1, d_ff=16, max_length=8)
    model = Classifier(
        ClassifierConfig(vocab_size=9, num_classes=3, stack=stack)
    ).eval()
    pad = model.encoder.pad_id
    ids = torch.tensor([[4, 5, 6, 7], [8, 4, pad, pad]])
    vectors = model.encoder(ids)
    positions = torch.tensor([2, 1])
    if of_a_word:
        actual, expected = pick(vectors, positions), model(ids, positions)
    else:
        actual, expected = pool(vectors, ids != pad), model(ids)
    torch.testing.assert_close(model.head(actual), expected)


def test_pairs_are_counted_and_words_encoded_as_the_tokenizer_does():
    """The most frequent pair is the one that the trainer joins first."""
    texts = ["the cat sat on the mat", "the cat ran"]
    bytes_only = train(texts, 260)
    model = train(texts, 275)
    words = Counter(
        tuple(bytes_only.encode_word(word)) for text in texts for word in cut(text)
    )
    counted = pair_counts(words)
    assert counted[next(iter(model.made))] == max(counted.values())
    for word in words:
        spelled = b"".join(model.pieces[id] for id in word)
        assert encode(word, model.made) == model.encode_word(spelled)


# --- edges -------------------------------------------------------------------------

LINES = Path(__file__).with_name("edges.jsonl").read_text("utf-8").splitlines()
EDGES = [json.loads(line) for line in LINES]


def says(token):
    """A model that finds this token likeliest, whatever it reads."""
    return lambda ids: F.one_hot(torch.full_like(ids, token), 4).double()


def edges_of(name):
    cases = [edge["case"] for edge in EDGES if edge["exercise"] == name]
    return [eval(f"({case})", {**vars(torch), "says": says}) for case in cases]


@pytest.mark.parametrize("name", dict.fromkeys(edge["exercise"] for edge in EDGES))
def test_at_the_edges_a_reference_computes_what_others_do(name):
    exercise = BANK[name]
    for case in edges_of(name):
        expected = exercise.reference(*case)
        for other in [*RIGHT_ANSWERS[name], *filter(None, [exercise.shared])]:
            assert difference(other(*case), expected, exercise.tolerance) is None, case


# --- small changes -----------------------------------------------------------------

SWAPPED = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.In: ast.NotIn}
SWAPPED |= {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.BitAnd: ast.BitOr}
SWAPPED |= {other: one for one, other in SWAPPED.items()} | {ast.Pow: ast.Mult}
# How many small changes make no difference, or next to none.
SAME = {"attention.look_up": 1, "training.rate": 1}
SAME |= {"backbone.forward": 1, "clinic.ignores_source": 2, "clinic.misjudges": 4}


def changed(function):
    """The function with another operator, or another number, in one place."""
    function = inspect.unwrap(function)
    tree = ast.parse(inspect.getsource(function))
    tree.body[0].decorator_list = []
    for place, node in enumerate(ast.walk(tree)):
        other = copy.deepcopy(tree)
        twin = list(ast.walk(other))[place]
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
            twin.ops[0] = SWAPPED[type(node.ops[0])]()
        elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
            twin.op = SWAPPED[type(node.op)]()
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            twin.value = node.value + 1
        else:
            continue
        space = dict(function.__globals__)
        exec(compile(other, "changed", "exec"), space)
        yield space[function.__name__]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BANK if not BANK[name].predicts])
def test_cases_and_edges_notice_a_small_change_of_the_reference(name):
    exercise = BANK[name]
    tolerance = exercise.tolerance
    with isolated():
        cases = exercise.cases(torch.Generator().manual_seed(0))
        cases += edges_of(name)
        right = [run(exercise.reference, case) for case in cases]

        def is_noticed(function):
            for case, expected in zip(cases, right, strict=True):
                found = run(function, case, seconds=1)
                if found.error or difference(found.value, expected.value, tolerance):
                    return True
            return False

        unnoticed = [f for f in changed(exercise.reference) if not is_noticed(f)]
    assert len(unnoticed) == SAME.get(name, 0)


# Their last case holds large numbers.
LOUD = ("attention.scores", "attention.context", "attention.cosine", "heads.layer")
LOUD += ("positions.rotary", "recurrent.gru_step")


@pytest.mark.parametrize("name", LOUD)
def test_an_answer_that_cuts_large_numbers_off_is_noticed(name):
    def cut(value):
        return value.clamp(-20, 20) if isinstance(value, torch.Tensor) else value

    reference = BANK[name].reference
    cases = BANK[name].cases(torch.Generator().manual_seed(0))
    answers = [(reference(*map(cut, case)), reference(*case)) for case in cases]
    assert any(difference(*pair) for pair in answers)
