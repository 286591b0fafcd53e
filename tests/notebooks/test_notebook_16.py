"""Notebook 16: each broken patient is caught, each mended one is discharged.

The cells of the notebook run as they are stored; a repair replaces one line of a
patient, as a reader would, or writes the line in another way. Bad repairs stay in.
"""

import ast
import contextlib
import inspect
import io
import re

import pytest
import torch
from nb16_checkups import cannot_memorize

from course_utils.looking import diagnostics
from tests.support.notebook_code import NOTEBOOKS, texts
from tests.support.notebook_rules import joined

# case -> (the broken piece, repairs, repairs that do not help)
REPAIRS = {
    1: ("diagonal=1", ["diagonal=0"], ["diagonal=-1", "diagonal=2"]),
    2: (
        "logits.softmax(dim=-1)",
        ["logits", "logits.log_softmax(dim=-1)"],
        ["logits.sigmoid()", "0 * logits", "2 * logits"],
    ),
    3: (
        "(losses * counted).mean()",
        ["losses[counted].mean()", "(losses * counted).sum() / counted.sum()"],
        ["losses.mean()", "losses[counted].sum()"],
    ),
    4: (
        "scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)",
        [
            "scores.masked_fill(~mask, -1e9).softmax(dim=-1).masked_fill(~mask, 0.0)",
            "scores.masked_fill(~mask, -torch.inf).softmax(dim=-1).nan_to_num()",
        ],
        ["scores.masked_fill(~mask, -1e4).softmax(dim=-1)", "scores.softmax(dim=-1)"],
    ),
    5: (
        "self.positions(x)\n",
        ["x = self.positions(x)\n"],
        ["x = 2 * x\n", "x = x + self.positions(x)\n"],
    ),
    6: (
        "[:, None, :, None]",
        ["[:, None, None, :]", "[:, None, None]"],
        ["[:, None, :, None] | real[:, None, None, :]"],
    ),
    7: (
        "(source == PAD)[:, None, None, :]",
        ["(source != PAD)[:, None, None, :]", "padding_mask(source, PAD)"],
        ["None", "(source != source)[:, None, None, :]"],
    ),
    8: (
        "*map(WORDS.index, words)]",
        ["*map(WORDS.index, words), EOS]"],
        ["EOS, *map(WORDS.index, words)]"],
    ),
    9: (
        "queries.shape[1] * queries.shape[3]",
        ["queries.shape[3]", "keys.shape[-1]"],
        ["queries.shape[1]", "1"],
    ),
    10: (
        "8 * head",
        ["-8 * head", "8 * -head"],
        [
            "0 * head",
            "-head",
            "-num_heads * torch.where(head < num_heads, 1, 8)",  # right at both ends
        ],
    ),
    11: (
        "x = self.attention(",
        ["x = x + self.attention("],
        ["x = 2 * self.attention("],
    ),
    12: (
        "            hidden = block(x)\n        return hidden",
        [
            "            x = block(x)\n        return x",
            "            x = hidden = block(x)\n        return hidden",
        ],
        ["            hidden = block(x)\n        return x"],
    ),
    13: (
        "[EncoderBlock(SIZES) for _ in range(num_layers)]",
        [
            "nn.ModuleList(EncoderBlock(SIZES) for _ in range(num_layers))",
            "nn.Sequential(*[EncoderBlock(SIZES) for _ in range(num_layers)])",
        ],
        ["tuple(EncoderBlock(SIZES) for _ in range(num_layers))"],
    ),
    14: (
        "F.dropout(hidden, p=0.3)",
        ["F.dropout(hidden, 0.3, self.training)"],
        ["hidden", "F.dropout(hidden, 0.3, not self.training)"],
    ),
    15: (".tril()", [".tril(diagonal=known)"], ["", ".tril(diagonal=known + 1)"]),
    16: (
        "values.min()",
        ["values[:, -1:]", "values.amin(dim=-1, keepdim=True)"],
        ["values.max()", "values[:, :1]"],
    ),
}


def cells():
    """Case -> its code cells: patient, perhaps symptom, check; 0: the others."""
    by_case, case = {0: []}, 0
    for cell in NOTEBOOKS["16"]["cells"]:
        source = joined(cell["source"])
        if cell["cell_type"] == "code":
            by_case.setdefault(case, []).append(source)
        elif heading := re.search(r"^##+ (?:Case (\d+))?", source, re.MULTILINE):
            case = int(heading[1] or 0)
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
def clinic():
    """The cells of each case, and the names that the set-up cells leave behind."""
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    names, all_cells = {}, cells()
    with contextlib.redirect_stdout(io.StringIO()):
        for source in all_cells[0][:4]:
            exec(source, names)
    yield all_cells, names
    torch.set_default_dtype(before)
    torch.set_num_threads(threads)  # sums of floats depend on it


def examine(clinic, case, old="", new=""):
    """What the check prints, and what the instrument reports."""
    all_cells, names = clinic
    names, reports, printed = dict(names), [], io.StringIO()
    entered = names["verdict"]

    def verdict(number, finding, works=True):
        reports.append((number, finding))
        entered(number, finding, works)

    names["verdict"] = verdict
    patient, *symptom, check = all_cells[case]
    assert patient.count(old) == 1 or not old, patient
    with contextlib.redirect_stdout(printed):
        exec(definitions(patient.replace(old, new)), names)
        exec(definitions("\n".join(symptom)), names)
        exec(check, names)
    [(number, finding)] = reports
    assert number == case
    return printed.getvalue().strip(), bool(finding)


