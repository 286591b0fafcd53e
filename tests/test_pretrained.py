"""The shipped models open, are small, can be made again, and do not recite."""

from pathlib import Path

import pytest
import torch

from course_utils import pretrained
from course_utils.data.hub import load_texts
from course_utils.decoding import CachedStep, sample
from course_utils.models import LlamaLM

REAL_STORIES = Path(__file__).parents[2] / "shared/data/tinystories/train.txt"
WORDS_IN_A_ROW = 24  # stock openings of such stories run to some fifteen words


def test_all_weights_together_are_at_most_15_megabytes(record_budget):
    sizes = [path.stat().st_size for path in pretrained.FOLDER.rglob("*.*")]
    record_budget("shipped models, bytes", sum(sizes), 15_000_000)
    assert {path.name for path in pretrained.FOLDER.iterdir()} == {*pretrained.RECIPES}


@pytest.mark.parametrize("name", pretrained.RECIPES)
def test_a_shipped_model_fits_its_tokenizer(name):
    model, tokenizer = pretrained.load(name)
    assert not model.training
    assert all(weight.dtype == torch.float32 for weight in model.parameters())
    rows = [v for k, v in vars(model.config).items() if k.endswith("vocab_size")]
    assert set(rows) == {tokenizer.vocab_size}


@pytest.mark.parametrize(
    "name, data, steps",
    [
        ("tinystories", "stories", 12),
        ("stories", "stories", 36),
        ("translator", "phrases", 12),
        ("senses", "senses", 40),
    ],
)
def test_the_command_that_made_it_still_learns(name, data, steps, tmp_path):
    recipe = pretrained.RECIPES[name](data, steps=steps, limit=150)
    history = recipe.run()
    assert history.losses[-1] < history.losses[0] - 0.3
    pretrained.save(recipe.model, recipe.tokenizer, tmp_path / name)
    model, tokenizer = pretrained.load(tmp_path / name)
    assert type(model) is type(recipe.model) and model.config == recipe.model.config
    for key, weight in recipe.model.state_dict().items():
        stored = model.state_dict()[key]
        assert torch.equal(weight.to(torch.bfloat16).float(), stored), key
    text = load_texts("stories", limit=1)[0] if data == "stories" else "The cat sleeps."
    assert tokenizer.encode(text) == recipe.tokenizer.encode(text)


def test_tied_matrices_are_still_one_after_loading(tmp_path):
    recipe = pretrained.tinystories("stories", limit=40, steps=1)
    assert isinstance(recipe.model, LlamaLM)
    pretrained.save(recipe.model, recipe.tokenizer, tmp_path)
    model, _ = pretrained.load(tmp_path)
    assert model.head.weight is model.tokens.weight


def test_load_names_what_ships_and_what_does_not_fit(tmp_path):
    with pytest.raises(ValueError, match=r"tinystories, stories, translator.*'gpt2'"):
        pretrained.load("gpt2")
    recipe = pretrained.stories(limit=20, steps=1)
    pretrained.save(recipe.model, recipe.tokenizer, tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"num_layers": 4', '"num_layers": 5'))
    with pytest.raises(ValueError, match=r"does not fit its config.*blocks\.4"):
        pretrained.load(tmp_path)


def runs_of_words(text):
    words = text.split()
    return {
        " ".join(words[i : i + WORDS_IN_A_ROW])
        for i in range(len(words) - WORDS_IN_A_ROW + 1)
    }


@pytest.mark.skipif(not REAL_STORIES.is_file(), reason="needs the training stories")
def test_the_storyteller_does_not_recite_its_training_stories():
    known = set()
    for text in load_texts(REAL_STORIES):
        known |= runs_of_words(text)
    assert runs_of_words(load_texts(REAL_STORIES, limit=1)[0]) <= known
    model, tokenizer = pretrained.load("tinystories")
    start = torch.full((20, 1), tokenizer.eos_id)
    generator = torch.Generator().manual_seed(0)
    ids = sample(
        CachedStep(model),
        start,
        250,
        stop_id=tokenizer.eos_id,
        pad_id=tokenizer.pad_id,
        generator=generator,
    )
    told = [tokenizer.decode(row) for row in ids]
    assert sum(len(text.split()) for text in told) > 1_000
    recited = [run for text in told for run in runs_of_words(text) & known]
    assert not recited
