"""Numbers in prose and alt texts that no cell nearby computes, draws or writes.

Most numbers of a text stand in the code or the output of a cell beside it. The others
(sizes of published models, what the reader shall work out) are stored as a list, so
that a number that slips in, or one that its cell no longer gives, is a deliberate act.
Knows the JSON of notebooks.
"""

import re

from tests.support.notebook_rules import joined

BEFORE, AFTER = 4, 2  # code cells around a text whose numbers count as told by it
AROUND = 24  # characters of the text that are stored before a number
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
UNTOLD = re.compile(
    r"\]\([^)]*\)"  # where a link leads
    r"|\b[01]\d\b(?![.,]\d)"  # numbers of notebooks
    r"|\b(?:19|20)\d\d\b"  # years
    r"|[Ss]ections? \d[\d.]*|^#+ \d+",
    re.MULTILINE,
)


def untold(notebook):
    """(kind, number, the words before it) for each number that nothing nearby gives."""
    cells = notebook["cells"]
    codes = [place for place, cell in enumerate(cells) if cell["cell_type"] == "code"]
    for place, cell in enumerate(cells):
        before = [code for code in codes if code <= place][-BEFORE:]
        after = [code for code in codes if code > place][:AFTER]
        if cell["cell_type"] == "code":
            given = [number for code in before for number in numbers_of(cells[code])]
            for alt in cell["metadata"].get("alt", []):
                yield from (("alt", *one) for one in strangers(alt, given))
        else:
            near = before + after
            given = [number for code in near for number in numbers_of(cells[code])]
            source = UNTOLD.sub(" ", joined(cell["source"]))
            yield from (("text", *one) for one in strangers(source, given))


def strangers(text, given):
    """The numbers of a text that no given number rounds to, but small whole ones."""
    for found in NUMBER.finditer(text):
        plain = found[0].replace(",", "")
        decimals = len(plain.partition(".")[2])
        number = float(plain)
        whole = decimals == 0
        told = (number == (one if whole else round(one, decimals)) for one in given)
        if not (whole and number <= 12) and not any(told):
            start = max(0, found.start() - AROUND)
            yield found[0], " ".join(text[start : found.start()].split())


def numbers_of(cell):
    """Every number in a code cell: its source, its outputs, what its figures draw."""
    parts = [joined(cell["source"]).replace("_", "")]
    for output in cell["outputs"]:
        parts.append(joined(output.get("text", "")))
        parts.append(joined(output.get("data", {}).get("text/plain", "")))
        drawn = output.get("metadata", {}).get("image/png", {})
        parts.append(drawn.get("words", ""))
        if drawn:
            parts.remove(joined(output["data"]["text/plain"]))  # the alt text itself
    for found in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", " ".join(parts)):
        number = float(found.replace(",", ""))
        yield from (number, 100 * number)  # a share may be told in percent
