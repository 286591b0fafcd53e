"""Notebook 16: each patient is caught, each mended one discharged; the blind round.

The cells of the notebook run as they are stored; a repair replaces one line of a
patient, as a reader would, or writes the line in another way. Bad repairs stay in.
"""

import ast
import contextlib
import io
import re

import pytest
import torch

from bug_clinic import clinic, patient
from named_mistakes import memory, progress, session
from tests.support.notebook_code import NOTEBOOKS, texts
from tools.notebook_rules import joined

# case -> (the broken piece, repairs, repairs that do not help)
REPAIRS = {
    1: (
        "logits.softmax(dim=-1)",
        ["logits", "logits.log_softmax(dim=-1)"],
        ["logits.sigmoid()", "0 * logits", "2 * logits"],
    ),
    2: ("diagonal=1", ["diagonal=0"], ["diagonal=-1", "diagonal=2"]),
    3: (
        "(losses * counted).mean()",
        ["losses[counted].mean()", "(losses * counted).sum() / counted.sum()"],
        ["losses.mean()", "losses[counted].sum()"],
    ),
    4: (
        "*map(WORDS.index, words)]",
        ["*map(WORDS.index, words), EOS]"],
        ["EOS, *map(WORDS.index, words)]"],
    ),
    5: (
        "self.positions(x)\n",
        ["x = self.positions(x)\n"],
        ["x = 2 * x\n", "x = x + self.positions(x)\n"],
    ),
    6: (
        "(source == PAD)[:, None, None, :]",
        ["(source != PAD)[:, None, None, :]", "padding_mask(source, PAD)"],
        ["None", "(source != source)[:, None, None, :]"],
    ),
    7: (".tril()", [".tril(diagonal=known)"], ["", ".tril(diagonal=known + 1)"]),
    8: (
        "model.norm(x)",
        ["model.head(model.norm(x))"],
        ["model.head(x)", "model.norm(x)[..., :14]"],
    ),
    9: (
        "F.dropout(hidden, 0.1)",
        ["F.dropout(hidden, 0.1, layer.training)"],
        ["hidden", "F.dropout(hidden, 0.1, not layer.training)"],
    ),
    10: (
        "[EncoderBlock(stack) for _ in range(num_layers)]",
        [
            "nn.ModuleList(EncoderBlock(stack) for _ in range(num_layers))",
            "nn.Sequential(*[EncoderBlock(stack) for _ in range(num_layers)])",
        ],
        ["tuple(EncoderBlock(stack) for _ in range(num_layers))"],
    ),
}


def cells():
    """Case -> its code cells: patient, symptoms, check; 0: the others."""
    by_case, case = {0: []}, 0
    for cell in NOTEBOOKS["16"]["cells"]:
        source = joined(cell["source"])
        if cell["cell_type"] == "code":
            by_case.setdefault(case, []).append(source)
        elif headings := re.findall(r"^##+ (?:Case (\d+))?", source, re.MULTILINE):
            case = int(headings[-1] or 0)
    return by_case


def definitions(source):
    """Imports, functions, classes and CONSTANTS of a cell, without what it runs."""
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    body = [
        node
        for node in ast.parse(source).body
        if isinstance(node, kinds)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).isupper())
    ]
    return compile(ast.Module(body, []), "notebook 16", "exec")


@pytest.fixture(scope="module")
def ward():
    """The cells of each case, and the names that the set-up cells leave behind."""
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    names, all_cells = {}, cells()
    with contextlib.redirect_stdout(io.StringIO()):
        for source in all_cells[0][:3]:
            if "symptoms()" not in source:
                exec(source, names)
    yield all_cells, names
    torch.set_default_dtype(before)
    torch.set_num_threads(threads)  # sums of floats depend on it


def examine(ward, case, old="", new=""):
    """What the check prints, in its last line."""
    all_cells, names = ward
    names, printed = dict(names), io.StringIO()
    first, *symptom, check = all_cells[case]
    assert first.count(old) == 1 or not old, first
    with contextlib.redirect_stdout(printed):
        exec(definitions(first.replace(old, new)), names)
        for source in symptom:
            exec(definitions(source), names)
        exec(check, names)
    return printed.getvalue().strip().split("\n")[-1]


def test_all_cases_are_tested(ward):
    assert sorted(set(ward[0]) - {0}) == sorted(REPAIRS)


