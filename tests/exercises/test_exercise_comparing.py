"""Results are compared by the rules of `comparing`, and described briefly."""

import copy
import math
from collections import Counter, OrderedDict, deque
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from named_mistakes import examine
from named_mistakes.comparing import difference, same
from named_mistakes.describing import altered, brief, describe
from tests.support.bank import BANK

EXPECTED = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
CHANGED = EXPECTED.clone()
CHANGED[1, 0] = 5.0
TEXT = "the cat sat because it was tired"
PAIRS = {("a", "b"): 3, ("b", "c"): 1}
WRONG = [
    # tensors
    (None, EXPECTED, "None (is a `return` missing?)"),
    (..., EXPECTED, "your lines go there"),
    (EXPECTED.numpy(), EXPECTED, "a NumPy array"),
    (EXPECTED.tolist(), EXPECTED, "a list of 2"),
    ("text", EXPECTED, "a str"),
    (EXPECTED.T[:1], EXPECTED, "Its shape is 1×2; 2×2"),
    (EXPECTED.long(), EXPECTED, "torch.int64; torch.float32"),
    (EXPECTED.to("meta"), EXPECTED, "a tensor, not comparable"),
    (EXPECTED.log() - torch.inf + torch.inf, EXPECTED, "Entry [0, 0] is nan; 1"),
    (CHANGED, EXPECTED, "Entry [1, 0] is 5; 3 is wanted"),
    # lists: entries, lengths, depth
    ([1, 2, 4], [1, 2, 3], "Entry 2 is 4; 3 is wanted."),
    ((1, 2, 4), [1, 2, 3], "Entry 2 is 4; 3 is wanted."),
    ([1, 2], [1, 2, 3], "It has 2 entries; 3 wanted."),
    ([5], [1, 2, 3], "It has 1 entry; 3 wanted. Entry 0 is 5; 1 is wanted."),
    ([[1, 2], [3, 5]], [[1, 2], [3, 4]], "Entry 1: Entry 1 is 5; 4 is wanted."),
    ([[1, 2], [3]], [[1, 2], [3, 4]], "Entry 1: It has 1 entry; 2 wanted."),
    (
        [[1, 2], 3],
        [[1, 2], [3, 4]],
        "Entry 1: It returns an int; a list of 2 is wanted.",
    ),
    ([(0, "a")], [(0, "b")], "Entry 0: Entry 1 is 'a'; 'b' is wanted."),
    ([1, None], [1, 2], "Entry 1 is None; 2 is wanted."),
    ([1, 2], [1, None], "Entry 1 is 2; None is wanted."),
    ([CHANGED], [EXPECTED], "Entry 0: Entry [1, 0] is 5; 3 is wanted."),
    (torch.tensor([1, 2, 4]), [1, 2, 3], "Entry 2 is 4; 3 is wanted."),
    ((i for i in [1]), [1], "a generator (`list(...)` collects what it gives)"),
    (7, [1, 2, 3], "It returns an int; a list of 3 is wanted."),
    # tuples of results
    ([EXPECTED, CHANGED], (EXPECTED, EXPECTED), "Result 1: Entry [1, 0] is 5"),
    ((EXPECTED,), (EXPECTED, 3), "It has 1 entry; 2 wanted."),
    ((EXPECTED, 4), (EXPECTED, 3), "Result 1 is 4; 3 is wanted."),
    # dicts
    ({("a", "b"): 2, ("b", "c"): 1}, PAIRS, "Key ('a', 'b') is 2; 3 is wanted."),
    (
        {("a", "b"): 3},
        PAIRS,
        "Key ('b', 'c') is missing; it has the keys [('a', 'b')].",
    ),
    ({}, PAIRS, "Key ('a', 'b') is missing; it has the keys []."),
    (PAIRS | {"x": 1}, PAIRS, "Key 'x' is not wanted."),
    ([1, 2], PAIRS, "It returns a list of 2; a dict is wanted."),
    ({"a": [1, 2]}, {"a": [1, 3]}, "Key 'a': Entry 1 is 2; 3 is wanted."),
    # texts
    ("dog", "cat", "It gives 'dog'; 'cat' is wanted."),
    (3, TEXT, "It gives 3; 'the cat"),
    # single things
    (False, True, "It gives False; True is wanted."),
    (np.False_, True, "It gives False; True is wanted."),
    ("yes", True, "It returns a str; True or False is wanted."),
    (8, 7, "It gives 8; 7 is wanted."),
    (float("nan"), 7, "It gives nan; 7 is wanted."),
    (EXPECTED, 7, "It returns a tensor; a number is wanted."),
    (torch.ones((), device="meta"), 7, "a tensor, not comparable"),
    (3, None, "It gives 3; None is wanted."),
]


