"""What the judge says of answers that no bank knows: it is calm, and it is right."""

import dataclasses
import html
import re
import time
import warnings
from collections import Counter
from itertools import pairwise

import pytest
import torch
from torch.masked import masked_tensor

from named_mistakes import Exercise, Mistake, examine
from named_mistakes.report import Report
from tests.exercises.answers import PREDICTED, judge
from tests.support.bank import BANK

pytestmark = pytest.mark.usefixtures("remembering")


def test_two_mistakes_at_once_are_described_by_the_first_difference():
    def both(queries, keys):
        return keys @ queries.transpose(-2, -1) + 1  # exchanged, no scale, shifted

    report = judge("attention.scores", both)
    assert report.status == "different"
    assert "Its shape is 5×3; 3×5 is wanted." in report.lines
    assert "Asked with queries 3×7, keys 5×7." in report.lines

    def unscaled_and_shifted(queries, keys):
        return queries @ keys.transpose(-2, -1) + 1

    report = judge("attention.scores", unscaled_and_shifted)
    assert re.match(r"Entry \[0, 0\] is \S+; \S+ is wanted", report.lines[0])


# --- not tried, stopped, printed ------------------------------------------------------


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


def my_quotation(scores):
    """What it wants."""
    return "What it wants."


@pytest.mark.parametrize("answer", [lambda scores: 0.5, my_quotation])
def test_a_function_that_returns_a_constant_is_no_stub(answer):
    assert judge("attention.weights", answer).status == "different"


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


def test_an_endless_recursion_ends():
    def again(scores):
        return again(scores)

    start = time.process_time()
    report = judge("attention.weights", again)
    assert "calls itself without end" in report.text
    assert report.code.endswith("return again(scores)")
    assert time.process_time() - start < 5


def test_a_result_without_an_end_is_an_error():
    knot = []
    knot.append(knot)
    assert judge("attention.weights", lambda scores: knot).status == "error"


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


# --- changed arguments, results of other kinds ----------------------------------------


def test_changes_in_place_are_named():
    def overwrites(scores):
        top = scores.amax(dim=-1, keepdim=True)
        scores -= top
        powers = scores.exp()
        return powers / powers.sum(dim=-1, keepdim=True)

    report = judge("attention.weights", overwrites)
    assert report.status == "changed"
    assert report.title == "attention.weights: it changes scores in place"
    assert "`+=` and its kin" in report.text


def test_a_change_inside_a_list_is_detected():
    def scales(gradients, most):
        length = torch.stack([g.norm() for g in gradients]).norm()
        for gradient in gradients:
            gradient *= (most / length).clamp(max=1)
        return gradients

    report = judge("training.clip", scales)
    assert report.title == "training.clip: it changes gradients in place"


@pytest.mark.filterwarnings("ignore::UserWarning")  # of masked tensors
@pytest.mark.parametrize(
    "turn, message",
    [
        (lambda weights: weights.numpy(), "a NumPy array"),
        (lambda weights: weights.tolist(), "a list of 3"),
        (lambda weights: weights.bool(), "Its dtype is torch.bool"),
        (lambda weights: weights.to("meta"), "not comparable"),
        (lambda weights: weights.to_sparse(), "a tensor, not comparable"),
        (lambda weights: torch.nested.nested_tensor([weights]), "not comparable"),
        (lambda weights: masked_tensor(weights, weights > 0), "not comparable"),
        (lambda weights: "text", "a str"),
    ],
)
def test_results_of_other_kinds_are_answered(turn, message):
    report = judge("attention.weights", lambda scores: turn(scores.softmax(dim=-1)))
    assert report.status == "different" and message in report.text


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_numbers_in_another_float_type_are_compared(dtype, precision):
    report = judge("attention.context", lambda w, v: (w @ v).to(dtype))
    assert report.status == "right", report.text
    wrong = judge("attention.context", lambda w, v: (w @ v + 0.5).to(dtype))
    assert wrong.status == "different"


def test_a_result_in_place_of_the_function_is_answered():
    assert "the function itself" in judge("attention.weights", torch.ones(3)).text
    assert "the value itself" in judge("senses.causal_share", lambda: None).text


def test_a_layer_of_the_learner_may_scale():
    layer = torch.nn.Linear(1, 1)
    scale = layer.weight.detach().requires_grad_() * 0 + 1
    report = judge("attention.weights", lambda s: (s * scale).softmax(-1))
    assert report.status == "right"


@pytest.mark.parametrize("stops", [SystemExit("bye"), RecursionError("deep")])
def test_what_stops_after_a_change_in_place_stays_inside(stops):
    def changes_and_stops(scores):
        scores += 1
        raise stops

    report = judge("attention.weights", changes_and_stops)
    assert report.status == "changed"


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
    start = time.process_time()
    assert examine(exercise, sometimes_endless).mistake is None
    assert time.process_time() - start < 10


