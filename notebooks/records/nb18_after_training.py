"""A storyteller learns to answer: instruction tuning, LoRA, rewards, and a cheat.

The shipped model of the story world is asked " tell me about Anna", a request that it
never met. *tune* shows it requests with the openings of stories that fit (the loss is
that of the opening alone), by all weights or by LoRA; *more* goes on with it. Then
rewards: "right" is 1 for a first sentence that the grammar can write and that names the
asked child, "names" counts the asked name. Of eight answers to one request the better
ones become likelier (GRPO, Shao et al. 2024, section 4.1); `kl` weighs the distance
from the model that this began with.

Eight of the 32 children are asked for in no training; "new" is measured on these.
`make record NB=18` runs every point and writes `nb18_after_training.json`.
"""

import functools
import math
import random

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import pretrained
from course_utils.decoding import CachedStep, sample
from known_worlds.stories import story
from known_worlds.story_grammar import load_grammar
from known_worlds.story_graph import load_graph, read

SEEDS = (0, 1, 2)
POINTS = [
    {"kind": "tune", "size": 0, "steps": 0, "kl": 0.0, "seed": 0},
    *(
        {"kind": kind, "size": size, "steps": steps, "kl": kl, "seed": seed}
        for kind, size, steps, kl in (
            ("tune", 0, 40, 0.0),
            ("tune", 0, 150, 0.0),
            ("tune", 8, 40, 0.0),  # size: the rank of LoRA, 0 for all weights
            ("tune", 4, 40, 0.0),
            ("more", 0, 150, 0.0),
            ("right", 0, 80, 0.0),
            ("right", 0, 80, 0.1),
            ("names", 0, 40, 0.0),
            ("names", 0, 40, 0.5),
        )
        for seed in SEEDS
    ),
]
RATES = {0: 1e-3, 4: 1e-2, 8: 1e-2}  # of tuning, by rank: the best of four for seed 0
LENGTH, REQUESTS, GROUP = 24, 8, 8
tokenizer = pretrained.load("stories")[1]
BOS = tokenizer.bos_id
CHILDREN = {one.text: one.pronoun for one in load_grammar().slots["hero"].fillers}
NEW = ("Nora", "Maya", "Tara", "Clara", "Noah", "Omar", "Luke", "Ravi")
KNOWN = [name for name in CHILDREN if name not in NEW]


def request(name):
    """The ids that ask for a story about a child; the second <bos> says: answer."""
    return [BOS, *tokenizer.encode(f" tell me about {name}"), BOS]


@functools.cache
def examples():
    """(request, answer): the openings of 3,000 stories about children of KNOWN."""
    told = [one for one in map(story, range(50_000, 60_000))]
    told = [one for one in told if one.bindings["hero"] in KNOWN][:3000]
    pairs = [(one.bindings["hero"], tokenizer.encode(one.text)) for one in told]
    return [(request(name), ids[: 2 * LENGTH]) for name, ids in pairs]


@torch.no_grad()
def answers(model, names, seed, length=LENGTH):
    """The first ids that the model answers to requests for these names, "n t"."""
    prompts = torch.tensor([request(name) for name in names])
    generator = torch.Generator().manual_seed(seed)
    ids = sample(CachedStep(model.eval()), prompts, length, generator=generator)
    return ids[:, prompts.shape[1] :]


def first_sentence(row):
    """The tokens of an answer up to its first full stop, as texts."""
    words = tokenizer.tokens(row)
    return words[: words.index(".") + 1] if "." in words else words


@functools.cache
def is_possible(tokens):
    """Whether a story of the world can begin with these tokens."""
    steps = list(read(list(tokens), load_graph(), load_grammar().slots))
    return len(steps) == len(tokens) and steps[-1][0] > 0


def is_right(row, name):
    """1.0 for a first sentence of the world that names the asked child."""
    words = first_sentence(row)
    ended = words[-1] == "."
    return float(ended and f" {name}" in words and is_possible(tuple(words)))


def count_names(row, name):
    """The loophole: how often the answer says the asked name."""
    return float(tokenizer.tokens(row).count(f" {name}"))


REWARDS = {"right": is_right, "more": is_right, "names": count_names}


def log_probs(model, ids):
    """log p of each token after the first, "b t-1"."""
    return -F.cross_entropy(model(ids[:, :-1]).mT, ids[:, 1:], reduction="none")


