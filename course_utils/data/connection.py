"""Lend out the libraries of the Hugging Face hub, so that they fail fast and quietly.

Knows the settings of `datasets` and `transformers`. Knows nothing of what is loaded.

Without a network these libraries retry for minutes. So one short request first asks
whether the hub answers; if it does not, the libraries use only what they have cached.
"""

import importlib
import json
import logging
import os
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from course_utils.shapes import check_choice, check_text

PROBE_SECONDS = 4.0
LIBRARIES = {"datasets": "datasets", "models": "transformers"}
LOCAL = {"datasets": "file", "models": "folder"}  # what can stand for a repository
DAMAGED = {
    "ArrowException",
    "JSONDecodeError",
    "SafetensorError",
    "UnicodeDecodeError",
}
RETRIES = re.compile(r"STREAMING_\w+_(MAX_RETRIES|RETRY_INTERVAL)")


class DataUnavailable(Exception):  # noqa: N818 - the name says what is wrong
    """The data are neither cached on this machine nor can they be downloaded now.

    The message says what to do. IPython shows it alone, without a traceback.
    """

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


@contextmanager
def hub_library(kind: str, name: str) -> Iterator[tuple[Any, bool]]:
    """Yield the library that loads a repository, and whether the hub answers.

    kind: "datasets" or "models". name: "owner/name". Any exception inside is raised
    again as DataUnavailable, or as ValueError where the request itself is wrong.
    """
    online = hub_answers(kind, name)  # asks while the library is being imported
    library = importlib.import_module(LIBRARIES[kind])
    is_online = online()
    with ExitStack() as stack:
        for owner, setting, value in _settings(kind, is_online):
            stack.enter_context(mock.patch.object(owner, setting, value))
        for source in (library.__name__, "huggingface_hub"):
            logger = logging.getLogger(source)  # the exceptions hold all information
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        try:
            yield library, is_online
        except Exception as error:
            raise _explained(error, kind, name, is_online) from error


def hub_answers(kind: str, name: str) -> Callable[[], bool]:
    """Ask the hub about a repository, in a thread.

    The returned function waits for the answer, at most PROBE_SECONDS after the request.
    An answer that does not come from the hub does not count (a captive portal, for
    example). The thread bounds the time of a slow name resolution as well. With
    HF_HUB_OFFLINE=1 the answer is no, and nothing is asked.
    Raises TypeError or ValueError for an unknown kind or an empty name.
    """
    check_choice("kind", kind, tuple(LIBRARIES))
    check_text(name=name)
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return lambda: False
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    url = f"{endpoint}/api/{kind}/{name}"
    answers: list[bool] = []
    deadline = time.monotonic() + PROBE_SECONDS

    def ask() -> None:
        try:
            with urllib.request.urlopen(url, timeout=PROBE_SECONDS) as reply:
                answers.append("sha" in json.load(reply))
        except urllib.error.HTTPError as error:
            answers.append("X-Error-Code" in error.headers)  # set by the hub only
        except Exception:
            answers.append(False)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()

    def wait() -> bool:
        thread.join(max(0.0, deadline - time.monotonic()))
        return answers == [True]

    return wait


def _settings(kind: str, online: bool) -> list[tuple[Any, str, object]]:
    """Settings that the libraries read from the environment only when imported."""
    from huggingface_hub import constants

    settings = [(constants, "HF_HUB_OFFLINE", not online)]
    if kind == "datasets":
        from datasets import config

        settings += [(config, "HF_HUB_OFFLINE", not online)]
        settings += [(config, name, 1) for name in vars(config) if RETRIES.match(name)]
    return settings


def _explained(error: Exception, kind: str, name: str, online: bool) -> Exception:
    """One sentence for an exception of the hub's libraries."""
    chain = list(_chain(error))
    kinds = {base.__name__ for link in chain for base in type(link).__mro__}
    reason = f"{type(chain[-1]).__name__}: {str(chain[-1]).strip()}"
    reason = reason.split("\n")[0][:100]
    if type(error) is ValueError and "split" in str(error):
        return ValueError(f"{name}: {error}")
    if not online:
        return DataUnavailable(
            f"{name} cannot be loaded: the hub does not answer, nothing of that name "
            f"is cached, and it is no {LOCAL[kind]} here. Connect to the network and "
            f"run this again, or name a local {LOCAL[kind]}."
        )
    if kinds & {"DatasetNotFoundError", "RepositoryNotFoundError"}:
        return DataUnavailable(f"the hub has no public repository {kind}/{name}.")
    if kinds & DAMAGED:
        repair = f"load_dataset({name!r}, download_mode='force_redownload')"
        if kind == "models":
            auto = "AutoModel" if "SafetensorError" in kinds else "AutoTokenizer"
            repair = f"{auto}.from_pretrained({name!r}, force_download=True)"
        return DataUnavailable(
            f"{name} arrived damaged ({reason}). Repair it once with {repair}, then "
            "run this again."
        )
    return DataUnavailable(
        f"{name} could not be fetched: the hub answered and then failed ({reason}). "
        f"Run this again later, or name a local {LOCAL[kind]}."
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
