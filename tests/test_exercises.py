"""The matrix: right answers pass, known mistakes are named, all stays calm."""

import html
import importlib
import inspect
import itertools
import re
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from course_utils.exercises import session
from course_utils.exercises.checking import examine
from course_utils.exercises.comparing import difference
from course_utils.exercises.report import Report
from course_utils.exercises.session import BANK, check, hint, progress, solution
from tests.notebook_plugin import patience

VARIANTS, BOTH = {}, {}
for path in sorted(Path(__file__).parent.glob("exercise_variants_*.py")):
    answers = importlib.import_module(f"tests.{path.stem}")
    VARIANTS |= answers.VARIANTS
    BOTH |= answers.BOTH
INDISPENSABLE = {
    "attention.weights",
    "attention.scores",
    "attention.context",
    "heads.split",
    "masks.causal",
    "masks.padding",
    "masks.join",
    "masks.weights",
    "masks.shift",
}
MISTAKES = [(e.name, m) for e in BANK.values() for m in e.mistakes]
RIGHT = [(n, i, v) for n, some in VARIANTS.items() for i, v in enumerate(some)]


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def precision(request):
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch):
    monkeypatch.setattr(session, "_last", {})


def judge(name, answer, seed=0):
    return examine(BANK[name], answer, seed)


def answer_of(name, function):
    return function() if BANK[name].predicts else function


# --- the matrix --------------------------------------------------------------------


def test_the_bank_is_rich_enough():
    assert VARIANTS.keys() == BANK.keys()
    for name, exercise in BANK.items():
        assert len(VARIANTS[name]) >= 3, name
        assert len(exercise.mistakes) >= (4 if name in INDISPENSABLE else 3), name
    for world in ("attention", "heads", "masks"):
        assert sum(name.startswith(world) for name in BANK) >= 3


@pytest.mark.parametrize("name, number, variant", RIGHT)
def test_a_right_answer_passes_in_every_style(name, number, variant, precision):
    assert judge(name, variant).status == "right", judge(name, variant).text


@pytest.mark.parametrize("name, mistake", MISTAKES, ids=lambda x: getattr(x, "name", x))
def test_a_known_mistake_is_named_by_its_own_hint(name, mistake, precision):
    report = judge(name, answer_of(name, mistake.function))
    assert (report.status, report.mistake) == ("mistake", mistake.name), report.text
    assert mistake.name in report.title and mistake.hint in report.lines


def test_no_hint_fits_two_mistakes():
    for exercise in BANK.values():
        for part in ("name", "hint"):
            said = [getattr(mistake, part) for mistake in exercise.mistakes]
            assert len(set(said)) == len(said), exercise.name


@pytest.mark.parametrize("name, mistake", MISTAKES, ids=lambda x: getattr(x, "name", x))
def test_hints_lead_on_and_give_nothing_away(name, mistake):
    exercise = BANK[name]
    source = inspect.getsource(inspect.unwrap(exercise.reference))
    answer = source.split("return ")[-1].split("\n")[0].strip()
    for text in (mistake.hint, mistake.more, exercise.hint):
        assert 8 < len(text) < 240
        assert len(answer) < 12 or answer not in text


@pytest.mark.parametrize("name", BANK)
def test_the_verdict_is_the_same_for_100_seeds(name):
    exercise = BANK[name]
    wrong = exercise.mistakes[0]
    for seed in range(100):
        assert judge(name, VARIANTS[name][0], seed).status == "right", seed
        report = judge(name, answer_of(name, wrong.function), seed)
        assert report.mistake == wrong.name, seed


def test_every_mistake_is_named_for_20_seeds():
    for (name, mistake), seed in itertools.product(MISTAKES, range(20)):
        report = judge(name, answer_of(name, mistake.function), seed)
        assert report.mistake == mistake.name, (name, seed)


@pytest.mark.parametrize("name", BANK)
def test_a_check_takes_less_than_a_second(name):
    start = time.perf_counter()
    judge(name, answer_of(name, BANK[name].mistakes[-1].function))
    assert time.perf_counter() - start < patience()


# --- what the bank does not know ---------------------------------------------------


