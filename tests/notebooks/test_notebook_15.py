"""What notebook 15 measures is what it says: heads taken out, and scores of maps."""

import math

import pytest
import torch
from nb15_ablation import ablated
from nb15_induction import induction
from nb15_maps import entropy, look_back

from course_utils import pretrained
from course_utils.attention import MultiHeadAttention
from course_utils.config import EncoderDecoderConfig, LlamaConfig, StackConfig
from course_utils.decoding import CachedStep, greedy
from course_utils.looking.intervening import intervene, zero_ablation
from course_utils.looking.recording import record
from course_utils.models import EncoderDecoder, LlamaLM

BATCH, LENGTH, HEADS, WIDTH, VOCABULARY = 2, 7, 3, 24, 11
SIZES = {"d_model": WIDTH, "num_heads": HEADS, "num_layers": 2, "d_ff": 16}


def attention():
    torch.manual_seed(0)
    layer = MultiHeadAttention(WIDTH, HEADS).double()
    return layer, torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64)


def test_heads_add_up(built):
    layer, x = attention()
    expected, bias = layer(x), layer.to_output.bias
    alone = []
    for head in range(HEADS):
        others = [h for h in range(HEADS) if h != head]
        with built["without"](layer, "attend", others):
            alone.append(layer(x) - bias)
    torch.testing.assert_close(sum(alone) + bias, expected)


def test_removing_equals_weights_of_zero_in_the_output_projection(built):
    layer, x = attention()
    with built["without"](layer, "attend", [1]):
        silent = layer(x)
    width = WIDTH // HEADS
    layer.to_output.weight.data[:, width : 2 * width] = 0
    torch.testing.assert_close(silent, layer(x))


def test_the_exercise_removes_what_the_hook_removes(built):
    layer, x = attention()
    with record(layer) as seen:
        layer(x)
    by_hand = ablated(seen["attend"], layer.to_output, 1)
    with built["without"](layer, "attend", [1]):
        torch.testing.assert_close(by_hand, layer(x))


def test_nothing_removed_and_everything_put_back(built):
    layer, x = attention()
    expected = layer(x)
    with built["without"](layer, "attend", []):
        assert torch.equal(layer(x), expected)
    everything = built["without"](layer, "attend", [0, 1, 2])
    with pytest.raises(RuntimeError), everything:
        torch.testing.assert_close(layer(x), layer.to_output.bias.expand_as(x))
        raise RuntimeError
    assert torch.equal(layer(x), expected)


def test_a_removed_head_is_removed_while_recording_too(built):
    model = LlamaLM(LlamaConfig(vocab_size=VOCABULARY, **SIZES)).double()
    ids = torch.randint(VOCABULARY, (BATCH, LENGTH))
    with built["without"](model, "blocks.1.attention.attend", [0, 2]):
        silent = model(ids)
        with record(model) as seen:
            torch.testing.assert_close(model(ids), silent)
    assert not torch.allclose(model(ids), silent)
    assert seen.weights()["blocks.1.attention"].shape[1] == HEADS


def test_entropy_of_known_rows(built):
    even = torch.full((BATCH, LENGTH, 5), 1 / 5)
    entropies = built["entropy"](even)
    torch.testing.assert_close(entropies, torch.full((BATCH, LENGTH), math.log(5)))
    one = torch.zeros(LENGTH, 5)
    one[:, 2] = 1
    assert not built["entropy"](one).any()


def test_rank_correlation_knows_only_the_order(built):
    numbers = torch.tensor([[3.0, -1.0], [0.5, 9.0]])
    assert built["rank_correlation"](numbers, numbers.exp()) == pytest.approx(1)
    assert built["rank_correlation"](numbers, -(numbers**3)) == pytest.approx(-1)
    other = torch.tensor([[2.0, 1.0], [4.0, 3.0]])  # ranks 1 0 3 2 against 2 0 1 3
    assert built["rank_correlation"](numbers, other) == pytest.approx(0.4)


def test_keys_of_equal_length_keep_their_directions(built):
    keys = torch.randn(BATCH, HEADS, LENGTH, 5, dtype=torch.float64)
    same = built["equally_long"](keys)
    lengths = keys.norm(dim=-1).mean(dim=-1, keepdim=True).expand(-1, -1, LENGTH)
    torch.testing.assert_close(same.norm(dim=-1), lengths)
    cosines = torch.nn.functional.cosine_similarity(same, keys, dim=-1)
    torch.testing.assert_close(cosines, torch.ones_like(cosines))


def test_the_slices_of_the_heads_make_the_layer(built):
    """Summed over heads, what W_v and W_o do to a text of one token is the layer."""
    model = LlamaLM(LlamaConfig(vocab_size=VOCABULARY, **SIZES)).double()
    x = torch.randn(BATCH, 1, WIDTH, dtype=torch.float64)
    total = 0
    for head in range(HEADS):
        *_, w_v, w_o = built["slices"](model, 0, head)
        total = total + x @ w_v.T @ w_o.T
    torch.testing.assert_close(total, model.blocks[0].attention(x, model.rotary(0, 1)))


def test_induction_is_the_token_after_the_earlier_one(built):
    ids, labels = built["repeated"](3, BATCH, half=LENGTH)
    assert ids.shape == labels.shape == (BATCH, 2 * LENGTH - 1)
    assert (labels[:, : LENGTH - 1] == -100).all()
    assert torch.equal(labels[:, LENGTH - 1 :], ids[:, :LENGTH])
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
    torch.testing.assert_close(entropy(weights), built["entropy"](weights))
    below = torch.zeros(shape)
    below[:, 2, range(1, shape[2]), range(shape[2] - 1)] = 1
    assert look_back(below).tolist() == [0, 0, 1]


def test_the_colleague_forgets_the_mask_and_the_cure_is_the_recording(built):
    stack = StackConfig(**SIZES)
    vocab_sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), VOCABULARY)
    config = EncoderDecoderConfig(**vocab_sizes, encoder=stack, decoder=stack)
    model = EncoderDecoder(config)
    ids = torch.randint(1, VOCABULARY, (2, 1, LENGTH))
    with record(model) as seen:
        model(*ids)
    layer, read = model.blocks[0].attention, seen["blocks.0.attention_residual.norm"]
    true = seen.weights()["blocks.0.attention"][0]
    torch.testing.assert_close(built["cured_maps"](layer, read), true)
    hers = built["colleagues_maps"](layer, read)
    torch.testing.assert_close(hers.sum(-1), torch.ones(HEADS, LENGTH))
    assert (hers.triu(1).sum(dim=(1, 2)) > 0).all() and not true.triu(1).any()


def test_one_silent_head_gives_the_hero_her_name_and_another_is_hardly_missed():
    teller, tokenizer = pretrained.load("tinystories")
    start = "Once upon a time, there was a little girl named Lily."
    ids = torch.tensor([[tokenizer.eos_id, *tokenizer.encode(start)]])

    def told(layer, head, count):
        silent = {f"blocks.{layer}.attention.attend": zero_ablation(heads=head)}
        with torch.no_grad(), intervene(teller, silent):
            return tokenizer.decode(greedy(CachedStep(teller), ids, count)[0])

    whole = tokenizer.decode(greedy(CachedStep(teller), ids, 30)[0])
    assert whole.startswith(f"{start} She")
    assert told(2, 3, 1) == f"{start} Lily"
    assert told(3, 2, 30) == whole
