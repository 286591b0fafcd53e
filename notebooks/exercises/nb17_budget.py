"""Exercises of notebook 17: what a training costs, counted before it runs.

Knows configs. Knows nothing of how an answer is run or shown.
"""

import torch

from course_utils.config import LlamaConfig
from named_mistakes import Exercise, Mistake


def parameters(config: LlamaConfig) -> int:
    """How many numbers a `LlamaLM` of this config learns."""
    m, f = config.d_model, config.d_ff
    narrow = m * config.num_kv_heads // config.num_heads
    block = 2 * m * m + 2 * m * narrow + 3 * m * f + 2 * m
    tables = config.vocab_size * m * (1 if config.tied else 2)
    return config.num_layers * block + tables + m


def _configs(generator):
    def one(width, heads, kv_heads, layers, tied):
        vocab = torch.randint(30, 60, (), generator=generator).item()
        config = LlamaConfig(
            vocab_size=vocab,
            d_model=width,
            num_heads=heads,
            num_kv_heads=kv_heads,
            num_layers=layers,
            d_ff=5 * width // 2,
            max_length=16,
            tied=tied,
        )
        return (config,)

    return [one(24, 4, 2, 3, True), one(36, 6, 1, 2, False), one(16, 4, 4, 1, True)]


def _table(config):
    return config.vocab_size * config.d_model


def _wide(config):
    """What keys and values have less than queries, in all layers."""
    less = config.num_heads - config.num_kv_heads
    head_dim = config.d_model // config.num_heads
    return config.num_layers * 2 * config.d_model * less * head_dim


def _wider(config):
    """What an upside-down ratio of the heads adds to keys and values."""
    wrong = config.d_model * config.num_heads // config.num_kv_heads
    right = config.d_model * config.num_kv_heads // config.num_heads
    return config.num_layers * 2 * config.d_model * (wrong - right)


def _head_width(config):
    return config.d_model // config.num_heads


def _narrow(config):
    """What one matrix of keys or values holds less than one of queries."""
    less = config.num_heads - config.num_kv_heads
    return config.d_model * less * _head_width(config)


def _square(config):
    """What keys and values lose if their matrices are narrow on both sides."""
    narrow = config.num_kv_heads * _head_width(config)
    return config.num_layers * 2 * narrow * (config.d_model - narrow)


