"""The views of bertviz without network access: script, d3 and jQuery are in the page.

Knows what bertviz writes and which packages contain its libraries; they are read from
where they are installed when a view is shown. Knows nothing of models.
"""

import json
import re
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import bertviz
from IPython.display import display

from course_utils.looking.views.maps import Maps, check_total
from course_utils.looking.views.page import HINT
from course_utils.shapes import check_choice, check_type

VIEWS = {"head": bertviz.head_view, "model": bertviz.model_view}
LIBRARIES = {
    "d3": ("mpld3", "js/d3.v5.min.js"),
    "jquery": ("xstatic.pkg.jquery", "data/jquery.min.js"),
}
_SELECT = 'aria-label="choose" data-lm-suppress-shortcuts="true"'  # for JupyterLab
_PARTS = re.compile(  # a tag that loads require.js, a body, a script that asks for it
    r"<script src=[^>]*></script>(?P<body>.*?)<script[^>]*>.*?\(\$, d3\) ?\{"
    r"(?P<start>.*?const params = )(?P<rest>.*)\}\);\s*</script>\s*",
    re.DOTALL,
)


def show_bertviz(
    recording: Any,
    tokens: Any,
    source: Any = None,
    *,
    title: str,
    view: str = "head",
    layer: int = 0,
    head: int = 0,
) -> None:
    """Show bertviz's head view or model view, and a picture of one map.

    Arguments and errors as in `explorer.show_attention`; view: "head" or "model".
    layer, head: of which map the picture is, counted among those that are given.
    In one view of bertviz all kinds of attention have the same number of layers and of
    heads. Kinds that differ get views of their own.

    Source: Vig 2019, "A Multiscale Visualization of Attention".
    """
    check_choice("view", view, tuple(VIEWS))
    maps = Maps(recording, tokens, source, title)
    check_total(maps)
    maps.choose("", layer, head)
    for parts in _alike(maps):
        html = VIEWS[view](**_arguments(maps, parts), html_action="return").data
        html = offline(html, maps.sentence)
        display({"text/html": html, "text/plain": f"{maps.sentence} {HINT}"}, raw=True)
    maps.show_picture()


def offline(html: str, sentence: str) -> str:
    """The HTML of bertviz made self-contained; its id is a hash of its content.

    Raises ValueError for HTML that is not what bertviz 1.4 writes.
    """
    check_type(str, html=html, sentence=sentence)
    found = _PARTS.fullmatch(html)
    own = re.search(r"bertviz-[0-9a-f]{32}", html)
    if not (found and own):
        raise ValueError("html must be what bertviz 1.4 returns")
    params, end = json.JSONDecoder().raw_decode(found["rest"])
    script = found["rest"][found["rest"].index("\n", end) :]
    params["root_div_id"] = ""
    body = found["body"].replace("<select id=", f"<select {_SELECT} id=")
    content = body.replace(own[0], "") + script + json.dumps(params)
    mark = f"bertviz-{sha256(content.encode()).hexdigest()[:12]}"
    data = json.dumps({**params, "root_div_id": mark}, separators=(",", ":"))
    sources = {
        name: files(package).joinpath(path).read_text("utf-8")
        for name, (package, path) in LIBRARIES.items()
    }
    frame = (
        files("course_utils.looking.views").joinpath("bertviz.html").read_text("utf-8")
    )
    return Template(frame).substitute(
        mark=mark,
        sentence=escape(sentence),
        hint=HINT,
        body=body.replace(own[0], mark).strip(),
        script=found["start"] + data.replace("<", "\\u003c") + ";" + script,
        **{name: text.replace("</", "<\\/") for name, text in sources.items()},
    )


def _alike(maps: Maps) -> list[list[str]]:
    """The parts in groups that bertviz can draw as one view.

    The parts of a view have the same number of layers and of heads, and there are
    several only where there is an encoder.
    """
    groups: dict[tuple, list[str]] = {}
    for part, layers in maps.parts.items():
        heads = len(next(iter(layers.values())))
        alone = maps.source is None or _is_behind_cache(maps, part)
        group = (part,) if alone else (len(layers), heads)
        groups.setdefault(group, []).append(part)
    return list(groups.values())


def _is_behind_cache(maps: Maps, part: str) -> bool:
    """Whether a text looks at itself with fewer queries than keys."""
    queries, keys = maps.sides[part]
    return queries != keys and maps.kinds[part] != "cross"


def _arguments(maps: Maps, parts: list[str]) -> dict[str, Any]:
    """The arguments of bertviz's views, with weights rounded to four decimals.

    So they are the same on every processor.
    """
    numbers = _layer_numbers(maps, parts)
    weights: dict[str, Any] = {}
    for part in parts:
        layers = [layer[None].round(decimals=4) for layer in maps.parts[part].values()]
        if numbers is not None:  # bertviz looks these layers up, and the first heads
            layers = {0: layers[0], **dict(zip(numbers, layers, strict=True))}
        weights[maps.kinds[part]] = layers
    named = {} if numbers is None else {"include_layers": numbers}
    if _is_behind_cache(maps, parts[0]):
        queries, keys = (maps.texts[side] for side in maps.sides[parts[0]])
        (named["cross_attention"],) = weights.values()
        return {**named, "encoder_tokens": keys, "decoder_tokens": queries}
    if maps.source is None:
        (named["attention"],) = weights.values()
        return {**named, "tokens": maps.tokens}
    named |= {f"{kind}_attention": layers for kind, layers in weights.items()}
    return {**named, "encoder_tokens": maps.source, "decoder_tokens": maps.tokens}


def _layer_numbers(maps: Maps, parts: list[str]) -> list[int] | None:
    """The numbers of the layers, if these are not 0, 1, … anyway and the same for all.

    A label of two numbers, "1.0", is none; bertviz then counts the layers from 0.
    """
    labels = [list(maps.parts[part]) for part in parts]
    if any(other != labels[0] for other in labels):
        return None
    if not all(label.isdecimal() for label in labels[0]):
        return None
    numbers = [int(label) for label in labels[0]]
    if len(set(numbers)) < len(numbers) or numbers == list(range(len(numbers))):
        return None
    return numbers
