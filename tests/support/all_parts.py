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
from torch.nn.functional import cross_entropy

from course_utils import LlamaLM, mine
from course_utils.config import LlamaConfig
from named_mistakes import check
from named_mistakes.banks import parts
from named_mistakes.keeping import SWITCH
from named_mistakes.session import find

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
        matrices = [
            getattr(block.feedforward, n).weight for n in ("gate", "up", "down")
        ]
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
        hidden = mine["masks.causal"](x.shape[1])
        weights = mine["masks.weights"](mine["attention.scores"](q, k), hidden)
        return layer.to_output(
            mine["heads.merge"](mine["attention.context"](weights, v))
        )


def window():
    """A small model, and two rows of ids."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, d_model=32, num_heads=4, num_kv_heads=2, num_layers=2, d_ff=48
    )
    return PartsLlama(config), torch.randint(64, (2, 24))


def cells(style):
    """(source of a cell, what it then defines -> {exercise: answer})."""
    if style == "outsiders":
        for line in (EXERCISES / "outsiders.jsonl").read_text("utf-8").splitlines():
            answer = json.loads(line)
            if answer["verdict"] == "right":
                yield (
                    answer["answer"],
                    lambda space, a=answer: {a["exercise"]: space[a["name"]]},
                )
    if style == "loops":
        for path in sorted(EXERCISES.glob("answers_*.py")):
            yield (
                path.read_text("utf-8"),
                lambda space: {
                    name: some[0] for name, some in space["RIGHT_ANSWERS"].items()
                },
            )
    if style == "solutions":
        for name in parts():
            reference = inspect.unwrap(find(name).reference)
            bank = Path(inspect.getsourcefile(reference)).read_text("utf-8")
            yield bank, lambda space, n=name, r=reference.__name__: {n: space[r]}


def answer_all(style):
    """Check an answer to each part, as a notebook would."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    for source, answers in cells(style):
        shell.run_cell(source).raise_error()
        for name, answer in answers(shell.user_ns).items():
            if name in parts():
                check(name, answer)


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
    places = ROOT, ROOT / "packages", BANKS
    environment = os.environ | {
        SWITCH: "1",
        "PYTHONPATH": os.pathsep.join(map(str, places)),
    }
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


def main():
    for style in STYLES:
        with tempfile.TemporaryDirectory() as folder:
            said = in_a_process("answer_all", style, Path(folder))
            print(*(line for line in said.splitlines() if "Not kept" in line), sep="\n")
            print(in_a_process("use", style, Path(folder)))


if __name__ == "__main__":
    main()
