"""Write a language model as one HTML file in which it runs.

Knows the names and shapes of a LLaMA-style model, and bytes. Knows nothing of PyTorch.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np

from attention_views.page import lines_of, safe_json
from attention_views.typeface import font_face

MOST_WEIGHTS = 4_000_000  # in a file of 5.5 MB, which a mail still takes
LIVING = ("tokenizer", "kernels", "model", "sampling", "page", "start")
SCRIPTS = ("kit.js", *(f"living/{name}.js" for name in LIVING))


def quantized(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """A matrix "row column" as int8 from -127 to 127, and a float32 scale for each row.

    `integers * scales[:, None]` is the matrix again, up to half a scale in each number.
    """
    matrix = np.asarray(matrix, dtype=np.float32)
    largest = np.abs(matrix).max(axis=1)
    scales = np.where(largest > 0, largest, 1).astype(np.float32) / np.float32(127)
    return np.rint(matrix / scales[:, None]).astype(np.int8), scales


def living_page(
    config: Mapping[str, Any],
    weights: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
    *,
    title: str,
    opening: str,
    start_id: int,
    end_id: int,
) -> str:
    """The HTML of a page that writes, with the model inside; it loads nothing.

    config: vocab_size, d_model, num_heads, num_kv_heads, num_layers, max_length,
    rope_base and norm_eps of a LLaMA-style model. weights: its matrices "row column"
    and vectors by name: "tokens", "blocks.0.attention_norm", "norm", …; without "head",
    "tokens" is the output matrix, too. tokenizer: "tokens", the bytes of each id;
    "special", {id: name}; "merges", (left, right) in the order of learning, or
    None where each token is a whole word; "unknown", the id of any other word.
    opening: how the first story begins; a part of it in braces is the hero, in whose
    place a reader may type another. start_id, end_id: the tokens around a text.

    Raises ValueError for more than 4,000,000 weights and for numbers that are not
    finite.
    """
    arrays = {name: np.asarray(array, np.float32) for name, array in weights.items()}
    count = sum(array.size for array in arrays.values())
    if count > MOST_WEIGHTS:
        raise ValueError(
            f"model must have at most {MOST_WEIGHTS:,} weights for a page to send "
            f"around, got {count:,}: a file of about {count * 4 / 3e6 + 0.2:.0f} MB"
        )
    layout, integers, floats = [], [], []
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"weights[{name!r}] must hold finite numbers")
        rows, columns = (*array.shape, 0)[:2]
        layout.append({"name": name, "rows": rows, "columns": columns})
        if columns:
            codes, array = quantized(array)
            integers.append(codes.tobytes())
        floats.append(array.astype("<f4").tobytes())
    data = {
        "config": dict(config),
        "layout": layout,
        "tokenizer": {
            **tokenizer,
            "tokens": [token.decode("latin-1") for token in tokenizer["tokens"]],
        },
        "count": count,
        "opening": opening,
        "startId": start_id,
        "endId": end_id,
    }
    fields = {
        "title": escape(title),
        "style": font_face() + lines_of("living/page.css"),
        "model": safe_json(data),
        "integers": b64encode(b"".join(integers)).decode(),
        "floats": b64encode(b"".join(floats)).decode(),
        "kernels": b64encode(file("kernels.wasm").read_bytes()).decode(),
        "script": "".join(map(lines_of, SCRIPTS)),
        "writing": source("writing.html"),
    }
    return filled(source("page.html"), fields)


def filled(page: str, fields: Mapping[str, str]) -> str:
    """A page with each {{field}} in its place: in one pass, so that none is a mark."""
    return re.sub("{{([a-z]+)}}", lambda match: fields[match[1]], page)


def source(name: str, folder: str = "living") -> str:
    """A script, style or page of a folder of this package."""
    return file(name, folder).read_text("utf-8")


def file(name: str, folder: str = "living") -> Traversable:
    """A file of a folder of this package."""
    return files("attention_views").joinpath(folder, name)
