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
    name="scaling.parameters",
    statement="Gives the number of parameters of a LlamaLM from its config, for "
    "grouped heads (num_kv_heads) and untied tables (tied=False), too. Every cost "
    "follows from it.",
    takes=("config",),
    reference=parameters,
    cases=_configs,
    mistakes=(
        Mistake(
            name="keys and values as wide as queries",
            function=lambda c: parameters(c) + _wide(c),
            hint="With fewer heads for keys and values two of the four matrices get "
            "narrow.",
            more="A head has d_model / num_heads columns. How many heads do the keys "
            "have?",
        ),
        Mistake(
            name="fewer heads of keys make wider keys",
            function=lambda c: parameters(c) + _wider(c),
            hint="With fewer key heads your model has more parameters. Which way up is "
            "your ratio of the two head counts?",
            more="Keys are as wide as all of their heads together.",
        ),
        Mistake(
            name="one column for each head of keys",
            function=lambda c: (
                parameters(c)
                - 2
                * c.num_layers
                * c.d_model
                * c.num_kv_heads
                * (c.d_model // c.num_heads - 1)
            ),
            hint="Keys and values get narrower with fewer heads, but not as narrow as "
            "that.",
            more="A head of keys has d_model / num_heads columns.",
        ),
        Mistake(
            name="only one of keys and values gets narrow",
            function=lambda c: parameters(c) + c.num_layers * _narrow(c),
            hint="With fewer heads for keys and values, your count is too large by "
            "part of one matrix in a block. Which of the four get narrower?",
            more="Each head of keys has its own head of values.",
        ),
        Mistake(
            name="the output gets narrow as well",
            function=lambda c: parameters(c) - c.num_layers * _narrow(c),
            hint="With fewer heads for keys and values, your count is short by part of "
            "one matrix in a block. How many heads does the output projection read?",
            more="Each query head has a context: the output reads them all.",
        ),
        Mistake(
            name="all four matrices get narrow",
            function=lambda c: parameters(c) - c.num_layers * 2 * _narrow(c),
            hint="Queries and the output keep all their heads. Which matrices get "
            "narrow?",
            more="num_kv_heads counts the heads of keys and of values, and no others.",
        ),
        Mistake(
            name="keys and values narrow on both sides",
            function=lambda c: parameters(c) - _square(c),
            hint="Keys and values come from a stream of the full width. Which side of "
            "their matrices is narrow?",
            more="From d_model numbers in to num_kv_heads heads out.",
        ),
        Mistake(
            name="two matrices in the feed-forward network",
            function=lambda c: parameters(c) - c.num_layers * c.d_model * c.d_ff,
            hint="In LLaMA's feed-forward network one matrix is a gate. Count again.",
            more="Widen, gate, narrow (notebook 12).",
        ),
        Mistake(
            name="one norm in a block",
            function=lambda c: parameters(c) - c.num_layers * c.d_model,
            hint="It is short by one vector of width d_model for each block.",
            more="How many sublayers does a block have, and what comes before each?",
        ),
        Mistake(
            name="no norms",
            function=lambda c: parameters(c) - (2 * c.num_layers + 1) * c.d_model,
            hint="Your count is only slightly short: by a few vectors of width "
            "d_model.",
            more="A norm scales every number in the stream. Where are the norms?",
        ),
        Mistake(
            name="the last norm is missing",
            function=lambda c: parameters(c) - c.d_model,
            hint="It is short by one vector of width d_model.",
            more="What stands between the last block and the logits?",
        ),
        Mistake(
            name="the tables are always tied",
            function=lambda c: parameters(c) - (0 if c.tied else _table(c)),
            hint="With tied=False it is short by a whole table. One setting is unused.",
            more="Which matrix makes logits, when the embedding does not?",
        ),
        Mistake(
            name="the tables are never tied",
            function=lambda c: parameters(c) + (_table(c) if c.tied else 0),
            hint="Tied means that the embedding is used twice but exists once.",
            more="Look at config.tied.",
        ),
        Mistake(
            name="tied the wrong way around",
            function=lambda c: parameters(c) + (_table(c) if c.tied else -_table(c)),
            hint="The tied model has two tables, the other has one. What does tied "
            "mean?",
            more="Tied: one table reads and writes.",
        ),
        Mistake(
            name="no embedding",
            function=lambda c: parameters(c) - _table(c),
            hint="You left out a whole table.",
            more="Each word of the vocabulary has a vector.",
        ),
    ),
    hint="Begin with the formula from section 2. Two of its four m² terms hold only "
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

    first = 5000, 3, 16, 24, 144
    others = 6000, 2, 8, 96, 339
    one_changed = [(*first[:i], new, *first[i + 1 :]) for i, new in enumerate(others)]
    return [one(5000, 3, 16, 24), one(700, 2, 8, 96), first, *one_changed]


FLOPS = Exercise(
    name="scaling.flops",
    statement="Gives all FLOPs of a training: 6 per token and matrix entry (`matrices` "
    "is their number), and those of attention's own two products, over the length, the "
    "width and all layers. In long texts these dominate.",
    takes=("matrices", "layers", "width", "length", "tokens"),
    reference=flops,
    cases=_trainings,
    mistakes=(
        Mistake(
            name="forward only",
            function=lambda n, layers, m, t, d: flops(n, layers, m, t, d) // 3,
            hint="That is the cost of writing. Training also runs backward.",
            more="Every product of the forward pass has two in the backward pass.",
        ),
        Mistake(
            name="one product in the backward pass",
            function=lambda n, layers, m, t, d: flops(n, layers, m, t, d) // 3 * 2,
            hint="Backward costs more than forward. Which two gradients does a product "
            "have?",
            more="One for its input, one for its weights.",
        ),
        Mistake(
            name="attention's own products are missing",
            function=lambda n, layers, m, t, d: 6 * n * d,
            hint="The rule of thumb, 6 N D. Which products have no weights of their "
            "own?",
            more="Queries meet keys, and weights meet values.",
        ),
        Mistake(
            name="half of attention's own products",
            function=lambda n, layers, m, t, d: (6 * n + 6 * layers * t * m) * d,
            hint="Half of these products are missing. Did you count one of the two, "
            "leave out what the mask hides, or count a multiply-add as one?",
            more="Contexts cost as much as scores, a masked score counts, too, and a "
            "product of two numbers that is added is two operations.",
        ),
        Mistake(
            name="attention in one layer",
            function=lambda n, layers, m, t, d: flops(n, 1, m, t, d),
            hint="Each layer has its own attention. One argument is unused.",
            more="The first argument holds the matrices of all layers, not these "
            "products.",
        ),
        Mistake(
            name="attention only forward",
            function=lambda n, layers, m, t, d: (6 * n + 4 * layers * t * m) * d,
            hint="Attention's products have no weights, and yet gradients pass through "
            "them.",
            more="Each product of the forward pass has two in the backward pass, these "
            "too.",
        ),
        Mistake(
            name="the length squared for each token",
            function=lambda n, layers, m, t, d: (6 * n + 12 * layers * m * t**2) * d,
            hint="The square belongs to a whole text. You count the work for one "
            "token, then multiply by the number of tokens.",
            more="How many keys does one query meet?",
        ),
    ),
    hint="Forward, for one token: 2 per number in a matrix. A score is a dot product "
    "over the width, all heads together: 2 · width for each key.",
)


EXERCISES = (PARAMETERS, FLOPS)
