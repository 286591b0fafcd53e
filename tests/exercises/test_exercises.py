"""The matrix: right answers pass, known mistakes are named, all stays calm."""

import dataclasses
import functools
import html
import importlib
import inspect
import itertools
import json
import re
import time
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from course_utils.exercises import checking, session
from course_utils.exercises.checking import examine
from course_utils.exercises.exercise import Exercise, Mistake
from course_utils.exercises.report import Report
from course_utils.exercises.running import run
from course_utils.exercises.session import (
    BANK,
    BANKS,
    case,
    check,
    hint,
    progress,
    solution,
)
from tests.support.edges import lacks
from tests.support.notebook_plugin import patience

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
RIGHT_ANSWERS, DOUBLE_MISTAKES = {}, {}
for path in sorted(Path(__file__).parent.glob("answers_[0-9][0-9].py")):
    answers = importlib.import_module(f"tests.exercises.{path.stem}")
    RIGHT_ANSWERS |= answers.RIGHT_ANSWERS
    DOUBLE_MISTAKES |= answers.DOUBLE_MISTAKES
INDISPENSABLE = {
    *("attention.weights", "attention.scores", "attention.context", "heads.split"),
    *("masks.causal", "masks.padding", "masks.join", "masks.weights", "masks.shift"),
    *("positions.sinusoids", "positions.rotary"),
    *("blocks.layer_norm", "blocks.block", "blocks.stack"),
    *("translation.cross_attention", "translation.loss", "translation.beam"),
    *("translation.bleu_brevity", "backbone.first_loss", "training.perplexity"),
    *("generation.top_p", "generation.cache", "tokens.merge", "tokens.bits_per_byte"),
}
MISTAKES = [(e.name, m) for e in BANK.values() for m in e.mistakes]
RIGHT = [(n, i, v) for n, some in RIGHT_ANSWERS.items() for i, v in enumerate(some)]


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def precision(request):
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch):
    for name, empty in (
        ("_last", {}),
        ("_steps", {}),
        ("_right", {}),
        ("_asked", set()),
    ):
        monkeypatch.setattr(session, name, empty)


@functools.cache
def fixed(name, seed, dtype):
    """The exercise with the cases of this seed, made once."""
    cases = BANK[name].cases(torch.Generator().manual_seed(seed))
    return dataclasses.replace(BANK[name], cases=lambda generator: cases)


OWN = {m.function for e in BANK.values() for m in e.mistakes}
OWN |= {e.reference for e in BANK.values()}
REMEMBERED = {}


def remembering(function, case, seconds=None):
    """`run`, but what the bank itself does with a case is computed once."""
    if function not in OWN:
        return run(function, case, seconds)
    key = function, id(case), torch.get_default_dtype()
    if key not in REMEMBERED:  # kept with its case, or the id would be given again
        REMEMBERED[key] = case, run(function, case, seconds)
    return REMEMBERED[key][1]


@pytest.fixture(autouse=True)
def remember_what_the_bank_does(monkeypatch):
    monkeypatch.setattr(checking, "run", remembering)
    yield
    if len(REMEMBERED) > 3000:
        REMEMBERED.clear()
        fixed.cache_clear()


def judge(name, answer, seed=0):
    return examine(fixed(name, seed, torch.get_default_dtype()), answer, seed)


def answer_of(name, function):
    return function() if BANK[name].predicts else function


# --- the matrix --------------------------------------------------------------------


def test_every_exercise_has_answers_and_mistakes():
    missing = [f"answers to {name}" for name in BANK if name not in RIGHT_ANSWERS]
    missing += [f"mistakes of {e.name}" for e in BANK.values() if len(e.mistakes) < 3]
    missing += [name for name, some in RIGHT_ANSWERS.items() if len(some) < 3]
    assert missing == [] and RIGHT_ANSWERS.keys() == BANK.keys()


def test_the_indispensable_exercises_know_four_mistakes():
    there = {name: len(e.mistakes) for name, e in BANK.items()}
    assert sorted(n for n in INDISPENSABLE if there.get(n, 0) < 4) == []


