"""What stands stored in a cell that is not compared agrees with what the course claims.

Each cell tagged `nbval-ignore-output` that stores a number is listed here, with the
form of its text and the claim that its notebook makes of these numbers in an assert.
"""

import copy
import json
import re
from dataclasses import dataclass

import pytest

from nbval_strict.plugin import expect_none
from tests.support.notebook_rules import ROOT, code_cells, joined

IGNORED = "nbval-ignore-output"


@dataclass(frozen=True)
class Claim:
    """A claim of the numbers that an uncompared cell shows.

    cell: a piece of its source. text: the pattern of its text, with a group for each
    number. holds: takes the groups. claimed: a piece of the assert in the notebook that
    claims it of every run, or "" if nothing does and only the form is fixed.
    """

    cell: str
    text: str
    holds: object
    claimed: str = ""


NUMBER = r"(-?[\d.,]+)"
CLAIMS = {
    "00": [
        Claim(
            "print(device, find_precision(device)",
            rf"^(?:cpu|cuda|mps) (?:float32|bfloat16|float16) {NUMBER} threads$",
            lambda threads: 1 <= threads <= 512,
        )
    ],
    "08": [
        Claim(
            "pairs  BLEU {score:.1f}",
            rf"^{NUMBER} pairs  BLEU {NUMBER}  copied {NUMBER}$",
            lambda pairs, score, copied: pairs > 10_000 and score > 20 and copied < 10,
            "score > 20 and copied < 10",
        )
    ],
    "09": [
        Claim(
            "± {error:.2f}",
            rf"^majority {NUMBER} ± {NUMBER}\nbag +{NUMBER} ± {NUMBER}\n"
            rf"encoder +{NUMBER} ± {NUMBER}$",
            lambda commoner, first, bag, second, encoder, third: (
                0.5 <= commoner < 1
                and 0 < bag <= 1
                and 0 < encoder <= 1
                and max(first, second, third) < 0.05
            ),
        ),
    ],
    "12": [
        Claim(
            'found = f"theirs {bits:.2f}',
            rf"as published ✓\n{NUMBER} stories: theirs {NUMBER}, "
            rf"ours {NUMBER} bits per byte$",
            lambda stories, theirs, ours: stories > 40 and 0.5 < ours < theirs < 1.0,
        ),
        Claim(
            '"8 sets": (writing(8)',
            rf"'RMSNorm': {NUMBER}, 'nn.RMSNorm': {NUMBER}, 'SwiGLU': {NUMBER}, "
            rf"'32 heads': {NUMBER}, '8 sets': {NUMBER}, '1 set': {NUMBER}, "
            rf"'128 heads': {NUMBER}\}}",
            lambda ours, torch, gate, heads, eight, one, many: (
                ours > 1
                and torch > 1
                and 0.5 < gate < 2
                and heads > 1.2
                and 0 < one < eight < 0.8
                and 1.2 < many < 4
            ),
        ),
    ],
    "13": [
        Claim(
            "stages = [(0, untrained)",
            rf"(?s)^{NUMBER}   .*^{NUMBER}  [^\n]*\n*\Z",
            lambda untrained, final: abs(untrained - 7.28) < 0.3 and final < 1.8,
            'lines["floor"] < final < 0.85 * lines["bigram"]',
        ),
        Claim(
            'print(f"{full:.0%}  {novel:.0%}',
            rf"^{NUMBER}%  {NUMBER}%  {NUMBER} of 20$",
            lambda full, novel, plots: full > 8 and novel > 95 and plots >= 18,
            "novel > 0.95 and len(plots_told) >= 18",
        ),
        Claim(
            "real_lines.items()",
            rf"'zlib': {NUMBER}, 'unigram': {NUMBER}, 'bigram': {NUMBER}\}}",
            lambda zipped, unigram, bigram: 2 > bigram > 0.1 and bigram < unigram < 4,
            'bits[-1] < real_lines["bigram"]',
        ),
        Claim(
            "{bits[-1]:.2f}  {its_bits:.2f}",
            rf"^{NUMBER}  {NUMBER}$",
            lambda ours, shipped: 0.1 < shipped < ours < 2.0,
            'bits[-1] < real_lines["bigram"]',
        ),
        Claim(
            "gpt_neo(tale)",
            rf"^\[{', '.join([NUMBER] * 8)}\]$",
            lambda *ids: all(0 <= one < 50_257 for one in ids),
        ),
    ],
    "14": [
        Claim(
            "in used.items()",
            rf"'no cache': '{NUMBER} s', 'cache': '{NUMBER} s'",
            lambda slow, fast: slow > fast > 0,
            'used["no cache"] > used["cache"]',
        ),
        Claim(
            "nats, {repetition[name]",
            rf"^beam +{NUMBER} nats, {NUMBER} % repeated, "
            rf"diversity {NUMBER}$",
            lambda nats, repeated, diversity: (
                nats < 2 and repeated < 10 and diversity < 1
            ),
            'mean["beam"] < mean["greedy"]',
        ),
        Claim(
            "nats, {repetition[name]",
            rf"^held out +{NUMBER} nats, {NUMBER} % repeated, "
            rf"diversity {NUMBER}$",
            lambda nats, repeated, diversity: (
                nats < 5 and repeated < 10 and diversity < 1
            ),
            "max(each.mean() for each in repetition.values()) < 10",
        ),
        Claim(
            "200 tokens, {name}",
            rf"200 tokens, greedy: {NUMBER} %, above the story in {NUMBER} of 12$",
            lambda repeated, stories: repeated > 5 and stories > 8,
            "more.sum() > 8",
        ),
        Claim(
            "the model expects {expected:.2f}",
            rf"the model expects {NUMBER} nats per token of the held-out stories$",
            lambda nats: 0 < nats < 5,
            'expected < mean["held out"]',
        ),
    ],
    "17": [
        Claim(
            "times the bound",
            rf"(?s)^width 32: utilization {NUMBER}%\n"
            rf".*width 512: utilization {NUMBER}%\n"
            rf".*at the pace of the fastest run {NUMBER} s, {NUMBER} times the bound$",
            lambda narrow, wide, taken, times: (
                0 < narrow < wide < 100 and 0 < taken < 600 and 1 < times < 100
            ),
            "utilization[512] > utilization[32]",
        ),
        Claim(
            "here and now {live:.4f}, recorded",
            rf"^here and now {NUMBER}, recorded {NUMBER} nats per word$",
            lambda live, recorded: abs(live - recorded) < 0.05 and 0.5 < recorded < 1.5,
            "abs(live - kept[0]) < allowed",
        ),
        Claim(
            "live {live:.4f}, recorded",
            rf"^live {NUMBER}, recorded {NUMBER} nats per word$",
            lambda live, recorded: abs(live - recorded) < 0.05 and 0.5 < recorded < 1.5,
            "abs(live - kept[0]) < allowed",
        ),
    ],
}
NOTEBOOKS = {
    path.name[:2]: json.loads(path.read_text("utf-8"))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
}