def test_two_mistakes_at_once_are_described_by_the_first_difference():
    def both(queries, keys):
        return keys @ queries.transpose(-2, -1)  # exchanged, and no scale

    report = judge("attention.scores", both)
    assert report.status == "different"
    assert "Its shape is 5×3; 3×5 is wanted." in report.lines
    assert "Asked with queries 3×7, keys 5×7." in report.lines

    def unscaled_and_shifted(queries, keys):
        return queries @ keys.transpose(-2, -1) + 1

    report = judge("attention.scores", unscaled_and_shifted)
    assert re.match(r"Entry \[0, 0\] is \S+; \S+ is wanted", report.lines[0])


WANTED = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
CHANGED = WANTED.clone()
CHANGED[1, 0] = 5.0
DIFFERENCES = [
    (None, "None (is a `return` missing?)"),
    (..., "your lines go there"),
    (WANTED.numpy(), "a NumPy array"),
    (WANTED.tolist(), "a list of 2"),
    ("text", "a str"),
    (WANTED.T[:1], "Its shape is 1×2; 2×2"),
    (WANTED.double(), "torch.float64; torch.float32"),
    (WANTED.to("meta"), "on the device meta; cpu"),
    (WANTED.log() - torch.inf + torch.inf, "Entry [0, 0] is NaN; 1"),
    (CHANGED, "Entry [1, 0] is 5; 3 is wanted"),
]


@pytest.mark.parametrize("mine, said", DIFFERENCES, ids=lambda x: str(x)[:20])
def test_the_first_difference_is_described(mine, said):
    assert said in difference(mine, WANTED)


def test_what_is_equal_has_no_difference():
    assert difference(WANTED + 1e-7, WANTED) is None
    assert difference(np.int64(7), 7) is None
    assert difference(torch.tensor([7]), 7) is None
    assert difference(8, 7) == "It gives 8; 7 is wanted."
    assert "a number is wanted" in difference(WANTED, 7)
    assert difference([WANTED], (WANTED,)) is None
    assert "1 results; 2" in difference((WANTED,), (WANTED, WANTED))
    assert difference((WANTED, CHANGED), (WANTED, WANTED)).startswith("Result 1: Entry")


# --- calm --------------------------------------------------------------------------


def my_stub(scores):
    """What it wants."""


def my_pass(scores):
    pass


def my_dots(scores):
    """What it wants."""
    ...


def my_none(scores):
    """What it wants."""
    return None


def my_raise(scores):
    raise NotImplementedError


def returns_dots(scores):
    return ...


STUBS = [my_stub, my_pass, my_dots, my_none, my_raise, returns_dots]
STUBS += [None, ..., NotImplemented, lambda scores: NotImplemented]


@pytest.mark.parametrize("stub", STUBS)
def test_what_is_not_written_is_not_tried(stub):
    report = judge("attention.weights", stub)
    assert report.status == "not tried"
    assert report.title == "attention.weights: not tried yet"
    assert BANK["attention.weights"].statement in report.lines


def test_a_forgotten_return_is_no_stub():
    def forgot(scores):
        weights = scores.softmax(dim=-1)  # noqa: F841

    report = judge("attention.weights", forgot)
    assert report.status == "different"
    assert "is a `return` missing?" in report.text


def test_an_exception_shows_the_learners_line():
    def breaks(queries, keys):
        products = queries @ keys
        return products

    report = judge("attention.scores", breaks)
    assert report.status == "error" and "RuntimeError" in report.title
    assert report.code.endswith(": products = queries @ keys")
    assert "Asked with queries 3×7, keys 5×7." in report.lines
    assert "checking.py" not in report.text and "Traceback" not in report.text


def helper(scores):
    return scores.softmax(dim="last")


def test_an_exception_in_a_helper_shows_the_helper_or_the_call():
    report = judge("attention.weights", lambda scores: helper(scores))
    assert report.code.endswith('return scores.softmax(dim="last")')


def test_wrong_arguments_name_the_right_ones():
    report = judge("attention.weights", lambda: None or 1)
    assert report.status == "error"
    assert "It is called with (scores)." in report.lines


def test_an_endless_recursion_ends():
    def again(scores):
        return again(scores)

    start = time.perf_counter()
    report = judge("attention.weights", again)
    assert "calls itself without end" in report.text
    assert report.code.endswith("return again(scores)")
    assert time.perf_counter() - start < patience()


def test_leaving_is_an_error_like_others():
    def leaves(scores):
        raise SystemExit("bye")

    report = judge("attention.weights", leaves)
    assert "SystemExit" in report.title and "bye" in report.lines


