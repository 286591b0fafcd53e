"""Exercises of notebook 16: two instruments that change one thing and watch another.

Knows `diagnostics`, and toy models to try them on. Knows nothing of how an answer is
run or shown.
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from course_utils.diagnostics import ignores_source, leaks_future
from named_mistakes import Exercise, Mistake

Logits = Callable[..., Tensor]

# --- toy models: each is one table and one fault -------------------------------------

VOCAB = 11


def _table(generator):
    """One vector per token, and so one model per way of using them.

    In sixteenths: sums are exact, so that no order of adding looks like a change.
    """
    kind = torch.get_default_dtype()
    drawn = torch.randn(VOCAB, 4, generator=generator, dtype=kind)
    return (16 * drawn).round() / 16


def _as_layers(*functions):
    """Functions as layers: a check can show the name of a layer."""
    kinds = [
        type(function.__name__, (nn.Module,), {"forward": staticmethod(function)})
        for function in functions
    ]
    return [kind() for kind in kinds]


def _distinct(generator, rows, length):
    """Ids without repetition within a row."""
    drawn = [torch.randperm(VOCAB, generator=generator) for _ in range(rows)]
    return torch.stack(drawn)[:, :length]


def _with(ids, place, word):
    """The same word at one place of every text."""
    return ids.index_fill(1, torch.tensor(place % ids.shape[1]), word)


def _past(vectors):
    """At each position the mean of all vectors up to it."""
    counts = torch.arange(1, vectors.shape[1] + 1, dtype=vectors.dtype)
    return vectors.cumsum(dim=1) / counts[:, None]


def _next(vectors):
    return F.pad(vectors[:, 1:], (0, 0, 0, 1))


def _only(outputs, place):
    """All outputs are 0 but those at one position."""
    mask = torch.zeros(outputs.shape[1], 1, dtype=outputs.dtype)
    mask[place:][:1] = 1
    return outputs * mask


def decoders(generator: Generator) -> list[tuple]:
    """(decoder, ids, vocab_size): four honest ones, the others leak.

    One reads the number of the last word. In its texts this is one and the same, so a
    change to one fixed word may change nothing.
    """
    table = _table(generator)
    rounding = 8 * torch.finfo(table.dtype).eps  # one step of a number from 8 to 16

    def honest(ids):
        return _past(table[ids])

    def reads_own_word(ids):
        return table[ids]

    def peeks_at_next(ids):
        return _next(table[ids]) + table[ids]

    def peeks_at_start(ids):
        return _only(_next(table[ids]), 0)

    def peeks_near_end(ids):
        return _only(_next(table[ids]), max(0, ids.shape[1] - 2))

    def peeks_two_ahead(ids):
        return _next(_next(table[ids]))

    def peeks_in_the_middle(ids):
        ahead = _only(_next(table[ids]), ids.shape[1] // 2 - 1)
        return torch.cat([ahead, -ahead], dim=-1)

    def peeks_in_last_text(ids):
        return torch.cat([0 * table[ids[:-1]], _next(table[ids[-1:]])])

    def peeks_at_all_later(ids):
        return table[ids].sum(1, keepdim=True) - table[ids].cumsum(dim=1)

    def peeks_a_little(ids):
        sure = F.one_hot(ids % table.shape[1], table.shape[1])
        return sure + _next(table[ids]) / 100

    def peeks_at_last_number(ids):
        numbers = ids[..., None].to(table.dtype)
        return _only(_next(numbers), max(0, ids.shape[1] - 2))

    def rounds_by_batch(ids):
        odd = ids.sum(dim=1)[:, None, None] % 2
        return 8 + _past(table[ids]) + rounding * odd

    def silent(ids):
        return 0 * table[ids]

    ids = _distinct(generator, 2, 7)
    sick = _as_layers(peeks_at_next, peeks_at_start, peeks_near_end)
    sick += _as_layers(peeks_two_ahead, peeks_in_the_middle, peeks_in_last_text)
    sick += _as_layers(peeks_at_all_later, peeks_a_little)
    models = _as_layers(honest, reads_own_word, silent, rounds_by_batch) + sick
    [at_number] = _as_layers(peeks_at_last_number)
    ends = [_with(_distinct(generator, 3, 7), -1, word) for word in (0, 5, VOCAB - 1)]
    return [
        *((model, ids, VOCAB) for model in models),
        *((at_number, texts, VOCAB) for texts in ends),
    ]


def translators(generator: Generator) -> list[tuple]:
    """(translator, source, target, vocab_size): one is deaf, the others are not.

    One listens so little that its best words stay. One reads the number of the first
    word. In its sources this is a word that a fixed change may leave as it is.
    """
    pair = (
        _distinct(generator, 2, 5),
        _distinct(generator, 2, 3),
    )  # in every dtype alike
    table = _table(generator)

    def reads_all(source, target):
        return table[target] + table[source].mean(1, keepdim=True)

    def speaks_alone(source, target):
        return _past(table[target])

    def reads_first_word(source, target):
        return table[target] + table[source[:, :1]]

    def reads_last_word(source, target):
        return table[target] + table[source[:, -1:]]

    def end_reads(source, target):
        return table[target] + _only(reads_all(source, target), target.shape[1] - 1)

    def start_reads(source, target):
        return table[target] + _only(reads_all(source, target), 0)

    def best_words_stay(source, target):
        sure = F.one_hot(target % table.shape[1], table.shape[1])
        places = torch.arange(1, source.shape[1] + 1)[:, None] / 1000
        return sure + (places * table[source]).sum(1, keepdim=True)

    def heard(source):
        return table[source].mean(1, keepdim=True)

    def reads_opposites(source, target):
        both = table[target] + heard(source), table[target] - heard(source)
        return torch.cat(both, dim=-1)

    def reads_in_first_text(source, target):
        return table[target] + torch.cat([heard(source[:1]), 0 * heard(source[1:])])

    def reads_in_last_text(source, target):
        return table[target] + torch.cat([0 * heard(source[:-1]), heard(source[-1:])])

    def reads_first_number(source, target):
        return table[target] + source[:, :1, None].to(table.dtype)

    models = _as_layers(reads_all, speaks_alone, reads_first_word, reads_last_word)
    models += _as_layers(end_reads, start_reads, best_words_stay, reads_opposites)
    models += _as_layers(reads_in_first_text, reads_in_last_text)
    one_row = [rows[:1] for rows in pair]
    [by_number] = _as_layers(reads_first_number)
    three = _distinct(generator, 3, 5), _distinct(generator, 3, 3)
    starts = [_with(three[0], 0, word) for word in (0, 1, VOCAB - 1)]
    return [
        *((model, *pair, VOCAB) for model in models),
        (models[0], *one_row, VOCAB),
        *((by_number, source, three[1], VOCAB) for source in starts),
    ]


# --- two instruments -----------------------------------------------------------------


def leaks(logits: Logits, ids: Tensor, vocab_size: int) -> bool:
    """Whether an output moves when only what comes after it changes."""
    before = logits(ids)
    for cut in range(1, ids.shape[1]):
        after = logits(_other(ids, slice(cut, None), vocab_size))
        if _moved(before[:, :cut], after[:, :cut]):
            return True
    return False


def deaf(logits: Logits, source: Tensor, target: Tensor, vocab_size: int) -> bool:
    """Whether no output moves when every word of the source changes."""
    other = (source + 1) % vocab_size
    return not _moved(logits(source, target), logits(other, target))


def _moved(before, after):
    return (before - after).abs().max().item() > 1e-5


def _other(ids, places, vocab_size):
    """Other tokens at some places."""
    other = ids.clone()
    other[:, places] = (ids[:, places] + 1) % vocab_size
    return other


def _watch(changed, watched):
    """An instrument that changes some places and watches others."""

    def instrument(logits, ids, vocab_size):
        before, after = logits(ids), logits(_other(ids, changed, vocab_size))
        return _moved(before[:, watched], after[:, watched])

    return instrument


def _bit_for_bit(logits, ids, vocab_size):
    before = logits(ids)
    for cut in range(1, ids.shape[1]):
        after = logits(_other(ids, slice(cut, None), vocab_size))
        if not torch.equal(before[:, :cut], after[:, :cut]):
            return True
    return False


def _with_the_changed(logits, ids, vocab_size):
    before = logits(ids)
    for cut in range(1, ids.shape[1]):
        after = logits(_other(ids, slice(cut, None), vocab_size))
        if _moved(before[:, : cut + 1], after[:, : cut + 1]):
            return True
    return False


def _cuts(to_end=0, ask=any, change=None):
    """An instrument that tries cuts, and asks for any or for all of their moves."""

    def instrument(logits, ids, vocab_size):
        before = logits(ids)
        moves = []
        for cut in range(1, ids.shape[1] - to_end):
            other = _other(ids, slice(cut, None), vocab_size)
            if change is not None:
                other = torch.cat([ids[:, :cut], change(ids[:, cut:])], dim=1)
            moves.append(_moved(before[:, :cut], logits(other)[:, :cut]))
        return ask(moves)

    return instrument


def _next_only(logits, ids, vocab_size):
    before = logits(ids)
    for place in range(1, ids.shape[1]):
        after = logits(_other(ids, place, vocab_size))
        if _moved(before[:, place - 1], after[:, place - 1]):
            return True
    return False


LAST, FIRST, EARLIER, LATER = slice(-1, None), slice(0, 1), slice(-1), slice(1, None)


LEAK = Exercise(
    name="clinic.leaks_future",
    statement="Gives True if any output of logits(ids), “b t v”, moves when only later "
    "tokens change. It finds a leak in a decoder that you know nothing about.",
    takes=("logits", "ids", "vocab_size"),
    reference=leaks,
    cases=decoders,
    mistakes=(
        Mistake(
            name="the changed word itself is watched",
            function=_watch(LAST, slice(None)),
            hint="An honest decoder is called sick. Which outputs may move when a word "
            "changes?",
            more="The output at a changed place reads that word. Leave such places "
            "out.",
        ),
        Mistake(
            name="every cut, and the changed word is watched",
            function=_with_the_changed,
            hint="All cuts are tried, but an honest decoder is called sick: the first "
            "changed word may move its own output.",
            more="A slice up to cut ends before the place that changes. Yours is one "
            "longer.",
        ),
        Mistake(
            name="only the last output is watched",
            function=_watch(LAST, LAST),
            hint="No word comes after the last one. What could leak into its output?",
            more="Look at the outputs before the place where you change something.",
        ),
        Mistake(
            name="the past is changed, the later outputs are watched",
            function=_watch(FIRST, LATER),
            hint="You tested whether it remembers the past. Remembering is what a "
            "decoder is for.",
            more="A leak points backward: from a later word to an earlier output.",
        ),
        Mistake(
            name="only the last word is changed",
            function=_watch(LAST, EARLIER),
            hint="A model whose first output peeks at the second word gets away.",
            more="Every place between two words is a border that a leak may cross.",
        ),
        Mistake(
            name="only the first output is watched",
            function=_watch(LATER, FIRST),
            hint="A model whose leak lies near the end goes unnoticed.",
            more="Every place between two words is a border that a leak may cross.",
        ),
        Mistake(
            name="only the far ends of the text",
            function=_watch(LAST, FIRST),
            hint="You change the last word and watch the first output. A model that "
            "peeks one word ahead gets away.",
            more="Every place between two words is a border that a leak may cross.",
        ),
        Mistake(
            name="one cut in the middle",
            function=lambda logits, ids, size: _watch(
                slice(ids.shape[1] // 2, None), slice(ids.shape[1] // 2)
            )(logits, ids, size),
            hint="You cut once, in the middle. A leak that stays within one half gets "
            "away.",
            more="Every place between two words is a border that a leak may cross.",
        ),
        Mistake(
            name="the last cut is left out",
            function=_cuts(to_end=1),
            hint="The first cuts are tried. Can an output before the last word peek at "
            "it?",
            more="The last word alone may change, too: where does your range end?",
        ),
        Mistake(
            name="every cut must leak",
            function=_cuts(ask=all),
            hint="A model that peeks at only one place goes unnoticed. How many leaks "
            "make it sick?",
            more="One output that moves is enough: any or all?",
        ),
        Mistake(
            name="only the next word is changed",
            function=_next_only,
            hint="You check each output only against the word right after it. What "
            "about a model that peeks two words ahead?",
            more="Change all words after the cut, and watch all outputs before it.",
        ),
        Mistake(
            name="the later words are put in reverse",
            function=_cuts(change=lambda later: later.flip(1)),
            hint="The later words are the same, only reordered. Does their sum change, "
            "and what is different when only one word comes later?",
            more="Every later word must become another word.",
        ),
        Mistake(
            name="the later words become 0",
            function=_cuts(change=torch.zeros_like),
            hint="A later word that is already 0 stays the same, so its leak goes "
            "unnoticed.",
            more="Every later word must become a different word. What turns each into "
            "a different one?",
        ),
        Mistake(
            name="compared bit for bit",
            function=_bit_for_bit,
            hint="A healthy model whose sums are rounded in another order is accused.",
            more="Allow for rounding: torch.allclose, or a difference above 1e-5.",
        ),
        Mistake(
            name="upside down",
            function=lambda logits, ids, size: not leaks_future(logits, ids, size),
            hint="Everything is found, but reported the wrong way around: True means "
            "sick.",
            more="Honest models should give False.",
        ),
    ),
    hint="Cut the text somewhere. Change all words after the cut: may an output before "
    "it move? Then try every cut.",
    shared=leaks_future,
)


def _gap(before, after):
    return (before - after).abs()


def _deaf(sources=lambda x: _other(x, slice(None), VOCAB), targets=None, places=None):
    """An instrument that changes some words and watches some outputs."""
    places = places or slice(None)

    def instrument(logits, source, target, vocab_size):
        after = logits(sources(source), (targets or (lambda x: x))(target))
        return not _moved(logits(source, target)[:, places], after[:, places])

    return instrument


SOURCE = Exercise(
    name="clinic.ignores_source",
    statement="Gives True if logits(source, target), “b t v”, stay the same whatever "
    "the source says. Fluent nonsense is what such a translator writes.",
    takes=("logits", "source", "target", "vocab_size"),
    reference=deaf,
    cases=translators,
    mistakes=(
        Mistake(
            name="the target is changed",
            function=_deaf(lambda x: x, lambda x: _other(x, slice(None), VOCAB)),
            hint="Every decoder listens to itself. What else should this one listen "
            "to?",
            more="Keep the target. Change the other argument.",
        ),
        Mistake(
            name="only the last word of the source is changed",
            function=_deaf(lambda x: _other(x, LAST, VOCAB)),
            hint="A model that reads the first word only is called deaf.",
            more="Leave no word of the source as it was.",
        ),
        Mistake(
            name="only the first word of the source is changed",
            function=_deaf(lambda x: _other(x, FIRST, VOCAB)),
            hint="A model that reads the last word only is called deaf.",
            more="Leave no word of the source as it was.",
        ),
        Mistake(
            name="the source is only turned around",
            function=_deaf(lambda x: x.flip(1)),
            hint="A model that reads a bag of words hears nothing new, and is called "
            "deaf.",
            more="The same words in a different order are still the same words. Take "
            "different ones.",
        ),
        Mistake(
            name="sources change places",
            function=_deaf(lambda x: x.roll(1, dims=0)),
            hint="In a batch of one row, nothing has changed: a healthy translator is "
            "called sick.",
            more="Do not borrow the words from another row. Take other ids.",
        ),
        Mistake(
            name="only the last output is watched",
            function=_deaf(places=LAST),
            hint="A model that listens while it writes the first word is called deaf.",
            more="One output that moves is enough, wherever it stands.",
        ),
        Mistake(
            name="only the first output is watched",
            function=_deaf(places=FIRST),
            hint="A model that listens while it writes the last word is called deaf.",
            more="One output that moves is enough, wherever it stands.",
        ),
        Mistake(
            name="only the best words are compared",
            function=lambda logits, source, target, size: torch.equal(
                logits(source, target).argmax(-1),
                logits(_other(source, slice(None), size), target).argmax(-1),
            ),
            hint="A model that listens a little is called deaf: its logits move, its "
            "best words stay.",
            more="Compare the logits themselves.",
        ),
        Mistake(
            name="only the first text of the batch is watched",
            function=lambda logits, source, target, size: (
                not _moved(
                    logits(source, target)[:1],
                    logits(_other(source, slice(None), size), target)[:1],
                )
            ),
            hint="A model that listens in another text of the batch is called deaf.",
            more="Compare the logits of all texts.",
        ),
        Mistake(
            name="a small move is taken for rounding",
            function=lambda logits, source, target, size: (
                not _gap(
                    logits(source, target),
                    logits(_other(source, slice(None), size), target),
                ).max()
                > 0.1
            ),
            hint="A model that listens a little is called deaf. How large is a "
            "rounding error?",
            more="64-bit numbers differ by about 1e-15 when nothing has changed.",
        ),
        Mistake(
            name="all words of the source become 0",
            function=_deaf(torch.zeros_like),
            hint="A word that is already 0 stays the same. A model that reads only "
            "that word is called deaf.",
            more="Leave no word of the source as it was. What turns each into a "
            "different word?",
        ),
        Mistake(
            name="upside down",
            function=lambda logits, *given: not ignores_source(logits, *given),
            hint="Everything is found, but reported the wrong way around: True means "
            "sick.",
            more="What should a model that listens give?",
        ),
    ),
    hint=(
        "If a model does not listen, what may change without moving an output?",
        "Call it twice, with the same target but with two sources that differ at "
        "every place.",
    ),
    shared=ignores_source,
)


EXERCISES = (LEAK, SOURCE)