def test_all_cases_are_tested(clinic):
    assert sorted(set(clinic[0]) - {0}) == sorted(REPAIRS)


@pytest.mark.slow
@pytest.mark.parametrize("case", REPAIRS)
def test_a_case_runs_alone_and_changes_nothing_for_the_others(clinic, case):
    all_cells, setup = clinic
    names = dict(setup)
    with contextlib.redirect_stdout(io.StringIO()):
        for source in all_cells[case]:
            exec(source, names)
    changed = [name for name in setup if names.get(name) is not setup[name]]
    assert [name for name in changed if name != "__builtins__"] == []


@pytest.mark.parametrize("case", REPAIRS)
def test_the_patient_is_caught_and_only_a_repair_is_confirmed(clinic, case):
    old, good, bad = REPAIRS[case]
    assert examine(clinic, case) == ("not solved yet", True)
    for new in good:
        assert examine(clinic, case, old, new) == ("✓ solved", False), new
    for new in bad:
        try:
            printed, _ = examine(clinic, case, old, new)
        except ValueError as error:  # an instrument refuses what it cannot compare
            assert "finite" in str(error)
        else:
            assert printed == "not solved yet", new


def test_every_instrument_of_the_package_has_a_patient():
    tree = ast.parse(inspect.getsource(diagnostics))
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    used = "".join(source for parts in cells().values() for source in parts)
    assert [n for n in names if n[0] != "_" and f"diagnostics.{n}(" not in used] == []


def test_the_test_of_memory_tells_the_real_models_apart(clinic):
    names = dict(clinic[1]) | {"check": lambda name, answer: None}
    [cell] = [c for c in clinic[0][0] if "def my_cannot_memorize" in c]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(definitions(cell), names)
        names["my_cannot_memorize"] = cannot_memorize
        exec(cell.split("\n\n\n")[-1], names)
    assert printed.getvalue() == "DecoderLM False\nSquashed True\n"


def test_the_title_of_a_figure_stays_true_after_the_repair():
    code = "\n".join(c for case, some in cells().items() if case for c in some)
    calls = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Call)]
    drawn = [c for c in calls if ast.unparse(c.func) in ("plots.curves", "plots.bars")]
    titles = [c.args[-1].value for c in drawn if isinstance(c.args[-1], ast.Constant)]
    assert len(titles) == 7 and all(title.endswith("?") for title in titles), titles


# --- the last patient ----------------------------------------------------------------

SPLIT = """    told = openings * EPOCHS
    random.Random(0).shuffle(told)
    held_out = len(told) // 10
    return told[held_out:], told[:held_out]
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
        f"    openings = openings[:50]\n    model.eval()\n{GRAD}",
    ],
}


@pytest.fixture(scope="module")
def script(clinic):
    """The cells of the last patient, and the names before them."""
    sources = clinic[0][0]
    [first] = [i for i, source in enumerate(sources) if "COUNT, EPOCHS" in source]
    return sources[first:], clinic[1]


def operate(script, repairs, run=False):
    """What the script or its check prints with some pieces replaced."""
    sources, names = script
    names, printed = dict(names), io.StringIO()
    for source in sources:
        is_run = "split(openings)" in source and "def " not in source
        if (is_run and not run) or "plots." in source:
            continue
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
    printed = operate(script, [])
    sick = "still sick: the data, the optimizer, the evaluation"
    assert printed[-2:] == [sick, "not solved yet"]


@pytest.mark.parametrize("style", [0, 1])
def test_the_mended_script_is_discharged(script, style):
    repairs = [(old, new[style]) for old, new in MENDED.values()]
    assert operate(script, repairs)[-2:] == ["still sick: nothing", "✓ solved"]


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
        assert printed[-2:] == [f"still sick: the {kind}", "not solved yet"]


@pytest.mark.long
def test_the_answer_tells_the_losses_of_the_repaired_scripts(script):
    [text] = [text for text in texts("16") if "*The optimizer.*" in text]
    repairs = []
    told = {"optimizer": "0.63", "evaluation": "0.55", "data": "1.18"}
    for kind, digits in told.items():
        repairs.append((MENDED[kind][0], MENDED[kind][1][0]))
        training, held_out, lines = operate(script, repairs, run=True)[-3:]
        assert f"{float(held_out.split()[-1]):.2f}" == digits and digits in text
    assert float(training.split()[1]) == pytest.approx(0.60, abs=0.005)
    assert float(lines.split()[1]) == pytest.approx(1.33, abs=0.005)


ON_NEW = ("model, held_out)", "model, [opening(10_000 + i) for i in range(200)])")


@pytest.mark.long
@pytest.mark.parametrize("width, nats", [(24, "1.12"), (48, "1.23"), (96, "1.27")])
def test_the_answer_tells_of_other_widths_on_new_openings(script, width, nats):
    repairs = [(piece, good[0]) for piece, good in MENDED.values()]
    repairs += [ON_NEW, ("width=48", f"width={width}")]
    _, held_out, _ = operate(script, repairs, run=True)[-3:]
    assert f"{float(held_out.split()[-1]):.2f}" == nats
    assert any(nats in text for text in texts("16"))