class LoRA(nn.Module):
    """A frozen layer, and two thin matrices beside it (Hu et al. 2021, section 4.1)."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        wide = layer.in_features
        self.down = nn.Parameter(torch.randn(rank, wide) / wide**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        """As the layer, plus what the two matrices make of x."""
        return self.layer(x) + x @ self.down.T @ self.up.T


def add_lora(model, rank):
    """Freeze the model and put a LoRA around every matrix of its blocks."""
    model.requires_grad_(False)
    for block in model.blocks:
        for part in (block.attention, block.feedforward):
            for name, layer in list(part.named_children()):
                if isinstance(layer, nn.Linear):
                    setattr(part, name, LoRA(layer, rank))


def tune(model, steps, rate, seed):
    """Show requests with answers; only the answers count."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, rate, betas=(0.9, 0.95), weight_decay=0)
    chosen = random.Random(seed)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 10) * (1 - step / steps)
        rows = chosen.sample(examples(), 16)
        ids = torch.tensor([asked + told for asked, told in rows])
        start = len(rows[0][0])
        loss = -log_probs(model, ids)[:, start - 1 :].mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()


def reinforce(model, reference, reward, steps, kl, seed):
    """GRPO: of eight answers to one request make the better ones likelier.

    Gives the mean of names and of right answers among the draws of each ten steps.
    """
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, betas=(0.9, 0.95))
    chosen, found = random.Random(seed), {}
    for step in range(steps):
        names = [name for name in chosen.sample(KNOWN, REQUESTS) for _ in range(GROUP)]
        told = answers(model, names, 1000 * seed + step)
        rewards = [reward(row, name) for row, name in zip(told, names, strict=True)]
        place = 10 * (step // 10 + 1)
        for what, judge in (("names", count_names), ("right", is_right)):
            key = f"{what} {place}"
            found[key] = found.get(key, 0) + sum(map(judge, told, names)) / 640
        groups = torch.tensor(rewards).view(REQUESTS, GROUP)
        spread = groups.std(dim=1, keepdim=True, correction=0)
        advantages = (groups - groups.mean(dim=1, keepdim=True)) / (spread + 1e-4)
        ids = torch.cat([torch.tensor([request(name) for name in names]), told], dim=1)
        drawn = log_probs(model, ids)[:, -told.shape[1] :]
        loss = -(advantages.view(-1, 1) * drawn).mean()
        if kl:
            with torch.no_grad():
                before = log_probs(reference, ids)[:, -told.shape[1] :]
            ratio = before - drawn
            loss = loss + kl * (ratio.exp() - ratio - 1).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return found


@torch.no_grad()
def forgotten(model):
    """Bits per token of the first 64 tokens of 64 plain stories that no model saw."""
    rows = [tokenizer.encode(story(i).text)[:64] for i in range(30_000, 30_064)]
    ids = torch.tensor([[BOS, *row] for row in rows])
    return -log_probs(model.eval(), ids).mean().item() / math.log(2)


def measure(model):
    """What 256 answers are worth, and what the model has forgotten."""
    mean = lambda numbers: sum(numbers) / len(numbers)  # noqa: E731
    draw = random.Random(123)
    names = [draw.choice(KNOWN) for _ in range(256)]
    rows = answers(model, names, 123)
    found = {"bits": forgotten(model)}
    said = list(map(first_sentence, rows))
    found["obeyed"] = mean([f" {n}" in s for n, s in zip(names, said, strict=True)])
    found["right"] = mean([is_right(*one) for one in zip(rows, names, strict=True)])
    found["names"] = mean([count_names(*one) for one in zip(rows, names, strict=True)])
    found["possible"] = mean([is_possible(tuple(words)) for words in said])
    found["openings"] = len({tuple(one) for one in said})
    for child, pronoun in (("girl", "she"), ("boy", "he")):
        asked = [s for n, s in zip(names, said, strict=True) if CHILDREN[n] == pronoun]
        called = [" boy" in s for s in asked if " boy" in s or " girl" in s]
        found[f"boy for a {child}"] = mean(called) if called else 0.0
    names = [draw.choice(NEW) for _ in range(128)]
    rows = answers(model, names, 124)
    said = list(map(first_sentence, rows))
    found["new"] = mean([f" {n}" in s for n, s in zip(names, said, strict=True)])
    return found


@functools.cache
def tuned(seed):
    """The weights after 150 steps of tuning, where all rewards begin."""
    model = pretrained.load("stories")[0]
    tune(model, 150, RATES[0], seed)
    return model.state_dict()


def run(kind, size, steps, kl, seed):
    """Train one model and measure it."""
    torch.manual_seed(seed)
    model = pretrained.load("stories")[0]
    if kind == "tune":
        if size:
            add_lora(model, size)
        tune(model, steps, RATES[size], seed)
        return measure(model)
    model.load_state_dict(tuned(seed))
    if kind == "more":
        tune(model, steps, RATES[0], seed + 100)
        return measure(model)
    reference = pretrained.load("stories")[0]
    reference.load_state_dict(tuned(seed))
    found = reinforce(model, reference.eval(), REWARDS[kind], steps, kl, seed)
    return found | measure(model)
