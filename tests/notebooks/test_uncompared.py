"""What stands stored in a cell that is not compared agrees with what the course claims.

Each cell tagged `nbval-ignore-output` that stores a number is listed here, with the
form of its text and the claim that its notebook makes of these numbers in an assert.
"""

import copy
import re

import pytest

from nbval_strict.plugin import expect_none
from tests.support.notebook_code import NOTEBOOKS
from tools.notebook_rules import code_cells, is_ignored, joined

NUMBER = r"(-?[\d.,]+)"
# The number of a notebook, and for each cell: a piece of its source, the pattern of its
# text ("#" stands for a number), what holds of these numbers, and a piece of the assert
# that claims it of every run, or "" if nothing does and only the form is fixed.
CLAIMS = {
    "08": [
        (
            "the beam changes {changed} of {len(unseen)}, {likelier}",
            "'copied': 'BLEU #', 'greedy': 'BLEU #', 'beam': 'BLEU #'}\n"
            "the beam changes # of 100, # become likelier$",
            lambda copied, greedy, beam, changed, likelier: (
                copied < 10 and min(greedy, beam) > 20 and 5 < changed < 2 * likelier
            ),
            "changed > 5",
        )
    ],
    "10": [
        (
            "times as fast",
            "^the tables are # times as fast$",
            lambda ratio: 2 < ratio < 20,
            'seconds["train_naive"] > 2 * seconds["train_tables"]',
        )
    ],
    "11": [
        (
            "gpt_neo.convert_ids_to_tokens",
            "^ *" + r"\s+".join(6 * [r"# \S+"]) + "$",
            lambda *ids: all(0 <= one < 50_257 for one in ids),
            "",
        ),
        (
            "real_loss = loss_of",
            "^first loss #, ln V #$",
            lambda first, even: abs(first - even) < 0.2 and even < 11,
            "",
        ),
    ],
    "14": [
        (
            "in phases.items()",
            "^prefill +# s\\ndecode +# s\\ndecode, 8 rows +# s$",
            lambda prefill, decode, eight: (
                0 < 2 * prefill < decode < eight < 4 * decode
            ),
            "",
        ),
        (
            "seconds = time_of(way)",
            r"^step, no cache +# s +# tokens/s\nCachedStep +# s +# tokens/s\n"
            r"generate +# s +# tokens/s\nfast_greedy +# s +# tokens/s$",
            lambda slow, _a, ours, _b, theirs, _c, fast, tokens: (
                slow > 2 * ours and theirs > 1.5 * fast > 0 and 50 < tokens < 2000
            ),
            "",
        ),
    ],
}


def uncompared(notebook):
    """The cells that show a number and are not compared."""
    for cell in notebook["cells"]:
        if is_ignored(cell) and re.search(r"\d", text(cell)):
            yield cell


def text(cell):
    """What a cell prints and returns; of a figure nothing."""
    parts = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" not in data:
            parts.append(joined(output.get("text", data.get("text/plain", ""))))
    return "\n".join(parts)


def complaints(number, notebook):
    """What is stored against a claim, or without one."""
    claims = CLAIMS.get(number, [])
    for cell in uncompared(notebook):
        of_cell = [claim for claim in claims if claim[0] in joined(cell["source"])]
        if not of_cell:
            yield f"{cell['id']} is not compared, and nothing bounds its numbers"
        for _, form, holds, _ in of_cell:
            pattern = form.replace("#", NUMBER)
            match = re.search(pattern, text(cell), re.MULTILINE)
            if not match:
                yield f"{cell['id']} stores {text(cell)[:300]!r}, not like {form}"
                continue
            numbers = [float(group.replace(",", "")) for group in match.groups()]
            if not holds(*numbers):
                yield f"{cell['id']} stores {numbers}, outside of what is claimed"
    sources = [joined(cell["source"]) for cell in code_cells(notebook)]
    for piece, _, _, claimed in claims:
        for needed in (piece, claimed):
            if not any(needed in source for source in sources):
                yield f"no cell has {needed!r} any more"


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_what_an_uncompared_cell_stores_lies_in_its_range(number):
    expect_none(complaints(number, NOTEBOOKS[number]))


@pytest.mark.parametrize("number", CLAIMS)
def test_an_absurd_stored_output_is_noticed(number):
    for place in range(len(list(uncompared(NOTEBOOKS[number])))):
        notebook = copy.deepcopy(NOTEBOOKS[number])
        cell = list(uncompared(notebook))[place]
        for output in cell["outputs"]:
            if "text" in output:
                output["text"] = re.sub(r"\d+", "99999", joined(output["text"]))
            elif "image/png" not in output.get("data", {}):
                plain = joined(output["data"]["text/plain"])
                output["data"]["text/plain"] = re.sub(r"\d+", "99999", plain)
        assert any(cell["id"] in one for one in complaints(number, notebook))


def test_a_new_uncompared_number_needs_a_claim():
    cell = {"cell_type": "code", "id": "01-099", "source": "print(x)"}
    cell |= {"metadata": {"tags": ["nbval-ignore-output"]}, "outputs": [{"text": "7"}]}
    messages = list(complaints("01", {"cells": [cell]}))
    assert messages == ["01-099 is not compared, and nothing bounds its numbers"]
