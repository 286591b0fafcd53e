"""The package and the notebooks' trainings on a device that is not the CPU.

None is needed: `tests/support/accelerator.py` pretends one. It computes, has no float64
and refuses to mix with the CPU. It holds for a process, so each program gets its own.
"""

import ast
import importlib
import inspect
import json

import pytest

from tests.support.accelerator_cases import CASES, NEITHER, ON_CPU, PREPARE
from tests.support.notebook_rules import ROOT, code_cells, joined
from tests.support.plain_python import answers_of

START = """
import sys
sys.path.insert(0, "tests/..")
from tests.support import accelerator as pretended
"""
BOTH = """

def moved(x, device):
    if isinstance(x, tuple | list):
        return type(x)(moved(part, device) for part in x)
    return (copy.deepcopy(x) if isinstance(x, nn.Module) else x).to(device)


def outcome(x):
    '''Numbers and places of a result, as JSON has them.'''
    if isinstance(x, torch.Tensor):
        return {"place": x.device.type, "numbers": x.detach().cpu().double().tolist()}
    if isinstance(x, dict):
        return [outcome(part) for part in x.values()]
    if isinstance(x, tuple | list):
        return [outcome(part) for part in x]
    return x if isinstance(x, str | int | float) else str(type(x))


def evaluated(case, device):
    torch.manual_seed(1)
    place = {"D": lambda x: moved(x, device), "DEVICE": device}
    try:
        return outcome(eval(case, globals() | place))
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:400]


for name, case in given.items():
    answers[name] = {"cpu": evaluated(case, "cpu")}
with pretended.accelerator():
    for name, case in given.items():
        answers[name]["mps"] = evaluated(case, "mps")
"""


@pytest.fixture(scope="module")
def outcomes():
    return answers_of(START + PREPARE + BOTH, CASES)


def assert_alike(cpu, mps, place):
    if isinstance(cpu, list):
        assert isinstance(mps, list) and len(cpu) == len(mps), mps
        for one, other in zip(cpu, mps, strict=True):
            assert_alike(one, other, place)
    elif isinstance(cpu, dict):
        assert isinstance(mps, dict), mps
        assert mps["place"] == place
        assert_close(cpu["numbers"], mps["numbers"])
    elif isinstance(cpu, float):
        assert mps == pytest.approx(cpu, abs=1e-4)
    else:
        assert mps == cpu


def assert_close(one, other):
    if isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_close(a, b)
    else:
        assert other == pytest.approx(one, abs=1e-3, nan_ok=True)


@pytest.mark.parametrize("name", CASES)
def test_it_does_there_what_it_does_on_the_cpu(name, outcomes):
    cpu, mps = outcomes[name]["cpu"], outcomes[name]["mps"]
    assert "Error: " not in str(cpu), cpu
    assert_alike(cpu, mps, "cpu" if name in ON_CPU else "mps")


def public_names(module):
    """Functions and classes that a module defines itself."""
    for name, thing in vars(module).items():
        own = getattr(thing, "__module__", None) == module.__name__
        if own and not name.startswith("_") and callable(thing):
            yield name


def test_every_public_function_that_takes_a_tensor_or_a_module_has_a_case():
    package = ROOT / "course_utils"
    paths = [*package.glob("*.py"), *package.glob("training/*.py")]
    paths += [*package.glob("looking/*.py"), package / "looking/views/story_page.py"]
    paths += [package / "text" / "tokenizer.py"]
    without_tensors = {"__init__", "shapes", "workshop"}
    known = {name.split(",")[0] for name in CASES}
    for path in sorted(paths):
        if path.stem in without_tensors:
            continue
        dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        module = importlib.import_module(dotted)
        neither = set(NEITHER.get(path.stem, ()))
        for name in public_names(module):
            if inspect.isfunction(getattr(module, name)) and name == "main":
                continue
            assert (name in known) != (name in neither), f"{dotted}.{name}"


# --- the pretended accelerator itself ------------------------------------------------

