"""pytest plugin: what only this course knows of its notebooks, for `nbval_strict`.

The rules for stored notebooks, the mirror of the hub, the data that outputs rest on,
and the report on how notebooks read and how large the project is.
"""

import json
import time

from attention_views.page import inflated
from nbval_strict.workers import is_worker, shared
from tests.support.totals import totals
from tools.mirror_data import data_fingerprint, trained_model
from tools.notebook_environment import mirror
from tools.notebook_rules import (
    problems,
    style,
    touches_real_data,
    uses_trained_model,
)

READS = shared("reads")  # notebook -> how it reads
SIZES = shared("sizes")  # what else has a budget -> measured, allowed
_started = time.perf_counter()


def pytest_addoption(parser):
    parser.addoption(
        "--real-data-only",
        action="store_true",
        help="of the notebooks, only those that load data from the hub",
    )


def pytest_ignore_collect(collection_path, config):
    if collection_path.suffix != ".ipynb" or not config.option.real_data_only:
        return None
    return not touches_real_data(json.loads(collection_path.read_text("utf-8"))) or None


def pytest_nbval_environment(notebooks, stack, scratch):
    if any(touches_real_data(nb) or uses_trained_model(nb) for nb in notebooks):
        return mirror(stack, scratch)
    return {}


def pytest_nbval_problems(notebook, path):
    READS[path.stem] = style(notebook)
    return problems(notebook, path.parent)


def pytest_nbval_fingerprint(notebook):
    return {"data": data_fingerprint()} if touches_real_data(notebook) else {}


def pytest_nbval_html(html):
    return inflated(html)


def pytest_nbval_skip(cell):
    if "trained-model" in cell.metadata.get("tags", []) and not trained_model():
        return "the trained model is not here: `make test` fetches it"
    return None


def pytest_nbval_advice(path):
    return f"If this is meant: make refresh NB={path.stem[:2]}"


def pytest_terminal_summary(terminalreporter, config):
    write = terminalreporter.write_line
    if is_worker(config):
        return
    for place, (name, reads) in enumerate(sorted(READS.items())):
        if not place:
            write(f"\n{'how it reads':24} {'  '.join(reads)}")
        numbers = (f"{number:{len(what)}}" for what, number in reads.items())
        write(f"{name:24} {'  '.join(numbers)}")
    lines = "  ".join(f"{part} {count:,}" for part, count in totals().items())
    write(f"{'lines':24} {lines}")
    for name, (measured, allowed) in SIZES.items():
        write(f"{name:24} {measured:7} ({allowed})")
    write(f"{'the whole run':24} {time.perf_counter() - _started:7.1f} (900)")
