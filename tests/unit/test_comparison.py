"""The comparison of two recordings: both maps and what changed, as computed."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from course_utils.views import show_comparison
from course_utils.views.maps import MOST_WEIGHTS
from lesson_plots import plots
from tests.support.view_data import changes, numbers, payload, stored_outputs

LAYERS, HEADS, TARGET, SOURCE = 3, 2, 5, 7
WORDS = [f"w{place}" for place in range(TARGET)]
ENGLISH = [f"s{place}" for place in range(SOURCE)]


def recording(seed, layers=LAYERS, heads=HEADS, count=TARGET):
    """Causal random weights of `layers` layers."""
    generator = torch.Generator().manual_seed(seed)
    future = torch.ones(count, count).triu(1).bool()
    weights = {}
    for layer in range(layers):
        scores = torch.randn(
            1, heads, count, count, generator=generator, dtype=torch.float64
        )
        masked = (2 * scores).masked_fill(future, -torch.inf)
        weights[f"blocks.{layer}"] = masked.softmax(-1)
    return weights


def stacked(weights):
    return torch.cat(list(weights.values()))


@pytest.fixture
def displayed():
    with stored_outputs() as stored:
        yield stored


def test_both_recordings_and_their_difference_are_shown(displayed):
    before, after = recording(0), recording(1)
    show_comparison(before, after, WORDS, title="It learned.", layer=2, head=1)
    data = payload(displayed[0][0]["text/html"])
    (part,) = data["parts"]
    assert part["shape"] == [LAYERS, HEADS, TARGET, TARGET]
    codes = numbers(part["map"]).reshape(2, *part["shape"])
    for side, weights in zip(codes, (before, after), strict=True):
        true = stacked(weights)
        assert ((side - 1).clamp(min=0) / 240 - true).abs().max() <= 1 / 479
        assert ((side == 0) == (true == 0)).all()
    true = stacked(after) - stacked(before)
    assert (changes(part) / 240 - true).abs().max() <= 2 / 479
    assert data["at"] == [0, 2, 1]
    assert data["names"] == ["before", "after"]
    assert data["tokens"] == [WORDS, []] and part["tokens"] == [0, 0]


def test_the_sentence_names_the_largest_change(displayed):
    before = torch.tensor([[[[1.0, 0.0], [0.75, 0.25]]]])
    after = torch.tensor([[[[1.0, 0.0], [0.125, 0.875]]]])
    show_comparison(before, after, ["it", " sat"], title="It looks at itself.")
    (view, _), (picture, about) = displayed
    sentence = (
        "It looks at itself. The largest change is from “sat” to “it”: before 0.75, "
        "after 0.12 (self attention, layer 0, head 0)."
    )
    assert view["text/plain"].startswith(sentence) and "trust" in view["text/plain"]
    assert f"<p>{view['text/plain']}</p>" in view["text/html"]
    assert picture["image/png"][:4] == b"\x89PNG"
    assert about["image/png"]["alt"] == picture["text/plain"] == sentence


def test_without_a_change_it_says_so_and_the_picture_is_white(displayed, monkeypatch):
    """The colors of a picture of zeros began at 0, so that 0 was deep blue."""
    weights = recording(0, count=12)
    show_comparison(weights, weights, [f"w{i}" for i in range(12)], title="The same.")
    assert "The same. Nothing changed (self attention" in displayed[0][0]["text/plain"]
    drawn = []
    monkeypatch.setattr(plots, "show", lambda figure, alt: drawn.append(figure))
    for values in (torch.zeros(3, 3), torch.tensor([[0.0, -0.25], [0.1, 0.0]])):
        plots.heatmap(values, signed=True, alt="What one sees.")
    limits = [figure.axes[0].images[0].get_clim() for figure in drawn]
    assert limits == [(-1, 1), (-0.25, 0.25)]


def test_the_picture_is_the_difference_centered_on_0(displayed, monkeypatch):
    given = []
    heatmap = plots.heatmap

    def keep(*values, **options):
        given.append((values, options))
        heatmap(*values, **options)

    monkeypatch.setattr("course_utils.views.attention.heatmap", keep)
    before, after = recording(0), recording(1)
    show_comparison(before, after, WORDS, title="It learned.", layer=1)
    (values, options) = given[0]
    ((name, matrix),) = values[0].items()
    assert name == "after − before" and options["signed"]
    true = (after["blocks.1"] - before["blocks.1"])[0, 0]
    assert np.abs(matrix - true.numpy()).max() <= 2 / 479


def test_an_encoder_decoder_is_compared_part_by_part(displayed):
    def output(seed):
        generator = torch.Generator().manual_seed(seed)
        shapes = {
            "encoder_attentions": (SOURCE, SOURCE),
            "decoder_attentions": (TARGET, TARGET),
            "cross_attentions": (TARGET, SOURCE),
        }
        weights = {
            field: [torch.rand(1, HEADS, *shape, generator=generator).softmax(-1)] * 2
            for field, shape in shapes.items()
        }
        return SimpleNamespace(**weights)

    show_comparison(output(0), output(1), WORDS, ENGLISH, title="T.", part="encoder")
    data = payload(displayed[0][0]["text/html"])
    assert [part["name"] for part in data["parts"]] == ["encoder", "decoder", "cross"]
    assert [part["tokens"] for part in data["parts"]] == [[1, 1], [0, 0], [0, 1]]
    assert data["tokens"] == [WORDS, ENGLISH] and data["at"][0] == 0


def test_layers_of_other_names_or_shapes_are_refused():
    renamed = {f"layer.{i + 4}": one for i, one in enumerate(recording(1).values())}
    for after in (renamed, recording(1, layers=2), recording(1, heads=1)):
        with pytest.raises(ValueError, match=r"same layers .* only one .* self layer"):
            show_comparison(recording(0), after, WORDS, title="Another model.")


def test_both_together_must_fit_a_page(displayed):
    half = {f"a.{i}": torch.zeros(1, 8, 128, 128) for i in range(10)}
    total = sum(layer.numel() for layer in half.values())
    assert total <= MOST_WEIGHTS < 2 * total
    words = [f"w{i}" for i in range(128)]
    with pytest.raises(ValueError, match=r"2,400,000 weights, got 2,621,440"):
        show_comparison(half, half, words, title="t")
    assert displayed == []
