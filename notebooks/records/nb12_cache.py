"""Train models whose caches differ: what does each saved byte cost in loss?

The data are whole generated stories, 141 to 203 tokens long, none read twice. Every
model has four layers, is 64 wide and has four query heads; it differs in what it must
remember of each token: keys and values for every head, for two heads, for one (Shazeer
2019; Ainslie et al. 2023), only those of a window in three of four layers, or one
latent vector from which all heads' keys and values are made (DeepSeek-AI 2024, section
2.1).

`make record NB=12` runs every point and writes `nb12_cache.json`.
"""

import functools
import itertools

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from course_utils.checks import IGNORED
from course_utils.config import TrainConfig
from course_utils.feedforward import SwiGLU
from course_utils.norms import RMSNorm
from course_utils.positions import rotary_table, rotate
from course_utils.training.evaluation import mean_loss
from course_utils.training.loop import train
from known_worlds.stories import story

WIDTH, HEADS, HEAD_DIM, LAYERS, LONGEST = 64, 4, 16, 4, 208
WINDOW = 53  # of three layers in four: saves as much as half of the keys and values
ROTARY = 8  # numbers of a latent model's key that carry the position
MODELS = {  # name: (key-value heads, latent width or 0, window or 0)
    "4 key-value heads": (4, 0, 0),
    "2 key-value heads": (2, 0, 0),
    "1 key-value head": (1, 0, 0),
    "window": (4, 0, WINDOW),
    "window, 2 heads": (2, 0, WINDOW),
    "window, 1 head": (1, 0, WINDOW),
    "latent 56": (4, 56, 0),
    "latent 24": (4, 24, 0),
    "latent 8": (4, 8, 0),
}
SEEDS = (0, 1, 2)
RATES = (0.01, 0.02)
POINTS = [
    {"model": model, "rate": rate, "seed": seed}
    for seed, model, rate in itertools.product(SEEDS, MODELS, RATES)
]
STEPS, BATCH = 500, 8
SHORT = {"model": "1 key-value head", "rate": 0.02, "seed": 0, "steps": 40}
POINTS.append(SHORT)  # for the notebook, which runs it again
STARTS = {"train": 0, "validation": 10**9, "test": 2 * 10**9}  # indices of stories
HELD_OUT = 200  # stories to choose the rate on, and as many others to report on


def cache_numbers(model, length=174):
    """Numbers a layer remembers per token, on average over a story's length."""
    kv_heads, latent, window = MODELS[model]
    size = latent + ROTARY if latent else 2 * kv_heads * HEAD_DIM
    return size * (3 * window + length) / (4 * length) if window else size


class Attention(nn.Module):
    """Grouped keys and values, perhaps in a window: "b t m" -> "b t m"."""

    def __init__(self, kv_heads):
        super().__init__()
        self.kv_heads = kv_heads
        self.to_queries = nn.Linear(WIDTH, HEADS * HEAD_DIM, bias=False)
        self.to_keys = nn.Linear(WIDTH, kv_heads * HEAD_DIM, bias=False)
        self.to_values = nn.Linear(WIDTH, kv_heads * HEAD_DIM, bias=False)
        self.to_output = nn.Linear(HEADS * HEAD_DIM, WIDTH, bias=False)
        self.table = rotary_table(LONGEST, HEAD_DIM)

    def forward(self, x, mask):
        """mask "t t": True where a query may look."""
        cosines, sines = (part[: x.shape[1]] for part in self.table)
        queries = rearrange(self.to_queries(x), "b t (h d) -> b h t d", h=HEADS)
        keys = rearrange(self.to_keys(x), "b t (g d) -> b g t d", g=self.kv_heads)
        values = rearrange(self.to_values(x), "b t (g d) -> b g t d", g=self.kv_heads)
        queries, keys = rotate(queries, cosines, sines), rotate(keys, cosines, sines)
        context = F.scaled_dot_product_attention(
            queries, keys, values, mask, enable_gqa=True
        )
        return self.to_output(rearrange(context, "b h t d -> b t (h d)"))


