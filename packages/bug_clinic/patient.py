"""A small GPT in plain PyTorch, with its world: one short function for each part.

`clinic` plants its bugs here. Knows nothing of them.
"""

import random

import torch
from einops import rearrange
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

WORDS = ["<pad>", "<bos>", "<eos>", "the", "cat", "dog", "sat", "ran", "because", "it"]
WORDS += ["was", "tired", "happy", "and"]
PAD, BOS, EOS = 0, 1, 2
WIDTH, HEADS, LONGEST, RATE = 32, 4, 48, 0.01


def tale(coin):
    """Words of a tale. Fair coins choose animal, verb, state and the end."""
    words = ["the", coin.choice(["cat", "dog"]), coin.choice(["sat", "ran"]), "because"]
    while True:
        words += ["it", "was", coin.choice(["tired", "happy"])]
        if coin.random() < 0.5:
            return words
        words += ["and"]


def ids_of(words):
    """The ids of a tale, from <bos> to <eos>."""
    return [BOS, *map(WORDS.index, words), EOS]


def batch_of(rows):
    """Inputs and labels "b t" of lists of ids; labels of padding are -100."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    inputs, labels = ids[:, :-1], ids[:, 1:]
    return inputs, labels.masked_fill(labels == PAD, -100)


def tales(step, count=16):
    """The batch of a step; no two steps share a tale's coins."""
    coin = random.Random(step)
    return batch_of([ids_of(tale(coin)) for _ in range(count)])


class Layer(nn.Module):
    """The weights of one block."""

    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.to_qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.to_output = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)


class Model(nn.Module):
    """All weights; the forward pass is `logits_of`."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(len(WORDS), WIDTH)
        self.places = nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(WORDS))


def may_look(ids):
    """True where a query may look at a key, neither ahead nor at padding: "b 1 q k"."""
    length = ids.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    return causal & (ids != PAD)[:, None, None, :]


def weights_of(queries, keys, mask):
    """Attention weights "b h q k", which add up to 1 over what may be seen."""
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)


def attend(layer, x, mask):
    """Attention of all heads: "b t m" -> "b t m"."""
    pattern = "b t (role h d) -> role b h t d"
    queries, keys, values = rearrange(layer.to_qkv(x), pattern, role=3, h=HEADS)
    context = weights_of(queries, keys, mask) @ values
    return layer.to_output(rearrange(context, "b h t d -> b t (h d)"))


def block(layer, x, mask):
    """A pre-norm block with dropout while training: "b t m" -> "b t m"."""
    x = x + attend(layer, layer.norm_1(x), mask)
    hidden = layer.up(layer.norm_2(x)).relu()
    return x + layer.down(F.dropout(hidden, 0.1, layer.training))


def logits_of(model, ids):
    """Logits of the next word: "b t" -> "b t v"."""
    x = model.words(ids)
    x = x + model.places(torch.arange(ids.shape[1]))
    mask = may_look(ids)
    for layer in model.layers:
        x = block(layer, x, mask)
    return model.head(model.norm(x))


def loss_of(logits, labels):
    """Mean cross-entropy in nats; labels of -100 count for nothing."""
    losses = F.cross_entropy(logits.mT, labels, reduction="none")
    counted = labels >= 0
    return losses[counted].mean()


def fit(model, batches, steps):
    """Train, and return the loss of each step; the rate falls from RATE to 0."""
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    model.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - step / steps)
        inputs, labels = batches(step)
        loss = loss_of(logits_of(model, inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def evaluate(model, inputs, labels):
    """The loss of a model as it is used, without dropout, in whatever mode it comes."""
    model.eval()
    with torch.no_grad():
        return loss_of(logits_of(model, inputs), labels).item()


def write(model, generator):
    """Ids of a new tale: words are drawn one by one until <eos>, 25 at most."""
    model.eval()
    ids = torch.tensor([[BOS]])
    while ids.shape[1] < 26 and ids[0, -1] != EOS:
        with torch.no_grad():
            chances = logits_of(model, ids)[:, -1].softmax(dim=-1)
        new = torch.multinomial(chances, 1, generator=generator)
        ids = torch.cat([ids, new], dim=1)
    return ids[0, 1:].tolist()
