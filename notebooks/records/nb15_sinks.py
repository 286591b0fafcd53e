"""Does a head grow an attention sink where it has nothing to fetch, and what stops it?

The task is bigram-backcopy (Guo et al. 2024, "Active-Dormant Attention Heads", section
2): the next token depends on the one before it, by a fixed table of probabilities,
but after one of three triggers the token *before* the trigger comes again. So the one
head has work at the triggers and none anywhere else, and each text begins with <bos>.
*plain* is ordinary attention, *learned sink* adds one learned score that takes weight
and brings nothing (gpt-oss), *gate* multiplies what the head found by a sigmoid of the
query's vector (Qiu et al. 2025).

`make record NB=15` runs every point and writes `nb15_sinks.json`.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import nn

from course_utils.masks import causal_mask

KINDS = ("plain", "learned sink", "gate")
SEEDS = (0, 1, 2, 3, 4)
STEPS = (100, 900)  # the notebook runs one of the short points
POINTS = [
    {"kind": kind, "steps": steps, "seed": seed}
    for steps, seed, kind in itertools.product(STEPS, SEEDS, KINDS)
    if steps == STEPS[1] or seed == SEEDS[0]
]
TOKENS, LENGTH, WIDTH, RATE = 32, 32, 64, 0.01
BOS, TRIGGERS = TOKENS, torch.tensor([5, 11, 17])
FIRST_COUNTED = 10  # early queries have few keys to choose from


def table():
    """P(next | token), the same for all runs."""
    logits = torch.randn(TOKENS, TOKENS, generator=torch.Generator().manual_seed(1))
    return (1.5 * logits).softmax(dim=-1)


def texts(rows, generator):
    """Token ids "b t"; the first of each row is <bos>."""
    chances = table()
    ids = torch.full((rows, LENGTH + 1), BOS)
    ids[:, 1] = torch.randint(TOKENS, (rows,), generator=generator)
    for place in range(2, LENGTH + 1):
        last = ids[:, place - 1]
        ids[:, place] = torch.multinomial(chances[last], 1, generator=generator)[:, 0]
        if place > 2:
            copied = torch.isin(last, TRIGGERS)
            ids[copied, place] = ids[copied, place - 2]
    return ids


class OneHead(nn.Module):
    """A block of one head: ids "b t" -> logits "b t v", weights and values."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.tokens = nn.Embedding(TOKENS + 1, WIDTH)
        self.positions = nn.Embedding(LENGTH + 1, WIDTH)
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(3))
        self.to_queries, self.to_keys, self.to_values, self.to_output = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )
        self.feedforward = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.head = nn.Linear(WIDTH, TOKENS)
        self.sink = nn.Parameter(torch.zeros(1))
        self.to_gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, ids):
        """The logits of the token after each position, and a look inside."""
        length = ids.shape[1]
        x = self.tokens(ids) + self.positions.weight[:length]
        read = self.norms[0](x)
        values = self.to_values(read)
        scores = self.to_queries(read) @ self.to_keys(read).mT / WIDTH**0.5
        scores = scores.masked_fill(~causal_mask(length), float("-inf"))
        if self.kind == "learned sink":  # one more key, without a value
            sink = self.sink.expand(*scores.shape[:-1], 1)
            weights = torch.cat([scores, sink], dim=-1).softmax(dim=-1)[..., :-1]
        else:
            weights = scores.softmax(dim=-1)
        context = weights @ values
        if self.kind == "gate":
            context = context * self.to_gate(read).sigmoid()
        x = x + self.to_output(context)
        x = x + self.feedforward(self.norms[1](x))
        return self.head(self.norms[2](x)), weights, values


def run(kind, steps, seed):
    """Train one model; where its head looks, and what it costs, on other texts."""
    torch.manual_seed(seed)
    model = OneHead(kind)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0)
    generator = torch.Generator().manual_seed(100 + seed)
    for _ in range(steps):
        ids = texts(32, generator)
        logits, *_ = model(ids[:, :-1])
        loss = F.cross_entropy(logits[:, 2:].flatten(0, 1), ids[:, 3:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return look(model)


@torch.no_grad()
def look(model):
    """Mean weights and losses over 128 texts, and the length of the first value."""
    ids = texts(128, torch.Generator().manual_seed(9))
    given, wanted = ids[:, :-1], ids[:, 1:]
    logits, weights, values = model(given)
    nats = F.cross_entropy(logits.mT, wanted, reduction="none")
    trigger = torch.isin(given, TRIGGERS)
    counted = torch.arange(LENGTH) >= FIRST_COUNTED
    lengths = values.norm(dim=-1)
    before = weights.diagonal(-1, -2, -1)  # "b t", of the queries after the first
    found = {
        "first, no trigger": weights[..., 0][counted & ~trigger],
        "first, trigger": weights[..., 0][counted & trigger],
        "before, trigger": before[(counted & trigger)[:, 1:]],
        "loss, no trigger": nats[counted & ~trigger],
        "loss, trigger": nats[counted & trigger],
        "first value": lengths[:, 0].mean() / lengths[:, 1:].mean(),
    }
    return {name: number.mean().item() for name, number in found.items()}
