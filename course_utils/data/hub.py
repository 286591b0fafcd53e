"""Load texts, sentence pairs, tokenizers and models by name.

A name stands for a world, a repository on the Hugging Face hub, or a file. Returns what
was asked for or raises. Knows nothing of batches or training.
"""

import importlib
import json
import logging
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import torch

from course_utils.checks import check_integer, check_type
from course_utils.data import files

Source = str | Path
# The worlds: kind of data -> {name: "module:function"}, which takes (split, limit).
WORLDS = {
    "texts": {"stories": "known_worlds.stories:texts"},
    "pairs": {"phrases": "known_worlds.phrases:pairs"},
}
# The configuration of data sets on the hub that hold pairs in several languages.
PAIR_CONFIGS = {"sentence-transformers/parallel-sentences-tatoeba": "en-es"}
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
ANSWER_SECONDS = 4  # a hub that takes longer counts as absent


class DataUnavailable(Exception):  # noqa: N818 - the name says what is wrong
    """The data are neither here nor can they be downloaded now; says what to do."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


def load_texts(
    source: Source, split: str = "train", limit: int | None = None
) -> list[str]:
    """The first `limit` texts of a source (all of them without a limit), in order.

    source: "stories" (the world, which needs a limit), "owner/name" on the hub, or a
    .txt, .jsonl, .parquet or .tsv file (see `files.read_rows`). Rows of the hub without
    text are skipped. Raises DataUnavailable where the hub does not answer.
    """
    return _load("texts", source, split, limit, files.text_of, ("text",))


def load_pairs(
    source: Source, split: str = "train", limit: int | None = None
) -> list[tuple[str, str]]:
    """The first `limit` (source, target) sentences (all without a limit), in order.

    source: "phrases" (the world), else as in `load_texts`; columns: `files.pair_of`.
    """
    return _load("pairs", source, split, limit, files.pair_of, ("source", "target"))


def load_tokenizer(name: Source) -> Any:
    """`transformers.AutoTokenizer` of "owner/name" on the hub, or of a folder."""
    with _hub_libraries("models", name):
        import transformers

        return transformers.AutoTokenizer.from_pretrained(name)


def load_model(name: Source) -> Any:
    """A trained model of `transformers` that gives its attention weights, for looking.

    `AutoModel.from_pretrained`, in torch's default dtype and evaluation mode, with
    attn_implementation="eager": its other ways to compute attention keep no weights.
    name: as in `load_tokenizer`. Raises ValueError where weights are missing.
    """
    with _hub_libraries("models", name):
        import transformers

        model, report = transformers.AutoModel.from_pretrained(
            name,
            attn_implementation="eager",
            dtype=torch.get_default_dtype(),
            output_loading_info=True,
        )
    missing = sorted(report["missing_keys"])
    needed = [key for key in missing if not key.startswith("pooler.")]
    if needed:
        raise ValueError(
            f"name must hold every weight of a {type(model).__name__}, {str(name)!r} "
            f"lacks {needed[0]!r} and {len(needed) - 1} others"
        )
    if missing:
        model.pooler = None  # random numbers otherwise
    return model.eval()


def fetch(name: str, file: str) -> Path:
    """One file of a repository of models on the hub, or of what is cached of it."""
    with _hub_libraries("models", name):
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(name, file))


def _load(
    kind: str,
    source: Source,
    split: str,
    limit: int | None,
    read: Callable,
    columns: tuple[str, ...],
) -> list:
    """What `read` makes of the first rows of a world, a file or a data set."""
    if limit is not None:
        check_integer(1, limit=limit)
    check_type(str | Path, source=source)
    if source in WORLDS[kind]:
        if limit is None:
            raise ValueError(f"limit must be given for {source!r}: it has no end")
        module, function = WORLDS[kind][source].split(":")
        return getattr(importlib.import_module(module), function)(split, limit)
    local = files.is_file(source)
    if local and split != "train":
        raise ValueError(f"split must be 'train' for a file, got {split!r}")
    if not local and not HUB_NAME.fullmatch(str(source)):
        worlds = ", ".join(map(repr, WORLDS[kind]))
        raise ValueError(
            f"source must be a world of {kind} ({worlds}), 'owner/name' on the hub or "
            f"a .txt, .jsonl, .parquet or .tsv file, got {str(source)[:40]!r}"
        )
    rows = _hub_rows(source, split, limit)  # nothing is read yet
    if local:
        rows = files.read_rows(source, columns)
    items = []
    with closing(rows):  # also after an error: what was silenced for them speaks again
        for number, row in enumerate(rows, start=1):
            try:
                items.append(read(row, f"{source}, row {number}"))
            except files.EmptyText:
                if local:
                    raise
            if len(items) == limit:
                break
    if not items:
        raise ValueError(f"{source} has no row with text in the split {split!r}")
    sides = zip(*items, strict=True) if kind == "pairs" else []
    if any(all(files.is_label(text.strip()) for text in side) for side in sides):
        raise ValueError(
            f"{source} has a column of numbers, or of codes such as 'eng', where "
            "sentences belong: name the columns in a first line"
        )
    return items


def _hub_rows(name: str, split: str, limit: int | None) -> Iterator[dict]:
    """Rows of a data set on the hub, or of what an earlier call has cached.

    With a limit they are streamed, which leaves no cache.
    """
    with _hub_libraries("datasets", name) as online:
        import datasets
        from datasets import config

        config.STREAMING_READ_MAX_RETRIES = config.STREAMING_OPEN_MAX_RETRIES = 1
        streaming = limit is not None and online
        options = {"split": split, "streaming": streaming}
        yield from datasets.load_dataset(name, PAIR_CONFIGS.get(name), **options)


@contextmanager
def _hub_libraries(kind: str, name: Source) -> Iterator[bool]:
    """The hub's libraries, offline where the hub does not answer; says if it does.

    Errors inside become DataUnavailable, or ValueError for a wrong folder or split.
    """
    folder = kind == "models" and os.path.isdir(name)
    if not folder and not HUB_NAME.fullmatch(str(name)):
        got = f"got {str(name)[:60]!r}"
        raise ValueError(f"name must be 'owner/name' on the hub or a folder, {got}")
    online = not folder and hub_answers(kind, str(name))
    # The libraries read this setting from the environment only when first imported.
    settings = [importlib.import_module("huggingface_hub.constants")]
    if kind == "datasets":
        settings.append(importlib.import_module("datasets.config"))
    before = [(module, module.HF_HUB_OFFLINE) for module in settings]
    warnings = logging.root.manager.disable
    for module in settings:
        module.HF_HUB_OFFLINE = not online
    logging.disable()  # the exceptions hold all information
    try:
        yield online
    except Exception as error:  # the libraries raise errors of many types
        if isinstance(error, ValueError) and "split" in str(error):
            raise ValueError(f"{name}: {error}") from None
        reason = f"{type(error).__name__}: {str(error).strip()}".split("\n")[0][:150]
        if folder:
            raise ValueError(f"{name} cannot be opened: {reason}") from error
        raise DataUnavailable(_advice(kind, name, online, reason)) from error
    finally:
        logging.disable(warnings)
        for module, value in before:
            module.HF_HUB_OFFLINE = value


def _advice(kind: str, name: Source, online: bool, reason: str) -> str:
    local = {"datasets": "file", "models": "folder"}[kind]
    if not online:
        return (
            f"{name} cannot be loaded: the hub does not answer, nothing of that name "
            f"is cached, and it is no {local} here. Connect to the network and run "
            f"this again, or name a local {local}."
        )
    if "NotFoundError" in reason:
        return f"the hub has no public repository {kind}/{name}."
    return (
        f"{name} could not be loaded: the hub answered and then failed ({reason}). Run "
        f"this again later, or name a local {local}."
    )


def hub_answers(kind: str, name: str) -> bool:
    """Whether the hub itself answers soon; its libraries would wait for minutes."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    url = f"{endpoint}/api/{kind}/{name}"
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as reply:
            return "sha" in json.load(reply)
    except urllib.error.HTTPError as error:
        return "X-Error-Code" in error.headers  # set by the hub only
    except Exception:
        return False