@pytest.mark.slow
@pytest.mark.parametrize("case", REPAIRS)
def test_the_patient_is_caught_and_only_a_repair_is_confirmed(ward, case):
    old, good, bad = REPAIRS[case]
    assert examine(ward, case) == "not solved yet"
    for new in good:
        assert examine(ward, case, old, new) == "✓ solved", new
    for new in bad:
        try:
            assert examine(ward, case, old, new) == "not solved yet", new
        except ValueError as error:  # an instrument refuses what it cannot compare
            assert "finite" in str(error)


# --- the blind round -----------------------------------------------------------------

CAUGHT_BY = {  # the question that tells; the others may stay silent
    "no end": "data",
    "not shifted": "data",
    "shifted twice": "data",
    "peeks": "future",
    "closed rows": "steps",
    "masked too late": "future",
    "heads interleaved": "future",
    "no residual": "one_batch",
    "restless": "twice",
    "no places": "unmoved",
    "one layer": "unmoved",
    "softmax twice": "known_losses",
    "padding counted": "known_losses",
    "old gradients": "steps",
    "vanishing rate": "steps",
    "frozen body": "unmoved",
    "still training": "twice",
    "first row": "loop",
}
REWRITTEN = {  # other right repairs: each bug's part, in other words
    "no end": "return [BOS] + [WORDS.index(word) for word in words] + [EOS]",
    "peeks": """place = torch.arange(ids.shape[1])
    return (place[:, None] >= place) & (ids != PAD)[:, None, None, :]""",
    "closed rows": """length = ids.shape[1]
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril()""",
    "masked too late": """scores = queries @ keys.mT * keys.shape[-1] ** -0.5
    return (scores + torch.where(mask, 0.0, -1e30)).softmax(dim=-1)""",
    "heads interleaved": """b, t, m = x.shape
    roles = layer.to_qkv(x).view(b, t, 3, HEADS, m // HEADS).permute(2, 0, 3, 1, 4)
    context = weights_of(roles[0], roles[1], mask) @ roles[2]
    return layer.to_output(context.transpose(1, 2).reshape(b, t, m))""",
    "softmax twice": """logs = logits.log_softmax(dim=-1).flatten(0, 1)
    return F.nll_loss(logs, labels.flatten(), ignore_index=-100)""",
    "padding counted": "return F.cross_entropy(logits.mT, labels)",
    "old gradients": """optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    losses = []
    model.train()
    for step in range(steps):
        inputs, labels = batches(step)
        loss = loss_of(logits_of(model, inputs), labels)
        loss.backward()
        optimizer.step()
        plan.step()
        model.zero_grad()
        losses.append(loss.item())
    return losses""",
    "still training": """with torch.no_grad():
        return loss_of(logits_of(model.train(False), inputs), labels).item()""",
}
REFUSED = {  # repairs that are tempting and wrong: (part, text, what takes its place)
    "peeks": ("may_look", ".tril()", ".tril(-1)"),
    "closed rows": ("may_look", "causal & ", "causal | "),
    "no residual": (
        "block",
        "x = x + attend(layer, layer.norm_1(x)",
        "x = 2 * attend(layer, x",
    ),
    "restless": ("block", "F.dropout(hidden, 0.1, layer.training)", "hidden"),
    "softmax twice": ("loss_of", "logits.mT", "logits.sigmoid().mT"),
    "padding counted": ("loss_of", ".mean()", ".sum()"),
    "vanishing rate": ("fit", "RATE * (1 - step / steps)", "RATE"),
    "no end": ("ids_of", "WORDS.index, words), EOS", "WORDS.index, words), EOS, EOS"),
    "first row": ("write", "[:, -1].softmax", "[:, 1].softmax"),
}


def part_from(source, name):
    space = {}
    exec("import torch\nfrom torch.nn import functional as F\n" + source, space)
    return space[name]


def rewritten(bug):
    """The healthy part with its body in other words."""
    part = clinic.BUGS[bug][0]
    text = clinic._source(clinic.SOURCE, part)
    head, doc, *_ = text.split("\n")
    return part_from(f"{head}\n{doc}\n    {REWRITTEN[bug]}\n", part)


def dealt(bug):
    return clinic.Case(0, bug)


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(memory, "_entries", {})
    monkeypatch.setitem(clinic._hooks, "remember", session.keep_score)


