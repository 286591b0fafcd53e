"""Exercises of notebook 10: count the pairs, join one, repeat both.

Knows the package's byte pairs. Knows nothing of how an answer is run or shown.
"""

from collections import Counter
from itertools import pairwise

import torch

from course_utils import bpe
from named_mistakes import Exercise, Mistake

Word = tuple[int, ...]


def _drawn(generator, numbers):
    """The same numbers in a drawn order."""
    order = torch.randperm(len(numbers), generator=generator).tolist()
    return [numbers[place] for place in order]


# --- pair counts -------------------------------------------------------------------


def pair_counts(words: dict[Word, int]) -> Counter[bpe.Pair]:
    """How often each pair of neighbors stands in the text.

    words: how often each word stands there; a pair counts once per place in it.
    """
    pairs = Counter()
    for word, times in words.items():
        for pair in pairwise(word):
            pairs[pair] += times
    return pairs


def _words(generator):
    a, b, c, d = _drawn(generator, [4, 37, 90, 260])
    mixed = {(a, b, a, b): 3, (b, b, b): 2, (c,): 9, (b, a, d): 5, (d, c): 1}
    return [(mixed,), ({(a, a, a, a, b): 4, (b, c, b): 2, (a, b): 1},)]


def _counted(words, pairs_of):
    pairs = Counter()
    for word, times in words.items():
        for pair in pairs_of(word):
            pairs[pair] += times
    return pairs


def _apart(word):
    """Pairs that share no place with an equal one: in a a a one pair."""
    last = None
    for pair in pairwise(word):
        last = None if pair == last else pair
        if last:
            yield pair


def _overwritten(words):
    """Each word counts rightly, and forgets what earlier ones have counted."""
    pairs = {}
    for word, times in words.items():
        pairs |= _counted({word: times}, pairwise)
    return pairs


def _set_not_added(words):
    pairs = {}
    for word, times in words.items():
        for pair in pairwise(word):
            pairs[pair] = times
    return pairs


PAIR_COUNTS = Exercise(
    name="tokens.pair_counts",
    statement="Gives a dict from pair to count, for a dict from a word (a tuple of "
    "ids) to how often it stands in the text. The largest count is the next merge.",
    takes=("words",),
    reference=pair_counts,
    cases=_words,
    mistakes=(
        Mistake(
            name="a word counts once",
            function=lambda words: Counter(
                pair for word in words for pair in pairwise(word)
            ),
            hint="“the” occurs in a text a thousand times. Your counts do not reflect "
            "that.",
            more="The dict holds two things: the word, and how often it occurs. One is "
            "not used.",
        ),
        Mistake(
            name="a pair counts once per word",
            function=lambda words: _counted(words, lambda word: set(pairwise(word))),
            hint="In b-an-an-a the pair occurs twice. You only noted that it occurs.",
            more="Go from place to place, not from one distinct pair to the next.",
        ),
        Mistake(
            name="pairs across the border of words",
            function=lambda words: Counter(
                pairwise([id for w, times in words.items() for id in w * times])
            ),
            hint="The last id of a word and the first of the next are not neighbors "
            "here.",
            more="Section 3 cuts so that merges never cross a cut. Count each word by "
            "itself.",
        ),
        Mistake(
            name="only every second pair",
            function=lambda words: _counted(
                words, lambda w: zip(w[::2], w[1::2], strict=False)
            ),
            hint="You cut the word into pieces of two. Each id has *two* neighbors.",
            more="A word of n ids has n − 1 pairs: (0, 1), (1, 2), …",
        ),
        Mistake(
            name="left and right do not matter",
            function=lambda words: _counted(
                words, lambda w: [tuple(sorted(p)) for p in pairwise(w)]
            ),
            hint="“th” and “ht” share a count. Is that one pair or two?",
            more="Keep the order in which the ids stand.",
        ),
        Mistake(
            name="the last pair is left out",
            function=lambda words: _counted(words, lambda w: pairwise(w[:-1])),
            hint="Every word has lost its last id before you count.",
            more="A word of n ids has n − 1 pairs. Where does your loop end?",
        ),
        Mistake(
            name="overlapping pairs count once",
            function=lambda words: _counted(words, _apart),
            hint="In x x x you count one pair. It *joins* once; how often does it "
            "occur?",
            more="You are only counting. The rule for overlaps applies to joining.",
        ),
        Mistake(
            name="a later word overwrites",
            function=_overwritten,
            hint="“the” and “then” hold the same pair. The second has wiped out the "
            "first.",
            more="What is already there when the next word brings its count?",
        ),
        Mistake(
            name="counts are set, not added",
            function=_set_not_added,
            hint="A pair that you meet again loses the count that it had.",
            more="What is already there when the pair comes up again?",
        ),
        Mistake(
            name="the first word only",
            function=lambda words: _counted(dict([*words.items()][:1]), pairwise),
            hint="Pairs that occur only in later words are missing.",
            more="Does your function return before the loop over the words has ended?",
        ),
        Mistake(
            name="the last id and the first make a pair",
            function=lambda words: _counted(
                words, lambda w: zip((w[-1], *w), w, strict=False)
            ),
            hint="You count one pair too many in each word. Which place is word[-1]?",
            more="A word of n ids has n − 1 pairs: (0, 1), (1, 2), …",
        ),
    ),
    hint="Two loops: over the words, and over the neighbors within each word. How much "
    "is added each time?",
)


