"""The shipped models open, are small, can be made again, and do not recite."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from course_utils import pretrained
from course_utils.config import LlamaConfig
from course_utils.data.batches import padded_batches, pair_batches
from course_utils.data.hub import load_texts
from course_utils.decoding import CachedStep, sample
from course_utils.metrics import bits_per_byte
from course_utils.models import LlamaLM
from course_utils.tokenizer import train_words
from course_utils.training.evaluation import mean_loss
from course_utils.training.losses import translation_loss
from known_worlds.phrases import pair
from known_worlds.senses import usage
from known_worlds.stories import story
from tools import train_shipped

ROOT = Path(__file__).parents[2]
REAL_STORIES = ROOT.parent / "shared/data/tinystories/train.txt"
NEW_STORIES = REAL_STORIES.with_name("valid.txt")
WORDS_IN_A_ROW = 24  # stock openings of such stories run to some fifteen words


def test_all_weights_together_are_at_most_20_megabytes(record_budget):
    sizes = [path.stat().st_size for path in pretrained.FOLDER.rglob("*.*")]
    record_budget("shipped models, bytes", sum(sizes), 20_000_000)
    assert {path.name for path in pretrained.FOLDER.iterdir()} == {*pretrained.SHIPPED}


@pytest.mark.parametrize("name", pretrained.SHIPPED)
def test_a_shipped_model_fits_its_tokenizer(name):
    model, tokenizer = pretrained.load(name)
    assert not model.training
    assert all(weight.dtype == torch.float32 for weight in model.parameters())
    rows = [v for k, v in vars(model.config).items() if k.endswith("vocab_size")]
    assert set(rows) == {tokenizer.vocab_size}


def loss_on_its_world(name, model, tokenizer):
    """In float64, over a few examples of the world that it learned, or should know."""
    if name == "senses":
        used = [usage(index, "test") for index in range(32)]
        batches = train_shipped.sense_batches(used, tokenizer, batch_size=32)
        return mean_loss(model.double(), batches, loss=train_shipped.class_loss)
    if name in ("translator", "spanish"):
        both = [pair(index, "test") for index in range(16)]
        rows = [(tokenizer.encode(p.source), tokenizer.encode(p.target)) for p in both]
        batches = pair_batches(rows, batch_size=16, special=tokenizer)
        return mean_loss(model.double(), batches, loss=translation_loss)
    rows = [tokenizer.encode(story(index, seed=1).text)[:100] for index in range(8)]
    batches = padded_batches(rows, batch_size=8, special=tokenizer)
    return mean_loss(model.double(), batches)


LOSSES = {
    "tinystories": 3.448086309441583,
    "stories": 0.6876742336061246,
    "gpt": 0.7430689682882,
    "translator": 0.1766786455430352,
    "spanish": 2.1297229202568104,
    "senses": 0.00032645349766005774,
}


@pytest.mark.parametrize("name", pretrained.SHIPPED)
def test_the_weights_are_those_that_were_measured(name):
    """A weight changed by 1 % shows, but for biases of keys, which change nothing."""
    model, tokenizer = pretrained.load(name)
    model, tokenizer = pretrained.load(name)
    same = pytest.approx(LOSSES[name], 1e-8)
    assert loss_on_its_world(name, model, tokenizer) == same
    with torch.no_grad():
        next(w for n, w in model.named_parameters() if "to_queries" in n).mul_(1.01)
    assert loss_on_its_world(name, model, tokenizer) != same


@pytest.mark.long
@pytest.mark.parametrize(
    "name, options",
    [
        ("tinystories", {"data": "stories", "steps": 12}),
        ("stories", {"steps": 36}),
        ("gpt", {"steps": 36}),
        ("translator", {"steps": 12}),
        ("spanish", {"data": "phrases", "steps": 12}),
        ("senses", {"steps": 40}),
    ],
)
def test_the_command_that_made_it_still_learns(name, options, tmp_path):
    made, words, history = train_shipped.RECIPES[name](**options, limit=150)
    assert history.losses[-1] < history.losses[0] - 0.3
    pretrained.save(made, words, tmp_path / name, torch.bfloat16)
    model, tokenizer = pretrained.load(tmp_path / name)
    assert type(model) is type(made) and model.config == made.config
    for key, weight in made.state_dict().items():
        stored = model.state_dict()[key]
        assert torch.equal(weight.to(torch.bfloat16).float(), stored), key
    told = name in ("tinystories", "stories", "gpt")
    text = load_texts("stories", limit=1)[0] if told else "The cat sleeps."
    assert tokenizer.encode(text) == words.encode(text)


# --- save and load -------------------------------------------------------------------


def small_model(**changes):
    tokenizer = train_words(["the cat sat because it was tired"])
    torch.manual_seed(0)
    sizes = {"vocab_size": tokenizer.vocab_size, "d_model": 8, "num_heads": 2}
    sizes |= {"num_layers": 1, "d_ff": 8, "max_length": 8}
    return LlamaLM(LlamaConfig(**(sizes | changes))), tokenizer


def stored(folder):
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_weights_keep_their_type_unless_another_is_asked_for(tmp_path, dtype):
    """They were rounded to bfloat16 without being asked for."""
    model, tokenizer = small_model()
    model.to(dtype)
    pretrained.save(model, tokenizer, tmp_path)
    assert {weight.dtype for weight in stored(tmp_path).values()} == {dtype}
    back, _ = pretrained.load(tmp_path)
    for name, weight in model.state_dict().items():
        assert back.state_dict()[name].dtype == torch.float32
        assert torch.equal(back.state_dict()[name], weight.float())
    pretrained.save(model, tokenizer, tmp_path, dtype=torch.bfloat16)
    assert {weight.dtype for weight in stored(tmp_path).values()} == {torch.bfloat16}


def test_loading_leaves_the_random_numbers_of_others():
    before = torch.get_rng_state()
    pretrained.load("senses")
    assert torch.equal(torch.get_rng_state(), before)


def test_loading_does_not_round(tmp_path):
    model, tokenizer = small_model()
    torch.nn.init.normal_(model.double().head.weight)
    pretrained.save(model, tokenizer, tmp_path)
    torch.set_default_dtype(torch.float64)
    try:
        back, _ = pretrained.load(tmp_path)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(back.head.weight, model.head.weight)
    assert back.head.weight is back.tokens.weight  # tied matrices are still one


def test_the_command_stores_bfloat16(tmp_path, monkeypatch):
    folder = tmp_path / "made"
    arguments = ["pretrained", "senses", "--limit", "64", "--steps", "1"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--out", str(folder)])
    train_shipped.main()
    assert {weight.dtype for weight in stored(folder).values()} == {torch.bfloat16}


def test_weights_that_are_missing_are_named_in_a_short_sentence(tmp_path):
    pretrained.save(*small_model(), tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('_layers": 1', '_layers": 2'))
    with pytest.raises(ValueError, match=r"Missing key.* \"blocks\.1") as caught:
        pretrained.load(tmp_path)
    assert len(str(caught.value)) < 320 and "\n" not in str(caught.value)


def test_a_folder_that_is_named_like_a_shipped_model_is_not_mistaken(
    tmp_path, monkeypatch
):
    model, tokenizer = small_model()
    monkeypatch.chdir(tmp_path)
    pretrained.save(model, tokenizer, "stories")
    sentence = r"shipped model and a folder here: load\('./stories'\)"
    with pytest.raises(ValueError, match=sentence):
        pretrained.load("stories")
    assert pretrained.load("./stories")[0].config == model.config


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    model, tokenizer = small_model(vocab_size=12)
    folder = tmp_path / "folder"
    with pytest.raises(ValueError, match=r"tokenizer .* vocab_size=12, got 11"):
        pretrained.save(model, tokenizer, folder)
    assert not folder.exists()


def runs_of_words(text):
    words = text.split()
    return {
        " ".join(words[i : i + WORDS_IN_A_ROW])
        for i in range(len(words) - WORDS_IN_A_ROW + 1)
    }


def storyteller_bits(texts):
    """Bits per byte over 300 that fit the context, each read from its beginning."""
    model, tokenizer = pretrained.load("tinystories")
    encoded = zip(texts, tokenizer.encode_batch(texts), strict=True)
    fits = [(text, row) for text, row in encoded if len(row) < model.config.max_length]
    texts, rows = zip(*fits[:300], strict=True)
    end = tokenizer.eos_id  # before a story stands the end of another
    special = SimpleNamespace(pad_id=tokenizer.pad_id, bos_id=end, eos_id=end)
    batches = padded_batches(rows, batch_size=20, special=special)
    loss = mean_loss(model, batches, 15)
    labels = sum(len(row) + 1 for row in rows)
    return bits_per_byte(loss, labels, sum(len(text.encode()) for text in texts))


@pytest.mark.slow
@pytest.mark.skipif(not NEW_STORIES.is_file(), reason="needs the stories")
def test_the_storyteller_reads_new_stories_well(record_budget):
    """Of new stories every second one: the others chose the recipe."""
    new = storyteller_bits(load_texts(NEW_STORIES)[1::2])
    record_budget("storyteller, bits in a thousand bytes", round(1000 * new), 680)


@pytest.mark.slow
@pytest.mark.skipif(not REAL_STORIES.is_file(), reason="needs the training stories")
def test_the_storyteller_does_not_recite_its_training_stories():
    known = set()
    for text in load_texts(REAL_STORIES):
        known |= runs_of_words(text)
    assert runs_of_words(load_texts(REAL_STORIES, limit=1)[0]) <= known
    model, tokenizer = pretrained.load("tinystories")
    model, tokenizer = pretrained.load("tinystories")
    end = tokenizer.eos_id
    start = torch.full((20, 1), end)
    options = {"stop_id": end, "pad_id": tokenizer.pad_id}
    options["generator"] = torch.Generator().manual_seed(0)
    ids = sample(CachedStep(model), start, 250, **options)
    written = [tokenizer.decode(row) for row in ids]
    assert sum(len(text.split()) for text in written) > 1_000
    recited = [run for text in written for run in runs_of_words(text) & known]
    assert not recited
