"""Pages that lead into the notebooks: no dead link, no forgotten term."""

import functools
import json
import re
from pathlib import Path

import pytest

from tests.support.findings import expect_none
from tests.support.notebook_rules import link_problems

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
PATHS = {path.name: path for path in sorted(FOLDER.glob("[0-9]*.ipynb"))}
PAGES = {
    name: (FOLDER / "book" / f"{name}.md").read_text("utf-8")
    for name in ("paper", "tutorials", "symptoms", "glossary")
}
BOOK_PATHS = [f"notebooks/book/{name}.md" for name in (*PAGES, "exercises")]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
ENTRY = re.compile(r"^\*\*([^*]+)\*\*.*?$", re.MULTILINE)
# Bold words that introduce nothing: labels, stress, and what stands in other words.
NO_TERMS = {
    *(
        "you will be able to",
        "you need",
        "it takes",
        "try",
        "look",
        "predict",
        "your turn",
    ),
    *("the patient", "the symptom", "the check"),
    *("or", "new", "mean", "tired", "wide", "none", "memory", "speed", "untied"),
    *("learned", "sinusoidal", "which words", "back onto the stream"),
    *("of equals the lowest pair", "reverse a word", "warm-up and decay"),
}


@functools.cache
def prose(name):
    """The markdown cells of a notebook, without fenced code."""
    cells = json.loads(PATHS[name].read_text("utf-8"))["cells"]
    texts = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
    return [re.sub(r"^```.*?^```", "", text, flags=re.M | re.S) for text in texts]


def sections(name):
    """Anchor -> text of each section, its deeper ones included; anchors as MyST's."""
    found, last = {}, [None] * 4
    for line in "\n".join(prose(name)).splitlines():
        heading = re.match(r"(#{1,3}) +(.+)", line)
        if heading:
            level = len(heading[1])
            title = re.sub(r"\$[^$]*\$|[*`]", "", heading[2].strip())
            slug = re.sub(r"[^\w\- ]", "", title.lower().replace(" ", "-"))
            count = 1
            while slug in found:
                slug, count = f"{slug}-{count}", count + 1
            found[slug] = ""
            last[level:] = [slug] + [None] * (3 - level)
        # The first heading stands for what comes before the first section.
        owners = last[2:] if any(last[2:]) else last[1:2]
        for owner in filter(None, owners):
            found[owner] += line + "\n"
    return found


SECTIONS = {name: sections(name) for name in PATHS}


def plain(text):
    return " ".join(re.sub(r"[*_`]", "", text).casefold().split())


def introduced(name):
    """Words set in bold that are neither a sentence, a number, nor a lead-in."""
    for text in prose(name):
        words = re.sub(r"`[^`]*`", "", text)
        for found in re.findall(r"\*\*([^*]+?)\*\*", words):
            term = " ".join(found.split()).casefold()
            sentence = term.endswith((".", ":")) or len(term.split()) > 5
            if not sentence and term not in NO_TERMS:
                yield term


def entries():
    """Term -> the line of the glossary that explains it; heads come twice."""
    return [(m[1], m[0]) for m in ENTRY.finditer(PAGES["glossary"])]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_sections(page):
    links = LINK.findall(PAGES[page])
    assert len(links) > 60
    for link in links:
        path, _, anchor = link.partition("#")
        name = path.removeprefix("../")
        assert path.startswith("../") and name in PATHS, link
        assert not anchor or anchor in SECTIONS[name], link


@pytest.mark.parametrize("path", ["README.md", "CONTRIBUTING.md", *BOOK_PATHS])
def test_the_words_of_a_link_name_the_notebook_that_it_leads_to(path):
    expect_none(link_problems((ROOT / path).read_text("utf-8")))


@pytest.mark.parametrize("page", ["paper", "symptoms"])
def test_every_row_leads_somewhere(page):
    rows = [line for line in PAGES[page].splitlines() if line.startswith("| ")]
    for row in rows:
        cells = row.strip("| ").split(" | ")
        assert len(cells) == 3, row
        assert LINK.search(cells[2]) or cells[2].startswith("where "), row


def test_terms_occur_where_the_glossary_sends_you():
    for term, line in entries():
        links = LINK.findall(line)
        assert links, term
        for link in links:
            name, _, anchor = link.removeprefix("../").partition("#")
            assert plain(term) in plain(SECTIONS[name][anchor]), (term, link)


def test_the_glossary_is_in_alphabetical_order():
    terms = [re.sub(r"\W", " ", term.casefold()) for term, _ in entries()]
    assert terms == sorted(terms)
    letters = re.findall(r"^## (.)$", PAGES["glossary"], re.MULTILINE)
    assert letters == sorted({term[0].upper() for term in terms})
    for letter, under_it in re.findall(
        r"^## (.)\n(.*?)(?=^## )", PAGES["glossary"], re.MULTILINE | re.DOTALL
    ):
        for term in re.findall(r"^\*\*\W*(.)", under_it, re.MULTILINE):
            assert term.upper() == letter, under_it
    assert "\n**" not in PAGES["glossary"].partition("## Other names")[2]


@pytest.mark.parametrize("name", PATHS)
def test_the_glossary_knows_what_is_introduced(name):
    known = {term.casefold() for term, _ in entries()}
    known |= {term + ending for term in known for ending in ("s", "es")}
    unknown = [term for term in introduced(name) if term not in known]
    expect_none(f"the glossary lacks {term!r}" for term in unknown)


@pytest.mark.parametrize("name", PATHS)
def test_a_notebook_opens_with_aims_needs_and_questions(name):
    first = " ".join("\n".join(prose(name)[:3]).split())
    for label in ("You will be able to", "You need", "It takes"):
        assert f"**{label}**" in first, label
    if not name.startswith("00"):  # nothing comes before it
        questions = re.findall(r"<summary>([123])\.", prose(name)[0])
        assert questions == ["1", "2", "3"]


@pytest.mark.parametrize("name", PATHS)
def test_a_notebook_ends_with_a_summary_and_a_way_on(name):
    last = prose(name)[-1]
    on = [link for link in LINK.findall(last) if re.match(r"\d\d_\w+\.ipynb$", link)]
    assert set(on) - {name}, "no link to another notebook"
    assert max(on) > name or name.startswith("17"), "no link to a later notebook"


def test_the_map_of_the_first_page_leads_everywhere():
    page = "\n".join(prose("00_start_here.ipynb"))
    table = [line for line in page.splitlines() if line.startswith("| ")]
    linked = {link for line in table for link in LINK.findall(line)}
    assert linked == set(PATHS) - {"00_start_here.ipynb"}
