"""Pages to send around: a trained model writes in one, in the other a model is trained.

Turns models, tokenizers and stories into the plain numbers that a page needs.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from html import escape
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

import torch
from IPython.display import display
from matplotlib.figure import Figure
from torch import nn

from attention_views.living import living_page
from attention_views.training import STILL as TRAINING_STILL
from attention_views.training import training_page
from course_utils.checks import (
    check_eval,
    check_index,
    check_same,
    check_type,
    describe,
)
from course_utils.tokenizer import BYTE_OF, Tokenizer
from known_worlds.stories import Story, story
from known_worlds.story_grammar import END, load_grammar
from known_worlds.story_graph import build_graph, read
from lesson_plots import style

OPENING = "Once upon a time, there was a little {girl named Lily}."
TITLE = "A storyteller that fits into a page"
HINT = "Run this cell, or trust the notebook, to let the model write here."
TRAINING_TITLE = "A page that learns to tell stories"
TRAINING_HINT = "Run this cell, or trust the notebook, to train the model here."
TRAINING_ALT = (
    "A page in which a model has learned: its loss falls from 6.7 past the line "
)
TRAINING_ALT += (
    "of the bigram almost to the floor, and below it stands a story of its own."
)
# The stories of notebook 00, by number, and how many words it reads at a time.
PLOTS = ["lost_way", "stuck_kite", "hurt_animal", "dark"]
TRAINED, HELD, WINDOW = range(10_000), range(10**6, 10**6 + 500), 192
# JupyterLab opens what is behind a link without its scripts; a button opens a real tab.
FRAME = """<div class="storyteller">
<p><a href="{source}" data-source="{source}" target="_blank">{title}: the page in a
tab of its own.</a>
<span>{hint}</span></p>
</div>
<style>
.jp-OutputArea .storyteller:has(iframe) p, .storyteller:has(iframe) span,
.jp-OutputArea-child:has(.storyteller iframe) + .jp-OutputArea-child:has(img),
.output:has(.storyteller iframe) + :is(img, :has(> img)) {{ display: none; }}
</style>
<script>
{{
  const root = document.currentScript.previousElementSibling.previousElementSibling;
  const link = root.querySelector("a");
  const frame = document.createElement("iframe");
  frame.title = link.textContent;
  frame.sandbox = "{sandbox}";
  frame.style = "width: 100%; height: min(620px, 70vh); border: 0";
  root.append(frame);
  const inLab = document.getElementById("jupyter-config-data");
  const show = () => {{ frame.src = link.href; }};
  const button = document.createElement("button");
  button.textContent = "Open the page in a tab of its own";
  button.onclick = () => window.open(link.href, "_blank", "noopener");
  if (inLab) root.append(button);
  const once = (_, observer) => {{ observer.disconnect(); show(); }};
  // Jupyter turns the name of a file into an address, before this script runs or after.
  const isName = link.getAttribute("href") === link.dataset.source;
  const href = {{ attributeFilter: ["href"] }};
  if (inLab && isName) new MutationObserver(once).observe(link, href);
  else show();
}}
</script>"""
STILL = 90  # so many tokens are written in the picture
MARKER = "#F6DC4E"  # as in the page: what surprised the model


def share_page(
    model: nn.Module,
    tokenizer: Tokenizer,
    path: str | Path,
    *,
    title: str = TITLE,
    opening: str = OPENING,
    start_id: int | None = None,
) -> Path:
    """Write a page in which the model runs, and return its path.

    The file needs no network: its weights are int8 with one scale a row.

    model: a `LlamaLM` of at most 4,000,000 weights. tokenizer: its own, from
    `train_bpe` or `train_words`. opening: how the first story begins; one part of it
    may stand in braces, such as {girl named Lily}: the hero, for whom a reader may type
    a name or a noun. start_id: the token before each text of the training, by default
    the tokenizer's end token.

    Raises TypeError for another model, ValueError for a larger one, weights that are
    not finite, a tokenizer of another vocabulary or kind, and two heroes.
    """
    if type(model).__name__ != "LlamaLM":
        raise TypeError(f"model must be a LlamaLM, got {describe(model)}")
    check_type(Tokenizer, tokenizer=tokenizer)
    check_type(str | Path, path=path)
    _check_texts(title=title, opening=opening)
    config: Any = model.config
    sizes = (tokenizer.vocab_size, config.vocab_size)
    check_same("tokenizer and model: vocab_size", *sizes)
    end_id: Any = tokenizer.eos_id
    start_id = end_id if start_id is None else start_id
    check_index(config.vocab_size, "vocab_size", start_id=start_id)
    weights = {  # a shared matrix comes once
        name.removesuffix(".weight"): weight.detach().float().cpu().numpy()
        for name, weight in model.named_parameters()
    }
    page = living_page(
        asdict(config),
        weights,
        _tokenizer_data(tokenizer),
        title=title,
        opening=opening,
        start_id=start_id,
        end_id=end_id,
    )
    return _written(page, path)


def train_page(path: str | Path, *, title: str = TRAINING_TITLE) -> Path:
    """Write a page in which a reader trains the decoder of notebook 00; its path.

    The file of 300 KB needs no network. It brings the stories of the notebook, and the
    floor of their loss: what a model would have that knows the whole world.
    """
    check_type(str | Path, path=path)
    check_type(str, title=title)
    read_first, held = (
        [one for one in map(story, n) if one.plot in PLOTS] for n in (TRAINED, HELD)
    )
    parts = [_words(one.text for one in some) for some in (read_first, held)]
    id_of = {word: i for i, word in enumerate(dict.fromkeys(parts[0]))}
    ids = [[id_of[word] for word in part] for part in parts]
    page = training_page(
        list(id_of), *ids, title=title, hero=OPENING, floor=_floor(held)
    )
    return _written(page, path)


def _split(text: str) -> list[str]:
    return re.findall(r" ?\w+| ?[^\w\s]", text)


def _words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in ["<end>", *_split(text)]]


def _floor(stories: Sequence[Story]) -> float:
    """The loss on the windows that begin with a story, of a model that knows the world.

    It knows that there are only these plots, and the rest of the grammar.
    """
    grammar = load_grammar()
    others = {*grammar.plots} - {*PLOTS}
    sections = {k: v for k, v in grammar.sections.items() if k not in others}
    graph = build_graph(replace(grammar, sections=sections))
    costs: list[float] = []  # of each word after the first <end>
    starts = []
    for one in stories:
        starts.append(len(costs))
        for token, (p, _) in zip(
            one.tokens, read(one.tokens, graph, grammar.slots), strict=True
        ):
            # A token such as `."` is two words: the last one pays, once it is known.
            costs += [0.0] * (len(_split(token)) - 1 if token != END else 0) + [
                -math.log(p)
            ]
    windows = [costs[i : i + WINDOW] for i in starts if i + WINDOW < len(costs)]
    return math.fsum(map(math.fsum, windows)) / (WINDOW * len(windows))


def _written(page: str, path: str | Path) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8", newline="\n")
    return path


def show_story(
    model: nn.Module,
    tokenizer: Tokenizer,
    path: str | Path = "runs/storyteller.html",
    *,
    title: str = TITLE,
    opening: str = OPENING,
    start_id: int | None = None,
) -> None:
    """Write the page of `share_page` and show it in a frame, with a picture below.

    path: in the folder of the notebook, from where JupyterLab and the book read the
    page. Arguments and errors as in `share_page`; model: in eval mode.
    """
    about: dict[str, Any] = {"title": title, "opening": opening, "start_id": start_id}
    path = share_page(model, tokenizer, path, **about)
    check_eval(model)
    _show_frame(path, title, HINT, "allow-scripts")
    start = tokenizer.eos_id if start_id is None else start_id
    begun = [start, *tokenizer.encode(opening.translate({123: "", 125: ""}))]
    ids, bits = _story(model, begun, tokenizer.eos_id)
    words = tokenizer.tokens(ids[1:])
    going_on = [] if len(ids) < STILL else [" …"]
    alt = f"A story that begins “{''.join(words[:8]).strip()}”. A word is marked the "
    alt += "more it surprised the model, most of all "
    alt += f"“{words[int(bits.argmax())].strip()}”."
    surprises = [*(bits / 7).clamp(max=1).tolist(), 0.0]
    style.show(_still([*words, *going_on], surprises), alt)


def show_training(path: str | Path = "runs/training.html") -> None:
    """Write the page of `train_page` and show it in a frame, with a picture below."""
    sandbox = "allow-scripts allow-downloads"  # of the weights
    _show_frame(train_page(path), TRAINING_TITLE, TRAINING_HINT, sandbox)
    about = {"image/png": {"alt": TRAINING_ALT, "width": 640}}
    still = {"image/png": TRAINING_STILL.read_bytes(), "text/plain": TRAINING_ALT}
    display(still, metadata=about, raw=True)


def _show_frame(path: Path, title: str, hint: str, sandbox: str) -> None:
    about = {"source": escape(_address(path)), "title": escape(title), "hint": hint}
    frame = FRAME.format(sandbox=sandbox, **about)
    display({"text/html": frame, "text/plain": f"{title}. {hint}"}, raw=True)


def _check_texts(**texts: str) -> None:
    """Raise unless the texts can be written, and the opening has one hero or none."""
    check_type(str, **texts)
    for name, text in texts.items():
        if re.search("[\ud800-\udfff]", text):
            raise ValueError(f"{name} must not have half a character, got {text!r}")
    opening = texts["opening"]
    if len(re.findall("{.*?}", opening)) > 1:
        raise ValueError(f"opening must have one hero in braces, got {opening!r}")


def _address(path: PurePath) -> str:
    """Where a page finds a file: relative to the notebook, or else the full address."""
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


@torch.no_grad()
def _story(model: Any, ids: list, end_id: int | None) -> tuple[list[int], torch.Tensor]:
    """The likeliest continuation, and the surprise of each token after the first."""
    device = next(model.parameters()).device
    cache = model.new_cache()
    rows = []
    new = ids
    while True:
        rows.append(model(torch.tensor([new], device=device), cache=cache)[0].cpu())
        best = int(rows[-1][-1].argmax())
        if best == end_id or len(ids) >= min(STILL, model.config.max_length):
            break
        new = [best]
        ids = ids + new
    nats = -torch.cat(rows)[:-1].log_softmax(-1)
    return ids, nats.gather(1, torch.tensor(ids[1:])[:, None])[:, 0] / math.log(2)


@style.styled
def _still(words: Sequence[str], surprises: Sequence[float]) -> Figure:
    """The words of a story, each marked by its surprise from 0 to 1."""
    figure = Figure(figsize=(5.8, 1.0))
    drawn = []
    x, line = 0.02, 0
    for word, surprise in zip(words, surprises, strict=False):
        text = word.strip()
        mark = {"color": MARKER, "alpha": 0.8 * surprise, "lw": 0, "pad": 1.2}
        drawn.append(figure.text(0, 0, style.literal(text), bbox=mark, size=11))
        width = drawn[-1].get_window_extent().width / figure.bbox.width
        x += 0.011 * word.startswith(" ")
        if "\n" in word or x + width > 0.98:
            x, line = 0.02, line + 1
        drawn[-1].set_position((x, line))
        x += width
    figure.set_figheight(0.26 * (line + 1) + 0.1)
    for artist in drawn:
        x, y = artist.get_position()
        artist.set_position((x, 1 - (y + 0.8) / (line + 1.4)))
    return figure


def _tokenizer_data(tokenizer: Tokenizer) -> dict[str, Any]:
    """Tokens as bytes, merges as ids. Raises ValueError for another kind of tokenizer.

    A page splits a text as GPT-2 does and works on bytes, without a normalizer.
    """
    content = json.loads(tokenizer.backend.to_str())
    model = content["model"]
    splits = content["pre_tokenizer"] or {}
    fits = (
        model["type"] in ("BPE", "WordLevel")
        and content["normalizer"] is None
        and splits.get("type") == "ByteLevel"
        and splits.get("use_regex")
        and not splits.get("add_prefix_space")
        and not model.get("ignore_merges")
    )
    if not fits:
        raise ValueError(
            "tokenizer must split texts as those of train_bpe and train_words do, got "
            f"a {model['type']} model with {splits.get('type', 'no')} pre-tokenizer"
        )
    ids = model["vocab"]
    special = {token["id"]: token["content"] for token in content["added_tokens"]}
    tokens = [b""] * tokenizer.vocab_size
    for piece, id in ids.items():
        if id not in special:
            tokens[id] = bytes(BYTE_OF[letter] for letter in piece)
    merges = None
    if model["type"] == "BPE":
        merges = [(ids[a], ids[b]) for a, b in model["merges"]]
    return {
        "tokens": tokens,
        "special": special,
        "merges": merges,
        "unknown": tokenizer.unk_id,
    }