def uncompared(notebook):
    """The cells that show a number and are not compared."""
    for cell in code_cells(notebook):
        if IGNORED in cell["metadata"].get("tags", []) and re.search(r"\d", text(cell)):
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
        of_cell = [one for one in claims if one.cell in joined(cell["source"])]
        if not of_cell:
            yield f"{cell['id']} is not compared, and nothing bounds its numbers"
        for claim in of_cell:
            match = re.search(claim.text, text(cell), re.MULTILINE)
            if not match:
                yield f"{cell['id']} stores {text(cell)[:300]!r}, not like {claim.text}"
                continue
            numbers = [float(group.replace(",", "")) for group in match.groups()]
            if not claim.holds(*numbers):
                yield f"{cell['id']} stores {numbers}, outside of what is claimed"
    sources = [joined(cell["source"]) for cell in code_cells(notebook)]
    for claim in claims:
        if not any(claim.cell in source for source in sources):
            yield f"no cell has {claim.cell!r} any more"
        if not any(claim.claimed in source for source in sources):
            yield f"no cell asserts {claim.claimed!r} any more"


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
                absurd = "cuda:7 float8 999 threads"
                if number != "00":
                    absurd = re.sub(r"\d+", "99999", joined(output["text"]))
                output["text"] = absurd
            elif "image/png" not in output.get("data", {}):
                plain = joined(output["data"]["text/plain"])
                output["data"]["text/plain"] = re.sub(r"\d+", "99999", plain)
        assert any(cell["id"] in one for one in complaints(number, notebook))


def test_a_new_uncompared_number_needs_a_claim():
    cell = {"cell_type": "code", "id": "01-099", "source": "print(x)"}
    cell |= {"metadata": {"tags": [IGNORED]}, "outputs": [{"text": "7"}]}
    messages = list(complaints("01", {"cells": [cell]}))
    assert messages == ["01-099 is not compared, and nothing bounds its numbers"]