def test_a_number_deals_the_same_case_and_eighteen_numbers_all_of_them():
    numbers = range(len(clinic.BUGS))
    bugs = [clinic.new_case(number).bug for number in numbers]
    assert sorted(bugs) == sorted(clinic.BUGS) == sorted(CAUGHT_BY)
    assert clinic.new_case(len(bugs)).bug == clinic.new_case(0).bug == bugs[0]


@pytest.mark.slow
@pytest.mark.parametrize("bug", CAUGHT_BY)
def test_a_question_tells_the_patient_from_the_healthy_program(bug, capsys):
    case = dealt(bug)
    getattr(case, CAUGHT_BY[bug])()
    healthy, sick = capsys.readouterr().out.split("patient  ")
    assert healthy.removeprefix("healthy  ").strip() != sick.rpartition("(")[0].strip()
    assert case.points == 9 and "(9 points left)" in sick


@pytest.mark.slow
@pytest.mark.parametrize("bug", clinic.BUGS)
def test_the_right_repair_is_accepted_and_a_wrong_one_costs(bug, capsys, alone):
    case, part = dealt(bug), clinic.BUGS[bug][0]
    other = "evaluate" if part != "evaluate" else "write"
    case.repair(**{other: getattr(patient, other)})
    assert "not mended (7 points left)" in capsys.readouterr().out
    case.read(part)
    text = capsys.readouterr().out
    assert clinic.BUGS[bug][2] in text and "(5 points left)" in text
    right = rewritten(bug) if bug in REWRITTEN else getattr(patient, part)
    case.repair(**{part: right})
    assert capsys.readouterr().out == f"✓ mended, 5 of 10 points: {bug}, in {part}\n"
    assert memory._entries == {"clinic.case 0": {"points": 5}}


@pytest.mark.parametrize("bug", REFUSED)
def test_a_tempting_repair_is_refused(bug, capsys, alone):
    part, old, new = REFUSED[bug]
    text = clinic._source(clinic.SOURCE, part)
    assert text.count(old) == 1
    dealt(bug).repair(**{part: part_from(text.replace(old, new), part)})
    assert "not mended" in capsys.readouterr().out and memory._entries == {}


def test_the_best_score_stands_in_progress(capsys, alone):
    for questions in (2, 0, 3):
        case = dealt("no end")
        for _ in range(questions):
            case.data()
        case.repair(ids_of=patient.ids_of)
        case.data()  # after the repair it costs nothing
    capsys.readouterr()
    progress("16")
    out = capsys.readouterr().out
    assert "10 points: clinic.case 0" in out and "0 of 6 right" in out
    progress("15")
    assert "clinic.case" not in capsys.readouterr().out


def test_what_cannot_be_a_repair_is_said():
    case = dealt("peeks")
    with pytest.raises(TypeError, match="hand over one part"):
        case.repair(may_look=patient.may_look, loss_of=patient.loss_of)
    with pytest.raises(TypeError, match="hand over a function for one of ids_of"):
        case.repair(mask=patient.may_look)
    with pytest.raises(ValueError, match="part must be one of ids_of"):
        case.read("mask")
    assert case.points == 10


def test_symptoms_change_no_random_state_and_survive_nan(capsys):
    before = torch.get_rng_state()
    dealt("closed rows").symptoms()
    out = capsys.readouterr().out
    assert "training nan" in out and "probabilities are nan" in out
    assert torch.equal(before, torch.get_rng_state())


# --- the last patient ----------------------------------------------------------------

