"""Links lead where their words say: to a notebook, a section, a page, a term."""

import functools
import re

import pytest

from nbval_strict.plugin import expect_none
from tests.support.notebook_code import NOTEBOOKS, PATHS, texts
from tools.notebook_rules import ROOT

FOLDER = ROOT / "notebooks"
NAMES = {path.name: number for number, path in PATHS.items()}
OUTSIDE = [
    ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "AGENTS", "CHANGELOG")
]
PAGES = {p: p.read_text("utf-8") for p in (*OUTSIDE, *FOLDER.glob("book/*.md"))}
GLOSSARY = FOLDER / "book" / "glossary.md"
LAB_NOTES = FOLDER / "book" / "lab_notes.md"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"(#{1,4}) +(.+)")


@functools.cache
def prose(name):
    """The text cells of a notebook, without fenced code."""
    return "\n".join(without_fences(text) for text in texts(NAMES[name]))


def without_fences(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


@functools.cache
def sections(text):
    """Anchor -> its titles, the outermost first, and its text, as MyST makes them."""
    by_anchor = {}
    above = []
    for line in text.splitlines():
        heading = HEADING.match(line)
        if heading:
            level = len(heading[1])
            title = re.sub(r"\$[^$]*\$|[*`]", "", heading[2].strip())
            anchor = re.sub(r"[^\w\- ]", "", title.lower().replace(" ", "-"))
            while anchor in by_anchor:
                anchor += "-1"
            above = [one for one in above if one[0] < level] + [(level, anchor, title)]
            by_anchor[anchor] = ([one[2] for one in above], [])
        for _, anchor, _ in above:
            by_anchor[anchor][1].append(line)
    return {
        anchor: (titles, "\n".join(text))
        for anchor, (titles, text) in by_anchor.items()
    }


def text_of(path):
    """What a link into this file can reach."""
    if path.name in NAMES:
        return prose(path.name)
    return without_fences(path.read_text("utf-8"))


def first(path):
    """The number of a notebook, or the first word of its name."""
    return rf"(?i)\b{path.stem.partition('_')[0]}\b"


def complaints(text, folder):
    """What is wrong with the links of a text that lies in a folder."""
    for words, link in LINK.findall(without_fences(text)):
        words = " ".join(words.split())
        if re.match(r"https?:|mailto:|#", link):
            continue
        target, _, anchor = link.partition("#")
        path = (folder / target).resolve()
        if not path.exists():
            yield f"[{words}]({link}) leads nowhere"
        elif path.suffix == ".ipynb" and not re.search(first(path), words):
            yield f"[{words}]({link}) does not name its notebook"
        elif path.suffix == ".md" and path.parent.name == "book":
            stem = path.stem.rstrip("s").replace("_", " ")
            if stem not in words.lower() and folder != ROOT:
                yield f"[{words}]({link}) does not name its page"
        elif anchor:
            yield from section_complaints(words, link, sections(text_of(path)), anchor)


def section_complaints(words, link, there, anchor):
    """A section that is missing, or whose number or title is not that of the words."""
    if anchor not in there:
        yield f"[{words}]({link}) leads to no section"
        return
    titles, _ = there[anchor]
    number = re.search(r"\bsection (\d+)", words)
    if number and not any(title.startswith(f"{number[1]} ") for title in titles):
        yield f"[{words}]({link}) leads to another section"
    title = re.match(r"\d\d(?:,| ·) (?!section)(.*)", words)
    if title and not any(plain(title[1]) in plain(one) for one in titles):
        yield f"[{words}]({link}) leads to another title: {titles}"


def plain(text):
    return " ".join(re.sub(r"\$[^$]*\$|[*_`]", "", text).casefold().split())


@pytest.mark.parametrize("name", NAMES)
def test_links_of_a_notebook(name):
    expect_none(complaints(prose(name), FOLDER))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_of_a_page(path):
    expect_none(complaints(PAGES[path], path.parent))


def test_terms_occur_where_the_glossary_sends_you():
    for term, line in re.findall(r"^\*\*([^*]+)\*\*(.*)$", PAGES[GLOSSARY], re.M):
        links = [link for _, link in LINK.findall(line)]
        assert links, term
        for link in links:
            name, _, anchor = link.removeprefix("../").partition("#")
            there = sections(prose(name))
            assert plain(term) in plain(there[anchor][1]), (term, link)


def rows(name):
    """Each row of a page's tables that links: its cells, and what stands there."""
    path = FOLDER / "book" / f"{name}.md"
    for line in re.findall(r"^\|(.*\]\(.*)\|$", PAGES[path], re.M):
        links = [link.partition("#") for _, link in LINK.findall(line)]
        linked = [
            sections(text_of(path.parent / target))[anchor][1]
            for target, _, anchor in links
            if anchor and not target.startswith("http")
        ]
        yield LINK.sub("", line).split(" | "), plain(" ".join(linked))


def beginnings(text):
    """The long words of a text, without their endings."""
    return {word[:6] for word in re.findall(r"[\w-]{4,}", plain(text))}


@pytest.mark.parametrize(
    "name, least", [("symptoms", 2), ("you_may_have_read", 2), ("paper", 1)]
)
def test_a_row_shares_words_with_the_places_that_it_names(name, least):
    for (first, *others), there in rows(name):
        said = " ".join(others if name == "paper" else [first, *others])
        shared = beginnings(said) & beginnings(there) - beginnings(COMMON)
        assert len(shared) >= least or not there, said


def test_a_paper_is_named_where_the_table_sends_you():
    for said, there in rows("paper"):
        for author in re.findall(
            r"([^\W\d_]+)(?: et al\.| & [^\W\d_]+)? \d{4}, ", said[0]
        ):
            assert author.casefold() in there, (author, said)


def test_each_lab_note_carries_a_page():
    linked = "".join([*map(prose, NAMES), *PAGES.values()])
    notes = [one for one in sections(PAGES[LAB_NOTES]) if re.match(r"\d\d-", one)]
    expect_none(one for one in notes if f"lab_notes.md#{one})" not in linked)


# A tutorial's number, what a formula beside it gives, and a licence.
NOT_OURS = {"10.92", "10.99", "2.0"}
DECIMAL = re.compile(r"(?<![\w.,/#-])\d+\.\d+(?![\w.-])")


def test_a_number_beside_a_link_stands_where_it_leads():
    """One number in several pages is one number; sections of the paper do not count."""
    outside = {FOLDER / "book" / f"{name}.md" for name in ("paper", "running")}
    for path in PAGES.keys() - outside - {LAB_NOTES}:
        for part in re.split(r"\n(?=\||- |\n)", without_fences(PAGES[path])):
            links = [link.partition("#") for _, link in LINK.findall(part)]
            there = "".join(all_of(path.parent / one, at) for one, _, at in links)
            numbers = set(DECIMAL.findall(LINK.sub("", part))) - NOT_OURS
            missing = numbers - set(re.findall(r"\d+\.\d+", there))
            assert not (there and missing), (path.name, part, missing)


def all_of(path, anchor):
    """A notebook with its code and outputs, or a section of a page."""
    if path.name in NAMES:
        return str(NOTEBOOKS[NAMES[path.name]])
    if path.suffix != ".md" or not path.exists():
        return ""
    text = path.read_text("utf-8")
    return sections(text)[anchor][1] if anchor else text


def test_the_map_of_the_first_page_leads_everywhere():
    table = re.findall(r"^\| .*$", prose("00_start_here.ipynb"), re.M)
    linked = {link for line in table for _, link in LINK.findall(line)}
    assert linked == set(NAMES) - {"00_start_here.ipynb", "more_practice.ipynb"}


COMMON = (
    "about each from have model more that their this token what which with word words"
)
BROKEN = {
    "[03](04_positions.ipynb)": "does not name its notebook",
    "[04, section 3](04_positions.ipynb#4--a-step-is-a-rotation)": "another section",
    "[04, Clocks](04_positions.ipynb#4--a-step-is-a-rotation)": "another title",
    "[04](04_positions.ipynb#3--cloks)": "no section",
    "[04](04_positons.ipynb)": "nowhere",
    "[glossary](book/paper.md)": "does not name its page",
}


@pytest.mark.parametrize("link", BROKEN)
def test_a_broken_link_is_noticed(link):
    assert BROKEN[link] in " ".join(complaints(f"see {link}", FOLDER))
    assert not list(complaints("[04, section 3](04_positions.ipynb#3--clocks)", FOLDER))