# --- state and chance --------------------------------------------------------------


def test_an_answer_that_remembers_an_earlier_call_is_reported():
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
    assert report.title == "blocks.layer_norm: the gradient of x is another one"


def cut(value):
    """The same numbers, without their graph; of a dict, one entry."""
    if isinstance(value, dict):
        return value | {"W_o": cut(value["W_o"])}
    return torch.from_numpy(value.detach().numpy())


@pytest.mark.parametrize(
    "name, inputs, problem",
    [
        ("llama.rms_norm", ["scale"], "no gradient reaches scale"),
        ("llama.swiglu", ["gate"], "no gradient reaches gate"),
        ("after.lora", ["up"], "no gradient reaches up"),
        ("after.lora", ["weight"], ""),  # it is frozen
        ("after.penalty", ["reference"], ""),
        ("positions.rotary", ["keys"], "no gradient reaches keys"),
        ("positions.rotary", ["queries", "keys", "values"], "no gradient passes"),
        ("backbone.forward", ["W"], "no gradient reaches W['W_o']"),
    ],
)
def test_a_gradient_cut_at_any_input_is_refused(name, inputs, problem, precision):
    exercise = BANK[name]

    def answer(*given):
        named = zip(exercise.takes, given, strict=True)
        return exercise.reference(*(cut(x) if n in inputs else x for n, x in named))

    report = judge(name, answer)
    assert (report.status == "different") == bool(problem), report.text
    assert problem in report.title


def test_rounding_of_a_gradient_is_no_mistake(precision):
    """In float32, and near −2000, a difference of 4e-5 was called another gradient."""

    def by_logarithms(scores, mask=None):
        lowest = torch.finfo(precision).min
        scores = scores if mask is None else scores.masked_fill(~mask, lowest)
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        return weights if mask is None else weights * mask

    for name in ("attention.weights", "masks.weights"):
        report = judge(name, by_logarithms)
        assert report.status == "right" and "gradient" not in report.text, report.text


def test_a_gradient_that_is_nan_is_called_so():
    def answer(scores):
        return 1 / (scores[..., None, :] - scores[..., :, None]).exp().sum(-1)

    report = judge("attention.weights", answer)
    assert report.status == "right" and "gradient of scores is nan" in report.text


def test_a_cut_gradient_is_mentioned_elsewhere():
    def answer(weights):
        return weights.detach().diagonal(-1, -2, -1).mean(dim=(0, 2))

    report = judge("inside.look_back", answer)
    assert report.status == "right" and "no gradient passes through" in report.text


def test_a_name_is_given_only_for_the_mistake_itself():
    """Equal on the cases of a check, by chance: then it is described, not named."""
    exercise = Exercise(
        name="test.square",
        statement="Gives the square of a number.",
        takes=("a",),
        reference=lambda a: a**2,
        cases=lambda g: [(2,), (int(torch.randint(4, 99, (), generator=g)),)],
        mistakes=(
            Mistake(
                name="doubled",
                function=lambda a: 2 * a,
                hint="Twice?",
                more="Times itself.",
            ),
        ),
        hint="Times itself.",
    )
    drawn = {a for (a,) in exercise.cases(torch.Generator().manual_seed(0))}

    def by_chance(a):
        return 2 * a if a in drawn else 7

    assert examine(exercise, lambda a: a + a).mistake == "doubled"
    report = examine(exercise, by_chance)
    assert (report.status, report.mistake) == ("different", None)


@pytest.mark.parametrize("name", PREDICTED)
def test_a_wrong_guess_does_not_get_the_answer(name):
    right = BANK[name].reference()
    for guess in (-3, 10**9, 0.123, [0], "x", (False,) * 3, torch.zeros(2, 7)):
        report = judge(name, guess)
        if report.status == "different":
            assert str(right) not in report.text, report.text


def test_a_wrong_guess_gets_a_direction():
    assert "It is more than 5." in judge("llama.cache", 5).text
    assert "It is less than 1000000." in judge("llama.cache", 10**6).text


def test_the_box_and_the_text_say_the_same():
    report = Report("mistake", "a.b: <wrong> & more", ("one\ntwo",), "x < y")
    assert report.text == "✗ a.b: <wrong> & more\n    x < y\n  one\n  two"
    assert html.escape(report.title) in report.html and "x &lt; y" in report.html
    assert "one<br>two" in report.html


def test_the_box_shows_code_and_stress_and_leaves_products_alone():
    lines = ("`a * b`: *both* of <them>", "2*3*4 and x * y * z and **kwargs**")
    box = Report("hint", "a.b", lines).html
    assert "<code>a * b</code>: <em>both</em> of &lt;them&gt;" in box
    assert "2*3*4 and x * y * z and **kwargs**" in box
