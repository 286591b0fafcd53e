"""What sentences and alt texts say that the cells beside them can confirm.

Numbers must stand in the source, the output or the figure of a near cell; an alt text
must fit its own figure better than others. Knows the JSON of notebooks.
"""

import re

from nbval_strict.figures import alt_text, words
from tests.support.notebook_rules import joined

BEFORE, AFTER = 2, 1  # code cells around a text whose numbers it may use
COUNTABLE = 9  # smaller whole numbers may stand anywhere
MARGIN = 1  # words by which another figure may fit an alt text better than its own
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
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


def figures(notebook):
    """(cell id, alt text, words drawn and words of the code) of each figure."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                about = f"{words(output)} {joined(cell['source'])}"
                yield cell["id"], alt_text(output), about


def swapped_alts(figures):
    """The names of figures whose alt text has more in common with another figure."""
    figures = [(name, long_words(alt), long_words(rest)) for name, alt, rest in figures]
    for name, alt, about in figures:
        best = max(len(alt & other) for _, _, other in figures)
        if best > len(alt & about) + MARGIN:
            yield name


def long_words(text):
    """Decimals, and words of four and more letters without the s of a plural."""
    matches = re.findall(r"[^\W\d_]{4,}|\d+\.\d+", text)
    return {word.lower().rstrip("s") for word in matches}
