"""A storyteller learns to answer: instruction tuning, LoRA, rewards, and a cheat.

The shipped model of the story world reads " tell me about Anna", a request that it
never met. "tune" shows it requests with the openings of stories that fit; the loss is
that of the opening alone, by all weights (rank 0) or by LoRA. "slow" does so at a third
of the rate, "more" goes on with it, "gently" goes on at a third of the rate. The other
kinds reward: "right" pays 1 for a first sentence that the grammar can write and that
has the asked name, and credits the tokens of that sentence; "whole" credits all tokens
of the answer; "untuned" pays as "right" does but begins with the model as it was
shipped; "names" counts the asked name, and credits all tokens.
Of eight answers to one request the better ones become likelier (GRPO, Shao et al. 2024,
section 4.1); `kl` weighs the distance from the model that this began with.

Eight of the 32 children are never asked for in training; "new" and "new right" are
measured on these. `make record NB=18` runs every point and writes
`nb18_after_training.json`.
"""

import functools
import math
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from course_utils import pretrained
from course_utils.decoding import CachedStep, sample
from known_worlds.stories import story
from known_worlds.story_grammar import load_grammar
from known_worlds.story_graph import load_graph, read

SEEDS = (0, 1, 2)
POINTS = [
    {"kind": "tune", "rank": 0, "steps": 0, "kl": 0.0, "seed": 0},
    *(
        {"kind": kind, "rank": rank, "steps": steps, "kl": kl, "seed": seed}
        for kind, rank, steps, kl in (
            ("tune", 0, 150, 0.0),  # rank 0: all weights
            ("tune", 8, 150, 0.0),
            ("tune", 2, 150, 0.0),
            ("slow", 0, 150, 0.0),
            ("more", 0, 450, 0.0),  # nearly as many seconds as 120 steps of rewards
            ("gently", 0, 450, 0.0),
            ("right", 0, 120, 0.1),
            ("right", 0, 120, 0.0),
            ("whole", 0, 120, 0.1),
            ("untuned", 0, 120, 0.1),
            ("names", 0, 40, 0.0),
            ("names", 0, 40, 0.1),
            ("names", 0, 40, 0.5),
        )
        for seed in SEEDS
    ),
]
RATES = {0: 1e-3, 2: 1e-2, 8: 1e-2}  # of tuning, by rank
GENTLE = 3e-4
LENGTH, REQUESTS, GROUP = 20, 8, 8  # no first sentence of the world is longer than 20
tokenizer = pretrained.load("stories")[1]
BOS = tokenizer.bos_id
HEROES = [hero.text for hero in load_grammar().slots["hero"].fillers]
NEW = ("Nora", "Maya", "Tara", "Clara", "Noah", "Omar", "Luke", "Ravi")
KNOWN = [name for name in HEROES if name not in NEW]


def request(name):
    """The ids that ask for a story about a child; the second <bos> says: answer."""
    return [BOS, *tokenizer.encode(f" tell me about {name}"), BOS]


@functools.cache
def examples():
    """(request, answer): the openings of 3,000 stories about children of KNOWN."""
    stories = [story(index) for index in range(50_000, 60_000)]
    heroes = [(text.bindings["hero"], text.text) for text in stories]
    known = [(name, text) for name, text in heroes if name in KNOWN][:3000]
    return [(request(name), tokenizer.encode(text)[:48]) for name, text in known]


def batch(pairs):
    """Inputs and labels "b t" of requests with answers; only the answers count."""
    rows = [torch.tensor(prompt + answer) for prompt, answer in pairs]
    labels = [row.clone() for row in rows]
    for row, (prompt, _) in zip(labels, pairs, strict=True):
        row[: len(prompt)] = -100
    inputs = pad_sequence(rows, batch_first=True)
    labels = pad_sequence(labels, batch_first=True, padding_value=-100)
    return inputs[:, :-1], labels[:, 1:]


@torch.no_grad()
def answers(model, names, seed, length=LENGTH):
    """The first ids that the model answers to requests for these names, "n t"."""
    prompts = torch.tensor([request(name) for name in names])
    generator = torch.Generator().manual_seed(seed)
    ids = sample(CachedStep(model.eval()), prompts, length, generator=generator)
    return ids[:, prompts.shape[1] :]


def first_sentence(answer):
    """The tokens of an answer up to its first period, as texts."""
    words = tokenizer.tokens(answer)
    return words[: words.index(".") + 1] if "." in words else words


@functools.cache
def is_possible(words):
    """Whether a story of the world can begin with these tokens."""
    steps = list(read(list(words), load_graph(), load_grammar().slots))
    return len(steps) == len(words) and steps[-1][0] > 0


def is_right(answer, name):
    """1.0 for a first sentence of the world that has the asked name."""
    words = first_sentence(answer)
    ended = words[-1] == "."
    return float(ended and f" {name}" in words and is_possible(tuple(words)))


def count_names(answer, name):
    """The loophole: how often the answer says the asked name."""
    return float(tokenizer.tokens(answer).count(f" {name}"))


REWARDS = {"names": count_names}  # of the other kinds: is_right


def in_first_sentence(answers):
    """Which tokens stand before the first period or are it, "n t"."""
    stops = answers == tokenizer.encode("There lived.")[-1]
    return stops.cumsum(dim=1) - stops.int() == 0


