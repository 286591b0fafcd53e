"""What sentences and alt texts say that the cells beside them can confirm.

Numbers must stand in the source, the output or the figure of a near cell, and a loss is
told in nats, or in bits per byte. Knows the JSON of notebooks.
"""

import re

from nbval_strict.figures import words
from tools.notebook_rules import joined

BEFORE, AFTER = 2, 1  # code cells around a text whose numbers it may use
COUNTABLE = 9  # smaller whole numbers may stand anywhere
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
LOSS = re.compile(r"\d\.\d+[\s$*]+(bit|nat)s?\b")  # whole bits are those of a format
PERCENT = re.compile(r" ?\\?%| percent")
NO_RESULT = re.compile(
    r"\]\([^)]*\)"  # where a link leads
    r"|(?<![.,\d])[01]\d\b(?![.,]\d)"  # numbers of notebooks
    r"|\b(?:19|20)\d\d\b"  # years
    r"|[Ss]ections? \d[\d.]*|^#+ \d+",
    re.MULTILINE,
)


def unsupported_numbers(notebook):
    """(cell id, number, the words before it) for each number that no near cell has."""
    cells = notebook["cells"]
    codes = [place for place, cell in enumerate(cells) if cell["cell_type"] == "code"]
    numbers = {place: set(numbers_of(cells[place])) for place in codes}
    for place, cell in enumerate(cells):
        near = [code for code in codes if code <= place][-BEFORE:]
        texts = cell["metadata"].get("alt", [])
        if cell["cell_type"] == "markdown":
            near += [code for code in codes if code > place][:AFTER]
            texts = [NO_RESULT.sub(" ", joined(cell["source"]))]
        known = set().union(*(numbers[code] for code in near))
        for text in texts:
            for match in NUMBER.finditer(text):
                percent = PERCENT.match(text, match.end())
                if not is_known(match[0], known, percent):
                    before = text[max(0, match.start() - 40) : match.start()]
                    yield cell["id"], match[0], " ".join(before.split())


def wrong_units(text):
    """Each loss in nats per byte, or in bits of something else, with its sentence."""
    for sentence in re.split(r"[.:?!|]\s", text):
        for match in LOSS.finditer(sentence):
            if (match[1] == "bit") != ("byte" in sentence):
                yield f"{match[0]!r} is in another unit: {' '.join(sentence.split())}"


def is_known(text, known, percent):
    """Does a known number round to this one, or to its share where it is in percent?"""
    plain = text.replace(",", "")
    number, decimals = float(plain), len(plain.partition(".")[2])
    if number in known or (not decimals and number <= COUNTABLE):
        return True
    percents = [100 * one for one in known] if percent else []
    rounded = [*known, *percents] if decimals else percents
    return any(number == round(one, decimals) for one in rounded)


def numbers_of(cell):
    """Every number in a code cell: its source, its outputs, what its figures draw."""
    parts = [joined(cell["source"]).replace("_", "")]
    for output in cell["outputs"]:
        data = output.get("data", {})
        parts.append(joined(output.get("text", "")))
        parts.append(words(output))
        if "image/png" not in data:  # there the text is the alt text itself
            parts.append(joined(data.get("text/plain", "")))
    for number in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", " ".join(parts)):
        yield float(number.replace(",", ""))
