"""What notebook 08 counts is what sacrebleu counts."""

from nb08_brevity import brevity
from nb08_clipped import clipped
from sacrebleu import corpus_bleu


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
