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
    "translation.bleu_clipped",
    "Gives (hits, all): of the runs of n words in an output, how many a reference "
    "holds, and how many there are. A run counts at most as often as in the reference "
    "that holds it most often. So saying one right word seven times does not pay.",
    ("output", "references", "n"),
    clipped,
    lambda generator: [
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
        (_words("the cat"), [_words("the cat saw the dog and the cow")], 1),
        (_words("out sideline"), [_words("outside line")], 2),  # alike without a space
        (_words("a cat sat"), [_words("the cat sat"), _words("a dog was not here")], 2),
        (_words("he sat"), [_words("the cat sat")], 1),
    ],
    (
        Mistake(
            "never clipped",
            _unclipped,
            "A run that a reference holds once counts every time the output has it.",
            "How often does the reference hold it?",
        ),
        Mistake(
            "each run once",
            _each_once,
            "A run that appears twice in both counts only once in your version.",
            "A set forgets how often each run appears.",
        ),
        Mistake(
            "hits as a set",
            _set_of_hits,
            "Your hits count each run once, your total counts all.",
            "A set forgets how often each run appears.",
        ),
        Mistake(
            "the counts of all references added",
            _added_up,
            "If two references each hold a run once, your version allows it twice.",
            "Which one of the references holds it most often?",
        ),
        Mistake(
            "the first reference only",
            lambda output, references, n: clipped(output, references[:1], n),
            "A run found only in another reference is no hit in your version.",
            "A run may come from any of the references.",
        ),
        Mistake(
            "the last reference only",
            lambda output, references, n: clipped(output, references[-1:], n),
            "A run found only in an earlier reference is no hit in your version.",
            "Does your loop keep what earlier references have allowed?",
        ),
        Mistake(
            "the counts of the references are the hits",
            _counts_of_the_references,
            "A run that the output has once is a hit twice where a reference holds it "
            "twice.",
            "There are two counts of each run. Which of them is a bound for the hits?",
        ),
        Mistake(
            "letters are compared, not words",
            _inside_of_words,
            "You look for a run in a text. But “the” contains “he” as well. Is “he” a "
            "word of that reference?",
            "Compare words with words: a run is a tuple of n of them.",
        ),
        Mistake(
            "the best single reference",
            _best_reference,
            "You compare with each reference and keep the best result. A hit in "
            "another reference is lost then.",
            "Decide for each run separately which reference holds it most often.",
        ),
        Mistake(
            "references laid end to end",
            _one_long_reference,
            "Runs that cross from one reference into the next count as well.",
            "Count the runs of each reference separately.",
        ),
        Mistake(
            "single words for every n",
            lambda output, references, n: clipped(output, references, 1),
            "Your counts do not depend on n.",
            "A run has n words that stand next to each other.",
        ),
        Mistake(
            "the reference's total",
            _of_the_reference,
            "You divide by what the reference holds: that is recall.",
            "A precision counts the output's own runs.",
        ),
        Mistake(
            "words in place of runs",
            _all_words,
            "Five words hold five runs of one word, but only four of two.",
            "Where does the last run of n words begin?",
        ),
        Mistake(
            "the hits of all references added",
            _hits_added,
            "A run that two references hold is a hit twice, though the output has it "
            "once.",
            "First decide how often a run is allowed, then count the hits once.",
        ),
        Mistake(
            "shorter runs at the end",
            _shorter_at_the_end,
            "The last pieces that you cut hold fewer than n words. Are they runs of n?",
            "Where does the last run of n words begin?",
        ),
        Mistake(
            "less than no runs",
            lambda output, references, n: (
                clipped(output, references, n)[0],
                len(output) - n + 1,
            ),
            "Right for most outputs. How many runs of three words does an output of "
            "one word have?",
            "A number of runs is never below 0.",
        ),
        Mistake(
            "the output loses its last run",
            lambda output, references, n: clipped(output[:-1], references, n),
            "The references are counted correctly. The last run of the output is "
            "missing.",
            "Where does the last run of n words begin? range stops before its end.",
        ),
        Mistake(
            "the last run is lost",
            lambda output, references, n: clipped(
                output[:-1], [reference[:-1] for reference in references], n
            ),
            "The last run of every text is missing. How many runs of one word do "
            "three words hold?",
            "Where does the last run of n words begin? range stops before its end.",
        ),
    ),
    "Count the output's runs and each reference's; a Counter can take the larger (`|`) "
    "and the smaller (`&`) of two counts.",
)


EXERCISES = (CLIPPED,)