REFUSED = {
    "float64": "x.to('mps').double()",
    "float64 from nothing": "torch.zeros(2, dtype=torch.float64, device='mps')",
    "a float64 module": "nn.Linear(2, 2).double().to('mps').weight",
    "a CPU tensor": "x.to('mps') + x",
    "a CPU mask": "D(llama)(D(ids), true)",
    "CPU ids": "D(llama)(ids)",
    "ids there, a model on the CPU": "llama(D(ids))",
    "a CPU generator": "torch.randn(2, device='mps', generator=torch.Generator())",
    "a CPU generator for a draw": (
        "torch.multinomial(D(x).abs()[0], 1, generator=torch.Generator())"
    ),
    "NumPy": "D(x).numpy()",
}
ALLOWED = {
    "a number": "(D(x) * torch.tensor(2.0)).cpu() - 2 * x",
    "a CPU index": "D(x)[torch.tensor([1])].cpu() - x[[1]]",
    "there and back": "D(x).cpu() - x",
    "an assignment across": "torch.zeros_like(D(x)).copy_(x).cpu() - x",
    "the name": "float(not D(x).device == find_device() == torch.device('mps', 0))",
    "tied weights": "(lambda m: float(m.head.weight is not m.tokens.weight))(D(llama))",
}
ATTEMPTS = """

def attempted(call):
    place = {"D": lambda x: moved(x, "mps")}
    try:
        result = torch.as_tensor(eval(call, globals() | place))
        return str(float(result.detach().cpu().double().abs().sum()))
    except (RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"[:200]


with pretended.accelerator():
    for name, call in calls.items():
        answers[name] = attempted(call)
"""


def attempts(broken=""):
    """What each call of the two tables does; `broken` is Python that runs before."""
    program = START + PREPARE + BOTH.replace("given.items()", "{}.items()")
    calls = REFUSED | ALLOWED
    return answers_of(f"{program}\ncalls = {calls!r}\n{broken}\n{ATTEMPTS}", {})


@pytest.fixture(scope="module")
def honest_attempts():
    return attempts()


@pytest.mark.parametrize("name", REFUSED)
def test_the_pretended_accelerator_refuses(name, honest_attempts):
    assert "Error: " in honest_attempts[name], honest_attempts[name]


@pytest.mark.parametrize("name", ALLOWED)
def test_the_pretended_accelerator_allows(name, honest_attempts):
    assert abs(float(honest_attempts[name])) < 1e-5


@pytest.mark.parametrize(
    "broken, wrong",
    [
        # It lets pass what the real one refuses …
        ("pretended.refuse_mixing = lambda *_: None", {"a CPU tensor", "CPU ids"}),
        ("pretended.refuse_wide = lambda _: None", {"float64", "a float64 module"}),
        # … or refuses what the real one lets pass.
        ("pretended.INDEXING = ()", {"a CPU index"}),
        ("pretended.WIDE = (torch.float32,)", {"a number", "there and back"}),
    ],
)
def test_a_broken_pretence_is_noticed(broken, wrong):
    found = attempts(broken)
    for name in wrong:
        assert ("Error: " in found[name]) != (name in REFUSED), found[name]


