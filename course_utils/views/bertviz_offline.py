"""The views of bertviz with no network: its script, d3 and jQuery stand in the page.

Knows what bertviz writes and which packages bring its libraries: they are read from
where they are installed when a view is shown. Knows nothing of models.
"""

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

import bertviz
from IPython.display import display

from course_utils.views.maps import Maps
from course_utils.views.page import HINT

VIEWS = {"head": bertviz.head_view, "model": bertviz.model_view}
LIBRARIES = {
    "d3": ("mpld3", "js/d3.v5.min.js"),
    "jquery": ("xstatic.pkg.jquery", "data/jquery.min.js"),
}
_LOADER = re.compile(r"require\.config\(.*?function ?\(\$, d3\) ?\{", re.DOTALL)
_PARAMS = "const params = "


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
    The weights of a `transformers` model go in by name: {f"layer.{i}": weights for i,
    weights in enumerate(outputs.attentions)}, and with an encoder likewise under
    "encoder.{i}", "decoder.{i}" and "cross.{i}".

    Source: Vig 2019, "A Multiscale Visualization of Attention".
    """
    if view not in VIEWS:
        raise ValueError(f"view must be one of {', '.join(VIEWS)}, got {view!r}")
    maps = Maps(recording, tokens, source, title)
    maps.choose("", 0, 0)
    html = VIEWS[view](**_arguments(maps), html_action="return").data
    sentence = f"{maps.sentence} {HINT}"
    display({"text/html": offline(html, sentence), "text/plain": sentence}, raw=True)
    maps.show_picture()


def offline(html: str, sentence: str) -> str:
    """bertviz's HTML as it needs nothing else; its id is made from what it holds.

    Raises ValueError for HTML that is not what bertviz 1.4 writes.
    """
    mark = re.search(r"bertviz-[0-9a-f]{32}", html)
    loader = _LOADER.search(html)
    if not (mark and loader and _PARAMS in html):
        raise ValueError("html must be what bertviz 1.4 returns")
    body = html[html.index("</script>") + 9 : html.rindex("<script", 0, loader.start())]
    before, after = html[loader.end() :].split(_PARAMS, 1)
    params, end = json.JSONDecoder().raw_decode(after)
    rest = after[after.index("\n", end) : after.rindex("});")]
    params["root_div_id"] = "?"
    content = body.replace(mark[0], "?") + rest + json.dumps(params)
    name = f"bertviz-{sha256(content.encode()).hexdigest()[:12]}"
    params["root_div_id"] = name
    data = json.dumps(params, separators=(",", ":")).replace("<", "\\u003c")
    body = body.replace(mark[0], name)
    body = body.replace("<select id=", '<select aria-label="choose" id=')
    return (
        f"<p>{escape(sentence)}</p>\n"
        f"<style>#{name}{{overflow:auto;color:#000;background:#fff;padding:8px}}"
        f"#{name} svg{{max-width:none}}</style>\n{body.strip()}\n"
        f"<script>(()=>{{const load=f=>{{const module={{exports:{{}}}};"
        f"f(module,module.exports);return module.exports}};\n"
        f"(($,d3)=>{{{before}{_PARAMS}{data};{rest}}})"
        f"(load({_library('jquery')}),load({_library('d3')}))}})()</script>"
    )


def _arguments(maps: Maps) -> dict[str, Any]:
    """What bertviz calls the maps. Four decimals are the same on every processor."""
    weights = {
        name: [layer[None].double().cpu().round(decimals=4) for layer in part.values()]
        for name, part in maps.parts.items()
    }
    if "self" in weights:
        return {"attention": weights["self"], "tokens": maps.tokens}
    named = {f"{name}_attention": part for name, part in weights.items()}
    return {**named, "encoder_tokens": maps.source, "decoder_tokens": maps.tokens}


def _library(name: str) -> str:
    """A third-party script as a function of its own: it sees no globals of the page."""
    package, path = LIBRARIES[name]
    source = files(package).joinpath(path).read_text("utf-8")
    source = source.replace("</script", "<\\/script")
    return f"function(module,exports,define){{{source}\n}}"
