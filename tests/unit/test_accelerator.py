"""The package and the notebooks' trainings on a device that is not the CPU.

None is needed: `tests/support/accelerator.py` pretends one. It computes, has no float64
and refuses to mix with the CPU. It holds for a process, so each program gets its own.
In a call of on_a_device.jsonl, `D` moves tensors and modules: the results must be those
of the CPU, and lie on the device unless the line says otherwise.
"""

import json
import re
from pathlib import Path

import pytest

from tests.support.plain_python import answers_of
from tools.notebook_rules import ROOT, code_cells, joined

LINES = Path(__file__).with_name("on_a_device.jsonl").read_text("utf-8").splitlines()
CASES = {line["name"]: line for line in map(json.loads, LINES)}
NOTEBOOKS = {
    path.name[:2]: json.loads(path.read_text("utf-8"))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
}
START = """
import sys
sys.path.insert(0, "tests/..")
from tests.support import accelerator as pretended
"""
PREPARE = """
import copy, tempfile, transformers
from pathlib import Path
import torch
from torch import nn
from course_utils.views import attention as maps_shown, display as displaying
from lesson_plots import plots
from course_utils.training import loop

for name in (
    "attention blocks config data.batches decoding export feedforward masks models "
    "norms positions tokenizer diagnostics intervening metrics recording "
    "views.maps views "
    "training.evaluation training.loop training.losses training.optimizers"
).split():
    exec(f"from course_utils.{name} import *")
from lesson_plots.plots import *
for module in (plots, maps_shown, displaying):
    module.display = lambda *_, **__: None
torch.manual_seed(0)
ids = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 3, 2]])
labels = torch.tensor([[2, 3, 4, 5, -100], [7, 8, 3, 2, 2]])
x, q = torch.randn(2, 5, 8), torch.randn(2, 2, 5, 4)
true = torch.ones(5, 5, dtype=torch.bool).tril()
stack = StackConfig(d_model=8, num_heads=2, num_layers=2, d_ff=16, max_length=12)
learned = StackConfig(d_model=8, num_heads=2, d_ff=16, positions="learned", dropout=0.1)
sizes = dict(d_model=8, num_heads=2, num_kv_heads=1, num_layers=2, d_ff=16)
gpt = DecoderLM(DecoderConfig(vocab_size=9, stack=learned)).eval()
llama = LlamaLM(LlamaConfig(vocab_size=9, **sizes, max_length=12)).eval()
pair = dict(source_vocab_size=9, target_vocab_size=9)
both = EncoderDecoder(EncoderDecoderConfig(**pair, encoder=stack, decoder=stack)).eval()
clf = Classifier(ClassifierConfig(vocab_size=9, num_classes=3, stack=stack)).eval()
layer = MultiHeadAttention(8, 2)
table, words, tokens = rotary_table(5, 4), list("abcde"), train_words(["a b c d e f g"])
plan = TrainConfig(steps=3, precision="float32", seed=3)


batches = lambda step: (ids, ids.roll(-1, dims=1))
translations = lambda step: (ids, *batches(step))


def cached(model, ids):
    cache = model.new_cache()
    return torch.cat([model(part, cache=cache) for part in ids.split([3, 2], 1)], 1)


def recorded(model, *inputs):
    with record(model) as seen:
        model(*inputs)
    return seen


def changed(model, ids, changes):
    with intervene(model, changes):
        return model(ids)


def stepped(weight, gradient):
    weight = nn.Parameter(weight.clone())
    weight.grad = gradient
    Muon([weight]).step()
    return weight.detach()


def trained(model, data=batches, config=plan, **more):
    history = train(model, data, config, **more)
    return history.losses, [x.detach() for x in model.parameters()]


def resumed(model):
    def stopped(step):
        if step == 3:
            raise KeyboardInterrupt
        return batches(step)

    config = TrainConfig(steps=4, precision="float32", checkpoint_every=2)
    with tempfile.TemporaryDirectory() as folder:
        try:
            train(model, stopped, config, checkpoints=folder)
        except KeyboardInterrupt:
            pass
        return train(model, batches, config, checkpoints=folder).losses


def exported(model):
    with tempfile.TemporaryDirectory() as folder:
        export_llama(model, folder)
        return transformers.AutoModelForCausalLM.from_pretrained(folder)(ids).logits


def drawn(model, ids):
    draw = torch.Generator().manual_seed(5)  # a CPU generator, on any device
    return sample(CachedStep(model), ids, 4, top_k=5, top_p=0.9, generator=draw)


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
"""
COMPARE = """
for name, case in given.items():
    answers[name] = {"cpu": evaluated(case, "cpu")}
BROKEN
with pretended.accelerator():
    for name, case in given.items():
        answers[name]["mps"] = evaluated(case, "mps")
"""