def log_probs(model, ids):
    """log p of each token after the first, "b t-1"."""
    return -F.cross_entropy(model(ids[:, :-1]).mT, ids[:, 1:], reduction="none")


class LoRA(nn.Module):
    """A frozen layer, and two thin matrices beside it (Hu et al. 2021, section 4.1)."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        width = layer.in_features
        self.down = nn.Parameter(torch.randn(rank, width) / width**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        """What the layer gives, plus what the two matrices make of x."""
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
    generator = random.Random(seed)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 10) * (1 - step / steps)
        inputs, labels = batch(generator.sample(examples(), 16))
        loss = F.cross_entropy(model(inputs).mT, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()


def reinforce(model, reference, reward, steps, kl, seed, first=True):
    """GRPO: of eight answers to one request make the better ones likelier.

    first: only the tokens of the first sentence get the credit. Gives the mean of names
    and of right answers among the draws of each ten steps.
    """
    optimizer = torch.optim.AdamW(model.parameters(), 5e-4, betas=(0.9, 0.95))
    generator, means = random.Random(seed), {}
    for step in range(steps):
        names = generator.sample(KNOWN, REQUESTS)
        names = [name for name in names for _ in range(GROUP)]
        drawn = answers(model, names, 1000 * seed + step)
        rewards = [reward(*pair) for pair in zip(drawn, names, strict=True)]
        place = 10 * (step // 10 + 1)
        for what, judge in (("names", count_names), ("right", is_right)):
            key = f"{what} {place}"
            means[key] = means.get(key, 0) + sum(map(judge, drawn, names)) / 640
        groups = torch.tensor(rewards).view(REQUESTS, GROUP)
        std = groups.std(dim=1, keepdim=True, correction=0)
        advantages = (groups - groups.mean(dim=1, keepdim=True)) / (std + 1e-4)
        prompts = torch.tensor([request(name) for name in names])
        ids = torch.cat([prompts, drawn], dim=1)
        now = log_probs(model, ids)[:, -LENGTH:]
        credit = in_first_sentence(drawn) if first else torch.ones_like(drawn)
        loss = -(advantages.view(-1, 1) * now * credit).mean()
        if kl:
            with torch.no_grad():
                before = log_probs(reference, ids)[:, -LENGTH:]
            ratio = before - now
            loss = loss + kl * (ratio.exp() - ratio - 1).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return means


@torch.no_grad()
def bits(model):
    """Bits per token of the first 64 tokens of 64 plain stories that no model saw."""
    rows = [tokenizer.encode(story(index).text)[:64] for index in range(30_000, 30_064)]
    ids = torch.tensor([[BOS, *row] for row in rows])
    return -log_probs(model.eval(), ids).mean().item() / math.log(2)


def second_sentences(model):
    """Of 128 answers with a right beginning: how often the second sentence is, too."""
    names = random.Random(5).choices(KNOWN, k=128)
    good = total = 0
    for row in answers(model, names, 125, 48):
        words = tokenizer.tokens(row)
        stops = [place for place, word in enumerate(words) if word == "."]
        if len(stops) > 1 and is_possible(tuple(words[: stops[0] + 1])):
            total += 1
            good += is_possible(tuple(words[: stops[1] + 1]))
    return good / max(1, total)


def _share(judge, rows, names):
    return sum(map(judge, rows, names)) / len(names)


def measure(model):
    """What 256 answers about known children and 256 about new ones are worth."""
    generator = random.Random(123)
    obeys = lambda row, name: f" {name}" in first_sentence(row)  # noqa: E731
    names = generator.choices(KNOWN, k=256)
    rows = answers(model, names, 123)
    numbers = {
        "bits": bits(model),
        "second": second_sentences(model),
        "obeyed": _share(obeys, rows, names),
        "right": _share(is_right, rows, names),
        "names": _share(count_names, rows, names),
        "openings": len({tuple(first_sentence(row)) for row in rows}),
    }
    names = generator.choices(NEW, k=256)
    rows = answers(model, names, 124)
    numbers["new"] = _share(obeys, rows, names)
    numbers["new right"] = _share(is_right, rows, names)
    return numbers


@functools.cache
def tuned(seed):
    """The weights after 150 steps of tuning, where all rewards begin."""
    model = pretrained.load("stories")[0]
    tune(model, 150, RATES[0], seed)
    return model.state_dict()


def run(kind, rank, steps, kl, seed):
    """Train one model and measure it."""
    torch.manual_seed(seed)
    model = pretrained.load("stories")[0]
    reference = pretrained.load("stories")[0].eval()
    if kind in ("tune", "slow"):
        if rank:
            add_lora(model, rank)
        tune(model, steps, GENTLE if kind == "slow" else RATES[rank], seed)
        return measure(model)
    if kind != "untuned":
        model.load_state_dict(tuned(seed))
        reference.load_state_dict(tuned(seed))
    if kind in ("more", "gently"):
        tune(model, steps, RATES[0] if kind == "more" else GENTLE, seed + 100)
        return measure(model)
    reward, first = REWARDS.get(kind, is_right), kind in ("right", "untuned")
    means = reinforce(model, reference, reward, steps, kl, seed, first)
    return means | measure(model)
