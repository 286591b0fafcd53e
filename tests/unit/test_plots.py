"""The figures: what they show, what they carry, and what they refuse."""

import itertools
import warnings
from io import BytesIO

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from lesson_plots import plots, style

QUERIES, KEYS, HEADS = 3, 5, 7
WEIGHTS = torch.rand(HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(0))
AXES = ("x", "y")
ALT = "What one sees."
ROWS, COLUMNS = list("abc"), list("vwxyz")

FIGURES = {
    "heatmap": lambda: plots.heatmap(WEIGHTS[0], AXES, ROWS, COLUMNS, alt=ALT),
    "heatmaps": lambda: plots.heatmap(
        {"a": WEIGHTS[0], "b": -WEIGHTS[1]}, signed=True, alt=ALT
    ),
    "numbers": lambda: plots.heatmap(
        {"a": WEIGHTS[0], "b": WEIGHTS[1]}, numbers=True, alt=ALT
    ),
    "map": lambda: plots.attention_map(
        WEIGHTS[0], ROWS, COLUMNS, marks=[(0, 1)], alt=ALT
    ),
    "maps": lambda: plots.attention_map(WEIGHTS, ROWS, COLUMNS, alt=ALT),
    "equation": lambda: plots.equation(
        [("Q", WEIGHTS[0], "query"), "→", ("s", WEIGHTS[0, :, 0], "weight")],
        ROWS,
        alt=ALT,
    ),
    "curves": lambda: plots.curves(
        {"a": ([1, 2, 3], [1, 2, 4]), "b": ([1, 10], [3, 1])},
        AXES,
        log="xy",
        lines={"floor": 1},
        alt=ALT,
    ),
    "points": lambda: plots.points(
        {"a": ([1, 2, 3], [1, 2, 4]), "b": ([1, 10], [3, 1])},
        AXES,
        texts={"b": ["first", ""]},
        alt=ALT,
    ),
    "bars": lambda: plots.bars(
        ROWS, {"weight": [1, 2, 3], "key": [3, 2, 1]}, AXES, alt=ALT
    ),
    "histograms": lambda: plots.histograms({"d": WEIGHTS}, "q · k", (-1, 1), alt=ALT),
    "arrows": lambda: plots.arrows({"query": (1, 2), "key": [-1.0, 0.5]}, alt=ALT),
}


@pytest.fixture
def displayed(monkeypatch):
    """Collects what `display` is given instead of displaying it."""
    outputs = []

    def keep(data, metadata, raw):
        outputs.append((data, metadata, raw))

    monkeypatch.setattr(style, "display", keep)
    return outputs


@pytest.fixture
def drawn(monkeypatch):
    """Collects the figures that `show` is given instead of showing them."""
    figures = []
    monkeypatch.setattr(plots, "show", lambda figure, alt: figures.append(figure))
    return figures


def picture(output):
    return np.asarray(Image.open(BytesIO(output[0]["image/png"])).convert("RGB"), float)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_one_small_png_with_alt_text(name, displayed):
    FIGURES[name]()
    ((data, metadata, raw),) = displayed
    assert raw and data["text/plain"] == ALT and metadata["image/png"]["alt"] == ALT
    assert data["image/png"].startswith(b"\x89PNG")
    assert 1_000 < len(data["image/png"]) < 40_000
    assert picture(displayed[0]).std() > 5, "the picture is blank"
    assert not plt.get_fignums(), "a figure was left open"


@pytest.mark.parametrize("name", ["heatmap", "curves"])
def test_the_same_arrays_give_the_same_bytes(name, displayed):
    FIGURES[name]()
    with plt.rc_context({"font.size": 20}):  # a reader's own style
        FIGURES[name]()
    assert displayed[0][0] == displayed[1][0]