PLANTED = {  # a fault that the package had or might get -> cases that must notice it
    "models.padding_mask = lambda ids, pad: (ids.cpu() != pad)[:, None, None]": {
        "Encoder",
        "EncoderDecoder",
    },
    "attention.causal_mask = lambda q, k, device: masks.causal_mask(q, k)": {
        "KeyValueCache",
        "LanguageModel",
    },
    "positions._delivered = lambda table, device, dtype: table.float()": {
        "rotary_table",
        "RotaryPositions",
        "LlamaLM",
    },
    "positions._angles = lambda t, w, b: torch.ones(t, w // 2).double().to('mps')": {
        "rotary_table",
        "LlamaLM",
    },
    "decoding.F = types.SimpleNamespace(log_softmax=lambda x, dim: x.double(), "
    "softmax=torch.softmax)": {"beam_search"},
    "training.loop.placed = lambda batch, device, dtype: batch": {"train"},
    "training.evaluation.placed = lambda batch, device, dtype: batch": {"mean_loss"},
    "nn.Module.train = lambda self, mode=True: self.cpu()": {"train"},
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_noticed(fault):
    names = sorted(PLANTED[fault])
    plant = (
        "import types\nfrom course_utils import attention, decoding, masks, models\n"
        "import course_utils.training.loop\n"
        f"from course_utils import positions, training\n{fault}\n"
    )
    program = (START + PREPARE + BOTH).replace(
        "with pretended.accelerator():\n", f"{plant}with pretended.accelerator():\n"
    )
    outcomes = answers_of(program, {name: CASES[name] for name in names})
    for name in names:
        with pytest.raises(AssertionError):
            assert_alike(outcomes[name]["cpu"], outcomes[name]["mps"], "mps")


# --- what waits, what moves ----------------------------------------------------------


def test_checks_of_ids_cost_no_waiting():
    """Each entry of READS is a moment in which the program waits for the device."""
    program = (
        START
        + PREPARE
        + BOTH
        + """
with pretended.accelerator():
    there = llama.to("mps")
    far_ids = ids.to("mps")

    def reads(call):
        pretended.READS.clear()
        call()
        return len(pretended.READS)

    answers["forward"] = reads(lambda: there(far_ids, true.to("mps")))
    answers["classifier"] = reads(lambda m=clf.to("mps"): m(far_ids, far_ids[:, 0] * 0))
    answers["translator"] = reads(lambda m=both.to("mps"): m(far_ids, far_ids))
    answers["recurrent"] = reads(lambda m=chain.to("mps"): m(far_ids, far_ids))
    step = CachedStep(there)
    answers["token"] = [reads(lambda: step(far_ids[:, :n])) for n in (2, 3, 4)]
    for steps in (3, 6):
        config = TrainConfig(steps=steps, precision="float32")
        answers[f"{steps} steps"] = reads(lambda: train(there, batches, config))
    for n in (3, 6):
        answers[f"{n} tokens"] = reads(
            lambda: greedy(CachedStep(there), far_ids, n, 0, 0)
        )
    draw = lambda n: sample(CachedStep(there), far_ids, n, top_k=3)
    answers["drawn"] = reads(lambda: draw(4)) - reads(lambda: draw(3))
"""
    )
    found = answers_of(program, {})
    assert found["forward"] == found["classifier"] == found["translator"] == 0
    assert found["recurrent"] == 0 and found["token"] == [0, 0, 0]
    assert found["6 steps"] - found["3 steps"] == 3 * 2  # the loss, the gradients' norm
    assert found["6 tokens"] - found["3 tokens"] == 3 * 2  # usable scores, all stopped?
    assert found["drawn"] == 1


def test_a_changed_id_is_noticed_without_waiting():
    program = (
        START
        + PREPARE
        + """
with pretended.accelerator():
    there, far_ids = llama.to("mps"), ids.to("mps")
    step = CachedStep(there)
    step(far_ids[:, :3])
    other = far_ids.clone()
    other[0, 0] = 8
    answers["scores"] = step(other).isnan().all().item()
    step = CachedStep(there)
    try:
        greedy(lambda ids: step(ids.roll(1, dims=0)) if ids.shape[1] > 6 else step(ids),
               far_ids, 6)
    except ValueError as error:
        answers["refused"] = str(error)
"""
    )
    found = answers_of(program)
    assert found["scores"] is True
    assert "must give each row a finite highest score" in found["refused"]


def test_train_stays_on_the_cpu_where_an_accelerator_is():
    program = (
        START
        + PREPARE
        + """
with pretended.accelerator():
    for model in (llama.double(), gpt):
        history = train(model, batches, TrainConfig(steps=2))
        answers[type(model).__name__] = len(history.losses)
        answers["where"] = sorted({x.device.type for x in model.parameters()})
"""
    )
    assert answers_of(program) == {"LlamaLM": 2, "DecoderLM": 2, "where": ["cpu"]}


# --- the notebooks -------------------------------------------------------------------

NOTEBOOKS = {
    path.name[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
}
MOVING = {"to", "cuda", "cpu", "mps", "find_device", "device", "set_default_device"}
# Notebook -> the lines in which it speaks of devices.
MOVES = {
    "00": ["device = find_device()"],
    "07": ["with torch.device('meta'):"],
    "08": [
        "yours.to(find_device())",
        "batch = [part.to(find_device()) for part in unseen_batch]",
        "yours.cpu()",
    ],
    "12": ["with torch.device('meta'):"],
    "13": [
        "return [tokenizer.decode(row) for row in rows.cpu()]",
        "model.to(find_device())",
        "model.cpu()",
        "written = sample(CachedStep(model), prompt, 60, generator=draw, **stop).cpu()",
        "teller.to(find_device())",
        "teller.cpu()",
    ],
}


def moves_of(source):
    """Statements of a cell that could move something, in their normal form."""
    statements = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.stmt)]
    for node in sorted(statements, key=lambda statement: statement.lineno):
        parts = [node]
        if hasattr(node, "body"):  # of a compound statement only its head
            parts = [getattr(node, "test", None), getattr(node, "iter", None)]
            parts += [item.context_expr for item in getattr(node, "items", [])]
        for part in filter(None, parts):
            calls = [c for c in ast.walk(part) if isinstance(c, ast.Call)]
            names = {getattr(c.func, "attr", getattr(c.func, "id", "")) for c in calls}
            options = {k.arg for c in calls for k in c.keywords}
            casts = all(_is_cast(c) for c in calls if _name(c) == "to")
            moving = names & MOVING - ({"to"} if casts else set())
            if moving or "device" in options:
                text = ast.unparse(node)
                yield text.splitlines()[0]
                break


def _name(call):
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _is_cast(call):
    """`x.to(torch.bfloat16)` or `x.to(dtype)` changes the type alone."""
    return len(call.args) == 1 and "type" in ast.unparse(call.args[0]).replace(
        "torch.float", "type"
    ).replace("torch.bfloat", "type")


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_notebooks_move_nothing_but_the_two_real_trainings(number):
    cells = code_cells(json.loads(NOTEBOOKS[number].read_text("utf-8")))
    found = [move for cell in cells for move in moves_of(joined(cell["source"]))]
    assert found == MOVES.get(number, [])