PARAMETERS = Exercise(
    "scaling.parameters",
    "Gives the number of parameters of a LlamaLM from its config, for grouped heads "
    "(num_kv_heads) and untied tables (tied=False), too. Every cost follows from it.",
    ("config",),
    parameters,
    _configs,
    (
        Mistake(
            "keys and values as wide as queries",
            lambda c: parameters(c) + _wide(c),
            "With fewer heads for keys and values two of the four matrices get narrow.",
            "A head has d_model / num_heads columns. How many heads do the keys have?",
        ),
        Mistake(
            "fewer heads of keys make wider keys",
            lambda c: parameters(c) + _wider(c),
            "With fewer key heads your model has more parameters. Which way up is "
            "your ratio of the two head counts?",
            "Keys are as wide as all of their heads together.",
        ),
        Mistake(
            "one column for each head of keys",
            lambda c: (
                parameters(c)
                - 2
                * c.num_layers
                * c.d_model
                * c.num_kv_heads
                * (c.d_model // c.num_heads - 1)
            ),
            "Keys and values get narrower with fewer heads, but not as narrow as that.",
            "A head of keys has d_model / num_heads columns.",
        ),
        Mistake(
            "only one of keys and values gets narrow",
            lambda c: parameters(c) + c.num_layers * _narrow(c),
            "With fewer heads for keys and values, your count is too large by part "
            "of one matrix in a block. Which of the four get narrower?",
            "Each head of keys has its own head of values.",
        ),
        Mistake(
            "the output gets narrow as well",
            lambda c: parameters(c) - c.num_layers * _narrow(c),
            "With fewer heads for keys and values, your count is short by part of one "
            "matrix in a block. How many heads does the output projection read?",
            "Each query head has a context: the output reads them all.",
        ),
        Mistake(
            "all four matrices get narrow",
            lambda c: parameters(c) - c.num_layers * 2 * _narrow(c),
            "Queries and the output keep all their heads. Which matrices get narrow?",
            "num_kv_heads counts the heads of keys and of values, and no others.",
        ),
        Mistake(
            "keys and values narrow on both sides",
            lambda c: parameters(c) - _square(c),
            "Keys and values come from a stream of the full width. Which side of their "
            "matrices is narrow?",
            "From d_model numbers in to num_kv_heads heads out.",
        ),
        Mistake(
            "two matrices in the feed-forward network",
            lambda c: parameters(c) - c.num_layers * c.d_model * c.d_ff,
            "In LLaMA's feed-forward network one matrix is a gate. Count again.",
            "Widen, gate, narrow (notebook 12).",
        ),
        Mistake(
            "one norm in a block",
            lambda c: parameters(c) - c.num_layers * c.d_model,
            "It is short by one vector of width d_model for each block.",
            "How many sublayers does a block have, and what comes before each?",
        ),
        Mistake(
            "no norms",
            lambda c: parameters(c) - (2 * c.num_layers + 1) * c.d_model,
            "Your count is only slightly short: by a few vectors of width d_model.",
            "A norm scales every number in the stream. Where are the norms?",
        ),
        Mistake(
            "the last norm is missing",
            lambda c: parameters(c) - c.d_model,
            "It is short by one vector of width d_model.",
            "What stands between the last block and the logits?",
        ),
        Mistake(
            "the tables are always tied",
            lambda c: parameters(c) - (0 if c.tied else _table(c)),
            "With tied=False it is short by a whole table. One setting is unused.",
            "Which matrix makes logits, when the embedding does not?",
        ),
        Mistake(
            "the tables are never tied",
            lambda c: parameters(c) + (_table(c) if c.tied else 0),
            "Tied means that the embedding is used twice but exists once.",
            "Look at config.tied.",
        ),
        Mistake(
            "tied the wrong way around",
            lambda c: parameters(c) + (_table(c) if c.tied else -_table(c)),
            "The tied model has two tables, the other has one. What does tied mean?",
            "Tied: one table reads and writes.",
        ),
        Mistake(
            "no embedding",
            lambda c: parameters(c) - _table(c),
            "You left out a whole table.",
            "Each word of the vocabulary has a vector.",
        ),
    ),
    "Begin with the formula from section 2. Two of its four m² terms hold only "
    "with full heads, and vm only with tied tables.",
)


def flops(matrices: int, layers: int, width: int, length: int, tokens: int) -> int:
    """FLOPs of a training on `tokens`, forward and backward, attention included.

    Each token meets `length` keys in each layer, for scores and for contexts; what a
    mask hides counts all the same.
    """
    forward = 2 * matrices + layers * (2 + 2) * length * width
    return 3 * forward * tokens


def _trainings(generator):
    def one(matrices, layers, width, length):
        tokens = torch.randint(100, 900, (), generator=generator).item()
        return matrices, layers, width, length, tokens

    return [one(5000, 3, 16, 24), one(700, 2, 8, 96)]


FLOPS = Exercise(
    "scaling.flops",
    "Gives all FLOPs of a training: 6 per token and matrix entry (`matrices` is their "
    "number), and those of attention's own two products, over the length, the width "
    "and all layers. In long texts these dominate.",
    ("matrices", "layers", "width", "length", "tokens"),
    flops,
    _trainings,
    (
        Mistake(
            "forward only",
            lambda n, layers, m, t, d: flops(n, layers, m, t, d) // 3,
            "That is the cost of writing. Training also runs backward.",
            "Every product of the forward pass has two in the backward pass.",
        ),
        Mistake(
            "one product in the backward pass",
            lambda n, layers, m, t, d: flops(n, layers, m, t, d) // 3 * 2,
            "Backward costs more than forward. Which two gradients does a product "
            "have?",
            "One for its input, one for its weights.",
        ),
        Mistake(
            "attention's own products are missing",
            lambda n, layers, m, t, d: 6 * n * d,
            "The rule of thumb, 6 N D. Which products have no weights of their own?",
            "Queries meet keys, and weights meet values.",
        ),
        Mistake(
            "half of attention's own products",
            lambda n, layers, m, t, d: (6 * n + 6 * layers * t * m) * d,
            "Half of these products are missing. Did you count only one of the two, "
            "or leave out what the mask hides?",
            "Contexts cost as much as scores. And a masked score counts, too.",
        ),
        Mistake(
            "attention in one layer",
            lambda n, layers, m, t, d: flops(n, 1, m, t, d),
            "Each layer has its own attention. One argument is unused.",
            "The first argument holds the matrices of all layers, not these products.",
        ),
        Mistake(
            "attention only forward",
            lambda n, layers, m, t, d: (6 * n + 4 * layers * t * m) * d,
            "Attention's products have no weights, and yet gradients pass through "
            "them.",
            "Each product of the forward pass has two in the backward pass, these too.",
        ),
        Mistake(
            "the length squared for each token",
            lambda n, layers, m, t, d: (6 * n + 12 * layers * m * t**2) * d,
            "The square belongs to a whole text. You count the work for one token, "
            "then multiply by the number of tokens.",
            "How many keys does one query meet?",
        ),
    ),
    "Forward, for one token: 2 per number in a matrix. A score is a dot product "
    "over the width, all heads together: 2 · width for each key.",
)


EXERCISES = (PARAMETERS, FLOPS)