def test_printing_and_warning_inside_stay_inside(capfd):
    def talks(scores):
        print("the shape is", tuple(scores.shape))
        warnings.warn("careful", stacklevel=1)
        return scores.softmax(dim=-1)

    report = judge("attention.weights", talks)
    assert report.status == "right"
    assert "Your function printed: the shape is (3, 5)" in report.lines
    assert capfd.readouterr() == ("", "")

    def shouts(scores):
        print("word " * 1000)
        return scores

    assert len(judge("attention.weights", shouts).text) < 700


def test_changes_in_place_are_named():
    def overwrites(scores):
        scores -= scores.amax(dim=-1, keepdim=True)
        return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)

    report = judge("attention.weights", overwrites)
    assert report.status == "changed"
    assert report.title == "attention.weights: it changes scores in place"


def test_shared_memory_and_loose_results_are_right_and_mentioned():
    def cut(x, num_heads):
        return x.view(*x.shape[:2], num_heads, -1).transpose(1, 2)

    report = judge("heads.split", cut)
    assert report.status == "right"
    assert "shares memory with x" in report.text and "not contiguous" in report.text
    report = judge("heads.split", lambda x, h: cut(x, h).contiguous())
    assert "memory" not in report.text and "contiguous" not in report.text


@pytest.mark.parametrize(
    "turn, said",
    [
        (lambda weights: weights.numpy(), "a NumPy array"),
        (lambda weights: weights.tolist(), "a list of 3"),
        (lambda weights: weights.half(), "Its dtype is torch.float16"),
        (lambda weights: weights.to("meta"), "on the device meta"),
        (lambda weights: "text", "a str"),
    ],
)
def test_results_of_other_kinds_are_answered(turn, said):
    report = judge("attention.weights", lambda scores: turn(scores.softmax(dim=-1)))
    assert report.status == "different" and said in report.text


def test_a_result_in_place_of_the_function_is_answered():
    assert "the function itself" in judge("attention.weights", torch.ones(3)).text
    assert "the value itself" in judge("masks.two_new", lambda: None).text


def test_gradients_and_chance_stay_with_the_learner():
    layer = torch.nn.Linear(1, 1)
    scale = layer.weight.detach().requires_grad_() * 0 + 1

    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    assert judge("attention.weights", lambda s: (s * scale).softmax(-1)).status
    judge("attention.weights", lambda s: s + torch.rand(1))
    assert torch.equal(torch.rand(1), wanted)


def test_a_layer_may_answer():
    assert judge("attention.weights", torch.nn.Softmax(dim=-1)).status == "right"


# --- the session -------------------------------------------------------------------


def test_check_hint_and_progress_remember(capsys):
    progress()
    assert capsys.readouterr().out.startswith(f"= 0 of {len(BANK)}\n")
    hint("attention.weights")
    assert BANK["attention.weights"].hint in capsys.readouterr().out
    wrong = BANK["attention.weights"].mistakes[0]
    check("attention.weights", wrong.function)
    assert capsys.readouterr().out.startswith(f"✗ attention.weights: {wrong.name}\n")
    hint("attention.weights")
    assert wrong.more in capsys.readouterr().out
    check("attention.weights", torch.nn.Softmax(dim=-1))
    assert capsys.readouterr().out.startswith("✓ attention.weights: right\n")
    progress()
    out = capsys.readouterr().out
    assert out.startswith("= 1 of") and "✓ attention.weights" in out


@pytest.mark.parametrize("name", BANK)
def test_the_solution_is_the_shared_source(name, capsys):
    solution(name)
    exercise = BANK[name]
    shown = inspect.unwrap(exercise.shared or exercise.reference)
    assert shown.__name__ != "<lambda>"
    first = inspect.getsource(shown).splitlines()[0].strip()
    assert first in capsys.readouterr().out


def test_a_wrong_name_meets_the_nearest():
    with pytest.raises(ValueError, match=r"near are .*attention\.weights"):
        check("attention.weigths", None)


def test_the_box_and_the_text_say_the_same():
    report = Report("mistake", "a.b: <wrong> & more", ("one\ntwo",), "x < y")
    assert report.text == "✗ a.b: <wrong> & more\n    x < y\n  one\n  two"
    assert html.escape(report.title) in report.html and "x &lt; y" in report.html
    assert report.html == report.html and "one<br>two" in report.html