def test_a_move_in_a_notebook_is_seen():
    for line in (
        "model.cuda()",
        "x = torch.zeros(3, device='cuda')",
        "model.to('mps')",
        "with torch.device('cuda'):\n    pass",
        "torch.set_default_device('cuda')",
        "if find_device().type == 'mps':\n    pass",
        "model.to(torch.float16, 'cuda')",
    ):
        assert len(list(moves_of(line))) == 1, line
    assert list(moves_of("x = y.to(torch.bfloat16)\nz = x.to(dtype)")) == []


RUN_CELLS = """
import ast
from dataclasses import replace
from unittest import mock

import torch

from course_utils.looking import plots
from course_utils.data import hub
from course_utils.looking.views import page
from course_utils.training import loop

devices, real_train = [], loop.train
worlds = hub.load_pairs, hub.load_texts


def few_steps(model, batches, config, **options):
    devices.append(next(model.parameters()).device.type)
    short = replace(config, steps=min(2, config.steps), warmup_steps=1)
    if options.get("evaluate_every"):
        options["evaluate_every"] = 1
    return real_train(model, batches, short, **options)


def few_pairs(source, split="train", limit=None):
    return worlds[0]("phrases", "train", min(limit, 1500))


def few_texts(source, split="train", limit=None, column="text"):
    if str(source).endswith(".txt"):
        return worlds[1](source)
    return worlds[1]("stories", "train", min(limit, 60))


class WithoutAsserts(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.copy_location(ast.Pass(), node)  # two steps reach no claim


for module in (plots, page):
    module.display = lambda *_, **__: None
loop.train, hub.load_pairs, hub.load_texts = few_steps, few_pairs, few_texts
names = {"__name__": "__main__", "print": lambda *_, **__: None}
with pretended.accelerator():
    for number, source in given:
        tree = WithoutAsserts().visit(ast.parse(source))
        try:
            exec(compile(tree, f"cell {number}", "exec"), names)
        except Exception as error:
            answers["stopped"] = f"cell {number}: {type(error).__name__}: {error}"[:500]
            break
    answers["trained on"] = devices
    answers["left on"] = {
        name: next(thing.parameters()).device.type
        for name, thing in names.items()
        if isinstance(thing, torch.nn.Module)
    }
"""


def run_on_the_accelerator(number, left_out=()):
    """A notebook's cells as they stand, with two steps a training and little data."""
    cells = json.loads(NOTEBOOKS[number].read_text("utf-8"))["cells"]
    sources = [
        (cell["id"], joined(cell["source"]))
        for cell in cells
        if cell["cell_type"] == "code" and cell["id"] not in left_out
    ]
    return answers_of(START + RUN_CELLS, sources)


def test_the_training_of_08_runs_there_and_comes_back():
    cells = json.loads(NOTEBOOKS["08"].read_text("utf-8"))["cells"]
    sorting = ("in bounds.items()", "rarest >= 20")  # by counts; few pairs have none
    left_out = [
        cell["id"]
        for cell in cells
        if any(words in joined(cell["source"]) for words in sorting)
    ]
    assert len(left_out) == len(sorting)
    found = run_on_the_accelerator("08", left_out=left_out)
    assert "stopped" not in found, found["stopped"]
    assert found["trained on"] == ["mps"]
    assert set(found["left on"].values()) == {"cpu"}


def test_the_trainings_of_13_run_there_and_come_back():
    cells = json.loads(NOTEBOOKS["13"].read_text("utf-8"))["cells"]
    hub = [c["id"] for c in cells if "import load_dataset" in joined(c["source"])]
    found = run_on_the_accelerator("13", left_out=hub)  # no hub is at hand
    assert "stopped" not in found, found["stopped"]
    assert sorted(set(found["trained on"])) == ["cpu", "mps"]
    assert found["trained on"].count("mps") == 2
    assert set(found["left on"].values()) == {"cpu"}


def test_the_script_of_17_stays_where_its_model_is():
    """On a machine with one GPU or none, its two ranks train on the CPU."""
    cells = json.loads(NOTEBOOKS["17"].read_text("utf-8"))["cells"]
    names = {}
    for cell in cells:
        source = joined(cell["source"])
        if source.startswith(("DATA = r'''", "SCRIPT = DATA")):
            exec(source, names)
    program = START + "\nwith pretended.accelerator():\n    exec(given, {})\n"
    program += "    answers['ended'] = True\n"
    quiet = names["SCRIPT"].replace("sys.stdout.write", "str")
    assert answers_of(program, quiet) == {"ended": True}