@pytest.mark.parametrize("mine, expected, message", WRONG, ids=lambda x: str(x)[:20])
def test_the_first_differing_place_is_named(mine, expected, message):
    assert message in difference(mine, expected)


EQUAL = [
    (EXPECTED + 1e-7, EXPECTED),
    (EXPECTED.double(), EXPECTED),
    (EXPECTED.half(), EXPECTED.double()),
    ((EXPECTED / 3).bfloat16(), EXPECTED / 3),
    (np.int64(7), 7),
    (torch.tensor([7]), 7),
    ([EXPECTED], (EXPECTED,)),
    ((1, 2), [1, 2]),
    ([1, 2], (1, 2)),
    (torch.tensor([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    (np.array([1.0, 2.0]), [1, 2]),
    (range(3), [0, 1, 2]),
    (deque("ab"), ["a", "b"]),
    ([torch.tensor(1), np.int64(2), 3.0], [1, 2, 3]),
    (Counter("aab"), {"a": 2, "b": 1}),
    (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
    (torch.tensor(True), True),
    (1, True),
    (150.0, 150),
    ([150.0], [150]),
    ({"a": 150.0}, {"a": 150}),
    ({150.0, 2}, {150, 2}),
    (150.0000001, 150.0),
    (10**400, 10**400),
    (float("inf"), float("inf")),
    (-np.inf, -math.inf),
    (torch.tensor([torch.inf, torch.nan]), torch.tensor([torch.inf, torch.nan])),
    ([float("nan")], [float("nan")]),
    (None, None),
    ([None, "a", (1, [2])], [None, "a", (1, [2])]),
    (frozenset("ab"), {"a", "b"}),
    (1 + 1e-7 + 1j, 1 + 1j),
    (torch.tensor([1 + 1j]).to(torch.complex128) * (1 + 1e-7), torch.tensor([1 + 1j])),
]


@pytest.mark.parametrize("mine, expected", EQUAL, ids=range(len(EQUAL)))
def test_what_is_equal_has_no_difference(mine, expected):
    assert difference(mine, expected) is None


UNEQUAL = [
    # whole numbers are compared exactly
    (11326, 11325),
    (150.01, 150),
    (150.0000001, 150),
    (2_200_001, 2_200_000),
    (torch.tensor(11326), 11325),
    ((11326, 150), (11325, 150)),
    ((11325, 150.01), (11325, 150)),
    ([11326, 150], (11325, 150)),
    ([[49156]], [[49152]]),
    ({"cache": 49156}, {"cache": 49152}),
    ({49156}, {49152}),
    ((EXPECTED, 11326), (EXPECTED, 11325)),
    (torch.tensor([11326]), [11325]),
    (torch.tensor([11326]), torch.tensor([11325])),
    (10**400 + 1, 10**400),
    (0.99999, True),
    # no finite number is near infinity
    (5.0, math.inf),
    (-3, math.inf),
    (math.inf, 5.0),
    (-math.inf, math.inf),
    (math.inf, -math.inf),
    (math.nan, math.inf),
    (math.inf, math.nan),
    (0.0, math.nan),
    (1e308, -1e308),
    ([1.0, 2.0], [1.0, math.inf]),
    ([1.0, 2.0], [1.0, math.nan]),
    ({"a": 7}, {"a": -math.inf}),
    (torch.tensor(3.0), math.inf),
    (torch.tensor([3.0]), torch.tensor([math.inf])),
    (torch.tensor([-math.inf]), torch.tensor([math.inf])),
    (torch.tensor([3.0]), torch.tensor([math.nan])),
    (1.0, 10**400),
    # both parts of a complex number count
    (1 + 2j, 1 + 1j),
    (1j, 1.0),
    (torch.tensor([1 + 2j]), torch.tensor([1 + 1j])),
]


@pytest.mark.parametrize("mine, expected", UNEQUAL, ids=lambda x: str(type(x))[8:20])
def test_what_is_unequal_has_a_difference_and_a_short_one(mine, expected):
    text = difference(mine, expected)
    assert text and "not comparable" not in text and len(text) < 300


def test_a_difference_shows_the_digits_that_differ():
    assert difference(150.0000001, 150) == "It gives 150.0000001; 150 is wanted."
    assert difference([150.0000001], [150]).startswith("Entry 0 is 150.0000001; 150 ")


@pytest.mark.parametrize("mine", [11326, 11326.0, (11326, 150), (11325, 150.01)])
def test_a_prediction_off_by_one_is_wrong(mine):
    exercise = BANK["generation.computed"]
    assert exercise.reference() == (11325, 150)
    assert examine(exercise, mine).status != "right"
    assert examine(exercise, (11325, 150.0)).status == "right"


def test_two_answers_may_differ_in_what_holds_the_numbers():
    assert same(EXPECTED.double(), EXPECTED) and not same(CHANGED.double(), EXPECTED)
    one = torch.tensor(4)
    for mine, other in ((4, one), (one, 4), ((4, 5), (one, one + 1)), ([one], [4])):
        assert same(mine, other), (mine, other)
    assert same(4.0, torch.tensor(4.0).double())
    assert not same(5, one) and not same((4, 4), (one, one + 1))
    assert not same(torch.ones(1), torch.ones(1, 1))  # the shape of others counts


def test_a_mistake_keeps_its_name_when_it_returns_a_tensor_for_a_number():
    """Some lost their names to `.item()`."""
    exercise = BANK["training.perplexity"]
    for mistake in exercise.mistakes:

        def answer(*given, mistake=mistake):
            value = mistake.function(*given)
            one = isinstance(value, torch.Tensor) and value.ndim == 0
            return value.item() if one else value

        assert examine(exercise, answer).mistake == mistake.name


def test_long_things_are_cut_short():
    thousand = list(range(1000))
    for mine in ([*thousand[:-1], 0], [thousand], thousand * 9, {"a": thousand}):
        for expected in (thousand, {"b": thousand}, [thousand * 2], "x" * 5000, PAIRS):
            assert len(difference(mine, expected)) < 300
    assert len(difference("y" * 9999, "x" * 5000)) < 200
    assert len(difference({i: i for i in range(999)}, PAIRS)) < 200


class Hostile:
    """Whatever one asks it, it raises."""

    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = None
    __len__ = __bool__ = __repr__ = __iter__ = __eq__


def test_a_hostile_result_is_only_different():
    for expected in (EXPECTED, [1], (EXPECTED, 1), {"a": 1}, "a", 1, None, True, {1}):
        for mine in (Hostile(), [Hostile()], {"a": Hostile()}, (Hostile(), Hostile())):
            assert difference(mine, expected)


DESCRIBED = [
    (EXPECTED, "2×2"),
    (torch.tensor(1.0), "one number"),
    ([3, 1, 2], "[3, 1, 2]"),
    (list(range(50)), "50 entries"),
    ([EXPECTED] * 5, "5 entries"),
    ((EXPECTED, EXPECTED[0]), "(2×2, [1, 2])"),
    ({("a", "b"): 3}, "{('a', 'b'): 3}"),
    ({i: i for i in range(50)}, "50 keys"),
    (nn.Linear(4, 6), "a layer Linear"),
    (nn.Sequential(nn.Linear(4, 6)), "a layer Sequential"),
    (len, "a function"),
    (nn.Linear, "a class"),
    (torch.Generator(), "a generator"),
    (torch.optim.SGD([torch.ones(2)]), "the SGD"),
    (1 / 3, "0.333333"),
    (True, "True"),
    (None, "None"),
    ("cat", "'cat'"),
]


@pytest.mark.parametrize("value, text", DESCRIBED, ids=lambda x: str(x)[:20])
def test_arguments_are_described_in_a_few_letters(value, text):
    assert describe(value) == text


def test_brief_is_like_repr_for_what_is_short():
    for value in (1, "a", [1, "b"], {"a": (1, None)}, 0.5, True):
        assert brief(value) == repr(value)
    assert len(brief("word " * 999)) < 80 and len(brief([[0] * 99] * 99)) < 200


def test_changes_are_detected_wherever_they_hide():
    def write_tensor(given):
        given["tensor"][0, 0] = 9

    def write_layer(given):
        with torch.no_grad():
            given["layers"][1].weight[0, 0] += 1

    writers = {
        "mode": lambda given: given["layers"][1].eval(),
        "hook": lambda given: given["layers"][1].register_forward_hook(print),
        "frozen": lambda given: given["layers"][1].requires_grad_(False),
        "tensor": write_tensor,
        "layer": write_layer,
        "append": lambda given: given["list"].append(1),
        "reverse": lambda given: given["list"].reverse(),
        "inside": lambda given: given["list"][1].pop(),
        "key": lambda given: given["dict"].update(new=1),
        "value": lambda given: given["dict"].update(old=2),
        "replaced": lambda given: given["layers"].__setitem__(0, None),
        "array": lambda given: given["array"].fill(2),
    }
    before = {
        "tensor": EXPECTED.clone(),
        "layers": [nn.ReLU(), nn.Linear(2, 3)],
        "list": [0, [1, 2], "a", float("nan"), len, torch.tensor([torch.nan])],
        "dict": {"old": 1},
        "array": np.array([1, np.nan]),
    }
    assert not altered(before, copy.deepcopy(before))
    for name, write in writers.items():
        after = copy.deepcopy(before)
        write(after)
        assert altered(before, after), name


@pytest.mark.parametrize(
    "expected", [1.0, 50.0, torch.tensor(50.0), EXPECTED, EXPECTED.double()], ids=str
)
def test_rounding_is_no_mistake_and_a_thousandth_is_one(expected):
    assert same(expected * (1 + 5e-5), expected)
    assert not same(expected * 1.001, expected)


def test_a_tolerance_is_a_distance():
    close = EXPECTED + 0.009
    assert difference(close, EXPECTED, 0.01) is None
    assert difference(close.double(), EXPECTED, 0.01) is None
    assert difference(EXPECTED + 0.011, EXPECTED, 0.01)
    assert difference(EXPECTED + torch.nan, EXPECTED, 0.01)
    for wrap in (lambda x: [1, x], lambda x: {"a": (x,)}):  # also inside containers
        assert difference(wrap(2.009), wrap(2.0), 0.01) is None
        assert difference(wrap(close), wrap(EXPECTED), 0.01) is None
        assert difference(wrap(2.011), wrap(2.0), 0.01)
    assert difference([4], [5], 2)  # but a whole number is exact
    for other in (EXPECTED[:1], EXPECTED.long(), EXPECTED.to("meta"), None):
        assert difference(other, EXPECTED, 0.01)
    mine = EXPECTED.clone()
    mine.view(-1)[0] += 0.004
    mine.view(-1)[-1] += 0.5
    assert difference(mine, EXPECTED, 0.01).startswith("Entry [1, 1] is 4.5")


NEAR_A_HALF = [0.5, 0.45, 0.55, 0.4501, Fraction(11, 20), np.float32(0.52)]
NEAR_A_HALF += [torch.tensor(0.47), torch.tensor([0.47])]
FAR_FROM_A_HALF = [0.449, 0.551, 50, 1, 0, -0.5, math.nan, math.inf, 10**400, True]
FAR_FROM_A_HALF += [torch.tensor(0.44), torch.tensor(True), torch.tensor([0.5, 0.5])]
FAR_FROM_A_HALF += [[0.5], (0.5,), "0.5", None]


def test_a_prediction_may_lie_within_its_tolerance():
    exercise = BANK["senses.causal_share"]
    assert exercise.tolerance == 0.05 and "(within 0.05)" in exercise.statement
    for mine in NEAR_A_HALF:
        assert examine(exercise, mine).status == "right", mine
    for mine in FAR_FROM_A_HALF:
        assert examine(exercise, mine).status != "right", mine
    assert examine(exercise, 50).mistake == "a percentage"
    assert "It is less than 0.6." in examine(exercise, 0.6).text


def test_losses_that_stay_tensors_are_reported():
    for name in ("training.step", "training.accumulate"):
        exercise = BANK[name]

        def as_tensors(*given, exercise=exercise):
            return list(map(torch.tensor, exercise.reference(*given)))

        report = examine(exercise, as_tensors)
        assert report.status == "different" and "still a tensor" in report.text
        assert "plain floats" in exercise.statement
