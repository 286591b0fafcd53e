"""The views of bertviz without network access: script, d3 and jQuery are in the page.

Knows what bertviz writes and which packages contain its libraries; they are read from
where they are installed when a view is shown. Knows nothing of models.
"""

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import bertviz
from IPython.display import display

from course_utils.looking.views.maps import Maps
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
    tokens: Iterable[str],
    source: Iterable[str] | None = None,
    *,
    title: str,
    view: str = "head",
) -> None:
    """Show bertviz's head view or model view, and a picture of one map.

    Arguments and errors as in `explorer.show_attention`; view: "head" or "model".
    The weights of a `transformers` model with an encoder go in under "encoder.{i}",
    "decoder.{i}" and "cross.{i}".

    Source: Vig 2019, "A Multiscale Visualization of Attention".
    """
    check_choice("view", view, tuple(VIEWS))
    maps = Maps(recording, tokens, source, title)
    maps.choose("", 0, 0)
    html = VIEWS[view](**_arguments(maps), html_action="return").data
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


def _arguments(maps: Maps) -> dict[str, Any]:
    """The arguments of bertviz's views, with weights rounded to four decimals.

    So they are the same on every processor.
    """
    weights = {
        name: [layer[None].round(decimals=4) for layer in part.values()]
        for name, part in maps.parts.items()
    }
    if "self" in weights:
        return {"attention": weights["self"], "tokens": maps.tokens}
    named = {f"{name}_attention": part for name, part in weights.items()}
    return {**named, "encoder_tokens": maps.source, "decoder_tokens": maps.tokens}
