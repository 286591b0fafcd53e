"""`make refresh`: run notebooks anew and store their outputs.

Knows which data are served here, and by which data stored outputs were made. Is run in
the notebooks' environment (see `notebook_environment`).
"""

import argparse
import json
import time

from course_utils.workshop import find_notebook, refresh
from tests.support.mirror_data import data_fingerprint
from tests.support.notebook_rules import ROOT, touches_real_data


def other_data(paths):
    """What to say before the numbers of other data are stored; "" if they would not."""
    now = data_fingerprint()
    others = []
    for path in paths:
        metadata = json.loads(path.read_text("utf-8"))["metadata"]
        stored = metadata.get("made_with", {}).get("data", now)
        if stored != now:
            others.append(f"{path.stem[:2]} (made with {stored})")
    if not others:
        return ""
    return (
        f"With the data here ({now}) other numbers would be stored in "
        f"{', '.join(others)}; nothing is changed: if you mean it, add FORCE=1"
    )


def data_of(path):
    """The fingerprint of the data that a notebook's outputs rest on, or None."""
    notebook = json.loads(path.read_text("utf-8"))
    return data_fingerprint() if touches_real_data(notebook) else None


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="make refresh")
    parser.add_argument("--force", action="store_true", help="store other data's too")
    parser.add_argument("notebooks", nargs="*", metavar="NB", help="such as 01")
    given = parser.parse_args(arguments)
    folder = ROOT / "notebooks"
    try:
        paths = [find_notebook(number, folder) for number in given.notebooks]
        paths = paths or sorted(folder.glob("[0-9][0-9]_*.ipynb"))
        if not given.force and (problem := other_data(paths)):
            raise SystemExit(problem)
        for path in paths:
            start = time.perf_counter()
            print(path.name, end=" … ", flush=True)
            notes = refresh(path, data_of(path))
            seconds = time.perf_counter() - start
            print(f"{seconds:.0f} s", *notes, sep="\n  ", flush=True)
    except ValueError as problem:
        raise SystemExit(str(problem)) from None


if __name__ == "__main__":
    main()
