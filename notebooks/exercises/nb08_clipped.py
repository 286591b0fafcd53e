"""An exercise of notebook 08: the runs of words that BLEU counts.

Knows one definition. Knows nothing of how an answer is run or shown.
"""

from collections import Counter

from named_mistakes import Exercise, Mistake


def runs(words: list[str], n: int) -> Counter:
    """How often each run of n words occurs."""
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def clipped(output: list[str], references: list[list[str]], n: int) -> tuple[int, int]:
    """Hits and all n-grams of an output (Papineni et al. 2002, section 2.1)."""

    def count_runs(words):
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    allowed = Counter()
    for reference in references:
        allowed |= count_runs(reference)  # the larger count of each run
    output_runs = count_runs(output)
    return (output_runs & allowed).total(), output_runs.total()


def _words(text: str) -> list[str]:
    return text.split()


def _unclipped(output, references, n):
    known = {run for reference in references for run in runs(reference, n)}
    output_runs = runs(output, n)
    hits = sum(count for run, count in output_runs.items() if run in known)
    return hits, output_runs.total()


def _each_once(output, references, n):
    known = {run for reference in references for run in runs(reference, n)}
    output_runs = set(runs(output, n))
    return len(output_runs & known), len(output_runs)


def _added_up(output, references, n):
    allowed = Counter()
    for reference in references:
        allowed += runs(reference, n)
    output_runs = runs(output, n)
    return (output_runs & allowed).total(), output_runs.total()


def _hits_added(output, references, n):
    output_runs = runs(output, n)
    hits = sum((output_runs & runs(reference, n)).total() for reference in references)
    return hits, output_runs.total()


def _best_reference(output, references, n):
    output_runs = runs(output, n)
    hits = [(output_runs & runs(reference, n)).total() for reference in references]
    return max(hits), output_runs.total()


def _of_the_reference(output, references, n):
    hits, _ = clipped(output, references, n)
    return hits, max(runs(reference, n).total() for reference in references)


def _counts_of_the_references(output, references, n):
    allowed = Counter()
    for reference in references:
        allowed |= runs(reference, n)
    output_runs = runs(output, n)
    return sum(allowed[run] for run in output_runs), output_runs.total()


def _shorter_at_the_end(output, references, n):
    """Slices at every place: the last ones hold fewer than n words."""

    def cut(words):
        return Counter(tuple(words[place : place + n]) for place in range(len(words)))

    allowed = Counter()
    for reference in references:
        allowed |= cut(reference)
    return (cut(output) & allowed).total(), len(output)


def _inside_of_words(output, references, n):
    """Joins the words and looks for a run in the text, also inside of words."""
    output_runs = runs(output, n)
    texts = [" ".join(reference) for reference in references]
    allowed = {
        run: max(text.count(" ".join(run)) for text in texts) for run in output_runs
    }
    return (output_runs & Counter(allowed)).total(), output_runs.total()


def _one_long_reference(output, references, n):
    joined = [word for reference in references for word in reference]
    return clipped(output, [joined], n)


def _all_words(output, references, n):
    return clipped(output, references, n)[0], len(output)


def _set_of_hits(output, references, n):
    hits, _ = _each_once(output, references, n)
    return hits, runs(output, n).total()


