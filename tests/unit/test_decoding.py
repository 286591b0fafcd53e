"""Decoding: known distributions, exhaustive search, and every way equal to the last."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from course_utils.config import (
    DecoderConfig,
    EncoderDecoderConfig,
    LlamaConfig,
    StackConfig,
)
from course_utils.decoding import (
    CachedStep,
    TranslationStep,
    beam_search,
    greedy,
    length_rule,
    next_token_probabilities,
    sample,
)
from course_utils.models import DecoderLM, EncoderDecoder, LlamaLM

STOP, PAD = 2, 0


def markov(seed, vocab, std=2.0):
    """A step whose scores depend on the last two ids: random, fixed by the seed."""
    generator = torch.Generator().manual_seed(seed)
    table = std * torch.randn([vocab] * 3, generator=generator)

    def step(ids):
        return table[ids[:, -2], ids[:, -1]]

    return step


def plain_step(model):
    return lambda ids: model(ids)[:, -1]


def language_models():
    torch.manual_seed(0)
    stack = StackConfig(
        d_model=30,
        num_heads=3,
        num_layers=2,
        d_ff=44,
        max_length=40,
        positions="learned",
    )
    sizes = {"d_model": 48, "num_heads": 6, "num_layers": 2, "d_ff": 56}
    sizes |= {"vocab_size": 11, "max_length": 40}
    models = {
        "gpt": DecoderLM(DecoderConfig(vocab_size=11, stack=stack)),
        "llama": LlamaLM(LlamaConfig(num_kv_heads=6, **sizes)),
        "grouped": LlamaLM(LlamaConfig(num_kv_heads=2, tied=False, **sizes)),
    }
    for model in models.values():
        for weight in model.parameters():  # away from the flat scores of a newborn
            weight.data += 0.2 * torch.randn_like(weight)
        model.eval()
    return models


MODELS = language_models()
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


def prompts(rows, length, vocab=11, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, vocab, (rows, length), generator=generator)


# ---- the distribution


def test_plain_probabilities_are_the_softmax():
    scores = torch.randn(5, 7)
    torch.testing.assert_close(next_token_probabilities(scores), scores.softmax(-1))
    cold = next_token_probabilities(scores, temperature=0.5)
    torch.testing.assert_close(cold, (scores / 0.5).softmax(-1))


def test_top_k_keeps_the_k_largest_in_proportion():
    scores = torch.randn(5, 7)
    probabilities = next_token_probabilities(scores, top_k=3)
    assert (probabilities > 0).sum(-1).tolist() == [3] * 5
    index = scores.topk(3).indices
    expected = scores.gather(1, index).softmax(-1)
    torch.testing.assert_close(probabilities.gather(1, index), expected)
    ties = next_token_probabilities(torch.zeros(2, 7), top_k=3)
    assert (ties > 0).sum(-1).tolist() == [3, 3]


@pytest.mark.parametrize(
    "top_p, count", [(0.1, 1), (0.5, 1), (0.51, 2), (0.79, 2), (0.81, 3), (1.0, 4)]
)
def test_top_p_keeps_the_token_that_crosses_the_line(top_p, count):
    chances = torch.tensor([[0.06, 0.5, 0.14, 0.3]], dtype=torch.float64)
    result = next_token_probabilities(chances.log(), top_p=top_p)
    order = [1, 3, 2, 0]
    assert (result[0] > 0).nonzero()[:, 0].tolist() == sorted(order[:count])
    torch.testing.assert_close(result.sum(), torch.ones((), dtype=torch.float64))


def test_top_p_is_measured_after_top_k():
    chances = torch.tensor([[0.4, 0.3, 0.2, 0.1]], dtype=torch.float64)
    both = next_token_probabilities(chances.log(), top_k=2, top_p=0.5)
    assert (both[0] > 0).tolist() == [True, False, False, False]  # 0.4 / 0.7 > 0.5


def test_probabilities_of_bfloat16_scores_are_float32_and_leave_scores_alone():
    scores = torch.randn(2, 7).bfloat16()
    before = scores.clone()
    assert next_token_probabilities(scores, top_k=2).dtype == torch.float32
    assert torch.equal(scores, before)


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"temperature": 0.6},
        {"temperature": 1.7},
        {"top_k": 4},
        {"top_p": 0.7},
        {"temperature": 1.3, "top_k": 5, "top_p": 0.9},
    ],
    ids=str,
)
def test_samples_follow_the_distribution(choice):
    step, draws = markov(3, vocab=9, std=1.0), 20_000
    prompt = torch.tensor([[4, 7]]).repeat(draws, 1)
    generator = torch.Generator().manual_seed(5)
    ids = sample(step, prompt, 2, generator=generator, **choice)
    first = next_token_probabilities(step(prompt[:1]), **choice)[0]
    pairs = torch.tensor([[7, token] for token in range(9)])
    second = next_token_probabilities(step(pairs), **choice)
    expected = draws * (first[:, None] * second).flatten().double()
    counts = torch.bincount(ids[:, 2] * 9 + ids[:, 3], minlength=81)
    assert not counts[expected == 0].any()
    frequent = expected >= 5
    gaps = (counts - expected)[frequent] / expected[frequent].sqrt()
    freedom = len(gaps)
    assert freedom >= 8
    # Wilson and Hilferty: the cube root of chi-square / freedom is nearly normal
    std = math.sqrt(2 / (9 * freedom))
    value = gaps.square().sum().item() / freedom
    assert (value ** (1 / 3) - (1 - std**2)) / std < 3.5


def test_same_generator_same_text_and_the_global_one_is_untouched():
    step, prompt = markov(1, vocab=9), prompts(3, 2, vocab=9)
    state = torch.get_rng_state()
    first, second = (
        sample(step, prompt, 20, generator=torch.Generator().manual_seed(1))
        for _ in range(2)
    )
    other = sample(step, prompt, 20, generator=torch.Generator().manual_seed(2))
    assert torch.equal(first, second) and not torch.equal(first, other)
    assert torch.equal(state, torch.get_rng_state())


def test_one_token_or_next_to_no_temperature_is_greedy():
    step, prompt = markov(4, vocab=9), prompts(3, 2, vocab=9)
    expected = greedy(step, prompt, 8)
    assert torch.equal(sample(step, prompt, 8, top_k=1), expected)
    assert torch.equal(sample(step, prompt, 8, top_p=1e-6), expected)
    assert torch.equal(sample(step, prompt, 8, temperature=1e-3), expected)


# ---- stopping


def scripted(*rows):
    """A step that writes these rows after a prompt of one position."""
    table = torch.tensor(rows)

    def step(ids):
        next_ids = table[:, ids.shape[1] - 1]
        return F.one_hot(next_ids, 9).float()

    return step


@pytest.mark.parametrize(
    "written, prompt, stop_id",
    [
        ([STOP], 1, STOP),  # at the first token, and a single row needs no pad
        ([5, 6, STOP], STOP, STOP),  # a stop in the prompt does not stop
        ([STOP, 5, STOP], 1, None),
    ],
)
def test_a_row_ends_with_its_first_new_stop(written, prompt, stop_id):
    step = scripted([*written, 5, 5])
    ids = greedy(step, torch.tensor([[prompt]]), 3, stop_id=stop_id)
    assert ids.tolist() == [[prompt, *written]]


def test_finished_rows_are_padded_while_the_others_go_on():
    step = scripted([STOP, 5, 6, 7], [5, 6, STOP, 8], [5, STOP, 6, STOP])
    ids = greedy(step, torch.tensor([[1], [1], [1]]), 4, stop_id=STOP, pad_id=PAD)
    rows = [[1, STOP, PAD, PAD], [1, 5, 6, STOP], [1, 5, STOP, PAD]]
    assert ids.tolist() == rows


# ---- beam search


def log_probability(step, prompt, new):
    ids = torch.cat([prompt, torch.tensor([new])], dim=1)
    total = 0.0
    for i, token in enumerate(new):
        scores = step(ids[:, : prompt.shape[1] + i]).double()
        total += scores.log_softmax(-1)[0, token].item()
    return total


def exhaustive(step, prompt, vocab, length, penalty):
    """The best of all texts that end in STOP or are cut off at `length`."""
    texts = [
        text
        for n in range(1, length + 1)
        for text in itertools.product(range(vocab), repeat=n)
        if STOP not in text[:-1] and (text[-1] == STOP or n == length)
    ]

    def value(text):
        return log_probability(step, prompt, text) / length_rule(len(text), penalty)

    return list(max(texts, key=value))


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.5])
@pytest.mark.parametrize("vocab, length", [(3, 4), (4, 3)])
def test_a_beam_as_wide_as_the_space_is_exhaustive_search(vocab, length, penalty):
    prompt = torch.tensor([[1, 0]])
    lengths, greedy_misses = set(), 0
    options = {"stop_id": STOP, "length_penalty": penalty}
    for seed in range(8):
        step = markov(seed, vocab)
        best = exhaustive(step, prompt, vocab, length, penalty)
        result = beam_search(step, prompt, length, beams=vocab**length, **options)
        assert result[0, 2:].tolist() == best, f"seed {seed}"
        lengths.add(len(best))
        greedy_misses += greedy(step, prompt, length, STOP)[0, 2:].tolist() != best
    assert len(lengths) > 1  # both ended and cut-off texts were asked for
    assert greedy_misses or penalty > 2  # and greedy is not enough


def test_one_beam_is_greedy():
    for seed in range(20):
        step, prompt = markov(seed, 5), prompts(3, 2, vocab=5, seed=seed)
        one = beam_search(step, prompt, 9, beams=1, stop_id=STOP, pad_id=PAD)
        assert torch.equal(one, greedy(step, prompt, 9, STOP, PAD))


@pytest.mark.parametrize("beams", [2, 5])
def test_beams_of_a_batch_equal_those_row_by_row(beams):
    for seed in range(10):
        step, prompt = markov(seed, 6), prompts(4, 2, vocab=6, seed=seed)
        together = beam_search(step, prompt, 7, beams=beams, stop_id=STOP, pad_id=PAD)
        for row in range(4):
            alone = beam_search(
                step, prompt[row : row + 1], 7, beams=beams, stop_id=STOP
            )
            width = alone.shape[1]
            assert torch.equal(together[row, :width], alone[0])
            assert (together[row, width:] == PAD).all()


def test_the_length_rule_prefers_longer_texts_as_it_grows():
    chances = torch.tensor([[0.0, 0.0, 0.4, 0.6]])  # 40 % to stop at each step
    prompt, options = torch.tensor([[1, 0]]), {"beams": 3, "stop_id": STOP}

    def step(ids):
        return chances.log().repeat(len(ids), 1)

    for penalty, length in ((0.0, 3), (4.0, 8)):
        result = beam_search(step, prompt, 6, length_penalty=penalty, **options)
        assert result.shape[1] == length  # "stop" at once has 0.4; six times 0.6, 0.05


# ---- real models


@every_model
def test_cached_equals_uncached_token_for_token(model):
    prompt = prompts(3, 5)
    plain = greedy(plain_step(model), prompt, 16)
    assert torch.equal(greedy(CachedStep(model), prompt, 16), plain)
    draws = [
        sample(step, prompt, 16, generator=torch.Generator().manual_seed(3))
        for step in (plain_step(model), CachedStep(model))
    ]
    assert torch.equal(*draws)
    assert len(set(draws[0][:, 5:].flatten().tolist())) > 4  # not one token for ever


@every_model
def test_cached_rows_that_stop_early_do_not_disturb_the_others(model):
    prompt = prompts(4, 5)
    free = greedy(plain_step(model), prompt, 12)
    stop = int(free[0, 6])
    cached = greedy(CachedStep(model), prompt, 12, stop, PAD)
    for row in range(4):
        alone = greedy(plain_step(model), prompt[row : row + 1], 12, stop)
        width = alone.shape[1]
        assert torch.equal(cached[row, :width], alone[0])
        assert (cached[row, width:] == PAD).all()


@every_model
def test_the_cache_computes_every_position_once(model):
    seen = []
    count = lambda module, given: seen.append(given[0].shape[1])  # noqa: E731
    handle = model.register_forward_pre_hook(count)
    greedy(CachedStep(model), prompts(2, 5), 10)
    handle.remove()
    assert seen == [5] + [1] * 9


@every_model
def test_a_text_ends_where_the_model_has_no_position_left(model):
    """Bug 5: all was computed, then lost."""
    for make_step in (plain_step, CachedStep):
        expected = greedy(make_step(model), prompts(1, 38), 3)
        assert expected.shape == (1, 41)
        assert torch.equal(greedy(make_step(model), prompts(1, 38), 9), expected)
        with pytest.raises(ValueError, match="max_length=40"):
            greedy(make_step(model), prompts(1, 41), 1)
    options = {"beams": 3, "pad_id": 0, "length_penalty": 4.0}
    for stop_id in range(1, 11):
        options["stop_id"] = stop_id
        expected = beam_search(plain_step(model), prompts(9, 38), 3, **options)
        longer = beam_search(plain_step(model), prompts(9, 38), 9, **options)
        assert torch.equal(longer, expected)


def test_cached_step_goes_on_rightly_after_an_interruption():
    """The first block had stored its position, the second had not."""
    model, ids = MODELS["grouped"], prompts(2, 6)

    def stop(*_):
        raise KeyboardInterrupt

    step = CachedStep(model)
    step(ids[:, :5])
    hook = model.blocks[1].register_forward_pre_hook(stop)
    with pytest.raises(KeyboardInterrupt):
        step(ids)
    hook.remove()
    torch.testing.assert_close(step(ids), plain_step(model)(ids))


def test_a_cache_serves_the_rows_that_it_holds():
    """One row was spread over two."""
    model = MODELS["grouped"]
    cache = model.new_cache()
    with torch.no_grad():
        model(prompts(2, 3), cache=cache)
        with pytest.raises(ValueError, match=r"cache and ids: rows .* got 2 and 1"):
            model(prompts(1, 1), cache=cache)


def test_cached_step_refuses_what_it_cannot_continue():
    model = MODELS["grouped"]
    step, prompt = CachedStep(model), prompts(2, 5)
    step(prompt)
    changed = torch.cat([prompt, prompt[:, :1]], dim=1)
    changed[1, 2] += 1 if changed[1, 2] < 10 else -1
    with pytest.raises(ValueError, match="an earlier id"):
        step(changed)
    with pytest.raises(ValueError, match="number of rows"):
        step(prompts(3, 6))
    with pytest.raises(ValueError, match=r"ids must have shape .* got \(2, 0\)"):
        step(prompt)
    step = CachedStep(model)  # flattened below, so that the beams change places
    options = {"beams": 4, "stop_id": STOP, "length_penalty": 9.0}
    with pytest.raises(ValueError, match="an earlier id"):
        beam_search(lambda ids: step(ids) / 9, prompts(1, 5), 9, **options)


def translator(seed=0):
    """With a batch of sources; one is shorter, and padded."""
    torch.manual_seed(seed)
    config = EncoderDecoderConfig(
        source_vocab_size=13,
        target_vocab_size=11,
        encoder=StackConfig(d_model=24, num_heads=3, num_layers=1, d_ff=20),
        decoder=StackConfig(d_model=20, num_heads=2, num_layers=2, d_ff=28),
    )
    model = EncoderDecoder(config)
    for weight in model.parameters():
        weight.data += 0.3 * torch.randn_like(weight)
    source = prompts(3, 6, vocab=13)
    source[1, 4:] = PAD
    return model.eval(), source


START = torch.ones(3, 1, dtype=torch.int64)


def test_translation_step_equals_the_full_model():
    model, source = translator()
    target = prompts(3, 4)
    step = TranslationStep(model, source)
    torch.testing.assert_close(step(target), model(source, target)[:, -1])
    wide = step(target.repeat_interleave(5, dim=0))
    torch.testing.assert_close(wide, step(target).repeat_interleave(5, dim=0))


def test_translations_of_a_batch_equal_those_row_by_row():
    model, source = translator()
    step = TranslationStep(model, source)
    for beams in (1, 4):
        ids = beam_search(step, START, 8, beams=beams, stop_id=STOP, pad_id=PAD)
        for row, length in enumerate((6, 4, 6)):
            alone_step = TranslationStep(model, source[row : row + 1, :length])
            alone = beam_search(alone_step, START[:1], 8, beams=beams, stop_id=STOP)
            assert torch.equal(ids[row, : alone.shape[1]], alone[0])
