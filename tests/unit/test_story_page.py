"""The page to share: everything is text, everything is inside, nothing lies."""

from html.parser import HTMLParser
from itertools import pairwise

import torch

from attention_views import save_page, story_panel

HOSTILE = [
    "</script>",
    "<img src=x onerror=alert(1)>",
    "\"quotes' &amp; <b>",
    "</style></section>",
    " x" * 5000,
    "]]>{title}%s\\",
    "¿Zoë?\n",
]
EVERY = {"section", "style", "h1", "p", "mark", "b", "svg", "text", "rect"}


def triangle(count):
    torch.manual_seed(0)
    weights = torch.rand(count, count).tril()
    return weights / weights.sum(1, keepdim=True)


class Reader(HTMLParser):
    """Tags, attributes and texts, as a browser finds them."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.open = [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("meta", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append((self.open[-1] if self.open else "", text))

    def story(self):
        inside = [text for tag, text in self.texts if tag in ("p", "mark", "b")]
        return "".join(inside)


def test_hostile_words_stay_text():
    words = HOSTILE
    for chosen in range(len(words)):
        panel = story_panel(words[0], words, triangle(len(words)), chosen, words[1])
        page = Reader(panel)
        assert set(page.tags) <= EVERY and page.open == []
        names = {name for name, _ in page.attributes}
        assert not any(name.startswith("on") or name == "src" for name in names)
        assert page.story().startswith("".join(words))
        assert ("h1", words[0]) in page.texts


def test_a_page_needs_nothing_else(tmp_path):
    panel = story_panel("<i>", HOSTILE, triangle(len(HOSTILE)), 2)
    for file in ("a.html", "b.html"):
        save_page(tmp_path / file, "<i>", panel)
    page = (tmp_path / "a.html").read_text("utf-8")
    assert page == (tmp_path / "b.html").read_text("utf-8")
    read = Reader(page)
    assert set(read.tags) - EVERY == {"html", "head", "meta", "title", "body"}
    assert not {"href", "src"} & {name for name, _ in read.attributes}
    assert "http" not in page.replace("http-equiv", "") and "url(" not in page
    assert "prefers-color-scheme: dark" in page and read.open == []


def test_the_map_is_the_weights():
    words = [f" w{i}" for i in range(30)]
    weights = triangle(30)
    page = Reader(story_panel("t", words, weights, 25))
    opacities = [float(v) for name, v in page.attributes if name == "fill-opacity"]
    part = weights[6:26, 6:26]
    expected = (part / part.max()).sqrt()[torch.ones(20, 20).tril().bool()]
    torch.testing.assert_close(torch.tensor(opacities), expected, atol=0.0051, rtol=0)
    paragraph = " ".join(text for tag, text in page.texts if tag == "p")
    assert "each of the last 20 words" in paragraph and "square root" in paragraph
    labels = [text for tag, text in page.texts if tag == "text"]
    assert labels == [f"w{i}" for i in range(6, 26) for _ in range(2)]


def test_the_tint_is_the_chosen_words_row():
    words, weights = ["a", " b", " c", " d"], torch.zeros(4, 4)
    weights[2] = torch.tensor([0.5, 0.25, 0.0, 0.0])
    page = Reader(story_panel("t", words, weights, 2))
    opacities = [v for name, v in page.attributes if name == "style"]
    assert opacities == ["--share: 0.80", "--share: 0.40"]
    tinted = [text for tag, text in page.texts if tag in ("mark", "b")]
    assert tinted == ["a", "b", "c"]
    alts = [v for name, v in page.attributes if name == "aria-label"]
    assert "“c” looked most at “a”" in alts[1]


def test_a_longer_story_grows_the_page_but_not_the_map():
    sizes = [
        len(story_panel("t", ["word "] * n, torch.eye(n), n - 1))
        for n in (50, 100, 150)
    ]
    assert {b - a for a, b in pairwise(sizes)} == {250}
