"""The short answers that `solution` shows compute what the layers of the course do.

Where the course has a function of the same arguments, the bank names it as `shared`,
and test_exercises compares the two. Here stand the others.
"""

from collections import Counter

import pytest
import torch
from nb01_attention import context, normalized_powers, scores_of_pairs
from nb02_heads import merge, multi_head, split
from nb03_using_masks import convert, shift
from nb07_cross_attention import cross_attention
from nb08_beam import beam_step, choice
from nb09_senses import pick, pool
from nb10_encode import encode
from nb10_merges import pair_counts
from nb11_backbone import heads_from_qkv

from course_utils.attention import GroupedQueryAttention, MultiHeadAttention, attend
from course_utils.bpe import cut, train
from course_utils.config import ClassifierConfig, StackConfig
from course_utils.data.batches import padded_batches
from course_utils.decoding import beam_search, length_rule
from course_utils.models import Classifier
from course_utils.tokenizer import train_words

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


def test_the_choice_divides_by_the_rule():
    totals, lengths = [-4.0, -6.0, -5.5], [3, 9, 5]
    for penalty in (0.0, 0.6, 1.0):
        values = [
            t / length_rule(n, penalty) for t, n in zip(totals, lengths, strict=True)
        ]
        assert choice(totals, lengths, penalty) == (
            values.index(max(values)),
            max(values),
        )


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