CLIPPED = Exercise(
    name="translation.bleu_clipped",
    statement="Gives (hits, all): of the runs of n words in an output, how many a "
    "reference holds, and how many there are. A run counts at most as often as in the "
    "reference that holds it most often. So saying one right word seven times does not "
    "pay.",
    takes=("output", "references", "n"),
    reference=clipped,
    cases=lambda generator: [
        (_words("the the the the cat"), [_words("the cat on the mat")], 1),
        (
            _words("the cat sat and the cat ran"),
            [_words("the cat sat"), _words("a cat ran and the cat sat")],
            2,
        ),
        (
            _words("the dog the dog the dog"),
            [_words("the dog saw the dog"), _words("the dog")],
            2,
        ),
        (
            _words("a b a b a b a"),
            [_words("a b a"), _words("b a b a"), _words("a b")],
            3,
        ),
        (_words("a b"), [_words("a c"), _words("d b")], 1),
        (_words("one two"), [_words("one two three four")], 3),
        (_words("one two three"), [_words("three two one")], 3),
        (_words("one"), [_words("one two three")], 3),
        (_words("one two"), [_words("one four")], 1),  # two of three are as before
        (_words("four"), [_words("one four")], 1),
        (_words("one two"), [_words("six four")], 1),
        (
            _words("a b a b a b a"),
            [_words("a b a"), _words("b a b a"), _words("a b")],
            1,
        ),
        (_words("the cat"), [_words("the cat saw the dog and the cow")], 1),
        (_words("out sideline"), [_words("outside line")], 2),  # alike without a space
        (_words("a cat sat"), [_words("the cat sat"), _words("a dog was not here")], 2),
        (_words("he sat"), [_words("the cat sat")], 1),
    ],
    mistakes=(
        Mistake(
            name="never clipped",
            function=_unclipped,
            hint="A run that a reference holds once counts every time the output has "
            "it.",
            more="How often does the reference hold it?",
        ),
        Mistake(
            name="each run once",
            function=_each_once,
            hint="A run that appears twice in both counts only once in your version.",
            more="A set forgets how often each run appears.",
        ),
        Mistake(
            name="hits as a set",
            function=_set_of_hits,
            hint="Your hits count each run once, your total counts all.",
            more="A set forgets how often each run appears.",
        ),
        Mistake(
            name="the counts of all references added",
            function=_added_up,
            hint="If two references each hold a run once, your version allows it "
            "twice.",
            more="Which one of the references holds it most often?",
        ),
        Mistake(
            name="the first reference only",
            function=lambda output, references, n: clipped(output, references[:1], n),
            hint="A run found only in another reference is no hit in your version.",
            more="A run may come from any of the references.",
        ),
        Mistake(
            name="the last reference only",
            function=lambda output, references, n: clipped(output, references[-1:], n),
            hint="A run found only in an earlier reference is no hit in your version.",
            more="Does your loop keep what earlier references have allowed?",
        ),
        Mistake(
            name="the counts of the references are the hits",
            function=_counts_of_the_references,
            hint="A run that the output has once is a hit twice where a reference "
            "holds it twice.",
            more="There are two counts of each run. Which of them is a bound for the "
            "hits?",
        ),
        Mistake(
            name="letters are compared, not words",
            function=_inside_of_words,
            hint="You look for a run in a text. But “the” contains “he” as well. Is "
            "“he” a word of that reference?",
            more="Compare words with words: a run is a tuple of n of them.",
        ),
        Mistake(
            name="the best single reference",
            function=_best_reference,
            hint="You compare with each reference and keep the best result. A hit in "
            "another reference is lost then.",
            more="Decide for each run separately which reference holds it most often.",
        ),
        Mistake(
            name="references laid end to end",
            function=_one_long_reference,
            hint="Runs that cross from one reference into the next count as well.",
            more="Count the runs of each reference separately.",
        ),
        Mistake(
            name="single words for every n",
            function=lambda output, references, n: clipped(output, references, 1),
            hint="Your counts do not depend on n.",
            more="A run has n words that stand next to each other.",
        ),
        Mistake(
            name="the reference's total",
            function=_of_the_reference,
            hint="You divide by what the reference holds: that is recall.",
            more="A precision counts the output's own runs.",
        ),
        Mistake(
            name="words in place of runs",
            function=_all_words,
            hint="Five words hold five runs of one word, but only four of two.",
            more="Where does the last run of n words begin?",
        ),
        Mistake(
            name="the hits of all references added",
            function=_hits_added,
            hint="A run that two references hold is a hit twice, though the output has "
            "it once.",
            more="First decide how often a run is allowed, then count the hits once.",
        ),
        Mistake(
            name="shorter runs at the end",
            function=_shorter_at_the_end,
            hint="The last pieces that you cut hold fewer than n words. Are they runs "
            "of n?",
            more="Where does the last run of n words begin?",
        ),
        Mistake(
            name="less than no runs",
            function=lambda output, references, n: (
                clipped(output, references, n)[0],
                len(output) - n + 1,
            ),
            hint="Right for most outputs. How many runs of three words does an output "
            "of one word have?",
            more="A number of runs is never below 0.",
        ),
        Mistake(
            name="the output loses its last run",
            function=lambda output, references, n: clipped(output[:-1], references, n),
            hint="The references are counted correctly. The last run of the output is "
            "missing.",
            more="Where does the last run of n words begin? range stops before its "
            "end.",
        ),
        Mistake(
            name="the last run is lost",
            function=lambda output, references, n: clipped(
                output[:-1], [reference[:-1] for reference in references], n
            ),
            hint="The last run of every text is missing. How many runs of one word do "
            "three words hold?",
            more="Where does the last run of n words begin? range stops before its "
            "end.",
        ),
    ),
    hint=(
        "Take an output of seven times *the*. How many of them may count, if the "
        "reference has two?",
        "Count the output's runs and each reference's; a Counter can take the "
        "larger (`|`) and the smaller (`&`) of two counts.",
    ),
)


EXERCISES = (CLIPPED,)