def compared(names, broken=""):
    """What each case gives on both devices; `broken` is Python that runs between."""
    program = START + PREPARE + COMPARE.replace("BROKEN", broken)
    return answers_of(program, {name: CASES[name]["call"] for name in names})


@pytest.fixture(scope="module")
def outcomes():
    return compared(CASES)


def assert_matches(cpu, mps, place):
    if isinstance(cpu, list):
        assert isinstance(mps, list) and len(cpu) == len(mps), mps
        for one, other in zip(cpu, mps, strict=True):
            assert_matches(one, other, place)
    elif isinstance(cpu, dict):
        assert isinstance(mps, dict) and mps["place"] == place, mps
        assert_matches(cpu["numbers"], mps["numbers"], place)
    elif isinstance(cpu, float):
        assert mps == pytest.approx(cpu, abs=1e-3, nan_ok=True)
    else:
        assert mps == cpu


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_does_there_what_it_does_on_the_cpu(name, outcomes):
    cpu, mps = outcomes[name]["cpu"], outcomes[name]["mps"]
    assert "Error: " not in str(cpu), cpu
    assert_matches(cpu, mps, CASES[name].get("lies_on", "mps"))


PLANTED = {  # a fault that the package had or might get -> a case that must notice it
    "masks.padding_mask = models.padding_mask = "
    "lambda ids, pad: (ids.cpu() != pad)[:, None, None]": "EncoderDecoder",
    "positions._angles = lambda t, w, b: torch.ones(t, w // 2).double().to('mps')": (
        "rotary_table"
    ),
    "loop.to_device = lambda batch, device, dtype: batch": "train",
}


@pytest.mark.long
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_noticed(fault):
    name = PLANTED[fault]
    imports = "from course_utils import masks, models, positions\n"
    outcome = compared([name], imports + fault)[name]
    with pytest.raises(AssertionError):
        assert_matches(outcome["cpu"], outcome["mps"], "mps")


REFUSED = [
    "x.to('mps').double()",
    "nn.Linear(2, 2).double().to('mps').weight",
    "x.to('mps') + x",
    "llama(ids.to('mps'))",
    "torch.randn(2, device='mps', generator=torch.Generator())",
    "x.to('mps').numpy()",
]


@pytest.mark.slow
def test_the_pretended_accelerator_refuses_what_a_real_one_refuses():
    program = "with pretended.accelerator():\n    for call in given:\n"
    program += "        answers[call] = str(evaluated(call, 'mps'))"
    answers = answers_of(START + PREPARE + program, [*REFUSED, "x.to('mps') * 2"])
    assert [call for call in answers if "Error: " in answers[call]] == REFUSED


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_no_notebook_names_a_kind_of_accelerator(number):
    for cell in code_cells(NOTEBOOKS[number]):
        named = re.search(r"\.cuda\(|\.mps\(|['\"](cuda|mps)\b", joined(cell["source"]))
        assert not named or number == "17", f"{cell['id']} has {named[0]}"


RUN_CELLS = """
import ast
from dataclasses import replace
import torch
from course_utils.data import hub
from lesson_plots import plots
from course_utils.views import attention as maps_shown, display as displaying
from course_utils.training import loop

devices, real_train = [], loop.train
pairs, texts = hub.load_pairs, hub.load_texts


def few_steps(model, batches, config, **options):
    devices.append(next(model.parameters()).device.type)
    short = replace(config, steps=min(2, config.steps), warmup_steps=1)
    if options.get("evaluate_every"):
        options["evaluate_every"] = 1
    return real_train(model, batches, short, **options)


def few_pairs(source, split="train", limit=None):
    return pairs("phrases", "train", min(limit, 1500))


def few_texts(source, split="train", limit=None, column="text"):
    own = str(source).endswith(".txt")
    return texts(source) if own else texts("stories", "train", min(limit, 60))


class WithoutAsserts(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.copy_location(ast.Pass(), node)  # two steps reach no claim


for module in (plots, maps_shown, displaying):
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
    things = [thing for thing in names.values() if isinstance(thing, torch.nn.Module)]
    answers["left on"] = [next(thing.parameters()).device.type for thing in things]
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "number, left_out, trained_on",
    [
        ("08", ["bounds.values()"], {"mps"}),  # few pairs lack rare tokens
        ("13", [], {"cpu", "mps"}),
    ],
)
def test_the_real_trainings_run_there_and_come_back(number, left_out, trained_on):
    """A notebook's cells as they stand, with two steps a training and little data."""
    sources = [(c["id"], joined(c["source"])) for c in code_cells(NOTEBOOKS[number])]
    remaining = [
        one for one in sources if not any(words in one[1] for words in left_out)
    ]
    assert len(remaining) == len(sources) - len(left_out)
    answers = answers_of(START + RUN_CELLS, remaining)
    assert "stopped" not in answers, answers["stopped"]
    assert set(answers["trained on"]) == trained_on
    assert set(answers["left on"]) == {"cpu"}
