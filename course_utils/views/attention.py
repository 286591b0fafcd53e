"""Show attention: a view of all maps of a forward pass, and a picture of one.

Hands numbers and strings to `attention_views`, which knows nothing of the course.
"""

from typing import Any

from IPython.display import display

from attention_views import explorer_html
from attention_views.bertviz_page import offline
from attention_views.page import LEVELS
from course_utils.checks import check_type, describe
from course_utils.views.display import HINT, IN_A_NOTEBOOK, display_view
from course_utils.views.maps import Maps
from lesson_plots.plots import attention_map, heatmap


def show_attention(
    recording: Any,
    tokens: Any,
    source: Any = None,
    *,
    title: str,
    part: str = "",
    layer: int = 0,
    head: int = 0,
) -> None:
    """Show every attention map of one forward pass, and a picture of one.

    recording: what `recording.record` gave, or the output of a model of `transformers`,
    loaded with attn_implementation="eager" and run with output_attentions=True; or the
    weights of one text: a tuple with one tensor "1 h q k" per layer, a dict {layer
    name: weights}, a tensor or an array.
    tokens: the text of the positions that attend (the target, with an encoder): strings
    or a tokenizer's encoding. source: the text that an encoder read.
    title: the finding, as a sentence. part ("encoder", "decoder", "cross" or "self";
    default: the last), layer and head (indices from 0) are shown first and in the
    picture.

    Raises ValueError for weights or tokens that do not fit, and for more than a page
    can hold.
    """
    _show(Maps([recording], tokens, source, title, (part, layer, head)), title)


def show_map(
    recording: Any,
    tokens: Any,
    source: Any = None,
    *,
    title: str,
    part: str = "",
    layer: int = 0,
    head: int = 0,
) -> None:
    """Show one map of `show_attention` as a picture alone, of models of any size."""
    check_type(str, title=title)
    _show_picture(Maps([recording], tokens, source, title, (part, layer, head)))


def show_comparison(
    before: Any,
    after: Any,
    tokens: Any,
    source: Any = None,
    *,
    title: str,
    part: str = "",
    layer: int = 0,
    head: int = 0,
) -> None:
    """Show the maps of two recordings and their difference, and a picture of that.

    before, after: two recordings with layers, heads and sizes that are the same; all
    else as in `show_attention`. The difference is after minus before, from -1 to 1.
    """
    _show(Maps([before, after], tokens, source, title, (part, layer, head)), title)


def show_bertviz(page: Any, sentence: str) -> None:
    """Show a view of bertviz, made self-contained.

    page: what bertviz's `head_view` or `model_view` give with html_action="return".
    Source: Vig 2019, "A Multiscale Visualization of Attention".
    """
    check_type(str, sentence=sentence)
    if not hasattr(page, "data"):
        made = 'what bertviz gives with html_action="return"'
        raise TypeError(f"page must be {made}, got {describe(page)}")
    data = {"text/html": offline(page.data, sentence)}
    display(data | {"text/plain": f"{sentence} {HINT}"}, raw=True)


def _show(maps: Maps, title: str) -> None:
    check_type(str, title=title)
    maps.check_total()
    html = explorer_html(
        maps.recordings[0],
        maps.texts,
        after=maps.recordings[1] if maps.recordings[1:] else None,
        title=title,
        sentence=f"{maps.sentence} {HINT}",
        sides=maps.sides,
        at=maps.at,
        **IN_A_NOTEBOOK,
    )
    display_view(html, maps.sentence)
    _show_picture(maps)


def _show_picture(maps: Maps) -> None:
    """Show the chosen map, or what changed in it, as a PNG."""
    queries, keys = (_subsampled(side) for side in maps.labels)
    if len(maps.chosen) == 1:
        (weights,) = maps.chosen
        mask = weights > 0
        attention_map(weights, queries, keys, maps.place, mask=mask, alt=maps.sentence)
        return
    before, after = maps.levels()
    changed = {"after − before": (after - before) / LEVELS}
    axes = ("query position", "key position")
    mask = (maps.chosen[0] > 0) | (maps.chosen[1] > 0)
    heatmap(changed, axes, queries, keys, signed=True, mask=mask, alt=maps.sentence)


def _subsampled(words: list[str]) -> list[str]:
    """At most some 40 of the words, evenly spaced; the others become empty."""
    step = 1 + len(words) // 40
    return [word if index % step == 0 else "" for index, word in enumerate(words)]
