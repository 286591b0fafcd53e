"""The minutes and GiB that the README and the notebooks themselves tell the reader.

A run measures the memory; the minutes of the README are held to those that the first
text of the notebook promises, because the time of a run depends on the machine.
Knows the README and the JSON of notebooks.
"""

import re

from tests.support.notebook_rules import ROOT, joined

ROW = re.compile(
    r"^\|[^|]*\]\(notebooks/(\d\d)_\w+\.ipynb\)[^|]*\|[^|]*"
    r"\| *([\d.]+) *\| *([\d.]+) GiB",
    re.MULTILINE,
)
MINUTES = {  # how a notebook says what it takes to run -> at most so many minutes
    "half a minute": 0.5,
    "30 seconds": 0.5,
    "a minute": 1.0,
    "one minute": 1.0,
    "one": 1.0,
    "one or two minutes": 2.0,
    "three": 3.0,
    "three to four minutes": 4.0,
}
PROMISE = re.compile(
    rf"\b({'|'.join(sorted(MINUTES, key=len, reverse=True))}) to run\b|\Z"
)
SLACK = 12  # a promise is rounded up, and meant for slower machines too
LEAST_MEMORY = 0.25  # GiB: a kernel that has imported torch
MEMORY_FACTOR = 2.0


def told_by_readme(text=None):
    """{number of the notebook: (minutes, GiB)}"""
    if text is None:
        text = (ROOT / "README.md").read_text("utf-8")
    rows = ROW.findall(text)
    return {number: (float(minutes), float(memory)) for number, minutes, memory in rows}


def promised_minutes(notebook):
    """The minutes that a notebook's text "It takes" gives its run; None without it."""
    for cell in notebook["cells"]:
        text = " ".join(joined(cell["source"]).split())
        if cell["cell_type"] == "markdown" and "**It takes**" in text:
            _, _, after = text.partition("**It takes**")
            return MINUTES.get(PROMISE.search(after)[1])
    return None


def table_complaints(number, row, promised, largest):
    """What is impossible in a row of the README, one sentence each.

    row: (minutes, GiB). promised: minutes. largest: GiB that a notebook may take.
    """
    minutes, memory = row
    if not promised / SLACK < minutes < promised:
        yield (
            f"README.md says that {number} runs for {minutes} minutes, and the "
            f"notebook says at most {promised}: correct the one that is wrong"
        )
    if not LEAST_MEMORY <= memory < largest:
        yield (
            f"README.md says that {number} takes {memory} GiB, and it must be from "
            f"{LEAST_MEMORY} to {largest}: correct the table"
        )


def memory_complaint(number, measured, table):
    """What to say where the README is far from the measured GiB; "" if it is not."""
    if number not in table:
        return ""
    memory = table[number][1]
    if memory / MEMORY_FACTOR <= measured <= memory * MEMORY_FACTOR:
        return ""
    return (
        f"took {measured:.1f} GiB, and README.md says {memory}: correct its table if "
        f"this is meant"
    )
