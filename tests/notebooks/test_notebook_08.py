"""What notebook 08 counts is what sacrebleu counts; what it says of one holds of 42."""

from collections import Counter

import pytest
import torch
from nb08_brevity import brevity
from nb08_clipped import clipped
from sacrebleu import corpus_bleu

from course_utils import pretrained
from course_utils.intervening import activation_patch, intervene
from course_utils.recording import record
from course_utils.records import load_record
from known_worlds.phrases import pair


def test_pieces_make_words_that_do_not_exist():
    texts = load_record("nb08_pieces").numbers(vocabulary=1000, steps=1000)
    written = " ".join(texts["test"] + texts["object"] + texts["adjective"])
    assert "Siempre la siguimos." in written and " no perden " in written


HEADS = [(layer, head) for layer in range(3) for head in range(4)]


def what_turns(model, tokenizer, sentence, noun):
    """Which row of the memory, and which head, turns "lo" into "la"."""
    lo, la = tokenizer.encode("y lo la")[1:]
    tokens = list(sentence.source_tokens)
    tokens[noun] = " bicycle"
    ours = torch.tensor([tokenizer.encode(sentence.source)])
    other = model.encode(torch.tensor([tokenizer.encode("".join(tokens))]))
    written = tokenizer.encode(sentence.target.split(" lo ")[0])

    def turned(place=None):
        memory = model.encode(ours)
        if place is not None:
            memory[:, place] = other[:, place]
        ids = torch.tensor([[tokenizer.bos_id, *written]])
        scores = model.decode(ids, memory, ours)[0, -1]
        return int(scores[la] > scores[lo])

    turns = {"it": turned(len(tokens) - 2)}
    with record(model) as seen:
        turns["noun"] = turned(noun)
    for layer, head in HEADS:
        reads = f"blocks.{layer}.cross_attention.attend"
        with intervene(model, {reads: activation_patch(seen[reads], heads=head)}):
            turns[layer, head] = turned()
    return turns


@pytest.mark.slow
@torch.no_grad()
def test_the_noun_decides_between_lo_and_la_through_one_head():
    model, tokenizer = pretrained.load("translator")
    turns = Counter()
    for sentence in (pair(index, "test") for index in range(1800)):
        words = [token.strip() for token in sentence.source_tokens]
        if words[-2:] == ["it", "."] and " y lo " in sentence.target:
            noun = len(words) - words[::-1].index("and") - 2  # before the last "and"
            turns.update(what_turns(model, tokenizer, sentence, noun) | {"all": 1})
    assert +turns == {"all": 42, "noun": 42, (1, 2): 42}


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