def test_every_coding_exercise_meets_two_mistakes_at_once():
    coding = [name for name, exercise in BANK.items() if not exercise.predicts]
    assert [name for name in coding if not DOUBLE_MISTAKES.get(name)] == []
    assert all(map(BANK.get, DOUBLE_MISTAKES)), (
        "pairs of an exercise that does not exist"
    )


def test_the_banks_are_as_rich_as_promised():
    here = {number: len(bank) for number, bank in BANKS.items()}
    missing = [f"{nb} has {count} of 3" for nb, count in here.items() if count < 3]
    for count, wanted, what in (
        (len(BANK), 48, "exercises"),
        (sum(here.values()), len(BANK), "names"),
        (len(MISTAKES), 150, "known mistakes"),
    ):
        missing += [f"{count} of {wanted} {what}"] if count < wanted else []
    assert missing == []


def test_the_readme_counts_what_is_there(capsys):
    readme = Path(__file__).parents[2].joinpath("README.md").read_text("utf-8")
    promised = re.search(r"There are (\d+) of them with more than (\d+) known", readme)
    exercises, mistakes = map(int, promised.groups())
    assert exercises == len(BANK) and mistakes < len(MISTAKES) < mistakes + 100
    check("attention.weights", lambda scores: scores.softmax(dim=-2))
    assert capsys.readouterr().out in readme


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
    assert 60 < len(exercise.statement) <= 240
    for text in (mistake.hint, mistake.more, *exercise.steps):
        assert 8 < len(text) < 240
        assert len(answer) < 12 or answer not in text


def seeds(name, usual):
    """Fewer where each check trains something."""
    return range(usual if BANK[name].seconds <= 3 else 3)


@pytest.mark.parametrize("name", RIGHT_ANSWERS)
@pytest.mark.long
def test_the_verdict_is_the_same_for_100_seeds(name):
    wrong = BANK[name].mistakes[0]
    for seed in seeds(name, 100):
        assert judge(name, RIGHT_ANSWERS[name][0], seed).status == "right", seed
        report = judge(name, answer_of(name, wrong.function), seed)
        assert report.mistake == wrong.name, seed


some_seeds = pytest.mark.parametrize(
    "count", [5, pytest.param(20, marks=pytest.mark.long)]
)


@some_seeds
@pytest.mark.parametrize("name", BANK)
def test_every_mistake_is_named_whatever_the_seed(name, count):
    for mistake, seed in itertools.product(BANK[name].mistakes, seeds(name, count)):
        report = judge(name, answer_of(name, mistake.function), seed)
        assert report.mistake == mistake.name, seed


@some_seeds
@pytest.mark.parametrize("name", DOUBLE_MISTAKES)
def test_two_mistakes_at_once_are_caught_whatever_the_seed(name, count):
    for answer, seed in itertools.product(DOUBLE_MISTAKES[name], seeds(name, count)):
        report = judge(name, answer, seed)
        assert report.status not in ("right", "not tried"), (seed, report.text)


@pytest.mark.parametrize("name", BANK)
def test_a_check_takes_less_than_a_second(name, monkeypatch):
    monkeypatch.undo()
    start = time.perf_counter()
    examine(BANK[name], answer_of(name, BANK[name].mistakes[-1].function))
    allowed = 1 if BANK[name].seconds <= 3 else 10
    assert time.perf_counter() - start < allowed * patience()


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


