"""Nonsense is refused in one sentence at the doors where learners err.

Each line of refusals.jsonl has a call, the kind of its error, and parts of its message.
The suite runs with executed annotations, which would catch some of the calls first, so
they run in a plain Python, as in a reader's notebook.
"""

import json
from pathlib import Path

import pytest

from tests.support.plain_python import answers_of

PREPARE = """
import json, math, os, shutil, tempfile
os.environ["HF_HUB_OFFLINE"] = "1"
from pathlib import Path
from types import SimpleNamespace
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from course_utils import export as ex, pretrained as pr
from course_utils.attention import *
from course_utils.blocks import *
from course_utils.feedforward import FeedForward
from course_utils.config import *
from course_utils.data import batches as ba, hub
from bug_clinic import clinic
from course_utils.data.splits import split_pairs
from known_worlds import phrases, stories
from known_worlds.grading import grade
from course_utils.decoding import *
from named_mistakes import session, use
from named_mistakes.banks import places
from lesson_plots import plots as pl
from course_utils.metrics import bits_per_byte as bits
from course_utils import diagnostics
from course_utils.intervening import *
from course_utils.metrics import alignment_error_rate, strongest_links
from course_utils.positions import *
from course_utils.training.optimizers import *
from course_utils.recording import record
from course_utils.views import show_attention
from course_utils.masks import *
from course_utils.models import *
from course_utils.norms import RMSNorm
from course_utils.recurrent import RecurrentSeq2Seq
from course_utils import bpe, tokenizer as tk
from course_utils.training.evaluation import mean_loss
from course_utils.training.loop import train
from course_utils.training.losses import *

use(places()["banks"])  # before the folder changes
torch.manual_seed(0)
x, ids = torch.randn(2, 3, 8), torch.tensor([[1, 2, 3], [4, 5, 6]])
q, scores = torch.randn(2, 2, 3, 4), torch.randn(2, 9)
true = torch.ones(3, 3, dtype=torch.bool)
square = torch.tensor([[1, 2, 3], [4, 3, 3], [5, 6, 7]])  # padded with 3
wide, flat = torch.ones(4, 4, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool)
size = dict(d_model=8, num_heads=2, num_layers=1, d_ff=16, max_length=5)
stack = StackConfig(**size)
pair = dict(source_vocab_size=9, target_vocab_size=7)
learned = StackConfig(**size, positions="learned")
gpt = DecoderLM(DecoderConfig(vocab_size=9, stack=learned)).eval()
llama = LlamaLM(LlamaConfig(vocab_size=9, **size, num_kv_heads=1)).eval()
both = EncoderDecoder(EncoderDecoderConfig(**pair, encoder=stack, decoder=stack)).eval()
clf = Classifier(ClassifierConfig(vocab_size=9, num_classes=3, stack=stack)).eval()
chain, layer = RecurrentSeq2Seq(9, 7, 8), MultiHeadAttention(8, 2)
full, memory = llama.new_cache(), both.encode(ids)
full_of_two = gpt.new_cache()
gpt(ids, cache=full_of_two)

rows = [[5, 6, 7], [8, 9], [10, 11, 12, 13]]
sp = SimpleNamespace(pad_id=0, bos_id=1, eos_id=2)
subwords = tk.train_bpe(["a text", "another text"], 270)
tok = tk.train_words(["the cat sat"])
small = LlamaLM(LlamaConfig(vocab_size=tok.vocab_size, **size, num_kv_heads=1))
broken = LlamaLM(small.config)
broken.norm.weight.data[0] = math.nan
eye, axes, words = torch.eye(2), ("x", "y"), ["a", "b"]
w = {"blocks.0": torch.eye(2)[None, None]}
with torch.no_grad(), record(small) as seen:
    small(ids[:1, :2])

work = tempfile.TemporaryDirectory()
os.chdir(work.name)
D = Path(work.name)
(D / "empty").mkdir()
(D / "empty_folder").mkdir()
(D / "folder.txt").mkdir()
(D / "file").write_text("x")
(D / "two.txt").write_text("one\\n\\ntwo")
ex.export_llama(small, D / "hf", tok)
pr.save(small, tok, D / "own")


def file(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def written(name, file, content, source="hf"):
    shutil.copytree(D / source, D / name, dirs_exist_ok=True)
    (D / name / file).write_bytes(content)
    return D / name


def changed(source, name, changes):
    settings = json.loads((D / source / "config.json").read_text()) | changes
    return written(name, "config.json", json.dumps(settings).encode(), source)


def own(name, **changes):
    return pr.load(changed("own", name, changes))


def uniform(ids):
    return torch.zeros(len(ids), 9)


def returning(answer):
    return lambda *_, **__: answer


def fit(model=llama, data=returning((ids, ids)), config=TrainConfig(steps=2), **more):
    return train(model, data, config, **more)


def ran_with(changes):
    with intervene(small, changes):
        return small(ids[:1, :2])


for call in given:
    try:
        answers[call] = "nothing: " + str(eval(call))[:100]
    except Exception as error:
        answers[call] = f"{type(error).__name__} {error}"
"""

LINES = Path(__file__).with_name("refusals.jsonl").read_text("utf-8").splitlines()
CALLS = {line["call"]: line["error"] for line in map(json.loads, LINES)}


@pytest.fixture(scope="module")
def answers():
    return answers_of(PREPARE, list(CALLS))


def fault(answer, expected):
    """What is wrong with an answer, or None."""
    kind, *fragments = expected.split()
    if not answer.startswith(kind):
        return f"not a {kind}: {answer}"
    if missing := [f for f in fragments if f not in answer]:
        return f"{missing} not named in: {answer}"
    if "\n" in answer or len(answer) >= 240:
        return f"not one short sentence: {answer}"
    return None


@pytest.mark.parametrize("call", CALLS)
def test_one_clear_sentence(call, answers):
    assert fault(answers[call], CALLS[call]) is None


def test_the_check_can_fail():
    assert fault("ValueError size must be >= 1, got 0", "ValueError size 0") is None
    for answer in ("nothing: tensor(0.)", "TypeError size 0", "ValueError size 0\nsee"):
        assert fault(answer, "ValueError size 0")
