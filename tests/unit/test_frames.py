"""Frames to scrub through: the page, the still, and what is refused."""

import re

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from attention_views import frames_html
from attention_views.page import inflated
from course_utils.views.frames import show_frames
from tests.support.view_data import numbers, payload, stored_outputs

FRAMES, ROWS, COLUMNS = 5, 3, 7
CAPTIONS = [f"layer {i}" for i in range(FRAMES)]
TITLE = "It moves."


def picture(width):
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, width])
    return figure


KINDS = {
    "map": [torch.rand(ROWS, COLUMNS, dtype=torch.float64) for _ in range(FRAMES)],
    "points": [{"cat": (i, 2 * i), "dog": (1, -i)} for i in range(FRAMES)],
    "bars": [{"cat": i / 7, "dog": torch.tensor(-1.0)} for i in range(FRAMES)],
    "text": [f"Once upon a {'time ' * i}" for i in range(FRAMES)],
    "picture": [picture(i) for i in range(FRAMES)],
}


def shown(*given, **named):
    with stored_outputs() as outputs:
        show_frames(*given, title=TITLE, **named)
    return outputs


@pytest.mark.parametrize("kind", KINDS)
def test_frames_leave_a_view_and_one_still(kind):
    (view, _), (still, about) = shown(KINDS[kind], CAPTIONS)
    data = payload(view["text/html"])
    assert (data["kind"], data["captions"]) == (kind, CAPTIONS)
    assert view["text/plain"].startswith("It moves. From “layer 0” to “layer 4”.")
    assert still["image/png"].startswith(b"\x89PNG")
    if kind != "picture":
        assert {"layer 0", "layer 4"} <= set(about["image/png"]["words"].split(" | "))
        assert "layer 2" not in about["image/png"]["words"], "four frames of five"


def test_the_still_of_attention_needs_no_labels():
    causal = [torch.ones(3, 3).tril() / 3] * 2
    axes = ["query position", "key position"]
    _, (_, about) = shown(causal, "ab", axes=axes)
    assert {"query position", "0", "2"} <= set(about["image/png"]["words"].split(" | "))


def test_the_words_of_a_still_are_drawn_as_they_are():
    _, (_, about) = shown(["$1 and $2", "x"], ["$a$", "b"])
    assert about["image/png"]["words"].startswith("\\$a\\$ | \\$1 and \\$2")


def test_a_map_is_one_byte_a_cell_on_one_scale_for_all_frames():
    frames = [[[0.0, 1.0]], [[2.0, 4.0]]]
    data = payload(frames_html(frames, ["a", "b"], title=TITLE))
    assert numbers(data["map"]).tolist() == [0, 61, 121, 241] and data["limit"] == 4
    data = payload(
        frames_html([[[0.0, -2.0]], [[4.0, 2]]], "ab", title=TITLE, signed=True)
    )
    assert numbers(data["map"]).tolist() == [121, 61, 241, 181]


def test_what_leaks_through_a_mask_has_a_color_of_its_own():
    mask = np.tri(2) > 0
    maps = [[[1.0, 0], [0.5, 0.5]], [[0.5, 0.5], [0, 1]]]
    data = payload(frames_html(maps, "ab", title=TITLE, mask=mask))
    assert numbers(data["map"]).tolist() == [241, 0, 121, 121, 121, 255, 0, 241]


def test_bars_start_at_zero_and_points_fill_their_plane():
    bars = payload(frames_html(KINDS["bars"], CAPTIONS, title=TITLE))
    assert bars["low"] == [-1] and bars["frames"][0] == [636, 0]
    points = payload(frames_html(KINDS["points"], CAPTIONS, title=TITLE))
    assert points["low"] == [0, -4] and points["high"] == [4, 8]
    assert points["frames"][4] == [[1000, 1000], [250, 0]]


def test_twelve_frames_of_twenty_words_are_small():
    frames = np.random.default_rng(0).random((12, 20, 20))
    html = frames_html(frames, [str(i) for i in range(12)], title=TITLE)
    assert (
        len(frames_html(frames, list("abcdefghijkl"), title=TITLE, shared=True))
        < 12_000
    )
    assert len(re.sub("base64,[^)]*", "", html)) < 150_000


def test_a_last_bit_changes_nothing():
    frames = [np.array([[0.5, 1.0]]), np.array([[0.25, 0.125]])]
    nudged = [np.nextafter(frame, 2) for frame in frames]
    nudged[0][0, 1] = 1.0
    one, other = (frames_html(f, "ab", title=TITLE) for f in (frames, nudged))
    assert inflated(one) == inflated(other)


@pytest.mark.parametrize(
    ("frames", "captions", "options", "message"),
    [
        ([], [], {}, "at least one"),
        (KINDS["text"], CAPTIONS[1:], {}, "one for each of 5 frames"),
        (KINDS["text"], ["the same"] * 5, {}, "all different"),
        ([[[1.0]], {"a": 1.0}], "ab", {}, "of one kind"),
        ([{"a": 1.0}, {"b": 1.0}], "ab", {}, "the same labels"),
        ([[[1.0]], [[float("nan")]]], "ab", {}, "finite"),
        ([[[-1.0]], [[1.0]]], "ab", {}, "signed=True"),
        ([[[1.0, 2.0]]] * 2, "ab", {"columns": ["a"]}, "must fit"),
    ],
)
def test_frames_that_do_not_fit_are_refused(frames, captions, options, message):
    with pytest.raises(ValueError, match=message):
        shown(frames, captions, **options)
