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


def offline(html: str, sentence: str) -> str:
    """The HTML of bertviz made self-contained; its id is a hash of its content.

    html: what `head_view` or `model_view` return with html_action="return". sentence:
    what stands above the view. Weights get four decimals, so that they are the same on
    every processor.

    Raises ValueError for HTML that is not what bertviz 1.4 writes.
    """
    match = _PARTS.fullmatch(html)
    own = re.search(r"bertviz-[0-9a-f]{32}", html)
    if not (match and own):
        raise ValueError("html must be what bertviz 1.4 returns")
    decoder = json.JSONDecoder(parse_float=lambda number: round(float(number), 4))
    params, end = decoder.raw_decode(match["rest"])
    script = match["rest"][match["rest"].index("\n", end) :]
    params["root_div_id"] = ""
    body = match["body"].replace("<select id=", f"<select {_SELECT} id=")
    content = body.replace(own[0], "") + script + json.dumps(params)
    mark = f"bertviz-{sha256(content.encode()).hexdigest()[:12]}"
    data = json.dumps({**params, "root_div_id": mark}, separators=(",", ":"))
    sources = {
        name: files(package).joinpath(path).read_text("utf-8")
        for name, (package, path) in LIBRARIES.items()
    }
    frame = files("attention_views").joinpath("bertviz.html").read_text("utf-8")
    return Template(frame).substitute(
        mark=mark,
        sentence=escape(sentence),
        hint="Run this cell, or trust the notebook, to explore all heads.",
        body=body.replace(own[0], mark).strip(),
        script=match["start"] + data.replace("<", "\\u003c") + ";" + script,
        **{name: text.replace("</", "<\\/") for name, text in sources.items()},
    )