def test_an_edge_that_no_case_lies_at_is_named():
    exercise = BANK["training.clip"]
    quiet = [torch.ones(2, 3), torch.ones(4)], 1.0
    nothing = [torch.zeros(2, 3), torch.ones(1)], 1.0
    loud = [torch.tensor([-90.0, 90.0])], 1.0
    for cases, missing in (
        ([quiet], ["one row", "nothing to count", "large spread"]),
        ([quiet, nothing], ["large spread"]),
        ([quiet, nothing, loud], []),
    ):
        changed = dataclasses.replace(exercise, cases=lambda g, cases=cases: cases)
        assert lacks(changed) == missing
    window = dataclasses.replace(BANK["masks.window"], cases=lambda g: [(7, 3)])
    assert lacks(window) == ["exact fit"]
    fits = dataclasses.replace(window, cases=lambda g: [(7, 3), (3, 3)])
    assert lacks(fits) == []


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
    report = judge("attention.weights", lambda: 1)
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


def test_changes_in_place_are_named_with_their_line():
    def overwrites(scores):
        top = scores.amax(dim=-1, keepdim=True)
        scores -= top
        powers = scores.exp()
        return powers / powers.sum(dim=-1, keepdim=True)

    report = judge("attention.weights", overwrites)
    assert report.status == "changed"
    assert report.title == "attention.weights: it changes scores in place"
    assert report.code.endswith(": scores -= top")
    assert "`+=` and its kin" in report.text


def test_a_line_that_changes_on_its_way_out_is_named_too():
    def overwrites(scores):
        return scores.sub_(scores.amax(dim=-1, keepdim=True)).softmax(dim=-1)

    report = judge("attention.weights", overwrites)
    assert report.code.endswith(
        "return scores.sub_(scores.amax(dim=-1, keepdim=True)).softmax(dim=-1)"
    )


