"""Exercises of notebook 12: a norm, a gate, a fair width.

Knows the shared layers. Knows nothing of how an answer is run or shown.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from course_utils.feedforward import SwiGLU
from course_utils.norms import RMSNorm
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

# --- the norm ----------------------------------------------------------------------


def rms_norm(
    x: Float[Tensor, "b t m"], scale: Float[Tensor, "m"], eps: float
) -> Float[Tensor, "b t m"]:
    """Square, mean, root, divide; then the scale."""
    return scale * x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


def norm_of_the_layer(
    x: Float[Tensor, "b t m"], scale: Float[Tensor, "m"], eps: float
) -> Float[Tensor, "b t m"]:
    """The shared layer with this scale."""
    return functional_call(RMSNorm(len(scale), eps), {"weight": scale}, x)


def _norm_inputs(generator):
    def one(eps, *shape):
        x = normal(generator, *shape) + 1.5
        x[0, 0] *= 0.02  # so small that eps is heard
        return x, normal(generator, shape[-1]), eps

    return [one(0.1, 2, 5, 7), one(0.02, 3, 1, 4)]


def _square(x, axis=-1):
    return x.square().mean(axis, keepdim=True)


RMS = Exercise(
    "llama.rms_norm",
    "Gives x “b t m”, each position divided by its root mean square (eps inside the "
    "root) and stretched by the scale “m”. Every block of LLaMA begins with it.",
    ("x", "scale", "eps"),
    rms_norm,
    _norm_inputs,
    (
        Mistake(
            "the mean is taken off",
            lambda x, scale, eps: scale * F.layer_norm(x, x.shape[-1:], eps=eps),
            "That is LayerNorm without its shift. What did RMSNorm leave out?",
            "RMSNorm lets the mean through: square x itself.",
        ),
        Mistake(
            "the sum for the mean",
            lambda x, scale, eps: scale * x / (x.square().sum(-1, True) + eps).sqrt(),
            "Your positions have length 1. A wider model would have smaller numbers.",
            "The M of the root mean square is missing: sum, or …?",
        ),
        Mistake(
            "over the positions",
            lambda x, scale, eps: scale * x / (_square(x, -2) + eps).sqrt(),
            "Each column is divided by its size over the sentence: a word would hear "
            "of the words after it.",
            "One position alone: which axis runs over its numbers?",
        ),
        Mistake(
            "one size for the whole text",
            lambda x, scale, eps: scale * x / (_square(x, (-2, -1)) + eps).sqrt(),
            "All positions are divided by one number, and a small one stays small.",
            "Each position has a size of its own: the mean runs over one axis.",
        ),
        Mistake(
            "one size for the whole batch",
            lambda x, scale, eps: scale * x / (_square(x, (0, 1, 2)) + eps).sqrt(),
            "Your mean runs over all texts and positions at once. What does the size "
            "of one position depend on?",
            "mean without an axis takes everything. Name the axis, and keep it.",
        ),
        Mistake(
            "the mean is taken off before the division alone",
            lambda x, scale, eps: (
                scale * (x - x.mean(-1, keepdim=True)) / (_square(x) + eps).sqrt()
            ),
            "You divide by the right size, but what you divide has lost its mean.",
            "RMSNorm lets the mean through: divide x itself.",
        ),
        Mistake(
            "the standard deviation for the root mean square",
            lambda x, scale, eps: (
                scale * x / (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()
            ),
            "var and std measure from the mean of a position. From where does the root "
            "mean square measure?",
            "Square x itself, and then take the mean.",
        ),
        Mistake(
            "eps as a lower bound of the root",
            lambda x, scale, eps: scale * x / _square(x).sqrt().clamp(min=eps),
            "Small positions are far off. You keep the root from falling below eps. "
            "Where does ε stand in the equation?",
            "eps is added to the mean of the squares.",
        ),
        Mistake(
            "the root is missing",
            lambda x, scale, eps: scale * x / (_square(x) + eps),
            "Ten times x should give the same. Yours gets ten times *smaller*.",
            "You divide by squares. What brings a square back to the size of x?",
        ),
        Mistake(
            "eps outside the root",
            lambda x, scale, eps: scale * x / (_square(x).sqrt() + eps),
            "Small positions are far off. Where does ε stand in the equation?",
            "Add eps while the squares are still squares.",
        ),
        Mistake(
            "eps added to the sum",
            lambda x, scale, eps: (
                scale * x / ((x.square().sum(-1, True) + eps) / x.shape[-1]).sqrt()
            ),
            "You add eps to the sum of the squares, and then divide by the width. How "
            "much of eps is left?",
            "First the mean of the squares, then eps.",
        ),
        Mistake(
            "stretched by 1 + scale",
            lambda x, scale, eps: rms_norm(x, 1 + scale, eps),
            "With a scale of ones, your result is double what it should be. Does this "
            "model keep its scale minus 1, as some do?",
            "Multiply by the scale as it is.",
        ),
        Mistake(
            "eps forgotten",
            lambda x, scale, eps: scale * x / _square(x).sqrt(),
            "Small positions are far off. One argument is unused.",
            "For a position of zeros, ε prevents 0 divided by 0.",
        ),
        Mistake(
            "the scale is forgotten",
            lambda x, scale, eps: x / (_square(x) + eps).sqrt(),
            "Each position has the right size. One argument is unused.",
            "γ stretches each column by a number of its own.",
        ),
        Mistake(
            "eps and the scale are forgotten",
            lambda x, scale, eps: x / _square(x).sqrt(),
            "The root mean square is right. Two of the three arguments are unused.",
            "ε stands under the root, γ in front of the fraction.",
        ),
        Mistake(
            "divided by the length",
            lambda x, scale, eps: scale * x / x.norm(dim=-1, keepdim=True),
            "A norm is a root of a *sum* of squares, so a wider model would have "
            "smaller numbers; and eps is unused.",
            "Three steps by hand: square, mean, and the root of mean plus eps.",
        ),
        Mistake(
            "the mean loses its axis",
            lambda x, scale, eps: scale * x / (x.square().mean(-1) + eps).sqrt(),
            "A mean over the last axis takes this axis away: “b t” is lined up with "
            "“t m”.",
            "An argument of mean keeps the axis, with size 1.",
        ),
    ),
    "Four steps for one position: square, mean, root, divide. Then the scale.",
    shared=norm_of_the_layer,
)


# --- the gate ----------------------------------------------------------------------


def swiglu(
    x: Float[Tensor, "b t m"],
    gate: Float[Tensor, "f m"],
    up: Float[Tensor, "f m"],
    down: Float[Tensor, "m f"],
) -> Float[Tensor, "b t m"]:
    """A gate for every unit."""
    return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T


def output_of_the_layer(
    x: Float[Tensor, "b t m"],
    gate: Float[Tensor, "f m"],
    up: Float[Tensor, "f m"],
    down: Float[Tensor, "m f"],
) -> Float[Tensor, "b t m"]:
    """The shared layer with these matrices."""
    with torch.device("meta"):  # the layer needs no numbers of its own
        layer = SwiGLU(gate.shape[1], len(gate))
    weights = {"gate.weight": gate, "up.weight": up, "down.weight": down}
    return functional_call(layer, weights, x)


def _gate_inputs(generator):
    def one(b, t, m, f):
        shapes = (b, t, m), (f, m), (f, m), (m, f)
        return tuple(normal(generator, *shape) for shape in shapes)

    return [one(2, 3, 5, 7), one(3, 1, 4, 2)]


GATE = Exercise(
    "llama.swiglu",
    "Gives SwiGLU of x “b t m” with the matrices gate “f m”, up “f m” and down “m f”, "
    "as nn.Linear holds them. Most weights of a LLaMA block are these.",
    ("x", "gate", "up", "down"),
    swiglu,
    _gate_inputs,
    (
        Mistake(
            "gate and up exchanged",
            lambda x, g, u, d: (x @ g.T * F.silu(x @ u.T)) @ d.T,
            "A model trained this way learns, too. With weights from elsewhere it "
            "writes nonsense: which of the two is bent?",
            "SiLU stands around one of the two products in the equation. Which?",
        ),
        Mistake(
            "the logistic function for SiLU",
            lambda x, g, u, d: (torch.sigmoid(x @ g.T) * (x @ u.T)) @ d.T,
            "That gate lies between 0 and 1: the older GLU. SiLU has one factor more.",
            "SiLU(z) = z σ(z). Where did the z go?",
        ),
        Mistake(
            "GELU for SiLU",
            lambda x, g, u, d: (F.gelu(x @ g.T) * (x @ u.T)) @ d.T,
            "Close: your bend and the right one are nearly the same.",
            "Your bend has a cousin that dips lower on the left.",
        ),
        Mistake(
            "ReLU for SiLU",
            lambda x, g, u, d: (F.relu(x @ g.T) * (x @ u.T)) @ d.T,
            "Your gate is 0 for every negative z. What is SiLU at −1?",
            "SiLU(z) = z σ(z), or `F.silu`.",
        ),
        Mistake(
            "the gate is not bent",
            lambda x, g, u, d: ((x @ g.T) * (x @ u.T)) @ d.T,
            "Two products, multiplied as they are. Which function is missing?",
            "One of the two products goes through SiLU first.",
        ),
        Mistake(
            "the matrix up is unused",
            lambda x, g, u, d: F.silu(x @ g.T) @ d.T,
            "Gate and down, with a bend between them, are a plain feed-forward. What "
            "does the gate let pass?",
            "The candidate comes from the third matrix.",
        ),
        Mistake(
            "the sum for the product",
            lambda x, g, u, d: (F.silu(x @ g.T) + x @ u.T) @ d.T,
            "A gate at 0 should let nothing pass. Yours lets everything pass.",
            "⊙ in the equation works number by number, but does not add.",
        ),
        Mistake(
            "both are bent",
            lambda x, g, u, d: (F.silu(x @ g.T) * F.silu(x @ u.T)) @ d.T,
            "The candidate may be negative. You have bent it, too.",
            "Count how often SiLU appears in the equation.",
        ),
        Mistake(
            "the product is bent",
            lambda x, g, u, d: F.silu((x @ g.T) * (x @ u.T)) @ d.T,
            "You gate first, then bend. What is inside the parentheses of SiLU?",
            "Bend before you multiply.",
        ),
    ),
    "Two products with x, one of them bent, multiplied number by number, and a third "
    "matrix. nn.Linear computes x @ weight.T.",
    trains=True,
    shared=output_of_the_layer,
)


# --- a fair width -----------------------------------------------------------------


def hidden_width() -> int:
    """Three matrices with as many weights as the two of 768 → 3,072 → 768."""
    two = 2 * 768 * 3072
    return two // (3 * 768)


HIDDEN = Exercise(
    "llama.hidden",
    "Wants the hidden width at which SwiGLU has as many weights as a feed-forward "
    "768 → 3,072 → 768, biases aside. Only then is a comparison fair.",
    (),
    hidden_width,
    lambda generator: [()],
    (
        Mistake(
            "the same width",
            lambda: 3072,
            "Count the matrices of both. Now one of the layers is larger by half.",
            "Each matrix has 768 · width weights. How many of them are there?",
        ),
        Mistake(
            "half the width",
            lambda: 1536,
            "Two matrices go up in place of one, true. But the one that comes down "
            "got narrower, too.",
            "Write it as an equation: the number of matrices times 768 times width.",
        ),
        Mistake(
            "a quarter less",
            lambda: 2304,
            "You take a quarter off. How many matrices were there, and how many are "
            "there now?",
            "Write down the number of weights of both layers, and set them equal.",
        ),
        Mistake(
            "the wrong way round",
            lambda: 4608,
            "More matrices *and* wider ones?",
            "Your factor is right. Multiply, or divide?",
        ),
        Mistake(
            "a share of the outer width",
            lambda: 512,
            "The outer width, 768, is given. Which one may shrink?",
            "Your factor is right. What is it a factor of?",
        ),
    ),
    "Weights of the old layer: two matrices. Weights of the new one: three. Set them "
    "equal.",
    predicts=True,
)


EXERCISES = (RMS, GATE, HIDDEN)