# --- merge -------------------------------------------------------------------------


def merge(word: Word, pair: bpe.Pair, new: int) -> list[int]:
    """Walk along: two ids further after a hit, one otherwise."""
    result = []
    place = 0
    while place < len(word):
        if word[place : place + 2] == pair:
            result.append(new)
            place += 2
        else:
            result.append(word[place])
            place += 1
    return result


def _joined(word, pair, new, *, step=2, matches=lambda here, pair: here == pair):
    result, place = [], 0
    while place < len(word):
        hit = matches(tuple(word[place : place + 2]), pair)
        result.append(new if hit else word[place])
        place += step if hit else 1
    return result


def _up_to_the_last(word, pair, new):
    """Walks while there is a pair to compare, and forgets the id that remains."""
    result, place = [], 0
    while place < len(word) - 1:
        match = word[place : place + 2] == pair
        result.append(new if match else word[place])
        place += 2 if match else 1
    return result


def _pair_at_the_end_stays(word, pair, new):
    """Does not compare the last two ids."""
    result, place = [], 0
    while place < len(word):
        match = place < len(word) - 2 and word[place : place + 2] == pair
        result.append(new if match else word[place])
        place += 2 if match else 1
    return result


def _by_twos(word, pair, new):
    """Cuts the word into twos first."""
    result = []
    for place in range(0, len(word), 2):
        two = word[place : place + 2]
        result += [new] if two == pair else two
    return result


def _once(word, pair, new):
    for place, here in enumerate(pairwise(word)):
        if here == pair:
            return [*word[:place], new, *word[place + 2 :]]
    return list(word)


def _from_the_right(word, pair, new):
    return bpe.join(word[::-1], pair[::-1], new)[::-1]


def _reaching(word, pair, new):
    """Both pairs of a a a are replaced: the second reaches back into the first."""
    hits = [here == pair for here in pairwise(word)]
    covered = {p for i, hit in enumerate(hits) if hit for p in (i, i + 1)}
    result = []
    for place, id in enumerate(word):
        if place < len(hits) and hits[place]:
            result.append(new)
        elif place not in covered:
            result.append(id)
    return result


def _in_a_text(word, pair, new):
    """Replaces the digits of the pair, also where they are part of other ids."""
    text = " ".join(map(str, word)).replace("{} {}".format(*pair), str(new))
    return [int(part) for part in text.split()]


def _lines(generator):
    a, b, c = _drawn(generator, [4, 37, 90])
    words = (a, b, a, c, b, a, b), (b, a, b, a), (c, b, a, a, b), (a, b, a, b, c)
    cases = [(word, (a, b), 260) for word in words]
    cases += [((a,) * length, (a, a), 261) for length in (3, 4, 5)]
    digits = (11, 2, 1, 2, 1, 21), (1, 2), 300  # as a text it holds “1 2” three times
    cases += [(words[0], (a, b), 262), (words[0], (b, a), 260)]
    return [*cases, ((c,), (a, b), 260), digits]