class LatentAttention(nn.Module):
    """Keys and values of all heads from one small vector: "b t m" -> "b t m"."""

    def __init__(self, latent):
        super().__init__()
        self.to_queries = nn.Linear(WIDTH, HEADS * (HEAD_DIM + ROTARY), bias=False)
        self.to_latent = nn.Linear(WIDTH, latent, bias=False)  # this is remembered
        self.to_position = nn.Linear(WIDTH, ROTARY, bias=False)  # and this
        self.norm = RMSNorm(latent)
        self.to_keys = nn.Linear(latent, HEADS * HEAD_DIM, bias=False)
        self.to_values = nn.Linear(latent, HEADS * HEAD_DIM, bias=False)
        self.to_output = nn.Linear(HEADS * HEAD_DIM, WIDTH, bias=False)
        self.table = rotary_table(LONGEST, ROTARY)

    def forward(self, x, mask):
        """mask "t t": True where a query may look."""
        cosines, sines = (part[: x.shape[1]] for part in self.table)
        queries = rearrange(self.to_queries(x), "b t (h d) -> b h t d", h=HEADS)
        content, place = queries.split([HEAD_DIM, ROTARY], dim=-1)
        latent = self.norm(self.to_latent(x))  # "b t r"
        keys = rearrange(self.to_keys(latent), "b t (h d) -> b h t d", h=HEADS)
        values = rearrange(self.to_values(latent), "b t (h d) -> b h t d", h=HEADS)
        shared = rotate(self.to_position(x)[:, None], cosines, sines)  # "b 1 t d"
        keys = torch.cat([keys, shared.expand(-1, HEADS, -1, -1)], dim=-1)
        queries = torch.cat([content, rotate(place, cosines, sines)], dim=-1)
        context = F.scaled_dot_product_attention(queries, keys, values, mask)
        return self.to_output(rearrange(context, "b h t d -> b t (h d)"))


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm, each added."""

    def __init__(self, attention, window):
        super().__init__()
        self.attention_norm, self.feedforward_norm = RMSNorm(WIDTH), RMSNorm(WIDTH)
        self.attention, self.window = attention, window
        self.feedforward = SwiGLU(WIDTH, 3 * WIDTH)

    def forward(self, x):
        """x "b t m" -> "b t m"."""
        place = torch.arange(x.shape[1])
        back = place[:, None] - place  # how far each key lies behind each query
        mask = (back >= 0) & (back < (self.window or LONGEST))
        x = x + self.attention(self.attention_norm(x), mask)
        return x + self.feedforward(self.feedforward_norm(x))


class Model(nn.Module):
    """ids "b t" -> logits "b t v"; the last of four layers always sees everything."""

    def __init__(self, name, vocab_size):
        super().__init__()
        kv_heads, latent, window = MODELS[name]
        self.tokens = nn.Embedding(vocab_size, WIDTH)
        self.blocks = nn.ModuleList(
            Block(
                LatentAttention(latent) if latent else Attention(kv_heads),
                window if layer < LAYERS - 1 else 0,
            )
            for layer in range(LAYERS)
        )
        self.norm = RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocab_size, bias=False)
        for weight in self.parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=0.55 / WIDTH**0.5)
        nn.init.normal_(self.tokens.weight)

    def forward(self, ids):
        """The logits of the token after each position."""
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@functools.cache
def vocabulary():
    """{token: id} of all tokens in the training stories; 0 stands before the first."""
    stories = (story(index).tokens for index in range(6400))
    tokens = sorted({token for tokens in stories for token in tokens})
    return {token: place for place, token in enumerate(tokens, start=1)}


def batches(split, size=BATCH):
    """step -> (inputs "b t", labels "b t") of the stories of one split."""

    def batch(step):
        first = STARTS[split] + step * size
        stories = [story(first + row).tokens for row in range(size)]
        rows = [torch.tensor([0, *map(vocabulary().get, one)]) for one in stories]
        inputs = pad_sequence([row[:-1] for row in rows], True)
        return inputs, pad_sequence([row[1:] for row in rows], True, IGNORED)

    return batch


def run(model, rate, seed, steps=STEPS):
    """Train one model; its loss in nats per token on two held-out splits."""
    torch.manual_seed(seed)
    trained = Model(model, len(vocabulary()) + 1)
    recipe = TrainConfig(
        steps=steps,
        learning_rate=rate,
        optimizer="muon",
        precision="float32",
        seed=seed,
    )
    train(trained, batches("train"), recipe)
    results = {
        split: mean_loss(trained, batches(split, 20), HELD_OUT // 20)
        for split in ("validation", "test")
    }
    return results | {"weights": sum(w.numel() for w in trained.parameters())}


def floor(split="test"):
    """The lowest loss possible on a held-out split, in nats per token, exactly."""
    first = STARTS[split]
    costs = [c for i in range(first, first + HELD_OUT) for c in story(i).floor]
    return sum(costs) / len(costs)
