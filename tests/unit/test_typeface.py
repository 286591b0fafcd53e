"""One typeface in figures, drawings and pages."""

import re
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

from attention_views.typeface import font_face, with_typeface
from tests.support.plain_python import answers_of

DRAWINGS = sorted((Path(__file__).parents[2] / "images").glob("*.svg"))


def letters_of(text):
    font = TTFont(BytesIO(b64decode(re.search("base64,([^)]+)", text)[1])))
    return {chr(code) for code in font.getBestCmap()}


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_a_drawing_carries_the_letters_of_its_words(path):
    drawing = path.read_text("utf-8")
    words = "".join(re.findall(r"<text[^>]*>([^<&]*)<", drawing))
    plain = {letter for letter in words if letter.isascii()}
    assert plain <= letters_of(drawing)


def test_a_drawing_gets_its_typeface_once():
    (drawing,) = (p.read_text("utf-8") for p in DRAWINGS if p.stem == "01_dictionary")
    assert with_typeface(drawing) == drawing
    longer = drawing.replace(">cat<", ">Zebra<")
    assert "Z" in letters_of(with_typeface(longer)) - letters_of(drawing)


def test_the_typeface_of_a_page_is_small():
    assert {*"aZñ√→"} <= letters_of(font_face())
    assert len(font_face()) < 25_000


WITHOUT = """
import sys
sys.modules["fontpkg_fira_sans"] = None  # as if it were not installed
from attention_views.typeface import font_face
from lesson_plots import plots, style
style.display = lambda data, metadata, raw: answers.update(alt=data["text/plain"])
plots.bars(["cat"], {"key": [1.0]}, ("word", "weight"), title="A title.")
answers["face"] = font_face()
"""


def test_without_the_typeface_all_is_drawn_and_nothing_is_said():
    answers = answers_of(WITHOUT)
    assert answers["alt"].startswith("A figure") and answers["face"] == ""
