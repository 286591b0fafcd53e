"""Answer all parts in three styles, restart, and print whose part is whose.

    python -m tests.support.all_parts

The answers are the stored ones, run as cells of a notebook: `solutions` are vectorised,
`loops` count, `outsiders` are odd. A second process uses what the first one kept.
"""

import inspect
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import torch
from IPython.core.interactiveshell import InteractiveShell
from torch.nn.functional import cross_entropy

from course_utils import LlamaLM, mine
from course_utils.config import LlamaConfig
from named_mistakes import check
from named_mistakes.banks import find_banks, parts
from named_mistakes.keeping import SWITCH

ROOT = Path(__file__).parents[2]
EXERCISES = ROOT / "tests" / "exercises"
BANKS = (ROOT / "notebooks" / "exercises").as_posix()
SETTINGS = f'''[tool.named_mistakes]
banks = "{BANKS}"
parts = "{BANKS}/parts.toml"
kept = "mine"
'''
STYLES = ("solutions", "loops", "outsiders")


class PartsLlama(LlamaLM):
    """The weights of the package's LLaMA; every sum of its forward pass is a part."""

    def forward(self, ids):
        blocks = [partial(self.block, block) for block in self.blocks]
        norm = partial(self.normed, self.norm)
        return self.head(mine["blocks.stack"](self.tokens(ids), blocks, norm))

    def normed(self, norm, x):
        return mine["llama.rms_norm"](x, norm.weight, norm.eps)

    def block(self, block, x):
        gate = block.feedforward
        matrices = gate.gate.weight, gate.up.weight, gate.down.weight
        return mine["blocks.block"](
            x,
            partial(self.normed, block.attention_norm),
            partial(self.attention, block.attention),
            partial(self.normed, block.feedforward_norm),
            lambda y: mine["llama.swiglu"](y, *matrices),
            block.dropout,
        )

    def attention(self, layer, x):
        split, repeat = mine["heads.split"], mine["llama.repeat_keys"]
        q = split(layer.to_queries(x), layer.num_heads)
        k = split(layer.to_keys(x), layer.num_kv_heads)
        v = split(layer.to_values(x), layer.num_kv_heads)
        q, k, v = mine["positions.rotary"](q, k, v, 0, self.config.rope_base)
        k, v = repeat(k, layer.num_heads), repeat(v, layer.num_heads)
        scores, mask = mine["attention.scores"](q, k), mine["masks.causal"](x.shape[1])
        context = mine["attention.context"](mine["masks.weights"](scores, mask), v)
        return layer.to_output(mine["heads.merge"](context))


def window():
    """A small model, and two rows of ids."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, d_model=32, num_heads=4, num_kv_heads=2, num_layers=2, d_ff=48
    )
    return PartsLlama(config), torch.randint(64, (2, 24))


def answers(style):
    """(exercise, source of a cell, what then is the answer) from one of the stores."""
    if style == "outsiders":
        lines = (EXERCISES / "outsiders.jsonl").read_text("utf-8").splitlines()
        for line in filter(
            lambda one: one["verdict"] == "right", map(json.loads, lines)
        ):
            yield line["exercise"], line["answer"], line["name"]
    for number, bank in find_banks().items():
        for name, reference in (
            (one.name, inspect.unwrap(one.reference)) for one in bank
        ):
            if style == "loops":
                text = (EXERCISES / f"answers_{number}.py").read_text("utf-8")
                yield name, text, f"RIGHT_ANSWERS[{name!r}][0]"
            if style == "solutions":
                text = Path(inspect.getsourcefile(reference)).read_text("utf-8")
                yield name, text, reference.__name__


def answer_all(style):
    """Check an answer to each part, as a notebook would."""
    shell = InteractiveShell.instance()
    for name, source, answer in answers(style):
        if name in parts():
            shell.run_cell(source).raise_error()
            check(name, eval(answer, shell.user_ns))


def use(style):
    """What a restarted kernel finds."""
    model, ids = window()

    def loss_of(model):
        return mine["backbone.next_token_loss"](model(ids), ids)

    verdicts = mine.try_out(model, loss_of)
    for name in parts():
        whose = "yours" if name in mine.yours() else "the course's"
        print(f"    {name:25} {whose:13} {verdicts.get(name, '')}")
    logits = LlamaLM.forward(model, ids[:, :-1])
    usual = cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    print(f"{style}: {mine}; loss {loss_of(model):.5f}, the package's {usual:.5f}")


def in_a_process(task, style, folder):
    """Run `answer_all` or `use` in a new process, in a folder of working copies."""
    (folder / "pyproject.toml").write_text(SETTINGS, "utf-8")
    code = f"from tests.support.all_parts import *; {task}({style!r})"
    folders = os.pathsep.join([str(ROOT), str(ROOT / "packages"), BANKS])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | {SWITCH: "1", "PYTHONPATH": folders},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def main():
    for style in STYLES:
        with tempfile.TemporaryDirectory() as folder:
            said = in_a_process("answer_all", style, Path(folder))
            print(*(line for line in said.splitlines() if "Not kept" in line), sep="\n")
            print(in_a_process("use", style, Path(folder)))


if __name__ == "__main__":
    main()