MERGE = Exercise(
    name="tokens.merge",
    statement="Gives the ids of a word (a tuple) with each pair replaced by the new "
    "id, from left to right. Training and encoding repeat this one step.",
    takes=("word", "pair", "new"),
    reference=merge,
    cases=_lines,
    mistakes=(
        Mistake(
            name="only the first place",
            function=_once,
            hint="“banana” holds the pair twice, and you have stopped after one.",
            more="After a hit, go on with what comes after it.",
        ),
        Mistake(
            name="an id is used twice",
            function=_reaching,
            hint="In x x x two pairs overlap. Each id can be joined only once.",
            more="Where does the search go on after a hit?",
        ),
        Mistake(
            name="from right to left",
            function=_from_the_right,
            hint="In x x x you join the last two. The course begins on the left.",
            more="Any rule would do, as long as all use it. Ours starts at place 0.",
        ),
        Mistake(
            name="always two places further",
            function=_by_twos,
            hint="You compare at places 0, 2, 4 and so on. What about a pair that "
            "begins at place 1?",
            more="After a hit two ids are used up. How many are used up without one?",
        ),
        Mistake(
            name="the second half stays",
            function=lambda word, pair, new: _joined(word, pair, new, step=1),
            hint="The pair's first id became `new`; its second is still there.",
            more="How many places does one hit use up?",
        ),
        Mistake(
            name="the last id is lost",
            function=_up_to_the_last,
            hint="The last id of a word is missing. How far does your loop go?",
            more="An id without a right neighbor still belongs to the word.",
        ),
        Mistake(
            name="a pair at the end stays",
            function=_pair_at_the_end_stays,
            hint="The last two ids of a word are never joined. How far do you compare?",
            more="A word of n ids has a pair at place n − 2, too.",
        ),
        Mistake(
            name="the last id comes twice",
            function=lambda word, pair, new: [
                *_up_to_the_last(word, pair, new),
                word[-1],
            ],
            hint="When a word ends with the pair, its last id appears a second time.",
            more="Has the last id been used already, when you put it at the end?",
        ),
        Mistake(
            name="the other order counts as well",
            function=lambda word, pair, new: _joined(
                word, pair, new, matches=lambda here, pair: here in (pair, pair[::-1])
            ),
            hint="“an” and “na” are not the same pair. Decoding would mix them up.",
            more="Compare both ids, in their order.",
        ),
        Mistake(
            name="nothing is joined",
            function=lambda word, pair, new: list(word),
            hint="The word comes back as it was. Does your comparison ever say yes?",
            more="A list never equals a tuple: [1, 2] == (1, 2) is False.",
        ),
        Mistake(
            name="digits are compared, not ids",
            function=_in_a_text,
            hint="You join the ids into a text and replace in it. “11 2” contains “1 "
            "2” as well. Is 1 an id in that word?",
            more="Compare numbers with numbers, place by place.",
        ),
    ),
    hint=(
        "Do it by hand for a a a with the pair (a, a): what comes out, and why "
        "not two new ids?",
        "Walk along the word with an index that you move yourself: by how much "
        "after a hit, and by how much otherwise?",
    ),
    shared=bpe.join,
)


# --- the loop ----------------------------------------------------------------------


def train(words: dict[Word, int], num_merges: int) -> dict[bpe.Pair, int]:
    """Count, give the most frequent pair the next id, join it everywhere; again."""
    merges = {}
    while len(merges) < num_merges and (pairs := pair_counts(words)):
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        new = merges[best] = 260 + len(merges)
        words = {tuple(bpe.join(w, best, new)): n for w, n in words.items()}
    return merges


def _texts(generator):
    """Words of letters: with equal counts, with one word, with nothing to join."""
    drawn = 68 + torch.randperm(26, generator=generator)[:5]
    a, b, c, d, e = drawn.sort().values.tolist()
    ties = {(b, c): 2, (a, d): 2, (d, a): 2}
    many = {(c, a, b): 5, (a, b, d): 3, (d, d, d, d): 2, (b, c): 4, (e,): 9}
    cases = [(many, 3), (many, 9), (ties, 2), (ties, 3), (many, 0), ({(a,): 3}, 4)]
    return [*cases, ({(b, a, e, a, e, a): 1, (b, a, e): 1}, 4), (ties, 1)]