SPLIT = """    repeated = openings * EPOCHS
    random.Random(0).shuffle(repeated)
    held_out = len(repeated) // 10
    return repeated[held_out:], repeated[:held_out]
"""
HONEST = """    held_out = len(openings) // 10
    told = openings[held_out:] * EPOCHS
    random.Random(0).shuffle(told)
    return told, openings[:held_out]
"""
OTHER_HONEST = """    mixed = random.Random(1).sample(openings, len(openings))
    held_out = mixed[: len(mixed) // 10]
    rest = [words for words in mixed if words not in held_out]
    return [words for _ in range(EPOCHS) for words in rest], held_out
"""
LATE = """    told = openings * EPOCHS
    random.Random(0).shuffle(told)
    held_out = told[: len(told) // 10]
    return [words for words in told if words not in held_out], held_out
"""
FIT = """        for group in optimizer.param_groups:
            group["lr"] *= left
"""
LAMBDA = """        if step == 0:
            plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 - n / steps)
        else:
            plan.step()
"""
GRAD = "    with torch.no_grad():"
MENDED = {
    "data": (SPLIT, [HONEST, OTHER_HONEST]),
    "optimizer": (FIT, [FIT.replace("*=", "= RATE *"), LAMBDA]),
    "evaluation": (
        GRAD,
        [f"    model.eval()\n{GRAD}", f"    model.train(False)\n{GRAD}"],
    ),
}
USELESS = {
    "data": [SPLIT.replace("shuffle", "choices"), LATE, "    return openings, []\n"],
    "optimizer": [
        FIT.replace("*= left", "= RATE"),
        FIT.replace("*= left", "= RATE * left**2"),
        FIT.replace("*= left", "= RATE * 1 - step / steps"),
        FIT.replace("*= left", "= RATE * RATE * left"),
    ],
    "evaluation": [
        GRAD,
        f"    model.train()\n{GRAD}",
        f"    inputs, labels = inputs[:50], labels[:50]\n    model.eval()\n{GRAD}",
    ],
}


@pytest.fixture(scope="module")
def script(ward):
    """The cells of the last patient, and the names before them."""
    sources = ward[0][0]
    [first] = [i for i, source in enumerate(sources) if "COUNT, EPOCHS" in source]
    [last] = [i for i, source in enumerate(sources) if "still sick" in source]
    return sources[first : last + 1], ward[1]


def operate(script, repairs, run=False):
    """What the script or its check prints with some pieces replaced."""
    sources, names = script
    names, printed = dict(names), io.StringIO()
    for source in sources:
        is_run = "tale_model = build()" in source
        if is_run and not run:
            continue
        source = source.partition("roles = ")[0]  # without the picture
        for old, new in repairs:
            source = source.replace(old, new)
        with contextlib.redirect_stdout(printed):
            exec(source, names)
        if is_run:
            break
    return printed.getvalue().strip().split("\n")


@pytest.mark.parametrize("kind", MENDED)
def test_each_piece_of_the_last_patient_stands_there_once(script, kind):
    assert sum(source.count(MENDED[kind][0]) for source in script[0]) == 1


def test_the_last_patient_is_sick_in_three_ways(script):
    sick = "still sick: the data, the optimizer, the evaluation"
    assert operate(script, [])[-1] == sick


@pytest.mark.parametrize("style", [0, 1])
def test_the_mended_script_is_discharged(script, style):
    repairs = [(old, new[style]) for old, new in MENDED.values()]
    assert operate(script, repairs)[-1] == "still sick: nothing"


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, new", [(kind, new) for kind, many in USELESS.items() for new in many]
)
def test_a_useless_repair_of_the_script_is_named(script, kind, new):
    repairs = {name: (old, good[0]) for name, (old, good) in MENDED.items()}
    repairs[kind] = (MENDED[kind][0], new)
    try:
        printed = operate(script, repairs.values())
    except (TypeError, ValueError) as error:  # no loss can be computed at all
        assert kind == "data", error
    else:
        assert printed[-1] == f"still sick: the {kind}"


def losses_of(script, repairs):
    """(training, held out) of the repaired script, as it prints them."""
    printed = operate(script, repairs, run=True)
    return [float(line.split()[-1 if "held" in line else 1]) for line in printed[-2:]]


@pytest.mark.long
def test_the_answer_tells_the_losses_of_the_repaired_scripts(script):
    [text] = [text for text in texts("16") if "*The optimizer.*" in text]
    repairs = []
    for kind, nats in {"optimizer": 0.63, "evaluation": 0.55, "data": 1.18}.items():
        repairs.append((MENDED[kind][0], MENDED[kind][1][0]))
        training, held_out = losses_of(script, repairs)
        assert held_out == nats and str(nats) in text
    assert training == 0.60


ON_NEW = ("model, held_out)", "model, [opening(10_000 + i) for i in range(200)])")


@pytest.mark.long
def test_a_narrower_model_does_better_on_new_openings(script):
    repairs = [(piece, good[0]) for piece, good in MENDED.values()]
    widths = [("width=48", f"width={width}") for width in (24, 48)]
    narrow, wide = (losses_of(script, [*repairs, ON_NEW, one])[1] for one in widths)
    assert narrow < wide