KINDS = ["tensor", "gradient", "bfloat16", "numpy", "read-only", "reversed", "list"]


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_numpy_and_lists_draw_the_same(kind, displayed):
    values = (WEIGHTS[0] * 8).round() / 8
    same = {
        "tensor": values,
        "gradient": values.clone().requires_grad_(),
        "bfloat16": values.bfloat16(),
        "numpy": values.numpy(),
        "read-only": np.broadcast_to(values.numpy(), values.shape),
        "reversed": values.flip(0).numpy()[::-1],
        "list": values.tolist(),
    }[kind]
    plots.heatmap(values, alt=ALT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.heatmap(same, alt=ALT)
    assert displayed[0][0] == displayed[1][0]


def test_the_default_device_does_not_matter(displayed):
    for device in ("cpu", "meta"):
        with torch.device(device):
            plots.curves({"a": [1, 2, 3]}, AXES, alt=ALT)
            plots.attention_map([[1.0, 0.0]], "a", "bc", mask=[[True, False]], alt=ALT)
    assert displayed[0][0] == displayed[2][0] and displayed[1][0] == displayed[3][0]


def test_a_gap_and_infinity_are_drawn_where_they_mean_something(displayed):
    plots.curves({"a": [1.0, float("nan"), 2.0]}, AXES, alt=ALT)
    plots.curves({"a": [1.0, 1.5, 2.0]}, AXES, alt=ALT)
    assert displayed[0][0] != displayed[1][0]
    plots.histograms({"a": [-np.inf, 0, 1]}, "x", (-1, 1), alt=ALT)
    plots.histograms({"a": [-7, 0, 1]}, "x", (-1, 1), alt=ALT)
    assert displayed[2][0] == displayed[3][0], "counted at the edge"


def test_columns_are_named_below_their_matrix(displayed):
    parts = [("Q", np.ones((2, 2)), "query"), ("K", np.ones((2, 1)), "key")]
    plots.equation(parts, alt=ALT)
    plots.equation(parts, columns={"K": ["offers"]}, alt=ALT)
    assert words_of(displayed[1]) == ["Q", *"11", *"11", "K", *"11", "offers"]
    plain, named = picture(displayed[0]), picture(displayed[1])
    below = named[len(plain) :].min(axis=(0, 2)) < 200
    assert np.flatnonzero(below).min() > named.shape[1] / 2, "K is on the right"


def test_no_label_is_cut_at_the_edge(displayed):
    """Room was made for ticks like 0.05, and 0.025 was drawn."""
    words = ["was", "because", "tired", "sat", "the", "it", "cat"]
    changes = [0.076, 0.04, 0.076, 0.167, 0.093, 0.153, 0.087]
    series = {"words alone": [0] * 7, "words + numbers": changes}
    plots.bars(words, series, ("word", "change"), alt=ALT)
    assert (picture(displayed[0])[:, :4] > 250).all()


def test_colors_start_at_zero_or_are_centered_on_it(displayed):
    def middle(values, signed):
        plots.heatmap(values, signed=signed, alt=ALT)
        image = picture(displayed[-1])
        return image[image.shape[0] // 3, image.shape[1] // 3]

    big = np.ones((12, 12))  # too many cells for numbers
    zeros_and_one = np.zeros((12, 12))
    zeros_and_one[-1, -1] = 1
    assert (middle(zeros_and_one, False) == 255).all()
    assert (middle(big, False) < 100).all()
    assert (middle(zeros_and_one, True) > 240).all()
    red, _, blue = middle(big, True)
    assert red > blue
    red, _, blue = middle(-big, True)
    assert blue > red


def words_of(output):
    return output[1]["image/png"]["words"].split(" | ")


def test_the_words_and_numbers_drawn_are_stored(displayed):
    plots.heatmap([[1.0, 0.25]], ("row", "column"), ["a"], ["b", "c"])
    cells, labels = ["1", "0.25"], ["column", "b", "c", "row", "a"]
    assert words_of(displayed[0]) == [*cells, *labels]
    plots.heatmap(np.ones((11, 11)), scale="share of heads")
    assert {"share of heads", "1.0"} <= set(words_of(displayed[1]))


def test_words_that_are_not_drawn_are_not_stored(displayed):
    """Ticks beyond the ends of an axis, the axes of an equation, hidden texts."""
    plots.curves({"loss": [3, 1]}, ("step", "nats"), "falls")
    assert "−1" not in words_of(displayed[0]) and "0" in words_of(displayed[0])
    plots.equation([("Q", [[7]], "query")])
    assert words_of(displayed[1]) == ["Q", "7"]
    alt = displayed[1][0]["text/plain"]
    assert alt == "A figure with these words: Q | 7"
    figure = Figure()
    figure.text(0.5, 0.5, "seen")
    figure.text(0.5, 0.4, "unseen").set_visible(False)
    plots.show(figure)
    assert words_of(displayed[2]) == ["seen"]


def test_whole_numbers_have_whole_ticks(displayed):
    """Twenty steps were ticked 0.0, 2.5, 5.0 …"""
    plots.curves({"loss": range(20)}, ("step", "nats"))
    assert {"0", "3", "18"} <= set(words_of(displayed[0]))
    plots.curves({"loss": ([0.5, 1.5], [1, 2])}, ("share", "nats"))
    assert "0.6" in words_of(displayed[1])


def test_a_logarithmic_axis_is_labeled_in_numbers_that_can_be_read(displayed):
    """Between 0.04 and 0.5 only one tick had a label, 10 to the power of -1."""
    steps = [3_000, 130_000]
    plots.curves({"loss": (steps, [0.04, 0.5])}, ("steps", "nats"), log="xy")
    words = set(words_of(displayed[0]))
    assert {"0.05", "0.1", "0.2", "5,000", "100,000"} <= words
    plots.curves({"loss": (steps, [1e-7, 0.5])}, ("steps", "nats"), log="y")
    assert "0.5" not in words_of(displayed[1])


@pytest.mark.parametrize("letters", [3, 40])
def test_a_legend_below_lies_within_its_figure(letters, drawn):
    """Four long labels in a line were cut off on both sides."""
    plots.bars("abc", {f"{'m' * letters} {n}": range(3) for n in range(5)}, AXES)
    (legend,) = drawn[0].legends
    assert legend.get_window_extent().width <= drawn[0].bbox.width


def test_names_at_the_ends_of_lines_do_not_touch(drawn):
    lines = {"floor": 1.01, "ceiling": 5}
    plots.curves(
        {name: [0, 1 + i / 99] for i, name in enumerate("abcd")}, AXES, lines=lines
    )
    (axis,) = drawn[0].axes
    drawn[0].draw_without_rendering()
    boxes = sorted(
        (text.get_window_extent() for text in axis.texts), key=lambda b: b.y0
    )
    assert [text.get_text() for text in axis.texts][-1] == "ceiling"
    assert all(a.y1 <= b.y0 + 1 for a, b in itertools.pairwise(boxes))
    assert axis.bbox.y0 < boxes[0].y1 and boxes[-1].y0 < axis.bbox.y1 + 20


def test_runs_of_one_kind_are_dots_of_one_color(drawn):
    runs = {f"seed {i}": [i, 2 * i] for i in range(3)}
    plots.bars("ab", {"mean": [1, 2], **runs}, AXES)
    (axis,) = drawn[0].axes
    assert not axis.patches and len(axis.lines) == 4
    assert len({line.get_color() for line in axis.lines[1:]}) == 1
    labels = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert sorted(labels) == ["each seed", "mean"]


def test_a_mask_is_hatched_where_it_hides(drawn):
    mask = torch.ones(3, 3).tril().bool()
    plots.heatmap(mask)
    plots.attention_map(mask.double() / 3, "abc", "abc")
    plots.attention_map(torch.full((3, 3), 1 / 3), "abc", "abc")
    plots.heatmap(mask.double() - 1 / 2, signed=True, mask=mask)
    counts = [
        [bool(p.get_hatch()) for p in f.axes[0].patches].count(True) for f in drawn
    ]
    assert counts == [3, 3, 0, 3]


def test_each_of_several_matrices_has_its_own_columns(drawn):
    """Columns were numbered as in the first matrix."""
    plots.heatmap({"a": np.ones((2, 9)), "b": np.ones((2, 5))}, alt=ALT)
    ticks = [axis.get_xticklabels() for axis in drawn[0].axes[:2]]
    assert [len(labels) for labels in ticks] == [9, 5]


def test_a_weight_behind_the_mask_is_drawn_as_a_mistake(displayed):
    """The picture of a model that cheats was that of an honest one."""
    mask = torch.ones(2, 2).tril().bool()
    for row in ([1.0, 0.0], [0.5, 0.5]):
        weights = torch.tensor([row, [0.3, 0.7]])
        plots.attention_map(weights, "ab", "ab", mask=mask, alt=ALT)
    red = np.array([int(plots.ROLES["mistake"][i : i + 2], 16) for i in (1, 3, 5)])
    honest, leaky = (
        (np.abs(picture(one) - red).max(-1) <= 2).mean() for one in displayed
    )
    assert honest == 0 and leaky > 0.05
    assert "0.5 | 0.5" in displayed[1][1]["image/png"]["words"]


@pytest.mark.parametrize("word", [r"$\bad$", "a_b$", "_hidden"])
def test_words_are_drawn_as_they_are(word, displayed):
    plots.bars([word], {word: [1.0], "b": [2.0]}, (word, word), title=word, alt=ALT)
    plots.curves({word: [1, 2], "b": [2, 1]}, AXES, lines={word: 1.5}, alt=ALT)
    plots.points({word: ([1], [2]), "b": ([2], [1])}, AXES, alt=ALT)
    plots.arrows({word: (1, 1)}, title=word, alt=ALT)
    plots.heatmap({word: [[1.0]]}, (word, word), [word], [word], alt=ALT)
    for output in displayed:
        words = output[1]["image/png"]["words"].replace("\\", "")
        assert word.replace("\\", "") in words, words


def test_a_label_that_names_a_role_gets_its_color(displayed):
    plots.bars(["a"], {"query": [1.0]}, AXES, alt=ALT)
    plots.bars(["a"], {"query": [1.0]}, AXES, roles={"query": "mistake"}, alt=ALT)
    for output, role in zip(displayed, ("query", "mistake"), strict=True):
        expected = np.array([int(plots.ROLES[role][i : i + 2], 16) for i in (1, 3, 5)])
        assert (np.abs(picture(output) - expected).max(-1) <= 2).mean() > 0.1


def test_a_letter_that_the_font_lacks_is_no_warning_and_others_stay(
    displayed, monkeypatch
):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.bars(["\u65e5", "\U0001f469"], {"a": [1, 2]}, AXES, alt=ALT)
    figure = plots.Figure()

    def warns(*given, **named):
        warnings.warn("no room", stacklevel=2)

    monkeypatch.setattr(figure, "savefig", warns)
    with pytest.warns(UserWarning, match="no room"), pytest.raises(OSError):
        plots.show(figure, alt=ALT)


def test_a_mark_frames_the_cell_of_its_row_and_column(drawn):
    plots.attention_map(WEIGHTS[0], ROWS, COLUMNS, marks=[(0, 1), (2, 4)], alt=ALT)
    frames = [patch for patch in drawn[0].axes[0].patches if patch.get_width() == 1]
    assert [frame.get_xy() for frame in frames] == [(0.5, -0.5), (3.5, 1.5)]