def _trained(best=None, joined=merge, counted=pair_counts, first=260, least=1):
    """The loop with another choice, joint, count or number."""
    lowest = best or (lambda pairs: min(pairs, key=lambda pair: (-pairs[pair], pair)))

    def answer(words, num_merges):
        merges = {}
        while len(merges) < num_merges and (pairs := counted(words)):
            pair = lowest(pairs)
            if pairs[pair] < least:
                break
            new = merges[pair] = first + len(merges)
            words = {tuple(joined(w, pair, new)): n for w, n in words.items()}
        return merges

    return answer


def _counted_at_the_start(words, num_merges):
    pairs = pair_counts(words)
    order = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:num_merges]
    return {pair: 260 + place for place, pair in enumerate(order)}


def _with_counts(words, num_merges):
    """{pair: how often it stood there when it was joined}."""
    counts = {}
    for pair, new in train(words, num_merges).items():
        counts[pair] = pair_counts(words)[pair]
        words = {tuple(merge(w, pair, new)): times for w, times in words.items()}
    return counts


TRAIN = Exercise(
    name="tokens.train",
    statement="Gives {pair: new id}, at most num_merges, for {word, a tuple of ids: "
    "how often}. Again and again the most frequent pair, of equals the lowest, gets "
    "the next id, from 260 on, and is joined everywhere.",
    takes=("words", "num_merges"),
    reference=train,
    cases=_texts,
    mistakes=(
        Mistake(
            name="of equals the first met",
            function=_trained(lambda pairs: max(pairs, key=pairs.get)),
            hint="With equal counts you take the pair that you met first. Another "
            "order of the texts would give another vocabulary.",
            more="Compare counts first, then the pairs themselves.",
        ),
        Mistake(
            name="of equals the highest",
            function=_trained(
                lambda pairs: max(pairs, key=lambda pair: (pairs[pair], pair))
            ),
            hint="With equal counts you take the highest pair, and the lowest is "
            "wanted.",
            more="One key for both: the larger count, but the smaller pair.",
        ),
        Mistake(
            name="counted only at the start",
            function=_counted_at_the_start,
            hint="Your pairs are those of single bytes. A merge makes new pairs and "
            "takes old ones away.",
            more="Join the pair in all words before you count again.",
        ),
        Mistake(
            name="each word is counted once",
            function=_trained(
                counted=lambda words: pair_counts(dict.fromkeys(words, 1))
            ),
            hint="A pair of a rare word weighs as much as one of a frequent word.",
            more="The dict says how often each word stands in the text.",
        ),
        Mistake(
            name="pairs that occur once are left",
            function=_trained(least=2),
            hint="You stop early. A pair that occurs once can still be joined.",
            more="Two reasons to stop: enough merges, or no pair left.",
        ),
        Mistake(
            name="joined once in each word",
            function=_trained(joined=_once),
            hint="“banana” holds the pair twice, and you join one of them.",
            more="The step of joining that you wrote above does all places.",
        ),
        Mistake(
            name="the ids begin at 256",
            function=_trained(first=256),
            hint="The pairs are right. But four special tokens come before the bytes.",
            more="4 + 256 ids are taken. Which is the first free one?",
        ),
        Mistake(
            name="one merge too many",
            function=lambda words, num_merges: train(words, num_merges + 1),
            hint="Count your merges. How many were asked for?",
            more="When `num_merges` is 0, the dict is empty.",
        ),
        Mistake(
            name="the counts, not the ids",
            function=_with_counts,
            hint="The pairs are right. What stands beside each is how often it "
            "occurred.",
            more="Encoding wants to know which id a pair becomes.",
        ),
    ),
    hint=(
        "You have both steps: one counts the pairs of all words, one joins a pair in "
        "one word.",
        "Repeat: count, choose, note the new id, and make a new dict of words in which "
        "the pair is joined.",
        "Two reasons to stop: there are enough merges, or no word has a pair left.",
    ),
)


EXERCISES = (PAIR_COUNTS, MERGE, TRAIN)
