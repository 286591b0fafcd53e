"""What notebook 08 counts is what sacrebleu counts, and its exercises are open."""

from pathlib import Path

import pytest
from nb08_brevity import brevity
from nb08_clipped import clipped
from sacrebleu import corpus_bleu

from tests.support.notebook_code import code_cells

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "08_translator.ipynb"


STUBS = ["step", "choice", "brevity", "clipped"]


@pytest.mark.parametrize("stub", STUBS)
def test_what_the_reader_is_to_write_is_not_written_yet(stub):
    (cell,) = [both for both in code_cells("08") if f"def my_{stub}(" in both[0]]
    messages = ["".join(output["data"]["text/plain"]) for output in cell[1]]
    assert len(messages) == cell[0].count("check(")
    assert all("not tried yet" in text for text in messages)


def test_the_price_of_brevity_is_sacrebleus():
    outputs = ["one two three", "one two three four five", "one two"]
    references = ["one two three four", "one two three four", "one two three"]
    for some in (slice(3), slice(2), slice(1), slice(1, 2)):
        expected = corpus_bleu(outputs[some], [references[some]], tokenize="none").bp
        lengths = [
            [len(text.split()) for text in side[some]] for side in (outputs, references)
        ]
        assert abs(brevity(*lengths) - expected) < 1e-12


def test_the_clipped_runs_are_sacrebleus():
    output = "the cat and the cat sat on the mat"
    references = ["the cat sat on a mat", "and the cat lay on the mat"]
    expected = corpus_bleu([output], [[text] for text in references], tokenize="none")
    for n in (1, 2, 3, 4):
        words = [text.split() for text in references]
        hits, total = clipped(output.split(), words, n)
        assert (hits, total) == (expected.counts[n - 1], expected.totals[n - 1])