def test_a_change_inside_a_list_is_found():
    def scales(gradients, most):
        length = torch.stack([g.norm() for g in gradients]).norm()
        for gradient in gradients:
            gradient *= (most / length).clamp(max=1)
        return gradients

    report = judge("training.clip", scales)
    assert report.title == "training.clip: it changes gradients in place"
    assert report.code.endswith("gradient *= (most / length).clamp(max=1)")


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
        (lambda weights: weights.bool(), "Its dtype is torch.bool"),
        (lambda weights: weights.to("meta"), "on the device meta"),
        (lambda weights: "text", "a str"),
    ],
)
def test_results_of_other_kinds_are_answered(turn, said):
    report = judge("attention.weights", lambda scores: turn(scores.softmax(dim=-1)))
    assert report.status == "different" and said in report.text


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_right_numbers_in_another_float_type_get_a_note(dtype, precision):
    report = judge("attention.context", lambda w, v: (w @ v).to(dtype))
    assert report.status == "right", report.text
    assert (f"Its numbers are {dtype}" in report.text) == (dtype != precision)
    wrong = judge("attention.context", lambda w, v: (w @ v + 0.5).to(dtype))
    assert wrong.status == "different"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_an_odd_default_type_is_left_as_it_was(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        for name in ("attention.weights", "blocks.layer_norm", "training.step"):
            report = examine(BANK[name], BANK[name].reference)
            assert report.status == "right", report.text
        assert torch.get_default_dtype() == dtype
    finally:
        torch.set_default_dtype(before)


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


# --- calm, whatever the exercise ---------------------------------------------------

CODING = [name for name in RIGHT_ANSWERS if name in BANK and not BANK[name].predicts]
PREDICTED = [name for name in RIGHT_ANSWERS if name in BANK and BANK[name].predicts]
every_coding_exercise = pytest.mark.parametrize("name", CODING)


def calm(report):
    """Few words, none of them the checker's own."""
    assert len(report.text) < 1200, report.text
    for word in ("Traceback", "checking.py", "running.py", "comparing.py", "limit.py"):
        assert word not in report.text
    return report


def turned(value, turn):
    """A result, and each tensor inside it, in another form."""
    if isinstance(value, tuple | list):
        return type(value)(turned(part, turn) for part in value)
    return turn(value) if isinstance(value, torch.Tensor) else value


def answer_turned(name, turn):
    right = RIGHT_ANSWERS[name][0]
    return lambda *given: turned(right(*given), turn)


def holds_tensors(name):
    exercise = BANK[name]
    value = exercise.reference(*exercise.cases(torch.Generator().manual_seed(0))[0])
    parts = value if isinstance(value, tuple | list) else [value]
    return any(isinstance(part, torch.Tensor) for part in parts)


def exits(*given):
    raise SystemExit


def recurs(*given):
    return recurs(*given)


def refuses(*given):
    raise ValueError("not today")


@every_coding_exercise
def test_every_exercise_answers_calmly_what_stops(name):
    for answer, said in (
        (exits, "SystemExit"),
        (recurs, "calls itself without end"),
        (refuses, "not today"),
        (lambda: 1, "It is called with"),
    ):
        report = calm(judge(name, answer))
        assert report.status == "error" and said in report.text, report.text


@every_coding_exercise
def test_every_exercise_answers_calmly_what_gives_something_else(name):
    strange = object()
    for value in (None, strange, "text", b"", [], {}, 1j, float("nan"), len, range(3)):
        report = calm(judge(name, lambda *given, value=value: (value, len(given))[0]))
        assert report.status in ("different", "mistake"), (value, report.text)
    assert judge(name, lambda *given: ...).status == "not tried"


@every_coding_exercise
def test_every_exercise_answers_calmly_tensors_of_other_kinds(name):
    kinds = [torch.Tensor.half, torch.Tensor.numpy, torch.Tensor.tolist]
    if holds_tensors(name):
        for turn in (
            *kinds,
            lambda t: t.to("meta"),
            lambda t: t[None],
            torch.Tensor.bool,
        ):
            report = calm(
                judge(name, answer_turned(name, lambda t, turn=turn: turn(t.detach())))
            )
            assert report.status in ("different", "mistake", "right"), report.text
        half = judge(name, answer_turned(name, torch.Tensor.half))
        assert half.status != "right" or "float16" in half.text
    loose = answer_turned(name, lambda t: torch.stack([t, t], dim=-1)[..., 0])
    assert calm(judge(name, loose)).status == "right"


@every_coding_exercise
def test_every_exercise_keeps_what_is_printed(name, capfd):
    def talks(*given):
        print("the first is", type(given[0]).__name__, "word " * 500)
        return RIGHT_ANSWERS[name][0](*given)

    report = calm(judge(name, talks))
    assert (
        report.status == "right" and "Your function printed: the first" in report.text
    )
    assert capfd.readouterr() == ("", "")


@every_coding_exercise
def test_every_exercise_names_what_is_changed_in_place(name):
    exercise = BANK[name]
    case = exercise.cases(torch.Generator().manual_seed(0))[0]
    for place, (argument, value) in enumerate(zip(exercise.takes, case, strict=True)):
        if isinstance(value, torch.Tensor) and value.numel():

            def writes(*given, place=place):
                result = RIGHT_ANSWERS[name][0](*given)
                with torch.no_grad():
                    given[place].copy_(given[place].logical_not())
                return result

            report = calm(judge(name, writes))
            assert report.status == "changed", report.text
            assert f"changes {argument} in place" in report.title


@pytest.mark.parametrize("name", PREDICTED)
def test_every_prediction_is_answered_calmly(name):
    right = RIGHT_ANSWERS[name][0]
    strange = (
        object(),
        "text",
        [],
        {},
        1j,
        float("nan"),
        torch.ones(2, 3, 4),
        np.ones(9),
    )
    for value in strange:
        report = calm(judge(name, value))
        assert report.status in ("different", "mistake"), report.text
    for value in (None, ..., NotImplemented):
        assert judge(name, value).status == "not tried"
    assert "the value itself" in calm(judge(name, lambda: right)).text


# --- the session -------------------------------------------------------------------


def test_check_hint_and_progress_remember(capsys):
    progress()
    assert capsys.readouterr().out.startswith(f"= 0 of {len(BANK)} right\n")
    first, second, *_ = BANK["attention.weights"].steps
    for _ in range(2):  # before a try it says only how to begin
        hint("attention.weights")
        out = capsys.readouterr().out
        assert first in out and second not in out
    wrong = BANK["attention.weights"].mistakes[0]
    check("attention.weights", wrong.function)
    assert capsys.readouterr().out.startswith(f"✗ attention.weights: {wrong.name}\n")
    steps = [wrong.more, *BANK["attention.weights"].steps]
    for step in [*steps, steps[-1]]:
        hint("attention.weights")
        assert step in capsys.readouterr().out
    check("attention.weights", torch.nn.Softmax(dim=-1))
    assert capsys.readouterr().out.startswith("✓ attention.weights: right\n")
    progress()
    out = capsys.readouterr().out
    assert out.startswith("= 1 of") and "✓ attention.weights" in out
    assert len(out.splitlines()) == len(BANK) + 1


def test_progress_is_told_by_notebook(capsys):
    check("attention.weights", torch.nn.Softmax(dim=-1))
    check("attention.context", torch.add)
    capsys.readouterr()
    progress("01")
    assert capsys.readouterr().out == (
        "= 01: 1 of 6 right\n"
        "    01  ○ attention.scores\n"
        "        ✓ attention.weights\n"
        "        ✗ attention.context\n"
        "        ○ attention.cosine\n"
        "        ○ attention.gradient\n"
        "        ○ attention.look_up\n"
    )
    progress()
    out = capsys.readouterr().out
    for number, bank in BANKS.items():
        first = re.search(rf"^    {number}  . (\S+)$", out, re.MULTILINE)
        assert first[1] in {exercise.name for exercise in bank}
    with pytest.raises(ValueError, match=r"notebook must be .*01, 02.* got '99'"):
        progress("99")
    with pytest.raises(ValueError, match=r"got '130'"):
        progress("130")
    for same in (1, "1", "01_attention"):
        progress(same)
        assert capsys.readouterr().out.startswith("= 01: 1 of 6 right")


@pytest.mark.parametrize("number", BANKS)
def test_progress_goes_in_the_order_of_the_notebook(number, capsys):
    progress(number)
    shown = re.findall(r"[○✓✗] (\S+)", capsys.readouterr().out)
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    source = "".join(line for cell in cells for line in cell["source"])
    assert shown == re.findall(r'^check\("([\w.]+)"', source, re.MULTILINE)


def test_what_was_right_stays_right(capsys):
    check("attention.weights", torch.nn.Softmax(dim=-1))
    check("attention.weights", lambda scores: scores)
    capsys.readouterr()
    progress("01")
    assert "✓ attention.weights" in capsys.readouterr().out


def test_progress_outlives_a_kernel_in_a_working_copy(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(session, "WORK", tmp_path)
    check("attention.weights", torch.nn.Softmax(dim=-1))
    assert not list(tmp_path.iterdir())  # not in a working copy: nothing is written
    monkeypatch.chdir(tmp_path)
    check("attention.context", torch.matmul)
    check("attention.scores", torch.add)
    monkeypatch.setattr(session, "_right", {})  # another kernel
    capsys.readouterr()
    progress("01")
    out = capsys.readouterr().out
    assert "✓ attention.weights" in out and "✓ attention.context" in out
    assert "✗ attention.scores" in out
    for content in ("", "[]", '{"attention.weights": "yes", "unknown": true}'):
        (tmp_path / "progress.json").write_text(content)
        progress("01")
        assert "01: 0 of 6 right" in capsys.readouterr().out


@pytest.mark.parametrize("name", BANK)
def test_the_solution_is_a_short_right_answer(name, capsys):
    solution(name)
    assert "Try first" in capsys.readouterr().out
    solution(name)
    shown = inspect.unwrap(BANK[name].reference)
    source = inspect.getsource(shown)
    assert not shown.__name__.startswith(("_", "<")), "a name that can be read"
    assert len(source.splitlines()) <= 20 and '"""' in source
    assert source.splitlines()[0].strip() in capsys.readouterr().out


def test_after_a_try_the_solution_needs_no_second_call(capsys):
    check("attention.weights", lambda scores: scores)
    capsys.readouterr()
    solution("attention.weights")
    assert "def shares(scores" in capsys.readouterr().out


FORBIDDEN = {  # by the prompts
    "attention.weights": "softmax",
    "heads.split": "rearrange",
    "heads.merge": "rearrange",
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_solution_keeps_to_the_prompt(name):
    assert FORBIDDEN[name] not in inspect.getsource(BANK[name].reference)


SHARED = [name for name, exercise in BANK.items() if exercise.shared]


@pytest.mark.parametrize("name", SHARED)
def test_the_reference_equals_the_courses_function(name, precision):
    for seed in range(5):
        report = judge(name, BANK[name].shared, seed)
        assert report.status == "right", report.text


def test_a_wrong_name_meets_the_nearest():
    with pytest.raises(ValueError, match=r"did you mean attention\.weights"):
        check("attention.weigths", None)


def test_a_call_the_wrong_way_gets_a_sentence():
    with pytest.raises(TypeError, match=r"^the name comes first: check\('masks.join'"):
        check(torch.logical_and, "masks.join")
    with pytest.raises(TypeError, match=r"^an answer is missing: check"):
        check("masks.join")


def test_the_case_that_differs_can_be_had():
    def first_rows_only(scores):
        return scores.softmax(-1) if scores.ndim == 2 else scores

    check("attention.weights", first_rows_only)
    (scores,) = case("attention.weights")
    assert scores.shape == (2, 3, 5)
    report = session._last["attention.weights"]
    assert "Asked with scores 2×3×5." in report.lines
    scores.zero_()
    assert case("attention.weights")[0].any()  # made anew


def test_the_case_is_the_one_that_the_report_shows(capsys):
    def overwrites_a_batch(scores):
        return (scores.sub_(0) if scores.ndim == 2 else scores.sub_(1)).softmax(-1)

    for answer, status in (
        (overwrites_a_batch, "changed"),
        (lambda s: s.softmax(dim=1), "mistake"),
    ):
        check("attention.weights", answer)
        report = session._last["attention.weights"]
        assert (report.status, report.case) == (status, 1), report.text
        assert case("attention.weights")[0].shape == (2, 3, 5)


@pytest.mark.parametrize("stops", [SystemExit("bye"), RecursionError("deep")])
def test_what_stops_after_a_change_in_place_stays_inside(stops):
    def changes_and_stops(scores):
        scores += 1
        raise stops

    report = judge("attention.weights", changes_and_stops)
    assert report.status == "changed"
    assert report.code.endswith(": scores += 1")


def test_an_answer_that_is_endless_only_elsewhere_is_ended(monkeypatch):
    """Equal to a known mistake in the cases of a check, endless in further ones."""
    monkeypatch.undo()
    cases = BANK["attention.weights"].cases(torch.Generator().manual_seed(0))
    first = [scores.flatten()[0].item() for (scores,) in cases]

    def sometimes_endless(scores):
        while scores.flatten()[0].item() not in first:
            pass
        return scores.softmax(dim=-2)

    exercise = dataclasses.replace(BANK["attention.weights"], seconds=1)
    started = time.perf_counter()
    assert examine(exercise, sometimes_endless).mistake is None
    assert time.perf_counter() - started < 5 * patience()


# --- state and chance --------------------------------------------------------------


def test_an_answer_that_remembers_an_earlier_call_is_told_so():
    calls = []

    def remembers(scores):
        calls.append(scores)
        return scores.softmax(dim=-1) * len(calls)

    report = judge("attention.weights", remembers)
    assert report.title == "attention.weights: it remembers an earlier call"

    def counts(words, pairs=Counter()):  # noqa: B006 (the mistake)
        for word, times in words.items():
            for pair in pairwise(word):
                pairs[pair] += times
        return pairs

    report = judge("tokens.pair_counts", counts)
    assert "remembers" in report.title and "default argument" in report.text


def test_a_later_call_does_not_change_an_earlier_result():
    """The result of the first call is kept by value, so the first case is right."""
    table = torch.zeros(0)

    def writes_into_one_table(scores):
        with torch.no_grad():
            return table.resize_(scores.shape).copy_(scores.softmax(dim=-1))

    report = judge("attention.weights", writes_into_one_table)
    assert report.status == "right", report.text


def test_a_cut_gradient_is_refused_where_somebody_trains():
    report = judge("attention.context", lambda w, v: (w @ v).detach())
    assert report.status == "different"
    assert report.title == "attention.context: no gradient passes through it"

    def half_cut(x, scale, shift, eps):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, False, keepdim=True)
        return scale * (x - mean.detach()) / (variance + eps).detach().sqrt() + shift

    report = judge("blocks.layer_norm", half_cut)
    assert report.title == "blocks.layer_norm: its gradient is another one"


def test_a_cut_gradient_is_mentioned_elsewhere():
    report = judge("inside.entropy", lambda w: torch.special.entr(w.detach()).sum(-1))
    assert report.status == "right" and "no gradient passes through" in report.text


def test_a_name_is_given_only_for_the_mistake_itself():
    """Equal on the cases of a check, by chance: then it is described, not named."""
    exercise = Exercise(
        name="test.square",
        statement="Gives the square of a number.",
        takes=("a",),
        reference=lambda a: a**2,
        cases=lambda g: [(2,), (int(torch.randint(4, 99, (), generator=g)),)],
        mistakes=(Mistake("doubled", lambda a: 2 * a, "Twice?", "Times itself."),),
        hint="Times itself.",
    )
    drawn = {a for (a,) in exercise.cases(torch.Generator().manual_seed(0))}

    def by_chance(a):
        return 2 * a if a in drawn else 7

    assert examine(exercise, lambda a: a + a).mistake == "doubled"
    report = examine(exercise, by_chance)
    assert (report.status, report.mistake) == ("different", None)


@pytest.mark.parametrize("name", PREDICTED)
def test_a_wrong_guess_is_not_told_the_answer(name):
    right = BANK[name].reference()
    for guess in (-3, 10**9, 0.123, [0], "x", (False,) * 3, torch.zeros(2, 7)):
        report = judge(name, guess)
        if report.status == "different":
            assert str(right) not in report.text, report.text


def test_a_wrong_guess_is_told_a_direction():
    assert "It is more than 5." in judge("llama.hidden", 5).text
    assert "It is less than 1000000." in judge("llama.hidden", 10**6).text


def test_the_box_and_the_text_say_the_same():
    report = Report("mistake", "a.b: <wrong> & more", ("one\ntwo",), "x < y")
    assert report.text == "✗ a.b: <wrong> & more\n    x < y\n  one\n  two"
    assert html.escape(report.title) in report.html and "x &lt; y" in report.html
    assert "one<br>two" in report.html


def test_the_box_shows_code_and_stress_and_leaves_products_alone():
    said = ("`a * b`: *both* of <them>", "2*3*4 and x * y * z and **kwargs**")
    box = Report("hint", "a.b", said).html
    assert "<code>a * b</code>: <em>both</em> of &lt;them&gt;" in box
    assert "2*3*4 and x * y * z and **kwargs**" in box


# --- the page of the book ----------------------------------------------------------


def test_the_example_in_the_book_runs_and_its_mistake_is_named(capsys):
    page = Path(__file__).parents[2] / "notebooks" / "book" / "exercises.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    names = {}
    exec(compile(code, page.name, "exec"), names)
    assert capsys.readouterr().out == shown
    exercise = names["exercise"]
    for right in (exercise.reference, lambda v: torch.stack([x.norm() for x in v])):
        assert examine(exercise, right).status == "right"
    (mistake,) = exercise.mistakes
    assert examine(exercise, mistake.function).mistake == mistake.name
    fields = set(re.findall(r"(\w+)=", code)) & {*Exercise.__dataclass_fields__}
    assert {"name", "statement", "cases", "mistakes", "hint"} <= fields
